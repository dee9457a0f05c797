#include "codegen/lower/split_vectors.h"

#include "codegen/lower/vector_splitter.h"

namespace aipu::tir {

namespace {

bool mentions(const Expr& e, const std::unordered_set<const Var*>& vars) {
  bool found = false;
  walk(e, [&](const Expr& child) {
    const auto* ref = child->as<VarRef>();
    found |= ref != nullptr && vars.contains(ref->var.get());
  });
  return found;
}

}  // namespace

PrimFuncPtr VectorSplitter::run(const PrimFunc& function) {
  find_addressed(function);
  auto result = std::make_shared<PrimFunc>(function);
  result->params.clear();
  std::vector<Stmt> body;
  out_ = &body;
  for (const VarPtr& param : function.params) add_param(*result, param);
  // A result that is several registers is stored where the caller says.
  if (plan_.is_split(function.return_type)) {
    result_pointer_ = new_var("result", memory_pointer(function.return_type));
    result->params.push_back(result_pointer_);
    result->return_type = Type::void_type();
  } else {
    result->return_type = lower_type(function.return_type);
  }
  statements(function.body, body);
  result->body = block(std::move(body));
  return result;
}

void VectorSplitter::find_addressed(const PrimFunc& function) {
  walk(
      function.body,
      [&](const Expr& e) {
        if (const auto* address = e->as<AddressOf>(); address && plan_.is_split(address->var->type))
          addressed_.insert(address->var.get());
      },
      [](const Stmt&) {});
}

void VectorSplitter::add_param(PrimFunc& result, const VarPtr& param) {
  if (plan_.is_split(param->type)) {
    std::vector<VarPtr> parts = make_parts(*param);
    result.params.insert(result.params.end(), parts.begin(), parts.end());
    if (!lives_in_memory(param)) {
      parts_[param.get()] = std::move(parts);
      return;
    }
    const VarPtr memory = allocate(param->name, param->type);
    memories_[param.get()] = memory;
    Chunks values;
    for (const VarPtr& part : parts) values.push_back(var_ref(part));
    store_chunks(values, cut(param->type), param->type, var_ref(memory));
    return;
  }
  const Type type = lower_type(param->type);
  VarPtr lowered = param;
  if (type != param->type) {
    auto changed = std::make_shared<Var>(*param);
    changed->type = type;
    lowered = renamed_[param.get()] = changed;
  }
  result.params.push_back(lowered);
}

void VectorSplitter::statements(const Stmt& stmt, std::vector<Stmt>& into_body) {
  std::vector<Stmt>* outer = std::exchange(out_, &into_body);
  if (const auto* body = stmt->as<Block>()) {
    for (const Stmt& child : body->body) statement(child);
  } else {
    statement(stmt);
  }
  out_ = outer;
}

Stmt VectorSplitter::body_of(const Stmt& stmt) {
  std::vector<Stmt> result;
  statements(stmt, result);
  return make_stmt(Block{std::move(result)}, stmt->span);
}

void VectorSplitter::assign_parts(const std::vector<VarPtr>& parts, Chunks values) {
  std::unordered_set<const Var*> assigned;
  bool ordered = true;
  for (size_t k = 0; k < parts.size(); ++k) {
    ordered &= !mentions(values[k], assigned);
    assigned.insert(parts[k].get());
  }
  if (!ordered) {
    for (Expr& value : values) value = value->as<Broadcast>() ? value : define("v", value);
  }
  for (size_t k = 0; k < parts.size(); ++k) {
    const auto* same = values[k]->as<VarRef>();
    if (same == nullptr || same->var != parts[k]) emit(Assign{parts[k], values[k]});
  }
}

void VectorSplitter::statement(const Stmt& stmt) {
  if (!error_.ok()) return;
  const SourceSpan outer_span = span_;
  span_ = stmt->span;
  match(
      stmt,
      [&](const Define& n) {
        const Type type = n.var->type;
        if (!plan_.is_split(type)) {
          Expr value = scalar(n.value);
          VarPtr var = n.var;
          if (value && value->type != type) {
            auto changed = std::make_shared<Var>(*n.var);
            changed->type = value->type;
            var = renamed_[n.var.get()] = changed;
          }
          emit(Define{var, std::move(value)});
          return;
        }
        if (is_looped(type)) {
          const VarPtr memory = allocate(n.var->name, type);
          store_in_loop(n.value, var_ref(memory));
          memories_[n.var.get()] = memory;
          return;
        }
        const Chunks values = split(n.value);
        if (addressed_.contains(n.var.get())) {
          const VarPtr memory = memories_[n.var.get()] = allocate(n.var->name, type);
          store_chunks(values, cut(type), type, var_ref(memory));
          return;
        }
        const std::vector<VarPtr> parts = parts_[n.var.get()] = make_parts(*n.var);
        for (size_t k = 0; k < parts.size(); ++k) emit(Define{parts[k], values[k]});
      },
      [&](const Assign& n) {
        if (!plan_.is_split(n.var->type)) {
          Expr value = scalar(n.value);
          emit(Assign{renamed(n.var), std::move(value)});
          return;
        }
        if (is_looped(n.var->type)) {
          assign_in_loop(n.value, memories_.at(n.var.get()), addressed_.contains(n.var.get()));
          return;
        }
        const Chunks values = split(n.value);
        if (const auto memory = memories_.find(n.var.get()); memory != memories_.end()) {
          store_chunks(bound(values), cut(n.var->type), n.var->type, var_ref(memory->second));
          return;
        }
        assign_parts(parts_.at(n.var.get()), values);
      },
      [&](const LaneWrite& n) { lane_write(n); },
      [&](const Store& n) {
        const Type type = n.value->type;
        if (!plan_.is_split(type)) {
          Expr pointer = scalar(n.pointer);
          Expr index = scalar(n.index);
          emit(Store{std::move(pointer), std::move(index), scalar(n.value)});
          return;
        }
        if (is_looped(type)) {
          store_vector(n.value, wide_pointer(n.pointer, n.index), nullptr, nullptr);
          return;
        }
        Chunks values = split(n.value);
        for (Expr& value : values) {
          if (depends_on_memory(value)) value = bind_chunk(value);
        }
        const Expr pointer = wide_pointer(n.pointer, n.index);
        for (size_t k = 0; k < values.size(); ++k)
          store_chunk(values[k], move(pointer, cut(type)[k].offset), cut(type)[k]);
      },
      [&](const Alloc& n) {
        const Type type = lower_type(n.buffer->type);
        if (type == n.buffer->type) {
          out_->push_back(stmt);
          return;
        }
        auto buffer = std::make_shared<Var>(*n.buffer);
        buffer->type = type;
        renamed_[n.buffer.get()] = buffer;
        emit(Alloc{buffer, n.count * n.buffer->type.lanes, n.data});
      },
      [&](const For& n) {
        Expr start = scalar(n.start), stop = scalar(n.stop), step = scalar(n.step);
        emit(For{n.var, std::move(start), std::move(stop), std::move(step), n.kind, body_of(n.body)});
      },
      [&](const While& n) {
        std::vector<Stmt> before;
        Expr condition = into(before, [&] { return scalar(n.condition); });
        if (before.empty()) {
          emit(While{std::move(condition), body_of(n.body)});
          return;
        }
        // What the condition needs is done in every round.
        before.push_back(make_stmt(
            If{make_expr(condition->type, Unary{UnaryOp::kNot, condition}), make_stmt(Break{}, span_), nullptr},
            span_));
        statements(n.body, before);
        emit(While{bool_imm(true), block(std::move(before))});
      },
      [&](const If& n) {
        Expr condition = scalar(n.condition);
        Stmt then_body = body_of(n.then_body);
        emit(If{std::move(condition), std::move(then_body), n.else_body ? body_of(n.else_body) : nullptr});
      },
      [&](const Evaluate& n) {
        if (plan_.is_split(n.value->type)) {
          for (const Expr& value : split(n.value)) emit(Evaluate{value});
        } else if (Expr value = scalar(n.value)) {
          emit(Evaluate{std::move(value)});
        }
      },
      [&](const Return& n) {
        if (n.value && plan_.is_split(n.value->type)) {
          const Type type = n.value->type;
          if (is_looped(type)) {
            assign_in_loop(n.value, result_pointer_, true);
            emit(Return{nullptr});
            return;
          }
          const Chunks values = bound(split(n.value));
          store_chunks(values, cut(type), type, var_ref(result_pointer_));
          emit(Return{nullptr});
          return;
        }
        Expr value = scalar(n.value);
        emit(Return{std::move(value)});
      },
      [&](const Break&) { out_->push_back(stmt); }, [&](const Block&) { out_->push_back(body_of(stmt)); },
      [&](const Comment&) { out_->push_back(stmt); });
  span_ = outer_span;
}

Chunks VectorSplitter::bound(Chunks values) {
  for (Expr& value : values) {
    if (depends_on_memory(value)) value = bind_chunk(value);
  }
  return values;
}

void VectorSplitter::lane_write(const LaneWrite& n) {
  const Type type = n.var->type;
  Expr index = scalar(n.index), value = scalar(n.value);
  if (!plan_.is_split(type)) {
    emit(LaneWrite{n.var, std::move(index), std::move(value)});
    return;
  }
  if (is_bool(type.element) && (memories_.contains(n.var.get()) || !as_int(index))) {
    value = make_expr(Type::scalar(DType::kU8), Cast{value});
  }
  if (const auto memory = memories_.find(n.var.get()); memory != memories_.end()) {
    emit(Store{var_ref(memory->second), std::move(index), std::move(value)});
    return;
  }
  const std::vector<VarPtr>& parts = parts_.at(n.var.get());
  if (const auto lane = as_int(index)) {
    for (size_t k = 0; k < parts.size(); ++k) {
      const Chunk& chunk = cut(type)[k];
      if (*lane >= chunk.offset + chunk.valid) continue;
      emit(LaneWrite{parts[k], int_imm(*lane - chunk.offset), std::move(value)});
      return;
    }
  }
  Chunks values;
  for (const VarPtr& part : parts) values.push_back(var_ref(part));
  value = bind(std::move(value));
  index = bind(std::move(index));
  const Expr pointer = spill(values, type);
  emit(Store{pointer, std::move(index), std::move(value)});
  assign_parts(parts, load_all(pointer, type));
}

Result<Module> split_vectors(const Module& module, const Target& target) {
  return split_vectors(module, target, kMostUnrolledRegisters);
}

Result<Module> split_vectors(const Module& module, const Target& target, size_t most_unrolled) {
  const ChunkPlan plan(module, target, most_unrolled);
  if (!plan.any_split()) return module;
  Module result;
  Status error;
  for (const PrimFuncPtr& function : module.functions) {
    result.functions.push_back(VectorSplitter(plan, error).run(*function));
    if (!error.ok()) return std::move(error).context(function->name);
  }
  return result;
}

}  // namespace aipu::tir
