// Expressions of fused operators: their source, what they cost, and which nodes are one.
#include "kernels/parts/expression.h"

#include <gtest/gtest.h>

#include "kernels/parts/elementwise_expression.h"

namespace aipu::kernels {
namespace {

Expression x() { return Expression::atom("x[0]"); }
Expression one() { return Expression::atom("1.0"); }

TEST(Expression, PrintsWithItsOwnGrouping) {
  EXPECT_EQ((x() * (x() + one())).text(), "(x[0] * (x[0] + 1.0))");
  EXPECT_EQ((x() - (one() - x())).text(), "(x[0] - (1.0 - x[0]))");
  EXPECT_EQ((~(x() ^ one())).text(), "(~(x[0] ^ 1.0))");
  EXPECT_EQ(Expression::call("vsel", {x(), one(), Expression::binary("<", x(), one())}).text(),
            "S.vsel(x[0], 1.0, (x[0] < 1.0))");
  EXPECT_EQ(Expression::call_own("check", {x()}).text(), "check(x[0])");
}

TEST(Expression, IsLongByTheRowsOfItsIntrinsics) {
  EXPECT_FALSE((x() + Expression::call("max", {x(), one()})).is_long());
  EXPECT_TRUE((one() / (one() + Expression::call("exp", {x()}))).is_long());
  EXPECT_TRUE((~Expression::call("isnan", {Expression::call("tanh", {x()})})).is_long());
  EXPECT_FALSE(Expression::call_own("exp", {x()}).is_long());  // the template's, whatever it does
}

TEST(Expression, SourceIsLongByTheSameRows) {
  EXPECT_TRUE(is_long_source("def f(v):\n    return v * S.tanh(v)\n"));
  EXPECT_FALSE(is_long_source("def f(v):\n    return S.max(v, exp)\n"));
}

TEST(ExpressionFunction, PrintsAndKnowsItsStatements) {
  ExpressionFunction function{{"v", "x"}, {}, Expression::atom("v")};
  EXPECT_EQ(function.source("compute"), "def compute(v, x):\n    return v\n");
  EXPECT_FALSE(function.is_long());
  function.statements.push_back({"t0", Expression::call("erf", {x()})});
  function.statements.push_back({"", Expression::call_own("check", {Expression::atom("t0")})});
  function.result = Expression::atom("t0") * Expression::atom("v");
  EXPECT_EQ(function.source("act"), "def act(v, x):\n    t0 = S.erf(x[0])\n    check(t0)\n    return (t0 * v)\n");
  EXPECT_TRUE(function.is_long());
}

// A kernel has one result: %d, which nobody reads, is one too, and comes in the middle of what would be a group.
TEST(ElementwiseGroup, ResultThatNobodyReadsStaysOutside) {
  const auto graph = graph::parse_graph(R"(graph "g" {
  input %x: float32[4]
  %a = Sinh(%x)
  %b = Mul(%a, %a)
  %d = Max(%a, %x)
  %c = Atan(%b)
  output "c" = %c
}
)",
                                        {});
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto name_of = [&](graph::NodeId id) { return (*graph)->value((*graph)->node(id).outputs[0]).name; };
  std::string groups;
  for (const graph::NodeId anchor : (*graph)->topological_order()) {
    for (const graph::NodeId id : grow_elementwise_group(**graph, anchor)) groups += name_of(id);
    groups += ' ';
  }
  EXPECT_EQ(groups, "a bc d c ");
}

}  // namespace
}  // namespace aipu::kernels
