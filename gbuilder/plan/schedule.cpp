// The order of groups.
#include <functional>
#include <queue>
#include <set>

#include "gbuilder/plan/planner.h"
#include "graph/partition/needed.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::ValueId;

std::vector<std::string> Planner::symbols_needed(const PlannedGroup& planned) const {
  std::vector<std::string> names;
  const auto need = [&](const Dim& dim) { dim.collect_symbols(&names); };
  const auto need_value = [&](ValueId value) {
    for (const Dim& extent : graph_.type(value).shape) need(extent);
  };
  const auto need_argument = [&](const kernels::KernelArgument& argument) {
    if (const auto* pointer = std::get_if<kernels::PointerArgument>(&argument)) need(pointer->byte_offset);
    if (const auto* scalar = std::get_if<kernels::ScalarArgument>(&argument)) need(scalar->value);
  };
  for (const ValueId value : planned.group.inputs) need_value(value);
  for (const ValueId value : planned.group.outputs) need_value(value);
  const kernels::Implementation& implementation = planned.implementation;
  for (const kernels::Launch& launch : implementation.launches) {
    if (const auto* kernel = std::get_if<kernels::KernelLaunch>(&launch)) {
      for (const auto& argument : kernel->arguments) need_argument(argument);
      need(kernel->max_tecs);
    } else {
      const auto& copy = std::get<kernels::CopyLaunch>(launch);
      need_argument(copy.destination);
      need_argument(copy.source);
      for (const Dim* dim : {&copy.width_bytes, &copy.times, &copy.destination_stride_bytes, &copy.source_stride_bytes})
        need(*dim);
    }
  }
  need(graph::needed_together(graph_, planned.group.nodes));
  for (const kernels::View& view : implementation.views) need(view.byte_offset);
  for (const Dim& bytes : implementation.workspace_bytes) need(bytes);
  for (const kernels::ShapeCheck& check : implementation.checks) need(check.must_be_nonzero);
  if (const auto bodies = input_.bodies.find(planned.group.anchor); bodies != input_.bodies.end()) {
    for (const Plan& body : bodies->second)
      names.insert(names.end(), body.given_symbols.begin(), body.given_symbols.end());
  }
  for (const kernels::Fault& fault : planned.faults) need(graph::needed(graph_.node(fault.node)));
  for (const kernels::ValueCheck& check : planned.value_checks) {
    for (const Dim* dim : {&check.check.must_be_nonzero, &check.value, &check.limit}) need(*dim);
  }
  return names;
}

// Groups come in execution order, but a shape operand that was replaced by its run symbols is no data-flow edge any
// more: order by both, keeping the given order wherever possible.
Status Planner::schedule() {
  for (const std::string_view name : {kernels::kTecCountSymbol, kHostTecCountSymbol}) {
    if (graph_.find_symbol(name) != nullptr)
      return unsupported(str_cat("a symbol of the model is called '", name, "', which means the number of TECs here"));
  }
  const size_t count = input_.groups.size();
  std::vector<std::set<size_t>> users(count);
  std::vector<size_t> pending(count, 0);
  const auto add_edge = [&](size_t from, size_t to) {
    if (from != to && users[from].insert(to).second) ++pending[to];
  };
  for (size_t g = 0; g < count; ++g) {
    const auto& group = input_.groups[g].group;
    for (const ValueId value : group.inputs) {
      if (const auto it = producer_.find(value); it != producer_.end()) add_edge(it->second, g);
    }
    for (const std::string& name : symbols_needed(input_.groups[g])) {
      const graph::Symbol* symbol = graph_.find_symbol(name);
      if (name == kernels::kTecCountSymbol) continue;
      if (symbol == nullptr && input_.is_body) continue;
      if (symbol == nullptr)
        return internal_error(str_cat(describe(g), ": uses the symbol '", name, "', which nothing binds"));
      if (symbol->kind != graph::Symbol::Kind::kTensorElement) continue;
      const auto it = producer_.find(symbol->value);
      if (it == producer_.end()) continue;
      // What runs bodies tells the extents of its results, which are fetched when these are known.
      if (it->second == g && input_.bodies.contains(input_.groups[g].group.anchor)) continue;
      if (it->second == g) {
        return internal_error(
            str_cat(describe(g), ": needs '", name, "' to start, but is fused with the node that computes it"));
      }
      add_edge(it->second, g);
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t g = 0; g < count; ++g) {
    if (pending[g] == 0) ready.push(g);
  }
  position_.resize(count);
  while (!ready.empty()) {
    const size_t g = ready.top();
    ready.pop();
    position_[g] = order_.size();
    order_.push_back(g);
    for (const size_t user : users[g]) {
      if (--pending[user] == 0) ready.push(user);
    }
  }
  if (order_.size() != count) {
    for (size_t g = 0; g < count; ++g) {
      if (pending[g] != 0) return internal_error(str_cat(describe(g), ": waits for its own results through a shape"));
    }
  }
  return {};
}

}  // namespace aipu::gbuilder
