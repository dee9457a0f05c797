// Accuracy of math_functions.h against the long double functions of the C library, and its special values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>

#pragma GCC diagnostic ignored "-Wunused-function"
#include "codegen/intrinsics/math_functions.h"

namespace aipu::tir::testing {
namespace {

// The distance in units of the last place of the exact result.
template <typename T>
double ulps(T actual, long double exact) {
  if (std::isnan(actual) && std::isnan(exact)) return 0;
  if (std::isnan(actual) || std::isnan(exact)) return 1e30;
  const T rounded = static_cast<T>(exact);
  if (actual == rounded) return 0;
  if (std::isinf(actual) || std::isinf(rounded)) {
    // An overflow that rounding to nearest just misses is half a unit away.
    const T largest = std::numeric_limits<T>::max();
    return std::fabs(actual) >= largest && std::fabs(rounded) >= largest &&
                   std::signbit(actual) == std::signbit(rounded)
               ? 1
               : 1e30;
  }
  const int exponent = std::max(std::ilogb(rounded == 0 ? std::numeric_limits<T>::denorm_min() : rounded),
                                std::numeric_limits<T>::min_exponent - 1);
  const long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::fabs(static_cast<long double>(actual) - exact) / unit);
}

template <typename T>
struct Function {
  std::string name;
  T (*actual)(T);
  std::function<long double(long double)> exact;
  double low, high;    // arguments
  double limit;        // ulps
  bool flush = false;  // results below the normal range may be 0
};

template <typename T>
void check(const Function<T>& f, uint64_t seed) {
  std::mt19937_64 random(seed);
  double worst = 0;
  T worst_at = 0;
  const auto at = [&](T x) {
    const long double exact = f.exact(x);
    const T actual = f.actual(x);
    if (f.flush && std::fabs(exact) < static_cast<long double>(std::numeric_limits<T>::min()) * 1.001L && actual == 0)
      return;
    const double error = ulps(actual, exact);
    if (error > worst) {
      worst = error;
      worst_at = x;
    }
  };
  for (int i = 0; i < 200000; ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    at(static_cast<T>(f.low + (f.high - f.low) * u));
    // Small magnitudes, in which a relative error shows.
    if (f.low <= 0 && f.high >= 0) {
      const T tiny = static_cast<T>(std::ldexp(u + 0.5, -static_cast<int>(random() % 40)));
      if (tiny <= f.high) at(tiny);
      if (-tiny >= f.low) at(-tiny);
    }
  }
  EXPECT_LE(worst, f.limit) << f.name << " at " << std::hexfloat << worst_at;
  ::testing::Test::RecordProperty(std::string(f.name) + (sizeof(T) == 4 ? "_float" : "_double"), std::to_string(worst));
}

long double erf_exact(long double x) { return std::erf(x); }
#define F(function) [](long double x) -> long double { return std::function(x); }

TEST(MathFunctions, FloatsAreWithinTwoUlp) {
  const Function<float> functions[] = {
      {"exp", aipu_math_exp, F(exp), -87.3, 88.7, 2},
      {"exp2", aipu_math_exp2, F(exp2), -149, 127.99, 2},
      {"log", aipu_math_log, F(log), 1e-30, 4, 2},
      {"log large", aipu_math_log, F(log), 1, 3e38, 2},
      {"log near 1", aipu_math_log, F(log), 0.9, 1.1, 2},
      {"tanh", aipu_math_tanh, F(tanh), -12, 12, 2},
      {"erf", aipu_math_erf, erf_exact, -5, 5, 2},
      {"sin", aipu_math_sin, F(sin), -100, 100, 1},
      {"sin large", aipu_math_sin, F(sin), -3e38, 3e38, 1},
      {"cos", aipu_math_cos, F(cos), -100, 100, 1},
      {"cos large", aipu_math_cos, F(cos), -1e20, 1e20, 1},
      {"tan", aipu_math_tan, F(tan), -100, 100, 1},
      {"asin", aipu_math_asin, F(asin), -1, 1, 1},
      {"acos", aipu_math_acos, F(acos), -1, 1, 1},
      {"atan", aipu_math_atan, F(atan), -50, 50, 1},
      {"sinh", aipu_math_sinh, F(sinh), -89, 89, 1},
      {"cosh", aipu_math_cosh, F(cosh), -89, 89, 1},
      {"asinh", aipu_math_asinh, F(asinh), -1e6, 1e6, 1},
      {"acosh", aipu_math_acosh, F(acosh), 1, 1e6, 1},
      {"atanh", aipu_math_atanh, F(atanh), -1, 1, 1},
      {"sqrt", aipu_math_sqrt, F(sqrt), 0, 1e10, 0.51},
      {"rsqrt", aipu_math_rsqrt, [](long double x) { return 1 / std::sqrt(x); }, 1e-30, 1e10, 2}};
  uint64_t seed = 1;
  for (const auto& f : functions) check(f, seed++);
}

// Sin and cos of floats on both sides of the limit of what is computed in float: every 1499th float, the floats nearest
// to multiples of pi/2, where the argument is reduced to next to nothing, and those around the limit.
TEST(MathFunctions, SinAndCosOfFloatsKeepTheirReducedArgument) {
  double worst[2] = {0, 0};
  float worst_at[2] = {0, 0};
  const auto at = [&](float magnitude) {
    for (const float x : {magnitude, -magnitude}) {
      const double errors[2] = {ulps(aipu_math_sin(x), std::sin(static_cast<long double>(x))),
                                ulps(aipu_math_cos(x), std::cos(static_cast<long double>(x)))};
      for (int f = 0; f < 2; ++f) {
        if (errors[f] <= worst[f]) continue;
        worst[f] = errors[f];
        worst_at[f] = x;
      }
    }
  };
  const uint32_t end = std::bit_cast<uint32_t>(4 * kAipuMathFewTurns);
  for (uint32_t bits = 0; bits < end; bits += 1499) at(std::bit_cast<float>(bits));
  for (int quarters = 1; quarters < 3 * 83443; ++quarters) {  // pi/2 times 83443 is the limit
    const auto nearest = static_cast<float>(quarters * 1.57079632679489661923132169163975144L);
    for (const float x : {std::nextafter(nearest, 0.0f), nearest, std::nextafter(nearest, 1e9f)}) at(x);
  }
  const uint32_t limit = std::bit_cast<uint32_t>(kAipuMathFewTurns);
  for (uint32_t bits = limit - 10000; bits < limit + 10000; ++bits) at(std::bit_cast<float>(bits));
  EXPECT_LE(worst[0], 0.9) << "sin at " << std::hexfloat << worst_at[0];
  EXPECT_LE(worst[1], 0.9) << "cos at " << std::hexfloat << worst_at[1];
}

TEST(MathFunctions, DoublesAreWithinAFewUlp) {
  const Function<double> functions[] = {{"exp", aipu_math_exp, F(exp), -745, 709.7, 2},
                                        {"exp2", aipu_math_exp2, F(exp2), -1074, 1023.99, 2},
                                        {"log", aipu_math_log, F(log), 1e-300, 4, 2},
                                        {"log large", aipu_math_log, F(log), 1, 1e308, 2},
                                        {"log near 1", aipu_math_log, F(log), 0.9, 1.1, 2},
                                        {"tanh", aipu_math_tanh, F(tanh), -25, 25, 4},
                                        {"erf", aipu_math_erf, erf_exact, -7, 7, 3},
                                        {"sin", aipu_math_sin, F(sin), -100, 100, 2},
                                        {"sin large", aipu_math_sin, F(sin), -1e300, 1e300, 3},
                                        {"cos", aipu_math_cos, F(cos), -100, 100, 2},
                                        {"cos large", aipu_math_cos, F(cos), -1e15, 1e15, 3},
                                        {"tan", aipu_math_tan, F(tan), -100, 100, 4},
                                        {"asin", aipu_math_asin, F(asin), -1, 1, 3},
                                        {"acos", aipu_math_acos, F(acos), -1, 1, 3},
                                        {"atan", aipu_math_atan, F(atan), -50, 50, 3},
                                        {"sinh", aipu_math_sinh, F(sinh), -710, 710, 4},
                                        {"cosh", aipu_math_cosh, F(cosh), -710, 710, 4},
                                        {"asinh", aipu_math_asinh, F(asinh), -1e6, 1e6, 4},
                                        {"acosh", aipu_math_acosh, F(acosh), 1, 1e6, 4},
                                        {"atanh", aipu_math_atanh, F(atanh), -1, 1, 4}};
  uint64_t seed = 100;
  for (const auto& f : functions) check(f, seed++);
}

TEST(MathFunctions, Powers) {
  std::mt19937_64 random(5);
  double worst_float = 0, worst_double = 0;
  for (int i = 0; i < 300000; ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53, v = static_cast<double>(random() >> 11) * 0x1p-53;
    const auto x = static_cast<float>(std::exp((u - 0.5) * 60));
    const auto y = static_cast<float>((v - 0.5) * 8);
    worst_float = std::max(
        worst_float, ulps(aipu_math_pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y))));
    const double dx = std::exp((u - 0.5) * 60), dy = (v - 0.5) * 40;
    worst_double = std::max(worst_double, ulps(aipu_math_pow(dx, dy),
                                               std::pow(static_cast<long double>(dx), static_cast<long double>(dy))));
    const float base = static_cast<float>(static_cast<int>(random() % 41) - 20),
                exponent = static_cast<float>(static_cast<int>(random() % 21) - 10);
    worst_float =
        std::max(worst_float, ulps(aipu_math_pow(base, exponent),
                                   std::pow(static_cast<long double>(base), static_cast<long double>(exponent))));
  }
  EXPECT_LE(worst_float, 1);
  EXPECT_LE(worst_double, 3);
}

// Bases near 1 to great powers, which make the error of the logarithm's polynomial up to 690 times as large.
TEST(MathFunctions, GreatPowers) {
  std::mt19937_64 random(6);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53, v = static_cast<double>(random() >> 11) * 0x1p-53;
    const double x = std::exp(u * 2 - 1), y = (v * 2 - 1) * 690 / std::abs(u * 2 - 1);
    worst =
        std::max(worst, ulps(aipu_math_pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y))));
  }
  EXPECT_LE(worst, 48);
}

// Same class and sign; values as the C library says.
template <typename T>
void expect_special(T actual, T expected, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << what << ": " << actual;
  } else {
    EXPECT_EQ(actual, expected) << what;
    EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << what;
  }
}

template <typename T>
void special_values() {
  using Limits = std::numeric_limits<T>;
  const T inf = Limits::infinity(), nan = Limits::quiet_NaN();
  const struct {
    const char* name;
    T (*actual)(T);
    T (*expected)(T);
  } functions[] = {{"log", aipu_math_log, std::log},       {"tanh", aipu_math_tanh, std::tanh},
                   {"erf", aipu_math_erf, std::erf},       {"sin", aipu_math_sin, std::sin},
                   {"cos", aipu_math_cos, std::cos},       {"tan", aipu_math_tan, std::tan},
                   {"sqrt", aipu_math_sqrt, std::sqrt},    {"atan", aipu_math_atan, std::atan},
                   {"asin", aipu_math_asin, std::asin},    {"acos", aipu_math_acos, std::acos},
                   {"sinh", aipu_math_sinh, std::sinh},    {"cosh", aipu_math_cosh, std::cosh},
                   {"asinh", aipu_math_asinh, std::asinh}, {"acosh", aipu_math_acosh, std::acosh},
                   {"atanh", aipu_math_atanh, std::atanh}, {"floor", aipu_math_floor, std::floor},
                   {"ceil", aipu_math_ceil, std::ceil},    {"rint", aipu_math_rint, std::rint},
                   {"trunc", aipu_math_trunc, std::trunc}, {"exp", aipu_math_exp, std::exp},
                   {"exp2", aipu_math_exp2, std::exp2}};
  const T values[] = {T(0), -T(0), inf, -inf, nan};
  for (const auto& f : functions) {
    for (const T x : values)
      expect_special(f.actual(x), f.expected(x), std::string(f.name) + "(" + std::to_string(x) + ")");
  }
  for (const T x : {T(1), T(-1), T(2), T(-2)}) {
    expect_special(aipu_math_atanh(x), std::atanh(x), "atanh");
    expect_special(aipu_math_log(x < 0 ? x : T(1)), std::log(x < 0 ? x : T(1)), "log");
  }
  expect_special(aipu_math_asin(T(2)), nan, "asin(2)");
  expect_special(aipu_math_acos(T(-2)), nan, "acos(-2)");
  for (const T x : {T(0.5), T(-5), T(-1e30), -Limits::max(), -inf}) expect_special(aipu_math_acosh(x), nan, "acosh");
  for (const T x : {Limits::min(), Limits::min() / 8, Limits::denorm_min()}) {
    const T exact = T(1) / std::sqrt(x);
    EXPECT_NEAR(aipu_math_rsqrt(x) / exact, T(1), 4 * Limits::epsilon()) << "rsqrt(" << x << ")";
  }
  // Rounding, exactly.
  std::mt19937_64 random(9);
  for (int i = 0; i < 200000; ++i) {
    const T x = static_cast<T>(
        std::ldexp(static_cast<double>(random() >> 11) * 0x1p-53 - 0.5, static_cast<int>(random() % 70)));
    for (const T y : {x, std::rint(x) + T(0.5), -x}) {
      ASSERT_EQ(aipu_math_rint(y), std::rint(y)) << y;
      ASSERT_EQ(aipu_math_floor(y), std::floor(y)) << y;
      ASSERT_EQ(aipu_math_ceil(y), std::ceil(y)) << y;
      ASSERT_EQ(aipu_math_trunc(y), std::trunc(y)) << y;
      ASSERT_EQ(std::signbit(aipu_math_ceil(y)), std::signbit(std::ceil(y))) << y;
    }
  }
  // pow, all pairs.
  const T bases[] = {T(0), -T(0), T(1), T(-1), T(0.5), T(-0.5), T(2), T(-2), inf, -inf, nan};
  const T exponents[] = {T(0),   -T(0),   T(1),   T(-1), T(2), T(-2), T(3),   T(-3),
                         T(0.5), T(-0.5), T(1.5), inf,   -inf, nan,   T(1e30)};
  for (const T x : bases) {
    for (const T y : exponents) {
      const T expected = std::pow(x, y), actual = aipu_math_pow(x, y);
      if (std::isfinite(expected) && expected != 0)
        EXPECT_NEAR(actual, expected, std::fabs(expected) * 1e-6) << x << "^" << y;
      else
        expect_special(actual, expected, std::to_string(x) + "^" + std::to_string(y));
    }
  }
}

TEST(MathFunctions, SpecialValuesOfFloats) { special_values<float>(); }
TEST(MathFunctions, SpecialValuesOfDoubles) { special_values<double>(); }

TEST(MathFunctions, TheLimitsOfTheLanguage) {
  EXPECT_EQ(aipu_math_exp(-87.3366f), 0.0f);
  EXPECT_GT(aipu_math_exp(-87.33f), 0.0f);
  // No result is denormal, nor is one on the way to 0: a vector with one takes x86 a hundred cycles.
  for (float x = -87.34f; x < -87.33f; x = std::nextafter(x, 0.0f)) {
    const float y = aipu_math_exp(x);
    EXPECT_TRUE(y == 0 || std::isnormal(y)) << x;
  }
  EXPECT_EQ(aipu_math_exp(88.7228391f), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isfinite(aipu_math_exp(88.72f)));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(aipu_math_rsqrt(-inf)));
  EXPECT_EQ(aipu_math_rsqrt(0.0f), inf);
  EXPECT_EQ(aipu_math_rsqrt(-0.0f), -inf);
  EXPECT_TRUE(std::isnan(aipu_math_rsqrt(-1.0f)));
  EXPECT_EQ(aipu_math_rsqrt(inf), 0.0f);
}

}  // namespace
}  // namespace aipu::tir::testing
