#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "frontend/ir/compass_ir.h"
#include "frontend/one_line.h"
#include "graph/ir/constant_text.h"
#include "graph/ir/op_def.h"
#include "graph/ir/text.h"
#include "runtime/base/checked_math.h"
#include "runtime/base/file.h"

namespace aipu::frontend {

using graph::ConstantPtr;
using graph::Graph;
using graph::Shape;
using graph::TensorType;
using graph::TextReader;
using graph::ValueId;

namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxRank = 32;
constexpr size_t kMaxSubgraphs = 64;  // of one node

struct Section {
  int line = 0;  // of its first key
  std::vector<std::pair<std::string, std::string>> entries;

  const std::string* find(std::string_view key) const {
    for (const auto& [name, value] : entries) {
      if (name == key) return &value;
    }
    return nullptr;
  }
};

Result<std::vector<Section>> split(std::string_view text) {
  std::vector<Section> sections;
  bool open = false;
  int line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) {
      open = false;
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return invalid_model(str_cat("line ", line_number, ": expected key=value"));
    if (!open) sections.push_back({line_number, {}});
    open = true;
    const std::string key(line.substr(0, equals));
    if (sections.back().find(key) != nullptr)
      return invalid_model(str_cat("line ", line_number, ": '", key, "' is there twice"));
    sections.back().entries.emplace_back(key, line.substr(equals + 1));
  }
  if (sections.empty()) return invalid_model("not a Compass IR text: it is empty");
  return sections;
}

// Typed access to the values of one section; errors say the line of the section and the key.
class Layer {
 public:
  explicit Layer(const Section& section) : section_(section) {}

  Status error(std::string_view key, std::string_view what) const {
    return invalid_model(str_cat("layer at line ", section_.line, ": ", key, ": ", what));
  }
  bool has(std::string_view key) const { return section_.find(key) != nullptr; }
  Result<std::string_view> raw(std::string_view key) const {
    const std::string* value = section_.find(key);
    if (value == nullptr) return error(key, "is missing");
    return std::string_view(*value);
  }

  // Parses the whole value with `read`.
  template <typename T, typename Read>
  Result<T> value(std::string_view key, const Read& read) const {
    AIPU_ASSIGN_OR_RETURN(const std::string_view text, raw(key));
    TextReader reader(text);
    auto result = read(reader);
    Status status = result.status();
    if (status.ok()) status = reader.expect_end();
    if (!status.ok()) return error(key, without_line(status.message()));
    return result;
  }

  static std::string_view without_line(std::string_view message) {
    return message.starts_with("line 1: ") ? message.substr(8) : message;  // a value is one line
  }

  static Result<std::string> read_name(TextReader& reader) {
    return reader.peek() == '"' ? reader.string() : reader.word("a name");
  }

  template <typename T, typename Read>
  static Result<std::vector<T>> read_list(TextReader& reader, const Read& read) {
    AIPU_RETURN_IF_ERROR(reader.expect('['));
    std::vector<T> items;
    if (reader.accept(']')) return items;
    do {
      AIPU_ASSIGN_OR_RETURN(T item, read(reader));
      items.push_back(std::move(item));
    } while (reader.accept(','));
    AIPU_RETURN_IF_ERROR(reader.expect(']'));
    return items;
  }
  // nullopt where there is a '-'.
  template <typename T, typename Read>
  static Result<std::vector<std::optional<T>>> read_optionals(TextReader& reader, const Read& read) {
    return read_list<std::optional<T>>(reader, [&](TextReader& r) -> Result<std::optional<T>> {
      if (r.accept('-')) return std::optional<T>();
      AIPU_ASSIGN_OR_RETURN(T item, read(r));
      return std::optional<T>(std::move(item));
    });
  }

  Result<std::string> name(std::string_view key) const { return value<std::string>(key, read_name); }
  Result<int64_t> integer(std::string_view key) const {
    return value<int64_t>(key, [](TextReader& r) { return r.integer(); });
  }
  Result<std::vector<std::optional<std::string>>> names(std::string_view key) const {
    return value<std::vector<std::optional<std::string>>>(
        key, [](TextReader& r) { return read_optionals<std::string>(r, read_name); });
  }
  Result<std::vector<std::string>> plain_names(std::string_view key) const {
    return value<std::vector<std::string>>(key, [](TextReader& r) { return read_list<std::string>(r, read_name); });
  }
  Result<std::vector<std::optional<Shape>>> shapes(std::string_view key) const {
    return value<std::vector<std::optional<Shape>>>(
        key, [](TextReader& r) { return read_optionals<Shape>(r, graph::read_shape); });
  }
  static Result<DType> read_dtype(TextReader& reader) {
    AIPU_ASSIGN_OR_RETURN(const std::string word, reader.word("an element type"));
    const auto dtype = parse_dtype(word);
    if (!dtype || *dtype == DType::kVoid || *dtype == DType::kString)
      return invalid_model(str_cat("unknown element type '", word, "'"));
    return *dtype;
  }
  Result<std::vector<std::optional<DType>>> dtypes(std::string_view key) const {
    return value<std::vector<std::optional<DType>>>(key,
                                                    [](TextReader& r) { return read_optionals<DType>(r, read_dtype); });
  }

  const Section& section() const { return section_; }

 private:
  const Section& section_;
};

struct Weights {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  Result<ConstantPtr> constant(DType dtype, const Shape& shape, int64_t offset, int64_t size) const {
    const auto extents = graph::static_shape(shape);
    if (!extents || extents->size() > kMaxRank)
      return invalid_model("a constant's shape must be numbers, at most 32 of them");
    std::optional<int64_t> needed = static_cast<int64_t>(dtype_bytes(dtype));
    for (const int64_t extent : *extents) {
      if (extent < 0) return invalid_model(str_cat("the extent ", extent, " is negative"));
      if (needed) needed = checked_mul(*needed, extent);
    }
    if (needed != size)
      return invalid_model(str_cat("the size ", size, " does not fit ", dtype_name(dtype), graph::shape_text(shape)));
    const auto available = static_cast<int64_t>(bytes.size());
    if (offset < 0 || offset > available || size > available - offset) {
      return invalid_model(
          str_cat("bytes ", offset, " to ", offset, "+", size, " are not in the weights, which have ", available));
    }
    const auto part = bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
    const bool aligned = reinterpret_cast<uintptr_t>(part.data()) % dtype_bytes(dtype) == 0;
    if (!aligned || owner == nullptr) return graph::Constant::create(dtype, *extents, {part.begin(), part.end()});
    return graph::Constant::borrow(dtype, *extents, part, owner);
  }
};

class GraphReader {
 public:
  GraphReader(const std::vector<Section>& sections, const Weights& weights, std::shared_ptr<const graph::OpSet> ops)
      : sections_(sections), weights_(weights), ops_(std::move(ops)) {}

  Result<std::unique_ptr<Graph>> run() {
    for (size_t i = 1; i < sections_.size(); ++i) {
      const Layer layer(sections_[i]);
      int64_t number = 0;
      if (layer.has("layer_graph")) {
        AIPU_ASSIGN_OR_RETURN(number, layer.integer("layer_graph"));
      }
      by_graph_[number].push_back(&sections_[i]);
    }
    const Layer header(sections_[0]);
    auto graph = std::make_unique<Graph>(ops_);
    AIPU_ASSIGN_OR_RETURN(graph->name, header.name("model_name"));
    AIPU_RETURN_IF_ERROR(fill(*graph, 0, header, "output_tensors", 0));
    for (const auto& [number, layers] : by_graph_) {
      if (number != 0 && !used_.contains(number))
        return invalid_model(str_cat("sub-graph ", number, " belongs to no layer"));
    }
    return graph;
  }

 private:
  struct Scope {
    Graph& graph;
    std::map<std::string, ValueId> values;
  };

  // `ports` has the outputs of the graph: the header, or a Subgraph layer.
  Status fill(Graph& graph, int64_t number, const Layer& ports, std::string_view output_key, int depth) {
    if (depth > kMaxDepth) return invalid_model(str_cat("sub-graphs are nested more than ", kMaxDepth, " deep"));
    Scope scope{graph, {}};
    if (ports.has("symbol_scope")) {
      AIPU_ASSIGN_OR_RETURN(graph.symbol_scope, ports.name("symbol_scope"));
    }
    for (const Section* section : by_graph_[number]) AIPU_RETURN_IF_ERROR(add_layer(scope, Layer(*section), depth));
    if (ports.has("captured_count")) {
      AIPU_ASSIGN_OR_RETURN(const int64_t captured, ports.integer("captured_count"));
      if (captured < 0 || captured > static_cast<int64_t>(graph.inputs().size()))
        return ports.error("captured_count", "is more than there are inputs");
      graph.captured_count = static_cast<int>(captured);
    }
    AIPU_ASSIGN_OR_RETURN(const auto outputs, ports.plain_names(output_key));
    AIPU_ASSIGN_OR_RETURN(const auto names, ports.plain_names("output_names"));
    if (names.size() != outputs.size()) return ports.error("output_names", "is not as long as the list of outputs");
    for (size_t i = 0; i < outputs.size(); ++i) {
      AIPU_ASSIGN_OR_RETURN(const ValueId value, use(scope, ports, output_key, outputs[i]));
      graph.add_output(value, names[i]);
    }
    return {};
  }

  static Result<ValueId> use(const Scope& scope, const Layer& layer, std::string_view key, const std::string& name) {
    const auto it = scope.values.find(name);
    if (it == scope.values.end()) return layer.error(key, str_cat("'", name, "' is not defined above"));
    return it->second;
  }

  struct Top {
    std::string name;  // "" where absent
    TensorType type;
    std::optional<Shape> data;
  };
  static Result<std::vector<Top>> tops(const Scope& scope, const Layer& layer) {
    AIPU_ASSIGN_OR_RETURN(const auto names, layer.names("layer_top"));
    AIPU_ASSIGN_OR_RETURN(const auto shapes, layer.shapes("layer_top_shape"));
    AIPU_ASSIGN_OR_RETURN(const auto types, layer.dtypes("layer_top_type"));
    std::vector<std::optional<Shape>> data(names.size());
    if (layer.has("layer_top_data")) {
      AIPU_ASSIGN_OR_RETURN(data, layer.shapes("layer_top_data"));
    }
    if (shapes.size() != names.size() || types.size() != names.size() || data.size() != names.size()) {
      return layer.error("layer_top", "names, shapes, types and data are not equally many");
    }
    std::vector<Top> result;
    std::set<std::string> seen;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i]) {
        result.emplace_back();
        continue;
      }
      if (!shapes[i] || !types[i] || names[i]->empty())
        return layer.error("layer_top", str_cat("output ", i, " has no name, shape or type"));
      if (shapes[i]->size() > kMaxRank) return layer.error("layer_top_shape", "has too many extents");
      if (scope.values.contains(*names[i]) || !seen.insert(*names[i]).second)
        return layer.error("layer_top", str_cat("'", *names[i], "' is defined twice"));
      result.push_back({*names[i], {*types[i], *shapes[i]}, data[i]});
    }
    return result;
  }
  static Result<Top> only_top(const Scope& scope, const Layer& layer) {
    AIPU_ASSIGN_OR_RETURN(auto all, tops(scope, layer));
    if (all.size() != 1 || all[0].name.empty()) return layer.error("layer_top", "expected one output");
    return std::move(all[0]);
  }

  Status add_layer(Scope& scope, const Layer& layer, int depth) {
    AIPU_ASSIGN_OR_RETURN(const std::string type, layer.name("layer_type"));
    if (type == "Subgraph") return {};
    if (type == "Input") {
      AIPU_ASSIGN_OR_RETURN(Top top, only_top(scope, layer));
      const ValueId id = scope.graph.add_input(top.name, std::move(top.type));
      scope.graph.value(id).data = std::move(top.data);
      scope.values.emplace(top.name, id);
      return {};
    }
    if (type == "Constant") return add_constant(scope, layer);
    if (type == "Symbol") return add_symbol(scope, layer);
    return add_node(scope, layer, type, depth);
  }

  Status add_constant(Scope& scope, const Layer& layer) {
    AIPU_ASSIGN_OR_RETURN(const Top top, only_top(scope, layer));
    AIPU_ASSIGN_OR_RETURN(const DType dtype, layer.value<DType>("weights_type", Layer::read_dtype));
    AIPU_ASSIGN_OR_RETURN(const Shape shape, layer.value<Shape>("weights_shape", graph::read_shape));
    AIPU_ASSIGN_OR_RETURN(const int64_t offset, layer.integer("weights_offset"));
    AIPU_ASSIGN_OR_RETURN(const int64_t size, layer.integer("weights_size"));
    auto constant = weights_.constant(dtype, shape, offset, size);
    if (!constant.ok()) return layer.error("weights", constant.status().message());
    if ((*constant)->type() != top.type) return layer.error("layer_top_type", "differs from the weights' type");
    const ValueId id = scope.graph.add_constant(std::move(*constant), top.name);
    if (top.data) scope.graph.value(id).data = top.data;
    scope.values.emplace(top.name, id);
    return {};
  }

  Status add_symbol(Scope& scope, const Layer& layer) {
    AIPU_ASSIGN_OR_RETURN(graph::Symbol symbol, read_symbol(scope, layer));
    if (const auto* known = scope.graph.find_symbol(symbol.name)) {
      // An input's own extents are entered by the input.
      if (known->kind == symbol.kind && known->value == symbol.value && known->index == symbol.index) return {};
      return layer.error("layer_name", str_cat("symbol '", symbol.name, "' is bound twice"));
    }
    scope.graph.add_symbol(std::move(symbol));
    return {};
  }

  static Result<graph::Symbol> read_symbol(const Scope& scope, const Layer& layer) {
    graph::Symbol symbol;
    AIPU_ASSIGN_OR_RETURN(symbol.name, layer.name("layer_name"));
    AIPU_ASSIGN_OR_RETURN(const std::string kind, layer.name("symbol_kind"));
    if (kind != "extent" && kind != "element") return layer.error("symbol_kind", "expected extent or element");
    symbol.kind = kind == "extent" ? graph::Symbol::Kind::kInputExtent : graph::Symbol::Kind::kTensorElement;
    AIPU_ASSIGN_OR_RETURN(const std::string tensor, layer.name("symbol_tensor"));
    AIPU_ASSIGN_OR_RETURN(symbol.value, use(scope, layer, "symbol_tensor", tensor));
    AIPU_ASSIGN_OR_RETURN(symbol.index, layer.integer("symbol_index"));
    return symbol;
  }

  Status add_node(Scope& scope, const Layer& layer, const std::string& type, int depth) {
    graph::Node node;
    node.op = type;
    AIPU_ASSIGN_OR_RETURN(const auto bottoms, layer.names("layer_bottom"));
    for (const auto& name : bottoms) {
      if (!name) {
        node.inputs.emplace_back();
        continue;
      }
      AIPU_ASSIGN_OR_RETURN(const ValueId value, use(scope, layer, "layer_bottom", *name));
      node.inputs.push_back(value);
    }
    AIPU_ASSIGN_OR_RETURN(auto outputs, tops(scope, layer));
    if (layer.has("layer_subgraphs")) AIPU_RETURN_IF_ERROR(add_subgraphs(layer, depth, &node));
    if (layer.has("layer_origins")) {
      AIPU_ASSIGN_OR_RETURN(
          node.origins, layer.value<graph::OriginSet>("layer_origins", [](TextReader& r) -> Result<graph::OriginSet> {
            graph::OriginSet origins;
            do {
              graph::Origin origin;
              AIPU_ASSIGN_OR_RETURN(origin.name, r.string());
              AIPU_ASSIGN_OR_RETURN(origin.op, r.string());
              graph::merge_origins(&origins, {std::move(origin)});
            } while (r.accept(','));
            return origins;
          }));
    }
    for (const auto& [key, text] : layer.section().entries) {
      if (!key.starts_with("attr.")) continue;
      std::string name = key.substr(5);
      if (name.starts_with('"')) {
        TextReader reader(name);
        AIPU_ASSIGN_OR_RETURN(name, reader.string());
      }
      AIPU_ASSIGN_OR_RETURN(auto value,
                            layer.value<graph::AttributeValue>(key, [this](TextReader& r) { return attribute(r); }));
      node.attributes.set(name, std::move(value));
    }
    node.outputs.resize(outputs.size());
    // The schema's defaults and normal forms are in the file already; what is not must be right before anyone relies on
    // it.
    if (const auto* def = scope.graph.find_op(node.op)) {
      if (auto status = graph::check_node_schema(*def, scope.graph, &node); !status.ok())
        return layer.error("layer_type", status.message());
    }
    std::vector<std::pair<std::string, TensorType>> types;
    for (const Top& top : outputs) types.emplace_back(top.name, top.type);
    const auto id = scope.graph.add_typed_node(std::move(node), std::move(types));
    const std::vector<ValueId> made = scope.graph.node(id).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].name.empty()) continue;
      scope.graph.value(made[i]).data = std::move(outputs[i].data);
      scope.values.emplace(outputs[i].name, made[i]);
    }
    return {};
  }

  Status add_subgraphs(const Layer& layer, int depth, graph::Node* node) {
    AIPU_ASSIGN_OR_RETURN(const auto numbers, layer.value<std::vector<int64_t>>("layer_subgraphs", [](TextReader& r) {
      return Layer::read_list<int64_t>(r, [](TextReader& each) { return each.integer(); });
    }));
    if (numbers.size() > kMaxSubgraphs) return layer.error("layer_subgraphs", "are too many");
    for (const int64_t number : numbers) {
      const auto it = by_graph_.find(number);
      if (number == 0 || it == by_graph_.end() || !used_.insert(number).second) {
        return layer.error("layer_subgraphs", str_cat("sub-graph ", number, " does not exist or is used twice"));
      }
      const Section* ports = nullptr;
      for (const Section* section : it->second) {
        const std::string* type = section->find("layer_type");
        if (type != nullptr && *type == "Subgraph") ports = section;
      }
      if (ports == nullptr)
        return layer.error("layer_subgraphs", str_cat("sub-graph ", number, " has no Subgraph layer"));
      auto graph = std::make_unique<Graph>(ops_);
      AIPU_ASSIGN_OR_RETURN(graph->name, Layer(*ports).name("subgraph_name"));
      AIPU_RETURN_IF_ERROR(fill(*graph, number, Layer(*ports), "layer_top", depth + 1));
      node->subgraphs.push_back(std::move(graph));
    }
    return {};
  }

  Result<graph::AttributeValue> attribute(TextReader& r) const {
    using Value = graph::AttributeValue;
    AIPU_ASSIGN_OR_RETURN(const std::string kind, r.word("the kind of an attribute"));
    const auto wrapped = [](auto result) -> Result<Value> {
      if (!result.ok()) return std::move(result).status();
      return Value(std::move(result).value());
    };
    if (kind == "int") return wrapped(r.integer());
    if (kind == "float") return wrapped(r.number());
    if (kind == "string") return wrapped(r.string());
    if (kind == "dtype") return wrapped(Layer::read_dtype(r));
    if (kind == "ints") return wrapped(Layer::read_list<int64_t>(r, [](TextReader& each) { return each.integer(); }));
    if (kind == "floats") return wrapped(Layer::read_list<double>(r, [](TextReader& each) { return each.number(); }));
    if (kind == "strings")
      return wrapped(Layer::read_list<std::string>(r, [](TextReader& each) { return each.string(); }));
    if (kind == "dims") return wrapped(graph::read_shape(r));
    if (kind == "tensor") {
      AIPU_ASSIGN_OR_RETURN(const DType dtype, Layer::read_dtype(r));
      AIPU_ASSIGN_OR_RETURN(const Shape shape, graph::read_shape(r));
      AIPU_RETURN_IF_ERROR(r.expect_word("at"));
      AIPU_ASSIGN_OR_RETURN(const int64_t offset, r.integer());
      AIPU_RETURN_IF_ERROR(r.expect_word("size"));
      AIPU_ASSIGN_OR_RETURN(const int64_t size, r.integer());
      return wrapped(weights_.constant(dtype, shape, offset, size));
    }
    return invalid_model(str_cat("unknown kind of attribute '", kind, "'"));
  }

  const std::vector<Section>& sections_;
  const Weights& weights_;
  std::shared_ptr<const graph::OpSet> ops_;
  std::map<int64_t, std::vector<const Section*>> by_graph_;
  std::set<int64_t> used_;
};

// ---- the reference's own form

Result<DslCall> read_dsl_sections(const std::vector<Section>& sections, const Weights& weights) {
  DslCall call;
  for (size_t i = 1; i + 1 < sections.size(); ++i) {
    const Layer layer(sections[i]);
    AIPU_ASSIGN_OR_RETURN(const std::string_view type, layer.raw("layer_type"));
    if (type != "Input") return layer.error("layer_type", "expected Input: one DSL layer ends the text");
    // The shape of an Input layer is one list.
    AIPU_ASSIGN_OR_RETURN(const Shape shape, layer.value<Shape>("layer_top_shape", graph::read_shape));
    AIPU_ASSIGN_OR_RETURN(const auto dtypes, layer.dtypes("layer_top_type"));
    const auto extents = graph::static_shape(shape);
    if (!extents || dtypes.size() != 1 || !dtypes[0])
      return layer.error("layer_top_shape", "expected one list of numbers and one type");
    call.inputs.push_back({*dtypes[0], *extents});
  }
  if (sections.size() < 2) return invalid_model("there is no layer");
  const Layer layer(sections.back());
  AIPU_ASSIGN_OR_RETURN(const std::string_view type, layer.raw("layer_type"));
  if (!type.starts_with("DSL_")) return layer.error("layer_type", str_cat("expected DSL_<entry>, found '", type, "'"));
  call.entry = type.substr(4);
  AIPU_ASSIGN_OR_RETURN(const auto shapes, layer.shapes("layer_top_shape"));
  AIPU_ASSIGN_OR_RETURN(const auto dtypes, layer.dtypes("layer_top_type"));
  if (shapes.size() != dtypes.size()) return layer.error("layer_top_shape", "is not as long as layer_top_type");
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto extents = shapes[i] ? graph::static_shape(*shapes[i]) : std::nullopt;
    if (!extents || !dtypes[i]) return layer.error("layer_top_shape", "expected lists of numbers");
    call.outputs.push_back({*dtypes[i], *extents});
  }
  const auto& entries = layer.section().entries;
  for (const auto& [key, text] : entries) {
    if (key.starts_with("layer_")) continue;
    const auto part_of_constant = [&, &key = key](std::string_view suffix) {  // clang 14 captures no binding by itself
      if (!key.ends_with(suffix)) return false;
      const std::string stem = key.substr(0, key.size() - suffix.size());
      return layer.has(stem + "_type") && layer.has(stem + "_shape") && layer.has(stem + "_offset") &&
             layer.has(stem + "_size");
    };
    if (part_of_constant("_shape") || part_of_constant("_offset") || part_of_constant("_size")) continue;
    if (!part_of_constant("_type")) {
      call.attributes.emplace_back(key, text);
      continue;
    }
    const std::string stem = key.substr(0, key.size() - 5);
    AIPU_ASSIGN_OR_RETURN(const DType dtype, layer.value<DType>(key, Layer::read_dtype));
    AIPU_ASSIGN_OR_RETURN(const Shape shape, layer.value<Shape>(stem + "_shape", graph::read_shape));
    AIPU_ASSIGN_OR_RETURN(const int64_t offset, layer.integer(stem + "_offset"));
    AIPU_ASSIGN_OR_RETURN(const int64_t size, layer.integer(stem + "_size"));
    auto constant = weights.constant(dtype, shape, offset, size);
    if (!constant.ok()) return layer.error(stem, constant.status().message());
    call.constants.emplace_back(stem, std::move(*constant));
  }
  return call;
}

Result<std::unique_ptr<Graph>> dsl_graph(const DslCall& call, std::shared_ptr<const graph::OpSet> ops) {
  const std::string op = "DSL_" + call.entry;
  auto graph = std::make_unique<Graph>(std::move(ops));
  const graph::OpDef* def = graph->find_op(op);
  if (def == nullptr)
    return unsupported(str_cat("layer type ", op,
                               ": unknown operator; a plugin can define it (--plugin FILE; plugins=[FILE] in Python)"));
  const auto type_of = [](const DslCall::Tensor& tensor) {
    return TensorType{tensor.dtype, Shape(tensor.shape.begin(), tensor.shape.end())};
  };
  graph->name = call.entry;
  graph::Node node;
  node.op = op;
  node.origins = {{"dsl_func", op}};
  for (size_t i = 0; i < call.inputs.size(); ++i)
    node.inputs.push_back(graph->add_input(str_cat("input", i), type_of(call.inputs[i])));
  for (const auto& [name, constant] : call.constants) node.inputs.push_back(graph->add_constant(constant, name));
  for (const auto& [name, text] : call.attributes) {
    int64_t integer = 0;
    double number = 0;
    const char* end = text.data() + text.size();
    if (const auto [at, failure] = std::from_chars(text.data(), end, integer); failure == std::errc() && at == end) {
      node.attributes.set(name, integer);
    } else if (const auto [stop, error] = std::from_chars(text.data(), end, number);
               error == std::errc() && stop == end) {
      node.attributes.set(name, number);
    } else {
      node.attributes.set(name, text);
    }
  }
  if (auto status = graph::check_node_schema(*def, *graph, &node); !status.ok()) return status;
  std::vector<std::pair<std::string, TensorType>> outputs;
  for (size_t i = 0; i < call.outputs.size(); ++i) outputs.emplace_back(str_cat("output", i), type_of(call.outputs[i]));
  const auto id = graph->add_typed_node(std::move(node), std::move(outputs));
  const std::vector<ValueId> made = graph->node(id).outputs;
  for (size_t i = 0; i < made.size(); ++i) graph->add_output(made[i], str_cat("output", i));
  return graph;
}

}  // namespace

Result<DslCall> read_dsl_ir(std::string_view text, std::span<const std::byte> weights,
                            std::shared_ptr<const void> owner) {
  AIPU_ASSIGN_OR_RETURN(const auto sections, split(text));
  return read_dsl_sections(sections, {weights, std::move(owner)});
}

namespace {

Result<std::unique_ptr<Graph>> read_any(std::string_view text, std::span<const std::byte> weights,
                                        std::shared_ptr<const void> owner, std::shared_ptr<const graph::OpSet> ops) {
  AIPU_ASSIGN_OR_RETURN(const auto sections, split(text));
  const Weights available{weights, std::move(owner)};
  std::unique_ptr<Graph> graph;
  const std::string* format = sections[0].find("format");
  if (format == nullptr) {
    AIPU_ASSIGN_OR_RETURN(const DslCall call, read_dsl_sections(sections, available));
    AIPU_ASSIGN_OR_RETURN(graph, dsl_graph(call, std::move(ops)));
  } else if (*format == "aipu-graph-1") {
    AIPU_ASSIGN_OR_RETURN(graph, GraphReader(sections, available, std::move(ops)).run());
  } else {
    return unsupported(str_cat("format '", *format, "' is not known, this build reads aipu-graph-1"));
  }
  // The text's fault, not ours.
  if (const Status valid = graph::verify_graph(*graph); !valid.ok()) return invalid_model(valid.message());
  return graph;
}

}  // namespace

Result<std::unique_ptr<Graph>> read_compass_ir(std::string_view text, std::span<const std::byte> weights,
                                               std::shared_ptr<const void> owner,
                                               std::shared_ptr<const graph::OpSet> ops) {
  auto graph = read_any(text, weights, std::move(owner), std::move(ops));
  if (!graph.ok()) return Status(graph.status().code(), one_line(graph.status().message()));
  return graph;
}

namespace {

struct IrFiles {
  std::string text;
  std::shared_ptr<const MappedFile> weights;  // null: there are none
  std::span<const std::byte> bytes() const { return weights ? weights->bytes() : std::span<const std::byte>(); }
};

Result<IrFiles> read_files(const std::string& text_path, const std::string& weights_path) {
  IrFiles files;
  AIPU_ASSIGN_OR_RETURN(files.text, read_text_file(text_path));
  if (!weights_path.empty()) {
    AIPU_ASSIGN_OR_RETURN(auto mapped, MappedFile::read(weights_path));
    files.weights = std::make_shared<const MappedFile>(std::move(mapped));
  }
  return files;
}

}  // namespace

Result<std::unique_ptr<Graph>> import_compass_ir(const std::string& text_path, const std::string& weights_path,
                                                 std::shared_ptr<const graph::OpSet> ops) {
  AIPU_ASSIGN_OR_RETURN(const IrFiles files, read_files(text_path, weights_path));
  auto graph = read_compass_ir(files.text, files.bytes(), files.weights, std::move(ops));
  if (!graph.ok()) return std::move(std::move(graph).status()).context(text_path);
  return graph;
}

Result<DslCall> import_dsl_ir(const std::string& text_path, const std::string& weights_path) {
  AIPU_ASSIGN_OR_RETURN(const IrFiles files, read_files(text_path, weights_path));
  auto call = read_dsl_ir(files.text, files.bytes(), files.weights);
  if (!call.ok()) return std::move(std::move(call).status()).context(text_path);
  return call;
}

}  // namespace aipu::frontend
