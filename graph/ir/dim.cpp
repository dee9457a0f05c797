#include "graph/ir/dim.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/base/checked_math.h"

namespace aipu::graph {

struct DimNode {
  DimOp op = DimOp::kConstant;
  std::string name;
  std::vector<Dim> operands;
  std::optional<int64_t> low, high;
  size_t hash = 0;
  int size = 1;  // of the expression as a tree

  static const DimNode* of(const Dim& dim) { return dim.node_.get(); }
  static Dim make(DimOp op, std::vector<Dim> operands);
  static Dim make_symbol(std::string name);
};

namespace {

using Bound = std::optional<int64_t>;

// ---- order and equality -----------------------------------------------------------------------------------------------------------

// A total order that depends on names and structure only: symbols by name, then the other operators, constants last.
int compare(const Dim& a, const Dim& b) {
  const DimNode* x = DimNode::of(a);
  const DimNode* y = DimNode::of(b);
  if (x == nullptr || y == nullptr) {
    if (x == nullptr && y == nullptr) {
      const int64_t p = *a.constant();
      const int64_t q = *b.constant();
      return p < q ? -1 : p > q ? 1 : 0;
    }
    return x == nullptr ? 1 : -1;
  }
  if (x == y) return 0;
  if (x->op != y->op) return x->op < y->op ? -1 : 1;
  if (x->op == DimOp::kSymbol) return x->name.compare(y->name);
  for (size_t k = 0; k < x->operands.size() && k < y->operands.size(); ++k) {
    if (const int order = compare(x->operands[k], y->operands[k]); order != 0) return order;
  }
  return x->operands.size() < y->operands.size() ? -1 : x->operands.size() > y->operands.size() ? 1 : 0;
}

size_t combine(size_t seed, size_t more) { return seed ^ (more + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2)); }

size_t hash_of(const Dim& dim) {
  const DimNode* node = DimNode::of(dim);
  return node != nullptr ? node->hash : std::hash<int64_t>()(*dim.constant());
}

int size_of(const Dim& dim) {
  const DimNode* node = DimNode::of(dim);
  return node != nullptr ? node->size : 1;
}

// ---- numbers ----------------------------------------------------------------------------------------------------------------------

std::optional<int64_t> floor_divide(int64_t a, int64_t b) {
  if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1)) return std::nullopt;
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::optional<int64_t> floor_modulo(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Bound min_known(Bound a, Bound b) { return !a ? b : !b ? a : std::min(*a, *b); }
Bound max_known(Bound a, Bound b) { return !a ? b : !b ? a : std::max(*a, *b); }
Bound both_min(Bound a, Bound b) { return a && b ? Bound(std::min(*a, *b)) : std::nullopt; }
Bound both_max(Bound a, Bound b) { return a && b ? Bound(std::max(*a, *b)) : std::nullopt; }

struct Interval {
  Bound low, high;
};

Interval interval_of(const Dim& dim) { return {dim.lower_bound(), dim.upper_bound()}; }

Interval sum(const Interval& a, const Interval& b) {
  return {a.low && b.low ? checked_add(*a.low, *b.low) : std::nullopt, a.high && b.high ? checked_add(*a.high, *b.high) : std::nullopt};
}

// Exact where all four bounds are known; otherwise what the signs tell.
Interval product(const Interval& a, const Interval& b) {
  if (a.low && a.high && b.low && b.high) {
    Interval result{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    for (const int64_t x : {*a.low, *a.high}) {
      for (const int64_t y : {*b.low, *b.high}) {
        const auto value = checked_mul(x, y);
        if (!value) return {};
        result.low = std::min(*result.low, *value);
        result.high = std::max(*result.high, *value);
      }
    }
    return result;
  }
  const auto negate = [](const Interval& x) -> Interval {
    return {x.high ? checked_mul(*x.high, -1) : std::nullopt, x.low ? checked_mul(*x.low, -1) : std::nullopt};
  };
  if (a.high && *a.high <= 0 && !(a.low && *a.low >= 0)) return negate(product(negate(a), b));
  if (b.high && *b.high <= 0 && !(b.low && *b.low >= 0)) return negate(product(a, negate(b)));
  if (a.low && *a.low >= 0 && b.low && *b.low >= 0) return {checked_mul(*a.low, *b.low), std::nullopt};
  if (a.low && *a.low >= 0 && a.low == a.high && b.high) return {std::nullopt, checked_mul(*a.low, *b.high)};
  if (b.low && *b.low >= 0 && b.low == b.high && a.high) return {std::nullopt, checked_mul(*b.low, *a.high)};
  if (a.low && *a.low >= 0 && a.low == a.high && b.low) return {checked_mul(*a.low, *b.low), std::nullopt};
  if (b.low && *b.low >= 0 && b.low == b.high && a.low) return {checked_mul(*b.low, *a.low), std::nullopt};
  return {};
}

Interval bounds_of(DimOp op, const std::vector<Dim>& operands) {
  const auto at = [&](size_t k) { return interval_of(operands[k]); };
  const auto at_least = [](const Interval& x, int64_t bound) { return x.low && *x.low >= bound; };
  switch (op) {
    case DimOp::kAdd:
    case DimOp::kMul: {
      Interval result = at(0);
      for (size_t k = 1; k < operands.size(); ++k) result = op == DimOp::kAdd ? sum(result, at(k)) : product(result, at(k));
      return result;
    }
    case DimOp::kFloorDiv:
    case DimOp::kCeilDiv: {
      const Interval a = at(0);
      if (const auto divisor = operands[1].constant(); op == DimOp::kFloorDiv && divisor && *divisor > 0) {
        return {a.low ? floor_divide(*a.low, *divisor) : std::nullopt, a.high ? floor_divide(*a.high, *divisor) : std::nullopt};
      }
      // A divisor of zero yields no value at all, so one that is >= 0 counts as >= 1.
      if (at_least(a, 0) && at_least(at(1), 0)) return {0, a.high};
      return {};
    }
    case DimOp::kMod: {
      const Interval a = at(0);
      const Interval b = at(1);
      if (!at_least(b, 0)) return {};
      const Bound below = b.high ? checked_add(*b.high, -1) : std::nullopt;
      return {0, at_least(a, 0) ? min_known(below, a.high) : below};
    }
    case DimOp::kMin:
      return {both_min(at(0).low, at(1).low), min_known(at(0).high, at(1).high)};
    case DimOp::kMax:
      return {max_known(at(0).low, at(1).low), both_max(at(0).high, at(1).high)};
    case DimOp::kEq:
    case DimOp::kLt:
      return {0, 1};
    case DimOp::kSelect:
      return {both_min(at(1).low, at(2).low), both_max(at(1).high, at(2).high)};
    case DimOp::kConstant:
    case DimOp::kSymbol:
      break;
  }
  return {};
}

// What stands for "no value": evaluating it is an error.
Dim undefined() { return DimNode::make(DimOp::kFloorDiv, {Dim(1), Dim(0)}); }

// ---- polynomials ------------------------------------------------------------------------------------------------------------------

// A product of atoms (symbols and operators other than + and *), sorted, with repetitions; empty for the constant term.
using Monomial = std::vector<Dim>;

struct Term {
  int64_t coefficient = 0;
  Monomial atoms;
};

// Graded lexicographic, greatest first: more atoms first, then the one with the earlier atoms. It is compatible with multiplication, which
// long division needs.
int compare_monomials(const Monomial& a, const Monomial& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t k = 0; k < a.size(); ++k) {
    if (const int order = compare(a[k], b[k]); order != 0) return order;
  }
  return 0;
}

using Polynomial = std::vector<Term>;  // sorted by monomial, no zero coefficients

constexpr size_t kMaxProductTerms = 64;  // larger products are not expanded

Term term_of(const Dim& dim) {
  if (const auto value = dim.constant()) return {*value, {}};
  if (dim.op() != DimOp::kMul) return {1, {dim}};
  const auto& factors = dim.operands();
  if (const auto coefficient = factors.front().constant()) return {*coefficient, Monomial(factors.begin() + 1, factors.end())};
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

// a + scale * b; nullopt on overflow.
std::optional<Polynomial> add(const Polynomial& a, const Polynomial& b, int64_t scale = 1) {
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

// term / divisor when the divisor's atoms are among the term's and its coefficient divides the term's.
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

// a / b when b divides a as a polynomial.
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

// a = divisor * quotient + rest, term by term. For a constant divisor the constant term's rest is in [0, divisor).
struct Split {
  Polynomial quotient, rest;
};
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

uint64_t magnitude(int64_t value) { return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value); }

// The greatest common divisor of the coefficients of the terms with atoms; 0 if there are none.
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

Dim negated(const Dim& a) { return Dim(-1) * a; }

bool within(const Dim& a, int64_t low, int64_t high) {
  const auto l = a.lower_bound();
  const auto h = a.upper_bound();
  return l && h && *l >= low && *h <= high;
}

bool is_boolean(const Dim& a) { return within(a, 0, 1); }

Dim floordiv_constant(const Dim& a, int64_t divisor) {
  const auto parts = split(polynomial_of(a), {divisor, {}});
  if (!parts) return undefined();
  const Dim quotient = dim_of(parts->quotient);
  const Dim rest = dim_of(parts->rest);
  if (within(rest, 0, divisor - 1)) return quotient;
  // floor((g*x + k) / (g*c)) = floor((x + floor(k/g)) / c)
  if (const int64_t g = std::gcd(content(parts->rest), divisor); g > 1) {
    const auto smaller = split(parts->rest, {g, {}});
    if (smaller) return quotient + floordiv(dim_of(smaller->quotient), Dim(divisor / g));
  }
  // floor((floor(x/b) + k) / c) = floor((x + k*b) / (b*c))
  const Polynomial head = without_constant_term(parts->rest);
  if (head.size() == 1 && head[0].coefficient == 1 && head[0].atoms.size() == 1 && head[0].atoms[0].op() == DimOp::kFloorDiv) {
    const auto& inner = head[0].atoms[0].operands();
    const auto b = inner[1].constant();
    const auto whole = b && *b > 0 ? checked_mul(*b, divisor) : std::nullopt;
    const auto shift = b ? checked_mul(constant_term(parts->rest), *b) : std::nullopt;
    if (whole && shift) return quotient + floordiv(inner[0] + Dim(*shift), Dim(*whole));
  }
  return quotient + DimNode::make(DimOp::kFloorDiv, {rest, Dim(divisor)});
}

Dim mod_constant(const Dim& a, int64_t divisor) {
  Polynomial reduced;
  for (Term term : polynomial_of(a)) {
    term.coefficient = *floor_modulo(term.coefficient, divisor);
    if (term.coefficient != 0) reduced.push_back(std::move(term));
  }
  const Dim rest = dim_of(reduced);
  if (within(rest, 0, divisor - 1)) return rest;
  // (g*x + k) mod (g*c) = g * ((x + floor(k/g)) mod c) + k mod g
  if (const int64_t g = std::gcd(content(reduced), divisor); g > 1) {
    if (const auto parts = split(reduced, {g, {}})) {
      return Dim(g) * mod(dim_of(parts->quotient), Dim(divisor / g)) + Dim(constant_term(parts->rest));
    }
  }
  return DimNode::make(DimOp::kMod, {rest, Dim(divisor)});
}

// Flat, sorted, without duplicates and operands that another one dominates; built back as a left-deep chain of pairs.
Dim extremum(DimOp op, const Dim& a, const Dim& b) {
  std::vector<Dim> all;
  const std::function<void(const Dim&)> flatten = [&](const Dim& dim) {
    if (dim.op() != op) {
      all.push_back(dim);
      return;
    }
    for (const Dim& operand : dim.operands()) flatten(operand);
  };
  flatten(a);
  flatten(b);
  std::sort(all.begin(), all.end(), [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  std::vector<Dim> kept;
  for (const Dim& candidate : all) {
    const auto beats = [&](const Dim& x, const Dim& y) {  // x makes y superfluous
      const Dim difference = op == DimOp::kMax ? x - y : y - x;
      const auto low = difference.lower_bound();
      return low && *low >= 0;
    };
    // Pairwise work on long chains of unrelated operands is not worth it.
    if (all.size() <= 16) {
      if (std::any_of(kept.begin(), kept.end(), [&](const Dim& other) { return beats(other, candidate); })) continue;
      std::erase_if(kept, [&](const Dim& other) { return beats(candidate, other); });
    } else if (!kept.empty() && kept.back() == candidate) {
      continue;
    }
    kept.push_back(candidate);
  }
  Dim result = kept.front();
  for (size_t k = 1; k < kept.size(); ++k) result = DimNode::make(op, {result, kept[k]});
  return result;
}

}  // namespace

// ---- nodes ------------------------------------------------------------------------------------------------------------------------

Dim DimNode::make(DimOp op, std::vector<Dim> operands) {
  auto node = std::make_shared<DimNode>();
  node->op = op;
  node->hash = static_cast<size_t>(op) + 1;
  int64_t size = 1;
  for (const Dim& operand : operands) {
    node->hash = combine(node->hash, hash_of(operand));
    size += size_of(operand);
  }
  if (size > kMaxDimSize) return undefined();
  node->size = static_cast<int>(size);
  const Interval bounds = bounds_of(op, operands);
  node->low = bounds.low;
  node->high = bounds.high;
  node->operands = std::move(operands);
  return Dim(std::shared_ptr<const DimNode>(std::move(node)));
}

Dim DimNode::make_symbol(std::string name) {
  auto node = std::make_shared<DimNode>();
  node->op = DimOp::kSymbol;
  node->hash = std::hash<std::string>()(name);
  if (!name.starts_with('$')) node->low = 0;
  node->name = std::move(name);
  return Dim(std::shared_ptr<const DimNode>(std::move(node)));
}

Dim Dim::symbol(std::string_view name, bool may_be_negative) {
  std::string full(name);
  if (may_be_negative && !name.starts_with('$')) full.insert(0, "$");
  return DimNode::make_symbol(std::move(full));
}

DimOp Dim::op() const { return node_ == nullptr ? DimOp::kConstant : node_->op; }

const std::string& Dim::symbol_name() const {
  static const std::string none;
  return node_ == nullptr ? none : node_->name;
}

const std::vector<Dim>& Dim::operands() const {
  static const std::vector<Dim> none;
  return node_ == nullptr ? none : node_->operands;
}

std::optional<int64_t> Dim::lower_bound() const { return node_ == nullptr ? std::optional<int64_t>(value_) : node_->low; }
std::optional<int64_t> Dim::upper_bound() const { return node_ == nullptr ? std::optional<int64_t>(value_) : node_->high; }

// ---- operators --------------------------------------------------------------------------------------------------------------------

bool operator==(const Dim& a, const Dim& b) {
  if (a.node_ == b.node_) return a.node_ != nullptr || a.value_ == b.value_;
  if (a.node_ == nullptr || b.node_ == nullptr || a.node_->hash != b.node_->hash) return false;
  return compare(a, b) == 0;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.node_ == nullptr && b.node_ == nullptr) {
    const auto value = checked_add(a.value_, b.value_);
    return value ? Dim(*value) : undefined();
  }
  const auto result = add(polynomial_of(a), polynomial_of(b));
  return result ? dim_of(*result) : undefined();
}

Dim operator-(const Dim& a, const Dim& b) {
  if (a.node_ == nullptr && b.node_ == nullptr) {
    int64_t value = 0;
    return __builtin_sub_overflow(a.value_, b.value_, &value) ? undefined() : Dim(value);
  }
  const auto result = add(polynomial_of(a), polynomial_of(b), -1);
  return result ? dim_of(*result) : undefined();
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.node_ == nullptr && b.node_ == nullptr) {
    const auto value = checked_mul(a.value_, b.value_);
    return value ? Dim(*value) : undefined();
  }
  Polynomial x = polynomial_of(a);
  Polynomial y = polynomial_of(b);
  if (x.size() > 1 && y.size() > 1 && x.size() * y.size() > kMaxProductTerms) {
    // Too large to write out: the sums become atoms of the product.
    x = {Term{1, {a}}};
    y = {Term{1, {b}}};
  }
  Polynomial result;
  for (const Term& term : y) {
    const auto part = multiply(x, term);
    auto total = part ? add(result, *part) : std::nullopt;
    if (!total) return undefined();
    result = *std::move(total);
  }
  return dim_of(result);
}

Dim floordiv(const Dim& a, const Dim& b) {
  if (const auto divisor = b.constant()) {
    if (*divisor == 0) return undefined();
    if (const auto value = a.constant()) {
      const auto quotient = floor_divide(*value, *divisor);
      return quotient ? Dim(*quotient) : undefined();
    }
    if (*divisor == std::numeric_limits<int64_t>::min()) return DimNode::make(DimOp::kFloorDiv, {a, b});
    if (*divisor < 0) return floordiv(negated(a), Dim(-*divisor));
    return floordiv_constant(a, *divisor);
  }
  if (a == b) return 1;
  const Polynomial dividend = polynomial_of(a);
  const Polynomial divisor = polynomial_of(b);
  if (const auto exact = divide_exactly(dividend, divisor)) return dim_of(*exact);
  if (divisor.size() == 1) {
    if (const auto parts = split(dividend, divisor.front()); parts && !parts->quotient.empty()) {
      return dim_of(parts->quotient) + floordiv(dim_of(parts->rest), b);
    }
  }
  if (const auto low = a.lower_bound(); low && *low >= 0) {
    const auto room = (b - a).lower_bound();
    if (room && *room >= 1) return 0;
  }
  return DimNode::make(DimOp::kFloorDiv, {a, b});
}

Dim ceildiv(const Dim& a, const Dim& b) {
  if (const auto divisor = b.constant()) {
    if (*divisor == 0) return undefined();
    if (*divisor == std::numeric_limits<int64_t>::min()) return negated(floordiv(negated(a), b));
    if (*divisor < 0) return ceildiv(negated(a), Dim(-*divisor));
    if (a.is_constant()) return negated(floordiv(negated(a), b));
    return floordiv(a + Dim(*divisor - 1), b);  // one form for both roundings, so that equal extents compare equal
  }
  if (a == b) return 1;
  if (const auto exact = divide_exactly(polynomial_of(a), polynomial_of(b))) return dim_of(*exact);
  return DimNode::make(DimOp::kCeilDiv, {a, b});
}

Dim mod(const Dim& a, const Dim& b) {
  if (const auto divisor = b.constant()) {
    if (*divisor == 0) return undefined();
    if (const auto value = a.constant()) return *floor_modulo(*value, *divisor);
    if (*divisor == std::numeric_limits<int64_t>::min()) return DimNode::make(DimOp::kMod, {a, b});
    if (*divisor < 0) return negated(mod(negated(a), Dim(-*divisor)));
    return mod_constant(a, *divisor);
  }
  const Polynomial dividend = polynomial_of(a);
  const Polynomial divisor = polynomial_of(b);
  if (divide_exactly(dividend, divisor)) return 0;
  if (divisor.size() == 1) {
    if (const auto parts = split(dividend, divisor.front()); parts && !parts->quotient.empty()) return mod(dim_of(parts->rest), b);
  }
  if (const auto low = a.lower_bound(); low && *low >= 0) {
    const auto room = (b - a).lower_bound();
    if (room && *room >= 1) return a;
  }
  return DimNode::make(DimOp::kMod, {a, b});
}

Dim min(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return std::min(*a.constant(), *b.constant());
  return extremum(DimOp::kMin, a, b);
}

Dim max(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return std::max(*a.constant(), *b.constant());
  return extremum(DimOp::kMax, a, b);
}

Dim eq(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return *a.constant() == *b.constant() ? 1 : 0;
  const auto difference = add(polynomial_of(a), polynomial_of(b), -1);
  if (!difference) return DimNode::make(DimOp::kEq, {a, b});
  const Dim whole = dim_of(*difference);
  if (const auto value = whole.constant()) return *value == 0 ? 1 : 0;
  const auto low = whole.lower_bound();
  const auto high = whole.upper_bound();
  if ((low && *low > 0) || (high && *high < 0)) return 0;
  // One form for all ways to say it: positive, coprime coefficients on the left, a constant on the right.
  Polynomial left = without_constant_term(*difference);
  const auto right = checked_mul(constant_term(*difference), -1);
  const int64_t g = content(left);
  const int64_t scale = left.front().coefficient < 0 ? -g : g;
  const auto parts = split(left, {scale, {}});
  if (!right || !parts) return DimNode::make(DimOp::kEq, {a, b});
  if (floor_modulo(*right, scale) != 0) return 0;
  const auto bound = floor_divide(*right, scale);
  if (!bound) return DimNode::make(DimOp::kEq, {a, b});
  const Dim variable = dim_of(parts->quotient);
  if (is_boolean(variable)) {
    if (*bound == 1) return variable;
    // not(not(x)) = x
    if (*bound == 0 && variable.op() == DimOp::kEq && variable.operands()[1] == Dim(0) && is_boolean(variable.operands()[0])) {
      return variable.operands()[0];
    }
  }
  return DimNode::make(DimOp::kEq, {variable, Dim(*bound)});
}

Dim lt(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return *a.constant() < *b.constant() ? 1 : 0;
  const auto difference = add(polynomial_of(a), polynomial_of(b), -1);
  if (!difference) return DimNode::make(DimOp::kLt, {a, b});
  const Dim whole = dim_of(*difference);
  if (const auto value = whole.constant()) return *value < 0 ? 1 : 0;
  const auto low = whole.lower_bound();
  const auto high = whole.upper_bound();
  if (high && *high < 0) return 1;
  if (low && *low >= 0) return 0;
  const Polynomial left = without_constant_term(*difference);
  const auto right = checked_mul(constant_term(*difference), -1);
  const int64_t g = content(left);
  const auto parts = split(left, {g, {}});
  if (!right || !parts) return DimNode::make(DimOp::kLt, {a, b});
  // g*x < k  <=>  x < ceil(k/g)
  const Dim bound = ceildiv(Dim(*right), Dim(g));
  return DimNode::make(DimOp::kLt, {dim_of(parts->quotient), bound});
}

Dim select(const Dim& condition, const Dim& if_nonzero, const Dim& if_zero) {
  if (const auto value = condition.constant()) return *value != 0 ? if_nonzero : if_zero;
  if (if_nonzero == if_zero) return if_nonzero;
  const auto low = condition.lower_bound();
  const auto high = condition.upper_bound();
  if ((low && *low > 0) || (high && *high < 0)) return if_nonzero;
  if (condition.op() == DimOp::kEq && condition.operands()[1] == Dim(0)) return select(condition.operands()[0], if_zero, if_nonzero);
  if (is_boolean(condition) && if_nonzero == Dim(1) && if_zero == Dim(0)) return condition;
  if (is_boolean(condition) && if_nonzero == Dim(0) && if_zero == Dim(1)) return eq(condition, 0);
  return DimNode::make(DimOp::kSelect, {condition, if_nonzero, if_zero});
}

// ---- substitution -----------------------------------------------------------------------------------------------------------------

namespace {

Dim rebuild(DimOp op, const std::vector<Dim>& operands) {
  switch (op) {
    case DimOp::kAdd:
    case DimOp::kMul: {
      Dim result = operands[0];
      for (size_t k = 1; k < operands.size(); ++k) result = op == DimOp::kAdd ? result + operands[k] : result * operands[k];
      return result;
    }
    case DimOp::kFloorDiv:
      return floordiv(operands[0], operands[1]);
    case DimOp::kCeilDiv:
      return ceildiv(operands[0], operands[1]);
    case DimOp::kMod:
      return mod(operands[0], operands[1]);
    case DimOp::kMin:
      return min(operands[0], operands[1]);
    case DimOp::kMax:
      return max(operands[0], operands[1]);
    case DimOp::kEq:
      return eq(operands[0], operands[1]);
    case DimOp::kLt:
      return lt(operands[0], operands[1]);
    case DimOp::kSelect:
      return select(operands[0], operands[1], operands[2]);
    case DimOp::kConstant:
    case DimOp::kSymbol:
      break;
  }
  return 0;
}

using Lookup = std::function<std::optional<Dim>(const std::string&)>;

Dim substitute_shared(const Dim& dim, const Lookup& lookup, std::map<const DimNode*, Dim>* done) {
  const DimNode* node = DimNode::of(dim);
  if (node == nullptr) return dim;
  if (node->op == DimOp::kSymbol) return lookup(node->name).value_or(dim);
  if (const auto it = done->find(node); it != done->end()) return it->second;
  std::vector<Dim> operands;
  bool changed = false;
  for (const Dim& operand : node->operands) {
    operands.push_back(substitute_shared(operand, lookup, done));
    changed = changed || !(operands.back() == operand);
  }
  Dim result = changed ? rebuild(node->op, operands) : dim;
  done->emplace(node, result);
  return result;
}

}  // namespace

Dim Dim::substitute(const Lookup& lookup) const {
  if (node_ == nullptr) return *this;
  std::map<const DimNode*, Dim> done;
  return substitute_shared(*this, lookup, &done);
}

void Dim::collect_symbols(std::vector<std::string>* names) const {
  if (node_ == nullptr) return;
  std::vector<const DimNode*> seen;
  const std::function<void(const Dim&)> visit = [&](const Dim& dim) {
    const DimNode* node = DimNode::of(dim);
    if (node == nullptr) return;
    if (node->op == DimOp::kSymbol) {
      if (std::find(names->begin(), names->end(), node->name) == names->end()) names->push_back(node->name);
      return;
    }
    if (std::find(seen.begin(), seen.end(), node) != seen.end()) return;
    seen.push_back(node);
    for (const Dim& operand : node->operands) visit(operand);
  };
  visit(*this);
}

// ---- shapes -----------------------------------------------------------------------------------------------------------------------

Dim element_count(const Shape& shape) {
  Dim count = 1;
  for (const Dim& extent : shape) {
    if (extent == Dim(0)) return 0;
  }
  for (const Dim& extent : shape) count *= extent;
  return count;
}

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& extent) { return extent.is_constant(); });
}

std::optional<std::vector<int64_t>> static_shape(const Shape& shape) {
  std::vector<int64_t> result;
  for (const Dim& extent : shape) {
    const auto value = extent.constant();
    if (!value) return std::nullopt;
    result.push_back(*value);
  }
  return result;
}

}  // namespace aipu::graph
