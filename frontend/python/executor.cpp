#include "frontend/python/executor.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#include "frontend/python/array.h"
#include "frontend/python/bindings.h"
#include "frontend/python/environment.h"
#include "runtime/base/file.h"
#include "runtime/base/fork_generation.h"
#include "runtime/base/text.h"

namespace aipu::python {

namespace py = pybind11;
using tir::ParamCategory;
using tir::ParamInfo;

namespace {

[[noreturn]] void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, printable_message(message).c_str());
  throw py::error_already_set();
}

bool is_null_pointer(PyObject* object) {
  if (object == Py_None) return true;
  if (is_array(object) || PyBool_Check(object) || !PyIndex_Check(object)) return false;
  const Py_ssize_t value = PyNumber_AsSsize_t(object, nullptr);
  if (value == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
  return value == 0;
}

}  // namespace

// One argument of a call, and what keeps its memory in place.
struct Executor::Argument {
  gbuilder::DslArgument what;
  void* data = nullptr;  // of the tensor
  size_t bytes = 0;
  bool read_only = false;
  ArrayBuffer buffer;
  py::object owner;
};

class Executor::Arguments {
 public:
  Arguments(const Executor& executor, const py::args& args) : executor_(executor) {
    const auto& params = executor.kernel_->info.params;
    if (args.size() != params.size()) {
      raise(PyExc_AssertionError, fmt::format("The function \"{}\" expect {} args, but got: \"{}\".",
                                              executor.kernel_->info.name, params.size(), args.size()));
    }
    items_ = std::vector<Argument>(params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      if (params[i].type.pointer) {
        add_pointer(i, params[i], PyTuple_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i)));
      } else {
        add_number(i, params[i], PyTuple_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i)));
      }
    }
  }

  const std::vector<Argument>& items() const { return items_; }
  // What distinguishes calls that need an aipu.bin of their own; constants are compared apart.
  const std::string& key() const { return key_; }

 private:
  template <typename T>
  void mark(const T& value) {
    key_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  void add_pointer(size_t i, const ParamInfo& param, PyObject* object) {
    Argument& item = items_[i];
    if (is_null_pointer(object)) {
      item.what.is_null = true;
      mark(uint64_t{0});
      return;
    }
    if (!is_array(object)) {
      raise(PyExc_AssertionError,
            fmt::format("The {}-th arg expect a NumPy, but got: \"{}\".", i + 1, Py_TYPE(object)->tp_name));
    }
    if (is_masked_array(object)) {
      raise(
          PyExc_AssertionError,
          fmt::format("The {}-th arg of function \"{}\" is a masked array, please use its .data or .filled() instead.",
                      i + 1, executor_.kernel_->info.name));
    }
    take_array(i, object, &item);
    if (item.what.dtype != param.type.element && param.type.element != DType::kVoid) {
      executor_.warn_(i + 1, executor_.kernel_->info.name, std::string(dtype_name(param.type.element)),
                      std::string(dtype_name(item.what.dtype)));
    }
    if (item.read_only && param.category == ParamCategory::kOutputTensor) {
      raise(PyExc_ValueError,
            fmt::format("The {}-th arg of function \"{}\" is written by it, but is a read-only NumPy.", i + 1,
                        executor_.kernel_->info.name));
    }
    mark(static_cast<uint64_t>(item.what.dtype) << 8 | (item.what.shape.size() + 1));
    for (const int64_t extent : item.what.shape) mark(extent);
    mark(item.what.byte_offset);
  }

  // Memory, shape and type of an array. A view that is not contiguous is given by its base and an offset.
  void take_array(size_t i, PyObject* object, Argument* item) {
    const py::object array = py::reinterpret_borrow<py::object>(object);
    const DType dtype = item->buffer.acquire(array);
    if (dtype == DType::kVoid) unknown_type(i, array);
    const Py_buffer& view = item->buffer.view();
    item->what.dtype = dtype;
    item->owner = array;
    item->data = view.buf;
    item->bytes = static_cast<size_t>(view.len);
    item->read_only = view.readonly != 0;
    if (PyBuffer_IsContiguous(&view, 'C') != 0) {
      item->what.shape.assign(view.shape, view.shape + view.ndim);
      return;
    }
    if (PyBuffer_IsContiguous(&view, 'F') != 0) {
      item->what.shape.assign(std::make_reverse_iterator(view.shape + view.ndim),
                              std::make_reverse_iterator(view.shape));
      return;
    }
    py::object base = array;
    while (true) {
      const py::object below = base.attr("base");
      if (below.is_none() || !is_array(below.ptr())) break;
      base = below;
    }
    ArrayBuffer whole;
    // The base may have another element type: its bytes are what the view lies in.
    const py::object bytes = base.attr("flags").attr("c_contiguous").cast<bool>()
                                 ? base.attr("reshape")(-1).attr("view")("uint8")
                                 : py::none();
    if (bytes.is_none() || whole.acquire(bytes) == DType::kVoid) {
      raise(PyExc_AssertionError,
            fmt::format(
                "The {}-th arg of function \"{}\" is a NumPy view whose base is not contiguous, please use its copy "
                "instead.",
                i + 1, executor_.kernel_->info.name));
    }
    const size_t element = dtype_bytes(dtype);
    item->what.byte_offset = static_cast<const char*>(view.buf) - static_cast<const char*>(whole.view().buf);
    item->data = whole.view().buf;
    item->bytes = static_cast<size_t>(whole.view().len) / element * element;
    item->what.shape = {static_cast<int64_t>(item->bytes / element)};
    item->owner = bytes;  // the buffer of the view itself keeps the memory in place
  }

  [[noreturn]] void unknown_type(size_t i, const py::object& array) const {
    raise(PyExc_AssertionError,
          fmt::format("The {}-th arg of function \"{}\" has the NumPy dtype \"{}\", which no kernel can use.", i + 1,
                      executor_.kernel_->info.name, std::string(py::str(array.attr("dtype")))));
  }

  void add_number(size_t i, const ParamInfo& param, PyObject* object) {
    Argument& item = items_[i];
    const DType dtype = param.type.element;
    if (is_floating(dtype)) {
      const double value = PyFloat_AsDouble(object);
      if (value == -1 && PyErr_Occurred() != nullptr) not_a_number(i, object);
      item.what.number = value;
      mark(value);
      return;
    }
    int64_t value = 0;
    if (is_bool(dtype)) {
      value = PyObject_IsTrue(object) == 1 ? 1 : 0;
      if (PyErr_Occurred() != nullptr) not_a_number(i, object);
    } else {
      const py::object integer = PyLong_Check(object) ? py::reinterpret_borrow<py::object>(object)
                                                      : py::reinterpret_steal<py::object>(PyNumber_Long(object));
      if (!integer || PyUnicode_Check(object)) not_a_number(i, object);
      value = static_cast<int64_t>(PyLong_AsUnsignedLongLongMask(integer.ptr()));
      value = tir::wrap_int(value, dtype);
    }
    item.what.number = value;
    mark(value);
  }

  [[noreturn]] void not_a_number(size_t i, PyObject* object) const {
    PyErr_Clear();
    raise(PyExc_AssertionError, fmt::format("The {}-th arg of function \"{}\" expect a number, but got: \"{}\".", i + 1,
                                            executor_.kernel_->info.name, Py_TYPE(object)->tp_name));
  }

  const Executor& executor_;
  std::vector<Argument> items_;
  std::string key_;
};

Executor::Executor(std::shared_ptr<const gbuilder::DslKernel> kernel, std::string folder, std::string backend,
                   py::object warn, py::object built)
    : kernel_(std::move(kernel)),
      folder_(std::move(folder)),
      backend_(std::move(backend)),
      warn_(std::move(warn)),
      built_(std::move(built)) {}

std::unique_ptr<Executor::Call> Executor::make_call(const Arguments& arguments) {
  const auto& params = kernel_->info.params;
  auto call = std::make_unique<Call>();
  call->key = arguments.key();
  call->constants.resize(params.size());
  std::vector<gbuilder::DslArgument> described;
  for (size_t i = 0; i < params.size(); ++i) {
    const Argument& item = arguments.items()[i];
    gbuilder::DslArgument argument = item.what;
    if (params[i].category == ParamCategory::kConstTensor && !argument.is_null) {
      const auto* bytes = static_cast<const std::byte*>(item.data);
      call->constants[i] = graph::Constant::create(argument.dtype, argument.shape, {bytes, bytes + item.bytes});
      argument.constant = call->constants[i];
    }
    described.push_back(std::move(argument));
  }
  const std::string path = folder_ + "/aipu.bin";
  auto file = gbuilder::build_dsl_call(*kernel_, described, path);
  if (!file.ok()) {
    if (file.status().code() == ErrorCode::kInvalidArgument) raise(PyExc_AssertionError, file.status().message());
    throw_status(file.status());
  }
  call->inputs = file->inputs;
  call->outputs = file->outputs;
  py::list attributes, constants;
  py::dict offsets;
  for (const auto& [name, text] : file->call.attributes) attributes.append(py::make_tuple(name, text));
  for (const auto& [name, constant] : file->call.constants) constants.append(name);
  for (size_t i = 0; i < params.size(); ++i)
    if (described[i].byte_offset != 0) offsets[py::str(params[i].name)] = described[i].byte_offset;
  built_(file->ir.text, py::bytes(reinterpret_cast<const char*>(file->ir.weights.data()), file->ir.weights.size()),
         attributes, constants, offsets,
         stage_times(file->report) + plan_sizes(file->report) + result_line(file->report, "aipu.bin"));
  runtime::LoadOptions load_options;
  load_options.backend = backend_;
  call->model = value_or_throw(runtime::Model::load(path, load_options));
  runtime::SessionOptions options;
  options.arguments_of_a_kernel = true;
  // a model of an NPU has threads of its own
  options.threads = kernel_->target.tec_count() == 0 ? 0 : 1;
  call->session = value_or_throw(runtime::Session::create(call->model, options));
  return call;
}

Executor::Call& Executor::prepare(const Arguments& arguments) {
  const auto fits = [&](const Call& call) {
    if (call.key != arguments.key()) return false;
    for (size_t i = 0; i < call.constants.size(); ++i) {
      if (call.constants[i] == nullptr) continue;
      const Argument& item = arguments.items()[i];
      const auto known = call.constants[i]->bytes();
      if (known.size() != item.bytes || std::memcmp(known.data(), item.data, item.bytes) != 0) return false;
    }
    return true;
  };
  for (auto it = calls_.begin(); it != calls_.end(); ++it) {
    if (!fits(**it)) continue;
    if (it != calls_.begin()) calls_.splice(calls_.begin(), calls_, it);
    return *calls_.front();
  }
  calls_.push_front(make_call(arguments));
  if (calls_.size() > kKeptCalls) calls_.pop_back();
  return *calls_.front();
}

Status Executor::bind(Call& call, const Arguments& arguments) const {
  const auto& items = arguments.items();
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const Argument& item = items[call.inputs[k]];
    AIPU_RETURN_IF_ERROR(call.session->bind_input(k, {item.what.dtype, item.what.shape, item.data}));
  }
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    const Argument& item = items[call.outputs[k]];
    AIPU_RETURN_IF_ERROR(call.session->bind_output(k, item.data, item.bytes));
  }
  return {};
}

// The executor's lock, waited for without the interpreter's.
std::unique_lock<std::mutex> Executor::lock_without_gil() {
  if (generation_ != fork_generation()) {
    // A child made by fork(), under the interpreter's lock. A thread that was running a kernel at the time is not here:
    // neither it nor its call comes back.
    if (mutex_.try_lock()) {
      mutex_.unlock();
    } else {
      new (&mutex_) std::mutex;
      calls_.clear();
    }
    generation_ = fork_generation();
  }
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    const py::gil_scoped_release released;
    lock.lock();
  }
  return lock;
}

void Executor::run(const py::args& args) {
  const Arguments arguments(*this, args);
  const auto lock = lock_without_gil();
  Call& call = prepare(arguments);
  Status status = bind(call, arguments);
  if (status.ok()) {
    const py::gil_scoped_release released;
    status = call.session->run();
    std::fflush(stdout);  // what the kernel printed, in order with what Python prints
  }
  if (!status.ok()) raise(PyExc_RuntimeError, status.message());
}

std::vector<double> Executor::benchmark(const py::args& args, int repeat, int number, double min_repeat_ms,
                                        int limit_zero_time_iterations, double cooldown_interval_ms,
                                        int repeats_to_cooldown) {
  const Arguments arguments(*this, args);
  const auto lock = lock_without_gil();
  Call& call = prepare(arguments);
  std::vector<double> results;
  Status status = bind(call, arguments);
  const py::gil_scoped_release released;
  const auto seconds_of = [&](int64_t runs) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < runs && status.ok(); ++i) status = call.session->run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  if (status.ok()) status = call.session->run();
  int64_t runs = std::max(number, 1);
  for (int r = 0; r < repeat && status.ok(); ++r) {
    double seconds = seconds_of(runs);
    for (int zero = 0;
         status.ok() && seconds * 1e3 < min_repeat_ms && (seconds > 0 || ++zero < limit_zero_time_iterations);) {
      const double grow = seconds > 0 ? min_repeat_ms / (seconds * 1e3) * 1.2 : 2;
      runs = std::max(runs + 1, static_cast<int64_t>(std::ceil(static_cast<double>(runs) * grow)));
      seconds = seconds_of(runs);
    }
    results.push_back(seconds / static_cast<double>(runs));
    if (cooldown_interval_ms > 0 && repeats_to_cooldown > 0 && (r + 1) % repeats_to_cooldown == 0) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(cooldown_interval_ms));
    }
  }
  if (!status.ok()) {
    const py::gil_scoped_acquire acquired;
    throw_status(status);
  }
  return results;
}

}  // namespace aipu::python
