#include <fmt/format.h>

#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/variables.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

struct Computation {
  Expr expr;
  int count;
};

// Equal for equal arithmetic over equal variables.
size_t hash(const Expr& e) {
  size_t result = e->node.index() * 31 + static_cast<size_t>(e->type.element);
  const auto add = [&](size_t value) { result = result * 1000003 ^ value; };
  if (const auto* n = e->as<IntImm>()) add(std::hash<int64_t>()(n->value));
  if (const auto* n = e->as<FloatImm>()) add(std::hash<double>()(n->value));
  if (const auto* n = e->as<VarRef>()) add(std::hash<const Var*>()(n->var.get()));
  if (const auto* n = e->as<Binary>()) add(static_cast<size_t>(n->op));
  for_each_child(e, [&](const Expr& child) { add(hash(child)); });
  return result;
}

// What is computed, and how often, the largest first; in order of appearance among equals.
class Computations {
 public:
  using Group = std::vector<Computation>;

  void add(const Expr& e, int count, int complexity) {
    Group& group = groups_[complexity];
    auto [known, end] = places_.equal_range(hash(e));
    for (; known != end; ++known) {
      Computation& one = groups_[known->second.first][known->second.second];
      if (!structurally_equal(one.expr, e)) continue;
      one.count += count;
      return;
    }
    places_.emplace(hash(e), std::pair(complexity, group.size()));
    group.push_back({e, count});
  }

  // By size; visiting one may add smaller ones.
  void for_each(const std::function<void(const Computation&)>& visit) {
    for (auto group = groups_.begin(); group != groups_.end(); ++group) {
      for (size_t i = 0; i < group->second.size(); ++i) {
        const Computation one = group->second[i];
        visit(one);
      }
    }
  }

 private:
  std::map<int, Group, std::greater<>> groups_;
  std::unordered_multimap<size_t, std::pair<int, size_t>> places_;
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
  Expr mutate(const Expr& e) override {
    return e->type == from_->type && structurally_equal(e, from_) ? var_ref(to_) : mutate_children(e);
  }

 private:
  const Expr& from_;
  const VarPtr& to_;
};

// Scope by scope, from the outside in: what is computed several times below and can be computed where the scope starts
// is computed there. Of nested computations the largest is looked at first; its parts only if it is no good itself.
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
      if (may_look()) introduce(rest);
      // Up to the next definition of a number, behind which more can be computed.
      size_t i = 0;
      for (bool defined = false; i < rest.size() && !(defined && may_look()); ++i) {
        const auto* define = rest[i]->as<Define>();
        if (define != nullptr && define->var->type.is_scalar()) {
          known_.insert(define->var.get());
          defined = true;
        }
        done.push_back(inside(rest[i]));
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
    Computations computations;
    for (const Stmt& s : statements) {
      for_each_expression(s, [&](const Expr& e) { collect(e, 1, computations); });
    }
    computations.for_each([&](const Computation& computation) {
      if (computation.count > 1 && can_be_computed(computation.expr)) {
        auto var = std::make_shared<Var>();
        var->name = fmt::format("cse_var_{}", ++count_);
        var->type = computation.expr->type;
        const VarPtr result = std::move(var);
        Replace replace(computation.expr, result);
        for (Stmt& s : statements) s = replace.mutate(s);
        statements.insert(statements.begin(), make_stmt(Define{result, computation.expr}));
        return;
      }
      for_each_child(computation.expr, [&](const Expr& part) { collect(part, computation.count, computations); });
    });
  }

  static void for_each_expression(const Stmt& s, const std::function<void(const Expr&)>& visit) {
    for_each_child(s, visit, [&](const Stmt& child) { for_each_expression(child, visit); });
  }

  // The work is bounded: what is behind the bound stays as it is.
  bool may_look() const { return budget_ > 0; }

  // The outermost eligible expressions.
  void collect(const Expr& e, int count, Computations& all) {
    if (!may_look()) return;
    --budget_;
    if (is_eligible(e)) return all.add(e, count, complexity(e));
    for_each_child(e, [&](const Expr& child) { collect(child, count, all); });
  }

  // Scalar arithmetic over variables that never change; shifts and bit operations are functions to the text, and stay.
  bool is_eligible(const Expr& e) const {
    if (!e->type.is_scalar() || e->type.element == DType::kString) return false;
    if (e->as<Binary>() == nullptr && e->as<Cast>() == nullptr && e->as<Unary>() == nullptr) return false;
    bool result = true;
    walk(e, [&](const Expr& child) {
      if (const auto* n = child->as<Binary>()) {
        result &= n->op != BinaryOp::kShl && n->op != BinaryOp::kShr && n->op != BinaryOp::kBitAnd &&
                  n->op != BinaryOp::kBitOr && n->op != BinaryOp::kBitXor && !n->lhs->type.pointer;
      } else if (const auto* ref = child->as<VarRef>()) {
        result &= !changing_.contains(ref->var.get()) && !ref->var->type.pointer;
      } else if (const auto* unary = child->as<Unary>()) {
        result &= unary->op == UnaryOp::kNot;
      } else {
        // Indices are widened in TIR, not in the text.
        result &=
            child->as<IntImm>() || child->as<FloatImm>() || (child->as<Cast>() && child->type.element != DType::kI64);
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
  int64_t budget_ = 2'000'000;  // expressions looked at
};

}  // namespace

PrimFunc eliminate_common_subexpressions(const PrimFunc& function) {
  PrimFunc result = function;
  result.body = Eliminate(function).scope(function.body);
  return result;
}

}  // namespace aipu::tir::c_text
