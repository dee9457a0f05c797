// Constant weights of few bits with a scale for each block of the depth, as DequantizeLinear has them and as
// aipu::BlockQuantizedMatMul does. Private to block_quantized_products.cpp.
#pragma once

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "runtime/base/stored_type.h"

namespace aipu::graph {

// A matrix of codes with a scale, and perhaps a zero point, for each block of an axis.
struct BlockWeights {
  const Constant* codes = nullptr;
  const Constant* scales = nullptr;
  const Constant* zeros = nullptr;  // null: 0
  size_t axis = 0;                  // that has blocks
  int64_t block = 0;
  DType format = DType::kVoid;  // of codes that are floats; void: they are integers

  int64_t extent(size_t k) const { return codes->shape()[k]; }
  int64_t blocks() const { return scales->shape()[axis]; }
  // Of an element or block: the place `along` the axis that has blocks and `across`.
  size_t place(const Constant& in, int64_t along, int64_t across) const {
    return static_cast<size_t>(axis == 0 ? along * in.shape()[1] + across : across * in.shape()[1] + along);
  }
};

// The operands of aipu::BlockQuantizedMatMul behind the first, and its attributes.
struct BlockOperands {
  ConstantPtr codes, scales, zeros, table;
  int64_t bits = 0;
  DType format = DType::kVoid;
};

// Codes that the kernels of a target multiply: 4 bits each where they fit, as those of int4 and uint4 do behind
// lower_stored_types, and float4e2m1 where bytes come from tables in registers; else 8: also floats whose numbers are
// integers of 8 bits times a power of two, which the scales take, and those that are upper halves of float16 numbers,
// shifted by a bit or not, where kernels convert these. Nullopt: others, which are float32 weights. That includes NaN
// and infinity.
std::optional<BlockOperands> block_operands(const BlockWeights& weights, const PassContext& target);
// Whether kernels of a target multiply by such weights.
bool reads_weights(const BlockOperands& weights, const PassContext& target);

// The weights in float32.
ConstantPtr dense(const BlockWeights& weights);
// [N, K].
ConstantPtr dense(const BlockOperands& weights, int64_t block, int64_t depth);

}  // namespace aipu::graph
