// Where the elements of a tensor lie.
#include <algorithm>

#include "kernels/te/schedule.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

// The loops over the data axes, which stand next to each other and are what they were, become loops over others.
Status replace_axes(Stage* stage, const std::vector<IterVarPtr>& axis) {
  const std::vector<IterVarPtr>& old = stage->op->compute()->axis;
  const auto first = std::find(stage->leaf_iter_vars.begin(), stage->leaf_iter_vars.end(), old.front());
  const auto left = static_cast<size_t>(stage->leaf_iter_vars.end() - first);
  if (left < old.size() || !std::equal(old.begin(), old.end(), first)) {
    return invalid_argument(str_cat("transform_layout of stage '", stage->op->name,
                                    "': its data axes have to be loops next to each other, neither split nor fused"));
  }
  for (const IterVarPtr& data : old) {
    if (stage->attributes.contains(data.get()))
      return invalid_argument(
          str_cat("transform_layout of stage '", stage->op->name, "': axis '", data->name(), "' is annotated already"));
  }
  const auto at = stage->leaf_iter_vars.erase(first, first + static_cast<std::ptrdiff_t>(old.size()));
  stage->leaf_iter_vars.insert(at, axis.begin(), axis.end());
  std::erase_if(stage->all_iter_vars,
                [&](const IterVarPtr& iter) { return std::find(old.begin(), old.end(), iter) != old.end(); });
  stage->all_iter_vars.insert(stage->all_iter_vars.begin(), axis.begin(), axis.end());
  return {};
}

}  // namespace

Status Schedule::transform_layout(const StagePtr& stage, const std::vector<Expr>& from, const std::vector<Expr>& to,
                                  const std::vector<IterVarPtr>& axis, const std::vector<Expr>& inverse) {
  const auto refused = [&](std::string_view why) {
    return invalid_argument(str_cat("transform_layout of stage '", stage->op->name, "': ", why));
  };
  const Compute* compute = stage->op->compute();
  if (!stage->op->is_placeholder() && (compute == nullptr || compute->call))
    return refused("only placeholders and computes of expressions have one that can be chosen");
  const auto is_read = [&](const Tensor& tensor) { return find(tensor.op.get()) == stage; };
  for (const StagePtr& other : stages) {
    const Scan* scan = other->op->scan();
    const Extern* external = other->op->external();
    const Compute* reader = other->op->compute();
    const auto uses_it = [&](const std::vector<Tensor>& tensors) {
      return std::any_of(tensors.begin(), tensors.end(), is_read);
    };
    const bool whole = (scan != nullptr && (uses_it(scan->init) || uses_it(scan->update) || uses_it(scan->state))) ||
                       (external != nullptr && uses_it(external->inputs)) ||
                       (reader != nullptr && reader->call && uses_it(reader->call->inputs));
    if (whole) return refused(str_cat("'", other->op->name, "' takes the tensor as it is"));
    if (other->attach == Attach::kAt && other->attach_stage.lock() == stage)
      return refused(str_cat("'", other->op->name, "' is computed at one of its loops already"));
  }
  Operation made = *stage->op;
  if (compute == nullptr) {
    std::vector<Expr> shape;
    for (const IterVarPtr& iter : axis) shape.push_back(iter->dom->extent);
    std::get<Placeholder>(made.what).shape = std::move(shape);
  } else {
    if (compute->axis.empty()) return refused("it has no axes");
    const auto is_axis = [&](const ExprNode* var) {
      return std::any_of(compute->axis.begin(), compute->axis.end(),
                         [&](const IterVarPtr& iter) { return iter->var.get() == var; });
    };
    for (const IterVarPtr& reduced : compute->reduce_axis) {
      if (uses_any(reduced->dom->min, is_axis) || uses_any(reduced->dom->extent, is_axis))
        return refused(str_cat("the domain of axis '", reduced->name(), "' depends on a data axis"));
    }
    AIPU_RETURN_IF_ERROR(replace_axes(stage.get(), axis));
    auto& own = std::get<Compute>(made.what);
    Substitution values;
    for (size_t i = 0; i < own.axis.size(); ++i) values[own.axis[i]->var.get()] = inverse[i];
    own.axis = axis;
    own.shape.clear();
    for (const IterVarPtr& iter : axis) own.shape.push_back(iter->dom->extent);
    for (Expr& body : own.body) body = substitute(body, values);
  }
  const auto op = std::make_shared<Operation>(std::move(made));
  Change moved;
  moved = [&](const Expr& e) -> Expr {
    const Read* read = e->as<Read>();
    if (read == nullptr || !is_read({read->op, read->value_index})) return nullptr;
    Substitution indices;
    for (size_t i = 0; i < from.size(); ++i) indices[from[i].get()] = rewrite(read->indices[i], moved);
    std::vector<Expr> place;
    for (const Expr& index : to) place.push_back(substitute(index, indices));
    return make_expr(e->type, Read{op, read->value_index, std::move(place)});
  };
  std::vector<std::pair<StagePtr, OperationPtr>> readers;
  for (const StagePtr& other : stages) {
    if (other->op->compute() == nullptr || other == stage) continue;
    Operation reader = *other->op;
    bool changed = false;
    for (Expr& body : std::get<Compute>(reader.what).body) {
      Expr next = rewrite(body, moved);
      changed |= next != body;
      body = std::move(next);
    }
    if (changed) readers.emplace_back(other, std::make_shared<Operation>(std::move(reader)));
  }
  replace(stage, op, true);
  for (auto& [reader, changed] : readers) replace(reader, std::move(changed), true);
  return {};
}

}  // namespace aipu::te
