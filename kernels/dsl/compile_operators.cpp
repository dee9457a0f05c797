// Operators over run-time values: operand matching, conversion, the checks of language.md 6.
#include <fmt/format.h>

#include <cmath>

#include "kernels/dsl/call_rules.h"
#include "kernels/dsl/compiler.h"
#include "kernels/dsl/host_environment.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

bool is_half(DType d) { return d == DType::kF16 || d == DType::kBF16; }

OperandType operand_type(const Value& value) {
  if (const auto* e = value.as<tir::Expr>()) return (*e)->type.element;
  if (value.as<bool>() != nullptr) return DType::kBool;
  if (const auto* i = value.as<int64_t>()) return *i;
  return *value.as<double>();
}

std::string_view symbol(ast::BinaryOp op) {
  switch (op) {
    case ast::BinaryOp::kAdd:
      return "+";
    case ast::BinaryOp::kSub:
      return "-";
    case ast::BinaryOp::kMul:
      return "*";
    case ast::BinaryOp::kDiv:
      return "/";
    case ast::BinaryOp::kFloorDiv:
      return "//";
    case ast::BinaryOp::kMod:
      return "%";
    case ast::BinaryOp::kPow:
      return "**";
    case ast::BinaryOp::kShl:
      return "<<";
    case ast::BinaryOp::kShr:
      return ">>";
    case ast::BinaryOp::kBitAnd:
      return "&";
    case ast::BinaryOp::kBitOr:
      return "|";
    case ast::BinaryOp::kBitXor:
      return "^";
    case ast::BinaryOp::kMatMul:
      return "@";
  }
  return "?";
}

}  // namespace

bool Compiler::is_float_operand(const Value& value) {
  if (value.as<double>() != nullptr) return true;
  const auto* e = value.as<tir::Expr>();
  return e != nullptr && !(*e)->type.pointer && is_floating((*e)->type.element);
}

tir::Expr Compiler::constant(double value, DType dtype) { return tir::float_imm(value, dtype); }
tir::Expr Compiler::constant(int64_t value, DType dtype) {
  if (is_floating(dtype)) return tir::float_imm(static_cast<double>(value), dtype);
  return tir::int_imm(dtype == DType::kBool ? value != 0 : value, dtype);
}

tir::Expr Compiler::to_expr(const Value& value, Position position) {
  if (const auto* e = value.as<tir::Expr>()) return *e;
  if (const auto* b = value.as<bool>()) return tir::bool_imm(*b);
  if (const auto* i = value.as<int64_t>()) return constant(*i, literal_dtype(*i));
  if (const auto* d = value.as<double>()) return constant(*d, DType::kF32);
  if (const auto* buffer = value.as<BufferValue>()) return buffer->buffer->pointer;
  if (const auto* meta = value.as<MetaValue>()) return to_expr(*meta->value, position);
  refuse_numpy_scalar(value, position);
  fail(position, fmt::format("A value of kind \"{}\" can't be used as a run-time value.", kind_text(value)));
}

// An array without dimensions is a NumPy number.
void Compiler::refuse_numpy_scalar(const Value& value, Position position) {
  if (const auto* array = value.as<ArrayValue>(); array != nullptr && array->array->shape.empty())
    fail(position, "The scalar literal only can be represented by instance of Python built-in type");
}

// Of an operation that yields a scalar. Beside a vector a bfloat16 scalar is broadcast.
void Compiler::refuse_bf16_scalars(std::initializer_list<Value> operands, Position position) {
  for (const Value& operand : operands) {
    const auto* e = operand.as<tir::Expr>();
    if (e != nullptr && (*e)->type == tir::Type::scalar(DType::kBF16)) {
      fail(position, kNoBf16Scalars);
    }
  }
}

// A scalar of element type `dtype`; Python numbers keep their full precision on the way.
tir::Expr Compiler::convert_element(const Value& value, DType dtype, Position position) {
  if (const auto* d = value.as<double>()) {
    if (is_floating(dtype)) return constant(*d, dtype);
    // float to int as intrinsics.md 7.1: NaN is 0, clamp, truncate, wrap.
    if (dtype == DType::kBool) return tir::bool_imm(*d != 0);
    const double limit = dtype_bits(dtype) == 64 ? 9223372036854774784.0 : 2147483647.0;
    const double low = dtype_bits(dtype) == 64 ? -9223372036854775808.0 : -2147483648.0;
    return constant(std::isnan(*d) ? int64_t{0} : static_cast<int64_t>(std::trunc(std::min(std::max(*d, low), limit))),
                    dtype);
  }
  if (const auto i = value.integer()) return constant(*i, dtype);
  tir::Expr e = to_expr(value, position);
  if (e->type.element == dtype) return e;
  if (const auto* imm = e->as<tir::IntImm>(); imm != nullptr && is_integer(dtype) && e->type.element != DType::kBool)
    return constant(imm->value, dtype);
  if (const auto* imm = e->as<tir::FloatImm>(); imm != nullptr && is_floating(dtype))
    return constant(imm->value, dtype);
  return tir::cast(e->type.with_element(dtype), e, span(position));
}

tir::Expr Compiler::convert(const Value& value, tir::Type type, Position position) {
  tir::Expr e = convert_element(value, type.element, position);
  if (e->type.lanes == type.lanes) return e;
  if (!e->type.is_scalar())
    fail(position,
         fmt::format("The lanes of \"{}\" do not match those of \"{}\".", type_text(e->type), type_text(type)));
  return tir::broadcast(e, type.lanes);
}

Compiler::Matched Compiler::match_operands(const Value& lhs, const Value& rhs, Position position) {
  for (const Value* v : {&lhs, &rhs}) {
    if (v->is_number()) continue;
    if (v->as<BufferValue>() != nullptr) fail(position, "Unexpect pointer as argument, please index the buffer.");
    refuse_numpy_scalar(*v, position);
    if (!v->is_expr()) fail(position, fmt::format("A value of kind \"{}\" can't be an operand here.", kind_text(*v)));
    const tir::Type& type = (*v->as<tir::Expr>())->type;
    if (type.pointer) fail(position, fmt::format("Unexpect \"{}\" pointer as argument.", type_text(type)));
    if (type.is_void()) fail(position, "The operand yields no value.");
  }
  const DType element = binary_result_dtype(operand_type(lhs), operand_type(rhs));
  // A float literal next to float64 is exact.
  tir::Expr l = convert_element(lhs, element, position), r = convert_element(rhs, element, position);
  if (l->type.lanes != r->type.lanes) {
    if (l->type.is_vector() && r->type.is_vector()) {
      fail(position, fmt::format("Argument type mismatch: 0-th: \"{}\" vs. 1-th: \"{}\".", type_text(l->type),
                                 type_text(r->type)));
    }
    const int lanes = std::max(l->type.lanes, r->type.lanes);
    l = l->type.lanes == 1 ? tir::broadcast(l, lanes) : l;
    r = r->type.lanes == 1 ? tir::broadcast(r, lanes) : r;
  }
  return {std::move(l), std::move(r)};
}

Value Compiler::pointer_arithmetic(ast::BinaryOp op, const Value& lhs, const Value& rhs, Position position) {
  const auto is_pointer = [](const Value& v) {
    return v.as<BufferValue>() != nullptr || (v.is_expr() && (*v.as<tir::Expr>())->type.pointer);
  };
  const bool left = is_pointer(lhs);
  const Value& offset = left ? rhs : lhs;
  if (op != ast::BinaryOp::kAdd && !(op == ast::BinaryOp::kSub && left)) {
    fail(position, fmt::format("A pointer can't be an operand of '{}'.", symbol(op)));
  }
  if (is_pointer(offset)) fail(position, "Two pointers can't be added or subtracted.");
  const tir::Expr pointer = to_expr(left ? lhs : rhs, position);
  if (pointer->type.element == DType::kVoid) fail(position, "The void pointer can't be moved.");
  if (const auto i = offset.integer(); i && *i == 0) return {pointer};
  const tir::Expr moved = index_expr(offset, position);
  return {tir::make_expr(
      pointer->type, tir::Binary{op == ast::BinaryOp::kAdd ? tir::BinaryOp::kAdd : tir::BinaryOp::kSub, pointer, moved},
      span(position))};
}

Value Compiler::shift(ast::BinaryOp op, const Value& lhs, const Value& rhs, Position position) {
  tir::Expr l = to_expr(lhs, position);
  const auto integer = [&](const tir::Expr& e) { return !e->type.pointer && is_integer(e->type.element); };
  if (!integer(l) || (rhs.is_expr() && !integer(*rhs.as<tir::Expr>())) || rhs.as<double>() != nullptr) {
    fail(position, fmt::format("The operands of '{}' must be integers.", symbol(op)));
  }
  if (const auto count = rhs.integer();
      count && l->type.is_scalar() && l->type.element == DType::kI32 && (*count < 0 || *count >= 32)) {
    fail(position, "Shift amount must be non-negative and less than 32");
  }
  tir::Expr r = convert_element(rhs, l->type.element, position);
  if (l->type.lanes != r->type.lanes) {
    if (l->type.is_vector() && r->type.is_vector()) {
      fail(position, fmt::format("Argument type mismatch: 0-th: \"{}\" vs. 1-th: \"{}\".", type_text(l->type),
                                 type_text(r->type)));
    }
    if (l->type.is_scalar())
      l = tir::broadcast(l, r->type.lanes);
    else
      r = tir::broadcast(r, l->type.lanes);
  }
  return {tir::binary(op == ast::BinaryOp::kShl ? tir::BinaryOp::kShl : tir::BinaryOp::kShr, l, r, span(position))};
}

Value Compiler::binary(ast::BinaryOp op, const Value& lhs, const Value& rhs, Position position) {
  using Op = ast::BinaryOp;
  if (auto folded = fold_binary(op, lhs, rhs, position)) return std::move(*folded);
  const auto is_pointer = [](const Value& v) {
    return v.as<BufferValue>() != nullptr || (v.is_expr() && (*v.as<tir::Expr>())->type.pointer);
  };
  if (op == Op::kMatMul) fail(position, "The operator '@' is not supported.");
  if (is_pointer(lhs) || is_pointer(rhs)) return pointer_arithmetic(op, lhs, rhs, position);
  if (op == Op::kShl || op == Op::kShr) return shift(op, lhs, rhs, position);
  if (op == Op::kPow) {
    if (!is_float_operand(lhs) && !is_float_operand(rhs)) fail(position, "power only applies to floating");
    return power(lhs, rhs, position);
  }
  Matched m = match_operands(lhs, rhs, position);
  const tir::Type type = m.lhs->type;
  if (type.is_scalar()) refuse_bf16_scalars({lhs, rhs, {m.lhs}}, position);
  const DType element = type.element;
  const bool bitwise = op == Op::kBitAnd || op == Op::kBitOr || op == Op::kBitXor;
  if (element == DType::kBool && !bitwise) {
    if (type.is_vector())
      fail(position, fmt::format("The operator '{}' does not support boolean vectors.", symbol(op)));
    m.lhs = convert_element({m.lhs}, DType::kI32, position);
    m.rhs = convert_element({m.rhs}, DType::kI32, position);
  }
  tir::BinaryOp code = tir::BinaryOp::kAdd;
  switch (op) {
    case Op::kAdd:
      code = tir::BinaryOp::kAdd;
      break;
    case Op::kSub:
      code = tir::BinaryOp::kSub;
      break;
    case Op::kMul:
      if (type.is_vector() && dtype_bits(element) == 8) fail(position, "The 8bit equal-width multiply is meaningless.");
      code = tir::BinaryOp::kMul;
      break;
    case Op::kDiv:
      if (type.is_vector() && is_half(element))
        fail(position, "The operand of '/' does not support float16/bfloat16 vector.");
      code = tir::BinaryOp::kDiv;
      break;
    case Op::kFloorDiv:
    case Op::kMod:
      if (is_floating(element)) fail(position, fmt::format("The operands of '{}' must be integers.", symbol(op)));
      code = op == Op::kMod ? tir::BinaryOp::kMod : tir::BinaryOp::kDiv;
      break;
    default:
      if (is_floating(element))
        fail(position, fmt::format("The operands of '{}' must be integers or booleans.", symbol(op)));
      code = op == Op::kBitAnd  ? tir::BinaryOp::kBitAnd
             : op == Op::kBitOr ? tir::BinaryOp::kBitOr
                                : tir::BinaryOp::kBitXor;
  }
  if (auto folded = fold_identity(code, m)) return {std::move(*folded)};
  return {tir::binary(code, m.lhs, m.rhs, span(position))};
}

// x + 0, x * 1 and the like, over integer scalars: what unrolled code is full of.
std::optional<tir::Expr> Compiler::fold_identity(tir::BinaryOp op, const Matched& m) {
  if (!m.lhs->type.is_scalar() || !is_integer(m.lhs->type.element)) return std::nullopt;
  const auto l = tir::as_int(m.lhs), r = tir::as_int(m.rhs);
  switch (op) {
    case tir::BinaryOp::kAdd:
      if (r && *r == 0) return m.lhs;
      if (l && *l == 0) return m.rhs;
      break;
    case tir::BinaryOp::kSub:
      if (r && *r == 0) return m.lhs;
      break;
    case tir::BinaryOp::kMul:
      if (r && *r == 1) return m.lhs;
      if (l && *l == 1) return m.rhs;
      if (r && *r == 0 && !reads_memory(m.lhs)) return m.rhs;
      if (l && *l == 0 && !reads_memory(m.rhs)) return m.lhs;
      break;
    case tir::BinaryOp::kDiv:
      if (r && *r == 1) return m.lhs;
      break;
    default:
      break;
  }
  return std::nullopt;
}

Value Compiler::compare(ast::CompareOp op, const Value& lhs, const Value& rhs, Position position) {
  using Op = ast::CompareOp;
  const bool records = lhs.as<RecordValue>() != nullptr || rhs.as<RecordValue>() != nullptr;
  if (records && !lhs.is_none() && !rhs.is_none()) fail(position, "Records can't be compared; compare their fields.");
  if (op < Op::kIs && is_host_environment(*environment_)) {  // its objects may compare to another one
    if (auto result = operate_host(compare_symbol(op), {&lhs, &rhs}, position)) return std::move(*result);
  }
  if (const auto folded = fold_compare(op, lhs, rhs, position)) return {*folded};
  if (op == Op::kIs || op == Op::kIsNot || op == Op::kIn || op == Op::kNotIn) {
    fail(position, "The operators 'is' and 'in' only apply to compile-time values.");
  }
  tir::BinaryOp code = tir::BinaryOp::kEq;
  switch (op) {
    case Op::kEq:
      code = tir::BinaryOp::kEq;
      break;
    case Op::kNe:
      code = tir::BinaryOp::kNe;
      break;
    case Op::kLt:
      code = tir::BinaryOp::kLt;
      break;
    case Op::kLe:
      code = tir::BinaryOp::kLe;
      break;
    case Op::kGt:
      code = tir::BinaryOp::kGt;
      break;
    default:
      code = tir::BinaryOp::kGe;
      break;
  }
  const auto is_pointer = [](const Value& v) {
    return v.as<BufferValue>() != nullptr || (v.is_expr() && (*v.as<tir::Expr>())->type.pointer);
  };
  if (is_pointer(lhs) && is_pointer(rhs)) {
    const tir::Expr l = to_expr(lhs, position), r = to_expr(rhs, position);
    return {tir::make_expr(tir::Type::scalar(DType::kBool), tir::Binary{code, l, tir::cast(l->type, r, span(position))},
                           span(position))};
  }
  const bool both_typed = lhs.is_expr() && rhs.is_expr();
  if (both_typed) {
    const tir::Type &l = (*lhs.as<tir::Expr>())->type, &r = (*rhs.as<tir::Expr>())->type;
    if (!l.pointer && !r.pointer && l.element != DType::kBool && r.element != DType::kBool &&
        unsafe_comparison(l.element, r.element)) {
      fail(position,
           fmt::format(
               "Unsafe unsigned and signed comparison, \"{}\" vs. \"{}\", please do the type conversion explicitly.",
               type_text(l), type_text(r)));
    }
  }
  const Matched m = match_operands(lhs, rhs, position);
  refuse_bf16_scalars({{m.lhs}}, position);
  if (!both_typed) {
    // A literal that did not fit its neighbour's type counts as int32.
    const Value& typed = lhs.is_expr() ? lhs : rhs;
    const Value& literal = lhs.is_expr() ? rhs : lhs;
    const DType t = (*typed.as<tir::Expr>())->type.element;
    if (const auto i = literal.integer();
        i && is_integer(t) && !fits(*i, t) && unsafe_comparison(t, literal_dtype(*i))) {
      const tir::Type typed_type = (*typed.as<tir::Expr>())->type, literal_type = tir::Type::scalar(literal_dtype(*i));
      fail(position,
           fmt::format(
               "Unsafe unsigned and signed comparison, \"{}\" vs. \"{}\", please do the type conversion explicitly.",
               type_text(lhs.is_expr() ? typed_type : literal_type),
               type_text(lhs.is_expr() ? literal_type : typed_type)));
    }
  }
  if (m.lhs->type.is_mask()) {
    if (op != Op::kEq && op != Op::kNe) fail(position, "Masks have no order.");
    const tir::Expr differs = tir::binary(tir::BinaryOp::kBitXor, m.lhs, m.rhs, span(position));
    if (op == Op::kNe) return {differs};
    return {tir::make_expr(differs->type, tir::Unary{tir::UnaryOp::kBitNot, differs}, span(position))};
  }
  return {tir::binary(code, m.lhs, m.rhs, span(position))};
}

Value Compiler::unary(ast::UnaryOp op, const Value& operand, Position position) {
  using Op = ast::UnaryOp;
  if (op == Op::kNot) {
    const auto test = condition(operand, position);
    if (const bool* known = std::get_if<bool>(&test)) return {!*known};
    return {tir::make_expr(tir::Type::scalar(DType::kBool), tir::Unary{tir::UnaryOp::kNot, std::get<tir::Expr>(test)},
                           span(position))};
  }
  if (const auto* d = operand.as<double>()) {
    if (op == Op::kNegate) return {-*d};
    if (op == Op::kPlus) return operand;
    fail(position, "The operand of '~' must be an integer or a boolean.");
  }
  if (const auto i = operand.integer()) {
    if (op == Op::kPlus) return {*i};
    if (op == Op::kInvert) return {~*i};
    if (*i == INT64_MIN) fail(position, "integer does not fit 64 bits");
    return {-*i};
  }
  if (is_host_environment(*environment_)) {
    constexpr std::string_view kNames[] = {"negative", "positive", "~"};
    if (auto result = operate_host(kNames[static_cast<size_t>(op)], {&operand}, position)) return std::move(*result);
  }
  if (!operand.is_expr())
    fail(position, fmt::format("A value of kind \"{}\" can't be an operand here.", kind_text(operand)));
  const tir::Expr e = *operand.as<tir::Expr>();
  if (e->type.pointer) fail(position, fmt::format("Unexpect \"{}\" pointer as argument.", type_text(e->type)));
  refuse_bf16_scalars({operand}, position);
  if (op == Op::kPlus) return operand;
  if (op == Op::kNegate) return binary(ast::BinaryOp::kMul, operand, {int64_t{-1}}, position);
  if (is_floating(e->type.element)) fail(position, "The operand of '~' must be an integer or a boolean.");
  return {tir::make_expr(e->type, tir::Unary{tir::UnaryOp::kBitNot, e}, span(position))};
}

}  // namespace aipu::dsl
