// An integer expression as a sum of terms with constant factors, in which equal terms meet.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "codegen/tir/expr.h"

namespace aipu::tir {

// Terms stand in the order in which they appear. Factors and the constant are those of `dtype`, modulo its width.
class LinearForm {
 public:
  explicit LinearForm(DType dtype) : dtype_(dtype) {}

  // Adds `factor` times `e`: sums, differences and products with constants are taken apart.
  void add(const Expr& e, int64_t factor);

  // Positive terms, a positive constant, negative terms, a negative constant.
  Expr expr() const;

  // Whether nothing but the constant is left.
  bool is_constant() const;
  // Whether a factor or the constant did not fit `dtype`.
  bool has_wrapped() const { return wrapped_; }
  int64_t constant() const { return constant_; }
  const std::vector<std::pair<Expr, int64_t>>& terms() const { return terms_; }

 private:
  int64_t fitted(bool overflow, int64_t exact);
  int64_t sum(int64_t a, int64_t b);
  int64_t product(int64_t a, int64_t b);
  Expr scaled(const Expr& term, int64_t factor) const;

  DType dtype_;
  int64_t constant_ = 0;
  std::vector<std::pair<Expr, int64_t>> terms_;  // those that have cancelled out have the factor 0
  bool wrapped_ = false;
};

}  // namespace aipu::tir
