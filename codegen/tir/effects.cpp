#include "codegen/tir/effects.h"

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {

bool has_effect(const Expr& e) {
  const auto* call = e->as<IntrinsicCall>();
  return e->as<FunctionCall>() != nullptr || (call != nullptr && !call->intrinsic->pure);
}

bool is_repeatable(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& child) { found |= has_effect(child); });
  return !found;
}

bool depends_on_memory(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& child) { found |= has_effect(child) || child->as<Load>() != nullptr; });
  return found;
}

}  // namespace aipu::tir
