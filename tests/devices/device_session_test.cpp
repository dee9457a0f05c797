// Sessions on devices with memory and queues of their own: the same bytes as on the host, in whatever order the waits
// allow, side by side where they do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "runtime/session.h"
#include "test_paths.h"
#include "tests/devices/sample_folder.h"
#include "tests/runtime/random_plan.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using ::testing::HasSubstr;

class DeviceSession : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = AIPU_BUILD_DIR "/test_backends:" + test::sample_folder();
    ::setenv("AIPU_BACKEND_PATH", path.c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : {"AIPU_BACKEND_PATH", "AIPU_REMOTE_KERNELS", "AIPU_REMOTE_DEVICE", "AIPU_DELAY_SEED"})
      ::unsetenv(name);
  }

  static Result<std::unique_ptr<Session>> open(const ModelBuilder& builder, const std::string& backend,
                                               SessionOptions options = {}) {
    LoadOptions load;
    load.backend = backend;
    AIPU_ASSIGN_OR_RETURN(const auto model, Model::from_bytes(builder.build(), load));
    return Session::create(model, options);
  }

  struct Outcome {
    Status status;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
    bool operator==(const Outcome& other) const {
      return status.ok() == other.status.ok() && status.message() == other.status.message() && shape == other.shape &&
             bytes == other.bytes;
    }
  };
  // The first output for inputs of one shape each.
  static Outcome run(Session& session, const std::vector<TensorView>& inputs) {
    Outcome outcome;
    for (size_t i = 0; i < inputs.size() && outcome.status.ok(); ++i) outcome.status = session.bind_input(i, inputs[i]);
    if (outcome.status.ok()) outcome.status = session.run();
    if (!outcome.status.ok()) return outcome;
    const auto y = session.output(0);
    outcome.shape.assign(y->shape.begin(), y->shape.end());
    size_t bytes = dtype_bytes(y->dtype);
    for (const int64_t extent : y->shape) bytes *= static_cast<size_t>(extent);
    const auto* data = static_cast<const std::byte*>(y->data);
    outcome.bytes.assign(data, data + bytes);
    return outcome;
  }
};

ModelBuilder on_x2(ModelBuilder builder) {
  builder.target = "X2_1204";
  return builder;
}

std::vector<float> some_values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7) - 2.5f + 0.25f * static_cast<float>(i);
  return values;
}

// Stages, branches, loops, batch loops, barriers, faults.
TEST_F(DeviceSession, ModelsGiveTheSameBytesAsOnTheHost) {
  const bool yes = true, no = false;
  for (const char* device : {"remote", "remote:1", "delay", "sample", "x2"}) {
    const auto compare = [&](const ModelBuilder& builder, const std::vector<std::vector<TensorView>>& runs) {
      const bool is_x2 = std::string_view(device) == "x2";
      auto here = open(builder, "host"), there = open(is_x2 ? on_x2(builder) : builder, device);
      ASSERT_TRUE(here.ok() && there.ok()) << there.status().message();
      for (const auto& inputs : runs) {
        const Outcome expected = run(**here, inputs), found = run(**there, inputs);
        EXPECT_EQ(found.status.message(), expected.status.message());
        EXPECT_TRUE(found == expected) << device;
      }
    };
    const auto x = some_values(64);
    std::vector<float> negative = x;
    for (float& value : negative) value = std::abs(value);
    negative[5] = -1;  // one: of several, the TEC that is first reports
    const std::vector<int64_t> one = {1, 4}, many = {16, 4}, none = {0, 4}, flat = {64}, empty = {0}, scalar = {1};
    const auto shaped = [&](const std::vector<int64_t>& shape) { return TensorView{DType::kF32, shape, x.data()}; };
    compare(test::chain_model(), {{shaped(one)}, {shaped(many)}, {shaped(none)}, {shaped(one)}});
    compare(test::looped_chain_model(), {{shaped(many)}});
    compare(test::barrier_model(), {{shaped(flat)}});
    compare(test::positive_model(), {{shaped(flat)}, {shaped(empty)}, {shaped(flat)}});
    compare(test::branch_model(),
            {{{DType::kBool, scalar, &yes}, shaped(flat)}, {{DType::kBool, scalar, &no}, shaped(flat)}});
    for (const int64_t trips : {0, 1, 5}) compare(test::loop_model(), {{shaped(flat), {DType::kI64, {}, &trips}}});
    std::vector<float> squares(64, 4);
    compare(test::faulty_model(), {{{DType::kF32, many, squares.data()}},
                                   {{DType::kF32, many, negative.data()}},
                                   {{DType::kF32, many, squares.data()}}});
  }
}

TEST_F(DeviceSession, RandomPlansGiveTheSameBytesInEveryOrder) {
  const auto x = some_values(256);
  const std::vector<int64_t> shape = {256};
  const std::vector<TensorView> inputs = {{DType::kF32, shape, x.data()}};
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const ModelBuilder plan = test::random_plan(seed);
    auto here = open(plan, "host"), remote = open(plan, "remote"), sample = open(plan, "sample"),
         delay = open(plan, "delay");
    ASSERT_TRUE(here.ok() && remote.ok() && sample.ok() && delay.ok());
    const Outcome expected = run(**here, inputs);
    EXPECT_TRUE(run(**remote, inputs) == expected) << seed;
    EXPECT_TRUE(run(**sample, inputs) == expected) << seed;
    auto npu = open(on_x2(plan), "x2");
    ASSERT_TRUE(npu.ok()) << npu.status().message();
    EXPECT_TRUE(run(**npu, inputs) == expected) << seed;
    for (int order = 0; order < 8; ++order) {
      ::setenv("AIPU_DELAY_SEED", std::to_string(seed * 100 + order).c_str(), 1);
      EXPECT_TRUE(run(**delay, inputs) == expected) << seed << " " << order;
    }
    ::unsetenv("AIPU_DELAY_SEED");
  }
}

TEST_F(DeviceSession, OtherKernelsRunBehindTheWireToo) {
  const auto x = some_values(64);
  const std::vector<int64_t> shape = {16, 4};
  ::setenv("AIPU_REMOTE_KERNELS", "x2", 1);
  auto session = open(test::chain_model(), "remote");
  ASSERT_TRUE(session.ok()) << session.status().message();
  const Outcome outcome = run(**session, {{DType::kF32, shape, x.data()}});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  for (size_t i = 0; i < x.size(); ++i) {
    float y = 0;
    std::memcpy(&y, outcome.bytes.data() + 4 * i, 4);
    EXPECT_EQ(y, 4 * x[i]);
  }
}

TEST_F(DeviceSession, OutputsGoWhereTheCallerWantsAndRunsCanBeSubmitted) {
  auto session = open(test::chain_model(), "remote");
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto x = some_values(8);
  const std::vector<int64_t> shape = {2, 4};
  std::vector<float> y(8);
  ASSERT_TRUE((*session)->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE((*session)->bind_output(0, y.data(), 32).ok());
  ASSERT_TRUE((*session)->run().ok());
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(y[i], 4 * x[i]);
  ASSERT_TRUE((*session)->bind_output(0, nullptr, 0).ok());
  std::vector<std::shared_ptr<runtime::Run>> runs;
  for (int i = 0; i < 5; ++i) {
    const std::vector<TensorView> inputs = {{DType::kF32, shape, x.data()}};
    auto run = (*session)->submit(inputs);
    ASSERT_TRUE(run.ok());
    runs.push_back(*run);
  }
  for (const auto& run : runs) {
    ASSERT_TRUE(run->wait().ok());
    EXPECT_EQ(static_cast<const float*>(run->output(0)->data)[7], 4 * x[7]);
  }
}

// Commands of two engines that wait for some of those before them, with times of their own.
struct Timed {
  fb::Engine engine;
  uint32_t index;
  int64_t microseconds;
  std::vector<uint32_t> waits;  // positions
};

ModelBuilder timed_plan(uint32_t seed, std::vector<Timed>* commands) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random); };
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), four = b.constant(4);
  const uint32_t x = b.tensor("x", DType::kF32, {one}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {one}, fb::TensorKind::kOutput);
  const uint32_t scale = b.kernel(test::scale_kernel());
  std::array<uint32_t, 2> count = {};
  for (uint32_t i = 0; i < 14; ++i) {
    Timed command = {below(2) == 0 ? fb::Engine::kTec : fb::Engine::kDma, 0, 5000 + 5000 * int64_t{below(4)}, {}};
    command.index = count[static_cast<size_t>(command.engine)]++;
    std::vector<fb::Wait> waits;
    for (uint32_t before = 0; before < i; ++before) {
      const Timed& other = (*commands)[before];
      if (other.engine == command.engine || below(6) != 0) continue;
      command.waits.push_back(before);
      waits.emplace_back(other.engine, other.index);
    }
    // Each has memory of its own.
    const uint32_t rows = b.constant(command.engine == fb::Engine::kDma ? command.microseconds : 1);
    const uint32_t to = b.tensor("t" + std::to_string(i), DType::kF32, {rows}, fb::TensorKind::kArena);
    if (command.engine == fb::Engine::kDma) {
      b.copy(to, zero, x, zero, four, rows, four, zero, 0, waits);
    } else {
      b.launch(scale, {b.pointer(x, false, zero), b.pointer(to, true, zero), b.number(one), b.word(2.0f)}, one, 0,
               waits);
      b.programs[0].tec_operations.push_back(b.constant(command.microseconds));
    }
    commands->push_back(command);
  }
  b.launch(scale, {b.pointer(x, false, zero), b.pointer(y, true, zero), b.number(one), b.word(2.0f)}, one);
  b.programs[0].tec_operations.push_back(b.constant(0));
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::test_kernels()});
  return b;
}

// When the last of them ends, by a list scheduler; `took` says how long each one did.
int64_t makespan_us(const std::vector<Timed>& commands, const std::vector<int64_t>& took) {
  std::array<int64_t, 2> clocks = {};
  std::vector<int64_t> ends;
  for (size_t i = 0; i < commands.size(); ++i) {
    const Timed& command = commands[i];
    int64_t start = clocks[static_cast<size_t>(command.engine)];
    for (const uint32_t wait : command.waits) start = std::max(start, ends[wait]);
    ends.push_back(start + took[i]);
    clocks[static_cast<size_t>(command.engine)] = ends.back();
  }
  return *std::max_element(ends.begin(), ends.end());
}

// No command begins before all that it waits for has ended, and the last one ends when a list scheduler says that it
// does, for commands that take as long as these did: what overlaps is what the waits allow, all of it. Other processes
// may hold a thread up, so the second half is asked of the best of some runs.
TEST_F(DeviceSession, QueuesOverlapExactlyAsTheWaitsAllow) {
  const float x = 1;
  const std::vector<int64_t> shape = {1};
  // All hand-overs of a run together, on a machine that does other things too.
#ifdef __SANITIZE_THREAD__
  constexpr int64_t kLateUs = 40000;
#else
  constexpr int64_t kLateUs = 10000;
#endif
  SessionOptions options;
  options.profile = true;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    std::vector<Timed> commands;
    auto session = open(timed_plan(seed, &commands), "delay", options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    int64_t least_late = INT64_MAX;
    for (int attempt = 0; attempt < 8 && least_late > kLateUs; ++attempt) {
      (*session)->clear_profile();
      const Outcome outcome = run(**session, {{DType::kF32, shape, &x}});
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      const auto rows = (*session)->profile();
      ASSERT_EQ(rows.size(), commands.size() + 1);
      std::map<std::string_view, int64_t> clocks;
      std::vector<int64_t> took;
      int64_t in_turns = 0, first = INT64_MAX, end = 0;
      for (size_t i = 0; i < commands.size(); ++i) {
        took.push_back(rows[i].duration_ns / 1000);
        EXPECT_GE(took[i], commands[i].microseconds);
        in_turns += took[i];
        int64_t ready = clocks[rows[i].engine];
        for (const uint32_t wait : commands[i].waits)
          ready = std::max(ready, rows[wait].start_ns + rows[wait].duration_ns);
        EXPECT_GE(rows[i].start_ns, ready) << "seed " << seed << ", command " << i;
        clocks[rows[i].engine] = rows[i].start_ns + rows[i].duration_ns;
        first = std::min(first, rows[i].start_ns);
        end = std::max(end, clocks[rows[i].engine]);
      }
      const int64_t expected = makespan_us(commands, took), found = (end - first) / 1000;
      EXPECT_LT(expected, in_turns) << "something overlaps";
      EXPECT_GE(found + 1 + static_cast<int64_t>(commands.size()), expected) << "seed " << seed;  // of rounding
      least_late = std::min(least_late, found - expected);
    }
    EXPECT_LE(least_late, kLateUs) << "seed " << seed;
  }
}

// x -> K = how many of x are positive, which the host reads -> y[K] = 2 * those. Beside it a copy that takes 150 ms and
// that nobody waits for: the host reads, and the next stage is submitted and done, while it is under way.
TEST_F(DeviceSession, TheHostWaitsOnlyForWhatItsCommandsSay) {
  constexpr int64_t kSlowMs = 150;
  ModelBuilder b = test::positive_model();
  const uint32_t zero = b.constant(0), four = b.constant(4), rows = b.constant(kSlowMs * 1000);
  const uint32_t slow = b.tensor("slow", DType::kF32, {rows}, fb::TensorKind::kOutput);
  for (auto& command : b.programs[0].tec) {  // one number later, for the copy
    command =
        fb::TecCommand(command.sequence() + 1, command.kernel(), command.first_argument(), command.argument_count(),
                       command.first_wait(), command.wait_count(), command.max_tecs(), command.origin());
  }
  const fb::HostCommand& read = b.programs[0].host[0];
  b.programs[0].host[0] = fb::HostCommand(read.sequence() + 1, read.op(), read.a(), read.b(), read.c(), read.d(),
                                          read.first_wait(), read.wait_count(), read.origin());
  for (auto& tensor : b.tensors) {
    if (tensor.kind != fb::TensorKind::kArena) continue;
    ++tensor.first_use;
    ++tensor.last_use;
  }
  b.programs[0].tec_operations = {b.constant(2000), b.constant(2000), b.constant(2000)};  // microseconds
  b.next_sequence = 1;
  b.copy(slow, zero, 0, zero, four, rows, four, zero);
  SessionOptions options;
  options.profile = true;
  const std::vector<float> x = {1, -2, 3, -4, 5, 6, -7, 8};
  const std::vector<int64_t> shape = {8};
  auto here = open(b, "host"), session = open(b, "delay", options);
  ASSERT_TRUE(here.ok() && session.ok()) << here.status().message() << session.status().message();
  const std::vector<TensorView> inputs = {{DType::kF32, shape, x.data()}};
  const Outcome expected = run(**here, inputs);
  bool beside = false;
  for (int attempt = 0; attempt < 5 && !beside; ++attempt) {  // other processes may hold a thread up
    (*session)->clear_profile();
    EXPECT_TRUE(run(**session, inputs) == expected);
    const auto all = (*session)->profile();
    ASSERT_EQ(all.size(), 5u);
    EXPECT_EQ(all[0].engine, "dma");
    EXPECT_EQ(all[2].name, "bind symbols");
    EXPECT_GE(all[2].start_ns, all[1].start_ns + all[1].duration_ns) << "what it reads is there";
    EXPECT_THAT(all[2].waits, ::testing::ElementsAre(1u));
    beside = all[4].start_ns + all[4].duration_ns < all[0].start_ns + all[0].duration_ns;
  }
  EXPECT_TRUE(beside) << "the last kernel has ended before the copy has";
}

// Two branches, then a copy that takes 150 ms and does not wait for them: it is submitted before the branches are
// entered, and neither of them waits for it.
TEST_F(DeviceSession, WhatDoesNotWaitForABranchRunsBesideIt) {
  ModelBuilder b = test::branch_model();
  const uint32_t c = 0, x_index = 1, y = 2, zero = b.constant(0), four = b.constant(4), many = b.constant(1 << 20);
  const uint32_t rows = b.constant(150 * 1000), n = b.constant(8);
  const uint32_t slow = b.tensor("slow", DType::kF32, {rows}, fb::TensorKind::kOutput);
  b.programs.resize(5);
  b.host(fb::HostOp::kIf, c, 3, 4);
  for (const uint32_t branch : {3u, 4u}) {
    b.launch(0, {b.pointer(x_index, false, zero), b.pointer(y, true, zero), b.number(n), b.word(5.0f)}, many, branch);
  }
  for (auto& branch : std::span(b.programs).subspan(1)) branch.tec_operations = {b.constant(2000)};
  b.copy(slow, zero, x_index, zero, four, rows, four, zero);
  SessionOptions options;
  options.profile = true;
  const auto x = some_values(8);
  const std::vector<int64_t> shape = {8}, scalar = {1};
  const bool yes = true;
  const std::vector<TensorView> inputs = {{DType::kBool, scalar, &yes}, {DType::kF32, shape, x.data()}};
  auto here = open(b, "host"), session = open(b, "delay", options);
  ASSERT_TRUE(here.ok() && session.ok()) << here.status().message() << session.status().message();
  const Outcome expected = run(**here, inputs);
  bool beside = false;
  for (int attempt = 0; attempt < 5 && !beside; ++attempt) {  // other processes may hold a thread up
    (*session)->clear_profile();
    EXPECT_TRUE(run(**session, inputs) == expected);
    std::vector<int64_t> branch_ends;
    int64_t begin = 0, end = 0;
    for (const auto& row : (*session)->profile()) {
      if (row.engine == "tec") branch_ends.push_back(row.start_ns + row.duration_ns);
      if (row.engine != "dma") continue;
      begin = row.start_ns;
      end = row.start_ns + row.duration_ns;
    }
    ASSERT_EQ(branch_ends.size(), 2u);
    beside = begin < branch_ends[0] && branch_ends[1] < end;
  }
  EXPECT_TRUE(beside) << "the copy has begun before the first branch has ended, the second has ended before the copy";
}

// A kernel that cannot go on ends the run with its own words, whatever the host would make of what it left.
TEST_F(DeviceSession, FaultsComeBeforeWhatTheHostMakesOfThem) {
  for (const char* device : {"delay", "remote", "x2"}) {
    const bool is_x2 = std::string_view(device) == "x2";
    ModelBuilder b = is_x2 ? on_x2(test::faulty_model()) : test::faulty_model();
    b.strings.emplace_back("the host went on");
    const uint32_t k = b.tensor("k", DType::kI64, {b.constant(1)}, fb::TensorKind::kInput);
    const uint32_t holds = b.symbol("K", k, 0, fb::SymbolKind::kTensorElement);
    b.host(fb::HostOp::kBindSymbols, 1, 1, 0, 0, {{fb::Engine::kTec, 1}});
    b.host(fb::HostOp::kCheck, holds, 1);
    auto session = open(b, device);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const std::vector<int64_t> shape = {1, 4};
    const std::vector<float> bad = {1, -2, 3, 4}, good = {1, 2, 3, 4};
    const int64_t zero = 0;
    const std::vector<int64_t> one = {1};
    const TensorView number = {DType::kI64, one, &zero};
    EXPECT_EQ(run(**session, {{DType::kF32, shape, bad.data()}, number}).status.message(),
              "'root {value}' (Sqrt): a root of -2 at 1, -2");
    EXPECT_THAT(run(**session, {{DType::kF32, shape, good.data()}, number}).status.message(),
                HasSubstr("the host went on"));
  }
}

// A fault in a loop's body, of a node that nobody uses in this run, is none: what has been submitted before and behind
// it is waited for all the same.
TEST_F(DeviceSession, AFaultThatIsNoneLeavesTheBodyToBeWaitedFor) {
  ModelBuilder body;
  {
    const uint32_t zero = body.constant(0), one = body.constant(1), many = body.constant(1 << 20);
    const uint32_t n = body.symbol("N", 2, 0);
    body.tensor("i", DType::kI64, {}, fb::TensorKind::kInput);
    const uint32_t go = body.tensor("go", DType::kBool, {}, fb::TensorKind::kInput);
    const uint32_t v = body.tensor("v", DType::kF32, {n}, fb::TensorKind::kInput);
    const uint32_t on = body.tensor("on", DType::kBool, {}, fb::TensorKind::kOutput);
    const uint32_t next = body.tensor("next", DType::kF32, {n}, fb::TensorKind::kOutput);
    const uint32_t t = body.tensor("t", DType::kF32, {n}, fb::TensorKind::kArena);
    body.tensors[t].first_use = 1;
    body.tensors[t].last_use = 3;
    const auto root = [&](uint32_t from, uint32_t to, std::vector<fb::Wait> waits) {
      const auto of = body.word(uint64_t{0});
      body.launch(0, {body.pointer(from, false, zero), body.pointer(to, true, zero), body.number(n), of}, many, 0,
                  std::move(waits));
    };
    body.strings = {"never told"};
    body.origins = {"'unused' (Sqrt)"};
    root(v, t, {});
    body.host(fb::HostOp::kCheck, one, 0, 0, 0, {{fb::Engine::kTec, 0}});
    root(t, next, {{fb::Engine::kHost, 0}});
    body.copy(on, zero, go, zero, one, one, zero, zero, 0, {{fb::Engine::kHost, 0}});
    body.programs[0].tec_operations = {one, body.constant(30 * 1000)};
    body.programs[0].faults = {fb::Fault(0, 0, 0, 0, zero), fb::Fault(1, 0, 0, 0, zero)};
  }
  ModelBuilder b;
  const uint32_t n = b.symbol("N", 0, 0), zero = b.constant(0), one = b.constant(1);
  const uint32_t x = b.tensor("x", DType::kF32, {n}, fb::TensorKind::kInput);
  const uint32_t trips = b.tensor("trips", DType::kI64, {}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {n}, fb::TensorKind::kOutput);
  const uint32_t other = b.tensor("other", DType::kF32, {n}, fb::TensorKind::kOutput);
  b.kernel(test::root_kernel());
  // More records than the body has of its own.
  const uint32_t bytes = b.mul(n, b.constant(4));
  for (int i = 0; i < 8; ++i) b.copy(other, zero, x, zero, bytes, one, zero, zero);
  b.host(fb::HostOp::kLoop, 0, 0);
  b.host(fb::HostOp::kFetch, 0, 0, y);
  b.calls = {{.bodies = {0}, .trip_count = trips, .inputs = {x}, .states = 1}};
  b.bodies.push_back(std::move(body));
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::faulty_kernels()});
  auto x_values = some_values(64);
  x_values[5] = -1;
  const std::vector<int64_t> shape = {64};
  const int64_t three = 3;
  const std::vector<TensorView> inputs = {{DType::kF32, shape, x_values.data()}, {DType::kI64, {}, &three}};
  auto here = open(b, "host");
  ASSERT_TRUE(here.ok()) << here.status().message();
  const Outcome expected = run(**here, inputs);
  ASSERT_TRUE(expected.status.ok()) << expected.status.message();
  for (const char* device : {"delay", "remote", "x2"}) {
    auto there = open(std::string_view(device) == "x2" ? on_x2(b) : b, device);
    ASSERT_TRUE(there.ok()) << there.status().message();
    for (int again = 0; again < 3; ++again) EXPECT_TRUE(run(**there, inputs) == expected) << device;
  }
}

// Memory for each TEC is sized by the session: no launch has more TECs than the file says, whatever the target's core
// has.
TEST_F(DeviceSession, AFileMayAskForFewerTecsThanACoreHas) {
  for (const auto& [asked, expected] : {std::pair{2u, 2}, {0u, 4}, {4u, 4}, {12u, 12}}) {
    for (const bool in_one_core : {false, true}) {
      ModelBuilder b;
      b.target = "X2_1204";
      b.tec_count = asked;
      const uint32_t zero = b.constant(0), tecs = b.symbol("tecs", 0, 0, fb::SymbolKind::kTecCount);
      const uint32_t y = b.tensor("y", DType::kI32, {tecs}, fb::TensorKind::kOutput);
      b.launch(b.kernel(in_one_core ? test::meet_kernel() : test::tecs_kernel()),
               {b.pointer(y, true, zero), b.number(tecs)}, b.constant(64));
      b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::test_kernels()});
      auto session = open(b, "x2");
      ASSERT_TRUE(session.ok()) << session.status().message();
      const Outcome outcome = run(**session, {});
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      const int32_t seen = *reinterpret_cast<const int32_t*>(outcome.bytes.data());
      EXPECT_EQ(seen, in_one_core ? std::min(expected, 4) : expected) << asked;
      EXPECT_GE(outcome.shape[0], seen);
    }
  }
}

// x[8] -> y[8], both within one array of the caller's, y four elements behind x and read before it is written: as on the
// host, which works on the array itself. What the kernel does not write stays.
TEST_F(DeviceSession, ArgumentsOfAKernelMayOverlap) {
  constexpr const char* kText = R"(
#include "runtime/abi/kernel_abi.h"
static void fold(const aipu_tec_context* c, const unsigned long long* w) {
  const float* x = (const float*)w[0]; float* y = (float*)w[1];
  if (c->tec_id == 0) for (int i = 0; i < 6; ++i) y[i] += 10 * x[i];
}
static const aipu_kernel_info kKernels[] = {{"fold", fold, 2, 0, 0, 0}};
static const aipu_kernel_module kModule = {AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS, sizeof(aipu_kernel_info), 1, kKernels};
const aipu_kernel_module* aipu_kernel_module_v1(void) { return &kModule; }
)";
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), eight = b.constant(8);
  const uint32_t x = b.tensor("x", DType::kF32, {eight}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {eight}, fb::TensorKind::kOutput);
  b.launch(b.kernel({.name = "fold", .pointers = {true, true}}), {b.pointer(x, false, zero), b.pointer(y, true, zero)},
           one);
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::compile_module(kText)});
  const std::vector<int64_t> shape = {8};
  SessionOptions options;
  options.arguments_of_a_kernel = true;
  const auto folded = [&](const ModelBuilder& builder, const char* backend) {
    std::vector<float> array(14);
    for (size_t i = 0; i < array.size(); ++i) array[i] = static_cast<float>(i);
    auto session = open(builder, backend, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return array;
    EXPECT_TRUE((*session)->bind_input(0, {DType::kF32, shape, array.data() + 1}).ok());
    EXPECT_TRUE((*session)->bind_output(0, array.data() + 5, 32).ok());
    EXPECT_TRUE((*session)->run().ok());
    return array;
  };
  const auto expected = folded(b, "host");
  EXPECT_EQ(expected[9], 9 + 10 * (5 + 10 * 1));
  EXPECT_EQ(expected[11], 11);
  EXPECT_EQ(folded(on_x2(b), "x2"), expected);
  EXPECT_EQ(folded(b, "remote"), expected);
}

// An output in the caller's memory stays as it is where no kernel writes it.
TEST_F(DeviceSession, WhatNoKernelWritesStays) {
  ModelBuilder b = test::chain_model();
  const uint32_t zero = b.constant(0), one = b.constant(1), four = b.constant(4), eight = b.constant(8);
  const uint32_t x = 0, rest = b.tensor("rest", DType::kF32, {eight}, fb::TensorKind::kOutput);
  b.copy(rest, four, x, zero, four, one, four, four);
  const auto values = some_values(8);
  const std::vector<int64_t> shape = {2, 4};
  for (const char* device : {"host", "remote", "x2"}) {
    auto session = open(std::string_view(device) == "x2" ? on_x2(b) : b, device);
    ASSERT_TRUE(session.ok()) << session.status().message();
    std::vector<float> part(8, 9);
    ASSERT_TRUE((*session)->bind_output(1, part.data(), 32).ok());
    ASSERT_TRUE(run(**session, {{DType::kF32, shape, values.data()}}).status.ok());
    EXPECT_THAT(part, ::testing::ElementsAre(9, values[0], 9, 9, 9, 9, 9, 9)) << device;
  }
}

TEST_F(DeviceSession, ErrorsNameTheDevice) {
  const auto message = [](const std::string& backend) {
    return std::string(open(test::chain_model(), backend).status().message());
  };
  EXPECT_THAT(message("remote:2"), HasSubstr("back end 'remote' has 2 devices, not one with the number 2"));
  EXPECT_THAT(message("remote:x"), HasSubstr("'remote:x' does not name a device"));
  EXPECT_THAT(message("host:1"), HasSubstr("'host:1' does not name a device"));
  ::setenv("AIPU_REMOTE_DEVICE", "/nonexistent/program", 1);
  EXPECT_THAT(message("remote"), HasSubstr("back end 'remote': its process does not start"));
}

TEST_F(DeviceSession, ARunThatTakesTooLongEnds) {
  std::vector<Timed> commands;
  SessionOptions options;
  options.run_seconds = 0.02;
  auto session = open(timed_plan(3, &commands), "delay", options);
  ASSERT_TRUE(session.ok());
  const float x = 1;
  const std::vector<int64_t> shape = {1};
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(run(**session, {{DType::kF32, shape, &x}}).status.message(), HasSubstr("takes longer than 0.02 s"));
}

TEST_F(DeviceSession, AChildMadeByForkIsTold) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child made by fork()";
#endif
  auto session = open(test::chain_model(), "remote");
  ASSERT_TRUE(session.ok());
  const auto x = some_values(8);
  const std::vector<int64_t> shape = {2, 4};
  ASSERT_TRUE(run(**session, {{DType::kF32, shape, x.data()}}).status.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const Status status = (*session)->run();
    session->reset();  // leaves the parent's device alone
    ::_exit(status.message().find("child made by fork()") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(run(**session, {{DType::kF32, shape, x.data()}}).status.ok());
}

}  // namespace
}  // namespace aipu::runtime
