// Graph -> text. The grammar is described in graph/README.md; parser.cpp reads it back.
#include <fmt/format.h>

#include <cstring>

#include "graph/ir/constant_text.h"
#include "graph/ir/graph.h"
#include "graph/ir/text.h"

namespace aipu::graph {
namespace {

constexpr int64_t kInlineElements = 16;  // larger constants print as splat or hash

class Printer {
 public:
  explicit Printer(std::string* out) : out_(*out) {}

  void graph(const Graph& g, int depth) {
    indent(depth);
    out_ += str_cat("graph ", quoted(g.name));
    if (!g.symbol_scope.empty()) out_ += str_cat(" scope ", quoted(g.symbol_scope));
    if (g.captured_count != 0) out_ += str_cat(" captured ", g.captured_count);
    out_ += " {\n";
    for (const ValueId id : g.inputs()) {
      indent(depth + 1);
      out_ += "input ";
      definition(g, id);
      out_ += '\n';
    }
    for (size_t k = 0; k < g.value_count(); ++k) {
      const ValueId id{static_cast<int32_t>(k)};
      const Value& value = g.value(id);
      if (value.erased || value.constant == nullptr) continue;
      indent(depth + 1);
      out_ += str_cat("const ", value_name(value.name), " = ", constant_text(*value.constant, kInlineElements), "\n");
    }
    for (const NodeId id : g.topological_order()) node(g, g.node(id), depth + 1);
    for (const Symbol& symbol : g.symbols()) {
      indent(depth + 1);
      const std::string_view what = symbol.kind == Symbol::Kind::kInputExtent ? "extent" : "element";
      out_ += str_cat("symbol ", Dim::symbol(symbol.name).text(), " = ", what, ' ', symbol.index, " of ",
                      value_name(g.value(symbol.value).name), '\n');
    }
    for (const Graph::Output& output : g.outputs()) {
      indent(depth + 1);
      out_ += str_cat("output ", quoted(output.name), " = ", value_name(g.value(output.value).name), '\n');
    }
    indent(depth);
    out_ += "}\n";
  }

 private:
  void indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  void definition(const Graph& g, ValueId id) {
    const Value& value = g.value(id);
    out_ += str_cat(value_name(value.name), ": ", value.type.text());
    if (value.data) out_ += str_cat(" data ", shape_text(*value.data));
  }

  void node(const Graph& g, const Node& n, int depth) {
    indent(depth);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (k > 0) out_ += ", ";
      if (n.outputs[k].valid()) {
        definition(g, n.outputs[k]);
      } else {
        out_ += '_';
      }
    }
    out_ += " = ";
    out_ += is_plain_word(n.op) ? n.op : quoted(n.op);
    out_ += '(';
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (k > 0) out_ += ", ";
      out_ += n.inputs[k].valid() ? value_name(g.value(n.inputs[k]).name) : "_";
    }
    out_ += ')';
    if (!n.attributes.all().empty()) {
      out_ += " {";
      bool first = true;
      for (const auto& [name, value] : n.attributes.all()) {
        if (!first) out_ += ", ";
        first = false;
        out_ += str_cat(is_plain_word(name) ? name : quoted(name), '=');
        attribute(value);
      }
      out_ += '}';
    }
    for (size_t k = 0; k < n.origins.size(); ++k) {
      out_ += str_cat(k == 0 ? " from " : " + ", quoted(n.origins[k].name), " (", quoted(n.origins[k].op), ')');
    }
    if (!n.subgraphs.empty()) out_ += " with";
    out_ += '\n';
    for (const auto& subgraph : n.subgraphs) graph(*subgraph, depth + 1);
  }

  template <typename Elements, typename Print>
  void list(const Elements& elements, const Print& print) {
    out_ += '[';
    bool first = true;
    for (const auto& element : elements) {
      if (!first) out_ += ',';
      first = false;
      out_ += print(element);
    }
    out_ += ']';
  }

  void attribute(const AttributeValue& value) {
    struct Visitor {
      Printer& p;
      void operator()(int64_t v) const { p.out_ += std::to_string(v); }
      void operator()(double v) const { p.out_ += double_text(v); }
      void operator()(const std::string& v) const { p.out_ += quoted(v); }
      void operator()(DType v) const { p.out_ += dtype_name(v); }
      void operator()(const std::vector<int64_t>& v) const {
        p.list(v, [](int64_t x) { return std::to_string(x); });
      }
      void operator()(const std::vector<double>& v) const {
        p.out_ += "floats";
        p.list(v, double_text);
      }
      void operator()(const std::vector<std::string>& v) const {
        p.out_ += "strings";
        p.list(v, [](const std::string& x) { return quoted(x); });
      }
      void operator()(const Shape& v) const { p.out_ += "dims" + shape_text(v); }
      void operator()(const ConstantPtr& v) const { p.out_ += "tensor " + constant_text(*v, kInlineElements); }
    };
    std::visit(Visitor{*this}, value);
  }

  std::string& out_;
};

void collect(const Graph& graph, ConstantTable* table) {
  for (size_t k = 0; k < graph.value_count(); ++k) {
    const Value& value = graph.value(ValueId{static_cast<int32_t>(k)});
    if (!value.erased && value.constant != nullptr)
      table->by_hash.emplace(value.constant->hash().hex(), value.constant);
  }
  for (size_t k = 0; k < graph.node_count(); ++k) {
    const Node& node = graph.node(NodeId{static_cast<int32_t>(k)});
    if (node.erased) continue;
    for (const auto& [name, attribute] : node.attributes.all()) {
      if (const auto* constant = std::get_if<ConstantPtr>(&attribute))
        table->by_hash.emplace((*constant)->hash().hex(), *constant);
    }
    for (const auto& subgraph : node.subgraphs) collect(*subgraph, table);
  }
}

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string out;
  Printer(&out).graph(graph, 0);
  return out;
}

ConstantTable collect_constants(const Graph& graph) {
  ConstantTable table;
  collect(graph, &table);
  return table;
}

}  // namespace aipu::graph
