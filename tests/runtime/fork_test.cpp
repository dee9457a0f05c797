// fork() after a run: the child has none of the threads, and its sessions run all the same.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "runtime/executor/worker_pool.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

// In a child made by fork(): 0 if all went well. One that hangs is ended after a while by its alarm.
int in_a_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool reverses(Session& session, size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i);
  const int64_t shape[] = {static_cast<int64_t>(count)};
  if (!session.bind_input(0, {DType::kF32, shape, x.data()}).ok() || !session.run().ok()) return false;
  const auto* y = static_cast<const float*>(session.output(0)->data);
  for (size_t i = 0; i < count; ++i) {
    if (y[i] != x[count - 1 - i]) return false;
  }
  return true;
}

class Fork : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<const Model> model() const {
    test::ModelBuilder builder = test::barrier_model();
    builder.target = GetParam();
    auto loaded = Model::from_bytes(builder.build());
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded.ok() ? *loaded : nullptr;
  }
};

TEST_P(Fork, AChildRunsTheSessionsOfItsParent) {
  auto session = std::move(Session::create(model())).value();
  ASSERT_TRUE(reverses(*session, 100));
  EXPECT_EQ(in_a_child([&] { return reverses(*session, 100) && reverses(*session, 101); }), 0);
  EXPECT_TRUE(reverses(*session, 102));
  // A child of a child, which has used its threads or has not.
  EXPECT_EQ(in_a_child([&] { return in_a_child([&] { return reverses(*session, 103); }) == 0; }), 0);
  EXPECT_EQ(in_a_child([&] {
              return reverses(*session, 104) && in_a_child([&] { return reverses(*session, 105); }) == 0 &&
                     reverses(*session, 106);
            }),
            0);
}

TEST_P(Fork, AChildEndsTheSessionsOfItsParentAndMakesItsOwn) {
  auto shared = model();
  auto session = std::move(Session::create(shared)).value();
  ASSERT_TRUE(reverses(*session, 100));
  EXPECT_EQ(in_a_child([&] {
              session.reset();
              return reverses(*std::move(Session::create(shared)).value(), 50);
            }),
            0);
  EXPECT_EQ(in_a_child([&] {  // used, then ended
              if (!reverses(*session, 10)) return false;
              session.reset();
              return true;
            }),
            0);
  EXPECT_TRUE(reverses(*session, 100));
}

INSTANTIATE_TEST_SUITE_P(Targets, Fork, ::testing::Values("host-baseline", "X2_1204"),
                         [](const auto& row) { return std::string(row.param).substr(0, 2); });

// A thread of the parent had the pool when the process was forked: it is not there to give it back. A session that it
// ran stays refused, all others go on.
TEST(Fork, APoolThatWasInUse) {
  const auto model = Model::from_bytes(test::barrier_model().build());
  ASSERT_TRUE(model.ok());
  SessionOptions options;
  options.pool = make_worker_pool(0);
  auto first = std::move(Session::create(*model, options)).value();
  auto second = std::move(Session::create(*model, options)).value();
  ASSERT_TRUE(reverses(*first, 10));
  auto held = options.pool->acquire();
  std::thread other([&] {
    while (!first->run().ok()) std::this_thread::yield();
  });
  while (first->bind_output(0, nullptr, 0).ok()) std::this_thread::yield();  // until it is in run()
  EXPECT_EQ(in_a_child([&] {
              bool same = true;
              std::thread another([&] { same = reverses(*second, 100); });
              const bool refused = first->run().message().find("when this process was forked") != std::string::npos;
              another.join();
              return same && refused;
            }),
            0);
  held.unlock();
  other.join();
  EXPECT_TRUE(reverses(*first, 10));
}

}  // namespace
}  // namespace aipu::runtime
