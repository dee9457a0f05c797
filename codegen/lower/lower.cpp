// The lowering order. Each line is one pass; the comment beside it says why it stands there.
#include "codegen/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/lower/passes.h"
#include "codegen/tir/verifier.h"

namespace aipu::tir {
namespace {

// Of one function, or of all together where signatures change.
struct LoweringPass {
  std::string_view name;
  Result<PrimFunc> (*run)(const PrimFunc&, const Target&) = nullptr;
  Result<Module> (*run_module)(const Module&, const Target&) = nullptr;
};

constexpr LoweringPass kPasses[] = {
    {"resolve_loops", resolve_loops},                    // first: unrolled bodies index private arrays by constants
    {"fold_constants", simplify},                        // ... which they are when the copies are folded
    {"promote_private_arrays", promote_private_arrays},  // before splitting: a tile's accumulators are named variables
    {"lower_fma", lower_fma},                            // what the interpreter runs is what is compiled
    {"split_vectors", nullptr, split_vectors},           // the only pass that knows the width of a register
    {"hoist_tec_id", hoist_tec_id},                      // after all that copies code
    {"simplify", simplify},                              // splitting and unrolling leave arithmetic on constants
    {"share_constants", share_constants},                // last: before, constants belong to what is computed with them
};

Result<Module> run_on_functions(const LoweringPass& pass, const Module& module, const Target& target) {
  Module result;
  for (const PrimFuncPtr& function : module.functions) {
    auto lowered = pass.run(*function, target);
    if (!lowered.ok()) return std::move(lowered).status().context(function->name);
    result.functions.push_back(lowered->body == function->body ? function
                                                               : std::make_shared<PrimFunc>(std::move(*lowered)));
  }
  return result;
}

}  // namespace

Result<Module> lower(const Module& module, const Target& target, const LowerOptions& options) {
  for (const std::string& name : options.disabled_passes) {
    const bool known = std::any_of(std::begin(kPasses), std::end(kPasses),
                                   [&](const LoweringPass& pass) { return pass.name == name; });
    if (!known) return invalid_argument(fmt::format("no lowering pass is named '{}'", name));
  }
  AIPU_RETURN_IF_ERROR(verify(module));
  Module current = module;
  int index = 0;
  for (const LoweringPass& pass : kPasses) {
    ++index;
    if (std::find(options.disabled_passes.begin(), options.disabled_passes.end(), pass.name) !=
        options.disabled_passes.end())
      continue;
    Result<Module> next = pass.run_module ? pass.run_module(current, target) : run_on_functions(pass, current, target);
    if (!next.ok()) return std::move(next).status().context(fmt::format("pass {}", pass.name));
    if (next->functions == current.functions) continue;
    current = std::move(*next);
    if (options.on_pass) options.on_pass(index, pass.name, current);
  }
  return current;
}

std::vector<std::string_view> lowering_passes() {
  std::vector<std::string_view> names;
  for (const LoweringPass& pass : kPasses) names.push_back(pass.name);
  return names;
}

}  // namespace aipu::tir
