// The values of user's elementwise ops (graph::ValueFunction) in fused expressions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ir/op_def.h"
#include "kernels/dsl/environment.h"
#include "kernels/parts/expression.h"

namespace aipu::kernels {

// The names that a fused expression's source uses beyond its own: functions of users' files, and what they are given.
struct UserFunctions {
  std::map<std::string, dsl::FileFunction> functions;
  std::map<std::string, dsl::Captured> constants;

  void bind(dsl::TemplateParams* params) const;
};

// A function of one of our templates, whose vectors have the lanes of the template that takes it.
dsl::FileFunction built_in_file_function(std::string_view file, std::string_view name);

// The function that computes the node's op, if it is of that kind.
const graph::ValueRule* user_value(const graph::Graph& graph, const graph::Node& node);

// The node's value over `operands` (empty ones are absent). `name` is new in the expression; what it needs is added to
// `functions`.
Result<Expression> user_expression(const graph::Graph& graph, const graph::Node& node,
                                   const std::vector<Expression>& operands, const std::string& name,
                                   UserFunctions* functions);

// An attribute as a compile-time value of a kernel.
dsl::Captured captured(const graph::AttributeValue& value);

}  // namespace aipu::kernels
