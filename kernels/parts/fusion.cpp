#include "kernels/parts/fusion.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "kernels/parts/bounded_expression.h"
#include "kernels/parts/quantized_function.h"
#include "kernels/parts/strided_map.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::NodeId;
using graph::Shape;
using graph::ValueId;

bool per_axis_quantisation(const Graph& graph, const graph::Node& node) {
  if (node.op != "QuantizeLinear" && node.op != "DequantizeLinear") return false;
  return graph.type(node.inputs[1]).rank() != 0 && graph::element_count(graph.type(node.inputs[1]).shape) != Dim(1);
}

}  // namespace

std::string_view operand_mode(const Shape& operand, const Shape& space) {
  if (graph::element_count(operand) == Dim(1)) return "scalar";
  if (operand.size() > space.size() || operand.empty()) return "";
  const size_t skip = space.size() - operand.size();
  bool leading_ones = true;
  for (size_t i = 0; i + 1 < operand.size(); ++i) leading_ones = leading_ones && operand[i] == Dim(1);
  if (leading_ones && operand.back() == space.back()) {
    // With every outer extent 1 the two readings agree; a column is the cheaper one.
    return "column";
  }
  if (skip == 0 && operand == space) return "full";
  bool outer_ones = true;
  for (size_t i = 0; i < skip; ++i) outer_ones = outer_ones && space[i] == Dim(1);
  return outer_ones && std::equal(operand.begin(), operand.end(), space.begin() + static_cast<ptrdiff_t>(skip)) ? "full"
                                                                                                                : "";
}

std::vector<NodeId> epilogue_nodes(const Graph& graph, NodeId anchor) {
  const ValueId output = graph.node(anchor).outputs[0];
  if (!output.valid() || graph.is_graph_output(output)) return {};
  for (size_t i = 1; i < graph.node(anchor).outputs.size(); ++i) {
    if (graph.node(anchor).outputs[i].valid()) return {};
  }
  std::vector<NodeId> group = grow_elementwise_group(graph, anchor);
  // Cut the group at the first operand that an epilogue cannot index, then back to a closed prefix.
  const Shape& space = graph.type(output).shape;
  const auto inside = [&](ValueId value, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const auto& outputs = graph.node(group[i]).outputs;
      if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return true;
    }
    return false;
  };
  size_t usable = 1;
  for (; usable < group.size(); ++usable) {
    const graph::Node& node = graph.node(group[usable]);
    // A fault needs to know which lanes count; epilogues are not told.
    bool fits = !per_axis_quantisation(graph, node) && !elementwise_reports(graph, group[usable]);
    for (const ValueId input : node.inputs) {
      fits = fits && (!input.valid() || inside(input, usable) || !operand_mode(graph.type(input).shape, space).empty());
    }
    if (!fits) break;
  }
  while (usable > 1) {
    size_t escaping = 0;
    for (size_t i = 0; i < usable; ++i) {
      const bool escapes = leaves_group(graph, graph.node(group[i]).outputs[0], std::span(group).first(usable));
      escaping += escapes ? 1 : 0;
      if (escapes && i + 1 < usable) escaping = 2;
    }
    if (escaping <= 1) break;
    --usable;
  }
  return {group.begin() + 1, group.begin() + static_cast<ptrdiff_t>(usable)};
}

graph::Claim claim_with_epilogue(const Graph& graph, NodeId anchor, int score) {
  graph::Claim claim{anchor, {anchor}, score};
  for (const NodeId id : epilogue_nodes(graph, anchor)) claim.nodes.push_back(id);
  return claim;
}

namespace {

// Arguments stay in registers that a tile has no use for but its accumulators. So numbers are in the source, unless so
// many epilogues differ in nothing else that compiling a kernel for each would take long. On CPUs long
// epilogues are a loop of their own, beside which a register costs nothing.
constexpr size_t kMostNumbersInSource = 8;

// Four vectors of int32 become one of bytes by two instructions for each pair and one for all (vpackssdw, vpackuswb,
// vpermd): CPUs with vectors of 512 bits have them.
bool packs_bytes(const tir::Target& target) { return target.vector_bits == 512 && !target.costs.has_value(); }

Result<PackedExpression> epilogue_expression(SetupContext& context, const std::vector<NodeId>& nodes, ValueId seed,
                                             const AnchorArithmetic& arithmetic, std::optional<double> magnitude,
                                             bool in_pieces) {
  // A target whose instructions are counted is an NPU: its conversions round and saturate.
  const bool is_npu = context.target().costs.has_value();
  const auto fuse = [&](bool in_source) -> Result<PackedExpression> {
    if (magnitude && packs_bytes(context.target()))
      return fuse_packed_expression(context.graph(), nodes, seed, *magnitude, in_source, in_pieces);
    PackedExpression plain;
    AIPU_ASSIGN_OR_RETURN(
        plain.fused,
        is_npu && arithmetic.is_bounded
            ? fuse_bounded_expression(context.graph(), nodes, seed, in_source, context.target().native_fma)
            : fuse_expression(context.graph(), nodes, seed, in_source, in_pieces, context.target().native_fma));
    return plain;
  };
  AIPU_ASSIGN_OR_RETURN(PackedExpression any, fuse(false));
  const ExpressionFunction& function = any.fused.function;
  if (any.fused.numbers.empty() || arithmetic.shares_kernels || ((function.is_long() || any.fused.looks_up) && !is_npu))
    return any;
  AIPU_ASSIGN_OR_RETURN(PackedExpression one, fuse(true));
  return context.is_among_first(function.source("compute"), one.fused.function.source("compute"), kMostNumbersInSource)
             ? std::move(one)
             : std::move(any);
}

}  // namespace

graph::ValueId stored_value(const SetupContext& context) {
  NodeId last = context.group().anchor;
  for (const NodeId id : context.group().nodes)
    if (id != context.group().anchor) last = id;
  return context.graph().node(last).outputs[0];
}

DType accumulator_dtype(DType stored) { return compute_dtype(stored); }

namespace {

std::vector<NodeId> neighbours(const SetupContext& context) {
  std::vector<NodeId> nodes;
  for (const NodeId id : context.group().nodes) {
    // What moves the result (parts/column_blocks.h) is the plugin's business.
    if (id != context.group().anchor && is_elementwise_expression(context.graph(), context.graph().node(id)))
      nodes.push_back(id);
  }
  return nodes;
}

Result<Epilogue> bind_nodes(SetupContext& context, const std::vector<NodeId>& nodes, ValueId anchor_output,
                            DType accumulator, const AnchorArithmetic& arithmetic, std::optional<double> magnitude,
                            dsl::TemplateParams* params) {
  const Graph& graph = context.graph();
  Epilogue epilogue;
  epilogue.result = anchor_output;
  std::vector<FusedExpression::Number> numbers;
  std::vector<graph::ConstantPtr> tables;
  const Expression v = Expression::atom("v");
  ExpressionFunction function{{"v", "x"}, {}, v};
  bool is_long = false, packs = false;
  std::optional<QuantizedFunction> quantized;
  // Of whole vectors only: for others the instruction has not got enough lanes.
  const auto lanes = params->values().find("VL");
  const bool in_pieces =
      QuantizedFunction::pays_on(context.target()) && accumulator == DType::kF32 &&
      (lanes == params->values().end() || std::get<int64_t>(lanes->second.value) == context.lanes(DType::kF32));
  if (QuantizedFunction::pays_on(context.target()) && arithmetic.is_bounded)
    quantized = fit_quantized_function(graph, nodes, anchor_output);
  const std::vector<NodeId> computed(
      nodes.begin(), quantized ? nodes.begin() + static_cast<ptrdiff_t>(quantized->first) : nodes.end());
  if (!computed.empty()) {
    if (quantized) magnitude.reset();  // what it is a function of is no integer
    AIPU_ASSIGN_OR_RETURN(PackedExpression packed,
                          epilogue_expression(context, computed, anchor_output, arithmetic, magnitude, in_pieces));
    FusedExpression& fused = packed.fused;
    is_long = fused.looks_up;
    packs = packed.packs;
    epilogue.extras = fused.operands;
    numbers = std::move(fused.numbers);
    tables = std::move(fused.tables);
    epilogue.result = fused.result;
    function = std::move(fused.function);
    fused.functions.bind(params);
    for (const auto& [name, called] : fused.functions.functions) is_long = is_long || is_long_source(called.text);
  }
  // The anchor's own result has its stored dtype; with a wider accumulator nothing is rounded in between, which is what
  // fusion is for.
  const Shape& space = graph.type(anchor_output).shape;
  std::vector<std::string> modes, conversions;
  dsl::CapturedList types;
  const auto add = [&](ValueId value, std::string_view mode) {
    const DType dtype = graph.type(value).dtype;
    const DType stored = dtype == DType::kBool ? DType::kU8 : dtype;
    types.push_back({dsl::CapturedType{tir::Type::pointer_to(stored, 1, tir::Scope::kGlobal)}});
    modes.emplace_back(mode);
    epilogue.modes.emplace_back(mode);
    epilogue.types.push_back(stored);
    conversions.emplace_back(dtype == DType::kBool ? "mask" : compute_dtype(dtype) != dtype ? "float32" : "none");
    epilogue.extra_arguments.emplace_back(PointerArgument{context.value(value)});
  };
  for (const ValueId extra : epilogue.extras) add(extra, operand_mode(graph.type(extra).shape, space));
  const auto add_number = [&](const FusedExpression::Number& number) {
    types.push_back(number_type(number));
    modes.emplace_back("number");
    epilogue.modes.emplace_back("number");
    epilogue.types.push_back(number.dtype);
    conversions.emplace_back("none");
    epilogue.extra_arguments.push_back(number_argument(number));
  };
  const auto add_table = [&](const graph::ConstantPtr& table) {
    types.push_back({dsl::CapturedType{tir::Type::pointer_to(table->dtype(), 1, tir::Scope::kGlobal)}});
    modes.emplace_back("table");
    epilogue.modes.emplace_back("table");
    epilogue.types.push_back(table->dtype());
    conversions.emplace_back("none");
    epilogue.extra_arguments.emplace_back(PointerArgument{context.add_constant(table)});
  };
  for (const graph::ConstantPtr& table : tables) add_table(table);
  for (const FusedExpression::Number& number : numbers) add_number(number);
  if (quantized) {
    is_long = true;
    epilogue.result = graph.node(nodes.back()).outputs[0];
    const auto count = static_cast<int64_t>(quantized->table.size());
    quantized->append_to(&function, function.result, fmt::format("x[{}]", modes.size()),
                         graph.type(epilogue.result).dtype);
    add_table(graph::Constant::of<float>(DType::kF32, {count}, quantized->table));
  }
  std::vector<ExpressionFunction::Statement> before;
  const auto factor = [&](double value) {
    std::string number = fmt::format("{:.17g}", value);
    if (is_floating(accumulator) && value == std::floor(value)) number += ".0";
    Expression literal =
        Expression::call("cast", {Expression::atom(std::move(number)),
                                  Expression::atom(fmt::format("f\"{}x{{VL}}\"", dtype_name(accumulator)))});
    const bool may_be_argument = accumulator == DType::kF32 || accumulator == DType::kF64;
    if (!may_be_argument || context.is_among_first("factor", literal.text(), kMostNumbersInSource)) return literal;
    add_number({value, accumulator});
    return Expression::atom(fmt::format("x[{}]", modes.size() - 1));
  };
  if (arithmetic.scale != 1) before.push_back({"v", v * factor(arithmetic.scale)});
  if (arithmetic.addend.valid()) {
    Expression value = Expression::atom(fmt::format("x[{}]", modes.size()));
    add(arithmetic.addend, operand_mode(graph.type(arithmetic.addend).shape, space));
    if (compute_dtype(graph.type(arithmetic.addend).dtype) != accumulator) {
      value = Expression::call("cast", {value, Expression::atom(fmt::format("\"{}\"", dtype_name(accumulator)))});
    }
    if (arithmetic.addend_scale != 1) value = value * factor(arithmetic.addend_scale);
    before.push_back({"v", v + value});
  }
  function.statements.insert(function.statements.begin(), before.begin(), before.end());
  const DType out = graph.type(epilogue.result).dtype;
  params->set("EPILOGUE_LOOP", is_long || function.is_long()).set("PACKS", packs);
  params->set("extra_types", dsl::Captured{std::move(types)})
      .set("extra_modes", std::move(modes))
      .set("extra_conversions", std::move(conversions))
      .set("N_EXTRA", static_cast<int64_t>(epilogue.extra_arguments.size()))
      .set("OUT", std::string(out == DType::kBool ? "uint8" : dtype_name(out)))
      .set("out_conversion", std::string(out == DType::kBool ? "mask" : "none"))
      .set_source("epilogue_compute", function.source("epilogue_compute"));
  return epilogue;
}

}  // namespace

Result<Epilogue> bind_epilogue(SetupContext& context, ValueId anchor_output, DType accumulator,
                               const AnchorArithmetic& arithmetic, dsl::TemplateParams* params) {
  return bind_nodes(context, neighbours(context), anchor_output, accumulator, arithmetic, {}, params);
}

Result<Epilogue> bind_epilogue(SetupContext& context, const std::vector<NodeId>& nodes, ValueId anchor_output,
                               DType accumulator, const AnchorArithmetic& arithmetic, dsl::TemplateParams* params) {
  return bind_nodes(context, nodes, anchor_output, accumulator, arithmetic, {}, params);
}

Result<Epilogue> bind_packed_epilogue(SetupContext& context, ValueId anchor_output, DType accumulator,
                                      const AnchorArithmetic& arithmetic, std::optional<double> magnitude,
                                      dsl::TemplateParams* params) {
  return bind_nodes(context, neighbours(context), anchor_output, accumulator, arithmetic, magnitude, params);
}

Result<std::vector<ValueId>> epilogue_operands(const SetupContext& context, const AnchorArithmetic& arithmetic) {
  const std::vector<NodeId> nodes = neighbours(context);
  std::vector<ValueId> operands;
  if (!nodes.empty()) {
    AIPU_ASSIGN_OR_RETURN(FusedExpression fused, fuse_expression(context.graph(), nodes, context.anchor().outputs[0]));
    operands = std::move(fused.operands);
  }
  if (arithmetic.addend.valid()) operands.push_back(arithmetic.addend);
  return operands;
}

void reuse_operand_memory(SetupContext& context, const Epilogue& epilogue, dsl::TemplateParams* params) {
  const Graph& graph = context.graph();
  const graph::TensorType& out = graph.type(epilogue.result);
  const auto& inputs = context.anchor().inputs;
  for (const ValueId extra : epilogue.extras) {
    // What the anchor itself reads, it reads all over the place.
    if (std::find(inputs.begin(), inputs.end(), extra) != inputs.end()) continue;
    const graph::TensorType& type = graph.type(extra);
    if (type.dtype != out.dtype || operand_mode(type.shape, out.shape) != "full") continue;
    context.implementation.in_place.emplace_back(epilogue.result, extra);
    params->set("__no_restrict__", true);
  }
}

}  // namespace aipu::kernels
