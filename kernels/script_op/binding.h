// A declared operator meets the types of a node: what every name of the declaration stands for there.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/script_op/declaration.h"

namespace aipu::kernels::script_op {

struct Binding {
  std::map<std::string, DType, std::less<>> types;         // of the type variables
  std::map<std::string, graph::Dim, std::less<>> extents;  // of the named extents, "...rows" as the product
  std::map<std::string, graph::Shape, std::less<>> rests;  // the extents behind a "...rows"
  std::vector<graph::TensorType> outputs, workspace;       // in the order of the declaration
  // extents of one name that are known to be equal only at run time
  std::vector<std::pair<graph::Dim, graph::Dim>> must_agree;
};

// Errors: what does not fit, naming the operand, what was expected and what was found; what the check function returns.
Result<Binding> bind(const Declaration& declaration, std::span<const graph::TensorType> inputs,
                     const graph::Attributes& attributes);

// The element type that a declaration's `type` stands for.
DType dtype_of(const std::variant<std::string, DType>& type, const Binding& binding);

}  // namespace aipu::kernels::script_op
