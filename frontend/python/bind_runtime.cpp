// Models and sessions of the runtime.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>

#include "frontend/python/array.h"
#include "frontend/python/bindings.h"
#include "runtime/base/stored_type.h"
#include "runtime/base/text.h"
#include "runtime/executor/worker_pool.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "runtime/tools/layer_profile.h"
#include "runtime/tools/machine_peak.h"

namespace aipu::python {

namespace py = pybind11;

namespace {

struct NativeModel {
  std::shared_ptr<const runtime::Model> model;
  runtime::SessionOptions session_options = {};
};

// (name, dtype, extents: numbers, names of symbols or None).
py::list specs_of(std::span<const runtime::TensorSpec> specs) {
  py::list result;
  for (const runtime::TensorSpec& spec : specs) {
    py::list shape;
    for (const runtime::DimSpec& dim : spec.shape) {
      if (dim.extent >= 0) {
        shape.append(dim.extent);
      } else if (dim.symbol.empty() || dim.symbol == "?") {
        shape.append(py::none());
      } else {
        shape.append(dim.symbol);
      }
    }
    result.append(py::make_tuple(spec.name, std::string(dtype_name(spec.dtype)), py::tuple(shape)));
  }
  return result;
}

py::list metadata_of(const NativeModel& m) {
  py::list result;
  for (const auto& [key, value] : m.model->description().metadata)
    result.append(py::make_tuple(py::bytes(key), py::bytes(value)));
  return result;
}

py::list lists_of(const NativeModel& m) {
  py::list result;
  for (const runtime::TensorList& list : m.model->description().lists) {
    result.append(
        py::make_tuple(list.name, list.is_input, static_cast<int>(list.kind), list.absent, list.first, list.count));
  }
  return result;
}

int64_t count_of(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::span<const std::byte> memory_of(const runtime::TensorView& view) {
  return {static_cast<const std::byte*>(view.data),
          static_cast<size_t>(tensor_bytes(view.dtype, view.shape).value_or(0))};
}

// A copy of an output, as bytes; a byte for each element where they are packed.
py::bytes bytes_of(const runtime::TensorView& view) {
  const std::span<const std::byte> bytes = memory_of(view);
  if (!is_packed(view.dtype)) return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  const std::vector<std::byte> codes = unpack(view.dtype, bytes, count_of(view.shape));
  return {reinterpret_cast<const char*>(codes.data()), codes.size()};
}

// The texts of an output become elements of an array of objects; bytes that are no UTF-8 become surrogates, as in names
// of files.
void copy_texts(const runtime::TensorView& view, const py::object& array) {
  ArrayBuffer buffer;
  if (view.dtype != DType::kString || !buffer.acquire_objects(array) || buffer.view().readonly != 0)
    throw py::type_error("texts of an output need an array of objects");
  const std::span<PyObject*> elements = buffer.objects();
  if (count_of(view.shape) != static_cast<int64_t>(elements.size()))
    throw py::value_error("there are not as many texts as elements");
  const auto* texts = static_cast<const runtime::StringView*>(view.data);
  for (size_t k = 0; k < elements.size(); ++k) {
    PyObject* text = PyUnicode_DecodeUTF8(texts[k].data, static_cast<Py_ssize_t>(texts[k].size), "surrogateescape");
    if (text == nullptr) throw py::error_already_set();
    Py_XSETREF(elements[k], text);
  }
}

py::tuple tuple_of(std::span<const int64_t> shape) {
  py::tuple result(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) result[i] = shape[i];
  return result;
}

// A submitted run that is done.
class NativeRun {
 public:
  explicit NativeRun(std::shared_ptr<const runtime::Run> run) : run_(std::move(run)) {}
  void check() const {
    if (const Status status = run_->wait(); !status.ok()) throw_status(status);
  }
  py::tuple output_shape(size_t index) const { return tuple_of(value_or_throw(run_->output(index)).shape); }
  py::bytes output_bytes(size_t index) const { return bytes_of(value_or_throw(run_->output(index))); }
  void copy_texts_to(size_t index, const py::object& array) const {
    copy_texts(value_or_throw(run_->output(index)), array);
  }

 private:
  std::shared_ptr<const runtime::Run> run_;
};

DType acquire(ArrayBuffer& buffer, const py::object& array, const char* kind,
              std::span<const runtime::TensorSpec> specs, size_t index) {
  if (index >= specs.size()) throw py::index_error(std::string("no such ") + kind);
  const auto where = [&] { return std::string(kind) + " '" + printable(specs[index].name) + "': "; };
  if (!is_array(array.ptr()))
    throw py::type_error(where() + "a NumPy array is expected, found " + Py_TYPE(array.ptr())->tp_name);
  DType dtype = buffer.acquire(array);
  // Elements of stored types come as their codes.
  if (stored_type(specs[index].dtype) != nullptr && dtype == held_as(specs[index].dtype)) dtype = specs[index].dtype;
  if (dtype == DType::kVoid) {
    throw py::value_error(where() + "expected " + std::string(dtype_name(specs[index].dtype)) +
                          ", found an array of dtype " + std::string(py::str(array.attr("dtype"))));
  }
  if (!buffer.is_contiguous('C')) throw py::value_error(where() + "a C-contiguous array is expected");
  return dtype;
}

// An input as it is bound, and what it is read from: an array, its elements packed, or texts.
class InputMemory {
 public:
  InputMemory(const py::object& given, std::span<const runtime::TensorSpec> specs, size_t index) {
    if (index < specs.size() && specs[index].dtype == DType::kString) {
      take_texts(given, specs[index].name);
    } else {
      take_array(given, specs, index);
    }
  }
  const runtime::TensorView& view() const { return view_; }

 private:
  void take_array(const py::object& given, std::span<const runtime::TensorSpec> specs, size_t index) {
    const DType dtype = acquire(array_, given, "input", specs, index);
    const Py_buffer& view = array_.view();
    shape_.assign(view.shape, view.shape + view.ndim);
    view_ = {dtype, shape_, view.buf};
    if (!is_packed(dtype)) return;
    packed_ = pack(dtype, {static_cast<const std::byte*>(view.buf), static_cast<size_t>(view.len)});
    view_.data = packed_.data();
  }
  // An array of str and bytes. They are read in place: other threads may put others into the array during a run.
  void take_texts(const py::object& given, std::string_view name) {
    const auto where = [&] { return "input '" + printable(name) + "': expected strings, found "; };
    if (!array_.acquire_objects(given)) throw py::type_error(where() + "no C-contiguous array of objects");
    const Py_buffer& view = array_.view();
    shape_.assign(view.shape, view.shape + view.ndim);
    for (PyObject* element : array_.objects()) {
      held_.push_back(py::reinterpret_borrow<py::object>(element));
      texts_.push_back(text_of(element, where));
    }
    view_ = {DType::kString, shape_, texts_.data()};
  }

  template <typename Where>
  runtime::StringView text_of(PyObject* element, const Where& where) {
    if (element != nullptr && PyUnicode_Check(element)) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(element, &size);
      if (text != nullptr) return {text, static_cast<size_t>(size)};
      PyErr_Clear();
      held_.push_back(
          py::reinterpret_steal<py::object>(PyUnicode_AsEncodedString(element, "utf-8", "surrogateescape")));
      if (!held_.back()) throw py::error_already_set();
      element = held_.back().ptr();
    }
    if (element == nullptr || !PyBytes_Check(element)) {
      const char* type = element == nullptr ? "NULL" : Py_TYPE(element)->tp_name;
      throw py::value_error(where() + "an element " + type);
    }
    return {PyBytes_AS_STRING(element), static_cast<size_t>(PyBytes_GET_SIZE(element))};
  }

  ArrayBuffer array_;
  std::vector<std::byte> packed_;
  std::vector<py::object> held_;  // the texts
  std::vector<runtime::StringView> texts_;
  std::vector<int64_t> shape_;
  runtime::TensorView view_;
};

// NumPy takes any byte but 0 for true, kernels do not.
bool has_only_bools(const runtime::TensorView& view) {
  if (view.dtype != DType::kBool) return true;
  return std::ranges::all_of(memory_of(view), [](std::byte value) { return value <= std::byte{1}; });
}

// A session with the arrays that are bound to it.
class NativeSession {
 public:
  NativeSession(const NativeModel& model, int threads, bool profile, bool cycles, bool overlap) {
    runtime::SessionOptions options = model.session_options;
    options.threads = threads;
    options.profile = profile;
    options.cycles = cycles;
    options.overlap = overlap;
    session_ = value_or_throw(runtime::Session::create(model.model, options));
    inputs_ = std::vector<std::unique_ptr<InputMemory>>(model.model->inputs().size());
    outputs_ = std::vector<std::unique_ptr<ArrayBuffer>>(model.model->outputs().size());
  }
  ~NativeSession() { close(); }
  NativeSession(const NativeSession&) = delete;
  NativeSession& operator=(const NativeSession&) = delete;

  // What is in flight ends, and calls back, which needs the interpreter.
  void close() {
    std::unique_ptr<runtime::Session> ending = std::move(session_);
    if (ending == nullptr) return;
    const py::gil_scoped_release released;
    ending.reset();
  }

  // Arrays as the package prepares them: C-contiguous, in this machine's byte order.
  void bind_input(size_t index, const py::object& array) {
    auto memory = std::make_unique<InputMemory>(array, session().model().inputs(), index);
    check(session().bind_input(index, memory->view()));
    inputs_.at(index) = std::move(memory);
  }

  void bind_output(size_t index, const py::object& array) {
    if (array.is_none()) {
      check(session().bind_output(index, nullptr, 0));
      if (index < outputs_.size()) outputs_[index].reset();
      return;
    }
    auto buffer = acquire_output(array, index);
    check(session().bind_output(index, buffer->view().buf, static_cast<size_t>(buffer->view().len)));
    outputs_.at(index) = std::move(buffer);
  }

  // `outputs`: an array or None for each. done(run) is called when it is over, by another thread; arrays are held until
  // then.
  void submit(const py::list& inputs, const py::list& outputs, const py::object& done) {
    auto held = std::make_shared<Submission>();
    std::vector<runtime::TensorView> views;
    for (size_t i = 0; i < inputs.size(); ++i) {
      held->inputs.push_back(std::make_unique<InputMemory>(inputs[i], session().model().inputs(), i));
      views.push_back(held->inputs.back()->view());
    }
    std::vector<runtime::OutputMemory> memory(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].is_none()) continue;
      held->arrays.push_back(acquire_output(outputs[i], i));
      const Py_buffer& view = held->arrays.back()->view();
      memory[i] = {view.buf, static_cast<size_t>(view.len)};
    }
    held->done = done;
    value_or_throw(session().submit(views, memory, [held](const runtime::Run& run) {
      const py::gil_scoped_acquire acquired;
      std::fflush(stdout);
      Submission mine;  // goes while the interpreter is held
      std::swap(mine, *held);
      mine.inputs.clear();
      mine.arrays.clear();
      try {
        mine.done(NativeRun(run.shared_from_this()));
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable("aipu: a submitted run");
      }
    }));
  }

  // The arrays of a run are the caller's again; the next run binds its own.
  void release_arrays() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      check(session().bind_output(i, nullptr, 0));
      outputs_[i].reset();
    }
    for (auto& input : inputs_) input.reset();
  }

  // bind_input(), prepare(), bind_output(), run() and release_arrays() in one call: arrays that empty(shape, dtype)
  // makes for the outputs, None where other runs are in flight or a bool has to be made one.
  py::object run_plain(const py::list& inputs, const py::object& empty, const py::list& dtypes) {
    if (inputs.size() != inputs_.size() || !session().is_idle()) return py::none();
    const Released released{*this};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      bind_input(i, inputs[i]);
      if (!has_only_bools(inputs_[i]->view())) return py::none();
    }
    prepare();
    py::list outputs(outputs_.size());
    const auto specs = session().model().outputs();
    std::vector<size_t> later;  // outputs of strings, and of shapes that depend on data
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto shape = session().output_shape(i);
      if (!shape.ok() || specs[i].dtype == DType::kString) {
        later.push_back(i);
        continue;
      }
      py::object array = empty(tuple_of(*shape), dtypes[i]);
      bind_output(i, array);
      outputs[i] = std::move(array);
    }
    run();
    for (const size_t i : later) {
      const runtime::TensorView view = value_or_throw(session().output(i));
      py::object array = empty(tuple_of(view.shape), dtypes[i]);
      if (view.dtype == DType::kString) {
        copy_texts(view, array);
      } else {
        const std::span<const std::byte> bytes = memory_of(view);
        if (!bytes.empty()) std::memcpy(acquire_output(array, i)->view().buf, bytes.data(), bytes.size());
      }
      outputs[i] = std::move(array);
    }
    return outputs;
  }

  void prepare() { check(session().prepare()); }

  // None where it depends on data and there has been no run.
  py::object output_shape(size_t index) const {
    const auto shape = session().output_shape(index);
    if (!shape.ok()) return py::none();
    return tuple_of(*shape);
  }

  void run() {
    Status status;
    {
      runtime::Session& running = session();
      const py::gil_scoped_release released;
      status = running.run();
      std::fflush(stdout);
    }
    check(status);
  }

  // A copy of an output of the last run, as bytes.
  py::bytes output_bytes(size_t index) const { return bytes_of(value_or_throw(session().output(index))); }
  void copy_texts_to(size_t index, const py::object& array) const {
    copy_texts(value_or_throw(session().output(index)), array);
  }

  // (engine, name, origin, threads, start, duration, start_cycles, cycles, compute_cycles, dma_cycles) per command, in
  // seconds.
  py::list profile() const {
    py::list rows;
    const auto known = [](int64_t of, int64_t cycles) {
      return of < 0 ? py::object(py::none()) : py::object(py::int_(cycles));
    };
    for (const auto& row : session().profile()) {
      rows.append(py::make_tuple(std::string(row.engine), std::string(row.name), std::string(row.origin), row.threads,
                                 static_cast<double>(row.start_ns) * 1e-9, static_cast<double>(row.duration_ns) * 1e-9,
                                 known(row.cycles, row.start_cycles), known(row.cycles, row.cycles),
                                 known(row.compute_cycles, row.compute_cycles), known(row.dma_cycles, row.dma_cycles)));
    }
    return rows;
  }
  // JSON, as of aipubench --layers.
  std::string layers() const {
    const auto rows = session().profile();
    const auto cycles = session().cycles();
    return str_cat(
        "[",
        (cycles ? tools::cycle_profile(rows, *cycles, false, true) : tools::layer_profile(rows, {}, false, true)).json,
        "]");
  }
  void write_profile(const std::string& path) const { check(session().write_profile(path)); }
  bool is_idle() const { return session().is_idle(); }
  int threads() const { return session().threads(); }
  std::optional<int64_t> cycles() const { return session().cycles(); }
  int64_t arena_bytes() const { return session().arena_bytes(); }

 private:
  // Lets go of the arrays at the end of a run, whatever has come of it.
  struct Released {
    NativeSession& of;
    ~Released() {
      for (size_t i = 0; i < of.outputs_.size(); ++i) {
        static_cast<void>(of.session().bind_output(i, nullptr, 0));
        of.outputs_[i].reset();
      }
      for (auto& input : of.inputs_) input.reset();
    }
  };

  // What a submitted run needs until it is done.
  struct Submission {
    std::vector<std::unique_ptr<InputMemory>> inputs;
    std::vector<std::unique_ptr<ArrayBuffer>> arrays;  // of outputs
    py::object done;
  };

  runtime::Session& session() const {
    if (session_ == nullptr) throw py::value_error("the session is closed");
    return *session_;
  }

  static void check(const Status& status) {
    if (!status.ok()) throw_status(status);
  }

  std::unique_ptr<ArrayBuffer> acquire_output(const py::object& array, size_t index) const {
    auto buffer = std::make_unique<ArrayBuffer>();
    const auto specs = session().model().outputs();
    const DType dtype = acquire(*buffer, array, "output", specs, index);
    if (buffer->view().readonly != 0)
      throw py::value_error("output '" + printable(specs[index].name) + "': the array is read-only");
    if (dtype != specs[index].dtype) {
      throw py::value_error("output '" + printable(specs[index].name) + "': expected " +
                            std::string(dtype_name(specs[index].dtype)) + ", found " + std::string(dtype_name(dtype)));
    }
    return buffer;
  }

  std::unique_ptr<runtime::Session> session_;
  std::vector<std::unique_ptr<InputMemory>> inputs_;
  std::vector<std::unique_ptr<ArrayBuffer>> outputs_;
};

struct NativeLimits {
  int64_t load_memory = 0;
  double load_time = 0;
  int64_t plan_memory = 0;
  double plan_time = 0;
  int64_t run_memory = 0;
  double run_time = 0;
};

}  // namespace

void bind_runtime(py::module_& module) {
  module.def("available_cpus", &runtime::available_cpus, "CPUs that this process may use.");
  module.def(
      "machine_peak",
      [](int threads) {
        const py::gil_scoped_release released;
        const tools::MachinePeak peak = tools::measure_machine_peak(threads);
        return std::make_pair(peak.float_operations, peak.memory_bytes);
      },
      py::arg("threads"), "(fp32 operations, bytes from memory) per second that the machine can do, measured now.");
  module.def("enable_crash_reports", &runtime::enable_crash_reports, "Reports faults in kernels.");
  using runtime::LoadOptions;
  py::class_<LoadOptions>(module, "LoadOptions", "How a model is loaded.")
      .def(py::init<>())
      .def_readwrite("backend", &LoadOptions::backend)
      .def_readwrite("entry", &LoadOptions::entry)
      .def_readwrite("verify", &LoadOptions::verify_all)
      .def_readwrite("copy", &LoadOptions::copy)
      .def_readwrite("sandbox", &LoadOptions::sandbox)
      .def_readwrite("trusted_key", &LoadOptions::trusted_key)
      .def_readwrite("safe_backend", &LoadOptions::only_safe_backends);
  py::class_<NativeLimits>(module, "Limits", "aipu.Limits: bytes and seconds.")
      .def(py::init<>())
      .def_readwrite("load_memory", &NativeLimits::load_memory)
      .def_readwrite("load_time", &NativeLimits::load_time)
      .def_readwrite("plan_memory", &NativeLimits::plan_memory)
      .def_readwrite("plan_time", &NativeLimits::plan_time)
      .def_readwrite("run_memory", &NativeLimits::run_memory)
      .def_readwrite("run_time", &NativeLimits::run_time);
  py::class_<NativeModel>(module, "Model", "A loaded aipu.bin.")
      .def(py::init([](const std::string& path, LoadOptions options, const NativeLimits& limits) {
             options.budget = {limits.load_memory, limits.load_time};
             runtime::SessionOptions session_options;
             session_options.plan_budget = {limits.plan_memory, limits.plan_time};
             session_options.memory_limit_bytes = limits.run_memory;
             session_options.run_seconds = limits.run_time;
             const py::gil_scoped_release released;
             auto model = runtime::Model::load(path, options);
             const py::gil_scoped_acquire acquired;
             return NativeModel{value_or_throw(std::move(model)), session_options};
           }),
           py::arg("path"), py::arg("options"), py::arg("limits"))
      .def_property_readonly(
          "name", [](const NativeModel& m) { return m.model->name(); }, "What the model is called.")
      .def_property_readonly(
          "entries",
          [](const NativeModel& m) {
            return std::vector<std::string>(m.model->entries().begin(), m.model->entries().end());
          },
          "What the models of the file are asked for by.")
      .def(
          "open",
          [](const NativeModel& m, const std::string& entry) {
            const py::gil_scoped_release released;
            auto model = m.model->open(entry);
            const py::gil_scoped_acquire acquired;
            return NativeModel{value_or_throw(std::move(model)), m.session_options};
          },
          py::arg("entry"), "Another model of the file.")
      .def_property_readonly(
          "target", [](const NativeModel& m) { return m.model->target(); }, "What it was compiled for.")
      .def_property_readonly(
          "warning", [](const NativeModel& m) { return m.model->warning(); }, "What a sandbox does not contain.")
      .def_property_readonly(
          "backend", [](const NativeModel& m) { return m.model->backend(); }, "What runs it.")
      .def_property_readonly(
          "description", [](const NativeModel& m) { return py::bytes(m.model->description().text); },
          "doc_string of the ONNX model.")
      .def_property_readonly("metadata", metadata_of, "(key, value) per entry of metadata_props.")
      .def_property_readonly("lists", lists_of,
                             "(name, is input, kind, absent, first, count) per sequence or optional.")
      .def_property_readonly(
          "inputs", [](const NativeModel& m) { return specs_of(m.model->inputs()); }, "(name, dtype, shape) per input.")
      .def_property_readonly(
          "outputs", [](const NativeModel& m) { return specs_of(m.model->outputs()); },
          "(name, dtype, shape) per output.");
  py::class_<NativeRun>(module, "Run", "A submitted run that is done.")
      .def("check", &NativeRun::check, "Raises the error that it ended with, if any.")
      .def("output_shape", &NativeRun::output_shape, py::arg("index"), "The shape of an output.")
      .def("output_bytes", &NativeRun::output_bytes, py::arg("index"), "The bytes of an output.")
      .def("copy_texts", &NativeRun::copy_texts_to, py::arg("index"), py::arg("array"),
           "The strings of an output, into an array of objects.");
  py::class_<NativeSession>(module, "Session", "An execution of a model; one thread at a time.")
      .def(py::init<const NativeModel&, int, bool, bool, bool>(), py::arg("model"), py::arg("threads"),
           py::arg("profile"), py::arg("cycles"), py::arg("overlap"))
      .def("bind_input", &NativeSession::bind_input, py::arg("index"), py::arg("array"),
           "Reads the array in place in later runs.")
      .def("bind_output", &NativeSession::bind_output, py::arg("index"), py::arg("array"),
           "Writes into the array in later runs; None: own memory.")
      .def("release_arrays", &NativeSession::release_arrays, "Lets go of the arrays that are bound.")
      .def("run_plain", &NativeSession::run_plain, py::arg("inputs"), py::arg("empty"), py::arg("dtypes"),
           "The outputs of a run, in arrays that empty(shape, dtype) makes; None where more is to be done.")
      .def("prepare", &NativeSession::prepare, "Checks shapes and plans memory.")
      .def("output_shape", &NativeSession::output_shape, py::arg("index"), "The shape; None where it is not known yet.")
      .def("run", &NativeSession::run, "Runs the model.")
      .def(
          "submit", &NativeSession::submit, py::arg("inputs"), py::arg("outputs"), py::arg("done"),
          "Runs the model on these arrays after what was submitted before; then done(Run) is called by another thread.")
      .def_property_readonly("is_idle", &NativeSession::is_idle, "Whether no submitted run is in flight.")
      .def("close", &NativeSession::close, "Ends the session, and all that is in flight.")
      .def("output_bytes", &NativeSession::output_bytes, py::arg("index"), "The bytes of an output of the last run.")
      .def("copy_texts", &NativeSession::copy_texts_to, py::arg("index"), py::arg("array"),
           "The strings of an output of the last run, into an array of objects.")
      .def("profile", &NativeSession::profile,
           "(engine, name, origin, threads, start, duration, start_cycles, cycles, compute_cycles, dma_cycles) per "
           "command.")
      .def("layers", &NativeSession::layers, "Medians of each command over all runs, as JSON.")
      .def("write_profile", &NativeSession::write_profile, py::arg("path"), "The profile in Chrome's trace format.")
      .def_property_readonly("cycles", &NativeSession::cycles, "Of the last run on the NPU; None: nobody counts.")
      .def_property_readonly("threads", &NativeSession::threads, "Threads that kernels are spread over.")
      .def_property_readonly("arena_bytes", &NativeSession::arena_bytes, "Bytes of memory held for activations.");
}

}  // namespace aipu::python
