#include "codegen/tir/index_width.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/text.h"
#include "codegen/tir/visit.h"
#include "runtime/base/checked_math.h"

namespace aipu::tir {
namespace {

using VarSet = std::unordered_set<const Var*>;

constexpr Type kNarrow = Type{DType::kI32, 1, false, Scope::kPrivate};
constexpr Type kWide = Type{DType::kI64, 1, false, Scope::kPrivate};

const Var* variable_of(const Expr& e) {
  const auto* ref = e ? e->as<VarRef>() : nullptr;
  return ref == nullptr ? nullptr : ref->var.get();
}

bool mentions(const Expr& e, const Var* var) {
  bool found = false;
  walk(e, [&](const Expr& child) { found |= variable_of(child) == var; });
  return found;
}

bool reads_memory(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& child) { found |= child->as<Load>() != nullptr || child->as<LaneRead>() != nullptr; });
  return found;
}

void for_each_stmt(const Module& module, const std::function<void(const PrimFunc&, const Stmt&)>& visit) {
  for (const PrimFuncPtr& function : module.functions)
    walk(
        function->body, [](const Expr&) {}, [&](const Stmt& stmt) { visit(*function, stmt); });
}

void for_each_expr(const Module& module, const std::function<void(const Expr&)>& visit) {
  for (const PrimFuncPtr& function : module.functions) walk(function->body, visit, [](const Stmt&) {});
}

// The parameters that are broadcast to vectors and nothing else, directly or by the functions that they are handed to.
VarSet lane_parameters(const Module& module) {
  VarSet lanes, others;
  std::vector<std::pair<const Var*, const Var*>> handed_on;  // (argument, parameter)
  const auto use = [&](const Expr& parent, const Expr& child) {
    const Var* var = variable_of(child);
    if (var == nullptr || (parent && parent->as<FunctionCall>() != nullptr)) return;
    const auto* call = parent ? parent->as<IntrinsicCall>() : nullptr;
    const bool broadcast =
        parent && (parent->as<Broadcast>() != nullptr || (call != nullptr && call->intrinsic->name == "vbcast"));
    (broadcast ? lanes : others).insert(var);
  };
  for_each_expr(module, [&](const Expr& e) {
    for_each_child(e, [&](const Expr& child) { use(e, child); });
    const auto* call = e->as<FunctionCall>();
    const PrimFunc* callee = call != nullptr ? module.find(call->function) : nullptr;
    for (size_t i = 0; callee != nullptr && i < call->args.size(); ++i) {
      if (const Var* var = variable_of(call->args[i])) handed_on.emplace_back(var, callee->params[i].get());
    }
  });
  for_each_stmt(module, [&](const PrimFunc&, const Stmt& stmt) {
    for_each_child(
        stmt, [&](const Expr& child) { use(nullptr, child); }, [](const Stmt&) {});
    if (const auto* assign = stmt->as<Assign>()) others.insert(assign->var.get());
  });
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [argument, parameter] : handed_on) {
      if (lanes.contains(parameter)) changed |= lanes.insert(argument).second;
      if (others.contains(parameter)) changed |= others.insert(argument).second;
    }
  }
  for (const Var* var : others) lanes.erase(var);
  return lanes;
}

// What becomes 64 bits wide. Grows until nothing changes.
class WideSet {
 public:
  explicit WideSet(const Module& module) : module_(module), lanes_(lane_parameters(module)) {
    find_fixed();
    find_data();
    for (const VarPtr& param : module.entry().params) {
      if (!lanes_.contains(param.get())) insert(param.get());
    }
    do {
      changed_ = false;
      for_each_stmt(module, [&](const PrimFunc& function, const Stmt& stmt) { visit(function, stmt); });
      for_each_expr(module, [&](const Expr& e) { visit_call(e); });
    } while (changed_);
  }

  bool contains(const Var* var) const { return vars_.contains(var); }
  bool returns_wide(const PrimFunc* function) const { return results_.contains(function); }

  // The expression has 32 bits and gets 64.
  bool is_wide(const Expr& e) const {
    if (!e || e->type != kNarrow) return false;
    return match(
        e, [&](const VarRef& n) { return contains(n.var.get()); }, [&](const Unary& n) { return is_wide(n.operand); },
        [&](const Binary& n) { return is_wide(n.lhs) || is_wide(n.rhs); },
        [&](const Select& n) { return is_wide(n.if_true) || is_wide(n.if_false); },
        [&](const Load& n) { return contains(variable_of(n.pointer)); },
        // an index that was loaded as int64, or computed as a real number
        [&](const Cast& n) { return n.operand->type == kWide || is_floating(n.operand->type.element); },
        [&](const FunctionCall& n) { return results_.contains(module_.find(n.function)); },
        [](const auto&) { return false; });
  }

 private:
  // What comes from memory, from lanes, or from such values; sums of data are none of the kernel's positions.
  bool is_data(const Expr& e) const {
    bool data = false;
    walk(e, [&](const Expr& child) {
      const auto* load = child->as<Load>();
      const auto* call = child->as<IntrinsicCall>();
      data |= load != nullptr && !arrays_.contains(variable_of(load->pointer));
      data |= child->as<LaneRead>() != nullptr || child->as<FunctionCall>() != nullptr;
      data |= call != nullptr && !call->intrinsic->asks_tec;
      data |= data_.contains(variable_of(child));
    });
    return data;
  }

  void find_data() {
    for (size_t before = data_.size() + 1; before != data_.size();) {
      before = data_.size();
      for_each_stmt(module_, [&](const PrimFunc&, const Stmt& stmt) {
        if (const auto* n = stmt->as<Define>(); n != nullptr && is_data(n->value)) data_.insert(n->var.get());
        if (const auto* n = stmt->as<Assign>(); n != nullptr && is_data(n->value)) data_.insert(n->var.get());
      });
    }
  }

  // Variables whose address is taken, and arrays that are used other than element by element.
  void find_fixed() {
    VarSet element_uses;
    const auto use = [&](const Expr& child, bool as_array) {
      const Var* var = variable_of(child);
      if (var != nullptr && var->type.pointer && !as_array) fixed_.insert(var);
    };
    for_each_expr(module_, [&](const Expr& e) {
      if (const auto* address = e->as<AddressOf>()) fixed_.insert(address->var.get());
      for_each_child(e, [&](const Expr& child) {
        const auto* load = e->as<Load>();
        use(child, load != nullptr && load->pointer == child);
      });
    });
    for_each_stmt(module_, [&](const PrimFunc&, const Stmt& stmt) {
      const auto* store = stmt->as<Store>();
      for_each_child(
          stmt, [&](const Expr& child) { use(child, store != nullptr && store->pointer == child); },
          [](const Stmt&) {});
      if (const auto* alloc = stmt->as<Alloc>(); alloc != nullptr && alloc->data.empty())
        arrays_.insert(alloc->buffer.get());
    });
    for (const Var* var : fixed_) arrays_.erase(var);
  }

  void insert(const Var* var) {
    const bool array = var->type.pointer && var->type.pointee() == kNarrow && arrays_.contains(var);
    if ((var->type == kNarrow || array) && !fixed_.contains(var)) changed_ |= vars_.insert(var).second;
  }

  void visit(const PrimFunc& function, const Stmt& stmt) {
    if (const auto* n = stmt->as<Define>(); n != nullptr && is_wide(n->value)) insert(n->var.get());
    if (const auto* n = stmt->as<Assign>()) {
      // A counter belongs to the loops that it counts, even if it starts at 0 and grows by 1.
      const bool counter = mentions(n->value, n->var.get()) && !is_data(n->value);
      if (is_wide(n->value) || counter) insert(n->var.get());
    }
    if (const auto* n = stmt->as<For>(); n != nullptr && (is_wide(n->start) || is_wide(n->stop) || is_wide(n->step)))
      insert(n->var.get());
    if (const auto* n = stmt->as<Store>(); n != nullptr && is_wide(n->value)) {
      if (const Var* array = variable_of(n->pointer)) insert(array);
    }
    if (const auto* n = stmt->as<Return>(); n != nullptr && is_wide(n->value))
      changed_ |= results_.insert(&function).second;
  }

  void visit_call(const Expr& e) {
    const auto* call = e->as<FunctionCall>();
    const PrimFunc* callee = call != nullptr ? module_.find(call->function) : nullptr;
    for (size_t i = 0; callee != nullptr && i < call->args.size(); ++i) {
      if (is_wide(call->args[i]) && !lanes_.contains(callee->params[i].get())) insert(callee->params[i].get());
    }
  }

  const Module& module_;
  const VarSet lanes_;
  VarSet fixed_, arrays_, data_, vars_;
  std::unordered_set<const PrimFunc*> results_;
  bool changed_ = false;
};

// `e` as `type`, where the two are integers of different width.
Expr as(const Type& type, Expr e) {
  if (!e || e->type == type) return e;
  // The range of the type belongs to the conversion of a real number.
  if (const auto* converted = e->as<Cast>(); converted != nullptr && is_floating(converted->operand->type.element))
    return cast(type, converted->operand, e->span);
  if (const auto value = as_int(e)) return int_imm(wrap_int(*value, type.element), type.element);
  SourceSpan span = e->span;  // arguments are made in any order
  return cast(type, std::move(e), std::move(span));
}

class Widener : public Mutator {
 public:
  explicit Widener(const Module& module) : module_(module), wide_(module) {}

  Module run() {
    Module result;
    for (const PrimFuncPtr& function : module_.functions) {
      auto widened = std::make_shared<PrimFunc>(*function);
      function_ = function.get();
      for (VarPtr& param : widened->params) param = renewed(param);
      if (wide_.returns_wide(function.get())) widened->return_type = kWide;
      widened->body = mutate(function->body);
      result.functions.push_back(std::move(widened));
    }
    return result;
  }

 protected:
  using Mutator::mutate;

  Expr mutate(const Expr& e) override {
    if (!e) return e;
    const auto all = [&](const std::vector<Expr>& children) {
      std::vector<Expr> result;
      for (const Expr& child : children) result.push_back(mutate(child));
      return result;
    };
    return match(
        e, [&](const VarRef& n) { return wide_.contains(n.var.get()) ? var_ref(renewed(n.var)) : e; },
        [&](const Unary& n) {
          Expr operand = mutate(n.operand);
          return make_expr(operand->type, Unary{n.op, operand}, e->span);
        },
        [&](const Binary& n) {
          Expr lhs = mutate(n.lhs), rhs = mutate(n.rhs);
          if (!lhs->type.pointer) level(&lhs, &rhs);
          return binary(n.op, std::move(lhs), std::move(rhs), e->span);
        },
        [&](const Select& n) {
          Expr if_true = mutate(n.if_true), if_false = mutate(n.if_false);
          level(&if_true, &if_false);
          const Type type = if_true->type;
          return make_expr(type, Select{mutate(n.condition), std::move(if_true), std::move(if_false)}, e->span);
        },
        [&](const Cast& n) { return cast(wide_.is_wide(e) ? kWide : e->type, mutate(n.operand), e->span); },
        [&](const Broadcast& n) {
          return make_expr(e->type, Broadcast{as(e->type.with_lanes(1), mutate(n.scalar))}, e->span);
        },
        [&](const VectorLiteral& n) {
          std::vector<Expr> lanes = all(n.lanes);
          for (Expr& lane : lanes) lane = as(e->type.with_lanes(1), std::move(lane));
          return make_expr(e->type, VectorLiteral{std::move(lanes)}, e->span);
        },
        [&](const Load& n) { return load(mutate(n.pointer), mutate(n.index), e->span); },
        [&](const IntrinsicCall& n) { return intrinsic(e, n); },
        [&](const FunctionCall& n) {
          const PrimFunc* callee = module_.find(n.function);
          std::vector<Expr> args = all(n.args);
          for (size_t i = 0; callee != nullptr && i < args.size(); ++i)
            args[i] = value_for(*callee->params[i], std::move(args[i]));
          return make_expr(callee != nullptr && wide_.returns_wide(callee) ? kWide : e->type,
                           FunctionCall{n.function, std::move(args)}, e->span);
        },
        [&](const auto&) { return mutate_children(e); });
  }

  Stmt mutate(const Stmt& stmt) override {
    if (!stmt) return stmt;
    return match(
        stmt,
        [&](const Define& n) {
          return make_stmt(Define{renewed(n.var), value_for(*n.var, mutate(n.value))}, stmt->span);
        },
        [&](const Assign& n) {
          return make_stmt(Assign{renewed(n.var), value_for(*n.var, mutate(n.value))}, stmt->span);
        },
        [&](const LaneWrite& n) {
          return make_stmt(LaneWrite{n.var, mutate(n.index), as(Type::scalar(n.var->type.element), mutate(n.value))},
                           stmt->span);
        },
        [&](const Store& n) {
          Expr pointer = mutate(n.pointer), value = mutate(n.value);
          if (is_index(value->type)) value = as(pointer->type.pointee(), std::move(value));
          return make_stmt(Store{std::move(pointer), mutate(n.index), std::move(value)}, stmt->span);
        },
        [&](const Alloc& n) {
          return make_stmt(Alloc{renewed(n.buffer), n.count, n.data}, stmt->span);
        },
        [&](const For& n) {
          return make_stmt(For{renewed(n.var), value_for(*n.var, mutate(n.start)), value_for(*n.var, mutate(n.stop)),
                               value_for(*n.var, mutate(n.step)), n.kind, mutate(n.body)},
                           stmt->span);
        },
        [&](const Return& n) {
          Expr value = mutate(n.value);
          if (value && wide_.returns_wide(function_)) value = as(kWide, std::move(value));
          return make_stmt(Return{std::move(value)}, stmt->span);
        },
        [&](const auto&) { return mutate_children(stmt); });
  }

 private:
  static bool is_index(const Type& type) { return type == kNarrow || type == kWide; }

  static void level(Expr* a, Expr* b) {
    if (!is_index((*a)->type) || !is_index((*b)->type) || (*a)->type == (*b)->type) return;
    *a = as(kWide, std::move(*a));
    *b = as(kWide, std::move(*b));
  }

  VarPtr renewed(const VarPtr& var) {
    if (!wide_.contains(var.get())) return var;
    VarPtr& renewed = renewed_[var.get()];
    if (!renewed) {
      auto copy = std::make_shared<Var>(*var);
      copy->type = var->type.with_element(DType::kI64);
      renewed = std::move(copy);
    }
    return renewed;
  }

  // What is assigned to the variable, or passed as the parameter, `var`.
  Expr value_for(const Var& var, Expr value) const {
    if (var.type != kNarrow) return value;
    return as(wide_.contains(&var) ? kWide : kNarrow, std::move(value));
  }

  Expr intrinsic(const Expr& e, const IntrinsicCall& n) {
    std::vector<Expr> args;
    const std::string_view name = n.intrinsic->name;
    for (size_t i = 0; i < n.args.size(); ++i) {
      Expr arg = mutate(n.args[i]);
      const bool widened = n.args[i]->type == kNarrow && arg->type == kWide;
      // Lanes beyond the vector are no more than all of them.
      if (widened && name == "tail_mask")
        arg = binary(BinaryOp::kMin, std::move(arg), int_imm(e->type.lanes, DType::kI64));
      const bool is_stride = (name == "vload" && i == 1) || (name == "vstore" && i == 2);
      args.push_back(widened && !is_stride ? as(kNarrow, std::move(arg)) : std::move(arg));
    }
    return make_expr(e->type,
                     IntrinsicCall{n.intrinsic, std::move(args), mutate(n.mask), mutate(n.pass_through), n.attributes},
                     e->span);
  }

  const Module& module_;
  const WideSet wide_;
  const PrimFunc* function_ = nullptr;
  std::map<const Var*, VarPtr> renewed_;
};

// ---- what is left in 32 bits

class NarrowFinder {
 public:
  explicit NarrowFinder(const Module& module) : module_(module), lanes_(lane_parameters(module)) {
    for (const VarPtr& param : module.entry().params) mark(param.get());
    do {
      changed_ = false;
      for_each_stmt(module, [&](const PrimFunc&, const Stmt& stmt) { visit(stmt); });
      for_each_expr(module, [&](const Expr& e) { visit_call(e); });
    } while (changed_);
  }

  std::string find() const {
    std::string found;
    for_each_expr(module_, [&](const Expr& e) {
      if (found.empty() && is_narrow(e)) found = print_expr(e);
    });
    for_each_stmt(module_, [&](const PrimFunc&, const Stmt& stmt) {
      const auto* loop = stmt->as<For>();
      if (!found.empty() || loop == nullptr || as_int(loop->step) == 1 || !counts(loop->var->type)) return;
      if (dtype_bits(loop->var->type.element) < 64 && varies(loop->stop)) found = print_expr(loop->stop);
    });
    return found;
  }

 private:
  static bool counts(const Type& type) {
    return type.is_scalar() && is_integer(type.element) && dtype_bits(type.element) >= 32;
  }
  static const Var* root_of(const Expr& pointer) {
    if (const Var* var = variable_of(pointer)) return var;
    if (const auto* n = pointer->as<Binary>()) return root_of(n->lhs);
    if (const auto* n = pointer->as<Cast>()) return root_of(n->operand);
    if (const auto* n = pointer->as<AddressOf>()) return n->var.get();
    return nullptr;
  }

  // The number is known only when the kernel runs, and nothing bounds it.
  bool varies(const Expr& e) const {
    if (!e || !counts(e->type)) return false;
    return match(
        e, [&](const VarRef& n) { return vars_.contains(n.var.get()); },
        [&](const Unary& n) { return varies(n.operand); },
        [&](const Binary& n) {
          switch (n.op) {
            case BinaryOp::kMin:
            case BinaryOp::kBitAnd:
              return varies(n.lhs) && varies(n.rhs);
            case BinaryOp::kMod:
              return varies(n.rhs);
            case BinaryOp::kDiv:
            case BinaryOp::kShr:
              return varies(n.lhs);
            default:
              return varies(n.lhs) || varies(n.rhs);
          }
        },
        [&](const Select& n) { return varies(n.if_true) || varies(n.if_false); },
        [&](const Cast& n) { return is_floating(n.operand->type.element) || varies(n.operand); },
        [&](const Load& n) {
          const Scope scope = n.pointer->type.scope;
          const Var* root = root_of(n.pointer);
          if (scope == Scope::kConstant) return false;
          return scope != Scope::kPrivate || root == nullptr || vars_.contains(root);
        },
        [&](const LaneRead&) { return true; },
        [&](const IntrinsicCall& n) {
          return n.intrinsic->name != "get_local_id" && n.intrinsic->name != "get_local_size";
        },
        [&](const FunctionCall&) { return true; }, [](const auto&) { return false; });
  }

  bool is_narrow(const Expr& e) const {
    if (const auto* call = e->as<IntrinsicCall>()) {
      // Vectors of indices have 32 bits at most.
      const bool gathers = call->intrinsic->name == "vload_gather" || call->intrinsic->name == "vstore_scatter";
      return gathers && std::any_of(call->args.begin(), call->args.end(), [](const Expr& arg) {
               return arg->type.pointer && arg->type.scope <= Scope::kGlobal3;
             });
    }
    if (const auto* n = e->as<Broadcast>())
      return varies(n->scalar) && dtype_bits(e->type.element) < 64 && n->scalar->as<Load>() == nullptr &&
             n->scalar->as<LaneRead>() == nullptr && !lanes_.contains(variable_of(n->scalar)) &&
             is_signed_int(e->type.element);
    if (!e->type.is_scalar() || !is_integer(e->type.element) || dtype_bits(e->type.element) >= 64) return false;
    if (const auto* n = e->as<Cast>())
      return counts(n->operand->type) && dtype_bits(n->operand->type.element) == 64 && counts(e->type) &&
             varies(n->operand);
    const auto* n = e->as<Binary>();
    if (n == nullptr || !counts(e->type)) return false;
    const bool grows =
        n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub || n->op == BinaryOp::kMul || n->op == BinaryOp::kShl;
    return grows && (varies(n->lhs) || varies(n->rhs));
  }

  void mark(const Var* var) {
    if (var != nullptr && (counts(var->type) || (var->type.pointer && counts(var->type.pointee()))))
      changed_ |= vars_.insert(var).second;
  }

  void visit(const Stmt& stmt) {
    if (const auto* n = stmt->as<Define>(); n != nullptr && varies(n->value)) mark(n->var.get());
    if (const auto* n = stmt->as<Assign>(); n != nullptr && (varies(n->value) || mentions(n->value, n->var.get())))
      mark(n->var.get());
    if (const auto* n = stmt->as<For>(); n != nullptr && (varies(n->start) || varies(n->stop) || varies(n->step)))
      mark(n->var.get());
    if (const auto* n = stmt->as<Store>(); n != nullptr && (varies(n->value) || reads_memory(n->value)))
      mark(root_of(n->pointer));
    if (const auto* n = stmt->as<Define>(); n != nullptr && n->var->type.pointer && vars_.contains(root_of(n->value)))
      mark(n->var.get());
  }

  void visit_call(const Expr& e) {
    // Lanes that go through an array may be anything.
    const auto* intrinsic = e->as<IntrinsicCall>();
    if (intrinsic != nullptr && !intrinsic->intrinsic->pure && e->type.is_void()) {
      for (const Expr& arg : intrinsic->args) {
        if (arg->type.pointer) mark(root_of(arg));
      }
    }
    const auto* call = e->as<FunctionCall>();
    const PrimFunc* callee = call != nullptr ? module_.find(call->function) : nullptr;
    for (size_t i = 0; callee != nullptr && i < call->args.size(); ++i) {
      // An array that is handed to a function may be filled there.
      if (call->args[i]->type.pointer || varies(call->args[i])) mark(callee->params[i].get());
      if (call->args[i]->type.pointer) mark(root_of(call->args[i]));
    }
  }

  const Module& module_;
  const VarSet lanes_;
  VarSet vars_;
  bool changed_ = false;
};

}  // namespace

Module widen_indices(const Module& module) { return Widener(module).run(); }

std::string find_narrow_index(const Module& module) { return NarrowFinder(module).find(); }

std::vector<uint64_t> addressable_bytes(const Module& module, const Target& target) {
  const bool narrow = target.address_bits <= 32 || !find_narrow_index(module).empty();
  std::vector<uint64_t> bytes;
  for (const VarPtr& param : module.entry().params) {
    const uint64_t element = std::max<uint64_t>(dtype_bytes(param->type.element), 1);
    bytes.push_back(narrow && param->type.pointer ? element * kNarrowIndexElements : 0);
  }
  return bytes;
}

}  // namespace aipu::tir
