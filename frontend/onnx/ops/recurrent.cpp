// RNN, GRU, LSTM: layout 1 (batch first) becomes layout 0 between Transposes.
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

void recurrent(OpContext& c) {
  c.ignore("output_sequence");  // opset 1: which outputs are wanted, which their names say too
  const bool batch_first = c.take_int("layout", 0) == 1;
  if (!batch_first) return pass(c);
  c.expect_inputs(3, 8);
  if (!c.ok()) return;
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
