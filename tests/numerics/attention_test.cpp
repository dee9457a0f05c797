// Attention (templates/attention.py) against a reference in double precision written from its definition: odd extents,
// head sizes that are no multiple of a vector, masks and scales of all kinds, transposed and plain operands, on every
// target this machine can run, with one thread and two, and under the interpreter. And what must not become one kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/numerics/attention_cases.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::OnnxBuilder;
using models::TensorData;

void check(const AttentionCase& c, unsigned seed, const std::vector<std::string>& targets = runnable_targets()) {
  SCOPED_TRACE(text(c));
  std::mt19937 random(seed);
  const AttentionOperands o = random_operands(c, random);
  const std::string path = temporary_path("attention" + std::to_string(seed) + ".onnx");
  const auto inputs = save_model(c, o, path);
  const Tensor expected = c.transposed ? swapped(reference(c, o)) : reference(c, o);
  ASSERT_EQ(count_groups(path, "attention"), 1);
  for (const std::string& target : targets) {
    const auto two = run_road(path, inputs, {.target = target, .threads = 2});
    ASSERT_TRUE(two.ok()) << target << ": " << two.status().message();
    expect_close(two->at("y"), expected, 2e-5, 2e-5, target);
    const auto one = run_road(path, inputs, {.target = target, .threads = 1});
    ASSERT_TRUE(one.ok()) << target << ": " << one.status().message();
    expect_close(one->at("y"), two->at("y"), 0, 0, target + ", one thread");
  }
}

TEST(Attention, EveryFormOfMaskAndScale) {
  unsigned seed = 1;
  check({2, 3, 33, 33, 20, 20, "none", {}, 0.25}, seed++);
  check({2, 2, 37, 37, 16, 16, "add", {2, 1, 1, 37}, 4, true}, seed++);
  check({1, 2, 40, 40, 24, 9, "add", {40, 40}, 0}, seed++);
  check({2, 2, 19, 19, 8, 8, "add", {2, 2, 19, 19}, 0.3}, seed++);
  check({1, 2, 21, 21, 8, 8, "add", {21, 1}, 0.3}, seed++);
  check({2, 1, 45, 45, 12, 12, "keep", {1, 1, 45, 45}, 3, true}, seed++);
  check({1, 3, 18, 18, 12, 12, "drop", {1, 1, 1, 18}, 0}, seed++);
}

TEST(Attention, MoreKeysThanABlockAndMaximaThatGrow) {
  check({1, 1, 17, 300, 7, 33, "none", {}, 0, false, true, false, false, 30}, 21);
  check({1, 2, 131, 131, 5, 3, "add", {131, 131}, 0.5, false, true, false, true}, 22);
  check({1, 1, 260, 260, 32, 32, "add", {1, 1, 260, 260}, 0.5, false, false, false, true, 20}, 23);
}

TEST(Attention, PlainOperandsAndSymbolicExtents) {
  check({2, 2, 35, 35, 18, 18, "none", {}, 0.5, false, false}, 31);
  check({3, 2, 23, 23, 18, 18, "none", {}, 0.5, false, true, true}, 32);
  check({1, 1, 3, 3, 64, 64, "none", {}, 0.125, false, false, true}, 33);
  check({2, 4, 1, 1, 16, 16, "none", {}, 0.125, false, true, true}, 34);
}

TEST(Attention, RandomShapes) {
  std::mt19937 random(77);
  const auto number = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (unsigned i = 0; i < 10; ++i) {
    AttentionCase c{number(1, 2),   number(1, 3),  number(i < 5 ? 16 : 1, i < 5 ? 70 : 15),
                    number(1, 180), number(1, 40), number(1, 40)};
    const std::string kMasks[] = {"none", "add", "keep", "drop"};
    c.mask = kMasks[number(0, 3)];
    for (const int64_t extent : {c.batch, c.heads, c.queries, c.keys})
      c.mask_shape.push_back(number(0, 1) == 0 ? extent : 1);
    c.scale = number(0, 1) == 0 ? 0 : 0.37;
    c.divide = number(0, 1) == 0;
    c.transposed = number(0, 1) == 0;
    check(c, 100 + i);
  }
}

TEST(Attention, TheInterpreterAgrees) {
  for (const AttentionCase& c : {AttentionCase{1, 2, 20, 20, 9, 7, "add", {20, 20}, 0.3},
                                 AttentionCase{1, 2, 3, 21, 9, 7, "add", {3, 21}, 0.3}}) {
    std::mt19937 random(5);
    const AttentionOperands o = random_operands(c, random);
    const std::string path = temporary_path("attention_interp.onnx");
    const auto inputs = save_model(c, o, path);
    for (const std::string target : {"host-baseline", "X2_1204"}) {
      const auto compiled = run_road(path, inputs, {.target = target});
      const auto interpreted = run_road(path, inputs, {.target = target, .backend = "interp"});
      ASSERT_TRUE(compiled.ok() && interpreted.ok()) << compiled.status().message() << interpreted.status().message();
      expect_close(interpreted->at("y"), compiled->at("y"), 1e-5, 1e-6, target);
      expect_close(interpreted->at("y"), swapped(reference(c, o)), 2e-5, 2e-5, target);
    }
  }
}

TEST(Attention, ScoresThatAreUsedElsewhereAreNotTaken) {
  const AttentionCase c{1, 2, 20, 20, 9, 7, "none", {}, 0.3};
  std::mt19937 random(6);
  const AttentionOperands o = random_operands(c, random);
  const std::string path = temporary_path("attention_scores.onnx");
  const auto inputs = save_model(c, o, path, true);
  EXPECT_EQ(count_groups(path, "attention"), 0);
  const auto results = run_road(path, inputs, {.target = "host-baseline"});
  ASSERT_TRUE(results.ok()) << results.status().message();
  expect_close(results->at("y"), swapped(reference(c, o)), 2e-5, 2e-5, "y");
  EXPECT_EQ(results->at("scores").shape, (std::vector<int64_t>{1, 2, 20, 20}));
}

// On an NPU keys and values come to local memory block by block, of one key to all; with wide heads they do not fit.
TEST(Attention, BlocksInLocalMemory) {
  const std::vector<std::string> npu = {"X2_1204"};
  unsigned seed = 60;
  check({1, 2, 17, 1, 64, 64, "none", {}, 0.3}, seed++, npu);
  check({2, 3, 33, 128, 64, 64, "add", {33, 128}, 0.125}, seed++, npu);
  check({1, 2, 40, 131, 24, 40, "add", {1, 1, 1, 131}, 0.3, false, false}, seed++, npu);
  check({2, 2, 19, 45, 5, 7, "keep", {2, 1, 19, 45}, 0.3, true, false}, seed++, npu);
  check({1, 2, 19, 77, 16, 16, "none", {}, 0.3, false, true, true}, seed++, npu);
  check({1, 1, 20, 50, 200, 200, "none", {}, 0.1}, seed++, npu);
}

// A decoder's step with cached keys, templates/attention_step.py.
TEST(Attention, FewQueriesAgainstManyKeys) {
  unsigned seed = 200;
  check({1, 2, 1, 50, 8, 8, "none", {}, 0.3}, seed++);
  check({2, 3, 1, 129, 64, 64, "none", {}, 0.125, false, false}, seed++);
  check({1, 12, 4, 33, 20, 37, "none", {}, 0.25}, seed++);
  check({1, 3, 15, 31, 33, 70, "none", {}, 4, true, false}, seed++);
  check({1, 2, 3, 1, 7, 5, "none", {}, 0}, seed++);
  check({2, 2, 5, 15, 16, 16, "none", {}, 0}, seed++);
}

TEST(Attention, FewQueriesUnderMasks) {
  unsigned seed = 220;
  check({2, 2, 3, 37, 16, 16, "add", {2, 1, 1, 37}, 4, true}, seed++);
  check({1, 2, 6, 40, 24, 9, "add", {6, 40}, 0}, seed++);
  check({2, 2, 1, 19, 8, 8, "add", {2, 2, 1, 19}, 0.3}, seed++);
  check({1, 2, 7, 21, 8, 8, "add", {7, 1}, 0.3}, seed++);
  check({2, 1, 9, 45, 12, 12, "keep", {1, 1, 9, 45}, 3, true}, seed++);
  check({1, 3, 2, 18, 12, 12, "drop", {1, 1, 1, 18}, 0}, seed++);
  check({1, 2, 11, 131, 5, 3, "add", {11, 131}, 0.5, false, true, false, true}, seed++);
}

// More than a block of keys, and (with few heads) more than one range of them.
TEST(Attention, FewQueriesInBlocksAndRangesOfKeys) {
  unsigned seed = 240;
  check({1, 8, 2, 300, 7, 33, "none", {}, 0, false, true, false, false, 30}, seed++);
  check({1, 1, 1, 1030, 16, 16, "none", {}, 0, false, true, false, false, 30}, seed++);
  check({1, 3, 5, 777, 9, 18, "add", {5, 777}, 0.5, false, false, false, true, 20}, seed++);
}

// Whether queries are few is known at run time only.
TEST(Attention, NumbersOfQueriesAndKeysThatAreSymbols) {
  unsigned seed = 250;
  check({2, 2, 1, 70, 12, 12, "none", {}, 0.5, false, true, true}, seed++);
  check({1, 1, 15, 530, 12, 12, "none", {}, 0.5, false, false, true}, seed++);
  check({2, 3, 16, 40, 18, 18, "none", {}, 0.5, false, true, true}, seed++);
  check({1, 2, 50, 20, 18, 18, "none", {}, 0.5, false, false, true}, seed++);
}

// The second product is a sum of nothing: zeros.
TEST(Attention, WithoutKeysResultsAreZero) {
  for (const int64_t queries : {1, 20}) {
    const AttentionCase c{1, 2, queries, 0, 8, 8, "none", {}, 0.3, false, false, true};
    std::mt19937 random(11);
    const AttentionOperands o = random_operands(c, random);
    const std::string path = temporary_path("attention_no_keys.onnx");
    const auto inputs = save_model(c, o, path);
    std::vector<std::string> targets = runnable_targets();
    targets.emplace_back("X2_1204");
    for (const std::string& target : targets) {
      const auto results = run_road(path, inputs, {.target = target});
      ASSERT_TRUE(results.ok()) << target << ": " << results.status().message();
      const Tensor zeros{{1, 2, queries, 8}, std::vector<float>(static_cast<size_t>(2 * queries * 8))};
      expect_close(results->at("y"), zeros, 0, 0, target);
    }
  }
}

// Keys and values are what is cached and the step's own, given out for the next step.
TEST(Attention, AStepWhoseCachesAreConcatenated) {
  const AttentionCase c{2, 3, 1, 46, 16, 16, "none", {}, 0.25, false, false};
  std::mt19937 random(10);
  const AttentionOperands o = random_operands(c, random);
  const auto part = [](const Tensor& x, int64_t first, int64_t count) {  // of the keys
    Tensor y{{x.shape[0], x.shape[1], count, x.shape[3]}, {}};
    for (int64_t head = 0; head < x.shape[0] * x.shape[1]; ++head) {
      const auto begin = x.data.begin() + (head * x.shape[2] + first) * x.shape[3];
      y.data.insert(y.data.end(), begin, begin + count * x.shape[3]);
    }
    return y;
  };
  const std::map<std::string, Tensor> inputs{{"q", o.q},
                                             {"past_k", part(o.k, 0, c.keys - 1)},
                                             {"past_v", part(o.v, 0, c.keys - 1)},
                                             {"k", part(o.k, c.keys - 1, 1)},
                                             {"v", part(o.v, c.keys - 1, 1)}};
  OnnxBuilder b("attention", 3);
  for (const auto& [name, tensor] : inputs) {
    const bool cached = name.size() > 1;
    b.input(name, DType::kF32,
            {"N", tensor.shape[1], cached ? Extents::value_type("P") : Extents::value_type("S"), tensor.shape[3]});
  }
  b.node_to("Concat", {"past_k", "k"}, {"present_k"}, {{"axis", int64_t{2}}});
  b.node_to("Concat", {"past_v", "v"}, {"present_v"}, {{"axis", int64_t{2}}});
  const std::string scores =
      b.op("Mul", {b.op("MatMul", {"q", b.transpose("present_k", {0, 1, 3, 2})}), b.scalar(0.25f)});
  b.node_to("MatMul", {b.op("Softmax", {scores}, {{"axis", -1}}), "present_v"}, {"y"});
  for (const char* name : {"y", "present_k", "present_v"}) b.output(name);
  const std::string path = temporary_path("attention_caches.onnx");
  ASSERT_TRUE(b.save(path).ok());
  ASSERT_EQ(count_groups(path, "attention"), 1);
  for (const std::string& target : runnable_targets()) {
    const auto results = run_road(path, inputs, {.target = target});
    ASSERT_TRUE(results.ok()) << target << ": " << results.status().message();
    expect_close(results->at("y"), reference(c, o), 2e-5, 2e-5, target);
    expect_close(results->at("present_k"), o.k, 0, 0, target);
  }
}

// How exporters take queries, keys and values out of one tensor.
enum class Parts { kSplitOfColumns, kSplitOfFirst, kGathersOfFirst, kSplitOfHeads };

struct Moved {
  Parts parts;
  bool keys_escape = false;  // the keys are an output, too
  std::string quantised{};   // "", "before" or "behind" the Transpose of the result
  bool everywhere = false;   // compiled by gcc, by clang, and interpreted
};

// [batch, extent, heads, channels] side by side: three of a head next to each other (kSplitOfHeads), or all heads.
Tensor side_by_side(const std::vector<Tensor>& parts, bool by_head) {
  const auto& shape = parts[0].shape;
  const int64_t heads = shape[2], depth = shape[3];
  Tensor x{{shape[0], shape[1], 3 * heads * depth}, std::vector<float>(3 * parts[0].data.size())};
  for (int64_t row = 0; row < shape[0] * shape[1]; ++row) {
    for (int64_t part = 0; part < 3; ++part) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t place = by_head ? h * 3 + part : part * heads + h;
        const auto from = parts[static_cast<size_t>(part)].data.begin() + (row * heads + h) * depth;
        std::copy(from, from + depth, x.data.begin() + (row * 3 * heads + place) * depth);
      }
    }
  }
  return x;
}

void check_moved(const AttentionCase& c, const Moved& moved) {
  SCOPED_TRACE(text(c) + " parts " + std::to_string(static_cast<int>(moved.parts)) + " " + moved.quantised);
  std::mt19937 random(13);
  const AttentionOperands o = random_operands(c, random);
  const bool by_head = moved.parts == Parts::kSplitOfHeads;
  const std::map<std::string, Tensor> inputs{{"x", side_by_side({swapped(o.q), swapped(o.k), swapped(o.v)}, by_head)}};
  OnnxBuilder b("attention", 3);
  const std::string x = b.input(
      "x", DType::kF32,
      c.symbolic ? Extents{"N", "S", 3 * c.heads * c.depth} : Extents{c.batch, c.queries, 3 * c.heads * c.depth});
  std::vector<std::string> parts;
  if (moved.parts == Parts::kSplitOfColumns) {
    for (const std::string& part : b.node("Split", {x}, {{"axis", -1}}, 3)) {
      const std::string rows = b.op("Reshape", {part, b.ints({0, 0, c.heads, c.depth})});
      parts.push_back(b.transpose(rows, {0, 2, 1, 3}));
    }
  } else if (moved.parts == Parts::kSplitOfHeads) {
    const std::string rows = b.op("Reshape", {x, b.ints({0, 0, c.heads, 3 * c.depth})});
    for (const std::string& part : b.node("Split", {rows}, {{"axis", 3}}, 3))
      parts.push_back(b.transpose(part, {0, 2, 1, 3}));
  } else {
    const std::string rows = b.op("Reshape", {x, b.ints({0, 0, 3, c.heads, c.depth})});
    const std::string first = b.transpose(rows, {2, 0, 3, 1, 4});
    if (moved.parts == Parts::kSplitOfFirst) {
      for (const std::string& part : b.node("Split", {first}, {{"axis", 0}}, 3))
        parts.push_back(b.op("Squeeze", {part, b.ints({0})}));
    } else {
      for (int64_t i = 0; i < 3; ++i)
        parts.push_back(b.op("Gather", {first, b.initializer(TensorData::i64({}, {i}))}, {{"axis", 0}}));
    }
  }
  // The scale on both sides, as some have it.
  const std::string q = b.op("Mul", {parts[0], b.scalar(static_cast<float>(c.scale))});
  const std::string k = b.op("Div", {b.transpose(parts[1], {0, 1, 3, 2}), b.scalar(0.5f)});
  std::string y = b.op("MatMul", {b.op("Softmax", {b.op("MatMul", {q, k})}, {{"axis", -1}}), parts[2]});
  const std::string zero = b.initializer(TensorData::of<uint8_t>(DType::kU8, {}, {120}));
  constexpr float kStep = 0.01f;
  const auto quantise = [&] { y = b.op("QuantizeLinear", {y, b.scalar(kStep), zero}); };
  if (moved.quantised == "before") quantise();
  y = b.transpose(y, {0, 2, 1, 3});
  if (moved.quantised == "behind") quantise();
  if (!moved.quantised.empty()) y = b.op("DequantizeLinear", {y, b.scalar(kStep), zero});
  b.node_to("Identity", {y}, {"y"});
  b.output("y");
  if (moved.keys_escape) {
    b.node_to("Identity", {parts[1]}, {"keys"});
    b.output("keys");
  }
  const std::string path = temporary_path("attention_moved.onnx");
  ASSERT_TRUE(b.save(path).ok());
  EXPECT_EQ(count_groups(path, "attention"), 1);
  EXPECT_EQ(count_groups(path, "attention", "QuantizeLinear"), moved.quantised.empty() ? 0 : 1);
  // Behind a QuantizeLinear a Transpose may be left.
  if (moved.quantised.empty() && !moved.keys_escape) {
    for (const char* plugin : {"split", "strided_copy", "gather", "elementwise"})
      EXPECT_EQ(count_groups(path, plugin), 0) << plugin;
  }
  AttentionCase doubled = c;
  doubled.scale = 2 * c.scale;
  const Tensor expected = swapped(reference(doubled, o));
  const double tolerance = moved.quantised.empty() ? 2e-5 : kStep * 0.51;
  if (moved.everywhere) {
    const auto all = runnable_targets();
    expect_everywhere(b, {"attention_everywhere", inputs, {{"y", expected}}, tolerance}, {all.front(), all.back()});
  }
  for (const std::string& target : runnable_targets()) {
    const auto results = run_road(path, inputs, {.target = target});
    ASSERT_TRUE(results.ok()) << target << ": " << results.status().message();
    expect_close(results->at("y"), expected, moved.quantised.empty() ? tolerance : 0, tolerance, target);
    if (!moved.quantised.empty()) {
      for (const float element : results->at("y").data)
        EXPECT_NEAR(element / kStep, std::nearbyint(element / kStep), 1e-3) << target;
    }
    if (moved.keys_escape) expect_close(results->at("keys"), o.k, 0, 0, target);
  }
}

TEST(Attention, PartsOfOneTensorAreReadInPlace) {
  check_moved({2, 3, 37, 37, 20, 20, "none", {}, 0.25}, {Parts::kSplitOfColumns});
  check_moved({2, 2, 33, 33, 16, 16, "none", {}, 0.25, false, true, true}, {Parts::kSplitOfFirst});
  check_moved({1, 3, 70, 70, 9, 9, "none", {}, 0.3}, {Parts::kGathersOfFirst});
  check_moved({2, 2, 41, 41, 16, 16, "none", {}, 0.25, false, true, true}, {Parts::kSplitOfHeads});
  check_moved({2, 3, 3, 3, 20, 20, "none", {}, 0.25}, {Parts::kSplitOfColumns});
}

// Then they are computed, and read from where they are.
TEST(Attention, PartsThatOthersReadToo) {
  check_moved({2, 3, 37, 37, 20, 20, "none", {}, 0.25}, {Parts::kGathersOfFirst, true});
}

TEST(Attention, ResultsAreStoredAsIntegers) {
  check_moved({2, 3, 37, 37, 20, 20, "none", {}, 0.25}, {Parts::kSplitOfColumns, false, "before", true});
  check_moved({2, 2, 33, 33, 16, 16, "none", {}, 0.25, false, true, true}, {Parts::kSplitOfFirst, false, "behind"});
  check_moved({1, 3, 5, 5, 40, 40, "none", {}, 0.3}, {Parts::kSplitOfHeads, false, "before"});
}

// One head of keys and values for all heads of queries, with keys that are given as [channel, key].
void check_broadcast_keys(const AttentionCase& c) {
  std::mt19937 random(9);
  AttentionOperands o = random_operands(c, random);
  const Tensor k = random_tensor(random, {2, 1, c.depth, c.keys});
  o.k = Tensor{{2, 1, c.keys, c.depth}, std::vector<float>(k.data.size())};
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < c.keys; ++i) {
      for (int64_t d = 0; d < c.depth; ++d)
        o.k.data[static_cast<size_t>((b * c.keys + i) * c.depth + d)] =
            k.data[static_cast<size_t>((b * c.depth + d) * c.keys + i)];
    }
  }
  o.v = random_tensor(random, {2, 1, c.keys, c.channels});
  const std::map<std::string, Tensor> inputs{{"q", o.q}, {"k", k}, {"v", swapped(o.v)}};
  OnnxBuilder b("attention", 3);
  for (const auto& [name, tensor] : inputs)
    b.input(name, DType::kF32, Extents(tensor.shape.begin(), tensor.shape.end()));
  const std::string weights = b.op("Softmax", {b.op("MatMul", {"q", "k"})}, {{"axis", -1}});
  b.node_to("MatMul", {weights, b.transpose("v", {0, 2, 1, 3})}, {"y"});
  b.output("y");
  const std::string path = temporary_path("attention_broadcast.onnx");
  ASSERT_TRUE(b.save(path).ok());
  ASSERT_EQ(count_groups(path, "attention"), 1);
  for (const std::string& target : runnable_targets()) {
    const auto results = run_road(path, inputs, {.target = target});
    ASSERT_TRUE(results.ok()) << target << ": " << results.status().message();
    expect_close(results->at("y"), reference(c, o), 2e-5, 2e-5, target);
  }
}

TEST(Attention, KeysAndValuesAreBroadcastOverHeads) {
  check_broadcast_keys({2, 3, 26, 26, 10, 10, "none", {}, 0, false, false});
  check_broadcast_keys({2, 3, 2, 91, 10, 10, "none", {}, 0, false, false});
  check_broadcast_keys({2, 3, 5, 7, 10, 35, "none", {}, 0, false, false});
}

TEST(Attention, AMaskThatIsComputedAtOnceWithTheAdditionStaysRight) {
  // The chain in front of the Add has the scores' shape and may take the Add along: then nothing of the pattern is one
  // kernel.
  const AttentionCase c{1, 2, 20, 20, 9, 7, "add", {1, 2, 20, 20}, 0, false, false};
  std::mt19937 random(8);
  AttentionOperands o = random_operands(c, random);
  OnnxBuilder b("attention", 3);
  std::map<std::string, Tensor> inputs{{"mask", o.mask}, {"q", o.q}, {"k", o.k}, {"v", o.v}};
  const auto declare = [&](const std::string& name) {
    b.input(name, DType::kF32, Extents(inputs[name].shape.begin(), inputs[name].shape.end()));
  };
  for (const auto& [name, tensor] : inputs) declare(name);
  const std::string mask = b.op("Mul", {b.op("Abs", {"mask"}), b.scalar(-2)});
  for (float& element : o.mask.data) element = std::abs(element) * -2;
  const std::string scores = b.op("Add", {b.op("MatMul", {"q", b.transpose("k", {0, 1, 3, 2})}), mask});
  b.node_to("MatMul", {b.op("Softmax", {scores}, {{"axis", -1}}), "v"}, {"y"});
  b.output("y");
  const std::string path = temporary_path("attention_mask.onnx");
  ASSERT_TRUE(b.save(path).ok());
  const auto results = run_road(path, inputs, {.target = "host-baseline"});
  ASSERT_TRUE(results.ok()) << results.status().message();
  expect_close(results->at("y"), reference(c, o), 2e-5, 2e-5, "y");
}

}  // namespace
}  // namespace aipu::test
