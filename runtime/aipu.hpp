// The C++ API of the runtime: aipu.h with objects that give back what they hold, and exceptions. Header-only, C++17 and
// later. Link with -laipu_runtime.
//
//   const aipu::Model model("net.aipu.bin");
//   aipu::Session session(model);
//   session.bind_input(0, pixels.data(), {1, 3, 224, 224});
//   session.run();
//   const aipu::Tensor scores = session.output(0);
//   use(scores.data<float>(), scores.size());
//
// What aipu.h says of threads, memory and lifetimes holds here. Functions throw aipu::Error, whose what() is the one
// line of aipu_last_error(), and std::bad_alloc; destructors do not throw. An index may be a name everywhere.
#ifndef AIPU_RUNTIME_AIPU_HPP_
#define AIPU_RUNTIME_AIPU_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/aipu.h"

namespace aipu {

// A view of a string as an element of an input, valid as long as the string is and does not change.
inline aipu_string element_of(const std::string& text) { return {text.data(), text.size()}; }

// As aipu_enable_crash_reports().
inline void enable_crash_reports() { aipu_enable_crash_reports(); }

class Error : public std::runtime_error {
 public:
  Error(aipu_status code, const std::string& message) : std::runtime_error(message), code_(code) {}
  aipu_status code() const noexcept { return code_; }

 private:
  aipu_status code_;
};

namespace detail {

inline void check(aipu_status status) {
  if (status != AIPU_OK) throw Error(status, aipu_last_error());
}

template <class T>
struct Released {
  void (*release)(T*);
  void operator()(T* object) const noexcept { release(object); }
};
template <class T>
using Handle = std::unique_ptr<T, Released<T>>;

template <class Options>
Options empty_options() {
  Options options = {};
  options.struct_bytes = sizeof(Options);
  return options;
}

}  // namespace detail

// The element type of a C++ type; aipu_string for strings. float16 and bfloat16 have none: their elements are uint16_t, given with the dtype.
template <class T>
constexpr aipu_dtype dtype_of() {
  if (std::is_same<T, aipu_string>::value) return AIPU_STRING;
  static_assert(std::is_same<T, aipu_string>::value || (std::is_arithmetic<T>::value && sizeof(T) <= 8),
                "the element types are bool, integers, floats and aipu_string");
  if (std::is_same<T, bool>::value) return AIPU_BOOL;
  if (std::is_floating_point<T>::value) return sizeof(T) == 4 ? AIPU_FLOAT32 : AIPU_FLOAT64;
  if (std::is_signed<T>::value)
    return sizeof(T) == 1 ? AIPU_INT8 : sizeof(T) == 2 ? AIPU_INT16 : sizeof(T) == 4 ? AIPU_INT32 : AIPU_INT64;
  return sizeof(T) == 1 ? AIPU_UINT8 : sizeof(T) == 2 ? AIPU_UINT16 : sizeof(T) == 4 ? AIPU_UINT32 : AIPU_UINT64;
}

// An input or output of a model; -1 for extents that are not constant.
struct TensorInfo {
  std::string name;
  aipu_dtype dtype = AIPU_VOID;
  std::vector<int64_t> shape;
  std::vector<std::string> symbols;  // of each axis: what it is called, "?" if nothing; "" where it is constant
};

// A contiguous tensor in C order, which lives as long as what it was asked of says. Does not own.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const aipu_tensor& tensor) : tensor_(tensor) {}

  aipu_dtype dtype() const noexcept { return tensor_.dtype; }
  std::vector<int64_t> shape() const { return {tensor_.shape, tensor_.shape + tensor_.rank}; }
  size_t size_bytes() const noexcept { return tensor_.size_bytes; }
  // Elements.
  size_t size() const noexcept {
    size_t count = 1;
    for (uint32_t axis = 0; axis < tensor_.rank; ++axis) count *= static_cast<size_t>(tensor_.shape[axis]);
    return count;
  }
  const void* data() const noexcept { return tensor_.data; }
  // AIPU_INVALID_ARGUMENT where the elements are of another type.
  template <class T>
  const T* data() const {
    const bool is_half = tensor_.dtype == AIPU_FLOAT16 || tensor_.dtype == AIPU_BFLOAT16;
    if (tensor_.dtype != dtype_of<T>() && !(is_half && std::is_same<T, uint16_t>::value))
      throw Error(AIPU_INVALID_ARGUMENT, "the elements of the tensor are of another type");
    return static_cast<const T*>(tensor_.data);
  }
  // Copies of the elements of a tensor of strings.
  std::vector<std::string> strings() const {
    const aipu_string* elements = data<aipu_string>();
    std::vector<std::string> result;
    for (size_t k = 0; k < size(); ++k) result.emplace_back(elements[k].data, elements[k].size);
    return result;
  }
  const aipu_tensor& get() const noexcept { return tensor_; }

 private:
  aipu_tensor tensor_ = {};
};

namespace detail {

template <class Key>
std::vector<Key> keys_of(const Tensor& tensor) {
  const Key* keys = tensor.data<Key>();
  return std::vector<Key>(keys, keys + tensor.size());
}
template <>
inline std::vector<std::string> keys_of<std::string>(const Tensor& tensor) {
  return tensor.strings();
}

}  // namespace detail

// aipu_load_options; what is not set is the default.
struct LoadOptions {
  std::string backend;
  bool copy = false;
  bool verify_all = false;
  int64_t memory_limit_bytes = 0;
  double time_limit_seconds = 0;
  bool sandbox = false;
  std::optional<std::string> trusted_key;  // an empty one is no key, and an error
  std::string entry;                       // of a file with several models; empty: the first
  bool only_safe_backends = false;
  bool in_place = false;  // Model::from_bytes(): the bytes live as long as the model
};

// Immutable; copies share one model, and any number of threads may use it.
class Model {
 public:
  explicit Model(const std::string& path, const LoadOptions& options = {}) {
    const aipu_load_options given = given_options(options);
    aipu_model* model = nullptr;
    detail::check(aipu_model_load_with(path.c_str(), &given, &model));
    take(model);
  }
  // Copies the bytes, unless LoadOptions::in_place.
  static Model from_bytes(const void* bytes, size_t size, const LoadOptions& options) {
    const aipu_load_options given = given_options(options);
    aipu_model* model = nullptr;
    detail::check(aipu_model_load_bytes_with(bytes, size, &given, &model));
    Model result;
    result.take(model);
    return result;
  }
  // Copies the bytes.
  static Model from_bytes(const void* bytes, size_t size, const std::string& backend = "") {
    aipu_model* model = nullptr;
    detail::check(aipu_model_load_bytes(bytes, size, backend.empty() ? nullptr : backend.c_str(), &model));
    Model result;
    result.take(model);
    return result;
  }

  // What the models of the file are asked for by, in its order.
  std::vector<std::string> entries() const {
    std::vector<std::string> result;
    for (uint32_t i = 0; i < aipu_model_entry_count(get()); ++i) result.emplace_back(aipu_model_entry_name(get(), i));
    return result;
  }
  // One of them, on the same mapping of the file. AIPU_NOT_FOUND where there is none of that name.
  Model open(const std::string& entry) const {
    aipu_model* model = nullptr;
    detail::check(aipu_model_entry_open(get(), entry.c_str(), &model));
    Model result;
    result.take(model);
    return result;
  }

  std::vector<TensorInfo> inputs() const {
    return infos(aipu_model_input_count, aipu_model_input, aipu_model_input_symbol);
  }
  std::vector<TensorInfo> outputs() const {
    return infos(aipu_model_output_count, aipu_model_output, aipu_model_output_symbol);
  }
  // AIPU_NOT_FOUND where there is none of that name.
  uint32_t input_index(const std::string& name) const { return index(inputs(), name, "input"); }
  uint32_t output_index(const std::string& name) const { return index(outputs(), name, "output"); }
  // The inputs and outputs of the ONNX model that are sequences, optionals or maps.
  std::vector<aipu_list_info> lists() const {
    std::vector<aipu_list_info> result(aipu_model_list_count(get()));
    for (uint32_t i = 0; i < result.size(); ++i) detail::check(aipu_model_list(get(), i, &result[i]));
    return result;
  }
  // What the ONNX model says about itself: its doc_string and its metadata_props.
  std::string description() const { return aipu_model_description(get()); }
  std::vector<std::pair<std::string, std::string>> metadata() const {
    std::vector<std::pair<std::string, std::string>> result;
    for (uint32_t i = 0; i < aipu_model_metadata_count(get()); ++i) {
      const char* key = nullptr;
      const char* value = nullptr;
      detail::check(aipu_model_metadata(get(), i, &key, &value));
      result.emplace_back(key, value);
    }
    return result;
  }
  // What the model is called, compiled for, and run by.
  std::string name() const { return aipu_model_name(get()); }
  std::string target() const { return aipu_model_target(get()); }
  std::string backend() const { return aipu_model_backend(get()); }
  // One line about a sandbox that contains less than it should on this system; empty if there is nothing to say.
  std::string warning() const { return aipu_model_warning(get()); }

  aipu_model* get() const noexcept { return model_.get(); }

 private:
  Model() = default;
  // Points into `options`.
  static aipu_load_options given_options(const LoadOptions& options) {
    aipu_load_options given = detail::empty_options<aipu_load_options>();
    given.backend = options.backend.empty() ? nullptr : options.backend.c_str();
    given.copy = options.copy;
    given.verify_all = options.verify_all;
    given.memory_limit_bytes = options.memory_limit_bytes;
    given.time_limit_seconds = options.time_limit_seconds;
    given.sandbox = options.sandbox;
    given.trusted_key = options.trusted_key ? options.trusted_key->c_str() : nullptr;
    given.entry = options.entry.empty() ? nullptr : options.entry.c_str();
    given.only_safe_backends = options.only_safe_backends;
    given.in_place = options.in_place;
    return given;
  }
  void take(aipu_model* model) { model_.reset(model, aipu_model_release); }
  template <class Count, class Info, class Symbol>
  std::vector<TensorInfo> infos(Count count, Info info, Symbol symbol) const {
    std::vector<TensorInfo> result;
    for (uint32_t i = 0; i < count(get()); ++i) {
      aipu_tensor_info one = {};
      detail::check(info(get(), i, &one));
      std::vector<std::string> symbols;
      for (uint32_t axis = 0; axis < one.rank; ++axis) symbols.emplace_back(symbol(get(), i, axis));
      result.push_back({one.name, one.dtype, {one.shape, one.shape + one.rank}, std::move(symbols)});
    }
    return result;
  }
  static uint32_t index(const std::vector<TensorInfo>& infos, const std::string& name, const char* what) {
    const auto found = std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& i) { return i.name == name; });
    if (found == infos.end()) throw Error(AIPU_NOT_FOUND, "the model has no " + std::string(what) + " '" + name + "'");
    return static_cast<uint32_t>(found - infos.begin());
  }

  std::shared_ptr<aipu_model> model_;
};

// Threads that sessions share, which take turns; copies are one pool. Sessions that have it keep it.
class Pool {
 public:
  explicit Pool(int threads = 0) {
    aipu_pool* pool = nullptr;
    detail::check(aipu_pool_create(threads, &pool));
    pool_.reset(pool, aipu_pool_release);
  }
  aipu_pool* get() const noexcept { return pool_.get(); }

 private:
  std::shared_ptr<aipu_pool> pool_;
};

// Counters of a profile: read(values) gives `count` of them, which only grow.
struct ProfileCounters {
  uint32_t count = 0;
  std::function<void(int64_t*)> read;
};

// aipu_session_options; what is not set is the default.
struct SessionOptions {
  int threads = 0;
  int64_t run_memory_limit_bytes = 0;
  double run_time_limit_seconds = 0;
  int64_t plan_memory_limit_bytes = 0;
  double plan_time_limit_seconds = 0;
  bool overlap = false;
  bool profile = false;
  bool cycles = false;
  std::optional<Pool> pool;
  int plan_cache = 0;
  ProfileCounters counters;
  // inspect(name, origin, value) after each command, for each tensor that it has written; it must not throw.
  std::function<void(const std::string&, const std::string&, const Tensor&)> inspect;
};

// One command of a run that was profiled: aipu_profile_row, with texts of its own.
struct ProfileRow {
  std::string engine, name, origin;
  uint32_t command = 0, sample = 0, lane = 0, threads = 1;
  int64_t start_ns = 0, duration_ns = 0;
  int64_t operations = 0, bytes = 0;
  int64_t start_cycles = 0, cycles = -1;
  uint32_t lanes = 1;
  std::vector<int64_t> counts;
  std::vector<uint32_t> waits;
  int64_t compute_cycles = -1, dma_cycles = -1;
};

// An input of a run that is submitted, of which the data is read until the run is done.
struct Input {
  aipu_dtype dtype = AIPU_VOID;
  std::vector<int64_t> shape;
  const void* data = nullptr;

  Input() = default;
  Input(aipu_dtype type, std::vector<int64_t> extents, const void* elements)
      : dtype(type), shape(std::move(extents)), data(elements) {}
  template <class T>
  Input(const T* elements, std::vector<int64_t> extents)
      : dtype(dtype_of<T>()), shape(std::move(extents)), data(elements) {}
};

// A run that was submitted: a future. Any number of threads may look at it. Letting go of it does not end it.
class Run {
 public:
  bool is_done() const noexcept { return aipu_run_is_done(run_.get()) != 0; }
  // Throws what became of it, if that is an error.
  void wait() const { detail::check(aipu_run_wait(run_.get())); }
  // The same for a limited time: whether it is over.
  bool wait_for(double seconds) const {
    int done = 0;
    detail::check(aipu_run_wait_for(run_.get(), seconds, &done));
    return done != 0;
  }
  // Of a run that has succeeded; lives as long as the Run, memory that was given is the caller's.
  Tensor output(uint32_t index) const {
    aipu_tensor tensor = {};
    detail::check(aipu_run_output(run_.get(), index, &tensor));
    return Tensor(tensor);
  }
  aipu_run* get() const noexcept { return run_.get(); }

 private:
  friend class Session;
  explicit Run(aipu_run* run, void (*release)(aipu_run*) = aipu_run_release) : run_(run, {release}) {}
  detail::Handle<aipu_run> run_;
};

// Executes a model, for one thread at a time; any thread may submit.
class Session {
 public:
  explicit Session(const Model& model, const SessionOptions& options = {}) : model_(model) {
    aipu_session_options given = detail::empty_options<aipu_session_options>();
    given.threads = options.threads;
    given.run_memory_limit_bytes = options.run_memory_limit_bytes;
    given.run_time_limit_seconds = options.run_time_limit_seconds;
    given.plan_memory_limit_bytes = options.plan_memory_limit_bytes;
    given.plan_time_limit_seconds = options.plan_time_limit_seconds;
    given.overlap = options.overlap;
    given.profile = options.profile;
    given.cycles = options.cycles;
    given.pool = options.pool ? options.pool->get() : nullptr;
    given.plan_cache = options.plan_cache;
    if (options.counters.count > 0 || options.inspect)
      callbacks_ = std::make_unique<Callbacks>(Callbacks{options.counters, options.inspect});
    if (options.counters.count > 0) {
      given.counter_count = options.counters.count;
      given.counter_argument = callbacks_.get();
      given.read_counters = [](void* argument, int64_t* values) {
        static_cast<const Callbacks*>(argument)->counters.read(values);
      };
    }
    if (options.inspect) {
      given.inspect_argument = callbacks_.get();
      given.inspect = [](void* argument, const char* name, const char* origin, const aipu_tensor* value) {
        static_cast<const Callbacks*>(argument)->inspect(name, origin, Tensor(*value));
      };
    }
    aipu_session* session = nullptr;
    detail::check(aipu_session_create_with(model.get(), &given, &session));
    session_.reset(session);
  }
  Session(Session&&) = default;
  Session& operator=(Session&& other) noexcept {
    session_ = std::move(other.session_);  // first: the one that goes may be calling
    callbacks_ = std::move(other.callbacks_);
    model_ = std::move(other.model_);
    return *this;
  }

  // The data is read in place by each run, until the next bind of this input.
  void bind_input(uint32_t index, aipu_dtype dtype, const std::vector<int64_t>& shape, const void* data) {
    detail::check(
        aipu_session_bind_input(get(), index, dtype, shape.data(), static_cast<uint32_t>(shape.size()), data));
  }
  template <class T>
  void bind_input(uint32_t index, const T* data, const std::vector<int64_t>& shape) {
    bind_input(index, dtype_of<T>(), shape, data);
  }
  template <class T>
  void bind_input(const std::string& name, const T* data, const std::vector<int64_t>& shape) {
    bind_input(model_.input_index(name), data, shape);
  }
  // Where to put an output; a null pointer: the session provides the memory, which is also the default.
  void bind_output(uint32_t index, void* data, size_t size_bytes) {
    detail::check(aipu_session_bind_output(get(), index, data, size_bytes));
  }
  void bind_output(const std::string& name, void* data, size_t size_bytes) {
    bind_output(model_.output_index(name), data, size_bytes);
  }

  // Checks shapes and plans memory without running.
  void prepare() { detail::check(aipu_session_prepare(get())); }
  void run() { detail::check(aipu_session_run(get())); }
  // Valid until the next bind, prepare or run.
  Tensor output(uint32_t index) const {
    aipu_tensor tensor = {};
    detail::check(aipu_session_output(get(), index, &tensor));
    return Tensor(tensor);
  }
  Tensor output(const std::string& name) const { return output(model_.output_index(name)); }
  // An output of the ONNX model that is a sequence of maps to floats (ZipMap's). Key: std::string or int64_t, as the
  // model has it.
  template <class Key>
  std::vector<std::map<Key, float>> maps(const std::string& name) const {
    for (const aipu_list_info& list : model_.lists()) {
      if (list.is_input != 0 || list.kind != AIPU_MAPS || name != list.name) continue;
      const std::vector<Key> keys = detail::keys_of<Key>(output(list.first));
      const Tensor values = output(list.first + 1);
      std::vector<std::map<Key, float>> result(keys.empty() ? 0 : values.size() / keys.size());
      const float* value = values.data<float>();
      for (auto& map : result) {
        for (const Key& key : keys) map[key] = *value++;
      }
      return result;
    }
    throw Error(AIPU_NOT_FOUND, "the model has no output '" + name + "' that is a sequence of maps");
  }

  // Puts a run into the session's queue and returns. `outputs`: memory for each output, or nothing. `done` is called by
  // a thread of the session's when the run is over, whatever became of it: it may submit and let the session go, but
  // must neither wait for runs nor throw, and the Run that it gets is valid during the call.
  Run submit(const std::vector<Input>& inputs, const std::vector<aipu_output_memory>& outputs = {},
             std::function<void(const Run&)> done = {}) {
    std::vector<aipu_tensor> tensors;
    for (const Input& input : inputs)
      tensors.push_back({input.dtype, static_cast<uint32_t>(input.shape.size()), input.shape.data(), input.data, 0});
    aipu_run_options given = detail::empty_options<aipu_run_options>();
    given.inputs = tensors.data();
    given.input_count = static_cast<uint32_t>(tensors.size());
    given.outputs = outputs.empty() ? nullptr : outputs.data();
    given.output_count = static_cast<uint32_t>(outputs.size());
    using Done = std::function<void(const Run&)>;
    std::unique_ptr<Done> call;
    if (done) {
      call = std::make_unique<Done>(std::move(done));
      given.argument = call.get();
      given.done = [](void* argument, const aipu_run* ended) noexcept {
        const std::unique_ptr<Done> owned(static_cast<Done*>(argument));
        (*owned)(Run(const_cast<aipu_run*>(ended), [](aipu_run*) {}));
      };
    }
    aipu_run* run = nullptr;
    detail::check(aipu_session_run_async(get(), &given, &run));
    (void)call.release();  // is the run's now
    return Run(run);
  }

  // The commands of all runs so far, or since clear_profile(), in the order in which they were played. With
  // SessionOptions::profile.
  std::vector<ProfileRow> profile() {
    uint32_t count = 0;
    detail::check(aipu_session_profile(get(), &count));
    std::vector<ProfileRow> rows;
    for (uint32_t i = 0; i < count; ++i) {
      aipu_profile_row row = detail::empty_options<aipu_profile_row>();
      detail::check(aipu_session_profile_row(get(), i, &row));
      rows.push_back({row.engine, row.name, row.origin, row.command, row.sample, row.lane, row.threads, row.start_ns,
                      row.duration_ns, row.operations, row.bytes, row.start_cycles, row.cycles, row.lanes,
                      {row.counts, row.counts + row.count_count}, {row.waits, row.waits + row.wait_count}, row.compute_cycles, row.dma_cycles});
    }
    return rows;
  }
  void clear_profile() { detail::check(aipu_session_clear_profile(get())); }
  // As a file in Chrome's trace format.
  void write_profile(const std::string& path) const { detail::check(aipu_session_write_profile(get(), path.c_str())); }
  // What the last run would take on the device, in cycles; with SessionOptions::cycles. AIPU_NOT_FOUND where there is
  // no timing model.
  int64_t cycles() const {
    int64_t cycles = 0;
    detail::check(aipu_session_cycles(get(), &cycles));
    return cycles;
  }

  const Model& model() const noexcept { return model_; }
  // Threads that kernels are spread over.
  int threads() const noexcept { return aipu_session_threads(get()); }
  // Bytes of memory held for activations in this process.
  int64_t arena_bytes() const noexcept { return aipu_session_arena_bytes(get()); }
  // Whether no submitted run is in flight.
  bool is_idle() const noexcept { return aipu_session_is_idle(get()) != 0; }
  aipu_session* get() const noexcept { return session_.get(); }

 private:
  struct Callbacks {
    ProfileCounters counters;
    std::function<void(const std::string&, const std::string&, const Tensor&)> inspect;
  };

  Model model_;
  std::unique_ptr<Callbacks> callbacks_;  // lives longer than the session, which calls them
  detail::Handle<aipu_session> session_{nullptr, {aipu_session_release}};
};

}  // namespace aipu

#endif  // AIPU_RUNTIME_AIPU_HPP_
