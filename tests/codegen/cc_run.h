// Compiles kernels with the driver, loads the module and runs entries on byte buffers: what the tests of the C road
// share.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "codegen/driver/cc_driver.h"
#include "codegen/tir/stmt.h"
#include "runtime/abi/kernel_abi.h"

namespace aipu::tir::testing {

// "" if the machine has none of that name.
std::string compiler_path(const std::string& name);
// Whether code for the target runs on this CPU.
bool cpu_runs(const Target& target);

class LoadedModule {
 public:
  explicit LoadedModule(std::span<const std::byte> shared_object);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;

  const std::string& error() const { return error_; }
  const aipu_kernel_module* table() const { return table_; }
  const aipu_kernel_info* find(const std::string& name) const;
  // Runs a kernel without barriers, TEC after TEC; returns what it printed. `fault`: what it reports to.
  std::string run(const aipu_kernel_info& kernel, const std::vector<uint64_t>& arguments, int tec_count = 1,
                  aipu_fault_record* fault = nullptr) const;

 private:
  void* handle_ = nullptr;
  const aipu_kernel_module* table_ = nullptr;
  std::string error_;
};

}  // namespace aipu::tir::testing
