#include "kernels/te/to_device.h"

#include "codegen/cuda_c/cuda_text.h"
#include "codegen/tir/visit.h"
#include "kernels/te/schedule.h"
#include "kernels/te/tir_converter.h"

namespace aipu::te {

namespace {

// A loop whose iterations are the blocks or threads of its axis. Those of a reduction are run one after the other.
std::optional<ThreadKind> device_axis(const For& n) {
  if (n.kind != LoopKind::kThread || !n.shared_out) return std::nullopt;
  const auto kind = thread_kind(n.thread->thread_tag);
  return kind == ThreadKind::kBlock || kind == ThreadKind::kThread ? kind : std::nullopt;
}

void for_each_part(const Stmt& stmt, const std::function<void(const Stmt&)>& visit) {
  visit(stmt);
  std::visit(Overloaded{
                 [&](const For& n) { for_each_part(n.body, visit); },
                 [&](const If& n) {
                   for_each_part(n.then_body, visit);
                   if (n.else_body) for_each_part(n.else_body, visit);
                 },
                 [&](const While& n) { for_each_part(n.body, visit); },
                 [&](const Let& n) { for_each_part(n.body, visit); },
                 [&](const Realize& n) { for_each_part(n.body, visit); },
                 [&](const Pragma& n) { for_each_part(n.body, visit); },
                 [&](const Seq& n) {
                   for (const Stmt& child : n.body) for_each_part(child, visit);
                 },
                 [](const Store&) {},
                 [](const PackedCall&) {},
             },
             stmt->node);
}

bool has_device_axis(const Stmt& stmt) {
  bool found = false;
  for_each_part(stmt, [&](const Stmt& s) {
    const For* n = s->as<For>();
    found = found || (n != nullptr && device_axis(*n));
  });
  return found;
}

// "blockIdx.x" as the name of a parameter.
std::string axis_name(const For& n) { return identifier(n.thread->thread_tag); }

class DeviceConverter final : public Converter {
 public:
  explicit DeviceConverter(const Function& function) : Converter(function) {
    parameter_names_.insert(tir::kThreadAxes.begin(), tir::kThreadAxes.end());
  }

  Result<DeviceProgram> run() {
    for (const Parameter& param : function_.params) add_parameter(param);
    DeviceProgram program;
    if (function_.body) host(function_.body, &program.steps);
    AIPU_RETURN_IF_ERROR(convert_.error());
    std::vector<tir::VarPtr> given = params_;
    for (const Expr& size : kernel_.sizes) given.push_back(variables_.at(size.get()));
    given.insert(given.end(), workspace_params_.begin(), workspace_params_.end());
    AIPU_RETURN_IF_ERROR(complete(given, &program.steps));
    program.sizes = std::move(kernel_.sizes);
    program.workspaces = std::move(kernel_.workspaces);
    return program;
  }

 private:
  struct Axis {
    tir::VarPtr var;
    Expr extent;
    ThreadKind kind = ThreadKind::kThread;
  };
  using Axes = std::map<std::string, Axis>;          // by name
  using Active = std::map<std::string, ThreadKind>;  // the axes of loops around
  using Stored = std::pair<const Operation*, int>;   // an output of an operation

  // --- what the caller does ---

  void host(const Stmt& stmt, std::vector<DeviceStep>* steps) {
    std::visit(Overloaded{
                   [&](const Seq& n) {
                     for (const Stmt& child : n.body) host(child, steps);
                   },
                   [&](const Realize& n) {
                     std::vector<tir::Stmt> nothing;
                     realize(n, true, &nothing);
                     host(n.body, steps);
                   },
                   [&](const Pragma& n) { host(n.body, steps); },
                   [&](const For& n) {
                     if (device_axis(n) || !has_device_axis(n.body)) return launch(stmt, steps);
                     const Analyzer outside = analyzer_;
                     host_loops_.emplace_back(enter(n), n.var);
                     DeviceLoop loop{n.var, n.extent, {}};
                     host(n.body, &loop.body);
                     host_loops_.pop_back();
                     leave(outside);
                     steps->push_back({std::move(loop)});
                   },
                   [&](const PackedCall& n) { refuse(n); },
                   [&](const auto&) { launch(stmt, steps); },
               },
               stmt->node);
  }

  void launch(const Stmt& stmt, std::vector<DeviceStep>* steps) {
    axes_.clear();
    collect_axes(stmt, {});
    if (!convert_.error().ok()) return;  // an axis without an extent
    std::vector<tir::Stmt> body;
    on_one(stmt, &body);
    tir::PrimFunc entry{str_cat(identifier(function_.name), "_kernel", launches_++)};
    entry.return_type = Type::void_type();
    entry.body = tir::block(std::move(body));
    DeviceLaunch made;
    for (const auto& [name, axis] : axes_) {
      entry.params.push_back(axis.var);
      made.extents.push_back(axis.extent);
    }
    if (axes_.empty()) {  // one thread
      entry.params.push_back(make_variable(tir::kThreadAxes.back(), Type::scalar(DType::kI32)));
      made.extents.push_back(make_int(1));
    }
    made.module.functions.push_back(std::make_shared<const tir::PrimFunc>(std::move(entry)));
    loops_of_.push_back(host_loops_);
    steps->push_back({std::move(made)});
  }

  // The parameters before the thread axes: those that the body uses.
  Status complete(const std::vector<tir::VarPtr>& given, std::vector<DeviceStep>* steps) {
    for (DeviceStep& step : *steps) {
      if (auto* loop = std::get_if<DeviceLoop>(&step.what)) {
        AIPU_RETURN_IF_ERROR(complete(given, &loop->body));
        continue;
      }
      auto& launch = std::get<DeviceLaunch>(step.what);
      tir::PrimFunc entry = launch.module.entry();
      std::set<const tir::Var*> used;
      tir::walk(
          entry.body,
          [&](const tir::Expr& e) {
            if (const auto* ref = e->as<tir::VarRef>()) used.insert(ref->var.get());
          },
          [](const tir::Stmt&) {});
      std::vector<tir::VarPtr> params;
      for (size_t i = 0; i < given.size(); ++i) {
        if (!used.contains(given[i].get())) continue;
        params.push_back(given[i]);
        launch.arguments.emplace_back(i);
      }
      for (const auto& [var, loop] : loops_of_[completed_]) {
        if (!used.contains(var.get())) continue;
        params.push_back(var);
        launch.arguments.emplace_back(loop);
      }
      ++completed_;
      params.insert(params.end(), entry.params.begin(), entry.params.end());
      entry.params = std::move(params);
      launch.module.functions.front() = std::make_shared<const tir::PrimFunc>(std::move(entry));
      for (tir::PrimFuncPtr& helper : helpers()) launch.module.functions.push_back(std::move(helper));
      AIPU_RETURN_IF_ERROR(tir::verify(launch.module));
    }
    return {};
  }

  // --- what a thread does ---

  // The axes of the loops below, each of the largest extent that one of them has. `active`: of the loops around.
  void collect_axes(const Stmt& stmt, const Active& active) {
    std::visit(Overloaded{
                   [&](const For& n) {
                     Active inside = active;
                     const auto kind = device_axis(n);
                     if (kind && inside.emplace(axis_name(n), *kind).second) add_axis(n, *kind);
                     const Analyzer outside = analyzer_;
                     enter(n);
                     collect_axes(n.body, inside);
                     leave(outside);
                   },
                   [&](const If& n) {
                     collect_axes(n.then_body, active);
                     if (n.else_body) collect_axes(n.else_body, active);
                   },
                   [&](const While& n) { collect_axes(n.body, active); },
                   [&](const Let& n) { collect_axes(n.body, active); },
                   [&](const Realize& n) { collect_axes(n.body, is_shared(n.scope) ? blocks_of(active) : active); },
                   [&](const Pragma& n) { collect_axes(n.body, active); },
                   [&](const Seq& n) {
                     for (const Stmt& child : n.body) collect_axes(child, active);
                   },
                   [](const Store&) {},
                   [](const PackedCall&) {},
               },
               stmt->node);
  }

  void add_axis(const For& n, ThreadKind kind) {
    Expr extent = largest(n.extent);
    if (!extent) {
      fail(unsupported(str_cat("thread axis '", n.thread->thread_tag,
                               "': its extent is not known before the launch: ", to_text(n.extent))));
      return;
    }
    auto& [var, known, kind_of_axis] = axes_[axis_name(n)];
    kind_of_axis = kind;
    if (!var) var = make_variable(axis_name(n), Type::scalar(DType::kI32));
    if (known && !analyzer_.prove_equal(known, extent)) {
      match_index_types(known, extent);
      extent = make_binary(BinaryOp::kMax, known, extent);
    }
    known = extent;
  }

  bool is_shared(std::string_view scope) const { return function_.shared_by_threads && is_memory_of_block(scope); }
  static Active blocks_of(Active active) {
    std::erase_if(active, [](const auto& axis) { return axis.second != ThreadKind::kBlock; });
    return active;
  }

  void on_one(const Stmt& stmt, std::vector<tir::Stmt>* out) override {
    if (const For* n = stmt->as<For>()) {
      if (device_axis(*n) && !active_.contains(axis_name(*n)) && !fills_own(stmt)) return on_axis(*n, out);
      const int before = barriers_;  // threads have no vectors
      out->push_back(plain_loop(*n, [&](std::vector<tir::Stmt>* inside) { on_one(n->body, inside); }));
      const bool differs = std::any_of(loops_.begin(), loops_.end(), [&](const For* around) {
        return device_axis(*around) == ThreadKind::kThread && uses(n->extent, around->var.get());
      });
      if (barriers_ != before && differs) refuse_barrier();
    } else if (stmt->as<If>() != nullptr || stmt->as<While>() != nullptr) {
      const int before = barriers_;
      Converter::on_one(stmt, out);
      if (barriers_ != before) refuse_barrier();
    } else if (const Seq* seq = stmt->as<Seq>()) {
      for (const Stmt& child : seq->body) in_sequence(child, out);
    } else if (stmt->as<Store>() != nullptr) {
      std::vector<tir::Stmt> store;
      Converter::on_one(stmt, &store);
      guard(conditions_for(*stmt->as<Store>()), std::move(store), out);
    } else {
      Converter::on_one(stmt, out);
    }
  }

  // What statements store to, but for memory that they have for themselves.
  static std::set<Stored> stored_outside(const Stmt& stmt) {
    std::set<const Operation*> inside;
    std::set<Stored> stored;
    for_each_part(stmt, [&](const Stmt& s) {
      if (const Realize* n = s->as<Realize>()) inside.insert(n->op.get());
      if (const Store* n = s->as<Store>()) stored.insert({n->tensor.op.get(), n->tensor.value_index});
    });
    std::erase_if(stored, [&](const Stored& target) { return inside.contains(target.first); });
    return stored;
  }

  // Whether all that is stored is memory of this thread, which no other can fill for it.
  bool fills_own(const Stmt& stmt) const {
    const std::set<Stored> stored = stored_outside(stmt);
    return std::all_of(stored.begin(), stored.end(), [&](const Stored& target) { return private_.contains(target); });
  }

  void refuse_barrier() { fail(unsupported("shared memory is filled where not all threads of a block come")); }

  // The iteration of this thread, if it has one.
  void on_axis(const For& n, std::vector<tir::Stmt>* out) {
    const std::string name = axis_name(n);
    const auto& [axis, extent, kind] = axes_.at(name);
    const tir::Expr index = tir::cast(n.var->type, tir::var_ref(axis));
    const Expr own = largest(n.extent);
    const bool all = extent && own && analyzer_.prove_equal(extent, own) && analyzer_.prove_equal(own, n.extent);
    const tir::Expr exists = all ? nullptr : tir::binary(tir::BinaryOp::kLt, index, convert_(n.extent));
    const Analyzer outside = analyzer_;
    const tir::VarPtr var = enter(n);
    active_.emplace(name, *device_axis(n));
    const auto inside = [&] {
      std::vector<tir::Stmt> body = {tir::make_stmt(tir::Define{var, index})};
      on_one(n.body, &body);
      return body;
    };
    const int before = barriers_;
    std::vector<tir::Stmt> body = inside();
    if (exists && barriers_ != before) {  // which all threads have to reach: the condition goes to the stores
      conditions_.emplace_back(exists, active_.at(name));
      body = inside();
      conditions_.pop_back();
      out->push_back(tir::block(std::move(body)));
    } else {
      guard(exists, std::move(body), out);
    }
    active_.erase(name);
    leave(outside);
  }

  static void guard(const tir::Expr& condition, std::vector<tir::Stmt> body, std::vector<tir::Stmt>* out) {
    const tir::Stmt block = tir::block(std::move(body));
    out->push_back(condition ? tir::make_stmt(tir::If{condition, block, nullptr}) : block);
  }

  // Who stores: of the axes that no loop around is bound to, the first. What a thread has for itself, all store; what a
  // block has, one thread of each.
  tir::Expr conditions_for(const Store& n) const {
    tir::Expr all;
    const auto add = [&](const tir::Expr& condition) {
      all = all ? tir::binary(tir::BinaryOp::kAnd, all, condition) : condition;
    };
    for (const auto& [condition, kind] : conditions_) add(condition);
    const Stored target{n.tensor.op.get(), n.tensor.value_index};
    if (private_.contains(target)) return all;
    for (const auto& [name, axis] : axes_) {
      if (!active_.contains(name) && !(axis.kind == ThreadKind::kBlock && shared_.contains(target)))
        add(tir::binary(tir::BinaryOp::kEq, tir::var_ref(axis.var), tir::int_imm(0, DType::kI32)));
    }
    return all;
  }

  // What the threads of a block fill together is complete behind a barrier, and nobody reads it any more before one.
  void in_sequence(const Stmt& child, std::vector<tir::Stmt>* out) {
    std::set<Stored> filled = stored_outside(child);
    std::erase_if(filled, [&](const Stored& target) { return !shared_.contains(target); });
    // Parts of a nest that fills them have their elements from the loops around already.
    if (std::includes(filling_.begin(), filling_.end(), filled.begin(), filled.end())) return on_one(child, out);
    const auto outer = filling_;
    filling_.insert(filled.begin(), filled.end());
    synchronise(out);
    const Active around = active_;
    const auto conditions = conditions_;
    active_ = blocks_of(active_);
    std::erase_if(conditions_, [](const auto& c) { return c.second != ThreadKind::kBlock; });
    on_one(child, out);
    active_ = around;
    conditions_ = conditions;
    filling_ = outer;
    synchronise(out);
  }

  void synchronise(std::vector<tir::Stmt>* out) {
    ++barriers_;
    if (out->empty() || out->back() != last_barrier_) out->push_back(last_barrier_ = barrier());
  }

  // In a thread's registers or local memory, in that of the block, or, outside of launches, in a workspace.
  tir::Expr allocate(const Tensor& tensor, const Expr& elements, const std::string& scope, bool by_all,
                     std::vector<tir::Stmt>* out) override {
    static const std::set<std::string, std::less<>> kScopes = {"", "global", "shared", "warp", "lsram", "local"};
    if (!kScopes.contains(scope)) {
      fail(invalid_argument(str_cat("stage '", tensor.op->name, "': scope '", scope, "' is no memory of cuda")));
      return nullptr;
    }
    if (by_all) return workspace(tensor, elements);
    const bool in_thread = active_ != blocks_of(active_) || axes_.empty();
    const bool of_block = is_shared(scope) || !in_thread;
    const auto count = as_int(elements);
    if (!count) {
      fail(unsupported(str_cat("stage '", tensor.op->name, "': memory of a thread or block needs a constant size, not ",
                               to_text(elements))));
      return nullptr;
    }
    const Type type = tensor.type();
    const auto where = of_block ? tir::Scope::kShared : tir::Scope::kPrivate;
    const tir::VarPtr buffer = make_variable(tensor.name(), Type::pointer_to(type.element, 1, where));
    out->push_back(tir::make_stmt(tir::Alloc{buffer, std::max<int64_t>(*count, 1)}));
    (of_block ? shared_ : private_).insert({tensor.op.get(), tensor.value_index});
    return tir::var_ref(buffer);
  }

  std::vector<std::pair<tir::VarPtr, Expr>> host_loops_;
  std::vector<std::vector<std::pair<tir::VarPtr, Expr>>> loops_of_;  // around each launch, in order
  size_t launches_ = 0, completed_ = 0;
  Axes axes_;  // of the launch
  Active active_;
  std::vector<std::pair<tir::Expr, ThreadKind>> conditions_;  // under which this thread has the iterations around
  std::set<Stored> shared_, private_;
  std::set<Stored> filling_;  // of shared_: by the nest that is written
  int barriers_ = 0;
  tir::Stmt last_barrier_;
};

}  // namespace

Result<DeviceProgram> to_device(const Function& function) { return DeviceConverter(function).run(); }

}  // namespace aipu::te
