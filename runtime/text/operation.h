// Operations of libaipu_text.so (text_api.h), one class each.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/text/text_api.h"

namespace aipu::text {

// What an operation is told when it is opened.
struct Given {
  std::span<const aipu_text> texts;
  std::span<const int64_t> numbers;
  std::string_view text(size_t i) const { return {texts[i].data, texts[i].size}; }
};

// What it is run on.
struct Arguments {
  const aipu_text_pool& pool;
  std::span<const aipu_text_tensor> inputs, outputs;

  // The string that element k of a tensor is the number of.
  Result<std::string_view> at(const aipu_text_tensor& tensor, size_t k) const {
    int64_t number = 0;
    std::memcpy(&number, static_cast<const std::byte*>(tensor.data) + 8 * k, 8);
    aipu_text text = {};
    if (pool.text(pool.self, number, &text) == 0)
      return invalid_argument(str_cat("element ", k, " is the number ", number, ", which no string of the run has"));
    return std::string_view(text.data, text.size);
  }
  Status put(const aipu_text_tensor& tensor, size_t k, std::string_view text) const {
    const int64_t number = pool.number(pool.self, text.data(), text.size());
    if (number < 0) return out_of_range("there is no room for another string");
    std::memcpy(static_cast<std::byte*>(tensor.data) + 8 * k, &number, 8);
    return {};
  }
};

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

class Operation {
 public:
  virtual ~Operation() = default;
  // Any number of threads at a time.
  virtual Status run(const Arguments& arguments) const = 0;
};
using MadeOperation = Result<std::unique_ptr<Operation>>;

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

}  // namespace aipu::text
