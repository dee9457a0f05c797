// block_quantized_products: constant weights of 4 or 8 bits with a scale for each block stay as they are.
//
//   w ─ DequantizeLinear(block_size) ─ MatMul | Gemm ─ y               =>  x ─ aipu::BlockQuantizedMatMul(w) ─ y
//   w ─ DequantizeLinear(block_size) ─ Transpose ─ MatMul | Gemm ─ y   =>  the same
//   w ─ DequantizeLinear(block_size) ─ anything else                   =>  a constant
//
// and where kernels had better read floats (PassContext::reads_codes):
//
//   x ─ aipu::BlockQuantizedMatMul(w) ─ y                              =>  x ─ MatMul(a constant) ─ y
//
// The blocks have to lie along the axis that is summed over. What the codes become, and of which floats they may be:
// block_weights.h.
//
// Runs before constants are folded, which would make numbers of all of them.
#include <algorithm>

#include "graph/passes/block_weights.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

constexpr int64_t kBlockStep = 16;  // what the product's blocks are multiples of

DType format_of(const Node& node) {
  return node.attributes.has("format") ? node.attributes.dtype("format") : DType::kVoid;
}

class BlockQuantizedProducts {
 public:
  BlockQuantizedProducts(Graph& graph, const PassContext& target) : graph_(graph), target_(target) {}

  Result<int> run() {
    int count = 0;
    for (const NodeId id : graph_.topological_order()) {
      if (node(id).erased) continue;
      const auto weights = weights_of(id);
      const auto unread = unread_weights(id);
      if (!weights && !unread) continue;
      Status status = weights ? rewrite(id, *weights) : multiply_floats(id, *unread);
      if (!status.ok()) return std::move(status).context(str_cat("node ", origins_text(node(id).origins)));
      ++count;
    }
    if (count != 0) graph_.erase_dead_nodes();
    return count;
  }

 private:
  struct Operands {
    bool is_known = false;
    std::optional<BlockOperands> weights;  // none: they are not read
  };

  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  ValueId input(NodeId id, size_t k) const { return k < node(id).inputs.size() ? node(id).inputs[k] : ValueId(); }

  std::optional<BlockWeights> weights_of(NodeId id) const {
    const Node& n = node(id);
    if (n.op != "DequantizeLinear" || n.attributes.i("block_size") == 0) return std::nullopt;
    const BlockWeights w{graph_.constant(input(id, 0)),
                         graph_.constant(input(id, 1)),
                         input(id, 2).valid() ? graph_.constant(input(id, 2)) : nullptr,
                         static_cast<size_t>(n.attributes.i("axis")),
                         n.attributes.i("block_size"),
                         format_of(n)};
    const bool is_known = w.codes != nullptr && w.scales != nullptr && (w.zeros != nullptr || !input(id, 2).valid());
    if (!is_known || w.codes->shape().size() != 2) return std::nullopt;
    if (w.codes->dtype() != DType::kI8 && w.codes->dtype() != DType::kU8) return std::nullopt;
    return w;
  }

  // Of a product of codes, which the kernels of this target do not multiply.
  std::optional<BlockOperands> unread_weights(NodeId id) const {
    if (node(id).op != "aipu::BlockQuantizedMatMul") return std::nullopt;
    const auto constant = [&](size_t k) {
      return input(id, k).valid() ? std::as_const(graph_).value(input(id, k)).constant : nullptr;
    };
    BlockOperands weights{constant(1),        constant(2), constant(3), constant(5), node(id).attributes.i("bits"),
                          format_of(node(id))};
    if (weights.codes == nullptr || weights.scales == nullptr || (input(id, 3).valid() && weights.zeros == nullptr) ||
        (input(id, 5).valid() && weights.table == nullptr) || reads_weights(weights, target_))
      return std::nullopt;
    return weights;
  }

  Status rewrite(NodeId id, const BlockWeights& weights) {
    const ValueId value = node(id).outputs[0];
    Operands operands;
    for (const NodeId user : target_.reads_codes ? graph_.users(value) : std::vector<NodeId>()) {
      if (node(user).op == "Transpose" && node(user).attributes.ints("perm") == Permutation{1, 0}) {
        const ValueId turned = node(user).outputs[0];
        for (const NodeId behind : graph_.users(turned))
          AIPU_RETURN_IF_ERROR(fuse(behind, turned, 1 - weights.axis, weights, &operands));
      }
      AIPU_RETURN_IF_ERROR(fuse(user, value, weights.axis, weights, &operands));
    }
    if (!is_used(value)) return {};
    AIPU_ASSIGN_OR_RETURN(const ValueId numbers, as_constant(dense(weights), id));
    return graph_.replace_uses(value, numbers);
  }

  // In the type of the node's result.
  Result<ValueId> as_constant(ConstantPtr numbers, NodeId id) {
    const std::string name = graph_.value(node(id).outputs[0]).name;
    const DType dtype = graph_.type(node(id).outputs[0]).dtype;
    const ValueId constant = graph_.add_constant(std::move(numbers), name);
    if (dtype == DType::kF32) return constant;
    Attributes attributes;
    attributes.set("to", dtype);
    return graph_.emit("Cast", std::move(attributes), {constant}, OriginSet(node(id).origins), name);
  }

  Status multiply_floats(NodeId id, const BlockOperands& weights) {
    const ValueId output = node(id).outputs[0], x = input(id, 0), bias = input(id, 4);
    const OriginSet origins = node(id).origins;
    const std::string name = graph_.value(output).name;
    const ConstantPtr rows = dense(weights, node(id).attributes.i("block_size"), node(id).attributes.i("K"));
    AIPU_ASSIGN_OR_RETURN(const ValueId matrix, as_constant(transpose_constant(*rows, {1, 0}), id));
    AIPU_ASSIGN_OR_RETURN(ValueId product, graph_.emit("MatMul", {}, {x, matrix}, origins, name));
    if (bias.valid()) {
      AIPU_ASSIGN_OR_RETURN(product, graph_.emit("Add", {}, {product, bias}, origins, name));
    }
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(output, product));
    graph_.erase_node(id);
    return {};
  }

  // Whether anything is left that reads it; a Transpose may be there only for products that are gone.
  bool is_used(ValueId value) const {
    if (std::as_const(graph_).is_graph_output(value)) return true;
    const std::vector<NodeId> users = graph_.users(value);
    return std::any_of(users.begin(), users.end(), [&](NodeId user) {
      const ValueId result = node(user).outputs[0];
      return node(user).op != "Transpose" || std::as_const(graph_).is_graph_output(result) ||
             !graph_.users(result).empty();
    });
  }

  // What `value`, whose blocks lie along `axis`, is multiplied by, if `user` is a product that sums over that axis.
  Status fuse(NodeId user, ValueId value, size_t axis, const BlockWeights& weights, Operands* operands) {
    const bool is_gemm = node(user).op == "Gemm";
    if ((node(user).op != "MatMul" && !is_gemm) || input(user, 0) == value || input(user, 1) != value) return {};
    const Attributes& given = node(user).attributes;
    const size_t summed = is_gemm && given.i("transB") != 0 ? 1 : 0;
    if (axis != summed || weights.block % kBlockStep != 0) return {};
    ValueId bias;
    if (is_gemm) {
      if (given.i("transA") != 0 || given.f("alpha") != 1) return {};
      bias = given.f("beta") == 0 ? ValueId() : input(user, 2);
      const Shape columns{Dim(weights.extent(1 - weights.axis))};
      if (bias.valid() && (given.f("beta") != 1 || graph_.type(bias).shape != columns)) return {};
    }
    if (!operands->is_known) *operands = {true, block_operands(weights, target_)};
    if (!operands->weights) return {};
    const std::string name = graph_.value(value).name;
    const auto constant = [&](const ConstantPtr& c) { return c == nullptr ? ValueId() : graph_.add_constant(c, name); };
    std::vector<ValueId> inputs{input(user, 0), constant(operands->weights->codes), constant(operands->weights->scales),
                                constant(operands->weights->zeros), bias};
    while (!inputs.back().valid()) inputs.pop_back();
    Attributes attributes;
    attributes.set("bits", operands->weights->bits);
    if (operands->weights->format != DType::kVoid) attributes.set("format", operands->weights->format);
    attributes.set("block_size", weights.block);
    attributes.set("K", weights.extent(weights.axis));
    const ValueId output = node(user).outputs[0];
    AIPU_ASSIGN_OR_RETURN(const ValueId product,
                          graph_.emit("aipu::BlockQuantizedMatMul", std::move(attributes), std::move(inputs),
                                      OriginSet(node(user).origins), graph_.value(output).name));
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(output, product));
    graph_.erase_node(user);
    return {};
  }

  Graph& graph_;
  const PassContext& target_;
};

}  // namespace

Result<int> block_quantized_products(Graph& graph, PassContext& context) {
  return BlockQuantizedProducts(graph, context).run();
}

}  // namespace aipu::graph
