// NumPy arrays through Python's buffer protocol (pybind11 2.10 knows NumPy 1 only).
#pragma once

#include <pybind11/pybind11.h>

#include <span>

#include "runtime/base/dtype.h"

namespace aipu::python {

bool is_array(PyObject* object);
// Whether some elements of an array may not count, which nothing here would respect.
bool is_masked_array(PyObject* object);
// The element type of a NumPy array by its dtype's name; kVoid for others, and for those in the other byte order.
DType dtype_of_array(pybind11::handle array);

// A view of an array's memory, released when it goes. Types that the protocol does not know (bfloat16) are seen as
// integers of their size.
class ArrayBuffer {
 public:
  ArrayBuffer() = default;
  ArrayBuffer(const ArrayBuffer&) = delete;
  ArrayBuffer& operator=(const ArrayBuffer&) = delete;
  ~ArrayBuffer();
  // The element type; kVoid, and nothing is held, for types that are none of ours.
  DType acquire(const pybind11::object& array);
  // Whether it is an array of Python objects, in C order; nothing is held of others.
  bool acquire_objects(const pybind11::object& array);
  std::span<PyObject*> objects() const {
    return {static_cast<PyObject**>(view_.buf), static_cast<size_t>(view_.len) / sizeof(PyObject*)};
  }
  const Py_buffer& view() const { return view_; }
  bool is_contiguous(char order) const { return PyBuffer_IsContiguous(&view_, order) != 0; }

 private:
  bool get(PyObject* object);

  Py_buffer view_ = {};
  bool held_ = false;
};

}  // namespace aipu::python
