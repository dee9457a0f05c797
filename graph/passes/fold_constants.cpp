// fold_constants: a node whose inputs are all constant is computed now.
//
//   c1 ┐
//      ├ Add ─ y        =>        c = c1 + c2
//   c2 ┘
//
// Moves of bytes (Reshape and the like, Transpose) and splats (ConstantOfShape, Expand of one element) are done here;
// the rest is given to the evaluator, which runs the op's own kernel. What the evaluator cannot compute stays in the
// graph.
#include <algorithm>
#include <cstring>

#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "runtime/base/checked_math.h"

namespace aipu::graph {
namespace {

// Results that are much larger than what they are made from are cheaper to compute than to store and load. Weights are
// an exception: kernels want them packed when compiling. No model, though, makes weights of any size out of a few bytes
// of file.
constexpr int64_t kMaxGrowthBytes = int64_t{1} << 24;
constexpr int64_t kMaxSplatBytes = int64_t{1} << 29;

std::optional<int64_t> static_bytes(const TensorType& type) {
  const auto count = element_count(type.shape).constant();
  return count && *count >= 0 ? checked_mul(*count, static_cast<int64_t>(dtype_bytes(type.dtype))) : std::nullopt;
}

ConstantPtr splat(const TensorType& type, std::span<const std::byte> element) {
  const auto shape = static_shape(type.shape);
  const auto total = static_bytes(type);
  if (!shape || !total || element.size() != dtype_bytes(type.dtype)) return nullptr;
  std::vector<std::byte> bytes(static_cast<size_t>(*total));
  for (size_t at = 0; at < bytes.size(); at += element.size())
    std::memcpy(bytes.data() + at, element.data(), element.size());
  return Constant::create(type.dtype, *shape, std::move(bytes));
}

// Without an evaluator; null if it takes one.
ConstantPtr fold_directly(const Graph& graph, const Node& node, const OpDef& def) {
  const TensorType& type = graph.type(node.outputs[0]);
  if (node.op == "ConstantOfShape") {
    if (const AttributeValue* value = node.attributes.find("value")) {
      const auto* constant = std::get_if<ConstantPtr>(value);
      return constant != nullptr ? splat(type, (*constant)->bytes()) : nullptr;
    }
    const std::vector<std::byte> zero(dtype_bytes(type.dtype));
    return splat(type, zero);
  }
  if (node.inputs.empty() || !node.inputs[0].valid()) return nullptr;
  const ConstantPtr& input = graph.value(node.inputs[0]).constant;
  const auto shape = static_shape(type.shape);
  if (input == nullptr || !shape) return nullptr;
  if ((def.traits & kView) != 0) return Constant::borrow(type.dtype, *shape, input->bytes(), input);
  if (node.op == "Transpose") return transpose_constant(*input, node.attributes.ints("perm"));
  if (node.op == "Expand" && input->element_count() == 1) return splat(type, input->bytes());
  return nullptr;
}

bool is_foldable(const Graph& graph, const Node& node, const OpDef& def, int64_t limit) {
  if ((def.traits & kNotFoldable) != 0 || !node.subgraphs.empty()) return false;
  int64_t input_bytes = 0;
  for (const ValueId input : node.inputs) {
    if (!input.valid()) continue;
    const Constant* constant = graph.constant(input);
    if (constant == nullptr) return false;
    input_bytes += static_cast<int64_t>(constant->bytes().size());
  }
  int64_t output_bytes = 0;
  for (const ValueId output : node.outputs) {
    if (!output.valid()) continue;
    const auto bytes = static_bytes(graph.type(output));
    const auto sum = bytes ? checked_add(output_bytes, *bytes) : std::nullopt;
    if (!sum) return false;
    output_bytes = *sum;
  }
  // Attributes may hold symbols that the static types do not show.
  for (const auto& [name, attribute] : node.attributes.all()) {
    if (const auto* shape = std::get_if<Shape>(&attribute); shape != nullptr && !is_static(*shape)) return false;
  }
  const int64_t growth = node.op == "ConstantOfShape" ? kMaxSplatBytes : kMaxGrowthBytes;
  return output_bytes <= limit && (output_bytes <= growth || output_bytes / 4 <= input_bytes);
}

}  // namespace

Result<int> fold_constants(Graph& graph, PassContext& context) {
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    const OpDef* def = graph.find_op(node.op);
    if (def == nullptr || !is_foldable(graph, node, *def, context.fold_limit_bytes)) continue;
    std::vector<ConstantPtr> results(node.outputs.size());
    if (ConstantPtr direct = node.outputs[0].valid() ? fold_directly(graph, node, *def) : nullptr) {
      results[0] = std::move(direct);
    } else if (context.evaluator != nullptr) {
      auto evaluated = context.evaluator->evaluate(graph, id);
      if (!evaluated.ok()) {
        // No kernel for it here, or it fails as it would at run time: then it does so at run time.
        if (evaluated.status().code() == ErrorCode::kInternal) {
          return std::move(evaluated).status().context(str_cat("node ", origins_text(node.origins)));
        }
        continue;
      }
      results = *std::move(evaluated);
      if (results.size() != node.outputs.size())
        return internal_error(str_cat("the evaluator returned ", results.size(), " outputs of ", node.op));
    } else {
      continue;
    }
    const std::vector<ValueId> outputs = node.outputs;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k].valid() || results[k] == nullptr) continue;
      const Value& value = std::as_const(graph).value(outputs[k]);
      if (results[k]->type() != value.type) {
        return internal_error(
            str_cat("folding %", value.name, ": ", value.type.text(), " yielded ", results[k]->type().text()));
      }
      AIPU_RETURN_IF_ERROR(graph.replace_uses(outputs[k], graph.add_constant(std::move(results[k]), value.name)));
    }
    ++count;
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
