#include "gbuilder/assumption_checks.h"

#include "graph/ops/assumptions.h"

namespace aipu::gbuilder {

void check_assumptions(kernels::SetupContext* context) {
  const graph::Graph& graph = context->graph();
  for (const graph::NodeId id : context->group().nodes) {
    for (const graph::Assumption& assumption : graph::assumptions_of(graph, graph.node(id)))
      context->check(assumption.holds, assumption.message, assumption.value, assumption.limit);
  }
}

}  // namespace aipu::gbuilder
