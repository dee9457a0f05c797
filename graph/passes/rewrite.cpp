#include "graph/passes/rewrite.h"
#include "graph/ir/op_def.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ir/op_def.h"
#include "runtime/base/half.h"

namespace aipu::graph {

NodeId producer_with_op(const Graph& graph, ValueId value, std::string_view op) {
  if (!value.valid()) return {};
  const NodeId producer = graph.value(value).producer;
  return producer.valid() && graph.node(producer).op == op ? producer : NodeId{};
}

bool used_once(const Graph& graph, ValueId value) {
  return graph.user_count(value) == 1 && !graph.is_graph_output(value);
}

std::optional<double> splat_of(const Graph& graph, ValueId value) {
  const Constant* constant = graph.constant(value);
  if (constant == nullptr || constant->element_count() == 0) return std::nullopt;
  const auto bytes = constant->bytes();
  const size_t size = dtype_bytes(constant->dtype());
  if (std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) != 0) return std::nullopt;
  const ConstantPtr first =
      Constant::create(constant->dtype(), {}, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
  return first->to_doubles()[0];
}

std::optional<std::vector<double>> per_channel(const Graph& graph, ValueId value, size_t rank, size_t axis,
                                               size_t channels) {
  const Constant* constant = graph.constant(value);
  if (constant == nullptr || constant->shape().size() > rank) return std::nullopt;
  const std::vector<int64_t>& shape = constant->shape();
  const size_t lead = rank - shape.size();
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] != 1 && (lead + k != axis || shape[k] != static_cast<int64_t>(channels))) return std::nullopt;
  }
  std::vector<double> elements = constant->to_doubles();
  if (elements.size() == 1) elements.assign(channels, elements[0]);
  return elements.size() == channels ? std::optional(std::move(elements)) : std::nullopt;
}

Shape padded_shape(const Shape& shape, size_t rank) {
  Shape result(rank > shape.size() ? rank - shape.size() : 0, Dim(1));
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

Permutation inverse(const Permutation& perm) {
  Permutation result(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) result[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
  return result;
}

Permutation compose(const Permutation& first, const Permutation& second) {
  Permutation result;
  for (const int64_t axis : second) result.push_back(first[static_cast<size_t>(axis)]);
  return result;
}

bool is_identity(const Permutation& perm) {
  for (size_t k = 0; k < perm.size(); ++k) {
    if (perm[k] != static_cast<int64_t>(k)) return false;
  }
  return true;
}

Shape permuted(const Shape& shape, const Permutation& perm) {
  Shape result;
  for (const int64_t axis : perm) result.push_back(shape[static_cast<size_t>(axis)]);
  return result;
}

bool moves_no_bytes(const Shape& shape, const Permutation& perm) {
  int64_t last = -1;
  for (const int64_t axis : perm) {
    if (shape[static_cast<size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

ConstantPtr transpose_constant(const Constant& constant, const Permutation& perm) {
  const auto& shape = constant.shape();
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank, 1);
  for (size_t k = rank; k-- > 1;) strides[k - 1] = strides[k] * shape[k];
  std::vector<int64_t> extents;
  std::vector<int64_t> steps;
  for (const int64_t axis : perm) {
    extents.push_back(shape[static_cast<size_t>(axis)]);
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  const size_t size = dtype_bytes(constant.dtype());
  const std::byte* from = constant.bytes().data();
  std::vector<std::byte> bytes(constant.bytes().size());
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (size_t at = 0; at < bytes.size(); at += size) {
    std::memcpy(bytes.data() + at, from + static_cast<size_t>(offset) * size, size);
    for (size_t k = rank; k-- > 0;) {
      offset += steps[k];
      if (++index[k] < extents[k]) break;
      offset -= steps[k] * extents[k];
      index[k] = 0;
    }
  }
  return Constant::create(constant.dtype(), std::move(extents), std::move(bytes));
}

ConstantPtr reshape_constant(const ConstantPtr& constant, std::vector<int64_t> shape) {
  return Constant::borrow(constant->dtype(), std::move(shape), constant->bytes(), constant);
}

ConstantPtr float_constant(DType dtype, std::vector<int64_t> shape, const std::vector<double>& elements) {
  std::vector<std::byte> bytes(elements.size() * dtype_bytes(dtype));
  std::byte* to = bytes.data();
  const auto put = [&](auto value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  for (const double element : elements) {
    switch (dtype) {
      case DType::kF64:
        put(element);
        break;
      case DType::kF32:
        put(static_cast<float>(element));
        break;
      case DType::kF16:
        put(f16_from_f32(static_cast<float>(element)));
        break;
      case DType::kBF16:
        put(bf16_from_f32(static_cast<float>(element)));
        break;
      default:
        return nullptr;
    }
  }
  return Constant::create(dtype, std::move(shape), std::move(bytes));
}

Result<ValueId> reshaped(Graph& graph, ValueId value, const Shape& shape, const OriginSet& origins) {
  if (graph.type(value).shape == shape) return value;
  if (graph.constant(value) != nullptr) {
    if (const auto extents = static_shape(shape)) {
      return graph.add_constant(reshape_constant(graph.value(value).constant, *extents), graph.value(value).name);
    }
  }
  Attributes attributes;
  attributes.set("shape", shape);
  return graph.emit("Reshape", std::move(attributes), {value}, origins, str_cat(graph.value(value).name, ".reshaped"));
}

Result<ValueId> transposed(Graph& graph, ValueId value, const Permutation& perm, const OriginSet& origins) {
  if (is_identity(perm)) return value;
  if (const Constant* constant = graph.constant(value)) {
    return graph.add_constant(transpose_constant(*constant, perm), graph.value(value).name);
  }
  const Shape& shape = graph.type(value).shape;
  if (moves_no_bytes(shape, perm)) return reshaped(graph, value, permuted(shape, perm), origins);
  Attributes attributes;
  attributes.set("perm", perm);
  return graph.emit("Transpose", std::move(attributes), {value}, origins,
                    str_cat(graph.value(value).name, ".transposed"));
}

// What is computed in place of a node is needed when that node is: new nodes which nothing else uses.
static void keep_needed(Graph& graph, NodeId replaced, ValueId by) {
  const Dim wanted = needed(std::as_const(graph).node(replaced));
  if (wanted == Dim(1) || graph.user_count(by) != 0) return;
  const auto is_symbol = [&](ValueId value) {
    const auto& symbols = graph.symbols();
    return std::any_of(symbols.begin(), symbols.end(), [&](const Symbol& symbol) { return symbol.value == value; });
  };
  std::vector<ValueId> work = {by};
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid() || producer < replaced || graph.is_graph_output(value) || is_symbol(value)) continue;
    Node& node = graph.node(producer);
    if (node.outputs.size() != 1 || node.attributes.has(std::string(kNeeded))) continue;
    node.attributes.set(std::string(kNeeded), Shape{wanted});
    for (const ValueId input : node.inputs) {
      if (input.valid() && used_once(graph, input)) work.push_back(input);
    }
  }
}

Status replace_node(Graph& graph, NodeId id, ValueId by) {
  keep_needed(graph, id, by);
  const Node& node = std::as_const(graph).node(id);
  const OriginSet origins = node.origins;
  const std::vector<ValueId> outputs = node.outputs;
  AIPU_RETURN_IF_ERROR(graph.replace_uses(outputs[0], by));
  if (const NodeId producer = graph.value(by).producer; producer.valid())
    merge_origins(&graph.node(producer).origins, origins);
  for (const ValueId output : outputs) {
    if (output.valid() && graph.user_count(output) != 0) return {};
  }
  graph.erase_node(id);
  return {};
}

}  // namespace aipu::graph
