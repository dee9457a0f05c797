// GreedySearch and Sampling.
#include "frontend/onnx/ops/microsoft/generation.h"

#include <functional>
#include <vector>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/random.h"

namespace aipu::frontend::microsoft {

namespace {

// One token for each row of scores; `trip` is the number of the call, the first one is 0.
using Choice = std::function<ValueId(OpContext& c, ValueId scores, ValueId trip)>;

// A sentence that has had its end gets padding; the end itself is padding too.
struct Chosen {
  ValueId tokens;  // int32 [batch]
  ValueId ended;   // bool [batch]
};
Chosen chosen_token(OpContext& c, ValueId tokens, ValueId ended, const ScoreRules& rules, int64_t pad) {
  const ValueId ends = c.emit("Equal", {}, {tokens, c.int64_scalar(rules.end)});
  if (ended.valid()) {
    ended = c.emit("Or", {}, {ended, ends});
  } else {
    ended = ends;
  }
  const ValueId padding = c.scalar(DType::kI32, static_cast<double>(pad));
  return {where(c, ended, padding, c.cast(tokens, DType::kI32)), ended};
}

// input_ids, max_length, min_length, repetition_penalty, vocab_mask, prefix_vocab_mask, attention_mask
constexpr size_t kMask = 6;

ScoreRules take_search(OpContext& c, size_t inputs) {
  c.expect_inputs(2, inputs);
  c.ignore("decoder_start_token_id");  // of a model with an encoder
  if (c.take_int("model_type", 0) != 0) c.fail_invalid("takes decoders of the kind of GPT-2 only (model_type 0)");
  if (c.has_attribute("encoder")) c.fail_invalid("takes decoders of the kind of GPT-2 only, without an encoder");
  return take_rules(c, {.least = 2, .repetition_penalty = 3, .vocabulary = 4, .first_vocabulary = 5});
}

void search(OpContext& c, const ScoreRules& rules, const Choice& choose) {
  const int64_t pad = c.take_int("pad_token_id", 0);
  GptDecoder decoder(c);
  const ValueId ids = c.input(0);
  if (c.ok() && (c.rank(ids) != 2 || c.dtype(ids) != DType::kI32))
    return c.fail_invalid(str_cat("input_ids must be int32 [batch, length], found ", c.type(ids).text()));
  const Dim length = extent_operand(c, 1, "max_length");
  const GptDecoder::Step start = decoder.first(c, ids, c.input(kMask), pad);
  const ValueId first_scores = ruled(c, rules, start.scores, ids, true);
  const Chosen first = chosen_token(c, choose(c, first_scores, c.int64_scalar(0)), {}, rules, pad);
  std::vector<ValueId> states{first.tokens, first.ended, concat(c, 1, {ids, c.unsqueeze(first.tokens, {1})})};
  states.insert(states.end(), start.states.begin(), start.states.end());
  const ValueId most = c.cast(reshape(c, c.input(1), {1}), DType::kI64);
  const ValueId trips = c.squeeze(subtract(c, most, c.size_of(states[2], 1)), {0});
  const auto body = [&](OpContext& inner, ValueId trip, const std::vector<ValueId>& in) {
    const GptDecoder::Step step = decoder.next(inner, in[0], in[2], trip, {in.begin() + 3, in.end()});
    const ScoreRules seen = rules.seen_within(inner);
    const ValueId scores = ruled(inner, seen, step.scores, in[2], false);
    const ValueId token = choose(inner, scores, add(inner, trip, inner.int64_scalar(1)));
    const Chosen next = chosen_token(inner, token, in[1], seen, pad);
    std::vector<ValueId> out{inner.emit("Not", {}, {all_of(inner, next.ended)}), next.tokens, next.ended,
                             concat(inner, 1, {in[2], inner.unsqueeze(next.tokens, {1})})};
    out.insert(out.end(), step.states.begin(), step.states.end());
    return out;
  };
  const std::vector<ValueId> made = emit_loop(c, trips, c.emit("Not", {}, {all_of(c, first.ended)}), states, body);
  if (c.ok()) c.set_output(0, padded_rows(c, made[2], pad, length));
}

}  // namespace

void greedy_search(OpContext& c) {
  const ScoreRules rules = take_search(c, 7);
  search(c, rules, [](OpContext& inner, ValueId scores, ValueId) {
    return inner.emit("ArgMax", {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, {scores});
  });
}

namespace {

struct TopP {
  double p = 0, filtered = 0;
  int64_t least = 0;
  bool from_top = false;  // the custom form: tokens behind those that reach p, one is always kept
};

// Scores with `filtered` for tokens that are not among the most probable ones, which add up to p.
ValueId filtered_scores(OpContext& c, const TopP& rule, ValueId scores) {
  Attributes order;
  order.set("axis", int64_t{1});
  order.set("largest", int64_t{rule.from_top});
  const ValueId count = c.size_of(scores, 1);
  const std::vector<ValueId> sorted = c.emit_named("TopK", std::move(order), {scores, count},
                                                   {c.output_names[0] + "/sorted", c.output_names[0] + "/order"});
  if (!c.ok()) return {};
  const ValueId parts = c.emit("Softmax", {{"axis", int64_t{1}}}, {sorted[0]});
  const ValueId sums = c.emit("CumSum", {}, {parts, c.int64_scalar(1)});
  const ValueId place = c.emit("Range", {}, {c.int64_scalar(0), c.squeeze(count, {0}), c.int64_scalar(1)});
  ValueId dropped;
  if (rule.from_top) {
    // What the sum of those in front, without the token's own part, exceeds.
    const ValueId before = c.emit("CumSum", {{"exclusive", int64_t{1}}}, {parts, c.int64_scalar(1)});
    dropped = c.emit("And", {},
                     {c.emit("Greater", {}, {before, c.scalar(DType::kF32, rule.p)}),
                      c.emit("Greater", {}, {place, c.int64_scalar(0)})});
  } else {
    const ValueId limit = c.scalar(DType::kF32, static_cast<float>(1 - static_cast<float>(rule.p)));
    const ValueId kept_from = subtract(c, count, c.int64_scalar(rule.least));
    dropped = c.emit("And", {}, {c.emit("LessOrEqual", {}, {sums, limit}), c.emit("Less", {}, {place, kept_from})});
  }
  const ValueId values = where(c, dropped, c.scalar(DType::kF32, rule.filtered), sorted[0]);
  return c.emit("ScatterElements", {{"axis", int64_t{1}}}, {scores, sorted[1], values});
}

// The token in whose part of the distribution a number of [0, 1) falls.
ValueId drawn_token(OpContext& c, ValueId scores, ValueId number) {
  const ValueId parts = c.emit("Softmax", {{"axis", int64_t{1}}}, {c.cast(scores, DType::kF64)});
  const ValueId ends = c.emit("CumSum", {}, {parts, c.int64_scalar(1)});
  const ValueId passed = c.emit("GreaterOrEqual", {}, {c.unsqueeze(number, {1}), ends});
  const ValueId place = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {c.cast(passed, DType::kI64), c.int64s({1})});
  // The parts may add up to a little less than 1.
  return c.emit("Min", {}, {place, subtract(c, c.size_of(scores, 1), c.int64s({1}))});
}

}  // namespace

void sampling(OpContext& c) {
  ScoreRules rules = take_search(c, 9);
  const double temperature = c.take_float("temperature", 1);
  const double presence_penalty = c.take_float("presence_penalty", 0);
  TopP top{c.take_float("top_p", 0), c.take_float("filter_value", -1e20), c.take_int("min_tokens_to_keep", 0),
           c.take_int("custom", 0) != 0};
  if (!c.ok()) return;
  if (!(temperature > 0)) return c.fail_invalid(str_cat("temperature is ", temperature));
  if (temperature != 1) rules.temperature = c.scalar(DType::kF32, temperature);
  // ONNX Runtime's kernel takes the mask and does nothing with it.
  if (c.has_input(7) && presence_penalty != 0) return c.fail_unsupported("presence_penalty is not supported");
  if (c.wants_output(1)) return c.fail_unsupported("the output filtered_logits is not supported");
  int64_t seed = seed_of_name(c);
  if (c.has_input(8)) {
    const auto given = c.constant_ints(c.input(8));
    if (!given || given->size() != 1) {
      return c.fail_unsupported(
          str_cat("operand '", c.graph().value(c.input(8)).name, "' must be known when compiling (--constant)"));
    }
    seed = as_seed(given->front());
  }
  // A row of numbers for each call.
  const ValueId most = c.cast(reshape(c, c.input(1), {1}), DType::kI64);
  const ValueId calls = c.emit("Max", {}, {subtract(c, most, c.size_of(c.input(0), 1)), c.int64s({1})});
  const ValueId numbers = uniform_numbers(c, seed, concat(c, 0, {calls, c.size_of(c.input(0), 0)}));
  const Graph* const outer = &c.graph();
  search(c, rules, [&](OpContext& inner, ValueId scores, ValueId trip) {
    const ValueId all = &inner.graph() == outer ? numbers : inner.seen_within(numbers);
    return drawn_token(inner, filtered_scores(inner, top, scores), gather(inner, all, trip));
  });
}

}  // namespace aipu::frontend::microsoft
