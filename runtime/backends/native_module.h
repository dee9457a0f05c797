// The compiled kernels of a model, loaded from memory. Shared by the back ends that run native code.
#pragma once

#include <string>
#include <vector>

#include "runtime/abi/kernel_abi.h"
#include "runtime/backends/backend_api.h"
#include "runtime/base/status.h"

namespace aipu::runtime {

class NativeModule {
 public:
  // Refuses a module that the CPU at hand lacks features for, and one whose kernels are not those the model's tables
  // describe.
  static Result<NativeModule> load(const aipu_backend_model& model);
  NativeModule(NativeModule&& other) noexcept;
  NativeModule& operator=(NativeModule&&) = delete;
  ~NativeModule();

  aipu_kernel_entry entry(uint32_t kernel) const { return entries_[kernel]; }

 private:
  NativeModule() = default;
  Status open(const void* bytes, size_t size);
  Status resolve(const aipu_backend_model& model);

  void* library_ = nullptr;
  int descriptor_ =
      // stays open while loaded: dlopen() recognises libraries by name, and /proc/self/fd/N would name another one
      // after a close
      -1;
  std::vector<aipu_kernel_entry> entries_;
};

// For the contexts of a launch's TECs; null from a runtime that has none.
inline aipu_fault_record* fault_record(const aipu_backend_launch& launch) {
  return launch.struct_bytes > offsetof(aipu_backend_launch, fault) ? launch.fault : nullptr;
}

// Copies a Status into a back end's error buffer; returns its code.
int report(const Status& status, aipu_backend_error* error);

}  // namespace aipu::runtime
