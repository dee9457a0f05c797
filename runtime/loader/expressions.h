// Evaluates the expression table of a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/loader/model_file.h"

namespace aipu::runtime {

struct SymbolValue {
  int64_t value = 0;
  bool bound = false;
  friend bool operator==(const SymbolValue&, const SymbolValue&) = default;
};

// The values of all expressions for given symbols. An expression that has no value (an unbound symbol, an overflow, a
// division by zero) is an error only for those who ask for it: a branch of kSelect that is not taken may have none.
class ExpressionValues {
 public:
  // The table has passed check_model().
  void evaluate(const fb::Model& model, std::span<const SymbolValue> symbols);
  // The same by parts: of the rows, ascending, whose operands are among them or have been evaluated since the start.
  void start(const fb::Model& model);
  void evaluate(std::span<const uint32_t> rows, std::span<const SymbolValue> symbols);
  bool has_value(uint32_t expression) const { return states_[expression] == State::kValue; }
  int64_t value_or_zero(uint32_t expression) const { return values_[expression]; }
  // The error says what is wrong with the expression, without saying where it is used.
  Result<int64_t> get(uint32_t expression) const;
  [[gnu::cold]] Status error(uint32_t expression) const;

 private:
  void evaluate_row(uint32_t i, std::span<const SymbolValue> symbols);

  enum class State : uint8_t { kValue, kUnbound, kOverflow, kDivisionByZero };
  const fb::Model* model_ = nullptr;
  std::vector<int64_t> values_;
  std::vector<State> states_;
  std::vector<uint32_t> culprits_;  // kUnbound: the symbol
};

}  // namespace aipu::runtime
