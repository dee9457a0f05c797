// Elements of strings in .npy files: NumPy's U (UTF-32, little endian) and S (bytes), of one length, filled with zeros.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/session.h"
#include "runtime/tools/npy.h"

namespace aipu::tools {

struct StringDescr {
  bool is_wide;   // U
  size_t length;  // in code points or bytes
  size_t element_bytes() const { return is_wide ? 4 * length : length; }
};
// Of "<U12" or "|S3"; nothing for what is neither.
std::optional<StringDescr> string_descr(std::string_view descr);
// An array of strings; as many as the shape has elements.
Array array_of(std::vector<int64_t> shape, std::vector<std::string> texts);
// The same from elements one after the other.
Result<Array> strings_of(const StringDescr& descr, std::vector<int64_t> shape, std::span<const std::byte> data);
// The longest of them, in code points (at least 1); an error where one is no UTF-8.
Result<size_t> longest(std::span<const runtime::StringView> texts);
// So many code points of each.
std::vector<std::byte> wide_elements(std::span<const runtime::StringView> texts, size_t length);

}  // namespace aipu::tools
