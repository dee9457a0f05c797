#include "codegen/driver/code_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <mutex>

#include "codegen/compass_c/c_text.h"
#include "codegen/compass_c/cxx_text.h"
#include "codegen/cuda_c/cuda_text.h"
#include "codegen/native_c/translation_unit.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

class NativeC final : public CodeGenerator {
 public:
  std::string_view name() const override { return "native_c"; }
  std::string prelude(const Target& target) const override { return host_prelude(target); }
  Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool line_marks) const override {
    return print_host_kernel(kernel, target, line_marks);
  }
  bool is_for_this_cpu() const override { return true; }
};

class CompassC final : public CodeGenerator {
 public:
  std::string_view name() const override { return "compass_c"; }
  Result<std::optional<Module>> shown(const Module& parsed, const Target& target,
                                      const std::vector<std::string>& disabled_passes) const override {
    AIPU_ASSIGN_OR_RETURN(Module module, compass_c_module(parsed, target, disabled_passes));
    return std::optional(std::move(module));
  }
  std::string prelude(const Target& target) const override { return compass_prelude(target); }
  Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool line_marks) const override {
    return print_compass_kernel(kernel, target, line_marks);
  }
  // The functional model is.
  bool is_for_this_cpu() const override { return true; }
};

class CudaC final : public CodeGenerator {
 public:
  std::string_view name() const override { return "cuda_c"; }
  Status check(const Module& lowered, const Target& target) const override {
    AIPU_RETURN_IF_ERROR(check_types(lowered, target));
    return check_cuda(lowered);
  }
  std::string prelude(const Target& target) const override { return cuda_emulation_prelude(target); }
  Result<KernelText> print_kernel(const KernelSource& kernel, const Target&, bool) const override {
    return print_cuda_kernel(kernel);
  }
  Result<CompiledModule> compile(std::span<const KernelSource> kernels, const Target& target,
                                 const CompileOptions& options) const override {
    if (emulates_cuda()) return CodeGenerator::compile(kernels, target, options);
    return unsupported("kernels of target cuda run on a GPU by aipu.build, or here with AIPU_CUDA=emulate");
  }
};

using Generators = std::vector<std::unique_ptr<CodeGenerator>>;

struct Registry {
  std::mutex mutex;
  Generators generators;
  Registry() {
    generators.push_back(std::make_unique<NativeC>());
    generators.push_back(std::make_unique<CompassC>());
    generators.push_back(std::make_unique<CudaC>());
  }
};
Registry& registry() {
  static Registry* const registry = new Registry;  // libraries of targets are never unloaded
  return *registry;
}

Status check_names(std::span<const std::unique_ptr<CodeGenerator>> added, const Generators& known) {
  for (size_t i = 0; i < added.size(); ++i) {
    const std::string_view name = added[i]->name();
    const bool good = !name.empty() && std::all_of(name.begin(), name.end(),
                                                   [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (!good) return invalid_argument(fmt::format("'{}' is not a name for a code generator", name));
    const auto is_same = [&](const auto& other) { return other->name() == name; };
    const auto before = added.first(i);
    if (std::any_of(known.begin(), known.end(), is_same) || std::any_of(before.begin(), before.end(), is_same))
      return invalid_argument(fmt::format("code generator '{}': there is one of that name already", name));
  }
  return {};
}

}  // namespace

Result<Module> CodeGenerator::lower(const Module& parsed, const Target& target, const LowerOptions& options) const {
  return tir::lower(parsed, target, options);
}

Status CodeGenerator::check(const Module& lowered, const Target& target) const { return check_types(lowered, target); }

Result<std::optional<Module>> CodeGenerator::shown(const Module&, const Target&,
                                                   const std::vector<std::string>&) const {
  return std::optional<Module>();
}

Result<CompiledModule> CodeGenerator::compile(std::span<const KernelSource> kernels, const Target& target,
                                              const CompileOptions& options) const {
  return compile_units(*this, kernels, target, options);
}

Result<const CodeGenerator*> find_code_generator(std::string_view name) {
  const std::lock_guard lock(registry().mutex);
  std::string known;
  for (const auto& generator : registry().generators) {
    if (generator->name() == name) return generator.get();
    known += fmt::format("{}{}", known.empty() ? "" : ", ", generator->name());
  }
  return invalid_argument(fmt::format("there is no code generator '{}' (there are: {})", name, known));
}

Status check_code_generators(std::span<const std::unique_ptr<CodeGenerator>> generators) {
  const std::lock_guard lock(registry().mutex);
  return check_names(generators, registry().generators);
}

Status add_code_generators(Generators generators) {
  const std::lock_guard lock(registry().mutex);
  AIPU_RETURN_IF_ERROR(check_names(generators, registry().generators));
  for (auto& generator : generators) registry().generators.push_back(std::move(generator));
  return {};
}

Status check_types(const Module& module, const Target& target) {
  if (target.types.empty()) return {};
  Status status;
  const auto check = [&](const Type& type) {
    const bool fine = type.element == DType::kVoid || type.element == DType::kBool || type.element == DType::kString ||
                      target.has(type.element);
    if (!fine && status.ok())
      status = unsupported(fmt::format("it takes {}, which target '{}' lacks", dtype_name(type.element), target.name));
  };
  for (const PrimFuncPtr& function : module.functions) {
    for (const VarPtr& param : function->params) check(param->type);
    walk(
        function->body, [&](const Expr& e) { check(e->type); },
        [&](const Stmt& s) {
          if (const auto* define = s->as<Define>()) check(define->var->type);
          if (const auto* alloc = s->as<Alloc>()) check(alloc->buffer->type);
        });
  }
  return status;
}

}  // namespace aipu::tir
