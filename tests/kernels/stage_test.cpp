// S.stage: kernels written without DMA get it by asking. What they compute, when tiles are used, what they take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <span>

#include "codegen/lower/lower.h"
#include "codegen/timing/count_by_shapes.h"
#include "codegen/timing/timing_model.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "kernels/plugin.h"

namespace aipu::kernels {
namespace {

const char* const kKernels = R"(from aipu import script as S

def add_elements(count, a, b, y):
    for i in range(0, count, 8):
        mask = S.tail_mask(S.min(count - i, 8), 8)
        S.vstore(S.vload(a + i, mask=mask) + S.vload(b + i, mask=mask), y + i, mask=mask)

@S.prim_func
def add(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    S.stage(add_elements, n, reads=[a, b], writes=[y])

@S.prim_func
def add_by_hand(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    ta, tb, ty = [S.alloc((2048,), "fp32", scope="lsram") for _ in range(3)]
    come_even, come_odd, leave_even, leave_odd = S.alloc_events(4)
    tiles = n // S.get_local_size() // 1024
    first = S.get_local_id() * tiles * 1024
    for step in range(tiles + 1):
        if step < tiles:
            S.async_dma_copy(ta + step % 2 * 1024, a + (first + step * 1024), 1024,
                             event=come_odd if step % 2 == 1 else come_even)
            S.async_dma_copy(tb + step % 2 * 1024, b + (first + step * 1024), 1024,
                             event=come_odd if step % 2 == 1 else come_even)
        if step > 0:
            t = step - 1
            S.wait_events(come_odd if t % 2 == 1 else come_even)
            if t >= 2:
                S.wait_events(leave_odd if t % 2 == 1 else leave_even)
            add_elements(1024, ta + t % 2 * 1024, tb + t % 2 * 1024, ty + t % 2 * 1024)
            S.async_dma_copy(y + (first + t * 1024), ty + t % 2 * 1024, 1024,
                             event=leave_odd if t % 2 == 1 else leave_even)
    S.free_events(come_even, come_odd, leave_even, leave_odd)

# y[row, j] = x[row, j] * w[j] + bias * (row + the next row's first element)
def scale_rows(rows, x, w, y, width, bias):
    for row in range(rows):
        for j in range(width):
            y[row * width + j] = x[row * width + j] * w[j] + bias * x[(row + 1) * width]

@S.prim_func
def scale(x: S.ptr("fp32", "global"), w: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), rows: S.i32,
          width: S.i32):
    S.stage(scale_rows, rows, reads=[(x, width + 1, width)], shared=[(w, width)], writes=[(y, width)],
            values=[width, 0.5], local_bytes=16384)

@S.prim_func
def twice(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    S.stage(add_elements, n, reads=[a, b], writes=[y], local_bytes=16384)
    S.barrier()
    S.stage(add_elements, n, reads=[y, b], writes=[y], local_bytes=16384)

@S.prim_func
def of_a_kernel(a: S.ptr("fp32", "global"), n: S.i32):
    S.stage(add, n, reads=[a])

@S.prim_func
def of_a_number(a: S.ptr("fp32", "global"), n: S.i32):
    S.stage(add_elements, n, reads=[n])

@S.prim_func
def of_local_memory(a: S.ptr("fp32", "global"), n: S.i32):
    S.stage(add_elements, n, reads=[(S.alloc((8,), "fp32", scope="lsram"), 8)])
)";

class StageTest : public ::testing::Test {
 protected:
  void SetUp() override { library_.add_source("user.py", kKernels); }

  Result<tir::Module> lowered(const char* entry, const char* target = "X2_1204") {
    dsl::TemplateParams params;
    params.set("__compass_target__", target);
    AIPU_ASSIGN_OR_RETURN(const auto module, library_.instantiate("user.py", entry, params, entry));
    AIPU_ASSIGN_OR_RETURN(const tir::Target row, tir::find_target(target));
    return tir::lower(*module, row);
  }

  // Runs the kernel with these tensors and numbers on 4 TECs.
  tir::CycleEstimate run(const char* entry, std::vector<std::vector<float>*> tensors, std::vector<int> numbers) {
    const auto module = lowered(entry);
    EXPECT_TRUE(module.ok()) << module.status().message();
    if (!module.ok()) return {};
    const auto counting = tir::instrument(*module);
    EXPECT_TRUE(counting.ok()) << counting.status().message();
    std::vector<int64_t> counters(static_cast<size_t>(4 * counting->counter_count));
    std::vector<tir::InterpreterArgument> arguments;
    const auto add = [&](void* data, size_t bytes) {
      arguments.push_back({.data = static_cast<std::byte*>(data), .bytes = bytes, .is_pointer = true});
    };
    for (std::vector<float>* v : tensors) add(v->data(), v->size() * sizeof(float));
    for (const int number : numbers) arguments.push_back({.word = static_cast<uint64_t>(number)});
    add(counters.data(), counters.size() * sizeof(int64_t));
    const Status status = tir::interpret_all(counting->module, 4, arguments);
    EXPECT_TRUE(status.ok()) << entry << ": " << status.message();
    const tir::CycleEstimate exact = tir::estimate(*counting, counters);
    std::vector<std::optional<int64_t>> known(tensors.size());
    known.insert(known.end(), numbers.begin(), numbers.end());
    const auto by_shapes = tir::count_by_shapes(*counting, 4, known);
    EXPECT_TRUE(by_shapes.ok()) << entry << ": " << by_shapes.status().message();
    if (by_shapes.ok()) {
      EXPECT_NEAR(tir::estimate(*counting, *by_shapes).cycles, exact.cycles, 0.1 * exact.cycles);
    }
    return exact;
  }

  TemplateLibrary library_;
};

std::vector<float> numbers(size_t size, int step) {
  std::vector<float> result(size);
  for (size_t i = 0; i < size; ++i) result[i] = static_cast<float>(static_cast<int>(i) * step % 97) / 8;
  return result;
}

int64_t moved(const tir::CycleEstimate& estimate) {
  int64_t bytes = 0;
  for (const auto& tec : estimate.tecs) bytes += tec.dma_bytes;
  return bytes;
}

TEST_F(StageTest, AddsWhatThereIs) {
  for (const size_t n : {1, 3, 100, 1000, 3072, 4096, 4099, 20000, 65536}) {
    std::vector<float> a = numbers(n, 1), b = numbers(n, 5), y(n, -1);
    const tir::CycleEstimate estimate = run("add", {&a, &b, &y}, {static_cast<int>(n)});
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], a[i] + b[i]) << i << " of " << n;
    // Few elements are read where they are; of many each is moved once.
    EXPECT_EQ(moved(estimate), n < 3072 ? 0 : static_cast<int64_t>(n) * 12) << n;
  }
}

TEST_F(StageTest, TakesHardlyMoreThanByHand) {
  constexpr int kElements = 1 << 16;
  std::vector<float> a = numbers(kElements, 1), b = numbers(kElements, 5), y(kElements, -1);
  const double asked = run("add", {&a, &b, &y}, {kElements}).cycles;
  const double by_hand = run("add_by_hand", {&a, &b, &y}, {kElements}).cycles;
  EXPECT_LE(asked, 1.3 * by_hand);
}

TEST_F(StageTest, UnitsMayOverlapAndShare) {
  for (const int width : {1, 8, 24, 100}) {
    for (const int rows : {1, 5, 64, 300, 4000}) {
      SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
      const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(width);
      std::vector<float> x = numbers(size + 1, 3), w = numbers(static_cast<size_t>(width), 7), y(size, -1);
      run("scale", {&x, &w, &y}, {rows, width});
      for (size_t i = 0; i < size; ++i) {
        const size_t row = i / static_cast<size_t>(width), j = i % static_cast<size_t>(width);
        ASSERT_EQ(y[i], x[i] * w[j] + 0.5F * x[(row + 1) * static_cast<size_t>(width)]) << i;
      }
    }
  }
}

// What does not fit is used where it is.
TEST_F(StageTest, UnitsMayBeTooLarge) {
  constexpr int kRows = 6, kWidth = 3000;
  std::vector<float> x = numbers(kRows * kWidth + 1, 3), w = numbers(kWidth, 7), y(kRows * kWidth, -1);
  EXPECT_EQ(moved(run("scale", {&x, &w, &y}, {kRows, kWidth})), 0);
  EXPECT_EQ(y[kWidth + 1], x[kWidth + 1] * w[1] + 0.5F * x[2 * kWidth]);
}

TEST_F(StageTest, TwoShareTheMemory) {
  constexpr size_t kElements = 30000;
  std::vector<float> a = numbers(kElements, 1), b = numbers(kElements, 5), y(kElements, -1);
  const tir::CycleEstimate estimate = run("twice", {&a, &b, &y}, {kElements});
  EXPECT_EQ(moved(estimate), static_cast<int64_t>(kElements) * 24);
  for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(y[i], a[i] + b[i] + b[i]) << i;
}

TEST_F(StageTest, HostsUseOperandsInPlace) {
  const auto module = lowered("add", "host-avx2");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const std::string text = tir::print_module(*module);
  EXPECT_EQ(text.find("lsram"), std::string::npos) << text;
  EXPECT_EQ(text.find("dma"), std::string::npos) << text;
}

TEST_F(StageTest, SaysWhatItCannotTake) {
  const auto error = [&](const char* entry) { return std::string(lowered(entry).status().message()); };
  EXPECT_THAT(error("of_a_kernel"), ::testing::HasSubstr("\"body\" expect a function without \"S.prim_func\""));
  EXPECT_THAT(error("of_a_number"), ::testing::HasSubstr("\"reads\" expect pointers to global memory"));
  EXPECT_THAT(error("of_local_memory"), ::testing::HasSubstr("\"reads\" expect pointers to global memory"));
}

}  // namespace
}  // namespace aipu::kernels
