// Stages that are moved together: groups of the user, and what a scan computes once per step.
#include <algorithm>
#include <set>

#include "kernels/te/schedule.h"

namespace aipu::te {

// The stages on a way from an input to an output, in order. Without inputs: all that the outputs depend on.
std::vector<StagePtr> Schedule::between(const std::vector<OperationPtr>& outputs,
                                        const std::vector<OperationPtr>& inputs, bool include_inputs) const {
  std::set<const Stage*> below, starts, reached;
  for (const OperationPtr& op : inputs) starts.insert(find(op.get()).get());
  for (const OperationPtr& op : outputs) below.insert(find(op.get()).get());
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    if (!below.contains(stage->get()) || starts.contains(stage->get())) continue;
    for (const Tensor& input : tensors_read(*(*stage)->op)) below.insert(find(input.op.get()).get());
  }
  std::vector<StagePtr> members;
  for (const StagePtr& stage : stages) {
    if (!below.contains(stage.get())) continue;
    const bool start = starts.contains(stage.get());
    bool reads = inputs.empty();
    for (const Tensor& input : tensors_read(*stage->op)) reads |= reached.contains(find(input.op.get()).get());
    if (start || reads) reached.insert(stage.get());
    if (start ? include_inputs : reads && !stage->op->is_placeholder()) members.push_back(stage);
  }
  return members;
}

Result<StagePtr> Schedule::create_group(const std::vector<OperationPtr>& outputs,
                                        const std::vector<OperationPtr>& inputs, bool include_inputs) {
  for (const auto* list : {&outputs, &inputs}) {
    for (const OperationPtr& op : *list) {
      if (!find(op.get()))
        return invalid_argument(str_cat("create_group: '", op->name, "' is not part of the schedule"));
    }
  }
  const std::vector<StagePtr> members = between(outputs, inputs, include_inputs);
  if (members.empty()) return invalid_argument("create_group: no stage is between the inputs and the outputs");
  const auto is_member = [&](const StagePtr& stage) {
    return std::find(members.begin(), members.end(), stage) != members.end();
  };
  auto made =
      std::make_shared<Stage>(make_placeholder(str_cat("group.", groups.size()), {}, Type::scalar(DType::kI32)));
  made->is_group = true;
  // Groups that are inside as a whole become members; the new one takes their place in what is around them.
  std::set<const Stage*> inside;
  for (const StagePtr& group : groups) {
    size_t count = 0, taken = 0;
    for (const StagePtr& stage : stages) {
      bool of_group = false;
      for (StagePtr g = stage->group.lock(); g; g = g->group.lock()) of_group |= g == group;
      count += of_group ? 1 : 0;
      taken += of_group && is_member(stage) ? 1 : 0;
    }
    if (taken == count && count > 0 && count < members.size()) inside.insert(group.get());
  }
  const auto outermost = [&](const StagePtr& stage) {  // that is inside the new group
    StagePtr at = stage;
    while (at->group.lock() && inside.contains(at->group.lock().get())) at = at->group.lock();
    return at;
  };
  const StagePtr around = outermost(members.front())->group.lock();
  for (const StagePtr& member : members) {
    if (outermost(member)->group.lock() != around)
      return invalid_argument("create_group: the stages take in a part of another group only");
  }
  made->group = around;
  for (const StagePtr& member : members) outermost(member)->group = made;
  // Members are attached within the group.
  for (const StagePtr& member : members) {
    if (member->attach != Attach::kAt) continue;
    const StagePtr parent = member->attach_stage.lock();
    if (parent && !is_member(parent)) static_cast<void>(member->compute_root());
  }
  groups.push_back(made);
  count_children();
  return made;
}

void Schedule::count_children() {
  for (const StagePtr& group : groups) {
    group->child_count = 0;
    for (const auto* list : {&stages, &groups}) {
      group->child_count += static_cast<int>(std::count_if(
          list->begin(), list->end(), [&](const StagePtr& stage) { return stage->group.lock() == group; }));
    }
  }
}

// What a scan computes once per step is a group that stays there.
void Schedule::group_steps(const StagePtr& scan) {
  auto group =
      std::make_shared<Stage>(make_placeholder(str_cat("group.", groups.size()), {}, Type::scalar(DType::kI32)));
  group->is_group = true;
  group->attach = Attach::kScanUpdate;
  group->attach_stage = scan;
  group->attach_ivar = scan->op->scan()->axis;
  for (const StagePtr& member : body_of_scan(*scan)) {
    StagePtr outermost = member;  // of the groups of scans inside
    while (const StagePtr around = outermost->group.lock()) outermost = around;
    outermost->group = group;
  }
  groups.push_back(group);
  count_children();
}

std::vector<StagePtr> Schedule::body_of_scan(const Stage& scan) const {
  const Scan& what = *scan.op->scan();
  std::vector<OperationPtr> outputs, inputs;
  for (const Tensor& tensor : what.update) outputs.push_back(tensor.op);
  for (const Tensor& tensor : what.state) inputs.push_back(tensor.op);
  for (const Tensor& tensor : what.inputs) inputs.push_back(tensor.op);
  // An input may lie behind another one, and a state is read by none where the update does not need it.
  std::erase_if(inputs, [&](const OperationPtr& op) { return !find(op.get()); });
  std::vector<StagePtr> members = between(outputs, inputs, false);
  for (const OperationPtr& op : outputs) {
    const StagePtr update = find(op.get());
    if (std::find(members.begin(), members.end(), update) == members.end()) members.push_back(update);
  }
  return members;
}

}  // namespace aipu::te
