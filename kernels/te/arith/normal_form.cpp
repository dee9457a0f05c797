// Expressions to polynomials and back; quotients.
#include <algorithm>
#include <numeric>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/visit.h"

namespace aipu::te {

Poly Analyzer::atom(const Expr& expr) {
  std::string key = structural_key(expr);
  atoms_.emplace(key, expr);
  return Poly::atom(std::move(key));
}

Poly Analyzer::normal(const Expr& expr) {
  if (const auto value = as_int(expr)) return *value;
  if (const auto* n = expr->as<Binary>()) return normal_binary(expr, *n);
  if (const auto* n = expr->as<Cast>(); n != nullptr && is_index(n->value->type) && is_index(expr->type)) {
    if (dtype_bits(n->value->type.element) <= dtype_bits(expr->type.element)) return normal(n->value);
  }
  if (const auto* n = expr->as<Call>(); n != nullptr && n->name == "likely") return normal(n->args[0]);
  if (expr->as<Var>() != nullptr) return atom(expr);
  // What is inside becomes canonical, so that equal things have equal keys.
  return atom(
      rewrite(expr, [&](const Expr& e) -> Expr { return e != expr && is_index(e->type) ? simplify(e) : nullptr; }));
}

Poly Analyzer::normal_binary(const Expr& expr, const Binary& n) {
  switch (n.op) {
    case BinaryOp::kAdd:
      return recombine(normal(n.a) + normal(n.b));
    case BinaryOp::kSub:
      return recombine(normal(n.a) - normal(n.b));
    case BinaryOp::kMul:
      return recombine(normal(n.a) * normal(n.b));
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return normal_extremum(expr, n);
    case BinaryOp::kFloorDiv:
      return divide(normal(n.a), normal(n.b));
    case BinaryOp::kFloorMod:
      return modulo(normal(n.a), normal(n.b));
    case BinaryOp::kDiv:
    case BinaryOp::kMod: {
      const Poly a = normal(n.a), b = normal(n.b);
      if (bound(a).lo >= 0 && bound(b).lo >= 0) return n.op == BinaryOp::kDiv ? divide(a, b) : modulo(a, b);
      return atom(make_binary(n.op, build(a, n.a->type), build(b, n.b->type)));
    }
    default:
      return atom(make_binary(n.op, simplify(n.a), simplify(n.b)));
  }
}

Poly Analyzer::normal_extremum(const Expr& expr, const Binary& n) {
  const Poly a = normal(n.a), b = normal(n.b);
  if (const auto chosen = extremum(n.op, a, b)) return *chosen;
  return atom(make_binary(n.op, build(a, expr->type), build(b, expr->type)));
}

Type Analyzer::type_of(const Poly& poly) const {
  for (const auto& [monomial, coefficient] : poly.terms) {
    if (coefficient != static_cast<int32_t>(coefficient)) return Type::scalar(DType::kI64);
    for (const std::string& key : monomial) {
      if (atoms_.at(key)->type.element == DType::kI64) return Type::scalar(DType::kI64);
    }
  }
  return Type::scalar(DType::kI32);
}

Expr Analyzer::build_monomial(const Monomial& monomial, Type type) {
  Expr product;
  for (const std::string& key : monomial) {
    const Expr factor = make_cast(type, atoms_.at(key));
    product = product ? mul(product, factor) : factor;
  }
  return product;
}

// Large strides first, the constant last, as one writes it.
Expr Analyzer::build(const Poly& poly, Type type) {
  std::vector<std::pair<const Monomial*, int64_t>> order;
  for (const auto& [monomial, coefficient] : poly.terms) {
    if (!monomial.empty()) order.emplace_back(&monomial, coefficient);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) {
    if ((x.second > 0) != (y.second > 0)) return x.second > 0;
    if (x.first->size() != y.first->size()) return x.first->size() > y.first->size();
    return std::abs(x.second) > std::abs(y.second);
  });
  Expr sum;
  for (const auto& [monomial, coefficient] : order) {
    const Expr product = build_monomial(*monomial, type);
    if (!sum)
      sum = mul(product, make_int(coefficient, type));
    else if (coefficient < 0)
      sum = sub(sum, mul(product, make_int(-coefficient, type)));
    else
      sum = add(sum, mul(product, make_int(coefficient, type)));
  }
  const int64_t constant = poly.constant_part();
  if (!sum) return make_int(constant, type);
  return constant < 0 ? sub(sum, make_int(-constant, type)) : add(sum, make_int(constant, type));
}

Poly Analyzer::quotient_atom(BinaryOp op, const Poly& p, const Poly& d) {
  const Type type = type_of(p + d);
  return atom(make_expr(type, Binary{op, build(p, type), build(d, type)}));
}

// Whether 0 <= r < d.
bool Analyzer::in_range_of(const Poly& r, const Poly& d) { return is_non_negative(r) && is_non_negative(d - r - 1); }

// p as multiple + rest, where all of `multiple` divides by g, which divides c, and 0 <= rest < g: then p // c is
// (multiple / g) // (c / g).
bool Analyzer::split_by_gcd(const Poly& p, int64_t c, int64_t* g, Poly* multiple, Poly* rest) {
  for (const auto& [candidate, coefficient] : p.terms) {
    *g = std::gcd(c, coefficient);
    if (candidate.empty() || *g <= 1) continue;
    *multiple = Poly();
    *rest = Poly();
    for (const auto& [monomial, k] : p.terms) {
      if (monomial.empty()) {
        multiple->add_term(monomial, k - floor_mod(k, *g));
        rest->add_term(monomial, floor_mod(k, *g));
      } else {
        (k % *g == 0 ? multiple : rest)->add_term(monomial, k);
      }
    }
    const ConstBound range = bound(*rest);
    if (range.lo >= 0 && range.hi < *g) {
      for (auto& [monomial, k] : multiple->terms) k /= *g;
      return true;
    }
  }
  return false;
}

Poly Analyzer::divide_constant(const Poly& p, int64_t c) {
  if (c == 1) return p;
  Poly quotient, rest;
  for (const auto& [monomial, k] : p.terms) {
    if (monomial.empty()) {
      quotient.add_term(monomial, floor_div(k, c));
      rest.add_term(monomial, floor_mod(k, c));
    } else if (k % c == 0) {
      quotient.add_term(monomial, k / c);
    } else {
      rest.add_term(monomial, k);
    }
  }
  const ConstBound range = bound(rest);
  if (range.has_lo() && range.has_hi() && floor_div(range.lo, c) == floor_div(range.hi, c))
    return quotient + floor_div(range.lo, c);
  int64_t g = 0;
  Poly multiple, small;
  if (split_by_gcd(rest, c, &g, &multiple, &small)) return quotient + divide_constant(multiple, c / g);
  // (x // a + k) // c is (x + k * a) // (a * c)
  const Poly variable = rest - rest.constant_part();
  if (variable.terms.size() == 1 && variable.terms.begin()->second == 1 && variable.terms.begin()->first.size() == 1) {
    const auto* inner = atoms_.at(variable.terms.begin()->first.front())->as<Binary>();
    const auto a = inner != nullptr && inner->op == BinaryOp::kFloorDiv ? as_int(inner->b) : std::nullopt;
    if (a && *a > 0) return quotient + divide_constant(normal(inner->a) + rest.constant_part() * *a, *a * c);
  }
  return quotient + quotient_atom(BinaryOp::kFloorDiv, rest, c);
}

Poly Analyzer::modulo_constant(const Poly& p, int64_t c) {
  if (c == 1) return 0;
  Poly rest;
  for (const auto& [monomial, k] : p.terms) {
    if (monomial.empty())
      rest.add_term(monomial, floor_mod(k, c));
    else if (k % c != 0)
      rest.add_term(monomial, k);
  }
  const ConstBound range = bound(rest);
  if (range.has_lo() && range.has_hi() && floor_div(range.lo, c) == floor_div(range.hi, c))
    return rest - floor_div(range.lo, c) * c;
  int64_t g = 0;
  Poly multiple, small;
  if (split_by_gcd(rest, c, &g, &multiple, &small)) return modulo_constant(multiple, c / g) * Poly(g) + small;
  return quotient_atom(BinaryOp::kFloorMod, rest, c);
}

Poly Analyzer::divide(const Poly& p, const Poly& d) {
  if (const auto c = d.constant(); c && *c > 0) return divide_constant(p, *c);
  if (p == d) return 1;
  Poly quotient, rest = p;
  if (d.terms.size() == 1 && d.terms.begin()->second == 1) {
    rest = Poly();
    for (const auto& [monomial, k] : p.terms) {
      if (const auto factor = divide_monomial(monomial, d.terms.begin()->first))
        quotient.add_term(*factor, k);
      else
        rest.add_term(monomial, k);
    }
  }
  if (bound(d).lo >= 0) {
    if (in_range_of(rest, d)) return quotient;
    if (in_range_of(rest + d, d)) return quotient - 1;
  }
  return quotient + quotient_atom(BinaryOp::kFloorDiv, rest, d);
}

Poly Analyzer::modulo(const Poly& p, const Poly& d) {
  if (const auto c = d.constant(); c && *c > 0) return modulo_constant(p, *c);
  Poly rest = p;
  if (d.terms.size() == 1 && d.terms.begin()->second == 1) {
    rest = Poly();
    for (const auto& [monomial, k] : p.terms) {
      if (!divide_monomial(monomial, d.terms.begin()->first)) rest.add_term(monomial, k);
    }
  }
  if (bound(d).lo >= 0) {
    if (in_range_of(rest, d)) return rest;
    if (in_range_of(rest + d, d)) return rest + d;
  }
  return quotient_atom(BinaryOp::kFloorMod, rest, d);
}

// (x // d) * d + x % d is x.
bool Analyzer::recombine_once(Poly* p) {
  for (const auto& [monomial, k] : p->terms) {
    for (const std::string& key : monomial) {
      const auto* n = atoms_.at(key)->as<Binary>();
      if (n == nullptr || n->op != BinaryOp::kFloorMod) continue;
      const Poly x = normal(n->a), d = normal(n->b);
      Poly rest;
      rest.add_term(*divide_monomial(monomial, {key}), k);
      const Poly product = rest * d * quotient_atom(BinaryOp::kFloorDiv, x, d);
      if (product.terms.size() != 1) continue;
      const auto found = p->terms.find(product.terms.begin()->first);
      if (found == p->terms.end() || found->second != product.terms.begin()->second) continue;
      *p = *p - product - rest * Poly::atom(key) + rest * x;
      return true;
    }
  }
  return false;
}

Poly Analyzer::recombine(Poly p) {
  if (depth_ > 4) return p;
  ++depth_;
  while (recombine_once(&p)) {
  }
  --depth_;
  return p;
}

}  // namespace aipu::te
