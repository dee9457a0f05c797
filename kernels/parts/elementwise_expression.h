// Elementwise ops as DSL expressions, and the growing of fused groups.
//
// Each elementwise op of the graph has one row (elementwise_rows.cpp) that writes it as an expression of its
// operands, or is a function of its user's (graph::OpDef::value); a fused group is a function of all. Templates take
// that as a parameter, so no template contains an activation.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/parts/expression.h"
#include "kernels/parts/user_value.h"
#include "kernels/plugin.h"
#include "runtime/base/status.h"

namespace aipu::kernels {

// Whether there is a row for the node's op, or a function of its own.
bool is_elementwise_expression(const graph::Graph& graph, const graph::Node& node);
// Whether the row covers the node's dtypes and attributes; unsupported() says what it does not.
Status check_elementwise(const graph::Graph& graph, const graph::Node& node);

// A set of elementwise nodes with one escaping value, as one function.
struct FusedExpression {
  // distinct values from outside, in order of x[k]
  std::vector<graph::ValueId> operands;
  // What it looks up by itself, x[operands.size() + k]: pointers.
  std::vector<graph::ConstantPtr> tables;
  // Constants of one element and numbers from attributes, x[k] behind those: arguments of the launch, so that one
  // kernel serves all that differ only in numbers. Those that decide what is computed (an exponent of 2) are in the
  // source.
  struct Number {
    std::variant<int64_t, double> value;
    DType dtype = DType::kF32;
  };
  std::vector<Number> numbers;
  graph::ValueId result;
  ExpressionFunction function;  // of x; uses VL from the template
  UserFunctions functions;      // names that it uses, for the template that takes it
  bool looks_up = false;        // with functions in pieces: best in a loop that keeps their tables in registers
  // What it may report, by S.report_fault(FAULTS[i], ...). If it may, it has a parameter `active`, the mask of the
  // lanes that count, or None.
  std::vector<Fault> faults;
};

// The function of `nodes` (topological order). Where `seed` is valid, that value is a parameter `v` before `x` instead
// of an operand: the form that a template's epilogue takes.
// With `numbers_in_source` all constants of one element are there. With `in_pieces` functions that there are
// polynomials of pieces for are such (templates/pieces.py). Without `has_fma` the target rounds products and sums
// apart, and what is exact by fused ones only is written in another way.
Result<FusedExpression> fuse_expression(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes,
                                        graph::ValueId seed = {}, bool numbers_in_source = false,
                                        bool in_pieces = false, bool has_fma = true);

// Whether the node's expression has faults.
bool elementwise_reports(const graph::Graph& graph, graph::NodeId node);

// Whether a group of these nodes has to store a value that one of them makes: others read it, or nobody does, for a
// result that nobody asked for is the group's all the same.
bool leaves_group(const graph::Graph& graph, graph::ValueId value, std::span<const graph::NodeId> group);

// Extends {anchor} by the elementwise nodes after it (and their elementwise side inputs, where nobody else needs those)
// that can run in the same index space as the anchor's output. The result is in topological order, and only the last
// node's output is used outside.
std::vector<graph::NodeId> grow_elementwise_group(const graph::Graph& graph, graph::NodeId anchor);

}  // namespace aipu::kernels
