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
