// Declares that a launch can write its result as a part of a wider tensor (a Concat written in place).
#pragma once

#include <cstddef>

#include "kernels/parts/fusion.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// For the launch made last: argument `pointer` is where the epilogue's result goes, argument `row_stride` the distance
// of its rows. Nothing is declared when an operand of the epilogue is read with the same row stride.
void declare_strided_output(SetupContext& context, const Epilogue& epilogue, size_t pointer, size_t row_stride);

}  // namespace aipu::kernels
