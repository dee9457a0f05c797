// The two ways to walk TIR. match() is exhaustive at compile time; Mutator recurses by default and copies nothing that
// did not change.
#pragma once

#include <functional>
#include <type_traits>

#include "codegen/tir/stmt.h"

namespace aipu::tir {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// match(expr, [](const IntImm& n) {...}, [](const Binary& n) {...}, ...): all node types of the list must be handled (a
// generic lambda `[](const auto&)` is a visible decision to treat the rest alike).
template <typename Node, typename... Cases>
decltype(auto) match(const std::shared_ptr<const Node>& node, Cases&&... cases) {
  auto visitor = Overloaded<std::remove_cvref_t<Cases>...>{std::forward<Cases>(cases)...};
  return std::visit(visitor, node->node);
}

class Mutator {
 public:
  virtual ~Mutator() = default;
  virtual Expr mutate(const Expr& expr);  // not called on absent children
  virtual Stmt mutate(const Stmt& stmt);  // null: removes the statement from its Block

 protected:
  Expr mutate_children(const Expr& expr);
  Stmt mutate_children(const Stmt& stmt);
};

// The children of one node, in order of evaluation; absent ones are left out.
void for_each_child(const Expr& expr, const std::function<void(const Expr&)>& visit);
void for_each_child(const Stmt& stmt, const std::function<void(const Expr&)>& visit_expr,
                    const std::function<void(const Stmt&)>& visit_stmt);

void walk(const Expr& expr, const std::function<void(const Expr&)>& visit_expr);
// Calls `visit` on every expression below, parents before children.
void walk(const Stmt& stmt, const std::function<void(const Expr&)>& visit_expr,
          const std::function<void(const Stmt&)>& visit_stmt);

}  // namespace aipu::tir
