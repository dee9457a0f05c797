// Which kernel a thread is running, for the report of a crash in it (crash_report.cpp).
#pragma once

#include <cstdint>

#include "runtime/executor/model_state.h"

namespace aipu::runtime {

// Kept by the session that has a command launched, as long as it runs.
struct RunningKernel {
  const detail::ModelState* model;
  const fb::TecCommand* launch;
};

// Null: none. The initial-exec model makes it an access like that of a register, and one that a signal handler may
// make.
extern __thread const RunningKernel* running_kernel __attribute__((tls_model("initial-exec")));

// Says which kernel the calling thread runs, until it goes.
class RunningScope {
 public:
  explicit RunningScope(const RunningKernel* running) { running_kernel = running; }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;
  ~RunningScope() { running_kernel = nullptr; }
};

}  // namespace aipu::runtime
