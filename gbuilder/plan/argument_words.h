// Constant kernel arguments as the words of the kernel ABI (runtime/abi/kernel_abi.h).
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "runtime/base/dtype.h"
#include "runtime/base/half.h"

namespace aipu::gbuilder {

// nullopt if the value does not fit the parameter's type.
inline std::optional<uint64_t> integer_word(int64_t value, DType dtype) {
  const int bits = dtype_bits(dtype);
  if (is_bool(dtype)) return value != 0 ? 1 : 0;
  if (bits >= 64) return static_cast<uint64_t>(value);
  const int64_t low = is_signed_int(dtype) ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = is_signed_int(dtype) ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  if (value < low || value > high) return std::nullopt;
  return static_cast<uint64_t>(value);
}

inline uint64_t float_word(double value, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::bit_cast<uint64_t>(value);
    case DType::kF16:
      return f16_from_f32(static_cast<float>(value));
    case DType::kBF16:
      return bf16_from_f32(static_cast<float>(value));
    default:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

}  // namespace aipu::gbuilder
