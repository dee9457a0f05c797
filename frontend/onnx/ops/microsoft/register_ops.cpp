// The table of the domain com.microsoft; of version 1 all.
#include "frontend/onnx/converter_table.h"
#include "frontend/onnx/ops/converters.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend {

namespace {

constexpr std::string_view kDomain = "com.microsoft";

constexpr ConverterRow kRows[] = {
    // ---- activations
    {kDomain, "BiasAdd", 1, microsoft::bias_add},
    {kDomain, "BiasDropout", 1, bias_dropout},
    {kDomain, "BiasGelu", 1, microsoft::bias_gelu},
    {kDomain, "BiasSoftmax", 1, microsoft::bias_softmax},
    {kDomain, "BiasSplitGelu", 1, microsoft::bias_split_gelu},
    {kDomain, "FastGelu", 1, microsoft::fast_gelu},
    {kDomain, "Gelu", 1, microsoft::gelu},
    {kDomain, "GatedAdd", 1, microsoft::gated_add},
    {kDomain, "LinearAttentionGate", 1, microsoft::linear_attention_gate},
    {kDomain, "QuickGelu", 1, microsoft::quick_gelu},
    {kDomain, "ScaledSiLU", 1, microsoft::scaled_silu},
    {kDomain, "SwiGLU", 1, microsoft::clamped_swi_glu},

    // ---- products and convolutions
    {kDomain, "ConvTransposeWithDynamicPads", 1, microsoft::conv_transpose_with_dynamic_pads},
    {kDomain, "FusedConv", 1, microsoft::fused_conv},
    {kDomain, "FusedGemm", 1, microsoft::fused_gemm},
    {kDomain, "FusedMatMul", 1, microsoft::fused_matmul},
    {kDomain, "FusedMatMulActivation", 1, microsoft::fused_matmul},
    {kDomain, "GemmFastGelu", 1, microsoft::gemm_fast_gelu},
    {kDomain, "Inverse", 1, microsoft::inverse},
    {kDomain, "MoE", 1, microsoft::mixture_of_experts},
    {kDomain, "MoEGroupRouter", 1, microsoft::moe_group_router},
    {kDomain, "NhwcConv", 1, microsoft::nhwc_conv},
    {kDomain, "NhwcFusedConv", 1, microsoft::nhwc_conv},
    {kDomain, "NhwcMaxPool", 1, microsoft::nhwc_max_pool},
    {kDomain, "QMoE", 1, microsoft::quantized_mixture_of_experts},
    {kDomain, "RouterGateUpProj", 1, microsoft::router_gate_up_projection},
    {kDomain, "SparseToDenseMatMul", 1, microsoft::sparse_to_dense_matmul},
    {kDomain, "TransposeMatMul", 1, microsoft::fused_matmul},

    // ---- normalisation
    {kDomain, "BranchwiseRMSNorm", 1, microsoft::branchwise_rms_norm},
    {kDomain, "EmbedLayerNormalization", 1, microsoft::embed_layer_normalization},
    {kDomain, "GatedRMSNorm", 1, microsoft::gated_rms_norm},
    {kDomain, "GroupNorm", 1, microsoft::group_norm},
    {kDomain, "SkipGroupNorm", 1, microsoft::group_norm},
    {kDomain, "SkipLayerNormalization", 1, microsoft::skip_layer_normalization},
    {kDomain, "SkipSimplifiedLayerNormalization", 1, microsoft::skip_simplified_layer_normalization},

    // ---- attention
    {kDomain, "Attention", 1, microsoft::attention},
    {kDomain, "CausalConvWithState", 1, microsoft::causal_conv_with_state},
    {kDomain, "DecoderAttention", 1, microsoft::decoder_attention},
    {kDomain, "DecoderMaskedMultiHeadAttention", 1, microsoft::decoder_masked_multi_head_attention},
    {kDomain, "EngramGate", 1, microsoft::engram_gate},
    {kDomain, "GatedDeltaNet", 1, microsoft::gated_delta_net},
    {kDomain, "GatedRelativePositionBias", 1, microsoft::gated_relative_position_bias},
    {kDomain, "GemmaRotaryEmbedding", 1, microsoft::gemma_rotary_embedding},
    {kDomain, "GroupQueryAttention", 1, microsoft::group_query_attention},
    {kDomain, "HyperConnectionLowRankMix", 1, microsoft::hyper_connection_low_rank_mix},
    {kDomain, "HyperConnectionPostMix", 1, microsoft::hyper_connection_post_mix},
    {kDomain, "HyperConnectionPreMix", 1, microsoft::hyper_connection_pre_mix},
    {kDomain, "LinearAttention", 1, microsoft::linear_attention},
    {kDomain, "LongformerAttention", 1, microsoft::longformer_attention},
    {kDomain, "MRotaryEmbedding", 1, microsoft::multimodal_rotary_embedding},
    {kDomain, "MultiHeadAttention", 1, microsoft::multi_head_attention},
    {kDomain, "PackedAttention", 1, microsoft::packed_attention},
    {kDomain, "PackedMultiHeadAttention", 1, microsoft::packed_multi_head_attention},
    {kDomain, "QAttention", 1, microsoft::q_attention},
    {kDomain, "RMSNormRotary", 1, microsoft::rms_norm_rotary},
    {kDomain, "RelativePositionBias", 1, microsoft::relative_position_bias},
    {kDomain, "RemovePadding", 1, microsoft::remove_padding},
    {kDomain, "RestorePadding", 1, microsoft::restore_padding},
    {kDomain, "RotaryEmbedding", 1, microsoft::rotary_embedding},
    {kDomain, "SparseAttention", 1, microsoft::sparse_attention},

    // ---- quantised
    {kDomain, "DequantizeLinear", 1, microsoft::quantize_linear},
    {kDomain, "DynamicQuantizeLSTM", 1, microsoft::dynamic_quantize_lstm},
    {kDomain, "DynamicQuantizeMatMul", 1, microsoft::dynamic_quantize_matmul},
    {kDomain, "GatherBlockQuantized", 1, microsoft::gather_block_quantized},
    {kDomain, "MatMulBlockQuantizedFp4Weight", 1, microsoft::matmul_fp4_weight},
    {kDomain, "MatMulBlockQuantizedFp8Weight", 1, microsoft::matmul_fp8_weight},
    {kDomain, "MatMulBnb4", 1, microsoft::matmul_bnb4},
    {kDomain, "MatMulFpQ4", 1, microsoft::matmul_fp_q4},
    {kDomain, "MatMulInteger16", 1, microsoft::matmul_integer16},
    {kDomain, "MatMulIntegerToFloat", 1, microsoft::matmul_integer_to_float},
    {kDomain, "MatMulNBits", 1, microsoft::matmul_n_bits},
    {kDomain, "MatMulNBitsMlp", 1, microsoft::matmul_n_bits_mlp},
    {kDomain, "MatMulNBitsQkv", 1, microsoft::matmul_n_bits_qkv},
    {kDomain, "MulInteger", 1, microsoft::mul_integer},
    {kDomain, "QEmbedLayerNormalization", 1, microsoft::q_embed_layer_normalization},
    {kDomain, "QGemm", 1, microsoft::q_gemm},
    {kDomain, "QLinearAdd", 1, microsoft::qlinear_binary},
    {kDomain, "QLinearAveragePool", 1, microsoft::qlinear_pool},
    {kDomain, "QLinearConcat", 1, microsoft::qlinear_concat},
    {kDomain, "QLinearConv", 1, microsoft::qlinear_conv},
    {kDomain, "QLinearGlobalAveragePool", 1, microsoft::qlinear_pool},
    {kDomain, "QLinearLeakyRelu", 1, microsoft::qlinear_unary},
    {kDomain, "QLinearMul", 1, microsoft::qlinear_binary},
    {kDomain, "QLinearReduceMean", 1, microsoft::qlinear_reduce_mean},
    {kDomain, "QLinearSigmoid", 1, microsoft::qlinear_unary},
    {kDomain, "QLinearSoftmax", 1, microsoft::qlinear_softmax},
    {kDomain, "QLinearWhere", 1, microsoft::qlinear_where},
    {kDomain, "QuantizeLinear", 1, microsoft::quantize_linear},
    {kDomain, "ReduceSumInteger", 1, microsoft::reduce_sum_integer},

    // ---- generation
    {kDomain, "BeamSearch", 1, microsoft::beam_search},
    {kDomain, "GreedySearch", 1, microsoft::greedy_search},
    {kDomain, "Sampling", 1, microsoft::sampling},
    {kDomain, "WhisperBeamSearch", 1, microsoft::whisper_beam_search},

    // ---- the rest
    {kDomain, "BifurcationDetector", 1, microsoft::bifurcation_detector},
    {kDomain, "CDist", 1, microsoft::cdist},
    {kDomain, "ComplexMul", 1, microsoft::complex_mul},
    {kDomain, "ComplexMulConj", 1, microsoft::complex_mul},
    {kDomain, "CropAndResize", 1, microsoft::crop_and_resize},
    {kDomain, "DynamicTimeWarping", 1, microsoft::dynamic_time_warping},
    {kDomain, "ExpandDims", 1, microsoft::expand_dims},
    {kDomain, "GatherND", 1, pass},
    {kDomain, "GridSample", 1, grid_sample_before_20},
    {kDomain, "Irfft", 1, microsoft::irfft},
    {kDomain, "IsAllFinite", 1, microsoft::is_all_finite},
    {kDomain, "MaxpoolWithMask", 1, microsoft::maxpool_with_mask},
    {kDomain, "MurmurHash3", 1, microsoft::murmur_hash},
    {kDomain, "NGramHashMapping", 1, microsoft::ngram_hash_mapping},
    {kDomain, "NGramRepeatBlock", 1, microsoft::ngram_repeat_block},
    {kDomain, "Pad", 1, pass},
    {kDomain, "Range", 1, range},
    {kDomain, "Rfft", 1, microsoft::rfft},
    {kDomain, "SampleOp", 1, microsoft::echo},
    {kDomain, "Tokenizer", 1, microsoft::tokenizer},
    {kDomain, "TorchEmbedding", 1, microsoft::torch_embedding},
    {kDomain, "Trilu", 1, pass},
    {kDomain, "UnfoldTensor", 1, microsoft::unfold_tensor},
    {kDomain, "Unique", 1, microsoft::unique},
    {kDomain, "VarlenCausalConvWithState", 1, microsoft::varlen_causal_conv_with_state},
    {kDomain, "VarlenNGramHashMapping", 1, microsoft::varlen_ngram_hash_mapping},
    {kDomain, "WordConvEmbedding", 1, microsoft::word_conv_embedding},
};

}  // namespace

std::span<const ConverterRow> microsoft_rows() { return kRows; }

}  // namespace aipu::frontend
