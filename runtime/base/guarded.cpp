#include "runtime/base/guarded.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>

namespace aipu {
namespace {

class Reserve {
 public:
  Reserve() { fill(); }

  void refill() noexcept {
    if (count_.load(std::memory_order_relaxed) == kSize) return;
    const std::lock_guard lock(mutex_);
    fill();
  }
  Status take() noexcept {
    const std::lock_guard lock(mutex_);
    if (count_ == 0) fill();
    // So many errors, and nowhere in between memory for one more: nothing can be said any more.
    if (count_ == 0) std::terminate();
    return std::move(errors_[--count_]);
  }

 private:
  static constexpr uint32_t kSize = 64;

  void fill() noexcept {
    try {
      for (; count_ < kSize; ++count_) errors_[count_] = out_of_range("out of memory");
    } catch (const std::bad_alloc&) {  // next time
    }
  }

  std::mutex mutex_;
  std::array<Status, kSize> errors_;
  std::atomic<uint32_t> count_{0};
};

Reserve reserve;

Status status_of_exception() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::system_error& error) {  // threads, the file system
      return io_error(error.what());
    } catch (const std::exception& error) {
      return internal_error(str_cat(error.what(), " (this is a bug in aipu)"));
    } catch (...) {
      return internal_error("unknown exception (this is a bug in aipu)");
    }
  } catch (...) {  // no memory for the message either
    return out_of_memory();
  }
}

}  // namespace

Status out_of_memory() noexcept { return reserve.take(); }
void refill_error_reserve() noexcept { reserve.refill(); }

Status current_exception_status(std::string_view where) noexcept {
  Status status = status_of_exception();
  if (where.empty()) return status;
  try {
    return std::move(status).context(where);
  } catch (const std::bad_alloc&) {
    return status;
  }
}

}  // namespace aipu
