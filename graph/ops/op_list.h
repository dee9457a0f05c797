// The built-in ops: one list of families. The records of a family `foo` are what foo_ops() in foo.cpp returns.
#pragma once

#include <string>
#include <vector>

#include "graph/ops/axis_rules.h"
#include "graph/ops/infer.h"

namespace aipu::graph {

// Every built-in op's record; built once per call.
std::vector<OpDef> builtin_ops();

// clang-format off
#define AIPU_OP_FAMILIES(X) \
  X(elementwise) \
  X(reshape) \
  X(movement) \
  X(generate) \
  X(gather) \
  X(reduce) \
  X(conv) \
  X(pool) \
  X(sampling) \
  X(resize) \
  X(matmul) \
  X(einsum) \
  X(quantized) \
  X(stored) \
  X(normalization) \
  X(recurrent) \
  X(select) \
  X(loss) \
  X(trees) \
  X(signal) \
  X(control)
// clang-format on

#define AIPU_DECLARE(family) std::vector<OpDef> family##_ops();
AIPU_OP_FAMILIES(AIPU_DECLARE)
#undef AIPU_DECLARE

}  // namespace aipu::graph
