// Loop nests to a kernel: tensors become pointers and strides, parallel loops the work of the TECs.
#pragma once

#include <functional>
#include <vector>

#include "codegen/tir/stmt.h"
#include "kernels/te/stmt.h"

namespace aipu::te {

// Memory that the caller brings along, of so many elements.
struct Workspace {
  std::string name;
  Type type;
  Expr elements;
};

// The entry takes the function's parameters, then the sizes (scalars), then the workspaces (pointers).
struct Kernel {
  tir::Module module;
  std::vector<Expr> sizes;
  std::vector<Workspace> workspaces;
};

// Errors name the stage: types and scopes that kernels do not have, memory whose size is not known.
Result<Kernel> to_tir(const Function& function);

}  // namespace aipu::te
