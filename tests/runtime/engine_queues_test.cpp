// Engines side by side (SessionOptions::overlap): that they are, that waits hold, and that nothing else changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/executor/worker_pool.h"
#include "runtime/session.h"
#include "tests/runtime/random_plan.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using test::random_plan;
using ::testing::HasSubstr;

std::unique_ptr<Session> open(const ModelBuilder& builder, bool overlap) {
  auto model = Model::from_bytes(builder.build());
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return nullptr;
  SessionOptions options;
  options.overlap = overlap;
  options.profile = true;
  auto session = Session::create(*model, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(session).value() : nullptr;
}

// No row begins before those that it waits for have ended, nor before the one before it on its engine.
void check_times(const Session& session) {
  const auto rows = session.profile();
  std::map<std::string_view, int64_t> ends;
  for (const auto& row : rows) {
    for (const uint32_t wait : row.waits)
      EXPECT_LE(rows[wait].start_ns + rows[wait].duration_ns, row.start_ns) << row.engine << " " << row.command;
    EXPECT_LE(ends[row.engine], row.start_ns);
    ends[row.engine] = row.start_ns + row.duration_ns;
  }
}

// A kernel that is done when a copy has been done that it does not wait for, and comes first in the order of the file.
// Played in turns, it would wait in vain: it gives up after some seconds then.
TEST(EngineQueues, ACopyIsPlayedBesideTheKernelBeforeIt) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a race on purpose";
#endif
  if (available_cpus() < 2) GTEST_SKIP() << "one CPU";
  constexpr const char* kText = R"(
#include <sched.h>
#include "runtime/abi/kernel_abi.h"
static void await(const aipu_tec_context* c, const unsigned long long* w) {
  const int* flag = (const int*)w[0]; int* seen = (int*)w[1];
  int value = 0;
  for (long i = 0; i < 20000000 && value == 0; ++i) {
    value = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
    if (i % 1000 == 999) sched_yield();
  }
  if (c->tec_id == 0) *seen = value;
}
static const aipu_kernel_info kKernels[] = {{"await", await, 2, 0, 0, 0}};
static const aipu_kernel_module kModule = {AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS, sizeof(aipu_kernel_info), 1, kKernels};
const aipu_kernel_module* aipu_kernel_module_v1(void) { return &kModule; }
)";
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), four = b.constant(4);
  const uint32_t x = b.tensor("x", DType::kI32, {one}, fb::TensorKind::kInput);
  const uint32_t flag = b.tensor("flag", DType::kI32, {one}, fb::TensorKind::kOutput);
  const uint32_t seen = b.tensor("seen", DType::kI32, {one}, fb::TensorKind::kOutput);
  b.launch(b.kernel({.name = "await", .pointers = {true, true}}),
           {b.pointer(flag, false, zero), b.pointer(seen, true, zero)}, one);
  b.copy(flag, zero, x, zero, four, one, zero, zero);
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::compile_module(kText)});
  const auto session = open(b, true);
  ASSERT_NE(session, nullptr);
  const int32_t value = 42;
  const std::vector<int64_t> shape = {1};
  int32_t flag_memory = 0, seen_memory = 0;
  ASSERT_TRUE(session->bind_input(0, {DType::kI32, shape, &value}).ok());
  ASSERT_TRUE(session->bind_output(0, &flag_memory, 4).ok());
  ASSERT_TRUE(session->bind_output(1, &seen_memory, 4).ok());
  const Status status = session->run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(seen_memory, 42);
  const auto rows = session->profile();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].engine, "tec");
  EXPECT_LE(rows[1].start_ns, rows[0].start_ns + rows[0].duration_ns) << "the copy begins before the kernel ends";
}

TEST(EngineQueues, RandomPlansGiveTheSameBytesAndKeepTheirWaits) {
  std::vector<float> x(256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.25f;
  const std::vector<int64_t> shape = {256};
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const ModelBuilder plan = random_plan(seed);
    const auto in_turns = open(plan, false), beside = open(plan, true);
    ASSERT_TRUE(in_turns != nullptr && beside != nullptr);
    for (Session* session : {in_turns.get(), beside.get()})
      ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    ASSERT_TRUE(in_turns->run().ok());
    const auto expected = *in_turns->output(0);
    for (int round = 0; round < 5; ++round) {
      beside->clear_profile();
      const Status status = beside->run();
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(std::memcmp(beside->output(0)->data, expected.data, 5 * 256 * sizeof(float)), 0) << seed;
      ASSERT_EQ(beside->profile().size(), in_turns->profile().size());
      check_times(*beside);
    }
  }
}

// Stages, batch loops and bodies are between the stretches.
TEST(EngineQueues, OtherModelsRunAsBefore) {
  const std::vector<float> x = {1, -2, 3, 4, -5, 6, 7, 8};
  for (ModelBuilder b : {test::chain_model(), test::looped_chain_model()}) {
    const auto session = open(b, true);
    ASSERT_NE(session, nullptr);
    const std::vector<int64_t> shape = {2, 4};
    ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(session->run().ok());
    const auto* y = static_cast<const float*>(session->output(0)->data);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 4 * x[i]);
  }
  const auto stages = open(test::positive_model(), true);
  const std::vector<int64_t> shape = {8};
  ASSERT_TRUE(stages->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(stages->run().ok());
  EXPECT_THAT(*stages->output_shape(0), ::testing::ElementsAre(6));
  const auto loop = open(test::loop_model(), true);
  const int64_t trips = 4;
  ASSERT_TRUE(loop->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(loop->bind_input(1, {DType::kI64, {}, &trips}).ok());
  ASSERT_TRUE(loop->run().ok());
  EXPECT_EQ(static_cast<const float*>(loop->output(0)->data)[2], 81 * 3);
}

// In a child made by fork(), which has none of the threads.
TEST(EngineQueues, AChildRunsTheSessionsOfItsParent) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child made by fork()";
#endif
  const auto session = open(random_plan(1), true);
  ASSERT_NE(session, nullptr);
  const std::vector<float> x(256, 3);
  const std::vector<int64_t> shape = {256};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(session->run().ok());
  const auto* y = static_cast<const float*>(session->output(0)->data);
  const std::vector<float> expected(y, y + 5 * 256);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const bool good = session->run().ok() && session->run().ok() &&
                      std::memcmp(session->output(0)->data, expected.data(), expected.size() * sizeof(float)) == 0;
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// An error ends both queues, also while one waits for the other, and names its node.
TEST(EngineQueues, AnErrorStopsTheOtherQueue) {
  ModelBuilder b = test::faulty_model();
  const uint32_t zero = b.constant(0), one = b.constant(1), four = b.constant(4);
  b.tensors[1].last_use = 3;
  b.copy(1, zero, 0, zero, four, one, zero, zero, 0, {{fb::Engine::kTec, 1}});
  const auto session = open(b, true);
  ASSERT_NE(session, nullptr);
  std::vector<float> x(8, 4);
  const std::vector<int64_t> shape = {2, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  for (int i = 0; i < 20; ++i) {
    x[6] = -7;
    EXPECT_EQ(session->run().message(), "'root {value}' (Sqrt): a root of -7 at 6, -7");
    x[6] = 4;
    const Status status = session->run();
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(EngineQueues, VirtualTimeIsOfOneCommandAfterTheOther) {
  const auto model = Model::from_bytes(test::chain_model().build());
  ASSERT_TRUE(model.ok());
  SessionOptions options;
  options.cycles = options.overlap = true;
  EXPECT_THAT(Session::create(*model, options).status().message(),
              HasSubstr("it cannot go together with SessionOptions::overlap"));
}

}  // namespace
}  // namespace aipu::runtime
