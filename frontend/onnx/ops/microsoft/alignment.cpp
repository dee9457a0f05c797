// What aligns one sequence with another: a path through a matrix of costs, tokens that continue others.
#include <limits>
#include <utility>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/control_flow.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A Scan along the first axis of the sequences, whose body is what `write` makes of the states and of a step's parts of
// the sequences; its results.
template <typename Write>
std::vector<ValueId> scanned(OpContext& c, std::vector<ValueId> states, const std::vector<ValueId>& sequences,
                             size_t results, Write write) {
  if (!c.ok()) return std::vector<ValueId>(results);
  std::vector<TensorType> formals;
  for (const ValueId state : states) formals.push_back(c.type(state));
  for (const ValueId sequence : sequences) {
    formals.push_back(c.type(sequence));
    formals.back().shape.erase(formals.back().shape.begin());
  }
  ImportedSubgraph body = c.write_body(formals, write);
  Attributes attributes;
  attributes.set("num_scan_inputs", static_cast<int64_t>(sequences.size()));
  attributes.set("scan_input_axes", std::vector<int64_t>(sequences.size(), 0));
  attributes.set("scan_output_axes", std::vector<int64_t>(results - states.size(), 0));
  std::vector<ValueId> inputs = std::move(states);
  inputs.insert(inputs.end(), sequences.begin(), sequences.end());
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < results; ++i) names.push_back(str_cat(c.output_names[0], "/scan", i));
  std::vector<std::unique_ptr<Graph>> bodies;
  bodies.push_back(std::move(body.graph));
  const auto made = emit_parts(c, "Scan", std::move(attributes), inputs, std::move(names), std::move(bodies));
  return c.ok() ? made : std::vector<ValueId>(results);
}

// How a cell of the least cost was reached.
constexpr double kFromBoth = 0, kFromRow = 1, kFromColumn = 2;

}  // namespace

// The cheapest path from the first cell to the last one. Costs are summed along diagonals, all cells of one at a time;
// then the path is followed backwards.
void dynamic_time_warping(OpContext& c) {
  c.expect_inputs(1, 1);
  if (!c.ok()) return;
  ValueId x = c.input(0);
  if (c.rank(x) == 3) x = c.squeeze(x, {0});
  if (c.ok() && c.rank(x) != 2)
    return c.fail_invalid(str_cat("takes costs [rows, columns], found ", c.type(c.input(0)).text()));
  const DType dtype = c.dtype(x);
  const ValueId rows = c.squeeze(c.size_of(x, 0), {0}), columns = c.squeeze(c.size_of(x, 1), {0});
  const ValueId one = c.int64_scalar(1), zero = c.int64_scalar(0);
  const ValueId count = subtract(c, add(c, rows, columns), one);
  const ValueId diagonal = c.emit("Range", {}, {zero, count, one});
  const ValueId row = positions_along(c, x, 0);
  // [diagonals, rows]
  const ValueId column = subtract(c, c.unsqueeze(diagonal, {1}), row);
  const ValueId is_cell =
      c.emit("And", {}, {c.emit("GreaterOrEqual", {}, {column, zero}), c.emit("Less", {}, {column, columns})});
  const ValueId place = add(c, multiply(c, row, columns), where(c, is_cell, column, zero));
  const ValueId costs = where(c, is_cell, gather(c, reshape(c, x, {-1}), place), c.scalar(dtype, kInfinity));
  // What is left and above of the first cell.
  const ValueId border =
      where(c, c.emit("Equal", {}, {diagonal, zero}), c.scalar(dtype, 0), c.scalar(dtype, kInfinity));
  const ValueId blank = c.emit("Expand", {}, {c.scalar(dtype, kInfinity), c.size_of(x, 0)});
  const auto summed = scanned(c, {blank, blank}, {costs, border}, 3, [&](OpContext& b, const std::vector<ValueId>& in) {
    const ValueId last = in[0], before = in[1], own_row = b.seen_within(row);
    // A gather, whose extent is that of the rows whatever is known of these.
    const ValueId top = b.scalar(DType::kI64, 0);
    const ValueId is_first = b.emit("Equal", {}, {own_row, top});
    const ValueId row_above = b.emit("Max", {}, {subtract(b, own_row, b.scalar(DType::kI64, 1)), top});
    const auto from_above = [&](ValueId values, ValueId first) {
      return where(b, is_first, first, gather(b, values, row_above));
    };
    const ValueId both = from_above(before, in[3]);
    const ValueId above = from_above(last, b.scalar(dtype, kInfinity));
    const auto less = [&](ValueId p, ValueId q, ValueId r) {
      return b.emit("And", {}, {b.emit("Less", {}, {p, q}), b.emit("Less", {}, {p, r})});
    };
    const ValueId by_both = less(both, above, last), by_row = less(above, both, last);
    const ValueId best = where(b, by_both, both, where(b, by_row, above, last));
    const auto code = [&](double number) { return b.scalar(DType::kI64, number); };
    const ValueId way = where(b, by_both, code(kFromBoth), where(b, by_row, code(kFromRow), code(kFromColumn)));
    return std::vector<ValueId>{add(b, best, in[2]), last, way};
  });
  const ValueId ways = reshape(c, summed[2], {-1});
  const ValueId height = c.size_of(x, 0);
  // Behind the first cell there is nothing: positions below 0.
  const auto path =
      scanned(c, {height, c.size_of(x, 1)}, {diagonal}, 3, [&](OpContext& b, const std::vector<ValueId>& in) {
        const ValueId step = b.scalar(DType::kI64, 1);
        const ValueId at = subtract(b, in[0], step), beside = subtract(b, in[1], step);
        const ValueId found = add(b, multiply(b, add(b, at, beside), b.seen_within(height)), at);
        const ValueId way = gather(b, b.seen_within(ways), b.emit("Max", {}, {found, b.scalar(DType::kI64, 0)}));
        const auto unless = [&](double other) {
          const ValueId stays = b.emit("Equal", {}, {way, b.scalar(DType::kI64, other)});
          return where(b, stays, b.scalar(DType::kI64, 0), step);
        };
        return std::vector<ValueId>{subtract(b, in[0], unless(kFromColumn)), subtract(b, in[1], unless(kFromRow)),
                                    concat(b, 0, {at, beside})};
      });
  const ValueId cells = path[2];  // [diagonals, 2], the last cell first
  const ValueId inside = c.emit("ReduceMin", {{"keepdims", int64_t{0}}}, {cells, c.int64s({1})});
  const ValueId is_inside = c.cast(c.emit("GreaterOrEqual", {}, {inside, zero}), DType::kI64);
  const ValueId steps = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {is_inside, c.int64s({0})});
  const ValueId backwards = subtract(c, subtract(c, steps, one), c.emit("Range", {}, {zero, steps, one}));
  c.set_output(0, c.cast(c.transpose(gather(c, cells, backwards), {1, 0}), DType::kI32));
}

// Tokens, and behind them those that were predicted up to the first one that the source does not have; and where the
// source goes on behind its only n-gram that is the last one of the result, or -1.
void bifurcation_detector(OpContext& c) {
  c.expect_inputs(3, 4);
  const int64_t least = c.take_int("min_ngram_size", 1), most = c.take_int("max_ngram_size", 3);
  if (!c.ok()) return;
  constexpr int64_t kMost = 64;
  if (least < 1 || most < least || most > kMost)
    return c.fail_unsupported(str_cat("n-grams of ", least, " to ", most, " tokens are not supported"));
  const ValueId source = c.input(0);
  if (c.rank(source) != 1 || c.rank(c.input(1)) != 1 || (c.has_input(3) && c.rank(c.input(3)) != 1))
    return c.fail_invalid(str_cat("takes lists of tokens, found ", c.type(source).text()));
  const ValueId one = c.int64_scalar(1), zero = c.int64_scalar(0);
  const ValueId place = positions_along(c, source, 0);
  const ValueId length = c.squeeze(c.size_of(source, 0), {0});
  const ValueId last = subtract(c, length, one);
  // The source's token at each position, and true where it has one.
  const auto token_at = [&](ValueId at) { return gather(c, source, c.emit("Min", {}, {at, last})); };
  ValueId tokens = c.input(1);
  if (c.has_input(3)) {
    const ValueId predicted = c.input(3);
    const ValueId step = positions_along(c, predicted, 0);
    const ValueId at = add(c, step, reshape(c, c.input(2), {1}));
    const ValueId agrees =
        c.emit("And", {}, {c.emit("Less", {}, {at, length}), c.emit("Equal", {}, {token_at(at), predicted})});
    const ValueId end = subtract(c, c.squeeze(c.size_of(predicted, 0), {0}), one);
    const ValueId first = c.emit("ReduceMin", {}, {where(c, agrees, end, step), c.int64s({0})});
    tokens = concat(c, 0, {tokens, c.emit("Slice", {}, {predicted, c.int64s({0}), add(c, first, one), c.int64s({0})})});
  }
  c.set_output(0, tokens);
  if (!c.wants_output(1)) return;
  const ValueId count = c.squeeze(c.size_of(tokens, 0), {0});
  ValueId result = c.int64_scalar(-1), goes_on = c.scalar(DType::kBool, 1);
  for (int64_t n = least; n <= most; ++n) {
    ValueId fits = c.emit("LessOrEqual", {}, {add(c, place, c.int64_scalar(n)), length});
    for (int64_t k = 0; k < n; ++k) {
      const ValueId at = c.emit("Max", {}, {subtract(c, count, c.int64_scalar(n - k)), zero});
      const ValueId same = c.emit("Equal", {}, {token_at(add(c, place, c.int64_scalar(k))), gather(c, tokens, at)});
      fits = c.emit("And", {}, {fits, same});
    }
    const auto over_all = [&](const char* op, ValueId values) {
      return c.emit(op, {{"keepdims", int64_t{0}}}, {values, c.int64s({0})});
    };
    const ValueId found = over_all("ReduceSum", c.cast(fits, DType::kI64));
    const ValueId end = add(c, over_all("ReduceMin", where(c, fits, place, length)), c.int64_scalar(n));
    const ValueId exists = c.emit(
        "And", {}, {c.emit("LessOrEqual", {}, {c.int64_scalar(n), count}), c.emit("Greater", {}, {found, zero})});
    goes_on = c.emit("And", {}, {goes_on, exists});
    const ValueId decides =
        c.emit("Or", {}, {c.emit("GreaterOrEqual", {}, {end, length}), c.emit("Equal", {}, {found, one})});
    const ValueId ends = c.emit("And", {}, {goes_on, decides});
    result = where(c, ends, end, result);
    goes_on = c.emit("And", {}, {goes_on, c.emit("Not", {}, {ends})});
  }
  if (c.ok()) c.set_output(1, c.emit("Reshape", {{"shape", c.type(c.input(2)).shape}}, {result}));
}

}  // namespace aipu::frontend::microsoft
