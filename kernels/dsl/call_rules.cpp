#include "kernels/dsl/call_rules.h"

#include <fmt/format.h>

#include "codegen/targets/target.h"

namespace aipu::dsl {

bool is_exposed(std::string_view name, bool strict) {
  const tir::Intrinsic* row = tir::find_intrinsic(name);
  if (row == nullptr || row->exposure == tir::Exposure::kLanguage) return true;
  return row->exposure == tir::Exposure::kExtension && !strict;
}

Status check_bf16_scalars(const tir::Intrinsic& row, const std::vector<tir::Expr>& operands) {
  if (!row.pure || !row.computes) return {};
  bool found = false;
  for (const tir::Expr& e : operands) {
    if (e == nullptr || e->type.pointer) continue;
    if (e->type.is_vector()) return {};
    found = found || e->type.element == DType::kBF16;
  }
  return found ? invalid_argument(std::string(kNoBf16Scalars)) : Status();
}

Status check_strict_call(const tir::IntrinsicCall& call) {
  if (call.intrinsic->strict == nullptr || call.args.empty() || call.args[0] == nullptr) return {};
  return call.intrinsic->strict(call);
}

Status check_target_call(const tir::IntrinsicCall& call, std::string_view target) {
  if (call.intrinsic->lacks == nullptr || target.empty()) return {};
  const auto found = tir::find_target(target);
  const std::string lacking = call.intrinsic->lacks(call, found.ok() ? found->generation : 0);
  if (lacking.empty()) return {};
  return invalid_argument(fmt::format("{} does not support the target \"{}\".", lacking, target));
}

}  // namespace aipu::dsl
