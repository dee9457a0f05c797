// Text -> Graph. Reads what print_graph() writes, and shorter forms for tests: outputs without types are inferred,
// attributes with defaults may be left out.
#include <map>

#include "graph/ir/constant_text.h"
#include "graph/ir/op_def.h"
#include "graph/ir/text.h"

namespace aipu::graph {
namespace {

constexpr int kMaxNesting = 32;
constexpr int64_t kMaxListed = int64_t{1} << 20;

class Parser {
 public:
  Parser(std::string_view text, const ConstantTable& constants, std::shared_ptr<const OpSet> ops)
      : reader_(text), constants_(constants), ops_(std::move(ops)) {}

  Result<std::unique_ptr<Graph>> run() {
    AIPU_ASSIGN_OR_RETURN(auto result, graph(0));
    AIPU_RETURN_IF_ERROR(reader_.expect_end());
    return result;
  }

 private:
  struct Scope {
    Graph& graph;
    std::map<std::string, ValueId> values;
  };

  Result<std::unique_ptr<Graph>> graph(int depth) {
    if (depth > kMaxNesting) return reader_.error("sub-graphs are nested too deeply");
    AIPU_RETURN_IF_ERROR(reader_.expect_word("graph"));
    auto result = std::make_unique<Graph>(ops_);
    AIPU_ASSIGN_OR_RETURN(result->name, reader_.string());
    if (reader_.accept_word("scope")) {
      AIPU_ASSIGN_OR_RETURN(result->symbol_scope, reader_.string());
    }
    if (reader_.accept_word("captured")) {
      AIPU_ASSIGN_OR_RETURN(const int64_t count, reader_.integer());
      if (count < 0 || count > kMaxListed) return reader_.error("the number of captured values is out of range");
      result->captured_count = static_cast<int>(count);
    }
    AIPU_RETURN_IF_ERROR(reader_.expect('{'));
    Scope scope{*result, {}};
    while (!reader_.accept('}')) {
      if (reader_.accept_word("input")) {
        AIPU_RETURN_IF_ERROR(input(scope));
      } else if (reader_.accept_word("const")) {
        AIPU_RETURN_IF_ERROR(constant(scope));
      } else if (reader_.accept_word("symbol")) {
        AIPU_RETURN_IF_ERROR(symbol(scope));
      } else if (reader_.accept_word("output")) {
        AIPU_RETURN_IF_ERROR(output(scope));
      } else if (reader_.peek() == '%' || reader_.peek_word() == "_") {
        AIPU_RETURN_IF_ERROR(node(scope, depth));
      } else {
        return reader_.error("expected input, const, symbol, output, a node or '}'");
      }
    }
    if (result->captured_count > static_cast<int>(result->inputs().size()))
      return reader_.error("more values are captured than there are inputs");
    return result;
  }

  Status define(Scope& scope, const std::string& name, ValueId id) {
    if (!scope.values.emplace(name, id).second) return reader_.error(str_cat('%', name, " is defined twice"));
    return {};
  }

  Result<ValueId> use(Scope& scope) {
    AIPU_ASSIGN_OR_RETURN(const std::string name, read_value_name(reader_));
    const auto it = scope.values.find(name);
    if (it == scope.values.end()) return reader_.error(str_cat('%', name, " is not defined above"));
    return it->second;
  }

  struct Definition {
    std::string name;  // "" for _
    std::optional<TensorType> type;
    std::optional<Shape> data;
  };
  Result<Definition> definition() {
    Definition result;
    if (reader_.accept_word("_")) return result;
    AIPU_ASSIGN_OR_RETURN(result.name, read_value_name(reader_));
    if (result.name.empty()) return reader_.error("a value's name may not be empty");
    if (!reader_.accept(':')) return result;
    AIPU_ASSIGN_OR_RETURN(result.type, read_type(reader_));
    if (reader_.accept_word("data")) {
      AIPU_ASSIGN_OR_RETURN(result.data, read_shape(reader_));
    }
    return result;
  }

  Status input(Scope& scope) {
    AIPU_ASSIGN_OR_RETURN(Definition found, definition());
    if (!found.type) return reader_.error("an input needs a name and a type");
    if (scope.values.contains(found.name)) return reader_.error(str_cat('%', found.name, " is defined twice"));
    const ValueId id = scope.graph.add_input(found.name, *std::move(found.type));
    scope.graph.value(id).data = std::move(found.data);
    return define(scope, found.name, id);
  }

  Status constant(Scope& scope) {
    AIPU_ASSIGN_OR_RETURN(const std::string name, read_value_name(reader_));
    AIPU_RETURN_IF_ERROR(reader_.expect('='));
    AIPU_ASSIGN_OR_RETURN(ConstantPtr content, read_constant(reader_, constants_));
    return define(scope, name, scope.graph.add_constant(std::move(content), name));
  }

  Status symbol(Scope& scope) {
    AIPU_ASSIGN_OR_RETURN(const Dim name, read_dim(reader_));
    if (name.op() != DimOp::kSymbol) return reader_.error("expected a symbol's name");
    AIPU_RETURN_IF_ERROR(reader_.expect('='));
    Symbol::Kind kind = Symbol::Kind::kInputExtent;
    if (!reader_.accept_word("extent")) {
      AIPU_RETURN_IF_ERROR(reader_.expect_word("element"));
      kind = Symbol::Kind::kTensorElement;
    }
    AIPU_ASSIGN_OR_RETURN(const int64_t index, reader_.integer());
    AIPU_RETURN_IF_ERROR(reader_.expect_word("of"));
    AIPU_ASSIGN_OR_RETURN(const ValueId value, use(scope));
    const Symbol* known = scope.graph.find_symbol(name.symbol_name());
    if (known != nullptr) {
      // An input's own extents are entered by the input.
      if (known->kind == kind && known->value == value && known->index == index) return {};
      return reader_.error(str_cat("symbol ", name.text(), " is bound twice"));
    }
    scope.graph.add_symbol({name.symbol_name(), kind, value, index});
    return {};
  }

  Status output(Scope& scope) {
    AIPU_ASSIGN_OR_RETURN(std::string name, reader_.string());
    AIPU_RETURN_IF_ERROR(reader_.expect('='));
    AIPU_ASSIGN_OR_RETURN(const ValueId value, use(scope));
    scope.graph.add_output(value, std::move(name));
    return {};
  }

  Result<std::string> word_or_string(std::string_view what) {
    if (reader_.peek() == '"') return reader_.string();
    return reader_.word(what);
  }

  Status node(Scope& scope, int depth) {
    std::vector<Definition> outputs;
    do {
      AIPU_ASSIGN_OR_RETURN(Definition found, definition());
      outputs.push_back(std::move(found));
    } while (reader_.accept(','));
    AIPU_RETURN_IF_ERROR(reader_.expect('='));
    Node node;
    AIPU_ASSIGN_OR_RETURN(node.op, word_or_string("an op"));
    AIPU_RETURN_IF_ERROR(reader_.expect('('));
    if (!reader_.accept(')')) {
      do {
        if (reader_.accept_word("_")) {
          node.inputs.emplace_back();
          continue;
        }
        AIPU_ASSIGN_OR_RETURN(const ValueId value, use(scope));
        node.inputs.push_back(value);
      } while (reader_.accept(','));
      AIPU_RETURN_IF_ERROR(reader_.expect(')'));
    }
    if (reader_.accept('{') && !reader_.accept('}')) {
      do {
        AIPU_ASSIGN_OR_RETURN(const std::string name, word_or_string("an attribute's name"));
        AIPU_RETURN_IF_ERROR(reader_.expect('='));
        AIPU_ASSIGN_OR_RETURN(AttributeValue value, attribute());
        if (node.attributes.has(name)) return reader_.error(str_cat("attribute '", name, "' is given twice"));
        node.attributes.set(name, std::move(value));
      } while (reader_.accept(','));
      AIPU_RETURN_IF_ERROR(reader_.expect('}'));
    }
    if (reader_.accept_word("from")) {
      do {
        Origin origin;
        AIPU_ASSIGN_OR_RETURN(origin.name, reader_.string());
        AIPU_RETURN_IF_ERROR(reader_.expect('('));
        AIPU_ASSIGN_OR_RETURN(origin.op, word_or_string("an op"));
        AIPU_RETURN_IF_ERROR(reader_.expect(')'));
        merge_origins(&node.origins, {std::move(origin)});
      } while (reader_.accept('+'));
    }
    if (reader_.accept_word("with")) {
      while (reader_.peek_word() == "graph") {
        AIPU_ASSIGN_OR_RETURN(auto subgraph, graph(depth + 1));
        node.subgraphs.push_back(std::move(subgraph));
      }
    }
    return add(scope, std::move(node), std::move(outputs));
  }

  Status add(Scope& scope, Node node, std::vector<Definition> outputs) {
    for (const Definition& output : outputs) {
      if (!output.name.empty() && scope.values.contains(output.name))
        return reader_.error(str_cat('%', output.name, " is defined twice"));
    }
    bool typed = true;
    for (const Definition& output : outputs) typed = typed && (output.name.empty() || output.type);
    NodeId id;
    node.outputs.resize(outputs.size());
    if (typed) {
      if (const OpDef* def = scope.graph.find_op(node.op)) {
        if (Status status = check_node_schema(*def, scope.graph, &node); !status.ok())
          return reader_.error(status.message());
      }
      std::vector<std::pair<std::string, TensorType>> types;
      for (const Definition& output : outputs) types.emplace_back(output.name, output.type.value_or(TensorType()));
      id = scope.graph.add_typed_node(std::move(node), std::move(types));
    } else {
      std::vector<std::string> names;
      for (const Definition& output : outputs) names.push_back(output.name);
      auto added = scope.graph.add_node(std::move(node.op), std::move(node.attributes), std::move(node.inputs),
                                        std::move(names), std::move(node.origins), std::move(node.subgraphs));
      if (!added.ok()) return reader_.error(added.status().message());
      id = *added;
    }
    const std::vector<ValueId> ids = scope.graph.node(id).outputs;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k].name.empty()) continue;
      if (outputs[k].data) scope.graph.value(ids[k]).data = std::move(outputs[k].data);
      AIPU_RETURN_IF_ERROR(define(scope, outputs[k].name, ids[k]));
    }
    return {};
  }

  template <typename T, typename Read>
  Result<AttributeValue> list(const Read& read) {
    AIPU_RETURN_IF_ERROR(reader_.expect('['));
    std::vector<T> elements;
    if (!reader_.accept(']')) {
      do {
        AIPU_ASSIGN_OR_RETURN(T element, read());
        elements.push_back(std::move(element));
      } while (reader_.accept(','));
      AIPU_RETURN_IF_ERROR(reader_.expect(']'));
    }
    return AttributeValue(std::move(elements));
  }

  Result<AttributeValue> attribute() {
    if (reader_.peek() == '[') return list<int64_t>([&] { return reader_.integer(); });
    if (reader_.peek() == '"') {
      AIPU_ASSIGN_OR_RETURN(std::string text, reader_.string());
      return AttributeValue(std::move(text));
    }
    if (reader_.accept_word("floats")) return list<double>([&] { return reader_.number(); });
    if (reader_.accept_word("strings")) return list<std::string>([&] { return reader_.string(); });
    if (reader_.accept_word("dims")) {
      AIPU_ASSIGN_OR_RETURN(Shape shape, read_shape(reader_));
      return AttributeValue(std::move(shape));
    }
    if (reader_.accept_word("tensor")) {
      AIPU_ASSIGN_OR_RETURN(ConstantPtr constant, read_constant(reader_, constants_));
      return AttributeValue(std::move(constant));
    }
    const std::string word = reader_.peek_word();
    if (!word.empty() && word != "inf" && word != "nan") {
      const auto dtype = parse_dtype(word);
      if (!dtype) return reader_.error("expected an attribute's value");
      if (!reader_.accept_word(word)) return reader_.error("expected an attribute's value");
      return AttributeValue(*dtype);
    }
    if (reader_.peek_number() && !reader_.number_is_real()) {
      AIPU_ASSIGN_OR_RETURN(const int64_t value, reader_.integer());
      return AttributeValue(value);
    }
    AIPU_ASSIGN_OR_RETURN(const double value, reader_.number());
    return AttributeValue(value);
  }

  TextReader reader_;
  const ConstantTable& constants_;
  std::shared_ptr<const OpSet> ops_;
};

}  // namespace

Result<std::unique_ptr<Graph>> parse_graph(std::string_view text, const ConstantTable& constants,
                                           std::shared_ptr<const OpSet> ops) {
  return Parser(text, constants, std::move(ops)).run();
}

}  // namespace aipu::graph
