// Pools, sessions and submitted runs of the C API.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/stored_type.h"
#include "runtime/executor/c_api_parts.h"

using aipu::DType;
using aipu::Status;
using aipu::runtime::Model;
using aipu::runtime::Session;
using namespace aipu::runtime::c_api;

namespace {

aipu_tensor tensor_of(const aipu::runtime::TensorView& view) {
  auto size = static_cast<size_t>(aipu::tensor_bytes(view.dtype, view.shape).value_or(0));
  if (view.dtype == DType::kString) size = size / aipu::dtype_bytes(DType::kString) * sizeof(aipu_string);
  return {static_cast<aipu_dtype>(view.dtype), static_cast<uint32_t>(view.shape.size()), view.shape.data(), view.data,
          size};
}

aipu::Result<aipu::runtime::SessionOptions> read_options(const aipu_session_options* given) {
  constexpr size_t kFirstVersion =
      offsetof(aipu_session_options, plan_time_limit_seconds) + sizeof given->plan_time_limit_seconds;
  AIPU_ASSIGN_OR_RETURN(const auto known, known_options(given, kFirstVersion, "aipu_session_options"));
  AIPU_RETURN_IF_ERROR(
      check_limits({static_cast<double>(known.threads), static_cast<double>(known.plan_cache),
                    static_cast<double>(known.run_memory_limit_bytes), known.run_time_limit_seconds,
                    static_cast<double>(known.plan_memory_limit_bytes), known.plan_time_limit_seconds}));
  aipu::runtime::SessionOptions options;
  options.threads = known.threads;
  options.memory_limit_bytes = known.run_memory_limit_bytes;
  options.run_seconds = known.run_time_limit_seconds;
  options.plan_budget = {known.plan_memory_limit_bytes, known.plan_time_limit_seconds};
  options.overlap = known.overlap != 0;
  options.profile = known.profile != 0;
  options.cycles = known.cycles != 0;
  if (known.pool != nullptr) options.pool = known.pool->pool;
  if (known.plan_cache != 0) options.plan_cache = known.plan_cache;
  if (known.counter_count > AIPU_MOST_COUNTERS)
    return aipu::invalid_argument(
        aipu::str_cat("counter_count is ", known.counter_count, ", of at most ", AIPU_MOST_COUNTERS));
  if (known.counter_count > 0) AIPU_RETURN_IF_ERROR(require({{"read_counters", (const void*)known.read_counters}}));
  options.counters = {known.counter_count, known.counter_argument, known.read_counters};
  if (known.inspect != nullptr) {
    options.inspect = [=](const aipu::runtime::WrittenTensor& tensor) {
      const aipu_tensor value = tensor_of(tensor.value);
      known.inspect(known.inspect_argument, std::string(tensor.name).c_str(), std::string(tensor.origin).c_str(),
                    &value);
    };
  }
  return options;
}

Status tell(const aipu::Result<aipu::runtime::TensorView>& output, aipu_tensor* tensor) {
  if (!output.ok()) return output.status();
  *tensor = tensor_of(*output);
  return {};
}

}  // namespace

extern "C" {

aipu_status aipu_pool_create(int threads, aipu_pool** pool) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"pool", pool}}));
    if (threads < 0) return aipu::invalid_argument(aipu::str_cat("argument 'threads' is ", threads));
    *pool = new aipu_pool{aipu::runtime::make_worker_pool(threads)};
    return {};
  });
}

void aipu_pool_release(aipu_pool* pool) { delete pool; }

aipu_status aipu_session_create(aipu_model* model, int threads, aipu_session** session) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"model", model}, {"session", session}}));
    if (threads < 0) return aipu::invalid_argument(aipu::str_cat("argument 'threads' is ", threads));
    aipu::runtime::SessionOptions options;
    options.threads = threads;
    AIPU_ASSIGN_OR_RETURN(auto created, Session::create(model->model, options));
    *session = new aipu_session{std::move(created), false, false, {}};
    return {};
  });
}

aipu_status aipu_session_create_with(aipu_model* model, const aipu_session_options* options, aipu_session** session) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"model", model}, {"session", session}}));
    AIPU_ASSIGN_OR_RETURN(const auto session_options, read_options(options));
    AIPU_ASSIGN_OR_RETURN(auto created, Session::create(model->model, session_options));
    *session = new aipu_session{std::move(created), session_options.profile, session_options.cycles, {}};
    return {};
  });
}

void aipu_session_release(aipu_session* session) { delete session; }

int aipu_session_threads(const aipu_session* session) { return session != nullptr ? session->session->threads() : 0; }
int64_t aipu_session_arena_bytes(const aipu_session* session) {
  return session != nullptr ? session->session->arena_bytes() : 0;
}
int aipu_session_is_idle(const aipu_session* session) {
  return session != nullptr && session->session->is_idle() ? 1 : 0;
}

aipu_status aipu_session_bind_input(aipu_session* session, uint32_t index, aipu_dtype dtype, const int64_t* shape,
                                    uint32_t rank, const void* data) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}}));
    if (rank > 0) AIPU_RETURN_IF_ERROR(require({{"shape", shape}}));
    return session->session->bind_input(index, {static_cast<DType>(dtype), {shape, rank}, data});
  });
}

aipu_status aipu_session_bind_output(aipu_session* session, uint32_t index, void* data, size_t size_bytes) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}}));
    return session->session->bind_output(index, data, size_bytes);
  });
}

aipu_status aipu_session_prepare(aipu_session* session) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}}));
    return session->session->prepare();
  });
}

aipu_status aipu_session_run(aipu_session* session) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}}));
    return session->session->run();
  });
}

aipu_status aipu_session_output(aipu_session* session, uint32_t index, aipu_tensor* tensor) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}, {"tensor", tensor}}));
    return tell(session->session->output(index), tensor);
  });
}

aipu_status aipu_session_profile(aipu_session* session, uint32_t* count) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}, {"count", count}}));
    AIPU_RETURN_IF_ERROR(session->check_profile());
    session->rows.clear();
    for (Session::ProfileRow& row : session->session->profile()) {
      std::string engine(row.engine), name(row.name), origin(row.origin);
      session->rows.push_back({std::move(row), std::move(engine), std::move(name), std::move(origin)});
    }
    *count = static_cast<uint32_t>(session->rows.size());
    return {};
  });
}

aipu_status aipu_session_profile_row(const aipu_session* session, uint32_t index, aipu_profile_row* row) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}, {"row", row}}));
    if (index >= session->rows.size())
      return aipu::invalid_argument(aipu::str_cat("row ", index, " of ", session->rows.size()));
    constexpr size_t kFirstBytes = offsetof(aipu_profile_row, cycles) + sizeof row->cycles;  // when the struct was new
    if (row->struct_bytes < kFirstBytes) {
      return aipu::invalid_argument(aipu::str_cat("the struct_bytes of aipu_profile_row are ", row->struct_bytes,
                                                  "; set them to sizeof(aipu_profile_row)"));
    }
    const aipu_session::Row& one = session->rows[index];
    const aipu_profile_row known = {row->struct_bytes,     one.engine.c_str(),
                                    one.name.c_str(),      one.origin.c_str(),
                                    one.row.command,       one.row.sample,
                                    one.row.lane,          one.row.threads,
                                    one.row.start_ns,      one.row.duration_ns,
                                    one.row.operations,    one.row.bytes,
                                    one.row.start_cycles,  one.row.cycles,
                                    one.row.lanes,         static_cast<uint32_t>(one.row.counts.size()),
                                    one.row.counts.data(), static_cast<uint32_t>(one.row.waits.size()),
                                    one.row.waits.data(),  one.row.compute_cycles,
                                    one.row.dma_cycles};
    const size_t bytes = row->struct_bytes;
    std::memset(row, 0, bytes);  // what a caller of a later version knows is not told here
    std::memcpy(row, &known, std::min(bytes, sizeof known));
    return {};
  });
}

aipu_status aipu_session_clear_profile(aipu_session* session) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}}));
    AIPU_RETURN_IF_ERROR(session->check_profile());
    session->session->clear_profile();
    return {};
  });
}

aipu_status aipu_session_write_profile(const aipu_session* session, const char* path) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}, {"path", path}}));
    AIPU_RETURN_IF_ERROR(session->check_profile());
    return session->session->write_profile(path);
  });
}

aipu_status aipu_session_cycles(const aipu_session* session, int64_t* cycles) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}, {"cycles", cycles}}));
    if (!session->counts_cycles)
      return aipu::invalid_argument("the session keeps no virtual time: set aipu_session_options.cycles");
    const auto found = session->session->cycles();
    if (!found) {
      const Model& model = session->session->model();
      return aipu::not_found(aipu::str_cat("no cycles are known: no run has succeeded, or back end '", model.backend(),
                                           "' has no model of the time that target ", model.target(), " takes"));
    }
    *cycles = *found;
    return {};
  });
}

aipu_status aipu_session_run_async(aipu_session* session, const aipu_run_options* options, aipu_run** run) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"session", session}, {"options", options}}));
    AIPU_ASSIGN_OR_RETURN(const auto known, known_options(options, sizeof(aipu_run_options), "aipu_run_options"));
    if (known.input_count > 0) AIPU_RETURN_IF_ERROR(require({{"inputs", known.inputs}}));
    if (known.output_count > 0) AIPU_RETURN_IF_ERROR(require({{"outputs", known.outputs}}));
    std::vector<aipu::runtime::TensorView> inputs;
    for (uint32_t i = 0; i < known.input_count; ++i) {
      const aipu_tensor& input = known.inputs[i];
      if (input.rank > 0) AIPU_RETURN_IF_ERROR(require({{"shape", input.shape}}));
      inputs.push_back({static_cast<DType>(input.dtype), {input.shape, input.rank}, input.data});
    }
    std::vector<aipu::runtime::OutputMemory> outputs;
    for (uint32_t i = 0; i < known.output_count; ++i)
      outputs.push_back({known.outputs[i].data, known.outputs[i].size_bytes});
    std::function<void(const aipu::runtime::Run&)> done;
    if (known.done != nullptr) {
      done = [call = known.done, argument = known.argument](const aipu::runtime::Run& ended) {
        const aipu_run handle{ended.shared_from_this()};
        call(argument, &handle);
      };
    }
    auto handle = run == nullptr ? nullptr : std::make_unique<aipu_run>();
    AIPU_ASSIGN_OR_RETURN(auto submitted, session->session->submit(inputs, outputs, std::move(done)));
    if (run == nullptr) return {};
    handle->run = std::move(submitted);
    *run = handle.release();
    return {};
  });
}

int aipu_run_is_done(const aipu_run* run) { return run != nullptr && run->run->is_done() ? 1 : 0; }

aipu_status aipu_run_wait(const aipu_run* run) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"run", run}}));
    return run->run->wait();
  });
}

aipu_status aipu_run_wait_for(const aipu_run* run, double seconds, int* done) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"run", run}, {"done", done}}));
    *done = run->run->wait_for(seconds) ? 1 : 0;
    return *done != 0 ? run->run->wait() : Status();
  });
}

aipu_status aipu_run_output(const aipu_run* run, uint32_t index, aipu_tensor* tensor) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"run", run}, {"tensor", tensor}}));
    return tell(run->run->output(index), tensor);
  });
}

void aipu_run_release(aipu_run* run) { delete run; }

}  // extern "C"
