// Batch loops: samples one after the other and side by side, and faults of kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/open_model.h"

namespace aipu::runtime {
namespace {

using ::testing::HasSubstr;

void check_batch_loop(int threads) {
  SessionOptions options;
  options.profile = true;
  options.threads = threads;
  auto session = open(test::looped_chain_model(), options);
  auto whole = open(test::chain_model());
  for (const int64_t n : {1, 3, 8, 3, 1, 1000, 1, 0, 2}) {
    const auto x = counting(static_cast<size_t>(n) * 4);
    session->clear_profile();
    EXPECT_EQ(run(*session, x, {n, 4}), times(x, 4)) << n;
    EXPECT_EQ(run(*session, x, {n, 4}), times(x, 4)) << n << ", again";
    run(*whole, x, {n, 4});
    EXPECT_EQ(session->profile().size(), n < 2 ? 6u : 6 * static_cast<size_t>(n));
    if (n > 1) {
      EXPECT_EQ(session->profile().back().sample, n - 1);
    }
    if (n == 1000) {
      EXPECT_EQ(session->arena_bytes(), 128 * session->threads()) << "memory for the samples at hand";
      EXPECT_EQ(whole->arena_bytes(), 32000);
    }
  }
}

TEST(Executor, RunsBatchLoopsSampleBySample) { check_batch_loop(1); }
// Sample by sample on each thread, where the number of samples is enough for that.
TEST(Executor, RunsSamplesOfABatchSideBySide) {
  check_batch_loop(2);
  check_batch_loop(3);
}

// Loops that are worth it where a run says so, and where each thread has samples of its own.
TEST(Executor, RunsBatchLoopsOnTheirConditions) {
  ModelBuilder b = test::looped_chain_model();
  const uint32_t n = b.tensors[0].shape[0];
  b.batch_loop_conditions.assign(b.batch_loops.size(), b.expression(fb::ExpressionOp::kLt, b.constant(4), n));
  for (const int threads : {1, 2}) {
    SessionOptions options;
    options.profile = true;
    options.threads = threads;
    auto session = open(b, options);
    for (const int64_t samples : {2, 4, 5, 64}) {
      const auto x = counting(static_cast<size_t>(samples) * 4);
      session->clear_profile();
      EXPECT_EQ(run(*session, x, {samples, 4}), times(x, 4)) << samples;
      // Five samples are not enough for two threads.
      const bool is_loop = samples > (threads == 1 ? 4 : 5);
      EXPECT_EQ(session->profile().back().sample, is_loop ? samples - 1 : 0) << samples << ", " << threads;
    }
  }
}

// A kernel with local and shared memory and barriers: side by side, each TEC is the only one of its launch.
TEST(Executor, SamplesSideBySideHaveMemoriesOfTheirOwn) {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), many = b.constant(1 << 20), row = b.constant(1000);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kF32, {n, row}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {n, row}, fb::TensorKind::kOutput);
  const uint32_t reverse = b.kernel(test::reverse_kernel());
  b.launch(reverse, {b.pointer(x, false, zero), b.pointer(y, true, zero), b.number(row)}, many);
  b.batch_loops = {fb::BatchLoop(1, 1, 0)};
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::test_kernels()});
  for (const int threads : {1, 2}) {
    SessionOptions options;
    options.threads = threads;
    auto session = open(b, options);
    for (const int64_t samples : {8, 3, 64}) {
      auto expected = counting(static_cast<size_t>(samples) * 1000);
      const auto values = expected;
      for (auto at = expected.begin(); at != expected.end(); at += 1000) std::reverse(at, at + 1000);
      EXPECT_EQ(run(*session, values, {samples, 1000}), expected) << samples << " samples, " << threads << " threads";
    }
  }
}

// Run, fault, run again, with one thread and with several, whole and sample by sample.
TEST(Executor, AFaultIsTheErrorOfOneRun) {
  for (const bool loop : {false, true}) {
    for (const int threads : {1, 3}) {
      SessionOptions options;
      options.threads = threads;
      auto session = open(test::faulty_model(loop), options);
      for (const int64_t n : {1, 3, 64}) {
        const auto good = counting(static_cast<size_t>(n) * 4);
        EXPECT_EQ(run(*session, good, {n, 4}), good);
        auto bad = good;
        bad[bad.size() - 2] = -7;
        ASSERT_TRUE(session->bind_input(0, {DType::kF32, std::vector<int64_t>{n, 4}, bad.data()}).ok());
        const Status status = session->run();
        const int64_t position = loop && n > 1 ? 2 : n * 4 - 2;  // sample by sample it is that in the sample
        EXPECT_EQ(status.message(), str_cat("'root {value}' (Sqrt): a root of -7 at ", position, ", -7"));
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        EXPECT_EQ(run(*session, good, {n, 4}), good) << "after an error";
      }
    }
  }
}

// One TEC of many, or one sample of many, or all of them: one report is kept.
TEST(Executor, ManyFaultsAreOneError) {
  for (const bool loop : {false, true}) {
    SessionOptions options;
    options.threads = 4;
    auto session = open(test::faulty_model(loop), options);
    const std::vector<float> bad(4000, -3);
    ASSERT_TRUE(session->bind_input(0, {DType::kF32, std::vector<int64_t>{1000, 4}, bad.data()}).ok());
    EXPECT_THAT(session->run().message(), ::testing::StartsWith("'root {value}' (Sqrt): a root of -3 at "));
    EXPECT_EQ(run(*session, counting(4000), {1000, 4}), counting(4000));
  }
}

// A fault is none where nothing needs the result; then the next kernel's counts.
TEST(Executor, FaultsOfWhatIsNotNeededAreNone) {
  ModelBuilder b = test::faulty_model();
  const uint32_t more_than_one = b.expression(fb::ExpressionOp::kLt, b.constant(1), 3);
  b.programs[0].faults = {fb::Fault(0, 2, 0, 0, more_than_one), fb::Fault(1, 0, 0, 1, test::kNone)};
  auto session = open(b);
  const std::vector<float> bad = {1, -2, 3, 4, 1, 1, 1, 1};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, std::vector<int64_t>{2, 4}, bad.data()}).ok());
  EXPECT_EQ(session->run().message(), "'root {value}' (Sqrt): a root of -2 at 1, -2");
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, std::vector<int64_t>{1, 4}, bad.data()}).ok());
  EXPECT_EQ(session->run().message(), "'again' (Sqrt): a root of -2 at 1, -2");
}

TEST(Executor, AFaultThatTheModelHasNoWordsForIsAnErrorToo) {
  ModelBuilder b = test::faulty_model();
  b.programs[0].faults.clear();
  auto session = open(b);
  const std::vector<float> bad = {1, -2, 3, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, std::vector<int64_t>{1, 4}, bad.data()}).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("the kernel reports fault 2 (value -2, limit 1)"));
}

TEST(Executor, BatchLoopsLeaveTheRestOfTheModelWhole) {
  // Only the middle command: what it reads and writes is there for all samples at once.
  ModelBuilder b = test::chain_model();
  b.batch_loops = {fb::BatchLoop(2, 2, 0)};
  auto session = open(b);
  for (const int64_t n : {5, 2, 7}) {
    const auto x = counting(static_cast<size_t>(n) * 4);
    EXPECT_EQ(run(*session, x, {n, 4}), times(x, 4)) << n;
  }
  // In place: the sum takes over t's memory, in a loop and across its edge.
  for (const uint32_t first : {1u, 2u}) {
    b.tensors[2].in_place_of = 1;
    b.batch_loops = {fb::BatchLoop(first, 2, 0)};
    auto in_place = open(b);
    const auto x = counting(24);
    EXPECT_EQ(run(*in_place, x, {6, 4}), times(x, 4)) << first;
  }
}

TEST(Executor, BatchLoopsMoveWithTheirMemory) {
  auto session = open(test::looped_chain_model());
  const auto x = counting(12);
  const int64_t shape[] = {3, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  for (int round = 0; round < 3; ++round) {
    std::vector<float> y(12, -1.0f);
    ASSERT_TRUE(session->bind_output(0, y.data(), y.size() * sizeof(float)).ok());
    ASSERT_TRUE(session->run().ok());
    EXPECT_EQ(y, times(x, 4)) << round;
  }
}

// What is computed for one sample was in the memory of what all samples read, where that came before the bound size.
TEST(Executor, RunsBatchLoopsBehindABoundSize) {
  for (const int threads : {1, 2}) {
    SessionOptions options;
    options.threads = threads;
    auto session = open(test::looped_behind_binding_model(), options);
    ASSERT_NE(session, nullptr);
    for (const size_t n : {1, 8, 3, 100}) {
      const auto x = counting(n * 4);
      std::vector<float> expected;
      for (size_t i = 0; i < n * 4; i += 4) {
        expected.push_back(3 * x[i] + 6 * x[i + 2]);
        expected.push_back(3 * x[i + 1] + 6 * x[i + 3]);
      }
      EXPECT_EQ(run(*session, x, {static_cast<int64_t>(n), 4}), expected) << n << " samples, " << threads << " threads";
    }
  }
}

TEST(Executor, RefusesBatchLoopsOverTensorsThatAreNotMadeOfSamples) {
  ModelBuilder b = test::looped_chain_model();
  // u is read after the loop, so it is there for all samples; eight bytes more than they need cannot be divided.
  const uint32_t one = b.constant(1);
  b.batch_loops = {fb::BatchLoop(1, 2, 0)};
  b.tensors[2].size_bytes = b.expression(fb::ExpressionOp::kAdd, b.tensors[2].size_bytes, b.mul(one, b.constant(8)));
  auto session = open(b);
  const auto x = counting(12);
  const int64_t shape[] = {3, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("tensor 'u' has 56 bytes, but 24 for one of 3 samples"));
}

}  // namespace
}  // namespace aipu::runtime
