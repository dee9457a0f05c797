// A device with memory that nobody else can see: a process of its own. Addresses are of that process; here they belong
// to pages that may not be touched, so that whoever follows one ends at once. AIPU_REMOTE_KERNELS names the back end
// that computes there.
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/aipu.h"
#include "runtime/backends/device_api.h"
#include "runtime/backends/queue_progress.h"
#include "tests/devices/wire.h"

extern char** environ;

namespace aipu::test {
namespace {

constexpr uint64_t kMemoryBytes = uint64_t{4} << 30;

struct Module {
  uint64_t name = 0;
  std::vector<uint32_t> argument_counts;
};

struct Queue;

class Remote {
 public:
  ~Remote() {
    if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
    if (reader_.joinable()) reader_.join();
    if (socket_ >= 0) ::close(socket_);
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    if (pages_ != MAP_FAILED) ::munmap(pages_, kMemoryBytes);
  }

  bool start() {
    pages_ = ::mmap(nullptr, kMemoryBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int ends[2] = {-1, -1};
    if (pages_ == MAP_FAILED || ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
    socket_ = ends[0];
    const char* program = std::getenv("AIPU_REMOTE_DEVICE");
    const char* kernels = std::getenv("AIPU_REMOTE_KERNELS");
    const std::string path = program != nullptr ? program : AIPU_REMOTE_DEVICE_PROGRAM;
    const std::string end = std::to_string(ends[1]);
    const std::string address = std::to_string(reinterpret_cast<uintptr_t>(pages_));
    const std::string bytes = std::to_string(kMemoryBytes);
    const char* arguments[] = {
        path.c_str(), end.c_str(), address.c_str(), bytes.c_str(), kernels != nullptr ? kernels : "host", nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addclose(&actions, ends[0]);
    const int failed = ::posix_spawn(&child_, path.c_str(), &actions, nullptr, const_cast<char**>(arguments), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    Op op;
    Frame frame;
    if (failed != 0 || !receive_frame(socket_, &op, &frame) || frame.get<int>() != 0) return false;
    reader_ = std::thread([this] { read(); });
    return true;
  }

  // The reply, after its code; nothing if the process is gone.
  int call(Op op, const Frame& request, Frame* reply, aipu_device_error* error) {
    const std::lock_guard one(calling_);
    std::unique_lock lock(mutex);
    answered_ = false;
    lock.unlock();
    const bool sent = send_frame(socket_, op, request);
    lock.lock();
    if (sent) changed.wait(lock, [&] { return answered_ || gone; });
    if (!sent || !answered_) return fail("its process is gone", error);
    *reply = std::move(reply_);
    const int code = reply->get<int>();
    if (code != 0 && error != nullptr) {
      const std::string text = reply->bytes().size() > 2 * sizeof(int64_t) ? reply->get_text() : "no memory";
      std::snprintf(error->message, sizeof error->message, "%s", text.c_str());
    }
    return code == 0 ? 0 : code;
  }

  static int fail(const char* text, aipu_device_error* error) {
    if (error != nullptr) std::snprintf(error->message, sizeof error->message, "%s", text);
    return AIPU_OUT_OF_RANGE;
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool gone = false;
  runtime::QueueTable table;
  uint32_t tecs = 1;

 private:
  void read();

  int socket_ = -1;
  pid_t child_ = -1;
  void* pages_ = MAP_FAILED;
  std::thread reader_;
  std::mutex calling_;
  bool answered_ = false;
  Frame reply_;
};

struct Queue : runtime::QueueProgress {
  struct Waiting {
    aipu_device_times* times;
    aipu_device_fault* fault;
    void* destination;
  };
  Remote& remote;
  std::map<uint64_t, Waiting> waiting;  // under the mutex of the device

  Queue(Remote& its_remote, uint32_t its_number) : QueueProgress(its_number), remote(its_remote) {}
};

void Remote::read() {
  Op op;
  Frame frame;
  while (receive_frame(socket_, &op, &frame)) {
    const std::lock_guard lock(mutex);
    if (op == Op::kReply) {
      reply_ = std::move(frame);
      answered_ = true;
    } else if (op == Op::kDone) {
      const auto done = frame.get<WireDone>();
      const auto found = table.queues.find(done.queue);
      if (found == table.queues.end()) continue;
      Queue& queue = *static_cast<Queue*>(found->second);
      const auto waiting = queue.waiting.find(done.command);
      if (waiting == queue.waiting.end()) continue;
      const std::string message = frame.get_text();
      const auto data = frame.get_block();
      if (waiting->second.times != nullptr) *waiting->second.times = {done.begin_ns, done.end_ns};
      if (waiting->second.fault != nullptr) *waiting->second.fault = {done.fault[0], done.fault[1], done.fault[2]};
      if (!data.empty()) std::memcpy(waiting->second.destination, data.data(), data.size());
      queue.waiting.erase(waiting);
      if (done.code == 0) {
        queue.done = done.command;
      } else {
        queue.code = done.code;
        std::snprintf(queue.error.message, sizeof queue.error.message, "%s", message.c_str());
        queue.failed = {done.failed_queue, 0, done.failed_command};
      }
    }
    changed.notify_all();
  }
  const std::lock_guard lock(mutex);
  gone = true;
  for (const auto& [number, queue] : table.queues) {
    if (queue->code == 0) queue->code = fail("its process is gone", &queue->error);
  }
  changed.notify_all();
}

Remote& remote(void* device) { return *static_cast<Remote*>(device); }

uint32_t count(const aipu_device_driver*) { return 2; }

int open(const aipu_device_driver* driver, uint32_t number, const aipu_device_services*, void** device,
         aipu_device_error* error) {
  if (number >= count(driver)) return Remote::fail("there are two devices", error);
  // The addresses may be in use in a process whose libraries lie elsewhere; the next one has them at other places.
  for (int attempt = 0; attempt < 8; ++attempt) {
    auto result = std::make_unique<Remote>();
    if (!result->start()) continue;
    *device = result.release();
    return 0;
  }
  return Remote::fail("its process does not start", error);
}

void close(void* device) { delete &remote(device); }

void properties(void* device, aipu_device_properties* result) {
  static constexpr aipu_device_space kSpaces[] = {{"remote", kMemoryBytes, 4096, 0}};
  static constexpr aipu_device_engine kEngines[] = {
      {"dma", AIPU_DEVICE_TAKES_COPIES | AIPU_DEVICE_TAKES_TRANSFERS, 1, 0}, {"tec", AIPU_DEVICE_TAKES_LAUNCHES, 1, 0}};
  Frame reply;
  uint32_t tecs = 1;
  if (remote(device).call(Op::kProperties, Frame(), &reply, nullptr) == 0) tecs = reply.get<uint32_t>();
  *result = {sizeof *result, 1, kSpaces, kEngines, 2, 1, tecs, 0, 0};
}

int allocate(void* device, uint32_t, uint64_t bytes, uint64_t* address, aipu_device_error* error) {
  Frame reply;
  const int code = remote(device).call(Op::kAllocate, Frame().put(bytes), &reply, error);
  if (code == 0) *address = reply.get<uint64_t>();
  return code == 0 ? 0 : AIPU_OUT_OF_RANGE;
}

void free_memory(void* device, uint32_t, uint64_t address) {
  Frame reply;
  (void)remote(device).call(Op::kFree, Frame().put(address), &reply, nullptr);
}

void* map(void*, uint32_t, uint64_t) { return nullptr; }

int load(void* device, const aipu_device_model* model, void** result, aipu_device_error* error) {
  auto module = std::make_unique<Module>();
  Frame request;
  request.put(model->tec_count).put(model->memory_limit_bytes).put(model->deadline_ns);
  request.put_block(model->target, std::strlen(model->target)).put(model->required_cpu_feature_count);
  for (uint32_t i = 0; i < model->required_cpu_feature_count; ++i) {
    const char* feature = model->required_cpu_features[i];
    request.put_block(feature, std::strlen(feature));
  }
  request.put(model->kernel_count);
  for (uint32_t i = 0; i < model->kernel_count; ++i) {
    const aipu_device_kernel& kernel = model->kernels[i];
    module->argument_counts.push_back(kernel.argument_count);
    request.put(kernel).put_block(kernel.name, std::strlen(kernel.name));
    request.put_block(kernel.pointer_arguments, kernel.pointer_arguments == nullptr ? 0 : kernel.argument_count);
    request.put_block(kernel.tir, kernel.tir_bytes);
  }
  request.put_block(model->native_module, model->native_module_bytes);
  Frame reply;
  const int code = remote(device).call(Op::kLoad, request, &reply, error);
  if (code != 0) return code;
  module->name = reply.get<uint64_t>();
  *result = module.release();
  return 0;
}

void unload(void* device, void* handle) {
  const std::unique_ptr<Module> module(static_cast<Module*>(handle));
  Frame reply;
  (void)remote(device).call(Op::kUnload, Frame().put(module->name), &reply, nullptr);
}

int open_queue(void* device, uint32_t engine, void** result, uint32_t* number, aipu_device_error* error) {
  Frame reply;
  const uint32_t there = engine == 0 ? 1 : 0;
  const int code = remote(device).call(Op::kOpenQueue, Frame().put(there), &reply, error);
  if (code != 0) return code;
  *number = reply.get<uint32_t>();
  auto queue = std::make_unique<Queue>(remote(device), *number);
  const std::lock_guard lock(queue->remote.mutex);
  queue->remote.table.queues[*number] = queue.get();
  *result = queue.release();
  return 0;
}

void close_queue(void* handle) {
  const std::unique_ptr<Queue> queue(static_cast<Queue*>(handle));
  Frame reply;
  (void)queue->remote.call(Op::kCloseQueue, Frame().put(queue->number), &reply, nullptr);
  const std::lock_guard lock(queue->remote.mutex);
  queue->remote.table.queues.erase(queue->number);
}

int submit(void* handle, const aipu_device_command* commands, uint32_t count, uint32_t command_bytes,
           aipu_device_error* error) {
  Queue& queue = *static_cast<Queue*>(handle);
  Frame request;
  request.put(queue.number).put(count);
  {
    const std::lock_guard lock(queue.remote.mutex);
    for (uint32_t i = 0; i < count; ++i) {
      const auto& command = *reinterpret_cast<const aipu_device_command*>(reinterpret_cast<const std::byte*>(commands) +
                                                                          size_t{i} * command_bytes);
      const bool is_launch = command.kind == AIPU_DEVICE_LAUNCH;
      const Module* module = static_cast<const Module*>(command.module);
      const uint32_t arguments = is_launch ? module->argument_counts[command.kernel] : 0;
      request.put(WireCommand{command.kind, command.kernel, command.max_tecs, command.wait_count, arguments,
                              command.overlaps, is_launch ? module->name : 0, command.destination, command.source,
                              command.width, command.rows, command.destination_stride, command.source_stride,
                              command.operations, command.memory_limit_bytes, command.deadline_ns});
      request.put_bytes(command.waits, command.wait_count * sizeof(aipu_device_event));
      request.put_bytes(command.words, arguments * sizeof(unsigned long long));
      request.put_bytes(command.extents, arguments * sizeof(uint64_t));
      request.put_bytes(command.writable, arguments);
      if (command.kind == AIPU_DEVICE_COPY_IN) request.put_bytes(command.host_source, command.width);
      queue.waiting[++queue.submitted] = {command.times, command.fault, command.host_destination};
    }
  }
  Frame reply;
  return queue.remote.call(Op::kSubmit, request, &reply, error);
}

int wait(void* handle, aipu_device_event event, int64_t deadline_ns, aipu_device_event* failed,
         aipu_device_error* error) {
  Remote& device = remote(handle);
  std::unique_lock lock(device.mutex);
  return device.table.wait(lock, device.changed, event, deadline_ns, failed, error);
}

void cancel(void* handle) {
  Queue& queue = *static_cast<Queue*>(handle);
  Frame reply;
  (void)queue.remote.call(Op::kCancel, Frame().put(queue.number), &reply, nullptr);
  const std::lock_guard lock(queue.remote.mutex);
  queue.waiting.clear();
  queue.cancel();
}

int64_t clock_ns(void* device) {
  Frame reply;
  return remote(device).call(Op::kClock, Frame(), &reply, nullptr) == 0 ? reply.get<int64_t>() : 0;
}

constexpr aipu_device_driver kDriver = {
    AIPU_DEVICE_API_VERSION,
    sizeof(aipu_device_driver),
    "remote",
    "kernels in another process",
    AIPU_DEVICE_COMPUTES | AIPU_DEVICE_NATIVE | AIPU_DEVICE_BARRIERS | AIPU_DEVICE_FAULTS,
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

}  // namespace
}  // namespace aipu::test

extern "C" __attribute__((visibility("default"))) const aipu_device_driver* aipu_device_v2(void) {
  return &aipu::test::kDriver;
}
