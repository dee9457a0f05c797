// Operations that look into strings or encoded images. Libraries compute them (text_api.h), which are loaded when one
// is opened.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aipu_generated.h"
#include "runtime/base/status.h"
#include "runtime/text/text_api.h"

namespace aipu::runtime {

class TextOperation {
 public:
  static Result<TextOperation> open(fb::OperationLibrary library, const std::string& name,
                                    std::span<const std::string_view> texts, std::span<const int64_t> numbers);
  Status run(const aipu_text_pool& pool, std::span<const aipu_text_tensor> inputs,
             std::span<const aipu_text_tensor> outputs) const;

 private:
  struct Close {
    const aipu_text_library* library;
    void operator()(void* operation) const { library->close(operation); }
  };
  explicit TextOperation(std::unique_ptr<void, Close> operation) : operation_(std::move(operation)) {}

  std::unique_ptr<void, Close> operation_;
};

}  // namespace aipu::runtime
