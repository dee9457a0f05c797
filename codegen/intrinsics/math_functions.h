// The one implementation of the mathematical functions, compiled into the interpreter and, as text, into every kernel:
// so that both agree bit for bit.
//
// Plain C++ without headers: every operation is an IEEE operation on float or double, which every compiler rounds alike
// under -ffp-contract=off; fused multiply-adds are asked for by name (kernels bring aipu_math_fma with them and define
// AIPU_MATH_HAS_FMA; targets without the instruction compute the same value in double). Where possible a function is
// one straight line of selects, so that a loop over lanes vectorises. Floats: exp, exp2, log, tanh and erf compute in
// float (at most 2 ulp), sin and cos up to kAipuMathFewTurns (at most 1 ulp); the others compute in double and round
// once (at most 1 ulp). Doubles: a few ulp. Polynomials are Chebyshev or minimax fits made for the intervals in use.

static inline int aipu_math_bits(float x) {
  int bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
static inline float aipu_math_float(int bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
static inline long long aipu_math_bits(double x) {
  long long bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
static inline double aipu_math_double(long long bits) {
  double x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
static inline float aipu_math_fabs(float x) { return aipu_math_float(aipu_math_bits(x) & 0x7fffffff); }
static inline double aipu_math_fabs(double x) { return aipu_math_double(aipu_math_bits(x) & 0x7fffffffffffffffLL); }
// The magnitude of x with the sign of y.
static inline float aipu_math_with_sign(float x, float y) {
  return aipu_math_float((aipu_math_bits(x) & 0x7fffffff) | (aipu_math_bits(y) & (int)0x80000000u));
}
static inline double aipu_math_with_sign(double x, double y) {
  return aipu_math_double((aipu_math_bits(x) & 0x7fffffffffffffffLL) |
                          (aipu_math_bits(y) & (long long)0x8000000000000000ULL));
}
// 2^k for k in the range of normal numbers.
static inline float aipu_math_power_of_two_f(int k) { return aipu_math_float((int)((unsigned)(k + 127) << 23)); }
static inline double aipu_math_power_of_two(int k) {
  return aipu_math_double((long long)((unsigned long long)(k + 1023) << 52));
}
static inline float aipu_math_infinity_f(void) { return __builtin_inff(); }
static inline double aipu_math_infinity(void) { return __builtin_inf(); }
static inline double aipu_math_nan(void) { return __builtin_nan(""); }

// ---- rounding ----

static inline float aipu_math_rint(float x) {
  const float magnitude = aipu_math_fabs(x);
  const float rounded = (magnitude + 8388608.0f) - 8388608.0f;
  return magnitude < 8388608.0f ? aipu_math_with_sign(rounded, x) : x;
}
static inline double aipu_math_rint(double x) {
  const double magnitude = aipu_math_fabs(x);
  const double rounded = (magnitude + 4503599627370496.0) - 4503599627370496.0;
  return magnitude < 4503599627370496.0 ? aipu_math_with_sign(rounded, x) : x;
}
static inline float aipu_math_floor(float x) {
  const float nearest = aipu_math_rint(x);
  return nearest > x ? nearest - 1.0f : nearest;
}
static inline double aipu_math_floor(double x) {
  const double nearest = aipu_math_rint(x);
  return nearest > x ? nearest - 1.0 : nearest;
}
static inline float aipu_math_ceil(float x) {
  const float nearest = aipu_math_rint(x);
  return aipu_math_with_sign(nearest < x ? nearest + 1.0f : nearest, x);
}
static inline double aipu_math_ceil(double x) {
  const double nearest = aipu_math_rint(x);
  return aipu_math_with_sign(nearest < x ? nearest + 1.0 : nearest, x);
}
static inline float aipu_math_trunc(float x) { return aipu_math_with_sign(aipu_math_floor(aipu_math_fabs(x)), x); }
static inline double aipu_math_trunc(double x) { return aipu_math_with_sign(aipu_math_floor(aipu_math_fabs(x)), x); }

// ---- square roots ----

static inline float aipu_math_sqrt(float x) { return __builtin_sqrtf(x); }
static inline double aipu_math_sqrt(double x) { return __builtin_sqrt(x); }
static inline float aipu_math_rsqrt(float x) {
  const float special = 1.0f / __builtin_sqrtf(x);  // 1 / x of a subnormal number may overflow
  return x < 1.17549435e-38f ? special : __builtin_sqrtf(1.0f / x);
}
static inline double aipu_math_rsqrt(double x) {
  const double special = 1.0 / __builtin_sqrt(x);
  return x < 2.2250738585072014e-308 ? special : __builtin_sqrt(1.0 / x);
}

// ---- exponentials ----

// What the float functions need besides arithmetic and comparisons. They are templates: prelude_vector_math.h has the
// same for vectors of floats, so that a lane of a vector gives what the scalar function gives.
#ifndef AIPU_MATH_HAS_FMA
static inline float aipu_math_fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }  // x * y + z
#endif
static inline float aipu_math_at_least(float x, float low) { return x < low ? low : x; }  // NaN stays
static inline float aipu_math_at_most(float x, float high) { return x > high ? high : x; }
static inline float aipu_math_choose(bool condition, float a, float b) { return condition ? a : b; }
// For a count of quarter turns in the last bits of `turned`.
static inline bool aipu_math_is_odd(float turned) { return aipu_math_bits(turned) & 1; }
static inline float aipu_math_negate_by_half_turn(float y, float turned) {
  return aipu_math_float((int)((unsigned)aipu_math_bits(y) ^ ((unsigned)aipu_math_bits(turned) & 2) << 30));
}
static inline float aipu_math_times_sign(float y, float x) {  // y where x is positive, else -y
  return aipu_math_float(aipu_math_bits(y) ^ (aipu_math_bits(x) & (int)0x80000000u));
}
// y * 2^n for an integral n in [-152, 130] and y near 1, rounded once.
static inline float aipu_math_scale(float y, float n) {
  const int k = n != n ? 0 : (int)n;
  const int half = k >> 1;
  return (y * aipu_math_power_of_two_f(half)) * aipu_math_power_of_two_f(k - half);
}
// The same where y, n and the result are normal numbers.
static inline float aipu_math_scale_normal(float y, float n) {
  const int k = n != n ? 0 : (int)n;
  return aipu_math_float((int)((unsigned)aipu_math_bits(y) + ((unsigned)k << 23)));
}

// e^r for |r| <= 0.3467. Polynomials are evaluated in pairs of terms: the chain of dependent
// operations, not their number, is what takes time.
template <class T>
static inline T aipu_math_exp_near_zero(T r) {
  const T r2 = r * r;
  const T low = aipu_math_fma(r, 1.6666666681647016e-1f, 5.0000000134872258e-1f);
  const T middle = aipu_math_fma(r, 8.3333109017259694e-3f, 4.1666464711379079e-2f);
  const T high = aipu_math_fma(r, 1.98910171843020305e-4f, 1.39336737329319315e-3f);
  const T p = aipu_math_fma(aipu_math_fma(high, r2, middle), r2, low);
  return aipu_math_fma(r2, p, r) + 1.0f;
}
// c = n log 2 + r: returns n.
template <class T>
static inline T aipu_math_exp_split(T c, T* r) {
  const T n = aipu_math_fma(c, 0x1.715476p+0f, 12582912.0f) - 12582912.0f;
  *r = aipu_math_fma(n, -0x1.0bfbe8p-15f, aipu_math_fma(n, -0x1.62ep-1f, c));
  return n;
}
template <class T>
static inline T aipu_math_exp_f(T x) {
  // The least x whose result is a normal number. What is below it is 0, and must not be computed as a denormal number
  // that is thrown away: x86 takes a hundred cycles for a vector with one, and half of a causal mask's scores are such.
  const float lowest = -87.3365402f;
  const T c = aipu_math_at_most(aipu_math_at_least(x, lowest), 89.0f);
  T r;
  const T n = aipu_math_exp_split(c, &r);
  const T y = aipu_math_scale(aipu_math_exp_near_zero(r), n);
  return aipu_math_choose(x < lowest, T{}, y);
}
// For -87 < x < 88.
template <class T>
static inline T aipu_math_exp_bounded(T x) {
  T r;
  const T n = aipu_math_exp_split(x, &r);
  return aipu_math_scale_normal(aipu_math_exp_near_zero(r), n);
}
static inline float aipu_math_exp(float x) { return aipu_math_exp_f(x); }
static inline float aipu_math_exp2(float x) {
  float c = x > -151.0f ? x : -151.0f;
  c = c < 129.0f ? c : 129.0f;
  const float n = (c + 12582912.0f) - 12582912.0f;
  const float y = aipu_math_scale(aipu_math_exp_near_zero((c - n) * 0x1.62e43p-1f), n);
  return x != x ? x : y;
}
// 2^n * (1 + tail), n in [-2046, 2046].
static inline double aipu_math_scale(double n, double tail) {
  const int k = (int)n;
  const int half = k >> 1;
  return ((1.0 + tail) * aipu_math_power_of_two(half)) * aipu_math_power_of_two(k - half);
}
// e^r - 1 for |r| <= 0.3467.
static inline double aipu_math_exp_tail(double r) {
  double p = 2.0914707069612355e-09;
  p = p * r + 2.510524515390137e-08;
  p = p * r + 2.7557273594799413e-07;
  p = p * r + 2.755725533255441e-06;
  p = p * r + 2.480158732558584e-05;
  p = p * r + 0.00019841269874873975;
  p = p * r + 0.0013888888888883737;
  p = p * r + 0.00833333333332612;
  p = p * r + 0.04166666666666667;
  p = p * r + 0.1666666666666667;
  p = p * r + 0.5;
  return r + r * r * p;
}
// e^(x + low) for a small correction `low`.
static inline double aipu_math_exp_sum(double x, double low) {
  double c = x > -746.0 ? x : -746.0;
  c = c < 710.0 ? c : 710.0;
  const double n = (c * 0x1.71547652b82fep+0 + 6755399441055744.0) - 6755399441055744.0;
  const double r = ((c - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33) + low;
  const double y = aipu_math_scale(n, aipu_math_exp_tail(r));
  return x != x ? x : x > 709.782712893384 ? aipu_math_infinity() : y;
}
static inline double aipu_math_exp(double x) { return aipu_math_exp_sum(x, 0.0); }
static inline double aipu_math_exp2(double x) {
  double c = x > -1080.0 ? x : -1080.0;
  c = c < 1025.0 ? c : 1025.0;
  const double n = (c + 6755399441055744.0) - 6755399441055744.0;
  const double y = aipu_math_scale(n, aipu_math_exp_tail((c - n) * 0x1.62e42fefa39efp-1));
  return x != x ? x : y;
}
static inline double aipu_math_expm1(double x) {
  double c = x > -50.0 ? x : -50.0;
  c = c < 710.0 ? c : 710.0;
  const double n = (c * 0x1.71547652b82fep+0 + 6755399441055744.0) - 6755399441055744.0;
  const double r = (c - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  const double tail = aipu_math_exp_tail(r);
  const int k = (int)n;
  const int half = k >> 1;
  const double s1 = aipu_math_power_of_two(half), s2 = aipu_math_power_of_two(k - half);
  const double y = k == 0 ? tail : k > 1000 ? ((1.0 + tail) * s1) * s2 : (s1 * s2) * tail + (s1 * s2 - 1.0);
  return x != x ? x : x > 709.782712893384 ? aipu_math_infinity() : c == 0.0 ? x : y;
}

// ---- logarithms ----

static inline float aipu_math_log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const int bits = aipu_math_bits(scaled);
  const int exponent = (bits - 0x3f3504f3) >> 23;
  const float f = aipu_math_float(bits - exponent * 8388608) - 1.0f;
  const float e = (float)(tiny ? exponent - 23 : exponent);
  float p = 0.06971611471451178f;
  p = p * f + -0.11479733846637635f;
  p = p * f + 0.1168541992348674f;
  p = p * f + -0.12425687331451106f;
  p = p * f + 0.1424905764569748f;
  p = p * f + -0.16667802319501254f;
  p = p * f + 0.200007157488921f;
  p = p * f + -0.24999996957950882f;
  p = p * f + 0.33333331180030046f;
  const float z = f * f;
  const float tail = (f * z * p + e * 0x1.0bfbe8p-15f) - 0.5f * z;
  const float y = (f + tail) + e * 0x1.62ep-1f;
  const float positive = x == aipu_math_infinity_f() ? x : y;
  const float any = x < 0.0f ? (float)aipu_math_nan() : positive;
  return x == 0.0f ? -aipu_math_infinity_f() : x != x ? x : any;
}
// For x > 0 and finite: x = 2^e * (1 + f) with f near 0; returns f.
static inline double aipu_math_log_split(double x, double* e) {
  const bool tiny = x < 2.2250738585072014e-308;
  const double scaled = tiny ? x * 18014398509481984.0 : x;
  const long long bits = aipu_math_bits(scaled);
  const long long exponent = (bits - 0x3fe6a09e667f3bcdLL) >> 52;
  *e = (double)(int)(tiny ? exponent - 54 : exponent);
  return aipu_math_double(bits - exponent * 4503599627370496LL) - 1.0;
}
// (log((1+s)/(1-s)) - 2s) / s for z = s * s.
static inline double aipu_math_log_tail(double z) {
  double p = 0.1308723619665962;
  p = p * z + 0.13268714792348096;
  p = p * z + 0.15386241881938595;
  p = p * z + 0.18181795600060793;
  p = p * z + 0.22222222392089008;
  p = p * z + 0.28571428570801954;
  p = p * z + 0.4000000000000088;
  p = p * z + 0.6666666666666666;
  return z * p;
}
static inline double aipu_math_log(double x) {
  double e;
  const double f = aipu_math_log_split(x, &e);
  const double s = f / (2.0 + f);
  const double half = 0.5 * f * f;
  const double y =
      e * 0x1.62e42feep-1 - ((half - (s * (half + aipu_math_log_tail(s * s)) + e * 0x1.a39ef35793c76p-33)) - f);
  const double positive = x == aipu_math_infinity() ? x : y;
  const double any = x < 0.0 ? aipu_math_nan() : positive;
  return x == 0.0 ? -aipu_math_infinity() : x != x ? x : any;
}
// log(1 + x)
static inline double aipu_math_log1p(double x) {
  const double u = 1.0 + x;
  const double lost = x - (u - 1.0);  // what rounding took from u
  const double y = aipu_math_log(u) + (u < 1e300 ? lost / u : 0.0);
  return u == 1.0 ? x : y;
}

// ---- powers ----

static inline double aipu_math_pow_special(double x, double y, double magnitude) {
  const double floor_y = aipu_math_floor(y), half = y * 0.5;
  const bool integer = floor_y == y;
  const bool odd = integer && aipu_math_floor(half) != half;
  const bool negative = aipu_math_bits(x) < 0;
  const double size = aipu_math_fabs(x);
  double result = negative && odd ? -magnitude : magnitude;
  result = x < 0.0 && !integer && size != aipu_math_infinity() ? aipu_math_nan() : result;
  result = x != x || y != y ? x + y : result;
  result = size == 1.0 && aipu_math_fabs(y) == aipu_math_infinity() ? 1.0 : result;
  return y == 0.0 || x == 1.0 ? 1.0 : result;
}
static inline float aipu_math_pow(float x, float y) {
  const double magnitude = aipu_math_exp((double)y * aipu_math_log((double)aipu_math_fabs(x)));
  return (float)aipu_math_pow_special(x, y, magnitude);
}
// a * b = product + error, exactly, while nothing overflows.
static inline double aipu_math_product_error(double a, double b, double product) {
  const double a_big = 134217729.0 * a, b_big = 134217729.0 * b;
  const double a_high = a_big - (a_big - a), b_high = b_big - (b_big - b);
  const double a_low = a - a_high, b_low = b - b_high;
  return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
}
static inline double aipu_math_pow(double x, double y) {
  // log|x| = high + low to about 60 bits.
  const double size = aipu_math_fabs(x);
  const bool regular = size > 0.0 && size < aipu_math_infinity() && aipu_math_fabs(y) < 1e300;
  double e;
  const double f = aipu_math_log_split(regular ? size : 1.0, &e);
  const double d = 2.0 + f, d_low = f - (d - 2.0);
  const double s = f / d;
  const double sd = s * d;
  const double s_low = (((f - sd) - aipu_math_product_error(s, d, sd)) - s * d_low) / d;
  const double a = e * 0x1.62e42feep-1, b = 2.0 * s;
  const double sum = a + b;
  const double b_part = sum - a;
  const double rest = (((a - (sum - b_part)) + (b - b_part)) + e * 0x1.a39ef35793c76p-33) +
                      (2.0 * s_low + s * aipu_math_log_tail(s * s));
  const double high = sum + rest;  // times y, what is left has to be small
  const double low = rest - (high - sum);
  const double product = y * high;
  const bool moderate = aipu_math_fabs(product) < 800.0;
  const double correction = moderate ? aipu_math_product_error(y, high, product) + y * low : 0.0;
  const double irregular = aipu_math_exp(y * aipu_math_log(size));
  return aipu_math_pow_special(x, y, regular ? aipu_math_exp_sum(product, correction) : irregular);
}

// ---- hyperbolic functions ----

template <class T>
static inline T aipu_math_tanh_f(T x) {
  const T magnitude = aipu_math_fabs(x);
  const T z = x * x;
  const T z2 = z * z;
  const T low = aipu_math_fma(z, 0.13333303530739316f, -0.3333333317196775f);
  const T middle = aipu_math_fma(z, 0.021768868214501753f, -0.0539592533789059f);
  const T high = aipu_math_fma(z, 0.0022925576991026523f, -0.008343780370479862f);
  const T p = aipu_math_fma(aipu_math_fma(high, z2, middle), z2, low);
  const T small = aipu_math_fma(x, z * p, x);
  // From 9.02 on the result is 1.
  const T bounded = aipu_math_at_most(magnitude, 10.0f);
  const T large = 1.0f - 2.0f / (aipu_math_exp_bounded(bounded + bounded) + 1.0f);
  return aipu_math_with_sign(aipu_math_choose(magnitude < 0.625f, small, large), x);
}
static inline float aipu_math_tanh(float x) { return aipu_math_tanh_f(x); }
static inline double aipu_math_tanh(double x) {
  const double magnitude = aipu_math_fabs(x);
  const double t = aipu_math_expm1(magnitude + magnitude);
  const double y = magnitude > 20.0 ? 1.0 : t / (t + 2.0);
  return x != x ? x : aipu_math_with_sign(y, x);
}
static inline double aipu_math_sinh(double x) {
  const double magnitude = aipu_math_fabs(x);
  const double t = aipu_math_expm1(magnitude);
  const double root = aipu_math_exp(0.5 * magnitude);
  const double y = magnitude < 40.0 ? 0.5 * (t + t / (t + 1.0)) : (0.5 * root) * root;
  return x != x ? x : aipu_math_with_sign(y, x);
}
static inline double aipu_math_cosh(double x) {
  const double magnitude = aipu_math_fabs(x);
  const double t = aipu_math_exp(magnitude);
  const double root = aipu_math_exp(0.5 * magnitude);
  return magnitude < 40.0 ? 0.5 * (t + 1.0 / t) : (0.5 * root) * root;
}
static inline double aipu_math_asinh(double x) {
  const double a = aipu_math_fabs(x);
  const double small = aipu_math_log1p(a + a * a / (1.0 + aipu_math_sqrt(a * a + 1.0)));
  const double y = a < 1e9 ? small : aipu_math_log(a) + 0x1.62e42fefa39efp-1;
  return x != x ? x : aipu_math_with_sign(y, x);
}
static inline double aipu_math_acosh(double x) {
  const double t = x - 1.0;
  const double small = aipu_math_log1p(t + aipu_math_sqrt(2.0 * t + t * t));
  const double any = x < 1e9 ? small : aipu_math_log(x) + 0x1.62e42fefa39efp-1;
  return x < 1.0 ? aipu_math_nan() : any;
}
static inline double aipu_math_atanh(double x) {
  const double a = aipu_math_fabs(x);
  return aipu_math_with_sign(0.5 * aipu_math_log1p((a + a) / (1.0 - a)), x);
}

// ---- error function ----

template <class T>
static inline T aipu_math_erf_f(T x) {
  const T magnitude = aipu_math_fabs(x);
  const T z = x * x;
  const T z2 = z * z;
  const T p0 = aipu_math_fma(z, -0.37612626666720334f, 0.12837916584835093f);
  const T p2 = aipu_math_fma(z, -0.026854212010626412f, 0.11283594715160218f);
  const T p4 = aipu_math_fma(z, -0.000801686428716587f, 0.005189087423433974f);
  const T p = aipu_math_fma(aipu_math_fma(aipu_math_fma(z2, 7.875875062685488e-05f, p4), z2, p2), z2, p0);
  const T small = aipu_math_fma(x, p, x);
  const T a = aipu_math_at_most(magnitude, 4.0f);
  // The logarithm of 1 - erf(a).
  const T a2 = a * a;
  const T a4 = a2 * a2;
  const T q0 = aipu_math_fma(a, -1.130233434841994f, 0.00032013804967769883f);
  const T q2 = aipu_math_fma(a, -0.11008008294882024f, -0.631826051559163f);
  const T q4 = aipu_math_fma(a, -0.004759596293266265f, 0.026421136005663898f);
  const T q6 = aipu_math_fma(a, -4.605804268918978e-05f, 0.0005968056256607798f);
  const T high = aipu_math_fma(a4, 1.6371514145936436e-06f, aipu_math_fma(q6, a2, q4));
  const T q = aipu_math_fma(high, a4, aipu_math_fma(q2, a2, q0));
  const T large = 1.0f - aipu_math_exp_bounded(q);
  return aipu_math_with_sign(aipu_math_choose(magnitude < 1.0f, small, large), x);
}
static inline float aipu_math_erf(float x) { return aipu_math_erf_f(x); }
static inline double aipu_math_erf(double x) {
  const double magnitude = aipu_math_fabs(x);
  const double z = x * x;
  double p = 5.957176147748911e-11;
  p = p * z + -1.1372848856791674e-09;
  p = p * z + 1.4659775274047436e-08;
  p = p * z + -1.6350312701054695e-07;
  p = p * z + 1.6461000484121368e-06;
  p = p * z + -1.4925595266831182e-05;
  p = p * z + 0.0001205533111164271;
  p = p * z + -0.000854832698083379;
  p = p * z + 0.0052239776248180145;
  p = p * z + -0.026866170645076792;
  p = p * z + 0.11283791670954879;
  p = p * z + -0.3761263890318375;
  p = p * z + 0.1283791670955126;
  const double small = x + x * p;
  const double a = magnitude < 6.0 ? magnitude : 6.0;
  const double t = (a - 2.0) / (a + 2.0);
  double q = -1.1352571477273627e-06;  // e^(a*a) * (1 - erf(a))
  q = q * t + 1.272567661840228e-06;
  q = q * t + 4.011749647325067e-06;
  q = q * t + 1.3058577122278017e-06;
  q = q * t + -1.3998283772784976e-05;
  q = q * t + -2.7562209161129353e-05;
  q = q * t + 2.7527175557227246e-05;
  q = q * t + 0.00017435947400205157;
  q = q * t + 4.355558686575482e-05;
  q = q * t + -0.0009819769411038642;
  q = q * t + -0.00084714325299195;
  q = q * t + 0.006997461736971578;
  q = q * t + 0.0037328924043978336;
  q = q * t + -0.07897858101570611;
  q = q * t + 0.24165819424246585;
  q = q * t + -0.4271858474139585;
  q = q * t + 0.25539567631050575;
  const double large = aipu_math_with_sign(1.0 - aipu_math_exp(-(a * a)) * q, x);
  return x != x ? x : magnitude < 1.0 ? small : large;
}

// ---- circular functions ----

// The 64 bits of 2/pi that follow its first `position` bits after the point; positions before the point give zeros.
static inline unsigned long long aipu_math_two_over_pi(int position) {
  static const unsigned long long kWords[] = {
      0x0000000000000000ULL, 0x0000000000000000ULL, 0xa2f9836e4e441529ULL, 0xfc2757d1f534ddc0ULL, 0xdb6295993c439041ULL,
      0xfe5163abdebbc561ULL, 0xb7246e3a424dd2e0ULL, 0x06492eea09d1921cULL, 0xfe1deb1cb129a73eULL, 0xe88235f52ebb4484ULL,
      0xe99c7026b45f7e41ULL, 0x3991d639835339f4ULL, 0x9c845f8bbdf9283bULL, 0x1ff897ffde05980fULL, 0xef2f118b5a0a6d1fULL,
      0x6d367ecf27cb09b7ULL, 0x4f463f669e5fea2dULL, 0x7527bac7ebe5f17bULL, 0x3d0739f78a5292eaULL, 0x6bfb5fb11f8d5d08ULL,
      0x56033046fc7b6babULL, 0xf0cfbc209af4361dULL};
  const int from_start = position + 128;
  const int word = from_start >> 6, shift = from_start & 63;
  return shift == 0 ? kWords[word] : kWords[word] << shift | kWords[word + 1] >> (64 - shift);
}
// x - quadrant * pi/2 in [-pi/4, pi/4] for finite |x| >= 2^20; the quadrant modulo 4.
static inline double aipu_math_reduce_large(double x, int* quadrant) {
  const long long bits = aipu_math_bits(x);
  const unsigned long long mantissa = ((unsigned long long)bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
  const int exponent = (int)(bits >> 52 & 0x7ff) - 1075;
  // Bits of 2/pi that give multiples of 4 are left out.
  const int first = exponent - 2;
  typedef unsigned __int128 wide;
  const wide low = (wide)mantissa * aipu_math_two_over_pi(first + 128);
  const wide middle = (wide)mantissa * aipu_math_two_over_pi(first + 64) + (unsigned long long)(low >> 64);
  const unsigned long long high = mantissa * aipu_math_two_over_pi(first) + (unsigned long long)(middle >> 64);
  const unsigned long long mid = (unsigned long long)middle;
  const long long fraction = (long long)(high << 2 | mid >> 62);
  const unsigned long long rest = mid << 2 | (unsigned long long)low >> 62;
  const int turns = (int)(high >> 62) + (fraction < 0 ? 1 : 0);
  const double r = ((double)fraction + (double)rest * 0x1p-64) * 0x1p-64 * 0x1.921fb54442d18p+0;
  *quadrant = (bits < 0 ? -turns : turns) & 3;
  return bits < 0 ? -r : r;
}
static inline double aipu_math_reduce(double x, int* quadrant) {
  const double magnitude = aipu_math_fabs(x);
  if (magnitude < 1048576.0) {
    const double n = (x * 0x1.45f306dc9c883p-1 + 6755399441055744.0) - 6755399441055744.0;
    *quadrant = (int)n & 3;
    return ((x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
  }
  *quadrant = 0;
  if (!(magnitude < aipu_math_infinity())) return x - x;
  return aipu_math_reduce_large(x, quadrant);
}
static inline double aipu_math_sin_near(double r) {
  const double z = r * r;
  double p = -7.586636882825159e-13;
  p = p * z + 1.6058530596645953e-10;
  p = p * z + -2.50521062259944e-08;
  p = p * z + 2.755731921932058e-06;
  p = p * z + -0.0001984126984126504;
  p = p * z + 0.008333333333333331;
  p = p * z + -0.16666666666666666;
  return aipu_math_with_sign(r + r * (z * p), r);
}
static inline double aipu_math_cos_near(double r) {
  const double z = r * r;
  double p = -1.138254464534925e-11;
  p = p * z + 2.087614504941318e-09;
  p = p * z + -2.755731726587808e-07;
  p = p * z + 2.48015872987544e-05;
  p = p * z + -0.0013888888888887389;
  p = p * z + 0.041666666666666664;
  return 1.0 - (0.5 * z - z * z * p);
}
static inline double aipu_math_sin(double x) {
  int quadrant;
  const double r = aipu_math_reduce(x, &quadrant);
  const double y = quadrant & 1 ? aipu_math_cos_near(r) : aipu_math_sin_near(r);
  return quadrant & 2 ? -y : y;
}
static inline double aipu_math_cos(double x) {
  int quadrant;
  const double r = aipu_math_reduce(x, &quadrant);
  const double y = quadrant & 1 ? aipu_math_sin_near(r) : aipu_math_cos_near(r);
  return (quadrant + 1) & 2 ? -y : y;
}
static inline double aipu_math_tan(double x) {
  int quadrant;
  const double r = aipu_math_reduce(x, &quadrant);
  const double s = aipu_math_sin_near(r), c = aipu_math_cos_near(r);
  return quadrant & 1 ? -c / s : s / c;
}
static inline double aipu_math_atan(double x) {
  const double a = aipu_math_fabs(x);
  const bool above = a > 2.414213562373095;  // tan(3 pi / 8)
  const bool middle = a > 0.4142135623730951;
  const double t = above ? -1.0 / a : middle ? (a - 1.0) / (a + 1.0) : a;
  const double base = above ? 0x1.921fb54442d18p+0 : middle ? 0x1.921fb54442d18p-1 : 0.0;
  const double z = t * t;
  double p = 0.01628357235648259;
  p = p * z + -0.0345685906686069;
  p = p * z + 0.045515165635903104;
  p = p * z + -0.052304374642516874;
  p = p * z + 0.05878926715756726;
  p = p * z + -0.066664246872465;
  p = p * z + 0.07692296363979952;
  p = p * z + -0.09090908753118594;
  p = p * z + 0.11111111105147764;
  p = p * z + -0.14285714285659748;
  p = p * z + 0.19999999999999804;
  p = p * z + -0.3333333333333333;
  return aipu_math_with_sign(base + (t + t * (z * p)), x);
}
// asin for |x| <= 0.5
static inline double aipu_math_asin_near(double x) {
  const double z = x * x;
  double p = 0.02961201126495512;
  p = p * z + -0.01924167174674304;
  p = p * z + 0.019554513336123378;
  p = p * z + 0.0030448799094556773;
  p = p * z + 0.009319560794767446;
  p = p * z + 0.009621842970100282;
  p = p * z + 0.011566459612121669;
  p = p * z + 0.01396378001220357;
  p = p * z + 0.017352816540325496;
  p = p * z + 0.02237215744350722;
  p = p * z + 0.03038194447553234;
  p = p * z + 0.044642857142551895;
  p = p * z + 0.07500000000000118;
  p = p * z + 0.16666666666666666;
  return x + x * (z * p);
}
static inline double aipu_math_asin(double x) {
  const double a = aipu_math_fabs(x);
  const double outer = 0x1.921fb54442d18p+0 - 2.0 * aipu_math_asin_near(aipu_math_sqrt(0.5 * (1.0 - a)));
  return a <= 0.5 ? aipu_math_asin_near(x) : aipu_math_with_sign(outer, x);
}
static inline double aipu_math_acos(double x) {
  const double a = aipu_math_fabs(x);
  const double outer = 2.0 * aipu_math_asin_near(aipu_math_sqrt(0.5 * (1.0 - a)));
  return a <= 0.5 ? 0x1.921fb54442d18p+0 - aipu_math_asin_near(x) : x < 0.0 ? 0x1.921fb54442d18p+1 - outer : outer;
}

// Up to here sin and cos of floats compute in float; beyond, and for what is no number, in double.
static const float kAipuMathFewTurns = 131072.0f;
// sin(magnitude + quarters * pi/2) for 0 <= magnitude <= kAipuMathFewTurns; quarters is 0 or 1.
template <class T>
static inline T aipu_math_sin_quarters_later(T magnitude, float quarters) {
  const T turned = aipu_math_fma(magnitude, 0x1.45f306p-1f, 12582912.0f);
  const T n = turned - 12582912.0f;
  // magnitude - n pi/2 = r + low. The first part of pi/2 is a multiple of 2^-23 and, where n > 0, the magnitude one of
  // 2^-24, so that the first difference is exact; so is the product by the second part as two floats (product and, from
  // it, rounded_off), and what r leaves of its difference.
  const T first = aipu_math_fma(n, -0x1.921fb4p+0f, magnitude);
  const T product = n * -0x1.4442d2p-24f;
  const T rounded_off = aipu_math_fma(n, 0x1.4442d2p-24f, product);
  const T r = first + product;
  const T low = aipu_math_fma(n, 0x1.ee59dap-50f, ((first - r) + product) - rounded_off);
  const T z = aipu_math_fma(r, r, (r + r) * low);
  const T s = aipu_math_fma(aipu_math_fma(z, -0x1.991bf4p-13f, 0x1.1106c6p-7f), z, -0x1.555544p-3f);
  const T sine = r + aipu_math_fma(r * z, s, low);
  const T c = aipu_math_fma(aipu_math_fma(z, 0x1.99e24p-16f, -0x1.6c0c1cp-10f), z, 0x1.55554ap-5f);
  const T cosine = aipu_math_fma(aipu_math_fma(c, z, -0.5f), z, 1.0f);
  const T later = turned + quarters;
  return aipu_math_negate_by_half_turn(aipu_math_choose(aipu_math_is_odd(later), cosine, sine), later);
}
template <class T>
static inline T aipu_math_sin_f(T x) {
  return aipu_math_times_sign(aipu_math_sin_quarters_later(aipu_math_fabs(x), 0.0f), x);
}
template <class T>
static inline T aipu_math_cos_f(T x) {
  return aipu_math_sin_quarters_later(aipu_math_fabs(x), 1.0f);
}
static inline float aipu_math_sin(float x) {
  return aipu_math_fabs(x) <= kAipuMathFewTurns ? aipu_math_sin_f(x) : (float)aipu_math_sin((double)x);
}
static inline float aipu_math_cos(float x) {
  return aipu_math_fabs(x) <= kAipuMathFewTurns ? aipu_math_cos_f(x) : (float)aipu_math_cos((double)x);
}
static inline float aipu_math_tan(float x) { return (float)aipu_math_tan((double)x); }
static inline float aipu_math_asin(float x) { return (float)aipu_math_asin((double)x); }
static inline float aipu_math_acos(float x) { return (float)aipu_math_acos((double)x); }
static inline float aipu_math_atan(float x) { return (float)aipu_math_atan((double)x); }
static inline float aipu_math_sinh(float x) { return (float)aipu_math_sinh((double)x); }
static inline float aipu_math_cosh(float x) { return (float)aipu_math_cosh((double)x); }
static inline float aipu_math_asinh(float x) { return (float)aipu_math_asinh((double)x); }
static inline float aipu_math_acosh(float x) { return (float)aipu_math_acosh((double)x); }
static inline float aipu_math_atanh(float x) { return (float)aipu_math_atanh((double)x); }

// Through a product in double: rounded to float, powers of the base are exact.
static inline double aipu_math_log2(double x) { return aipu_math_log(x) * 0x1.71547652b82fep+0; }
static inline double aipu_math_log10(double x) { return aipu_math_log(x) * 0x1.bcb7b1526e50ep-2; }
static inline double aipu_math_sigmoid(double x) { return 1.0 / (1.0 + aipu_math_exp(-x)); }
static inline float aipu_math_log2(float x) { return (float)aipu_math_log2((double)x); }
static inline float aipu_math_log10(float x) { return (float)aipu_math_log10((double)x); }
static inline float aipu_math_sigmoid(float x) { return (float)aipu_math_sigmoid((double)x); }
