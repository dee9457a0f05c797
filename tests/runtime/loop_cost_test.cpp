// What an iteration of a loop costs beside its kernels: no memory, and less than a microsecond. The body copies one
// byte and scales one element, which is about nothing. And what a plan for new shapes allocates.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "runtime/session.h"
#include "tests/runtime/counted_allocations.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

class LoopCost : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = Model::from_bytes(test::loop_model().build());
    ASSERT_TRUE(model.ok()) << model.status().message();
    SessionOptions options;
    options.threads = 1;
    auto session = Session::create(*model, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = std::move(*session);
  }
  // Seconds and allocations of a run.
  std::pair<double, int64_t> run(int64_t trips) {
    const float x = 0;
    const std::vector<int64_t> shape = {1};
    EXPECT_TRUE(session_->bind_input(0, {DType::kF32, shape, &x}).ok());
    EXPECT_TRUE(session_->bind_input(1, {DType::kI64, {}, &trips}).ok());
    const int64_t before = test::allocation_count();
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(session_->run().ok());
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    return {time.count(), test::allocation_count() - before};
  }

  std::unique_ptr<Session> session_;
};

TEST_F(LoopCost, TenThousandIterationsAllocateNoMoreThanTen) {
  run(10);
  const int64_t of_ten = run(10).second;
  EXPECT_EQ(run(10000).second, of_ten);
}

// The best of some runs: others may use the CPU too.
TEST_F(LoopCost, AnIterationTakesLessThanAMicrosecond) {
  double best = 1;
  for (int i = 0; i < 50; ++i) best = std::min(best, run(10000).first - run(0).first);
  const double nanoseconds = best / 10000 * 1e9;
  std::printf("%.0f ns per iteration\n", nanoseconds);
  RecordProperty("nanoseconds_per_iteration", static_cast<int>(nanoseconds));
#if defined(NDEBUG) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(nanoseconds, 1000);
#endif
}

// A loop that grows a sequence plans for new shapes in each iteration. Once half of that was making texts for errors that
// did not happen, with an allocation or two for each.
TEST(PlanCost, PlansForNewShapesMakeNoTexts) {
  auto model = Model::from_bytes(test::chain_model().build());
  ASSERT_TRUE(model.ok()) << model.status().message();
  SessionOptions options;
  options.threads = 1;
  options.plan_cache = 1;
  auto session = Session::create(*model, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> x(4 * 40), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  int64_t allocations = 0;
  for (const int64_t rows : {40, 1, 2, 7, 30, 5, 0, 39}) {
    const std::vector<int64_t> shape = {rows, 4};
    ASSERT_TRUE((*session)->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    ASSERT_TRUE((*session)->bind_output(0, y.data(), static_cast<size_t>(rows) * 16).ok());
    const int64_t before = test::allocation_count();
    ASSERT_TRUE((*session)->run().ok());
    allocations = test::allocation_count() - before;
    for (size_t i = 0; i < static_cast<size_t>(rows) * 4; ++i) ASSERT_EQ(y[i], 4 * x[i]) << rows << " rows";
  }
  std::printf("%d allocations\n", static_cast<int>(allocations));
  EXPECT_LE(allocations, 60);
}

}  // namespace
}  // namespace aipu::runtime
