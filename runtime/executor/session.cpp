#include "runtime/session.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>

#include "runtime/base/checked_math.h"
#include "runtime/base/guarded.h"
#include "runtime/base/meter.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {
namespace {

// Kernels get an address for an empty tensor too.
alignas(64) std::byte nothing[64];

}  // namespace

// Everything before the first command.
Status Session::Impl::begin() {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].bound)
      return invalid_argument(
          str_cat("input '", state.inputs[i].name, "' has no value; the model takes ", state.inputs[i].text()));
  }
  if (shapes_changed) {
    for (Output& output : outputs) output.known = false;
    std::fill(active.begin(), active.end(), nullptr);
    AIPU_RETURN_IF_ERROR(bind_shapes());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    // An output whose size depends on data is unknown again until it has been computed.
    if (state.tables.tensor_stage[items(root.outputs())[static_cast<uint32_t>(i)]] > 0) outputs[i].known = false;
  }
  for (const uint32_t s : run_symbols) symbols[s] = {};
  if (own_strings != nullptr) AIPU_RETURN_IF_ERROR(number_inputs());
  if (stages_pieces()) AIPU_RETURN_IF_ERROR(stage_pieces());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const void* data = inputs[i].memory() == nullptr ? nothing : inputs[i].memory();
    const auto input = static_cast<uint32_t>(i);
    roots[layout.input(input)] = roots[layout.host_input(input)] = static_cast<std::byte*>(const_cast<void*>(data));
    if (!is_staged_input(input)) continue;
    const int64_t bytes = inputs[i].bytes(state.inputs[i].dtype);
    const bool has_piece = stages_pieces() && bytes > 0;
    AIPU_RETURN_IF_ERROR(hold(staged_inputs[i], has_piece ? 0 : bytes));
    roots[layout.input(input)] = has_piece ? on_piece(data) : staged_inputs[i].data();
  }
  current_stage = 0;
  bound_at = 0;
  stages_evaluated = shapes_changed ? 1 : 0;  // by bind_shapes()
  for (uint32_t stage = 1; stage < active.size(); ++stage) active[stage] = nullptr;
  AIPU_RETURN_IF_ERROR(activate(0));
  shapes_changed = false;
  return {};
}

// Each expression is evaluated once in a run, in the stage that gives the last of its symbols a value; not at all where
// all plans are known.
const ExpressionValues& Session::Impl::values_until(uint32_t stage) {
  if (stages_evaluated == 0) values.start(root);
  for (; stages_evaluated <= stage; ++stages_evaluated)
    values.evaluate(state.tables.stage_expressions[stages_evaluated], symbols);
  return values;
}

// Finds or makes the plan of a stage for the present values of the symbols, and has memory for it.
Status Session::Impl::activate(uint32_t stage) {
  auto& cached = plans[stage];
  const auto last = std::find_if(active.rend() - stage, active.rend(), [](const StagePlan* plan) { return plan; });
  const uint64_t after = last == active.rend() ? 0 : (*last)->id;
  const auto& known = state.tables.stage_symbols[stage];  // what was known before is what plan `after` is for
  const auto fits = [&](const std::unique_ptr<StagePlan>& plan) {
    return plan->after == after &&
           std::equal(known.begin(), known.end(), plan->symbols.begin(), plan->symbols.end(),
                      [&](uint32_t s, const SymbolValue& value) { return symbols[s] == value; });
  };
  const auto found = std::find_if(cached.begin(), cached.end(), fits);
  if (found != cached.end()) {
    std::rotate(cached.begin(), found, found + 1);
  } else {
    Meter meter("the plan for these shapes",
                options.plan_budget.bytes > 0 ? options.plan_budget.bytes : kUntrustedBytes,
                "--plan-memory-limit, SessionOptions::plan_budget", options.plan_budget.seconds,
                "--plan-time-limit, SessionOptions::plan_budget");
    AIPU_ASSIGN_OR_RETURN(std::unique_ptr<StagePlan> plan,
                          make_stage_plan(state, stage, symbols, values_until(stage), std::span(active).first(stage),
                                          options.memory_limit_bytes, static_cast<uint32_t>(lanes.size()), meter));
    plan->id = ++last_plan_id;
    plan->after = after;
    if (cached.size() >= static_cast<size_t>(options.plan_cache)) {
      held_bytes -= cached.back()->bytes;
      cached.pop_back();
    }
    AIPU_RETURN_IF_ERROR(hold_more(plan->bytes));
    cached.insert(cached.begin(), std::move(plan));
    held_bytes += cached.front()->bytes;
  }
  StagePlan& plan = *cached.front();
  active[stage] = &plan;
  current_stage = stage;
  AIPU_RETURN_IF_ERROR(hold(arenas[stage], plan.arena_bytes));
  roots[layout.arena(stage)] = arenas[stage].data();
  if (plan.host_arena_bytes > 0) {
    AIPU_RETURN_IF_ERROR(hold(host_arenas[stage], plan.host_arena_bytes, nullptr));
    roots[layout.host_arena(stage)] = host_arenas[stage].data();
  }
  for (const auto& [index, size, shape] : plan.outputs) {
    Output& output = outputs[index];
    output.shape.assign(shape.begin(), shape.end());
    output.size = size;
    output.known = true;
    if (output.data != nullptr) {
      AIPU_RETURN_IF_ERROR(check_capacity(state.outputs[index], output.shape, size, output.capacity));
      if (!options.arguments_of_a_kernel) AIPU_RETURN_IF_ERROR(check_overlaps(index));
      output.result = static_cast<std::byte*>(output.data);
    } else {
      AIPU_RETURN_IF_ERROR(hold(output.own, size, is_staged() ? nullptr : device));
      output.result = output.own.data();
    }
    const bool has_piece = stages_pieces() && output.data != nullptr && size > 0;
    const bool is_elsewhere = is_staged_output(index);
    if (is_elsewhere) AIPU_RETURN_IF_ERROR(hold(output.staged, has_piece ? 0 : size));
    roots[layout.output(index)] = has_piece      ? on_piece(output.data)
                                  : is_elsewhere ? output.staged.data()
                                                 : output.result;
  }
  plan.patch(roots);
  return {};
}

Status Session::Impl::hold_more(int64_t bytes) const {
  if (bytes <= options.memory_limit_bytes - held_bytes) return {};
  return out_of_range(str_cat("this run needs ", checked_add(held_bytes, bytes).value_or(INT64_MAX),
                              " bytes of memory; the limit is ", options.memory_limit_bytes,
                              " (--run-memory-limit, SessionOptions::memory_limit_bytes)"));
}

// Has at least so much memory in the buffer.
Status Session::Impl::hold(TensorBuffer& buffer, int64_t bytes, Device* where) {
  const int64_t before = buffer.size();
  if (bytes > before) AIPU_RETURN_IF_ERROR(hold_more(bytes - before));
  Status status = buffer.reserve(bytes, where);
  held_bytes += buffer.size() - before;
  return status;
}

Status Session::Impl::check_time() const {
  if (deadline_ns == Meter::kNoLimit || steady_now_ns() < deadline_ns) return {};
  return out_of_range(str_cat("the run takes longer than ", Meter::text_of(options.run_seconds),
                              " s; raise the limit (--run-time-limit, SessionOptions::run_seconds) if it is to go on"));
}

Status Session::prepare() try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->prepare();
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  return use ? impl_->begin() : used_by_another_thread();
} catch (...) {
  return current_exception_status();
}

// Needs `in_use`.
Status Session::Impl::run_bound() {
  const auto exclusive = pool->acquire();
  std::unique_lock<WorkerPool::Turn> copies;
  if (beside != nullptr) copies = beside->acquire();
  if (!pool->is_complete() || (beside != nullptr && !beside->is_complete()))
    return out_of_range("the session's threads are gone with fork(), and the system has no others for this process");
  pool->wake();
  if (beside != nullptr) beside->wake();
  if (options.profile && profile_start_ns == 0) profile_start_ns = steady_now_ns();
  deadline_ns = options.run_seconds > 0 && options.run_seconds < 9e9
                    ? steady_now_ns() + static_cast<int64_t>(options.run_seconds * 1e9)
                    : Meter::kNoLimit;
  last_cycles.reset();
  AIPU_RETURN_IF_ERROR(begin());
  if (time != nullptr) time->begin_run();
  AIPU_RETURN_IF_ERROR(run_program(0));
  if (time != nullptr) last_cycles = time->makespan();
  return own_strings != nullptr ? tell_texts() : Status();
}

Status Session::run() try {
  refill_error_reserve();
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->run();
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  return use ? impl_->run_bound() : used_by_another_thread();
} catch (...) {
  return current_exception_status();
}

int64_t Session::arena_bytes() const {
  if (sandbox_) return 0;
  const std::lock_guard use(impl_->in_use);
  return impl_->all_arena_bytes();
}

std::vector<Session::ProfileRow> Session::profile() const {
  if (sandbox_) return {};
  const std::lock_guard use(impl_->in_use);
  return profile_rows(impl_->events);
}

std::optional<int64_t> Session::cycles() const {
  if (sandbox_) return std::nullopt;
  const std::lock_guard use(impl_->in_use);
  return impl_->last_cycles;
}

void Session::clear_profile() {
  if (sandbox_) return;
  const std::lock_guard use(impl_->in_use);
  impl_->events.clear();
  impl_->profile_start_ns = 0;
}

Status Session::write_profile(const std::string& path) const try {
  if (sandbox_) return unsupported("there are no profiles from within a sandbox");
  return write_trace(path, model_->state(), profile());
} catch (...) {
  return current_exception_status();
}

}  // namespace aipu::runtime
