// Loop nests whose loops are bound to blocks and threads, as kernels of a device that has those.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "kernels/te/to_tir.h"

namespace aipu::te {

struct DeviceStep;

// One launch. The entry is what one thread runs; which one it is comes in its last parameters, of the names in
// codegen/cuda_c/cuda_text.h.
struct DeviceLaunch {
  tir::Module module;
  // Of the parameters before those: a place among the function's parameters, the sizes and the workspaces, or the
  // variable of a loop around the launch.
  std::vector<std::variant<size_t, Expr>> arguments;
  std::vector<Expr> extents;  // of the thread axes that the entry takes
};
// What the caller repeats.
struct DeviceLoop {
  Expr var, extent;  // from 0
  std::vector<DeviceStep> body;
};
struct DeviceStep {
  std::variant<DeviceLaunch, DeviceLoop> what;
};

struct DeviceProgram {
  std::vector<DeviceStep> steps;  // in order; a launch sees what those before it wrote
  std::vector<Expr> sizes;
  std::vector<Workspace> workspaces;
};

// A stage in shared memory is filled by the threads of a block together, if the schedule was lowered with
// `shared_by_threads`; each thread computes all else that it needs itself. Errors name the stage.
Result<DeviceProgram> to_device(const Function& function);

}  // namespace aipu::te
