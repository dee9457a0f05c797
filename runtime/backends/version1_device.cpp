#include "runtime/backends/version1_device.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/backends/device_model.h"
#include "runtime/backends/queue_progress.h"
#include "runtime/base/guarded.h"
#include "runtime/base/meter.h"
#include "runtime/engines/engine.h"
#include "runtime/executor/worker_pool.h"

namespace aipu::runtime {
namespace {

struct Module {
  void* handle = nullptr;  // of the back end
  std::vector<aipu_backend_kernel> kernels;
};

struct Opened;

struct Queue : QueueProgress {
  struct Command {
    aipu_device_command command;
    std::vector<aipu_device_event> waits;
  };
  Opened& device;
  std::thread thread;
  std::shared_ptr<WorkerPool> pool;
  aipu_backend_services services = {};
  std::map<const Module*, void*> sessions;  // of the back end

  // Under the device's mutex.
  std::deque<Command> commands;  // the first one is number done + 1, if there is no error
  bool busy = false, closed = false;

  Queue(Opened& opened, uint32_t its_number) : QueueProgress(its_number), device(opened) {}
  void play();
  Status run(const aipu_device_command& command);
  Status launch(const aipu_device_command& command);
};

struct Driver {
  aipu_device_driver table;
  const aipu_backend& backend;
  void (*before)(const aipu_device_command& command);
};

struct Opened {
  const aipu_backend& backend;
  void (*const before)(const aipu_device_command& command);
  aipu_device_services services = {};
  std::atomic<uint32_t> tecs{1};
  std::mutex mutex;
  std::condition_variable changed;
  QueueTable table;

  explicit Opened(const Driver& driver) : backend(driver.backend), before(driver.before) {}
};

void Queue::play() {
  std::unique_lock lock(device.mutex);
  while (true) {
    device.changed.wait(lock, [&] { return closed || (code == 0 && !commands.empty()); });
    if (closed) return;
    const QueueProgress* of = nullptr;
    auto ready = QueueTable::State::kDone;
    for (const aipu_device_event& event : commands.front().waits) {
      ready = device.table.state(event, &of);
      if (ready != QueueTable::State::kDone) break;
    }
    if (ready == QueueTable::State::kPending) {
      device.changed.wait(lock);
      continue;
    }
    if (ready == QueueTable::State::kFailed) {
      stop_as(*of);
      device.changed.notify_all();
      continue;
    }
    const aipu_device_command command = commands.front().command;
    commands.pop_front();
    busy = true;
    lock.unlock();
    const int64_t begin = steady_now_ns();
    if (device.before != nullptr) device.before(command);
    const Status status = guarded([&] { return run(command); });
    if (command.times != nullptr) *command.times = {begin, steady_now_ns()};
    lock.lock();
    busy = false;
    if (status.ok()) {
      ++done;
    } else {
      stop(status);
    }
    device.changed.notify_all();
  }
}

Status Queue::run(const aipu_device_command& command) {
  auto* const destination = reinterpret_cast<void*>(static_cast<uintptr_t>(command.destination));
  const auto* const source = reinterpret_cast<const void*>(static_cast<uintptr_t>(command.source));
  if (command.kind != AIPU_DEVICE_LAUNCH && command.width == 0) return {};
  switch (command.kind) {
    case AIPU_DEVICE_LAUNCH:
      return launch(command);
    case AIPU_DEVICE_COPY: {
      const unsigned long long words[] = {command.destination,
                                          command.source,
                                          command.width,
                                          command.rows,
                                          static_cast<unsigned long long>(command.destination_stride),
                                          static_cast<unsigned long long>(command.source_stride)};
      Step step;
      step.overlaps = command.overlaps != 0;
      run_dma(nullptr, {step, words, nullptr, nullptr, nullptr, 0, 0});
      return {};
    }
    case AIPU_DEVICE_COPY_IN:
      std::memcpy(destination, command.host_source, command.width);
      return {};
    case AIPU_DEVICE_COPY_OUT:
      std::memcpy(command.host_destination, source, command.width);
      return {};
    case AIPU_DEVICE_FILL:
      std::memset(destination, 0, command.width);
      return {};
    default:
      return unsupported(str_cat("there is no command of kind ", command.kind));
  }
}

void serve(Queue& queue);

Status Queue::launch(const aipu_device_command& command) {
  const Module& module = *static_cast<const Module*>(command.module);
  aipu_backend_error error = {};
  void*& session = sessions[&module];
  if (session == nullptr) {
    if (pool == nullptr) serve(*this);
    const int code_of_open = device.backend.open(module.handle, &services, &session, &error);
    if (code_of_open != 0) return Status(static_cast<ErrorCode>(code_of_open), error.message);
  }
  static_assert(sizeof(aipu_fault_record) == sizeof(aipu_device_fault));
  aipu_backend_launch row = {};
  row.kernel = command.kernel;
  row.argument_count = module.kernels[command.kernel].argument_count;
  row.words = command.words;
  row.extents = command.extents;
  row.max_tecs = command.max_tecs;
  row.struct_bytes = sizeof row;
  row.writable = command.writable;
  row.fault = reinterpret_cast<aipu_fault_record*>(command.fault);
  row.memory_limit_bytes = command.memory_limit_bytes;
  row.deadline_ns = command.deadline_ns;
  const auto exclusive = pool->acquire();
  const int code_of_launch = device.backend.launch(session, &row, &error);
  return code_of_launch == 0 ? Status() : Status(static_cast<ErrorCode>(code_of_launch), error.message);
}

Opened& opened(void* device) { return *static_cast<Opened*>(device); }

uint32_t count(const aipu_device_driver*) { return 1; }

int open(const aipu_device_driver* driver, uint32_t number, const aipu_device_services* services, void** device,
         aipu_device_error* error) try {
  if (number != 0) return tell(not_found(str_cat("there is one device, and no number ", number)), error);
  auto result = std::make_unique<Opened>(*static_cast<const Driver*>(driver->self));
  result->services = *services;
  *device = result.release();
  return 0;
} catch (...) {
  return tell(current_exception_status(), error);
}

void close(void* device) { delete &opened(device); }

void properties(void* device, aipu_device_properties* result) {
  static constexpr aipu_device_space kSpaces[] = {{"memory", 0, 64, 1}};
  static constexpr aipu_device_engine kEngines[] = {
      {"tec", AIPU_DEVICE_TAKES_LAUNCHES, 1, 0}, {"dma", AIPU_DEVICE_TAKES_COPIES | AIPU_DEVICE_TAKES_TRANSFERS, 1, 0}};
  *result = {sizeof *result, 1, kSpaces, kEngines, 2, 1, opened(device).tecs, 0, 0};
}

int allocate(void*, uint32_t, uint64_t bytes, uint64_t* address, aipu_device_error* error) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, 64, bytes) != 0)
    return tell(out_of_range(str_cat("no memory for ", bytes, " bytes")), error);
  *address = reinterpret_cast<uintptr_t>(memory);
  return 0;
}

void free_memory(void*, uint32_t, uint64_t address) { std::free(reinterpret_cast<void*>(address)); }

void* map(void*, uint32_t, uint64_t address) { return reinterpret_cast<void*>(address); }

// What a back end gets of a queue.
void serve(Queue& queue) {
  Opened& device = queue.device;
  queue.pool = std::make_shared<WorkerPool>(device.services.threads);
  aipu_backend_services& services = queue.services;
  services.self = &queue;
  services.worker_count = queue.pool->size();
  services.struct_bytes = sizeof services;
  services.run = [](void* self, uint32_t times, void (*body)(void*, uint32_t), void* argument) {
    static_cast<Queue*>(self)->pool->run(times, body, argument);
  };
  services.run_independent = [](void* self, uint32_t times, void (*body)(void*, uint32_t), void* argument) {
    static_cast<Queue*>(self)->pool->run_independent(times, body, argument);
  };
  services.print = [](void* self, const char* text, size_t size) {
    const aipu_device_services& outer = static_cast<Queue*>(self)->device.services;
    outer.print(outer.self, text, size);
  };
  services.running = [](void*) -> const void* { return nullptr; };
  services.run_as = [](void*, const void*) {};
}

int load(void* device, const aipu_device_model* model, void** result, aipu_device_error* error) try {
  auto module = std::make_unique<Module>();
  const aipu_backend_model shown = as_backend_model(*model, &module->kernels);
  aipu_backend_error message = {};
  const aipu_backend& backend = opened(device).backend;
  if (const int code = backend.load(&shown, &module->handle, &message); code != 0)
    return tell(Status(static_cast<ErrorCode>(code), message.message), error);
  // Only sessions know how many TECs they have.
  Queue asks(opened(device), 0);
  serve(asks);
  void* session = nullptr;
  if (const int code = backend.open(module->handle, &asks.services, &session, &message); code != 0) {
    backend.unload(module->handle);
    return tell(Status(static_cast<ErrorCode>(code), message.message), error);
  }
  opened(device).tecs = backend.tec_count(session);
  backend.close(session);
  *result = module.release();
  return 0;
} catch (...) {
  return tell(current_exception_status(), error);
}

void unload(void* device, void* module) {
  const std::unique_ptr<Module> own(static_cast<Module*>(module));
  opened(device).backend.unload(own->handle);
}

int open_queue(void* device, uint32_t, void** queue, uint32_t* number, aipu_device_error* error) try {
  Opened& own = opened(device);
  std::unique_lock lock(own.mutex);
  auto result = std::make_unique<Queue>(own, ++own.table.last_number);
  own.table.queues.emplace(result->number, result.get());
  try {
    result->thread = std::thread([raw = result.get()] { raw->play(); });
  } catch (...) {
    own.table.queues.erase(result->number);
    throw;
  }
  *number = result->number;
  *queue = result.release();
  return 0;
} catch (...) {
  return tell(current_exception_status(), error);
}

void cancel(void* handle) {
  Queue& queue = *static_cast<Queue*>(handle);
  std::unique_lock lock(queue.device.mutex);
  queue.commands.clear();
  queue.device.changed.wait(lock, [&] { return !queue.busy; });
  queue.cancel();
  queue.device.changed.notify_all();
}

void close_queue(void* handle) {
  const std::unique_ptr<Queue> queue(static_cast<Queue*>(handle));
  Opened& device = queue->device;
  cancel(handle);
  {
    const std::lock_guard lock(device.mutex);
    queue->closed = true;
    device.changed.notify_all();
  }
  queue->thread.join();
  for (const auto& [module, session] : queue->sessions) device.backend.close(session);
  const std::lock_guard lock(device.mutex);
  device.table.queues.erase(queue->number);
}

int submit(void* handle, const aipu_device_command* commands, uint32_t command_count, uint32_t command_bytes,
           aipu_device_error* error) try {
  Queue& queue = *static_cast<Queue*>(handle);
  std::vector<Queue::Command> taken(command_count);
  const auto* row = reinterpret_cast<const std::byte*>(commands);
  for (Queue::Command& command : taken) {
    std::memcpy(&command.command, row, std::min<size_t>(command_bytes, sizeof command.command));
    command.waits.assign(command.command.waits, command.command.waits + command.command.wait_count);
    row += command_bytes;
  }
  const std::lock_guard lock(queue.device.mutex);
  for (Queue::Command& command : taken) queue.commands.push_back(std::move(command));
  queue.submitted += command_count;
  queue.device.changed.notify_all();
  return 0;
} catch (...) {
  return tell(current_exception_status(), error);
}

int wait(void* handle, aipu_device_event event, int64_t deadline_ns, aipu_device_event* failed,
         aipu_device_error* error) {
  Opened& device = opened(handle);
  std::unique_lock lock(device.mutex);
  return device.table.wait(lock, device.changed, event, deadline_ns, failed, error);
}

int64_t clock_ns(void*) { return steady_now_ns(); }

}  // namespace

const aipu_device_driver* device_of(const aipu_backend& backend, void (*before)(const aipu_device_command& command)) {
  static std::mutex mutex;
  static std::deque<Driver> drivers;  // whose addresses stay
  const std::lock_guard lock(mutex);
  for (const Driver& driver : drivers) {
    if (&driver.backend == &backend && driver.before == before) return &driver.table;
  }
  const aipu_device_driver table = {AIPU_DEVICE_API_VERSION,
                                    sizeof(aipu_device_driver),
                                    backend.name,
                                    backend.description,
                                    backend.capabilities,
                                    nullptr,
                                    &count,
                                    &open,
                                    &close,
                                    &properties,
                                    &allocate,
                                    &free_memory,
                                    &map,
                                    &load,
                                    &unload,
                                    &open_queue,
                                    &close_queue,
                                    &submit,
                                    &wait,
                                    &cancel,
                                    &clock_ns};
  Driver& driver = drivers.emplace_back(Driver{table, backend, before});
  driver.table.self = &driver;
  return &driver.table;
}

}  // namespace aipu::runtime
