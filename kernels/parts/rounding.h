// Divisions of whole numbers that are not negative, rounded up.
#pragma once

#include <cstdint>

namespace aipu::kernels {

constexpr int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t rounded_up(int64_t a, int64_t b) { return ceil_of(a, b) * b; }

}  // namespace aipu::kernels
