// What a library of operations is made of (text_api.h): libaipu_text.so, and libaipu_image.so (runtime/image).
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string_view>

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

class Operation {
 public:
  virtual ~Operation() = default;
  // Any number of threads at a time.
  virtual Status run(const Arguments& arguments) const = 0;
};
using MadeOperation = Result<std::unique_ptr<Operation>>;

struct Row {
  std::string_view name;
  size_t texts, numbers;  // that it is told
  MadeOperation (*make)(const Given&);
};

// What the library has that is linked with library.cpp; it says so itself.
struct Contents {
  std::string_view file;
  std::span<const Row> rows;
};
Contents contents();

// The border: nothing throws behind it.
const aipu_text_library* library();

}  // namespace aipu::text
