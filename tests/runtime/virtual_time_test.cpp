// Virtual time (executor/virtual_time.h) against hand-computed times, and against a simulation of the engines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include "codegen/timing/timing_model.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "test_paths.h"
#include "tests/runtime/random_plan.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Finds the paced device.
class VirtualTimeTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("AIPU_BACKEND_PATH", AIPU_BUILD_DIR "/test_backends", 1); }
  void TearDown() override { ::unsetenv("AIPU_BACKEND_PATH"); }

  static std::unique_ptr<Session> open(const ModelBuilder& builder, const std::string& backend, bool cycles = true) {
    LoadOptions load;
    load.backend = backend;
    auto model = Model::from_bytes(builder.build(), load);
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return nullptr;
    SessionOptions options;
    options.cycles = cycles;
    options.profile = true;
    auto session = Session::create(*model, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? std::move(session).value() : nullptr;
  }
};

// Of a target whose host takes so many cycles; launches and copies are the paced device's affair.
std::vector<double> figures(int64_t host) {
  tir::CostFigures figures;
  figures.commands.host = static_cast<double>(host);
  return figures.numbers();
}

// A model of commands that do nothing but take time: x[bytes] -> y[bytes].
class PlanBuilder {
 public:
  static constexpr int64_t kBytes = 4096;
  static constexpr int64_t kHost = 3;  // what a command of the host takes

  PlanBuilder() {
    b.cost_figures = figures(kHost);
    const uint32_t bytes = b.constant(kBytes);
    zero = b.constant(0);
    one = b.constant(1);
    x = b.tensor("x", DType::kU8, {bytes}, fb::TensorKind::kInput);
    y = b.tensor("y", DType::kU8, {bytes}, fb::TensorKind::kOutput);
    kernel = b.kernel({.name = "pace", .pointers = {}});
  }

  void launch(int64_t cycles, std::vector<fb::Wait> waits = {}, uint32_t program = 0) {
    b.programs[program].tec_operations.push_back(b.constant(cycles));
    b.launch(kernel, {}, one, program, std::move(waits));
  }
  void copy(int64_t cycles, std::vector<fb::Wait> waits = {}, uint32_t program = 0) {
    b.copy(y, zero, x, zero, b.constant(cycles), one, zero, zero, program, std::move(waits));
  }
  // A check that holds.
  void check(const std::vector<fb::Wait>& waits) {
    b.strings = {"never"};
    b.programs[0].host.emplace_back(b.next_sequence++, fb::HostOp::kCheck, one, 0, 0, 0,
                                    static_cast<uint32_t>(b.waits.size()), static_cast<uint32_t>(waits.size()),
                                    test::kNone);
    b.waits.insert(b.waits.end(), waits.begin(), waits.end());
  }

  ModelBuilder b;
  uint32_t zero, one, x, y, kernel;
};

void bind(Session& session) {
  static const std::vector<uint8_t> bytes(PlanBuilder::kBytes);
  static const std::vector<int64_t> shape = {PlanBuilder::kBytes};
  const Status status = session.bind_input(0, {DType::kU8, shape, bytes.data()});
  ASSERT_TRUE(status.ok()) << status.message();
}

// (engine, start, cycles) of the rows.
std::vector<std::tuple<std::string, int64_t, int64_t>> times_of(const Session& session) {
  std::vector<std::tuple<std::string, int64_t, int64_t>> result;
  for (const auto& row : session.profile()) result.emplace_back(row.engine, row.start_cycles, row.cycles);
  return result;
}

using Times = std::tuple<std::string, int64_t, int64_t>;

//  tec  |--- 10 ---|      |-- 20 --|--5--|
//  dma  |------ 30 ------|         .|-- 7 --|     (the second copy waits for the second launch)
TEST_F(VirtualTimeTest, IndependentCommandsOverlapAndWaitsAreKept) {
  PlanBuilder plan;
  plan.launch(10);
  plan.copy(30);
  plan.launch(20, {{fb::Engine::kDma, 0}});
  plan.copy(7, {{fb::Engine::kTec, 1}});
  plan.launch(5);
  const auto session = open(plan.b, "paced");
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->cycles(), std::nullopt) << "before a run";
  bind(*session);
  ASSERT_TRUE(session->run().ok());
  EXPECT_THAT(times_of(*session), ElementsAre(Times{"tec", 0, 10}, Times{"dma", 0, 30}, Times{"tec", 30, 20},
                                              Times{"dma", 50, 7}, Times{"tec", 50, 5}));
  EXPECT_EQ(session->cycles(), 57);
  const auto rows = session->profile();
  EXPECT_THAT(rows[2].waits, ElementsAre(1u));
  EXPECT_THAT(rows[3].waits, ElementsAre(2u));
  EXPECT_TRUE(rows[0].waits.empty() && rows[1].waits.empty() && rows[4].waits.empty());

  // Another run comes after it in the trace, and takes as long.
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(session->cycles(), 57);
  EXPECT_EQ(times_of(*session)[5], (Times{"tec", 57, 10}));
}

TEST_F(VirtualTimeTest, NobodyAsksAndNobodyKnows) {
  PlanBuilder plan;
  plan.launch(10);
  auto session = open(plan.b, "paced", false);
  ASSERT_NE(session, nullptr);
  bind(*session);
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(session->cycles(), std::nullopt);
  EXPECT_EQ(session->profile()[0].cycles, -1);
  // A back end without the function.
  session = open(plan.b, "null");
  ASSERT_NE(session, nullptr);
  bind(*session);
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(session->cycles(), std::nullopt);
}

// A line per engine and worker: samples of a batch that two threads share out.
TEST_F(VirtualTimeTest, TheTraceHasALinePerWorker) {
  LoadOptions load;
  load.backend = "host";
  const auto model = Model::from_bytes(test::looped_chain_model().build(), load);
  ASSERT_TRUE(model.ok()) << model.status().message();
  SessionOptions options;
  options.threads = 2;
  options.profile = true;
  const auto session = Session::create(*model, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::vector<float> x(4096 * 4, 1);
  const std::vector<int64_t> shape = {4096, 4};
  ASSERT_TRUE((*session)->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  std::map<uint32_t, int> commands;                                         // by worker
  for (int attempt = 0; attempt < 200 && commands.size() < 2; ++attempt) {  // the second thread may come too late
    (*session)->clear_profile();
    commands.clear();
    ASSERT_TRUE((*session)->run().ok());
    for (const auto& row : (*session)->profile()) ++commands[row.lane];
  }
  ASSERT_EQ(commands.size(), 2u);
  const std::string path = ::testing::TempDir() + "aipu_worker_trace.json";
  ASSERT_TRUE((*session)->write_profile(path).ok());
  std::ifstream file(path);
  const std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto has = [&](std::string_view part) { return json.find(part) != std::string::npos; };
  EXPECT_TRUE(has("\"tid\":3,\"name\":\"thread_name\",\"args\":{\"name\":\"tec of worker 1\"}"));
  EXPECT_TRUE(has("\"ph\":\"X\",\"tid\":0,") && has("\"ph\":\"X\",\"tid\":3,"));
}

TEST_F(VirtualTimeTest, TheTraceHasBothTimesAndAnArrowPerWait) {
  PlanBuilder plan;
  plan.launch(1000);
  plan.copy(3000);
  plan.launch(2000, {{fb::Engine::kDma, 0}});
  const auto session = open(plan.b, "paced");
  ASSERT_NE(session, nullptr);
  bind(*session);
  ASSERT_TRUE(session->run().ok());
  const std::string path = ::testing::TempDir() + "aipu_virtual_trace.json";
  ASSERT_TRUE(session->write_profile(path).ok());
  std::ifstream file(path);
  const std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto count = [&](std::string_view part) {
    int found = 0;
    for (size_t at = json.find(part); at != std::string::npos; at = json.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("\"ph\":\"X\""), 6);  // three commands in each kind of time
  EXPECT_EQ(count("\"ph\":\"s\""), 2);  // one wait
  EXPECT_EQ(count("\"ph\":\"f\""), 2);
  EXPECT_EQ(count("\"thread_name\""), 4);  // tec and dma
  // The copy overlaps the first launch; the second one begins when it ends, with an arrow from there.
  EXPECT_THAT(
      json, HasSubstr("\"pid\":2,\"ph\":\"X\",\"tid\":1,\"name\":\"copy\",\"cat\":\"dma\",\"ts\":0.000,\"dur\":3.000"));
  EXPECT_THAT(
      json, HasSubstr("\"pid\":2,\"ph\":\"X\",\"tid\":0,\"name\":\"pace\",\"cat\":\"tec\",\"ts\":3.000,\"dur\":2.000"));
  EXPECT_THAT(json,
              HasSubstr("\"pid\":2,\"ph\":\"s\",\"tid\":1,\"name\":\"wait\",\"cat\":\"wait\",\"id\":1,\"ts\":2.999"));
  EXPECT_THAT(
      json,
      HasSubstr(
          "\"pid\":2,\"ph\":\"f\",\"bp\":\"e\",\"tid\":0,\"name\":\"wait\",\"cat\":\"wait\",\"id\":1,\"ts\":3.000"));
}

// A stage cannot be submitted before its symbols are known.
TEST_F(VirtualTimeTest, AStageBeginsWhenItsSymbolsAreBound) {
  PlanBuilder plan;
  const uint32_t k = plan.b.tensor("k", DType::kI64, {plan.one}, fb::TensorKind::kInput);
  plan.b.symbol("K", k, 0, fb::SymbolKind::kTensorElement);
  plan.copy(100);
  plan.launch(5);
  plan.b.programs[0].host.emplace_back(plan.b.next_sequence++, fb::HostOp::kBindSymbols, 0, 1, 0, 0,
                                       static_cast<uint32_t>(plan.b.waits.size()), 1, test::kNone);
  plan.b.waits.emplace_back(fb::Engine::kTec, 0);
  plan.launch(7);
  plan.copy(1);
  const auto session = open(plan.b, "paced");
  ASSERT_NE(session, nullptr);
  bind(*session);
  const int64_t value = 1;
  const std::vector<int64_t> shape = {1};
  ASSERT_TRUE(session->bind_input(1, {DType::kI64, shape, &value}).ok());
  const Status status = session->run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(times_of(*session), ElementsAre(Times{"dma", 0, 100}, Times{"tec", 0, 5}, Times{"host", 5, 3},
                                              Times{"tec", 8, 7}, Times{"dma", 100, 1}));
  EXPECT_EQ(session->cycles(), 101);
}

// Samples of a batch loop take over each other's memory: one begins when the one before it is done.
TEST_F(VirtualTimeTest, SamplesOfABatchLoopFollowEachOther) {
  ModelBuilder b = test::looped_chain_model();
  b.sections.clear();
  b.programs[0].tec_operations = {b.constant(10), b.constant(20)};
  const auto session = open(b, "paced");
  ASSERT_NE(session, nullptr);
  const std::vector<float> x(12);
  const std::vector<int64_t> shape = {3, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(session->cycles(), 3 * (10 + 20 + 16));
  const auto rows = session->profile();
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_THAT(rows[8].waits, ElementsAre(7u)) << "of the same sample";
}

// An iteration begins when the one before it is done; what does not wait for the loop overlaps with it.
TEST_F(VirtualTimeTest, LoopsLastUntilTheirBodiesAreDone) {
  ModelBuilder b = test::loop_model();
  b.sections.clear();
  b.cost_figures = figures(3);
  ModelBuilder& body = b.bodies[0];
  body.programs[0].tec_operations = {body.constant(10)};  // beside a copy of one byte
  const auto session = open(b, "paced");
  ASSERT_NE(session, nullptr);
  const std::vector<float> x(4);
  const int64_t trips = 5;
  const std::vector<int64_t> shape = {4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(session->bind_input(1, {DType::kI64, {}, &trips}).ok());
  const Status status = session->run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(session->cycles(), 5 * (10 + 3) + 3) << "the last for the result";
  const auto rows = session->profile();
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[2].start_cycles, 3 + 10 + 3) << "the copy of the second iteration";
  EXPECT_EQ(rows[10].name, "loop");
  EXPECT_EQ(rows[10].start_cycles, 0);
  EXPECT_EQ(rows[10].cycles, 5 * (10 + 3));
}

// The engines, event by event: each takes the next command of its buffer as soon as all that it waits for is over.
// `commands`: engine, cycles, waits as positions in `commands`.
struct Command {
  fb::Engine engine;
  int64_t cycles;
  std::vector<size_t> waits;
};

std::vector<int64_t> simulated_starts(const std::vector<Command>& commands) {
  constexpr int64_t kNever = -1;
  std::array<std::vector<size_t>, 3> buffers;
  for (size_t i = 0; i < commands.size(); ++i) buffers[static_cast<size_t>(commands[i].engine)].push_back(i);
  std::array<size_t, 3> next = {};
  std::array<int64_t, 3> busy_until = {};
  std::vector<int64_t> starts(commands.size(), kNever), ends(commands.size(), kNever);
  for (int64_t now = 0;; ++now) {
    bool started = true;
    while (started) {  // a command of no cycles lets others begin at the same time
      started = false;
      for (size_t e = 0; e < 3; ++e) {
        if (next[e] == buffers[e].size() || busy_until[e] > now) continue;
        const size_t i = buffers[e][next[e]];
        const auto over = [&](size_t wait) { return ends[wait] != kNever && ends[wait] <= now; };
        if (!std::all_of(commands[i].waits.begin(), commands[i].waits.end(), over)) continue;
        starts[i] = now;
        ends[i] = busy_until[e] = now + commands[i].cycles;
        ++next[e];
        started = true;
      }
    }
    bool all = true;
    for (size_t e = 0; e < 3; ++e) all = all && next[e] == buffers[e].size();
    if (all) return starts;
  }
}

TEST_F(VirtualTimeTest, RandomPlansTakeWhatASimulationSays) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
    PlanBuilder plan;
    std::vector<Command> commands;
    std::vector<fb::Wait> places;  // of each command
    std::array<uint32_t, 3> counts = {};
    for (size_t i = 0, count = 1 + below(40); i < count; ++i) {
      const auto engine = static_cast<fb::Engine>(below(8) == 0 ? 2 : below(2));
      Command command = {
          engine, engine == fb::Engine::kHost ? PlanBuilder::kHost : static_cast<int64_t>(below(60)), {}};
      std::vector<fb::Wait> waits;
      for (size_t w = i == 0 ? 0 : below(4); w > 0; --w) {
        const size_t before = below(i);
        if (commands[before].engine == engine) continue;
        command.waits.push_back(before);
        waits.push_back(places[before]);
      }
      if (engine == fb::Engine::kTec) plan.launch(command.cycles, waits);
      if (engine == fb::Engine::kDma) plan.copy(command.cycles, waits);
      if (engine == fb::Engine::kHost) plan.check(waits);
      places.emplace_back(engine, counts[static_cast<size_t>(engine)]++);
      commands.push_back(std::move(command));
    }
    const auto session = open(plan.b, "paced");
    ASSERT_NE(session, nullptr);
    bind(*session);
    ASSERT_TRUE(session->run().ok());
    const auto starts = simulated_starts(commands);
    int64_t makespan = 0;
    const auto rows = session->profile();
    ASSERT_EQ(rows.size(), commands.size());
    for (size_t i = 0; i < commands.size(); ++i) {
      ASSERT_EQ(rows[i].start_cycles, starts[i]) << "command " << i << " of seed " << seed;
      makespan = std::max(makespan, starts[i] + commands[i].cycles);
    }
    ASSERT_EQ(session->cycles(), makespan) << seed;
  }
}

// By sizes: 200 for a launch and 32 bytes per cycle for all TECs; 140 for a copy, 4 for its row, 16 bytes per cycle.
TEST_F(VirtualTimeTest, X2EstimatesFromSizes) {
  ModelBuilder b = test::chain_model();
  b.target = "X2_1204";
  const auto session = open(b, "x2");
  ASSERT_NE(session, nullptr);
  const std::vector<float> x(64);
  const std::vector<int64_t> shape = {16, 4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_THAT(times_of(*session),
              ElementsAre(Times{"tec", 0, 200 + 2 * 256 / 32}, Times{"tec", 216, 200 + 3 * 256 / 32},
                          Times{"dma", 440, 144 + 256 / 16}));
  EXPECT_EQ(session->cycles(), 600);

  // The file's figures: a launch of 1000 cycles, copies at 1 byte per cycle.
  tir::CostFigures costs;
  costs.commands.launch = 1000;
  costs.commands.dma_bytes_per_cycle = 1;
  b.cost_figures = costs.numbers();
  const auto other = open(b, "x2");
  ASSERT_TRUE(other->bind_input(0, {DType::kF32, shape, x.data()}).ok());
  ASSERT_TRUE(other->run().ok());
  EXPECT_EQ(other->cycles(), 1000 + 2 * 256 / 32 + 1000 + 3 * 256 / 32 + 144 + 256);
}

// A random plan on the model of X2 itself: what each command takes, it says of its sizes; when each begins, and the
// makespan, a list scheduler.
TEST_F(VirtualTimeTest, RandomPlansOnX2TakeWhatAListSchedulerSays) {
  const npu_timing::Figures figures = npu_timing::kX2;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    ModelBuilder plan = test::random_plan(seed);
    plan.target = "X2_1204";
    const auto session = open(plan, "x2");
    ASSERT_NE(session, nullptr);
    const std::vector<float> x(256, 1.5f);
    const std::vector<int64_t> shape = {256};
    ASSERT_TRUE(session->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    ASSERT_TRUE(session->run().ok());
    const auto rows = session->profile();
    const auto& program = plan.programs[0];
    ASSERT_EQ(rows.size(), program.tec.size() + program.dma.size());
    std::map<std::string_view, int64_t> clocks, busy;
    std::vector<int64_t> ends;
    int64_t makespan = 0;
    for (const auto& row : rows) {
      const bool copies = row.engine == "dma";
      // Its own list of waits: of the file, as positions in `rows`.
      const auto [first, count] =
          copies ? std::pair(program.dma[row.command].first_wait(), program.dma[row.command].wait_count())
                 : std::pair(program.tec[row.command].first_wait(), program.tec[row.command].wait_count());
      int64_t start = clocks[row.engine];
      for (uint32_t w = first; w < first + count; ++w) {
        const auto other = std::find_if(rows.begin(), rows.end(), [&](const auto& candidate) {
          return candidate.command == plan.waits[w].command() &&
                 (candidate.engine == "dma") == (plan.waits[w].engine() == fb::Engine::kDma);
        });
        start = std::max(start, ends[static_cast<size_t>(other - rows.begin())]);
      }
      const int64_t cycles = copies ? figures.copy_cycles(1, 1024) : figures.launch_cycles(0, row.bytes, 4);
      ASSERT_EQ(row.start_cycles, start) << row.engine << " " << row.command << " of seed " << seed;
      ASSERT_EQ(row.cycles, cycles);
      ends.push_back(start + cycles);
      clocks[row.engine] = ends.back();
      busy[row.engine] += cycles;
      makespan = std::max(makespan, ends.back());
    }
    EXPECT_EQ(session->cycles(), makespan) << seed;
    EXPECT_LT(makespan, busy["tec"] + busy["dma"]) << "engines overlap";
  }
}

// By counters: what the timing model says of an instrumented run.
TEST_F(VirtualTimeTest, InterpreterCounts) {
  ModelBuilder b = test::triple_model();
  b.target = "X2_1204";
  const auto session = open(b, "interp");
  if (session == nullptr) GTEST_SKIP() << "there is no interpreter in this build";
  auto module = tir::parse_module(b.kernels[0].tir);
  ASSERT_TRUE(module.ok());
  auto instrumented = tir::instrument(*module);
  ASSERT_TRUE(instrumented.ok());
  for (const int32_t n : {1, 50, 1000}) {
    std::vector<int32_t> x(static_cast<size_t>(n), 7), y(x.size());
    const std::vector<int64_t> shape = {n};
    ASSERT_TRUE(session->bind_input(0, {DType::kI32, shape, x.data()}).ok());
    ASSERT_TRUE(session->bind_output(0, y.data(), y.size() * 4).ok());
    const Status status = session->run();
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(y, std::vector<int32_t>(x.size(), 21));

    std::vector<int64_t> counters(static_cast<size_t>(4 * instrumented->counter_count));
    std::array<tir::InterpreterArgument, 4> arguments;
    const auto pointer = [](void* data, size_t bytes) {
      tir::InterpreterArgument argument;
      argument.is_pointer = argument.writable = true;
      argument.data = static_cast<std::byte*>(data);
      argument.bytes = bytes;
      return argument;
    };
    arguments[0] = pointer(x.data(), x.size() * 4);
    arguments[1] = pointer(y.data(), y.size() * 4);
    arguments[2].word = static_cast<uint64_t>(n);
    arguments[3] = pointer(counters.data(), counters.size() * 8);
    ASSERT_TRUE(tir::interpret_all(instrumented->module, 4, arguments).ok());
    EXPECT_EQ(session->cycles(), static_cast<int64_t>(tir::estimate(*instrumented, counters).cycles)) << n;
  }
  // Of a target that nobody here knows, as those of plugins: the file has its figures.
  ModelBuilder unknown = b;
  unknown.target = "npu_of_a_plugin";
  unknown.backend = "interp";
  const std::vector<int64_t> one_element = {1};
  const auto cycles_of = [&](const std::vector<double>& costs) {
    unknown.cost_figures = costs;
    const auto of_plugin = open(unknown, "interp");
    const int32_t three = 3;
    EXPECT_TRUE(of_plugin->bind_input(0, {DType::kI32, one_element, &three}).ok());
    EXPECT_TRUE(of_plugin->run().ok());
    return of_plugin->cycles();
  };
  tir::CostFigures slow;
  slow.commands.launch += 1000;
  slow.barrier += 10;  // twice
  EXPECT_EQ(*cycles_of(slow.numbers()), *cycles_of(tir::CostFigures().numbers()) + 1020);
  EXPECT_EQ(cycles_of({}), std::nullopt);
  // For a CPU there is no model.
  b.target = "host-baseline";
  const auto on_cpu = open(b, "interp");
  ASSERT_NE(on_cpu, nullptr);
  const std::vector<int64_t> shape = {1};
  const int32_t one = 1;
  ASSERT_TRUE(on_cpu->bind_input(0, {DType::kI32, shape, &one}).ok());
  ASSERT_TRUE(on_cpu->run().ok());
  EXPECT_EQ(on_cpu->cycles(), std::nullopt);
}

}  // namespace
}  // namespace aipu::runtime
