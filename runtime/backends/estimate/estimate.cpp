// The back end that tells cycles without running anything: from the shapes of a model's inputs alone, by the timing
// model of its target. Outputs have no values. Where data decides how often a loop runs, what is known of a launch
// without its code counts (operations, bytes).
#include <cstddef>
#include <memory>
#include <tuple>
#include <vector>

#include "codegen/timing/count_by_shapes.h"
#include "codegen/timing/timing_model.h"
#include "codegen/tir/text.h"
#include "runtime/backends/interp/tir_backend.h"
#include "runtime/base/meter.h"

namespace aipu::runtime {
namespace {

struct EstimateModule {
  struct Kernel {
    tir::InstrumentedKernel counting;
    std::vector<bool> is_number;  // per argument: a scalar integer
  };
  std::vector<Kernel> kernels;
  uint32_t tec_count = 1;
  std::optional<tir::CostFigures> costs;
};

Result<EstimateModule::Kernel> load_kernel(const aipu_backend_kernel& info, const tir::CostFigures& costs,
                                           Meter& meter) {
  AIPU_ASSIGN_OR_RETURN(const tir::Module module, tir::parse_module({info.tir, info.tir_bytes}, &meter));
  if (module.entry().params.size() != info.argument_count)
    return invalid_model(str_cat("it does not take the ", info.argument_count, " arguments that the tables describe"));
  EstimateModule::Kernel kernel;
  for (const tir::VarPtr& parameter : module.entry().params)
    kernel.is_number.push_back(parameter->type.is_scalar() && is_integer(parameter->type.element));
  AIPU_ASSIGN_OR_RETURN(kernel.counting, tir::instrument(module, costs));
  return kernel;
}

Result<std::unique_ptr<EstimateModule>> load_module(const aipu_backend_model& model) {
  auto module = std::make_unique<EstimateModule>();
  module->tec_count = model.tec_count == 0 ? 1 : model.tec_count;
  module->costs = costs_of(model);
  if (!module->costs) return unsupported(str_cat("there is no timing model of '", model.target, "'"));
  Meter meter("loading the kernels", model.memory_limit_bytes, "--load-memory-limit, LoadOptions::budget",
              model.deadline_ns);
  for (uint32_t i = 0; i < model.kernel_count; ++i) {
    auto kernel = load_kernel(model.kernels[i], *module->costs, meter);
    if (!kernel.ok()) return std::move(kernel).status().context(str_cat("TIR of kernel '", model.kernels[i].name, "'"));
    module->kernels.push_back(std::move(kernel).value());
  }
  return module;
}

int load(const aipu_backend_model* model, void** result, aipu_backend_error* error) {
  return end_exceptions(error, [&]() -> Status {
    AIPU_ASSIGN_OR_RETURN(auto module, load_module(*model));
    *result = module.release();
    return {};
  });
}

void unload(void* module) { delete static_cast<EstimateModule*>(module); }

int open(void* module, const aipu_backend_services*, void** session, aipu_backend_error*) {
  *session = module;
  return 0;
}
void close(void*) {}

tir::CycleEstimate estimate_of(const EstimateModule& module, const aipu_backend_launch& launch) {
  const EstimateModule::Kernel& kernel = module.kernels[launch.kernel];
  const uint32_t tecs = std::min(launch.max_tecs, module.tec_count);
  std::vector<std::optional<int64_t>> arguments;
  for (uint32_t i = 0; i < launch.argument_count; ++i) {
    arguments.push_back(kernel.is_number[i] ? std::optional(static_cast<int64_t>(launch.words[i])) : std::nullopt);
  }
  const auto counters = tir::count_by_shapes(kernel.counting, static_cast<int>(tecs), arguments);
  if (counters.ok()) return tir::estimate(kernel.counting, *counters);
  const npu_timing::Figures& figures = module.costs->commands;
  tir::CycleEstimate estimate;
  estimate.cycles = static_cast<double>(figures.launch_cycles(launch.operations, launch.bytes, tecs));
  std::tie(estimate.compute_cycles, estimate.dma_cycles) = figures.launch_parts(launch.operations, launch.bytes, tecs);
  return estimate;
}

int launch(void* session, const aipu_backend_launch* launch, aipu_backend_error* error) {
  return end_exceptions(error, [&]() -> Status {
    const bool counts = launch->struct_bytes > offsetof(aipu_backend_launch, cycles) && launch->cycles != nullptr;
    if (counts) tell_cycles(estimate_of(*static_cast<const EstimateModule*>(session), *launch), *launch);
    return {};
  });
}

uint32_t tec_count(void* session) { return static_cast<EstimateModule*>(session)->tec_count; }

int64_t copy_cycles(void* session, int64_t rows, int64_t row_bytes) {
  return static_cast<EstimateModule*>(session)->costs->commands.copy_cycles(rows, row_bytes);
}

constexpr aipu_backend kBackend = {AIPU_BACKEND_API_VERSION,
                                   sizeof(aipu_backend),
                                   "estimate",
                                   "tells cycles by shapes, computes nothing",
                                   AIPU_BACKEND_TIR | AIPU_BACKEND_BARRIERS | AIPU_BACKEND_FAULTS,
                                   &load,
                                   &unload,
                                   &open,
                                   &close,
                                   &launch,
                                   &tec_count,
                                   nullptr,
                                   &copy_cycles};

}  // namespace
}  // namespace aipu::runtime

extern "C" __attribute__((visibility("default"))) const aipu_backend* aipu_backend_v1(void) {
  return &aipu::runtime::kBackend;
}
