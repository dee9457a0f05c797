// Integers as sums of products of atoms: the canonical form of index arithmetic. An atom is a variable or something
// that is no sum or product (a quotient, a minimum, an element of a tensor), named by its structural key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace aipu::te {

using Monomial = std::vector<std::string>;  // sorted keys; empty: the constant

struct Poly {
  std::map<Monomial, int64_t> terms;  // without zeros

  Poly() = default;
  Poly(int64_t constant) { add_term({}, constant); }  // NOLINT: a number is a polynomial
  static Poly atom(std::string key) {
    Poly p;
    p.terms[{std::move(key)}] = 1;
    return p;
  }

  void add_term(const Monomial& monomial, int64_t coefficient);
  std::optional<int64_t> constant() const;  // if it is one
  int64_t constant_part() const;
  friend bool operator==(const Poly&, const Poly&) = default;
};

Poly operator+(const Poly& a, const Poly& b);
Poly operator-(const Poly& a, const Poly& b);
Poly operator*(const Poly& a, const Poly& b);

// The monomial without the factors of `divisor`; absent if it does not have them all.
std::optional<Monomial> divide_monomial(const Monomial& monomial, const Monomial& divisor);

int64_t floor_div(int64_t a, int64_t b);  // b > 0
inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

// The values between two numbers; beyond kUnbounded nothing is known.
struct ConstBound {
  static constexpr int64_t kUnbounded = int64_t{1} << 60;
  int64_t lo = -kUnbounded, hi = kUnbounded;
  bool has_lo() const { return lo > -kUnbounded; }
  bool has_hi() const { return hi < kUnbounded; }
};
ConstBound operator+(ConstBound a, ConstBound b);
ConstBound operator*(ConstBound a, ConstBound b);
ConstBound hull(ConstBound a, ConstBound b);

}  // namespace aipu::te
