// Lowering: the list of TIR passes between a parsed kernel and printable TIR, in lower.cpp, which reads as a table of
// contents.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"

namespace aipu::tir {

struct LowerOptions {
  std::vector<std::string> disabled_passes;
  // Called after every pass that changed the module, for --dump-ir: (index, pass name, module).
  std::function<void(int, std::string_view, const Module&)> on_pass;
};

// Built -> Printable. The interpreter runs both forms.
//
// Printable means, on top of what verify() checks:
//  - all loops are serial;
//  - the lanes of every vector and mask are a power of two (at least 2), and lanes * bits of the element <=
//    target.vector_bits (a lane of a mask counts 8 bits);
//  - pointers point to scalars or to such vectors;
//  - fma occurs only where target.native_fma.
// Fails for a module that verify() refuses, an unrolled loop without constant bounds, an intrinsic on native vectors
// that are wider than the target's registers.
Result<Module> lower(const Module& module, const Target& target, const LowerOptions& options = {});

// The names of the passes, in order; one may occur several times.
std::vector<std::string_view> lowering_passes();

}  // namespace aipu::tir
