#include "runtime/tools/onnx_test/run_elsewhere.h"

#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/base/text.h"
#include "runtime/tools/inputs.h"

namespace aipu::tools {
namespace {

// " OPTION NAME=FILE" for each array, written to `scratch`.
Result<std::string> written(const char* option, std::span<const NamedArray> arrays, const std::string& scratch) {
  std::string words;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto& [name, array] = arrays[i];
    const std::string file = str_cat(scratch, "/", option + 2, "_", i, ".npy");
    AIPU_RETURN_IF_ERROR(write_npy(file, array->dtype, array->shape, array->data.data()));
    words += str_cat(" ", option, " ", quoted_for_shell(str_cat(name, "=", file)));
  }
  return words;
}

// As printf's %.17g: the number that was given.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Status run_elsewhere(const std::string& command, const std::string& model, std::span<const NamedArray> inputs,
                     std::span<const NamedArray> expected, const Tolerance& tolerance, const std::string& scratch) {
  AIPU_ASSIGN_OR_RETURN(const std::string given, written("--input", inputs, scratch));
  AIPU_ASSIGN_OR_RETURN(const std::string wanted, written("--expect", expected, scratch));
  const std::string line = str_cat(command, " ", quoted_for_shell(model), given, wanted, " --rtol ",
                                   number(tolerance.relative), " --atol ", number(tolerance.absolute), " --quiet 2>&1");
  FILE* pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) return io_error(str_cat("cannot start '", command, "': ", std::strerror(errno)));
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string why = WIFEXITED(status) ? str_cat("exit code ", WEXITSTATUS(status)) : std::string("it was killed");
  const std::string said = last_line(std::move(output));
  return invalid_argument(said.empty() ? str_cat("'", command, "' failed: ", why) : said);
}

}  // namespace aipu::tools
