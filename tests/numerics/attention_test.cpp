// Attention (templates/attention.py) against a reference in double precision written from its definition: odd extents,
// head sizes that are no multiple of a vector, masks and scales of all kinds, transposed and plain operands, on every
// target this machine can run, with one thread and two, and under the interpreter. And what must not become one kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "gbuilder/build.h"
#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::OnnxBuilder;
using models::TensorData;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  int64_t batch, heads, queries, keys, depth, channels;
  std::string mask = "none";          // none, add, keep, drop
  std::vector<int64_t> mask_shape{};  // broadcast to [batch, heads, queries, keys]
  double scale = 0;                   // 0: no node
  bool divide = false;                // the scale is a Div
  // operands and result are [batch, extent, heads, channels] behind and in front of Transposes
  bool transposed = true;
  bool symbolic = false;  // batch and sequence (two of them where queries and keys are not equally many)
  bool blocked = false;   // the mask forbids some rows everything, others all but the last keys
  float range = 1;        // of queries
};

std::string text(const Case& c) {
  std::ostringstream out;
  out << "batch " << c.batch << " heads " << c.heads << " queries " << c.queries << " keys " << c.keys << " depth "
      << c.depth << " channels " << c.channels << " mask " << c.mask << " scale " << c.scale
      << (c.transposed ? " transposed" : "") << (c.symbolic ? " symbolic" : "");
  return out.str();
}

// [batch, heads, extent, channels] <-> [batch, extent, heads, channels]
Tensor swapped(const Tensor& x) {
  Tensor y{{x.shape[0], x.shape[2], x.shape[1], x.shape[3]}, std::vector<float>(x.data.size())};
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t i = 0; i < x.shape[1]; ++i) {
      for (int64_t j = 0; j < x.shape[2]; ++j) {
        for (int64_t k = 0; k < x.shape[3]; ++k) {
          y.data[static_cast<size_t>(((b * x.shape[2] + j) * x.shape[1] + i) * x.shape[3] + k)] =
              x.data[static_cast<size_t>(((b * x.shape[1] + i) * x.shape[2] + j) * x.shape[3] + k)];
        }
      }
    }
  }
  return y;
}

struct Operands {
  Tensor q, k, v, mask;  // [batch, heads, extent, channels]; the mask's elements are 0 and 1 where it selects
};

constexpr float kFill = -1e4f;

Tensor reference(const Case& c, const Operands& o) {
  Tensor out{{c.batch, c.heads, c.queries, c.channels}, {}};
  const auto at = [](const Tensor& x, std::vector<int64_t> index) {
    int64_t place = 0;
    for (size_t i = 0; i < x.shape.size(); ++i) {
      const int64_t n = index[index.size() - x.shape.size() + i];
      place = place * x.shape[i] + (x.shape[i] == 1 ? 0 : n);
    }
    return static_cast<double>(x.data[static_cast<size_t>(place)]);
  };
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t q = 0; q < c.queries; ++q) {
        std::vector<double> scores;
        for (int64_t k = 0; k < c.keys; ++k) {
          double sum = 0;
          for (int64_t d = 0; d < c.depth; ++d) sum += at(o.q, {b, h, q, d}) * at(o.k, {b, h, k, d});
          if (c.scale != 0) sum = c.divide ? sum / static_cast<float>(c.scale) : sum * static_cast<float>(c.scale);
          if (c.mask == "add") sum += at(o.mask, {b, h, q, k});
          if (c.mask == "keep" && at(o.mask, {b, h, q, k}) == 0) sum = kFill;
          if (c.mask == "drop" && at(o.mask, {b, h, q, k}) != 0) sum = kFill;
          scores.push_back(sum);
        }
        const double peak = *std::max_element(scores.begin(), scores.end());
        double total = 0;
        for (double& score : scores) total += score = std::exp(score - peak);
        for (int64_t d = 0; d < c.channels; ++d) {
          double sum = 0;
          for (int64_t k = 0; k < c.keys; ++k) sum += scores[static_cast<size_t>(k)] * at(o.v, {b, h, k, d});
          out.data.push_back(static_cast<float>(sum / total));
        }
      }
    }
  }
  return out;
}

Operands random_operands(const Case& c, std::mt19937& random) {
  Operands o;
  o.q = random_tensor(random, {c.batch, c.heads, c.queries, c.depth}, -c.range, c.range);
  o.k = random_tensor(random, {c.batch, c.heads, c.keys, c.depth});
  o.v = random_tensor(random, {c.batch, c.heads, c.keys, c.channels});
  if (c.mask == "none") return o;
  o.mask = random_tensor(random, c.mask_shape, -4, 4);
  if (c.mask != "add") {
    for (float& element : o.mask.data) element = element > 0 ? 1.0f : 0.0f;
  }
  if (c.blocked) {
    const auto rows = static_cast<int64_t>(o.mask.data.size()) / c.keys;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t allowed = row % 5 == 0 ? 0 : row % 5 == 1 ? 1 : c.keys;
      for (int64_t k = 0; k < c.keys - allowed; ++k) o.mask.data[static_cast<size_t>(row * c.keys + k)] = -kInfinity;
    }
  }
  return o;
}

// The model, and its inputs as it wants them.
std::map<std::string, Tensor> save_model(const Case& c, const Operands& o, const std::string& path,
                                         bool scores_escape = false) {
  OnnxBuilder b("attention", 3);
  const auto extents = [&](const Tensor& x, const char* length) {
    if (!c.symbolic) return Extents{x.shape[0], x.shape[1], x.shape[2], x.shape[3]};
    return c.transposed ? Extents{"N", length, x.shape[2], x.shape[3]} : Extents{"N", x.shape[1], length, x.shape[3]};
  };
  std::map<std::string, Tensor> inputs;
  inputs["q"] = c.transposed ? swapped(o.q) : o.q;
  inputs["k"] = c.transposed ? swapped(o.k) : o.k;
  inputs["v"] = c.transposed ? swapped(o.v) : o.v;
  const char* keys = c.keys == c.queries ? "S" : "P";
  for (auto& [name, tensor] : inputs) b.input(name, DType::kF32, extents(tensor, name == "q" ? "S" : keys));
  const std::string q = c.transposed ? b.transpose("q", {0, 2, 1, 3}) : "q";
  const std::string k =
      b.transpose("k", c.transposed ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 1, 3, 2});
  const std::string v = c.transposed ? b.transpose("v", {0, 2, 1, 3}) : "v";
  const std::string product = b.op("MatMul", {q, k});
  std::string scores = product;
  if (c.scale != 0) scores = b.op(c.divide ? "Div" : "Mul", {scores, b.scalar(static_cast<float>(c.scale))});
  if (c.mask != "none") {
    inputs["mask"] = o.mask;
    b.input("mask", DType::kF32, Extents(o.mask.shape.begin(), o.mask.shape.end()));
    if (c.mask == "add") {
      scores = b.op("Add", {scores, "mask"});
    } else {
      const std::string flags = b.op("Greater", {"mask", b.scalar(0.5f)});
      scores = c.mask == "keep" ? b.op("Where", {flags, scores, b.scalar(kFill)})
                                : b.op("Where", {flags, b.scalar(kFill), scores});
    }
  }
  std::string out = b.op("MatMul", {b.op("Softmax", {scores}, {{"axis", -1}}), v});
  if (c.transposed) out = b.transpose(out, {0, 2, 1, 3});
  b.node_to("Identity", {out}, {"y"});
  b.output("y");
  if (scores_escape) {
    b.node_to("Identity", {product}, {"scores"});
    b.output("scores");
  }
  EXPECT_TRUE(b.save(path).ok());
  return inputs;
}

// How many groups of the converted model a plugin has, of which some node is `op`.
int groups_of(const std::string& path, const std::string& plugin, const std::string& op = "") {
  gbuilder::BuildOptions build;
  build.model = path;
  build.output = path + ".groups.aipu.bin";
  build.dump_ir = path + ".dump";
  build.jobs = 1;
  const auto built = gbuilder::build_model(build);
  EXPECT_TRUE(built.ok()) << built.status().message();
  std::ifstream file(build.dump_ir + "/groups.txt");
  EXPECT_TRUE(file.is_open());
  int count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.find(" by " + plugin + ":") != std::string::npos && line.find(op) != std::string::npos ? 1 : 0;
  return count;
}

void check(const Case& c, unsigned seed, const std::vector<std::string>& targets = runnable_targets()) {
  SCOPED_TRACE(text(c));
  std::mt19937 random(seed);
  const Operands o = random_operands(c, random);
  const std::string path = temporary_path("attention" + std::to_string(seed) + ".onnx");
  const auto inputs = save_model(c, o, path);
  const Tensor expected = c.transposed ? swapped(reference(c, o)) : reference(c, o);
  ASSERT_EQ(groups_of(path, "attention"), 1);
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
    Case c{number(1, 2),   number(1, 3),  number(i < 5 ? 16 : 1, i < 5 ? 70 : 15),
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
  for (const Case& c : {Case{1, 2, 20, 20, 9, 7, "add", {20, 20}, 0.3}, Case{1, 2, 3, 21, 9, 7, "add", {3, 21}, 0.3}}) {
    std::mt19937 random(5);
    const Operands o = random_operands(c, random);
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
  const Case c{1, 2, 20, 20, 9, 7, "none", {}, 0.3};
  std::mt19937 random(6);
  const Operands o = random_operands(c, random);
  const std::string path = temporary_path("attention_scores.onnx");
  const auto inputs = save_model(c, o, path, true);
  EXPECT_EQ(groups_of(path, "attention"), 0);
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
    const Case c{1, 2, queries, 0, 8, 8, "none", {}, 0.3, false, false, true};
    std::mt19937 random(11);
    const Operands o = random_operands(c, random);
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
  const Case c{2, 3, 1, 46, 16, 16, "none", {}, 0.25, false, false};
  std::mt19937 random(10);
  const Operands o = random_operands(c, random);
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
  ASSERT_EQ(groups_of(path, "attention"), 1);
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

void check_moved(const Case& c, const Moved& moved) {
  SCOPED_TRACE(text(c) + " parts " + std::to_string(static_cast<int>(moved.parts)) + " " + moved.quantised);
  std::mt19937 random(13);
  const Operands o = random_operands(c, random);
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
  EXPECT_EQ(groups_of(path, "attention"), 1);
  EXPECT_EQ(groups_of(path, "attention", "QuantizeLinear"), moved.quantised.empty() ? 0 : 1);
  // Behind a QuantizeLinear a Transpose may be left.
  if (moved.quantised.empty() && !moved.keys_escape) {
    for (const char* plugin : {"split", "strided_copy", "gather", "elementwise"})
      EXPECT_EQ(groups_of(path, plugin), 0) << plugin;
  }
  Case doubled = c;
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
void check_broadcast_keys(const Case& c) {
  std::mt19937 random(9);
  Operands o = random_operands(c, random);
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
  ASSERT_EQ(groups_of(path, "attention"), 1);
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
  const Case c{1, 2, 20, 20, 9, 7, "add", {1, 2, 20, 20}, 0, false, false};
  std::mt19937 random(8);
  Operands o = random_operands(c, random);
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
