// unsigned_bytes: int8 that products read becomes uint8, 128 more, where CPUs multiply unsigned bytes by signed ones.
//
//   ... ─ QuantizeLinear(s, z: int8) ─ MaxPool ─ aipu::QuantizedConv(w, z)
//   =>    QuantizeLinear(s, z + 128: uint8) ─ MaxPool ─ aipu::QuantizedConv(w, z + 128)
//
// Products would add the 128 to each word of four bytes before they multiply it, as often as they read it. Integers
// that a QuantizeLinear makes, and that only such products, DequantizeLinears and what moves elements between them
// read, change together. All results stay the same.
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "graph/passes/passes.h"
#include "graph/passes/quantized_operators.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

class UnsignedBytes {
 public:
  explicit UnsignedBytes(Graph& graph) : graph_(graph) {}

  int run() {
    std::set<ValueId> seen;
    int count = 0;
    for (const NodeId id : graph_.topological_order()) {
      if (!is_product(node(id)) || graph_.type(node(id).inputs[0]).dtype != DType::kI8) continue;
      Together together;
      const bool change = collect(node(id).inputs[0], &together);
      const bool is_new = !seen.contains(node(id).inputs[0]);
      seen.insert(together.values.begin(), together.values.end());
      if (!change || !is_new) continue;
      for (const ValueId value : together.values) graph_.value(value).type.dtype = DType::kU8;
      for (const NodeId changed : together.with_zero) move_zero(changed);
      count += static_cast<int>(together.values.size());
    }
    if (count != 0) graph_.erase_dead_nodes();
    return count;
  }

 private:
  // What has to change if one of the values does: these, and the nodes that have their zero point.
  struct Together {
    std::set<ValueId> values;
    std::set<NodeId> with_zero;
  };

  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  static bool is_product(const Node& n) { return n.op == "aipu::QuantizedConv" || n.op == "aipu::QuantizedMatMul"; }
  static constexpr size_t kZero = 2;

  // Whether a zero point is known: a constant, or absent where one number says it.
  bool knows_zero(NodeId id) const {
    const std::vector<ValueId>& inputs = node(id).inputs;
    if (inputs.size() > kZero && inputs[kZero].valid()) return graph_.constant(inputs[kZero]) != nullptr;
    return is_product(node(id)) || element_count(graph_.type(inputs[1]).shape).constant() == 1;
  }

  bool collect(ValueId first, Together* together) const {
    std::vector<ValueId> open = {first};
    const auto moves_along = [&](NodeId id) {
      const Node& mover = node(id);
      const size_t count = moved_operands(mover);
      open.insert(open.end(), mover.inputs.begin(), mover.inputs.begin() + static_cast<ptrdiff_t>(count));
      for (const ValueId output : mover.outputs)
        if (output.valid()) open.push_back(output);
      return count > 0;
    };
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (!together->values.insert(value).second) continue;
      const NodeId producer = graph_.value(value).producer;
      if (!producer.valid() || graph_.is_graph_output(value) || graph_.type(value).dtype != DType::kI8) return false;
      if (node(producer).op == "QuantizeLinear") {
        if (!knows_zero(producer)) return false;
        together->with_zero.insert(producer);
      } else if (!moves_along(producer)) {
        return false;
      }
      for (const NodeId user : graph_.users(value)) {
        const std::vector<ValueId>& inputs = node(user).inputs;
        const size_t moved = moved_operands(node(user));
        const size_t data = moved > 0 ? moved : 1;
        if (std::find(inputs.begin() + static_cast<ptrdiff_t>(data), inputs.end(), value) != inputs.end()) return false;
        if (moved > 0) {
          moves_along(user);
        } else if ((node(user).op == "DequantizeLinear" || is_product(node(user))) && knows_zero(user)) {
          together->with_zero.insert(user);
        } else {
          return false;
        }
      }
    }
    return true;
  }

  void move_zero(NodeId id) {
    constexpr auto kSign = std::byte{0x80};
    const std::vector<ValueId>& inputs = node(id).inputs;
    ConstantPtr moved = Constant::create(DType::kU8, {}, {kSign});
    std::string name = "zero_point";
    if (inputs.size() > kZero && inputs[kZero].valid()) {
      const Constant& zero = *graph_.constant(inputs[kZero]);
      std::vector<std::byte> bytes(zero.bytes().begin(), zero.bytes().end());
      for (std::byte& byte : bytes) byte ^= kSign;
      moved = Constant::create(DType::kU8, zero.shape(), std::move(bytes));
      name = graph_.value(inputs[kZero]).name;
    }
    const ValueId zero = graph_.add_constant(std::move(moved), name);
    Node& changed = graph_.node(id);
    if (changed.inputs.size() <= kZero) changed.inputs.resize(kZero + 1);
    changed.inputs[kZero] = zero;
    if (changed.op == "QuantizeLinear") changed.attributes.erase("output_dtype");
  }

  Graph& graph_;
};

}  // namespace

Result<int> unsigned_bytes(Graph& graph, PassContext& context) {
  return context.multiplies_unsigned_bytes ? UnsignedBytes(graph).run() : 0;
}

}  // namespace aipu::graph
