// Declares that a launch can write its result as a part of a wider tensor (a Concat written in place).
#pragma once

#include "kernels/parts/fusion.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// Of the launch made last, which writes the epilogue's result to its parameter "out", in rows that are "ldc" elements
// apart. Nothing is declared when an operand of the epilogue is read with the same row stride.
Status declare_strided_output(SetupContext& context, const Epilogue& epilogue);

}  // namespace aipu::kernels
