// Lanes of evaluated values, and the state of the machine that intrinsics with effects see.
//
// Lanes lie in memory as in a tensor: a bool is one byte 0 or 1, fp16 and bf16 are their bit patterns. A pointer is one
// Pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/type.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// A pointer of the machine: a region of its memory and a byte offset, which may lie outside as long as nobody looks
// there. Region 0 is the null pointer's.
struct Pointer {
  uint32_t region = 0;
  uint32_t reserved = 0;
  int64_t offset = 0;
};

inline int64_t value_bytes(Type type) { return type.pointer ? static_cast<int64_t>(sizeof(Pointer)) : type.bytes(); }

// The type and lanes of a value, held by someone else.
struct LaneRef {
  Type type;
  std::byte* data = nullptr;

  template <typename T>
  T get(int64_t lane = 0) const {
    T value;
    std::memcpy(&value, data + lane * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T>
  void set(int64_t lane, T value) const {
    std::memcpy(data + lane * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
};

// The same, with its own storage.
struct LaneValue {
  Type type;
  std::vector<std::byte> bytes;

  LaneValue() = default;
  explicit LaneValue(Type t) : type(t), bytes(static_cast<size_t>(value_bytes(t))) {}
  LaneRef ref() const { return {type, const_cast<std::byte*>(bytes.data())}; }

  // integers and bools, sign- or zero-extended (a uint64 as its bit pattern)
  int64_t int_lane(int64_t lane = 0) const;
  double float_lane(int64_t lane = 0) const;   // floats
  void set_int(int64_t lane, int64_t value);   // wraps
  void set_float(int64_t lane, double value);  // rounds
};

// Any lane read as int64 (floats truncated) or double, and written with wrapping or rounding. Slow; for cold paths.
int64_t read_int_lane(Type type, const std::byte* data, int64_t lane);
double read_float_lane(Type type, const std::byte* data, int64_t lane);
void write_int_lane(Type type, std::byte* data, int64_t lane, int64_t value);
void write_float_lane(Type type, std::byte* data, int64_t lane, double value);

struct LaneCall {
  const IntrinsicCall& call;
  LaneRef result;  // zero before the call; data is null for void
  std::span<const LaneRef> operands;
  const LaneRef* mask;          // null: all lanes
  const LaneRef* pass_through;  // null: none
  MachineState* machine;        // null when folding constants: intrinsics that are not pure refuse

  bool active(int64_t lane) const { return mask == nullptr || mask->data[lane] != std::byte{0}; }
  int64_t attribute(std::string_view name, int64_t default_value = 0) const {
    return call.attribute(name, default_value);
  }
};

// What the interpreter (or another executor of intrinsics) provides.
class MachineState {
 public:
  virtual ~MachineState() = default;

  // The address of `bytes` bytes at pointer + byte_offset, or null if they do not all lie in the pointer's region (or
  // it is read-only and `write`).
  virtual std::byte* access(Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) = 0;
  // The message for an access that was refused.
  virtual Status access_error(Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) const = 0;

  virtual int tec_id() const = 0;
  virtual int tec_count() const = 0;
  virtual Status barrier() = 0;
  virtual void print(std::string_view text) = 0;
  // Data that the kernel cannot compute with (aipu_fault_record in kernel_abi.h).
  virtual void report_fault(int code, int64_t value, int64_t limit) = 0;
  // Before work whose amount is known only when running: in about a nanosecond each. An error: the time is over.
  virtual Status spend(int64_t work) {
    (void)work;
    return {};
  }

  // Pointers as integers and back; an integer that was made from no pointer of this machine gives one that can't be
  // accessed.
  virtual uint64_t address_of(Pointer pointer) = 0;
  virtual Pointer pointer_at(uint64_t address) = 0;

  // Events 0 .. 3 of this TEC.
  virtual Result<int> alloc_event() = 0;
  virtual Status free_event(int event) = 0;
  virtual bool event_in_use(int event) const = 0;
  // Asynchronous work that `event` signals: done some time between here and wait_event(); of one event in the order of
  // the calls. Here: at once.
  virtual Status start(int event, std::function<Status()> work) {  // NOLINT(performance-unnecessary-value-param): kept
    (void)event;
    return work();
  }
  virtual Status wait_event(int event) {
    (void)event;
    return {};
  }
};

}  // namespace aipu::tir
