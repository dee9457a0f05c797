// Makes c_code valid for a C++ compiler: the prelude of the C that is compiled, under the names and with the types of
// Compass C. Vectors are classes here, because `(float8)x` is a value of all lanes and `a[i]` of a vector pointer may
// lie anywhere, and so are integers, because the operators of C trap, promote and leave undefined what the language
// defines; what computes are the functions of the other preludes. The words of the types are macros that follow the
// text of this file.

// ---- integers: operators have the type of their operands, no quotient traps, shifts count modulo the width ----

// The words of the text are macros; these are for what macros become.
typedef char __i8;
typedef uchar __u8;
typedef short __i16;
typedef ushort __u16;
typedef int __i32;
typedef uint __u32;
typedef long __i64;
typedef ulong __u64;
typedef half __f16;
typedef bf16 __bf16_t;
typedef float __f32;
typedef double __f64;

template <class T>
struct __int_c;

template <bool B>
struct __where {};
template <>
struct __where<true> {
  typedef int yes;
};
// Bare numbers of the text: they take the type of what they are used with.
template <class T>
struct __is_number {
  static constexpr bool value = __same<T, bool>::value || __same<T, char>::value || __same<T, uchar>::value ||
                                __same<T, short>::value || __same<T, ushort>::value || __same<T, int>::value ||
                                __same<T, uint>::value || __same<T, long>::value || __same<T, ulong>::value;
};
template <class T>
using __if_number = typename __where<__is_number<T>::value>::yes;

template <class T, class S>
struct __to_int {
  static __attribute__((always_inline)) constexpr T of(S x) {
    if constexpr (__is_number<S>::value)
      return (T)x;
    else
      return __convert<T>(x);
  }
};
// An address is its lower bits, of which __address64 makes the address again.
template <class T, class P>
struct __to_int<T, P*> {
  static __attribute__((always_inline)) T of(P* p) {
    if constexpr (sizeof(T) == 4)
      return (T)__address32(p);
    else
      return (T)(ulong)p;
  }
};
template <class T, class U>
struct __to_int<T, __int_c<U>> {
  static __attribute__((always_inline)) constexpr T of(__int_c<U> x) { return (T)x.v; }
};

template <class T>
struct __int_c {
  T v;
  __int_c() = default;
  template <class S>
  __attribute__((always_inline)) constexpr __int_c(S x) : v(__to_int<T, S>::of(x)) {}
  __attribute__((always_inline)) constexpr operator T() const { return v; }
  template <class P>
  __attribute__((always_inline)) explicit operator P*() const {
    if constexpr (sizeof(T) == 4)
      return __address64<P*>((uint)v);
    else
      return (P*)(ulong)v;
  }
  template <class S>
  __attribute__((always_inline)) __int_c& operator+=(S x) {
    v = (T)(v + __to_int<T, S>::of(x));
    return *this;
  }
};
// Indices of 32 and 64 bits may meet.
template <class T, class U>
using __larger = typename __if<(sizeof(T) < sizeof(U)), U, T>::type;

#define __AIPU_OPERATOR(op, function)                                     \
  template <class T, class U>                                             \
  __inl __int_c<__larger<T, U>> operator op(__int_c<T> x, __int_c<U> y) { \
    typedef __larger<T, U> R;                                             \
    return function((R)x.v, (R)y.v);                                      \
  }                                                                       \
  template <class T, class N, __if_number<N> = 0>                         \
  __inl __int_c<T> operator op(__int_c<T> x, N y) {                       \
    return function(x.v, (T)y);                                           \
  }                                                                       \
  template <class T, class N, __if_number<N> = 0>                         \
  __inl __int_c<T> operator op(N x, __int_c<T> y) {                       \
    return function((T)x, y.v);                                           \
  }
#define __AIPU_FUNCTION(name, op) \
  template <class T>              \
  __inl T name(T x, T y) {        \
    return (T)(x op y);           \
  }
__AIPU_FUNCTION(__int_add, +)
__AIPU_FUNCTION(__int_sub, -)
__AIPU_FUNCTION(__int_mul, *)
__AIPU_FUNCTION(__int_and, &)
__AIPU_FUNCTION(__int_or, |)
__AIPU_FUNCTION(__int_xor, ^)
#undef __AIPU_FUNCTION
template <class T>
__inl T __int_div(T x, T y) {
  return __builtin_constant_p(y) && y != 0 && y != (T)-1 ? (T)(x / y) : __div<T>(x, y);
}
template <class T>
__inl T __int_mod(T x, T y) {
  return __builtin_constant_p(y) && y != 0 && y != (T)-1 ? (T)(x % y) : __mod<T>(x, y);
}
// Narrow numbers are shifted in 32 bits.
template <class T>
__inl T __int_shl(T x, T count) {
  return (T)(x << (count & (sizeof(T) < 4 ? 31 : 8 * (int)sizeof(T) - 1)));
}
template <class T>
__inl T __int_shr(T x, T count) {
  return (T)(x >> (count & (sizeof(T) < 4 ? 31 : 8 * (int)sizeof(T) - 1)));
}
__AIPU_OPERATOR(+, __int_add)
__AIPU_OPERATOR(-, __int_sub)
__AIPU_OPERATOR(*, __int_mul)
__AIPU_OPERATOR(&, __int_and)
__AIPU_OPERATOR(|, __int_or)
__AIPU_OPERATOR(^, __int_xor)
__AIPU_OPERATOR(/, __int_div)
__AIPU_OPERATOR(%, __int_mod)
__AIPU_OPERATOR(<<, __int_shl)
__AIPU_OPERATOR(>>, __int_shr)
#undef __AIPU_OPERATOR
#define __AIPU_COMPARISON(op)                          \
  template <class T, class U>                          \
  __inl bool operator op(__int_c<T> x, __int_c<U> y) { \
    typedef __larger<T, U> R;                          \
    return (R)x.v op(R) y.v;                           \
  }                                                    \
  template <class T, class N, __if_number<N> = 0>      \
  __inl bool operator op(__int_c<T> x, N y) {          \
    return x.v op(T) y;                                \
  }                                                    \
  template <class T, class N, __if_number<N> = 0>      \
  __inl bool operator op(N x, __int_c<T> y) {          \
    return (T)x op y.v;                                \
  }
__AIPU_COMPARISON(==)
__AIPU_COMPARISON(!=)
__AIPU_COMPARISON(<)
__AIPU_COMPARISON(<=)
__AIPU_COMPARISON(>)
__AIPU_COMPARISON(>=)
#undef __AIPU_COMPARISON
template <class T>
__inl __int_c<T> operator~(__int_c<T> x) {
  return (T)~x.v;
}

// Functions of two integers.
#define __AIPU_FUNCTION(name)                                      \
  template <class T, class U>                                      \
  __inl __int_c<__larger<T, U>> name(__int_c<T> x, __int_c<U> y) { \
    typedef __larger<T, U> R;                                      \
    return name((R)x.v, (R)y.v);                                   \
  }                                                                \
  template <class T>                                               \
  __inl __int_c<T> name(__int_c<T> x, __int_c<T> y) {              \
    return name(x.v, y.v);                                         \
  }                                                                \
  template <class T, class N, __if_number<N> = 0>                  \
  __inl __int_c<T> name(__int_c<T> x, N y) {                       \
    return name(x.v, (T)y);                                        \
  }                                                                \
  template <class T, class N, __if_number<N> = 0>                  \
  __inl __int_c<T> name(N x, __int_c<T> y) {                       \
    return name((T)x, y.v);                                        \
  }                                                                \
  __inl __int_c<int> name(int x, int y) { return name<int>(x, y); }
__AIPU_FUNCTION(max)
__AIPU_FUNCTION(min)
__AIPU_FUNCTION(__maximum)
__AIPU_FUNCTION(__minimum)
__AIPU_FUNCTION(ceildiv)
#undef __AIPU_FUNCTION
template <class T>
__inl __int_c<T> __abs(__int_c<T> x) {
  return __abs<T>(x.v);
}
template <class T>
__inl __int_c<T> __clz(__int_c<T> x) {
  return __clz<T>(x.v);
}
__inl __int_c<int> __abs(int x) { return __abs<int>(x); }
__inl __int_c<int> __clz(int x) { return __clz<int>(x); }
template <class T>
__inl __print_argument __printable(const __int_c<T>& x) {
  return __printable(x.v);
}
// An element of a vector as the text sees it.
template <class T>
using __scalar_c = typename __if<__is_float<T>::value, T, __int_c<T>>::type;

// ---- vectors and masks ----

template <class T, int N>
struct __lanes_c;
template <class A>
struct __is_lanes_c {
  static constexpr bool value = false;
};
template <class T, int N>
struct __is_lanes_c<__lanes_c<T, N>> {
  static constexpr bool value = true;
};

template <class T, int N>
struct __attribute__((packed)) __lanes_c {
  typedef __v<T, N> Raw;
  Raw v;

  __lanes_c() = default;
  __attribute__((always_inline)) __lanes_c(Raw x) : v(x) {}
  template <class S>
  __attribute__((always_inline)) explicit __lanes_c(S scalar) : v(__splat<Raw>((T)scalar)) {}
  // (int8)(1,2,...) and (int8)(low,high)
  template <class A, class B, class... C>
  __attribute__((always_inline)) explicit __lanes_c(A first, B second, C... rest) {
    if constexpr (__is_lanes_c<A>::value) {
      const A parts[] = {first, second, rest...};
      static_assert(sizeof(parts) == sizeof(Raw), "the parts are all lanes");
      __builtin_memcpy(&v, parts, sizeof(Raw));
    } else {
      static_assert(sizeof...(C) + 2 == N, "a literal has all lanes");
      const T lanes[] = {(T)first, (T)second, (T)rest...};
      v = __from_lanes<Raw>(lanes);
    }
  }
  typedef __scalar_c<T> Lane;
  __attribute__((always_inline)) Lane& operator[](long i) { return ((Lane*)this)[i]; }
  __attribute__((always_inline)) const Lane& operator[](long i) const { return ((const Lane*)this)[i]; }
};

template <int L>
struct __mask_c {
  typedef __mask<L> Raw;
  Raw v;

  __mask_c() = default;
  __attribute__((always_inline)) __mask_c(Raw x) : v(x) {}
  // (bool8)(a,b,...) and (bool8)(low,high)
  template <class... B>
  __attribute__((always_inline)) explicit __mask_c(bool first, bool second, B... rest)
      : v(__mask_lanes<L>(first, second, rest...)) {}
  template <int H, class... B>
  __attribute__((always_inline)) explicit __mask_c(__mask_c<H> low, __mask_c<H> high, B... rest) {
    const __mask_c<H> parts[] = {low, high, rest...};
    for (int i = 0; i < L; i++) __set_mask_lane(v, i, parts[i / H][i % H]);
  }
  struct Lane {
    Raw* mask;
    long index;
    __attribute__((always_inline)) operator bool() const { return __get_mask_lane(*mask, index); }
    __attribute__((always_inline)) void operator=(bool on) { __set_mask_lane(*mask, index, on); }
  };
  __attribute__((always_inline)) bool operator[](long i) const { return __get_mask_lane(v, i); }
  __attribute__((always_inline)) Lane operator[](long i) { return {&v, i}; }
};

// ---- to the other preludes and back ----

template <class T>
__inl T __raw(T x) {
  return x;
}
template <class T, int N>
__inl __v<T, N> __raw(__lanes_c<T, N> x) {
  return x.v;
}
template <int L>
__inl __mask<L> __raw(__mask_c<L> m) {
  return m.v;
}
template <class T, int N>
__inl __v<T, N>* __raw(__lanes_c<T, N>* p) {
  return (__v<T, N>*)p;
}
template <class T, int N>
__inl const __v<T, N>* __raw(const __lanes_c<T, N>* p) {
  return (const __v<T, N>*)p;
}
template <class T>
__inl T __raw(__int_c<T> x) {
  return x.v;
}
template <class T, int N>
__inl __print_argument __printable(const __lanes_c<T, N>& x) {
  return {&x, 0, 0, (int)sizeof(x), (int)sizeof(T)};
}
template <class V>
__inl auto __vector_c(V v) {
  return __lanes_c<__e<V>, __LANES(V)>(v);
}
// The value of `__all_true`.
template <int L>
__inl __mask_c<L> operator~(__mask_c<L> m) {
  return ~m.v;
}

#define __AIPU_OPERATOR(op)                                                 \
  template <class T, int N>                                                 \
  __inl __lanes_c<T, N> operator op(__lanes_c<T, N> x, __lanes_c<T, N> y) { \
    return x.v op y.v;                                                      \
  }
__AIPU_OPERATOR(+)
__AIPU_OPERATOR(-)
__AIPU_OPERATOR(*)
__AIPU_OPERATOR(/)
#undef __AIPU_OPERATOR
// Signed and unsigned operands: the lower bits are the same, the context says how they are read.
template <class T, class U, int N>
__inl __lanes_c<T, N> operator*(__lanes_c<T, N> x, __lanes_c<U, N> y) {
  return x.v * (__v<T, N>)y.v;
}

// What vectors and masks have alike.
#define __AIPU_OF_BOTH(X) \
  X(__vand)               \
  X(__vor)                \
  X(__vxor)               \
  X(__vinv)               \
  X(__vextl)              \
  X(__vexth)              \
  X(__vexte)              \
  X(__vexto)              \
  X(__vzipl)              \
  X(__vziph)              \
  X(__vzipe)              \
  X(__vzipo)

// Functions of the other preludes whose result has the type of the first operand.
#define __AIPU_C(name)                                                \
  template <class T, int N, class... A>                               \
  __inl __lanes_c<T, N> __c##name(__lanes_c<T, N> first, A... rest) { \
    return name(first.v, __raw(rest)...);                             \
  }
__AIPU_C(__vadd)
__AIPU_C(__vadds)
__AIPU_C(__vsub)
__AIPU_C(__vsubs)
__AIPU_C(__vdiv)
__AIPU_C(__vmod)
__AIPU_C(__vabs)
__AIPU_C(__vabss)
__AIPU_C(__vrint)
__AIPU_C(__vmax)
__AIPU_C(__vmin)
__AIPU_C(__vfma)
__AIPU_C(__vfmae)
__AIPU_C(__vfmao)
__AIPU_C(__vdpa)
__AIPU_C(__vdpa_wrap)
__AIPU_C(__vqdpa)
__AIPU_C(__vrpadd)
__AIPU_C(__vrpmax)
__AIPU_C(__vrpmin)
__AIPU_C(__vrpmax_idx)
__AIPU_C(__vrpmin_idx)
__AIPU_C(__vaddh)
__AIPU_C(__vsubh)
__AIPU_C(__vmaxh)
__AIPU_C(__vminh)
__AIPU_C(__vlsl)
__AIPU_C(__vsasl)
__AIPU_C(__vasr)
__AIPU_C(__vlsr)
__AIPU_C(__vasrr)
__AIPU_C(__vlsrr)
__AIPU_C(__vror)
__AIPU_C(__vcls)
__AIPU_C(__vclz)
__AIPU_C(__vbrevs)
__AIPU_C(__vpcnt)
__AIPU_C(__vcompt)
__AIPU_C(__vcompc)
__AIPU_C(__vbcast)
__AIPU_C(__vrevs)
__AIPU_C(__vshfl)
__AIPU_C(__vreplic)
__AIPU_C(vexp)
__AIPU_C(vexp2)
__AIPU_C(vlog)
__AIPU_C(vlog2)
__AIPU_C(vlog10)
__AIPU_C(vpow)
__AIPU_C(vsqrt)
__AIPU_C(vrsqrt)
__AIPU_C(verf)
__AIPU_C(vsigmoid)
__AIPU_C(vfloor)
__AIPU_C(vceil)
__AIPU_C(vtrunc)
__AIPU_C(vround)
__AIPU_C(vsin)
__AIPU_C(vcos)
__AIPU_C(vtan)
__AIPU_C(vasin)
__AIPU_C(vacos)
__AIPU_C(vatan)
__AIPU_C(vsinh)
__AIPU_C(vcosh)
__AIPU_C(vtanh)
__AIPU_C(vasinh)
__AIPU_C(vacosh)
__AIPU_C(vatanh)
__AIPU_OF_BOTH(__AIPU_C)
#undef __AIPU_C

// The same of masks.
#define __AIPU_C(name)                                        \
  template <int L, class... A>                                \
  __inl __mask_c<L> __c##name(__mask_c<L> first, A... rest) { \
    return name(first.v, (__mask<L>)__raw(rest)...);          \
  }
__AIPU_C(__vprevs)
__AIPU_OF_BOTH(__AIPU_C)
#undef __AIPU_C
#define __AIPU_C(name)                                                   \
  template <int L, class M>                                              \
  __inl __mask_c<L> __c##name(__all_true all, __mask_c<L> second, M m) { \
    return __c##name((__mask_c<L>)all, second, m);                       \
  }
__AIPU_C(__vand)
__AIPU_C(__vor)
__AIPU_C(__vxor)
#undef __AIPU_C

// Comparisons.
#define __AIPU_C(name)                                                     \
  template <class T, int N, class M>                                       \
  __inl __mask_c<N> __c##name(__lanes_c<T, N> x, __lanes_c<T, N> y, M m) { \
    return name(x.v, y.v, __raw(m));                                       \
  }
__AIPU_C(__vceq)
__AIPU_C(__vcneq)
__AIPU_C(__vcge)
__AIPU_C(__vcgt)
__AIPU_C(__vcle)
__AIPU_C(__vclt)
__AIPU_C(__vqeq)
__AIPU_C(__vqne)
__AIPU_C(__vqge)
__AIPU_C(__vqgt)
__AIPU_C(__vqle)
__AIPU_C(__vqlt)
#undef __AIPU_C

// ---- what has another form there, or none ----

// Products, and the exact ones of half of the lanes. Their mask is that of the operands, or of the products where a
// product of extended lanes has become one of these.
template <class M, int N>
struct __is_mask_of {
  static constexpr bool value = false;
};
template <int N>
struct __is_mask_of<__mask_c<N>, N> {
  static constexpr bool value = true;
};
template <class T, int N, class U, int L, class Y, class M>
__inl __lanes_c<T, N> __c__vmul(__lanes_c<T, N> r, __lanes_c<U, L> x, Y y, M m) {
  if constexpr (__is_float<T>::value || sizeof(T) == sizeof(U) && sizeof(T) != 4)
    return __vmul(r.v, x.v, __raw(y), __raw(m));
  else if constexpr (N != L && __is_mask_of<M, N>::value)
    return __select(m.v, __vmull(r.v, x.v, __raw(y), ALL_TRUE), r.v);
  else
    return __vmull(r.v, x.v, __raw(y), __raw(m));
}
template <class T, int N, class U, int L, class Y, class M>
__inl __lanes_c<T, N> __c__vmulh(__lanes_c<T, N> r, __lanes_c<U, L> x, Y y, M m) {
  if constexpr (N != L && __is_mask_of<M, N>::value)
    return __select(m.v, __vmulh(r.v, x.v, __raw(y), ALL_TRUE), r.v);
  else
    return __vmulh(r.v, x.v, __raw(y), __raw(m));
}

// Lanes that are off add nothing; of the first operand only the type counts.
template <class T, int N, class X, class Y, class M>
__inl __lanes_c<T, N> __c__vdot(__lanes_c<T, N>, X x, Y y, M m) {
  return __vdot(__splat<__v<T, N>>(0), x.v, y.v, __raw(m));
}
template <class T, int N, class X, class Y, class M>
__inl __lanes_c<T, N> __c__vqdot(__lanes_c<T, N>, X x, Y y, M m) {
  return __vqdot(__splat<__v<T, N>>(0), x.v, y.v, __raw(m));
}

template <class T, int N, class M>
__inl __lanes_c<T, N> __c__vbclr(__lanes_c<T, N> r, __lanes_c<T, N> x, __lanes_c<T, N> y, M m) {
  return __vand(r.v, x.v, ~y.v, __raw(m));
}
template <class T, int N, class M>
__inl __lanes_c<T, N> __c__vbset(__lanes_c<T, N> r, __lanes_c<T, N> x, __lanes_c<T, N> y, M m) {
  return __vor(r.v, x.v, ~y.v, __raw(m));
}
template <int L, class M>
__inl __mask_c<L> __c__vbclr(__mask_c<L> x, __mask_c<L> y, M m) {
  return __and((__mask<L>)__raw(m), x.v & ~y.v);
}
template <int L, class M>
__inl __mask_c<L> __c__vbset(__mask_c<L> x, __mask_c<L> y, M m) {
  return __and((__mask<L>)__raw(m), x.v | ~y.v);
}
template <int L, class M>
__inl __mask_c<L> __c__vnand(__mask_c<L> x, __mask_c<L> y, M m) {
  return __and((__mask<L>)__raw(m), ~(x.v & y.v));
}
template <int L, class M>
__inl __mask_c<L> __c__vnor(__mask_c<L> x, __mask_c<L> y, M m) {
  return __and((__mask<L>)__raw(m), ~(x.v | y.v));
}
template <int L>
__inl bool __c__vandr(__mask_c<L> m) {
  return __vandr(m.v);
}
template <int L>
__inl bool __c__vorr(__mask_c<L> m) {
  return __vorr(m.v);
}

// Classes of floats, a bit each: quiet and signalling NaN 9 and 8, infinity 7, normal 6, tiny 5, zero 4; the negative
// ones 3 (zero), 2 (tiny), 1 (normal), 0 (infinity).
template <class T>
__inl __int_c<int> __class(T x) {
  const float f = (float)x;
  if (f != f) return 0x300;
  const bool negative = __bits<__signed_of<T>>(x) < 0;
  if (!isfinite(x)) return negative ? 0x001 : 0x080;
  if (f == 0) return negative ? 0x008 : 0x010;
  return negative ? 0x002 : 0x040;
}
template <class T, int N, class M>
__inl auto __c__vclass(__lanes_c<T, N> x, M m) {
  typedef typename __if<sizeof(T) == 2, ushort, uint>::type U;
  __lanes_c<U, N> out(0);
  for (int i = 0; i < N; i++) {
    if (__lane(__raw(m), i)) out[i] = (U)__class(x[i]);
  }
  return out;
}

// Narrowing shifts: lanes of half the size, of a quarter without _h.
template <class R, bool Saturate, bool Round, class T, int N, class S, class M>
__inl auto __narrowed(__lanes_c<T, N> x, S shift, M m) {
  return __vector_c(__vnsr<__v<R, N*(int)sizeof(T) / (int)sizeof(R)>, Saturate, Round>(x.v, __raw(shift), __raw(m)));
}
#define __AIPU_C(name, Result, saturate, round)              \
  template <class X, class S, class M>                       \
  __inl auto __c__vnsr##name(X x, S shift, M m) {            \
    return __narrowed<Result, saturate, round>(x, shift, m); \
  }
__AIPU_C(a, char, false, false)
__AIPU_C(l, uchar, false, false)
__AIPU_C(ar, char, false, true)
__AIPU_C(lr, uchar, false, true)
__AIPU_C(as_s, char, true, false)
__AIPU_C(as_u, uchar, true, false)
__AIPU_C(ls_s, char, true, false)
__AIPU_C(ls_u, uchar, true, false)
__AIPU_C(asr_s, char, true, true)
__AIPU_C(asr_u, uchar, true, true)
__AIPU_C(lsr_s, char, true, true)
__AIPU_C(lsr_u, uchar, true, true)
__AIPU_C(a_h, short, false, false)
__AIPU_C(l_h, ushort, false, false)
__AIPU_C(ar_h, short, false, true)
__AIPU_C(lr_h, ushort, false, true)
__AIPU_C(as_h_s, short, true, false)
__AIPU_C(as_h_u, ushort, true, false)
__AIPU_C(ls_h_s, short, true, false)
__AIPU_C(ls_h_u, ushort, true, false)
__AIPU_C(asr_h_s, short, true, true)
__AIPU_C(asr_h_u, ushort, true, true)
__AIPU_C(lsr_h_s, short, true, true)
__AIPU_C(lsr_h_u, ushort, true, true)
#undef __AIPU_C

template <class T, int N, class M>
__inl __lanes_c<T, N> __c__vsel(__lanes_c<T, N> x, __lanes_c<T, N> y, M m) {
  return __select(__raw(m), x.v, y.v);
}
template <class T, class U, int N, class M>
__inl __lanes_c<U, N> __c__vsel(__lanes_c<T, N> x, __lanes_c<U, N> y, M m) {
  return __select(__raw(m), __bits<__v<U, N>>(x.v), y.v);
}
template <int L, class M>
__inl __mask_c<L> __c__vsel(__mask_c<L> x, __mask_c<L> y, M m) {
  return __psel(x.v, y.v, (__mask<L>)__raw(m));
}
template <int L>
__inl __mask_c<2 * L> __c__vzip(__mask_c<L> x, __mask_c<L> y) {
  return __mask_zip(x.v, y.v);
}
template <class T, int N>
__inl __lanes_c<T, 2 * N> __c__vzip(__lanes_c<T, N> x, __lanes_c<T, N> y) {
  return __vzip(x.v, y.v);
}
template <class T, int N>
__inl __lanes_c<T, N> __c__vsldl(__lanes_c<T, N> x, __lanes_c<T, N> y, int shift) {
  T both[2 * N];
  __builtin_memcpy(both, &x, sizeof(x));
  __builtin_memcpy(both + N, &y, sizeof(y));
  return __from_lanes<__v<T, N>>(both + shift);
}
template <class T, int N, class I>
__inl __lanes_c<T, N> __c__vperm(__lanes_c<T, N> low, __lanes_c<T, N> high, I indices) {
  return __vtbl(indices.v, low.v, high.v);
}
template <class T, int N, class I>
__inl __lanes_c<T, N> __c__vtbl(__lanes_c<T, N> table, I indices) {
  return __vtbl(indices.v, table.v);
}
template <class T, int N, class I>
__inl __lanes_c<T, N> __c__vtbl(__lanes_c<T, N> a, __lanes_c<T, N> b, __lanes_c<T, N> c, I indices) {
  return __vtbl(indices.v, a.v, b.v, c.v);
}
template <class T, int N, class I>
__inl __lanes_c<T, N> __c__vtbl(__lanes_c<T, N> a, __lanes_c<T, N> b, __lanes_c<T, N> c, __lanes_c<T, N> d, I indices) {
  return __vtbl(indices.v, a.v, b.v, c.v, d.v);
}

// ---- conversions ----

// Half of the lanes, twice as wide.
template <int First, class T, int N>
__inl auto __extended(__lanes_c<T, N> x) {
  typedef typename __if<__signed_elem<T>::value, typename __int_of<2 * (int)sizeof(T)>::s,
                        typename __int_of<2 * (int)sizeof(T)>::u>::type R;
  return __vector_c(__convert<__v<R, N / 2>>(__lanes_from<N / 2, First * N / 2, 1>(x.v)));
}
template <class X>
__inl auto __vsxtl(X x) {
  return __extended<0>(x);
}
template <class X>
__inl auto __vsxth(X x) {
  return __extended<1>(x);
}
template <class X>
__inl auto __vuxtl(X x) {
  return __extended<0>(x);
}
template <class X>
__inl auto __vuxth(X x) {
  return __extended<1>(x);
}

// R is a type of Compass C. `First` and `Stride` say which lanes are taken; fewer lanes than R has are followed by 0.
template <class R, bool Saturate, class X>
__inl auto __converted(X x) {
  typedef __v<__e<typename R::Raw>, __LANES(X)> Whole;
  if constexpr (Saturate)
    return __convert_sat<Whole>(x);
  else
    return __convert<Whole>(x);
}
template <class R, bool Saturate, class X>
__inl R __fitted(X x) {
  constexpr int N = __LANES(typename R::Raw), L = __LANES(X);
  if constexpr (L == N)
    return __converted<R, Saturate>(x);
  else if constexpr (L > N)
    return __converted<R, Saturate>(__lanes_from<N, 0, 1>(x));
  else
    return __fill<typename R::Raw>(__converted<R, Saturate>(x));
}
template <class R, bool Saturate = false, class T, int N>
__inl R __convert_c(__lanes_c<T, N> x) {
  return __fitted<R, Saturate>(x.v);
}
template <class R, bool Saturate = false, class T, int N>
__inl R __convert_c(__lanes_c<T, N> x, __lanes_c<T, N> y) {
  return __fitted<R, Saturate>(__concat(x.v, y.v));
}
template <class R, bool Saturate = false, class T, int N>
__inl R __convert_c(__lanes_c<T, N> x, __lanes_c<T, N> y, __lanes_c<T, N> z) {
  return __fitted<R, Saturate>(__concat(__concat(x.v, y.v), __concat(z.v, __splat<__v<T, N>>(0))));
}
template <class R, bool Saturate = false, class T, int N>
__inl R __convert_c(__lanes_c<T, N> x, __lanes_c<T, N> y, __lanes_c<T, N> z, __lanes_c<T, N> w) {
  return __fitted<R, Saturate>(__concat(__concat(x.v, y.v), __concat(z.v, w.v)));
}
template <class R, int L>
__inl R __convert_c(__mask_c<L> m) {
  return __mask_to<typename R::Raw>(m.v);
}
template <class R, class T, int N>
__inl R __convert_mask(__lanes_c<T, N> x) {
  return __to_mask(x.v);
}
// Every `Stride`th lane from a share of N / `Of`.
template <class R, int Share, int Of, int Stride, bool Saturate, class T, int N>
__inl R __convert_lanes(__lanes_c<T, N> x) {
  constexpr int L = __LANES(typename R::Raw);
  return __converted<R, Saturate>(__lanes_from < L, Stride == 2 ? Share : N / Of * Share, Stride > (x.v));
}
// A rounded vector as integers.
template <class R, class T, int N>
__inl R __vcvt(__lanes_c<T, N> x) {
  return __fitted<R, false>(__vrint(x.v, x.v, ALL_TRUE));
}
template <class R, int Share, int Of, int Stride, class T, int N>
__inl R __vcvt_lanes(__lanes_c<T, N> x) {
  return __convert_lanes<R, Share, Of, Stride, false>(__lanes_c<T, N>(__vrint(x.v, x.v, ALL_TRUE)));
}
template <class R, class T, int N>
__inl R __as_vector(__lanes_c<T, N> x) {
  return __bits<typename R::Raw>(x.v);
}
template <class R, class T, int N>
__inl R __part_of(__lanes_c<T, N> x, int first) {
  constexpr int L = __LANES(typename R::Raw);
  T lanes[N + L] = {};
  __builtin_memcpy(lanes, &x, sizeof(x));
  return __from_lanes<typename R::Raw>(lanes + first);
}
template <class R, int L>
__inl R __part_of(__mask_c<L> m, int first) {
  R out = {};
  for (int i = 0; i < __LANES(typename R::Raw); i++) out[i] = m[first + i];
  return out;
}

// ---- memory ----

template <class V, class M>
__inl V __c__vload(const V* p, M m) {
  return __vload(__raw(p), __raw(m));
}
template <class V, class M>
__inl V __c__vload_stride(const V* p, long bytes, M m) {
  return __vload_stride(__raw(p), bytes, __raw(m));
}
template <class V, class M>
__inl void __c__vstore(V value, V* p, M m) {
  __vstore(value.v, __raw(p), __raw(m));
}
template <class V, class M>
__inl void __c__vstore_stride(V value, V* p, long bytes, M m) {
  __vstore_stride(value.v, __raw(p), bytes, __raw(m));
}
// Offsets: a register, of which the lower lanes count, or several.
template <class T, int N>
__inl auto __offsets(__lanes_c<T, N> all) {
  return all.v;
}
template <class T, int N>
__inl auto __offsets(__lanes_c<T, N> low, __lanes_c<T, N> high) {
  return __concat(low.v, high.v);
}
template <class T, int N>
__inl auto __offsets(__lanes_c<T, N> a, __lanes_c<T, N> b, __lanes_c<T, N> c, __lanes_c<T, N> d) {
  return __concat(__concat(a.v, b.v), __concat(c.v, d.v));
}
template <class V, class I>
__inl V __c__vload_gather(const V* p, I a) {
  return __vload_gather(__raw(p), __offsets(a), ALL_TRUE);
}
template <class V, class I>
__inl V __c__vload_gather(const V* p, I a, I b) {
  return __vload_gather(__raw(p), __offsets(a, b), ALL_TRUE);
}
template <class V, class I>
__inl V __c__vload_gather(const V* p, I a, I b, I c, I d) {
  return __vload_gather(__raw(p), __offsets(a, b, c, d), ALL_TRUE);
}
template <class V, class I, int L>
__inl V __c__vload_gather(const V* p, I a, __mask_c<L> m) {
  return __vload_gather(__raw(p), __offsets(a), m.v);
}
template <class V, class I, int L>
__inl V __c__vload_gather(const V* p, I a, I b, __mask_c<L> m) {
  return __vload_gather(__raw(p), __offsets(a, b), m.v);
}
template <class V, class I, int L>
__inl V __c__vload_gather(const V* p, I a, I b, I c, I d, __mask_c<L> m) {
  return __vload_gather(__raw(p), __offsets(a, b, c, d), m.v);
}
template <class V, class I>
__inl void __c__vstore_scatter(V value, V* p, I a) {
  __vstore_scatter(value.v, __raw(p), __offsets(a), ALL_TRUE);
}
template <class V, class I>
__inl void __c__vstore_scatter(V value, V* p, I a, I b) {
  __vstore_scatter(value.v, __raw(p), __offsets(a, b), ALL_TRUE);
}
template <class V, class I>
__inl void __c__vstore_scatter(V value, V* p, I a, I b, I c, I d) {
  __vstore_scatter(value.v, __raw(p), __offsets(a, b, c, d), ALL_TRUE);
}
template <class V, class I, int L>
__inl void __c__vstore_scatter(V value, V* p, I a, __mask_c<L> m) {
  __vstore_scatter(value.v, __raw(p), __offsets(a), m.v);
}
template <class V, class I, int L>
__inl void __c__vstore_scatter(V value, V* p, I a, I b, __mask_c<L> m) {
  __vstore_scatter(value.v, __raw(p), __offsets(a, b), m.v);
}
template <class V, class I, int L>
__inl void __c__vstore_scatter(V value, V* p, I a, I b, I c, I d, __mask_c<L> m) {
  __vstore_scatter(value.v, __raw(p), __offsets(a, b, c, d), m.v);
}
template <class T, class X>
__inl void __c__vmml(T* p, X x, X y) {
  __vmml(p, x.v, y.v);
}
template <class T, class X>
__inl void __c__vmma(T* p, X x, X y) {
  __vmma(p, x.v, y.v);
}

// DMA is a copy, done when the call returns. The words for each pair of places follow this file; `total` is in bytes.
// They take addresses as `(int)p`, of which __AIPU_POINTER leaves the pointer.
#define __AIPU_POINTER(type)
template <class T, class S>
__inl void __dma_direct(T* dst, const S* src, long width, long src_stride, long total, long dst_stride, int = 0) {
  if (width > 0) __dma_copy((char*)dst, (const char*)src, width, src_stride, total / width, dst_stride);
}
template <class T, class S, class... N>
__inl void __dma_upsampled(T* dst, const S* src, N... counts) {
  __dma_upsample((char*)dst, (const char*)src, counts...);
}
template <class T>
__inl void DMA_Transpose2D(const T* src, T* dst, int col, int row, int src_stride, int dst_stride, int, int) {
  __dma_transpose2d(dst, src, row, col, dst_stride, src_stride);
}
// What is filled are elements of the value's type, whatever the pointer is to.
template <class T, class V>
__inl void __memset_bytes(T* p, long bytes, V value, int, int) {
  __dma_memset((V*)p, value, bytes / (long)sizeof(V));
}
#define MemsetDDR __memset_bytes
#define MemsetSRAM __memset_bytes
#define GEN_DMA_DIRECT_EXT2INT(src, dst)
#define GEN_DMA_DIRECT_INT2EXT(src, dst)
#define GEN_ASYNC_DMA_DIRECT_EXT2INT(src, dst)
#define GEN_ASYNC_DMA_DIRECT_INT2EXT(src, dst)
#define GEN_DMA_UPSAMPLE_EXT2INT(src, dst)
#define GEN_DMA_UPSAMPLE_INT2EXT(src, dst)

static __thread int __event_state;
__inl int* addr_of_event_state() { return &__event_state; }

// What a module's table calls takes words. An entry ends with a barrier; where it is the only one nobody waits, and the
// TECs need not run at the same time.
typedef unsigned long long __word;
static __thread bool __meets;
__inl void __begin(const aipu_tec_context* context, bool meets) {
  __tec = context;
  __meets = meets;
}
// Whether the kernel can run with this parameter.
template <class T>
__inl bool __not_negative(__word word) {
  const long value = (long)__argument<T>(word);
  if (value >= 0) return true;
  __report_fault(AIPU_FAULT_NEGATIVE_PARAMETER, value, 0);
  return false;
}
__inl void __barrier_c(int fence) {
  if (__meets) barrier(fence);
}

// From here on the names mean the functions above.
#define __vadd __c__vadd
#define __vadds __c__vadds
#define __vsub __c__vsub
#define __vsubs __c__vsubs
#define __vdiv __c__vdiv
#define __vmod __c__vmod
#define __vabs __c__vabs
#define __vabss __c__vabss
#define __vrint __c__vrint
#define __vmax __c__vmax
#define __vmin __c__vmin
#define __vfma __c__vfma
#define __vfmae __c__vfmae
#define __vfmao __c__vfmao
#define __vdpa __c__vdpa
#define __vdpa_wrap __c__vdpa_wrap
#define __vqdpa __c__vqdpa
#define __vdot __c__vdot
#define __vqdot __c__vqdot
#define __vrpadd __c__vrpadd
#define __vrpmax __c__vrpmax
#define __vrpmin __c__vrpmin
#define __vrpmax_idx __c__vrpmax_idx
#define __vrpmin_idx __c__vrpmin_idx
#define __vaddh __c__vaddh
#define __vsubh __c__vsubh
#define __vmaxh __c__vmaxh
#define __vminh __c__vminh
#define __vlsl __c__vlsl
#define __vsasl __c__vsasl
#define __vasr __c__vasr
#define __vlsr __c__vlsr
#define __vasrr __c__vasrr
#define __vlsrr __c__vlsrr
#define __vror __c__vror
#define __vcls __c__vcls
#define __vclz __c__vclz
#define __vbrevs __c__vbrevs
#define __vpcnt __c__vpcnt
#define __vcompt __c__vcompt
#define __vcompc __c__vcompc
#define __vbcast __c__vbcast
#define __vrevs __c__vrevs
#define __vshfl __c__vshfl
#define __vreplic __c__vreplic
#define __vextl __c__vextl
#define __vexth __c__vexth
#define __vexte __c__vexte
#define __vexto __c__vexto
#define __vzipl __c__vzipl
#define __vziph __c__vziph
#define __vzipe __c__vzipe
#define __vzipo __c__vzipo
#define __vand __c__vand
#define __vor __c__vor
#define __vxor __c__vxor
#define __vinv __c__vinv
#define vexp __cvexp
#define vexp2 __cvexp2
#define vlog __cvlog
#define vlog2 __cvlog2
#define vlog10 __cvlog10
#define vpow __cvpow
#define vsqrt __cvsqrt
#define vrsqrt __cvrsqrt
#define verf __cverf
#define vsigmoid __cvsigmoid
#define vfloor __cvfloor
#define vceil __cvceil
#define vtrunc __cvtrunc
#define vround __cvround
#define vsin __cvsin
#define vcos __cvcos
#define vtan __cvtan
#define vasin __cvasin
#define vacos __cvacos
#define vatan __cvatan
#define vsinh __cvsinh
#define vcosh __cvcosh
#define vtanh __cvtanh
#define vasinh __cvasinh
#define vacosh __cvacosh
#define vatanh __cvatanh
#undef __vprevs
#define __vprevs __c__vprevs
#undef __vceq
#define __vceq __c__vceq
#undef __vcneq
#define __vcneq __c__vcneq
#undef __vcge
#define __vcge __c__vcge
#undef __vcgt
#define __vcgt __c__vcgt
#undef __vcle
#define __vcle __c__vcle
#undef __vclt
#define __vclt __c__vclt
#define __vqeq __c__vqeq
#define __vqne __c__vqne
#define __vqge __c__vqge
#define __vqgt __c__vqgt
#define __vqle __c__vqle
#define __vqlt __c__vqlt
#define __vmul __c__vmul
#define __vmulh __c__vmulh
#define __vbclr __c__vbclr
#define __vbset __c__vbset
#define __vnand __c__vnand
#define __vnor __c__vnor
#define __vandr __c__vandr
#define __vorr __c__vorr
#define __vclass __c__vclass
#define __vsel __c__vsel
#define __vsldl __c__vsldl
#define __vzip __c__vzip
#undef __vperm
#define __vperm __c__vperm
#define __vtbl __c__vtbl
#define __vload __c__vload
#define __vload_stride __c__vload_stride
#define __vstore __c__vstore
#define __vstore_stride __c__vstore_stride
#define __vload_gather __c__vload_gather
#define __vstore_scatter __c__vstore_scatter
#define __vmml __c__vmml
#define __vmma __c__vmma
#define __vnsra __c__vnsra
#define __vnsrl __c__vnsrl
#define __vnsrar __c__vnsrar
#define __vnsrlr __c__vnsrlr
#define __vnsras_s __c__vnsras_s
#define __vnsras_u __c__vnsras_u
#define __vnsrls_s __c__vnsrls_s
#define __vnsrls_u __c__vnsrls_u
#define __vnsrasr_s __c__vnsrasr_s
#define __vnsrasr_u __c__vnsrasr_u
#define __vnsrlsr_s __c__vnsrlsr_s
#define __vnsrlsr_u __c__vnsrlsr_u
#define __vnsra_h __c__vnsra_h
#define __vnsrl_h __c__vnsrl_h
#define __vnsrar_h __c__vnsrar_h
#define __vnsrlr_h __c__vnsrlr_h
#define __vnsras_h_s __c__vnsras_h_s
#define __vnsras_h_u __c__vnsras_h_u
#define __vnsrls_h_s __c__vnsrls_h_s
#define __vnsrls_h_u __c__vnsrls_h_u
#define __vnsrasr_h_s __c__vnsrasr_h_s
#define __vnsrasr_h_u __c__vnsrasr_h_u
#define __vnsrlsr_h_s __c__vnsrlsr_h_s
#define __vnsrlsr_h_u __c__vnsrlsr_h_u
#undef __vmov_w
#define __vmov_w(bits) __mask_c<8>(__byte_mask<8>(bits))
#undef __vmov_h
#define __vmov_h(bits) __mask_c<16>(__byte_mask<16>(bits))
#undef __vmov_b
#define __vmov_b(bits) __mask_c<32>(__byte_mask<32>(bits))
#define __tail_mask_4(n) __mask_c<4>(__tail_mask<4>(n))
#define barrier __barrier_c
#define get_local_id(axis) __int_c<__i32>(get_local_id(axis))
#define get_local_size(axis) __int_c<__i32>(get_local_size(axis))
#define alloc_event() __int_c<__i32>(alloc_event())
