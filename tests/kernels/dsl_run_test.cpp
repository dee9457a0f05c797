// Programs compiled and run by the interpreter, against results worked out in C++.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "codegen/tir/interpreter.h"
#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

// The arguments of one run: arrays are passed by reference and hold the results afterwards.
class Arguments {
 public:
  template <typename T>
  Arguments& array(std::vector<T>& v) {
    tir::InterpreterArgument a;
    a.data = reinterpret_cast<std::byte*>(v.data());
    a.bytes = v.size() * sizeof(T);
    a.is_pointer = true;
    list_.push_back(a);
    return *this;
  }
  Arguments& integer(int64_t v) {
    tir::InterpreterArgument a;
    a.word = static_cast<uint64_t>(v);
    list_.push_back(a);
    return *this;
  }
  Arguments& real(float v) {
    tir::InterpreterArgument a;
    uint32_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    a.word = bits;
    list_.push_back(a);
    return *this;
  }
  std::span<const tir::InterpreterArgument> list() const { return list_; }

 private:
  std::vector<tir::InterpreterArgument> list_;
};

void run(const std::string& source, const Arguments& arguments, int tecs = 4, const dsl::TemplateParams& params = {}) {
  const auto module = dsl_test::compile(source, "f", params);
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Status verified = tir::verify(*module);
  ASSERT_TRUE(verified.ok()) << verified.message() << tir::print_module(*module);
  const Status status = tir::interpret_all(*module, tecs, arguments.list());
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(DslRun, BiasedReluOfTheReference) {
  // The complete example of the language reference, section 12.
  const std::string source = R"(
@S.prim_func
def f(x: S.ptr("fp32", "global"), bias: S.fp32, y: S.ptr("fp32", "global"), n: S.i32):
    tid, tec_num = S.get_local_id(), S.get_local_size()
    stage = S.alloc_buffer((512,), "fp32", scope="lsram")
    share = S.ceildiv(n, tec_num)
    begin = S.min(tid * share, n)
    count = S.min(share, n - begin)
    done = 0
    while done < count:
        step = S.min(512, count - done)
        S.dma_copy(stage.addr_of(0), x + (begin + done), step)
        for k in range(S.ceildiv(step, 8)):
            lane_mask = S.tail_mask(S.min(8, step - k * 8), 8)
            v = S.vload(stage.addr_of(k * 8), mask=lane_mask) + bias
            S.vstore(S.max(v, 0), y + (begin + done + k * 8), mask=lane_mask)
        done += step
)";
  for (const int n : {1, 7, 1000, 2500}) {
    std::vector<float> x(static_cast<size_t>(n)), y(static_cast<size_t>(n), -5.0F);
    for (int i = 0; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 37) / 9 - 2;
    run(source, Arguments().array(x).real(0.25F).array(y).integer(n));
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], std::max(x[i] + 0.25F, 0.0F)) << n << " " << i;
  }
}

TEST(DslRun, ScalarControlFlow) {
  std::vector<int32_t> out(8, -1);
  run(R"(
@S.prim_func
def collatz(start: S.i32) -> S.i32:
    steps = 0
    v = start
    while v != 1:
        if v % 2 == 0:
            v = v // 2
        else:
            v = 3 * v + 1
        steps += 1
        if steps > 1000:
            return -1
    return steps

@S.prim_func
def f(o: S.ptr("i32", "global"), n: S.i32):
    total = 0
    for i in range(n):
        if i == 5:
            break
        total += i if i != 2 else 100
    o[0] = total
    o[1] = collatz(27)
    o[2] = (n - 20) // 3
    o[3] = (n - 20) % 3
    a, b = 1, 2
    a, b = b, a + b
    o[4], o[5] = a, b
    for i, j in S.grid(3, 4):
        o[6] = i * 10 + j
    o[7] = 1 if n < 0 or (n > 5 and not (n == 9)) else 0
)",
      Arguments().array(out).integer(10), 1);
  EXPECT_EQ(out, (std::vector<int32_t>{0 + 1 + 100 + 3 + 4, 111, -3, -1, 2, 3, 23, 1}));
}

TEST(DslRun, TecRangeAndLocalIds) {
  std::vector<int32_t> out(8, -1), ids(4, -1);
  run(R"(
@S.prim_func
def f(o: S.ptr("i32", "global"), ids: S.ptr("i32", "global")):
    for t in S.tec_range(1, 3):
        o[t] = t * 10
    ids[S.get_local_id()] = S.get_local_size()
)",
      Arguments().array(out).array(ids));
  EXPECT_EQ(out, (std::vector<int32_t>{-1, 10, 20, -1, -1, -1, -1, -1}));
  EXPECT_EQ(ids, (std::vector<int32_t>(4, 4)));
}

TEST(DslRun, SlicesMasksAndVirtualPointers) {
  std::vector<int32_t> in(64), out(64, -1);
  std::iota(in.begin(), in.end(), 0);
  run(R"(
@S.prim_func
def f(a: S.ptr("i32", "global"), o: S.ptr("i32", "global"), n: S.i32):
    o[0:8] = a[n * 8 : n * 8 + 8]
    o[8:12] = a[0:16:4]
    q = a.as_ptr("i32x5")
    p = (o + 16).as_ptr("i32x5")
    p[1] = q[2]
    S.vstore(S.vload(a, "F3T", lanes=4), o + 32)
    S.vstore(S.i32x8(7), o + 40, mask=[True, False, True])
    m = S.tail_mask(n, 8)
    S.vstore(S.vsel(S.i32x8(1), S.i32x8(2), m), o + 48)
    v = a[0:8]
    v[n] = -9
    o[56] = v[2] + v[1]
    b = S.alloc_buffer((2, 3), "i32")
    for i, j in S.grid(2, 3):
        b[i, j] = i * 3 + j
    view = S.match_buffer(b.addr_of(0), (3, 2))
    o[57] = view[2, 1] * 10 + b[1, 0]
    o[58:60] = 5
)",
      Arguments().array(in).array(out).integer(2), 1);
  std::vector<int32_t> expected(64, -1);
  for (size_t i = 0; i < 8; ++i) expected[i] = static_cast<int32_t>(16 + i);
  for (size_t i = 0; i < 4; ++i) expected[8 + i] = static_cast<int32_t>(4 * i);
  for (size_t i = 0; i < 5; ++i) expected[21 + i] = static_cast<int32_t>(10 + i);
  const int32_t masked[] = {0, 1, 2, 3};
  std::copy(std::begin(masked), std::end(masked), expected.begin() + 32);
  expected[40] = expected[42] = 7;
  for (size_t i = 0; i < 8; ++i) expected[48 + i] = i < 2 ? 1 : 2;
  expected[56] = -9 + 1;
  expected[57] = 53;
  expected[58] = expected[59] = 5;
  EXPECT_EQ(out, expected);
}

TEST(DslRun, TypesWrapAndConvert) {
  std::vector<int32_t> out(12, -1);
  run(R"(
@S.prim_func
def f(o: S.ptr("i32", "global"), i8: S.i8, u8: S.u8, x: S.fp32):
    o[0] = i8 + 100
    o[1] = i8 + 200
    o[2] = i8 + u8
    o[3] = S.i8(x)
    o[4] = S.u8(-1.5)
    o[5] = S.i32(S.fp16(2049.0))
    o[6] = i8 >> 1
    o[7] = u8 << 1
    o[8] = -7 // 2
    o[9] = S.i32(S.i64(i8) * 1000000000000 // 1000000000)
    o[10] = x
    o[11] = 3.99
)",
      Arguments().array(out).integer(100).integer(200).real(300.7F), 1);
  EXPECT_EQ(out, (std::vector<int32_t>{-56, 300, 44, 44, 255, 2048, 50, 144, -4, 100000, 300, 3}));
}

TEST(DslRun, InlinedFunctionsKeepTheOrderOfEffects) {
  std::vector<int32_t> out = {1, 2, 3, 4};
  run(R"(
def bump(p, by):
    p[0] = p[0] + by
    return p[0]

@S.prim_func
def f(o: S.ptr("i32", "global")):
    o[1] = o[0] * 100 + bump(o, 5) * 10 + o[0]
    o[2], o[3] = o[3], bump(o, 1)
)",
      Arguments().array(out), 1);
  EXPECT_EQ(out, (std::vector<int32_t>{7, 100 + 60 + 6, 4, 7}));
}

TEST(DslRun, InlinedFunctionsInConditionsRunOnlyWhenTheyMust) {
  // Each call of visit() leaves a mark; the array ends before what the untaken sides would read.
  std::vector<int32_t> marks(8, 0), out(6, -1);
  run(R"(
def visit(marks, i, value):
    marks[i] = marks[i] + 1
    return value

@S.prim_func
def f(marks: S.ptr("i32", "global"), o: S.ptr("i32", "global"), n: S.i32):
    if n > 100 and visit(marks, n + 95, n) > 0:
        o[0] = 1
    if n > 1 or visit(marks, n + 95, n) > 0:
        o[0] = 2
    if n > 1 and visit(marks, n - 5, n) > 0:
        o[1] = 3
    o[2] = visit(marks, n - 4, 7) if n > 1 else visit(marks, n + 95, 8)
    k = 0
    while visit(marks, k, k) < 4:
        k += 1
    o[3] = k
    o[4] = 1 if not (n > 1 and visit(marks, 7, n) > 5) else 0
)",
      Arguments().array(marks).array(out).integer(5), 1);
  EXPECT_EQ(out, (std::vector<int32_t>{2, 3, 7, 4, 1, -1}));
  EXPECT_EQ(marks, (std::vector<int32_t>{2, 2, 1, 1, 1, 0, 0, 1}));
}

TEST(DslRun, UnrolledTileWithPrivateVectors) {
  constexpr int kRows = 3, kDepth = 5;
  std::vector<float> a(kRows * kDepth), b(kDepth * 16), out(kRows * 16, -1);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i) - 4;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) / 2;
  dsl::TemplateParams params;
  params.set("ROWS", int64_t{kRows})
      .set("VL", int64_t{8})
      .set_source("finish", "def finish(v, x):\n    t = v + x[0]\n    return S.max(t, S.cast(0, f\"fp32x{VL}\"))\n");
  run(R"(
def tile(height, a, b, o, depth):
    acc = S.alloc_buffer((height, 2), f"fp32x{VL}")
    for i in S.unroll(height):
        for v in S.unroll(2):
            acc[i, v] = S.cast(0, f"fp32x{VL}")
    for k in range(depth):
        columns = [S.vload(b + k * (2 * VL) + v * VL, lanes=VL) for v in range(2)]
        for i in S.unroll(height):
            for v in S.unroll(2):
                acc[i, v] = acc[i, v] + columns[v] * a[i * depth + k]
    for i in S.unroll(height):
        for v in S.unroll(2):
            S.vstore(finish(acc[i, v], [S.vbcast(S.fp32(1), lanes=VL)]), o + i * (2 * VL) + v * VL)

@S.prim_func
def f(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), o: S.ptr("fp32", "global"), depth: S.i32):
    tile(ROWS, a, b, o, depth)
)",
      Arguments().array(a).array(b).array(out).integer(kDepth), 1, params);
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < 16; ++j) {
      float sum = 0;
      for (size_t k = 0; k < kDepth; ++k) sum += a[i * kDepth + k] * b[k * 16 + j];
      EXPECT_EQ(out[i * 16 + j], std::max(sum + 1, 0.0F)) << i << " " << j;
    }
  }
}

TEST(DslRun, LambdasAndLocalFunctions) {
  std::vector<int32_t> out(8, -1);
  run(R"(
twice = lambda v, by=2: v * by
table = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b}

def scaled(k):
    factor = k + 1
    def apply(v):
        return v * factor
    return apply

def fold(call, items):
    total = items[0]
    for item in items[1:]:
        total = call(total, item)
    return total

def largest(values):
    return fold(lambda a, b: S.max(a, b), values)

def shifted(v):
    return fold(lambda a, b: a * 10 + b + v, [v, v + 1])

@S.prim_func
def f(o: S.ptr("i32", "global"), n: S.i32):
    o[0] = twice(n)
    o[1] = twice(n, by=n)
    o[2] = table["add"](n, 1) * table["sub"](n, 1)
    triple = scaled(2)
    o[3] = triple(n)
    o[4] = largest([n, 3, n * 2])
    o[5] = shifted(n)
    S.vstore(twice(S.i32x8(n)), o, mask="6F2T")
    o[7] = o[7] + int("int32"[3:]) + int(float("1.5") * 2)
)",
      Arguments().array(out).integer(5), 1);
  EXPECT_EQ(out, (std::vector<int32_t>{10, 25, 24, 15, 10, 5 * 10 + 6 + 5, 10, 10 + 32 + 3}));
}

TEST(DslRun, ConstantsAndTables) {
  std::vector<float> out(4);
  run(R"(
table = [[0.5, 1.5], [2.5, 3.5]]
@S.prim_func
def f(o: S.ptr("fp32", "global")):
    t = S.alloc_const((2, 2), "float32", table)
    for i, j in S.grid(2, 2):
        o[i * 2 + j] = t[j, i]
)",
      Arguments().array(out), 1);
  EXPECT_EQ(out, (std::vector<float>{0.5F, 2.5F, 1.5F, 3.5F}));
}

TEST(DslRun, BarriersAndSharedMemory) {
  std::vector<int32_t> out(4, -1);
  run(R"(
@S.prim_func
def f(o: S.ptr("i32", "global")):
    board = S.alloc_buffer((4,), "i32", scope="shared")
    t = S.get_local_id()
    board[t] = (t + 1) * 11
    S.barrier()
    o[t] = board[3 - t]
)",
      Arguments().array(out));
  EXPECT_EQ(out, (std::vector<int32_t>{44, 33, 22, 11}));
}

// The interpreter starts asynchronous copies as late as it may, so each wait below matters.
TEST(DslRun, AsynchronousCopiesAreDoneWhenTheyMustBe) {
  std::vector<int32_t> in(32), out(64, -1);
  std::iota(in.begin(), in.end(), 1);
  run(R"(
@S.prim_func
def f(a: S.ptr("i32", "global"), o: S.ptr("i32", "global")):
    t = S.alloc((16,), "i32", scope="lsram")
    u = S.alloc((16,), "i32", scope="lsram")
    e, g = S.alloc_events(2)
    for i in range(16):
        t[i] = 0
        u[i] = 0
    S.async_dma_copy(t, a, 8, event=e)
    S.async_dma_copy(u, a + 8, 8, event=g)
    o[0] = t[0]
    S.wait_events(e)
    o[1] = t[0]
    o[2] = u[0]
    S.free_events(g)
    o[3] = u[0]
    S.async_dma_copy(t + 8, a, 2, src_stride=4, times=3, dst_stride=2, event=e)
    S.async_dma_copy(o + 8, t + 8, 6, event=e)
    S.barrier()
    o[4] = o[8]
    S.async_dma_copy(o + 16, t + 8, 6, event=e)
)",
      Arguments().array(in).array(out), 1);
  EXPECT_EQ(std::vector<int32_t>(out.begin(), out.begin() + 5), (std::vector<int32_t>{0, 1, 0, 9, 1}));
  const std::vector<int32_t> strided = {1, 2, 5, 6, 9, 10};
  EXPECT_EQ(std::vector<int32_t>(out.begin() + 8, out.begin() + 14), strided);
  EXPECT_EQ(std::vector<int32_t>(out.begin() + 16, out.begin() + 22), strided);  // the end of the kernel waits
}

Status run_status(const std::string& source, const Arguments& arguments, int tecs) {
  const auto module = dsl_test::compile(source);
  return module.ok() ? tir::interpret_all(*module, tecs, arguments.list()) : module.status();
}

TEST(DslRun, EventsAreUsedUpAndGivenBack) {
  std::vector<int32_t> out(8, -1);
  const std::string head =
      "@S.prim_func\ndef f(o: S.ptr(\"i32\", \"global\")):\n    t = S.alloc((8,), \"i32\", scope=\"lsram\")\n";
  EXPECT_NE(
      run_status(head + "    a, b, c, d = S.alloc_events(4)\n    e = S.alloc_events(1)\n", Arguments().array(out), 1)
          .message()
          .find("Only remain 0 events, but allocate 1."),
      std::string::npos);
  EXPECT_NE(run_status(head + "    a = S.alloc_events(1)\n    S.free_events(a)\n    S.wait_events(a)\n",
                       Arguments().array(out), 1)
                .message()
                .find("The released event can not be used anymore."),
            std::string::npos);
  EXPECT_NE(
      run_status(head + "    a = S.alloc_events(1)\n    S.free_events(a)\n    S.async_dma_copy(t, o, 2, event=a)\n",
                 Arguments().array(out), 1)
          .message()
          .find("The arg \"event\" is a released event, can not be used anymore."),
      std::string::npos);
  EXPECT_TRUE(run_status(head + "    for i in range(9):\n        a = S.alloc_events(1)\n        S.free_events(a)\n",
                         Arguments().array(out), 4)
                  .ok());
}

TEST(DslRun, BarriersDoNotWaitForTecsThatAreDone) {
  std::vector<int32_t> out(4, -1);
  run(R"(
@S.prim_func
def f(o: S.ptr("i32", "global")):
    board = S.alloc_buffer((4,), "i32", scope="shared")
    t = S.get_local_id()
    board[t] = t
    if t == 2:
        return
    S.barrier()
    S.perf_tick_begin(0)
    S.flush_cache()
    o[t] = board[2] + 10 * t
    S.flush_cache(invalidate=False)
    S.perf_tick_end(0)
    S.barrier()
)",
      Arguments().array(out));
  EXPECT_EQ(out, (std::vector<int32_t>{2, 12, -1, 32}));
}

}  // namespace
}  // namespace aipu
