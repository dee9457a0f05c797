// How the work of the graph passes grows with the graph: calls of functions of the graph library, which is compiled for
// this test with each call reported. Counted, not timed: the same on every machine, however busy.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"

namespace {
uint64_t calls = 0;
}

extern "C" {
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void*, void*) { ++calls; }
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void*, void*) {}
}

namespace aipu::graph {
namespace {

constexpr int kNodes = 1000;

using Make = std::function<void(Graph&, int)>;

ValueId emitted(Graph& graph, const char* op, Attributes attributes, std::vector<ValueId> inputs) {
  auto value = graph.emit(op, std::move(attributes), std::move(inputs), {});
  EXPECT_TRUE(value.ok()) << value.status().message();
  return value.ok() ? *value : ValueId();
}

ValueId input(Graph& graph) { return graph.add_input("x", {DType::kF32, {Dim::symbol("N"), 4, 2}}); }

ValueId number(Graph& graph, float value) {
  return graph.add_constant(Constant::of<float>(DType::kF32, {}, {&value, 1}));
}

void activations(Graph& graph, int nodes) {
  ValueId x = input(graph);
  for (int k = 0; k < nodes; ++k) x = emitted(graph, k % 2 == 0 ? "Relu" : "Neg", {}, {x});
  graph.add_output(x, "y");
}

void equal_nodes(Graph& graph, int nodes) {
  const ValueId x = input(graph);
  for (int k = 0; k < nodes; ++k) graph.add_output(emitted(graph, "Add", {}, {x, x}), "y" + std::to_string(k));
}

void own_numbers(Graph& graph, int nodes) {
  ValueId x = input(graph);
  for (int k = 0; k < nodes; ++k)
    x = emitted(graph, k % 2 == 0 ? "Mul" : "Add", {}, {x, number(graph, 2 + static_cast<float>(k))});
  graph.add_output(x, "y");
}

void transposes(Graph& graph, int nodes) {
  ValueId x = input(graph);
  Attributes perm;
  perm.set("perm", std::vector<int64_t>{0, 2, 1});
  for (int k = 0; k < nodes; ++k)
    x = k % 2 == 0 ? emitted(graph, "Transpose", perm, {x}) : emitted(graph, "Exp", {}, {x});
  graph.add_output(x, "y");
}

void shape_arithmetic(Graph& graph, int nodes) {
  ValueId x = input(graph);
  for (int k = 0; k < nodes; k += 3) {
    const ValueId shape = emitted(graph, "Shape", {}, {x});
    x = emitted(graph, "Sin", {}, {emitted(graph, "Reshape", {}, {x, shape})});
  }
  graph.add_output(x, "y");
}

void one_concat(Graph& graph, int nodes) {
  const ValueId x = input(graph);
  std::vector<ValueId> parts;
  for (int k = 0; k < nodes; ++k) parts.push_back(emitted(graph, "Mul", {}, {x, number(graph, static_cast<float>(k))}));
  Attributes axis;
  axis.set("axis", int64_t{1});
  graph.add_output(emitted(graph, "Concat", axis, parts), "y");
}

using Steps = std::map<std::string, uint64_t>;  // by place in the pipeline and name; "verify" of all together

Steps steps_of(const Make& make, int nodes, std::span<const Pass> passes) {
  Graph graph;
  make(graph, nodes);
  Steps steps;
  PassContext context;
  for (size_t k = 0; k < passes.size(); ++k) {
    uint64_t before = calls;
    const auto rewrites = passes[k].run(graph, context);
    EXPECT_TRUE(rewrites.ok()) << rewrites.status().message();
    steps[std::to_string(k) + " " + std::string(passes[k].name)] = calls - before;
    before = calls;
    const Status valid = verify_graph(graph);
    EXPECT_TRUE(valid.ok()) << valid.message();
    steps["verify"] += calls - before;
  }
  return steps;
}

// Of twice the nodes: twice the steps, and a logarithm.
constexpr double kMostGrowth = 2.4;

TEST(Steps, GrowInProportionToTheNodes) {
  const std::pair<const char*, Make> models[] = {{"activations", activations},           {"equal_nodes", equal_nodes},
                                                 {"own_numbers", own_numbers},           {"transposes", transposes},
                                                 {"shape_arithmetic", shape_arithmetic}, {"one_concat", one_concat}};
  for (const auto& [name, make] : models) {
    const Steps one = steps_of(make, kNodes, graph_pipeline()), two = steps_of(make, 2 * kNodes, graph_pipeline());
    for (const auto& [pass, steps] : two) {
      const auto before = static_cast<double>(one.at(pass));
      EXPECT_LE(static_cast<double>(steps), kMostGrowth * before + 1000) << name << ", pass " << pass << ": " << before;
    }
  }
}

// What the test is for.
TEST(Steps, OfAllPairsGrowFaster) {
  const Pass pairs[] = {{"pairs", "looks at all pairs of nodes", [](Graph& graph, PassContext&) -> Result<int> {
                           int found = 0;
                           for (const NodeId a : graph.topological_order()) {
                             for (size_t b = 0; b < graph.node_count(); ++b)
                               found += graph.user_count(std::as_const(graph).node(a).outputs[0]) == b ? 1 : 0;
                           }
                           return found == 0 ? 1 : 0;
                         }}};
  const auto one = steps_of(activations, kNodes, pairs).at("0 pairs");
  const auto two = steps_of(activations, 2 * kNodes, pairs).at("0 pairs");
  EXPECT_GT(static_cast<double>(two), kMostGrowth * static_cast<double>(one));
}

}  // namespace
}  // namespace aipu::graph
