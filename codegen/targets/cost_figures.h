// What the timing model charges for the instructions of a kernel (codegen/timing/timing_model.h).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "runtime/base/npu_timing.h"

namespace aipu::tir {

// All in cycles. As they stand: those of X2_1204's model.
struct CostFigures {
  npu_timing::Figures commands;
  double barrier = 24, branch = 2, loop_step = 2, call = 8, print = 500, event = 4;
  double vector_divide = 12, scalar_divide = 16, math = 16, reduction = 4, matrix = 16;
  double lane_access = 2;                                         // one lane of a vector in a register
  double local_access = 1, shared_access = 2, global_access = 4;  // of a scalar or native vector; local: lsram, private

  // As files have them: those of commands, then those of kernels. A list that is shorter leaves the others as they are.
  std::vector<double> numbers() const;
  static CostFigures from(std::span<const double> numbers);
};

// Their order in files, which only grows.
inline constexpr std::array kKernelFigures = {
    &CostFigures::barrier,      &CostFigures::branch,        &CostFigures::loop_step,     &CostFigures::call,
    &CostFigures::print,        &CostFigures::event,         &CostFigures::vector_divide, &CostFigures::scalar_divide,
    &CostFigures::math,         &CostFigures::reduction,     &CostFigures::matrix,        &CostFigures::lane_access,
    &CostFigures::local_access, &CostFigures::shared_access, &CostFigures::global_access};

inline std::vector<double> CostFigures::numbers() const {
  std::vector<double> list;
  for (const auto figure : npu_timing::kCommandFigures) list.push_back(commands.*figure);
  for (const auto figure : kKernelFigures) list.push_back(this->*figure);
  return list;
}

inline CostFigures CostFigures::from(std::span<const double> numbers) {
  CostFigures figures;
  figures.commands = npu_timing::Figures::from(numbers.data(), numbers.size());
  for (size_t i = 0; i < kKernelFigures.size() && npu_timing::kCommandFigures.size() + i < numbers.size(); ++i)
    figures.*kKernelFigures[i] = numbers[npu_timing::kCommandFigures.size() + i];
  return figures;
}

}  // namespace aipu::tir
