// RNN, GRU, LSTM: layout 1 (batch first) becomes layout 0 between Transposes, coupled gates become free ones.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

// Gates i, o, f, c along the axis: f becomes that of 1 - i, which is -i in front of a sigmoid.
ValueId coupled_gates(OpContext& c, ValueId x, int64_t axis, int64_t hidden, int64_t first, bool with_cell) {
  const auto gate = [&](int64_t i) { return slice(c, x, axis, (first + i) * hidden, (first + i + 1) * hidden); };
  const ValueId input = gate(0);
  std::vector<ValueId> gates{input, gate(1), c.emit("Neg", {}, {input})};
  if (with_cell) gates.push_back(gate(3));
  return concat(c, axis, std::move(gates));
}

// LSTM with input_forget = 1 as one without.
void decouple_gates(OpContext& c) {
  const auto activations = c.attributes.find("activations");
  if (activations != c.attributes.end()) {
    for (size_t i = 0; i < activations->second.strings.size(); i += 3) {
      if (activations->second.strings[i] != "Sigmoid")
        return c.fail_unsupported("input_forget = 1 with gates that are not a Sigmoid is not supported");
    }
  }
  const auto hidden = c.rank(c.input(2)) == 3 ? c.type(c.input(2)).shape[2].constant() : std::nullopt;
  if (!hidden)
    return c.fail_unsupported(str_cat("weights of the type ", c.type(c.input(2)).text(), " are not supported"));
  for (const size_t i : {1, 2}) c.inputs[i] = coupled_gates(c, c.inputs[i], 1, *hidden, 0, true);
  if (c.has_input(3)) {
    c.inputs[3] = concat(
        c, 1, {coupled_gates(c, c.inputs[3], 1, *hidden, 0, true), coupled_gates(c, c.inputs[3], 1, *hidden, 4, true)});
  }
  if (c.has_input(7)) c.inputs[7] = coupled_gates(c, c.inputs[7], 1, *hidden, 0, false);
}

}  // namespace

void recurrent(OpContext& c) {
  // The graph's LSTM has operands that ONNX's does not.
  c.expect_inputs(3, c.op_type() == "LSTM" ? 8 : 6);
  if (!c.ok()) return;
  if (c.op_type() == "LSTM" && c.take_int("input_forget", 0) != 0) {
    decouple_gates(c);
    if (!c.ok()) return;
  }
  c.ignore("output_sequence");  // opset 1: which outputs are wanted, which their names say too
  const bool batch_first = c.take_int("layout", 0) == 1;
  if (!batch_first) return pass(c);
  std::vector<ValueId> inputs = c.inputs;
  for (const size_t i : {size_t{0}, size_t{5}, size_t{6}}) {  // X, initial_h, initial_c
    if (c.has_input(i)) inputs[i] = c.transpose(inputs[i], {1, 0, 2});
  }
  const auto names = c.output_names;
  for (auto& name : c.output_names) name = name.empty() ? "" : name + "/sequence_first";
  c.emit_outputs(c.op_type(), c.pass_attributes(c.op_type()), inputs);
  c.output_names = names;
  if (!c.ok()) return;
  const auto made = c.results;
  for (size_t i = 0; i < made.size(); ++i) {
    if (made[i].valid())
      c.set_output(i, c.transpose(made[i], i == 0 ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>{1, 0, 2}));
  }
}

}  // namespace aipu::frontend
