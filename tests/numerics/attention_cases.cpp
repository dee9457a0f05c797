#include "tests/numerics/attention_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "gbuilder/build.h"

namespace aipu::test {

using models::Extents;
using models::OnnxBuilder;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What is in place of scores that a mask takes out.
constexpr float kFill = -1e4f;

// [batch, heads, keys, depth] as [batch, heads, depth, keys].
Tensor keys_last(const Tensor& x) {
  const int64_t keys = x.shape[2], depth = x.shape[3];
  Tensor y{{x.shape[0], x.shape[1], depth, keys}, std::vector<float>(x.data.size())};
  for (int64_t head = 0; head < x.shape[0] * x.shape[1]; ++head) {
    for (int64_t k = 0; k < keys; ++k) {
      for (int64_t d = 0; d < depth; ++d)
        y.data[static_cast<size_t>((head * depth + d) * keys + k)] =
            x.data[static_cast<size_t>((head * keys + k) * depth + d)];
    }
  }
  return y;
}

}  // namespace

std::string text(const AttentionCase& c) {
  std::ostringstream out;
  out << "batch " << c.batch << " heads " << c.heads << " queries " << c.queries << " keys " << c.keys << " depth "
      << c.depth << " channels " << c.channels << " mask " << c.mask << " scale " << c.scale
      << (c.transposed ? " transposed" : "") << (c.symbolic ? " symbolic" : "");
  return out.str();
}

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

Tensor reference(const AttentionCase& c, const AttentionOperands& o) {
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

AttentionOperands random_operands(const AttentionCase& c, std::mt19937& random) {
  AttentionOperands o;
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

std::map<std::string, Tensor> add_attention(OnnxBuilder& b, const AttentionCase& c, const AttentionOperands& o,
                                            std::string* y, bool scores_escape) {
  const auto extents = [&](const Tensor& x, const char* length) {
    if (!c.symbolic) return Extents{x.shape[0], x.shape[1], x.shape[2], x.shape[3]};
    return c.transposed ? Extents{"N", length, x.shape[2], x.shape[3]} : Extents{"N", x.shape[1], length, x.shape[3]};
  };
  std::map<std::string, Tensor> inputs;
  inputs["q"] = c.transposed ? swapped(o.q) : o.q;
  inputs["k"] = c.transposed ? swapped(o.k) : c.keys_last ? keys_last(o.k) : o.k;
  inputs["v"] = c.transposed ? swapped(o.v) : o.v;
  const char* keys = c.keys == c.queries ? "S" : "P";
  for (auto& [name, tensor] : inputs) b.input(name, DType::kF32, extents(tensor, name == "q" ? "S" : keys));
  const std::string q = c.transposed ? b.transpose("q", {0, 2, 1, 3}) : "q";
  const std::string k = c.keys_last ? "k"
                                    : b.transpose("k", c.transposed ? std::vector<int64_t>{0, 2, 3, 1}
                                                                    : std::vector<int64_t>{0, 1, 3, 2});
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
  *y = out;
  if (scores_escape) {
    b.node_to("Identity", {product}, {"scores"});
    b.output("scores");
  }
  return inputs;
}

std::map<std::string, Tensor> save_model(const AttentionCase& c, const AttentionOperands& o, const std::string& path,
                                         bool scores_escape) {
  OnnxBuilder b("attention", 3);
  std::string y;
  auto inputs = add_attention(b, c, o, &y, scores_escape);
  b.node_to("Identity", {y}, {"y"});
  b.output("y");
  EXPECT_TRUE(b.save(path).ok());
  return inputs;
}

int count_groups(const std::string& path, const std::string& plugin, const std::string& op,
                 const RoadOptions& options) {
  gbuilder::BuildOptions build;
  build.model = path;
  build.output = path + ".groups.aipu.bin";
  build.dump_ir = path + ".dump";
  build.jobs = 1;
  build.target = options.target;
  build.precision = options.precision;
  build.precision_file = options.precision_file;
  const auto built = gbuilder::build_model(build);
  EXPECT_TRUE(built.ok()) << built.status().message();
  std::ifstream file(build.dump_ir + "/groups.txt");
  EXPECT_TRUE(file.is_open());
  int count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.find(" by " + plugin + ":") != std::string::npos && line.find(op) != std::string::npos ? 1 : 0;
  return count;
}

}  // namespace aipu::test
