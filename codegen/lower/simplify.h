#pragma once

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// Folds constants, drops what has no effect, and brings integer arithmetic into a usual form (constants to the right,
// joined). Never changes a result: floating identities that could change a bit are not used. Loads that are not needed
// are dropped.
Result<PrimFunc> simplify(const PrimFunc& function, const Target& target);

// The same for an expression alone.
Expr simplify_expr(const Expr& expr);

}  // namespace aipu::tir
