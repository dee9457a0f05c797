#include "runtime/aipu.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/guarded.h"
#include "runtime/base/stored_type.h"
#include "runtime/model.h"
#include "runtime/session.h"

using aipu::DType;
using aipu::ErrorCode;
using aipu::Status;
using aipu::runtime::Model;
using aipu::runtime::Session;
using aipu::runtime::TensorSpec;

static_assert(AIPU_FLOAT64 == static_cast<int>(DType::kF64) && AIPU_BOOL == static_cast<int>(DType::kBool) &&
              AIPU_FLOAT16 == static_cast<int>(DType::kF16) &&
              AIPU_FLOAT8E4M3FN == static_cast<int>(DType::kF8E4M3FN) && AIPU_INT4 == static_cast<int>(DType::kI4) &&
              AIPU_COMPLEX64 == static_cast<int>(DType::kC64) && AIPU_STRING == static_cast<int>(DType::kString));
static_assert(sizeof(aipu_string) == sizeof(aipu::runtime::StringView) &&
              offsetof(aipu_string, size) == offsetof(aipu::runtime::StringView, size));
static_assert(AIPU_INTERNAL == static_cast<int>(ErrorCode::kInternal) && AIPU_IO == static_cast<int>(ErrorCode::kIo));

struct aipu_model {
  std::atomic<int> references{1};
  std::shared_ptr<const Model> model;
  std::vector<std::vector<int64_t>> input_shapes, output_shapes;
};

struct aipu_session {
  std::unique_ptr<Session> session;
  bool keeps_profile = false;
  bool counts_cycles = false;
  // What aipu_session_profile() took, with texts that end with a zero.
  struct Row {
    Session::ProfileRow row;
    std::string engine, name, origin;
  };
  std::vector<Row> rows;

  Status check_profile() const {
    if (keeps_profile) return {};
    return aipu::invalid_argument("the session keeps no profile: set aipu_session_options.profile");
  }
};

struct aipu_run {
  std::shared_ptr<const aipu::runtime::Run> run;
};

namespace {

// The message of the last error of each thread. A pointer and no array: thread-local memory of this library comes out
// of the little that a process keeps for libraries loaded late (running_kernel.h has the initial-exec model).
thread_local const char* last_error = "";
constexpr size_t kMessageBytes = 4096;

// This thread's memory for messages, freed when it ends; null if there is none.
char* message_buffer() noexcept {
  struct Key {
    Key() : exists(::pthread_key_create(&key, std::free) == 0) {}
    pthread_key_t key = {};
    bool exists;
  };
  static const Key key;
  if (!key.exists) return nullptr;
  if (void* known = ::pthread_getspecific(key.key)) return static_cast<char*>(known);
  void* fresh = std::malloc(kMessageBytes);
  if (fresh != nullptr && ::pthread_setspecific(key.key, fresh) != 0) {
    std::free(fresh);
    return nullptr;
  }
  return static_cast<char*>(fresh);
}

aipu_status finish(const Status& status) noexcept {
  if (status.ok()) return AIPU_OK;
  char* const buffer = message_buffer();
  if (buffer != nullptr) std::snprintf(buffer, kMessageBytes, "%s", status.message().c_str());
  last_error = buffer != nullptr ? buffer : "out of memory";
  return static_cast<aipu_status>(status.code());
}

template <typename Body>
aipu_status guarded(Body&& body) noexcept {
  return finish(aipu::guarded(std::forward<Body>(body)));
}

std::vector<std::vector<int64_t>> shapes_of(std::span<const TensorSpec> specs) {
  std::vector<std::vector<int64_t>> shapes;
  for (const TensorSpec& spec : specs) {
    shapes.emplace_back();
    for (const auto& dim : spec.shape) shapes.back().push_back(dim.extent);
  }
  return shapes;
}

Status describe(std::span<const TensorSpec> specs, const std::vector<std::vector<int64_t>>& shapes, uint32_t index,
                aipu_tensor_info* info) {
  if (index >= specs.size()) return aipu::invalid_argument(aipu::str_cat("tensor ", index, " of ", specs.size()));
  *info = {specs[index].name.c_str(), static_cast<aipu_dtype>(specs[index].dtype),
           static_cast<uint32_t>(shapes[index].size()), shapes[index].data()};
  return {};
}

const char* symbol_of(std::span<const TensorSpec> specs, uint32_t index, uint32_t axis) {
  return index < specs.size() && axis < specs[index].shape.size() ? specs[index].shape[axis].symbol.c_str() : "";
}

Status adopt(aipu::Result<std::shared_ptr<const Model>> loaded, aipu_model** result) {
  if (!loaded.ok()) return std::move(loaded).status();
  auto handle = std::make_unique<aipu_model>();
  handle->model = std::move(loaded).value();
  handle->input_shapes = shapes_of(handle->model->inputs());
  handle->output_shapes = shapes_of(handle->model->outputs());
  *result = handle.release();
  return {};
}

aipu::runtime::LoadOptions options_for(const char* backend) {
  aipu::runtime::LoadOptions options;
  if (backend != nullptr) options.backend = backend;
  return options;
}

struct Argument {
  const char* name;
  const void* value;
};

Status require(std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.value == nullptr)
      return aipu::invalid_argument(aipu::str_cat("argument '", argument.name, "' is null"));
  }
  return {};
}

// The options that a caller has, whose version may know fewer fields or more; null: all zero. The first version had
// `first_version_bytes`.
template <typename Options>
aipu::Result<Options> known_options(const Options* given, size_t first_version_bytes, std::string_view type) {
  Options options = {};
  if (given == nullptr) return options;
  if (given->struct_bytes < first_version_bytes) {
    return aipu::invalid_argument(
        aipu::str_cat("the struct_bytes of ", type, " are ", given->struct_bytes, "; set them to sizeof(", type, ")"));
  }
  // What a caller has that was compiled for a later version is not known here: it must say nothing.
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof options; i < given->struct_bytes; ++i) {
    if (bytes[i] != 0)
      return aipu::unsupported(aipu::str_cat(type, " asks for something that this runtime does not know"));
  }
  std::memcpy(&options, given, std::min(given->struct_bytes, sizeof options));
  return options;
}

// Limits of 0 are none.
Status check_limits(std::initializer_list<double> limits) {
  for (const double limit : limits) {
    if (!(limit >= 0)) return aipu::invalid_argument(aipu::str_cat("a limit is ", limit));
  }
  return {};
}

aipu::Result<aipu::runtime::LoadOptions> read_options(const aipu_load_options* given) {
  constexpr size_t kFirstVersion = offsetof(aipu_load_options, verify_all) + sizeof given->verify_all;
  AIPU_ASSIGN_OR_RETURN(const auto known, known_options(given, kFirstVersion, "aipu_load_options"));
  AIPU_RETURN_IF_ERROR(check_limits({static_cast<double>(known.memory_limit_bytes), known.time_limit_seconds}));
  aipu::runtime::LoadOptions options = options_for(known.backend);
  options.copy = known.copy != 0;
  options.verify_all = known.verify_all != 0;
  options.budget = {known.memory_limit_bytes, known.time_limit_seconds};
  options.sandbox = known.sandbox != 0;
  if (known.entry != nullptr) options.entry = known.entry;
  if (known.trusted_key != nullptr) {
    options.trusted_key = known.trusted_key;
    if (options.trusted_key.empty())
      return aipu::invalid_argument("trusted_key: an empty text is no key; null asks for no signature");
  }
  return options;
}

aipu::Result<aipu::runtime::SessionOptions> read_options(const aipu_session_options* given) {
  constexpr size_t kFirstVersion =
      offsetof(aipu_session_options, plan_time_limit_seconds) + sizeof given->plan_time_limit_seconds;
  AIPU_ASSIGN_OR_RETURN(const auto known, known_options(given, kFirstVersion, "aipu_session_options"));
  AIPU_RETURN_IF_ERROR(
      check_limits({static_cast<double>(known.threads), static_cast<double>(known.run_memory_limit_bytes),
                    known.run_time_limit_seconds, static_cast<double>(known.plan_memory_limit_bytes),
                    known.plan_time_limit_seconds}));
  aipu::runtime::SessionOptions options;
  options.threads = known.threads;
  options.memory_limit_bytes = known.run_memory_limit_bytes;
  options.run_seconds = known.run_time_limit_seconds;
  options.plan_budget = {known.plan_memory_limit_bytes, known.plan_time_limit_seconds};
  options.overlap = known.overlap != 0;
  options.profile = known.profile != 0;
  options.cycles = known.cycles != 0;
  return options;
}

Status tell(const aipu::Result<aipu::runtime::TensorView>& output, aipu_tensor* tensor) {
  if (!output.ok()) return output.status();
  auto size = static_cast<size_t>(aipu::tensor_bytes(output->dtype, output->shape).value_or(0));
  if (output->dtype == DType::kString) size = size / aipu::dtype_bytes(DType::kString) * sizeof(aipu_string);
  *tensor = {static_cast<aipu_dtype>(output->dtype), static_cast<uint32_t>(output->shape.size()), output->shape.data(),
             output->data, size};
  return {};
}

}  // namespace

extern "C" {

const char* aipu_last_error(void) { return last_error; }

void aipu_enable_crash_reports(void) { aipu::runtime::enable_crash_reports(); }

aipu_status aipu_model_load(const char* path, const char* backend, aipu_model** model) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"path", path}, {"model", model}}));
    return adopt(Model::load(path, options_for(backend)), model);
  });
}

aipu_status aipu_model_load_with(const char* path, const aipu_load_options* options, aipu_model** model) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"path", path}, {"model", model}}));
    AIPU_ASSIGN_OR_RETURN(const auto load_options, read_options(options));
    return adopt(Model::load(path, load_options), model);
  });
}

aipu_status aipu_model_load_bytes(const void* bytes, size_t size, const char* backend, aipu_model** model) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"bytes", bytes}, {"model", model}}));
    return adopt(Model::from_bytes({static_cast<const std::byte*>(bytes), size}, options_for(backend)), model);
  });
}

void aipu_model_retain(aipu_model* model) {
  if (model != nullptr) model->references.fetch_add(1, std::memory_order_relaxed);
}

void aipu_model_release(aipu_model* model) {
  if (model != nullptr && model->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete model;
}

uint32_t aipu_model_entry_count(const aipu_model* model) {
  return model != nullptr ? static_cast<uint32_t>(model->model->entries().size()) : 0;
}

const char* aipu_model_entry_name(const aipu_model* model, uint32_t index) {
  return index < aipu_model_entry_count(model) ? model->model->entries()[index].c_str() : "";
}

aipu_status aipu_model_entry_open(const aipu_model* model, const char* entry, aipu_model** opened) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"model", model}, {"opened", opened}}));
    return adopt(model->model->open(entry != nullptr ? entry : ""), opened);
  });
}

uint32_t aipu_model_input_count(const aipu_model* model) {
  return guarded([&] {
           return require({{"model", model}});
         }) == AIPU_OK
             ? static_cast<uint32_t>(model->input_shapes.size())
             : 0;
}
uint32_t aipu_model_output_count(const aipu_model* model) {
  return guarded([&] {
           return require({{"model", model}});
         }) == AIPU_OK
             ? static_cast<uint32_t>(model->output_shapes.size())
             : 0;
}

aipu_status aipu_model_input(const aipu_model* model, uint32_t index, aipu_tensor_info* info) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"model", model}, {"info", info}}));
    return describe(model->model->inputs(), model->input_shapes, index, info);
  });
}

aipu_status aipu_model_output(const aipu_model* model, uint32_t index, aipu_tensor_info* info) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"model", model}, {"info", info}}));
    return describe(model->model->outputs(), model->output_shapes, index, info);
  });
}

const char* aipu_model_input_symbol(const aipu_model* model, uint32_t index, uint32_t axis) {
  return model != nullptr ? symbol_of(model->model->inputs(), index, axis) : "";
}
const char* aipu_model_output_symbol(const aipu_model* model, uint32_t index, uint32_t axis) {
  return model != nullptr ? symbol_of(model->model->outputs(), index, axis) : "";
}

const char* aipu_model_name(const aipu_model* model) { return model != nullptr ? model->model->name().c_str() : ""; }
const char* aipu_model_target(const aipu_model* model) {
  return model != nullptr ? model->model->target().c_str() : "";
}
const char* aipu_model_backend(const aipu_model* model) {
  return model != nullptr ? model->model->backend().c_str() : "";
}

uint32_t aipu_model_list_count(const aipu_model* model) {
  const bool given = guarded([&] { return require({{"model", model}}); }) == AIPU_OK;
  return given ? static_cast<uint32_t>(model->model->description().lists.size()) : 0;
}

aipu_status aipu_model_list(const aipu_model* model, uint32_t index, aipu_list_info* info) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"model", model}, {"info", info}}));
    const auto& lists = model->model->description().lists;
    if (index >= lists.size()) return aipu::not_found(aipu::str_cat("there are ", lists.size(), " lists"));
    const auto& list = lists[index];
    *info = {list.name.c_str(), list.is_input, static_cast<aipu_list_kind>(list.kind),
             list.absent,       list.first,    list.count};
    return {};
  });
}

const char* aipu_model_description(const aipu_model* model) {
  const bool given = guarded([&] { return require({{"model", model}}); }) == AIPU_OK;
  return given ? model->model->description().text.c_str() : "";
}

uint32_t aipu_model_metadata_count(const aipu_model* model) {
  const bool given = guarded([&] { return require({{"model", model}}); }) == AIPU_OK;
  return given ? static_cast<uint32_t>(model->model->description().metadata.size()) : 0;
}

aipu_status aipu_model_metadata(const aipu_model* model, uint32_t index, const char** key, const char** value) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"model", model}, {"key", key}, {"value", value}}));
    const auto& entries = model->model->description().metadata;
    if (index >= entries.size()) return aipu::not_found(aipu::str_cat("there are ", entries.size(), " entries"));
    *key = entries[index].first.c_str();
    *value = entries[index].second.c_str();
    return {};
  });
}

const char* aipu_model_warning(const aipu_model* model) {
  return guarded([&] { return require({{"model", model}}); }) == AIPU_OK ? model->model->warning().c_str() : "";
}

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
    const aipu_profile_row known = {
        row->struct_bytes,    one.engine.c_str(),  one.name.c_str(),       one.origin.c_str(),
        one.row.command,      one.row.sample,      one.row.lane,           one.row.threads,
        one.row.start_ns,     one.row.duration_ns, one.row.operations,     one.row.bytes,
        one.row.start_cycles, one.row.cycles,      one.row.compute_cycles, one.row.dma_cycles};
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
