#include "graph/ir/op_def.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "graph/ir/attribute_error.h"
#include "graph/ops/axis_rules.h"
#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

using Records = std::map<std::string, std::unique_ptr<const OpDef>, std::less<>>;

const Records& builtin_records() {
  // never destroyed: records are handed out as plain pointers
  static const Records* const records = [] {
    auto* fresh = new Records();
    for (OpDef& def : builtin_ops()) {
      std::string name = def.name;
      fresh->emplace(std::move(name), std::make_unique<const OpDef>(std::move(def)));
    }
    return fresh;
  }();
  return *records;
}

const OpDef* found(const Records& records, std::string_view name) {
  const auto it = records.find(name);
  return it != records.end() ? it->second.get() : nullptr;
}

const AttributeDef* find_attribute(const OpDef& def, std::string_view name) {
  for (const AttributeDef& attribute : def.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

bool accepts(std::string_view letters, DType dtype) {
  if (letters == "*") return true;
  const char kind = dtype_info(dtype).kind;
  return letters.find(kind == 'g' ? 'f' : kind) != std::string_view::npos;
}

// The operand record of position k: the last one repeats if variadic. Null beyond the end.
const OperandDef* operand_at(const std::vector<OperandDef>& operands, size_t k) {
  if (k < operands.size()) return &operands[k];
  return !operands.empty() && operands.back().variadic ? &operands.back() : nullptr;
}

Status check_attributes(const OpDef& def, const Node& node) {
  for (const auto& [name, value] : node.attributes.all()) {
    const AttributeDef* attribute = find_attribute(def, name);
    if (name == kNeeded && kind_of(value) == AttributeKind::kShape) continue;
    if (attribute == nullptr) return invalid_model(str_cat(def.name, ": has no attribute '", name, '\''));
    if (kind_of(value) != attribute->kind) {
      return invalid_model(str_cat(def.name, ": attribute '", name, "' must be of kind ", kind_name(attribute->kind),
                                   ", found ", kind_name(kind_of(value))));
    }
    if (const auto* constant = std::get_if<ConstantPtr>(&value); constant != nullptr && *constant == nullptr) {
      return invalid_model(str_cat(def.name, ": attribute '", name, "' holds no tensor"));
    }
  }
  for (const AttributeDef& attribute : def.attributes) {
    if (node.attributes.has(attribute.name)) continue;
    if (attribute.required) return invalid_model(str_cat(def.name, ": attribute '", attribute.name, "' is missing"));
    if (attribute.default_value)
      return invalid_model(str_cat(def.name, ": attribute '", attribute.name, "' has not been given its default"));
  }
  return {};
}

Status check_operands(const OpDef& def, const Graph& graph, const Node& node) {
  size_t captured = 0;
  for (const auto& subgraph : node.subgraphs) captured += static_cast<size_t>(std::max(subgraph->captured_count, 0));
  if (captured > node.inputs.size())
    return invalid_model(str_cat(def.name, ": has fewer inputs than its sub-graphs capture"));
  const size_t count = node.inputs.size() - captured;
  for (size_t k = 0; k < count; ++k) {
    const OperandDef* operand = operand_at(def.inputs, k);
    if (operand == nullptr) {
      return invalid_model(str_cat(def.name, ": takes at most ", def.inputs.size(), " inputs, found ", count));
    }
    if (!node.inputs[k].valid()) {
      if (operand->optional) continue;
      return invalid_model(str_cat(def.name, ": input ", k, " '", operand->name, "' is missing"));
    }
    const DType dtype = graph.type(node.inputs[k]).dtype;
    if (!accepts(operand->types, dtype)) {
      return unsupported(str_cat(def.name, ": input ", k, " '", operand->name, "' may not be ", dtype_name(dtype)));
    }
  }
  for (size_t k = count; k < def.inputs.size(); ++k) {
    const OperandDef& operand = def.inputs[k];
    // A variadic operand stands for at least one.
    if (!operand.optional) return invalid_model(str_cat(def.name, ": input ", k, " '", operand.name, "' is missing"));
  }
  for (size_t k = count; k < node.inputs.size(); ++k) {
    if (!node.inputs[k].valid()) return invalid_model(str_cat(def.name, ": a captured value is missing"));
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (operand_at(def.outputs, k) == nullptr) {
      return invalid_model(
          str_cat(def.name, ": has at most ", def.outputs.size(), " outputs, found ", node.outputs.size()));
    }
  }
  if (node.outputs.empty()) return invalid_model(str_cat(def.name, ": has no output"));
  return {};
}

Status check_rest(const OpDef& def, const Graph& graph, const Node& node) {
  if (!def.verify) return {};
  return catch_attribute_error([&] { return def.verify(graph, node); }).context(def.name);
}

}  // namespace

std::optional<AxisMap> axis_map(const OpDef& def, const Graph& graph, const Node& node) {
  if (def.axes) return def.axes(graph, node);
  if ((def.traits & kElementwise) != 0) return axes::broadcast()(graph, node);
  return std::nullopt;
}

const OpDef* find_op(std::string_view name) { return found(builtin_records(), name); }

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> result;
  for (const auto& [name, def] : builtin_records()) result.push_back(def.get());
  return result;
}

const OpDef* OpSet::find(std::string_view name) const {
  const OpDef* own = find_own(name);
  return own != nullptr ? own : find_op(name);
}

const OpDef* OpSet::find_own(std::string_view name) const { return found(own_, name); }

Status OpSet::add(OpDef def) {
  if (def.name.empty() || !def.infer)
    return invalid_argument(str_cat("op '", def.name, "': a record needs a name and a type rule"));
  if (find(def.name) != nullptr) return invalid_argument(str_cat("op '", def.name, "' is registered already"));
  std::string name = def.name;
  own_.emplace(std::move(name), std::make_unique<const OpDef>(std::move(def)));
  return {};
}

bool takes_rounded(const OpDef& def, size_t i) {
  if ((def.traits & kTakesRounded) == 0) return false;
  if (i >= def.inputs.size() && !def.inputs.back().variadic) return false;
  return def.inputs[std::min(i, def.inputs.size() - 1)].types == def.inputs[0].types;
}

Dim needed(const Node& node) {
  const auto* value = node.attributes.find(kNeeded);
  const auto* dims = value == nullptr ? nullptr : std::get_if<Shape>(value);
  return dims == nullptr || dims->empty() ? Dim(1) : dims->front();
}

bool may_fault(const Graph& graph, const Node& node) {
  const OpDef* def = graph.find_op(node.op);
  if (def == nullptr || (def->traits & kFaults) == 0) return false;
  return (def->traits & kElementwise) == 0 || is_integer(graph.type(node.inputs[0]).dtype);
}

Status check_node_schema(const OpDef& def, const Graph& graph, Node* node) {
  for (const AttributeDef& attribute : def.attributes) {
    if (attribute.default_value && !node->attributes.has(attribute.name))
      node->attributes.set(attribute.name, *attribute.default_value);
  }
  AIPU_RETURN_IF_ERROR(check_attributes(def, *node));
  AIPU_RETURN_IF_ERROR(check_operands(def, graph, *node));
  if (def.complete) {
    Status status = catch_attribute_error([&] { return def.complete(graph, node); });
    if (!status.ok()) return std::move(status).context(def.name);
    AIPU_RETURN_IF_ERROR(check_attributes(def, *node));
  }
  return check_rest(def, graph, *node);
}

Status check_complete_node(const OpDef& def, const Graph& graph, const Node& node) {
  AIPU_RETURN_IF_ERROR(check_attributes(def, node));
  AIPU_RETURN_IF_ERROR(check_operands(def, graph, node));
  return check_rest(def, graph, node);
}

namespace {

// Of two extents that only a run knows, of which one is 1 or both are the same: the greater one, but 0 where one is 0.
// Extents that have met before are not repeated: select(min(M, N), max(M, N), 0) for any order and number of M and N.
Dim broadcast_extent(const Dim& a, const Dim& b) {
  Dim least[2] = {a, b}, greatest[2] = {a, b};
  for (size_t k = 0; k < 2; ++k) {
    const std::vector<Dim>& operands = greatest[k].operands();
    if (greatest[k].op() != DimOp::kSelect || operands[2] != Dim(0) || operands[0].op() != DimOp::kMin) continue;
    least[k] = operands[0];
    greatest[k] = Dim(operands[1]);
  }
  return select(min(least[0], least[1]), max(greatest[0], greatest[1]), 0);
}

}  // namespace

Result<Shape> broadcast_shapes(std::span<const Shape> shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape result(rank, Dim(1));
  for (const Shape& shape : shapes) {
    for (size_t k = 0; k < shape.size(); ++k) {
      Dim& total = result[rank - shape.size() + k];
      const Dim& extent = shape[k];
      const auto x = total.constant();
      const auto y = extent.constant();
      if (total == extent || y == 1) continue;
      if (x == 1) {
        total = extent;
      } else if (x && y) {
        return invalid_model(str_cat("shapes ", shape_text(result), " and ", shape_text(shape),
                                     " do not broadcast: extents ", *x, " and ", *y));
      } else if (x || y) {
        // The symbolic one has to be 1 or the same.
        if (y) total = extent;
      } else {
        total = broadcast_extent(total, extent);
      }
    }
  }
  return result;
}

}  // namespace aipu::graph
