#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "codegen/compass_c/text/passes.h"
#include "codegen/compass_c/text/variables.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

struct Computation {
  Expr expr;
  int count;
  int complexity;
};

int complexity(const Expr& e) {
  int nodes = 0;
  walk(e, [&](const Expr&) { ++nodes; });
  return nodes;
}

class Replace : public Mutator {
 public:
  Replace(const Expr& from, const VarPtr& to) : from_(from), to_(to) {}
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return structurally_equal(e, from_) ? var_ref(to_) : mutate_children(e); }

 private:
  const Expr& from_;
  const VarPtr& to_;
};

// Scope by scope, from the outside in: what is computed several times below and can be computed where the scope starts is computed there.
// Of nested computations the largest is looked at first; its parts only if it is no good itself.
class Eliminate {
 public:
  explicit Eliminate(const PrimFunc& function) : changing_(changing_variables(function.body)) {
    for (const VarPtr& param : function.params) known_.insert(param.get());
  }

  Stmt scope(const Stmt& body) {
    const auto* n = body->as<Block>();
    std::vector<Stmt> statements = n != nullptr ? n->body : std::vector<Stmt>{body};
    const auto outer = known_;
    statements = sequence(std::move(statements));
    known_ = outer;
    return make_stmt(Block{std::move(statements)}, body->span);
  }

 private:
  std::vector<Stmt> sequence(std::vector<Stmt> rest) {
    std::vector<Stmt> done;
    while (!rest.empty()) {
      introduce(rest);
      // Up to the next definition, behind which more can be computed.
      size_t i = 0;
      for (bool defined = false; i < rest.size() && !defined; ++i) {
        const Stmt& s = rest[i];
        if (const auto* define = s->as<Define>()) {
          known_.insert(define->var.get());
          defined = true;
        } else if (s->as<Alloc>()) {
          defined = true;
        }
        done.push_back(inside(s));
      }
      rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(i));
    }
    return done;
  }

  Stmt inside(const Stmt& s) {
    if (const auto* n = s->as<For>()) {
      const auto outer = known_;
      known_.insert(n->var.get());
      Stmt body = scope(n->body);
      known_ = outer;
      return make_stmt(For{n->var, n->start, n->stop, n->step, n->kind, std::move(body)}, s->span);
    }
    if (const auto* n = s->as<While>()) return make_stmt(While{n->condition, scope(n->body)}, s->span);
    if (const auto* n = s->as<If>())
      return make_stmt(If{n->condition, scope(n->then_body), n->else_body ? scope(n->else_body) : nullptr}, s->span);
    if (s->as<Block>()) return scope(s);
    return s;
  }

  // Puts definitions in front of `statements` for what they compute more than once.
  void introduce(std::vector<Stmt>& statements) {
    std::vector<Computation> computations;
    for (const Stmt& s : statements) {
      for_each_expression(s, [&](const Expr& e) { collect(e, computations); });
    }
    std::stable_sort(computations.begin(), computations.end(),
                     [](const Computation& a, const Computation& b) { return a.complexity > b.complexity; });
    for (size_t i = 0; i < computations.size(); ++i) {
      const Computation computation = computations[i];
      if (computation.count > 1 && can_be_computed(computation.expr)) {
        auto var = std::make_shared<Var>();
        var->name = fmt::format("cse_var_{}", ++count_);
        var->type = computation.expr->type;
        const VarPtr result = std::move(var);
        Replace replace(computation.expr, result);
        for (Stmt& s : statements) s = replace.mutate(s);
        statements.insert(statements.begin(), make_stmt(Define{result, computation.expr}));
        continue;
      }
      for_each_child(computation.expr, [&](const Expr& part) {
        std::vector<Computation> parts;
        collect(part, parts);
        for (Computation& p : parts) insert(computations, {p.expr, computation.count * p.count, p.complexity});
      });
    }
  }

  static void for_each_expression(const Stmt& s, const std::function<void(const Expr&)>& visit) {
    for_each_child(s, visit, [&](const Stmt& child) { for_each_expression(child, visit); });
  }

  static void insert(std::vector<Computation>& all, Computation one) {
    for (Computation& known : all) {
      if (!structurally_equal(known.expr, one.expr)) continue;
      known.count += one.count;
      return;
    }
    const auto at = std::find_if(all.begin(), all.end(), [&](const Computation& c) { return c.complexity < one.complexity; });
    all.insert(at, std::move(one));
  }

  // The outermost eligible expressions.
  void collect(const Expr& e, std::vector<Computation>& all) const {
    if (is_eligible(e)) {
      const auto known = std::find_if(all.begin(), all.end(), [&](const Computation& c) { return structurally_equal(c.expr, e); });
      if (known != all.end())
        ++known->count;
      else
        all.push_back({e, 1, complexity(e)});
      return;
    }
    for_each_child(e, [&](const Expr& child) { collect(child, all); });
  }

  // Scalar arithmetic over variables that never change; shifts and bit operations are functions to the text, and stay.
  bool is_eligible(const Expr& e) const {
    if (!e->type.is_scalar() || e->type.element == DType::kString) return false;
    if (e->as<Binary>() == nullptr && e->as<Cast>() == nullptr && e->as<Unary>() == nullptr) return false;
    bool result = true;
    walk(e, [&](const Expr& child) {
      if (const auto* n = child->as<Binary>()) {
        result &= n->op != BinaryOp::kShl && n->op != BinaryOp::kShr && n->op != BinaryOp::kBitAnd && n->op != BinaryOp::kBitOr &&
                  n->op != BinaryOp::kBitXor && !n->lhs->type.pointer;
      } else if (const auto* ref = child->as<VarRef>()) {
        result &= !changing_.contains(ref->var.get()) && !ref->var->type.pointer;
      } else if (const auto* unary = child->as<Unary>()) {
        result &= unary->op == UnaryOp::kNot;
      } else {
        result &= child->as<IntImm>() || child->as<FloatImm>() || child->as<Cast>();
      }
    });
    return result;
  }

  bool can_be_computed(const Expr& e) const {
    bool result = true;
    walk(e, [&](const Expr& child) {
      if (const auto* ref = child->as<VarRef>()) result &= known_.contains(ref->var.get());
      // A quotient may be behind the test that makes it one.
      if (const auto* n = child->as<Binary>(); n != nullptr && (n->op == BinaryOp::kDiv || n->op == BinaryOp::kMod))
        result &= is_floating(child->type.element) || as_int(n->rhs).value_or(0) != 0;
    });
    return result;
  }

  std::unordered_set<const Var*> changing_;
  std::unordered_set<const Var*> known_;
  int count_ = 0;
};

}  // namespace

PrimFunc eliminate_common_subexpressions(const PrimFunc& function) {
  PrimFunc result = function;
  result.body = Eliminate(function).scope(function.body);
  return result;
}

}  // namespace aipu::tir::c_text
