// Overflow-checked arithmetic on sizes. Nothing that comes from a file or a caller is added or multiplied without it.
#pragma once

#include <cstdint>
#include <optional>

namespace aipu {

// How many elements behind a pointer 32-bit index arithmetic reaches: it may go a block beyond the last one.
constexpr int64_t kNarrowIndexElements = (int64_t{1} << 31) - (int64_t{1} << 16);

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
