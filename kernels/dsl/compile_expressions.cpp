// Expressions: evaluation order, literals, conditions, comprehensions, calls.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/compiler_guards.h"
#include "kernels/dsl/host_environment.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

constexpr size_t kMaxContainer = 1 << 16;  // elements of a compile-time list

// Python's text of a float: the shortest digits that read back, always with a point or an exponent.
std::string float_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

Value Compiler::eval(const ast::ExprPtr& expr) {
  step(expr->position);
  return eval_node(*expr);
}

Value Compiler::eval_node(const ast::Expr& expr) {
  const Position here = expr.position;
  if (const auto* name = expr.as<ast::Name>()) {
    Value value = lookup(name->id, here);
    if (const auto* e = value.as<tir::Expr>()) {
      const auto* ref = (*e)->as<tir::VarRef>();
      if (ref != nullptr && dead_.contains(ref->var.get())) {
        fail(here, fmt::format("\"{}\" holds a run-time value of a block that has ended.", name->id));
      }
    }
    return value;
  }
  if (expr.as<ast::NoneLiteral>() != nullptr) return {NoneValue{}};
  if (const auto* b = expr.as<ast::BoolLiteral>()) return {b->value};
  if (const auto* i = expr.as<ast::IntLiteral>()) return {i->value};
  if (const auto* f = expr.as<ast::FloatLiteral>()) return {f->value};
  if (const auto* s = expr.as<ast::StringLiteral>()) return {s->value};
  if (const auto* f = expr.as<ast::FString>()) return {eval_fstring(*f)};
  if (const auto* a = expr.as<ast::Attribute>()) return attribute(*a, here);
  if (const auto* s = expr.as<ast::Subscript>()) {
    Value object{NoneValue{}};
    const std::vector<Value> indices = eval_indices(*s, &object);
    return subscript(object, indices, s->tuple_index, here);
  }
  if (const auto* c = expr.as<ast::Call>()) return eval_call(*c, here);
  if (const auto* u = expr.as<ast::Unary>()) return unary(u->op, eval(u->operand), here);
  if (const auto* b = expr.as<ast::Binary>()) {
    const ValueList operands = eval_all({&b->lhs, &b->rhs});
    return binary(b->op, operands[0], operands[1], here);
  }
  if (const auto* b = expr.as<ast::BoolOp>()) return eval_bool_op(*b, here);
  if (const auto* c = expr.as<ast::Compare>()) return eval_compare(*c, here);
  if (const auto* c = expr.as<ast::Conditional>()) return eval_conditional(*c, here);
  if (const auto* l = expr.as<ast::ListDisplay>()) {
    ValueList items = eval_display(l->elements);
    return make_list(std::move(items));
  }
  if (const auto* t = expr.as<ast::TupleDisplay>()) return make_tuple(eval_display(t->elements));
  if (const auto* d = expr.as<ast::DictDisplay>()) {
    ValueMap items;
    for (const auto& [key, value] : d->items) {
      Value k = eval(key);
      if (!k.is_number() && k.as<std::string>() == nullptr)
        fail(key->position, "A dictionary key must be a compile-time number or string.");
      items.emplace_back(std::move(k), eval(value));
    }
    return {DictValue{pool_.add(std::move(items))}};
  }
  if (const auto* c = expr.as<ast::Comprehension>()) return eval_comprehension(*c, here);
  if (const auto* l = expr.as<ast::Lambda>()) {
    if (frame_->kind != FunctionKind::kPlain) fail(here, "Visitor of AST node is not implemented: Lambda");
    return local_function(l->function, here);
  }
  if (expr.as<ast::Slice>() != nullptr) fail(here, "invalid syntax");
  if (expr.as<ast::Starred>() != nullptr) fail(here, "Visitor of AST node is not implemented: Starred");
  fail(here, fmt::format("Visitor of AST node is not implemented: {}", expr.as<ast::UnsupportedExpr>()->node));
}

ValueList Compiler::eval_display(const std::vector<ast::ExprPtr>& elements) {
  std::vector<const ast::ExprPtr*> plain;
  bool starred = false;
  for (const ast::ExprPtr& e : elements) {
    starred = starred || e->as<ast::Starred>() != nullptr;
    plain.push_back(&e);
  }
  if (!starred) return eval_all(plain);
  ValueList result;
  for (const ast::ExprPtr& e : elements) {
    if (const auto* s = e->as<ast::Starred>()) {
      for (Value& v : iterate(eval(s->value), e->position)) result.push_back(std::move(v));
    } else {
      result.push_back(eval(e));
    }
  }
  return result;
}

ValueList Compiler::eval_all(const std::vector<const ast::ExprPtr*>& exprs) {
  ValueList values;
  values.reserve(exprs.size());
  for (const ast::ExprPtr* expr : exprs) {
    const size_t before = blocks_.empty() ? 0 : blocks_.back().statements.size();
    Value value = eval(*expr);
    save_before(before, values, (*expr)->position);
    values.push_back(std::move(value));
  }
  return values;
}

// Statements have been emitted since the block had `before` of them: the values computed earlier that read memory get
// variables in front of those.
void Compiler::save_before(size_t before, ValueList& values, Position position) {
  if (blocks_.empty() || blocks_.back().statements.size() == before) return;
  std::vector<tir::Stmt>& statements = blocks_.back().statements;
  const std::vector<tir::Stmt> later(statements.begin() + static_cast<ptrdiff_t>(before), statements.end());
  statements.resize(before);
  for (Value& earlier : values) {
    const auto* e = earlier.as<tir::Expr>();
    if (e != nullptr && !(*e)->type.is_void() && reads_memory(*e)) earlier = {materialize(*e, "saved", position)};
  }
  std::vector<tir::Stmt>& now = blocks_.back().statements;
  now.insert(now.end(), later.begin(), later.end());
}

Compiler::Guarded Compiler::eval_guarded(const ast::ExprPtr& expr) {
  if (blocks_.empty()) return {eval(expr), {}};
  BlockGuard block(*this);
  Guarded result{eval(expr), {}};
  result.statements = block.take();
  return result;
}

std::string Compiler::eval_fstring(const ast::FString& node) {
  std::string text;
  for (const ast::ExprPtr& part : node.parts) {
    const Value value = eval(part);
    if (const auto* s = value.as<std::string>())
      text += *s;
    else if (const auto* b = value.as<bool>())
      text += *b ? "True" : "False";
    else if (const auto* i = value.as<int64_t>())
      text += std::to_string(*i);
    else if (const auto* d = value.as<double>())
      text += float_text(*d);
    else if (const auto* t = value.as<TypeValue>())
      text += type_text(t->type);
    else if (value.is_none())
      text += "None";
    else
      fail(part->position, fmt::format("A value of kind \"{}\" can't be formatted into a string.", kind_text(value)));
    if (text.size() > kMaxContainer) fail(part->position, "The string is too long.");
  }
  return text;
}

Value Compiler::eval_compare(const ast::Compare& node, Position position) {
  std::vector<const ast::ExprPtr*> operands = {&node.first};
  for (const auto& [op, e] : node.rest) operands.push_back(&e);
  const ValueList values = eval_all(operands);
  Value result{true};
  for (size_t i = 0; i < node.rest.size(); ++i) {
    Value one = compare(node.rest[i].first, values[i], values[i + 1], position);
    if (i == 0) {
      result = std::move(one);
      continue;
    }
    result = logical(
        true, result,
        [&](bool) {
          return Guarded{one, {}};
        },
        position);
  }
  return result;
}

// Python's `and`/`or` over compile-time values, the short-circuit operators of TIR over run-time ones.
Value Compiler::logical(bool is_and, const Value& lhs, const std::function<Guarded(bool conditional)>& rhs,
                        Position position) {
  if (is_host_environment(*environment_)) operate_host("bool", {&lhs}, position);
  if (const std::optional<bool> known = truth(lhs)) return *known == is_and ? rhs(false).value : lhs;
  const auto operand = [&](const Value& v) -> tir::Expr {
    const auto* e = v.as<tir::Expr>();
    if (e != nullptr && (*e)->type.is_vector()) {
      fail(position, is_and ? "Invalid and operator between vector, use & instead."
                            : "Invalid or operator between vector, use | instead.");
    }
    const auto test = condition(v, position);
    if (const bool* b = std::get_if<bool>(&test)) return tir::bool_imm(*b);
    return std::get<tir::Expr>(test);
  };
  const tir::Expr left = operand(lhs);
  const Guarded guarded = rhs(true);
  const Value& right_value = guarded.value;
  if (!guarded.statements.empty()) {
    // The right operand needs statements of its own: result = left; if (result is not decided) { statements; result =
    // right; }
    const tir::VarPtr result = define(is_and ? "both" : "either", left, position);
    std::vector<tir::Stmt> body = guarded.statements;
    body.push_back(tir::make_stmt(tir::Assign{result, operand(right_value)}, span(position)));
    const tir::Expr undecided =
        is_and ? tir::var_ref(result)
               : tir::make_expr(result->type, tir::Unary{tir::UnaryOp::kNot, tir::var_ref(result)}, span(position));
    emit(position, tir::If{undecided, tir::block(std::move(body)), nullptr});
    return {tir::var_ref(result)};
  }
  if (const std::optional<bool> known = truth(right_value)) {
    // `x and False` is false, `x and True` is x.
    if (*known == is_and) return {left};
    if (has_effects(left)) emit(position, tir::Evaluate{left});
    return {*known};
  }
  const tir::Expr right = operand(right_value);
  return {tir::binary(is_and ? tir::BinaryOp::kAnd : tir::BinaryOp::kOr, left, right, span(position))};
}

Value Compiler::eval_bool_op(const ast::BoolOp& node, Position position) {
  return logical(
      node.is_and, eval(node.lhs),
      [&](bool conditional) {
        return conditional ? eval_guarded(node.rhs) : Guarded{eval(node.rhs), {}};
      },
      position);
}

Value Compiler::eval_conditional(const ast::Conditional& node, Position position) {
  const Value test = eval(node.condition);
  if (is_host_environment(*environment_)) operate_host("bool", {&test}, position);
  if (const std::optional<bool> known = truth(test)) return eval(*known ? node.if_true : node.if_false);
  const auto* c = test.as<tir::Expr>();
  if (c == nullptr || (*c)->type.pointer || !(*c)->type.is_scalar() || (*c)->type.element != DType::kBool) {
    fail(node.condition->position, "if_then_else only accept the condition to be boolean type.");
  }
  Guarded arm_true = eval_guarded(node.if_true), arm_false = eval_guarded(node.if_false);
  const Value &if_true = arm_true.value, &if_false = arm_false.value;
  // Rules 1 and 4 to 7 of operand matching: an int literal counts as int32.
  const auto typed = [&](const Value& v) -> Value {
    const auto i = v.integer();
    if (i && v.as<bool>() == nullptr) return {constant(*i, literal_dtype(*i))};
    return v;
  };
  tir::Expr lhs, rhs;
  const bool pointers =
      (if_true.is_expr() && (*if_true.as<tir::Expr>())->type.pointer) || if_true.as<BufferValue>() != nullptr;
  if (pointers) {
    lhs = pointer_of(if_true, position);
    rhs = pointer_of(if_false, position);
    if (lhs->type != rhs->type)
      fail(position, fmt::format("The arms of a conditional expression differ: \"{}\" vs. \"{}\".",
                                 type_text(lhs->type), type_text(rhs->type)));
  } else {
    const bool int_vs_float =
        (if_true.integer() && is_float_operand(if_false)) || (if_false.integer() && is_float_operand(if_true));
    const Matched m = int_vs_float ? match_operands(if_true, if_false, position)
                                   : match_operands(typed(if_true), typed(if_false), position);
    lhs = m.lhs;
    rhs = m.rhs;
  }
  const tir::Type type = lhs->type;
  if (!arm_true.statements.empty() || !arm_false.statements.empty()) {
    // The arms need statements of their own, which only one of them may run.
    if (type.pointer) fail(position, "An arm that yields a pointer can't expand to statements; use an if statement.");
    const tir::VarPtr result =
        define("chosen", tir::broadcast(constant(int64_t{0}, type.element), type.lanes), position);
    arm_true.statements.push_back(tir::make_stmt(tir::Assign{result, lhs}, span(position)));
    arm_false.statements.push_back(tir::make_stmt(tir::Assign{result, rhs}, span(position)));
    emit(position,
         tir::If{*c, tir::block(std::move(arm_true.statements)), tir::block(std::move(arm_false.statements))});
    return {tir::var_ref(result)};
  }
  return {tir::make_expr(type, tir::Select{*c, std::move(lhs), std::move(rhs)}, span(position))};
}

Value Compiler::eval_comprehension(const ast::Comprehension& node, Position position) {
  ValueList items;
  frame_->scopes.emplace_back();
  struct Pop {
    Frame* frame;
    ~Pop() { frame->scopes.pop_back(); }
  } pop{frame_};
  (void)position;
  run_clause(node, 0, &items);
  return make_list(std::move(items));
}

void Compiler::run_clause(const ast::Comprehension& node, size_t clause, ValueList* out) {
  if (clause == node.clauses.size()) {
    const size_t before = blocks_.empty() ? 0 : blocks_.back().statements.size();
    Value value = eval(node.element);
    save_before(before, *out, node.element->position);
    out->push_back(std::move(value));
    step(node.element->position);
    if (out->size() > kMaxContainer) fail(node.element->position, "The list is too long.");
    return;
  }
  const ast::ComprehensionClause& c = node.clauses[clause];
  for (const Value& item : iterate(eval(c.iterable), c.iterable->position)) {
    step(c.iterable->position);
    if (const auto* name = c.target->as<ast::Name>()) {
      bind(name->id, item);
    } else {
      const auto* tuple = c.target->as<ast::TupleDisplay>();
      const ValueList parts = iterate(item, c.target->position);
      if (tuple == nullptr || parts.size() != tuple->elements.size())
        fail(c.target->position, "The loop variables do not match the elements.");
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto* part = tuple->elements[i]->as<ast::Name>();
        if (part == nullptr) fail(c.target->position, "A loop variable must be a name.");
        bind(part->id, parts[i]);
      }
    }
    const bool wanted = std::all_of(c.conditions.begin(), c.conditions.end(), [&](const ast::ExprPtr& e) {
      const Value test = eval(e);
      if (is_host_environment(*environment_)) operate_host("bool", {&test}, e->position);
      const std::optional<bool> known = truth(test);
      if (!known) fail(e->position, "The condition of a comprehension must be known at compile time.");
      return *known;
    });
    if (wanted) run_clause(node, clause + 1, out);
  }
}

ValueList Compiler::iterate(const Value& value, Position position) {
  if (value.as<OpaqueValue>() != nullptr) {
    const auto listed = operate_host("list", {&value}, position);
    if (listed && listed->elements() != nullptr) {
      step(position, listed->elements()->size());
      return *listed->elements();
    }
  }
  if (const ValueList* items = value.elements()) {
    step(position, items->size());
    return *items;
  }
  if (const auto* it = value.as<IterableValue>(); it != nullptr && (it->kind == "range" || it->kind == "unroll")) {
    std::vector<int64_t> bounds;
    for (const Value& v : *it->arguments) {
      const auto i = v.integer();
      if (!i)
        fail(position, fmt::format("The bounds of {} must be known at compile time.",
                                   it->kind == "unroll" ? "S.unroll" : "a range used here"));
      bounds.push_back(*i);
    }
    ValueList items;
    const __int128 stop = bounds[1], step_size = bounds[2];
    if (step_size == 0) fail(position, "range() arg 3 must not be zero");
    for (__int128 i = bounds[0]; step_size > 0 ? i < stop : i > stop; i += step_size) {
      if (items.size() >= kMaxContainer) fail(position, "The range is too long.");
      step(position);
      items.push_back({static_cast<int64_t>(i)});
    }
    return items;
  }
  if (const auto* dict = value.as<DictValue>()) {
    ValueList keys;
    for (const auto& [key, item] : *dict->items) keys.push_back(key);
    return keys;
  }
  if (const auto* s = value.as<std::string>()) {
    ValueList characters;
    for (const char c : *s) characters.push_back({std::string(1, c)});
    return characters;
  }
  if (const auto* array = value.as<ArrayValue>()) {
    const int64_t size = array->array->shape.empty() ? 0 : array->array->shape[0];
    ValueList items;
    for (int64_t i = 0; i < size && i < static_cast<int64_t>(kMaxContainer); ++i)
      items.push_back(python_subscript(value, {i}, position));
    return items;
  }
  fail(position, fmt::format("A value of kind \"{}\" can't be iterated over at compile time.", kind_text(value)));
}

Value Compiler::eval_call(const ast::Call& node, Position position) {
  if (const auto* name = node.callee->as<ast::Name>()) {
    // print, max and min of run-time values belong to S.
    if (name->id == "print" && find_local(*frame_, "print") == nullptr && !frame_->host) {
      fail(position, "The built-in \"print\" isn't supported, please use \"S.printf\".");
    }
  }
  // A name assigned to is a hint for the call itself, not for its arguments.
  const std::string hint = std::exchange(name_hint_, std::string());
  Value callee{NoneValue{}};
  CallArguments arguments = eval_arguments(node, &callee);
  name_hint_ = hint;
  return call(callee, std::move(arguments), position);
}

CallArguments Compiler::eval_arguments(const ast::Call& node, Value* callee) {
  *callee = eval(node.callee);
  CallArguments arguments;
  ValueList in_order;  // for save_before()
  std::vector<std::pair<bool, std::string>> where;
  for (const ast::Argument& a : node.arguments) {
    const size_t before = blocks_.empty() ? 0 : blocks_.back().statements.size();
    Value value = eval(a.value);
    save_before(before, in_order, a.value->position);
    if (a.stars == 1) {
      for (Value& v : iterate(value, a.value->position)) {
        in_order.push_back(std::move(v));
        where.emplace_back(false, "");
      }
    } else if (a.stars == 2) {
      const auto* dict = value.as<DictValue>();
      if (dict == nullptr) fail(a.value->position, "argument after ** must be a dictionary");
      for (const auto& [key, v] : *dict->items) {
        if (key.as<std::string>() == nullptr) fail(a.value->position, "keywords must be strings");
        in_order.push_back(v);
        where.emplace_back(true, *key.as<std::string>());
      }
    } else {
      if (a.name.empty() && !where.empty() && where.back().first)
        fail(a.value->position, "positional argument follows keyword argument");
      in_order.push_back(std::move(value));
      where.emplace_back(!a.name.empty(), a.name);
    }
  }
  for (size_t i = 0; i < in_order.size(); ++i) {
    Value v = in_order[i].as<MetaValue>() != nullptr ? *in_order[i].as<MetaValue>()->value : in_order[i];
    if (!where[i].first) {
      arguments.positional.push_back(std::move(v));
      continue;
    }
    for (const auto& [name, other] : arguments.keywords) {
      if (name == where[i].second) fail(node.callee->position, fmt::format("keyword argument repeated: {}", name));
    }
    arguments.keywords.emplace_back(where[i].second, std::move(v));
  }
  return arguments;
}

Value Compiler::call(const Value& callee, CallArguments arguments, Position position) {
  step(position);
  if (const auto* f = callee.as<FunctionValue>()) {
    if (f->embedded != nullptr && (!f->embedded->bound.empty() || !f->embedded->bound_keywords.empty())) {
      ValueList positional;
      for (const Captured& c : f->embedded->bound) positional.push_back(to_value(c, pool_));
      arguments.positional.insert(arguments.positional.begin(), positional.begin(), positional.end());
      for (const auto& [name, c] : f->embedded->bound_keywords) {
        const auto given = std::find_if(arguments.keywords.begin(), arguments.keywords.end(),
                                        [&, &name = name](const auto& k) { return k.first == name; });
        if (given == arguments.keywords.end()) arguments.keywords.emplace_back(name, to_value(c, pool_));
      }
    }
    if (kind_of(*f) == FunctionKind::kPrimFunc) {
      if (frame_->host && blocks_.empty()) fail(position, "A kernel function can only be called inside a kernel.");
      return call_prim_func(*f, arguments, position);
    }
    return inline_function(*f, arguments, position);
  }
  if (const auto* s = callee.as<ScriptFunction>()) return call_script(s->name, arguments, position);
  if (const auto* b = callee.as<BuiltinFunction>()) return call_builtin(b->name, arguments, position);
  if (const auto* m = callee.as<MethodValue>()) return call_method(*m, arguments, position);
  if (const auto* t = callee.as<TypeValue>()) return construct(*t, arguments, position);
  if (const auto* r = callee.as<RecordTypeValue>()) return make_record(r->type, arguments, position);
  if (const auto* o = callee.as<OpaqueValue>())
    return call_host(std::get<CapturedOpaque>(o->captured.value), arguments, position);
  fail(position, fmt::format("A value of kind \"{}\" can't be called.", kind_text(callee)));
}

Value Compiler::call_host(const CapturedOpaque& callee, const CallArguments& arguments, Position position) {
  CapturedList positional;
  std::vector<std::pair<std::string, Captured>> keywords;
  const bool calls_back = is_host_environment(*environment_);
  const auto handed_out = [&](const Value& v) {
    const auto* function = v.as<FunctionValue>();
    if (!calls_back || function == nullptr) return check(position, to_captured(v));
    const auto run = [this, function = *function, position](const CapturedList& given) {
      CallArguments call;
      for (const Captured& c : given) call.positional.push_back(to_value(c, pool_));
      return to_captured(inline_function(function, call, position));
    };
    const std::shared_ptr<HostObject> host = std::make_shared<HostFunction>(function->definition, run);
    return Captured{CapturedOpaque{host, "function"}};
  };
  for (const Value& v : arguments.positional) positional.push_back(handed_out(v));
  for (const auto& [name, v] : arguments.keywords) keywords.emplace_back(name, handed_out(v));
  return to_value(check(position, environment_->call(Captured{callee}, positional, keywords)), pool_);
}

// An operator of which an operand is an embedder's object and none a run-time value: the embedder's. nullopt: none of
// its business.
std::optional<Value> Compiler::operate_host(std::string_view operation, std::initializer_list<const Value*> operands,
                                            Position position) {
  bool opaque = false;
  for (const Value* v : operands) {
    const auto* array = v->as<ArrayValue>();
    opaque = opaque || v->as<OpaqueValue>() != nullptr || (array != nullptr && array->array->object != nullptr);
    if (v->is_expr() || v->as<BufferValue>() != nullptr) return std::nullopt;
  }
  if (!opaque) return std::nullopt;
  CapturedList captured;
  for (const Value* v : operands) captured.push_back(check(position, to_captured(*v)));
  return to_value(check(position, environment_->operate(operation, captured)), pool_);
}

}  // namespace aipu::dsl
