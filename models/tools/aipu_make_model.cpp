// aipu-make-model NAME -o FILE.onnx [--seed S]: writes one of the project's own models.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "models/networks.h"
#include "runtime/base/file.h"

namespace {

int usage(FILE* out) {
  std::fprintf(out, "usage: aipu-make-model NAME -o FILE.onnx [--seed S]\n\nmodels:\n");
  for (const auto& network : aipu::models::networks()) {
    std::fprintf(out, "  %-20.*s%.*s\n", static_cast<int>(network.name.size()), network.name.data(),
                 static_cast<int>(network.summary.size()), network.summary.data());
  }
  return out == stdout ? 0 : 1;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "aipu-make-model: %s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string name;
  std::string output;
  uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") return usage(stdout);
    if (argument == "-o" || argument == "--seed") {
      if (i + 1 == argc) return fail(argument + " needs a value");
      const std::string value = argv[++i];
      if (argument == "-o") {
        output = value;
      } else {
        char* end = nullptr;
        seed = std::strtoull(value.c_str(), &end, 10);
        if (value.empty() || *end != '\0') return fail("--seed " + value + ": expected a number");
      }
    } else if (!argument.empty() && argument[0] == '-') {
      return fail("unknown option " + argument);
    } else if (name.empty()) {
      name = argument;
    } else {
      return fail("more than one model: " + name + ", " + argument);
    }
  }
  if (name.empty() || output.empty()) return usage(stderr);
  const auto* network = aipu::models::find_network(name);
  if (network == nullptr) return fail("there is no model '" + name + "'; --help lists them");
  if (auto status = aipu::prepare_output(output); !status.ok()) return fail(status.message());
  if (auto status = network->build(seed)->save(output); !status.ok()) return fail(status.message());
  return 0;
}
