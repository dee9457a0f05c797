#include <algorithm>
#include <limits>
#include <map>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/control_flow.h"
#include "frontend/onnx/ops/microsoft/generation.h"

namespace aipu::frontend::microsoft {

namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();

// Makes extents of the states that the body changes symbols, by what they are before and behind; whether any was not
// yet.
class Widening {
 public:
  explicit Widening(OpContext& c) : c_(c) {}

  bool widen(std::vector<TensorType>* states, const ImportedSubgraph& body) {
    bool changed = false;
    becomes_.clear();
    for (size_t k = 0; k < states->size(); ++k) {
      TensorType& in = (*states)[k];
      const TensorType& out = body.graph->type(body.results[1 + k].value);
      if (in.dtype != out.dtype || in.rank() != out.rank()) {
        c_.fail_unsupported(str_cat("a state of the decoder is ", in.text(), " and becomes ", out.text()));
        return false;
      }
      for (size_t axis = 0; axis < in.shape.size(); ++axis) changed |= widen_extent(&in.shape[axis], out.shape[axis]);
    }
    return changed;
  }

 private:
  bool widen_extent(Dim* in, const Dim& out) {
    const std::string name = in->text();
    if (std::ranges::find(symbols_, name) != symbols_.end()) {
      if (!(becomes_.try_emplace(name, out).first->second == out))
        c_.fail_unsupported("states of the decoder do not grow alike");
      return false;
    }
    if (*in == out) return false;
    const auto [at, is_new] = by_change_.try_emplace(str_cat(name, " to ", out.text()));
    if (is_new) {
      at->second = c_.fresh_symbol("grown");
      symbols_.push_back(at->second.text());
    }
    *in = at->second;
    return true;
  }

  OpContext& c_;
  std::map<std::string, Dim> by_change_;
  std::map<std::string, Dim> becomes_;  // a symbol, within this body
  std::vector<std::string> symbols_;
};

}  // namespace

std::vector<ValueId> emit_loop(OpContext& c, ValueId trips, ValueId goes_on, const std::vector<ValueId>& initial,
                               const LoopWriter& write) {
  if (!c.ok()) return {};
  std::vector<TensorType> types;
  for (const ValueId state : initial) types.push_back(c.type(state));
  Widening widening(c);
  ImportedSubgraph body;
  do {
    std::vector<TensorType> formals{{DType::kI64, {}}, {DType::kBool, {}}};
    formals.insert(formals.end(), types.begin(), types.end());
    body = c.write_body(formals, [&](OpContext& inner, const std::vector<ValueId>& inputs) {
      return write(inner, inputs[0], {inputs.begin() + 2, inputs.end()});
    });
  } while (c.ok() && widening.widen(&types, body));
  if (!c.ok()) return {};
  std::vector<ValueId> inputs{trips, goes_on};
  inputs.insert(inputs.end(), initial.begin(), initial.end());
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  const size_t results = body.results.size() - 1;  // those behind the states are stacked
  std::vector<std::string> names;
  for (size_t k = 0; k < results; ++k) names.push_back(str_cat(c.output_names[0], "/state_", k));
  std::vector<std::unique_ptr<Graph>> bodies;
  bodies.push_back(std::move(body.graph));
  return emit_parts(c, "Loop", {}, inputs, std::move(names), std::move(bodies));
}

ScoreRules ScoreRules::seen_within(OpContext& body) const {
  ScoreRules rules = *this;
  for (ValueId* value :
       {&rules.least, &rules.repetition_penalty, &rules.vocabulary, &rules.first_vocabulary, &rules.temperature})
    *value = body.seen_within(*value);
  return rules;
}

ScoreRules take_rules(OpContext& c, const RulePlaces& places) {
  ScoreRules rules;
  for (const char* name : {"eos_token_id", "pad_token_id"}) c.require_attribute(name);
  rules.end = c.take_int("eos_token_id", 0);
  rules.ngram = c.take_int("no_repeat_ngram_size", 0);
  const auto one = [&](size_t place) {
    return place != 0 && c.has_input(place) ? reshape(c, c.input(place), {1}) : ValueId();
  };
  const auto allowed = [&](size_t place) {
    if (!c.has_input(place)) return ValueId();
    return c.emit("Not", {}, {c.emit("Equal", {}, {c.input(place), c.scalar(c.dtype(c.input(place)), 0)})});
  };
  rules.least = one(places.least);
  rules.repetition_penalty = one(places.repetition_penalty);
  rules.vocabulary = allowed(places.vocabulary);
  rules.first_vocabulary = allowed(places.first_vocabulary);
  return rules;
}

// The order is ONNX Runtime's.
ValueId ruled(OpContext& c, const ScoreRules& rules, ValueId scores, ValueId sequences, bool is_first) {
  if (!c.ok()) return {};
  const ValueId lowest = c.scalar(DType::kF32, kLowest);
  if (rules.repetition_penalty.valid()) {
    const ValueId none = c.emit("Expand", {}, {c.scalar(DType::kF32, 0), c.shape_of(scores)});
    const ValueId some = c.emit("Expand", {}, {c.scalar(DType::kF32, 1), c.shape_of(sequences)});
    const ValueId used =
        c.emit("ScatterElements", {{"axis", int64_t{1}}}, {none, c.cast(sequences, DType::kI64), some});
    const ValueId penalty = rules.repetition_penalty;
    const ValueId is_negative = c.emit("Less", {}, {scores, c.scalar(DType::kF32, 0)});
    const ValueId less = where(c, is_negative, multiply(c, scores, penalty), c.emit("Div", {}, {scores, penalty}));
    scores = where(c, c.emit("Greater", {}, {used, c.scalar(DType::kF32, 0)}), less, scores);
  }
  if (rules.ngram > 0)
    scores = without_repeated_ngrams(c, c.cast(sequences, DType::kI64), scores, rules.ngram, kLowest);
  if (rules.vocabulary.valid()) scores = where(c, rules.vocabulary, scores, lowest);
  if (is_first && rules.first_vocabulary.valid()) scores = where(c, rules.first_vocabulary, scores, lowest);
  if (rules.least.valid()) {
    const ValueId is_short = c.emit("Less", {}, {c.size_of(sequences, 1), c.cast(rules.least, DType::kI64)});
    const ValueId ends = c.emit("Equal", {}, {positions_along(c, scores, 1), c.int64_scalar(rules.end)});
    scores = where(c, c.emit("And", {}, {ends, is_short}), lowest, scores);
  }
  if (rules.temperature.valid()) scores = c.emit("Div", {}, {scores, rules.temperature});
  if (rules.timestamps) scores = with_timestamps(c, *rules.timestamps, scores, sequences);
  return scores;
}

ValueId all_of(OpContext& c, ValueId flags) {
  const ValueId least = c.emit("ReduceMin", {{"keepdims", int64_t{0}}}, {c.cast(flags, DType::kI32)});
  return c.cast(least, DType::kBool);
}

Dim extent_operand(OpContext& c, size_t place, const char* name) {
  if (!c.ok()) return {};
  const auto data = c.has_input(place) ? c.graph().require_data(c.input(place), 1) : std::nullopt;
  if (data && data->size() == 1) return data->front();
  c.fail_invalid(str_cat(name, " is one integer"));
  return {};
}

ValueId padded_rows(OpContext& c, ValueId rows, int64_t pad, const Dim& length) {
  if (!c.ok()) return {};
  Shape shape = c.type(rows).shape;
  const auto axis = static_cast<int64_t>(shape.size()) - 1;
  shape.back() = length;
  const ValueId blank = c.emit("Expand", {{"shape", shape}}, {c.scalar(c.dtype(rows), static_cast<double>(pad))});
  const ValueId at = c.emit("Expand", {}, {positions_along(c, rows, axis), c.shape_of(rows)});
  return c.emit("ScatterElements", {{"axis", axis}}, {blank, at, rows});
}

// ---- Decoder

Decoder::Decoder(OpContext& c) : tokens_(c.take_int("vocab_size", -1)) {}

std::vector<ValueId> Decoder::inlined(OpContext& c, const onnx::GraphProto* graph,
                                      const std::vector<ValueId>& arguments) {
  std::vector<Item> items;
  for (const ValueId argument : arguments) items.push_back({argument, {}});
  std::vector<ValueId> values;
  for (const Item& item : c.inline_subgraph(graph, items)) {
    if (!item.value.valid()) {
      c.fail_unsupported("the sub-graphs must give tensors");
      return {};
    }
    values.push_back(item.value);
  }
  return c.ok() ? values : std::vector<ValueId>();
}

Decoder::Step Decoder::call(OpContext& c, const onnx::GraphProto* graph, const std::vector<ValueId>& arguments) const {
  Step step;
  step.states = inlined(c, graph, arguments);
  if (!c.ok()) return {};
  ValueId logits = step.states[0];
  step.states.erase(step.states.begin());
  const auto tokens = c.rank(logits) == 3 ? c.type(logits).shape[2].constant() : std::nullopt;
  if (!tokens || (tokens_ > 0 && *tokens != tokens_)) {
    const std::string wanted = tokens_ > 0 ? std::to_string(tokens_) : "a known number of";
    c.fail_unsupported(str_cat("the decoder's logits are ", c.type(logits).text(), ", not of ", wanted, " tokens"));
    return {};
  }
  if (c.type(logits).shape[1] != Dim(1)) logits = slice(c, logits, 1, -1, INT64_MAX);
  step.scores = c.cast(c.squeeze(logits, {1}), DType::kF32);
  return step;
}

void Decoder::count_tokens(OpContext& c, const Step& step) {
  if (c.ok()) tokens_ = c.type(step.scores).shape[1].constant_or(-1);
}

// ---- GptDecoder

GptDecoder::GptDecoder(OpContext& c) : Decoder(c) {
  graph_ = c.take_graph("decoder");
  first_graph_ = c.has_attribute("init_decoder") ? c.take_graph("init_decoder") : graph_;
  for (const onnx::GraphProto* graph : {first_graph_, graph_}) {
    ports_ = c.declared_ports(graph);
    if (!c.ok()) return;
    const char* const names[] = {"input_ids", "position_ids", "attention_mask"};
    bool fits = ports_.inputs.size() > 3 && ports_.inputs.size() == ports_.outputs.size() + 2;
    for (size_t i = 0; i < ports_.inputs.size() && fits; ++i) {
      const DeclaredPort& port = ports_.inputs[i];
      fits &= i < 3 ? port.name == names[i] && port.dtype == DType::kI32
                    : is_floating(port.dtype) && port.extents.size() == 5 && port.extents[0] == 2 &&
                          port.extents[2] > 0 && port.extents[4] > 0;
    }
    if (!fits) {
      c.fail_unsupported(
          "the decoder must have the inputs input_ids, position_ids and attention_mask of int32 and, for each layer, a "
          "past [2, batch, heads, length, size], and the outputs logits and, for each layer, a present");
    }
  }
}

// The states behind those of the decoder: the mask, and the position of the next token.
GptDecoder::Step GptDecoder::first(OpContext& c, ValueId ids, ValueId mask, int64_t pad) {
  if (!c.ok()) return {};
  // Positions count what is no padding, whatever a mask of one's own says.
  const ValueId seen = c.emit("Not", {}, {c.emit("Equal", {}, {ids, c.scalar(DType::kI32, static_cast<double>(pad))})});
  if (!mask.valid()) mask = c.cast(seen, DType::kI32);
  const ValueId counted = c.cast(seen, DType::kI64);
  const ValueId before = c.emit("CumSum", {{"exclusive", int64_t{1}}}, {counted, c.int64_scalar(1)});
  std::vector<ValueId> arguments{ids, c.cast(multiply(c, before, counted), DType::kI32), mask};
  if (!c.ok()) return {};
  for (size_t i = 3; i < ports_.inputs.size(); ++i) {
    const DeclaredPort& past = ports_.inputs[i];
    const Shape shape{Dim(2), c.type(ids).shape[0], Dim(past.extents[2]), Dim(0), Dim(past.extents[4])};
    arguments.push_back(c.emit("Expand", {{"shape", shape}}, {c.scalar(past.dtype, 0)}));
  }
  Step step = call(c, first_graph_, arguments);
  count_tokens(c, step);
  step.states.push_back(mask);
  step.states.push_back(c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {counted, c.int64s({1})}));
  return step;
}

GptDecoder::Step GptDecoder::next(OpContext& c, ValueId tokens, ValueId /*sentences*/, ValueId trip,
                                  const std::vector<ValueId>& states) const {
  if (!c.ok()) return {};
  const size_t layers = states.size() - 2;
  const ValueId ids = c.unsqueeze(tokens, {1});
  const ValueId positions = c.unsqueeze(add(c, states[layers + 1], trip), {1});
  const ValueId one = c.emit("Expand", {}, {c.scalar(DType::kI32, 1), c.shape_of(ids)});
  const ValueId mask = concat(c, 1, {states[layers], one});
  std::vector<ValueId> arguments{ids, c.cast(positions, DType::kI32), mask};
  arguments.insert(arguments.end(), states.begin(), states.begin() + static_cast<std::ptrdiff_t>(layers));
  Step step = call(c, graph_, arguments);
  step.states.push_back(mask);
  step.states.push_back(states[layers + 1]);
  return step;
}

std::vector<ValueId> GptDecoder::reordered(OpContext& c, std::vector<ValueId> states, ValueId from) const {
  for (size_t k = 0; k + 2 < states.size(); ++k) states[k] = gather(c, states[k], from, 1);
  return states;
}

std::vector<ValueId> GptDecoder::spread(OpContext& c, std::vector<ValueId> states, ValueId prompts, ValueId from) {
  states = reordered(c, std::move(states), from);
  for (size_t k = states.size() - 2; k < states.size(); ++k) states[k] = gather(c, states[k], prompts);
  return states;
}

}  // namespace aipu::frontend::microsoft
