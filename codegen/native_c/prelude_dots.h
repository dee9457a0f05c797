// Dot products of integers and of 16-bit floats, as one instruction of an NPU or a CPU makes them.

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
#if defined(__AVX2__) && defined(__F16C__)
// gcc 12 makes two instructions of either conversion.
__inl __v<double, 4> __doubles_of(float4 x) {
#ifdef __clang__
  return __builtin_convertvector(x, __v<double, 4>);
#else
  return __builtin_ia32_cvtps2pd256(x);
#endif
}
__inl __v<ulong, 4> __words_of(__v<uint, 4> x) {
#ifdef __clang__
  return __builtin_convertvector(x, __v<ulong, 4>);
#else
  return (__v<ulong, 4>)__builtin_ia32_pmovzxdq256((__v<int, 4>)x);
#endif
}
// Of 16 halves numbers 0, 4, 8, 12, then 1, 5, 9, 13, ... as doubles.
struct __half_columns {
  __v<double, 4> first, second, third, fourth;
};
template <class X>
__inl __half_columns __columns_of_halves(X x) {
  // Pairs that belong side by side first, as 16-bit lanes do not move between the halves of a register.
  const auto pairs = __builtin_shufflevector(x.bits, x.bits, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  const __v<uint, 8> words = (__v<uint, 8>)pairs;
  const X columns = {(__v<ushort, 16>)__builtin_shufflevector(words, words, 0, 4, 1, 5, 2, 6, 3, 7)};
  const float8 low = __widen(__lanes_from<8, 0, 1>(columns)), high = __widen(__lanes_from<8, 8, 1>(columns));
  return {__doubles_of(__lanes_from<4, 0, 1>(low)), __doubles_of(__lanes_from<4, 4, 1>(low)),
          __doubles_of(__lanes_from<4, 0, 1>(high)), __doubles_of(__lanes_from<4, 4, 1>(high))};
}
#endif
// Four products per group, summed in double and rounded once; the result is in the even lanes.
template <class A, class X, class M>
__inl A __dot_float(A acc, X x, X y, M m) {
#if defined(__AVX2__) && defined(__F16C__)
  if constexpr (__same<__e<X>, half>::value && __LANES(X) == 16) {
    // What is masked adds -0, which changes nothing, not even the sign of 0.
    const __half_columns a = __columns_of_halves(__select(m, x, X{})),
                         b = __columns_of_halves(__select(m, y, X{__v<ushort, 16>{} + (ushort)0x8000}));
    __v<double, 4> sum = __doubles_of(__lanes_from<4, 0, 2>(acc));
    // Products of halves are exact in double, so rounding them with the sum is rounding the sum.
    sum = __fused(a.first, b.first, sum);
    sum = __fused(a.second, b.second, sum);
    sum = __fused(a.third, b.third, sum);
    sum = __fused(a.fourth, b.fourth, sum);
    const float4 rounded = __builtin_convertvector(sum, float4);
    const A wide = (A)__words_of(__bits<__v<uint, 4>>(rounded));
    return __builtin_shufflevector(wide, acc, 0, 9, 2, 11, 4, 13, 6, 15);
  }
#endif
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
#ifdef __AVX512VNNI__
  if constexpr (sizeof(X) == 64) {
#ifdef __clang__
    return (A)__builtin_ia32_vpdpwssd512(acc, x, y);
#else
    return (A)__builtin_ia32_vpdpwssd_v16si((__v<int, 16>)acc, (__v<int, 16>)x, (__v<int, 16>)y);
#endif
  }
#endif
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
// Blocks of bytes: c[Rows][32] = a[Rows][64 * steps] times b[steps][2][16][16][4], modulo 2^32.
#ifdef __AMX_INT8__
// The tiles of this thread while a kernel runs, all of 16 rows of 64 bytes. Set each time, as other libraries of the
// process may use them too; given back, as they are saved when threads change.
struct __tile_scope {
  __attribute__((always_inline)) __tile_scope() {
    struct {
      uchar palette, start_row, reserved[14];
      ushort row_bytes[16];
      uchar rows[16];
    } shape = {};
    shape.palette = 1;
    for (int i = 0; i < 8; i++) {
      shape.row_bytes[i] = 64;
      shape.rows[i] = 16;
    }
    asm volatile("ldtilecfg %0" : : "m"(shape));
  }
  __attribute__((always_inline)) ~__tile_scope() { asm volatile("tilerelease" : : : "memory"); }
};
// Sums are in tiles 0 to 3. Loads before products, and tiles of b that are whole kilobytes, save a tenth (Emerald
// Rapids).
#define __AIPU_TILE_STEP(dot)                                                                                      \
  if constexpr (Rows > 16)                                                                                         \
    asm volatile(                                                                                                  \
        "tileloadd (%0,%1,1), %%tmm4\n\ttileloadd (%3,%4,1), %%tmm6\n\t"                                           \
        "tileloadd (%2,%1,1), %%tmm5\n\ttileloadd 1024(%3,%4,1), %%tmm7\n\t" dot " %%tmm6, %%tmm4, %%tmm0\n\t" dot \
        " %%tmm6, %%tmm5, %%tmm2\n\t" dot " %%tmm7, %%tmm4, %%tmm1\n\t" dot " %%tmm7, %%tmm5, %%tmm3"              \
        :                                                                                                          \
        : "r"(upper), "r"(stride), "r"(lower), "r"(right), "r"(64L)                                                \
        : "memory");                                                                                               \
  else                                                                                                             \
    asm volatile(                                                                                                  \
        "tileloadd (%0,%1,1), %%tmm4\n\ttileloadd (%2,%3,1), %%tmm6\n\ttileloadd 1024(%2,%3,1), %%tmm7\n\t" dot    \
        " %%tmm6, %%tmm4, %%tmm0\n\t" dot " %%tmm7, %%tmm4, %%tmm1"                                                \
        :                                                                                                          \
        : "r"(upper), "r"(stride), "r"(right), "r"(64L)                                                            \
        : "memory")
template <int Rows, class A, class B>
__inl void __tile_dot(int* c, const A* a, long stride, const B* b, long steps) {
  constexpr bool a_signed = __signed_elem<A>::value, b_signed = __signed_elem<B>::value;
  asm volatile("tilezero %tmm0\n\ttilezero %tmm1");
  if constexpr (Rows > 16) asm volatile("tilezero %tmm2\n\ttilezero %tmm3");
  const char *upper = (const char*)a, *lower = upper + 16 * stride, *right = (const char*)b;
  for (long step = 0; step < steps; step++) {
    if constexpr (a_signed && b_signed) {
      __AIPU_TILE_STEP("tdpbssd");
    } else if constexpr (a_signed) {
      __AIPU_TILE_STEP("tdpbsud");
    } else if constexpr (b_signed) {
      __AIPU_TILE_STEP("tdpbusd");
    } else {
      __AIPU_TILE_STEP("tdpbuud");
    }
    upper += 64;
    lower += 64;
    right += 2048;
  }
  asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)" : : "r"(c), "r"(128L) : "memory");
  if constexpr (Rows > 16)
    asm volatile("tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)"
                 :
                 : "r"(c + 16 * 32), "r"(128L)
                 : "memory");
}
#undef __AIPU_TILE_STEP
#else
struct __tile_scope {
  __attribute__((always_inline)) __tile_scope() {}
};
template <int Rows, class A, class B>
__inl void __tile_dot(int* c, const A* a, long stride, const B* b, long steps) {
  for (int i = 0; i < Rows; i++) {
    uint sums[32] = {};
    for (long k = 0; k < 64 * steps; k++) {
      const int factor = a[i * stride + k];
      const B* row = b + k / 64 * 2048 + k % 64 / 4 * 64 + k % 4;
      for (int j = 0; j < 32; j++) sums[j] += (uint)(factor * (int)row[j / 16 * 1024 + j % 16 * 4]);
    }
    __builtin_memcpy(c + 32 * i, sums, sizeof(sums));
  }
}
#endif
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
