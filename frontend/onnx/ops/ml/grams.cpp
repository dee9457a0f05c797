// TfIdfVectorizer: counts of n-grams in rows of numbers or strings.
#include <algorithm>
#include <numeric>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/ml/converters.h"
#include "frontend/onnx/ops/ml/scores.h"

namespace aipu::frontend::ml {

namespace {

struct Vectorizer {
  int64_t least = 1, most = 1, skips = 0;  // lengths, and elements left out between two of a gram
  std::vector<int64_t> starts;             // in the pool, of the grams of each length
  std::vector<int64_t> columns;            // of each gram of the pool
  std::vector<int64_t> pool;               // strings by their numbers
  DType type = DType::kI64;                // of the pool
  std::vector<double> weights;             // of each gram; none: 1
  int64_t size = 0;                        // columns of the result
};

Vectorizer take_vectorizer(OpContext& c) {
  Vectorizer v;
  for (const char* name : {"min_gram_length", "max_gram_length", "max_skip_count", "ngram_counts", "ngram_indexes"})
    c.require_attribute(name);
  v.least = c.take_int("min_gram_length", 1);
  v.most = c.take_int("max_gram_length", 1);
  v.skips = c.take_int("max_skip_count", 0);
  v.starts = ints_or_none(c, "ngram_counts");
  v.columns = ints_or_none(c, "ngram_indexes");
  v.weights = floats_or_none(c, "weights");
  v.pool = ints_or_none(c, "pool_int64s");
  const auto texts = c.take_strings("pool_strings");
  if (!c.ok()) return v;
  v.type = DType::kI64;
  if (texts && !texts->empty()) {
    v.type = DType::kString;
    if (!v.pool.empty()) c.fail_invalid("has both pool_int64s and pool_strings");
    for (const std::string& text : *texts) v.pool.push_back(c.number_of_string(text));
  }
  if ((c.dtype(c.input(0)) == DType::kString) != (v.type == DType::kString))
    c.fail_invalid(str_cat("has a pool of ", dtype_name(v.type), " for ", c.type(c.input(0)).text()));
  const auto pool = static_cast<int64_t>(v.pool.size());
  bool fits = v.least >= 1 && v.least <= v.most && v.skips >= 0 && v.skips < 1'000'000 && !v.columns.empty() &&
              v.most <= static_cast<int64_t>(v.starts.size()) &&
              (v.weights.empty() || v.weights.size() == v.columns.size()) &&
              std::is_sorted(v.starts.begin(), v.starts.end()) && v.starts.front() >= 0 && v.starts.back() <= pool;
  for (const int64_t column : v.columns) {
    fits = fits && column >= 0 && column < (int64_t{1} << 31);
    v.size = std::max(v.size, column + 1);
  }
  if (!fits) c.fail_invalid("has lengths, pool, ngram_counts and ngram_indexes that do not fit each other");
  return v;
}

int64_t gram_count(const Vectorizer& v, int64_t length) {
  const auto n = static_cast<size_t>(length);
  const int64_t end = n < v.starts.size() ? v.starts[n] : static_cast<int64_t>(v.pool.size());
  return (end - v.starts[n - 1]) / length;
}

// How often the grams of one length occur, whose first is `gram`: [N, size].
ValueId counts(OpContext& c, ValueId x, const Vectorizer& v, int64_t length, int64_t gram) {
  const auto begin = v.pool.begin() + v.starts[static_cast<size_t>(length - 1)];
  const int64_t count = gram_count(v, length);
  if (gram + count > static_cast<int64_t>(v.columns.size())) {
    c.fail_invalid("has fewer ngram_indexes than n-grams");
    return {};
  }
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::lexicographical_compare(begin + a * length, begin + (a + 1) * length, begin + b * length,
                                        begin + (b + 1) * length);
  });
  std::vector<int64_t> grams, columns;
  for (const int64_t i : order) {
    grams.insert(grams.end(), begin + i * length, begin + (i + 1) * length);
    columns.push_back(v.columns[static_cast<size_t>(gram + i)]);
  }
  const ValueId table =
      c.constant(graph::Constant::of<int64_t>(v.type, {count, length}, std::span<const int64_t>(grams)));
  return c.emit("aipu::CountGrams", {{"size", v.size}, {"skips", length == 1 ? int64_t{0} : v.skips}},
                {x, table, c.int64s(columns)});
}

}  // namespace

void tf_idf_vectorizer(OpContext& c) {
  c.expect_inputs(1, 1);
  c.require_attribute("mode");
  const std::string mode = c.take_string("mode", "TF");
  const Vectorizer v = take_vectorizer(c);
  if (!c.ok()) return;
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return c.fail_invalid(str_cat("attribute 'mode' is '", mode, "', expected one of: TF, IDF, TFIDF"));
  ValueId x = c.input(0);
  const bool single = c.rank(x) == 1;
  if (single) x = c.unsqueeze(x, {0});
  if (c.rank(x) != 2) return c.fail_invalid(str_cat("takes X of rank 1 or 2, found ", c.type(c.input(0)).text()));
  ValueId y;
  int64_t gram = 0;
  for (int64_t length = 1; length <= static_cast<int64_t>(v.starts.size()); ++length) {
    const int64_t count = gram_count(v, length);
    if (length >= v.least && length <= v.most && count > 0) {
      const ValueId found = counts(c, x, v, length, gram);
      y = y.valid() ? add(c, y, found) : found;
    }
    gram += count;
  }
  if (!c.ok()) return;
  if (!y.valid()) return c.fail_invalid("has no n-grams of the lengths that it counts");
  if (mode != "TF") {
    std::vector<double> weights(static_cast<size_t>(v.size), v.weights.empty() ? 1 : 0);
    for (size_t i = 0; i < v.weights.size(); ++i) weights[static_cast<size_t>(v.columns[i])] = v.weights[i];
    if (mode == "IDF") y = c.cast(c.emit("Greater", {}, {y, c.scalar(DType::kF32, 0)}), DType::kF32);
    y = multiply(c, y, floats(c, DType::kF32, weights, {v.size}));
  }
  c.set_output(0, single ? c.squeeze(y, {0}) : y);
}

}  // namespace aipu::frontend::ml
