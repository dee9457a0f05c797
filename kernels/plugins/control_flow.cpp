// If, Loop, Scan: what is left of them runs its sub-graphs as programs of their own. There is no kernel; the planner
// records the command that runs them (gbuilder/plan/control_flow.cpp).
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
  Status setup(SetupContext&) const override { return {}; }
};

}  // namespace

std::unique_ptr<OpPlugin> make_control_flow_plugin() { return std::make_unique<ControlFlowPlugin>(); }

}  // namespace aipu::kernels
