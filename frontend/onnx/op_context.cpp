#include "frontend/onnx/op_context.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/half.h"

namespace aipu::frontend {

using graph::AttributeKind;
using graph::Constant;

const TensorType& OpContext::type(ValueId value) const {
  static const TensorType kNone;
  return value.valid() ? graph_.type(value) : kNone;
}

void OpContext::expect_inputs(size_t least, size_t most) {
  if (inputs.size() > most) fail_invalid(str_cat("has ", inputs.size(), " inputs, at most ", most, " are allowed"));
  for (size_t i = 0; i < least; ++i) {
    if (!has_input(i)) return fail_invalid(str_cat("needs input ", i));
  }
}

void OpContext::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

// ---- attributes

namespace {

constexpr std::string_view kKindNames[] = {"a float", "an int", "a string", "a tensor", "a graph",
                                           "floats",  "ints",   "strings",  "a type",   "of another kind"};

std::string_view kind_name(OnnxAttribute::Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

}  // namespace

OnnxAttribute* OpContext::find(std::string_view name, OnnxAttribute::Kind kind) {
  const auto it = attributes.find(name);
  if (it == attributes.end()) return nullptr;
  it->second.taken = true;
  if (it->second.kind != kind) {
    fail_invalid(str_cat("attribute '", name, "' is ", kind_name(it->second.kind), ", it must be ", kind_name(kind)));
    return nullptr;
  }
  return &it->second;
}

int64_t OpContext::take_int(std::string_view name, int64_t otherwise) {
  const auto* found = find(name, OnnxAttribute::Kind::kInt);
  return found != nullptr ? found->i : otherwise;
}

double OpContext::take_float(std::string_view name, double otherwise) {
  const auto* found = find(name, OnnxAttribute::Kind::kFloat);
  return found != nullptr ? found->f : otherwise;
}

std::string OpContext::take_string(std::string_view name, std::string_view otherwise) {
  const auto* found = find(name, OnnxAttribute::Kind::kString);
  return found != nullptr ? found->s : std::string(otherwise);
}

std::optional<std::vector<int64_t>> OpContext::take_ints(std::string_view name) {
  const auto* found = find(name, OnnxAttribute::Kind::kInts);
  return found != nullptr ? std::optional(found->ints) : std::nullopt;
}

std::optional<std::vector<double>> OpContext::take_floats(std::string_view name) {
  const auto* found = find(name, OnnxAttribute::Kind::kFloats);
  return found != nullptr ? std::optional(found->floats) : std::nullopt;
}

std::optional<std::vector<std::string>> OpContext::take_strings(std::string_view name) {
  const auto* found = find(name, OnnxAttribute::Kind::kStrings);
  return found != nullptr ? std::optional(found->strings) : std::nullopt;
}

ConstantPtr OpContext::take_tensor(std::string_view name) {
  const auto* found = find(name, OnnxAttribute::Kind::kTensor);
  return found != nullptr ? found->tensor : nullptr;
}

DType OpContext::take_dtype(std::string_view name, DType otherwise) {
  const int64_t number = take_int(name, 0);
  if (!ok() || number == 0) return otherwise;
  const auto dtype = number > 0 && number <= 1000 ? dtype_from_onnx(static_cast<int>(number)) : std::nullopt;
  if (dtype) return *dtype;
  fail_unsupported(str_cat("element type number ", number, " in attribute '", name, "' is not supported"));
  return otherwise;
}

const onnx::GraphProto* OpContext::take_graph(std::string_view name) {
  const auto* found = find(name, OnnxAttribute::Kind::kGraph);
  if (found == nullptr) fail_invalid(str_cat("needs the sub-graph '", name, "'"));
  return found != nullptr ? found->graph : nullptr;
}

void OpContext::ignore(std::string_view name) {
  if (const auto it = attributes.find(name); it != attributes.end()) it->second.taken = true;
}

void OpContext::require_attribute(std::string_view name) {
  if (!has_attribute(name)) fail_invalid(str_cat("needs the attribute '", name, "'"));
}

int64_t OpContext::take_axis(std::string_view name, int64_t otherwise, int rank) {
  const int64_t axis = take_int(name, otherwise);
  const int64_t counted = axis < 0 ? axis + rank : axis;
  if (ok() && (axis < -rank || counted > rank)) {
    fail_invalid(str_cat("attribute '", name, "' is ", axis, ", the input has rank ", rank));
    return 0;
  }
  return counted;
}

Attributes OpContext::pass_attributes(std::string_view canonical_op) {
  Attributes out;
  const graph::OpDef* def = graph_.find_op(canonical_op);
  if (def == nullptr) {
    fail_unsupported("this build has no record of the operator");
    return out;
  }
  using Kind = OnnxAttribute::Kind;
  for (const auto& wanted : def->attributes) {
    const auto it = attributes.find(wanted.name);
    // An own one is left, as any that nobody knows.
    if (wanted.own || it == attributes.end() || it->second.taken) continue;
    switch (wanted.kind) {
      case AttributeKind::kInt:
        if (const auto* a = find(wanted.name, Kind::kInt)) out.set(wanted.name, a->i);
        break;
      case AttributeKind::kFloat:
        if (const auto* a = find(wanted.name, Kind::kFloat)) out.set(wanted.name, a->f);
        break;
      case AttributeKind::kString:
        if (const auto* a = find(wanted.name, Kind::kString)) out.set(wanted.name, a->s);
        break;
      case AttributeKind::kDType:
        if (const auto* a = find(wanted.name, Kind::kInt)) {
          const auto dtype = a->i >= 0 && a->i <= 1000 ? dtype_from_onnx(static_cast<int>(a->i)) : std::nullopt;
          if (dtype && *dtype != DType::kVoid) {
            out.set(wanted.name, *dtype);
          } else {
            fail_unsupported(
                str_cat("element type number ", a->i, " in attribute '", wanted.name, "' is not supported"));
          }
        }
        break;
      case AttributeKind::kInts:
        if (const auto* a = find(wanted.name, Kind::kInts)) out.set(wanted.name, a->ints);
        break;
      case AttributeKind::kFloats:
        if (const auto* a = find(wanted.name, Kind::kFloats)) out.set(wanted.name, a->floats);
        break;
      case AttributeKind::kStrings:
        if (const auto* a = find(wanted.name, Kind::kStrings)) out.set(wanted.name, a->strings);
        break;
      case AttributeKind::kShape:
        if (const auto* a = find(wanted.name, Kind::kInts)) out.set(wanted.name, Shape(a->ints.begin(), a->ints.end()));
        break;
      case AttributeKind::kConstant:
        if (const auto* a = find(wanted.name, Kind::kTensor)) out.set(wanted.name, a->tensor);
        break;
    }
  }
  return out;
}

// ---- emission

ValueId OpContext::emit(std::string_view op, AttributeList attribute_list, std::vector<ValueId> operands) {
  if (!ok()) return {};
  Attributes attribute_map;
  for (auto& attribute : attribute_list) attribute_map.set(attribute.first, std::move(attribute.second));
  auto value = graph_.emit(std::string(op), std::move(attribute_map), std::move(operands), {origin_},
                           output_names.empty() ? std::string(op) : str_cat(output_names[0], "/", op));
  if (!value.ok()) {
    fail(std::move(value).status());
    return {};
  }
  return *value;
}

namespace {

// Of what an extent may be made. Operators repeat it a few times, and kMaxDimSize is the end.
constexpr int kLongExtent = 300;

// The symbol of an extent that has one already.
std::optional<Dim> symbol_of(const Graph& graph, const Dim& extent) {
  for (size_t k = 0; k < graph.node_count(); ++k) {
    const graph::Node& node = graph.node(graph::NodeId{static_cast<int32_t>(k)});
    if (node.erased || node.op != "aipu::Extents") continue;
    const Shape& extents = node.attributes.shape("extents");
    const auto found = std::ranges::find(extents, extent);
    if (found == extents.end()) continue;
    return graph.known_data(node.outputs[0])->at(static_cast<size_t>(found - extents.begin()));
  }
  return std::nullopt;
}

}  // namespace

ValueId OpContext::with_short_extents(ValueId value) {
  if (!ok() || !value.valid()) return value;
  Shape shape = type(value).shape;
  Shape unnamed;
  for (const Dim& extent : shape) {
    if (extent.size() > kLongExtent && !symbol_of(graph_, extent) &&
        std::ranges::find(unnamed, extent) == unnamed.end())
      unnamed.push_back(extent);
  }
  if (!unnamed.empty()) emit("aipu::Extents", {{"extents", unnamed}}, {});
  bool changed = false;
  for (Dim& extent : shape) {
    if (!ok() || extent.size() <= kLongExtent) continue;
    extent = max(*symbol_of(graph_, extent), 0);
    changed = true;
  }
  return changed ? emit("Reshape", {{"shape", std::move(shape)}}, {value}) : value;
}

void OpContext::emit_outputs(std::string_view op, Attributes attribute_map, std::vector<ValueId> operands,
                             std::vector<std::unique_ptr<Graph>> subgraphs) {
  if (!ok()) return;
  auto node = graph_.add_node(std::string(op), std::move(attribute_map), std::move(operands), output_names, {origin_},
                              std::move(subgraphs));
  if (!node.ok()) return fail(std::move(node).status());
  results = graph_.node(*node).outputs;
}

void OpContext::emit_output(std::string_view op, AttributeList attribute_list, std::vector<ValueId> operands) {
  if (!ok()) return;
  if (output_names.empty()) return fail_invalid("needs an output");
  for (size_t i = 1; i < output_names.size(); ++i) {
    if (wants_output(i)) return fail_invalid(str_cat("has no output ", i));
  }
  Attributes attribute_map;
  for (auto& attribute : attribute_list) attribute_map.set(attribute.first, std::move(attribute.second));
  output_names.resize(1);
  emit_outputs(op, std::move(attribute_map), std::move(operands));
}

void OpContext::set_output(size_t i, ValueId value) {
  if (!ok()) return;
  if (results.size() < output_names.size()) results.resize(output_names.size());
  if (i < results.size()) results[i] = value;
}

ValueId OpContext::constant(ConstantPtr constant) {
  if (!ok()) return {};
  return graph_.add_constant(std::move(constant), output_names.empty() ? "const" : str_cat(output_names[0], "/const"));
}

ValueId OpContext::int64s(std::vector<int64_t> elements) { return constant(Constant::int64s(std::move(elements))); }

ValueId OpContext::strings(const std::vector<std::string>& elements) {
  std::vector<int64_t> numbers;
  for (const std::string& element : elements) numbers.push_back(number_of_string(element));
  const auto count = static_cast<int64_t>(numbers.size());
  return constant(Constant::of<int64_t>(DType::kString, {count}, std::span<const int64_t>(numbers)));
}

ValueId OpContext::int64_scalar(int64_t value) {
  return constant(Constant::of<int64_t>(DType::kI64, {}, std::span(&value, 1)));
}

void OpContext::set_output(size_t i, const Item& item) {
  if (!ok()) return;
  set_output(i, item.value);
  if (result_lists.size() < output_names.size()) result_lists.resize(output_names.size());
  if (i < result_lists.size()) result_lists[i] = item.list;
}

std::vector<ValueId> OpContext::emit_named(std::string_view op, Attributes attribute_map, std::vector<ValueId> operands,
                                           std::vector<std::string> names) {
  names.swap(output_names);
  emit_outputs(op, std::move(attribute_map), std::move(operands));
  names.swap(output_names);
  return ok() ? std::exchange(results, {}) : std::vector<ValueId>();
}

namespace {

template <typename T>
ConstantPtr scalar_of(DType dtype, T value) {
  return Constant::of<T>(dtype, {}, std::span<const T>(&value, 1));
}

}  // namespace

ValueId OpContext::scalar(DType dtype, double value) {
  switch (dtype) {
    case DType::kBool:
      return constant(scalar_of<uint8_t>(dtype, value != 0 ? 1 : 0));
    case DType::kI8:
      return constant(scalar_of<int8_t>(dtype, static_cast<int8_t>(value)));
    case DType::kU8:
      return constant(scalar_of<uint8_t>(dtype, static_cast<uint8_t>(value)));
    case DType::kI16:
      return constant(scalar_of<int16_t>(dtype, static_cast<int16_t>(value)));
    case DType::kU16:
      return constant(scalar_of<uint16_t>(dtype, static_cast<uint16_t>(value)));
    case DType::kI32:
      return constant(scalar_of<int32_t>(dtype, static_cast<int32_t>(value)));
    case DType::kU32:
      return constant(scalar_of<uint32_t>(dtype, static_cast<uint32_t>(value)));
    case DType::kI64:
      return constant(scalar_of<int64_t>(dtype, static_cast<int64_t>(value)));
    case DType::kU64:
      return constant(scalar_of<uint64_t>(dtype, static_cast<uint64_t>(value)));
    case DType::kF16:
      return constant(scalar_of<uint16_t>(dtype, f16_from_f32(static_cast<float>(value))));
    case DType::kBF16:
      return constant(scalar_of<uint16_t>(dtype, bf16_from_f32(static_cast<float>(value))));
    case DType::kF32:
      return constant(scalar_of<float>(dtype, static_cast<float>(value)));
    case DType::kF64:
      return constant(scalar_of<double>(dtype, value));
    default:
      fail_invalid(str_cat("there is no ", dtype_name(dtype), " constant"));
      return {};
  }
}

ValueId OpContext::cast(ValueId value, DType to) {
  if (!ok() || dtype(value) == to) return value;
  return emit("Cast", {{"to", to}}, {value});
}

ValueId OpContext::unsqueeze(ValueId value, std::vector<int64_t> axes) {
  return axes.empty() ? value : emit("Unsqueeze", {}, {value, int64s(std::move(axes))});
}

ValueId OpContext::squeeze(ValueId value, std::vector<int64_t> axes) {
  return emit("Squeeze", {}, {value, int64s(std::move(axes))});
}

ValueId OpContext::transpose(ValueId value, std::vector<int64_t> permutation) {
  return emit("Transpose", {{"perm", std::move(permutation)}}, {value});
}

std::optional<std::vector<int64_t>> OpContext::constant_ints(ValueId value) const {
  if (const Constant* constant = graph_.constant(value);
      constant != nullptr && (is_integer(constant->dtype()) || is_bool(constant->dtype()))) {
    return constant->to_int64s();
  }
  if (!value.valid()) return std::nullopt;
  const auto data = graph_.known_data(value);
  if (!data) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& dim : *data) {
    if (!dim.is_constant()) return std::nullopt;
    out.push_back(*dim.constant());
  }
  return out;
}

ImportedSubgraph OpContext::import_subgraph(const onnx::GraphProto* proto, const std::vector<Formal>& formals) {
  if (!ok() || proto == nullptr) return {};
  auto imported = subgraphs_.import_subgraph(*proto, formals);
  if (!imported.ok()) {
    fail(std::move(imported).status());
    return {};
  }
  return std::move(imported).value();
}

std::vector<Item> OpContext::inline_subgraph(const onnx::GraphProto* proto, const std::vector<Item>& arguments) {
  if (!ok() || proto == nullptr) return {};
  auto outputs = subgraphs_.inline_subgraph(*proto, arguments);
  if (!outputs.ok()) {
    fail(std::move(outputs).status());
    return {};
  }
  return std::move(outputs).value();
}

DeclaredPorts OpContext::declared_ports(const onnx::GraphProto* proto) {
  if (!ok() || proto == nullptr) return {};
  auto ports = subgraphs_.declared_ports(*proto);
  if (ports.ok()) return std::move(ports).value();
  fail(std::move(ports).status());
  return {};
}

ImportedSubgraph OpContext::write_body(
    const std::vector<TensorType>& formals,
    const std::function<std::vector<ValueId>(OpContext&, const std::vector<ValueId>&)>& write) {
  if (!ok()) return {};
  auto body = subgraphs_.write_body(
      op_type_, formals, [&](Graph& graph, const std::vector<ValueId>& inputs) -> Result<std::vector<ValueId>> {
        OpContext inner = within(graph);
        inner.output_names = output_names;
        std::vector<ValueId> outputs = write(inner, inputs);
        AIPU_RETURN_IF_ERROR(inner.status());
        return outputs;
      });
  if (body.ok()) return std::move(body).value();
  fail(std::move(body).status());
  return {};
}

}  // namespace aipu::frontend
