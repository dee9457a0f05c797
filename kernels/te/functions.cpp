#include "kernels/te/functions.h"

#include <algorithm>
#include <cmath>

#include "kernels/te/bit_functions.h"
#include "kernels/te/float_remainder.h"

namespace aipu::te {

namespace {

Expr float_like(const Expr& e, double value) { return make_float(value, e->type); }
Expr fn(std::string_view name, const Expr& x) { return make_expr(x->type, Call{std::string(name), {x}}); }
Expr div(Expr a, Expr b) { return make_binary(BinaryOp::kDiv, std::move(a), std::move(b)); }
Expr is_true(BinaryOp op, Expr a, Expr b) { return make_binary(op, std::move(a), std::move(b)); }

Expr expand_exp10(const std::vector<Expr>& a) {
  return make_expr(a[0]->type, Call{"power", {float_like(a[0], 10), a[0]}});
}
// log(1 + x), with Kahan's correction where 1 + x is rounded.
Expr expand_log1p(const std::vector<Expr>& a) {
  const Expr one = float_like(a[0], 1), u = add(one, a[0]);
  const Expr corrected = div(mul(fn("log", u), a[0]), sub(u, one));
  return make_expr(a[0]->type, Select{is_true(BinaryOp::kEq, u, one), a[0], corrected});
}
Expr expand_hypot(const std::vector<Expr>& a) { return fn("sqrt", add(mul(a[0], a[0]), mul(a[1], a[1]))); }
Expr expand_isfinite(const std::vector<Expr>& a) {
  return is_true(BinaryOp::kLe, fn("abs", a[0]), max_value(a[0]->type));
}

constexpr MathFunction kFunctions[] = {
    {"exp", 1, Operands::kFloat, "exp"},
    {"exp2", 1, Operands::kFloat, "exp2"},
    {"exp10", 1, Operands::kFloat, "", expand_exp10},
    {"log", 1, Operands::kFloat, "log"},
    {"log2", 1, Operands::kFloat, "log2"},
    {"log10", 1, Operands::kFloat, "log10"},
    {"log1p", 1, Operands::kFloat, "", expand_log1p},
    {"sqrt", 1, Operands::kFloat, "sqrt"},
    {"rsqrt", 1, Operands::kFloat, "rsqrt"},
    {"sin", 1, Operands::kFloat, "sin"},
    {"cos", 1, Operands::kFloat, "cos"},
    {"tan", 1, Operands::kFloat, "tan"},
    {"asin", 1, Operands::kFloat, "asin"},
    {"acos", 1, Operands::kFloat, "acos"},
    {"atan", 1, Operands::kFloat, "atan"},
    {"sinh", 1, Operands::kFloat, "sinh"},
    {"cosh", 1, Operands::kFloat, "cosh"},
    {"tanh", 1, Operands::kFloat, "tanh"},
    {"asinh", 1, Operands::kFloat, "asinh"},
    {"acosh", 1, Operands::kFloat, "acosh"},
    {"atanh", 1, Operands::kFloat, "atanh"},
    {"erf", 1, Operands::kFloat, "erf"},
    {"sigmoid", 1, Operands::kFloat, "sigmoid"},
    {"floor", 1, Operands::kRounding, "floor"},
    {"ceil", 1, Operands::kRounding, "ceil"},
    {"trunc", 1, Operands::kRounding, "trunc"},
    {"round", 1, Operands::kRounding, "round"},
    {"nearbyint", 1, Operands::kRounding, "round"},
    {"power", 2, Operands::kFloat, "pow"},
    {"fmod", 2, Operands::kFloat, "", nullptr, false, fmod_function},
    {"hypot", 2, Operands::kFloat, "", expand_hypot},
    {"atan2", 2, Operands::kFloat, "", expand_atan2},
    {"copysign", 2, Operands::kFloat, "", expand_copysign},
    {"nextafter", 2, Operands::kFloat, "", expand_nextafter},
    {"ldexp", 2, Operands::kScaled, "", expand_ldexp},
    {"popcount", 1, Operands::kIntegers, "", expand_popcount},
    {"clz", 1, Operands::kIntegers, "clz"},
    {"abs", 1, Operands::kNumber, "abs"},
    {"isnan", 1, Operands::kClassify, "isnan"},
    {"isinf", 1, Operands::kClassify, "isinf"},
    {"isfinite", 1, Operands::kClassify, "", expand_isfinite, true},
    {"if_then_else", 3, Operands::kStructure, ""},
    {"likely", 1, Operands::kStructure, ""},
    {"broadcast", 1, Operands::kStructure, ""},
    {"reinterpret", 1, Operands::kStructure, ""},
    {"sum_of_product", 3, Operands::kStructure, "fma"},  // the sum first
};

Status check(const MathFunction& f, Type type) {
  const bool floating = is_floating(type.element);
  const bool fits = f.operands == Operands::kFloat      ? floating
                    : f.operands == Operands::kIntegers ? is_integer(type.element)
                                                        : floating || is_integer(type.element) || is_bool(type.element);
  if (fits) return {};
  const std::string_view needed = f.operands == Operands::kFloat      ? "floats"
                                  : f.operands == Operands::kIntegers ? "integers"
                                                                      : "numbers";
  return invalid_argument(str_cat("'", f.name, "' needs ", needed, ", not ", type_text(type)));
}

}  // namespace

const MathFunction* find_function(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const MathFunction& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

const MathFunction* find_function_of_intrinsic(std::string_view intrinsic) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const MathFunction& f) {
    return !intrinsic.empty() && f.intrinsic == intrinsic;
  });
  return found == std::end(kFunctions) ? nullptr : found;
}

std::vector<std::string_view> function_names() {
  std::vector<std::string_view> names;
  for (const MathFunction& f : kFunctions) {
    if (f.operands != Operands::kStructure) names.push_back(f.name);
  }
  return names;
}

namespace {

// Of a constant; halves go to the even neighbour.
double rounded(std::string_view function, double value) {
  if (function == "floor") return std::floor(value);
  if (function == "ceil") return std::ceil(value);
  if (function == "trunc") return std::trunc(value);
  return value - std::remainder(value, 1.0);
}

}  // namespace

Result<Expr> call(std::string_view name, std::vector<Expr> args) {
  const MathFunction* f = find_function(name);
  if (f == nullptr || f->operands == Operands::kStructure)
    return unsupported(str_cat("there is no function '", name, "' of expressions"));
  if (args.size() != static_cast<size_t>(f->arity))
    return invalid_argument(str_cat("'", name, "' takes ", f->arity, " operands, not ", args.size()));
  Type type = args.front()->type;
  if (f->operands == Operands::kScaled) {
    if (!is_floating(type.element) || is_floating(args[1]->type.element))
      return invalid_argument(str_cat("'", name, "' needs a float and an integer, not ", type_text(type), " and ",
                                      type_text(args[1]->type)));
    AIPU_ASSIGN_OR_RETURN(args[1], convert(type.with_element(DType::kI32), args[1]));
    return make_expr(type, Call{std::string(name), std::move(args)});
  }
  for (const Expr& arg : args) {
    AIPU_ASSIGN_OR_RETURN(type, common_type(type, arg->type));
  }
  AIPU_RETURN_IF_ERROR(check(*f, type));
  for (Expr& arg : args) {
    AIPU_ASSIGN_OR_RETURN(arg, convert(type, arg));
  }
  const bool floating = is_floating(type.element);
  if (f->operands == Operands::kRounding && !floating) return args[0];
  if (const FloatImm* value = args[0]->as<FloatImm>(); value != nullptr && f->operands == Operands::kRounding)
    return make_float(rounded(name, value->value), type);
  if (f->operands == Operands::kNumber && (is_unsigned_int(type.element) || is_bool(type.element))) return args[0];
  Type result = type;
  if (f->operands == Operands::kClassify) {
    if (!floating) return make_bool(f->of_integers);
    result = type.with_element(DType::kBool);
  }
  if (name == "clz") result = type.with_element(DType::kI32);
  return make_expr(result, Call{std::string(name), std::move(args)});
}

Expr make_reinterpret(Type type, Expr value) {
  if (value->type == type) return value;
  return make_expr(type, Call{"reinterpret", {std::move(value)}});
}

Result<Expr> reinterpret(Type type, Expr value) {
  const auto has_bits = [](Type t) { return !t.pointer && !is_bool(t.element); };
  if (!has_bits(type) || !has_bits(value->type) || type.bytes() != value->type.bytes())
    return invalid_argument(str_cat("reinterpret: ", type_text(value->type), " and ", type_text(type),
                                    " are not numbers of the same size"));
  return make_reinterpret(type, std::move(value));
}

Result<Expr> if_then_else(Expr condition, Expr a, Expr b) {
  if (condition->type != Type::scalar(DType::kBool))
    return invalid_argument(str_cat("the condition of if_then_else is a bool, not ", type_text(condition->type)));
  AIPU_ASSIGN_OR_RETURN(const Type type, common_type(a->type, b->type));
  AIPU_ASSIGN_OR_RETURN(a, convert(type, std::move(a)));
  AIPU_ASSIGN_OR_RETURN(b, convert(type, std::move(b)));
  if (const auto value = as_int(condition)) return *value != 0 ? a : b;
  return make_expr(type, Call{"if_then_else", {std::move(condition), std::move(a), std::move(b)}});
}

}  // namespace aipu::te
