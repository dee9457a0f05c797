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

// ---- dot products and reductions ----

template <int G, class A, class X, class Y, class M>
__inl A __dot_int(A acc, X x, Y y, M m) {
  typedef __e<A> E;
  A out = acc;
  for (int g = 0; g < __LANES(X) / G; g++) {
    __int128 sum = acc[g];
    for (int k = 0; k < G; k++) sum += __lane(m, g * G + k) ? (long)x[g * G + k] * (long)y[g * G + k] : 0;
    out[g] = __clamp_to<E>(sum);
  }
  return out;
}
// Four products per group, summed in double and rounded once; the result is in the even lanes.
template <class A, class X, class M>
__inl A __dot_float(A acc, X x, X y, M m) {
  A out = acc;
  for (int g = 0; g < __LANES(X) / 4; g++) {
    double sum = (double)acc[2 * g];
    for (int k = 4 * g; k < 4 * g + 4; k++) {
      if (__lane(m, k)) sum += (double)(float)((const X&)x)[k] * (double)(float)((const X&)y)[k];
    }
    out[2 * g] = (float)sum;
  }
  return out;
}
// Byte K of every group of four, as int lanes.
template <int K, class X>
__inl auto __byte_of(X x) {
  constexpr int N = __LANES(X) / 4;
  typedef __v<int, N> I;
  if constexpr (__signed_elem<__e<X>>::value)
    return (I)((I)(__bits<__v<uint, N>>(x) << (24 - 8 * K)) >> 24);
  else
    return (I)((__bits<__v<uint, N>>(x) >> (8 * K)) & 0xff);
}
// The sums of two 16-bit products, modulo 2^32.
template <class X>
__inl auto __pair_dot(X x, X y) {
  typedef __v<int, __LANES(X) / 2> I;
  typedef __v<uint, __LANES(X) / 2> U;
#ifdef __SSE2__
  if constexpr (sizeof(X) == 16)
    return (I)__builtin_ia32_pmaddwd128(x, y);
  else
#endif
#ifdef __AVX2__
      if constexpr (sizeof(X) == 32)
    return (I)__builtin_ia32_pmaddwd256(x, y);
  else
#endif
#ifdef __AVX512BW__
#ifdef __clang__
      if constexpr (sizeof(X) == 64)
    return (I)__builtin_ia32_pmaddwd512(x, y);
#else
      if constexpr (sizeof(X) == 64)
    return (I)__builtin_ia32_pmaddwd512_mask(x, y, I{}, (unsigned short)-1);
#endif
  else
#endif
  {
    const I a = __bits<I>(x), b = __bits<I>(y);
    return (I)((U)(((I)((U)a << 16) >> 16) * ((I)((U)b << 16) >> 16)) + (U)((a >> 16) * (b >> 16)));
  }
}
// The even or the odd bytes, as 16-bit lanes.
template <bool Odd, class X>
__inl auto __bytes_of_pairs(X x) {
  typedef __v<short, __LANES(X) / 2> S;
  typedef __v<ushort, __LANES(X) / 2> U;
  if constexpr (__signed_elem<__e<X>>::value)
    return Odd ? __bits<S>(x) >> 8 : (S)(__bits<U>(x) << 8) >> 8;
  else
    return (S)(Odd ? __bits<U>(x) >> 8 : __bits<U>(x) & 0xff);
}
// Of all lanes, into int: exact products, one saturation at the end.
template <class A, class X, class Y>
__inl A __quad_dot(A acc, X x, Y y) {
#ifdef __AVX512VNNI__
  if constexpr (sizeof(X) == 64 && __signed_elem<__e<X>>::value != __signed_elem<__e<Y>>::value) {
    typedef __v<int, 16> I;
    const I u = __signed_elem<__e<X>>::value ? __bits<I>(y) : __bits<I>(x),
            s = __signed_elem<__e<X>>::value ? __bits<I>(x) : __bits<I>(y);
#ifdef __clang__
    return (A)__builtin_ia32_vpdpbusds512(acc, u, s);
#else
    return (A)__builtin_ia32_vpdpbusds_v16si(acc, u, s);
#endif
  } else
#endif
#ifdef __ARM_FEATURE_DOTPROD
      if constexpr (sizeof(X) == 16 && __signed_elem<__e<X>>::value == __signed_elem<__e<Y>>::value) {
    __v<int, 4> dot = {};
    if constexpr (__signed_elem<__e<X>>::value)
      asm("sdot %0.4s, %1.16b, %2.16b" : "+w"(dot) : "w"(x), "w"(y));
    else
      asm("udot %0.4s, %1.16b, %2.16b" : "+w"(dot) : "w"(x), "w"(y));
    return (A)__add_saturated((__v<int, 4>)acc, dot);
  } else
#endif
#ifdef __SSE2__
      if constexpr (__is_vector<X>::value && sizeof(X) >= 16)
    return __add_saturated(acc, __pair_dot(__bytes_of_pairs<false>(x), __bytes_of_pairs<false>(y)) +
                                    __pair_dot(__bytes_of_pairs<true>(x), __bytes_of_pairs<true>(y)));
  else
#endif
    return __add_saturated(acc, __byte_of<0>(x) * __byte_of<0>(y) + __byte_of<1>(x) * __byte_of<1>(y) +
                                    __byte_of<2>(x) * __byte_of<2>(y) + __byte_of<3>(x) * __byte_of<3>(y));
}
// acc + the sums of two 16-bit products, all modulo 2^32.
template <class A, class X, class Y>
__inl A __pair_dot_wrapping(A acc, X x, Y y) {
  typedef __v<uint, __LANES(A)> U;
  return (A)((U)acc + (U)__pair_dot(x, y));
}
template <class A, class X, class Y, class M>
__inl A __vdpa(A acc, X x, Y y, M m) {
  return __dot_int<2>(acc, x, y, m);
}
template <class A, class X, class Y, class M>
__inl A __vdpa_wrap(A acc, X x, Y y, M m) {
  if constexpr (__same<__e<X>, short>::value && __same<__e<Y>, short>::value && __same<__e<A>, int>::value) {
    return __pair_dot_wrapping(acc, __select(m, x, X{}), y);
  } else {
    A out = acc;
    for (int g = 0; g < __LANES(A); g++) {
      ulong sum = (ulong)acc[g];
      for (int k = 2 * g; k < 2 * g + 2; k++) sum += __lane(m, k) ? (ulong)((long)x[k] * (long)y[k]) : 0;
      out[g] = (__e<A>)sum;
    }
    return out;
  }
}
template <class A, class X, class Y, class M>
__inl A __vqdpa(A acc, X x, Y y, M m) {
  if constexpr (__is16f<__e<X>>::value)
    return __dot_float(acc, x, y, m);
  else if constexpr (__same<__e<A>, int>::value)
    return __quad_dot(acc, __select(m, x, X{}), y);
  else
    return __dot_int<4>(acc, x, y, m);
}
// Pairs of bfloat16: the odd product first, then the even one, each added by a fused multiply-add; denormal operands
// and sums are 0.
__inl float __without_denormal(float x) {
  const uint bits = __bits<uint>(x);
  return (bits & 0x7f800000u) == 0 ? __bits<float>(bits & 0x80000000u) : x;
}
__inl float __fma_without_denormal(float x, float y, float sum) {
  const float result = fma(x, y, sum);
  const uint bits = __bits<uint>(result);
  if ((bits & 0x7fffffffu) > 0x00800000u) return result;
  // Tiny is what would be so if exponents had no end.
  const double exact = (double)x * (double)y + (double)sum, tiny = 0x1p-126 - 0x1p-151;
  return exact < tiny && exact > -tiny ? __bits<float>(bits & 0x80000000u) : result;
}
template <class A, class X>
__inl A __vdpbf16(A acc, X x, X y) {
#ifdef __AVX512BF16__
#if defined(__clang__) && __clang_major__ < 16
#define __AIPU_PAIRS(lanes) __v<int, lanes>
#define __AIPU_DOT(lanes, bits) __builtin_ia32_dpbf16ps_##bits
#elif defined(__clang__)
#define __AIPU_PAIRS(lanes) __attribute__((__vector_size__(4 * lanes))) __bf16
#define __AIPU_DOT(lanes, bits) __builtin_ia32_dpbf16ps_##bits
#elif __GNUC__ < 13
#define __AIPU_PAIRS(lanes) __v<short, 2 * lanes>
#define __AIPU_DOT(lanes, bits) __builtin_ia32_dpbf16ps_v##lanes##sf
#else
#define __AIPU_PAIRS(lanes) __attribute__((__vector_size__(4 * lanes))) __bf16
#define __AIPU_DOT(lanes, bits) __builtin_ia32_dpbf16ps_v##lanes##sf
#endif
#define __AIPU_VDPBF16(lanes, bits)                                     \
  if constexpr (sizeof(A) == 4 * lanes) {                               \
    typedef __AIPU_PAIRS(lanes) P;                                      \
    return (A)__AIPU_DOT(lanes, bits)(acc, __bits<P>(x), __bits<P>(y)); \
  }
  __AIPU_VDPBF16(16, 512)
  __AIPU_VDPBF16(8, 256)
  __AIPU_VDPBF16(4, 128)
#undef __AIPU_VDPBF16
#undef __AIPU_DOT
#undef __AIPU_PAIRS
#endif
  A out = acc;
  for (int i = 0; i < __LANES(A); i++) {
    float sum = __without_denormal(acc[i]);
    for (int k = 2 * i + 1; k >= 2 * i; k--)
      sum = __fma_without_denormal(__without_denormal((float)((const X&)x)[k]),
                                   __without_denormal((float)((const X&)y)[k]), sum);
    out[i] = sum;
  }
  return out;
}
// Both products are summed, and then with acc: cut off, with the last bit set where that loses something; denormal
// operands and sums are 0.
__inl float __add_to_odd(float x, float y) {
  const double a = __without_denormal(x), b = __without_denormal(y), sum = a + b;
  ulong bits = __bits<ulong>(sum);
  const ulong sign = bits & (1ul << 63), cut = (1ul << 29) - 1;
  if (((bits >> 52) & 0x7ff) == 0x7ff) return sum != sum ? __bits<float>(0x7fc00000u) : (float)sum;
  // What the sum has lost, after Knuth.
  const double part = sum - a, lost = (a - (sum - part)) + (b - part);
  if (lost != 0 && (bits & 1) == 0) bits += (lost > 0) == (sum > 0) ? 1ul : -1ul;
  const double odd = __bits<double>((bits & ~sign & ~cut) | ((bits & cut) != 0 ? cut + 1 : 0));
  const uint half = odd < 0x1p-126 ? 0 : odd >= 0x1p128 ? 0x7f800000u : __bits<uint>((float)odd);
  return __bits<float>(half | (uint)(sign >> 32));
}
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
template <class A, class X>
__inl A __bfdot(A acc, X x, X y, int lane) {
#define __AIPU_BFDOT(j)                                                              \
  case j:                                                                            \
    asm("bfdot %0.4s, %1.8h, %2.2h[" #j "]" : "+w"(acc) : "w"(x.bits), "w"(y.bits)); \
    break;
  switch (lane) {
    __AIPU_BFDOT(0)
    __AIPU_BFDOT(1)
    __AIPU_BFDOT(2)
    __AIPU_BFDOT(3)
    default:
      asm("bfdot %0.4s, %1.8h, %2.8h" : "+w"(acc) : "w"(x.bits), "w"(y.bits));
  }
#undef __AIPU_BFDOT
  return acc;
}
#endif
template <class A, class X>
__inl A __vbfdot(A acc, X x, X y, int lane) {
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
  if constexpr (sizeof(A) == 16) return __bfdot(acc, x, y, lane);
#endif
  A out = acc;
  for (int i = 0; i < __LANES(A); i++) {
    const int j = lane < 0 ? i : i / 4 * 4 + lane;
    const float even =
                    __without_denormal((float)((const X&)x)[2 * i]) * __without_denormal((float)((const X&)y)[2 * j]),
                odd = __without_denormal((float)((const X&)x)[2 * i + 1]) *
                      __without_denormal((float)((const X&)y)[2 * j + 1]);
    out[i] = __add_to_odd(acc[i], __add_to_odd(even, odd));
  }
  return out;
}
// Four products of bytes each, modulo 2^32.
#ifdef __ARM_FEATURE_DOTPROD
template <class A, class X>
__inl A __sdot(A acc, X x, X y, int lane) {
#define __AIPU_SDOT(name, of_y) asm(#name " %0.4s, %1.16b, %2." of_y : "+w"(acc) : "w"(x), "w"(y))
#define __AIPU_SDOT_OF(j)                       \
  case j:                                       \
    if constexpr (__signed_elem<__e<X>>::value) \
      __AIPU_SDOT(sdot, "4b[" #j "]");          \
    else                                        \
      __AIPU_SDOT(udot, "4b[" #j "]");          \
    break;
  switch (lane) {
    __AIPU_SDOT_OF(0)
    __AIPU_SDOT_OF(1)
    __AIPU_SDOT_OF(2)
    __AIPU_SDOT_OF(3)
    default:
      if constexpr (__signed_elem<__e<X>>::value)
        __AIPU_SDOT(sdot, "16b");
      else
        __AIPU_SDOT(udot, "16b");
  }
#undef __AIPU_SDOT_OF
#undef __AIPU_SDOT
  return acc;
}
#endif
template <class A, class X>
__inl A __vsdot(A acc, X x, X y, int lane) {
#ifdef __ARM_FEATURE_DOTPROD
  if constexpr (sizeof(A) == 16) return __sdot(acc, x, y, lane);
#endif
  A out = acc;
  for (int i = 0; i < __LANES(A); i++) {
    const int j = lane < 0 ? i : i / 4 * 4 + lane;
    int sum = 0;
    for (int k = 0; k < 4; k++) sum += (int)x[4 * i + k] * (int)y[4 * j + k];
    out[i] = (int)((uint)acc[i] + (uint)sum);
  }
  return out;
}
template <class A, class X, class Y, class M>
__inl A __vdot(A zero, X x, Y y, M m) {
  return __vdpa(zero, x, y, m);
}
template <class A, class X, class Y, class M>
__inl A __vqdot(A zero, X x, Y y, M m) {
  return __vqdpa(zero, x, y, m);
}
// Even or odd lanes of 16-bit floats; product and sum are rounded separately.
template <class X, class M>
__inl float8 __vfmae(float8 acc, X x, X y, M m) {
  return __select(m, acc + __widen(__lanes_from<8, 0, 2>(x)) * __widen(__lanes_from<8, 0, 2>(y)), acc);
}
template <class X, class M>
__inl float8 __vfmao(float8 acc, X x, X y, M m) {
  return __select(m, acc + __widen(__lanes_from<8, 1, 2>(x)) * __widen(__lanes_from<8, 1, 2>(y)), acc);
}

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
