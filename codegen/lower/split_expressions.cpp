#include "codegen/lower/vector_splitter.h"

#include <fmt/format.h>

#include <algorithm>

namespace aipu::tir {

Expr zero_of(Type type) {
  Expr zero = is_floating(type.element) ? float_imm(0, type.element) : int_imm(0, type.element);
  return broadcast(std::move(zero), type.lanes);
}

void VectorSplitter::fail(const Expr& at, std::string_view message) {
  if (!error_.ok()) return;
  std::string where;
  if (at && at->span.file) where = fmt::format("{}:{}: ", *at->span.file, at->span.line);
  error_ = unsupported(fmt::format("{}{}", where, message));
}

VarPtr VectorSplitter::new_var(std::string name, Type type) const {
  auto var = std::make_shared<Var>();
  var->name = std::move(name);
  var->type = type;
  return var;
}

Expr VectorSplitter::define(std::string name, Expr value) {
  const VarPtr var = new_var(std::move(name), value->type);
  emit(Define{var, std::move(value)});
  return var_ref(var);
}

Expr VectorSplitter::bind(Expr value) {
  if (value->as<IntImm>() || value->as<FloatImm>() || value->as<VarRef>()) return value;
  return define("t", std::move(value));
}

std::vector<VarPtr> VectorSplitter::make_parts(const Var& var) const {
  std::vector<VarPtr> parts;
  const std::vector<Chunk>& chunks = cut(var.type);
  for (size_t k = 0; k < chunks.size(); ++k)
    parts.push_back(new_var(fmt::format("{}_{}", var.name, k), chunk_type(var.type, chunks[k])));
  return parts;
}

VarPtr VectorSplitter::allocate(const std::string& name, Type type, int64_t lanes) {
  VarPtr buffer = new_var(name + "_lanes", memory_pointer(type));
  const int padding = plan_.is_split(type) ? cut(type).back().lanes - cut(type).back().valid : 0;
  emit(Alloc{buffer, (lanes == 0 ? type.lanes : lanes) + std::max(padding, 1), {}});
  return buffer;
}

VarPtr VectorSplitter::renamed(const VarPtr& var) const {
  const auto found = renamed_.find(var.get());
  return found == renamed_.end() ? var : found->second;
}

Expr VectorSplitter::move(const Expr& pointer, int64_t elements) {
  return elements == 0 ? pointer : binary(BinaryOp::kAdd, pointer, index64(elements));
}

Expr VectorSplitter::move(const Expr& pointer, Expr elements) {
  if (const auto constant = as_int(elements)) return move(pointer, *constant);
  return binary(BinaryOp::kAdd, pointer, cast(Type::scalar(DType::kI64), std::move(elements)));
}

Expr VectorSplitter::call(std::string_view name, std::vector<Expr> operands,
                          std::vector<std::pair<std::string, int64_t>> attributes, Expr mask, Expr pass_through) {
  Result<Expr> result =
      intrinsic_call(name, std::move(operands), std::move(attributes), std::move(mask), std::move(pass_through), span_);
  if (result.ok()) return *result;
  if (error_.ok()) error_ = std::move(result).status();
  return int_imm(0);
}

Expr VectorSplitter::literal_mask(int lanes, int valid) {
  std::vector<Expr> bits;
  for (int i = 0; i < lanes; ++i) bits.push_back(bool_imm(i < valid));
  return make_expr(Type::vector(DType::kBool, lanes), VectorLiteral{std::move(bits)});
}

Expr VectorSplitter::access_mask(const Chunk& chunk, const Expr& mask) const {
  if (!chunk.padded()) return mask;
  const Expr inside = literal_mask(chunk.lanes, chunk.valid);
  return mask ? binary(BinaryOp::kBitAnd, mask, inside) : inside;
}

Expr VectorSplitter::load_chunk(const Expr& pointer, const Chunk& chunk, Type type, const Expr& mask, Expr stride) {
  Expr base = pointer;
  if (base->type.element != type.element || base->type.lanes != 1)
    base = cast(Type::pointer_to(type.element, 1, base->type.scope), base);
  return call("vload", {std::move(base), std::move(stride)}, {{"lanes", chunk.lanes}}, access_mask(chunk, mask));
}

void VectorSplitter::store_chunk(const Expr& value, const Expr& pointer, const Chunk& chunk, const Expr& mask,
                                 Expr stride) {
  emit(Evaluate{call("vstore", {value, pointer, std::move(stride)}, {}, access_mask(chunk, mask))});
}

Expr VectorSplitter::to_bytes(const Expr& mask) {
  const Type type = mask->type.with_element(DType::kU8);
  return call("vsel", {broadcast(int_imm(1, DType::kU8), type.lanes), zero_of(type)}, {}, mask);
}

void VectorSplitter::store_chunks(const Chunks& values, const std::vector<Chunk>& chunks, Type type,
                                  const Expr& pointer) {
  for (size_t k = 0; k < chunks.size(); ++k) {
    store_chunk(is_bool(type.element) ? to_bytes(values[k]) : values[k], move(pointer, chunks[k].offset), chunks[k]);
  }
}

Expr VectorSplitter::load_lanes(const Expr& pointer, const Chunk& chunk, Type type) {
  const bool boolean = is_bool(type.element);
  // Padding is loaded too: the memory has room for it.
  const Chunk whole{chunk.offset, chunk.lanes, chunk.lanes};
  const Expr loaded = load_chunk(move(pointer, chunk.offset), whole, boolean ? type.with_element(DType::kU8) : type);
  return boolean ? from_bytes(loaded) : loaded;
}

Chunks VectorSplitter::load_all(const Expr& pointer, Type type) {
  Chunks result;
  for (const Chunk& chunk : cut(type)) result.push_back(bind_chunk(load_lanes(pointer, chunk, type)));
  return result;
}

Expr VectorSplitter::scalar(const Expr& e) {
  if (!e || !error_.ok()) return e;
  return match(
      e, [&](const IntImm&) { return e; }, [&](const FloatImm&) { return e; }, [&](const StringImm&) { return e; },
      [&](const VarRef& n) { return renamed(n.var) == n.var ? e : var_ref(renamed(n.var)); },
      [&](const AddressOf& n) {
        if (const auto memory = memories_.find(n.var.get()); memory != memories_.end()) {
          return cast(lower_type(e->type), var_ref(memory->second));
        }
        return e;
      },
      [&](const Unary& n) {
        return make_expr(e->type, Unary{n.op, scalar(n.operand)}, e->span);
      },
      [&](const Binary& n) { return scalar_binary(e, n); },
      [&](const Select& n) { return scalar_select(e, n.condition, n.if_true, n.if_false); },
      [&](const Cast& n) { return cast(lower_type(e->type), scalar(n.operand), e->span); },
      [&](const Broadcast& n) { return make_expr(e->type, Broadcast{scalar(n.scalar)}, e->span); },
      [&](const VectorLiteral& n) {
        std::vector<Expr> lanes;
        for (const Expr& lane : n.lanes) lanes.push_back(scalar(lane));
        return make_expr(e->type, VectorLiteral{std::move(lanes)}, e->span);
      },
      [&](const Load& n) {
        if (!plan_.is_wide_pointer(n.pointer->type)) {
          Expr pointer = scalar(n.pointer);
          return make_expr(e->type, Load{std::move(pointer), scalar(n.index)}, e->span);
        }
        // A vector that fits, through a pointer that C has no type for: does not happen, the pointee is the vector.
        fail(e, "a load of a vector through a pointer to another width");
        return e;
      },
      [&](const LaneRead& n) { return lane_read(e, n); },
      [&](const IntrinsicCall& n) { return scalar_intrinsic(e, n); },
      [&](const FunctionCall& n) {
        std::vector<Expr> args = arguments(n);
        return make_expr(lower_type(e->type), FunctionCall{n.function, std::move(args)}, e->span);
      });
}

std::vector<Expr> VectorSplitter::arguments(const FunctionCall& n) {
  std::vector<Expr> args;
  for (const Expr& arg : n.args) {
    if (plan_.is_split(arg->type)) {
      for (Expr& chunk : split(arg)) args.push_back(std::move(chunk));
    } else {
      args.push_back(scalar(arg));
    }
  }
  return args;
}

Expr VectorSplitter::scaled_index(const Expr& index, Type pointer) {
  Expr lowered = scalar(index);
  if (!plan_.is_wide_pointer(pointer)) return lowered;
  if (const auto constant = as_int(lowered)) return index64(*constant * pointer.lanes);
  return binary(BinaryOp::kMul, cast(Type::scalar(DType::kI64), std::move(lowered)), index64(pointer.lanes));
}

Expr VectorSplitter::scalar_binary(const Expr& e, const Binary& n) {
  if (n.lhs->type.pointer && !is_comparison(n.op)) {
    Expr pointer = scalar(n.lhs);
    return binary(n.op, std::move(pointer), scaled_index(n.rhs, n.lhs->type), e->span);
  }
  if (n.op == BinaryOp::kAnd || n.op == BinaryOp::kOr) {
    // What the right side needs must not be done when the left side decides.
    std::vector<Stmt> before;
    Expr lhs = scalar(n.lhs);
    Expr rhs = into(before, [&] { return scalar(n.rhs); });
    if (before.empty()) return make_expr(e->type, Binary{n.op, std::move(lhs), std::move(rhs)}, e->span);
    const VarPtr result = new_var("t", e->type);
    emit(Define{result, std::move(lhs)});
    before.push_back(make_stmt(Assign{result, std::move(rhs)}, span_));
    Expr condition = var_ref(result);
    if (n.op == BinaryOp::kOr) condition = make_expr(e->type, Unary{UnaryOp::kNot, std::move(condition)});
    emit(If{std::move(condition), block(std::move(before)), nullptr});
    return var_ref(result);
  }
  Expr lhs = scalar(n.lhs);
  return make_expr(e->type, Binary{n.op, std::move(lhs), scalar(n.rhs)}, e->span);
}

Expr VectorSplitter::scalar_select(const Expr& e, const Expr& condition, const Expr& if_true, const Expr& if_false) {
  std::vector<Stmt> then_body, else_body;
  Expr test = scalar(condition);
  Expr a = into(then_body, [&] { return scalar(if_true); });
  Expr b = into(else_body, [&] { return scalar(if_false); });
  if (then_body.empty() && else_body.empty())
    return make_expr(lower_type(e->type), Select{std::move(test), std::move(a), std::move(b)}, e->span);
  if (e->type.pointer) {
    fail(e, "a conditional pointer whose arms compute wide vectors");
    return e;
  }
  const VarPtr result = new_var("t", e->type);
  emit(Define{result, zero_of(e->type)});
  then_body.push_back(make_stmt(Assign{result, std::move(a)}, span_));
  else_body.push_back(make_stmt(Assign{result, std::move(b)}, span_));
  emit(If{std::move(test), block(std::move(then_body)), block(std::move(else_body))});
  return var_ref(result);
}

Expr VectorSplitter::lane_read(const Expr& e, const LaneRead& n) {
  const Type type = n.vector->type;
  if (!plan_.is_split(type)) {
    Expr vector = scalar(n.vector);
    return make_expr(e->type, LaneRead{std::move(vector), scalar(n.index)}, e->span);
  }
  if (is_looped(type)) {
    const auto* call = n.vector->as<IntrinsicCall>();
    if (call != nullptr && call->intrinsic->cost == CostClass::kReduction && as_int(n.index) == 0 &&
        plan_.is_split(call->args[0]->type))
      return reduce(n.vector, *call);
    const Expr index = bind(scalar(n.index));
    const Expr lane = load(in_memory(n.vector), index, e->span);
    return bind(is_bool(type.element) ? binary(BinaryOp::kNe, lane, int_imm(0, DType::kU8)) : lane);
  }
  const Chunks values = split(n.vector);
  if (const auto lane = as_int(n.index)) {
    for (size_t k = 0; k < values.size(); ++k) {
      const Chunk& chunk = cut(type)[k];
      if (*lane < chunk.offset + chunk.valid)
        return make_expr(e->type, LaneRead{values[k], int_imm(*lane - chunk.offset)}, e->span);
    }
  }
  const Expr index = bind(scalar(n.index));
  const Expr pointer = spill(values, type);
  const Expr lane = load(pointer, index, e->span);
  return is_bool(type.element) ? binary(BinaryOp::kNe, lane, int_imm(0, DType::kU8)) : lane;
}

Expr VectorSplitter::spill(const Chunks& values, Type type, int64_t room) {
  Expr pointer = var_ref(allocate("t", type, room));
  store_chunks(values, cut(type), type, pointer);
  return pointer;
}

Chunks VectorSplitter::split(const Expr& e) {
  const Type type = e->type;
  const std::vector<Chunk>& chunks = cut(type);
  if (!error_.ok()) {
    Chunks nothing;
    for (const Chunk& chunk : chunks) nothing.push_back(zero_of(chunk_type(type, chunk)));
    return nothing;
  }
  // One expression per register.
  const auto each = [&](const auto& make) {
    Chunks result;
    for (size_t k = 0; k < chunks.size(); ++k) result.push_back(make(k, chunks[k], chunk_type(type, chunks[k])));
    return result;
  };
  return match(
      e, [&](const IntImm&) { return Chunks(); }, [&](const FloatImm&) { return Chunks(); },
      [&](const StringImm&) { return Chunks(); }, [&](const AddressOf&) { return Chunks(); },
      [&](const LaneRead&) { return Chunks(); },
      [&](const VarRef& n) {
        if (const auto memory = memories_.find(n.var.get()); memory != memories_.end())
          return load_all(var_ref(memory->second), type);
        const std::vector<VarPtr>& parts = parts_.at(n.var.get());
        return each([&](size_t k, const Chunk&, Type) { return var_ref(parts[k]); });
      },
      [&](const Unary& n) {
        const Chunks operand = split(n.operand);
        return each([&](size_t k, const Chunk&, Type t) { return make_expr(t, Unary{n.op, operand[k]}, e->span); });
      },
      [&](const Binary& n) {
        const Chunks lhs = split(n.lhs), rhs = split(n.rhs);
        return each([&](size_t k, const Chunk&, Type t) {
          return make_expr(t, Binary{n.op, lhs[k], rhs[k]}, e->span);
        });
      },
      [&](const Select& n) { return split_select(e, n); },
      [&](const Cast& n) {
        const Chunks operand = split(n.operand);
        return each([&](size_t k, const Chunk&, Type t) { return make_expr(t, Cast{operand[k]}, e->span); });
      },
      [&](const Broadcast& n) {
        const Expr lane = bind(scalar(n.scalar));
        return each([&](size_t, const Chunk&, Type t) { return make_expr(t, Broadcast{lane}, e->span); });
      },
      [&](const VectorLiteral& n) {
        std::vector<Expr> lanes;
        for (const Expr& lane : n.lanes) lanes.push_back(scalar(lane));
        return each([&](size_t, const Chunk& chunk, Type t) {
          std::vector<Expr> part(lanes.begin() + chunk.offset, lanes.begin() + chunk.offset + chunk.valid);
          while (static_cast<int>(part.size()) < chunk.lanes) part.push_back(zero_of(t.with_lanes(1)));
          return make_expr(t, VectorLiteral{std::move(part)}, e->span);
        });
      },
      [&](const Load& n) {
        const Expr pointer = wide_pointer(n.pointer, n.index);
        return each(
            [&](size_t, const Chunk& chunk, Type t) { return load_chunk(move(pointer, chunk.offset), chunk, t); });
      },
      [&](const IntrinsicCall& n) { return split_intrinsic(e, n); },
      [&](const FunctionCall& n) {
        const Expr memory = var_ref(allocate("t", type));
        std::vector<Expr> args = arguments(n);
        args.push_back(memory);
        emit(Evaluate{make_expr(Type::void_type(), FunctionCall{n.function, std::move(args)}, e->span)});
        return load_all(memory, type);
      });
}

Expr VectorSplitter::wide_pointer(const Expr& pointer, const Expr& index) {
  const Type type = pointer->type;
  Expr base = scalar(pointer);
  Expr offset;
  if (plan_.is_wide_pointer(type)) {
    offset = scaled_index(index, type);
  } else {
    Expr lowered = scalar(index);
    if (const auto constant = as_int(lowered))
      offset = index64(*constant * type.lanes);
    else
      offset = binary(BinaryOp::kMul, cast(Type::scalar(DType::kI64), std::move(lowered)), index64(type.lanes));
    base = cast(Type::pointer_to(type.element, 1, type.scope), std::move(base));
  }
  if (as_int(offset) == 0) return bind(std::move(base));
  return bind(binary(BinaryOp::kAdd, std::move(base), std::move(offset)));
}

Chunks VectorSplitter::split_select(const Expr& e, const Select& n) {
  const Type type = e->type;
  std::vector<Stmt> then_body, else_body;
  Expr test = bind(scalar(n.condition));
  Chunks a, b;
  into(then_body, [&] { return a = split(n.if_true), nullptr; });
  into(else_body, [&] { return b = split(n.if_false), nullptr; });
  const auto simple = [](const Chunks& values) {
    return std::all_of(values.begin(), values.end(), [](const Expr& v) { return !depends_on_memory(v); });
  };
  Chunks result;
  if (then_body.empty() && else_body.empty() && simple(a) && simple(b)) {
    for (size_t k = 0; k < a.size(); ++k) result.push_back(make_expr(a[k]->type, Select{test, a[k], b[k]}, e->span));
    return result;
  }
  for (size_t k = 0; k < a.size(); ++k) {
    const VarPtr part = new_var("v", chunk_type(type, cut(type)[k]));
    emit(Define{part, zero_of(part->type)});
    then_body.push_back(make_stmt(Assign{part, a[k]}, span_));
    else_body.push_back(make_stmt(Assign{part, b[k]}, span_));
    result.push_back(var_ref(part));
  }
  emit(If{std::move(test), block(std::move(then_body)), block(std::move(else_body))});
  return result;
}

}  // namespace aipu::tir
