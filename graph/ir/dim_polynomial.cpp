#include "graph/ir/dim_polynomial.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/ir/dim_node.h"
#include "runtime/base/checked_math.h"

namespace aipu::graph {
namespace {

// Graded lexicographic, greatest first: more atoms first, then the one with the earlier atoms. It is compatible with
// multiplication, which long division needs.
int compare_monomials(const Monomial& a, const Monomial& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t k = 0; k < a.size(); ++k) {
    if (const int order = compare(a[k], b[k]); order != 0) return order;
  }
  return 0;
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

}  // namespace

Term term_of(const Dim& dim) {
  if (const auto value = dim.constant()) return {*value, {}};
  if (dim.op() != DimOp::kMul) return {1, {dim}};
  const auto& factors = dim.operands();
  if (const auto coefficient = factors.front().constant())
    return {*coefficient, Monomial(factors.begin() + 1, factors.end())};
  return {1, factors};
}

Polynomial polynomial_of(const Dim& dim) {
  if (dim.constant() == 0) return {};
  if (dim.op() != DimOp::kAdd) return {term_of(dim)};
  Polynomial result;
  for (const Dim& operand : dim.operands()) result.push_back(term_of(operand));
  return result;
}

Dim dim_of(const Term& term) {
  if (term.atoms.empty()) return term.coefficient;
  if (term.coefficient == 1 && term.atoms.size() == 1) return term.atoms.front();
  std::vector<Dim> factors;
  if (term.coefficient != 1) factors.emplace_back(term.coefficient);
  factors.insert(factors.end(), term.atoms.begin(), term.atoms.end());
  return DimNode::make(DimOp::kMul, std::move(factors));
}

Dim dim_of(const Polynomial& polynomial) {
  if (polynomial.empty()) return 0;
  if (polynomial.size() == 1) return dim_of(polynomial.front());
  std::vector<Dim> operands;
  for (const Term& term : polynomial) operands.push_back(dim_of(term));
  return DimNode::make(DimOp::kAdd, std::move(operands));
}

std::optional<Polynomial> add(const Polynomial& a, const Polynomial& b, int64_t scale) {
  Polynomial result;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const int order = i == a.size() ? 1 : j == b.size() ? -1 : compare_monomials(a[i].atoms, b[j].atoms);
    int64_t coefficient = order <= 0 ? a[i].coefficient : 0;
    if (order >= 0) {
      const auto scaled = checked_mul(b[j].coefficient, scale);
      const auto total = scaled ? checked_add(coefficient, *scaled) : std::nullopt;
      if (!total) return std::nullopt;
      coefficient = *total;
    }
    if (coefficient != 0) result.push_back({coefficient, order <= 0 ? a[i].atoms : b[j].atoms});
    if (order <= 0) ++i;
    if (order >= 0) ++j;
  }
  return result;
}

std::optional<Term> multiply(const Term& a, const Term& b) {
  const auto coefficient = checked_mul(a.coefficient, b.coefficient);
  if (!coefficient) return std::nullopt;
  Term result{*coefficient, {}};
  std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), std::back_inserter(result.atoms),
             [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  return result;
}

std::optional<Polynomial> multiply(const Polynomial& a, const Term& b) {
  Polynomial result;
  for (const Term& term : a) {
    auto value = multiply(term, b);
    if (!value) return std::nullopt;
    result.push_back(*std::move(value));
  }
  return result;  // the order is compatible with multiplication
}

std::optional<Term> divide(const Term& term, const Term& divisor) {
  if (divisor.coefficient == 0 || floor_modulo(term.coefficient, divisor.coefficient) != 0) return std::nullopt;
  const auto coefficient = floor_divide(term.coefficient, divisor.coefficient);
  if (!coefficient || term.atoms.size() < divisor.atoms.size()) return std::nullopt;
  Term result{*coefficient, {}};
  size_t k = 0;
  for (const Dim& atom : term.atoms) {
    if (k < divisor.atoms.size() && compare(atom, divisor.atoms[k]) == 0) {
      ++k;
    } else {
      result.atoms.push_back(atom);
    }
  }
  if (k != divisor.atoms.size()) return std::nullopt;
  return result;
}

std::optional<Polynomial> divide_exactly(Polynomial a, const Polynomial& b) {
  Polynomial quotient;
  for (size_t steps = 0; !a.empty(); ++steps) {
    if (steps > kMaxProductTerms || b.empty()) return std::nullopt;
    const auto term = divide(a.front(), b.front());
    if (!term) return std::nullopt;
    const auto product = multiply(b, *term);
    auto rest = product ? add(a, *product, -1) : std::nullopt;
    if (!rest) return std::nullopt;
    quotient.push_back(*term);
    a = *std::move(rest);
  }
  return quotient;
}

std::optional<Split> split(const Polynomial& a, const Term& divisor) {
  Split result;
  for (const Term& term : a) {
    if (const auto whole = divide(term, divisor)) {
      result.quotient.push_back(*whole);
      continue;
    }
    if (!divisor.atoms.empty() || !term.atoms.empty()) {
      result.rest.push_back(term);
      continue;
    }
    const auto whole = floor_divide(term.coefficient, divisor.coefficient);
    if (!whole) return std::nullopt;
    if (*whole != 0) result.quotient.push_back({*whole, {}});
    result.rest.push_back({*floor_modulo(term.coefficient, divisor.coefficient), {}});
  }
  return result;
}

int64_t content(const Polynomial& a) {
  uint64_t result = 0;
  for (const Term& term : a) {
    if (!term.atoms.empty()) result = std::gcd(result, magnitude(term.coefficient));
  }
  return result > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ? 1 : static_cast<int64_t>(result);
}

int64_t constant_term(const Polynomial& a) { return !a.empty() && a.back().atoms.empty() ? a.back().coefficient : 0; }

Polynomial without_constant_term(Polynomial a) {
  if (!a.empty() && a.back().atoms.empty()) a.pop_back();
  return a;
}

}  // namespace aipu::graph
