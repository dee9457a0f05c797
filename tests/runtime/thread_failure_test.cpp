// A system that has no more threads to give: who needs them all says so, the others go on with those there are.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>

#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "runtime/base/parallel.h"
#include "runtime/executor/worker_pool.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace {
std::atomic<int> threads_left{1 << 30};
}

// Everybody's in this program: the libraries resolve it here.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*body)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return threads_left.fetch_sub(1) > 0 ? create(thread, attributes, body, argument) : EAGAIN;
}

namespace aipu {
namespace {

using ::testing::HasSubstr;

// The next `count` threads can be started, no more.
struct ThreadsLeft {
  explicit ThreadsLeft(int count) { threads_left = count; }
  ~ThreadsLeft() { threads_left = 1 << 30; }
};

TEST(ThreadFailure, ParallelForGoesOnWithTheThreadsThereAre) {
  for (int left = 0; left < 4; ++left) {
    const ThreadsLeft limit(left);
    std::vector<std::atomic<int>> calls(100);
    parallel_for(calls.size(), 4, [&](size_t i) { ++calls[i]; });
    for (const auto& call : calls) EXPECT_EQ(call, 1);
  }
}

TEST(ThreadFailure, ParallelForThrowsWhatABodyThrows) {
  for (const int jobs : {1, 4}) {
    EXPECT_THROW(parallel_for(100, jobs,
                              [](size_t i) {
                                if (i == 37) throw std::length_error("37");
                              }),
                 std::length_error);
  }
}

runtime::SessionOptions threads(int count) {
  runtime::SessionOptions options;
  options.threads = count;
  return options;
}

TEST(ThreadFailure, AWorkerPoolIsAsLargeAsItGets) {
  const auto model = runtime::Model::from_bytes(test::barrier_model().build());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ThreadsLeft limit(0);
  const runtime::WorkerPool pool(4);
  EXPECT_EQ(pool.size(), 1u);
  auto session = runtime::Session::create(*model, threads(4));
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ((*session)->threads(), 1);
  const float x[] = {1, 2, 3};
  const int64_t shape[] = {3};
  ASSERT_TRUE((*session)->bind_input(0, {DType::kF32, shape, x}).ok());
  const Status status = (*session)->run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(static_cast<const float*>((*session)->output(0)->data)[0], 3);
}

TEST(ThreadFailure, TheModelOfTheNpuNeedsAllOfItsThreads) {
  test::ModelBuilder builder = test::barrier_model();
  builder.target = "X2_1204";
  const auto model = runtime::Model::from_bytes(builder.build());
  ASSERT_TRUE(model.ok()) << model.status().message();
  for (int left = 0; left < 4; ++left) {
    const ThreadsLeft limit(left);
    EXPECT_THAT(runtime::Session::create(*model, threads(1)).status().message(), HasSubstr("that stand for TECs"))
        << left;
  }
  EXPECT_TRUE(runtime::Session::create(*model, threads(1)).ok());
}

TEST(ThreadFailure, TheInterpreterNeedsAThreadPerTecThatMeets) {
  auto module = tir::parse_module(R"(
    func f(out#0: global int32*) -> void {
      let id#1: int32 = S.get_local_id<int32>()
      eval S.barrier<void>()
      store out#0[id#1] = id#1
    }
  )");
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::vector<int32_t> out(4, -1);
  tir::InterpreterArgument argument;
  argument.is_pointer = true;
  argument.data = reinterpret_cast<std::byte*>(out.data());
  argument.bytes = out.size() * sizeof(int32_t);
  const std::vector<tir::InterpreterArgument> arguments = {argument};
  for (int left = 0; left < 3; ++left) {
    const ThreadsLeft limit(left);
    EXPECT_THAT(tir::interpret_all(*module, 4, arguments).message(), HasSubstr("has no 4 threads")) << left;
    EXPECT_EQ(out, std::vector<int32_t>(4, -1));
  }
  EXPECT_TRUE(tir::interpret_all(*module, 4, arguments).ok());
  EXPECT_EQ(out, (std::vector<int32_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace aipu
