#include "codegen/tir/on_chip_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

bool is_on_chip(const Alloc& alloc) {
  const Scope scope = alloc.buffer->type.scope;
  return alloc.data.empty() && (scope == Scope::kLsram || scope == Scope::kShared);
}

// Which loops and branches a statement is in: a node of a tree, by number.
struct Control {
  int parent = -1;
  enum class Kind : uint8_t { kRoot, kLoop, kThen, kElse } kind = Kind::kRoot;
  const void* statement = nullptr;
  bool uniform = false;         // all TECs take the same branch
  int64_t first = 0, last = 0;  // of a loop: its first and last step
};

struct Use {
  int64_t step;
  int control;
};

// From an array's declaration, in one call of its function, to its last use.
struct Life {
  const Alloc* alloc;
  Use declared;
  std::vector<Use> uses;
  int64_t first = 0, last = 0;
  bool always = false;  // an address has become a number, or a transfer may still be under way
};

// Walks the statements of a kernel in the order of the text, calls expanded, and numbers the steps.
class LifeFinder {
 public:
  explicit LifeFinder(const Module& module) : module_(module) {}

  // False: the program is too large to be looked at this way.
  bool run() {
    controls_.emplace_back();
    call(module_.entry(), {}, 0);
    finish_transfers();
    for (Life& life : lives_) finish(life);
    return !exhausted();
  }

  const std::vector<Life>& lives() const { return lives_; }

  // Whether all TECs are done with `a` before one of them begins with `b`, or never use both.
  bool separated(const Life& a, const Life& b) const {
    const auto [common, below_a, below_b] = meet(a.declared.control, b.declared.control);
    int loop = common;
    while (loop >= 0 && controls_[static_cast<size_t>(loop)].kind != Control::Kind::kLoop)
      loop = controls_[static_cast<size_t>(loop)].parent;
    if (below_a >= 0 && below_b >= 0 && loop < 0) {
      const Control &x = controls_[static_cast<size_t>(below_a)], &y = controls_[static_cast<size_t>(below_b)];
      if (x.statement == y.statement && x.kind != y.kind && x.uniform) return true;
    }
    if (leaves_early_) return false;
    const auto barrier_between = [&, common = common](int64_t from, int64_t to) {
      return std::any_of(barriers_.begin(), barriers_.end(), [&](const Use& barrier) {
        return barrier.step > from && barrier.step < to && encloses(barrier.control, common);
      });
    };
    if (!barrier_between(a.last, b.first)) return false;
    if (loop < 0) return true;
    // The next turn of the loop begins with `a` again.
    const Control& around = controls_[static_cast<size_t>(loop)];
    return barrier_between(around.first, a.first) || barrier_between(b.last, around.last + 1);
  }

 private:
  static constexpr int64_t kMaxSteps = 200000;
  static constexpr size_t kMaxLives = 500;
  static constexpr size_t kMaxBarriers = 1000;
  static constexpr int kMaxDepth = 200;  // of calls
  using Lives = std::set<size_t>;

  // One call of a function: what its pointers may point to.
  struct Frame {
    const PrimFunc* function;
    std::map<const Var*, Lives> pointers;
  };
  struct Transfer {
    Lives lives;
    Use begun;
    const Var* event;  // null: not known
  };
  struct Wait {
    Use at;
    const Var* event;  // null: all
  };

  bool exhausted() const { return step_ > kMaxSteps || lives_.size() > kMaxLives || barriers_.size() > kMaxBarriers; }

  int enter(int parent, Control::Kind kind, const void* statement, bool uniform = false) {
    controls_.push_back({parent, kind, statement, uniform, step_, step_});
    return static_cast<int>(controls_.size()) - 1;
  }

  Lives pointees(const Expr& e, const Frame& frame) const {
    Lives found;
    if (e == nullptr) return found;
    walk(e, [&](const Expr& child) {
      const auto* ref = child->as<VarRef>();
      if (ref == nullptr || !ref->var->type.pointer) return;
      if (const auto known = frame.pointers.find(ref->var.get()); known != frame.pointers.end())
        found.insert(known->second.begin(), known->second.end());
    });
    return found;
  }

  void call(const PrimFunc& function, const std::vector<Lives>& arguments, int control) {
    if (exhausted() || depth_ > kMaxDepth) {
      step_ = kMaxSteps + 1;
      return;
    }
    ++depth_;
    Frame frame{&function, {}};
    for (size_t i = 0; i < arguments.size() && i < function.params.size(); ++i) {
      if (function.params[i]->type.pointer) frame.pointers[function.params[i].get()] = arguments[i];
    }
    walk(
        function.body, [](const Expr&) {},
        [&](const Stmt& s) {
          const auto* alloc = s->as<Alloc>();
          if (alloc == nullptr || !is_on_chip(*alloc)) return;
          frame.pointers[alloc->buffer.get()] = {lives_.size()};
          lives_.push_back({alloc, {step_, control}, {}});
        });
    for (bool changed = true; changed;) {
      changed = false;
      const auto flow = [&](const VarPtr& var, const Expr& value) {
        if (!var->type.pointer) return;
        Lives& known = frame.pointers[var.get()];
        const size_t before = known.size();
        known.merge(pointees(value, frame));
        changed |= known.size() != before;
      };
      walk(
          function.body, [](const Expr&) {},
          [&](const Stmt& s) {
            if (const auto* n = s->as<Define>()) flow(n->var, n->value);
            if (const auto* n = s->as<Assign>()) flow(n->var, n->value);
          });
    }
    visit(function.body, frame, control);
    --depth_;
  }

  void use(const Lives& lives, int control) {
    for (const size_t life : lives) lives_[life].uses.push_back({step_, control});
  }

  void visit_expr(const Expr& e, const Frame& frame, int control) {
    if (e == nullptr || exhausted()) return;
    ++step_;
    use(pointees(e, frame), control);
    bool calls = false;
    walk(e, [&](const Expr& child) {
      if (const auto* function_call = child->as<FunctionCall>()) {
        calls = true;
        const PrimFunc* callee = module_.find(function_call->function);
        std::vector<Lives> arguments;
        for (const Expr& argument : function_call->args) arguments.push_back(pointees(argument, frame));
        if (callee != nullptr) call(*callee, arguments, control);
      } else if (const auto* intrinsic = child->as<IntrinsicCall>()) {
        visit_intrinsic(child, *intrinsic, frame, control);
      } else if (child->as<Cast>() != nullptr && !child->type.pointer && child->as<Cast>()->operand->type.pointer) {
        for (const size_t life : pointees(child, frame)) lives_[life].always = true;
      }
    });
    ++step_;
    if (calls) use(pointees(e, frame), control);
  }

  void visit_intrinsic(const Expr& e, const IntrinsicCall& n, const Frame& frame, int control) {
    const std::string_view name = n.intrinsic->name;
    const auto event = [](const Expr& argument) -> const Var* {
      const auto* ref = argument != nullptr ? argument->as<VarRef>() : nullptr;
      return ref != nullptr ? ref->var.get() : nullptr;
    };
    if (name == "barrier") {
      barriers_.push_back({step_, control});
      waits_.push_back({{step_, control}, nullptr});
    } else if (name == "wait_events" || name == "free_events") {
      for (const Expr& argument : n.args) {
        if (const Var* var = event(argument)) waits_.push_back({{step_, control}, var});
      }
    } else if (n.intrinsic->asynchronous) {
      const Expr* ends = operand_of(n, "event");
      transfers_.push_back({pointees(e, frame), {step_, control}, ends == nullptr ? nullptr : event(*ends)});
    } else if (name == "reinterpret" && !e->type.pointer) {
      for (const size_t life : pointees(e, frame)) lives_[life].always = true;
    }
  }

  void visit(const Stmt& s, const Frame& frame, int control) {
    if (s == nullptr || exhausted()) return;
    ++step_;
    if (const auto* body = s->as<Block>()) {
      for (const Stmt& child : body->body) visit(child, frame, control);
    } else if (const auto* alloc = s->as<Alloc>()) {
      if (is_on_chip(*alloc)) lives_[*frame.pointers.at(alloc->buffer.get()).begin()].declared = {step_, control};
    } else if (const auto* counted = s->as<For>()) {
      const int loop = enter(control, Control::Kind::kLoop, counted);
      for (const Expr& bound : {counted->start, counted->stop, counted->step}) visit_expr(bound, frame, loop);
      visit(counted->body, frame, loop);
      controls_[static_cast<size_t>(loop)].last = ++step_;
    } else if (const auto* tested = s->as<While>()) {
      const int loop = enter(control, Control::Kind::kLoop, tested);
      visit_expr(tested->condition, frame, loop);
      visit(tested->body, frame, loop);
      controls_[static_cast<size_t>(loop)].last = ++step_;
    } else if (const auto* branch = s->as<If>()) {
      visit_expr(branch->condition, frame, control);
      const bool uniform = frame.function == &module_.entry() && is_uniform(branch->condition);
      visit(branch->then_body, frame, enter(control, Control::Kind::kThen, branch, uniform));
      visit(branch->else_body, frame, enter(control, Control::Kind::kElse, branch, uniform));
    } else {
      if (s->as<Break>() != nullptr || (s->as<Return>() != nullptr && control != 0)) leaves_early_ = true;
      for_each_child(
          s, [&](const Expr& e) { visit_expr(e, frame, control); }, [](const Stmt&) {});
    }
  }

  // Of constants and of arguments of the kernel that nothing assigns.
  bool is_uniform(const Expr& condition) const {
    std::set<const Var*> used;
    bool result = true;
    walk(condition, [&](const Expr& e) {
      if (const auto* ref = e->as<VarRef>()) used.insert(ref->var.get());
      result &= e->as<Load>() == nullptr && e->as<FunctionCall>() == nullptr && e->as<IntrinsicCall>() == nullptr &&
                e->as<AddressOf>() == nullptr;
    });
    const PrimFunc& entry = module_.entry();
    for (const Var* var : used) {
      result &= std::any_of(entry.params.begin(), entry.params.end(),
                            [&](const VarPtr& param) { return param.get() == var && !param->type.pointer; });
    }
    walk(
        entry.body,
        [&](const Expr& e) {
          if (const auto* n = e->as<AddressOf>()) result &= !used.contains(n->var.get());
        },
        [&](const Stmt& s) {
          if (const auto* n = s->as<Assign>()) result &= !used.contains(n->var.get());
        });
    return result;
  }

  // A transfer is over at the next wait for its event that is reached whenever the transfer is.
  void finish_transfers() {
    for (const Transfer& transfer : transfers_) {
      const auto over = std::find_if(waits_.begin(), waits_.end(), [&](const Wait& wait) {
        return wait.at.step > transfer.begun.step && encloses(wait.at.control, transfer.begun.control) &&
               (wait.event == nullptr || wait.event == transfer.event);
      });
      for (const size_t life : transfer.lives) {
        if (over == waits_.end())
          lives_[life].always = true;
        else
          lives_[life].uses.push_back(over->at);
      }
    }
  }

  bool encloses(int outer, int inner) const {
    while (inner > outer) inner = controls_[static_cast<size_t>(inner)].parent;  // parents have smaller numbers
    return inner == outer;
  }

  // The innermost control around both, and the one below it on each side (-1: none).
  std::tuple<int, int, int> meet(int a, int b) const {
    int below_a = -1, below_b = -1;
    while (a != b) {
      int &high = a > b ? a : b, &below = a > b ? below_a : below_b;
      below = high;
      high = controls_[static_cast<size_t>(high)].parent;
    }
    return {a, below_a, below_b};
  }

  // The outermost loop from `from` up to, but without, `end` (-1: up to the root).
  const Control* outermost_loop(int from, int end) const {
    const Control* found = nullptr;
    for (int at = from; at != end && at >= 0; at = controls_[static_cast<size_t>(at)].parent) {
      if (controls_[static_cast<size_t>(at)].kind == Control::Kind::kLoop) found = &controls_[static_cast<size_t>(at)];
    }
    return found;
  }

  void finish(Life& life) const {
    life.first = life.last = life.declared.step;
    const auto cover = [&](int64_t step) {
      life.first = std::min(life.first, step);
      life.last = std::max(life.last, step);
    };
    const auto cover_loop = [&](const Control* loop) {
      if (loop == nullptr) return;
      cover(loop->first);
      cover(loop->last);
    };
    for (const Use& use : life.uses) {
      const int common = std::get<0>(meet(life.declared.control, use.control));
      // What one turn of a loop leaves the next one may use.
      if (const Control* loop = outermost_loop(use.control, common)) cover(loop->last);
      cover_loop(outermost_loop(life.declared.control, common));
      if (use.step < life.declared.step) cover_loop(outermost_loop(common, -1));
      cover(use.step);
    }
  }

  const Module& module_;
  int64_t step_ = 0;
  int depth_ = 0;
  std::vector<Control> controls_;
  std::vector<Life> lives_;
  std::vector<Use> barriers_;
  std::vector<Wait> waits_;
  std::vector<Transfer> transfers_;
  bool leaves_early_ = false;
};

struct Array {
  const Var* buffer;
  int64_t bytes;
  std::vector<const Life*> lives;
};

bool conflict(const Array& a, const Array& b, const LifeFinder& finder) {
  const bool shared = a.buffer->type.scope == Scope::kShared;
  for (const Life* x : a.lives) {
    for (const Life* y : b.lives) {
      if (x->uses.empty() || y->uses.empty()) continue;
      if (x->always || y->always || (x->first <= y->last && y->first <= x->last)) return true;
      // Another TEC may be elsewhere in the text.
      if (shared && !(x->first < y->first ? finder.separated(*x, *y) : finder.separated(*y, *x))) return true;
    }
  }
  return false;
}

constexpr int64_t kAlignment = 64;

// One behind the other; the bytes that all need.
int64_t place_apart(const std::vector<Array>& arrays, std::map<const Var*, int64_t>* offsets) {
  int64_t total = 0;
  for (const Array& array : arrays) {
    const int64_t offset = (total + kAlignment - 1) / kAlignment * kAlignment;
    (*offsets)[array.buffer] = offset;
    total = offset + array.bytes;
  }
  return total;
}

// The lowest place for each, the largest first; the bytes that all need.
int64_t place(std::vector<Array> arrays, const LifeFinder& finder, std::map<const Var*, int64_t>* offsets) {
  std::stable_sort(arrays.begin(), arrays.end(), [](const Array& a, const Array& b) { return a.bytes > b.bytes; });
  int64_t total = 0;
  std::vector<std::pair<const Array*, int64_t>> placed;
  for (const Array& array : arrays) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const auto& [other, offset] : placed) {
      if (conflict(array, *other, finder)) taken.emplace_back(offset, offset + other->bytes);
    }
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [first, end] : taken) {
      if (offset + array.bytes <= first) break;
      offset = std::max(offset, (end + kAlignment - 1) / kAlignment * kAlignment);
    }
    placed.emplace_back(&array, offset);
    (*offsets)[array.buffer] = offset;
    total = std::max(total, offset + array.bytes);
  }
  return total;
}

}  // namespace

OnChipMemory plan_on_chip_memory(const Module& module) {
  OnChipMemory memory;
  std::vector<Array> arrays;
  for (const PrimFuncPtr& function : module.functions) {
    walk(
        function->body, [](const Expr&) {},
        [&](const Stmt& s) {
          const auto* alloc = s->as<Alloc>();
          if (alloc != nullptr && is_on_chip(*alloc))
            arrays.push_back({alloc->buffer.get(), alloc->buffer->type.bytes() * alloc->count, {}});
        });
  }
  if (arrays.empty()) return memory;
  LifeFinder finder(module);
  constexpr size_t kMaxArrays = 500;
  const bool known = arrays.size() <= kMaxArrays && finder.run();
  for (Array& array : arrays) {
    for (const Life& life : finder.lives()) {
      if (life.alloc->buffer.get() == array.buffer) array.lives.push_back(&life);
    }
  }
  for (const Scope scope : {Scope::kLsram, Scope::kShared}) {
    std::vector<Array> some;
    std::copy_if(arrays.begin(), arrays.end(), std::back_inserter(some),
                 [&](const Array& array) { return array.buffer->type.scope == scope; });
    (scope == Scope::kLsram ? memory.lsram_bytes : memory.shared_bytes) =
        known ? place(std::move(some), finder, &memory.offsets) : place_apart(some, &memory.offsets);
  }
  return memory;
}

Status check_on_chip_memory(std::string_view function, int64_t lsram_bytes, int64_t shared_bytes,
                            const Target& target) {
  const auto check = [&](std::string_view what, int64_t needed, int64_t available) {
    if (needed <= available) return Status();
    return unsupported(fmt::format("The function \"{}\" needs {} bytes of {}, the target \"{}\" has {}.", function,
                                   needed, what, target.name, available));
  };
  AIPU_RETURN_IF_ERROR(check("lsram per TEC", lsram_bytes, target.lsram_bytes()));
  return check("shared memory", shared_bytes, target.shared_bytes());
}

}  // namespace aipu::tir
