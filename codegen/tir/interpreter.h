// The TIR interpreter: a first-class executor, the oracle for the C printer, the folder of constants.
//
// Memory-safe: every pointer knows the region it came from, every access is checked against it, and loops can be
// bounded, so TIR from an untrusted file can be run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"
#include "runtime/abi/kernel_abi.h"
#include "runtime/base/meter.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// One argument of the entry: a region of memory for a pointer, the ABI word for a scalar (kernel_abi.h).
struct InterpreterArgument {
  std::byte* data = nullptr;
  size_t bytes = 0;
  uint64_t word = 0;
  bool is_pointer = false;
  bool writable = true;  // of a pointer: a store through it, however it is moved or cast, is an error otherwise
};

struct InterpreterOptions {
  uint64_t max_steps =
      // statements executed per TEC before giving up with an error; 0 = unlimited. Counted per round of a loop and per
      // call.
      0;
  aipu_fault_record* fault = nullptr;  // what S.report_fault reports to, for interpret_all(); null: to nobody
  // Of steady_now_ns() (runtime/base/meter.h): the run ends with an error soon after it.
  int64_t deadline_ns = Meter::kNoLimit;
};

// A verified module in the compact form that is executed. Immutable: any number of threads may run it.
class InterpreterProgram;

// Errors: what verify() says, frames beyond a limit, and what `meter` says if there is one.
Result<std::shared_ptr<const InterpreterProgram>> compile_for_interpreter(const Module& module, Meter* meter = nullptr);

struct InterpreterNeeds {
  int64_t lsram_bytes = 0;    // per TEC
  int64_t shared_bytes = 0;   // per launch
  bool uses_barrier = false;  // all TECs must run concurrently
  int64_t private_bytes = 0;  // per TEC: variables, arrays and what the interpreter needs to run it
};
// Memory of a launch on so many TECs, which take turns unless they meet at barriers. May be more than 64 bits can
// count; it is the largest number then.
int64_t launch_bytes(const InterpreterNeeds& needs, int tec_count);
InterpreterNeeds interpreter_needs(const InterpreterProgram& program);

// Runs the entry as ONE TEC; `context` gives its id, its memories, its barrier. Out-of-bounds accesses, misuse and an
// exceeded step limit are errors that name the source line.
Status interpret(const InterpreterProgram& program, const aipu_tec_context& context,
                 std::span<const InterpreterArgument> arguments, const InterpreterOptions& options = {});
Status interpret(const Module& module, const aipu_tec_context& context, std::span<const InterpreterArgument> arguments,
                 const InterpreterOptions& options = {});

// Runs all `tec_count` TECs (concurrently if the module has barriers, else one after the other) with their memories
// allocated here. A TEC that is done, or failed, is not waited for at barriers.
Status interpret_all(const InterpreterProgram& program, int tec_count, std::span<const InterpreterArgument> arguments,
                     const InterpreterOptions& options = {});
Status interpret_all(const Module& module, int tec_count, std::span<const InterpreterArgument> arguments,
                     const InterpreterOptions& options = {});

}  // namespace aipu::tir
