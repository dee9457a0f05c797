#include "codegen/tir/parameter_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// Numbers of parameters of one function.
using ParamSet = std::set<size_t>;

// What calling a function does with its pointer parameters.
struct Summary {
  ParamSet written;
  ParamSet descriptors;
  ParamSet returned;  // the result may point into these
};

class Analysis {
 public:
  explicit Analysis(const Module& module) : module_(module) {}

  // There is no recursion between the functions of a verified module; a hostile one ends at the second visit.
  const Summary& summary(const PrimFunc& function) {
    const auto [it, is_new] = summaries_.try_emplace(&function);
    if (is_new) it->second = summarize(function);
    return it->second;
  }

 private:
  using PointsTo = std::map<const Var*, ParamSet>;

  Summary summarize(const PrimFunc& function) {
    PointsTo points_to;
    for (size_t i = 0; i < function.params.size(); ++i) {
      if (function.params[i]->type.pointer) points_to[function.params[i].get()] = {i};
    }
    Summary result;
    std::vector<PointsTo> breaks;
    follow(function.body, &points_to, &breaks, &result);
    return result;
  }

  // In the order of execution: after `b = a + 1` a store through b is one to a. `breaks`: what pointers may be where
  // the loop around is left by a break.
  void follow(const Stmt& stmt, PointsTo* points_to, std::vector<PointsTo>* breaks, Summary* result) {
    if (stmt == nullptr) return;
    const auto look = [&](const Expr& expr) {
      if (expr == nullptr) return;
      walk(expr, [&](const Expr& child) { visit(child, *points_to, result); });
    };
    const auto set = [&](const VarPtr& var, const Expr& value) {
      look(value);
      if (!var->type.pointer) return;
      ParamSet pointees = roots(value, *points_to);
      // Deep in loops what a variable was is kept, so that their turns don't multiply.
      constexpr int kExactLoops = 4;
      if (loops_ > kExactLoops) pointees.merge((*points_to)[var.get()]);
      (*points_to)[var.get()] = std::move(pointees);
    };
    if (const auto* block = stmt->as<Block>()) {
      for (const Stmt& child : block->body) follow(child, points_to, breaks, result);
    } else if (const auto* define = stmt->as<Define>()) {
      set(define->var, define->value);
    } else if (const auto* assign = stmt->as<Assign>()) {
      set(assign->var, assign->value);
    } else if (const auto* branch = stmt->as<If>()) {
      look(branch->condition);
      PointsTo otherwise = *points_to;
      follow(branch->then_body, points_to, breaks, result);
      follow(branch->else_body, &otherwise, breaks, result);
      join(otherwise, points_to);
    } else if (const auto* loop = stmt->as<For>()) {
      for (const Expr& bound : {loop->start, loop->stop, loop->step}) look(bound);
      follow_loop(loop->body, nullptr, points_to, result);
    } else if (const auto* turns = stmt->as<While>()) {
      follow_loop(turns->body, turns->condition, points_to, result);
    } else if (stmt->as<Break>() != nullptr) {
      breaks->push_back(*points_to);
    } else {
      if (const auto* store = stmt->as<Store>()) result->written.merge(roots(store->pointer, *points_to));
      if (const auto* ret = stmt->as<Return>(); ret != nullptr && ret->value != nullptr && ret->value->type.pointer) {
        result->returned.merge(roots(ret->value, *points_to));
      }
      walk(
          stmt, [&](const Expr& child) { visit(child, *points_to, result); }, [](const Stmt&) {});
    }
  }

  // Until a turn adds nothing: one turn may assign what the next one uses.
  void follow_loop(const Stmt& body, const Expr& condition, PointsTo* points_to, Summary* result) {
    ++loops_;
    for (bool changed = true; changed;) {
      if (condition != nullptr) walk(condition, [&](const Expr& child) { visit(child, *points_to, result); });
      PointsTo turn = *points_to;
      std::vector<PointsTo> breaks;
      follow(body, &turn, &breaks, result);
      changed = join(turn, points_to);
      for (const PointsTo& left : breaks) changed |= join(left, points_to);
    }
    --loops_;
  }

  // Variables that `to` does not know end with their block.
  static bool join(const PointsTo& from, PointsTo* to) {
    bool changed = false;
    for (auto& [var, known] : *to) {
      const auto other = from.find(var);
      if (other == from.end()) continue;
      const size_t before = known.size();
      known.insert(other->second.begin(), other->second.end());
      changed |= known.size() != before;
    }
    return changed;
  }

  void visit(const Expr& expr, const PointsTo& points_to, Summary* result) {
    if (const auto* call = expr->as<FunctionCall>()) {
      const PrimFunc* callee = module_.find(call->function);
      if (callee == nullptr) return;
      const Summary& inner = summary(*callee);
      const auto lift = [&](const ParamSet& from, ParamSet* to) {
        for (const size_t i : from) {
          if (i < call->args.size()) to->merge(roots(call->args[i], points_to));
        }
      };
      lift(inner.written, &result->written);
      lift(inner.descriptors, &result->descriptors);
      return;
    }
    const auto* call = expr->as<IntrinsicCall>();
    if (call == nullptr || call->intrinsic->pure) return;
    for (const IntrinsicParam& param : call->intrinsic->params) {
      const Expr* pointer = operand_of(*call, param.name);
      if (pointer == nullptr || !(*pointer)->type.pointer) continue;
      if (param.access == Access::kDescriptor) result->descriptors.merge(roots(*pointer, points_to));
      if (writes(param.access)) result->written.merge(roots(*pointer, points_to));
    }
  }

  // The parameters that a pointer may point into.
  ParamSet roots(const Expr& pointer, const PointsTo& points_to) {
    ParamSet result;
    if (pointer == nullptr) return result;
    if (const auto* ref = pointer->as<VarRef>()) {
      if (const auto known = points_to.find(ref->var.get()); known != points_to.end()) result = known->second;
    } else if (const auto* sum = pointer->as<Binary>()) {
      for (const Expr& side : {sum->lhs, sum->rhs}) {
        if (side->type.pointer) result.merge(roots(side, points_to));
      }
    } else if (const auto* as = pointer->as<Cast>()) {
      result = roots(as->operand, points_to);
    } else if (const auto* choice = pointer->as<Select>()) {
      result = roots(choice->if_true, points_to);
      result.merge(roots(choice->if_false, points_to));
    } else if (const auto* call = pointer->as<FunctionCall>()) {
      if (const PrimFunc* callee = module_.find(call->function)) {
        for (const size_t i : summary(*callee).returned) {
          if (i < call->args.size()) result.merge(roots(call->args[i], points_to));
        }
      }
    } else if (const auto* intrinsic = pointer->as<IntrinsicCall>()) {
      for (const Expr& arg : intrinsic->args) result.merge(roots(arg, points_to));  // reinterpret
    }
    return result;
  }

  const Module& module_;
  std::map<const PrimFunc*, Summary> summaries_;
  int loops_ = 0;  // around the statement at hand
};

Status check_descriptors(const PrimFunc& function, const Summary& summary) {
  for (const size_t i : summary.descriptors) {
    const Var& var = *function.params[i];
    if (var.type.element == DType::kU32 || var.type.element == DType::kI32) continue;
    return invalid_argument(fmt::format(
        "The descriptor parameter \"{}\" of function \"{}\" expect dtype \"uint32/int32\", but got: \"{}\".", var.name,
        function.name, dtype_name(var.type.element)));
  }
  return {};
}

}  // namespace

std::string_view param_category_name(ParamCategory category) {
  static constexpr std::string_view kNames[] = {"input_tensor", "output_tensor", "const_tensor", "descriptor", "attr"};
  return kNames[static_cast<size_t>(category)];
}

Result<PrimFuncInfo> analyze_parameters(const Module& module) {
  if (module.functions.empty()) return invalid_argument("IRModule must and only can contains 1 entry function.");
  const PrimFunc& entry = module.entry();
  Analysis analysis(module);
  for (const PrimFuncPtr& function : module.functions)
    AIPU_RETURN_IF_ERROR(check_descriptors(*function, analysis.summary(*function)));
  const Summary& summary = analysis.summary(entry);
  PrimFuncInfo info;
  info.name = entry.name;
  int counts[5] = {};
  for (size_t i = 0; i < entry.params.size(); ++i) {
    const Var& var = *entry.params[i];
    ParamInfo param{var.name, var.type, ParamCategory::kAttr, -1};
    if (var.type.pointer) {
      param.category = summary.descriptors.contains(i)     ? ParamCategory::kDescriptor
                       : summary.written.contains(i)       ? ParamCategory::kOutputTensor
                       : var.type.scope == Scope::kGlobal1 ? ParamCategory::kConstTensor
                                                           : ParamCategory::kInputTensor;
    }
    if (param.is_tensor()) param.tensor_index = counts[static_cast<size_t>(param.category)]++;
    info.params.push_back(std::move(param));
  }
  return info;
}

std::vector<bool> written_parameters(const Module& module) {
  Analysis analysis(module);
  const Summary& summary = analysis.summary(module.entry());
  std::vector<bool> written(module.entry().params.size(), false);
  for (const size_t i : summary.written) written[i] = true;
  return written;
}

}  // namespace aipu::tir
