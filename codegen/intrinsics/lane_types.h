// The C++ types of lanes, and what every operation is computed in: fp16 and bf16 in float, everything else in itself.
// Private to codegen/intrinsics and the interpreter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "codegen/tir/expr.h"
#include "runtime/base/dtype.h"
#include "runtime/base/half.h"

namespace aipu::tir {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
struct Bool {
  uint8_t value;
};

template <typename T>
constexpr bool kIs16BitFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;
template <typename T>
constexpr bool kIsFloatLane = kIs16BitFloat<T> || std::is_floating_point_v<T>;
template <typename T>
constexpr bool kIsIntLane = std::is_integral_v<T>;

inline float to_compute(Half h) { return f32_from_f16(h.bits); }
inline float to_compute(BFloat b) { return f32_from_bf16(b.bits); }
inline bool to_compute(Bool b) { return b.value != 0; }
template <typename T>
requires std::is_arithmetic_v<T>
inline T to_compute(T value) { return value; }
template <typename T>
using ComputeType = decltype(to_compute(T{}));

// A value of the compute type back to the lane type: rounds 16-bit floats.
template <typename T>
inline T from_compute(ComputeType<T> value) {
  if constexpr (std::is_same_v<T, Half>) {
    return {f16_from_f32(value)};
  } else if constexpr (std::is_same_v<T, BFloat>) {
    return {bf16_from_f32(value)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>(value)};
  } else {
    return value;
  }
}

// Truncation that saturates at the range of an integer type; NaN gives 0.
template <typename Int, typename Float>
inline Int saturating_truncate(Float value) {
  // The first values outside, both exact.
  constexpr Float kBelow = static_cast<Float>(std::numeric_limits<Int>::min());
  constexpr Float kAbove = -kBelow;
  return value != value    ? 0
         : value >= kAbove ? std::numeric_limits<Int>::max()
         : value <= kBelow ? std::numeric_limits<Int>::min()
                           : static_cast<Int>(value);
}

// The conversion of intrinsics.md 7.1 without saturation. From: a compute type (bool, an integer, float, double).
template <typename To, typename From>
inline To convert_lane(From value) {
  if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(value != From{})};
  } else if constexpr (kIs16BitFloat<To>) {
    return from_compute<To>(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if constexpr (sizeof(To) == 8) {
      return static_cast<To>(saturating_truncate<int64_t>(value));
    } else if constexpr (sizeof(From) == 4) {
      return static_cast<To>(saturating_truncate<int32_t>(static_cast<double>(value)));
    } else {
      return static_cast<To>(saturating_truncate<int32_t>(value));
    }
  } else {
    return static_cast<To>(value);
  }
}

// Calls f(T{}) with the lane type of an element type; void and string call nothing and return false.
template <typename F>
inline bool with_lane_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kBool:
      return f(Bool{}), true;
    case DType::kI8:
      return f(int8_t{}), true;
    case DType::kU8:
      return f(uint8_t{}), true;
    case DType::kI16:
      return f(int16_t{}), true;
    case DType::kU16:
      return f(uint16_t{}), true;
    case DType::kI32:
      return f(int32_t{}), true;
    case DType::kU32:
      return f(uint32_t{}), true;
    case DType::kI64:
      return f(int64_t{}), true;
    case DType::kU64:
      return f(uint64_t{}), true;
    case DType::kF16:
      return f(Half{}), true;
    case DType::kBF16:
      return f(BFloat{}), true;
    case DType::kF32:
      return f(float{}), true;
    case DType::kF64:
      return f(double{}), true;
    default:
      return false;
  }
}

template <typename F>
inline bool with_int_type(DType dtype, F&& f) {
  return with_lane_type(dtype, [&]<typename T>(T value) {
    if constexpr (kIsIntLane<T>) f(value);
  });
}
template <typename F>
inline bool with_float_type(DType dtype, F&& f) {
  return with_lane_type(dtype, [&]<typename T>(T value) {
    if constexpr (kIsFloatLane<T>) f(value);
  });
}
template <typename F>
inline bool with_number_type(DType dtype, F&& f) {
  return with_lane_type(dtype, [&]<typename T>(T value) {
    if constexpr (!std::is_same_v<T, Bool>) f(value);
  });
}

// ---- the operations whose results have corner cases, for one lane in its compute type ----

template <typename T>
inline T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}
template <typename T>
inline T wrapping_sub(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) - static_cast<std::make_unsigned_t<T>>(b));
  else
    return a - b;
}
template <typename T>
inline T wrapping_mul(T a, T b) {
  // In 64 bits, so that narrow unsigned operands are not promoted to a signed int that overflows.
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}
template <typename T>
inline T lane_div(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return a == std::numeric_limits<T>::min() ? std::numeric_limits<T>::max() : static_cast<T>(-a);
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}
template <typename T>
inline T lane_mod(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <typename T>
inline T lane_max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return (a > b) | (b != b) ? a : b;
  else
    return a > b ? a : b;
}
template <typename T>
inline T lane_min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return (a < b) | (b != b) ? a : b;
  else
    return a < b ? a : b;
}
// NaN if one of them is (the first one that is); of equal ones the second.
template <typename T>
inline T lane_maximum(T a, T b) {
  return (a > b) | (a != a) ? a : b;
}
template <typename T>
inline T lane_minimum(T a, T b) {
  return (a < b) | (a != a) ? a : b;
}
// Scalars of 8 and 16 bits are shifted as 32-bit numbers and cut afterwards, as in C.
constexpr int scalar_shift_bits(int bits) { return bits < 32 ? 32 : bits; }
template <typename T>
inline uint64_t scalar_shift_count(T count) {
  return static_cast<uint64_t>(count) & static_cast<uint64_t>(scalar_shift_bits(static_cast<int>(sizeof(T)) * 8) - 1);
}
// Vector shifts: the count is read as unsigned.
template <typename T>
inline T lane_shl(T a, uint64_t count) {
  return count >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << count);
}
template <typename T>
inline T lane_shr(T a, uint64_t count) {
  if (count >= sizeof(T) * 8) return a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> count);
}

// Whether `comparison` holds of two numbers.
template <typename C>
constexpr bool lane_compare(BinaryOp comparison, C a, C b) {
  switch (comparison) {
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace aipu::tir
