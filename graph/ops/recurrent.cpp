// LSTM, GRU, RNN.
#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

enum Operand : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kP, kXScale, kWScale, kRScale };

struct Recurrence {
  std::string name;
  int gates;
  std::vector<std::string> activations;  // of one direction
};

int64_t directions_of(const Attributes& a) { return a.s("direction") == "bidirectional" ? 2 : 1; }

Status complete_recurrent(const Recurrence& kind, const Graph& graph, Node* node) {
  Attributes& a = node->attributes;
  const std::string& direction = a.s("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return invalid_model(str_cat("direction is '", direction, "', expected one of: forward, reverse, bidirectional"));
  }
  const auto directions = static_cast<size_t>(directions_of(a));
  if (!a.has("activations")) {
    std::vector<std::string> names;
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), kind.activations.begin(), kind.activations.end());
    a.set("activations", std::move(names));
  }
  const auto count = std::get<std::vector<std::string>>(*a.find("activations")).size();
  if (count != directions * kind.activations.size()) {
    return invalid_model(str_cat("activations has ", count, " names, expected ", directions * kind.activations.size()));
  }
  if (!a.has("hidden_size")) {
    const TensorType& recurrence = graph.type(node->inputs[2]);
    const auto hidden = recurrence.rank() == 3 ? recurrence.shape[2].constant() : std::nullopt;
    if (!hidden) return invalid_model(str_cat("hidden_size is missing, and R is ", recurrence.text()));
    a.set("hidden_size", *hidden);
  }
  return {};
}

Status infer_recurrent(const Recurrence& kind, InferContext& ctx) {
  const Attributes& a = ctx.attributes();
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 3));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 3));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 2, 3));
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {kX, kW, kR, kB, kInitialH, kInitialC, kP, kXScale, kWScale, kRScale}));
  const bool batch_first = a.i("layout") != 0;
  const Shape& input = ctx.input(0).shape;
  const Dim length = input[batch_first ? 1 : 0];
  const Dim batch = input[batch_first ? 0 : 1];
  const Dim directions(directions_of(a));
  const Dim hidden(a.i("hidden_size"));
  const Dim rows = hidden * Dim(kind.gates);

  const auto check = [&](size_t i, const Shape& expected, const char* name) -> Status {
    if (!ctx.has_input(i)) return {};
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, i, static_cast<int>(expected.size())));
    for (size_t k = 0; k < expected.size(); ++k) {
      AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(i).shape[k], expected[k], str_cat("extent ", k, " of ", name)));
    }
    return {};
  };
  const Shape state = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  AIPU_RETURN_IF_ERROR(check(1, {directions, rows, input[2]}, "W"));
  AIPU_RETURN_IF_ERROR(check(2, {directions, rows, hidden}, "R"));
  AIPU_RETURN_IF_ERROR(check(3, {directions, rows * Dim(2)}, "B"));
  AIPU_RETURN_IF_ERROR(check(4, {batch}, "sequence_lens"));
  AIPU_RETURN_IF_ERROR(check(5, state, "initial_h"));
  if (kind.name == "LSTM") {
    AIPU_RETURN_IF_ERROR(check(6, state, "initial_c"));
    AIPU_RETURN_IF_ERROR(check(7, {directions, hidden * Dim(3)}, "P"));
    AIPU_RETURN_IF_ERROR(check(kXScale, {}, "X_scale"));
    AIPU_RETURN_IF_ERROR(check(kWScale, {directions, rows}, "W_scale"));
    AIPU_RETURN_IF_ERROR(check(kRScale, {directions, rows}, "R_scale"));
    if (ctx.has_input(kXScale) != ctx.has_input(kWScale) || ctx.has_input(kXScale) != ctx.has_input(kRScale))
      return invalid_model("X_scale, W_scale and R_scale come together or not at all");
  }
  const DType dtype = ctx.input(0).dtype;
  set_output(ctx, 0, dtype,
             batch_first ? Shape{batch, length, directions, hidden} : Shape{length, directions, batch, hidden});
  set_output(ctx, 1, dtype, state);
  set_output(ctx, 2, dtype, state);
  return {};
}

// Sequences of a batch are apart. `layout` 0: X is [steps, batch, inputs], Y [steps, directions, batch, hidden], states
// [directions, batch, hidden]; 1: the batch is the first axis of all.
AxisMap recurrent_axes(const Graph& graph, const Node& node) {
  const bool batch_first = node.attributes.i("layout") != 0;
  AxisMapBuilder map(graph, node);
  // The state is rounded over its range in all of a batch.
  if (node.inputs.size() > kXScale && node.inputs[kXScale].valid()) return map.take();
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const size_t batch = batch_first ? 0 : k == 0 ? 2 : 1;
    map.link(k, batch, kX, batch_first ? 0 : 1).link(k, batch, kLengths, 0).apart(k, batch);
    for (const size_t state : {kInitialH, kInitialC}) map.link(k, batch, state, batch_first ? 0 : 1);
  }
  return map.take();
}

// X [steps, batch, inputs] in either order of the first two; W and R are [directions, gates * hidden, inputs or
// hidden].
Dim recurrent_work(const Graph& graph, const Node& node) {
  const auto shape = [&](size_t input) -> const Shape& { return graph.type(node.inputs[input]).shape; };
  return shape(0)[0] * shape(0)[1] * (element_count(shape(1)) + element_count(shape(2)));
}

OpDef recurrent_op(std::string name, int gates, std::vector<std::string> default_activations) {
  const Recurrence kind{name, gates, std::move(default_activations)};
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("X", "f"),
                operand("W", "f"),
                operand("R", "f"),
                optional_operand("B", "f"),
                optional_operand("sequence_lens", kIndex),
                optional_operand("initial_h", "f")};
  def.outputs = {optional_operand("Y", "f"), optional_operand("Y_h", "f")};
  def.attributes = {attr::optional("activations", AttributeKind::kStrings),
                    attr::optional("activation_alpha", AttributeKind::kFloats),
                    attr::optional("activation_beta", AttributeKind::kFloats),
                    attr::optional("clip", AttributeKind::kFloat),
                    attr::optional("hidden_size", AttributeKind::kInt),
                    attr::s("direction", "forward"),
                    attr::i("layout", 0)};
  def.traits = kFaults;
  if (kind.name == "LSTM") {
    def.inputs.push_back(optional_operand("initial_c", "f"));
    def.inputs.push_back(optional_operand("P", "f"));
    def.outputs.push_back(optional_operand("Y_c", "f"));
    def.attributes.push_back(attr::i("input_forget", 0));
    for (const char* scale : {"X_scale", "W_scale", "R_scale"}) def.inputs.push_back(optional_operand(scale, "f"));
  }
  if (kind.name == "GRU") def.attributes.push_back(attr::i("linear_before_reset", 0));
  def.complete = [kind](const Graph& graph, Node* node) { return complete_recurrent(kind, graph, node); };
  def.infer = [kind](InferContext& ctx) { return infer_recurrent(kind, ctx); };
  def.axes = recurrent_axes;
  def.multiply_adds = recurrent_work;
  return def;
}

}  // namespace

std::vector<OpDef> recurrent_ops() {
  return {
      recurrent_op("LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}),
      recurrent_op("GRU", 3, {"Sigmoid", "Tanh"}),
      recurrent_op("RNN", 1, {"Tanh"}),
  };
}

}  // namespace aipu::graph
