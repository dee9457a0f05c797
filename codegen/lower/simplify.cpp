#include "codegen/lower/simplify.h"

#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/intrinsics/lane_types.h"
#include "codegen/tir/effects.h"
#include "codegen/tir/fold_int.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// No effect, and no harm if it is done less often: may be dropped. Loads are: a load that is not done can't go wrong.
bool is_droppable(const Expr& e) {
  bool result = true;
  walk(e, [&](const Expr& child) {
    if (const auto* call = child->as<IntrinsicCall>()) result &= call->intrinsic->pure || call->intrinsic->droppable;
    result &= child->as<FunctionCall>() == nullptr;
  });
  return result;
}

// Depends on its operands alone: equal wherever they are.
bool is_pure(const Expr& e) { return !depends_on_memory(e); }

// ---- constants ----

// The exact operation on float32 operands, rounded to double and then to float32, is rounded once: double has more than
// twice the bits.
double fold_float(BinaryOp op, DType dtype, double a, double b) {
  double result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      result = a + b;
      break;
    case BinaryOp::kSub:
      result = a - b;
      break;
    case BinaryOp::kMul:
      result = a * b;
      break;
    case BinaryOp::kDiv:
      result = a / b;
      break;
    case BinaryOp::kMin:
      return (a < b) || b != b ? a : b;
    case BinaryOp::kMax:
      return (a > b) || b != b ? a : b;
    default:
      break;
  }
  return round_float(dtype == DType::kF64 ? result : static_cast<float>(result), dtype);
}

BinaryOp mirrored(BinaryOp comparison) {
  switch (comparison) {
    case BinaryOp::kLt:
      return BinaryOp::kGt;
    case BinaryOp::kLe:
      return BinaryOp::kGe;
    case BinaryOp::kGt:
      return BinaryOp::kLt;
    case BinaryOp::kGe:
      return BinaryOp::kLe;
    default:
      return comparison;
  }
}

// A scalar constant, or the lane of a broadcast one.
std::optional<int64_t> int_constant(const Expr& e) {
  if (const auto* splat = e->as<Broadcast>()) return as_int(splat->scalar);
  return as_int(e);
}
std::optional<double> float_constant(const Expr& e) {
  const Expr& scalar = e->as<Broadcast>() ? e->as<Broadcast>()->scalar : e;
  if (const auto* imm = scalar->as<FloatImm>()) return imm->value;
  return std::nullopt;
}

Expr constant_of(Type type, int64_t value) {
  return broadcast(make_expr(type.with_lanes(1), IntImm{wrap_int(value, type.element)}), type.lanes);
}

bool is_true_mask(const Expr& e) {
  if (const auto* splat = e->as<Broadcast>()) return as_int(splat->scalar).value_or(0) != 0;
  if (const auto* literal = e->as<VectorLiteral>()) {
    for (const Expr& lane : literal->lanes) {
      if (as_int(lane).value_or(0) == 0) return false;
    }
    return true;
  }
  return false;
}

bool same_pure(const Expr& a, const Expr& b) { return structurally_equal(a, b) && is_pure(a); }

class Simplify : public Mutator {
 public:
  explicit Simplify(const PrimFunc& function) {
    // Variables that never change after their definition, and how often they are read.
    walk(
        function.body,
        [&](const Expr& e) {
          if (const auto* address = e->as<AddressOf>()) changing_.insert(address->var.get());
        },
        [&](const Stmt& s) {
          if (const auto* assign = s->as<Assign>()) changing_.insert(assign->var.get());
          if (const auto* write = s->as<LaneWrite>()) changing_.insert(write->var.get());
        });
  }

  Expr mutate(const Expr& expr) override {
    if (!expr) return expr;
    if (const auto* ref = expr->as<VarRef>()) {
      const auto known = values_.find(ref->var.get());
      return known == values_.end() ? expr : known->second;
    }
    const Expr e = mutate_children(expr);
    Expr result = rewritten(e);
    return result ? result : e;
  }

  Stmt mutate(const Stmt& stmt) override {
    if (!stmt) return stmt;
    Stmt s = mutate_children(stmt);
    if (const auto* define = s->as<Define>()) {
      if (!changing_.contains(define->var.get()) && is_copyable(define->value))
        values_[define->var.get()] = define->value;
      return s;
    }
    if (const auto* branch = s->as<If>()) return simplify_if(s, *branch);
    if (const auto* loop = s->as<For>()) {
      const auto start = as_int(loop->start), stop = as_int(loop->stop);
      const bool never = start && stop && fold_int(BinaryOp::kGe, loop->var->type.element, *start, *stop) == 1;
      return never || (is_empty(loop->body) && is_droppable(loop->start) && is_droppable(loop->stop) &&
                       as_int(loop->step))
                 ? nothing()
                 : s;
    }
    if (const auto* loop = s->as<While>()) return as_int(loop->condition) == 0 ? nothing() : s;
    if (const auto* evaluate = s->as<Evaluate>())
      return is_droppable(evaluate->value) && !evaluate->value->type.is_void() ? nothing() : s;
    if (const auto* body = s->as<Block>()) return simplify_block(s, *body);
    return s;
  }

 private:
  static Stmt nothing() { return block({}); }
  static bool is_empty(const Stmt& s) { return s->as<Block>() && s->as<Block>()->body.empty(); }

  // Constants, and variables that stay what they are.
  bool is_copyable(const Expr& e) const {
    if (e->as<IntImm>() || e->as<FloatImm>()) return true;
    if (const auto* splat = e->as<Broadcast>()) return splat->scalar->as<IntImm>() || splat->scalar->as<FloatImm>();
    const auto* ref = e->as<VarRef>();
    return ref != nullptr && !changing_.contains(ref->var.get());
  }

  Stmt simplify_if(const Stmt& s, const If& branch) {
    if (const auto condition = as_int(branch.condition)) {
      if (*condition != 0) return branch.then_body;
      return branch.else_body ? branch.else_body : nothing();
    }
    const bool no_else = !branch.else_body || is_empty(branch.else_body);
    if (is_empty(branch.then_body) && no_else && is_droppable(branch.condition)) return nothing();
    if (branch.else_body && no_else) return make_stmt(If{branch.condition, branch.then_body, nullptr}, s->span);
    return s;
  }

  Stmt simplify_block(const Stmt& s, const Block& body) {
    std::vector<Stmt> kept;
    bool changed = false;
    for (size_t i = 0; i < body.body.size(); ++i) {
      const Stmt& child = body.body[i];
      if (is_empty(child)) {
        changed = true;
        continue;
      }
      // A block that declares nothing is no scope.
      if (const auto* inner = child->as<Block>(); inner && !declares(*inner)) {
        kept.insert(kept.end(), inner->body.begin(), inner->body.end());
        changed = true;
      } else {
        kept.push_back(child);
      }
      if (!kept.empty() && (kept.back()->as<Return>() || kept.back()->as<Break>()) && i + 1 < body.body.size()) {
        changed = true;
        break;
      }
    }
    return changed ? make_stmt(Block{std::move(kept)}, s->span) : s;
  }
  static bool declares(const Block& body) {
    for (const Stmt& child : body.body) {
      if (child->as<Define>() || child->as<Alloc>()) return true;
    }
    return false;
  }

  // A simpler form of `e`, whose children are simple; null: none.
  Expr rewritten(const Expr& e) {
    if (const auto* n = e->as<Binary>())
      return n->lhs->type.pointer ? rewritten_pointer(e, *n) : rewritten_binary(e, *n);
    if (const auto* n = e->as<Unary>()) return rewritten_unary(e, *n);
    if (const auto* n = e->as<Cast>()) return rewritten_cast(e, *n);
    if (const auto* n = e->as<Select>()) {
      if (const auto condition = as_int(n->condition)) return *condition != 0 ? n->if_true : n->if_false;
      if (is_droppable(n->condition) && structurally_equal(n->if_true, n->if_false)) return n->if_true;
      return nullptr;
    }
    if (const auto* n = e->as<LaneRead>()) {
      if (const auto* splat = n->vector->as<Broadcast>(); splat && as_int(n->index)) return splat->scalar;
      return nullptr;
    }
    if (const auto* n = e->as<IntrinsicCall>()) return rewritten_intrinsic(e, *n);
    return nullptr;
  }

  static Expr rewritten_pointer(const Expr& e, const Binary& n) {
    if (is_comparison(n.op)) return nullptr;
    const auto index = as_int(n.rhs);
    if (index == 0) return n.lhs;
    // (p + a) + b = p + (a + b), for constants.
    const auto* inner = n.lhs->as<Binary>();
    if (!index || inner == nullptr || (inner->op != BinaryOp::kAdd && inner->op != BinaryOp::kSub)) return nullptr;
    const auto first = as_int(inner->rhs);
    int64_t sum;
    if (!first || *first == INT64_MIN || *index == INT64_MIN) return nullptr;
    if (__builtin_add_overflow(inner->op == BinaryOp::kSub ? -*first : *first,
                               n.op == BinaryOp::kSub ? -*index : *index, &sum))
      return nullptr;
    return sum == 0 ? inner->lhs : binary(BinaryOp::kAdd, inner->lhs, int_imm(sum, DType::kI64), e->span);
  }

  Expr rewritten_binary(const Expr& e, const Binary& n) {
    const DType dtype = n.lhs->type.element;
    const Type type = e->type;
    if (is_floating(dtype)) {
      const auto a = float_constant(n.lhs), b = float_constant(n.rhs);
      // Only scalars: lanes of vectors are folded by whoever runs them. NaN is left alone, its bits are nobody's
      // promise.
      if (a && b && type.is_scalar()) {
        if (is_comparison(n.op)) return bool_imm(lane_compare(n.op, *a, *b));
        const double value = fold_float(n.op, dtype, *a, *b);
        return value == value ? float_imm(value, dtype) : nullptr;
      }
      if (n.op == BinaryOp::kMul && b == 1.0) return n.lhs;
      if (n.op == BinaryOp::kMul && a == 1.0) return n.rhs;
      if (n.op == BinaryOp::kDiv && b == 1.0) return n.lhs;
      if (n.op == BinaryOp::kSub && b == 0.0 && !std::signbit(*b)) return n.lhs;
      return nullptr;
    }
    const auto a = int_constant(n.lhs), b = int_constant(n.rhs);
    if (a && b && type.is_scalar()) {
      const auto value = fold_int(n.op, dtype, *a, *b);
      return value ? make_expr(type, IntImm{wrap_int(*value, type.element)}, e->span) : nullptr;
    }
    // Constants to the right: 3 < x is x > 3.
    if (a && !b && is_comparison(n.op)) {
      const Binary swapped{mirrored(n.op), n.rhs, n.lhs};
      const Expr moved = make_expr(type, swapped, e->span);
      const Expr simpler = rewritten_binary(moved, swapped);
      return simpler ? simpler : moved;
    }
    const bool commutes = n.op == BinaryOp::kAdd || n.op == BinaryOp::kMul || n.op == BinaryOp::kBitAnd ||
                          n.op == BinaryOp::kBitOr || n.op == BinaryOp::kBitXor || n.op == BinaryOp::kMin ||
                          n.op == BinaryOp::kMax;
    if (a && !b && commutes) {
      const Binary swapped{n.op, n.rhs, n.lhs};
      const Expr moved = make_expr(type, swapped, e->span);
      const Expr simpler = rewritten_binary(moved, swapped);
      return simpler ? simpler : moved;
    }
    switch (n.op) {
      case BinaryOp::kAdd:
        if (b == 0) return n.lhs;
        break;
      case BinaryOp::kSub:
        if (b == 0) return n.lhs;
        if (same_pure(n.lhs, n.rhs)) return constant_of(type, 0);
        break;
      case BinaryOp::kMul:
        if (b == 1) return n.lhs;
        if (b == 0 && is_droppable(n.lhs)) return constant_of(type, 0);
        break;
      case BinaryOp::kDiv:
        if (b == 1) return n.lhs;
        break;
      case BinaryOp::kMod:
        if (b == 1 && is_droppable(n.lhs)) return constant_of(type, 0);
        break;
      case BinaryOp::kShl:
      case BinaryOp::kShr:
        if (b == 0) return n.lhs;
        break;
      case BinaryOp::kBitOr:
      case BinaryOp::kBitXor:
        if (b == 0) return n.lhs;
        break;
      case BinaryOp::kBitAnd:
        if (b == 0 && is_droppable(n.lhs)) return constant_of(type, 0);
        if (b && wrap_int(-1, dtype) == *b) return n.lhs;
        break;
      case BinaryOp::kMin:
      case BinaryOp::kMax:
        if (same_pure(n.lhs, n.rhs)) return n.lhs;
        break;
      case BinaryOp::kAnd:
        if (b) return *b != 0 ? n.lhs : is_droppable(n.lhs) ? bool_imm(false) : nullptr;
        if (a) return *a != 0 ? n.rhs : bool_imm(false);
        break;
      case BinaryOp::kOr:
        if (b) return *b == 0 ? n.lhs : is_droppable(n.lhs) ? bool_imm(true) : nullptr;
        if (a) return *a == 0 ? n.rhs : bool_imm(true);
        break;
      default:
        if (is_comparison(n.op)) {
          if (same_pure(n.lhs, n.rhs)) {
            const bool holds = n.op == BinaryOp::kEq || n.op == BinaryOp::kLe || n.op == BinaryOp::kGe;
            return constant_of(type, holds);
          }
          // A size is at least 0.
          const auto* ref = n.lhs->as<VarRef>();
          if (ref && ref->var->non_negative && !changing_.contains(ref->var.get()) && b && is_signed_int(dtype)) {
            if ((n.op == BinaryOp::kGe && *b <= 0) || (n.op == BinaryOp::kGt && *b < 0) ||
                (n.op == BinaryOp::kNe && *b < 0))
              return bool_imm(true);
            if ((n.op == BinaryOp::kLt && *b <= 0) || (n.op == BinaryOp::kLe && *b < 0) ||
                (n.op == BinaryOp::kEq && *b < 0))
              return bool_imm(false);
          }
        }
        break;
    }
    // (x + c1) + c2, (x * c1) * c2: modulo 2^bits, so always right.
    const auto* inner = n.lhs->as<Binary>();
    if (b && inner != nullptr && inner->op == n.op && (n.op == BinaryOp::kAdd || n.op == BinaryOp::kMul)) {
      if (const auto c = int_constant(inner->rhs)) {
        const auto joined = fold_int(n.op, dtype, *c, *b);
        const Binary together{n.op, inner->lhs, constant_of(type, *joined)};
        const Expr made = make_expr(type, together, e->span);
        const Expr simpler = rewritten_binary(made, together);
        return simpler ? simpler : made;
      }
    }
    return nullptr;
  }

  static Expr rewritten_unary(const Expr& e, const Unary& n) {
    if (const auto value = as_int(n.operand)) {
      return make_expr(
          e->type,
          IntImm{wrap_int(n.op == UnaryOp::kNot || is_bool(e->type.element) ? *value == 0 : ~*value, e->type.element)});
    }
    if (const auto* inner = n.operand->as<Unary>(); inner && inner->op == n.op) return inner->operand;
    const auto* compare = n.operand->as<Binary>();
    if (n.op != UnaryOp::kNot || compare == nullptr || !is_comparison(compare->op) ||
        is_floating(compare->lhs->type.element))
      return nullptr;
    BinaryOp opposite = BinaryOp::kEq;
    switch (compare->op) {
      case BinaryOp::kEq:
        opposite = BinaryOp::kNe;
        break;
      case BinaryOp::kNe:
        opposite = BinaryOp::kEq;
        break;
      case BinaryOp::kLt:
        opposite = BinaryOp::kGe;
        break;
      case BinaryOp::kLe:
        opposite = BinaryOp::kGt;
        break;
      case BinaryOp::kGt:
        opposite = BinaryOp::kLe;
        break;
      default:
        opposite = BinaryOp::kLt;
        break;
    }
    return make_expr(e->type, Binary{opposite, compare->lhs, compare->rhs}, e->span);
  }

  static Expr rewritten_cast(const Expr& e, const Cast& n) {
    if (n.operand->type == e->type) return n.operand;
    if (!e->type.is_scalar()) {
      // The cast of a broadcast is the broadcast of the cast.
      const auto* splat = n.operand->as<Broadcast>();
      if (splat == nullptr || e->type.pointer) return nullptr;
      const Expr lane = make_expr(e->type.with_lanes(1), Cast{splat->scalar}, e->span);
      const Expr folded = rewritten_cast(lane, *lane->as<Cast>());
      return folded ? broadcast(folded, e->type.lanes) : nullptr;
    }
    const DType to = e->type.element, from = n.operand->type.element;
    if (const auto* imm = n.operand->as<IntImm>()) {
      if (is_bool(to)) return bool_imm(imm->value != 0);
      if (is_integer(to)) return make_expr(e->type, IntImm{wrap_int(imm->value, to)}, e->span);
      const bool large = from == DType::kU64 && imm->value < 0;
      if (to == DType::kF64)
        return float_imm(
            large ? static_cast<double>(static_cast<uint64_t>(imm->value)) : static_cast<double>(imm->value), to);
      return float_imm(large ? static_cast<float>(static_cast<uint64_t>(imm->value)) : static_cast<float>(imm->value),
                       to);
    }
    if (const auto* imm = n.operand->as<FloatImm>(); imm && is_floating(to) && imm->value == imm->value) {
      // To 16 bits through float32.
      return float_imm(to == DType::kF64 ? imm->value : static_cast<float>(imm->value), to);
    }
    return nullptr;
  }

  static Expr rewritten_intrinsic(const Expr& e, const IntrinsicCall& n) {
    if (n.mask && is_true_mask(n.mask)) {
      return make_expr(e->type, IntrinsicCall{n.intrinsic, n.args, nullptr, nullptr, n.attributes}, e->span);
    }
    if (n.intrinsic->name == "vsel" && is_true_mask(n.args[2]) && is_droppable(n.args[1])) return n.args[0];
    return nullptr;
  }

  std::unordered_set<const Var*> changing_;
  std::unordered_map<const Var*, Expr> values_;
};

// Definitions that nothing reads.
class DropUnused : public Mutator {
 public:
  using Mutator::mutate;
  explicit DropUnused(const Stmt& body) {
    walk(
        body,
        [&](const Expr& e) {
          if (const auto* ref = e->as<VarRef>()) ++uses_[ref->var.get()];
          if (const auto* address = e->as<AddressOf>()) ++uses_[address->var.get()];
        },
        [&](const Stmt& s) {
          if (const auto* write = s->as<LaneWrite>()) written_.insert(write->var.get());
          if (const auto* loop = s->as<For>()) written_.insert(loop->var.get());
          if (const auto* assign = s->as<Assign>(); assign && !is_droppable(assign->value))
            written_.insert(assign->var.get());
          if (const auto* define = s->as<Define>(); define && !is_droppable(define->value))
            written_.insert(define->var.get());
        });
  }
  Stmt mutate(const Stmt& stmt) override {
    if (const auto* define = stmt->as<Define>(); define && unused(define->var)) return dropped();
    if (const auto* assign = stmt->as<Assign>(); assign && unused(assign->var)) return dropped();
    if (const auto* alloc = stmt->as<Alloc>(); alloc && !uses_.contains(alloc->buffer.get())) return dropped();
    return mutate_children(stmt);
  }
  bool changed = false;

 private:
  bool unused(const VarPtr& var) const { return !uses_.contains(var.get()) && !written_.contains(var.get()); }
  Stmt dropped() {
    changed = true;
    return block({});
  }
  std::unordered_map<const Var*, int> uses_;
  std::unordered_set<const Var*> written_;
};

}  // namespace

Expr simplify_expr(const Expr& expr) {
  const PrimFunc nothing{"", {}, Type::void_type(), block({})};
  return Simplify(nothing).mutate(expr);
}

Result<PrimFunc> simplify(const PrimFunc& function, const Target&) {
  PrimFunc result = function;
  constexpr int kMaxRounds = 4;
  for (int round = 0; round < kMaxRounds; ++round) {
    const Stmt before = result.body;
    result.body = Simplify(result).mutate(result.body);
    DropUnused drop(result.body);
    Stmt smaller = drop.mutate(result.body);
    if (drop.changed) result.body = std::move(smaller);
    if (result.body == before) break;
  }
  return result;
}

}  // namespace aipu::tir
