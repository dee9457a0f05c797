// What computes tensors. Immutable once made.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/te/expr.h"

namespace aipu::te {

struct StmtNode;
using Stmt = std::shared_ptr<StmtNode>;

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

struct TensorIntrin;

// The call of an intrinsic, of which all elements of an output's inner axes are made at once.
struct TensorCall {
  std::shared_ptr<const TensorIntrin> intrin;
  size_t schedulable = 0, reduced = 0;      // data and reduction axes before those of the intrinsic
  std::vector<Tensor> inputs;               // in the order of the intrinsic's
  std::vector<std::vector<Range>> regions;  // of the inputs, over the axes before those of the intrinsic
  // Of the variables of the intrinsic: extents of its buffers, scalar parameters.
  std::vector<std::pair<Expr, Expr>> values;
};

// Element [i, j, ...] of output v is body[v] over the variables of `axis`. Bodies are all reductions or none is.
struct Compute {
  std::vector<IterVarPtr> axis, reduce_axis;
  std::vector<Expr> body;
  std::vector<Expr> shape;  // the extents of `axis`
  // What makes the elements; `body` is what they are. Null: the loops over all axes.
  std::shared_ptr<const TensorCall> call = nullptr;

  bool inside_call(const IterVar* iter) const;  // whether the intrinsic goes over the axis
};

// State over time: output s is init[s] for the first init[s].shape[0] steps, then update[s], which reads what was
// computed before as state[s]. What depends on a state or on `inputs` is computed once per step.
struct Scan {
  IterVarPtr axis;  // the steps that are updated
  std::vector<Tensor> init, update, state, inputs;
  std::vector<IterVarPtr> spatial;  // opaque: one per state and dimension but the first
};

// Tensors that a statement computes whole. It reads and writes placeholders, one per input and output.
struct Extern {
  std::vector<Tensor> inputs;
  std::vector<Tensor> input_buffers, output_buffers;
  Stmt body;
};

struct Operation {
  std::string name, tag;
  std::variant<Placeholder, Compute, Scan, Extern> what;
  std::vector<std::pair<std::string, Expr>> attrs = {};  // of the user, not looked at

  const Compute* compute() const { return std::get_if<Compute>(&what); }
  const Scan* scan() const { return std::get_if<Scan>(&what); }
  const Extern* external() const { return std::get_if<Extern>(&what); }
  bool is_placeholder() const { return std::holds_alternative<Placeholder>(what); }
  int output_count() const;
  const Reduce* reduction() const;  // of body[0]; null if it is none
};

OperationPtr make_placeholder(std::string name, std::vector<Expr> shape, Type type);
// Errors: reductions that are not at the top, or differ between the outputs; axes that are not what they have to be.
Result<OperationPtr> make_compute(std::string name, std::string tag, std::vector<IterVarPtr> axis,
                                  std::vector<Expr> body);

// Errors: types, ranks or extents of the three that differ, more steps in `init` than in `update`.
Result<OperationPtr> make_scan(std::string name, std::string tag, Scan scan);

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
