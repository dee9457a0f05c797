#include "codegen/tir/link.h"

#include <algorithm>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// Functions get new names; there is one TEC.
class Alone : public Mutator {
 public:
  using Mutator::mutate;
  explicit Alone(const std::string& prefix) : prefix_(prefix) {}

  Expr mutate(const Expr& expr) override {
    if (!expr) return expr;
    if (const auto* call = expr->as<IntrinsicCall>()) {
      const std::string_view name = call->intrinsic->name;
      if (name == "get_local_id" || name == "get_local_size")
        return int_imm(name == "get_local_id" ? 0 : 1, expr->type.element);
      waits_ = waits_ || name == "barrier";
    }
    const Expr inner = mutate_children(expr);
    const auto* call = inner->as<FunctionCall>();
    return call == nullptr ? inner
                           : make_expr(inner->type, FunctionCall{prefix_ + call->function, call->args}, inner->span);
  }
  Stmt mutate(const Stmt& stmt) override {
    const auto* loop = stmt->as<For>();
    waits_ = waits_ || (loop != nullptr && loop->kind == ForKind::kTec);
    return mutate_children(stmt);
  }
  bool waits() const { return waits_; }

 private:
  const std::string& prefix_;
  bool waits_ = false;
};

}  // namespace

Result<Module> link_modules(const Module& module, std::span<const std::pair<std::string, const Module*>> entries) {
  Module linked;
  std::vector<PrimFuncPtr> others;
  for (const PrimFuncPtr& function : module.functions) {
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const auto& known) { return known.first == function->name; });
    if (entry == entries.end()) {
      linked.functions.push_back(function);
      continue;
    }
    const PrimFunc& own = entry->second->entry();
    const bool same = std::equal(own.params.begin(), own.params.end(), function->params.begin(), function->params.end(),
                                 [](const VarPtr& a, const VarPtr& b) { return a->type == b->type; });
    if (!same) return internal_error(str_cat("\"", own.name, "\" has not the parameters of \"", function->name, "\""));
    const std::string prefix = function->name + "_";
    Alone alone(prefix);
    for (const PrimFuncPtr& part : entry->second->functions) {
      auto renamed = std::make_shared<PrimFunc>(*part);
      const bool is_entry = part.get() == &own;
      renamed->name = is_entry ? function->name : prefix + part->name;
      if (is_entry) renamed->inline_hint = function->inline_hint;
      renamed->body = alone.mutate(part->body);
      others.push_back(std::move(renamed));
    }
    if (alone.waits()) return internal_error(str_cat("\"", own.name, "\" is for several TECs together"));
  }
  for (const auto& entry : entries) {
    const std::string& name = entry.first;  // clang 14 cannot capture a structured binding
    if (std::none_of(others.begin(), others.end(), [&](const PrimFuncPtr& known) { return known->name == name; }))
      return internal_error(str_cat("there is no function \"", name, "\" to be replaced"));
  }
  linked.functions.insert(linked.functions.end(), others.begin(), others.end());
  return linked;
}

}  // namespace aipu::tir
