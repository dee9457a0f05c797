#include "gbuilder/fix_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/passes/pass.h"

namespace aipu::gbuilder {

Status fix_shapes(const std::map<std::string, std::vector<int64_t>>& shapes, graph::Graph* graph) {
  std::map<std::string, int64_t> values;
  for (const auto& [name, extents] : shapes) {
    const auto& inputs = graph->inputs();
    const auto input = std::find_if(inputs.begin(), inputs.end(),
                                    [&, &name = name](graph::ValueId id) { return graph->value(id).name == name; });
    if (input == inputs.end()) return not_found(fmt::format("--shape: the model has no input '{}'", name));
    const graph::Shape& shape = graph->type(*input).shape;
    if (shape.size() != extents.size()) {
      return invalid_argument(fmt::format("--shape: input '{}' has the shape {}, {} extents are given", name,
                                          graph::shape_text(shape), extents.size()));
    }
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      const int64_t extent = extents[axis];
      if (extent < 0) continue;
      const bool is_symbol = shape[axis].op() == graph::DimOp::kSymbol;
      const bool fits = is_symbol ? values.emplace(shape[axis].symbol_name(), extent).first->second == extent
                                  : shape[axis] == graph::Dim(extent);
      if (!fits) {
        return invalid_argument(fmt::format("--shape: input '{}' has the shape {}, extent {} cannot be {}", name,
                                            graph::shape_text(shape), axis, extent));
      }
    }
  }
  if (values.empty()) return {};
  graph->substitute_symbols([&](const std::string& name) {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional<graph::Dim>(it->second);
  });
  return graph::verify_graph(*graph);
}

}  // namespace aipu::gbuilder
