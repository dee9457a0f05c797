// Binding of calls to rows of the intrinsic table.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/call_rules.h"
#include "kernels/dsl/compiler.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
const tir::Intrinsic* Compiler::required_intrinsic(std::string_view name, Position position) {
  const tir::Intrinsic* row = tir::find_intrinsic(name);
  if (row == nullptr) fail(position, no_script_attribute(name));
  return row;
}

Value Compiler::call_intrinsic(const std::string& name, CallArguments& arguments, Position position) {
  return call_intrinsic(*required_intrinsic(name, position), arguments.positional, arguments.keywords, position);
}

Value Compiler::call_intrinsic(const tir::Intrinsic& row, ValueList positional,
                               std::vector<std::pair<std::string, Value>> keywords, Position position) {
  const bool takes_any_number = !row.params.empty() && row.params.back().repeated;
  std::vector<std::optional<Value>> bound(row.params.size());
  std::vector<Value> rest;
  for (size_t i = 0; i < positional.size(); ++i) {
    if (i < bound.size()) {
      bound[i] = std::move(positional[i]);
    } else if (takes_any_number) {
      rest.push_back(std::move(positional[i]));
    } else {
      fail(position, fmt::format("{}() takes {} positional arguments but {} were given", row.name, bound.size(),
                                 positional.size()));
    }
  }
  for (auto& argument : keywords) {
    const std::string& keyword = argument.first;
    const auto found = std::find_if(row.params.begin(), row.params.end(),
                                    [&](const tir::IntrinsicParam& p) { return p.name == keyword; });
    if (found == row.params.end())
      fail(position, fmt::format("{}() got an unexpected keyword argument '{}'", row.name, keyword));
    auto& slot = bound[static_cast<size_t>(found - row.params.begin())];
    if (slot) fail(position, fmt::format("{}() got multiple values for argument '{}'", row.name, keyword));
    slot = std::move(argument.second);
  }

  std::vector<tir::Expr> operands;
  std::vector<bool> is_literal;
  tir::Expr mask, pass_through;
  std::vector<std::pair<std::string, int64_t>> attributes;
  const auto add_operand = [&](const Value& v) {
    if (const auto* text = v.as<std::string>()) {
      operands.push_back(tir::make_expr(tir::Type::scalar(DType::kString), tir::StringImm{*text}, span(position)));
      is_literal.push_back(true);
      return;
    }
    operands.push_back(to_expr(v, position));
    is_literal.push_back(v.is_number());
  };
  for (size_t i = 0; i < row.params.size(); ++i) {
    const tir::IntrinsicParam& param = row.params[i];
    const bool given = bound[i] && !bound[i]->is_none();
    if (!given && param.required) {
      if (takes_any_number) continue;  // the row says what it thinks of no arguments at all
      if (!bound[i])
        fail(position, fmt::format("{}() missing 1 required positional argument: '{}'", row.name, param.name));
      if (param.kind != tir::ParamKind::kMask) fail(position, fmt::format("The arg \"{}\" can't be None.", param.name));
    }
    switch (param.kind) {
      case tir::ParamKind::kOperand:
        if (!given) {
          if (takes_any_number) break;
          operands.push_back(nullptr);
          is_literal.push_back(false);
        } else if (const ValueList* items = bound[i]->elements()) {
          for (const Value& v : *items) add_operand(v);
        } else {
          add_operand(*bound[i]);
        }
        break;
      case tir::ParamKind::kMask:
        if (given) mask = mask_expr(*bound[i], position);
        break;
      case tir::ParamKind::kPassThrough:
        if (given) pass_through = to_expr(*bound[i], position);
        break;
      case tir::ParamKind::kAttribute: {
        if (!given) break;
        const Value& v = *bound[i];
        int64_t number = 0;
        if (!param.choices.empty()) {
          const auto* text = v.as<std::string>();
          const auto found =
              text == nullptr ? param.choices.end() : std::find(param.choices.begin(), param.choices.end(), *text);
          if (found == param.choices.end()) {
            std::string choices;
            for (const std::string_view c : param.choices) {
              if (!c.empty()) choices += fmt::format("{}\"{}\"", choices.empty() ? "" : ", ", c);
            }
            fail(position, fmt::format("The arg \"{}\" expect one of ({}), but got: \"{}\".", param.name, choices,
                                       text != nullptr ? *text : kind_text(v)));
          }
          number = found - param.choices.begin();
        } else if (v.as<std::string>() != nullptr || v.as<TypeValue>() != nullptr) {
          number = tir::attribute_of_type(type_argument(v, param.name, position));
        } else if (v.as<double>() == nullptr && v.integer()) {
          number = *v.integer();
          if (param.name == "lanes" && (number < 2 || v.as<bool>() != nullptr)) {
            fail(position, fmt::format("The arg \"lanes\" expect > 1, but got: \"{}\".", number));
          }
          constexpr int64_t kMaxLanes = 1 << 16;
          if (param.name == "lanes" && number > kMaxLanes)
            fail(position, fmt::format("The arg \"lanes\" expect <= {}, but got: \"{}\".", kMaxLanes, number));
        } else {
          fail(position, fmt::format("The arg \"{}\" expect an integer scalar constant.", param.name));
        }
        if (number != param.default_value) attributes.emplace_back(std::string(param.name), number);
        break;
      }
    }
  }
  for (const Value& v : rest) add_operand(v);
  while (!operands.empty() && operands.back() == nullptr) {
    operands.pop_back();
    is_literal.pop_back();
  }
  for (const tir::Expr& operand : operands) {
    if (operand != nullptr && operand->type.is_void()) fail(position, "An argument yields no value.");
  }
  if (const Status status = check_bf16_scalars(row, operands); !status.ok()) fail(position, status);
  std::sort(attributes.begin(), attributes.end());
  tir::InferInput input{&operands, std::move(is_literal), &mask, &pass_through, &attributes};
  tir::Type type = check(position, row.infer(input));
  const tir::IntrinsicCall call{&row, std::move(operands), std::move(mask), std::move(pass_through),
                                std::move(attributes)};
  if (strict()) {
    if (const Status status = check_strict_call(call); !status.ok()) fail(position, status);
  }
  if (const Status status = check_target_call(call, target()); !status.ok()) fail(position, status);
  return {tir::make_expr(type, call, span(position))};
}

}  // namespace aipu::dsl
