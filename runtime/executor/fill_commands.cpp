// Commands with all their numbers filled in.
#include <algorithm>

#include "runtime/base/checked_math.h"
#include "runtime/executor/stage_planner.h"

namespace aipu::runtime {

// The numbers of a kernel may have fewer bits than the positions in a tensor need.
Status StagePlanner::check_reach(const fb::Kernel& kernel, uint32_t argument, uint32_t tensor, int64_t bytes) const {
  const auto reaches = items(kernel.addressable_bytes());
  const fb::Tensor& row = *items(root_.tensors())[tensor];
  const uint64_t element = std::max<uint64_t>(dtype_bytes(static_cast<DType>(row.dtype())), 1);
  const bool known = kernel.addressable_bytes() != nullptr;
  const uint64_t reach = known ? reaches[argument] : element * kNarrowIndexElements;
  if (reach == 0 || static_cast<uint64_t>(bytes) <= reach) return {};
  return out_of_range(str_cat("argument ", argument, ": ", tensor_name(tensor), " has ", bytes,
                              " bytes; the kernel computes positions in 32 bits and reaches ", reach,
                              known ? "" : ": convert the model again"));
}

Status StagePlanner::fill_tec(const fb::Program& program, uint32_t index, Step* step) {
  const fb::TecCommand& command = *items(program.tec())[index];
  const auto operations = items(program.tec_operations());
  if (index < operations.size() && operations[index] != kNone && command_values_->has_value(operations[index]))
    step->operations = command_values_->value_or_zero(operations[index]);
  AIPU_RETURN_IF_ERROR(take_words(command.argument_count()));
  if (is_left_out(program, index)) return fill_left_out(command, step);
  const fb::Kernel& kernel = model_.kernel(command.kernel());
  const auto arguments = items(root_.arguments());
  const auto bits = items(kernel.argument_bits());
  const auto signs = items(kernel.signed_arguments());
  step->kernel = command.kernel() - (for_host_ ? model_.host_kernel_base : 0);
  AIPU_ASSIGN_OR_RETURN(const int64_t max_tecs, value(command.max_tecs(), "the number of TECs"));
  step->max_tecs = static_cast<uint32_t>(std::clamp<int64_t>(max_tecs, 1, kMaxTecs));
  for (uint32_t i = 0; i < command.argument_count(); ++i) {
    const fb::Argument& argument = *arguments[command.first_argument() + i];
    switch (argument.kind()) {
      case fb::ArgumentKind::kTensor: {
        AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(argument.index()));
        AIPU_ASSIGN_OR_RETURN(int64_t offset,
                              value(argument.offset(), [i] { return str_cat("the offset of argument ", i); }));
        if (placement.size == 0) offset = 0;  // a part of nothing, such as the second half of each of no rows
        if (offset < 0 || offset > placement.size) {
          return invalid_argument(str_cat("argument ", i, " points to byte ", offset, " of ",
                                          tensor_name(argument.index()), ", which has ", placement.size));
        }
        AIPU_RETURN_IF_ERROR(check_reach(kernel, i, argument.index(), placement.size - offset));
        add_address(placement, offset, argument.writes());
        break;
      }
      case fb::ArgumentKind::kExpression: {
        AIPU_ASSIGN_OR_RETURN(const int64_t number, value(argument.index(), [i] { return str_cat("argument ", i); }));
        const uint32_t width = i < bits.size() ? bits[i] : 0;
        const uint32_t digits = width - (i < signs.size() && signs[i] != 0 ? 1 : 0);
        if (width > 0 && width < 63 && (number < -(int64_t{1} << (width - 1)) || number >= (int64_t{1} << digits))) {
          return out_of_range(str_cat("argument ", i, " is ", number, ", which does not fit into ", width, " bits"));
        }
        add_number(number);
        break;
      }
      case fb::ArgumentKind::kImmediate:
        add_word(argument.word());
        break;
    }
  }
  return {};
}

bool StagePlanner::is_left_out(const fb::Program& program, uint32_t index) const {
  const auto needed = items(program.tec_needed());
  if (index >= needed.size() || needed[index] == kNone || loop_ != nullptr) return false;
  return command_values_->has_value(needed[index]) && command_values_->value_or_zero(needed[index]) == 0;
}

// Only the memory that the command writes. The shapes may make no sense, so what has no place is none.
Status StagePlanner::fill_left_out(const fb::TecCommand& command, Step* step) {
  step->left_out = true;
  const auto arguments = items(root_.arguments());
  for (uint32_t i = 0; i < command.argument_count(); ++i) {
    const fb::Argument& argument = *arguments[command.first_argument() + i];
    const bool written = argument.kind() == fb::ArgumentKind::kTensor && argument.writes();
    const auto placement = written ? place_of(argument.index()) : internal_error("not written");
    const auto offset = written ? value(argument.offset(), "the offset") : internal_error("not written");
    if (placement.ok() && offset.ok() && *offset >= 0 && *offset <= placement->size) {
      add_address(*placement, *offset, true);
    } else {
      add_number(0);
    }
  }
  return {};
}

Status StagePlanner::fill_dma(const fb::DmaCommand& command, Step* step) {
  AIPU_RETURN_IF_ERROR(take_words(6));
  AIPU_ASSIGN_OR_RETURN(const Placement destination, place_of(command.destination()));
  AIPU_ASSIGN_OR_RETURN(const Placement source, place_of(command.source()));
  AIPU_ASSIGN_OR_RETURN(const int64_t destination_offset,
                        value(command.destination_offset(), "the destination's offset"));
  AIPU_ASSIGN_OR_RETURN(const int64_t source_offset, value(command.source_offset(), "the source's offset"));
  AIPU_ASSIGN_OR_RETURN(const int64_t width, value(command.width(), "the width"));
  AIPU_ASSIGN_OR_RETURN(int64_t times, value(command.times(), "the number of rows"));
  AIPU_ASSIGN_OR_RETURN(const int64_t destination_stride,
                        value(command.destination_stride(), "the destination's stride"));
  AIPU_ASSIGN_OR_RETURN(const int64_t source_stride, value(command.source_stride(), "the source's stride"));
  if (width < 0 || times < 0) return invalid_argument(str_cat("copies ", times, " rows of ", width, " bytes"));
  if (width == 0) times = 0;
  if (times > 1 && destination_stride < width)
    return invalid_argument(str_cat("copies rows of ", width, " bytes to places ", destination_stride, " bytes apart"));

  // First byte and end of what is touched, within the tensor.
  const auto range = [&](std::string_view what, uint32_t tensor, const Placement& placement, int64_t offset,
                         int64_t stride, int64_t* low, int64_t* high) -> Status {
    const auto way = checked_mul(times - 1, stride);
    const auto last = way ? checked_add(offset, *way) : std::nullopt;
    const auto end = last ? checked_add(std::max(offset, *last), width) : std::nullopt;
    if (!end || std::min(offset, *last) < 0 || *end > placement.size) {
      return invalid_argument(str_cat("the ", what, " (", times, " rows of ", width, " bytes, ", stride,
                                      " apart, from ", offset, " on) is outside of ", tensor_name(tensor),
                                      ", which has ", placement.size, " bytes"));
    }
    *low = placement.offset + std::min(offset, *last);
    *high = placement.offset + *end;
    return {};
  };
  if (times == 0) {
    for (int i = 0; i < 6; ++i) add_word(0);
    return {};
  }
  int64_t destination_low = 0, destination_high = 0, source_low = 0, source_high = 0;
  AIPU_RETURN_IF_ERROR(range("destination", command.destination(), destination, destination_offset, destination_stride,
                             &destination_low, &destination_high));
  AIPU_RETURN_IF_ERROR(
      range("source", command.source(), source, source_offset, source_stride, &source_low, &source_high));
  step->overlaps = destination.root == source.root && destination_low < source_high && source_low < destination_high;
  step->to_host = !for_host_ && is_on_host(command.destination());
  step->from_host = !for_host_ && is_on_host(command.source());
  if ((step->to_host || step->from_host) && times > 1)
    return invalid_model(
        str_cat("copies ", times, " rows between the host's memory and the device's, in place of one"));
  add_address(destination, destination_offset, true);
  add_address(source, source_offset, false);
  for (const int64_t number : {width, times, destination_stride, source_stride}) add_number(number);
  return {};
}

Status StagePlanner::fill_host_work(const fb::HostCommand& command, Step* step) {
  for_host_ = true;
  Status status = command.op() == fb::HostOp::kLaunch ? fill_tec(*root_.host_work(), command.a(), step)
                                                      : fill_dma(*items(root_.host_work()->dma())[command.a()], step);
  for_host_ = false;
  return status;
}

Status StagePlanner::fill_host(const fb::HostCommand& command, Step* step) {
  if (command.op() == fb::HostOp::kLaunch || command.op() == fb::HostOp::kCopy) return fill_host_work(command, step);
  if (runs_bodies(command.op())) return fill_call(*items(root_.calls())[command.a()]);
  if (command.op() == fb::HostOp::kText) return fill_text(*items(root_.text_calls())[command.a()]);
  AIPU_RETURN_IF_ERROR(take_words(command.op() == fb::HostOp::kBindSymbols ? command.b() : 1));
  switch (command.op()) {
    case fb::HostOp::kBindSymbols:
      for (uint32_t s = command.a(); s < command.a() + command.b(); ++s) {
        const fb::Symbol& symbol = *items(root_.symbols())[s];
        AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(symbol.tensor()));
        const auto size =
            static_cast<int64_t>(dtype_bytes(static_cast<DType>(items(root_.tensors())[symbol.tensor()]->dtype())));
        if (placement.size / size <= symbol.index()) {
          return invalid_argument(str_cat("symbol '", text(symbol.name()), "' is element ", symbol.index(), " of ",
                                          tensor_name(symbol.tensor()), ", which has ", placement.size / size));
        }
        add_address(placement, symbol.index() * size, false);
      }
      break;
    case fb::HostOp::kCheck: {
      AIPU_ASSIGN_OR_RETURN(const int64_t holds, value(command.a(), "the condition"));
      add_number(holds);
      break;
    }
    case fb::HostOp::kIf: {
      AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(command.a()));
      if (placement.size < 1) return invalid_argument("the condition is an empty tensor");
      add_address(placement, 0, false);
      break;
    }
    case fb::HostOp::kFetch: {
      AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(command.c()));
      add_address(placement, 0, true);
      break;
    }
    case fb::HostOp::kLoop:
    case fb::HostOp::kScan:
    case fb::HostOp::kBranch:
    case fb::HostOp::kText:
    case fb::HostOp::kLaunch:
    case fb::HostOp::kCopy:
      break;
  }
  return {};
}

// The words are those that Session::Impl::run_text reads.
Status StagePlanner::fill_text(const fb::TextCall& call) {
  const auto inputs = items(call.inputs()), outputs = items(call.outputs());
  AIPU_RETURN_IF_ERROR(take_words(uint64_t{1} + inputs.size() + outputs.size()));
  int64_t needed = 1;
  if (call.needed() != kNone) {
    AIPU_ASSIGN_OR_RETURN(needed, value(call.needed(), "whether it is needed"));
  }
  add_number(needed);
  for (const bool writes : {false, true}) {
    const auto tensors = writes ? outputs : inputs;
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(tensors[i]));
      add_address(placement, 0, writes);
    }
  }
  return {};
}

// The words are those of CallWords: the session reads them in the same order.
Status StagePlanner::fill_call(const fb::Call& call) {
  const auto tensors = items(root_.tensors());
  const auto inputs = items(call.inputs());
  const auto given = items(call.given());
  uint64_t count = 3;
  for (uint32_t i = 0; i < inputs.size(); ++i) count += 1 + items(tensors[inputs[i]]->shape()).size();
  for (uint32_t b = 0; b < given.size(); ++b) count += items(given[b]->expressions()).size();
  AIPU_RETURN_IF_ERROR(take_words(count));
  const auto add_tensor = [&](uint32_t tensor, bool writes) -> Status {
    if (tensor == kNone) {
      add_word(0);
      return {};
    }
    AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(tensor));
    add_address(placement, 0, writes);
    return {};
  };
  AIPU_RETURN_IF_ERROR(add_tensor(call.condition(), false));
  AIPU_RETURN_IF_ERROR(add_tensor(call.trip_count(), false));
  AIPU_RETURN_IF_ERROR(add_tensor(call.extents(), true));
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    AIPU_RETURN_IF_ERROR(add_tensor(inputs[i], false));
    const auto shape = items(tensors[inputs[i]]->shape());
    for (uint32_t k = 0; k < shape.size(); ++k) {
      AIPU_ASSIGN_OR_RETURN(const int64_t extent, value(shape[k], [&] { return tensor_name(inputs[i]); }));
      add_number(extent);
    }
  }
  for (uint32_t b = 0; b < given.size(); ++b) {
    const auto expressions = items(given[b]->expressions());
    for (uint32_t k = 0; k < expressions.size(); ++k) {
      AIPU_ASSIGN_OR_RETURN(const int64_t number, value(expressions[k], "a number for a body"));
      add_number(number);
    }
  }
  return {};
}

Status StagePlanner::fill_commands() {
  const auto programs = items(root_.programs());
  plan_->steps.reserve(tables_.stages[stage_].size());
  for (const auto& [program, position] : tables_.stages[stage_]) {
    const auto& command = tables_.programs[program][position];
    if (program == 0 && plan_->loop_with(position) != nullptr) {
      plan_->steps.push_back({});
      continue;
    }
    const size_t words = plan_->words.size();
    const size_t patches = plan_->patches.size();
    Step step;
    step.first_word = static_cast<uint32_t>(words);
    Status status;
    switch (command.engine) {
      case fb::Engine::kTec:
        status = fill_tec(*programs[program], command.index, &step);
        break;
      case fb::Engine::kDma:
        status = fill_dma(*items(programs[program]->dma())[command.index], &step);
        break;
      case fb::Engine::kHost:
        status = fill_host(*items(programs[program]->host())[command.index], &step);
        break;
    }
    if (!status.ok()) {
      AIPU_RETURN_IF_ERROR(meter_.check_time());
      if (program == 0) return std::move(status).context(command_text(model_, program, command));
      // In a branch that may not be taken. Messages have names of tensors in them, and many may have one long name.
      constexpr size_t kMostErrorBytes = 1 << 20;
      if (error_bytes_ > kMostErrorBytes) status = Status(status.code(), "it has no valid numbers for these shapes");
      error_bytes_ += status.message().size();
      plan_->words.resize(words);
      plan_->extents.resize(words);
      plan_->writable.resize(words);
      plan_->patches.resize(patches);
      step.error = static_cast<uint32_t>(plan_->errors.size());
      plan_->errors.push_back(std::move(status));
    }
    step.word_count = static_cast<uint32_t>(plan_->words.size() - words);
    plan_->steps.push_back(step);
  }
  return {};
}

void StagePlanner::sort_patches() {
  const auto& patches = plan_->patches;
  std::sort(plan_->patches.begin(), plan_->patches.end(),
            [](const auto& a, const auto& b) { return a.root != b.root ? a.root < b.root : a.word < b.word; });
  for (uint32_t i = 0; i < patches.size(); ++i) {
    if (i == 0 || patches[i].root != patches[i - 1].root)
      plan_->patched_roots.push_back({patches[i].root, i, i, nullptr});
    plan_->patched_roots.back().end = i + 1;
  }
}

}  // namespace aipu::runtime
