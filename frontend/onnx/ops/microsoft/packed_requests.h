// Tokens of several requests, one request behind the other, and what each has had before. Private to this folder.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend::microsoft {

struct PackedRequests {
  ValueId total;     // [1]: how many tokens there are
  ValueId number;    // [requests]: 0, 1, ...
  ValueId starts;    // [requests]: the first token
  ValueId lengths;   // [requests]
  ValueId request;   // [tokens]: whose it is
  ValueId place;     // [tokens]: within its request
  int64_t past = 0;  // how many earlier tokens of each request are known
};
// `ends` are where the requests end, behind a 0.
PackedRequests packed_requests(OpContext& c, ValueId ends, ValueId tokens, int64_t past);

// Rows of the tokens, [tokens, ...], with the earlier ones of all requests, [requests, past, ...], behind them.
ValueId with_past(OpContext& c, ValueId tokens, ValueId past);
// The rows of places within requests; those below 0 are earlier tokens.
ValueId rows_at(OpContext& c, const PackedRequests& r, ValueId request, ValueId place);
// The same of the place `back` in front of each token.
ValueId rows_back(OpContext& c, const PackedRequests& r, int64_t back);
// [requests, past]: the last ones.
ValueId last_rows(OpContext& c, const PackedRequests& r);

// What may be kept of the first `capacity` tokens of each request.
struct Captures {
  int64_t capacity = 0;  // 0: nothing
  ValueId wanted;        // bool [requests, capacity]
};
// Checks the operand capture_count against the attribute state_update_capacity and the output.
Captures take_captures(OpContext& c, const PackedRequests& r, size_t operand, size_t output);

}  // namespace aipu::frontend::microsoft
