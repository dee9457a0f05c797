// Sizes of tensors, and their places in memory.
#include <algorithm>

#include "runtime/base/arena.h"
#include "runtime/base/checked_math.h"
#include "runtime/base/stored_type.h"
#include "runtime/executor/stage_planner.h"

namespace aipu::runtime {

Status StagePlanner::place_tensor(uint32_t index, Placement* placement) const {
  const fb::Tensor& tensor = *items(root_.tensors())[index];
  const auto dtype = static_cast<DType>(tensor.dtype());
  const uint32_t loop = entered_loop_of(index);
  const auto value = [&](uint32_t expression, std::string_view what) {
    return value_in(loop != kNone ? *loop_values_[loop] : values_, expression, what);
  };
  AIPU_ASSIGN_OR_RETURN(const int64_t size, value(tensor.size_bytes(), tensor_name(index) + ", its size"));
  if (size < 0) return invalid_argument(str_cat(tensor_name(index), " has the negative size ", size));
  std::vector<int64_t> extents;
  const auto shape = items(tensor.shape());
  for (uint32_t k = 0; k < shape.size(); ++k) {
    AIPU_ASSIGN_OR_RETURN(const int64_t extent, value(shape[k], str_cat(tensor_name(index), ", extent ", k)));
    if (extent < 0)
      return invalid_argument(str_cat(tensor_name(index), " has the negative extent ", extent, " at axis ", k));
    extents.push_back(extent);
  }
  const auto needed = tensor_bytes(dtype, extents);
  if (!needed) return out_of_range(str_cat(tensor_name(index), " has more elements than 64 bits can count"));
  const bool is_interface = tensor.kind() == fb::TensorKind::kInput || tensor.kind() == fb::TensorKind::kOutput;
  if (size < *needed || (is_interface && size != *needed)) {
    return invalid_model(str_cat(tensor_name(index), " has ", size, " bytes, but its elements take ", *needed));
  }
  if (size > memory_limit_)
    return out_of_range(str_cat(tensor_name(index), " takes ", size, " bytes; the limit is ", memory_limit_,
                                " (--run-memory-limit, SessionOptions::memory_limit_bytes)"));

  placement->size = size;
  placement->known = true;
  switch (tensor.kind()) {
    case fb::TensorKind::kInput:
      placement->root = roots_.input(tables_.input_of_tensor[index]);
      break;
    case fb::TensorKind::kOutput:
      placement->root = roots_.output(tables_.output_of_tensor[index]);
      break;
    case fb::TensorKind::kConstant:
      placement->root = roots_.constants();
      placement->offset = static_cast<int64_t>(tensor.offset_bytes());
      break;
    case fb::TensorKind::kArena:
      placement->root = is_on_host(index) ? roots_.host_arena(stage_) : roots_.arena(stage_);
      break;
    case fb::TensorKind::kView: {
      AIPU_ASSIGN_OR_RETURN(int64_t offset, value(tensor.view_offset(), tensor_name(index) + ", its offset"));
      const Placement& base = placement_of(tensor.base());
      if (base.known && base.size == 0) offset = 0;
      if (!base.known) {
        placement->known = false;
        if (tables_.tensor_stage[tensor.base()] == stage_) {
          Placement unused;
          AIPU_RETURN_IF_ERROR(place_tensor(tensor.base(), &unused));
        }
        return invalid_argument(
            str_cat(tensor_name(index), " is a view of ", tensor_name(tensor.base()), ", which has no place"));
      }
      if (offset < 0 || offset > base.size || size > base.size - offset) {
        return invalid_argument(str_cat(tensor_name(index), " (", size, " bytes at ", offset, ") is outside of ",
                                        tensor_name(tensor.base()), " (", base.size, " bytes)"));
      }
      placement->root = base.root;
      placement->offset = base.offset + offset;
      break;
    }
  }
  return {};
}

// Files with loops have nothing in the host's memory.
Status StagePlanner::place_arena(fb::Memory memory, int64_t* bytes) {
  const auto tensors = items(root_.tensors());
  const auto slot = [&](uint32_t tensor) { return tables_.tensor_slot[tensor]; };
  std::vector<uint32_t> order;
  for (const uint32_t i : tables_.stage_tensors[stage_]) {
    if (tensors[i]->kind() == fb::TensorKind::kArena && tensors[i]->memory() == memory && placement_of(i).known)
      order.push_back(i);
  }
  // What goes into or comes out of a loop lives as long as it: the last sample is read at the end, the first one
  // written at the beginning. Which loops of later stages are entered is not known yet.
  struct Life {
    uint32_t first, last;
  };
  std::vector<Life> lives(plan_->placements.size());
  const auto& commands = tables_.programs[0];
  const auto loop_around = [&](uint32_t sequence) -> const ModelTables::BatchLoop* {
    const auto& loops = tables_.batch_loops;
    const auto loop = std::partition_point(loops.begin(), loops.end(), [&](const ModelTables::BatchLoop& candidate) {
      return commands[candidate.last].sequence < sequence;
    });
    if (lanes_ == 0 || loop == loops.end() || commands[loop->first].sequence > sequence) return nullptr;
    const bool is_entered =
        loop->stage > stage_ || (loop->stage == stage_ && plan_of_loop_[loop - loops.begin() - first_loop_] != kNone);
    return is_entered ? &*loop : nullptr;
  };
  for (const uint32_t index : order) {
    Life& life = lives[slot(index)];
    life = {tensors[index]->first_use(), tensors[index]->last_use()};
    if (loop_of(index) != nullptr) continue;
    if (const auto* loop = loop_around(life.first)) life.first = commands[loop->first].sequence;
    if (const auto* loop = loop_around(life.last)) life.last = commands[loop->last].sequence;
  }
  // The solver wants a tensor after the one whose memory it takes over.
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Life &x = lives[slot(a)], &y = lives[slot(b)];
    return x.first != y.first ? x.first < y.first : x.last < y.last;
  });
  // What no loop owns, and what each loop owns.
  std::vector<uint32_t> members;
  std::vector<std::vector<uint32_t>> loop_members(plan_->loops.size());
  for (const uint32_t index : order) {
    const uint32_t loop = entered_loop_of(index);
    (loop == kNone ? members : loop_members[loop]).push_back(index);
  }
  std::vector<uint32_t> request_of(plan_->placements.size(), ArenaRequest::kNone);
  const auto requests_of = [&](const std::vector<uint32_t>& group) {
    std::vector<ArenaRequest> requests;
    for (const uint32_t index : group) {
      const fb::Tensor& tensor = *tensors[index];
      const uint32_t base = tensor.in_place_of();
      const Life& life = lives[slot(index)];
      // One sample does not take over the memory of all, nor the other way round.
      const bool may_take_over = base != kNone && tables_.tensor_stage[base] == stage_ &&
                                 loop_of(base) == loop_of(index) && life.first == tensor.first_use() &&
                                 lives[slot(base)].last == tensors[base]->last_use();
      request_of[slot(index)] = static_cast<uint32_t>(requests.size());
      requests.push_back({placement_of(index).size, life.first, life.last,
                          may_take_over ? request_of[slot(base)] : ArenaRequest::kNone});
    }
    return requests;
  };
  std::vector<ArenaRequest> requests = requests_of(members);
  for (size_t i = 0; i < plan_->loops.size(); ++i) {
    StagePlan::Loop& loop = plan_->loops[i];
    AIPU_RETURN_IF_ERROR(meter_.check_time_often());
    AIPU_ASSIGN_OR_RETURN(const ArenaPlan lane, solve_arena(requests_of(loop_members[i])));
    for (size_t k = 0; k < loop_members[i].size(); ++k) own_placement(loop_members[i][k]).offset = lane.offsets[k];
    loop.lane_bytes = lane.size_bytes;
    const auto lanes = checked_mul(lane.size_bytes, static_cast<int64_t>(loop.lanes));
    if (!lanes) return out_of_range("the memory of a batch loop overflows 64 bits");
    requests.push_back({*lanes, commands[loop.first].sequence, commands[loop.last].sequence, ArenaRequest::kNone});
  }
  AIPU_ASSIGN_OR_RETURN(const ArenaPlan arena, solve_arena(requests));
  *bytes = arena.size_bytes;
  for (size_t i = 0; i < members.size(); ++i) own_placement(members[i]).offset = arena.offsets[i];
  for (size_t i = 0; i < plan_->loops.size(); ++i) {
    for (const uint32_t index : loop_members[i]) own_placement(index).offset += arena.offsets[members.size() + i];
  }
  return {};
}

Status StagePlanner::place_tensors() {
  const auto tensors = items(root_.tensors());
  const auto& here = tables_.stage_tensors[stage_];
  plan_->placements.resize(here.size());
  for (const uint32_t i : here) {
    if (tensors[i]->kind() == fb::TensorKind::kView) continue;
    AIPU_RETURN_IF_ERROR(meter_.check_time_often());
    Placement placement;
    // A tensor that cannot be placed is an error for the command that uses it, if it is ever reached; inputs are
    // always used.
    Status status = place_tensor(i, &placement);
    if (status.ok()) own_placement(i) = placement;
    if (!status.ok() && tensors[i]->kind() == fb::TensorKind::kInput) return status;
  }
  AIPU_RETURN_IF_ERROR(place_arena(fb::Memory::kDevice, &plan_->arena_bytes));
  if (root_.host_work() != nullptr) AIPU_RETURN_IF_ERROR(place_arena(fb::Memory::kHost, &plan_->host_arena_bytes));
  int64_t total = checked_add(plan_->arena_bytes, plan_->host_arena_bytes).value_or(INT64_MAX);
  for (const uint32_t i : here) {
    const Placement& placement = placement_of(i);
    if (tensors[i]->kind() != fb::TensorKind::kOutput || !placement.known) continue;
    StagePlan::KnownOutput output{tables_.output_of_tensor[i], placement.size, {}};
    const auto shape = items(tensors[i]->shape());
    for (uint32_t k = 0; k < shape.size(); ++k) output.shape.push_back(values_.value_or_zero(shape[k]));
    plan_->outputs.push_back(std::move(output));
    total = checked_add(total, placement.size).value_or(INT64_MAX);
  }
  if (total > memory_limit_)
    return out_of_range(str_cat("these shapes need ", total, " bytes of memory; the limit is ", memory_limit_,
                                " (--run-memory-limit, SessionOptions::memory_limit_bytes)"));

  // Views after what they look into: chains are short (check.cpp), so a few rounds settle all of them.
  std::vector<uint32_t> views;
  for (const uint32_t i : here) {
    if (tensors[i]->kind() == fb::TensorKind::kView) views.push_back(i);
  }
  bool progress = true;
  while (progress && !views.empty()) {
    progress = false;
    std::erase_if(views, [&](uint32_t i) {
      if (!placement_of(tensors[i]->base()).known) return false;
      Placement placement;
      if (place_tensor(i, &placement).ok()) own_placement(i) = placement;
      progress = true;
      return true;
    });
  }
  return {};
}

// Where a tensor is for the first sample of the present loop: a tensor of the loop's own has memory for just one, of
// others it is a part.
Result<Placement> StagePlanner::place_of_sample(uint32_t tensor) const {
  const auto tensors = items(root_.tensors());
  const uint32_t root = tables_.tensor_root[tensor];
  const Placement& placement = placement_of(tensor);
  if (tensors[root]->kind() == fb::TensorKind::kConstant || loop_of(tensor) == loop_) {
    if (!placement.known)
      return invalid_argument(
          str_cat(tensor_name(tensor), ": its size depends on values that were not computed on the way here"));
    Placement own = placement;
    if (tensors[root]->kind() != fb::TensorKind::kConstant) own.lane_stride = loop_->lane_bytes;
    return own;
  }
  const Placement& whole = placement_of(root);
  if (!whole.known || loop_of(tensor) != nullptr)
    return invalid_model(str_cat(tensor_name(tensor), " has no place in a batch loop"));
  const auto one = [&](uint32_t expression) {
    return value_in(*command_values_, expression, tensor_name(tensor) + " for one sample");
  };
  AIPU_ASSIGN_OR_RETURN(const int64_t part, one(tensors[root]->size_bytes()));
  const auto all_parts = checked_mul(part, loop_->samples);
  if (part < 0 || (part != whole.size && all_parts != whole.size)) {
    return invalid_model(str_cat(tensor_name(root), " has ", whole.size, " bytes, but ", part, " for one of ",
                                 loop_->samples, " samples"));
  }
  AIPU_ASSIGN_OR_RETURN(const int64_t size, one(tensors[tensor]->size_bytes()));
  int64_t offset = 0;
  for (uint32_t at = tensor; at != root; at = tensors[at]->base()) {
    AIPU_ASSIGN_OR_RETURN(const int64_t step, one(tensors[at]->view_offset()));
    if (step < 0 || step > part - offset)
      return invalid_model(str_cat(tensor_name(at), " begins outside of a sample of its base"));
    offset += step;
  }
  if (size < 0 || size > part - offset)
    return invalid_model(str_cat(tensor_name(tensor), " ends outside of a sample of its base"));
  return Placement{whole.root, whole.offset + offset, size, true, part == whole.size ? 0 : part, 0};
}

}  // namespace aipu::runtime
