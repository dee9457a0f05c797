// Conversions of values in parts, as the instructions that there are (LowerVectorCast).
#include <algorithm>

#include "codegen/compass_c/vector_aligner.h"
#include "codegen/intrinsics/intrinsic_table.h"

namespace aipu::tir::c_text {

// Whether vectors are converted directly (intrinsics.md 7.1).
bool VectorAligner::has_conversion(DType from, DType to) {
  const auto half = [](DType d) { return d == DType::kF16 || d == DType::kBF16; };
  const auto narrow = [](DType d) { return is_integer(d) && dtype_bits(d) <= 16; };
  if ((half(from) && narrow(to)) || (narrow(from) && half(to))) return false;
  if (from == DType::kU32) return !is_floating(to);
  return to != DType::kU32 || (from != DType::kF32 && from != DType::kBF16);
}

// Part `part` of `ratio` of an integer vector, in elements `ratio` times as wide.
Expr VectorAligner::extended(const Expr& value, DType to, int ratio, int part) {
  Expr result = value;
  for (int r = ratio; r > 1; r /= 2) {
    const int half = r / 2;
    result = call(part / half % 2 == 0 ? "vxtl" : "vxth", {result});
  }
  if (failed_ || result->type.element == to) return result;
  return call(is_signed_int(to) ? "i" : "u", {result});
}

// Integer vectors, narrowed and joined to one; missing ones leave lanes open.
Expr VectorAligner::narrowed(const std::vector<Expr>& values, Type to, bool saturate) {
  const DType from = values[0]->type.element;
  const int ratio = dtype_bits(from) / dtype_bits(to.element);
  const bool to_half = dtype_bits(from) == 32 && dtype_bits(to.element) == 16;
  std::vector<Expr> parts;
  for (const Expr& value : values) {
    // Signs: 1 unsigned, 2 signed, as the row's choices say.
    std::vector<std::pair<std::string, int64_t>> attributes = {{"out_sign", is_signed_int(to.element) ? 2 : 1}};
    if (saturate) attributes.emplace_back("saturate", 1);
    if (to_half) attributes.emplace_back("to_h", 1);
    parts.push_back(call("vnsr", {value, int_imm(0)}, std::move(attributes)));
    if (failed_) return value;
  }
  // Each holds its lanes at every `ratio`-th place.
  while (static_cast<int>(parts.size()) < ratio) parts.push_back(parts.back());
  while (parts.size() > 1) {
    std::vector<Expr> next;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      Expr pair = call("vconcat", {parts[i], parts[i + 1]}, {{"part", 3}});
      if (failed_) return parts[0];
      next.push_back(std::move(pair));
    }
    parts = std::move(next);
  }
  return parts[0]->type == to ? parts[0] : give_up();
}

bool VectorAligner::are_rounded(const std::vector<Expr>& values, Type to) {
  return is_integer(to.element) && dtype_bits(to.element) < 32 &&
         std::all_of(values.begin(), values.end(), [](const Expr& value) {
           const auto* n = value->as<IntrinsicCall>();
           return n != nullptr && n->intrinsic->name == "rint" && value->type.element == DType::kF32;
         });
}

VectorAligner::Parts VectorAligner::cast_parts(Type to, const Parts& operand, Type from, bool saturate) {
  if (failed_ || operand.empty()) return {};
  const int from_bits = dtype_bits(from.element), to_bits = dtype_bits(to.element);
  if (from_bits * 8 == to_bits || to_bits * 8 == from_bits) {
    // There is no instruction that far.
    const DType middle = is_floating(from.element) && is_floating(to.element) ? DType::kF32
                         : is_unsigned_int(from.element)                      ? DType::kU32
                                                                              : DType::kI32;
    const Type between = to.with_element(middle);
    return cast_parts(to, cast_parts(between, operand, from, saturate), between, saturate);
  }
  const int lanes = native_lanes(to.element);
  const auto count = static_cast<size_t>((to.lanes + lanes - 1) / lanes);
  const bool ints = is_integer(from.element) && is_integer(to.element);
  const int64_t type = attribute_of_type(to.with_lanes(lanes));
  Parts result;
  Expr value;
  for (size_t i = 0; i < count && !failed_; ++i) {
    if (from_bits == to_bits) {
      if (i >= operand.size()) return {};
      const Type one = to.with_lanes(lanes);
      result.push_back(ints && saturate ? call("cast", {operand[i]}, {{"dtype", type}, {"saturate", 2}})
                                        : cast(one, operand[i]));
    } else if (from_bits < to_bits) {
      const int ratio = to_bits / from_bits;
      const size_t source = i / static_cast<size_t>(ratio);
      const int part = static_cast<int>(i) % ratio;
      if (source >= operand.size() || ratio > 4) return {};
      if (part == 0) {
        value = bind(operand[source]);
        // What is below zero saturates; nothing else does.
        if (ints && saturate && is_signed_int(from.element) && !is_signed_int(to.element))
          value = call("max", {value, broadcast(int_imm(0, from.element), value->type.lanes)});
      }
      if (ints && to_bits < 64) {
        result.push_back(extended(value, to.element, ratio, part));
      } else {
        // Choices: low, high; ll, lh, hl, hh.
        result.push_back(call("cast", {value}, {{"dtype", type}, {"part", (ratio == 2 ? 1 : 5) + part}}));
      }
    } else {
      const auto ratio = static_cast<size_t>(from_bits / to_bits);
      const Parts some(operand.begin() + static_cast<ptrdiff_t>(std::min(operand.size(), i * ratio)),
                       operand.begin() + static_cast<ptrdiff_t>(std::min(operand.size(), (i + 1) * ratio)));
      if (some.empty()) return {};
      if (are_rounded(some, to)) {
        Parts words;
        for (const Expr& one : some) words.push_back(cast(one->type.with_element(DType::kI32), one));
        result.push_back(narrowed(words, to.with_lanes(lanes), false));
      } else if (ints && ratio <= 4 && from_bits < 64) {
        result.push_back(narrowed(some, to.with_lanes(lanes), saturate));
      } else {
        result.push_back(call("cast", some, {{"dtype", type}, {"saturate", ints && saturate ? 2 : 0}}));
      }
    }
  }
  return result;
}

}  // namespace aipu::tir::c_text
