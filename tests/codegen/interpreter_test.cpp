// The interpreter: statements, memory safety, TECs and barriers, limits.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"

namespace aipu::tir::testing {
namespace {

Module parsed(const std::string& text) {
  Result<Module> module = parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().message() << "\n" << text;
  return module.ok() ? *module : Module();
}

template <typename T>
InterpreterArgument memory(std::vector<T>& data) {
  return {reinterpret_cast<std::byte*>(data.data()), data.size() * sizeof(T), 0, true};
}
InterpreterArgument word(uint64_t value) { return {nullptr, 0, value, false}; }

// Runs `body` with out: int32* of 8 elements and n: int32.
std::vector<int32_t> run(const std::string& body, int n = 5) {
  std::vector<int32_t> out(8, -1);
  const std::vector<InterpreterArgument> arguments = {memory(out), word(static_cast<uint64_t>(n))};
  const Status status =
      interpret_all(parsed("func f(out#0: global int32*, n#1: int32) -> void {\n" + body + "\n}\n"), 1, arguments);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

std::string error_of(const std::string& body, int n = 5, uint64_t max_steps = 0) {
  std::vector<int32_t> out(8, -1);
  const std::vector<InterpreterArgument> arguments = {memory(out), word(static_cast<uint64_t>(n))};
  InterpreterOptions options;
  options.max_steps = max_steps;
  const Status status = interpret_all(parsed("func f(out#0: global int32*, n#1: int32) -> void {\n" + body + "\n}\n"),
                                      1, arguments, options);
  EXPECT_FALSE(status.ok());
  return status.message();
}

TEST(Interpreter, LoopsAndBranches) {
  const std::vector<int32_t> out = run(R"(
    let sum#2: int32 = 0
    for serial i#3: int32 = 1 to 10 step 3 { set sum#2 = (sum#2 + i#3) }
    store out#0[0] = sum#2
    let k#4: int32 = 0
    while (k#4 < 100) {
      if (k#4 == n#1) { break }
      set k#4 = (k#4 + 1)
    }
    store out#0[1] = k#4
    for serial j#5: int32 = 5 to 5 step 1 { store out#0[2] = 99 }
    store out#0[3] = ((n#1 > 3) ? (n#1 / 2) : load(out#0, 1000))
    if ((n#1 > 100) && (load(out#0, 1000) == 0)) { store out#0[4] = 1 } else { store out#0[4] = 2 }
    if ((n#1 > 0) || (load(out#0, 1000) == 0)) { store out#0[5] = 3 }
  )");
  EXPECT_EQ(out, (std::vector<int32_t>{12, 5, -1, 2, 2, 3, -1, -1}));
}

// A loop that ends at the last value of its type ends.
TEST(Interpreter, LoopCountersDoNotOverflow) {
  const std::vector<int32_t> out = run(R"(
    let rounds#2: int32 = 0
    for serial i#3: int8 = 100:int8 to 127:int8 step 20:int8 { set rounds#2 = (rounds#2 + 1) }
    for serial j#4: int32 = 2147483646 to 2147483647 step 5 { set rounds#2 = (rounds#2 + 10) }
    store out#0[0] = rounds#2
  )");
  EXPECT_EQ(out[0], 12);
}

// The bounds are taken once, as those of Python's range.
TEST(Interpreter, BoundsAreEvaluatedOnce) {
  const std::vector<int32_t> out = run(R"(
    let stop#2: int32 = 3
    let rounds#3: int32 = 0
    for serial i#4: int32 = 0 to stop#2 step 1 {
      set stop#2 = 100
      set rounds#3 = (rounds#3 + 1)
    }
    store out#0[0] = rounds#3
  )");
  EXPECT_EQ(out[0], 3);
}

TEST(Interpreter, ScalarArithmetic) {
  const std::vector<int32_t> out = run(R"(
    store out#0[0] = (2147483647 + 1)
    store out#0[1] = (-7 / 2)
    store out#0[2] = (-7 % 2)
    store out#0[3] = (1 << (32 + n#1))
    store out#0[4] = (-16 >> 2)
    store out#0[5] = cast<int32>(cast<uint8>(300.7))
    store out#0[6] = cast<int32>(cast<int8>(cast<uint8>(200)))
    store out#0[7] = cast<int32>(-1.5)
  )");
  EXPECT_EQ(out, (std::vector<int32_t>{INT32_MIN, -3, -1, 32, -4, 44, -56, -1}));
}

TEST(Interpreter, FunctionsPointersAndAddresses) {
  std::vector<int32_t> out(8, 0);
  const Module module = parsed(R"(
    func f(out#0: global int32*) -> void {
      let x#1: int32 = 5
      let p#2: private int32* = addr(x#1)
      store p#2[0] = (load(p#2, 0) + 1)
      store out#0[0] = x#1
      store out#0[1] = call<int32> twice(call<int32> twice(x#1))
      alloc a#3: private int32* [4]
      eval call<void> fill((a#3 + 1), 7)
      store out#0[2] = load((a#3 + 3), -1)
      let v#4: int32x4 = [1, 2, 3, 4]
      setlane v#4[(x#1 % 4)] = 30
      store out#0[3] = lane(v#4, (x#1 - 4))
      let w#5: private int32x4* = addr(v#4)
      store out#0[4] = lane(load(w#5, 0), 3)
      if ((a#3 + 1) < (a#3 + 2)) { store out#0[5] = 1 }
      alloc lut#6: constant uint8* [3] = x"0a14ff"
      store out#0[6] = cast<int32>(load(lut#6, 2))
    }
    func twice(x#0: int32) -> int32 {
      if (x#0 > 1000) { return 0 }
      return (x#0 * 2)
    }
    func fill(p#0: private int32*, value#1: int32) -> void {
      for serial i#2: int32 = 0 to 3 step 1 { store p#0[i#2] = value#1 }
    }
  )");
  const std::vector<InterpreterArgument> arguments = {memory(out)};
  const Status status = interpret_all(module, 1, arguments);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, (std::vector<int32_t>{6, 24, 7, 30, 4, 1, 255, 0}));
}

TEST(Interpreter, AccessesAreChecked) {
  EXPECT_NE(error_of("store out#0[8] = 1").find("Out of bounds. A write of 4 bytes at byte 32 of 32"),
            std::string::npos);
  EXPECT_NE(error_of("store out#0[-1] = 1").find("Out of bounds"), std::string::npos);
  EXPECT_NE(error_of("eval load(out#0, 4611686018427387904:int64)").find("Out of bounds"), std::string::npos);
  EXPECT_NE(error_of("eval load(out#0, -9223372036854775808:int64)").find("Out of bounds"), std::string::npos);
  EXPECT_NE(error_of("eval S.vload<int32x16>(out#0, 1, .lanes=16)").find("A read of 64 bytes"), std::string::npos);
  EXPECT_NE(error_of("eval S.vload<int32x4>(out#0, 3, .lanes=4)").find("Out of bounds"), std::string::npos);
  EXPECT_NE(error_of("eval S.vload<int32x4>(out#0, (n#1 - 5), .lanes=4)").find("expect >= 1"), std::string::npos);
  EXPECT_NE(error_of("alloc a#2: private int32* [4] store a#2[n#1] = 1").find("Out of bounds"), std::string::npos);
  EXPECT_NE(error_of("let x#2: int32 = 0 store addr(x#2)[1] = 1").find("Out of bounds"), std::string::npos);
  EXPECT_NE(error_of("let v#2: int32x4 = broadcast<4>(0) setlane v#2[n#1] = 1")
                .find("lane 5 of a vector of 4 lanes is written"),
            std::string::npos);
  EXPECT_NE(error_of("eval lane(broadcast<4>(n#1), (n#1 - 6))").find("lane -1 of a vector of 4 lanes is read"),
            std::string::npos);
  EXPECT_NE(error_of("eval (n#1 / (n#1 - 5))").find("integer division by zero"), std::string::npos);
  EXPECT_NE(error_of("for serial i#2: int32 = 0 to 5 step (n#1 - 5) { }").find("step of a loop is not positive"),
            std::string::npos);
  EXPECT_NE(error_of("eval load((type global int32* : S.reinterpret<global int32*>(n#1, .dtype=" +
                     std::to_string(static_cast<int64_t>(DType::kI32) | 1 << 8 | int64_t{1} << 32) + ")), 0)")
                .find("Out of bounds"),
            std::string::npos);
  // Masked lanes are not touched.
  EXPECT_EQ(
      run("store out#0[0] = lane(S.vload<int32x16>(out#0, 1, mask=S.tail_mask<boolx16>(n#1, .lanes=16), .lanes=16), 4)")
          [0],
      -1);
}

TEST(Interpreter, ErrorsNameTheSourceLine) {
  const std::string message = error_of("store out#0[8] = 1  @\"kernel.py\":42:7");
  EXPECT_EQ(message, "f: kernel.py:42: `store out#0[8] = 1`: Out of bounds. A write of 4 bytes at byte 32 of 32");
}

TEST(Interpreter, StepsAreLimited) {
  EXPECT_NE(error_of("while (n#1 == 5) { }", 5, 1000).find("limit of executed statements"), std::string::npos);
  EXPECT_NE(error_of("for serial i#2: int32 = 0 to 2000000000 step 1 { }", 5, 1000).find("limit"), std::string::npos);
}

TEST(Interpreter, ArgumentsAreChecked) {
  std::vector<int32_t> out(8);
  const Module module = parsed("func f(out#0: global int32*, n#1: int32) -> void { }");
  const std::vector<InterpreterArgument> few = {memory(out)}, swapped = {word(1), memory(out)};
  EXPECT_EQ(interpret_all(module, 1, few).message(), "The function \"f\" expect 2 args, but got: \"1\".");
  EXPECT_EQ(interpret_all(module, 1, swapped).message(), "argument 0 of 'f' must be a pointer");
  const std::vector<InterpreterArgument> null = {{nullptr, 0, 0, true}, word(1)};
  EXPECT_TRUE(interpret_all(module, 1, null).ok());
  const Module reads = parsed(
      "func f(out#0: global int32*, n#1: int32) -> void { if !S.is_nullptr<bool>(out#0) { store out#0[0] = 1 } eval "
      "load(out#0, 0) }");
  EXPECT_NE(interpret_all(reads, 1, null).message().find("null pointer"), std::string::npos);
}

TEST(Interpreter, ScalarsOfEveryType) {
  std::vector<double> out(10);
  const Module module = parsed(R"(
    func f(out#0: global float64*, a#1: int8, b#2: uint16, c#3: float32, d#4: float64, e#5: bool, g#6: float16, h#7: uint64) -> void {
      store out#0[0] = cast<float64>(a#1)
      store out#0[1] = cast<float64>(b#2)
      store out#0[2] = cast<float64>(c#3)
      store out#0[3] = d#4
      store out#0[4] = cast<float64>(e#5)
      store out#0[5] = cast<float64>(g#6)
      store out#0[6] = cast<float64>(h#7)
    }
  )");
  const float c = 1.25f;
  const double d = -2.5;
  uint64_t c_word = 0, d_word = 0;
  std::memcpy(&c_word, &c, 4);
  std::memcpy(&d_word, &d, 8);
  const std::vector<InterpreterArgument> arguments = {memory(out),  word(static_cast<uint64_t>(int64_t{-3})),
                                                      word(65535),  word(c_word),
                                                      word(d_word), word(1),
                                                      word(0x3e00), word(UINT64_MAX)};
  ASSERT_TRUE(interpret_all(module, 1, arguments).ok());
  EXPECT_EQ(out, (std::vector<double>{-3, 65535, 1.25, -2.5, 1, 1.5, 18446744073709551616.0, 0, 0, 0}));
}

// Every TEC writes its share of the shared memory, and reads its neighbour's after the barrier.
TEST(Interpreter, TecsMeetAtBarriers) {
  const Module module = parsed(R"(
    func f(out#0: global int32*) -> void {
      alloc s#1: shared int32* [16]
      alloc mine#2: lsram int32* [2]
      let id#3: int32 = S.get_local_id<int32>()
      let count#4: int32 = S.get_local_size<int32>()
      for serial round#5: int32 = 0 to 50 step 1 {
        store mine#2[0] = (id#3 + round#5)
        store s#1[id#3] = load(mine#2, 0)
        eval S.barrier<void>()
        let other#6: int32 = load(s#1, ((id#3 + 1) % count#4))
        eval S.barrier<void>()
        store out#0[id#3] = other#6
      }
      for tec t#7: int32 = 1 to 3 step 1 { store out#0[(t#7 + 8)] = t#7 }
    }
  )");
  std::vector<int32_t> out(16, -1);
  const std::vector<InterpreterArgument> arguments = {memory(out)};
  const auto program = compile_for_interpreter(module);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_TRUE(interpreter_needs(**program).uses_barrier);
  EXPECT_EQ(interpreter_needs(**program).shared_bytes, 64);
  EXPECT_EQ(interpreter_needs(**program).lsram_bytes, 8);
  for (int round = 0; round < 5; ++round) {
    std::fill(out.begin(), out.end(), -1);
    const Status status = interpret_all(**program, 4, arguments);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(std::vector<int32_t>(out.begin(), out.begin() + 4), (std::vector<int32_t>{50, 51, 52, 49}));
    EXPECT_EQ(std::vector<int32_t>(out.begin() + 8, out.begin() + 12), (std::vector<int32_t>{-1, 1, 2, -1}));
  }
}

// A TEC that fails or returns early does not leave the others waiting.
TEST(Interpreter, FailuresDoNotDeadlock) {
  std::vector<int32_t> out(4, -1);
  const std::vector<InterpreterArgument> arguments = {memory(out)};
  const Module fails = parsed(R"(
    func f(out#0: global int32*) -> void {
      let id#1: int32 = S.get_local_id<int32>()
      if (id#1 == 2) { store out#0[100] = 1 }
      eval S.barrier<void>()
      store out#0[id#1] = 7
    }
  )");
  const Status failed = interpret_all(fails, 4, arguments);
  EXPECT_NE(failed.message().find("Out of bounds"), std::string::npos);
  std::fill(out.begin(), out.end(), -1);
  const Module leaves = parsed(R"(
    func f(out#0: global int32*) -> void {
      let id#1: int32 = S.get_local_id<int32>()
      if (id#1 == 1) { return }
      eval S.barrier<void>()
      store out#0[id#1] = 8
    }
  )");
  EXPECT_TRUE(interpret_all(leaves, 4, arguments).ok());
  EXPECT_EQ(out, (std::vector<int32_t>{8, -1, 8, 8}));
}

TEST(Interpreter, NeedsItsMemories) {
  std::vector<int32_t> out(4);
  const std::vector<InterpreterArgument> arguments = {memory(out)};
  const Module module = parsed("func f(out#0: global int32*) -> void { alloc a#1: lsram int32* [4] store a#1[0] = 1 }");
  aipu_tec_context context{};
  context.tec_count = 1;
  EXPECT_NE(interpret(module, context, arguments).message().find("needs 16 bytes of lsram, there are 0"),
            std::string::npos);
}

std::string* printed = nullptr;

TEST(Interpreter, Prints) {
  const Module module = parsed(
      "func f() -> void {\n"
      "  eval S.printf<int32>(\"%d %u %o %x %X|%f %c %% %s\\n\", -1, -1, 0, 255, 255, 1.9999998, 65, \"text\")\n"
      "  eval S.printf<int32>(\"%v8hlx %v8hlf\", [1, 2, 3, 4, 5, 6, 7, -1], broadcast<8>(0.5))\n"
      "}\n");
  std::string text;
  printed = &text;
  aipu_tec_context context{};
  context.tec_count = 1;
  context.print = [](const aipu_tec_context*, const char* piece, unsigned long size) { printed->append(piece, size); };
  const Status status = interpret(module, context, {});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(
      text,
      "-1 4294967295 00 0xff 0xFF|1.999999 A % text\n"
      "0x1,0x2,0x3,0x4,0x5,0x6,0x7,0xffffffff 0.500000,0.500000,0.500000,0.500000,0.500000,0.500000,0.500000,0.500000");
}

TEST(Interpreter, ReportsTheFirstFault) {
  const Module module = parsed(R"(func f(x#0: int64) -> void {
  eval S.report_fault<void>(2, x#0, 10:int64)
  eval S.report_fault<void>(3, 1:int64, 1:int64)
})");
  aipu_fault_record fault = {};
  const std::vector<InterpreterArgument> arguments = {{.word = static_cast<uint64_t>(INT64_MIN)}};
  const Status status = interpret_all(module, 2, arguments, {.fault = &fault});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(fault.code, 3);
  EXPECT_EQ(fault.value, INT64_MIN);
  EXPECT_EQ(fault.limit, 10);
  EXPECT_TRUE(interpret_all(module, 1, arguments).ok()) << "nobody wants to know";
}

TEST(Interpreter, Events) {
  EXPECT_NE(error_of(R"(
    for serial i#2: int32 = 0 to 5 step 1 { eval S.alloc_event<int32>() }
  )")
                .find("allocate 1"),
            std::string::npos);
  EXPECT_NE(error_of(R"(
    let e#2: int32 = S.alloc_event<int32>()
    eval S.free_events<void>(e#2)
    eval S.wait_events<void>(e#2)
  )")
                .find("The released event can not be used anymore."),
            std::string::npos);
  EXPECT_EQ(run(R"(
    let e#2: int32 = S.alloc_event<int32>()
    alloc b#3: lsram int32* [4]
    store out#0[1] = 17
    eval S.async_dma_copy<void>(b#3, out#0, 4, 4, 1, 4, e#2)
    eval S.wait_events<void>(e#2)
    eval S.free_events<void>(e#2)
    eval S.dma_copy<void>((out#0 + 4), b#3, 2, 2, 2, 2)
  )"),
            (std::vector<int32_t>{-1, 17, -1, -1, -1, 17, -1, -1}));
}

}  // namespace
}  // namespace aipu::tir::testing
