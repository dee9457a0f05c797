// What the passes over text ask of variables, and how they exchange them. Private to codegen/compass_c.
#pragma once

#include <unordered_set>

#include "codegen/tir/stmt.h"

namespace aipu::tir::c_text {

// Variables that are assigned after their definition, or whose address is taken.
std::unordered_set<const Var*> changing_variables(const Stmt& stmt);

// Every reference to `var` (which nothing below assigns) becomes `value`.
Stmt replace_variable(const Stmt& stmt, const Var* var, const Expr& value);

// Every mention of `var` becomes one of `renamed`.
Stmt rename_variable(const Stmt& stmt, const Var* var, const VarPtr& renamed);

// A copy whose own variables are new.
Stmt with_fresh_variables(const Stmt& stmt);

}  // namespace aipu::tir::c_text
