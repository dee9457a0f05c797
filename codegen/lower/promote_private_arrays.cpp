#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "codegen/intrinsics/intrinsic_table.h"
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

// What an array's elements, or vectors of them, become: variables, defined where the array was allocated.
class PromoteArrays : public Mutator {
 public:
  using Mutator::mutate;

 protected:
  // The contents start undefined; a zero is as good as anything and the C compiler drops it where a store comes first.
  template <typename Span>
  void define_all(const Alloc& alloc, Type type, const Span& span) {
    std::vector<VarPtr>& variables = variables_[alloc.buffer.get()];
    variables.clear();
    const int64_t at_once = type.lanes / alloc.buffer->type.pointee().lanes;  // elements of the array in a variable
    for (int64_t i = 0; i < alloc.count / at_once; ++i) {
      variables.push_back(std::make_shared<Var>(Var{fmt::format("{}{}", alloc.buffer->name, i), type}));
      Expr zero = is_floating(type.element)      ? float_imm(0, type.element)
                  : type.element == DType::kBool ? bool_imm(false)
                                                 : int_imm(0, type.element);
      if (type.lanes > 1) zero = broadcast(std::move(zero), type.lanes);
      pending_.push_back(make_stmt(Define{variables.back(), std::move(zero)}, span));
    }
  }

  // Definitions have to land in the block of the allocation itself.
  Stmt mutate_block_or_children(const Stmt& stmt) {
    const auto* scope = stmt->as<Block>();
    if (scope == nullptr) return mutate_children(stmt);
    std::vector<Stmt> body;
    for (const Stmt& child : scope->body) {
      Stmt changed = mutate(child);
      for (Stmt& definition : pending_) body.push_back(std::move(definition));
      pending_.clear();
      if (changed) body.push_back(std::move(changed));
    }
    return make_stmt(Block{std::move(body)}, stmt->span);
  }

  std::map<const Var*, std::vector<VarPtr>> variables_;

 private:
  std::vector<Stmt> pending_;
};

class Promote : public PromoteArrays {
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
      define_all(*alloc, alloc->buffer->type.pointee(), stmt->span);
      return nullptr;
    }
    if (const auto* store = stmt->as<Store>()) {
      if (VarPtr var = variable(store->pointer, store->index))
        return make_stmt(Assign{var, mutate(store->value)}, stmt->span);
    }
    return mutate_block_or_children(stmt);
  }

 private:
  VarPtr variable(const Expr& pointer, const Expr& index) const {
    int64_t at = 0;
    const Var* array = direct_array(pointer, index, &at);
    const auto known = array == nullptr ? variables_.end() : variables_.find(array);
    return known == variables_.end() ? nullptr : known->second[static_cast<size_t>(at)];
  }

  const std::map<const Var*, int64_t>& counts_;
};

// A vector of an array's elements that a load or a store names: one after the other, without a mask, at a constant
// place.
struct VectorAccess {
  const Var* array = nullptr;
  int64_t first = 0;
  Type type;
};

std::optional<VectorAccess> vector_access(const IntrinsicCall& call, size_t at_pointer, Type type) {
  if (call.mask || call.pass_through || type.is_scalar()) return std::nullopt;
  const size_t at_stride = at_pointer + 1;
  if (call.args.size() > at_stride && (call.args.size() > at_stride + 1 || as_int(call.args[at_stride]) != 1))
    return std::nullopt;
  const Expr& pointer = call.args[at_pointer];
  if (const auto* ref = pointer->as<VarRef>()) return VectorAccess{ref->var.get(), 0, type};
  const auto* sum = pointer->as<Binary>();
  if (sum == nullptr || sum->op != BinaryOp::kAdd) return std::nullopt;
  const auto* ref = sum->lhs->as<VarRef>();
  const auto at = as_int(sum->rhs);
  if (ref == nullptr || !at || *at < 0) return std::nullopt;
  return VectorAccess{ref->var.get(), *at, type};
}

std::optional<VectorAccess> loaded_vector(const Expr& expr) {
  const auto* call = expr->as<IntrinsicCall>();
  if (call == nullptr || call->intrinsic->name != "vload") return std::nullopt;
  return vector_access(*call, 0, expr->type);
}

// A store's vector, and the value that it gets.
std::optional<std::pair<VectorAccess, Expr>> stored_vector(const Stmt& stmt) {
  const auto* evaluate = stmt->as<Evaluate>();
  const auto* call = evaluate == nullptr ? nullptr : evaluate->value->as<IntrinsicCall>();
  if (call == nullptr || call->intrinsic->name != "vstore") return std::nullopt;
  const auto access = vector_access(*call, 1, call->args[0]->type);
  if (!access) return std::nullopt;
  return std::pair(*access, call->args[0]);
}

// Arrays whose every mention is such a vector, all of one type and none across two others.
class FindVectors {
 public:
  explicit FindVectors(const Stmt& body) {
    walk(
        body, [](const Expr&) {},
        [&](const Stmt& stmt) {
          const auto* alloc = stmt->as<Alloc>();
          if (alloc != nullptr && alloc->data.empty() && alloc->buffer->type.scope == Scope::kPrivate &&
              alloc->buffer->type.pointee().is_scalar())
            counts_[alloc->buffer.get()] = alloc->count;
        });
    visit(body);
    for (const Var* var : escaped_) types.erase(var);
  }
  std::map<const Var*, Type> types;

 private:
  static constexpr int64_t kMaxVectors = 64;

  void visit(const Stmt& stmt) {
    if (const auto stored = stored_vector(stmt); stored && note(stored->first)) return visit(stored->second);
    for_each_child(
        stmt, [&](const Expr& e) { visit(e); }, [&](const Stmt& s) { visit(s); });
  }
  void visit(const Expr& expr) {
    if (const auto loaded = loaded_vector(expr); loaded && note(*loaded)) return;
    if (const auto* ref = expr->as<VarRef>()) escaped_.insert(ref->var.get());
    if (const auto* address = expr->as<AddressOf>()) escaped_.insert(address->var.get());
    for_each_child(expr, [&](const Expr& e) { visit(e); });
  }
  bool note(const VectorAccess& access) {
    const auto count = counts_.find(access.array);
    if (count == counts_.end()) return false;
    const int64_t lanes = access.type.lanes;
    if (count->second % lanes != 0 || count->second / lanes > kMaxVectors || access.first % lanes != 0 ||
        access.first + lanes > count->second || access.type.element != access.array->type.element)
      return false;
    return types.emplace(access.array, access.type).first->second == access.type;
  }
  std::map<const Var*, int64_t> counts_;
  std::set<const Var*> escaped_;
};

class PromoteVectors : public PromoteArrays {
 public:
  explicit PromoteVectors(const std::map<const Var*, Type>& types) : types_(types) {}

  Expr mutate(const Expr& expr) override {
    if (!expr) return expr;
    if (const auto loaded = loaded_vector(expr)) {
      if (VarPtr var = variable(*loaded)) return var_ref(var);
    }
    return mutate_children(expr);
  }
  Stmt mutate(const Stmt& stmt) override {
    if (!stmt) return stmt;
    if (const auto* alloc = stmt->as<Alloc>(); alloc != nullptr && types_.contains(alloc->buffer.get())) {
      define_all(*alloc, types_.at(alloc->buffer.get()), stmt->span);
      return nullptr;
    }
    if (const auto stored = stored_vector(stmt)) {
      if (VarPtr var = variable(stored->first)) return make_stmt(Assign{var, mutate(stored->second)}, stmt->span);
    }
    return mutate_block_or_children(stmt);
  }

 private:
  VarPtr variable(const VectorAccess& access) const {
    const auto known = variables_.find(access.array);
    return known == variables_.end() ? nullptr : known->second[static_cast<size_t>(access.first / access.type.lanes)];
  }

  const std::map<const Var*, Type>& types_;
};

}  // namespace

Result<PrimFunc> promote_private_arrays(const PrimFunc& function, const Target&) {
  PrimFunc result = function;
  const FindPromotable found(function.body);
  if (!found.counts.empty()) result.body = Promote(found.counts).mutate(result.body);
  const FindVectors vectors(result.body);
  if (!vectors.types.empty()) result.body = PromoteVectors(vectors.types).mutate(result.body);
  return result;
}

}  // namespace aipu::tir
