#include "kernels/plugin.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

// Which pointer parameters of the entry the kernel may write through: those that reach a store, a storing intrinsic or
// a sub-function. The analysis is the compass parameter analysis (toolchain.md 5) reduced to what the planner needs,
// and errs towards "writes".
std::vector<bool> written_parameters(const tir::Module& module, size_t argument_count);

}  // namespace

TensorRef SetupContext::add_constant(graph::ConstantPtr constant) {
  implementation.constants.push_back(std::move(constant));
  return {TensorRef::Kind::kConstant, {}, static_cast<int>(implementation.constants.size()) - 1};
}

TensorRef SetupContext::add_workspace(graph::Dim bytes) {
  implementation.workspace_bytes.push_back(std::move(bytes));
  return {TensorRef::Kind::kWorkspace, {}, static_cast<int>(implementation.workspace_bytes.size()) - 1};
}

static Result<std::shared_ptr<const tir::Module>> instantiate(TemplateLibrary& templates, std::string_view file,
                                                              std::string_view entry, const dsl::TemplateParams& params,
                                                              bool wide_indices) {
  auto module = templates.instantiate(file, entry, params, entry, wide_indices);
  if (!module.ok()) return std::move(module).status().context(fmt::format("kernel template {}:{}", file, entry));
  return module;
}

Result<std::shared_ptr<const tir::Module>> SetupContext::kernel(std::string_view file, std::string_view entry,
                                                                const dsl::TemplateParams& params) {
  // The addresses of a Compass NPU have 32 bits themselves.
  return instantiate(templates_, file, entry, params, target_.family == tir::TargetFamily::kHost);
}

Result<std::shared_ptr<const tir::Module>> SetupContext::narrow_kernel(std::string_view file, std::string_view entry,
                                                                       const dsl::TemplateParams& params) {
  return instantiate(templates_, file, entry, params, false);
}

int64_t SetupContext::fault(std::string message, graph::NodeId node) {
  faults_.push_back({std::move(message), node.valid() ? node : group_.anchor});
  return static_cast<int64_t>(faults_.size()) - 1;
}

void SetupContext::check(graph::Dim must_be_nonzero, std::string message, graph::Dim value, graph::Dim limit) {
  const graph::Dim needed = graph::needed(anchor());
  if (!(needed == graph::Dim(1))) must_be_nonzero = graph::select(needed, must_be_nonzero, 1);
  value_checks_.push_back({{std::move(must_be_nonzero), std::move(message)}, std::move(value), std::move(limit)});
}

void SetupContext::launch(std::shared_ptr<const tir::Module> kernel, std::vector<KernelArgument> arguments,
                          graph::Dim max_tecs) {
  KernelLaunch launch;
  launch.writes = written_parameters(*kernel, arguments.size());
  launch.kernel = std::move(kernel);
  launch.arguments = std::move(arguments);
  launch.max_tecs = std::move(max_tecs);
  implementation.launches.emplace_back(std::move(launch));
}

std::optional<graph::Claim> SingleOpPlugin::claim(const graph::Graph& graph, graph::NodeId anchor,
                                                  const graph::ClaimTarget&, std::string* why_not) const {
  const graph::Node& node = graph.node(anchor);
  bool mine = false;
  for (const std::string_view op : ops()) mine = mine || node.op == op;
  if (!mine) return std::nullopt;
  std::string reason = check(graph, node);
  if (!reason.empty()) {
    if (why_not != nullptr) *why_not = std::move(reason);
    return std::nullopt;
  }
  return graph::Claim{anchor, {anchor}, score()};
}

PluginRegistry PluginRegistry::with_builtins() {
  PluginRegistry registry;
  register_builtin_plugins(registry);
  return registry;
}

bool PluginRegistry::remove(std::string_view name) {
  return std::erase_if(plugins_, [&](const std::unique_ptr<OpPlugin>& plugin) { return plugin->name() == name; }) > 0;
}

std::vector<const graph::Claimer*> PluginRegistry::claimers() const {
  std::vector<const graph::Claimer*> result;
  result.reserve(plugins_.size());
  for (const auto& plugin : plugins_) result.push_back(plugin.get());
  return result;
}

namespace {

using tir::Expr;

// The variables a pointer expression may be based on.
void collect_roots(const Expr& pointer, std::vector<const tir::Var*>* roots) {
  if (!pointer) return;
  if (const auto* ref = pointer->as<tir::VarRef>()) roots->push_back(ref->var.get());
  if (const auto* sum = pointer->as<tir::Binary>()) {
    if (sum->lhs->type.pointer) collect_roots(sum->lhs, roots);
    if (sum->rhs->type.pointer) collect_roots(sum->rhs, roots);
  }
  if (const auto* as = pointer->as<tir::Cast>()) collect_roots(as->operand, roots);
  if (const auto* choice = pointer->as<tir::Select>()) {
    collect_roots(choice->if_true, roots);
    collect_roots(choice->if_false, roots);
  }
  if (const auto* call = pointer->as<tir::FunctionCall>()) {
    for (const Expr& argument : call->args) {
      if (argument->type.pointer) collect_roots(argument, roots);
    }
  }
}

std::vector<bool> written_parameters(const tir::Module& module, size_t argument_count) {
  std::vector<const tir::Var*> written;
  std::vector<std::pair<const tir::Var*, const tir::Var*>> aliases;  // (pointer variable, what it may be based on)
  for (const auto& function : module.functions) {
    tir::walk(
        function->body,
        [&](const Expr& expr) {
          if (const auto* call = expr->as<tir::IntrinsicCall>(); call != nullptr && !call->intrinsic->pure) {
            // An effectful intrinsic with one pointer only reads or only writes; loads are told apart by having a
            // result.
            const bool load_like = !expr->type.is_void();
            for (size_t i = 0; i < call->args.size(); ++i) {
              if (!call->args[i]->type.pointer || load_like) continue;
              const bool dma_source =
                  call->intrinsic->name.starts_with("dma_") || call->intrinsic->name.starts_with("async_dma_") ? i == 1
                                                                                                               : false;
              if (!dma_source && call->intrinsic->name != "prefetch") collect_roots(call->args[i], &written);
            }
          }
          if (const auto* call = expr->as<tir::FunctionCall>()) {
            const tir::PrimFunc* callee = module.find(call->function);
            for (size_t i = 0; callee != nullptr && i < call->args.size() && i < callee->params.size(); ++i) {
              std::vector<const tir::Var*> roots;
              if (call->args[i]->type.pointer) collect_roots(call->args[i], &roots);
              for (const tir::Var* root : roots) aliases.emplace_back(callee->params[i].get(), root);
            }
          }
        },
        [&](const tir::Stmt& stmt) {
          std::vector<const tir::Var*> roots;
          const tir::Var* variable = nullptr;
          if (const auto* store = stmt->as<tir::Store>()) collect_roots(store->pointer, &written);
          if (const auto* define = stmt->as<tir::Define>(); define != nullptr && define->var->type.pointer) {
            variable = define->var.get();
            collect_roots(define->value, &roots);
          }
          if (const auto* assign = stmt->as<tir::Assign>(); assign != nullptr && assign->var->type.pointer) {
            variable = assign->var.get();
            collect_roots(assign->value, &roots);
          }
          for (const tir::Var* root : roots) aliases.emplace_back(variable, root);
        });
  }
  // Close over the aliases: writing through a pointer writes what it is based on.
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [pointer, base] : aliases) {
      const bool through = std::find(written.begin(), written.end(), pointer) != written.end();
      if (through && std::find(written.begin(), written.end(), base) == written.end()) {
        written.push_back(base);
        changed = true;
      }
    }
  }
  std::vector<bool> result(argument_count, false);
  const auto& params = module.entry().params;
  for (size_t i = 0; i < argument_count && i < params.size(); ++i) {
    result[i] = params[i]->type.pointer && std::find(written.begin(), written.end(), params[i].get()) != written.end();
  }
  return result;
}

}  // namespace
}  // namespace aipu::kernels
