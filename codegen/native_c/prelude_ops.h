// Arithmetic and compare intrinsics. `r` gives the lanes whose mask bit is off (and the result's type).

template <class R, class F, class X>
__inl R __map(F f, X x) {
  constexpr int N = __LANES(R);
  __e<X> a[N];
  __e<R> out[N];
  __builtin_memcpy(a, &x, sizeof(a));
  for (int i = 0; i < N; i++) out[i] = f(a[i]);
  return __bits<R>(out);
}
template <class R, class F, class X, class Y>
__inl R __map(F f, X x, Y y) {
  constexpr int N = __LANES(R);
  __e<X> a[N];
  __e<Y> b[N];
  __e<R> out[N];
  __builtin_memcpy(a, &x, sizeof(a));
  __builtin_memcpy(b, &y, sizeof(b));
  for (int i = 0; i < N; i++) out[i] = f(a[i], b[i]);
  return __bits<R>(out);
}

// An integer type that holds sums and products of two T exactly.
template <class T>
using __wide = typename __if<sizeof(T) <= 2, int, typename __if<sizeof(T) == 4, long, __int128>::type>::type;
template <class T, class W>
__inl T __clamp_to(W w) {
  return w > (W)__limits<T>::max ? __limits<T>::max : w < (W)__limits<T>::min ? __limits<T>::min : (T)w;
}
// An intermediate for products: u32 * u32 needs more than long.
template <class T>
using __wider = typename __if<sizeof(T) <= 2, long, __int128>::type;

// The same bits with another element of the same size (out_sign).
template <class R, class X>
__inl R __same_bits(X x) {
  return __bits<R>(x);
}

template <class V>
__inl V __integer_max(V x, V y) {
  return x > y ? x : y;
}
template <class V>
__inl V __integer_min(V x, V y) {
  return x < y ? x : y;
}

template <class R, class X, class Y, class M>
__inl R __vadd(R r, X x, Y y, M m) {
  return __select(m, __same_bits<R>(x) + __same_bits<R>(y), r);
}
template <class R, class X, class Y, class M>
__inl R __vsub(R r, X x, Y y, M m) {
  return __select(m, __same_bits<R>(x) - __same_bits<R>(y), r);
}
template <class R, class X, class Y, class M>
__inl R __vmul(R r, X x, Y y, M m) {
  return __select(m, __same_bits<R>(x) * __same_bits<R>(y), r);
}
// Sums and differences that end at the type's limits: x is brought to where y does not lead out of the range, which
// takes fewer instructions than wider lanes do. Of unsigned lanes only one limit can be passed.
template <class V>
__inl V __add_saturated(V x, V y) {
  typedef __e<V> E;
#ifdef __aarch64__
  if constexpr (sizeof(V) == 16 && __same<E, int>::value) {
    V out;
    asm("sqadd %0.4s, %1.4s, %2.4s" : "=w"(out) : "w"(x), "w"(y));
    return out;
  }
#endif
  if constexpr (__signed_elem<E>::value) {
    const V above = __splat<V>(__limits<E>::max) - __integer_max(y, V{});
    const V below = __splat<V>(__limits<E>::min) - __integer_min(y, V{});
    return __integer_max(__integer_min(x, above), below) + y;
  } else {
    return __integer_min(x, ~y) + y;
  }
}
template <class V>
__inl V __sub_saturated(V x, V y) {
  typedef __e<V> E;
  if constexpr (__signed_elem<E>::value) {
    const V above = __splat<V>(__limits<E>::max) + __integer_min(y, V{});
    const V below = __splat<V>(__limits<E>::min) + __integer_max(y, V{});
    return __integer_max(__integer_min(x, above), below) - y;
  } else {
    return __integer_max(x, y) - y;
  }
}
template <class R, class X, class Y, class M>
__inl R __vadds(R r, X x, Y y, M m) {
  typedef __e<R> E;
  typedef __wide<E> W;
  if constexpr (__same<R, X>::value && __same<R, Y>::value && __is_vector<R>::value)
    return __select(m, __add_saturated(x, y), r);
  else
    return __select(m, __map<R>([](__e<X> a, __e<Y> b) { return __clamp_to<E>((W)a + (W)b); }, x, y), r);
}
template <class R, class X, class Y, class M>
__inl R __vsubs(R r, X x, Y y, M m) {
  typedef __e<R> E;
  typedef __wide<E> W;
  if constexpr (__same<R, X>::value && __same<R, Y>::value && __is_vector<R>::value)
    return __select(m, __sub_saturated(x, y), r);
  else
    return __select(m, __map<R>([](__e<X> a, __e<Y> b) { return __clamp_to<E>((W)a - (W)b); }, x, y), r);
}

// Exact products of half of the lanes, elements twice as wide; of 32-bit lanes the 64-bit product as two words, low
// word first.
template <int First, class R, class X, class Y, class M>
__inl R __widening_mul(R r, X x, Y y, M m) {
  constexpr int N = __LANES(X) / 2;
  R out = r;
  for (int i = 0; i < N; i++) {
    if (!__lane(m, First * N + i)) continue;
    const long product = (long)((ulong)(long)x[First * N + i] * (ulong)(long)y[First * N + i]);
    if constexpr (sizeof(__e<X>) == 4) {
      out[2 * i] = (__e<R>)product;
      out[2 * i + 1] = (__e<R>)(product >> 32);
    } else {
      out[i] = (__e<R>)product;
    }
  }
  return out;
}
template <class R, class X, class Y, class M>
__inl R __vmull(R r, X x, Y y, M m) {
  return __widening_mul<0>(r, x, y, m);
}
template <class R, class X, class Y, class M>
__inl R __vmulh(R r, X x, Y y, M m) {
  return __widening_mul<1>(r, x, y, m);
}

// Positions have 64 bits but are rarely that large, and CPUs take several times as long to divide by 64 bits as by 32.
template <class T>
__inl bool __is_short_division(T a, T b) {
  if constexpr (sizeof(T) == 8)
    return (((ulong)a | (ulong)b) >> 32) == 0 && b != 0;
  else
    return false;
}
template <class T>
__inl T __div(T a, T b) {
  if constexpr (__is_float<T>::value)
    return (T)(a / b);
  else {
    if (__is_short_division(a, b)) return (T)((uint)a / (uint)b);
    const bool overflow = __signed_elem<T>::value && a == __limits<T>::min && b == (T)-1;
    const T safe = b == 0 || overflow ? (T)1 : b;
    return b == 0 ? (T)0 : overflow ? __limits<T>::max : (T)(a / safe);
  }
}
template <class T>
__inl T __mod(T a, T b) {
  if (__is_short_division(a, b)) return (T)((uint)a % (uint)b);
  const bool zero = b == 0 || (__signed_elem<T>::value && b == (T)-1);
  const T safe = zero ? (T)1 : b;
  return zero ? (T)0 : (T)(a % safe);
}
template <class V, class M>
__inl V __vdiv(V r, V x, V y, M m) {
  if constexpr (__is_float<__e<V>>::value)
    return __select(m, x / y, r);
  else
    return __select(m, __map<V>([](__e<V> a, __e<V> b) { return __div<__e<V>>(a, b); }, x, y), r);
}
template <class V, class M>
__inl V __vmod(V r, V x, V y, M m) {
  return __select(m, __map<V>([](__e<V> a, __e<V> b) { return __mod<__e<V>>(a, b); }, x, y), r);
}

template <class T>
__inl T __abs(T x) {
  if constexpr (__is_float<T>::value)
    return __bits<T>((__unsigned_of<T>)(__bits<__unsigned_of<T>>(x) & (__unsigned_of<T>)__limits<__signed_of<T>>::max));
  else if constexpr (__signed_elem<T>::value)
    return x < 0 ? (T)(0 - (__unsigned_of<T>)x) : x;
  else
    return x;
}
template <class V, class M>
__inl V __vabs(V r, V x, M m) {
  typedef __e<V> E;
  if constexpr (__is_float<E>::value) {
    typedef typename __plain<__signed_of<E>, __LANES(V)>::type I;
    return __select(m, __bits<V>(__bits<I>(x) & (__limits<__signed_of<E>>::max - I{})), r);
  } else if constexpr (__signed_elem<E>::value) {
    return __select(m, (V)(x < 0 ? -x : x), r);
  } else {
    return __select(m, x, r);
  }
}
template <class V, class M>
__inl V __vabss(V r, V x, M m) {
  typedef __e<V> E;
  return __select(
      m,
      __map<V>([](E a) { return a == __limits<E>::min && __signed_elem<E>::value ? __limits<E>::max : __abs<E>(a); },
               x),
      r);
}

template <class T>
__inl T ceildiv(T x, T y) {
  return __div<T>((T)(x + y - 1), y);
}

// ---- compare: masks; inactive lanes are off ----

template <class V>
__inl auto __comparable(V x) {
  if constexpr (__is16f<__e<V>>::value)
    return __widen(x);
  else
    return x;
}
#define __AIPU_COMPARE(name, op)                                    \
  template <class V, class M>                                       \
  __inl auto __v##name(V x, V y, M m) {                             \
    return __and(m, __mask_of(__comparable(x) op __comparable(y))); \
  }                                                                 \
  template <class V, class M>                                       \
  __inl auto __vq##name(V x, V y, M m) {                            \
    return __v##name(x, y, m);                                      \
  }
__AIPU_COMPARE(eq, ==)
__AIPU_COMPARE(ne, !=)
__AIPU_COMPARE(ge, >=)
__AIPU_COMPARE(gt, >)
__AIPU_COMPARE(le, <=)
__AIPU_COMPARE(lt, <)
#undef __AIPU_COMPARE
#define __vceq __veq
#define __vcneq __vne
#define __vcge __vge
#define __vcgt __vgt
#define __vcle __vle
#define __vclt __vlt

// ---- fused multiply-add: x * y + acc, rounded once ----

#ifndef AIPU_CPU_FMA
// The product of two floats is exact in double; the sum is rounded to odd there, so that rounding to float afterwards
// rounds as once.
__inl float __fma_float(float x, float y, float acc) {
  const double p = (double)x * (double)y, c = (double)acc;
  const double s = p + c;
  const double t = s - p;
  const double error = (p - (s - t)) + (c - t);
  const long bits = __bits<long>(s);
  // The error is NaN where s is infinite or NaN; then nothing is adjusted.
  const bool adjust = (error > 0 || error < 0) && (bits & 1) == 0;
  const bool away = (error > 0) == (s > 0);
  const double odd = __bits<double>(adjust ? bits + (away ? 1 : -1) : bits);
  return (float)odd;
}
#if defined(__SSE2__)
#define __AIPU_FMA_BY_DOUBLES
// The same for four lanes. Rounded twice a sum is another one only where the first result lies halfway between two
// floats or where floats have fewer bits: then it is rounded to odd.
typedef __v<double, 2> __fma_doubles;
#ifdef __clang__
__inl __v<float, 4> __fma_floats_of(__fma_doubles low, __fma_doubles high) {
  typedef __v<float, 2> F;
  return __builtin_shufflevector(__builtin_convertvector(low, F), __builtin_convertvector(high, F), 0, 1, 2, 3);
}
__inl __fma_doubles __fma_lower(__v<float, 4> x) {
  return __builtin_convertvector(__builtin_shufflevector(x, x, 0, 1), __fma_doubles);
}
__inl __fma_doubles __fma_upper(__v<float, 4> x) {
  return __builtin_convertvector(__builtin_shufflevector(x, x, 2, 3), __fma_doubles);
}
#else
__inl __v<float, 4> __fma_floats_of(__fma_doubles low, __fma_doubles high) {
  return __builtin_ia32_movlhps(__builtin_ia32_cvtpd2ps(low), __builtin_ia32_cvtpd2ps(high));
}
__inl __fma_doubles __fma_lower(__v<float, 4> x) { return __builtin_ia32_cvtps2pd(x); }
__inl __fma_doubles __fma_upper(__v<float, 4> x) { return __builtin_ia32_cvtps2pd(__builtin_ia32_movhlps(x, x)); }
#endif
__inl __fma_doubles __fma_to_odd(__fma_doubles p, __fma_doubles c) {
  typedef __v<long, 2> L;
  const __fma_doubles s = p + c;
  const __fma_doubles t = s - p;
  const __fma_doubles error = (p - (s - t)) + (c - t);
  const L up = error > 0, inexact = up | (error < 0), too_far = (up ^ (s > 0)) & inexact;
  return (__fma_doubles)(((L)s + too_far) | (inexact & 1));
}
__attribute__((noinline, cold)) inline __v<float, 4> __fma_halfway(__fma_doubles p0, __fma_doubles p1, __fma_doubles c0,
                                                                   __fma_doubles c1) {
  return __fma_floats_of(__fma_to_odd(p0, c0), __fma_to_odd(p1, c1));
}
__inl __v<float, 4> __fma_float4(__v<float, 4> x, __v<float, 4> y, __v<float, 4> acc) {
  typedef __v<int, 4> I;
  const __fma_doubles p0 = __fma_lower(x) * __fma_lower(y), c0 = __fma_lower(acc);
  const __fma_doubles p1 = __fma_upper(x) * __fma_upper(y), c1 = __fma_upper(acc);
  const __fma_doubles s0 = p0 + c0, s1 = p1 + c1;
  const __v<float, 4> sum = __fma_floats_of(s0, s1);
  const I low_words = (I)__builtin_ia32_shufps((__v<float, 4>)s0, (__v<float, 4>)s1, 0x88);
  const I high_words = (I)__builtin_ia32_shufps((__v<float, 4>)s0, (__v<float, 4>)s1, 0xdd);
  const I halfway = (low_words & 0x1fffffff) == 0x10000000;
  const I short_of_bits = (((I)sum & 0x7fffffff) <= 0x00800000) & ((low_words | (high_words & 0x7fffffff)) != 0);
  if (__builtin_expect(__builtin_ia32_movmskps((__v<float, 4>)(halfway | short_of_bits)), 0))
    return __fma_halfway(p0, p1, c0, c1);
  return sum;
}
#endif
#endif
__inl float fma(float x, float y, float acc) {
#ifdef AIPU_CPU_FMA
  return __builtin_fmaf(x, y, acc);
#else
  return __fma_float(x, y, acc);
#endif
}
__inl double fma(double x, double y, double acc) { return __builtin_fma(x, y, acc); }
__inl half fma(half x, half y, half acc) { return (half)fma((float)x, (float)y, (float)acc); }
template <class V>
__inl V __fused(V x, V y, V acc) {
  typedef __e<V> E;
  if constexpr (__is16f<E>::value)
    return __narrow<E, __LANES(V)>(__fused(__widen(x), __widen(y), __widen(acc)));
  else {
    constexpr bool f32 = __same<E, float>::value;
#if defined(__ARM_FEATURE_FMA) && !defined(__clang__)
    if constexpr (sizeof(V) == 16 && f32)
      return (V)__builtin_aarch64_fmav4sf(x, y, acc);
    else if constexpr (sizeof(V) == 16)
      return (V)__builtin_aarch64_fmav2df(x, y, acc);
    else
#endif
#ifdef __FMA__
#ifdef __AVX512F__
        if constexpr (sizeof(V) == 64 && f32)
      return (V)__builtin_ia32_vfmaddps512_mask(x, y, acc, -1, 4);
    else if constexpr (sizeof(V) == 64)
      return (V)__builtin_ia32_vfmaddpd512_mask(x, y, acc, -1, 4);
    else
#endif
        if constexpr (sizeof(V) == 32 && f32)
      return (V)__builtin_ia32_vfmaddps256(x, y, acc);
    else if constexpr (sizeof(V) == 32)
      return (V)__builtin_ia32_vfmaddpd256(x, y, acc);
    else if constexpr (sizeof(V) == 16 && f32)
      return (V)__builtin_ia32_vfmaddps(x, y, acc);
    else if constexpr (sizeof(V) == 16)
      return (V)__builtin_ia32_vfmaddpd(x, y, acc);
    else
#endif
#ifdef __AIPU_FMA_BY_DOUBLES
        if constexpr (f32 && sizeof(V) % 16 == 0) {
      __v<float, 4> a[sizeof(V) / 16], b[sizeof(V) / 16], c[sizeof(V) / 16];
      __builtin_memcpy(a, &x, sizeof(a));
      __builtin_memcpy(b, &y, sizeof(b));
      __builtin_memcpy(c, &acc, sizeof(c));
      for (unsigned i = 0; i < sizeof(V) / 16; i++) c[i] = __fma_float4(a[i], b[i], c[i]);
      return __bits<V>(c);
    } else
#endif
    {
      E a[__LANES(V)], b[__LANES(V)], c[__LANES(V)];
      __builtin_memcpy(a, &x, sizeof(a));
      __builtin_memcpy(b, &y, sizeof(b));
      __builtin_memcpy(c, &acc, sizeof(c));
      for (int i = 0; i < __LANES(V); i++) c[i] = fma(a[i], b[i], c[i]);
      return __bits<V>(c);
    }
  }
}
template <class V, class M>
__inl V __vfma(V acc, V x, V y, M m) {
  return __select(m, __fused(x, y, acc), acc);
}
