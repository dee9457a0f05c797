#include "kernels/te/schedule.h"

#include <algorithm>
#include <set>

#include "kernels/te/visit.h"

namespace aipu::te {

std::optional<ThreadKind> thread_kind(std::string_view tag) {
  struct Row {
    std::string_view tag;
    ThreadKind kind;
  };
  static constexpr Row kRows[] = {
      {"blockIdx.x", ThreadKind::kBlock},   {"blockIdx.y", ThreadKind::kBlock},   {"blockIdx.z", ThreadKind::kBlock},
      {"threadIdx.x", ThreadKind::kThread}, {"threadIdx.y", ThreadKind::kThread}, {"threadIdx.z", ThreadKind::kThread},
      {"vthread", ThreadKind::kVirtual},    {"cthread", ThreadKind::kVirtual},    {"tec", ThreadKind::kTec},
  };
  if (tag.starts_with("vthread.")) tag = tag.substr(0, tag.find('.'));
  for (const Row& row : kRows) {
    if (row.tag == tag) return row.kind;
  }
  return std::nullopt;
}

Stage::Stage(OperationPtr operation) : op(operation), origin_op(std::move(operation)) {
  all_iter_vars = root_axes();
  for (const IterVarPtr& axis : all_iter_vars) {
    if (axis->kind != IterKind::kOpaque) leaf_iter_vars.push_back(axis);
  }
  // What an intrinsic goes over is inside of all else.
  if (const Compute* compute = op->compute(); compute != nullptr && compute->call)
    std::stable_partition(leaf_iter_vars.begin(), leaf_iter_vars.end(),
                          [&](const IterVarPtr& axis) { return !compute->inside_call(axis.get()); });
}

std::vector<IterVarPtr> Stage::root_axes() const {
  std::vector<IterVarPtr> axes;
  if (const Compute* compute = op->compute()) {
    axes = compute->axis;
    axes.insert(axes.end(), compute->reduce_axis.begin(), compute->reduce_axis.end());
  } else if (const Scan* scan = op->scan()) {
    axes = {scan->axis};
    axes.insert(axes.end(), scan->spatial.begin(), scan->spatial.end());
  }
  return axes;
}

bool Stage::counts_data(const IterVar* axis) const {
  if (!is_reduction_axis(axis)) return true;
  for (const Relation& relation : relations) {
    if (const auto* split = std::get_if<Split>(&relation);
        split != nullptr && (split->outer.get() == axis || split->inner.get() == axis))
      return counts_data(split->parent.get());
    if (const auto* fuse = std::get_if<Fuse>(&relation); fuse != nullptr && fuse->fused.get() == axis)
      return counts_data(fuse->outer.get()) || counts_data(fuse->inner.get());
  }
  return false;
}

Status Stage::refused(std::string_view primitive, const IterVarPtr& axis, std::string_view why) const {
  return invalid_argument(str_cat(primitive, " of stage '", op->name, "': axis '", axis->name(), "' ", why));
}

Result<size_t> Stage::leaf_index(const IterVarPtr& axis, std::string_view primitive) const {
  if (op->compute() != nullptr && op->compute()->inside_call(axis.get()))
    return refused(primitive, axis, "lies inside of the intrinsic that the stage calls");
  const auto found = std::find(leaf_iter_vars.begin(), leaf_iter_vars.end(), axis);
  if (found != leaf_iter_vars.end()) return static_cast<size_t>(found - leaf_iter_vars.begin());
  const bool known = std::find(all_iter_vars.begin(), all_iter_vars.end(), axis) != all_iter_vars.end();
  return refused(primitive, axis,
                 known ? "was split or fused before: it is not part of the leaf axes any more, name what it has become"
                       : "is none of this stage's axes: take axes from s[tensor].op.axis");
}

IterVarPtr Stage::derive(std::string name, IterKind kind, Type type) {
  auto iter = std::make_shared<IterVar>(IterVar{make_var(std::move(name), type), std::nullopt, kind});
  all_iter_vars.push_back(iter);
  return iter;
}

Result<std::pair<IterVarPtr, IterVarPtr>> Stage::split(const IterVarPtr& parent, Expr factor, Expr nparts) {
  AIPU_ASSIGN_OR_RETURN(const size_t place, leaf_index(parent, "split"));
  if (parent->kind != IterKind::kDataPar && parent->kind != IterKind::kCommReduce && parent->kind != IterKind::kOrdered)
    return refused("split", parent, "can't be split: only data, reduction and ordered axes can");
  const Expr& number = factor ? factor : nparts;
  if (!is_index(number->type)) return refused("split", parent, "is split by something that is no integer");
  if (const auto value = as_int(number); value && *value < 1)
    return refused("split", parent, str_cat("is split by ", *value, ", which has to be at least 1"));
  const Type type = parent->var->type;
  const IterVarPtr outer = derive(parent->name() + ".outer", parent->kind, type);
  const IterVarPtr inner = derive(parent->name() + ".inner", parent->kind, type);
  relations.push_back(Split{parent, outer, inner, std::move(factor), std::move(nparts)});
  leaf_iter_vars[place] = outer;
  leaf_iter_vars.insert(leaf_iter_vars.begin() + static_cast<std::ptrdiff_t>(place) + 1, inner);
  return std::pair(outer, inner);
}

Result<IterVarPtr> Stage::fuse(IterVarPtr outer, IterVarPtr inner) {
  AIPU_ASSIGN_OR_RETURN(size_t first, leaf_index(outer, "fuse"));
  AIPU_ASSIGN_OR_RETURN(size_t second, leaf_index(inner, "fuse"));
  for (const IterVarPtr& axis : {outer, inner}) {
    if (axis->kind != IterKind::kDataPar && axis->kind != IterKind::kCommReduce && axis->kind != IterKind::kOrdered)
      return refused("fuse", axis, "can't be fused: only data, reduction and ordered axes can");
  }
  if ((outer->kind == IterKind::kOrdered) != (inner->kind == IterKind::kOrdered))
    return refused("fuse", outer, str_cat("and '", inner->name(), "' can't be fused: one of them is a scan's steps"));
  if (first == second + 1) {
    std::swap(first, second);
    std::swap(outer, inner);
  }
  if (second != first + 1)
    return refused("fuse", outer, str_cat("and '", inner->name(), "' are not next to each other; reorder them first"));
  Expr a = outer->var, b = inner->var;
  match_index_types(a, b);
  const IterVarPtr fused =
      derive(str_cat(outer->name(), ".", inner->name(), ".fused"), std::max(outer->kind, inner->kind), a->type);
  relations.push_back(Fuse{outer, inner, fused});
  leaf_iter_vars[first] = fused;
  leaf_iter_vars.erase(leaf_iter_vars.begin() + static_cast<std::ptrdiff_t>(second));
  return fused;
}

Result<IterVarPtr> Stage::fuse_all(const std::vector<IterVarPtr>& axes) {
  if (axes.empty()) {
    const IterVarPtr single = derive("singleton", IterKind::kDataPar, Type::scalar(DType::kI32));
    relations.push_back(Singleton{single});
    leaf_iter_vars.insert(leaf_iter_vars.begin(), single);
    return single;
  }
  // All is checked before anything changes.
  std::vector<size_t> places;
  for (const IterVarPtr& axis : axes) {
    AIPU_ASSIGN_OR_RETURN(const size_t place, leaf_index(axis, "fuse"));
    places.push_back(place);
  }
  const bool swapped = axes.size() == 2 && places[0] == places[1] + 1;
  for (size_t i = 1; i < axes.size() && !swapped; ++i) {
    if (places[i] != places[i - 1] + 1)
      return refused("fuse", axes[i], str_cat("does not follow '", axes[i - 1]->name(), "'; reorder them first"));
  }
  IterVarPtr fused = axes.front();
  for (size_t i = 1; i < axes.size(); ++i) {
    AIPU_ASSIGN_OR_RETURN(fused, fuse(fused, axes[i]));
  }
  return fused;
}

Status Stage::reorder(const std::vector<IterVarPtr>& order) {
  std::vector<size_t> places;
  for (const IterVarPtr& axis : order) {
    AIPU_ASSIGN_OR_RETURN(const size_t place, leaf_index(axis, "reorder"));
    if (axis->kind != IterKind::kDataPar && axis->kind != IterKind::kCommReduce && axis->kind != IterKind::kThreadIndex)
      return refused("reorder", axis, "can't be moved: only data, reduction and thread axes can");
    if (std::find(places.begin(), places.end(), place) != places.end())
      return refused("reorder", axis, "is named twice");
    places.push_back(place);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < order.size(); ++i) leaf_iter_vars[places[i]] = order[i];
  return {};
}

Status Stage::annotate(const IterVarPtr& axis, IterKind kind) {
  const std::string_view primitive = kind == IterKind::kVectorized     ? "vectorize"
                                     : kind == IterKind::kParallelized ? "parallel"
                                                                       : "unroll";
  AIPU_ASSIGN_OR_RETURN(const size_t place, leaf_index(axis, primitive));
  static_cast<void>(place);
  if (kind != IterKind::kUnrolled && axis->kind == IterKind::kCommReduce)
    return refused(primitive, axis, "is a reduction axis: its iterations depend on each other; use rfactor");
  if (kind == IterKind::kVectorized && axis->kind != IterKind::kDataPar)
    return refused(primitive, axis, "is no data axis");
  attributes[axis.get()].kind = kind;
  return {};
}

Status Stage::bind(const IterVarPtr& axis, const IterVarPtr& thread) {
  AIPU_ASSIGN_OR_RETURN(const size_t place, leaf_index(axis, "bind"));
  static_cast<void>(place);
  if (axis->kind != IterKind::kDataPar && axis->kind != IterKind::kCommReduce)
    return refused("bind", axis, "can't be bound: only data and reduction axes can");
  if (thread->kind != IterKind::kThreadIndex)
    return refused("bind", axis, str_cat("is bound to '", thread->name(), "', which is no thread axis"));
  attributes[axis.get()].bind_thread = thread;
  return {};
}

Status Stage::pragma(const IterVarPtr& axis, std::string key, Expr value) {
  AIPU_ASSIGN_OR_RETURN(const size_t place, leaf_index(axis, "pragma"));
  static_cast<void>(place);
  attributes[axis.get()].pragmas.emplace_back(std::move(key), std::move(value));
  return {};
}

Status Stage::tensorize(const IterVarPtr& axis, TensorIntrinPtr intrin) {
  AIPU_ASSIGN_OR_RETURN(const size_t place, leaf_index(axis, "tensorize"));
  static_cast<void>(place);
  if (op->compute() == nullptr) return refused("tensorize", axis, "is no axis of a compute");
  if (op->compute()->call) return refused("tensorize", axis, "is of a stage that calls an intrinsic already");
  if (axis->kind != IterKind::kDataPar && axis->kind != IterKind::kCommReduce)
    return refused("tensorize", axis, "is neither a data nor a reduction axis");
  for (const IterVarPtr& leaf : leaf_iter_vars) {
    const auto found = attributes.find(leaf.get());
    if (leaf != axis && found != attributes.end() && found->second.tensor_intrin)
      return refused("tensorize", axis, str_cat("cannot be tensorized beside '", leaf->name(), "'"));
  }
  attributes[axis.get()].kind = IterKind::kTensorized;
  attributes[axis.get()].tensor_intrin = std::move(intrin);
  return {};
}

Status Stage::storage_align(const IterVarPtr& axis, int64_t factor, int64_t offset) {
  const Compute* compute = op->compute();
  if (compute == nullptr || std::find(compute->axis.begin(), compute->axis.end(), axis) == compute->axis.end())
    return refused("storage_align", axis, "is no data axis of the stage");
  if (factor < 1) return refused("storage_align", axis, str_cat("needs a factor of at least 1, not ", factor));
  attributes[axis.get()].align_factor = factor;
  attributes[axis.get()].align_offset = offset;
  return {};
}

Status Stage::prefetch(const Tensor& tensor, const IterVarPtr& axis, Expr offset) {
  AIPU_ASSIGN_OR_RETURN(const size_t place, leaf_index(axis, "prefetch"));
  static_cast<void>(place);
  attributes[axis.get()].prefetch.emplace_back(tensor, std::move(offset));
  return {};
}

Status Stage::set_env_threads(const std::vector<IterVarPtr>& threads) {
  const auto wrong = [&](std::string_view why) {
    return invalid_argument(str_cat("env_threads of stage '", op->name, "': ", why));
  };
  if (op->scan() == nullptr) return wrong("it is no scan");
  if (!env_threads.empty()) return wrong("they are set already");
  for (const IterVarPtr& thread : threads) {
    if (thread->kind != IterKind::kThreadIndex || !thread->dom)
      return wrong(str_cat("'", thread->name(), "' is no thread axis with a domain"));
  }
  env_threads = threads;
  all_iter_vars.insert(all_iter_vars.end(), threads.begin(), threads.end());
  leaf_iter_vars.insert(leaf_iter_vars.begin(), threads.begin(), threads.end());
  return {};
}

Status Stage::set_double_buffer() {
  if (is_output) return invalid_argument(str_cat("double_buffer: '", op->name, "' is an output"));
  double_buffer = true;
  return {};
}

Status Stage::set_rolling_buffer() {
  if (is_output) return invalid_argument(str_cat("rolling_buffer: '", op->name, "' is an output"));
  rolling_buffer = true;
  return {};
}

Status Stage::compute_at(const StagePtr& parent, const IterVarPtr& axis) {
  if (op->is_placeholder() && !is_group)
    return invalid_argument(str_cat("compute_at: '", op->name, "' is a placeholder, which is not computed"));
  if (attach == Attach::kScanUpdate)
    return invalid_argument(str_cat("compute_at: '", op->name, "' is the update of a scan, which stays in its steps"));
  if (const StagePtr own = group.lock()) {
    StagePtr around = parent->group.lock();
    while (around && around != own) around = around->group.lock();
    if (!around)
      return invalid_argument(str_cat("compute_at: '", op->name, "' is in a group, and '", parent->op->name,
                                      "' is outside of it: move the group"));
  }
  AIPU_ASSIGN_OR_RETURN(const size_t place, parent->leaf_index(axis, "compute_at"));
  static_cast<void>(place);
  attach = Attach::kAt;
  attach_stage = parent;
  attach_ivar = axis;
  return {};
}

Status Stage::compute_inline() {
  const Compute* compute = op->compute();
  if (compute == nullptr)
    return invalid_argument(str_cat("compute_inline: '", op->name, "' is no compute, which alone can be inlined"));
  if (attach == Attach::kScanUpdate)
    return invalid_argument(str_cat("compute_inline: '", op->name, "' is the update of a scan"));
  if (compute->call)
    return invalid_argument(str_cat("compute_inline: '", op->name, "' calls an intrinsic, which can't be inlined"));
  if (op->reduction() != nullptr)
    return invalid_argument(str_cat("compute_inline: '", op->name, "' is a reduction, which can't be inlined"));
  if (compute->body.size() != 1)
    return invalid_argument(str_cat("compute_inline: '", op->name, "' has several outputs"));
  attach = Attach::kInline;
  attach_stage.reset();
  attach_ivar = nullptr;
  return {};
}

Status Stage::compute_root() {
  if (attach == Attach::kScanUpdate)
    return invalid_argument(
        str_cat("compute_root: '", op->name, "' is the update of a scan, which stays in its steps"));
  attach = Attach::kRoot;
  attach_stage.reset();
  attach_ivar = nullptr;
  return {};
}

std::shared_ptr<Schedule> Schedule::create(const std::vector<OperationPtr>& outputs) {
  auto schedule = std::make_shared<Schedule>();
  schedule->outputs = outputs;
  for (const OperationPtr& op : operations_below(outputs)) {
    auto stage = std::make_shared<Stage>(op);
    stage->is_output = std::find(outputs.begin(), outputs.end(), op) != outputs.end();
    schedule->stage_of_[op.get()] = stage;
    schedule->stages.push_back(std::move(stage));
  }
  for (const StagePtr& stage : schedule->stages) {
    const Scan* scan = stage->op->scan();
    if (scan == nullptr) continue;
    for (const Tensor& update : scan->update) {
      const StagePtr updated = schedule->find(update.op.get());
      updated->attach = Attach::kScanUpdate;
      updated->attach_stage = stage;
      updated->attach_ivar = scan->axis;
    }
  }
  for (const StagePtr& stage : std::vector<StagePtr>(schedule->stages)) {
    if (stage->op->scan() != nullptr) schedule->group_steps(stage);
  }
  return schedule;
}

IterVarPtr current_leaf(const std::vector<Relation>& relations, IterVarPtr axis) {
  for (const Relation& relation : relations) {
    if (const auto* split = std::get_if<Split>(&relation); split != nullptr && split->parent == axis)
      axis = split->inner;
    if (const auto* fuse = std::get_if<Fuse>(&relation);
        fuse != nullptr && (fuse->inner == axis || fuse->outer == axis))
      axis = fuse->fused;
  }
  return axis;
}

std::shared_ptr<Schedule> Schedule::copy() const {
  auto copy = std::make_shared<Schedule>(*this);
  std::map<const Stage*, StagePtr> copies;
  for (auto* list : {&copy->stages, &copy->groups}) {
    for (StagePtr& stage : *list) {
      const Stage* before = stage.get();
      stage = copies[before] = std::make_shared<Stage>(*stage);
    }
  }
  for (auto& [op, stage] : copy->stage_of_) stage = copies.at(stage.get());
  for (const auto& [before, stage] : copies) {
    const auto now = [&](const std::weak_ptr<Stage>& of) {
      const StagePtr old = of.lock();
      return old ? copies.at(old.get()) : nullptr;
    };
    stage->attach_stage = now(before->attach_stage);
    stage->group = now(before->group);
  }
  return copy;
}

void Schedule::adopt(const StagePtr& stage) {
  stage_of_[stage->op.get()] = stage;
  stage_of_[stage->origin_op.get()] = stage;
  (stage->is_group ? groups : stages).push_back(stage);
}

std::shared_ptr<Schedule> Schedule::normalized() const {
  std::shared_ptr<Schedule> copy = this->copy();
  for (auto* list : {&copy->stages, &copy->groups}) {
    for (const StagePtr& stage : *list) {
      if (stage->attach == Attach::kAt && stage->attach_stage.lock())
        stage->attach_ivar = current_leaf(stage->attach_stage.lock()->relations, stage->attach_ivar);
    }
  }
  const bool inlines = std::any_of(copy->stages.begin(), copy->stages.end(),
                                   [](const StagePtr& stage) { return stage->attach == Attach::kInline; });
  const std::map<const Stage*, std::vector<Expr>> bodies =
      inlines ? copy->bodies() : std::map<const Stage*, std::vector<Expr>>{};
  for (const StagePtr& stage : copy->stages) {
    if (stage->attach == Attach::kInline) stage->attach = Attach::kInlined;
    const auto body = bodies.find(stage.get());
    if (body == bodies.end() || stage->op->compute()->call) continue;
    Operation op = *stage->op;
    std::get<Compute>(op.what).body = body->second;
    copy->replace(stage, std::make_shared<Operation>(std::move(op)), true);
  }
  return copy;
}

std::map<const Stage*, std::vector<Expr>> Schedule::bodies() const {
  std::map<const Stage*, Expr> inlined;
  Change change;
  change = [&](const Expr& e) -> Expr {
    const Read* read = e->as<Read>();
    if (read == nullptr) return nullptr;
    const StagePtr stage = find(read->op.get());
    std::vector<Expr> indices;
    for (const Expr& index : read->indices) indices.push_back(rewrite(index, change));
    const auto body = inlined.find(stage.get());
    if (body == inlined.end()) return make_expr(e->type, Read{stage->op, read->value_index, std::move(indices)});
    Substitution values;
    const auto& axis = stage->op->compute()->axis;
    for (size_t i = 0; i < axis.size(); ++i) values[axis[i]->var.get()] = indices[i];
    return substitute(body->second, values);
  };
  std::set<const Stage*> read_whole;  // these cannot be put into what reads them
  const auto keep = [&](const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) read_whole.insert(find(tensor.op.get()).get());
  };
  for (const StagePtr& stage : stages) {
    if (const Compute* compute = stage->op->compute(); compute != nullptr && compute->call) keep(compute->call->inputs);
    if (const Scan* scan = stage->op->scan()) keep(scan->init);
    if (const Extern* external = stage->op->external()) keep(external->inputs);
  }
  std::map<const Stage*, std::vector<Expr>> result;
  for (const StagePtr& stage : stages) {
    const Compute* compute = stage->op->compute();
    if (compute == nullptr) continue;
    std::vector<Expr> body;
    for (const Expr& e : compute->body) body.push_back(rewrite(e, change));
    const bool inline_it = stage->attach == Attach::kInline || stage->attach == Attach::kInlined;
    if (inline_it && !read_whole.contains(stage.get()))
      inlined[stage.get()] = body.front();
    else
      result[stage.get()] = std::move(body);
  }
  return result;
}

StagePtr Schedule::find(const Operation* op) const {
  const auto found = stage_of_.find(op);
  return found == stage_of_.end() ? nullptr : found->second;
}

}  // namespace aipu::te
