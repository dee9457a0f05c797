// The types of Compass C on GCC vector extensions. Compiled as C++ by gcc and clang, without any standard header;
// AIPU_VECTOR_BITS is the register width of the target. A vector is a GCC vector of its elements (half and bf16: a
// struct around the vector of their bit patterns); a mask of L lanes is a vector of L signed integers, 0 or -1, of the
// widest element that fits L times into a register.
#define __global
#define __local
#define __lsram
#define __constant const
#define __kernel static
#define restrict __restrict
#define _CLC_INLINE inline
#define _CLC_NOINLINE __attribute__((noinline))
#define __hidden __attribute__((visibility("hidden")))
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define __inl static inline __attribute__((always_inline))
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define AIPU_CPU_FMA
#endif
#if defined(__SSE4_1__) || defined(__aarch64__)
#define AIPU_CPU_ROUNDING  // to integers, whichever way
#endif

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

template <bool B, class T, class F>
struct __if {
  typedef T type;
};
template <class T, class F>
struct __if<false, T, F> {
  typedef F type;
};
template <class T>
struct __bare {
  typedef T type;
};
template <class T>
struct __bare<T&> {
  typedef T type;
};
template <class T>
struct __bare<const T> {
  typedef T type;
};
template <class T>
struct __bare<const T&> {
  typedef T type;
};
template <class A, class B>
struct __same {
  static constexpr bool value = false;
};
template <class A>
struct __same<A, A> {
  static constexpr bool value = true;
};

// Signed and unsigned integers of a size in bytes.
template <int S>
struct __int_of;
template <>
struct __int_of<1> {
  typedef char s;
  typedef uchar u;
};
template <>
struct __int_of<2> {
  typedef short s;
  typedef ushort u;
};
template <>
struct __int_of<4> {
  typedef int s;
  typedef uint u;
};
template <>
struct __int_of<8> {
  typedef long s;
  typedef ulong u;
};

template <class T, int N>
struct __plain {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};

template <class To, class From>
__inl To __bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "reinterpretation keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// ---- half and bf16: stored bits; every operation computes in float and rounds once ----

__inl float __float_of_half(ushort h) {
  const uint magnitude = (uint)(h & 0x7fffu) << 13;
  const uint sign = (uint)(h & 0x8000u) << 16;
  const uint normal = magnitude + 0x38000000u;
  const uint special = magnitude + 0x70000000u;  // inf and nan
  const uint tiny = __bits<uint>((float)(h & 0x3ffu) * 0x1p-24f);
  return __bits<float>(sign | (magnitude >= 0x0f800000u ? special : magnitude >= 0x00800000u ? normal : tiny));
}

__inl ushort __half_of_float(float value) {
  const uint bits = __bits<uint>(value);
  const uint sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  const uint nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const uint normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const uint tiny = __bits<uint>(__bits<float>(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) - 0x3f000000u;
  return (ushort)(sign | (magnitude > 0x7f800000u    ? nan
                          : magnitude >= 0x477ff000u ? 0x7c00u
                          : magnitude >= 0x38800000u ? normal
                                                     : tiny));
}

__inl float __float_of_bf16(ushort b) { return __bits<float>((uint)b << 16); }

__inl ushort __bf16_of_float(float value) {
  const uint bits = __bits<uint>(value);
  return (ushort)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u
                                                     : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct half {
  ushort bits;
  half() = default;
  template <class T>
  __attribute__((always_inline)) explicit half(T value) : bits(__half_of_float((float)value)) {}
  __attribute__((always_inline)) operator float() const { return __float_of_half(bits); }
};
struct bf16 {
  ushort bits;
  bf16() = default;
  template <class T>
  __attribute__((always_inline)) explicit bf16(T value) : bits(__bf16_of_float((float)value)) {}
  __attribute__((always_inline)) operator float() const { return __float_of_bf16(bits); }
};

template <class T>
struct __is16f {
  static constexpr bool value = false;
};
template <>
struct __is16f<half> {
  static constexpr bool value = true;
};
template <>
struct __is16f<bf16> {
  static constexpr bool value = true;
};

// A vector of half or bf16.
template <class T, int N>
struct __soft {
  typename __plain<ushort, N>::type bits;
  struct Lane {
    __soft* vector;
    long index;
    __attribute__((always_inline)) operator T() const { return __bits<T>((ushort)vector->bits[index]); }
    __attribute__((always_inline)) void operator=(T value) { vector->bits[index] = value.bits; }
  };
  __attribute__((always_inline)) T operator[](long i) const { return __bits<T>((ushort)bits[i]); }
  __attribute__((always_inline)) Lane operator[](long i) { return Lane{this, i}; }
};

template <class T, int N>
struct __vec {
  typedef typename __plain<T, N>::type type;
};
template <int N>
struct __vec<half, N> {
  typedef __soft<half, N> type;
};
template <int N>
struct __vec<bf16, N> {
  typedef __soft<bf16, N> type;
};
template <class T, int N>
using __v = typename __vec<T, N>::type;

// ---- what a value is ----

template <class V>
struct __of {
  typedef typename __bare<decltype((*(V*)0)[0])>::type elem;
};
template <class T, int N>
struct __of<__soft<T, N>> {
  typedef T elem;
};
template <>
struct __of<char> {
  typedef char elem;
};
template <>
struct __of<uchar> {
  typedef uchar elem;
};
template <>
struct __of<short> {
  typedef short elem;
};
template <>
struct __of<ushort> {
  typedef ushort elem;
};
template <>
struct __of<int> {
  typedef int elem;
};
template <>
struct __of<uint> {
  typedef uint elem;
};
template <>
struct __of<long> {
  typedef long elem;
};
template <>
struct __of<ulong> {
  typedef ulong elem;
};
template <>
struct __of<half> {
  typedef half elem;
};
template <>
struct __of<bf16> {
  typedef bf16 elem;
};
template <>
struct __of<float> {
  typedef float elem;
};
template <>
struct __of<double> {
  typedef double elem;
};
template <>
struct __of<bool> {
  typedef bool elem;
};
template <class V>
using __e = typename __of<V>::elem;
#define __LANES(V) ((int)(sizeof(V) / sizeof(__e<V>)))
template <class V>
struct __is_vector {
  static constexpr bool value = __LANES(V) > 1;
};

template <class T>
struct __is_float {
  static constexpr bool value = __is16f<T>::value || __same<T, float>::value || __same<T, double>::value;
};
template <class T>
struct __signed_elem {
  static constexpr bool value = __same<T, char>::value || __same<T, signed char>::value || __same<T, short>::value ||
                                __same<T, int>::value || __same<T, long>::value;
};
template <class T>
using __signed_of = typename __int_of<sizeof(T)>::s;
template <class T>
using __unsigned_of = typename __int_of<sizeof(T)>::u;
// The least and greatest value of an integer type.
template <class T>
struct __limits {
  static constexpr T max = __signed_elem<T>::value ? (T)(((__unsigned_of<T>)~(__unsigned_of<T>)0) >> 1) : (T) ~(T)0;
  static constexpr T min = __signed_elem<T>::value ? (T)(-max - 1) : (T)0;
};

template <int L>
struct __mask_bytes {
  static constexpr int fit = AIPU_VECTOR_BITS / 8 / L;
  static constexpr int value = fit < 1 ? 1 : fit > 8 ? 8 : fit;
};
template <int L>
using __mask = typename __plain<typename __int_of<__mask_bytes<L>::value>::s, L>::type;

#define __AIPU_TYPES(N)             \
  typedef __v<char, N> char##N;     \
  typedef __v<uchar, N> uchar##N;   \
  typedef __v<short, N> short##N;   \
  typedef __v<ushort, N> ushort##N; \
  typedef __v<int, N> int##N;       \
  typedef __v<uint, N> uint##N;     \
  typedef __v<long, N> long##N;     \
  typedef __v<ulong, N> ulong##N;   \
  typedef __v<half, N> half##N;     \
  typedef __v<bf16, N> bf16##N;     \
  typedef __v<float, N> float##N;   \
  typedef __v<double, N> double##N; \
  typedef __mask<N> bool##N;
__AIPU_TYPES(2)
__AIPU_TYPES(4)
__AIPU_TYPES(8)
__AIPU_TYPES(16)
__AIPU_TYPES(32)
__AIPU_TYPES(64)
#undef __AIPU_TYPES

// ---- broadcast ----

template <class V, class T>
__inl V __splat(T value) {
  typedef __e<V> E;
  if constexpr (!__is_vector<V>::value) {
    return (V)value;
  } else if constexpr (__is16f<E>::value) {
    return V{((E)value).bits - typename __plain<ushort, __LANES(V)>::type{}};
  } else {
    return (E)value - V{};  // minus keeps the sign of zero
  }
}

// ---- conversions between float and the 16-bit types, whole vectors ----

template <class T, int N>
__inl __v<float, N> __widen(__soft<T, N> x) {
  typedef __v<float, N> F;
  if constexpr (__same<T, bf16>::value) {
    return (F)(__builtin_convertvector(x.bits, __v<uint, N>) << 16);
  } else {
#ifdef __F16C__
#ifdef __AVX512F__
    if constexpr (N == 16)
      return (F)__builtin_ia32_vcvtph2ps512_mask((__v<short, 16>)x.bits, (__v<float, 16>){}, -1, 4);
#endif
    if constexpr (N == 8) return (F)__builtin_ia32_vcvtph2ps256((__v<short, 8>)x.bits);
    constexpr int part_lanes = 8;
#elif defined(__aarch64__)
    if constexpr (N == 4) {
      F out;
      asm("fcvtl %0.4s, %1.4h" : "=w"(out) : "w"(x.bits));
      return out;
    }
    constexpr int part_lanes = 4;
#else
    constexpr int part_lanes = N;
#endif
    if constexpr (N > part_lanes) {
      F result;
      for (int i = 0; i < N; i += part_lanes) {
        __soft<T, part_lanes> part;
        __builtin_memcpy(&part, (const char*)&x + 2 * i, sizeof(part));
        const __v<float, part_lanes> wide = __widen(part);
        __builtin_memcpy((char*)&result + 4 * i, &wide, sizeof(wide));
      }
      return result;
    }
    ushort in[N];
    float out[N];
    __builtin_memcpy(in, &x, sizeof(x));
    for (int i = 0; i < N; i++) out[i] = __float_of_half(in[i]);
    return __bits<F>(out);
  }
}

template <class T, int N>
__inl __soft<T, N> __narrow(__v<float, N> x) {
  typedef __soft<T, N> H;
#ifdef __F16C__
  if constexpr (__same<T, half>::value) {
#ifdef __AVX512F__
    if constexpr (N == 16) return __bits<H>(__builtin_ia32_vcvtps2ph512_mask(x, 0, (__v<short, 16>){}, -1));
#endif
    if constexpr (N == 8) return __bits<H>(__builtin_ia32_vcvtps2ph256(x, 0));
    constexpr int part_lanes = 8;
#elif defined(__aarch64__)
  if constexpr (__same<T, half>::value) {
    if constexpr (N == 4) {
      H out;
      asm("fcvtn %0.4h, %1.4s" : "=w"(out.bits) : "w"(x));
      return out;
    }
    constexpr int part_lanes = 4;
#else
  if constexpr (__same<T, half>::value) {
    constexpr int part_lanes = N;
#endif
    if constexpr (N > part_lanes) {
      H result;
      for (int i = 0; i < N; i += part_lanes) {
        __v<float, part_lanes> part;
        __builtin_memcpy(&part, (const char*)&x + 4 * i, sizeof(part));
        const __soft<T, part_lanes> narrow = __narrow<T, part_lanes>(part);
        __builtin_memcpy((char*)&result + 2 * i, &narrow, sizeof(narrow));
      }
      return result;
    }
  }
#ifdef __AVX512BF16__
  if constexpr (__same<T, bf16>::value && N == 16) {
    // The instruction takes denormal numbers for 0, which we do not.
    constexpr int kDenormal = 0x20;
    if (__builtin_expect(__builtin_ia32_fpclassps512_mask(x, kDenormal, (ushort)-1) == 0, 1)) {
#ifdef __clang__
#if __clang_major__ < 16
      typedef __v<short, 16> B;
#else
      typedef __attribute__((__vector_size__(32))) __bf16 B;
#endif
      return __bits<H>(__builtin_ia32_cvtneps2bf16_512_mask(x, B{}, (ushort)-1));
#else
      return __bits<H>(__builtin_ia32_cvtneps2bf16_v16sf(x));
#endif
    }
  }
#endif
  if constexpr (__same<T, bf16>::value) {
    typedef __v<uint, N> U;
    const U bits = (U)x, is_nan = (U)((bits & 0x7fffffffu) > 0x7f800000u);
    const U nan = (bits >> 16) | 0x40u, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return H{__builtin_convertvector((is_nan & nan) | (~is_nan & rounded), __v<ushort, N>)};
  } else {
    float in[N];
    ushort out[N];
    __builtin_memcpy(in, &x, sizeof(x));
    for (int i = 0; i < N; i++) out[i] = __half_of_float(in[i]);
    return __bits<H>(out);
  }
}

template <class T, int N>
__inl __soft<T, N> operator+(__soft<T, N> a, __soft<T, N> b) {
  return __narrow<T, N>(__widen(a) + __widen(b));
}
template <class T, int N>
__inl __soft<T, N> operator-(__soft<T, N> a, __soft<T, N> b) {
  return __narrow<T, N>(__widen(a) - __widen(b));
}
template <class T, int N>
__inl __soft<T, N> operator*(__soft<T, N> a, __soft<T, N> b) {
  return __narrow<T, N>(__widen(a) * __widen(b));
}
template <class T, int N>
__inl __soft<T, N> operator/(__soft<T, N> a, __soft<T, N> b) {
  return __narrow<T, N>(__widen(a) / __widen(b));
}

// ---- masks ----

// A mask with elements of S bytes, to go with data of that size.
template <int S, class M>
__inl auto __mask_for(M m) {
  typedef typename __plain<typename __int_of<S>::s, __LANES(M)>::type R;
  if constexpr (sizeof(R) == sizeof(M))
    return (R)m;
  else
    return __builtin_convertvector(m, R);
}
// The mask of a comparison's result.
template <class C>
__inl auto __mask_of(C c) {
  typedef __mask<__LANES(C)> R;
  if constexpr (sizeof(R) == sizeof(C))
    return (R)c;
  else
    return __builtin_convertvector(c, R);
}

template <class V, class M>
__inl V __select(M m, V a, V b) {
  typedef __e<V> E;
  if constexpr (__is16f<E>::value) {
    return V{__mask_for<2>(m) ? a.bits : b.bits};
  } else {
    return __mask_for<(int)sizeof(E)>(m) ? a : b;
  }
}

// Every lane, known as such at compile time, so that the code of an operation without a mask is the plain operation.
struct __all_true {
  template <class M>
  __attribute__((always_inline)) operator M() const {
    return ~M{};
  }
};
template <class V>
__inl V __select(__all_true, V a, V) {
  return a;
}
template <class C>
__inl C __and(__all_true, C c) {
  return c;
}
template <class C>
__inl C __and(C m, C c) {
  return m & c;
}
__inl bool __lane(__all_true, int) { return true; }
template <class M>
__inl bool __lane(M m, int i) {
  return m[i] != 0;
}
#define ALL_TRUE \
  __all_true {}
#define ALL_TRUE_w \
  __all_true {}
#define ALL_TRUE_h \
  __all_true {}
#define ALL_TRUE_b \
  __all_true {}

template <int L>
__inl __v<int, L> __iota() {
  int lanes[L];
  for (int i = 0; i < L; i++) lanes[i] = i;
  return __bits<__v<int, L>>(lanes);
}
template <int L>
__inl __mask<L> __tail_mask(int n) {
  return __mask_of(__iota<L>() < n);
}
// One bit per lane, lane 0 in bit 0.
template <int L>
__inl __mask<L> __const_mask(ulong bits) {
  typedef typename __int_of<__mask_bytes<L>::value>::s E;
  E lanes[L];
#pragma GCC unroll 64  // else gcc makes the lanes of a wide mask anew at each place, one by one
  for (int i = 0; i < L; i++) lanes[i] = (E) - (E)((bits >> i) & 1);
  return __bits<__mask<L>>(lanes);
}
// One bit per byte of a 32-byte register: lane i of L at bit i * 32 / L.
template <int L>
__inl __mask<L> __byte_mask(uint bits) {
  typedef typename __int_of<__mask_bytes<L>::value>::s E;
  E lanes[L];
#pragma GCC unroll 32
  for (int i = 0; i < L; i++) lanes[i] = (E) - (E)((bits >> (i * (32 / L))) & 1);
  return __bits<__mask<L>>(lanes);
}
#define __vmov_w(bits) __byte_mask<8>(bits)
#define __vmov_h(bits) __byte_mask<16>(bits)
#define __vmov_b(bits) __byte_mask<32>(bits)

// ---- literals and single lanes ----

template <class V, class... T>
__inl V __lanes(T... values) {
  const __e<V> lanes[] = {values...};
  return __bits<V>(lanes);
}
template <int L, class... T>
__inl __mask<L> __mask_lanes(T... values) {
  const bool on[] = {(bool)values...};
  typename __int_of<__mask_bytes<L>::value>::s lanes[L];
  for (int i = 0; i < L; i++) lanes[i] = on[i] ? -1 : 0;
  return __bits<__mask<L>>(lanes);
}
template <int L>
__inl __mask<L> __splat_mask(bool on) {
  // A variable: gcc takes the conditional for an int, which it does not spread over narrower lanes.
  typename __int_of<__mask_bytes<L>::value>::s lane = on ? -1 : 0;
  return lane - __mask<L>{};
}
template <class K>
__inl void __set_mask_lane(K& k, long i, bool on) {
  k[i] = on ? -1 : 0;
}
template <class K>
__inl bool __get_mask_lane(K k, long i) {
  return k[i] != 0;
}
template <class V>
__inl __e<V> __get_lane(V v, long i) {
  return ((const V&)v)[i];
}
