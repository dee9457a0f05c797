#include "kernels/te/bit_functions.h"

#include <bit>
#include <numbers>

#include "kernels/te/functions.h"

namespace aipu::te {

namespace {

// How a float is stored: the integer of its width, the bits of its mantissa, what its exponent is counted from.
struct FloatLayout {
  DType bits;
  int mantissa, bias;
};

FloatLayout layout_of(DType element) {
  switch (element) {
    case DType::kF64:
      return {DType::kI64, 52, 1023};
    case DType::kF16:
      return {DType::kI16, 10, 15};
    case DType::kBF16:
      return {DType::kI16, 7, 127};
    default:
      return {DType::kI32, 23, 127};
  }
}

Expr as_bits(const Expr& x) { return make_reinterpret(x->type.with_element(layout_of(x->type.element).bits), x); }
Expr op(BinaryOp op, const Expr& a, const Expr& b) { return make_binary(op, a, b); }
Expr with(BinaryOp what, const Expr& a, int64_t b) { return op(what, a, make_int(b, a->type)); }
Expr either(const Expr& condition, const Expr& a, const Expr& b) { return make_expr(a->type, Select{condition, a, b}); }
Expr number(const Expr& like, double value) { return make_float(value, like->type); }
Expr abs_of(const Expr& x) { return make_expr(x->type, Call{"abs", {x}}); }

int64_t sign_bit(Type bits) { return as_int(min_value(bits)).value(); }

Expr copysign(const Expr& x, const Expr& y) {
  const Expr size = as_bits(x), sign = as_bits(y);
  const int64_t mask = sign_bit(size->type);
  return make_reinterpret(
      x->type, op(BinaryOp::kBitOr, with(BinaryOp::kBitAnd, size, ~mask), with(BinaryOp::kBitAnd, sign, mask)));
}

}  // namespace

Expr expand_copysign(const std::vector<Expr>& args) { return copysign(args[0], args[1]); }

// The sums of neighbouring groups of bits, of which each is twice as wide as before.
Expr expand_popcount(const std::vector<Expr>& args) {
  const Type type = args[0]->type;
  const bool wide = type.bytes() == 8;
  static constexpr DType kUnsigned[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
  const Type own = type.with_element(kUnsigned[std::countr_zero(static_cast<unsigned>(type.bytes()))]);
  const Type word = type.with_element(wide ? DType::kU64 : DType::kU32);
  const auto repeated = [&](uint64_t byte) {
    return static_cast<int64_t>(byte * (wide ? ~0ull / 255 : 0x01010101ull));
  };
  const Expr x = make_cast(word, make_cast(own, args[0]));
  const Expr pairs = sub(x, with(BinaryOp::kBitAnd, with(BinaryOp::kShr, x, 1), repeated(0x55)));
  const Expr nibbles = add(with(BinaryOp::kBitAnd, pairs, repeated(0x33)),
                           with(BinaryOp::kBitAnd, with(BinaryOp::kShr, pairs, 2), repeated(0x33)));
  const Expr bytes = with(BinaryOp::kBitAnd, add(nibbles, with(BinaryOp::kShr, nibbles, 4)), repeated(0x0f));
  const Expr total = with(BinaryOp::kShr, mul(bytes, make_int(repeated(1), word)), wide ? 56 : 24);
  return make_cast(type, total);
}

// The integers of the bits are in the order of the floats, away from 0.
Expr expand_nextafter(const std::vector<Expr>& args) {
  const Expr &x = args[0], &y = args[1], zero = number(x, 0);
  const Expr bits = as_bits(x), one = make_int(1, bits->type), back = make_int(-1, bits->type);
  const Expr grows = op(BinaryOp::kLt, x, y);
  const Expr step = either(op(BinaryOp::kGt, x, zero), either(grows, one, back), either(grows, back, one));
  const Expr moved = make_reinterpret(x->type, add(bits, step));
  const Expr smallest = copysign(make_reinterpret(x->type, one), y);
  const Expr next = either(op(BinaryOp::kEq, x, zero), smallest, moved);
  const Expr ordered = either(op(BinaryOp::kEq, x, y), y, next);
  return either(op(BinaryOp::kOr, op(BinaryOp::kNe, x, x), op(BinaryOp::kNe, y, y)), add(x, y), ordered);
}

// By four powers of two that are numbers themselves, also where the exponent is larger than one of them can have.
Expr expand_ldexp(const std::vector<Expr>& args) {
  const Type type = args[0]->type;
  const bool narrow = type.bytes() == 2;
  const Expr x = narrow ? make_cast(type.with_element(DType::kF32), args[0]) : args[0];
  const FloatLayout layout = layout_of(x->type.element);
  const int most = 2 * layout.bias + 2 * layout.mantissa;
  const Expr exponent = with(BinaryOp::kMax, with(BinaryOp::kMin, args[1], most), -most);
  const Type bits = x->type.with_element(layout.bits);
  const auto power = [&](const Expr& e) {
    const Expr biased = with(BinaryOp::kAdd, make_cast(bits, e), layout.bias);
    return make_reinterpret(x->type, with(BinaryOp::kShl, biased, layout.mantissa));
  };
  const Expr quarter = with(BinaryOp::kShr, exponent, 2);
  const Expr part = power(quarter), rest = power(sub(exponent, with(BinaryOp::kMul, quarter, 3)));
  return make_cast(type, mul(mul(mul(mul(x, rest), part), part), part));
}

// The angle of a point: the quadrants on the left are turned by pi, what is 0 or infinite is known.
Expr expand_atan2(const std::vector<Expr>& args) {
  const Expr zero = number(args[0], 0), one = number(args[0], 1), largest = max_value(args[0]->type);
  const Expr both =
      op(BinaryOp::kAnd, op(BinaryOp::kGt, abs_of(args[0]), largest), op(BinaryOp::kGt, abs_of(args[1]), largest));
  const Expr y = either(both, copysign(one, args[0]), args[0]), x = either(both, copysign(one, args[1]), args[1]);
  const Expr turned = copysign(number(y, std::numbers::pi), y);
  const Expr angle = make_expr(y->type, Call{"atan", {make_binary(BinaryOp::kDiv, y, x)}});
  const Expr bits = as_bits(x);
  const Expr left = op(BinaryOp::kLt, bits, make_int(0, bits->type));  // also -0
  const Expr on_axis = either(op(BinaryOp::kEq, y, zero), either(left, turned, copysign(zero, y)),
                              copysign(number(y, std::numbers::pi / 2), y));
  const Expr elsewhere = either(op(BinaryOp::kLt, x, zero), add(angle, turned), angle);
  const Expr known = either(op(BinaryOp::kEq, x, zero), on_axis, elsewhere);
  return either(op(BinaryOp::kNe, y, y), y, known);
}

}  // namespace aipu::te
