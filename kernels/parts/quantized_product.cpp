#include "kernels/parts/quantized_product.h"

#include <algorithm>
#include <cmath>

#include "kernels/parts/axis_view.h"

namespace aipu::kernels::quantized {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

int64_t element(const graph::Constant& constant, int64_t index) {
  const auto byte = constant.bytes()[static_cast<size_t>(index)];
  return constant.dtype() == DType::kI8 ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
}

}  // namespace

graph::ValueId operand(const Node& node, size_t k) {
  return k < node.inputs.size() ? node.inputs[k] : graph::ValueId();
}

Result<Problem> read_problem(const Graph& graph, const Node& node) {
  Problem p;
  const graph::Constant* w = graph.constant(operand(node, kW));
  if (w == nullptr) return unsupported("weights that are not constant");
  for (const size_t k : {kXZero, kWZero, kScale, kBias}) {
    if (operand(node, k).valid() && graph.constant(operand(node, k)) == nullptr)
      return unsupported("a zero point, scale or bias that is not constant");
  }
  const std::vector<int64_t>& shape = w->shape();
  if (node.op == "aipu::QuantizedMatMul") {
    const graph::Shape& x = graph.type(node.inputs[kX]).shape;
    p.group_in = shape[0];
    p.group_out = shape[1];
    p.out_stride = 1;
    p.in_stride = shape[1];
    p.geometry.batch = 1;
    p.geometry.channels = p.group_in;
    p.geometry.out_channels = p.group_out;
    Dim rows = 1;
    for (size_t i = 0; i + 1 < x.size(); ++i) rows *= x[i];
    p.geometry.axes[2].in = p.geometry.axes[2].out = rows;
  } else {
    p.groups = node.attributes.i_or("group", 1);
    p.group_in = shape[1];
    p.group_out = shape[0] / p.groups;
    const std::vector<int64_t> kernel(shape.begin() + 2, shape.end());
    for (const int64_t k : kernel) p.taps *= k;
    p.tap_stride = 1;
    p.in_stride = p.taps;
    p.out_stride = p.taps * p.group_in;
    AIPU_ASSIGN_OR_RETURN(p.geometry, read_geometry(graph, node, kernel));
  }
  if (const graph::Constant* zero = graph.constant(operand(node, kXZero))) p.x_zero = zero->to_int64s()[0];
  return p;
}

Weights read_weights(const Graph& graph, const Node& node, const Problem& p) {
  const graph::Constant& w = *graph.constant(node.inputs[kW]);
  const graph::Constant* zero = graph.constant(operand(node, kWZero));
  const std::vector<int64_t> zeros = zero != nullptr ? zero->to_int64s() : std::vector<int64_t>();
  Weights result;
  result.elements.reserve(static_cast<size_t>(p.groups * p.group_out * p.taps * p.group_in));
  for (int64_t out = 0; out < p.groups * p.group_out; ++out) {
    const int64_t z = of_channel<int64_t>(zeros, out, 0);
    for (int64_t tap = 0; tap < p.taps; ++tap) {
      for (int64_t in = 0; in < p.group_in; ++in) {
        const int64_t value = element(w, out * p.out_stride + in * p.in_stride + tap * p.tap_stride) - z;
        result.fit_int8 = result.fit_int8 && value >= -128 && value <= 127;
        result.elements.push_back(static_cast<int16_t>(value));
      }
    }
  }
  return result;
}

std::vector<int64_t> start_of_channels(const Graph& graph, const Node& node, const Weights& weights, const Problem& p,
                                       int64_t zero) {
  const graph::Constant* bias = graph.constant(operand(node, kBias));
  const std::vector<int64_t> biases = bias != nullptr ? bias->to_int64s() : std::vector<int64_t>();
  const int64_t depth = p.taps * p.group_in;
  std::vector<int64_t> start;
  for (int64_t out = 0; out < p.groups * p.group_out; ++out) {
    int64_t value = of_channel<int64_t>(biases, p.first_out + out, 0);
    for (int64_t k = 0; k < depth; ++k) value -= zero * weights.elements[static_cast<size_t>(out * depth + k)];
    start.push_back(value);
  }
  return start;
}

graph::ConstantPtr start_values(const Graph& graph, const Node& node, const Weights& weights, const Problem& p,
                                int64_t zero, int64_t panel_width) {
  const int64_t padded = (p.group_out + panel_width - 1) / panel_width * panel_width;
  std::vector<int32_t> start(static_cast<size_t>(p.groups * padded));
  const std::vector<int64_t> values = start_of_channels(graph, node, weights, p, zero);
  for (int64_t out = 0; out < p.groups * p.group_out; ++out) {
    start[static_cast<size_t>(out / p.group_out * padded + out % p.group_out)] =
        static_cast<int32_t>(values[static_cast<size_t>(out)]);
  }
  return graph::Constant::of<int32_t>(DType::kI32, {static_cast<int64_t>(start.size())}, start);
}

graph::ConstantPtr scale_values(const graph::Constant& scale, const Problem& p, int64_t panel_width) {
  const std::vector<double> scales = scale.to_doubles();
  const int64_t padded = (p.group_out + panel_width - 1) / panel_width * panel_width;
  std::vector<float> values(static_cast<size_t>(p.groups * padded), 0.0f);
  for (int64_t out = 0; out < p.groups * p.group_out; ++out) {
    values[static_cast<size_t>(out / p.group_out * padded + out % p.group_out)] =
        static_cast<float>(of_channel<double>(scales, p.first_out + out, 1));
  }
  return graph::Constant::of<float>(DType::kF32, {static_cast<int64_t>(values.size())}, values);
}

int64_t highest_tile(const tir::Target& target, int vectors) {
  const bool many_registers = target.vector_registers >= 32;
  // Narrow registers: two for an accumulator, or tiles of two vectors (products by element).
  if (target.vector_bits < 256) return many_registers ? 10 : 4;
  if (many_registers && vectors == 1) return 28;
  return many_registers ? 14 : 6;
}

AnchorArithmetic arithmetic_of(const Graph& graph, const Node& node) {
  AnchorArithmetic arithmetic;
  if (const graph::Constant* scale = graph.constant(operand(node, kScale))) {
    const std::vector<double> values = scale->to_doubles();
    arithmetic.is_bounded =
        std::all_of(values.begin(), values.end(), [](double value) { return std::abs(value) < 0x1p64; });
  }
  return arithmetic;
}

std::optional<double> magnitude_of(const Graph& graph, const Node& node, const Weights& weights, const Problem& p) {
  const graph::Constant* scale = graph.constant(operand(node, kScale));
  if (scale == nullptr || !arithmetic_of(graph, node).is_bounded) return std::nullopt;
  const std::vector<double> scales = scale->to_doubles();
  const std::vector<int64_t> biases = start_of_channels(graph, node, weights, p, 0);
  const auto depth = static_cast<size_t>(p.taps * p.group_in);
  double largest = 0;
  for (size_t out = 0; out < biases.size(); ++out) {
    auto sum = static_cast<double>(std::abs(biases[out]));
    for (size_t k = 0; k < depth; ++k) sum += 255.0 * std::abs(weights.elements[out * depth + k]);
    largest = std::max(largest, sum * std::abs(of_channel<double>(scales, static_cast<int64_t>(out), 1)));
  }
  return largest;
}

bool has_float32_scale(const Graph& graph, const Node& node) {
  return !operand(node, kScale).valid() || graph.type(operand(node, kScale)).dtype == DType::kF32;
}

Result<Epilogue> bind_epilogue_of_sums(SetupContext& context, std::optional<double> magnitude,
                                       dsl::TemplateParams* params) {
  const Node& node = context.anchor();
  const bool is_scaled = context.graph().constant(operand(node, kScale)) != nullptr;
  const DType accumulator = is_scaled ? DType::kF32 : DType::kI32;
  params->set("ACC", accumulator).set("scale_types", pointer_types(is_scaled ? 1 : 0, DType::kF32));
  return bind_packed_epilogue(context, node.outputs[0], accumulator, arithmetic_of(context.graph(), node), magnitude,
                              params);
}

void bind_start_and_scale(SetupContext& context, const Weights& weights, const Problem& p, int64_t panel_width,
                          KernelArguments* arguments) {
  const Graph& graph = context.graph();
  const Node& node = context.anchor();
  arguments->pointer("start", context.add_constant(start_values(graph, node, weights, p, p.x_zero, panel_width)));
  if (const graph::Constant* scale = graph.constant(operand(node, kScale)))
    arguments->pointer("scale[0]", context.add_constant(scale_values(*scale, p, panel_width)));
}

}  // namespace aipu::kernels::quantized
