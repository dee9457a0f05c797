// MatMul and Gemm: panels of the right operand (packed at compile time where it is constant, by a kernel where not),
// register tiles, fused epilogue.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/parts/fusion.h"
#include "kernels/parts/gemm.h"
#include "kernels/parts/packing.h"
#include "kernels/parts/staged_product.h"
#include "kernels/parts/strided_map.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;
using graph::ValueId;

// out[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]; strides in elements.
struct Problem {
  ValueId a, b;
  Dim batches = 1, inner_batches = 1, rows = 1, columns = 1, depth = 1;
  Dim a_row, a_step = 1, b_row, b_column = 1;
  Dim a_batch_outer = 0, a_batch_inner = 0;
  // The right operand's own batches, and how output batches walk them (in its batches).
  Dim b_batches = 1, b_batch_outer = 0, b_batch_inner = 0;
  RowCount row_count;
  AnchorArithmetic arithmetic;
};

// Output batch dimensions as at most two loops with the operands' strides (in units of their own batches).
struct BatchLoop {
  Shape extents;
  std::vector<Dim> a, b;
};

BatchLoop merge_batches(const Shape& a_batch, const Shape& b_batch, const Shape& out_batch) {
  BatchLoop loop{out_batch, broadcast_strides(a_batch, out_batch), broadcast_strides(b_batch, out_batch)};
  for (size_t i = loop.extents.size(); i-- > 0;) {
    if (loop.extents[i] != Dim(1)) continue;
    loop.extents.erase(loop.extents.begin() + static_cast<ptrdiff_t>(i));
    loop.a.erase(loop.a.begin() + static_cast<ptrdiff_t>(i));
    loop.b.erase(loop.b.begin() + static_cast<ptrdiff_t>(i));
  }
  for (size_t i = loop.extents.size(); i-- > 1;) {
    if (loop.a[i - 1] != loop.a[i] * loop.extents[i] || loop.b[i - 1] != loop.b[i] * loop.extents[i]) continue;
    loop.extents[i - 1] *= loop.extents[i];
    loop.a[i - 1] = loop.a[i];
    loop.b[i - 1] = loop.b[i];
    loop.extents.erase(loop.extents.begin() + static_cast<ptrdiff_t>(i));
    loop.a.erase(loop.a.begin() + static_cast<ptrdiff_t>(i));
    loop.b.erase(loop.b.begin() + static_cast<ptrdiff_t>(i));
  }
  return loop;
}

Shape batch_part(const Shape& shape) { return shape.size() <= 2 ? Shape{} : Shape(shape.begin(), shape.end() - 2); }

Result<Problem> matmul_problem(const Graph& graph, const Node& node) {
  Problem p;
  p.a = node.inputs[0];
  p.b = node.inputs[1];
  Shape a = graph.type(p.a).shape, b = graph.type(p.b).shape;
  if (a.size() == 1) a.insert(a.begin(), Dim(1));
  if (b.size() == 1) b.push_back(Dim(1));
  p.rows = a[a.size() - 2];
  p.row_count = row_count({p.rows});
  p.depth = a.back();
  p.columns = b.back();
  p.a_row = p.depth;
  p.b_row = p.columns;
  Shape out_batch = graph.type(node.outputs[0]).shape;
  if (graph.type(p.b).rank() > 1 && !out_batch.empty()) out_batch.pop_back();
  if (graph.type(p.a).rank() > 1 && !out_batch.empty()) out_batch.pop_back();
  const Shape a_batch = batch_part(a), b_batch = batch_part(b);
  p.b_batches = graph::element_count(b_batch);
  if (p.b_batches == Dim(1)) {
    // One right operand: all rows of all batches are one tall matrix.
    p.row_count = row_count(Shape(a.begin(), a.end() - 1));
    p.rows = graph::element_count(a_batch) * p.rows;
    return p;
  }
  const BatchLoop loop = merge_batches(a_batch, b_batch, out_batch);
  if (loop.extents.size() > 2) {
    return unsupported("batch dimensions broadcast in a pattern of more than two levels");
  }
  p.batches = graph::element_count(out_batch);
  const Dim a_matrix = p.rows * p.depth;
  if (!loop.extents.empty()) {
    p.inner_batches = loop.extents.back();
    p.a_batch_inner = loop.a.back() * a_matrix;
    p.b_batch_inner = loop.b.back();
  }
  if (loop.extents.size() == 2) {
    p.a_batch_outer = loop.a.front() * a_matrix;
    p.b_batch_outer = loop.b.front();
  }
  return p;
}

Result<Problem> gemm_problem(const Graph& graph, const Node& node) {
  Problem p;
  p.a = node.inputs[0];
  p.b = node.inputs[1];
  const Shape& a = graph.type(p.a).shape;
  const Shape& b = graph.type(p.b).shape;
  const bool trans_a = node.attributes.i("transA") != 0, trans_b = node.attributes.i("transB") != 0;
  p.rows = a[trans_a ? 1 : 0];
  p.row_count = row_count({p.rows});
  p.depth = a[trans_a ? 0 : 1];
  p.columns = b[trans_b ? 0 : 1];
  p.a_row = trans_a ? Dim(1) : p.depth;
  p.a_step = trans_a ? p.rows : Dim(1);
  p.b_row = trans_b ? Dim(1) : p.columns;
  p.b_column = trans_b ? p.depth : Dim(1);
  p.arithmetic.scale = node.attributes.f("alpha");
  if (node.inputs.size() > 2 && node.inputs[2].valid() && node.attributes.f("beta") != 0) {
    p.arithmetic.addend = node.inputs[2];
    p.arithmetic.addend_scale = node.attributes.f("beta");
    if (operand_mode(graph.type(node.inputs[2]).shape, graph.type(node.outputs[0]).shape).empty()) {
      return unsupported(fmt::format("operand C of shape {} is neither a scalar, nor a row vector, nor a full matrix",
                                     graph::shape_text(graph.type(node.inputs[2]).shape)));
    }
  }
  if (!is_floating(graph.type(p.a).dtype) && (p.arithmetic.scale != std::floor(p.arithmetic.scale) ||
                                              p.arithmetic.addend_scale != std::floor(p.arithmetic.addend_scale))) {
    return unsupported("fractional alpha or beta on an integer matrix");
  }
  return p;
}

Result<Problem> problem_of(const Graph& graph, const Node& node) {
  return node.op == "Gemm" ? gemm_problem(graph, node) : matmul_problem(graph, node);
}

class MatMulPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "matmul"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "MatMul" && node.op != "Gemm") return std::nullopt;
    const DType dtype = graph.type(node.inputs[0]).dtype;
    if (!is_floating(dtype) && dtype_bits(dtype) < 32)
      return unsupported(fmt::format("{} matrices (use MatMulInteger)", dtype_name(dtype)));
    AIPU_RETURN_IF_ERROR(problem_of(graph, node).status());
    // The last axis of a product with a vector is the rows of the matrix: no column of the kernel's.
    if (graph.type(node.inputs[1]).rank() == 1) return graph::Claim{anchor, {anchor}, 20};
    return claim_with_epilogue(graph, anchor);
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    AIPU_ASSIGN_OR_RETURN(const Problem p, problem_of(graph, node));
    const DType stored = graph.type(p.a).dtype;
    if (has_staged_products(context.target(), stored)) {
      AIPU_ASSIGN_OR_RETURN(const bool staged, setup_staged(context, p, stored));
      if (staged) return {};
    }
    const DType accumulator = accumulator_dtype(stored);
    const int lanes = context.lanes(accumulator);
    const RegisterTile tile = register_tile(context.target(), p.columns, lanes);
    const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
    const Dim panels = graph::ceildiv(p.columns, panel_width);

    const graph::ConstantPtr& constant = graph.value(p.b).constant;
    const bool pairs = sums_pairs(context.target(), stored, constant.get(), p.depth) && p.columns.is_constant() &&
                       p.b_batches.is_constant() && p.a_step == Dim(1);
    const DType panel = panel_dtype(accumulator, pairs);
    dsl::TemplateParams params;
    set_tile_params(context.target(), tile, lanes, accumulator, &params, pairs);
    params.set("A", stored);

    TensorRef right;
    if (constant != nullptr && p.columns.is_constant() && p.depth.is_constant() && p.b_batches.is_constant()) {
      const int64_t depth = *p.depth.constant(), columns = *p.columns.constant(), row = *p.b_row.constant(),
                    column = *p.b_column.constant();
      right = context.add_constant(pack_panels(
          constant, panel,
          {*p.b_batches.constant(), depth, columns, panel_width, depth, depth * columns, column, row, 0, pairs}));
    } else {
      right = context.add_workspace(p.b_batches * panels * p.depth *
                                    Dim(panel_width * static_cast<int64_t>(dtype_bytes(accumulator))));
      params.set("B", graph.type(p.b).dtype).set("B_ZERO", false).set("UNIT_COLUMNS", p.b_column == Dim(1));
      AIPU_ASSIGN_OR_RETURN(auto pack, context.kernel("matmul.py", "pack_panels", params));
      KernelArguments arguments;
      arguments.pointer("b", context.value(p.b))
          .pointer("packed", right)
          .scalars({{"batches", p.b_batches}, {"depth", p.depth}, {"columns", p.columns}, {"b_zero", 0}})
          .scalars({{"batch_stride", p.depth * p.columns}, {"row_stride", p.b_row}, {"column_stride", p.b_column}});
      AIPU_RETURN_IF_ERROR(context.launch(std::move(pack), arguments, p.b_batches * panels));
    }

    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue,
                          bind_epilogue(context, node.outputs[0], accumulator, p.arithmetic, &params));
    return launch_gemm(context, tile, lanes,
                       {.left = context.value(p.a),
                        .right = right,
                        .row_count = p.row_count,
                        .batches = p.batches,
                        .inner_batches = p.inner_batches,
                        .rows = p.rows,
                        .columns = p.columns,
                        .depth = p.depth,
                        .left_row = p.a_row,
                        .left_step = p.a_step,
                        .left_batch_outer = p.a_batch_outer,
                        .left_batch_inner = p.a_batch_inner,
                        .right_batch_outer = p.b_batch_outer,
                        .right_batch_inner = p.b_batch_inner},
                       epilogue, std::move(params));
  }

 private:
  // Through the local memory of TECs; false: no tiling fits, or operands are not as it takes them: rows one behind the
  // other, times one constant matrix.
  static Result<bool> setup_staged(SetupContext& context, const Problem& p, DType stored) {
    const graph::ConstantPtr& constant = context.graph().value(p.b).constant;
    const auto depth = p.depth.constant(), columns = p.columns.constant(), row = p.b_row.constant(),
               column = p.b_column.constant();
    if (constant == nullptr || !depth || !columns || !row || !column || p.b_batches != Dim(1) || p.a_step != Dim(1))
      return false;
    SpatialGeometry geometry;
    geometry.batch = 1;
    geometry.channels = *depth;
    geometry.out_channels = *columns;
    geometry.axes[2].in = geometry.axes[2].out = p.rows;
    ProductShape shape{.channels = *depth, .group_in = *depth, .group_out = *columns, .element = stored};
    AIPU_RETURN_IF_ERROR(describe_epilogue(context, p.arithmetic, &shape));
    const auto plan = plan_staged_product(context.target(), geometry, shape);
    if (!plan) return false;
    const StagedOperands operands{
        .x = {context.value(p.a)},
        .weights = context.add_constant(pack_staged(*plan, shape, constant, {.column = *column, .channel = *row}))};
    AIPU_RETURN_IF_ERROR(launch_staged_product(context, *plan, geometry, shape, operands, p.arithmetic));
    return true;
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_matmul_plugin() { return std::make_unique<MatMulPlugin>(); }

}  // namespace aipu::kernels
