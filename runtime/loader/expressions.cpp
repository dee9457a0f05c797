#include "runtime/loader/expressions.h"

#include <algorithm>
#include <limits>

#include "runtime/base/checked_math.h"

namespace aipu::runtime {

void ExpressionValues::start(const fb::Model& model) {
  model_ = &model;
  const size_t count = items(model.expressions()).size();
  values_.assign(count, 0);
  states_.assign(count, State::kValue);
  culprits_.assign(count, 0);
}

void ExpressionValues::evaluate(const fb::Model& model, std::span<const SymbolValue> symbols) {
  start(model);
  for (uint32_t i = 0; i < values_.size(); ++i) evaluate_row(i, symbols);
}

void ExpressionValues::evaluate(std::span<const uint32_t> rows, std::span<const SymbolValue> symbols) {
  for (const uint32_t i : rows) evaluate_row(i, symbols);
}

void ExpressionValues::evaluate_row(uint32_t i, std::span<const SymbolValue> symbols) {
  states_[i] = State::kValue;
  values_[i] = 0;
  const fb::Expression& row = *items(model_->expressions())[i];
  const auto inherit = [&](uint32_t operand) {
    values_[i] = states_[operand] == State::kValue ? values_[operand] : 0;
    states_[i] = states_[operand];
    culprits_[i] = culprits_[operand];
  };
  const auto set = [&](std::optional<int64_t> value) {
    if (value) {
      values_[i] = *value;
    } else {
      states_[i] = State::kOverflow;
    }
  };
  if (row.op() == fb::ExpressionOp::kConstant) {
    values_[i] = row.value();
    return;
  }
  if (row.op() == fb::ExpressionOp::kSymbol) {
    if (symbols[row.a()].bound) {
      values_[i] = symbols[row.a()].value;
    } else {
      states_[i] = State::kUnbound;
      culprits_[i] = row.a();
    }
    return;
  }
  if (states_[row.a()] != State::kValue) {
    inherit(row.a());
    return;
  }
  const int64_t a = values_[row.a()];
  if (row.op() == fb::ExpressionOp::kSelect) {
    inherit(a != 0 ? row.b() : row.c());
    return;
  }
  if (states_[row.b()] != State::kValue) {
    inherit(row.b());
    return;
  }
  const int64_t b = values_[row.b()];
  switch (row.op()) {
    case fb::ExpressionOp::kAdd:
      set(checked_add(a, b));
      break;
    case fb::ExpressionOp::kMul:
      set(checked_mul(a, b));
      break;
    case fb::ExpressionOp::kFloorDiv:
    case fb::ExpressionOp::kCeilDiv:
    case fb::ExpressionOp::kMod: {
      if (b == 0) {
        states_[i] = State::kDivisionByZero;
        break;
      }
      if (b == -1) {  // the one quotient that can overflow
        set(row.op() == fb::ExpressionOp::kMod ? std::optional<int64_t>(0) : checked_mul(a, -1));
        break;
      }
      const int64_t quotient = a / b;
      const int64_t remainder = a % b;
      const bool inexact_negative = remainder != 0 && (remainder < 0) != (b < 0);
      const bool inexact_positive = remainder != 0 && (remainder < 0) == (b < 0);
      if (row.op() == fb::ExpressionOp::kFloorDiv) {
        values_[i] = quotient - (inexact_negative ? 1 : 0);
      } else if (row.op() == fb::ExpressionOp::kCeilDiv) {
        values_[i] = quotient + (inexact_positive ? 1 : 0);
      } else {
        values_[i] = remainder + (inexact_negative ? b : 0);
      }
      break;
    }
    case fb::ExpressionOp::kMin:
      values_[i] = std::min(a, b);
      break;
    case fb::ExpressionOp::kMax:
      values_[i] = std::max(a, b);
      break;
    case fb::ExpressionOp::kEq:
      values_[i] = a == b ? 1 : 0;
      break;
    case fb::ExpressionOp::kLt:
      values_[i] = a < b ? 1 : 0;
      break;
    case fb::ExpressionOp::kConstant:
    case fb::ExpressionOp::kSymbol:
    case fb::ExpressionOp::kSelect:
      break;  // handled above
  }
}

Result<int64_t> ExpressionValues::get(uint32_t expression) const {
  if (has_value(expression)) return values_[expression];
  return error(expression);
}

Status ExpressionValues::error(uint32_t expression) const {
  switch (states_[expression]) {
    case State::kUnbound:
      return invalid_argument(str_cat("it depends on '", text(items(model_->symbols())[culprits_[expression]]->name()),
                                      "', which has no value here"));
    case State::kOverflow:
      return out_of_range("its value overflows 64 bits");
    case State::kDivisionByZero:
      return invalid_argument("it divides by zero");
    case State::kValue:
      break;
  }
  return {};
}

}  // namespace aipu::runtime
