// The engines: what executes one prepared command (executor/plan.h). Session::run() plays their buffers in order of sequence, in which all
// waits are satisfied (loader/check.h); each call returns when its command is done.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/backends/backend_api.h"
#include "runtime/base/status.h"
#include "runtime/executor/plan.h"
#include "runtime/executor/worker_pool.h"

namespace aipu::runtime {

// tec: a kernel launch, by the back end.
inline int run_tec(const aipu_backend& backend, void* session, const StagePlan& plan, const Step& step, aipu_backend_error* error) {
  const aipu_backend_launch launch = {
      step.kernel, step.word_count, plan.words.data() + step.first_word, plan.extents.data() + step.first_word, step.max_tecs, 0};
  return backend.launch(session, &launch, error);
}

// dma: a strided copy; a large one is spread over the workers. Needs the pool's acquire(). Returns the threads used.
uint32_t run_dma(WorkerPool& pool, const StagePlan& plan, const Step& step);

// host, kBindSymbols: reads `count` elements of the given tensors into symbols[first ..].
void bind_symbols(const fb::Model& model, const StagePlan& plan, const Step& step, uint32_t first, std::span<SymbolValue> symbols);

}  // namespace aipu::runtime
