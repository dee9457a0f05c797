// A device that has been opened (backends/device_api.h), and memory on it or here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/backends/device_api.h"
#include "runtime/base/fork_generation.h"
#include "runtime/base/status.h"
#include "runtime/executor/aligned_buffer.h"

namespace aipu::runtime {

// Shared by the sessions of a model. Its memory's addresses are pointers only in type: nobody may follow one.
class Device {
 public:
  static Result<std::unique_ptr<Device>> open(const aipu_device_driver& driver, uint32_t number);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Result<std::byte*> allocate(int64_t bytes);
  void free(std::byte* address);
  // The engine that launches kernels, and the one that copies: the same one if there is no other.
  uint32_t launch_engine() const { return launch_engine_; }
  uint32_t copy_engine() const { return copy_engine_; }

  // That a launch with enough work uses; ask when a model has been loaded.
  uint32_t tecs() const;

  // An error of the driver's; `what` is the model or the command that it is about.
  Status status(int code, const aipu_device_error& error) const;

  const aipu_device_driver& driver() const { return driver_; }
  void* handle() const { return handle_; }
  // Whether this is the process that opened it, or a child made by fork() that has copies of all that it has.
  bool is_ours() const { return generation_ == fork_generation() || (driver_.capabilities & AIPU_DEVICE_FORKS) != 0; }
  // Whether commands can say what they take there in cycles.
  bool has_cycles() const { return (driver_.capabilities & AIPU_DEVICE_CYCLES) != 0; }

 private:
  explicit Device(const aipu_device_driver& driver) : driver_(driver) {}
  Status choose_engines();

  const aipu_device_driver& driver_;
  void* handle_ = nullptr;
  aipu_device_services services_ = {};
  aipu_device_properties properties_ = {};
  uint32_t launch_engine_ = 0, copy_engine_ = 0;
  const uint32_t generation_ = fork_generation();
};

struct FreeOnDevice {
  Device* device = nullptr;
  void operator()(std::byte* address) const { device->free(address); }
};

// Memory for tensors that only grows; what it held is lost when it does. In this process, or on a device.
class TensorBuffer {
 public:
  std::byte* data() const { return on_device_ != nullptr ? on_device_.get() : here_.data(); }
  int64_t size() const { return on_device_ != nullptr ? device_bytes_ : here_.size(); }

  // `device`: null for this process; always the same for one buffer.
  Status reserve(int64_t bytes, Device* device) {
    return device == nullptr ? here_.reserve(bytes) : reserve_on(*device, bytes);
  }

 private:
  Status reserve_on(Device& device, int64_t bytes);

  AlignedBuffer here_;
  std::unique_ptr<std::byte, FreeOnDevice> on_device_;
  int64_t device_bytes_ = 0;
};

}  // namespace aipu::runtime
