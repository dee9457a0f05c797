#include "codegen/lower/vector_splitter.h"

#include <algorithm>

namespace aipu::tir {
namespace {

bool has_param(const Intrinsic& intrinsic, std::string_view name) {
  return std::any_of(intrinsic.params.begin(), intrinsic.params.end(),
                     [&](const IntrinsicParam& param) { return param.name == name; });
}

}  // namespace

VectorSplitter::Pieces VectorSplitter::whole_pieces(const std::vector<Expr>& operands) {
  Pieces pieces;
  pieces.type = operands[0]->type;
  pieces.type.lanes = 0;
  for (const Expr& operand : operands) {
    const bool is_split = plan_.is_split(operand->type);
    Chunks values = is_split ? split(operand) : Chunks{scalar(operand)};
    for (Expr& value : values) value = bind_chunk(value);  // each may be taken several times
    const std::vector<Chunk> chunks =
        is_split ? cut(operand->type) : std::vector<Chunk>{{0, operand->type.lanes, operand->type.lanes}};
    for (size_t k = 0; k < values.size(); ++k) {
      pieces.values.push_back(values[k]);
      pieces.chunks.push_back({pieces.type.lanes + chunks[k].offset, chunks[k].lanes, chunks[k].valid});
    }
    pieces.type.lanes += operand->type.lanes;
  }
  return pieces;
}

void VectorSplitter::add_piece(Pieces& pieces, Expr value) {
  const int lanes = value->type.lanes;
  pieces.type = value->type.with_lanes(pieces.type.lanes + lanes);
  pieces.chunks.push_back({pieces.type.lanes - lanes, lanes, lanes});
  pieces.values.push_back(std::move(value));
}

Expr VectorSplitter::spill(const Pieces& pieces, int64_t room) {
  Expr pointer = var_ref(allocate("t", pieces.type, room));
  store_chunks(pieces.values, pieces.chunks, pieces.type, pointer);
  return pointer;
}

Expr VectorSplitter::gather_chunk(const Pieces& pieces, Type type, const Chunk& chunk, const LaneMap& from,
                                  Expr* memory) {
  const int first = from(chunk.offset);
  const int step = chunk.valid > 1 ? from(chunk.offset + 1) - first : 1;
  bool regular = true;
  for (int i = 0; i < chunk.valid; ++i) regular &= from(chunk.offset + i) == first + i * step;
  if (regular && step == 1) {
    for (size_t k = 0; k < pieces.chunks.size(); ++k) {
      const Chunk& piece = pieces.chunks[k];
      if (piece.offset == first && piece.lanes == chunk.lanes && piece.valid >= chunk.valid) return pieces.values[k];
    }
  }
  Expr own;
  Expr& pointer = memory ? *memory : own;
  if (!pointer) pointer = spill(pieces);
  const bool boolean = is_bool(type.element);
  const Type element = boolean ? type.with_element(DType::kU8) : type;
  Expr value;
  if (regular && step == 1) {
    value = load_chunk(move(pointer, first), chunk, chunk_type(element, chunk));
  } else if (regular && step > 1) {
    value = load_chunk(move(pointer, first), chunk, chunk_type(element, chunk), nullptr, int_imm(step));
  } else if (regular && step == 0) {
    value = broadcast(bind(load(pointer, int_imm(first))), chunk.lanes);
  } else {
    std::vector<Expr> lanes;
    for (int i = 0; i < chunk.lanes; ++i)
      lanes.push_back(load(pointer, int_imm(from(chunk.offset + std::min(i, chunk.valid - 1)))));
    value = make_expr(chunk_type(element, chunk), VectorLiteral{std::move(lanes)});
  }
  return bind_chunk(boolean ? from_bytes(value) : value);
}

Chunks VectorSplitter::gather_all(const Pieces& pieces, Type type, const LaneMap& from) {
  Chunks result;
  Expr memory;
  for (const Chunk& chunk : cut(type)) result.push_back(gather_chunk(pieces, type, chunk, from, &memory));
  return result;
}

VectorSplitter::Pieces VectorSplitter::rearranged(const Pieces& pieces, Type type, const LaneMap& from) {
  Pieces result;
  result.type = type.with_lanes(0);
  Expr memory;
  const std::vector<Chunk> chunks = plan_.is_split(type) ? cut(type) : std::vector<Chunk>{{0, type.lanes, type.lanes}};
  for (const Chunk& chunk : chunks) result.values.push_back(gather_chunk(pieces, type, chunk, from, &memory));
  result.chunks = chunks;
  result.type = type;
  return result;
}

std::optional<VectorSplitter::Pieces> VectorSplitter::pieces_of(const Expr& e, const IntrinsicCall& n) {
  const std::string_view name = n.intrinsic->name;
  const Type type = e->type, operand = n.args.empty() ? Type::void_type() : n.args[0]->type;
  const int lanes = operand.lanes;
  const int64_t part = n.attribute("part");
  if (!n.intrinsic->reduces_by.empty()) {
    const Expr lane = reduce(e, n);
    const VarPtr var = new_var("v", type);
    emit(Define{var, zero_of(type)});
    emit(LaneWrite{var, int_imm(0), lane});
    Pieces pieces;
    pieces.type.lanes = 0;
    add_piece(pieces, var_ref(var));
    return pieces;
  }
  if (name == "vconcat") {
    const Pieces all = whole_pieces(n.args);
    const int half = lanes / 2;
    return rearranged(all, type, [=](int i) {
      if (part == 0) return i;
      const int base = i / half * lanes, k = i % half;
      return base + (part == 1 ? k : part == 2 ? half + k : part == 3 ? 2 * k : 2 * k + 1);
    });
  }
  if (name == "vzip") {
    const Pieces all = whole_pieces(n.args);
    const int half = lanes / 2;
    return rearranged(all, type, [=](int i) {
      const int base = i % 2 * lanes, k = i / 2;
      return base + (part == 2 ? half + k : part == 3 ? 2 * k : part == 4 ? 2 * k + 1 : k);
    });
  }
  if (name == "vpart") {
    const auto first = static_cast<int>(n.attribute("index") * n.attribute("lanes"));
    return rearranged(whole_pieces(n.args), type, [=](int i) { return first + i; });
  }
  if (name == "vrevs") return rearranged(whole_pieces(n.args), type, [=](int i) { return lanes - 1 - i; });
  if (name == "vsldl") {
    const auto shift = static_cast<int>(as_int(n.args[2]).value_or(0));
    return rearranged(whole_pieces({n.args[0], n.args[1]}), type, [=](int i) { return i + shift; });
  }
  if (name == "vshfl") {
    if (const auto shift = as_int(n.args[1])) {
      return rearranged(whole_pieces({n.args[0]}), type, [=](int i) { return static_cast<int>((i + *shift) % lanes); });
    }
    // Twice in memory, read from the shift on.
    const Pieces twice = whole_pieces({n.args[0], n.args[0]});
    const Expr shift = binary(BinaryOp::kMod, scalar(n.args[1]), int_imm(lanes));
    const Expr inside = bind(binary(BinaryOp::kMod, binary(BinaryOp::kAdd, shift, int_imm(lanes)), int_imm(lanes)));
    const Expr pointer = bind(move(spill(twice), inside));
    Pieces result;
    result.type = type;
    result.chunks = cut(type);
    result.values = load_all(pointer, type);
    return result;
  }
  if (name == "vreplic") {
    const Pieces all = whole_pieces({n.args[0]});
    if (const auto index = as_int(n.args[1]))
      return rearranged(all, type, [=](int) { return static_cast<int>(*index); });
    const Expr index = scalar(n.args[1]);
    Expr lane = load(spill(all), index);
    if (is_bool(type.element)) lane = binary(BinaryOp::kNe, lane, int_imm(0, DType::kU8));
    lane = bind(lane);
    Pieces result;
    result.type = type;
    result.chunks = cut(type);
    for (const Chunk& chunk : result.chunks) result.values.push_back(broadcast(lane, chunk.lanes));
    return result;
  }
  if (name == "reinterpret" && !operand.pointer && !type.pointer) {
    // The same bytes, as other lanes.
    if (plan_.is_split(operand) && plan_.is_split(type) && !operand.is_mask() && !type.is_mask()) {
      const std::vector<Chunk>&from = cut(operand), &to = cut(type);
      const bool alike =
          std::equal(from.begin(), from.end(), to.begin(), to.end(), [&](const Chunk& a, const Chunk& b) {
            return !a.padded() && !b.padded() &&
                   a.lanes * dtype_bits(operand.element) == b.lanes * dtype_bits(type.element);
          });
      if (alike) {
        const Chunks values = split(n.args[0]);
        Pieces result;
        result.type = type;
        result.chunks = to;
        for (size_t k = 0; k < to.size(); ++k) {
          result.values.push_back(bind_chunk(call(
              "reinterpret", {values[k]}, {{"dtype", attribute_of_type(Type::vector(type.element, to[k].lanes))}})));
        }
        return result;
      }
    }
    const Pieces all = whole_pieces({n.args[0]});
    const Expr memory = cast(Type::pointer_to(type.element, 1, Scope::kPrivate), spill(all, lanes + 16));
    const Expr pointer = bind(memory);
    Pieces result;
    result.type = type;
    if (!plan_.is_split(type)) {
      result.chunks = {{0, type.lanes, type.lanes}};
      result.values = {
          bind_chunk(type.is_vector() ? load_chunk(pointer, result.chunks[0], type) : load(pointer, int_imm(0)))};
    } else {
      result.chunks = cut(type);
      result.values = load_all(pointer, type);
    }
    return result;
  }
  if (name == "cast") return cast_pieces(e, n);
  if (const std::string_view of_pairs = n.intrinsic->pairs_by; !of_pairs.empty()) {
    std::vector<std::pair<std::string, int64_t>> saturating;
    if (has_param(*find_intrinsic(of_pairs), "saturate")) saturating.emplace_back("saturate", 1);
    const Pieces all = whole_pieces(n.args);
    const Pieces even = rearranged(all, type, [](int i) { return 2 * i; });
    const Pieces odd = rearranged(all, type, [](int i) { return 2 * i + 1; });
    Pieces result = even;
    for (size_t k = 0; k < result.values.size(); ++k)
      result.values[k] = bind_chunk(call(of_pairs, {even.values[k], odd.values[k]}, saturating));
    return result;
  }
  if (n.intrinsic->registerwise) return registerwise(e, n, operand_of(n, "acc") != nullptr);
  if (n.intrinsic->splitting == Splitting::kNone && type.is_vector()) return nativewise(e, n, operand);
  return std::nullopt;
}

std::optional<VectorSplitter::Pieces> VectorSplitter::nativewise(const Expr& e, const IntrinsicCall& n, Type operand) {
  const int blocks = operand.lanes * dtype_bits(operand.element) / kNativeBits;
  if (!plan_.has_native_registers() || blocks < 1 || operand.lanes % blocks != 0) return std::nullopt;
  // Operands in order, each once.
  struct Whole {
    Pieces pieces;
    Expr memory;  // where it is spilled, once
  };
  std::vector<Whole> wholes;
  const auto add = [&](const Expr& value) {
    Whole whole;
    if (value && value->type.is_vector())
      whole.pieces = whole_pieces({value});
    else if (value)
      whole.memory = bind(scalar(value));
    wholes.push_back(std::move(whole));
  };
  for (const Expr& arg : n.args) add(arg);
  add(n.mask);
  add(n.pass_through);
  Pieces result;
  result.type = e->type.with_lanes(0);
  for (int block = 0; block < blocks; ++block) {
    std::vector<Expr> values;
    for (Whole& whole : wholes) {
      if (whole.pieces.values.empty()) {
        values.push_back(whole.memory);
        continue;
      }
      const int lanes = whole.pieces.type.lanes / blocks;
      values.push_back(gather_chunk(
          whole.pieces, whole.pieces.type, {block * lanes, lanes, lanes}, [](int i) { return i; }, &whole.memory));
    }
    const Expr pass_through = values.back(), mask = values[values.size() - 2];
    values.resize(values.size() - 2);
    add_piece(result, bind_chunk(call(n.intrinsic->name, values, n.attributes, mask, pass_through)));
  }
  return result;
}

std::optional<VectorSplitter::Pieces> VectorSplitter::registerwise(const Expr& e, const IntrinsicCall& n,
                                                                   bool accumulating) {
  const Type type = e->type;
  const size_t first = accumulating ? 1 : 0;
  const Type operand = n.args[first]->type;
  // Vectors that are cut into less than native ones, for the sake of wider elements elsewhere, are put together for
  // these.
  if (plan_.is_split(operand) && plan_.has_native_registers()) {
    for (const Chunk& chunk : cut(operand)) {
      if (chunk.padded() || chunk.lanes * dtype_bits(operand.element) % kNativeBits != 0)
        return nativewise(e, n, operand);
    }
  }
  const std::vector<Chunk> chunks =
      plan_.is_split(operand) ? cut(operand) : std::vector<Chunk>{{0, operand.lanes, operand.lanes}};
  const auto values_of = [&](const Expr& value) {
    return plan_.is_split(value->type) ? split(value) : Chunks{bind_chunk(scalar(value))};
  };
  const Chunks x = values_of(n.args[first]), y = values_of(n.args[first + 1]);
  const Chunks masks = n.mask ? values_of(n.mask) : Chunks();
  Pieces acc;
  if (accumulating) acc = whole_pieces({n.args[0]});
  Pieces result;
  result.type = type.with_lanes(0);
  for (size_t k = 0; k < chunks.size(); ++k) {
    const Chunk& chunk = chunks[k];
    const int out_lanes = static_cast<int>(static_cast<int64_t>(chunk.lanes) * type.lanes / operand.lanes);
    if (chunk.padded() || out_lanes < 2) return std::nullopt;
    std::vector<Expr> args = {x[k], y[k]};
    if (accumulating) {
      const int start = result.type.lanes;
      args.insert(args.begin(), gather_chunk(acc, type, {start, out_lanes, out_lanes}, [](int i) { return i; }));
    }
    const Expr mask = masks.empty() ? nullptr : masks[k];
    std::vector<std::pair<std::string, int64_t>> attributes = n.attributes;
    if (!plan_.has_native_registers() && has_param(*n.intrinsic, "half")) {
      attributes.emplace_back("half", 1);
      std::sort(attributes.begin(), attributes.end());
    }
    auto made = intrinsic_call(n.intrinsic->name, args, std::move(attributes), mask, nullptr, span_);
    if (!made.ok()) return std::nullopt;
    add_piece(result, bind_chunk(*made));
  }
  return result;
}

std::optional<VectorSplitter::Pieces> VectorSplitter::cast_pieces(const Expr& e, const IntrinsicCall& n) {
  const Type type = e->type, from = n.args[0]->type;
  const auto part = static_cast<int>(n.attribute("part"));
  const Pieces all = whole_pieces(n.args);
  const int lanes = from.lanes, given = all.type.lanes;
  const auto source = [=](int i) {
    switch (part) {
      case 2:
        return lanes / 2 + i;  // high
      case 3:
        return 2 * i;  // even
      case 4:
        return 2 * i + 1;  // odd
      case 6:
        return lanes / 4 + i;  // lh
      case 7:
        return lanes / 2 + i;  // hl
      case 8:
        return lanes / 4 * 3 + i;  // hh
      default:
        return std::min(i, given - 1);
    }
  };
  // In steps that both types fit.
  const int step = std::min(plan_.register_lanes(from.element), plan_.register_lanes(type.element));
  const std::vector<std::pair<std::string, int64_t>> attributes = {
      {"dtype", attribute_of_type(Type::scalar(type.element))}, {"saturate", n.attribute("saturate")}};
  Pieces result;
  result.type = type.with_lanes(0);
  Expr memory;
  const std::vector<Chunk> chunks = plan_.is_split(type) ? cut(type) : std::vector<Chunk>{{0, type.lanes, type.lanes}};
  for (const Chunk& chunk : chunks) {
    const int each = std::min(step, chunk.lanes);
    for (int offset = chunk.offset; offset < chunk.offset + chunk.lanes; offset += each) {
      Expr value = call("cast", {gather_chunk(all, from, {offset, each, each}, source, &memory)}, attributes);
      // Lanes that nothing was given for are 0.
      const int filled = std::min(std::max(given - offset, 0), each);
      if (part == 0 && filled < each)
        value = call("vsel", {value, zero_of(value->type)}, {}, literal_mask(each, filled));
      result.values.push_back(bind_chunk(value));
      result.chunks.push_back({offset, each, each});
    }
  }
  result.type = type;
  return result;
}

}  // namespace aipu::tir
