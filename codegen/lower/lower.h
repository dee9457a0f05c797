// Lowering: the list of TIR passes between a parsed kernel and printable TIR, in lower.cpp, which reads as a table of contents.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"

namespace aipu::tir {

struct LowerOptions {
  std::vector<std::string> disabled_passes;
  // Called after every pass that changed the module, for --dump-ir: (index, pass name, module).
  std::function<void(int, std::string_view, const Module&)> on_pass;
};

// Built -> Printable. The interpreter runs both forms.
Result<Module> lower(const Module& module, const Target& target, const LowerOptions& options = {});

}  // namespace aipu::tir
