// Minimum, maximum and clip, rounding to integers, and what kind of number a float is. `r` gives the lanes whose mask
// bit is off.

// ---- min, max, clip ----

// a > b ? a : b and a < b ? a : b of floats: what the instructions do, which the compilers do not recognise in vectors.
#if defined(__x86_64__)
template <class V>
__inl V __greater(V a, V b) {
  V out;
#ifdef __AVX__
  if constexpr (8 * sizeof(V) > AIPU_VECTOR_BITS || sizeof(V) < 16)
    out = a > b ? a : b;
  else if constexpr (sizeof(__e<V>) == 4)
    asm("vmaxps %2, %1, %0" : "=v"(out) : "v"(a), "v"(b));
  else
    asm("vmaxpd %2, %1, %0" : "=v"(out) : "v"(a), "v"(b));
#else
  out = a > b ? a : b;
#endif
  return out;
}
template <class V>
__inl V __lesser(V a, V b) {
  V out;
#ifdef __AVX__
  if constexpr (8 * sizeof(V) > AIPU_VECTOR_BITS || sizeof(V) < 16)
    out = a < b ? a : b;
  else if constexpr (sizeof(__e<V>) == 4)
    asm("vminps %2, %1, %0" : "=v"(out) : "v"(a), "v"(b));
  else
    asm("vminpd %2, %1, %0" : "=v"(out) : "v"(a), "v"(b));
#else
  out = a < b ? a : b;
#endif
  return out;
}
#else
template <class V>
__inl V __greater(V a, V b) {
  return a > b ? a : b;
}
template <class V>
__inl V __lesser(V a, V b) {
  return a < b ? a : b;
}
#endif

// One operand NaN: the other one, as the device does; of two equal ones (zeros of different sign) the second. With a
// constant second operand this is one instruction.
template <class V>
__inl V __max_lanes(V x, V y) {
  typedef __e<V> E;
  if constexpr (__is16f<E>::value)
    return __narrow<E, __LANES(V)>(__max_lanes(__widen(x), __widen(y)));
  else if constexpr (__is_float<E>::value)
    return y != y ? x : __greater(x, y);
  else
    return __integer_max(x, y);
}
template <class V>
__inl V __min_lanes(V x, V y) {
  typedef __e<V> E;
  if constexpr (__is16f<E>::value)
    return __narrow<E, __LANES(V)>(__min_lanes(__widen(x), __widen(y)));
  else if constexpr (__is_float<E>::value)
    return y != y ? x : __lesser(x, y);
  else
    return __integer_min(x, y);
}
template <class V, class M>
__inl V __vmax(V r, V x, V y, M m) {
  return __select(m, __max_lanes(x, y), r);
}
template <class V, class M>
__inl V __vmin(V r, V x, V y, M m) {
  return __select(m, __min_lanes(x, y), r);
}
template <class T>
__inl T max(T x, T y) {
  return y != y ? x : x > y ? x : y;
}
template <class T>
__inl T min(T x, T y) {
  return y != y ? x : x < y ? x : y;
}
// NaN if one operand is (the first one that is), as NumPy's maximum and minimum. With a constant first operand this is
// one instruction: of two that cannot be compared the instructions return the second.
template <class V>
__inl V __maximum_lanes(V x, V y) {
  typedef __e<V> E;
  if constexpr (__is16f<E>::value)
    return __narrow<E, __LANES(V)>(__maximum_lanes(__widen(x), __widen(y)));
  else if constexpr (__is_float<E>::value)
    return x != x ? x : __greater(x, y);
  else
    return x > y ? x : y;
}
template <class V>
__inl V __minimum_lanes(V x, V y) {
  typedef __e<V> E;
  if constexpr (__is16f<E>::value)
    return __narrow<E, __LANES(V)>(__minimum_lanes(__widen(x), __widen(y)));
  else if constexpr (__is_float<E>::value)
    return x != x ? x : __lesser(x, y);
  else
    return x < y ? x : y;
}
template <class V, class M>
__inl V __vmaximum(V r, V x, V y, M m) {
  return __select(m, __maximum_lanes(x, y), r);
}
template <class V, class M>
__inl V __vminimum(V r, V x, V y, M m) {
  return __select(m, __minimum_lanes(x, y), r);
}
template <class T>
__inl T __maximum(T x, T y) {
  return x != x ? x : x > y ? x : y;
}
template <class T>
__inl T __minimum(T x, T y) {
  return x != x ? x : x < y ? x : y;
}
template <class V, class M>
__inl V __vclip(V x, V lo, V hi, M m) {
  if constexpr (__is_float<__e<V>>::value) {  // NaN lanes stay NaN
    if constexpr (__is16f<__e<V>>::value) {
      const V raised = __select(__vqlt(x, lo, ALL_TRUE), lo, x);
      return __select(m, __select(__vqlt(hi, raised, ALL_TRUE), hi, raised), x);
    } else {
      return __select(m, __lesser(hi, __greater(lo, x)), x);
    }
  } else {
    return __select(m, __max_lanes(__min_lanes(x, hi), lo), x);
  }
}

// ---- rounding to integers ----

__inl float rint(float x) {
#ifdef AIPU_CPU_ROUNDING
  return __builtin_rintf(x);
#else
  const float magnitude = __builtin_fabsf(x);
  const float rounded = (magnitude + 0x1p23f) - 0x1p23f;
  return magnitude < 0x1p23f ? __builtin_copysignf(rounded, x) : x;
#endif
}
__inl double rint(double x) {
#ifdef AIPU_CPU_ROUNDING
  return __builtin_rint(x);
#else
  const double magnitude = __builtin_fabs(x);
  const double rounded = (magnitude + 0x1p52) - 0x1p52;
  return magnitude < 0x1p52 ? __builtin_copysign(rounded, x) : x;
#endif
}
__inl half rint(half x) { return (half)rint((float)x); }
__inl bf16 rint(bf16 x) { return (bf16)rint((float)x); }
template <class V, class M>
__inl V __vrint(V r, V x, M m) {
  typedef __e<V> E;
  if constexpr (__is16f<E>::value)
    return __select(m, __narrow<E, __LANES(V)>(__vrint(__widen(x), __widen(x), ALL_TRUE)), r);
  else
    return __select(m, __map<V>([](E a) { return rint(a); }, x), r);
}

// ---- classification ----

// The bits of infinity, shifted left by one.
template <class T>
struct __fp;
template <>
struct __fp<half> {
  static constexpr ushort inf2 = 0xf800;
};
template <>
struct __fp<bf16> {
  static constexpr ushort inf2 = 0xff00;
};
template <>
struct __fp<float> {
  static constexpr uint inf2 = 0xff000000u;
};
template <>
struct __fp<double> {
  static constexpr ulong inf2 = 0xffe0000000000000ul;
};

template <class F>
__inl bool isnan(F x) {
  return (__unsigned_of<F>)(__bits<__unsigned_of<F>>(x) << 1) > __fp<F>::inf2;
}
template <class F>
__inl bool isinf(F x) {
  return (__unsigned_of<F>)(__bits<__unsigned_of<F>>(x) << 1) == __fp<F>::inf2;
}
template <class F>
__inl bool isfinite(F x) {
  return (__unsigned_of<F>)(__bits<__unsigned_of<F>>(x) << 1) < __fp<F>::inf2;
}
template <class V>
__inl auto __doubled_bits(V x) {
  typedef typename __plain<__unsigned_of<__e<V>>, __LANES(V)>::type U;
  return __bits<U>(x) << 1;
}
template <class V, class M>
__inl auto __visnan(V x, M m) {
  return __and(m, __mask_of(__doubled_bits(x) > __fp<__e<V>>::inf2));
}
template <class V, class M>
__inl auto __visinf(V x, M m) {
  return __and(m, __mask_of(__doubled_bits(x) == __fp<__e<V>>::inf2));
}
template <class V, class M>
__inl auto __visfinite(V x, M m) {
  return __and(m, __mask_of(__doubled_bits(x) < __fp<__e<V>>::inf2));
}
