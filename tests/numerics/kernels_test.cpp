// Compute kernels, beside convolutions, against oneDNN or a double-precision reference over random shapes, strides, pads
// and odd sizes, on every target this machine can run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/numerics/random_models.h"

namespace aipu::test {
namespace {

TEST(Kernels, Pooling) {
  check_against_dnnl("pool", 10, 1e-5, 1e-6, [](OnnxBuilder& b, std::mt19937& random) {
    const int64_t spatial = pick(random, 1, 3);
    std::vector<int64_t> shape = {pick(random, 1, 2), pick(random, 1, 35)}, kernel, strides, pads;
    for (int64_t i = 0; i < spatial; ++i) {
      kernel.push_back(pick(random, 2, 4));
      strides.push_back(pick(random, 1, 3));
      shape.push_back(kernel.back() + pick(random, 0, 12));
    }
    for (int64_t i = 0; i < 2 * spatial; ++i)
      pads.push_back(pick(random, 0, kernel[static_cast<size_t>(i % spatial)] - 1));
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    const bool maximum = pick(random, 0, 1) == 1;
    models::NamedAttributes attributes = {{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads}};
    if (!maximum) attributes.emplace_back("count_include_pad", pick(random, 0, 1));
    b.output(b.op(maximum ? "MaxPool" : "AveragePool", {x}, attributes), "y", DType::kF32,
             Extents(shape.size(), Extents::value_type("")));
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

// The second output of MaxPool, gathered back: the maxima again. (The road compares float32 outputs, so the indices are
// used rather than looked at.)
TEST(Kernels, PoolingWithIndices) {
  for (const int64_t column_major : {0, 1}) {
    SCOPED_TRACE("storage order " + std::to_string(column_major));
    OnnxBuilder b("pool_indices", 1);
    const std::vector<int64_t> shape = {2, 5, 7, 9};
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    b.node_to("MaxPool", {x}, {"pooled", "indices"},
              {{"kernel_shape", std::vector<int64_t>{3, 2}},
               {"strides", std::vector<int64_t>{2, 2}},
               {"pads", std::vector<int64_t>{1, 0, 1, 1}},
               {"storage_order", column_major}});
    const std::string ordered =
        column_major == 1 ? b.op("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}}) : x;
    b.output(b.op("Gather", {b.op("Reshape", {ordered, b.ints({-1})}), "indices"}), "again", DType::kF32,
             {"", "", "", ""});
    b.output("pooled", "y", DType::kF32, {"", "", "", ""});
    const std::string path = temporary_path("pool_indices" + std::to_string(column_major) + ".onnx");
    ASSERT_TRUE(b.save(path).ok());
    std::mt19937 random(3);
    const Tensor image = random_tensor(random, shape);
    Tensor expected{{2, 5, 4, 5}, {}};
    for (int64_t plane = 0; plane < 10; ++plane) {
      for (int64_t oh = 0; oh < 4; ++oh) {
        for (int64_t ow = 0; ow < 5; ++ow) {
          float most = -INFINITY;
          for (int64_t h = std::max<int64_t>(2 * oh - 1, 0); h < std::min<int64_t>(2 * oh + 2, 7); ++h) {
            for (int64_t w = 2 * ow; w < std::min<int64_t>(2 * ow + 2, 9); ++w)
              most = std::max(most, image.data[static_cast<size_t>((plane * 7 + h) * 9 + w)]);
          }
          expected.data.push_back(most);
        }
      }
    }
    expect_on_targets(path, {{"x", image}}, {{"y", expected}, {"again", expected}}, 0, 0, true);
    if (HasFatalFailure()) return;
  }
}

TEST(Kernels, GlobalPoolingAndSoftmax) {
  check_against_dnnl("global_pool", 6, 1e-4, 1e-5, [](OnnxBuilder& b, std::mt19937& random) {
    const std::vector<int64_t> shape = {pick(random, 1, 3), pick(random, 1, 70), pick(random, 1, 9),
                                        pick(random, 1, 9)};
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    const std::string pooled = b.op(pick(random, 0, 1) == 1 ? "GlobalAveragePool" : "GlobalMaxPool", {x});
    b.output(b.op("Softmax", {pooled}, {{"axis", 1}}), "y", DType::kF32, {"", "", "", ""});
    b.output(b.op("LogSoftmax", {x}, {{"axis", static_cast<int>(pick(random, -1, 3))}}), "z", DType::kF32,
             {"", "", "", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

// Rows that are a small part of a vector, as many as vectors have lanes, fewer and more.
TEST(Kernels, SoftmaxOfShortRows) {
  check_against_dnnl("short_softmax", 8, 1e-5, 3e-6, [](OnnxBuilder& b, std::mt19937& random) {
    const std::vector<int64_t> shape = {pick(random, 1, 3), pick(random, 1, 33), pick(random, 1, 8)};
    Extents extents = extents_of(shape);
    if (pick(random, 0, 1) == 1) extents[0] = "N";
    b.input("x", DType::kF32, extents);
    b.output(b.op("Softmax", {"x"}, {{"axis", int64_t{-1}}}), "y", DType::kF32, {"", "", ""});
    b.output(b.op("LogSoftmax", {"x"}, {{"axis", int64_t{-1}}}), "log", DType::kF32, {"", "", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

TEST(Kernels, MatrixMultiplication) {
  check_against_dnnl("matmul", 12, 1e-4, 1e-4, [](OnnxBuilder& b, std::mt19937& random) {
    const int64_t m = pick(random, 1, 40), k = pick(random, 1, 70), n = pick(random, 1, 75);
    const int64_t form = pick(random, 0, 3);
    std::map<std::string, std::vector<int64_t>> shapes;
    if (form == 0) {  // constant right operand
      shapes["a"] = {pick(random, 1, 3), m, k};
      b.output(b.op("MatMul", {b.input("a", DType::kF32, extents_of(shapes["a"])), b.weight({k, n}, 0.3)}), "y",
               DType::kF32, {"", "", ""});
    } else if (form == 1) {  // both run-time, batched, broadcast
      shapes["a"] = {pick(random, 1, 3), 2, m, k};
      shapes["b"] = {2, k, n};
      b.output(b.op("MatMul", {b.input("a", DType::kF32, extents_of(shapes["a"])),
                               b.input("b", DType::kF32, extents_of(shapes["b"]))}),
               "y", DType::kF32, {"", "", "", ""});
    } else {  // Gemm in all its forms
      const int trans_a = static_cast<int>(pick(random, 0, 1)), trans_b = static_cast<int>(pick(random, 0, 1));
      shapes["a"] = trans_a != 0 ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
      const std::vector<int64_t> b_shape = trans_b != 0 ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
      std::string right;
      if (form == 2) {
        right = b.weight(b_shape, 0.3);
      } else {
        shapes["b"] = b_shape;
        right = b.input("b", DType::kF32, extents_of(b_shape));
      }
      const std::vector<std::vector<int64_t>> c_shapes = {{n}, {1, n}, {m, n}, {}, {1}};
      const std::string c = b.weight(c_shapes[static_cast<size_t>(pick(random, 0, 4))], 1);
      b.output(b.op("Gemm", {b.input("a", DType::kF32, extents_of(shapes["a"])), right, c},
                    {{"transA", trans_a}, {"transB", trans_b}, {"alpha", 0.5}, {"beta", 1.5}}),
               "y", DType::kF32, {"", ""});
    }
    return shapes;
  });
}

TEST(Kernels, LocalResponseNormalization) {
  check_against_dnnl("lrn", 4, 1e-5, 1e-6, [](OnnxBuilder& b, std::mt19937& random) {
    const std::vector<int64_t> shape = {2, pick(random, 3, 50), pick(random, 1, 5), pick(random, 1, 5)};
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    b.output(b.op("LRN", {x},
                  {{"size", 2 * pick(random, 0, 2) + 1},
                   {"alpha", 0.01},
                   {"beta", pick(random, 0, 1) == 1 ? 0.75 : 0.6},
                   {"bias", 1.5}}),
             "y", DType::kF32, {"", "", "", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

TEST(Kernels, ElementwiseWithBroadcasting) {
  check_against_dnnl("elementwise", 10, 1e-5, 1e-6, [](OnnxBuilder& b, std::mt19937& random) {
    std::vector<int64_t> shape;
    for (int64_t rank = pick(random, 1, 4); rank > 0; --rank) shape.push_back(pick(random, 1, 19));
    std::vector<int64_t> other(shape.begin() + pick(random, 0, static_cast<int64_t>(shape.size()) - 1), shape.end());
    for (int64_t& extent : other) extent = pick(random, 0, 1) == 1 ? extent : 1;
    const std::string x = b.input("x", DType::kF32, extents_of(shape)),
                      z = b.input("z", DType::kF32, extents_of(other));
    std::string y = b.op("Mul", {b.op("Sigmoid", {x}), z});
    y = b.op("Add", {b.op("Tanh", {y}), b.op("Erf", {b.op("Sub", {x, z})})});
    y = b.op("HardSwish", {b.op("Div", {y, b.op("Exp", {x})})});
    y = b.op("Add", {y, b.op("HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.4}})});
    b.output(y, "y", DType::kF32, Extents(shape.size(), Extents::value_type("")));
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}, {"z", other}};
  });
}

TEST(Kernels, MovementChains) {
  check_against_dnnl("movement", 6, 0, 0, [](OnnxBuilder& b, std::mt19937& random) {
    const std::vector<int64_t> shape = {pick(random, 1, 3), pick(random, 1, 40), pick(random, 1, 7),
                                        pick(random, 1, 70)};
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    std::vector<int64_t> perm = {0, 1, 2, 3};
    std::shuffle(perm.begin(), perm.end(), random);
    const std::string t = b.op("Transpose", {x}, {{"perm", perm}});
    const std::string c = b.op("Concat", {t, t, t}, {{"axis", static_cast<int>(pick(random, 0, 3))}});
    b.output(b.op("Flatten", {c}, {{"axis", 2}}), "y", DType::kF32, {"", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

// x[starts : ends : steps] with all axes given; of what is left, the elements in C order.
Tensor sliced(const Tensor& x, const std::vector<int64_t>& starts, const std::vector<int64_t>& counts,
              const std::vector<int64_t>& steps) {
  Tensor y{counts, {}};
  size_t total = 1;
  for (const int64_t count : counts) total *= static_cast<size_t>(count);
  for (size_t n = 0; n < total; ++n) {
    auto rest = static_cast<int64_t>(n);
    int64_t at = 0, stride = 1;
    for (size_t axis = counts.size(); axis-- > 0;) {
      at += (starts[axis] + rest % counts[axis] * steps[axis]) * stride;
      stride *= x.shape[axis];
      rest /= counts[axis];
    }
    y.data.push_back(x.data[static_cast<size_t>(at)]);
  }
  return y;
}

// Steps of both signs along every axis, whole vectors and rests, extents known and unknown when converting.
TEST(Kernels, SliceBackwards) {
  struct Case {
    std::vector<int64_t> starts, counts, steps;
  };
  const std::map<std::vector<int64_t>, std::vector<Case>> shapes = {
      {{83}, {{{82}, {83}, {-1}}, {{82}, {42}, {-2}}, {{70}, {5}, {-1}}, {{40}, {17}, {-2}}, {{3}, {1}, {-5}}}},
      {{5, 40},
       {{{4, 0}, {5, 40}, {-1, 1}},
        {{0, 39}, {5, 40}, {1, -1}},
        {{4, 39}, {3, 14}, {-2, -3}},
        {{4, 7}, {5, 1}, {-1, 1}}}},
      {{3, 4, 37},
       {{{2, 3, 36}, {3, 4, 37}, {-1, -1, -1}},
        {{0, 3, 0}, {3, 4, 19}, {1, -1, 2}},
        {{0, 3, 5}, {3, 2, 1}, {1, -2, 1}}}},
      {{2, 3, 4, 33},
       {{{1, 2, 3, 32}, {2, 3, 2, 33}, {-1, -1, -2, -1}}, {{1, 0, 3, 32}, {1, 3, 4, 17}, {1, 1, -1, -2}}}}};
  for (const auto& [shape, cases] : shapes) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kU8}) {
      for (const bool symbolic : {false, true}) {
        // The widths of elements differ in nothing else.
        if (dtype != DType::kF32 && (symbolic || shape.size() != 2)) continue;
        Extents extents = extents_of(shape);
        if (symbolic) extents.back() = "N";
        Check check{
            "slice" + std::to_string(shape.size()) + std::string(dtype_name(dtype)) + (symbolic ? "N" : ""), {}, {}};
        size_t count = 1;
        for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
        Tensor x{shape, {}};
        for (size_t n = 0; n < count; ++n) x.data.push_back(static_cast<float>(n % 251));
        OnnxBuilder b("slice", 1);
        b.input("x", dtype, extents);
        for (const Case& c : cases) {
          std::vector<int64_t> ends, axes;
          for (size_t axis = 0; axis < shape.size(); ++axis) {
            const int64_t end = c.starts[axis] + c.counts[axis] * c.steps[axis];
            ends.push_back(end < 0 ? -1000 : end);  // -1 would be the last element
            axes.push_back(static_cast<int64_t>(axis));
          }
          const std::string y = "y" + std::to_string(check.expected.size());
          b.output(b.op("Slice", {"x", b.ints(c.starts), b.ints(ends), b.ints(axes), b.ints(c.steps)}), y, dtype,
                   Extents(shape.size(), Extents::value_type("")));
          check.expected[y] = sliced(x, c.starts, c.counts, c.steps);
        }
        check.inputs["x"] = x;
        const auto targets = runnable_targets();
        expect_everywhere(b, check,
                          dtype == DType::kF32 && !symbolic ? targets : std::vector<std::string>{targets.back()});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// One place along every axis, the first of equal ones; extents known and unknown when converting.
TEST(Kernels, Hardmax) {
  std::mt19937 random(6);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1}, {83}, {5, 40}, {3, 4, 37}, {2, 3, 4, 5}}) {
    Tensor x = random_tensor(random, shape, 0, 4);
    for (float& value : x.data) value = std::floor(value);
    for (const bool symbolic : {false, true}) {
      OnnxBuilder b("hardmax", 1);
      b.set_opset(13);
      const Extents names = {"A", "B", "C", "D"};
      b.input(
          "x", DType::kF32,
          symbolic ? Extents(names.begin(), names.begin() + static_cast<ptrdiff_t>(shape.size())) : extents_of(shape));
      Check check{"hardmax" + std::to_string(shape.size()) + (symbolic ? "symbolic" : ""), {{"x", x}}, {}};
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        Tensor expected{shape, std::vector<float>(x.data.size(), 0)};
        size_t inner = 1;
        for (size_t k = axis + 1; k < shape.size(); ++k) inner *= static_cast<size_t>(shape[k]);
        const size_t line = inner * static_cast<size_t>(shape[axis]);
        for (size_t start = 0; start < x.data.size(); start += start % inner + 1 == inner ? line - inner + 1 : 1) {
          size_t best = start;
          for (size_t at = start; at < start + line; at += inner) best = x.data[at] > x.data[best] ? at : best;
          expected.data[best] = 1;
        }
        const std::string y = "y" + std::to_string(axis);
        b.output(b.op("Hardmax", {"x"}, {{"axis", static_cast<int64_t>(axis)}}), y, DType::kF32,
                 Extents(shape.size(), Extents::value_type("")));
        check.expected[y] = std::move(expected);
      }
      expect_everywhere(b, check, {"X2_1204", runnable_targets().back()});
      if (HasFatalFailure()) return;
    }
  }
}

// Extents that are 1 or not only when the model runs: a stride of 0 or not.
TEST(Kernels, BroadcastingOfExtentsKnownAtRunTime) {
  OnnxBuilder b("broadcast", 1);
  b.input("x", DType::kF32, {"A", "B"});
  b.input("z", DType::kF32, {"C", "D"});
  b.output(b.op("Sub", {"x", "z"}), "y", DType::kF32, {"", ""});
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {5, 1}, {1, 37}, {5, 37}}) {
    std::mt19937 random(1);
    Check check{"broadcast", {}, {}};
    check.inputs["x"] = random_tensor(random, {5, 37});
    check.inputs["z"] = random_tensor(random, {rows, columns});
    Tensor y{{5, 37}, {}};
    for (int64_t row = 0; row < 5; ++row) {
      for (int64_t column = 0; column < 37; ++column)
        y.data.push_back(
            check.inputs["x"].data[static_cast<size_t>(row * 37 + column)] -
            check.inputs["z"].data[static_cast<size_t>((rows == 1 ? 0 : row * columns) + (columns == 1 ? 0 : column))]);
    }
    check.expected["y"] = y;
    expect_everywhere(b, check, {"X2_1204", runnable_targets().back()});
    if (HasFatalFailure()) return;
  }
}

// Reductions in double precision, straight from the definition.
TEST(Kernels, Reductions) {
  struct Kind {
    const char* op;
    double identity;
    double (*add)(double, double);
    double (*finish)(double, double);
  };
  const Kind kinds[] = {
      {"ReduceSum", 0, [](double a, double x) { return a + x; }, [](double a, double) { return a; }},
      {"ReduceMean", 0, [](double a, double x) { return a + x; }, [](double a, double n) { return a / n; }},
      {"ReduceMax", -INFINITY, [](double a, double x) { return std::max(a, x); }, [](double a, double) { return a; }},
      {"ReduceMin", INFINITY, [](double a, double x) { return std::min(a, x); }, [](double a, double) { return a; }},
      {"ReduceProd", 1, [](double a, double x) { return a * x; }, [](double a, double) { return a; }},
      {"ReduceL1", 0, [](double a, double x) { return a + std::abs(x); }, [](double a, double) { return a; }},
      {"ReduceL2", 0, [](double a, double x) { return a + x * x; }, [](double a, double) { return std::sqrt(a); }},
      {"ReduceSumSquare", 0, [](double a, double x) { return a + x * x; }, [](double a, double) { return a; }},
      {"ReduceLogSumExp", 0, [](double a, double x) { return a + std::exp(x); },
       [](double a, double) { return std::log(a); }},
  };
  int serial = 0;
  for (const Kind& kind : kinds) {
    std::mt19937 random(static_cast<unsigned>(++serial));
    const std::vector<int64_t> shape = {pick(random, 1, 5), pick(random, 1, 6), pick(random, 1, 21),
                                        pick(random, 1, 37)};
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < 4; ++axis) {
      if (pick(random, 0, 1) == 1) axes.push_back(axis);
    }
    if (axes.empty()) axes = {static_cast<int64_t>(serial % 4)};
    SCOPED_TRACE(kind.op);
    OnnxBuilder b("reduce", 1);
    b.set_opset(13);
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    const std::string y =
        std::string(kind.op) == "ReduceSum" ? b.op(kind.op, {x, b.ints(axes)}) : b.op(kind.op, {x}, {{"axes", axes}});
    b.output(y, "y", DType::kF32, {"", "", "", ""});
    const std::string path = temporary_path("reduce" + std::to_string(serial) + ".onnx");
    ASSERT_TRUE(b.save(path).ok());
    std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, shape)}};
    std::vector<int64_t> out_shape = shape;
    double total = 1;
    for (const int64_t axis : axes) {
      total *= static_cast<double>(out_shape[static_cast<size_t>(axis)]);
      out_shape[static_cast<size_t>(axis)] = 1;
    }
    Tensor expected{out_shape, {}};
    std::vector<double> sums(static_cast<size_t>(out_shape[0] * out_shape[1] * out_shape[2] * out_shape[3]),
                             kind.identity);
    const std::vector<float>& data = inputs["x"].data;
    for (size_t n = 0; n < data.size(); ++n) {
      auto rest = static_cast<int64_t>(n);
      int64_t position[4], at = 0;
      for (size_t i = 4; i-- > 0;) {
        position[i] = rest % shape[i];
        rest /= shape[i];
      }
      for (size_t i = 0; i < 4; ++i) at = at * out_shape[i] + (out_shape[i] == 1 ? 0 : position[i]);
      sums[static_cast<size_t>(at)] = kind.add(sums[static_cast<size_t>(at)], data[n]);
    }
    for (const double sum : sums) expected.data.push_back(static_cast<float>(kind.finish(sum, total)));
    expect_on_targets(path, inputs, {{"y", expected}}, 1e-4, 1e-5, true);
    if (HasFatalFailure()) return;
  }
}

TEST(Kernels, LayerNormalization) {
  for (int seed = 0; seed < 4; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed) + 5);
    const int64_t rows = pick(random, 1, 9), width = pick(random, 2, 90);
    OnnxBuilder b("layer_norm", 1);
    const std::string x = b.input("x", DType::kF32, {rows, width});
    Tensor scale = random_tensor(random, {width}), bias = random_tensor(random, {width});
    const std::string s = b.initializer(models::TensorData::f32({width}, scale.data)),
                      c = b.initializer(models::TensorData::f32({width}, bias.data));
    b.output(b.op("LayerNormalization", {x, s, c}, {{"axis", -1}, {"epsilon", 1e-5}}), "y", DType::kF32, {rows, width});
    const std::string path = temporary_path("layer_norm" + std::to_string(seed) + ".onnx");
    ASSERT_TRUE(b.save(path).ok());
    std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, {rows, width}, -3, 5)}};
    Tensor expected{{rows, width}, {}};
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = &inputs["x"].data[static_cast<size_t>(r * width)];
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < width; ++i) mean += row[i];
      mean /= static_cast<double>(width);
      for (int64_t i = 0; i < width; ++i) variance += (row[i] - mean) * (row[i] - mean);
      variance /= static_cast<double>(width);
      for (int64_t i = 0; i < width; ++i) {
        const auto at = static_cast<size_t>(i);
        expected.data.push_back(
            static_cast<float>((row[i] - mean) / std::sqrt(variance + 1e-5) * scale.data[at] + bias.data[at]));
      }
    }
    expect_on_targets(path, inputs, {{"y", expected}}, 1e-4, 1e-5, true);
    if (HasFatalFailure()) return;
  }
}

// Along the last axis rows are filled by vectors, along others elements are compared; indices that are negative or
// outside.
// Operands of rows of a few elements are read by tables of their places; a divisor of what is in front counts with them.
TEST(Kernels, SumsOfRowsOfAFewElements) {
  using Shape = std::vector<int64_t>;
  const std::pair<Shape, Shape> cases[] = {{{6, 8, 3, 4, 2}, {6, 1, 3, 1, 2}},
                                           {{5000, 2}, {5000, 1}},
                                           {{9, 3}, {9, 1}},
                                           {{4099, 2}, {4099, 1}},
                                           {{3, 7, 5}, {1, 7, 1}},
                                           {{16, 1}, {1, 2}},
                                           {{4, 0}, {4, 1}}};
  const auto count_of = [](const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  };
  for (const auto& [left, right] : cases) {
    OnnxBuilder b("narrow", 1);
    b.output(b.op("Add", {b.input("x", DType::kF32, extents_of(left)), b.input("z", DType::kF32, extents_of(right))}),
             "y", DType::kF32, Extents(left.size(), Extents::value_type("")));
    const std::string path = temporary_path("narrow.onnx");
    ASSERT_TRUE(b.save(path).ok());
    Tensor x{left, {}}, z{right, {}}, y{left, {}};
    y.shape.back() = left.back() == 1 ? right.back() : left.back();
    for (int64_t i = 0; i < count_of(left); ++i) x.data.push_back(static_cast<float>(i));
    for (int64_t i = 0; i < count_of(right); ++i) z.data.push_back(static_cast<float>(i) / 4);
    const auto place = [&](const Shape& shape, int64_t at) {
      int64_t result = 0, stride = 1;
      for (size_t k = shape.size(); k-- > 0; at /= y.shape[k]) {
        if (shape[k] > 1) result += at % y.shape[k] * stride;
        stride *= shape[k];
      }
      return static_cast<size_t>(result);
    };
    for (int64_t i = 0; i < count_of(y.shape); ++i) y.data.push_back(x.data[place(left, i)] + z.data[place(right, i)]);
    expect_on_targets(path, {{"x", x}, {"z", z}}, {{"y", y}}, 0, 0, left.size() > 2);
    if (HasFatalFailure()) return;
  }
}

TEST(Kernels, OneHot) {
  for (const int64_t depth : {1, 3, 15, 16, 17, 64, 257}) {
    for (const int64_t axis : {-1, 0}) {
      SCOPED_TRACE("depth " + std::to_string(depth) + ", axis " + std::to_string(axis));
      OnnxBuilder b("one_hot", 1);
      const std::string indices = b.op("Cast", {b.input("x", DType::kF32, {"N"})}, {{"to", 7}});
      const std::string values = b.initializer(models::TensorData::f32({2}, {-0.5f, 2.5f}));
      b.output(b.op("OneHot", {indices, b.ints({depth}), values}, {{"axis", axis}}), "y", DType::kF32, {"", ""});
      const std::string path = temporary_path("one_hot.onnx");
      ASSERT_TRUE(b.save(path).ok());
      Tensor x{{9}, {}};
      const auto n = static_cast<float>(depth);
      x.data = {0, n - 1, -1, -n, n, -n - 1, std::floor(n / 2), 1, 2};
      Tensor y{axis == 0 ? std::vector<int64_t>{depth, 9} : std::vector<int64_t>{9, depth}, {}};
      for (int64_t k = 0; k < 9 * depth; ++k) {
        const int64_t row = axis == 0 ? k % 9 : k / depth, d = axis == 0 ? k / 9 : k % depth;
        const auto index = static_cast<int64_t>(x.data[static_cast<size_t>(row)]);
        y.data.push_back(index == d || index + depth == d ? 2.5f : -0.5f);
      }
      expect_on_targets(path, {{"x", x}}, {{"y", y}}, 0, 0, depth == 17);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace aipu::test
