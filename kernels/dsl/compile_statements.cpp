// Statements other than control flow: assignments in all their forms.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/tir/visit.h"
#include "kernels/dsl/compiler.h"
#include "kernels/dsl/compiler_guards.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

bool refers_to(const tir::Expr& e, const tir::Var* var) {
  bool found = false;
  tir::walk(
      tir::make_stmt(tir::Evaluate{e}),
      [&](const tir::Expr& node) {
        if (node == nullptr) return;
        const auto* ref = node->as<tir::VarRef>();
        const auto* address = node->as<tir::AddressOf>();
        found = found || (ref != nullptr && ref->var.get() == var) || (address != nullptr && address->var.get() == var);
      },
      [](const tir::Stmt&) {});
  return found;
}

class ReplaceVar : public tir::Mutator {
 public:
  ReplaceVar(const tir::Var* from, tir::Expr to) : from_(from), to_(std::move(to)) {}
  using tir::Mutator::mutate;
  tir::Expr mutate(const tir::Expr& e) override {
    if (e != nullptr && e->as<tir::VarRef>() != nullptr && e->as<tir::VarRef>()->var.get() == from_) return to_;
    return Mutator::mutate(e);
  }

 private:
  const tir::Var* from_;
  tir::Expr to_;
};

const std::vector<ast::ExprPtr>* target_elements(const ast::ExprPtr& target) {
  if (const auto* tuple = target->as<ast::TupleDisplay>()) return &tuple->elements;
  if (const auto* list = target->as<ast::ListDisplay>()) return &list->elements;
  return nullptr;
}

}  // namespace

Compiler::Flow Compiler::run_body(const ast::Body& body) {
  for (const ast::StmtPtr& stmt : body) {
    Flow flow = Flow::kNext;
    if (frame_->kind == FunctionKind::kPrimFunc) {
      Frame* const frame = frame_;
      try {
        flow = run_statement(*stmt);
      } catch (const Diagnosed&) {
        frame_ = frame;
        if (diagnostics_.full() || exhausted()) throw;
        poison_targets(*stmt);
      }
    } else {
      flow = run_statement(*stmt);
    }
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

// After an error nobody wants to read that the name it should have defined is undefined.
void Compiler::poison_targets(const ast::Stmt& stmt) {
  const auto* assign = stmt.as<ast::Assign>();
  if (assign == nullptr) return;
  for (const ast::ExprPtr& target : assign->targets) {
    const std::vector<ast::ExprPtr>* elements = target_elements(target);
    const std::vector<ast::ExprPtr> one = {target};
    for (const ast::ExprPtr& e : elements != nullptr ? *elements : one) {
      const auto* name = e->as<ast::Name>();
      if (name != nullptr && find_local(*frame_, name->id) == nullptr) bind(name->id, Value{PoisonValue{}});
    }
  }
}

Compiler::Flow Compiler::run_statement(const ast::Stmt& stmt) {
  const Position here = stmt.position;
  step(here);
  if (const auto* assign_node = stmt.as<ast::Assign>()) {
    assign_statement(*assign_node, here);
  } else if (const auto* expression = stmt.as<ast::ExpressionStmt>()) {
    if (expression->value->as<ast::StringLiteral>() != nullptr) return Flow::kNext;  // a docstring
    const Value value = eval(expression->value);
    if (const auto* e = value.as<tir::Expr>()) {
      // An expression without an effect is dropped, as Python drops it.
      if (has_effects(*e)) emit(here, tir::Evaluate{*e});
    }
  } else if (const auto* aug = stmt.as<ast::AugAssign>()) {
    augmented_assign(*aug, here);
  } else if (const auto* if_node = stmt.as<ast::If>()) {
    return if_statement(*if_node, here);
  } else if (const auto* for_node = stmt.as<ast::For>()) {
    return for_statement(*for_node, here);
  } else if (const auto* while_node = stmt.as<ast::While>()) {
    while_statement(*while_node, here);
  } else if (const auto* return_node = stmt.as<ast::Return>()) {
    return return_statement(*return_node, here);
  } else if (const auto* with = stmt.as<ast::With>()) {
    return with_statement(*with, here);
  } else if (stmt.as<ast::Break>() != nullptr) {
    if (frame_->loops.empty()) fail(here, "'break' outside loop");
    const auto [kind, block] = frame_->loops.back();
    if (kind == LoopKind::kRuntime) {
      emit(here, tir::Break{});
    } else if (kind == LoopKind::kHost && block == (blocks_.empty() ? 0 : blocks_.back().block)) {
      return Flow::kBreak;
    } else {
      fail(here, "'break' can't leave a loop that is unrolled while parsing (S.unroll).");
    }
  } else if (const auto* ann = stmt.as<ast::AnnAssign>()) {
    // Our extension: `x: S.i32 = e` converts e to the type, as S.i32(e) does.
    const Value annotation = eval(ann->annotation);
    const auto* type = annotation.as<TypeValue>();
    if (type == nullptr) fail(ann->annotation->position, "The annotation of a variable must be a type.");
    if (ann->value == nullptr) fail(here, "A variable must be given a value where it is declared.");
    assign(ann->target, cast_value(eval(ann->value), type->type, here), here);
  } else if (const auto* import = stmt.as<ast::Import>()) {
    // Only debuggers are imported here; they work in PySim and do nothing in the compiled kernel.
    for (const auto& [path, name] : import->names)
      bind(name, Value{path.ends_with(".set_trace") ? Value{BuiltinFunction{"set_trace"}} : Value{ModuleValue{path}}});
  } else if (stmt.as<ast::Pass>() != nullptr) {
  } else if (const auto* definition = stmt.as<ast::Class>()) {
    fail(here, definition->definition->is_record
                   ? "A record can't be defined inside of a function, please define it outside."
                   : "Visitor of AST node is not implemented: ClassDef");
  } else if (const auto* unsupported = stmt.as<ast::UnsupportedStmt>()) {
    fail(here, fmt::format("Visitor of AST node is not implemented: {}", unsupported->node));
  } else {
    if (frame_->kind != FunctionKind::kPlain) fail(here, "Visitor of AST node is not implemented: FunctionDef");
    const auto* function = stmt.as<ast::Function>();
    bind(function->function->name, local_function(function->function, here));
  }
  return Flow::kNext;
}

void Compiler::assign_statement(const ast::Assign& node, Position position) {
  if (node.targets.size() > 1) fail(position, "Consequential assignments like 'a = b = c' are not supported.");
  const ast::ExprPtr& target = node.targets[0];
  if (const std::vector<ast::ExprPtr>* targets = target_elements(target)) {
    const Value value = eval(node.value);
    if (const auto* e = value.as<tir::Expr>(); e != nullptr || value.as<BufferValue>() != nullptr) {
      (void)e;
      fail(position, "The right hand side can't be unpacked.");
    }
    return assign_tuple(*targets, unpacked(value, position), position);
  }
  if (const auto* name = target->as<ast::Name>()) {
    const std::string saved = std::exchange(name_hint_, name->id);
    struct Restore {
      std::string& hint;
      const std::string& saved;
      ~Restore() { hint = saved; }
    } restore{name_hint_, saved};
    Value value = eval(node.value);
    // `a = b` of two run-time variables copies, also for pointers.
    return assign_name(name->id, std::move(value), position);
  }
  if (const auto* subscripted = target->as<ast::Subscript>()) {
    // Python evaluates the value before the target.
    const Value value = eval(node.value);
    Value object{NoneValue{}};
    const size_t before = blocks_.empty() ? 0 : blocks_.back().statements.size();
    const std::vector<Value> indices = eval_indices(*subscripted, &object);
    (void)before;
    return store(subscripted->object, object, indices, value, position);
  }
  assign(target, eval(node.value), position);
}

void Compiler::assign(const ast::ExprPtr& target, Value value, Position position) {
  if (const auto* name = target->as<ast::Name>()) return assign_name(name->id, std::move(value), position);
  if (const auto* subscripted = target->as<ast::Subscript>()) {
    Value object{NoneValue{}};
    const std::vector<Value> indices = eval_indices(*subscripted, &object);
    return store(subscripted->object, object, indices, value, position);
  }
  if (const std::vector<ast::ExprPtr>* targets = target_elements(target))
    return assign_tuple(*targets, unpacked(value, position), position);
  if (const auto* field = target->as<ast::Attribute>()) {
    const Value object = eval(field->object);
    if (const auto* record = object.as<RecordValue>()) {
      record_field(*record, field->name, target->position);
      fail(target->position,
           fmt::format("A field of a record can't be assigned to; make another record: {}(...).", record->type->name));
    }
  }
  fail(target->position, "Can't assign to this expression.");
}

// The parts of S.meta_var((a, b)) are compile-time values like the whole.
ValueList Compiler::unpacked(const Value& value, Position position) {
  const auto* meta = value.as<MetaValue>();
  if (meta == nullptr) return iterate(value, position);
  ValueList parts = iterate(*meta->value, position);
  for (Value& part : parts) part = {MetaValue{std::make_shared<Value>(part)}};
  return parts;
}

void Compiler::assign_tuple(const std::vector<ast::ExprPtr>& targets, ValueList values, Position position) {
  if (targets.size() != values.size()) {
    fail(position, targets.size() > values.size()
                       ? fmt::format("not enough values to unpack (expected {}, got {})", targets.size(), values.size())
                       : fmt::format("too many values to unpack (expected {})", targets.size()));
  }
  std::set<std::string> names;
  bool only_names = true;
  for (const ast::ExprPtr& target : targets) {
    const auto* name = target->as<ast::Name>();
    if (name == nullptr)
      only_names = false;
    else if (name->id != "_" && !names.insert(name->id).second)
      fail(position, "Duplicate vars assigned.");
  }
  const bool assigns_record = std::any_of(targets.begin(), targets.end(), [&](const ast::ExprPtr& target) {
    const auto* name = target->as<ast::Name>();
    const Binding* binding = name != nullptr ? find_local(*frame_, name->id) : nullptr;
    return binding != nullptr && !binding->fields.empty();
  });
  for (Value& value : values) {
    // Its fields may be variables that change before it is assigned.
    const auto* record = value.as<RecordValue>();
    if (assigns_record && record != nullptr && !is_python_record(*record))
      value = record_variable("tmp", *record, position).value;
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto* name = targets[i]->as<ast::Name>();
    const Binding* binding = name != nullptr ? find_local(*frame_, name->id) : nullptr;
    if (binding != nullptr && binding->var != nullptr) {
      // The variable is about to change: later right hand sides read a copy.
      tir::Expr copy;
      const tir::Var* var = binding->var.get();
      for (size_t j = i + 1; j < values.size(); ++j) {
        const auto* e = values[j].as<tir::Expr>();
        if (e == nullptr || !refers_to(*e, var)) continue;
        if (copy == nullptr) copy = tir::var_ref(define("tmp_" + name->id, tir::var_ref(binding->var), position));
        values[j] = {ReplaceVar(var, copy).mutate(*e)};
      }
    } else if (!only_names) {
      // A store may change what later ones read.
      for (size_t j = i + 1; j < values.size(); ++j) {
        if (const auto* e = values[j].as<tir::Expr>(); e != nullptr && reads_memory(*e))
          values[j] = materialize(values[j], "tmp", position);
      }
    }
    const std::string saved = std::exchange(name_hint_, name != nullptr ? name->id : "");
    assign(targets[i], values[i], position);
    name_hint_ = saved;
  }
}

void Compiler::assign_name(const std::string& name, Value value, Position position) {
  if (value.as<PoisonValue>() != nullptr) throw Diagnosed{};
  Binding* existing = find_local(*frame_, name);
  const bool plain = frame_->kind == FunctionKind::kPlain;
  const int block = blocks_.empty() ? 0 : blocks_.back().block;
  if (existing != nullptr && existing->loop_variable)
    fail(position, fmt::format("The loop variable \"{}\" can't be assigned.", name));

  if (const auto* meta = value.as<MetaValue>()) return bind(name, *meta->value);
  if (value.as<ArrayValue>() != nullptr && !plain) {
    CallArguments arguments;
    const CapturedArray& array = *value.as<ArrayValue>()->array;
    ValueList shape;
    for (const int64_t d : array.shape) shape.push_back({d});
    arguments.positional = {make_tuple(std::move(shape)), Value{std::string(dtype_name(array.dtype))}, value};
    value = allocate_const(arguments, position);
  }
  if (value.as<std::string>() != nullptr && !plain) {
    fail(position, "Can't define string inside primitive function, please define it outside.");
  }
  if (without_kernel()) {
    // Plain Python: a name is a name.
    if (existing == nullptr) return bind(name, std::move(value));
    *existing = Binding{std::move(value), nullptr, block, false};
    return;
  }
  if (const auto* record = value.as<RecordValue>()) return assign_record(name, *record, position);
  const bool literal = value.is_number();
  if (value.is_expr() || (literal && !plain)) {
    const tir::Expr e = to_expr(value, position);
    if (e->type.is_void()) fail(position, "The right hand side yields no value.");
    const bool size_var = size_value_ != nullptr && e == size_value_;
    if (size_var && existing != nullptr) fail(position, fmt::format("Variable \"{}\" is redefined.", name));
    if (existing != nullptr && existing->var != nullptr) {
      const tir::Type& old = existing->var->type;
      const bool same = old == e->type || (old.pointer && e->type.pointer && old.pointee() == e->type.pointee());
      if (same && !(plain && existing->block == block)) {
        if (e->as<tir::VarRef>() != nullptr && e->as<tir::VarRef>()->var == existing->var) return;  // t = t + 0
        return set_variable(existing->var, existing->block, e, position);
      }
      if (!same && !(plain && existing->block == block)) {
        fail(position,
             fmt::format(
                 "Type mismatch assignment: \"{}\" vs. \"{}\", need to do the explicit type conversion for the right "
                 "hand side(i.e., new value).",
                 type_text(old), type_text(e->type)));
      }
      // In straight-line code of a plain function a name is simply bound anew, as in Python.
      tir::VarPtr var = define(name, e, position);
      Value ref{tir::var_ref(var)};
      *existing = Binding{std::move(ref), std::move(var), block, false};
      return;
    }
    if (existing != nullptr && existing->value.as<BufferValue>() != nullptr) {
      fail(position, "Unsupport reassign a buffer, maybe you can use pointer.");
    }
    if (existing != nullptr && existing->block != block) {
      fail(position, fmt::format("\"{}\" holds a compile-time value and can't change under run-time control flow; give "
                                 "it a run-time value "
                                 "first, e.g. S.i32(0).",
                                 name));
    }
    tir::VarPtr var = define(name, e, position, size_var);
    Value ref{tir::var_ref(var)};
    if (existing != nullptr) {
      *existing = Binding{std::move(ref), std::move(var), block, false};
    } else {
      bind(name, std::move(ref), std::move(var));
    }
    return;
  }
  // A compile-time value, or a buffer.
  if (existing != nullptr) {
    if (existing->value.as<BufferValue>() != nullptr && !plain)
      fail(position, "Unsupport reassign a buffer, maybe you can use pointer.");
    if (existing->var != nullptr && !plain) {
      fail(
          position,
          fmt::format(
              "Type mismatch assignment: \"{}\" vs. \"{}\", need to do the explicit type conversion for the right hand "
              "side(i.e., new value).",
              type_text(existing->var->type), kind_text(value)));
    }
    if (existing->block != block) {
      fail(position, fmt::format("\"{}\" can't change its compile-time value under run-time control flow; give it a "
                                 "run-time value first, e.g. S.i32(0).",
                                 name));
    }
    *existing = Binding{materialize(std::move(value), name, position), nullptr, block, false};
    return;
  }
  bind(name, materialize(std::move(value), name, position));
}

// `declared`: the block in which the variable was.
void Compiler::set_variable(const tir::VarPtr& var, int declared, const tir::Expr& value, Position position) {
  if (function_ != nullptr && var->type.pointer) {
    // In a branch or loop the pointer may keep what it was.
    std::vector<tir::Expr>& roots = function_->pointer_roots[var.get()];
    if (declared == blocks_.back().block) roots.clear();
    roots.push_back(value);
  }
  emit(position, tir::Assign{var, tir::cast(var->type, value, span(position))});
}

void Compiler::augmented_assign(const ast::AugAssign& node, Position position) {
  if (const auto* name = node.target->as<ast::Name>()) {
    const Value old = lookup(name->id, node.target->position);
    if (old.as<BufferValue>() != nullptr) fail(position, "Unsupport reassign a buffer, maybe you can use pointer.");
    const Value rhs = eval(node.value);
    if (const auto* list = old.as<ListValue>(); list != nullptr && node.op == ast::BinaryOp::kAdd) {
      for (const Value& v : iterate(rhs, position)) list->items->push_back(materialize(v, name->id, position));
      return;
    }
    return assign_name(name->id, binary(node.op, old, rhs, position), position);
  }
  const auto* subscripted = node.target->as<ast::Subscript>();
  if (subscripted == nullptr) fail(position, "Can't assign to this expression.");
  Value object{NoneValue{}};
  std::vector<Value> indices = eval_indices(*subscripted, &object);
  if (object.is_expr() && (*object.as<tir::Expr>())->type.is_vector())
    fail(position, "A lane of a vector variable can't be the target of an augmented assignment.");
  for (Value& index : indices) {
    // Used twice below.
    if (const auto* e = index.as<tir::Expr>(); e != nullptr && reads_memory(*e))
      index = materialize(index, "index", position);
  }
  const Value old = subscript(object, indices, subscripted->tuple_index, position);
  store(subscripted->object, object, indices, binary(node.op, old, eval(node.value), position), position);
}

}  // namespace aipu::dsl
