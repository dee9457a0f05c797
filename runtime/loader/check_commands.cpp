// What commands may do: the tensors, expressions and waits that they name, their order, the tree of programs.
#include "runtime/loader/checker.h"

namespace aipu::runtime {

Status Checker::check_origin(const CommandPlace& place, uint32_t origin) const {
  if (origin != kNone && origin >= items(model_.origins()).size())
    return bad(place.text(), " has origin ", origin, " of ", items(model_.origins()).size());
  return {};
}

Status Checker::check_waits(const CommandPlace& place, uint32_t first, uint32_t count) {
  const auto waits = items(model_.waits());
  if (uint64_t{first} + count > waits.size())
    return bad(place.text(), " waits ", first, "+", count, " of ", waits.size());
  if ((waits_used_ += count) > waits.size()) return bad(place.text(), " shares its waits with other commands");
  const fb::Program& program = *items(model_.programs())[place.program];
  for (uint32_t i = first; i < first + count; ++i) {
    const fb::Wait& wait = *waits[i];
    uint32_t size = 0;
    uint32_t sequence = 0;
    const auto look_up = [&](auto buffer) {
      size = buffer.size();
      if (wait.command() < size) sequence = buffer[wait.command()]->sequence();
    };
    switch (wait.engine()) {
      case fb::Engine::kTec:
        look_up(items(program.tec()));
        break;
      case fb::Engine::kDma:
        look_up(items(program.dma()));
        break;
      case fb::Engine::kHost:
        look_up(items(program.host()));
        break;
      default:
        return bad(place.text(), " waits for the unknown engine ", static_cast<int>(wait.engine()));
    }
    if (wait.command() >= size) return bad(place.text(), " waits for command ", wait.command(), " of ", size);
    if (sequence >= place.sequence)
      return bad(place.text(), " waits for a command that comes later (", sequence, " after ", place.sequence,
                 "): a deadlock");
  }
  return {};
}

Status Checker::check_expression_use(const CommandPlace& place, uint32_t expression) const {
  if (!expression_exists(expression))
    return bad(place.text(), " uses expression ", expression, " of ", expression_count_);
  if (tables_.expression_stage[expression] > place.stage)
    return bad(place.text(), " uses expression ", expression, " before its symbols are bound");
  return {};
}

// What is said of the two targets of a file.
Status Checker::refused(const CommandPlace& place, const char* what, uint32_t tensor) const {
  std::string message = place.text() + " " + what;
  if (tensor != kNone) message += tensor_text(model_, tensor);
  return invalid_model(std::move(message));
}

Status Checker::check_tensor_use(const CommandPlace& place, uint32_t tensor, bool writes) const {
  if (tensor >= tensor_count_) return bad(place.text(), " uses tensor ", tensor, " of ", tensor_count_);
  if (tables_.tensor_stage[tensor] > place.stage)
    return bad(place.text(), " uses ", tensor_text(model_, tensor), " before its size is known");
  const uint32_t root = tables_.tensor_root[tensor];
  const fb::Tensor& memory = *items(model_.tensors())[root];
  if (writes && (memory.kind() == fb::TensorKind::kInput || memory.kind() == fb::TensorKind::kConstant)) {
    return bad(place.text(), " writes to ", tensor_text(model_, tensor), ", which is read-only");
  }
  const bool is_on_host = memory.memory() == fb::Memory::kHost;
  const bool is_on_both =
      memory.kind() == fb::TensorKind::kConstant || (memory.kind() == fb::TensorKind::kInput && !is_body_);
  if (is_on_host ? !place.reaches_host : !place.reaches_device && !is_on_both)
    return refused(place, is_on_host ? "uses the host's memory: " : "uses the device's memory: ", tensor);
  if (memory.kind() == fb::TensorKind::kArena &&
      (place.sequence < memory.first_use() || place.sequence > memory.last_use())) {
    return bad(place.text(), " (sequence ", place.sequence, ") uses ", tensor_text(model_, tensor),
               " outside of its lifetime ", memory.first_use(), "..", memory.last_use());
  }
  return {};
}

Status Checker::check_tec(const CommandPlace& place, const fb::TecCommand& command) {
  const auto kernels = items(file_.root().kernels());
  if (command.kernel() >= kernels.size())
    return bad(place.text(), " runs kernel ", command.kernel(), " of ", kernels.size());
  const fb::HostPart* const host_part = file_.root().host_part();
  const bool is_of_host = host_part != nullptr && command.kernel() >= host_part->first_kernel();
  if (is_of_host != place.reaches_host)
    return refused(place, is_of_host ? "runs a kernel of the host's" : "runs a kernel that is not the host's");
  const fb::Kernel& kernel = *kernels[command.kernel()];
  const auto arguments = items(model_.arguments());
  if (command.argument_count() != kernel.argument_count()) {
    return bad(place.text(), " gives ", command.argument_count(), " arguments to kernel '", text(kernel.name()),
               "', which takes ", kernel.argument_count());
  }
  if (uint64_t{command.first_argument()} + command.argument_count() > arguments.size()) {
    return bad(place.text(), " has arguments ", command.first_argument(), "+", command.argument_count(), " of ",
               arguments.size());
  }
  if ((arguments_used_ += command.argument_count()) > arguments.size())
    return bad(place.text(), " shares its arguments with other commands");
  for (uint32_t i = 0; i < command.argument_count(); ++i) {
    const fb::Argument& argument = *arguments[command.first_argument() + i];
    const bool is_pointer = items(kernel.pointer_arguments())[i] != 0;
    if (argument.kind() > fb::ArgumentKind::MAX)
      return bad(place.text(), ": argument ", i, " has the unknown kind ", static_cast<int>(argument.kind()));
    if (is_pointer != (argument.kind() == fb::ArgumentKind::kTensor)) {
      return bad(place.text(), ": argument ", i, " of kernel '", text(kernel.name()), "' is ",
                 is_pointer ? "a pointer, but gets a number" : "a number, but gets a tensor");
    }
    if (argument.kind() == fb::ArgumentKind::kTensor) {
      AIPU_RETURN_IF_ERROR(check_tensor_use(place, argument.index(), argument.writes()));
      AIPU_RETURN_IF_ERROR(check_expression_use(place, argument.offset()));
    } else if (argument.kind() == fb::ArgumentKind::kExpression) {
      AIPU_RETURN_IF_ERROR(check_expression_use(place, argument.index()));
    }
  }
  AIPU_RETURN_IF_ERROR(check_expression_use(place, command.max_tecs()));
  AIPU_RETURN_IF_ERROR(check_waits(place, command.first_wait(), command.wait_count()));
  return check_origin(place, command.origin());
}

// Both ends of what the DMA engine copies are not the host's: a device need not do that.
Status Checker::check_dma(const CommandPlace& place, const fb::DmaCommand& command) {
  AIPU_RETURN_IF_ERROR(check_tensor_use(place, command.destination(), true));
  AIPU_RETURN_IF_ERROR(check_tensor_use(place, command.source(), false));
  const auto is_on_host = [&](uint32_t tensor) {
    return items(model_.tensors())[tables_.tensor_root[tensor]]->memory() == fb::Memory::kHost;
  };
  if (place.reaches_device && is_on_host(command.destination()) && is_on_host(command.source()))
    return refused(place, "copies within the host's memory");
  for (const uint32_t expression : {command.destination_offset(), command.source_offset(), command.width(),
                                    command.times(), command.destination_stride(), command.source_stride()}) {
    AIPU_RETURN_IF_ERROR(check_expression_use(place, expression));
  }
  AIPU_RETURN_IF_ERROR(check_waits(place, command.first_wait(), command.wait_count()));
  return check_origin(place, command.origin());
}

// Rows have the sequence of their command, so that all that is said of them is checked as of commands.
Status Checker::check_host_work(CommandPlace place, const fb::HostCommand& command) {
  if (file_.root().host_part() == nullptr || model_.host_work() == nullptr)
    return refused(place, "has work for a host, of which there is none");
  const fb::Program& work = *model_.host_work();
  const bool launches = command.op() == fb::HostOp::kLaunch;
  uint32_t& next = launches ? launches_used_ : copies_used_;
  const uint32_t count = launches ? items(work.tec()).size() : items(work.dma()).size();
  if (command.a() != next || next >= count) return refused(place, "does work of the host's that is not its own");
  ++next;
  place.reaches_device = false;
  place.reaches_host = true;
  const uint32_t sequence =
      launches ? items(work.tec())[command.a()]->sequence() : items(work.dma())[command.a()]->sequence();
  if (sequence != place.sequence) return refused(place, "and its work have unlike sequence numbers");
  if (!launches) return check_dma(place, *items(work.dma())[command.a()]);
  AIPU_RETURN_IF_ERROR(check_tec(place, *items(work.tec())[command.a()]));
  return check_needed(place, work, command.a());
}

Status Checker::check_host(const CommandPlace& place, const fb::HostCommand& command) {
  switch (command.op()) {
    case fb::HostOp::kBindSymbols: {
      CommandPlace anywhere = place;
      anywhere.reaches_host = true;
      for (uint32_t s = command.a(); s < command.a() + command.b(); ++s) {
        AIPU_RETURN_IF_ERROR(check_tensor_use(anywhere, items(model_.symbols())[s]->tensor(), false));
      }
      break;
    }
    case fb::HostOp::kLaunch:
    case fb::HostOp::kCopy:
      AIPU_RETURN_IF_ERROR(check_host_work(place, command));
      break;
    case fb::HostOp::kCheck:
      AIPU_RETURN_IF_ERROR(check_expression_use(place, command.a()));
      if (command.b() >= items(model_.strings()).size())
        return bad(place.text(), " has message ", command.b(), " of ", items(model_.strings()).size());
      for (const uint32_t number : {command.c(), command.d()}) {
        if (number != 0) AIPU_RETURN_IF_ERROR(check_expression_use(place, number - 1));
      }
      break;
    case fb::HostOp::kIf: {
      AIPU_RETURN_IF_ERROR(check_tensor_use(place, command.a(), false));
      const fb::Tensor& condition = *items(model_.tensors())[command.a()];
      if (static_cast<DType>(condition.dtype()) != DType::kBool)
        return bad(place.text(), ": the condition is not a bool tensor");
      for (const uint32_t program : {command.b(), command.c()}) {
        if (program == 0 || program >= items(model_.programs()).size())
          return bad(place.text(), " runs program ", program, " of ", items(model_.programs()).size());
        calls_.push_back({place.sequence, place.program, program});
      }
      break;
    }
    case fb::HostOp::kLoop:
    case fb::HostOp::kScan:
    case fb::HostOp::kBranch: {
      if (command.a() >= call_commands_.size())
        return bad(place.text(), " runs call ", command.a(), " of ", call_commands_.size());
      if (call_commands_[command.a()].exists) return bad("call ", command.a(), " is run from two places");
      call_commands_[command.a()] = {command.op(), place, true};
      break;
    }
    case fb::HostOp::kFetch: {
      // Commands of the host come in order, so the one that runs the call has been seen.
      const CallCommand* call = command.a() < call_commands_.size() ? &call_commands_[command.a()] : nullptr;
      if (call == nullptr || !call->exists || call->place.program != place.program)
        return bad(place.text(), " fetches a result of call ", command.a(), ", which has not been run");
      AIPU_RETURN_IF_ERROR(check_tensor_use(place, command.c(), true));
      fetches_.push_back({place, command.a(), command.b(), command.c()});
      break;
    }
    case fb::HostOp::kText:
      AIPU_RETURN_IF_ERROR(check_text_call(place, command.a()));
      break;
    default:
      return bad(place.text(), " has the unknown op ", static_cast<int>(command.op()));
  }
  AIPU_RETURN_IF_ERROR(check_waits(place, command.first_wait(), command.wait_count()));
  return check_origin(place, command.origin());
}

Status Checker::check_faults(const fb::Program& program, std::string_view where) const {
  const auto tec = items(program.tec());
  const auto faults = items(program.faults());
  for (uint32_t i = 0; i < faults.size(); ++i) {
    const fb::Fault& fault = *faults[i];
    if (fault.command() >= tec.size() || fault.message() >= items(model_.strings()).size() ||
        fault.origin() >= items(model_.origins()).size()) {
      return bad(where, ", fault ", i, " refers to a command, message or origin that is not there");
    }
    if (fault.needed() != kNone) {
      const uint32_t sequence = tec[fault.command()]->sequence();
      if (!expression_exists(fault.needed()) || tables_.expression_stage[fault.needed()] > stage_of_sequence(sequence))
        return bad(where, ", fault ", i, " uses expression ", fault.needed(), " before its symbols are bound");
    }
    const auto key = [](const fb::Fault& row) { return std::pair(row.command(), row.code()); };
    if (i > 0 && key(*faults[i - 1]) >= key(fault)) return bad(where, ", fault ", i, " is out of order");
  }
  return {};
}

// What is said beside the launches of a program.
Status Checker::check_tec_rows(const fb::Program& program, std::string_view where) const {
  const uint32_t count = items(program.tec()).size();
  const auto operations = items(program.tec_operations());
  if (operations.size() != 0 && operations.size() != count)
    return bad(where, " has operation counts for ", operations.size(), " of ", count, " tec commands");
  for (uint32_t i = 0; i < operations.size(); ++i) {
    if (operations[i] != kNone && !expression_exists(operations[i]))
      return bad(where, " counts operations by expression ", operations[i], " of ", expression_count_);
  }
  const uint32_t needed = items(program.tec_needed()).size();
  if (needed != 0 && needed != count)
    return bad(where, " says of ", needed, " of ", count, " tec commands when they are needed");
  return check_faults(program, where);
}

Status Checker::check_needed(const CommandPlace& place, const fb::Program& program, uint32_t index) const {
  const auto needed = items(program.tec_needed());
  if (index >= needed.size() || needed[index] == kNone) return {};
  return check_expression_use(place, needed[index]);
}

Status Checker::check_commands() {
  const auto programs = items(model_.programs());
  call_commands_.resize(items(model_.calls()).size());
  if (model_.host_work() != nullptr) AIPU_RETURN_IF_ERROR(check_tec_rows(*model_.host_work(), "the host's work"));
  for (uint32_t p = 0; p < programs.size(); ++p) {
    const auto tec = items(programs[p]->tec());
    AIPU_RETURN_IF_ERROR(check_tec_rows(*programs[p], str_cat("program ", p)));
    for (uint32_t i = 0; i < tec.size(); ++i) {
      const CommandPlace place = {p, fb::Engine::kTec, i, tec[i]->sequence(), stage_of_sequence(tec[i]->sequence())};
      AIPU_RETURN_IF_ERROR(check_tec(place, *tec[i]));
      AIPU_RETURN_IF_ERROR(check_needed(place, *programs[p], i));
    }
    const auto dma = items(programs[p]->dma());
    for (uint32_t i = 0; i < dma.size(); ++i) {
      const uint32_t sequence = dma[i]->sequence();
      AIPU_RETURN_IF_ERROR(
          check_dma({p, fb::Engine::kDma, i, sequence, stage_of_sequence(sequence), true, true}, *dma[i]));
    }
    const auto host = items(programs[p]->host());
    for (uint32_t i = 0; i < host.size(); ++i) {
      AIPU_RETURN_IF_ERROR(
          check_host({p, fb::Engine::kHost, i, host[i]->sequence(), stage_of_sequence(host[i]->sequence())}, *host[i]));
    }
  }
  return {};
}

Status Checker::check_program_tree() {
  const auto programs = items(model_.programs());
  std::vector<uint32_t> depth(programs.size(), kNone);
  depth[0] = 0;
  // A caller is called before it calls, so in order of sequence its depth is known first.
  std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) { return a.sequence < b.sequence; });
  for (const Call& call : calls_) {
    if (depth[call.callee] != kNone) return bad("program ", call.callee, " is run from two places");
    if (depth[call.caller] == kNone)
      return bad("program ", call.caller, " runs program ", call.callee, " before it is run itself");
    depth[call.callee] = depth[call.caller] + 1;
    if (depth[call.callee] > kMaxProgramDepth) return bad("programs are nested deeper than ", kMaxProgramDepth);
    const auto starts_early = [&](auto buffer) { return buffer.size() > 0 && buffer[0]->sequence() <= call.sequence; };
    const fb::Program& callee = *programs[call.callee];
    if (starts_early(items(callee.tec())) || starts_early(items(callee.dma())) || starts_early(items(callee.host()))) {
      return bad("program ", call.callee, " has commands that come before the one that runs it");
    }
  }
  for (uint32_t p = 0; p < programs.size(); ++p) {
    if (depth[p] == kNone) return bad("program ", p, " is never run");
  }
  return {};
}

// Plays the engines: of the heads of the three buffers the one with the smallest sequence runs. Its waits all have
// smaller sequences, so they are done.
Status Checker::schedule() {
  const auto programs = items(model_.programs());
  tables_.stages.resize(tables_.stage_count);
  tables_.programs.resize(programs.size());
  for (uint32_t p = 0; p < programs.size(); ++p) {
    const auto tec = items(programs[p]->tec());
    const auto dma = items(programs[p]->dma());
    const auto host = items(programs[p]->host());
    std::array<uint32_t, 3> head = {};
    auto& order = tables_.programs[p];
    while (true) {
      const std::array<uint32_t, 3> sequences = {head[0] < tec.size() ? tec[head[0]]->sequence() : kNone,
                                                 head[1] < dma.size() ? dma[head[1]]->sequence() : kNone,
                                                 head[2] < host.size() ? host[head[2]]->sequence() : kNone};
      const auto engine =
          static_cast<uint32_t>(std::min_element(sequences.begin(), sequences.end()) - sequences.begin());
      if (sequences[engine] == kNone) break;
      const uint32_t stage = stage_of_sequence(sequences[engine]);
      auto& stage_commands = tables_.stages[stage];
      order.push_back({static_cast<fb::Engine>(engine), head[engine]++, sequences[engine], stage,
                       static_cast<uint32_t>(stage_commands.size())});
      stage_commands.emplace_back(p, static_cast<uint32_t>(order.size() - 1));
    }
  }
  return {};
}

uint32_t Checker::loop_around(const fb::Tensor& tensor) const {
  const auto loops = items(model_.batch_loops());
  uint32_t at = 0, end = loops.size();  // those in front of `at` are over before the tensor is used
  while (at < end) {
    const uint32_t middle = at + (end - at) / 2;
    if (loops[middle]->last() < tensor.first_use())
      at = middle + 1;
    else
      end = middle;
  }
  const bool is_around =
      at < loops.size() && loops[at]->first() <= tensor.first_use() && tensor.last_use() <= loops[at]->last();
  return is_around ? at : kNone;
}

// That samples are independent cannot be seen here; that nothing outside of the tensors is touched is checked when the
// shapes are bound.
Status Checker::check_batch_loops() {
  const auto loops = items(model_.batch_loops());
  const auto symbols = items(model_.symbols());
  const auto tensors = items(model_.tensors());
  const auto& order = tables_.programs[0];
  tables_.loop_of_tensor.assign(tensor_count_, kNone);
  if (loops.size() > 0 && file_.root().host_part() != nullptr) return refused({}, "has batch loops beside a host part");
  const auto conditions = items(model_.batch_loop_conditions());
  if (conditions.size() != 0 && conditions.size() != loops.size())
    return bad("there are conditions for ", conditions.size(), " of ", loops.size(), " batch loops");
  uint32_t free_from = 0;  // position
  for (uint32_t i = 0; i < loops.size(); ++i) {
    const fb::BatchLoop& loop = *loops[i];
    const auto by_sequence = [](const auto& command, uint32_t sequence) { return command.sequence < sequence; };
    const auto first = std::lower_bound(order.begin(), order.end(), loop.first(), by_sequence);
    const auto last = std::lower_bound(order.begin(), order.end(), loop.last(), by_sequence);
    if (loop.first() > loop.last() || first == order.end() || first->sequence != loop.first() || last == order.end() ||
        last->sequence != loop.last()) {
      return bad("batch loop ", i, " goes from command ", loop.first(), " to ", loop.last(),
                 " of program 0, which are not there");
    }
    const auto first_position = static_cast<uint32_t>(first - order.begin());
    if (i > 0 && first_position < free_from) return bad("batch loop ", i, " begins within the one before it");
    if (loop.symbol() >= symbols.size() || symbols[loop.symbol()]->kind() != fb::SymbolKind::kInputExtent)
      return bad("batch loop ", i, " is over symbol ", loop.symbol(), ", which is no extent of an input");
    if (std::any_of(first, last + 1, [](const auto& command) { return command.engine == fb::Engine::kHost; }))
      return bad("batch loop ", i, " has host commands");
    const uint32_t condition = conditions.size() != 0 ? conditions[i] : kNone;
    if (condition != kNone && !expression_exists(condition))
      return bad("batch loop ", i, " is run if expression ", condition, " of ", expression_count_, " is not 0");
    free_from = static_cast<uint32_t>(last - order.begin()) + 1;
    tables_.batch_loops.push_back({first_position, free_from - 1, loop.symbol(), first->stage, condition});
  }
  for (uint32_t t = 0; t < tensor_count_ && loops.size() > 0; ++t) {
    const fb::Tensor& root = *tensors[tables_.tensor_root[t]];
    if (root.kind() != fb::TensorKind::kArena) continue;
    tables_.loop_of_tensor[t] = loop_around(root);
  }
  return {};
}

}  // namespace aipu::runtime
