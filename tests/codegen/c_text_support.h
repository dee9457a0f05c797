// Shared by the tests of c_code: DSL source in, text out.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "codegen/compass_c/c_text.h"
#include "kernels/dsl/parse.h"

namespace aipu::tir::testing {

// The text of function `entry`; the message when there is none.
inline std::string c_text(const std::string& source, std::string_view entry = "f",
                          const std::vector<std::string>& disabled = {}) {
  const auto module =
      dsl::parse_kernel({"kernel.py", "from aipu import script as S\n" + source, 0}, entry, dsl::TemplateParams());
  if (!module.ok()) return module.status().message();
  const auto target = find_target("X2_1204");
  const auto text = compass_c_text(*module, *target, disabled);
  return text.ok() ? *text : text.status().message();
}

// A kernel with parameters of all kinds around some statements.
inline std::string kernel(std::string_view statements) {
  std::string source =
      "@S.prim_func\n"
      "def f(a: S.ptr('i32', 'global'), b: S.ptr('i32', 'global'), c: S.ptr('u8', 'global'), h: S.ptr('fp16', "
      "'global'),\n"
      "      x: S.ptr('fp32', 'global'), va: S.ptr('i32x8', 'global'), vx: S.ptr('fp32x8', 'global'), vs: "
      "S.ptr('i16x16', 'global'),\n"
      "      vb: S.ptr('i8x32', 'global'), vu: S.ptr('u8x32', 'global'), vh: S.ptr('fp16x16', 'global'), n: S.i32, m: "
      "S.i32, k: S.fp32,\n"
      "      s: S.i16, u: S.u8, g: S.fp16):\n";
  std::string rest(statements);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    source += "    " + rest.substr(0, end) + "\n";
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return source;
}

// The lines of the entry's body, without the last barrier.
inline std::string body(std::string_view statements, const std::vector<std::string>& disabled = {}) {
  const std::string text = c_text(kernel(statements), "f", disabled);
  const size_t open = text.find(" {\n"), close = text.find("  barrier(CLK_LOCAL_MEM_FENCE);\n}\n");
  if (open == std::string::npos || close == std::string::npos) return text;
  std::string lines, rest = text.substr(open + 3, close - open - 3);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    lines += (lines.empty() ? "" : "\n") + rest.substr(2, end - 2);
    rest = rest.substr(end + 1);
  }
  return lines;
}

}  // namespace aipu::tir::testing
