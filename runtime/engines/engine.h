// The engines: what executes one prepared command (executor/plan.h). Session::run() plays their buffers in order of
// sequence, in which all waits are satisfied (loader/check.h); each call returns when its command is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/backends/backend_api.h"
#include "runtime/base/status.h"
#include "runtime/executor/plan.h"
#include "runtime/executor/worker_pool.h"

namespace aipu::runtime {

// What a command takes on the device, and what its parts would alone; -1: not known.
struct CommandCycles {
  int64_t all = 0, compute = -1, dma = -1;
};

// A command as an engine gets it: its step, with the words of the sample at hand.
struct Call {
  const Step& step;
  const unsigned long long* words;
  const uint64_t* extents;
  const uint8_t* writable;
  aipu_fault_record* fault;  // what a kernel reports to
  int64_t memory_limit_bytes;
  int64_t deadline_ns;
  CommandCycles* cycles = nullptr;  // tec: if somebody asks
  int64_t bytes = 0;                // of the tensors, each once; then too
};

inline aipu_backend_launch launch_of(const Call& call, uint32_t max_tecs) {
  const bool counts = call.cycles != nullptr;
  return {call.step.kernel,
          call.step.word_count,
          call.words,
          call.extents,
          max_tecs,
          sizeof(aipu_backend_launch),
          call.writable,
          call.fault,
          call.memory_limit_bytes,
          call.deadline_ns,
          counts ? &call.cycles->all : nullptr,
          call.step.operations,
          call.bytes,
          counts ? &call.cycles->compute : nullptr,
          counts ? &call.cycles->dma : nullptr};
}

// Whether kernels can be run side by side, each by one TEC.
inline bool can_launch_alone(const aipu_backend& backend) {
  return backend.struct_bytes > offsetof(aipu_backend, launch_alone) && backend.launch_alone != nullptr;
}

// What a copy takes on the device's DMA engine; -1: the back end has no timing model for the session.
inline int64_t copy_cycles(const aipu_backend& backend, void* session, int64_t rows, int64_t row_bytes) {
  if (backend.struct_bytes <= offsetof(aipu_backend, copy_cycles) || backend.copy_cycles == nullptr) return -1;
  return backend.copy_cycles(session, rows, row_bytes);
}

// tec: a kernel launch, by the back end.
inline int run_tec(const aipu_backend& backend, void* session, const Call& call, aipu_backend_error* error) {
  const aipu_backend_launch launch = launch_of(call, call.step.max_tecs);
  return backend.launch(session, &launch, error);
}
// By TEC `tec` alone, on the calling thread.
inline int run_tec_alone(const aipu_backend& backend, void* session, const Call& call, uint32_t tec,
                         aipu_backend_error* error) {
  const aipu_backend_launch launch = launch_of(call, 1);
  return backend.launch_alone(session, &launch, tec, error);
}

// dma: a strided copy; a large one is spread over the workers of `pool`, which needs its acquire(), or done by the
// calling thread where that is null. Returns the threads used.
uint32_t run_dma(WorkerPool* pool, const Call& call);

// host, kBindSymbols: reads the elements of tensors at the addresses into symbols[first ..].
void bind_symbols(const fb::Model& model, std::span<const unsigned long long> addresses, uint32_t first,
                  std::span<SymbolValue> symbols);

}  // namespace aipu::runtime
