// Bitwise intrinsics, of masks too, and shifts. `r` gives the lanes whose mask bit is off.

template <class V, class M>
__inl V __vand(V r, V x, V y, M m) {
  return __select(m, x & y, r);
}
template <class V, class M>
__inl V __vor(V r, V x, V y, M m) {
  return __select(m, x | y, r);
}
template <class V, class M>
__inl V __vxor(V r, V x, V y, M m) {
  return __select(m, x ^ y, r);
}
template <class V, class M>
__inl V __vinv(V r, V x, M m) {
  return __select(m, ~x, r);
}
// Masks: inactive lanes are off.
template <class K, class M>
__inl K __vand(K x, K y, M m) {
  return __and(m, x & y);
}
template <class K, class M>
__inl K __vor(K x, K y, M m) {
  return __and(m, x | y);
}
template <class K, class M>
__inl K __vxor(K x, K y, M m) {
  return __and(m, x ^ y);
}
template <class K, class M>
__inl K __vinv(K x, M m) {
  return __and(m, ~x);
}

template <class K>
__inl bool __vorr(K k) {
  ulong words[(sizeof(K) + 7) / 8] = {};
  __builtin_memcpy(words, &k, sizeof(K));
  ulong any = 0;
  for (ulong word : words) any |= word;
  return any != 0;
}
template <class K>
__inl bool __vandr(K k) {
  return !__vorr(~k);
}

// Counts are unsigned; a count of the element's bits or more gives 0 (or -1 for a negative signed value shifted right).
template <class T>
struct __bits_of {
  static constexpr __unsigned_of<T> value = sizeof(T) * 8;
};
template <class V>
__inl auto __counts(V s) {
  typedef typename __plain<__unsigned_of<__e<V>>, __LANES(V)>::type U;
  return (U)s;
}
template <class V, class S>
__inl V __vlsl_all(V x, S shift) {
  typedef __unsigned_of<__e<V>> U;
  typedef typename __plain<U, __LANES(V)>::type UV;
  return __bits<V>(__map<UV>(
      [](U a, U s) { return (U)(s < sizeof(U) * 8 ? (U)(a << (s & (sizeof(U) * 8 - 1))) : (U)0); }, (UV)x, (UV)shift));
}
template <class V, class S>
__inl V __vsr_all(V x, S shift) {
  typedef __e<V> E;
  typedef __unsigned_of<E> U;
  typedef typename __plain<U, __LANES(V)>::type UV;
  constexpr U B = sizeof(U) * 8;
  if constexpr (__signed_elem<E>::value) {
    return __map<V>([](E a, U s) { return (E)(a >> (s < B ? s : (U)(B - 1))); }, x, (UV)shift);
  } else {
    return __map<V>([](E a, U s) { return (E)(s < B ? (E)(a >> (s & (B - 1))) : (E)0); }, x, (UV)shift);
  }
}
// The exact quotient rounded to nearest, ties to even; W is wider than the element.
template <class W>
__inl W __round_shift(W a, ulong s, ulong bits) {
  if (s == 0) return a;
  if (s > bits) return 0;
  const W floor = a >> s;
  const W rest = a - (W)(floor << s), half = (W)1 << (s - 1);
  return floor + (W)(rest > half || (rest == half && (floor & 1)));
}
template <class V, class S>
__inl V __vsrr_all(V x, S shift) {
  typedef __e<V> E;
  typedef __unsigned_of<E> U;
  typedef typename __plain<U, __LANES(V)>::type UV;
  typedef __wide<E> W;
  return __map<V>([](E a, U s) { return (E)__round_shift<W>((W)a, (ulong)s, sizeof(E) * 8); }, x, (UV)shift);
}
template <class V, class S>
__inl V __vsasl_all(V x, S shift) {
  typedef __e<V> E;
  typedef __unsigned_of<E> U;
  typedef typename __plain<U, __LANES(V)>::type UV;
  typedef __wide<E> W;
  constexpr U B = sizeof(U) * 8;
  return __map<V>(
      [](E a, U s) {
        const U count = s < B ? s : B;
        const W wide = (W)((typename __if<sizeof(W) == 16, unsigned __int128, ulong>::type)(W)a << count);
        return a == 0 ? (E)0 : __clamp_to<E>(wide);
      },
      x, (UV)shift);
}
#define __AIPU_SHIFT(name, all)           \
  template <class V, class S>             \
  __inl V name(V x, S shift) {            \
    return all(x, shift);                 \
  }                                       \
  template <class V, class S, class M>    \
  __inl V name(V r, V x, S shift, M m) {  \
    return __select(m, all(x, shift), r); \
  }
__AIPU_SHIFT(__vlsl, __vlsl_all)
__AIPU_SHIFT(__vasr, __vsr_all)
__AIPU_SHIFT(__vlsr, __vsr_all)
__AIPU_SHIFT(__vasrr, __vsrr_all)
__AIPU_SHIFT(__vlsrr, __vsrr_all)
__AIPU_SHIFT(__vsasl, __vsasl_all)
#undef __AIPU_SHIFT
template <class V, class S>
__inl V __vror(V x, S shift) {
  typedef __unsigned_of<__e<V>> U;
  typedef typename __plain<U, __LANES(V)>::type UV;
  constexpr U B = sizeof(U) * 8;
  return __bits<V>(__map<UV>([](U a, U s) { return (U)((U)(a >> (s & (B - 1))) | (U)(a << ((B - s) & (B - 1)))); },
                             (UV)x, (UV)shift));
}
template <class V, class S, class M>
__inl V __vror(V r, V x, S shift, M m) {
  return __select(m, __vror(x, shift), r);
}

// Narrowing shift: lane i of x lands in lane i * k of R, the other lanes are 0.
template <class R, bool Saturate, bool Round, class V, class S, class M>
__inl R __vnsr(V x, S shift, M m) {
  typedef __e<V> E;
  typedef __e<R> T;
  typedef __unsigned_of<E> U;
  typedef __wide<E> W;
  constexpr int k = sizeof(E) / sizeof(T);
  constexpr U B = sizeof(U) * 8;
  if constexpr (!Round && __is_vector<V>::value) {
    typedef __v<U, __LANES(V)> Counts;
    const Counts counts = (Counts)shift;
    V q;
    if constexpr (__signed_elem<E>::value)
      q = x >> (V)__integer_min(counts, __splat<Counts>((U)(B - 1)));
    else
      q = __select(__mask_of(counts < B), x >> (V)(counts & (U)(B - 1)), V{});
    if constexpr (Saturate) {
      if constexpr (__signed_elem<E>::value) q = __integer_max(q, __splat<V>((E)__limits<T>::min));
      q = __integer_min(q, __splat<V>((E)__limits<T>::max));
    }
    return __bits<R>(__select(m, (V)(q & (E)(__unsigned_of<T>)-1), V{}));
  }
  R out = R{};
  for (int i = 0; i < __LANES(V); i++) {
    if (!__lane(m, i)) continue;
    const E a = x[i];
    const U s = (U)shift[i];
    W q;
    if constexpr (Round)
      q = __round_shift<W>((W)a, (ulong)s, B);
    else
      q = (W)a >> (s < B ? s : B);
    out[i * k] = Saturate ? __clamp_to<T>(q) : (T)q;
  }
  return out;
}

template <class T>
__inl T __clz_of(T x) {
  const ulong u = (ulong)(__unsigned_of<T>)x;
  return (T)(u == 0 ? (int)sizeof(T) * 8 : (int)__builtin_clzl(u) - (64 - (int)sizeof(T) * 8));
}
template <class T>
__inl T __clz(T x) {
  return __clz_of<T>(x);
}
template <class R, class V, class M>
__inl R __vclz(R r, V x, M m) {
  return __select(m, __map<R>([](__e<V> a) { return (__e<R>)__clz_of(a); }, x), r);
}
template <class R, class V, class M>
__inl R __vcls(R r, V x, M m) {
  return __select(
      m, __map<R>([](__e<V> a) { return (__e<R>)(__clz_of((__unsigned_of<__e<V>>)(a < 0 ? ~a : a)) - 1); }, x), r);
}
template <class R, class V, class M>
__inl R __vpcnt(R r, V x, M m) {
  return __select(m, __map<R>([](__e<V> a) { return (__e<R>)__builtin_popcountl((ulong)(__unsigned_of<__e<V>>)a); }, x),
                  r);
}
template <class V, class M>
__inl V __vbrevs(V r, V x, M m) {
  typedef __e<V> E;
  return __select(m,
                  __map<V>(
                      [](E a) {
                        ulong in = (ulong)(__unsigned_of<E>)a, out = 0;
                        for (int i = 0; i < (int)sizeof(E) * 8; i++, in >>= 1) out = (out << 1) | (in & 1);
                        return (E)out;
                      },
                      x),
                  r);
}
