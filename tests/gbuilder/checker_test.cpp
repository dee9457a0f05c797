// The checker must find what the planner could get wrong, and on random models it must agree with the planner that
// every wait is enough and is needed.
#include "gbuilder/record/command_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "gbuilder/record/command_storer.h"
#include "tests/gbuilder/hand_made.h"

namespace aipu::gbuilder::testing {
namespace {

using ::testing::HasSubstr;

Plan chain() {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.copy(a, "b");
  const auto c = model.kernel("Relu", {b}, "c");
  const auto d = model.copy(c, "d");
  const auto e = model.kernel("Relu", {d}, "e");
  model.output(e, "y");
  return std::move(model.plan()).value();
}

std::string complaint(const Plan& plan) { return check_program(plan, plan.programs[0]).message(); }

TEST(Checker, AcceptsThePlan) { EXPECT_EQ(complaint(chain()), ""); }

TEST(Checker, FindsAMissingWaitForData) {
  Plan plan = chain();
  plan.programs[0].commands[1].waits.clear();
  EXPECT_THAT(complaint(plan), HasSubstr("does not wait for #0 tec[0]"));
}

TEST(Checker, FindsAMissingWaitForMemoryThatIsUsedAgain) {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.copy(a, "b");
  const auto c = model.kernel("Relu", {x}, "c");
  const auto d = model.kernel("Add", {b, c}, "d");
  model.output(d, "y");
  Plan plan = std::move(model.plan()).value();
  plan.programs[0].commands[3].waits = plan.programs[0].commands[2].waits;
  plan.programs[0].commands[2].waits.clear();
  EXPECT_THAT(complaint(plan), HasSubstr("'c' may get the memory of 'a'"));
}

TEST(Checker, FindsBrokenOrderAndIndices) {
  Plan plan = chain();
  plan.programs[0].commands[2].sequence = 1;
  EXPECT_THAT(complaint(plan), HasSubstr("sequence does not rise"));
  plan = chain();
  plan.programs[0].commands[2].index = 0;
  EXPECT_THAT(complaint(plan), HasSubstr("is number 1 of its engine"));
  plan = chain();
  plan.programs[0].commands[1].waits = {{Engine::kTec, 1}};
  EXPECT_THAT(complaint(plan), HasSubstr("does not come before it"));
  plan = chain();
  plan.programs[0].commands[1].waits = {{Engine::kDma, 0}};
  EXPECT_THAT(complaint(plan), HasSubstr("waits for its own engine"));
  plan = chain();
  std::get<TecBody>(plan.programs[0].commands[0].body).kernel = 7;
  EXPECT_THAT(complaint(plan), HasSubstr("kernel out of range"));
  plan = chain();
  std::get<TecBody>(plan.programs[0].commands[0].body).arguments[1].index = 99;
  EXPECT_THAT(complaint(plan), HasSubstr("tensor 99 out of range"));
  plan = chain();
  std::get<TecBody>(plan.programs[0].commands[0].body).arguments[0].writes = true;
  EXPECT_THAT(complaint(plan), HasSubstr("read-only"));
  plan = chain();
  std::get<DmaBody>(plan.programs[0].commands[1].body).width = plan.expressions.constant(17);
  EXPECT_THAT(complaint(plan), HasSubstr("reads beyond its source"));
  plan = chain();
  for (PlanTensor& tensor : plan.tensors) {
    if (tensor.name == "a") tensor.last_use = 0;
  }
  EXPECT_THAT(complaint(plan), HasSubstr("uses 'a' outside its life"));
}

TEST(Checker, FindsSymbolsThatAreUsedBeforeTheyAreBound) {
  HandMade model;
  const auto lengths = model.input("lengths", {2}, DType::kI64);
  const auto x = model.input("x", {4});
  const auto count = model.graph.fresh_symbol("count", graph::Symbol::Kind::kTensorElement, lengths, 0);
  const auto a = model.kernel("Relu", {x}, "a");
  std::get<kernels::KernelLaunch>(model.implementation().launches[0]).arguments[2] = kernels::ScalarArgument{count};
  model.output(a, "y");
  Plan plan = std::move(model.plan()).value();
  ASSERT_EQ(complaint(plan), "") << print_plan(plan);
  Plan unordered = plan;
  unordered.programs[0].commands[1].waits.clear();
  EXPECT_THAT(complaint(unordered), HasSubstr("runs ahead of #0 host[0] bind_symbols"));
  Plan unbound = plan;
  auto& commands = unbound.programs[0].commands;
  commands.erase(commands.begin());
  commands[0].waits.clear();
  EXPECT_THAT(complaint(unbound), HasSubstr("before it is bound"));
}

// `a` on the device, `b` on the host, `c` on the device again.
Plan two_memories() {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.kernel("Add", {a, x}, "b");
  model.groups.back().group.target = 1;
  const auto c = model.kernel("Relu", {b}, "c");
  const auto d = model.kernel("Relu", {b}, "d");
  model.output(c, "y");
  model.output(d, "z");
  return std::move(model.plan()).value();
}

TEST(Checker, FindsMemoryOfTheOtherSide) {
  const Plan plan = two_memories();
  ASSERT_EQ(complaint(plan), "") << print_plan(plan);
  const std::string text = print_commands(plan);
  EXPECT_THAT(text, HasSubstr("#1 dma[0] copy t4:a <- t3:a width 16 waits tec[0]")) << print_plan(plan);
  EXPECT_THAT(text, HasSubstr("host[0] launch h000_map__b(t4:a, t0:x, &")) << print_plan(plan);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << "one copy each way, for both readers of b\n" << text;
  Plan wrong = plan;
  wrong.host_launches[0].arguments[0].index = 3;
  wrong.tensors[3].last_use = 5;
  EXPECT_THAT(complaint(wrong), HasSubstr("uses 'a', which is in the device's"));
  wrong = plan;
  std::get<TecBody>(wrong.programs[0].commands[0].body).arguments[1].index = 4;
  wrong.tensors[4].first_use = 0;
  EXPECT_THAT(complaint(wrong), HasSubstr("uses 'a', which is in the host's memory"));
  wrong = plan;
  wrong.host_launches[0].kernel = 0;
  EXPECT_THAT(complaint(wrong), HasSubstr("launches a kernel of the other target"));
  wrong = plan;
  std::get<TecBody>(wrong.programs[0].commands[0].body).kernel = wrong.first_host_kernel;
  EXPECT_THAT(complaint(wrong), HasSubstr("launches a kernel of the other target"));
  wrong = plan;
  std::get<HostBody>(wrong.programs[0].commands[2].body).a = 9;
  EXPECT_THAT(complaint(wrong), HasSubstr("the host's work is out of range"));
  wrong = plan;
  wrong.programs[0].commands[2].waits.clear();
  EXPECT_THAT(complaint(wrong), HasSubstr("does not wait for #1 dma[0]"));
  const auto recording = record_plan(plan);
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  ASSERT_EQ(recording->host_work.tec.size(), 1u);
  EXPECT_EQ(recording->host_work.tec[0].sequence, plan.programs[0].commands[2].sequence);
  EXPECT_EQ(recording->programs[0].host[0].a, 0u);
}

// Random models of kernels and copies over small tensors of a few sizes, some in place, some views; every other one
// with a host that computes a third of it.
class RandomPlans : public ::testing::TestWithParam<int> {};

TEST_P(RandomPlans, EveryWaitIsEnoughAndNeeded) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  HandMade model;
  std::vector<graph::ValueId> values = {model.input("x", {16}), model.input("z", {16})};
  graph::ValueId lengths = model.input("lengths", {2}, DType::kI64);
  const size_t count = 3 + pick(25);
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "v" + std::to_string(i);
    // Mostly recent values, so that others die.
    const auto recent = [&] { return values[values.size() - 1 - pick(std::min<size_t>(values.size(), 4))]; };
    switch (pick(7)) {
      case 5: {  // a run symbol of something computed, used by the next kernel: three engines wait for each other
        lengths = pick(2) == 0 ? model.copy(lengths, name + "_n") : model.kernel("Relu", {lengths}, name + "_n");
        const auto symbol = model.graph.fresh_symbol(name + "_s", graph::Symbol::Kind::kTensorElement, lengths, 0);
        values.push_back(model.kernel("Relu", {recent()}, name));
        std::get<kernels::KernelLaunch>(model.implementation().launches[0]).arguments[2] =
            kernels::ScalarArgument{symbol};
        break;
      }
      case 0:
        values.push_back(model.copy(recent(), name));
        break;
      case 1:
        values.push_back(model.view(recent(), name));
        break;
      case 2:
        values.push_back(model.kernel("Add", {recent(), recent()}, name, pick(2) == 0));
        break;
      default:
        values.push_back(model.kernel("Relu", {recent()}, name, pick(2) == 0));
        break;
    }
    if (GetParam() % 2 == 1 && pick(3) == 0) model.groups.back().group.target = 1;
  }
  model.output(values.back(), "y");
  model.output(values[values.size() - 2], "w");
  const auto planned = model.plan();
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  const Plan& plan = *planned;
  ASSERT_EQ(complaint(plan), "") << print_plan(plan);
  size_t waits = 0;
  for (size_t c = 0; c < plan.programs[0].commands.size(); ++c) {
    for (size_t w = 0; w < plan.programs[0].commands[c].waits.size(); ++w) {
      Plan broken = plan;
      auto& list = broken.programs[0].commands[c].waits;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(w));
      EXPECT_NE(complaint(broken), "") << "wait " << w << " of command " << c << " is redundant\n" << print_plan(plan);
      ++waits;
    }
  }
  RecordProperty("waits", static_cast<int>(waits));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, ::testing::Range(0, 200));

TEST(Storers, RecordEveryCommandOnceInItsEngine) {
  const Plan plan = chain();
  std::array<std::string, kEngineCount> dump;
  const auto recording = record_plan(plan, {.check = true, .dump = &dump});
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  ASSERT_EQ(recording->programs.size(), 1u);
  const RecordedProgram& program = recording->programs[0];
  ASSERT_EQ(program.tec.size(), 3u);
  ASSERT_EQ(program.dma.size(), 2u);
  EXPECT_TRUE(program.host.empty());
  EXPECT_EQ(program.tec[1].sequence, 2u);
  EXPECT_EQ(program.tec[1].argument_count, 3u);
  EXPECT_EQ(recording->waits[program.tec[1].first_wait], (CommandId{Engine::kDma, 0}));
  EXPECT_EQ(recording->arguments[program.tec[1].first_argument + 2].word, 4u);
  EXPECT_THAT(dump[0], HasSubstr("#2 tec[1] k000_map__a("));
  EXPECT_THAT(dump[1], HasSubstr("#1 dma[0] copy"));
}

TEST(Storers, RefuseAWrongPlan) {
  Plan plan = chain();
  plan.programs[0].commands[3].waits.clear();
  EXPECT_THAT(record_plan(plan).status().message(), HasSubstr("does not wait for"));
  EXPECT_TRUE(record_plan(plan, {.check = false}).ok());
}

}  // namespace
}  // namespace aipu::gbuilder::testing
