// Lane semantics of the intrinsics against a truth written down independently (intrinsics.md), on random and corner
// lanes; type rules and their phrases.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/intrinsics/lanes.h"

namespace aipu::tir::testing {
namespace {

using Wide = __int128;
using Attributes = std::vector<std::pair<std::string, int64_t>>;

const std::vector<DType> kInts = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                                  DType::kI32, DType::kU32, DType::kI64, DType::kU64};

Wide lowest(DType d) { return is_unsigned_int(d) ? Wide{0} : -(Wide{1} << (dtype_bits(d) - 1)); }
Wide highest(DType d) {
  return is_unsigned_int(d) ? (Wide{1} << dtype_bits(d)) - 1 : (Wide{1} << (dtype_bits(d) - 1)) - 1;
}
Wide clamped(Wide x, DType d) { return x < lowest(d) ? lowest(d) : x > highest(d) ? highest(d) : x; }
Wide wrapped(Wide x, DType d) {
  const Wide modulus = Wide{1} << dtype_bits(d);
  x %= modulus;
  if (x < 0) x += modulus;
  return x > highest(d) ? x - modulus : x;
}

Wide lane_of(const LaneValue& v, int i) {
  const int64_t x = v.int_lane(i);
  return v.type.element == DType::kU64 ? static_cast<Wide>(static_cast<uint64_t>(x)) : Wide{x};
}

class Lanes {
 public:
  explicit Lanes(uint64_t seed) : random_(seed) {}
  LaneValue of(Type type) {
    LaneValue value(type);
    for (int i = 0; i < type.lanes; ++i) {
      if (is_bool(type.element))
        value.set_int(i, static_cast<int64_t>(random_() % 2));
      else if (is_floating(type.element))
        value.set_float(i, a_float());
      else
        value.set_int(i, an_int(dtype_bits(type.element)));
    }
    return value;
  }

 private:
  int64_t an_int(int bits) {
    const int64_t corners[] = {0, 1,    -1,      2, -2, int64_t{1} << (bits - 1), (int64_t{1} << (bits - 2)) * 2 - 1,
                               7, bits, bits - 1};
    return random_() % 2 ? corners[random_() % std::size(corners)] : static_cast<int64_t>(random_());
  }
  double a_float() {
    const double corners[] = {0.0, -0.0, 1, -1, 0.5, 2.5, -2.5, 1e10, -1e10, INFINITY, -INFINITY, NAN, 65504, 1e-8};
    return random_() % 3 == 0 ? corners[random_() % std::size(corners)]
                              : (static_cast<double>(random_() % 20001) - 10000) / 64;
  }
  std::mt19937_64 random_;
};

// Evaluates an intrinsic on values: variables stand for the operands.
LaneValue evaluate(const std::string& name, const std::vector<LaneValue>& operands, const Attributes& attributes = {},
                   const LaneValue* mask = nullptr, const LaneValue* r = nullptr) {
  const auto stand_in = [](const LaneValue& v) { return var_ref(std::make_shared<const Var>(Var{"x", v.type})); };
  std::vector<Expr> args;
  for (const LaneValue& v : operands) args.push_back(stand_in(v));
  const Result<Expr> made =
      intrinsic_call(name, args, attributes, mask ? stand_in(*mask) : nullptr, r ? stand_in(*r) : nullptr);
  EXPECT_TRUE(made.ok()) << name << ": " << made.status().message();
  if (!made.ok()) return LaneValue(Type::scalar(DType::kI32));
  const auto& call = *(*made)->as<IntrinsicCall>();
  std::vector<LaneValue> all = operands;
  // vsel and vcomp* take the mask as an operand
  if (call.args.size() == operands.size() + 1 && mask) all.push_back(*mask);
  Result<LaneValue> value = call.intrinsic->evaluate(call, (*made)->type, all, call.mask ? mask : nullptr,
                                                     call.pass_through ? r : nullptr, nullptr);
  EXPECT_TRUE(value.ok()) << name << ": " << value.status().message();
  return value.ok() ? *value : LaneValue((*made)->type);
}

// For all integer types: result lane = truth(x, y), an exact value in the result type.
void check_int(const std::string& name, const Attributes& attributes,
               const std::function<std::optional<Wide>(Wide, Wide, DType)>& truth, bool signed_only = false) {
  Lanes lanes(std::hash<std::string>()(name));
  for (const DType d : kInts) {
    if (signed_only && !is_signed_int(d)) continue;
    if (name == "vmul" && dtype_bits(d) == 8) continue;
    for (int round = 0; round < 40; ++round) {
      const Type type = Type::vector(d, 11);
      const LaneValue x = lanes.of(type), y = lanes.of(type);
      const LaneValue out = evaluate(name, {x, y}, attributes);
      for (int i = 0; i < type.lanes; ++i) {
        const auto expected = truth(lane_of(x, i), lane_of(y, i), d);
        if (!expected) continue;
        ASSERT_EQ(static_cast<int64_t>(lane_of(out, i)), static_cast<int64_t>(*expected))
            << name << " " << dtype_name(d) << " x " << static_cast<int64_t>(lane_of(x, i)) << " y "
            << static_cast<int64_t>(lane_of(y, i));
      }
    }
  }
}

// A vector count, read as unsigned.
Wide count_of(Wide y, DType d) { return y < 0 ? y + (Wide{1} << dtype_bits(d)) : y; }
Wide floor_shift(Wide x, Wide count) { return count > 100 ? (x < 0 ? -1 : 0) : x >> static_cast<int>(count); }
Wide round_shift(Wide x, Wide count) {
  if (count > 66) return 0;
  const Wide unit = Wide{1} << static_cast<int>(count), low = floor_shift(x, count), rest = x - low * unit;
  if (2 * rest == unit) return low % 2 == 0 ? low : low + 1;
  return 2 * rest > unit ? low + 1 : low;
}

TEST(Intrinsics, IntegerArithmetic) {
  check_int("vadd", {}, [](Wide x, Wide y, DType d) { return wrapped(x + y, d); });
  check_int("vadd", {{"saturate", 1}}, [](Wide x, Wide y, DType d) { return clamped(x + y, d); });
  check_int("vsub", {}, [](Wide x, Wide y, DType d) { return wrapped(x - y, d); });
  check_int("vsub", {{"saturate", 1}}, [](Wide x, Wide y, DType d) { return clamped(x - y, d); });
  check_int("vmul", {}, [](Wide x, Wide y, DType d) {
    return wrapped(wrapped(x, DType::kU64) * wrapped(y, DType::kU64) % (Wide{1} << 64), d);
  });
  check_int("vdiv", {}, [](Wide x, Wide y, DType d) { return y == 0 ? Wide{0} : clamped(x / y, d); });
  check_int("vmod", {}, [](Wide x, Wide y, DType) { return y == 0 ? Wide{0} : x % y; });
  check_int("max", {}, [](Wide x, Wide y, DType) { return std::max(x, y); });
  check_int("min", {}, [](Wide x, Wide y, DType) { return std::min(x, y); });
  check_int("vceq", {}, [](Wide x, Wide y, DType) { return Wide{x == y}; });
  check_int("vclt", {}, [](Wide x, Wide y, DType) { return Wide{x < y}; });
  check_int("vcge", {}, [](Wide x, Wide y, DType) { return Wide{x >= y}; });
}

TEST(Intrinsics, Shifts) {
  check_int("vsl", {}, [](Wide x, Wide y, DType d) {
    return count_of(y, d) >= dtype_bits(d) ? Wide{0} : wrapped(x << static_cast<int>(count_of(y, d)), d);
  });
  check_int(
      "vsl", {{"saturate", 1}},
      [](Wide x, Wide y, DType d) {
        return clamped(x * (Wide{1} << static_cast<int>(std::min<Wide>(count_of(y, d), 63))), d);
      },
      true);
  check_int("vsr", {}, [](Wide x, Wide y, DType d) { return floor_shift(x, count_of(y, d)); });
  check_int("vsr", {{"with_round", 1}}, [](Wide x, Wide y, DType d) { return round_shift(x, count_of(y, d)); });
  check_int("vror", {}, [](Wide x, Wide y, DType d) {
    const int bits = dtype_bits(d), s = static_cast<int>(count_of(y, d) % bits);
    const Wide u = x < 0 ? x + (Wide{1} << bits) : x;
    return wrapped((u >> s) | (u << (bits - s)), d);
  });
}

TEST(Intrinsics, FloatArithmeticRoundsOnce) {
  Lanes lanes(4);
  for (const DType d : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (int round = 0; round < 60; ++round) {
      const Type type = Type::vector(d, 13);
      const LaneValue x = lanes.of(type), y = lanes.of(type);
      const LaneValue sum = evaluate("vadd", {x, y}), product = evaluate("vmul", {x, y}),
                      greatest = evaluate("max", {x, y}), nearest = evaluate("rint", {x});
      const LaneValue clip = evaluate("clip", {x, evaluate("min", {y, y}), evaluate("max", {y, y})});
      for (int i = 0; i < type.lanes; ++i) {
        const double a = x.float_lane(i), b = y.float_lane(i);
        const auto same = [&](const LaneValue& v, double exact) {
          const double rounded = round_float(exact, d), lane = v.float_lane(i);
          if (std::isnan(rounded))
            EXPECT_TRUE(std::isnan(lane)) << a << " " << b;
          else
            EXPECT_EQ(lane, rounded) << dtype_name(d) << " " << a << " " << b;
        };
        same(sum, a + b);
        same(product, a * b);
        same(nearest, std::nearbyint(a));
        same(greatest, std::isnan(a) ? b : std::isnan(b) ? a : std::max(a, b));
        same(clip, std::isnan(a) ? NAN : std::isnan(b) ? a : b);
      }
    }
  }
}

TEST(Intrinsics, FmaIsFused) {
  Lanes lanes(8);
  const Type type = Type::vector(DType::kF32, 16);
  for (int round = 0; round < 200; ++round) {
    const LaneValue acc = lanes.of(type), x = lanes.of(type), y = lanes.of(type);
    const LaneValue out = evaluate("fma", {acc, x, y});
    for (int i = 0; i < type.lanes; ++i) {
      const float expected = std::fma(static_cast<float>(x.float_lane(i)), static_cast<float>(y.float_lane(i)),
                                      static_cast<float>(acc.float_lane(i)));
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(out.float_lane(i)));
      else
        EXPECT_EQ(static_cast<float>(out.float_lane(i)), expected);
    }
  }
}

TEST(Intrinsics, MasksAndPassThrough) {
  Lanes lanes(11);
  const Type type = Type::vector(DType::kI32, 9);
  const LaneValue x = lanes.of(type), y = lanes.of(type), r = lanes.of(type),
                  m = lanes.of(type.with_element(DType::kBool));
  const LaneValue kept = evaluate("vadd", {x, y}, {}, &m, &r), dropped = evaluate("vadd", {x, y}, {}, &m),
                  compared = evaluate("vcge", {x, x}, {}, &m);
  const LaneValue chosen = evaluate("vsel", {x, y}, {}, &m), clipped = evaluate("clip", {x, r, r}, {}, &m);
  for (int i = 0; i < type.lanes; ++i) {
    const bool on = m.int_lane(i) != 0;
    const int64_t sum = wrap_int(x.int_lane(i) + y.int_lane(i), DType::kI32);
    EXPECT_EQ(kept.int_lane(i), on ? sum : r.int_lane(i));
    EXPECT_EQ(dropped.int_lane(i), sum);  // without r the mask is dropped
    EXPECT_EQ(compared.int_lane(i), on);
    EXPECT_EQ(chosen.int_lane(i), on ? x.int_lane(i) : y.int_lane(i));
    EXPECT_EQ(clipped.int_lane(i), on ? r.int_lane(i) : x.int_lane(i));
  }
}

LaneValue ints(std::initializer_list<int64_t> values, DType d = DType::kI32) {
  LaneValue v(Type::vector(d, static_cast<int>(values.size())));
  int i = 0;
  for (const int64_t x : values) v.set_int(i++, x);
  return v;
}
LaneValue scalar(int64_t x, DType d = DType::kI32) {
  LaneValue v(Type::scalar(d));
  v.set_int(0, x);
  return v;
}
std::vector<int64_t> list(const LaneValue& v) {
  std::vector<int64_t> out;
  for (int i = 0; i < v.type.lanes; ++i) out.push_back(v.int_lane(i));
  return out;
}
using L = std::vector<int64_t>;

// The examples of intrinsics.md 9, and more of the kind.
TEST(Intrinsics, Permutations) {
  const LaneValue x = ints({1, 2, 3, 4}), y = ints({5, 6, 7, 8});
  EXPECT_EQ(list(evaluate("vconcat", {x, y}, {{"part", 4}})), (L{2, 4, 6, 8}));
  EXPECT_EQ(list(evaluate("vconcat", {x, y}, {{"part", 0}})), (L{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(list(evaluate("vconcat", {x, y}, {{"part", 2}})), (L{3, 4, 7, 8}));
  EXPECT_EQ(list(evaluate("vzip", {x, y}, {{"part", 2}})), (L{3, 7, 4, 8}));
  EXPECT_EQ(list(evaluate("vzip", {x, y})), (L{1, 5, 2, 6, 3, 7, 4, 8}));
  EXPECT_EQ(list(evaluate("vzip", {x, y}, {{"part", 3}})), (L{1, 5, 3, 7}));
  EXPECT_EQ(list(evaluate("vshfl", {x, scalar(1)})), (L{2, 3, 4, 1}));
  EXPECT_EQ(list(evaluate("vrevs", {x})), (L{4, 3, 2, 1}));
  EXPECT_EQ(list(evaluate("vreplic", {x, scalar(2)})), (L{3, 3, 3, 3}));
  EXPECT_EQ(list(evaluate("vpart", {ints({1, 2, 3, 4, 5, 6})}, {{"index", 1}, {"lanes", 3}})), (L{4, 5, 6}));
  const LaneValue m = ints({0, 1, 0, 1, 0, 0, 0, 1}, DType::kBool);
  const LaneValue a = ints({1, 2, 3, 4, 5, 6, 7, 8}), b = ints({11, 12, 13, 14, 15, 16, 17, 18});
  EXPECT_EQ(list(evaluate("vcompc", {a, b}, {}, &m)), (L{2, 4, 8, 11, 12, 13, 14, 15}));
  EXPECT_EQ(list(evaluate("vcompt", {a}, {}, &m)), (L{2, 4, 8, 0, 0, 0, 0, 0}));
  EXPECT_EQ(list(evaluate("vtbl", {a, b, ints({7, 0, 9, -1, 15, 16, 100, 8})})), (L{8, 1, 12, 0, 18, 0, 0, 11}));
}

TEST(Intrinsics, Reductions) {
  const LaneValue x = ints({100, 100, 50, -3, 7}, DType::kI8), m = ints({1, 0, 1, 1, 0}, DType::kBool);
  EXPECT_EQ(evaluate("vrpadd", {x}).int_lane(0), wrap_int(254, DType::kI8));
  EXPECT_EQ(evaluate("vrpadd", {x}, {}, &m).int_lane(0), wrap_int(147, DType::kI8));
  EXPECT_EQ(evaluate("vrpmax", {x}).int_lane(0), 100);
  EXPECT_EQ(evaluate("vrpmin", {x}, {}, &m).int_lane(0), -3);
  EXPECT_EQ(evaluate("vrpmax", {x}, {{"return_idx", 1}}).int_lane(1), 0);
  EXPECT_EQ(evaluate("vrpmin", {x}, {{"return_idx", 1}}).int_lane(1), 3);
  EXPECT_EQ(evaluate("vall", {m}).int_lane(0), 0);
  EXPECT_EQ(evaluate("vany", {m}).int_lane(0), 1);
  // 16-bit floats are summed in float32, with half the lanes.
  LaneValue h(Type::vector(DType::kF16, 16));
  for (int i = 0; i < 16; ++i) h.set_float(i, 60000);
  const LaneValue sum = evaluate("vrpadd", {h});
  EXPECT_EQ(sum.type, Type::vector(DType::kF32, 8));
  EXPECT_EQ(sum.float_lane(0), 960000);
}

TEST(Intrinsics, WideningAndDots) {
  const LaneValue x = ints({-32768, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, DType::kI16);
  EXPECT_EQ(list(evaluate("vmull", {x, x})), (L{1073741824, 4, 9, 16, 25, 36, 49, 64}));
  EXPECT_EQ(list(evaluate("vmulh", {x, x})), (L{81, 100, 121, 144, 169, 196, 225, 256}));
  const LaneValue w = ints({INT32_MIN, -1, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(list(evaluate("vmull", {w, w})), (L{0, 0x40000000, 1, 0, 9, 0, 16, 0}));  // 64-bit products, low word first
  EXPECT_EQ(list(evaluate("vdot", {x, x}))[0], 1073741828);
  EXPECT_EQ(list(evaluate("vaddh", {x, x}))[0], -32766);
  LaneValue low = x;
  for (int i = 0; i < 16; ++i) low.set_int(i, -32768);
  EXPECT_EQ(list(evaluate("vdot", {low, low}))[0], INT32_MAX);  // 2^31 saturates
  EXPECT_EQ(list(evaluate("vaddh", {low, low}))[3], -32768);
  EXPECT_EQ(evaluate("vnsr", {ints({511, -1, 256, 128, 0, 1, 2, 3}), ints({1, 1, 1, 1, 1, 1, 1, 1})}, {{"saturate", 1}})
                .int_lane(0),
            127);
  EXPECT_EQ(
      list(evaluate("vnsr", {ints({511, -1, 256, 128, 0, 1, 2, 3}), ints({1, 1, 1, 1, 1, 1, 1, 1})}, {{"to_h", 1}})),
      (L{255, 0, -1, 0, 128, 0, 64, 0, 0, 0, 0, 0, 1, 0, 1, 0}));
}

TEST(Intrinsics, Casts) {
  const auto cast_to = [](DType to, int64_t saturate = 0, int64_t part = 0) {
    return Attributes{{"dtype", attribute_of_type(Type::scalar(to))}, {"part", part}, {"saturate", saturate}};
  };
  LaneValue f(Type::vector(DType::kF32, 8));
  const double values[] = {300.7, -1.5, NAN, 1e20, -1e20, 2.5, -0.0, 255.9};
  for (int i = 0; i < 8; ++i) f.set_float(i, values[i]);
  EXPECT_EQ(list(evaluate("cast", {f}, cast_to(DType::kI8))), (L{44, -1, 0, -1, 0, 2, 0, -1}));
  EXPECT_EQ(list(evaluate("cast", {f}, cast_to(DType::kI32))), (L{300, -1, 0, INT32_MAX, INT32_MIN, 2, 0, 255}));
  const LaneValue w = ints({300, -300, 127, 128, -128, -129, 0, 1});
  EXPECT_EQ(list(evaluate("cast", {w}, cast_to(DType::kI8, 2))), (L{127, -128, 127, 127, -128, -128, 0, 1}));
  EXPECT_EQ(list(evaluate("cast", {w}, cast_to(DType::kU8))), (L{44, 212, 127, 128, 128, 127, 0, 1}));
  const LaneValue bytes = ints({0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, -31},
                               DType::kI8);
  EXPECT_EQ(list(evaluate("cast", {bytes}, cast_to(DType::kI32, 0, 8))), (L{24, 25, 26, 27, 28, 29, 30, -31}));
  EXPECT_EQ(list(evaluate("cast", {bytes}, cast_to(DType::kI16, 0, 4)))[15], -31);
  const LaneValue merged = evaluate("cast", {w, w, w}, cast_to(DType::kU8));
  EXPECT_EQ(merged.type, Type::vector(DType::kU8, 32));
  EXPECT_EQ(merged.int_lane(8), 44);
}

TEST(Intrinsics, TypeRulesSayWhatIsWrong) {
  const auto v = [](Type type) { return var_ref(std::make_shared<const Var>(Var{"v", type})); };
  const Expr i8x32 = v(Type::vector(DType::kI8, 32)), u8x32 = v(Type::vector(DType::kU8, 32)),
             i32x8 = v(Type::vector(DType::kI32, 8)), f32x8 = v(Type::vector(DType::kF32, 8));
  const Expr f16x16 = v(Type::vector(DType::kF16, 16)), i8x64 = v(Type::vector(DType::kI8, 64)),
             m8 = v(Type::vector(DType::kBool, 8));
  const Expr i32 = v(Type::scalar(DType::kI32)), pointer = v(Type::pointer_to(DType::kI32, 8, Scope::kGlobal));
  const auto message = [](const std::string& name, std::vector<Expr> operands, std::vector<bool> literal = {},
                          Attributes attributes = {}, Expr mask = nullptr, Expr r = nullptr) {
    literal.resize(operands.size());
    InferInput in{&operands, literal, &mask, &r, &attributes};
    const Result<Type> type = find_intrinsic(name)->infer(in);
    return type.ok() ? "fine: " + type->text() : type.status().message();
  };
  EXPECT_EQ(message("vadd", {i8x32, int_imm(300)}, {false, true}),
            "Can't broadcast \"300\" to any of \"(int8x32, uint8x32)\".");
  EXPECT_EQ(message("vadd", {i8x32, int_imm(100)}, {false, true}), "fine: int8x32");
  EXPECT_EQ(
      message("vadd", {i8x32, u8x32}),
      "The sign of operands is different, if the API have parameter \"out_sign\" please specify the output sign.");
  EXPECT_EQ(message("vadd", {i8x32, u8x32}, {}, {{"out_sign", 1}}), "fine: uint8x32");
  EXPECT_EQ(message("vadd", {i8x32, i32x8}), "Argument type mismatch: 0-th: \"int8x32\" vs. 1-th: \"int32x8\".");
  EXPECT_EQ(message("vadd", {i32, i32}), "All arguments are scalar.");
  EXPECT_EQ(message("vadd", {i32x8, pointer}), "Unexpect \"int32x8*\" pointer as argument.");
  EXPECT_EQ(message("vadd", {f32x8, f32x8}, {}, {{"saturate", 1}}), "Saturate is meaningless for floating.");
  EXPECT_EQ(message("vmul", {i8x32, i8x32}), "The 8bit equal-width multiply is meaningless.");
  EXPECT_EQ(message("vdiv", {f16x16, f16x16}), "Only support integer and float32 instruction.");
  EXPECT_EQ(message("vmod", {f32x8, f32x8}), "Only support integer instruction.");
  EXPECT_EQ(message("fma", {i32x8, i32x8, i32x8}), "Only support float32 instruction.");
  EXPECT_EQ(message("rint", {i32x8}), "Only support floating input.");
  EXPECT_EQ(message("exp", {i32x8}), "Only support floating input.");
  EXPECT_EQ(message("clip", {i8x32, i32, i32}), "Can't cast the arg \"min_val\" to \"int8x32\" safely.");
  EXPECT_EQ(message("vmull", {i8x64, i8x64}), "This API expect hardware native vector types, but got: \"int8x64\".");
  EXPECT_EQ(message("vdot", {i32x8, i32x8}), "Only supports 8-bit or 16-bit integer instruction.");
  EXPECT_EQ(message("vqdot", {i32x8, i32x8}),
            "Only supports 8-bit integer instruction or 16-bit floating instruction.");
  EXPECT_EQ(message("vaddh", {i8x32, u8x32}).substr(0, 34), "The sign of operands is different,");
  EXPECT_EQ(message("vadd", {i32x8, i32x8}, {}, {}, m8, float_imm(1.5)),
            "Argument type mismatch: r: \"float32\" vs. return data type: \"int32x8\".");
  EXPECT_EQ(message("vadd", {i8x32, i8x32}, {}, {}, v(Type::vector(DType::kBool, 32)), int_imm(300)),
            "Argument r \"300\" is out of range of return data type \"int8x32\".");
  EXPECT_EQ(message("vadd", {i8x32, i8x32}, {}, {}, m8, int_imm(3)),
            "The length of arg \"mask\" expect \"32\", but got: \"8\".");
  EXPECT_EQ(message("abs", {i32}, {}, {}, m8), "Only support mask in vector scenario.");
  EXPECT_EQ(message("vsl", {u8x32, u8x32}, {}, {{"saturate", 1}}), "Only support input signed dtype if saturate.");
  EXPECT_EQ(message("vsldl", {i32x8, i32x8, int_imm(8)}), "The arg \"shift\" expect in range [0, 8), but got: \"8\".");
  EXPECT_EQ(message("vsldl", {i32x8, i32x8, i32}), "The arg \"shift\" expect a constant integer scalar.");
  EXPECT_EQ(message("vtbl", {i32x8, i32x8}), "The length of the arg \"table\" expect in range [2, 4]");
  EXPECT_EQ(message("vreplic", {i8x64, i32}), "The arg \"index\" expects an integer constant value.");
  EXPECT_EQ(message("vload_gather", {pointer, i32}), "The arg \"indices\" expect a 16-bit integer vector");
  EXPECT_EQ(message("cast", {f16x16}, {}, {{"dtype", attribute_of_type(Type::scalar(DType::kI8))}}),
            "Unsupported cast directly from \"float16x16\" to \"int8x16\"");
  EXPECT_EQ(message("printf", {make_expr(Type::scalar(DType::kString), StringImm{"%d"}), f32x8}),
            "Specifier \"%d\" only accept integer scalar value.");
  EXPECT_EQ(message("printf", {make_expr(Type::scalar(DType::kString), StringImm{"%d %d"}), i32}),
            "The specifier count \"2\" not equal to the argument count \"1\".");
  EXPECT_EQ(message("vbcast", {int_imm(3)}, {true}), "The 1st arg expect a scalar that contain type information.");
  EXPECT_EQ(message("tail_mask", {int_imm(9)}, {true}, {{"lanes", 8}}), "The arg \"n\" expect in range [0, lanes]");
}

// Every row is complete, and pure rows do not need a machine.
TEST(Intrinsics, TheTableIsComplete) {
  EXPECT_GT(all_intrinsics().size(), 100u);
  for (const Intrinsic& row : all_intrinsics()) {
    EXPECT_EQ(find_intrinsic(row.name), &row);
    EXPECT_TRUE(row.infer && row.evaluate && row.run) << row.name;
    for (size_t i = 0; i < row.params.size(); ++i) {
      for (size_t k = 0; k < i; ++k) EXPECT_NE(row.params[i].name, row.params[k].name) << row.name;
    }
  }
  EXPECT_EQ(find_intrinsic("no_such_thing"), nullptr);
}

TEST(IntrinsicTable, EffectsDoNotContradictEachOther) {
  for (const Intrinsic& row : all_intrinsics()) {
    const auto any = [&](auto property) { return std::any_of(row.params.begin(), row.params.end(), property); };
    const bool reads = any([](const IntrinsicParam& p) { return p.access != Access::kNone; });
    const bool stores = any([](const IntrinsicParam& p) { return writes(p.access); });
    EXPECT_FALSE(row.pure && reads) << row.name;
    EXPECT_FALSE(row.droppable && (row.pure || stores)) << row.name;
    const bool sized = any([](const IntrinsicParam& p) { return p.extent != TransferExtent::kNone; });
    EXPECT_EQ(row.cost == CostClass::kTransfer, sized) << row.name;
    const bool has_event = any([](const IntrinsicParam& p) { return p.name == "event"; });
    EXPECT_EQ(row.asynchronous, has_event) << row.name;
  }
}

}  // namespace
}  // namespace aipu::tir::testing
