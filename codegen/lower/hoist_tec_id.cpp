#include <map>
#include <string_view>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/lower/passes.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// The name of the intrinsic, if it is one of those that are the same all through a launch.
std::string_view launch_constant(const Expr& e) {
  const auto* call = e->as<IntrinsicCall>();
  if (call == nullptr) return {};
  const std::string_view name = call->intrinsic->name;
  return name == "get_local_id" || name == "get_local_size" ? name : std::string_view();
}

class Replace : public Mutator {
 public:
  using Mutator::mutate;
  explicit Replace(const std::map<std::string_view, VarPtr>& vars) : vars_(vars) {}
  Expr mutate(const Expr& expr) override {
    if (!expr) return expr;
    const auto var = vars_.find(launch_constant(expr));
    return var == vars_.end() ? mutate_children(expr) : var_ref(var->second);
  }

 private:
  const std::map<std::string_view, VarPtr>& vars_;
};

}  // namespace

Result<PrimFunc> hoist_tec_id(const PrimFunc& function, const Target&) {
  std::map<std::string_view, Expr> calls;
  std::map<std::string_view, int> uses;
  walk(
      function.body,
      [&](const Expr& e) {
        const std::string_view name = launch_constant(e);
        if (name.empty()) return;
        calls.emplace(name, e);
        ++uses[name];
      },
      [](const Stmt&) {});
  // A single definition at the start of the body already is what this pass makes.
  const auto* body = function.body->as<Block>();
  for (const Stmt& stmt : body ? body->body : std::vector<Stmt>()) {
    const auto* define = stmt->as<Define>();
    if (define == nullptr || launch_constant(define->value).empty()) break;
    if (uses[launch_constant(define->value)] == 1) calls.erase(launch_constant(define->value));
  }
  if (calls.empty()) return function;
  std::map<std::string_view, VarPtr> vars;
  std::vector<Stmt> statements;
  for (const auto& [name, call] : calls) {
    auto var = std::make_shared<Var>();
    var->name = name == "get_local_id" ? "tid" : "tec_count";
    var->type = call->type;
    var->non_negative = true;
    vars[name] = var;
    statements.push_back(make_stmt(Define{var, call}));
  }
  const Stmt rest = Replace(vars).mutate(function.body);
  if (const auto* inner = rest->as<Block>())
    statements.insert(statements.end(), inner->body.begin(), inner->body.end());
  else
    statements.push_back(rest);
  PrimFunc result = function;
  result.body = block(std::move(statements));
  return result;
}

}  // namespace aipu::tir
