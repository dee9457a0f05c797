// Ops that move data: shape, axes, split, starts, pads and tiles were attributes once.
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

void reshape_before_5(OpContext& c) {
  c.ignore("consumed_inputs");
  c.expect_inputs(1, 1);
  c.require_attribute("shape");
  c.emit_output("Reshape", {}, {c.input(0), c.int64s(c.take_ints("shape").value_or(std::vector<int64_t>{}))});
}

// Squeeze and Unsqueeze.
void squeeze_before_13(OpContext& c) {
  c.expect_inputs(1, 1);
  if (c.op_type() == "Unsqueeze") c.require_attribute("axes");
  const auto axes = c.take_ints("axes");
  std::vector<ValueId> inputs{c.input(0)};
  if (axes) inputs.push_back(c.int64s(*axes));
  c.emit_output(c.op_type(), {}, inputs);
}

void split_before_13(OpContext& c) {
  c.expect_inputs(1, 2);  // Split-1 could have the sizes as an input
  const int64_t axis = c.take_int("axis", 0);
  const auto split = c.take_ints("split");
  std::vector<ValueId> inputs{c.input(0)};
  if (c.has_input(1)) {
    inputs.push_back(c.input(1));
  } else if (split && !split->empty()) {
    inputs.push_back(c.int64s(*split));
  }
  Attributes attributes;
  attributes.set("axis", axis);
  c.emit_outputs("Split", std::move(attributes), inputs);
}

void slice_before_10(OpContext& c) {
  c.expect_inputs(1, 1);
  c.require_attribute("starts");
  c.require_attribute("ends");
  const auto starts = c.take_ints("starts").value_or(std::vector<int64_t>{});
  const auto ends = c.take_ints("ends").value_or(std::vector<int64_t>{});
  auto axes = c.take_ints("axes");
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts.size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  if (c.ok() && (ends.size() != starts.size() || axes->size() != starts.size())) {
    return c.fail_invalid(
        str_cat("has ", starts.size(), " starts, ", ends.size(), " ends and ", axes->size(), " axes"));
  }
  c.emit_output("Slice", {}, {c.input(0), c.int64s(starts), c.int64s(ends), c.int64s(*axes)});
}

void pad_before_11(OpContext& c) {
  c.expect_inputs(1, 1);
  const std::string name = c.version() < 2 ? "paddings" : "pads";
  c.require_attribute(name);
  const auto pads = c.take_ints(name).value_or(std::vector<int64_t>{});
  const std::string mode = c.take_string("mode", "constant");
  const double value = c.take_float("value", 0);
  if (!c.ok()) return;
  std::vector<ValueId> inputs{c.input(0), c.int64s(pads)};
  if (mode == "constant") inputs.push_back(c.scalar(c.dtype(c.input(0)), value));
  c.emit_output("Pad", {{"mode", mode}}, inputs);
}

// Tile-1: `tiles` copies along `axis`, both scalars.
void tile_before_6(OpContext& c) {
  c.expect_inputs(3, 3);
  if (!c.ok()) return;
  const auto axis = c.constant_ints(c.input(2));
  const auto* axis_constant = c.graph().constant(c.input(2));
  int64_t at = -1;
  if (axis && axis->size() == 1) at = axis->front();
  if (!axis && axis_constant != nullptr && axis_constant->element_count() == 1)
    at = static_cast<int64_t>(axis_constant->to_doubles().front());
  const int64_t rank = c.rank(c.input(0));
  if (at < 0 || at >= rank) return c.fail_unsupported("the axis must be a constant inside the input's rank");
  std::vector<ValueId> parts;
  if (at > 0) parts.push_back(c.int64s(std::vector<int64_t>(static_cast<size_t>(at), 1)));
  parts.push_back(c.emit("Reshape", {}, {c.cast(c.input(1), DType::kI64), c.int64s({1})}));
  if (at + 1 < rank) parts.push_back(c.int64s(std::vector<int64_t>(static_cast<size_t>(rank - at - 1), 1)));
  c.emit_output("Tile", {},
                {c.input(0), parts.size() == 1 ? parts[0] : c.emit("Concat", {{"axis", int64_t{0}}}, parts)});
}

void scatter(OpContext& c) {
  c.expect_inputs(3, 3);
  auto attributes = c.pass_attributes("ScatterElements");
  c.emit_outputs("ScatterElements", std::move(attributes), c.inputs);
}

// In mode CRD the channel comes before the place in the block.
void space_to_depth(OpContext& c) {
  c.expect_inputs(1, 1);
  const std::string mode = c.take_string("mode", "DCR");
  if (!c.ok()) return;
  if (mode == "DCR") return pass(c);
  if (mode != "CRD") return c.fail_invalid(str_cat("mode is '", mode, "', expected one of: DCR, CRD"));
  const TensorType x = c.type(c.input(0));
  const auto attributes = c.pass_attributes("SpaceToDepth");
  if (!c.ok()) return;
  const int64_t block = attributes.i("blocksize");
  const ValueId y = c.emit("SpaceToDepth", {{"blocksize", block}}, {c.input(0)});
  if (!c.ok()) return;
  const Shape out = c.type(y).shape;
  const ValueId apart =
      c.emit("Reshape", {{"shape", Shape{out[0], Dim(block * block), x.shape[1], out[2], out[3]}}}, {y});
  const ValueId turned = c.transpose(apart, {0, 2, 1, 3, 4});
  c.emit_output("Reshape", {{"shape", out}}, {turned});
}

}  // namespace aipu::frontend
