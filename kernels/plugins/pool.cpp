// MaxPool (with indices), AveragePool, LpPool. The global pools are reductions.
#include <numeric>

#include <fmt/format.h>

#include "kernels/parts/fusion.h"
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
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("pool.py", "pool", params));

    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0])).pointer("out", context.value(epilogue.result));
    if (indices) {
      std::vector<int64_t> channel(static_cast<size_t>(*geometry.channels.constant()));
      std::iota(channel.begin(), channel.end(), 0);
      arguments.pointer("indices[0]", context.value(node.outputs[1]))
          .pointer("indices[1]", context.add_constant(graph::Constant::int64s(std::move(channel))));
    }
    arguments.list("extras", epilogue.extra_arguments);
    bind_geometry(geometry, &arguments);
    arguments.record("pad_end", of_axes(geometry, [](const SpatialAxis& axis) { return axis.pad_end; }))
        .scalar("count_padding", node.attributes.i_or("count_include_pad", 0))
        .scalar("column_major", node.attributes.i_or("storage_order", 0));
    return context.launch(std::move(kernel), arguments,
                          geometry.batch * geometry.axes[0].out * geometry.axes[1].out *
                              graph::ceildiv(geometry.channels, std::max(lanes, 2)));
  }

 private:
  static bool wants_indices(const Node& node) { return node.outputs.size() > 1 && node.outputs[1].valid(); }
};

}  // namespace

std::unique_ptr<OpPlugin> make_pool_plugin() { return std::make_unique<PoolPlugin>(); }

}  // namespace aipu::kernels
