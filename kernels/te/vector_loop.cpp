#include "kernels/te/vector_loop.h"

#include "codegen/intrinsics/intrinsic_table.h"
#include "kernels/te/functions.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

using TirOp = tir::BinaryOp;

// Registers are not wider than a few of these; longer loops are left to the C compiler.
constexpr int64_t kMaxLanes = 256;

class VectorLoop {
 public:
  VectorLoop(const For& loop, int lanes, const VectorContext& context)
      : loop_(loop), lanes_(lanes), context_(context) {}

  std::optional<std::vector<tir::Stmt>> run() {
    std::vector<tir::Stmt> out;
    statement(loop_.body, nullptr, &out);
    if (failed_) return std::nullopt;
    return out;
  }

 private:
  bool varies(const Expr& e) const { return uses(e, loop_.var.get()) || uses_temporary(e); }
  bool uses_temporary(const Expr& e) const {
    return !temporaries_.empty() && uses_any(e, [this](const ExprNode* node) { return temporaries_.contains(node); });
  }

  tir::Expr give_up() {
    failed_ = true;
    return tir::int_imm(0);
  }

  // How much an index grows from lane to lane, if that is a constant.
  std::optional<int64_t> slope(const Expr& e) {
    const Expr next = substitute(e, {{loop_.var.get(), add(loop_.var, make_int(1, loop_.var->type))}});
    return as_int(context_.analyzer->simplify(sub(next, e)));
  }
  Expr at_first_lane(const Expr& e) { return substitute(e, {{loop_.var.get(), make_int(0, loop_.var->type)}}); }

  tir::Expr scalar(const Expr& e) { return (*context_.scalar)(context_.analyzer->simplify_value(e)); }

  tir::Expr call(std::string_view name, std::vector<tir::Expr> operands,
                 std::vector<std::pair<std::string, int64_t>> attributes = {}, tir::Expr mask = nullptr) {
    auto made = tir::intrinsic_call(name, std::move(operands), std::move(attributes), std::move(mask));
    return made.ok() ? std::move(made).value() : give_up();
  }

  // --- values ---

  tir::Expr value(const Expr& e) {
    if (failed_ || e->type.lanes != 1) return give_up();
    if (!varies(e)) return tir::broadcast(scalar(e), lanes_);
    const Type type = e->type.with_lanes(lanes_);
    if (const auto temporary = temporaries_.find(e.get()); temporary != temporaries_.end()) return temporary->second;
    if (e->as<Var>() != nullptr) return lane_numbers(e->type);
    if (const auto* n = e->as<Binary>()) return binary_value(*n);
    if (const auto* n = e->as<Select>()) return choose(n->condition, n->true_value, n->false_value, true);
    if (const auto* n = e->as<Call>()) return call_value(e, *n);
    if (const auto* n = e->as<Read>()) return load(Tensor{n->op, n->value_index}, n->indices);
    if (const auto* n = e->as<Cast>()) {
      if (is_bool(type.element) || is_bool(n->value->type.element)) return give_up();
      tir::Expr operand = value(n->value);
      return failed_ ? operand : tir::cast(type, std::move(operand));
    }
    return give_up();
  }

  tir::Expr lane_numbers(Type type) const {
    std::vector<tir::Expr> numbers(static_cast<size_t>(lanes_));
    for (int i = 0; i < lanes_; ++i) numbers[static_cast<size_t>(i)] = tir::int_imm(i, type.element);
    return tir::make_expr(type.with_lanes(lanes_), tir::VectorLiteral{std::move(numbers)});
  }

  // Whether vectors have it as TIR's operation of scalars does.
  static bool is_vector_op(const Binary& n) {
    switch (n.op) {
      case BinaryOp::kDiv:  // of integers: an error for 0, which vectors do not have
        return is_floating(n.a->type.element);
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
      case BinaryOp::kMul:
      case BinaryOp::kMin:
      case BinaryOp::kMax:
      case BinaryOp::kLt:
      case BinaryOp::kLe:
      case BinaryOp::kGt:
      case BinaryOp::kGe:
        return true;
      default:
        return false;
    }
  }

  tir::Expr binary_value(const Binary& n) {
    if (!is_vector_op(n) || is_bool(n.a->type.element)) return give_up();
    tir::Expr a = value(n.a), b = value(n.b);
    return failed_ ? a : tir::binary(tir_op(n.op), std::move(a), std::move(b));
  }

  // Both sides are evaluated where lanes choose: then nothing may be read that its condition protects.
  tir::Expr choose(const Expr& condition, const Expr& a, const Expr& b, bool both_sides) {
    if (is_bool(a->type.element)) return give_up();
    const Type type = a->type.with_lanes(lanes_);
    tir::Expr x = value(a), y = value(b);
    if (failed_) return x;
    if (!varies(condition)) return tir::make_expr(type, tir::Select{scalar(condition), x, y});
    const bool reads = !tensors_read(a).empty() || !tensors_read(b).empty();
    if (!both_sides && reads) return give_up();
    tir::Expr mask = value(condition);
    return failed_ ? x : call("vsel", {x, y}, {}, std::move(mask));
  }

  tir::Expr call_value(const Expr& e, const Call& n) {
    if (n.name == "likely") return value(n.args[0]);
    if (n.name == "if_then_else") return choose(n.args[0], n.args[1], n.args[2], false);
    const MathFunction* function = find_function(n.name);
    if (function == nullptr) return give_up();
    if (function->expand != nullptr) return value(function->expand(n.args));
    const DType element = n.args[0]->type.element;
    if (function->intrinsic.empty() || (element != DType::kF32 && element != DType::kF16)) return give_up();
    std::vector<tir::Expr> args;
    for (const Expr& arg : n.args) args.push_back(value(arg));
    if (failed_) return args.front();
    tir::Expr result = call(function->intrinsic, std::move(args));
    return !failed_ && result->type == e->type.with_lanes(lanes_) ? result : give_up();
  }

  // --- memory ---

  // A pointer to the first lane's element; null where the lanes do not follow each other.
  tir::Expr first_element(const Tensor& tensor, const std::vector<Expr>& indices) {
    const DType element = tensor.type().element;
    if (tensor.type().lanes != 1 || is_bool(element)) return nullptr;
    const Expr index = context_.index(tensor, indices);
    if (uses_temporary(index)) return nullptr;
    const tir::Expr pointer = context_.pointer(tensor);
    if (!pointer || slope(index) != 1) return nullptr;
    return tir::binary(TirOp::kAdd, pointer, scalar(at_first_lane(index)));
  }

  tir::Expr load(const Tensor& tensor, const std::vector<Expr>& indices) {
    const Expr index = context_.index(tensor, indices);
    if (uses_temporary(index)) return give_up();
    const tir::Expr pointer = context_.pointer(tensor);
    if (pointer && slope(index) == 0) return tir::broadcast(tir::load(pointer, scalar(at_first_lane(index))), lanes_);
    const tir::Expr first = first_element(tensor, indices);
    return first ? call("vload", {first}, {{"lanes", lanes_}}, mask_) : give_up();
  }

  // --- statements ---

  void statement(const Stmt& stmt, const tir::Expr& mask, std::vector<tir::Stmt>* out) {
    mask_ = mask;
    if (const Seq* seq = stmt->as<Seq>()) {
      // A later store may read what an earlier one of another lane has written.
      if (seq->body.size() > 1) give_up();
    } else if (const Store* store = stmt->as<Store>()) {
      const tir::Expr first = first_element(store->tensor, store->indices);
      if (!first) {
        give_up();
        return;
      }
      tir::Expr stored = value(value_to_store(*store));
      if (!failed_) out->push_back(tir::make_stmt(tir::Evaluate{call("vstore", {stored, first}, {}, mask)}));
    } else if (const Let* let = stmt->as<Let>(); let != nullptr && !is_bool(let->var->type.element)) {
      tir::Expr held = value(let->value);
      if (failed_) return;
      const auto var = std::make_shared<tir::Var>(tir::Var{let->var->as<Var>()->name, held->type});
      out->push_back(tir::make_stmt(tir::Define{var, std::move(held)}));
      temporaries_[let->var.get()] = tir::var_ref(var);
      statement(let->body, mask, out);
    } else if (const If* branch = stmt->as<If>(); branch != nullptr && !branch->else_body && !mask) {
      guarded(*branch, out);
    } else {
      give_up();
    }
  }

  static void split_conditions(const Expr& e, std::vector<Expr>* parts) {
    if (const auto* n = e->as<Call>(); n != nullptr && n->name == "likely") return split_conditions(n->args[0], parts);
    const auto* n = e->as<Binary>();
    if (n == nullptr || n->op != BinaryOp::kAnd) return parts->push_back(e);
    split_conditions(n->a, parts);
    split_conditions(n->b, parts);
  }

  // How many of the first lanes a condition leaves, before it is clipped to the lanes there are.
  Expr active_lanes(const Expr& condition) {
    const auto* n = condition->as<Binary>();
    if (n == nullptr || !is_comparison(n->op) || !is_index(n->a->type)) return nullptr;
    if (!tensors_read(condition).empty() || uses_temporary(condition)) return nullptr;
    Expr rest;
    const Expr one = make_int(1, n->a->type);
    if (n->op == BinaryOp::kLt) rest = sub(n->b, n->a);
    if (n->op == BinaryOp::kLe) rest = add(sub(n->b, n->a), one);
    if (n->op == BinaryOp::kGt) rest = sub(n->a, n->b);
    if (n->op == BinaryOp::kGe) rest = add(sub(n->a, n->b), one);
    if (!rest || slope(rest) != -1) return nullptr;
    return context_.analyzer->simplify(at_first_lane(rest));
  }

  void guarded(const If& branch, std::vector<tir::Stmt>* out) {
    std::vector<Expr> conditions;
    split_conditions(branch.condition, &conditions);
    Expr common, active;
    for (const Expr& condition : conditions) {
      if (!varies(condition)) {
        common = make_and(common, condition);
        continue;
      }
      const Expr lanes = active_lanes(condition);
      if (!lanes) {
        give_up();
        return;
      }
      active = active ? make_binary(BinaryOp::kMin, make_cast(lanes->type, active), lanes) : lanes;
    }
    std::vector<tir::Stmt> inside;
    if (active)
      masked(active, branch.then_body, &inside);
    else
      statement(branch.then_body, nullptr, &inside);
    if (failed_) return;
    tir::Stmt body = tir::block(std::move(inside));
    out->push_back(common ? tir::make_stmt(tir::If{scalar(common), std::move(body), nullptr}) : body);
  }

  void masked(const Expr& active, const Stmt& body, std::vector<tir::Stmt>* out) {
    const Type type = active->type;
    const auto count = std::make_shared<tir::Var>(tir::Var{"active", type});
    const auto number = [&](int64_t v) { return tir::int_imm(v, type.element); };
    std::vector<tir::Stmt> all, some;
    statement(body, nullptr, &all);
    // nothing is read where no lane is left: addresses may be anything then
    const tir::Expr few = tir::cast(Type::scalar(DType::kI32), tir::var_ref(count));
    const tir::Expr mask = call("tail_mask", {few}, {{"lanes", lanes_}});
    if (failed_) return;
    statement(body, mask, &some);
    if (failed_) return;
    tir::Stmt tail = tir::make_stmt(
        tir::If{tir::binary(TirOp::kGt, tir::var_ref(count), number(0)), tir::block(std::move(some)), nullptr});
    out->push_back(tir::make_stmt(tir::Define{count, scalar(active)}));
    out->push_back(tir::make_stmt(tir::If{tir::binary(TirOp::kGe, tir::var_ref(count), number(lanes_)),
                                          tir::block(std::move(all)), tir::block({std::move(tail)})}));
  }

  const For& loop_;
  int lanes_;
  const VectorContext& context_;
  std::map<const ExprNode*, tir::Expr> temporaries_;  // by variable: its lanes
  tir::Expr mask_;                                    // of the statement that is being written
  bool failed_ = false;
};

}  // namespace

std::optional<std::vector<tir::Stmt>> vector_loop(const For& loop, const VectorContext& context) {
  const auto lanes = as_int(loop.extent);
  if (!lanes || *lanes < 2 || *lanes > kMaxLanes) return std::nullopt;
  return VectorLoop(loop, static_cast<int>(*lanes), context).run();
}

}  // namespace aipu::te
