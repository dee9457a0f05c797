// Concats whose operands are written in place by convolutions: every kind of convolution, odd channel counts,
// neighbours that stay copies (a shortcut's sum, an operand with two users, an operand given twice), on every target
// this machine can run, with one thread and two.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "gbuilder/build.h"
#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::ConvOptions;
using models::OnnxBuilder;

void check(OnnxBuilder& b, const std::string& name, const std::map<std::string, Tensor>& inputs) {
  const std::string path = temporary_path(name + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  const auto expected = run_reference(path, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const std::string& target : runnable_targets()) {
    for (const int threads : {1, 2}) {
      const auto actual = run_road(path, inputs, {.target = target, .threads = threads});
      ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
      for (const auto& [output, tensor] : *expected)
        expect_close(actual->at(output), tensor, 1e-4, 1e-4, target + ", " + output);
    }
  }
}

// How many copies the model that check() saved is converted to.
size_t copies_of(const std::string& name) {
  gbuilder::BuildOptions build;
  build.model = temporary_path(name + ".onnx");
  build.output = temporary_path(name + ".aipu.bin");
  build.dump_ir = temporary_path(name);
  EXPECT_TRUE(gbuilder::build_model(build).ok());
  std::ifstream commands(build.dump_ir + "/commands.dma.txt");
  size_t copies = 0;
  for (std::string line; std::getline(commands, line);) copies += line.find(" copy ") != std::string::npos ? 1 : 0;
  return copies;
}

TEST(Concat, OfConvolutionsInPlace) {
  std::mt19937 random(5);
  OnnxBuilder b("inception", 3);
  const auto x = b.input("x", DType::kF32, {2, 20, 14, 13});
  const auto one = b.relu(b.conv(x, 20, 17, {.kernel = {1, 1}}));
  const auto three = b.relu(b.conv(x, 20, 33, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  const auto five = b.conv(x, 20, 8, {.kernel = {5, 5}, .pads = {2, 2, 2, 2}});
  const auto grouped = b.relu(b.conv(x, 20, 12, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .groups = 4}));
  const auto pooled = b.relu(b.conv(b.max_pool(x, 3, 1, 1), 20, 16, {.kernel = {1, 1}}));
  const auto joined = b.op("Concat", {one, three, five, grouped, pooled}, {{"axis", 1}});
  b.output(b.relu(b.conv(joined, 86, 10, {.kernel = {1, 1}})), "y", DType::kF32, {2, 10, 14, 13});
  check(b, "concat_in_place", {{"x", random_tensor(random, {2, 20, 14, 13})}});
}

TEST(Concat, OfOperandsThatStayWhereTheyAre) {
  std::mt19937 random(6);
  OnnxBuilder b("shortcuts", 4);
  const auto x = b.input("x", DType::kF32, {1, 16, 9, 9});
  const auto sum = b.op("Add", {b.conv(x, 16, 16, {.kernel = {1, 1}}), x});
  const auto shared = b.relu(b.conv(x, 16, 24, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  const auto twice = b.relu(b.conv(x, 16, 8, {.kernel = {1, 1}}));
  const auto first = b.op("Concat", {sum, shared, twice, twice, x}, {{"axis", 1}});
  const auto second = b.op("Concat", {shared, b.conv(first, 72, 5, {.kernel = {1, 1}})}, {{"axis", 1}});
  b.output(first, "first", DType::kF32, {1, 72, 9, 9});
  b.output(second, "second", DType::kF32, {1, 29, 9, 9});
  check(b, "concat_copied", {{"x", random_tensor(random, {1, 16, 9, 9})}});
}

// Parts of a Split that go into a Concat, between parts that are computed on; checked against the definition.
TEST(Concat, OfPartsOfASplit) {
  std::mt19937 random(8);
  OnnxBuilder b("decode", 6);
  const auto x = b.input("x", DType::kF32, {3, 5, 11});
  const auto parts = b.node("Split", {b.relu(x), b.ints({2, 2, 7})}, {{"axis", 2}}, 3);
  const auto doubled = b.op("Mul", {parts[0], b.scalar(2.0f)});
  b.output(b.op("Concat", {parts[2], doubled, parts[1]}, {{"axis", 2}}), "y", DType::kF32, {3, 5, 11});
  const std::string path = temporary_path("split_concat.onnx");
  ASSERT_TRUE(b.save(path).ok());
  const Tensor input = random_tensor(random, {3, 5, 11});
  Tensor expected{{3, 5, 11}, {}};
  for (size_t row = 0; row < 15; ++row) {
    const auto at = [&](size_t k) { return std::max(input.data[row * 11 + k], 0.0f); };
    for (size_t k = 4; k < 11; ++k) expected.data.push_back(at(k));
    for (size_t k = 0; k < 2; ++k) expected.data.push_back(2 * at(k));
    for (size_t k = 2; k < 4; ++k) expected.data.push_back(at(k));
  }
  for (const std::string& target : runnable_targets()) {
    const auto actual = run_road(path, {{"x", input}}, {.target = target});
    ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
    expect_close(actual->at("y"), expected, 0, 0, target);
  }
}

// A model whose results are the same where what is split is a result too, which is written over by nobody.
template <class Make>
void check_beside_shown(const std::string& name, const std::map<std::string, Tensor>& inputs, Make make) {
  const auto path_of = [&](bool shown) { return temporary_path(name + (shown ? "_shown.onnx" : ".onnx")); };
  for (const bool shown : {false, true}) {
    OnnxBuilder b(name, 7);
    int count = 0;
    make(b, [&](const std::string& whole) {
      if (shown) b.output(whole, "whole" + std::to_string(count++), DType::kF32, {});
    });
    ASSERT_TRUE(b.save(path_of(shown)).ok());
  }
  for (const std::string& target : runnable_targets()) {
    for (const int threads : {1, 2}) {
      const auto expected = run_road(path_of(true), inputs, {.target = target, .threads = threads});
      ASSERT_TRUE(expected.ok()) << target << ": " << expected.status().message();
      const auto actual = run_road(path_of(false), inputs, {.target = target, .threads = threads});
      ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
      for (const auto& [output, tensor] : *actual) expect_close(tensor, expected->at(output), 0, 0, target + output);
    }
  }
}

// Parts of a Split that a Concat puts back where they were, as in a detector's decoding of boxes: what is split is made
// in the result, of any number of samples.
TEST(Concat, OfPartsThatStay) {
  std::mt19937 random(12);
  const auto make = [](OnnxBuilder& b, const auto& show) {
    const auto x = b.input("x", DType::kF32, {"n", 3, 5, 44});
    const auto turned = b.op("Transpose", {b.op("Tanh", {x})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    show(turned);
    const auto parts = b.node("Split", {turned, b.ints({2, 3, 29, 10})}, {{"axis", 3}}, 4);
    const auto doubled = b.op("Add", {parts[0], parts[0]}), squared = b.op("Mul", {parts[1], parts[1]});
    const auto joined = b.op("Concat", {doubled, squared, parts[2], parts[3]}, {{"axis", 3}});
    b.output(b.op("Neg", {b.op("Reshape", {joined, b.ints({-1, 15, 44})})}), "y", DType::kF32, {"n", 15, 44});
  };
  check_beside_shown("parts_that_stay", {{"x", random_tensor(random, {4, 3, 5, 44})}}, make);
  EXPECT_EQ(copies_of("parts_that_stay"), 0U);
  EXPECT_EQ(copies_of("parts_that_stay_shown"), 2U);
}

// The same where it cannot be: parts move; another Concat has one too; what is split has another reader; two Concats
// want it; the Concat becomes a part of one itself, whose rows are longer.
TEST(Concat, OfPartsThatDoNotStay) {
  std::mt19937 random(13);
  const auto make = [](OnnxBuilder& b, const auto& show) {
    const auto x = b.input("x", DType::kF32, {"n", 5, 44}), z = b.input("z", DType::kF32, {"n", 5, 26});
    const auto split = [&](const std::string& value) {
      show(value);
      return b.node("Split", {value, b.ints({8, 10, 26})}, {{"axis", 2}}, 3);
    };
    const auto join = [&](const std::vector<std::string>& values) { return b.op("Concat", values, {{"axis", 2}}); };
    const auto doubled = [&](const std::string& value) { return b.op("Add", {value, value}); };
    const auto one = split(b.op("Exp", {x}));
    b.output(join({one[1], doubled(one[0]), one[2]}), "moves", DType::kF32, {"n", 5, 44});
    const auto two = split(b.op("Sigmoid", {x}));
    b.output(join({two[0], doubled(two[1]), z}), "left", DType::kF32, {"n", 5, 44});
    b.output(join({doubled(z), two[2], doubled(two[1])}), "right", DType::kF32, {"n", 5, 62});
    const auto whole = b.op("Softsign", {x});
    const auto three = split(whole);
    b.output(join({doubled(three[0]), three[1], three[2]}), "read", DType::kF32, {"n", 5, 44});
    b.output(b.op("Softmax", {whole}), "too", DType::kF32, {"n", 5, 44});
    const auto four = split(b.op("Elu", {x}));
    b.output(join({doubled(four[0]), doubled(four[1]), four[2]}), "once", DType::kF32, {"n", 5, 44});
    b.output(join({four[0], doubled(four[1]), z}), "again", DType::kF32, {"n", 5, 44});
    const auto five = split(b.op("Selu", {x}));
    const auto inner = join({doubled(five[0]), five[1], five[2]});
    b.output(b.relu(join({inner, b.op("Erf", {x})})), "wider", DType::kF32, {"n", 5, 88});
  };
  check_beside_shown("parts_move", {{"x", random_tensor(random, {3, 5, 44})}, {"z", random_tensor(random, {3, 5, 26})}},
                     make);
}

// What lies in such a result's memory until then: an operand that is made earlier (a Concat that would grow into it, runs
// of its samples) must not be made there.
TEST(Concat, OfWhatIsMadeBeforeThePartsThatStay) {
  std::mt19937 random(15);
  const auto make = [](OnnxBuilder& b, const auto& show) {
    const auto c = b.input("c", DType::kF32, {"n", 16}), d = b.input("d", DType::kF32, {"n", 16});
    const auto p = b.input("p", DType::kF32, {"n", 10, 300});
    const auto split = [&](const std::string& value, int64_t half) {
      const auto whole = b.relu(value);
      show(whole);
      return b.node("Split", {whole, b.ints({half, half})}, {{"axis", 1}}, 2);
    };
    const auto joined = b.op("Concat", {c, d}, {{"axis", 1}});
    const auto rows = split(b.input("y", DType::kF32, {"n", 64}), 32);
    b.output(b.op("Sigmoid", {rows[0]}), "rest", DType::kF32, {"n", 32});
    b.output(b.op("Neg", {b.op("Concat", {joined, rows[1]}, {{"axis", 1}})}), "rows", DType::kF32, {"n", 64});
    const auto part = b.op("Slice", {p, b.ints({1}), b.ints({9}), b.ints({1})});
    const auto samples = split(b.input("z", DType::kF32, {"n", 16, 300}), 8);
    b.output(b.op("Sigmoid", {samples[0]}), "others", DType::kF32, {"n", 8, 300});
    b.output(b.op("Neg", {b.op("Concat", {part, samples[1]}, {{"axis", 1}})}), "samples", DType::kF32, {"n", 16, 300});
  };
  const auto tensor = [&](std::vector<int64_t> shape) { return random_tensor(random, std::move(shape)); };
  check_beside_shown("made_before",
                     {{"c", tensor({3, 16})},
                      {"d", tensor({3, 16})},
                      {"p", tensor({3, 10, 300})},
                      {"y", tensor({3, 64})},
                      {"z", tensor({3, 16, 300})}},
                     make);
}

// The same where such a result is made inside another one itself.
TEST(Concat, OfWhatIsMadeBeforePartsInsideAnother) {
  std::mt19937 random(16);
  const auto make = [](OnnxBuilder& b, const auto& show) {
    const auto c = b.input("c", DType::kF32, {1, 5, 16}), d = b.input("d", DType::kF32, {1, 5, 16});
    const auto joined = b.op("Concat", {c, d}, {{"axis", 2}});
    const auto whole = b.relu(b.input("y", DType::kF32, {1, 5, 64}));
    show(whole);
    const auto parts = b.node("Split", {whole, b.ints({32, 32})}, {{"axis", 2}}, 2);
    b.output(b.op("Sigmoid", {parts[0]}), "rest", DType::kF32, {1, 5, 32});
    const auto over = b.op("Concat", {joined, parts[1]}, {{"axis", 2}});
    const auto outer = b.op("Concat", {over, b.input("e", DType::kF32, {1, 3, 64})}, {{"axis", 1}});
    b.output(b.op("Neg", {outer}), "outer", DType::kF32, {1, 8, 64});
  };
  const auto tensor = [&](std::vector<int64_t> shape) { return random_tensor(random, std::move(shape)); };
  check_beside_shown(
      "inside_another",
      {{"c", tensor({1, 5, 16})}, {"d", tensor({1, 5, 16})}, {"y", tensor({1, 5, 64})}, {"e", tensor({1, 3, 64})}},
      make);
}

// Operands that are runs of the result's samples, of any number of these, are made there by kernels that walk samples
// any distance apart: through Reshapes, and with a Split's parts that stay. Not where an operand is copied, is an input,
// or has other readers.
TEST(Concat, OfRunsOfManySamples) {
  std::mt19937 random(14);
  const auto make = [](OnnxBuilder& b, const auto& show) {
    const auto x = b.input("x", DType::kF32, {"n", 270, 2, 44}), z = b.input("z", DType::kF32, {"n", 8, 44});
    std::vector<std::string> heads;
    for (const char* const function : {"Tanh", "Exp"}) {
      const auto turned = b.op("Transpose", {b.op(function, {x})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
      show(turned);
      const auto parts = b.node("Split", {turned, b.ints({2, 3, 39})}, {{"axis", 3}}, 3);
      const auto doubled = b.op("Add", {parts[0], parts[0]}), squared = b.op("Mul", {parts[1], parts[1]});
      const auto joined = b.op("Concat", {doubled, squared, parts[2]}, {{"axis", 3}});
      heads.push_back(b.op("Reshape", {joined, b.ints({-1, 540, 44})}));
    }
    const auto shared = b.op("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    heads.push_back(b.op("Reshape", {shared, b.ints({-1, 540, 44})}));
    heads.push_back(z);
    b.output(b.op("Neg", {shared}), "shared", DType::kF32, {"n", 2, 270, 44});
    b.output(b.op("Concat", heads, {{"axis", 1}}), "y", DType::kF32, {"n", 1628, 44});
  };
  for (const int64_t n : {5, 1, 0}) {
    const auto tensor = [&](std::vector<int64_t> shape) { return random_tensor(random, std::move(shape)); };
    check_beside_shown("runs_of_samples", {{"x", tensor({n, 270, 2, 44})}, {"z", tensor({n, 8, 44})}}, make);
  }
  EXPECT_EQ(copies_of("runs_of_samples"), 2U);        // of `shared` and z
  EXPECT_EQ(copies_of("runs_of_samples_shown"), 6U);  // of all operands, and of two parts
}

// A block as in DenseNet: every layer's input continues the one before.
TEST(Concat, DenseBlock) {
  std::mt19937 random(7);
  OnnxBuilder b("dense", 5);
  auto x = b.input("x", DType::kF32, {1, 16, 8, 8});
  std::vector<std::string> features{x};
  for (int layer = 0; layer < 3; ++layer) {
    const auto all = features.size() == 1 ? x : b.op("Concat", features, {{"axis", 1}});
    features.push_back(b.conv(b.relu(all), 16 + 12 * layer, 12, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .gain = 1.0}));
  }
  b.output(b.op("Concat", features, {{"axis", 1}}), "y", DType::kF32, {1, 52, 8, 8});
  check(b, "dense_block", {{"x", random_tensor(random, {1, 16, 8, 8})}});
}

// The same with BatchNormalization in front of each layer, whose launches read rows wherever they are: all layers' inputs
// are one memory. Several samples, which run one by one; the result of the block and one layer's input are read by
// others too.
TEST(Concat, DenseBlockInOneMemory) {
  std::mt19937 random(9);
  OnnxBuilder b("normalised", 8);
  const auto x = b.input("x", DType::kF32, {3, 16, 8, 8});
  std::vector<std::string> features{x};
  int64_t channels = 16;
  std::string all = x;
  const auto normalised = [&](const std::string& value) {
    std::vector<std::string> parameters{value};
    for (const float low : {0.5f, -0.5f, -0.5f, 0.5f})
      parameters.push_back(
          b.initializer(models::TensorData::f32({channels}, random_tensor(random, {channels}, low, low + 1).data)));
    return b.relu(b.op("BatchNormalization", parameters));
  };
  for (int layer = 0; layer < 4; ++layer) {
    features.push_back(b.conv(normalised(all), channels, 12, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .gain = 1.0}));
    channels += 12;
    all = b.op("Concat", features, {{"axis", 1}});
    if (layer == 1) b.output(b.op("GlobalMaxPool", {all}), "early", DType::kF32, {3, 40, 1, 1});
  }
  b.output(b.op("GlobalMaxPool", {normalised(all)}), "y", DType::kF32, {3, 64, 1, 1});
  check(b, "dense_block_in_one_memory", {{"x", random_tensor(random, {3, 16, 8, 8})}});
  // Copied are x, and what the other one reads.
  EXPECT_EQ(copies_of("dense_block_in_one_memory"), 2U);
}

// Operands of one sample that are runs of the result are made there, by kernels and through a Reshape by another Concat;
// not what others read, an input, or what is given twice. A sum does not take over memory that is not its own then.
TEST(Concat, OfRunsOfOneSample) {
  std::mt19937 random(10);
  OnnxBuilder b("heads", 9);
  const auto x = b.input("x", DType::kF32, {1, 6, 8}), z = b.input("z", DType::kF32, {1, 6, 8});
  const auto both = b.op("Add", {b.op("Exp", {x}), z});
  const auto pair = b.op("Concat", {b.op("Tanh", {x}), b.op("Sigmoid", {z}), x}, {{"axis", 2}});
  const auto rows = b.op("Reshape", {pair, b.ints({1, 18, 8})});
  const auto shared = b.relu(z), twice = b.op("Neg", {x});
  const auto joined = b.op("Concat", {rows, both, shared, twice, twice, z}, {{"axis", 1}});
  b.output(b.op("Mul", {joined, b.scalar(2.0f)}), "y", DType::kF32, {1, 48, 8});
  b.output(joined, "joined", DType::kF32, {1, 48, 8});
  b.output(b.op("Mul", {shared, b.scalar(3.0f)}), "shared", DType::kF32, {1, 6, 8});
  check(b, "runs_of_one_sample", {{"x", random_tensor(random, {1, 6, 8})}, {"z", random_tensor(random, {1, 6, 8})}});
  EXPECT_EQ(copies_of("runs_of_one_sample"), 7U);  // three of `pair`, and four of `joined`
}

// The operand is made before anyone knows how long the result is: it cannot be made there.
TEST(Concat, OfARunBeforeWhatDataDecide) {
  std::mt19937 random(11);
  OnnxBuilder b("class_token", 4);
  const auto x = b.input("x", DType::kF32, {1, 8}), y = b.input("y", DType::kF32, {5, 8}),
             keep = b.input("keep", DType::kF32, {5});
  const auto token = b.op("Softmax", {x}, {{"axis", -1}});
  const auto kept = b.op("Compress", {y, b.op("Cast", {keep}, {{"to", 9}})}, {{"axis", 0}});
  const auto joined = b.op("Concat", {token, b.op("Softmax", {kept}, {{"axis", -1}})}, {{"axis", 0}});
  b.output(b.op("Mul", {joined, b.scalar(2.0f)}), "z", DType::kF32, {"", 8});
  const std::string path = temporary_path("class_token.onnx");
  ASSERT_TRUE(b.save(path).ok());
  const std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, {1, 8})},
                                                {"y", random_tensor(random, {5, 8})},
                                                {"keep", Tensor{{5}, {0, 1, 1, 0, 1}}}};
  Tensor expected{{4, 8}, {}};
  const auto add = [&](const Tensor& rows, size_t row) {
    double sum = 0;
    for (size_t k = 0; k < 8; ++k) sum += std::exp(static_cast<double>(rows.data[8 * row + k]));
    for (size_t k = 0; k < 8; ++k)
      expected.data.push_back(static_cast<float>(2 * std::exp(static_cast<double>(rows.data[8 * row + k])) / sum));
  };
  add(inputs.at("x"), 0);
  for (const size_t row : {1, 2, 4}) add(inputs.at("y"), row);
  expect_on_targets(path, inputs, {{"z", expected}}, 1e-5, 1e-6);
}

}  // namespace
}  // namespace aipu::test
