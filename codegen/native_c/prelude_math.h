// The mathematical functions on scalars and vectors: one implementation, math_functions.h, in a loop over lanes that
// the compiler vectorises. 16-bit floats compute in float and round once.

#define __AIPU_MATH(name, function)                                                \
  __inl float name(float x) { return function(x); }                                \
  __inl double name(double x) { return function(x); }                              \
  __inl half name(half x) { return (half)function((float)x); }                     \
  __inl bf16 name(bf16 x) { return (bf16)function((float)x); }                     \
  template <class V>                                                               \
  __inl V v##name(V x) {                                                           \
    if constexpr (__is16f<__e<V>>::value)                                          \
      return __narrow<__e<V>, __LANES(V)>(v##name(__widen(x)));                    \
    else                                                                           \
      return __map<V>(                                                             \
          [](__e<V> a) __attribute__((always_inline)) { return function(a); }, x); \
  }
__AIPU_MATH(exp2, aipu_math_exp2)
__AIPU_MATH(log, aipu_math_log)
__AIPU_MATH(tan, aipu_math_tan)
__AIPU_MATH(asin, aipu_math_asin)
__AIPU_MATH(acos, aipu_math_acos)
__AIPU_MATH(atan, aipu_math_atan)
__AIPU_MATH(sinh, aipu_math_sinh)
__AIPU_MATH(cosh, aipu_math_cosh)
__AIPU_MATH(asinh, aipu_math_asinh)
__AIPU_MATH(acosh, aipu_math_acosh)
__AIPU_MATH(atanh, aipu_math_atanh)
__AIPU_MATH(log2, aipu_math_log2)
__AIPU_MATH(log10, aipu_math_log10)
__AIPU_MATH(sigmoid, aipu_math_sigmoid)
__AIPU_MATH(sqrt, aipu_math_sqrt)
__AIPU_MATH(rsqrt, aipu_math_rsqrt)
// One instruction each where the CPU has it, with the same results.
#ifdef AIPU_CPU_ROUNDING
__inl float __floor(float x) { return __builtin_floorf(x); }
__inl double __floor(double x) { return __builtin_floor(x); }
__inl float __ceil(float x) { return __builtin_ceilf(x); }
__inl double __ceil(double x) { return __builtin_ceil(x); }
__inl float __trunc(float x) { return __builtin_truncf(x); }
__inl double __trunc(double x) { return __builtin_trunc(x); }
__AIPU_MATH(floor, __floor)
__AIPU_MATH(ceil, __ceil)
__AIPU_MATH(trunc, __trunc)
#else
__AIPU_MATH(floor, aipu_math_floor)
__AIPU_MATH(ceil, aipu_math_ceil)
__AIPU_MATH(trunc, aipu_math_trunc)
#endif
__AIPU_MATH(round, rint)
#undef __AIPU_MATH

// The busiest ones are written for whole vectors, see prelude_vector_math.h.
#define __AIPU_VECTOR_MATH(name, of_vector)                                           \
  __inl float name(float x) { return aipu_math_##name(x); }                           \
  __inl double name(double x) { return aipu_math_##name(x); }                         \
  __inl half name(half x) { return (half)aipu_math_##name((float)x); }                \
  __inl bf16 name(bf16 x) { return (bf16)aipu_math_##name((float)x); }                \
  template <class V>                                                                  \
  __inl V v##name(V x) {                                                              \
    typedef __e<V> E;                                                                 \
    if constexpr (__is16f<E>::value)                                                  \
      return __narrow<E, __LANES(V)>(v##name(__widen(x)));                            \
    else if constexpr (sizeof(E) == 4 && sizeof(V) >= 16)                             \
      return of_vector(x);                                                            \
    else                                                                              \
      return __map<V>(                                                                \
          [](E a) __attribute__((always_inline)) { return aipu_math_##name(a); }, x); \
  }
// Vectors with a lane beyond what is computed in float leave the straight line.
#define __AIPU_CIRCULAR(name)                                                                                   \
  template <class V>                                                                                            \
  static __attribute__((noinline, cold)) V __##name##_by_lanes(V x) {                                           \
    return __map<V>(                                                                                            \
        [](float a) __attribute__((always_inline)) { return aipu_math_##name(a); }, x);                         \
  }                                                                                                             \
  template <class V>                                                                                            \
  __inl V __##name##_of(V x) {                                                                                  \
    if (__builtin_expect(__any_beyond(aipu_math_fabs(x), kAipuMathFewTurns), 0)) return __##name##_by_lanes(x); \
    return aipu_math_##name##_f(x);                                                                             \
  }
__AIPU_CIRCULAR(sin)
__AIPU_CIRCULAR(cos)
#undef __AIPU_CIRCULAR
__AIPU_VECTOR_MATH(exp, aipu_math_exp_f)
__AIPU_VECTOR_MATH(tanh, aipu_math_tanh_f)
__AIPU_VECTOR_MATH(erf, aipu_math_erf_f)
__AIPU_VECTOR_MATH(sin, __sin_of)
__AIPU_VECTOR_MATH(cos, __cos_of)
#undef __AIPU_VECTOR_MATH

__inl float pow(float x, float y) { return aipu_math_pow(x, y); }
__inl double pow(double x, double y) { return aipu_math_pow(x, y); }
__inl half pow(half x, half y) { return (half)aipu_math_pow((float)x, (float)y); }
__inl bf16 pow(bf16 x, bf16 y) { return (bf16)aipu_math_pow((float)x, (float)y); }
template <class V>
__inl V vpow(V x, V y) {
  if constexpr (__is16f<__e<V>>::value)
    return __narrow<__e<V>, __LANES(V)>(vpow(__widen(x), __widen(y)));
  else
    return __map<V>(
        [](__e<V> a, __e<V> b) __attribute__((always_inline)) { return aipu_math_pow(a, b); }, x, y);
}
