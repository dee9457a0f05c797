// tabulate_bytes: what several ops make of an 8-bit integer, and round to one again, is a table of 256 bytes.
//
//   x: uint8 ─ DequantizeLinear ─┬────── Sigmoid ─ QuantizeLinear ─ DequantizeLinear ─┐
//                                └──────────────────────────────────────────────────── Mul ─ QuantizeLinear ─ y: uint8
//
//   =>  x ─ aipu::ByteFunction{table} ─ y
//
// That is how quantisers that observe every tensor write SiLU, Gelu, HardSwish. The ops' own kernels compute the table,
// so that it has the bytes that they would have given.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

bool is_byte(const TensorType& type) { return type.dtype == DType::kI8 || type.dtype == DType::kU8; }

// Nodes that make the last one's bytes of those of `argument`, and of constants.
struct Function {
  std::set<NodeId> nodes;
  ValueId argument;
};

class Tabulator {
 public:
  Tabulator(Graph& graph, Evaluator& evaluator) : graph_(graph), evaluator_(evaluator) {}

  Result<int> run() {
    const std::vector<NodeId> order = graph_.topological_order();
    for (size_t place = 0; place < order.size(); ++place) places_[order[place]] = place;
    int count = 0;
    for (size_t place = order.size(); place-- > 0;) {  // from behind: the longest functions first
      const NodeId id = order[place];
      if (is_dead(id)) {
        dead_.insert(id);
        continue;
      }
      if (node(id).op != "QuantizeLinear") continue;
      const std::optional<Function> function = function_of(id);
      if (!function || !pays(*function)) continue;
      const ConstantPtr table = table_of(*function);
      if (table == nullptr) continue;
      OriginSet origins;
      for (const NodeId part : function->nodes) merge_origins(&origins, node(part).origins);
      Attributes attributes;
      attributes.set("table", table);
      const std::string name = std::as_const(graph_).value(node(id).outputs[0]).name;
      AIPU_ASSIGN_OR_RETURN(const ValueId result, graph_.emit("aipu::ByteFunction", std::move(attributes),
                                                              {function->argument}, std::move(origins), name));
      AIPU_RETURN_IF_ERROR(graph_.replace_uses(node(id).outputs[0], result));
      dead_.insert(id);
      ++count;
    }
    if (count != 0) graph_.erase_dead_nodes();
    return count;
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }

  // Of whose results only functions before it in the order of run(), which have a table now, would know.
  bool is_dead(NodeId id) const {
    return std::all_of(node(id).outputs.begin(), node(id).outputs.end(), [&](ValueId output) {
      if (!output.valid()) return true;
      const std::vector<NodeId> users = graph_.users(output);
      return !graph_.is_graph_output(output) && !users.empty() &&
             std::all_of(users.begin(), users.end(), [&](NodeId user) { return dead_.contains(user); });
    });
  }

  // Whether each element of the only result is a function of those at its place, and of constants of one element.
  bool is_part(NodeId id) const {
    const Node& part = node(id);
    const OpDef* def = graph_.find_op(part.op);
    if (def == nullptr || part.outputs.size() != 1 || !part.subgraphs.empty()) return false;
    const bool converts = part.op == "QuantizeLinear" || part.op == "DequantizeLinear";
    if (converts && part.attributes.i_or("block_size", 0) != 0) return false;
    if (!converts && ((def->traits & kElementwise) == 0 || (def->traits & kNotFoldable) != 0)) return false;
    if (may_fault(graph_, part)) return false;
    const Shape& shape = graph_.type(part.outputs[0]).shape;
    return std::all_of(part.inputs.begin(), part.inputs.end(), [&](ValueId input) {
      if (!input.valid()) return true;
      const Constant* constant = graph_.constant(input);
      return constant != nullptr ? constant->element_count() == 1 : graph_.type(input).shape == shape;
    });
  }

  // Adds a node, and the ones before it down to `bytes`; false where one of them is no part of a function.
  bool add(NodeId id, Function* function, std::set<ValueId>* bytes) const {
    if (!id.valid() || !is_part(id) || function->nodes.size() == kMostNodes) return false;
    if (!function->nodes.insert(id).second) return true;
    const std::vector<ValueId>& inputs = node(id).inputs;
    return std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
      if (!input.valid() || graph_.constant(input) != nullptr) return true;
      if (!is_byte(graph_.type(input))) return add(graph_.value(input).producer, function, bytes);
      bytes->insert(input);
      return true;
    });
  }

  // The longest one that ends with `last`.
  std::optional<Function> function_of(NodeId last) const {
    if (!is_byte(graph_.type(node(last).outputs[0]))) return std::nullopt;
    Function function;
    std::set<ValueId> bytes;
    std::optional<Function> longest;
    NodeId next = last;
    while (add(next, &function, &bytes) && !bytes.empty()) {
      if (bytes.size() == 1) {
        function.argument = *bytes.begin();
        longest = function;
      }
      const auto place = [&](ValueId value) {
        const NodeId producer = graph_.value(value).producer;
        return producer.valid() ? static_cast<ptrdiff_t>(places_.at(producer)) : -1;
      };
      const auto latest =
          std::max_element(bytes.begin(), bytes.end(), [&](ValueId a, ValueId b) { return place(a) < place(b); });
      next = graph_.value(*latest).producer;
      bytes.erase(latest);
    }
    return longest;
  }

  // Two roundings to bytes take as long as a look into a table, and so does any function that is not just a few
  // instructions.
  bool pays(const Function& function) const {
    static const std::set<std::string_view> cheap = {
        "DequantizeLinear", "Add", "Sub", "Mul", "Neg", "Abs", "Relu", "Max", "Min", "Clip", "Identity"};
    const auto roundings = std::count_if(function.nodes.begin(), function.nodes.end(),
                                         [&](NodeId id) { return node(id).op == "QuantizeLinear"; });
    return roundings > 1 || std::any_of(function.nodes.begin(), function.nodes.end(), [&](NodeId id) {
             return node(id).op != "QuantizeLinear" && !cheap.contains(node(id).op);
           });
  }

  // Null where the evaluator has no kernel for a node.
  ConstantPtr table_of(const Function& function) const {
    std::vector<std::byte> bits;
    for (int64_t byte = 0; byte < kBytes; ++byte) bits.push_back(static_cast<std::byte>(byte));
    const DType type = graph_.type(function.argument).dtype;
    std::map<ValueId, ConstantPtr> known = {{function.argument, Constant::create(type, {kBytes}, std::move(bits))}};
    std::vector<NodeId> nodes(function.nodes.begin(), function.nodes.end());
    std::sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) { return places_.at(a) < places_.at(b); });
    for (const NodeId id : nodes) {
      Graph alone(graph_.ops());
      std::vector<ValueId> inputs;
      for (const ValueId input : node(id).inputs) {
        if (!input.valid()) {
          inputs.emplace_back();
          continue;
        }
        const auto found = known.find(input);
        inputs.push_back(alone.add_constant(found != known.end() ? found->second
                                                                 : reshape_constant(graph_.value(input).constant, {})));
      }
      const auto only = alone.add_node(node(id).op, node(id).attributes, inputs, {"y"}, node(id).origins);
      if (!only.ok()) return nullptr;
      const auto results = evaluator_.evaluate(alone, *only);
      if (!results.ok() || results->size() != 1 || (*results)[0]->shape() != std::vector<int64_t>{kBytes})
        return nullptr;
      known[node(id).outputs[0]] = (*results)[0];
    }
    return known[node(nodes.back()).outputs[0]];
  }

  static constexpr size_t kMostNodes = 64;
  static constexpr int64_t kBytes = 256;

  Graph& graph_;
  Evaluator& evaluator_;
  std::map<NodeId, size_t> places_;
  std::set<NodeId> dead_;
};

}  // namespace

Result<int> tabulate_bytes(Graph& graph, PassContext& context) {
  if (context.evaluator == nullptr || !context.has_byte_tables) return 0;
  return Tabulator(graph, *context.evaluator).run();
}

}  // namespace aipu::graph
