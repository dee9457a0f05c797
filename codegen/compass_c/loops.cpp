#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/variables.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/effects.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

PrimFunc with_body(const PrimFunc& function, Stmt body) {
  PrimFunc result = function;
  result.body = std::move(body);
  return result;
}

// Whether the value need not be the same each time that it is evaluated beside what changes those variables and, if it
// does, memory.
bool may_change(const Expr& value, const std::unordered_set<const Var*>& changing, bool memory_changes) {
  bool found = false;
  walk(value, [&](const Expr& e) {
    const auto* ref = e->as<VarRef>();
    found |= has_effect(e) || (ref != nullptr && changing.contains(ref->var.get())) ||
             (memory_changes && e->as<Load>() != nullptr);
  });
  return found;
}

// ---- UnrollLoop ----

bool assigns(const Stmt& body, const Var* var) { return changing_variables(body).contains(var); }

// A break that leaves this loop.
bool leaves(const Stmt& stmt) {
  if (stmt->as<For>() || stmt->as<While>()) return false;
  if (stmt->as<Break>()) return true;
  bool found = false;
  for_each_child(
      stmt, [](const Expr&) {}, [&](const Stmt& child) { found |= leaves(child); });
  return found;
}

class Unroll : public Mutator {
 public:
  using Mutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    const auto* n = s->as<For>();
    if (n == nullptr || n->kind == ForKind::kTec || n->kind == ForKind::kVectorized) return s;
    const auto start = as_int(n->start), stop = as_int(n->stop), step = as_int(n->step);
    if (!start || !stop || !step || *step <= 0) return s;
    if (*start >= *stop) return block({});
    if (*stop - *start > *step || assigns(n->body, n->var.get()) || leaves(n->body)) return s;
    return replace_variable(n->body, n->var.get(), n->start);
  }
};

// ---- EvaluateBoundsOnce ----

bool writes_memory(const Stmt& body) {
  bool found = false;
  walk(
      body, [&](const Expr& e) { found |= has_effect(e); }, [&](const Stmt& s) { found |= s->as<Store>() != nullptr; });
  return found;
}

class EvaluateBounds : public Mutator {
 public:
  using Mutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    const auto* n = s->as<For>();
    if (n == nullptr || n->kind == ForKind::kTec) return s;
    const auto changing = changing_variables(n->body);
    const bool writes = writes_memory(n->body);
    std::vector<Stmt> statements;
    const auto once = [&](const Expr& value, std::string_view what) {
      if (!may_change(value, changing, writes)) return value;
      auto var = std::make_shared<Var>();
      var->name = fmt::format("{}_{}", n->var->name, what);
      var->type = value->type;
      const VarPtr made = std::move(var);
      statements.push_back(make_stmt(Define{made, value}, s->span));
      return var_ref(made);
    };
    const Expr start = as_int(n->start) ? n->start : once(n->start, "start"), stop = once(n->stop, "stop"),
               step = once(n->step, "step");
    if (statements.empty()) return s;
    statements.push_back(make_stmt(For{n->var, start, stop, step, n->kind, n->body}, s->span));
    return make_stmt(Block{std::move(statements)}, s->span);
  }
};

// ---- HoistIfThenElse ----

bool is_invariant(const Expr& condition, const For& loop) {
  auto changing = changing_variables(loop.body);
  changing.insert(loop.var.get());
  return !may_change(condition, changing, true);
}

class Hoist : public Mutator {
 public:
  using Mutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    const auto* n = s->as<For>();
    const auto* body = n == nullptr ? nullptr : n->body->as<Block>();
    if (body == nullptr || n->kind != ForKind::kSerial || body->body.size() != 1) return s;
    const auto* test = body->body[0]->as<If>();
    if (test == nullptr || !is_invariant(test->condition, *n)) return s;
    const auto loop = [&](const Stmt& inner) {
      return inner ? make_stmt(For{n->var, n->start, n->stop, n->step, n->kind, inner}, s->span) : nullptr;
    };
    // One loop per branch: each with a variable of its own.
    Stmt otherwise = test->else_body ? with_fresh_variables(loop(test->else_body)) : nullptr;
    return make_stmt(If{test->condition, loop(test->then_body), std::move(otherwise)}, s->span);
  }
};

// ---- RenameForLoopVar ----

class RenameLoops : public Mutator {
 public:
  explicit RenameLoops(const PrimFunc& function) {
    for (const VarPtr& param : function.params) names_.insert(param->name);
    walk(
        function.body, [](const Expr&) {},
        [&](const Stmt& s) {
          if (const auto* n = s->as<Define>()) names_.insert(n->var->name);
          if (const auto* n = s->as<Alloc>()) names_.insert(n->buffer->name);
          if (const auto* n = s->as<For>()) names_.insert(n->var->name);
        });
  }
  using Mutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    constexpr size_t kLongestName = 20;
    const auto* n = stmt->as<For>();
    if (n == nullptr) return mutate_children(stmt);
    const int depth = depth_++;
    Stmt result = stmt;
    if (n->var->name.size() > kLongestName) {
      const std::string base(1, static_cast<char>('i' + std::min(depth, 17)));
      std::string name = base;
      for (int k = 1; !names_.insert(name).second; ++k) name = fmt::format("{}_{}", base, k);
      auto var = std::make_shared<Var>(*n->var);
      var->name = name;
      const VarPtr renamed = std::move(var);
      const Stmt body = rename_variable(n->body, n->var.get(), renamed);
      result = make_stmt(For{renamed, n->start, n->stop, n->step, n->kind, body}, stmt->span);
    }
    result = mutate_children(result);
    --depth_;
    return result;
  }

 private:
  std::set<std::string> names_;
  int depth_ = 0;
};

// ---- UnifyThreadBinding, EliminateGetLocalID ----

bool is_local_id(const Expr& e) {
  const auto* call = e->as<IntrinsicCall>();
  return call != nullptr && call->intrinsic->name == "get_local_id";
}

class BindThreads : public Mutator {
 public:
  explicit BindThreads(const Target& target) : tec_count_(target.tec_count()) {}
  using Mutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    const auto* n = s->as<For>();
    if (n == nullptr || n->kind != ForKind::kTec) return s;
    const Result<Expr> call = intrinsic_call("get_local_id", {}, {}, nullptr, nullptr, s->span);
    if (!call.ok()) return s;
    const Expr id = cast(n->var->type, *call);
    const Stmt body = replace_variable(n->body, n->var.get(), id);
    Expr condition;
    if (as_int(n->start).value_or(-1) != 0) condition = binary(BinaryOp::kLe, n->start, id);
    if (const auto stop = as_int(n->stop); !stop || tec_count_ == 0 || *stop < tec_count_) {
      const Expr below = binary(BinaryOp::kLt, id, n->stop);
      condition = condition ? binary(BinaryOp::kAnd, condition, below) : below;
    }
    return condition ? make_stmt(If{condition, body, nullptr}, s->span) : body;
  }

 private:
  int tec_count_;
};

class ReplaceLocalId : public Mutator {
 public:
  explicit ReplaceLocalId(VarPtr id) : id_(std::move(id)) {}
  using Mutator::mutate;
  Expr mutate(const Expr& expr) override { return is_local_id(expr) ? var_ref(id_) : mutate_children(expr); }

 private:
  VarPtr id_;
};

// ---- InjectDma ----

class InjectDma : public Mutator {
 public:
  using Mutator::mutate;
  Expr mutate(const Expr& expr) override {
    Expr e = mutate_children(expr);
    const auto* n = e->as<IntrinsicCall>();
    if (n == nullptr || (n->intrinsic->name != "dma_copy" && n->intrinsic->name != "async_dma_copy")) return e;
    const int64_t bytes = n->args[0]->type.pointee().bytes();
    std::vector<Expr> args = n->args;
    for (const size_t pointer : {0, 1})
      args[pointer] = cast(Type::pointer_to(DType::kU8, 1, args[pointer]->type.scope), args[pointer]);
    for (const size_t count : {2, 3, 5}) {
      if (count >= args.size() || !args[count] || bytes == 1) continue;
      args[count] = simplify(binary(BinaryOp::kMul, args[count], int_imm(bytes, args[count]->type.element)));
    }
    // The first count that is missing means the width, as before.
    return make_expr(e->type, IntrinsicCall{n->intrinsic, std::move(args), n->mask, n->pass_through, n->attributes},
                     e->span);
  }
};

// ---- InitializeEventState ----

bool is_new_event(const Expr& e) {
  const auto* call = e->as<IntrinsicCall>();
  return call != nullptr && call->intrinsic->name == "alloc_event";
}

// Events under the names that the source gives them: what S.alloc_events yields goes through temporaries.
class NameEvents : public Mutator {
 public:
  explicit NameEvents(const Stmt& body) {
    walk(
        body,
        [&](const Expr& e) {
          if (const auto* ref = e->as<VarRef>()) ++uses_[ref->var.get()];
        },
        [](const Stmt&) {});
  }
  using Mutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    Stmt s = mutate_children(stmt);
    const auto* body = s->as<Block>();
    if (body == nullptr) return s;
    std::vector<Stmt> statements;
    std::unordered_map<const Var*, size_t> events;  // temporaries, and where they are defined
    for (const Stmt& child : body->body) {
      const auto* define = child->as<Define>();
      const auto* ref = define != nullptr ? define->value->as<VarRef>() : nullptr;
      const auto event = ref != nullptr ? events.find(ref->var.get()) : events.end();
      if (event != events.end() && uses_[ref->var.get()] == 1) {
        const auto* temporary = statements[event->second]->as<Define>();
        statements[event->second] = make_stmt(Define{define->var, temporary->value}, child->span);
        continue;
      }
      if (define != nullptr && is_new_event(define->value)) events[define->var.get()] = statements.size();
      statements.push_back(child);
    }
    return statements.size() == body->body.size() ? s : make_stmt(Block{std::move(statements)}, s->span);
  }

 private:
  std::unordered_map<const Var*, int> uses_;
};

}  // namespace

PrimFunc name_events(const PrimFunc& function) {
  return with_body(function, NameEvents(function.body).mutate(function.body));
}
PrimFunc evaluate_bounds_once(const PrimFunc& function) {
  return with_body(function, EvaluateBounds().mutate(function.body));
}
PrimFunc unroll_loops(const PrimFunc& function) { return with_body(function, Unroll().mutate(function.body)); }
PrimFunc hoist_if_then_else(const PrimFunc& function) { return with_body(function, Hoist().mutate(function.body)); }
PrimFunc rename_loop_variables(const PrimFunc& function) {
  return with_body(function, RenameLoops(function).mutate(function.body));
}
PrimFunc inject_dma(const PrimFunc& function) { return with_body(function, InjectDma().mutate(function.body)); }
PrimFunc bind_threads(const PrimFunc& function, const Target& target) {
  return with_body(function, BindThreads(target).mutate(function.body));
}

PrimFunc eliminate_get_local_id(const PrimFunc& function) {
  bool used = false;
  walk(
      function.body, [&](const Expr& e) { used |= is_local_id(e); }, [](const Stmt&) {});
  const auto* body = function.body->as<Block>();
  if (!used || body == nullptr) return function;
  std::vector<Stmt> statements = body->body;
  // A variable that the source calls tid and never changes is the one.
  const auto changing = changing_variables(function.body);
  const auto own = std::find_if(statements.begin(), statements.end(), [&](const Stmt& s) {
    const auto* define = s->as<Define>();
    return define != nullptr && define->var->name == "tid" && is_local_id(define->value) &&
           !changing.contains(define->var.get());
  });
  Stmt definition;
  if (own != statements.end()) {
    definition = *own;
    statements.erase(own);
  } else {
    auto var = std::make_shared<Var>();
    var->name = "tid";
    var->type = Type::scalar(DType::kI32);
    var->non_negative = true;
    const Result<Expr> call = intrinsic_call("get_local_id", {});
    if (!call.ok()) return function;
    definition = make_stmt(Define{std::move(var), *call});
  }
  const VarPtr id = definition->as<Define>()->var;
  std::vector<Stmt> result = {definition};
  for (const Stmt& s : statements) result.push_back(ReplaceLocalId(id).mutate(s));
  return with_body(function, block(std::move(result)));
}

}  // namespace aipu::tir::c_text
