// Operations of libaipu_text.so (text_api.h), one class each.
#pragma once

#include <cstring>

#include "runtime/base/dtype.h"
#include "runtime/text/library.h"

namespace aipu::text {

inline bool has_strings(const aipu_text_tensor& tensor) { return tensor.dtype == static_cast<uint32_t>(DType::kI64); }

// That there are so many inputs and one output; the first `texts` inputs are strings, all as many as the first.
inline Status expect(const Arguments& arguments, size_t inputs, size_t texts) {
  bool fits = arguments.inputs.size() == inputs && arguments.outputs.size() == 1;
  for (size_t i = 0; i < texts && fits; ++i)
    fits = has_strings(arguments.inputs[i]) && arguments.inputs[i].count == arguments.inputs[0].count;
  return fits ? Status() : invalid_argument("is run on tensors that do not fit it");
}
// That the output has `count` elements of the type.
inline Status expect_output(const Arguments& arguments, DType dtype, size_t count) {
  if (arguments.outputs[0].dtype == static_cast<uint32_t>(dtype) && arguments.outputs[0].count == count) return {};
  return invalid_argument("is run on tensors that do not fit it");
}

template <typename T>
void store(const aipu_text_tensor& tensor, size_t k, T value) {
  std::memcpy(static_cast<std::byte*>(tensor.data) + k * sizeof(T), &value, sizeof(T));
}

// hash.cpp
MadeOperation make_murmur_hash(const Given& given);
// letter_case.cpp
MadeOperation make_change_case(const Given& given);
// numbers.cpp
MadeOperation make_number_to_text(const Given& given);
MadeOperation make_text_to_number(const Given& given);
// pieces.cpp
MadeOperation make_string_concat(const Given& given);
MadeOperation make_count_pieces(const Given& given);
MadeOperation make_split_pieces(const Given& given);
// regular_expression.cpp
MadeOperation make_regex_full_match(const Given& given);
MadeOperation make_count_tokens(const Given& given);
MadeOperation make_find_tokens(const Given& given);

}  // namespace aipu::text
