// Strings taken apart. Private to frontend/onnx.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

// Fails unless x has strings.
void expect_strings(OpContext& c, ValueId x);

struct Pieces {
  ValueId rows;    // x with a new last axis, as many as the element with the most has; `split` fills the others
  ValueId counts;  // int64, of each element
};

// `count` and `split` are graph ops that take `attributes`; there are so many pieces as the first one counts.
Pieces taken_apart(OpContext& c, ValueId x, std::string_view count, std::string_view split,
                   const AttributeList& attributes);

}  // namespace aipu::frontend
