// Compiled kernels loaded into this process, for constant folding.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/abi/kernel_abi.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

class NativeModule {
 public:
  static Result<std::unique_ptr<NativeModule>> load(std::span<const std::byte> shared_object);
  ~NativeModule();
  NativeModule(const NativeModule&) = delete;
  NativeModule& operator=(const NativeModule&) = delete;

  // Runs a kernel as the only TEC.
  // `fault` is what the kernel reports to.
  Status run(std::string_view kernel, std::span<const unsigned long long> arguments, aipu_fault_record* fault) const;

 private:
  NativeModule() = default;
  void* handle_ = nullptr;
  const aipu_kernel_module* module_ = nullptr;
};

}  // namespace aipu::gbuilder
