// Intervals with symbolic ends: what an index covers while a loop runs.
#include "kernels/te/arith/analyzer.h"
#include "kernels/te/visit.h"

namespace aipu::te {

Analyzer::Bounds Analyzer::hull(const Bounds& a, const Bounds& b) {
  Bounds both;
  const auto either = [&](BinaryOp op, const Poly& x, const Poly& y) -> Poly {
    if (const auto chosen = extremum(op, x, y)) return *chosen;
    const Type type = type_of(x + y);
    return atom(make_expr(type, Binary{op, build(x, type), build(y, type)}));
  };
  if (a.lo && b.lo) both.lo = either(BinaryOp::kMin, *a.lo, *b.lo);
  if (a.hi && b.hi) both.hi = either(BinaryOp::kMax, *a.hi, *b.hi);
  return both;
}

Interval Analyzer::hull(const Interval& a, const Interval& b) {
  const auto poly = [&](const Expr& e) { return e ? std::optional(normal(e)) : std::nullopt; };
  const Bounds both = hull(Bounds{poly(a.lo), poly(a.hi)}, Bounds{poly(b.lo), poly(b.hi)});
  Interval result;
  if (both.lo) result.lo = build(*both.lo, type_of(*both.lo));
  if (both.hi) result.hi = build(*both.hi, type_of(*both.hi));
  return result;
}

Interval Analyzer::interval(const Expr& expr, const Expr& var, const Interval& of_var) {
  if (!of_var.bounded()) return uses(expr, var.get()) ? Interval{} : Interval{expr, expr};
  const Known known{var, normal(of_var.lo), normal(of_var.hi), {}};
  const Bounds range = interval(normal(expr), known);
  Interval result;
  if (range.lo) result.lo = build(*range.lo, expr->type);
  if (range.hi) result.hi = build(*range.hi, expr->type);
  return result;
}

Analyzer::Bounds Analyzer::interval(const Poly& p, const Known& var) {
  const std::string key = structural_key(var.var);
  const auto depends = [&](const std::string& k) { return k == key || uses(atoms_.at(k), var.var.get()); };
  Poly fixed, slope;
  Bounds sum{Poly(), Poly()};
  const auto add_scaled = [&](const Bounds& range, const Poly& factor) {
    const bool up = is_non_negative(factor), down = !up && is_non_negative(Poly() - factor);
    const auto& low = up ? range.lo : range.hi;
    const auto& high = up ? range.hi : range.lo;
    sum.lo = sum.lo && low && (up || down) ? std::optional(*sum.lo + *low * factor) : std::nullopt;
    sum.hi = sum.hi && high && (up || down) ? std::optional(*sum.hi + *high * factor) : std::nullopt;
  };
  for (const auto& [monomial, k] : p.terms) {
    Monomial rest, varying;
    for (const std::string& factor : monomial) (depends(factor) ? varying : rest).push_back(factor);
    Poly factor;
    factor.add_term(rest, k);
    if (varying.empty())
      fixed = fixed + factor;
    else if (varying.size() > 1)
      return {};
    else if (varying.front() == key)
      slope = slope + factor;
    else
      add_scaled(interval_of_atom(atoms_.at(varying.front()), var), factor);
  }
  if (!slope.terms.empty()) add_scaled({var.lo, var.hi}, slope);
  if (sum.lo) sum.lo = recombine(*sum.lo + fixed);
  if (sum.hi) sum.hi = recombine(*sum.hi + fixed);
  return sum;
}

Analyzer::Bounds Analyzer::interval_of_quotient(const Binary& n, const Known& var) {
  const Poly d = normal(n.b);
  if (uses(n.b, var.var.get()) || bound(d).lo < 0) return {};
  const Bounds range = interval(normal(n.a), var);
  const bool bounded = range.lo && range.hi;
  if (n.op == BinaryOp::kFloorDiv) {
    Bounds result;
    if (range.lo) result.lo = divide(*range.lo, d);
    if (range.hi) result.hi = divide(*range.hi, d);
    return result;
  }
  if (bounded && divide(*range.lo, d) == divide(*range.hi, d)) return {modulo(*range.lo, d), modulo(*range.hi, d)};
  return {Poly(), d - 1};
}

Analyzer::Bounds Analyzer::interval_of_atom(const Expr& e, const Known& var) {
  if (const auto* n = e->as<Binary>()) {
    if (n->op == BinaryOp::kFloorDiv || n->op == BinaryOp::kFloorMod) return interval_of_quotient(*n, var);
    if (n->op == BinaryOp::kMin || n->op == BinaryOp::kMax) {
      const Bounds a = interval(normal(n->a), var), b = interval(normal(n->b), var);
      Bounds result;
      const auto either = [&](const Poly& x, const Poly& y) {
        if (const auto chosen = extremum(n->op, x, y)) return *chosen;
        const Type type = type_of(x + y);
        return atom(make_expr(type, Binary{n->op, build(x, type), build(y, type)}));
      };
      if (a.lo && b.lo) result.lo = either(*a.lo, *b.lo);
      if (a.hi && b.hi) result.hi = either(*a.hi, *b.hi);
      return result;
    }
  }
  if (const auto* n = e->as<Select>())
    return hull(interval(normal(n->true_value), var), interval(normal(n->false_value), var));
  if (const auto* n = e->as<Call>(); n != nullptr && n->name == "if_then_else")
    return hull(interval(normal(n->args[1]), var), interval(normal(n->args[2]), var));
  return {};
}

}  // namespace aipu::te
