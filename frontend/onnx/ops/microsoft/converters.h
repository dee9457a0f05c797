// The operators of the domain com.microsoft as compositions of ONNX's, by family; register_ops.cpp of this folder has
// the table. What they mean is what ONNX Runtime's CPU provider computes.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend::microsoft {

// fused.cpp
void fused_matmul(OpContext& c);
void fused_gemm(OpContext& c);
void fused_conv(OpContext& c);
void nhwc_max_pool(OpContext& c);
void conv_transpose_with_dynamic_pads(OpContext& c);
void nhwc_conv(OpContext& c);
void gemm_fast_gelu(OpContext& c);

// activations.cpp
void gelu(OpContext& c);
void bias_gelu(OpContext& c);
void fast_gelu(OpContext& c);
void quick_gelu(OpContext& c);
void bias_split_gelu(OpContext& c);
void bias_add(OpContext& c);
void bias_softmax(OpContext& c);

// normalization.cpp; the first is of ONNX's domain
void simplified_layer_normalization(OpContext& c);
void skip_layer_normalization(OpContext& c);
void skip_simplified_layer_normalization(OpContext& c);
void embed_layer_normalization(OpContext& c);
void group_norm(OpContext& c);

// attention.cpp
void attention(OpContext& c);
void q_attention(OpContext& c);
void multi_head_attention(OpContext& c);
void decoder_masked_multi_head_attention(OpContext& c);
// decoder_attention.cpp
void decoder_attention(OpContext& c);
// longformer_attention.cpp
void longformer_attention(OpContext& c);
// packed_tokens.cpp
void packed_attention(OpContext& c);
void packed_multi_head_attention(OpContext& c);
void remove_padding(OpContext& c);
void restore_padding(OpContext& c);
// relative_position.cpp
void relative_position_bias(OpContext& c);
void gated_relative_position_bias(OpContext& c);
// group_query_attention.cpp
void group_query_attention(OpContext& c);
void sparse_attention(OpContext& c);
void rotary_embedding(OpContext& c);
void multimodal_rotary_embedding(OpContext& c);
// rotary.cpp
void gemma_rotary_embedding(OpContext& c);
void rms_norm_rotary(OpContext& c);

// generation.cpp
void greedy_search(OpContext& c);
void sampling(OpContext& c);
// beam_search.cpp
void beam_search(OpContext& c);
void whisper_beam_search(OpContext& c);

// experts.cpp
void mixture_of_experts(OpContext& c);
void quantized_mixture_of_experts(OpContext& c);

// recurrent_states.cpp
void linear_attention(OpContext& c);
void gated_delta_net(OpContext& c);
void causal_conv_with_state(OpContext& c);

// packed_requests.cpp
void varlen_causal_conv_with_state(OpContext& c);
// ngrams.cpp
void ngram_hash_mapping(OpContext& c);
void varlen_ngram_hash_mapping(OpContext& c);
// alignment.cpp
void dynamic_time_warping(OpContext& c);
void bifurcation_detector(OpContext& c);
// masked_windows.cpp
void maxpool_with_mask(OpContext& c);
void word_conv_embedding(OpContext& c);

// streams.cpp
void hyper_connection_pre_mix(OpContext& c);
void hyper_connection_post_mix(OpContext& c);
void hyper_connection_low_rank_mix(OpContext& c);
void engram_gate(OpContext& c);
void moe_group_router(OpContext& c);

// gates.cpp
void gated_add(OpContext& c);
void gated_rms_norm(OpContext& c);
void branchwise_rms_norm(OpContext& c);
void scaled_silu(OpContext& c);
void linear_attention_gate(OpContext& c);
void clamped_swi_glu(OpContext& c);
void router_gate_up_projection(OpContext& c);

// integers.cpp
void matmul_integer16(OpContext& c);
void mul_integer(OpContext& c);
void reduce_sum_integer(OpContext& c);
void is_all_finite(OpContext& c);

// spectra.cpp
void rfft(OpContext& c);
void irfft(OpContext& c);
void complex_mul(OpContext& c);

// quantized.cpp: integer products and block-wise weights
void matmul_integer_to_float(OpContext& c);
void dynamic_quantize_matmul(OpContext& c);
void dynamic_quantize_lstm(OpContext& c);
void matmul_bnb4(OpContext& c);
void gather_block_quantized(OpContext& c);

// n_bits.cpp
void matmul_n_bits(OpContext& c);
void matmul_n_bits_mlp(OpContext& c);
void matmul_n_bits_qkv(OpContext& c);
void matmul_fp_q4(OpContext& c);

// block_floats.cpp
void matmul_fp4_weight(OpContext& c);
void matmul_fp8_weight(OpContext& c);

// qlinear.cpp: dequantise, compute, quantise
void qlinear_binary(OpContext& c);
void qlinear_unary(OpContext& c);
void qlinear_softmax(OpContext& c);
void qlinear_where(OpContext& c);
void qlinear_concat(OpContext& c);
void qlinear_pool(OpContext& c);
void qlinear_reduce_mean(OpContext& c);
void qlinear_conv(OpContext& c);
void q_gemm(OpContext& c);
void quantize_linear(OpContext& c);
void q_embed_layer_normalization(OpContext& c);

// others.cpp
void expand_dims(OpContext& c);
void echo(OpContext& c);
void sparse_to_dense_matmul(OpContext& c);
void torch_embedding(OpContext& c);
void unique(OpContext& c);
void crop_and_resize(OpContext& c);
void ngram_repeat_block(OpContext& c);
void cdist(OpContext& c);
void inverse(OpContext& c);
void unfold_tensor(OpContext& c);

// text.cpp
void tokenizer(OpContext& c);
void murmur_hash(OpContext& c);

}  // namespace aipu::frontend::microsoft
