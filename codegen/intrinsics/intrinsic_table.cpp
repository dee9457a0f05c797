#include "codegen/intrinsics/intrinsic_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <unordered_map>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"

namespace aipu::tir {
namespace {

Result<LaneValue> evaluate(Status (*run)(const LaneCall&), const IntrinsicCall& call, const Type& result,
                           std::span<const LaneValue> operands, const LaneValue* mask, const LaneValue* pass_through,
                           MachineState* machine) {
  LaneValue value(result);
  std::vector<LaneRef> refs;
  refs.reserve(operands.size());
  for (const LaneValue& operand : operands) refs.push_back(operand.ref());
  const LaneRef mask_ref = mask ? mask->ref() : LaneRef{};
  const LaneRef pass_through_ref = pass_through ? pass_through->ref() : LaneRef{};
  const LaneCall lane_call{
      call, value.ref(), refs, mask ? &mask_ref : nullptr, pass_through ? &pass_through_ref : nullptr, machine};
  AIPU_RETURN_IF_ERROR(run(lane_call));
  return value;
}

struct Table {
  std::vector<Intrinsic> rows;
  std::unordered_map<std::string_view, const Intrinsic*> by_name;

  Table() {
    rows.reserve(256);
    add_arithmetic_rows(rows);
    add_bitwise_rows(rows);
    add_compare_rows(rows);
    add_convert_rows(rows);
    add_math_rows(rows);
    add_memory_rows(rows);
    add_permute_rows(rows);
    add_reduce_rows(rows);
    add_sync_rows(rows);
    add_widening_rows(rows);
    for (Intrinsic& row : rows) {
      assert(row.infer && row.run);
      row.evaluate = [run = row.run](const IntrinsicCall& call, const Type& result, std::span<const LaneValue> operands,
                                     const LaneValue* mask, const LaneValue* pass_through, MachineState* machine) {
        return tir::evaluate(run, call, result, operands, mask, pass_through, machine);
      };
      const bool is_new = by_name.emplace(row.name, &row).second;
      assert(is_new);
      (void)is_new;
    }
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

const Expr* operand_of(const IntrinsicCall& call, std::string_view parameter) {
  size_t operand = 0;
  for (const IntrinsicParam& param : call.intrinsic->params) {
    if (param.kind != ParamKind::kOperand) continue;
    if (param.name == parameter)
      return operand < call.args.size() && call.args[operand] != nullptr ? &call.args[operand] : nullptr;
    ++operand;
  }
  return nullptr;
}

const Intrinsic* find_intrinsic(std::string_view name) {
  const auto found = table().by_name.find(name);
  return found == table().by_name.end() ? nullptr : found->second;
}

std::span<const Intrinsic> all_intrinsics() { return table().rows; }

Result<Expr> intrinsic_call(std::string_view name, std::vector<Expr> operands,
                            std::vector<std::pair<std::string, int64_t>> attributes, Expr mask, Expr pass_through,
                            SourceSpan span) {
  const Intrinsic* intrinsic = find_intrinsic(name);
  if (intrinsic == nullptr) return not_found(fmt::format("there is no intrinsic '{}'", name));
  std::sort(attributes.begin(), attributes.end());
  InferInput input{&operands, std::vector<bool>(operands.size(), false), &mask, &pass_through, &attributes};
  Result<Type> type = intrinsic->infer(input);
  if (!type.ok()) return std::move(type).status().context(name);
  return make_expr(
      *type,
      IntrinsicCall{intrinsic, std::move(operands), std::move(mask), std::move(pass_through), std::move(attributes)},
      std::move(span));
}

Status lane_type_error(const LaneCall& call) {
  return internal_error(
      fmt::format("intrinsic '{}' was given operands of a type that its type rule refuses", call.call.intrinsic->name));
}

}  // namespace aipu::tir
