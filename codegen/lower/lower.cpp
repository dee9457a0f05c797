// The lowering order. Each line is one pass; the comment beside it says why it stands there.
#include "codegen/lower/lower.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/lower/passes.h"

namespace aipu::tir {
namespace {

using FunctionPass = Result<PrimFunc> (*)(const PrimFunc&, const Target&);

struct LoweringPass {
  std::string_view name;
  FunctionPass run;
};

constexpr LoweringPass kPasses[] = {
    {"resolve_loops", resolve_loops},                    // first: unrolled bodies index private arrays by constants
    {"promote_private_arrays", promote_private_arrays},  // before splitting: a tile's accumulators are named variables
    {"lower_fma", lower_fma},                            // what the interpreter runs is what is compiled
};

}  // namespace

Result<Module> lower(const Module& module, const Target& target, const LowerOptions& options) {
  for (const std::string& name : options.disabled_passes) {
    const bool known = std::any_of(std::begin(kPasses), std::end(kPasses), [&](const LoweringPass& pass) { return pass.name == name; });
    if (!known) return invalid_argument(fmt::format("no lowering pass is named '{}'", name));
  }
  Module current = module;
  int index = 0;
  for (const LoweringPass& pass : kPasses) {
    ++index;
    if (std::find(options.disabled_passes.begin(), options.disabled_passes.end(), pass.name) != options.disabled_passes.end()) continue;
    Module next;
    bool changed = false;
    for (const PrimFuncPtr& function : current.functions) {
      auto lowered = pass.run(*function, target);
      if (!lowered.ok()) return std::move(lowered).status().context(fmt::format("{}: pass {}", function->name, pass.name));
      changed = changed || lowered->body != function->body;
      next.functions.push_back(std::make_shared<PrimFunc>(std::move(*lowered)));
    }
    if (!changed) continue;
    current = std::move(next);
    if (options.on_pass) options.on_pass(index, pass.name, current);
  }
  return current;
}

}  // namespace aipu::tir
