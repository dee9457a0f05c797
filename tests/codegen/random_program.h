// Random, well-typed TIR programs whose every access is in bounds: what passes and the text form are tried on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/tir/interpreter.h"
#include "codegen/tir/stmt.h"

namespace aipu::tir::testing {

struct RandomProgramOptions {
  bool wide_vectors = true;  // of any number of lanes; otherwise only scalars
  int statements = 12;
  bool long_elements = true;  // 64-bit integers and float64 as well
};

// An entry with one global buffer per element type (kRandomBufferBytes each, u8 i8 i16 u16 i32 u32 i64 f16 f32 f64
// bf16, in this order) and an int32 scalar, and helper functions.
Module random_program(uint64_t seed, const RandomProgramOptions& options = {});

constexpr size_t kRandomBufferBytes = 16384;

// The buffers after running it with one TEC on contents that follow from the seed.
Result<std::vector<std::vector<std::byte>>> run_random_program(const Module& module, uint64_t seed);

// Whether two runs agree; NaNs of equal types are equal. `where` says the first difference.
bool same_buffers(const std::vector<std::vector<std::byte>>& a, const std::vector<std::vector<std::byte>>& b,
                  std::string& where);

}  // namespace aipu::tir::testing
