// Products of matrices: MatMul, MatMulInteger, QLinearMatMul, Gemm; Det.
#include "graph/ops/multiplies.h"
#include "graph/ops/op_list.h"
#include "runtime/base/stored_type.h"

namespace aipu::graph {
namespace {

// NumPy's rules: 1-D operands are a row on the left, a column on the right; leading axes broadcast.
Result<Shape> product_shape(const TensorType& a, const TensorType& b) {
  if (a.rank() < 1 || b.rank() < 1)
    return invalid_model(str_cat("scalars have no matrix product: ", a.text(), " and ", b.text()));
  const Dim& inner_a = a.shape.back();
  const Dim& inner_b = b.rank() == 1 ? b.shape[0] : b.shape[b.shape.size() - 2];
  if (provably_different(inner_a, inner_b)) {
    return invalid_model(str_cat("cannot multiply ", a.text(), " by ", b.text(), ": the inner extents are ",
                                 inner_a.text(), " and ", inner_b.text()));
  }
  assume_equal(inner_a, inner_b,
               str_cat("operands of shapes ", shape_text(a.shape), " and ", shape_text(b.shape), " have no product"));
  const Shape batches[2] = {a.rank() > 2 ? Shape(a.shape.begin(), a.shape.end() - 2) : Shape(),
                            b.rank() > 2 ? Shape(b.shape.begin(), b.shape.end() - 2) : Shape()};
  AIPU_ASSIGN_OR_RETURN(Shape shape, broadcast_operands(batches));
  if (a.rank() > 1) shape.push_back(a.shape[a.shape.size() - 2]);
  if (b.rank() > 1) shape.push_back(b.shape.back());
  return shape;
}

Status infer_matmul(InferContext& ctx, size_t a, size_t b, DType dtype) {
  AIPU_ASSIGN_OR_RETURN(Shape shape, product_shape(ctx.input(a), ctx.input(b)));
  set_output(ctx, 0, dtype, std::move(shape));
  return {};
}

Status infer_gemm(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1, 2}));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 2));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 2));
  const bool a_transposed = ctx.attributes().i("transA") != 0;
  const bool b_transposed = ctx.attributes().i("transB") != 0;
  const Shape& a = ctx.input(0).shape;
  const Shape& b = ctx.input(1).shape;
  const Dim& inner = a[a_transposed ? 0 : 1];
  AIPU_RETURN_IF_ERROR(expect_equal(b[b_transposed ? 1 : 0], inner, "the inner extent of B"));
  Shape shape = {a[a_transposed ? 1 : 0], b[b_transposed ? 0 : 1]};
  if (ctx.has_input(2)) {
    const TensorType& c = ctx.input(2);
    if (c.rank() > 2) return invalid_model(str_cat("C must broadcast to ", shape_text(shape), ", found ", c.text()));
    for (size_t k = 0; k < c.shape.size(); ++k) {
      const Dim& extent = c.shape[c.shape.size() - 1 - k];
      if (extent.constant() == 1 || !provably_different(extent, shape[1 - k])) continue;
      return invalid_model(
          str_cat("extent ", c.shape.size() - 1 - k, " of C must be ", shape[1 - k].text(), ", found ", extent.text()));
    }
    assume_broadcast(c.shape, shape);
  }
  set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
  return {};
}

Status infer_det(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 2));
  const Shape& shape = ctx.input(0).shape;
  AIPU_RETURN_IF_ERROR(expect_equal(shape.back(), shape[shape.size() - 2], "the last extent"));
  set_output(ctx, 0, ctx.input(0).dtype, Shape(shape.begin(), shape.end() - 2));
  return {};
}

OpDef matmul_op() {
  OpDef def;
  def.name = "MatMul";
  def.inputs = {operand("A", kNumeric), operand("B", kNumeric)};
  def.outputs = {operand("Y", kNumeric)};
  def.attributes = {attr::own_optional(std::string(kMultiplies), AttributeKind::kDType)};
  def.traits = kSumsProducts;
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1}));
    return infer_matmul(ctx, 0, 1, ctx.input(0).dtype);
  };
  def.axes = axes::matmul(0, 1);
  def.multiply_adds = work::matmul(0);
  return def;
}

OpDef matmul_integer_op() {
  OpDef def;
  def.name = "MatMulInteger";
  def.inputs = {operand("A", "iu"), operand("B", "iu"), optional_operand("a_zero_point", "iu"),
                optional_operand("b_zero_point", "iu")};
  def.outputs = {operand("Y", "i")};
  def.infer = [](InferContext& ctx) { return infer_matmul(ctx, 0, 1, DType::kI32); };
  def.axes = axes::matmul(0, 1);
  def.multiply_adds = work::matmul(0);
  return def;
}

OpDef qlinear_matmul_op() {
  OpDef def;
  def.name = "QLinearMatMul";
  def.inputs = {operand("a", "iu"),      operand("a_scale", "f"),      operand("a_zero_point", "iu"),
                operand("b", "iu"),      operand("b_scale", "f"),      operand("b_zero_point", "iu"),
                operand("y_scale", "f"), operand("y_zero_point", "iu")};
  def.outputs = {operand("y", "iu")};
  def.infer = [](InferContext& ctx) { return infer_matmul(ctx, 0, 3, ctx.input(7).dtype); };
  def.axes = axes::matmul(0, 3);
  def.multiply_adds = work::matmul(0);
  return def;
}

OpDef quantized_matmul_op() {
  OpDef def;
  def.name = "aipu::QuantizedMatMul";
  def.inputs = {operand("x", "iu"),
                operand("w", "iu"),
                optional_operand("x_zero_point", "iu"),
                optional_operand("w_zero_point", "iu"),
                optional_operand("scale", "f"),
                optional_operand("bias", "i")};
  def.outputs = {operand("y", "if")};
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 2));
    const Dim& columns = ctx.input(1).shape[1];
    for (const size_t k : {size_t{2}, size_t{3}, size_t{4}, size_t{5}}) {
      if (!ctx.has_input(k) || element_count(ctx.input(k).shape).constant() == 1) continue;
      if (k == 2) return invalid_model(str_cat("x_zero_point must have one element, found ", ctx.input(k).text()));
      AIPU_RETURN_IF_ERROR(
          expect_equal(element_count(ctx.input(k).shape), columns, str_cat("the element count of operand ", k)));
    }
    for (const size_t k : {size_t{0}, size_t{1}}) {
      if (dtype_bits(ctx.input(k).dtype) != 8)
        return invalid_model(str_cat("8-bit operands are needed, found ", ctx.input(k).text()));
    }
    return infer_matmul(ctx, 0, 1, ctx.has_input(4) ? ctx.input(4).dtype : DType::kI32);
  };
  def.axes = axes::matmul(0, 1);
  def.multiply_adds = work::matmul(0);
  return def;
}

// Weights of few bits, [N, blocks of K, bytes], the lowest bits of a byte first, as com.microsoft's MatMulNBits has
// them: (B - zero_points) * scales, which belong to blocks.
Status infer_block_quantized_matmul(InferContext& ctx) {
  const int64_t bits = ctx.attributes().i("bits"), block = ctx.attributes().i("block_size"),
                depth = ctx.attributes().i("K");
  if ((bits != 4 && bits != 8) || block < 1 || block % 16 != 0 || depth < 1)
    return invalid_model(str_cat("products of blocks of ", block, " weights of ", bits, " bits, ", depth, " in all"));
  const bool has_format = ctx.attributes().has("format"), has_table = ctx.has_input(5);
  if (has_format && (dtype_bits(ctx.attributes().dtype("format")) != bits ||
                     small_float(ctx.attributes().dtype("format")) == nullptr))
    return invalid_model(str_cat("weights of ", bits, " bits of ", dtype_name(ctx.attributes().dtype("format"))));
  if ((has_format || has_table) && (has_format == has_table || ctx.has_input(3) || (has_table && bits != 4)))
    return invalid_model("weights of a table or a float type, but not of both, with no zero points");
  if (has_table) AIPU_RETURN_IF_ERROR(expect_equal(element_count(ctx.input(5).shape), Dim(16), "the table's elements"));
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 1));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 3));
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(0).shape.back(), Dim(depth), "the last extent of A"));
  const Shape& codes = ctx.input(1).shape;
  const Dim blocks((depth + block - 1) / block);
  AIPU_RETURN_IF_ERROR(expect_equal(codes[1], blocks, "the number of blocks"));
  AIPU_RETURN_IF_ERROR(expect_equal(codes[2], Dim(block * bits / 8), "the bytes of a block"));
  for (const size_t k : {size_t{2}, size_t{3}}) {
    if (!ctx.has_input(k)) continue;
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, k, 2));
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(k).shape[0], codes[0], str_cat("the first extent of operand ", k)));
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(k).shape[1], blocks, str_cat("the last extent of operand ", k)));
  }
  if (ctx.has_input(4)) {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 4, 1));
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(4).shape[0], codes[0], "the extent of the bias"));
  }
  Shape shape = ctx.input(0).shape;
  shape.back() = codes[0];
  set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
  return {};
}

OpDef block_quantized_matmul_op() {
  OpDef def;
  def.name = "aipu::BlockQuantizedMatMul";
  def.inputs = {operand("A", "f"),
                operand("B", "u"),
                operand("scales", "f"),
                optional_operand("zero_points", "uf"),
                optional_operand("bias", "f"),
                optional_operand("table", "f")};
  def.outputs = {operand("Y", "f")};
  def.attributes = {attr::optional("format", AttributeKind::kDType), attr::required("bits", AttributeKind::kInt),
                    attr::required("block_size", AttributeKind::kInt), attr::required("K", AttributeKind::kInt),
                    attr::i("accuracy_level", 0)};
  def.infer = infer_block_quantized_matmul;
  def.axes = [](const Graph& graph, const Node& node) {
    AxisMapBuilder map(graph, node);
    return map.link_leading(0, 0, map.output_rank(0) - 1).take();
  };
  def.multiply_adds = work::matmul(0);
  return def;
}

OpDef gemm_op() {
  OpDef def;
  def.name = "Gemm";
  def.inputs = {operand("A", kNumeric), operand("B", kNumeric), optional_operand("C", kNumeric)};
  def.outputs = {operand("Y", kNumeric)};
  def.attributes = {attr::f("alpha", 1.0), attr::f("beta", 1.0), attr::i("transA", 0), attr::i("transB", 0)};
  def.traits = kSumsProducts;
  def.infer = infer_gemm;
  def.axes = axes::gemm(0, 1, 2);
  def.multiply_adds = work::gemm(0);
  return def;
}

OpDef det_op() {
  OpDef def;
  def.name = "Det";
  def.inputs = {operand("X", "f")};
  def.outputs = {operand("Y", "f")};
  def.infer = infer_det;
  def.axes = [](const Graph& graph, const Node& node) {
    AxisMapBuilder map(graph, node);
    return map.link_leading(0, 0, map.output_rank(0)).take();
  };
  return def;
}

// ONNX has none; the name is that of ONNX Runtime's operator.
OpDef inverse_op() {
  OpDef def;
  def.name = "com.microsoft::Inverse";
  def.inputs = {operand("X", "f")};
  def.outputs = {operand("Y", "f")};
  def.infer = [](InferContext& ctx) -> Status {
    const TensorType& x = ctx.input(0);
    if (x.rank() < 2) return invalid_model(str_cat("needs matrices, found ", x.text()));
    AIPU_RETURN_IF_ERROR(expect_equal(x.shape[x.shape.size() - 1], x.shape[x.shape.size() - 2], "the matrix's rows"));
    return infer_same_as_input(ctx);
  };
  def.axes = [](const Graph& graph, const Node& node) {
    AxisMapBuilder map(graph, node);
    return map.link_leading(0, 0, map.output_rank(0) - 2).take();
  };
  return def;
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {matmul_op(),
          matmul_integer_op(),
          qlinear_matmul_op(),
          quantized_matmul_op(),
          block_quantized_matmul_op(),
          gemm_op(),
          det_op(),
          inverse_op()};
}

}  // namespace aipu::graph
