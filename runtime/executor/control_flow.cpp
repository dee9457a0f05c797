// Loops and branches: bodies are run as models of their own within the session (aipu.fbs, Call).
//
// Nothing is allocated per iteration once shapes repeat: states live by turns in the memory of the body's outputs and
// in CallState::carried, slices of sequences are read where they are, stacked results grow by doubling.
#include <algorithm>

#include "runtime/base/checked_math.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

namespace {

bool flag(Items<uint8_t> flags, uint32_t index) { return flags.size() != 0 && flags[index] != 0; }

}  // namespace

// The words of a command that runs a call, as StagePlanner::fill_call() writes them.
struct Session::Impl::CallWords {
  struct Input {
    const std::byte* data;
    DType dtype;
    std::span<const int64_t> shape;
  };
  const uint8_t* condition = nullptr;
  const int64_t* trip_count = nullptr;
  int64_t* extents = nullptr;
  int64_t extent_count = 0;
  std::vector<Input> inputs;
  std::vector<std::span<const unsigned long long>> given;  // per body

  static Result<CallWords> read(const fb::Model& model, const fb::Call& call, const StagePlan& plan, const Step& step) {
    uint32_t at = step.first_word;
    CallWords words;
    const auto tensor = [&](uint32_t index, int64_t least_bytes, std::string_view what) -> Result<std::byte*> {
      const auto room = static_cast<int64_t>(plan.extents[at]);
      auto* const data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(plan.words[at++]));
      if (index == kNone) return static_cast<std::byte*>(nullptr);
      if (room < least_bytes) return invalid_argument(str_cat("the ", what, " is an empty tensor"));
      return data;
    };
    AIPU_ASSIGN_OR_RETURN(std::byte* const condition, tensor(call.condition(), 1, "condition"));
    AIPU_ASSIGN_OR_RETURN(std::byte* const trip_count, tensor(call.trip_count(), 8, "trip count"));
    words.extent_count = static_cast<int64_t>(plan.extents[at] / sizeof(int64_t));
    AIPU_ASSIGN_OR_RETURN(std::byte* const extents, tensor(call.extents(), 0, "extents"));
    words.condition = reinterpret_cast<const uint8_t*>(condition);
    words.trip_count = reinterpret_cast<const int64_t*>(trip_count);
    words.extents = reinterpret_cast<int64_t*>(extents);
    const auto inputs = items(call.inputs());
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      const fb::Tensor& row = *items(model.tensors())[inputs[i]];
      const auto* data = reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(plan.words[at++]));
      static_assert(sizeof(unsigned long long) == sizeof(int64_t));
      const auto* shape = reinterpret_cast<const int64_t*>(plan.words.data() + at);
      words.inputs.push_back({data, static_cast<DType>(row.dtype()), {shape, items(row.shape()).size()}});
      at += items(row.shape()).size();
    }
    const auto given = items(call.given());
    for (uint32_t b = 0; b < given.size(); ++b) {
      const uint32_t count = items(given[b]->expressions()).size();
      words.given.emplace_back(plan.words.data() + at, count);
      at += count;
    }
    return words;
  }
};

Status Session::Impl::run_call(const fb::HostCommand& command, const StagePlan& plan, const Step& step) {
  const fb::Call& call = *items(root.calls())[command.a()];
  CallState& call_state = calls[command.a()];
  AIPU_ASSIGN_OR_RETURN(const CallWords words, CallWords::read(root, call, plan, step));
  for (size_t b = 0; b < words.given.size(); ++b) call_state.bodies[b]->take_given(words.given[b]);
  call_state.results.resize(result_count(command.op(), call_state.bodies[0]->root));
  AIPU_RETURN_IF_ERROR(command.op() == fb::HostOp::kBranch ? run_branch(words, call_state)
                                                           : run_loop_body(call, command.op(), words, call_state));
  return tell_extents(words, call_state);
}

void Session::Impl::take_given(std::span<const unsigned long long> numbers) {
  const auto equal = [](int64_t a, unsigned long long b) { return a == static_cast<int64_t>(b); };
  if (std::equal(given.begin(), given.end(), numbers.begin(), numbers.end(), equal)) return;
  given.assign(numbers.begin(), numbers.end());
  shapes_changed = true;
}

std::span<const std::byte> Session::Impl::output_bytes(uint32_t index) const {
  return {roots[layout.output(index)], static_cast<size_t>(outputs[index].size)};
}

Status Session::Impl::run_body(Impl& body) {
  AIPU_RETURN_IF_ERROR(check_time());
  body.deadline_ns = deadline_ns;
  body.profile_start_ns = profile_start_ns;
  // An iteration takes over the memory of the one before it.
  if (time != nullptr) time->barrier();
  // A caller that is a body itself hands its events on, so that all come in the order of their commands.
  body.events.swap(events);
  Status status = body.begin();
  if (status.ok()) status = body.run_program(0);
  body.events.swap(events);
  return status;
}

Status Session::Impl::run_branch(const CallWords& words, CallState& call_state) {
  uint8_t condition = 0;
  AIPU_RETURN_IF_ERROR(get(&condition, words.condition, 1));
  const bool holds = condition != 0;
  Impl& body = *call_state.bodies[holds ? 0 : 1];
  const size_t first = holds ? 0 : call_state.bodies[0]->inputs.size();
  for (uint32_t i = 0; i < body.inputs.size(); ++i) {
    const CallWords::Input& input = words.inputs[first + i];
    body.take_input(i, input.data, input.shape);
  }
  AIPU_RETURN_IF_ERROR(run_body(body));
  for (uint32_t i = 0; i < call_state.results.size(); ++i) {
    CallResult& result = call_state.results[i];
    result.data = body.output_bytes(i).data();
    result.bytes = body.outputs[i].size;
    result.shape = body.outputs[i].shape;
  }
  return {};
}

// kLoop, kScan.
Status Session::Impl::run_loop_body(const fb::Call& call, fb::HostOp op, const CallWords& words,
                                    CallState& call_state) {
  Impl& body = *call_state.bodies[0];
  const bool scans = op == fb::HostOp::kScan;
  const uint32_t before = first_input(op), states = call.states(), sequences = call.sequences();
  int64_t trips = INT64_MAX;
  if (words.trip_count != nullptr) {
    AIPU_RETURN_IF_ERROR(get(&trips, words.trip_count, sizeof trips));
    trips = std::max<int64_t>(trips, 0);
  }
  if (scans) trips = words.inputs[states].shape[0];
  for (uint32_t i = states; i < states + sequences; ++i) {
    if (words.inputs[i].shape[0] != trips)
      return invalid_argument(
          str_cat("sequence ", i - states, " has ", words.inputs[i].shape[0], " slices, the first one ", trips));
  }
  call_state.condition = 1;
  if (words.condition != nullptr) {
    AIPU_RETURN_IF_ERROR(get(&call_state.condition, words.condition, 1));
    call_state.condition = call_state.condition != 0 ? 1 : 0;
  }
  call_state.iteration = 0;
  call_state.carried.resize(states);
  if (!scans && device == nullptr) {
    body.take_input(0, &call_state.iteration, {});
    body.take_input(1, &call_state.condition, {});
  }
  for (uint32_t i = 0; i < words.inputs.size(); ++i) {
    const bool is_sequence = i >= states && i < states + sequences;
    body.take_input(before + i, words.inputs[i].data, words.inputs[i].shape.subspan(is_sequence ? 1 : 0));
  }
  for (CallResult& result : call_state.results) result.bytes = 0;
  for (int64_t& trip = call_state.iteration; trip < trips && call_state.condition != 0; ++trip) {
    for (uint32_t k = 0; k < sequences; ++k) {
      const CallWords::Input& sequence = words.inputs[states + k];
      Input& slice = body.inputs[before + states + k];
      const int64_t position = flag(items(call.backward_sequences()), k) ? trips - 1 - trip : trip;
      slice.data = sequence.data + position * slice.bytes(sequence.dtype);
    }
    if (!scans && device != nullptr) AIPU_RETURN_IF_ERROR(send_counters(call_state));
    if (time != nullptr && trip > 0) time->decide();
    AIPU_RETURN_IF_ERROR(run_body(body));
    AIPU_RETURN_IF_ERROR(take_iteration(call, op, scans ? trips : 0, call_state));
  }
  return take_loop_results(call, op, call_state);
}

// The first two inputs of a loop's body, where the device can read them.
Status Session::Impl::send_counters(CallState& call_state) {
  constexpr int64_t kApart = 64;
  AIPU_RETURN_IF_ERROR(hold(call_state.counters, 2 * kApart));
  std::byte* const iteration = call_state.counters.data();
  AIPU_RETURN_IF_ERROR(put(iteration, &call_state.iteration, sizeof call_state.iteration));
  AIPU_RETURN_IF_ERROR(put(iteration + kApart, &call_state.condition, sizeof call_state.condition));
  call_state.bodies[0]->take_input(0, iteration, {});
  call_state.bodies[0]->take_input(1, iteration + kApart, {});
  return {};
}

// What an iteration leaves: slices of stacked results, whether there is another, and the states that it begins with.
Status Session::Impl::take_iteration(const fb::Call& call, fb::HostOp op, int64_t trips, CallState& call_state) {
  Impl& body = *call_state.bodies[0];
  for (uint32_t k = call.states(); k < call_state.results.size(); ++k) {
    const bool backward = op == fb::HostOp::kScan && flag(items(call.backward_stacks()), k - call.states());
    AIPU_RETURN_IF_ERROR(
        append_slice(call_state.results[k], body, first_result(op) + k, call_state.iteration, trips, backward));
  }
  if (op == fb::HostOp::kLoop) {
    const auto again = body.output_bytes(0);
    if (again.empty()) return invalid_argument("the condition is an empty tensor");
    AIPU_RETURN_IF_ERROR(get(&call_state.condition, again.data(), 1));
  }
  // What the body has written is its input next time, and it writes to other memory then.
  for (uint32_t k = 0; k < call.states(); ++k) {
    Output& output = body.outputs[first_result(op) + k];
    std::swap(output.own, call_state.carried[k]);
    body.take_input(first_input(op) + k, call_state.carried[k].data(), output.shape);
  }
  return {};
}

Status Session::Impl::take_loop_results(const fb::Call& call, fb::HostOp op, CallState& call_state) {
  const Impl& body = *call_state.bodies[0];
  const int64_t trips = call_state.iteration;
  for (uint32_t k = 0; k < call_state.results.size(); ++k) {
    CallResult& result = call_state.results[k];
    const TensorSpec& spec = body.state.outputs[first_result(op) + k];
    if (k >= call.states()) {
      if (trips == 0) {
        result.shape.assign(1, 0);
        for (const DimSpec& extent : spec.shape) result.shape.push_back(std::max<int64_t>(extent.extent, 0));
      }
      result.shape[0] = trips;
      result.data = result.own.data();
      continue;
    }
    const Input& last = body.inputs[first_input(op) + k];
    result.shape = last.shape;
    result.bytes = last.bytes(spec.dtype);
    result.data = static_cast<const std::byte*>(last.data);
    // The initial value may be gone when the result is fetched.
    if (trips == 0) AIPU_RETURN_IF_ERROR(own_copy(result, result.data, result.bytes));
  }
  return {};
}

Status Session::Impl::own_copy(CallResult& result, const std::byte* data, int64_t bytes) {
  AIPU_RETURN_IF_ERROR(hold(result.own, bytes));
  AIPU_RETURN_IF_ERROR(move(result.own.data(), data, static_cast<size_t>(bytes)));
  result.data = result.own.data();
  return {};
}

// `trips`: how many slices there will be; 0: not known.
Status Session::Impl::append_slice(CallResult& stack, const Impl& body, uint32_t output, int64_t trip, int64_t trips,
                                   bool backward) {
  const Output& slice = body.outputs[output];
  if (trip == 0) {
    stack.shape.assign(1, 0);
    stack.shape.insert(stack.shape.end(), slice.shape.begin(), slice.shape.end());
    if (trips > 0) {
      const auto all = checked_mul(slice.size, trips);
      if (!all) return out_of_range("a stacked result has more bytes than 64 bits can count");
      AIPU_RETURN_IF_ERROR(hold(stack.own, *all));
    }
  } else if (!std::equal(slice.shape.begin(), slice.shape.end(), stack.shape.begin() + 1, stack.shape.end())) {
    return invalid_argument(str_cat("iteration ", trip, " gives a slice ", shape_text(slice.shape),
                                    ", the ones before it were ", shape_text(std::span(stack.shape).subspan(1))));
  }
  const int64_t end = stack.bytes + slice.size;
  if (end > stack.own.size()) {
    TensorBuffer larger;
    AIPU_RETURN_IF_ERROR(hold(larger, std::max(end, 2 * stack.own.size())));
    AIPU_RETURN_IF_ERROR(move(larger.data(), stack.own.data(), static_cast<size_t>(stack.bytes)));
    held_bytes -= stack.own.size();
    std::swap(stack.own, larger);
  }
  const int64_t position = backward ? trips - 1 - trip : trip;
  const auto bytes = body.output_bytes(output);
  AIPU_RETURN_IF_ERROR(move(stack.own.data() + position * slice.size, bytes.data(), bytes.size()));
  stack.bytes = end;
  return {};
}

Status Session::Impl::tell_extents(const CallWords& words, const CallState& call_state) const {
  if (words.extents == nullptr) return {};
  int64_t count = 0;
  for (const CallResult& result : call_state.results) count += static_cast<int64_t>(result.shape.size());
  if (count != words.extent_count)
    return invalid_model(str_cat("the results have ", count, " extents, the model has room for ", words.extent_count));
  int64_t* at = words.extents;
  for (const CallResult& result : call_state.results) {
    AIPU_RETURN_IF_ERROR(put(at, result.shape.data(), result.shape.size() * sizeof(int64_t)));
    at += result.shape.size();
  }
  return {};
}

Status Session::Impl::fetch(const fb::HostCommand& command, const StagePlan& plan, const Step& step) const {
  const CallResult& result = calls[command.a()].results[command.b()];
  const auto room = static_cast<int64_t>(plan.extents[step.first_word]);
  if (room != result.bytes)
    return invalid_argument(str_cat("result ", command.b(), " is ", shape_text(result.shape), ", ", result.bytes,
                                    " bytes, where the model says ", room));
  auto* const to = reinterpret_cast<void*>(static_cast<uintptr_t>(plan.words[step.first_word]));
  return move(to, result.data, static_cast<size_t>(room));
}

int64_t Session::Impl::all_arena_bytes() const {
  int64_t total = 0;
  for (const auto* list : {&arenas, &host_arenas}) {
    for (const TensorBuffer& arena : *list) total += arena.size();
  }
  for (const CallState& call : calls) {
    for (const auto& body : call.bodies) total += body->all_arena_bytes();
  }
  return total;
}

}  // namespace aipu::runtime
