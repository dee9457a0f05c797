#include <fmt/format.h>

#include <map>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/lower/passes.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// A copy of a body with the loop variable replaced and every variable it declares made new.
class CopyBody : public Mutator {
 public:
  CopyBody(const Var* loop_variable, Expr value) : loop_variable_(loop_variable), value_(std::move(value)) {}

  Expr mutate(const Expr& expr) override {
    if (!expr) return expr;
    if (const auto* ref = expr->as<VarRef>()) {
      if (ref->var.get() == loop_variable_) return value_;
      if (auto renamed = renamed_.find(ref->var.get()); renamed != renamed_.end()) return var_ref(renamed->second);
      return expr;
    }
    if (const auto* address = expr->as<AddressOf>()) {
      if (auto renamed = renamed_.find(address->var.get()); renamed != renamed_.end())
        return make_expr(expr->type, AddressOf{renamed->second}, expr->span);
    }
    return mutate_children(expr);
  }
  Stmt mutate(const Stmt& stmt) override {
    if (!stmt) return stmt;
    if (const auto* define = stmt->as<Define>()) {
      Expr value = mutate(define->value);
      return make_stmt(Define{fresh(define->var), std::move(value)}, stmt->span);
    }
    if (const auto* alloc = stmt->as<Alloc>())
      return make_stmt(Alloc{fresh(alloc->buffer), alloc->count, alloc->data}, stmt->span);
    if (const auto* loop = stmt->as<For>()) {
      Expr start = mutate(loop->start), stop = mutate(loop->stop), step = mutate(loop->step);
      VarPtr var = fresh(loop->var);
      return make_stmt(
          For{std::move(var), std::move(start), std::move(stop), std::move(step), loop->kind, mutate(loop->body)},
          stmt->span);
    }
    if (const auto* assign = stmt->as<Assign>())
      return make_stmt(Assign{current(assign->var), mutate(assign->value)}, stmt->span);
    if (const auto* write = stmt->as<LaneWrite>())
      return make_stmt(LaneWrite{current(write->var), mutate(write->index), mutate(write->value)}, stmt->span);
    return mutate_children(stmt);
  }

 private:
  VarPtr fresh(const VarPtr& var) { return renamed_[var.get()] = std::make_shared<Var>(*var); }
  VarPtr current(const VarPtr& var) const {
    const auto renamed = renamed_.find(var.get());
    return renamed == renamed_.end() ? var : renamed->second;
  }

  const Var* loop_variable_;
  Expr value_;
  std::map<const Var*, VarPtr> renamed_;
};

class ResolveLoops : public Mutator {
 public:
  using Mutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    if (!stmt) return stmt;
    const auto* loop = stmt->as<For>();
    if (loop == nullptr || loop->kind == ForKind::kSerial) return mutate_children(stmt);
    Stmt body = mutate(loop->body);
    if (loop->kind == ForKind::kVectorized)
      return make_stmt(For{loop->var, loop->start, loop->stop, loop->step, ForKind::kSerial, body}, stmt->span);
    if (loop->kind == ForKind::kTec) {
      auto tid = intrinsic_call("get_local_id", {});
      if (!tid.ok()) {
        error = std::move(tid).status();
        return stmt;
      }
      const Expr id = cast(loop->var->type, *tid);
      Expr inside = binary(BinaryOp::kAnd, binary(BinaryOp::kLe, loop->start, id),
                           binary(BinaryOp::kLt, id, loop->stop), stmt->span);
      Stmt guarded = block({make_stmt(Define{loop->var, id}, stmt->span), body});
      return make_stmt(If{std::move(inside), std::move(guarded), nullptr}, stmt->span);
    }
    const auto start = as_int(loop->start), stop = as_int(loop->stop), step = as_int(loop->step);
    if (!start || !stop || !step || *step < 1) {
      error =
          invalid_model(fmt::format("loop over '{}' cannot be unrolled: its bounds are not constant", loop->var->name));
      return stmt;
    }
    std::vector<Stmt> copies;
    for (int64_t i = *start; i < *stop; i += *step)
      copies.push_back(CopyBody(loop->var.get(), int_imm(i, loop->var->type.element)).mutate(body));
    return block(std::move(copies));
  }

  Status error;
};

}  // namespace

Result<PrimFunc> resolve_loops(const PrimFunc& function, const Target&) {
  ResolveLoops pass;
  PrimFunc result = function;
  result.body = pass.mutate(function.body);
  if (!pass.error.ok()) return pass.error;
  return result;
}

}  // namespace aipu::tir
