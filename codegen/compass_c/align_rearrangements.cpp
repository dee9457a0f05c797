// Intrinsics that move lanes between registers, on values in parts.
#include <algorithm>

#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/vector_aligner.h"
#include "codegen/intrinsics/intrinsic_table.h"

namespace aipu::tir::c_text {
namespace {

// The `part` of a call by name.
std::string_view part_name(const IntrinsicCall& n) {
  for (const IntrinsicParam& param : n.intrinsic->params) {
    if (param.name != "part") continue;
    const auto index = static_cast<size_t>(n.attribute("part", param.default_value));
    return index < param.choices.size() ? param.choices[index] : std::string_view();
  }
  return "all";
}

// Choices of vconcat and vzip: all, low, high, even, odd.
constexpr int64_t kLow = 1, kHigh = 2, kEven = 3;

}  // namespace

VectorAligner::Parts VectorAligner::rearranged_parts(const Expr& e, const IntrinsicCall& n, int lanes) {
  const std::string_view name = n.intrinsic->name;
  if (e->type.is_mask() || n.args.empty() || !n.args[0]->type.is_vector()) return {};
  const Type type = n.args[0]->type;
  const bool whole_registers = type.lanes % lanes == 0;
  const auto count = static_cast<size_t>((e->type.lanes + lanes - 1) / lanes);
  Parts result;

  if (name == "vzip") {
    const std::string_view part = part_name(n);
    if (part != "all" && !whole_registers) return {};
    const Parts x = parts(n.args[0], lanes), y = parts(n.args[1], lanes);
    if (x.size() != y.size()) return {};
    if (part == "even" || part == "odd") {
      // Lanes stay in their register.
      for (size_t i = 0; i < x.size(); ++i) result.push_back(call(name, {x[i], y[i]}, {{"part", n.attribute("part")}}));
      return result;
    }
    if (part != "all" && x.size() % 2 != 0) return {};
    const size_t first = part == "high" ? x.size() / 2 : 0;
    for (size_t i = first; i < x.size() && result.size() < count; ++i) {
      result.push_back(call(name, {x[i], y[i]}, {{"part", kLow}}));
      if (result.size() < count) result.push_back(call(name, {x[i], y[i]}, {{"part", kHigh}}));
    }
    return result.size() == count ? result : Parts();
  }

  // One operand after the other.
  const auto sequence = [&](size_t operands) {
    Parts all;
    for (size_t i = 0; i < operands; ++i) {
      for (Expr& part : parts(n.args[i], lanes)) all.push_back(std::move(part));
    }
    return all;
  };
  if (name == "vconcat") {
    const std::string_view part = part_name(n);
    if (part == "all" && type.lanes * 2 == lanes) {
      // Halves of registers, in pairs.
      const Parts all = sequence(n.args.size());
      for (size_t i = 0; i < all.size(); i += 2)
        result.push_back(i + 1 < all.size() ? call(name, {all[i], all[i + 1]}, {{"part", kLow}}) : all[i]);
      return result;
    }
    if (!whole_registers) return {};
    if (part == "all") return sequence(n.args.size());
    if (part == "low" || part == "high") {
      const auto registers = static_cast<size_t>(type.lanes / lanes);
      if (registers % 2 != 0) return {};
      const Parts all = sequence(n.args.size());
      for (size_t i = 0; i < all.size(); ++i) {
        if ((i % registers < registers / 2) == (part == "low")) result.push_back(all[i]);
      }
      return result;
    }
    const Parts all = sequence(n.args.size());
    if (all.size() % 2 != 0) return {};
    for (size_t i = 0; i < all.size(); i += 2)
      result.push_back(call(name, {all[i], all[i + 1]}, {{"part", part == "even" ? kEven : kEven + 1}}));
    return result;
  }
  if (!whole_registers) return {};
  if (name == "vrevs") {
    Parts all = sequence(1);
    std::reverse(all.begin(), all.end());
    for (const Expr& part : all) result.push_back(call(name, {part}));
    return result;
  }
  if (!n.intrinsic->pairs_by.empty()) {
    const Parts all = sequence(2);
    for (size_t i = 0; i + 1 < all.size(); i += 2) result.push_back(call(name, {all[i], all[i + 1]}));
    return result;
  }
  // A lane of the operands before it: the register, and the lane in there.
  struct Position {
    size_t skipped;
    Expr rest;
  };
  const auto position_at = [&](size_t operand) -> std::optional<Position> {
    if (n.args.size() <= operand) return std::nullopt;
    const auto index = as_int(n.args[operand]);
    if (!index || *index < 0 || *index >= type.lanes) return std::nullopt;
    return Position{static_cast<size_t>(*index / lanes), int_imm(*index % lanes, n.args[operand]->type.element)};
  };
  if (name == "vreplic") {
    const auto position = position_at(1);
    if (!position) return {};
    const Parts all = sequence(1);
    for (size_t i = 0; i < count; ++i) result.push_back(call(name, {all[position->skipped], position->rest}));
    return result;
  }
  if (name == "vshfl" || name == "vsldl") {
    const size_t operands = name == "vsldl" ? 2 : 1;
    const auto position = position_at(operands);
    if (!position) return {};
    const Parts all = sequence(operands);
    const auto& [skipped, rest] = *position;
    for (size_t i = 0; i < count; ++i) {
      const Expr &low = all[(i + skipped) % all.size()], &high = all[(i + skipped + 1) % all.size()];
      result.push_back(as_int(rest) == 0 ? low : call("vsldl", {low, high, rest}));
    }
    return result;
  }
  return {};
}

// The lanes of 16-bit indices that belong to part `i` of data with `lanes` lanes in a register.
Expr VectorAligner::index_part(const Parts& indices, size_t i, int lanes) {
  const auto own = static_cast<size_t>(indices[0]->type.lanes);
  const auto wanted = static_cast<size_t>(lanes);
  if (own == wanted) return i < indices.size() ? indices[i] : give_up();
  if (own > wanted) {
    const size_t ratio = own / wanted;
    if (i / ratio >= indices.size()) return give_up();
    return call("vpart", {indices[i / ratio]}, {{"index", static_cast<int64_t>(i % ratio)}, {"lanes", lanes}});
  }
  Parts some;
  for (size_t k = i * (wanted / own); k < (i + 1) * (wanted / own); ++k)
    some.push_back(indices[std::min(k, indices.size() - 1)]);
  return call("vconcat", some);
}

VectorAligner::Parts VectorAligner::gather_parts(const Expr& e, const IntrinsicCall& n, int lanes) {
  const Expr pointer = element_pointer(n.args[0], e->type.element, int_imm(0));
  const Parts indices = parts(n.args[1]), masks = n.mask ? parts(n.mask, lanes) : Parts();
  if (failed_ || indices.empty()) return {};
  Parts result;
  for (int offset = 0; offset < e->type.lanes && !failed_; offset += lanes) {
    const size_t i = result.size();
    const Expr inside =
        valid_mask(lanes, std::min(lanes, e->type.lanes - offset), i < masks.size() ? masks[i] : nullptr);
    result.push_back(call("vload_gather", {pointer, index_part(indices, i, lanes)}, {}, inside));
  }
  return result;
}

void VectorAligner::scatter_parts(const IntrinsicCall& n) {
  const Type type = n.args[0]->type;
  const int lanes = native_lanes(type.element);
  Parts values = parts(n.args[0]);
  Expr pointer = element_pointer(n.args[1], type.element, int_imm(0));
  Parts indices = parts(n.args[2]), masks = n.mask ? parts(n.mask, lanes) : Parts();
  if (failed_ || indices.empty()) return;
  if (values.size() > 1) {
    // All is read before anything is written.
    pointer = bind(pointer);
    for (Parts* some : {&values, &indices, &masks}) {
      if (!may_overlap(*some, n.args[1])) continue;
      for (Expr& part : *some) part = named(part);
    }
  }
  for (size_t i = 0; i < values.size() && !failed_; ++i) {
    const Expr inside = valid_mask(lanes, std::min(lanes, type.lanes - static_cast<int>(i) * lanes),
                                   i < masks.size() ? masks[i] : nullptr);
    emit(Evaluate{call("vstore_scatter", {values[i], pointer, index_part(indices, i, lanes)}, {}, inside)});
  }
}

// Lane 0 is what is left of all registers; the others are open, and 0 as within a register.
VectorAligner::Parts VectorAligner::reduced_parts(const Expr& e, const IntrinsicCall& n, int lanes) {
  const Type type = n.args[0]->type;
  if (type != e->type || type.lanes % lanes != 0 || n.attribute("return_idx") != 0 || n.mask) return {};
  Parts rest = parts(n.args[0], lanes);
  if (rest.empty() || (rest.size() & (rest.size() - 1)) != 0) return {};
  // The upper half into the lower half, as within a register: the result is the same to the bit.
  for (size_t half = rest.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) rest[i] = call(n.intrinsic->reduces_by, {rest[i], rest[i + half]});
  }
  const Expr zero = is_floating(type.element) ? float_imm(0, type.element) : int_imm(0, type.element);
  Parts result(static_cast<size_t>(type.lanes / lanes), broadcast(zero, lanes));
  result[0] = call(n.intrinsic->name, {rest[0]});
  return result;
}

}  // namespace aipu::tir::c_text
