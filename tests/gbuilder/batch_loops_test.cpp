#include "gbuilder/plan/batch_loops.h"
#include "gbuilder/plan/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gbuilder/plan/memory_plan.h"
#include "tests/gbuilder/hand_made.h"

namespace aipu::gbuilder::testing {
namespace {

using graph::Attributes;
using graph::Dim;
using graph::Shape;

Plan plan_of(HandMade& model) {
  model.batch_loops = true;
  auto plan = model.plan();
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? std::move(plan).value() : Plan();
}

const Dim kN = Dim::symbol("N");
constexpr int64_t kLarge = 1 << 18;  // elements of a sample that is worth a loop

TEST(BatchLoops, AreFoundWhereActivationsAreLarge) {
  HandMade model;
  const auto x = model.input("x", {kN, kLarge});
  const auto a = model.kernel("Relu", {x}, "a");
  const auto b = model.copy(a, "b");
  const auto c = model.kernel("Add", {b, a}, "c");
  model.output(c, "y");
  const Plan plan = plan_of(model);
  ASSERT_EQ(plan.batch_loops.size(), 1u) << print_plan(plan);
  EXPECT_EQ(plan.batch_loops[0].first, 0u);
  EXPECT_EQ(plan.batch_loops[0].last, 2u);
  EXPECT_EQ(plan.symbols[plan.batch_loops[0].symbol].name, "N");
  EXPECT_THAT(print_plan(plan), ::testing::HasSubstr("#0..#2 may be run for one of N at a time"));
  // Memory for one sample of a and b, whatever the batch.
  const auto memory = plan_memory(plan, {{"N", 16}});
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->arena_bytes, 2 * kLarge * 4);
  EXPECT_EQ(plan_memory(plan, {{"N", 1}})->arena_bytes, 2 * kLarge * 4);
}

TEST(BatchLoops, AreNotWorthItForSmallSamplesNorForASingleCommand) {
  HandMade small;
  auto value = small.input("x", {kN, kLarge / 16});
  for (const char* name : {"a", "b", "c"}) value = small.kernel("Relu", {value}, name);
  small.output(value, "y");
  EXPECT_TRUE(plan_of(small).batch_loops.empty());

  HandMade single;
  single.output(single.kernel("Relu", {single.input("x", {kN, kLarge})}, "a"), "y");
  EXPECT_TRUE(plan_of(single).batch_loops.empty());
}

// x of so many rows by weights that outweigh it, twice.
template <typename T>
Plan plan_of_products(const Dim& rows, DType type) {
  HandMade model;
  auto value = model.input("x", {kN, rows, 1024}, type);
  for (const char* name : {"a", "b"}) {
    const std::vector<T> weights(1024 * 1024, static_cast<T>(name[0]));
    const auto w = model.graph.add_constant(graph::Constant::of<T>(type, {1024, 1024}, weights), "w");
    value = model.kernel("MatMul", {value, w}, name);
  }
  model.output(value, "y");
  return plan_of(model);
}

TEST(BatchLoops, HideTheReadingOfWeightsBehindManyRows) {
  const Plan many = plan_of_products<int8_t>(200, DType::kI8);
  ASSERT_EQ(many.batch_loops.size(), 1u) << print_plan(many);
  EXPECT_EQ(many.expressions.constant_value(many.batch_loops[0].condition), 1);
  EXPECT_TRUE(plan_of_products<int8_t>(90, DType::kI8).batch_loops.empty());
  EXPECT_TRUE(plan_of_products<float>(200, DType::kF32).batch_loops.empty());

  const Plan symbolic = plan_of_products<int8_t>(Dim::symbol("rows"), DType::kI8);
  ASSERT_EQ(symbolic.batch_loops.size(), 1u) << print_plan(symbolic);
  EXPECT_THAT(print_plan(symbolic),
              ::testing::HasSubstr("#0..#1 may be run for one of N at a time by each thread, if lt(-1*rows, -95)"));
  // Memory of one sample only where there is a loop.
  EXPECT_EQ(plan_memory(symbolic, {{"N", 4}, {"rows", 200}})->arena_bytes, 200 * 1024);
  EXPECT_EQ(plan_memory(symbolic, {{"N", 4}, {"rows", 20}})->arena_bytes, 4 * 20 * 1024);
}

// Scratch memory between two commands of a group need not be made of samples, but both are in the loop or neither.
TEST(BatchLoops, HaveWholeGroups) {
  HandMade model;
  const auto x = model.input("x", {kN, kLarge});
  const auto a = model.node("Relu", {x}, "a");
  const kernels::TensorRef scratch{kernels::TensorRef::Kind::kWorkspace, {}, 0};
  model.implementation().workspace_bytes = {kN * Dim(4 * kLarge) + Dim(64)};
  for (const bool is_first : {true, false}) {
    kernels::KernelLaunch launch;
    launch.kernel = make_kernel("map", 2);
    launch.arguments = {is_first ? model.pointer(x) : kernels::PointerArgument{scratch},
                        is_first ? kernels::PointerArgument{scratch} : model.pointer(a)};
    launch.writes = {false, true};
    model.implementation().launches.emplace_back(std::move(launch));
  }
  model.output(model.kernel("Relu", {a}, "b"), "y");
  const Plan plan = plan_of(model);
  ASSERT_EQ(plan.batch_loops.size(), 1u) << print_plan(plan);
  EXPECT_EQ(plan.batch_loops[0].first, 0u);
  EXPECT_EQ(plan.batch_loops[0].last, 2u);
  EXPECT_EQ(plan_memory(plan, {{"N", 16}})->arena_bytes, 2 * kLarge * 4 + 64);
}

// Between the nodes of a group samples may be along any axis, as of an attention's parts; of what others see they are in
// front.
TEST(BatchLoops, MayTurnSamplesWithinAGroup) {
  const auto transpose = [](std::vector<int64_t> perm) {
    Attributes attributes;
    attributes.set("perm", std::move(perm));
    return attributes;
  };
  for (const bool in_one_group : {true, false}) {
    HandMade model;
    const auto x = model.input("x", {kN, 1, kLarge});
    const auto turned = model.node("Transpose", {x}, "turned", transpose({1, 0, 2}));
    Attributes flat;
    flat.set("shape", Shape{kN, kLarge});
    const auto back = model.node("Reshape", {turned}, "back", flat);
    if (in_one_group) {
      const graph::Group last = model.groups.back().group;
      model.groups.pop_back();
      graph::Group& group = model.groups.back().group;
      group.nodes.push_back(last.nodes[0]);
      group.outputs = last.outputs;
    } else {
      kernels::KernelLaunch launch;
      launch.kernel = make_kernel("map", 2);
      launch.arguments = {model.pointer(x), model.pointer(turned)};
      launch.writes = {false, true};
      model.groups.front().implementation.launches.emplace_back(std::move(launch));
    }
    kernels::KernelLaunch launch;
    launch.kernel = make_kernel("map", 2);
    launch.arguments = {model.pointer(in_one_group ? x : turned), model.pointer(back)};
    launch.writes = {false, true};
    model.implementation().launches.emplace_back(std::move(launch));
    model.output(model.kernel("Relu", {model.kernel("Relu", {back}, "a")}, "b"), "y");
    const Plan plan = plan_of(model);
    ASSERT_EQ(plan.batch_loops.size(), 1u) << print_plan(plan);
    EXPECT_EQ(plan.batch_loops[0].first, in_one_group ? 0u : 2u) << print_plan(plan);
  }
}

TEST(BatchLoops, HaveNothingThatIsTheSameForAllSamples) {
  HandMade model;
  const Dim rows = Dim::symbol("rows");
  const auto table = model.input("table", {rows, 1024});
  const auto x = model.input("x", {kN, rows, 1024});
  const auto shared = model.kernel("Relu", {table}, "shared");
  const auto a = model.kernel("Add", {x, shared}, "a");
  model.output(model.kernel("Relu", {a}, "b"), "y");
  const Plan plan = plan_of(model);
  ASSERT_EQ(plan.batch_loops.size(), 1u) << print_plan(plan);
  EXPECT_EQ(plan.batch_loops[0].first, 1u);
}

TEST(BatchLoops, NeedASymbolicBatchInFront) {
  HandMade fixed;
  auto value = fixed.input("x", {8, kLarge});
  for (const char* name : {"a", "b", "c"}) value = fixed.kernel("Relu", {value}, name);
  fixed.output(value, "y");
  EXPECT_TRUE(plan_of(fixed).batch_loops.empty());

  HandMade last;
  value = last.input("x", {kLarge, kN});
  for (const char* name : {"a", "b", "c"}) value = last.kernel("Relu", {value}, name);
  last.output(value, "y");
  EXPECT_TRUE(plan_of(last).batch_loops.empty());
}

// A view of samples into memory that is not made of samples: a part of a transposed tensor.
TEST(BatchLoops, StopAtMemoryThatIsNotMadeOfSamples) {
  HandMade model;
  Attributes swap;
  swap.set("perm", std::vector<int64_t>{1, 0, 2});
  const auto x = model.input("x", {kN, 2, kLarge});
  const auto t = model.node("Transpose", {x}, "t", swap);
  kernels::KernelLaunch launch;
  launch.kernel = make_kernel("map", 2);
  launch.arguments = {model.pointer(x), model.pointer(t)};
  launch.writes = {false, true};
  model.implementation().launches.emplace_back(std::move(launch));
  Attributes first_row;
  first_row.set("starts", Shape{0, 0, 0});
  first_row.set("steps", std::vector<int64_t>{1, 1, 1});
  first_row.set("extents", Shape{1, kN, kLarge});
  const auto row = model.node("Slice", {t}, "row", first_row);
  model.implementation().views.push_back({row, t, 0});
  Attributes flat;
  flat.set("shape", Shape{kN, kLarge});
  const auto samples = model.node("Reshape", {row}, "samples", flat);
  model.implementation().views.push_back({samples, row, 0});
  const auto a = model.kernel("Relu", {samples}, "a");
  const auto b = model.kernel("Relu", {a}, "b");
  const auto c = model.kernel("Relu", {b}, "c");
  model.output(c, "y");
  const Plan plan = plan_of(model);
  ASSERT_EQ(plan.batch_loops.size(), 1u) << print_plan(plan);
  EXPECT_EQ(plan.batch_loops[0].first, 2u) << "not a, which reads the view";
  EXPECT_EQ(plan.batch_loops[0].last, 3u);
}

// Adds the node and asks.
bool apart(const std::string& op, std::vector<Shape> inputs, Attributes attributes = {}) {
  graph::Graph graph;
  std::vector<graph::ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i)
    values.push_back(graph.add_input("x" + std::to_string(i), {DType::kF32, inputs[i]}));
  const auto id = graph.add_node(op, std::move(attributes), values, {"y"}, {{"y", op}});
  EXPECT_TRUE(id.ok()) << id.status().message();
  return id.ok() && keeps_samples_apart(graph, graph.node(*id), "N");
}

Attributes with(const char* name, int64_t value) {
  Attributes attributes;
  attributes.set(name, value);
  return attributes;
}
Attributes with(const char* name, std::vector<int64_t> values) {
  Attributes attributes;
  attributes.set(name, std::move(values));
  return attributes;
}

TEST(SamplesApart, Elementwise) {
  EXPECT_TRUE(apart("Relu", {{kN, 4}}));
  EXPECT_TRUE(apart("Relu", {{kN * Dim(7), 4}}));
  EXPECT_TRUE(apart("Add", {{kN, 4}, {4}}));
  EXPECT_TRUE(apart("Add", {{kN, 4}, {1, 4}}));
  EXPECT_TRUE(apart("Add", {{kN, 4}, {kN, 1}}));
  EXPECT_TRUE(apart("Relu", {{3, 4}})) << "the same for every sample";
  EXPECT_FALSE(apart("Add", {{kN, 4}, {kN}})) << "sample i meets column i";
  EXPECT_FALSE(apart("Add", {{kN, 4, 5}, {kN, 1}}));
  EXPECT_FALSE(apart("Relu", {{4, kN}}));
  EXPECT_FALSE(apart("Relu", {{kN + Dim(1), 4}}));
  EXPECT_FALSE(apart("Relu", {{kN, kN}}));
}

TEST(SamplesApart, AxesOtherThanTheFirst) {
  EXPECT_TRUE(apart("Softmax", {{kN, 4}}, with("axis", 1)));
  EXPECT_TRUE(apart("Softmax", {{kN, 4}}, with("axis", -1)));
  EXPECT_FALSE(apart("Softmax", {{kN, 4}}, with("axis", 0)));
  EXPECT_FALSE(apart("Softmax", {{kN, 4}}, with("axis", -2)));
  EXPECT_TRUE(apart("Concat", {{kN, 4}, {kN, 3}}, with("axis", 1)));
  EXPECT_FALSE(apart("Concat", {{kN, 4}, {kN, 4}}, with("axis", 0)));
  EXPECT_TRUE(apart("ReduceMean", {{kN, 4, 5}}, with("axes", std::vector<int64_t>{1, 2})));
  EXPECT_FALSE(apart("ReduceMean", {{kN, 4, 5}}, with("axes", std::vector<int64_t>{0})));
  EXPECT_TRUE(apart("Transpose", {{kN, 4, 5}}, with("perm", std::vector<int64_t>{0, 2, 1})));
  EXPECT_FALSE(apart("Transpose", {{kN, 4, 5}}, with("perm", std::vector<int64_t>{1, 0, 2})));
  EXPECT_FALSE(apart("CumSum", {{kN, 4}}, with("axis", 0))) << "not known to keep samples apart";
}

TEST(SamplesApart, Products) {
  EXPECT_TRUE(apart("MatMul", {{kN, 4}, {4, 5}}));
  EXPECT_TRUE(apart("MatMul", {{kN, 3, 4}, {kN, 4, 5}}));
  EXPECT_TRUE(apart("MatMul", {{kN, 3, 4}, {4, 5}}));
  EXPECT_TRUE(apart("MatMul", {{4, 5}, {kN, 5, 6}}));
  EXPECT_FALSE(apart("MatMul", {{kN, 4}, {4, kN}}));
  EXPECT_FALSE(apart("MatMul", {{4, kN}, {kN, 5}})) << "sums over samples";
  EXPECT_TRUE(apart("Gemm", {{kN, 4}, {4, 5}}));
  EXPECT_FALSE(apart("Gemm", {{4, kN}, {4, 5}}, with("transA", 1)));
}

TEST(SamplesApart, Movement) {
  const auto slice = [](int64_t step, int64_t start) {
    Attributes attributes;
    attributes.set("starts", Shape{start, 0});
    attributes.set("steps", std::vector<int64_t>{step, 1});
    attributes.set("extents", Shape{kN, 2});
    return attributes;
  };
  EXPECT_TRUE(apart("Slice", {{kN, 4}}, slice(1, 0)));
  EXPECT_FALSE(apart("Slice", {{kN, 4}}, slice(-1, 0))) << "reverses the batch";
  EXPECT_FALSE(apart("Slice", {{kN * Dim(2), 4}}, slice(1, 0))) << "sample i is not made of rows 2i and 2i + 1";
  const auto reshape = [](Shape shape) {
    Attributes attributes;
    attributes.set("shape", std::move(shape));
    return attributes;
  };
  EXPECT_TRUE(apart("Reshape", {{kN, 4, 6}}, reshape({kN, 24})));
  EXPECT_TRUE(apart("Reshape", {{kN, 4, 6}}, reshape({kN * Dim(4), 6})));
  EXPECT_FALSE(apart("Reshape", {{kN, 4, 6}}, reshape({4, kN, 6})));
  EXPECT_FALSE(apart("Reshape", {{1, kN, 6}}, reshape({kN, 6}))) << "not in front";
}

TEST(SamplesApart, PositionsCountedOverAllSamples) {
  graph::Graph graph;
  const auto x = graph.add_input("x", {DType::kF32, {kN, 3, 8, 8}});
  const auto pooled = with("kernel_shape", std::vector<int64_t>{2, 2});
  const auto values = graph.add_node("MaxPool", pooled, {x}, {"values"}, {{"a", "MaxPool"}});
  const auto both = graph.add_node("MaxPool", pooled, {x}, {"values", "indices"}, {{"b", "MaxPool"}});
  ASSERT_TRUE(values.ok() && both.ok());
  EXPECT_TRUE(keeps_samples_apart(graph, graph.node(*values), "N"));
  EXPECT_FALSE(keeps_samples_apart(graph, graph.node(*both), "N"));
}

TEST(Work, OfQuantizedOps) {
  graph::Graph graph;
  const auto image = graph.add_input("image", {DType::kU8, {1, 3, 8, 8}});
  const auto filters = graph.add_input("filters", {DType::kI8, {16, 3, 3, 3}});
  const auto conv = graph.add_node("aipu::QuantizedConv", {}, {image, filters}, {"y"}, {{"conv", "Conv"}});
  const auto rows = graph.add_input("rows", {DType::kU8, {5, 7}});
  const auto columns = graph.add_input("columns", {DType::kI8, {7, 11}});
  const auto product = graph.add_node("aipu::QuantizedMatMul", {}, {rows, columns}, {"z"}, {{"product", "MatMul"}});
  ASSERT_TRUE(conv.ok() && product.ok());
  graph::Group group;
  group.nodes = {*conv};
  EXPECT_EQ(arithmetic_operations(graph, group).constant(), 2 * 16 * 6 * 6 * 27);
  group.nodes = {*product};
  EXPECT_EQ(arithmetic_operations(graph, group).constant(), 2 * 5 * 7 * 11);
}

}  // namespace
}  // namespace aipu::gbuilder::testing
