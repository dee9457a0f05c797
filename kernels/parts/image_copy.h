// Copies of images for the kernels that read them without looking for padding (templates/quantized_conv.py, surround).
#pragma once

#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// Lanes of 32 bits of a vector of sums: the language's dot products are defined on multiples of 256 bits; narrower
// registers take a vector in two halves.
int dot_lanes(const tir::Target& target);

// x becomes a copy of the image, with the padding if wanted, whose value is `zero`, as `to` (int16: minus the zero
// point; the other type of 8 bits: moved by 128), in memory that may be read four bytes at a time, even beyond the end.
// The geometry becomes that of the copy.
Status copy_image(SetupContext& context, DType from, DType to, int64_t zero, bool with_padding,
                  SpatialGeometry* geometry, PointerArgument* x);

}  // namespace aipu::kernels
