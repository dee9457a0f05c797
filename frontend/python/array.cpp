#include "frontend/python/array.h"

#include <string>
#include <string_view>

namespace aipu::python {

namespace py = pybind11;

namespace {

// The element type of a buffer by its format character; kVoid when the protocol cannot say, or for the byte order that
// is not this machine's.
DType dtype_of_format(const char* format, Py_ssize_t item_size) {
  if (format == nullptr) return item_size == 1 ? DType::kU8 : DType::kVoid;
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (format[0] == '\0' || format[1] != '\0') return DType::kVoid;
  const auto integer = [&](bool is_signed) {
    switch (item_size) {
      case 1:
        return is_signed ? DType::kI8 : DType::kU8;
      case 2:
        return is_signed ? DType::kI16 : DType::kU16;
      case 4:
        return is_signed ? DType::kI32 : DType::kU32;
      default:
        return is_signed ? DType::kI64 : DType::kU64;
    }
  };
  switch (format[0]) {
    case '?':
      return DType::kBool;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return integer(true);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return integer(false);
    case 'e':
      return DType::kF16;
    case 'f':
      return DType::kF32;
    case 'd':
      return DType::kF64;
    default:
      return DType::kVoid;
  }
}

// numpy.ndarray, looked up once.
PyTypeObject* ndarray_type() {
  static PyObject* type = py::object(py::module_::import("numpy").attr("ndarray")).release().ptr();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

bool is_masked_array(PyObject* object) {
  if (Py_TYPE(object) == ndarray_type() || !is_array(object)) return false;
  return py::isinstance(object, py::module_::import("numpy.ma").attr("MaskedArray"));
}

bool is_array(PyObject* object) { return PyObject_TypeCheck(object, ndarray_type()) != 0; }

DType dtype_of_array(py::handle array) {
  if (!array.attr("dtype").attr("isnative").cast<bool>()) return DType::kVoid;  // its name does not tell
  const std::string name = py::str(array.attr("dtype").attr("name"));
  const DType dtype = parse_dtype(name).value_or(DType::kVoid);
  return is_computed(dtype) ? dtype : DType::kVoid;  // of stored types only the codes are arrays here
}

ArrayBuffer::~ArrayBuffer() {
  if (held_) PyBuffer_Release(&view_);
}

bool ArrayBuffer::get(PyObject* object) {
  held_ = PyObject_GetBuffer(object, &view_, PyBUF_STRIDES | PyBUF_FORMAT) == 0;
  if (!held_) PyErr_Clear();
  return held_;
}

DType ArrayBuffer::acquire(const py::object& array) {
  if (get(array.ptr())) {
    const DType dtype = dtype_of_format(view_.format, view_.itemsize);
    if (dtype != DType::kVoid) return dtype;
    PyBuffer_Release(&view_);
    held_ = false;
  }
  const DType dtype = dtype_of_array(array);
  if (dtype == DType::kVoid) return dtype;
  const std::string bits = "uint" + std::to_string(dtype_bits(dtype));
  return get(array.attr("view")(py::str(bits)).ptr()) ? dtype : DType::kVoid;
}

bool ArrayBuffer::acquire_objects(const py::object& array) {
  if (!is_array(array.ptr()) || !get(array.ptr())) return false;
  if (std::string_view(view_.format == nullptr ? "" : view_.format) == "O" && is_contiguous('C')) return true;
  PyBuffer_Release(&view_);
  held_ = false;
  return false;
}

}  // namespace aipu::python
