#include "codegen/driver/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/c_spelling/c_names.h"
#include "codegen/driver/code_generator.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {

LaunchNeeds launch_needs(const Module& module) {
  LaunchNeeds needs;
  needs.memory = plan_on_chip_memory(module);
  needs.uses_context = !needs.memory.offsets.empty();
  needs.reports_faults = !module.entry().non_negative_params.empty();
  for (const PrimFuncPtr& function : module.functions) {
    walk(
        function->body,
        [&](const Expr& e) {
          const auto* call = e->as<IntrinsicCall>();
          if (call == nullptr) return;
          if (call->intrinsic->name == "barrier") needs.uses_barrier = true;
          if (call->intrinsic->name == "tile_dot") needs.uses_tiles = true;
          if (call->intrinsic->name == "report_fault") needs.reports_faults = true;
          needs.uses_context |= call->intrinsic->asks_tec;
        },
        [&](const Stmt& s) {
          if (const auto* loop = s->as<For>(); loop != nullptr && loop->kind == ForKind::kTec)
            needs.uses_context = true;
        });
  }
  return needs;
}

Status check_runs(const Module& module, const LaunchNeeds& needs, const Target& target) {
  for (const PrimFuncPtr& function : module.functions) {
    const IntrinsicCall* found = nullptr;
    walk(
        function->body,
        [&](const Expr& e) {
          const auto* call = e->as<IntrinsicCall>();
          if (call != nullptr && (call->intrinsic->name == "aiff" || call->intrinsic->name == "async_aiff"))
            found = call;
        },
        [](const Stmt&) {});
    if (found != nullptr)
      return internal_error(
          fmt::format("function {}: S.{} needs the vendor's fixed-function unit; it can be printed, not compiled",
                      function->name, found->intrinsic->name));
  }
  return check_on_chip_memory(module.entry().name, needs.memory.lsram_bytes, needs.memory.shared_bytes, target);
}

std::string table_row(std::string_view symbol, std::string_view entry, size_t arguments, const LaunchNeeds& needs) {
  return fmt::format("{{\"{}\", {}, {}, {}, {}, {}}}", symbol, entry, arguments, needs.memory.lsram_bytes,
                     needs.memory.shared_bytes, needs.uses_barrier ? 1 : 0);
}

KernelText wrap_kernel(std::string_view symbol, std::string_view function, const Module& printed,
                       const LaunchNeeds& needs, std::string functions, const WrapperWords& words) {
  const std::vector<VarPtr>& params = printed.entry().params;
  KernelText text;
  text.entry = fmt::format("aipu_entry_{}", function);
  std::string arguments;
  for (size_t i = 0; i < params.size(); i++)
    arguments += fmt::format("{}{}<{}>(arguments[{}])", i == 0 ? "" : ", ", words.argument, c_type(params[i]->type), i);
  std::string keep = needs.uses_context ? fmt::format("  {} = context;\n", words.context) : "";
  if (needs.uses_tiles) keep += "  __tile_scope __tiles;\n";
  text.c = fmt::format(
      "{0}\nextern \"C\" __hidden void {1}(const aipu_tec_context*{2}, const unsigned long long*{3}) {{\n{4}  "
      "{5}({6});\n}}\n",
      functions, text.entry, needs.uses_context ? " context" : "", params.empty() ? "" : " arguments", keep, function,
      arguments);
  text.reports_faults = needs.reports_faults;
  text.table_row = table_row(symbol, text.entry, params.size(), needs);
  return text;
}

Result<KernelSource> kernel_source(std::string symbol, const Module& parsed, Module lowered, const Target& target,
                                   std::vector<std::string> disabled_passes) {
  AIPU_ASSIGN_OR_RETURN(const CodeGenerator* generator, find_code_generator(target.codegen));
  AIPU_RETURN_IF_ERROR(generator->check(lowered, target));
  KernelSource source{std::move(symbol), std::move(lowered), {}, std::move(disabled_passes)};
  AIPU_ASSIGN_OR_RETURN(source.shown, generator->shown(parsed, target, source.disabled_passes));
  return source;
}

Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool line_marks) {
  AIPU_ASSIGN_OR_RETURN(const CodeGenerator* generator, find_code_generator(target.codegen));
  return generator->print_kernel(kernel, target, line_marks);
}

std::string unit_header() { return "#include <compass/dsl.h>\n\n"; }

std::string print_module_table(std::span<const KernelText> kernels, bool declare) {
  std::string text;
  if (declare) {
    for (const KernelText& kernel : kernels) {
      text += fmt::format(
          "extern \"C\" __attribute__((visibility(\"hidden\"))) void {}(const aipu_tec_context*, const unsigned long "
          "long*);\n",
          kernel.entry);
    }
  }
  const bool faults = std::any_of(kernels.begin(), kernels.end(), [](const KernelText& k) { return k.reports_faults; });
  const std::string_view version = faults ? "AIPU_KERNEL_ABI_VERSION" : "AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS";
  text += fmt::format("\nstatic const aipu_kernel_info aipu_kernels[{}] = {{\n", std::max<size_t>(kernels.size(), 1));
  for (const KernelText& kernel : kernels) text += fmt::format("  {},\n", kernel.table_row);
  text += fmt::format(
      "}};\n\nstatic const aipu_kernel_module aipu_module = {{{}, sizeof(aipu_kernel_info), {}, aipu_kernels}};\n\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) const aipu_kernel_module* aipu_kernel_module_v1(void) {{ "
      "return &aipu_module; "
      "}}\n",
      version, kernels.size());
  return text;
}

Result<std::string> print_translation_unit(std::span<const KernelSource> kernels, const Target& target) {
  std::string text = unit_header();
  std::vector<KernelText> printed;
  for (const KernelSource& kernel : kernels) {
    auto one = print_kernel(kernel, target);
    if (!one.ok()) return std::move(one).status().context(fmt::format("kernel {}", kernel.symbol));
    text += one->c + "\n";
    printed.push_back(std::move(*one));
  }
  return text + print_module_table(printed, false);
}

}  // namespace aipu::tir
