// Reads and writes NumPy's .npy files. Reading is safe on any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace aipu::tools {

// A tensor that owns its elements, in C order.
struct Array {
  DType dtype = DType::kVoid;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;  // packed where the type is; of strings runtime::StringView
  std::shared_ptr<const std::vector<std::string>> texts = {};  // what these show
};

// Versions 1 to 3, little endian, C and Fortran order. Strings are U and S (npy_strings.h), not pickled objects.
// bfloat16 is NumPy's two-byte void, as ml_dtypes writes it.
// Errors name the file.
Result<Array> read_npy(const std::string& path);
Result<Array> parse_npy(std::span<const std::byte> file);
// The array as one of `dtype`, where that is a stored type (runtime/base/stored_type.h) and the array has the codes
// that it is held as, one after the other: the form in which such tensors are written. Any other array as it is.
Array with_type(Array array, DType dtype);

std::vector<std::byte> npy_header(DType dtype, std::span<const int64_t> shape);
Status write_npy(const std::string& path, DType dtype, std::span<const int64_t> shape, const void* data);

// Elements of a shape; an error if that overflows or an extent is negative.
Result<int64_t> element_count(std::span<const int64_t> shape);
std::string shape_text(std::span<const int64_t> shape);

}  // namespace aipu::tools
