#include "codegen/intrinsics/type_rules.h"

#include <fmt/format.h>

#include <cmath>

#include "codegen/tir/text.h"

namespace aipu::tir::rules {
namespace {

// Smallest and largest value of an integer type, as doubles wide enough to compare ranges (exact up to 2^53, monotonic
// beyond).
std::pair<double, double> range_of(DType dtype) {
  if (is_bool(dtype)) return {0, 1};
  const int bits = dtype_bits(dtype);
  if (is_unsigned_int(dtype)) return {0, std::ldexp(1.0, bits) - 1};
  if (is_signed_int(dtype)) return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
  switch (dtype) {
    case DType::kF16:
      return {-65504.0, 65504.0};
    case DType::kBF16:
      return {-3.38953e38, 3.38953e38};
    case DType::kF32:
      return {-3.4028234663852886e38, 3.4028234663852886e38};
    default:
      return {-1.7976931348623157e308, 1.7976931348623157e308};
  }
}

bool range_fits(DType from, DType to) {
  if (is_floating(from) && !is_floating(to)) return false;
  if (from == to) return true;
  const auto [low, high] = range_of(from);
  const auto [to_low, to_high] = range_of(to);
  return low >= to_low && high <= to_high;
}

std::optional<double> literal_value(const Expr& e) {
  if (const auto* i = e->as<IntImm>()) {
    return e->type.element == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(i->value))
                                          : static_cast<double>(i->value);
  }
  if (const auto* f = e->as<FloatImm>()) return f->value;
  return std::nullopt;
}

bool literal_fits(const Expr& e, DType to) {
  const std::optional<double> value = literal_value(e);
  if (!value) return false;
  if (e->as<FloatImm>()) return is_floating(to);
  const auto [low, high] = range_of(to);
  return *value >= low && *value <= high;
}

// A constant keeps its value exactly; anything else is cast.
Expr converted(const Expr& e, DType to) {
  if (e->type.element == to) return e;
  if (const auto* i = e->as<IntImm>()) {
    if (is_integer(to)) return int_imm(i->value, to);
    if (is_floating(to)) return float_imm(*literal_value(e), to);
  }
  if (const auto* f = e->as<FloatImm>(); f && is_floating(to)) return float_imm(f->value, to);
  return cast(Type::scalar(to), e, e->span);
}

std::string shown(const Expr& e) {
  return literal_value(e) ? print_expr(e).substr(0, print_expr(e).find(':')) : type_text(e->type);
}

bool same_kind(DType a, DType b) {
  return dtype_bits(a) == dtype_bits(b) && is_bool(a) == is_bool(b) && is_integer(a) == is_integer(b) &&
         (is_integer(a) || a == b);
}

}  // namespace

Status refused(std::string message) { return invalid_argument(std::move(message)); }

std::string_view ordinal(size_t index) {
  static constexpr std::string_view kOrdinals[] = {"1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th"};
  return index < std::size(kOrdinals) ? kOrdinals[index] : "next";
}

std::string type_text(Type type) {
  if (!type.pointer) return type.text();
  type.pointer = false;
  return type.text() + "*";
}

Result<Expr> operand(const InferInput& in, size_t index) {
  if (index >= in.operands->size() || !(*in.operands)[index])
    return refused(fmt::format("The {} arg is missing.", ordinal(index)));
  return (*in.operands)[index];
}

bool is_literal(const InferInput& in, size_t index) { return index < in.is_literal.size() && in.is_literal[index]; }

DType common_element(const Expr& a, bool a_literal, const Expr& b, bool b_literal) {
  const DType x = a->type.element, y = b->type.element;
  if (x == y) return x;
  const bool a_int_literal = a_literal && is_integer(x), b_int_literal = b_literal && is_integer(y);
  if (a_int_literal && b_int_literal) return DType::kI32;
  if (b_int_literal) return is_floating(x) || literal_fits(b, x) ? x : DType::kI32;
  if (a_int_literal) return is_floating(y) || literal_fits(a, y) ? y : DType::kI32;
  if (is_floating(x) || is_floating(y)) {
    if (!is_floating(y)) return x;
    if (!is_floating(x)) return y;
    if (x == DType::kBF16) return y;
    if (y == DType::kBF16) return x;
    return dtype_bits(x) >= dtype_bits(y) ? x : y;
  }
  if (dtype_bits(x) != dtype_bits(y)) return dtype_bits(x) > dtype_bits(y) ? x : y;
  return is_unsigned_int(x) ? x : y;
}

Status convert_operand(InferInput& in, size_t index, Type type) {
  Expr& e = (*in.operands)[index];
  if (e->type == type) return {};
  if (e->type.pointer) return refused(fmt::format("Unexpect \"{}\" pointer as argument.", type_text(e->type)));
  if (e->type.is_vector()) {
    return refused(fmt::format("Argument type mismatch: {}-th: \"{}\" vs. expected: \"{}\".", index, type_text(e->type),
                               type_text(type)));
  }
  const bool fits = is_literal(in, index) ? literal_fits(e, type.element) : range_fits(e->type.element, type.element);
  if (!fits) {
    const DType twin = is_integer(type.element) ? with_sign(type.element, !is_signed_int(type.element)) : type.element;
    const bool twin_fits =
        twin != type.element && (is_literal(in, index) ? literal_fits(e, twin) : range_fits(e->type.element, twin));
    if (!twin_fits) {
      const std::string twins = twin == type.element
                                    ? fmt::format("({},)", type.text())
                                    : fmt::format("({}, {})", type.with_element(with_sign(twin, true)).text(),
                                                  type.with_element(with_sign(twin, false)).text());
      return refused(fmt::format("Can't broadcast \"{}\" to any of \"{}\".", shown(e), twins));
    }
    type.element = twin;
  }
  e = broadcast(converted(e, type.element), type.lanes);
  return {};
}

Result<Type> match_operands(InferInput& in, std::initializer_list<size_t> indices, bool scalars, Sign sign) {
  std::vector<Expr>& operands = *in.operands;
  size_t vector = SIZE_MAX;
  for (const size_t i : indices) {
    AIPU_ASSIGN_OR_RETURN(const Expr e, operand(in, i));
    if (e->type.pointer) return refused(fmt::format("Unexpect \"{}\" pointer as argument.", type_text(e->type)));
    if (e->type.is_void() || e->type.element == DType::kString)
      return refused(fmt::format("The {} arg expect a value.", ordinal(i)));
    if (e->type.is_vector() && vector == SIZE_MAX) vector = i;
  }
  if (vector == SIZE_MAX) {
    if (!scalars)
      return refused(indices.size() == 1 ? fmt::format("The {} arg expect a vector.", ordinal(*indices.begin()))
                                         : "All arguments are scalar.");
    Expr first = operands[*indices.begin()];
    bool first_literal = is_literal(in, *indices.begin());
    for (const size_t i : indices) {
      const DType element = common_element(first, first_literal, operands[i], is_literal(in, i));
      first_literal = first_literal && is_literal(in, i);
      first = converted(first, element);
    }
    for (const size_t i : indices) operands[i] = converted(operands[i], first->type.element);
    return first->type;
  }
  const Type type = operands[vector]->type;
  for (const size_t i : indices) {
    if (operands[i]->type.is_scalar()) AIPU_RETURN_IF_ERROR(convert_operand(in, i, type));
  }
  const size_t first = *indices.begin();
  for (const size_t i : indices) {
    const Type a = operands[first]->type, b = operands[i]->type;
    if (a.lanes != b.lanes || !same_kind(a.element, b.element)) {
      return refused(fmt::format("Argument type mismatch: {}-th: \"{}\" vs. {}-th: \"{}\".", first, type_text(a), i,
                                 type_text(b)));
    }
    if (a.element != b.element && sign == Sign::kMustAgree) {
      return refused(
          "The sign of operands is different, if the API have parameter \"out_sign\" please specify the output sign.");
    }
  }
  return operands[first]->type;
}

Status to_integer(InferInput& in, size_t index, DType dtype, std::string_view message) {
  AIPU_ASSIGN_OR_RETURN(const Expr e, operand(in, index));
  if (!e->type.is_scalar() || !is_integer(e->type.element)) return refused(std::string(message));
  (*in.operands)[index] = converted(e, dtype);
  return {};
}

Status finish_mask(InferInput& in, Type operand_type) {
  if (in.mask == nullptr || !*in.mask) return {};
  Expr& mask = *in.mask;
  if (!operand_type.is_vector()) return refused("Only support mask in vector scenario.");
  if (!is_bool(mask->type.element) || mask->type.pointer) {
    return refused(fmt::format("The arg \"mask\" expect a boolean vector, but got: \"{}\".", type_text(mask->type)));
  }
  const int lanes = operand_type.lanes;
  if (const auto* literal = mask->as<VectorLiteral>(); literal && mask->type.lanes != lanes) {
    if (mask->type.lanes > lanes)
      return refused(
          fmt::format("The length of arg \"mask\" expect <= \"{}\", but got: \"{}\".", lanes, mask->type.lanes));
    std::vector<Expr> padded = literal->lanes;
    padded.resize(static_cast<size_t>(lanes), bool_imm(false));
    mask = make_expr(Type::vector(DType::kBool, lanes), VectorLiteral{std::move(padded)}, mask->span);
  }
  if (mask->type.lanes != lanes) {
    return refused(fmt::format("The length of arg \"mask\" expect \"{}\", but got: \"{}\".", lanes, mask->type.lanes));
  }
  return {};
}

Status finish_pass_through(InferInput& in, Type result) {
  if (in.pass_through == nullptr || !*in.pass_through) {
    if (in.mask) in.mask->reset();  // language.md 7.4: without r all lanes run
    return {};
  }
  Expr& r = *in.pass_through;
  if (!in.mask || !*in.mask) {
    r.reset();
    return {};
  }
  const DType to = result.element, from = r->type.element;
  const auto mismatch = [&] {
    return refused(fmt::format("Argument type mismatch: r: \"{}\" vs. return data type: \"{}\".", type_text(r->type),
                               type_text(result)));
  };
  if (r->type.pointer || (is_floating(from) && !is_floating(to)) || is_bool(from) != is_bool(to)) return mismatch();
  const DType twin = is_integer(to) ? with_sign(to, !is_signed_int(to)) : to;
  if (r->type.is_scalar()) {
    if (literal_value(r) && is_integer(to) && !literal_fits(r, to) && !literal_fits(r, twin)) {
      return refused(
          fmt::format("Argument r \"{}\" is out of range of return data type \"{}\".", shown(r), type_text(result)));
    }
    r = broadcast(converted(r, to), result.lanes);
    return {};
  }
  if (r->type.lanes != result.lanes) return mismatch();
  if (from == to) return {};
  if (is_floating(to) || !(range_fits(from, to) || range_fits(from, twin))) return mismatch();
  r = cast(result, r, r->span);
  return {};
}

Status require_vector(const InferInput& in, size_t index) {
  AIPU_ASSIGN_OR_RETURN(const Expr e, operand(in, index));
  if (e->type.pointer) return refused(fmt::format("Unexpect \"{}\" pointer as argument.", type_text(e->type)));
  if (!e->type.is_vector()) return refused(fmt::format("The {} arg expect a vector.", ordinal(index)));
  return {};
}

bool is_native(Type type) {
  if (!type.is_vector()) return false;
  if (is_bool(type.element)) return type.lanes == 8 || type.lanes == 16 || type.lanes == 32;
  return type.lanes * dtype_bits(type.element) == 256;
}

bool is_multiple_width(Type type) {
  if (!type.is_vector()) return false;
  if (is_bool(type.element)) return type.lanes % 8 == 0;
  return type.lanes * dtype_bits(type.element) % 256 == 0;
}

Status require_width(Type type, Widths widths) {
  if (widths == Widths::kNative && !is_native(type)) {
    return refused(fmt::format("This API expect hardware native vector types, but got: \"{}\".", type_text(type)));
  }
  if (widths == Widths::kNativeOrMultiple && !is_multiple_width(type)) {
    return refused(
        fmt::format("This API does not support the feature Flexible Width Vector, but got: \"{}\"", type_text(type)));
  }
  return {};
}

DType with_sign(DType dtype, bool is_signed) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
      return is_signed ? DType::kI8 : DType::kU8;
    case DType::kI16:
    case DType::kU16:
      return is_signed ? DType::kI16 : DType::kU16;
    case DType::kI32:
    case DType::kU32:
      return is_signed ? DType::kI32 : DType::kU32;
    case DType::kI64:
    case DType::kU64:
      return is_signed ? DType::kI64 : DType::kU64;
    default:
      return dtype;
  }
}

Type with_out_sign(Type type, const InferInput& in) {
  const int64_t sign = attribute(in, "out_sign");
  return sign == 0 ? type : type.with_element(with_sign(type.element, sign == 2));
}

DType widened(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return DType::kI16;
    case DType::kU8:
      return DType::kU16;
    case DType::kI16:
      return DType::kI32;
    case DType::kU16:
      return DType::kU32;
    case DType::kI32:
      return DType::kI64;
    case DType::kU32:
      return DType::kU64;
    case DType::kF16:
    case DType::kBF16:
      return DType::kF32;
    case DType::kF32:
      return DType::kF64;
    default:
      return DType::kVoid;
  }
}

DType narrowed(DType dtype) {
  switch (dtype) {
    case DType::kI16:
      return DType::kI8;
    case DType::kU16:
      return DType::kU8;
    case DType::kI32:
      return DType::kI16;
    case DType::kU32:
      return DType::kU16;
    case DType::kI64:
      return DType::kI32;
    case DType::kU64:
      return DType::kU32;
    default:
      return DType::kVoid;
  }
}

int64_t attribute(const InferInput& in, std::string_view name, int64_t default_value) {
  for (const auto& [key, number] : *in.attributes) {
    if (key == name) return number;
  }
  return default_value;
}

IntrinsicParam value(std::string_view name) { return {.name = name}; }
IntrinsicParam optional_value(std::string_view name) { return {.name = name, .required = false}; }
IntrinsicParam pointer(std::string_view name, Access access) { return {.name = name, .access = access}; }
IntrinsicParam extent(IntrinsicParam param, TransferExtent extent) {
  param.extent = extent;
  return param;
}
IntrinsicParam repeated(IntrinsicParam param) {
  param.repeated = true;
  return param;
}
IntrinsicParam mask() { return {.name = "mask", .kind = ParamKind::kMask, .required = false}; }
IntrinsicParam pass_through() { return {.name = "r", .kind = ParamKind::kPassThrough, .required = false}; }
IntrinsicParam flag(std::string_view name) { return number(name, 0); }
IntrinsicParam out_sign() { return choice("out_sign", {"", "u", "s"}); }
IntrinsicParam choice(std::string_view name, std::vector<std::string_view> choices) {
  return {.name = name, .kind = ParamKind::kAttribute, .required = false, .choices = std::move(choices)};
}
IntrinsicParam number(std::string_view name, int64_t default_value) {
  return {.name = name, .kind = ParamKind::kAttribute, .required = false, .default_value = default_value};
}
IntrinsicParam required_number(std::string_view name) { return {.name = name, .kind = ParamKind::kAttribute}; }
IntrinsicParam type_param(std::string_view name) { return {.name = name, .kind = ParamKind::kAttribute}; }

}  // namespace aipu::tir::rules
