// Sentences without their padding. Private to this folder.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend::microsoft {

struct PackedTokens {
  ValueId places;   // int64 [count]: where the tokens are among all places
  ValueId all;      // int64 [1]: how many places there are
  Shape sentences;  // batch, length
};
// `token_offset` is [batch, length], the places of the tokens first.
PackedTokens packed_tokens(OpContext& c, ValueId tokens, ValueId token_offset);
// Tokens [count, size] as sentences [batch, length, size], zeros where there is none.
ValueId padded(OpContext& c, const PackedTokens& packed, ValueId tokens);

}  // namespace aipu::frontend::microsoft
