// `c_code`: the Compass C that users read. A road of its own from the parsed kernel, with the passes of toolchain.md 3
// and 4 that show in the text; what is executed goes through lower() and the host dialect instead.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// The text of one kernel from its parsed (not lowered) form: `#include <compass/dsl.h>`, constant arrays, DMA macros,
// prototypes, definitions. `disabled_passes` takes the names of toolchain.md 3 and 4, with or without "tir." in front;
// as with TVM's pass context, names that mean nothing here change nothing. Fails for a module that verify() refuses.
Result<std::string> compass_c_text(const Module& parsed, const Target& target,
                                   std::span<const std::string> disabled_passes = {});

// The module that compass_c_text() prints, after its passes. It computes what `parsed` does as long as 32-bit indices
// do not overflow and dividends are not negative.
Result<Module> compass_c_module(const Module& parsed, const Target& target,
                                std::span<const std::string> disabled_passes = {});

// The names of the passes that change the text, in order.
std::vector<std::string_view> compass_c_passes();

}  // namespace aipu::tir
