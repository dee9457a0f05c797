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
// The blocks have to lie along the axis that is summed over. Weights of bytes whose codes fit 4 bits, as those of int4
// and uint4 do behind lower_stored_types, take 4 bits.
//
// Runs before constants are folded, which would make numbers of all of them.
#include <algorithm>
#include <cstring>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

constexpr int64_t kBlockStep = 16;  // what the product's blocks are multiples of

// A matrix of codes with a scale, and perhaps a zero point, for each block of an axis.
struct Weights {
  const Constant* codes = nullptr;
  const Constant* scales = nullptr;
  const Constant* zeros = nullptr;  // null: 0
  size_t axis = 0;                  // that has blocks
  int64_t block = 0;

  int64_t extent(size_t k) const { return codes->shape()[k]; }
  int64_t blocks() const { return scales->shape()[axis]; }
  bool is_signed() const { return codes->dtype() == DType::kI8; }
  int64_t element(const Constant& bytes, size_t at) const {
    const auto byte = bytes.bytes()[at];
    return is_signed() ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
  }
  // Of an element or block: the place `along` the axis that has blocks and `across`.
  size_t place(const Constant& in, int64_t along, int64_t across) const {
    return static_cast<size_t>(axis == 0 ? along * in.shape()[1] + across : across * in.shape()[1] + along);
  }
  int64_t code(int64_t along, int64_t across) const { return element(*codes, place(*codes, along, across)); }
  int64_t zero(int64_t block_index, int64_t across) const {
    return zeros == nullptr ? 0 : element(*zeros, place(*zeros, block_index, across));
  }

  int bits() const {
    const int64_t least = is_signed() ? -8 : 0;
    const auto fit = [&](const Constant& bytes) {
      for (size_t k = 0; k < bytes.bytes().size(); ++k) {
        const int64_t value = element(bytes, k);
        if (value < least || value > least + 15) return false;
      }
      return true;
    };
    return fit(*codes) && (zeros == nullptr || fit(*zeros)) ? 4 : 8;
  }
};

// The operands of aipu::BlockQuantizedMatMul behind the first.
struct Operands {
  ConstantPtr codes, scales, zeros;
  int64_t bits = 0;
};

Operands operands_of(const Weights& w) {
  Operands result;
  result.bits = w.bits();
  const int64_t columns = w.extent(1 - w.axis), depth = w.extent(w.axis), blocks = w.blocks();
  const int64_t offset = w.is_signed() ? int64_t{1} << (result.bits - 1) : 0, in_byte = 8 / result.bits;
  const int64_t row_bytes = blocks * w.block / in_byte;
  std::vector<uint8_t> codes(static_cast<size_t>(columns * row_bytes));
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < depth; ++k) {
      codes[static_cast<size_t>(n * row_bytes + k / in_byte)] |=
          static_cast<uint8_t>((w.code(k, n) + offset) << (k % in_byte * result.bits));
    }
  }
  result.codes =
      Constant::of<uint8_t>(DType::kU8, {columns, blocks, w.block / in_byte}, std::span<const uint8_t>(codes));
  const Permutation order = w.axis == 0 ? Permutation{1, 0} : Permutation{0, 1};
  result.scales = transpose_constant(*w.scales, order);
  // Without zero points the operator takes the middle of the codes.
  if (w.zeros == nullptr && w.is_signed()) return result;
  std::vector<uint8_t> zeros;
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t b = 0; b < blocks; ++b) zeros.push_back(static_cast<uint8_t>(w.zero(b, n) + offset));
  }
  result.zeros = Constant::of<uint8_t>(DType::kU8, {columns, blocks}, std::span<const uint8_t>(zeros));
  return result;
}

ConstantPtr dense(const Weights& w) {
  const std::vector<double> scales = w.scales->to_doubles();
  std::vector<float> elements(static_cast<size_t>(w.codes->element_count()));
  for (int64_t along = 0; along < w.extent(w.axis); ++along) {
    for (int64_t across = 0; across < w.extent(1 - w.axis); ++across) {
      const int64_t block = along / w.block;
      const auto scale = static_cast<float>(scales[w.place(*w.scales, block, across)]);
      elements[w.place(*w.codes, along, across)] =
          static_cast<float>(w.code(along, across) - w.zero(block, across)) * scale;
    }
  }
  return Constant::of<float>(DType::kF32, w.codes->shape(), std::span<const float>(elements));
}

// The weights of aipu::BlockQuantizedMatMul, [N, K].
ConstantPtr dense(const Operands& w, int64_t block, int64_t depth) {
  const int64_t columns = w.codes->shape()[0], blocks = w.codes->shape()[1], in_byte = 8 / w.bits;
  const std::vector<double> scales = w.scales->to_doubles();
  const std::vector<double> zeros = w.zeros != nullptr ? w.zeros->to_doubles() : std::vector<double>();
  std::vector<float> elements;
  elements.reserve(static_cast<size_t>(columns * depth));
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < depth; ++k) {
      const auto byte = static_cast<int>(w.codes->bytes()[static_cast<size_t>((n * blocks * block + k) / in_byte)]);
      const int code = (byte >> (k % in_byte * w.bits)) & ((1 << w.bits) - 1);
      const auto at = static_cast<size_t>(n * blocks + k / block);
      const double zero = zeros.empty() ? 1 << (w.bits - 1) : zeros[at];
      elements.push_back((static_cast<float>(code) - static_cast<float>(zero)) * static_cast<float>(scales[at]));
    }
  }
  return Constant::of<float>(DType::kF32, {columns, depth}, std::span<const float>(elements));
}

class BlockQuantizedProducts {
 public:
  BlockQuantizedProducts(Graph& graph, bool reads_codes) : graph_(graph), reads_codes_(reads_codes) {}

  Result<int> run() {
    int count = 0;
    for (const NodeId id : graph_.topological_order()) {
      if (node(id).erased) continue;
      const auto weights = weights_of(id);
      const bool to_floats = !reads_codes_ && node(id).op == "aipu::BlockQuantizedMatMul";
      if (!weights && !to_floats) continue;
      Status status = weights ? rewrite(id, *weights) : multiply_floats(id);
      if (!status.ok()) return std::move(status).context(str_cat("node ", origins_text(node(id).origins)));
      ++count;
    }
    if (count != 0) graph_.erase_dead_nodes();
    return count;
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  ValueId input(NodeId id, size_t k) const { return k < node(id).inputs.size() ? node(id).inputs[k] : ValueId(); }

  std::optional<Weights> weights_of(NodeId id) const {
    const Node& n = node(id);
    if (n.op != "DequantizeLinear" || n.attributes.i("block_size") == 0) return std::nullopt;
    const Weights w{graph_.constant(input(id, 0)), graph_.constant(input(id, 1)),
                    input(id, 2).valid() ? graph_.constant(input(id, 2)) : nullptr,
                    static_cast<size_t>(n.attributes.i("axis")), n.attributes.i("block_size")};
    const bool is_known = w.codes != nullptr && w.scales != nullptr && (w.zeros != nullptr || !input(id, 2).valid());
    if (!is_known || w.codes->shape().size() != 2) return std::nullopt;
    if (w.codes->dtype() != DType::kI8 && w.codes->dtype() != DType::kU8) return std::nullopt;
    return w;
  }

  Status rewrite(NodeId id, const Weights& weights) {
    const ValueId value = node(id).outputs[0];
    Operands operands;
    for (const NodeId user : reads_codes_ ? graph_.users(value) : std::vector<NodeId>()) {
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

  Status multiply_floats(NodeId id) {
    const auto constant = [&](size_t k) {
      return input(id, k).valid() ? std::as_const(graph_).value(input(id, k)).constant : nullptr;
    };
    const Operands weights{constant(1), constant(2), constant(3), node(id).attributes.i("bits")};
    if (weights.codes == nullptr || weights.scales == nullptr || (input(id, 3).valid() && weights.zeros == nullptr))
      return {};
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
  Status fuse(NodeId user, ValueId value, size_t axis, const Weights& weights, Operands* operands) {
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
    if (operands->codes == nullptr) *operands = operands_of(weights);
    const std::string name = graph_.value(value).name;
    const auto constant = [&](const ConstantPtr& c) { return c == nullptr ? ValueId() : graph_.add_constant(c, name); };
    std::vector<ValueId> inputs{input(user, 0), constant(operands->codes), constant(operands->scales),
                                constant(operands->zeros), bias};
    while (!inputs.back().valid()) inputs.pop_back();
    Attributes attributes;
    attributes.set("bits", operands->bits);
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
  const bool reads_codes_;
};

}  // namespace

Result<int> block_quantized_products(Graph& graph, PassContext& context) {
  return BlockQuantizedProducts(graph, context.reads_codes).run();
}

}  // namespace aipu::graph
