// The back end of this machine: TECs are the session's worker threads, kernels are the model's native module.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "runtime/backends/native_module.h"
#include "runtime/base/guarded.h"
#include "runtime/executor/aligned_buffer.h"

namespace aipu::runtime {
namespace {

struct HostModule {
  explicit HostModule(NativeModule loaded) : native(std::move(loaded)) {}

  NativeModule native;
  struct KernelNeeds {
    uint32_t lsram_bytes, shared_bytes;
    bool uses_barrier;
  };
  std::vector<KernelNeeds> kernels;
  uint32_t lsram_bytes = 0, shared_bytes = 0;  // the most that any kernel needs
  uint32_t tec_count = 0;
};

// All TECs of a launch that have not returned yet meet. They usually run on CPUs of their own (WorkerPool), so they
// spin.
class SpinBarrier {
 public:
  void reset(uint32_t count) { state_.store(count, std::memory_order_relaxed); }
  void wait() {
    const uint32_t generation = generation_.load(std::memory_order_acquire);
    const uint32_t before = state_.fetch_add(kArrival, std::memory_order_acq_rel);
    if (open_if_complete(before + kArrival)) return;
    for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      // Another process has the CPU of a TEC that is still missing: let that one get on.
      if (spins >= 4096) {
        ::sched_yield();
        spins = 0;
      }
    }
  }
  // For a TEC that has returned: the others do not wait for it.
  void leave() { open_if_complete(state_.fetch_sub(1, std::memory_order_acq_rel) - 1); }

 private:
  static constexpr uint32_t kArrival = 1 << 16;

  // Once all members have arrived nobody is left who could arrive or leave, so exactly one of them sees it.
  bool open_if_complete(uint32_t state) {
    const uint32_t arrived = state / kArrival;
    if (arrived == 0 || arrived != state % kArrival) return false;
    state_.fetch_sub(arrived * kArrival, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    return true;
  }

  alignas(128) std::atomic<uint32_t> state_{1};  // members, and above them those who have arrived
  alignas(128) std::atomic<uint32_t> generation_{0};
};

struct HostSession {
  const HostModule* module = nullptr;
  aipu_backend_services services = {};
  uint32_t tec_count = 1;
  SpinBarrier barrier;
  std::vector<AlignedBuffer> lsram;
  AlignedBuffer shared;
  // One line each: a context is read by its own TEC only.
  struct alignas(128) Context {
    aipu_tec_context context = {};
  };
  std::unique_ptr<Context[]> contexts;
  // For launches of one TEC each, side by side.
  std::unique_ptr<Context[]> lone_contexts;
  std::vector<AlignedBuffer> lone_shared;

  // The launch that is running.
  aipu_kernel_entry entry = nullptr;
  const unsigned long long* words = nullptr;
  bool uses_barrier = false;
};

HostSession& session_of(const aipu_tec_context* context) { return *static_cast<HostSession*>(context->backend); }
void barrier(const aipu_tec_context* context) { session_of(context).barrier.wait(); }
void meet_nobody(const aipu_tec_context*) {}
void print(const aipu_tec_context* context, const char* text, unsigned long size) {
  const HostSession& session = session_of(context);
  session.services.print(session.services.self, text, size);
}

int load(const aipu_backend_model* model, void** result, aipu_backend_error* error) try {
  refill_error_reserve();
  auto native = NativeModule::load(*model);
  if (!native.ok()) return report(native.status(), error);
  auto module = std::make_unique<HostModule>(std::move(native).value());
  module->tec_count = model->tec_count;
  for (uint32_t i = 0; i < model->kernel_count; ++i) {
    module->kernels.push_back(
        {model->kernels[i].lsram_bytes, model->kernels[i].shared_bytes, model->kernels[i].uses_barrier != 0});
    module->lsram_bytes = std::max(module->lsram_bytes, model->kernels[i].lsram_bytes);
    module->shared_bytes = std::max(module->shared_bytes, model->kernels[i].shared_bytes);
  }
  *result = module.release();
  return 0;
} catch (...) {
  return report(current_exception_status(), error);
}

void unload(void* module) { delete static_cast<HostModule*>(module); }

int open(void* module, const aipu_backend_services* services, void** result, aipu_backend_error* error) try {
  refill_error_reserve();
  auto session = std::make_unique<HostSession>();
  session->module = static_cast<const HostModule*>(module);
  session->services = *services;
  session->tec_count = services->worker_count;
  if (session->module->tec_count != 0) session->tec_count = std::min(session->tec_count, session->module->tec_count);
  session->contexts = std::make_unique<HostSession::Context[]>(session->tec_count);
  session->lone_contexts = std::make_unique<HostSession::Context[]>(session->tec_count);
  session->lsram.resize(session->tec_count);
  session->lone_shared.resize(session->tec_count);
  if (Status status = session->shared.reserve(session->module->shared_bytes); !status.ok())
    return report(status, error);
  for (uint32_t t = 0; t < session->tec_count; ++t) {
    if (Status status = session->lsram[t].reserve(session->module->lsram_bytes); !status.ok())
      return report(status, error);
    aipu_tec_context& context = session->contexts[t].context;
    context.tec_id = static_cast<int>(t);
    context.barrier = &barrier;
    context.print = &print;
    context.backend = session.get();
    aipu_tec_context& lone = session->lone_contexts[t].context;
    lone = context;
    lone.tec_id = 0;
    lone.tec_count = 1;
    lone.barrier = &meet_nobody;
    if (Status status = session->lone_shared[t].reserve(session->module->shared_bytes); !status.ok())
      return report(status, error);
  }
  *result = session.release();
  return 0;
} catch (...) {
  return report(current_exception_status(), error);
}

void close(void* session) { delete static_cast<HostSession*>(session); }

void run_tec(void* argument, uint32_t tec) {
  HostSession& session = *static_cast<HostSession*>(argument);
  session.entry(&session.contexts[tec].context, session.words);
  if (session.uses_barrier) session.barrier.leave();
}

int launch(void* opaque, const aipu_backend_launch* launch, aipu_backend_error*) {
  HostSession& session = *static_cast<HostSession*>(opaque);
  const uint32_t tecs = std::min(launch->max_tecs, session.tec_count);
  const HostModule::KernelNeeds needs = session.module->kernels[launch->kernel];
  session.entry = session.module->native.entry(launch->kernel);
  session.words = launch->words;
  session.uses_barrier = needs.uses_barrier;
  for (uint32_t t = 0; t < tecs; ++t) {
    aipu_tec_context& context = session.contexts[t].context;
    context.tec_count = static_cast<int>(tecs);
    context.fault = fault_record(*launch);
    context.lsram = needs.lsram_bytes == 0 ? nullptr : reinterpret_cast<unsigned char*>(session.lsram[t].data());
    context.lsram_size = needs.lsram_bytes;
    context.shared = needs.shared_bytes == 0 ? nullptr : reinterpret_cast<unsigned char*>(session.shared.data());
    context.shared_size = needs.shared_bytes;
  }
  if (tecs == 1) {
    session.barrier.reset(1);
    run_tec(&session, 0);
  } else {
    session.barrier.reset(tecs);
    // TECs that meet at barriers have to run at the same time.
    const auto run = needs.uses_barrier ? session.services.run : session.services.run_independent;
    run(session.services.self, tecs, &run_tec, &session);
  }
  return 0;
}

int launch_alone(void* opaque, const aipu_backend_launch* launch, uint32_t tec, aipu_backend_error*) {
  HostSession& session = *static_cast<HostSession*>(opaque);
  const HostModule::KernelNeeds needs = session.module->kernels[launch->kernel];
  aipu_tec_context& context = session.lone_contexts[tec].context;
  context.fault = fault_record(*launch);
  context.lsram = needs.lsram_bytes == 0 ? nullptr : reinterpret_cast<unsigned char*>(session.lsram[tec].data());
  context.lsram_size = needs.lsram_bytes;
  context.shared =
      needs.shared_bytes == 0 ? nullptr : reinterpret_cast<unsigned char*>(session.lone_shared[tec].data());
  context.shared_size = needs.shared_bytes;
  session.module->native.entry(launch->kernel)(&context, launch->words);
  return 0;
}

uint32_t tec_count(void* session) { return static_cast<HostSession*>(session)->tec_count; }

constexpr aipu_backend kBackend = {
    AIPU_BACKEND_API_VERSION,
    sizeof(aipu_backend),
    "host",
    "native code on the CPU's threads",
    AIPU_BACKEND_COMPUTES | AIPU_BACKEND_NATIVE | AIPU_BACKEND_BARRIERS | AIPU_BACKEND_FAULTS,
    &load,
    &unload,
    &open,
    &close,
    &launch,
    &tec_count,
    &launch_alone};

}  // namespace
}  // namespace aipu::runtime

extern "C" __attribute__((visibility("default"))) const aipu_backend* aipu_backend_v1(void) {
  return &aipu::runtime::kBackend;
}
