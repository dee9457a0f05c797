// Elementwise ops: unary, with attributes, binary, variadic, Where, Cast.
#include <algorithm>
#include <cmath>

#include "graph/ops/dim_rules.h"
#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

OpDef elementwise(std::string name, std::vector<OperandDef> inputs, std::string output_types,
                  std::function<Status(InferContext&)> infer, uint32_t traits = 0) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = std::move(inputs);
  def.outputs = {operand("Y", std::move(output_types))};
  def.traits = kElementwise | traits;
  def.infer = std::move(infer);
  return def;
}

// Of a number whose root is whole: how many patches an image has along one side.
std::optional<Dim> whole_root(const Dim& element) {
  constexpr int64_t kExact = int64_t{1} << 52;  // what doubles have
  const int64_t square = element.constant_or(-1);
  const auto root = square < 0 || square > kExact ? -1 : std::llround(std::sqrt(static_cast<double>(square)));
  return root >= 0 && root * root == square ? std::optional(Dim(static_cast<int64_t>(root))) : std::nullopt;
}

void propagate_unary(InferContext& ctx) {
  const DType dtype = ctx.input(0).dtype;
  const auto data = data_of(ctx, 0);
  if (!tracked(dtype)) return;
  Data result;
  const std::string& op = ctx.node().op;
  if (data) {
    for (const Dim& element : *data) {
      const auto value = op == "Sqrt" ? whole_root(element) : apply_unary(op, element);
      if (!value) return;
      result.push_back(*value);
    }
  } else if (op == "Floor" || op == "Ceil") {
    const auto fractions = fractions_of(ctx.graph(), ctx.node().inputs[0]);
    if (!fractions) return;
    for (const Fraction& f : *fractions) {
      result.push_back(op == "Floor" ? floordiv(f.numerator, f.denominator) : ceildiv(f.numerator, f.denominator));
    }
  } else {
    return;
  }
  set_data(ctx, 0, checked_elements(std::move(result), dtype));
}

Status infer_unary(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(infer_same_as_input(ctx));
  propagate_unary(ctx);
  return {};
}

Status infer_predicate(InferContext& ctx) {
  set_output(ctx, 0, DType::kBool, ctx.input(0).shape);
  return {};
}

// Operands of one type, broadcast; the result is of `result` or, kVoid, of the operands' type.
Status infer_binary(InferContext& ctx, DType result_dtype) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1}));
  const DType dtype = ctx.input(0).dtype;
  AIPU_ASSIGN_OR_RETURN(Shape shape, broadcast_inputs(ctx, {0, 1}));
  const DType output = result_dtype == DType::kVoid ? dtype : result_dtype;
  set_output(ctx, 0, output, shape);

  if (!tracked(dtype) || !tracked(output)) return {};
  const auto to = static_shape(shape);
  const auto a = data_of(ctx, 0);
  const auto b = data_of(ctx, 1);
  if (!to || !a || !b || count_of(*to) > kDataLimit) return {};
  const Data left = broadcast_data(*a, *static_shape(ctx.input(0).shape), *to);
  const Data right = broadcast_data(*b, *static_shape(ctx.input(1).shape), *to);
  Data data;
  for (size_t k = 0; k < left.size(); ++k) {
    // An integer Mod with fmod = 1 takes the dividend's sign.
    if (ctx.node().op == "Mod" && ctx.attributes().i_or("fmod", 0) != 0) return {};
    const auto element = apply_binary(ctx.node().op, left[k], right[k], is_floating(dtype));
    if (!element) return {};
    data.push_back(*element);
  }
  set_data(ctx, 0, checked_elements(std::move(data), output));
  return {};
}

Status infer_variadic(InferContext& ctx) {
  std::vector<Shape> shapes;
  const DType dtype = ctx.input(0).dtype;
  for (size_t i = 0; i < ctx.node().inputs.size(); ++i) {
    if (ctx.input(i).dtype != dtype) {
      return invalid_model(str_cat("operands must have one element type, found ", dtype_name(dtype), " and ",
                                   dtype_name(ctx.input(i).dtype)));
    }
    shapes.push_back(ctx.input(i).shape);
  }
  AIPU_ASSIGN_OR_RETURN(Shape shape, broadcast_operands(shapes));
  set_output(ctx, 0, dtype, shape);
  const std::string op = ctx.node().op == "Sum" ? "Add" : ctx.node().op;
  const auto to = static_shape(shape);
  if (!to || !tracked(dtype) || op == "Mean" || count_of(*to) > kDataLimit) return {};
  Data result;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto data = data_of(ctx, i);
    if (!data) return {};
    Data elements = broadcast_data(*data, *static_shape(shapes[i]), *to);
    if (i == 0) {
      result = std::move(elements);
      continue;
    }
    for (size_t k = 0; k < result.size(); ++k) {
      const auto element = apply_binary(op, result[k], elements[k], is_floating(dtype));
      if (!element) return {};
      result[k] = *element;
    }
  }
  set_data(ctx, 0, checked_elements(std::move(result), dtype));
  return {};
}

Status infer_where(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {1, 2}));
  AIPU_ASSIGN_OR_RETURN(Shape shape, broadcast_inputs(ctx, {0, 1, 2}));
  set_output(ctx, 0, ctx.input(1).dtype, shape);
  const auto to = static_shape(shape);
  if (!to || count_of(*to) > kDataLimit) return {};
  std::vector<Data> operands;
  for (size_t i = 0; i < 3; ++i) {
    const auto data = data_of(ctx, i);
    if (!data) return {};
    operands.push_back(broadcast_data(*data, *static_shape(ctx.input(i).shape), *to));
  }
  Data result;
  for (size_t k = 0; k < operands[0].size(); ++k)
    result.push_back(select(operands[0][k], operands[1][k], operands[2][k]));
  set_data(ctx, 0, std::move(result));
  return {};
}

// Output of input 0's type; other operands broadcast into it.
Status infer_clip(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1, 2}));
  for (const size_t i : {1, 2}) {
    if (!ctx.has_input(i)) continue;
    if (const auto count = element_count(ctx.input(i).shape).constant(); count && *count != 1) {
      return invalid_model(str_cat("bounds must be scalars, found ", ctx.input(i).text()));
    }
  }
  AIPU_RETURN_IF_ERROR(infer_same_as_input(ctx));
  auto data = data_of(ctx, 0);
  if (!data || !tracked(ctx.input(0).dtype)) return {};
  for (const size_t i : {1, 2}) {
    if (!ctx.has_input(i)) continue;
    const auto bound = data_of(ctx, i);
    if (!bound || bound->size() != 1) return {};
    for (Dim& element : *data) element = i == 1 ? max(element, bound->front()) : min(element, bound->front());
  }
  set_data(ctx, 0, checked_elements(std::move(data), ctx.input(0).dtype));
  return {};
}

Status infer_cast(InferContext& ctx, DType to) {
  const TensorType& from = ctx.input(0);
  if (to == DType::kVoid) return unsupported("casting to void is not supported");
  set_output(ctx, 0, to, from.shape);
  if (!is_computed(to) || from.dtype == DType::kString) return {};
  auto data = data_of(ctx, 0);
  if (!data && is_floating(from.dtype) && is_integer(to)) {
    // Truncation of a fraction that is not negative.
    if (const auto fractions = fractions_of(ctx.graph(), ctx.node().inputs[0])) {
      data.emplace();
      for (const Fraction& f : *fractions) {
        if (f.numerator.lower_bound().value_or(-1) < 0) return {};
        data->push_back(floordiv(f.numerator, f.denominator));
      }
    }
  }
  if (!data) return {};
  if (is_bool(to)) {
    for (Dim& element : *data) element = eq(eq(element, 0), 0);
  }
  set_data(ctx, 0, checked_elements(std::move(data), to));
  return {};
}

Status infer_pow(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(Shape shape, broadcast_inputs(ctx, {0, 1}));
  const DType dtype = ctx.input(0).dtype;
  set_output(ctx, 0, dtype, shape);
  const auto to = static_shape(shape);
  const auto a = data_of(ctx, 0);
  const auto b = data_of(ctx, 1);
  if (!to || !a || !tracked(dtype) || count_of(*to) > kDataLimit) return {};
  const Data left = broadcast_data(*a, *static_shape(ctx.input(0).shape), *to);
  const Constant* exponent = ctx.graph().constant(ctx.node().inputs[1]);
  if (exponent != nullptr && exponent->element_count() == 1 && exponent->to_doubles()[0] == 0.5) {
    Data roots;
    for (const Dim& element : left) {
      const auto root = whole_root(element);
      if (!root) return {};
      roots.push_back(*root);
    }
    set_data(ctx, 0, checked_elements(std::move(roots), dtype));
    return {};
  }
  if (!b) return {};
  const Data right = broadcast_data(*b, *static_shape(ctx.input(1).shape), *to);
  Data data;
  for (size_t k = 0; k < left.size(); ++k) {
    const auto element = apply_binary("Pow", left[k], right[k], is_floating(dtype));
    if (!element) return {};
    data.push_back(*element);
  }
  set_data(ctx, 0, checked_elements(std::move(data), dtype));
  return {};
}

OpDef unary_op(std::string name, const std::string& types = "f", uint32_t traits = 0) {
  return elementwise(std::move(name), {operand("X", types)}, types, infer_unary, traits);
}

OpDef predicate_op(std::string name, std::vector<AttributeDef> attributes = {}) {
  OpDef def = elementwise(std::move(name), {operand("X", "f")}, "b", infer_predicate);
  def.attributes = std::move(attributes);
  return def;
}

OpDef activation_op(std::string name, std::vector<AttributeDef> attributes = {}, const std::string& types = "f",
                    uint32_t traits = 0) {
  OpDef def = elementwise(std::move(name), {operand("X", types)}, types, infer_same_as_input, traits);
  def.attributes = std::move(attributes);
  return def;
}

OpDef identity_op() {
  OpDef def = elementwise("Identity", {operand("X", "*")}, "*", nullptr, kView | kTakesRounded);
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(infer_same_as_input(ctx));
    set_data(ctx, 0, data_of(ctx, 0));
    return {};
  };
  return def;
}

OpDef binary_op(std::string name, const std::string& types = kNumeric, uint32_t traits = 0) {
  return elementwise(
      std::move(name), {operand("A", types), operand("B", types)}, types,
      [](InferContext& ctx) { return infer_binary(ctx, DType::kVoid); }, traits);
}

OpDef comparison_op(std::string name, const std::string& types = kNumeric, uint32_t traits = 0) {
  return elementwise(
      std::move(name), {operand("A", types), operand("B", types)}, "b",
      [](InferContext& ctx) { return infer_binary(ctx, DType::kBool); }, traits);
}

OpDef variadic_op(std::string name, const std::string& types = kNumeric) {
  return elementwise(std::move(name), {variadic_operand("data", types)}, types, infer_variadic, kTakesRounded);
}

OpDef mod_op() {
  OpDef def = binary_op("Mod", kNumeric, kFaults);
  def.attributes = {attr::i("fmod", 0)};
  return def;
}

OpDef bit_shift_op() {
  OpDef def = binary_op("BitShift", "iu", 0);
  def.attributes = {attr::required("direction", AttributeKind::kString)};
  def.verify = [](const Graph&, const Node& node) { return expect_choice(node, "direction", {"LEFT", "RIGHT"}); };
  return def;
}

OpDef gelu_op() {
  OpDef def = activation_op("Gelu", {attr::s("approximate", "none")});
  def.verify = [](const Graph&, const Node& node) { return expect_choice(node, "approximate", {"none", "tanh"}); };
  return def;
}

OpDef pow_op() { return elementwise("Pow", {operand("X", kNumeric), operand("Y", kNumeric)}, kNumeric, infer_pow); }

OpDef prelu_op() {
  return elementwise(
      "PRelu", {operand("X", kNumeric), operand("slope", kNumeric)}, kNumeric,
      [](InferContext& ctx) -> Status {
        AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1}));
        AIPU_ASSIGN_OR_RETURN(const Shape shape, broadcast_inputs(ctx, {0, 1}));
        // Unidirectional: the slope may not widen X.
        if (static_cast<int>(shape.size()) != ctx.input(0).rank()) {
          return invalid_model(str_cat("slope ", ctx.input(1).text(), " does not broadcast to ", ctx.input(0).text()));
        }
        return infer_same_as_input(ctx);
      },
      kTakesRounded);
}

OpDef clip_op() {
  return elementwise("Clip",
                     {operand("input", kNumeric), optional_operand("min", kNumeric), optional_operand("max", kNumeric)},
                     kNumeric, infer_clip, kTakesRounded);
}

OpDef where_op() {
  return elementwise("Where", {operand("condition", "b"), operand("X", "*"), operand("Y", "*")}, "*", infer_where);
}

OpDef cast_op() {
  OpDef def = elementwise("Cast", {operand("input", "*")}, "*",
                          [](InferContext& ctx) { return infer_cast(ctx, ctx.attributes().dtype("to")); });
  // The last two as ONNX defines them for floats of 8 bits and less; absent where the result is another type.
  def.attributes = {attr::required("to", AttributeKind::kDType), attr::optional("saturate", AttributeKind::kInt),
                    attr::optional("round_mode", AttributeKind::kString)};
  return def;
}

// The same bytes as another type of the same size.
OpDef bit_cast_op() {
  OpDef def = elementwise("BitCast", {operand("input", "*")}, "*", nullptr, kView);
  def.attributes = {attr::required("to", AttributeKind::kDType)};
  def.infer = [](InferContext& ctx) -> Status {
    const DType from = ctx.input(0).dtype, to = ctx.attributes().dtype("to");
    if (dtype_bits(to) != dtype_bits(from) || to == DType::kVoid) {
      return invalid_model(str_cat(dtype_name(from), " and ", dtype_name(to), " have different sizes"));
    }
    set_output(ctx, 0, to, ctx.input(0).shape);
    return {};
  };
  return def;
}

OpDef cast_like_op() {
  OpDef def = elementwise("CastLike", {operand("input", "*"), operand("target_type", "*")}, "*",
                          [](InferContext& ctx) { return infer_cast(ctx, ctx.input(1).dtype); });
  def.traits = 0;  // the second operand lends its type only
  def.axes = axes::broadcast_of({0});
  return def;
}

}  // namespace

std::vector<OpDef> elementwise_ops() {
  return {
      identity_op(),
      unary_op("Abs", "iuf"),
      unary_op("Neg", "if"),
      unary_op("Sign", "iuf"),
      unary_op("Relu", "if", kTakesRounded),
      unary_op("Not", "b"),
      unary_op("BitwiseNot", "iu"),
      unary_op("Acos"),
      unary_op("Acosh"),
      unary_op("Asin"),
      unary_op("Asinh"),
      unary_op("Atan"),
      unary_op("Atanh"),
      unary_op("Ceil"),
      unary_op("Cos"),
      unary_op("Cosh"),
      unary_op("Erf", "iuf"),
      unary_op("Exp"),
      unary_op("Floor"),
      unary_op("Log"),
      unary_op("Reciprocal"),
      unary_op("Round"),
      unary_op("Sigmoid", "f", kTakesRounded),
      unary_op("Sin"),
      unary_op("Sinh"),
      unary_op("Softplus"),
      unary_op("Softsign"),
      unary_op("Sqrt"),
      unary_op("Tan"),
      unary_op("Tanh"),
      unary_op("HardSwish", "f", kTakesRounded),
      unary_op("Mish"),
      gelu_op(),
      predicate_op("IsNaN"),
      predicate_op("IsInf", {attr::i("detect_negative", 1), attr::i("detect_positive", 1)}),
      activation_op("Celu", {attr::f("alpha", 1.0)}),
      activation_op("Elu", {attr::f("alpha", 1.0)}),
      activation_op("HardSigmoid", {attr::f("alpha", 0.2), attr::f("beta", 0.5)}, "f", kTakesRounded),
      activation_op("LeakyRelu", {attr::f("alpha", 0.01)}, "f", kTakesRounded),
      activation_op("Selu", {attr::f("alpha", 1.67326319217681884765625), attr::f("gamma", 1.05070102214813232421875)}),
      activation_op("Shrink", {attr::f("bias", 0.0), attr::f("lambd", 0.5)}, "iuf"),
      activation_op("Swish", {attr::f("alpha", 1.0)}),
      activation_op("ThresholdedRelu", {attr::f("alpha", 1.0)}),
      clip_op(),
      cast_op(),
      cast_like_op(),
      bit_cast_op(),
      binary_op("Add", "iuf", kCommutative | kTakesRounded),
      binary_op("Sub"),
      binary_op("Mul", "iuf", kCommutative | kTakesRounded),
      binary_op("Div", kNumeric, kFaults),
      mod_op(),
      pow_op(),
      prelu_op(),
      binary_op("And", "b", kCommutative),
      binary_op("Or", "b", kCommutative),
      binary_op("Xor", "b", kCommutative),
      binary_op("BitwiseAnd", "iu", kCommutative),
      binary_op("BitwiseOr", "iu", kCommutative),
      binary_op("BitwiseXor", "iu", kCommutative),
      bit_shift_op(),
      comparison_op("Equal", "biufs", kCommutative),
      comparison_op("Greater"),
      comparison_op("GreaterOrEqual"),
      comparison_op("Less"),
      comparison_op("LessOrEqual"),
      variadic_op("Max"),
      variadic_op("Min"),
      variadic_op("Mean", "f"),
      variadic_op("Sum", "f"),
      where_op(),
  };
}

}  // namespace aipu::graph
