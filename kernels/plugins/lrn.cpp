// LRN.
#include <algorithm>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

class LrnPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "lrn"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"LRN"};
    return kOps;
  }
  Status check(const Graph&, const Node& node) const override {
    return node.attributes.s_or("layout", "NCHW") == "NHWC" ? Status() : unsupported("not channels-last");
  }
  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    const graph::TensorType& x = context.graph().type(node.inputs[0]);
    const DType accumulator = accumulator_dtype(x.dtype);
    const int64_t size = node.attributes.i("size");
    const AxisView view = axis_view(x.shape, -1);
    const Dim &channels = view.extent, &pixels = view.outer;
    dsl::TemplateParams params;
    params.set("X", x.dtype)
        .set("ACC", accumulator)
        .set("VL", std::max(2, context.lanes(accumulator)))
        .set("BETA", node.attributes.f("beta"));
    params.set("scale_type", dsl::Captured{dsl::CapturedType{tir::Type::scalar(accumulator)}});
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("lrn.py", "lrn", params));
    const int64_t before = (size - 1) / 2;
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars({{"pixels", pixels}, {"channels", channels}, {"before", before}, {"after", size - 1 - before}})
        .real("scale", node.attributes.f("alpha") / static_cast<double>(size))
        .real("bias", node.attributes.f("bias"));
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(pixels * channels, 4096), 1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_lrn_plugin() { return std::make_unique<LrnPlugin>(); }

}  // namespace aipu::kernels
