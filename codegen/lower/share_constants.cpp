#include <algorithm>
#include <iterator>

#include "codegen/lower/passes.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// A vector that is the same number in every lane; masks are no registers of that kind.
bool is_constant_vector(const Expr& e) {
  const auto* broadcast = e->as<Broadcast>();
  return broadcast != nullptr && e->type.element != DType::kBool &&
         (broadcast->scalar->as<IntImm>() != nullptr || broadcast->scalar->as<FloatImm>() != nullptr);
}

bool has_loop(const Stmt& stmt) {
  bool found = false;
  walk(
      stmt, [](const Expr&) {},
      [&](const Stmt& s) { found = found || s->as<For>() != nullptr || s->as<While>() != nullptr; });
  return found;
}

bool is_innermost_loop(const Stmt& stmt) {
  const auto* loop = stmt->as<For>();
  return loop != nullptr && !has_loop(loop->body);
}

// Code that runs as a whole: no branch, and no loop but one that has no others in it.
bool is_piece(const Stmt& stmt) {
  return is_innermost_loop(stmt) || (stmt->as<For>() == nullptr && stmt->as<While>() == nullptr &&
                                     stmt->as<If>() == nullptr && stmt->as<Block>() == nullptr);
}

struct Constant {
  Expr value;
  size_t first = 0;  // the statement that needs it first
  int uses = 0;
  VarPtr var;
  bool is_known = false;  // made in a scope around
};

class Replace : public Mutator {
 public:
  using Mutator::mutate;
  explicit Replace(const std::vector<Constant>& constants) : constants_(constants) {}
  Expr mutate(const Expr& expr) override {
    if (!expr) return expr;
    if (is_constant_vector(expr)) {
      for (const Constant& constant : constants_)
        if (structurally_equal(constant.value, expr)) return var_ref(constant.var);
    }
    return mutate_children(expr);
  }

 private:
  const std::vector<Constant>& constants_;
};

class Share : public Mutator {
 public:
  explicit Share(size_t most) : most_(most) {}
  Stmt mutate(const Stmt& stmt) override {
    const auto* scope = stmt->as<Block>();
    if (scope == nullptr) return mutate_children(stmt);
    std::vector<Constant> constants = shared(scope->body);
    const size_t outer = known_.size();
    std::vector<Stmt> statements;
    for (size_t i = 0; i < scope->body.size(); ++i) {
      const Stmt& inner = scope->body[i];
      for (const Constant& constant : constants) {
        if (constant.is_known || constant.first != i) continue;
        statements.push_back(make_stmt(Define{constant.var, constant.value}, inner->span));
        known_.push_back(constant);
      }
      statements.push_back(is_piece(inner) ? Replace(constants).mutate(inner) : mutate(inner));
    }
    known_.resize(outer);
    return block(std::move(statements));
  }
  Expr mutate(const Expr& expr) override { return expr; }

 private:
  // What more than one vector would be made for, or one that is there already, the most frequent first.
  std::vector<Constant> shared(const std::vector<Stmt>& body) const {
    std::vector<Constant> found;
    for (size_t i = 0; i < body.size(); ++i) {
      if (!is_piece(body[i])) continue;
      const int uses = is_innermost_loop(body[i]) ? 2 : 1;
      walk(
          body[i],
          [&](const Expr& e) {
            if (!is_constant_vector(e)) return;
            auto known =
                std::find_if(found.begin(), found.end(), [&](const auto& c) { return structurally_equal(c.value, e); });
            if (known == found.end()) known = found.insert(found.end(), {.value = e, .first = i});
            known->uses += uses;
          },
          [](const Stmt&) {});
    }
    for (Constant& constant : found) {
      const auto known = std::find_if(known_.begin(), known_.end(),
                                      [&](const auto& c) { return structurally_equal(c.value, constant.value); });
      if (known == known_.end()) continue;
      constant.var = known->var;
      constant.is_known = true;
    }
    std::erase_if(found, [](const Constant& c) { return c.uses < 2 && !c.is_known; });
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.uses > b.uses; });
    if (found.size() > most_) found.resize(most_);
    for (Constant& constant : found) {
      if (constant.is_known) continue;
      auto var = std::make_shared<Var>();
      var->name = "constant";
      var->type = constant.value->type;
      constant.var = std::move(var);
    }
    return found;
  }

  size_t most_;
  std::vector<Constant> known_;  // of the scopes around
};

}  // namespace

Result<PrimFunc> share_constants(const PrimFunc& function, const Target& target) {
  if (!target.costs) return function;
  // The other registers are for what is computed.
  const auto most = static_cast<size_t>(target.vector_registers / 2);
  PrimFunc result = function;
  result.body = Share(most).mutate(block({function.body}));
  const std::vector<Stmt>& whole = result.body->as<Block>()->body;
  if (whole.size() == 1) result.body = Stmt(whole.front());
  return result;
}

}  // namespace aipu::tir
