// The order of the passes behind c_code; the comment beside a line says why it stands there.
#include "codegen/compass_c/c_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/text_printer.h"
#include "codegen/compass_c/vector_aligner.h"
#include "codegen/lower/lower.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

using c_text::Spelling;

struct TextPass {
  std::string_view name;
  PrimFunc (*run)(const PrimFunc&) = nullptr;
  PrimFunc (*run_for_target)(const PrimFunc&, const Target&) = nullptr;
  Module (*run_module)(const Module&) = nullptr;
};

constexpr TextPass kPasses[] = {
    {"UnifyThreadBinding", nullptr, c_text::bind_threads},  // first: the TEC's loop is a test like any other
    {"EvaluateBoundsOnce", c_text::evaluate_bounds_once},   // before anything moves into or out of loops
    {"Simplify", c_text::simplify},
    {"Simplify", c_text::propagate_constants},
    {"Simplify", c_text::simplify},                   // tests and sums of them are decided now
    {"HoistIfThenElse", c_text::hoist_if_then_else},  // behind the folding that leaves one test
    {"VectorizeLoop", c_text::vectorize_loops},
    {"UnrollLoop", c_text::unroll_loops},
    {"Simplify", c_text::simplify},  // loop variables have become constants
    {"RenameForLoopVar", c_text::rename_loop_variables},
    {"InjectDma", c_text::inject_dma},  // before common subexpressions: byte counts are some
    {"InitializeEventState", c_text::name_events},
    {"EliminateGetLocalID", c_text::eliminate_get_local_id},
    {"CanonicalizeDivMod", nullptr, nullptr,
     c_text::canonicalize_div_mod},  // shifts and masks are no common subexpressions
    {"CommonSubexprElimTIR", c_text::eliminate_common_subexpressions},
    {"LowerStandard", c_text::lower_standard},
    {"ExchangeConstantToRight", c_text::strength_reduce},
    {"FoldConstant", c_text::simplify},
    {"AlignVectorWidth", nullptr, nullptr, c_text::align_vector_width},  // on intrinsics only
    {"CombineInstructions", c_text::combine_instructions},               // on native vectors
};

// Passes that are one here and several there.
bool is_disabled(std::string_view name, std::span<const std::string> disabled) {
  const auto has = [&](std::string_view wanted) {
    return std::any_of(disabled.begin(), disabled.end(), [&](std::string_view given) {
      if (const size_t dot = given.rfind('.'); dot != std::string_view::npos) given.remove_prefix(dot + 1);
      return given == wanted;
    });
  };
  // Splitting and padding each do the whole work; so does either name of the folding.
  if (name == "AlignVectorWidth") return has("AlignVectorWidthBySplit") && has("AlignVectorWidthByPad");
  if (name == "FoldConstant") return has("FoldConstant") || has("Simplify");
  return has(name);
}

// The entry's own name; the others behind it, so that the kernels of several entries can be linked together.
std::vector<std::string> names_in_c(const Module& module, bool with_entry) {
  std::vector<std::string> names;
  const std::string entry = c_text::valid_identifier(module.entry().name);
  for (size_t i = 0; i < module.functions.size(); ++i) {
    const std::string own = c_text::valid_identifier(module.functions[i]->name);
    const std::string base = i == 0 || !with_entry ? own : fmt::format("{}_{}", entry, own);
    std::string name = base;
    for (int k = 1; std::find(names.begin(), names.end(), name) != names.end(); ++k)
      name = fmt::format("{}_{}", base, k);
    names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string_view> compass_c_passes() {
  std::vector<std::string_view> names;
  for (const TextPass& pass : kPasses) names.push_back(pass.name);
  for (const std::string_view name : {"RenameUtilsFnames", "ReviseParamR", "LowerVirtualIsa", "Revert2Standard"})
    names.push_back(name);
  return names;
}

bool has_vector_without_type(const Module& shown) {
  bool found = false;
  const auto look = [&](const Type& type) { found |= type.lanes > 64 || (type.lanes & (type.lanes - 1)) != 0; };
  for (const PrimFuncPtr& function : shown.functions) {
    for (const VarPtr& param : function->params) look(param->type);
    walk(
        function->body, [&](const Expr& e) { look(e->type); },
        [&](const Stmt& s) {
          if (const auto* n = s->as<Alloc>()) look(n->buffer->type);
          // Values of several registers: what the aligning leaves when it finds no form for one of them.
          if (const auto* n = s->as<Define>()) found |= c_text::is_wide(n->var->type);
          const auto* n = s->as<Evaluate>();
          const auto* call = n != nullptr ? n->value->as<IntrinsicCall>() : nullptr;
          if (call != nullptr && !call->args.empty() && call->args[0]) found |= c_text::is_wide(call->args[0]->type);
        });
  }
  return found;
}

namespace {

Module run_passes(Module module, const Target& target, std::span<const std::string> disabled_passes) {
  for (const TextPass& pass : kPasses) {
    if (is_disabled(pass.name, disabled_passes)) continue;
    if (pass.run_module != nullptr) {
      module = pass.run_module(module);
      continue;
    }
    for (PrimFuncPtr& function : module.functions) {
      function = std::make_shared<PrimFunc>(pass.run != nullptr ? pass.run(*function)
                                                                : pass.run_for_target(*function, target));
    }
  }
  return module;
}

}  // namespace

Result<Module> compass_c_module(const Module& parsed, const Target& target,
                                std::span<const std::string> disabled_passes) {
  AIPU_RETURN_IF_ERROR(verify(parsed));
  Module module = run_passes(parsed, target, disabled_passes);
  if (!has_vector_without_type(module) || is_disabled("AlignVectorWidth", disabled_passes)) return module;
  // Operations on all lanes of an odd number of them, as lower() takes them apart.
  AIPU_ASSIGN_OR_RETURN(Module lowered, lower(parsed, target));
  return run_passes(std::move(lowered), target, disabled_passes);
}

Result<CompassText> print_compass_c(const Module& shown, const Target& target,
                                    std::span<const std::string> disabled_passes, bool line_marks) {
  Spelling spelling;
  spelling.combine_instructions = !is_disabled("CombineInstructions", disabled_passes);
  spelling.revise_pass_through = !is_disabled("ReviseParamR", disabled_passes);
  spelling.lower_virtual_isa = !is_disabled("LowerVirtualIsa", disabled_passes);
  spelling.converts_halves = target.generation == 3;
  spelling.revert_to_standard = !is_disabled("Revert2Standard", disabled_passes);
  const std::vector<std::string> names = names_in_c(shown, !is_disabled("RenameUtilsFnames", disabled_passes));
  c_text::TextPrinter printer(shown, names, spelling);
  if (line_marks) printer.mark_lines();
  std::map<std::string, size_t> order;
  for (size_t i = 0; i < names.size(); ++i) order[names[i]] = i;
  std::string prototypes, definitions;
  for (const auto& [name, index] : order) {
    prototypes += printer.prototype(index) + ";\n";
    definitions += "\n" + printer.definition(index);
  }
  AIPU_RETURN_IF_ERROR(printer.status());
  CompassText text{"#include <compass/dsl.h>\n\n", names[0], printer.arrays()};
  for (const std::string* part : {&printer.constants(), &printer.dma_macros()}) {
    if (!part->empty()) text.c += *part + "\n";
  }
  text.c += prototypes + definitions;
  return text;
}

Result<std::string> compass_c_text(const Module& parsed, const Target& target,
                                   std::span<const std::string> disabled_passes) {
  AIPU_ASSIGN_OR_RETURN(const Module module, compass_c_module(parsed, target, disabled_passes));
  AIPU_ASSIGN_OR_RETURN(CompassText text, print_compass_c(module, target, disabled_passes));
  return std::move(text.c);
}

}  // namespace aipu::tir
