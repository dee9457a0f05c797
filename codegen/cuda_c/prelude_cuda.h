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
template <class R, class X>
__device__ inline R __convert(X x) {
  return R(x);
}
template <class T>
__device__ inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <class T>
__device__ inline T __maximum(T a, T b) {
  return a != a ? a : b != b ? b : max(a, b);
}
template <class T>
__device__ inline T __minimum(T a, T b) {
  return a != a ? a : b != b ? b : min(a, b);
}

// Of half precision: computed in single precision.
#ifdef __CUDA_FP16_H__
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
AIPU_OF_HALF(round)
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
__device__ inline half pow(half a, half b) { return half(pow(float(a), float(b))); }
__device__ inline half max(half a, half b) { return a > b ? a : b; }
__device__ inline half min(half a, half b) { return a < b ? a : b; }
__device__ inline bool isnan(half x) { return isnan(float(x)); }
__device__ inline bool isinf(half x) { return isinf(float(x)); }
#endif
