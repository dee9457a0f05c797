// DecoderAttention: of a translation model's decoder, to itself or to the encoder, with the projections in front.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/attention_heads.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

// What decides the form of the node is an operand.
bool take_flag(OpContext& c, size_t i) {
  if (!c.ok()) return false;
  const auto flag = c.constant_ints(c.input(i));
  if (flag && flag->size() == 1) return flag->front() != 0;
  c.fail_unsupported(str_cat("operand '", c.graph().value(c.input(i)).name, "' must be known when compiling"));
  return false;
}

}  // namespace

// Queries and keys are [length, batch, size].
void decoder_attention(OpContext& c) {
  c.expect_inputs(5, 12);
  const ScoreAttributes a = take_score_attributes(c);
  for (size_t i = 8; c.ok() && i < 12; ++i) {
    if (!c.has_input(i)) return c.fail_invalid(str_cat("needs input ", i));
  }
  const bool is_cross = take_flag(c, 8), uses_past = take_flag(c, 9), has_state = take_flag(c, 10);
  const bool cached = uses_past && has_state;
  if (!c.ok()) return;
  const auto width = c.rank(c.input(2)) == 2 ? c.type(c.input(2)).shape[1].constant() : std::nullopt;
  if (!width || *width % a.heads != 0 || c.rank(c.input(0)) != 3 || c.rank(c.input(1)) != 3)
    return c.fail_unsupported(str_cat("queries ", c.type(c.input(0)).text(), " with weights ",
                                      c.type(c.input(2)).text(), " for ", a.heads, " heads are not supported"));
  if (cached && (!c.has_input(6) || !c.has_input(7))) return c.fail_invalid("use_past needs key_cache and value_cache");

  const auto heads = [&](ValueId x) { return c.transpose(reshape(c, x, {0, 0, a.heads, -1}), {1, 2, 0, 3}); };
  ScaledAttention core;
  core.heads = core.key_heads = a.heads;
  core.scale = a.scale;
  core.q = heads(add(c, matmul(c, c.input(0), c.input(2)), slice(c, c.input(4), 0, 0, *width)));
  if (cached && is_cross) {
    core.k = c.input(6), core.v = c.input(7);
  } else {
    const ValueId from = is_cross ? c.input(1) : c.input(0);
    const ValueId both = add(c, matmul(c, from, c.input(3)), slice(c, c.input(4), 0, *width, INT64_MAX));
    core.k = heads(slice(c, both, -1, 0, *width));
    core.v = heads(slice(c, both, -1, *width, INT64_MAX));
    if (cached) core.k = concat(c, 2, {c.input(6), core.k}), core.v = concat(c, 2, {c.input(7), core.v});
  }
  if (c.wants_output(1)) c.set_output(1, core.k);
  if (c.wants_output(2)) c.set_output(2, core.v);
  if (c.has_input(5)) {
    // true: padding, which gets mask_filter_value
    const ValueId flag = reshape(c, c.input(11), {1});
    const ValueId hidden = c.unsqueeze(c.emit("And", {}, {c.input(5), flag}), {1, 2});
    const DType dtype = c.dtype(core.q);
    core.biases = {where(c, hidden, c.scalar(dtype, a.mask_value), c.scalar(dtype, 0))};
  } else if (take_flag(c, 11)) {
    return c.fail_invalid("has_key_padding_mask without a key_padding_mask");
  }
  c.set_output(0, c.transpose(scaled_attention(c, core), {1, 0, 2}));
}

}  // namespace aipu::frontend::microsoft
