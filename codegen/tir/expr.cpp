#include "codegen/tir/expr.h"

#include <bit>
#include <cassert>
#include <cmath>

#include "runtime/base/half.h"

namespace aipu::tir {

std::string_view binary_op_symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSub:
      return "-";
    case BinaryOp::kMul:
      return "*";
    case BinaryOp::kDiv:
      return "/";
    case BinaryOp::kMod:
      return "%";
    case BinaryOp::kMin:
      return "min";
    case BinaryOp::kMax:
      return "max";
    case BinaryOp::kBitAnd:
      return "&";
    case BinaryOp::kBitOr:
      return "|";
    case BinaryOp::kBitXor:
      return "^";
    case BinaryOp::kShl:
      return "<<";
    case BinaryOp::kShr:
      return ">>";
    case BinaryOp::kAnd:
      return "&&";
    case BinaryOp::kOr:
      return "||";
    case BinaryOp::kEq:
      return "==";
    case BinaryOp::kNe:
      return "!=";
    case BinaryOp::kLt:
      return "<";
    case BinaryOp::kLe:
      return "<=";
    case BinaryOp::kGt:
      return ">";
    case BinaryOp::kGe:
      return ">=";
  }
  return "?";
}

Expr make_expr(Type type, decltype(ExprNode::node) node, SourceSpan span) {
  return std::make_shared<const ExprNode>(ExprNode{type, std::move(span), std::move(node)});
}

int64_t wrap_int(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value != 0;
  const int bits = dtype_bits(dtype);
  if (bits >= 64 || bits == 0) return value;
  const uint64_t low = static_cast<uint64_t>(value) << (64 - bits);
  return is_signed_int(dtype) ? static_cast<int64_t>(low) >> (64 - bits) : static_cast<int64_t>(low >> (64 - bits));
}

double round_float(double value, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kF16:
      return f32_from_f16(f16_from_f32(static_cast<float>(value)));
    case DType::kBF16:
      return f32_from_bf16(bf16_from_f32(static_cast<float>(value)));
    default:
      return value;
  }
}

Expr int_imm(int64_t value, DType dtype) {
  assert(is_integer(dtype) || is_bool(dtype));
  return make_expr(Type::scalar(dtype), IntImm{wrap_int(value, dtype)});
}

Expr float_imm(double value, DType dtype) {
  assert(is_floating(dtype));
  return make_expr(Type::scalar(dtype), FloatImm{round_float(value, dtype)});
}

Expr bool_imm(bool value) { return make_expr(Type::scalar(DType::kBool), IntImm{value}); }

Expr var_ref(const VarPtr& var) { return make_expr(var->type, VarRef{var}); }

Type binary_type(BinaryOp op, Type lhs) {
  return is_comparison(op) ? Type::vector(DType::kBool, lhs.pointer ? 1 : lhs.lanes) : lhs;
}

Expr binary(BinaryOp op, Expr lhs, Expr rhs, SourceSpan span) {
  assert(lhs->type.pointer || lhs->type == rhs->type);
  const Type type = binary_type(op, lhs->type);
  return make_expr(type, Binary{op, std::move(lhs), std::move(rhs)}, std::move(span));
}

Expr cast(Type type, Expr operand, SourceSpan span) {
  if (operand->type == type) return operand;
  assert(type.pointer || operand->type.pointer || type.lanes == operand->type.lanes);
  return make_expr(type, Cast{std::move(operand)}, std::move(span));
}

Expr broadcast(Expr scalar, int lanes) {
  assert(scalar->type.is_scalar());
  if (lanes == 1) return scalar;
  const Type type = scalar->type.with_lanes(lanes);
  SourceSpan span = scalar->span;
  return make_expr(type, Broadcast{std::move(scalar)}, std::move(span));
}

Expr load(Expr pointer, Expr index, SourceSpan span) {
  assert(pointer->type.pointer && is_signed_int(index->type.element));
  const Type type = pointer->type.pointee();
  return make_expr(type, Load{std::move(pointer), std::move(index)}, std::move(span));
}

std::optional<int64_t> as_int(const Expr& expr) {
  if (!expr) return std::nullopt;
  if (const auto* imm = expr->as<IntImm>()) return imm->value;
  return std::nullopt;
}

}  // namespace aipu::tir
