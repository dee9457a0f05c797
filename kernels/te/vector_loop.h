// Vectorized loops as vectors: the loop's variable becomes the lanes. Private to kernels/te.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernels/te/expr_to_tir.h"
#include "kernels/te/stmt.h"

namespace aipu::te {

// What is known around the loop.
struct VectorContext {
  Analyzer* analyzer;  // knows the loop's variable
  ExprToTir* scalar;
  std::function<tir::Expr(const Tensor&)> pointer;                             // null: no such tensor
  std::function<Expr(const Tensor&, const std::vector<Expr>& indices)> index;  // the element's place in its memory
};

// The statements of a loop of constant extent; absent where lanes are not what it is made of: its memory accesses are
// neither consecutive nor the same for all lanes, it has loops or branches that lanes decide otherwise than by an upper
// bound, or operations without a vector form. Such a loop stays one.
//
// A bound `base + lane < n` becomes a mask of the first n - base lanes; where it leaves all of them, none is used.
std::optional<std::vector<tir::Stmt>> vector_loop(const For& loop, const VectorContext& context);

}  // namespace aipu::te
