// The back end that runs a model whose kernels the user does not want to load as native code: it interprets the TIR
// beside them, every access checked.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "codegen/timing/timing_model.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "runtime/backends/interp/tir_backend.h"

namespace aipu::runtime {
namespace {

// A bound on statements that does not depend on the machine; SessionOptions::run_seconds bounds the time.
constexpr uint64_t kDefaultMaxSteps = uint64_t{1} << 40;

struct InterpModule {
  struct Kernel {
    const aipu_backend_kernel* info;
    std::shared_ptr<const tir::InterpreterProgram> program;
  };
  std::vector<Kernel> kernels;
  uint32_t tec_count = 1;
  uint64_t max_steps = kDefaultMaxSteps;
  std::optional<tir::CostFigures> costs;  // of the target, where the timing model is of it
};

// A kernel that counts what it does, for its cycles.
struct CountingKernel {
  tir::InstrumentedKernel kernel;
  std::shared_ptr<const tir::InterpreterProgram> program;
};

struct InterpSession {
  const InterpModule* module;
  std::vector<tir::InterpreterArgument> arguments;
  std::vector<std::unique_ptr<const CountingKernel>> counting;  // per kernel, once somebody has asked for its cycles
  std::vector<int64_t> counters;
};

Result<InterpModule::Kernel> load_kernel(const aipu_backend_kernel& info, Meter& meter) {
  AIPU_ASSIGN_OR_RETURN(const tir::Module module, tir::parse_module({info.tir, info.tir_bytes}, &meter));
  const tir::PrimFunc& entry = module.entry();
  if (entry.params.size() != info.argument_count)
    return invalid_model(str_cat("it does not take the ", info.argument_count, " arguments that the tables describe"));
  for (uint32_t k = 0; k < info.argument_count; ++k) {
    if (entry.params[k]->type.pointer != (info.pointer_arguments[k] != 0))
      return invalid_model(str_cat("argument ", k, " is not of the kind that the tables describe"));
  }
  AIPU_ASSIGN_OR_RETURN(auto program, tir::compile_for_interpreter(module, &meter));
  return InterpModule::Kernel{&info, std::move(program)};
}

Result<std::unique_ptr<InterpModule>> load_module(const aipu_backend_model& model) {
  auto module = std::make_unique<InterpModule>();
  module->tec_count = model.tec_count == 0 ? 1 : model.tec_count;
  module->costs = costs_of(model);
  if (const char* limit = std::getenv("AIPU_INTERP_MAX_STEPS"); limit != nullptr)
    module->max_steps = std::strtoull(limit, nullptr, 10);
  Meter meter("loading the kernels", model.memory_limit_bytes, "--load-memory-limit, LoadOptions::budget",
              model.deadline_ns);
  for (uint32_t i = 0; i < model.kernel_count; ++i) {
    auto kernel = load_kernel(model.kernels[i], meter);
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

void unload(void* module) { delete static_cast<InterpModule*>(module); }

int open(void* module, const aipu_backend_services*, void** result, aipu_backend_error* error) {
  return end_exceptions(error, [&]() -> Status {
    *result = new InterpSession{static_cast<const InterpModule*>(module), {}, {}, {}};
    return {};
  });
}

void close(void* session) { delete static_cast<InterpSession*>(session); }

// `memory`: what the kernel may take once more, beside what it is counted with.
Result<const CountingKernel*> counting_kernel(InterpSession& session, uint32_t index, int64_t memory,
                                              int64_t deadline_ns) {
  session.counting.resize(session.module->kernels.size());
  auto& kept = session.counting[index];
  if (kept == nullptr) {
    const aipu_backend_kernel& info = *session.module->kernels[index].info;
    Meter meter("counting cycles", memory, "--run-memory-limit, SessionOptions::memory_limit_bytes", deadline_ns);
    AIPU_ASSIGN_OR_RETURN(const tir::Module module, tir::parse_module({info.tir, info.tir_bytes}, &meter));
    auto fresh = std::make_unique<CountingKernel>();
    AIPU_ASSIGN_OR_RETURN(fresh->kernel, tir::instrument(module, session.module->costs.value_or(tir::CostFigures())));
    AIPU_ASSIGN_OR_RETURN(fresh->program, tir::compile_for_interpreter(fresh->kernel.module, &meter));
    kept = std::move(fresh);
  }
  return kept.get();
}

Status run_kernel(InterpSession& session, const aipu_backend_launch& launch) {
  if (launch.struct_bytes <= offsetof(aipu_backend_launch, deadline_ns))
    return unsupported("this back end is newer than the runtime that calls it");
  const InterpModule::Kernel& kernel = session.module->kernels[launch.kernel];
  const auto tecs = static_cast<int>(std::min(launch.max_tecs, session.module->tec_count));
  const int64_t bytes = tir::launch_bytes(tir::interpreter_needs(*kernel.program), tecs);
  if (bytes > launch.memory_limit_bytes) {
    return out_of_range(str_cat("it needs ", bytes, " bytes of private, local and shared memory, of the run's limit ",
                                launch.memory_limit_bytes,
                                " are left (--run-memory-limit, SessionOptions::memory_limit_bytes)"));
  }
  session.arguments.clear();
  for (uint32_t i = 0; i < launch.argument_count; ++i) {
    tir::InterpreterArgument argument;
    argument.is_pointer = kernel.info->pointer_arguments[i] != 0;
    if (argument.is_pointer) {
      argument.data = reinterpret_cast<std::byte*>(launch.words[i]);
      argument.bytes = launch.extents[i];
      argument.writable = launch.writable[i] != 0;
    } else {
      argument.word = launch.words[i];
    }
    session.arguments.push_back(argument);
  }
  tir::InterpreterOptions options;
  options.max_steps = session.module->max_steps;
  options.fault = launch.fault;
  options.deadline_ns = launch.deadline_ns;
  const bool counts = launch.struct_bytes > offsetof(aipu_backend_launch, cycles) && launch.cycles != nullptr;
  if (!counts) return tir::interpret_all(*kernel.program, tecs, session.arguments, options);
  AIPU_ASSIGN_OR_RETURN(const CountingKernel* counting,
                        counting_kernel(session, launch.kernel, launch.memory_limit_bytes - bytes, launch.deadline_ns));
  session.counters.assign(static_cast<size_t>(tecs * counting->kernel.counter_count), 0);
  tir::InterpreterArgument counters;
  counters.is_pointer = counters.writable = true;
  counters.data = reinterpret_cast<std::byte*>(session.counters.data());
  counters.bytes = session.counters.size() * sizeof(int64_t);
  session.arguments.push_back(counters);
  AIPU_RETURN_IF_ERROR(tir::interpret_all(*counting->program, tecs, session.arguments, options));
  tell_cycles(tir::estimate(counting->kernel, session.counters), launch);
  return {};
}

int launch(void* session, const aipu_backend_launch* launch, aipu_backend_error* error) {
  return end_exceptions(error, [&] { return run_kernel(*static_cast<InterpSession*>(session), *launch); });
}

uint32_t tec_count(void* session) { return static_cast<InterpSession*>(session)->module->tec_count; }

int64_t copy_cycles(void* session, int64_t rows, int64_t row_bytes) {
  const auto& costs = static_cast<InterpSession*>(session)->module->costs;
  return costs ? costs->commands.copy_cycles(rows, row_bytes) : -1;
}

constexpr aipu_backend kBackend = {
    AIPU_BACKEND_API_VERSION,
    sizeof(aipu_backend),
    "interp",
    "interprets the TIR of the kernels",
    AIPU_BACKEND_COMPUTES | AIPU_BACKEND_TIR | AIPU_BACKEND_CHECKS_BOUNDS | AIPU_BACKEND_BARRIERS | AIPU_BACKEND_FAULTS,
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
