#include "codegen/cuda_c/cuda_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "codegen/c_spelling/c_names.h"
#include "codegen/driver/code_generator.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/lower/lower.h"
#include "codegen/native_c/function_printer.h"
#include "codegen/native_c/translation_unit.h"
#include "codegen/tir/visit.h"
#include "runtime/base/embedded_file.h"

namespace aipu::tir {

std::span<const EmbeddedFile> cuda_prelude_files();  // generated, see codegen/CMakeLists.txt

namespace {

std::string prelude_file(std::string_view name) {
  for (const EmbeddedFile& file : cuda_prelude_files()) {
    if (file.name == name) return std::string(file.text);
  }
  return {};
}

std::optional<size_t> thread_axis(const VarPtr& param) {
  const auto found = std::find(kThreadAxes.begin(), kThreadAxes.end(), param->name);
  if (param->type.pointer || found == kThreadAxes.end()) return std::nullopt;
  return static_cast<size_t>(found - kThreadAxes.begin());
}

// The entry without its thread axes; pointers need no word for the memory that they point to.
Module as_printed(const Module& lowered) {
  Module module = lowered;
  PrimFunc entry = lowered.entry();
  std::erase_if(entry.params, [](const VarPtr& param) { return thread_axis(param).has_value(); });
  module.functions.front() = std::make_shared<const PrimFunc>(std::move(entry));
  return module;
}

class CudaPrinter final : public FunctionPrinter {
 public:
  CudaPrinter(const Module& printed, const LaunchNeeds& needs, const std::vector<std::string>& names,
              const Module& lowered)
      : FunctionPrinter(printed, needs, names), lowered_(lowered) {}

 private:
  void begin_definition() override {
    FunctionPrinter::begin_definition();
    if (!in_entry()) return;
    for (const VarPtr& param : lowered_.entry().params) {
      if (const auto axis = thread_axis(param)) {
        std::string name(kThreadAxes[*axis]);
        name[name.find('_')] = '.';
        rename(*param, fmt::format("(({}){})", c_type(param->type), name));
      }
    }
  }
  void alloc(const Alloc& n) override {
    if (n.buffer->type.scope != Scope::kShared) return FunctionPrinter::alloc(n);
    const std::string name = declare(n.buffer);
    line(fmt::format("__shared__ {} {}[{}];", c_type(n.buffer->type.pointee()), name, std::max<int64_t>(n.count, 1)));
  }
  std::string intrinsic(const IntrinsicCall& n, const Expr& e, const std::string& destination) override {
    if (n.intrinsic->name == "barrier") return "__syncthreads()";
    return FunctionPrinter::intrinsic(n, e, destination);
  }

  const Module& lowered_;
};

void replace_all(std::string* text, std::string_view from, std::string_view to) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
    text->replace(at, from.size(), to);
}

Result<std::string> functions_text(const std::vector<std::string>& names, const Module& lowered) {
  AIPU_RETURN_IF_ERROR(check_cuda(lowered));
  const Module printed = as_printed(lowered);
  const LaunchNeeds needs = launch_needs(printed);
  CudaPrinter printer(printed, needs, names, lowered);
  AIPU_ASSIGN_OR_RETURN(std::string text, printer.all_functions());
  replace_all(&text, "__kernel ", "extern \"C\" __global__ ");
  replace_all(&text, "__global ", "");
  text.insert(0, "\n");
  replace_all(&text, "\nstatic ", "\nstatic __device__ ");
  return text;
}

std::vector<std::string> names_of(std::string_view symbol, const Module& lowered) {
  std::set<std::string> taken;
  return function_names(lowered, std::string(symbol), taken);
}

}  // namespace

bool emulates_cuda() {
  const char* wanted = std::getenv("AIPU_CUDA");
  return wanted != nullptr && std::string_view(wanted) == "emulate";
}

std::string cuda_prelude() { return prelude_file("prelude_cuda.h"); }

std::string cuda_emulation_prelude(const Target& target) {
  return host_prelude(target) + prelude_file("prelude_emulation.h");
}

Status check_cuda(const Module& lowered) {
  const auto& params = lowered.entry().params;
  if (std::none_of(params.begin(), params.end(), [](const VarPtr& p) { return thread_axis(p).has_value(); }))
    return unsupported("it has no thread axes: target cuda runs schedules of aipu.te");
  Status status;
  const auto refuse = [&](std::string text) {
    if (status.ok()) status = unsupported(std::move(text));
  };
  for (const PrimFuncPtr& function : lowered.functions) {
    walk(
        function->body,
        [&](const Expr& e) {
          if (e->type.lanes != 1) refuse(fmt::format("cuda has no vectors of type {}", e->type.text()));
          const auto* call = e->as<IntrinsicCall>();
          if (call != nullptr && call->intrinsic->asks_tec && call->intrinsic->name != "barrier")
            refuse(fmt::format("cuda has no S.{}", call->intrinsic->name));
        },
        [&](const Stmt& s) {
          const auto* alloc = s->as<Alloc>();
          if (alloc != nullptr && alloc->buffer->type.scope == Scope::kLsram) refuse("cuda has no lsram");
        });
  }
  AIPU_RETURN_IF_ERROR(status);
  AIPU_ASSIGN_OR_RETURN(const Target target, find_target("cuda"));
  return check_runs(lowered, launch_needs(lowered), target);
}

Result<std::string> cuda_text(std::string_view symbol, const Module& parsed) {
  AIPU_ASSIGN_OR_RETURN(const Target target, find_target("cuda"));
  AIPU_ASSIGN_OR_RETURN(const Module lowered, lower(parsed, target));
  AIPU_RETURN_IF_ERROR(check_types(lowered, target));
  return functions_text(names_of(symbol, lowered), lowered);
}

Result<KernelText> print_cuda_kernel(const KernelSource& kernel) {
  const std::vector<std::string> names = names_of(kernel.symbol, kernel.lowered);
  KernelText text;
  AIPU_ASSIGN_OR_RETURN(text.c, functions_text(names, kernel.lowered));
  const LaunchNeeds needs = launch_needs(kernel.lowered);
  std::array<std::string, kThreadAxes.size()> extents;
  extents.fill("1");
  std::string arguments;
  const auto& params = kernel.lowered.entry().params;
  for (size_t i = 0; i < params.size(); ++i) {
    const std::string word = fmt::format("arguments[{}]", i);
    if (const auto axis = thread_axis(params[i]))
      extents[*axis] = fmt::format("(unsigned int){}", word);
    else
      arguments += fmt::format("{}__argument<{}>({})", arguments.empty() ? "" : ", ", c_type(params[i]->type), word);
  }
  text.entry = fmt::format("aipu_entry_{}", names[0]);
  text.c += fmt::format(
      "\nextern \"C\" __hidden void {0}(const aipu_tec_context* context, const unsigned long long* arguments) {{\n"
      "  const unsigned int grid[6] = {{{1}, {2}, {3}, {4}, {5}, {6}}};\n"
      "  __cuda_run(context->tec_id, context->tec_count, grid, {7}, [=] {{ {8}({9}); }});\n}}\n",
      text.entry, extents[0], extents[1], extents[2], extents[3], extents[4], extents[5], needs.uses_barrier, names[0],
      arguments);
  text.table_row = table_row(kernel.symbol, text.entry, params.size(), needs);
  return text;
}

}  // namespace aipu::tir
