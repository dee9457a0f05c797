// LSTM, GRU and RNN against a reference in double precision written from the operators' definition: directions,
// layouts, sequence lengths, peepholes, both forms of GRU, odd sizes, on every target this machine can run, with one
// thread and two.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;
using models::TensorData;

struct Case {
  std::string op;
  std::string direction;
  int64_t steps, batches, inputs, hidden;
  bool batch_first, bias, lengths, states, peepholes, reset_after;

  int64_t gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
  int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
};

std::string text(const Case& c) {
  return c.op + " " + c.direction + " steps " + std::to_string(c.steps) + " batches " + std::to_string(c.batches) +
         " inputs " + std::to_string(c.inputs) + " hidden " + std::to_string(c.hidden);
}

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

struct Operands {
  Tensor x, w, r, bias, h, c, peephole;
  std::vector<int32_t> lengths;
};

struct Results {
  Tensor y, y_h, y_c;
};

class Reference {
 public:
  Reference(const Case& c, const Operands& o) : case_(c), o_(o) {}

  Results run() {
    const int64_t d = case_.directions();
    Results results;
    results.y.shape = case_.batch_first ? std::vector<int64_t>{case_.batches, case_.steps, d, case_.hidden}
                                        : std::vector<int64_t>{case_.steps, d, case_.batches, case_.hidden};
    results.y.data.assign(static_cast<size_t>(case_.steps * d * case_.batches * case_.hidden), 0);
    results.y_h.shape = results.y_c.shape = case_.batch_first ? std::vector<int64_t>{case_.batches, d, case_.hidden}
                                                              : std::vector<int64_t>{d, case_.batches, case_.hidden};
    results.y_h.data.assign(static_cast<size_t>(d * case_.batches * case_.hidden), 0);
    results.y_c.data = results.y_h.data;
    for (int64_t direction = 0; direction < d; ++direction) {
      for (int64_t b = 0; b < case_.batches; ++b) run_sequence(direction, b, &results);
    }
    return results;
  }

 private:
  size_t state_index(int64_t direction, int64_t b, int64_t j) const {
    const int64_t row = case_.batch_first ? b * case_.directions() + direction : direction * case_.batches + b;
    return static_cast<size_t>(row * case_.hidden + j);
  }

  // Row `gate` of W x + R h with both biases apart.
  double product(const Tensor& weights, int64_t direction, int64_t gate, int64_t j,
                 const std::vector<double>& v) const {
    const auto depth = static_cast<int64_t>(v.size());
    const int64_t row = (direction * case_.gates() + gate) * case_.hidden + j;
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += static_cast<double>(weights.data[static_cast<size_t>(row * depth + k)]) * v[static_cast<size_t>(k)];
    return sum;
  }
  double bias(int64_t direction, int64_t half, int64_t gate, int64_t j) const {
    if (!case_.bias) return 0;
    return o_.bias.data[static_cast<size_t>(((direction * 2 + half) * case_.gates() + gate) * case_.hidden + j)];
  }
  double peephole(int64_t direction, int64_t gate, int64_t j) const {
    return case_.peepholes ? o_.peephole.data[static_cast<size_t>((direction * 3 + gate) * case_.hidden + j)] : 0;
  }

  void run_sequence(int64_t direction, int64_t b, Results* results) {
    const int64_t hidden = case_.hidden;
    std::vector<double> h(static_cast<size_t>(hidden)), c(static_cast<size_t>(hidden));
    if (case_.states) {
      for (int64_t j = 0; j < hidden; ++j) {
        h[static_cast<size_t>(j)] = o_.h.data[state_index(direction, b, j)];
        if (case_.op == "LSTM") c[static_cast<size_t>(j)] = o_.c.data[state_index(direction, b, j)];
      }
    }
    const int64_t length = case_.lengths ? o_.lengths[static_cast<size_t>(b)] : case_.steps;
    const bool reverse = case_.direction == "reverse" || direction == 1;
    for (int64_t s = 0; s < length; ++s) {
      const int64_t t = reverse ? length - 1 - s : s;
      std::vector<double> x(static_cast<size_t>(case_.inputs));
      const int64_t row = case_.batch_first ? b * case_.steps + t : t * case_.batches + b;
      for (int64_t k = 0; k < case_.inputs; ++k)
        x[static_cast<size_t>(k)] = o_.x.data[static_cast<size_t>(row * case_.inputs + k)];
      step(direction, x, &h, &c);
      for (int64_t j = 0; j < hidden; ++j) {
        const int64_t at = case_.batch_first ? (b * case_.steps + t) * case_.directions() + direction
                                             : (t * case_.directions() + direction) * case_.batches + b;
        results->y.data[static_cast<size_t>(at * hidden + j)] = static_cast<float>(h[static_cast<size_t>(j)]);
      }
    }
    for (int64_t j = 0; j < hidden; ++j) {
      results->y_h.data[state_index(direction, b, j)] = static_cast<float>(h[static_cast<size_t>(j)]);
      results->y_c.data[state_index(direction, b, j)] = static_cast<float>(c[static_cast<size_t>(j)]);
    }
  }

  void step(int64_t direction, const std::vector<double>& x, std::vector<double>* h, std::vector<double>* c) const {
    const auto hidden = static_cast<size_t>(case_.hidden);
    const auto both = [&](int64_t gate, int64_t j) {
      return product(o_.w, direction, gate, j, x) + bias(direction, 0, gate, j) +
             product(o_.r, direction, gate, j, *h) + bias(direction, 1, gate, j);
    };
    std::vector<double> next(hidden), reset(hidden), update(hidden);
    for (int64_t j = 0; j < case_.hidden; ++j) {
      const auto at = static_cast<size_t>(j);
      if (case_.op == "RNN") {
        next[at] = std::tanh(both(0, j));
      } else if (case_.op == "LSTM") {
        const double old = (*c)[at];
        const double cell = sigmoid(both(2, j) + peephole(direction, 2, j) * old) * old +
                            sigmoid(both(0, j) + peephole(direction, 0, j) * old) * std::tanh(both(3, j));
        (*c)[at] = cell;
        next[at] = sigmoid(both(1, j) + peephole(direction, 1, j) * cell) * std::tanh(cell);
      } else {
        update[at] = sigmoid(both(0, j));
        reset[at] = sigmoid(both(1, j));
      }
    }
    if (case_.op == "GRU") {
      std::vector<double> scaled(hidden);
      for (size_t j = 0; j < hidden; ++j) scaled[j] = reset[j] * (*h)[j];
      for (int64_t j = 0; j < case_.hidden; ++j) {
        const auto at = static_cast<size_t>(j);
        const double from_x = product(o_.w, direction, 2, j, x) + bias(direction, 0, 2, j);
        const double from_h = case_.reset_after
                                  ? reset[at] * (product(o_.r, direction, 2, j, *h) + bias(direction, 1, 2, j))
                                  : product(o_.r, direction, 2, j, scaled) + bias(direction, 1, 2, j);
        next[at] = (1 - update[at]) * std::tanh(from_x + from_h) + update[at] * (*h)[at];
      }
    }
    *h = next;
  }

  const Case& case_;
  const Operands& o_;
};

void check(const Case& c, unsigned seed) {
  SCOPED_TRACE(text(c));
  std::mt19937 random(seed);
  const int64_t d = c.directions();
  Operands o;
  o.x = random_tensor(random, c.batch_first ? std::vector<int64_t>{c.batches, c.steps, c.inputs}
                                            : std::vector<int64_t>{c.steps, c.batches, c.inputs});
  o.w = random_tensor(random, {d, c.gates() * c.hidden, c.inputs}, -0.4f, 0.4f);
  o.r = random_tensor(random, {d, c.gates() * c.hidden, c.hidden}, -0.3f, 0.3f);
  o.bias = random_tensor(random, {d, 2 * c.gates() * c.hidden}, -0.5f, 0.5f);
  const auto state =
      c.batch_first ? std::vector<int64_t>{c.batches, d, c.hidden} : std::vector<int64_t>{d, c.batches, c.hidden};
  o.h = random_tensor(random, state);
  o.c = random_tensor(random, state);
  o.peephole = random_tensor(random, {d, 3 * c.hidden}, -0.3f, 0.3f);
  for (int64_t b = 0; b < c.batches; ++b)
    o.lengths.push_back(static_cast<int32_t>(std::max<int64_t>(0, c.steps - 2 * b)));

  OnnxBuilder b("recurrent", seed);
  const auto constant = [&](const Tensor& tensor) { return b.initializer(TensorData::f32(tensor.shape, tensor.data)); };
  b.input("x", DType::kF32, {o.x.shape[0], o.x.shape[1], c.inputs});
  std::vector<std::string> inputs{"x", constant(o.w), constant(o.r), c.bias ? constant(o.bias) : ""};
  inputs.push_back(c.lengths ? b.initializer(TensorData::of(DType::kI32, {c.batches}, o.lengths)) : "");
  inputs.push_back(c.states ? constant(o.h) : "");
  if (c.op == "LSTM") {
    inputs.push_back(c.states ? constant(o.c) : "");
    inputs.push_back(c.peepholes ? constant(o.peephole) : "");
  }
  while (inputs.back().empty()) inputs.pop_back();
  models::NamedAttributes attributes{
      {"hidden_size", c.hidden}, {"direction", c.direction.c_str()}, {"layout", c.batch_first ? 1 : 0}};
  if (c.op == "GRU") attributes.emplace_back("linear_before_reset", c.reset_after ? 1 : 0);
  std::vector<std::string> outputs{"y", "y_h"};
  if (c.op == "LSTM") outputs.emplace_back("y_c");
  b.node_to(c.op, inputs, outputs, attributes);
  for (const std::string& name : outputs) b.output(name);
  const std::string path = temporary_path("recurrent.onnx");
  ASSERT_TRUE(b.save(path).ok());

  const Results expected = Reference(c, o).run();
  for (const std::string& target : runnable_targets()) {
    const auto two = run_road(path, {{"x", o.x}}, {.target = target, .threads = 2});
    ASSERT_TRUE(two.ok()) << target << ": " << two.status().message();
    expect_close(two->at("y"), expected.y, 1e-5, 1e-5, target + ", y");
    expect_close(two->at("y_h"), expected.y_h, 1e-5, 1e-5, target + ", y_h");
    if (c.op == "LSTM") expect_close(two->at("y_c"), expected.y_c, 1e-5, 1e-5, target + ", y_c");
    const auto one = run_road(path, {{"x", o.x}}, {.target = target, .threads = 1});
    ASSERT_TRUE(one.ok()) << target << ": " << one.status().message();
    for (const auto& [name, tensor] : *two) expect_close(one->at(name), tensor, 0, 0, target + ", one thread, " + name);
  }
}

TEST(Recurrent, LstmInAllForms) {
  check({"LSTM", "forward", 5, 1, 7, 24, false, true, false, false, false, false}, 1);
  check({"LSTM", "bidirectional", 6, 3, 9, 20, false, true, true, true, true, false}, 2);
  check({"LSTM", "reverse", 4, 8, 16, 16, true, false, true, true, false, false}, 3);
}

TEST(Recurrent, GruBeforeAndAfterReset) {
  check({"GRU", "forward", 5, 2, 10, 33, false, true, false, true, false, false}, 4);
  check({"GRU", "bidirectional", 5, 7, 8, 17, true, true, true, true, false, true}, 5);
  check({"GRU", "reverse", 7, 3, 5, 40, false, true, true, false, false, false}, 6);
}

TEST(Recurrent, PlainAndEmpty) {
  check({"RNN", "bidirectional", 4, 13, 6, 18, false, true, true, true, false, false}, 7);
  check({"RNN", "forward", 3, 1, 3, 2, true, false, false, false, false, false}, 8);
}

// Large enough to be shared out to several TECs, which then exchange the state.
TEST(Recurrent, SharedOutToThreads) {
  check({"LSTM", "forward", 6, 3, 20, 256, false, true, false, true, false, false}, 9);
  check({"GRU", "forward", 5, 4, 20, 272, false, true, false, true, false, false}, 10);
}

}  // namespace
}  // namespace aipu::test
