// The table of the domain ai.onnx.ml.
#include "frontend/onnx/converter_table.h"
#include "frontend/onnx/ops/ml/converters.h"

namespace aipu::frontend {

namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";
constexpr std::string_view kNoRefusal;
constexpr bool kTakesMaps = true;

constexpr ConverterRow kRows[] = {
    {kDomain, "ArrayFeatureExtractor", 1, ml::array_feature_extractor},
    {kDomain, "Binarizer", 1, ml::binarizer},
    {kDomain, "CastMap", 1, ml::cast_map, kNoRefusal, false, kTakesMaps},
    {kDomain, "CategoryMapper", 1, ml::category_mapper},
    {kDomain, "DictVectorizer", 1, ml::dict_vectorizer, kNoRefusal, false, kTakesMaps},
    {kDomain, "FeatureVectorizer", 1, ml::feature_vectorizer},
    {kDomain, "Imputer", 1, ml::imputer},
    {kDomain, "LabelEncoder", 1, ml::label_encoder},
    {kDomain, "LinearClassifier", 1, ml::linear_classifier},
    {kDomain, "LinearRegressor", 1, ml::linear_regressor},
    {kDomain, "Normalizer", 1, ml::normalizer},
    {kDomain, "OneHotEncoder", 1, ml::one_hot_encoder},
    {kDomain, "SVMClassifier", 1, ml::svm_classifier},
    {kDomain, "SVMRegressor", 1, ml::svm_regressor},
    {kDomain, "Scaler", 1, ml::scaler},
    {kDomain, "TreeEnsemble", 5, ml::tree_ensemble},
    {kDomain, "TreeEnsembleClassifier", 1, ml::tree_ensemble_classifier},
    {kDomain, "TreeEnsembleRegressor", 1, ml::tree_ensemble_regressor},
    {kDomain, "ZipMap", 1, ml::zip_map},
};

}  // namespace

std::span<const ConverterRow> ml_rows() { return kRows; }

}  // namespace aipu::frontend
