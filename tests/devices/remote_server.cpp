// The process of the remote device: aipu-remote-device SOCKET ADDRESS BYTES BACKEND. Its memory is at an address at
// which the process that uses the device has nothing that it could read or write.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/backends/backend_library.h"
#include "runtime/backends/version1_device.h"
#include "tests/devices/wire.h"

namespace aipu::test {
namespace {

// First fit; what is free is not kept track of, only what is not.
class Region {
 public:
  Region(uint64_t begin, uint64_t bytes) : begin_(begin), end_(begin + bytes) {}
  uint64_t allocate(uint64_t bytes) {
    constexpr uint64_t kAlignment = 4096;
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    uint64_t at = begin_;
    for (const auto& [address, size] : used_) {
      if (address - at >= bytes) break;
      at = address + size;
    }
    if (end_ - at < bytes) return 0;
    used_[at] = bytes;
    return at;
  }
  void free(uint64_t address) { used_.erase(address); }

 private:
  uint64_t begin_, end_;
  std::map<uint64_t, uint64_t> used_;
};

struct Held {  // a command, until it is done
  std::vector<aipu_device_event> waits;
  std::vector<unsigned long long> words;
  std::vector<uint64_t> extents;
  std::vector<uint8_t> writable;
  std::vector<std::byte> data;
  aipu_device_times times = {};
  aipu_device_fault fault = {};
  bool goes_back = false;  // its data
};

struct LoadedModule {
  std::string target;
  std::vector<std::string> features;
  std::vector<const char*> feature_names;
  std::vector<std::string> names, tirs;
  std::vector<std::vector<std::byte>> pointers;
  std::vector<aipu_device_kernel> kernels;
  std::vector<std::byte> native;
  aipu_device_model model = {};
  void* handle = nullptr;
};

class Server;

struct ServedQueue {
  void* handle = nullptr;
  uint32_t number = 0;
  std::thread watcher;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, std::unique_ptr<Held>> held;
  uint64_t submitted = 0, told = 0;
  uint64_t sent = 0;     // under the mutex of what is sent: the last command that the other side knows of
  bool stopped = false;  // by an error, until it is cancelled
  bool closed = false;
};

class Server {
 public:
  // `has_memory`: the device has memory of its own; else it works on that of this process.
  Server(int socket, const aipu_device_driver& driver, void* device, uint64_t address, uint64_t bytes, bool has_memory)
      : socket_(socket), driver_(driver), device_(device), memory_(address, bytes), has_memory_(has_memory) {}

  void serve() {
    Op op;
    Frame request;
    while (receive_frame(socket_, &op, &request)) {
      const std::lock_guard lock(sending_);
      (void)send_frame(socket_, Op::kReply, answer(op, request));
    }
  }

 private:
  Frame answer(Op op, Frame& request) {
    aipu_device_error error = {};
    switch (op) {
      case Op::kProperties: {
        aipu_device_properties properties = {};
        properties.struct_bytes = sizeof properties;
        driver_.properties(device_, &properties);
        return Frame().put(0).put(properties.tecs);
      }
      case Op::kAllocate: {
        const auto bytes = request.get<uint64_t>();
        uint64_t address = has_memory_ ? 0 : memory_.allocate(bytes);
        if (has_memory_ && driver_.allocate(device_, 0, bytes, &address, &error) != 0) address = 0;
        return Frame().put(address == 0 ? 1 : 0).put(address);
      }
      case Op::kFree:
        if (has_memory_) {
          driver_.free(device_, 0, request.get<uint64_t>());
        } else {
          memory_.free(request.get<uint64_t>());
        }
        return Frame().put(0);
      case Op::kLoad:
        return load(request);
      case Op::kUnload: {
        const auto found = modules_.find(request.get<uint64_t>());
        driver_.unload(device_, found->second->handle);
        modules_.erase(found);
        return Frame().put(0);
      }
      case Op::kOpenQueue: {
        auto queue = std::make_unique<ServedQueue>();
        const int code = driver_.open_queue(device_, request.get<uint32_t>(), &queue->handle, &queue->number, &error);
        if (code != 0) return failure(code, error);
        queue->watcher = std::thread([this, raw = queue.get()] { watch(*raw); });
        const uint32_t number = queue->number;
        queues_[number] = std::move(queue);
        return Frame().put(0).put(number);
      }
      case Op::kCloseQueue: {
        const auto found = queues_.find(request.get<uint32_t>());
        ServedQueue& queue = *found->second;
        driver_.cancel(queue.handle);
        {
          const std::lock_guard lock(queue.mutex);
          queue.closed = true;
        }
        queue.changed.notify_all();
        sending_.unlock();  // the watcher may be saying what became of the last command
        queue.watcher.join();
        sending_.lock();
        driver_.close_queue(queue.handle);
        queues_.erase(found);
        sent_.notify_all();
        return Frame().put(0);
      }
      case Op::kSubmit:
        return submit(request);
      case Op::kCancel: {
        ServedQueue& queue = *queues_[request.get<uint32_t>()];
        driver_.cancel(queue.handle);
        const std::lock_guard lock(queue.mutex);
        queue.held.clear();
        queue.sent = queue.told = queue.submitted;
        sent_.notify_all();
        queue.stopped = false;
        return Frame().put(0);
      }
      case Op::kClock:
        return Frame().put(0).put(driver_.clock_ns(device_));
      default:
        return Frame().put(1);
    }
  }

  static Frame failure(int code, const aipu_device_error& error) {
    return Frame().put(code).put_block(error.message, std::strlen(error.message));
  }

  Frame load(Frame& request) {
    auto module = std::make_unique<LoadedModule>();
    aipu_device_model& model = module->model;
    model.struct_bytes = sizeof model;
    model.tec_count = request.get<uint32_t>();
    model.memory_limit_bytes = request.get<int64_t>();
    model.deadline_ns = request.get<int64_t>();
    module->target = request.get_text();
    for (uint32_t i = request.get<uint32_t>(); i > 0; --i) module->features.push_back(request.get_text());
    const auto count = request.get<uint32_t>();
    for (uint32_t i = 0; i < count; ++i) {
      module->kernels.push_back(request.get<aipu_device_kernel>());
      module->names.push_back(request.get_text());
      module->pointers.push_back(request.get_block());
      module->tirs.push_back(request.get_text());
    }
    module->native = request.get_block();
    for (uint32_t i = 0; i < count; ++i) {
      aipu_device_kernel& kernel = module->kernels[i];
      kernel.name = module->names[i].c_str();
      kernel.pointer_arguments = reinterpret_cast<const uint8_t*>(module->pointers[i].data());
      kernel.tir = kernel.tir_bytes == 0 ? nullptr : module->tirs[i].data();
    }
    for (const std::string& feature : module->features) module->feature_names.push_back(feature.c_str());
    model.target = module->target.c_str();
    model.required_cpu_features = module->feature_names.data();
    model.required_cpu_feature_count = static_cast<uint32_t>(module->feature_names.size());
    model.kernel_count = count;
    model.kernels = module->kernels.data();
    model.native_module = module->native.empty() ? nullptr : module->native.data();
    model.native_module_bytes = module->native.size();
    aipu_device_error error = {};
    const int code = driver_.load(device_, &model, &module->handle, &error);
    if (code != 0) return failure(code, error);
    const auto name = reinterpret_cast<uintptr_t>(module.get());
    modules_[name] = std::move(module);
    return Frame().put(0).put<uint64_t>(name);
  }

  Frame submit(Frame& request) {
    ServedQueue& queue = *queues_[request.get<uint32_t>()];
    const auto count = request.get<uint32_t>();
    std::vector<aipu_device_command> commands(count);
    {
      const std::lock_guard lock(queue.mutex);
      for (aipu_device_command& command : commands) {
        auto held = std::make_unique<Held>();
        read_command(request, &command, *held);
        queue.held[++queue.submitted] = std::move(held);
      }
    }
    aipu_device_error error = {};
    const int code = driver_.submit(queue.handle, commands.data(), count, sizeof(aipu_device_command), &error);
    queue.changed.notify_all();
    return code == 0 ? Frame().put(0) : failure(code, error);
  }

  void read_command(Frame& request, aipu_device_command* command, Held& held) {
    const auto wire = request.get<WireCommand>();
    held.waits.resize(wire.wait_count);
    request.get_bytes(held.waits.data(), held.waits.size() * sizeof(aipu_device_event));
    held.words.resize(wire.argument_count);
    held.extents.resize(wire.argument_count);
    held.writable.resize(wire.argument_count);
    request.get_bytes(held.words.data(), held.words.size() * sizeof(unsigned long long));
    request.get_bytes(held.extents.data(), held.extents.size() * sizeof(uint64_t));
    request.get_bytes(held.writable.data(), held.writable.size());
    *command = {};
    command->kind = wire.kind;
    command->waits = held.waits.data();
    command->wait_count = wire.wait_count;
    command->times = &held.times;
    command->kernel = wire.kernel;
    command->max_tecs = wire.max_tecs;
    command->words = held.words.data();
    command->extents = held.extents.data();
    command->writable = held.writable.data();
    command->fault = &held.fault;
    command->operations = wire.operations;
    command->memory_limit_bytes = wire.memory_limit_bytes;
    command->deadline_ns = wire.deadline_ns;
    command->destination = wire.destination;
    command->source = wire.source;
    command->width = wire.width;
    command->rows = wire.rows;
    command->destination_stride = wire.destination_stride;
    command->source_stride = wire.source_stride;
    command->overlaps = wire.overlaps;
    if (wire.kind == AIPU_DEVICE_LAUNCH) command->module = modules_.at(wire.module)->handle;
    if (wire.kind == AIPU_DEVICE_COPY_IN) {
      held.data.resize(wire.width);
      request.get_bytes(held.data.data(), held.data.size());
      command->host_source = held.data.data();
    }
    if (wire.kind == AIPU_DEVICE_COPY_OUT) {
      held.data.resize(wire.width);
      held.goes_back = true;
      command->host_destination = held.data.data();
    }
  }

  // Tells the other side of each command of the queue, in order.
  void watch(ServedQueue& queue) {
    std::unique_lock lock(queue.mutex);
    while (true) {
      queue.changed.wait(lock, [&] { return queue.closed || (!queue.stopped && queue.told < queue.submitted); });
      if (queue.closed) return;
      const uint64_t number = queue.told + 1;
      lock.unlock();
      aipu_device_event failed = {};
      aipu_device_error error = {};
      const int code = driver_.wait(device_, {queue.number, 0, number}, INT64_MAX, &failed, &error);
      lock.lock();
      const auto found = queue.held.find(number);
      if (found == queue.held.end()) continue;  // cancelled
      const std::unique_ptr<Held> held = std::move(found->second);
      queue.held.erase(found);
      queue.told = number;
      queue.stopped = code != 0;
      const WireDone done = {queue.number,
                             code,
                             number,
                             failed.queue,
                             0,
                             failed.command,
                             held->times.begin_ns,
                             held->times.end_ns,
                             {held->fault.code, held->fault.value, held->fault.limit}};
      lock.unlock();
      {
        std::unique_lock sending(sending_);
        // An event comes after those that it waits for.
        if (code == 0) {
          sent_.wait(sending, [&] {
            return std::all_of(held->waits.begin(), held->waits.end(),
                               [&](const auto& event) { return is_sent(event); });
          });
        }
        Frame frame;
        frame.put(done).put_block(error.message, std::strlen(error.message));
        frame.put_block(held->data.data(), held->goes_back && code == 0 ? held->data.size() : 0);
        (void)send_frame(socket_, Op::kDone, frame);
        queue.sent = std::max(queue.sent, number);
        sent_.notify_all();
      }
      lock.lock();
    }
  }

  bool is_sent(const aipu_device_event& event) const {
    const auto found = queues_.find(event.queue);
    return found == queues_.end() || found->second->sent >= event.command;
  }

  const int socket_;
  const aipu_device_driver& driver_;
  void* const device_;
  Region memory_;
  const bool has_memory_;
  std::mutex sending_;
  std::condition_variable sent_;
  std::map<uint64_t, std::unique_ptr<LoadedModule>> modules_;
  std::map<uint32_t, std::unique_ptr<ServedQueue>> queues_;
};

int serve(int socket, uint64_t address, uint64_t bytes, const char* name) {
  void* const wanted = reinterpret_cast<void*>(address);
  const void* memory = ::mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  const auto library = runtime::find_library(name);
  aipu_device_services services = {};
  services.struct_bytes = sizeof services;
  services.print = [](void*, const char* text, size_t size) { std::fwrite(text, 1, size, stdout); };
  void* device = nullptr;
  aipu_device_error error = {};
  const bool has_memory = library.ok() && library->driver != nullptr;
  const aipu_device_driver* const driver = has_memory     ? library->driver
                                           : library.ok() ? runtime::device_of(*library->backend)
                                                          : nullptr;
  const bool good = memory == wanted && driver != nullptr && driver->open(driver, 0, &services, &device, &error) == 0;
  if (!send_frame(socket, Op::kReply, Frame().put(good ? 0 : 1)) || !good) return 1;
  Server(socket, *driver, device, address, bytes, has_memory).serve();
  ::_exit(0);  // whoever used the device is gone, with its queues
}

}  // namespace
}  // namespace aipu::test

int main(int count, char** arguments) {
  if (count != 5) return 2;
  return aipu::test::serve(std::atoi(arguments[1]), std::strtoull(arguments[2], nullptr, 10),
                           std::strtoull(arguments[3], nullptr, 10), arguments[4]);
}
