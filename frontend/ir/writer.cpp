#include <map>

#include "frontend/ir/compass_ir.h"
#include "graph/ir/constant_text.h"
#include "graph/ir/text.h"

namespace aipu::frontend {

using graph::Dim;
using graph::Graph;
using graph::Shape;
using graph::Value;
using graph::ValueId;

namespace {

constexpr size_t kWeightAlignment = 64;

std::string name_text(const std::string& name) { return graph::is_plain_word(name) ? name : graph::quoted(name); }

template <typename Items, typename Text>
std::string list_text(const Items& items, const Text& text, const char* separator) {
  std::string out = "[";
  bool first = true;
  for (const auto& item : items) {
    out += first ? "" : separator;
    first = false;
    out += text(item);
  }
  return out + "]";
}

std::string extents_text(const Shape& shape) {
  return list_text(
      shape, [](const Dim& dim) { return dim.text(); }, ", ");
}

std::string extents_text(const std::vector<int64_t>& shape) {
  return list_text(
      shape, [](int64_t extent) { return std::to_string(extent); }, ", ");
}

// Lines of one layer; layers are separated by an empty line.
class Text {
 public:
  void line(std::string_view key, std::string_view value) { out_ += str_cat(key, "=", value, "\n"); }
  void gap() { out_ += "\n"; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class GraphWriter {
 public:
  explicit GraphWriter(bool with_weights) : with_weights_(with_weights) {}

  CompassIr run(const Graph& graph) {
    layers(graph, 0);
    Text header;
    std::vector<ValueId> outputs;
    std::vector<std::string> output_names;
    for (const auto& output : graph.outputs()) {
      outputs.push_back(output.value);
      output_names.push_back(output.name);
    }
    header.line("model_name", name_text(graph.name));
    header.line("layer_number", std::to_string(layer_count_));
    header.line("data_format", "NHWC");
    header.line("precision", "float32");
    header.line("batch_size", "1");
    header.line("input_tensors", names(graph, graph.inputs()));
    header.line("output_tensors", names(graph, outputs));
    header.line("compat_quantized_model", "false");
    header.line("format", "aipu-graph-1");
    header.line("output_names", list_text(output_names, name_text, ","));
    if (graph.captured_count != 0) header.line("captured_count", std::to_string(graph.captured_count));
    if (!graph.symbol_scope.empty()) header.line("symbol_scope", name_text(graph.symbol_scope));
    return {header.take() + text_.take(), std::move(weights_)};
  }

 private:
  static std::string names(const Graph& graph, const std::vector<ValueId>& values) {
    return list_text(
        values, [&](ValueId id) { return id.valid() ? name_text(graph.value(id).name) : std::string("-"); }, ",");
  }
  static std::string shapes(const Graph& graph, const std::vector<ValueId>& values) {
    return list_text(
        values, [&](ValueId id) { return id.valid() ? extents_text(graph.type(id).shape) : std::string("-"); }, ", ");
  }
  static std::string types(const Graph& graph, const std::vector<ValueId>& values) {
    return list_text(
        values,
        [&](ValueId id) { return id.valid() ? std::string(dtype_name(graph.type(id).dtype)) : std::string("-"); }, ",");
  }

  void begin_layer(const std::string& name, const std::string& type, int graph_number) {
    text_.gap();
    text_.line("layer_id", std::to_string(layer_count_++));
    text_.line("layer_name", name_text(name));
    text_.line("layer_type", graph::is_plain_word(type) ? type : graph::quoted(type));
    if (graph_number != 0) text_.line("layer_graph", std::to_string(graph_number));
  }

  void bottoms(const Graph& graph, const std::vector<ValueId>& values) {
    text_.line("layer_bottom", names(graph, values));
    text_.line("layer_bottom_shape", shapes(graph, values));
    text_.line("layer_bottom_type", types(graph, values));
  }

  void tops(const Graph& graph, const std::vector<ValueId>& values) {
    text_.line("layer_top", names(graph, values));
    text_.line("layer_top_shape", shapes(graph, values));
    text_.line("layer_top_type", types(graph, values));
    bool any = false;
    for (const ValueId id : values) any |= id.valid() && graph.value(id).data.has_value();
    if (!any) return;
    text_.line("layer_top_data", list_text(
                                     values,
                                     [&](ValueId id) {
                                       return id.valid() && graph.value(id).data ? extents_text(*graph.value(id).data)
                                                                                 : std::string("-");
                                     },
                                     ", "));
  }

  void layers(const Graph& graph, int number) {
    for (const ValueId id : graph.inputs()) {
      begin_layer(graph.value(id).name, "Input", number);
      bottoms(graph, {});
      tops(graph, {id});
    }
    for (size_t k = 0; k < graph.value_count(); ++k) {
      const ValueId id{static_cast<int32_t>(k)};
      const Value& value = graph.value(id);
      if (value.erased || value.constant == nullptr) continue;
      const size_t offset = store(*value.constant);
      begin_layer(value.name, "Constant", number);
      bottoms(graph, {});
      tops(graph, {id});
      text_.line("weights_type", dtype_name(value.constant->dtype()));
      text_.line("weights_shape", extents_text(value.constant->shape()));
      text_.line("weights_offset", std::to_string(offset));
      text_.line("weights_size", std::to_string(value.constant->bytes().size()));
    }
    for (const auto id : graph.topological_order()) node(graph, graph.node(id), number);
    for (const auto& symbol : graph.symbols()) {
      begin_layer(symbol.name, "Symbol", number);
      text_.line("symbol_kind", symbol.kind == graph::Symbol::Kind::kInputExtent ? "extent" : "element");
      text_.line("symbol_tensor", name_text(graph.value(symbol.value).name));
      text_.line("symbol_index", std::to_string(symbol.index));
    }
  }

  void node(const Graph& graph, const graph::Node& node, int number) {
    std::vector<int> subgraphs;
    for (const auto& subgraph : node.subgraphs) {
      const int inner = ++graph_count_;
      subgraphs.push_back(inner);
      layers(*subgraph, inner);
      begin_layer(str_cat("subgraph_", inner), "Subgraph", inner);
      std::vector<ValueId> outputs;
      std::vector<std::string> output_names;
      for (const auto& output : subgraph->outputs()) {
        outputs.push_back(output.value);
        output_names.push_back(output.name);
      }
      text_.line("layer_top", names(*subgraph, outputs));
      text_.line("output_names", list_text(output_names, name_text, ","));
      text_.line("subgraph_name", name_text(subgraph->name));
      text_.line("captured_count", std::to_string(subgraph->captured_count));
      text_.line("symbol_scope", name_text(subgraph->symbol_scope));
    }
    std::string name = "layer";
    for (const ValueId id : node.outputs) {
      if (!id.valid()) continue;
      name = graph.value(id).name;
      break;
    }
    begin_layer(name, node.op, number);
    bottoms(graph, node.inputs);
    tops(graph, node.outputs);
    if (!subgraphs.empty())
      text_.line("layer_subgraphs", list_text(
                                        subgraphs, [](int n) { return std::to_string(n); }, ","));
    if (!node.origins.empty()) {
      std::string origins;
      for (const auto& origin : node.origins) {
        origins += str_cat(origins.empty() ? "" : ", ", graph::quoted(origin.name), " ", graph::quoted(origin.op));
      }
      text_.line("layer_origins", origins);
    }
    for (const auto& [key, value] : node.attributes.all()) text_.line("attr." + name_text(key), attribute_text(value));
  }

  std::string attribute_text(const graph::AttributeValue& value) {
    struct Visitor {
      GraphWriter& w;
      std::string operator()(int64_t v) const { return str_cat("int ", v); }
      std::string operator()(double v) const { return "float " + graph::double_text(v); }
      std::string operator()(const std::string& v) const { return "string " + graph::quoted(v); }
      std::string operator()(DType v) const { return str_cat("dtype ", dtype_name(v)); }
      std::string operator()(const std::vector<int64_t>& v) const { return "ints " + extents_text(v); }
      std::string operator()(const std::vector<double>& v) const {
        return "floats " + list_text(v, graph::double_text, ", ");
      }
      std::string operator()(const std::vector<std::string>& v) const {
        return "strings " + list_text(
                                v, [](const std::string& s) { return graph::quoted(s); }, ", ");
      }
      std::string operator()(const Shape& v) const { return "dims " + extents_text(v); }
      std::string operator()(const graph::ConstantPtr& v) const {
        const size_t offset = w.store(*v);
        return str_cat("tensor ", dtype_name(v->dtype()), " ", extents_text(v->shape()), " at ", offset, " size ",
                       v->bytes().size());
      }
    };
    return std::visit(Visitor{*this}, value);
  }

  // Equal constants, in whichever graph, are stored once.
  size_t store(const graph::Constant& constant) {
    const auto [it, added] = offsets_.emplace(constant.hash(), size_);
    if (!added) return it->second;
    size_ += (constant.bytes().size() + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
    if (with_weights_) {
      weights_.insert(weights_.end(), constant.bytes().begin(), constant.bytes().end());
      weights_.resize(size_);
    }
    return it->second;
  }

  bool with_weights_;
  Text text_;
  int layer_count_ = 0;
  int graph_count_ = 0;
  std::map<Hash128, size_t> offsets_;
  size_t size_ = 0;
  std::vector<std::byte> weights_;
};

}  // namespace

CompassIr write_compass_ir(const Graph& graph, bool with_weights) { return GraphWriter(with_weights).run(graph); }

CompassIr write_dsl_ir(const DslCall& call) {
  using Tensor = DslCall::Tensor;
  const auto numbered = [](const char* stem, size_t count) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(str_cat(stem, i));
    return list_text(
        names, [](const std::string& name) { return name; }, ",");
  };
  const auto shapes = [](const std::vector<Tensor>& tensors) {
    return list_text(
        tensors, [](const Tensor& t) { return extents_text(t.shape); }, ", ");
  };
  const auto types = [](const std::vector<Tensor>& tensors) {
    return list_text(
        tensors, [](const Tensor& t) { return std::string(dtype_name(t.dtype)); }, ",");
  };
  Text text;
  text.line("model_name", "unknown");
  text.line("layer_number", std::to_string(call.inputs.size() + 1));
  text.line("data_format", "NHWC");
  text.line("precision", "float32");
  text.line("batch_size", "1");
  text.line("input_tensors", numbered("input", call.inputs.size()));
  text.line("output_tensors", numbered("output", call.outputs.size()));
  text.line("compat_quantized_model", "false");
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    text.gap();
    text.line("layer_id", std::to_string(i));
    text.line("layer_name", str_cat(i, "_input"));
    text.line("layer_type", "Input");
    text.line("layer_bottom", "[]");
    text.line("layer_bottom_shape", "[]");
    text.line("layer_bottom_type", "[]");
    text.line("layer_top", str_cat("[input", i, "]"));
    text.line("layer_top_shape", extents_text(call.inputs[i].shape));
    text.line("layer_top_type", str_cat("[", dtype_name(call.inputs[i].dtype), "]"));
  }
  text.gap();
  text.line("layer_id", std::to_string(call.inputs.size()));
  text.line("layer_name", "dsl_func");
  text.line("layer_type", "DSL_" + call.entry);
  text.line("layer_bottom", numbered("input", call.inputs.size()));
  text.line("layer_bottom_shape", shapes(call.inputs));
  text.line("layer_bottom_type", types(call.inputs));
  text.line("layer_top", numbered("output", call.outputs.size()));
  text.line("layer_top_shape", shapes(call.outputs));
  text.line("layer_top_type", types(call.outputs));
  CompassIr ir;
  for (const auto& [name, constant] : call.constants) {
    text.line(name + "_type", dtype_name(constant->dtype()));
    text.line(name + "_shape", extents_text(constant->shape()));
    text.line(name + "_offset", std::to_string(ir.weights.size()));
    text.line(name + "_size", std::to_string(constant->bytes().size()));
    ir.weights.insert(ir.weights.end(), constant->bytes().begin(), constant->bytes().end());
  }
  for (const auto& [name, value] : call.attributes) text.line(name, value);
  ir.text = text.take();
  return ir;
}

}  // namespace aipu::frontend
