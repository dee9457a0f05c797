// Elementwise ops: broadcasting by attribute before opset 7, Clip's bounds, Cast's type names.
#include <algorithm>
#include <string>

#include "frontend/onnx/ops/converters.h"
#include "runtime/base/stored_type.h"

namespace aipu::frontend {

// Before opset 7 operand B was broadcast on request: with `axis`, B's axes face A's axes from there; without, the last
// ones.
//
//   A [2,3,4,5], B [3,4], axis=1   ->   B becomes [3,4,1]
void broadcast_before_7(OpContext& c) {
  c.ignore("consumed_inputs");
  c.expect_inputs(2, 2);
  const bool broadcast = c.take_int("broadcast", 0) != 0;
  const bool has_axis = c.has_attribute("axis");
  ValueId b = c.input(1);
  const int rank_a = c.rank(c.input(0));
  const int64_t axis = c.take_axis("axis", 0, rank_a);
  if (!c.ok()) return;
  if (broadcast && has_axis) {
    const int64_t missing = rank_a - axis - c.rank(b);
    if (missing < 0)
      return c.fail_invalid(str_cat("operand B ", c.type(b).text(), " does not fit into ", c.type(c.input(0)).text(),
                                    " from axis ", axis));
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < missing; ++i) axes.push_back(c.rank(b) + i);
    b = c.unsqueeze(b, axes);
  }
  c.emit_output(c.op_type(), {}, {c.input(0), b});
}

// The slope of a [N,C,...] input is per channel: [C] becomes [C,1,...].
void prelu_before_7(OpContext& c) {
  c.ignore("consumed_inputs");
  c.expect_inputs(2, 2);
  if (!c.ok()) return;
  ValueId slope = c.input(1);
  const int rank = c.rank(c.input(0));
  if (c.rank(slope) == 1 && rank > 2 && c.type(slope).shape[0] != Dim(1)) {
    std::vector<int64_t> axes;
    for (int i = 1; i < rank - 1; ++i) axes.push_back(i);
    slope = c.unsqueeze(slope, axes);
  }
  c.emit_output("PRelu", {}, {c.input(0), slope});
}

void clip_before_11(OpContext& c) {
  c.ignore("consumed_inputs");
  c.expect_inputs(1, 1);
  if (!c.ok()) return;
  const DType dtype = c.dtype(c.input(0));
  const auto bound = [&](std::string_view name) {
    return c.has_attribute(name) ? c.scalar(dtype, c.take_float(name, 0)) : ValueId{};
  };
  const ValueId low = bound("min");
  const ValueId high = bound("max");
  c.emit_output("Clip", {}, {c.input(0), low, high});
}

// Cast-1 names the type: "FLOAT".
void cast_before_6(OpContext& c) {
  c.require_attribute("to");
  if (!c.ok()) return;
  if (c.attributes.at("to").kind == OnnxAttribute::Kind::kInt) return cast(c);  // converters in the wild mix the two
  std::string name = c.take_string("to", "");
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
  if (name == "float") name = "float32";
  if (name == "double") name = "float64";
  const auto dtype = parse_dtype(name);
  if (!dtype || *dtype == DType::kVoid) return c.fail_unsupported(str_cat("a cast to '", name, "' is not supported"));
  c.emit_output("Cast", {{"to", *dtype}}, c.inputs);
}

namespace {

// How Cast rounds matters to floats of 8 bits and less.
void emit_cast(OpContext& c, DType to) {
  const int64_t saturate = c.take_int("saturate", 1);
  const std::string rounding = c.take_string("round_mode", "up");
  if (!c.ok()) return;
  AttributeList attributes = {{"to", to}};
  if (small_float(to) != nullptr) {
    if (rounding != "up" && rounding != "down" && rounding != "nearest")
      return c.fail_invalid(str_cat("round_mode '", rounding, "' is none of up, down and nearest"));
    attributes.insert(attributes.end(), {{"saturate", saturate}, {"round_mode", rounding}});
  }
  c.emit_output("Cast", std::move(attributes), {c.input(0)});
}

}  // namespace

void cast(OpContext& c) {
  c.require_attribute("to");
  c.expect_inputs(1, 1);
  if (!c.ok()) return;
  const DType to = c.take_dtype("to", DType::kVoid);
  emit_cast(c, to);
}

void cast_like(OpContext& c) {
  c.expect_inputs(2, 2);
  if (c.ok()) emit_cast(c, c.dtype(c.input(1)));
}

// A bool is a byte that is 0 or 1: any other bit makes it true.
void bit_cast(OpContext& c) {
  c.require_attribute("to");
  c.expect_inputs(1, 1);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const Attributes attributes = c.pass_attributes("BitCast");
  if (!c.ok()) return;
  const DType to = attributes.dtype("to");
  if (to == DType::kString || c.dtype(x) == DType::kString) return c.fail_invalid("strings have no bits");
  if (to == DType::kBool && dtype_bits(c.dtype(x)) == 8) {
    c.emit_output("Cast", {{"to", to}}, {c.emit("BitCast", {{"to", DType::kU8}}, {x})});
  } else {
    c.emit_output("BitCast", {{"to", to}}, {x});
  }
}

void swi_glu(OpContext& c) {
  c.expect_inputs(2, 2);
  const double alpha = c.take_float("alpha", 1);
  c.emit_output("Mul", {}, {c.emit("Swish", {{"alpha", alpha}}, {c.input(0)}), c.input(1)});
}

// The defaults were shorter numbers then.
void selu_before_6(OpContext& c) {
  c.ignore("consumed_inputs");
  const double alpha = c.take_float("alpha", static_cast<double>(1.6732f));
  const double gamma = c.take_float("gamma", static_cast<double>(1.0507f));
  c.emit_output("Selu", {{"alpha", alpha}, {"gamma", gamma}}, c.inputs);
}

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)): an Elu of x / alpha, times alpha.
void celu(OpContext& c) {
  if (graph::find_op("Celu") != nullptr) return pass(c);
  const double alpha = c.take_float("alpha", 1.0);
  const ValueId x = c.input(0);
  const DType dtype = c.dtype(x);
  if (!c.ok()) return;
  const ValueId factor = c.scalar(dtype, alpha);
  const ValueId elu = c.emit("Elu", {{"alpha", 1.0}}, {c.emit("Div", {}, {x, factor})});
  c.emit_output("Mul", {}, {elu, factor});
}

}  // namespace aipu::frontend
