#include "gbuilder/plan/expressions.h"

#include <algorithm>
#include <set>

#include "runtime/base/checked_math.h"

namespace aipu::gbuilder {

ExpressionId ExpressionTable::intern(const Expression& row) {
  const auto [it, is_new] = ids_.try_emplace(row, static_cast<ExpressionId>(rows_.size()));
  if (is_new) rows_.push_back(row);
  return it->second;
}

uint32_t ExpressionTable::symbol_number(const std::string& name) {
  const auto [it, is_new] = symbol_numbers_.try_emplace(name, static_cast<uint32_t>(symbol_names_.size()));
  if (is_new) symbol_names_.push_back(name);
  return it->second;
}

ExpressionId ExpressionTable::constant(int64_t value) {
  return intern({.op = ExpressionOp::kConstant, .value = value});
}

ExpressionId ExpressionTable::add(const graph::Dim& dim) {
  using graph::DimOp;
  const auto op_of = [](DimOp op) {
    switch (op) {
      case DimOp::kConstant:
        return ExpressionOp::kConstant;
      case DimOp::kSymbol:
        return ExpressionOp::kSymbol;
      case DimOp::kAdd:
        return ExpressionOp::kAdd;
      case DimOp::kMul:
        return ExpressionOp::kMul;
      case DimOp::kFloorDiv:
        return ExpressionOp::kFloorDiv;
      case DimOp::kCeilDiv:
        return ExpressionOp::kCeilDiv;
      case DimOp::kMod:
        return ExpressionOp::kMod;
      case DimOp::kMin:
        return ExpressionOp::kMin;
      case DimOp::kMax:
        return ExpressionOp::kMax;
      case DimOp::kEq:
        return ExpressionOp::kEq;
      case DimOp::kLt:
        return ExpressionOp::kLt;
      case DimOp::kSelect:
        return ExpressionOp::kSelect;
    }
    return ExpressionOp::kConstant;
  };
  if (const auto value = dim.constant()) return constant(*value);
  if (dim.op() == DimOp::kSymbol) return intern({.op = ExpressionOp::kSymbol, .a = symbol_number(dim.symbol_name())});
  const auto& operands = dim.operands();
  std::vector<ExpressionId> ids;
  for (const graph::Dim& operand : operands) ids.push_back(add(operand));
  const ExpressionOp op = op_of(dim.op());
  if (op == ExpressionOp::kSelect) return intern({.op = op, .a = ids[0], .b = ids[1], .c = ids[2]});
  ExpressionId result = ids.front();
  for (size_t i = 1; i < ids.size(); ++i) result = intern({.op = op, .a = result, .b = ids[i]});
  return result;
}

std::optional<int64_t> ExpressionTable::constant_value(ExpressionId id) const {
  if (id >= rows_.size() || rows_[id].op != ExpressionOp::kConstant) return std::nullopt;
  return rows_[id].value;
}

void ExpressionTable::renumber_symbols(std::span<const uint32_t> order) {
  std::vector<std::string> names(symbol_names_.size());
  for (size_t i = 0; i < names.size(); ++i) names[order[i]] = symbol_names_[i];
  symbol_names_ = std::move(names);
  for (auto& [name, number] : symbol_numbers_) number = order[number];
  ids_.clear();
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].op == ExpressionOp::kSymbol) rows_[i].a = order[rows_[i].a];
    ids_.emplace(rows_[i], static_cast<ExpressionId>(i));
  }
}

std::vector<uint32_t> ExpressionTable::symbols_of(ExpressionId id) const {
  std::set<uint32_t> symbols;
  std::set<ExpressionId> seen;
  std::vector<ExpressionId> pending;
  if (id < rows_.size()) pending.push_back(id);
  while (!pending.empty()) {
    const ExpressionId at = pending.back();
    pending.pop_back();
    if (!seen.insert(at).second) continue;
    const Expression& row = rows_[at];
    if (row.op == ExpressionOp::kConstant) continue;
    if (row.op == ExpressionOp::kSymbol) {
      symbols.insert(row.a);
      continue;
    }
    pending.push_back(row.a);
    pending.push_back(row.b);
    if (row.op == ExpressionOp::kSelect) pending.push_back(row.c);
  }
  return {symbols.begin(), symbols.end()};
}

namespace {

std::optional<int64_t> floor_division(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::optional<int64_t> apply(ExpressionOp op, int64_t a, int64_t b) {
  switch (op) {
    case ExpressionOp::kAdd:
      return checked_add(a, b);
    case ExpressionOp::kMul:
      return checked_mul(a, b);
    case ExpressionOp::kFloorDiv:
      return floor_division(a, b);
    case ExpressionOp::kCeilDiv: {
      const auto floor = floor_division(a, b);
      return floor ? std::optional(*floor + (a % b != 0 ? 1 : 0)) : std::nullopt;
    }
    case ExpressionOp::kMod: {
      const auto floor = floor_division(a, b);
      return floor ? std::optional(a - *floor * b) : std::nullopt;
    }
    case ExpressionOp::kMin:
      return std::min(a, b);
    case ExpressionOp::kMax:
      return std::max(a, b);
    case ExpressionOp::kEq:
      return a == b ? 1 : 0;
    case ExpressionOp::kLt:
      return a < b ? 1 : 0;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<std::optional<int64_t>> ExpressionTable::evaluate(
    std::span<const std::optional<int64_t>> symbol_values) const {
  std::vector<std::optional<int64_t>> values(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Expression& row = rows_[i];
    switch (row.op) {
      case ExpressionOp::kConstant:
        values[i] = row.value;
        break;
      case ExpressionOp::kSymbol:
        if (row.a < symbol_values.size()) values[i] = symbol_values[row.a];
        break;
      case ExpressionOp::kSelect:
        if (values[row.a]) values[i] = *values[row.a] != 0 ? values[row.b] : values[row.c];
        break;
      default:
        if (values[row.a] && values[row.b]) values[i] = apply(row.op, *values[row.a], *values[row.b]);
    }
  }
  return values;
}

namespace {

// Binding strength of the printed operators: sums 1, products 2, everything else needs no parentheses.
struct Printed {
  std::string text;
  int strength = 3;
};

}  // namespace

std::string ExpressionTable::text(ExpressionId id, std::span<const PlanSymbol> symbols) const {
  if (id >= rows_.size()) return str_cat("?", id);
  // Bottom-up over the rows that matter, so that a hostile table cannot recurse deeply; a shared sub-expression that
  // would make the text explode is cut.
  constexpr size_t kLimit = 400;
  std::vector<Printed> printed(static_cast<size_t>(id) + 1);
  std::vector<bool> needed(static_cast<size_t>(id) + 1);
  needed[id] = true;
  for (size_t i = id + size_t{1}; i-- > 0;) {
    const Expression& row = rows_[i];
    if (!needed[i] || row.op == ExpressionOp::kConstant || row.op == ExpressionOp::kSymbol) continue;
    needed[row.a] = needed[row.b] = true;
    if (row.op == ExpressionOp::kSelect) needed[row.c] = true;
  }
  for (size_t i = 0; i <= id; ++i) {
    if (!needed[i]) continue;
    const Expression& row = rows_[i];
    Printed& out = printed[i];
    const auto wrap = [&](ExpressionId operand, int strength) {
      const Printed& p = printed[operand];
      return p.strength < strength ? "(" + p.text + ")" : p.text;
    };
    const auto call = [&](std::string_view name) {
      out.text = str_cat(name, "(", printed[row.a].text, ", ", printed[row.b].text, ")");
    };
    switch (row.op) {
      case ExpressionOp::kConstant:
        out.text = std::to_string(row.value);
        break;
      case ExpressionOp::kSymbol:
        out.text = row.a < symbols.size() ? symbols[row.a].name : str_cat("?symbol", row.a);
        break;
      case ExpressionOp::kAdd:
        out = {str_cat(wrap(row.a, 1), " + ", wrap(row.b, 2)), 1};
        break;
      case ExpressionOp::kMul:
        out = {str_cat(wrap(row.a, 2), "*", wrap(row.b, 3)), 2};
        break;
      case ExpressionOp::kFloorDiv:
        call("floordiv");
        break;
      case ExpressionOp::kCeilDiv:
        call("ceildiv");
        break;
      case ExpressionOp::kMod:
        call("mod");
        break;
      case ExpressionOp::kMin:
        call("min");
        break;
      case ExpressionOp::kMax:
        call("max");
        break;
      case ExpressionOp::kEq:
        call("eq");
        break;
      case ExpressionOp::kLt:
        call("lt");
        break;
      case ExpressionOp::kSelect:
        out.text = str_cat("select(", printed[row.a].text, ", ", printed[row.b].text, ", ", printed[row.c].text, ")");
        break;
    }
    if (out.text.size() > kLimit) out = {str_cat("e", i), 3};
  }
  return printed[id].text;
}

bool ExpressionTable::append_decoded(const Expression& row, size_t symbol_count) {
  const size_t here = rows_.size();
  switch (row.op) {
    case ExpressionOp::kConstant:
      break;
    case ExpressionOp::kSymbol:
      if (row.a >= symbol_count) return false;
      break;
    case ExpressionOp::kSelect:
      if (row.a >= here || row.b >= here || row.c >= here) return false;
      break;
    default:
      if (row.op > ExpressionOp::kSelect || row.a >= here || row.b >= here) return false;
  }
  rows_.push_back(row);
  ids_.try_emplace(row, static_cast<ExpressionId>(here));
  return true;
}

}  // namespace aipu::gbuilder
