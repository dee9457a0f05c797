#include "frontend/onnx/ops/microsoft/packed_requests.h"

#include <utility>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

PackedRequests packed_requests(OpContext& c, ValueId ends, ValueId tokens, int64_t past) {
  if (!c.ok()) return {};
  if (c.rank(ends) != 1) {
    c.fail_invalid(str_cat("takes cumulative lengths [requests + 1], found ", c.type(ends).text()));
    return {};
  }
  PackedRequests r;
  r.past = past;
  r.total = c.size_of(tokens, 0);
  const ValueId edges = c.cast(ends, DType::kI64);
  const ValueId stops = slice(c, edges, 0, 1, INT64_MAX);
  r.starts = slice(c, edges, 0, 0, -1);
  r.lengths = subtract(c, stops, r.starts);
  r.number = positions_along(c, stops, 0);
  const ValueId token = positions_along(c, tokens, 0);
  // As many requests as end before a token; those behind the last end would belong to none.
  const ValueId over = c.emit("GreaterOrEqual", {}, {c.unsqueeze(token, {1}), stops});
  const ValueId count = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {c.cast(over, DType::kI64), c.int64s({1})});
  const ValueId last = subtract(c, c.squeeze(c.size_of(stops, 0), {0}), c.int64_scalar(1));
  r.request = c.emit("Min", {}, {count, last});
  r.place = subtract(c, token, gather(c, r.starts, r.request));
  return r;
}

ValueId with_past(OpContext& c, ValueId tokens, ValueId past) {
  if (!c.ok()) return {};
  Shape rows = c.type(past).shape;
  rows[1] = rows[0] * rows[1];
  rows.erase(rows.begin());
  return concat(c, 0, {tokens, c.emit("Reshape", {{"shape", rows}}, {past})});
}

ValueId rows_at(OpContext& c, const PackedRequests& r, ValueId request, ValueId place) {
  const ValueId earlier = add(c, multiply(c, request, c.int64_scalar(r.past)), c.int64_scalar(r.past));
  const ValueId is_new = c.emit("GreaterOrEqual", {}, {place, c.int64_scalar(0)});
  return add(c, place, where(c, is_new, gather(c, r.starts, request), add(c, earlier, r.total)));
}

ValueId rows_back(OpContext& c, const PackedRequests& r, int64_t back) {
  return rows_at(c, r, r.request, subtract(c, r.place, c.int64_scalar(back)));
}

ValueId last_rows(OpContext& c, const PackedRequests& r) {
  const ValueId step = c.emit("Range", {}, {c.int64_scalar(-r.past), c.int64_scalar(0), c.int64_scalar(1)});
  return rows_at(c, r, c.unsqueeze(r.number, {1}), add(c, c.unsqueeze(r.lengths, {1}), step));
}

Captures take_captures(OpContext& c, const PackedRequests& r, size_t operand, size_t output) {
  Captures captures;
  captures.capacity = c.take_int("state_update_capacity", 0);
  if (!c.ok()) return captures;
  if (captures.capacity < 0 || captures.capacity > 8)
    c.fail_invalid(str_cat("state_update_capacity is ", captures.capacity, ", expected 0 to 8"));
  if (c.has_input(operand) != (captures.capacity > 0))
    c.fail_invalid(str_cat("capture_count comes with a positive state_update_capacity, found ", captures.capacity));
  if (c.wants_output(output) && captures.capacity == 0)
    c.fail_unsupported("the output state_update without a state_update_capacity is not supported");
  if (captures.capacity == 0 || !c.ok()) return captures;
  const ValueId count = c.emit("Min", {}, {c.cast(c.input(operand), DType::kI64), r.lengths});
  const ValueId slot = c.emit("Range", {}, {c.int64_scalar(0), c.int64_scalar(captures.capacity), c.int64_scalar(1)});
  captures.wanted = c.emit("Less", {}, {slot, c.unsqueeze(count, {1})});
  return captures;
}

// A causal convolution of each channel along each request. Its state is the inputs in front of the first token.
void varlen_causal_conv_with_state(OpContext& c) {
  c.expect_inputs(3, 8);
  const std::string activation = c.take_string("activation", "none");
  const int64_t dilation = c.take_int("dilation", 1);
  for (const char* name : {"delta_offset", "group_size"}) c.ignore(name);
  if (!c.ok()) return;
  if (c.has_input(6) || c.has_input(7)) return c.fail_unsupported("kernel_delta and previous_mask are not supported");
  if (!c.has_input(4)) return c.fail_invalid("needs initial_state");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return c.fail_invalid(str_cat("activation is '", activation, "', expected one of: none, silu, swish"));
  const ValueId x = c.input(0), weights = c.input(1), state = c.input(4);
  const auto taps = c.rank(weights) == 3 ? c.type(weights).shape[2].constant() : std::nullopt;
  if (!taps || *taps < 1 || dilation < 1 || c.rank(x) != 2 || c.rank(state) != 3)
    return c.fail_unsupported(str_cat("an input ", c.type(x).text(), " with weights ", c.type(weights).text(),
                                      ", a state ", c.type(state).text(), " and the dilation ", dilation,
                                      " is not supported"));
  const PackedRequests r = packed_requests(c, c.input(2), x, (*taps - 1) * dilation);
  const ValueId rows = r.past == 0 ? x : with_past(c, x, c.transpose(state, {0, 2, 1}));
  ValueId y;
  for (int64_t tap = 0; tap < *taps; ++tap) {
    const ValueId weight = c.cast(c.squeeze(slice(c, weights, 2, tap, tap + 1), {1, 2}), DType::kF32);
    const ValueId row = c.cast(gather(c, rows, rows_back(c, r, (*taps - 1 - tap) * dilation)), DType::kF32);
    const ValueId part = multiply(c, row, weight);
    y = y.valid() ? add(c, y, part) : part;
  }
  if (c.has_input(3)) y = add(c, y, c.cast(c.input(3), DType::kF32));
  if (activation != "none") y = c.emit("Swish", {}, {y});
  const Captures captures = take_captures(c, r, 5, 2);
  if (!c.ok()) return;
  c.set_output(0, c.cast(y, c.dtype(x)));
  if (c.wants_output(1))
    c.set_output(1, r.past == 0 ? state : c.transpose(gather(c, rows, last_rows(c, r)), {0, 2, 1}));
  if (!c.wants_output(2)) return;
  const ValueId slot = c.emit("Range", {}, {c.int64_scalar(0), c.int64_scalar(captures.capacity), c.int64_scalar(1)});
  const ValueId most = subtract(c, c.unsqueeze(r.lengths, {1}), c.int64_scalar(1));
  const ValueId kept = gather(c, x, rows_at(c, r, c.unsqueeze(r.number, {1}), c.emit("Min", {}, {slot, most})));
  c.set_output(2, where(c, c.unsqueeze(captures.wanted, {2}), kept, c.scalar(c.dtype(x), 0)));
}

}  // namespace aipu::frontend::microsoft
