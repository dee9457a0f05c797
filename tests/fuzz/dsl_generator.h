// Random programs in Compass DSL source: well-typed by the rules of the language, every access in bounds, no result
// that the language leaves undefined. What runs them twice must get the same memory twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace aipu::dsl_test {

// A pointer parameter of each of these, in this order, then `n: S.i32`.
inline constexpr DType kGeneratorTypes[] = {DType::kI8,  DType::kU8,  DType::kI16,  DType::kU16, DType::kI32,
                                            DType::kU32, DType::kF16, DType::kBF16, DType::kF32};
inline constexpr size_t kGeneratorBufferBytes = 4096;
inline constexpr int kGeneratorScalar = 5;  // n

struct GeneratedProgram {
  std::string source;                   // with an entry "f"
  std::vector<std::string> intrinsics;  // of S that it uses, for coverage
};

GeneratedProgram generate_program(uint64_t seed);

}  // namespace aipu::dsl_test
