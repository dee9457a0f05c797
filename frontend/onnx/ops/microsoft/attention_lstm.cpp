// AttnLSTM: an LSTM whose steps also see what the one before attended to in a memory (Bahdanau's attention).
#include <array>
#include <cctype>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/generation.h"

namespace aipu::frontend::microsoft {

namespace {

enum Place : size_t {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes,
  kQueryWeights,
  kMemoryWeights,
  kV,
  kMemory,
  kMemoryLengths,
  kAttentionWeights
};

// What the steps of one direction read; weights are transposed. What is absent is not there.
struct Direction {
  ValueId x;                   // [steps, batch, inputs]
  ValueId w, r, bias;          // [inputs + attention, 4 * hidden], [hidden, 4 * hidden], [4 * hidden]: gates i, o, f, c
  ValueId peepholes;           // [3 * hidden]: i, o, f
  ValueId query_weights, v;    // [hidden, attention size], [attention size]
  ValueId keys, memory, seen;  // [batch, places, attention size], [batch, places, depth], bool [batch, places]
  ValueId attention_weights;   // [hidden + depth, attention]
  ValueId lengths;             // int64 [batch, 1]
  int64_t hidden = 0;

  Direction seen_within(OpContext& body) const {
    Direction d = *this;
    for (ValueId* value : {&d.x, &d.w, &d.r, &d.bias, &d.peepholes, &d.query_weights, &d.v, &d.keys, &d.memory, &d.seen,
                           &d.attention_weights, &d.lengths})
      *value = body.seen_within(*value);
    return d;
  }
};

struct State {
  ValueId h, c, attention;
};

State step(OpContext& c, const Direction& d, const State& old, ValueId x) {
  ValueId gates = add(c, matmul(c, concat(c, 1, {x, old.attention}), d.w), matmul(c, old.h, d.r));
  gates = add_if(c, gates, d.bias);
  const auto gate = [&](int64_t place) { return slice(c, gates, 1, place * d.hidden, (place + 1) * d.hidden); };
  const auto with_peephole = [&](ValueId sum, int64_t place, ValueId cell) {
    if (!d.peepholes.valid()) return sum;
    return add(c, sum, multiply(c, slice(c, d.peepholes, 0, place * d.hidden, (place + 1) * d.hidden), cell));
  };
  const auto sigmoid = [&](ValueId sum) { return c.emit("Sigmoid", {}, {sum}); };
  const auto tanh = [&](ValueId sum) { return c.emit("Tanh", {}, {sum}); };
  const ValueId input = sigmoid(with_peephole(gate(0), 0, old.c));
  const ValueId forget = sigmoid(with_peephole(gate(2), 2, old.c));
  State next;
  next.c = add(c, multiply(c, forget, old.c), multiply(c, input, tanh(gate(3))));
  next.h = multiply(c, sigmoid(with_peephole(gate(1), 1, next.c)), tanh(next.c));

  const ValueId query = c.unsqueeze(matmul(c, next.h, d.query_weights), {1});
  const ValueId match = multiply(c, d.v, tanh(add(c, d.keys, query)));
  ValueId scores = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {match, c.int64s({2})});
  const DType dtype = c.dtype(scores);
  if (d.seen.valid()) {
    scores = where(c, d.seen, scores, c.scalar(dtype, -std::numeric_limits<double>::infinity()));
  }
  const ValueId parts = c.emit("Softmax", {{"axis", int64_t{1}}}, {scores});
  const ValueId context = c.squeeze(matmul(c, c.unsqueeze(parts, {1}), d.memory), {1});
  next.attention =
      d.attention_weights.valid() ? matmul(c, concat(c, 1, {next.h, context}), d.attention_weights) : context;
  return next;
}

// All steps of one direction: what they give [steps, batch, hidden], and the last h and c.
std::array<ValueId, 3> run(OpContext& c, const Direction& d, ValueId h, ValueId cell) {
  if (!c.ok()) return {};
  const ValueId attention_like = d.attention_weights.valid() ? d.attention_weights : d.memory;
  const Dim width = c.type(attention_like).shape.back();
  const ValueId nothing = c.emit("Expand", {{"shape", Shape{c.type(h).shape[0], width}}}, {c.scalar(c.dtype(h), 0)});
  const auto body = [&](OpContext& inner, ValueId trip, const std::vector<ValueId>& in) {
    const Direction seen = d.seen_within(inner);
    State next = step(inner, seen, {in[0], in[1], in[2]}, gather(inner, seen.x, trip));
    ValueId y = next.h;
    if (seen.lengths.valid()) {
      const ValueId goes_on = inner.emit("Less", {}, {trip, seen.lengths});
      y = where(inner, goes_on, next.h, inner.scalar(inner.dtype(y), 0));
      next = {where(inner, goes_on, next.h, in[0]), where(inner, goes_on, next.c, in[1]),
              where(inner, goes_on, next.attention, in[2])};
    }
    return std::vector<ValueId>{inner.scalar(DType::kBool, 1), next.h, next.c, next.attention, y};
  };
  const ValueId steps = c.squeeze(c.size_of(d.x, 0), {0});
  const std::vector<ValueId> made = emit_loop(c, steps, c.scalar(DType::kBool, 1), {h, cell, nothing}, body);
  if (!c.ok()) return {};
  return {made[3], made[0], made[1]};
}

// The steps of each sentence in the other order; what is behind its end stays there.
ValueId reversed(OpContext& c, ValueId x, ValueId lengths) {
  return c.emit("ReverseSequence", {{"time_axis", int64_t{0}}, {"batch_axis", int64_t{1}}}, {x, lengths});
}

// Refuses what changes the gates.
void take_cell(OpContext& c) {
  if (c.take_int("input_forget", 0) != 0) c.fail_unsupported("input_forget = 1 is not supported");
  if (c.has_attribute("clip") && c.take_float("clip", 0) > 0) c.fail_unsupported("clip is not supported");
  const auto activations = c.take_strings("activations").value_or(std::vector<std::string>());
  const std::array<std::string_view, 3> usual{"sigmoid", "tanh", "tanh"};
  for (size_t i = 0; i < activations.size(); ++i) {
    std::string name = activations[i];
    for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    if (name != usual[i % usual.size()])
      c.fail_unsupported(str_cat("activations other than Sigmoid, Tanh, Tanh are not supported: ", activations[i]));
  }
  c.ignore("activation_alpha");
  c.ignore("activation_beta");
}

}  // namespace

void attention_lstm(OpContext& c) {
  c.expect_inputs(3, 14);
  const std::string direction = c.take_string("direction", "forward");
  const int64_t hidden = c.take_int("hidden_size", 0);
  take_cell(c);
  for (const size_t i : {kQueryWeights, kMemoryWeights, kV, kMemory}) {
    if (!c.has_input(i)) c.fail_invalid(str_cat("needs operand ", i));
  }
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    c.fail_invalid(str_cat("direction is ", direction));
  if (!c.ok()) return;
  if (c.rank(c.input(kX)) != 3 || c.rank(c.input(kR)) != 3 || c.type(c.input(kR)).shape[2] != Dim(hidden) || hidden < 1)
    return c.fail_invalid(str_cat("X must have rank 3 and R the extent hidden_size, found ", c.type(c.input(kX)).text(),
                                  " and ", c.type(c.input(kR)).text()));
  const ValueId x = c.input(kX), memory = c.input(kMemory);
  const Shape shape = c.type(x).shape;
  const DType dtype = c.dtype(x);
  const auto as_column = [&](size_t place) {
    return c.has_input(place) ? c.unsqueeze(c.cast(c.input(place), DType::kI64), {1}) : ValueId();
  };
  ValueId lengths = c.has_input(kLengths) ? c.cast(c.input(kLengths), DType::kI64) : ValueId();
  const ValueId column = as_column(kLengths);
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  std::array<std::vector<ValueId>, 3> results;
  for (int64_t k = 0; k < directions && c.ok(); ++k) {
    const auto part = [&](size_t place) {
      return c.has_input(place) ? c.squeeze(slice(c, c.input(place), 0, k, k + 1), {0}) : ValueId();
    };
    const bool backwards = direction == "reverse" || k == 1;
    if (backwards && !lengths.valid()) lengths = c.emit("Expand", {{"shape", Shape{shape[1]}}}, {c.size_of(x, 0)});
    Direction d;
    d.hidden = hidden;
    d.x = backwards ? reversed(c, x, lengths) : x;
    d.w = c.transpose(part(kW), {1, 0});
    d.r = c.transpose(part(kR), {1, 0});
    if (const ValueId bias = part(kB); bias.valid())
      d.bias = add(c, slice(c, bias, 0, 0, 4 * hidden), slice(c, bias, 0, 4 * hidden, 8 * hidden));
    d.peepholes = part(kPeepholes);
    d.query_weights = part(kQueryWeights);
    d.v = part(kV);
    d.memory = memory;
    if (const ValueId ends = as_column(kMemoryLengths); ends.valid()) {
      d.seen = c.emit("Less", {}, {positions_along(c, memory, 1), ends});
      d.memory = where(c, c.unsqueeze(d.seen, {2}), memory, c.scalar(dtype, 0));
    }
    d.keys = matmul(c, d.memory, part(kMemoryWeights));
    d.attention_weights = part(kAttentionWeights);
    d.lengths = column;
    const auto initial = [&](size_t place) {
      const Shape state{shape[1], Dim(hidden)};
      return c.has_input(place) ? part(place) : c.emit("Expand", {{"shape", state}}, {c.scalar(dtype, 0)});
    };
    std::array<ValueId, 3> made = run(c, d, initial(kInitialH), initial(kInitialC));
    if (backwards) made[0] = reversed(c, made[0], lengths);
    for (size_t i = 0; i < made.size(); ++i) results[i].push_back(c.unsqueeze(made[i], {i == 0 ? 1 : 0}));
  }
  for (size_t i = 0; i < results.size() && c.ok(); ++i) {
    if (c.wants_output(i)) c.set_output(i, concat(c, i == 0 ? 1 : 0, results[i]));
  }
}

}  // namespace aipu::frontend::microsoft
