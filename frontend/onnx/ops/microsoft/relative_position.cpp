// What attention adds to the scores for how far keys are from queries.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/packed_tokens.h"

namespace aipu::frontend::microsoft {

namespace {

struct Buckets {
  int64_t count = 0;
  int64_t max_distance = 0;
  bool both_ways = false;
};

// The bucket of each distance of a key from its query, from -max_distance to max_distance: one for each small
// distance, wider ones (by the logarithm, in float32 as models were trained) up to the greatest.
std::vector<int64_t> buckets_of_distances(const Buckets& b) {
  const int64_t count = b.both_ways ? b.count / 2 : b.count;
  const int64_t exact = count / 2;
  const auto logarithm = [](float x) { return static_cast<float>(std::log(static_cast<double>(x))); };
  const float all = logarithm(static_cast<float>(b.max_distance) / static_cast<float>(exact));
  std::vector<int64_t> result;
  for (int64_t distance = -b.max_distance; distance <= b.max_distance; ++distance) {
    const int64_t far = b.both_ways ? std::abs(distance) : std::max<int64_t>(-distance, 0);
    int64_t bucket = far;
    if (far >= exact) {
      const float steps = logarithm(static_cast<float>(far) / static_cast<float>(exact)) / all;
      bucket = std::min(exact + static_cast<int64_t>(steps * static_cast<float>(count - exact)), count - 1);
    }
    result.push_back(bucket + (b.both_ways && distance > 0 ? count : 0));
  }
  return result;
}

}  // namespace

// The table is declared as [buckets, heads] and holds a row of buckets for each head.
void relative_position_bias(OpContext& c) {
  c.expect_inputs(3, 3);
  c.require_attribute("max_distance");
  Buckets b;
  b.max_distance = c.take_int("max_distance", 0);
  b.both_ways = c.take_int("is_bidirectional", 0) != 0;
  if (!c.ok()) return;
  const ValueId table = c.input(0);
  const auto count = c.rank(table) == 2 ? c.type(table).shape[0].constant() : std::nullopt;
  if (!count) return c.fail_unsupported(str_cat("a table of the type ", c.type(table).text(), " is not supported"));
  b.count = *count;
  const int64_t exact = (b.both_ways ? b.count / 2 : b.count) / 2;
  constexpr int64_t kMost = int64_t{1} << 20;
  if (exact < 1 || b.max_distance <= exact || b.max_distance > kMost)
    return c.fail_unsupported(str_cat("max_distance ", b.max_distance, " for ", b.count,
                                      " buckets is not supported, expected more than ", exact, " and at most ", kMost));
  const auto positions = [&](size_t length) {
    const ValueId end = c.squeeze(reshape(c, c.cast(c.input(length), DType::kI64), {1}), {0});
    return c.emit("Range", {}, {c.int64_scalar(0), end, c.int64_scalar(1)});
  };
  const ValueId distance = subtract(c, positions(2), c.unsqueeze(positions(1), {1}));
  const ValueId clipped = c.emit(
      "Max", {}, {c.emit("Min", {}, {distance, c.int64_scalar(b.max_distance)}), c.int64_scalar(-b.max_distance)});
  const ValueId buckets = gather(c, c.int64s(buckets_of_distances(b)), add(c, clipped, c.int64_scalar(b.max_distance)));
  if (!c.ok()) return;
  const Shape by_head = {c.type(table).shape[1], Dim(b.count)};
  c.set_output(0, c.unsqueeze(gather(c, c.emit("Reshape", {{"shape", by_head}}, {table}), buckets, 1), {0}));
}

// rel_pos times a gate that each query makes for itself: two sums over halves of its product with the weights.
void gated_relative_position_bias(OpContext& c) {
  c.expect_inputs(6, 7);
  c.require_attribute("num_heads");
  const int64_t heads = c.take_int("num_heads", 0);
  if (!c.ok()) return;
  if (heads < 1) return c.fail_invalid(str_cat("num_heads is ", heads));
  ValueId queries = c.input(0);
  if (c.rank(queries) == 2) {
    if (!c.has_input(6)) return c.fail_invalid("queries without padding need token_offset");
    queries = padded(c, packed_tokens(c, queries, c.input(6)), queries);
  }
  queries = heads_in_front(c, add(c, queries, c.input(1)), heads);
  const ValueId product = add(c, matmul(c, queries, c.input(3)), c.input(4));
  const ValueId halves = reshape(c, product, {0, 0, 0, 2, -1});
  const ValueId sums = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {halves, c.int64s({4})});
  const ValueId gates = c.emit("Sigmoid", {}, {sums});
  const ValueId one = c.scalar(c.dtype(queries), 1), two = c.scalar(c.dtype(queries), 2);
  const ValueId inner = subtract(c, multiply(c, slice(c, gates, 3, 1, 2), c.input(5)), one);
  const ValueId gate = add(c, multiply(c, slice(c, gates, 3, 0, 1), inner), two);
  c.set_output(0, multiply(c, gate, c.input(2)));
}

}  // namespace aipu::frontend::microsoft
