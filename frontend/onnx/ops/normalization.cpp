// Normalisations: BatchNormalization's training outputs, GroupNormalization's per-group scale,
// MeanVarianceNormalization as its definition.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

// Scale, bias, mean and variance have an element for each of an example's: they broadcast over the examples.
void normalize_activations(OpContext& c, double epsilon, ValueId mean, ValueId variance) {
  const ValueId x = c.input(0);
  const DType dtype = c.dtype(x);
  const Shape example(c.type(x).shape.begin() + 1, c.type(x).shape.end());
  for (size_t i = 1; i < 5; ++i) {
    if (c.type(c.input(i)).shape != example) {
      return c.fail_invalid(str_cat("spatial = 0 takes statistics of the shape of an example, ",
                                    graph::shape_text(example), ", found ", c.type(c.input(i)).text()));
    }
  }
  const ValueId deviation = c.emit("Sqrt", {}, {add(c, variance, c.scalar(dtype, epsilon))});
  const ValueId y = c.emit("Div", {}, {subtract(c, x, mean), deviation});
  c.set_output(0, add(c, multiply(c, y, c.input(1)), c.input(2)));
}

}  // namespace

void batch_normalization(OpContext& c) {
  c.ignore("consumed_inputs");
  c.expect_inputs(5, 5);
  const bool is_per_channel = c.version() >= 9 || c.take_int("spatial", 1) != 0;
  // Before opset 14 inference and training differed by the outputs asked for (and, before 7, by is_test).
  c.ignore("is_test");
  const double momentum = c.take_float("momentum", 0.9);
  const double epsilon = c.take_float("epsilon", 1e-5);
  bool training = c.take_int("training_mode", 0) != 0;
  if (c.version() < 14) training = c.wants_output(1) || c.wants_output(2) || c.wants_output(3) || c.wants_output(4);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  if (!is_per_channel && c.rank(x) < 1) return c.fail_invalid("needs an input with a batch axis");
  if (!is_per_channel && !training) return normalize_activations(c, epsilon, c.input(3), c.input(4));
  if (!training) {
    c.output_names.resize(1);
    return c.emit_output("BatchNormalization", {{"epsilon", epsilon}},
                         {x, c.input(1), c.input(2), c.input(3), c.input(4)});
  }
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < c.rank(x); ++i) {
    if (is_per_channel ? i != 1 : i == 0) axes.push_back(i);
  }
  const ValueId axes_value = c.int64s(axes);
  const ValueId mean = c.emit("ReduceMean", {{"keepdims", int64_t{1}}}, {x, axes_value});
  const ValueId centred = c.emit("Sub", {}, {x, mean});
  const ValueId variance =
      c.emit("ReduceMean", {{"keepdims", int64_t{0}}}, {c.emit("Mul", {}, {centred, centred}), axes_value});
  const ValueId flat_mean = c.emit("ReduceMean", {{"keepdims", int64_t{0}}}, {x, axes_value});
  const DType dtype = c.dtype(c.input(3));
  const ValueId keep = c.scalar(dtype, momentum);
  const ValueId take = c.scalar(dtype, 1 - static_cast<double>(static_cast<float>(momentum)));
  const auto running = [&](ValueId old, ValueId current) {
    return c.emit("Add", {}, {c.emit("Mul", {}, {old, keep}), c.emit("Mul", {}, {c.cast(current, dtype), take})});
  };
  if (c.wants_output(1)) c.set_output(1, running(c.input(3), flat_mean));
  if (c.wants_output(2)) c.set_output(2, running(c.input(4), variance));
  const bool has_statistics_of_batch = c.version() < 14;
  if (has_statistics_of_batch && c.wants_output(3)) c.set_output(3, c.cast(flat_mean, dtype));
  if (has_statistics_of_batch && c.wants_output(4)) c.set_output(4, c.cast(variance, dtype));
  if (!is_per_channel) return normalize_activations(c, epsilon, c.cast(flat_mean, dtype), c.cast(variance, dtype));
  c.set_output(0, c.emit("BatchNormalization", {{"epsilon", epsilon}},
                         {x, c.input(1), c.input(2), c.cast(flat_mean, dtype), c.cast(variance, dtype)}));
}

// Scale and bias were per group, [G]; they are per channel, [C], since opset 21: each element is repeated C/G times.
void group_normalization_before_21(OpContext& c) {
  c.expect_inputs(3, 3);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  if (c.rank(x) < 2) return c.fail_invalid(str_cat("needs an input of rank 2 or more, found ", c.type(x).text()));
  const auto it = c.attributes.find("num_groups");
  const int64_t groups = it != c.attributes.end() ? it->second.i : 0;
  const auto channels = c.type(x).shape[1].constant();
  if (groups <= 0 || (channels && *channels % groups != 0)) {
    return c.fail_invalid(str_cat("num_groups is ", groups, ", it must divide the channels of ", c.type(x).text()));
  }
  const ValueId per_group = c.emit("Div", {}, {c.size_of(x, 1), c.int64s({groups})});
  const ValueId table = concat(c, 0, {c.int64s({groups}), per_group});
  const auto per_channel = [&](ValueId value) {
    return c.emit("Reshape", {}, {c.emit("Expand", {}, {c.unsqueeze(value, {1}), table}), c.int64s({-1})});
  };
  const ValueId scale = per_channel(c.input(1));
  const ValueId bias = per_channel(c.input(2));
  auto attributes = c.pass_attributes("GroupNormalization");
  c.emit_outputs("GroupNormalization", std::move(attributes), {x, scale, bias});
}

// (x - mean) / (sqrt(mean(x^2) - mean^2) + 1e-9)
void mean_variance_normalization(OpContext& c) {
  c.expect_inputs(1, 1);
  const ValueId x = c.input(0);
  const ValueId axes = c.int64s(c.take_ints("axes").value_or(std::vector<int64_t>{0, 2, 3}));
  // Not mean(x^2) - mean^2, as ONNX writes it: rounding takes that below 0.
  const ValueId centred = subtract(c, x, c.emit("ReduceMean", {}, {x, axes}));
  const ValueId variance = c.emit("ReduceMean", {}, {multiply(c, centred, centred), axes});
  const ValueId deviation = add(c, c.emit("Sqrt", {}, {variance}), c.scalar(c.dtype(x), 1e-9));
  c.emit_output("Div", {}, {centred, deviation});
}

}  // namespace aipu::frontend
