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
    {kDomain, "BiasGelu", 1, microsoft::bias_gelu},
    {kDomain, "BiasSoftmax", 1, microsoft::bias_softmax},
    {kDomain, "BiasSplitGelu", 1, microsoft::bias_split_gelu},
    {kDomain, "FastGelu", 1, microsoft::fast_gelu},
    {kDomain, "Gelu", 1, microsoft::gelu},
    {kDomain, "GatedAdd", 1, microsoft::gated_add},
    {kDomain, "LinearAttentionGate", 1, microsoft::linear_attention_gate},
    {kDomain, "QuickGelu", 1, microsoft::quick_gelu},
    {kDomain, "ScaledSiLU", 1, microsoft::scaled_silu},

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
    {kDomain, "DecoderMaskedMultiHeadAttention", 1, microsoft::decoder_masked_multi_head_attention},
    {kDomain, "EngramGate", 1, microsoft::engram_gate},
    {kDomain, "GatedDeltaNet", 1, microsoft::gated_delta_net},
    {kDomain, "GroupQueryAttention", 1, microsoft::group_query_attention},
    {kDomain, "HyperConnectionPostMix", 1, microsoft::hyper_connection_post_mix},
    {kDomain, "HyperConnectionPreMix", 1, microsoft::hyper_connection_pre_mix},
    {kDomain, "LinearAttention", 1, microsoft::linear_attention},
    {kDomain, "MRotaryEmbedding", 1, microsoft::multimodal_rotary_embedding},
    {kDomain, "MultiHeadAttention", 1, microsoft::multi_head_attention},
    {kDomain, "PackedAttention", 1, microsoft::packed_attention},
    {kDomain, "QAttention", 1, microsoft::q_attention},
    {kDomain, "RotaryEmbedding", 1, microsoft::rotary_embedding},
    {kDomain, "SparseAttention", 1, microsoft::sparse_attention},

    // ---- quantised
    {kDomain, "DequantizeLinear", 1, microsoft::quantize_linear},
    {kDomain, "DynamicQuantizeLSTM", 1, microsoft::dynamic_quantize_lstm},
    {kDomain, "DynamicQuantizeMatMul", 1, microsoft::dynamic_quantize_matmul},
    {kDomain, "GatherBlockQuantized", 1, microsoft::gather_block_quantized},
    {kDomain, "MatMulBnb4", 1, microsoft::matmul_bnb4},
    {kDomain, "MatMulInteger16", 1, microsoft::matmul_integer16},
    {kDomain, "MatMulIntegerToFloat", 1, microsoft::matmul_integer_to_float},
    {kDomain, "MatMulNBits", 1, microsoft::matmul_n_bits},
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

    // ---- the rest
    {kDomain, "CDist", 1, microsoft::cdist},
    {kDomain, "ComplexMul", 1, microsoft::complex_mul},
    {kDomain, "ComplexMulConj", 1, microsoft::complex_mul},
    {kDomain, "CropAndResize", 1, microsoft::crop_and_resize},
    {kDomain, "ExpandDims", 1, microsoft::expand_dims},
    {kDomain, "GatherND", 1, pass},
    {kDomain, "GridSample", 1, grid_sample_before_20},
    {kDomain, "Irfft", 1, microsoft::irfft},
    {kDomain, "IsAllFinite", 1, microsoft::is_all_finite},
    {kDomain, "MurmurHash3", 1, microsoft::murmur_hash},
    {kDomain, "NGramRepeatBlock", 1, microsoft::ngram_repeat_block},
    {kDomain, "Pad", 1, pass},
    {kDomain, "Range", 1, range},
    {kDomain, "Rfft", 1, microsoft::rfft},
    {kDomain, "Tokenizer", 1, microsoft::tokenizer},
    {kDomain, "Trilu", 1, pass},
    {kDomain, "UnfoldTensor", 1, microsoft::unfold_tensor},
    {kDomain, "Unique", 1, microsoft::unique},
};

}  // namespace

std::span<const ConverterRow> microsoft_rows() { return kRows; }

}  // namespace aipu::frontend
