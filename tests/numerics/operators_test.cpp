// Operators that are programs of others (Einsum, DFT, Attention, If, ...) and those whose result's order or extent the
// data decides (NonZero, NonMaxSuppression, Unique), against their definitions, on every target that this machine can
// run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>

#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::OnnxBuilder;
using models::TensorData;
using Ints = std::vector<int64_t>;
using Inputs = std::map<std::string, Tensor>;

int64_t count_of(const Ints& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Extents extents_of(const Ints& shape) { return {shape.begin(), shape.end()}; }

// The model's output "y", given as float32, must be `expected` everywhere.
void check(OnnxBuilder& b, const std::string& y, const std::string& name, const Inputs& inputs, const Tensor& expected,
           double tolerance) {
  b.output(b.op("Cast", {y}, {{"to", 1}}), "y", DType::kF32, Extents(expected.shape.size(), Extents::value_type("")));
  const std::string path = temporary_path(name + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  for (const std::string& target : runnable_targets()) {
    const auto actual = run_road(path, inputs, {.target = target});
    ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
    EXPECT_EQ(actual->at("y").shape, expected.shape) << name << " on " << target;
    if (actual->at("y").shape != expected.shape) return;
    expect_close(actual->at("y"), expected, tolerance, tolerance, name + " on " + target);
  }
}

// ---- Einsum: the sum over all letters, straight from the equation

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  std::vector<std::string> terms(1);
  std::string output;
  const size_t arrow = equation.find("->");
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  output = equation.substr(arrow + 2);
  std::map<char, int64_t> extents;
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t k = 0; k < terms[i].size(); ++k)
      extents[terms[i][k]] = std::max(extents[terms[i][k]], operands[i].shape[k]);
  }
  Tensor y;
  for (const char c : output) y.shape.push_back(extents[c]);
  std::vector<double> sums(static_cast<size_t>(count_of(y.shape)), 0);
  std::map<char, int64_t> position;
  for (const auto& [letter, extent] : extents) position[letter] = 0;
  while (true) {
    const auto offset = [&](const std::string& term, const Ints& shape) {
      int64_t at = 0;
      for (size_t k = 0; k < term.size(); ++k) at = at * shape[k] + (shape[k] == 1 ? 0 : position[term[k]]);
      return static_cast<size_t>(at);
    };
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i) product *= operands[i].data[offset(terms[i], operands[i].shape)];
    sums[offset(output, y.shape)] += product;
    auto it = extents.begin();
    while (it != extents.end() && ++position[it->first] == it->second) position[(it++)->first] = 0;
    if (it == extents.end()) break;
  }
  y.data.assign(sums.begin(), sums.end());
  return y;
}

TEST(Operators, Einsum) {
  struct Case {
    const char* equation;
    std::vector<Ints> shapes;
  };
  const Case cases[] = {{"ij,jk->ik", {{5, 7}, {7, 9}}},
                        {"bqhd,bkhd->bhqk", {{2, 5, 3, 8}, {2, 7, 3, 8}}},
                        {"bhqk,bkhd->bqhd", {{2, 3, 5, 7}, {2, 7, 3, 4}}},
                        {"iij,k->ki", {{4, 4, 3}, {5}}},
                        {"ijkj->ki", {{3, 4, 5, 4}}},
                        {"abc,bcd,de->ae", {{3, 4, 5}, {4, 5, 6}, {6, 2}}},
                        {"abc,abd->abcd", {{2, 3, 4}, {2, 3, 5}}},
                        {"abc,bcd->abd", {{4, 1, 3}, {5, 3, 6}}},
                        {"ab,cd->", {{3, 4}, {2, 5}}},
                        {"abij,cij->bca", {{2, 3, 4, 5}, {6, 4, 5}}}};
  int serial = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.equation);
    std::mt19937 random(static_cast<unsigned>(++serial));
    OnnxBuilder b("einsum", 1);
    Inputs inputs;
    std::vector<std::string> names;
    std::vector<Tensor> operands;
    for (const Ints& shape : c.shapes) {
      names.push_back("x" + std::to_string(names.size()));
      operands.push_back(random_tensor(random, shape));
      inputs[names.back()] = operands.back();
      b.input(names.back(), DType::kF32, extents_of(shape));
    }
    check(b, b.op("Einsum", names, {{"equation", c.equation}}), "einsum" + std::to_string(serial), inputs,
          einsum(c.equation, operands), 1e-4);
    if (HasFatalFailure()) return;
  }
}

// ---- transforms

std::vector<std::complex<double>> dft(const std::vector<std::complex<double>>& x, double sign) {
  std::vector<std::complex<double>> y(x.size());
  for (size_t k = 0; k < x.size(); ++k) {
    for (size_t j = 0; j < x.size(); ++j) {
      y[k] += x[j] * std::polar(1.0, sign * 2 * 3.14159265358979323846 * static_cast<double>(j * k % x.size()) /
                                         static_cast<double>(x.size()));
    }
  }
  return y;
}

// Real and complex signals, cut and filled up, along an axis in the middle; and back again.
TEST(Operators, FourierTransform) {
  for (const int64_t parts : {1, 2}) {
    for (const int64_t length : {9, 12, 16}) {
      SCOPED_TRACE(std::to_string(parts) + " " + std::to_string(length));
      std::mt19937 random(static_cast<unsigned>(length + parts));
      const Ints shape = {3, 12, 2, parts};
      Inputs inputs = {{"x", random_tensor(random, shape)}};
      OnnxBuilder b("dft", 1);
      b.set_opset(20);
      const std::string x = b.input("x", DType::kF32, {"N", 12, 2, parts});
      const std::string y =
          b.op("DFT", {x, b.initializer(TensorData::i64({}, {length})), b.initializer(TensorData::i64({}, {1}))});
      Tensor expected{{3, length, 2, 2}, std::vector<float>(static_cast<size_t>(3 * length * 4))};
      for (int64_t row = 0; row < 6; ++row) {
        std::vector<std::complex<double>> signal(static_cast<size_t>(length));
        for (int64_t j = 0; j < std::min<int64_t>(length, 12); ++j) {
          const auto at = static_cast<size_t>(((row / 2 * 12 + j) * 2 + row % 2) * parts);
          signal[static_cast<size_t>(j)] = {inputs["x"].data[at], parts == 2 ? inputs["x"].data[at + 1] : 0};
        }
        const auto bins = dft(signal, -1);
        for (int64_t k = 0; k < length; ++k) {
          const auto at = static_cast<size_t>(((row / 2 * length + k) * 2 + row % 2) * 2);
          expected.data[at] = static_cast<float>(bins[static_cast<size_t>(k)].real());
          expected.data[at + 1] = static_cast<float>(bins[static_cast<size_t>(k)].imag());
        }
      }
      check(b, y, "dft", inputs, expected, 2e-5);
      if (HasFatalFailure()) return;
    }
  }
  for (const int64_t length : {10, 16}) {
    // One-sided there and back is the signal itself.
    OnnxBuilder b("dft_round", 1);
    b.set_opset(20);
    std::mt19937 random(5);
    Inputs inputs = {{"x", random_tensor(random, {2, length, 1})}};
    const std::string there = b.op("DFT", {b.input("x", DType::kF32, {"N", length, 1})}, {{"onesided", 1}});
    check(b, b.op("DFT", {there}, {{"onesided", 1}, {"inverse", 1}}), "dft_round", inputs, inputs["x"], 1e-5);
  }
}

TEST(Operators, ShortTimeFourierTransform) {
  std::mt19937 random(2);
  const int64_t length = 16, step = 6, samples = 77, frames = (samples - length) / step + 1, bins = length / 2 + 1;
  Inputs inputs = {{"x", random_tensor(random, {2, samples})}};
  const Tensor window = random_tensor(random, {length});
  Tensor expected{{2, frames, bins, 2}, {}};
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t f = 0; f < frames; ++f) {
      std::vector<std::complex<double>> signal;
      for (int64_t j = 0; j < length; ++j) {
        signal.emplace_back(static_cast<double>(inputs["x"].data[static_cast<size_t>(row * samples + f * step + j)]) *
                            window.data[static_cast<size_t>(j)]);
      }
      const auto all = dft(signal, -1);
      for (int64_t k = 0; k < bins; ++k) {
        expected.data.push_back(static_cast<float>(all[static_cast<size_t>(k)].real()));
        expected.data.push_back(static_cast<float>(all[static_cast<size_t>(k)].imag()));
      }
    }
  }
  for (const bool constant_window : {true, false}) {
    OnnxBuilder b("stft", 1);
    // the length of the signal is not known when converting
    const std::string x = b.input("x", DType::kF32, {"N", "T"});
    std::string w;
    Inputs given = inputs;
    if (constant_window) {
      w = b.initializer(TensorData::f32({length}, window.data));
    } else {
      w = b.input("w", DType::kF32, {length});
      given["w"] = window;
    }
    const std::string y =
        b.op("STFT", {x, b.initializer(TensorData::i64({}, {step})), w, b.initializer(TensorData::i64({}, {length}))});
    check(b, y, "stft", given, expected, 2e-5);
  }
}

// ---- Attention: heads that share keys, a cache, a causal mask

TEST(Operators, Attention) {
  const int64_t batch = 2, heads = 4, shared = 2, queries = 3, past = 5, size = 8, keys = past + queries;
  std::mt19937 random(6);
  Inputs inputs = {{"q", random_tensor(random, {batch, queries, heads * size})},
                   {"k", random_tensor(random, {batch, queries, shared * size})},
                   {"v", random_tensor(random, {batch, queries, shared * size})},
                   {"past_k", random_tensor(random, {batch, shared, past, size})},
                   {"past_v", random_tensor(random, {batch, shared, past, size})}};
  OnnxBuilder b("attention", 1);
  b.set_opset(23);
  std::vector<std::string> operands;
  for (const char* name : {"q", "k", "v"})
    operands.push_back(b.input(name, DType::kF32, {batch, "S", inputs[name].shape[2]}));
  operands.push_back("");
  for (const char* name : {"past_k", "past_v"})
    operands.push_back(b.input(name, DType::kF32, {batch, shared, "P", size}));
  const auto outputs =
      b.node("Attention", operands, {{"q_num_heads", heads}, {"kv_num_heads", shared}, {"is_causal", 1}}, 3);
  Tensor expected{{batch, queries, heads * size},
                  std::vector<float>(static_cast<size_t>(batch * queries * heads * size))};
  const auto cached = [&](const char* now, const char* before, int64_t n, int64_t head, int64_t at, int64_t d) {
    if (at < past)
      return static_cast<double>(
          inputs[before].data[static_cast<size_t>(((n * shared + head) * past + at) * size + d)]);
    return static_cast<double>(
        inputs[now].data[static_cast<size_t>(((n * queries + at - past) * shared + head) * size + d)]);
  };
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t head = h / (heads / shared);
        std::vector<double> weights;
        double total = 0;
        for (int64_t j = 0; j <= past + i; ++j) {
          double score = 0;
          for (int64_t d = 0; d < size; ++d) {
            score += inputs["q"].data[static_cast<size_t>(((n * queries + i) * heads + h) * size + d)] *
                     cached("k", "past_k", n, head, j, d);
          }
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          total += weights.back();
        }
        for (int64_t d = 0; d < size; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < static_cast<int64_t>(weights.size()); ++j) {
            sum += weights[static_cast<size_t>(j)] / total * cached("v", "past_v", n, head, j, d);
          }
          expected.data[static_cast<size_t>(((n * queries + i) * heads + h) * size + d)] = static_cast<float>(sum);
        }
      }
    }
  }
  ASSERT_EQ(keys, past + queries);
  check(b, outputs[0], "attention", inputs, expected, 2e-5);
}

// ---- what data decides

TEST(Operators, NonZero) {
  std::mt19937 random(7);
  Tensor x = random_tensor(random, {3, 4, 5});
  for (float& value : x.data) value = value < 0.3F ? 0 : value;
  Tensor expected{{3, 0}, {}};
  for (int axis = 0; axis < 3; ++axis) {
    for (size_t i = 0; i < x.data.size(); ++i) {
      const size_t position[] = {i / 20, i / 5 % 4, i % 5};
      if (x.data[i] != 0) expected.data.push_back(static_cast<float>(position[axis]));
    }
  }
  expected.shape[1] = static_cast<int64_t>(expected.data.size()) / 3;
  OnnxBuilder b("non_zero", 1);
  check(b, b.op("NonZero", {b.input("x", DType::kF32, {3, "M", 5})}), "non_zero", {{"x", x}}, expected, 0);
}

TEST(Operators, Unique) {
  std::mt19937 random(8);
  Tensor x = random_tensor(random, {41}, 0, 9);
  for (float& value : x.data) value = std::floor(value);
  for (const int sorted : {0, 1}) {
    std::vector<float> values;
    for (const float value : x.data) {
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    if (sorted != 0) std::sort(values.begin(), values.end());
    // All four outputs in a row.
    std::vector<float> row = values;
    for (const float value : values)
      row.push_back(static_cast<float>(std::find(x.data.begin(), x.data.end(), value) - x.data.begin()));
    for (const float value : x.data)
      row.push_back(static_cast<float>(std::find(values.begin(), values.end(), value) - values.begin()));
    for (const float value : values) row.push_back(static_cast<float>(std::count(x.data.begin(), x.data.end(), value)));
    OnnxBuilder b("unique", 1);
    auto outputs = b.node("Unique", {b.input("x", DType::kF32, {"N"})}, {{"sorted", sorted}}, 4);
    for (size_t k = 1; k < 4; ++k) outputs[k] = b.op("Cast", {outputs[k]}, {{"to", 1}});
    check(b, b.op("Concat", outputs, {{"axis", 0}}), "unique", {{"x", x}}, {{static_cast<int64_t>(row.size())}, row},
          0);
  }
}

// Greedily: the best box that is left, without those that overlap it. Some scores are equal: the first box wins.
void check_suppression(int64_t limit, double overlap) {
  const int64_t boxes = 60, classes = 3;
  std::mt19937 random(10);
  Tensor corners = random_tensor(random, {2, boxes, 4}, 0, 4);
  Tensor scores = random_tensor(random, {2, classes, boxes}, 0, 1);
  for (float& score : scores.data) score = std::floor(score * 20) / 20;
  const double least = 0.25;
  Tensor expected{{0, 3}, {}};
  for (int64_t n = 0; n < 2; ++n) {
    const auto bound = [&](int64_t box, int axis, bool end) {
      const float* c = &corners.data[static_cast<size_t>((n * boxes + box) * 4)];
      return end ? std::max(c[axis], c[axis + 2]) : std::min(c[axis], c[axis + 2]);
    };
    const auto area = [&](int64_t box) {
      return (bound(box, 0, true) - bound(box, 0, false)) * (bound(box, 1, true) - bound(box, 1, false));
    };
    for (int64_t c = 0; c < classes; ++c) {
      const float* score = &scores.data[static_cast<size_t>((n * classes + c) * boxes)];
      Ints order(static_cast<size_t>(boxes)), kept;
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t z) { return score[a] > score[z]; });
      for (const int64_t box : order) {
        if (score[box] <= static_cast<float>(least) || static_cast<int64_t>(kept.size()) == limit) continue;
        const bool free = std::none_of(kept.begin(), kept.end(), [&](int64_t other) {
          float common = 1;
          for (const int axis : {0, 1}) {
            common *= std::max(0.0F, std::min(bound(box, axis, true), bound(other, axis, true)) -
                                         std::max(bound(box, axis, false), bound(other, axis, false)));
          }
          return common / (area(box) + area(other) - common) > static_cast<float>(overlap);
        });
        if (!free) continue;
        kept.push_back(box);
        for (const int64_t value : {n, c, box}) expected.data.push_back(static_cast<float>(value));
      }
    }
  }
  expected.shape[0] = static_cast<int64_t>(expected.data.size()) / 3;
  ASSERT_GT(expected.shape[0], 10);
  OnnxBuilder b("suppression", 1);
  const std::string y =
      b.op("NonMaxSuppression",
           {b.input("boxes", DType::kF32, {2, "B", 4}), b.input("scores", DType::kF32, {2, classes, "B"}),
            b.ints({limit}), b.scalar(static_cast<float>(overlap)), b.scalar(static_cast<float>(least))});
  check(b, y, "suppression", {{"boxes", corners}, {"scores", scores}}, expected, 0);
}

// The second: more boxes are kept than a vector has lanes.
TEST(Operators, NonMaxSuppression) {
  check_suppression(7, 0.3);
  check_suppression(40, 0.7);
}

TEST(Operators, Determinant) {
  std::mt19937 random(11);
  Inputs inputs = {{"x", random_tensor(random, {3, 5, 5})}};
  inputs["x"].data[0] = 0;                                                        // needs a pivot
  for (int k = 0; k < 5; ++k) inputs["x"].data[static_cast<size_t>(25 + k)] = 0;  // singular
  Tensor expected{{3}, {}};
  for (size_t m = 0; m < 3; ++m) {
    double total = 0;
    std::vector<size_t> perm = {0, 1, 2, 3, 4};
    do {
      double product = 1;
      for (size_t i = 0; i < 5; ++i) {
        product *= inputs["x"].data[m * 25 + i * 5 + perm[i]];
        for (size_t j = i + 1; j < 5; ++j) product *= perm[j] < perm[i] ? -1 : 1;
      }
      total += product;
    } while (std::next_permutation(perm.begin(), perm.end()));
    expected.data.push_back(static_cast<float>(total));
  }
  OnnxBuilder b("det", 1);
  check(b, b.op("Det", {b.input("x", DType::kF32, {"N", 5, 5})}), "det", inputs, expected, 1e-5);
}

// Rows within and beyond what is computed in float32, and rows of both; Snake, x + sin(a x)^2 / a, in one kernel.
TEST(Operators, SinAndCosOfSmallAndLargeArguments) {
  std::mt19937 random(12);
  Inputs inputs = {{"x", random_tensor(random, {6, 101})}};
  Tensor& x = inputs["x"];
  const float scales[] = {1, 100, 131072, 1e9f, 3e38f, 20};
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] *= i % 37 == 36 ? 1e20f : scales[i / 101];
  x.data[3] = 0;
  x.data[4] = -0.0f;
  Tensor sine = x, cosine = x, snake = x;
  for (size_t i = 0; i < x.data.size(); ++i) {
    const double v = x.data[i], s = std::sin(static_cast<double>(1.5f * x.data[i]));
    sine.data[i] = static_cast<float>(std::sin(v));
    cosine.data[i] = static_cast<float>(std::cos(v));
    snake.data[i] = static_cast<float>(v + s * s / 1.5);
  }
  OnnxBuilder b("circular", 1);
  const std::string in = b.input("x", DType::kF32, {"N", 101});
  const std::string alpha = b.initializer(TensorData::f32({1, 1}, {1.5f}), "alpha");
  const std::string wave = b.op("Sin", {b.op("Mul", {alpha, in})});
  const std::string squared = b.op("Mul", {b.op("Reciprocal", {alpha}), b.op("Mul", {wave, wave})});
  b.output(b.op("Sin", {in}), "sine", DType::kF32, {"N", 101});
  b.output(b.op("Cos", {in}), "cosine", DType::kF32, {"N", 101});
  b.output(b.op("Add", {in, squared}), "snake", DType::kF32, {"N", 101});
  expect_everywhere(b, {"circular", inputs, {{"sine", sine}, {"cosine", cosine}, {"snake", snake}}, 2e-7},
                    runnable_targets());
}

// ---- compositions of the newest opsets

TEST(Operators, RotaryEmbedding) {
  const int64_t length = 5, heads = 3, size = 10, turned = 8;
  std::mt19937 random(13);
  for (const bool interleaved : {false, true}) {
    Inputs inputs = {{"x", random_tensor(random, {2, heads, length, size})},
                     {"cosine", random_tensor(random, {20, turned / 2})},
                     {"sine", random_tensor(random, {20, turned / 2})}};
    const Ints positions = {0, 3, 7, 19, 1, 2, 2, 4, 5, 6};
    Tensor expected = inputs["x"];
    for (int64_t row = 0; row < 2 * heads * length; ++row) {
      const int64_t position = positions[static_cast<size_t>(row / (heads * length) * length + row % length)];
      for (int64_t k = 0; k < turned / 2; ++k) {
        const auto first = static_cast<size_t>(row * size + (interleaved ? 2 * k : k));
        const auto second = static_cast<size_t>(row * size + (interleaved ? 2 * k + 1 : k + turned / 2));
        const float cosine = inputs["cosine"].data[static_cast<size_t>(position * turned / 2 + k)];
        const float sine = inputs["sine"].data[static_cast<size_t>(position * turned / 2 + k)];
        expected.data[first] = cosine * inputs["x"].data[first] - sine * inputs["x"].data[second];
        expected.data[second] = sine * inputs["x"].data[first] + cosine * inputs["x"].data[second];
      }
    }
    OnnxBuilder b("rotary", 1);
    b.set_opset(23);
    std::vector<std::string> operands;
    for (const auto& [name, shape] :
         {std::pair("x", Ints{2, heads, length, size}), std::pair("cosine", Ints{20, turned / 2}),
          std::pair("sine", Ints{20, turned / 2})}) {
      operands.push_back(b.input(name, DType::kF32, extents_of(shape)));
    }
    operands.push_back(b.initializer(TensorData::i64({2, length}, positions)));
    const std::string y =
        b.op("RotaryEmbedding", operands, {{"rotary_embedding_dim", turned}, {"interleaved", interleaved ? 1 : 0}});
    check(b, y, "rotary", inputs, expected, 1e-6);
  }
}

TEST(Operators, TensorScatter) {
  const int64_t room = 6, length = 3;
  std::mt19937 random(14);
  for (const bool circular : {false, true}) {
    Inputs inputs = {{"cache", random_tensor(random, {2, 2, room, 4})},
                     {"update", random_tensor(random, {2, 2, length, 4})}};
    const Ints starts = {1, circular ? 5 : 3};
    Tensor expected = inputs["cache"];
    for (int64_t n = 0; n < 4 * length * 4; ++n) {
      const int64_t at = (starts[static_cast<size_t>(n / (2 * length * 4))] + n / 4 % length) % room;
      expected.data[static_cast<size_t>((n / (length * 4) * room + at) * 4 + n % 4)] =
          inputs["update"].data[static_cast<size_t>(n)];
    }
    OnnxBuilder b("tensor_scatter", 1);
    b.set_opset(24);
    const std::string y = b.op("TensorScatter",
                               {b.input("cache", DType::kF32, {"N", 2, room, 4}),
                                b.input("update", DType::kF32, {"N", 2, "S", 4}), b.ints(starts)},
                               {{"mode", circular ? "circular" : "linear"}});
    check(b, y, "tensor_scatter", inputs, expected, 0);
  }
}

// Cut or filled up in the middle; the extents of the input are not known when converting.
TEST(Operators, CenterCropPad) {
  std::mt19937 random(15);
  const Ints shape = {7, 6};
  Inputs inputs = {{"x", random_tensor(random, shape)}};
  for (const Ints& wanted : {Ints{4, 9}, Ints{10, 3}, Ints{7, 1}}) {
    OnnxBuilder b("center", 1);
    b.set_opset(18);
    const std::string y = b.op("CenterCropPad", {b.input("x", DType::kF32, {"H", "W"}), b.ints(wanted)});
    Tensor expected{wanted, {}};
    for (int64_t row = 0; row < wanted[0]; ++row) {
      for (int64_t column = 0; column < wanted[1]; ++column) {
        // (in - out) / 2 is cut off in front, (out - in) / 2 added, both rounded down.
        const auto source = [&](int64_t at, size_t axis) {
          const int64_t more = wanted[axis] - shape[axis];
          return more >= 0 ? at - more / 2 : at + -more / 2;
        };
        const int64_t r = source(row, 0), c = source(column, 1);
        const bool inside = r >= 0 && r < shape[0] && c >= 0 && c < shape[1];
        expected.data.push_back(inside ? inputs["x"].data[static_cast<size_t>(r * shape[1] + c)] : 0);
      }
    }
    check(b, y, "center", inputs, expected, 0);
  }
}

TEST(Operators, AffineGrid) {
  std::mt19937 random(16);
  for (const bool align : {false, true}) {
    const int64_t height = 4, width = 3;
    Inputs inputs = {{"theta", random_tensor(random, {2, 2, 3})}};
    OnnxBuilder b("affine", 1);
    b.set_opset(20);
    const std::string y =
        b.op("AffineGrid", {b.input("theta", DType::kF32, {"N", 2, 3}), b.ints({2, 5, height, width})},
             {{"align_corners", align ? 1 : 0}});
    Tensor expected{{2, height, width, 2}, {}};
    const auto at = [&](int64_t k, int64_t extent) {
      return align ? 2.0 * static_cast<double>(k) / static_cast<double>(extent - 1) - 1
                   : (2.0 * static_cast<double>(k) + 1) / static_cast<double>(extent) - 1;
    };
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t pixel = 0; pixel < height * width; ++pixel) {
        for (int64_t k = 0; k < 2; ++k) {
          const float* row = &inputs["theta"].data[static_cast<size_t>((n * 2 + k) * 3)];
          expected.data.push_back(
              static_cast<float>(row[0] * at(pixel % width, width) + row[1] * at(pixel / width, height) + row[2]));
        }
      }
    }
    check(b, y, "affine", inputs, expected, 1e-6);
  }
}

// An axis that shrinks is filtered by a kernel that covers everything that falls into one output pixel.
TEST(Operators, ResizeWithAntialiasing) {
  std::mt19937 random(17);
  const int64_t from = 17, to = 5, channels = 3;
  for (const bool cubic : {false, true}) {
    Inputs inputs = {{"x", random_tensor(random, {1, channels, from, 4})}};
    OnnxBuilder b("antialias", 1);
    b.set_opset(18);
    const std::string y =
        b.op("Resize", {b.input("x", DType::kF32, {1, channels, from, 4}), "", "", b.ints({1, channels, to, 4})},
             {{"mode", cubic ? "cubic" : "linear"}, {"antialias", 1}});
    Tensor expected{{1, channels, to, 4}, {}};
    const double scale = static_cast<double>(to) / static_cast<double>(from);
    for (int64_t n = 0; n < channels * to * 4; ++n) {
      const double p = (static_cast<double>(n / 4 % to) + 0.5) / scale - 0.5;
      double sum = 0, total = 0;
      for (int64_t k = -20; k < from + 20; ++k) {
        const double d = std::abs((static_cast<double>(k) - p) * scale), a = -0.75;
        double weight = std::max(1 - d, 0.0);
        if (cubic)
          weight = d <= 1  ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                   : d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4)
                           : 0;
        total += weight;
        sum += weight *
               inputs["x"]
                   .data[static_cast<size_t>((n / (to * 4) * from + std::clamp<int64_t>(k, 0, from - 1)) * 4 + n % 4)];
      }
      expected.data.push_back(static_cast<float>(sum / total));
    }
    check(b, y, "antialias", inputs, expected, 1e-5);
  }
}

// Elements of one and two bytes that are only repeated go in words where rows are whole ones: of channels, however many.
TEST(Operators, ResizeOfBytes) {
  std::mt19937 random(18);
  for (const int64_t channels : {3, 70, 132}) {
    for (const int type : {2, 10}) {  // uint8, float16
      const int64_t height = 3, width = 5;
      Tensor x = random_tensor(random, {2, channels, height, width});
      for (float& element : x.data) element = std::floor(std::abs(element) * 100);
      OnnxBuilder b("repeat", 1);
      const std::string small =
          b.op("Cast", {b.input("x", DType::kF32, {"n", channels, height, width})}, {{"to", type}});
      const auto turned = [&](const std::string& value, std::vector<int64_t> perm) {
        return b.op("Transpose", {value}, {{"perm", std::move(perm)}});
      };
      // Channels last, so that these are what rows are made of.
      const std::string large =
          b.op("Resize", {turned(small, {0, 2, 3, 1}), "", b.initializer(TensorData::f32({4}, {1, 2, 3, 1}))},
               {{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}});
      const std::string y = b.op("Cast", {turned(large, {0, 3, 1, 2})}, {{"to", 1}});
      Tensor expected{{2, channels, 2 * height, 3 * width}, {}};
      for (int64_t plane = 0; plane < 2 * channels; ++plane) {
        for (int64_t pixel = 0; pixel < 6 * height * width; ++pixel) {
          const int64_t row = pixel / (3 * width) / 2, column = pixel % (3 * width) / 3;
          expected.data.push_back(x.data[static_cast<size_t>((plane * height + row) * width + column)]);
        }
      }
      check(b, y, "repeat", {{"x", x}}, expected, 0);
    }
  }
}

// ---- branches

// One converted model takes either branch as its input says, with extents of its own in each.
TEST(Operators, If) {
  std::mt19937 random(12);
  for (const bool yes : {true, false}) {
    OnnxBuilder then_branch("then"), else_branch("else");
    then_branch.output(then_branch.op("ReduceMax", {"x"}, {{"axes", Ints{1}}}), "t", DType::kF32, {"", ""});
    else_branch.output(else_branch.op("Concat", {"x", "x"}, {{"axis", 1}}), "e", DType::kF32, {"", ""});
    OnnxBuilder b("if", 1);
    b.input("x", DType::kF32, {"N", 4});
    const std::string condition = b.op("Greater", {b.input("c", DType::kF32, {}), b.scalar(0)});
    const std::string y = b.op("If", {condition}, {{"then_branch", &then_branch}, {"else_branch", &else_branch}});
    const Tensor x = random_tensor(random, {3, 4});
    Tensor expected{{3, yes ? 1 : 8}, {}};
    for (int64_t row = 0; row < 3; ++row) {
      const auto begin = x.data.begin() + row * 4;
      if (yes) expected.data.push_back(*std::max_element(begin, begin + 4));
      for (int copy = 0; !yes && copy < 2; ++copy) expected.data.insert(expected.data.end(), begin, begin + 4);
    }
    check(b, y, "if", {{"x", x}, {"c", {{}, {yes ? 1.0F : -1.0F}}}}, expected, 0);
  }
}

}  // namespace
}  // namespace aipu::test
