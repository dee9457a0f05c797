// C's fmod as a function of TIR, without a rounding, whatever the size of the quotient.
#pragma once

#include "codegen/tir/stmt.h"

namespace aipu::te {

// "fmod_float32" of float32, "fmod_float64" of float64. Narrower floats lose nothing in float32.
tir::PrimFuncPtr fmod_function(DType dtype);

}  // namespace aipu::te
