// How intrinsics are spelled in c_code (toolchain.md 6.6): one table row for each that c_spelling has no row for. Where
// the spec has no word (conversions, classification, extensions) the row chooses a name in the style of its neighbours.
#include <fmt/format.h>

#include <functional>
#include <unordered_map>

#include "codegen/c_spelling/c_names.h"
#include "codegen/c_spelling/call_spellings.h"
#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/text_printer.h"
#include "codegen/intrinsics/intrinsic_table.h"

namespace aipu::tir::c_text {
namespace {

// One call being printed.
struct Call : SpelledCall {
  TextPrinter& p;
};
using Printer = std::function<std::string(const Call&)>;

std::string multiply(const Call& c) {
  const bool same = c.arg_type(0) == c.type && c.arg_type(1) == c.type;
  if (c.all_lanes() && same) return fmt::format("({} * {})", c.arg(0), c.arg(1));
  // Of 32 bits __vmul has products of 64: lanes of two signs are read with that of the result.
  const auto as_result = [&](size_t i) {
    return c.arg_type(i) == c.type ? c.arg(i) : fmt::format("as_{}({})", c.type_text(), c.arg(i));
  };
  if (c.all_lanes() && c.type.element != DType::kF32 && dtype_bits(c.type.element) == 32 &&
      c.arg_type(0).lanes == c.type.lanes)
    return fmt::format("({} * {})", as_result(0), as_result(1));
  // Integers have no masked multiply.
  if (is_integer(c.type.element) && c.p.spelling().combine_instructions) {
    for (const auto& [half, name] : {std::pair{"vxtl", "__vmul"}, std::pair{"vxth", "__vmulh"}}) {
      const Expr x = extended_half(c.arg_expr(0), half), y = extended_half(c.arg_expr(1), half);
      if (x != nullptr && y != nullptr && x->type.lanes == y->type.lanes)
        return fmt::format("{}({}, {}, {}, {})", name, c.inactive(), c.p.expr(x), c.p.expr(y), c.mask());
    }
  }
  if (is_integer(c.type.element) && !c.all_lanes() && c.p.spelling().lower_virtual_isa)
    return fmt::format("__vsel(({} * {}), {}, {})", c.arg(0), c.arg(1), c.inactive(), c.mask());
  return with_r("__vmul").print(c);
}

// ---- bits ----

bool of_all_lanes(const Call& c, const IntrinsicCall& call, const Type& type) {
  return c.p.mask_or_all(call.mask, type.lanes) == all_true(type.lanes);
}

// The operand of an inversion of all lanes; null: it is none.
Expr inverted(const Call& c, const Expr& e) {
  const auto* call = e->as<IntrinsicCall>();
  if (call != nullptr)
    return call->intrinsic->name == "vinv" && of_all_lanes(c, *call, e->type) ? call->args[0] : nullptr;
  const auto* n = e->as<Unary>();
  return n != nullptr && n->op == UnaryOp::kBitNot ? n->operand : nullptr;
}

// Where one operand is inverted, another instruction does both.
Printer bitwise_or(const std::string& name, const std::string& with_inverted) {
  return [name, with_inverted](const Call& c) {
    if (c.p.spelling().combine_instructions) {
      const std::string r = c.type.is_mask() ? "" : c.inactive() + ", ";
      for (const size_t i : {1, 0}) {
        if (const Expr x = inverted(c, c.arg_expr(i)))
          return fmt::format("{}({}{}, {}, {})", with_inverted, r, c.arg(1 - i), c.p.expr(x), c.mask());
      }
    }
    return bitwise(name).print(c);
  };
}

std::string invert(const Call& c) {
  const auto* inner = c.arg_expr(0)->as<IntrinsicCall>();
  const bool combines = inner != nullptr && c.type.is_mask() && c.p.spelling().combine_instructions &&
                        (inner->intrinsic->name == "vand" || inner->intrinsic->name == "vor") &&
                        of_all_lanes(c, *inner, c.type);
  if (!combines) return bitwise("__vinv").print(c);
  return fmt::format("{}({}, {}, {})", inner->intrinsic->name == "vand" ? "__vnand" : "__vnor",
                     c.p.expr(inner->args[0]), c.p.expr(inner->args[1]), c.mask());
}

// Bits of the classes of a float, as __class counts them.
Printer classify(int classes) {
  return [classes](const Call& c) {
    if (c.type.is_scalar()) return fmt::format("((__class({}) & {}) != 0)", c.arg(0), classes);
    const Type& x = c.arg_type(0);
    const DType word = dtype_bits(x.element) == 16 ? DType::kU16 : DType::kU32;
    const Type bits = x.with_element(word);
    return fmt::format("__vcneq(__vand({0}, __vclass({1}, {2}), {3}, {2}), {0}, {2})", c.p.splat(bits, "0"), c.arg(0),
                       c.mask(), c.p.splat(bits, std::to_string(classes)));
  };
}

// ---- shifts ----

// The sign of the operand decides that of the result, unless a saturating form names it.
std::string narrowing_shift(const Call& c, bool saturate, bool round) {
  const bool is_signed = is_signed_int(c.arg_type(0).element), wants_signed = is_signed_int(c.type.element);
  std::string name = fmt::format("__vnsr{}{}{}", is_signed ? 'a' : 'l', saturate ? "s" : "", round ? "r" : "");
  if (dtype_bits(c.arg_type(0).element) == 32 && dtype_bits(c.type.element) == 16) name += "_h";
  if (saturate) name += wants_signed ? "_s" : "_u";
  const std::string text = with_mask(name).print(c);
  return saturate || is_signed == wants_signed ? text : fmt::format("as_{}({})", c.type_text(), text);
}

// ---- memory ----

// Elements as bytes; counts of a u8 pointer are bytes already.
std::string in_bytes(const Call& c, const Expr& count, int64_t element_bytes) {
  if (element_bytes == 1) return c.p.expr(count);
  return c.p.expr(simplify(binary(BinaryOp::kMul, count, int_imm(element_bytes, count->type.element))));
}
bool has_stride(const Call& c, size_t arg) { return arg < c.count() && as_int(c.arg_expr(arg)).value_or(0) != 1; }

std::string load(const Call& c) {
  const std::string mask = c.p.mask_or_all(c.call.mask, c.type.lanes);
  const bool all = mask == all_true(c.type.lanes);
  const auto element_bytes = static_cast<int64_t>(dtype_bytes(c.type.element));
  if (has_stride(c, 1)) {
    return fmt::format("__vload_stride({}, {}, {})", c.p.pointer_as(c.arg_expr(0), c.type),
                       in_bytes(c, c.arg_expr(1), element_bytes), mask);
  }
  if (all && c.p.spelling().revert_to_standard) {
    if (std::string text = c.p.named_access(c.arg_expr(0), c.type); !text.empty()) return text;
  }
  return fmt::format("__vload({}, {})", c.p.pointer_as(c.arg_expr(0), c.type), mask);
}
std::string store(const Call& c) {
  const Type& value = c.arg_type(0);
  const std::string mask = c.p.mask_or_all(c.call.mask, value.lanes);
  const bool all = mask == all_true(value.lanes);
  if (has_stride(c, 2)) {
    return fmt::format("__vstore_stride({}, {}, {}, {})", c.arg(0), c.p.pointer_as(c.arg_expr(1), value),
                       in_bytes(c, c.arg_expr(2), static_cast<int64_t>(dtype_bytes(value.element))), mask);
  }
  if (all && c.p.spelling().revert_to_standard) {
    const std::string place = c.p.named_access(c.arg_expr(1), value);
    if (!place.empty()) return fmt::format("{} = {}", place, c.p.expr(c.arg_expr(0), place));
  }
  return fmt::format("__vstore({}, {}, {})", c.arg(0), c.p.pointer_as(c.arg_expr(1), value), mask);
}
// Offset vectors are registers: two of them for 8-bit data, the lower lanes of one for 32-bit data.
std::string offsets(const Call& c, size_t arg) {
  const auto* call = c.arg_expr(arg)->as<IntrinsicCall>();
  if (call != nullptr && call->intrinsic->name == "vpart" && call->attribute("index") == 0)
    return c.p.expr(call->args[0]);
  if (call != nullptr && call->intrinsic->name == "vconcat" && call->attribute("part") == 0) {
    std::string text;
    for (const Expr& part : call->args) text += fmt::format("{}{}", text.empty() ? "" : ", ", c.p.expr(part));
    return text;
  }
  return c.arg(arg);
}
std::string gather(const Call& c) {
  const std::string pointer = c.p.pointer_as(c.arg_expr(0), c.type);
  const std::string mask = c.p.mask_or_all(c.call.mask, c.type.lanes);
  if (mask == all_true(c.type.lanes)) return fmt::format("__vload_gather({}, {})", pointer, offsets(c, 1));
  return fmt::format("__vload_gather({}, {}, {})", pointer, offsets(c, 1), mask);
}
std::string scatter(const Call& c) {
  const Type& value = c.arg_type(0);
  const std::string pointer = c.p.pointer_as(c.arg_expr(1), value);
  const std::string mask = c.p.mask_or_all(c.call.mask, value.lanes);
  if (mask == all_true(value.lanes))
    return fmt::format("__vstore_scatter({},{}, {})", c.arg(0), pointer, offsets(c, 2));
  return fmt::format("__vstore_scatter({},{}, {}, {})", c.arg(0), pointer, offsets(c, 2), mask);
}

// The first n lanes: with c = n << k the bits below c, which is right for all of 0 <= n <= lanes.
std::string tail_mask(const Call& c) {
  const int lanes = c.type.lanes;
  const int shift = lanes == 8 ? 2 : lanes == 16 ? 1 : lanes == 32 ? 0 : -1;
  if (shift < 0) return fmt::format("__tail_mask_{}({})", lanes, c.arg(0));
  const std::string n = shift == 0 ? c.arg(0) : fmt::format("({} << {})", c.arg(0), shift);
  return fmt::format("__vmov_{0}(((({1} >> 5) ^ 1) << {1}) - 1)", lanes == 8 ? 'w' : lanes == 16 ? 'h' : 'b', n);
}

// ---- parts ----

std::string concat(const Call& c) {
  const std::string_view part = c.part();
  if (part == "all") return fmt::format("({})({})", c.type_text(), c.args(","));
  return fmt::format("__vext{}({})", part.substr(0, 1), c.args());
}
std::string zip(const Call& c) {
  const std::string_view part = c.part();
  return part == "all" ? fmt::format("__vzip({})", c.args()) : fmt::format("__vzip{}({})", part.substr(0, 1), c.args());
}
std::string part_of_lanes(const Call& c) {
  const int64_t lanes = c.attribute("lanes"), first = c.attribute("index") * lanes;
  if (lanes == 1) return c.p.expr(make_expr(c.type, LaneRead{c.arg_expr(0), int_imm(first)}));
  return fmt::format("__vpart_{}({}, {})", c.type_text(), c.arg(0), first);
}
std::string table_lookup(const Call& c) {
  return fmt::format("{}({})", c.count() == 3 ? "__vperm" : "__vtbl", c.args());
}

// A rounded 16-bit float vector as integers twice as wide: X2 converts every other lane, X3 a half. "" for other casts.
std::string rounded_to_wider(const Call& c, std::string_view part) {
  const auto* rint = c.arg_expr(0)->as<IntrinsicCall>();
  const bool rounds = rint != nullptr && rint->intrinsic->name == "rint" && of_all_lanes(c, *rint, c.arg_type(0)) &&
                      c.p.spelling().combine_instructions && is_integer(c.type.element) &&
                      dtype_bits(c.type.element) == 32 && dtype_bits(c.arg_type(0).element) == 16;
  if (!rounds) return "";
  const auto convert = [&](std::string_view lanes) {
    return fmt::format("__vcvtu{}_{}({})", lanes, c.type_text(), c.p.expr(rint->args[0]));
  };
  if (c.p.spelling().converts_halves) {
    if (part == "low" || part == "high") return convert(part == "low" ? "l" : "h");
    return fmt::format("__vext{}({}, {})", part == "even" ? 'e' : 'o', convert("l"), convert("h"));
  }
  if (part == "even" || part == "odd") return convert(part == "even" ? "e" : "o");
  return fmt::format("__vzip{}({}, {})", part == "low" ? 'l' : 'h', convert("e"), convert("o"));
}
std::string cast_parts(const Call& c) {
  const std::string_view part = c.part();
  if (std::string text = rounded_to_wider(c, part); !text.empty()) return text;
  const bool saturate = c.attribute("saturate") == 2 && is_integer(c.arg_type(0).element) && is_integer(c.type.element);
  const std::string suffix = part == "all" ? "" : fmt::format("_{}", part);
  return fmt::format("convert_{}{}{}({})", c.type_text(), saturate ? "_sat" : "", suffix, c.args());
}
// The low or high half, twice as wide.
Printer extend(char half) {
  return [half](const Call& c) {
    return fmt::format("__v{}xt{}({})", is_signed_int(c.type.element) ? 's' : 'u', half, c.arg(0));
  };
}
std::string reinterpret(const Call& c) {
  if (c.arg_type(0).pointer || c.type.pointer) return fmt::format("({}){}", c.type_text(), c.arg(0));
  return fmt::format("as_{}({})", c.type_text(), c.arg(0));
}

// ---- DMA ----

bool on_chip(Scope scope) { return scope == Scope::kLsram || scope == Scope::kShared; }

std::string_view place(Scope scope) {
  switch (scope) {
    case Scope::kGlobal1:
      return "kGlobal1";
    case Scope::kGlobal2:
      return "kGlobal2";
    case Scope::kGlobal3:
      return "kGlobal3";
    case Scope::kLsram:
      return "kLsram";
    case Scope::kShared:
      return "kShared";
    default:
      return "kGlobal";
  }
}

// The macro that makes the function for this direction.
void declare_direction(const Call& c, std::string_view macro, Scope dst, Scope src) {
  const bool inwards = !on_chip(src) && on_chip(dst);
  c.p.use_dma_macro(fmt::format("{}{}({}, {});", macro, inwards ? "EXT2INT" : "INT2EXT", place(src), place(dst)));
}

// An address as a number: the type of the pointer does not matter.
std::string address(const Call& c, size_t i) {
  const Expr* pointer = &c.arg_expr(i);
  while ((*pointer)->as<Cast>() != nullptr && (*pointer)->as<Cast>()->operand->type.pointer)
    pointer = &(*pointer)->as<Cast>()->operand;
  return "(int)" + c.p.expr(*pointer);
}

// Operands dst, src, width, src_stride, times, dst_stride; counts are elements.
std::string dma_copy(const Call& c, bool async) {
  const int64_t bytes = c.arg_type(0).pointee().bytes();
  const auto given = [&](size_t i) { return i < c.count() && c.arg_expr(i) != nullptr; };
  const std::string width = in_bytes(c, c.arg_expr(2), bytes);
  const std::string src_stride = given(3) ? in_bytes(c, c.arg_expr(3), bytes) : width;
  const std::string dst_stride = given(5) ? in_bytes(c, c.arg_expr(5), bytes) : width;
  std::string total = width;
  if (given(4) && as_int(c.arg_expr(4)) != 1) {
    const Type index = Type::scalar(DType::kI32);
    const Expr all = binary(BinaryOp::kMul, cast(index, c.arg_expr(2)), cast(index, c.arg_expr(4)));
    total = in_bytes(c, simplify(all), bytes);
  }
  const Scope dst = c.arg_type(0).scope, src = c.arg_type(1).scope;
  declare_direction(c, async ? "GEN_ASYNC_DMA_DIRECT_" : "GEN_DMA_DIRECT_", dst, src);
  return fmt::format("{}DmaDirect_{}_to_{}({}, {}, {}, {}, {}, {}{})", async ? "Async" : "", place(src), place(dst),
                     address(c, 0), address(c, 1), width, src_stride, total, dst_stride, async ? ", " + c.arg(6) : "");
}
// Operands dst, src, row, col, dst_stride, src_stride.
std::string dma_transpose2d(const Call& c) {
  const std::string dst_stride = c.count() > 4 ? c.arg(4) : c.arg(2), src_stride = c.count() > 5 ? c.arg(5) : c.arg(3);
  const int64_t bytes = c.arg_type(0).pointee().bytes();
  const int unit = bytes == 1 ? 0 : bytes == 2 ? 1 : 2;
  return fmt::format("DMA_Transpose2D({}, {}, {}, {}, {}, {}, {}, {})", c.arg(1), c.arg(0), c.arg(3), c.arg(2),
                     src_stride, dst_stride, unit, bytes);
}
// Operands dst, src, h_scale, w_scale, c, w, src_c_stride, dst_c_stride, dst_w_stride; channels are bytes in C.
std::string dma_upsample(const Call& c) {
  if (c.count() < 9) return c.p.fail("S.dma_upsample has too few operands");
  const int64_t bytes = c.arg_type(0).pointee().bytes();
  const Scope dst = c.arg_type(0).scope, src = c.arg_type(1).scope;
  declare_direction(c, "GEN_DMA_UPSAMPLE_", dst, src);
  std::string text = fmt::format("DmaUpsample_{}_to_{}({}, {}", place(src), place(dst), address(c, 0), address(c, 1));
  for (size_t i = 2; i < 9; ++i)
    text += ", " + (i == 4 || i == 6 || i == 7 ? in_bytes(c, c.arg_expr(i), bytes) : c.arg(i));
  return text + ")";
}
// The lanes of a value as the word that memory is filled with.
std::string dma_memset(const Call& c) {
  const Type& pointer = c.arg_type(0);
  const auto bytes = static_cast<int64_t>(dtype_bytes(pointer.element));
  const std::string count = in_bytes(c, c.arg_expr(2), bytes);
  return fmt::format("Memset{}({}, {}, {}, {}, {})", on_chip(pointer.scope) ? "SRAM" : "DDR", c.arg(0), count, c.arg(1),
                     bytes == 1   ? 0
                     : bytes == 2 ? 1
                                  : 2,
                     pointer.scope == Scope::kLsram    ? 4
                     : pointer.scope == Scope::kShared ? 8
                                                       : 0);
}

// ---- arithmetic that is several instructions ----

std::string clip(const Call& c) {
  if (c.type.is_scalar()) return fmt::format("max(min({}, {}), {})", c.arg(0), c.arg(2), c.arg(1));
  const std::string x = c.arg(0), low = c.arg(1), high = c.arg(2), mask = c.mask();
  if (is_integer(c.type.element))
    return fmt::format("__vmax({0}, __vmin({0}, {0}, {2}, {3}), {1}, {3})", x, low, high, mask);
  // NaN compares as nothing and stays.
  const std::string above = fmt::format("__vsel({1}, {0}, __vqlt({0}, {1}, {2}))", x, low, mask);
  return fmt::format("__vsel({1}, {0}, __vqlt({1}, {0}, {2}))", above, high, mask);
}
// The instruction returns the operand that is a number.
Printer propagating_extremum(const std::string& scalar, const std::string& vector) {
  return [scalar, vector](const Call& c) {
    if (!is_floating(c.type.element)) return c.type.is_scalar() ? plain(scalar).print(c) : with_r(vector).print(c);
    const std::string x = c.arg(0), y = c.arg(1), mask = c.mask();
    if (c.type.is_scalar()) return fmt::format("({0} != {0} ? {0} : {1} != {1} ? {1} : {2}({0}, {1}))", x, y, scalar);
    const std::string number = fmt::format("{}({}, {}, {}, {})", vector, c.inactive(), x, y, mask);
    return fmt::format("__vsel({0}, __vsel({1}, {2}, __vqne({1}, {1}, {3})), __vqne({0}, {0}, {3}))", x, y, number,
                       mask);
  };
}
// What is said in another way than in the C that is compiled.
const std::unordered_map<std::string_view, Printer>& table() {
  static const std::unordered_map<std::string_view, Printer> rows = {
      // arithmetic
      {"vmul", multiply},
      {"vmull", with_r("__vmul").print},
      {"clip", clip},
      {"maximum", propagating_extremum("max", "__vmax")},
      {"minimum", propagating_extremum("min", "__vmin")},
      // bits
      {"vand", bitwise_or("__vand", "__vbclr")},
      {"vor", bitwise_or("__vor", "__vbset")},
      {"vinv", invert},
      {"vnsr",
       [](const Call& c) { return narrowing_shift(c, c.attribute("saturate") != 0, c.attribute("with_round") != 0); }},
      {"vnsrsr", [](const Call& c) { return narrowing_shift(c, true, true); }},
      // compare
      {"isnan", classify(0x300)},
      {"isinf", classify(0x081)},
      {"isfinite", classify(0x07e)},
      // memory
      {"vload", load},
      {"vstore", store},
      {"vload_gather", gather},
      {"vstore_scatter", scatter},
      {"dma_copy", [](const Call& c) { return dma_copy(c, false); }},
      {"async_dma_copy", [](const Call& c) { return dma_copy(c, true); }},
      {"dma_transpose2d", dma_transpose2d},
      {"dma_upsample", dma_upsample},
      {"dma_memset", dma_memset},
      // permutation and conversion
      {"vconcat", concat},
      {"vzip", zip},
      {"vpart", part_of_lanes},
      {"vtbl", table_lookup},
      {"tail_mask", tail_mask},
      {"reinterpret", reinterpret},
      {"i", reinterpret},
      {"u", reinterpret},
      {"vxtl", extend('l')},
      {"vxth", extend('h')},
      {"cast", cast_parts},
      // the fixed-function unit
      {"aiff", [](const Call& c) { return fmt::format("AIFF({}, 0)", c.args()); }},
      {"async_aiff", [](const Call& c) { return fmt::format("ASYNC_AIFF({}, 0)", c.args()); }},
  };
  return rows;
}

}  // namespace

std::string spell_intrinsic(TextPrinter& printer, const IntrinsicCall& call, const Type& type,
                            const std::string& destination) {
  const Call spelled{{printer, call, type, destination}, printer};
  if (const auto row = table().find(call.intrinsic->name); row != table().end()) return row->second(spelled);
  if (const CallSpelling* shared = shared_spelling(call.intrinsic->name)) return shared->print(spelled);
  return printer.fail(fmt::format("S.{} has no spelling", call.intrinsic->name));
}

}  // namespace aipu::tir::c_text
