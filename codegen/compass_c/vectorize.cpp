#include <optional>
#include <unordered_map>
#include <utility>

#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/variables.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

bool mentions(const Expr& e, const Var* var) {
  bool found = false;
  walk(e, [&](const Expr& child) {
    const auto* ref = child->as<VarRef>();
    found |= ref != nullptr && ref->var.get() == var;
  });
  return found;
}

// By how much `e` grows with `var`, if that is a constant.
std::optional<int64_t> slope(const Expr& e, const Var* var) {
  if (!mentions(e, var)) return 0;
  if (e->as<VarRef>()) return 1;
  const auto* n = e->as<Binary>();
  if (n == nullptr) return std::nullopt;
  const auto lhs = slope(n->lhs, var), rhs = slope(n->rhs, var);
  if (!lhs || !rhs) return std::nullopt;
  if (n->op == BinaryOp::kAdd) return *lhs + *rhs;
  if (n->op == BinaryOp::kSub) return *lhs - *rhs;
  if (n->op != BinaryOp::kMul) return std::nullopt;
  if (const auto factor = as_int(n->rhs)) return *lhs * *factor;
  if (const auto factor = as_int(n->lhs)) return *rhs * *factor;
  return std::nullopt;
}

// The body of one loop, all rounds at once. Fails (nullopt, false) for what has no vector form.
class LoopVectorizer {
 public:
  LoopVectorizer(const For& loop, int64_t start, int lanes) : loop_(loop), start_(start), lanes_(lanes) {}

  bool run(const Stmt& stmt, std::vector<Stmt>& out) { return statement(stmt, nullptr, out); }

 private:
  bool statement(const Stmt& s, const Expr& mask, std::vector<Stmt>& out) {
    if (const auto* n = s->as<Block>()) {
      for (const Stmt& child : n->body) {
        if (!statement(child, mask, out)) return false;
      }
      return true;
    }
    if (const auto* n = s->as<Store>()) return store(s, *n, mask, out);
    if (const auto* n = s->as<Define>()) {
      const Expr value = n->var->type.is_scalar() ? vector(n->value) : nullptr;
      if (!value) return false;
      auto var = std::make_shared<Var>();
      var->name = n->var->name;
      var->type = value->type;
      const VarPtr result = std::move(var);
      vectors_[n->var.get()] = result;
      out.push_back(make_stmt(Define{result, value}, s->span));
      return true;
    }
    if (const auto* n = s->as<If>(); n != nullptr && !n->else_body) {
      const Expr test = vector(n->condition);
      if (!test) return false;
      const Expr both = mask ? binary(BinaryOp::kBitAnd, mask, test) : test;
      const Expr outer = std::exchange(mask_, both);
      const bool done = statement(n->then_body, both, out);
      mask_ = outer;
      return done;
    }
    return false;
  }

  bool store(const Stmt& s, const Store& n, const Expr& mask, std::vector<Stmt>& out) {
    const auto stride = slope(n.index, loop_.var.get());
    if (!stride || *stride < 1 || n.pointer->type.lanes != 1 || varies(n.pointer)) return false;
    const Expr value = vector(n.value);
    if (!value) return false;
    const Result<Expr> call =
        intrinsic_call("vstore", {value, address(n.pointer, n.index), int_imm(*stride)}, {}, mask, nullptr, s->span);
    if (!call.ok()) return false;
    out.push_back(make_stmt(Evaluate{*call}, s->span));
    return true;
  }

  bool varies(const Expr& e) const {
    bool found = mentions(e, loop_.var.get());
    walk(e, [&](const Expr& child) {
      const auto* ref = child->as<VarRef>();
      found |= ref != nullptr && vectors_.contains(ref->var.get());
    });
    return found;
  }

  Expr address(const Expr& pointer, const Expr& index) const {
    const Expr first = replace_in(index);
    return as_int(first) == 0 ? pointer : simplify(binary(BinaryOp::kAdd, pointer, first));
  }
  Expr replace_in(const Expr& e) const {
    const Stmt replaced =
        replace_variable(make_stmt(Evaluate{e}), loop_.var.get(), int_imm(start_, loop_.var->type.element));
    return simplify(replaced->as<Evaluate>()->value);
  }

  // Null: there is no vector form.
  Expr vector(const Expr& e) {
    if (!e->type.is_scalar()) return nullptr;
    if (!varies(e)) return broadcast(e, lanes_);
    const Type type = e->type.with_lanes(lanes_);
    if (const auto* n = e->as<VarRef>()) {
      if (const auto known = vectors_.find(n->var.get()); known != vectors_.end()) return var_ref(known->second);
      std::vector<Expr> rounds;
      for (int i = 0; i < lanes_; ++i) rounds.push_back(int_imm(start_ + i, e->type.element));
      return make_expr(type, VectorLiteral{std::move(rounds)}, e->span);
    }
    if (const auto* n = e->as<Load>()) {
      const auto stride = slope(n->index, loop_.var.get());
      if (!stride || *stride < 1 || n->pointer->type.lanes != 1 || varies(n->pointer)) return nullptr;
      const Result<Expr> call = intrinsic_call("vload", {address(n->pointer, n->index), int_imm(*stride)},
                                               {{"lanes", lanes_}}, mask_, nullptr, e->span);
      return call.ok() ? *call : nullptr;
    }
    if (const auto* n = e->as<Unary>()) {
      const Expr x = vector(n->operand);
      return x ? make_expr(type, Unary{UnaryOp::kBitNot, x}, e->span) : nullptr;
    }
    if (const auto* n = e->as<Binary>()) {
      if (n->lhs->type.pointer) return nullptr;
      const Expr lhs = vector(n->lhs), rhs = vector(n->rhs);
      if (!lhs || !rhs) return nullptr;
      const BinaryOp op = n->op == BinaryOp::kAnd  ? BinaryOp::kBitAnd
                          : n->op == BinaryOp::kOr ? BinaryOp::kBitOr
                                                   : n->op;
      return make_expr(type, Binary{op, lhs, rhs}, e->span);
    }
    if (const auto* n = e->as<Cast>()) {
      const Expr x =
          n->operand->type.element == DType::kBool || e->type.element == DType::kBool ? nullptr : vector(n->operand);
      return x ? make_expr(type, Cast{x}, e->span) : nullptr;
    }
    if (const auto* n = e->as<Select>()) {
      const Expr a = vector(n->if_true), b = vector(n->if_false);
      if (!a || !b) return nullptr;
      if (!varies(n->condition)) return make_expr(type, Select{n->condition, a, b}, e->span);
      const Expr mask = vector(n->condition);
      const Result<Expr> call =
          mask ? intrinsic_call("vsel", {a, b}, {}, mask, nullptr, e->span) : Result<Expr>(Expr());
      return call.ok() ? *call : nullptr;
    }
    const auto* n = e->as<IntrinsicCall>();
    if (n == nullptr || !n->intrinsic->pure || n->intrinsic->splitting != Splitting::kElementwise) return nullptr;
    std::vector<Expr> operands;
    for (const Expr& arg : n->args) {
      operands.push_back(vector(arg));
      if (!operands.back()) return nullptr;
    }
    const Result<Expr> call =
        intrinsic_call(n->intrinsic->name, std::move(operands), n->attributes, nullptr, nullptr, e->span);
    return call.ok() && (*call)->type == type ? *call : nullptr;
  }

  const For& loop_;
  int64_t start_;
  int lanes_;
  Expr mask_;                                       // of the rounds that come here: others must not read
  std::unordered_map<const Var*, VarPtr> vectors_;  // variables of the body that differ from round to round
};

class VectorizeLoops : public Mutator {
 public:
  using Mutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    const auto* n = s->as<For>();
    if (n == nullptr || n->kind != ForKind::kVectorized) return s;
    const auto start = as_int(n->start), stop = as_int(n->stop);
    constexpr int64_t kMaxLanes = 1024;
    if (start && stop && *stop - *start > 1 && *stop - *start <= kMaxLanes && as_int(n->step) == 1) {
      std::vector<Stmt> body;
      if (LoopVectorizer(*n, *start, static_cast<int>(*stop - *start)).run(n->body, body))
        return block(std::move(body));
    }
    return make_stmt(For{n->var, n->start, n->stop, n->step, ForKind::kSerial, n->body}, s->span);
  }
};

}  // namespace

PrimFunc vectorize_loops(const PrimFunc& function) {
  PrimFunc result = function;
  result.body = VectorizeLoops().mutate(function.body);
  return result;
}

}  // namespace aipu::tir::c_text
