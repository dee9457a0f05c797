// Makes c_code valid for a C++ compiler, with prelude_vectors.h, prelude_conversions.h, prelude_memory.h and
// prelude_names.h, which follow in this order: the prelude of hosts, under the names and with the types of Compass C.
// Vectors are classes here, because `(float8)x` is a value of all lanes and `a[i]` of a vector pointer may lie
// anywhere, and so are integers, because the operators of C trap, promote and leave undefined what the language
// defines; what computes are the functions of the other preludes. The words of the types are macros that follow.

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
