// Compass C: what users read as `c_code`, and what is compiled for Compass NPUs (cxx_text.h). A road of its own from
// the parsed kernel, with the passes of toolchain.md 3 and 4 that show in the text.
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

// The module that compass_c_text() prints, after its passes. It computes what `parsed` does as long as 32-bit
// arithmetic on parameters and counters does not overflow.
Result<Module> compass_c_module(const Module& parsed, const Target& target,
                                std::span<const std::string> disabled_passes = {});

// Whether there are vectors in it that C has no type for: of 20 lanes, say.
bool has_vector_without_type(const Module& shown);

// The text of a module that compass_c_module() made.
struct CompassText {
  std::string c;
  std::string entry;               // its name in the text
  std::vector<const Var*> arrays;  // those in lsram and shared memory, in the order in which the text declares them
};
// `line_marks`: with #line directives, see PrinterShell::mark_lines().
Result<CompassText> print_compass_c(const Module& shown, const Target& target,
                                    std::span<const std::string> disabled_passes, bool line_marks = false);

// The names of the passes that change the text, in order.
std::vector<std::string_view> compass_c_passes();

}  // namespace aipu::tir
