// What commands of the host compute. There is no kernel; the planner records the command.
//
// If, Loop, Scan: what is left of them runs its sub-graphs as programs of their own (gbuilder/plan/control_flow.cpp).
// What looks into strings or encoded images is handed to its library (gbuilder/plan/text_calls.cpp).
#include <algorithm>

#include "graph/ops/text.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

class ControlFlowPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "control_flow"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"If", "Loop", "Scan"};
    return kOps;
  }
  graph::ClaimResult claim(const graph::Graph& graph, graph::NodeId anchor,
                           const graph::ClaimTarget& target) const override {
    if (graph::is_of_library(graph, graph.node(anchor))) return graph::Claim{anchor, {anchor}, score()};
    return SingleOpPlugin::claim(graph, anchor, target);
  }
  Status check(const graph::Graph&, const graph::Node& node) const override {
    if (node.op != "Scan") return {};
    for (const char* axes : {"scan_input_axes", "scan_output_axes"}) {
      const std::vector<int64_t>& numbers = node.attributes.ints(axes);
      if (std::any_of(numbers.begin(), numbers.end(), [](int64_t axis) { return axis != 0; }))
        return unsupported(str_cat(axes, " are not the first ones (the pass inline_control_flow is disabled?)"));
    }
    return {};
  }
  Status setup(SetupContext&) const override { return {}; }
};

}  // namespace

std::unique_ptr<OpPlugin> make_control_flow_plugin() { return std::make_unique<ControlFlowPlugin>(); }

}  // namespace aipu::kernels
