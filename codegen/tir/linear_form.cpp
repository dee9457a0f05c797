#include "codegen/tir/linear_form.h"

#include <algorithm>

#include "codegen/tir/effects.h"

namespace aipu::tir {

int64_t LinearForm::fitted(bool overflow, int64_t exact) {
  const int64_t result = wrap_int(exact, dtype_);
  wrapped_ = wrapped_ || overflow || result != exact;
  return result;
}

int64_t LinearForm::sum(int64_t a, int64_t b) {
  int64_t exact = 0;
  const bool overflow = __builtin_add_overflow(a, b, &exact);
  return fitted(overflow, exact);
}

int64_t LinearForm::product(int64_t a, int64_t b) {
  int64_t exact = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &exact);
  return fitted(overflow, exact);
}

void LinearForm::add(const Expr& e, int64_t factor) {
  if (const auto value = as_int(e)) {
    constant_ = sum(constant_, product(*value, factor));
    return;
  }
  const auto* n = e->as<Binary>();
  if (n != nullptr && (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub)) {
    add(n->lhs, factor);
    add(n->rhs, n->op == BinaryOp::kAdd ? factor : product(factor, -1));
    return;
  }
  if (n != nullptr && n->op == BinaryOp::kMul) {
    if (const auto value = as_int(n->rhs)) return add(n->lhs, product(*value, factor));
    if (const auto value = as_int(n->lhs)) return add(n->rhs, product(*value, factor));
  }
  for (auto& [term, total] : terms_) {
    if (!structurally_equal(term, e) || !is_repeatable(e)) continue;
    total = sum(total, factor);
    return;
  }
  terms_.emplace_back(e, factor);
}

bool LinearForm::is_constant() const {
  return std::all_of(terms_.begin(), terms_.end(), [](const auto& term) { return term.second == 0; });
}

Expr LinearForm::scaled(const Expr& term, int64_t factor) const {
  return factor == 1 ? term : binary(BinaryOp::kMul, term, int_imm(factor, dtype_));
}

Expr LinearForm::expr() const {
  const auto imm = [&](int64_t value) { return int_imm(value, dtype_); };
  Expr sum;
  const auto append = [&](BinaryOp op, const Expr& term) {
    sum = sum ? binary(op, sum, term) : op == BinaryOp::kAdd ? term : binary(op, imm(0), term);
  };
  for (const auto& [term, factor] : terms_) {
    if (factor > 0) append(BinaryOp::kAdd, scaled(term, factor));
  }
  if (constant_ > 0 || (constant_ < 0 && -constant_ == constant_)) append(BinaryOp::kAdd, imm(constant_));
  if (!sum && constant_ < 0) {
    // c - x reads better than (0 - x) - c.
    append(BinaryOp::kAdd, imm(constant_));
    for (const auto& [term, factor] : terms_) {
      if (factor < 0) append(BinaryOp::kSub, scaled(term, -factor));
    }
    return sum;
  }
  const auto negative =
      static_cast<size_t>(std::count_if(terms_.begin(), terms_.end(), [](const auto& t) { return t.second < 0; }));
  if (!sum && negative == 1 && constant_ == 0) {
    for (const auto& [term, factor] : terms_) {
      if (factor < 0) return binary(BinaryOp::kMul, term, imm(factor));
    }
  }
  for (const auto& [term, factor] : terms_) {
    if (factor < 0) append(BinaryOp::kSub, scaled(term, -factor));
  }
  if (constant_ < 0 && sum) append(BinaryOp::kSub, imm(-constant_));
  return sum ? sum : imm(constant_);
}

}  // namespace aipu::tir
