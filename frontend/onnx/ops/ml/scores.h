// What classifiers and regressors share: labels, and the functions that scores go through. Private to
// frontend/onnx/ops/ml.
#pragma once

#include <string_view>
#include <vector>

#include "frontend/onnx/op_context.h"

namespace aipu::frontend::ml {

enum class PostTransform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

// The attribute post_transform: a name, or a number in TreeEnsemble.
PostTransform take_post_transform(OpContext& c);
// Of scores [N, targets].
ValueId transformed(OpContext& c, ValueId scores, PostTransform transform);
// The same as ONNX Runtime's regressors have it: of a single target only PROBIT.
ValueId transformed_targets(OpContext& c, ValueId scores, PostTransform transform);

// The scores [N, 2] of two classes from that of the second one, [N, 1], as ONNX Runtime completes them: the first one's
// is 1 - s (`complement`) or -s, of LOGISTIC the transformed -s; nothing else is transformed but by PROBIT.
ValueId two_scores(OpContext& c, ValueId s, bool complement, PostTransform transform);

// x as the type that linear models and kernels of vectors compute in.
inline ValueId as_real(OpContext& c, ValueId x) { return c.cast(x, DType::kF32); }

// x as rows [N, C]: a vector is one row. Fails for other ranks.
ValueId rows_of(OpContext& c, ValueId x);

// Attributes that are lists; one that is absent is empty.
std::vector<int64_t> ints_or_none(OpContext& c, std::string_view name);
std::vector<double> floats_or_none(OpContext& c, std::string_view name);

ValueId floats(OpContext& c, DType dtype, const std::vector<double>& values, std::vector<int64_t> shape);

// The class labels of the attributes `ints` and `strings`; fails where there are none of either, or both.
struct Labels {
  ValueId values;  // [count]
  int64_t count = 0;
  bool are_places = false;  // 0, 1, 2, ...
};
Labels take_labels(OpContext& c, std::string_view ints, std::string_view strings);
// The column with the greatest score of each row: [N].
ValueId arg_max(OpContext& c, ValueId scores);
// The labels at `places`.
ValueId labels_at(OpContext& c, const Labels& labels, ValueId places);
// The label 1 where `condition` ([N], bool) holds, 0 elsewhere.
ValueId label_if(OpContext& c, const Labels& labels, ValueId condition);

}  // namespace aipu::frontend::ml
