#include "kernels/te/float_remainder.h"

#include <utility>

#include "codegen/intrinsics/intrinsic_table.h"

namespace aipu::te {

namespace {

using tir::BinaryOp;
using tir::Expr;
using tir::Type;

Expr op(BinaryOp what, Expr a, Expr b) { return tir::binary(what, std::move(a), std::move(b)); }
Expr with(BinaryOp what, Expr a, int64_t b) {
  const DType element = a->type.element;
  return op(what, std::move(a), tir::int_imm(b, element));
}
Expr either(const Expr& condition, const Expr& a, const Expr& b) {
  return tir::make_expr(a->type, tir::Select{condition, a, b});
}
Expr same_bits(DType dtype, const Expr& x) {
  return tir::intrinsic_call("reinterpret", {x}, {{"dtype", tir::attribute_of_type(Type::scalar(dtype))}}).value();
}

class FmodFunction {
 public:
  explicit FmodFunction(DType dtype) : dtype_(dtype), wide_(dtype == DType::kF64) {}

  tir::PrimFuncPtr make() {
    x_bits_ = let("x_bits", same_bits(word_, x_));
    a_ = let("a", without_sign(x_bits_));
    b_ = let("b", without_sign(same_bits(word_, y_)));
    by_quotient();
    by_parts();
    tir::PrimFunc function{str_cat("fmod_", dtype_name(dtype_)),
                           {x_->as<tir::VarRef>()->var, y_->as<tir::VarRef>()->var},
                           Type::scalar(dtype_),
                           nullptr};
    function.body = tir::block(std::move(body_));
    return std::make_shared<const tir::PrimFunc>(std::move(function));
  }

 private:
  // Of a quotient q that has half of the bits: |y| is cut into halves whose products by q are exact, so the error of
  // their sum, p, is known too (Dekker), and nothing is rounded in |x| - p - error. A quotient that was rounded up has
  // gone too far, by one. No fused operations: not all targets have them.
  void by_quotient() {
    const Expr x = let("x_size", same_bits(dtype_, a_)), y = let("y_size", same_bits(dtype_, b_));
    const Expr quotient = let("quotient", op(BinaryOp::kDiv, x, y));
    const Expr few_bits = op(BinaryOp::kLt, quotient, number(wide_ ? 0x1p26 : 0x1p12));
    // Nothing overflows of what is far enough from infinity.
    const Expr far = with(BinaryOp::kLt, op(BinaryOp::kMax, a_, b_), infinity_ - (int64_t{1} << mantissa_bits_));
    const auto outer = std::exchange(body_, {});
    const Expr q = let("q", tir::intrinsic_call("trunc", {quotient}).value());
    const int low_bits = wide_ ? 27 : 12;
    const Expr cut = with(BinaryOp::kShl, with(BinaryOp::kShr, b_, low_bits), low_bits);
    const Expr high = let("high", same_bits(dtype_, cut)), low = let("low", op(BinaryOp::kSub, y, high));
    const Expr p = let("p", op(BinaryOp::kMul, q, y));
    const Expr high_error = op(BinaryOp::kSub, op(BinaryOp::kMul, q, high), p);
    const Expr error = let("error", op(BinaryOp::kAdd, high_error, op(BinaryOp::kMul, q, low)));
    const Expr rest = let("rest", op(BinaryOp::kSub, op(BinaryOp::kSub, x, p), error));
    leave(with_sign(either(op(BinaryOp::kLt, rest, number(0)), op(BinaryOp::kAdd, rest, y), rest)));
    tir::Stmt exact = tir::block(std::exchange(body_, outer));
    body_.push_back(tir::make_stmt(tir::If{op(BinaryOp::kAnd, few_bits, far), std::move(exact), nullptr}));
  }

  // With |x| = m 2^e and |y| = n 2^f, m and n the mantissas as integers: the remainder is (m 2^(e - f) mod n) 2^f, and
  // the power is multiplied on in parts, so that what is divided is a word.
  void by_parts() {
    const Expr invalid = op(BinaryOp::kOr, with(BinaryOp::kGe, a_, infinity_),
                            op(BinaryOp::kOr, with(BinaryOp::kGt, b_, infinity_), with(BinaryOp::kEq, b_, 0)));
    const Expr product = op(BinaryOp::kMul, x_, y_);
    leave_if(invalid, op(BinaryOp::kDiv, product, product));  // NaN
    leave_if(op(BinaryOp::kLt, a_, b_), x_);
    const Expr e = let("e", exponent(a_)), f = let("f", exponent(b_));
    const Expr n = let("n", mantissa(b_, f));
    const tir::VarPtr rest_var = define("rest", mantissa(a_, e)), left_var = define("left", op(BinaryOp::kSub, e, f));
    const Expr rest = tir::var_ref(rest_var), left = tir::var_ref(left_var);
    const auto shifted = [&](const Expr& by) { return op(BinaryOp::kMod, op(BinaryOp::kShl, rest, by), n); };
    const int64_t step = (wide_ ? 64 : 32) - mantissa_bits_ - 1;
    body_.push_back(tir::make_stmt(
        tir::While{with(BinaryOp::kGt, left, step),
                   tir::block({tir::make_stmt(tir::Assign{rest_var, shifted(tir::int_imm(step, word_))}),
                               tir::make_stmt(tir::Assign{left_var, with(BinaryOp::kSub, left, step)})})}));
    const Expr last = tir::cast(Type::scalar(wide_ ? DType::kI64 : DType::kI32), shifted(left));
    leave(with_sign(op(BinaryOp::kMul, tir::cast(Type::scalar(dtype_), last), same_bits(dtype_, last_place(f)))));
  }

  Expr number(double value) const { return tir::float_imm(value, dtype_); }
  // x's.
  Expr with_sign(const Expr& size) const {
    return same_bits(dtype_, op(BinaryOp::kBitOr, same_bits(word_, size), op(BinaryOp::kBitXor, x_bits_, a_)));
  }
  static tir::VarPtr variable(std::string_view name, DType dtype) {
    return std::make_shared<tir::Var>(tir::Var{std::string(name), Type::scalar(dtype)});
  }
  tir::VarPtr define(std::string_view name, Expr value) {
    tir::VarPtr var = variable(name, value->type.element);
    body_.push_back(tir::make_stmt(tir::Define{var, std::move(value)}));
    return var;
  }
  Expr let(std::string_view name, Expr value) { return tir::var_ref(define(name, std::move(value))); }
  void leave(Expr value) { body_.push_back(tir::make_stmt(tir::Return{std::move(value)})); }
  void leave_if(Expr condition, Expr value) {
    body_.push_back(
        tir::make_stmt(tir::If{std::move(condition), tir::make_stmt(tir::Return{std::move(value)}), nullptr}));
  }

  static Expr without_sign(const Expr& bits) { return with(BinaryOp::kShr, with(BinaryOp::kShl, bits, 1), 1); }
  // From that of subnormal numbers, which the smallest normal ones share.
  Expr exponent(const Expr& a) const {
    return with(BinaryOp::kSub, with(BinaryOp::kMax, with(BinaryOp::kShr, a, mantissa_bits_), 1), 1);
  }
  // With the leading bit, which is the lowest one of the exponent.
  Expr mantissa(const Expr& a, const Expr& exponent) const {
    return op(BinaryOp::kSub, a, with(BinaryOp::kShl, exponent, mantissa_bits_));
  }
  // The bits of what the mantissa's last place is worth, which may be a subnormal number.
  Expr last_place(const Expr& exponent) const {
    const Expr normal = with(BinaryOp::kShl, with(BinaryOp::kSub, exponent, mantissa_bits_ - 1), mantissa_bits_);
    const Expr subnormal = op(BinaryOp::kShl, tir::int_imm(1, word_), exponent);
    return either(with(BinaryOp::kGe, exponent, mantissa_bits_), normal, subnormal);
  }

  const DType dtype_;
  const bool wide_;
  const DType word_ = wide_ ? DType::kU64 : DType::kU32;
  const int64_t mantissa_bits_ = wide_ ? 52 : 23;
  const int64_t infinity_ = wide_ ? 0x7FF0'0000'0000'0000 : 0x7F80'0000;
  const Expr x_ = tir::var_ref(variable("x", dtype_)), y_ = tir::var_ref(variable("y", dtype_));
  Expr x_bits_, a_, b_;  // what is known of them: x, |x|, |y| as words
  std::vector<tir::Stmt> body_;
};

}  // namespace

tir::PrimFuncPtr fmod_function(DType dtype) { return FmodFunction(dtype).make(); }

}  // namespace aipu::te
