// Structure, schemas and types of a graph.
#include <set>

#include "graph/ir/op_def.h"

namespace aipu::graph {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Status run() {
    AIPU_RETURN_IF_ERROR(check_values());
    size_t live = 0;
    for (size_t index = 0; index < graph_.node_count(); ++index) {
      const NodeId id{static_cast<int32_t>(index)};
      const Node& node = graph_.node(id);
      if (node.erased) continue;
      ++live;
      if (Status status = check_links(id, node); !status.ok()) return std::move(status).context(where(id));
    }
    for (const Graph::Output& output : graph_.outputs()) {
      if (!exists(output.value)) return broken(str_cat("output '", output.name, "' is not a live value"));
    }
    if (!graph_.users_are_consistent())
      return broken("a node's inputs were changed through a reference that was kept too long; use set_input()");
    AIPU_RETURN_IF_ERROR(check_symbols());
    const auto order = graph_.topological_order();
    if (order.size() != live) return invalid_model(str_cat("the graph '", graph_.name, "' has a cycle"));
    for (const NodeId id : order) {
      if (Status status = check_node(id); !status.ok()) return std::move(status).context(where(id));
    }
    return {};
  }

 private:
  Status broken(std::string_view what) const { return internal_error(str_cat("graph '", graph_.name, "': ", what)); }

  std::string where(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::string origins = origins_text(node.origins);
    return origins.empty() ? str_cat("node ", id.index, " (", node.op, ")") : str_cat("node ", origins);
  }

  bool exists(ValueId id) const {
    return id.valid() && static_cast<size_t>(id.index) < graph_.value_count() && !graph_.value(id).erased;
  }

  Status check_values() const {
    std::set<ValueId> inputs(graph_.inputs().begin(), graph_.inputs().end());
    std::set<std::string_view> names;
    for (size_t index = 0; index < graph_.value_count(); ++index) {
      const ValueId id{static_cast<int32_t>(index)};
      const Value& value = graph_.value(id);
      if (value.erased) {
        if (inputs.contains(id)) return broken(str_cat("input %", value.name, " is erased"));
        continue;
      }
      if (value.name.empty() || !names.insert(value.name).second)
        return broken(str_cat("value name '", value.name, "' is empty or taken"));
      const int definitions =
          (value.producer.valid() ? 1 : 0) + (value.constant != nullptr ? 1 : 0) + (inputs.contains(id) ? 1 : 0);
      if (definitions != 1)
        return broken(str_cat("%", value.name, " must be one of node output, constant and graph input"));
      if (value.constant != nullptr && value.constant->type() != value.type)
        return broken(str_cat("%", value.name, " is not typed as its constant"));
      if (value.type.dtype == DType::kVoid) return broken(str_cat("%", value.name, " has no element type"));
      for (const Dim& extent : value.type.shape) {
        if (const auto high = extent.upper_bound(); high && *high < 0) {
          return invalid_model(str_cat("%", value.name, ": ", value.type.text(), " has a negative extent"));
        }
      }
      if (value.data && element_count(value.type.shape) != Dim(static_cast<int64_t>(value.data->size()))) {
        return broken(
            str_cat("%", value.name, ": ", value.type.text(), " has ", value.data->size(), " known elements"));
      }
    }
    return {};
  }

  Status check_links(NodeId id, const Node& node) const {
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k].valid() && !exists(node.inputs[k]))
        return broken(str_cat("input ", k, " is not a live value"));
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].valid()) continue;
      if (!exists(node.outputs[k])) return broken(str_cat("output ", k, " is not a live value"));
      const Value& value = graph_.value(node.outputs[k]);
      if (value.producer != id || value.output_index != static_cast<int>(k))
        return broken(str_cat("%", value.name, " names another producer"));
    }
    return {};
  }

  Status check_symbols() const {
    for (const Symbol& symbol : graph_.symbols()) {
      if (!exists(symbol.value)) return broken(str_cat("symbol ", symbol.name, " is bound to a value that is gone"));
      const TensorType& type = graph_.type(symbol.value);
      const bool extent = symbol.kind == Symbol::Kind::kInputExtent;
      const int64_t limit = extent ? type.rank() : element_count(type.shape).constant_or(0);
      if (symbol.index < 0 || symbol.index >= limit)
        return broken(str_cat("symbol ", symbol.name, ": index ", symbol.index, " is out of range"));
      if (extent && graph_.value(symbol.value).producer.valid())
        return broken(str_cat("symbol ", symbol.name, " is no extent of an input"));
      if (!extent && !is_integer(type.dtype) && !is_bool(type.dtype))
        return broken(str_cat("symbol ", symbol.name, " is no integer"));
    }
    return {};
  }

  Status check_node(NodeId id) const {
    const Node& node = graph_.node(id);
    const OpDef* def = graph_.find_op(node.op);
    if (def == nullptr) return unsupported(str_cat(node.op, ": no such op is known"));
    AIPU_RETURN_IF_ERROR(check_complete_node(*def, graph_, node));
    for (const auto& subgraph : node.subgraphs) {
      if (Status status = verify_graph(*subgraph); !status.ok())
        return std::move(status).context(str_cat("sub-graph '", subgraph->name, '\''));
    }
    // A type rule may ask for run symbols, but all that could be asked for exist since the node was added.
    InferContext context(const_cast<Graph&>(graph_), node);
    if (Status status = def->infer(context); !status.ok()) return std::move(status).context(def->name);
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].valid()) continue;
      const TensorType& found = graph_.type(node.outputs[k]);
      const TensorType& expected = context.output_types[k];
      bool same = found.dtype == expected.dtype && found.rank() == expected.rank();
      for (int axis = 0; same && axis < found.rank(); ++axis) {
        const Dim difference = found.shape[static_cast<size_t>(axis)] - expected.shape[static_cast<size_t>(axis)];
        const auto low = difference.lower_bound();
        const auto high = difference.upper_bound();
        same = !(low && *low > 0) && !(high && *high < 0);
      }
      if (!same) {
        return internal_error(str_cat(node.op, ": output ", k, " %", graph_.value(node.outputs[k]).name, " is typed ",
                                      found.text(), ", its op yields ", expected.text()));
      }
    }
    return {};
  }

  const Graph& graph_;
};

}  // namespace

Status verify_graph(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace aipu::graph
