// Walking and rewriting expressions.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "kernels/te/expr.h"

namespace aipu::te {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

template <typename... Cases>
decltype(auto) match(const Expr& expr, Cases&&... cases) {
  return std::visit(Overloaded<std::remove_cvref_t<Cases>...>{std::forward<Cases>(cases)...}, expr->node);
}

void for_each_child(const Expr& expr, const std::function<void(const Expr&)>& visit);
void walk(const Expr& expr, const std::function<void(const Expr&)>& visit);  // children first

// A copy whose nodes are `change(node)` where that is not null; what is below a changed node is not looked at.
using Change = std::function<Expr(const Expr&)>;
Expr rewrite(const Expr& expr, const Change& change);

using Substitution = std::map<const ExprNode*, Expr>;
Expr substitute(const Expr& expr, const Substitution& values);

bool uses_any(const Expr& expr, const std::function<bool(const ExprNode*)>& is_one_of);
inline bool uses(const Expr& expr, const ExprNode* var) {
  return uses_any(expr, [var](const ExprNode* node) { return node == var; });
}

// A text that two expressions share exactly if they are the same computation: variables by identity.
std::string structural_key(const Expr& expr);

}  // namespace aipu::te
