// Loads, stores and DMA of Compass C, and how an entry begins and ends.

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
template <int Rows, class A, class B>
__inl void __c__tile_dot(__int_c<int>* c, const __int_c<A>* a, long stride, const __int_c<B>* b, long steps) {
  __tile_dot<Rows>((int*)c, (const A*)a, stride, (const B*)b, steps);
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

// Copies are made where they start, so events matter to nobody but the timing model, which tells four of them apart.
static __thread int __next_event;
__inl int __own_event() { return __next_event++ & 3; }
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
