// What a session keeps and shares: memory, plans of shapes, threads, profiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "runtime/executor/worker_pool.h"
#include "tests/runtime/open_model.h"

namespace aipu::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace aipu::runtime
