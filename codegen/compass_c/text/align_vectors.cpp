#include "codegen/compass_c/text/passes.h"

namespace aipu::tir::c_text {
Module align_vector_width(const Module& module) { return module; }
}  // namespace aipu::tir::c_text
