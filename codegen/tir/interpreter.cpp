#include "codegen/tir/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <new>

#include "codegen/tir/interpreter_code.h"
#include "codegen/tir/text.h"
#include "runtime/base/checked_math.h"
#include "runtime/base/guarded.h"
#include "runtime/base/parallel.h"

namespace aipu::tir {
namespace {

// A barrier that does not wait for TECs that are done.
class TeamBarrier {
 public:
  explicit TeamBarrier(int members) : members_(members) {}

  void wait() {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (++waiting_ >= members_) return open();
    changed_.wait(lock, [&] { return round_ != round; });
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --members_;
    if (waiting_ > 0 && waiting_ >= members_) open();
  }

 private:
  void open() {
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int members_;
  int waiting_ = 0;
  uint64_t round_ = 0;
};

struct AlignedMemory {
  explicit AlignedMemory(int64_t size) : bytes(static_cast<size_t>(size) + 64) {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    data = reinterpret_cast<unsigned char*>(bytes.data() + (64 - address % 64) % 64);
  }
  std::vector<std::byte> bytes;
  unsigned char* data;
};

void print_to_stdout(const aipu_tec_context*, const char* text, unsigned long size) {
  std::fwrite(text, 1, size, stdout);
}

}  // namespace

Machine::Machine(const InterpreterProgram& program, const aipu_tec_context& context, const InterpreterOptions& options)
    : program_(program),
      context_(context),
      max_steps_(options.max_steps == 0 ? UINT64_MAX : options.max_steps),
      deadline_ns_(options.deadline_ns) {}

Status Machine::start(std::span<const InterpreterArgument> arguments) {
  const PrimFunc& entry = program_.module.entry();
  if (arguments.size() != entry.params.size()) {
    return invalid_argument(fmt::format("The function \"{}\" expect {} args, but got: \"{}\".", entry.name,
                                        entry.params.size(), arguments.size()));
  }
  const InterpreterNeeds& needs = program_.needs;
  if (needs.lsram_bytes > 0 && (context_.lsram == nullptr || context_.lsram_size < needs.lsram_bytes)) {
    return out_of_range(
        fmt::format("'{}' needs {} bytes of lsram, there are {}", entry.name, needs.lsram_bytes, context_.lsram_size));
  }
  if (needs.shared_bytes > 0 && (context_.shared == nullptr || context_.shared_size < needs.shared_bytes)) {
    return out_of_range(fmt::format("'{}' needs {} bytes of shared memory, there are {}", entry.name,
                                    needs.shared_bytes, context_.shared_size));
  }
  storage_.resize(static_cast<size_t>(program_.frame_bytes) + 64);
  frame = storage_.data() + (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64;
  if (!program_.constants.empty()) {
    std::memcpy(frame + program_.frame_bytes - static_cast<int64_t>(program_.constants.size()),
                program_.constants.data(), program_.constants.size());
  }
  uint64_t address = 0x1000;
  for (const RegionPlan& plan : program_.regions) {
    Region region{nullptr, plan.bytes, true, address};
    switch (plan.kind) {
      case RegionPlan::Kind::kFrame:
        region.data = frame + plan.offset;
        break;
      case RegionPlan::Kind::kLsram:
        region.data = reinterpret_cast<std::byte*>(context_.lsram) + plan.offset;
        break;
      case RegionPlan::Kind::kShared:
        region.data = reinterpret_cast<std::byte*>(context_.shared) + plan.offset;
        break;
      case RegionPlan::Kind::kConstant:
        region.data = const_cast<std::byte*>(plan.data);  // writable is false
        region.writable = false;
        break;
      case RegionPlan::Kind::kArgument: {
        const InterpreterArgument& argument = arguments[static_cast<size_t>(plan.offset)];
        region.data = argument.data;
        region.bytes = argument.data ? static_cast<int64_t>(argument.bytes) : 0;
        region.writable = argument.writable;
        break;
      }
    }
    address += (static_cast<uint64_t>(region.bytes) + 0x1fff) / 0x1000 * 0x1000;
    regions_.push_back(region);
  }
  regions_[0] = {nullptr, 0, false, 0};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const InterpreterArgument& argument = arguments[i];
    const Type type = entry.params[i]->type;
    if (type.pointer != argument.is_pointer) {
      return invalid_argument(
          fmt::format("argument {} of '{}' must be a {}", i, entry.name, type.pointer ? "pointer" : "scalar"));
    }
    const uint32_t slot = program_.param_slots[i];
    if (type.pointer) {
      value<Pointer>(slot) = {argument.data ? program_.argument_regions[i] : 0, 0, 0};
    } else if (is_bool(type.element)) {
      value<uint8_t>(slot) = argument.word != 0;
    } else {
      std::memcpy(frame + slot, &argument.word, dtype_bytes(type.element));
    }
  }
  return {};
}

Status Machine::run() {
  const Instruction* next = code();
  while (next != nullptr) next = next->run(next, *this);
  // The end of a kernel is a barrier, which waits for what has been started.
  for (int event = 0; event < kEvents && error_.ok(); ++event) error_ = wait_event(event);
  if (error_.ok()) return {};
  std::string where = program_.module.entry().name;
  if (failed_ != nullptr) {
    if (const StmtNode* stmt = program_.where[static_cast<size_t>(failed_ - code())]) {
      std::string line;
      if (stmt->span.file) where += fmt::format(": {}:{}", *stmt->span.file, stmt->span.line);
      line = print_stmt(Stmt(Stmt(), stmt));
      line = line.substr(0, std::min(line.find('\n'), line.find("  @\"")));
      if (line.size() > 120) line = line.substr(0, 117) + "...";
      where += fmt::format(": `{}`", line);
    }
  }
  return std::move(error_).context(where);
}

bool Machine::within_limits() {
  if (steps_ > max_steps_) {
    limit_error_ = out_of_range("the limit of executed statements is exceeded");
    return false;
  }
  work_left_ = kWorkPerLook;
  if (deadline_ns_ == Meter::kNoLimit || steady_now_ns() < deadline_ns_) return true;
  limit_error_ = out_of_range("the time is over");
  return false;
}

Status Machine::access_error(Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) const {
  const std::string_view verb = write ? "write" : "read";
  if (pointer.region == 0 || pointer.region >= regions_.size())
    return invalid_argument(fmt::format("Out of bounds. A {} through a null pointer", verb));
  const Region& region = regions_[pointer.region];
  if (write && !region.writable) {
    const RegionPlan& plan = program_.regions[pointer.region];
    if (plan.kind != RegionPlan::Kind::kArgument) return invalid_argument("a write to constant memory");
    const Var& param = *program_.module.entry().params[static_cast<size_t>(plan.offset)];
    return invalid_argument(
        fmt::format("a write to argument {} '{}', which this launch may only read", plan.offset, param.name));
  }
  return invalid_argument(fmt::format(
      "Out of bounds. A {} of {} bytes at byte {} of {}", verb, bytes,
      static_cast<int64_t>(static_cast<uint64_t>(pointer.offset) + static_cast<uint64_t>(byte_offset)), region.bytes));
}

Status Machine::barrier() {
  for (int event = 0; event < kEvents; ++event) AIPU_RETURN_IF_ERROR(wait_event(event));
  if (context_.tec_count <= 1) return {};
  if (context_.barrier == nullptr) return unsupported("PySim can't be run in single thread for this DSL program.");
  context_.barrier(&context_);
  return {};
}

void Machine::print(std::string_view text) {
  if (context_.print != nullptr) context_.print(&context_, text.data(), text.size());
}

void Machine::report_fault(int code, int64_t value, int64_t limit) {
  if (context_.fault != nullptr) aipu_report_fault(context_.fault, code, value, limit);
}

uint64_t Machine::address_of(Pointer pointer) {
  if (pointer.region == 0 || pointer.region >= regions_.size()) return static_cast<uint64_t>(pointer.offset);
  return regions_[pointer.region].address + static_cast<uint64_t>(pointer.offset);
}

Pointer Machine::pointer_at(uint64_t address) {
  // The last one that begins before it; region 0 begins at 0, and the others do not touch.
  const auto next = std::upper_bound(regions_.begin(), regions_.end(), address,
                                     [](uint64_t value, const Region& region) { return value < region.address; });
  const auto region = std::prev(next);
  const uint64_t offset = address - region->address;
  if (region == regions_.begin() || offset > static_cast<uint64_t>(region->bytes))
    return {0, 0, static_cast<int64_t>(address)};
  return {static_cast<uint32_t>(region - regions_.begin()), 0, static_cast<int64_t>(offset)};
}

Result<int> Machine::alloc_event() {
  for (int i = 0; i < kEvents; ++i) {
    if (events_[i]) continue;
    events_[i] = true;
    return i;
  }
  return invalid_argument("Only remain 0 events, but allocate 1.");
}

Status Machine::free_event(int event) {
  if (!event_in_use(event)) return invalid_argument("The released event can not be used anymore.");
  AIPU_RETURN_IF_ERROR(wait_event(event));
  events_[event] = false;
  return {};
}

Status Machine::start(int event, std::function<Status()> work) {
  if (started_[event].size() >= kMaxStarted)
    return out_of_range(fmt::format("more than {} copies of one event are not waited for", kMaxStarted));
  started_[event].push_back(std::move(work));
  return {};
}

Status Machine::wait_event(int event) {
  const std::vector<std::function<Status()>> work = std::exchange(started_[event], {});
  for (const auto& one : work) AIPU_RETURN_IF_ERROR(one());
  return {};
}

InterpreterNeeds interpreter_needs(const InterpreterProgram& program) {
  InterpreterNeeds needs = program.needs;
  needs.private_bytes = program.frame_bytes + static_cast<int64_t>(program.regions.size() * sizeof(Region));
  return needs;
}

int64_t launch_bytes(const InterpreterNeeds& needs, int tec_count) {
  const auto per_tec = checked_add(needs.lsram_bytes, needs.private_bytes);
  const auto of_tecs = per_tec ? checked_mul(*per_tec, needs.uses_barrier ? tec_count : 1) : std::nullopt;
  const auto all = of_tecs ? checked_add(*of_tecs, needs.shared_bytes) : std::nullopt;
  return all.value_or(Meter::kNoLimit);
}

Status interpret(const InterpreterProgram& program, const aipu_tec_context& context,
                 std::span<const InterpreterArgument> arguments, const InterpreterOptions& options) {
  Machine machine(program, context, options);
  AIPU_RETURN_IF_ERROR(machine.start(arguments));
  return machine.run();
}

Status interpret(const Module& module, const aipu_tec_context& context, std::span<const InterpreterArgument> arguments,
                 const InterpreterOptions& options) {
  AIPU_ASSIGN_OR_RETURN(const auto program, compile_for_interpreter(module));
  return interpret(*program, context, arguments, options);
}

Status interpret_all(const InterpreterProgram& program, int tec_count, std::span<const InterpreterArgument> arguments,
                     const InterpreterOptions& options) {
  if (tec_count < 1) return invalid_argument("at least one TEC is needed");
  const InterpreterNeeds needs = interpreter_needs(program);
  AlignedMemory shared(needs.shared_bytes);
  TeamBarrier barrier(tec_count);
  std::vector<Status> results(static_cast<size_t>(tec_count));
  const auto run_one = [&](int id) {
    const AlignedMemory lsram(needs.lsram_bytes);
    aipu_tec_context context{};
    context.tec_id = id;
    context.tec_count = tec_count;
    context.lsram = lsram.data;
    context.lsram_size = static_cast<unsigned>(needs.lsram_bytes);
    context.shared = shared.data;
    context.shared_size = static_cast<unsigned>(needs.shared_bytes);
    context.barrier = [](const aipu_tec_context* self) { static_cast<TeamBarrier*>(self->backend)->wait(); };
    context.print = print_to_stdout;
    context.backend = &barrier;
    context.fault = options.fault;
    return interpret(program, context, arguments, options);
  };
  const auto run_tec = [&](int id) {
    // In a thread, which no exception may leave.
    results[static_cast<size_t>(id)] = guarded([&] { return run_one(id); });
    barrier.leave();
  };
  if (needs.uses_barrier && tec_count > 1) {
    // TECs meet at barriers: none begins before all have a thread.
    std::atomic<int> gate{0};  // 1: go, -1: go home
    bool complete = true;
    {
      ThreadTeam others;
      for (int id = 1; id < tec_count && complete; ++id) {
        complete = others.start([&, id] {
          gate.wait(0);
          if (gate > 0) run_tec(id);
        });
      }
      gate = complete ? 1 : -1;
      gate.notify_all();
      if (complete) run_tec(0);
    }
    if (!complete) return out_of_range(str_cat("the system has no ", tec_count, " threads for as many TECs that meet"));
  } else {
    for (int id = 0; id < tec_count; ++id) {
      run_tec(id);
      if (!results[static_cast<size_t>(id)].ok()) break;
    }
  }
  for (Status& result : results) AIPU_RETURN_IF_ERROR(std::move(result));
  return {};
}

Status interpret_all(const Module& module, int tec_count, std::span<const InterpreterArgument> arguments,
                     const InterpreterOptions& options) {
  AIPU_ASSIGN_OR_RETURN(const auto program, compile_for_interpreter(module));
  return interpret_all(*program, tec_count, arguments, options);
}

}  // namespace aipu::tir
