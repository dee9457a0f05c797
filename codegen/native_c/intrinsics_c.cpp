// How intrinsics are spelled in the C that is compiled: functions of the prelude. One table row for each that
// c_spelling has no row for.
#include <fmt/format.h>

#include <functional>
#include <unordered_map>

#include "codegen/c_spelling/c_names.h"
#include "codegen/c_spelling/call_spellings.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/native_c/function_printer.h"

namespace aipu::tir {
namespace {

// One call being printed.
struct Call : SpelledCall {
  FunctionPrinter& p;
};
using Printer = std::function<std::string(const Call&)>;

std::string narrowing_shift(const Call& c, bool saturate, bool round) {
  return fmt::format("__vnsr<{}, {}, {}>({}, {})", c.type_text(), saturate, round, c.args(), c.mask());
}

// ---- memory ----

std::string vector_pointer(const Call& c, size_t arg, const Type& vector) {
  return c.p.pointer_as(c.arg_expr(arg), vector);
}

// A number of elements in bytes, in 64 bits.
std::string in_bytes(const Call& c, size_t arg, int64_t element_bytes) {
  if (const auto constant = as_int(c.arg_expr(arg))) return fmt::format("{}", *constant * element_bytes);
  if (element_bytes == 1) return c.p.wide_index(c.arg_expr(arg));
  return fmt::format("({} * {}L)", c.p.wide_index(c.arg_expr(arg)), element_bytes);
}
std::string stride_bytes(const Call& c, size_t arg, const Type& vector) {
  return in_bytes(c, arg, static_cast<int64_t>(dtype_bytes(vector.element)));
}
bool has_stride(const Call& c, size_t arg) { return arg < c.count() && as_int(c.arg_expr(arg)).value_or(0) != 1; }

std::string load(const Call& c) {
  const std::string pointer = vector_pointer(c, 0, c.type);
  const std::string mask = c.p.mask_or_all(c.call.mask, c.type.lanes);
  if (has_stride(c, 1)) return fmt::format("__vload_stride({}, {}, {})", pointer, stride_bytes(c, 1, c.type), mask);
  if (mask == all_true(c.type.lanes)) return fmt::format("__load({}, 0)", pointer);
  return fmt::format("__vload({}, {})", pointer, mask);
}
std::string load_part(const Call& c) {
  return fmt::format("__load_part<{}, {}, {}>({})", c.type_text(), c.attribute("index"), c.attribute("count"),
                     c.arg(0));
}
std::string store(const Call& c) {
  const Type& value = c.arg_type(0);
  const std::string pointer = vector_pointer(c, 1, value);
  const std::string mask = c.p.mask_or_all(c.call.mask, value.lanes);
  if (has_stride(c, 2))
    return fmt::format("__vstore_stride({}, {}, {}, {})", c.arg(0), pointer, stride_bytes(c, 2, value), mask);
  if (mask == all_true(value.lanes)) return fmt::format("__store({}, 0, {})", pointer, c.arg(0));
  return fmt::format("__vstore({}, {}, {})", c.arg(0), pointer, mask);
}
std::string gather(const Call& c) {
  const std::string pointer = vector_pointer(c, 0, c.type);
  const std::string mask = c.p.mask_or_all(c.call.mask, c.type.lanes);
  if (const int64_t entries = c.attribute("entries"); entries > 0 && mask == all_true(c.type.lanes))
    return fmt::format("__vload_lookup<{}>({}, {}, {})", entries, pointer, c.arg(1), mask);
  return fmt::format("__vload_gather({}, {}, {})", pointer, c.arg(1), mask);
}
std::string scatter(const Call& c) {
  const Type& value = c.arg_type(0);
  const std::string pointer = vector_pointer(c, 1, value);
  const std::string mask = c.p.mask_or_all(c.call.mask, value.lanes);
  return fmt::format("__vstore_scatter({}, {}, {}, {})", c.arg(0), pointer, c.arg(2), mask);
}

// ---- tail masks and constants ----

std::string tail_mask(const Call& c) { return fmt::format("__tail_mask<{}>({})", c.type.lanes, c.arg(0)); }

// ---- parts ----

std::string suffix(std::string_view part) {
  return std::string(1, part == "low" ? 'l' : part == "high" ? 'h' : part == "even" ? 'e' : 'o');
}

std::string concat(const Call& c) {
  const std::string_view part = c.part();
  const bool mask = c.type.is_mask();
  // Pairs of pairs; three or other counts cannot be vectors of a power of two lanes.
  std::vector<std::string> parts;
  for (size_t i = 0; i < c.count(); i++) parts.push_back(c.arg(i));
  if ((parts.size() & (parts.size() - 1)) != 0) return c.p.fail(fmt::format("S.vconcat of {} operands", parts.size()));
  if (part != "all") {
    for (size_t i = 0; 2 * i < parts.size(); i++)
      parts[i] = fmt::format("__vext{}({}, {})", suffix(part), parts[2 * i], parts[2 * i + 1]);
    parts.resize(parts.size() / 2);
  }
  while (parts.size() > 1) {
    for (size_t i = 0; 2 * i < parts.size(); i++)
      parts[i] = fmt::format("{}({}, {})", mask ? "__mask_concat" : "__concat", parts[2 * i], parts[2 * i + 1]);
    parts.resize(parts.size() / 2);
  }
  return parts[0];
}
std::string part_of_lanes(const Call& c) {
  const int64_t lanes = c.attribute("lanes"), first = c.attribute("index") * lanes;
  if (lanes == 1) return c.p.expr(make_expr(c.type, LaneRead{c.arg_expr(0), int_imm(first)}));
  const std::string text = fmt::format("__lanes_from<{}, {}, 1>({})", lanes, first, c.arg(0));
  return c.type.is_mask() ? fmt::format("__mask_of({})", text) : text;
}
// The tables come first in the call and last in C's template.
std::string table_lookup(const Call& c) {
  const size_t tables = c.count() - 1;
  std::string text = fmt::format("__vtbl({}", c.arg(tables));
  for (size_t i = 0; i < tables; i++) text += ", " + c.arg(i);
  return text + ")";
}

std::string zip(const Call& c) {
  const std::string_view part = c.part();
  if (part == "all") return fmt::format("{}({})", c.type.is_mask() ? "__mask_zip" : "__vzip", c.args());
  return fmt::format("__vzip{}({})", suffix(part), c.args());
}

// ---- DMA ----

// Operands dst, src, width, src_stride, times, dst_stride, all in elements. An asynchronous copy is done when the call
// returns.
std::string dma_copy(const Call& c) {
  const int64_t bytes = c.arg_type(0).pointee().bytes();
  const std::string width = in_bytes(c, 2, bytes);
  const std::string src_stride = c.count() > 3 ? in_bytes(c, 3, bytes) : width,
                    dst_stride = c.count() > 5 ? in_bytes(c, 5, bytes) : width;
  const std::string times = c.count() > 4 ? c.arg(4) : "1";
  return fmt::format("__dma_copy({}, {}, {}, {}, {}, {})", c.arg(0), c.arg(1), width, src_stride, times, dst_stride);
}
std::string dma_transpose2d(const Call& c) {
  const std::string dst_stride = c.count() > 4 ? c.arg(4) : c.arg(2), src_stride = c.count() > 5 ? c.arg(5) : c.arg(3);
  return fmt::format("__dma_transpose2d({}, {}, {}, {}, {}, {})", c.arg(0), c.arg(1), c.arg(2), c.arg(3), dst_stride,
                     src_stride);
}
std::string dma_upsample(const Call& c) {
  // dst, src, h_scale, w_scale, c, w, src_c_stride, dst_c_stride, dst_w_stride
  if (c.count() < 9) return c.p.fail("S.dma_upsample has too few operands");
  return fmt::format("__dma_upsample({})", c.args());
}
std::string dma_memset(const Call& c) {
  const Type scalar = c.arg_type(0).pointee().with_lanes(1);
  return fmt::format("__dma_memset({}, {}, {})", c.p.pointer_as(c.arg_expr(0), scalar), c.arg(1),
                     c.p.wide_index(c.arg_expr(2)));
}

std::string cast_parts(const Call& c);
std::string extend(const Call& c, bool high);
std::string reinterpret(const Call& c);

// What is said in another way than in the C that is read.
const std::unordered_map<std::string_view, Printer>& table() {
  static const std::unordered_map<std::string_view, Printer> rows = {
      // arithmetic
      {"vmull", with_r("__vmull").print},
      {"clip",
       [](const Call& c) {
         if (c.type.is_scalar()) return fmt::format("max(min({}, {}), {})", c.arg(0), c.arg(2), c.arg(1));
         return with_mask("__vclip").print(c);
       }},
      {"vnsr",
       [](const Call& c) { return narrowing_shift(c, c.attribute("saturate") != 0, c.attribute("with_round") != 0); }},
      {"vnsrsr", [](const Call& c) { return narrowing_shift(c, true, true); }},
      // memory
      {"vload", load},
      {"vload_part", load_part},
      {"vstore", store},
      {"vload_gather", gather},
      {"vstore_scatter", scatter},
      {"dma_copy", dma_copy},
      {"async_dma_copy", dma_copy},
      {"dma_transpose2d", dma_transpose2d},
      {"dma_upsample", dma_upsample},
      {"dma_memset", dma_memset},
      // permutation and conversion
      {"vconcat", concat},
      {"vzip", zip},
      {"vsel", [](const Call& c) { return mask_operand(c.type.is_mask() ? "__psel" : "__vsel").print(c); }},
      {"vpart", part_of_lanes},
      {"vshfl",
       [](const Call& c) {
         const auto shift = as_int(c.arg_expr(1));
         if (!shift) return plain("__vshfl").print(c);
         return fmt::format("__rotate<{}>({})", *shift, c.arg(0));
       }},
      {"vsldl",
       [](const Call& c) {
         return fmt::format("__vsldl_const<{}>({}, {})", as_int(c.arg_expr(2)).value_or(0), c.arg(0), c.arg(1));
       }},
      {"vtbl", table_lookup},
      {"reinterpret", reinterpret},
      {"i", reinterpret},
      {"u", reinterpret},
      {"vxtl", [](const Call& c) { return extend(c, false); }},
      {"vxth", [](const Call& c) { return extend(c, true); }},
      {"cast", cast_parts},
      {"tail_mask", tail_mask},
  };
  return rows;
}

// Operands joined to one vector of lanes * count lanes (a power of two; missing ones are 0).
std::string joined(const Call& c, size_t count) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < c.count(); i++) parts.push_back(c.arg(i));
  while (parts.size() < count) parts.push_back(c.p.zero(c.arg_type(0)));
  while (parts.size() > 1) {
    for (size_t i = 0; 2 * i < parts.size(); i++)
      parts[i] = fmt::format("__concat({}, {})", parts[2 * i], parts[2 * i + 1]);
    parts.resize(parts.size() / 2);
  }
  return parts[0];
}

// A conversion that takes a part of the lanes, joins several vectors, saturates, or does not fill its result.
std::string cast_parts(const Call& c) {
  const Type from = c.arg_type(0);
  const std::string_view part = c.part();
  const bool saturate = c.attribute("saturate") == 2 && is_integer(from.element) && is_integer(c.type.element);
  const bool simple = c.count() == 1 && part == "all" && from.lanes == c.type.lanes && !saturate;
  if (simple) return c.p.expr(cast(c.type, c.arg_expr(0)));
  if (saturate && c.count() == 4) return fmt::format("__convert_four_sat<{}>({})", c.type_text(), c.args());
  std::string operand = c.arg(0);
  int lanes = from.lanes;
  if (c.count() > 1) {
    size_t count = 2;
    while (count < c.count()) count *= 2;
    operand = joined(c, count);
    lanes *= static_cast<int>(count);
  } else if (part != "all") {
    lanes = c.type.lanes;
    const int n = from.lanes;
    const int first = part == "high" || part == "hl" ? n / 2
                      : part == "odd"                ? 1
                      : part == "lh"                 ? n / 4
                      : part == "hh"                 ? n / 4 * 3
                                                     : 0;
    operand =
        fmt::format("__lanes_from<{}, {}, {}>({})", lanes, first, part == "even" || part == "odd" ? 2 : 1, operand);
  }
  const Type converted = c.type.with_lanes(lanes);
  const std::string text =
      fmt::format("{}<{}>({})", saturate ? "__convert_sat" : "__convert", c_type(converted), operand);
  return lanes == c.type.lanes ? text : fmt::format("__fill<{}>({})", c.type_text(), text);
}

// The low or high half, twice as wide.
std::string extend(const Call& c, bool high) {
  return fmt::format("__convert<{}>(__lanes_from<{}, {}, 1>({}))", c.type_text(), c.type.lanes, high ? c.type.lanes : 0,
                     c.arg(0));
}

std::string reinterpret(const Call& c) {
  const Type& from = c.arg_type(0);
  if (from.pointer && c.type.pointer) return fmt::format("(({}){})", c.type_text(), c.arg(0));
  if (from.pointer && dtype_bits(c.type.element) == 32)
    return fmt::format("(({})__address32({}))", c.type_text(), c.arg(0));
  if (c.type.pointer && dtype_bits(from.element) == 32)
    return fmt::format("__address64<{}>((uint){})", c.type_text(), c.arg(0));
  if (from.pointer || c.type.pointer) return fmt::format("(({})(ulong){})", c.type_text(), c.arg(0));
  return fmt::format("__bits<{}>({})", c.type_text(), c.arg(0));
}

}  // namespace

std::string print_intrinsic(FunctionPrinter& printer, const IntrinsicCall& call, const Type& type) {
  const std::string nowhere;
  const Call spelled{{printer, call, type, nowhere}, printer};
  if (const auto row = table().find(call.intrinsic->name); row != table().end()) return row->second(spelled);
  if (const CallSpelling* shared = shared_spelling(call.intrinsic->name)) return shared->print(spelled);
  return printer.fail(fmt::format("S.{} has no spelling", call.intrinsic->name));
}

}  // namespace aipu::tir
