#include "graph/ir/dim.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace aipu::graph {
namespace {

const Dim N = Dim::symbol("N");
const Dim M = Dim::symbol("M");
const Dim R = Dim::symbol("r", true);

TEST(Dim, EqualPolynomialsAreEqual) {
  EXPECT_EQ((N + 1) * 2, 2 * N + 2);
  EXPECT_EQ((N + M) * (N - M), N * N - M * M);
  EXPECT_EQ(N - N, Dim(0));
  EXPECT_EQ(N * M * 3, 3 * (M * N));
  EXPECT_FALSE(N == M);
  EXPECT_EQ(((N + 1) * 2).text(), "2*N + 2");
  EXPECT_EQ((1 - N).text(), "-N + 1");
}

TEST(Dim, DividesWhereProvable) {
  EXPECT_EQ(floordiv(6 * N, 3), 2 * N);
  EXPECT_EQ(mod(4 * N, 2), Dim(0));
  EXPECT_EQ(floordiv(6 * N * M, 2 * N), 3 * M);
  EXPECT_EQ(floordiv((N + 1) * (M + 2), M + 2), N + 1);
  EXPECT_EQ(floordiv(4 * floordiv(N, 2) + 4, floordiv(N, 2) + 1), Dim(4));
  EXPECT_EQ(floordiv(floordiv(N, 2), 3), floordiv(N, 6));
  EXPECT_EQ(ceildiv(N, 2), floordiv(N - 1, 2) + 1);
  EXPECT_EQ(floordiv(4 * N + 7, 4), N + 1);
  EXPECT_EQ(floordiv(4 * N + 6, 8), floordiv(2 * N + 3, 4));
  EXPECT_EQ(mod(6 * N + 3, 4), 2 * mod(N + 1, 2) + 1);
  EXPECT_EQ(floordiv(N * M + 3, N), M + floordiv(3, N));
}

TEST(Dim, BoundsDecide) {
  EXPECT_EQ(N.lower_bound(), 0);
  EXPECT_EQ(R.lower_bound(), std::nullopt);
  EXPECT_EQ((2 * N + 3).lower_bound(), 3);
  EXPECT_EQ(lt(N, 0), Dim(0));
  EXPECT_EQ(lt(mod(N, 4), 4), Dim(1));
  EXPECT_EQ(eq(2 * N + 1, 4), Dim(0));
  EXPECT_EQ(eq(N, N + 1), Dim(0));
  EXPECT_EQ(max(N, -1), N);
  EXPECT_EQ(max(N + 1, N), N + 1);
  EXPECT_EQ(min(min(N, M), N), min(M, N));
  EXPECT_EQ(max(N, min(N, 512)), N);
  EXPECT_EQ(min(max(M, N) + 0, N), N);
  EXPECT_EQ(max(N + 1, min(min(M, N), 7)), N + 1);
  EXPECT_NE(max(M, min(N, 512)), M);
  EXPECT_EQ(select(lt(N, 0), M, N), N);
  EXPECT_EQ(select(eq(R, 0), M, M), M);
  EXPECT_EQ(select(N, N, 0), N);
  EXPECT_EQ(select(min(N, 512), N, 0), N);
  EXPECT_NE(select(min(N, M), N, 0), N);
  EXPECT_EQ(eq(eq(lt(R, M), 0), 0), lt(R, M));
}

TEST(Dim, OverflowIsNoNumber) {
  const Dim huge(INT64_MAX);
  EXPECT_FALSE((huge + 1).is_constant());
  EXPECT_FALSE((huge * huge).is_constant());
  EXPECT_FALSE((huge * N + N * huge).is_constant());
  EXPECT_FALSE((Dim(INT64_MIN) - 1).is_constant());
  EXPECT_FALSE(floordiv(Dim(INT64_MIN), -1).is_constant());
  EXPECT_FALSE(floordiv(Dim(3), 0).is_constant());
  EXPECT_EQ(element_count({huge, huge, 0}), Dim(0));
  EXPECT_FALSE(element_count({huge, huge}).is_constant());
}

TEST(Dim, GrowthIsBounded) {
  Dim d = N;
  for (int k = 0; k < 64; ++k) d = min(floordiv(d, M) + R, ceildiv(d, M + 1));
  EXPECT_LE(d.text().size(), 200000u);
  Dim product = 1;
  for (int k = 0; k < 40; ++k) product = product * (Dim::symbol("a" + std::to_string(k)) + 1);
  EXPECT_LE(product.text().size(), 200000u);
  EXPECT_EQ(Dim::parse(product.text()).value(), product);
}

TEST(Dim, ParsesAndRefuses) {
  for (const char* text : {"N", "2*N + 1", "floordiv(N + 1, M)", "select(lt($r, 0), N, $r)", "3*\"batch size\"",
                           "-9223372036854775808", "\"min\" + 1"}) {
    auto dim = Dim::parse(text);
    ASSERT_TRUE(dim.ok()) << dim.status().message();
    EXPECT_EQ(dim->text(), text);
  }
  for (const std::string& text :
       {std::string(""), std::string("N +"), std::string("min(N)"), std::string("99999999999999999999"),
        std::string("N)"), std::string("\"x"), std::string("\"\""), std::string("min"), std::string(100000, '('),
        std::string(100000, '-'), std::string("a*"), std::string("1 2"), std::string("N\0M", 3)}) {
    EXPECT_FALSE(Dim::parse(text).ok()) << text.substr(0, 40);
  }
  EXPECT_EQ(shape_text(parse_shape("[N, 3,2*N]").value()), "[N,3,2*N]");
  EXPECT_EQ(parse_shape("[]").value().size(), 0u);
  EXPECT_FALSE(parse_shape("[1,]").ok());
  EXPECT_TRUE(Dim::parse("$r").value().lower_bound() == std::nullopt);
}

// ---- against numeric evaluation

struct Expression {
  Dim dim;
  std::optional<int64_t> value;  // nullopt: division by zero or overflow somewhere
};

std::optional<int64_t> floor_div(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

class Generator {
 public:
  Generator(uint64_t seed, const std::map<std::string, int64_t>& binding) : random_(seed), binding_(binding) {}

  Expression make(int depth) {
    const auto pick = [&](int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); };
    if (depth == 0 || pick(6) == 0) {
      if (pick(2) == 0) {
        const int64_t c = pick(13) - 4;
        return {Dim(c), c};
      }
      auto it = binding_.begin();
      std::advance(it, pick(static_cast<int>(binding_.size())));
      return {Dim::symbol(it->first), it->second};
    }
    const Expression a = make(depth - 1);
    const Expression b = make(depth - 1);
    const auto both = [&](auto f) -> std::optional<int64_t> {
      return a.value && b.value ? std::optional<int64_t>(f(*a.value, *b.value)) : std::nullopt;
    };
    switch (pick(11)) {
      case 0:
      case 1:
        return {a.dim + b.dim, both([](int64_t x, int64_t y) { return x + y; })};
      case 2:
        return {a.dim - b.dim, both([](int64_t x, int64_t y) { return x - y; })};
      case 3:
        return {a.dim * b.dim, both([](int64_t x, int64_t y) { return x * y; })};
      case 4:
        return {floordiv(a.dim, b.dim), a.value && b.value ? floor_div(*a.value, *b.value) : std::nullopt};
      case 5: {
        const auto q = a.value && b.value ? floor_div(-*a.value, *b.value) : std::nullopt;
        return {ceildiv(a.dim, b.dim), q ? std::optional<int64_t>(-*q) : std::nullopt};
      }
      case 6: {
        const auto q = a.value && b.value ? floor_div(*a.value, *b.value) : std::nullopt;
        return {mod(a.dim, b.dim), q ? std::optional<int64_t>(*a.value - *b.value * *q) : std::nullopt};
      }
      case 7:
        return {min(a.dim, b.dim), both([](int64_t x, int64_t y) { return std::min(x, y); })};
      case 8:
        return {max(a.dim, b.dim), both([](int64_t x, int64_t y) { return std::max(x, y); })};
      case 9: {
        const bool less = pick(2) == 0;
        return {less ? lt(a.dim, b.dim) : eq(a.dim, b.dim),
                both([&](int64_t x, int64_t y) { return less ? x < y : x == y; })};
      }
      default: {
        const Expression c = make(depth - 1);
        return {select(c.dim, a.dim, b.dim),
                a.value && b.value && c.value ? (*c.value != 0 ? a.value : b.value) : std::nullopt};
      }
    }
  }

 private:
  std::mt19937_64 random_;
  const std::map<std::string, int64_t>& binding_;
};

TEST(DimFuzz, AgreesWithNumbers) {
  const std::map<std::string, int64_t> bindings[] = {
      {{"N", 0}, {"M", 1}, {"$r", -3}}, {{"N", 7}, {"M", 4}, {"$r", 2}}, {{"N", 1}, {"M", 30}, {"$r", -1}}};
  int evaluated = 0;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    for (const auto& binding : bindings) {
      const Expression e = Generator(seed, binding).make(1 + static_cast<int>(seed % 4));
      const std::string text = e.dim.text();
      auto again = Dim::parse(text);
      ASSERT_TRUE(again.ok()) << "seed " << seed << ": " << text << ": " << again.status().message();
      EXPECT_EQ(*again, e.dim) << "seed " << seed << ": " << text << " became " << again->text();
      EXPECT_EQ(again->text(), text);
      // An expression without a value may have been simplified to one that has; the reverse may not be.
      if (!e.value || std::abs(*e.value) > (int64_t{1} << 50)) continue;
      const Dim number =
          e.dim.substitute([&](const std::string& name) { return std::optional<Dim>(binding.at(name)); });
      ASSERT_TRUE(number.is_constant()) << "seed " << seed << ": " << text << " -> " << number.text();
      EXPECT_EQ(number.constant(), e.value) << "seed " << seed << ": " << text;
      EXPECT_LE(e.dim.lower_bound().value_or(*e.value), *e.value) << "seed " << seed << ": " << text;
      EXPECT_GE(e.dim.upper_bound().value_or(*e.value), *e.value) << "seed " << seed << ": " << text;
      ++evaluated;
    }
  }
  EXPECT_GT(evaluated, 9000);
}

TEST(DimFuzz, HostileTextIsRefusedOrRead) {
  std::mt19937_64 random(7);
  const std::string alphabet = "NM$ 0129+-*(),\"\\xminfloordvcelqts\n#";
  for (int k = 0; k < 20000; ++k) {
    std::string text;
    const size_t length = random() % 40;
    for (size_t i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
    auto dim = Dim::parse(text);
    if (!dim.ok()) continue;
    EXPECT_EQ(Dim::parse(dim->text()).value(), *dim) << text;
  }
}

}  // namespace
}  // namespace aipu::graph
