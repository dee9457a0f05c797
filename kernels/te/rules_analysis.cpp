#include "kernels/te/rules_analysis.h"

#include <algorithm>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/visit.h"

namespace aipu::te {

void for_each_read(const std::vector<Expr>& bodies, const std::function<void(const Read&)>& visit) {
  for (const Expr& body : bodies) {
    walk(body, [&](const Expr& e) {
      if (const Read* read = e->as<Read>()) visit(*read);
    });
  }
}

bool is_consecutive(const Read& read, const IterVar& axis) {
  if (read.indices.empty()) return false;
  for (size_t d = 0; d + 1 < read.indices.size(); ++d) {
    if (uses(read.indices[d], axis.var.get())) return false;
  }
  const Expr& last = read.indices.back();
  if (!uses(last, axis.var.get())) return false;
  const Expr next = substitute(last, {{axis.var.get(), add(axis.var, make_int(1, axis.var->type))}});
  return Analyzer().prove_equal(sub(next, last), make_int(1, last->type));
}

bool read_uses(const Read& read, const IterVar& axis) {
  return std::any_of(read.indices.begin(), read.indices.end(),
                     [&](const Expr& index) { return uses(index, axis.var.get()); });
}

std::optional<int64_t> extent_of(const IterVarPtr& axis) { return as_int(axis->dom->extent); }

std::optional<int64_t> elements_of(std::span<const IterVarPtr> axes) {
  int64_t count = 1;
  for (const IterVarPtr& axis : axes) {
    const auto extent = extent_of(axis);
    if (!extent) return std::nullopt;
    count *= *extent;
  }
  return count;
}

IterVarPtr consecutive_reduction(const Compute& compute, const std::vector<Expr>& bodies) {
  IterVarPtr found;
  bool data = false;
  for_each_read(bodies, [&](const Read& read) {
    for (const IterVarPtr& axis : compute.reduce_axis) {
      if (is_consecutive(read, *axis)) found = axis;
    }
    const bool reduced = std::any_of(compute.reduce_axis.begin(), compute.reduce_axis.end(),
                                     [&](const IterVarPtr& axis) { return read_uses(read, *axis); });
    data = data || (reduced && !compute.axis.empty() && is_consecutive(read, *compute.axis.back()));
  });
  return data ? nullptr : found;
}

namespace {

// The only stage that reads the sums, element by element, and is an output.
StagePtr elementwise_reader(const Schedule& schedule, const StagePtr& stage, const Bodies& bodies) {
  StagePtr reader;
  for (const StagePtr& other : schedule.stages) {
    const auto body = bodies.find(other.get());
    if (body == bodies.end()) continue;
    bool reads = false, own = other->op->compute()->reduce_axis.empty();
    for_each_read(body->second, [&](const Read& read) {
      if (read.op != stage->op) return;
      const auto& axis = other->op->compute()->axis;
      reads = true;
      own = own && axis.size() == read.indices.size();
      for (size_t d = 0; own && d < axis.size(); ++d) own = read.indices[d] == axis[d]->var;
    });
    if (!reads) continue;
    if (!own || reader || !other->is_output || other->op->output_count() != 1) return nullptr;
    reader = other;
  }
  return reader;
}

}  // namespace

Result<Tiles> tiles_of(Schedule& schedule, const StagePtr& stage, const Bodies& bodies) {
  if (!stage->is_output) {
    if (const StagePtr reader = elementwise_reader(schedule, stage, bodies)) {
      stage->scope = "local";
      return Tiles{stage, reader};
    }
  }
  AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> made, schedule.cache_write({{stage->op, 0}}, "local"));
  return Tiles{schedule.find(made.front().op.get()), stage};
}

}  // namespace aipu::te
