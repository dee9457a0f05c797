// What the remote device and its process say to each other over a socket: frames of bytes, read in the order in which
// they were put together.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace aipu::test {

enum class Op : uint32_t {
  kProperties,
  kAllocate,
  kFree,
  kLoad,
  kUnload,
  kOpenQueue,
  kCloseQueue,
  kSubmit,
  kCancel,
  kClock,
  kReply,  // to all of these
  kDone    // a command, unasked
};

class Frame {
 public:
  Frame() = default;
  explicit Frame(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  template <typename T>
  Frame& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return put_bytes(&value, sizeof value);
  }
  Frame& put_bytes(const void* data, size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    if (size > 0) bytes_.insert(bytes_.end(), first, first + size);
    return *this;
  }
  Frame& put_block(const void* data, size_t size) { return put<uint64_t>(size).put_bytes(data, size); }

  template <typename T>
  T get() {
    T value;
    get_bytes(&value, sizeof value);
    return value;
  }
  void get_bytes(void* data, size_t size) {
    if (size > 0) std::memcpy(data, bytes_.data() + at_, size);
    at_ += size;
  }
  std::vector<std::byte> get_block() {
    std::vector<std::byte> block(get<uint64_t>());
    get_bytes(block.data(), block.size());
    return block;
  }
  std::string get_text() {
    const auto block = get_block();
    return {reinterpret_cast<const char*>(block.data()), block.size()};
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
};

inline bool send_all(int socket, const void* data, size_t size) {
  const auto* at = static_cast<const std::byte*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

inline bool receive_all(int socket, void* data, size_t size) {
  auto* at = static_cast<std::byte*>(data);
  while (size > 0) {
    const ssize_t received = ::recv(socket, at, size, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received;
    size -= static_cast<size_t>(received);
  }
  return true;
}

struct FrameHeader {
  Op op = Op::kReply;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
};

inline bool send_frame(int socket, Op op, const Frame& frame) {
  const FrameHeader header = {op, 0, frame.bytes().size()};
  return send_all(socket, &header, sizeof header) && send_all(socket, frame.bytes().data(), frame.bytes().size());
}

inline bool receive_frame(int socket, Op* op, Frame* frame) {
  FrameHeader header;
  if (!receive_all(socket, &header, sizeof header)) return false;
  std::vector<std::byte> bytes(header.bytes);
  if (!receive_all(socket, bytes.data(), bytes.size())) return false;
  *op = header.op;
  *frame = Frame(std::move(bytes));
  return true;
}

// A command, with what it points at behind it: waits, arguments, data to be copied in.
struct WireCommand {
  uint32_t kind, kernel, max_tecs, wait_count, argument_count;
  int32_t overlaps;
  uint64_t module, destination, source, width, rows;
  int64_t destination_stride, source_stride, operations, memory_limit_bytes, deadline_ns;
};

// What became of a command: then a line of text, and the data that was copied out.
struct WireDone {
  uint32_t queue;
  int32_t code;
  uint64_t command;
  uint32_t failed_queue, reserved;
  uint64_t failed_command;
  int64_t begin_ns, end_ns;
  long long fault[3];
};

}  // namespace aipu::test
