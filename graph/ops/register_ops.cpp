// The list of all built-in ops.
#include "graph/ops/op_list.h"

namespace aipu::graph {

std::vector<OpDef> builtin_ops() {
  std::vector<OpDef> ops;
  const auto add = [&](OpDef def) { ops.push_back(std::move(def)); };

  // Elementwise, one operand
  add(identity_op());
  add(unary_op("Abs", "iuf"));
  add(unary_op("Neg", "if"));
  add(unary_op("Sign", "iuf"));
  add(unary_op("Relu", "if"));
  add(unary_op("Not", "b"));
  add(unary_op("BitwiseNot", "iu"));
  add(unary_op("Acos"));
  add(unary_op("Acosh"));
  add(unary_op("Asin"));
  add(unary_op("Asinh"));
  add(unary_op("Atan"));
  add(unary_op("Atanh"));
  add(unary_op("Ceil"));
  add(unary_op("Cos"));
  add(unary_op("Cosh"));
  add(unary_op("Erf", "iuf"));
  add(unary_op("Exp"));
  add(unary_op("Floor"));
  add(unary_op("Log"));
  add(unary_op("Reciprocal"));
  add(unary_op("Round"));
  add(unary_op("Sigmoid"));
  add(unary_op("Sin"));
  add(unary_op("Sinh"));
  add(unary_op("Softplus"));
  add(unary_op("Softsign"));
  add(unary_op("Sqrt"));
  add(unary_op("Tan"));
  add(unary_op("Tanh"));
  add(unary_op("HardSwish"));
  add(unary_op("Mish"));
  add(gelu_op());
  add(predicate_op("IsNaN"));
  add(predicate_op("IsInf", {attr::i("detect_negative", 1), attr::i("detect_positive", 1)}));
  add(activation_op("Celu", {attr::f("alpha", 1.0)}));
  add(activation_op("Elu", {attr::f("alpha", 1.0)}));
  add(activation_op("HardSigmoid", {attr::f("alpha", 0.2), attr::f("beta", 0.5)}));
  add(activation_op("LeakyRelu", {attr::f("alpha", 0.01)}));
  add(activation_op("Selu",
                    {attr::f("alpha", 1.67326319217681884765625), attr::f("gamma", 1.05070102214813232421875)}));
  add(activation_op("Shrink", {attr::f("bias", 0.0), attr::f("lambd", 0.5)}, "iuf"));
  add(activation_op("Swish", {attr::f("alpha", 1.0)}));
  add(activation_op("ThresholdedRelu", {attr::f("alpha", 1.0)}));
  add(clip_op());
  add(cast_op());
  add(cast_like_op());

  // Elementwise, more operands
  add(binary_op("Add", "iuf", kCommutative));
  add(binary_op("Sub"));
  add(binary_op("Mul", "iuf", kCommutative));
  add(binary_op("Div", kNumeric, kFaults));
  add(mod_op());
  add(pow_op());
  add(prelu_op());
  add(binary_op("And", "b", kCommutative));
  add(binary_op("Or", "b", kCommutative));
  add(binary_op("Xor", "b", kCommutative));
  add(binary_op("BitwiseAnd", "iu", kCommutative));
  add(binary_op("BitwiseOr", "iu", kCommutative));
  add(binary_op("BitwiseXor", "iu", kCommutative));
  add(bit_shift_op());
  add(comparison_op("Equal", "biuf", kCommutative));
  add(comparison_op("Greater"));
  add(comparison_op("GreaterOrEqual"));
  add(comparison_op("Less"));
  add(comparison_op("LessOrEqual"));
  add(variadic_op("Max"));
  add(variadic_op("Min"));
  add(variadic_op("Mean", "f"));
  add(variadic_op("Sum", "f"));
  add(where_op());

  // Shapes
  add(reshape_op());
  add(flatten_op());
  add(squeeze_op());
  add(unsqueeze_op());
  add(shape_op());
  add(size_op());
  add(expand_op());
  add(tile_op());

  // Movement
  add(transpose_op());
  add(concat_op());
  add(split_op());
  add(slice_op());
  add(pad_op());
  add(depth_to_space_op());
  add(space_to_depth_op());
  add(trilu_op());
  add(reverse_sequence_op());
  add(gather_op());
  add(gather_elements_op());
  add(gather_nd_op());
  add(scatter_elements_op());
  add(scatter_nd_op());

  // Made from a few numbers
  add(constant_of_shape_op());
  add(range_op());
  add(eye_like_op());
  add(one_hot_op());

  // Extents decided by data
  add(count_non_zero_op());
  add(non_zero_op());
  add(compress_op());
  add(count_unique_op());
  add(unique_op());
  add(count_non_max_suppression_op());
  add(non_max_suppression_op());

  // Along axes
  add(reduce_op("ReduceL1"));
  add(reduce_op("ReduceL2"));
  add(reduce_op("ReduceLogSum"));
  add(reduce_op("ReduceLogSumExp"));
  add(reduce_op("ReduceMax", "biuf"));
  add(reduce_op("ReduceMean"));
  add(reduce_op("ReduceMin", "biuf"));
  add(reduce_op("ReduceProd"));
  add(reduce_op("ReduceSum"));
  add(reduce_op("ReduceSumSquare"));
  add(arg_op("ArgMax"));
  add(arg_op("ArgMin"));
  add(along_axis_op("Hardmax", -1));
  add(along_axis_op("LogSoftmax", -1));
  add(along_axis_op("Softmax", -1));
  add(cum_sum_op());
  add(top_k_op());

  // Products
  add(matmul_op());
  add(matmul_integer_op());
  add(qlinear_matmul_op());
  add(quantized_matmul_op());
  add(gemm_op());
  add(einsum_op());
  add(det_op());

  // Images
  add(conv_op());
  add(conv_transpose_op());
  add(conv_integer_op());
  add(qlinear_conv_op());
  add(quantized_conv_op());
  add(average_pool_op());
  add(max_pool_op());
  add(lp_pool_op());
  add(global_pool_op("GlobalAveragePool"));
  add(global_pool_op("GlobalMaxPool"));
  add(global_pool_op("GlobalLpPool", {attr::i("p", 2)}));
  add(max_unpool_op());
  add(roi_align_op());
  add(max_roi_pool_op());
  add(grid_sample_op());
  add(deform_conv_op());
  add(deform_columns_op());
  add(col2im_op());
  add(resize_op());

  // Normalisation
  add(batch_normalization_op());
  add(instance_normalization_op());
  add(group_normalization_op());
  add(layer_normalization_op());
  add(rms_normalization_op());
  add(lp_normalization_op());
  add(mean_variance_normalization_op());
  add(lrn_op());
  add(dropout_op());

  // Quantisation
  add(quantize_linear_op());
  add(dequantize_linear_op());
  add(dynamic_quantize_linear_op());
  add(qlinear_binary_op("com.microsoft::QLinearAdd"));
  add(qlinear_binary_op("com.microsoft::QLinearMul"));
  add(qlinear_unary_op("com.microsoft::QLinearSigmoid"));
  add(qlinear_unary_op("com.microsoft::QLinearLeakyRelu", {attr::f("alpha", 0.01)}));
  add(qlinear_global_average_pool_op());
  add(qlinear_concat_op());
  add(qgemm_op());

  // Sequences and signals
  add(recurrent_op("LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}));
  add(recurrent_op("GRU", 3, {"Sigmoid", "Tanh"}));
  add(recurrent_op("RNN", 1, {"Tanh"}));
  add(window_op("BlackmanWindow"));
  add(window_op("HammingWindow"));
  add(window_op("HannWindow"));
  add(dft_op());
  add(stft_op());
  add(mel_weight_matrix_op());

  // Losses
  add(negative_log_likelihood_loss_op());
  add(softmax_cross_entropy_loss_op());

  // Control flow
  add(if_op());
  add(loop_op());
  add(scan_op());
  return ops;
}

}  // namespace aipu::graph
