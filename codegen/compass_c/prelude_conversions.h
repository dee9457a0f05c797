// Conversions between vectors of Compass C, all lanes of them or some.

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
