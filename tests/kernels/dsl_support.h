// Shared by the tests of the DSL front end.
#pragma once

#include <string>
#include <string_view>

#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "kernels/dsl/parse.h"

namespace aipu::dsl_test {

inline const std::string kHeader = "from aipu import script as S\n";

inline Result<tir::Module> compile(std::string source, std::string_view entry = "f",
                                   const dsl::TemplateParams& params = {}) {
  return dsl::parse_kernel({"kernel.py", kHeader + std::move(source), 0}, entry, params);
}

// The text form without source positions, one statement per line; an error's message when it does not compile or
// verify.
inline std::string tir_text(std::string source, std::string_view entry = "f", const dsl::TemplateParams& params = {}) {
  auto module = compile(std::move(source), entry, params);
  if (!module.ok()) return module.status().message();
  std::string text = tir::print_module(*module);
  for (size_t at = text.find("  @\""); at != std::string::npos; at = text.find("  @\"", at))
    text.erase(at, text.find('\n', at) - at);
  if (const Status status = tir::verify(*module); !status.ok()) return "verify: " + status.message() + "\n" + text;
  return text;
}

// The body of the entry alone: what is between its braces.
inline std::string body_text(std::string source, const dsl::TemplateParams& params = {}) {
  std::string text = tir_text(std::move(source), "f", params);
  const size_t open = text.find("{\n");
  const size_t close = text.find("\n}\n");
  return open == std::string::npos || close == std::string::npos ? text : text.substr(open + 2, close - open - 1);
}

}  // namespace aipu::dsl_test
