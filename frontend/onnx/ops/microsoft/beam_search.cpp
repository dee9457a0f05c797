// BeamSearch: several sentences for each prompt, the beams, of which the most probable ones go on.
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/encoder_decoder.h"
#include "frontend/onnx/ops/microsoft/generation.h"

namespace aipu::frontend::microsoft {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLowest = std::numeric_limits<float>::lowest();

// Finished sentences of each prompt, the best ones first, as many as there are beams at most.
struct Finished {
  ValueId tokens;  // int32 [batch, beams, longest]
  ValueId scores;  // float32 [batch, beams]
  ValueId count;   // int64 [batch, 1]
};

// What the beams of all prompts are between two calls of the decoder.
struct Beams {
  ValueId next;       // int32 [batch * beams]: the last token of each
  ValueId scores;     // float32 [batch, beams]: sums of logarithms
  ValueId sequences;  // int32 [batch, beams, length]
  Finished finished;
  ValueId done;  // bool [batch, 1]: of these prompts nothing changes any more
};
constexpr size_t kBeamStates = 7;

std::vector<ValueId> states_of(const Beams& beams) {
  return {beams.next,           beams.scores, beams.sequences, beams.finished.tokens, beams.finished.scores,
          beams.finished.count, beams.done};
}
Beams beams_of(const std::vector<ValueId>& states) {
  return {states[0], states[1], states[2], {states[3], states[4], states[5]}, states[6]};
}

struct BeamRules {
  ScoreRules scores;
  int64_t pad = 0;
  int64_t beams = 0;         // how many there are
  bool stops_early = false;  // once there are as many finished sentences as beams, whatever could still come
  ValueId length_penalty;    // float32 [1]; absent: 1
  Dim longest;
};

// [a, b, ...] as [a * b, ...], and back.
ValueId merged(OpContext& c, ValueId x) {
  if (!c.ok()) return {};
  Shape shape = c.type(x).shape;
  shape[1] = shape[0] * shape[1];
  shape.erase(shape.begin());
  return c.emit("Reshape", {{"shape", shape}}, {x});
}
ValueId by_prompt(OpContext& c, ValueId x, int64_t beams) {
  std::vector<int64_t> shape{-1, beams};
  if (!c.ok()) return {};
  Shape given = c.type(x).shape;
  if (given.size() == 1) return reshape(c, x, shape);
  return reshape(c, x, {-1, beams, given[1].constant_or(0)});
}

std::vector<ValueId> largest(OpContext& c, ValueId x, int64_t count) {
  Attributes order;
  order.set("axis", int64_t{1});
  return c.emit_named("TopK", std::move(order), {x, c.int64s({count})},
                      {c.output_names[0] + "/best", c.output_names[0] + "/places"});
}
ValueId at(OpContext& c, ValueId x, ValueId places) {
  return c.emit("GatherElements", {{"axis", int64_t{1}}}, {x, places});
}
// [batch, n, length] rows by [batch, m] places.
ValueId rows_at(OpContext& c, ValueId x, ValueId places) {
  return c.emit("GatherND", {{"batch_dims", int64_t{1}}}, {x, c.unsqueeze(places, {2})});
}

ValueId penalised(OpContext& c, const BeamRules& rules, ValueId scores, ValueId length) {
  ValueId divisor = c.cast(length, DType::kF32);
  if (rules.length_penalty.valid()) divisor = c.emit("Pow", {}, {divisor, rules.length_penalty});
  return c.emit("Div", {}, {scores, divisor});
}

// The best of what is finished and of `sequences` [batch, n, length] with the sums of logarithms `scores` [batch, n]
// where `is_new`. Of equal ones the earlier one is the better.
Finished with_new(OpContext& c, const BeamRules& rules, const Finished& old, ValueId sequences, ValueId scores,
                  ValueId is_new) {
  const ValueId added = penalised(c, rules, scores, c.size_of(sequences, 2));
  const ValueId there = c.emit("Less", {}, {positions_along(c, old.scores, 1), old.count});
  const ValueId all = concat(c, 1, {old.scores, added});
  // Below every score that there can be, so that places nobody has come last.
  const ValueId order =
      where(c, concat(c, 1, {there, is_new}), c.emit("Max", {}, {all, c.scalar(DType::kF32, kLowest)}),
            c.scalar(DType::kF32, -kInfinity));
  const std::vector<ValueId> best = largest(c, order, rules.beams);
  if (!c.ok()) return {};
  const ValueId tokens = concat(c, 1, {old.tokens, padded_rows(c, sequences, rules.pad, rules.longest)});
  const ValueId count = c.emit("ReduceSum", {}, {c.cast(is_new, DType::kI64), c.int64s({1})});
  return {rows_at(c, tokens, best[1]), at(c, all, best[1]),
          c.emit("Min", {}, {add(c, old.count, count), c.int64_scalar(rules.beams)})};
}

struct Advanced {
  Beams beams;
  ValueId from;    // int64 [batch * beams]: of which row each beam goes on
  ValueId scores;  // float32 [batch, beams, tokens]
};

// One step of the search: what the scores of the decoder make of the beams.
Advanced advanced(OpContext& c, const BeamRules& rules, const Beams& beams, ValueId decoder_scores, bool is_first) {
  const int64_t width = rules.beams;
  ValueId logs = c.emit("LogSoftmax", {{"axis", int64_t{1}}}, {decoder_scores});
  logs = ruled(c, rules.scores, logs, merged(c, beams.sequences), is_first);
  const ValueId sums = add(c, by_prompt(c, logs, width), c.unsqueeze(beams.scores, {2}));
  if (!c.ok()) return {};
  const int64_t tokens = c.type(logs).shape[1].constant_or(0);
  const std::vector<ValueId> best = largest(c, reshape(c, sums, {-1, width * tokens}), 2 * width);
  if (!c.ok()) return {};
  const ValueId count = c.int64_scalar(tokens);
  const ValueId beam = c.emit("Div", {}, {best[1], count});
  const ValueId token = c.emit("Mod", {}, {best[1], count});
  const ValueId ends = c.emit("Equal", {}, {token, c.int64_scalar(rules.scores.end)});

  // Only those among the first `width` finish a sentence.
  const ValueId is_new = c.emit("And", {}, {slice(c, ends, 1, 0, width), c.emit("Not", {}, {beams.done})});
  Advanced next;
  next.scores = sums;
  next.beams.finished = with_new(c, rules, beams.finished, rows_at(c, beams.sequences, slice(c, beam, 1, 0, width)),
                                 slice(c, best[0], 1, 0, width), is_new);

  // The first `width` of the others go on. Of a prompt that is done whatever goes on is padding.
  std::vector<int64_t> ranks;
  for (int64_t k = 0; k < 2 * width; ++k) ranks.push_back(2 * width - k);
  const ValueId order = where(c, ends, c.int64_scalar(0), c.int64s(ranks));
  const std::vector<ValueId> kept = largest(c, order, width);
  if (!c.ok()) return {};
  const ValueId kept_beam = at(c, beam, kept[1]);
  const ValueId kept_token = where(c, beams.done, c.int64_scalar(rules.pad), at(c, token, kept[1]));
  next.beams.scores = where(c, beams.done, c.scalar(DType::kF32, 0), at(c, best[0], kept[1]));
  next.beams.next = reshape(c, c.cast(kept_token, DType::kI32), {-1});
  const ValueId first_row = c.unsqueeze(multiply(c, positions_along(c, kept_beam, 0), c.int64_scalar(width)), {1});
  // ONNX Runtime lets these go on from the very first beam, which shows in the scores.
  const ValueId row = where(c, beams.done, c.int64_scalar(0), add(c, kept_beam, first_row));
  next.from = reshape(c, row, {-1});
  next.beams.sequences =
      concat(c, 2, {gather(c, merged(c, beams.sequences), row), c.unsqueeze(c.cast(kept_token, DType::kI32), {2})});

  ValueId is_over = c.emit("Equal", {}, {next.beams.finished.count, c.int64_scalar(width)});
  if (!rules.stops_early) {
    // ONNX Runtime's kernel looks at the candidates from `width` times the prompt's number on: those of the first
    // prompt are its own, of the others half are those of prompts before it.
    const ValueId halves =
        c.emit("ReduceMax", {{"keepdims", int64_t{0}}}, {reshape(c, best[0], {-1, width}), c.int64s({1})});
    const ValueId prompts = c.size_of(beams.done, 0);
    const auto from = [&](int64_t begin) {
      const ValueId end = add(c, prompts, c.int64s({begin}));
      return c.unsqueeze(c.emit("Slice", {}, {halves, c.int64s({begin}), end, c.int64s({0})}), {1});
    };
    const ValueId most = c.emit("Max", {}, {from(0), from(1)});
    const ValueId best_yet = penalised(c, rules, most, c.size_of(beams.sequences, 2));
    const ValueId worst = slice(c, next.beams.finished.scores, 1, width - 1, width);
    is_over = c.emit("And", {}, {is_over, c.emit("GreaterOrEqual", {}, {worst, best_yet})});
  }
  next.beams.done = c.emit("Or", {}, {beams.done, is_over});
  return next;
}

// The beams of each prompt at the beginning: all of them the prompt, of which the first one counts.
Beams begin(OpContext& c, const BeamRules& rules, ValueId ids) {
  if (!c.ok()) return {};
  const Shape prompt = c.type(ids).shape;
  const auto filled = [&](const Shape& shape, DType dtype, double value) {
    return c.emit("Expand", {{"shape", shape}}, {c.scalar(dtype, value)});
  };
  const Dim width(rules.beams);
  Beams beams;
  std::vector<float> first(static_cast<size_t>(rules.beams), -1e9F);
  first[0] = 0;
  const ValueId scores =
      c.constant(graph::Constant::of<float>(DType::kF32, {1, rules.beams}, std::span<const float>(first)));
  beams.scores = c.emit("Expand", {{"shape", Shape{prompt[0], width}}}, {scores});
  beams.sequences = c.emit("Expand", {{"shape", Shape{prompt[0], width, prompt[1]}}}, {c.unsqueeze(ids, {1})});
  beams.finished = {filled({prompt[0], width, rules.longest}, DType::kI32, static_cast<double>(rules.pad)),
                    filled({prompt[0], width}, DType::kF32, 0), filled({prompt[0], Dim(1)}, DType::kI64, 0)};
  beams.done = filled({prompt[0], Dim(1)}, DType::kBool, 0);
  return beams;
}

// The operands; those behind the 11th are WhisperBeamSearch's.
enum Place : size_t {
  kInput,
  kMaxLength,
  kMinLength,
  kBeams,
  kReturned,
  kLengthPenalty,
  kRepetitionPenalty,
  kVocabulary,
  kFirstVocabulary,
  kMask,
  kDecoderIds,
  kProcessor,
  kCrossQk,
  kExtraIds,
  kTemperature
};

// What is known once the prompts have been read.
struct Beginning {
  std::unique_ptr<Decoder> decoder;
  ValueId ids;  // int32 [batch, length]: how the sentences begin
  Decoder::Step step;
};

Beginning begin_gpt(OpContext& c, int64_t pad) {
  c.ignore("decoder_start_token_id");
  if (c.has_attribute("encoder")) c.fail_invalid("a model of model_type 0 has no encoder");
  if (c.has_input(kDecoderIds)) c.fail_invalid("decoder_input_ids are for models with an encoder");
  auto decoder = std::make_unique<GptDecoder>(c);
  const ValueId ids = c.input(kInput);
  if (c.ok() && (c.rank(ids) != 2 || c.dtype(ids) != DType::kI32))
    c.fail_invalid(str_cat("input_ids must be int32 [batch, length], found ", c.type(ids).text()));
  Decoder::Step step = decoder->first(c, ids, c.input(kMask), pad);
  return {std::move(decoder), ids, std::move(step)};
}

// `hears`: Whisper, of which the input is no text.
Beginning begin_encoder(OpContext& c, int64_t pad, bool hears) {
  c.ignore("init_decoder");
  auto decoder = std::make_unique<EncoderDecoder>(c, hears);
  const ValueId source = c.input(kInput);
  const bool fits = hears ? c.rank(source) == 3 && is_floating(c.dtype(source))
                          : c.rank(source) == 2 && c.dtype(source) == DType::kI32;
  if (c.ok() && !fits) {
    c.fail_invalid(str_cat("the input must be ", hears ? "features [batch, bands, frames]" : "int32 [batch, length]",
                           ", found ", c.type(source).text()));
  }
  if (hears && c.has_input(kMask)) c.fail_unsupported("an attention_mask of features is not supported");
  if (!hears && c.has_input(kDecoderIds)) c.fail_unsupported("decoder_input_ids are supported for Whisper only");
  ValueId ids = c.input(kDecoderIds);
  if (ids.valid()) {
    if (c.rank(ids) != 2 || c.dtype(ids) != DType::kI32)
      c.fail_invalid(str_cat("decoder_input_ids must be int32 [batch, length], found ", c.type(ids).text()));
    c.ignore("decoder_start_token_id");
  } else {
    c.require_attribute("decoder_start_token_id");
    const int64_t start = c.take_int("decoder_start_token_id", 0);
    if (start < 0) c.fail_invalid(str_cat("decoder_start_token_id is ", start));
    if (!c.ok()) return {};
    const Shape shape{c.type(source).shape[0], Dim(1)};
    ids = c.emit("Expand", {{"shape", shape}}, {c.scalar(DType::kI32, static_cast<double>(start))});
  }
  ValueId mask = c.input(kMask);
  if (!hears && !mask.valid()) {
    // Padding is what stands in front; behind, a token of that number may be the end.
    const ValueId padding = c.emit("Equal", {}, {source, c.scalar(DType::kI32, static_cast<double>(pad))});
    const ValueId others = c.cast(c.emit("Not", {}, {padding}), DType::kI32);
    mask = c.emit("Min", {}, {c.emit("CumSum", {}, {others, c.int64_scalar(1)}), c.scalar(DType::kI32, 1)});
  }
  Decoder::Step step = decoder->first(c, source, mask, ids);
  return {std::move(decoder), ids, std::move(step)};
}

// A number that the operator's form depends on.
int64_t known_operand(OpContext& c, size_t place, const char* name, int64_t least) {
  const auto given = c.constant_ints(c.input(place));
  if (given && given->size() == 1 && given->front() >= least) return given->front();
  if (given) {
    c.fail_invalid(str_cat(name, " must be one integer of at least ", least));
  } else {
    c.fail_unsupported(str_cat("operand '", c.graph().value(c.input(place)).name,
                               "' must be known when compiling (--constant), it is ", name));
  }
  return 1;
}

void search(OpContext& c, BeamRules rules, int64_t returned, const Beginning& given) {
  if (!c.ok()) return;
  Decoder& decoder = *given.decoder;
  const ValueId ids = given.ids;
  // Scores are of the type that the penalty has.
  const DType type = c.has_input(kLengthPenalty) ? c.dtype(c.input(kLengthPenalty)) : DType::kF32;
  if (decoder.tokens() < 2) return c.fail_invalid("the decoder has fewer than two tokens");

  // The prompt is computed once for all of its beams.
  const Shape prompt = c.type(ids).shape;
  const ValueId of_prompt =
      c.emit("Expand", {{"shape", Shape{prompt[0], Dim(rules.beams)}}}, {c.unsqueeze(positions_along(c, ids, 0), {1})});
  const ValueId rows = merged(c, of_prompt);
  if (rules.scores.first_vocabulary.valid())
    rules.scores.first_vocabulary = gather(c, rules.scores.first_vocabulary, rows);
  const Beams begun = begin(c, rules, ids);
  const Advanced first = advanced(c, rules, begun, gather(c, given.step.scores, rows), true);
  if (!c.ok()) return;
  std::vector<ValueId> states = states_of(first.beams);
  // A beam that is alone goes on from itself, also of a prompt that is done.
  const bool is_alone = rules.beams == 1;
  const ValueId from = is_alone ? rows : gather(c, rows, first.from);
  for (const ValueId state : decoder.spread(c, given.step.states, rows, from)) states.push_back(state);

  const ValueId most = c.cast(reshape(c, c.input(kMaxLength), {1}), DType::kI64);
  const ValueId trips = c.squeeze(subtract(c, most, c.size_of(first.beams.sequences, 2)), {0});
  const bool gives_scores = c.wants_output(2);
  const auto body = [&](OpContext& inner, ValueId trip, const std::vector<ValueId>& in) {
    BeamRules seen = rules;
    seen.scores = rules.scores.seen_within(inner);
    seen.length_penalty = inner.seen_within(rules.length_penalty);
    const Beams beams = beams_of(in);
    const Decoder::Step step =
        decoder.next(inner, beams.next, merged(inner, beams.sequences), trip, {in.begin() + kBeamStates, in.end()});
    const Advanced next = advanced(inner, seen, beams, step.scores, false);
    std::vector<ValueId> out{inner.emit("Not", {}, {all_of(inner, next.beams.done)})};
    for (const ValueId state : states_of(next.beams)) out.push_back(state);
    const std::vector<ValueId> kept = is_alone ? step.states : decoder.reordered(inner, step.states, next.from);
    out.insert(out.end(), kept.begin(), kept.end());
    if (gives_scores) out.push_back(next.scores);
    return out;
  };
  const ValueId goes_on = c.emit("Not", {}, {all_of(c, first.beams.done)});
  const std::vector<ValueId> made = emit_loop(c, trips, goes_on, states, body);
  if (!c.ok()) return;

  // What is not finished counts as it is.
  const Beams last = beams_of(made);
  const ValueId open = c.emit("Not", {}, {last.done});
  const ValueId all_open = c.emit("And", {}, {open, c.emit("Equal", {}, {last.scores, last.scores})});
  const Finished finished = with_new(c, rules, last.finished, last.sequences, last.scores, all_open);
  c.set_output(0, slice(c, finished.tokens, 1, 0, returned));
  if (c.wants_output(1)) c.set_output(1, c.cast(slice(c, finished.scores, 1, 0, returned), type));
  if (!gives_scores || !c.ok()) return;
  const ValueId steps = concat(c, 0, {c.unsqueeze(first.scores, {0}), made.back()});
  Shape shape = c.type(first.scores).shape;
  shape.insert(shape.begin(), rules.longest - prompt[1]);
  const ValueId blank = c.emit("Expand", {{"shape", shape}}, {c.scalar(DType::kF32, 0)});
  const ValueId place = c.unsqueeze(positions_along(c, steps, 0), {1});
  c.set_output(2, c.cast(c.emit("ScatterND", {}, {blank, place, steps}), type));
}

// The rules that both operators have; `least` inputs and the number of sentences to return.
BeamRules take_beams(OpContext& c, size_t inputs, int64_t* returned) {
  BeamRules rules;
  c.expect_inputs(2, inputs);
  if (!c.has_input(kBeams) || !c.has_input(kReturned)) c.fail_invalid("needs num_beams and num_return_sequences");
  rules.scores = take_rules(c, {.least = kMinLength,
                                .repetition_penalty = kRepetitionPenalty,
                                .vocabulary = kVocabulary,
                                .first_vocabulary = kFirstVocabulary});
  rules.pad = c.take_int("pad_token_id", 0);
  rules.stops_early = c.take_int("early_stopping", 0) != 0;
  if (!c.ok()) return rules;
  rules.beams = known_operand(c, kBeams, "num_beams", 1);
  *returned = known_operand(c, kReturned, "num_return_sequences", 1);
  if (*returned > rules.beams)
    c.fail_invalid(str_cat("num_return_sequences is ", *returned, " of ", rules.beams, " beams"));
  if (c.has_input(kLengthPenalty)) rules.length_penalty = reshape(c, c.cast(c.input(kLengthPenalty), DType::kF32), {1});
  rules.longest = extent_operand(c, kMaxLength, "max_length");
  return rules;
}

}  // namespace

void beam_search(OpContext& c) {
  int64_t returned = 1;
  const BeamRules rules = take_beams(c, kProcessor + 1, &returned);
  const int64_t model = c.take_int("model_type", 0);
  if (model < 0 || model > 2) return c.fail_invalid(str_cat("model_type is ", model));
  if (c.ok() && c.has_input(kProcessor) && known_operand(c, kProcessor, "logits_processor", 0) != 0)
    return c.fail_unsupported("a logits_processor is supported by WhisperBeamSearch only");
  search(c, rules, returned, model == 0 ? begin_gpt(c, rules.pad) : begin_encoder(c, rules.pad, model == 2));
}

void whisper_beam_search(OpContext& c) {
  int64_t returned = 1;
  BeamRules rules = take_beams(c, kTemperature + 1, &returned);
  if (!c.ok()) return;
  const int64_t model = c.take_int("model_type", 2);
  if (model != 2) return c.fail_invalid(str_cat("model_type is ", model, ", not 2"));
  // ONNX Runtime's CPU provider has neither.
  if (c.wants_output(3)) return c.fail_unsupported("the output cross_qk is not supported");
  if (c.has_input(kExtraIds)) return c.fail_unsupported("extra_decoding_ids are not supported");
  c.ignore("decoder_output_cross_qk");
  const int64_t processor = c.has_input(kProcessor) ? known_operand(c, kProcessor, "logits_processor", 0) : 0;
  if (processor > 1) return c.fail_unsupported(str_cat("logits_processor ", processor, " is not supported"));
  if (processor == 1) rules.scores.timestamps = take_timestamp_rules(c, rules.scores.end);
  for (const char* name : {"translate_token_id", "transcribe_token_id", "start_of_lm_token_id",
                           "no_timestamps_token_id", "beginning_timestamp_token_id"})
    c.ignore(name);
  if (c.has_input(kTemperature)) {
    // One that is not positive counts as none.
    const ValueId given = reshape(c, c.cast(c.input(kTemperature), DType::kF32), {1});
    const ValueId is_one = c.emit("Greater", {}, {given, c.scalar(DType::kF32, 0)});
    rules.scores.temperature = where(c, is_one, given, c.scalar(DType::kF32, 1));
  }
  const Beginning begun = begin_encoder(c, rules.pad, true);
  const int64_t silence = c.take_int("no_speech_token_id", -1);
  search(c, rules, returned, begun);
  if (!c.ok() || !c.wants_output(4)) return;
  if (silence < 0 || silence >= begun.decoder->tokens())
    return c.fail_invalid(str_cat("non_speech_probs of no_speech_token_id ", silence));
  const ValueId parts = c.emit("Softmax", {{"axis", int64_t{1}}}, {begun.step.scores});
  const DType type = c.has_input(kLengthPenalty) ? c.dtype(c.input(kLengthPenalty)) : DType::kF32;
  c.set_output(4, c.cast(gather(c, parts, c.int64_scalar(silence), 1), type));
}

}  // namespace aipu::frontend::microsoft
