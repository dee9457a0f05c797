#include "kernels/parts/depthwise.h"

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/rounding.h"

namespace aipu::kernels {

using graph::Dim;

int64_t depthwise_tile_width(const tir::Target& target, int64_t out) {
  // The pixels and one kernel row's weights in registers; tiles of (almost) equal width.
  const int64_t most = target.vector_registers >= 32 ? 14 : 7;
  return out > 0 ? ceil_of(out, ceil_of(out, most)) : most / 2;
}

void set_depthwise_sums(const DepthwiseSums& sums, int lanes, dsl::TemplateParams* params) {
  const bool of_integers = sums.start != nullptr, scaled = sums.factors != nullptr;
  const bool has_zero = of_integers && sums.zero != 0;
  const dsl::Captured number{dsl::CapturedType{tir::Type::scalar(DType::kF32)}};
  const dsl::Captured vector{dsl::CapturedType{tir::Type::vector(DType::kF32, lanes)}};
  const size_t pointers = of_integers ? (scaled ? 2 : 1) : 0;
  dsl::CapturedList begin(pointers, vector);
  if (has_zero) begin.push_back(number);
  params->set("SUM", sums.type)
      .set("SUMS", !of_integers ? "results"
                   : scaled     ? "scaled"
                                : "int32")
      .set("start_types", pointer_types(pointers, DType::kF32))
      .set("zero_types", dsl::Captured{dsl::CapturedList(has_zero ? 1 : 0, number)})
      .set("begin_types", dsl::Captured{std::move(begin)});
}

void bind_sums(SetupContext& context, const DepthwiseSums& sums, KernelArguments* arguments) {
  if (sums.start) arguments->pointer("start[0]", context.add_constant(sums.start));
  if (sums.factors) arguments->pointer("start[1]", context.add_constant(sums.factors));
  if (sums.start && sums.zero != 0) arguments->real("zero[0]", static_cast<double>(sums.zero));
}

DepthwiseBlocks set_depthwise_blocks(SetupContext& context, const SpatialGeometry& geometry, int lanes,
                                     dsl::TemplateParams* params) {
  const graph::Graph& graph = context.graph();
  const auto& [depth, height, width] = geometry.axes;
  // The image rows that a block of output rows reads stay in the second-level cache. What is too large for the last
  // one is fetched a block ahead: smaller blocks then, as two of them are there.
  constexpr int64_t kBlockBytes = 384 * 1024, kBlockBytesAhead = 96 * 1024, kLineBytes = 64;
  const graph::TensorType& x = graph.type(context.anchor().inputs[0]);
  const graph::TensorType& out = graph.type(stored_value(context));
  const auto x_bytes = static_cast<int64_t>(dtype_bytes(x.dtype)),
             out_bytes = static_cast<int64_t>(dtype_bytes(out.dtype));
  const int64_t cached_bytes = context.target().cache_bytes(), channels = *geometry.out_channels.constant();
  params->set("FETCHES", cached_bytes > 0)
      .set("X_LINE", kLineBytes / x_bytes)
      .set("OUT_LINE", kLineBytes / out_bytes)
      .set("MULTIPLIER", channels / geometry.channels.constant_or(channels));
  const Dim bytes = graph::element_count(x.shape) * Dim(x_bytes) + graph::element_count(out.shape) * Dim(out_bytes);
  const Dim ahead = cached_bytes > 0 && !context.is_in_bands() ? graph::lt(cached_bytes, bytes) : Dim(0);
  const Dim block = graph::select(ahead, Dim(kBlockBytesAhead), Dim(kBlockBytes));
  const Dim step = width.in * geometry.channels * Dim(height.stride * x_bytes);
  return {.rows = graph::max(graph::floordiv(block, graph::max(step, 1)), 1),
          .ahead = ahead,
          .units = graph::max(geometry.batch * depth.out * height.out * Dim(ceil_of(channels, lanes)), 1)};
}

Status launch_depthwise(SetupContext& context, const SpatialGeometry& geometry, int lanes, const DepthwiseSums& sums,
                        const TensorRef& weights, dsl::TemplateParams params, KernelArguments arguments) {
  const SpatialAxis& width = geometry.axes[2];
  const int64_t channels = *geometry.out_channels.constant();
  set_depthwise_sums(sums, lanes, &params);
  params.set("VL", lanes)
      .set("NV", 1)
      .set("WIDTH", depthwise_tile_width(context.target(), width.out.constant_or(0)))
      .set("NARROW", !width.out.is_constant())
      .set("TAIL", channels % lanes != 0)
      .set("MEMORY", "global")
      .set("KW", width.kernel)
      .set("SW", width.stride)
      .set("DW", width.dilation);
  const DepthwiseBlocks blocks = set_depthwise_blocks(context, geometry, lanes, &params);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("depthwise.py", "depthwise", params));
  arguments.pointer("weights", weights).scalar("padded_channels", rounded_up(channels, lanes));
  bind_sums(context, sums, &arguments);
  bind_geometry(geometry, &arguments);
  arguments.scalar("block_rows", blocks.rows).scalar("ahead", blocks.ahead);
  return context.launch(std::move(kernel), arguments, blocks.units);
}

}  // namespace aipu::kernels
