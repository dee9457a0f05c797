#include "kernels/te/expr_to_tir.h"

#include <algorithm>

#include "codegen/intrinsics/intrinsic_table.h"
#include "kernels/te/functions.h"
#include "kernels/te/print.h"
#include "kernels/te/visit.h"

namespace aipu::te {

tir::BinaryOp tir_op(BinaryOp op) {
  using TirOp = tir::BinaryOp;
  switch (op) {
    case BinaryOp::kAdd:
      return TirOp::kAdd;
    case BinaryOp::kSub:
      return TirOp::kSub;
    case BinaryOp::kMul:
      return TirOp::kMul;
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
      return TirOp::kDiv;
    case BinaryOp::kMod:
    case BinaryOp::kFloorMod:
      return TirOp::kMod;
    case BinaryOp::kMin:
      return TirOp::kMin;
    case BinaryOp::kMax:
      return TirOp::kMax;
    case BinaryOp::kBitAnd:
      return TirOp::kBitAnd;
    case BinaryOp::kBitOr:
      return TirOp::kBitOr;
    case BinaryOp::kBitXor:
      return TirOp::kBitXor;
    case BinaryOp::kShl:
      return TirOp::kShl;
    case BinaryOp::kShr:
      return TirOp::kShr;
    case BinaryOp::kAnd:
      return TirOp::kAnd;
    case BinaryOp::kOr:
      return TirOp::kOr;
    case BinaryOp::kEq:
      return TirOp::kEq;
    case BinaryOp::kNe:
      return TirOp::kNe;
    case BinaryOp::kLt:
      return TirOp::kLt;
    case BinaryOp::kLe:
      return TirOp::kLe;
    case BinaryOp::kGt:
      return TirOp::kGt;
    case BinaryOp::kGe:
      return TirOp::kGe;
  }
  return TirOp::kAdd;
}

BinaryOp te_op(tir::BinaryOp op) {
  auto candidate = BinaryOp::kAdd;
  while (tir_op(candidate) != op) candidate = static_cast<BinaryOp>(static_cast<uint8_t>(candidate) + 1);
  return candidate;
}

namespace {

using TirOp = tir::BinaryOp;

// a // b and a % b by the quotient and remainder toward zero, of signed integers.
tir::PrimFuncPtr floor_function(const std::string& name, bool quotient, DType dtype) {
  const Type type = Type::scalar(dtype);
  auto a = std::make_shared<tir::Var>(tir::Var{"a", type});
  auto b = std::make_shared<tir::Var>(tir::Var{"b", type});
  auto r = std::make_shared<tir::Var>(tir::Var{"r", type});
  const auto ref = [](const tir::VarPtr& v) { return tir::var_ref(v); };
  const tir::Expr zero = tir::int_imm(0, dtype), one = tir::int_imm(1, dtype);
  const tir::Expr signs =
      tir::binary(TirOp::kNe, tir::binary(TirOp::kLt, ref(r), zero), tir::binary(TirOp::kLt, ref(b), zero));
  const tir::Expr adjust = tir::binary(TirOp::kAnd, tir::binary(TirOp::kNe, ref(r), zero), signs);
  tir::Expr result;
  if (quotient) {
    const tir::Expr q = tir::binary(TirOp::kDiv, ref(a), ref(b));
    result = tir::make_expr(type, tir::Select{adjust, tir::binary(TirOp::kSub, q, one), q});
  } else {
    result = tir::make_expr(type, tir::Select{adjust, tir::binary(TirOp::kAdd, ref(r), ref(b)), ref(r)});
  }
  tir::PrimFunc function{name, {a, b}, type, nullptr, tir::InlineHint::kInline};
  function.body = tir::block(
      {tir::make_stmt(tir::Define{r, tir::binary(TirOp::kMod, ref(a), ref(b))}), tir::make_stmt(tir::Return{result})});
  return std::make_shared<const tir::PrimFunc>(std::move(function));
}

}  // namespace

std::vector<tir::PrimFuncPtr> ExprToTir::helpers() const {
  std::vector<tir::PrimFuncPtr> functions;
  for (const auto& [name, function] : helpers_) functions.push_back(function);
  return functions;
}

tir::Expr ExprToTir::intrinsic(std::string_view name, Type type, std::vector<tir::Expr> args,
                               std::vector<std::pair<std::string, int64_t>> attributes) {
  auto made = tir::intrinsic_call(name, std::move(args), std::move(attributes));
  if (made.ok()) return tir::cast(type, std::move(made).value());
  fail(std::move(made).status().context(name));
  return is_floating(type.element) ? tir::float_imm(0, type.element) : tir::int_imm(0, type.element);
}

tir::Expr ExprToTir::operator()(const Expr& expr) {
  const Type type = expr->type;
  const auto nothing = [&] {
    return is_floating(type.element) ? tir::float_imm(0, type.element) : tir::int_imm(0, DType::kI32);
  };
  if (type.lanes != 1 || type.pointer) {
    fail(unsupported(str_cat("elements of type ", type_text(type), " are not supported: ", to_text(expr))));
    return nothing();
  }
  return match(
      expr, [&](const IntImm& n) { return tir::int_imm(n.value, type.element); },
      [&](const FloatImm& n) { return tir::float_imm(n.value, type.element); },
      [&](const StringImm&) {
        fail(unsupported(str_cat("a string as a value: ", to_text(expr))));
        return nothing();
      },
      [&](const Var&) { return tir::var_ref(variable(expr)); },
      [&](const Binary& n) { return convert_binary(expr, n); },
      [&](const Not& n) {
        const auto op = is_bool(type.element) ? tir::UnaryOp::kNot : tir::UnaryOp::kBitNot;
        return tir::make_expr(type, tir::Unary{op, (*this)(n.a)});
      },
      [&](const Select& n) {
        return tir::make_expr(type, tir::Select{(*this)(n.condition), (*this)(n.true_value), (*this)(n.false_value)});
      },
      [&](const Cast& n) { return tir::cast(type, (*this)(n.value)); },
      [&](const Call& n) { return convert_call(expr, n); },
      [&](const Read& n) {
        return load(Tensor{n.op, n.value_index}, n.indices);
      },
      [&](const Reduce&) {
        fail(internal_error(str_cat("a reduction inside a loop nest: ", to_text(expr))));
        return nothing();
      });
}

tir::Expr ExprToTir::convert_binary(const Expr& expr, const Binary& n) {
  if (n.op == BinaryOp::kFloorDiv || n.op == BinaryOp::kFloorMod) return floor_quotient(expr, n);
  tir::Expr a = (*this)(n.a), b = (*this)(n.b);
  TirOp op = tir_op(n.op);
  if (is_bool(n.a->type.element) && !is_comparison(n.op)) {
    if (n.op == BinaryOp::kMin || n.op == BinaryOp::kMul) op = TirOp::kBitAnd;
    if (n.op == BinaryOp::kMax || n.op == BinaryOp::kAdd) op = TirOp::kBitOr;
  }
  return tir::binary(op, std::move(a), std::move(b));
}

tir::Expr ExprToTir::floor_quotient(const Expr& expr, const Binary& n) {
  const Type type = expr->type;
  const TirOp op = tir_op(n.op);
  const bool simple =
      is_unsigned_int(type.element) || (is_index(type) && analyzer->bound(n.a).lo >= 0 && analyzer->bound(n.b).lo >= 0);
  if (simple) return tir::binary(op, (*this)(n.a), (*this)(n.b));
  const bool quotient = n.op == BinaryOp::kFloorDiv;
  const std::string name = str_cat(quotient ? "floordiv_" : "floormod_", dtype_name(type.element));
  auto& helper = helpers_[name];
  if (!helper) helper = floor_function(name, quotient, type.element);
  return tir::make_expr(type, tir::FunctionCall{name, {(*this)(n.a), (*this)(n.b)}});
}

Expr value_to_store(const Store& store) {
  const Binary* sum = store.value->as<Binary>();
  if (sum == nullptr || sum->op != BinaryOp::kAdd || store.value->type != Type::scalar(DType::kF32)) return store.value;
  for (const auto& [kept, added] : {std::pair(sum->a, sum->b), std::pair(sum->b, sum->a)}) {
    const Read* read = kept->as<Read>();
    const Binary* product = added->as<Binary>();
    if (read == nullptr || product == nullptr || product->op != BinaryOp::kMul) continue;
    if (Tensor{read->op, read->value_index} != store.tensor || read->indices.size() != store.indices.size()) continue;
    const auto same = [](const Expr& a, const Expr& b) { return a == b || structural_key(a) == structural_key(b); };
    if (!std::equal(read->indices.begin(), read->indices.end(), store.indices.begin(), same)) continue;
    return make_expr(store.value->type, Call{"sum_of_product", {kept, product->a, product->b}});
  }
  return store.value;
}

tir::Expr ExprToTir::call_helper(const MathFunction& function, Type type, const std::vector<Expr>& operands) {
  const Type own = Type::scalar(type.element == DType::kF64 ? DType::kF64 : DType::kF32);
  auto& helper = helpers_[str_cat(function.name, "_", dtype_name(own.element))];
  if (!helper) helper = function.helper(own.element);
  std::vector<tir::Expr> args;
  for (const Expr& operand : operands) args.push_back(tir::cast(own, (*this)(operand)));
  return tir::cast(type, tir::make_expr(own, tir::FunctionCall{helper->name, std::move(args)}));
}

tir::Expr ExprToTir::convert_call(const Expr& expr, const Call& n) {
  const Type type = expr->type;
  if (n.name == "likely") return (*this)(n.args[0]);
  if (n.name == "if_then_else")
    return tir::make_expr(type, tir::Select{(*this)(n.args[0]), (*this)(n.args[1]), (*this)(n.args[2])});
  if (n.name == "reinterpret")
    return intrinsic("reinterpret", type, {(*this)(n.args[0])}, {{"dtype", tir::attribute_of_type(type)}});
  const MathFunction* function = find_function(n.name);
  if (function == nullptr ||
      (function->intrinsic.empty() && function->expand == nullptr && function->helper == nullptr)) {
    fail(unsupported(str_cat("'", n.name, "' has no form in kernels: ", to_text(expr))));
    return tir::int_imm(0);
  }
  if (function->expand != nullptr) return (*this)(function->expand(n.args));
  if (function->helper != nullptr) return call_helper(*function, type, n.args);
  // Scalar units have no bfloat16.
  const bool widen = n.args[0]->type.element == DType::kBF16;
  std::vector<tir::Expr> args;
  for (const Expr& arg : n.args) {
    tir::Expr value = (*this)(arg);
    args.push_back(widen ? tir::cast(Type::scalar(DType::kF32), std::move(value)) : std::move(value));
  }
  if (n.name == "abs" && is_integer(type.element)) {
    const tir::Expr zero = tir::int_imm(0, type.element);
    return tir::make_expr(
        type, tir::Select{tir::binary(TirOp::kLt, args[0], zero), tir::binary(TirOp::kSub, zero, args[0]), args[0]});
  }
  return intrinsic(function->intrinsic, type, std::move(args));
}

}  // namespace aipu::te
