// Programs run: shapes, bindings, copies, views, control flow, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/open_model.h"

namespace aipu::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Executor, RunsTheChainAtSeveralShapesFromOneFile) {
  auto session = open(test::chain_model());
  for (const int64_t n : {1, 3, 8, 3, 1, 1000, 1, 0}) {
    const auto x = counting(static_cast<size_t>(n) * 4);
    EXPECT_EQ(run(*session, x, {n, 4}), times(x, 4)) << n;
    EXPECT_THAT(*session->output_shape(0), ElementsAre(n, 4));
  }
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

}  // namespace
}  // namespace aipu::runtime
