#include <algorithm>
#include <cstdlib>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/variables.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/intrinsics/lanes.h"
#include "codegen/lower/simplify.h"
#include "codegen/tir/effects.h"
#include "codegen/tir/linear_form.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

bool is_index(const Type& type) {
  return type.is_scalar() && (type.element == DType::kI32 || type.element == DType::kI64);
}

bool is_constant(const Expr& e) { return e->as<IntImm>() != nullptr || e->as<FloatImm>() != nullptr; }

// A constant, or a vector of one.
bool is_constant_or_splat(const Expr& e) {
  if (const auto* splat = e->as<Broadcast>()) return is_constant(splat->scalar);
  return is_constant(e);
}

Expr canonical_sum(const Expr& e) {
  LinearForm form(e->type.element);
  form.add(e, 1);
  const Expr result = form.expr();
  return structurally_equal(result, e) ? e : make_expr(result->type, result->node, e->span);
}

bool commutes(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMul:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
    case BinaryOp::kEq:
    case BinaryOp::kNe:
      return true;
    default:
      return false;
  }
}

Expr rebuilt(const Expr& e, BinaryOp op, Expr lhs, Expr rhs) {
  return make_expr(e->type, Binary{op, std::move(lhs), std::move(rhs)}, e->span);
}

// Variables that hold what was read or converted from something that is no index.
class DataVariables {
 public:
  DataVariables() = default;
  explicit DataVariables(const Stmt& body) {
    const auto note = [&](const VarPtr& var, const Expr& value) {
      if (value && is_index(var->type) && is_data(value)) variables_.insert(var.get());
    };
    size_t before = 0;
    do {
      before = variables_.size();
      walk(
          body,
          [&](const Expr& e) {
            if (const auto* n = e->as<AddressOf>()) variables_.insert(n->var.get());
          },
          [&](const Stmt& s) {
            if (const auto* n = s->as<Define>()) note(n->var, n->value);
            if (const auto* n = s->as<Assign>()) note(n->var, n->value);
          });
    } while (variables_.size() != before);
  }

  // Whether arithmetic on it is more than that of parameters, counters and constants, and may overflow.
  bool is_data(const Expr& e) const {
    bool data = false;
    walk(e, [&](const Expr& child) {
      if (const auto* ref = child->as<VarRef>()) data |= variables_.contains(ref->var.get());
      if (const auto* n = child->as<Cast>()) data |= !is_index(n->operand->type);
      const auto* call = child->as<IntrinsicCall>();
      data |= child->as<Load>() || child->as<LaneRead>() || child->as<FunctionCall>() ||
              (call != nullptr && !call->intrinsic->asks_tec);
    });
    return data;
  }

 private:
  std::unordered_set<const Var*> variables_;
};

class Simplify : public Mutator {
 public:
  Simplify() = default;
  explicit Simplify(const Stmt& body) : data_(body) {}
  using Mutator::mutate;

  Expr mutate(const Expr& expr) override {
    Expr e = mutate_children(expr);
    if (const auto* n = e->as<Binary>()) return simplified_binary(e, *n);
    if (const auto* n = e->as<Unary>()) return simplified_unary(e, *n);
    if (const auto* n = e->as<Cast>()) return is_constant(n->operand) ? simplify_expr(e) : e;
    if (const auto* n = e->as<Select>()) {
      if (const auto condition = as_int(n->condition)) return *condition != 0 ? n->if_true : n->if_false;
    }
    if (const auto* n = e->as<IntrinsicCall>()) return simplified_intrinsic(e, *n);
    return e;
  }

  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    if (const auto* n = s->as<If>()) {
      const auto condition = as_int(n->condition);
      if (!condition) return s;
      if (*condition != 0) return n->then_body;
      return n->else_body ? n->else_body : block({});
    }
    if (const auto* n = s->as<While>(); n != nullptr && as_int(n->condition) == 0) return block({});
    return s;
  }

 private:
  Expr simplified_binary(const Expr& e, const Binary& n) const {
    if (n.lhs->type.pointer) return is_comparison(n.op) ? ordered(e, n) : simplified_pointer(e, n);
    if (is_constant(n.lhs) && is_constant(n.rhs)) return simplify_expr(e);
    if (n.lhs->type.is_mask()) return folded_mask(e, n);
    if (commutes(n.op) && is_constant_or_splat(n.lhs) && !is_constant_or_splat(n.rhs))
      return simplified_binary_ordered(rebuilt(e, n.op, n.rhs, n.lhs));
    return simplified_binary_ordered(e);
  }

  Expr simplified_binary_ordered(const Expr& e) const {
    const auto& n = *e->as<Binary>();
    if (is_comparison(n.op)) return comparison(e, n);
    if (n.op == BinaryOp::kAnd || n.op == BinaryOp::kOr) return logical(e, n);
    if (is_index(e->type) && (n.op == BinaryOp::kAdd || n.op == BinaryOp::kSub || n.op == BinaryOp::kMul))
      return canonical_sum(e);
    if (is_index(e->type) && (n.op == BinaryOp::kDiv || n.op == BinaryOp::kMod)) return exact_division(e, n);
    if (e->type.is_scalar() && is_integer(e->type.element)) {
      Expr simpler = simplify_expr(e);
      if (simpler != e && (is_constant(simpler) || simpler == n.lhs || simpler == n.rhs)) return simpler;
    }
    return e;
  }

  // A sum all of whose terms are multiples of the divisor.
  Expr exact_division(const Expr& e, const Binary& n) const {
    const auto divisor = as_int(n.rhs);
    if (!divisor || *divisor <= 0) return e;
    if (*divisor == 1) return n.op == BinaryOp::kDiv ? n.lhs : int_imm(0, e->type.element);
    if (data_.is_data(n.lhs)) return e;
    LinearForm form(e->type.element);
    form.add(n.lhs, 1);
    if (form.constant() % *divisor != 0) return e;
    for (const auto& [term, factor] : form.terms()) {
      if (factor % *divisor != 0) return e;
    }
    if (n.op == BinaryOp::kMod) return int_imm(0, e->type.element);
    LinearForm quotient(e->type.element);
    for (const auto& [term, factor] : form.terms()) quotient.add(term, factor / *divisor);
    quotient.add(int_imm(form.constant() / *divisor, e->type.element), 1);
    return quotient.expr();
  }

  static Expr logical(const Expr& e, const Binary& n) {
    const bool is_and = n.op == BinaryOp::kAnd;
    if (const auto lhs = as_int(n.lhs)) return (*lhs != 0) == is_and ? n.rhs : bool_imm(!is_and);
    if (const auto rhs = as_int(n.rhs)) {
      if ((*rhs != 0) == is_and) return n.lhs;
      if (is_repeatable(n.lhs)) return bool_imm(!is_and);
    }
    return e;
  }

  // Only < and <= are left.
  static Expr ordered(const Expr& e, const Binary& n) {
    if (n.op == BinaryOp::kGt) return rebuilt(e, BinaryOp::kLt, n.rhs, n.lhs);
    if (n.op == BinaryOp::kGe) return rebuilt(e, BinaryOp::kLe, n.rhs, n.lhs);
    return e;
  }

  Expr comparison(const Expr& e, const Binary& n) const {
    const Expr in_order = ordered(e, n);
    const auto& o = *in_order->as<Binary>();
    const bool index = is_index(o.lhs->type) && !data_.is_data(o.lhs) && !data_.is_data(o.rhs);
    return index ? index_comparison(in_order, o) : in_order;
  }

  Expr index_comparison(const Expr& e, const Binary& n) const {
    const DType dtype = n.lhs->type.element;
    const bool equality = n.op == BinaryOp::kEq || n.op == BinaryOp::kNe;
    const auto left = as_int(n.lhs), right = as_int(n.rhs);
    if (left || right) {
      // Everything but the constants on one side, without negative terms if they can stand on the other: x < c - y is x
      // + y < c.
      const Expr& side = left ? n.rhs : n.lhs;
      LinearForm form(dtype);
      form.add(side, 1);
      int64_t bound = 0;
      if (__builtin_sub_overflow(left ? *left : *right, form.constant(), &bound) || wrap_int(bound, dtype) != bound)
        return e;
      LinearForm rest(dtype);
      for (const auto& [term, factor] : form.terms()) rest.add(term, factor);
      if (rest.terms().empty()) return e;
      const bool all_negative =
          std::all_of(rest.terms().begin(), rest.terms().end(), [](const auto& t) { return t.second < 0; });
      if (all_negative && bound != INT64_MIN) {
        // c < -x is x < -c.
        LinearForm positive(dtype);
        for (const auto& [term, factor] : rest.terms()) positive.add(term, -factor);
        const Expr value = positive.expr(), limit = int_imm(-bound, dtype);
        return equality || left ? scaled_bound(e, n.op, value, limit) : scaled_bound(e, n.op, limit, value);
      }
      const Expr value = rest.expr(), limit = int_imm(bound, dtype);
      return left ? scaled_bound(e, n.op, limit, value) : scaled_bound(e, n.op, value, limit);
    }
    if (equality) return structurally_equal(n.lhs, n.rhs) && is_repeatable(n.lhs) ? bool_imm(n.op == BinaryOp::kEq) : e;
    // x < c - y is x + y < c, c - x < y is c < x + y; terms that stand on both sides go.
    LinearForm l(dtype), r(dtype), difference(dtype);
    l.add(n.lhs, 1);
    r.add(n.rhs, 1);
    difference.add(n.lhs, 1);
    difference.add(n.rhs, -1);
    const auto any_negative = [](const LinearForm& form) {
      return std::any_of(form.terms().begin(), form.terms().end(), [](const auto& t) { return t.second < 0; });
    };
    const size_t left_over = static_cast<size_t>(std::count_if(difference.terms().begin(), difference.terms().end(),
                                                               [](const auto& t) { return t.second != 0; }));
    const bool common = left_over < l.terms().size() + r.terms().size();
    const bool moved = (r.constant() != 0 && any_negative(r) && l.constant() == 0) ||
                       (l.constant() != 0 && any_negative(l) && r.constant() == 0);
    if (!common && !moved) return e;
    LinearForm lhs(dtype), rhs(dtype);
    for (const auto& [term, factor] : difference.terms()) {
      if (factor > 0) lhs.add(term, factor);
      if (factor < 0) rhs.add(term, -factor);
    }
    const int64_t constant = difference.constant();
    if (constant > 0 && !rhs.terms().empty() && lhs.terms().empty()) {
      lhs.add(int_imm(constant, dtype), 1);
    } else {
      rhs.add(int_imm(-constant, dtype), 1);
    }
    const Expr a = lhs.expr(), b = rhs.expr();
    const Expr result = rebuilt(e, n.op, a, b);
    return as_int(a) && as_int(b) ? simplify_expr(result) : result;
  }

  // x * 4 < 8 is x < 2.
  static Expr scaled_bound(const Expr& e, BinaryOp op, const Expr& lhs, const Expr& rhs) {
    Expr made = rebuilt(e, op, lhs, rhs);
    const auto* product = lhs->as<Binary>();
    const auto limit = as_int(rhs);
    const auto factor = product != nullptr && product->op == BinaryOp::kMul ? as_int(product->rhs) : std::nullopt;
    if (!limit || !factor || *factor <= 1 || (op != BinaryOp::kLt && op != BinaryOp::kLe) || *limit == INT64_MIN)
      return made;
    const auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); };
    const int64_t bound = op == BinaryOp::kLt ? floor_div(*limit - 1, *factor) + 1 : floor_div(*limit, *factor);
    return rebuilt(e, op, product->lhs, int_imm(bound, rhs->type.element));
  }

  static Expr simplified_unary(const Expr& e, const Unary& n) {
    if (is_constant(n.operand)) return simplify_expr(e);
    if (n.op == UnaryOp::kBitNot) {
      if (const auto* literal = constant_mask(n.operand))
        return mapped(e, *literal, nullptr, [](bool a, bool) { return !a; });
      return e;
    }
    const auto* inner = n.operand->as<Unary>();
    if (inner != nullptr && inner->op == UnaryOp::kNot) return inner->operand;
    const auto* compare = n.operand->as<Binary>();
    if (compare == nullptr || !is_comparison(compare->op) || is_floating(compare->lhs->type.element)) return e;
    switch (compare->op) {
      case BinaryOp::kEq:
        return rebuilt(e, BinaryOp::kNe, compare->lhs, compare->rhs);
      case BinaryOp::kNe:
        return rebuilt(e, BinaryOp::kEq, compare->lhs, compare->rhs);
      case BinaryOp::kLt:
        return rebuilt(e, BinaryOp::kLe, compare->rhs, compare->lhs);
      default:
        return rebuilt(e, BinaryOp::kLt, compare->rhs, compare->lhs);
    }
  }

  // (p + a) + b is p + (a + b).
  static Expr simplified_pointer(const Expr& e, const Binary& n) {
    const auto* inner = n.lhs->as<Binary>();
    const bool joins = inner != nullptr && inner->lhs->type.pointer;
    if (!joins) {
      if (as_int(n.rhs) == 0) return n.lhs;
      return e;
    }
    const DType dtype =
        dtype_bits(n.rhs->type.element) == 64 || dtype_bits(inner->rhs->type.element) == 64 ? DType::kI64 : DType::kI32;
    const auto widened = [&](const Expr& index) {
      if (const auto value = as_int(index)) return int_imm(*value, dtype);
      return cast(Type::scalar(dtype), index);
    };
    LinearForm form(dtype);
    form.add(widened(inner->rhs), inner->op == BinaryOp::kSub ? -1 : 1);
    form.add(widened(n.rhs), n.op == BinaryOp::kSub ? -1 : 1);
    const Expr offset = form.expr();
    if (as_int(offset) == 0) return inner->lhs;
    return make_expr(e->type, Binary{BinaryOp::kAdd, inner->lhs, offset}, e->span);
  }

  // ---- constant masks ----

  static const VectorLiteral* constant_mask(const Expr& e) {
    const auto* literal = e->as<VectorLiteral>();
    if (literal == nullptr || !e->type.is_mask()) return nullptr;
    for (const Expr& lane : literal->lanes) {
      if (!as_int(lane)) return nullptr;
    }
    return literal;
  }

  template <typename F>
  static Expr mapped(const Expr& e, const VectorLiteral& a, const VectorLiteral* b, F&& f) {
    std::vector<Expr> lanes;
    for (size_t i = 0; i < a.lanes.size(); ++i)
      lanes.push_back(bool_imm(f(*as_int(a.lanes[i]) != 0, b != nullptr && *as_int(b->lanes[i]) != 0)));
    return make_expr(e->type, VectorLiteral{std::move(lanes)}, e->span);
  }

  // An intrinsic of which all operands are constant masks.
  static Expr folded_call(const Expr& e, const IntrinsicCall& n) {
    std::vector<LaneValue> operands;
    for (const Expr& arg : n.args) {
      const VectorLiteral* literal = constant_mask(arg);
      if (literal == nullptr) return e;
      LaneValue& value = operands.emplace_back(arg->type);
      for (size_t i = 0; i < literal->lanes.size(); ++i)
        value.set_int(static_cast<int64_t>(i), *as_int(literal->lanes[i]) != 0 ? 1 : 0);
    }
    const auto result = n.intrinsic->evaluate(n, e->type, operands, nullptr, nullptr, nullptr);
    if (!result.ok()) return e;
    std::vector<Expr> lanes;
    for (int i = 0; i < e->type.lanes; ++i) lanes.push_back(bool_imm(result->int_lane(i) != 0));
    return make_expr(e->type, VectorLiteral{std::move(lanes)}, e->span);
  }

  static Expr folded_mask(const Expr& e, const Binary& n) {
    const auto *a = constant_mask(n.lhs), *b = constant_mask(n.rhs);
    if (a == nullptr || b == nullptr) return e;
    switch (n.op) {
      case BinaryOp::kBitAnd:
        return mapped(e, *a, b, [](bool x, bool y) { return x && y; });
      case BinaryOp::kBitOr:
        return mapped(e, *a, b, [](bool x, bool y) { return x || y; });
      case BinaryOp::kBitXor:
        return mapped(e, *a, b, [](bool x, bool y) { return x != y; });
      default:
        return e;
    }
  }

  static Expr simplified_intrinsic(const Expr& e, const IntrinsicCall& n) {
    if (n.intrinsic->name == "tail_mask") {
      const auto count = as_int(n.args[0]);
      if (!count) return e;
      std::vector<Expr> lanes;
      for (int i = 0; i < e->type.lanes; ++i) lanes.push_back(bool_imm(i < *count));
      return make_expr(e->type, VectorLiteral{std::move(lanes)}, e->span);
    }
    if (e->type.is_mask() && !n.mask && n.intrinsic->splitting == Splitting::kElementwise) return folded_call(e, n);
    // Scalar operands of commutative intrinsics, broadcast: x + 1, not 1 + x.
    if (n.intrinsic->commutative && n.args.size() == 2 && is_constant_or_splat(n.args[0]) &&
        !is_constant_or_splat(n.args[1])) {
      IntrinsicCall swapped = n;
      std::swap(swapped.args[0], swapped.args[1]);
      return make_expr(e->type, std::move(swapped), e->span);
    }
    return e;
  }

  DataVariables data_;
};

}  // namespace

PrimFunc simplify(const PrimFunc& function) {
  PrimFunc result = function;
  result.body = Simplify(function.body).mutate(function.body);
  return result;
}

Expr simplify(const Expr& expr) { return Simplify().mutate(expr); }

namespace {

// Variables that are never negative: counters from 0 on, sizes, and what is made of them and does not change.
// `parameters`: those of the function, too, none of which is changed then.
class Signs {
 public:
  Signs(const PrimFunc& function, bool parameters) : changing_(changing_variables(function.body)) {
    for (const VarPtr& param : function.params) {
      if (parameters) known_.insert(param.get());
    }
    walk(
        function.body, [](const Expr&) {},
        [&](const Stmt& s) {
          if (const auto* n = s->as<Define>(); n != nullptr && n->value) note(n->var, n->value);
          if (const auto* n = s->as<For>(); n != nullptr && as_int(n->step).value_or(0) > 0) note(n->var, n->start);
        });
  }

  bool is_non_negative(const Expr& e) const {
    if (!is_integer(e->type.element) || !e->type.is_scalar()) return false;
    if (is_unsigned_int(e->type.element)) return true;
    if (const auto value = as_int(e)) return *value >= 0;
    if (const auto* n = e->as<VarRef>())
      return (n->var->non_negative || known_.contains(n->var.get())) && !changing_.contains(n->var.get());
    if (const auto* n = e->as<Select>()) return is_non_negative(n->if_true) && is_non_negative(n->if_false);
    if (const auto* n = e->as<Cast>()) {
      const DType from = n->operand->type.element;
      return dtype_bits(e->type.element) > dtype_bits(from) && !n->operand->type.pointer &&
             (is_bool(from) || is_non_negative(n->operand));
    }
    if (const auto* n = e->as<IntrinsicCall>()) return n->intrinsic->asks_tec;
    const auto* n = e->as<Binary>();
    if (n == nullptr) return false;
    switch (n->op) {
      case BinaryOp::kAdd:
      case BinaryOp::kMul:
      case BinaryOp::kDiv:
      case BinaryOp::kMin:
        return is_non_negative(n->lhs) && is_non_negative(n->rhs);
      case BinaryOp::kMod:
      case BinaryOp::kShr:
        return is_non_negative(n->lhs);
      case BinaryOp::kMax:
      case BinaryOp::kBitAnd:
        return is_non_negative(n->lhs) || is_non_negative(n->rhs);
      default:
        return false;
    }
  }

  // Adds the variables that `e` is made of, those of their own values included.
  void add_origins(const Expr& e, std::unordered_set<const Var*>* origins) const {
    walk(e, [&](const Expr& child) {
      const auto* ref = child->as<VarRef>();
      if (ref == nullptr || !origins->insert(ref->var.get()).second) return;
      if (const auto value = values_.find(ref->var.get()); value != values_.end()) add_origins(value->second, origins);
    });
  }

 private:
  void note(const VarPtr& var, const Expr& value) {
    if (!is_non_negative(value)) return;
    known_.insert(var.get());
    values_[var.get()] = value;
  }

  std::unordered_set<const Var*> changing_, known_;
  std::unordered_map<const Var*, Expr> values_;
};

class DivMod : public Mutator {
 public:
  explicit DivMod(const PrimFunc& function, bool is_entry) : proven_(function, false), taken_(function, is_entry) {}
  using Mutator::mutate;
  Expr mutate(const Expr& expr) override {
    Expr e = mutate_children(expr);
    const auto* n = e->as<Binary>();
    if (n == nullptr || !e->type.is_scalar() || !is_integer(e->type.element)) return e;
    if (n->op != BinaryOp::kDiv && n->op != BinaryOp::kMod) return e;
    const auto divisor = as_int(n->rhs);
    if (!divisor || *divisor <= 0 || (*divisor & (*divisor - 1)) != 0 || !is_non_negative(n->lhs)) return e;
    const DType dtype = e->type.element;
    if (n->op == BinaryOp::kMod) return rebuilt(e, BinaryOp::kBitAnd, n->lhs, int_imm(*divisor - 1, dtype));
    return rebuilt(e, BinaryOp::kShr, n->lhs, int_imm(__builtin_ctzll(static_cast<uint64_t>(*divisor)), dtype));
  }

  // What quotients count on without a proof.
  std::unordered_set<const Var*> variables_taken;

 private:
  bool is_non_negative(const Expr& e) {
    if (proven_.is_non_negative(e)) return true;
    if (!taken_.is_non_negative(e)) return false;
    taken_.add_origins(e, &variables_taken);
    return true;
  }

  Signs proven_, taken_;
};

PrimFuncPtr canonicalized(const PrimFunc& function, bool is_entry) {
  auto result = std::make_shared<PrimFunc>(function);
  DivMod pass(function, is_entry);
  result->body = pass.mutate(function.body);
  for (size_t i = 0; i < function.params.size(); ++i) {
    const Type& type = function.params[i]->type;
    const bool is_signed = is_integer(type.element) && !is_unsigned_int(type.element);
    if (type.is_scalar() && is_signed && pass.variables_taken.contains(function.params[i].get()))
      result->non_negative_params.push_back(i);
  }
  return result;
}

}  // namespace

Module canonicalize_div_mod(const Module& module) {
  Module result;
  for (size_t i = 0; i < module.functions.size(); ++i)
    result.functions.push_back(canonicalized(*module.functions[i], i == 0));
  return result;
}

}  // namespace aipu::tir::c_text
