// Compares tensors the way the ONNX backend tests do, and makes random ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/dtype.h"
#include "runtime/tools/npy.h"

namespace aipu::tools {

struct TensorSpan {
  DType dtype = DType::kVoid;
  std::span<const int64_t> shape;
  const void* data = nullptr;
};
inline TensorSpan span_of(const Array& array) { return {array.dtype, array.shape, array.data.data()}; }

struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

struct Comparison {
  bool equal = false;
  double max_absolute = 0;  // largest differences found, over all elements
  double max_relative = 0;
  double mean_absolute = 0;
  std::string message;  // empty if equal: what differs, where, by how much
};

// dtype and shape must be equal; floats must satisfy |found - expected| <= atol + rtol * |expected|, NaN equals NaN,
// infinities equal themselves; the rest must be equal.
Comparison compare(const TensorSpan& found, const TensorSpan& expected, const Tolerance& tolerance);

// Element i as a double (integers above 2^53 lose digits).
double element_as_double(DType dtype, const void* data, int64_t i);

// Floats in [-1, 1), integers 0 or 1, reproducible from the seed on every machine.
Result<Array> random_array(DType dtype, std::span<const int64_t> shape, uint64_t seed);

// "min -0.2 max 0.7 mean 0.01"
std::string summary(const TensorSpan& tensor);

// The same of numbers that are looked at closely: "min -0.2 max 0.7 mean 0.01 std 0.3 zero 50 %", and how many are no
// numbers.
std::string statistics(const TensorSpan& tensor);

}  // namespace aipu::tools
