// What lowering makes of small kernels, as text; its options and its errors.
#include "codegen/lower/lower.h"

#include <gtest/gtest.h>

#include "codegen/lower/simplify.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::testing {
namespace {

Module parsed(const std::string& text) {
  Result<Module> module = parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().message() << "\n" << text;
  return module.ok() ? *module : Module();
}

Target machine(int bits, bool native_fma = true) {
  Target target;
  target.name = "test";
  target.vector_bits = bits;
  target.native_fma = native_fma;
  return target;
}

void expect_lowered(const std::string& input, const Target& target, const std::string& expected) {
  const Result<Module> lowered = lower(parsed(input), target);
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  EXPECT_EQ(print_module(*lowered), expected);
  EXPECT_TRUE(structurally_equal(*lowered, parsed(expected)));
}

TEST(Lower, SplitsVectorsIntoRegisters) {
  expect_lowered(R"(func scale(x#0: global float32*, y#1: global float32*, n#2: int32) -> void {
  for serial i#3: int32 = 0 to n#2 step 20 {
    let v#4: float32x20 = S.vload<float32x20>((x#0 + i#3), 1, .lanes=20)
    let w#5: float32x20 = S.vmul<float32x20>(v#4, broadcast<20>(load(y#1, 0)))
    eval S.vstore<void>((w#5 + v#4), (y#1 + i#3), 1)
  }
}
)",
                 machine(256), R"(func scale(x#0: global float32*, y#1: global float32*, n#2: int32) -> void {
  for serial i#3: int32 = 0 to n#2 step 20 {
    let t#4: global float32* = (x#0 + i#3)
    let v_0#5: float32x8 = S.vload<float32x8>(t#4, 1, .lanes=8)
    let v_1#6: float32x8 = S.vload<float32x8>((t#4 + 8:int64), 1, .lanes=8)
    let v_2#7: float32x4 = S.vload<float32x4>((t#4 + 16:int64), 1, .lanes=4)
    let t#8: float32 = load(y#1, 0)
    let w_0#9: float32x8 = S.vmul<float32x8>(v_0#5, broadcast<8>(t#8))
    let w_1#10: float32x8 = S.vmul<float32x8>(v_1#6, broadcast<8>(t#8))
    let w_2#11: float32x4 = S.vmul<float32x4>(v_2#7, broadcast<4>(t#8))
    let t#12: global float32* = (y#1 + i#3)
    eval S.vstore<void>((w_0#9 + v_0#5), t#12, 1)
    eval S.vstore<void>((w_1#10 + v_1#6), (t#12 + 8:int64), 1)
    eval S.vstore<void>((w_2#11 + v_2#7), (t#12 + 16:int64), 1)
  }
}
)");
}

// Not a statement for each of a thousand registers, for which a C compiler takes seconds.
TEST(Lower, VectorsOfManyRegistersAreLoops) {
  expect_lowered(R"(func f(x#0: global float32*, y#1: global float32*, n#2: int32) -> void {
  let m#3: boolx16384 = S.tail_mask<boolx16384>(n#2, .lanes=16384)
  let v#4: float32x16384 = S.vload<float32x16384>(x#0, 1, mask=m#3, .lanes=16384)
  eval S.vstore<void>((S.abs<float32x16384>(v#4) + broadcast<16384>(load(x#0, 5))), y#1, 1, mask=m#3)
}
)",
                 machine(512), R"(func f(x#0: global float32*, y#1: global float32*, n#2: int32) -> void {
  alloc m_lanes#3: private uint8* [16385]
  for serial at#4: int64 = 0:int64 to 16384:int64 step 16:int64 {
    eval S.vstore<void>(S.vsel<uint8x16>(broadcast<16>(1:uint8), broadcast<16>(0:uint8), S.tail_mask<boolx16>(cast<int32>((((cast<int64>(n#2) - at#4) max 0:int64) min 16:int64)), .lanes=16)), (m_lanes#3 + at#4), 1)
  }
  alloc v_lanes#5: private float32* [16385]
  for serial at#6: int64 = 0:int64 to 16384:int64 step 16:int64 {
    eval S.vstore<void>(S.vload<float32x16>((x#0 + at#6), 1, mask=(S.vload<uint8x16>((m_lanes#3 + at#6), 1, .lanes=16) != broadcast<16>(0:uint8)), .lanes=16), (v_lanes#5 + at#6), 1)
  }
  alloc t_lanes#7: private float32* [16385]
  let t#8: float32 = load(x#0, 5)
  for serial at#9: int64 = 0:int64 to 16384:int64 step 16:int64 {
    eval S.vstore<void>((S.abs<float32x16>(S.vload<float32x16>((v_lanes#5 + at#9), 1, .lanes=16)) + broadcast<16>(t#8)), (t_lanes#7 + at#9), 1)
  }
  for serial at#10: int64 = 0:int64 to 16384:int64 step 16:int64 {
    eval S.vstore<void>(S.vload<float32x16>((t_lanes#7 + at#10), 1, .lanes=16), (y#1 + at#10), 1, mask=(S.vload<uint8x16>((m_lanes#3 + at#10), 1, .lanes=16) != broadcast<16>(0:uint8)))
  }
}
)");
}

// Twice the lanes are a loop more for a sum, which halves its registers.
TEST(Lower, SumsOfManyRegistersAreLoops) {
  const auto statements = [](int lanes) {
    const std::string type = "float32x" + std::to_string(lanes);
    const auto module = parsed("func f(x#0: global float32*) -> void {\n  let v#1: " + type + " = S.vload<" + type +
                               ">(x#0, 1, .lanes=" + std::to_string(lanes) + ")\n  eval S.vstore<void>(S.exp<" + type +
                               ">(S.vrpmax<" + type + ">(v#1)), x#0, 1)\n}\n");
    const auto lowered = lower(module, machine(256));
    EXPECT_TRUE(lowered.ok()) << lowered.status().message();
    int count = 0;
    if (lowered.ok())
      walk(
          lowered->entry().body, [](const Expr&) {}, [&](const Stmt&) { ++count; });
    return count;
  };
  const int many = statements(4096);
  EXPECT_LT(many, 100);
  const int of_a_loop = 3;  // the loop, its block, the store
  EXPECT_LE(statements(16384), many + 2 * of_a_loop);
}

// One meaningful lane: two, and the second is masked in memory.
TEST(Lower, PadsASingleLane) {
  expect_lowered(R"(func f(x#0: global int32*) -> void {
  eval S.vstore<void>(S.vload<int32x9>(x#0, 1, .lanes=9), (x#0 + 1), 2)
}
)",
                 machine(256), R"(func f(x#0: global int32*) -> void {
  let v#1: int32x8 = S.vload<int32x8>(x#0, 1, .lanes=8)
  let v#2: int32x2 = S.vload<int32x2>((x#0 + 8:int64), 1, mask="1T1F":boolx2, .lanes=2)
  let t#3: global int32* = (x#0 + 1)
  eval S.vstore<void>(v#1, t#3, 2)
  eval S.vstore<void>(v#2, (t#3 + 16:int64), 2, mask="1T1F":boolx2)
}
)");
}

// The end of a vector of float32, in registers that are wide enough for masked moves to be as fast as others: as wide
// as those before it, if it has half of the lanes at least, so that all have the same right operand.
TEST(Lower, PadsTheEndOfFloatsInWideRegisters) {
  expect_lowered(R"(func f(x#0: global float32*, y#1: global float32*) -> void {
  eval S.vstore<void>((S.vload<float32x24>(x#0, 1, .lanes=24) * broadcast<24>(load(y#1, 0))), x#0, 1)
  eval S.vstore<void>(S.vload<float32x20>(x#0, 1, .lanes=20), y#1, 1)
}
)",
                 machine(512), R"(func f(x#0: global float32*, y#1: global float32*) -> void {
  let t#2: float32 = load(y#1, 0)
  let v#3: float32x16 = (S.vload<float32x16>(x#0, 1, .lanes=16) * broadcast<16>(t#2))
  let v#4: float32x16 = (S.vload<float32x16>((x#0 + 16:int64), 1, mask="8T8F":boolx16, .lanes=16) * broadcast<16>(t#2))
  eval S.vstore<void>(v#3, x#0, 1)
  eval S.vstore<void>(v#4, (x#0 + 16:int64), 1, mask="8T8F":boolx16)
  let v#5: float32x16 = S.vload<float32x16>(x#0, 1, .lanes=16)
  let v#6: float32x4 = S.vload<float32x4>((x#0 + 16:int64), 1, .lanes=4)
  eval S.vstore<void>(v#5, y#1, 1)
  eval S.vstore<void>(v#6, (y#1 + 16:int64), 1)
}
)");
}

// Values of L lanes are cut by the widest element among them.
TEST(Lower, LanesOfDifferentTypesStayTogether) {
  expect_lowered(R"(func f(x#0: global int8*, y#1: global float32*) -> void {
  eval S.vstore<void>(cast<float32x16>(S.vload<int8x16>(x#0, 1, .lanes=16)), y#1, 1)
}
)",
                 machine(256), R"(func f(x#0: global int8*, y#1: global float32*) -> void {
  let v#2: float32x8 = cast<float32x8>(S.vload<int8x8>(x#0, 1, .lanes=8))
  let v#3: float32x8 = cast<float32x8>(S.vload<int8x8>((x#0 + 8:int64), 1, .lanes=8))
  eval S.vstore<void>(v#2, y#1, 1)
  eval S.vstore<void>(v#3, (y#1 + 8:int64), 1)
}
)");
}

TEST(Lower, WideArgumentsAndResultsOfFunctions) {
  expect_lowered(R"(func f(x#0: global int32*) -> void {
  eval S.vstore<void>(call<int32x16> g(S.vload<int32x16>(x#0, 1, .lanes=16)), x#0, 1)
}

func g(v#0: int32x16) -> int32x16 {
  return (v#0 + v#0)
}
)",
                 machine(256), R"(func f(x#0: global int32*) -> void {
  alloc t_lanes#1: private int32* [17]
  eval call<void> g(S.vload<int32x8>(x#0, 1, .lanes=8), S.vload<int32x8>((x#0 + 8:int64), 1, .lanes=8), t_lanes#1)
  let v#2: int32x8 = S.vload<int32x8>(t_lanes#1, 1, .lanes=8)
  let v#3: int32x8 = S.vload<int32x8>((t_lanes#1 + 8:int64), 1, .lanes=8)
  eval S.vstore<void>(v#2, x#0, 1)
  eval S.vstore<void>(v#3, (x#0 + 8:int64), 1)
}

func g(v_0#0: int32x8, v_1#1: int32x8, result#2: private int32*) -> void {
  eval S.vstore<void>((v_0#0 + v_0#0), result#2, 1)
  eval S.vstore<void>((v_1#1 + v_1#1), (result#2 + 8:int64), 1)
  return
}
)");
}

// Runs `body` (x: 64 int32 with x[i] = 3 * i + 1) before and after lowering to registers of some width.
void expect_same_results(const std::string& body, int bits = 256) {
  const Module module = parsed("func f(x#0: global int32*) -> void {\n" + body + "\n}\n");
  const Result<Module> lowered = lower(module, machine(bits));
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  std::vector<int32_t> results[2];
  for (const Module* one : {&module, &*lowered}) {
    std::vector<int32_t>& x = results[one == &module ? 0 : 1];
    for (int i = 0; i < 64; ++i) x.push_back(3 * i + 1);
    const std::vector<InterpreterArgument> arguments = {
        {reinterpret_cast<std::byte*>(x.data()), x.size() * 4, 0, true}};
    const Status status = interpret_all(*one, 1, arguments);
    ASSERT_TRUE(status.ok()) << status.message() << "\n" << print_module(*one);
  }
  EXPECT_EQ(results[0], results[1]) << print_module(*lowered);
}

// Registers of one variable change places.
TEST(Lower, AssignmentsReadOldRegisters) {
  expect_same_results(R"(
    let v#1: int32x16 = S.vload<int32x16>(x#0, 1, .lanes=16)
    set v#1 = S.vshfl<int32x16>(v#1, 8)
    eval S.vstore<void>(v#1, x#0, 1)
  )");
}

// The padding lane of a register neither decides nor reaches memory.
TEST(Lower, PaddingHasNoEffect) {
  expect_same_results(R"(
    let v#1: int32x9 = (S.vload<int32x9>(x#0, 1, .lanes=9) + broadcast<9>(1))
    store x#0[20] = cast<int32>(S.vall<bool>((v#1 > broadcast<9>(1))))
    store x#0[21] = cast<int32>(S.vany<bool>((v#1 == broadcast<9>(1))))
    store x#0[22] = lane(S.vrpmin<int32x9>(v#1), 0)
    store x#0[23] = lane(S.vrpadd<int32x9>(v#1), 0)
    eval S.vstore_scatter<void>(v#1, (x#0 + 32), cast<int16x9>((v#1 / broadcast<9>(3))))
    let w#2: int32x9 = S.vload_gather<int32x9>(x#0, cast<int16x9>((v#1 + broadcast<9>(30))))
    eval S.vstore<void>(w#2, (x#0 + 40), 2)
  )");
}

// The same of several padding lanes, of float32 alone.
TEST(Lower, PaddingOfFloatsHasNoEffect) {
  const std::string begin = R"(
    let f#1: global float32* = cast<global float32*>(x#0)
    for serial i#2: int32 = 0 to 64 step 1 {
      store f#1[i#2] = (cast<float32>(load(x#0, i#2)) * 0.1)
    }
    let v#3: float32x25 = (S.vload<float32x25>(f#1, 1, .lanes=25) + broadcast<25>(1.5))
  )";
  expect_same_results(begin + R"(
    store x#0[40] = cast<int32>(S.vall<bool>((v#3 > broadcast<25>(0.5))))
    store x#0[41] = cast<int32>(S.vany<bool>((v#3 == broadcast<25>(0.0))))
    store f#1[42] = lane(S.vrpmin<float32x25>(v#3), 0)
    store f#1[43] = lane(S.vrpadd<float32x25>(v#3), 0)
    eval S.vstore<void>((v#3 / v#3), (f#1 + 1), 1)
    eval S.vstore<void>(v#3, (f#1 + 44), 1, mask=(v#3 < broadcast<25>(2.5)))
  )",
                      512);
  expect_same_results(begin + "eval S.vstore<void>(v#3, (f#1 + 3), 2)", 512);
  expect_same_results(begin + R"(
    setlane v#3[(load(x#0, 1) & 15)] = 7.5
    set v#3 = S.vshfl<float32x25>(v#3, 8)
    eval S.vstore<void>(v#3, f#1, 1)
  )",
                      512);
}

// A load behind a store to the same place: all registers are loaded first.
TEST(Lower, OverlappingCopies) {
  expect_same_results("eval S.vstore<void>(S.vload<int32x24>(x#0, 1, .lanes=24), (x#0 + 5), 1)");
  expect_same_results("store cast<global int32x20*>((x#0 + 3))[1] = load(cast<global int32x20*>(x#0), 1)");
}

TEST(Lower, TilesBecomeVariables) {
  const std::string tile = R"(func tile(a#0: global float32*, c#1: global float32*, n#2: int32) -> void {
  alloc acc#3: private float32x8* [2]
  for unrolled i#4: int32 = 0 to 2 step 1 { store acc#3[i#4] = broadcast<8>(0.0) }
  for serial k#5: int32 = 0 to n#2 step 1 {
    for unrolled i#6: int32 = 0 to 2 step 1 {
      store acc#3[i#6] = S.fma<float32x8>(load(acc#3, i#6), S.vload<float32x8>((a#0 + ((k#5 * 16) + (i#6 * 8))), 1, .lanes=8), broadcast<8>(load(a#0, k#5)))
    }
  }
  for unrolled i#7: int32 = 0 to 2 step 1 { eval S.vstore<void>(load(acc#3, i#7), (c#1 + ((S.get_local_id<int32>() * 16) + (i#7 * 8))), 1) }
}
)";
  expect_lowered(tile, machine(256), R"(func tile(a#0: global float32*, c#1: global float32*, n#2: int32) -> void {
  let tid#3: int32 nonneg = S.get_local_id<int32>()
  let acc0#4: float32x8 = broadcast<8>(0.0)
  let acc1#5: float32x8 = broadcast<8>(0.0)
  set acc0#4 = broadcast<8>(0.0)
  set acc1#5 = broadcast<8>(0.0)
  for serial k#6: int32 = 0 to n#2 step 1 {
    set acc0#4 = S.fma<float32x8>(acc0#4, S.vload<float32x8>((a#0 + (k#6 * 16)), 1, .lanes=8), broadcast<8>(load(a#0, k#6)))
    set acc1#5 = S.fma<float32x8>(acc1#5, S.vload<float32x8>((a#0 + ((k#6 * 16) + 8)), 1, .lanes=8), broadcast<8>(load(a#0, k#6)))
  }
  eval S.vstore<void>(acc0#4, (c#1 + (tid#3 * 16)), 1)
  eval S.vstore<void>(acc1#5, (c#1 + ((tid#3 * 16) + 8)), 1)
}
)");
  // Without native fma, no fma is left.
  const Result<Module> no_fma = lower(parsed(tile), machine(256, false));
  ASSERT_TRUE(no_fma.ok());
  EXPECT_EQ(print_module(*no_fma).find("S.fma"), std::string::npos);
  EXPECT_NE(print_module(*no_fma).find("set acc0#4 = (acc0#4 + (S.vload"), std::string::npos) << print_module(*no_fma);
}

constexpr const char* kVectorTile = R"(func tile(x#0: global float32*, y#1: global float32*) -> void {
  alloc acc#2: private float32* [16]
  for unrolled i#3: int32 = 0 to 2 step 1 {
    eval S.vstore<void>(S.vload<float32x8>((x#0 + (i#3 * 8)), 1, .lanes=8), (acc#2 + (i#3 * 8)), 1)
  }
  eval S.vstore<void>(S.vload<float32x8>((acc#2 + 8), STRIDE, .lanes=8), y#1, 1)
}
)";

TEST(Lower, VectorsOfATileBecomeVariables) {
  const auto with_stride = [](const std::string& stride) {
    std::string text = kVectorTile;
    return text.replace(text.find("STRIDE"), 6, stride);
  };
  const auto has_array = [](const std::string& text) {
    const Result<Module> lowered = lower(parsed(text), machine(256));
    EXPECT_TRUE(lowered.ok()) << lowered.status().message();
    return lowered.ok() && print_module(*lowered).find("alloc") != std::string::npos;
  };
  EXPECT_FALSE(has_array(with_stride("1")));
  EXPECT_TRUE(has_array(with_stride("2")));  // lanes of two vectors
  std::string across = with_stride("1");
  EXPECT_TRUE(has_array(across.replace(across.find("acc#2 + 8)"), 10, "acc#2 + 4)")));
}

TEST(Lower, TecLoopsAreGuarded) {
  expect_lowered(R"(func f(x#0: global int32*) -> void {
  for tec t#1: int32 = 0 to 3 step 1 { store x#0[t#1] = t#1 }
}
)",
                 machine(256), R"(func f(x#0: global int32*) -> void {
  let tid#1: int32 nonneg = S.get_local_id<int32>()
  if (tid#1 < 3) {
    store x#0[tid#1] = tid#1
  }
}
)");
}

// A constant of two statements is one vector, and what the inner loop needs is made in front of it, but in front of no
// loop that has others in it; one that a single statement needs stays where it is.
TEST(Lower, ConstantsAreShared) {
  const char* const text = R"(func f(x#0: global float32*, n#1: int32) -> void {
  for serial i#2: int32 = 0 to n#1 step 1 {
    let a#3: float32x8 = (S.vload<float32x8>(x#0, 1, .lanes=8) + broadcast<8>(2.0))
    let b#4: float32x8 = ((a#3 * broadcast<8>(2.0)) - broadcast<8>(5.0))
    for serial j#5: int32 = 0 to n#1 step 1 {
      eval S.vstore<void>((b#4 * broadcast<8>(3.0)), (x#0 + j#5), 1)
    }
  }
}
)";
  Target target = machine(256);
  expect_lowered(text, target, text);
  target.costs.emplace();
  expect_lowered(text, target, R"(func f(x#0: global float32*, n#1: int32) -> void {
  for serial i#2: int32 = 0 to n#1 step 1 {
    let constant#3: float32x8 = broadcast<8>(2.0)
    let a#4: float32x8 = (S.vload<float32x8>(x#0, 1, .lanes=8) + constant#3)
    let b#5: float32x8 = ((a#4 * constant#3) - broadcast<8>(5.0))
    let constant#6: float32x8 = broadcast<8>(3.0)
    for serial j#7: int32 = 0 to n#1 step 1 {
      eval S.vstore<void>((b#5 * constant#6), (x#0 + j#7), 1)
    }
  }
}
)");
}

TEST(Lower, ReportsWhatChanged) {
  std::vector<std::string> changed;
  LowerOptions options;
  options.on_pass = [&](int index, std::string_view name, const Module&) {
    changed.push_back(std::to_string(index) + " " + std::string(name));
  };
  const Module module =
      parsed("func f(x#0: global int32*) -> void { for unrolled i#1: int32 = 0 to 2 step 1 { store x#0[i#1] = 1 } }");
  ASSERT_TRUE(lower(module, machine(256), options).ok());
  EXPECT_EQ(changed, (std::vector<std::string>{"1 resolve_loops", "2 fold_constants"}));
  options.disabled_passes = {"resolve_loops"};
  changed.clear();
  ASSERT_TRUE(lower(module, machine(256), options).ok());
  EXPECT_TRUE(changed.empty());
  options.disabled_passes = {"no_such_pass"};
  EXPECT_EQ(lower(module, machine(256), options).status().message(), "no lowering pass is named 'no_such_pass'");
}

TEST(Lower, RefusesNativeIntrinsicsOnNarrowRegisters) {
  const Module module = parsed(R"(func f(x#0: global int16*, y#1: global int32*) -> void {
  let v#2: int16x16 = S.vload<int16x16>(x#0, 1, .lanes=16)
  eval S.vstore<void>(S.vmull<int32x8>(v#2, v#2)  , y#1, 1)  @"k.py":7:3
}
)");
  EXPECT_TRUE(lower(module, machine(256)).ok());
  const Status status = lower(module, machine(128)).status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("S.vmull"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("wider than a register of this target"), std::string::npos) << status.message();
}

// 32 lanes are cut to 8 for the int32x32 here, but a native vector of bytes must be whole for these.
TEST(Lower, NativeIntrinsicsBesideWiderElements) {
  const Module module = parsed(R"(func f(x#0: global int8*, y#1: global int32*, m#2: global float32*) -> void {
  let v#3: int8x32 = S.vload<int8x32>(x#0, 1, .lanes=32)
  eval S.vstore<void>(cast<int32x32>(v#3), y#1, 1)
  let p#4: int16x16 = S.vmull<int16x16>(v#3, v#3)
  let q#5: int8x32 = S.vtbl<int8x32>(v#3, v#3, v#3)
  let c#6: int8x32 = S.vcompt<int8x32>(q#5, S.vcgt<boolx32>(v#3, broadcast<32>(2:int8)))
  let d#7: int32x8 = S.vqdot<int32x8>(c#6, v#3, mask=S.vcgt<boolx32>(v#3, broadcast<32>(0:int8)))
  let n#8: int8x32 = S.vnsr<int8x32>(p#4, broadcast<16>(2:int16))
  let h#9: float16x16 = cast<float16x16>(cast<float32x16>(cast<int32x16>(p#4)))
  eval S.vmma<void>(m#2, h#9, h#9)
  eval S.vstore<void>(d#7, (y#1 + 32), 1)
  eval S.vstore<void>(cast<int32x32>(n#8), (y#1 + 40), 1)
  eval S.vstore<void>(cast<int32x32>(c#6), (y#1 + 72), 1)
}
)");
  const Result<Module> lowered = lower(module, machine(256));
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  std::vector<int8_t> x(32);
  for (int i = 0; i < 32; ++i) x[static_cast<size_t>(i)] = static_cast<int8_t>(i * 7 % 37 - 9);
  std::vector<int32_t> expected(104), got(104);
  std::vector<float> expected_matrix(16), matrix(16);
  const auto memory = [](auto& v) {
    return InterpreterArgument{
        .data = reinterpret_cast<std::byte*>(v.data()), .bytes = v.size() * sizeof(v[0]), .is_pointer = true};
  };
  const std::vector<InterpreterArgument> before = {memory(x), memory(expected), memory(expected_matrix)};
  const std::vector<InterpreterArgument> after = {memory(x), memory(got), memory(matrix)};
  EXPECT_TRUE(interpret_all(module, 1, before).ok());
  EXPECT_TRUE(interpret_all(*lowered, 1, after).ok());
  EXPECT_EQ(got, expected);
  EXPECT_EQ(matrix, expected_matrix);
}

TEST(Lower, RefusesWhatTheVerifierRefuses) {
  EXPECT_FALSE(lower(parsed("func f() -> void { eval (1 + 2:int64) }"), machine(256)).ok());
}

TEST(Simplify, Expressions) {
  auto n = std::make_shared<Var>();
  n->name = "n";
  n->type = Type::scalar(DType::kI32);
  auto size = std::make_shared<Var>(*n);
  size->non_negative = true;
  const Expr x = var_ref(n), s = var_ref(size);
  const auto text = [](const Expr& e) { return print_expr(simplify_expr(e)); };
  const auto op = [](BinaryOp o, Expr a, Expr b) { return binary(o, std::move(a), std::move(b)); };
  EXPECT_EQ(text(op(BinaryOp::kAdd, int_imm(INT32_MAX), int_imm(1))), "-2147483648");
  EXPECT_EQ(text(op(BinaryOp::kDiv, int_imm(INT32_MIN), int_imm(-1))), "2147483647");
  EXPECT_EQ(text(op(BinaryOp::kDiv, int_imm(1), int_imm(0))), "(1 / 0)");
  EXPECT_EQ(text(op(BinaryOp::kAdd, int_imm(0), x)), "n#0");
  EXPECT_EQ(text(op(BinaryOp::kAdd, op(BinaryOp::kAdd, int_imm(3), x), int_imm(4))), "(n#0 + 7)");
  EXPECT_EQ(text(op(BinaryOp::kMul, op(BinaryOp::kMul, x, int_imm(65536)), int_imm(65536))), "0");
  EXPECT_EQ(text(op(BinaryOp::kSub, x, x)), "0");
  EXPECT_EQ(text(op(BinaryOp::kAnd, bool_imm(true), op(BinaryOp::kLt, x, int_imm(3)))), "(n#0 < 3)");
  EXPECT_EQ(text(make_expr(Type::scalar(DType::kBool), Unary{UnaryOp::kNot, op(BinaryOp::kLt, x, int_imm(3))})),
            "(n#0 >= 3)");
  EXPECT_EQ(text(op(BinaryOp::kGe, s, int_imm(0))), "true");
  EXPECT_EQ(text(op(BinaryOp::kGe, x, int_imm(0))), "(n#0 >= 0)");
  EXPECT_EQ(text(op(BinaryOp::kAdd, float_imm(0.1), float_imm(0.2))), "0.3");
  EXPECT_EQ(text(op(BinaryOp::kShl, int_imm(1, DType::kI8), int_imm(9, DType::kI8))), "0:int8");
  EXPECT_EQ(text(op(BinaryOp::kShl, int_imm(1, DType::kI16), int_imm(37, DType::kI16))), "32:int16");
  EXPECT_EQ(text(op(BinaryOp::kShr, int_imm(-3, DType::kI8), int_imm(9, DType::kI8))), "-1:int8");
  EXPECT_EQ(text(op(BinaryOp::kShr, int_imm(200, DType::kU8), int_imm(33, DType::kU8))), "100:uint8");
  // A float plus zero is not that float: -0 + 0 is +0.
  auto f = std::make_shared<Var>();
  f->name = "f";
  f->type = Type::scalar(DType::kF32);
  EXPECT_EQ(text(op(BinaryOp::kAdd, var_ref(f), float_imm(0))), "(f#0 + 0.0)");
  EXPECT_EQ(text(op(BinaryOp::kMul, var_ref(f), float_imm(0))), "(f#0 * 0.0)");
  EXPECT_EQ(text(op(BinaryOp::kMul, var_ref(f), float_imm(1))), "f#0");
  EXPECT_EQ(
      text(make_expr(Type::scalar(DType::kBool), Unary{UnaryOp::kNot, op(BinaryOp::kLt, var_ref(f), float_imm(3))})),
      "!(f#0 < 3.0)");
  EXPECT_EQ(text(cast(Type::vector(DType::kF32, 4), broadcast(int_imm(3), 4))), "broadcast<4>(3.0)");
}

TEST(Simplify, Statements) {
  const Module module = parsed(R"(func f(x#0: global int32*, n#1: int32) -> void {
  let unused#2: int32 = (n#1 + 1)
  let two#3: int32 = 2
  if (two#3 > 1) { store x#0[two#3] = n#1 } else { store x#0[0] = 9 }
  for serial i#4: int32 = 4 to 4 step 1 { store x#0[1] = 9 }
  for serial j#5: int32 = 0 to n#1 step 1 { let dead#6: int32 = load(x#0, j#5) }
  while (two#3 == 3) { store x#0[1] = 9 }
  eval (n#1 + 1)
  eval call<int32> g()
  return
  store x#0[5] = 5
}

func g() -> int32 {
  return 1
}
)");
  const Result<PrimFunc> simple = simplify(module.entry(), machine(256));
  ASSERT_TRUE(simple.ok());
  Module result;
  result.functions.push_back(std::make_shared<PrimFunc>(*simple));
  EXPECT_EQ(print_module(result), R"(func f(x#0: global int32*, n#1: int32) -> void {
  store x#0[2] = n#1
  eval call<int32> g()
  return
}
)");
}

// A loop variable that is assigned and read by nothing still counts.
TEST(Simplify, LoopVariablesAreKept) {
  const Module module = parsed(R"(func f(x#0: global int32*) -> void {
  for serial i#1: int32 = 0 to 10 step 1 {
    store x#0[0] = (load(x#0, 0) + 1)
    set i#1 = 20
  }
}
)");
  const Result<PrimFunc> simple = simplify(module.entry(), machine(256));
  ASSERT_TRUE(simple.ok());
  EXPECT_EQ(simple->body, module.entry().body);
}

}  // namespace
}  // namespace aipu::tir::testing
