#include "kernels/te/from_tir.h"

#include <algorithm>
#include <set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "kernels/te/expr_to_tir.h"
#include "kernels/te/functions.h"

namespace aipu::te {

namespace {

// The first error ends the conversion; what is made behind it is not looked at.
class FromTir {
 public:
  FromTir(const tir::Module& module, const tir::BlockMarks& marks) : entry_(module.entry()), marks_(marks) {}

  Result<BlockFunction> run() {
    function_.name = entry_.name;
    for (const tir::VarPtr& param : entry_.params) {
      if (param->type.pointer) continue;
      variables_[param.get()] = make_var(param->name, param->type, param->non_negative);
    }
    for (const tir::VarPtr& param : entry_.params) {
      if (param->type.pointer) memory_[param.get()] = {};
    }
    structure(entry_.body, function_.root.get());
    add_parameters();
    if (error_.ok() && blocks_below(*function_.root).empty())
      fail(entry_.span, "there is no S.block in the function, so nothing of it can be scheduled");
    if (!error_.ok()) return std::move(error_);
    return std::move(function_);
  }

 private:
  void fail(const tir::SourceSpan& span, std::string_view why) {
    if (!error_.ok()) return;
    const std::string where = span.file ? str_cat(*span.file, ":", span.line, ": ") : str_cat(entry_.name, ": ");
    error_ = unsupported(str_cat(where, why));
  }

  // --- buffers ---

  Tensor tensor_at(const tir::Expr& pointer, const tir::BlockMarks::Access& access, const tir::SourceSpan& span) {
    const auto* ref = pointer->as<tir::VarRef>();
    const tir::Var* root = ref == nullptr ? nullptr : ref->var.get();
    std::vector<Expr> shape;
    for (const tir::Expr& extent : access.shape) shape.push_back(index(extent));
    if (root == nullptr || !memory_.contains(root)) {
      fail(span, str_cat("buffer '", access.buffer, "' does not begin where a parameter or an allocation does"));
      return {make_placeholder(access.buffer, shape, pointer->type.pointee()), 0};
    }
    Tensor& tensor = memory_.at(root);
    if (!tensor.op) {
      const std::string& name = access.buffer.empty() ? root->name : access.buffer;
      tensor = {make_placeholder(name, shape, pointer->type.pointee()), 0};
      return tensor;
    }
    bool same = tensor.shape().size() == shape.size();
    for (size_t d = 0; same && d < shape.size(); ++d) same = Analyzer().prove_equal(tensor.shape()[d], shape[d]);
    if (!same) fail(span, str_cat("two buffers of different shapes lie in '", root->name, "'"));
    return tensor;
  }

  void add_parameters() {
    for (const tir::VarPtr& param : entry_.params) {
      if (!param->type.pointer) {
        function_.params.push_back({{}, variables_.at(param.get())});
        continue;
      }
      Tensor tensor = memory_.at(param.get());
      if (!tensor.op) tensor = {make_placeholder(param->name, {make_int(1)}, param->type.pointee()), 0};
      function_.params.push_back({tensor, nullptr, {}, {}, param->name});
    }
    for (const auto& [var, scope] : allocated_) {
      if (memory_.at(var).op) function_.buffers.push_back({memory_.at(var), scope});
    }
  }

  // --- loops around blocks ---

  void structure(const tir::Stmt& stmt, LoopNode* parent) {
    if (!error_.ok()) return;
    if (const auto mark = marks_.blocks.find(stmt.get()); mark != marks_.blocks.end())
      return add_block(*stmt->as<tir::Block>(), mark->second.name, stmt->span, parent);
    std::visit(Overloaded{
                   [&](const tir::Block& n) {
                     for (const tir::Stmt& child : n.body) structure(child, parent);
                   },
                   [&](const tir::For& n) { add_loop(n, stmt->span, parent); },
                   [&](const tir::Define& n) { define(n, stmt->span); },
                   [&](const tir::Alloc& n) { allocate(n, stmt->span); },
                   [](const tir::Comment&) {},
                   [&](const tir::Return& n) {
                     if (n.value) refuse(stmt->span);
                   },
                   [&](const auto&) { refuse(stmt->span); },
               },
               stmt->node);
  }

  void refuse(const tir::SourceSpan& span) {
    fail(span, "a function that is scheduled has loops, S.block regions and buffers only, this is none of them");
  }

  void add_loop(const tir::For& n, const tir::SourceSpan& span, LoopNode* parent) {
    auto loop = std::make_shared<LoopNode>();
    const Expr start = index(n.start), stop = index(n.stop), step = index(n.step);
    loop->var = make_var(n.var->name, n.var->type);
    if (!is_index(n.var->type)) return fail(span, "the counter of a loop that is scheduled is a signed integer");
    const Expr length = sub(stop, start);
    loop->extent = as_int(step) == 1 ? length : floordiv(add(length, sub(step, make_int(1, step->type))), step);
    loop->extent = analyzer_.simplify(loop->extent);
    analyzer_.bind(loop->var, {make_int(0, loop->var->type), loop->extent});
    variables_[n.var.get()] = add(start, mul(loop->var, step));
    switch (n.kind) {
      case tir::ForKind::kTec:
        loop->kind = LoopKind::kThread;
        loop->thread = std::make_shared<IterVar>(
            IterVar{make_var("threadIdx.x"), std::nullopt, IterKind::kThreadIndex, "threadIdx.x"});
        break;
      case tir::ForKind::kVectorized:
        loop->kind = LoopKind::kVectorized;
        break;
      case tir::ForKind::kUnrolled:
        loop->kind = LoopKind::kUnrolled;
        break;
      case tir::ForKind::kSerial:
        break;
    }
    append(parent, loop);
    structure(n.body, loop.get());
    if (loop->body.empty()) remove(loop.get());
  }

  void define(const tir::Define& n, const tir::SourceSpan& span) {
    if (n.var->type.pointer) {
      const auto* ref = n.value->as<tir::VarRef>();
      if (ref == nullptr) return fail(span, "a moved pointer; a function that is scheduled has S.match_buffer alone");
      return fail(span, "a pointer variable; give S.match_buffer the parameter itself");
    }
    variables_[n.var.get()] = value(n.value);
  }

  void allocate(const tir::Alloc& n, const tir::SourceSpan& span) {
    if (!n.data.empty()) return fail(span, "constant arrays are not supported in a function that is scheduled");
    const tir::Scope scope = n.buffer->type.scope;
    memory_[n.buffer.get()] = {};
    allocated_.emplace_back(n.buffer.get(), scope == tir::Scope::kLsram    ? "lsram"
                                            : scope == tir::Scope::kShared ? "shared"
                                                                           : "local");
  }

  // --- blocks ---

  void add_block(const tir::Block& n, const std::string& name, const tir::SourceSpan& span, LoopNode* parent) {
    auto block = std::make_shared<BlockNode>();
    block->name = name;
    std::vector<tir::Stmt> rest;
    for (const tir::Stmt& stmt : n.body) {
      const auto* definition = stmt->as<tir::Define>();
      const auto axis = definition == nullptr ? marks_.axes.end() : marks_.axes.find(definition->value.get());
      if (axis != marks_.axes.end())
        add_axis(block.get(), *definition->var, axis->second, stmt->span, *parent);
      else
        rest.push_back(stmt);
    }
    append(parent, block);
    block->body = statements(rest, 0);
    if (!block->body) return fail(span, str_cat("block '", name, "' does nothing"));
    add_axes_of_loops(block.get());
    find_init(block.get());
  }

  void add_axis(BlockNode* block, const tir::Var& var, const tir::BlockMarks::Axis& mark, const tir::SourceSpan& span,
                const LoopNode& parent) {
    const Expr binding = value(mark.value);
    Expr extent = mark.extent ? index(mark.extent) : nullptr;
    for (const LoopNode* loop = &parent; !extent && !loop->is_root(); loop = loop->parent) {
      if (loop->var == binding) extent = loop->extent;
    }
    if (!extent) return fail(span, "S.axis.remap takes variables of loops that begin at 0");
    const Expr own = make_var(var.name, var.type);
    variables_[&var] = own;
    analyzer_.bind(own, {make_int(0, own->type), extent});
    block->axes.push_back({own, mark.reduction ? IterKind::kCommReduce : IterKind::kDataPar,
                           make_cast(var.type, extent), make_cast(var.type, binding)});
  }

  // A loop's variable that a block uses without an axis becomes one: of its data if stores go by it.
  static void add_axes_of_loops(BlockNode* block) {
    std::set<const ExprNode*> in_stores, in_body;
    const auto collect = [](const Expr& e, std::set<const ExprNode*>* vars) {
      walk(e, [&](const Expr& part) {
        if (part->as<Var>() != nullptr) vars->insert(part.get());
      });
    };
    for (const BlockAccess& write : accesses_of(*block).writes) {
      for (const Expr& i : write.indices) collect(i, &in_stores);
    }
    const Change look = [&](const Expr& e) -> Expr {
      collect(e, &in_body);
      return e;
    };
    rewrite_values(block->body, look);
    Substitution own;
    for (const LoopNode* loop : loops_around(*block)) {
      if (!in_body.contains(loop->var.get())) continue;
      const Expr var = make_var("v_" + loop->name(), loop->var->type);
      const bool data = in_stores.contains(loop->var.get());
      block->axes.push_back({var, data ? IterKind::kDataPar : IterKind::kCommReduce, loop->extent, loop->var});
      own[loop->var.get()] = var;
    }
    if (!own.empty()) block->body = bind_buffers(block->body, {}, own);
  }

  // `if k == 0: c[i] = 0` in front of the rest of a reduction is what its results start from.
  static void find_init(BlockNode* block) {
    const Seq* seq = block->body->as<Seq>();
    const If* first = seq == nullptr ? nullptr : seq->body.front()->as<If>();
    if (first == nullptr || first->else_body || !block->has_reduction_axis()) return;
    std::set<const ExprNode*> open;
    for (const BlockAxis& axis : block->axes) {
      if (axis.kind == IterKind::kCommReduce) open.insert(axis.var.get());
    }
    if (!are_zero(first->condition, &open) || !open.empty()) return;
    BlockNode init;
    init.body = first->then_body;
    for (const BlockAccess& read : accesses_of(init).reads) {
      if (writes(*block, read.tensor)) return;
    }
    for (const BlockAxis& axis : block->axes) {
      if (axis.kind != IterKind::kCommReduce) continue;
      bool used = false;
      rewrite_values(init.body, [&](const Expr& e) -> Expr {
        used |= uses(e, axis.var.get());
        return e;
      });
      if (used) return;
    }
    block->init = first->then_body;
    block->body = sequence({seq->body.begin() + 1, seq->body.end()});
  }

  static bool are_zero(const Expr& condition, std::set<const ExprNode*>* vars) {
    const auto* n = condition->as<Binary>();
    if (n == nullptr) return false;
    if (n->op == BinaryOp::kAnd) return are_zero(n->a, vars) && are_zero(n->b, vars);
    return n->op == BinaryOp::kEq && is_zero(n->b) && vars->erase(n->a.get()) == 1;
  }

  Stmt statements(const std::vector<tir::Stmt>& list, size_t first) {
    std::vector<Stmt> made;
    for (size_t i = first; i < list.size() && error_.ok(); ++i) {
      if (const auto* n = list[i]->as<tir::Define>()) {
        if (n->var->type.pointer || n->var->type.lanes != 1) {
          refuse_in_block(list[i]->span);
          break;
        }
        const Expr var = make_var(n->var->name, n->var->type);
        const Expr held = value(n->value);
        variables_[n->var.get()] = var;
        Stmt rest = statements(list, i + 1);
        if (rest) made.push_back(make_stmt(Let{var, held, std::move(rest)}));
        break;
      }
      made.push_back(statement(list[i]));
    }
    return sequence(std::move(made));
  }

  void refuse_in_block(const tir::SourceSpan& span) {
    fail(span, "a block that is scheduled has scalar values, conditions, loops and stores to buffers only");
  }

  Stmt statement(const tir::Stmt& stmt) {
    return std::visit(Overloaded{
                          [&](const tir::Block& n) { return statements(n.body, 0); },
                          [&](const tir::Store& n) { return store(n, stmt->span); },
                          [&](const tir::If& n) { return branch(n); },
                          [&](const tir::For& n) { return inner_loop(n, stmt->span); },
                          [&](const tir::Comment&) { return Stmt(); },
                          [&](const auto&) {
                            refuse_in_block(stmt->span);
                            return Stmt();
                          },
                      },
                      stmt->node);
  }

  Stmt store(const tir::Store& n, const tir::SourceSpan& span) {
    const auto mark = marks_.accesses.find(n.index.get());
    if (mark == marks_.accesses.end()) {
      refuse_in_block(span);
      return nullptr;
    }
    const Tensor tensor = tensor_at(n.pointer, mark->second, span);
    std::vector<Expr> indices;
    for (const tir::Expr& i : mark->second.indices) indices.push_back(index(i));
    return make_stmt(Store{tensor, std::move(indices), value(n.value)});
  }

  Stmt branch(const tir::If& n) {
    const Expr condition = value(n.condition);
    Stmt chosen = statement(n.then_body);
    if (chosen) chosen = make_stmt(If{condition, std::move(chosen)});
    Stmt other = n.else_body ? statement(n.else_body) : nullptr;
    if (other) other = make_stmt(If{make_not(condition), std::move(other)});
    if (!chosen || !other) return chosen ? chosen : other;
    // The first part may change what the condition reads.
    const Expr decided = make_var("chosen", condition->type);
    const Stmt both = sequence({make_stmt(If{decided, chosen->as<If>()->then_body}),
                                make_stmt(If{make_not(decided), other->as<If>()->then_body})});
    return make_stmt(Let{decided, condition, both});
  }

  Stmt inner_loop(const tir::For& n, const tir::SourceSpan& span) {
    const Expr start = index(n.start), stop = index(n.stop);
    if (as_int(index(n.step)) != 1 || n.kind == tir::ForKind::kTec || !is_index(n.var->type)) {
      refuse_in_block(span);
      return nullptr;
    }
    const Expr var = make_var(n.var->name, n.var->type);
    variables_[n.var.get()] = add(start, var);
    analyzer_.bind(var, {make_int(0, var->type), sub(stop, start)});
    Stmt body = statement(n.body);
    if (!body) return nullptr;
    return make_stmt(For{var, analyzer_.simplify(sub(stop, start)), LoopKind::kSerial, nullptr, false, body});
  }

  // --- values ---

  // An index: quotients of what is not negative round down, which is what can be reasoned about.
  Expr index(const tir::Expr& e) {
    const bool outside = std::exchange(in_index_, true);
    Expr made = value(e);
    in_index_ = outside;
    return made;
  }

  Expr nothing(Type type) { return is_floating(type.element) ? make_float(0, type) : make_int(0, type); }

  Expr refuse_value(const tir::Expr& e) {
    fail(e->span, "a value that a block cannot have: scalars, elements of buffers and functions of numbers only");
    return nothing(e->type.lanes == 1 && !e->type.pointer ? e->type : Type::scalar(DType::kI32));
  }

  Expr value(const tir::Expr& e) {
    if (e->type.lanes != 1 || e->type.pointer) return refuse_value(e);
    return std::visit(Overloaded{
                          [&](const tir::IntImm& n) { return make_int(n.value, e->type); },
                          [&](const tir::FloatImm& n) { return make_float(n.value, e->type); },
                          [&](const tir::VarRef& n) {
                            const auto known = variables_.find(n.var.get());
                            return known == variables_.end() ? refuse_value(e) : known->second;
                          },
                          [&](const tir::Unary& n) {
                            const Expr operand = value(n.operand);
                            if (n.op == tir::UnaryOp::kNot || is_bool(e->type.element)) return make_not(operand);
                            return make_binary(BinaryOp::kBitXor, operand, make_int(-1, e->type));
                          },
                          [&](const tir::Binary& n) { return binary_value(n); },
                          [&](const tir::Select& n) {
                            return make_expr(e->type, Call{"if_then_else",
                                                           {value(n.condition), value(n.if_true), value(n.if_false)}});
                          },
                          [&](const tir::Cast& n) { return make_cast(e->type, value(n.operand)); },
                          [&](const tir::Load& n) { return load(e, n); },
                          [&](const tir::IntrinsicCall& n) { return call_value(e, n); },
                          [&](const auto&) { return refuse_value(e); },
                      },
                      e->node);
  }

  Expr binary_value(const tir::Binary& n) {
    const Expr a = value(n.lhs), b = value(n.rhs);
    BinaryOp op = te_op(n.op);
    const bool quotient = op == BinaryOp::kDiv || op == BinaryOp::kMod;
    const bool non_negative =
        quotient && in_index_ && is_index(a->type) && analyzer_.bound(a).lo >= 0 && analyzer_.bound(b).lo > 0;
    if (non_negative && op == BinaryOp::kDiv) op = BinaryOp::kFloorDiv;
    if (non_negative && op == BinaryOp::kMod) op = BinaryOp::kFloorMod;
    return make_binary(op, a, b);
  }

  Expr load(const tir::Expr& e, const tir::Load& n) {
    const auto mark = marks_.accesses.find(n.index.get());
    if (mark == marks_.accesses.end()) return refuse_value(e);
    const Tensor tensor = tensor_at(n.pointer, mark->second, e->span);
    std::vector<Expr> indices;
    for (const tir::Expr& i : mark->second.indices) indices.push_back(index(i));
    return make_expr(e->type, Read{tensor.op, tensor.value_index, std::move(indices)});
  }

  Expr call_value(const tir::Expr& e, const tir::IntrinsicCall& n) {
    const MathFunction* function = find_function_of_intrinsic(n.intrinsic->name);
    if (function == nullptr || n.mask || n.args.size() != static_cast<size_t>(function->arity)) return refuse_value(e);
    std::vector<Expr> args;
    for (const tir::Expr& arg : n.args) args.push_back(value(arg));
    return make_expr(e->type, Call{std::string(function->name), std::move(args)});
  }

  const tir::PrimFunc& entry_;
  const tir::BlockMarks& marks_;
  BlockFunction function_;
  std::map<const tir::Var*, Expr> variables_;
  std::map<const tir::Var*, Tensor> memory_;  // by parameter or allocation; null until a buffer is seen
  std::vector<std::pair<const tir::Var*, std::string>> allocated_;
  Analyzer analyzer_;  // knows the loops and axes
  bool in_index_ = false;
  Status error_;
};

}  // namespace

Result<BlockFunction> block_function(const tir::Module& module, const tir::BlockMarks& marks) {
  return FromTir(module, marks).run();
}

}  // namespace aipu::te
