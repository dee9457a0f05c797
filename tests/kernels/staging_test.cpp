// templates/staging.py: what it makes on hosts and on NPUs, what it computes, and what overlaps in the timing model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <span>

#include "codegen/lower/lower.h"
#include "codegen/timing/count_by_shapes.h"
#include "codegen/timing/timing_model.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "kernels/parts/staged_product.h"
#include "kernels/parts/staging.h"
#include "kernels/plugin.h"

namespace aipu::kernels {
namespace {

using tir::find_target;

// y = |a * b + a| and so on, a chain that DMA bounds, as a user writes it.
const char* const kStaged = R"(from aipu import script as S
from chain_expression import expression
from sharing import balanced
from staging import begin_tile, close_stage, comes, drain, fetch, is_there, open_stage, staged, steps, tile_at, tile_of
@S.prim_func
def chain(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    first, last = balanced(S.ceildiv(n, TILE), S.get_local_size(), S.get_local_id())
    stage = open_stage()
    sa, sb, sy = staged(a, TILE), staged(b, TILE), staged(y, TILE)
    for step in steps(first, last):
        if comes(step, last):
            k = step * TILE
            size = S.min(n - k, TILE)
            fetch(stage, step - first, sa, k, size, 1, 0)
            fetch(stage, step - first, sb, k, size, 1, 0)
        if is_there(step, first):
            t = S.meta_var(tile_at(step))
            begin_tile(stage, t - first)
            k = t * TILE
            size = S.min(n - k, TILE)
            pa, pb, py = tile_of(sa, t - first, k), tile_of(sb, t - first, k), tile_of(sy, t - first, k)
            for i in range(0, size, 8):
                mask = S.tail_mask(S.min(size - i, 8), 8)
                S.vstore(expression(S.vload(pa + i, mask=mask), S.vload(pb + i, mask=mask)), py + i, mask=mask)
            drain(stage, t - first, sy, k, size, 1, 0)
    close_stage(stage, S.max(last - first, 0))
)";

// The same where operands are used in place.
const char* const kInPlace = R"(from aipu import script as S
from chain_expression import expression
from sharing import balanced
@S.prim_func
def chain(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    first, last = balanced(S.ceildiv(n, TILE), S.get_local_size(), S.get_local_id())
    for step in range(first, last):
        k = step * TILE
        size = S.min(n - k, TILE)
        pa, pb, py = a + k, b + k, y + k
        for i in range(0, size, 8):
            mask = S.tail_mask(S.min(size - i, 8), 8)
            S.vstore(expression(S.vload(pa + i, mask=mask), S.vload(pb + i, mask=mask)), py + i, mask=mask)
)";

// Two buffers each, but each transfer is waited for before the next one starts.
const char* const kStrict = R"(from aipu import script as S
from chain_expression import expression
from sharing import balanced
@S.prim_func
def chain(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    first, last = balanced(S.ceildiv(n, TILE), S.get_local_size(), S.get_local_id())
    event = S.alloc_events(1)
    pa, pb, py = [S.alloc((TILE,), "fp32", scope="lsram") for _ in range(3)]
    for t in range(first, last):
        k = t * TILE
        size = S.min(n - k, TILE)
        S.async_dma_copy(pa, a + k, size, event=event)
        S.wait_events(event)
        S.async_dma_copy(pb, b + k, size, event=event)
        S.wait_events(event)
        for i in range(0, size, 8):
            mask = S.tail_mask(S.min(size - i, 8), 8)
            S.vstore(expression(S.vload(pa + i, mask=mask), S.vload(pb + i, mask=mask)), py + i, mask=mask)
        S.async_dma_copy(y + k, py, size, event=event)
        S.wait_events(event)
    S.free_events(event)
)";

const char* const kExpression = R"(from aipu import script as S
def expression(a, b):
    v = a
    for _ in range(6):
        v = v * b + a
    return v
)";

float chain_of(float a, float b) {
  float v = a;
  for (int i = 0; i < 6; ++i) v = v * b + a;
  return v;
}

class StagingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    library_.add_source("chain_expression.py", kExpression);
    library_.add_source("staged.py", kStaged);
    library_.add_source("in_place.py", kInPlace);
    library_.add_source("strict.py", kStrict);
  }

  std::shared_ptr<const tir::Module> kernel(const std::string& file, int tile, int staging = -1) {
    dsl::TemplateParams params;
    params.set("TILE", static_cast<int64_t>(tile));
    if (staging >= 0) params.set("STAGING", static_cast<int64_t>(staging));
    auto module = library_.instantiate(file, "chain", params, "chain");
    EXPECT_TRUE(module.ok()) << module.status().message();
    return module.ok() ? *module : nullptr;
  }

  // Runs the kernel on 4 TECs, checks what it computes, and returns what the timing model says.
  static tir::CycleEstimate run(const tir::Module& module, int n) {
    const auto lowered = tir::lower(module, *find_target("X2_1204"));
    EXPECT_TRUE(lowered.ok()) << lowered.status().message();
    const auto counting = tir::instrument(*lowered);
    EXPECT_TRUE(counting.ok()) << counting.status().message();
    std::vector<float> a(static_cast<size_t>(n)), b(a.size()), y(a.size(), -7);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<float>(i % 101) / 16;
      b[i] = static_cast<float>(i % 37) / 32 - 0.5F;
    }
    std::vector<int64_t> counters(static_cast<size_t>(4 * counting->counter_count));
    std::vector<tir::InterpreterArgument> arguments;
    const auto add = [&](void* data, size_t bytes) {
      arguments.push_back({.data = static_cast<std::byte*>(data), .bytes = bytes, .is_pointer = true});
    };
    for (std::vector<float>* v : {&a, &b, &y}) add(v->data(), v->size() * sizeof(float));
    arguments.push_back({.word = static_cast<uint64_t>(n)});
    add(counters.data(), counters.size() * sizeof(int64_t));
    const Status status = tir::interpret_all(counting->module, 4, arguments);
    EXPECT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < a.size(); ++i) {
      if (y[i] != chain_of(a[i], b[i])) {
        ADD_FAILURE() << "element " << i << " of " << n << ": " << y[i] << ", not " << chain_of(a[i], b[i]);
        break;
      }
    }
    const tir::CycleEstimate exact = tir::estimate(*counting, counters);
    // No data decides how often a loop runs: the shapes tell as much.
    const std::optional<int64_t> shapes[] = {{}, {}, {}, n};
    const auto by_shapes = tir::count_by_shapes(*counting, 4, shapes);
    EXPECT_TRUE(by_shapes.ok()) << by_shapes.status().message();
    if (by_shapes.ok()) {
      EXPECT_NEAR(tir::estimate(*counting, *by_shapes).cycles, exact.cycles, 0.1 * exact.cycles);
    }
    return exact;
  }

  TemplateLibrary library_;
};

// Nothing is added on targets without it: the kernel is the one without staging, to the last statement.
TEST_F(StagingTest, WithoutBuffersItIsTheKernelInPlace) {
  const auto staged = kernel("staged.py", 256, 0), plain = kernel("in_place.py", 256);
  ASSERT_TRUE(staged != nullptr && plain != nullptr);
  EXPECT_EQ(tir::print_module(*staged).find("lsram"), std::string::npos);
  for (const char* name : {"host-baseline", "host-avx2", "host-avx512"}) {
    const auto a = tir::lower(*staged, *find_target(name)), b = tir::lower(*plain, *find_target(name));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_TRUE(tir::structurally_equal(*a, *b)) << name << "\n" << tir::print_module(*a) << tir::print_module(*b);
  }
}

// The interpreter makes an asynchronous copy when it is waited for: what is used before that is wrong here.
TEST_F(StagingTest, ComputesTheSame) {
  for (const int staging : {0, 1, 2}) {
    const auto module = kernel("staged.py", 64, staging);
    ASSERT_NE(module, nullptr);
    for (const int n : {1, 7, 64, 65, 128, 200, 255, 256, 257, 512, 1000, 2048}) run(*module, n);
  }
}

TEST_F(StagingTest, PrefetchComputationAndWritingBackOverlap) {
  constexpr int kElements = 1 << 16, kTile = 1024;
  const auto cycles = [&](const char* file, int tile, int staging) {
    const auto module = kernel(file, tile, staging);
    return module == nullptr ? tir::CycleEstimate() : run(*module, kElements);
  };
  const tir::CycleEstimate two = cycles("staged.py", kTile, 2), one = cycles("staged.py", kTile, 1);
  const tir::CycleEstimate in_place = cycles("in_place.py", kTile, -1), strict = cycles("strict.py", kTile, -1);
  // DMA bounds it, and nothing is beside that but a launch and the first and last tile.
  EXPECT_LE(two.cycles, 0.85 * one.cycles);
  EXPECT_LE(two.cycles, 0.85 * strict.cycles);
  EXPECT_LE(two.cycles, 0.85 * in_place.cycles);
  double compute = 0, dma = kElements * 12.0 / npu_timing::kX2.global_bytes_per_cycle;
  for (const auto& tec : two.tecs) {
    compute = std::max(compute, tec.code_cycles);
    dma = std::max(dma, tec.async_cycles);
  }
  EXPECT_LE(two.cycles, 1.1 * std::max(compute, dma));
  // No byte is moved twice.
  int64_t bytes = 0;
  for (const auto& tec : two.tecs) bytes += tec.dma_bytes;
  EXPECT_EQ(bytes, kElements * 12);
  // Who waits for each transfer has none of the overlap: all of the code and all of the transfers, one after the other.
  const auto& first = strict.tecs[0];
  EXPECT_GT(first.cycles, 0.99 * (200 + first.code_cycles + first.async_cycles));
}

TEST_F(StagingTest, TilesFitTheMemoryAndAreWorthIt) {
  const tir::Target x2 = *find_target("X2_1204");
  EXPECT_TRUE(has_staging(x2));
  EXPECT_FALSE(has_staging(*find_target("host-avx2")));
  tir::Target without_figures = x2;
  without_figures.costs.reset();
  EXPECT_FALSE(has_staging(without_figures));
  const StagedOperand operands[] = {{4, false}, {4, false}, {4, true}};
  for (const int64_t n : {int64_t{50'000}, int64_t{100'000}, int64_t{1} << 24}) {
    const MapStaging plan = plan_map_staging(x2, n, operands, 8);
    ASSERT_EQ(plan.buffers, 2) << plan.text;
    const int64_t tile = *plan.tile.constant();
    EXPECT_GT(tile, 0);
    EXPECT_LE(tile, plan.capacity);
    EXPECT_LE(2 * plan.capacity * 12, x2.lsram_bytes());
  }
  // The latency of a transfer is more than the whole computation.
  const MapStaging tiny = plan_map_staging(x2, 64, operands, 8);
  EXPECT_EQ(tiny.buffers, 0);
  EXPECT_THAT(tiny.text, ::testing::HasSubstr("not staged"));
  EXPECT_EQ(plan_map_staging(*find_target("host-avx2"), 100'000, operands, 8).buffers, 0);
  // A size that is known when running.
  const graph::Dim n = graph::Dim::symbol("N");
  const MapStaging open = plan_map_staging(x2, n, operands, 8);
  EXPECT_EQ(open.buffers, 2);
  EXPECT_THAT(open.text, ::testing::HasSubstr("any number"));
}

// Both operands and results twice and sums, and what a register tile needs.
TEST_F(StagingTest, ProductsFitMemoryAndRegisters) {
  const tir::Target x2 = *find_target("X2_1204");
  for (const DType element : {DType::kU8, DType::kF16, DType::kF32}) {
    const auto bytes = static_cast<int64_t>(dtype_bytes(element));
    for (const int64_t channels : {3, 64, 100, 2048}) {
      for (const int64_t columns : {1, 20, 64, 1000}) {
        for (const int64_t width : {1, 7, 56, 113, 5000}) {
          for (const int64_t kernel : {1, 3, 7}) {
            SpatialGeometry geometry;
            geometry.batch = 1;
            geometry.channels = channels;
            geometry.axes[1] = {.in = kernel, .out = 1, .kernel = kernel};
            geometry.axes[2] = {.in = width + kernel - 1, .out = width, .kernel = kernel};
            const ProductShape shape{
                .channels = channels, .group_in = channels, .group_out = columns, .element = element};
            const auto plan = plan_staged_product(x2, geometry, shape);
            ASSERT_TRUE(plan.has_value()) << channels << " x " << columns << ", " << width << ", " << kernel;
            SCOPED_TRACE(plan->text);
            const int64_t span = plan->pixels + kernel - 1, tiles = plan->vectors * plan->lanes / plan->columns;
            const int64_t steps = (plan->block * plan->run + plan->depth - 1) / plan->depth;
            // A vector may be read that begins in x, where lines are not whole vectors.
            const int64_t beyond = plan->lines_apart ? 0 : plan->depth - 1;
            EXPECT_GE(plan->x_capacity, span * kernel * plan->block + beyond);
            EXPECT_GE(plan->w_capacity * plan->parts, steps * tiles * plan->taps * plan->columns * plan->depth);
            EXPECT_EQ(tiles % plan->parts, 0);
            // Of the results float32.
            EXPECT_GE(plan->out_capacity, plan->pixels * plan->panel());
            EXPECT_LE((2 * plan->x_capacity + plan->w_buffers * plan->w_capacity) * bytes + 4 * plan->sum_capacity +
                          plan->out_buffers * 4 * plan->out_capacity,
                      x2.lsram_bytes());
            EXPECT_TRUE(plan->w_buffers == 2 || plan->blocks * plan->parts == 1);
            EXPECT_EQ(plan->x_capacity * bytes % 64 + plan->w_capacity * bytes % 64, 0);
            // The sums, the weights of a step or the pixels under a tap, a vector of the others.
            const int64_t height = plan->heights.front();
            EXPECT_LE(height * plan->columns + std::min(height, plan->taps * plan->columns) + 1, x2.vector_registers);
            EXPECT_EQ((channels + plan->block - 1) / plan->block, plan->blocks);
            EXPECT_EQ(plan->taps * plan->run, kernel * kernel);
            EXPECT_EQ(plan->masked && element == DType::kU8, false);
          }
        }
      }
    }
  }
  // A unit of several rows: its tiles are all of its pixels, and know where a row ends.
  SpatialGeometry window;
  window.batch = 1;
  window.channels = 512;
  window.axes[1] = window.axes[2] = {.in = 9, .out = 7, .kernel = 3};
  const ProductShape deep{.channels = 512, .group_in = 512, .group_out = 512, .element = DType::kU8, .extra_bytes = 1};
  const auto rows = plan_staged_product(x2, window, deep);
  ASSERT_TRUE(rows.has_value());
  SCOPED_TRACE(rows->text);
  EXPECT_EQ(rows->rows * rows->pixels, 49);
  EXPECT_EQ(rows->unit_lines, 9);
  int64_t next = 0;
  for (const PixelRun& run : rows->runs) {
    EXPECT_EQ(run.first, next);
    const int64_t left = 7 - next % 7;
    EXPECT_EQ(run.split, left < run.height ? left : 0);
    EXPECT_TRUE(run.split == 0 ? left >= run.height * run.count : run.count == 1);
    next += run.height * run.count;
  }
  EXPECT_EQ(next, 49);
  // Without what zeros around the image are multiplied by: of 3 lines one, of the first and last pixels a column.
  ProductShape bordered = deep;
  bordered.top = bordered.bottom = bordered.left = bordered.right = 1;
  const auto inner = plan_staged_product(x2, window, bordered);
  ASSERT_TRUE(inner.has_value());
  SCOPED_TRACE(inner->text);
  EXPECT_TRUE(inner->lines_apart && inner->skips_lines && inner->is_row);
  EXPECT_EQ(inner->inner.left, 1);
  EXPECT_EQ(inner->inner.end, 8);
  EXPECT_TRUE(inner->runs.front().top && inner->runs.back().bottom);
  for (const PixelRun& run : inner->runs) {
    EXPECT_EQ(run.inner.left, run.first % 7 == 0 ? 1 : 0);
    EXPECT_EQ(run.inner.end<InnerColumns::kNoEnd, run.split> 0 || (run.first + run.height) % 7 == 0);
  }
  EXPECT_FALSE(rows->skips_lines);
  // Windows of one line: what the rows of a unit read is brought by all its lines.
  SpatialGeometry line;
  line.batch = 2;
  line.channels = 96;
  line.axes[1] = {.in = 15, .out = 15, .kernel = 1};
  line.axes[2] = {.in = 7, .out = 5, .kernel = 3};
  const auto lines =
      plan_staged_product(x2, line, {.channels = 96, .group_in = 96, .group_out = 16, .element = DType::kU8, .top = 3});
  ASSERT_TRUE(lines.has_value());
  SCOPED_TRACE(lines->text);
  EXPECT_GT(lines->rows, 1);
  EXPECT_EQ(lines->unit_lines, lines->rows);
  EXPECT_GE(lines->x_capacity, lines->unit_lines * 7 * lines->block);
  EXPECT_TRUE(lines->lines_apart && lines->skips_lines);
  // Taps as far apart as the columns of the next row are counted.
  SpatialGeometry far;
  far.batch = far.channels = 1;
  far.axes[2] = {.in = 4300, .out = 204, .kernel = 3, .dilation = 2048};
  EXPECT_FALSE(plan_staged_product(x2, far, {.channels = 1, .group_in = 1, .group_out = 8}).has_value());
  // A border is not part of the image.
  SpatialGeometry padded;
  padded.axes[2].pad_begin = 1;
  EXPECT_FALSE(plan_staged_product(x2, padded, {}).has_value());
  EXPECT_FALSE(plan_staged_product(*find_target("host-avx512"), SpatialGeometry(), {}).has_value());
  // Its third generation has no dot products of floats.
  EXPECT_TRUE(has_staged_products(x2, DType::kF16));
  EXPECT_FALSE(has_staged_products(*find_target("X3P_1304"), DType::kF16));
  EXPECT_FALSE(has_staged_products(x2, DType::kF64));
}

}  // namespace
}  // namespace aipu::kernels
