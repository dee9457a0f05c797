#include "kernels/te/arith/poly.h"

#include <algorithm>

namespace aipu::te {

void Poly::add_term(const Monomial& monomial, int64_t coefficient) {
  if (coefficient == 0) return;
  const auto [place, is_new] = terms.emplace(monomial, coefficient);
  if (is_new) return;
  place->second += coefficient;
  if (place->second == 0) terms.erase(place);
}

std::optional<int64_t> Poly::constant() const {
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms.begin()->first.empty()) return terms.begin()->second;
  return std::nullopt;
}

int64_t Poly::constant_part() const {
  const auto found = terms.find(Monomial{});
  return found == terms.end() ? 0 : found->second;
}

Poly operator+(const Poly& a, const Poly& b) {
  Poly sum = a;
  for (const auto& [monomial, coefficient] : b.terms) sum.add_term(monomial, coefficient);
  return sum;
}

Poly operator-(const Poly& a, const Poly& b) {
  Poly difference = a;
  for (const auto& [monomial, coefficient] : b.terms) difference.add_term(monomial, -coefficient);
  return difference;
}

Poly operator*(const Poly& a, const Poly& b) {
  Poly product;
  for (const auto& [x, p] : a.terms) {
    for (const auto& [y, q] : b.terms) {
      Monomial both;
      std::merge(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
      product.add_term(both, p * q);
    }
  }
  return product;
}

std::optional<Monomial> divide_monomial(const Monomial& monomial, const Monomial& divisor) {
  if (!std::includes(monomial.begin(), monomial.end(), divisor.begin(), divisor.end())) return std::nullopt;
  Monomial rest;
  std::set_difference(monomial.begin(), monomial.end(), divisor.begin(), divisor.end(), std::back_inserter(rest));
  return rest;
}

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

namespace {

int64_t clamp(int64_t value) { return std::clamp(value, -ConstBound::kUnbounded, ConstBound::kUnbounded); }

int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    return (a < 0) == (b < 0) ? ConstBound::kUnbounded : -ConstBound::kUnbounded;
  return clamp(product);
}

}  // namespace

ConstBound operator+(ConstBound a, ConstBound b) {
  return {a.has_lo() && b.has_lo() ? clamp(a.lo + b.lo) : -ConstBound::kUnbounded,
          a.has_hi() && b.has_hi() ? clamp(a.hi + b.hi) : ConstBound::kUnbounded};
}

ConstBound operator*(ConstBound a, ConstBound b) {
  const int64_t ends[] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
  return {*std::min_element(std::begin(ends), std::end(ends)), *std::max_element(std::begin(ends), std::end(ends))};
}

ConstBound hull(ConstBound a, ConstBound b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

}  // namespace aipu::te
