#include "frontend/python/eager_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/intrinsics/lane_types.h"
#include "kernels/dsl/call_rules.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::python {

using tir::Expr;
using tir::LaneRef;
using tir::LaneValue;
using tir::Type;

namespace {

template <typename T>
const T* lanes_of(const LaneRef& ref) {
  return reinterpret_cast<const T*>(ref.data);
}
template <typename T>
T* lanes_of(LaneValue& value) {
  return reinterpret_cast<T*>(value.bytes.data());
}

// Lanes of `from` as `to.element`; a scalar is broadcast.
Status convert_lanes(const LaneRef& from, LaneValue& to) {
  const int lanes = to.type.lanes;
  if (from.type.lanes != 1 && from.type.lanes != lanes) {
    return invalid_argument(
        fmt::format("Argument type mismatch: 0-th: \"{}\" vs. 1-th: \"{}\".", from.type.text(), to.type.text()));
  }
  tir::with_lane_type(to.type.element, [&]<typename To>(To) {
    To* out = lanes_of<To>(to);
    tir::with_lane_type(from.type.element, [&]<typename From>(From) {
      const From* in = lanes_of<From>(from);
      if constexpr (std::is_same_v<To, From>) {
        for (int i = 0; i < lanes; ++i) out[i] = in[from.type.lanes == 1 ? 0 : i];
      } else {
        for (int i = 0; i < lanes; ++i)
          out[i] = tir::convert_lane<To>(tir::to_compute(in[from.type.lanes == 1 ? 0 : i]));
      }
    });
  });
  return {};
}

void set_number(LaneValue& value, const EagerOperand& literal) {
  for (int i = 0; i < value.type.lanes; ++i) {
    if (const auto* b = std::get_if<bool>(&literal.literal)) {
      value.set_int(i, *b);
    } else if (const auto* n = std::get_if<int64_t>(&literal.literal)) {
      value.set_int(i, *n);
    } else if (const auto* d = std::get_if<double>(&literal.literal)) {
      value.set_float(i, *d);
    }
  }
}

bool is_number(const EagerOperand& x) { return x.literal.index() >= 1 && x.literal.index() <= 3; }

}  // namespace

Result<Expr> EagerCall::expr_of(const EagerOperand& operand) {
  if (const auto* b = std::get_if<bool>(&operand.literal)) return tir::bool_imm(*b);
  if (const auto* i = std::get_if<int64_t>(&operand.literal)) return tir::int_imm(*i, dsl::literal_dtype(*i));
  if (const auto* d = std::get_if<double>(&operand.literal)) return tir::float_imm(*d, DType::kF32);
  if (const auto* s = std::get_if<std::string>(&operand.literal)) {
    return tir::make_expr(Type::scalar(DType::kString), tir::StringImm{*s});
  }
  if (!operand.is_typed()) return Expr();
  LaneRef ref{operand.type, const_cast<std::byte*>(operand.lanes)};
  if (operand.type.pointer) {
    tir::Pointer pointer;
    pointer.offset = operand.memory.offset;
    if (operand.memory.data != nullptr) {
      pointer.region = static_cast<uint32_t>(memories_.size());
      memories_.push_back(operand.memory);
    }
    LaneValue& held = temporaries_.emplace_back(operand.type);
    held.ref().set(0, pointer);
    ref = held.ref();
  }
  variables_.emplace_back(std::make_shared<const tir::Var>(tir::Var{{}, operand.type}), ref);
  return tir::var_ref(variables_.back().first);
}

Status EagerCall::add(const EagerOperand& operand) {
  AIPU_ASSIGN_OR_RETURN(Expr e, expr_of(operand));
  operands_.push_back(std::move(e));
  is_literal_.push_back(is_number(operand));
  return {};
}

void EagerCall::set_mask(const EagerOperand& mask) {
  variables_.emplace_back(std::make_shared<const tir::Var>(tir::Var{{}, mask.type}),
                          LaneRef{mask.type, const_cast<std::byte*>(mask.lanes)});
  mask_ = tir::var_ref(variables_.back().first);
}

void EagerCall::set_mask_bits(const std::vector<bool>& bits) {
  std::vector<Expr> lanes;
  lanes.reserve(bits.size());
  for (const bool bit : bits) lanes.push_back(tir::bool_imm(bit));
  mask_ =
      tir::make_expr(Type::vector(DType::kBool, static_cast<int>(bits.size())), tir::VectorLiteral{std::move(lanes)});
}

Status EagerCall::set_pass_through(const EagerOperand& value) {
  AIPU_ASSIGN_OR_RETURN(pass_through_, expr_of(value));
  return {};
}

Result<Type> EagerCall::infer() {
  while (!operands_.empty() && operands_.back() == nullptr) {
    operands_.pop_back();
    is_literal_.pop_back();
  }
  AIPU_RETURN_IF_ERROR(dsl::check_bf16_scalars(row_, operands_));
  std::sort(attributes_.begin(), attributes_.end());
  tir::InferInput input{&operands_, is_literal_, &mask_, &pass_through_, &attributes_};
  AIPU_ASSIGN_OR_RETURN(result_, row_.infer(input));
  return result_;
}

Result<LaneRef> EagerCall::evaluate(const Expr& e) {
  if (const auto* v = e->as<tir::VarRef>()) {
    for (const auto& [var, ref] : variables_) {
      if (var == v->var) return ref;
    }
  }
  LaneValue& out = temporaries_.emplace_back(e->type);
  if (const auto* number = e->as<tir::IntImm>()) {
    out.set_int(0, number->value);
  } else if (const auto* f = e->as<tir::FloatImm>()) {
    out.set_float(0, f->value);
  } else if (e->as<tir::StringImm>()) {
    // The row reads the text from the call.
  } else if (const auto* c = e->as<tir::Cast>()) {
    AIPU_ASSIGN_OR_RETURN(const LaneRef from, evaluate(c->operand));
    if (e->type.pointer)
      out.ref().set(0, from.get<tir::Pointer>());
    else
      AIPU_RETURN_IF_ERROR(convert_lanes(from, out));
  } else if (const auto* b = e->as<tir::Broadcast>()) {
    AIPU_ASSIGN_OR_RETURN(const LaneRef from, evaluate(b->scalar));
    AIPU_RETURN_IF_ERROR(convert_lanes(from, out));
  } else if (const auto* l = e->as<tir::VectorLiteral>()) {
    const auto bytes = static_cast<int64_t>(dtype_bytes(e->type.element));
    for (size_t i = 0; i < l->lanes.size(); ++i) {
      AIPU_ASSIGN_OR_RETURN(const LaneRef lane, evaluate(l->lanes[i]));
      std::memcpy(out.bytes.data() + static_cast<int64_t>(i) * bytes, lane.data, static_cast<size_t>(bytes));
    }
  } else if (const auto* m = e->as<tir::Binary>(); m && m->op == tir::BinaryOp::kMul && is_integer(e->type.element)) {
    AIPU_ASSIGN_OR_RETURN(const LaneRef x, evaluate(m->lhs));
    AIPU_ASSIGN_OR_RETURN(const LaneRef y, evaluate(m->rhs));
    out.set_int(0, tir::read_int_lane(x.type, x.data, 0) * tir::read_int_lane(y.type, y.data, 0));
  } else {
    return internal_error(fmt::format("S.{}: the type rule made an operand that eager calls don't know", row_.name));
  }
  return out.ref();
}

Status EagerCall::run(std::byte* result, UndefinedLanes undefined, std::string_view filler) {
  const auto bytes = static_cast<size_t>(result_.is_void() ? 0 : tir::value_bytes(result_));
  if (bytes != 0) std::memset(result, 0, bytes);
  std::vector<LaneRef> refs;
  refs.reserve(operands_.size());
  for (const Expr& e : operands_) {
    if (e == nullptr) return internal_error(fmt::format("S.{}: an operand is missing", row_.name));
    AIPU_ASSIGN_OR_RETURN(const LaneRef ref, evaluate(e));
    refs.push_back(ref);
  }
  LaneRef mask, pass_through;
  if (mask_) {
    AIPU_ASSIGN_OR_RETURN(mask, evaluate(mask_));
  }
  if (pass_through_) {
    AIPU_ASSIGN_OR_RETURN(pass_through, evaluate(pass_through_));
  }
  const tir::IntrinsicCall call{&row_, operands_, mask_, pass_through_, attributes_};
  AIPU_RETURN_IF_ERROR(row_.run({call,
                                 {result_, bytes == 0 ? nullptr : result},
                                 refs,
                                 mask_ ? &mask : nullptr,
                                 pass_through_ ? &pass_through : nullptr,
                                 this}));
  if (undefined == UndefinedLanes::kNone || filler.empty() || result_.pointer) return {};
  const size_t lane_bytes = dtype_bytes(result_.element);
  for (int i = 0; i < result_.lanes; ++i) {
    const bool keep = undefined == UndefinedLanes::kMaskedOff     ? !mask_ || mask.data[i] != std::byte{0}
                      : undefined == UndefinedLanes::kAllButFirst ? i == 0
                      : undefined == UndefinedLanes::kOdd         ? i % 2 == 0
                                                                  : i < 2;
    const size_t first = static_cast<size_t>(i) * lane_bytes;
    for (size_t k = 0; k < lane_bytes && !keep; ++k)
      result[first + k] = static_cast<std::byte>(filler[(first + k) % filler.size()]);
  }
  return {};
}

std::byte* EagerCall::access(tir::Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) {
  if (pointer.region == 0 || pointer.region >= memories_.size()) return nullptr;
  const EagerMemory& memory = memories_[pointer.region];
  int64_t offset;
  if (__builtin_add_overflow(pointer.offset, byte_offset, &offset) || offset < 0 || bytes < 0 || bytes > memory.bytes ||
      offset > memory.bytes - bytes || (write && !memory.writable)) {
    return nullptr;
  }
  return memory.data + offset;
}

Status EagerCall::access_error(tir::Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) const {
  if (pointer.region == 0) return out_of_range(fmt::format("S.{}: the null pointer is accessed.", row_.name));
  const EagerMemory& memory = memories_[pointer.region];
  if (write && !memory.writable) return out_of_range(fmt::format("S.{}: read-only memory is written.", row_.name));
  return out_of_range(fmt::format("Out of bounds. S.{} {} {} bytes at byte {} of {}.", row_.name,
                                  write ? "writes" : "reads", bytes, pointer.offset + byte_offset, memory.bytes));
}

uint64_t EagerCall::address_of(tir::Pointer pointer) {
  return pointer.region == 0
             ? 0
             : reinterpret_cast<uintptr_t>(memories_[pointer.region].data) + static_cast<uint64_t>(pointer.offset);
}

// ---- operators ----

namespace {

dsl::OperandType matched_as(const EagerOperand& x) {
  if (std::holds_alternative<bool>(x.literal)) return DType::kBool;
  if (const auto* i = std::get_if<int64_t>(&x.literal)) return *i;
  if (const auto* d = std::get_if<double>(&x.literal)) return *d;
  return x.type.element;
}

bool is_shift(tir::BinaryOp op) { return op == tir::BinaryOp::kShl || op == tir::BinaryOp::kShr; }
bool is_half(DType d) { return d == DType::kF16 || d == DType::kBF16; }
bool is_bitwise(tir::BinaryOp op) {
  return op == tir::BinaryOp::kBitAnd || op == tir::BinaryOp::kBitOr || op == tir::BinaryOp::kBitXor;
}

Status check_bf16_scalar(Type type) {
  if (type != Type::scalar(DType::kBF16)) return {};
  return invalid_argument(std::string(dsl::kNoBf16Scalars));
}

// What the operator refuses on operands of this type.
Status check_operator(tir::BinaryOp op, Type type) {
  const DType element = type.element;
  const auto symbol = tir::binary_op_symbol(op);
  AIPU_RETURN_IF_ERROR(check_bf16_scalar(type));
  if (is_bool(element) && !is_bitwise(op) && op != tir::BinaryOp::kEq && op != tir::BinaryOp::kNe) {
    return invalid_argument(fmt::format("The operator '{}' does not support boolean vectors.", symbol));
  }
  if (op == tir::BinaryOp::kMul && type.is_vector() && dtype_bits(element) == 8) {
    return invalid_argument("The 8bit equal-width multiply is meaningless.");
  }
  if (op == tir::BinaryOp::kDiv && type.is_vector() && is_half(element)) {
    return invalid_argument("The operand of '/' does not support float16/bfloat16 vector.");
  }
  if (is_floating(element) && (op == tir::BinaryOp::kMod || is_shift(op) || is_bitwise(op))) {
    return invalid_argument(fmt::format("The operands of '{}' must be integers.", symbol));
  }
  return {};
}

template <typename C>
C arithmetic(tir::BinaryOp op, C x, C y, bool scalar) {
  using tir::BinaryOp;
  switch (op) {
    case BinaryOp::kAdd:
      return tir::wrapping_add(x, y);
    case BinaryOp::kSub:
      return tir::wrapping_sub(x, y);
    case BinaryOp::kMul:
      return tir::wrapping_mul(x, y);
    case BinaryOp::kDiv:
      return tir::lane_div(x, y);
    default:
      break;
  }
  if constexpr (std::is_integral_v<C>) {
    const uint64_t count =
        scalar ? tir::scalar_shift_count(y) : static_cast<uint64_t>(static_cast<std::make_unsigned_t<C>>(y));
    switch (op) {
      case BinaryOp::kMod:
        return tir::lane_mod(x, y);
      case BinaryOp::kBitAnd:
        return static_cast<C>(x & y);
      case BinaryOp::kBitOr:
        return static_cast<C>(x | y);
      case BinaryOp::kBitXor:
        return static_cast<C>(x ^ y);
      case BinaryOp::kShl:
        return tir::lane_shl(x, count);
      case BinaryOp::kShr:
        return tir::lane_shr(x, count);
      default:
        break;
    }
  }
  return x;
}

LaneValue apply(tir::BinaryOp op, const LaneValue& x, const LaneValue& y) {
  const Type type = x.type;
  const bool compare = tir::is_comparison(op);
  LaneValue out(compare ? type.with_element(DType::kBool) : type);
  const LaneRef a = x.ref(), b = y.ref();
  tir::with_lane_type(type.element, [&]<typename T>(T) {
    for (int i = 0; i < type.lanes; ++i) {
      const auto l = tir::to_compute(lanes_of<T>(a)[i]), r = tir::to_compute(lanes_of<T>(b)[i]);
      if (compare) {
        lanes_of<tir::Bool>(out)[i] = {static_cast<uint8_t>(tir::lane_compare(op, l, r))};
      } else if constexpr (std::is_same_v<T, tir::Bool>) {
        const bool bit = op == tir::BinaryOp::kBitAnd ? l && r : op == tir::BinaryOp::kBitOr ? l || r : l != r;
        lanes_of<tir::Bool>(out)[i] = {static_cast<uint8_t>(bit)};
      } else {
        lanes_of<T>(out)[i] = tir::from_compute<T>(arithmetic(op, l, r, type.is_scalar()));
      }
    }
  });
  return out;
}

Status check_comparison(const EagerOperand& x, const EagerOperand& y) {
  if (!x.is_typed() || !y.is_typed() || is_bool(x.type.element) || is_bool(y.type.element)) return {};
  if (!dsl::unsafe_comparison(x.type.element, y.type.element)) return {};
  return invalid_argument(
      fmt::format("Unsafe unsigned and signed comparison, \"{}\" vs. \"{}\", please do the type conversion explicitly.",
                  x.type.text(), y.type.text()));
}

}  // namespace

Result<LaneValue> eager_convert(const EagerOperand& x, Type to) {
  LaneValue out(to);
  if (is_number(x)) {
    set_number(out, x);
    return out;
  }
  if (!x.is_typed() || x.type.pointer)
    return invalid_argument(fmt::format("A value is needed that converts to \"{}\".", to.text()));
  AIPU_RETURN_IF_ERROR(convert_lanes({x.type, const_cast<std::byte*>(x.lanes)}, out));
  return out;
}

Result<LaneValue> eager_binary(tir::BinaryOp op, const EagerOperand& x, const EagerOperand& y) {
  for (const EagerOperand* operand : {&x, &y}) {
    if (operand->type.pointer) {
      return invalid_argument(fmt::format("Unexpect \"{}\" pointer as argument.", dsl::type_text(operand->type)));
    }
    if (!operand->is_typed() && !is_number(*operand)) return invalid_argument("The operand expect a number.");
  }
  if (tir::is_comparison(op)) AIPU_RETURN_IF_ERROR(check_comparison(x, y));
  const int x_lanes = x.is_typed() ? x.type.lanes : 1, y_lanes = y.is_typed() ? y.type.lanes : 1;
  if (x_lanes != y_lanes && x_lanes != 1 && y_lanes != 1) {
    return invalid_argument(
        fmt::format("Argument type mismatch: 0-th: \"{}\" vs. 1-th: \"{}\".", x.type.text(), y.type.text()));
  }
  for (const EagerOperand* operand : {&x, &y}) {
    if (x_lanes == 1 && y_lanes == 1) AIPU_RETURN_IF_ERROR(check_bf16_scalar(operand->type));
  }
  DType element = DType::kVoid;
  if (is_shift(op)) {
    const auto integer = [](const EagerOperand& o) {
      return o.is_typed() ? is_integer(o.type.element) : !std::holds_alternative<double>(o.literal);
    };
    if (!integer(x) || !integer(y)) {
      return invalid_argument(fmt::format("The operands of '{}' must be integers.", tir::binary_op_symbol(op)));
    }
    const auto* number = std::get_if<int64_t>(&x.literal);
    element = x.is_typed() ? x.type.element : dsl::literal_dtype(number ? *number : 0);
  } else {
    element = dsl::binary_result_dtype(matched_as(x), matched_as(y));
  }
  // Scalar bools compute as int32, as in the compiled language.
  const bool vector = x_lanes > 1 || y_lanes > 1;
  if (is_bool(element) && !vector && !is_bitwise(op)) element = DType::kI32;
  const Type type = Type::vector(element, std::max(x_lanes, y_lanes));
  AIPU_RETURN_IF_ERROR(check_operator(op, type));
  AIPU_ASSIGN_OR_RETURN(const LaneValue a, eager_convert(x, type));
  AIPU_ASSIGN_OR_RETURN(const LaneValue b, eager_convert(y, type));
  return apply(op, a, b);
}

Result<LaneValue> eager_invert(const EagerOperand& x) {
  if (!x.is_typed() || x.type.pointer || is_floating(x.type.element)) {
    return invalid_argument("The operand of '~' must be an integer or a boolean.");
  }
  LaneValue out(x.type);
  for (size_t i = 0; i < out.bytes.size(); ++i)
    out.bytes[i] = is_bool(x.type.element) ? x.lanes[i] ^ std::byte{1} : ~x.lanes[i];
  return out;
}

}  // namespace aipu::python
