// Functions: the entry, sub-functions, macros and plain Python helpers.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/compiler_guards.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

constexpr int kMaxCallDepth = 32;

// `@S.macro(hygienic=True)`: the name after the dot, and the call's arguments if there are any.
std::pair<std::string, const ast::Call*> decorator_of(const ast::ExprPtr& decorator) {
  const auto* call = decorator->as<ast::Call>();
  const ast::ExprPtr& target = call != nullptr ? call->callee : decorator;
  if (const auto* attribute = target->as<ast::Attribute>()) return {attribute->name, call};
  if (const auto* name = target->as<ast::Name>()) return {name->id, call};
  return {"", call};
}

const ast::ExprPtr* decorator_argument(const ast::Call* call, std::string_view name) {
  if (call == nullptr) return nullptr;
  for (const ast::Argument& a : call->arguments) {
    if (a.name == name) return &a.value;
  }
  return nullptr;
}

void collect_assigned(const ast::ExprPtr& target, std::set<std::string>* names) {
  if (const auto* name = target->as<ast::Name>()) names->insert(name->id);
  if (const auto* tuple = target->as<ast::TupleDisplay>()) {
    for (const ast::ExprPtr& e : tuple->elements) collect_assigned(e, names);
  }
}

// Every name that the body assigns somewhere.
void collect_assigned(const ast::Body& body, std::set<std::string>* names) {
  for (const ast::StmtPtr& stmt : body) {
    if (const auto* a = stmt->as<ast::Assign>()) {
      for (const ast::ExprPtr& t : a->targets) collect_assigned(t, names);
    } else if (const auto* aug = stmt->as<ast::AugAssign>()) {
      collect_assigned(aug->target, names);
    } else if (const auto* ann = stmt->as<ast::AnnAssign>()) {
      collect_assigned(ann->target, names);
    } else if (const auto* i = stmt->as<ast::If>()) {
      collect_assigned(i->then_body, names);
      collect_assigned(i->else_body, names);
    } else if (const auto* f = stmt->as<ast::For>()) {
      collect_assigned(f->body, names);
    } else if (const auto* w = stmt->as<ast::While>()) {
      collect_assigned(w->body, names);
    } else if (const auto* with = stmt->as<ast::With>()) {
      collect_assigned(with->body, names);
    }
  }
}

// `height: S.meta_var`: an integer known at compile time; the function is compiled once for each of its values.
bool is_meta_parameter(const ast::Parameter& parameter) {
  const auto* attribute = parameter.annotation != nullptr ? parameter.annotation->as<ast::Attribute>() : nullptr;
  return attribute != nullptr && attribute->name == "meta_var";
}

}  // namespace

bool Compiler::holds_run_time_value(const Value& value, std::set<const void*>& seen) {
  constexpr size_t kMaxContainers = 1000;
  if (value.is_expr() || value.as<BufferValue>() != nullptr || seen.size() > kMaxContainers) return true;
  if (const ValueList* items = value.elements(); items != nullptr && seen.insert(items).second) {
    return std::any_of(items->begin(), items->end(), [&](const Value& v) { return holds_run_time_value(v, seen); });
  }
  if (const auto* dict = value.as<DictValue>(); dict != nullptr && seen.insert(dict->items).second) {
    return std::any_of(dict->items->begin(), dict->items->end(),
                       [&](const auto& item) { return holds_run_time_value(item.second, seen); });
  }
  if (const auto* record = value.as<RecordValue>()) {
    return std::any_of(record->fields->begin(), record->fields->end(),
                       [&](const Value& v) { return holds_run_time_value(v, seen); });
  }
  if (const auto* f = value.as<FunctionValue>();
      f != nullptr && f->closure != nullptr && seen.insert(f->closure).second) {
    return std::any_of(f->closure->begin(), f->closure->end(),
                       [&](const auto& item) { return holds_run_time_value(item.second, seen); });
  }
  return false;
}

FunctionKind Compiler::kind_of(const FunctionValue& function) {
  if (function.embedded != nullptr) {
    switch (function.embedded->role) {
      case EmbeddedFunction::Role::kPrimFunc:
        return FunctionKind::kPrimFunc;
      case EmbeddedFunction::Role::kMacro:
        return FunctionKind::kMacro;
      case EmbeddedFunction::Role::kPlain:
        return FunctionKind::kPlain;
    }
  }
  for (const ast::ExprPtr& decorator : function.definition->decorators) {
    const auto [name, call] = decorator_of(decorator);
    if (name == "prim_func") return FunctionKind::kPrimFunc;
    if (name == "macro") return FunctionKind::kMacro;
  }
  return FunctionKind::kPlain;
}

// An annotation, a default, a top-level constant: evaluated where the function is defined, without a kernel around it.
Value Compiler::evaluate_in_globals(const FunctionValue& function, const ast::ExprPtr& expr) {
  return in_globals(function, expr->position, [&] { return eval(expr); });
}

Value Compiler::in_globals(const FunctionValue& function, Position position, const std::function<Value()>& work) {
  Frame frame;
  frame.kind = FunctionKind::kPlain;
  frame.host = true;
  frame.definition = function.definition;
  frame.file = function.definition->file;
  frame.globals = function.globals;
  frame.scopes.emplace_back();
  Frame* const saved = std::exchange(frame_, &frame);
  std::vector<StatementList> saved_blocks = std::exchange(blocks_, {});
  struct Restore {
    Compiler& c;
    Frame* f;
    std::vector<StatementList>& b;
    ~Restore() {
      c.frame_ = f;
      c.blocks_ = std::move(b);
    }
  } restore{*this, saved, saved_blocks};
  if (++call_depth_ > kMaxCallDepth) {
    --call_depth_;
    fail(position, "definitions refer to each other too deeply");
  }
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{call_depth_};
  return work();
}

Value Compiler::parameter_default(const FunctionValue& function, const ast::Parameter& parameter) {
  if (const auto known = function.globals->default_value(parameter.name)) return to_value(*known, pool_);
  return evaluate_in_globals(function, parameter.default_value);
}

tir::Type Compiler::parameter_type(const Value& annotation, const std::string& parameter, const std::string& function,
                                   Position position, bool* size_var) {
  const auto* type = annotation.as<TypeValue>();
  if (type == nullptr || type->type.is_void()) {
    fail(position, fmt::format("The type annotation of parameter \"{}\" of function \"{}\" is not supported.",
                               parameter, function));
  }
  *size_var = type->size_var;
  return type->type;
}

const Compiler::Function& Compiler::compile_prim_func(const FunctionValue& value, bool is_entry, std::string name,
                                                      const std::vector<int64_t>& meta_values) {
  const ast::FunctionDef& def = *value.definition;
  for (const auto& [known, function] : functions_) {
    if (known != &def || function->meta_values != meta_values) continue;
    return *function;
  }
  for (const int64_t v : meta_values) name += fmt::format("_{}{}", v < 0 ? "m" : "", v < 0 ? -v : v);
  for (int i = 1; compiled_.contains(name) || std::any_of(functions_.begin(), functions_.end(),
                                                          [&](const auto& f) { return f.second->name == name; });
       ++i) {
    name = fmt::format("{}_{}", def.name, i);
  }
  functions_.emplace_back(&def, std::make_unique<Function>());
  Function& function = *functions_.back().second;
  function.name = name;
  function.definition = value.definition;
  function.is_entry = is_entry;
  function.meta_values = meta_values;
  in_progress_.insert(&def);
  compile_order_.push_back(name);

  Frame frame;
  frame.definition = value.definition;
  frame.file = def.file;
  frame.globals = value.globals;
  frame.scopes.emplace_back();

  Frame* const saved_frame = std::exchange(frame_, &frame);
  Function* const saved_function = std::exchange(function_, &function);
  std::vector<StatementList> saved_blocks = std::exchange(blocks_, {});
  struct Restore {
    Compiler& c;
    Frame* frame;
    Function* function;
    std::vector<StatementList>& blocks;
    ~Restore() {
      c.frame_ = frame;
      c.function_ = function;
      c.blocks_ = std::move(blocks);
    }
  } restore{*this, saved_frame, saved_function, saved_blocks};

  if (value.embedded != nullptr) {
    if (value.embedded->is_inline)
      function.hint = *value.embedded->is_inline ? tir::InlineHint::kInline : tir::InlineHint::kNoInline;
  }
  for (const ast::ExprPtr& decorator : def.decorators) {
    if (value.embedded != nullptr) break;
    const auto [kind, call] = decorator_of(decorator);
    const ast::ExprPtr* inline_hint = decorator_argument(call, "is_inline");
    if (kind != "prim_func" || inline_hint == nullptr) continue;
    const Value hint = evaluate_in_globals(value, *inline_hint);
    if (const auto* flag = hint.as<bool>()) {
      function.hint = *flag ? tir::InlineHint::kInline : tir::InlineHint::kNoInline;
    } else if (!hint.is_none()) {
      fail(decorator->position, "Invalid value of parameter \"is_inline\".");
    }
  }

  const auto flag = [&](std::string_view flag_name) {
    const auto captured = environment_->lookup(flag_name);
    return captured && std::holds_alternative<bool>(captured->value) && std::get<bool>(captured->value);
  };
  const bool restricted = is_entry && flag("__restrict__") && !flag("__no_restrict__");
  size_t next_meta_value = 0;
  for (const ast::Parameter& p : def.parameters) {
    if (p.stars != 0) fail(p.position, "A kernel can't have variable arguments.");
    if (!is_entry && !strict() && is_meta_parameter(p)) {
      bind(p.name, Value{meta_values.at(next_meta_value++)});
      function.parameter_types.push_back({NoneValue{}});
      continue;
    }
    if (p.annotation == nullptr) fail(p.position, "Type annotation required for function parameters.");
    const auto count = is_entry ? environment_->parameter_count(p.name) : std::nullopt;
    if (count && !count->items) {
      bind(p.name, Value{});
      function.parameter_types.emplace_back();
      continue;
    }
    const auto known = value.globals->annotation(p.name);
    Value annotation = known ? to_value(*known, pool_) : evaluate_in_globals(value, p.annotation);
    if (count) annotation = make_tuple(ValueList(static_cast<size_t>(*count->items), annotation));
    const size_t first = function.params.size();
    Value parameter = declare_parameter({p.position, restricted}, annotation, p.name, function);
    function.parameter_types.push_back(annotation);
    tir::VarPtr var = parameter.is_expr() ? function.params.back() : nullptr;
    const bool record = parameter.as<RecordValue>() != nullptr;
    bind(p.name, std::move(parameter), std::move(var));
    if (record) {
      frame.scopes.back()[p.name].fields.assign(function.params.begin() + static_cast<ptrdiff_t>(first),
                                                function.params.end());
    }
  }
  if (def.returns != nullptr) {
    const auto known = value.globals->annotation("return");
    const Value annotation = known ? to_value(*known, pool_) : evaluate_in_globals(value, def.returns);
    if (const auto* type = annotation.as<TypeValue>()) {
      function.return_type = type->type;
      function.has_return_annotation = true;
    } else if (!annotation.is_none()) {
      fail(def.returns->position,
           fmt::format("The type annotation of return value of function \"{}\" is not supported.", def.name));
    }
  }

  BlockGuard body(*this);
  frame.block = blocks_.back().block;
  {
    const ScopeGuard scope(*this);
    run_body(def.body);
  }
  auto result = std::make_shared<tir::PrimFunc>();
  result->name = name;
  result->params = function.params;
  result->return_type = function.return_type;
  result->inline_hint = function.hint;
  result->span = {def.file->name, def.position.line, def.position.column};
  result->body = tir::block(body.take());
  compiled_[name] = std::move(result);
  in_progress_.erase(&def);
  return function;
}

Value Compiler::call_prim_func(const FunctionValue& value, const CallArguments& arguments, Position position) {
  const ast::FunctionDef& def = *value.definition;
  if (in_progress_.contains(&def)) {
    for (const auto& [known, function] : functions_) {
      if (known == &def && function->is_entry) fail(position, "current not support entry function as subroutines");
    }
    fail(position, fmt::format("The function \"{}\" calls itself; recursion is not supported.", def.name));
  }
  const std::string& name = def.name;

  const size_t all = def.parameters.size();
  const size_t required =
      static_cast<size_t>(std::count_if(def.parameters.begin(), def.parameters.end(),
                                        [](const ast::Parameter& p) { return p.default_value == nullptr; }));
  const size_t given = arguments.positional.size() + arguments.keywords.size();
  if (given > all || given < required) {
    // Fewer than required can still be "missing" rather than a wrong count only when every name is known; upstream
    // counts first.
    if (required == all)
      fail(position, fmt::format("The function \"{}\" expect {} args, but got: \"{}\".", name, all, given));
    fail(position,
         fmt::format("The function \"{}\" expect {} to {} args, but got: \"{}\".", name, required, all, given));
  }
  const auto join = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
    return text;
  };
  std::vector<std::string> unknown, duplicate, missing;
  std::vector<std::optional<Value>> bound(all);
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = arguments.positional[i];
  for (const auto& argument : arguments.keywords) {
    const std::string& keyword = argument.first;
    const auto found = std::find_if(def.parameters.begin(), def.parameters.end(),
                                    [&](const ast::Parameter& p) { return p.name == keyword; });
    if (found == def.parameters.end()) {
      unknown.push_back(keyword);
      continue;
    }
    auto& slot = bound[static_cast<size_t>(found - def.parameters.begin())];
    if (slot) duplicate.push_back(keyword);
    slot = argument.second;
  }
  if (!unknown.empty())
    fail(position, fmt::format("The function \"{}\" got unexpect keyword args: \"{}\".", name, join(unknown)));
  if (!duplicate.empty())
    fail(position, fmt::format("The function \"{}\" got multiple values for args: \"{}\".", name, join(duplicate)));
  for (size_t i = 0; i < all; ++i) {
    if (bound[i]) continue;
    if (def.parameters[i].default_value == nullptr) {
      missing.push_back(def.parameters[i].name);
    } else {
      bound[i] = parameter_default(value, def.parameters[i]);
    }
  }
  if (!missing.empty())
    fail(position,
         fmt::format("The function \"{}\" missing \"{}\" args: \"{}\".", name, missing.size(), join(missing)));

  const auto is_meta = [&](size_t i) { return !strict() && is_meta_parameter(def.parameters[i]); };
  std::vector<int64_t> meta_values;
  for (size_t i = 0; i < all; ++i) {
    if (!is_meta(i)) continue;
    const std::optional<int64_t> number = bound[i]->integer();
    if (!number) {
      fail(position,
           fmt::format("The {}-th arg expect an integer known at compile time (parameter \"{}\" of function \"{}\").",
                       i + 1, def.parameters[i].name, name));
    }
    meta_values.push_back(*number);
  }
  const Function& callee = compile_prim_func(value, false, def.name, meta_values);

  std::vector<tir::Expr> args;
  for (size_t i = 0; i < all; ++i) {
    if (is_meta(i)) continue;
    if (i >= callee.parameter_types.size()) throw Diagnosed{};  // there is an error in the callee's signature
    const ArgumentName place{fmt::format("{}-th arg", i + 1), fmt::format("{}-th", i + 1)};
    for (tir::Expr& e : leaves(fit(callee.parameter_types[i], *bound[i], place, position)))
      args.push_back(std::move(e));
  }
  return {tir::make_expr(callee.return_type, tir::FunctionCall{callee.name, std::move(args)}, span(position))};
}

std::vector<std::pair<std::string, Value>> Compiler::bind_python_arguments(const FunctionValue& value,
                                                                           const CallArguments& arguments,
                                                                           Position position) {
  const ast::FunctionDef& def = *value.definition;
  std::vector<std::pair<std::string, Value>> bound;
  std::vector<bool> used(arguments.keywords.size());
  size_t next = 0;
  for (const ast::Parameter& p : def.parameters) {
    if (p.stars == 1) {
      bound.emplace_back(p.name,
                         make_tuple(ValueList(arguments.positional.begin() +
                                                  static_cast<ptrdiff_t>(std::min(next, arguments.positional.size())),
                                              arguments.positional.end())));
      next = arguments.positional.size();
      continue;
    }
    if (p.stars == 2) {
      ValueMap items;
      for (size_t k = 0; k < arguments.keywords.size(); ++k) {
        if (!used[k]) items.emplace_back(Value{arguments.keywords[k].first}, arguments.keywords[k].second);
        used[k] = true;
      }
      bound.emplace_back(p.name, Value{DictValue{pool_.add(std::move(items))}});
      continue;
    }
    std::optional<Value> v;
    if (next < arguments.positional.size()) v = arguments.positional[next++];
    for (size_t k = 0; k < arguments.keywords.size(); ++k) {
      if (arguments.keywords[k].first != p.name) continue;
      if (v) fail(position, fmt::format("The function \"{}\" got multiple values for args: \"{}\".", def.name, p.name));
      v = arguments.keywords[k].second;
      used[k] = true;
    }
    if (!v && p.default_value != nullptr) v = parameter_default(value, p);
    if (!v) fail(position, fmt::format("The function \"{}\" missing \"1\" args: \"{}\".", def.name, p.name));
    bound.emplace_back(p.name, std::move(*v));
  }
  if (next < arguments.positional.size()) {
    fail(position, fmt::format("The function \"{}\" expect {} args, but got: \"{}\".", def.name, def.parameters.size(),
                               arguments.positional.size()));
  }
  for (size_t k = 0; k < used.size(); ++k) {
    if (!used[k])
      fail(position, fmt::format("The function \"{}\" got unexpect keyword args: \"{}\".", def.name,
                                 arguments.keywords[k].first));
  }
  return bound;
}

void Compiler::check_plain_annotations(const FunctionValue& value, Position position) {
  const auto names_script = [&](const ast::ExprPtr& annotation, const std::string& parameter) {
    if (const auto known = value.globals->annotation(parameter)) {
      const auto* opaque = std::get_if<CapturedOpaque>(&known->value);
      return std::holds_alternative<CapturedType>(known->value) || (opaque != nullptr && !opaque->script.empty());
    }
    const ast::Expr* e = annotation.get();
    while (true) {
      if (const auto* call = e->as<ast::Call>())
        e = call->callee.get();
      else if (const auto* attribute = e->as<ast::Attribute>())
        e = attribute->object.get();
      else
        break;
    }
    const auto* name = e->as<ast::Name>();
    if (name == nullptr) return false;
    const auto found = lookup_global(value.globals, name->id, position);
    return found && found->as<ModuleValue>() != nullptr && found->as<ModuleValue>()->path == "S";
  };
  const auto refuse = [&](const std::string& what) {
    fail(position, fmt::format("The {} of pure Python function \"{}\" can't be annotated as any type in \"S\" space, "
                               "forget to decorate it "
                               "using \"S.prim_func\"?",
                               what, value.definition->name));
  };
  for (const ast::Parameter& p : value.definition->parameters) {
    if (p.annotation != nullptr && names_script(p.annotation, p.name)) refuse(fmt::format("parameter \"{}\"", p.name));
  }
  if (value.definition->returns != nullptr && names_script(value.definition->returns, "return")) refuse("return value");
}

// A function or lambda within a plain function. Its free names keep the values they have here.
Value Compiler::local_function(const ast::FunctionPtr& definition, Position position) {
  ValueScope closure;
  for (const Scope& scope : frame_->scopes) {
    for (const auto& [name, binding] : scope) closure.insert_or_assign(name, binding.value);
  }
  step(position, closure.size());
  return {FunctionValue{definition, frame_->globals, closure.empty() ? nullptr : pool_.add(std::move(closure))}};
}

Value Compiler::inline_function(const FunctionValue& value, const CallArguments& arguments, Position position) {
  const ast::FunctionDef& def = *value.definition;
  Frame frame;
  frame.kind = kind_of(value);
  frame.definition = value.definition;
  frame.file = def.file;
  frame.globals = value.globals;
  frame.caller = frame_;
  frame.call_position = position;
  frame.block = blocks_.empty() ? 0 : blocks_.back().block;
  frame.scopes.emplace_back();
  if (value.closure != nullptr) {
    for (const auto& [name, v] : *value.closure) frame.scopes.back()[name] = Binding{v, nullptr, frame.block, false};
    frame.scopes.emplace_back();
  }
  if (frame.kind == FunctionKind::kPlain) check_plain_annotations(value, position);
  if (value.embedded != nullptr) frame.sees_caller = !value.embedded->hygienic;
  for (const ast::ExprPtr& decorator : def.decorators) {
    if (value.embedded != nullptr) break;
    const auto [kind, call] = decorator_of(decorator);
    const ast::ExprPtr* hygienic = decorator_argument(call, "hygienic");
    if (kind != "macro" || hygienic == nullptr) continue;
    const std::optional<bool> flag = truth(evaluate_in_globals(value, *hygienic));
    frame.sees_caller = flag && !*flag;
  }
  if (value.embedded != nullptr && value.embedded->callable != nullptr) {
    const auto known = [&](const Value& v) {
      std::set<const void*> seen;
      return !holds_run_time_value(v, seen);
    };
    if (std::all_of(arguments.positional.begin(), arguments.positional.end(), known) &&
        std::all_of(arguments.keywords.begin(), arguments.keywords.end(),
                    [&](const auto& keyword) { return known(keyword.second); })) {
      return call_host(CapturedOpaque{value.embedded->callable, def.name}, arguments, position);
    }
  }
  auto bound = bind_python_arguments(value, arguments, position);
  check_record_arguments(value, bound, position);
  frame.host = frame.kind == FunctionKind::kPlain && std::none_of(bound.begin(), bound.end(), [&](const auto& b) {
                 std::set<const void*> seen;
                 return holds_run_time_value(b.second, seen);
               });
  if (++call_depth_ > kMaxCallDepth) {
    --call_depth_;
    fail(position, fmt::format("The function \"{}\" is called too deeply; recursion is not supported.", def.name));
  }

  std::set<std::string> assigned;
  collect_assigned(def.body, &assigned);
  for (auto& [name, v] : bound) {
    if (const auto* e = v.as<tir::Expr>()) {
      // An argument that the body assigns to gets a variable of its own, as a Python parameter has.
      if (!without_kernel() && (assigned.contains(name) || !is_trivial(*e))) {
        tir::VarPtr var = define(name, *e, position);
        Value ref{tir::var_ref(var)};
        frame.scopes.back()[name] = Binding{std::move(ref), std::move(var), frame.block, false};
        continue;
      }
    } else if (const auto* record = v.as<RecordValue>();
               record != nullptr && assigned.contains(name) && !is_python_record(*record)) {
      frame.scopes.back()[name] = record_variable(name, *record, position);
      continue;
    } else if (frame.kind == FunctionKind::kMacro && v.is_number() && assigned.contains(name)) {
      tir::VarPtr var = define(name, to_expr(v, position), position);
      Value ref{tir::var_ref(var)};
      frame.scopes.back()[name] = Binding{std::move(ref), std::move(var), frame.block, false};
      continue;
    }
    frame.scopes.back()[name] = Binding{materialize(v, name, position), nullptr, frame.block, false};
  }

  struct Restore {
    Compiler& c;
    Frame* frame;
    ~Restore() {
      c.frame_ = frame;
      --c.call_depth_;
    }
  } restore{*this, std::exchange(frame_, &frame)};
  run_body(def.body);
  return std::move(frame.result);
}

// Whether the pointer may lead to memory that ends with the function. `seen`: the variables on the way here.
bool Compiler::is_stack_pointer(const tir::Expr& value, std::set<const tir::Var*>& seen) {
  const tir::Expr* e = &value;
  while (true) {
    if (const auto* ref = (*e)->as<tir::VarRef>()) {
      if (std::find(function_->params.begin(), function_->params.end(), ref->var) != function_->params.end())
        return false;
      const auto roots = function_->pointer_roots.find(ref->var.get());
      if (roots == function_->pointer_roots.end()) return true;
      if (!seen.insert(ref->var.get()).second) return false;
      return std::any_of(roots->second.begin(), roots->second.end(),
                         [&](const tir::Expr& root) { return is_stack_pointer(root, seen); });
    }
    if (const auto* cast = (*e)->as<tir::Cast>()) {
      if (!cast->operand->type.pointer) return false;  // made from an integer
      e = &cast->operand;
    } else if (const auto* binary = (*e)->as<tir::Binary>()) {
      e = binary->lhs->type.pointer ? &binary->lhs : &binary->rhs;
    } else if (const auto* select = (*e)->as<tir::Select>()) {
      if (is_stack_pointer(select->if_true, seen)) return true;
      e = &select->if_false;
    } else if (const auto* call = (*e)->as<tir::FunctionCall>()) {
      // The result leads where one of the arguments does.
      return std::any_of(call->args.begin(), call->args.end(),
                         [&](const tir::Expr& a) { return a->type.pointer && is_stack_pointer(a, seen); });
    } else {
      return (*e)->as<tir::AddressOf>() != nullptr;
    }
  }
}

void Compiler::check_returned_pointer(const tir::Expr& value, Position position) {
  std::set<const tir::Var*> seen;
  if (is_stack_pointer(value, seen))
    fail(position, fmt::format("The function \"{}\" return a stack pointer. Please check it carefully.",
                               function_->definition->name));
}

}  // namespace aipu::dsl
