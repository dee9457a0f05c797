#include "kernels/te/arith/analyzer.h"

#include <algorithm>

#include "kernels/te/visit.h"

namespace aipu::te {

void Analyzer::bind(const Expr& var, const Range& range) {
  Known known{var, normal(range.min), normal(range.min) + normal(range.extent) - 1, {}};
  known.bound = {bound(known.lo).lo, bound(known.hi).hi};
  // a loop that is run at all has an iteration
  if (known.bound.lo > known.bound.hi) known.bound.hi = known.bound.lo;
  bounds_[var.get()] = known.bound;
  known_.push_back(std::move(known));
}

void Analyzer::assume_non_negative(const Expr& var) {
  auto& range = bounds_[var.get()];
  range.lo = std::max<int64_t>(range.lo, 0);
}

namespace {

bool reads_data(const Expr& expr) {
  bool data = false;
  walk(expr, [&](const Expr& e) { data |= e->as<Read>() != nullptr; });
  return data;
}

}  // namespace

Expr Analyzer::simplify(const Expr& expr) {
  if (!expr) return expr;
  if (is_index(expr->type)) return build(normal(expr), expr->type);
  const auto* n = expr->as<Binary>();
  if (n != nullptr && is_comparison(n->op) && is_index(n->a->type)) return simplify_condition(expr, *n);
  return rewrite(expr, [&](const Expr& e) { return e == expr ? nullptr : simplify_part(e); });
}

Expr Analyzer::simplify_value(const Expr& expr) {
  return rewrite(expr, [&](const Expr& e) { return simplify_part(e); });
}

// A part of a value, or null where it has to be looked into.
Expr Analyzer::simplify_part(const Expr& e) {
  if (const auto* n = e->as<Read>()) {
    std::vector<Expr> indices;
    for (const Expr& index : n->indices) indices.push_back(simplify(index));
    return make_expr(e->type, Read{n->op, n->value_index, std::move(indices)});
  }
  const auto choose = [&](const Expr& condition, const Expr& a, const Expr& b) -> Expr {
    const auto value = as_int(simplify_value(condition));
    return value ? simplify_value(*value != 0 ? a : b) : nullptr;
  };
  if (const auto* n = e->as<Select>()) return choose(n->condition, n->true_value, n->false_value);
  if (const auto* n = e->as<Call>(); n != nullptr && n->name == "if_then_else")
    return choose(n->args[0], n->args[1], n->args[2]);
  if (const auto* n = e->as<Binary>()) {
    if (is_comparison(n->op) && is_index(n->a->type)) return simplify_condition(e, *n);
    if (is_index(e->type) && !reads_data(e)) return simplify(e);
  }
  return nullptr;
}

Expr Analyzer::simplify_condition(const Expr& expr, const Binary& n) {
  // Data of type int32 wraps, indices do not; what reads a tensor is data.
  if (reads_data(expr)) return make_binary(n.op, simplify_value(n.a), simplify_value(n.b));
  if (prove(expr)) return make_bool(true);
  const Poly d = normal(n.a) - normal(n.b);
  const auto is_false = [&] {
    switch (n.op) {
      case BinaryOp::kLt:
        return is_non_negative(d);
      case BinaryOp::kLe:
        return is_non_negative(d - 1);
      case BinaryOp::kGt:
        return is_non_negative(Poly() - d);
      case BinaryOp::kGe:
        return is_non_negative(Poly(-1) - d);
      case BinaryOp::kEq:
        return is_non_negative(d - 1) || is_non_negative(Poly(-1) - d);
      default:
        return d.terms.empty();
    }
  };
  if (is_false()) return make_bool(false);
  return make_binary(n.op, simplify(n.a), simplify(n.b));
}

bool Analyzer::prove(const Expr& condition) {
  if (const auto value = as_int(condition)) return *value != 0;
  if (const auto* n = condition->as<Call>(); n != nullptr && n->name == "likely") return prove(n->args[0]);
  const auto* n = condition->as<Binary>();
  if (n == nullptr) return false;
  if (n->op == BinaryOp::kAnd) return prove(n->a) && prove(n->b);
  if (n->op == BinaryOp::kOr) return prove(n->a) || prove(n->b);
  if (!is_comparison(n->op) || !is_index(n->a->type)) return false;
  const Poly d = normal(n->a) - normal(n->b);
  switch (n->op) {
    case BinaryOp::kLt:
      return is_non_negative(Poly(-1) - d);
    case BinaryOp::kLe:
      return is_non_negative(Poly() - d);
    case BinaryOp::kGt:
      return is_non_negative(d - 1);
    case BinaryOp::kGe:
      return is_non_negative(d);
    case BinaryOp::kEq:
      return d.terms.empty() || (is_non_negative(d) && is_non_negative(Poly() - d));
    default:
      return is_non_negative(d - 1) || is_non_negative(Poly(-1) - d);
  }
}

bool Analyzer::prove_equal(const Expr& a, const Expr& b) { return (normal(a) - normal(b)).terms.empty(); }
bool Analyzer::prove_le(const Expr& a, const Expr& b) { return is_non_negative(normal(b) - normal(a)); }
bool Analyzer::prove_lt(const Expr& a, const Expr& b) { return is_non_negative(normal(b) - normal(a) - 1); }
ConstBound Analyzer::bound(const Expr& expr) { return bound(normal(expr)); }

std::string Analyzer::key(const Expr& expr) { return structural_key(simplify(expr)); }

// --- constant bounds -------------------------------------------------------------------------------------------------

ConstBound Analyzer::bound(const Poly& p) {
  ConstBound sum{0, 0};
  for (const auto& [monomial, k] : p.terms) {
    ConstBound product{k, k};
    for (const std::string& key : monomial) product = product * bound_of_atom(atoms_.at(key));
    sum = sum + product;
  }
  return sum;
}

ConstBound Analyzer::bound_of_atom(const Expr& e) {
  if (const auto* var = e->as<Var>()) {
    const auto found = bounds_.find(e.get());
    if (found != bounds_.end()) return found->second;
    return var->size ? ConstBound{0} : ConstBound{};
  }
  if (const auto* n = e->as<Binary>()) return bound_of_binary(*n);
  if (const auto* n = e->as<Select>()) return te::hull(bound(n->true_value), bound(n->false_value));
  if (const auto* n = e->as<Call>(); n != nullptr && n->name == "if_then_else")
    return te::hull(bound(n->args[1]), bound(n->args[2]));
  if (const auto* n = e->as<Cast>(); n != nullptr && n->value->type.lanes == 1) {
    const DType d = n->value->type.element;
    if (is_bool(d)) return {0, 1};
    if (is_unsigned_int(d) && dtype_bits(d) < 32) return {0, (int64_t{1} << dtype_bits(d)) - 1};
    if (is_signed_int(d) && dtype_bits(d) < 32)
      return {-(int64_t{1} << (dtype_bits(d) - 1)), (int64_t{1} << (dtype_bits(d) - 1)) - 1};
  }
  return {};
}

ConstBound Analyzer::bound_of_binary(const Binary& n) {
  if (!is_index(n.a->type)) return is_comparison(n.op) ? ConstBound{0, 1} : ConstBound{};
  const ConstBound a = bound(n.a), b = bound(n.b);
  switch (n.op) {
    case BinaryOp::kFloorDiv:
      if (b.lo < 0) return {};
      if (b.lo == b.hi && b.lo > 0) {
        return {a.has_lo() ? floor_div(a.lo, b.lo) : -ConstBound::kUnbounded,
                a.has_hi() ? floor_div(a.hi, b.lo) : ConstBound::kUnbounded};
      }
      return {a.lo >= 0 ? 0 : a.lo, a.hi >= 0 ? a.hi : -1};  // toward zero, and no further than the dividend
    case BinaryOp::kFloorMod:
      if (b.lo < 0) return {};
      return {0, a.lo >= 0 ? std::min(a.hi, b.has_hi() ? std::max<int64_t>(b.hi - 1, 0) : a.hi)
                           : (b.has_hi() ? std::max<int64_t>(b.hi - 1, 0) : ConstBound::kUnbounded)};
    case BinaryOp::kMin:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case BinaryOp::kMax:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    default:
      return {};
  }
}

// --- proofs ----------------------------------------------------------------------------------------------------------

// By bounds alone. Quotients whose factor is their divisor also as (x // c) * c = x - x % c.
bool Analyzer::is_non_negative_now(const Poly& p) {
  if (bound(p).lo >= 0) return true;
  Poly other = p;
  bool changed = false;
  for (const auto& [monomial, k] : p.terms) {
    if (monomial.size() != 1) continue;
    const auto* n = atoms_.at(monomial.front())->as<Binary>();
    const auto c = n != nullptr && n->op == BinaryOp::kFloorDiv ? as_int(n->b) : std::nullopt;
    if (!c || *c <= 0 || k % *c != 0) continue;
    const Poly x = normal(n->a);
    other = other - Poly::atom(monomial.front()) * Poly(k) + Poly(k / *c) * (x - modulo_constant(x, *c));
    changed = true;
  }
  return changed && bound(other).lo >= 0;
}

bool Analyzer::is_non_negative(const Poly& p) {
  if (is_non_negative_now(p)) return true;
  if (depth_ > 3) return false;
  ++depth_;
  Poly least = p;
  bool proved = false;
  for (size_t i = known_.size(); i-- > 0 && !proved;) {
    const Known known = known_[i];
    const Bounds range = interval(least, known);
    if (!range.lo) break;
    if (*range.lo == least) continue;
    least = *range.lo;
    proved = is_non_negative_now(least);
  }
  --depth_;
  return proved;
}

std::optional<Poly> Analyzer::extremum(BinaryOp op, const Poly& a, const Poly& b) {
  const bool is_min = op == BinaryOp::kMin;
  if (is_non_negative(b - a)) return is_min ? a : b;
  if (is_non_negative(a - b)) return is_min ? b : a;
  return std::nullopt;
}

}  // namespace aipu::te
