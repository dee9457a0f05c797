#include "codegen/c_spelling/call_spellings.h"

#include <fmt/format.h>

#include <unordered_map>

#include "codegen/c_spelling/c_names.h"
#include "codegen/c_spelling/printer_shell.h"

namespace aipu::tir {

// ---- one call ----

std::string SpelledCall::arg(size_t i) const {
  return i < count() ? printer.expr(call.args[i])
                     : printer.fail(fmt::format("S.{} has too few operands", call.intrinsic->name));
}

std::string SpelledCall::args(std::string_view separator) const {
  std::string text;
  for (size_t i = 0; i < count(); ++i) text += fmt::format("{}{}", i == 0 ? std::string_view() : separator, arg(i));
  return text;
}

int SpelledCall::mask_lanes() const {
  if (call.mask) return call.mask->type.lanes;
  if (call.intrinsic->name == "vdpa" || call.intrinsic->name == "vqdpa") return arg_type(1).lanes;
  return count() > 0 && !arg_type(0).pointer ? arg_type(0).lanes : type.lanes;
}

std::string SpelledCall::mask() const { return printer.mask_or_all(call.mask, mask_lanes()); }

bool SpelledCall::all_lanes() const { return mask() == all_true(mask_lanes()); }

std::string SpelledCall::inactive() const {
  return call.pass_through ? printer.expr(call.pass_through) : printer.open_lanes(type, destination);
}

std::string SpelledCall::type_text() const { return c_type(type); }

std::string_view SpelledCall::part() const {
  for (const IntrinsicParam& param : call.intrinsic->params) {
    if (param.name != "part") continue;
    const int64_t index = attribute("part", param.default_value);
    if (index >= 0 && index < static_cast<int64_t>(param.choices.size()))
      return param.choices[static_cast<size_t>(index)];
  }
  return "all";
}

// ---- forms ----

CallSpelling with_r(std::string name) {
  const auto print = [name](const SpelledCall& c) {
    return fmt::format("{}({}, {}, {})", name, c.inactive(), c.args(), c.mask());
  };
  return {print, {name}};
}

CallSpelling with_mask(std::string name) {
  return {[name](const SpelledCall& c) { return fmt::format("{}({}, {})", name, c.args(), c.mask()); }, {name}};
}

CallSpelling plain(std::string name) {
  return {[name](const SpelledCall& c) { return fmt::format("{}({})", name, c.args()); }, {name}};
}

CallSpelling mask_operand(std::string name) {
  return {[name](const SpelledCall& c) {
            std::string text = name + "(";
            for (size_t i = 0; i + 1 < c.count(); ++i) text += c.arg(i) + ", ";
            return text + c.printer.mask_or_all(c.call.args.back(), c.arg_type(0).lanes) + ")";
          },
          {name}};
}

CallSpelling bitwise(std::string name) {
  return {[vector = with_r(name).print, mask = with_mask(name).print](const SpelledCall& c) {
            return c.type.is_mask() ? mask(c) : vector(c);
          },
          {name}};
}

namespace {

// The same text for every call.
CallSpelling fixed(const std::string& text) {
  return {[text](const SpelledCall&) { return text; }, {text.substr(0, text.find('('))}};
}

// One form where an attribute is set, another where it is not.
CallSpelling where(const std::string& attribute, const CallSpelling& set, const CallSpelling& unset) {
  return {[attribute, set = set.print, unset = unset.print](const SpelledCall& c) {
    return c.attribute(attribute) != 0 ? set(c) : unset(c);
  }};
}

// A function of C on scalars, the vector form on vectors.
CallSpelling scalar_or(const std::string& scalar, const CallSpelling& vector) {
  return {[scalar = plain(scalar).print, vector = vector.print](const SpelledCall& c) {
            return c.type.is_scalar() ? scalar(c) : vector(c);
          },
          {scalar}};
}

// exp(x) on scalars, vexp(x) on vectors.
CallSpelling math(const std::string& name) {
  CallSpelling row = scalar_or(name, plain("v" + name));
  row.words.push_back("v" + name);
  return row;
}

// The operator where it says it all, else the function.
CallSpelling add_like(const std::string& symbol, const std::string& name) {
  return {[symbol, calls = where("saturate", with_r(name + "s"), with_r(name)).print](const SpelledCall& c) {
    const bool same = c.arg_type(0) == c.type && c.arg_type(1) == c.type;
    if (c.all_lanes() && same && c.attribute("saturate") == 0)
      return fmt::format("({} {} {})", c.arg(0), symbol, c.arg(1));
    return calls(c);
  }};
}

// __vceq on integers, __vqeq on floats.
CallSpelling compare(const std::string& condition) {
  const std::string on_floats = condition == "neq" ? "ne" : condition;
  return {[ints = with_mask("__vc" + condition).print, floats = with_mask("__vq" + on_floats).print](
              const SpelledCall& c) { return is_floating(c.arg_type(0).element) ? floats(c) : ints(c); }};
}

// Without `r` and mask on all lanes.
CallSpelling shift(const std::function<std::string(const SpelledCall&)>& name) {
  return {[name](const SpelledCall& c) { return c.all_lanes() ? plain(name(c)).print(c) : with_r(name(c)).print(c); }};
}
std::string shift_right(const SpelledCall& c) {
  return fmt::format("{}{}", is_signed_int(c.arg_type(0).element) ? "__vasr" : "__vlsr",
                     c.attribute("with_round") != 0 ? "r" : "");
}

// Of a vector and another one's element.
CallSpelling dot_by_lane(std::string name) {
  return {[name](const SpelledCall& c) { return fmt::format("{}({}, {})", name, c.args(), c.attribute("lane", -1)); },
          {name}};
}

std::string fma(const SpelledCall& c) {
  return c.type.is_scalar() ? fmt::format("fma({}, {}, {})", c.arg(1), c.arg(2), c.arg(0))
                            : with_mask("__vfma").print(c);
}

// A bit per event.
CallSpelling events(std::string name) {
  const auto print = [name](const SpelledCall& c) {
    std::string mask;
    for (size_t i = 0; i < c.count(); ++i) {
      const std::string bit = fmt::format("(1 << {})", c.arg(i));
      mask = mask.empty() ? bit : fmt::format("({} | {})", mask, bit);
    }
    return fmt::format("{}({})", name, mask);
  };
  return {print, {name}};
}

std::string flush_cache(const SpelledCall& c) {
  return fmt::format("__flush_cache({})", c.count() > 0                       ? c.arg(0)
                                          : c.attribute("invalidate", 1) != 0 ? "true"
                                                                              : "false");
}

std::string broadcast_lanes(const SpelledCall& c) {
  if (c.type.is_mask()) return c.printer.expr(broadcast(c.arg_expr(0), c.type.lanes));
  const std::string mask = c.printer.mask_or_all(c.call.mask, c.type.lanes);
  if (mask == all_true(c.type.lanes)) return c.printer.splat(c.type, c.arg(0));
  return fmt::format("__vbcast({}, {}, {})", c.inactive(), c.arg(0), mask);
}

std::string reverse(const SpelledCall& c) { return plain(c.type.is_mask() ? "__vprevs" : "__vrevs").print(c); }

const std::unordered_map<std::string_view, CallSpelling>& rows() {
  static const std::unordered_map<std::string_view, CallSpelling> table = {
      // arithmetic
      {"vadd", add_like("+", "__vadd")},
      {"vsub", add_like("-", "__vsub")},
      {"vmul", add_like("*", "__vmul")},
      {"vdiv", with_r("__vdiv")},
      {"vmod", with_r("__vmod")},
      {"abs", scalar_or("__abs", where("saturate", with_r("__vabss"), with_r("__vabs")))},
      {"fma", {fma, {"fma"}}},
      {"rint", scalar_or("rint", with_r("__vrint"))},
      {"vmulh", with_r("__vmulh")},
      {"vaddh", plain("__vaddh")},
      {"vsubh", plain("__vsubh")},
      {"vmaxh", plain("__vmaxh")},
      {"vminh", plain("__vminh")},
      {"vmml", plain("__vmml")},
      {"vmma", plain("__vmma")},
      {"tile_dot",
       {[](const SpelledCall& c) { return fmt::format("__tile_dot<{}>({})", c.attribute("rows", 32), c.args()); },
        {"__tile_dot"}}},
      {"vfmae", with_mask("__vfmae")},
      {"vfmao", with_mask("__vfmao")},
      {"ceildiv", plain("ceildiv")},
      // dot products and reductions
      {"vdot", with_r("__vdot")},
      {"vqdot", with_r("__vqdot")},
      {"vdpa", where("wrap", with_mask("__vdpa_wrap"), with_mask("__vdpa"))},
      {"vqdpa", with_mask("__vqdpa")},
      {"vdpbf16", plain("__vdpbf16")},
      {"vbfdot", dot_by_lane("__vbfdot")},
      {"vsdot", dot_by_lane("__vsdot")},
      {"vrpadd", with_r("__vrpadd")},
      {"vrpmax", where("return_idx", with_r("__vrpmax_idx"), with_r("__vrpmax"))},
      {"vrpmin", where("return_idx", with_r("__vrpmin_idx"), with_r("__vrpmin"))},
      // bits
      {"vand", bitwise("__vand")},
      {"vor", bitwise("__vor")},
      {"vxor", bitwise("__vxor")},
      {"vinv", bitwise("__vinv")},
      {"vall", plain("__vandr")},
      {"vany", plain("__vorr")},
      {"vsl", shift([](const SpelledCall& c) { return c.attribute("saturate") != 0 ? "__vsasl" : "__vlsl"; })},
      {"vsr", shift(shift_right)},
      {"vror", shift([](const SpelledCall&) { return "__vror"; })},
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
      {"exp2", math("exp2")},
      {"log", math("log")},
      {"log2", math("log2")},
      {"log10", math("log10")},
      {"pow", math("pow")},
      {"sqrt", math("sqrt")},
      {"rsqrt", math("rsqrt")},
      {"erf", math("erf")},
      {"sigmoid", math("sigmoid")},
      {"floor", math("floor")},
      {"ceil", math("ceil")},
      {"trunc", math("trunc")},
      {"round", math("round")},
      {"sin", math("sin")},
      {"cos", math("cos")},
      {"tan", math("tan")},
      {"asin", math("asin")},
      {"acos", math("acos")},
      {"atan", math("atan")},
      {"sinh", math("sinh")},
      {"cosh", math("cosh")},
      {"tanh", math("tanh")},
      {"asinh", math("asinh")},
      {"acosh", math("acosh")},
      {"atanh", math("atanh")},
      // memory
      {"flush_cache", {flush_cache}},
      {"prefetch", {[](const SpelledCall& c) {
         return fmt::format("{}({})", c.attribute("level", 1) == 2 ? "__prefetch_second" : "__prefetch", c.arg(0));
       }}},
      {"is_nullptr", {[](const SpelledCall& c) { return fmt::format("({} == 0)", c.arg(0)); }}},
      // permutation and conversion
      {"vcompt", mask_operand("__vcompt")},
      {"vcompc", mask_operand("__vcompc")},
      {"vsel", mask_operand("__vsel")},
      {"vrevs", {reverse}},
      {"vshfl", plain("__vshfl")},
      {"vsldl", plain("__vsldl")},
      {"vreplic", plain("__vreplic")},
      {"vbcast", {broadcast_lanes}},
      {"const_mask", {[](const SpelledCall& c) { return c.arg(0); }}},
      // the TEC
      {"get_local_id", fixed("get_local_id(0)")},
      {"get_local_size", fixed("get_local_size(0)")},
      {"barrier", fixed("barrier(CLK_LOCAL_MEM_FENCE)")},
      {"alloc_event", plain("alloc_event")},
      {"wait_events", events("wait_events")},
      {"free_events", events("free_events")},
      {"perf_tick_begin", plain("__perf_record_tick_begin")},
      {"perf_tick_end", plain("__perf_record_tick_end")},
      {"printf", plain("printf")},
      {"report_fault", plain("__report_fault")},
  };
  return table;
}

}  // namespace

const CallSpelling* shared_spelling(std::string_view intrinsic) {
  const auto row = rows().find(intrinsic);
  return row == rows().end() ? nullptr : &row->second;
}

std::set<std::string, std::less<>> spelling_words() {
  std::set<std::string, std::less<>> words;
  for (const auto& [name, row] : rows()) words.insert(row.words.begin(), row.words.end());
  return words;
}

}  // namespace aipu::tir
