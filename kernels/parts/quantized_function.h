// Functions (SiLU, Gelu, tanh, ...) of a product's sums whose result becomes an 8-bit integer at once: pieces of
// parabolas, whose coefficients one instruction takes from a table in registers. An exponential and a division, or an
// error function, take two to four times as long, for digits that the rounding drops.
#pragma once

#include <optional>
#include <vector>

#include "codegen/targets/target.h"
#include "graph/ir/graph.h"
#include "kernels/parts/expression.h"

namespace aipu::kernels {

// A function of one number t, and of that QuantizeLinear. It differs from the exact quotient, limited to what the
// integers can be, by at most kMostError steps of the quantisation, wherever t is: that is checked when it is made.
struct QuantizedFunction {
  static constexpr double kMostError = 1.0 / 32;
  static constexpr int kPieces = 32;

  // Whether the CPU has that instruction, vpermi2ps of 512 bits.
  static bool pays_on(const tir::Target& target);

  size_t first = 0;  // of the nodes given: those before make t, the others are the function
  graph::ValueId argument;
  // Coefficients of the pieces, of t^0, t^1 and t^2; limits of t, beyond which the function is constant; the factor
  // and the sum that make of t the number of its piece, plus the one that rounds; where the last piece begins.
  std::vector<float> table;
  double least = 0, most = 0;     // of the integers
  bool has_straight_end = false;  // the last piece is a line, however long
  bool exceeds_limits = false;    // may come out beyond them: has to be clamped

  // The integers, of t and a table: a name that points to `table`.
  void append_to(ExpressionFunction* function, const Expression& t, const std::string& table_name, DType type) const;
};

// Of nodes in topological order, each of which only the ones behind it use, and of which the last is a QuantizeLinear
// of 8 bits. `seed` is a number (never NaN) less than 2^96. Nullopt: no such function, one that costs little anyway, or
// one that pieces do not come near enough.
std::optional<QuantizedFunction> fit_quantized_function(const graph::Graph& graph,
                                                        const std::vector<graph::NodeId>& nodes, graph::ValueId seed);

}  // namespace aipu::kernels
