// What a session does once, when it is made.
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <utility>

#include "runtime/base/guarded.h"
#include "runtime/executor/run_queue.h"
#include "runtime/executor/running_kernel.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {
namespace {

int64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(pages) * page;
}

}  // namespace

std::shared_ptr<WorkerPool> make_worker_pool(int threads) {
  return std::make_shared<WorkerPool>(static_cast<uint32_t>(std::max(threads, 0)));
}

Session::Session(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model,
                                                 const SessionOptions& options) try {
  refill_error_reserve();
  std::unique_ptr<Session> session(new Session(std::move(model)));
  session->queue_ = std::make_unique<RunQueue>([self = session.get()](Run::Impl& run) {
    return self->sandbox_ ? play_in_sandbox(*self->sandbox_, run) : self->impl_->play(run);
  });
  if (const auto& sandbox = session->model_->state().sandbox; sandbox != nullptr) {
    AIPU_ASSIGN_OR_RETURN(session->sandbox_, sandbox::Session::create(*sandbox, options));
    return session;
  }
  session->impl_ = std::make_unique<Impl>(session->model_);
  session->impl_->options = options;
  AIPU_RETURN_IF_ERROR(session->impl_->open());
  return session;
} catch (...) {
  return current_exception_status();
}

const Model& Session::model() const { return *model_; }
int Session::threads() const { return sandbox_ ? 1 : static_cast<int>(impl_->pool->size()); }

Session::Impl::~Impl() {
  if (parent != nullptr) return;
  if (host_session != nullptr) state.whole->host_kernels.backend->close(host_session);
  if (backend_session != nullptr) state.backend->close(backend_session);
}

Status Session::Impl::open() {
  if (options.cycles && options.overlap)
    return invalid_argument(
        "SessionOptions::cycles keeps virtual time while one command is played after the other; it cannot go together "
        "with SessionOptions::overlap");
  if (options.inspect && options.overlap)
    return invalid_argument(
        "SessionOptions::inspect looks at one command after the other; it cannot go together with "
        "SessionOptions::overlap");
  pool =
      options.pool ? options.pool : std::make_shared<WorkerPool>(static_cast<uint32_t>(std::max(options.threads, 0)));
  if (options.memory_limit_bytes <= 0) {
    const bool survives = (state.capabilities & AIPU_BACKEND_CHECKS_BOUNDS) != 0;
    options.memory_limit_bytes = survives ? kUntrustedBytes : machine_memory();
  }
  options.plan_cache = std::max(options.plan_cache, 1);
  if (state.has_strings) {
    own_strings = std::make_unique<StringPool>(root);
    strings = own_strings.get();
    held_bytes += strings->bytes();
  }
  open_services();
  AIPU_RETURN_IF_ERROR(open_host_kernels());
  if (device != nullptr) return open_on_device();
  const int code = state.backend->open(state.module, &services, &backend_session, &backend_error);
  if (code != 0)
    return Status(static_cast<ErrorCode>(code),
                  str_cat("back end '", state.backend_name, "': ", backend_error.message));

  tecs = state.backend->tec_count(backend_session);
  if (host_session == nullptr) host_tecs = tecs;
  open_virtual_time();
  if (options.overlap && time == nullptr) {
    own_beside = std::make_unique<WorkerPool>(2);
    if (own_beside->size() == 2) beside = own_beside.get();  // else there is one CPU
  }
  // Samples side by side would share the clocks.
  lanes.resize(can_launch_alone(*state.backend) && time == nullptr ? std::min(tecs, pool->size()) : 1);
  if (options.inspect) lanes.clear();  // batches are computed at once
  open_tables();
  return {};
}

void Session::Impl::open_services() {
  services.self = pool.get();
  services.worker_count = pool->size();
  // In what was padding, so that back ends of before find the rest where it was.
  static_assert(offsetof(aipu_backend_services, run) == sizeof(void*) + 2 * sizeof(uint32_t));
  services.struct_bytes = sizeof services;
  services.run = [](void* self, uint32_t count, void (*body)(void*, uint32_t), void* argument) {
    static_cast<WorkerPool*>(self)->run(count, body, argument);
  };
  services.run_independent = [](void* self, uint32_t count, void (*body)(void*, uint32_t), void* argument) {
    static_cast<WorkerPool*>(self)->run_independent(count, body, argument);
  };
  services.print = [](void*, const char* text, size_t size) { std::fwrite(text, 1, size, stdout); };
  services.running = [](void*) { return static_cast<const void*>(running_kernel); };
  services.run_as = [](void*, const void* running) { running_kernel = static_cast<const RunningKernel*>(running); };
}

Status Session::Impl::open_host_kernels() {
  const detail::HostKernels& host = state.whole->host_kernels;
  if (host.backend == nullptr) return {};
  const int code = host.backend->open(host.module, &services, &host_session, &backend_error);
  if (code != 0) return Status(static_cast<ErrorCode>(code), backend_error.message).context("the host's part");
  host_tecs = host.backend->tec_count(host_session);
  return {};
}

void Session::Impl::open_tables() {
  if (time != nullptr) {
    for (uint32_t p = 0; p < state.tables.programs.size(); ++p) {
      const fb::Program& buffers = *items(root.programs())[p];
      ends.emplace_back();
      ends.back()[static_cast<size_t>(fb::Engine::kTec)].resize(items(buffers.tec()).size());
      ends.back()[static_cast<size_t>(fb::Engine::kDma)].resize(items(buffers.dma()).size());
      ends.back()[static_cast<size_t>(fb::Engine::kHost)].resize(items(buffers.host()).size());
    }
  }
  inputs.resize(state.inputs.size());
  outputs.resize(state.outputs.size());
  if (is_staged()) staged_inputs.resize(inputs.size());
  if (device != nullptr) open_device_tables();
  const uint32_t stages = state.tables.stage_count;
  layout = {static_cast<uint32_t>(inputs.size()), static_cast<uint32_t>(outputs.size()), stages};
  roots.assign(layout.count(), nullptr);
  roots[layout.constants()] = const_cast<std::byte*>(state.constants);
  roots[layout.host_constants()] =
      const_cast<std::byte*>(state.whole->file->section(fb::SectionKind::kConstants).data());
  arenas.resize(stages);
  host_arenas.resize(stages);
  plans.resize(stages);
  active.assign(stages, nullptr);
  const auto all_symbols = items(root.symbols());
  symbols.resize(all_symbols.size());
  for (uint32_t i = 0; i < all_symbols.size(); ++i) {
    if (all_symbols[i]->kind() == fb::SymbolKind::kTensorElement) run_symbols.push_back(i);
  }
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].shape.resize(state.outputs[i].shape.size());
  const auto all_calls = items(root.calls());
  for (uint32_t i = 0; i < all_calls.size(); ++i) {
    CallState& call = calls.emplace_back();
    const auto bodies = items(all_calls[i]->bodies());
    for (uint32_t b = 0; b < bodies.size(); ++b) {
      call.bodies.push_back(std::make_unique<Impl>(*this, *state.bodies[bodies[b]]));
      call.bodies.back()->lanes.resize(lanes.size());
      call.bodies.back()->open_tables();
    }
  }
}

}  // namespace aipu::runtime
