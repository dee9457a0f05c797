// The converters, by family; the table that uses them is frontend/onnx/register_ops.cpp. Names end in the opset they
// serve up to where a form is old.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

// pass.cpp: the ONNX op is the canonical op
void pass(OpContext& c);
void pass_axis_1_by_default(OpContext& c);  // Concat-1

// elementwise.cpp
void broadcast_before_7(OpContext& c);
void prelu_before_7(OpContext& c);
void clip_before_11(OpContext& c);
void cast_before_6(OpContext& c);
void cast(OpContext& c);
void cast_like(OpContext& c);
void bit_cast(OpContext& c);
void swi_glu(OpContext& c);
void selu_before_6(OpContext& c);
void celu(OpContext& c);

// constant.cpp
void constant(OpContext& c);
void gemm(OpContext& c);
// What the node's operands and attributes give as those of a Gemm; a C that its kernels cannot add is added by itself.
ValueId product_and_addend(OpContext& c);

// softmax.cpp
void softmax_before_13(OpContext& c);

// reduce.cpp
void reduce_with_axes_attribute(OpContext& c);
void cumulative(OpContext& c);
void top_k_before_10(OpContext& c);

// normalization.cpp
void batch_normalization(OpContext& c);
void group_normalization_before_21(OpContext& c);
void mean_variance_normalization(OpContext& c);

// pool.cpp
void lp_pool(OpContext& c);
void roi_align_before_16(OpContext& c);
void grid_sample_before_20(OpContext& c);

// movement.cpp
void reshape_before_5(OpContext& c);
void squeeze_before_13(OpContext& c);
void split_before_13(OpContext& c);
void slice_before_10(OpContext& c);
void pad_before_11(OpContext& c);
void tile_before_6(OpContext& c);
void scatter(OpContext& c);
void space_to_depth(OpContext& c);

// run_time_axes.cpp: the newest forms, with axes or steps that only a run knows
void squeeze(OpContext& c);
void unsqueeze(OpContext& c);
void pad(OpContext& c);
void slice(OpContext& c);
void reduce(OpContext& c);

// resize.cpp
void upsample_before_9(OpContext& c);
void resize_before_11(OpContext& c);  // and Upsample-9
void resize(OpContext& c);

// quantize.cpp
void dequantize_linear(OpContext& c);
void quantize_linear(OpContext& c);

// random.cpp
void bernoulli(OpContext& c);
void dropout(OpContext& c);
void bias_dropout(OpContext& c);
void multinomial(OpContext& c);
void random_normal(OpContext& c);   // and RandomNormalLike
void random_uniform(OpContext& c);  // and RandomUniformLike

// recurrent.cpp
void recurrent(OpContext& c);

// select.cpp
void counted(OpContext& c);
void range(OpContext& c);
void one_hot(OpContext& c);

// control.cpp
void if_op(OpContext& c);
void loop(OpContext& c);
void scan_before_9(OpContext& c);
void scan(OpContext& c);

// sequence.cpp
void identity(OpContext& c);
void concat_from_sequence(OpContext& c);
void sequence_at(OpContext& c);
void sequence_construct(OpContext& c);
void sequence_empty(OpContext& c);
void sequence_erase(OpContext& c);
void sequence_insert(OpContext& c);
void sequence_length(OpContext& c);
void sequence_map(OpContext& c);
void split_to_sequence(OpContext& c);
void optional(OpContext& c);
void optional_get_element(OpContext& c);
void optional_has_element(OpContext& c);

// loss.cpp
void negative_log_likelihood_loss(OpContext& c);
void softmax_cross_entropy_loss(OpContext& c);

// signal.cpp
void window(OpContext& c);
void dft(OpContext& c);
void dft_before_20(OpContext& c);

// attention.cpp
void attention(OpContext& c);
void rotary_embedding(OpContext& c);
void tensor_scatter(OpContext& c);

// experimental.cpp
void affine(OpContext& c);
void crop(OpContext& c);
void image_scaler(OpContext& c);
void parametric_softplus(OpContext& c);
void scale(OpContext& c);
void scaled_tanh(OpContext& c);

// flex_attention.cpp
void flex_attention(OpContext& c);

// linear_attention.cpp
void linear_attention(OpContext& c);
void causal_conv_with_state(OpContext& c);

// image.cpp
void affine_grid(OpContext& c);
void center_crop_pad(OpContext& c);
void image_decoder(OpContext& c);

// text.cpp
void regex_full_match(OpContext& c);
void string_concat(OpContext& c);
void string_normalizer(OpContext& c);
void string_split(OpContext& c);

// training.cpp
void adagrad(OpContext& c);
void adam(OpContext& c);
void momentum(OpContext& c);

}  // namespace aipu::frontend
