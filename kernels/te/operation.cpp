#include "kernels/te/operation.h"

#include <algorithm>
#include <set>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/print.h"
#include "kernels/te/visit.h"

namespace aipu::te {

bool Compute::inside_call(const IterVar* iter) const {
  if (!call) return false;
  const auto is_iter = [&](const IterVarPtr& a) { return a.get() == iter; };
  return std::any_of(axis.begin() + static_cast<std::ptrdiff_t>(call->schedulable), axis.end(), is_iter) ||
         std::any_of(reduce_axis.begin() + static_cast<std::ptrdiff_t>(call->reduced), reduce_axis.end(), is_iter);
}

namespace {

// The placeholder that has the shape and type of an output of a scan or of a statement.
const Placeholder& stand_in(const Operation& op, int value_index) {
  const auto v = static_cast<size_t>(value_index);
  if (const Scan* scan = op.scan()) return std::get<Placeholder>(scan->state[v].op->what);
  if (const Extern* external = op.external()) return std::get<Placeholder>(external->output_buffers[v].op->what);
  return std::get<Placeholder>(op.what);
}

}  // namespace

const std::vector<Expr>& Tensor::shape() const {
  if (const Compute* compute = op->compute()) return compute->shape;
  return stand_in(*op, value_index).shape;
}

Type Tensor::type() const {
  if (const Compute* compute = op->compute()) return compute->body[static_cast<size_t>(value_index)]->type;
  return stand_in(*op, value_index).type;
}

std::string Tensor::name() const { return op->output_count() == 1 ? op->name : str_cat(op->name, ".v", value_index); }

int Operation::output_count() const {
  if (const Compute* c = compute()) return static_cast<int>(c->body.size());
  if (const Scan* s = scan()) return static_cast<int>(s->state.size());
  if (const Extern* e = external()) return static_cast<int>(e->output_buffers.size());
  return 1;
}

const Reduce* Operation::reduction() const {
  return compute() != nullptr ? compute()->body.front()->as<Reduce>() : nullptr;
}

OperationPtr make_placeholder(std::string name, std::vector<Expr> shape, Type type) {
  return std::make_shared<Operation>(Operation{std::move(name), "", Placeholder{std::move(shape), type}});
}

namespace {

bool has_reduction(const Expr& expr) {
  bool found = false;
  walk(expr, [&](const Expr& e) { found |= e->as<Reduce>() != nullptr; });
  return found;
}

Status check_body(const std::string& name, const Expr& body) {
  bool inside = false;
  for_each_child(body, [&](const Expr& child) { inside |= has_reduction(child); });
  if (!inside) return {};
  return invalid_argument(str_cat("compute '", name,
                                  "': a reduction is only allowed at the top level of the expression; put the rest "
                                  "into a compute of its own: ",
                                  to_text(body)));
}

bool same_reduction(const Reduce& a, const Reduce& b) {
  const auto same = [](const Expr& x, const Expr& y) { return structural_key(x) == structural_key(y); };
  return a.combiner == b.combiner && a.axis == b.axis && same(a.condition, b.condition) &&
         std::equal(a.source.begin(), a.source.end(), b.source.begin(), b.source.end(), same) &&
         std::equal(a.init.begin(), a.init.end(), b.init.begin(), b.init.end(), same);
}

Status check_outputs(const std::string& name, const std::vector<Expr>& body) {
  const Reduce* first = body.front()->as<Reduce>();
  for (const Expr& e : body) {
    const Reduce* reduce = e->as<Reduce>();
    if ((reduce == nullptr) != (first == nullptr))
      return invalid_argument(str_cat("compute '", name, "': either all outputs are reductions or none is"));
    if (reduce != nullptr && !same_reduction(*first, *reduce)) {
      return invalid_argument(str_cat("compute '", name,
                                      "': the reductions of all outputs need the same combiner, sources, axes, "
                                      "condition and init"));
    }
  }
  if (first != nullptr && first->source.size() != body.size() && body.size() != 1)
    return invalid_argument(str_cat("compute '", name, "': the reduction has ", first->source.size(),
                                    " values, and there are ", body.size(), " outputs"));
  return {};
}

}  // namespace

Result<OperationPtr> make_compute(std::string name, std::string tag, std::vector<IterVarPtr> axis,
                                  std::vector<Expr> body) {
  if (body.empty()) return invalid_argument(str_cat("compute '", name, "': no expression"));
  Compute compute;
  for (const IterVarPtr& iter : axis) compute.shape.push_back(iter->dom->extent);
  for (const Expr& e : body) {
    if (e->type.pointer || e->type.element == DType::kVoid || e->type.element == DType::kString)
      return invalid_argument(str_cat("compute '", name, "': elements of type ", type_text(e->type)));
    AIPU_RETURN_IF_ERROR(check_body(name, e));
  }
  AIPU_RETURN_IF_ERROR(check_outputs(name, body));
  if (const Reduce* reduce = body.front()->as<Reduce>()) compute.reduce_axis = reduce->axis;
  std::set<const ExprNode*> seen;
  for (const auto* list : {&axis, &compute.reduce_axis}) {
    for (const IterVarPtr& iter : *list) {
      if (!seen.insert(iter->var.get()).second)
        return invalid_argument(str_cat("compute '", name, "': axis '", iter->name(), "' is used twice"));
    }
  }
  compute.axis = std::move(axis);
  compute.body = std::move(body);
  return std::make_shared<Operation>(Operation{std::move(name), std::move(tag), std::move(compute)});
}

Result<OperationPtr> make_scan(std::string name, std::string tag, Scan scan) {
  const auto wrong = [&](std::string_view what) { return invalid_argument(str_cat("scan '", name, "': ", what)); };
  if (scan.init.empty() || scan.init.size() != scan.update.size() || scan.init.size() != scan.state.size())
    return wrong("init, update and state_placeholder need as many tensors each");
  Analyzer analyzer;
  const Expr start = scan.init.front().shape().empty() ? nullptr : scan.init.front().shape().front();
  for (size_t s = 0; s < scan.init.size(); ++s) {
    const Tensor &init = scan.init[s], &update = scan.update[s], &state = scan.state[s];
    if (!state.op->is_placeholder()) return wrong(str_cat("the state '", state.name(), "' is no placeholder"));
    if (init.type() != state.type() || update.type() != state.type()) {
      return wrong(str_cat("the types of init, update and state of '", state.name(), "' differ: ",
                           type_text(init.type()), ", ", type_text(update.type()), ", ", type_text(state.type())));
    }
    const auto &a = init.shape(), &b = update.shape(), &c = state.shape();
    if (a.empty() || a.size() != b.size() || a.size() != c.size())
      return wrong(str_cat("init, update and state of '", state.name(), "' need one rank, of at least 1"));
    if (!analyzer.prove_equal(a[0], start)) return wrong("the inits have different numbers of steps");
    for (size_t d = 0; d < a.size(); ++d) {
      if (!analyzer.prove_equal(b[d], c[d]) || (d > 0 && !analyzer.prove_equal(a[d], b[d]))) {
        return wrong(str_cat("extents of dimension ", d, " of '", state.name(), "' differ: ", to_text(a[d]), ", ",
                             to_text(b[d]), ", ", to_text(c[d])));
      }
    }
    if (!analyzer.prove_equal(b[0], scan.update.front().shape()[0])) return wrong("the numbers of steps differ");
    for (size_t d = 1; d < c.size(); ++d) {
      const Expr var = make_var(str_cat(name, ".out", s, ".i", d), c[d]->type);
      scan.spatial.push_back(
          std::make_shared<IterVar>(IterVar{var, Range{make_int(0, c[d]->type), c[d]}, IterKind::kOpaque}));
    }
  }
  Expr steps = scan.update.front().shape()[0], first = start;
  match_index_types(steps, first);
  scan.axis = std::make_shared<IterVar>(
      IterVar{make_var(name + ".idx", steps->type), Range{first, sub(steps, first)}, IterKind::kOrdered});
  return std::make_shared<Operation>(Operation{std::move(name), std::move(tag), std::move(scan)});
}

Result<Expr> make_reduce(CombinerPtr combiner, std::vector<Expr> source, std::vector<IterVarPtr> axis, Expr condition,
                         std::vector<Expr> init, int value_index) {
  for (const IterVarPtr& iter : axis) {
    if (iter->kind != IterKind::kCommReduce || !iter->dom)
      return invalid_argument(str_cat("'", iter->name(), "' is no reduction axis: make it with te.reduce_axis"));
  }
  for (const Expr& e : source) {
    if (has_reduction(e))
      return invalid_argument(
          str_cat("a reduction of a reduction; put the inner one into a compute of its own: ", to_text(e)));
  }
  if (source.size() != combiner->lhs.size())
    return invalid_argument(str_cat("the combiner takes ", combiner->lhs.size(), " values, not ", source.size()));
  for (size_t i = 0; i < source.size(); ++i) {
    for (const auto* list : {&combiner->result, &combiner->identity, init.empty() ? &combiner->identity : &init}) {
      if ((*list)[i]->type != source[i]->type)
        return invalid_argument(str_cat("a reduction of ", type_text(source[i]->type), " with ",
                                        type_text((*list)[i]->type), ": ", to_text((*list)[i])));
    }
  }
  if (!condition) condition = make_bool(true);
  if (condition->type != Type::scalar(DType::kBool))
    return invalid_argument(str_cat("the condition of a reduction is a bool, not ", type_text(condition->type)));
  const Type type = source[static_cast<size_t>(value_index)]->type;
  return make_expr(type, Reduce{std::move(combiner), std::move(source), std::move(axis), std::move(condition),
                                value_index, std::move(init)});
}

namespace {

void collect(const Expr& expr, std::vector<Tensor>* found) {
  if (const Read* read = expr->as<Read>()) {
    const Tensor tensor{read->op, read->value_index};
    if (std::find(found->begin(), found->end(), tensor) == found->end()) found->push_back(tensor);
  }
  for_each_child(expr, [&](const Expr& child) { collect(child, found); });
}

}  // namespace

std::vector<Tensor> tensors_read(const Expr& expr) {
  std::vector<Tensor> found;
  collect(expr, &found);
  return found;
}

std::vector<Tensor> tensors_read(const Operation& op) {
  std::vector<Tensor> found;
  const auto add_all = [&](const std::vector<Tensor>& list) {
    for (const Tensor& tensor : list) {
      if (std::find(found.begin(), found.end(), tensor) == found.end()) found.push_back(tensor);
    }
  };
  if (const Scan* scan = op.scan()) {
    add_all(scan->init);
    add_all(scan->update);
  }
  if (const Extern* external = op.external()) add_all(external->inputs);
  if (const Compute* compute = op.compute()) {
    for (const Expr& body : compute->body) collect(body, &found);
    for (const IterVarPtr& axis : compute->reduce_axis) {
      collect(axis->dom->min, &found);
      collect(axis->dom->extent, &found);
    }
  }
  return found;
}

namespace {

void visit_operations(const OperationPtr& op, std::set<const Operation*>* seen, std::vector<OperationPtr>* order) {
  if (!seen->insert(op.get()).second) return;
  for (const Tensor& input : tensors_read(*op)) visit_operations(input.op, seen, order);
  order->push_back(op);
}

}  // namespace

std::vector<OperationPtr> operations_below(const std::vector<OperationPtr>& outputs) {
  std::set<const Operation*> seen;
  std::vector<OperationPtr> order;
  for (const OperationPtr& op : outputs) visit_operations(op, &seen, &order);
  return order;
}

Result<Expr> element(const Tensor& tensor, std::vector<Expr> indices) {
  if (indices.size() != tensor.shape().size())
    return invalid_argument(
        str_cat("tensor '", tensor.name(), "' has ", tensor.shape().size(), " dimensions, not ", indices.size()));
  for (Expr& index : indices) {
    if (index->type.lanes != 1 || !is_integer(index->type.element))
      return invalid_argument(str_cat("an index of '", tensor.name(), "' is an integer, not ", type_text(index->type),
                                      ": ", to_text(index)));
    if (!is_index(index->type)) {
      const bool narrow = dtype_bits(index->type.element) < 32;
      index = make_cast(Type::scalar(narrow ? DType::kI32 : DType::kI64), index);
    }
  }
  return make_expr(tensor.type(), Read{tensor.op, tensor.value_index, std::move(indices)});
}

}  // namespace aipu::te
