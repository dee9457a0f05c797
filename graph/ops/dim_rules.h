// What integer ops compute, on Dims instead of numbers: how shape arithmetic in a model is followed symbolically.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/ops/infer.h"

namespace aipu::graph {

// One element of a binary op on integers (or floats that hold integers: `floating`); nullopt when the result is not
// such a value or not expressible.
std::optional<Dim> apply_binary(std::string_view op, const Dim& a, const Dim& b, bool floating);
std::optional<Dim> apply_unary(std::string_view op, const Dim& a);

// Integer division as ONNX and C define it.
std::optional<Dim> truncating_div(const Dim& a, const Dim& b);

// Elements of a float tensor as exact fractions: follows Cast, Mul, Div and Concat back to integers ("Cast, Mul by 0.5,
// Floor, Cast" computes many a size).
struct Fraction {
  Dim numerator;
  Dim denominator;  // provably positive, unless `any_divisor` lets in extents, which may be 0
};
std::optional<std::vector<Fraction>> fractions_of(const Graph& graph, ValueId value, bool any_divisor = false,
                                                  int depth = 8);

// Whether `dtype` is one whose arithmetic is followed: 64 and 32-bit signed integers (wrap-around is left to the
// model), bool, float32 and float64.
bool tracked(DType dtype);
// False for a constant element that `dtype` cannot hold exactly.
bool fits(const Dim& element, DType dtype);
std::optional<Data> checked_elements(std::optional<Data> data, DType dtype);  // nullopt unless all fit

}  // namespace aipu::graph
