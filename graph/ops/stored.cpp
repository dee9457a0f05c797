// Between the codes of stored element types and what kernels compute with; what lower_stored_types makes.
#include "graph/ops/op_list.h"
#include "graph/ops/text.h"
#include "runtime/base/stored_type.h"

namespace aipu::graph {
namespace {

Status check_format(const Node& node) {
  const DType format = node.attributes.dtype("format");
  if (small_float(format) == nullptr)
    return invalid_model(str_cat(dtype_name(format), " is no float of 8 bits or less"));
  return {};
}

// The code of each element in the float type `format`, as Cast defines it. round_mode is for float8e8m0.
OpDef encode_float_op() {
  OpDef def;
  def.name = "aipu::EncodeFloat";
  def.inputs = {operand("x", "f")};
  def.outputs = {operand("code", "u")};
  def.attributes = {attr::required("format", AttributeKind::kDType), attr::i("saturate", 1),
                    attr::s("round_mode", "up")};
  def.traits = kElementwise;
  def.infer = [](InferContext& ctx) -> Status {
    set_output(ctx, 0, DType::kU8, ctx.input(0).shape);
    return {};
  };
  def.verify = [](const Graph&, const Node& node) -> Status {
    AIPU_RETURN_IF_ERROR(check_format(node));
    return expect_choice(node, "round_mode", {"up", "down", "nearest"});
  };
  return def;
}

OpDef decode_float_op() {
  OpDef def;
  def.name = "aipu::DecodeFloat";
  def.inputs = {operand("code", "u")};
  def.outputs = {operand("x", "f")};
  def.attributes = {attr::required("format", AttributeKind::kDType)};
  def.traits = kElementwise;
  def.infer = [](InferContext& ctx) -> Status {
    set_output(ctx, 0, DType::kF32, ctx.input(0).shape);
    return {};
  };
  def.verify = [](const Graph&, const Node& node) { return check_format(node); };
  return def;
}

Dim packed_extent(const TensorType& type) {
  return ceildiv(element_count(type.shape) * Dim(int64_t{dtype_bits(type.dtype)}), 8);
}

// The bytes of a packed input.
OpDef packed_bytes_op() {
  OpDef def;
  def.name = "aipu::PackedBytes";
  def.inputs = {operand("packed", "q")};
  def.outputs = {operand("bytes", "u")};
  def.traits = kView;
  def.infer = [](InferContext& ctx) -> Status {
    set_output(ctx, 0, DType::kU8, {packed_extent(ctx.input(0))});
    return {};
  };
  def.axes = axes::mixed();
  return def;
}

// A packed output of these bytes.
OpDef from_packed_bytes_op() {
  OpDef def;
  def.name = "aipu::FromPackedBytes";
  def.inputs = {operand("bytes", "u")};
  def.outputs = {operand("packed", "q")};
  def.traits = kView;
  def.attributes = {attr::required("to", AttributeKind::kDType), attr::required("shape", AttributeKind::kShape)};
  def.infer = [](InferContext& ctx) -> Status {
    const TensorType type{ctx.attributes().dtype("to"), ctx.attributes().shape("shape")};
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 1));
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(0).shape[0], packed_extent(type), "the number of bytes"));
    set_output(ctx, 0, type.dtype, type.shape);
    return {};
  };
  def.axes = axes::mixed();
  return def;
}

}  // namespace

std::vector<OpDef> stored_ops() {
  std::vector<OpDef> ops = {encode_float_op(), decode_float_op(), packed_bytes_op(), from_packed_bytes_op()};
  for (OpDef& op : text_ops()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace aipu::graph
