#include <fmt/format.h>

#include <map>
#include <set>

#include "codegen/lower/passes.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

constexpr int64_t kMaxElements = 256;

// The array that `pointer[index]` is an element of, when it is named directly and the index is a constant inside it.
const Var* direct_array(const Expr& pointer, const Expr& index, int64_t* element) {
  const auto* ref = pointer->as<VarRef>();
  const auto at = as_int(index);
  if (ref == nullptr || !at || *at < 0) return nullptr;
  *element = *at;
  return ref->var.get();
}

// Arrays whose every mention is a direct constant-indexed load or store.
class FindPromotable {
 public:
  explicit FindPromotable(const Stmt& body) {
    walk(
        body, [](const Expr&) {},
        [&](const Stmt& stmt) {
          const auto* alloc = stmt->as<Alloc>();
          if (alloc != nullptr && alloc->data.empty() && alloc->buffer->type.scope == Scope::kPrivate &&
              alloc->count <= kMaxElements) {
            counts[alloc->buffer.get()] = alloc->count;
          }
        });
    visit(body);
    for (const Var* var : escaped_) counts.erase(var);
  }
  std::map<const Var*, int64_t> counts;

 private:
  void visit(const Stmt& stmt) {
    if (const auto* store = stmt->as<Store>()) {
      element(store->pointer, store->index);
      visit(store->value);
      return;
    }
    for_each_child(
        stmt, [&](const Expr& e) { visit(e); }, [&](const Stmt& s) { visit(s); });
  }
  void visit(const Expr& expr) {
    if (const auto* access = expr->as<Load>()) {
      element(access->pointer, access->index);
      return;
    }
    if (const auto* ref = expr->as<VarRef>()) escaped_.insert(ref->var.get());
    for_each_child(expr, [&](const Expr& e) { visit(e); });
  }
  void element(const Expr& pointer, const Expr& index) {
    int64_t at = 0;
    const Var* array = direct_array(pointer, index, &at);
    const auto known = array == nullptr ? counts.end() : counts.find(array);
    if (known != counts.end() && at < known->second) return;
    visit(pointer);
    visit(index);
  }
  std::set<const Var*> escaped_;
};

class Promote : public Mutator {
 public:
  explicit Promote(const std::map<const Var*, int64_t>& counts) : counts_(counts) {}

  Expr mutate(const Expr& expr) override {
    if (!expr) return expr;
    if (const auto* access = expr->as<Load>()) {
      if (VarPtr var = variable(access->pointer, access->index)) return var_ref(var);
    }
    return mutate_children(expr);
  }
  Stmt mutate(const Stmt& stmt) override {
    if (!stmt) return stmt;
    if (const auto* alloc = stmt->as<Alloc>(); alloc != nullptr && counts_.contains(alloc->buffer.get())) {
      // The contents start undefined; a zero is as good as anything and the C compiler drops it where a store comes
      // first.
      std::vector<VarPtr>& variables = variables_[alloc->buffer.get()];
      variables.clear();
      const Type type = alloc->buffer->type.pointee();
      std::vector<Stmt> definitions;
      for (int64_t i = 0; i < alloc->count; ++i) {
        auto var = std::make_shared<Var>();
        var->name = fmt::format("{}{}", alloc->buffer->name, i);
        var->type = type;
        variables.push_back(var);
        Expr zero = is_floating(type.element)      ? float_imm(0, type.element)
                    : type.element == DType::kBool ? bool_imm(false)
                                                   : int_imm(0, type.element);
        if (type.lanes > 1) zero = broadcast(std::move(zero), type.lanes);
        definitions.push_back(make_stmt(Define{var, std::move(zero)}, stmt->span));
      }
      pending_ = std::move(definitions);
      return nullptr;
    }
    if (const auto* store = stmt->as<Store>()) {
      if (VarPtr var = variable(store->pointer, store->index))
        return make_stmt(Assign{var, mutate(store->value)}, stmt->span);
    }
    if (const auto* scope = stmt->as<Block>()) {
      // Definitions have to land in the block of the allocation itself.
      std::vector<Stmt> body;
      for (const Stmt& child : scope->body) {
        Stmt changed = mutate(child);
        for (Stmt& definition : pending_) body.push_back(std::move(definition));
        pending_.clear();
        if (changed) body.push_back(std::move(changed));
      }
      return make_stmt(Block{std::move(body)}, stmt->span);
    }
    return mutate_children(stmt);
  }

 private:
  VarPtr variable(const Expr& pointer, const Expr& index) const {
    int64_t at = 0;
    const Var* array = direct_array(pointer, index, &at);
    const auto known = array == nullptr ? variables_.end() : variables_.find(array);
    return known == variables_.end() ? nullptr : known->second[static_cast<size_t>(at)];
  }

  const std::map<const Var*, int64_t>& counts_;
  std::map<const Var*, std::vector<VarPtr>> variables_;
  std::vector<Stmt> pending_;
};

}  // namespace

Result<PrimFunc> promote_private_arrays(const PrimFunc& function, const Target&) {
  const FindPromotable found(function.body);
  if (found.counts.empty()) return function;
  PrimFunc result = function;
  result.body = Promote(found.counts).mutate(function.body);
  return result;
}

}  // namespace aipu::tir
