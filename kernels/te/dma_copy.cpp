#include "kernels/te/dma_copy.h"

#include <algorithm>

#include "codegen/intrinsics/intrinsic_table.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

using TirOp = tir::BinaryOp;

bool on_chip(tir::Scope scope) { return scope == tir::Scope::kLsram || scope == tir::Scope::kShared; }

class DmaCopy {
 public:
  explicit DmaCopy(const VectorContext& context) : context_(context), analyzer_(*context.analyzer) {}

  std::optional<std::vector<tir::Stmt>> run(const For& loop) {
    const Store* store = collect(loop);
    if (store == nullptr || !between_memories(*store) || !bound_loops()) return std::nullopt;
    const Read& read = *store->value->as<Read>();
    target_ = context_.index(store->tensor, store->indices);
    source_ = context_.index({read.op, read.value_index}, read.indices);
    if (!make_rows()) return std::nullopt;
    return statements(*store, read);
  }

 private:
  struct Counted {
    Expr var, extent;
    Expr count = nullptr;  // how many iterations a bound leaves, before it is clipped; null: all
  };

  // The loops and bounds down to the store; null if there is anything else.
  const Store* collect(const For& loop) {
    if (loop.kind != LoopKind::kSerial) return nullptr;
    loops_.push_back({loop.var, loop.extent});
    analyzer_.bind(loop.var, {make_int(0, loop.var->type), loop.extent});
    const Stmt* body = &loop.body;
    while (const If* branch = (*body)->as<If>()) {
      if (branch->else_body) return nullptr;
      split_conditions(branch->condition);
      body = &branch->then_body;
    }
    if (const For* inner = (*body)->as<For>()) return collect(*inner);
    const Store* store = (*body)->as<Store>();
    const bool plain = store != nullptr && store->value->as<Read>() != nullptr && store->tensor.type().lanes == 1;
    return plain && store->value->type == store->tensor.type() ? store : nullptr;
  }

  void split_conditions(const Expr& e) {
    if (const auto* n = e->as<Call>(); n != nullptr && n->name == "likely") return split_conditions(n->args[0]);
    const auto* n = e->as<Binary>();
    if (n == nullptr || n->op != BinaryOp::kAnd) return conditions_.push_back(e);
    split_conditions(n->a);
    split_conditions(n->b);
  }

  bool between_memories(const Store& store) const {
    const Read& read = *store.value->as<Read>();
    const tir::Expr to = context_.pointer(store.tensor), from = context_.pointer({read.op, read.value_index});
    if (!to || !from || !has_plain_indices(store, read)) return false;
    const tir::Scope a = to->type.scope, b = from->type.scope;
    return (a == tir::Scope::kGlobal && on_chip(b)) || (on_chip(a) && b == tir::Scope::kGlobal);
  }

  static bool has_plain_indices(const Store& store, const Read& read) {
    const auto is_index = [](const Expr& e) { return tensors_read(e).empty(); };
    return std::all_of(store.indices.begin(), store.indices.end(), is_index) &&
           std::all_of(read.indices.begin(), read.indices.end(), is_index);
  }

  bool uses_loop(const Expr& e) const {
    return uses_any(e, [this](const ExprNode* node) {
      return std::any_of(loops_.begin(), loops_.end(), [&](const Counted& l) { return l.var.get() == node; });
    });
  }

  Expr slope(const Expr& e, const Expr& var) {
    return analyzer_.simplify(sub(substitute(e, {{var.get(), add(var, make_int(1, var->type))}}), e));
  }

  // Gives each bound to the one loop that it is of.
  bool bound_loops() {
    for (const Expr& condition : conditions_) {
      if (!tensors_read(condition).empty()) return false;
      if (!uses_loop(condition)) {
        common_ = make_and(common_, condition);
        continue;
      }
      const auto* n = condition->as<Binary>();
      if (n == nullptr || (n->op != BinaryOp::kLt && n->op != BinaryOp::kLe) || !is_index(n->a->type)) return false;
      Expr rest = sub(n->b, n->a);
      if (n->op == BinaryOp::kLe) rest = add(rest, make_int(1, rest->type));
      const auto own =
          std::find_if(loops_.begin(), loops_.end(), [&](const Counted& l) { return uses(rest, l.var.get()); });
      if (own == loops_.end() || as_int(slope(rest, own->var)) != -1) return false;
      rest = analyzer_.simplify(substitute(rest, {{own->var.get(), make_int(0, own->var->type)}}));
      if (uses_loop(rest)) return false;
      own->count = own->count ? make_binary(BinaryOp::kMin, own->count, make_cast(own->count->type, rest)) : rest;
    }
    return true;
  }

  // A row: the innermost loop, and those around it whose steps are as long as what is inside. At most one more loop is
  // left then, over the rows.
  bool make_rows() {
    row_ = loops_.back();
    if (as_int(slope(target_, row_.var)) != 1 || as_int(slope(source_, row_.var)) != 1) return false;
    size_t left = loops_.size() - 1;
    for (; left > 0 && !row_.count; --left) {
      const Counted& outer = loops_[left - 1];
      const Expr inside = mul(make_cast(outer.extent->type, row_.extent), times_);
      if (!analyzer_.prove_equal(slope(target_, outer.var), inside) ||
          !analyzer_.prove_equal(slope(source_, outer.var), inside))
        break;
      times_ = inside;
      row_ = outer;
    }
    if (left > 1) return false;
    if (left == 0) return true;
    rows_ = loops_.front();
    target_step_ = slope(target_, rows_->var);
    source_step_ = slope(source_, rows_->var);
    const Expr width = mul(row_.extent, make_cast(row_.extent->type, times_));
    return !uses_loop(target_step_) && !uses_loop(source_step_) && analyzer_.prove_le(width, target_step_) &&
           analyzer_.prove_le(width, source_step_);
  }

  tir::Expr scalar(const Expr& e) { return (*context_.scalar)(analyzer_.simplify(e)); }

  // The number of iterations; a clipped one in a variable, with the condition that there are any.
  tir::Expr count_of(const Counted& loop, const char* name, std::vector<tir::Stmt>* out, tir::Expr* any) {
    if (!loop.count) return scalar(loop.extent);
    const Expr clipped = make_binary(BinaryOp::kMin, make_cast(loop.extent->type, loop.count), loop.extent);
    const auto var = std::make_shared<tir::Var>(tir::Var{name, clipped->type});
    out->push_back(tir::make_stmt(tir::Define{var, scalar(clipped)}));
    const tir::Expr some = tir::binary(TirOp::kGt, tir::var_ref(var), tir::int_imm(0, clipped->type.element));
    *any = *any ? tir::binary(TirOp::kAnd, *any, some) : some;
    return tir::var_ref(var);
  }

  tir::Expr address(const Tensor& tensor, Expr index) {
    for (const Counted& loop : loops_) index = substitute(index, {{loop.var.get(), make_int(0, loop.var->type)}});
    return tir::binary(TirOp::kAdd, context_.pointer(tensor), scalar(index));
  }

  std::optional<std::vector<tir::Stmt>> statements(const Store& store, const Read& read) {
    std::vector<tir::Stmt> out;
    tir::Expr any = common_ ? scalar(common_) : nullptr;
    tir::Expr width = count_of(row_, "width", &out, &any);
    if (as_int(times_) != 1) width = tir::binary(TirOp::kMul, width, tir::cast(width->type, scalar(times_)));
    std::vector<tir::Expr> operands = {address(store.tensor, target_), address({read.op, read.value_index}, source_),
                                       width};
    if (rows_) {
      const tir::Expr rows = count_of(*rows_, "rows", &out, &any);
      operands.insert(operands.end(), {scalar(source_step_), rows, scalar(target_step_)});
    }
    auto call = tir::intrinsic_call("dma_copy", std::move(operands));
    if (!call.ok()) return std::nullopt;
    tir::Stmt copy = tir::make_stmt(tir::Evaluate{std::move(call).value()});
    out.push_back(any ? tir::make_stmt(tir::If{any, tir::block({std::move(copy)}), nullptr}) : copy);
    return out;
  }

  const VectorContext& context_;
  Analyzer& analyzer_;
  std::vector<Counted> loops_;  // outermost first
  std::vector<Expr> conditions_;
  Expr common_, target_, source_;
  Counted row_;
  Expr times_ = make_int(1);  // elements per iteration of the row's loop
  std::optional<Counted> rows_;
  Expr target_step_, source_step_;
};

}  // namespace

std::optional<std::vector<tir::Stmt>> dma_copy(const For& loop, const VectorContext& context) {
  return DmaCopy(context).run(loop);
}

}  // namespace aipu::te
