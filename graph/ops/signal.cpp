// Windows, DFT, STFT, MelWeightMatrix. Lengths are resolved into attributes, like other shape-like operands.
#include <array>
#include <cmath>

#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"

namespace aipu::graph {
namespace {

// A scalar operand that becomes an extent.
Result<Dim> scalar_operand(InferContext& ctx, size_t input, const char* name) {
  AIPU_ASSIGN_OR_RETURN(const Shape elements, shape_operand(ctx, input, name));
  if (elements.size() != 1)
    return invalid_model(str_cat("operand '", name, "' must be a scalar, found ", elements.size(), " elements"));
  return elements.front();
}

OpDef dft_record() {
  OpDef def;
  def.name = "DFT";
  def.inputs = {operand("input", "f"), optional_operand("dft_length", kIndex), optional_operand("axis", kIndex)};
  def.outputs = {operand("output", "f")};
  def.attributes = {attr::i("inverse", 0), attr::i("onesided", 0), attr::own_optional("axis", AttributeKind::kInt),
                    attr::own_optional("dft_length", AttributeKind::kShape)};
  return def;
}

// The signal is [..., 1 or 2]: real or complex numbers last.
Status check_signal(const InferContext& ctx, int least_rank) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, least_rank));
  const Dim& last = ctx.input(0).shape.back();
  if (last.constant() == 1 || last.constant() == 2) return {};
  return invalid_model(str_cat("the last extent must be 1 (real) or 2 (complex), found ", ctx.input(0).text()));
}

Result<int64_t> dft_axis(InferContext& ctx) {
  const int rank = ctx.input(0).rank();
  AIPU_ASSIGN_OR_RETURN(const auto given, constant_ints(ctx, 2, "axis"));
  if (given && given->size() != 1) return invalid_model("axis must be one number");
  AIPU_ASSIGN_OR_RETURN(const int64_t axis, normal_axis(given ? given->front() : -2, rank));
  if (axis == rank - 1) return invalid_model("axis is that of the real and imaginary parts");
  return axis;
}

Result<Dim> dft_length(InferContext& ctx, int64_t axis) {
  if (ctx.has_input(1) || ctx.attributes().has("dft_length")) return scalar_operand(ctx, 1, "dft_length");
  const Dim extent = ctx.input(0).shape[static_cast<size_t>(axis)];
  // The inverse of a one-sided transform restores an even length.
  if (ctx.attributes().i("inverse") != 0 && ctx.attributes().i("onesided") != 0) return (extent - 1) * Dim(2);
  return extent;
}

Status infer_dft(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(check_signal(ctx, 2));
  AIPU_ASSIGN_OR_RETURN(const int64_t axis, dft_axis(ctx));
  AIPU_ASSIGN_OR_RETURN(const Dim length, dft_length(ctx, axis));
  const bool onesided = ctx.attributes().i("onesided") != 0;
  const bool inverse = ctx.attributes().i("inverse") != 0;
  Shape shape = ctx.input(0).shape;
  if (onesided && !inverse && shape.back().constant() != 1)
    return invalid_model("a one-sided transform is of real numbers");
  shape[static_cast<size_t>(axis)] = onesided && !inverse ? floordiv(length, 2) + 1 : length;
  shape.back() = onesided && inverse ? 1 : 2;
  set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
  return {};
}

// ---- STFT: signal, frame_step, window, frame_length

struct StftGeometry {
  Dim step;
  Dim length;
};

Result<StftGeometry> stft_geometry(InferContext& ctx) {
  StftGeometry g;
  AIPU_ASSIGN_OR_RETURN(g.step, scalar_operand(ctx, 1, "frame_step"));
  if (ctx.has_input(3) || ctx.attributes().has("frame_length")) {
    AIPU_ASSIGN_OR_RETURN(g.length, scalar_operand(ctx, 3, "frame_length"));
  } else if (ctx.has_input(2)) {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 2, 1));
    g.length = ctx.input(2).shape[0];
  } else {
    return invalid_model("window or frame_length must be given");
  }
  if (g.step.constant_or(1) < 1 || g.length.constant_or(1) < 1)
    return invalid_model("frame_step and frame_length must be positive");
  return g;
}

Status infer_stft(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 2));
  if (ctx.input(0).rank() > 3)
    return invalid_model(str_cat("the signal must have rank 2 or 3, found ", ctx.input(0).text()));
  if (ctx.input(0).rank() == 3) AIPU_RETURN_IF_ERROR(check_signal(ctx, 3));
  if (ctx.has_input(2)) AIPU_RETURN_IF_ERROR(expect_rank(ctx, 2, 1));
  AIPU_ASSIGN_OR_RETURN(const StftGeometry g, stft_geometry(ctx));
  const Shape& signal = ctx.input(0).shape;
  const Dim bins = ctx.attributes().i("onesided") != 0 ? floordiv(g.length, 2) + 1 : g.length;
  set_output(ctx, 0, ctx.input(0).dtype, {signal[0], floordiv(signal[1] - g.length, g.step) + 1, bins, 2});
  return {};
}

// ---- MelWeightMatrix: num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz

Status infer_mel(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Dim bins, scalar_operand(ctx, 0, "num_mel_bins"));
  AIPU_ASSIGN_OR_RETURN(const Dim length, scalar_operand(ctx, 1, "dft_length"));
  set_output(ctx, 0, ctx.attributes().dtype("output_datatype"), {floordiv(length, 2) + 1, bins});
  return {};
}

// The signal's axis and the last one (real and imaginary parts) are needed as a whole.
std::optional<AxisMap> dft_axes(const Graph& graph, const Node& node) {
  if (!node.attributes.has("axis")) return std::nullopt;
  AxisMapBuilder map(graph, node);
  const size_t rank = map.output_rank(0);
  map.link_leading(0, 0, rank).apart(0, rank - 1, false);
  return map.apart(0, static_cast<size_t>(node.attributes.i("axis")), false).take();
}

OpDef window_op(std::string name) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {optional_operand("size", kIndex)};
  def.outputs = {operand("output", kNumeric)};
  def.attributes = {attr::dtype("output_datatype", DType::kF32), attr::i("periodic", 1),
                    attr::own_optional("size", AttributeKind::kShape)};
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_ASSIGN_OR_RETURN(const Dim size, scalar_operand(ctx, 0, "size"));
    set_output(ctx, 0, ctx.attributes().dtype("output_datatype"), {size});
    return {};
  };
  def.resolve = resolve_with({0}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(const Dim size, scalar_operand(ctx, 0, "size"));
    attributes->set("size", Shape{size});
    return true;
  });
  def.axes = axes::mixed();
  return def;
}

OpDef dft_op() {
  OpDef def = dft_record();
  def.infer = infer_dft;
  def.resolve = resolve_with({1, 2}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(const int64_t axis, dft_axis(ctx));
    attributes->set("axis", axis);
    if (!ctx.has_input(1)) return true;
    AIPU_ASSIGN_OR_RETURN(const Dim length, dft_length(ctx, axis));
    attributes->set("dft_length", Shape{length});
    return true;
  });
  def.axes = dft_axes;
  return def;
}

OpDef stft_op() {
  OpDef def;
  def.name = "STFT";
  def.inputs = {operand("signal", "f"), optional_operand("frame_step", kIndex), optional_operand("window", "f"),
                optional_operand("frame_length", kIndex)};
  def.outputs = {operand("output", "f")};
  def.attributes = {attr::i("onesided", 1), attr::own_optional("frame_step", AttributeKind::kShape),
                    attr::own_optional("frame_length", AttributeKind::kShape)};
  def.infer = infer_stft;
  def.resolve = resolve_with({1, 3}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(const StftGeometry g, stft_geometry(ctx));
    attributes->set("frame_step", Shape{g.step});
    attributes->set("frame_length", Shape{g.length});
    return true;
  });
  def.axes = axes::images(axes::Channels::kMixed);
  return def;
}

OpDef mel_weight_matrix_op() {
  OpDef def;
  def.name = "MelWeightMatrix";
  def.inputs = {operand("num_mel_bins", kIndex), operand("dft_length", kIndex), operand("sample_rate", kIndex),
                operand("lower_edge_hertz", "f"), operand("upper_edge_hertz", "f")};
  def.outputs = {operand("output", kNumeric)};
  def.attributes = {attr::dtype("output_datatype", DType::kF32)};
  def.infer = infer_mel;
  def.axes = axes::mixed();
  return def;
}

}  // namespace

std::vector<OpDef> signal_ops() {
  return {window_op("BlackmanWindow"), window_op("HammingWindow"), window_op("HannWindow"), dft_op(), stft_op(),
          mel_weight_matrix_op()};
}

}  // namespace aipu::graph
