// The back end that runs a model whose kernels the user does not want to load as native code: it interprets the TIR
// beside them, every access checked.
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "runtime/backends/backend_api.h"

namespace aipu::runtime {
namespace {

// A hostile kernel could loop forever. The default leaves room for anything that a person would wait for.
constexpr uint64_t kDefaultMaxSteps = uint64_t{1} << 40;

struct InterpModule {
  struct Kernel {
    const aipu_backend_kernel* info;
    tir::Module module;
  };
  std::vector<Kernel> kernels;
  uint32_t tec_count = 1;
  uint64_t max_steps = kDefaultMaxSteps;
};

struct InterpSession {
  const InterpModule* module;
  std::vector<tir::InterpreterArgument> arguments;
};

int report(const Status& status, aipu_backend_error* error) {
  const std::string& message = status.message();
  const size_t size = std::min(message.size(), sizeof error->message - 1);
  message.copy(error->message, size);
  error->message[size] = '\0';
  for (char* c = error->message; *c != '\0'; ++c) {
    if (*c == '\n') *c = ' ';
  }
  return static_cast<int>(status.code());
}

int load(const aipu_backend_model* model, void** result, aipu_backend_error* error) {
  auto module = std::make_unique<InterpModule>();
  module->tec_count = model->tec_count == 0 ? 1 : model->tec_count;
  if (const char* limit = std::getenv("AIPU_INTERP_MAX_STEPS"); limit != nullptr)
    module->max_steps = std::strtoull(limit, nullptr, 10);
  for (uint32_t i = 0; i < model->kernel_count; ++i) {
    const aipu_backend_kernel& info = model->kernels[i];
    auto parsed = tir::parse_module({info.tir, info.tir_bytes});
    if (!parsed.ok())
      return report(std::move(parsed).status().context(str_cat("TIR of kernel '", info.name, "'")), error);
    if (parsed->functions.empty() || parsed->entry().params.size() != info.argument_count) {
      return report(invalid_model(str_cat("TIR of kernel '", info.name, "' does not take the ", info.argument_count,
                                          " arguments that the tables describe")),
                    error);
    }
    for (uint32_t k = 0; k < info.argument_count; ++k) {
      if (parsed->entry().params[k]->type.pointer != (info.pointer_arguments[k] != 0)) {
        return report(invalid_model(str_cat("TIR of kernel '", info.name, "': argument ", k,
                                            " is not of the kind that the tables describe")),
                      error);
      }
    }
    module->kernels.push_back({&info, std::move(parsed).value()});
  }
  *result = module.release();
  return 0;
}

void unload(void* module) { delete static_cast<InterpModule*>(module); }

int open(void* module, const aipu_backend_services*, void** result, aipu_backend_error*) {
  *result = new InterpSession{static_cast<const InterpModule*>(module), {}};
  return 0;
}

void close(void* session) { delete static_cast<InterpSession*>(session); }

int launch(void* opaque, const aipu_backend_launch* launch, aipu_backend_error* error) {
  InterpSession& session = *static_cast<InterpSession*>(opaque);
  const InterpModule::Kernel& kernel = session.module->kernels[launch->kernel];
  if (launch->struct_bytes < sizeof(aipu_backend_launch))
    return report(unsupported("this back end is newer than the runtime that calls it"), error);
  session.arguments.clear();
  for (uint32_t i = 0; i < launch->argument_count; ++i) {
    tir::InterpreterArgument argument;
    argument.is_pointer = kernel.info->pointer_arguments[i] != 0;
    if (argument.is_pointer) {
      argument.data = reinterpret_cast<std::byte*>(launch->words[i]);
      argument.bytes = launch->extents[i];
      argument.writable = launch->writable[i] != 0;
    } else {
      argument.word = launch->words[i];
    }
    session.arguments.push_back(argument);
  }
  const auto tecs = static_cast<int>(std::min(launch->max_tecs, session.module->tec_count));
  tir::InterpreterOptions options;
  options.max_steps = session.module->max_steps;
  options.fault = launch->fault;
  const Status status = tir::interpret_all(kernel.module, tecs, session.arguments, options);
  return status.ok() ? 0 : report(status, error);
}

uint32_t tec_count(void* session) { return static_cast<InterpSession*>(session)->module->tec_count; }

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
    &tec_count};

}  // namespace
}  // namespace aipu::runtime

extern "C" __attribute__((visibility("default"))) const aipu_backend* aipu_backend_v1(void) {
  return &aipu::runtime::kBackend;
}
