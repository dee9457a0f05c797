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
    // Pointer variables to a fixed point: a loop may assign one after its use.
    for (bool changed = true; changed;) {
      changed = false;
      const auto flow = [&](const VarPtr& var, const Expr& value) {
        if (!var->type.pointer) return;
        ParamSet& known = points_to[var.get()];
        const size_t before = known.size();
        known.merge(roots(value, points_to));
        changed |= known.size() != before;
      };
      walk(
          function.body, [](const Expr&) {},
          [&](const Stmt& stmt) {
            if (const auto* define = stmt->as<Define>()) flow(define->var, define->value);
            if (const auto* assign = stmt->as<Assign>()) flow(assign->var, assign->value);
          });
    }
    Summary result;
    walk(
        function.body, [&](const Expr& expr) { visit(expr, points_to, &result); },
        [&](const Stmt& stmt) {
          if (const auto* store = stmt->as<Store>()) result.written.merge(roots(store->pointer, points_to));
          if (const auto* ret = stmt->as<Return>();
              ret != nullptr && ret->value != nullptr && ret->value->type.pointer) {
            result.returned.merge(roots(ret->value, points_to));
          }
        });
    return result;
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
};

}  // namespace

std::string_view param_category_name(ParamCategory category) {
  static constexpr std::string_view kNames[] = {"input_tensor", "output_tensor", "const_tensor", "descriptor", "attr"};
  return kNames[static_cast<size_t>(category)];
}

Result<PrimFuncInfo> analyze_parameters(const Module& module) {
  if (module.functions.empty()) return invalid_argument("IRModule must and only can contains 1 entry function.");
  const PrimFunc& entry = module.entry();
  Analysis analysis(module);
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
    if (param.category == ParamCategory::kDescriptor && var.type.element != DType::kU32 &&
        var.type.element != DType::kI32) {
      return invalid_argument(fmt::format(
          "The descriptor parameter \"{}\" of function \"{}\" expect dtype \"uint32/int32\", but got: \"{}\".",
          var.name, entry.name, dtype_name(var.type.element)));
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
