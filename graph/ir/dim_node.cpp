#include "graph/ir/dim_node.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "runtime/base/checked_math.h"

namespace aipu::graph {

// ---- order and equality
// --------------------------------------------------------------------------------------------------

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

// ---- numbers
// --------------------------------------------------------------------------------------------------

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

namespace {

using Bound = std::optional<int64_t>;

Bound min_known(Bound a, Bound b) { return !a ? b : !b ? a : std::min(*a, *b); }
Bound max_known(Bound a, Bound b) { return !a ? b : !b ? a : std::max(*a, *b); }
Bound both_min(Bound a, Bound b) { return a && b ? Bound(std::min(*a, *b)) : std::nullopt; }
Bound both_max(Bound a, Bound b) { return a && b ? Bound(std::max(*a, *b)) : std::nullopt; }

struct Interval {
  Bound low, high;
};

Interval interval_of(const Dim& dim) { return {dim.lower_bound(), dim.upper_bound()}; }

Interval sum(const Interval& a, const Interval& b) {
  return {a.low && b.low ? checked_add(*a.low, *b.low) : std::nullopt,
          a.high && b.high ? checked_add(*a.high, *b.high) : std::nullopt};
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
      for (size_t k = 1; k < operands.size(); ++k)
        result = op == DimOp::kAdd ? sum(result, at(k)) : product(result, at(k));
      return result;
    }
    case DimOp::kFloorDiv:
    case DimOp::kCeilDiv: {
      const Interval a = at(0);
      if (const auto divisor = operands[1].constant(); op == DimOp::kFloorDiv && divisor && *divisor > 0) {
        return {a.low ? floor_divide(*a.low, *divisor) : std::nullopt,
                a.high ? floor_divide(*a.high, *divisor) : std::nullopt};
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
size_t combine(size_t seed, size_t more) { return seed ^ (more + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2)); }

size_t hash_of(const Dim& dim) {
  const DimNode* node = DimNode::of(dim);
  return node != nullptr ? node->hash : std::hash<int64_t>()(*dim.constant());
}

int size_of(const Dim& dim) {
  const DimNode* node = DimNode::of(dim);
  return node != nullptr ? node->size : 1;
}
}  // namespace

// ---- nodes
// --------------------------------------------------------------------------------------------------

Dim undefined() { return DimNode::make(DimOp::kFloorDiv, {Dim(1), Dim(0)}); }

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

}  // namespace aipu::graph
