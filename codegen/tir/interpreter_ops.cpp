// The instructions of the interpreter: tight loops over lanes. Compiled with optimisation in every build type
// (codegen/CMakeLists.txt).
#include <fmt/format.h>

#include "codegen/intrinsics/lane_types.h"
#include "codegen/tir/interpreter_code.h"

namespace aipu::tir::ops {
namespace {

using In = const Instruction*;

// ---- elementwise ----

template <BinaryOp kOp, typename C>
inline C apply(C x, C y) {
  if constexpr (kOp == BinaryOp::kAdd)
    return wrapping_add(x, y);
  else if constexpr (kOp == BinaryOp::kSub)
    return wrapping_sub(x, y);
  else if constexpr (kOp == BinaryOp::kMul)
    return wrapping_mul(x, y);
  else if constexpr (kOp == BinaryOp::kDiv)
    return lane_div(x, y);
  else if constexpr (kOp == BinaryOp::kMod)
    return lane_mod(x, y);
  else if constexpr (kOp == BinaryOp::kMin)
    return lane_min(x, y);
  else if constexpr (kOp == BinaryOp::kMax)
    return lane_max(x, y);
  else if constexpr (kOp == BinaryOp::kBitAnd)
    return static_cast<C>(x & y);
  else if constexpr (kOp == BinaryOp::kBitOr)
    return static_cast<C>(x | y);
  else if constexpr (kOp == BinaryOp::kBitXor)
    return static_cast<C>(x ^ y);
  else if constexpr (kOp == BinaryOp::kShl)
    return lane_shl(x, static_cast<uint64_t>(static_cast<std::make_unsigned_t<C>>(y)));
  else
    return lane_shr(x, static_cast<uint64_t>(static_cast<std::make_unsigned_t<C>>(y)));
}

// kLanes 0: as many as the instruction says.
template <BinaryOp kOp, typename T, int kLanes>
In run_binary(In in, Machine& m) {
  const T* x = m.at<T>(in->a);
  const T* y = m.at<T>(in->b);
  T* out = m.at<T>(in->dst);
  const int n = kLanes == 0 ? in->n : kLanes;
  for (int i = 0; i < n; ++i) out[i] = from_compute<T>(apply<kOp>(to_compute(x[i]), to_compute(y[i])));
  return in + 1;
}

// Scalar division and shifts differ from those of vectors.
template <BinaryOp kOp, typename T>
In run_scalar_division(In in, Machine& m) {
  const T y = m.value<T>(in->b);
  if (y == 0) return m.fail(in, invalid_argument("integer division by zero"));
  m.value<T>(in->dst) = apply<kOp>(m.value<T>(in->a), y);
  return in + 1;
}
template <BinaryOp kOp, typename T>
In run_scalar_shift(In in, Machine& m) {
  const uint64_t count = scalar_shift_count(m.value<T>(in->b));
  const T x = m.value<T>(in->a);
  m.value<T>(in->dst) = kOp == BinaryOp::kShl ? lane_shl(x, count) : lane_shr(x, count);
  return in + 1;
}

template <BinaryOp kOp>
constexpr bool kForInts = kOp == BinaryOp::kMod || kOp == BinaryOp::kShl || kOp == BinaryOp::kShr;
template <BinaryOp kOp>
constexpr bool kForBits = kOp == BinaryOp::kBitAnd || kOp == BinaryOp::kBitOr || kOp == BinaryOp::kBitXor;

template <BinaryOp kOp>
Handler choose_binary(DType element, int lanes) {
  Handler handler = nullptr;
  with_lane_type(element, [&]<typename T>(T) {
    if constexpr (kForBits<kOp> ? !kIsFloatLane<T> : kForInts<kOp> ? kIsIntLane<T> : !std::is_same_v<T, Bool>) {
      handler = run_binary<kOp, T, 0>;
      if constexpr (!std::is_same_v<T, Bool>) {
        if (lanes == 1) handler = run_binary<kOp, T, 1>;
      }
      if constexpr (kIsIntLane<T> && (kOp == BinaryOp::kDiv || kOp == BinaryOp::kMod)) {
        if (lanes == 1) handler = run_scalar_division<kOp, T>;
      }
      if constexpr (kOp == BinaryOp::kShl || kOp == BinaryOp::kShr) {
        if (lanes == 1) handler = run_scalar_shift<kOp, T>;
      }
      if constexpr (std::is_same_v<T, float>) {
        if (lanes == 8) handler = run_binary<kOp, T, 8>;
        if (lanes == 16) handler = run_binary<kOp, T, 16>;
      }
    }
  });
  return handler;
}

template <BinaryOp kOp, typename T>
In run_compare(In in, Machine& m) {
  const T* x = m.at<T>(in->a);
  const T* y = m.at<T>(in->b);
  auto* out = m.at<uint8_t>(in->dst);
  for (int i = 0; i < in->n; ++i) {
    const auto a = to_compute(x[i]);
    const auto b = to_compute(y[i]);
    out[i] = kOp == BinaryOp::kEq   ? a == b
             : kOp == BinaryOp::kNe ? a != b
             : kOp == BinaryOp::kLt ? a < b
             : kOp == BinaryOp::kLe ? a <= b
             : kOp == BinaryOp::kGt ? a > b
                                    : a >= b;
  }
  return in + 1;
}

template <BinaryOp kOp>
Handler choose_compare(DType element) {
  Handler handler = nullptr;
  with_lane_type(element, [&]<typename T>(T) { handler = run_compare<kOp, T>; });
  return handler;
}

template <typename T>
In run_not(In in, Machine& m) {
  const T* x = m.at<T>(in->a);
  T* out = m.at<T>(in->dst);
  for (int i = 0; i < in->n; ++i) {
    if constexpr (std::is_same_v<T, Bool>)
      out[i] = {static_cast<uint8_t>(x[i].value == 0)};
    else
      out[i] = static_cast<T>(~x[i]);
  }
  return in + 1;
}

template <typename To, typename From>
In run_convert(In in, Machine& m) {
  const From* x = m.at<From>(in->a);
  To* out = m.at<To>(in->dst);
  for (int i = 0; i < in->n; ++i) out[i] = convert_lane<To>(to_compute(x[i]));
  return in + 1;
}

template <typename Word>
In run_broadcast(In in, Machine& m) {
  const Word x = m.value<Word>(in->a);
  Word* out = m.at<Word>(in->dst);
  for (int i = 0; i < in->n; ++i) out[i] = x;
  return in + 1;
}

template <typename Word>
In run_select(In in, Machine& m) {
  const Word* x = m.at<Word>(in->a);
  const Word* y = m.at<Word>(in->b);
  const auto* mask = m.at<uint8_t>(in->c);
  Word* out = m.at<Word>(in->dst);
  for (int i = 0; i < in->n; ++i) out[i] = mask[i] ? x[i] : y[i];
  return in + 1;
}

// ---- fused multiply-add: exact wherever it runs ----

template <int kLanes>
In run_fma_f32(In in, Machine& m) {
  const float *acc = m.at<float>(in->a), *x = m.at<float>(in->b), *y = m.at<float>(in->c);
  float* out = m.at<float>(in->dst);
  const int n = kLanes == 0 ? in->n : kLanes;
  for (int i = 0; i < n; ++i) out[i] = __builtin_fmaf(x[i], y[i], acc[i]);
  return in + 1;
}
In run_fma_f64(In in, Machine& m) {
  const double *acc = m.at<double>(in->a), *x = m.at<double>(in->b), *y = m.at<double>(in->c);
  double* out = m.at<double>(in->dst);
  for (int i = 0; i < in->n; ++i) out[i] = __builtin_fma(x[i], y[i], acc[i]);
  return in + 1;
}
#if defined(__x86_64__)
// The same with the instruction of the CPU, where it has one.
template <int kLanes>
__attribute__((target("avx2,fma"))) In run_native_fma_f32(In in, Machine& m) {
  const float* __restrict acc = m.at<float>(in->a);
  const float* __restrict x = m.at<float>(in->b);
  const float* __restrict y = m.at<float>(in->c);
  float* out = m.at<float>(in->dst);
  const int n = kLanes == 0 ? in->n : kLanes;
  // Through a temporary: the result may be the accumulator.
  if constexpr (kLanes != 0) {
    float result[kLanes];
    for (int i = 0; i < kLanes; ++i) result[i] = __builtin_fmaf(x[i], y[i], acc[i]);
    __builtin_memcpy(out, result, sizeof(result));
  } else {
    for (int i = 0; i < n; ++i) out[i] = __builtin_fmaf(x[i], y[i], acc[i]);
  }
  return in + 1;
}
#endif

// ---- memory ----

In run_copy(In in, Machine& m) {
  std::memcpy(m.frame + in->dst, m.frame + in->a, static_cast<size_t>(in->number));
  return in + 1;
}

In refused(In in, Machine& m, Pointer pointer, int64_t offset, int64_t bytes, bool write) {
  return m.fail(in, m.access_error(pointer, offset, bytes, write));
}

// The byte offset of element `index`; an overflow lands outside every region.
inline int64_t element_offset(int64_t index, int64_t bytes) {
  int64_t offset;
  return __builtin_mul_overflow(index, bytes, &offset) ? std::numeric_limits<int64_t>::max() : offset;
}

template <typename Index, int kBytes>
In run_load(In in, Machine& m) {
  const int64_t bytes = kBytes == 0 ? in->number : kBytes;
  const Pointer pointer = m.value<Pointer>(in->a);
  const int64_t offset = element_offset(m.value<Index>(in->b), bytes);
  const std::byte* data = m.access(pointer, offset, bytes, false);
  if (data == nullptr) return refused(in, m, pointer, offset, bytes, false);
  std::memcpy(m.frame + in->dst, data, static_cast<size_t>(bytes));
  return in + 1;
}

template <typename Index, int kBytes>
In run_store(In in, Machine& m) {
  const int64_t bytes = kBytes == 0 ? in->number : kBytes;
  const Pointer pointer = m.value<Pointer>(in->a);
  const int64_t offset = element_offset(m.value<Index>(in->b), bytes);
  std::byte* data = m.access(pointer, offset, bytes, true);
  if (data == nullptr) return refused(in, m, pointer, offset, bytes, true);
  std::memcpy(data, m.frame + in->c, static_cast<size_t>(bytes));
  return in + 1;
}

In run_vector_load(In in, Machine& m) {
  const Pointer pointer = m.value<Pointer>(in->a);
  const std::byte* data = m.access(pointer, 0, in->number, false);
  if (data == nullptr) return refused(in, m, pointer, 0, in->number, false);
  std::memcpy(m.frame + in->dst, data, static_cast<size_t>(in->number));
  return in + 1;
}
In run_vector_store(In in, Machine& m) {
  const Pointer pointer = m.value<Pointer>(in->a);
  std::byte* data = m.access(pointer, 0, in->number, true);
  if (data == nullptr) return refused(in, m, pointer, 0, in->number, true);
  std::memcpy(data, m.frame + in->c, static_cast<size_t>(in->number));
  return in + 1;
}

template <typename Index, bool kSubtract>
In run_pointer_add(In in, Machine& m) {
  Pointer pointer = m.value<Pointer>(in->a);
  const auto distance =
      static_cast<uint64_t>(static_cast<int64_t>(m.value<Index>(in->b))) * static_cast<uint64_t>(in->number);
  const auto offset = static_cast<uint64_t>(pointer.offset);
  pointer.offset = static_cast<int64_t>(kSubtract ? offset - distance : offset + distance);
  m.value<Pointer>(in->dst) = pointer;
  return in + 1;
}

template <BinaryOp kOp>
In run_pointer_compare(In in, Machine& m) {
  const uintptr_t a = m.real_address(m.value<Pointer>(in->a)), b = m.real_address(m.value<Pointer>(in->b));
  m.value<uint8_t>(in->dst) = lane_compare(kOp, a, b);
  return in + 1;
}

template <typename Index, int kBytes>
In run_lane_read(In in, Machine& m) {
  const int64_t index = m.value<Index>(in->b);
  if (index < 0 || index >= in->n)
    return m.fail(in, invalid_argument(fmt::format("lane {} of a vector of {} lanes is read", index, in->n)));
  std::memcpy(m.frame + in->dst, m.frame + in->a + index * kBytes, kBytes);
  return in + 1;
}
template <typename Index, int kBytes>
In run_lane_write(In in, Machine& m) {
  const int64_t index = m.value<Index>(in->b);
  if (index < 0 || index >= in->n)
    return m.fail(in, invalid_argument(fmt::format("lane {} of a vector of {} lanes is written", index, in->n)));
  std::memcpy(m.frame + in->dst + index * kBytes, m.frame + in->c, kBytes);
  return in + 1;
}

// ---- control ----

In run_jump(In in, Machine& m) { return m.code() + in->target; }

template <bool kValue>
In run_jump_if(In in, Machine& m) {
  return (m.value<uint8_t>(in->a) != 0) == kValue ? m.code() + in->target : in + 1;
}

In limit_exceeded(In in, Machine& m) { return m.fail(in, m.limit_error()); }

In run_work(In in, Machine& m) {
  if (!m.step(0, in->number)) return limit_exceeded(in, m);
  return in + 1;
}

template <typename T>
In run_loop_enter(In in, Machine& m) {
  if (m.value<T>(in->b) <= 0) return m.fail(in, invalid_argument("the step of a loop is not positive"));
  return m.value<T>(in->dst) < m.value<T>(in->a) ? in + 1 : m.code() + in->target;
}
template <typename T>
In run_loop_next(In in, Machine& m) {
  if (!m.step(in->n, in->number)) return limit_exceeded(in, m);
  T next;
  if (__builtin_add_overflow(m.value<T>(in->dst), m.value<T>(in->b), &next) || next >= m.value<T>(in->a)) return in + 1;
  m.value<T>(in->dst) = next;
  return m.code() + in->target;
}
In run_loop_jump(In in, Machine& m) {
  if (!m.step(in->n, in->number)) return limit_exceeded(in, m);
  return m.code() + in->target;
}
In run_call(In in, Machine& m) {
  if (!m.step(in->n, in->number)) return limit_exceeded(in, m);
  m.returns.push_back(in + 1);
  return m.code() + in->target;
}
In run_return(In, Machine& m) {
  if (m.returns.empty()) return nullptr;
  In next = m.returns.back();
  m.returns.pop_back();
  return next;
}

In run_intrinsic(In in, Machine& m) {
  const CallSite& site = *in->site;
  constexpr size_t kMost = 16;
  LaneRef few[kMost];
  std::vector<LaneRef> many;
  LaneRef* operands = few;
  if (site.operands.size() > kMost) {
    many.resize(site.operands.size());
    operands = many.data();
  }
  for (size_t i = 0; i < site.operands.size(); ++i)
    operands[i] = {site.operands[i].first, m.frame + site.operands[i].second};
  const LaneRef mask{Type::vector(DType::kBool, site.result.lanes), m.frame + site.mask};
  const LaneRef pass_through{site.pass_through_type, m.frame + site.pass_through};
  const LaneCall call{*site.call,
                      {site.result, m.frame + in->dst},
                      {operands, site.operands.size()},
                      site.has_mask ? &mask : nullptr,
                      site.has_pass_through ? &pass_through : nullptr,
                      &m};
  Status status = site.call->intrinsic->run(call);
  if (!status.ok()) return m.fail(in, std::move(status));
  return in + 1;
}

In run_tec_id(In in, Machine& m) {
  m.value<int32_t>(in->dst) = m.tec_id();
  return in + 1;
}
In run_tec_count(In in, Machine& m) {
  m.value<int32_t>(in->dst) = m.tec_count();
  return in + 1;
}

// Calls f with a signed index type.
template <typename F>
Handler with_index(DType index, F&& f) {
  switch (index) {
    case DType::kI8:
      return f(int8_t{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI64:
      return f(int64_t{});
    default:
      return f(int32_t{});
  }
}

// The handler that f gives for elements of so many bytes, a constant; 0 is any other number than those of scalars.
template <typename F>
Handler with_bytes(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 8:
      return f(std::integral_constant<int, 8>());
    default:
      return f(std::integral_constant<int, 0>());
  }
}

}  // namespace

Handler binary(BinaryOp op, DType element, int lanes) {
  switch (op) {
    case BinaryOp::kAdd:
      return choose_binary<BinaryOp::kAdd>(element, lanes);
    case BinaryOp::kSub:
      return choose_binary<BinaryOp::kSub>(element, lanes);
    case BinaryOp::kMul:
      return choose_binary<BinaryOp::kMul>(element, lanes);
    case BinaryOp::kDiv:
      return choose_binary<BinaryOp::kDiv>(element, lanes);
    case BinaryOp::kMod:
      return choose_binary<BinaryOp::kMod>(element, lanes);
    case BinaryOp::kMin:
      return choose_binary<BinaryOp::kMin>(element, lanes);
    case BinaryOp::kMax:
      return choose_binary<BinaryOp::kMax>(element, lanes);
    case BinaryOp::kBitAnd:
      return choose_binary<BinaryOp::kBitAnd>(element, lanes);
    case BinaryOp::kBitOr:
      return choose_binary<BinaryOp::kBitOr>(element, lanes);
    case BinaryOp::kBitXor:
      return choose_binary<BinaryOp::kBitXor>(element, lanes);
    case BinaryOp::kShl:
      return choose_binary<BinaryOp::kShl>(element, lanes);
    case BinaryOp::kShr:
      return choose_binary<BinaryOp::kShr>(element, lanes);
    default:
      return nullptr;
  }
}

Handler compare(BinaryOp op, DType element) {
  switch (op) {
    case BinaryOp::kEq:
      return choose_compare<BinaryOp::kEq>(element);
    case BinaryOp::kNe:
      return choose_compare<BinaryOp::kNe>(element);
    case BinaryOp::kLt:
      return choose_compare<BinaryOp::kLt>(element);
    case BinaryOp::kLe:
      return choose_compare<BinaryOp::kLe>(element);
    case BinaryOp::kGt:
      return choose_compare<BinaryOp::kGt>(element);
    case BinaryOp::kGe:
      return choose_compare<BinaryOp::kGe>(element);
    default:
      return nullptr;
  }
}

Handler unary_not(DType element) {
  Handler handler = nullptr;
  with_lane_type(element, [&]<typename T>(T) {
    if constexpr (!kIsFloatLane<T>) handler = run_not<T>;
  });
  return handler;
}

Handler convert(DType to, DType from) {
  Handler handler = nullptr;
  const auto choose = [&]<typename To>(To) {
    with_lane_type(from, [&]<typename From>(From) { handler = run_convert<To, From>; });
  };
  switch (to) {
    case DType::kI32:
      choose(int32_t{});
      break;
    case DType::kI64:
      choose(int64_t{});
      break;
    case DType::kF32:
      choose(float{});
      break;
    default:
      break;
  }
  return handler;
}

Handler broadcast(DType element) {
  switch (dtype_bytes(element)) {
    case 1:
      return run_broadcast<uint8_t>;
    case 2:
      return run_broadcast<uint16_t>;
    case 4:
      return run_broadcast<uint32_t>;
    default:
      return run_broadcast<uint64_t>;
  }
}

Handler select_lanes(DType element) {
  switch (dtype_bytes(element)) {
    case 1:
      return run_select<uint8_t>;
    case 2:
      return run_select<uint16_t>;
    case 4:
      return run_select<uint32_t>;
    default:
      return run_select<uint64_t>;
  }
}

Handler fma(DType element, int lanes) {
  if (element == DType::kF64) return run_fma_f64;
  if (element != DType::kF32) return nullptr;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return lanes == 8 ? run_native_fma_f32<8> : lanes == 16 ? run_native_fma_f32<16> : run_native_fma_f32<0>;
  }
#endif
  return lanes == 8 ? run_fma_f32<8> : lanes == 16 ? run_fma_f32<16> : run_fma_f32<0>;
}

Handler copy() { return run_copy; }

Handler load(int64_t bytes, DType index) {
  return with_index(index, [&]<typename I>(I) {
    return with_bytes(bytes,
                      []<int kBytes>(std::integral_constant<int, kBytes>) -> Handler { return run_load<I, kBytes>; });
  });
}
Handler store(int64_t bytes, DType index) {
  return with_index(index, [&]<typename I>(I) {
    return with_bytes(bytes,
                      []<int kBytes>(std::integral_constant<int, kBytes>) -> Handler { return run_store<I, kBytes>; });
  });
}
Handler vector_load() { return run_vector_load; }
Handler vector_store() { return run_vector_store; }

Handler pointer_add(DType index, bool subtract) {
  return with_index(
      index, [&]<typename I>(I) -> Handler { return subtract ? run_pointer_add<I, true> : run_pointer_add<I, false>; });
}
Handler pointer_compare(BinaryOp op) {
  switch (op) {
    case BinaryOp::kEq:
      return run_pointer_compare<BinaryOp::kEq>;
    case BinaryOp::kNe:
      return run_pointer_compare<BinaryOp::kNe>;
    case BinaryOp::kLt:
      return run_pointer_compare<BinaryOp::kLt>;
    case BinaryOp::kLe:
      return run_pointer_compare<BinaryOp::kLe>;
    case BinaryOp::kGt:
      return run_pointer_compare<BinaryOp::kGt>;
    default:
      return run_pointer_compare<BinaryOp::kGe>;
  }
}
Handler lane_read(int64_t bytes, DType index) {
  return with_index(index, [&]<typename I>(I) {
    return with_bytes(
        bytes, []<int kBytes>(std::integral_constant<int, kBytes>) -> Handler { return run_lane_read<I, kBytes>; });
  });
}
Handler lane_write(int64_t bytes, DType index) {
  return with_index(index, [&]<typename I>(I) {
    return with_bytes(
        bytes, []<int kBytes>(std::integral_constant<int, kBytes>) -> Handler { return run_lane_write<I, kBytes>; });
  });
}

Handler jump() { return run_jump; }
Handler jump_if(bool value) { return value ? run_jump_if<true> : run_jump_if<false>; }
Handler loop_enter(DType element) {
  Handler handler = nullptr;
  with_int_type(element, [&]<typename T>(T) { handler = run_loop_enter<T>; });
  return handler;
}
Handler loop_next(DType element) {
  Handler handler = nullptr;
  with_int_type(element, [&]<typename T>(T) { handler = run_loop_next<T>; });
  return handler;
}
Handler loop_jump() { return run_loop_jump; }
Handler call() { return run_call; }
Handler return_() { return run_return; }
Handler intrinsic() { return run_intrinsic; }
Handler tec_id() { return run_tec_id; }
Handler work() { return run_work; }
Handler tec_count() { return run_tec_count; }

}  // namespace aipu::tir::ops
