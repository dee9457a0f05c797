// Where NaN goes: as in NumPy, or as ONNX's text says where NumPy has no such operation. Every operator that chooses
// between values, against a plain reference, on all targets that this machine can run, compiled by gcc and clang, and
// interpreted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::NamedAttributes;
using models::OnnxBuilder;
using models::TensorData;
using Ints = std::vector<int64_t>;
using Named = std::map<std::string, Tensor>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

Extents extents_of(const Ints& shape) { return {shape.begin(), shape.end()}; }
Extents any(size_t rank) { return Extents(rank, Extents::value_type("")); }
size_t count_of(const Ints& shape) {
  return static_cast<size_t>(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
}

// NumPy's maximum and minimum.
double maximum(double a, double b) { return a != a || b != b ? kNaN : std::max(a, b); }
double minimum(double a, double b) { return a != a || b != b ? kNaN : std::min(a, b); }

// NumPy's order: NaN is behind every number.
bool sorts_before(double a, double b) { return a < b || (a == a && b != b); }

// Multiples of 1/4, which all element types hold; NaN of both signs at the given places.
Tensor numbers(Ints shape, unsigned seed, const std::vector<size_t>& nans) {
  Tensor tensor{std::move(shape), {}};
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> quarters(-24, 24);
  for (size_t i = 0; i < count_of(tensor.shape); ++i) tensor.data.push_back(static_cast<float>(quarters(random)) / 4);
  for (const size_t at : nans) tensor.data[at] = at % 2 == 0 ? kNaN : -kNaN;
  return tensor;
}

// The widest host target, and X2.
std::vector<std::string> two_targets() { return {runnable_targets().back(), "X2_1204"}; }

// ---- elementwise operators

struct Operator {
  std::string op;
  std::vector<std::string> inputs;
  NamedAttributes attributes;
  std::function<double(double x, double z)> value;
};

std::vector<Operator> elementwise_operators() {
  const auto clip = [](double x, double low, double high) { return minimum(maximum(x, low), high); };
  return {
      {"Relu", {"x"}, {}, [](double x, double) { return maximum(x, 0); }},
      {"Clip", {"x", "low", "high"}, {}, [=](double x, double) { return clip(x, -1, 2); }},
      {"Clip", {"x", "low"}, {}, [](double x, double) { return maximum(x, -1); }},
      {"Clip", {"x", "", "high"}, {}, [](double x, double) { return minimum(x, 2); }},
      {"Clip", {"x", "given_low", "given_high"}, {}, [=](double x, double) { return clip(x, -1, 2); }},
      {"Clip", {"x", "given_nan", "high"}, {}, [](double, double) { return kNaN; }},
      {"Max", {"x", "z"}, {}, [](double x, double z) { return maximum(x, z); }},
      {"Min", {"x", "z"}, {}, [](double x, double z) { return minimum(x, z); }},
      {"Max", {"x", "low"}, {}, [](double x, double) { return maximum(x, -1); }},
      {"Max", {"low", "x", "high"}, {}, [](double x, double) { return maximum(x, 2); }},
      {"Min", {"x", "low", "z"}, {}, [](double x, double z) { return minimum(minimum(x, -1), z); }},
      {"Max", {"x", "nan"}, {}, [](double, double) { return kNaN; }},
      {"Sign", {"x"}, {}, [](double x, double) { return x > 0   ? 1
                                                        : x < 0 ? -1
                                                                : x; }},
      {"Celu",
       {"x"},
       {{"alpha", 2.0}},
       [](double x, double) { return maximum(x, 0) + minimum(0, 2 * (std::exp(x / 2) - 1)); }},
      {"HardSigmoid", {"x"}, {}, [=](double x, double) { return clip(0.2 * x + 0.5, 0, 1); }},
      {"HardSwish", {"x"}, {}, [=](double x, double) { return x * clip(x / 6 + 0.5, 0, 1); }},
      {"LeakyRelu", {"x"}, {{"alpha", 0.25}}, [](double x, double) { return x < 0 ? x / 4 : x; }},
      {"PRelu", {"x", "z"}, {}, [](double x, double z) { return x < 0 ? x * z : x; }},
      {"Elu", {"x"}, {}, [](double x, double) { return x < 0 ? std::exp(x) - 1 : x; }},
      {"Selu",
       {"x"},
       {{"alpha", 2.0}, {"gamma", 3.0}},
       [](double x, double) { return x > 0 ? 3 * x : 3 * (2 * std::exp(x) - 2); }},
      {"Softplus", {"x"}, {}, [](double x, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
      {"Softsign", {"x"}, {}, [](double x, double) { return x / (1 + std::abs(x)); }},
      {"Mish", {"x"}, {}, [](double x, double) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"Sigmoid", {"x"}, {}, [](double x, double) { return 1 / (1 + std::exp(-x)); }},
      {"Tanh", {"x"}, {}, [](double x, double) { return std::tanh(x); }},
      {"Abs", {"x"}, {}, [](double x, double) { return std::abs(x); }},
      {"Round", {"x"}, {}, [](double x, double) { return std::nearbyint(x); }},
      {"Floor", {"x"}, {}, [](double x, double) { return std::floor(x); }},
      {"Mod", {"x", "high"}, {{"fmod", 1}}, [](double x, double) { return std::fmod(x, 2); }},
      // ONNX: "otherwise, y = 0".
      {"Shrink",
       {"x"},
       {{"lambd", 1.5}, {"bias", 0.5}},
       [](double x, double) { return x < -1.5  ? x + 0.5
                                     : x > 1.5 ? x - 0.5
                                               : 0; }},
      {"ThresholdedRelu", {"x"}, {{"alpha", 1.0}}, [](double x, double) { return x > 1 ? x : 0; }},
  };
}

// Rows with NaN in no lane, in the first and the last one, in the middle, in all lanes of a vector, everywhere.
constexpr int64_t kRow = 83;
Tensor rows_with_nans(unsigned seed, bool with_infinities) {
  std::vector<size_t> nans = {kRow, 3 * kRow - 1, 2 * kRow + 41};
  for (size_t k = 0; k < 32; ++k) nans.push_back(3 * kRow + 16 + k);
  for (size_t k = 0; k < kRow; ++k) nans.push_back(4 * kRow + k);
  Tensor x = numbers({5, kRow}, seed, nans);
  if (with_infinities) {
    x.data[5] = x.data[kRow + 7] = kInf;
    x.data[6] = x.data[kRow + 8] = -kInf;
  }
  return x;
}

// `constant`: x and z are in the model, so that everything is computed when it is converted.
void check_elementwise(DType dtype, double tolerance, bool constant, const std::vector<std::string>& targets) {
  OnnxBuilder b("elementwise", 1);
  b.set_opset(18);
  Named inputs = {{"x", rows_with_nans(1, false)}, {"z", rows_with_nans(2, false)}};
  std::reverse(inputs["z"].data.begin(), inputs["z"].data.begin() + 4 * kRow);
  // A cast of a constant is folded.
  const auto number = [&](const std::string& name, const Tensor& value) {
    b.node_to("Cast", {b.initializer(TensorData::f32(value.shape, value.data))}, {name},
              {{"to", static_cast<int>(dtype == DType::kF32   ? 1
                                       : dtype == DType::kF16 ? 10
                                       : dtype == DType::kF64 ? 11
                                                              : 16)}});
  };
  for (const char* name : {"x", "z"}) {
    if (constant) {
      number(name, inputs[name]);
    } else {
      b.input(name, dtype, extents_of(inputs[name].shape));
    }
  }
  const Tensor low{{}, {-1}}, high{{}, {2}}, nan{{}, {kNaN}};
  number("low", low);
  number("high", high);
  number("nan", nan);
  for (const auto& [name, value] : {std::pair("given_low", low), {"given_high", high}, {"given_nan", nan}}) {
    inputs[name] = value;
    b.input(name, dtype, {});
  }
  Check check{"nan_elementwise_" + std::string(dtype_name(dtype)) + (constant ? "_folded" : ""), inputs, {}, tolerance};
  for (const Operator& o : elementwise_operators()) {
    const std::string y = o.op + std::to_string(check.expected.size());
    b.output(b.op(o.op, o.inputs, o.attributes), y, dtype, any(2));
    Tensor expected{{5, kRow}, {}};
    for (size_t i = 0; i < 5 * kRow; ++i)
      expected.data.push_back(static_cast<float>(o.value(inputs["x"].data[i], inputs["z"].data[i])));
    check.expected[y] = std::move(expected);
  }
  expect_everywhere(b, check, targets);
}

TEST(NaN, Elementwise) { check_elementwise(DType::kF32, 1e-5, false, runnable_targets()); }
TEST(NaN, ElementwiseOfDouble) { check_elementwise(DType::kF64, 1e-6, false, two_targets()); }
TEST(NaN, ElementwiseOfHalf) { check_elementwise(DType::kF16, 2e-3, false, two_targets()); }
TEST(NaN, ElementwiseOfBfloat16) { check_elementwise(DType::kBF16, 2e-2, false, two_targets()); }
TEST(NaN, ConstantsAreFoldedAlike) { check_elementwise(DType::kF32, 1e-5, true, {"host"}); }

// ---- along an axis

// out[...] = f(the elements along the axis), as many as f returns.
Tensor along(const Tensor& x, size_t axis, const std::function<std::vector<double>(const std::vector<double>&)>& f) {
  const auto extent = static_cast<size_t>(x.shape[axis]);
  const size_t inner = count_of({x.shape.begin() + static_cast<ptrdiff_t>(axis) + 1, x.shape.end()});
  const size_t outer = x.data.size() / extent / inner;
  Tensor y{x.shape, {}};
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < inner; ++i) {
      std::vector<double> line;
      for (size_t k = 0; k < extent; ++k) line.push_back(x.data[(o * extent + k) * inner + i]);
      const std::vector<double> result = f(line);
      y.shape[axis] = static_cast<int64_t>(result.size());
      y.data.resize(outer * inner * result.size());
      for (size_t k = 0; k < result.size(); ++k)
        y.data[(o * result.size() + k) * inner + i] = static_cast<float>(result[k]);
    }
  }
  return y;
}

using Line = std::vector<double>;

// The positions in NumPy's order, equal ones by index.
std::vector<size_t> sorted(const Line& line, bool descending) {
  std::vector<size_t> order(line.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return descending ? sorts_before(line[b], line[a]) : sorts_before(line[a], line[b]);
  });
  return order;
}
// NumPy's argmax and argmin: the first NaN, if there is one.
size_t arg_extremum(const Line& line, bool largest) {
  for (size_t k = 0; k < line.size(); ++k) {
    if (line[k] != line[k]) return k;
  }
  return sorted(line, largest).front();
}
size_t last_arg_extremum(Line line, bool largest) {
  std::reverse(line.begin(), line.end());
  return line.size() - 1 - arg_extremum(line, largest);
}
Line exponentials(const Line& line) {
  double most = -kInf, sum = 0;
  for (const double v : line) most = std::max(most, v);
  Line result;
  for (const double v : line) result.push_back(std::exp(v - most));
  for (const double v : result) sum += v;
  for (double& v : result) v /= sum;
  return result;
}

// Adds an output and what it must be.
using Expect = std::function<void(const std::string& value, const std::string& name, DType type, Tensor expected)>;

// What searches along an axis, of the model's input x.
void expect_searches(OnnxBuilder& b, const Tensor& x, DType dtype, size_t axis, const Expect& expect) {
  const auto at = static_cast<int64_t>(axis);
  const auto name = [&](const std::string& op) { return op + std::to_string(axis); };
  for (const bool largest : {false, true}) {
    const std::string op = largest ? "ArgMax" : "ArgMin";
    expect(b.op(op, {"x"}, {{"axis", at}}), name(op), DType::kI64,
           along(x, axis, [=](const Line& line) { return Line{static_cast<double>(arg_extremum(line, largest))}; }));
    expect(
        b.op(op, {"x"}, {{"axis", at}, {"select_last_index", 1}}), name("Last" + op), DType::kI64,
        along(x, axis, [=](const Line& line) { return Line{static_cast<double>(last_arg_extremum(line, largest))}; }));
    for (const int64_t k : {int64_t{2}, x.shape[axis]}) {
      const auto outputs = b.node("TopK", {"x", b.ints({k})}, {{"axis", at}, {"largest", largest ? 1 : 0}}, 2);
      const std::string top = name("Top" + std::to_string(k) + (largest ? "Largest" : "Smallest"));
      const auto pick = [=](const Line& line, bool indices) {
        Line result;
        for (const size_t from : sorted(line, largest)) {
          if (static_cast<int64_t>(result.size()) < k)
            result.push_back(indices ? static_cast<double>(from) : line[from]);
        }
        return result;
      };
      expect(outputs[0], top, dtype, along(x, axis, [=](const Line& line) { return pick(line, false); }));
      expect(outputs[1], top + "Indices", DType::kI64,
             along(x, axis, [=](const Line& line) { return pick(line, true); }));
    }
  }
  expect(b.op("Hardmax", {"x"}, {{"axis", at}}), name("Hardmax"), dtype, along(x, axis, [](const Line& line) {
           Line result(line.size(), 0);
           result[arg_extremum(line, true)] = 1;
           return result;
         }));
}

void check_along_axes(DType dtype, double tolerance, const std::vector<std::string>& targets) {
  OnnxBuilder b("axes", 1);
  b.set_opset(18);
  const Tensor x = rows_with_nans(3, true);
  b.input("x", dtype, extents_of(x.shape));
  Check check{"nan_axes_" + std::string(dtype_name(dtype)), {{"x", x}}, {}, tolerance};
  const auto expect = [&](const std::string& value, const std::string& name, DType type, Tensor expected) {
    b.output(value, name, type, any(expected.shape.size()));
    check.expected[name] = std::move(expected);
  };
  for (const size_t axis : {0U, 1U}) {
    const auto at = static_cast<int64_t>(axis);
    const auto name = [&](const std::string& op) { return op + std::to_string(axis); };
    const auto reduction = [&](const std::string& op, double start, double (*step)(double, double)) {
      expect(b.op(op, {"x", b.ints({at})}), name(op), dtype, along(x, axis, [&](const Line& line) {
               return Line{std::accumulate(line.begin(), line.end(), start, step)};
             }));
    };
    reduction("ReduceMax", -kInf, maximum);
    reduction("ReduceMin", kInf, minimum);
    reduction("ReduceL1", 0, [](double sum, double v) { return sum + std::abs(v); });
    expect(b.op("ReduceLogSumExp", {"x", b.ints({at})}), name("ReduceLogSumExp"), dtype,
           along(x, axis, [](const Line& line) {
             double sum = 0;
             for (const double v : line) sum += std::exp(v);
             return Line{std::log(sum)};
           }));
    expect_searches(b, x, dtype, axis, expect);
    expect(b.op("Softmax", {"x"}, {{"axis", at}}), name("Softmax"), dtype, along(x, axis, exponentials));
    expect(b.op("LogSoftmax", {"x"}, {{"axis", at}}), name("LogSoftmax"), dtype, along(x, axis, [](const Line& line) {
             Line result = exponentials(line);
             for (double& v : result) v = std::log(v);
             return result;
           }));
  }
  expect_everywhere(b, check, targets);
}

TEST(NaN, AlongAxes) { check_along_axes(DType::kF32, 2e-5, runnable_targets()); }
TEST(NaN, AlongAxesOfDouble) { check_along_axes(DType::kF64, 1e-6, two_targets()); }
TEST(NaN, AlongAxesOfHalf) { check_along_axes(DType::kF16, 2e-2, two_targets()); }

// Rows of several vectors, most of which vectors pass over: numbers that occur again, NaN in any place, numbers in order.
TEST(NaN, AlongLongRows) {
  OnnxBuilder b("long_rows", 1);
  b.set_opset(18);
  constexpr int64_t kRows = 7, kExtent = 203;
  Tensor x{{kRows, kExtent}, {}};
  std::mt19937 random(1);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t k = 0; k < kExtent; ++k) {
      const auto drawn = static_cast<float>(static_cast<int>(random() % 41) - 20);
      const bool broken = row < 3 && random() % (row == 0 ? 3 : 90) == 0;
      x.data.push_back(broken ? NAN : row < 4 ? drawn : static_cast<float>(row == 4 ? k : row == 5 ? -k : 0));
    }
  }
  b.input("x", DType::kF32, extents_of(x.shape));
  Check check{"nan_long_rows", {{"x", x}}, {}, 0};
  expect_searches(b, x, DType::kF32, 1,
                  [&](const std::string& value, const std::string& name, DType type, Tensor expected) {
                    b.output(value, name, type, any(expected.shape.size()));
                    check.expected[name] = std::move(expected);
                  });
  expect_everywhere(b, check, runnable_targets());
}

// ---- windows

struct Window {
  Ints kernel, strides, dilations, pads;
};

// The maximum of every window and its place within the plane in C order; the first NaN wins, then the first maximum.
std::pair<Tensor, Tensor> pooled(const Tensor& x, const Window& w) {
  const size_t spatial = w.kernel.size();
  Ints out = {x.shape[0], x.shape[1]};
  for (size_t d = 0; d < spatial; ++d)
    out.push_back(
        (x.shape[d + 2] + w.pads[d] + w.pads[d + spatial] - (w.kernel[d] - 1) * w.dilations[d] - 1) / w.strides[d] + 1);
  const size_t plane = count_of({x.shape.begin() + 2, x.shape.end()});
  const size_t pixels = count_of({out.begin() + 2, out.end()}), taps = count_of(w.kernel);
  Tensor most{out, {}}, place{out, {}};
  for (size_t n = 0; n < static_cast<size_t>(out[0] * out[1]); ++n) {
    for (size_t pixel = 0; pixel < pixels; ++pixel) {
      float best = -kInf;
      size_t best_at = plane;
      for (size_t tap = 0; tap < taps; ++tap) {
        size_t rest = pixel, rest_tap = tap, at = 0, stride = 1;
        bool inside = true;
        for (size_t d = spatial; d-- > 0;) {
          const auto extent = static_cast<size_t>(out[d + 2]), kernel = static_cast<size_t>(w.kernel[d]);
          const int64_t position = static_cast<int64_t>(rest % extent) * w.strides[d] - w.pads[d] +
                                   static_cast<int64_t>(rest_tap % kernel) * w.dilations[d];
          inside = inside && position >= 0 && position < x.shape[d + 2];
          at += static_cast<size_t>(position) * stride;
          stride *= static_cast<size_t>(x.shape[d + 2]);
          rest /= extent;
          rest_tap /= kernel;
        }
        if (!inside) continue;
        const float value = x.data[n * plane + at];
        if (best_at == plane || value > best || (value != value && best == best)) {
          best = value;
          best_at = at;
        }
      }
      most.data.push_back(best);
      place.data.push_back(static_cast<float>(n * plane + best_at));
    }
  }
  return {most, place};
}

// Single elements, a whole vector of channels, a whole plane; 37 channels are vectors and a rest.
Tensor image_with_nans(Ints shape, unsigned seed) {
  const size_t plane = count_of({shape.begin() + 2, shape.end()});
  std::vector<size_t> nans = {0, 3 * plane + 11, 36 * plane + plane - 1, 37 * plane + 5, 73 * plane + 20};
  for (size_t c = 16; c < 32; ++c) nans.push_back(c * plane + 17);
  for (size_t k = 0; k < plane; ++k) nans.push_back(40 * plane + k);
  Tensor x = numbers(std::move(shape), seed, nans);
  for (size_t k = 0; k < plane; ++k) x.data[41 * plane + k] = -kInf;
  return x;
}

void check_windows(DType dtype, const std::vector<std::string>& targets) {
  const std::map<std::string, Tensor> images = {{"line", image_with_nans({2, 37, 30}, 4)},
                                                {"image", image_with_nans({2, 37, 9, 8}, 5)},
                                                {"volume", image_with_nans({2, 37, 4, 3, 5}, 6)}};
  const std::pair<const char*, Window> cases[] = {{"image", {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}}},
                                                  {"image", {{2, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
                                                  {"image", {{2, 3}, {1, 2}, {2, 2}, {1, 0, 1, 2}}},
                                                  {"image", {{6, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}}},
                                                  {"line", {{4}, {3}, {1}, {1, 2}}},
                                                  {"volume", {{2, 2, 2}, {1, 1, 2}, {1, 1, 1}, {0, 0, 0, 1, 0, 0}}}};
  OnnxBuilder b("windows", 1);
  b.set_opset(13);
  Check check{"nan_windows_" + std::string(dtype_name(dtype)), images, {}};
  for (const auto& [name, x] : images) b.input(name, dtype, extents_of(x.shape));
  for (const auto& [input, w] : cases) {
    const Tensor& x = images.at(input);
    const auto [most, place] = pooled(x, w);
    const NamedAttributes attributes = {
        {"kernel_shape", w.kernel}, {"strides", w.strides}, {"dilations", w.dilations}, {"pads", w.pads}};
    const std::string y = "y" + std::to_string(check.expected.size());
    b.output(b.op("MaxPool", {input}, attributes), y, dtype, any(x.shape.size()));
    check.expected[y] = most;
    const auto both = b.node("MaxPool", {input}, attributes, 2);
    b.output(both[0], y + "again", dtype, any(x.shape.size()));
    b.output(both[1], y + "place", DType::kI64, any(x.shape.size()));
    check.expected[y + "again"] = most;
    check.expected[y + "place"] = place;
  }
  const Tensor& x = images.at("image");
  b.output(b.op("GlobalMaxPool", {"image"}), "global", dtype, any(4));
  check.expected["global"] = pooled(x, {{9, 8}, {1, 1}, {1, 1}, {0, 0, 0, 0}}).first;
  expect_everywhere(b, check, targets);
}

TEST(NaN, Windows) { check_windows(DType::kF32, runnable_targets()); }
TEST(NaN, WindowsOfDouble) { check_windows(DType::kF64, two_targets()); }
TEST(NaN, WindowsOfHalf) { check_windows(DType::kF16, two_targets()); }

// ---- fused into the stores of products

// NaN in a row of the left operand is NaN in that row of the product, whatever is behind it.
TEST(NaN, BehindProducts) {
  const Tensor x = rows_with_nans(7, false);
  OnnxBuilder b("products", 1);
  b.set_opset(14);
  b.input("x", DType::kF32, extents_of(x.shape));
  const Tensor weights = numbers({kRow, 37}, 8, {});
  const std::string product = b.op("MatMul", {"x", b.initializer(TensorData::f32(weights.shape, weights.data))});
  Check check{"nan_products", {{"x", x}}, {}, 1e-4};
  const auto expect = [&](const std::string& name, const std::string& value, double (*f)(double)) {
    Tensor expected{{5, 37}, {}};
    for (size_t row = 0; row < 5; ++row) {
      for (size_t column = 0; column < 37; ++column) {
        double sum = 0;
        for (size_t k = 0; k < kRow; ++k)
          sum += static_cast<double>(x.data[row * kRow + k]) * weights.data[k * 37 + column];
        expected.data.push_back(static_cast<float>(f(sum)));
      }
    }
    b.output(value, name, DType::kF32, any(2));
    check.expected[name] = std::move(expected);
  };
  // Products of their own, so that each has its neighbour fused.
  const auto again = [&] {
    return b.op("MatMul", {"x", b.op("Identity", {b.initializer(TensorData::f32(weights.shape, weights.data))})});
  };
  expect("plain", product, [](double v) { return v; });
  expect("relu", b.op("Relu", {again()}), [](double v) { return maximum(v, 0); });
  expect("clip", b.op("Clip", {again(), b.scalar(0), b.scalar(6)}), [](double v) { return minimum(maximum(v, 0), 6); });
  expect("swish", b.op("HardSwish", {again()}), [](double v) { return v * minimum(maximum(v / 6 + 0.5, 0), 1); });
  expect("max", b.op("Max", {again(), b.op("Neg", {product})}), [](double v) { return maximum(v, -v); });
  expect_everywhere(b, check, runnable_targets());
}

// Convolutions by all plugins that a small image can reach, Relu or Clip behind each: NaN where the window has it.
TEST(NaN, BehindConvolutions) {
  const Ints shape = {1, 32, 9, 11};
  const Tensor x = numbers(shape, 9, {5, 99 + 40, 31 * 99 + 98});
  OnnxBuilder b("convolutions", 1);
  b.input("x", DType::kF32, extents_of(shape));
  Check check{"nan_convolutions", {{"x", x}}, {}, 1e-3};
  struct Case {
    int64_t kernel, stride, groups;
  };
  for (const Case& c : {Case{3, 1, 1}, {3, 2, 1}, {1, 1, 1}, {3, 1, 32}, {5, 1, 1}}) {
    const int64_t pad = c.kernel / 2, in = 32 / c.groups;
    const Tensor w = numbers({32, in, c.kernel, c.kernel}, 10, {});
    const std::string weights = b.initializer(TensorData::f32(w.shape, w.data));
    const NamedAttributes attributes = {
        {"strides", Ints{c.stride, c.stride}}, {"pads", Ints(4, pad)}, {"group", c.groups}};
    const std::string y = "y" + std::to_string(check.expected.size());
    b.output(b.op("Relu", {b.op("Conv", {"x", weights}, attributes)}), y, DType::kF32, any(4));
    const int64_t out_h = (9 - 1) / c.stride + 1, out_w = (11 - 1) / c.stride + 1;
    Tensor expected{{1, 32, out_h, out_w}, {}};
    for (int64_t oc = 0; oc < 32; ++oc) {
      for (int64_t oh = 0; oh < out_h; ++oh) {
        for (int64_t ow = 0; ow < out_w; ++ow) {
          double sum = 0;
          for (int64_t ic = 0; ic < in; ++ic) {
            for (int64_t kh = 0; kh < c.kernel; ++kh) {
              for (int64_t kw = 0; kw < c.kernel; ++kw) {
                const int64_t h = oh * c.stride - pad + kh, l = ow * c.stride - pad + kw;
                if (h < 0 || h >= 9 || l < 0 || l >= 11) continue;
                const int64_t channel = oc / (32 / c.groups) * in + ic;
                sum += static_cast<double>(x.data[static_cast<size_t>((channel * 9 + h) * 11 + l)]) *
                       w.data[static_cast<size_t>(((oc * in + ic) * c.kernel + kh) * c.kernel + kw)];
              }
            }
          }
          expected.data.push_back(static_cast<float>(maximum(sum, 0)));
        }
      }
    }
    check.expected[y] = std::move(expected);
  }
  expect_everywhere(b, check, runnable_targets());
}

// ---- the rest

TEST(NaN, ScatteredExtrema) {
  const Tensor data = numbers({7}, 11, {1, 2}), updates = numbers({6}, 12, {1, 3});
  const Ints places = {0, 1, 3, 4, 4, 2};
  for (const bool greatest : {false, true}) {
    OnnxBuilder b("scatter", 1);
    b.set_opset(18);
    b.input("data", DType::kF32, {7});
    b.input("updates", DType::kF32, {6});
    const NamedAttributes attributes = {{"reduction", greatest ? "max" : "min"}};
    Tensor expected = data;
    for (size_t k = 0; k < places.size(); ++k) {
      float& at = expected.data[static_cast<size_t>(places[k])];
      at = static_cast<float>(greatest ? maximum(at, updates.data[k]) : minimum(at, updates.data[k]));
    }
    b.output(b.op("ScatterElements", {"data", b.ints(places), "updates"}, attributes), "elements", DType::kF32, any(1));
    b.output(b.op("ScatterND", {"data", b.initializer(TensorData::i64({6, 1}, places)), "updates"}, attributes), "nd",
             DType::kF32, any(1));
    expect_everywhere(b,
                      {greatest ? "nan_scatter_max" : "nan_scatter_min",
                       {{"data", data}, {"updates", updates}},
                       {{"elements", expected}, {"nd", expected}}},
                      two_targets());
  }
}

// Odd channels are NaN, the others 0.
TEST(NaN, RegionsOfImages) {
  const Ints shape = {1, 37, 8, 8};
  Tensor x{shape, {}}, expected{{1, 37, 2, 2}, {}};
  for (size_t c = 0; c < 37; ++c) {
    x.data.insert(x.data.end(), 64, c % 2 == 1 ? kNaN : 0);
    expected.data.insert(expected.data.end(), 4, c % 2 == 1 ? kNaN : 0);
  }
  OnnxBuilder b("regions", 1);
  b.set_opset(16);
  b.input("x", DType::kF32, extents_of(shape));
  b.output(b.op("RoiAlign", {"x", b.initializer(TensorData::f32({1, 4}, {0, 0, 7, 7})), b.ints({0})},
                {{"mode", "max"}, {"output_height", 2}, {"output_width", 2}, {"sampling_ratio", 2}}),
           "aligned", DType::kF32, any(4));
  b.output(b.op("MaxRoiPool", {"x", b.initializer(TensorData::f32({1, 5}, {0, 0, 0, 7, 7}))},
                {{"pooled_shape", Ints{2, 2}}}),
           "pooled", DType::kF32, any(4));
  expect_everywhere(b, {"nan_regions", {{"x", x}}, {{"aligned", expected}, {"pooled", expected}}}, two_targets());
}

// Weights are 0: a batch element is NaN from its first NaN on, and before that what its activation makes of 0.
TEST(NaN, RecurrentActivations) {
  constexpr int64_t kSteps = 3, kBatch = 4, kInputs = 5, kHidden = 21;
  const Tensor x = numbers({kSteps, kBatch, kInputs}, 13, {kBatch * kInputs + 2, 3 * kInputs});
  OnnxBuilder b("recurrent", 1);
  b.input("x", DType::kF32, extents_of(x.shape));
  Check check{"nan_recurrent", {{"x", x}}, {}, 1e-6};
  const auto zeros = [&](int64_t gates, int64_t columns) {
    const std::vector<float> data(static_cast<size_t>(gates * kHidden * columns), 0);
    return b.initializer(TensorData::f32({1, gates * kHidden, columns}, data));
  };
  const auto expect = [&](const std::string& name, const std::string& value, float otherwise) {
    Tensor expected{{kSteps, 1, kBatch, kHidden}, {}};
    for (int64_t step = 0; step < kSteps; ++step) {
      for (int64_t batch = 0; batch < kBatch; ++batch) {
        const bool nan = (batch == 0 && step >= 1) || batch == 3;
        expected.data.insert(expected.data.end(), kHidden, nan ? kNaN : otherwise);
      }
    }
    b.output(value, name, DType::kF32, any(4));
    check.expected[name] = std::move(expected);
  };
  for (const auto& [activation, at_zero] : {std::pair("Relu", 0.0F), {"HardSigmoid", 0.5F}, {"Tanh", 0.0F}}) {
    for (const double clip : {0.0, 2.0}) {
      NamedAttributes attributes = {{"hidden_size", kHidden}, {"activations", std::vector<std::string>{activation}}};
      if (clip > 0) attributes.emplace_back("clip", clip);
      expect(std::string(activation) + (clip > 0 ? "Clipped" : ""),
             b.node("RNN", {"x", zeros(1, kInputs), zeros(1, kHidden)}, attributes, 1)[0], at_zero);
    }
  }
  expect("LSTM",
         b.node("LSTM", {"x", zeros(4, kInputs), zeros(4, kHidden)}, {{"hidden_size", kHidden}, {"clip", 1.0}}, 1)[0],
         0);
  expect_everywhere(b, check, two_targets());
}

// All NaN are one value behind all numbers.
TEST(NaN, Unique) {
  const Tensor x{{8}, {1, kNaN, 0.5, -kNaN, 1, -kInf, kNaN, kInf}};
  OnnxBuilder b("unique", 1);
  b.input("x", DType::kF32, {8});
  auto outputs = b.node("Unique", {"x"}, {{"sorted", 1}}, 4);
  Check check{"nan_unique", {{"x", x}}, {}};
  const std::vector<float> expected[] = {
      {-kInf, 0.5, 1, kInf, kNaN}, {5, 2, 0, 7, 1}, {2, 4, 1, 4, 2, 0, 4, 3}, {1, 1, 2, 1, 3}};
  for (size_t k = 0; k < 4; ++k) {
    const std::string name = "y" + std::to_string(k);
    b.output(outputs[k], name, k == 0 ? DType::kF32 : DType::kI64, any(1));
    check.expected[name] = {{static_cast<int64_t>(expected[k].size())}, expected[k]};
  }
  expect_everywhere(b, check, two_targets());
}

// NaN in a query is NaN in its row, NaN in a value is NaN in its channel: with many queries and with few.
TEST(NaN, Attention) {
  for (const int64_t queries : {3, 40}) {
    constexpr int64_t kKeys = 40, kDepth = 16;
    const Tensor q = numbers({2, queries, kDepth}, 14, {static_cast<size_t>(queries * kDepth) + 5});
    const Tensor k = numbers({2, kDepth, kKeys}, 15, {}), v = numbers({2, kKeys, kDepth}, 16, {7 * kDepth + 3});
    OnnxBuilder b("attention", 1);
    b.input("q", DType::kF32, extents_of(q.shape));
    b.input("k", DType::kF32, extents_of(k.shape));
    b.input("v", DType::kF32, extents_of(v.shape));
    const std::string scores = b.op("Mul", {b.op("MatMul", {"q", "k"}), b.scalar(0.125F)});
    b.output(b.op("MatMul", {b.op("Softmax", {scores}, {{"axis", -1}}), "v"}), "y", DType::kF32, any(3));
    Tensor expected{{2, queries, kDepth}, {}};
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t row = 0; row < queries; ++row) {
        Line line;
        for (int64_t key = 0; key < kKeys; ++key) {
          double score = 0;
          for (int64_t d = 0; d < kDepth; ++d)
            score += static_cast<double>(q.data[static_cast<size_t>((n * queries + row) * kDepth + d)]) *
                     k.data[static_cast<size_t>((n * kDepth + d) * kKeys + key)];
          line.push_back(score / 8);
        }
        line = exponentials(line);
        for (int64_t d = 0; d < kDepth; ++d) {
          double sum = 0;
          for (int64_t key = 0; key < kKeys; ++key)
            sum += line[static_cast<size_t>(key)] * v.data[static_cast<size_t>((n * kKeys + key) * kDepth + d)];
          expected.data.push_back(static_cast<float>(sum));
        }
      }
    }
    expect_everywhere(
        b, {"nan_attention" + std::to_string(queries), {{"q", q}, {"k", k}, {"v", v}}, {{"y", expected}}, 1e-4},
        two_targets());
  }
}

}  // namespace
}  // namespace aipu::test
