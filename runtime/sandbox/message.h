// What the two ends of a sandbox say to each other: frames of a length and then numbers and texts in the order in which
// they are read, and the data of tensors behind a frame that says how much it is.
//
//   out: the process has loaded the model    frame {code, last, message | interface}
//   in:  kOpen, once                         frame {kOpen, limits of a session}
//   in:  kPrepare, kRun                      frame {request, shapes of the inputs}, and for kRun their data
//   out: the answer to any of them           frame {code, last, message | shapes of the outputs}, after kRun their data
//
// The end outside believes nothing that it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace aipu::runtime::sandbox {

constexpr int kSocket = 3, kModel = 4;  // file descriptors of the process inside
constexpr uint32_t kMostTensors = 1 << 16, kMostRank = 64;
constexpr uint64_t kMostFrameBytes = 64 << 20;

enum class Request : int64_t { kOpen, kPrepare, kRun };

class Writer {
 public:
  Writer() : bytes_(sizeof(uint64_t)) {}
  void number(int64_t value) { raw(&value, sizeof value); }
  void real(double value) { raw(&value, sizeof value); }
  void text(std::string_view value) {
    number(static_cast<int64_t>(value.size()));
    raw(value.data(), value.size());
  }
  void shape(std::span<const int64_t> extents) {
    number(static_cast<int64_t>(extents.size()));
    for (const int64_t extent : extents) number(extent);
  }
  // With the length in front.
  std::span<const std::byte> frame() {
    const uint64_t size = bytes_.size() - sizeof(uint64_t);
    std::memcpy(bytes_.data(), &size, sizeof size);
    return bytes_;
  }

 private:
  void raw(const void* data, size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  std::vector<std::byte> bytes_;
};

// After the first read beyond the end, or of a count that is too large, everything is zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  int64_t number() { return value<int64_t>(); }
  double real() { return value<double>(); }
  uint32_t count(uint32_t most) {
    const int64_t read = number();
    if (read < 0 || read > most) ok_ = false;
    return ok_ ? static_cast<uint32_t>(read) : 0;
  }
  std::string text() {
    const int64_t size = number();
    const auto bytes = raw(size < 0 ? SIZE_MAX : static_cast<size_t>(size));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> extents(count(kMostRank));
    for (int64_t& extent : extents) extent = number();
    return extents;
  }

 private:
  template <typename T>
  T value() {
    T result = 0;
    if (const auto bytes = raw(sizeof result); bytes.size() == sizeof result)
      std::memcpy(&result, bytes.data(), sizeof result);
    return result;
  }
  std::span<const std::byte> raw(size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto result = rest_.first(size);
    rest_ = rest_.subspan(size);
    return result;
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace aipu::runtime::sandbox
