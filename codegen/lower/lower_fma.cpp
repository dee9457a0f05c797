#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/lower/passes.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

class LowerFma : public Mutator {
 public:
  using Mutator::mutate;
  Expr mutate(const Expr& expr) override {
    Expr changed = expr ? mutate_children(expr) : expr;
    const auto* call = changed ? changed->as<IntrinsicCall>() : nullptr;
    if (call == nullptr || call->intrinsic->name != "fma") return changed;
    Expr sum = binary(BinaryOp::kAdd, call->args[0], binary(BinaryOp::kMul, call->args[1], call->args[2], expr->span),
                      expr->span);
    if (!call->mask) return sum;
    auto chosen = intrinsic_call("vsel", {std::move(sum), call->args[0]}, {}, call->mask);
    return chosen.ok() ? *chosen : changed;
  }
};

}  // namespace

Result<PrimFunc> lower_fma(const PrimFunc& function, const Target& target) {
  if (target.native_fma) return function;
  PrimFunc result = function;
  result.body = LowerFma().mutate(function.body);
  return result;
}

}  // namespace aipu::tir
