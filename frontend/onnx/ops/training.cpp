// The optimizers of ai.onnx.preview.training, one step each, as compositions. Tensors come in groups: X1..Xn, G1..Gn,
// ...
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

// Inputs after the learning rate and the step count, as `groups` lists of equal length; 0 where they do not fit.
size_t group_size(OpContext& c, size_t groups, size_t output_groups) {
  if (c.inputs.size() < 2 + groups || (c.inputs.size() - 2) % groups != 0) {
    c.fail_invalid(str_cat("needs 2 + ", groups, "*n inputs, found ", c.inputs.size()));
    return 0;
  }
  const size_t n = (c.inputs.size() - 2) / groups;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has_input(i)) c.fail_invalid(str_cat("needs input ", i));
  }
  if (c.output_names.size() > output_groups * n)
    c.fail_invalid(str_cat("has ", c.output_names.size(), " outputs, at most ", output_groups * n, " exist"));
  c.results.resize(c.output_names.size());
  return c.ok() ? n : 0;
}

struct Math {
  OpContext& c;
  ValueId add(ValueId a, ValueId b) { return c.emit("Add", {}, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return c.emit("Sub", {}, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return c.emit("Mul", {}, {a, b}); }
  ValueId div(ValueId a, ValueId b) { return c.emit("Div", {}, {a, b}); }
  ValueId sqrt(ValueId a) { return c.emit("Sqrt", {}, {a}); }
  ValueId number(ValueId like, double value) { return c.scalar(c.dtype(like), value); }
  ValueId scaled(ValueId a, double factor) { return mul(a, number(a, factor)); }
  ValueId first_step() { return c.emit("Equal", {}, {c.input(1), c.scalar(c.dtype(c.input(1)), 0)}); }
  ValueId regularised(ValueId x, ValueId gradient, double coefficient) {
    return coefficient == 0 ? gradient : add(scaled(x, coefficient), gradient);
  }
};

}  // namespace

void adagrad(OpContext& c) {
  const double decay = c.take_float("decay_factor", 0);
  const double epsilon = c.take_float("epsilon", static_cast<double>(1e-6f));
  const double norm = c.take_float("norm_coefficient", 0);
  const size_t n = group_size(c, 3, 2);
  Math m{c};
  for (size_t i = 0; i < n; ++i) {
    const ValueId x = c.input(2 + i);
    const ValueId t = c.cast(c.input(1), c.dtype(x));
    const ValueId rate = m.div(c.cast(c.input(0), c.dtype(x)), m.add(m.number(x, 1), m.scaled(t, decay)));
    const ValueId g = m.regularised(x, c.input(2 + n + i), norm);
    const ValueId h = m.add(c.input(2 + 2 * n + i), m.mul(g, g));
    c.set_output(i, m.sub(x, m.div(m.mul(rate, g), m.add(m.sqrt(h), m.number(x, epsilon)))));
    c.set_output(n + i, h);
  }
}

void adam(OpContext& c) {
  const double alpha = c.take_float("alpha", static_cast<double>(0.9f));
  const double beta = c.take_float("beta", static_cast<double>(0.999f));
  const double epsilon = c.take_float("epsilon", static_cast<double>(1e-6f));
  const double norm = c.take_float("norm_coefficient", 0);
  const double norm_post = c.take_float("norm_coefficient_post", 0);
  const size_t n = group_size(c, 4, 3);
  Math m{c};
  for (size_t i = 0; i < n; ++i) {
    const ValueId x = c.input(2 + i);
    const ValueId g = m.regularised(x, c.input(2 + n + i), norm);
    const ValueId v = m.add(m.scaled(c.input(2 + 2 * n + i), alpha), m.scaled(g, 1 - alpha));
    const ValueId h = m.add(m.scaled(c.input(2 + 3 * n + i), beta), m.scaled(m.mul(g, g), 1 - beta));
    const ValueId rate = c.cast(c.input(0), c.dtype(x));
    const ValueId t = c.cast(c.input(1), c.dtype(x));
    // 1 - a^t in the tensors' own precision; without steps so far there is nothing to correct.
    const auto remaining = [&](double factor) {
      return m.sub(m.number(x, 1), c.emit("Pow", {}, {m.number(x, factor), t}));
    };
    const ValueId corrected = m.div(m.mul(rate, m.sqrt(remaining(beta))), remaining(alpha));
    const ValueId step = c.emit("Where", {}, {m.first_step(), rate, corrected});
    ValueId next = m.sub(x, m.div(m.mul(step, v), m.add(m.sqrt(h), m.number(x, epsilon))));
    if (norm_post != 0) next = m.scaled(next, 1 - norm_post);
    c.set_output(i, next);
    c.set_output(n + i, v);
    c.set_output(2 * n + i, h);
  }
}

void momentum(OpContext& c) {
  for (const auto* name : {"alpha", "beta", "mode", "norm_coefficient"}) c.require_attribute(name);
  const double alpha = c.take_float("alpha", 0);
  const double beta = c.take_float("beta", 0);
  const double norm = c.take_float("norm_coefficient", 0);
  const std::string mode = c.take_string("mode", "");
  if (c.ok() && mode != "standard" && mode != "nesterov")
    return c.fail_invalid(str_cat("mode is '", mode, "', expected one of: standard, nesterov"));
  const size_t n = group_size(c, 3, 2);
  Math m{c};
  for (size_t i = 0; i < n; ++i) {
    const ValueId x = c.input(2 + i);
    const ValueId rate = c.cast(c.input(0), c.dtype(x));
    const ValueId g = m.regularised(x, c.input(2 + n + i), norm);
    const ValueId weight = c.emit("Where", {}, {m.first_step(), m.number(x, 1), m.number(x, beta)});
    const ValueId v = m.add(m.scaled(c.input(2 + 2 * n + i), alpha), m.mul(weight, g));
    const ValueId direction = mode == "standard" ? v : m.add(g, m.scaled(v, alpha));
    c.set_output(i, m.sub(x, m.mul(rate, direction)));
    c.set_output(n + i, v);
  }
}

}  // namespace aipu::frontend
