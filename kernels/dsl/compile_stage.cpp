// S.stage: operands of a loop go through a TEC's local memory. The loop is a template (templates/stage.py); here its
// arguments are checked, and brought to one form.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/targets/target.h"
#include "kernels/dsl/compiler.h"
#include "kernels/dsl/parse.h"
#include "kernels/dsl/stage_parameters.h"

namespace aipu::dsl {
namespace {

bool is_count(const Value& v) {
  if (v.integer()) return true;
  const auto* e = v.as<tir::Expr>();
  return e != nullptr && !(*e)->type.pointer && (*e)->type.is_scalar() && is_integer((*e)->type.element);
}

bool is_global(tir::Scope scope) {
  return scope == tir::Scope::kGlobal || scope == tir::Scope::kGlobal1 || scope == tir::Scope::kGlobal2 ||
         scope == tir::Scope::kGlobal3;
}

}  // namespace

// A list of pointers, or of tuples of a pointer and up to `most_numbers` numbers, as one of such whole tuples: a width
// that is not given is 1, a pitch the width.
Value Compiler::staged_operands(const Value& list, std::string_view name, size_t most_numbers, Position position) {
  ValueList result;
  if (list.is_none()) return make_list(result);
  if (list.elements() == nullptr) fail(position, fmt::format("The arg \"{}\" expect a list.", name));
  for (const Value& item : *list.elements()) {
    ValueList parts = item.elements() != nullptr ? *item.elements() : ValueList{item};
    const auto* pointer = parts.empty() ? nullptr : parts[0].as<tir::Expr>();
    const bool fits = pointer != nullptr && (*pointer)->type.pointer && is_global((*pointer)->type.scope) &&
                      !(*pointer)->type.pointee().is_void() && parts.size() <= most_numbers + 1 &&
                      std::all_of(parts.begin() + 1, parts.end(), is_count);
    if (!fits) {
      fail(position, fmt::format("The arg \"{}\" expect pointers to global memory, or tuples of one and {}.", name,
                                 most_numbers == 2 ? "its elements of a unit and the distance of units"
                                                   : "its elements of a unit"));
    }
    for (size_t i = 1; i < parts.size(); ++i) {
      if (!parts[i].integer()) parts[i] = {convert(parts[i], tir::Type::scalar(DType::kI32), position)};
    }
    if (parts.size() == 1) parts.push_back({int64_t{1}});
    if (parts.size() <= most_numbers) parts.push_back(parts[1]);
    result.push_back(make_tuple(std::move(parts)));
  }
  return make_list(std::move(result));
}

const FunctionValue& Compiler::stage_function(int64_t local_bytes, Position position) {
  const auto known = stage_functions_.find(local_bytes);
  if (known != stage_functions_.end()) return known->second;
  // Without a target the operands stay where they are.
  const Result<tir::Target> found = tir::find_target(target().empty() ? "host-baseline" : target());
  if (!found.ok()) fail(position, found.status());
  TemplateParams params;
  set_stage_parameters(*found, local_bytes, &params);
  const Value function = to_value(check(position, built_in_function("stage.py", "stage", params)), pool_);
  return stage_functions_.try_emplace(local_bytes, *function.as<FunctionValue>()).first->second;
}

Value Compiler::s_stage(CallArguments& arguments, Position position) {
  const auto given =
      take(arguments, "stage", {"body", "units", "reads", "shared", "writes", "values", "local_bytes"}, 2, position);
  const auto* body = given[0].as<FunctionValue>();
  if (body == nullptr || kind_of(*body) == FunctionKind::kPrimFunc)
    fail(position, "The arg \"body\" expect a function without \"S.prim_func\": it is compiled for each memory.");
  if (!is_count(given[1])) fail(position, "The arg \"units\" expect an integer scalar.");
  if (!given[5].is_none() && given[5].elements() == nullptr) fail(position, "The arg \"values\" expect a list.");
  const int64_t local_bytes =
      given[6].is_none() ? 0 : int_argument(given[6], "The arg \"local_bytes\" expect an integer constant.", position);
  if (local_bytes < 0) fail(position, "The arg \"local_bytes\" expect a positive integer constant.");
  CallArguments call;
  call.positional = {given[0],
                     {convert(given[1], tir::Type::scalar(DType::kI32), position)},
                     staged_operands(given[2], "reads", 2, position),
                     staged_operands(given[3], "shared", 1, position),
                     staged_operands(given[4], "writes", 1, position),
                     given[5].is_none() ? make_list({}) : given[5]};
  return inline_function(stage_function(local_bytes, position), call, position);
}

}  // namespace aipu::dsl
