// What reading an attribute wrongly comes to.
#pragma once

#include <stdexcept>

#include "graph/ir/op_def.h"

namespace aipu::graph {

// Thrown by the readers of Attributes when there is no attribute of that name, or one of another kind: nodes have been
// checked against their records, so that whoever reads has the name or the kind wrong. A bug of an op's rule, a pass or
// a plugin; whoever calls these adds the node.
class AttributeError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// What `function` gives, a Status or a Result; an AttributeError of it as one of these. The caller adds the node.
template <typename Function>
auto catch_attribute_error(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const AttributeError& error) {
    return internal_error(error.what());
  }
}

AttributeKind kind_of(const AttributeValue& value);
std::string_view kind_name(AttributeKind kind);

}  // namespace aipu::graph
