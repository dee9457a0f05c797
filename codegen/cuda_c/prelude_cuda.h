// What the text of kernels stands on where NVIDIA's compiler takes it.
#define restrict __restrict__
#define _CLC_INLINE inline
#define _CLC_NOINLINE __noinline__
typedef signed char schar;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

// Integer division does not trap: x / 0 and x % 0 are 0, the quotient that does not fit is the greatest number.
template <class T>
__device__ inline T __div(T a, T b) {
  if (T(-1) < T(0) && b == T(-1)) {
    const T negated = T(0 - (ulong)a);
    return a < T(0) && negated < T(0) ? T(~a) : negated;
  }
  return b == T(0) ? T(0) : T(a / b);
}
template <class T>
__device__ inline T __mod(T a, T b) {
  return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
// Floats become integers as elsewhere: truncated, NaN to 0, clamped to int32 (to int64 for 64-bit integers), wrapped.
template <class R, class X>
__device__ inline R __convert(X x) {
  if constexpr (sizeof(R) == 8) {
    const X above = X(9223372036854775808.0);
    return x >= above ? R(0x7fffffffffffffffL) : x >= -above ? R((long)x) : x < -above ? R(1UL << 63) : R(0);
  } else {
    const X above = X(2147483648.0);
    return x >= above ? R(0x7fffffff) : x >= -above ? R((int)x) : x < -above ? R(1U << 31) : R(0);
  }
}
// Ties go to the even integer.
#define round(x) rint(x)
template <class To, class From>
__device__ inline To __bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits of equal sizes");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
// Without a NaN's sign; the lowest integer stays itself.
template <class T>
__device__ inline T __abs(T x) {
  return T(-1) < T(0) && x < T(0) ? T(0 - (ulong)x) : x;
}
__device__ inline float __abs(float x) { return __bits<float>(__bits<uint>(x) & 0x7fffffffu); }
__device__ inline double __abs(double x) { return __bits<double>(__bits<ulong>(x) & 0x7fffffffffffffffull); }
// CUDA's own __clz counts the bits of an int.
template <class T>
__device__ inline T __clz(T x) {
  const int width = 8 * (int)sizeof(T);
  const ulong bits = (ulong)x << (64 - width);
  return T(bits == 0 ? width : __clzll((long long)bits));
}
template <class T>
__device__ inline T ceildiv(T x, T y) {
  return __div<T>(T(x + y - T(1)), y);
}
template <class T>
__device__ inline T sigmoid(T x) {
  const T e = exp(-__abs(x));  // does not overflow
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
template <class T>
__device__ inline T __maximum(T a, T b) {
  return a != a ? a : b != b ? b : max(a, b);
}
template <class T>
__device__ inline T __minimum(T a, T b) {
  return a != a ? a : b != b ? b : min(a, b);
}

// Of half precision: computed in single precision. Each operation rounds: CUDA's own operators may become one
// multiplication and addition that does not.
#ifdef __CUDA_FP16_H__
__device__ inline half operator+(half a, half b) { return __hadd_rn(a, b); }
__device__ inline half operator-(half a, half b) { return __hsub_rn(a, b); }
__device__ inline half operator*(half a, half b) { return __hmul_rn(a, b); }
__device__ inline half operator/(half a, half b) { return half(float(a) / float(b)); }
__device__ inline half operator-(half a) { return __hneg(a); }
__device__ inline bool operator==(half a, half b) { return float(a) == float(b); }
__device__ inline bool operator!=(half a, half b) { return float(a) != float(b); }
__device__ inline bool operator<(half a, half b) { return float(a) < float(b); }
__device__ inline bool operator<=(half a, half b) { return float(a) <= float(b); }
__device__ inline bool operator>(half a, half b) { return float(a) > float(b); }
__device__ inline bool operator>=(half a, half b) { return float(a) >= float(b); }
#define AIPU_OF_HALF(f) \
  __device__ inline half f(half x) { return half(f(float(x))); }
AIPU_OF_HALF(exp)
AIPU_OF_HALF(exp2)
AIPU_OF_HALF(log)
AIPU_OF_HALF(log2)
AIPU_OF_HALF(log10)
AIPU_OF_HALF(sqrt)
AIPU_OF_HALF(rsqrt)
AIPU_OF_HALF(erf)
AIPU_OF_HALF(floor)
AIPU_OF_HALF(ceil)
AIPU_OF_HALF(trunc)
AIPU_OF_HALF(sin)
AIPU_OF_HALF(cos)
AIPU_OF_HALF(tan)
AIPU_OF_HALF(asin)
AIPU_OF_HALF(acos)
AIPU_OF_HALF(atan)
AIPU_OF_HALF(sinh)
AIPU_OF_HALF(cosh)
AIPU_OF_HALF(tanh)
AIPU_OF_HALF(asinh)
AIPU_OF_HALF(acosh)
AIPU_OF_HALF(atanh)
AIPU_OF_HALF(abs)
AIPU_OF_HALF(rint)
__device__ inline half sigmoid(half x) { return half(sigmoid<float>(float(x))); }
__device__ inline half pow(half a, half b) { return half(pow(float(a), float(b))); }
__device__ inline half __abs(half x) { return half(__abs(float(x))); }
__device__ inline half fma(half a, half b, half c) { return half(fma(float(a), float(b), float(c))); }
__device__ inline half max(half a, half b) { return half(max(float(a), float(b))); }
__device__ inline half min(half a, half b) { return half(min(float(a), float(b))); }
template <class R>
__device__ inline R __convert(half x) {
  return __convert<R>(float(x));
}
__device__ inline bool isnan(half x) { return isnan(float(x)); }
__device__ inline bool isinf(half x) { return isinf(float(x)); }
__device__ inline bool isfinite(half x) { return isfinite(float(x)); }
#endif
