// Memory: loads and stores of any alignment, masks that do not touch what is off, strides, gathers, DMA; and the TEC.

template <class V>
__inl V __load(const V* p, long i) {
  V out;
#ifdef __aarch64__
  // gcc makes a number of 128 bits of a copy to a vector of half or bf16, and loads it where it is used first: two that
  // are neighbours, which one instruction loads, come apart.
  if constexpr (sizeof(V) == 16 && __is16f<__e<V>>::value) {
    typedef decltype(out.bits) __attribute__((__aligned__(1), __may_alias__)) Bits;
    out.bits = ((const Bits*)p)[i];
  } else
#endif
    __builtin_memcpy(&out, (const char*)p + i * (long)sizeof(V), sizeof(V));
  return out;
}
// One of two or four registers that lie side by side. 64-bit Arm loads them by one instruction, which the compiler
// makes of loads of each with the same address. It has no offset, but moves its address on: an address that moves
// through a loop is kept from becoming one of many offsets, each of which would be added. Without arm_neon.h the names
// are those of these versions of gcc; other compilers load each.
#if defined(__aarch64__) && !defined(__clang__) && __GNUC__ >= 12 && __GNUC__ <= 14
#define __AIPU_LOADS_PARTS
#pragma GCC aarch64 "arm_neon.h"
#endif
template <class V, int Index, int Count, class P>
__inl V __load_part(P&& p) {
#ifdef __AIPU_LOADS_PARTS
  if constexpr (sizeof(V) == 16 && (Count == 2 || Count == 4)) {
    if constexpr (Index == 0 && __same<P, P&>::value) asm("" : "+r"(p));
    const auto* from = (const __builtin_aarch64_simd_sf*)p;
    if constexpr (Count == 2)
      return __bits<V>(__builtin_aarch64_ld1x2v4sf(from).val[Index]);
    else
      return __bits<V>(__builtin_aarch64_ld1x4v4sf(from).val[Index]);
  } else
#endif
    return __load((const V*)p, Index);
}
template <class V>
__inl void __store(V* p, long i, V value) {
  __builtin_memcpy((char*)p + i * (long)sizeof(V), &value, sizeof(V));
}

template <class T>
__inl T __zero() {
  return __bits<T>((__unsigned_of<T>)0);
}

// Masked moves in one instruction, where the CPU has them: the compilers have no portable form for memory that must not
// be touched, and move lane by lane.
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
template <class V>
constexpr bool __has_masked_move = sizeof(V) >= 16;
// One bit per lane of elements of S bytes, each 0 or -1.
template <int S, class I>
__inl ulong __lane_bits(I m) {
  ulong k;
  if constexpr (S == 1) asm("vpmovb2m %1, %0" : "=Yk"(k) : "v"(m));
  if constexpr (S == 2) asm("vpmovw2m %1, %0" : "=Yk"(k) : "v"(m));
  if constexpr (S == 4) asm("vpmovd2m %1, %0" : "=Yk"(k) : "v"(m));
  if constexpr (S == 8) asm("vpmovq2m %1, %0" : "=Yk"(k) : "v"(m));
  return k;
}
template <int S, class I>
__inl I __masked_load(const I* p, I m) {
  const ulong k = __lane_bits<S>(m);
  I out;
  if constexpr (S == 1) asm("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(out) : "m"(*p), "Yk"(k));
  if constexpr (S == 2) asm("vmovdqu16 %1, %0%{%2%}%{z%}" : "=v"(out) : "m"(*p), "Yk"(k));
  if constexpr (S == 4) asm("vmovdqu32 %1, %0%{%2%}%{z%}" : "=v"(out) : "m"(*p), "Yk"(k));
  if constexpr (S == 8) asm("vmovdqu64 %1, %0%{%2%}%{z%}" : "=v"(out) : "m"(*p), "Yk"(k));
  return out;
}
template <int S, class I>
__inl void __masked_store(I* p, I value, I m) {
  const ulong k = __lane_bits<S>(m);
  if constexpr (S == 1) asm("vmovdqu8 %1, %0%{%2%}" : "+m"(*p) : "v"(value), "Yk"(k));
  if constexpr (S == 2) asm("vmovdqu16 %1, %0%{%2%}" : "+m"(*p) : "v"(value), "Yk"(k));
  if constexpr (S == 4) asm("vmovdqu32 %1, %0%{%2%}" : "+m"(*p) : "v"(value), "Yk"(k));
  if constexpr (S == 8) asm("vmovdqu64 %1, %0%{%2%}" : "+m"(*p) : "v"(value), "Yk"(k));
}
#elif defined(__AVX2__)
template <class V>
constexpr bool __has_masked_move = sizeof(V) >= 16 && sizeof(__e<V>) >= 4;
template <int S, class I>
__inl I __masked_load(const I* p, I m) {
  I out;
  if constexpr (S == 4) asm("vpmaskmovd %1, %2, %0" : "=x"(out) : "m"(*p), "x"(m));
  if constexpr (S == 8) asm("vpmaskmovq %1, %2, %0" : "=x"(out) : "m"(*p), "x"(m));
  return out;
}
template <int S, class I>
__inl void __masked_store(I* p, I value, I m) {
  if constexpr (S == 4) asm("vpmaskmovd %1, %2, %0" : "+m"(*p) : "x"(value), "x"(m));
  if constexpr (S == 8) asm("vpmaskmovq %1, %2, %0" : "+m"(*p) : "x"(value), "x"(m));
}
#else
template <class V>
constexpr bool __has_masked_move = false;
template <int S, class I>
I __masked_load(const I* p, I m);
template <int S, class I>
void __masked_store(I* p, I value, I m);
#endif
template <class V>
using __lane_ints = typename __plain<typename __int_of<(int)sizeof(__e<V>)>::s, __LANES(V)>::type;

// `p` points to a vector only for its type.
template <class V, class M>
__inl V __vload(const V* p, M m) {
  if constexpr (__same<M, __all_true>::value) {
    return __load(p, 0);
  } else if constexpr (__has_masked_move<V>) {
    constexpr int S = (int)sizeof(__e<V>);
    return __bits<V>(__masked_load<S>((const __lane_ints<V>*)p, (__lane_ints<V>)__mask_for<S>(m)));
  } else {
    typedef __e<V> E;
    const E* in = (const E*)p;
    typedef __e<M> B;
    B on[__LANES(V)];
    E out[__LANES(V)];
    __builtin_memcpy(on, &m, sizeof(on));
    for (int i = 0; i < __LANES(V); i++) out[i] = on[i] ? in[i] : __zero<E>();
    return __from_lanes<V>(out);
  }
}
// Every second element of 2 * N - 1: lanes of the first N of them, and of the last N.
template <int N>
struct __every_second {
  static constexpr int at(int i) { return i < N / 2 ? 2 * i : 2 * i + 1; }
};
template <class V, class M>
__inl V __vload_stride(const V* p, long stride_bytes, M m) {
  const char* in = (const char*)p;
  if constexpr (__same<M, __all_true>::value && __LANES(V) >= 4) {
    constexpr int N = __LANES(V);
    if (stride_bytes == 2 * (long)sizeof(__e<V>)) {
      const V first = __load(p, 0), last = __load((const V*)(in + (N - 1) * sizeof(__e<V>)), 0);
      return __shuffle<__every_second<N>, N>(first, last);
    }
  }
  __e<V> out[__LANES(V)];
  for (int i = 0; i < __LANES(V); i++) {
    out[i] = __zero<__e<V>>();
    if (__lane(m, i)) __builtin_memcpy(out + i, in + i * stride_bytes, sizeof(__e<V>));
  }
  return __from_lanes<V>(out);
}
// Lanes narrower than what the CPU masks: words of which all lanes are on in one instruction, the others lane by lane.
#if defined(__AVX2__) && !defined(__AVX512BW__)
template <class V>
constexpr bool __has_word_moves = sizeof(V) == 32 && sizeof(__e<V>) < 4;
template <class V, class L>
__inl void __store_words(V* p, V value, L m) {
  typedef __v<int, 8> I;
  typedef __v<char, 32> B;
  const I lanes = __bits<I>(m), words = (I)(lanes == -1), rest = lanes & ~words;
  __masked_store<4>((I*)p, __bits<I>(value), words);
  constexpr int S = (int)sizeof(__e<V>);
  __e<V> in[32 / S];
  __builtin_memcpy(in, &value, sizeof(in));
  for (uint bits = (uint)__builtin_ia32_pmovmskb256((B)rest); bits != 0; bits &= bits - 1) {
    const int byte = __builtin_ctz(bits);
    ((char*)p)[byte] = ((const char*)in)[byte];
  }
}
#else
template <class V>
constexpr bool __has_word_moves = false;
template <class V, class L>
void __store_words(V* p, V value, L m);
#endif
template <class V, class M>
__inl void __vstore(V value, V* p, M m) {
  if constexpr (__same<M, __all_true>::value) {
    __store(p, 0, value);
  } else if constexpr (__has_masked_move<V>) {
    constexpr int S = (int)sizeof(__e<V>);
    __masked_store<S>((__lane_ints<V>*)p, __bits<__lane_ints<V>>(value), (__lane_ints<V>)__mask_for<S>(m));
  } else if constexpr (__has_word_moves<V>) {
    __store_words(p, value, __mask_for<(int)sizeof(__e<V>)>(m));
  } else {
    typedef __e<V> E;
    E* out = (E*)p;
    typedef __e<M> B;
    B on[__LANES(V)];
    E in[__LANES(V)];
    __builtin_memcpy(on, &m, sizeof(on));
    __builtin_memcpy(in, &value, sizeof(in));
    for (int i = 0; i < __LANES(V); i++) {
      if (on[i]) out[i] = in[i];
    }
  }
}
template <class V, class M>
__inl void __vstore_stride(V value, V* p, long stride_bytes, M m) {
  __e<V> in[__LANES(V)];
  __builtin_memcpy(in, &value, sizeof(in));
  for (int i = 0; i < __LANES(V); i++) {
    if (__lane(m, i)) __builtin_memcpy((char*)p + i * stride_bytes, in + i, sizeof(__e<V>));
  }
}
template <class V, class I, class M>
__inl V __vload_gather(const V* p, I indices, M m) {
  const char* in = (const char*)p;
  __e<V> out[__LANES(V)];
  for (int i = 0; i < __LANES(V); i++) {
    out[i] = __zero<__e<V>>();
    if (__lane(m, i)) __builtin_memcpy(out + i, in + (long)indices[i] * (long)sizeof(__e<V>), sizeof(__e<V>));
  }
  return __from_lanes<V>(out);
}
// Of a table of that many elements, with all lanes on.
template <int Entries, class V, class I, class M>
__inl V __vload_lookup(const V* p, I indices, M m) {
#ifdef __AVX512F__
  if constexpr (Entries == 64 && sizeof(V) == 64 && sizeof(__e<V>) == 4 && sizeof(I) == 64) {
    const V a = __load(p, 0), b = __load(p + 1, 0), c = __load(p + 2, 0), d = __load(p + 3, 0);
    typedef __v<int, 16> W;
    const W upper = (W)indices << 26;  // whose sign says so
    I low = indices, high = indices;
    asm("vpermi2ps %2, %1, %0" : "+v"(low) : "v"(a), "vm"(b));
    asm("vpermi2ps %2, %1, %0" : "+v"(high) : "v"(c), "vm"(d));
    return (V)(upper < 0 ? (W)high : (W)low);
  }
  if constexpr (Entries == 32 && sizeof(V) == 64 && sizeof(__e<V>) == 4 && sizeof(I) == 64) {
    const V low = __load(p, 0), high = __load(p + 1, 0);
    asm("vpermi2ps %2, %1, %0" : "+v"(indices) : "v"(low), "vm"(high));
    return (V)indices;
  }
  if constexpr (Entries == 16 && sizeof(V) == 64 && sizeof(__e<V>) == 4 && sizeof(I) == 64) {
    V out;
    asm("vpermps %2, %1, %0" : "=v"(out) : "v"(indices), "vm"(__load(p, 0)));
    return out;
  }
#elif defined(__AVX2__)
  if constexpr (Entries == 16 && sizeof(V) == 32 && sizeof(__e<V>) == 4 && sizeof(I) == 32) {
    const V low = __load(p, 0), high = __load(p + 1, 0);
    typedef __v<float, 8> F;
    const F a = __builtin_ia32_permvarsf256((F)low, (__v<int, 8>)indices),
            b = __builtin_ia32_permvarsf256((F)high, (__v<int, 8>)indices);
    return (V)__builtin_ia32_blendvps256(a, b, (F)((__v<int, 8>)indices << 28));
  }
  if constexpr (Entries == 8 && sizeof(V) == 32 && sizeof(__e<V>) == 4 && sizeof(I) == 32)
    return (V)__builtin_ia32_permvarsf256((__v<float, 8>)__load(p, 0), (__v<int, 8>)indices);
#endif
  if constexpr (Entries == 16 && sizeof(__e<V>) == 1 && sizeof(I) == sizeof(V)) {
    // Bytes, of 16 of which each register has a copy.
    typedef __v<char, 16> Table;
    const Table table = __load((const Table*)p, 0);
#if defined(__AVX512BW__)
    if constexpr (sizeof(V) == 64) {
      V all;
      asm("vbroadcasti32x4 %1, %0" : "=v"(all) : "m"(*(const Table*)p));
      asm("vpshufb %1, %0, %0" : "+v"(all) : "v"(indices));
      return all;
    }
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32)
      return (V)__builtin_ia32_pshufb256((__v<char, 32>)__concat(table, table), (__v<char, 32>)indices);
    if constexpr (sizeof(V) == 16) return (V)__builtin_ia32_pshufb128(table, (Table)indices);
#elif defined(__aarch64__)
    if constexpr (sizeof(V) == 16) {
      V out;
      asm("tbl %0.16b, {%1.16b}, %2.16b" : "=w"(out) : "w"(table), "w"(indices));
      return out;
    }
#endif
  }
  return __vload_gather(p, indices, m);
}
template <class V, class I, class M>
__inl void __vstore_scatter(V value, V* p, I indices, M m) {
  __e<V> in[__LANES(V)];
  __builtin_memcpy(in, &value, sizeof(in));
  for (int i = 0; i < __LANES(V); i++) {
    if (__lane(m, i)) __builtin_memcpy((char*)p + (long)indices[i] * (long)sizeof(__e<V>), in + i, sizeof(__e<V>));
  }
}

// ---- DMA is a copy; asynchronous ones are done before they return ----

template <class T, class S>
__inl void __dma_copy(T* dst, const S* src, long width, long src_stride, long times, long dst_stride) {
  if (width <= 0) return;
  for (long t = 0; t < times; t++) {
    __builtin_memmove((char*)dst + t * dst_stride, (const char*)src + t * src_stride, (ulong)width);
  }
}
template <class T>
__inl void __dma_transpose2d(T* dst, const T* src, long row, long col, long dst_stride, long src_stride) {
  for (long i = 0; i < row; i++) {
    for (long j = 0; j < col; j++) __builtin_memcpy(dst + j * dst_stride + i, src + i * src_stride + j, sizeof(T));
  }
}
template <class T>
__inl void __dma_upsample(T* dst, const T* src, long h_scale, long w_scale, long c, long w, long src_c_stride,
                          long dst_c_stride, long dst_w_stride) {
  for (long h = 0; h < h_scale; h++) {
    for (long x = 0; x < w * w_scale; x++) {
      __builtin_memcpy(dst + (h * dst_w_stride + x) * dst_c_stride, src + x / w_scale * src_c_stride,
                       (ulong)c * sizeof(T));
    }
  }
}
template <class T>
__inl void __dma_memset(T* p, T value, long count) {
  for (long i = 0; i < count; i++) p[i] = value;
}

template <class T>
__inl void __prefetch(const T* p) {
  __builtin_prefetch(p);
}
template <class T>
__inl void __prefetch_second(const T* p) {
  __builtin_prefetch(p, 0, 2);
}
__inl void __flush_cache(int) {}
__inl int alloc_event() { return 0; }
__inl void wait_events(int) {}
__inl void free_events(int) {}
__inl void __perf_record_tick_begin(int) {}
__inl void __perf_record_tick_end(int) {}

// ---- the TEC ----

static __thread const aipu_tec_context* __tec;
#define CLK_LOCAL_MEM_FENCE 1
__inl int get_local_id(int) { return __tec->tec_id; }
__inl int get_local_size(int) { return __tec->tec_count; }
__inl void barrier(int) { __tec->barrier(__tec); }
static __attribute__((noinline, cold)) void __report_fault(int code, long value, long limit) {
  aipu_report_fault(__tec->fault, code, value, limit);
}
template <class T>
__inl T* __lsram_array(uint offset) {
  return (T*)__builtin_assume_aligned(__tec->lsram + offset, 64);
}
template <class T>
__inl T* __shared_array(uint offset) {
  return (T*)__builtin_assume_aligned(__tec->shared + offset, 64);
}

// The scalar parameter in an ABI word. Addresses as 32-bit integers, which is what the language has (S.reinterpret):
// those that were turned into integers are kept, and give an integer near one of them its upper half back, the latest
// first.
static struct {
  ulong taken[64];
  uint count;
} __addresses;
template <class T>
__attribute__((noinline)) static uint __address32(T* p) {
  const uint at = __atomic_fetch_add(&__addresses.count, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&__addresses.taken[at % 64], (ulong)p, __ATOMIC_RELAXED);
  return (uint)(ulong)p;
}
template <class T>
__attribute__((noinline)) static T __address64(uint low) {
  ulong nearest = ~0ul, found = low;
  const uint count = __atomic_load_n(&__addresses.count, __ATOMIC_RELAXED);
  for (uint i = 1; i <= 64 && low != 0; i++) {
    const ulong taken = __atomic_load_n(&__addresses.taken[(count - i) % 64], __ATOMIC_RELAXED);
    const long offset = (int)(low - (uint)taken);
    const ulong distance = (ulong)(offset < 0 ? -offset : offset);
    if (taken == 0 || distance >= nearest) continue;
    nearest = distance;
    found = taken + (ulong)offset;
  }
  return (T)found;
}

template <class T>
__inl T __argument(unsigned long long word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}

// 4 x 4 matrix products: x row by row, y column by column; accumulated in double and rounded once.
template <bool Accumulate, class P, class X>
__inl void __matrix(P* pointer, X x, X y) {
  float out[16];
  __builtin_memcpy(out, pointer, sizeof(out));
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < 4; j++) {
      double sum = Accumulate ? (double)out[4 * i + j] : 0.0;
      for (int k = 0; k < 4; k++)
        sum += (double)(float)__get_lane(x, 4 * i + k) * (double)(float)__get_lane(y, 4 * j + k);
      out[4 * i + j] = (float)sum;
    }
  }
  __builtin_memcpy(pointer, out, sizeof(out));
}
template <class P, class X>
__inl void __vmml(P* pointer, X x, X y) {
  __matrix<false>(pointer, x, y);
}
template <class P, class X>
__inl void __vmma(P* pointer, X x, X y) {
  __matrix<true>(pointer, x, y);
}
