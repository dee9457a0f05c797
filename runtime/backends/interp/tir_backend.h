// What back ends have in common that read the TIR of kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "codegen/targets/target.h"
#include "codegen/timing/timing_model.h"
#include "runtime/backends/backend_api.h"
#include "runtime/base/guarded.h"

namespace aipu::runtime {

inline int report(const Status& status, aipu_backend_error* error) {
  const std::string& message = status.message();
  const size_t size = std::min(message.size(), sizeof error->message - 1);
  message.copy(error->message, size);
  error->message[size] = '\0';
  for (char* c = error->message; *c != '\0'; ++c) {
    if (*c == '\n') *c = ' ';
  }
  return static_cast<int>(status.code());
}

// No exception leaves the back end.
template <typename Body>
int end_exceptions(aipu_backend_error* error, Body&& body) noexcept {
  const Status status = guarded(body);
  return status.ok() ? 0 : report(status, error);
}

// Of the target's timing model, where there is one.
inline std::optional<tir::CostFigures> costs_of(const aipu_backend_model& model) {
  if (model.struct_bytes > offsetof(aipu_backend_model, cost_figures) && model.cost_figure_count > 0)
    return tir::CostFigures::from({model.cost_figures, model.cost_figure_count});
  const auto target = tir::find_target(model.target);  // of a file that does not say them
  return target.ok() ? target->costs : std::nullopt;
}

// To who asked for them.
inline void tell_cycles(const tir::CycleEstimate& estimate, const aipu_backend_launch& launch) {
  *launch.cycles = npu_timing::Figures::whole(estimate.cycles);
  if (launch.struct_bytes <= offsetof(aipu_backend_launch, dma_cycles) || launch.dma_cycles == nullptr) return;
  *launch.compute_cycles = npu_timing::Figures::whole(estimate.compute_cycles);
  *launch.dma_cycles = npu_timing::Figures::whole(estimate.dma_cycles);
}

}  // namespace aipu::runtime
