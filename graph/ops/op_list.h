// The built-in ops: makers of their records by family, and the one list of all of them (register_ops.cpp).
#pragma once

#include <string>
#include <vector>

#include "graph/ops/axis_rules.h"
#include "graph/ops/infer.h"

namespace aipu::graph {

// Every built-in op's record, in the order of the list; built once per call.
std::vector<OpDef> builtin_ops();

// elementwise.cpp
OpDef unary_op(std::string name, std::string types = "f");
OpDef predicate_op(std::string name, std::vector<AttributeDef> attributes = {});
OpDef activation_op(std::string name, std::vector<AttributeDef> attributes = {}, std::string types = "f");
OpDef identity_op();
OpDef binary_op(std::string name, std::string types = kNumeric, uint32_t traits = 0);
OpDef comparison_op(std::string name, std::string types = kNumeric, uint32_t traits = 0);
OpDef variadic_op(std::string name, std::string types = kNumeric);
OpDef mod_op();
OpDef bit_shift_op();
OpDef gelu_op();
OpDef pow_op();
OpDef prelu_op();
OpDef clip_op();
OpDef where_op();
OpDef cast_op();
OpDef cast_like_op();

// reshape.cpp
OpDef reshape_op();
OpDef flatten_op();
OpDef squeeze_op();
OpDef unsqueeze_op();
OpDef shape_op();
OpDef size_op();
OpDef expand_op();
OpDef tile_op();

// movement.cpp
OpDef transpose_op();
OpDef concat_op();
OpDef split_op();
OpDef slice_op();
OpDef pad_op();
OpDef depth_to_space_op();
OpDef space_to_depth_op();
OpDef trilu_op();
OpDef reverse_sequence_op();

// generate.cpp
OpDef constant_of_shape_op();
OpDef range_op();
OpDef eye_like_op();
OpDef one_hot_op();

// gather.cpp
OpDef gather_op();
OpDef gather_elements_op();
OpDef gather_nd_op();
OpDef scatter_elements_op();
OpDef scatter_nd_op();

// reduce.cpp
OpDef reduce_op(std::string name, std::string types = kNumeric);
OpDef arg_op(std::string name);
OpDef along_axis_op(std::string name, int64_t default_axis);
OpDef top_k_op();
OpDef cum_sum_op();

// conv.cpp
OpDef conv_op();
OpDef conv_transpose_op();
OpDef conv_integer_op();
OpDef qlinear_conv_op();
// What quantised graphs become (passes/integer_arithmetic.cpp): out = scale * (sum of (x - x_zero_point) * (w -
// w_zero_point) + bias) in the scale's dtype, or without a scale the int32 accumulators. 8-bit operands; zero point of
// w, scale and bias of one element or one per output channel (per column of the 2-D w).
OpDef quantized_conv_op();

// pool.cpp
OpDef average_pool_op();
OpDef max_pool_op();
OpDef lp_pool_op();
OpDef global_pool_op(std::string name, std::vector<AttributeDef> attributes = {});
OpDef max_unpool_op();

// sampling.cpp
OpDef roi_align_op();
OpDef max_roi_pool_op();
OpDef grid_sample_op();
OpDef deform_conv_op();
// The first half of a DeformConv: for each channel the values at its window's taps, as channels (tap innermost) of an
// image of the output's extents, [N, C * taps, ...]. What remains is a convolution of 1x1 (passes/decompose_image.cpp).
OpDef deform_columns_op();
OpDef col2im_op();

// resize.cpp
OpDef resize_op();

// matmul.cpp
OpDef matmul_op();
OpDef matmul_integer_op();
OpDef qlinear_matmul_op();
OpDef quantized_matmul_op();
OpDef gemm_op();
OpDef det_op();

// einsum.cpp
OpDef einsum_op();

// quantized.cpp
OpDef quantize_linear_op();
OpDef dequantize_linear_op();
OpDef dynamic_quantize_linear_op();
// ONNX Runtime's, domain com.microsoft: rewritten by passes/quantized_operators.cpp and integer_arithmetic.
OpDef qlinear_binary_op(std::string name);
OpDef qlinear_unary_op(std::string name, std::vector<AttributeDef> attributes = {});
OpDef qlinear_global_average_pool_op();
OpDef qlinear_concat_op();
OpDef qgemm_op();

// normalization.cpp
OpDef batch_normalization_op();
OpDef instance_normalization_op();
OpDef group_normalization_op();
OpDef layer_normalization_op();
OpDef rms_normalization_op();
OpDef lp_normalization_op();
OpDef mean_variance_normalization_op();
OpDef lrn_op();
OpDef dropout_op();

// recurrent.cpp
OpDef recurrent_op(std::string name, int gates, std::vector<std::string> default_activations);

// select.cpp
OpDef count_non_zero_op();
OpDef non_zero_op();
OpDef compress_op();
OpDef count_unique_op();
OpDef unique_op();
OpDef count_non_max_suppression_op();
OpDef non_max_suppression_op();

// loss.cpp
OpDef negative_log_likelihood_loss_op();
OpDef softmax_cross_entropy_loss_op();

// signal.cpp
OpDef window_op(std::string name);
OpDef dft_op();
OpDef stft_op();
OpDef mel_weight_matrix_op();

// control.cpp
OpDef if_op();
OpDef loop_op();
OpDef scan_op();

}  // namespace aipu::graph
