// Epilogue fusion: how a plugin whose anchor accumulates (Conv, MatMul, Gemm, pooling, reductions) takes its
// elementwise neighbours along.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/parts/elementwise_expression.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// The elementwise nodes after `anchor` that can run in its epilogue: they work in the anchor's output space, and every
// other operand is a scalar, a vector along the last axis, or a full tensor of that space. Topological order, without
// the anchor; empty when nothing can be fused.
std::vector<graph::NodeId> epilogue_nodes(const graph::Graph& graph, graph::NodeId anchor);

// A claim of the anchor and its epilogue_nodes().
graph::Claim claim_with_epilogue(const graph::Graph& graph, graph::NodeId anchor, int score = 20);

// The anchor's epilogue, for templates that import epilogue.py.
struct Epilogue {
  std::vector<graph::ValueId> extras;
  std::vector<KernelArgument> extra_arguments;  // "extras": of the extras, then of the expression's tables and numbers
  graph::ValueId result;                        // the value the group stores
  // Of extra_arguments; numbers, which are arguments by themselves, have the mode "number", what the expression itself
  // looks up "table".
  std::vector<std::string> modes;
  std::vector<DType> types;  // as stored
};

// What the anchor itself does to its accumulators before the fused neighbours see them: v = v * scale + addend *
// addend_scale.
struct AnchorArithmetic {
  double scale = 1;
  graph::ValueId addend;  // a bias or Gemm's C; must have an operand mode
  double addend_scale = 1;
  bool is_bounded = false;      // what the neighbours see are numbers of less than 2^96, never infinity or NaN
  bool shares_kernels = false;  // numbers are arguments, for a kernel so long that one more costs more than a register
};

// The value that a group with an epilogue stores: that of the last node.
graph::ValueId stored_value(const SetupContext& context);

// How an epilogue can index an operand of a given shape in an output space: "scalar", "column" (by the last axis),
// "full", or "" when it cannot.
std::string_view operand_mode(const graph::Shape& operand, const graph::Shape& space);

// Sets extra_types, extra_modes, extra_conversions, N_EXTRA, OUT, out_conversion, EPILOGUE_LOOP and epilogue_compute.
// `accumulator` is the dtype of the anchor's accumulators. The group's nodes other than the anchor are the epilogue.
Result<Epilogue> bind_epilogue(SetupContext& context, graph::ValueId anchor_output, DType accumulator,
                               const AnchorArithmetic& arithmetic, dsl::TemplateParams* params);
// The same of some of the group's nodes, in topological order.
Result<Epilogue> bind_epilogue(SetupContext& context, const std::vector<graph::NodeId>& nodes,
                               graph::ValueId anchor_output, DType accumulator, const AnchorArithmetic& arithmetic,
                               dsl::TemplateParams* params);

// bind_epilogue() where the neighbours see numbers of at most that magnitude, never NaN. On a target that narrows four
// vectors of int32 to one of bytes in a few instructions PACKS may be set, for epilogue.py: a QuantizeLinear at the end
// is left to that then. Without a magnitude it is bind_epilogue().
Result<Epilogue> bind_packed_epilogue(SetupContext& context, graph::ValueId anchor_output, DType accumulator,
                                      const AnchorArithmetic& arithmetic, std::optional<double> magnitude,
                                      dsl::TemplateParams* params);

// The values that bind_epilogue() will find to be operands: its `extras`, and then the addend.
Result<std::vector<graph::ValueId>> epilogue_operands(const SetupContext& context, const AnchorArithmetic& arithmetic);

// Lets the output take over the memory of an operand that the epilogue reads element by element (a residual). For
// templates that read such an element right before they store it, once. Call after bind_epilogue().
void reuse_operand_memory(SetupContext& context, const Epilogue& epilogue, dsl::TemplateParams* params);

// Accumulators' dtype for operands of a stored dtype: float32 for 16-bit floats, itself otherwise.
DType accumulator_dtype(DType stored);

}  // namespace aipu::kernels
