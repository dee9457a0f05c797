// Layer normalisations with a skip connection in front, the embeddings of BERT, group normalisation.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

ValueId normalized(OpContext& c, ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  std::vector<ValueId> inputs{x, gamma};
  if (beta.valid()) inputs.push_back(beta);
  return c.emit("LayerNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, inputs);
}

ValueId root_mean_square_normalized(OpContext& c, ValueId x, ValueId gamma, double epsilon) {
  return c.emit("RMSNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, {x, gamma});
}

// Saved for training only; the CPU provider does not give them either.
void refuse_statistics(OpContext& c) {
  if (c.wants_output(1) || c.wants_output(2)) c.fail_unsupported("the outputs mean and inv_std_var are not supported");
}

}  // namespace

// Of ONNX's own domain, where ONNX Runtime put it.
void simplified_layer_normalization(OpContext& c) {
  c.expect_inputs(2, 2);
  const int64_t stash = c.take_int("stash_type", 1);
  if (stash != 1) return c.fail_unsupported(str_cat("stash_type ", stash, " is not supported"));
  if (c.wants_output(1)) return c.fail_unsupported("the output inv_std_var is not supported");
  auto attributes = c.pass_attributes("RMSNormalization");
  c.emit_outputs("RMSNormalization", std::move(attributes), {c.input(0), c.input(1)});
}

void skip_layer_normalization(OpContext& c) {
  c.expect_inputs(3, 5);
  const double epsilon = c.take_float("epsilon", 1e-12);
  refuse_statistics(c);
  const ValueId sum = add_if(c, add(c, c.input(0), c.input(1)), c.input(4));
  c.set_output(0, normalized(c, sum, c.input(2), c.input(3), epsilon));
  if (c.wants_output(3)) c.set_output(3, sum);
}

void skip_simplified_layer_normalization(OpContext& c) {
  c.expect_inputs(3, 4);
  const double epsilon = c.take_float("epsilon", 1e-12);
  refuse_statistics(c);
  const ValueId sum = add_if(c, add(c, c.input(0), c.input(1)), c.input(3));
  c.set_output(0, root_mean_square_normalized(c, sum, c.input(2), epsilon));
  if (c.wants_output(3)) c.set_output(3, sum);
}

// Words, positions and segments, summed and normalised. mask_index counts the words of each sentence that are there.
void embed_layer_normalization(OpContext& c) {
  c.expect_inputs(1, 9);
  const double epsilon = c.take_float("epsilon", 1e-12);
  c.ignore("mask_index_type");
  const ValueId ids = c.input(0);
  if (!c.ok()) return;
  if (c.rank(ids) != 2) return c.fail_invalid(str_cat("input_ids must have rank 2, found ", c.type(ids).text()));
  if (c.has_input(1) != c.has_input(4)) return c.fail_invalid("segment_ids and segment_embedding come together");
  for (const size_t i : {2, 3, 5, 6}) {
    if (!c.has_input(i)) return c.fail_invalid(str_cat("needs input ", i));
  }
  ValueId positions = c.input(8);
  if (!positions.valid()) {
    const ValueId length = c.squeeze(c.size_of(ids, 1), {0});
    positions = c.unsqueeze(c.emit("Range", {}, {c.int64_scalar(0), length, c.int64_scalar(1)}), {0});
  }
  ValueId sum = add(c, gather(c, c.input(2), ids), gather(c, c.input(3), positions));
  if (c.has_input(1)) sum = add(c, sum, gather(c, c.input(4), c.input(1)));
  c.set_output(0, normalized(c, sum, c.input(5), c.input(6), epsilon));
  if (c.wants_output(1)) {
    ValueId counts;
    if (c.has_input(7)) {
      counts = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {c.input(7), c.int64s({1})});
    } else {
      counts = c.emit("Expand", {}, {c.scalar(DType::kI32, 0), c.size_of(ids, 0)});
    }
    c.set_output(1, counts);
  }
  if (c.wants_output(2)) c.set_output(2, sum);
}

// GroupNorm and SkipGroupNorm: channels last by default, Swish behind on request.
void group_norm(OpContext& c) {
  const bool skips = c.op_type() == "SkipGroupNorm";
  c.expect_inputs(skips ? 4 : 3, skips ? 5 : 3);
  const double epsilon = c.take_float("epsilon", 1e-5);
  const bool channels_last = c.take_int("channels_last", 1) != 0;
  const int64_t groups = c.take_int("groups", 0);
  const int64_t activation = c.take_int("activation", 0);
  if (!c.ok()) return;
  ValueId x = c.input(0);
  if (c.rank(x) != 4) return c.fail_invalid(str_cat("the input must have rank 4, found ", c.type(x).text()));
  if (activation != 0 && activation != 1) return c.fail_invalid(str_cat("activation is ", activation));
  if (skips) {
    ValueId skip = c.input(3);
    if (c.rank(skip) == 2)
      skip = c.unsqueeze(skip, channels_last ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 3});
    x = add(c, x, skip);
    if (c.has_input(4)) x = add(c, x, channels_last ? c.input(4) : c.unsqueeze(c.input(4), {1, 2}));
    if (c.wants_output(1)) c.set_output(1, x);
  }
  const DType dtype = c.dtype(x);
  ValueId y = channels_last ? c.transpose(x, {0, 3, 1, 2}) : x;
  y = c.emit("GroupNormalization", {{"epsilon", epsilon}, {"num_groups", groups}},
             {y, c.cast(c.input(1), dtype), c.cast(c.input(2), dtype)});
  if (channels_last) y = c.transpose(y, {0, 2, 3, 1});
  if (activation == 1) y = c.emit("Swish", {}, {y});
  c.set_output(0, y);
}

}  // namespace aipu::frontend::microsoft
