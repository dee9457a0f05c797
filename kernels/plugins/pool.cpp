// MaxPool (with indices), AveragePool, LpPool. The global pools are reductions.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "kernels/dsl/stage_parameters.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/rounding.h"
#include "kernels/parts/spatial.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

// The value every maximum beats or equals.
dsl::Captured lowest(DType dtype) {
  if (is_floating(dtype)) return {std::string("-inf")};
  if (is_unsigned_int(dtype) || dtype == DType::kBool) return {int64_t{0}};
  return {-(int64_t{1} << (dtype_bits(dtype) - 1))};
}

// Results of a row whose windows fit local memory with them, twice: 0 where those of one do not, or where their shapes
// are not known.
struct PoolTile {
  int64_t segment = 0, image = 0, results = 0;  // in elements
};

PoolTile pool_tile(const tir::Target& target, const SpatialGeometry& geometry, DType in, DType out) {
  // What asynchronous DMA can step over.
  constexpr int64_t kMostStrideBytes = 0xFFFFFF, kBufferBytes = 64;
  const auto &h = geometry.axes[1], &w = geometry.axes[2];
  const auto channels = geometry.channels.constant(), columns = w.out.constant(), width = w.in.constant();
  const auto in_bytes = static_cast<int64_t>(dtype_bytes(in)), out_bytes = static_cast<int64_t>(dtype_bytes(out));
  if (!dsl::has_staging(target) || !channels || !columns || !width || *columns < 1 || *channels < 1) return {};
  if (*width * *channels * in_bytes > kMostStrideBytes) return {};
  for (int64_t segments = 1; segments <= *columns; ++segments) {
    PoolTile tile{ceil_of(*columns, segments)};
    tile.image = h.kernel * ((tile.segment - 1) * w.stride + w.kernel) * *channels;
    tile.results = tile.segment * *channels;
    if (2 * (tile.image * in_bytes + tile.results * out_bytes) + 2 * kBufferBytes <= target.lsram_bytes()) return tile;
  }
  return {};
}

class PoolPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "pool"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "MaxPool" && node.op != "AveragePool" && node.op != "LpPool") return std::nullopt;
    AIPU_ASSIGN_OR_RETURN(const SpatialGeometry geometry, read_geometry(graph, node, {}));
    if (wants_indices(node) && !geometry.channels.is_constant())
      return unsupported("indices of a symbolic number of channels");
    return claim_with_epilogue(graph, anchor);
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    AIPU_ASSIGN_OR_RETURN(const SpatialGeometry geometry, read_geometry(graph, node, {}));
    const DType stored = graph.type(node.inputs[0]).dtype;
    const DType accumulator = accumulator_dtype(stored);
    const bool indices = wants_indices(node);
    int lanes = indices ? context.lanes(DType::kI64) : context.lanes(accumulator);
    if (lanes == 16 && geometry.channels.constant_or(lanes) <= 8) lanes = 8;  // no masks
    const int64_t power = node.attributes.i_or("p", 2);

    dsl::TemplateParams params;
    params.set("X", stored == DType::kBool ? DType::kU8 : stored)
        .set("ACC", accumulator)
        .set("VL", std::max(lanes, 2))
        .set("NV", 1)
        .set("INDICES", indices)
        .set("FLOATING", is_floating(accumulator))
        .set("POWER", power);
    params.set("KIND", node.op == "MaxPool" ? "max" : node.op == "LpPool" ? "lp" : "average");
    params.set("INITIAL", node.op == "MaxPool" ? lowest(accumulator) : dsl::Captured{int64_t{0}});
    dsl::CapturedList index_types;
    if (indices) index_types.assign(2, {dsl::CapturedType{tir::Type::pointer_to(DType::kI64, 1, tir::Scope::kGlobal)}});
    params.set("index_types", dsl::Captured{std::move(index_types)});
    const auto& [d, h, w] = geometry.axes;
    constexpr int64_t kMostTaps = 25;  // unrolled
    const bool small = d.kernel == 1 && d.pad_begin == Dim(0) && d.pad_end == Dim(0) && d.stride == 1 &&
                       h.dilation == 1 && w.dilation == 1 && h.kernel * w.kernel <= kMostTaps;
    params.set("WINDOW", small && !indices && node.op != "LpPool" ? std::vector<int64_t>{h.kernel, w.kernel}
                                                                  : std::vector<int64_t>{0, 0});
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, {}, &params));
    PoolTile tile;
    const graph::Shape& shape = graph.type(node.outputs[0]).shape;
    const bool by_channel = std::none_of(epilogue.extras.begin(), epilogue.extras.end(), [&](graph::ValueId extra) {
      return operand_mode(graph.type(extra).shape, shape) == "full";
    });
    if (small && !indices && by_channel)
      tile = pool_tile(context.target(), geometry, stored, graph.type(epilogue.result).dtype);
    if (tile.segment > 0) params.set("STAGING", 2).set("IMAGE", tile.image).set("RESULTS", tile.results);
    const auto [file, entry] =
        tile.segment > 0 ? std::pair("pool_staged.py", "pool_staged") : std::pair("pool.py", "pool");
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel(file, entry, params));

    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0])).pointer("out", context.value(epilogue.result));
    if (indices) {
      std::vector<int64_t> channel(static_cast<size_t>(*geometry.channels.constant()));
      std::iota(channel.begin(), channel.end(), 0);
      arguments.pointer("indices[0]", context.value(node.outputs[1]))
          .pointer("indices[1]", context.add_constant(graph::Constant::int64s(std::move(channel))));
    }
    bind_geometry(geometry, &arguments);
    arguments.record("pad_end", of_axes(geometry, [](const SpatialAxis& axis) { return axis.pad_end; }))
        .scalar("count_padding", node.attributes.i_or("count_include_pad", 0))
        .list("extras", epilogue.extra_arguments);
    const Dim rows = geometry.batch * geometry.axes[0].out * geometry.axes[1].out;
    if (tile.segment > 0) {
      arguments.scalar("segment", tile.segment);
      context.note(fmt::format("segments of {} results of {} lines, {} and {} elements in 2 buffers each", tile.segment,
                               h.kernel, tile.image, tile.results));
      return context.launch(std::move(kernel), arguments,
                            graph::max(rows * graph::ceildiv(geometry.axes[2].out, tile.segment), 1));
    }
    arguments.scalar("column_major", node.attributes.i_or("storage_order", 0));
    return context.launch(std::move(kernel), arguments, rows * graph::ceildiv(geometry.channels, std::max(lanes, 2)));
  }

 private:
  static bool wants_indices(const Node& node) { return node.outputs.size() > 1 && node.outputs[1].valid(); }
};

}  // namespace

std::unique_ptr<OpPlugin> make_pool_plugin() { return std::make_unique<PoolPlugin>(); }

}  // namespace aipu::kernels
