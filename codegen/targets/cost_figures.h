// What the timing model charges for the instructions of a kernel (codegen/timing/timing_model.h).
#pragma once

#include "runtime/base/npu_timing.h"

namespace aipu::tir {

// All in cycles. As they stand: those of X2_1204's model.
struct CostFigures {
  npu_timing::Figures commands;
  double barrier = 24, branch = 2, loop_step = 2, call = 8, print = 500, event = 4;
  double vector_divide = 12, scalar_divide = 16, math = 16, reduction = 4, matrix = 16;
  double lane_access = 2;                                         // one lane of a vector in a register
  double local_access = 1, shared_access = 2, global_access = 4;  // of a scalar or native vector; local: lsram, private
};

}  // namespace aipu::tir
