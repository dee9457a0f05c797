// The memory model of the targets, with kernels in operators of `.py` files: TECs that run at the same time, local and
// shared memory, barriers, asynchronous copies, output; natively and interpreted.
#include "tests/models/script_plugin_fixture.h"

namespace aipu::models {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MemoryModel : public ScriptPlugin {};

// Four TECs with memories of their own, barriers, shared memory and asynchronous copies: the maximum of everything.
TEST_F(MemoryModel, TecsShareTheirWork) {
  write_plugin(R"(
@op.register("test::Maximum", inputs={"x": op.tensor("float32", "...n")}, outputs={"y": op.tensor("float32", 1)})
@S.prim_func
def maximum(x: S.ptr("float32", "global"), y: S.ptr("float32", "global"), n: S.i32):
    tid, tecs = S.get_local_id(), S.get_local_size()
    board = S.alloc_buffer((64,), "float32", scope="shared")
    first = S.alloc((512,), "float32", scope="lsram")
    second = S.alloc((512,), "float32", scope="lsram")
    a, b = S.alloc_events(2)
    chunks = S.ceildiv(n, 512)
    best = S.fp32("-inf")
    if tid < chunks:
        S.async_dma_copy(first, x + tid * 512, S.min(512, n - tid * 512), event=a)
    use_first = True == (tid >= 0)
    for chunk in range(tid, chunks, tecs):
        following = chunk + tecs
        if use_first:
            if following < chunks:
                S.async_dma_copy(second, x + following * 512, S.min(512, n - following * 512), event=b)
            S.wait_events(a)
            for i in range(S.min(512, n - chunk * 512)):
                best = S.max(best, first[i])
        else:
            if following < chunks:
                S.async_dma_copy(first, x + following * 512, S.min(512, n - following * 512), event=a)
            S.wait_events(b)
            for i in range(S.min(512, n - chunk * 512)):
                best = S.max(best, second[i])
        use_first = not use_first
    board[tid] = best
    S.free_events(a, b)
    S.barrier()
    if tid == 0:
        for t in range(1, tecs):
            best = S.max(best, board[t])
        y[0] = best
)");
  one_node("Maximum", {{"x", DType::kF32, {"N", 100}}}, {{"y", DType::kF32, {1}}});
  for (const std::string target : kPluginTargets) {
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), 0) << log();
    for (const int64_t rows : {1, 10, 77}) {
      for (const int64_t where : {int64_t{0}, rows * 61, rows * 100 - 1}) {
        std::vector<float> x = waves(rows * 100);
        x[static_cast<size_t>(where)] = 50;
        write_f32("x.npy", {rows, 100}, x);
        write_f32("y.npy", {1}, {50});
        for (const std::string backend : {"", " --backend interp"}) {
          EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                        " --expect y=" + file("y.npy") + backend),
                    0)
              << target << backend << "\n"
              << log();
        }
      }
    }
  }
}

// The four TECs of X2_1204 run at the same time and each prints; one that returns early is not waited for.
TEST_F(MemoryModel, FourTecsRunAtTheSameTime) {
  write_plugin(R"(
@op.register("test::Meet", inputs={"x": op.tensor("int32", 1)}, outputs={"y": op.tensor("int32", 4)})
@S.prim_func
def meet(x: S.ptr("int32", "global"), y: S.ptr("int32", "global")):
    tid = S.get_local_id()
    board = S.alloc_buffer((4,), "int32", scope="shared")
    mine = S.alloc_buffer((4096,), "int32", scope="lsram")
    S.perf_tick_begin(0)
    S.printf("tec %d of %d, %f, %s\n", tid, S.get_local_size(), 0.125, "here")
    for i in range(4096):
        mine[i] = tid + x[0]
    board[tid] = mine[tid * 1000]
    S.flush_cache()
    S.barrier()
    # Each takes what its neighbour has put down, then what that one has made of it.
    value = board[(tid + 1) % 4]
    S.barrier()
    board[tid] = value * 10
    S.barrier()
    y[tid] = board[(tid + 1) % 4] + mine[4095]
    S.perf_tick_end(0)
    if tid == 1:
        return
    S.barrier()
    S.barrier()
)");
  one_node("Meet", {{"x", DType::kI32, {1}}}, {{"y", DType::kI32, {4}}});
  write_i32("x.npy", {1}, {7});
  write_i32("y.npy", {4}, {90 + 7, 100 + 8, 70 + 9, 80 + 10});
  ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target X2_1204 --plugin " + file("plugin.py")), 0) << log();
  for (const std::string backend : {"", " --backend interp"}) {
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(run("timeout 60 " + tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                    " --expect y=" + file("y.npy") + backend),
                0)
          << backend << "\n"
          << log();
      for (int t = 0; t < 4; ++t)
        EXPECT_THAT(log(), HasSubstr("tec " + std::to_string(t) + " of 4, 0.125000, here\n")) << backend;
    }
  }
}

// The host has as many TECs as threads; those that return early are not waited for either.
TEST_F(MemoryModel, TecsThatReturnEarlyAreNotWaitedForOnTheHost) {
  write_plugin(R"(
@op.register("test::Early", inputs={"x": op.tensor("int32", 1)}, outputs={"y": op.tensor("int32", 16)})
@S.prim_func
def early(x: S.ptr("int32", "global"), y: S.ptr("int32", "global")):
    tid = S.get_local_id()
    board = S.alloc_buffer((16,), "int32", scope="shared")
    board[tid] = x[0] + tid
    S.barrier()
    if tid == 0:
        for i in range(16):
            other = i % S.get_local_size()
            y[i] = board[other] - other
    if tid % 2 == 1:
        return
    for i in range(100):
        S.barrier()
)");
  one_node("Early", {{"x", DType::kI32, {1}}}, {{"y", DType::kI32, {16}}});
  write_i32("x.npy", {1}, {7});
  ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target host --plugin " + file("plugin.py")), 0) << log();
  for (const int threads : {1, 2, 4}) {
    write_i32("y.npy", {16}, std::vector<int32_t>(16, 7));
    EXPECT_EQ(run("timeout 60 " + tool("aipurun") + " " + file("one.aipu.bin") + " --threads " +
                  std::to_string(threads) + " --input x=" + file("x.npy") + " --expect y=" + file("y.npy")),
              0)
        << log();
  }
}

// Local and shared memory are bounded; the error has the numbers.
TEST_F(MemoryModel, MemoriesAreBounded) {
  const auto plugin = [&](int64_t lsram, int64_t shared) {
    write_plugin(
        "@op.register(\"test::Fill\", inputs={\"x\": op.tensor(\"int32\", 1)}, outputs={\"y\": op.tensor(\"int32\", "
        "1)})\n@S.prim_func\n"
        "def fill(x: S.ptr(\"int32\", \"global\"), y: S.ptr(\"int32\", \"global\")):\n    a = S.alloc_buffer((" +
        std::to_string(lsram) + ",), \"int8\", scope=\"lsram\")\n    b = S.alloc_buffer((" + std::to_string(shared) +
        ",), \"int8\", scope=\"shared\")\n    a[" + std::to_string(lsram - 1) + "] = 3\n    b[" +
        std::to_string(shared - 1) + "] = 4\n    S.barrier()\n    y[0] = x[0] + a[" + std::to_string(lsram - 1) +
        "] + b[" + std::to_string(shared - 1) + "]\n");
  };
  one_node("Fill", {{"x", DType::kI32, {1}}}, {{"y", DType::kI32, {1}}});
  write_i32("x.npy", {1}, {10});
  write_i32("y.npy", {1}, {17});
  const std::string options = "--target X2_1204 --plugin " + file("plugin.py");
  plugin(32 << 10, 256 << 10);
  ASSERT_EQ(convert("one.onnx", "one.aipu.bin", options), 0) << log();
  EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                " --expect y=" + file("y.npy")),
            0)
      << log();
  plugin((32 << 10) + 1, 16);
  EXPECT_EQ(convert("one.onnx", "two.aipu.bin", options), 1);
  EXPECT_THAT(log(), HasSubstr("needs 32769 bytes of lsram per TEC, the target \"X2_1204\" has 32768"));
  plugin(16, (256 << 10) + 1);
  EXPECT_EQ(convert("one.onnx", "two.aipu.bin", options), 1);
  EXPECT_THAT(log(), HasSubstr("needs 262145 bytes of shared memory, the target \"X2_1204\" has 262144"));
  EXPECT_FALSE(fs::exists(file("two.aipu.bin")));
}

}  // namespace
}  // namespace aipu::models
