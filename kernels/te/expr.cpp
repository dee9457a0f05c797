#include "kernels/te/expr.h"

#include <atomic>
#include <cmath>

#include "codegen/intrinsics/lane_types.h"
#include "codegen/tir/expr.h"
#include "kernels/te/expr_to_tir.h"

namespace aipu::te {

namespace {

constexpr BinaryRow kBinaryRows[] = {
    {"Add", "+", true},         {"Sub", "-", true},       {"Mul", "*", true},      {"Div", "/", true},
    {"Mod", "truncmod", false}, {"FloorDiv", "//", true}, {"FloorMod", "%", true}, {"Min", "min", false},
    {"Max", "max", false},      {"BitAnd", "&", true},    {"BitOr", "|", true},    {"BitXor", "^", true},
    {"Shl", "<<", true},        {"Shr", ">>", true},      {"And", "and", true},    {"Or", "or", true},
    {"EQ", "==", true},         {"NE", "!=", true},       {"LT", "<", true},       {"LE", "<=", true},
    {"GT", ">", true},          {"GE", ">=", true},
};

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

std::optional<int64_t> fold_arithmetic(BinaryOp op, int64_t a, int64_t b) {
  const auto wrap = [](uint64_t v) { return static_cast<int64_t>(v); };
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool divides = b != 0 && !(b == -1 && a == INT64_MIN);
  switch (op) {
    case BinaryOp::kAdd:
      return wrap(ua + ub);
    case BinaryOp::kSub:
      return wrap(ua - ub);
    case BinaryOp::kMul:
      return wrap(ua * ub);
    case BinaryOp::kDiv:
      return divides ? std::optional(a / b) : std::nullopt;
    case BinaryOp::kMod:
      return divides ? std::optional(a % b) : std::nullopt;
    case BinaryOp::kFloorDiv:
      return divides ? std::optional(floor_div(a, b)) : std::nullopt;
    case BinaryOp::kFloorMod:
      return divides ? std::optional(a - floor_div(a, b) * b) : std::nullopt;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:
      return wrap(ua << (b & 63));
    case BinaryOp::kShr:
      return a >> (b & 63);
    default:
      return std::nullopt;
  }
}

template <typename T>
std::optional<bool> fold_comparison(BinaryOp op, T a, T b) {
  return is_comparison(op) ? std::optional(tir::lane_compare(tir_op(op), a, b)) : std::nullopt;
}

Expr fold_ints(BinaryOp op, Type type, int64_t a, int64_t b) {
  // uint64 beyond int64: left to run time
  if (type.element == DType::kU64 && (a < 0 || b < 0)) return nullptr;
  if (const auto truth = fold_comparison(op, a, b)) return make_bool(*truth);
  if (op == BinaryOp::kMin) return make_int(std::min(a, b), type);
  if (op == BinaryOp::kMax) return make_int(std::max(a, b), type);
  if (const auto value = fold_arithmetic(op, a, b)) return make_int(*value, type);
  return nullptr;
}

Expr fold_floats(BinaryOp op, Type type, double a, double b) {
  if (const auto truth = fold_comparison(op, a, b)) return make_bool(*truth);
  switch (op) {
    case BinaryOp::kAdd:
      return make_float(a + b, type);
    case BinaryOp::kSub:
      return make_float(a - b, type);
    case BinaryOp::kMul:
      return make_float(a * b, type);
    case BinaryOp::kDiv:
      return b != 0 ? make_float(a / b, type) : nullptr;
    case BinaryOp::kMin:
      return make_float(std::fmin(a, b), type);
    case BinaryOp::kMax:
      return make_float(std::fmax(a, b), type);
    default:
      return nullptr;
  }
}

// x + 0, x * 1, x * 0, x // 1 and the like, of integers.
Expr fold_neutral(BinaryOp op, const Expr& a, const Expr& b) {
  const auto x = as_int(a), y = as_int(b);
  switch (op) {
    case BinaryOp::kAdd:
      return x == 0 ? b : y == 0 ? a : nullptr;
    case BinaryOp::kSub:
      return y == 0 ? a : nullptr;
    case BinaryOp::kMul:
      if (x == 1 || y == 0) return b;
      return y == 1 || x == 0 ? a : nullptr;
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
      return y == 1 ? a : nullptr;
    case BinaryOp::kMod:
    case BinaryOp::kFloorMod:
      return y == 1 ? make_int(0, a->type) : nullptr;
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return a == b ? a : nullptr;
    default:
      return nullptr;
  }
}

Expr fold_logic(BinaryOp op, const Expr& a, const Expr& b) {
  const bool neutral = op == BinaryOp::kAnd;
  if (const auto x = as_int(a)) return (*x != 0) == neutral ? b : a;
  if (const auto y = as_int(b)) return (*y != 0) == neutral ? a : b;
  return nullptr;
}

}  // namespace

const BinaryRow& binary_row(BinaryOp op) { return kBinaryRows[static_cast<size_t>(op)]; }

std::optional<BinaryOp> find_binary(std::string_view node) {
  for (size_t i = 0; i < std::size(kBinaryRows); ++i) {
    if (kBinaryRows[i].node == node) return static_cast<BinaryOp>(i);
  }
  return std::nullopt;
}

Expr make_expr(Type type, std::remove_const_t<decltype(ExprNode::node)> node) {
  return std::make_shared<ExprNode>(ExprNode{type, std::move(node)});
}

Expr make_int(int64_t value, Type type) {
  if (is_floating(type.element)) return make_float(static_cast<double>(value), type);
  return make_expr(type, IntImm{tir::wrap_int(value, type.element)});
}

Expr make_float(double value, Type type) { return make_expr(type, FloatImm{tir::round_float(value, type.element)}); }

Expr make_bool(bool value) { return make_expr(Type::scalar(DType::kBool), IntImm{value}); }

Expr make_var(std::string name, Type type, bool size) {
  static std::atomic<uint64_t> next_id{0};
  return make_expr(type, Var{std::move(name), size, next_id++});
}

Expr make_binary(BinaryOp op, Expr a, Expr b) {
  const Type type = is_comparison(op) ? Type::vector(DType::kBool, a->type.lanes) : a->type;
  if (type.lanes == 1) {
    Expr folded;
    const auto* x = a->as<IntImm>();
    const auto* y = b->as<IntImm>();
    const auto* u = a->as<FloatImm>();
    const auto* v = b->as<FloatImm>();
    if (op == BinaryOp::kAnd || op == BinaryOp::kOr)
      folded = fold_logic(op, a, b);
    else if (x != nullptr && y != nullptr)
      folded = fold_ints(op, a->type, x->value, y->value);
    else if (u != nullptr && v != nullptr)
      folded = fold_floats(op, a->type, u->value, v->value);
    else if (!is_floating(a->type.element) && !is_bool(a->type.element))
      folded = fold_neutral(op, a, b);
    if (folded) return folded;
  }
  return make_expr(type, Binary{op, std::move(a), std::move(b)});
}

Expr make_not(Expr a) {
  if (const auto value = as_int(a)) return make_bool(*value == 0);
  const Type type = a->type;
  return make_expr(type, Not{std::move(a)});
}

Expr make_cast(Type type, Expr value) {
  if (value->type == type) return value;
  if (type.lanes == 1) {
    if (const auto* imm = value->as<IntImm>()) {
      if (is_floating(type.element)) return make_float(static_cast<double>(imm->value), type);
      return make_int(is_bool(type.element) ? imm->value != 0 : imm->value, type);
    }
    if (const auto* imm = value->as<FloatImm>()) {
      if (is_floating(type.element)) return make_float(imm->value, type);
      if (is_bool(type.element)) return make_bool(imm->value != 0);
      if (std::abs(imm->value) < 9e18) return make_int(static_cast<int64_t>(imm->value), type);
    }
  }
  return make_expr(type, Cast{std::move(value)});
}

Expr make_and(const Expr& a, const Expr& b) {
  if (!a || !b) return a ? a : b;
  return make_binary(BinaryOp::kAnd, a, b);
}

std::optional<int64_t> as_int(const Expr& expr) {
  if (!expr) return std::nullopt;
  if (const auto* imm = expr->as<IntImm>()) return imm->value;
  return std::nullopt;
}

bool is_zero(const Expr& expr) { return as_int(expr) == 0; }

bool is_index(Type type) { return type.is_scalar() && (type.element == DType::kI32 || type.element == DType::kI64); }

void match_index_types(Expr& a, Expr& b) {
  if (a->type == b->type) return;
  const Type wide = Type::scalar(DType::kI64);
  a = make_cast(wide, std::move(a));
  b = make_cast(wide, std::move(b));
}

Result<Type> common_type(Type a, Type b) {
  if (a.lanes != b.lanes && a.lanes != 1 && b.lanes != 1) {
    return invalid_argument(
        str_cat("operands have ", a.lanes, " and ", b.lanes, " lanes: ", type_text(a), " and ", type_text(b)));
  }
  for (const Type type : {a, b}) {
    if (type.pointer || type.element == DType::kVoid || type.element == DType::kString)
      return invalid_argument(str_cat("no arithmetic on ", type_text(type)));
  }
  const int lanes = std::max(a.lanes, b.lanes);
  const auto result = [&](DType d) { return Type::vector(d, lanes); };
  const DType x = a.element, y = b.element;
  if (x == y) return result(x);
  if (is_floating(x) && is_floating(y)) {
    if (dtype_bits(x) == dtype_bits(y)) return result(DType::kF32);  // float16 and bfloat16
    return result(dtype_bits(x) > dtype_bits(y) ? x : y);
  }
  if (is_floating(x) || is_floating(y)) return result(is_floating(x) ? x : y);
  const auto bits = [](DType d) { return is_bool(d) ? 1 : dtype_bits(d); };
  if (bits(x) != bits(y)) return result(bits(x) > bits(y) ? x : y);
  return result(is_signed_int(x) ? y : x);
}

Result<Expr> convert(Type type, Expr value) {
  if (value->type == type) return value;
  if (value->type.pointer || type.pointer || value->type.element == DType::kString || type.element == DType::kVoid)
    return invalid_argument(str_cat("no conversion from ", type_text(value->type), " to ", type_text(type)));
  if (value->type.lanes != type.lanes && value->type.lanes != 1)
    return invalid_argument(str_cat("no conversion from ", type_text(value->type), " to ", type_text(type)));
  const Type scalar = value->type.with_element(type.element);
  value = make_cast(scalar, std::move(value));
  if (value->type.lanes != type.lanes) return make_expr(type, Call{"broadcast", {std::move(value)}});
  return value;
}

namespace {

Status check_operands(BinaryOp op, Type type) {
  const BinaryRow& row = binary_row(op);
  const auto refused = [&](std::string_view needs) {
    return invalid_argument(str_cat("'", row.symbol, "' needs ", needs, ", not ", type_text(type)));
  };
  switch (op) {
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
      if (!is_bool(type.element)) return refused("bools");
      return {};
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
      if (!is_integer(type.element) && !is_bool(type.element)) return refused("integers");
      return {};
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
    case BinaryOp::kMod:
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      if (!is_integer(type.element)) return refused("integers");
      return {};
    default:
      return {};
  }
}

}  // namespace

Result<Expr> binary(BinaryOp op, Expr a, Expr b) {
  AIPU_ASSIGN_OR_RETURN(Type type, common_type(a->type, b->type));
  const bool arithmetic = op <= BinaryOp::kMax;
  if (arithmetic && is_bool(type.element) && op != BinaryOp::kMin && op != BinaryOp::kMax)
    type = type.with_element(DType::kI32);  // sums of bools are counts
  AIPU_RETURN_IF_ERROR(check_operands(op, type));
  AIPU_ASSIGN_OR_RETURN(a, convert(type, std::move(a)));
  AIPU_ASSIGN_OR_RETURN(b, convert(type, std::move(b)));
  if (op == BinaryOp::kShl || op == BinaryOp::kShr) {
    const auto count = as_int(b);
    if (count && (*count < 0 || *count >= dtype_bits(type.element)))
      return invalid_argument(str_cat("a shift of ", type_text(type), " by ", *count));
  }
  const bool divides = op >= BinaryOp::kDiv && op <= BinaryOp::kFloorMod;
  if (divides && as_int(b) == 0) return invalid_argument(str_cat("'", binary_row(op).symbol, "' by the constant 0"));
  return make_binary(op, std::move(a), std::move(b));
}

std::optional<Type> parse_type(std::string_view text) {
  if (text == "handle") return Type::pointer_to(DType::kVoid, 1, tir::Scope::kGlobal);
  const auto known = [](std::optional<DType> dtype) { return dtype && dtype_info(*dtype).kind != 'q'; };
  if (const auto dtype = parse_dtype(text); known(dtype)) return Type::scalar(*dtype);
  const size_t x = text.rfind('x');
  if (x == std::string_view::npos || x + 1 == text.size() || text.size() - x > 6) return std::nullopt;
  int lanes = 0;
  for (const char c : text.substr(x + 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    lanes = lanes * 10 + (c - '0');
  }
  const auto dtype = parse_dtype(text.substr(0, x));
  if (!known(dtype) || lanes < 1) return std::nullopt;
  return Type::vector(*dtype, lanes);
}

std::string type_text(Type type) {
  if (type.pointer) return "handle";
  const std::string element(dtype_name(type.element));
  return type.lanes == 1 ? element : str_cat(element, "x", type.lanes);
}

namespace {

double max_float(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504.0;
    case DType::kBF16:
      return 0x1.fep127;
    case DType::kF32:
      return 0x1.fffffep127;
    default:
      return 0x1.fffffffffffffp1023;
  }
}

}  // namespace

Expr min_value(Type type) {
  const DType d = type.element;
  if (is_floating(d)) return make_float(-max_float(d), type);
  return make_int(is_signed_int(d) ? static_cast<int64_t>(uint64_t{1} << 63) >> (64 - dtype_bits(d)) : 0, type);
}

Expr max_value(Type type) {
  const DType d = type.element;
  if (is_floating(d)) return make_float(max_float(d), type);
  if (is_bool(d)) return make_bool(true);
  const uint64_t all = ~uint64_t{0} >> (64 - dtype_bits(d));
  return make_int(static_cast<int64_t>(is_signed_int(d) ? all >> 1 : all), type);
}

}  // namespace aipu::te
