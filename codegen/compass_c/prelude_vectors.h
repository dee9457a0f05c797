// Vectors and masks of Compass C, and what is computed with them. prelude_integers.h says what this is part of.

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
__AIPU_C(__vdpbf16)
__AIPU_C(__vbfdot)
__AIPU_C(__vsdot)
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
