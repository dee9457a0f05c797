// What of a target's types its machine has.
#pragma once

#include "codegen/targets/target.h"

namespace aipu::tir {

// NPUs have nothing of 64 bits, which their functional model computes with all the same. Kernels that need more are
// left to a host, if one computes beside the NPU.
inline bool machine_has(const Target& target, DType type) {
  return target.has(type) && (target.generation == 0 || dtype_bits(type) <= 32);
}

}  // namespace aipu::tir
