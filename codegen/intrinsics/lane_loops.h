// The loops that lane functions are made of. Lane functions write every lane of the result; lanes whose mask bit is off
// get the pass-through or 0. Private to codegen/intrinsics.
#pragma once

#include "codegen/intrinsics/lane_types.h"
#include "codegen/intrinsics/lanes.h"

namespace aipu::tir {

template <typename T>
inline T* lanes_of(const LaneRef& ref) {
  return reinterpret_cast<T*>(ref.data);
}

// Overwrites the inactive lanes of a finished result.
template <typename R>
inline void blend_inactive(const LaneCall& c) {
  if (c.mask == nullptr) return;
  R* out = lanes_of<R>(c.result);
  const R* off = c.pass_through ? lanes_of<R>(*c.pass_through) : nullptr;
  for (int i = 0; i < c.result.type.lanes; ++i) {
    if (c.mask->data[i] == std::byte{0}) out[i] = off ? off[i] : R{};
  }
}

// result[i] = op(x[i]) in compute types; T: lanes of x, R: lanes of the result.
template <typename R, typename T, typename Op>
inline void map1(const LaneCall& c, Op op) {
  const T* x = lanes_of<T>(c.operands[0]);
  R* out = lanes_of<R>(c.result);
  for (int i = 0; i < c.result.type.lanes; ++i) out[i] = from_compute<R>(op(to_compute(x[i])));
  blend_inactive<R>(c);
}

template <typename R, typename T, typename Op>
inline void map2(const LaneCall& c, Op op) {
  const T* x = lanes_of<T>(c.operands[0]);
  const T* y = lanes_of<T>(c.operands[1]);
  R* out = lanes_of<R>(c.result);
  for (int i = 0; i < c.result.type.lanes; ++i) out[i] = from_compute<R>(op(to_compute(x[i]), to_compute(y[i])));
  blend_inactive<R>(c);
}

template <typename T, typename Op>
inline void map3(const LaneCall& c, Op op) {
  const T* x = lanes_of<T>(c.operands[0]);
  const T* y = lanes_of<T>(c.operands[1]);
  const T* z = lanes_of<T>(c.operands[2]);
  T* out = lanes_of<T>(c.result);
  for (int i = 0; i < c.result.type.lanes; ++i)
    out[i] = from_compute<T>(op(to_compute(x[i]), to_compute(y[i]), to_compute(z[i])));
  blend_inactive<T>(c);
}

using Wide = __int128;

// An integer lane, exact.
inline Wide wide_lane(const LaneRef& ref, int64_t lane) {
  const int64_t value = read_int_lane(ref.type, ref.data, lane);
  return ref.type.element == DType::kU64 ? static_cast<Wide>(static_cast<uint64_t>(value)) : static_cast<Wide>(value);
}

template <typename T>
inline T clamp_to(Wide value) {
  constexpr Wide kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
  return static_cast<T>(value < kLow ? kLow : value > kHigh ? kHigh : value);
}

// result[i] = op(lanes as exact integers), wrapped or clamped into the result's type. For operands of mixed signs and
// for cold intrinsics.
template <typename Op>
inline void map_wide(const LaneCall& c, bool saturate, Op op) {
  with_int_type(c.result.type.element, [&]<typename R>(R) {
    R* out = lanes_of<R>(c.result);
    for (int i = 0; i < c.result.type.lanes; ++i) {
      const Wide value = op(i);
      out[i] = saturate ? clamp_to<R>(value) : static_cast<R>(value);
    }
    blend_inactive<R>(c);
  });
}

Status lane_type_error(const LaneCall& call);  // a type that the type rule does not let through

}  // namespace aipu::tir
