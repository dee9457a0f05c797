// Private to the text form: what printer and parser agree on.
#pragma once

#include "codegen/tir/visit.h"

namespace aipu::tir {

// The type that the text form leaves out because it follows from the node; nodes of another type are printed as "(type
// T : ...)".
inline Type implied_type(const ExprNode& expr) {
  const auto type_of = [](const Expr& e) { return e ? e->type : Type::void_type(); };
  return std::visit(
      Overloaded{
          [&](const IntImm& n) {
            const bool fits = expr.type.is_scalar() && (is_integer(expr.type.element) || is_bool(expr.type.element)) &&
                              wrap_int(n.value, expr.type.element) == n.value;
            return fits ? expr.type : Type::scalar(DType::kI64);
          },
          [&](const FloatImm&) {
            return expr.type.is_scalar() && is_floating(expr.type.element) ? expr.type : Type::scalar(DType::kF64);
          },
          [&](const StringImm&) { return Type::scalar(DType::kString); },
          [&](const VarRef& n) { return n.var->type; },
          [&](const Unary& n) { return type_of(n.operand); },
          [&](const Binary& n) { return binary_type(n.op, type_of(n.lhs)); },
          [&](const Select& n) { return type_of(n.if_true); },
          [&](const Cast&) { return expr.type; },
          [&](const Broadcast& n) { return type_of(n.scalar).with_lanes(expr.type.lanes); },
          [&](const VectorLiteral& n) {
            return n.lanes.empty() ? Type::void_type()
                                   : type_of(n.lanes.front()).with_lanes(static_cast<int>(n.lanes.size()));
          },
          [&](const Load& n) { return type_of(n.pointer).pointee(); },
          [&](const AddressOf& n) { return Type::pointer_to(n.var->type.element, n.var->type.lanes, Scope::kPrivate); },
          [&](const LaneRead& n) { return type_of(n.vector).with_lanes(1); },
          [&](const IntrinsicCall&) { return expr.type; },
          [&](const FunctionCall&) { return expr.type; },
      },
      expr.node);
}

constexpr std::string_view kForKindNames[] = {"serial", "tec", "vectorized", "unrolled"};
constexpr std::string_view kInlineHintNames[] = {"", "inline", "noinline"};

// Deeper text is refused by the parser.
constexpr int kMaxTextDepth = 1000;

}  // namespace aipu::tir
