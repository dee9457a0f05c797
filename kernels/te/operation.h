// What computes tensors. Immutable once made.
#pragma once

#include <string>
#include <vector>

#include "kernels/te/expr.h"

namespace aipu::te {

struct Tensor {
  OperationPtr op;
  int value_index = 0;

  const std::vector<Expr>& shape() const;
  Type type() const;  // of an element
  std::string name() const;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct Placeholder {
  std::vector<Expr> shape;
  Type type;
};

// Element [i, j, ...] of output v is body[v] over the variables of `axis`. Bodies are all reductions or none is.
struct Compute {
  std::vector<IterVarPtr> axis, reduce_axis;
  std::vector<Expr> body;
  std::vector<Expr> shape;  // the extents of `axis`
};

struct Operation {
  std::string name, tag;
  std::variant<Placeholder, Compute> what;

  const Compute* compute() const { return std::get_if<Compute>(&what); }
  int output_count() const;
  const Reduce* reduction() const;  // of body[0]; null if it is none
};

OperationPtr make_placeholder(std::string name, std::vector<Expr> shape, Type type);
// Errors: reductions that are not at the top, or differ between the outputs; axes that are not what they have to be.
Result<OperationPtr> make_compute(std::string name, std::string tag, std::vector<IterVarPtr> axis,
                                  std::vector<Expr> body);

// The result for one output of reducing `source` over `axis`. `condition` and `init` may be absent.
Result<Expr> make_reduce(CombinerPtr combiner, std::vector<Expr> source, std::vector<IterVarPtr> axis, Expr condition,
                         std::vector<Expr> init, int value_index);

// The tensors that an expression, or an operation, reads: in order of first use, without repetitions.
std::vector<Tensor> tensors_read(const Expr& expr);
std::vector<Tensor> tensors_read(const Operation& op);

// An operation and all that it needs, producers first, depth first in the order of their inputs.
std::vector<OperationPtr> operations_below(const std::vector<OperationPtr>& outputs);

// An element of a tensor. Errors: the number of indices, indices that are no integers.
Result<Expr> element(const Tensor& tensor, std::vector<Expr> indices);

}  // namespace aipu::te
