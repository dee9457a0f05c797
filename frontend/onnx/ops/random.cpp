// Random results: numbers of aipu::RandomNumbers (graph/ops/generate.cpp), and what is made of them. A node without a
// seed has one that follows from the name of its output.
#include "frontend/onnx/ops/random.h"

#include <cmath>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"
#include "runtime/base/hash.h"

namespace aipu::frontend {

namespace {

constexpr int64_t kSeedMask = 0xffffffff;

}  // namespace

int64_t as_seed(int64_t value) { return value & kSeedMask; }

int64_t seed_of_name(const OpContext& c) {
  return as_seed(static_cast<int64_t>(hash_text(c.output_names.empty() ? std::string() : c.output_names[0]).low));
}

namespace {

// The attribute `seed`, a float.
int64_t take_seed(OpContext& c) {
  if (!c.has_attribute("seed")) return seed_of_name(c);
  const double seed = c.take_float("seed", 0);
  if (!(std::abs(seed) < 0x1p62)) {
    c.fail_invalid(str_cat("seed is ", seed));
    return 0;
  }
  return as_seed(static_cast<int64_t>(seed));
}

// float64 numbers, as many as an int64 list says.
ValueId numbers(OpContext& c, const char* distribution, int64_t seed, ValueId shape) {
  return c.emit("aipu::RandomNumbers", {{"distribution", std::string(distribution)}, {"seed", seed}}, {shape});
}

}  // namespace

ValueId uniform_numbers(OpContext& c, int64_t seed, ValueId shape) { return numbers(c, "uniform", seed, shape); }

namespace {

// The shape that a node has as an attribute, or its operand's (of the forms that end in Like).
ValueId wanted_shape(OpContext& c) {
  if (c.op_type().ends_with("Like")) {
    c.expect_inputs(1, 1);
    return c.shape_of(c.input(0));
  }
  c.expect_inputs(0, 0);
  c.require_attribute("shape");
  return c.int64s(c.take_ints("shape").value_or(std::vector<int64_t>{}));
}

DType wanted_dtype(OpContext& c) {
  const bool like = c.op_type().ends_with("Like");
  const DType dtype = c.take_dtype("dtype", like ? c.dtype(c.input(0)) : DType::kF32);
  if (c.ok() && !is_floating(dtype)) c.fail_invalid(str_cat("the result is of type ", dtype_name(dtype)));
  return dtype;
}

int mantissa_bits(DType dtype) {
  return dtype == DType::kF64 ? 53 : dtype == DType::kF32 ? 24 : dtype == DType::kF16 ? 11 : 8;
}

// `y` in `dtype`, below `limit` also where it is rounded.
ValueId cast_below(OpContext& c, ValueId y, DType dtype, double limit) {
  const double below = limit - std::abs(limit) * std::ldexp(1.5, -mantissa_bits(dtype));
  return c.cast(c.emit("Min", {}, {y, c.scalar(DType::kF64, below)}), dtype);
}

// The one element of a scalar or a list of one, as a float64 scalar.
ValueId as_scalar(OpContext& c, ValueId value) { return c.emit("Reshape", {{"shape", Shape{}}}, {value}); }

// What RandomUniform and RandomNormal, and those that end in Like, have in common.
struct RandomNode {
  ValueId shape;
  DType dtype = DType::kF32;
  int64_t seed = 0;
};

RandomNode take_random_node(OpContext& c) {
  const ValueId shape = wanted_shape(c);
  const DType dtype = wanted_dtype(c);
  return {shape, dtype, take_seed(c)};
}

// float64 numbers of the distribution, times `factor`, plus `offset`.
ValueId drawn(OpContext& c, const RandomNode& node, const char* distribution, double factor, double offset) {
  if (!c.ok()) return {};
  const ValueId part = scaled(c, numbers(c, distribution, node.seed, node.shape), factor);
  return add(c, part, c.scalar(DType::kF64, offset));
}

}  // namespace

void random_uniform(OpContext& c) {
  const RandomNode node = take_random_node(c);
  const double low = c.take_float("low", 0), high = c.take_float("high", 1);
  const ValueId y = drawn(c, node, "uniform", high - low, low);
  c.set_output(0, cast_below(c, y, node.dtype, high));
}

void random_normal(OpContext& c) {
  const RandomNode node = take_random_node(c);
  const double mean = c.take_float("mean", 0), deviation = c.take_float("scale", 1);
  const ValueId y = drawn(c, node, "normal", deviation, mean);
  c.set_output(0, c.cast(y, node.dtype));
}

// 1 where a number of [0, 1) is below the probability.
void bernoulli(OpContext& c) {
  c.expect_inputs(1, 1);
  const ValueId p = c.input(0);
  const DType dtype = c.take_dtype("dtype", c.dtype(p));
  const int64_t seed = take_seed(c);
  if (!c.ok()) return;
  const ValueId number = uniform_numbers(c, seed, c.shape_of(p));
  c.set_output(0, c.cast(c.emit("Less", {}, {number, c.cast(p, DType::kF64)}), dtype));
}

// A number of [0, 1) falls on the class whose part of the distribution it is in.
void multinomial(OpContext& c) {
  c.expect_inputs(1, 1);
  const int64_t samples = c.take_int("sample_size", 1);
  const DType dtype = c.take_dtype("dtype", DType::kI32);
  const int64_t seed = take_seed(c);
  const ValueId scores = c.input(0);
  if (!c.ok()) return;
  if (c.rank(scores) != 2)
    return c.fail_invalid(str_cat("the input must be [batch, classes], found ", c.type(scores).text()));
  if (samples < 1) return c.fail_invalid(str_cat("sample_size is ", samples));
  if (dtype != DType::kI32 && dtype != DType::kI64)
    return c.fail_invalid(str_cat("the result is of type ", dtype_name(dtype)));
  const ValueId parts = c.emit("Softmax", {{"axis", int64_t{-1}}}, {c.cast(scores, DType::kF64)});
  const ValueId ends = c.emit("CumSum", {}, {parts, c.int64_scalar(1)});
  const ValueId number = uniform_numbers(c, seed, concat(c, 0, {c.size_of(scores, 0), c.int64s({samples})}));
  const ValueId passed = c.emit("GreaterOrEqual", {}, {c.unsqueeze(number, {2}), c.unsqueeze(ends, {1})});
  const ValueId places = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {c.cast(passed, DType::kI64), c.int64s({2})});
  // The parts may add up to a little less than 1.
  const ValueId last = subtract(c, c.size_of(scores, 1), c.int64s({1}));
  c.set_output(0, c.cast(c.emit("Min", {}, {places, last}), dtype));
}

namespace {

struct DropoutNode {
  int64_t seed = 0;
  ValueId ratio;     // float64 scalar
  ValueId training;  // bool scalar, absent where it is known to be so
  bool drops = false;
  DType mask = DType::kBool;
};

// The operands `ratio` and `training` may be absent; without them it is what is given.
DropoutNode dropout_node(OpContext& c, double ratio, bool training, ValueId ratio_operand, ValueId training_operand) {
  DropoutNode node;
  node.seed = c.has_attribute("seed") ? as_seed(c.take_int("seed", 0)) : seed_of_name(c);
  if (!c.ok()) return node;
  if (training_operand.valid()) {
    const auto mode = c.constant_ints(training_operand);
    training = !mode || (mode->size() == 1 && mode->front() != 0);
    if (!mode) node.training = as_scalar(c, training_operand);
  }
  node.ratio = c.scalar(DType::kF64, ratio);
  if (ratio_operand.valid()) {
    const auto* given = c.graph().constant(ratio_operand);
    ratio = given != nullptr && given->element_count() == 1 ? given->to_doubles().front() : 1;
    node.ratio = as_scalar(c, c.cast(ratio_operand, DType::kF64));
  }
  node.drops = training && ratio != 0;
  return node;
}

// The identity, unless it trains: elements whose number is below the ratio become 0 then, the others are as much
// greater as makes up for them. Output 1 says which ones are kept.
ValueId dropped(OpContext& c, ValueId x, const DropoutNode& node) {
  if (!c.ok()) return {};
  const DType dtype = c.dtype(x);
  if (!node.drops) {
    if (c.wants_output(1)) c.set_output(1, c.emit("Expand", {}, {c.scalar(node.mask, 1), c.shape_of(x)}));
    return x;
  }
  const ValueId one = c.scalar(DType::kF64, 1);
  const ValueId number = uniform_numbers(c, node.seed, c.shape_of(x));
  ValueId kept = c.emit("GreaterOrEqual", {}, {number, node.ratio});
  ValueId factor = c.emit("Div", {}, {one, subtract(c, one, node.ratio)});
  if (node.training.valid()) {
    kept = c.emit("Or", {}, {kept, c.emit("Not", {}, {node.training})});
    factor = c.emit("Where", {}, {node.training, factor, one});
  }
  const ValueId grown = multiply(c, x, c.cast(factor, dtype));
  if (c.wants_output(1)) c.set_output(1, c.cast(kept, node.mask));
  return c.emit("Where", {}, {kept, grown, c.scalar(dtype, 0)});
}

}  // namespace

void dropout(OpContext& c) {
  c.ignore("consumed_inputs");
  const double ratio = c.take_float("ratio", 0.5);
  c.expect_inputs(1, 3);
  const bool training = c.version() < 7 && c.take_int("is_test", 0) == 0 && c.has_attribute("is_test");
  DropoutNode node = dropout_node(c, ratio, training, c.input(1), c.input(2));
  if (c.version() < 10) node.mask = c.dtype(c.input(0));
  const ValueId y = dropped(c, c.input(0), node);
  c.set_output(0, node.drops ? y : c.emit("Identity", {}, {y}));
}

// Of com.microsoft: the Dropout of a sum, and what is added behind it.
void bias_dropout(OpContext& c) {
  c.expect_inputs(2, 5);
  const DropoutNode node = dropout_node(c, 0.5, false, c.input(3), c.input(4));
  const ValueId y = dropped(c, add(c, c.input(0), c.input(1)), node);
  c.set_output(0, add_if(c, y, c.input(2)));
}

}  // namespace aipu::frontend
