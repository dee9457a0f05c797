#include "kernels/te/print.h"

#include <fmt/format.h>

#include "kernels/te/operation.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

std::string list_text(const std::vector<Expr>& list) {
  std::string text;
  for (const Expr& e : list) text += (text.empty() ? "" : ", ") + to_text(e);
  return text;
}

// An int32 and a bool say their type by themselves.
std::string int_text(int64_t value, Type type) {
  if (is_bool(type.element)) return value != 0 ? "True" : "False";
  if (type == Type::scalar(DType::kI32)) return std::to_string(value);
  return fmt::format("{}({})", type_text(type), value);
}

std::string float_text(double value, Type type) {
  const std::string digits = fmt::format("{}", value);
  return type == Type::scalar(DType::kF32) ? digits + "f" : fmt::format("{}({})", type_text(type), digits);
}

std::string binary_text(const Binary& n) {
  const BinaryRow& row = binary_row(n.op);
  if (row.infix) return fmt::format("({} {} {})", to_text(n.a), row.symbol, to_text(n.b));
  return fmt::format("{}({}, {})", row.symbol, to_text(n.a), to_text(n.b));
}

std::string reduce_text(const Reduce& n) {
  std::string axes;
  for (const IterVarPtr& axis : n.axis) axes += (axes.empty() ? "" : ", ") + axis->name();
  std::string text = fmt::format("{}({}, axis=[{}]", n.combiner->name, list_text(n.source), axes);
  if (as_int(n.condition) != 1) text += ", where=" + to_text(n.condition);
  if (!n.init.empty()) text += ", init=" + list_text(n.init);
  return text + ")" + (n.source.size() > 1 ? fmt::format("[{}]", n.value_index) : "");
}

}  // namespace

std::string to_text(const Expr& expr) {
  if (!expr) return "None";
  const Type type = expr->type;
  return match(
      expr, [&](const IntImm& n) { return int_text(n.value, type); },
      [&](const FloatImm& n) { return float_text(n.value, type); },
      [](const StringImm& n) { return "\"" + n.value + "\""; }, [](const Var& n) { return n.name; },
      [](const Binary& n) { return binary_text(n); }, [](const Not& n) { return "not " + to_text(n.a); },
      [](const Select& n) {
        return fmt::format("select({}, {}, {})", to_text(n.condition), to_text(n.true_value), to_text(n.false_value));
      },
      [&](const Cast& n) { return fmt::format("{}({})", type_text(type), to_text(n.value)); },
      [](const Call& n) { return fmt::format("{}({})", n.name, list_text(n.args)); },
      [](const Read& n) {
        return fmt::format("{}[{}]", Tensor{n.op, n.value_index}.name(),
                           n.indices.empty() ? "()" : list_text(n.indices));
      },
      [](const Reduce& n) { return reduce_text(n); });
}

}  // namespace aipu::te
