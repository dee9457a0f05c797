// Epilogues that end with bytes, for templates that saturate several vectors of them at once.
#pragma once

#include <optional>

#include "kernels/parts/fusion.h"

namespace aipu::kernels {

// bind_epilogue() where the neighbours see numbers of at most that magnitude, never NaN. On a target that narrows four
// vectors of int32 to one of bytes in a few instructions PACKS may be set, for epilogue.py: a QuantizeLinear at the end
// is left to that then. Without a magnitude it is bind_epilogue().
Result<Epilogue> bind_packed_epilogue(SetupContext& context, graph::ValueId anchor_output, DType accumulator,
                                      const AnchorArithmetic& arithmetic, std::optional<double> magnitude,
                                      dsl::TemplateParams* params);

}  // namespace aipu::kernels
