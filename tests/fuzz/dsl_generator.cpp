#include "tests/fuzz/dsl_generator.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string_view>

namespace aipu::dsl_test {
namespace {

// An element and its lanes, 1 for a scalar; kBool is a mask or a condition.
struct Type {
  DType element = DType::kI32;
  int lanes = 1;
  bool operator==(const Type&) const = default;
  auto operator<=>(const Type&) const = default;
};

int bits(DType d) { return dtype_bits(d); }
bool is_int(DType d) { return is_integer(d); }
bool is_half(DType d) { return d == DType::kF16 || d == DType::kBF16; }
bool is_signed(DType d) { return is_signed_int(d); }
int native_lanes(DType d) { return 256 / bits(d); }
bool is_native(Type t) { return t.element != DType::kBool && t.lanes == native_lanes(t.element); }
bool is_multiple(Type t) { return t.element != DType::kBool && t.lanes % native_lanes(t.element) == 0; }
DType opposite(DType d) {
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
DType resized(DType d, int to_bits) {
  if (is_floating(d)) return to_bits == 32 ? DType::kF32 : DType::kF16;
  if (to_bits == 8) return is_signed(d) ? DType::kI8 : DType::kU8;
  if (to_bits == 16) return is_signed(d) ? DType::kI16 : DType::kU16;
  return is_signed(d) ? DType::kI32 : DType::kU32;
}
std::string name_of(DType d) { return std::string(dtype_name(d)); }
std::string type_name(Type t) { return name_of(t.element) + (t.lanes > 1 ? "x" + std::to_string(t.lanes) : ""); }
std::string pointer_name(DType d) { return "p_" + std::string(dtype_info(d).alias); }
std::string text(int64_t v) { return std::to_string(v); }

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  GeneratedProgram run() {
    std::string helpers = sub_functions();
    std::string parameters;
    for (const DType d : kGeneratorTypes) parameters += pointer_name(d) + ": S.ptr(\"" + name_of(d) + "\", \"global\"), ";
    line("@S.prim_func");
    line("def f(" + parameters + "n: S.i32):");
    indent_ = 1;
    scopes_.emplace_back();
    line("buf = S.alloc_buffer((4, 16), \"int32\"" + std::string(chance(2) ? ", scope=\"lsram\"" : "") + ")");
    line("for q0, q1 in S.grid(4, 16):");
    line("    buf[q0, q1] = q0 * 100 + q1 + n");
    line("local = S.alloc((64,), \"float32\", scope=\"lsram\")");
    line("S.dma_copy(local, p_fp32 + 16, 32, 32, 2, 32)");
    for (int i = 0; i < 9; ++i) statement();
    line("S.dma_copy(p_fp32 + " + text(900) + ", local, 64)");
    line("for q2, q3 in S.grid(4, 16):");
    line("    p_i32[900 + q2 * 16 + q3] = buf[q2, q3]");
    close_scope();
    return {"from aipu import script as S\n\n" + helpers + out_, {used_.begin(), used_.end()}};
  }

 private:
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

  // ---- scopes ----
  // Everything computed in a scope is stored before the scope ends, so that nothing can be dropped.
  void close_scope() {
    for (const Variable& v : scopes_.back()) {
      if (!v.constant) sink(v.name, v.type);
    }
    if (scopes_.back().empty()) line("pass");
    scopes_.pop_back();
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

  void sink(const std::string& value, Type type) {
    if (type.element == DType::kBool) {
      if (type.lanes == 1) {
        line("p_i32[" + text(pick(800)) + "] = 1 if " + value + " else 0");
      } else {
        line(s("vstore") + "(" + s("vsel") + "(S.uint8x" + text(type.lanes) + "(1), S.uint8x" + text(type.lanes) + "(0), " + value +
             "), p_u8 + " + text(pick(3000)) + ")");
      }
      return;
    }
    const int room = static_cast<int>(kGeneratorBufferBytes / dtype_bytes(type.element)) * 3 / 4 - type.lanes * 2;
    const std::string pointer = pointer_name(type.element);
    if (type.lanes == 1) {
      line(pointer + "[" + text(pick(room)) + "] = " + value);
    } else if (chance(4)) {
      const int at = pick(room);
      line(pointer + "[" + text(at) + ":" + text(at + type.lanes) + "] = " + value);
    } else if (chance(4)) {
      line(s("vstore") + "(" + value + ", " + pointer + " + " + text(pick(room)) + ", mask=" + mask_text(type.lanes) + ", stride=2)");
    } else {
      line(s("vstore") + "(" + value + ", " + pointer + " + " + text(pick(room)) + (chance(3) ? ", mask=" + mask(type.lanes, 1) : "") +
           ")");
    }
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
        return s("tail_mask") + "(" + (chance(2) ? text(pick(lanes + 1)) : "n % " + text(lanes)) + ", " + text(lanes) + ")";
      case 1:
        return s("const_mask") + "(" + mask_text(lanes, true) + ")";  // of a string it pads to the number of characters
      case 2:
        return "(" + mask_value(lanes, depth - 1) + choose(std::vector<std::string>{" & ", " | ", " ^ "}) + mask_value(lanes, depth - 1) +
               ")";
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
        return s(choose(std::vector<std::string>{"isnan", "isinf", "isfinite"})) + "(" + vector({d, lanes}, depth - 1) + ")";
      }
      default: {
        const DType d = any_element();
        return "(" + vector({d, lanes}, depth - 1) + choose(std::vector<std::string>{" < ", " <= ", " == ", " != ", " > ", " >= "}) +
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
        if (is_floating(d)) return "(" + deeper() + choose(std::vector<std::string>{" + ", " - ", " * ", " / "}) + deeper() + ")";
        return "(" + deeper() + choose(std::vector<std::string>{" + ", " - ", " * ", " & ", " | ", " ^ "}) + deeper() + ")";
      case 3:
        if (is_floating(d)) return "(-" + deeper() + ")";
        return "(" + deeper() + choose(std::vector<std::string>{" // ", " % "}) + text(2 + pick(9)) + ")";
      case 4:
        if (is_floating(d))
          return s(choose(std::vector<std::string>{"exp", "tanh", "sin", "cos", "erf", "floor", "ceil", "exp2"})) + "(" + deeper() + ")";
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
          return s(choose(std::vector<std::string>{"sqrt", "log", "rsqrt", "abs", "rint"})) + "(" + s("abs") + "(" + deeper() + "))";
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
          return choose(std::vector<std::string>{s("get_local_id") + "()", s("get_local_size") + "()",
                                                 s("ceildiv") + "(" + deeper() + " & 1023, " + text(1 + pick(9)) + ")"});
        }
        if (d == DType::kF32 && chance(2)) return s("pow") + "(" + s("abs") + "(" + deeper() + "), " + literal(d) + ")";
        if (d == DType::kI32)
          return choose(std::vector<std::string>{"sub_scale(" + deeper() + ", k=" + deeper() + ")", "helper(" + deeper() + ")"});
        return s("clip") + "(" + deeper() + ", " + (is_signed(d) || is_floating(d) ? "-3" : "3") + ", 50)";
    }
  }
  std::string condition(int depth) {
    if (const Variable* v = find({DType::kBool, 1}); v != nullptr && chance(3)) return v->name;
    switch (depth <= 0 ? 0 : pick(6)) {
      case 0:
        return "(n " + choose(std::vector<std::string>{"<", ">", "==", "!="}) + " " + text(pick(10)) + ")";
      case 1:
        return "(" + condition(depth - 1) + choose(std::vector<std::string>{" and ", " or "}) + condition(depth - 1) + ")";
      case 2:
        return "(not " + condition(depth - 1) + ")";
      case 3: {
        const int lanes = choose(std::vector<int>{8, 16, 32, 6});
        return s(choose(std::vector<std::string>{"vall", "vany"})) + "(" + mask_value(lanes, depth - 1) + ")";
      }
      default: {
        DType d = any_element();
        if (d == DType::kBF16) d = DType::kF32;
        return "(" + scalar(d, depth - 1) + choose(std::vector<std::string>{" < ", " <= ", " == ", " != ", " > ", " >= "}) +
               scalar(d, depth - 1) + ")";
      }
    }
  }
  // In [0, count).
  std::string index(int count) {
    switch (pick(4)) {
      case 0:
        return count >= 8 ? "n" : "0";
      case 1:
        return "(" + scalar(DType::kI32, 0) + " & " + text(count >= 1024 ? 1023 : count >= 16 ? 15 : count >= 8 ? 7 : 0) + ")";
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
        return s("vload") + "(" + pointer + " + " + text(pick(count - 3 * t.lanes)) + lanes + ", stride=" + text(1 + pick(3)) + ")";
      case 1:
        return s("vload") + "(" + pointer + " + " + text(pick(count - t.lanes)) + ", mask=" + mask(t.lanes, 1) + lanes + ")";
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
    const auto r = [&] { return ", mask=" + mask(t.lanes, depth) + ", r=" + (chance(2) ? operand() : is_floating(d) ? "1.5" : "7"); };
    const std::string out_sign = is_int(d) ? std::string(", out_sign=\"") + (is_signed(d) ? "s" : "u") + "\"" : "";
    switch (pick(16)) {
      case 0: {
        if (is_floating(d)) return "(" + operand() + choose(std::vector<std::string>{" + ", " - ", " * "}) + operand() + ")";
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
          return s("fma") + "(" + operand() + ", " + operand() + ", " + operand() + (chance(2) ? ", mask=" + mask(t.lanes, depth) : "") +
                 ")";
        if (!is_int(d)) return s("rint") + "(" + operand() + ")";
        return s(choose(std::vector<std::string>{"vand", "vor", "vxor"})) + "(" + operand() + ", " + operand() + ")";
      case 7:
        return s(choose(std::vector<std::string>{"max", "min"})) + "(" + operand() + ", " + operand() + (chance(2) ? r() : "") + ")";
      case 8:
        if (!is_int(d))
          return s(choose(std::vector<std::string>{"floor", "ceil", "tanh", "sin", "cos", "erf", "exp"})) + "(" + operand() + ")";
        if (chance(2))
          return s("vsl") + "(" + operand() + ", " + text(pick(bits(d) + 3)) + (is_signed(d) && chance(2) ? ", saturate=True" : "") +
                 (chance(2) ? r() : "") + ")";
        return s("vsr") + "(" + operand() + ", " + text(pick(bits(d) + 3)) + (chance(2) ? ", with_round=True" : "") +
               (chance(2) ? r() : "") + ")";
      case 9:
        if (!is_int(d)) return d == DType::kF32 ? "(" + operand() + " * " + literal(d) + ")" : "";
        return choose(std::vector<std::string>{s("vbrevs") + "(" + operand() + ")", s("vpcnt") + "(" + operand() + ")",
                                               s("clz") + "(" + operand() + ")", s("vinv") + "(" + operand() + ")",
                                               s("vror") + "(" + operand() + ", " + text(pick(20)) + ")"});
      case 10:
        if (!is_signed(d)) return is_int(d) ? s("u") + "(" + vector({opposite(d), t.lanes}, depth) + ")" : "";
        return choose(
            std::vector<std::string>{s("vcls") + "(" + operand() + ")", s("i") + "(" + vector({opposite(d), t.lanes}, depth) + ")"});
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
        if (d == DType::kI32 && t.lanes == 8) return "sub_vector(" + operand() + ", " + scalar(DType::kI32, depth) + ")";
        return "blend(" + operand() + ", " + operand() + ")";
    }
  }

  // From a type that the language converts directly.
  std::string cast(Type t, int depth) {
    const DType to = t.element;
    for (int tries = 0; tries < 8; ++tries) {
      const DType from = any_element();
      const bool half_and_narrow = (is_half(from) && is_int(to) && bits(to) < 32) || (is_half(to) && is_int(from) && bits(from) < 32);
      const bool unsigned_word =
          (from == DType::kU32 && is_floating(to)) || (to == DType::kU32 && (from == DType::kF32 || from == DType::kBF16));
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
        return choose(std::vector<std::string>{s("vrevs") + "(" + operand() + ")",
                                               s("vshfl") + "(" + operand() + ", " + text(pick(t.lanes)) + ")",
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
            return s("cast") + "(" + vector(source, depth) + ", \"" + name_of(d) + "\", part=\"" + choose(halves) + "\")";
          case 2:
            return s(choose(std::vector<std::string>{"vmull", "vmulh"})) + "(" + vector(source, depth) + ", " + vector(source, depth) + ")";
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
        return s(choose(std::vector<std::string>{"vaddh", "vsubh", "vmaxh", "vminh"})) + "(" + operand() + ", " + operand() + ")";
      }
      case 13: {
        if (d != DType::kF32 || t.lanes != 8) return "";
        const Type source{chance(2) ? DType::kF16 : DType::kBF16, 16};
        return s(choose(std::vector<std::string>{"vfmae", "vfmao"})) + "(" + operand() + ", " + vector(source, depth) + ", " +
               vector(source, depth) + (chance(2) ? ", mask=" + mask(8, depth) : "") + ")";
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

  // ---- statements ----
  void define() {
    const Type t = any_type();
    const std::string e = value(t, 1 + pick(3));
    const std::string name = fresh("v");
    // A condition made of constants would be a compile-time value.
    line(name + " = " + e);
    scopes_.back().push_back({name, t});
  }

  void body(int statements) {
    ++indent_;
    scopes_.emplace_back();
    for (int i = 0; i < statements; ++i) statement();
    close_scope();
    --indent_;
  }

  void statement() {
    const bool nest = indent_ < 3;
    switch (pick(nest ? 16 : 10)) {
      case 0: {
        const Type t = any_type();
        if (const Variable* v = find(t, true)) {
          const std::string name = v->name;
          const std::string e = value(t, 2);
          line(name + " = " + e);
          return;
        }
        return define();
      }
      case 1: {
        const Type t{any_int(), 1};
        if (const Variable* v = find(t, true)) {
          const std::string name = v->name;
          const std::string e = value(t, 1);
          line(name + choose(std::vector<std::string>{" += ", " -= ", " *= ", " ^= ", " |= "}) + e);
          return;
        }
        return define();
      }
      case 2: {
        DType d = any_element();
        if (d == DType::kBF16) d = DType::kI16;
        const Type t{d, native_lanes(d)};
        if (const Variable* v = find(t, true)) {
          const std::string name = v->name;
          const std::string e = scalar(d, 1);
          line(name + "[" + index(t.lanes) + "] = " + e);
          return;
        }
        return define();
      }
      case 3: {
        const Type t{DType::kI32, 1};
        const Variable *a = find(t, true), *b = find(t, true);
        if (a == nullptr || b == nullptr || a == b) return define();
        line(a->name + ", " + b->name + " = " + b->name + ", " + a->name + " + " + b->name);
        return;
      }
      case 4: {
        const std::string e = scalar(DType::kI32, 2);
        line("buf[" + text(pick(4)) + ", " + index(16) + "] = " + e);
        return;
      }
      case 5: {
        const std::string e = vector({DType::kF32, 8}, 2);
        line(s("vstore") + "(" + e + ", local + " + text(pick(56)) + ")");
        return;
      }
      case 6: {
        const DType d = any_element();
        const int lanes = std::min(native_lanes(d), 16);
        const std::string e = vector({d, lanes}, 2);
        line(s("vstore_scatter") + "(" + e + ", " + pointer_name(d) + ", S.uint16x" + text(lanes) + "([" + distinct(lanes, d) +
             "]), mask=" + mask(lanes, 1) + ")");
        return;
      }
      case 7: {
        const std::string e = scalar(DType::kI32, 1);
        line(choose(std::vector<std::string>{"bump", "put"}) + "(p_i32, " + text(pick(800)) + ", " + e + ")");
        return;
      }
      case 8:
        if (chance(3)) {
          line(s("dma_transpose2d") + "(p_u16 + 1500, p_u16 + " + text(pick(1000)) + ", " + text(1 + pick(8)) + ", " + text(1 + pick(8)) +
               ")");
          return;
        }
        if (chance(3)) {
          line(s("dma_upsample") + "(local, p_fp32 + " + text(pick(500)) + ", 2, 2, 4, 4)");
          return;
        }
        if (chance(3)) {
          const Type source{chance(2) ? DType::kF16 : DType::kBF16, 16};
          const std::string x = vector(source, 1), y = vector(source, 1);
          line(s(chance(2) ? "vmml" : "vmma") + "(p_fp32 + " + text(pick(900)) + ", " + x + ", " + y + ")");
          return;
        }
        if (chance(3)) {
          line(s("dma_copy") + "(local + " + text(pick(8)) + ", p_fp32 + " + text(pick(700)) + ", 4, " + text(4 + pick(9)) + ", 4, 8)");
          return;
        }
        line(s("dma_memset") + "(p_i16 + " + text(1700 + pick(100)) + ", " + text(pick(100)) + ", " + text(pick(50)) + ")");
        return;
      case 10: {
        line("if " + condition(2) + ":");
        body(1 + pick(2));
        if (chance(2)) {
          const std::string other = condition(0);
          line("elif " + other + ":");
          body(1);
        }
        if (chance(2)) {
          line("else:");
          body(1 + pick(2));
        }
        return;
      }
      case 11: {
        const std::string name = fresh("i");
        const std::string stop = chance(2) ? text(1 + pick(4)) : "n % " + text(2 + pick(4));
        line("for " + name + " in range(" + (chance(3) ? text(pick(2)) + ", " : "") + stop + "):");
        loop_body({{name}});
        return;
      }
      case 12: {
        const std::string name = fresh("w");
        line(name + " = " + text(pick(3)));
        line("while " + name + " < " + (chance(2) ? "n" : "4") + ":");
        ++indent_;
        scopes_.emplace_back();
        statement();
        line(name + " += " + text(1 + pick(3)));
        if (chance(3)) {
          const std::string leave = condition(0);
          line("if " + leave + ":");
          line("    break");
        }
        close_scope();
        --indent_;
        return;
      }
      case 13: {
        const std::string a = fresh("i"), b = fresh("i");
        line("for " + a + ", " + b + " in " + s("grid") + "(" + text(1 + pick(3)) + ", " + text(1 + pick(3)) + "):");
        loop_body({{a}, {b}});
        return;
      }
      case 14: {
        const std::string name = fresh("i");
        line("for " + name + " in " + s("tec_range") + "(" + text(pick(2)) + ", 4):");
        loop_body({{name}});
        return;
      }
      default:
        return define();
    }
  }

  void loop_body(const std::vector<std::vector<std::string>>& names) {
    ++indent_;
    scopes_.emplace_back();
    for (const auto& name : names) scopes_.back().push_back({name[0], {DType::kI32, 1}, true});
    statement();
    if (chance(2)) statement();
    line("p_i32[" + names[0][0] + " + " + text(pick(700)) + "] = " + names[0][0] + " * 3 + n");
    close_scope();
    --indent_;
  }

  std::string distinct(int count, DType d) {
    const int room = static_cast<int>(kGeneratorBufferBytes / dtype_bytes(d));
    const int base = pick(room / 2), step = 1 + pick(room / 2 / count - 1 > 0 ? room / 2 / count - 1 : 1);
    std::string list;
    for (int i = 0; i < count; ++i) list += (i > 0 ? ", " : "") + text(base + i * step);
    return list;
  }

  std::string sub_functions() {
    return R"(OFFSET = 5

@S.prim_func
def sub_scale(v: S.i32, k: S.i32 = 3) -> S.i32:
    if v > 100:
        return v - k
    return v * k + OFFSET

@S.prim_func
def sub_vector(v: S.i32x8, k: S.i32) -> S.i32x8:
    w = v ^ k
    for j in range(3):
        w = w + v
    return w

@S.prim_func
def put(p: S.ptr("int32", "global"), at: S.i32, v: S.i32):
    q = p + at
    q[0] = q[1] + v

@S.macro
def bump(p, at, v):
    p[at] = p[at] * 2 + v + OFFSET

def helper(v):
    total = v
    for j in range(3):
        total = total + v * j
    return total

def blend(a, b):
    return S.vsel(a, b, a < b)

)";
  }

  std::mt19937_64 random_;
  std::string out_;
  int indent_ = 0;
  int next_name_ = 0;
  std::vector<std::vector<Variable>> scopes_;
  std::set<std::string> used_;
};

}  // namespace

GeneratedProgram generate_program(uint64_t seed) { return Generator(seed).run(); }

}  // namespace aipu::dsl_test
