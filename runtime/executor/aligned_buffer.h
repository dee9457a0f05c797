// 64-byte aligned memory that only grows; what it held is lost when it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "runtime/base/status.h"

namespace aipu::runtime {

class AlignedBuffer {
 public:
  std::byte* data() const { return data_.get(); }
  int64_t size() const { return size_; }

  // At least `bytes`, and never nothing: an empty tensor has an address too.
  Status reserve(int64_t bytes) {
    if (bytes <= size_ && data_ != nullptr) return {};
    if (bytes > INT64_MAX - 63) return out_of_range(str_cat("no memory for ", bytes, " bytes"));
    const int64_t rounded = bytes <= 0 ? 64 : (bytes + 63) / 64 * 64;
    data_.reset();
    size_ = 0;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(rounded))));
    if (data_ == nullptr) return out_of_range(str_cat("no memory for ", rounded, " bytes"));
    size_ = rounded;
    return {};
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t size_ = 0;
};

}  // namespace aipu::runtime
