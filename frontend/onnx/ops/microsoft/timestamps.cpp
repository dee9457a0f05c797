// The rules by which Whisper says when something was said.
#include <limits>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/generation.h"

namespace aipu::frontend::microsoft {

namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kLatestStart = 50;  // the first time is at most so many tokens behind the first one

}  // namespace

TimestampRules take_timestamp_rules(OpContext& c, int64_t end) {
  TimestampRules rules;
  const auto take = [&](const char* name) {
    c.require_attribute(name);
    return c.take_int(name, -1);
  };
  rules.end = end;
  rules.start = take("decoder_start_token_id");
  rules.translate = take("translate_token_id");
  rules.transcribe = take("transcribe_token_id");
  rules.start_of_lm = take("start_of_lm_token_id");
  rules.no_timestamps = take("no_timestamps_token_id");
  rules.first_time = take("beginning_timestamp_token_id");
  return rules;
}

ValueId with_timestamps(OpContext& c, const TimestampRules& rules, ValueId scores, ValueId sequences) {
  if (!c.ok()) return {};
  const int64_t tokens = c.type(scores).shape[1].constant_or(0);
  if (rules.end <= 0 || rules.first_time <= 0 || rules.first_time >= tokens) {
    c.fail_invalid(str_cat("eos_token_id ", rules.end, " and beginning_timestamp_token_id ", rules.first_time,
                           " must be among ", tokens, " tokens and not the first one"));
    return {};
  }
  const auto number = [&](int64_t value) { return c.int64_scalar(value); };
  const auto both = [&](ValueId a, ValueId b) { return c.emit("And", {}, {a, b}); };
  const auto either = [&](ValueId a, ValueId b) { return c.emit("Or", {}, {a, b}); };
  const auto negated = [&](ValueId a) { return c.emit("Not", {}, {a}); };
  const auto equal = [&](ValueId a, ValueId b) { return c.emit("Equal", {}, {a, b}); };
  const auto less = [&](ValueId a, ValueId b) { return c.emit("Less", {}, {a, b}); };
  const auto most = [&](ValueId x) { return c.emit("ReduceMax", {}, {x, c.int64s({1})}); };

  const ValueId said = c.cast(sequences, DType::kI64);
  const ValueId first_time = number(rules.first_time);
  const ValueId is_time = c.emit("GreaterOrEqual", {}, {said, first_time});
  // All of these are [rows, 1].
  const ValueId has_time = c.cast(most(c.cast(is_time, DType::kI32)), DType::kBool);
  const ValueId length = c.size_of(sequences, 1);
  const ValueId first = c.emit("ArgMax", {{"axis", int64_t{1}}}, {c.cast(is_time, DType::kI32)});
  const ValueId begin = where(c, has_time, add(c, first, number(1)), length);
  const ValueId begins = equal(begin, length);
  const ValueId ends_in_time = slice(c, is_time, 1, -1, INT64_MAX);
  // The token before the last one; what it is of a sentence of one token does not matter.
  const ValueId twice_first = concat(c, 1, {slice(c, is_time, 1, 0, 1), is_time});
  const ValueId is_pair = either(begins, slice(c, twice_first, 1, -2, -1));
  const ValueId is_open = both(ends_in_time, negated(is_pair));
  const ValueId last_place = most(where(c, is_time, positions_along(c, sequences, 1), number(0)));
  const ValueId last_time = c.emit("GatherElements", {{"axis", int64_t{1}}}, {said, last_place});

  const ValueId token = positions_along(c, scores, 1);
  const ValueId token_is_time = c.emit("GreaterOrEqual", {}, {token, first_time});
  ValueId tasks;
  for (const int64_t task : {rules.start, rules.translate, rules.transcribe}) {
    const ValueId is_task = equal(token, number(task));
    tasks = tasks.valid() ? either(tasks, is_task) : is_task;
  }
  const ValueId never = either(equal(token, number(rules.no_timestamps)), equal(token, number(rules.start_of_lm)));
  const ValueId earliest = where(c, is_open, last_time, add(c, last_time, number(1)));
  ValueId dropped = either(never, both(tasks, negated(begins)));
  dropped = either(dropped, both(both(ends_in_time, is_pair), token_is_time));
  dropped = either(dropped, both(is_open, less(token, number(rules.end))));
  dropped = either(dropped, both(both(has_time, token_is_time), less(token, earliest)));
  dropped = either(dropped, both(begins, less(number(rules.first_time + kLatestStart), token)));
  const ValueId lowest = c.scalar(DType::kF32, kLowest);
  const ValueId allowed = where(c, dropped, lowest, scores);

  // A time, where one of them is more probable than the most probable word.
  const ValueId times = slice(c, allowed, 1, rules.first_time, INT64_MAX);
  const ValueId best_time = most(times);
  const ValueId parts =
      where(c, less(lowest, times), c.emit("Exp", {}, {subtract(c, times, best_time)}), c.scalar(DType::kF32, 0));
  const ValueId sum = c.emit("ReduceSum", {}, {parts, c.int64s({1})});
  const ValueId any_time =
      where(c, less(c.scalar(DType::kF32, 0), sum), add(c, c.emit("Log", {}, {sum}), best_time), lowest);
  const ValueId best_word = most(slice(c, allowed, 1, 0, rules.first_time));
  return where(c, both(less(best_word, any_time), negated(token_is_time)), lowest, allowed);
}

}  // namespace aipu::frontend::microsoft
