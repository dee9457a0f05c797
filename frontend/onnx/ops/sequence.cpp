// Sequences and optionals: lists of tensors that only the importer sees (frontend/onnx/list_value.h). Operators on them
// rearrange the lists; what is left in the graph are the tensors.
#include <algorithm>

#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

using Kind = PortList::Kind;

ListPtr make_list(ListValue list) { return std::make_shared<const ListValue>(std::move(list)); }

// Input i, which has to be a sequence; null after a failure.
ListPtr sequence_of(OpContext& c, size_t i) {
  ListPtr list = c.list(i);
  if (!c.ok()) return nullptr;
  if (list == nullptr || list->kind != Kind::kSequence) {
    c.fail_invalid(str_cat("input ", i, " must be a sequence, found ",
                           list != nullptr ? list_text(*list) : c.type(c.input(i)).text()));
    return nullptr;
  }
  return list;
}

// A sequence of which all elements are known.
ListPtr known_sequence(OpContext& c, size_t i) {
  ListPtr list = sequence_of(c, i);
  if (list == nullptr || list->has_known_length()) return list;
  const std::string why =
      list->decided_by.empty() ? "" : str_cat(": operand '", list->decided_by, "' must be known when compiling");
  c.fail_unsupported(str_cat(list->grows.empty() ? str_cat("input ", i, " is ", list_text(*list))
                                                 : "inside of its Loop a sequence can only be appended to",
                             why));
  return nullptr;
}

void expect_element(OpContext& c, const ListValue& list, ValueId element) {
  const DType known = list.elements.empty() ? list.dtype : c.dtype(list.elements[0]);
  if (c.ok() && known != DType::kVoid && known != c.dtype(element)) {
    c.fail_invalid(
        str_cat("the sequence has elements of ", dtype_name(known), ", the tensor is ", c.type(element).text()));
  }
}

// What counts from the back when it is negative.
struct Position {
  std::optional<int64_t> known;  // in [0, limit)
  ValueId value;                 // scalar int64 in [0, limit), checked when running; where it is not known
};

// Operand i as a position in [-count, limit).
Position position(OpContext& c, size_t i, size_t count, size_t limit) {
  const ValueId operand = c.input(i);
  Position result;
  if (const auto elements = c.constant_ints(operand); elements && elements->size() == 1) {
    int64_t at = elements->front();
    if (at < 0) at += static_cast<int64_t>(count);
    if (at < 0 || at >= static_cast<int64_t>(limit)) {
      c.fail_invalid(str_cat("position ", elements->front(), " is outside of the sequence of ", count, " elements"));
    }
    result.known = at;
    return result;
  }
  if (limit == 0) {
    c.fail_invalid("the sequence is empty");
    return result;
  }
  // Looked up, so that the index check of Gather stands for the check of the position: -count ... limit - 1 are the
  // places 0 ... of the table; what is smaller must not count from its end.
  std::vector<int64_t> table;
  for (size_t k = 0; k < count; ++k) table.push_back(static_cast<int64_t>(k));
  for (size_t k = 0; k < limit; ++k) table.push_back(static_cast<int64_t>(k));
  const ValueId scalar = c.emit("Reshape", {}, {c.cast(operand, DType::kI64), c.int64s({})});
  const ValueId place = c.emit("Add", {}, {scalar, c.int64_scalar(static_cast<int64_t>(count))});
  const ValueId below = c.emit("Less", {}, {place, c.int64_scalar(0)});
  const ValueId outside = c.int64_scalar(static_cast<int64_t>(table.size()));
  result.value =
      c.emit("Gather", {{"axis", int64_t{0}}}, {c.int64s(table), c.emit("Where", {}, {below, outside, place})});
  return result;
}

ValueId concat(OpContext& c, const std::vector<ValueId>& parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : c.emit("Concat", {{"axis", axis}}, parts);
}

// Axes `axis` and `axis` + 1 as one.
ValueId merge_axes(OpContext& c, ValueId x, int64_t axis) {
  const int64_t rank = c.rank(x);
  std::vector<ValueId> extents;
  if (axis > 0) extents.push_back(c.emit("Shape", {{"start", int64_t{0}}, {"end", axis}}, {x}));
  extents.push_back(c.emit("Mul", {}, {c.size_of(x, axis), c.size_of(x, axis + 1)}));
  if (axis + 2 < rank) extents.push_back(c.emit("Shape", {{"start", axis + 2}, {"end", rank}}, {x}));
  return c.emit("Reshape", {{"allowzero", int64_t{1}}}, {x, concat(c, extents, 0)});
}

// The elements that a Loop has appended, along `axis` of a tensor: side by side on an axis of its own if `new_axis`.
//
//   stacks [T, ...], one per append of a trip  ->  [..., T, ...] each  ->  one after the other behind T, merged with it
ValueId appended(OpContext& c, const ListValue& list, int64_t axis, bool new_axis) {
  if (list.end_to_end) {
    if (axis != 0 || new_axis)
      c.fail_unsupported("tensors that a Loop appends with an extent of their own can only be joined along axis 0");
    return list.stacks[0];
  }
  std::vector<ValueId> moved;
  for (const ValueId stack : list.stacks) {
    std::vector<int64_t> order;
    for (int64_t k = 1; k < c.rank(stack); ++k) order.push_back(k);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    ValueId part = axis == 0 ? stack : c.transpose(stack, order);
    if (new_axis && list.stacks.size() > 1) part = c.unsqueeze(part, {axis + 1});
    moved.push_back(part);
  }
  const bool merged = !new_axis || list.stacks.size() > 1;
  const ValueId all = concat(c, moved, axis + 1);
  return merged ? merge_axes(c, all, axis) : all;
}

// All elements along `axis`, of the result if there is a new one.
ValueId joined(OpContext& c, const ListValue& list, int64_t axis, bool new_axis) {
  std::vector<ValueId> parts;
  for (const ValueId element : list.elements) parts.push_back(new_axis ? c.unsqueeze(element, {axis}) : element);
  if (!list.stacks.empty()) parts.push_back(appended(c, list, axis, new_axis));
  return concat(c, parts, axis);
}

int rank_of_elements(OpContext& c, const ListValue& list) {
  if (!list.elements.empty()) return c.rank(list.elements[0]);
  return c.rank(list.stacks.at(0)) - (list.end_to_end ? 0 : 1);
}

// Whether all elements have one shape, so that a run may choose among them.
bool have_one_shape(OpContext& c, const ListValue& list) {
  if (list.end_to_end) return false;
  std::vector<TensorType> types;
  for (const ValueId element : list.elements) types.push_back(c.type(element));
  for (const ValueId stack : list.stacks) {
    types.push_back(c.type(stack));
    types.back().shape.erase(types.back().shape.begin());
  }
  return std::all_of(types.begin(), types.end(), [&](const TensorType& type) { return type == types[0]; });
}

// Element `index`, which only a run knows.
ValueId chosen(OpContext& c, const ListValue& list, ValueId index, size_t operand) {
  if (!c.ok()) return {};
  if (!have_one_shape(c, list)) {
    c.fail_unsupported(str_cat("operand '", c.graph().value(c.input(operand)).name,
                               "' must be known when compiling, it chooses among tensors of different shapes"));
    return {};
  }
  return c.emit("Gather", {{"axis", int64_t{0}}}, {joined(c, list, 0, true), index});
}

// The list that has at place k element choose(k) of `from`, for a position that only a run knows.
template <typename Choose>
ListPtr rearranged(OpContext& c, const ListValue& from, size_t count, size_t operand, const Choose& choose) {
  ListValue list = from;
  list.elements.clear();
  for (size_t k = 0; k < count; ++k)
    list.elements.push_back(chosen(c, from, choose(c.int64_scalar(static_cast<int64_t>(k))), operand));
  return make_list(std::move(list));
}

}  // namespace

void identity(OpContext& c) {
  if (c.list(0) == nullptr) return pass(c);
  c.set_output(0, c.item(0));
}

// ---- making sequences

void sequence_construct(OpContext& c) {
  ListValue list;
  if (c.inputs.empty()) return c.fail_invalid("needs input 0");
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has_input(i)) return c.fail_invalid(str_cat("needs input ", i));
    expect_element(c, list, c.input(i));
    list.elements.push_back(c.input(i));
  }
  list.dtype = c.dtype(c.input(0));
  c.set_output(0, Item{{}, make_list(std::move(list))});
}

void sequence_empty(OpContext& c) {
  ListValue list;
  list.dtype = c.take_dtype("dtype", DType::kF32);
  c.set_output(0, Item{{}, make_list(std::move(list))});
}

namespace {

// Sizes of the pieces that an axis is split into, none where they are known only when running; what they are in
// `operand` then. How many there are is known.
struct Pieces {
  size_t count = 0;
  ValueId sizes;  // 1-D
};

Pieces equal_pieces(OpContext& c, const Dim& extent, int64_t size) {
  Pieces pieces;
  if (!extent.is_constant()) {
    c.fail_unsupported(str_cat("the number of elements depends on the extent ", extent.text(),
                               ", which must be known when compiling; fix it with --shape"));
    return pieces;
  }
  if (size < 1) {
    c.fail_invalid(str_cat("split is ", size, ", it must be positive"));
    return pieces;
  }
  std::vector<int64_t> sizes;
  for (int64_t left = *extent.constant(); left > 0; left -= size) sizes.push_back(std::min(left, size));
  pieces.count = sizes.size();
  pieces.sizes = c.int64s(std::move(sizes));
  return pieces;
}

// Whether all elements of a list whose length only a run knows are 1.
bool are_ones(OpContext& c, ValueId list) {
  const graph::NodeId producer = c.graph().value(list).producer;
  if (!producer.valid()) return false;
  const graph::Node& node = std::as_const(c.graph()).node(producer);
  if (node.op != "ConstantOfShape" && node.op != "Expand") return false;
  if (node.op == "Expand") return c.constant_ints(node.inputs[0]) == std::vector<int64_t>{1};
  const graph::AttributeValue* value = node.attributes.find("value");
  const auto* tensor = value != nullptr ? std::get_if<ConstantPtr>(value) : nullptr;
  return tensor != nullptr && *tensor != nullptr && (*tensor)->to_doubles() == std::vector<double>{1};
}

// Whether x is cut into as many pieces of 1 as only a run knows.
bool cuts_to_ones(OpContext& c, const Dim& extent) {
  if (!c.has_input(1)) return !extent.is_constant();
  const ValueId split = c.input(1);
  if (c.rank(split) == 0) return !extent.is_constant() && c.constant_ints(split) == std::vector<int64_t>{1};
  return c.rank(split) == 1 && !c.type(split).shape[0].is_constant() && are_ones(c, split);
}

Pieces pieces_of(OpContext& c, const Dim& extent) {
  if (!c.has_input(1)) return equal_pieces(c, extent, 1);
  const ValueId split = c.input(1);
  if (c.rank(split) == 0) {
    const auto size = c.constant_ints(split);
    if (size) return equal_pieces(c, extent, size->front());
    c.fail_unsupported(str_cat("operand '", c.graph().value(split).name,
                               "' must be known when compiling, it decides how many elements there are"));
    return {};
  }
  const auto& shape = c.type(split).shape;
  if (shape.size() != 1 || !shape[0].is_constant()) {
    c.fail_unsupported(str_cat("the number of elements depends on the extent of split, ", c.type(split).text()));
    return {};
  }
  return {static_cast<size_t>(*shape[0].constant()), c.cast(split, DType::kI64)};
}

}  // namespace

void split_to_sequence(OpContext& c) {
  c.expect_inputs(1, 2);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const int64_t axis = c.take_axis("axis", 0, c.rank(x));
  const bool keeps = c.take_int("keepdims", 1) != 0 || c.has_input(1);
  if (!c.ok()) return;
  if (axis < 0 || axis >= c.rank(x))
    return c.fail_invalid(str_cat("there is no axis ", axis, " in ", c.type(x).text()));
  ListValue list;
  list.dtype = c.dtype(x);
  const Dim extent = c.type(x).shape[static_cast<size_t>(axis)];
  if (cuts_to_ones(c, extent)) {
    // A stack, as a Loop makes it.
    std::vector<int64_t> order{axis};
    for (int64_t k = 0; k < c.rank(x); ++k) {
      if (k != axis) order.push_back(k);
    }
    const ValueId stack = axis == 0 ? x : c.transpose(x, order);
    list.stacks = {keeps ? c.unsqueeze(stack, {axis + 1}) : stack};
    return c.set_output(0, Item{{}, make_list(std::move(list))});
  }
  const Pieces pieces = pieces_of(c, extent);
  if (!c.ok()) return;
  if (pieces.count > 0) {
    std::vector<std::string> names;
    for (size_t k = 0; k < pieces.count; ++k) names.push_back(str_cat(c.output_names[0], "[", k, "]"));
    Attributes attributes;
    attributes.set("axis", axis);
    list.elements = c.emit_named("Split", std::move(attributes), {x, pieces.sizes}, std::move(names));
    if (!keeps) {
      for (ValueId& element : list.elements) element = c.squeeze(element, {axis});
    }
  }
  c.set_output(0, Item{{}, make_list(std::move(list))});
}

// ---- using sequences

void sequence_length(OpContext& c) {
  const ListPtr list = sequence_of(c, 0);
  if (list == nullptr) return;
  if (!list->grows.empty() || list->end_to_end) return static_cast<void>(known_sequence(c, 0));
  ValueId length = c.int64_scalar(static_cast<int64_t>(list->elements.size()));
  for (const ValueId stack : list->stacks) length = c.emit("Add", {}, {length, c.squeeze(c.size_of(stack, 0), {0})});
  c.set_output(0, length);
}

void sequence_at(OpContext& c) {
  const ListPtr list = sequence_of(c, 0);
  if (list == nullptr) return;
  if (!c.has_input(1)) return c.fail_invalid("needs input 1");
  if (!list->grows.empty()) return static_cast<void>(known_sequence(c, 0));
  if (!list->stacks.empty()) {
    const ValueId at = c.emit("Reshape", {}, {c.cast(c.input(1), DType::kI64), c.int64s({})});
    return c.set_output(0, chosen(c, *list, at, 1));
  }
  const Position at = position(c, 1, list->elements.size(), list->elements.size());
  if (!c.ok()) return;
  c.set_output(0, at.known ? list->elements[static_cast<size_t>(*at.known)] : chosen(c, *list, at.value, 1));
}

void sequence_insert(OpContext& c) {
  const ListPtr list = c.has_input(2) ? known_sequence(c, 0) : sequence_of(c, 0);
  if (list == nullptr) return;
  if (!c.has_input(1)) return c.fail_invalid("needs input 1");
  const ValueId added = c.input(1);
  expect_element(c, *list, added);
  if (!c.ok()) return;
  ListValue longer = *list;
  const size_t count = list->elements.size();
  if (list->end_to_end && !c.has_input(2)) {
    longer.stacks[0] = c.emit("Concat", {{"axis", int64_t{0}}}, {list->stacks[0], added});
    return c.set_output(0, Item{{}, make_list(std::move(longer))});
  }
  if (!c.has_input(2)) {
    if (!list->stacks.empty()) return static_cast<void>(known_sequence(c, 0));
    longer.elements.push_back(added);
    return c.set_output(0, Item{{}, make_list(std::move(longer))});
  }
  const Position at = position(c, 2, count, count + 1);
  if (!c.ok()) return;
  if (at.known) {
    longer.elements.insert(longer.elements.begin() + static_cast<std::ptrdiff_t>(*at.known), added);
    return c.set_output(0, Item{{}, make_list(std::move(longer))});
  }
  // Of the elements with the new one at their end: k in front of it, the new one, k - 1 behind it.
  longer.elements.push_back(added);
  const auto choose = [&](ValueId k) {
    const ValueId behind = c.emit("Where", {},
                                  {c.emit("Less", {}, {at.value, k}), c.emit("Sub", {}, {k, c.int64_scalar(1)}),
                                   c.int64_scalar(static_cast<int64_t>(count))});
    return c.emit("Where", {}, {c.emit("Less", {}, {k, at.value}), k, behind});
  };
  c.set_output(0, Item{{}, rearranged(c, longer, count + 1, 2, choose)});
}

void sequence_erase(OpContext& c) {
  const ListPtr list = known_sequence(c, 0);
  if (list == nullptr) return;
  const size_t count = list->elements.size();
  if (count == 0) return c.fail_invalid("the sequence is empty");
  ListValue shorter = *list;
  if (!c.has_input(1)) {
    shorter.elements.pop_back();
    return c.set_output(0, Item{{}, make_list(std::move(shorter))});
  }
  const Position at = position(c, 1, count, count);
  if (!c.ok()) return;
  if (at.known) {
    shorter.elements.erase(shorter.elements.begin() + static_cast<std::ptrdiff_t>(*at.known));
    return c.set_output(0, Item{{}, make_list(std::move(shorter))});
  }
  const auto choose = [&](ValueId k) {
    return c.emit("Where", {}, {c.emit("Less", {}, {k, at.value}), k, c.emit("Add", {}, {k, c.int64_scalar(1)})});
  };
  c.set_output(0, Item{{}, rearranged(c, *list, count - 1, 1, choose)});
}

void concat_from_sequence(OpContext& c) {
  const ListPtr list = sequence_of(c, 0);
  if (list == nullptr) return;
  if (!list->grows.empty()) return static_cast<void>(known_sequence(c, 0));
  if (list->elements.empty() && list->stacks.empty()) return c.fail_invalid("the sequence is empty");
  c.require_attribute("axis");
  const bool new_axis = c.take_int("new_axis", 0) != 0;
  const int64_t given = c.take_int("axis", 0);
  if (!c.ok()) return;
  const int rank = rank_of_elements(c, *list) + (new_axis ? 1 : 0);
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) return c.fail_invalid(str_cat("axis ", given, " of a result of rank ", rank));
  const ValueId result = joined(c, *list, axis, new_axis);
  // A list of one tensor is that tensor, under another name.
  if (c.ok()) c.emit_output("Identity", {}, {result});
}

// The body once per element of the first input; other sequences are walked along, tensors are the same for all.
void sequence_map(OpContext& c) {
  const ListPtr first = known_sequence(c, 0);
  const auto* body = c.take_graph("body");
  if (first == nullptr || !c.ok()) return;
  const size_t count = first->elements.size();
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (c.list(i) == nullptr) continue;
    const ListPtr other = known_sequence(c, i);
    if (other == nullptr) return;
    if (other->elements.size() != count)
      return c.fail_invalid(str_cat("input 0 is ", list_text(*first), ", input ", i, " ", list_text(*other)));
  }
  std::vector<ListValue> results(c.output_names.size());
  for (size_t k = 0; k < count; ++k) {
    std::vector<Item> arguments;
    for (size_t i = 0; i < c.inputs.size(); ++i)
      arguments.push_back(c.list(i) != nullptr ? Item{c.list(i)->elements[k], {}} : c.item(i));
    const std::vector<Item> made = c.inline_subgraph(body, arguments);
    if (!c.ok()) return;
    if (made.size() < results.size())
      return c.fail_invalid(str_cat("has ", results.size(), " outputs, its body ", made.size()));
    for (size_t i = 0; i < results.size(); ++i) {
      if (!made[i].value.valid()) return c.fail_invalid(str_cat("output ", i, " of the body is no tensor"));
      expect_element(c, results[i], made[i].value);
      results[i].elements.push_back(made[i].value);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) c.set_output(i, Item{{}, make_list(std::move(results[i]))});
}

// ---- optionals

void optional(OpContext& c) {
  ListValue made;
  if (const auto it = c.attributes.find("type"); it != c.attributes.end()) {
    it->second.taken = true;
    made.dtype = it->second.dtype;
    made.kind = it->second.is_sequence ? Kind::kOptionalSequence : Kind::kOptionalTensor;
  }
  if (c.list(0) != nullptr) {
    if (c.list(0)->kind != Kind::kSequence) return c.fail_invalid("an optional of an optional");
    made = *c.list(0);
    made.kind = Kind::kOptionalSequence;
  } else if (c.has_input(0)) {
    made.kind = Kind::kOptionalTensor;
    made.dtype = c.dtype(c.input(0));
    made.elements = {c.input(0)};
  } else {
    c.require_attribute("type");
    made.present = false;
  }
  c.set_output(0, Item{{}, make_list(std::move(made))});
}

void optional_has_element(OpContext& c) {
  const ListPtr list = c.list(0);
  c.set_output(0, c.scalar(DType::kBool, c.has_input(0) || (list != nullptr && list->present) ? 1 : 0));
}

void optional_get_element(OpContext& c) {
  const ListPtr list = c.list(0);
  if (list == nullptr) {
    c.expect_inputs(1, 1);
    return c.emit_output("Identity", {}, {c.input(0)});
  }
  if (!list->present) return c.fail_invalid("the optional has no element");
  if (list->kind == Kind::kOptionalTensor) return c.emit_output("Identity", {}, {list->elements.at(0)});
  ListValue sequence = *list;
  sequence.kind = Kind::kSequence;
  c.set_output(0, Item{{}, make_list(std::move(sequence))});
}

}  // namespace aipu::frontend
