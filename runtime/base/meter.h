// Counts what an operation on a file takes against what it may: memory that it holds, and time. Files that are not
// trusted can ask for any amount of both.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace aipu {

// Of the clock that deadlines are given in: steady, CLOCK_MONOTONIC on Linux.
inline int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Meter {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // `what` goes on: "loading", "a plan". The options, which errors name, raise the limits. 0 seconds: no limit.
  Meter(std::string_view what, int64_t bytes, std::string_view bytes_option, double seconds,
        std::string_view seconds_option)
      : what_(what), bytes_(bytes), bytes_option_(bytes_option), seconds_(seconds), seconds_option_(seconds_option) {
    // Beyond some centuries it is none.
    if (seconds > 0 && seconds < 9e9) deadline_ns_ = steady_now_ns() + static_cast<int64_t>(seconds * 1e9);
  }

  // Part of an operation whose caller knows the time limit: it says more when check_time() fails.
  Meter(std::string_view what, int64_t bytes, std::string_view bytes_option, int64_t deadline_ns)
      : what_(what), bytes_(bytes), bytes_option_(bytes_option), deadline_ns_(deadline_ns) {}

  // Before memory is allocated. What was taken is given back when all is over.
  Status take(int64_t bytes) {
    if (bytes <= bytes_ - taken_) {
      taken_ += bytes;
      return {};
    }
    return out_of_range(str_cat(what_, " takes more than ", bytes_, " bytes of memory; raise the limit (",
                                bytes_option_, ") if the file is to be trusted with more"));
  }
  Status check_time() const {
    if (deadline_ns_ == kNoLimit || steady_now_ns() < deadline_ns_) return {};
    if (seconds_option_.empty()) return out_of_range(str_cat(what_, " takes too long"));
    return out_of_range(str_cat(what_, " takes longer than ", text_of(seconds_), " s; raise the limit (",
                                seconds_option_, ") if the file is to be trusted with more"));
  }
  // The time is looked at once in a while: for loops with many short rounds.
  Status check_time_often() { return ++calls_ % 1024 == 0 ? check_time() : Status(); }

  int64_t bytes_taken() const { return taken_; }
  int64_t bytes_left() const { return bytes_ - taken_; }
  int64_t deadline_ns() const { return deadline_ns_; }

  // Without the zeros at the end.
  static std::string text_of(double seconds) {
    std::string text = std::to_string(seconds);
    text.erase(text.find_last_not_of('0') + 1);
    if (!text.empty() && text.back() == '.') text.pop_back();
    return text;
  }

 private:
  std::string what_;
  int64_t bytes_;
  std::string bytes_option_;
  double seconds_ = 0;
  std::string seconds_option_;
  int64_t deadline_ns_ = kNoLimit;
  int64_t taken_ = 0;
  uint32_t calls_ = 0;
};

}  // namespace aipu
