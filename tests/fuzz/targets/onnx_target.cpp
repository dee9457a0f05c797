// An ONNX model, converted from beginning to end for a CPU or for X2; what that writes is loaded and run.
#include "tests/fuzz/onnx_mutator.h"
#include "tests/fuzz/onnx_samples.h"
#include "tests/fuzz/targets/conversion.h"
#include "tests/fuzz/targets/run_file.h"
#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {

void one_input(std::string_view input) {
  const Conversion conversion = convert(input, input.size() % 2 == 0 ? "host-baseline" : "X2_1204");
  if (!conversion.status.ok()) return check_error(conversion.status);
  const FileOutcome outcome = run_file(std::as_bytes(std::span(conversion.file)));
  check(outcome.load.ok(), "a file that was just written cannot be loaded: " + outcome.load.message());
  if (outcome.run.ok()) return;
  check_error(outcome.run);
  check(outcome.run.message().find("Out of bounds") == std::string::npos, outcome.run.message());
}

uint64_t runs() { return 150; }

std::vector<std::string> seeds() {
  std::vector<std::string> result;
  for (auto& [name, bytes] : sample_models()) result.push_back(std::move(bytes));
  return result;
}

// As a message where it is one.
std::string mutate(const std::string& input, const std::string& other, Random& random) {
  const std::string damaged = below(random, 3) == 0 ? std::string() : damage_fields(input, random);
  return damaged.empty() ? damage_bytes(input, other, random) : damaged;
}

}  // namespace aipu::fuzz
