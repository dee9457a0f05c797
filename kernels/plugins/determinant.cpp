// Det and Inverse.
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Shape;

class DeterminantPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "determinant"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Det", "com.microsoft::Inverse"};
    return kOps;
  }
  Status setup(SetupContext& context) const override {
    const graph::Graph& graph = context.graph();
    const graph::Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const bool inverts = node.op != "Det";
    const DType accumulator = accumulator_dtype(x.dtype);
    dsl::TemplateParams params;
    params.set("X", x.dtype).set("ACC", accumulator);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("determinant.py", inverts ? "inverse" : "determinant", params));
    const Dim matrices = graph::element_count(Shape(x.shape.begin(), x.shape.end() - 2));
    const Dim elements = graph::element_count(x.shape) * Dim(inverts ? 2 : 1);
    const Dim bytes = elements * Dim(static_cast<int64_t>(dtype_bytes(accumulator)));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .pointer("copies", context.add_workspace(graph::max(bytes, 1)))
        .scalars({{"matrices", matrices}, {"n", x.shape.back()}});
    return context.launch(std::move(kernel), arguments, graph::max(matrices, 1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_determinant_plugin() { return std::make_unique<DeterminantPlugin>(); }

}  // namespace aipu::kernels
