// The table of converters. Rows of one op stand together, oldest first; a row serves opsets from its `since` to the
// next row's. A row begins where an opset takes attributes or operands away, or gives them another meaning, also where
// one converter takes both forms: a node of one row's opsets is the same node in all of them. Scatter and Upsample end
// in 11 and 10; what has them later is taken as before. Domains with many operators have tables of their own.
#include "frontend/onnx/converter_table.h"
#include "frontend/onnx/ops/converters.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/ml/converters.h"

namespace aipu::frontend {

namespace {

constexpr std::string_view kGradient = "gradients are not supported";
constexpr std::string_view kPreview = "ai.onnx.preview";
constexpr std::string_view kTraining = "ai.onnx.preview.training";

// The last two of a row whose inputs may be lists.
constexpr std::string_view kNoRefusal;
constexpr bool kTakesLists = true;

constexpr ConverterRow kRows[] = {
    // ---- experiments of ONNX 1.0
    {"", "Affine", 1, affine},
    {"", "Crop", 1, crop},
    {"", "ImageScaler", 1, image_scaler},
    {"", "ParametricSoftplus", 1, parametric_softplus},
    {"", "Scale", 1, scale},
    {"", "ScaledTanh", 1, scaled_tanh},

    // ---- elementwise
    {"", "Abs", 1, pass},
    {"", "Acos", 7, pass},
    {"", "Acosh", 9, pass},
    {"", "Add", 1, broadcast_before_7},
    {"", "Add", 7, pass},
    {"", "And", 1, broadcast_before_7},
    {"", "And", 7, pass},
    {"", "Asin", 7, pass},
    {"", "Asinh", 9, pass},
    {"", "Atan", 7, pass},
    {"", "Atanh", 9, pass},
    {"", "BitCast", 26, bit_cast},
    {"", "BitShift", 11, pass},
    {"", "BitwiseAnd", 18, pass},
    {"", "BitwiseNot", 18, pass},
    {"", "BitwiseOr", 18, pass},
    {"", "BitwiseXor", 18, pass},
    {"", "Cast", 1, cast_before_6},
    {"", "Cast", 6, cast},
    {"", "CastLike", 15, cast_like},
    {"", "Ceil", 1, pass},
    {"", "Celu", 12, celu},
    {"", "Clip", 1, clip_before_11},
    {"", "Clip", 11, pass},
    {"", "Cos", 7, pass},
    {"", "Cosh", 9, pass},
    {"", "Div", 1, broadcast_before_7},
    {"", "Div", 7, pass},
    {"", "Dropout", 1, dropout},
    {"", "Dropout", 7, dropout},
    {"", "Dropout", 12, dropout},
    {"", "Elu", 1, pass},
    {"", "Equal", 1, broadcast_before_7},
    {"", "Equal", 7, pass},
    {"", "Erf", 9, pass},
    {"", "Exp", 1, pass},
    {"", "Floor", 1, pass},
    {"", "Gelu", 20, pass},
    {"", "Greater", 1, broadcast_before_7},
    {"", "Greater", 7, pass},
    {"", "GreaterOrEqual", 12, pass},
    {"", "HardSigmoid", 1, pass},
    {"", "HardSwish", 14, pass},
    {"", "Identity", 1, identity, kNoRefusal, kTakesLists},
    {"", "IsInf", 10, pass},
    {"", "IsNaN", 9, pass},
    {"", "LeakyRelu", 1, pass},
    {"", "Less", 1, broadcast_before_7},
    {"", "Less", 7, pass},
    {"", "LessOrEqual", 12, pass},
    {"", "Log", 1, pass},
    {"", "Max", 1, pass},
    {"", "Mean", 1, pass},
    {"", "Min", 1, pass},
    {"", "Mish", 18, pass},
    {"", "Mod", 10, pass},
    {"", "Mul", 1, broadcast_before_7},
    {"", "Mul", 7, pass},
    {"", "Neg", 1, pass},
    {"", "Not", 1, pass},
    {"", "Or", 1, broadcast_before_7},
    {"", "Or", 7, pass},
    {"", "PRelu", 1, prelu_before_7},
    {"", "PRelu", 7, pass},
    {"", "Pow", 1, broadcast_before_7},
    {"", "Pow", 7, pass},
    {"", "Reciprocal", 1, pass},
    {"", "Relu", 1, pass},
    {"", "Round", 11, pass},
    {"", "Selu", 1, selu_before_6},
    {"", "Selu", 6, pass},
    {"", "Shrink", 9, pass},
    {"", "Sigmoid", 1, pass},
    {"", "Sign", 9, pass},
    {"", "Sin", 7, pass},
    {"", "Sinh", 9, pass},
    {"", "Softplus", 1, pass},
    {"", "Softsign", 1, pass},
    {"", "Sqrt", 1, pass},
    {"", "Sub", 1, broadcast_before_7},
    {"", "Sub", 7, pass},
    {"", "Sum", 1, pass},
    {"", "SwiGLU", 28, swi_glu},
    {"", "Swish", 24, pass},
    {"", "Tan", 7, pass},
    {"", "Tanh", 1, pass},
    {"", "ThresholdedRelu", 1, pass},
    {"", "Where", 9, pass},
    {"", "Xor", 1, broadcast_before_7},
    {"", "Xor", 7, pass},

    // ---- linear algebra
    {"", "Attention", 23, attention},
    {"", "CausalConvWithState", 27, causal_conv_with_state},
    {"", "Det", 11, pass},
    {"", "Einsum", 12, pass},
    {"", "Gemm", 1, gemm},
    {"", "Gemm", 7, gemm},
    {"", "LinearAttention", 27, linear_attention},
    {"", "MatMul", 1, pass},
    {"", "MatMulInteger", 10, pass},
    {"", "QLinearMatMul", 10, pass},
    {"", "RotaryEmbedding", 23, rotary_embedding},

    // ---- convolution, pooling, sampling
    {"", "AffineGrid", 20, affine_grid},
    {"", "AveragePool", 1, pass},
    {"", "Col2Im", 18, pass},
    {"", "Conv", 1, pass},
    {"", "ConvInteger", 10, pass},
    {"", "ConvTranspose", 1, pass},
    {"", "DeformConv", 19, pass},
    {"", "GlobalAveragePool", 1, pass},
    {"", "GlobalLpPool", 1, lp_pool},
    {"", "GlobalLpPool", 2, lp_pool},
    {"", "GlobalMaxPool", 1, pass},
    {"", "GridSample", 16, grid_sample_before_20},
    {"", "GridSample", 20, pass},
    {"", "LpPool", 1, lp_pool},
    {"", "LpPool", 2, lp_pool},
    {"", "MaxPool", 1, pass},
    {"", "MaxRoiPool", 1, pass},
    {"", "MaxUnpool", 9, pass},
    {"", "QLinearConv", 10, pass},
    {"", "Resize", 10, resize_before_11},
    {"", "Resize", 11, resize},
    {"", "RoiAlign", 10, roi_align_before_16},
    {"", "RoiAlign", 16, pass},
    {"", "Upsample", 1, upsample_before_9},
    {"", "Upsample", 7, upsample_before_9},
    {"", "Upsample", 9, resize_before_11},
    {"", "Upsample", 10, resize_before_11},

    // ---- normalisation
    {"", "BatchNormalization", 1, batch_normalization},
    {"", "BatchNormalization", 7, batch_normalization},
    {"", "BatchNormalization", 9, batch_normalization},
    {"", "GroupNormalization", 18, group_normalization_before_21},
    {"", "GroupNormalization", 21, pass},
    {"", "Hardmax", 1, softmax_before_13},
    {"", "Hardmax", 13, pass},
    {"", "InstanceNormalization", 1, pass},
    {"", "LRN", 1, pass},
    {"", "LayerNormalization", 17, pass},
    {"", "LogSoftmax", 1, softmax_before_13},
    {"", "LogSoftmax", 13, pass},
    {"", "LpNormalization", 1, pass},
    {"", "MeanVarianceNormalization", 9, mean_variance_normalization},
    {"", "RMSNormalization", 23, pass},
    {"", "SimplifiedLayerNormalization", 1, microsoft::simplified_layer_normalization},
    {"", "Softmax", 1, softmax_before_13},
    {"", "Softmax", 13, pass},

    // ---- reductions
    {"", "ArgMax", 1, pass},
    {"", "ArgMin", 1, pass},
    {"", "CumProd", 26, cumulative},
    {"", "CumSum", 11, cumulative},
    {"", "ReduceL1", 1, reduce_with_axes_attribute},
    {"", "ReduceL1", 18, reduce},
    {"", "ReduceL2", 1, reduce_with_axes_attribute},
    {"", "ReduceL2", 18, reduce},
    {"", "ReduceLogSum", 1, reduce_with_axes_attribute},
    {"", "ReduceLogSum", 18, reduce},
    {"", "ReduceLogSumExp", 1, reduce_with_axes_attribute},
    {"", "ReduceLogSumExp", 18, reduce},
    {"", "ReduceMax", 1, reduce_with_axes_attribute},
    {"", "ReduceMax", 18, reduce},
    {"", "ReduceMean", 1, reduce_with_axes_attribute},
    {"", "ReduceMean", 18, reduce},
    {"", "ReduceMin", 1, reduce_with_axes_attribute},
    {"", "ReduceMin", 18, reduce},
    {"", "ReduceProd", 1, reduce_with_axes_attribute},
    {"", "ReduceProd", 18, reduce},
    {"", "ReduceSum", 1, reduce_with_axes_attribute},
    {"", "ReduceSum", 13, reduce},
    {"", "ReduceSumSquare", 1, reduce_with_axes_attribute},
    {"", "ReduceSumSquare", 18, reduce},
    {"", "TopK", 1, top_k_before_10},
    {"", "TopK", 10, pass},

    // ---- shapes and moving data
    {"", "CenterCropPad", 18, center_crop_pad},
    {"", "Compress", 9, counted},
    {"", "Concat", 1, pass_axis_1_by_default},
    {"", "Concat", 4, pass},
    {"", "Constant", 1, constant},
    {"", "ConstantOfShape", 9, pass},
    {"", "DepthToSpace", 1, pass},
    {"", "Expand", 8, pass},
    {"", "EyeLike", 9, pass},
    {"", "Flatten", 1, pass},
    {"", "Gather", 1, pass},
    {"", "GatherElements", 11, pass},
    {"", "GatherND", 11, pass},
    {"", "NonMaxSuppression", 10, counted},
    {"", "NonZero", 9, counted},
    {"", "OneHot", 9, one_hot},
    {"", "Pad", 1, pad_before_11},
    {"", "Pad", 2, pad_before_11},
    {"", "Pad", 11, pad},
    {"", "Range", 11, range},
    {"", "Reshape", 1, reshape_before_5},
    {"", "Reshape", 5, pass},
    {"", "ReverseSequence", 10, pass},
    {"", "Scatter", 9, scatter},
    {"", "Scatter", 11, scatter},
    {"", "ScatterElements", 11, pass},
    {"", "ScatterND", 11, pass},
    {"", "Shape", 1, pass},
    {"", "Size", 1, pass},
    {"", "Slice", 1, slice_before_10},
    {"", "Slice", 10, slice},
    {"", "SpaceToDepth", 1, space_to_depth},
    {"", "Split", 1, split_before_13},
    {"", "Split", 2, split_before_13},
    {"", "Split", 13, pass},
    {"", "Squeeze", 1, squeeze_before_13},
    {"", "Squeeze", 13, squeeze},
    {"", "TensorScatter", 24, tensor_scatter},
    {"", "Tile", 1, tile_before_6},
    {"", "Tile", 6, pass},
    {"", "Transpose", 1, pass},
    {"", "Trilu", 14, pass},
    {"", "Unique", 11, counted},
    {"", "Unsqueeze", 1, squeeze_before_13},
    {"", "Unsqueeze", 13, unsqueeze},

    // ---- quantisation
    {"", "DequantizeLinear", 10, dequantize_linear},
    {"", "DynamicQuantizeLinear", 11, pass},
    {"", "QuantizeLinear", 10, quantize_linear},

    // ---- recurrent
    {"", "GRU", 1, recurrent},
    {"", "GRU", 7, recurrent},
    {"", "LSTM", 1, recurrent},
    {"", "LSTM", 7, recurrent},
    {"", "RNN", 1, recurrent},
    {"", "RNN", 7, recurrent},

    // ---- control flow
    {"", "If", 1, if_op},
    {"", "Loop", 1, loop, kNoRefusal, kTakesLists},
    {"", "Scan", 8, scan_before_9},
    {"", "Scan", 9, scan},

    // ---- sequences, optionals
    {"", "ConcatFromSequence", 11, concat_from_sequence, kNoRefusal, kTakesLists},
    {"", "Optional", 15, optional, kNoRefusal, kTakesLists},
    {"", "OptionalGetElement", 15, optional_get_element, kNoRefusal, kTakesLists},
    {"", "OptionalHasElement", 15, optional_has_element, kNoRefusal, kTakesLists},
    {"", "SequenceAt", 11, sequence_at, kNoRefusal, kTakesLists},
    {"", "SequenceConstruct", 11, sequence_construct},
    {"", "SequenceEmpty", 11, sequence_empty},
    {"", "SequenceErase", 11, sequence_erase, kNoRefusal, kTakesLists},
    {"", "SequenceInsert", 11, sequence_insert, kNoRefusal, kTakesLists},
    {"", "SequenceLength", 11, sequence_length, kNoRefusal, kTakesLists},
    {"", "SequenceMap", 17, sequence_map, kNoRefusal, kTakesLists},
    {"", "SplitToSequence", 11, split_to_sequence},

    // ---- random
    {"", "Bernoulli", 15, bernoulli},
    {"", "Multinomial", 7, multinomial},
    {"", "RandomNormal", 1, random_normal},
    {"", "RandomNormalLike", 1, random_normal},
    {"", "RandomUniform", 1, random_uniform},
    {"", "RandomUniformLike", 1, random_uniform},

    // ---- losses, signals
    {"", "BlackmanWindow", 17, window},
    {"", "DFT", 17, dft_before_20},
    {"", "DFT", 20, dft},
    {"", "HammingWindow", 17, window},
    {"", "HannWindow", 17, window},
    {"", "MelWeightMatrix", 17, pass},
    {"", "NegativeLogLikelihoodLoss", 12, negative_log_likelihood_loss},
    {"", "STFT", 17, pass},
    {"", "SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy_loss},

    // ---- what ONNX tries out
    {kPreview, "FlexAttention", 1, flex_attention},

    // ---- text, and encoded images
    {"", "ImageDecoder", 20, image_decoder},
    {"", "RegexFullMatch", 20, regex_full_match},
    {"", "StringConcat", 20, string_concat},
    {"", "StringNormalizer", 10, string_normalizer},
    {"", "StringSplit", 20, string_split},
    {"", "TfIdfVectorizer", 9, ml::tf_idf_vectorizer},

    // ---- training
    {kTraining, "Adagrad", 1, adagrad},
    {kTraining, "Adam", 1, adam},
    {kTraining, "Gradient", 1, nullptr, kGradient},
    {kTraining, "Momentum", 1, momentum},
};

}  // namespace

const std::map<std::pair<std::string_view, std::string_view>, std::vector<const ConverterRow*>>& all_converters() {
  static const auto kRowsOf = [] {
    std::map<std::pair<std::string_view, std::string_view>, std::vector<const ConverterRow*>> rows;
    for (const auto table : {std::span<const ConverterRow>(kRows), microsoft_rows(), ml_rows()}) {
      for (const auto& row : table) rows[{row.domain, row.op}].push_back(&row);
    }
    return rows;
  }();
  return kRowsOf;
}

const ConverterRow* find_converter(std::string_view domain, std::string_view op, int64_t version) {
  const auto& rows_of = all_converters();
  const auto it = rows_of.find({domain, op});
  if (it == rows_of.end()) return nullptr;
  const ConverterRow* found = nullptr;
  for (const auto* row : it->second) {
    if (row->since <= version) found = row;
  }
  return found;
}

namespace {

constexpr RefusedDomain kRefusedDomains[] = {
    {"com.microsoft.experimental", "of operators that ONNX Runtime tries out"},
    {"com.microsoft.mlfeaturizers", "of featurizers that ONNX Runtime no longer has"},
    {"com.microsoft.nchwc",
     "ONNX Runtime wrote it for one machine, at its optimization level ORT_ENABLE_ALL; save the model at "
     "ORT_ENABLE_EXTENDED, or convert the one that was optimized"},
    {"com.ms.internal.nhwc",
     "a form that ONNX Runtime has within a session, for an execution provider; save the model at ORT_ENABLE_EXTENDED "
     "with the CPU provider, or convert the one that was optimized"},
};

}  // namespace

std::span<const RefusedDomain> refused_domains() { return kRefusedDomains; }

std::string refusal_of_unknown(std::string_view domain, std::string_view op, std::string_view too_old,
                               std::string_view hint) {
  if (domain.empty() && find_converter("", op, kNewestOpset) != nullptr) return std::string(too_old);
  for (const RefusedDomain& refused : kRefusedDomains) {
    if (refused.domain == domain) return std::string(refused.refusal);
  }
  return str_cat("unknown operator; ", hint);
}

const graph::OpDef* find_record(const graph::OpSet* ops, const std::string& domain, const std::string& op,
                                bool has_converter) {
  const std::string name = str_cat(domain.empty() ? "ai.onnx" : domain, "::", op);
  const graph::OpDef* of_plugin = ops != nullptr ? ops->find_own(name) : nullptr;
  if (of_plugin != nullptr) return of_plugin;
  return has_converter || domain == "aipu" ? nullptr : graph::find_op(name);
}

}  // namespace aipu::frontend
