// Python's operators over compile-time values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/dsl/host_environment.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

constexpr size_t kMaxRepeated = 1 << 16;
constexpr int kMaxDepth = 50;

bool is_run_time(const Value& v) { return v.is_expr() || v.as<BufferValue>() != nullptr; }

double as_double(const Value& v) {
  return v.as<double>() != nullptr ? *v.as<double>() : static_cast<double>(*v.integer());
}

std::string_view binary_symbol(ast::BinaryOp op) {
  static constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@"};
  return kSymbols[static_cast<size_t>(op)];
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0); }

}  // namespace

std::string_view compare_symbol(ast::CompareOp op) {
  static constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

std::optional<bool> Compiler::truth(const Value& value) {
  if (is_run_time(value) || value.as<RecordValue>() != nullptr) return std::nullopt;
  if (value.is_none()) return false;
  if (const auto* b = value.as<bool>()) return *b;
  if (const auto* i = value.as<int64_t>()) return *i != 0;
  if (const auto* d = value.as<double>()) return *d != 0;
  if (const auto* s = value.as<std::string>()) return !s->empty();
  if (const ValueList* items = value.elements()) return !items->empty();
  if (const auto* dict = value.as<DictValue>()) return !dict->items->empty();
  if (const auto* meta = value.as<MetaValue>()) return truth(*meta->value);
  if (const auto* array = value.as<ArrayValue>(); array != nullptr && array->array->shape.empty()) {
    return std::any_of(array->array->bytes.begin(), array->array->bytes.end(),
                       [](std::byte b) { return b != std::byte{0}; });
  }
  return true;
}

bool Compiler::values_equal(const Value& lhs, const Value& rhs, int depth) {
  if (depth > kMaxDepth || ++steps_ > kMaxSteps) return false;
  if (lhs.is_number() && rhs.is_number()) {
    if (lhs.integer() && rhs.integer()) return *lhs.integer() == *rhs.integer();
    return as_double(lhs) == as_double(rhs);
  }
  if (lhs.is_none() || rhs.is_none()) return lhs.is_none() && rhs.is_none();
  if (const auto* a = lhs.as<std::string>(), *b = rhs.as<std::string>(); a != nullptr && b != nullptr) {
    if (*a == *b) return true;
    return false;
  }
  // A DataType is a string: p.dtype == "int8x32".
  const auto type_of = [](const Value& v) -> std::optional<tir::Type> {
    if (const auto* t = v.as<TypeValue>()) return t->type;
    if (const auto* s = v.as<std::string>()) return parse_type_text(*s);
    return std::nullopt;
  };
  if (lhs.as<TypeValue>() != nullptr || rhs.as<TypeValue>() != nullptr) {
    const auto a = type_of(lhs), b = type_of(rhs);
    return a && b && *a == *b;
  }
  const bool lists = lhs.as<ListValue>() != nullptr && rhs.as<ListValue>() != nullptr;
  const bool tuples = lhs.as<TupleValue>() != nullptr && rhs.as<TupleValue>() != nullptr;
  if (lists || tuples) {
    const ValueList &a = *lhs.elements(), &b = *rhs.elements();
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!values_equal(a[i], b[i], depth + 1)) return false;
    }
    return true;
  }
  if (const auto* a = lhs.as<tir::Expr>(), *b = rhs.as<tir::Expr>(); a != nullptr && b != nullptr) return *a == *b;
  return false;
}

std::optional<bool> Compiler::fold_compare(ast::CompareOp op, const Value& lhs, const Value& rhs, Position position) {
  using Op = ast::CompareOp;
  if (lhs.as<OpaqueValue>() != nullptr || rhs.as<OpaqueValue>() != nullptr) {
    const bool negated = op == Op::kIsNot || op == Op::kNotIn;
    const Op positive = op == Op::kIsNot ? Op::kIs : op == Op::kNotIn ? Op::kIn : op;
    if (const auto result = operate_host(compare_symbol(positive), {&lhs, &rhs}, position)) {
      if (is_host_environment(*environment_)) operate_host("bool", {&*result}, position);
      return truth(*result) != negated;
    }
  }
  if (op == Op::kIs || op == Op::kIsNot) {
    // `mask is None` is a compile-time question also when mask is a run-time value.
    bool same = values_equal(lhs, rhs);
    if (lhs.is_number() != rhs.is_number()) same = false;
    return same == (op == Op::kIs);
  }
  if (op == Op::kIn || op == Op::kNotIn) {
    if (is_run_time(lhs) || is_run_time(rhs)) return std::nullopt;
    bool found = false;
    if (const auto* type = rhs.as<TypeValue>()) {
      found =
          lhs.as<std::string>() != nullptr && type_text(type->type).find(*lhs.as<std::string>()) != std::string::npos;
    } else if (const auto* part = lhs.as<std::string>(), *whole = rhs.as<std::string>();
               part != nullptr && whole != nullptr) {
      found = whole->find(*part) != std::string::npos;
    } else {
      for (const Value& v : iterate(rhs, position)) found = found || values_equal(lhs, v);
    }
    return found == (op == Op::kIn);
  }
  if (is_run_time(lhs) || is_run_time(rhs)) {
    // A run-time value never equals None.
    if ((lhs.is_none() || rhs.is_none()) && (op == Op::kEq || op == Op::kNe)) return op == Op::kNe;
    return std::nullopt;
  }
  if (op == Op::kEq) return values_equal(lhs, rhs);
  if (op == Op::kNe) return !values_equal(lhs, rhs);
  const auto decide = [&](const auto& a, const auto& b) {
    switch (op) {
      case Op::kLt:
        return a < b;
      case Op::kLe:
        return a <= b;
      case Op::kGt:
        return a > b;
      default:
        return a >= b;
    }
  };
  if (lhs.integer() && rhs.integer()) return decide(*lhs.integer(), *rhs.integer());
  if (lhs.is_number() && rhs.is_number()) return decide(as_double(lhs), as_double(rhs));
  if (lhs.as<std::string>() != nullptr && rhs.as<std::string>() != nullptr)
    return decide(*lhs.as<std::string>(), *rhs.as<std::string>());
  fail(position, fmt::format("Values of kind \"{}\" and \"{}\" have no order.", kind_text(lhs), kind_text(rhs)));
}

std::optional<Value> Compiler::fold_binary(ast::BinaryOp op, const Value& lhs, const Value& rhs, Position position) {
  using Op = ast::BinaryOp;
  if (auto result = operate_host(binary_symbol(op), {&lhs, &rhs}, position)) return result;
  // A DataType is a string: dtype + "x8".
  if (const auto* type = lhs.as<TypeValue>(); type != nullptr && rhs.as<std::string>() != nullptr)
    return fold_binary(op, {type_text(type->type)}, rhs, position);
  if (const auto* type = rhs.as<TypeValue>(); type != nullptr && lhs.as<std::string>() != nullptr)
    return fold_binary(op, lhs, {type_text(type->type)}, position);
  const ValueList *a = lhs.elements(), *b = rhs.elements();
  if (a != nullptr || b != nullptr) {
    if (op == Op::kAdd && a != nullptr && b != nullptr && lhs.v.index() == rhs.v.index()) {
      ValueList joined = *a;
      joined.insert(joined.end(), b->begin(), b->end());
      step(position, joined.size());
      if (joined.size() > kMaxRepeated) fail(position, "The list is too long.");
      return lhs.as<ListValue>() != nullptr ? make_list(std::move(joined)) : make_tuple(std::move(joined));
    }
    const Value& count = a != nullptr ? rhs : lhs;
    if (op == Op::kMul && count.integer() && (a == nullptr || b == nullptr)) {
      const ValueList& items = a != nullptr ? *a : *b;
      ValueList repeated;
      const int64_t n = std::max<int64_t>(0, *count.integer());
      if (!items.empty() && n > static_cast<int64_t>(kMaxRepeated / items.size()))
        fail(position, "The list is too long.");
      step(position, static_cast<size_t>(n) * items.size());
      for (int64_t i = 0; i < n; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
      const bool list = (a != nullptr ? lhs : rhs).as<ListValue>() != nullptr;
      return list ? make_list(std::move(repeated)) : make_tuple(std::move(repeated));
    }
    fail(position,
         fmt::format("Values of kind \"{}\" and \"{}\" do not go with this operator.", kind_text(lhs), kind_text(rhs)));
  }
  if (const auto* s = lhs.as<std::string>(); s != nullptr && op == Op::kAdd && rhs.as<std::string>() != nullptr) {
    if (s->size() + rhs.as<std::string>()->size() > kMaxRepeated) fail(position, "The string is too long.");
    return Value{*s + *rhs.as<std::string>()};
  }
  if (const auto* s = lhs.as<std::string>(); s != nullptr && op == Op::kMul && rhs.integer()) {
    const int64_t n = std::max<int64_t>(0, *rhs.integer());
    if (!s->empty() && n > static_cast<int64_t>(kMaxRepeated / s->size())) fail(position, "The string is too long.");
    std::string text;
    step(position, static_cast<size_t>(n) * s->size() / 16);
    for (int64_t i = 0; i < n; ++i) text += *s;
    return Value{std::move(text)};
  }
  if (!lhs.is_number() || !rhs.is_number()) {
    if (is_run_time(lhs) || is_run_time(rhs)) return std::nullopt;
    fail(position,
         fmt::format("Values of kind \"{}\" and \"{}\" do not go with this operator.", kind_text(lhs), kind_text(rhs)));
  }
  const auto overflow = [&] { fail(position, "The compile-time integer does not fit 64 bits."); };
  if (lhs.integer() && rhs.integer()) {
    const int64_t x = *lhs.integer(), y = *rhs.integer();
    int64_t result = 0;
    switch (op) {
      case Op::kAdd:
        if (__builtin_add_overflow(x, y, &result)) overflow();
        return Value{result};
      case Op::kSub:
        if (__builtin_sub_overflow(x, y, &result)) overflow();
        return Value{result};
      case Op::kMul:
        if (__builtin_mul_overflow(x, y, &result)) overflow();
        return Value{result};
      case Op::kDiv:
        if (y == 0) fail(position, "division by zero");
        return Value{static_cast<double>(x) / static_cast<double>(y)};
      case Op::kFloorDiv:
      case Op::kMod:
        if (y == 0) fail(position, "integer division or modulo by zero");
        if (x == INT64_MIN && y == -1) {
          if (op == Op::kMod) return Value{int64_t{0}};
          overflow();
        }
        return Value{op == Op::kMod ? x - y * floor_div(x, y) : floor_div(x, y)};
      case Op::kPow: {
        if (y < 0) return Value{std::pow(static_cast<double>(x), static_cast<double>(y))};
        result = 1;
        if (x == 0 || x == 1 || x == -1) return Value{y == 0 ? int64_t{1} : x == -1 && y % 2 == 0 ? int64_t{1} : x};
        for (int64_t i = 0; i < y; ++i) {
          if (__builtin_mul_overflow(result, x, &result)) overflow();
        }
        return Value{result};
      }
      case Op::kShl:
        if (y < 0) fail(position, "negative shift count");
        if (x == 0) return Value{int64_t{0}};
        if (y >= 63 || (x << y) >> y != x) overflow();
        return Value{x << y};
      case Op::kShr:
        if (y < 0) fail(position, "negative shift count");
        return Value{x >> std::min<int64_t>(y, 63)};
      case Op::kBitAnd:
      case Op::kBitOr:
      case Op::kBitXor: {
        const int64_t bits = op == Op::kBitAnd ? (x & y) : op == Op::kBitOr ? (x | y) : (x ^ y);
        if (lhs.as<bool>() != nullptr && rhs.as<bool>() != nullptr) return Value{bits != 0};
        return Value{bits};
      }
      case Op::kMatMul:
        break;
    }
    fail(position, "The operator '@' is not supported.");
  }
  const double x = as_double(lhs), y = as_double(rhs);
  switch (op) {
    case Op::kAdd:
      return Value{x + y};
    case Op::kSub:
      return Value{x - y};
    case Op::kMul:
      return Value{x * y};
    case Op::kDiv:
      if (y == 0) fail(position, "division by zero");
      return Value{x / y};
    case Op::kFloorDiv:
      if (y == 0) fail(position, "division by zero");
      return Value{std::floor(x / y)};
    case Op::kMod: {
      if (y == 0) fail(position, "division by zero");
      double r = std::fmod(x, y);
      if (r != 0 && (r < 0) != (y < 0)) r += y;
      return Value{r};
    }
    case Op::kPow:
      return Value{std::pow(x, y)};
    default:
      fail(position, "This operator does not apply to floats.");
  }
}

}  // namespace aipu::dsl
