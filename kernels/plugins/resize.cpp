// Resize: one separable pass per axis that changes, the smallest intermediate first.
#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "codegen/targets/machine_types.h"
#include "codegen/tir/interpreter.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

// The numbers of an axis that ONNX states: how far its pixels are apart, which part of it is taken.
struct AxisNumbers {
  double scale = 1, start = 0, end = 1, cubic = 0;
};

// A longer axis has no table.
constexpr int64_t kLongestTable = int64_t{1} << 20;

// What each pixel along an axis is made of, for machines that cannot work out positions in float64.
struct TapTable {
  graph::ConstantPtr taps, weights;
};

template <typename T>
graph::ConstantPtr constant_of(DType dtype, const std::vector<T>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(T));
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return graph::Constant::create(dtype, {static_cast<int64_t>(elements.size())}, std::move(bytes));
}

// By the kernel that computes positions everywhere else.
Result<TapTable> tap_table(const tir::Module& kernel, int64_t in_extent, int64_t out_extent, int64_t tap_count,
                           const AxisNumbers& numbers) {
  std::vector<int32_t> taps(static_cast<size_t>(out_extent * tap_count));
  std::vector<float> weights(taps.size());
  const auto memory = [](auto& elements) {
    return tir::InterpreterArgument{.data = reinterpret_cast<std::byte*>(elements.data()),
                                    .bytes = elements.size() * sizeof elements[0],
                                    .is_pointer = true};
  };
  const auto integer = [](int64_t value) { return tir::InterpreterArgument{.word = static_cast<uint64_t>(value)}; };
  const auto real = [](double value) { return tir::InterpreterArgument{.word = std::bit_cast<uint64_t>(value)}; };
  const tir::InterpreterArgument arguments[] = {memory(taps),        memory(weights),     integer(in_extent),
                                                integer(out_extent), real(numbers.scale), real(numbers.start),
                                                real(numbers.end),   real(numbers.cubic)};
  AIPU_RETURN_IF_ERROR(tir::interpret_all(kernel, 1, arguments));
  return TapTable{constant_of(DType::kI32, taps), constant_of(DType::kF32, weights)};
}

bool takes_table(const tir::Target& target, const Dim& in_extent, const Dim& out_extent) {
  const int64_t from = in_extent.constant_or(0), to = out_extent.constant_or(0);
  return from > 0 && to > 0 && to <= kLongestTable && !tir::machine_has(target, DType::kF64);
}

Status launch_by_table(SetupContext& context, const dsl::TemplateParams& params, int64_t in_extent, int64_t out_extent,
                       int64_t tap_count, const AxisNumbers& numbers, KernelArguments& arguments, const Dim& units) {
  AIPU_ASSIGN_OR_RETURN(const auto filler, context.kernel("resize.py", "resize_table", params));
  AIPU_ASSIGN_OR_RETURN(const TapTable table, tap_table(*filler, in_extent, out_extent, tap_count, numbers));
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("resize.py", "resize_by_table", params));
  arguments.pointer("taps", context.add_constant(table.taps)).pointer("weights", context.add_constant(table.weights));
  return context.launch(std::move(kernel), arguments, units);
}

class ResizePlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "resize"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Resize"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    if (!node.attributes.has("sizes")) return unsupported("the output sizes are not resolved");
    if (node.attributes.s("mode") != "nearest" && !is_floating(graph.type(node.inputs[0]).dtype))
      return unsupported("interpolation of an integer tensor");
    return {};
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const graph::TensorType& y = graph.type(node.outputs[0]);
    const size_t rank = x.shape.size();
    const bool channels_last = node.attributes.s_or("layout", "NCHW") == "NHWC" && rank > 2;
    // Attributes are in NCHW order; onnx_axis[k] is where axis k of the tensor stands there.
    std::vector<size_t> onnx_axis(rank);
    for (size_t i = 0; i < rank; ++i) onnx_axis[i] = !channels_last || i == 0 ? i : i == rank - 1 ? 1 : i + 1;

    const std::string& mode = node.attributes.s("mode");
    const bool crop = node.attributes.s("coordinate_transformation_mode") == "tf_crop_and_resize";
    const bool moves = mode == "nearest" && !crop;
    const DType accumulator = moves ? raw_dtype(x.dtype) : accumulator_dtype(storage_dtype(x.dtype));
    const DType stored = moves ? raw_dtype(x.dtype) : storage_dtype(x.dtype);
    const auto run_operand = [&](size_t input) {
      return input < node.inputs.size() ? node.inputs[input] : graph::ValueId();
    };
    const graph::ValueId run_scales = run_operand(4), run_roi = run_operand(5);
    std::vector<size_t> axes;
    for (size_t i = 0; i < rank; ++i) {
      if (run_scales.valid() || run_roi.valid() || !(x.shape[i] == y.shape[i]) || has_scale(node, onnx_axis[i]) ||
          (crop && cropped(node, onnx_axis[i], rank)))
        axes.push_back(i);
    }
    if (axes.empty()) {
      context.view(node.outputs[0], node.inputs[0]);
      return {};
    }
    Shape current = x.shape;
    TensorRef source = context.value(node.inputs[0]);
    DType source_dtype = stored;
    for (size_t step = 0; step < axes.size(); ++step) {
      const size_t axis = axes[step];
      const bool last = step + 1 == axes.size();
      Shape next = current;
      next[axis] = y.shape[axis];
      const DType target_dtype = last ? stored : accumulator;
      const TensorRef target =
          last
              ? context.value(node.outputs[0])
              : context.add_workspace(graph::element_count(next) * Dim(static_cast<int64_t>(dtype_bytes(accumulator))));
      AxisView view = axis_view(current, static_cast<int64_t>(axis));
      // Elements that are only moved are as well four bytes together, which have fewer lanes to be masked.
      constexpr int64_t kWord = 4;
      const auto element = static_cast<int64_t>(dtype_bytes(stored));
      const bool in_words = moves && element < kWord && view.inner.constant_or(1) % (kWord / element) == 0 &&
                            view.inner.is_constant() && context.target().codegen == "native_c";
      if (in_words) view.inner = Dim(*view.inner.constant() * element / kWord);
      const DType moved = in_words ? DType::kU32 : accumulator;
      dsl::TemplateParams params;
      params.set("X", in_words ? moved : source_dtype)
          .set("ACC", moved)
          .set("OUT", in_words ? moved : target_dtype)
          .set("VL", std::max(2, context.lanes(moved)));
      params.set("MODE", mode)
          .set("NEAREST_MODE", node.attributes.s("nearest_mode"))
          .set("COORDINATES", node.attributes.s("coordinate_transformation_mode"));
      params.set("EXCLUDE_OUTSIDE", node.attributes.i("exclude_outside") != 0).set("TAPS", taps_of(mode));
      params.set("ANTIALIAS", mode != "nearest" && node.attributes.i_or("antialias", 0) != 0);
      const bool scaled = node.attributes.has("scales");
      params.set("HAS_SCALE", scaled || run_scales.valid())
          .set("RUN_SCALE", run_scales.valid())
          .set("RUN_ROI", run_roi.valid());
      params.set("scale_types", pointer_types(run_scales.valid() ? 1 : 0, real_dtype(graph, run_scales)))
          .set("roi_types", pointer_types(run_roi.valid() ? 1 : 0, real_dtype(graph, run_roi)));
      const bool roi = node.attributes.has("roi");
      AxisNumbers numbers{.cubic = node.attributes.f("cubic_coeff_a")};
      if (scaled) numbers.scale = node.attributes.floats("scales")[onnx_axis[axis]];
      if (roi) numbers.start = node.attributes.floats("roi")[onnx_axis[axis]];
      if (roi) numbers.end = node.attributes.floats("roi")[rank + onnx_axis[axis]];
      KernelArguments arguments;
      arguments.pointer("x", source).pointer("out", target);
      arguments.scalars({{"outer", view.outer}, {"inner", view.inner}})
          .scalars({{"in_extent", view.extent}, {"out_extent", y.shape[axis]}});
      const Dim units = graph::max(view.outer * y.shape[axis], 1);
      const bool is_stretched = mode != "nearest" && node.attributes.i_or("antialias", 0) != 0;
      const bool has_taps = !run_scales.valid() && !run_roi.valid() && !crop && !is_stretched;
      source = target;
      source_dtype = target_dtype;
      current = std::move(next);
      if (has_taps && takes_table(context.target(), view.extent, y.shape[axis])) {
        AIPU_RETURN_IF_ERROR(launch_by_table(context, params, *view.extent.constant(), *y.shape[axis].constant(),
                                             taps_of(mode), numbers, arguments, units));
        continue;
      }
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("resize.py", "resize_axis", params));
      if (run_scales.valid()) arguments.pointer("run_scales[0]", context.value(run_scales));
      if (run_roi.valid()) arguments.pointer("run_roi[0]", context.value(run_roi));
      arguments.scalar("axis", static_cast<int64_t>(onnx_axis[axis]));
      arguments.real("given_scale", numbers.scale)
          .real("given_start", numbers.start)
          .real("given_end", numbers.end)
          .real("extrapolation", node.attributes.f("extrapolation_value"))
          .real("cubic_a", numbers.cubic);
      AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, units));
    }
    return {};
  }

 private:
  static int64_t taps_of(std::string_view mode) { return mode == "cubic" ? 4 : mode == "linear" ? 2 : 1; }
  static DType real_dtype(const Graph& graph, graph::ValueId operand) {
    return operand.valid() ? graph.type(operand).dtype : DType::kF32;
  }
  static bool has_scale(const Node& node, size_t axis) {
    return node.attributes.has("scales") && node.attributes.floats("scales")[axis] != 1;
  }
  static bool cropped(const Node& node, size_t axis, size_t rank) {
    return node.attributes.has("roi") &&
           (node.attributes.floats("roi")[axis] != 0 || node.attributes.floats("roi")[rank + axis] != 1);
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_resize_plugin() { return std::make_unique<ResizePlugin>(); }

}  // namespace aipu::kernels
