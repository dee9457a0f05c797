// The expressions of generated DSL programs: scalars, conditions, masks and vectors of a wanted type.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/dsl_generator.h"

namespace aipu::dsl_test {

// An element and its lanes, 1 for a scalar; kBool is a mask or a condition.
struct Type {
  DType element = DType::kI32;
  int lanes = 1;
  bool operator==(const Type&) const = default;
  auto operator<=>(const Type&) const = default;
};

inline int bits(DType d) { return dtype_bits(d); }
inline bool is_int(DType d) { return is_integer(d); }
inline bool is_half(DType d) { return d == DType::kF16 || d == DType::kBF16; }
inline bool is_signed(DType d) { return is_signed_int(d); }
inline int native_lanes(DType d) { return 256 / bits(d); }
inline bool is_native(Type t) { return t.element != DType::kBool && t.lanes == native_lanes(t.element); }
inline bool is_multiple(Type t) { return t.element != DType::kBool && t.lanes % native_lanes(t.element) == 0; }
inline DType opposite(DType d) {
  switch (d) {
    case DType::kI8:
      return DType::kU8;
    case DType::kU8:
      return DType::kI8;
    case DType::kI16:
      return DType::kU16;
    case DType::kU16:
      return DType::kI16;
    case DType::kI32:
      return DType::kU32;
    default:
      return DType::kI32;
  }
}
inline DType resized(DType d, int to_bits) {
  if (is_floating(d)) return to_bits == 32 ? DType::kF32 : DType::kF16;
  if (to_bits == 8) return is_signed(d) ? DType::kI8 : DType::kU8;
  if (to_bits == 16) return is_signed(d) ? DType::kI16 : DType::kU16;
  return is_signed(d) ? DType::kI32 : DType::kU32;
}
inline std::string name_of(DType d) { return std::string(dtype_name(d)); }
inline std::string type_name(Type t) { return name_of(t.element) + (t.lanes > 1 ? "x" + std::to_string(t.lanes) : ""); }
inline std::string pointer_name(DType d) { return "p_" + std::string(dtype_info(d).alias); }
inline std::string text(int64_t v) { return std::to_string(v); }

// Writes lines where an expression needs names of its own. Every expression has exactly the type asked for.
// Of one float; where they have no result it is NaN.
inline const std::vector<std::string> kFunctions = {"exp",   "exp2",  "tanh", "sin",   "cos",   "tan",    "erf",
                                                    "asin",  "acos",  "atan", "sinh",  "cosh",  "asinh",  "acosh",
                                                    "atanh", "floor", "ceil", "trunc", "round", "sigmoid"};

class ExpressionGenerator {
 protected:
  explicit ExpressionGenerator(uint64_t seed) : random_(seed) {}

  struct Variable {
    std::string name;
    Type type;
    bool constant = false;  // a loop variable
  };

  // ---- chance ----
  int pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  bool chance(int one_in) { return pick(one_in) == 0; }
  template <typename T>
  const T& choose(const std::vector<T>& list) {
    return list[static_cast<size_t>(pick(static_cast<int>(list.size())))];
  }
  DType any_element() { return choose(std::vector<DType>(std::begin(kGeneratorTypes), std::end(kGeneratorTypes))); }
  DType any_int(int min_bits = 8, int max_bits = 32) {
    while (true) {
      const DType d = any_element();
      if (is_int(d) && bits(d) >= min_bits && bits(d) <= max_bits) return d;
    }
  }
  int any_lanes(DType d) {
    const int native = native_lanes(d);
    switch (pick(6)) {
      case 0:
        return native * 2;
      case 1:
        return 2 + pick(21);  // flexible
      default:
        return native;
    }
  }
  Type any_type() {
    if (chance(8)) return {DType::kBool, chance(2) ? 1 : choose(std::vector<int>{8, 16, 32, 5, 11})};
    const DType d = any_element();
    if (chance(3) && d != DType::kBF16) return {d, 1};
    return {d, any_lanes(d)};
  }

  // ---- text ----
  void line(const std::string& s) { out_ += std::string(static_cast<size_t>(indent_) * 4, ' ') + s + "\n"; }
  std::string fresh(std::string_view prefix) { return std::string(prefix) + text(next_name_++); }
  // S.name, remembered.
  std::string s(const std::string& name) {
    used_.insert(name);
    return "S." + name;
  }

  const Variable* find(Type type, bool assignable = false) {
    std::vector<const Variable*> fitting;
    for (const auto& scope : scopes_) {
      for (const Variable& v : scope) {
        if (v.type == type && !(assignable && v.constant)) fitting.push_back(&v);
      }
    }
    return fitting.empty() ? nullptr : choose(fitting);
  }

  // ---- masks ----
  std::string mask_text(int lanes, bool as_list = false) {
    if (as_list || chance(2)) {
      std::string bools;
      for (int i = 0; i < lanes; ++i) bools += chance(2) ? "True, " : "False, ";
      return "[" + bools + "]";
    }
    const int on = 1 + pick(lanes);
    if (on == lanes) return "\"" + text(lanes) + "T\"";
    return "\"" + text(on) + "T" + text(lanes - on) + "F\"";
  }
  std::string mask(int lanes, int depth) {
    switch (depth <= 0 ? 0 : pick(7)) {
      case 0:
      case 1:
        return mask_text(lanes);
      default:
        return mask_value(lanes, depth - 1);
    }
  }
  std::string mask_value(int lanes, int depth) {
    const Type type{DType::kBool, lanes};
    if (const Variable* v = find(type); v != nullptr && chance(3)) return v->name;
    switch (depth <= 0 ? pick(2) : pick(7)) {
      case 0:
        return s("tail_mask") + "(" + (chance(2) ? text(pick(lanes + 1)) : "n % " + text(lanes)) + ", " + text(lanes) +
               ")";
      case 1:
        return s("const_mask") + "(" + mask_text(lanes, true) + ")";  // of a string it pads to the number of characters
      case 2:
        return "(" + mask_value(lanes, depth - 1) + choose(std::vector<std::string>{" & ", " | ", " ^ "}) +
               mask_value(lanes, depth - 1) + ")";
      case 3:
        return "(~" + mask_value(lanes, depth - 1) + ")";
      case 4: {
        const DType d = any_element();
        static const std::vector<std::string> kCompares = {"vceq", "vcneq", "vcge", "vcgt", "vcle", "vclt"};
        return s(choose(kCompares)) + "(" + vector({d, lanes}, depth - 1) + ", " + vector({d, lanes}, depth - 1) +
               (chance(3) ? ", mask=" + mask(lanes, depth - 1) : "") + ")";
      }
      case 5: {
        const DType d = choose(std::vector<DType>{DType::kF32, DType::kF16, DType::kBF16});
        return s(choose(std::vector<std::string>{"isnan", "isinf", "isfinite"})) + "(" + vector({d, lanes}, depth - 1) +
               ")";
      }
      default: {
        const DType d = any_element();
        return "(" + vector({d, lanes}, depth - 1) +
               choose(std::vector<std::string>{" < ", " <= ", " == ", " != ", " > ", " >= "}) +
               vector({d, lanes}, depth - 1) + ")";
      }
    }
  }

  // ---- scalars ----
  std::string literal(DType d) {
    if (is_floating(d)) {
      return choose(std::vector<std::string>{"0.0", "1.0", "-2.5", "0.125", "3.75", "-0.5", "1e-3", "100.0"});
    }
    const int limit = bits(d) == 8 ? 100 : 1000;
    return is_signed(d) && chance(3) ? "-" + text(1 + pick(limit)) : text(pick(limit));
  }
  std::string scalar(DType d, int depth) {
    if (d == DType::kBool) return condition(depth);
    if (const Variable* v = find({d, 1}); v != nullptr && chance(2)) return v->name;
    if (d == DType::kI32 && chance(6)) return "n";
    const std::string constant = "S." + name_of(d) + "(" + literal(d) + ")";
    if (depth <= 0) return constant;
    const auto deeper = [&] { return scalar(d, depth - 1); };
    switch (pick(11)) {
      case 0:
        return constant;
      case 1:
        return pointer_name(d) + "[" + index(static_cast<int>(kGeneratorBufferBytes / dtype_bytes(d))) + "]";
      case 2:
        if (is_floating(d))
          return "(" + deeper() + choose(std::vector<std::string>{" + ", " - ", " * ", " / "}) + deeper() + ")";
        return "(" + deeper() + choose(std::vector<std::string>{" + ", " - ", " * ", " & ", " | ", " ^ "}) + deeper() +
               ")";
      case 3:
        if (is_floating(d)) return "(-" + deeper() + ")";
        return "(" + deeper() + choose(std::vector<std::string>{" // ", " % "}) + text(2 + pick(9)) + ")";
      case 4:
        if (is_floating(d)) return s(choose(kFunctions)) + "(" + deeper() + ")";
        return "(" + deeper() + choose(std::vector<std::string>{" << ", " >> "}) + text(pick(bits(d))) + ")";
      case 5:
        return s(choose(std::vector<std::string>{"max", "min"})) + "(" + deeper() + ", " + deeper() + ")";
      case 6:
        return "(" + deeper() + " if " + condition(depth - 1) + " else " + deeper() + ")";
      case 7: {
        DType other = any_element();
        if (other == DType::kBF16) other = DType::kI8;
        return s("cast") + "(" + scalar(other, depth - 1) + ", \"" + name_of(d) + "\")";
      }
      case 8:
        if (is_floating(d))
          return s(choose(std::vector<std::string>{"sqrt", "log", "log2", "log10", "rsqrt", "abs", "rint"})) + "(" +
                 s("abs") + "(" + deeper() + "))";
        return s(choose(std::vector<std::string>{"abs", "clz"})) + "(" + deeper() + ")";
      case 9: {
        const Type vector_type{d, native_lanes(d)};
        if (const Variable* v = find(vector_type)) return v->name + "[" + index(vector_type.lanes) + "]";
        // The sum of 16-bit floats is a float32.
        const DType summed = is_floating(d) ? DType::kF16 : d;
        const std::string sum = s("vrpadd") + "(" + vector({summed, native_lanes(summed)}, depth - 1) + ")[0]";
        return d == DType::kF16 || d == DType::kBF16 ? s("cast") + "(" + sum + ", \"" + name_of(d) + "\")" : sum;
      }
      default:
        if (d == DType::kI32 && chance(3)) {
          return choose(
              std::vector<std::string>{s("get_local_id") + "()", s("get_local_size") + "()",
                                       s("ceildiv") + "(" + deeper() + " & 1023, " + text(1 + pick(9)) + ")"});
        }
        if (d == DType::kF32 && chance(2)) return s("pow") + "(" + s("abs") + "(" + deeper() + "), " + literal(d) + ")";
        if (d == DType::kI32)
          return choose(
              std::vector<std::string>{"sub_scale(" + deeper() + ", k=" + deeper() + ")", "helper(" + deeper() + ")"});
        return s("clip") + "(" + deeper() + ", " + (is_signed(d) || is_floating(d) ? "-3" : "3") + ", 50)";
    }
  }
  std::string condition(int depth) {
    if (const Variable* v = find({DType::kBool, 1}); v != nullptr && chance(3)) return v->name;
    switch (depth <= 0 ? 0 : pick(6)) {
      case 0:
        return "(n " + choose(std::vector<std::string>{"<", ">", "==", "!="}) + " " + text(pick(10)) + ")";
      case 1:
        return "(" + condition(depth - 1) + choose(std::vector<std::string>{" and ", " or "}) + condition(depth - 1) +
               ")";
      case 2:
        return "(not " + condition(depth - 1) + ")";
      case 3: {
        const int lanes = choose(std::vector<int>{8, 16, 32, 6});
        return s(choose(std::vector<std::string>{"vall", "vany"})) + "(" + mask_value(lanes, depth - 1) + ")";
      }
      default: {
        DType d = any_element();
        if (d == DType::kBF16) d = DType::kF32;
        return "(" + scalar(d, depth - 1) +
               choose(std::vector<std::string>{" < ", " <= ", " == ", " != ", " > ", " >= "}) + scalar(d, depth - 1) +
               ")";
      }
    }
  }
  // In [0, count).
  std::string index(int count) {
    switch (pick(4)) {
      case 0:
        return count >= 8 ? "n" : "0";
      case 1:
        return "(" + scalar(DType::kI32, 0) + " & " +
               text(count >= 1024 ? 1023
                    : count >= 16 ? 15
                    : count >= 8  ? 7
                                  : 0) +
               ")";
      default:
        return text(pick(count));
    }
  }

  // ---- vectors ----
  std::string load(Type t) {
    const int count = static_cast<int>(kGeneratorBufferBytes / dtype_bytes(t.element));
    const std::string pointer = pointer_name(t.element);
    const std::string lanes = is_native(t) ? "" : ", lanes=" + text(t.lanes);
    switch (pick(6)) {
      case 0:
        return s("vload") + "(" + pointer + " + " + text(pick(count - 3 * t.lanes)) + lanes +
               ", stride=" + text(1 + pick(3)) + ")";
      case 1:
        return s("vload") + "(" + pointer + " + " + text(pick(count - t.lanes)) + ", mask=" + mask(t.lanes, 1) + lanes +
               ")";
      case 2: {
        const int at = pick(count - t.lanes - 16);
        return pointer + "[n + " + text(at) + " : n + " + text(at + t.lanes) + "]";
      }
      case 3:
        if (native_lanes(DType::kI16) >= t.lanes)
          return s("vload_gather") + "(" + pointer + ", S.uint16x" + text(t.lanes) + "(" + text(pick(count)) +
                 "), mask=" + mask(t.lanes, 1) + ")";
        [[fallthrough]];
      default:
        return s("vload") + "(" + pointer + " + " + text(pick(count - t.lanes)) + lanes + ")";
    }
  }

  std::string vector(Type t, int depth) {
    if (t.element == DType::kBool) return mask_value(t.lanes, depth);
    if (const Variable* v = find(t); v != nullptr && chance(2)) return v->name;
    if (depth <= 0) {
      if (!chance(4)) return load(t);
      // Of bfloat16 only the native width has a name.
      if (t.element == DType::kBF16) return s("cast") + "(" + literal(t.element) + ", \"" + type_name(t) + "\")";
      return "S." + type_name(t) + "(" + literal(t.element) + ")";
    }
    for (int tries = 0; tries < 12; ++tries) {
      std::string e = chance(2) ? elementwise(t, depth - 1) : rearrangement(t, depth - 1);
      if (!e.empty()) return e;
    }
    return load(t);
  }

  // An operation whose inactive lanes are undefined, as if they were taken from x.
  std::string masked(const std::string& call, const std::string& x, Type t, int depth) {
    if (chance(2)) return call + ")";
    const std::string name = fresh("m");
    line(name + " = " + mask_value(t.lanes, depth));
    return s("vsel") + "(" + call + ", mask=" + name + "), " + x + ", " + name + ")";
  }

  std::string elementwise(Type t, int depth) {
    const DType d = t.element;
    const auto operand = [&] { return vector(t, depth); };
    const auto r = [&] {
      return ", mask=" + mask(t.lanes, depth) + ", r=" + (chance(2) ? operand() : is_floating(d) ? "1.5" : "7");
    };
    const std::string out_sign = is_int(d) ? std::string(", out_sign=\"") + (is_signed(d) ? "s" : "u") + "\"" : "";
    switch (pick(16)) {
      case 0: {
        if (is_floating(d))
          return "(" + operand() + choose(std::vector<std::string>{" + ", " - ", " * "}) + operand() + ")";
        std::vector<std::string> operators = {" + ", " - ", " & ", " | ", " ^ "};
        if (bits(d) > 8) operators.insert(operators.end(), {" * ", " / "});
        return "(" + operand() + choose(operators) + operand() + ")";
      }
      case 1: {
        const bool other = is_int(d) && chance(3);
        return s(choose(std::vector<std::string>{"vadd", "vsub"})) + "(" + operand() + ", " +
               vector({other ? opposite(d) : d, t.lanes}, depth) + (is_int(d) && chance(2) ? ", saturate=True" : "") +
               (other ? out_sign : "") + (chance(2) ? r() : "") + ")";
      }
      case 2:
        if (bits(d) == 8) return "";
        return s("vmul") + "(" + operand() + ", " + operand() + (chance(2) ? r() : "") + ")";
      case 3: {
        if (is_half(d)) return "";
        const std::string x = bind(t, operand());
        return masked(s(is_int(d) && chance(2) ? "vmod" : "vdiv") + "(" + x + ", " + operand(), x, t, depth);
      }
      case 4: {
        const std::string x = bind(t, operand());
        return masked(s("abs") + "(" + x + (is_signed(d) && chance(2) ? ", saturate=True" : ""), x, t, depth);
      }
      case 5:
        return s("clip") + "(" + operand() + ", " + (is_signed(d) || is_floating(d) ? "-5" : "2") + ", 60" +
               (chance(2) ? ", mask=" + mask(t.lanes, depth) : "") + ")";
      case 6:
        if (d == DType::kF32)
          return s("fma") + "(" + operand() + ", " + operand() + ", " + operand() +
                 (chance(2) ? ", mask=" + mask(t.lanes, depth) : "") + ")";
        if (!is_int(d)) return s("rint") + "(" + operand() + ")";
        return s(choose(std::vector<std::string>{"vand", "vor", "vxor"})) + "(" + operand() + ", " + operand() + ")";
      case 7:
        return s(choose(std::vector<std::string>{"max", "min"})) + "(" + operand() + ", " + operand() +
               (chance(2) ? r() : "") + ")";
      case 8:
        if (!is_int(d)) return s(choose(kFunctions)) + "(" + operand() + ")";
        if (chance(2))
          return s("vsl") + "(" + operand() + ", " + text(pick(bits(d) + 3)) +
                 (is_signed(d) && chance(2) ? ", saturate=True" : "") + (chance(2) ? r() : "") + ")";
        return s("vsr") + "(" + operand() + ", " + text(pick(bits(d) + 3)) + (chance(2) ? ", with_round=True" : "") +
               (chance(2) ? r() : "") + ")";
      case 9:
        if (!is_int(d)) return d == DType::kF32 ? "(" + operand() + " * " + literal(d) + ")" : "";
        return choose(std::vector<std::string>{s("vbrevs") + "(" + operand() + ")", s("vpcnt") + "(" + operand() + ")",
                                               s("clz") + "(" + operand() + ")", s("vinv") + "(" + operand() + ")",
                                               s("vror") + "(" + operand() + ", " + text(pick(20)) + ")"});
      case 10:
        if (!is_signed(d)) return is_int(d) ? s("u") + "(" + vector({opposite(d), t.lanes}, depth) + ")" : "";
        return choose(std::vector<std::string>{s("vcls") + "(" + operand() + ")",
                                               s("i") + "(" + vector({opposite(d), t.lanes}, depth) + ")"});
      case 11:
        return s("vsel") + "(" + operand() + ", " + operand() + ", " + mask(t.lanes, depth) + ")";
      case 12:
        return cast(t, depth);
      case 13:
        return "(" + operand() + " if " + condition(depth) + " else " + operand() + ")";
      case 14:
        if (d == DType::kBF16) return "";
        return "(" + operand() + (is_floating(d) ? " + " : " ^ ") + scalar(d, depth) + ")";
      default:
        if (d == DType::kI32 && t.lanes == 8)
          return "sub_vector(" + operand() + ", " + scalar(DType::kI32, depth) + ")";
        return "blend(" + operand() + ", " + operand() + ")";
    }
  }

  // From a type that the language converts directly.
  std::string cast(Type t, int depth) {
    const DType to = t.element;
    for (int tries = 0; tries < 8; ++tries) {
      const DType from = any_element();
      const bool half_and_narrow =
          (is_half(from) && is_int(to) && bits(to) < 32) || (is_half(to) && is_int(from) && bits(from) < 32);
      const bool unsigned_word = (from == DType::kU32 && is_floating(to)) ||
                                 (to == DType::kU32 && (from == DType::kF32 || from == DType::kBF16));
      if (half_and_narrow || unsigned_word || from == to) continue;
      const Type source{from, t.lanes};
      const std::string saturate = is_int(from) && is_int(to) && chance(2) ? ", saturate=True" : "";
      return s("cast") + "(" + vector(source, depth) + ", \"" + type_name(t) + "\"" + saturate + ")";
    }
    return "";
  }

  std::string rearrangement(Type t, int depth) {
    const DType d = t.element;
    const auto operand = [&] { return vector(t, depth); };
    const std::vector<std::string> halves = {"low", "high", "even", "odd"};
    switch (pick(16)) {
      case 0:
        if (t.lanes % 2 != 0 || !is_multiple({d, t.lanes / 2})) return "";
        return s("vconcat") + "((" + vector({d, t.lanes / 2}, depth) + ", " + vector({d, t.lanes / 2}, depth) + "))";
      case 1:
        if (!is_multiple(t)) return "";
        return s("vconcat") + "((" + operand() + ", " + operand() + "), \"" + choose(halves) + "\")";
      case 2:
        if (!is_multiple(t)) return "";
        return s("vzip") + "(" + operand() + ", " + operand() + ", \"" + choose(halves) + "\")";
      case 3:
        if (t.lanes % 2 != 0 || t.lanes < 4) return "";
        return s("vzip") + "(" + vector({d, t.lanes / 2}, depth) + ", " + vector({d, t.lanes / 2}, depth) + ")";
      case 4:
        if (!is_native(t)) return "";
        return chance(2) ? s("vcompt") + "(" + operand() + ", " + mask(t.lanes, depth) + ")"
                         : s("vcompc") + "(" + operand() + ", " + operand() + ", " + mask(t.lanes, depth) + ")";
      case 5:
        if (!is_multiple(t)) return "";
        return choose(std::vector<std::string>{
            s("vrevs") + "(" + operand() + ")", s("vshfl") + "(" + operand() + ", " + text(pick(t.lanes)) + ")",
            s("vsldl") + "(" + operand() + ", " + operand() + ", " + text(pick(t.lanes)) + ")",
            s("vreplic") + "(" + operand() + ", " + text(pick(t.lanes)) + ")"});
      case 6:
        if (!is_native(t)) return "";
        return s("vtbl") + "((" + operand() + ", " + operand() + "), " +
               vector({d == DType::kF32 ? DType::kI32
                       : is_half(d)     ? DType::kU16
                                        : d,
                       t.lanes},
                      depth) +
               ")";
      case 7:
        if (d == DType::kBF16) return "";
        return s("vbcast") + "(" + bind({d, 1}, scalar(d, depth)) + ", lanes=" + text(t.lanes) + ")";
      case 8: {
        // A half of a native vector, twice as wide.
        if (!is_native(t) || !is_int(d) || bits(d) == 8) return "";
        const DType narrow = resized(d, bits(d) / 2);
        const Type source{narrow, native_lanes(narrow)};
        switch (pick(4)) {
          case 0:
            return s(choose(std::vector<std::string>{"vxtl", "vxth"})) + "(" + vector(source, depth) + ")";
          case 1:
            return s("cast") + "(" + vector(source, depth) + ", \"" + name_of(d) + "\", part=\"" + choose(halves) +
                   "\")";
          case 2:
            return s(choose(std::vector<std::string>{"vmull", "vmulh"})) + "(" + vector(source, depth) + ", " +
                   vector(source, depth) + ")";
          default:
            return s("vdot") + "(" + vector(source, depth) + ", " + vector(source, depth) + ")";
        }
      }
      case 9: {
        if (!is_native(t) || bits(d) != 32 || !is_int(d)) return "";
        const Type source{resized(d, 8), 32};
        if (chance(3)) return s("vqdot") + "(" + vector(source, depth) + ", " + vector(source, depth) + ")";
        return s("vqdpa") + "(" + operand() + ", " + vector(source, depth) + ", " + vector(source, depth) +
               (chance(2) ? ", mask=" + mask(32, depth) : "") + ")";
      }
      case 10: {
        if (!is_native(t) || !is_int(d) || bits(d) == 8) return "";
        const DType narrow = resized(d, bits(d) / 2);
        const Type source{narrow, native_lanes(narrow)};
        return s("vdpa") + "(" + operand() + ", " + vector(source, depth) + ", " + vector(source, depth) + ")";
      }
      case 11: {
        // The narrowing shift of a native vector: all its lanes are defined.
        if (!is_native(t) || !is_int(d) || bits(d) == 32) return "";
        const bool to_h = bits(d) == 16;
        const DType wide = to_h ? resized(d, 32) : resized(d, chance(2) ? 16 : 32);
        const Type source{wide, native_lanes(wide)};
        return s(chance(3) ? "vnsrsr" : "vnsr") + "(" + vector(source, depth) + ", " + text(pick(bits(wide))) +
               (chance(2) ? ", mask=" + mask(source.lanes, depth) : "") + (to_h ? ", to_h=True" : "") + ")";
      }
      case 12: {
        if (!is_multiple(t) || !is_int(d)) return "";
        if (is_native(t) && chance(3)) {
          const DType other = any_int();
          return s("reinterpret") + "(" + vector({other, native_lanes(other)}, depth) + ", \"" + type_name(t) + "\")";
        }
        return s(choose(std::vector<std::string>{"vaddh", "vsubh", "vmaxh", "vminh"})) + "(" + operand() + ", " +
               operand() + ")";
      }
      case 13: {
        if (d != DType::kF32 || t.lanes != 8) return "";
        const Type source{chance(2) ? DType::kF16 : DType::kBF16, 16};
        return s(choose(std::vector<std::string>{"vfmae", "vfmao"})) + "(" + operand() + ", " + vector(source, depth) +
               ", " + vector(source, depth) + (chance(2) ? ", mask=" + mask(8, depth) : "") + ")";
      }
      case 14: {
        // Narrowed vectors merged into one.
        if (!is_native(t) || !is_int(d) || bits(d) == 32) return "";
        const DType wide = resized(d, bits(d) * 2);
        const Type source{wide, native_lanes(wide)};
        return s("cast") + "((" + vector(source, depth) + ", " + vector(source, depth) + "), \"" + type_name(t) + "\"" +
               (chance(2) ? ", saturate=True" : "") + ")";
      }
      default: {
        if (!is_native(t)) return "";
        const std::string reduced = s(choose(std::vector<std::string>{"vrpmax", "vrpmin"})) + "(" + operand() + ")";
        return d == DType::kBF16 ? "" : s("vbcast") + "(" + reduced + "[0], lanes=" + text(t.lanes) + ")";
      }
    }
  }

  // A name for a value that is used twice, or whose type must be known.
  std::string bind(Type, const std::string& value) {
    const std::string name = fresh("t");
    line(name + " = " + value);
    return name;
  }

  std::string value(Type t, int depth) { return t.lanes == 1 ? scalar(t.element, depth) : vector(t, depth); }

  std::mt19937_64 random_;
  std::string out_;
  int indent_ = 0;
  int next_name_ = 0;
  std::vector<std::vector<Variable>> scopes_;
  std::set<std::string> used_;
};

}  // namespace aipu::dsl_test
