#include "runtime/executor/device.h"

#include <algorithm>
#include <cstdio>

#include "runtime/executor/running_kernel.h"

namespace aipu::runtime {

Result<std::unique_ptr<Device>> Device::open(const aipu_device_driver& driver, uint32_t number) {
  std::unique_ptr<Device> device(new Device(driver));
  if (const uint32_t count = driver.count(&driver); number >= count)
    return not_found(str_cat("back end '", driver.name, "' has ", count, " devices, not one with the number ", number));
  device->services_.struct_bytes = sizeof(aipu_device_services);
  device->services_.print = [](void*, const char* text, size_t size) { std::fwrite(text, 1, size, stdout); };
  device->services_.run_as = [](void*, const void* running) {
    running_kernel = static_cast<const RunningKernel*>(running);
  };
  aipu_device_error error = {};
  const int code = driver.open(&driver, number, &device->services_, &device->handle_, &error);
  if (code != 0) return device->status(code, error);
  device->properties_.struct_bytes = sizeof(aipu_device_properties);
  driver.properties(device->handle_, &device->properties_);
  AIPU_RETURN_IF_ERROR(device->choose_engines());
  return device;
}

Device::~Device() {
  if (handle_ != nullptr && is_ours()) driver_.close(handle_);
}

Status Device::status(int code, const aipu_device_error& error) const {
  return Status(static_cast<ErrorCode>(code), str_cat("back end '", driver_.name, "': ", error.message));
}

Status Device::choose_engines() {
  constexpr uint32_t kCopies = AIPU_DEVICE_TAKES_COPIES | AIPU_DEVICE_TAKES_TRANSFERS;
  const uint32_t count = properties_.engine_count;
  const auto find = [&](uint32_t takes, uint32_t other_than) {
    for (uint32_t e = 0; e < count; ++e) {
      if (e != other_than && (properties_.engines[e].takes & takes) == takes) return e;
    }
    return count;
  };
  launch_engine_ = find(AIPU_DEVICE_TAKES_LAUNCHES, count);
  copy_engine_ = find(kCopies, launch_engine_);
  if (copy_engine_ == count) copy_engine_ = find(kCopies, count);
  if (launch_engine_ == count || copy_engine_ == count || properties_.space_count == 0)
    return unsupported(
        str_cat("back end '", driver_.name,
                "': the device has no memory, no engine for kernels, or none that copies and transfers"));
  return {};
}

uint32_t Device::tecs() const {
  aipu_device_properties now = {};
  now.struct_bytes = sizeof now;
  driver_.properties(handle_, &now);
  return std::max<uint32_t>(1, now.tecs);
}

Result<std::byte*> Device::allocate(int64_t bytes) {
  uint64_t address = 0;
  aipu_device_error error = {};
  const int code = driver_.allocate(handle_, 0, static_cast<uint64_t>(std::max<int64_t>(bytes, 1)), &address, &error);
  if (code != 0) return status(code, error);
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
}

void Device::free(std::byte* address) {
  if (is_ours()) driver_.free(handle_, 0, reinterpret_cast<uintptr_t>(address));
}

Status TensorBuffer::reserve_on(Device& device, int64_t bytes) {
  if (on_device_ != nullptr && bytes <= device_bytes_) return {};
  if (bytes > INT64_MAX - 63) return out_of_range(str_cat("no memory for ", bytes, " bytes"));
  const int64_t rounded = bytes <= 0 ? 64 : (bytes + 63) / 64 * 64;
  on_device_.reset();
  device_bytes_ = 0;
  AIPU_ASSIGN_OR_RETURN(std::byte* const address, device.allocate(rounded));
  on_device_ = {address, FreeOnDevice{&device}};
  device_bytes_ = rounded;
  return {};
}

}  // namespace aipu::runtime
