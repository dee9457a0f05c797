#include "runtime/base/stored_type.h"

#include <bit>
#include <cmath>
#include <limits>

#include "runtime/base/checked_math.h"

namespace aipu {

namespace {

using Special = SmallFloat::Special;

constexpr StoredType kStoredTypes[] = {
    {DType::kF8E4M3FN, DType::kU8, SmallFloat{4, 3, 7, Special::kAllOnes}},
    {DType::kF8E4M3FNUZ, DType::kU8, SmallFloat{4, 3, 8, Special::kNegativeZero}},
    {DType::kF8E5M2, DType::kU8, SmallFloat{5, 2, 15, Special::kIeee}},
    {DType::kF8E5M2FNUZ, DType::kU8, SmallFloat{5, 2, 16, Special::kNegativeZero}},
    {DType::kF8E8M0, DType::kU8, SmallFloat{8, 0, 127, Special::kAllOnes, false}},
    {DType::kF6E2M3, DType::kU8, SmallFloat{2, 3, 1, Special::kNone}},
    {DType::kF6E3M2, DType::kU8, SmallFloat{3, 2, 3, Special::kNone}},
    {DType::kF4E2M1, DType::kU8, SmallFloat{2, 1, 1, Special::kNone}},
    {DType::kI4, DType::kI8, {}},
    {DType::kU4, DType::kU8, {}},
    {DType::kI2, DType::kI8, {}},
    {DType::kU2, DType::kU8, {}},
    {DType::kC64, DType::kU64, {}},
    {DType::kString, DType::kI64, {}},
};

}  // namespace

std::span<const StoredType> stored_types() { return kStoredTypes; }

const StoredType* stored_type(DType dtype) {
  for (const StoredType& row : kStoredTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

DType held_as(DType dtype) {
  const StoredType* stored = stored_type(dtype);
  return stored != nullptr ? stored->held_as : dtype;
}

float value_of_code(const SmallFloat& type, uint8_t code) {
  const int magnitude = code & ((1 << type.magnitude_bits()) - 1);
  const bool negative = (code & type.sign_bit()) != 0;
  if (!type.is_signed)
    return magnitude == type.nan() ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, magnitude - type.bias);
  if (type.special == Special::kNegativeZero && negative && magnitude == 0)
    return std::numeric_limits<float>::quiet_NaN();
  if (magnitude > type.greatest()) {
    const bool infinite = type.special == Special::kIeee && magnitude == type.infinity();
    return std::copysign(infinite ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN(),
                         negative ? -1.0F : 1.0F);
  }
  const int exponent = magnitude >> type.mantissa_bits, mantissa = magnitude & ((1 << type.mantissa_bits) - 1);
  const int implicit = exponent > 0 ? 1 << type.mantissa_bits : 0;
  const float value =
      std::ldexp(static_cast<float>(mantissa + implicit), std::max(exponent, 1) - type.bias - type.mantissa_bits);
  return negative ? -value : value;
}

std::optional<int64_t> packed_bytes(DType dtype, int64_t count) {
  if (!is_packed(dtype)) return checked_mul(count, static_cast<int64_t>(dtype_bytes(dtype)));
  const auto bits = checked_mul(count, static_cast<int64_t>(dtype_bits(dtype)));
  if (!bits) return std::nullopt;
  return *bits / 8 + (*bits % 8 != 0 ? 1 : 0);
}

std::optional<int64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  std::optional<int64_t> count = 1;
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    empty |= extent == 0;
    if (count) count = checked_mul(*count, extent);
  }
  if (empty) return 0;
  return count ? packed_bytes(dtype, *count) : std::nullopt;
}

std::vector<std::byte> unpack(DType dtype, std::span<const std::byte> packed, int64_t count) {
  const auto bits = static_cast<unsigned>(dtype_bits(dtype));
  const unsigned mask = (1U << bits) - 1;
  const unsigned sign = held_as(dtype) == DType::kI8 ? 1U << (bits - 1) : 0;
  std::vector<std::byte> elements(static_cast<size_t>(count));
  for (size_t k = 0; k < elements.size(); ++k) {
    const size_t first = k * bits;
    unsigned value = std::to_integer<unsigned>(packed[first / 8]);
    if (first % 8 + bits > 8) value |= std::to_integer<unsigned>(packed[first / 8 + 1]) << 8;
    value = value >> (first % 8) & mask;
    elements[k] = static_cast<std::byte>((value ^ sign) - sign);
  }
  return elements;
}

std::vector<std::byte> pack(DType dtype, std::span<const std::byte> elements) {
  const auto bits = static_cast<unsigned>(dtype_bits(dtype));
  const unsigned mask = (1U << bits) - 1;
  std::vector<std::byte> packed((elements.size() * bits + 7) / 8);
  for (size_t k = 0; k < elements.size(); ++k) {
    const size_t first = k * bits;
    const unsigned value = (std::to_integer<unsigned>(elements[k]) & mask) << (first % 8);
    packed[first / 8] |= static_cast<std::byte>(value);
    if (first % 8 + bits > 8) packed[first / 8 + 1] |= static_cast<std::byte>(value >> 8);
  }
  return packed;
}

}  // namespace aipu
