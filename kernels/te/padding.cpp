#include "kernels/te/padding.h"

#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

// The conditions that all have to hold.
void split_conditions(const Expr& e, std::vector<Expr>* parts) {
  if (const auto* n = e->as<Call>(); n != nullptr && n->name == "likely") return split_conditions(n->args[0], parts);
  const auto* n = e->as<Binary>();
  if (n == nullptr || n->op != BinaryOp::kAnd) return parts->push_back(e);
  split_conditions(n->a, parts);
  split_conditions(n->b, parts);
}

class Padding {
 public:
  Padding(const For& loop, Analyzer* analyzer) : loop_(loop), analyzer_(*analyzer), type_(loop.var->type) {}

  std::optional<Stmt> run() {
    if (loop_.kind != LoopKind::kSerial && loop_.kind != LoopKind::kVectorized) return std::nullopt;
    const Store* store = loop_.body->as<Store>();
    const Call* choice = store == nullptr ? nullptr : store->value->as<Call>();
    if (choice == nullptr || choice->name != "if_then_else") return std::nullopt;
    if (tensors_read(choice->args[1]).empty() || !tensors_read(choice->args[2]).empty()) return std::nullopt;
    std::vector<Expr> conditions;
    split_conditions(choice->args[0], &conditions);
    low_ = number(0);
    high_ = loop_.extent;
    Expr fixed;
    bool bounded = false;
    for (const Expr& condition : conditions) {
      if (!tensors_read(condition).empty()) return std::nullopt;
      if (!uses(condition, loop_.var.get())) {
        fixed = make_and(fixed, condition);
        continue;
      }
      if (!bound(condition)) return std::nullopt;
      bounded = true;
    }
    if (!bounded && !fixed) return std::nullopt;
    low_ = extremum(BinaryOp::kMin, extremum(BinaryOp::kMax, low_, number(0)), loop_.extent);
    high_ = extremum(BinaryOp::kMin, extremum(BinaryOp::kMax, high_, low_), loop_.extent);
    const Expr inside = choice->args[1], outside = choice->args[2];
    Stmt parts = sequence({part(*store, number(0), low_, outside), part(*store, low_, sub(high_, low_), inside),
                           part(*store, high_, sub(loop_.extent, high_), outside)});
    if (!fixed) return parts;
    return sequence(
        {make_stmt(If{fixed, parts}), make_stmt(If{make_not(fixed), part(*store, number(0), loop_.extent, outside)})});
  }

 private:
  Expr number(int64_t value) const { return make_int(value, type_); }
  Expr extremum(BinaryOp op, const Expr& a, const Expr& b) { return analyzer_.simplify(make_binary(op, a, b)); }

  // Whether a comparison says where the variable begins or ends.
  bool bound(const Expr& condition) {
    const auto* n = condition->as<Binary>();
    if (n == nullptr || n->a->type != type_ || n->b->type != type_) return false;
    Expr rest;  // at least 0 where it holds
    if (n->op == BinaryOp::kLt) rest = sub(sub(n->b, n->a), number(1));
    if (n->op == BinaryOp::kLe) rest = sub(n->b, n->a);
    if (n->op == BinaryOp::kGt) rest = sub(sub(n->a, n->b), number(1));
    if (n->op == BinaryOp::kGe) rest = sub(n->a, n->b);
    if (!rest) return false;
    const auto at = [&](int64_t value) { return substitute(rest, {{loop_.var.get(), number(value)}}); };
    const Expr start = analyzer_.simplify(at(0));
    const auto slope = as_int(analyzer_.simplify(sub(at(1), at(0))));
    if (!slope || (*slope != 1 && *slope != -1) || uses(start, loop_.var.get())) return false;
    // A step of the same size everywhere, which a quotient does not have.
    if (!analyzer_.prove_equal(rest, add(start, mul(number(*slope), loop_.var)))) return false;
    if (*slope == 1)
      low_ = make_binary(BinaryOp::kMax, low_, sub(number(0), start));
    else
      high_ = make_binary(BinaryOp::kMin, high_, add(start, number(1)));
    return true;
  }

  Stmt part(const Store& store, const Expr& first, const Expr& count, const Expr& value) {
    const Expr extent = analyzer_.simplify(count);
    if (as_int(extent) == 0) return nullptr;
    const Expr var = make_var(loop_.var->as<Var>()->name, type_);
    const Substitution moved = {{loop_.var.get(), add(first, var)}};
    std::vector<Expr> indices;
    for (const Expr& index : store.indices) indices.push_back(substitute(index, moved));
    return make_stmt(For{var, extent, LoopKind::kSerial, nullptr, false,
                         make_stmt(Store{store.tensor, std::move(indices), substitute(value, moved)})});
  }

  const For& loop_;
  Analyzer& analyzer_;
  const Type type_;
  Expr low_, high_;
};

}  // namespace

std::optional<Stmt> split_padding(const For& loop, Analyzer* analyzer) { return Padding(loop, analyzer).run(); }

}  // namespace aipu::te
