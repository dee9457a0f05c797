#include "codegen/timing/count_by_shapes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/fold_int.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// Loops by how deep they are, as bits. Deeper ones than there are bits share the last.
using Loops = uint64_t;
constexpr int kMostLoops = 63;
constexpr int kEvents = 4;

// A scalar integer, or the place of a counter (as an offset from the first one).
struct Known {
  std::optional<int64_t> number;
  bool is_counter = false;
  Loops varies = 0;  // in turns of these loops
};

enum class Flow : uint8_t { kNext, kBreak, kReturn };

// Variables from outside of a loop that its turns change.
std::vector<const Var*> assigned_in(const Stmt& body) {
  std::unordered_set<const Var*> own, found;
  walk(
      body, [](const Expr&) {},
      [&](const Stmt& stmt) {
        if (const auto* define = stmt->as<Define>()) own.insert(define->var.get());
        if (const auto* assign = stmt->as<Assign>()) found.insert(assign->var.get());
      });
  std::vector<const Var*> result;
  for (const Var* var : found) {
    if (!own.contains(var)) result.push_back(var);
  }
  return result;
}

// One TEC's way through the kernel.
class Walk {
 public:
  Walk(const InstrumentedKernel& kernel, int tec, int tecs, std::span<int64_t> counters)
      : module_(kernel.module), tec_(tec), tecs_(tecs), counters_(counters) {
    // Where those of this TEC begin.
    first_counter_ = tec * kernel.counter_count;
  }

  Status run(std::span<const std::optional<int64_t>> arguments) {
    const PrimFunc& entry = module_.entry();
    for (size_t i = 0; i < arguments.size(); ++i) values_[entry.params[i].get()] = {arguments[i]};
    values_[entry.params.back().get()] = {0, true};
    execute(entry.body);
    return decided_by_data_ ? unsupported("its data decides how often a loop runs") : Status();
  }

 private:
  // What a loop or a branch, or an amount that is counted, depends on.
  std::optional<int64_t> decided(const Known& value) {
    irregular_ |= value.varies;
    if (!value.number) decided_by_data_ = true;
    return value.number;
  }

  Known evaluate(const Expr& expr) {
    if (const auto* call = expr->as<FunctionCall>()) return evaluate(*call);
    if (!expr->type.pointer && !expr->type.is_scalar()) return {};
    if (const auto* n = expr->as<IntImm>()) return {n->value};
    if (const auto* ref = expr->as<VarRef>()) {
      const auto found = values_.find(ref->var.get());
      return found == values_.end() ? Known() : found->second;
    }
    if (const auto* b = expr->as<Binary>()) return evaluate(*b, expr->type);
    if (const auto* u = expr->as<Unary>()) {
      Known value = evaluate(u->operand);
      if (value.number) value.number = u->op == UnaryOp::kNot ? int64_t{*value.number == 0} : ~*value.number;
      return wrapped(value, expr->type);
    }
    if (const auto* c = expr->as<Cast>()) return wrapped(evaluate(c->operand), expr->type);
    if (const auto* s = expr->as<Select>()) {
      const Known condition = evaluate(s->condition);
      if (!condition.number) return {std::nullopt, false, condition.varies};
      Known value = evaluate(*condition.number != 0 ? s->if_true : s->if_false);
      value.varies |= condition.varies;
      return value;
    }
    if (const auto* call = expr->as<IntrinsicCall>()) return evaluate(*call);
    if (const auto* load = expr->as<Load>()) {
      // A counter; what other memory holds is not known.
      const Known place = counter_at(load->pointer, load->index);
      if (place.is_counter && place.number) return {counters_[static_cast<size_t>(*place.number)]};
    }
    return {};
  }

  Known evaluate(const Binary& b, const Type& type) {
    Known left = evaluate(b.lhs), right = evaluate(b.rhs);
    const Loops varies = left.varies | right.varies;
    const bool is_counter = left.is_counter || right.is_counter;
    if (!left.number || !right.number) return {std::nullopt, is_counter, varies};
    // The place of a counter is its offset.
    const DType element = b.lhs->type.pointer ? DType::kI64 : b.lhs->type.element;
    return wrapped({fold_int(b.op, element, *left.number, *right.number), is_counter, varies}, type);
  }

  static Known wrapped(Known value, const Type& type) {
    if (type.pointer) return value;
    if (!type.is_scalar() || !(is_integer(type.element) || type.element == DType::kBool)) return {};
    if (value.number) value.number = wrap_int(*value.number, type.element);
    return value;
  }

  Known evaluate(const IntrinsicCall& call) {
    if (call.intrinsic->name == "get_local_id") return {tec_};
    if (call.intrinsic->name == "get_local_size") return {tecs_};
    // An event: its number, of those in turn.
    if (call.intrinsic->name == "alloc_event") return {events_++ % kEvents};
    return {};
  }

  Known evaluate(const FunctionCall& call) {
    const PrimFunc& callee = *module_.find(call.function);
    std::vector<Known> arguments;
    for (const Expr& argument : call.args) arguments.push_back(evaluate(argument));
    for (size_t i = 0; i < arguments.size(); ++i) values_[callee.params[i].get()] = arguments[i];
    result_ = {};
    execute(callee.body);
    return result_;
  }

  // Which of counters_ pointer[index] is.
  Known counter_at(const Expr& pointer, const Expr& index) {
    Known base = evaluate(pointer);
    if (!base.is_counter) return {};
    const Known offset = evaluate(index);
    if (decided_by_data_ || !decided(offset) || !base.number) return {};
    base.number = *base.number + *offset.number - first_counter_;
    const bool is_own = *base.number >= 0 && *base.number < static_cast<int64_t>(counters_.size());
    return is_own ? base : Known();
  }

  Flow execute(const Stmt& stmt) {
    if (decided_by_data_) return Flow::kReturn;
    if (const auto* scope = stmt->as<Block>()) {
      for (const Stmt& inner : scope->body) {
        if (const Flow flow = execute(inner); flow != Flow::kNext) return flow;
      }
    } else if (const auto* define = stmt->as<Define>()) {
      values_[define->var.get()] = evaluate(define->value);
    } else if (const auto* assign = stmt->as<Assign>()) {
      Known value = evaluate(assign->value);
      // Which turn it was that assigned it is forgotten, if that depended on the turn.
      value.varies |= values_[assign->var.get()].varies;
      values_[assign->var.get()] = value;
    } else if (const auto* store = stmt->as<Store>()) {
      count(*store);
    } else if (const auto* loop = stmt->as<For>()) {
      return execute(*loop);
    } else if (const auto* repeat = stmt->as<While>()) {
      return execute(*repeat);
    } else if (const auto* choice = stmt->as<If>()) {
      const auto condition = decided(evaluate(choice->condition));
      if (!condition) return Flow::kReturn;
      if (*condition != 0) return execute(choice->then_body);
      if (choice->else_body != nullptr) return execute(choice->else_body);
    } else if (const auto* evaluation = stmt->as<Evaluate>()) {
      evaluate(evaluation->value);
    } else if (const auto* leave = stmt->as<Return>()) {
      result_ = leave->value == nullptr ? Known() : evaluate(leave->value);
      return Flow::kReturn;
    } else if (stmt->as<Break>() != nullptr) {
      return Flow::kBreak;
    }
    return Flow::kNext;
  }

  // counters[i] = counters[i] + amount, or, of times, the larger of two.
  void count(const Store& store) {
    const Known place = counter_at(store.pointer, store.index);
    if (!place.is_counter || !place.number) return;
    const auto* sum = store.value->as<Binary>();
    if (sum == nullptr || sum->op != BinaryOp::kAdd) irregular_ = ~Loops{0};
    const auto value = decided(evaluate(store.value));
    if (value) counters_[static_cast<size_t>(*place.number)] = *value;
  }

  Flow execute(const While& loop) {
    while (!decided_by_data_) {
      // Each turn is taken: what decides changes from one to the next.
      irregular_ = ~Loops{0};
      const auto condition = decided(evaluate(loop.condition));
      if (!condition || *condition == 0) return Flow::kNext;
      const Flow flow = execute(loop.body);
      if (flow == Flow::kReturn) return flow;
      if (flow == Flow::kBreak) return Flow::kNext;
    }
    return Flow::kReturn;
  }

  Flow execute(const For& loop) {
    const auto start = decided(evaluate(loop.start)), stop = decided(evaluate(loop.stop)),
               step = decided(evaluate(loop.step));
    if (!start || !stop || !step || *step <= 0) return Flow::kReturn;
    if (loop.kind == ForKind::kTec) {
      if (tec_ < *start || tec_ >= *stop) return Flow::kNext;
      values_[loop.var.get()] = {tec_};
      return execute(loop.body);
    }
    const int64_t turns = *stop > *start ? (*stop - *start - 1) / *step + 1 : 0;
    const Loops bit = Loops{1} << std::min(depth_, kMostLoops);
    const auto [known, is_new] = assigned_.try_emplace(&loop);
    if (is_new) known->second = assigned_in(loop.body);
    const std::vector<const Var*>& changed = known->second;
    const Loops outer = irregular_ & ~bit;
    ++depth_;
    const Flow flow = take_turns(loop, *start, *step, turns, bit, changed);
    --depth_;
    for (const Var* var : changed) values_[var].varies &= ~bit;
    irregular_ = (irregular_ & ~bit) | outer;
    return flow;
  }

  Flow take_turns(const For& loop, int64_t start, int64_t step, int64_t turns, Loops bit,
                  const std::vector<const Var*>& changed) {
    irregular_ &= ~bit;
    for (const Var* var : changed) values_[var].varies |= bit;
    std::vector<int64_t> before;
    std::vector<std::optional<int64_t>> at;
    // Of the first turn that may differ from those behind it nothing follows.
    const int64_t alike = changed.empty() ? 0 : 1;
    for (int64_t turn = 0; turn < turns; ++turn) {
      const bool looks = turn == alike && turns > alike + 1 && (irregular_ & bit) == 0;
      if (looks) {
        before.assign(counters_.begin(), counters_.end());
        at.clear();
        for (const Var* var : changed) at.push_back(values_[var].number);
      }
      values_[loop.var.get()] = {start + turn * step, false, bit};
      const Flow flow = execute(loop.body);
      if (flow == Flow::kReturn) return flow;
      if (flow == Flow::kBreak) return Flow::kNext;
      if (!looks || (irregular_ & bit) != 0) continue;
      const int64_t rest = turns - turn - 1;
      for (size_t c = 0; c < before.size(); ++c) counters_[c] += rest * (counters_[c] - before[c]);
      for (size_t i = 0; i < changed.size(); ++i) {
        std::optional<int64_t>& value = values_[changed[i]].number;
        value = value && at[i] ? std::optional(*value + rest * (*value - *at[i])) : std::nullopt;
      }
      return Flow::kNext;
    }
    return Flow::kNext;
  }

  const Module& module_;
  int64_t tec_, tecs_, first_counter_ = 0, events_ = 0;
  std::span<int64_t> counters_;  // of this TEC
  std::unordered_map<const Var*, Known> values_;
  std::unordered_map<const For*, std::vector<const Var*>> assigned_;
  Known result_;         // of the function that has returned last
  int depth_ = 0;        // of loops around
  Loops irregular_ = 0;  // of whose turns one may count another number than the next
  bool decided_by_data_ = false;
};

}  // namespace

Result<std::vector<int64_t>> count_by_shapes(const InstrumentedKernel& kernel, int tecs,
                                             std::span<const std::optional<int64_t>> arguments) {
  const PrimFunc& entry = kernel.module.entry();
  if (arguments.size() + 1 != entry.params.size())
    return invalid_argument(str_cat("the kernel '", entry.name, "' takes ", entry.params.size() - 1, " arguments"));
  const auto own = static_cast<size_t>(kernel.counter_count);
  std::vector<int64_t> counters(static_cast<size_t>(tecs) * own);
  for (int tec = 0; tec < tecs; ++tec) {
    Walk walk(kernel, tec, tecs, std::span(counters).subspan(static_cast<size_t>(tec) * own, own));
    AIPU_RETURN_IF_ERROR(walk.run(arguments));
  }
  return counters;
}

}  // namespace aipu::tir
