// How each intrinsic is spelled in the C that is compiled: functions of the prelude. One table row per intrinsic.
#include <fmt/format.h>

#include <functional>
#include <unordered_map>

#include "codegen/c_spelling/call_spellings.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/native_c/function_printer.h"

namespace aipu::tir {
namespace {

// One call being printed.
struct Call {
  FunctionPrinter& p;
  const IntrinsicCall& call;
  const Type& type;

  size_t count() const { return call.args.size(); }
  const Type& arg_type(size_t i) const { return call.args[i]->type; }
  std::string arg(size_t i) const {
    return i < count() ? p.expr(call.args[i]) : p.fail(fmt::format("S.{} has too few operands", call.intrinsic->name));
  }
  std::string args(std::string_view separator = ", ") const {
    std::string text;
    for (size_t i = 0; i < count(); i++) text += fmt::format("{}{}", i == 0 ? std::string_view() : separator, arg(i));
    return text;
  }
  int64_t attribute(std::string_view name, int64_t value = 0) const { return call.attribute(name, value); }
  // The lanes of the operands decide the mask's.
  int mask_lanes() const {
    return call.mask ? call.mask->type.lanes : count() > 0 && !arg_type(0).pointer ? arg_type(0).lanes : type.lanes;
  }
  std::string mask() const { return p.mask_or_all(call.mask, mask_lanes()); }
  bool all_lanes() const { return mask() == p.all_true(mask_lanes()); }
  std::string inactive() const { return call.pass_through ? p.expr(call.pass_through) : p.zero(type); }
  std::string t() const { return c_type(type); }
};

using Spellings = CallSpellings<Call>;
using Printer = Spellings::Printer;
constexpr auto with_r = Spellings::with_r;
constexpr auto with_mask = Spellings::with_mask;
constexpr auto plain = Spellings::plain;
constexpr auto scalar_or = Spellings::scalar_or;
constexpr auto math = Spellings::math;
constexpr auto add_like = Spellings::add_like;
constexpr auto compare = Spellings::compare;
constexpr auto shift = Spellings::shift;
constexpr auto mask_operand = Spellings::mask_operand;
constexpr auto part_of = Spellings::part_of;

Printer bitwise(std::string name) {
  return [name](const Call& c) { return c.type.is_mask() ? with_mask(name)(c) : with_r(name)(c); };
}
std::string narrowing_shift(const Call& c, bool saturate, bool round) {
  return fmt::format("__vnsr<{}, {}, {}>({}, {})", c.t(), saturate, round, c.args(), c.mask());
}

// ---- memory ----

std::string vector_pointer(const Call& c, size_t arg, const Type& vector) {
  return c.p.pointer_as(c.call.args[arg], vector);
}

// A number of elements in bytes, in 64 bits.
std::string in_bytes(const Call& c, size_t arg, int64_t element_bytes) {
  if (const auto constant = as_int(c.call.args[arg])) return fmt::format("{}", *constant * element_bytes);
  if (element_bytes == 1) return c.p.wide_index(c.call.args[arg]);
  return fmt::format("({} * {}L)", c.p.wide_index(c.call.args[arg]), element_bytes);
}
std::string stride_bytes(const Call& c, size_t arg, const Type& vector) {
  return in_bytes(c, arg, static_cast<int64_t>(dtype_bytes(vector.element)));
}
bool has_stride(const Call& c, size_t arg) { return arg < c.count() && as_int(c.call.args[arg]).value_or(0) != 1; }

std::string load(const Call& c) {
  const std::string pointer = vector_pointer(c, 0, c.type);
  const std::string mask = c.p.mask_or_all(c.call.mask, c.type.lanes);
  if (has_stride(c, 1)) return fmt::format("__vload_stride({}, {}, {})", pointer, stride_bytes(c, 1, c.type), mask);
  if (mask == c.p.all_true(c.type.lanes)) return fmt::format("__load({}, 0)", pointer);
  return fmt::format("__vload({}, {})", pointer, mask);
}
std::string store(const Call& c) {
  const Type& value = c.arg_type(0);
  const std::string pointer = vector_pointer(c, 1, value);
  const std::string mask = c.p.mask_or_all(c.call.mask, value.lanes);
  if (has_stride(c, 2))
    return fmt::format("__vstore_stride({}, {}, {}, {})", c.arg(0), pointer, stride_bytes(c, 2, value), mask);
  if (mask == c.p.all_true(value.lanes)) return fmt::format("__store({}, 0, {})", pointer, c.arg(0));
  return fmt::format("__vstore({}, {}, {})", c.arg(0), pointer, mask);
}
std::string gather(const Call& c) {
  const std::string pointer = vector_pointer(c, 0, c.type);
  const std::string mask = c.p.mask_or_all(c.call.mask, c.type.lanes);
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
  const std::string_view part = part_of(c);
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
  if (lanes == 1) return c.p.expr(make_expr(c.type, LaneRead{c.call.args[0], int_imm(first)}));
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
  const std::string_view part = part_of(c);
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
  return fmt::format("__dma_memset({}, {}, {})", c.p.pointer_as(c.call.args[0], scalar), c.arg(1),
                     c.p.wide_index(c.call.args[2]));
}

// A bit per event.
Printer events(std::string name) {
  return [name](const Call& c) {
    std::string mask;
    for (size_t i = 0; i < c.count(); i++) mask += fmt::format("{}(1 << {})", i == 0 ? "" : " | ", c.arg(i));
    return fmt::format("{}({})", name, mask);
  };
}
std::string fixed_function(const Call& c) {
  return c.p.fail(fmt::format("S.{} needs the vendor's fixed-function unit; it can be printed, not compiled",
                              c.call.intrinsic->name));
}

std::string cast_parts(const Call& c);
std::string extend(const Call& c, bool high);
std::string reinterpret(const Call& c);

const std::unordered_map<std::string_view, Printer>& table() {
  static const std::unordered_map<std::string_view, Printer> rows = {
      // arithmetic
      {"vadd", add_like("+", "__vadd")},
      {"vsub", add_like("-", "__vsub")},
      {"vmul", add_like("*", "__vmul")},
      {"vdiv", with_r("__vdiv")},
      {"vmod", with_r("__vmod")},
      {"abs", scalar_or("__abs",
                        [](const Call& c) { return with_r(c.attribute("saturate") != 0 ? "__vabss" : "__vabs")(c); })},
      {"clip",
       [](const Call& c) {
         if (c.type.is_scalar()) return fmt::format("max(min({}, {}), {})", c.arg(0), c.arg(2), c.arg(1));
         return with_mask("__vclip")(c);
       }},
      {"fma",
       [](const Call& c) {
         if (c.type.is_scalar()) return fmt::format("fma({}, {}, {})", c.arg(1), c.arg(2), c.arg(0));
         return with_mask("__vfma")(c);
       }},
      {"rint", scalar_or("rint", with_r("__vrint"))},
      {"vmull", with_r("__vmull")},
      {"vmulh", with_r("__vmulh")},
      {"vaddh", plain("__vaddh")},
      {"vsubh", plain("__vsubh")},
      {"vmaxh", plain("__vmaxh")},
      {"vminh", plain("__vminh")},
      {"vmml", plain("__vmml")},
      {"vmma", plain("__vmma")},
      {"vfmae", with_mask("__vfmae")},
      {"vfmao", with_mask("__vfmao")},
      // dot products and reductions
      {"vdot", with_r("__vdot")},
      {"vqdot", with_r("__vqdot")},
      {"vdpa", [](const Call& c) { return with_mask(c.attribute("wrap") != 0 ? "__vdpa_wrap" : "__vdpa")(c); }},
      {"vqdpa", with_mask("__vqdpa")},
      {"vrpadd", with_r("__vrpadd")},
      {"vrpmax", [](const Call& c) { return with_r(c.attribute("return_idx") != 0 ? "__vrpmax_idx" : "__vrpmax")(c); }},
      {"vrpmin", [](const Call& c) { return with_r(c.attribute("return_idx") != 0 ? "__vrpmin_idx" : "__vrpmin")(c); }},
      // bitwise
      {"vand", bitwise("__vand")},
      {"vor", bitwise("__vor")},
      {"vxor", bitwise("__vxor")},
      {"vinv", bitwise("__vinv")},
      {"vall", plain("__vandr")},
      {"vany", plain("__vorr")},
      {"vsl", shift([](const Call& c) { return c.attribute("saturate") != 0 ? "__vsasl" : "__vlsl"; })},
      {"vsr", shift([](const Call& c) {
         return fmt::format("{}{}", is_signed_int(c.arg_type(0).element) ? "__vasr" : "__vlsr",
                            c.attribute("with_round") != 0 ? "r" : "");
       })},
      {"vror", shift([](const Call&) { return "__vror"; })},
      {"vnsr",
       [](const Call& c) { return narrowing_shift(c, c.attribute("saturate") != 0, c.attribute("with_round") != 0); }},
      {"vnsrsr", [](const Call& c) { return narrowing_shift(c, true, true); }},
      {"vcls", with_r("__vcls")},
      {"clz", scalar_or("__clz", with_r("__vclz"))},
      {"vbrevs", with_r("__vbrevs")},
      {"vpcnt", with_r("__vpcnt")},
      // compare
      {"vceq", compare("eq")},
      {"vcneq", compare("neq")},
      {"vcge", compare("ge")},
      {"vcgt", compare("gt")},
      {"vcle", compare("le")},
      {"vclt", compare("lt")},
      {"isnan", scalar_or("isnan", with_mask("__visnan"))},
      {"isinf", scalar_or("isinf", with_mask("__visinf"))},
      {"isfinite", scalar_or("isfinite", with_mask("__visfinite"))},
      {"max", scalar_or("max", with_r("__vmax"))},
      {"min", scalar_or("min", with_r("__vmin"))},
      {"maximum", scalar_or("__maximum", with_r("__vmaximum"))},
      {"minimum", scalar_or("__minimum", with_r("__vminimum"))},
      // math
      {"exp", math("exp")},
      {"log", math("log")},
      {"tanh", math("tanh")},
      {"sin", math("sin")},
      {"cos", math("cos")},
      {"sqrt", math("sqrt")},
      {"rsqrt", math("rsqrt")},
      {"floor", math("floor")},
      {"ceil", math("ceil")},
      {"erf", math("erf")},
      {"exp2", math("exp2")},
      {"pow", math("pow")},
      {"trunc", math("trunc")},
      {"round", math("round")},
      {"tan", math("tan")},
      {"asin", math("asin")},
      {"acos", math("acos")},
      {"atan", math("atan")},
      {"sinh", math("sinh")},
      {"cosh", math("cosh")},
      {"asinh", math("asinh")},
      {"acosh", math("acosh")},
      {"atanh", math("atanh")},
      {"log2", math("log2")},
      {"log10", math("log10")},
      {"sigmoid", math("sigmoid")},
      {"ceildiv", plain("ceildiv")},
      // memory
      {"vload", load},
      {"vstore", store},
      {"vload_gather", gather},
      {"vstore_scatter", scatter},
      {"dma_copy", dma_copy},
      {"async_dma_copy", dma_copy},
      {"dma_transpose2d", dma_transpose2d},
      {"dma_upsample", dma_upsample},
      {"dma_memset", dma_memset},
      {"flush_cache",
       [](const Call& c) {
         return fmt::format("__flush_cache({})",
                            c.count() > 0 ? c.arg(0) : fmt::format("{}", c.attribute("invalidate", 1)));
       }},
      {"prefetch", plain("__prefetch")},
      // permutation and conversion
      {"vconcat", concat},
      {"vzip", zip},
      {"vcompt", mask_operand("__vcompt")},
      {"vcompc", mask_operand("__vcompc")},
      {"vsel", [](const Call& c) { return mask_operand(c.type.is_mask() ? "__psel" : "__vsel")(c); }},
      {"vrevs", [](const Call& c) { return plain(c.type.is_mask() ? "__vprevs" : "__vrevs")(c); }},
      {"vpart", part_of_lanes},
      {"vshfl",
       [](const Call& c) {
         const auto shift = as_int(c.call.args[1]);
         if (!shift) return plain("__vshfl")(c);
         return fmt::format("__rotate<{}>({})", *shift, c.arg(0));
       }},
      {"vsldl",
       [](const Call& c) {
         return fmt::format("__vsldl_const<{}>({}, {})", as_int(c.call.args[2]).value_or(0), c.arg(0), c.arg(1));
       }},
      {"vreplic", plain("__vreplic")},
      {"vtbl", table_lookup},
      {"vbcast",
       [](const Call& c) {
         if (c.type.is_mask()) return c.p.expr(broadcast(c.call.args[0], c.type.lanes));
         const std::string mask = c.p.mask_or_all(c.call.mask, c.type.lanes);
         if (mask == c.p.all_true(c.type.lanes)) return c.p.splat(c.type, c.arg(0));
         return fmt::format("__vbcast({}, {}, {})", c.inactive(), c.arg(0), mask);
       }},
      {"const_mask", [](const Call& c) { return c.arg(0); }},
      {"reinterpret", reinterpret},
      {"i", reinterpret},
      {"u", reinterpret},
      {"vxtl", [](const Call& c) { return extend(c, false); }},
      {"vxth", [](const Call& c) { return extend(c, true); }},
      {"is_nullptr", [](const Call& c) { return fmt::format("({} == 0)", c.arg(0)); }},
      {"cast", cast_parts},
      {"tail_mask", tail_mask},
      // the TEC
      {"get_local_id", [](const Call&) { return "get_local_id(0)"; }},
      {"get_local_size", [](const Call&) { return "get_local_size(0)"; }},
      {"barrier", [](const Call&) { return "barrier(CLK_LOCAL_MEM_FENCE)"; }},
      {"alloc_event", plain("alloc_event")},
      {"wait_events", events("wait_events")},
      {"free_events", events("free_events")},
      {"perf_tick_begin", plain("__perf_record_tick_begin")},
      {"perf_tick_end", plain("__perf_record_tick_end")},
      {"printf", plain("printf")},
      {"report_fault", plain("__report_fault")},
      {"aiff", fixed_function},
      {"async_aiff", fixed_function},
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
  const std::string_view part = part_of(c);
  const bool saturate = c.attribute("saturate") == 2 && is_integer(from.element) && is_integer(c.type.element);
  const bool simple = c.count() == 1 && part == "all" && from.lanes == c.type.lanes && !saturate;
  if (simple) return c.p.expr(cast(c.type, c.call.args[0]));
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
  return lanes == c.type.lanes ? text : fmt::format("__fill<{}>({})", c.t(), text);
}

// The low or high half, twice as wide.
std::string extend(const Call& c, bool high) {
  return fmt::format("__convert<{}>(__lanes_from<{}, {}, 1>({}))", c.t(), c.type.lanes, high ? c.type.lanes : 0,
                     c.arg(0));
}

std::string reinterpret(const Call& c) {
  const Type& from = c.arg_type(0);
  if (from.pointer && c.type.pointer) return fmt::format("(({}){})", c.t(), c.arg(0));
  if (from.pointer && dtype_bits(c.type.element) == 32) return fmt::format("(({})__address32({}))", c.t(), c.arg(0));
  if (c.type.pointer && dtype_bits(from.element) == 32)
    return fmt::format("__address64<{}>((uint){})", c.t(), c.arg(0));
  if (from.pointer || c.type.pointer) return fmt::format("(({})(ulong){})", c.t(), c.arg(0));
  return fmt::format("__bits<{}>({})", c.t(), c.arg(0));
}

}  // namespace

std::string print_intrinsic(FunctionPrinter& printer, const IntrinsicCall& call, const ExprNode& node) {
  const auto row = table().find(call.intrinsic->name);
  if (row == table().end()) return printer.fail(fmt::format("S.{} has no C spelling", call.intrinsic->name));
  return row->second(Call{printer, call, node.type});
}

bool intrinsic_uses_context(std::string_view name) {
  return name == "get_local_id" || name == "get_local_size" || name == "barrier" || name == "printf" ||
         name == "report_fault";
}

}  // namespace aipu::tir
