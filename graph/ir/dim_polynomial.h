// The normal form of sums and products: polynomials over atoms (symbols and operators other than + and *). Private to
// the dim_*.cpp files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/ir/dim.h"

namespace aipu::graph {

// A product of atoms, sorted, with repetitions; empty for the constant term.
using Monomial = std::vector<Dim>;

struct Term {
  int64_t coefficient = 0;
  Monomial atoms;
};
using Polynomial = std::vector<Term>;  // sorted by monomial, no zero coefficients

constexpr size_t kMaxProductTerms = 64;  // larger products are not expanded

Term term_of(const Dim& dim);
Polynomial polynomial_of(const Dim& dim);
Dim dim_of(const Term& term);
Dim dim_of(const Polynomial& polynomial);

// a + scale * b; nullopt on overflow, as for the products.
std::optional<Polynomial> add(const Polynomial& a, const Polynomial& b, int64_t scale = 1);
std::optional<Term> multiply(const Term& a, const Term& b);
std::optional<Polynomial> multiply(const Polynomial& a, const Term& b);

// term / divisor when the divisor's atoms are among the term's and its coefficient divides the term's.
std::optional<Term> divide(const Term& term, const Term& divisor);
// a / b when b divides a as a polynomial.
std::optional<Polynomial> divide_exactly(Polynomial a, const Polynomial& b);

// a = divisor * quotient + rest, term by term. For a constant divisor the constant term's rest is in [0, divisor).
struct Split {
  Polynomial quotient, rest;
};
std::optional<Split> split(const Polynomial& a, const Term& divisor);

// The greatest common divisor of the coefficients of the terms with atoms; 0 if there are none.
int64_t content(const Polynomial& a);
int64_t constant_term(const Polynomial& a);
Polynomial without_constant_term(Polynomial a);

}  // namespace aipu::graph
