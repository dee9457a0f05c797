#include "graph/ir/dim.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "graph/ir/dim_node.h"
#include "graph/ir/dim_polynomial.h"
#include "runtime/base/checked_math.h"

namespace aipu::graph {
namespace {

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
  Dim quotient = dim_of(parts->quotient);
  const Dim rest = dim_of(parts->rest);
  if (within(rest, 0, divisor - 1)) return quotient;
  // floor((g*x + k) / (g*c)) = floor((x + floor(k/g)) / c)
  if (const int64_t g = std::gcd(content(parts->rest), divisor); g > 1) {
    const auto smaller = split(parts->rest, {g, {}});
    if (smaller) return quotient + floordiv(dim_of(smaller->quotient), Dim(divisor / g));
  }
  // floor((floor(x/b) + k) / c) = floor((x + k*b) / (b*c))
  const Polynomial head = without_constant_term(parts->rest);
  if (head.size() == 1 && head[0].coefficient == 1 && head[0].atoms.size() == 1 &&
      head[0].atoms[0].op() == DimOp::kFloorDiv) {
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
  Dim rest = dim_of(reduced);
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
    // x makes y superfluous; so it does when it beats one operand of the opposite: max(x, min(x, y)) = x.
    const std::function<bool(const Dim&, const Dim&)> beats = [&](const Dim& x, const Dim& y) {
      if (y.op() == (op == DimOp::kMax ? DimOp::kMin : DimOp::kMax)) {
        return std::any_of(y.operands().begin(), y.operands().end(),
                           [&](const Dim& operand) { return beats(x, operand); });
      }
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

Dim Dim::symbol(std::string_view name, bool may_be_negative) {
  std::string full(name);
  if (may_be_negative && !name.starts_with('$')) full = '$' + full;
  return DimNode::make_symbol(std::move(full));
}

int Dim::size() const { return node_ == nullptr ? 1 : node_->size; }

DimOp Dim::op() const { return node_ == nullptr ? DimOp::kConstant : node_->op; }

const std::string& Dim::symbol_name() const {
  static const std::string none;
  return node_ == nullptr ? none : node_->name;
}

const std::vector<Dim>& Dim::operands() const {
  static const std::vector<Dim> none;
  return node_ == nullptr ? none : node_->operands;
}

std::optional<int64_t> Dim::lower_bound() const {
  return node_ == nullptr ? std::optional<int64_t>(value_) : node_->low;
}
std::optional<int64_t> Dim::upper_bound() const {
  return node_ == nullptr ? std::optional<int64_t>(value_) : node_->high;
}

// ---- operators
// --------------------------------------------------------------------------------------------------

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
    if (const auto parts = split(dividend, divisor.front()); parts && !parts->quotient.empty())
      return mod(dim_of(parts->rest), b);
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
  Dim variable = dim_of(parts->quotient);
  if (is_boolean(variable)) {
    if (*bound == 1) return variable;
    // not(not(x)) = x
    if (*bound == 0 && variable.op() == DimOp::kEq && variable.operands()[1] == Dim(0) &&
        is_boolean(variable.operands()[0])) {
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
  if (condition == if_nonzero && if_zero == Dim(0)) return condition;
  if (condition.op() == DimOp::kMin) {
    // Of what is not negative the least is 0 where one of those is that can be 0.
    const Dim &a = condition.operands()[0], &b = condition.operands()[1];
    const auto least_a = a.lower_bound(), least_b = b.lower_bound();
    if (least_a && *least_a > 0 && least_b && *least_b >= 0) return select(b, if_nonzero, if_zero);
    if (least_b && *least_b > 0 && least_a && *least_a >= 0) return select(a, if_nonzero, if_zero);
  }
  if (condition.op() == DimOp::kEq && condition.operands()[1] == Dim(0))
    return select(condition.operands()[0], if_zero, if_nonzero);
  if (is_boolean(condition) && if_nonzero == Dim(1) && if_zero == Dim(0)) return condition;
  if (is_boolean(condition) && if_nonzero == Dim(0) && if_zero == Dim(1)) return eq(condition, 0);
  return DimNode::make(DimOp::kSelect, {condition, if_nonzero, if_zero});
}

// ---- substitution
// --------------------------------------------------------------------------------------------------

namespace {

Dim rebuild(DimOp op, const std::vector<Dim>& operands) {
  switch (op) {
    case DimOp::kAdd:
    case DimOp::kMul: {
      Dim result = operands[0];
      for (size_t k = 1; k < operands.size(); ++k)
        result = op == DimOp::kAdd ? result + operands[k] : result * operands[k];
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

// ---- shapes
// --------------------------------------------------------------------------------------------------

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
