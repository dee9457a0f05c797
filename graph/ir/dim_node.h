// What a Dim is made of, and the arithmetic of bounds: private to the dim_*.cpp files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/dim.h"

namespace aipu::graph {

struct DimNode {
  DimOp op = DimOp::kConstant;
  std::string name;
  std::vector<Dim> operands;
  std::optional<int64_t> low, high;
  size_t hash = 0;
  int size = 1;  // of the expression as a tree

  static const DimNode* of(const Dim& dim) { return dim.node_.get(); }
  static Dim make(DimOp op, std::vector<Dim> operands);
  static Dim make_symbol(std::string name);
};

// A total order that depends on names and structure only: symbols by name, then the other operators, constants last.
int compare(const Dim& a, const Dim& b);

// Rounding down; nullopt where there is no value (a divisor of zero, overflow).
std::optional<int64_t> floor_divide(int64_t a, int64_t b);
std::optional<int64_t> floor_modulo(int64_t a, int64_t b);

// What stands for "no value": evaluating it is an error.
Dim undefined();

}  // namespace aipu::graph
