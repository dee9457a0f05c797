// Squeeze, Unsqueeze, Pad, Slice and the reductions with axes (or steps) that only a run knows. What decides about
// shapes is computed by nodes of the graph, whose results the extents are.
#include "frontend/onnx/ops/run_time_axes.h"

#include <limits>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

ValueId element(OpContext& c, ValueId list, int64_t place) { return gather(c, list, c.int64_scalar(place)); }

ValueId is_negative(OpContext& c, ValueId x) { return c.emit("Less", {}, {x, c.int64_scalar(0)}); }

ValueId positions(OpContext& c, int64_t count) {
  std::vector<int64_t> all;
  for (int64_t k = 0; k < count; ++k) all.push_back(k);
  return c.int64s(std::move(all));
}

// Places along axes of these extents, where negative ones count from the end, counted from the front.
ValueId from_front(OpContext& c, ValueId places, ValueId extents) {
  return where(c, is_negative(c, places), add(c, places, extents), places);
}

}  // namespace

bool is_run_time(const OpContext& c, size_t input) { return c.has_input(input) && !c.constant_ints(c.input(input)); }

ValueId at_axes(OpContext& c, ValueId axes, int64_t rank, ValueId elements, int64_t otherwise) {
  const ValueId others = c.int64s(std::vector<int64_t>(static_cast<size_t>(rank), otherwise));
  return c.emit("ScatterElements", {{"axis", int64_t{0}}}, {others, c.cast(axes, DType::kI64), elements});
}

ValueId axis_flags(OpContext& c, ValueId axes, int64_t rank) {
  return at_axes(c, axes, rank, c.emit("Expand", {}, {c.int64s({1}), c.shape_of(axes)}), 0);
}

ValueId unflagged_axes(OpContext& c, ValueId flags, int64_t rank, int64_t count) {
  if (!c.ok()) return {};
  // Flagged ones come behind all others, where no axis is.
  const ValueId keys = add(c, positions(c, rank), multiply(c, flags, c.int64_scalar(rank)));
  const auto sorted = c.emit_named("TopK",
                                   [] {
                                     Attributes a;
                                     a.set("axis", int64_t{0});
                                     a.set("largest", int64_t{0});
                                     return a;
                                   }(),
                                   {keys, c.int64s({count})}, {"axes", "places"});
  return c.ok() ? sorted[0] : ValueId();
}

ValueId reshape_to(OpContext& c, ValueId x, ValueId extents) {
  if (!c.ok()) return {};
  const auto dims = c.graph().require_data(extents);
  if (!dims) {
    c.fail_unsupported(str_cat("the extents of ", c.type(x).text(), " are not known as integers"));
    return {};
  }
  return c.emit("Reshape", {{"shape", Shape(dims->begin(), dims->end())}}, {x});
}

ValueId of_axis(OpContext& c, const std::vector<ValueId>& results, ValueId axis, int64_t rank) {
  std::vector<ValueId> rows;
  for (const ValueId result : results) rows.push_back(c.unsqueeze(result, {0}));
  const ValueId given = reshape(c, c.cast(axis, DType::kI64), {});
  return gather(c, concat(c, 0, std::move(rows)), from_front(c, given, c.int64_scalar(rank)));
}

ValueId of_axis_with_shape(OpContext& c, const std::vector<ValueId>& results, ValueId axis, int64_t rank) {
  std::vector<ValueId> shapes, rows;
  Dim longest = 0;
  for (const ValueId result : results) {
    shapes.push_back(c.shape_of(result));
    longest = max(longest, element_count(c.type(result).shape));
  }
  for (const ValueId result : results) {
    const Dim spare = longest - element_count(c.type(result).shape);
    rows.push_back(c.emit("Pad", {{"pads", Shape{0, spare}}}, {reshape(c, result, {-1})}));
  }
  const ValueId extents = of_axis(c, shapes, axis, rank);
  const ValueId row = of_axis(c, rows, axis, rank);
  if (!c.ok()) return {};
  const auto shape = c.graph().require_data(extents);
  if (!shape) {
    c.fail_unsupported("the extents of the result are not known as integers");
    return {};
  }
  const Dim count = element_count(Shape(shape->begin(), shape->end()));
  const ValueId elements =
      c.emit("Slice", {{"starts", Shape{0}}, {"steps", std::vector<int64_t>{1}}, {"extents", Shape{count}}}, {row});
  return c.emit("Reshape", {{"shape", Shape(shape->begin(), shape->end())}}, {elements});
}

int64_t listed_count(OpContext& c, ValueId axes) {
  if (!c.ok()) return 0;
  const Shape& shape = c.type(axes).shape;
  if (shape.size() != 1 || !shape[0].is_constant()) {
    c.fail_unsupported(str_cat("the rank of the result follows from how many axes there are, found ",
                               c.type(axes).text(), "; give the list a static length, or a constant"));
    return 0;
  }
  return *shape[0].constant();
}

void squeeze(OpContext& c) {
  if (!is_run_time(c, 1)) return pass(c);
  c.expect_inputs(2, 2);
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  const int64_t left = rank - listed_count(c, c.input(1));
  if (c.ok() && left < 0) return c.fail_invalid(str_cat("lists more axes than ", c.type(x).text(), " has"));
  const ValueId kept = unflagged_axes(c, axis_flags(c, c.input(1), rank), rank, left);
  c.set_output(0, reshape_to(c, x, gather(c, c.shape_of(x), kept)));
}

void unsqueeze(OpContext& c) {
  if (!is_run_time(c, 1)) return pass(c);
  c.expect_inputs(2, 2);
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x) + listed_count(c, c.input(1));
  const ValueId kept = unflagged_axes(c, axis_flags(c, c.input(1), rank), rank, c.rank(x));
  c.set_output(0, reshape_to(c, x, at_axes(c, kept, rank, c.shape_of(x), 1)));
}

void pad(OpContext& c) {
  if (!is_run_time(c, 3)) return pass(c);
  c.expect_inputs(2, 4);
  const int64_t count = listed_count(c, c.input(3));
  if (!c.ok()) return;
  const int64_t rank = c.rank(c.input(0));
  const ValueId pads = c.cast(c.input(1), DType::kI64);
  const ValueId begins = at_axes(c, c.input(3), rank, slice(c, pads, 0, 0, count), 0);
  const ValueId ends = at_axes(c, c.input(3), rank, slice(c, pads, 0, count, 2 * count), 0);
  auto attributes = c.pass_attributes("Pad");
  c.emit_outputs("Pad", std::move(attributes), {c.input(0), concat(c, 0, {begins, ends}), c.input(2)});
}

// Steps that only a run knows: along each axis the elements are gathered, from positions clamped as Slice clamps them.
void slice(OpContext& c) {
  const auto open_length = [&](size_t input) {
    return c.has_input(input) && c.rank(c.input(input)) == 1 && !c.type(c.input(input)).shape[0].is_constant();
  };
  const bool steps_known = !is_run_time(c, 4);
  if (!is_run_time(c, 3) && steps_known && !open_length(1)) return pass(c);
  c.expect_inputs(3, 5);
  if (!c.ok()) return;
  ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  const ValueId starts = c.cast(c.input(1), DType::kI64);
  ValueId axes = c.input(3);
  if (!axes.valid()) {
    axes = c.emit("Range", {}, {c.int64_scalar(0), c.squeeze(c.size_of(starts, 0), {0}), c.int64_scalar(1)});
  }
  const ValueId first = at_axes(c, axes, rank, starts, 0);
  const ValueId last = at_axes(c, axes, rank, c.cast(c.input(2), DType::kI64), std::numeric_limits<int64_t>::max());
  if (!c.has_input(4)) return c.emit_output("Slice", {}, {x, first, last});
  const ValueId steps = at_axes(c, axes, rank, c.cast(c.input(4), DType::kI64), 1);
  const ValueId extents = c.shape_of(x);
  const ValueId backward = is_negative(c, steps);
  const ValueId least_end = where(c, backward, c.int64_scalar(-1), c.int64_scalar(0));
  const ValueId most = where(c, backward, subtract(c, extents, c.int64_scalar(1)), extents);
  const auto clamped = [&](ValueId position, ValueId least) {
    return c.emit("Min", {}, {c.emit("Max", {}, {from_front(c, position, extents), least}), most});
  };
  const ValueId from = clamped(first, c.int64_scalar(0));
  // What is not listed ends at the end, whatever direction the others take.
  const ValueId to = clamped(last, least_end);
  for (int64_t axis = 0; axis < rank; ++axis) {
    const ValueId indices =
        c.emit("Range", {}, {element(c, from, axis), element(c, to, axis), element(c, steps, axis)});
    x = gather(c, x, indices, axis);
  }
  c.set_output(0, c.emit("Identity", {}, {x}));
}

namespace {

// `combine` along the axes whose flag is 1, which keep an extent of 1.
ValueId reduce_flagged(OpContext& c, std::string_view combine, ValueId x, const std::vector<Dim>& flags) {
  for (size_t axis = 0; axis < flags.size() && c.ok(); ++axis) {
    // Behind the elements of the axis stands what they come to; one of the two is taken.
    const auto at = static_cast<int64_t>(axis);
    const Dim extent = c.type(x).shape[axis];
    const ValueId reduced = c.emit(combine, {{"keepdims", int64_t{1}}}, {x, c.int64s({at})});
    const ValueId both = concat(c, at, {x, reduced});
    if (!c.ok()) return {};
    Shape starts(flags.size(), Dim(0));
    Shape extents = c.type(both).shape;
    starts[axis] = graph::select(flags[axis], extent, 0);
    extents[axis] = graph::select(flags[axis], 1, extent);
    x = c.emit("Slice", {{"starts", starts}, {"steps", std::vector<int64_t>(flags.size(), 1)}, {"extents", extents}},
               {both});
  }
  return x;
}

ValueId unary(OpContext& c, const char* op, ValueId x) { return c.emit(op, {}, {x}); }

// How many elements become one: int64 scalar.
ValueId reduced_count(OpContext& c, ValueId x, ValueId flags) {
  const ValueId flagged = c.cast(flags, DType::kBool);
  const ValueId extents = where(c, flagged, c.shape_of(x), c.int64_scalar(1));
  return c.emit("ReduceProd", {{"keepdims", int64_t{0}}}, {extents, c.int64s({0})});
}

ValueId reduced(OpContext& c, ValueId x, ValueId flags, const std::vector<Dim>& dims) {
  const std::string& op = c.op_type();
  const auto sum = [&](ValueId elements) { return reduce_flagged(c, "ReduceSum", elements, dims); };
  if (op == "ReduceMean") return c.emit("Div", {}, {sum(x), c.cast(reduced_count(c, x, flags), c.dtype(x))});
  if (op == "ReduceL1") return sum(unary(c, "Abs", x));
  if (op == "ReduceL2") {
    // Of integers the root is that of a float.
    const ValueId squares = sum(multiply(c, x, x));
    if (is_floating(c.dtype(x))) return unary(c, "Sqrt", squares);
    return c.cast(unary(c, "Sqrt", c.cast(squares, DType::kF64)), c.dtype(x));
  }
  if (op == "ReduceSumSquare") return sum(multiply(c, x, x));
  if (op == "ReduceLogSum" || op == "ReduceLogSumExp") {
    const DType dtype = c.dtype(x);
    if (!is_floating(dtype)) x = c.cast(x, DType::kF64);
    const ValueId y = op == "ReduceLogSum" ? unary(c, "Log", sum(x)) : reduce_flagged(c, op, x, dims);
    return c.cast(y, dtype);
  }
  return reduce_flagged(c, op, x, dims);  // it combines two elements as it does many
}

}  // namespace

void reduce(OpContext& c) {
  if (c.has_input(1) && c.type(c.input(1)).shape == Shape{Dim(0)}) c.inputs[1] = c.int64s({});
  if (!is_run_time(c, 1)) return pass(c);
  c.expect_inputs(2, 2);
  if (c.rank(c.input(1)) != 1) return c.fail_invalid(str_cat("axes must be a list, found ", c.type(c.input(1)).text()));
  const bool keep = c.take_int("keepdims", 1) != 0;
  const bool nothing_is_all = c.take_int("noop_with_empty_axes", 0) == 0;
  const int64_t left = keep || !c.ok() ? 0 : c.rank(c.input(0)) - listed_count(c, c.input(1));
  if (!c.ok()) return;
  const ValueId input = c.input(0);
  const int64_t rank = c.rank(input);
  if (left < 0) return c.fail_invalid(str_cat("lists more axes than ", c.type(input).text(), " has"));
  ValueId flags = axis_flags(c, c.input(1), rank);
  if (nothing_is_all && !c.type(c.input(1)).shape[0].is_constant()) {
    const ValueId none = c.emit("Equal", {}, {c.size_of(c.input(1), 0), c.int64s({0})});
    flags = c.emit("Max", {}, {flags, c.cast(none, DType::kI64)});
  }
  if (!c.ok()) return;
  const auto dims = c.graph().require_data(flags);
  if (!dims) return c.fail_unsupported("the axes are not known as integers");
  // What is reduced axis by axis is rounded at the end only.
  const DType dtype = c.dtype(input);
  const bool narrow = is_floating(dtype) && dtype_bytes(dtype) < 4;
  ValueId y = reduced(c, narrow ? c.cast(input, DType::kF32) : input, flags, *dims);
  if (narrow) y = c.cast(y, dtype);
  if (keep) return c.set_output(0, c.emit("Identity", {}, {y}));
  const ValueId kept = unflagged_axes(c, flags, rank, left);
  c.set_output(0, reshape_to(c, y, gather(c, c.shape_of(input), kept)));
}

}  // namespace aipu::frontend
