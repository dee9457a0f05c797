// Finds and opens back end libraries by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/backends/backend_api.h"
#include "runtime/backends/device_api.h"
#include "runtime/base/status.h"

namespace aipu::runtime {

// What a library exports: one of the two tables.
struct BackendLibrary {
  const aipu_backend* backend = nullptr;       // version 1
  const aipu_device_driver* driver = nullptr;  // version 2
};
// Stays loaded for the life of the process. Errors list the places that were searched.
Result<BackendLibrary> find_library(std::string_view name);
Result<const aipu_backend*> find_backend(std::string_view name);

// "" and "native" and "sim" to a library's name, for a model's target. `said`: what its file says; "" of old files.
Result<std::string> backend_for_target(std::string_view requested, std::string_view target, std::string_view said = {});

}  // namespace aipu::runtime
