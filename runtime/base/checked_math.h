// Overflow-checked arithmetic on sizes. Nothing that comes from a file or a caller is added or multiplied without it.
#pragma once

#include <cstdint>
#include <optional>

namespace aipu {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace aipu
