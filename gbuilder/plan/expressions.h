// Shape expressions as aipu.bin holds them: a DAG in evaluation order, equal sub-expressions shared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

constexpr uint32_t kNone = 0xffffffffu;
using ExpressionId = uint32_t;

// The values are those of aipu.fbs (asserted in encode.cpp).
enum class ExpressionOp : uint8_t {
  kConstant,
  kSymbol,
  kAdd,
  kMul,
  kFloorDiv,
  kCeilDiv,
  kMod,
  kMin,
  kMax,
  kEq,
  kLt,
  kSelect
};

struct Expression {
  ExpressionOp op = ExpressionOp::kConstant;
  uint32_t a = 0, b = 0, c = 0;  // earlier expressions; kSymbol: a is the symbol
  int64_t value = 0;             // kConstant
  friend auto operator<=>(const Expression&, const Expression&) = default;
};

// What gives a symbol its value. kTensorElement symbols of one tensor are adjacent in the symbol table.
enum class SymbolKind : uint8_t { kInputExtent, kTensorElement, kTecCount, kGiven, kHostTecCount };
struct PlanSymbol {
  std::string name;
  SymbolKind kind = SymbolKind::kInputExtent;
  uint32_t tensor = kNone;
  uint32_t index = 0;  // axis, element in C order, or place among what the caller gives
};

class ExpressionTable {
 public:
  ExpressionId constant(int64_t value);
  // Interns the expression and all it is made of; symbols are numbered in the order they are first met.
  ExpressionId add(const graph::Dim& dim);

  size_t size() const { return rows_.size(); }
  const Expression& row(ExpressionId id) const { return rows_[id]; }
  std::span<const Expression> rows() const { return rows_; }
  const std::vector<std::string>& symbol_names() const { return symbol_names_; }
  // of a kConstant row; nullopt for others and for ids out of range
  std::optional<int64_t> constant_value(ExpressionId id) const;

  // Gives symbols new numbers: symbol i becomes order[i].
  void renumber_symbols(std::span<const uint32_t> order);
  // Symbols that row `id` depends on, ascending.
  std::vector<uint32_t> symbols_of(ExpressionId id) const;
  // Evaluates all rows; rows that depend on a symbol without a value, overflow or divide by zero have none.
  std::vector<std::optional<int64_t>> evaluate(std::span<const std::optional<int64_t>> symbol_values) const;
  // "2*N + 1" over the given symbol names; "?<id>" where the table makes no sense.
  std::string text(ExpressionId id, std::span<const PlanSymbol> symbols) const;

  // Adds a row as it is: decoding. False if an operand is not an earlier row or the symbol does not exist.
  bool append_decoded(const Expression& row, size_t symbol_count);

 private:
  ExpressionId intern(const Expression& row);
  uint32_t symbol_number(const std::string& name);
  std::vector<Expression> rows_;
  std::map<Expression, ExpressionId> ids_;
  std::map<std::string, uint32_t, std::less<>> symbol_numbers_;
  std::vector<std::string> symbol_names_;
};

}  // namespace aipu::gbuilder
