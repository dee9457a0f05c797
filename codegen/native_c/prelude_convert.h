// Conversions and permutations.

// ---- value conversion (intrinsics.md 7.1): integers wrap; NaN becomes 0 and floats are truncated toward zero after
// clamping to int32 (to int64 for 64-bit integers), then wrapped; 16-bit floats go through float ----

template <class T>
struct __range {
  static constexpr bool wide = sizeof(T) == 8;
  typedef typename __if<wide, long, int>::type I;
};

template <class R, class X>
__inl R __float_to_int(X x) {  // scalars: float or double
  typedef typename __range<R>::I I;
  constexpr X least = (X)__limits<I>::min, above = -least;
  const X inside = x >= least && x < above ? x : (X)0;
  const I truncated = (I)inside;
  return (R)(x >= above ? __limits<I>::max : x < least ? __limits<I>::min : truncated);
}

// Bytes to words and back: gcc 12 goes lane by lane where these go through 16 bits or take the one instruction there
// is, and back where the words are the bits of floats.
template <class R, class X>
__inl R __widen_bytes(X x) {
  constexpr int N = __LANES(R);
  constexpr bool is_signed = __signed_elem<__e<X>>::value;
#if defined(__AVX512F__) && !defined(__clang__)
  if constexpr (N == 16) {
    typedef signed char B __attribute__((vector_size(16)));
    typedef char C __attribute__((vector_size(16)));
    typedef __v<int, 16> I;
    if constexpr (is_signed)
      return (R)__builtin_ia32_pmovsxbd512_mask((C)__bits<B>(x), I{}, (unsigned short)-1);
    else
      return (R)__builtin_ia32_pmovzxbd512_mask((C)__bits<B>(x), I{}, (unsigned short)-1);
  } else
#endif
#if defined(__AVX2__) && !defined(__clang__)
      if constexpr (N == 8) {
    typedef char C __attribute__((vector_size(16)));
    typedef long L __attribute__((vector_size(16)));
    const C bytes = (C)(L){__bits<long>(x), 0};
    if constexpr (is_signed)
      return (R)__builtin_ia32_pmovsxbd256(bytes);
    else
      return (R)__builtin_ia32_pmovzxbd256(bytes);
  } else
#endif
#ifdef __SSE4_1__
    return __builtin_convertvector(x, R);
#else
  return __builtin_convertvector(__builtin_convertvector(x, __v<typename __if<is_signed, short, ushort>::type, N>), R);
#endif
}

// Bytes as elements of 16 bits; gcc 12 takes two halves of a wide vector.
template <class R, class X>
__inl R __widen_bytes_once(X x) {
#if defined(__AVX512BW__) && !defined(__clang__)
  if constexpr (sizeof(R) == 64) {
    typedef char C __attribute__((vector_size(32)));
    typedef short S __attribute__((vector_size(64)));
    if constexpr (__signed_elem<__e<X>>::value)
      return (R)__builtin_ia32_pmovsxbw512_mask((C)x, S{}, (unsigned)-1);
    else
      return (R)__builtin_ia32_pmovzxbw512_mask((C)x, S{}, (unsigned)-1);
  } else
#endif
    return __builtin_convertvector(x, R);
}

// The low bytes of words.
template <class R, class X>
__inl R __narrow_words(X x) {
  constexpr int N = __LANES(R);
#if defined(__AVX512F__) && !defined(__clang__)
  if constexpr (N == 16) {
    typedef char C __attribute__((vector_size(16)));
    return __bits<R>(__builtin_ia32_pmovdb512_mask((__v<int, 16>)x, C{}, (unsigned short)-1));
  } else
#endif
#if defined(__AVX2__) && !defined(__clang__)
      if constexpr (N == 8) {
    typedef int I __attribute__((vector_size(16)));
    typedef short S __attribute__((vector_size(16)));
    typedef long L __attribute__((vector_size(16)));
    typedef long long Q __attribute__((vector_size(32)));
    const Q low = (Q)(x & 255);
    const S halves = (S)__builtin_ia32_packusdw128((I)__builtin_ia32_extract128i256(low, 0),
                                                   (I)__builtin_ia32_extract128i256(low, 1));
    return __bits<R>(((L)__builtin_ia32_packuswb128(halves, halves))[0]);
  } else
#endif
#ifdef __AVX512F__
    return __builtin_convertvector(x, R);
#else
  return __builtin_convertvector(__builtin_convertvector(x, __v<short, N>), R);
#endif
}

template <class R, class X>
__inl R __convert(X x) {
  typedef __e<R> T;
  typedef __e<X> E;
  constexpr int N = __LANES(R);
  if constexpr (__same<R, X>::value) {
    return x;
  } else if constexpr (N == 1) {
    if constexpr (__same<R, bool>::value) {
      return (bool)(x != 0);
    } else if constexpr (__is_float<E>::value && !__is_float<T>::value) {
      if constexpr (__is16f<E>::value)
        return __float_to_int<R>((float)x);
      else
        return __float_to_int<R>(x);
    } else {
      return (R)x;
    }
  } else if constexpr (__is16f<E>::value) {
    return __convert<R>(__widen(x));
  } else if constexpr (__is16f<T>::value) {
    return __narrow<T, N>(__convert<__v<float, N>>(x));
  } else if constexpr (__is_float<E>::value && !__is_float<T>::value) {
    typedef typename __range<T>::I I;
    typedef __v<I, N> IV;
    constexpr E least = (E)__limits<I>::min, above = -least;
    const auto low = __mask_of(x < least), high = __mask_of(x >= above);
    const X inside = __select(__mask_of((x >= least) & (x < above)), x, X{});
    IV out = __builtin_convertvector(inside, IV);
    out = __select(high, __splat<IV>(__limits<I>::max), __select(low, __splat<IV>(__limits<I>::min), out));
    return __convert<R>(out);
  } else if constexpr (__is_float<T>::value && sizeof(E) == 1) {
    return __builtin_convertvector((__convert<__v<int, N>>(x)), R);
  } else if constexpr (!__is_float<E>::value && !__is_float<T>::value && sizeof(T) == 4 && sizeof(E) == 1) {
    return __widen_bytes<R>(x);
  } else if constexpr (!__is_float<E>::value && !__is_float<T>::value && sizeof(T) == 2 && sizeof(E) == 1) {
    return __widen_bytes_once<R>(x);
  } else if constexpr (!__is_float<E>::value && !__is_float<T>::value && sizeof(T) == 1 && sizeof(E) == 4) {
    return __narrow_words<R>(x);
  } else {
    return __builtin_convertvector(x, R);
  }
}
// Masks to values, 1 and 0, and back.
template <class R, class K>
__inl R __mask_to(K k) {
  typedef __v<__signed_of<__e<R>>, __LANES(R)> I;
  return __convert<R>(__mask_for<(int)sizeof(__e<R>)>(k) & (1 + I{}));
}
template <class X>
__inl auto __to_mask(X x) {
  return __vne(x, __splat<X>(0), ALL_TRUE);
}

// Saturating integer conversion.
template <class R, class X>
__inl R __convert_sat(X x) {
  typedef __e<X> E;
  typedef __e<R> T;
#ifdef __AVX512BW__
  if constexpr (__same<E, int>::value && sizeof(X) == 64 && sizeof(T) == 1) {
    typedef char C __attribute__((vector_size(16)));
    typedef __v<int, 16> I;
    const unsigned short all = -1;
    if constexpr (__signed_elem<T>::value)
      return __bits<R>(__builtin_ia32_pmovsdb512_mask((I)x, C{}, all));
    else
      return __bits<R>(__builtin_ia32_pmovusdb512_mask((I)(x > 0 ? x : X{}), C{}, all));
  }
#endif
  typedef __wide<typename __if<(sizeof(T) > sizeof(E)), T, E>::type> W;
  return __map<R>([](E a) { return __clamp_to<T>((W)a); }, x);
}

// ---- constant shuffles ----

template <int... I>
struct __seq {};
#ifdef __clang__
template <class T, T... I>
struct __int_seq {
  typedef __seq<I...> type;
};
template <int N>
using __lanes_to = typename __make_integer_seq<__int_seq, int, N>::type;
#else
template <int N>
struct __lanes_of {
  typedef __seq<__integer_pack(N)...> type;
};
template <int N>
using __lanes_to = typename __lanes_of<N>::type;
#endif

// Lane i of the result is lane Ix::at(i) of a ++ b.
template <class Ix, class V, int... I>
__inl auto __shuffle_lanes(V a, V b, __seq<I...>) {
  return __builtin_shufflevector(a, b, Ix::at(I)...);
}
template <class Ix, int M, class V>
__inl auto __shuffle(V a, V b) {
  if constexpr (__is16f<__e<V>>::value)
    return __soft<__e<V>, M>{__shuffle_lanes<Ix>(a.bits, b.bits, __lanes_to<M>())};
  else
    return __shuffle_lanes<Ix>(a, b, __lanes_to<M>());
}
template <int Stride, int First>
struct __take {
  static constexpr int at(int i) { return First + i * Stride; }
};
template <int N>
struct __reversed {
  static constexpr int at(int i) { return N - 1 - i; }
};
template <int N>
struct __interleave {
  static constexpr int at(int i) { return i / 2 + (i & 1) * N; }
};
// Lanes a, a+s, ... of a ++ b, interleaved.
template <int N, int First, int Stride>
struct __zip {
  static constexpr int at(int i) { return First + (i / 2) * Stride + (i & 1) * N; }
};
// A part of each of two vectors, concatenated.
template <int N, int First, int Stride>
struct __part {
  static constexpr int at(int i) { return First + (i % (N / 2)) * Stride + (i / (N / 2)) * N; }
};

template <class V>
__inl auto __concat(V a, V b) {
  return __shuffle<__take<1, 0>, 2 * __LANES(V)>(a, b);
}
template <class V>
__inl V __vextl(V a, V b) {
  return __shuffle<__part<__LANES(V), 0, 1>, __LANES(V)>(a, b);
}
template <class V>
__inl V __vexth(V a, V b) {
  return __shuffle<__part<__LANES(V), __LANES(V) / 2, 1>, __LANES(V)>(a, b);
}
template <class V>
__inl V __vexte(V a, V b) {
  return __shuffle<__part<__LANES(V), 0, 2>, __LANES(V)>(a, b);
}
template <class V>
__inl V __vexto(V a, V b) {
  return __shuffle<__part<__LANES(V), 1, 2>, __LANES(V)>(a, b);
}
template <class V>
__inl auto __vzip(V a, V b) {
  return __shuffle<__zip<__LANES(V), 0, 1>, 2 * __LANES(V)>(a, b);
}
template <class V>
__inl V __vzipl(V a, V b) {
  return __shuffle<__zip<__LANES(V), 0, 1>, __LANES(V)>(a, b);
}
template <class V>
__inl V __vziph(V a, V b) {
  return __shuffle<__zip<__LANES(V), __LANES(V) / 2, 1>, __LANES(V)>(a, b);
}
template <class V>
__inl V __vzipe(V a, V b) {
  return __shuffle<__zip<__LANES(V), 0, 2>, __LANES(V)>(a, b);
}
template <class V>
__inl V __vzipo(V a, V b) {
  return __shuffle<__zip<__LANES(V), 1, 2>, __LANES(V)>(a, b);
}
template <class V>
__inl V __vrevs(V a) {
  return __shuffle<__reversed<__LANES(V)>, __LANES(V)>(a, a);
}
#define __vprevs __vrevs
// N lanes of x from a constant first lane, with a stride.
template <int M, int First, int Stride, class V>
__inl auto __lanes_from(V x) {
  return __shuffle<__take<Stride, First>, M>(x, x);
}
template <int Shift, class V>
__inl V __rotate(V x) {
  return __shuffle<__take<1, Shift>, __LANES(V)>(x, x);
}
template <int Shift, class V>
__inl V __vsldl_const(V a, V b) {
  return __shuffle<__take<1, Shift>, __LANES(V)>(a, b);
}
// Of four vectors, which are narrowed to one.
template <class R, class X>
__inl R __convert_four_sat(X a, X b, X c, X d) {
#ifdef __AVX512BW__
  if constexpr (__same<__e<X>, int>::value && sizeof(X) == 64 && sizeof(__e<R>) == 1) {
    typedef __v<int, 16> I;
    typedef __v<short, 32> S;
    typedef char C __attribute__((vector_size(64)));
    // Each quarter of the bytes has a quarter of every vector.
    C bytes;
#ifdef __clang__
    const S low = __builtin_ia32_packssdw512((I)a, (I)b), high = __builtin_ia32_packssdw512((I)c, (I)d);
    if constexpr (__signed_elem<__e<R>>::value)
      bytes = (C)__builtin_ia32_packsswb512(low, high);
    else
      bytes = (C)__builtin_ia32_packuswb512(low, high);
#else
    const S low = __builtin_ia32_packssdw512_mask((I)a, (I)b, S{}, -1u),
            high = __builtin_ia32_packssdw512_mask((I)c, (I)d, S{}, -1u);
    if constexpr (__signed_elem<__e<R>>::value)
      bytes = __builtin_ia32_packsswb512_mask(low, high, C{}, -1ull);
    else
      bytes = __builtin_ia32_packuswb512_mask(low, high, C{}, -1ull);
#endif
    return __bits<R>(__builtin_shufflevector((I)bytes, (I)bytes, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  }
#endif
  return __convert_sat<R>(__concat(__concat(a, b), __concat(c, d)));
}
// Lanes 0 to N - 1 of R; the rest is 0.
template <class R, class V>
__inl R __fill(V x) {
  R out = __bits<R>((typename __plain<uchar, sizeof(R)>::type){});
  __builtin_memcpy(&out, &x, sizeof(V));
  return out;
}
// The mask versions: the element size of a mask depends on its lanes.
template <class K>
__inl auto __mask_concat(K a, K b) {
  return __mask_of(__concat(a, b));
}
template <class K>
__inl auto __mask_zip(K a, K b) {
  return __mask_of(__vzip(a, b));
}

// ---- run-time permutations ----

template <class V, class K>
__inl V __vsel(V x, V y, K m) {
  return __select(m, x, y);
}
template <class K>
__inl K __psel(K x, K y, K m) {
  return (x & m) | (y & ~m);
}

template <class V>
__inl V __from_lanes(const __e<V>* lanes) {
  V out;
  __builtin_memcpy(&out, lanes, sizeof(V));
  return out;
}
template <class V>
__inl V __vshfl(V x, int shift) {
  constexpr int N = __LANES(V);
  __e<V> twice[2 * N];
  __builtin_memcpy(twice, &x, sizeof(V));
  __builtin_memcpy(twice + N, &x, sizeof(V));
  return __from_lanes<V>(twice + ((uint)shift & (N - 1)));
}
template <class V>
__inl V __vreplic(V x, int index) {
#if defined(__aarch64__) && !defined(__clang__)
  // As a shuffle, which is a part of the product that uses it; lanes taken by themselves are loaded by themselves.
  if constexpr (sizeof(V) == 16 && !__is16f<__e<V>>::value) {
    typedef __v<typename __int_of<(int)sizeof(__e<V>)>::s, __LANES(V)> I;
    return __builtin_shuffle(x, (typename __int_of<(int)sizeof(__e<V>)>::s)index - I{});
  }
#endif
  return __splat<V>((__e<V>)((const V&)x)[(uint)index & (__LANES(V) - 1)]);
}
// Active lanes packed to the front.
template <class V, class M>
__inl V __vcompc(V x, V y, M m) {
  constexpr int N = __LANES(V);
  __e<V> out[2 * N];
  __e<V> in[N];
  __builtin_memcpy(in, &x, sizeof(V));
  int count = 0;
  for (int i = 0; i < N; i++) {
    out[count] = in[i];
    count += __lane(m, i) ? 1 : 0;
  }
  __builtin_memcpy(out + count, &y, sizeof(V));
  return __from_lanes<V>(out);
}
template <class V, class M>
__inl V __vcompt(V x, M m) {
  return __vcompc(x, V{}, m);
}
template <class V, class I, class... T>
__inl V __vtbl(I indices, V first, T... rest) {
  constexpr int N = __LANES(V), Count = 1 + (int)sizeof...(rest);
  const V tables[Count] = {first, rest...};
  __e<V> lanes[Count * N], out[N];
  __builtin_memcpy(lanes, tables, sizeof(lanes));
  for (int i = 0; i < N; i++) {
    const long index = (long)indices[i];
    out[i] = index >= 0 && index < Count * N ? lanes[index] : __bits<__e<V>>((__unsigned_of<__e<V>>)0);
  }
  return __from_lanes<V>(out);
}
#define __vperm(a, b, indices) __vtbl(indices, a, b)
template <class R, class T, class M>
__inl R __vbcast(R r, T x, M m) {
  return __select(m, __splat<R>(x), r);
}

// The even (First 0) or the odd lanes of both, in the order in which it costs least: quarters of the result in turns.
template <int N, int First>
struct __pairs_in_halves {
  static constexpr int at(int i) { return i / (N / 2) * (N / 2) + i / (N / 4) % 2 * N + 2 * (i % (N / 4)) + First; }
};
// The middle quarters change places.
template <int N>
struct __quarters_in_order {
  static constexpr int at(int i) { return i < N / 4 || i >= 3 * N / 4 ? i : i < N / 2 ? i + N / 4 : i - N / 4; }
};
template <class V, class F>
__inl V __of_pairs(V x, V y, F f) {
  constexpr int N = __LANES(V);
  if constexpr (sizeof(V) == 32 && sizeof(__e<V>) == 4) {
    const V z = f(__shuffle<__pairs_in_halves<N, 0>, N>(x, y), __shuffle<__pairs_in_halves<N, 1>, N>(x, y));
    return __shuffle<__quarters_in_order<N>, N>(z, z);
  } else {
    return f(__vexte(x, y), __vexto(x, y));
  }
}
// Pairwise: op(x0,x1), op(x2,x3), ..., op(y0,y1), ...; sums and differences saturate.
template <class V>
__inl V __vaddh(V x, V y) {
  return __of_pairs(x, y, [](V even, V odd) { return __vadds(V{}, even, odd, ALL_TRUE); });
}
template <class V>
__inl V __vsubh(V x, V y) {
  return __of_pairs(x, y, [](V even, V odd) { return __vsubs(V{}, even, odd, ALL_TRUE); });
}
template <class V>
__inl V __vmaxh(V x, V y) {
  return __max_lanes(__vexte(x, y), __vexto(x, y));
}
template <class V>
__inl V __vminh(V x, V y) {
  return __min_lanes(__vexte(x, y), __vexto(x, y));
}

// ---- reductions ----

// Sums and extrema of the active lanes, in lane 0; the other lanes are 0. The order is fixed: the upper half of the
// lanes joins the lower half until one is left.
template <class Op, class V>
__inl __e<V> __halving(Op op, V x) {
  constexpr int N = __LANES(V);
  if constexpr (N == 2)
    return op(x[0], x[1]);
  else
    return __halving(op, op(__lanes_from<N / 2, 0, 1>(x), __lanes_from<N / 2, N / 2, 1>(x)));
}
struct __add_op {
  template <class V>
  __attribute__((always_inline)) V operator()(V a, V b) const {
    return (V)(a + b);
  }
};
struct __max_op {
  template <class V>
  __attribute__((always_inline)) V operator()(V a, V b) const {
    if constexpr (__is_vector<V>::value)
      return __max_lanes(a, b);
    else
      return max(a, b);
  }
};
struct __min_op {
  template <class V>
  __attribute__((always_inline)) V operator()(V a, V b) const {
    if constexpr (__is_vector<V>::value)
      return __min_lanes(a, b);
    else
      return min(a, b);
  }
};
// 16-bit floats are computed in float.
template <class V>
__inl auto __computed(V x) {
  if constexpr (__is16f<__e<V>>::value)
    return __widen(x);
  else
    return x;
}
template <class R, class X, class M>
__inl R __vrpadd(R, X x, M m) {
  const auto lanes = __computed(x);
  R out = R{};
  out[0] = __halving(__add_op{}, __select(m, lanes, decltype(+lanes){}));
  return out;
}
template <class T>
__inl T __least() {
  if constexpr (__is_float<T>::value)
    return -(T)INFINITY;
  else
    return __limits<T>::min;
}
template <class T>
__inl T __greatest() {
  if constexpr (__is_float<T>::value)
    return (T)INFINITY;
  else
    return __limits<T>::max;
}
template <class V, class M, class Op, class C>
__inl V __extremum(V x, M m, Op op, C identity, bool with_index) {
  typedef __e<V> E;
  const auto lanes = __computed(x);
  typedef decltype(+lanes) L;
  const __e<L> best = __halving(op, __select(m, lanes, __splat<L>(identity)));
  V out = __splat<V>((E)0);
  out[0] = (E)best;
  if (with_index) {
    long index = 0;
    for (int i = __LANES(V) - 1; i >= 0; i--) index = __lane(m, i) && lanes[i] == best ? i : index;
    out[1] = __bits<E>((__unsigned_of<E>)index);
  }
  return out;
}
template <class V, class M>
__inl V __vrpmax(V, V x, M m) {
  return __extremum(x, m, __max_op{}, __least<__e<decltype(+__computed(x))>>(), false);
}
template <class V, class M>
__inl V __vrpmin(V, V x, M m) {
  return __extremum(x, m, __min_op{}, __greatest<__e<decltype(+__computed(x))>>(), false);
}
template <class V, class M>
__inl V __vrpmax_idx(V, V x, M m) {
  return __extremum(x, m, __max_op{}, __least<__e<decltype(+__computed(x))>>(), true);
}
template <class V, class M>
__inl V __vrpmin_idx(V, V x, M m) {
  return __extremum(x, m, __min_op{}, __greatest<__e<decltype(+__computed(x))>>(), true);
}
