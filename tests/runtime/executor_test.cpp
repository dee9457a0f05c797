#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <thread>

#include "runtime/executor/worker_pool.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const Model> load(const ModelBuilder& builder, const LoadOptions& options = {}) {
  auto model = Model::from_bytes(builder.build(), options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : nullptr;
}

std::unique_ptr<Session> open(const ModelBuilder& builder, const SessionOptions& options = {}) {
  auto model = load(builder);
  if (model == nullptr) return nullptr;
  auto session = Session::create(model, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(session).value() : nullptr;
}

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::vector<float> floats(const TensorView& view) {
  const auto* data = static_cast<const float*>(view.data);
  size_t n = 1;
  for (const int64_t extent : view.shape) n *= static_cast<size_t>(extent);
  return {data, data + n};
}

std::vector<float> run(Session& session, const std::vector<float>& x, std::vector<int64_t> shape) {
  Status status = session.bind_input(0, {DType::kF32, shape, x.data()});
  EXPECT_TRUE(status.ok()) << status.message();
  status = session.run();
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return {};
  auto y = session.output(0);
  EXPECT_TRUE(y.ok()) << y.status().message();
  return y.ok() ? floats(*y) : std::vector<float>();
}

std::vector<float> times(const std::vector<float>& x, float factor) {
  std::vector<float> result;
  for (const float value : x) result.push_back(factor * value);
  return result;
}

TEST(Executor, RunsTheChainAtSeveralShapesFromOneFile) {
  auto session = open(test::chain_model());
  for (const int64_t n : {1, 3, 8, 3, 1, 1000, 1, 0}) {
    const auto x = counting(static_cast<size_t>(n) * 4);
    EXPECT_EQ(run(*session, x, {n, 4}), times(x, 4)) << n;
    EXPECT_THAT(*session->output_shape(0), ElementsAre(n, 4));
  }
}

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

TEST(Executor, OutputShapesAreKnownAfterPrepare) {
  auto session = open(test::chain_model());
  EXPECT_FALSE(session->output_shape(0).ok());
  const std::vector<float> x(20);
  const int64_t shape[] = {5, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(session->prepare().ok());
  EXPECT_THAT(*session->output_shape(0), ElementsAre(5, 4));
}

TEST(Executor, BindsInputsAndOutputsWithoutCopies) {
  auto session = open(test::chain_model());
  // Off any alignment but the element's.
  auto x = counting(13);
  std::vector<float> y(15, -1.0f);
  const int64_t shape[] = {3, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data() + 1}).ok());
  ASSERT_TRUE(session->bind_output(0, y.data() + 1, 12 * sizeof(float)).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(session->output(0)->data, y.data() + 1);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(y[i + 1], 4 * x[i + 1]);
  EXPECT_EQ(y[0], -1.0f);
  EXPECT_EQ(y[13], -1.0f);

  // The data is read in place, and other memory may be given for the next run.
  x[1] = 100;
  std::vector<float> z(12);
  ASSERT_TRUE(session->bind_output(0, z.data(), z.size() * sizeof(float)).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(z[0], 400);
  EXPECT_EQ(y[1], 8);
  ASSERT_TRUE(session->bind_output(0, nullptr, 0).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_NE(session->output(0)->data, z.data());
}

TEST(Executor, RefusesOutputMemoryThatIsTooSmall) {
  auto session = open(test::chain_model());
  const auto x = counting(12);
  std::vector<float> y(11);
  const int64_t shape[] = {3, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(session->bind_output(0, y.data(), y.size() * sizeof(float)).ok());
  EXPECT_THAT(session->run().message(),
              HasSubstr("output 'y' [3,4] takes 48 bytes, but the memory given for it has 44"));
}

TEST(Executor, ShapeErrorsNameInputAxisExpectedAndFound) {
  auto session = open(test::chain_model());
  const std::vector<float> x(100);
  EXPECT_THAT(session->run().message(), HasSubstr("input 'x' has no value; the model takes x float32[N,4]"));
  const int64_t wrong_axis[] = {3, 5};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, wrong_axis, x.data()}).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("input 'x' [3,5], axis 1: expected 4, found 5"));
  const int64_t wrong_rank[] = {12};
  EXPECT_THAT(session->bind_input(0, {DType::kF32, wrong_rank, x.data()}).message(),
              HasSubstr("expected rank 2 (x float32[N,4]), found [12]"));
  const int64_t right[] = {3, 4};
  EXPECT_THAT(session->bind_input(0, {DType::kI32, right, x.data()}).message(),
              HasSubstr("expected float32, found int32"));
  const int64_t negative[] = {-3, 4};
  EXPECT_THAT(session->bind_input(0, {DType::kF32, negative, x.data()}).message(), HasSubstr("negative extent -3"));
  EXPECT_THAT(session->bind_input(0, {DType::kF32, right, nullptr}).message(), HasSubstr("has no data"));
  EXPECT_FALSE(session->bind_input(1, {DType::kF32, right, x.data()}).ok());
}

TEST(Executor, ConflictingExtentsNameBothInputs) {
  ModelBuilder b = test::chain_model();
  // A second input z[N].
  b.tensor("z", DType::kF32, {b.tensors[0].shape[0]}, fb::TensorKind::kInput);
  auto session = open(b);
  const std::vector<float> x(100);
  const int64_t x_shape[] = {3, 4};
  const int64_t z_shape[] = {7};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, x_shape, x.data()}).ok());
  ASSERT_TRUE(session->bind_input(1, {DType::kF32, z_shape, x.data()}).ok());
  EXPECT_THAT(session->run().message(),
              HasSubstr("input 'z' [7], axis 0: expected 3 (N, as axis 0 of input 'x'), found 7"));
  const int64_t z_fixed[] = {3};
  ASSERT_TRUE(session->bind_input(1, {DType::kF32, z_fixed, x.data()}).ok());
  EXPECT_TRUE(session->run().ok());
}

TEST(Executor, HugeShapesAreErrorsNotAllocations) {
  auto session = open(test::chain_model());
  float x = 0;
  for (const int64_t n : {int64_t{1} << 60, int64_t{1} << 62, INT64_MAX, int64_t{1} << 45}) {
    const int64_t shape[] = {n, 4};
    ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, &x}).ok());
    const Status status = session->prepare();
    EXPECT_EQ(status.code(), ErrorCode::kOutOfRange) << status.message();
  }
  SessionOptions options;
  options.memory_limit_bytes = 1000;
  auto small = open(test::chain_model(), options);
  const int64_t shape[] = {100, 4};
  ASSERT_TRUE(small->bind_input(0, {DType::kF32, shape, &x}).ok());
  EXPECT_THAT(small->prepare().message(), HasSubstr("the limit is 1000"));
}

TEST(Executor, NumbersThatDoNotFitAKernelsParameterAreErrors) {
  ModelBuilder b = test::chain_model();
  // The count of the scale kernel becomes N * 4 + 2^33.
  const uint32_t large = b.expression(fb::ExpressionOp::kAdd, b.arguments[2].index(), b.constant(int64_t{1} << 33));
  b.arguments[2] = ModelBuilder::number(large);
  auto session = open(b);
  const auto x = counting(4);
  const int64_t shape[] = {1, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  EXPECT_THAT(session->run().message(),
              HasSubstr("tec command 0, kernel 'scale': argument 2 is 8589934596, which does not fit into 32 bits"));
}

TEST(Executor, TheSignOfAParameterTakesABit) {
  ModelBuilder b = test::chain_model();
  b.kernels[0].argument_bits = {0, 0, 32, 0};
  b.kernels[0].signed_arguments = {false, false, true, false};
  const auto error_of = [&](int64_t count) {
    ModelBuilder changed = b;
    changed.arguments[2] = ModelBuilder::number(changed.constant(count));
    auto session = open(changed);
    const auto x = counting(4);
    const int64_t shape[] = {1, 4};
    EXPECT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    return session->prepare().message();
  };
  EXPECT_EQ(error_of(INT32_MAX), "");
  EXPECT_EQ(error_of(INT32_MIN), "");
  EXPECT_THAT(error_of(int64_t{INT32_MAX} + 1), HasSubstr("argument 2 is 2147483648, which does not fit into 32 bits"));
  b.kernels[0].signed_arguments.clear();
  EXPECT_EQ(error_of(int64_t{INT32_MAX} + 1), "");
}

TEST(Executor, TensorsBeyondAKernelsReachAreErrors) {
  const auto error_of = [](std::vector<uint64_t> reach, int64_t rows) {
    ModelBuilder b = test::chain_model();
    b.kernels[0].addressable_bytes = std::move(reach);
    SessionOptions options;
    options.memory_limit_bytes = int64_t{1} << 40;
    auto session = open(b, options);
    const float x[4] = {};
    const int64_t shape[] = {rows, 4};
    EXPECT_TRUE(session->bind_input(0, {DType::kF32, shape, x}).ok());
    return session->prepare().message();
  };
  const auto reach = [](uint64_t bytes) { return std::vector<uint64_t>{bytes, bytes, 0, 0}; };
  EXPECT_EQ(error_of(reach(64), 4), "");
  EXPECT_THAT(error_of(reach(64), 5), HasSubstr("tec command 0, kernel 'scale': argument 0: tensor 'x' has 80 bytes; "
                                                "the kernel computes positions in 32 bits and reaches 64"));
  EXPECT_EQ(error_of(reach(0), 5), "");
  // A file that says nothing is an old one: 2^31 elements are too many, whatever the memory.
  EXPECT_THAT(error_of({}, int64_t{1} << 29), HasSubstr("convert the model again"));
}

TEST(Executor, PointersOutsideOfTheirTensorAreErrors) {
  ModelBuilder b = test::chain_model();
  b.arguments[1] = ModelBuilder::pointer(1, true, b.constant(17));
  auto session = open(b);
  const auto x = counting(4);
  const int64_t shape[] = {1, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("argument 1 points to byte 17 of tensor 't', which has 16"));
}

TEST(Executor, CopiesOutsideOfTheirTensorsAreErrors) {
  const auto x = counting(8);
  const int64_t shape[] = {2, 4};
  struct Case {
    int64_t destination_offset, source_offset, width, times, destination_stride, source_stride;
    const char* message;
  };
  for (const Case& c :
       {Case{1, 0, 32, 1, 0, 0, "the destination (1 rows of 32 bytes"}, Case{0, 4, 32, 1, 0, 0, "the source"},
        Case{-4, 0, 4, 1, 0, 0, "destination"}, Case{0, 0, 4, 9, 4, 4, "destination"}, Case{0, 0, 4, 8, 4, 8, "source"},
        Case{0, 0, 4, 2, 4, -4, "source"}, Case{0, 0, 8, 2, 4, 8, "to places 4 bytes apart"},
        Case{0, 0, 4, INT64_MAX, 4, 0, "destination"}, Case{0, 0, -1, 1, 0, 0, "copies 1 rows of -1 bytes"},
        Case{0, 0, 1, int64_t{1} << 40, int64_t{1} << 40, 0, "destination"}}) {
    ModelBuilder b = test::chain_model();
    b.programs[0].dma.clear();
    b.next_sequence = 3;
    b.copy(3, b.constant(c.destination_offset), 2, b.constant(c.source_offset), b.constant(c.width),
           b.constant(c.times), b.constant(c.destination_stride), b.constant(c.source_stride));
    auto session = open(b);
    ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    EXPECT_THAT(session->run().message(), HasSubstr(c.message));
  }
}

TEST(Executor, StridedCopies) {
  const auto x = counting(8);
  struct Case {
    int64_t destination_offset, source_offset, width, times, destination_stride, source_stride;
    std::vector<float> expected;  // starting from 4x everywhere
  };
  const auto y = [](std::vector<float> values) { return times(values, 4); };
  for (const Case& c :
       {Case{0, 0, 4, 8, 4, 0, y({1, 1, 1, 1, 1, 1, 1, 1})}, Case{0, 28, 4, 8, 4, -4, y({8, 7, 6, 5, 4, 3, 2, 1})},
        Case{0, 0, 8, 2, 16, 16, y({1, 2, 0, 0, 5, 6, 0, 0})}, Case{4, 0, 1, 0, 0, 0, y({0, 0, 0, 0, 0, 0, 0, 0})}}) {
    ModelBuilder b = test::chain_model();
    b.programs[0].dma.clear();
    b.next_sequence = 3;
    b.copy(3, b.constant(c.destination_offset), 2, b.constant(c.source_offset), b.constant(c.width),
           b.constant(c.times), b.constant(c.destination_stride), b.constant(c.source_stride));
    auto session = open(b);
    std::vector<float> out(8, 0.0f);
    const int64_t shape[] = {2, 4};
    ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    ASSERT_TRUE(session->bind_output(0, out.data(), 32).ok());
    const Status status = session->run();
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(out, c.expected);
  }
}

TEST(Executor, LargeCopiesAreSplitOverTheWorkers) {
  ModelBuilder b = test::chain_model();
  auto session = open(b);
  for (const int64_t n : {50000, 50001, 131071}) {
    const auto x = counting(static_cast<size_t>(n) * 4);
    EXPECT_EQ(run(*session, x, {n, 4}), times(x, 4));
  }
}

TEST(Executor, ViewsShareMemoryAndAreBounded) {
  ModelBuilder b = test::chain_model();
  // The copy reads through a view of u from byte 16 on (its last N-1 rows), into the front of y.
  const uint32_t n = b.tensors[0].shape[0];
  const uint32_t rest = b.expression(fb::ExpressionOp::kAdd, n, b.constant(-1));
  const uint32_t v = b.tensor("v", DType::kF32, {rest, b.tensors[0].shape[1]}, fb::TensorKind::kView);
  b.tensors[v].base = 2;
  b.tensors[v].view_offset = b.constant(16);
  b.programs[0].dma.clear();
  b.next_sequence = 3;
  b.copy(3, b.constant(0), v, b.constant(0), b.tensors[v].size_bytes, b.constant(1), b.constant(0), b.constant(0));
  auto session = open(b);
  const auto x = counting(12);
  const auto y = run(*session, x, {3, 4});
  EXPECT_EQ(y[0], 20);
  EXPECT_EQ(y[7], 48);

  b.tensors[v].view_offset = b.constant(32);
  session = open(b);
  const int64_t shape[] = {3, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("tensor 'v' (32 bytes at 32) is outside of tensor 'u' (48 bytes)"));
}

TEST(Executor, SizesThatDependOnDataAreBoundWhileRunning) {
  auto session = open(test::positive_model());
  EXPECT_EQ(run(*session, {1, -2, 3, 0, 5}, {5}), (std::vector<float>{2, 6, 10}));
  EXPECT_THAT(*session->output_shape(0), ElementsAre(3));
  EXPECT_EQ(run(*session, {-1, -2, 7, 0, 0}, {5}), (std::vector<float>{14}));
  EXPECT_EQ(run(*session, {-1, -2, -7, 0, 0}, {5}), (std::vector<float>{}));
  EXPECT_THAT(*session->output_shape(0), ElementsAre(0));
  EXPECT_EQ(run(*session, {1, 2, 3, 4, 5, 6, 7, 8}, {8}), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
  // Unknown after prepare(), because the data decides.
  const int64_t shape[] = {8};
  const auto x = counting(8);
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  // Memory of the caller is checked once the size is known.
  std::vector<float> y(8);
  ASSERT_TRUE(session->bind_output(0, y.data(), 7 * sizeof(float)).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("takes 32 bytes, but the memory given for it has 28"));
  ASSERT_TRUE(session->bind_output(0, y.data(), 8 * sizeof(float)).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(y[7], 16);
}

TEST(Executor, ASizeFromDataThatMakesNoSenseIsAnError) {
  ModelBuilder b = test::positive_model();
  // K is the count minus two.
  b.tensors[2].shape[0] = b.tensors[3].shape[0] =
      b.expression(fb::ExpressionOp::kAdd, b.tensors[2].shape[0], b.constant(-2));
  b.tensors[2].size_bytes = b.tensors[3].size_bytes = b.mul(b.tensors[2].shape[0], b.constant(4));
  auto session = open(b);
  const std::vector<float> x = {1, -1};
  const int64_t shape[] = {2};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  const Status status = session->run();
  EXPECT_THAT(status.message(), HasSubstr("tensor 't' has the negative size -4"));
}

TEST(Executor, BranchesRunOneOfTwoPrograms) {
  auto session = open(test::branch_model());
  const auto x = counting(5);
  const int64_t one[] = {1};
  const int64_t five[] = {5};
  for (const uint8_t condition : {1, 0, 1}) {
    ASSERT_TRUE(session->bind_input(0, {DType::kBool, one, &condition}).ok());
    ASSERT_TRUE(session->bind_input(1, {DType::kF32, five, x.data()}).ok());
    ASSERT_TRUE(session->run().ok());
    EXPECT_EQ(floats(*session->output(0)), times(x, condition ? 2 : -1));
  }
}

TEST(Executor, LoopsRunTheirBody) {
  auto session = open(test::loop_model());
  const auto x = counting(5);
  const int64_t five[] = {5};
  for (const int64_t trips : {0, 1, 4, 2}) {
    ASSERT_TRUE(session->bind_input(0, {DType::kF32, five, x.data()}).ok());
    ASSERT_TRUE(session->bind_input(1, {DType::kI64, {}, &trips}).ok());
    const Status status = session->run();
    ASSERT_TRUE(status.ok()) << status.message();
    float factor = 1;
    for (int64_t trip = 0; trip < trips; ++trip) factor *= 3;
    EXPECT_EQ(floats(*session->output(0)), times(x, factor));
  }
}

// What a file says of a result's size is held against what the body gives.
TEST(Executor, ResultsMustHaveTheSizeThatTheModelSays) {
  ModelBuilder b = test::loop_model();
  b.tensors[2].size_bytes = b.constant(8);
  b.tensors[2].shape = {b.constant(2)};
  auto session = open(b);
  const auto x = counting(5);
  const int64_t five[] = {5}, trips = 2;
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, five, x.data()}).ok());
  ASSERT_TRUE(session->bind_input(1, {DType::kI64, {}, &trips}).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("result 0 is [5], 20 bytes, where the model says 8"));
}

TEST(Executor, ChecksStopBeforeAnythingRuns) {
  ModelBuilder b = test::chain_model();
  b.strings = {"batch must be 2"};
  const uint32_t is_two = b.expression(fb::ExpressionOp::kEq, b.tensors[0].shape[0], b.constant(2));
  b.next_sequence = 4;
  b.host(fb::HostOp::kCheck, is_two, 0);
  auto session = open(b);
  const auto x = counting(12);
  const int64_t three[] = {3, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, three, x.data()}).ok());
  EXPECT_THAT(session->prepare().message(), HasSubstr("batch must be 2"));
  EXPECT_EQ(run(*session, counting(8), {2, 4}), times(counting(8), 4));
}

TEST(Executor, AnExpressionWithoutAValueIsAnErrorOnlyWhereItIsUsed) {
  ModelBuilder b = test::chain_model();
  const uint32_t n = b.tensors[0].shape[0];
  const uint32_t zero = b.constant(0);
  const uint32_t broken = b.expression(fb::ExpressionOp::kFloorDiv, n, zero);
  // select(1, count, broken) is fine.
  b.arguments[2] =
      ModelBuilder::number(b.expression(fb::ExpressionOp::kSelect, b.constant(1), b.arguments[2].index(), broken));
  auto session = open(b);
  EXPECT_EQ(run(*session, counting(4), {1, 4}), times(counting(4), 4));
  b.arguments[2] = ModelBuilder::number(broken);
  session = open(b);
  const auto x = counting(4);
  const int64_t shape[] = {1, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("argument 2: it divides by zero"));
}

TEST(Executor, ArenaMemoryIsReused) {
  // A chain of 40 kernels between arena tensors: two are alive at a time.
  ModelBuilder b;
  const uint32_t zero = b.constant(0), many = b.constant(64);
  const uint32_t n = b.symbol("N", 0, 0);
  uint32_t previous = b.tensor("x", DType::kF32, {n}, fb::TensorKind::kInput);
  const uint32_t scale = b.kernel(test::scale_kernel());
  for (uint32_t i = 0; i < 40; ++i) {
    const uint32_t next =
        b.tensor("t" + std::to_string(i), DType::kF32, {n}, i == 39 ? fb::TensorKind::kOutput : fb::TensorKind::kArena);
    b.tensors[next].first_use = i + 1;
    b.tensors[next].last_use = i + 2;
    b.launch(
        scale,
        {b.pointer(previous, false, zero), b.pointer(next, true, zero), b.number(n), b.word(i % 2 == 0 ? 2.0f : 0.5f)},
        many);
    previous = next;
  }
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::test_kernels()});
  auto session = open(b);
  const auto x = counting(1000);
  EXPECT_EQ(run(*session, x, {1000}), x);
  EXPECT_LE(session->arena_bytes(), 2 * 4032);
}

TEST(Executor, TakesOverMemoryInPlace) {
  ModelBuilder b = test::chain_model();
  b.tensors[2].in_place_of = 1;
  auto session = open(b);
  const auto x = counting(4000);
  EXPECT_EQ(run(*session, x, {1000, 4}), times(x, 4));
  EXPECT_LE(session->arena_bytes(), 16000 + 63);
}

TEST(Executor, KeepsPlansOfRecentShapes) {
  SessionOptions options;
  options.plan_cache = 2;
  auto session = open(test::chain_model(), options);
  for (int round = 0; round < 3; ++round) {
    for (const int64_t n : {1, 2, 3, 2}) {
      const auto x = counting(static_cast<size_t>(n) * 4);
      EXPECT_EQ(run(*session, x, {n, 4}), times(x, 4));
    }
  }
}

TEST(Executor, ThreadsOptionLimitsTheTecs) {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), sixteen = b.constant(16), many = b.constant(1 << 20);
  const uint32_t y = b.tensor("y", DType::kI32, {sixteen}, fb::TensorKind::kOutput);
  b.launch(b.kernel(test::tecs_kernel()), {b.pointer(y, true, zero), b.number(sixteen)}, many);
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::test_kernels()});
  for (const int threads : {1, 2, 0, 1000}) {
    SessionOptions options;
    options.threads = threads;
    auto session = open(b, options);
    std::vector<int32_t> seen(16, 0);
    ASSERT_TRUE(session->bind_output(0, seen.data(), 64).ok());
    ASSERT_TRUE(session->run().ok());
    const int cpus = static_cast<int>(available_cpus());
    const int expected = threads == 0 ? cpus : std::min(threads, cpus);
    EXPECT_EQ(session->threads(), expected);
    EXPECT_EQ(seen[0], expected);
    if (expected < 16) {
      EXPECT_EQ(seen[static_cast<size_t>(expected)], 0);
    }
  }
  // max_tecs 1 stays on the caller.
  b.programs[0].tec.clear();
  b.next_sequence = 1;
  b.launch(0, {b.pointer(y, true, zero), b.number(sixteen)}, b.constant(1));
  auto session = open(b);
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(static_cast<const int32_t*>(session->output(0)->data)[0], 1);
}

// Memory that each TEC has for itself is sized by the session.
TEST(Executor, TheNumberOfTecsIsASymbol) {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), many = b.constant(1 << 20), kilobyte = b.constant(256);
  const uint32_t tecs = b.symbol("tecs", 0, 0, fb::SymbolKind::kTecCount);
  const uint32_t y = b.tensor("y", DType::kI32, {tecs}, fb::TensorKind::kOutput);
  const uint32_t t = b.tensor("t", DType::kI32, {tecs, kilobyte}, fb::TensorKind::kArena);
  b.tensors[t].first_use = 1;
  b.tensors[t].last_use = 2;
  const uint32_t kernel = b.kernel(test::tecs_kernel());
  b.launch(kernel, {b.pointer(t, true, zero), b.number(tecs)}, many);
  b.launch(kernel, {b.pointer(y, true, zero), b.number(tecs)}, many);
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::test_kernels()});
  for (const int threads : {1, 2, 3}) {
    SessionOptions options;
    options.threads = threads;
    auto session = open(b, options);
    const int64_t expected = std::min<int64_t>(threads, available_cpus());
    ASSERT_TRUE(session->run().ok());
    EXPECT_EQ(session->arena_bytes(), 1024 * expected);
    ASSERT_EQ(std::vector<int64_t>(session->output(0)->shape.begin(), session->output(0)->shape.end()),
              std::vector<int64_t>{expected});
    for (int64_t i = 0; i < expected; ++i)
      EXPECT_EQ(static_cast<const int32_t*>(session->output(0)->data)[i], expected);
  }
}

TEST(Executor, SessionsShareAModelAcrossThreads) {
  auto model = load(test::chain_model());
  auto pool = make_worker_pool(2);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      SessionOptions options;
      options.threads = 2;
      if (t % 2 == 0) options.pool = pool;  // two borrow, two own
      auto session = Session::create(model, options);
      for (int i = 0; i < 50; ++i) {
        const int64_t n = 1 + (i * 7 + t) % 5;
        const auto x = counting(static_cast<size_t>(n) * 4);
        const int64_t shape[] = {n, 4};
        if (!session.ok() || !(*session)->bind_input(0, {DType::kF32, shape, x.data()}).ok() ||
            !(*session)->run().ok() || floats(*(*session)->output(0)) != times(x, 4)) {
          ++failures;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(Executor, BarriersMeetAllTecs) {
  auto session = open(test::barrier_model());
  for (const int64_t n : {1, 2, 1000, 7}) {
    auto x = counting(static_cast<size_t>(n));
    auto expected = x;
    std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(run(*session, x, {n}), expected);
  }
}

TEST(Executor, RefusesACpuThatLacksFeatures) {
  ModelBuilder b = test::chain_model();
#if defined(__aarch64__)
  b.features = {"asimd", "warpdrive9"};
#else
  b.features = {"fpu", "warpdrive9"};
#endif
  const auto model = Model::from_bytes(b.build());
  EXPECT_EQ(model.status().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(model.status().message(), HasSubstr("this CPU lacks warpdrive9"));
}

TEST(Executor, ProfileHasARowPerCommand) {
  ModelBuilder b = test::chain_model();
  b.programs[0].tec[0] = fb::TecCommand(1, 0, 0, 4, 0, 0, b.programs[0].tec[0].max_tecs(), 0);
  SessionOptions options;
  options.profile = true;
  auto session = open(b, options);
  run(*session, counting(8), {2, 4});
  run(*session, counting(8), {2, 4});
  const auto rows = session->profile();
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].engine, "tec");
  EXPECT_EQ(rows[0].name, "scale");
  EXPECT_EQ(rows[0].origin, "'conv' (Conv)");
  EXPECT_EQ(rows[2].engine, "dma");
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_GE(rows[i].start_ns, rows[i - 1].start_ns + rows[i - 1].duration_ns);

  const std::string path = ::testing::TempDir() + "aipu_trace.json";
  ASSERT_TRUE(session->write_profile(path).ok());
  std::ifstream file(path);
  const std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(json, HasSubstr("\"name\":\"scale\",\"cat\":\"tec\""));
  EXPECT_THAT(json, HasSubstr("\"origin\":\"'conv' (Conv)\""));
  session->clear_profile();
  EXPECT_TRUE(session->profile().empty());
}

// A counter that each reading makes larger by what the one before it has: the difference is that of two readings.
TEST(Executor, AProfileHasWhatCountersOfTheCallersHaveCounted) {
  struct Readings {
    int64_t count = 0;
  } readings;
  SessionOptions options;
  options.profile = true;
  options.threads = 1;
  options.counters = {2, &readings, [](void* self, int64_t* values) {
                        const int64_t count = ++static_cast<Readings*>(self)->count;
                        values[0] = count;
                        values[1] = count * count;
                      }};
  auto session = open(test::looped_chain_model(), options);
  run(*session, counting(12), {3, 4});
  const auto rows = session->profile();
  ASSERT_EQ(rows.size(), 9u);  // three commands, sample by sample
  for (int64_t i = 0; i < 9; ++i) {
    const int64_t before = 2 * i + 1, after = before + 1;
    EXPECT_THAT(rows[static_cast<size_t>(i)].counts, ElementsAre(1, after * after - before * before)) << i;
  }
  EXPECT_EQ(readings.count, 18);
  // Whose commands run at the same time, nobody can count.
  options.overlap = true;
  auto beside = open(test::chain_model(), options);
  run(*beside, counting(12), {3, 4});
  for (const auto& row : beside->profile()) EXPECT_TRUE(row.counts.empty());
}

// One name may stand in a thousand lines.
TEST(Executor, LongNamesAreShortened) {
  ModelBuilder b = test::chain_model();
  b.programs[0].tec[0] = fb::TecCommand(1, 0, 0, 4, 0, 0, b.programs[0].tec[0].max_tecs(), 0);
  b.origins = {"'" + std::string(1 << 20, 'n') + "' (Conv)"};
  SessionOptions options;
  options.profile = true;
  auto session = open(b, options);
  for (int i = 0; i < 20; ++i) run(*session, counting(8), {2, 4});
  const std::string path = ::testing::TempDir() + "aipu_long_trace.json";
  ASSERT_TRUE(session->write_profile(path).ok());
  std::ifstream file(path);
  const std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_LT(json.size(), 100000u);
  EXPECT_THAT(json, HasSubstr("nnn…\""));
}

TEST(WorkerPool, RunsEveryIndexOnceAlsoAfterSleep) {
  WorkerPool pool;
  const auto exclusive = pool.acquire();
  for (int round = 0; round < 200; ++round) {
    if (round % 50 == 49) std::this_thread::sleep_for(std::chrono::milliseconds(3));  // workers fall asleep
    if (round % 100 == 99) pool.wake();
    std::vector<std::atomic<int>> hits(pool.size());
    pool.run(
        pool.size(),
        [](void* argument, uint32_t index) { ++(*static_cast<std::vector<std::atomic<int>>*>(argument))[index]; },
        &hits);
    for (const auto& hit : hits) ASSERT_EQ(hit, 1);
  }
}

// Jobs follow each other faster than workers may notice: each index once, nothing of a job after run_independent() has
// returned.
TEST(WorkerPool, TakesOverWhatWorkersHaveNotBegun) {
  WorkerPool pool;
  const auto exclusive = pool.acquire();
  std::thread::id callers[2];
  for (int round = 0; round < 20000; ++round) {
    if (round % 5000 == 4999) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::vector<std::atomic<int>> hits(pool.size());
    const auto body = [](void* argument, uint32_t index) {
      ++(*static_cast<std::vector<std::atomic<int>>*>(argument))[index];
    };
    if (round % 3 == 2) {
      pool.run(pool.size(), body, &hits);
    } else {
      pool.run_independent(pool.size(), body, &hits);
    }
    for (const auto& hit : hits) ASSERT_EQ(hit, 1) << round;
  }
  // A sleeping worker is not waited for: both parts of a job of no work are the caller's, or the worker was quick.
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  const auto note = [](void* argument, uint32_t index) {
    if (index < 2) static_cast<std::thread::id*>(argument)[index] = std::this_thread::get_id();
  };
  pool.run_independent(std::min(pool.size(), 2u), note, callers);
  EXPECT_EQ(callers[0], std::this_thread::get_id());
}

}  // namespace
}  // namespace aipu::runtime
