#include "kernels/parts/expression.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/intrinsics/intrinsic_table.h"

namespace aipu::kernels {
namespace {

bool is_long_intrinsic(std::string_view name) {
  const tir::Intrinsic* row = tir::find_intrinsic(name);
  return row != nullptr && row->cost == tir::CostClass::kTranscendental;
}

}  // namespace

Expression Expression::atom(std::string text) { return Expression(Node{Kind::kAtom, std::move(text), {}}); }

Expression Expression::call(std::string_view function, std::vector<Expression> arguments) {
  return Expression(Node{Kind::kIntrinsic, std::string(function), std::move(arguments)});
}

Expression Expression::call_own(std::string_view function, std::vector<Expression> arguments) {
  return Expression(Node{Kind::kCall, std::string(function), std::move(arguments)});
}

Expression Expression::binary(std::string_view symbol, Expression lhs, Expression rhs) {
  return Expression(Node{Kind::kBinary, std::string(symbol), {std::move(lhs), std::move(rhs)}});
}

Expression operator~(Expression operand) {
  return Expression(Expression::Node{Expression::Kind::kNot, "~", {std::move(operand)}});
}

std::string Expression::text() const {
  const auto& [kind, symbol, operands] = *node_;
  if (kind == Kind::kAtom) return symbol;
  if (kind == Kind::kNot) return fmt::format("(~{})", operands[0].text());
  if (kind == Kind::kBinary) return fmt::format("({} {} {})", operands[0].text(), symbol, operands[1].text());
  std::string list;
  for (const Expression& operand : operands) list += (list.empty() ? "" : ", ") + operand.text();
  return fmt::format("{}{}({})", kind == Kind::kIntrinsic ? "S." : "", symbol, list);
}

bool Expression::is_long() const {
  if (node_->kind == Kind::kIntrinsic && is_long_intrinsic(node_->symbol)) return true;
  return std::any_of(node_->operands.begin(), node_->operands.end(), [](const Expression& e) { return e.is_long(); });
}

std::string ExpressionFunction::source(std::string_view name) const {
  std::string text = fmt::format("def {}({}):\n", name, fmt::join(parameters, ", "));
  for (const auto& [variable, value] : statements) {
    text +=
        variable.empty() ? fmt::format("    {}\n", value.text()) : fmt::format("    {} = {}\n", variable, value.text());
  }
  return text + fmt::format("    return {}\n", result.text());
}

bool ExpressionFunction::is_long() const {
  return result.is_long() ||
         std::any_of(statements.begin(), statements.end(), [](const Statement& s) { return s.value.is_long(); });
}

bool is_long_source(std::string_view source) {
  constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyz0123456789_";
  for (size_t at = source.find("S."); at != std::string_view::npos; at = source.find("S.", at + 1)) {
    const std::string_view rest = source.substr(at + 2);
    if (is_long_intrinsic(rest.substr(0, rest.find_first_not_of(kName)))) return true;
  }
  return false;
}

}  // namespace aipu::kernels
