// Tensors made from scalars and positions: Shape, Size, Range, random numbers, ConstantOfShape, EyeLike, Trilu, CumSum,
// ReverseSequence, MelWeightMatrix.
#include <fmt/format.h>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/strided_map.h"
#include "kernels/plugins/plugin_list.h"
#include "runtime/base/fault.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

constexpr std::string_view kNoSteps = "delta is {value}";

class GeneratePlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "generate"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Shape",
                                                "Size",
                                                "Range",
                                                "ConstantOfShape",
                                                "EyeLike",
                                                "Trilu",
                                                "CumSum",
                                                "CumProd",
                                                "ReverseSequence",
                                                "MelWeightMatrix",
                                                "aipu::RandomNumbers",
                                                "aipu::Extents"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    if (graph.type(node.outputs[0]).dtype == DType::kString) return unsupported("string tensors are not supported");
    return {};
  }

  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    if (node.op == "Shape" || node.op == "Size" || node.op == "aipu::Extents") return scalars(context);
    if (node.op == "Range") return range(context);
    if (node.op == "ConstantOfShape") return fill(context);
    if (node.op == "EyeLike") return eye(context);
    if (node.op == "Trilu") return triangle(context);
    if (node.op == "CumSum" || node.op == "CumProd") return running_sum(context);
    if (node.op == "MelWeightMatrix") return mel_weights(context);
    if (node.op == "aipu::RandomNumbers") return random_numbers(context);
    return reverse(context);
  }

 private:
  static Status scalars(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    Shape values;
    if (node.op == "aipu::Extents") {
      values = node.attributes.shape("extents");
    } else if (node.op == "Size") {
      values.push_back(graph::element_count(graph.type(node.inputs[0]).shape));
    } else {
      const Shape& x = graph.type(node.inputs[0]).shape;
      for (int64_t i = node.attributes.i_or("start", 0);
           i < node.attributes.i_or("end", static_cast<int64_t>(x.size())); ++i)
        values.push_back(x[static_cast<size_t>(i)]);
    }
    if (values.empty()) return {};
    dsl::TemplateParams params;
    params.set("OUT", graph.type(node.outputs[0]).dtype)
        .set("COUNT", static_cast<int64_t>(values.size()))
        .set("value_types", scalar_types(values.size(), DType::kI64));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("generate.py", "store_scalars", params));
    KernelArguments arguments;
    arguments.pointer("out", context.value(node.outputs[0])).scalar_list("values", values);
    return context.launch(std::move(kernel), arguments, 1);
  }

  static Status range(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& out = graph.type(node.outputs[0]);
    dsl::TemplateParams params;
    params.set("OUT", out.dtype).set("ACC", accumulator_dtype(out.dtype));
    KernelArguments arguments;
    arguments.pointer("out", context.value(node.outputs[0])).scalar("count", out.shape[0]);
    std::string entry = "float_range";
    if (node.attributes.has("start")) {
      entry = "integer_range";
      const Dim delta = node.attributes.shape("delta")[0];
      context.check(graph::select(delta, 1, 0), std::string(kNoSteps), delta, 0);
      arguments.scalars({{"start", node.attributes.shape("start")[0]}, {"delta", delta}});
    } else {
      params.set("NO_STEPS", context.fault(fault_text(kNoSteps, 0, 0)));
      arguments.pointer("start", context.value(node.inputs[0])).pointer("delta", context.value(node.inputs[2]));
    }
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("generate.py", entry, params));
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(out.shape[0], 8192), 1));
  }

  static Status random_numbers(SetupContext& context) {
    const Node& node = context.anchor();
    dsl::TemplateParams params;
    params.set("NORMAL", node.attributes.s("distribution") == "normal");
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("random.py", "random_numbers", params));
    KernelArguments arguments;
    arguments.pointer("out", context.value(node.outputs[0]))
        .scalars({{"count", graph::element_count(context.graph().type(node.outputs[0]).shape)},
                  {"seed", node.attributes.i("seed")}});
    return context.launch(std::move(kernel), arguments, 1);
  }

  static Status fill(SetupContext& context) {
    const Node& node = context.anchor();
    const graph::TensorType& out = context.graph().type(node.outputs[0]);
    graph::ConstantPtr value = node.attributes.has("value") ? node.attributes.constant("value") : nullptr;
    if (value == nullptr)
      value = graph::Constant::create(out.dtype, {}, std::vector<std::byte>(dtype_bytes(out.dtype)));
    StridedMap map;
    map.dims = {graph::element_count(out.shape)};
    map.inputs = {{context.add_constant(std::move(value)), out.dtype, 0, {0}}};
    map.output = {context.value(node.outputs[0]), out.dtype, 0, {1}};
    return launch_strided_map(context, std::move(map));
  }

  static Status eye(SetupContext& context) {
    const Node& node = context.anchor();
    const graph::TensorType& out = context.graph().type(node.outputs[0]);
    dsl::TemplateParams params;
    params.set("OUT", storage_dtype(out.dtype));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("generate.py", "identity_matrix", params));
    KernelArguments arguments;
    arguments.pointer("out", context.value(node.outputs[0]))
        .scalars({{"rows", out.shape[0]}, {"columns", out.shape[1]}, {"k", node.attributes.i("k")}});
    return context.launch(std::move(kernel), arguments, 1);
  }

  static Status triangle(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const size_t rank = x.shape.size();
    const bool has_k = node.inputs.size() > 1 && node.inputs[1].valid();
    dsl::TemplateParams params;
    params.set("T", raw_dtype(x.dtype)).set("HAS_K", has_k).set("UPPER", node.attributes.i("upper") != 0);
    params.set("diagonal_types", pointer_types(has_k ? 1 : 0, has_k ? graph.type(node.inputs[1]).dtype : DType::kI64));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("generate.py", "triangle", params));
    Dim matrices = 1;
    for (size_t i = 0; i + 2 < rank; ++i) matrices *= x.shape[i];
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0])).pointer("out", context.value(node.outputs[0]));
    if (has_k) arguments.pointer("k[0]", context.value(node.inputs[1]));
    arguments.scalars({{"matrices", matrices}, {"rows", x.shape[rank - 2]}, {"columns", x.shape[rank - 1]}});
    return context.launch(std::move(kernel), arguments,
                          graph::max(graph::ceildiv(graph::element_count(x.shape), 8192), 1));
  }

  static Status running_sum(SetupContext& context) {
    const Node& node = context.anchor();
    const graph::TensorType& x = context.graph().type(node.inputs[0]);
    if (!node.attributes.has("axis")) return unsupported(str_cat(node.op, " with an axis known only at run time"));
    const AxisView view = axis_view(x.shape, node.attributes.i("axis"));
    dsl::TemplateParams params;
    params.set("X", x.dtype)
        .set("ACC", accumulator_dtype(x.dtype))
        .set("PRODUCT", node.op == "CumProd")
        .set("REVERSE", node.attributes.i("reverse") != 0)
        .set("EXCLUSIVE", node.attributes.i("exclusive") != 0);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("generate.py", "running_sum", params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars(view.scalars());
    return context.launch(std::move(kernel), arguments, graph::max(view.outer * view.inner, 1));
  }

  static Status mel_weights(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& out = graph.type(node.outputs[0]);
    dsl::TemplateParams params;
    params.set("OUT", out.dtype);
    constexpr std::pair<const char*, const char*> kInputs[] = {{"MEL_BINS", "mel_bins"},
                                                               {"DFT_LENGTH", "dft_length"},
                                                               {"RATE", "rate"},
                                                               {"LOWER", "lower"},
                                                               {"UPPER", "upper"}};
    KernelArguments arguments;
    for (size_t k = 0; k < std::size(kInputs); ++k) {
      const auto& [type, parameter] = kInputs[k];
      params.set(type, graph.type(node.inputs[k]).dtype);
      arguments.pointer(parameter, context.value(node.inputs[k]));
    }
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("generate.py", "mel_weights", params));
    arguments.pointer("out", context.value(node.outputs[0]))
        .scalars({{"rows", out.shape[0]}, {"columns", out.shape[1]}});
    return context.launch(std::move(kernel), arguments,
                          graph::max(graph::ceildiv(graph::element_count(out.shape), 4096), 1));
  }

  static Status reverse(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const auto batch_axis = static_cast<size_t>(node.attributes.i("batch_axis")),
               time_axis = static_cast<size_t>(node.attributes.i("time_axis"));
    const std::vector<Dim> strides = contiguous_strides(x.shape);
    dsl::TemplateParams params;
    params.set("T", raw_dtype(x.dtype)).set("INDEX", graph.type(node.inputs[1]).dtype);
    params.set("TOO_LONG", context.fault("a length of {value} in sequences of {limit} steps"));
    const Dim lengths = graph::element_count(graph.type(node.inputs[1]).shape);
    context.check(graph::eq(lengths, x.shape[batch_axis]), "{value} lengths for {limit} sequences", lengths,
                  x.shape[batch_axis]);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("generate.py", "reverse_sequence", params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("lengths", context.value(node.inputs[1]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars({{"times", x.shape[time_axis]}, {"batches", x.shape[batch_axis]}, {"inner", strides[1]}})
        .scalars({{"time_stride", strides[time_axis]}, {"batch_stride", strides[batch_axis]}});
    return context.launch(std::move(kernel), arguments,
                          graph::max(graph::ceildiv(graph::element_count(x.shape), 8192), 1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_generate_plugin() { return std::make_unique<GeneratePlugin>(); }

}  // namespace aipu::kernels
