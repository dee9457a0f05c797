// Copies whose source and target are contiguous along different dimensions (Transpose, changes between NCHW and NHWC):
// tiles that turn over in registers, templates/transpose.py.
#pragma once

#include "kernels/parts/strided_map.h"

namespace aipu::kernels {

// For a map without expression whose dimensions have been merged: launches the copy and returns true, or returns false
// when it is none of these.
Result<bool> launch_transposed_copy(SetupContext& context, const StridedMap& map);

}  // namespace aipu::kernels
