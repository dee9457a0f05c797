// Operators whose declaration has a tensor expression (op.register(..., compute=...)): what it computes from the
// operands of a node. The functions that it may call are those of the table in tensor_definition.cpp.
#pragma once

#include <vector>

#include "kernels/script_op/binding.h"
#include "kernels/te/operation.h"

namespace aipu::kernels::script_op {

class TensorDefinition {
 public:
  // Of a node whose types and extents are bound. Errors are those of the function, "file:line:column: text", or name
  // the output that is not what is declared.
  static Result<TensorDefinition> of(const Declaration& declaration, const Inputs& inputs,
                                     const graph::Attributes& attributes, const Binding& binding);

  const std::vector<te::Tensor>& inputs() const { return inputs_; }    // per operand; without `op` where it is left out
  const std::vector<te::Tensor>& outputs() const { return outputs_; }  // of the declaration
  // Positions are computed in 64 bits.
  bool wide_indices() const { return index_type_.element == DType::kI64; }
  // The extent that an expression of sizes stands for.
  Result<graph::Dim> dim(const te::Expr& e) const;
  Result<graph::Shape> shape(const te::Tensor& tensor) const;

 private:
  te::Expr extent(const graph::Dim& dim);

  tir::Type index_type_ = tir::Type::scalar(DType::kI32);
  std::vector<te::Tensor> inputs_, outputs_;
  std::vector<std::pair<te::Expr, graph::Dim>> symbols_;
};

}  // namespace aipu::kernels::script_op
