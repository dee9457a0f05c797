// What operators share that generate text: a sub-graph, the decoder, is asked for the scores of the next token again
// and again. The first call, with the whole prompt, is part of the graph; the others are the body of a Loop, in which
// the states of the decoder (its keys and values) are carried. Private to frontend/onnx.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "frontend/onnx/op_context.h"

namespace aipu::frontend::microsoft {

// [rows, tokens] scores, `lowest` where a token would make the last n tokens of a row of `ids` ones that are in it.
ValueId without_repeated_ngrams(OpContext& c, ValueId ids, ValueId scores, int64_t n, double lowest);

// A Loop whose states are `initial`, in the order in which the body gets and gives them; `write` makes of the number of
// the trip and the states whether it goes on, and the states. What the states are at the end. Extents that the body
// changes become symbols; those that are and stay equal have one.
using LoopWriter =
    std::function<std::vector<ValueId>(OpContext& body, ValueId trip, const std::vector<ValueId>& states)>;
std::vector<ValueId> emit_loop(OpContext& c, ValueId trips, ValueId goes_on, const std::vector<ValueId>& initial,
                               const LoopWriter& write);

// Whisper's tokens that are no words, and when they may be said: times come in pairs and never go back.
struct TimestampRules {
  int64_t end = 0;    // of the sentence, and the first token that is no word
  int64_t start = 0;  // of the transcript
  int64_t translate = 0, transcribe = 0, start_of_lm = 0, no_timestamps = 0;
  int64_t first_time = 0;  // times are the tokens from here on
};
TimestampRules take_timestamp_rules(OpContext& c, int64_t end);
ValueId with_timestamps(OpContext& c, const TimestampRules& rules, ValueId scores, ValueId sequences);

// How scores are changed before a token is chosen; what is absent changes nothing.
struct ScoreRules {
  int64_t end = 0;                       // the token that ends a sentence
  int64_t ngram = 0;                     // 0: any may be repeated
  ValueId least;                         // of tokens, before a sentence may end
  ValueId repetition_penalty;            // [1]
  ValueId vocabulary, first_vocabulary;  // bool [tokens], and, for the first call, [rows, tokens]
  ValueId temperature;                   // by which scores are divided
  std::optional<TimestampRules> timestamps;

  ScoreRules seen_within(OpContext& body) const;
};
// Of [rows, tokens] scores; `sequences` [rows, length] are int32.
ValueId ruled(OpContext& c, const ScoreRules& rules, ValueId scores, ValueId sequences, bool is_first);
// The rules that all these operators have; operands at the places given, 0 where there is none.
struct RulePlaces {
  size_t least = 0, repetition_penalty = 0, vocabulary = 0, first_vocabulary = 0;
};
ScoreRules take_rules(OpContext& c, const RulePlaces& places);

// What gives the scores of the next token of sentences, call by call.
class Decoder {
 public:
  // What a call gives: float32 scores [rows, tokens] of the last position, and the states for the next call.
  struct Step {
    ValueId scores;
    std::vector<ValueId> states;
  };

  virtual ~Decoder() = default;
  // One token [rows] more is behind each of the sentences [rows, length]; `trip` counts these calls.
  virtual Step next(OpContext& c, ValueId tokens, ValueId sentences, ValueId trip,
                    const std::vector<ValueId>& states) const = 0;
  // The states after the call with the prompts, for rows of the prompts `prompts` [rows] that go on from those of
  // `from`.
  virtual std::vector<ValueId> spread(OpContext& c, std::vector<ValueId> states, ValueId prompts, ValueId from) = 0;
  // The states of rows that go on from others.
  virtual std::vector<ValueId> reordered(OpContext& c, std::vector<ValueId> states, ValueId from) const = 0;
  int64_t tokens() const { return tokens_; }  // that there are scores of, known once there are some

 protected:
  // Takes the attribute `vocab_size`.
  explicit Decoder(OpContext& c);
  // The outputs of a sub-graph, and as a step where the first one is logits [rows, length, tokens].
  static std::vector<ValueId> inlined(OpContext& c, const onnx::GraphProto* graph,
                                      const std::vector<ValueId>& arguments);
  Step call(OpContext& c, const onnx::GraphProto* graph, const std::vector<ValueId>& arguments) const;
  void count_tokens(OpContext& c, const Step& step);  // how many tokens there are

 private:
  int64_t tokens_ = -1;
};

// A decoder of the kind of GPT-2: input_ids, position_ids, attention_mask, past_0, ... -> logits, present_0, ...; int32
// [batch, length] the first three.
class GptDecoder : public Decoder {
 public:
  // Takes the attributes `decoder` and `init_decoder`.
  explicit GptDecoder(OpContext& c);

  // Of a prompt [batch, length] padded on the left; `mask` may be absent: padding is what is not seen then.
  Step first(OpContext& c, ValueId ids, ValueId mask, int64_t pad);
  Step next(OpContext& c, ValueId tokens, ValueId sentences, ValueId trip,
            const std::vector<ValueId>& states) const override;
  std::vector<ValueId> spread(OpContext& c, std::vector<ValueId> states, ValueId prompts, ValueId from) override;
  std::vector<ValueId> reordered(OpContext& c, std::vector<ValueId> states, ValueId from) const override;

 private:
  const onnx::GraphProto* graph_ = nullptr;
  const onnx::GraphProto* first_graph_ = nullptr;
  DeclaredPorts ports_;
};

// Whether all of a list of bools are true, as a scalar.
ValueId all_of(OpContext& c, ValueId flags);
// The first row of a prompt's rows and columns: [batch, length] with `pad` behind up to `length` columns.
ValueId padded_rows(OpContext& c, ValueId rows, int64_t pad, const Dim& length);
// The operand, an integer, as an extent.
Dim extent_operand(OpContext& c, size_t place, const char* name);

}  // namespace aipu::frontend::microsoft
