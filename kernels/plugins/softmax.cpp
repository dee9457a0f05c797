// Softmax, LogSoftmax.
#include <algorithm>

#include "kernels/dsl/stage_parameters.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Node;

class SoftmaxPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "softmax"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Softmax", "LogSoftmax"};
    return kOps;
  }
  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    const graph::TensorType& x = context.graph().type(node.inputs[0]);
    const DType accumulator = accumulator_dtype(x.dtype);
    const AxisView view = axis_view(x.shape, node.attributes.i_or("axis", -1));
    const bool contiguous = view.inner == Dim(1);
    const int lanes = std::max(2, context.lanes(accumulator));
    // Rows of up to half a vector; on CPUs, where elements that lie apart are loaded and stored at once.
    const int64_t extent = view.extent.constant_or(0);
    const int64_t short_extent =
        contiguous && extent >= 1 && 2 * extent <= lanes && context.target().cache_bytes() > 0 ? extent : 0;
    dsl::TemplateParams params;
    params.set("X", x.dtype)
        .set("ACC", accumulator)
        .set("VL", lanes)
        .set("LOG", node.op == "LogSoftmax")
        .set("SHORT", short_extent)
        .set("FEW", std::max<int64_t>(1, short_extent))
        .set("INNER_IS_ONE", contiguous);
    dsl::set_stage_parameters(context.target(), 0, &params);
    // the exponentials are read back, and the output may be the input's memory
    params.set("UNROLL", 4).set("__no_restrict__", true);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("softmax.py", "softmax", params));
    context.implementation.in_place.emplace_back(node.outputs[0], node.inputs[0]);
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars(view.scalars());
    return context.launch(std::move(kernel), arguments,
                          graph::max(short_extent > 0 ? graph::ceildiv(view.outer, lanes)
                                     : contiguous     ? view.outer
                                                      : view.outer * graph::ceildiv(view.inner, lanes),
                                     1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_softmax_plugin() { return std::make_unique<SoftmaxPlugin>(); }

}  // namespace aipu::kernels
