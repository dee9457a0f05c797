#include "tests/fuzz/dsl_generator.h"

#include "tests/fuzz/dsl_expression_generator.h"

namespace aipu::dsl_test {
namespace {

class Generator : private ExpressionGenerator {
 public:
  explicit Generator(uint64_t seed) : ExpressionGenerator(seed) {}

  GeneratedProgram run() {
    std::string helpers = sub_functions();
    std::string parameters;
    for (const DType d : kGeneratorTypes)
      parameters += pointer_name(d) + ": S.ptr(\"" + name_of(d) + "\", \"global\"), ";
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
  // Everything computed in a scope is stored before the scope ends, so that nothing can be dropped.
  void close_scope() {
    for (const Variable& v : scopes_.back()) {
      if (!v.constant) sink(v.name, v.type);
    }
    if (scopes_.back().empty()) line("pass");
    scopes_.pop_back();
    while (!records_.empty() && records_.back().first > scopes_.size()) records_.pop_back();
  }

  // A record of the scope at hand, or one of an outer scope made anew; its fields are operands of what follows.
  void record() {
    const std::string first = scalar(DType::kI32, 2), second = scalar(DType::kU8, 1);
    if (!records_.empty() && chance(2)) {
      const std::string name = choose(records_).second;
      line(name + " = " +
           choose(std::vector<std::string>{"Pair(" + first + ", " + name + ".second)",
                                           "Pair(second=" + name + ".first, first=" + second + ")",
                                           "turned(" + name + ")"}));
      return;
    }
    const std::string name = fresh("r");
    line(name + " = Pair(" + first + ", " + second + ")");
    records_.emplace_back(scopes_.size(), name);
    scopes_.back().push_back({name + ".first", {DType::kI32, 1}, true});
    scopes_.back().push_back({name + ".second", {DType::kU8, 1}, true});
    line("put_pair(Place(" + name + ", p_i32 + " + text(pick(700)) + "), " + text(pick(90)) + ")");
  }
  void sink(const std::string& value, Type type) {
    if (type.element == DType::kBool) {
      if (type.lanes == 1) {
        line("p_i32[" + text(pick(800)) + "] = 1 if " + value + " else 0");
      } else {
        line(s("vstore") + "(" + s("vsel") + "(S.uint8x" + text(type.lanes) + "(1), S.uint8x" + text(type.lanes) +
             "(0), " + value + "), p_u8 + " + text(pick(3000)) + ")");
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
      line(s("vstore") + "(" + value + ", " + pointer + " + " + text(pick(room)) + ", mask=" + mask_text(type.lanes) +
           ", stride=2)");
    } else {
      line(s("vstore") + "(" + value + ", " + pointer + " + " + text(pick(room)) +
           (chance(3) ? ", mask=" + mask(type.lanes, 1) : "") + ")");
    }
  }

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
    if (chance(12)) return record();
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
        line(s("vstore_scatter") + "(" + e + ", " + pointer_name(d) + ", S.uint16x" + text(lanes) + "([" +
             distinct(lanes, d) + "]), mask=" + mask(lanes, 1) + ")");
        return;
      }
      case 7: {
        const std::string e = scalar(DType::kI32, 1);
        line(choose(std::vector<std::string>{"bump", "put"}) + "(p_i32, " + text(pick(800)) + ", " + e + ")");
        return;
      }
      case 8:
        if (chance(3)) {
          line(s("dma_transpose2d") + "(p_u16 + 1500, p_u16 + " + text(pick(1000)) + ", " + text(1 + pick(8)) + ", " +
               text(1 + pick(8)) + ")");
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
          line(s("dma_copy") + "(local + " + text(pick(8)) + ", p_fp32 + " + text(pick(700)) + ", 4, " +
               text(4 + pick(9)) + ", 4, 8)");
          return;
        }
        line(s("dma_memset") + "(p_i16 + " + text(1700 + pick(100)) + ", " + text(pick(100)) + ", " + text(pick(50)) +
             ")");
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

  std::vector<std::pair<size_t, std::string>> records_;  // with the depth of their scopes

  std::string sub_functions() {
    return R"(OFFSET = 5

@S.record
class Pair:
    first: S.i32
    second: S.u8

@S.record
class Place:
    pair: Pair
    data: S.ptr("int32", "global")

@S.prim_func
def put_pair(place: Place, at: S.i32):
    q = place.data + at
    q[0] = place.pair.first * 3 + place.pair.second

def turned(pair: Pair):
    return Pair(pair.second, pair.first)

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
};

}  // namespace

GeneratedProgram generate_program(uint64_t seed) { return Generator(seed).run(); }

}  // namespace aipu::dsl_test
