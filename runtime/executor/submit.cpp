// Runs with bindings of their own, which a queue plays (run_queue.h).
#include <cstring>
#include <utility>

#include "runtime/base/guarded.h"
#include "runtime/base/stored_type.h"
#include "runtime/executor/run_queue.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

Result<std::shared_ptr<Run>> Session::submit(std::span<const TensorView> inputs, std::span<const OutputMemory> outputs,
                                             std::function<void(const Run&)> done) try {
  const auto input_specs = model_->inputs();
  const auto output_specs = model_->outputs();
  if (inputs.size() != input_specs.size())
    return invalid_argument(str_cat("the model takes ", input_specs.size(), " inputs, found ", inputs.size()));
  if (!outputs.empty() && outputs.size() != output_specs.size())
    return invalid_argument(str_cat("the model gives ", output_specs.size(), " outputs, found ", outputs.size()));
  const bool any_alignment = impl_ != nullptr && impl_->options.arguments_of_a_kernel;
  auto run = std::make_unique<Run::Impl>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    AIPU_RETURN_IF_ERROR(check_input(input_specs[i], inputs[i], any_alignment));
    run->inputs.push_back({inputs[i].dtype, {inputs[i].shape.begin(), inputs[i].shape.end()}, inputs[i].data});
  }
  run->outputs.resize(output_specs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    AIPU_RETURN_IF_ERROR(check_output_type(output_specs[i], outputs[i].data));
    if (!any_alignment && outputs[i].data != nullptr)
      AIPU_RETURN_IF_ERROR(check_output_memory(output_specs[i], outputs[i].data, outputs[i].bytes));
    run->outputs[i].given = outputs[i];
  }
  run->done = std::move(done);
  return queue_->submit(std::move(run));
} catch (...) {
  return current_exception_status();
}

bool Session::is_idle() const { return queue_->is_idle(); }

Status Session::check_idle() const {
  if (is_idle()) return {};
  return invalid_argument("submitted runs are in flight in this session; wait for them, or use another session");
}

// By the queue's thread, which waits for those who only look; in a child made by fork() whoever had the session may be
// gone.
Status Session::Impl::play(Run::Impl& run) {
  std::unique_lock use(in_use, std::defer_lock);
  if (generation == fork_generation()) {
    use.lock();
  } else if (!use.try_lock()) {
    return used_by_another_thread();
  }
  Status status = guarded([&]() -> Status {
    for (size_t i = 0; i < inputs.size(); ++i)
      AIPU_RETURN_IF_ERROR(bind_input(i, {run.inputs[i].dtype, run.inputs[i].shape, run.inputs[i].data}));
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].data = run.outputs[i].given.data;
      outputs[i].capacity = static_cast<int64_t>(std::min<size_t>(run.outputs[i].given.bytes, INT64_MAX));
    }
    AIPU_RETURN_IF_ERROR(run_bound());
    for (uint32_t i = 0; i < outputs.size(); ++i) {
      Run::Impl::Output& result = run.outputs[i];
      result.dtype = state.outputs[i].dtype;
      result.shape = outputs[i].shape;
      result.data = outputs[i].shown();
      if (result.given.data != nullptr) continue;
      // The memory goes with the result.
      TensorBuffer& memory = result.dtype == DType::kString ? outputs[i].texts : outputs[i].own;
      held_bytes -= memory.size();
      std::swap(result.own, memory);
    }
    return {};
  });
  for (Input& input : inputs) {
    input.data = nullptr;
    input.bound = false;
  }
  for (Output& output : outputs) {
    output.data = nullptr;
    output.known = false;
  }
  return status;
}

Status play_in_sandbox(sandbox::Session& session, Run::Impl& run) {
  for (size_t i = 0; i < run.inputs.size(); ++i)
    AIPU_RETURN_IF_ERROR(session.bind_input(i, {run.inputs[i].dtype, run.inputs[i].shape, run.inputs[i].data}));
  for (size_t i = 0; i < run.outputs.size(); ++i)
    AIPU_RETURN_IF_ERROR(session.bind_output(i, run.outputs[i].given.data, run.outputs[i].given.bytes));
  Status status = session.run();
  for (size_t i = 0; i < run.outputs.size() && status.ok(); ++i) {
    AIPU_ASSIGN_OR_RETURN(const TensorView view, session.output(i));
    Run::Impl::Output& result = run.outputs[i];
    result.dtype = view.dtype;
    result.shape.assign(view.shape.begin(), view.shape.end());
    result.data = view.data;
    if (result.given.data != nullptr) continue;
    const int64_t bytes = tensor_bytes(view.dtype, view.shape).value_or(0);
    AIPU_RETURN_IF_ERROR(result.own.reserve(bytes, nullptr));
    if (bytes > 0) std::memcpy(result.own.data(), view.data, static_cast<size_t>(bytes));
    result.data = result.own.data();
  }
  for (size_t i = 0; i < run.outputs.size(); ++i) AIPU_RETURN_IF_ERROR(session.bind_output(i, nullptr, 0));
  return status;
}

}  // namespace aipu::runtime
