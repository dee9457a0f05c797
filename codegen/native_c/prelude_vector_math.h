// What the float functions of math_functions.h are made of, for vectors of floats: lane for lane the same values.

template <class V>
using __lanes_of_float = typename __if<__is_float<__e<V>>::value && sizeof(__e<V>) == 4, V, void>::type;
template <class V>
using __int_lanes = __v<int, __LANES(V)>;

#define AIPU_MATH_HAS_FMA
__inl float aipu_math_fma(float x, float y, float z) { return fma(x, y, z); }
template <class V>
__inl auto aipu_math_fma(V x, V y, V z) -> decltype(x[0], __lanes_of_float<V>()) {
  return __fused(x, y, z);
}
template <class V>
__inl auto aipu_math_fma(V x, float y, V z) -> decltype(x[0], __lanes_of_float<V>()) {
  return __fused(x, __splat<V>(y), z);
}
template <class V>
__inl auto aipu_math_fma(V x, V y, float z) -> decltype(x[0], __lanes_of_float<V>()) {
  return __fused(x, y, __splat<V>(z));
}
template <class V>
__inl auto aipu_math_fma(V x, float y, float z) -> decltype(x[0], __lanes_of_float<V>()) {
  return __fused(x, __splat<V>(y), __splat<V>(z));
}

template <class V>
__inl auto aipu_math_at_least(V x, float low) -> decltype(x[0], __lanes_of_float<V>()) {
  return __greater(__splat<V>(low), x);
}
template <class V>
__inl auto aipu_math_at_most(V x, float high) -> decltype(x[0], __lanes_of_float<V>()) {
  return __lesser(__splat<V>(high), x);
}
template <class C, class V>
__inl auto aipu_math_choose(C condition, V a, V b) -> decltype(condition[0], V()) {
  return condition ? a : b;
}
template <class V>
__inl auto aipu_math_fabs(V x) -> decltype(x[0], __lanes_of_float<V>()) {
  return (V)((__int_lanes<V>)x & 0x7fffffff);
}
template <class V>
__inl auto aipu_math_with_sign(V x, V y) -> decltype(x[0], __lanes_of_float<V>()) {
  typedef __int_lanes<V> I;
  return (V)(((I)x & 0x7fffffff) | ((I)y & (int)0x80000000u));
}
template <class V>
__inl auto aipu_math_is_odd(V turned) -> decltype(turned[0], __int_lanes<__lanes_of_float<V>>()) {
  return ((__int_lanes<V>)turned & 1) != 0;
}
template <class V>
__inl auto aipu_math_negate_by_half_turn(V y, V turned) -> decltype(y[0], __lanes_of_float<V>()) {
  typedef __int_lanes<V> I;
  return (V)((I)y ^ (((I)turned & 2) << 30));
}
template <class V>
__inl auto aipu_math_times_sign(V y, V x) -> decltype(y[0], __lanes_of_float<V>()) {
  typedef __int_lanes<V> I;
  return (V)((I)y ^ ((I)x & (int)0x80000000u));
}
template <class V>
__inl auto aipu_math_scale(V y, V n) -> decltype(y[0], __lanes_of_float<V>()) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    V out;
    asm("vscalefps %2, %1, %0" : "=v"(out) : "v"(y), "v"(n));
    return out;
  }
#endif
  typedef __int_lanes<V> I;
  const I k = __builtin_convertvector(n, I);
  const I half = k >> 1;
  return (y * (V)((half + 127) << 23)) * (V)((k - half + 127) << 23);
}
template <class V>
__inl auto aipu_math_scale_normal(V y, V n) -> decltype(y[0], __lanes_of_float<V>()) {
  typedef __int_lanes<V> I;
  return (V)((I)y + (__builtin_convertvector(n, I) << 23));
}

// Whether a magnitude lies beyond the limit, or is no number.
template <class V>
__inl bool __any_beyond(V magnitude, float limit) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return __builtin_ia32_cmpps512_mask(magnitude, __splat<V>(limit), 22, -1, 4) != 0;
#endif
  const __int_lanes<V> beyond = ~(magnitude <= limit);
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) return __builtin_ia32_movmskps256((V)beyond) != 0;
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16) return __builtin_ia32_movmskps((V)beyond) != 0;
#endif
  long words[sizeof(V) / 8], any = 0;
  __builtin_memcpy(words, &beyond, sizeof(words));
  for (const long word : words) any |= word;
  return any != 0;
}
