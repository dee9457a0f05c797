#include <map>
#include <set>

#include "codegen/compass_c/passes.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

bool is_number(const Expr& e) {
  if (const auto* splat = e->as<Broadcast>()) return is_number(splat->scalar);
  return e->as<IntImm>() != nullptr || e->as<FloatImm>() != nullptr;
}

class Propagate : public Mutator {
 public:
  explicit Propagate(const Stmt& body) {
    walk(
        body,
        [&](const Expr& e) {
          if (const auto* n = e->as<AddressOf>()) changed_.insert(n->var.get());
        },
        [&](const Stmt& s) {
          if (const auto* assign = s->as<Assign>()) changed_.insert(assign->var.get());
          if (const auto* write = s->as<LaneWrite>()) changed_.insert(write->var.get());
        });
  }

  Expr mutate(const Expr& expr) override {
    if (const auto* ref = expr->as<VarRef>()) {
      const auto known = numbers_.find(ref->var.get());
      return known != numbers_.end() ? known->second : expr;
    }
    return mutate_children(expr);
  }
  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    const auto* define = s->as<Define>();
    if (define != nullptr && is_number(define->value) && !changed_.contains(define->var.get()))
      numbers_[define->var.get()] = define->value;
    return s;
  }

 private:
  std::set<const Var*> changed_;
  std::map<const Var*, Expr> numbers_;
};

}  // namespace

PrimFunc propagate_constants(const PrimFunc& function) {
  PrimFunc result = function;
  result.body = Propagate(function.body).mutate(function.body);
  return result;
}

}  // namespace aipu::tir::c_text
