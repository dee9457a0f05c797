// What a session refuses: use by two threads at a time, inputs without a value, memory that is not the output's alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/aipu.h"
#include "runtime/executor/worker_pool.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Session> open(const test::ModelBuilder& builder, const SessionOptions& options = {}) {
  auto model = Model::from_bytes(builder.build());
  EXPECT_TRUE(model.ok()) << model.status().message();
  auto session = model.ok() ? Session::create(*model, options) : Result<std::unique_ptr<Session>>(model.status());
  return session.ok() ? std::move(session).value() : nullptr;
}

const int64_t kTwoByFour[] = {2, 4};
const float kInput[8] = {1, 2, 3, 4, 5, 6, 7, 8};

// A run that waits for its worker pool is a run in progress: the pool is held here until all has been tried.
TEST(SessionUse, EveryCallOfASecondThreadIsRefused) {
  SessionOptions options;
  options.pool = make_worker_pool(1);
  const auto session = open(test::chain_model(), options);
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, kTwoByFour, kInput}).ok());
  auto held = options.pool->acquire();
  Status first;
  std::thread other([&] {  // again if it met one of the calls that look for it below
    do first = session->run();
    while (first.message().find("in use by another thread") != std::string::npos);
  });
  // The other thread is in run() as soon as a call is refused; before that they succeed, and change nothing.
  while (session->bind_output(0, nullptr, 0).ok()) std::this_thread::yield();
  const std::string text = "in use by another thread";
  EXPECT_THAT(session->bind_input(0, {DType::kF32, kTwoByFour, kInput}).message(), HasSubstr(text));
  EXPECT_THAT(session->bind_output(0, nullptr, 0).message(), HasSubstr(text));
  EXPECT_THAT(session->prepare().message(), HasSubstr(text));
  EXPECT_THAT(session->run().message(), HasSubstr(text));
  EXPECT_THAT(session->output(0).status().message(), HasSubstr(text));
  EXPECT_THAT(session->output_shape(0).status().message(), HasSubstr(text));
  held.unlock();
  other.join();
  EXPECT_TRUE(first.ok()) << first.message();
  ASSERT_TRUE(session->output(0).ok());
  EXPECT_EQ(static_cast<const float*>(session->output(0)->data)[7], 32);
}

TEST(SessionUse, ABindThatFailsLeavesNoEarlierValueBehind) {
  const auto session = open(test::chain_model());
  ASSERT_NE(session, nullptr);
  EXPECT_THAT(session->run().message(), HasSubstr("input 'x' has no value"));
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, kTwoByFour, kInput}).ok());
  ASSERT_TRUE(session->run().ok());
  ASSERT_TRUE(session->run().ok());  // a bind stays for later runs
  EXPECT_FALSE(session->bind_input(0, {DType::kI32, kTwoByFour, kInput}).ok());
  EXPECT_THAT(session->run().message(), HasSubstr("input 'x' has no value"));
  EXPECT_THAT(session->prepare().message(), HasSubstr("input 'x' has no value"));
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, kTwoByFour, kInput}).ok());
  EXPECT_TRUE(session->run().ok());
}

TEST(SessionUse, AnOutputHasMemoryOfItsOwn) {
  const auto session = open(test::chain_model());
  ASSERT_NE(session, nullptr);
  float memory[16] = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, kTwoByFour, memory}).ok());
  for (const size_t begin : {0, 1, 7}) {
    ASSERT_TRUE(session->bind_output(0, memory + begin, 8 * sizeof(float)).ok());
    EXPECT_THAT(session->run().message(), HasSubstr("output 'y' overlaps that of input 'x'")) << begin;
  }
  ASSERT_TRUE(session->bind_output(0, memory + 8, 8 * sizeof(float)).ok());
  EXPECT_TRUE(session->run().ok());
  EXPECT_EQ(memory[15], 32);
}

TEST(SessionUse, DataIsAlignedToItsElements) {
  const auto session = open(test::chain_model());
  ASSERT_NE(session, nullptr);
  alignas(4) char memory[64] = {};
  EXPECT_THAT(session->bind_input(0, {DType::kF32, kTwoByFour, memory + 1}).message(),
              HasSubstr("input 'x' is not aligned"));
  EXPECT_THAT(session->bind_output(0, memory + 2, 32).message(), HasSubstr("output 'y' is not aligned"));
}

}  // namespace
}  // namespace aipu::runtime
