// Frames, names, emission: what all other parts of the compiler stand on.
#include "kernels/dsl/compiler.h"

#include <fmt/format.h>

#include <new>

#include "codegen/tir/effects.h"
#include "kernels/dsl/compiler_guards.h"

namespace aipu::dsl {

Compiler::Compiler(std::shared_ptr<Environment> environment, Diagnostics& diagnostics)
    : environment_(std::move(environment)), diagnostics_(diagnostics) {}

void Compiler::fail(Position position, std::string_view text) {
  std::vector<std::string> notes;
  for (const Frame* f = frame_; f != nullptr && f->caller != nullptr && notes.size() < 8; f = f->caller) {
    notes.push_back(fmt::format("in \"{}\" called from {}:{}:{}", f->definition->name, *f->caller->file->name,
                                f->call_position.line, f->call_position.column));
  }
  diagnostics_.error(frame_->file, position, text, notes);
  throw Diagnosed{};
}

void Compiler::fail(Position position, const Status& status) { fail(position, status.message()); }

void Compiler::step(Position position, size_t amount) {
  steps_ += static_cast<int64_t>(amount);
  if (exhausted()) fail(position, "The kernel is too large after unrolling and inlining.");
}

tir::SourceSpan Compiler::span(Position position) const { return {frame_->file->name, position.line, position.column}; }

bool Compiler::strict() {
  if (!strict_) {
    const auto flag = environment_->lookup("__compass_strict__");
    strict_ = flag && std::holds_alternative<bool>(flag->value) && std::get<bool>(flag->value);
  }
  return *strict_;
}

const std::string& Compiler::target() {
  if (!target_) {
    const auto name = environment_->lookup("__compass_target__");
    target_ =
        name && std::holds_alternative<std::string>(name->value) ? std::get<std::string>(name->value) : std::string();
  }
  return *target_;
}

// --- names ---

Compiler::Binding* Compiler::find_local(Frame& frame, std::string_view name) {
  const std::string key(name);
  for (size_t i = frame.scopes.size(); i-- > 0;) {
    if (auto found = frame.scopes[i].find(key); found != frame.scopes[i].end()) return &found->second;
  }
  return frame.sees_caller && frame.caller != nullptr ? find_local(*frame.caller, name) : nullptr;
}

Value Compiler::lookup(const std::string& name, Position position) {
  if (const Binding* binding = find_local(*frame_, name)) {
    if (binding->value.as<PoisonValue>() != nullptr) throw Diagnosed{};
    return binding->value;
  }
  const Frame* definer = frame_;
  while (definer->sees_caller && definer->caller != nullptr) definer = definer->caller;
  if (auto value = lookup_global(definer->globals, name, position)) {
    if (value->as<PoisonValue>() != nullptr) throw Diagnosed{};
    return *value;
  }
  if (definer != frame_) {
    // What a macro's own file defines is still reachable behind what its user sees.
    if (auto value = lookup_global(frame_->globals, name, position)) return *value;
  }
  if (builtins().contains(name)) return {BuiltinFunction{name}};
  fail(position, fmt::format("Undefined variable: {}", name));
}

std::optional<Value> Compiler::lookup_global(const std::shared_ptr<Environment>& globals, const std::string& name,
                                             Position position) {
  // Once per name: a list is one list wherever it is used.
  const auto known = global_cache_.find({globals.get(), name});
  if (known != global_cache_.end()) return known->second;
  if (auto captured = globals->lookup(name)) return global_cache_[{globals.get(), name}] = to_value(*captured, pool_);
  if (auto* file = dynamic_cast<FileEnvironment*>(globals.get())) {
    if (const auto source = file->imported(name)) return lookup_global(source->first, source->second, position);
    if (const std::string* import = file->import(name)) {
      const bool script = import->ends_with(".script") || *import == "script";
      return Value{ModuleValue{script ? "S" : *import}};
    }
    if (file->assignment(name) != nullptr || file->record(name) != nullptr)
      return top_level_value(globals, *file, name, position);
  }
  if (name == "S") return Value{ModuleValue{"S"}};
  return std::nullopt;
}

// What a file assigns to a name, or the record that it defines under it: worked out once.
Value Compiler::top_level_value(const std::shared_ptr<Environment>& globals, const FileEnvironment& file,
                                const std::string& name, Position position) {
  const auto key = std::make_pair(static_cast<const Environment*>(globals.get()), name);
  if (!evaluating_.insert(key).second) fail(position, fmt::format("The definition of \"{}\" refers to itself.", name));
  auto definition = std::make_shared<ast::FunctionDef>();
  definition->name = name;
  definition->file = file.file();
  struct Leave {
    std::set<std::pair<const Environment*, std::string>>& evaluating;
    const std::pair<const Environment*, std::string>& key;
    std::map<std::pair<const Environment*, std::string>, Value>& cache;
    ~Leave() {
      evaluating.erase(key);
      try {
        cache.try_emplace(key, Value{PoisonValue{}});  // after an error, which is then known
      } catch (const std::bad_alloc&) {
        // It is met again where the name is used again.
      }
    }
  } leave{evaluating_, key, global_cache_};
  const FunctionValue module{definition, globals};
  const ast::ExprPtr value = file.assignment(name);
  Value result = value != nullptr ? evaluate_in_globals(module, value) : record_type(*file.record(name), module);
  if (const auto* meta = result.as<MetaValue>()) result = *meta->value;
  global_cache_[key] = result;
  return result;
}

void Compiler::bind(const std::string& name, Value value, tir::VarPtr var) {
  frame_->scopes.back()[name] =
      Binding{std::move(value), std::move(var), blocks_.empty() ? 0 : blocks_.back().block, false};
}

// --- emission ---

void Compiler::emit(tir::Stmt stmt) { blocks_.back().statements.push_back(std::move(stmt)); }

void Compiler::emit(Position position, decltype(tir::StmtNode::node) node) {
  if (blocks_.empty()) fail(position, "This can only be used inside a kernel.");
  emit(tir::make_stmt(std::move(node), span(position)));
}

tir::VarPtr Compiler::define(const std::string& name, tir::Expr value, Position position, bool non_negative) {
  if (value->type.is_void()) fail(position, "The right hand side yields no value.");
  auto var = std::make_shared<tir::Var>();
  var->name = name;
  var->type = value->type;
  var->non_negative = non_negative;
  tir::VarPtr result = std::move(var);
  if (function_ != nullptr && result->type.pointer) function_->pointer_roots[result.get()] = {value};
  emit(position, tir::Define{result, std::move(value)});
  return result;
}

bool Compiler::is_trivial(const tir::Expr& value) {
  return value->as<tir::VarRef>() != nullptr || value->as<tir::IntImm>() != nullptr ||
         value->as<tir::FloatImm>() != nullptr || value->as<tir::StringImm>() != nullptr;
}

bool Compiler::reads_memory(const tir::Expr& value) { return tir::depends_on_memory(value); }

bool Compiler::has_effects(const tir::Expr& value) { return !tir::is_repeatable(value); }

tir::Expr Compiler::materialize(const tir::Expr& value, const std::string& name, Position position) {
  if (without_kernel() || is_trivial(value) || value->type.is_void()) return value;
  return tir::var_ref(define(name, value, position));
}

Value Compiler::materialize(Value value, const std::string& name, Position position) {
  if (const auto* e = value.as<tir::Expr>()) return {materialize(*e, name, position)};
  if (const auto* record = value.as<RecordValue>()) return materialize_record(*record, name, position);
  if (ValueList* items = value.elements()) {
    std::set<const void*> seen;
    materialize_items(*items, name, position, seen);
  }
  return value;
}

// In place, so that a list stays the same list.
void Compiler::materialize_items(ValueList& items, const std::string& name, Position position,
                                 std::set<const void*>& seen) {
  constexpr size_t kMaxContainers = 1000;
  if (!seen.insert(&items).second) return;
  if (seen.size() > kMaxContainers) fail(position, "The value consists of too many containers.");
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item_name = fmt::format("{}_{}", name, i);
    if (const auto* e = items[i].as<tir::Expr>()) {
      items[i] = {materialize(*e, item_name, position)};
    } else if (const auto* record = items[i].as<RecordValue>()) {
      items[i] = materialize_record(*record, item_name, position);
    } else if (ValueList* inner = items[i].elements()) {
      materialize_items(*inner, item_name, position, seen);
    }
  }
}

// --- the kernel, and what can be done without one ---

Value Compiler::evaluate_at_top_level(const FunctionValue& file, const ast::ExprPtr& expr) {
  Frame outer;
  outer.definition = file.definition;
  outer.file = file.definition->file;
  outer.globals = file.globals;
  frame_ = &outer;
  return evaluate_in_globals(file, expr);
}

Value Compiler::call_at_top_level(const FunctionValue& function, const CallArguments& arguments) {
  Frame outer;
  outer.definition = function.definition;
  outer.file = function.definition->file;
  outer.globals = function.globals;
  frame_ = &outer;
  const Position here = function.definition->position;
  if (kind_of(function) != FunctionKind::kPlain) fail(here, "A kernel function can only be called inside a kernel.");
  return inline_function(function, arguments, here);
}

tir::Module Compiler::compile(const FunctionValue& entry, std::string_view kernel_name) {
  Frame outer;
  outer.definition = entry.definition;
  outer.file = entry.definition->file;
  outer.globals = entry.globals;
  frame_ = &outer;
  if (kind_of(entry) != FunctionKind::kPrimFunc)
    fail(entry.definition->position,
         fmt::format("\"{}\" must be decorated by \"S.prim_func\".", entry.definition->name));
  compile_prim_func(entry, true,
                    std::string(kernel_name.empty() ? std::string_view(entry.definition->name) : kernel_name));
  frame_ = nullptr;
  tir::Module module;
  if (!diagnostics_.empty()) return module;
  for (const std::string& name : compile_order_) module.functions.push_back(compiled_.at(name));
  return module;
}

}  // namespace aipu::dsl
