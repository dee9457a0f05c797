// Reduce* and the global pools.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/strided_map.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

struct Kind {
  std::string_view name, combine;
  bool of_images = false;  // over all spatial axes
};

const std::map<std::string_view, Kind>& kinds() {
  static const std::map<std::string_view, Kind> kKinds = {
      {"ReduceSum", {"sum", "sum"}},
      {"ReduceMean", {"mean", "sum"}},
      {"ReduceMax", {"max", "max"}},
      {"ReduceMin", {"min", "min"}},
      {"ReduceProd", {"prod", "prod"}},
      {"ReduceL1", {"l1", "sum"}},
      {"ReduceL2", {"l2", "sum"}},
      {"ReduceLogSum", {"log_sum", "sum"}},
      {"ReduceLogSumExp", {"log_sum_exp", "sum"}},
      {"ReduceSumSquare", {"sum_square", "sum"}},
      {"GlobalAveragePool", {"mean", "sum", true}},
      {"GlobalMaxPool", {"max", "max", true}},
  };
  return kKinds;
}

// The ends of an integer type's range; that of 64 unsigned bits by its bits, which the template casts.
int64_t least(DType dtype) {
  return dtype == DType::kBool || is_unsigned_int(dtype) ? 0 : INT64_MIN >> (64 - dtype_bits(dtype));
}
int64_t greatest(DType dtype) {
  if (dtype == DType::kBool) return 1;
  if (is_unsigned_int(dtype)) return static_cast<int64_t>(UINT64_MAX >> (64 - dtype_bits(dtype)));
  return INT64_MAX >> (64 - dtype_bits(dtype));
}

// Per axis whether it is reduced.
Result<std::vector<bool>> reduced_axes(const Graph& graph, const Node& node) {
  const size_t rank = graph.type(node.inputs[0]).shape.size();
  std::vector<bool> reduced(rank, false);
  if (kinds().at(node.op).of_images) {
    const bool channels_last = node.attributes.s_or("layout", "NCHW") == "NHWC";
    for (size_t i = channels_last ? 1 : 2; i < rank - (channels_last ? 1 : 0); ++i) reduced[i] = true;
    return reduced;
  }
  std::vector<int64_t> axes;
  if (node.attributes.has("axes")) {
    axes = node.attributes.ints("axes");
  } else if (node.inputs.size() > 1 && node.inputs[1].valid()) {
    const graph::Constant* constant = graph.constant(node.inputs[1]);
    if (constant == nullptr) return unsupported("the axes are not constant");
    axes = constant->to_int64s();
  }
  if (axes.empty()) {
    if (node.attributes.i_or("noop_with_empty_axes", 0) == 0) reduced.assign(rank, true);
    return reduced;
  }
  for (const int64_t axis : axes)
    reduced[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis)] = true;
  return reduced;
}

struct Axis {
  Dim extent, stride;
};

std::vector<Dim> of_axes(const std::vector<Axis>& axes, Dim Axis::*member) {
  std::vector<Dim> numbers;
  for (const Axis& axis : axes) numbers.push_back(axis.*member);
  return numbers;
}

// Reduced elements for each TEC that are worth its meeting the others.
constexpr int64_t kRunElements = 98;

// Into how many runs the elements of a result are cut (templates/reduce.py): of images whose channels lie side by side,
// on CPUs with caches, from the size of image on that two TECs share out.
int64_t run_count(const tir::Target& target, const Kind& kind, const std::vector<Axis>& kept,
                  const std::vector<Axis>& reduced) {
  constexpr int64_t kRuns = 8, kFewestPixels = 2 * kRunElements, kFewestElements = 8192;
  if (target.cache_bytes() == 0 || kind.name == "log_sum_exp" || reduced.size() != 1) return 1;
  const auto pixels = reduced[0].extent.constant(), channels = kept.back().extent.constant();
  const bool is_large = pixels && channels && *pixels >= kFewestPixels && *pixels * *channels >= kFewestElements;
  return is_large ? kRuns : 1;
}

class ReducePlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "reduce"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&) const override {
    const Node& node = graph.node(anchor);
    if (!kinds().contains(node.op)) return std::nullopt;
    AIPU_RETURN_IF_ERROR(reduced_axes(graph, node).status());
    return graph::Claim{anchor, {anchor}, 20};
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const DType out = graph.type(node.outputs[0]).dtype;
    const Kind& kind = kinds().at(node.op);
    AIPU_ASSIGN_OR_RETURN(const std::vector<bool> reduced, reduced_axes(graph, node));

    // Kept and reduced dimensions, extents of 1 dropped, neighbours of the same sort merged; the kept ones in output
    // order.
    std::vector<Axis> kept, gone;
    const std::vector<Dim> strides = contiguous_strides(x.shape);
    bool previous_reduced = false, first = true;
    for (size_t i = 0; i < x.shape.size(); ++i) {
      if (x.shape[i] == Dim(1)) continue;
      std::vector<Axis>& list = reduced[i] ? gone : kept;
      if (!first && previous_reduced == reduced[i]) {
        list.back().extent *= x.shape[i];
        list.back().stride = strides[i];
      } else {
        list.push_back({x.shape[i], strides[i]});
      }
      previous_reduced = reduced[i];
      first = false;
    }
    const bool inner_reduced = first || previous_reduced;
    if (kept.empty()) kept.push_back({1, 0});
    if (gone.empty()) gone.push_back({1, 1});
    Dim total = 1;
    for (const Axis& axis : gone) total *= axis.extent;

    const DType stored = x.dtype == DType::kBool ? DType::kU8 : x.dtype;
    DType accumulator = accumulator_dtype(stored);
    // Sums of narrow integers are formed in 32 bits and wrap when stored, as the element type would.
    if (is_integer(accumulator) && dtype_bits(accumulator) < 32) accumulator = DType::kI32;
    const int lanes = std::max(2, context.lanes(accumulator));
    // What is stored of nothing is the end of its own type's range, not of the accumulator's.
    const dsl::Captured lowest =
        is_floating(stored) ? dsl::Captured{std::string("-inf")} : dsl::Captured{least(x.dtype)};
    const dsl::Captured highest =
        is_floating(stored) ? dsl::Captured{std::string("inf")} : dsl::Captured{greatest(x.dtype)};
    const dsl::Captured identity = kind.combine == "max"    ? lowest
                                   : kind.combine == "min"  ? highest
                                   : kind.combine == "prod" ? dsl::Captured{int64_t{1}}
                                                            : dsl::Captured{int64_t{0}};
    dsl::TemplateParams params;
    const DType root = is_floating(accumulator) ? accumulator : DType::kF64;
    params.set("X", stored)
        .set("ACC", accumulator)
        .set("OUT", out == DType::kBool ? DType::kU8 : out)
        .set("ROOT", root)
        .set("VL", lanes);
    params.set("KIND", std::string(kind.name))
        .set("COMBINE", std::string(kind.combine))
        .set("INNER", inner_reduced ? "reduced" : "kept")
        .set("COLUMNS", 4);
    params.set("IDENTITY", identity).set("LOWEST", lowest).set("SIGNED", !is_unsigned_int(accumulator));
    params.set("KEPT", static_cast<int64_t>(kept.size())).set("REDUCED", static_cast<int64_t>(gone.size()));
    params.set("kept_types",
               dsl::Captured{dsl::CapturedList(kept.size(), {dsl::CapturedType{tir::Type::scalar(DType::kI32)}})});
    params.set("reduced_types",
               dsl::Captured{dsl::CapturedList(gone.size(), {dsl::CapturedType{tir::Type::scalar(DType::kI32)}})});
    const int64_t runs = inner_reduced ? 1 : run_count(context.target(), kind, kept, gone);
    params.set("SEGMENTS", runs).set("RUN_ELEMENTS", kRunElements);
    params.set("runs_types", pointer_types(runs > 1 ? 1 : 0, accumulator));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("reduce.py", "reduce", params));

    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .scalar_list("kept_dims", of_axes(kept, &Axis::extent))
        .scalar_list("kept_strides", of_axes(kept, &Axis::stride))
        .scalar_list("reduced_dims", of_axes(gone, &Axis::extent))
        .scalar_list("reduced_strides", of_axes(gone, &Axis::stride))
        .scalar("reduced_total", total);
    if (runs > 1) {
      Dim results = 1;
      for (const Axis& axis : kept) results *= axis.extent;
      arguments.pointer("runs[0]",
                        context.add_workspace(results * Dim(runs * static_cast<int64_t>(dtype_bytes(accumulator)))));
    }
    return context.launch(std::move(kernel), arguments,
                          graph::max(graph::ceildiv(graph::element_count(x.shape), 8192), 1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_reduce_plugin() { return std::make_unique<ReducePlugin>(); }

}  // namespace aipu::kernels
