// The strided map: out[index] = compute(in_0[index], in_1[index], ...) over an N-dimensional index space, every operand
// with strides of its own.
//
// It is the one kernel behind fused elementwise expressions with broadcasting (stride 0), transposes, slices,
// expansions and interior copies (identity with permuted, scaled or negative strides). This file turns symbolic shapes
// into the fewest merged dimensions and launches templates/elementwise.py.
#pragma once

#include <string>
#include <vector>

#include "kernels/parts/elementwise_expression.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// One operand of the map. Strides count elements, one per dimension of the index space, outermost first; 0 broadcasts.
struct MapOperand {
  TensorRef tensor;
  DType dtype = DType::kVoid;
  graph::Dim element_offset = 0;
  std::vector<graph::Dim> strides;
  bool is_table = false;  // the expression gets the pointer itself; strides are 0

  PointerArgument pointer() const {
    return {tensor, element_offset * graph::Dim(static_cast<int64_t>(dtype_bytes(dtype)))};
  }
};

struct StridedMap {
  graph::Shape dims;
  std::vector<MapOperand> inputs;
  MapOperand output;
  // x[inputs.size() + k]: the same for all elements, arguments of the launch.
  std::vector<FusedExpression::Number> numbers;
  // DSL source of `def compute(x)`: x[k] is the value of input k in its compute form (below), the result that of the
  // output. Empty: the identity copy of input 0, whatever its dtype.
  std::string compute_source;
  UserFunctions functions;  // that it calls
  // The first dimension is that of samples and is merged with none, so that operands can be parts of wider ones
  // (Implementation::strided_samples).
  bool keeps_samples = false;
};

// Of the launch made last: operands which have the map's first dimension as their first axis, alone, may have their
// samples further apart. `pointers` and `strides` are the kernel's parameters for the inputs and then the output.
void declare_strided_samples(SetupContext& context, const StridedMap& map, const std::vector<std::string>& pointers,
                             const std::vector<std::string>& strides);

// How values appear inside compute expressions: bool as a mask, fp16 and bf16 as float32, everything else as itself.
DType compute_dtype(DType stored);

// Element strides of a contiguous tensor.
std::vector<graph::Dim> contiguous_strides(const graph::Shape& shape);
// Strides that read `shape` (contiguous) as if it were broadcast to `to` by ONNX's multidirectional rule; extents that
// are symbolic on both sides and not provably equal are decided when the shapes are bound (graph/ops/assumptions.h).
std::vector<graph::Dim> broadcast_strides(const graph::Shape& shape, const graph::Shape& to);

// For a kernel that copies input 0 of the map: RANK, dim_types, stride_types, and its arguments source, target, dims
// and strides (those of the source, then those of the target). `order`: the dimensions as the kernel walks them.
void bind_copy(const StridedMap& map, const std::vector<size_t>& order, dsl::TemplateParams* params,
               KernelArguments* arguments);

// A number as a kernel's parameter, and as the argument for it.
dsl::Captured number_type(const FusedExpression::Number& number);
KernelArgument number_argument(const FusedExpression::Number& number);

// Adds the launch to the context. With `faults`, the codes that `compute` reports by as FAULTS[i], it is `def
// compute(x, active)`: elementwise_expression.h.
Status launch_strided_map(SetupContext& context, StridedMap map);
Status launch_strided_map(SetupContext& context, StridedMap map, const std::vector<int64_t>& faults);

}  // namespace aipu::kernels
