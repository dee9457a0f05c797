// Aligned memory that only grows; what it held is lost when it does.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "runtime/base/status.h"

namespace aipu::runtime {

// Aligned to 64 bytes; from 2 MiB on in huge pages where the kernel has them: activations are strided through, and each
// page of 4 KiB would be a miss in the translation cache. To be freed with free(); null if there is no memory.
inline std::byte* allocate_aligned(int64_t bytes) {
  constexpr int64_t kHugePage = int64_t{1} << 21;
  void* memory = nullptr;
  if (::posix_memalign(&memory, bytes < kHugePage ? 64 : kHugePage, static_cast<size_t>(bytes)) != 0) return nullptr;
  // Whole huge pages only: the rest is not worth the memory. A kernel that refuses gives small pages, which work too.
  if (bytes >= kHugePage) ::madvise(memory, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

// Memory of allocate_aligned().
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
    data_.reset(allocate_aligned(rounded));
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
