// Submitted runs (Session::submit): their order, results and errors, sessions that go while runs are in flight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "runtime/executor/worker_pool.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Model> load(const test::ModelBuilder& builder) {
  auto model = Model::from_bytes(builder.build());
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : nullptr;
}

std::unique_ptr<Session> open(const std::shared_ptr<const Model>& model, const SessionOptions& options = {}) {
  auto session = Session::create(model, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(session).value() : nullptr;
}

// An input of chain_model(), which is multiplied by 4, with the run that has got it.
struct Query {
  std::vector<int64_t> shape;
  std::vector<float> x;
  std::vector<float> y;  // memory for the output; empty: the run's own
  std::shared_ptr<runtime::Run> run;

  explicit Query(int seed, bool own_memory = false) : shape{1 + seed * 7 % 5, 4} {
    for (int64_t i = 0; i < shape[0] * 4; ++i) x.push_back(static_cast<float>(seed * 100 + i));
    if (own_memory) y.resize(x.size());
  }
  Status submit(Session& session, std::function<void(const runtime::Run&)> done = {}) {
    const TensorView input = {DType::kF32, shape, x.data()};
    const OutputMemory output = {y.data(), y.size() * sizeof(float)};
    auto submitted = session.submit({&input, 1}, {&output, y.empty() ? 0u : 1u}, std::move(done));
    if (submitted.ok()) run = *submitted;
    return submitted.status();
  }
  // "" if the run has given the right result.
  std::string problem() const {
    if (const Status status = run->wait(); !status.ok()) return status.message();
    const auto output = run->output(0);
    if (!output.ok()) return output.status().message();
    if (!std::equal(shape.begin(), shape.end(), output->shape.begin(), output->shape.end())) return "another shape";
    if (!y.empty() && output->data != y.data()) return "not in the memory that was given";
    const auto* data = static_cast<const float*>(output->data);
    for (size_t i = 0; i < x.size(); ++i) {
      if (data[i] != 4 * x[i]) return "another value";
    }
    return "";
  }
};

TEST(Async, EachRunHasItsOwnInputsAndOutputs) {
  const auto session = open(load(test::chain_model()));
  ASSERT_NE(session, nullptr);
  std::vector<Query> queries;
  for (int seed = 0; seed < 60; ++seed) queries.emplace_back(seed, seed % 3 == 0);
  for (Query& query : queries) {
    const Status status = query.submit(*session, [](const runtime::Run& run) { EXPECT_TRUE(run.is_done()); });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Looked at when all is over: nothing is overwritten by what came later.
  ASSERT_TRUE(queries.back().run->wait().ok());
  for (const Query& query : queries) EXPECT_EQ(query.problem(), "");
}

TEST(Async, CallbacksComeInTheOrderOfTheRuns) {
  auto session = open(load(test::chain_model()));
  ASSERT_NE(session, nullptr);
  std::vector<int> order;
  std::vector<Query> queries;
  for (int seed = 0; seed < 20; ++seed) queries.emplace_back(seed);
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(queries[static_cast<size_t>(i)]
                    .submit(*session, [&order, i](const runtime::Run&) { order.push_back(i); })
                    .ok());
  for (const Query& query : queries) EXPECT_EQ(query.problem(), "");
  session.reset();  // the last callback has been called when it is gone
  std::vector<int> expected(20);
  for (int i = 0; i < 20; ++i) expected[static_cast<size_t>(i)] = i;
  EXPECT_EQ(order, expected);
}

TEST(Async, ErrorsArriveWithTheirRuns) {
  const auto session = open(load(test::faulty_model()));
  ASSERT_NE(session, nullptr);
  const std::vector<float> good(8, 4), bad = {1, 1, -7, 1, 1, 1, 1, 1};
  const std::vector<int64_t> shape = {2, 4}, wrong = {4, 2};
  const std::vector<const std::vector<float>*> inputs = {&good, &bad, &good, &good, &bad, &good};
  std::vector<std::shared_ptr<runtime::Run>> runs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView input = {DType::kF32, i == 3 ? wrong : shape, inputs[i]->data()};
    auto run = session->submit({&input, 1});
    ASSERT_TRUE(run.ok()) << run.status().message();
    runs.push_back(*run);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const Status status = runs[i]->wait();
    EXPECT_EQ(status.ok(), runs[i]->output(0).ok());
    if (i == 1 || i == 4) {
      EXPECT_EQ(status.message(), "'root {value}' (Sqrt): a root of -7 at 2, -7");
    } else if (i == 3) {
      EXPECT_THAT(status.message(), HasSubstr("axis 1: expected 4, found 2"));
    } else {
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
  // What does not fit the model at all is not submitted.
  const TensorView integers = {DType::kI32, shape, good.data()};
  EXPECT_THAT(session->submit({&integers, 1}).status().message(), HasSubstr("expected float32, found int32"));
  EXPECT_THAT(session->submit({}).status().message(), HasSubstr("the model takes 1 inputs, found 0"));
  const TensorView input = {DType::kF32, shape, good.data()};
  const OutputMemory outputs[2] = {};
  EXPECT_THAT(session->submit({&input, 1}, outputs).status().message(), HasSubstr("gives 1 outputs, found 2"));
  EXPECT_THAT(runs[0]->output(1).status().message(), HasSubstr("output 1 of 1"));
}

TEST(Async, GivenMemoryMustDo) {
  const auto session = open(load(test::chain_model()));
  ASSERT_NE(session, nullptr);
  Query query(3, true);
  query.y.resize(2);
  ASSERT_TRUE(query.submit(*session).ok());
  EXPECT_THAT(query.run->wait().message(), HasSubstr("but the memory given for it has 8"));
  const TensorView input = {DType::kF32, query.shape, query.x.data()};
  const OutputMemory overlapping = {query.x.data(), query.x.size() * sizeof(float)};
  auto run = session->submit({&input, 1}, {&overlapping, 1});
  ASSERT_TRUE(run.ok());
  EXPECT_THAT((*run)->wait().message(), HasSubstr("overlaps that of input 'x'"));
}

// A run that waits for its worker pool is in flight: the pool is held here until all has been tried.
TEST(Async, OtherCallsAreRefusedWhileRunsAreInFlight) {
  SessionOptions options;
  options.pool = make_worker_pool(1);
  const auto session = open(load(test::chain_model()), options);
  ASSERT_NE(session, nullptr);
  Query query(2);
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, query.shape, query.x.data()}).ok());
  ASSERT_TRUE(session->run().ok());
  ASSERT_TRUE(session->output(0).ok());
  {
    const auto held = options.pool->acquire();
    ASSERT_TRUE(query.submit(*session).ok());
    EXPECT_FALSE(query.run->is_done());
    EXPECT_FALSE(query.run->wait_for(0.001));
    EXPECT_THAT(query.run->output(0).status().message(), HasSubstr("not done yet"));
    EXPECT_FALSE(session->is_idle());
    for (const Status& status :
         {session->bind_input(0, {DType::kF32, query.shape, query.x.data()}), session->bind_output(0, nullptr, 0),
          session->prepare(), session->run(), session->output_shape(0).status(), session->output(0).status()}) {
      EXPECT_THAT(status.message(), HasSubstr("submitted runs are in flight"));
    }
  }
  EXPECT_EQ(query.problem(), "");
  EXPECT_TRUE(session->is_idle());
  // Nothing is bound any more, and no output known.
  EXPECT_THAT(session->run().message(), HasSubstr("input 'x' has no value"));
  EXPECT_FALSE(session->output(0).ok());
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, query.shape, query.x.data()}).ok());
  EXPECT_TRUE(session->run().ok());
  EXPECT_TRUE(session->output(0).ok());
}

// All runs are done when their session is gone: first some with results, then those that had not begun.
TEST(Async, ASessionThatGoesEndsItsRuns) {
  const auto model = load(test::chain_model());
  for (int round = 0; round < 20; ++round) {
    auto session = open(model);
    ASSERT_NE(session, nullptr);
    std::vector<Query> queries;
    for (int seed = 0; seed < 20; ++seed) queries.emplace_back(seed, seed % 2 == 0);
    std::atomic<int> called{0};
    for (Query& query : queries) ASSERT_TRUE(query.submit(*session, [&](const runtime::Run&) { ++called; }).ok());
    if (round % 2 == 0) {
      ASSERT_EQ(queries[3].problem(), "");
    }
    session.reset();
    EXPECT_EQ(called, 20);
    bool ended = false;
    for (const Query& query : queries) {
      ASSERT_TRUE(query.run->is_done());
      const std::string problem = query.problem();
      if (!problem.empty()) ended = true;
      EXPECT_EQ(problem, ended ? "the session was closed before this run began" : "");
    }
  }
}

TEST(Async, ACallbackMaySubmitAndEndItsSession) {
  auto session = open(load(test::chain_model()));
  ASSERT_NE(session, nullptr);
  Query first(1), second(2), third(3), fourth(4);
  std::promise<Status> submitted;
  ASSERT_TRUE(first.submit(*session, [&](const runtime::Run&) { submitted.set_value(second.submit(*session)); }).ok());
  ASSERT_TRUE(submitted.get_future().get().ok());
  EXPECT_EQ(second.problem(), "");

  std::promise<void> go;
  ASSERT_TRUE(third
                  .submit(*session,
                          [&](const runtime::Run&) {
                            go.get_future().wait();  // until the fourth has been submitted
                            session.reset();
                          })
                  .ok());
  ASSERT_TRUE(fourth.submit(*session).ok());
  go.set_value();
  EXPECT_EQ(third.problem(), "");
  EXPECT_EQ(fourth.problem(), "the session was closed before this run began");
}

TEST(Async, SeveralThreadsSubmitToSeveralSessionsOfOneModel) {
  const auto model = load(test::chain_model());
  SessionOptions shared;
  shared.pool = make_worker_pool(2);
  const auto a = open(model, shared), b = open(model, shared), c = open(model);
  std::vector<std::string> problems(6);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      Session& session = t % 3 == 0 ? *a : t % 3 == 1 ? *b : *c;
      std::vector<Query> queries;
      for (int seed = 0; seed < 25; ++seed) queries.emplace_back(seed * 6 + t, seed % 2 == 0);
      for (Query& query : queries) {
        if (!query.submit(session).ok()) problems[static_cast<size_t>(t)] += "not submitted ";
      }
      for (const Query& query : queries) problems[static_cast<size_t>(t)] += query.problem();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

// Results that have been handed over are no memory of the session's any more.
TEST(Async, ResultsDoNotCountAsTheSessionsMemory) {
  SessionOptions options;
  options.memory_limit_bytes = 1 << 20;
  const auto session = open(load(test::chain_model()), options);
  ASSERT_NE(session, nullptr);
  std::vector<Query> queries;
  const std::vector<int64_t> shape = {4096, 4};  // 64 KiB
  const std::vector<float> x(4096 * 4, 1);
  std::vector<std::shared_ptr<runtime::Run>> runs;
  for (int i = 0; i < 40; ++i) {
    const TensorView input = {DType::kF32, shape, x.data()};
    auto run = session->submit({&input, 1});
    ASSERT_TRUE(run.ok());
    runs.push_back(*run);
  }
  for (const auto& run : runs) EXPECT_TRUE(run->wait().ok()) << run->wait().message();
}

TEST(Async, AChildLosesTheRunsOfItsParentAndSubmitsItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child made by fork()";
#endif
  SessionOptions options;
  options.pool = make_worker_pool(1);
  const auto model = load(test::chain_model());
  const auto busy = open(model, options);
  const auto idle = open(model);
  ASSERT_TRUE(busy != nullptr && idle != nullptr);
  Query before(1), lost(2);
  ASSERT_TRUE(before.submit(*idle).ok());
  EXPECT_EQ(before.problem(), "");
  auto held = options.pool->acquire();
  ASSERT_TRUE(lost.submit(*busy).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    Query own(3);
    const bool good = before.problem().empty() &&
                      lost.problem().find("submitted before this process was forked") != std::string::npos &&
                      !lost.run->wait_for(0) && own.submit(*idle).ok() && own.problem().empty();
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  held.unlock();
  EXPECT_EQ(lost.problem(), "");
}

}  // namespace
}  // namespace aipu::runtime
