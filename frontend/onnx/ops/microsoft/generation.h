// What operators share that generate text: a sub-graph, the decoder, is asked for the scores of the next token again
// and again. The first call, with the whole prompt, is part of the graph; the others are the body of a Loop, in which
// the states of the decoder (its keys and values) are carried. Private to frontend/onnx.
#pragma once

#include <functional>
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

// How scores are changed before a token is chosen; what is absent changes nothing.
struct ScoreRules {
  int64_t end = 0;                       // the token that ends a sentence
  int64_t ngram = 0;                     // 0: any may be repeated
  ValueId least;                         // of tokens, before a sentence may end
  ValueId repetition_penalty;            // [1]
  ValueId vocabulary, first_vocabulary;  // bool [tokens], and, for the first call, [rows, tokens]
  double temperature = 1;

  ScoreRules seen_within(OpContext& body) const;
};
// Of [rows, tokens] scores; `sequences` [rows, length] are int32.
ValueId ruled(OpContext& c, const ScoreRules& rules, ValueId scores, ValueId sequences, bool is_first);
// The rules that all these operators have; operands at the places given, 0 where there is none.
struct RulePlaces {
  size_t least = 0, repetition_penalty = 0, vocabulary = 0, first_vocabulary = 0;
};
ScoreRules take_rules(OpContext& c, const RulePlaces& places);

// A decoder of the kind of GPT-2: input_ids, position_ids, attention_mask, past_0, ... -> logits, present_0, ...; int32
// [batch, length] the first three.
class GptDecoder {
 public:
  // Takes the attributes `decoder` and `init_decoder`.
  explicit GptDecoder(OpContext& c);

  // What a call gives: float32 scores [rows, tokens] of the last position, and the states for the next call.
  struct Step {
    ValueId scores;
    std::vector<ValueId> states;
  };
  // Of a prompt [batch, length] padded on the left; `mask` may be absent: padding is what is not seen then.
  Step first(OpContext& c, ValueId ids, ValueId mask, int64_t pad);
  // Of one token [rows] more behind each; `trip` counts these calls.
  Step next(OpContext& c, ValueId tokens, ValueId trip, const std::vector<ValueId>& states) const;
  // The states of other rows, those that an index [new rows] says.
  std::vector<ValueId> rows_of(OpContext& c, const std::vector<ValueId>& states, ValueId index) const;
  // The same among rows of one prompt, of which only the past differs.
  std::vector<ValueId> reordered(OpContext& c, std::vector<ValueId> states, ValueId index) const;
  int64_t tokens() const { return tokens_; }  // that there are scores of, known once first() has been called

 private:
  Step call(OpContext& c, const onnx::GraphProto* graph, const std::vector<ValueId>& arguments) const;

  const onnx::GraphProto* graph_ = nullptr;
  const onnx::GraphProto* first_graph_ = nullptr;
  DeclaredPorts ports_;
  int64_t tokens_ = -1;
};

// Whether all of a list of bools are true, as a scalar.
ValueId all_of(OpContext& c, ValueId flags);
// The first row of a prompt's rows and columns: [batch, length] with `pad` behind up to `length` columns.
ValueId padded_rows(OpContext& c, ValueId rows, int64_t pad, const Dim& length);
// The operand, an integer, as an extent.
Dim extent_operand(OpContext& c, size_t place, const char* name);

}  // namespace aipu::frontend::microsoft
