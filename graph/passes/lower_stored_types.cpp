// Elements of stored types (runtime/base/stored_type.h) become elements of the types that hold them:
//
//   input %x: float8e4m3fn[N]                  input %x: float8e4m3fn[N]
//   %t = Transpose(%x)               ->        %c: uint8[N] = BitCast(%x)
//   %y: float32[N] = Cast(%t)                  %t: uint8[N] = Transpose(%c)
//                                              %y: float32[N] = DecodeFloat(%t) {format=float8e4m3fn}
//
// Strings become their numbers: input and output are still texts at the border, which the runtime turns into numbers
// and back, and conversions become ops that look into them.
//
// Types change in place, as what moves elements does not care. Only the ops that mean the elements' values are
// rewritten, and inputs and outputs of the model, which keep their types: packed elements are unpacked and packed there
// by ordinary nodes, so that every back end can do it.
#include <algorithm>
#include <map>

#include "graph/passes/decompose_rules.h"
#include "graph/passes/passes.h"
#include "runtime/base/stored_type.h"

namespace aipu::graph {
namespace {

Attributes one(const std::string& name, AttributeValue value) {
  Attributes attributes;
  attributes.set(name, std::move(value));
  return attributes;
}

ValueId number(DecomposeBuilder& b, DType dtype, int64_t value) {
  const auto byte = static_cast<uint8_t>(value);
  return b.constant(Constant::of<uint8_t>(dtype, {}, {&byte, 1}), "number");
}

// ---- bytes and elements

ValueId shifted(DecomposeBuilder& b, ValueId x, int amount, const char* direction) {
  if (amount == 0) return x;
  return b.op("BitShift", {x, number(b, DType::kU8, amount)}, one("direction", std::string(direction)));
}

// Of a code whose higher bits may be anything.
ValueId clean(DecomposeBuilder& b, ValueId code, DType type) {
  const int bits = dtype_bits(type);
  if (bits < 8) code = b.op("BitwiseAnd", {code, number(b, DType::kU8, (1 << bits) - 1)});
  if (held_as(type) != DType::kI8) return code;
  const ValueId sign = number(b, DType::kI8, 1 << (bits - 1));
  return b.op("Sub", {b.op("BitwiseXor", {b.op("BitCast", {code}, one("to", DType::kI8)), sign}), sign});
}

ValueId bytes_of(DecomposeBuilder& b, ValueId x) {
  return b.type(x).dtype == DType::kU8 ? x : b.op("BitCast", {x}, one("to", DType::kU8));
}

// The smallest number of elements that fills whole bytes.
struct Group {
  explicit Group(DType type) : bits(dtype_bits(type)), bytes(bits % 8 == 6 ? 3 : 1), elements(bytes * 8 / bits) {}
  int bits, bytes, elements;
};

ValueId column(DecomposeBuilder& b, ValueId table, int k) {
  const Shape& shape = b.shape(table);
  if (shape[1] == Dim(1)) return table;
  Attributes attributes;
  attributes.set("starts", Shape{Dim(0), Dim(int64_t{k})});
  attributes.set("steps", std::vector<int64_t>{1, 1});
  attributes.set("extents", Shape{shape[0], Dim(1)});
  return b.op("Slice", {table}, std::move(attributes));
}

// The first `count` of a vector.
ValueId front(DecomposeBuilder& b, ValueId vector, const Dim& count) {
  if (b.shape(vector)[0] == count) return vector;
  Attributes attributes;
  attributes.set("starts", Shape{Dim(0)});
  attributes.set("steps", std::vector<int64_t>{1});
  attributes.set("extents", Shape{count});
  return b.op("Slice", {vector}, std::move(attributes));
}

ValueId side_by_side(DecomposeBuilder& b, std::vector<ValueId> columns) {
  return columns.size() == 1 ? columns[0] : b.op("Concat", std::move(columns), one("axis", int64_t{1}));
}

// Rows of groups: their columns are the bytes, then the elements, or the other way round.
ValueId rows_of_groups(DecomposeBuilder& b, ValueId vector, const Dim& groups, int columns) {
  const Dim spare = groups * Dim(int64_t{columns}) - b.shape(vector)[0];
  return b.reshape(b.pad_end(vector, 0, spare), {groups, Dim(int64_t{columns})});
}

ValueId unpacked(DecomposeBuilder& b, ValueId packed) {
  const TensorType type = b.type(packed);
  const Group group(type.dtype);
  const Dim count = element_count(type.shape), groups = ceildiv(count, group.elements);
  const ValueId rows = rows_of_groups(b, b.op("aipu::PackedBytes", {packed}), groups, group.bytes);
  std::vector<ValueId> elements;
  for (int k = 0; k < group.elements && b.ok(); ++k) {
    const int first = k * group.bits, in_byte = first % 8;
    ValueId element = shifted(b, column(b, rows, first / 8), in_byte, "RIGHT");
    if (in_byte + group.bits > 8)
      element = b.op("BitwiseOr", {element, shifted(b, column(b, rows, first / 8 + 1), 8 - in_byte, "LEFT")});
    elements.push_back(element);
  }
  if (!b.ok()) return {};
  const ValueId table = side_by_side(b, std::move(elements));
  const ValueId all = front(b, b.reshape(table, {groups * Dim(int64_t{group.elements})}), count);
  return b.reshape(clean(b, all, type.dtype), type.shape);
}

ValueId packed(DecomposeBuilder& b, ValueId codes, DType type) {
  const Group group(type);
  const Shape shape = b.shape(codes);
  const Dim count = element_count(shape), groups = ceildiv(count, group.elements);
  ValueId flat = b.reshape(bytes_of(b, codes), {count});
  flat = b.op("BitwiseAnd", {flat, number(b, DType::kU8, (1 << group.bits) - 1)});
  const ValueId rows = rows_of_groups(b, flat, groups, group.elements);
  std::vector<ValueId> bytes(static_cast<size_t>(group.bytes));
  const auto add = [&](int k, ValueId part) {
    ValueId& byte = bytes[static_cast<size_t>(k)];
    byte = byte.valid() ? b.op("BitwiseOr", {byte, part}) : part;
  };
  for (int k = 0; k < group.elements && b.ok(); ++k) {
    const int first = k * group.bits, in_byte = first % 8;
    const ValueId element = column(b, rows, k);
    add(first / 8, shifted(b, element, in_byte, "LEFT"));
    if (in_byte + group.bits > 8) add(first / 8 + 1, shifted(b, element, 8 - in_byte, "RIGHT"));
  }
  if (!b.ok()) return {};
  const ValueId table = side_by_side(b, std::move(bytes));
  const Dim size = ceildiv(count * Dim(int64_t{group.bits}), 8);
  Attributes attributes;
  attributes.set("to", type);
  attributes.set("shape", shape);
  const ValueId all = b.reshape(table, {groups * Dim(int64_t{group.bytes})});
  return b.op("aipu::FromPackedBytes", {front(b, all, size)}, std::move(attributes));
}

ValueId from_port(DecomposeBuilder& b, ValueId port) {
  const DType type = b.type(port).dtype;
  return is_packed(type) ? unpacked(b, port) : b.op("BitCast", {port}, one("to", held_as(type)));
}

ValueId to_port(DecomposeBuilder& b, ValueId value, DType type) {
  return is_packed(type) ? packed(b, value, type) : b.op("BitCast", {value}, one("to", type));
}

// ---- values

// What encoding to a float of 8 bits or less starts from: float32, or float64 where integers would be rounded twice.
ValueId as_float(DecomposeBuilder& b, ValueId x) {
  const DType dtype = b.type(x).dtype;
  if (is_floating(dtype)) return x;
  return b.cast(x, dtype_bits(dtype) <= 16 ? DType::kF32 : DType::kF64);
}

struct Conversion {
  int64_t saturate = 1;
  std::string round_mode = "up";
};

ValueId encoded(DecomposeBuilder& b, ValueId x, DType type, const Conversion& how) {
  Attributes attributes = one("format", type);
  attributes.set("saturate", how.saturate);
  attributes.set("round_mode", how.round_mode);
  return b.op("aipu::EncodeFloat", {as_float(b, x)}, std::move(attributes));
}

ValueId decoded(DecomposeBuilder& b, ValueId code, DType type) {
  return small_float(type) != nullptr ? b.op("aipu::DecodeFloat", {code}, one("format", type)) : code;
}

ValueId converted(DecomposeBuilder& b, ValueId x, DType from, DType to, const Conversion& how);

// Text of numbers, or numbers of text. Types that nobody computes with go by one that can be read.
ValueId between_text_and_number(DecomposeBuilder& b, ValueId x, DType from, DType to, const Conversion& how) {
  if (to == DType::kString) return b.op("aipu::NumberToText", {decoded(b, x, from)}, one("to", held_as(to)));
  const DType read = is_computed(to) ? to : small_float(to) != nullptr ? DType::kF32 : DType::kI64;
  return converted(b, b.op("aipu::TextToNumber", {x}, one("to", read)), read, to, how);
}

ValueId converted(DecomposeBuilder& b, ValueId x, DType from, DType to, const Conversion& how) {
  if (from == to) return x;
  if (from == DType::kC64 || to == DType::kC64) {
    b.fail(unsupported(str_cat("casting ", dtype_name(from), " to ", dtype_name(to), " is not supported")));
    return {};
  }
  if (from == DType::kString || to == DType::kString) return between_text_and_number(b, x, from, to, how);
  const ValueId value = decoded(b, x, from);
  if (small_float(to) != nullptr) return encoded(b, value, to, how);
  if (is_computed(to)) return b.cast(value, to);
  return clean(b, bytes_of(b, b.type(value).dtype == held_as(to) ? value : b.cast(value, held_as(to))), to);
}

// A scale or zero point for each position of an axis, seen as of the rank of what it belongs to.
ValueId along_axis(DecomposeBuilder& b, ValueId x, int64_t axis, int rank) {
  if (b.shape(x).empty()) return x;
  if (element_count(b.shape(x)) == Dim(1)) return b.reshape(x, {});
  Shape shape(static_cast<size_t>(rank), Dim(1));
  shape[static_cast<size_t>(axis)] = b.shape(x)[0];
  return b.reshape(x, shape);
}

bool is_zero(DecomposeBuilder& b, ValueId x) { return splat_of(b.graph(), x) == 0.0; }

// ---- a graph

class Lowering {
 public:
  Lowering(Graph& graph, bool is_model) : graph_(graph), is_model_(is_model) {}

  Result<int> run() {
    int count = 0;
    for (const NodeId id : graph_.topological_order()) {
      for (const auto& subgraph : std::as_const(graph_).node(id).subgraphs) {
        AIPU_ASSIGN_OR_RETURN(const int inner, Lowering(*subgraph, false).run());
        count += inner;
      }
    }
    note_types();
    if (is_model_ && is_lowered()) return count;
    const std::vector<NodeId> nodes = graph_.topological_order();
    for (const NodeId id : nodes) AIPU_RETURN_IF_ERROR(check(id));
    std::vector<DType> outputs;
    for (const Graph::Output& output : graph_.outputs()) outputs.push_back(type_of(output.value));
    if (is_model_) AIPU_RETURN_IF_ERROR(convert_inputs());
    change_types();
    for (const NodeId id : nodes) AIPU_RETURN_IF_ERROR(lower(id));
    if (is_model_) AIPU_RETURN_IF_ERROR(convert_outputs(outputs));
    if (!types_.empty()) graph_.erase_dead_nodes();
    return count + static_cast<int>(types_.size());
  }

 private:
  DType type_of(ValueId id) const {
    const auto found = types_.find(id);
    return found != types_.end() ? found->second : graph_.type(id).dtype;
  }
  bool is_stored(ValueId id) const { return id.valid() && types_.contains(id); }

  void note_types() {
    for (size_t index = 0; index < graph_.value_count(); ++index) {
      const ValueId id{static_cast<int32_t>(index)};
      if (!graph_.value(id).erased && stored_type(graph_.type(id).dtype) != nullptr) types_[id] = graph_.type(id).dtype;
    }
  }

  // Whether only inputs and outputs of the model have stored types any more, each behind the node that converts it.
  bool is_lowered() const {
    const Graph& graph = graph_;
    return std::all_of(types_.begin(), types_.end(), [&](const auto& entry) {
      const auto& [id, type] = entry;
      const std::string_view from = is_packed(type) ? "aipu::PackedBytes" : "BitCast";
      const std::string_view to = is_packed(type) ? "aipu::FromPackedBytes" : "BitCast";
      const std::vector<NodeId> users = graph.users(id);
      const bool is_output = graph.is_graph_output(id);
      if (const NodeId producer = graph.value(id).producer; producer.valid())
        return is_output && users.empty() && graph.node(producer).op == to &&
               !is_stored(graph.node(producer).inputs[0]);
      return !is_output && graph.value(id).constant == nullptr &&
             std::all_of(users.begin(), users.end(), [&](NodeId user) {
               return graph.node(user).op == from && !is_stored(graph.node(user).outputs[0]);
             });
    });
  }

  Status check(NodeId id) const {
    const Node& node = std::as_const(graph_).node(id);
    const auto refused = [&](std::string_view why) {
      return unsupported(str_cat("node ", origins_text(node.origins), ": ", node.op, " ", why));
    };
    if (node.attributes.s_or("reduction", "none") != "none" && is_stored(node.outputs[0]))
      return refused(str_cat("does not compute with ", dtype_name(type_of(node.outputs[0]))));
    if (node.op == "EyeLike" &&
        (small_float(node.attributes.dtype("dtype")) != nullptr || node.attributes.dtype("dtype") == DType::kString))
      return refused(str_cat("of ", dtype_name(node.attributes.dtype("dtype")), " is not supported"));
    // Zeros, which the type does not have.
    if ((node.op == "Trilu" || node.op == "Pad") && type_of(node.inputs[0]) == DType::kF8E8M0)
      return refused("of float8e8m0 is not supported");
    return {};
  }

  void change_types() {
    for (const auto& [id, type] : types_) {
      Value& value = graph_.value(id);
      const bool is_input = !value.producer.valid() && value.constant == nullptr;
      if (!is_input || !is_model_) value.type.dtype = held_as(type);
      value.data.reset();
      if (value.constant != nullptr) value.constant = held(value.constant);
    }
    for (size_t index = 0; index < graph_.node_count(); ++index) {
      const NodeId id{static_cast<int32_t>(index)};
      if (!std::as_const(graph_).node(id).erased) change_attributes(id);
    }
  }

  static ConstantPtr held(const ConstantPtr& constant) {
    return Constant::borrow(held_as(constant->dtype()), constant->shape(), constant->bytes(), constant);
  }

  // Of ops that make elements. Those that `lower` replaces say by them what they are.
  void change_attributes(NodeId id) {
    const Node& node = std::as_const(graph_).node(id);
    const bool makes_them =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) { return is_stored(output); });
    if (!makes_them || rules().contains(node.op)) return;
    const Attributes attributes = node.attributes;
    for (const auto& [name, value] : attributes.all()) {
      if (const auto* dtype = std::get_if<DType>(&value); dtype != nullptr && stored_type(*dtype) != nullptr)
        graph_.node(id).attributes.set(name, held_as(*dtype));
      if (const auto* constant = std::get_if<ConstantPtr>(&value);
          constant != nullptr && stored_type((*constant)->dtype()) != nullptr)
        graph_.node(id).attributes.set(name, held(*constant));
    }
  }

  using Rule = ValueId (Lowering::*)(DecomposeBuilder&, const Node&);
  static const std::map<std::string_view, Rule>& rules() {
    static const std::map<std::string_view, Rule> kRules = {{"Cast", &Lowering::cast},
                                                            {"CastLike", &Lowering::cast_like},
                                                            {"BitCast", &Lowering::bit_cast},
                                                            {"QuantizeLinear", &Lowering::quantize},
                                                            {"DequantizeLinear", &Lowering::dequantize}};
    return kRules;
  }

  Status lower(NodeId id) {
    const Node& node = std::as_const(graph_).node(id);
    const auto rule = rules().find(node.op);
    if (rule == rules().end() || (!is_stored(node.inputs[0]) && !is_stored(node.outputs[0]))) return {};
    DecomposeBuilder b(graph_, node.origins, graph_.value(node.outputs[0]).name);
    Node copy;  // adding nodes moves them
    copy.attributes = node.attributes;
    copy.inputs = node.inputs;
    copy.outputs = node.outputs;
    const ValueId result = (this->*rule->second)(b, copy);
    if (!b.ok()) return Status(b.status()).context(str_cat("node ", origins_text(node.origins)));
    // Whoever reads it next still has to know.
    if (is_stored(copy.outputs[0])) types_[result] = type_of(copy.outputs[0]);
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(copy.outputs[0], result));
    graph_.erase_node(id);
    return {};
  }

  ValueId cast(DecomposeBuilder& b, const Node& node) {
    const Conversion how{node.attributes.i_or("saturate", 1), node.attributes.s_or("round_mode", "up")};
    return converted(b, node.inputs[0], type_of(node.inputs[0]), type_of(node.outputs[0]), how);
  }

  ValueId cast_like(DecomposeBuilder& b, const Node& node) {
    return converted(b, node.inputs[0], type_of(node.inputs[0]), type_of(node.outputs[0]), {});
  }

  ValueId bit_cast(DecomposeBuilder& b, const Node& node) {
    const DType from = type_of(node.inputs[0]), to = type_of(node.outputs[0]);
    const ValueId x = node.inputs[0];
    if (held_as(from) == held_as(to)) return x;
    if (dtype_bits(to) < 8) return clean(b, bytes_of(b, x), to);
    return b.op("BitCast", {x}, one("to", held_as(to)));
  }

  ValueId quantize(DecomposeBuilder& b, const Node& node) {
    const DType type = type_of(node.outputs[0]);
    const ValueId x = node.inputs[0];
    const ValueId zero = node.inputs.size() > 2 && node.inputs[2].valid() ? node.inputs[2] : ValueId();
    const int64_t axis = node.attributes.i("axis");
    if (small_float(type) == nullptr) {
      std::vector<ValueId> inputs = {x, node.inputs[1]};
      if (zero.valid()) inputs.push_back(zero);
      Attributes attributes = node.attributes;
      attributes.set("output_dtype", held_as(type));
      const ValueId wide = b.op("QuantizeLinear", std::move(inputs), std::move(attributes));
      const int bits = dtype_bits(type);
      const bool is_signed = held_as(type) == DType::kI8;
      const int64_t least = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
      return b.op("Clip",
                  {wide, number(b, held_as(type), least), number(b, held_as(type), least + (int64_t{1} << bits) - 1)});
    }
    // The type of the scale is the precision of the quotient.
    const DType precision = b.type(node.inputs[1]).dtype;
    const ValueId wide = b.type(x).dtype == precision ? x : b.cast(x, precision);
    const int rank = static_cast<int>(b.shape(x).size());
    ValueId y = b.op("Div", {wide, along_axis(b, node.inputs[1], axis, rank)});
    if (zero.valid() && !is_zero(b, zero)) {
      const ValueId offset = along_axis(b, b.cast(decoded(b, zero, type), precision), axis, rank);
      y = b.op("Add", {y, offset});
    }
    return encoded(b, y, type, {node.attributes.i_or("saturate", 1), "up"});
  }

  ValueId dequantize(DecomposeBuilder& b, const Node& node) {
    const DType type = type_of(node.inputs[0]), to = type_of(node.outputs[0]);
    const int64_t axis = node.attributes.i("axis");
    const ValueId x = node.inputs[0];
    const ValueId zero = node.inputs.size() > 2 && node.inputs[2].valid() ? node.inputs[2] : ValueId();
    if (small_float(type) == nullptr) {  // which computes with what holds them
      std::vector<ValueId> inputs = {x, node.inputs[1]};
      if (zero.valid()) inputs.push_back(zero);
      return b.op("DequantizeLinear", std::move(inputs), node.attributes);
    }
    if (node.attributes.i("block_size") != 0) {  // constant weights, of block_quantized_products
      Attributes attributes = node.attributes;
      attributes.set("format", type);
      return b.op("DequantizeLinear", {x, node.inputs[1]}, std::move(attributes));
    }
    const int rank = static_cast<int>(b.shape(x).size());
    ValueId value = decoded(b, x, type);
    if (zero.valid() && !is_zero(b, zero))
      value = b.op("Sub", {value, along_axis(b, decoded(b, zero, type), axis, rank)});
    const ValueId scale = to == DType::kF32 ? node.inputs[1] : b.cast(node.inputs[1], DType::kF32);
    value = b.op("Mul", {value, along_axis(b, scale, axis, rank)});
    return to == DType::kF32 ? value : b.cast(value, to);
  }

  // Whoever reads an input of the model reads its elements as the graph holds them.
  Status convert_inputs() {
    for (const ValueId port : graph_.inputs()) {
      if (!is_stored(port)) continue;
      const std::vector<NodeId> users = graph_.users(port);
      DecomposeBuilder b(graph_, {}, graph_.value(port).name);
      const ValueId value = from_port(b, port);
      AIPU_RETURN_IF_ERROR(b.status());
      types_[value] = type_of(port);
      for (const NodeId user : users) {
        for (size_t k = 0; k < std::as_const(graph_).node(user).inputs.size(); ++k) {
          if (std::as_const(graph_).node(user).inputs[k] == port) graph_.set_input(user, k, value);
        }
      }
      for (Graph::Output& output : graph_.mutable_outputs()) {
        if (output.value == port) output.value = value;
      }
    }
    return {};
  }

  Status convert_outputs(const std::vector<DType>& types) {
    for (size_t k = 0; k < types.size(); ++k) {
      if (stored_type(types[k]) == nullptr) continue;
      DecomposeBuilder b(graph_, {}, graph_.outputs()[k].name);
      const ValueId port = to_port(b, graph_.outputs()[k].value, types[k]);
      AIPU_RETURN_IF_ERROR(b.status());
      graph_.mutable_outputs()[k].value = port;
    }
    return {};
  }

  Graph& graph_;
  const bool is_model_;
  std::map<ValueId, DType> types_;  // of values with stored types, as they were
};

}  // namespace

Result<int> lower_stored_types(Graph& graph, PassContext&) {
  // Sub-graphs go with the graph that they are part of.
  if (!graph.symbol_scope.empty()) return 0;
  return Lowering(graph, true).run();
}

}  // namespace aipu::graph
