// The functional model of X2_1204, as a device (backends/device_api.h). Kernels are the model's native module, compiled
// from the same Compass C that the NPU would get; the TECs are threads (core.h).
//
// Its memory is apart: what a kernel touches has been copied there. An address is one of this process with a bit more,
// which nobody can follow, so that who takes it for memory of the host ends at once.
//
// Commands are done within submit(), by the thread that submits them. That engines work side by side is a matter of
// virtual time, for which each command says what it takes; here it would only be threads that wait for each other.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/backends/device_model.h"
#include "runtime/backends/native_module.h"
#include "runtime/backends/queue_progress.h"
#include "runtime/backends/x2/core.h"
#include "runtime/base/guarded.h"
#include "runtime/base/meter.h"
#include "runtime/engines/copy_rows.h"
#include "runtime/executor/aligned_buffer.h"

namespace aipu::runtime {
namespace {

constexpr npu_timing::Machine kMachine = npu_timing::kX2Machine;
// Of addresses: on no machine is there memory of a process where they have it.
constexpr uint64_t kFar = uint64_t{1} << 55;
constexpr uint32_t kTecEngine = 0;

struct Module {
  explicit Module(NativeModule loaded) : native(std::move(loaded)) {}
  NativeModule native;
  const aipu_device_kernel* kernels = nullptr;  // the caller's
  uint32_t tecs = X2Cores::kCoreTecs;           // that its launches have
  npu_timing::Figures figures;
};

struct Device;

// What the runtime knows of a queue is what the interface says: one thread at a time submits and cancels, any waits.
struct Queue : QueueProgress {
  Device& device;
  std::unique_ptr<X2Cores> cores;         // of the engine tec
  std::vector<unsigned long long> words;  // of the launch at hand, with addresses of this process

  Queue(Device& its_device, uint32_t its_number, std::unique_ptr<X2Cores> its_cores)
      : QueueProgress(its_number), device(its_device), cores(std::move(its_cores)) {}
  void play(const aipu_device_command& command);
  Status run(const aipu_device_command& command);
  Status launch(const aipu_device_command& command);
};

struct Device {
  aipu_device_services services = {};
  std::mutex mutex;
  std::condition_variable changed;
  QueueTable table;
  std::atomic<uint32_t> tecs{X2Cores::kCoreTecs};  // the most that a model's launches have
  uint32_t generation = fork_generation();

  // In a child made by fork() a thread may have held it that is not there.
  std::unique_lock<std::mutex> lock() {
    if (generation != fork_generation()) {
      new (&mutex) std::mutex;
      new (&changed) std::condition_variable;
      generation = fork_generation();
    }
    return std::unique_lock(mutex);
  }
};

template <typename T = std::byte>
T* near(uint64_t address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address - kFar));
}

void Queue::play(const aipu_device_command& command) {
  {
    auto lock = device.lock();
    ++submitted;
    if (code != 0) return;
    const QueueProgress* of = nullptr;
    auto ready = QueueTable::State::kDone;
    for (uint32_t w = 0; w < command.wait_count && ready == QueueTable::State::kDone; ++w) {
      // Another thread may be doing what has been submitted to another queue.
      device.changed.wait(
          lock, [&] { return (ready = device.table.state(command.waits[w], &of)) != QueueTable::State::kPending; });
    }
    if (ready == QueueTable::State::kFailed) {
      stop_as(*of);
      device.changed.notify_all();
      return;
    }
  }
  const int64_t begin = command.times == nullptr ? 0 : steady_now_ns();
  const Status status = guarded([&] { return run(command); });
  if (command.times != nullptr) *command.times = {begin, steady_now_ns()};
  const auto lock = device.lock();
  if (status.ok()) {
    done = submitted;
  } else {
    stop(status);
  }
  device.changed.notify_all();
}

Status Queue::run(const aipu_device_command& command) {
  if (command.kind == AIPU_DEVICE_LAUNCH) return launch(command);
  if (command.kind > AIPU_DEVICE_FILL) return unsupported(str_cat("there is no command of kind ", command.kind));
  const bool copies = command.kind == AIPU_DEVICE_COPY;
  if (command.cycles != nullptr) {
    const npu_timing::Figures& figures = static_cast<const Module*>(command.module)->figures;
    *command.cycles =
        figures.copy_cycles(copies ? static_cast<int64_t>(command.rows) : 1, static_cast<int64_t>(command.width));
  }
  if (command.width == 0 || (copies && command.rows == 0)) return {};
  switch (command.kind) {
    case AIPU_DEVICE_COPY: {
      RowCopy copy = {near(command.destination),           near(command.source),
                      static_cast<int64_t>(command.width), static_cast<int64_t>(command.rows),
                      command.destination_stride,          command.source_stride};
      if (command.overlaps != 0) {
        copy.run_in_order();
      } else {
        copy.join_rows();
        copy.run_part(0, 1);
      }
      break;
    }
    case AIPU_DEVICE_COPY_IN:
      std::memcpy(near(command.destination), command.host_source, command.width);
      break;
    case AIPU_DEVICE_COPY_OUT:
      std::memcpy(command.host_destination, near(command.source), command.width);
      break;
    default:
      std::memset(near(command.destination), 0, command.width);
  }
  return {};
}

Status Queue::launch(const aipu_device_command& command) {
  if (cores == nullptr) return unsupported("this engine takes no launches");
  if (command.deadline_ns != INT64_MAX && steady_now_ns() >= command.deadline_ns)
    return out_of_range("the time for the run is over");
  const Module& module = *static_cast<const Module*>(command.module);
  const aipu_device_kernel& kernel = module.kernels[command.kernel];
  words.assign(command.words, command.words + kernel.argument_count);
  for (uint32_t i = 0; i < kernel.argument_count && kernel.pointer_arguments != nullptr; ++i) {
    if (kernel.pointer_arguments[i] == 0 || words[i] == 0) continue;
    if ((words[i] & kFar) == 0) return internal_error(str_cat("argument ", i, " is no address of the device's"));
    words[i] -= kFar;
  }
  const bool in_one_core = kernel.uses_barrier != 0 || kernel.shared_bytes > 0;
  const uint32_t tecs = std::min({command.max_tecs, module.tecs, in_one_core ? X2Cores::kCoreTecs : X2Cores::kTecs});
  static_assert(sizeof(aipu_fault_record) == sizeof(aipu_device_fault));
  AIPU_RETURN_IF_ERROR(
      cores->launch({module.native.entry(command.kernel), words.data(), tecs, kernel.lsram_bytes, kernel.shared_bytes,
                     reinterpret_cast<aipu_fault_record*>(command.fault), command.running}));
  if (command.cycles != nullptr) {
    const auto [compute, dma] = module.figures.launch_parts(command.operations, command.bytes, tecs);
    *command.cycles = module.figures.launch_cycles(command.operations, command.bytes, tecs);
    if (command.compute_cycles != nullptr) *command.compute_cycles = npu_timing::Figures::whole(compute);
    if (command.dma_cycles != nullptr) *command.dma_cycles = npu_timing::Figures::whole(dma);
  }
  return {};
}

uint32_t count(const aipu_device_driver*) { return 1; }

int open(const aipu_device_driver*, uint32_t number, const aipu_device_services* services, void** device,
         aipu_device_error* error) try {
  refill_error_reserve();
  if (number != 0) return tell(not_found(str_cat("there is one device, and no number ", number)), error);
  auto result = std::make_unique<Device>();
  std::memcpy(&result->services, services, std::min<size_t>(services->struct_bytes, sizeof result->services));
  *device = result.release();
  return 0;
} catch (...) {
  return tell(current_exception_status(), error);
}

void close(void* device) { delete static_cast<Device*>(device); }

void properties(void* device, aipu_device_properties* result) {
  // Launches have all of their core's and TECs' memories; there is nothing to allocate in them.
  static constexpr aipu_device_space kSpaces[] = {{"ddr", 0, 64, 0},
                                                  {"gsram", kMachine.shared_bytes, 64, 0},
                                                  {"lsram", uint64_t{X2Cores::kTecs} * kMachine.lsram_bytes, 64, 0}};
  static constexpr aipu_device_engine kEngines[] = {
      {"tec", AIPU_DEVICE_TAKES_LAUNCHES, 1, 0}, {"dma", AIPU_DEVICE_TAKES_COPIES | AIPU_DEVICE_TAKES_TRANSFERS, 1, 0}};
  *result = {sizeof *result, 3, kSpaces, kEngines, 2, 1, static_cast<Device*>(device)->tecs, 0, 0};
}

int allocate(void*, uint32_t space, uint64_t bytes, uint64_t* address, aipu_device_error* error) {
  const Status status = guarded([&]() -> Status {
    if (space != 0) return unsupported(str_cat("nothing is allocated in memory space ", space));
    std::byte* const memory = bytes > INT64_MAX - 63 ? nullptr : allocate_aligned(static_cast<int64_t>(bytes));
    if (memory == nullptr) return out_of_range(str_cat("no memory for ", bytes, " bytes"));
    *address = reinterpret_cast<uintptr_t>(memory) + kFar;
    return {};
  });
  return status.ok() ? 0 : tell(status, error);
}

void free_memory(void*, uint32_t, uint64_t address) { std::free(near(address)); }

Status load_module(Device& device, const aipu_device_model& model, void** result) {
  for (uint32_t i = 0; i < model.kernel_count; ++i) {
    const aipu_device_kernel& kernel = model.kernels[i];
    if (kernel.lsram_bytes > kMachine.lsram_bytes || kernel.shared_bytes > kMachine.shared_bytes) {
      return unsupported(str_cat("kernel '", kernel.name, "' needs ", kernel.lsram_bytes, " bytes of local and ",
                                 kernel.shared_bytes, " bytes of shared memory; an X2_1204 has ", kMachine.lsram_bytes,
                                 " per TEC and ", kMachine.shared_bytes));
    }
  }
  std::vector<aipu_backend_kernel> kernels;
  const aipu_backend_model shown = as_backend_model(model, &kernels);
  AIPU_ASSIGN_OR_RETURN(NativeModule native, NativeModule::load(shown));
  auto module = std::make_unique<Module>(std::move(native));
  module->kernels = model.kernels;
  if (model.tec_count != 0) module->tecs = std::min(model.tec_count, X2Cores::kTecs);
  if (model.struct_bytes > offsetof(aipu_device_model, cost_figures))
    module->figures = npu_timing::Figures::from(model.cost_figures, model.cost_figure_count);
  uint32_t most = device.tecs;
  while (module->tecs > most && !device.tecs.compare_exchange_weak(most, module->tecs)) {
  }
  *result = module.release();
  return {};
}

int load(void* device, const aipu_device_model* model, void** result, aipu_device_error* error) {
  const Status status = guarded([&] { return load_module(*static_cast<Device*>(device), *model, result); });
  return status.ok() ? 0 : tell(status, error);
}

void unload(void*, void* module) { delete static_cast<Module*>(module); }

Status make_queue(Device& device, uint32_t engine, void** queue, uint32_t* number) {
  std::unique_ptr<X2Cores> cores;
  if (engine == kTecEngine) {
    cores = std::make_unique<X2Cores>(device.services);
    AIPU_RETURN_IF_ERROR(cores->open());
  }
  const auto lock = device.lock();
  auto result = std::make_unique<Queue>(device, ++device.table.last_number, std::move(cores));
  device.table.queues.emplace(result->number, result.get());
  *number = result->number;
  *queue = result.release();
  return {};
}

int open_queue(void* device, uint32_t engine, void** queue, uint32_t* number, aipu_device_error* error) {
  const Status status = guarded([&] { return make_queue(*static_cast<Device*>(device), engine, queue, number); });
  return status.ok() ? 0 : tell(status, error);
}

void cancel(void* handle) {
  Queue& queue = *static_cast<Queue*>(handle);
  const auto lock = queue.device.lock();
  queue.cancel();
  queue.device.changed.notify_all();
}

void close_queue(void* handle) {
  const std::unique_ptr<Queue> queue(static_cast<Queue*>(handle));
  const auto lock = queue->device.lock();
  queue->device.table.queues.erase(queue->number);
}

int submit(void* handle, const aipu_device_command* commands, uint32_t command_count, uint32_t command_bytes,
           aipu_device_error*) {
  Queue& queue = *static_cast<Queue*>(handle);
  const auto* row = reinterpret_cast<const std::byte*>(commands);
  for (uint32_t i = 0; i < command_count; ++i, row += command_bytes) {
    aipu_device_command command = {};
    std::memcpy(&command, row, std::min<size_t>(command_bytes, sizeof command));
    queue.play(command);
  }
  return 0;
}

int wait(void* handle, aipu_device_event event, int64_t deadline_ns, aipu_device_event* failed,
         aipu_device_error* error) {
  Device& device = *static_cast<Device*>(handle);
  auto lock = device.lock();
  return device.table.wait(lock, device.changed, event, deadline_ns, failed, error);
}

int64_t clock_ns(void*) { return steady_now_ns(); }

constexpr aipu_device_driver kDriver = {AIPU_DEVICE_API_VERSION,
                                        sizeof(aipu_device_driver),
                                        "x2",
                                        "functional model of X2_1204",
                                        AIPU_DEVICE_COMPUTES | AIPU_DEVICE_NATIVE | AIPU_DEVICE_BARRIERS |
                                            AIPU_DEVICE_FAULTS | AIPU_DEVICE_CYCLES | AIPU_DEVICE_FORKS,
                                        nullptr,
                                        &count,
                                        &open,
                                        &close,
                                        &properties,
                                        &allocate,
                                        &free_memory,
                                        nullptr,
                                        &load,
                                        &unload,
                                        &open_queue,
                                        &close_queue,
                                        &submit,
                                        &wait,
                                        &cancel,
                                        &clock_ns};

}  // namespace
}  // namespace aipu::runtime

extern "C" __attribute__((visibility("default"))) const aipu_device_driver* aipu_device_v2(void) {
  return &aipu::runtime::kDriver;
}
