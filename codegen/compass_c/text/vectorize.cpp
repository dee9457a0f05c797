#include "codegen/compass_c/text/passes.h"

namespace aipu::tir::c_text {
PrimFunc vectorize_loops(const PrimFunc& function) { return function; }
}  // namespace aipu::tir::c_text
