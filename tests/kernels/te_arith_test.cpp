// Index arithmetic: canonical forms, proofs, intervals. Random expressions are compared with their values.
#include <gtest/gtest.h>

#include <random>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/print.h"
#include "kernels/te/visit.h"

namespace aipu::te {
namespace {

Expr num(int64_t value) { return make_int(value); }

class Arith : public ::testing::Test {
 protected:
  Expr i = make_var("i"), j = make_var("j"), n = make_var("n", Type::scalar(DType::kI32), true),
       m = make_var("m", Type::scalar(DType::kI32), true);
  Analyzer analyzer;

  void range(const Expr& var, const Expr& extent) { analyzer.bind(var, {num(0), extent}); }
  std::string simple(const Expr& e) { return to_text(analyzer.simplify(e)); }
};

TEST_F(Arith, SumsCancel) {
  EXPECT_EQ(simple(sub(add(mul(i, num(8)), j), mul(i, num(8)))), "j");
  EXPECT_EQ(simple(sub(add(i, n), add(n, i))), "0");
  EXPECT_EQ(simple(add(mul(num(3), i), mul(i, num(-2)))), "i");
}

TEST_F(Arith, QuotientsOfSplitLoops) {
  range(j, num(8));
  EXPECT_EQ(simple(floordiv(add(mul(i, num(8)), j), num(8))), "i");
  EXPECT_EQ(simple(floormod(add(mul(i, num(8)), j), num(8))), "j");
  EXPECT_EQ(simple(floordiv(add(mul(i, num(16)), j), num(8))), "(i * 2)");
  EXPECT_EQ(simple(floordiv(add(mul(i, num(3)), num(2)), num(6))), "(i // 2)");
}

TEST_F(Arith, QuotientAndRemainderMakeTheWhole) {
  EXPECT_EQ(simple(add(mul(floordiv(i, num(6)), num(6)), floormod(i, num(6)))), "i");
  EXPECT_EQ(simple(add(mul(floordiv(i, n), n), floormod(i, n))), "i");
  EXPECT_EQ(simple(add(mul(floordiv(i, num(6)), num(12)), mul(num(2), floormod(i, num(6))))), "(i * 2)");
}

TEST_F(Arith, SymbolicDivisors) {
  range(i, n);
  range(j, m);
  EXPECT_EQ(simple(floordiv(add(mul(i, m), j), m)), "i");
  EXPECT_EQ(simple(floormod(add(mul(i, m), j), m)), "j");
}

TEST_F(Arith, Proofs) {
  range(i, n);
  EXPECT_TRUE(analyzer.prove(less(i, n)));
  EXPECT_TRUE(analyzer.prove(less(i, add(n, num(1)))));
  EXPECT_FALSE(analyzer.prove(less(add(i, num(1)), n)));
  EXPECT_FALSE(analyzer.prove(less(num(0), n)));
  const Expr tiles = floordiv(add(n, num(7)), num(8));
  EXPECT_TRUE(analyzer.prove_le(n, mul(tiles, num(8))));
  EXPECT_FALSE(analyzer.prove_le(mul(tiles, num(8)), n));
}

TEST_F(Arith, IntervalsOfIndices) {
  const Expr eight = num(7);
  const Interval of_j{num(0), eight};
  const Interval tile = analyzer.interval(add(mul(i, num(8)), j), j, of_j);
  EXPECT_EQ(to_text(tile.lo), "(i * 8)");
  EXPECT_EQ(to_text(tile.hi), "((i * 8) + 7)");
  // three consecutive indices of rows of six, aligned to three, stay in one row
  const Expr fused = add(mul(i, num(3)), j);
  const Interval row = analyzer.interval(floordiv(fused, num(6)), j, {num(0), num(2)});
  EXPECT_EQ(to_text(row.lo), to_text(row.hi));
  const Interval down = analyzer.interval(sub(num(5), mul(num(2), j)), j, of_j);
  EXPECT_EQ(to_text(down.lo), "-9");
  EXPECT_EQ(to_text(down.hi), "5");
  EXPECT_FALSE(analyzer.interval(mul(j, j), j, of_j).bounded());
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

int64_t value_of(const Expr& e, const std::map<const ExprNode*, int64_t>& values) {
  Substitution constants;
  for (const auto& [var, value] : values) constants[var] = make_int(value);
  const Expr folded = substitute(e, constants);
  EXPECT_TRUE(as_int(folded).has_value()) << to_text(folded);
  return as_int(folded).value_or(0);
}

class RandomExpressions {
 public:
  RandomExpressions(uint32_t seed, std::vector<Expr> vars) : random_(seed), vars_(std::move(vars)) {}
  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Expr make(int depth) {
    if (depth == 0) return number(0, 2) == 0 ? num(number(-9, 9)) : vars_[static_cast<size_t>(number(0, 2))];
    const Expr a = make(depth - 1);
    switch (number(0, 7)) {
      case 0:
        return add(a, make(depth - 1));
      case 1:
        return sub(a, make(depth - 1));
      case 2:
        return mul(a, num(number(-6, 6)));
      case 3:
        return floordiv(a, num(number(1, 9)));
      case 4:
        return floormod(a, num(number(1, 9)));
      case 5:
        return make_binary(BinaryOp::kMin, a, make(depth - 1));
      case 6:
        return make_binary(BinaryOp::kMax, a, make(depth - 1));
      default:
        return add(mul(floordiv(a, num(4)), num(4)), floormod(a, num(4)));
    }
  }

 private:
  std::mt19937 random_;
  std::vector<Expr> vars_;
};

// The simplified form, the constant bounds and the interval over one variable hold for every value.
TEST(ArithRandom, SimplifiedExpressionsKeepTheirValues) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const std::vector<Expr> vars = {make_var("a"), make_var("b"), make_var("c")};
    RandomExpressions random(seed, vars);
    Analyzer analyzer;
    std::vector<int64_t> extents;
    for (const Expr& var : vars) {
      extents.push_back(random.number(1, 6));
      analyzer.bind(var, {num(0), num(extents.back())});
    }
    const Expr e = random.make(3);
    const Expr simple = analyzer.simplify(e);
    const ConstBound bound = analyzer.bound(e);
    const Interval over = analyzer.interval(e, vars[2], {num(0), num(extents[2] - 1)});
    for (int64_t a = 0; a < extents[0]; ++a) {
      for (int64_t b = 0; b < extents[1]; ++b) {
        for (int64_t c = 0; c < extents[2]; ++c) {
          const std::map<const ExprNode*, int64_t> at = {{vars[0].get(), a}, {vars[1].get(), b}, {vars[2].get(), c}};
          const int64_t value = value_of(e, at);
          ASSERT_EQ(value_of(simple, at), value) << to_text(e) << " became " << to_text(simple);
          ASSERT_LE(bound.lo, value) << to_text(e);
          ASSERT_GE(bound.hi, value) << to_text(e);
          if (over.lo) {
            ASSERT_LE(value_of(over.lo, at), value) << to_text(e) << " from " << to_text(over.lo);
          }
          if (over.hi) {
            ASSERT_GE(value_of(over.hi, at), value) << to_text(e) << " to " << to_text(over.hi);
          }
        }
      }
    }
  }
}

TEST(ArithFolding, FloorDivisionOfConstants) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (const int64_t b : {-4, -1, 1, 3}) {
      EXPECT_EQ(as_int(floordiv(num(a), num(b))), floor_quotient(a, b));
      EXPECT_EQ(as_int(floormod(num(a), num(b))), a - floor_quotient(a, b) * b);
      EXPECT_EQ(as_int(make_binary(BinaryOp::kDiv, num(a), num(b))), a / b);
      EXPECT_EQ(as_int(make_binary(BinaryOp::kMod, num(a), num(b))), a % b);
    }
  }
}

}  // namespace
}  // namespace aipu::te
