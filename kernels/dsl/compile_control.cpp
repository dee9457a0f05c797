// Control flow: conditions, loops, blocks, returns.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/compiler_guards.h"
#include "kernels/dsl/host_environment.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

constexpr std::string_view kLoopForms =
    "Expect the for loop to be one of the following: range, S.grid, S.vectorized, S.tec_range, S.unroll.";
constexpr std::string_view kRunTimeCondition =
    "The condition depends on an extent that is only known when the model runs.";

}  // namespace

std::variant<bool, tir::Expr> Compiler::condition(const Value& value, Position position) {
  if (is_host_environment(*environment_)) operate_host("bool", {&value}, position);
  if (const std::optional<bool> known = truth(value)) return *known;
  if (value.as<BufferValue>() != nullptr) fail(position, "Please check whether the pointer is null explicitly.");
  const auto* e = value.as<tir::Expr>();
  if (e == nullptr) fail(position, "The condition required to be a scalar expression.");
  const tir::Type& type = (*e)->type;
  if (type.pointer) fail(position, "Please check whether the pointer is null explicitly.");
  if (!type.is_scalar()) fail(position, "The condition required to be a scalar expression.");
  if (type.element == DType::kBool) return *e;
  const tir::Expr zero = is_floating(type.element) ? constant(0.0, type.element) : constant(int64_t{0}, type.element);
  return tir::binary(tir::BinaryOp::kNe, *e, zero, span(position));
}

Compiler::Flow Compiler::if_statement(const ast::If& node, Position position) {
  const auto test = condition(eval(node.condition), node.condition->position);
  if (without_kernel() && !std::holds_alternative<bool>(test)) fail(node.condition->position, kRunTimeCondition);
  if (const bool* known = std::get_if<bool>(&test)) {
    // Only the chosen branch is visited; it is part of the code around it.
    return run_body(*known ? node.then_body : node.else_body);
  }
  const auto branch = [&](const ast::Body& body) {
    BlockGuard block(*this);
    const ScopeGuard scope(*this);
    run_body(body);
    return tir::block(block.take());
  };
  tir::Stmt then_body = branch(node.then_body);
  tir::Stmt else_body = node.else_body.empty() ? nullptr : branch(node.else_body);
  emit(position, tir::If{std::get<tir::Expr>(test), std::move(then_body), std::move(else_body)});
  return Flow::kNext;
}

void Compiler::while_statement(const ast::While& node, Position position) {
  if (!node.else_body.empty()) fail(position, "The else part of a loop is not supported.");
  if (without_kernel()) fail(position, "A while loop can only be used inside a kernel.");
  // A condition that needs statements becomes the first part of the body: while (true) { statements; if (!condition)
  // break; ... }
  BlockGuard block(*this);
  const auto test = condition(eval(node.condition), node.condition->position);
  if (std::holds_alternative<bool>(test)) fail(node.condition->position, "The condition should not be trivial.");
  tir::Expr loop_condition = std::get<tir::Expr>(test);
  if (!blocks_.back().statements.empty()) {
    const tir::Expr done =
        tir::make_expr(loop_condition->type, tir::Unary{tir::UnaryOp::kNot, loop_condition}, span(position));
    emit(position, tir::If{done, tir::block({tir::make_stmt(tir::Break{}, span(position))}), nullptr});
    loop_condition = tir::bool_imm(true);
  }
  const ScopeGuard scope(*this);
  frame_->loops.emplace_back(LoopKind::kRuntime, blocks_.back().block);
  struct Leave {
    std::vector<std::pair<LoopKind, int>>& loops;
    ~Leave() { loops.pop_back(); }
  } leave{frame_->loops};
  run_body(node.body);
  tir::Stmt body = tir::block(block.take());
  emit(position, tir::While{std::move(loop_condition), std::move(body)});
}

std::string Compiler::loop_variable_name(const ast::Name& target, Position position) {
  const auto defined = [&] {
    if (target.id == "_") return false;
    if (find_local(*frame_, target.id) != nullptr) return true;
    if (frame_->kind == FunctionKind::kPlain) return false;
    return lookup_global(frame_->globals, target.id, position).has_value();
  };
  if (defined()) {
    fail(position,
         fmt::format("The iter var {} of the for loop has been defined in outside scope, please use another name.",
                     target.id));
  }
  return target.id;
}

Compiler::Flow Compiler::for_statement(const ast::For& node, Position position) {
  if (!node.else_body.empty()) fail(position, "The else part of a loop is not supported.");
  const Value iterable = eval(node.iterable);
  const auto* form = iterable.as<IterableValue>();
  const bool plain = frame_->kind == FunctionKind::kPlain;
  if (form == nullptr) {
    if (plain && !iterable.is_expr() && iterable.as<BufferValue>() == nullptr)
      return unrolled_for(node, iterate(iterable, node.iterable->position), position, true);
    fail(node.iterable->position, kLoopForms);
  }
  if (form->kind == "unroll") return unrolled_for(node, iterate(iterable, node.iterable->position), position, false);
  if (form->kind == "range" && (frame_->host || without_kernel()))
    return unrolled_for(node, iterate(iterable, node.iterable->position), position, true);

  std::vector<const ast::Name*> targets;
  if (const auto* name = node.target->as<ast::Name>()) {
    targets.push_back(name);
  } else if (const auto* tuple = node.target->as<ast::TupleDisplay>()) {
    for (const ast::ExprPtr& e : tuple->elements) {
      if (e->as<ast::Name>() == nullptr) fail(e->position, "A loop variable must be a name.");
      targets.push_back(e->as<ast::Name>());
    }
  } else {
    fail(node.target->position, "A loop variable must be a name.");
  }
  const ValueList& arguments = *form->arguments;
  if (form->kind == "grid") {
    if (targets.size() != arguments.size()) {
      fail(node.target->position,
           fmt::format("S.grid has {} extents, but there are {} loop variables.", arguments.size(), targets.size()));
    }
    grid_for(node, targets, arguments, 0, position);
    return Flow::kNext;
  }
  if (targets.size() != 1) fail(node.target->position, "This loop has exactly one loop variable.");
  const tir::ForKind kind = form->kind == "vectorized"  ? tir::ForKind::kVectorized
                            : form->kind == "tec_range" ? tir::ForKind::kTec
                                                        : tir::ForKind::kSerial;
  serial_for(node, targets, arguments, kind, position);
  return Flow::kNext;
}

void Compiler::grid_for(const ast::For& node, const std::vector<const ast::Name*>& targets, const ValueList& extents,
                        size_t level, Position position) {
  const ValueList bounds = {Value{int64_t{0}}, extents[level], Value{int64_t{1}}};
  if (level + 1 == targets.size()) return serial_for(node, {targets[level]}, bounds, tir::ForKind::kSerial, position);
  ast::For inner = node;
  // The outer loop's body is the next loop; serial_for runs it through this hook.
  grid_rest_.push_back([&, level] { grid_for(node, targets, extents, level + 1, position); });
  struct Leave {
    std::vector<std::function<void()>>& rest;
    size_t size;
    ~Leave() { rest.resize(size); }
  } leave{grid_rest_, grid_rest_.size() - 1};
  inner.body.clear();
  serial_for(inner, {targets[level]}, bounds, tir::ForKind::kSerial, position);
}

void Compiler::serial_for(const ast::For& node, const std::vector<const ast::Name*>& targets, const ValueList& bounds,
                          tir::ForKind kind, Position position) {
  const Position target_position = node.target->position;
  const std::string name = loop_variable_name(*targets[0], target_position);
  // int32, or the integer type that all the bounds match to.
  std::optional<DType> dtype;
  for (const Value& bound : bounds) {
    const auto* e = bound.as<tir::Expr>();
    if (e == nullptr && !bound.integer()) fail(position, "The bounds of a loop must be integers.");
    if (e == nullptr) continue;
    if (!(*e)->type.is_scalar() || !is_integer((*e)->type.element))
      fail(position, "The bounds of a loop must be integers.");
    dtype = dtype ? binary_result_dtype(*dtype, (*e)->type.element) : (*e)->type.element;
  }
  for (const Value& bound : bounds) {
    if (const auto literal = bound.integer(); literal && (!dtype || !fits(*literal, *dtype))) {
      dtype = dtype ? binary_result_dtype(*dtype, *literal) : literal_dtype(*literal);
    }
  }
  if (dtype_bits(*dtype) < 32) dtype = is_signed_int(*dtype) ? DType::kI32 : DType::kU32;
  if (const auto literal = bounds[2].integer(); literal && *literal <= 0)
    fail(position, "The step of a loop must be positive.");
  // How many rounds are one vector is not known then.
  if (kind == tir::ForKind::kVectorized && !(bounds[0].integer() && bounds[1].integer())) kind = tir::ForKind::kSerial;
  auto var = std::make_shared<tir::Var>();
  var->name = name;
  var->type = tir::Type::scalar(*dtype);
  const tir::VarPtr loop_var = std::move(var);
  tir::Expr start = convert_element(bounds[0], *dtype, position), stop = convert_element(bounds[1], *dtype, position),
            step_expr = convert_element(bounds[2], *dtype, position);

  BlockGuard block(*this);
  const ScopeGuard scope(*this);
  frame_->scopes.back()[name] = Binding{Value{tir::var_ref(loop_var)}, loop_var, blocks_.back().block, true};
  frame_->loops.emplace_back(LoopKind::kRuntime, blocks_.back().block);
  struct Leave {
    std::vector<std::pair<LoopKind, int>>& loops;
    ~Leave() { loops.pop_back(); }
  } leave{frame_->loops};
  if (node.body.empty() && !grid_rest_.empty()) {
    grid_rest_.back()();
  } else {
    run_body(node.body);
  }
  tir::Stmt body = tir::block(block.take());
  dead_.insert(loop_var.get());
  kept_.push_back(loop_var);
  emit(position, tir::For{loop_var, std::move(start), std::move(stop), std::move(step_expr), kind, std::move(body)});
}

Compiler::Flow Compiler::unrolled_for(const ast::For& node, const ValueList& items, Position position,
                                      bool allow_break) {
  frame_->loops.emplace_back(allow_break ? LoopKind::kHost : LoopKind::kUnrolled,
                             blocks_.empty() ? 0 : blocks_.back().block);
  struct Leave {
    std::vector<std::pair<LoopKind, int>>& loops;
    ~Leave() { loops.pop_back(); }
  } leave{frame_->loops};
  const bool python_scope = frame_->kind == FunctionKind::kPlain;
  const auto* name = node.target->as<ast::Name>();
  if (name != nullptr && !python_scope) loop_variable_name(*name, node.target->position);
  for (const Value& item : items) {
    step(position);
    // In a plain function names live until its end, as in Python; in a kernel as long as the iteration.
    if (!python_scope) frame_->scopes.emplace_back();
    struct Pop {
      Frame* frame;
      bool pop;
      ~Pop() {
        if (pop) frame->scopes.pop_back();
      }
    } pop{frame_, !python_scope};
    if (name != nullptr) {
      if (python_scope) {
        if (Binding* existing = find_local(*frame_, name->id)) {
          *existing = Binding{item, nullptr, blocks_.empty() ? 0 : blocks_.back().block, false};
        } else {
          bind(name->id, item);
        }
      } else {
        bind(name->id, item);
      }
    } else {
      const auto* tuple = node.target->as<ast::TupleDisplay>();
      if (tuple == nullptr) fail(node.target->position, "A loop variable must be a name.");
      const ValueList parts = iterate(item, position);
      if (parts.size() != tuple->elements.size())
        fail(node.target->position,
             fmt::format("not enough values to unpack (expected {}, got {})", tuple->elements.size(), parts.size()));
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto* part = tuple->elements[i]->as<ast::Name>();
        if (part == nullptr) fail(node.target->position, "A loop variable must be a name.");
        bind(part->id, parts[i]);
      }
    }
    const Flow flow = run_body(node.body);
    if (flow == Flow::kReturn) return flow;
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Compiler::Flow Compiler::with_statement(const ast::With& node, Position position) {
  if (node.items.size() != 1 || node.items[0].second != nullptr)
    fail(position, "Invalid context expression in the with-statement.");
  const Value context = eval(node.items[0].first);
  const auto* framed = context.as<BlockValue>();
  if (framed == nullptr) fail(node.items[0].first->position, "Invalid context expression in the with-statement.");
  BlockGuard block(*this);
  {
    const ScopeGuard scope(*this);
    ++schedulable_blocks_;
    struct Leave {
      int& depth;
      ~Leave() { --depth; }
    } leave{schedulable_blocks_};
    run_body(node.body);
  }
  const tir::Stmt scope = tir::make_stmt(tir::block(block.take())->node, span(position));
  if (marks_ != nullptr) marks_->blocks[scope.get()] = {scope, framed->name};
  emit(scope);
  return Flow::kNext;
}

Compiler::Flow Compiler::return_statement(const ast::Return& node, Position position) {
  if (frame_->kind != FunctionKind::kPrimFunc) {
    if (!blocks_.empty() && blocks_.back().block != frame_->block) {
      fail(position, fmt::format("The inlined function \"{}\" can't return under run-time control flow.",
                                 frame_->definition->name));
    }
    if (node.value != nullptr) frame_->result = eval(node.value);
    if (const auto* meta = frame_->result.as<MetaValue>()) frame_->result = Value(*meta->value);
    return Flow::kReturn;
  }
  if (node.value == nullptr) {
    emit(position, tir::Return{nullptr});
    return Flow::kNext;
  }
  const Value value = eval(node.value);
  if (value.is_none()) {
    emit(position, tir::Return{nullptr});
    return Flow::kNext;
  }
  if (!function_->has_return_annotation) fail(position, "This function lacks return type annotation.");
  const tir::Type& type = function_->return_type;
  tir::Expr e = to_expr(value, position);
  if (type.pointer) {
    if (!e->type.pointer)
      fail(position, fmt::format("The return value expect a pointer, but got: \"{}\".", type_text(e->type)));
    if (e->type.scope != type.scope) {
      fail(position, fmt::format("The scope of return type expect \"{}\", but got: \"{}\".",
                                 tir::scope_name(type.scope), tir::scope_name(e->type.scope)));
    }
    check_returned_pointer(e, position);
    e = tir::cast(type, e, span(position));
  } else if (type.is_vector()) {
    if (e->type != type)
      fail(position, fmt::format("The type of return value expect \"{}\", but got: \"{}\".", type_text(type),
                                 type_text(e->type)));
  } else {
    if (!e->type.is_scalar())
      fail(position, fmt::format("The return value expect a scalar, but got: \"{}\".", type_text(e->type)));
    e = convert_element(value, type.element, position);
  }
  emit(position, tir::Return{std::move(e)});
  return Flow::kNext;
}

}  // namespace aipu::dsl
