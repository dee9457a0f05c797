// decompose: ops that are short programs of other ops and have no kernel of their own.
//
//   BatchNormalization (constants are handled before, by fold_batch_normalization)
//                              =>  (x - mean) / sqrt(var + eps) * scale + B, the vectors reshaped to [C,1,...]
//   GroupNormalization         =>  reshape to [N,groups,rest], normalise the last axis, reshape back, * scale + bias
//   LayerNormalization, RMSNormalization whose scale or bias broadcasts inside the normalised axes
//                              =>  the same without, * scale + bias
//   MeanVarianceNormalization  =>  (x - mean) / (sqrt(mean((x - mean)^2)) + 1e-9)
//   LpNormalization            =>  x / ReduceL1|ReduceL2(x), x / 1 where that is 0
//   GlobalLpPool               =>  ReduceL1 | ReduceL2 | ReduceSum(|x|^p)^(1/p) over the spatial axes
//   Hardmax                    =>  Equal(ArgMax(x), 0..extent-1) as numbers
//   Dropout with a used mask   =>  x, and all true
//   DynamicQuantizeLinear      =>  ReduceMin, ReduceMax, arithmetic, QuantizeLinear; the scale of zeros is 1
//   ScatterElements, ScatterND that combine floats of 16 bits
//                              =>  the same of float32, cast
//   ReduceLogSumExp of integers
//                              =>  that of float64, cast
//   MatMul whose batches are broadcast in more than two groups of axes
//                              =>  the same of expanded operands
//   Sum, Max, Min, Mean of more than 8 operands
//                              =>  the same of a few at a time
//   QLinearConv, QLinearMatMul, com.microsoft::QLinearAdd
//                              =>  DequantizeLinear, the op on float32, QuantizeLinear
//   Einsum                     =>  decompose_einsum.cpp
//   DFT, STFT                  =>  decompose_signal.cpp
//   MaxUnpool, DeformConv      =>  decompose_image.cpp
//   ConvTranspose of stride 1, or of few channels with windows side by side  =>  decompose_conv_transpose.cpp
//
// Runs before layouts are assigned: all spatial ops are NCHW here.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/ir/op_def.h"
#include "graph/passes/decompose_rules.h"
#include "graph/passes/passes.h"

namespace aipu::graph {
namespace {

Shape per_channel_shape(const Shape& x) {
  Shape shape(x.size() - 1, Dim(1));
  if (!shape.empty()) shape[0] = x[1];
  return shape;
}

std::vector<ValueId> batch_normalization(DecomposeBuilder& b, const DecomposeSite& s) {
  const Shape shape = per_channel_shape(b.shape(s.inputs[0]));
  const DType wide = b.graph().type(s.inputs[0]).dtype;
  std::vector<ValueId> v;
  for (size_t k = 1; k < 5; ++k) {
    ValueId value = b.reshape(s.inputs[k], shape);
    if (b.ok() && b.graph().type(value).dtype != wide) value = b.cast(value, wide);
    v.push_back(value);
  }
  if (!b.ok()) return {};
  const ValueId deviation = b.op("Sqrt", {b.op("Add", {v[3], b.number(wide, s.attributes.f("epsilon"))})});
  const ValueId factor = b.op("Div", {v[0], deviation});
  const ValueId centred = b.op("Sub", {s.inputs[0], v[2]});
  return {b.op("Add", {b.op("Mul", {centred, factor}), v[1]})};
}

std::vector<ValueId> group_normalization(DecomposeBuilder& b, const DecomposeSite& s) {
  const ValueId x = s.inputs[0];
  const Shape full = b.shape(x);
  const Dim groups = s.attributes.i("num_groups");
  Shape rest(full.begin() + 1, full.end());
  const ValueId rows = b.reshape(x, {full[0], groups, floordiv(element_count(rest), groups)});
  if (!b.ok()) return {};
  const DType dtype = b.graph().type(x).dtype;
  Attributes attributes;
  attributes.set("axis", int64_t{2});
  attributes.set("epsilon", s.attributes.f("epsilon"));
  attributes.set("stash_type", s.attributes.dtype("stash_type"));
  const ValueId one = b.graph().add_constant(float_constant(dtype, {1}, {1.0}), "one");
  const ValueId normal = b.reshape(b.op("LayerNormalization", {rows, one}, std::move(attributes)), full);
  const Shape channel = per_channel_shape(full);
  return {b.op("Add", {b.op("Mul", {normal, b.reshape(s.inputs[1], channel)}), b.reshape(s.inputs[2], channel)})};
}

// Scales and biases that broadcast inside what is normalised are operands of their own; the kernel reads whole ones, or
// none.
std::vector<ValueId> without_broadcasts(DecomposeBuilder& b, const DecomposeSite& s, const std::string& op) {
  const ValueId x = s.inputs[0];
  const DType dtype = b.type(x).dtype;
  const auto without_ones = [](Shape shape) {
    shape.erase(shape.begin(), std::find_if(shape.begin(), shape.end(), [](const Dim& d) { return d != Dim(1); }));
    return shape;
  };
  const Shape& full = b.shape(x);
  const Shape normalized =
      without_ones({full.begin() + static_cast<std::ptrdiff_t>(s.attributes.i("axis")), full.end()});
  const auto is_whole = [&](ValueId value) { return !value.valid() || without_ones(b.shape(value)) == normalized; };
  if (s.output_count > 1 || (is_whole(s.input(1)) && is_whole(s.input(2)))) return {};
  if (splat_of(b.graph(), s.inputs[1]) == 1.0 && element_count(b.shape(s.inputs[1])) == Dim(1) && is_whole(s.input(2)))
    return {};
  const auto operand = [&](ValueId value) { return b.type(value).dtype == dtype ? value : b.cast(value, dtype); };
  const ValueId one = b.graph().add_constant(float_constant(dtype, {1}, {1.0}), "one");
  const ValueId scaled = b.op("Mul", {b.op(op, {x, one}, s.attributes), operand(s.inputs[1])});
  return {s.has(2) ? b.op("Add", {scaled, operand(s.inputs[2])}) : scaled};
}
std::vector<ValueId> layer_normalization(DecomposeBuilder& b, const DecomposeSite& s) {
  return without_broadcasts(b, s, "LayerNormalization");
}
std::vector<ValueId> rms_normalization(DecomposeBuilder& b, const DecomposeSite& s) {
  return without_broadcasts(b, s, "RMSNormalization");
}

std::vector<ValueId> mean_variance_normalization(DecomposeBuilder& b, const DecomposeSite& s) {
  const ValueId x = s.inputs[0];
  const DType dtype = b.graph().type(x).dtype;
  const std::vector<int64_t> axes = s.attributes.ints("axes");
  // Not mean(x^2) - mean^2, as ONNX writes it: rounding takes that below 0.
  const ValueId centred = b.op("Sub", {x, b.reduce("ReduceMean", x, axes)});
  const ValueId deviation = b.op("Sqrt", {b.reduce("ReduceMean", b.op("Mul", {centred, centred}), axes)});
  return {b.op("Div", {centred, b.op("Add", {deviation, b.number(dtype, 1e-9)})})};
}

std::vector<ValueId> lp_normalization(DecomposeBuilder& b, const DecomposeSite& s) {
  const DType dtype = b.type(s.inputs[0]).dtype;
  const ValueId norm =
      b.reduce(s.attributes.i("p") == 1 ? "ReduceL1" : "ReduceL2", s.inputs[0], {s.attributes.i("axis")});
  // Zeros stay zeros.
  const ValueId divisor = b.op("Where", {b.op("Equal", {norm, b.number(dtype, 0)}), b.number(dtype, 1), norm});
  return {b.op("Div", {s.inputs[0], divisor})};
}

std::vector<ValueId> global_lp_pool(DecomposeBuilder& b, const DecomposeSite& s) {
  std::vector<int64_t> axes;
  for (size_t k = 2; k < b.shape(s.inputs[0]).size(); ++k) axes.push_back(static_cast<int64_t>(k));
  const int64_t p = s.attributes.i("p");
  if (p == 1 || p == 2) return {b.reduce(p == 1 ? "ReduceL1" : "ReduceL2", s.inputs[0], axes)};
  const DType dtype = b.graph().type(s.inputs[0]).dtype;
  const ValueId power = b.op("Pow", {b.op("Abs", {s.inputs[0]}), b.number(dtype, static_cast<double>(p))});
  return {b.op("Pow", {b.reduce("ReduceSum", power, axes), b.number(dtype, 1.0 / static_cast<double>(p))})};
}

std::vector<ValueId> dropout(DecomposeBuilder& b, const DecomposeSite& s) {
  if (s.output_count < 2) return {};
  const uint8_t yes = 1;
  Attributes attributes;
  attributes.set("shape", b.shape(s.inputs[0]));
  attributes.set("value", Constant::of<uint8_t>(DType::kBool, {1}, {&yes, 1}));
  return {s.inputs[0], b.op("ConstantOfShape", {}, std::move(attributes))};
}

std::vector<ValueId> log_sum_exp(DecomposeBuilder& b, const DecomposeSite& s) {
  const DType dtype = b.type(s.inputs[0]).dtype;
  if (is_floating(dtype) || !s.attributes.has("axes")) return {};
  return {b.cast(b.op("ReduceLogSumExp", {b.cast(s.inputs[0], DType::kF64)}, s.attributes), dtype)};
}

// Rounded once, whatever comes together.
std::vector<ValueId> widened_scatter(DecomposeBuilder& b, const DecomposeSite& s, const char* op) {
  const DType dtype = b.type(s.inputs[0]).dtype;
  if (s.attributes.s_or("reduction", "none") == "none" || !is_floating(dtype) || dtype_bytes(dtype) != 2) return {};
  std::vector<ValueId> operands = s.inputs;
  for (const size_t i : {0, 2}) operands[i] = b.cast(operands[i], DType::kF32);
  return {b.cast(b.op(op, std::move(operands), s.attributes), dtype)};
}

std::vector<ValueId> scatter_elements(DecomposeBuilder& b, const DecomposeSite& s) {
  return widened_scatter(b, s, "ScatterElements");
}

std::vector<ValueId> scatter_nd(DecomposeBuilder& b, const DecomposeSite& s) {
  return widened_scatter(b, s, "ScatterND");
}

// Groups of neighbouring axes that are broadcast alike, or not at all. An axis of which only a run knows is one itself.
size_t broadcast_groups(const Shape& a, const Shape& b, const Shape& whole) {
  enum : size_t { kWhole, kBroadcast, kUnknown };
  const auto kind = [&](const Shape& batch, size_t k) -> size_t {
    const size_t front = whole.size() - batch.size();
    if (k < front || (batch[k - front] != whole[k] && batch[k - front] == Dim(1))) return kBroadcast;
    return batch[k - front] == whole[k] ? size_t{kWhole} : kUnknown + k;
  };
  size_t groups = 0;
  std::optional<std::pair<size_t, size_t>> last;
  for (size_t k = 0; k < whole.size(); ++k) {
    const std::pair<size_t, size_t> here = {kind(a, k), kind(b, k)};
    if (whole[k] == Dim(1) || last == here) continue;
    last = here;
    ++groups;
  }
  return groups;
}

// Kernels walk two groups of axes.
std::vector<ValueId> matmul(DecomposeBuilder& b, const DecomposeSite& s) {
  std::vector<ValueId> operands = s.inputs;
  std::vector<Shape> batches;
  for (const ValueId operand : operands) {
    const Shape& shape = b.shape(operand);
    if (shape.size() < 3) return {};
    batches.emplace_back(shape.begin(), shape.end() - 2);
  }
  const auto whole = broadcast_shapes(batches);
  if (!whole.ok() || broadcast_groups(batches[0], batches[1], *whole) <= 2) return {};
  for (const size_t i : {1, 0}) {
    if (broadcast_groups(batches[0], batches[1], *whole) <= 2) break;
    Attributes attributes;
    Shape shape = *whole;
    shape.insert(shape.end(), b.shape(operands[i]).end() - 2, b.shape(operands[i]).end());
    attributes.set("shape", std::move(shape));
    operands[i] = b.op("Expand", {operands[i]}, std::move(attributes));
    batches[i] = *whole;
  }
  return {b.op("MatMul", std::move(operands))};
}

// Of many operands: a few at a time, in their order, since a kernel has no more.
std::vector<ValueId> of_many(DecomposeBuilder& b, const DecomposeSite& s, const std::string& op) {
  constexpr size_t kAtATime = 8;
  if (s.inputs.size() <= kAtATime) return {};
  ValueId result = s.inputs[0];
  for (size_t first = 1; first < s.inputs.size();) {
    std::vector<ValueId> operands{result};
    while (operands.size() < kAtATime && first < s.inputs.size()) operands.push_back(s.inputs[first++]);
    result = b.op(op, std::move(operands));
  }
  return {result};
}

std::vector<ValueId> sum(DecomposeBuilder& b, const DecomposeSite& s) { return of_many(b, s, "Sum"); }
std::vector<ValueId> max(DecomposeBuilder& b, const DecomposeSite& s) { return of_many(b, s, "Max"); }
std::vector<ValueId> min(DecomposeBuilder& b, const DecomposeSite& s) { return of_many(b, s, "Min"); }
std::vector<ValueId> mean(DecomposeBuilder& b, const DecomposeSite& s) {
  const std::vector<ValueId> total = of_many(b, s, "Sum");
  if (total.empty() || !b.ok()) return {};
  return {b.op("Div", {total[0], b.number(b.type(total[0]).dtype, static_cast<double>(s.inputs.size()))})};
}

std::vector<ValueId> dynamic_quantize(DecomposeBuilder& b, const DecomposeSite& s) {
  const ValueId x = s.inputs[0];
  const DType dtype = b.graph().type(x).dtype;
  std::vector<int64_t> axes;
  for (size_t k = 0; k < b.shape(x).size(); ++k) axes.push_back(static_cast<int64_t>(k));
  const ValueId zero = b.number(dtype, 0);
  const ValueId low = b.op("Min", {b.reduce("ReduceMin", x, axes, false), zero});
  const ValueId high = b.op("Max", {b.reduce("ReduceMax", x, axes, false), zero});
  const ValueId range = b.op("Sub", {high, low});
  const ValueId nothing = b.op("Equal", {range, zero});
  const ValueId scale = b.op("Where", {nothing, b.number(dtype, 1), b.op("Div", {range, b.number(dtype, 255)})});
  const ValueId shifted = b.op("Div", {b.op("Sub", {zero, low}), scale});
  const ValueId point = b.op("Round", {b.op("Clip", {shifted, zero, b.number(dtype, 255)})});
  const ValueId zero_point = b.cast(point, DType::kU8);
  return {b.op("QuantizeLinear", {x, scale, zero_point}), scale, zero_point};
}

ValueId dequantized(DecomposeBuilder& b, ValueId x, ValueId scale, ValueId zero_point, int64_t axis) {
  Attributes attributes;
  attributes.set("axis", axis);
  std::vector<ValueId> inputs = {x, scale};
  if (zero_point.valid()) inputs.push_back(zero_point);
  return b.op("DequantizeLinear", std::move(inputs), std::move(attributes));
}

ValueId quantized(DecomposeBuilder& b, ValueId x, ValueId scale, ValueId zero_point) {
  std::vector<ValueId> inputs = {x, scale};
  if (zero_point.valid()) inputs.push_back(zero_point);
  return b.op("QuantizeLinear", std::move(inputs));
}

std::vector<ValueId> qlinear_conv(DecomposeBuilder& b, const DecomposeSite& s) {
  const ValueId x = dequantized(b, s.inputs[0], s.inputs[1], s.inputs[2], 1);
  const ValueId w = dequantized(b, s.inputs[3], s.inputs[4], s.inputs[5], 0);
  std::vector<ValueId> inputs = {x, w};
  if (s.has(8)) {
    // The bias is int32 in units of x_scale * w_scale.
    const ValueId unit = b.op("Mul", {s.inputs[1], s.inputs[4]});
    inputs.push_back(b.op("Mul", {b.cast(s.inputs[8], DType::kF32), unit}));
  }
  return {quantized(b, b.op("Conv", std::move(inputs), s.attributes), s.inputs[6], s.inputs[7])};
}

std::vector<ValueId> qlinear_matmul(DecomposeBuilder& b, const DecomposeSite& s) {
  // One scale per row or column would have to be broadcast along another axis than DequantizeLinear's.
  for (const size_t k : {1, 2, 4, 5}) {
    if (element_count(b.shape(s.inputs[k])).constant() != 1) return {};
  }
  const auto scalar = [&](size_t k) { return b.reshape(s.inputs[k], {}); };
  const ValueId left = dequantized(b, s.inputs[0], scalar(1), scalar(2), 0);
  const ValueId right = dequantized(b, s.inputs[3], scalar(4), scalar(5), 0);
  return {quantized(b, b.op("MatMul", {left, right}), scalar(6), scalar(7))};
}

std::vector<ValueId> qlinear_add(DecomposeBuilder& b, const DecomposeSite& s) {
  const ValueId left = dequantized(b, s.input(0), s.input(1), s.input(2), 0);
  const ValueId right = dequantized(b, s.input(3), s.input(4), s.input(5), 0);
  return {quantized(b, b.op("Add", {left, right}), s.input(6), s.input(7))};
}

}  // namespace

Result<int> decompose(Graph& graph, PassContext& context) {
  static const std::map<std::string_view, DecomposeRule> rules = {
      {"BatchNormalization", batch_normalization},
      {"GroupNormalization", group_normalization},
      {"LayerNormalization", layer_normalization},
      {"RMSNormalization", rms_normalization},
      {"MeanVarianceNormalization", mean_variance_normalization},
      {"LpNormalization", lp_normalization},
      {"GlobalLpPool", global_lp_pool},
      {"Dropout", dropout},
      {"MatMul", matmul},
      {"Sum", sum},
      {"Max", max},
      {"Min", min},
      {"Mean", mean},
      {"ReduceLogSumExp", log_sum_exp},
      {"ScatterElements", scatter_elements},
      {"ScatterND", scatter_nd},
      {"DynamicQuantizeLinear", dynamic_quantize},
      {"QLinearConv", qlinear_conv},
      {"QLinearMatMul", qlinear_matmul},
      {"com.microsoft::QLinearAdd", qlinear_add},
      {"Einsum", decompose_einsum},
      {"DFT", decompose_dft},
      {"STFT", decompose_stft},
      {"MaxUnpool", decompose_max_unpool},
      {"DeformConv", decompose_deform_conv},
      {"ConvTranspose", decompose_conv_transpose}};
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    const auto rule = rules.find(node.op);
    if (rule == rules.end() || node.attributes.s_or("layout", "NCHW") != "NCHW") continue;
    // Copies: adding nodes moves them.
    const Attributes attributes = node.attributes;
    const std::vector<ValueId> inputs = node.inputs;
    const std::vector<ValueId> outputs = node.outputs;
    const OriginSet origins = node.origins;
    ValueId named;
    for (const ValueId output : outputs) named = named.valid() ? named : output;
    if (!named.valid()) continue;
    DecomposeBuilder builder(graph, origins, graph.value(named).name);
    const DecomposeSite site{attributes, inputs, outputs.size(), context};
    const std::vector<ValueId> results = rule->second(builder, site);
    if (!builder.ok()) return Status(builder.status()).context(str_cat("node ", origins_text(origins)));
    if (results.empty()) continue;
    for (size_t k = 0; k < outputs.size() && k < results.size(); ++k) {
      if (outputs[k].valid()) AIPU_RETURN_IF_ERROR(graph.replace_uses(outputs[k], results[k]));
    }
    graph.erase_node(id);
    ++count;
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
