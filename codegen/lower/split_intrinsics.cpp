#include "codegen/lower/vector_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace aipu::tir {

bool VectorSplitter::any_split(const IntrinsicCall& n, Type result) const {
  const auto is_split = [&](const Expr& e) { return e && plan_.is_split(e->type); };
  return plan_.is_split(result) || is_split(n.mask) || is_split(n.pass_through) ||
         std::any_of(n.args.begin(), n.args.end(), is_split);
}

Expr VectorSplitter::scalar_intrinsic(const Expr& e, const IntrinsicCall& n) {
  const std::string_view name = n.intrinsic->name;
  if (!any_split(n, e->type)) return plain_intrinsic(e, n);
  const Type operand = n.args.empty() ? Type::void_type() : n.args[0]->type;
  if (name == "vall" || name == "vany") {
    if (is_looped(operand)) return decide(n);
    const Chunks masks = split(n.args[0]);
    Expr result;
    for (size_t k = 0; k < masks.size(); ++k) {
      const Chunk& chunk = cut(operand)[k];
      Expr mask = masks[k];
      // Padding must not decide.
      if (chunk.padded() && name == "vany")
        mask = binary(BinaryOp::kBitAnd, mask, literal_mask(chunk.lanes, chunk.valid));
      if (chunk.padded() && name == "vall")
        mask = binary(BinaryOp::kBitOr, mask,
                      make_expr(mask->type, Unary{UnaryOp::kBitNot, literal_mask(chunk.lanes, chunk.valid)}));
      const Expr part = call(name, {mask});
      result = result ? binary(name == "vall" ? BinaryOp::kBitAnd : BinaryOp::kBitOr, result, part) : part;
    }
    return result;
  }
  if (name == "vstore" && is_looped(operand)) {
    const Expr pointer = bind(element_pointer(n.args[1], operand.element)), stride = bind(scalar(n.args[2]));
    store_vector(n.args[0], pointer, stride, n.mask);
    return nothing();
  }
  if (name == "vstore_scatter" && is_looped(operand)) {
    scatter_vector(n);
    return nothing();
  }
  if (name == "vstore") {
    Chunks values = split(n.args[0]);
    for (Expr& value : values) {
      if (depends_on_memory(value)) value = bind_chunk(value);
    }
    const Chunks masks = split_mask(n.mask);
    const Expr pointer = bind(element_pointer(n.args[1], operand.element)), stride = bind(scalar(n.args[2]));
    for (size_t k = 0; k < values.size(); ++k) {
      const Chunk& chunk = cut(operand)[k];
      store_chunk(values[k], move(pointer, strided(stride, chunk.offset)), chunk, masks.empty() ? nullptr : masks[k],
                  stride);
    }
    return nothing();
  }
  if (name == "vstore_scatter") {
    Chunks values = split(n.args[0]);
    for (Expr& value : values) {
      if (depends_on_memory(value)) value = bind_chunk(value);
    }
    const Chunks indices = split(n.args[2]), masks = split_mask(n.mask);
    const Expr pointer = bind(element_pointer(n.args[1], operand.element));
    for (size_t k = 0; k < values.size(); ++k) {
      emit(Evaluate{call(name, {values[k], pointer, indices[k]}, {},
                         access_mask(cut(operand)[k], masks.empty() ? nullptr : masks[k]))});
    }
    return nothing();
  }
  if ((name == "vmml" || name == "vmma") && plan_.has_native_registers()) {
    const auto whole = [&](const Expr& value) {
      const int lanes = value->type.lanes;
      return gather_chunk(whole_pieces({value}), value->type, {0, lanes, lanes}, [](int i) { return i; });
    };
    const Expr pointer = bind(scalar(n.args[0])), x = whole(n.args[1]), y = whole(n.args[2]);
    emit(Evaluate{call(name, {pointer, x, y})});
    return nothing();
  }
  if (const std::optional<Pieces> pieces = pieces_of(e, n)) {
    // All of the result in one register.
    const Chunk whole{0, e->type.lanes, e->type.lanes};
    return gather_chunk(*pieces, e->type, whole, [&](int i) { return i; });
  }
  fail(e, fmt::format("S.{} on \"{}\": wider than a register of this target, and it can't be split", name,
                      operand.text()));
  return e;
}

Expr VectorSplitter::plain_intrinsic(const Expr& e, const IntrinsicCall& n) {
  IntrinsicCall lowered = n;
  for (Expr& arg : lowered.args) arg = scalar(arg);
  lowered.mask = scalar(n.mask);
  lowered.pass_through = scalar(n.pass_through);
  scale_dma(e, n, lowered);
  if (n.intrinsic->name == "vload" && lowered.args[0]->type != n.args[0]->type)
    set_attribute(lowered, "lanes", e->type.lanes);
  return make_expr(lower_type(e->type), std::move(lowered), e->span);
}

void VectorSplitter::set_attribute(IntrinsicCall& n, std::string_view name, int64_t value) {
  for (auto& [key, number] : n.attributes) {
    if (key == name) {
      number = value;
      return;
    }
  }
  n.attributes.emplace_back(std::string(name), value);
  std::sort(n.attributes.begin(), n.attributes.end());
}

void VectorSplitter::scale_dma(const Expr& e, const IntrinsicCall& n, IntrinsicCall& lowered) {
  const std::string_view name = n.intrinsic->name;
  if (n.intrinsic->cost != CostClass::kTransfer) return;
  if (name == "dma_memset") return;  // counts scalars
  const Type type = n.args[0]->type;
  if (!plan_.is_wide_pointer(type)) return;
  std::vector<size_t> counts;
  if (name == "dma_copy" || name == "async_dma_copy") counts = {2, 3, 5};
  if (name == "dma_upsample") counts = {4, 6, 7};
  if (counts.empty())
    return fail(e, fmt::format("S.{} of \"{}\": no register of this target holds such a vector", name, type.text()));
  for (const size_t i : counts) lowered.args[i] = binary(BinaryOp::kMul, lowered.args[i], int_imm(type.lanes));
}

Expr VectorSplitter::strided(const Expr& stride, int lanes) {
  if (const auto constant = as_int(stride)) return index64(*constant * lanes);
  return lanes == 0 ? index64(0) : binary(BinaryOp::kMul, cast(Type::scalar(DType::kI64), stride), index64(lanes));
}

Expr VectorSplitter::strided(const Expr& stride, const Expr& lanes) {
  if (as_int(stride) == 1) return lanes;
  return binary(BinaryOp::kMul, cast(Type::scalar(DType::kI64), stride), lanes);
}

Expr VectorSplitter::element_pointer(const Expr& pointer, DType element) {
  const Expr lowered = scalar(pointer);
  return cast(Type::pointer_to(element, 1, pointer->type.scope), lowered);
}

Chunks VectorSplitter::split_intrinsic(const Expr& e, const IntrinsicCall& n) {
  const Type type = e->type;
  const std::vector<Chunk>& chunks = cut(type);
  const std::string_view name = n.intrinsic->name;
  Chunks result;
  if (name == "vload") {
    const Expr pointer = bind(element_pointer(n.args[0], type.element)), stride = bind(scalar(n.args[1]));
    const Chunks masks = split_mask(n.mask);
    for (size_t k = 0; k < chunks.size(); ++k) {
      const Chunk& chunk = chunks[k];
      result.push_back(load_chunk(move(pointer, strided(stride, chunk.offset)), chunk, chunk_type(type, chunk),
                                  masks.empty() ? nullptr : masks[k], stride));
    }
    return result;
  }
  if (name == "vload_part") {
    const Expr pointer = bind(element_pointer(n.args[0], type.element));
    const int64_t first = n.attribute("index") * type.lanes;
    for (const Chunk& chunk : chunks)
      result.push_back(load_chunk(move(pointer, first + chunk.offset), chunk, chunk_type(type, chunk)));
    return result;
  }
  if (name == "tail_mask") {
    const Expr count = bind(scalar(n.args[0]));
    for (const Chunk& chunk : chunks) {
      Expr rest = chunk.offset == 0 ? count : binary(BinaryOp::kSub, count, int_imm(chunk.offset));
      if (const auto constant = as_int(count)) {
        rest = int_imm(std::min<int64_t>(std::max<int64_t>(*constant - chunk.offset, 0), chunk.lanes));
      } else {
        rest = binary(BinaryOp::kMin, binary(BinaryOp::kMax, rest, int_imm(0)), int_imm(chunk.lanes));
      }
      result.push_back(call(name, {rest}, {{"lanes", chunk.lanes}}));
    }
    return result;
  }
  if (name == "vbcast") {
    const Expr lane = bind(scalar(n.args[0]));
    const Chunks masks = split_mask(n.mask);
    for (size_t k = 0; k < chunks.size(); ++k)
      result.push_back(call(name, {lane}, {{"lanes", chunks[k].lanes}}, masks.empty() ? nullptr : masks[k]));
    return result;
  }
  if (!n.intrinsic->reduces_by.empty()) return split_reduction(e, n);
  const bool elementwise_cast = name == "cast" && n.args.size() == 1 && n.args[0]->type.lanes == type.lanes;
  const bool elementwise_bits = name == "reinterpret" && n.args[0]->type.lanes == type.lanes;
  if (n.intrinsic->splitting == Splitting::kElementwise || elementwise_cast || elementwise_bits)
    return split_elementwise(e, n);
  if (const std::optional<Pieces> pieces = pieces_of(e, n)) return gather_all(*pieces, type, [](int i) { return i; });
  fail(e, fmt::format("S.{} giving \"{}\": wider than a register of this target, and it can't be split", name,
                      type.text()));
  for (const Chunk& chunk : chunks) result.push_back(zero_of(chunk_type(type, chunk)));
  return result;
}

Chunks VectorSplitter::split_elementwise(const Expr& e, const IntrinsicCall& n) {
  const Type type = e->type;
  std::vector<Chunks> operands;
  for (const Expr& arg : n.args) {
    if (plan_.is_split(arg->type)) {
      operands.push_back(split(arg));
    } else {
      const Expr one = bind(scalar(arg));
      operands.emplace_back(cut(type).size(), one);
    }
  }
  const Chunks masks = split_mask(n.mask), pass_through = split_mask(n.pass_through);
  Chunks result;
  for (size_t k = 0; k < cut(type).size(); ++k) {
    const Chunk& chunk = cut(type)[k];
    std::vector<Expr> args;
    for (const Chunks& operand : operands) args.push_back(operand[k]);
    Expr mask = masks.empty() ? nullptr : masks[k];
    if (!n.intrinsic->pure) mask = access_mask(chunk, mask);
    auto attributes = n.attributes;
    for (auto& [key, value] : attributes) {
      if (key == "dtype") value = attribute_of_type(chunk_type(type, chunk));
    }
    result.push_back(call(n.intrinsic->name, std::move(args), std::move(attributes), std::move(mask),
                          pass_through.empty() ? nullptr : pass_through[k]));
  }
  return result;
}

Chunks VectorSplitter::split_reduction(const Expr& e, const IntrinsicCall& n) {
  const std::string_view name = n.intrinsic->name;
  const Type operand = n.args[0]->type;
  if (!plan_.is_split(operand)) {
    fail(e, fmt::format("S.{} of \"{}\" has a result wider than a register of this target", name, operand.text()));
    return Chunks(cut(e->type).size(), int_imm(0));
  }
  const Expr lane = reduce(e, n);
  Chunks result;
  for (const Chunk& chunk : cut(e->type)) {
    const Type type = chunk_type(e->type, chunk);
    Expr value = zero_of(type);
    if (chunk.offset == 0) {
      const VarPtr var = new_var("v", type);
      emit(Define{var, value});
      emit(LaneWrite{var, int_imm(0), lane});
      value = var_ref(var);
    }
    result.push_back(value);
  }
  return result;
}

Expr VectorSplitter::reduce(const Expr& e, const IntrinsicCall& n) {
  const std::string_view name = n.intrinsic->name;
  const Type operand = n.args[0]->type;
  const DType element = e->type.element;
  if (n.attribute("return_idx") != 0) {
    fail(e, fmt::format("S.{} with return_idx of \"{}\": wider than a register of this target", name, operand.text()));
    return zero_of(Type::scalar(element));
  }
  Expr identity = zero_of(Type::scalar(element));
  const BinaryOp op = n.intrinsic->reduces_with;
  if (op != BinaryOp::kAdd) {
    const bool max = op == BinaryOp::kMax;
    if (is_floating(element)) {
      identity = float_imm(max ? -__builtin_inf() : __builtin_inf(), element);
    } else if (is_signed_int(element)) {
      const int64_t low = dtype_bits(element) == 64 ? INT64_MIN : -(int64_t{1} << (dtype_bits(element) - 1));
      identity = int_imm(max ? low : ~low, element);
    } else {
      identity = int_imm(max ? 0 : -1, element);
    }
  }
  const auto lane_of = [&](const Expr& all) {
    return bind(make_expr(Type::scalar(element), LaneRead{call(name, {all}), int_imm(0)}));
  };
  if (is_looped(operand)) return lane_of(reduce_in_loop(n, op, identity));
  const std::vector<Chunk>& chunks = cut(operand);
  const Chunks values = split(n.args[0]), masks = split_mask(n.mask);
  // Whole registers of `most` lanes, padded with the identity up to a power of two of them.
  const int most = chunks.front().lanes;
  const auto total = static_cast<int>(std::bit_ceil(static_cast<unsigned>(operand.lanes)));
  const Type whole = Type::vector(element, most);
  Chunks parts;
  for (size_t k = 0; k < values.size(); ++k) {
    const Chunk& chunk = chunks[k];
    Expr value = cast(Type::vector(element, chunk.lanes), values[k]);
    const Expr mask = access_mask(chunk, masks.empty() ? nullptr : masks[k]);
    if (mask) value = call("vsel", {value, broadcast(identity, chunk.lanes)}, {}, mask);
    if (chunk.lanes != most) {
      // The rests go together into one register, through memory.
      const Expr pointer = var_ref(allocate("t", whole));
      store_chunk(broadcast(identity, most), pointer, {0, most, most});
      for (size_t r = k; r < values.size(); ++r) {
        Expr rest = cast(Type::vector(element, chunks[r].lanes), values[r]);
        const Expr rest_mask = access_mask(chunks[r], masks.empty() ? nullptr : masks[r]);
        if (rest_mask) rest = call("vsel", {rest, broadcast(identity, chunks[r].lanes)}, {}, rest_mask);
        store_chunk(rest, move(pointer, chunks[r].offset - chunk.offset), chunks[r]);
      }
      parts.push_back(bind_chunk(load_chunk(pointer, {0, most, most}, whole)));
      break;
    }
    parts.push_back(bind_chunk(value));
  }
  while (static_cast<int>(parts.size()) * most < total) parts.push_back(broadcast(identity, most));
  for (size_t half = parts.size() / 2; half > 0; half /= 2) {
    for (size_t k = 0; k < half; ++k) parts[k] = bind_chunk(binary(op, parts[k], parts[k + half]));
  }
  return lane_of(parts[0]);
}

}  // namespace aipu::tir
