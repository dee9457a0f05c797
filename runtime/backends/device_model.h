// What a device is asked to load, as a back end of version 1 sees it.
#pragma once

#include <vector>

#include "runtime/backends/backend_api.h"
#include "runtime/backends/device_api.h"

namespace aipu::runtime {

// Looks into `model` and `kernels`, which it fills.
inline aipu_backend_model as_backend_model(const aipu_device_model& model, std::vector<aipu_backend_kernel>* kernels) {
  for (uint32_t i = 0; i < model.kernel_count; ++i) {
    const aipu_device_kernel& k = model.kernels[i];
    kernels->push_back({k.name, k.argument_count, k.pointer_arguments, k.lsram_bytes, k.shared_bytes, k.uses_barrier,
                        k.tir, k.tir_bytes});
  }
  return {model.target,
          model.tec_count,
          model.required_cpu_features,
          model.required_cpu_feature_count,
          model.native_module,
          model.native_module_bytes,
          kernels->data(),
          model.kernel_count,
          sizeof(aipu_backend_model),
          model.memory_limit_bytes,
          model.deadline_ns};
}

}  // namespace aipu::runtime
