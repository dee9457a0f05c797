#include "kernels/dsl/type_rules.h"

#include <charconv>
#include <limits>

namespace aipu::dsl {
namespace {

// In the rules a bool is an unsigned integer of one bit.
int rank_bits(DType d) { return d == DType::kBool ? 1 : dtype_bits(d); }
bool is_signed(DType d) { return is_signed_int(d); }

DType match_dtypes(DType a, DType b) {
  if (a == b) return a;
  const bool float_a = is_floating(a), float_b = is_floating(b);
  if (float_a && float_b) {
    if (a == DType::kBF16) return b;
    if (b == DType::kBF16) return a;
    return rank_bits(a) >= rank_bits(b) ? a : b;
  }
  if (float_a != float_b) return float_a ? a : b;
  if (rank_bits(a) != rank_bits(b)) return rank_bits(a) > rank_bits(b) ? a : b;
  return is_signed(a) ? b : a;
}

}  // namespace

bool fits(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value == 0 || value == 1;
  if (!is_integer(dtype)) return false;
  const int bits = dtype_bits(dtype);
  if (is_signed_int(dtype)) {
    if (bits >= 64) return true;
    const int64_t limit = int64_t{1} << (bits - 1);
    return value >= -limit && value < limit;
  }
  return value >= 0 && (bits >= 63 || value < (int64_t{1} << bits));
}

DType literal_dtype(int64_t value) { return fits(value, DType::kI32) ? DType::kI32 : DType::kI64; }

DType binary_result_dtype(const OperandType& lhs, const OperandType& rhs) {
  const auto* dtype_l = std::get_if<DType>(&lhs);
  const auto* dtype_r = std::get_if<DType>(&rhs);
  if (dtype_l != nullptr && dtype_r != nullptr) return match_dtypes(*dtype_l, *dtype_r);
  if (dtype_l == nullptr && dtype_r != nullptr) return binary_result_dtype(rhs, lhs);
  const auto own = [](const OperandType& o) {
    if (const auto* i = std::get_if<int64_t>(&o)) return literal_dtype(*i);
    if (const auto* d = std::get_if<DType>(&o)) return *d;
    return DType::kF32;
  };
  if (dtype_l == nullptr) return match_dtypes(own(lhs), own(rhs));
  if (const auto* i = std::get_if<int64_t>(&rhs)) {
    if (is_floating(*dtype_l) || fits(*i, *dtype_l)) return *dtype_l;
    return match_dtypes(*dtype_l, literal_dtype(*i));
  }
  return match_dtypes(*dtype_l, DType::kF32);
}

bool unsafe_comparison(DType lhs, DType rhs) {
  if (is_floating(lhs) || is_floating(rhs) || is_signed(lhs) == is_signed(rhs)) return false;
  const DType s = is_signed(lhs) ? lhs : rhs, u = is_signed(lhs) ? rhs : lhs;
  return rank_bits(u) >= rank_bits(s);
}

std::string type_text(const tir::Type& type) {
  std::string text(dtype_name(type.element));
  if (type.lanes > 1) text += "x" + std::to_string(type.lanes);
  if (type.pointer) text += "*";
  return text;
}

std::optional<tir::Type> parse_type_text(std::string_view text) {
  if (const auto dtype = parse_dtype(text)) {
    if (!is_computed(*dtype) && *dtype != DType::kVoid) return std::nullopt;
    return tir::Type::scalar(*dtype);
  }
  const size_t x = text.rfind('x');
  if (x == std::string_view::npos || x + 1 >= text.size() || text[x + 1] == '0') return std::nullopt;
  const auto element = parse_dtype(text.substr(0, x));
  if (!element || !is_computed(*element)) return std::nullopt;
  int lanes = 0;
  const auto [stop, error] = std::from_chars(text.data() + x + 1, text.data() + text.size(), lanes);
  constexpr int kMaxLanes = 1 << 16;
  if (error != std::errc() || stop != text.data() + text.size() || lanes < 1 || lanes > kMaxLanes) return std::nullopt;
  return tir::Type::vector(*element, lanes);
}

bool is_native_vector(const tir::Type& type) {
  if (!type.is_vector()) return false;
  if (type.element == DType::kBool) return type.lanes == 8 || type.lanes == 16 || type.lanes == 32;
  return dtype_bits(type.element) * type.lanes == kNativeVectorBits;
}

}  // namespace aipu::dsl
