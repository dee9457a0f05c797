// A declared operator meets the types of a node: what every name of the declaration stands for there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/script_op/declaration.h"

namespace aipu::kernels::script_op {

// The operands of a node: none where it leaves one out.
using Inputs = std::vector<std::optional<graph::TensorType>>;

struct Binding {
  std::map<std::string, DType, std::less<>> types;         // of the type variables
  std::map<std::string, graph::Dim, std::less<>> extents;  // of the named extents, "...rows" as the product
  std::map<std::string, graph::Shape, std::less<>> rests;  // the extents behind a "...rows"
  std::map<std::string, graph::Shape, std::less<>> lists;  // of functions of `extents` that return a list
  // In the order of the declaration; of outputs those of the node, and all that are not variadic.
  std::vector<graph::TensorType> outputs, workspace;
  // extents of one name that are known to be equal only at run time
  std::vector<std::pair<graph::Dim, graph::Dim>> must_agree;
};

// `outputs`: how many the node has. Errors: what does not fit, naming the operand, what was expected and what was
// found; what the check function returns.
Result<Binding> bind(const Declaration& declaration, const Inputs& inputs, const graph::Attributes& attributes,
                     size_t outputs);

// An attribute as a value of the declaration's functions.
dsl::Value attribute_value(const graph::AttributeValue& attribute, dsl::ValuePool& pool);

// The element type that a declaration's `type` stands for; of an input that the node leaves out perhaps nothing.
std::optional<DType> dtype_of(const std::variant<std::string, DType>& type, const Binding& binding);

}  // namespace aipu::kernels::script_op
