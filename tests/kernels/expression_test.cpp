// Expressions of fused operators: their source, and what they cost.
#include "kernels/parts/expression.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace aipu::kernels
