#include "codegen/compass_c/variables.h"

#include <unordered_map>

#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {

std::unordered_set<const Var*> changing_variables(const Stmt& stmt) {
  std::unordered_set<const Var*> result;
  walk(
      stmt,
      [&](const Expr& e) {
        if (const auto* n = e->as<AddressOf>()) result.insert(n->var.get());
      },
      [&](const Stmt& s) {
        if (const auto* n = s->as<Assign>()) result.insert(n->var.get());
        if (const auto* n = s->as<LaneWrite>()) result.insert(n->var.get());
      });
  return result;
}

namespace {

class Replace : public Mutator {
 public:
  Replace(const Var* var, Expr value) : var_(var), value_(std::move(value)) {}
  using Mutator::mutate;
  Expr mutate(const Expr& e) override {
    const auto* ref = e->as<VarRef>();
    return ref != nullptr && ref->var.get() == var_ ? value_ : mutate_children(e);
  }

 private:
  const Var* var_;
  Expr value_;
};

class Rename : public Mutator {
 public:
  using Mutator::mutate;
  void add(const Var* var, VarPtr renamed) { renamed_[var] = std::move(renamed); }

  Expr mutate(const Expr& e) override {
    if (const auto* n = e->as<VarRef>()) return has(n->var) ? make_expr(e->type, VarRef{of(n->var)}, e->span) : e;
    if (const auto* n = e->as<AddressOf>()) return has(n->var) ? make_expr(e->type, AddressOf{of(n->var)}, e->span) : e;
    return mutate_children(e);
  }
  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    if (const auto* n = s->as<Define>(); n && has(n->var)) return make_stmt(Define{of(n->var), n->value}, s->span);
    if (const auto* n = s->as<Assign>(); n && has(n->var)) return make_stmt(Assign{of(n->var), n->value}, s->span);
    if (const auto* n = s->as<LaneWrite>(); n && has(n->var))
      return make_stmt(LaneWrite{of(n->var), n->index, n->value}, s->span);
    if (const auto* n = s->as<Alloc>(); n && has(n->buffer))
      return make_stmt(Alloc{of(n->buffer), n->count, n->data}, s->span);
    if (const auto* n = s->as<For>(); n && has(n->var))
      return make_stmt(For{of(n->var), n->start, n->stop, n->step, n->kind, n->body}, s->span);
    return s;
  }

 private:
  bool has(const VarPtr& var) const { return renamed_.contains(var.get()); }
  VarPtr of(const VarPtr& var) const { return renamed_.at(var.get()); }
  std::unordered_map<const Var*, VarPtr> renamed_;
};

}  // namespace

Stmt replace_variable(const Stmt& stmt, const Var* var, const Expr& value) { return Replace(var, value).mutate(stmt); }

Stmt rename_variable(const Stmt& stmt, const Var* var, const VarPtr& renamed) {
  Rename rename;
  rename.add(var, renamed);
  return rename.mutate(stmt);
}

Stmt with_fresh_variables(const Stmt& stmt) {
  Rename rename;
  const auto fresh = [&](const VarPtr& var) { rename.add(var.get(), std::make_shared<Var>(*var)); };
  walk(
      stmt, [](const Expr&) {},
      [&](const Stmt& s) {
        if (const auto* n = s->as<Define>()) fresh(n->var);
        if (const auto* n = s->as<Alloc>()) fresh(n->buffer);
        if (const auto* n = s->as<For>()) fresh(n->var);
      });
  return rename.mutate(stmt);
}

}  // namespace aipu::tir::c_text
