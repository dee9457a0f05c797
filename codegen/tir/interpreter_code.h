// What the interpreter executes: instructions over slots of one frame. Private to the interpreter.
//
// There is no recursion, so every function has its own part of the frame and every buffer its fixed region. Slots hold
// values as lanes.h describes them; the constants are at the start of the frame.
#pragma once

#include <memory>
#include <vector>

#include "codegen/intrinsics/lanes.h"
#include "codegen/tir/interpreter.h"

namespace aipu::tir {

struct Instruction;
class Machine;
// Executes one instruction and returns the next one; null: the end, or an error in Machine::error.
using Handler = const Instruction* (*)(const Instruction* in, Machine& machine);

struct CallSite {
  const IntrinsicCall* call;
  Type result;
  std::vector<std::pair<Type, uint32_t>> operands;  // type and slot
  uint32_t mask = 0, pass_through = 0;
  bool has_mask = false, has_pass_through = false;
  Type pass_through_type;
};

struct Instruction {
  Handler run = nullptr;
  uint32_t dst = 0, a = 0, b = 0, c = 0;  // byte offsets in the frame
  int32_t n = 0;                          // lanes, or what the handler says
  int32_t target = 0;                     // of jumps: index of an instruction
  union {
    int64_t number = 0;
    const CallSite* site;
  };
};

struct RegionPlan {
  enum class Kind : uint8_t { kFrame, kLsram, kShared, kConstant, kArgument };
  Kind kind;
  int64_t offset = 0;  // in the frame, lsram, shared; of an argument: its index
  int64_t bytes = 0;
  const std::byte* data = nullptr;  // kConstant
};

class InterpreterProgram {
 public:
  Module module;  // keeps what the instructions point to
  std::vector<Instruction> code;
  std::vector<const StmtNode*> where;  // per instruction, may be null
  std::vector<std::unique_ptr<CallSite>> sites;
  std::vector<RegionPlan> regions;  // 1 .. ; region 0 is null
  std::vector<std::byte> constants;
  std::vector<uint32_t> param_slots;
  std::vector<uint32_t> argument_regions;  // per parameter, 0 for scalars
  int64_t frame_bytes = 0;
  InterpreterNeeds needs;
};

struct Region {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  bool writable = true;
  uint64_t address = 0;  // as S.reinterpret shows it
};

class Machine final : public MachineState {
 public:
  Machine(const InterpreterProgram& program, const aipu_tec_context& context, const InterpreterOptions& options);

  Status start(std::span<const InterpreterArgument> arguments);
  Status run();

  std::byte* access(Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) override {
    if (pointer.region >= regions_.size()) return nullptr;
    const Region& region = regions_[pointer.region];
    int64_t offset;
    if (__builtin_add_overflow(pointer.offset, byte_offset, &offset) || offset < 0 || bytes < 0 ||
        bytes > region.bytes || offset > region.bytes - bytes || (write && !region.writable)) {
      return nullptr;
    }
    return region.data + offset;
  }
  Status access_error(Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) const override;
  int tec_id() const override { return context_.tec_id; }
  int tec_count() const override { return context_.tec_count; }
  Status barrier() override;
  void print(std::string_view text) override;
  void report_fault(int code, int64_t value, int64_t limit) override;
  uint64_t address_of(Pointer pointer) override;
  Pointer pointer_at(uint64_t address) override;
  Result<int> alloc_event() override;
  Status free_event(int event) override;
  bool event_in_use(int event) const override { return event >= 0 && event < kEvents && events_[event]; }
  // As late as the language allows, where native code does it as early: programs that forget to wait give two results.
  Status start(int event, std::function<Status()> work) override;
  Status wait_event(int event) override;

  template <typename T>
  T* at(uint32_t slot) {
    return reinterpret_cast<T*>(frame + slot);
  }
  template <typename T>
  T& value(uint32_t slot) {
    return *at<T>(slot);
  }
  const Instruction* code() const { return program_.code.data(); }
  const Instruction* fail(const Instruction* in, Status status) {
    error_ = std::move(status);
    failed_ = in;
    return nullptr;
  }
  // Counts statements, and work of about a nanosecond each, after which the clock is looked at once in a while; false:
  // a limit is exceeded, which is error() then.
  bool step(int64_t statements, int64_t work) {
    steps_ += static_cast<uint64_t>(statements);
    work_left_ -= work;
    return (steps_ <= max_steps_ && work_left_ > 0) || within_limits();
  }
  Status spend(int64_t work) override { return step(0, work) ? Status() : std::move(limit_error_); }
  Status limit_error() { return std::move(limit_error_); }
  uintptr_t real_address(Pointer pointer) const {
    const std::byte* base = pointer.region < regions_.size() ? regions_[pointer.region].data : nullptr;
    return reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(pointer.offset);
  }

  std::byte* frame = nullptr;
  std::vector<const Instruction*> returns;

 private:
  const InterpreterProgram& program_;
  const aipu_tec_context& context_;
  uint64_t max_steps_;
  uint64_t steps_ = 0;
  int64_t deadline_ns_;
  int64_t work_left_ = kWorkPerLook;
  Status limit_error_;
  static constexpr int64_t kWorkPerLook = 1 << 20;
  bool within_limits();
  std::vector<std::byte> storage_;
  std::vector<Region> regions_;
  static constexpr int kEvents = 4;               // per TEC
  static constexpr size_t kMaxStarted = 1 << 16;  // copies that an event waits for: each is remembered
  bool events_[kEvents] = {};
  std::vector<std::function<Status()>> started_[kEvents];  // and not waited for yet
  Status error_;
  const Instruction* failed_ = nullptr;
};

// The handlers, chosen by type. Null: there is none for these types.
namespace ops {

Handler binary(BinaryOp op, DType element, int lanes);
Handler compare(BinaryOp op, DType element);
Handler unary_not(DType element);       // ~ and not
Handler convert(DType to, DType from);  // the hot ones; the others go through the intrinsic "cast"
Handler broadcast(DType element);
Handler select_lanes(DType element);              // dst = c ? a : b, lane by lane
Handler fma(DType element, int lanes);            // dst = a + b * c
Handler copy();                                   // number bytes
Handler load(int64_t bytes, DType index);         // dst = a[b]; number: bytes
Handler store(int64_t bytes, DType index);        // a[b] = c
Handler vector_load();                            // dst = bytes at pointer a; number: bytes
Handler vector_store();                           // bytes at pointer a = c
Handler pointer_add(DType index, bool subtract);  // dst = a + b; number: bytes of the pointee
Handler pointer_compare(BinaryOp op);
Handler lane_read(int64_t bytes, DType index);   // dst = a[b] of n lanes
Handler lane_write(int64_t bytes, DType index);  // dst[b] = c of n lanes
Handler jump();
Handler jump_if(bool value);        // on slot a
Handler loop_enter(DType element);  // dst: variable, a: stop, b: step; goes to target when there is no first round
Handler loop_next(DType element);   // goes to target for another round; n: statements, number: work per round
Handler loop_jump();                // a jump back; n: statements, number: work per round
Handler call();                     // to target; n: statements; number: work of the function
Handler return_();
Handler intrinsic();
Handler tec_id();
Handler tec_count();
Handler work();  // number: what the instructions since the last look at the clock have done

}  // namespace ops

}  // namespace aipu::tir
