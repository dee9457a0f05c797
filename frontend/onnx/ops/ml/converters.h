// The operators of the domain ai.onnx.ml, by family; register_ops.cpp of this folder has the table. What the schema
// leaves open is as ONNX Runtime's CPU provider computes it.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend::ml {

// trees.cpp
void tree_ensemble(OpContext& c);
void tree_ensemble_classifier(OpContext& c);
void tree_ensemble_regressor(OpContext& c);

// linear.cpp
void linear_classifier(OpContext& c);
void linear_regressor(OpContext& c);

// svm.cpp
void svm_classifier(OpContext& c);
void svm_regressor(OpContext& c);

// features.cpp
void array_feature_extractor(OpContext& c);
void binarizer(OpContext& c);
void feature_vectorizer(OpContext& c);
void imputer(OpContext& c);
void normalizer(OpContext& c);
void scaler(OpContext& c);

// labels.cpp
void cast_map(OpContext& c);
void category_mapper(OpContext& c);
void dict_vectorizer(OpContext& c);
void label_encoder(OpContext& c);
void one_hot_encoder(OpContext& c);
void zip_map(OpContext& c);

// grams.cpp; of ONNX's domain
void tf_idf_vectorizer(OpContext& c);

}  // namespace aipu::frontend::ml
