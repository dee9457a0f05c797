// Vectors of very many registers: they live in private memory, and what is done lane by lane is a loop over registers.
// One statement per register would be thousands of them, for which the C compiler takes seconds.
#include <algorithm>
#include <bit>

#include "codegen/lower/vector_splitter.h"

namespace aipu::tir {

bool VectorSplitter::is_looped(Type type) const { return plan_.is_split(type) && plan_.is_long(type.lanes); }

void VectorSplitter::for_each_register(Type type, const RegisterBody& body) {
  for_lanes(0, type.lanes, cut(type).front().lanes, body);
}

void VectorSplitter::for_lanes(int64_t from, int64_t to, int step, const RegisterBody& body) {
  const VarPtr at = new_var("at", Type::scalar(DType::kI64));
  std::vector<Stmt> inner;
  std::vector<Stmt>* outer = std::exchange(out_, &inner);
  body(var_ref(at));
  out_ = outer;
  emit(For{at, index64(from), index64(to), index64(step), ForKind::kSerial, block(std::move(inner))});
}

Chunk VectorSplitter::register_of(Type type) const {
  const int lanes = cut(type).front().lanes;
  return {0, lanes, lanes};
}

Expr VectorSplitter::lanes_at(const Expr& memory, const Expr& at, Type type) {
  return load_lanes(move(memory, at), register_of(type), chunk_type(type, register_of(type)));
}

void VectorSplitter::store_lanes(const Expr& value, const Expr& memory, const Expr& at, Type type) {
  store_chunk(is_bool(type.element) ? to_bytes(value) : value, move(memory, at), register_of(type));
}

Expr VectorSplitter::in_memory(const Expr& e) {
  if (const auto* ref = e->as<VarRef>()) return var_ref(memories_.at(ref->var.get()));
  Expr memory = var_ref(allocate("t", e->type));
  store_in_loop(e, memory);
  return memory;
}

// Registers are written in order, and no later one may be made of what an earlier one overwrote.
void VectorSplitter::store_in_loop(const Expr& e, const Expr& memory) {
  const auto value = by_register(e);
  for_each_register(e->type, [&](const Expr& at) { store_lanes(value(at), memory, at, e->type); });
}

VectorSplitter::ByRegister VectorSplitter::unlooped(const Expr& e) {
  const Type type = e->type;
  const Expr memory = var_ref(allocate("t", type));
  store_chunks(split(e), cut(type), type, memory);
  return [=, this](const Expr& at) { return lanes_at(memory, at, type); };
}

VectorSplitter::ByRegister VectorSplitter::by_register(const Expr& e) {
  if (!e) return [](const Expr&) { return Expr(); };
  const Type type = e->type, part = chunk_type(type, register_of(type));
  if (const auto* n = e->as<VarRef>()) {
    const Expr memory = var_ref(memories_.at(n->var.get()));
    return [=, this](const Expr& at) { return lanes_at(memory, at, type); };
  }
  if (const auto* n = e->as<Unary>()) {
    return [=, operand = by_register(n->operand), op = n->op](const Expr& at) {
      return make_expr(part, Unary{op, operand(at)}, e->span);
    };
  }
  if (const auto* n = e->as<Binary>()) {
    const auto lhs = by_register(n->lhs), rhs = by_register(n->rhs);
    return [=, op = n->op](const Expr& at) { return make_expr(part, Binary{op, lhs(at), rhs(at)}, e->span); };
  }
  if (const auto* n = e->as<Cast>()) {
    return
        [=, operand = by_register(n->operand)](const Expr& at) { return make_expr(part, Cast{operand(at)}, e->span); };
  }
  if (const auto* n = e->as<Broadcast>()) {
    return [=, lane = bind(scalar(n->scalar))](const Expr&) { return make_expr(part, Broadcast{lane}, e->span); };
  }
  if (const auto* n = e->as<Load>()) {
    return [=, this, pointer = wide_pointer(n->pointer, n->index)](const Expr& at) {
      return load_chunk(move(pointer, at), register_of(type), part);
    };
  }
  const auto* call = e->as<IntrinsicCall>();
  return call != nullptr ? intrinsic_by_register(e, *call) : unlooped(e);
}

VectorSplitter::ByRegister VectorSplitter::intrinsic_by_register(const Expr& e, const IntrinsicCall& n) {
  const Type type = e->type, part = chunk_type(type, register_of(type));
  const std::string_view name = n.intrinsic->name;
  if (name == "vload") {
    const Expr pointer = bind(element_pointer(n.args[0], type.element)), stride = bind(scalar(n.args[1]));
    return [=, this, mask = by_register(n.mask)](const Expr& at) {
      return load_chunk(move(pointer, strided(stride, at)), register_of(type), part, mask(at), stride);
    };
  }
  if (name == "vload_part") {
    const Expr pointer = bind(move(element_pointer(n.args[0], type.element), n.attribute("index") * type.lanes));
    return [=, this](const Expr& at) { return load_chunk(move(pointer, at), register_of(type), part); };
  }
  if (name == "vbcast") {
    const Expr lane = bind(scalar(n.args[0]));
    return [=, this, mask = by_register(n.mask)](const Expr& at) {
      return call("vbcast", {lane}, {{"lanes", part.lanes}}, mask(at));
    };
  }
  if (name == "tail_mask") {
    const Expr count = cast(Type::scalar(DType::kI64), bind(scalar(n.args[0])));
    return [=, this](const Expr& at) {
      const Expr rest = binary(BinaryOp::kMax, binary(BinaryOp::kSub, count, at), index64(0));
      return call("tail_mask", {cast(Type::scalar(DType::kI32), binary(BinaryOp::kMin, rest, index64(part.lanes)))},
                  {{"lanes", part.lanes}});
    };
  }
  if (n.intrinsic->cost == CostClass::kReduction && plan_.is_split(n.args[0]->type)) {
    const Expr lane = reduce(e, n), memory = var_ref(allocate("t", type));
    for_each_register(type, [&](const Expr& at) { store_lanes(zero_of(part), memory, at, type); });
    emit(Store{memory, int_imm(0), lane});
    return [=, this](const Expr& at) { return lanes_at(memory, at, type); };
  }
  const bool same_lanes =
      std::all_of(n.args.begin(), n.args.end(), [&](const Expr& arg) { return arg->type.lanes == type.lanes; });
  const bool moves_no_lanes = n.intrinsic->splitting == Splitting::kElementwise ||
                              ((name == "cast" || name == "reinterpret") && n.args.size() == 1 && same_lanes);
  if (!moves_no_lanes || !(n.intrinsic->pure || n.intrinsic->droppable)) return unlooped(e);
  std::vector<ByRegister> operands;
  for (const Expr& arg : n.args) {
    operands.push_back(plan_.is_split(arg->type) ? by_register(arg)
                                                 : [one = bind(scalar(arg))](const Expr&) { return one; });
  }
  auto attributes = n.attributes;
  for (auto& [key, value] : attributes) {
    if (key == "dtype") value = attribute_of_type(part);
  }
  const auto mask = by_register(n.mask), pass_through = by_register(n.pass_through);
  return [=, this](const Expr& at) {
    std::vector<Expr> args;
    for (const ByRegister& operand : operands) args.push_back(operand(at));
    return call(name, std::move(args), attributes, mask(at), pass_through(at));
  };
}

bool VectorSplitter::reads_shared_memory(const Expr& e) const {
  bool addressed = false;
  walk(e, [&](const Expr& child) {
    const auto* ref = child->as<VarRef>();
    addressed |= ref != nullptr && addressed_.contains(ref->var.get());
  });
  return addressed || depends_on_memory(e);
}

// What is stored is read as a whole before: a store may overwrite what it is made of.
VectorSplitter::ByRegister VectorSplitter::settled(const Expr& e) {
  if (!reads_shared_memory(e)) return by_register(e);
  const Expr memory = in_memory(e);
  return [=, this, type = e->type](const Expr& at) { return lanes_at(memory, at, type); };
}

void VectorSplitter::assign_in_loop(const Expr& e, const VarPtr& memory, bool addressed) {
  const auto value = addressed ? settled(e) : by_register(e);
  for_each_register(e->type, [&](const Expr& at) { store_lanes(value(at), var_ref(memory), at, e->type); });
}

void VectorSplitter::store_vector(const Expr& e, const Expr& pointer, const Expr& stride, const Expr& mask) {
  const auto value = settled(e), mask_at = mask ? settled(mask) : by_register(nullptr);
  for_each_register(e->type, [&](const Expr& at) {
    store_chunk(value(at), move(pointer, stride ? strided(stride, at) : at), register_of(e->type), mask_at(at), stride);
  });
}

void VectorSplitter::scatter_vector(const IntrinsicCall& n) {
  const Type type = n.args[0]->type;
  const auto value = settled(n.args[0]), index = settled(n.args[2]);
  const auto mask = n.mask ? settled(n.mask) : by_register(nullptr);
  const Expr pointer = bind(element_pointer(n.args[1], type.element));
  for_each_register(type, [&](const Expr& at) {
    emit(Evaluate{call(n.intrinsic->name, {value(at), pointer, index(at)}, {}, mask(at))});
  });
}

Expr VectorSplitter::decide(const IntrinsicCall& n) {
  const bool all = n.intrinsic->name == "vall";
  const auto mask = by_register(n.args[0]);
  const VarPtr result = new_var("t", Type::scalar(DType::kBool));
  emit(Define{result, bool_imm(all)});
  for_each_register(n.args[0]->type, [&](const Expr& at) {
    emit(Assign{result, binary(all ? BinaryOp::kBitAnd : BinaryOp::kBitOr, var_ref(result),
                               call(n.intrinsic->name, {mask(at)}))});
  });
  return var_ref(result);
}

Expr VectorSplitter::reduce_in_loop(const IntrinsicCall& n, BinaryOp op, const Expr& identity) {
  const Type operand = n.args[0]->type, type = operand.with_element(identity->type.element);
  const int lanes = register_of(operand).lanes;
  const auto total = static_cast<int64_t>(std::bit_ceil(static_cast<unsigned>(operand.lanes)));
  const Expr memory = var_ref(allocate("t", type, total));
  const auto value = by_register(n.args[0]), mask = by_register(n.mask);
  for_each_register(operand, [&](const Expr& at) {
    Expr part = cast(chunk_type(type, register_of(operand)), value(at));
    if (n.mask) part = call("vsel", {part, broadcast(identity, lanes)}, {}, mask(at));
    store_lanes(part, memory, at, type);
  });
  if (operand.lanes < total) {
    for_lanes(operand.lanes, total, lanes,
              [&](const Expr& at) { store_lanes(broadcast(identity, lanes), memory, at, type); });
  }
  for (int64_t half = total / 2; half >= lanes; half /= 2) {
    for_lanes(0, half, lanes, [&](const Expr& at) {
      const Expr upper = lanes_at(move(memory, half), at, type);
      store_lanes(binary(op, lanes_at(memory, at, type), upper), memory, at, type);
    });
  }
  return bind_chunk(lanes_at(memory, index64(0), type));
}

}  // namespace aipu::tir
