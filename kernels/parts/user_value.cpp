#include "kernels/parts/user_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/parts/strided_map.h"
#include "runtime/base/embedded_file.h"

namespace aipu::kernels {

std::span<const EmbeddedFile> embedded_templates();

namespace {

Expression argument_of(const graph::ValueFunction::Argument& argument, const std::vector<Expression>& operands,
                       const std::string& constant, UserFunctions* functions) {
  if (const auto* operand = std::get_if<size_t>(&argument)) return operands[*operand];
  if (const auto* list = std::get_if<std::vector<size_t>>(&argument)) {
    std::vector<std::string> items;
    for (const size_t operand : *list) items.push_back(operands[operand].text());
    return Expression::atom(fmt::format("[{}]", fmt::join(items, ", ")));
  }
  if (const auto* value = std::get_if<graph::AttributeValue>(&argument)) {
    functions->constants[constant] = captured(*value);
    return Expression::atom(constant);
  }
  return Expression::atom("None");
}

}  // namespace

void UserFunctions::bind(dsl::TemplateParams* params) const {
  for (const auto& [name, function] : functions) params->set_function(name, function);
  for (const auto& [name, value] : constants) params->set(name, value);
}

dsl::FileFunction built_in_file_function(std::string_view file, std::string_view name) {
  dsl::FileFunction function{std::string(file), "", std::string(name), {}, {"VL"}};
  for (const EmbeddedFile& embedded : embedded_templates())
    if (embedded.name == file) function.text = std::string(embedded.text);
  return function;
}

const graph::ValueRule* user_value(const graph::Graph& graph, const graph::Node& node) {
  const graph::OpDef* def = graph.find_op(node.op);
  return def != nullptr && def->value ? &def->value : nullptr;
}

Result<Expression> user_expression(const graph::Graph& graph, const graph::Node& node,
                                   const std::vector<Expression>& operands, const std::string& name,
                                   UserFunctions* functions) {
  AIPU_ASSIGN_OR_RETURN(graph::ValueFunction value, (*user_value(graph, node))(graph, node));
  std::vector<Expression> arguments;
  for (size_t i = 0; i < value.arguments.size(); ++i)
    arguments.push_back(argument_of(value.arguments[i], operands, fmt::format("{}_{}", name, i), functions));
  dsl::FileFunction function{
      std::move(value.file), std::move(value.text), std::move(value.name), {}, std::move(value.lanes)};
  for (const auto& [constant, v] : value.constants) function.params.set(constant, captured(v));
  functions->functions.emplace(name, std::move(function));
  Expression call = Expression::call_own(name, std::move(arguments));
  const DType out = compute_dtype(graph.type(node.outputs[0]).dtype);
  if (out == DType::kBool) return call;
  return Expression::call("cast", {call, Expression::atom(fmt::format("f\"{}x{{VL}}\"", dtype_name(out)))});
}

dsl::Captured captured(const graph::AttributeValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return {*i};
  if (const auto* d = std::get_if<double>(&value)) return {*d};
  if (const auto* s = std::get_if<std::string>(&value)) return {*s};
  dsl::CapturedList list;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    for (const int64_t i : *ints) list.push_back({i});
  } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    for (const double d : *reals) list.push_back({d});
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& s : *strings) list.push_back({s});
  }
  return {std::move(list)};
}

}  // namespace aipu::kernels
