#include "gbuilder/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gbuilder/plan/memory_plan.h"
#include "tests/gbuilder/hand_made.h"

namespace aipu::gbuilder::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Plan plan_of(HandMade& model) {
  auto plan = model.plan();
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return {};
  const Status proof = check_program(*plan, plan->programs[0]);
  EXPECT_TRUE(proof.ok()) << proof.message() << "\n" << print_plan(*plan);
  return std::move(plan).value();
}

std::string error_of(HandMade& model) {
  const auto plan = model.plan();
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.status().message();
}

TEST(Plan, LastKernelWritesTheOutputItself) {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.kernel("Relu", {a}, "b");
  model.output(b, "y");
  const Plan plan = plan_of(model);
  ASSERT_EQ(plan.programs[0].commands.size(), 2u);
  EXPECT_EQ(find_tensor(plan, "b", TensorKind::kArena), nullptr);
  const auto accesses = command_accesses(plan, plan.programs[0].commands[1]);
  EXPECT_EQ(accesses.back().tensor, plan.outputs[0]);
  EXPECT_TRUE(accesses.back().writes);
}

TEST(Plan, OutputThroughAWholeViewNeedsNoCopy) {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.view(a, "b");
  const auto c = model.kernel("Relu", {b}, "c");
  model.output(b, "y");
  model.output(c, "z");
  const Plan plan = plan_of(model);
  EXPECT_EQ(plan.programs[0].commands.size(), 2u);
  const PlanTensor* view = find_tensor(plan, "a", TensorKind::kView);
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->base, plan.outputs[0]);
}

TEST(Plan, ViewsOfViewsResolveToTheirRoot) {
  HandMade model;
  const auto x = model.input("x", {8});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.node("Relu", {a}, "b");
  model.implementation().views.push_back({b, a, 4});
  const auto c = model.node("Relu", {b}, "c");
  model.implementation().views.push_back({c, b, 8});
  const auto d = model.kernel("Relu", {c}, "d");
  model.output(d, "y");
  // The values' types are larger than what is left of the root; the checker sees that.
  auto plan = model.plan();
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const PlanTensor* view = find_tensor(*plan, "c", TensorKind::kView);
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(plan->tensors[view->base].name, "a");
  EXPECT_EQ(plan->expressions.constant_value(view->view_offset), 12);
  EXPECT_THAT(check_program(*plan, plan->programs[0]).message(), HasSubstr("the view 'c' reaches beyond 'a'"));
}

TEST(Plan, OutputsThatAreInputsConstantsOrTwinsAreCopied) {
  HandMade model;
  const auto x = model.input("x", {4});
  const float values[] = {1, 2, 3, 4};
  const auto constant = model.graph.add_constant(graph::Constant::of<float>(DType::kF32, {4}, values), "k");
  const auto a = model.kernel("Relu", {x}, "a");
  model.output(a, "first");
  model.output(a, "second");
  model.output(x, "same");
  model.output(constant, "fixed");
  const Plan plan = plan_of(model);
  const std::string text = print_commands(plan);
  EXPECT_THAT(text, HasSubstr("copy t2:second <- t1:first width 16 waits tec[0]"));
  EXPECT_THAT(text, HasSubstr(":same <- t0:x width 16"));
  EXPECT_THAT(text, HasSubstr(":fixed <- "));
}

TEST(Plan, LongNamesAreShortened) {
  HandMade model;
  const std::string name(1 << 20, 'n');
  auto value = model.input(name + "0", {4});
  for (int i = 1; i <= 20; ++i) value = model.kernel("Relu", {value}, name + std::to_string(i));
  model.output(value, name);
  const Plan plan = plan_of(model);
  EXPECT_LT(print_plan(plan).size(), 200000u);
  EXPECT_THAT(print_commands(plan), HasSubstr("nnn…"));
}

TEST(Plan, LifetimesReachThroughViews) {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto v = model.view(a, "v");
  const auto b = model.kernel("Relu", {x}, "b");
  const auto c = model.kernel("Add", {v, b}, "c");
  model.output(c, "y");
  const Plan plan = plan_of(model);
  const PlanTensor* tensor = find_tensor(plan, "a", TensorKind::kArena);
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->first_use, 0u);
  EXPECT_EQ(tensor->last_use, 2u);
}

TEST(Plan, InPlaceOnlyWhenTheInputDiesThere) {
  for (const bool read_later : {false, true}) {
    HandMade model;
    const auto x = model.input("x", {4});
    const auto a = model.kernel("Relu", {x}, "a");
    const auto b = model.kernel("Relu", {a}, "b", true);
    const auto c = model.kernel("Add", {b, read_later ? a : x}, "c");
    const auto d = model.kernel("Relu", {c}, "d");
    model.output(d, "y");
    const Plan plan = plan_of(model);
    const PlanTensor* tensor = find_tensor(plan, "b", TensorKind::kArena);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->in_place_of != kNone, !read_later);
    const auto memory = plan_memory(plan);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    EXPECT_EQ(memory->arena_bytes, read_later ? 3 * 64 : 2 * 64);
    EXPECT_EQ(memory->lower_bound_bytes, memory->arena_bytes);
  }
}

TEST(Plan, InPlaceNotOnInputsConstantsOrOtherSizes) {
  HandMade model;
  const auto x = model.input("x", {1, 4});
  const auto y = model.input("y", {3, 1});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.kernel("Add", {a, y}, "b", true);  // [3,4]: larger than a
  const auto c = model.kernel("Relu", {x}, "c", true);    // x is the caller's
  const auto d = model.kernel("Add", {b, c}, "d");
  model.output(d, "out");
  const Plan plan = plan_of(model);
  EXPECT_EQ(find_tensor(plan, "b", TensorKind::kArena)->in_place_of, kNone);
  EXPECT_EQ(find_tensor(plan, "c", TensorKind::kArena)->in_place_of, kNone);
}

TEST(Plan, InPlaceNotWhenTheSameMemoryIsReadThroughAnotherView) {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto v = model.view(a, "v");
  const auto b = model.kernel("Add", {a, v}, "b", true);
  const auto c = model.kernel("Relu", {b}, "c");
  model.output(c, "y");
  const Plan plan = plan_of(model);
  EXPECT_EQ(find_tensor(plan, "b", TensorKind::kArena)->in_place_of, kNone);
}

TEST(Plan, EnginesWaitForEachOthersData) {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.copy(a, "b");
  const auto c = model.kernel("Relu", {b}, "c");
  model.output(c, "y");
  const Plan plan = plan_of(model);
  const auto& commands = plan.programs[0].commands;
  EXPECT_THAT(commands[0].waits, ::testing::IsEmpty());
  EXPECT_THAT(commands[1].waits, ::testing::ElementsAre(CommandId{Engine::kTec, 0}));
  EXPECT_THAT(commands[2].waits, ::testing::ElementsAre(CommandId{Engine::kDma, 0}));
}

TEST(Plan, ReuseOfMemoryWaitsForItsLastUsersOnOtherEngines) {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.copy(a, "b");              // a dies here, on the dma engine
  const auto c = model.kernel("Relu", {x}, "c");  // may get the memory of a
  const auto d = model.kernel("Add", {b, c}, "d");
  model.output(d, "y");
  const Plan plan = plan_of(model);
  EXPECT_THAT(plan.programs[0].commands[2].waits, ::testing::ElementsAre(CommandId{Engine::kDma, 0}));
  // Implied by the wait above.
  EXPECT_THAT(plan.programs[0].commands[3].waits, ::testing::IsEmpty());
}

TEST(Plan, WorkspacesLiveAsLongAsTheLaunchesThatUseThem) {
  HandMade model;
  const auto x = model.input("x", {4});
  const auto a = model.node("Relu", {x}, "a");
  auto& implementation = model.implementation();
  implementation.workspace_bytes.push_back(256);
  const kernels::PointerArgument workspace{{kernels::TensorRef::Kind::kWorkspace, {}, 0}, 0};
  implementation.launches.emplace_back(
      kernels::KernelLaunch{make_kernel("first", 2), {HandMade::pointer(x), workspace}, {false, true}});
  implementation.launches.emplace_back(
      kernels::KernelLaunch{make_kernel("second", 2), {workspace, HandMade::pointer(a)}, {false, true}});
  const auto b = model.kernel("Relu", {a}, "b");
  model.output(b, "y");
  const Plan plan = plan_of(model);
  const auto it =
      std::find_if(plan.tensors.begin(), plan.tensors.end(), [](const PlanTensor& t) { return t.workspace; });
  ASSERT_NE(it, plan.tensors.end());
  EXPECT_EQ(it->first_use, 0u);
  EXPECT_EQ(it->last_use, 1u);
  EXPECT_EQ(plan.expressions.constant_value(it->size_bytes), 256);
}

TEST(Plan, WorkspacesOfTecsAreSizedByTheirNumber) {
  HandMade model;
  const auto x = model.input("x", {100});
  const auto a = model.kernel("Relu", {x}, "a");
  model.implementation().workspace_bytes.push_back(kernels::tec_count() * graph::Dim(256));
  auto& launch = std::get<kernels::KernelLaunch>(model.implementation().launches[0]);
  launch.kernel = make_kernel("with_workspace", 3, 1);
  launch.arguments.insert(launch.arguments.begin(),
                          kernels::PointerArgument{{kernels::TensorRef::Kind::kWorkspace, {}, 0}, 0});
  launch.writes.insert(launch.writes.begin(), true);
  model.output(model.kernel("Relu", {a}, "b"), "y");
  const Plan plan = plan_of(model);
  ASSERT_EQ(plan.symbols.size(), 1u);
  EXPECT_EQ(plan.symbols[0].kind, SymbolKind::kTecCount);
  EXPECT_THAT(print_tensors(plan), HasSubstr("(TECs) = the number of TECs"));
  const std::string tecs(kernels::kTecCountSymbol);
  for (const auto& [count, bytes] : {std::pair<int, int>{1, 448 + 256}, {4, 448 + 1024}}) {
    const auto memory = plan_memory(plan, {{tecs, count}});
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    EXPECT_EQ(memory->arena_bytes, bytes);
    EXPECT_EQ(memory->activation_bytes, 448);  // 400 bytes in units of 64
  }
  const auto memory = plan_memory(plan);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_EQ(memory->arena_bytes, 448 + 256);
}

TEST(Plan, TheSymbolOfTecsIsNoModelsOwn) {
  HandMade model;
  const auto x = model.input("x", {graph::Dim::symbol(kernels::kTecCountSymbol)});
  model.output(model.kernel("Relu", {x}, "a"), "y");
  const auto plan = model.plan();
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), ErrorCode::kUnsupported);
}

TEST(Plan, SymbolsOfInputsAndOfTensors) {
  HandMade model;
  const auto n = graph::Dim::symbol("N");
  const auto x = model.input("x", {n});
  const auto unused = model.input("unused", {graph::Dim::symbol("M"), 2});
  const auto lengths = model.input("lengths", {2}, DType::kI64);
  const auto doubled = model.kernel("Relu", {lengths}, "doubled");
  const auto run = model.graph.fresh_symbol("count", graph::Symbol::Kind::kTensorElement, doubled, 1);
  const auto a = model.kernel("Relu", {x}, "a");
  // The size of b is element 1 of `doubled`.
  const auto b = model.kernel("Relu", {a}, "b");
  model.graph.value(b).type.shape = {run};
  std::get<kernels::KernelLaunch>(model.implementation().launches[0]).arguments[2] = kernels::ScalarArgument{run};
  const auto c = model.kernel("Relu", {b}, "c");
  model.graph.value(c).type.shape = {run};
  model.output(c, "y");
  // The producer of the symbol is given last: the shape is the only edge to it.
  std::swap(model.groups[0], model.groups[1]);
  std::rotate(model.groups.begin() + 1, model.groups.begin() + 2, model.groups.end());
  (void)unused;
  const Plan plan = plan_of(model);
  const std::string text = print_plan(plan);
  ASSERT_EQ(plan.symbols.size(), 3u) << text;
  EXPECT_EQ(plan.symbols[0].kind, SymbolKind::kInputExtent);
  EXPECT_EQ(plan.symbols[2].kind, SymbolKind::kTensorElement);
  EXPECT_EQ(plan.symbols[2].index, 1u);
  const auto& commands = plan.programs[0].commands;
  const auto bind = std::find_if(commands.begin(), commands.end(),
                                 [](const Command& counted) { return counted.engine() == Engine::kHost; });
  ASSERT_NE(bind, commands.end()) << text;
  EXPECT_EQ(bind->waits.size(), 1u);
  EXPECT_THAT(print_command(plan, *(bind - 1)), HasSubstr("doubled"));
  EXPECT_THAT(print_command(plan, *(bind + 1)), HasSubstr("waits host[0]"));
  const auto memory = plan_memory(plan);
  ASSERT_FALSE(memory.ok());
  EXPECT_THAT(memory.status().message(), HasSubstr("symbol"));
}

TEST(Plan, ChecksOfInputShapesComeFirstAndOnce) {
  HandMade model;
  const auto n = graph::Dim::symbol("N"), m = graph::Dim::symbol("M");
  const auto x = model.input("x", {n}), y = model.input("y", {m});
  const auto a = model.kernel("Relu", {x}, "a");
  model.implementation().checks.push_back({graph::eq(n, m), "N and M differ"});
  const auto b = model.kernel("Relu", {y}, "b");
  model.implementation().checks.push_back({graph::eq(n, m), "N and M differ"});
  model.implementation().checks.push_back({1, "fine"});
  model.output(a, "p");
  model.output(b, "q");
  const Plan plan = plan_of(model);
  ASSERT_EQ(plan.programs[0].commands.size(), 3u);
  EXPECT_THAT(print_command(plan, plan.programs[0].commands[0]), HasSubstr("host[0] check eq("));
  EXPECT_THAT(plan.programs[0].commands[1].waits, ::testing::ElementsAre(CommandId{Engine::kHost, 0}));
}

TEST(Plan, KernelsAndConstantsAreThereOnce) {
  HandMade model;
  const auto x = model.input("x", {4});
  const float values[] = {1, 2, 3, 4};
  const auto k = model.graph.add_constant(graph::Constant::of<float>(DType::kF32, {4}, values), "k");
  const auto a = model.kernel("Add", {x, k}, "a", false, "add_one");
  const auto b = model.kernel("Add", {a, k}, "b", false, "add_two");
  const auto c = model.kernel("Relu", {b}, "c", false, "relu");
  model.output(c, "y");
  const Plan plan = plan_of(model);
  ASSERT_EQ(plan.kernels.size(), 2u);
  EXPECT_EQ(plan.kernels[0].symbol, "k000_add_one__a");
  EXPECT_EQ(plan.kernels[0].source, "'a' (Add) + 'b' (Add)");
  EXPECT_EQ(plan.kernels[1].symbol, "k001_relu__c");
  EXPECT_EQ(plan.kernels[1].module->entry().name, "k001_relu__c");
  EXPECT_EQ(plan.kernels[0].argument_bits, (std::vector<uint8_t>{0, 0, 0, 32}));
  EXPECT_EQ(plan.constant_bytes, 64u);
  EXPECT_EQ(std::count_if(plan.tensors.begin(), plan.tensors.end(),
                          [](const PlanTensor& t) { return t.kind == TensorKind::kConstant; }),
            1);
}

TEST(Plan, MistakesOfPluginsAreToldWithTheNode) {
  {
    HandMade model;
    const auto a = model.node("Relu", {model.input("x", {4})}, "a");
    model.output(a, "y");
    EXPECT_THAT(error_of(model), HasSubstr("node 'a' (Relu): plugin 'hand': nothing writes its output 'a'"));
  }
  {
    HandMade model;
    const auto x = model.input("x", {4});
    const auto a = model.kernel("Relu", {x}, "a");
    std::get<kernels::KernelLaunch>(model.implementation().launches[0]).arguments.pop_back();
    model.output(a, "y");
    EXPECT_THAT(error_of(model), HasSubstr("has 3 parameters, the launch gives 2"));
  }
  {
    HandMade model;
    const auto x = model.input("x", {4});
    const auto a = model.kernel("Relu", {x}, "a");
    std::get<kernels::KernelLaunch>(model.implementation().launches[0]).writes[0] = true;
    model.output(a, "y");
    EXPECT_THAT(error_of(model), HasSubstr("tensor 'x', which is read-only"));
  }
  {
    HandMade model;
    const auto x = model.input("x", {4});
    const auto a = model.kernel("Relu", {x}, "a");
    std::get<kernels::KernelLaunch>(model.implementation().launches[0]).arguments[2] =
        kernels::ScalarArgument{int64_t{1} << 31};
    model.output(a, "y");
    EXPECT_THAT(error_of(model), HasSubstr("argument 2 is 2147483648, beyond int32"));
  }
  {
    HandMade model;
    const auto x = model.input("x", {4});
    const auto a = model.kernel("Relu", {x}, "a");
    model.implementation().checks.push_back({0, "never works"});
    model.output(a, "y");
    EXPECT_THAT(error_of(model), HasSubstr("never works"));
  }
}

}  // namespace
}  // namespace aipu::gbuilder::testing
