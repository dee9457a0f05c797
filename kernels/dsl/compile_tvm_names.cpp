// Names that users of TVM know from its script, with the meaning that they have there.
#include <fmt/format.h>

#include <limits>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {

// serial, parallel: a TEC runs all turns.
Value Compiler::s_serial(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "serial", {"start", "stop", "annotations"}, 1, position);
  const bool one = values[1].is_none();
  return make_iterable("range", {one ? Value{int64_t{0}} : values[0], one ? values[0] : values[1], Value{int64_t{1}}});
}

Value Compiler::s_thread_binding(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "thread_binding", {"start", "stop", "thread", "annotations"}, 1, position);
  const bool one = values[1].is_none() || values[1].as<std::string>() != nullptr;
  return make_iterable("tec_range",
                       {one ? Value{int64_t{0}} : values[0], one ? values[0] : values[1], Value{int64_t{1}}});
}

Value Compiler::s_if_then_else(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "if_then_else", {"cond", "t", "f", "span"}, 3, position);
  if (const std::optional<bool> known = truth(values[0])) return values[*known ? 1 : 2];
  const auto* test = values[0].as<tir::Expr>();
  if (test == nullptr || (*test)->type != tir::Type::scalar(DType::kBool))
    fail(position, "if_then_else only accept the condition to be boolean type.");
  const Matched m = match_operands(values[1], values[2], position);
  return {tir::make_expr(m.lhs->type, tir::Select{*test, m.lhs, m.rhs}, span(position))};
}

// Like if_then_else; a mask chooses lane by lane.
Value Compiler::s_select(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "Select", {"condition", "true_value", "false_value", "span"}, 3, position);
  if (const auto* mask = values[0].as<tir::Expr>(); mask != nullptr && (*mask)->type.is_mask())
    return call_intrinsic(*required_intrinsic("vsel", position), {values[1], values[2], values[0]}, {}, position);
  CallArguments same;
  same.positional = {values[0], values[1], values[2]};
  return s_if_then_else(same, position);
}

Value Compiler::s_truncdiv(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "truncdiv", {"a", "b", "span"}, 2, position);
  return integer_quotient(values[0], values[1], position).quotient;
}

Value Compiler::s_truncmod(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "truncmod", {"a", "b", "span"}, 2, position);
  return integer_quotient(values[0], values[1], position).remainder;
}

Value Compiler::s_floordiv(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "floordiv", {"a", "b", "span"}, 2, position);
  return floored(values[0], values[1], true, position);
}

Value Compiler::s_floormod(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "floormod", {"a", "b", "span"}, 2, position);
  return floored(values[0], values[1], false, position);
}

// Truncated toward zero; the remainder has the sign of the dividend.
Compiler::Division Compiler::integer_quotient(const Value& a, const Value& b, Position position) {
  if (a.integer() && b.integer()) {
    if (*b.integer() == 0) fail(position, "integer division or modulo by zero");
    if (*a.integer() == INT64_MIN && *b.integer() == -1)
      fail(position, "The compile-time integer does not fit 64 bits.");
    return {{*a.integer() / *b.integer()}, {*a.integer() % *b.integer()}};
  }
  return {binary(ast::BinaryOp::kFloorDiv, a, b, position), binary(ast::BinaryOp::kMod, a, b, position)};
}

// Toward minus infinity; the remainder has the sign of the divisor.
Value Compiler::floored(const Value& a, const Value& b, bool quotient, Position position) {
  const auto op = quotient ? ast::BinaryOp::kFloorDiv : ast::BinaryOp::kMod;
  if (a.integer() && b.integer()) return *fold_binary(op, a, b, position);
  const Matched m = match_operands(a, b, position);
  const Value x = materialize(Value{m.lhs}, "dividend", position), y = materialize(Value{m.rhs}, "divisor", position);
  const tir::Type type = m.lhs->type;
  const Division truncated = integer_quotient(x, y, position);
  if (!is_signed_int(type.element)) return quotient ? truncated.quotient : truncated.remainder;
  const Value rest = materialize(truncated.remainder, "rest", position);
  const auto zero = Value{convert({int64_t{0}}, type, position)};
  const auto below = [&](const Value& v) { return compare(ast::CompareOp::kLt, v, zero, position); };
  // One less where there is a rest of the other sign.
  const Value other_sign = binary(ast::BinaryOp::kBitXor, below(rest), below(y), position);
  const Value corrects =
      binary(ast::BinaryOp::kBitAnd, compare(ast::CompareOp::kNe, rest, zero, position), other_sign, position);
  const Value plain = quotient ? truncated.quotient : rest;
  const Value corrected = quotient ? binary(ast::BinaryOp::kSub, plain, {int64_t{1}}, position)
                                   : binary(ast::BinaryOp::kAdd, rest, y, position);
  CallArguments choice;
  choice.positional = {corrects, corrected, plain};
  return s_select(choice, position);
}

// The least and the greatest number of a type, as a constant of the type.
Value Compiler::extreme_number(std::string_view name, bool least, CallArguments& arguments, Position position) {
  const auto values = take(arguments, name, {"dtype", "span"}, 1, position);
  const DType dtype = type_argument(values[0], "dtype", position).element;
  if (is_floating(dtype)) {
    const double greatest = dtype == DType::kF16    ? 65504.0
                            : dtype == DType::kBF16 ? 0x1.fep+127
                            : dtype == DType::kF32  ? std::numeric_limits<float>::max()
                                                    : std::numeric_limits<double>::max();
    return {constant(least ? -greatest : greatest, dtype)};
  }
  if (!is_integer(dtype)) fail(position, fmt::format("S.{} expect the type of a number.", name));
  const int bits = dtype_bits(dtype);
  if (is_unsigned_int(dtype))
    return {constant(least || bits == 64 ? (least ? 0 : -1) : (int64_t{1} << bits) - 1, dtype)};
  const int64_t lowest = bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1));
  return {constant(least ? lowest : -(lowest + 1), dtype)};
}

Value Compiler::s_min_value(CallArguments& arguments, Position position) {
  return extreme_number("min_value", true, arguments, position);
}
Value Compiler::s_max_value(CallArguments& arguments, Position position) {
  return extreme_number("max_value", false, arguments, position);
}

Value Compiler::s_infinity(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "infinity", {"dtype", "span"}, 1, position);
  return cast_value({std::string("inf")}, type_argument(values[0], "dtype", position), position);
}

// Facts about the function for a compiler that is not this one.
Value Compiler::s_func_attr(CallArguments& arguments, Position position) {
  take(arguments, "func_attr", {"attrs"}, 1, position);
  return {NoneValue{}};
}

Value Compiler::s_evaluate(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "evaluate", {"value"}, 1, position);
  if (const auto* e = values[0].as<tir::Expr>(); e != nullptr && has_effects(*e)) emit(position, tir::Evaluate{*e});
  return {NoneValue{}};
}

Value Compiler::s_likely(CallArguments& arguments, Position position) {
  return take(arguments, "likely", {"cond", "span"}, 1, position)[0];
}

// No instruction stops a TEC with a message: what only the run knows is refused.
Value Compiler::s_assert(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "Assert", {"condition", "message"}, 1, position);
  const std::optional<bool> known = truth(values[0]);
  if (!known) fail(position, "The condition of S.Assert must be known when the kernel is compiled.");
  if (!*known) {
    const auto* message = values[1].as<std::string>();
    fail(position, message != nullptr ? fmt::format("Assertion failed: {}", *message) : "Assertion failed.");
  }
  return {NoneValue{}};
}

// A value computed here, under a name of its own.
Value Compiler::s_let(CallArguments& arguments, Position position) {
  return materialize(take(arguments, "let", {"value"}, 1, position)[0], "let", position);
}

}  // namespace aipu::dsl
