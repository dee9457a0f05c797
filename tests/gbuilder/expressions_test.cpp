#include "gbuilder/plan/expressions.h"

#include <gtest/gtest.h>

#include <random>

namespace aipu::gbuilder {
namespace {

using graph::Dim;

TEST(Expressions, EqualDimsShareOneRow) {
  ExpressionTable table;
  const Dim n = Dim::symbol("N");
  const auto a = table.add((n + 1) * 2);
  const auto b = table.add(2 * n + 2);
  EXPECT_EQ(a, b);
  const size_t size = table.size();
  table.add(n + n + 2);
  EXPECT_EQ(table.size(), size);
}

TEST(Expressions, EvaluateLikeTheDimsTheyCameFrom) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const Dim n = Dim::symbol("N"), m = Dim::symbol("M", true);
  for (int round = 0; round < 300; ++round) {
    std::vector<Dim> dims = {n, m, 3, 0, -2};
    for (int i = 0; i < 6; ++i) {
      const Dim a = dims[static_cast<size_t>(pick(static_cast<int>(dims.size())))],
                b = dims[static_cast<size_t>(pick(static_cast<int>(dims.size())))];
      switch (pick(11)) {
        case 0:
          dims.push_back(a + b);
          break;
        case 1:
          dims.push_back(a * b);
          break;
        case 2:
          dims.push_back(floordiv(a, 3));
          break;
        case 3:
          dims.push_back(ceildiv(a, 4));
          break;
        case 4:
          dims.push_back(mod(a, 5));
          break;
        case 5:
          dims.push_back(graph::min(a, b));
          break;
        case 6:
          dims.push_back(graph::max(a, b));
          break;
        case 7:
          dims.push_back(graph::eq(a, b));
          break;
        case 8:
          dims.push_back(graph::lt(a, b));
          break;
        case 9:
          dims.push_back(graph::select(a, b, dims.back()));
          break;
        default:
          dims.push_back(a - b);
          break;
      }
    }
    ExpressionTable table;
    std::vector<ExpressionId> ids;
    for (const Dim& dim : dims) ids.push_back(table.add(dim));
    const int64_t n_value = pick(20), m_value = pick(40) - 20;
    std::vector<std::optional<int64_t>> symbols;
    for (const std::string& name : table.symbol_names()) symbols.emplace_back(name == "N" ? n_value : m_value);
    const auto values = table.evaluate(symbols);
    for (size_t i = 0; i < dims.size(); ++i) {
      const Dim expected = dims[i].substitute(
          [&](const std::string& name) { return std::optional<Dim>(name == "N" ? n_value : m_value); });
      ASSERT_TRUE(expected.constant().has_value()) << expected.text();
      EXPECT_EQ(values[ids[i]], expected.constant())
          << dims[i].text() << " with N = " << n_value << ", M = " << m_value;
    }
  }
}

TEST(Expressions, OverflowAndDivisionByZeroHaveNoValue) {
  ExpressionTable table;
  const Dim n = Dim::symbol("N");
  const auto square = table.add(n * n);
  const auto quotient = table.add(floordiv(7, n));
  const auto guarded = table.add(graph::select(n, floordiv(7, n), 5));
  EXPECT_EQ(table.evaluate(std::vector<std::optional<int64_t>>{int64_t{1} << 40})[square], std::nullopt);
  const auto at_zero = table.evaluate(std::vector<std::optional<int64_t>>{0});
  EXPECT_EQ(at_zero[quotient], std::nullopt);
  EXPECT_EQ(at_zero[guarded], 5);
  EXPECT_EQ(table.evaluate(std::vector<std::optional<int64_t>>{std::nullopt})[square], std::nullopt);
}

TEST(Expressions, Text) {
  ExpressionTable table;
  const std::vector<PlanSymbol> symbols = {{.name = "N"}};
  EXPECT_EQ(table.text(table.add(Dim::symbol("N") * 2 + 1), symbols), "2*N + 1");
  EXPECT_EQ(table.text(table.add(floordiv(Dim::symbol("N") + 1, 2)), symbols), "floordiv(N + 1, 2)");
  EXPECT_EQ(table.text(999, symbols), "?999");
}

TEST(Expressions, DecodedRowsMustReferBackwards) {
  ExpressionTable table;
  EXPECT_FALSE(table.append_decoded({.op = ExpressionOp::kSymbol, .a = 1}, 1));
  EXPECT_TRUE(table.append_decoded({.op = ExpressionOp::kSymbol, .a = 0}, 1));
  EXPECT_FALSE(table.append_decoded({.op = ExpressionOp::kAdd, .a = 0, .b = 1}, 1));
  EXPECT_FALSE(table.append_decoded({.op = ExpressionOp::kSelect, .a = 0, .b = 0, .c = 5}, 1));
  EXPECT_FALSE(table.append_decoded({.op = static_cast<ExpressionOp>(200), .a = 0, .b = 0}, 1));
}

}  // namespace
}  // namespace aipu::gbuilder
