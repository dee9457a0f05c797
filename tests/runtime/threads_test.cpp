// Many threads, for the thread sanitizer (run-tests.sh builds this program with it, kernels included) and without it:
// sessions over one model, made and ended at the same time, kernels that meet at barriers, pools that are shared.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/executor/worker_pool.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

constexpr int kThreads = 8;

// body(t) in kThreads threads; each returns what went wrong, empty if nothing did.
template <typename Body>
void in_threads(const Body& body) {
  std::vector<std::string> problems(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { problems[static_cast<size_t>(t)] = body(t); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

std::shared_ptr<const Model> load(const test::ModelBuilder& builder) {
  auto model = Model::from_bytes(builder.build());
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : nullptr;
}

std::vector<float> counting(size_t count, int first) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(first) + static_cast<float>(i);
  return x;
}

// x of one row or of rows of four, and what the model makes of it.
struct Case {
  std::vector<int64_t> shape;
  std::vector<float> x, y;
};

Case reversed(int seed) {
  Case result;
  result.x = counting(static_cast<size_t>(1 + seed * 37 % 200), seed);
  result.shape = {static_cast<int64_t>(result.x.size())};
  result.y.assign(result.x.rbegin(), result.x.rend());
  return result;
}

Case four_times(int seed) {
  Case result;
  const int64_t rows = 1 + seed * 7 % 6;
  result.x = counting(static_cast<size_t>(rows) * 4, seed);
  result.shape = {rows, 4};
  for (const float value : result.x) result.y.push_back(4 * value);
  return result;
}

std::string run(Session& session, const Case& c) {
  Status status = session.bind_input(0, {DType::kF32, c.shape, c.x.data()});
  if (status.ok()) status = session.run();
  if (!status.ok()) return status.message();
  const auto y = session.output(0);
  if (!y.ok()) return y.status().message();
  const auto* values = static_cast<const float*>(y->data);
  return std::equal(c.y.begin(), c.y.end(), values) ? "" : "wrong values";
}

struct Row {
  const char* name;
  const char* target;
  test::ModelBuilder (*model)();
  Case (*make)(int seed);
};

class Threads : public ::testing::TestWithParam<Row> {
 protected:
  static test::ModelBuilder builder() {
    test::ModelBuilder result = GetParam().model();
    result.target = GetParam().target;
    return result;
  }
};

TEST_P(Threads, EachWithASessionOfItsOwn) {
  const auto model = load(builder());
  in_threads([&](int t) -> std::string {
    auto session = Session::create(model);
    if (!session.ok()) return session.status().message();
    for (int i = 0; i < 5; ++i) {
      if (auto problem = run(**session, GetParam().make(t * 100 + i)); !problem.empty()) return problem;
    }
    return "";
  });
}

TEST_P(Threads, SessionsComeAndGo) {
  const auto model = load(builder());
  const auto shared = make_worker_pool(0);
  in_threads([&](int t) -> std::string {
    for (int i = 0; i < 6; ++i) {
      SessionOptions options;
      options.threads = 1 + i % 3;
      options.profile = i % 2 == 0;
      if (t % 2 == 0) options.pool = shared;  // half of them take turns with its workers
      auto session = Session::create(model, options);
      if (!session.ok()) return session.status().message();
      for (int k = 0; k < i % 3; ++k) {
        if (auto problem = run(**session, GetParam().make(t * 100 + i + k)); !problem.empty()) return problem;
      }
      if (options.profile && i % 3 > 0 && (*session)->profile().empty()) return "no profile";
    }
    return "";
  });
}

TEST_P(Threads, ModelsComeAndGo) {
  const auto bytes = builder().build();
  in_threads([&](int t) -> std::string {
    for (int i = 0; i < 3; ++i) {
      auto model = Model::from_bytes(bytes);
      if (!model.ok()) return model.status().message();
      auto session = Session::create(*model);
      model->reset();  // the session keeps it
      if (!session.ok()) return session.status().message();
      if (auto problem = run(**session, GetParam().make(t + i)); !problem.empty()) return problem;
    }
    return "";
  });
}

// A session that all want: each call is carried out alone or refused.
TEST_P(Threads, OneSessionIsRefusedToTheOthers) {
  auto session = std::move(Session::create(load(builder()))).value();
  const Case c = GetParam().make(5);
  ASSERT_EQ(run(*session, c), "");
  std::atomic<int> runs{0};
  in_threads([&](int) -> std::string {
    for (int i = 0; i < 15; ++i) {
      const Status status = i % 5 == 0 ? session->bind_input(0, {DType::kF32, c.shape, c.x.data()}) : session->run();
      if (status.ok()) {
        ++runs;
      } else if (status.message().find("in use by another thread") == std::string::npos) {
        return status.message();
      }
      if (const auto shape = session->output_shape(0); shape.ok() && shape->size() != c.shape.size()) return "shape";
    }
    return "";
  });
  EXPECT_GT(runs, 0);
  EXPECT_EQ(run(*session, c), "");
}

INSTANTIATE_TEST_SUITE_P(Models, Threads,
                         ::testing::Values(Row{"HostBarriers", "host-baseline", &test::barrier_model, &reversed},
                                           Row{"NpuBarriers", "X2_1204", &test::barrier_model, &reversed},
                                           Row{"HostChain", "host-baseline", &test::chain_model, &four_times},
                                           Row{"HostLoop", "host-baseline", &test::looped_chain_model, &four_times}),
                         [](const auto& row) { return std::string(row.param.name); });

// What jobs write is seen by the caller, and by the next job in whatever thread: plain memory, no atomics.
TEST(WorkerPools, PassMemoryFromJobToJob) {
  WorkerPool pool;
  const auto exclusive = pool.acquire();
  std::vector<int64_t> sums(pool.size());
  for (int round = 0; round < 400; ++round) {
    const auto body = [](void* argument, uint32_t index) {
      auto& all = *static_cast<std::vector<int64_t>*>(argument);
      all[index] += all.size() > 1 && index == 0 ? 2 : 1;
    };
    if (round % 2 == 0) {
      pool.run(pool.size(), body, &sums);
    } else {
      pool.run_independent(pool.size(), body, &sums);
    }
    std::rotate(sums.begin(), sums.begin() + 1, sums.end());
  }
  int64_t total = 0;
  for (const int64_t sum : sums) total += sum;
  EXPECT_EQ(total, 400 * (static_cast<int64_t>(pool.size()) + (pool.size() > 1 ? 1 : 0)));
}

}  // namespace
}  // namespace aipu::runtime
