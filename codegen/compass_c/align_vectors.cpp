#include <fmt/format.h>

#include <algorithm>

#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/variables.h"
#include "codegen/compass_c/vector_aligner.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/effects.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

bool mentions(const Expr& e, const Var* var, size_t before) {
  bool found = false;
  walk(e, [&](const Expr& child) {
    const auto* n = child->as<Load>();
    const auto* ref = n != nullptr ? n->pointer->as<VarRef>() : nullptr;
    if (ref != nullptr && ref->var.get() == var) found |= as_int(n->index).value_or(-1) < static_cast<int64_t>(before);
  });
  return found;
}

}  // namespace

Expr VectorAligner::give_up() {
  failed_ = true;
  return int_imm(0);
}

// ---- variables ----

VarPtr VectorAligner::new_var(std::string name, Type type) {
  auto var = std::make_shared<Var>();
  var->name = std::move(name);
  var->type = type;
  return var;
}

Type VectorAligner::lowered(Type type) {
  const bool odd = type.pointer && type.lanes > 1 && type.lanes != native_lanes(type.element);
  return odd ? type.with_lanes(1) : type;
}

VectorAligner::Array VectorAligner::allocate(const std::string& name, Type type, int lanes) {
  Array array{new_var(name, Type::pointer_to(type.element, lanes, Scope::kPrivate)), lanes,
              (type.lanes + lanes - 1) / lanes};
  emit(Alloc{array.buffer, array.count, {}});
  own_.insert(array.buffer.get());
  return array;
}

const VectorAligner::Array* VectorAligner::array_of(const VarPtr& var) const {
  const auto found = arrays_.find(var.get());
  return found == arrays_.end() ? nullptr : &found->second;
}

VarPtr VectorAligner::renamed(const VarPtr& var) const {
  const auto found = renamed_.find(var.get());
  return found == renamed_.end() ? var : found->second;
}

Expr VectorAligner::bind(const Expr& value) {
  if (value->as<IntImm>() || value->as<FloatImm>() || !depends_on_memory(value)) return value;
  return named(value);
}

Expr VectorAligner::named(const Expr& value) {
  if (value->as<VarRef>()) return value;
  const VarPtr var = new_var("t", value->type);
  emit(Define{var, value});
  return var_ref(var);
}

void VectorAligner::choose_groups(const PrimFunc& function) {
  std::unordered_map<const Var*, int> lanes;
  const auto note = [&](const VarPtr& var) {
    if (var->type.is_mask()) lanes[var.get()] = var->type.lanes;
  };
  for (const VarPtr& param : function.params) {
    // The caller passes one register.
    if (param->type.is_mask()) groups_[param.get()] = mask_register_lanes(param->type.lanes);
  }
  const auto define = [&](const VarPtr& var, const Expr& value) {
    if (!var->type.is_mask() || groups_.contains(var.get())) return;
    if (const int group = group_of(value); group != 0) groups_[var.get()] = group;
  };
  const auto use = [&](const Expr& mask, DType element) {
    const auto* ref = mask ? mask->as<VarRef>() : nullptr;
    if (ref != nullptr && lanes.contains(ref->var.get()) && !is_bool(element))
      groups_.try_emplace(ref->var.get(), native_lanes(element));
  };
  walk(
      function.body, [](const Expr&) {},
      [&](const Stmt& s) {
        if (const auto* n = s->as<Define>()) {
          note(n->var);
          define(n->var, n->value);
        }
        if (const auto* n = s->as<Assign>()) define(n->var, n->value);
      });
  walk(
      function.body,
      [&](const Expr& e) {
        const auto* n = e->as<IntrinsicCall>();
        if (n == nullptr || n->args.empty()) return;
        const Type data = n->args[0]->type.pointer ? e->type : n->args[0]->type;
        if (!data.is_vector()) return;
        use(n->mask, data.element);
        for (const Expr& arg : n->args) {
          if (arg && arg->type.is_mask()) use(arg, data.element);
        }
      },
      [](const Stmt&) {});
  // Masks that are made of masks.
  walk(
      function.body, [](const Expr&) {},
      [&](const Stmt& s) {
        if (const auto* n = s->as<Define>()) define(n->var, n->value);
      });
  for (const auto& [var, count] : lanes) groups_.try_emplace(var, mask_register_lanes(count));
}

int VectorAligner::group_of(const Expr& mask) const {
  const auto first = [&](std::initializer_list<Expr> operands) {
    for (const Expr& operand : operands) {
      if (!operand || !operand->type.is_vector()) continue;
      const int group = operand->type.is_mask() ? group_of(operand) : native_lanes(operand->type.element);
      if (group != 0) return group;
    }
    return 0;
  };
  if (const auto* n = mask->as<VarRef>()) {
    const auto known = groups_.find(n->var.get());
    return known == groups_.end() ? 0 : known->second;
  }
  if (mask->as<VectorLiteral>() || mask->as<Broadcast>()) return 0;
  if (const auto* n = mask->as<Binary>()) return first({n->lhs, n->rhs});
  if (const auto* n = mask->as<Unary>()) return first({n->operand});
  if (const auto* n = mask->as<Select>()) return first({n->if_true, n->if_false});
  if (const auto* n = mask->as<IntrinsicCall>()) {
    const auto is_scalar = [](const Expr& arg) { return arg && arg->type.is_scalar(); };
    if (std::all_of(n->args.begin(), n->args.end(), is_scalar)) return 0;
    if (n->intrinsic->splitting == Splitting::kElementwise && !n->args.empty())
      return first({n->args[0], n->args.size() > 1 ? n->args[1] : nullptr});
  }
  return mask_register_lanes(mask->type.lanes);
}

int VectorAligner::part_lanes(const Expr& e, int wanted) const {
  if (!e->type.is_mask()) return native_lanes(e->type.element);
  const int group = group_of(e);
  return group != 0 ? group : wanted != 0 ? wanted : mask_register_lanes(e->type.lanes);
}

bool VectorAligner::in_parts(const Expr& e) const { return e->type.is_vector() && part_lanes(e) != e->type.lanes; }

// ---- functions ----

PrimFuncPtr VectorAligner::run(const PrimFunc& function) {
  auto result = std::make_shared<PrimFunc>(function);
  std::vector<Stmt> body;
  out_ = &body;
  result_ = nullptr;
  choose_groups(function);
  result->params.clear();
  if (&function == &module_.entry()) {
    for (const VarPtr& param : function.params) parameters_.insert(param.get());
  }
  const auto changing = changing_variables(function.body);
  for (const VarPtr& param : function.params) {
    if (is_wide(param->type) || (param->type.is_mask() && groups_.at(param.get()) != param->type.lanes)) {
      // The caller's array; a copy of it where the function changes it.
      const int lanes = param->type.is_mask() ? groups_.at(param.get()) : native_lanes(param->type.element);
      const VarPtr pointer = new_var(param->name, Type::pointer_to(param->type.element, lanes, Scope::kPrivate));
      result->params.push_back(pointer);
      const Array given{pointer, lanes, (param->type.lanes + lanes - 1) / lanes};
      if (changing.contains(param.get())) {
        const Array own = allocate(param->name, param->type, lanes);
        store_parts(own, array_parts(given), false);
        arrays_[param.get()] = own;
      } else {
        arrays_[param.get()] = given;
      }
      continue;
    }
    VarPtr same = param;
    if (lowered(param->type) != param->type) {
      auto changed = std::make_shared<Var>(*param);
      changed->type = lowered(param->type);
      same = renamed_[param.get()] = changed;
      if (parameters_.contains(param.get())) parameters_.insert(same.get());
    }
    result->params.push_back(same);
  }
  if (is_passed_in_parts(function.return_type)) {
    const Type type = function.return_type;
    result_ = new_var("ret", Type::pointer_to(type.element, passed_lanes(type), Scope::kPrivate));
    result->params.push_back(result_);
    result->return_type = Type::void_type();
  } else {
    result->return_type = lowered(function.return_type);
  }
  statements(function.body, body);
  result->body = block(std::move(body));
  return result;
}

// ---- statements ----

void VectorAligner::emit(decltype(StmtNode::node) node) { out_->push_back(make_stmt(std::move(node), span_)); }

void VectorAligner::statements(const Stmt& stmt, std::vector<Stmt>& into) {
  std::vector<Stmt>* outer = std::exchange(out_, &into);
  if (const auto* n = stmt->as<Block>()) {
    for (const Stmt& child : n->body) statement(child);
  } else {
    statement(stmt);
  }
  out_ = outer;
}

Stmt VectorAligner::body_of(const Stmt& stmt) {
  std::vector<Stmt> result;
  statements(stmt, result);
  return make_stmt(Block{std::move(result)}, stmt->span);
}

void VectorAligner::store_parts(const Array& array, Parts parts, bool may_overlap) {
  if (may_overlap) {
    bool ordered = true;
    for (size_t i = 0; i < parts.size(); ++i) ordered &= !mentions(parts[i], array.buffer.get(), i);
    if (!ordered) {
      for (Expr& part : parts) {
        const VarPtr var = new_var("t", part->type);
        emit(Define{var, part});
        part = var_ref(var);
      }
    }
  }
  for (size_t i = 0; i < parts.size(); ++i)
    emit(Store{var_ref(array.buffer), int_imm(static_cast<int64_t>(i)), parts[i]});
}

bool VectorAligner::may_overlap(const Parts& values, const Expr& pointer) const {
  const auto root = [](const Expr& e) -> const Var* {
    const Expr* at = &e;
    while (true) {
      if (const auto* moved = (*at)->as<Binary>())
        at = &moved->lhs;
      else if (const auto* cast = (*at)->as<Cast>())
        at = &cast->operand;
      else
        break;
    }
    const auto* ref = (*at)->as<VarRef>();
    return ref != nullptr ? ref->var.get() : nullptr;
  };
  const Var* target = root(pointer);
  const auto elsewhere = [&](const Expr& read) {
    const Var* source = root(read);
    if (source == nullptr || source == target) return false;
    return own_.contains(source) || (parameters_.contains(source) && parameters_.contains(target));
  };
  bool overlap = false;
  for (const Expr& value : values) {
    walk(value, [&](const Expr& e) {
      if (const auto* n = e->as<Load>()) overlap |= !elsewhere(n->pointer);
      overlap |= e->as<FunctionCall>() != nullptr;
      const auto* call = e->as<IntrinsicCall>();
      if (call == nullptr || call->intrinsic->pure) return;
      const bool load = call->intrinsic->name == "vload" || call->intrinsic->name == "vload_gather";
      overlap |= !load || !elsewhere(call->args[0]);
    });
  }
  return overlap;
}

void VectorAligner::store_to_memory(const Expr& value, const Expr& pointer, const Expr& stride, const Expr& mask) {
  const Type type = value->type;
  const int lanes = native_lanes(type.element);
  Parts values = parts(value);
  if (values.size() > 1 && may_overlap(values, pointer)) {
    // All is read before anything is written.
    const Array array = allocate("t", type, lanes);
    store_parts(array, std::move(values), false);
    values = array_parts(array);
  }
  Parts masks = mask ? parts(mask, lanes) : Parts();
  Expr base = pointer, step = stride;
  if (values.size() > 1) {
    // So are the places.
    if (may_overlap(masks, pointer)) {
      for (Expr& part : masks) part = named(part);
    }
    if (depends_on_memory(pointer)) base = named(element_pointer(pointer, type.element, int_imm(0)));
    if (step) step = bind(step);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const int offset = static_cast<int>(i) * lanes;
    const Expr inside = valid_mask(lanes, std::min(lanes, type.lanes - offset), masks.empty() ? nullptr : masks[i]);
    const Expr moved =
        step ? simplify(tir::binary(BinaryOp::kMul, step, int_imm(offset, step->type.element))) : int_imm(offset);
    std::vector<Expr> operands = {values[i], element_pointer(base, type.element, moved)};
    if (step) operands.push_back(step);
    emit(Evaluate{call("vstore", std::move(operands), {}, inside)});
  }
}

void VectorAligner::statement(const Stmt& stmt) {
  if (failed_) return;
  span_ = stmt->span;
  match(
      stmt,
      [&](const Define& n) {
        const bool array =
            is_wide(n.var->type) || (n.var->type.is_mask() && groups_.at(n.var.get()) != n.var->type.lanes);
        if (!array) {
          const Expr value = whole(n.value);
          VarPtr var = n.var;
          if (lowered(var->type) != var->type) {
            auto changed = std::make_shared<Var>(*var);
            changed->type = lowered(var->type);
            var = renamed_[n.var.get()] = changed;
          }
          emit(Define{var, value});
          return;
        }
        const int lanes = n.var->type.is_mask() ? groups_.at(n.var.get()) : native_lanes(n.var->type.element);
        if (const auto* function = n.value->as<FunctionCall>();
            function != nullptr && is_passed_in_parts(n.var->type) && lanes == passed_lanes(n.var->type)) {
          const Array array_var = allocate(n.var->name, n.var->type, lanes);
          call_into(*function, array_var);
          arrays_[n.var.get()] = array_var;
          return;
        }
        Parts values = parts(n.value, lanes);
        const Array array_var = allocate(n.var->name, n.var->type, lanes);
        arrays_[n.var.get()] = array_var;
        store_parts(array_var, std::move(values), false);
      },
      [&](const Assign& n) {
        if (const Array* array = array_of(n.var)) {
          store_parts(*array, parts(n.value, array->lanes), true);
          return;
        }
        const Expr value = whole(n.value);
        emit(Assign{renamed(n.var), value});
      },
      [&](const LaneWrite& n) { lane_write(n); },
      [&](const Store& n) {
        if (!is_wide(n.value->type)) {
          const Expr pointer = whole(n.pointer), index = whole(n.index);
          emit(Store{pointer, index, whole(n.value)});
          return;
        }
        const Expr index = whole(n.index);
        store_to_memory(n.value, element_pointer(n.pointer, n.value->type.element, scaled(index, n.value->type.lanes)),
                        nullptr, nullptr);
      },
      [&](const Alloc& n) {
        if (lowered(n.buffer->type) == n.buffer->type) {
          out_->push_back(stmt);
          return;
        }
        auto changed = std::make_shared<Var>(*n.buffer);
        changed->type = lowered(n.buffer->type);
        const VarPtr buffer = renamed_[n.buffer.get()] = std::move(changed);
        emit(Alloc{buffer, n.count * n.buffer->type.lanes, n.data});
      },
      [&](const For& n) {
        const Expr start = whole(n.start), stop = whole(n.stop), step = whole(n.step);
        emit(For{n.var, start, stop, step, n.kind, body_of(n.body)});
      },
      [&](const While& n) {
        std::vector<Stmt> before;
        const Expr condition = aside(before, [&] { return whole(n.condition); });
        if (before.empty()) return emit(While{condition, body_of(n.body)});
        // What the condition needs is done in every round.
        const Expr done = make_expr(condition->type, Unary{UnaryOp::kNot, condition});
        before.push_back(make_stmt(If{done, block({make_stmt(Break{}, span_)}), nullptr}, span_));
        statements(n.body, before);
        emit(While{bool_imm(true), block(std::move(before))});
      },
      [&](const If& n) {
        const Expr condition = whole(n.condition);
        const Stmt then_body = body_of(n.then_body);
        emit(If{condition, then_body, n.else_body ? body_of(n.else_body) : nullptr});
      },
      [&](const Evaluate& n) {
        const auto* store = n.value->as<IntrinsicCall>();
        if (store != nullptr && store->intrinsic->name == "vstore" && is_wide(store->args[0]->type)) {
          const Expr stride = store->args.size() > 2 && as_int(store->args[2]) != 1 ? whole(store->args[2]) : nullptr;
          store_to_memory(store->args[0], store->args[1], stride, store->mask);
        } else if (store != nullptr && store->intrinsic->name == "vstore_scatter") {
          scatter_parts(*store);
        } else if (in_parts(n.value)) {
          for (const Expr& part : parts(n.value)) emit(Evaluate{part});
        } else {
          emit(Evaluate{whole(n.value)});
        }
      },
      [&](const Return& n) {
        if (n.value && result_) {
          const int lanes = passed_lanes(n.value->type);
          store_parts({result_, lanes, 0}, parts(n.value, lanes), false);
          emit(Return{nullptr});
        } else {
          emit(Return{n.value ? whole(n.value) : nullptr});
        }
      },
      [&](const Break&) { out_->push_back(stmt); }, [&](const Block&) { out_->push_back(body_of(stmt)); },
      [&](const Comment&) { out_->push_back(stmt); });
}

void VectorAligner::lane_write(const LaneWrite& n) {
  const Expr index = whole(n.index), value = whole(n.value);
  const Array* array = array_of(n.var);
  if (array == nullptr) return emit(LaneWrite{n.var, index, value});
  // Lanes of data lie one after the other; those of a mask have no address.
  if (!n.var->type.is_mask())
    return emit(
        Store{cast(Type::pointer_to(n.var->type.element, 1, Scope::kPrivate), var_ref(array->buffer)), index, value});
  const auto write = [&](int part, const Expr& at) {
    const VarPtr var = new_var("t", n.var->type.with_lanes(array->lanes));
    emit(Define{var, load(var_ref(array->buffer), int_imm(part))});
    emit(LaneWrite{var, at, value});
    emit(Store{var_ref(array->buffer), int_imm(part), var_ref(var)});
  };
  if (const auto lane = as_int(index))
    return write(static_cast<int>(*lane / array->lanes), int_imm(*lane % array->lanes));
  const Expr at = named(index);
  for (int part = 0; part < array->count; ++part) {
    const auto bound_of = [&](int k) { return int_imm(int64_t{k} * array->lanes, at->type.element); };
    std::vector<Stmt> body;
    aside(body, [&] { return write(part, tir::binary(BinaryOp::kSub, at, bound_of(part))), true; });
    const Expr inside = tir::binary(BinaryOp::kAnd, tir::binary(BinaryOp::kLe, bound_of(part), at),
                                    tir::binary(BinaryOp::kLt, at, bound_of(part + 1)));
    emit(If{inside, block(std::move(body)), nullptr});
  }
}

std::vector<Expr> VectorAligner::arguments(const FunctionCall& n) {
  std::vector<Expr> args;
  for (const Expr& arg : n.args) {
    if (!is_passed_in_parts(arg->type)) {
      const Parts one = arg->type.is_mask() ? parts(arg, arg->type.lanes) : Parts{whole(arg)};
      args.push_back(one.size() == 1 ? one[0] : give_up());
      continue;
    }
    const int lanes = passed_lanes(arg->type);
    const auto* ref = arg->as<VarRef>();
    const Array* array = ref != nullptr ? array_of(ref->var) : nullptr;
    if (array != nullptr && array->lanes == lanes) {
      args.push_back(var_ref(array->buffer));
      continue;
    }
    Parts values = parts(arg, lanes);
    const Array temporary = allocate("arg", arg->type, lanes);
    store_parts(temporary, std::move(values), false);
    args.push_back(var_ref(temporary.buffer));
  }
  return args;
}

void VectorAligner::call_into(const FunctionCall& n, const Array& array) {
  std::vector<Expr> args = arguments(n);
  args.push_back(var_ref(array.buffer));
  emit(Evaluate{make_expr(Type::void_type(), FunctionCall{n.function, std::move(args)}, span_)});
}

Module align_vector_width(const Module& module) {
  Module result;
  for (const PrimFuncPtr& function : module.functions) {
    VectorAligner aligner(module);
    result.functions.push_back(aligner.run(*function));
    if (aligner.failed()) return module;
  }
  return verify(result).ok() ? result : module;
}

}  // namespace aipu::tir::c_text
