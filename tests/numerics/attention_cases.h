// Models of attention, and a reference in double precision written from the definition.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "models/onnx_builder.h"
#include "tests/numerics/road.h"

namespace aipu::test {

struct AttentionCase {
  int64_t batch, heads, queries, keys, depth, channels;
  std::string mask = "none";          // none, add, keep, drop
  std::vector<int64_t> mask_shape{};  // broadcast to [batch, heads, queries, keys]
  double scale = 0;                   // 0: no node
  bool divide = false;                // the scale is a Div
  // operands and result are [batch, extent, heads, channels] behind and in front of Transposes
  bool transposed = true;
  bool symbolic = false;   // batch and sequence (two of them where queries and keys are not equally many)
  bool blocked = false;    // the mask forbids some rows everything, others all but the last keys
  float range = 1;         // of queries
  bool keys_last = false;  // keys are given as [batch, heads, depth, keys], with no Transpose; not of `transposed`
};

std::string text(const AttentionCase& c);

struct AttentionOperands {
  Tensor q, k, v, mask;  // [batch, heads, extent, channels]; the mask's elements are 0 and 1 where it selects
};

Tensor reference(const AttentionCase& c, const AttentionOperands& o);

AttentionOperands random_operands(const AttentionCase& c, std::mt19937& random);

// [batch, heads, extent, channels] <-> [batch, extent, heads, channels]
Tensor swapped(const Tensor& x);

// Nodes that give `y` (and nothing else, but with `scores_escape` the product `scores`), and what the inputs that they
// declare are to be.
std::map<std::string, Tensor> add_attention(models::OnnxBuilder& b, const AttentionCase& c, const AttentionOperands& o,
                                            std::string* y, bool scores_escape = false);
// A model of it, whose output is y.
std::map<std::string, Tensor> save_model(const AttentionCase& c, const AttentionOperands& o, const std::string& path,
                                         bool scores_escape = false);

// How many groups of the converted model a plugin has, of which some node is `op`.
int count_groups(const std::string& path, const std::string& plugin, const std::string& op = "",
                 const RoadOptions& options = {});

}  // namespace aipu::test
