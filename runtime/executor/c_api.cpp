#include "runtime/aipu.h"

#include <pthread.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/c_api_parts.h"

using aipu::DType;
using aipu::ErrorCode;
using aipu::Status;
using aipu::runtime::Model;
using aipu::runtime::TensorSpec;

static_assert(AIPU_FLOAT64 == static_cast<int>(DType::kF64) && AIPU_BOOL == static_cast<int>(DType::kBool) &&
              AIPU_FLOAT16 == static_cast<int>(DType::kF16) &&
              AIPU_FLOAT8E4M3FN == static_cast<int>(DType::kF8E4M3FN) && AIPU_INT4 == static_cast<int>(DType::kI4) &&
              AIPU_COMPLEX64 == static_cast<int>(DType::kC64) && AIPU_STRING == static_cast<int>(DType::kString));
static_assert(sizeof(aipu_string) == sizeof(aipu::runtime::StringView) &&
              offsetof(aipu_string, size) == offsetof(aipu::runtime::StringView, size));
static_assert(AIPU_INTERNAL == static_cast<int>(ErrorCode::kInternal) && AIPU_IO == static_cast<int>(ErrorCode::kIo));

namespace aipu::runtime::c_api {
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

}  // namespace

aipu_status finish(const Status& status) noexcept {
  if (status.ok()) return AIPU_OK;
  char* const buffer = message_buffer();
  if (buffer != nullptr) std::snprintf(buffer, kMessageBytes, "%s", status.message().c_str());
  last_error = buffer != nullptr ? buffer : "out of memory";
  return static_cast<aipu_status>(status.code());
}

Status require(std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.value == nullptr) return invalid_argument(str_cat("argument '", argument.name, "' is null"));
  }
  return {};
}

Status check_limits(std::initializer_list<double> limits) {
  for (const double limit : limits) {
    if (!(limit >= 0)) return invalid_argument(str_cat("a limit is ", limit));
  }
  return {};
}

}  // namespace aipu::runtime::c_api

using namespace aipu::runtime::c_api;

namespace {

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

aipu::Result<aipu::runtime::LoadOptions> read_options(const aipu_load_options* given) {
  constexpr size_t kFirstVersion = offsetof(aipu_load_options, verify_all) + sizeof given->verify_all;
  AIPU_ASSIGN_OR_RETURN(const auto known, known_options(given, kFirstVersion, "aipu_load_options"));
  AIPU_RETURN_IF_ERROR(check_limits({static_cast<double>(known.memory_limit_bytes), known.time_limit_seconds}));
  aipu::runtime::LoadOptions options = options_for(known.backend);
  options.copy = known.copy != 0;
  options.verify_all = known.verify_all != 0;
  options.budget = {known.memory_limit_bytes, known.time_limit_seconds};
  options.sandbox = known.sandbox != 0;
  options.only_safe_backends = known.only_safe_backends != 0;
  options.in_place = known.in_place != 0;
  if (known.entry != nullptr) options.entry = known.entry;
  if (known.trusted_key != nullptr) {
    options.trusted_key = known.trusted_key;
    if (options.trusted_key.empty())
      return aipu::invalid_argument("trusted_key: an empty text is no key; null asks for no signature");
  }
  return options;
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

aipu_status aipu_model_load_bytes_with(const void* bytes, size_t size, const aipu_load_options* options,
                                       aipu_model** model) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"bytes", bytes}, {"model", model}}));
    AIPU_ASSIGN_OR_RETURN(const auto load_options, read_options(options));
    return adopt(Model::from_bytes({static_cast<const std::byte*>(bytes), size}, load_options), model);
  });
}

aipu_status aipu_check_backend(const char* backend, const char* target) {
  return guarded([&]() -> Status {
    AIPU_RETURN_IF_ERROR(require({{"backend", backend}, {"target", target}}));
    return aipu::runtime::check_backend(backend, target);
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

}  // extern "C"
