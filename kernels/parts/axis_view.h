// A tensor seen as [outer, extent, inner] around one axis; and the small conversions that index-moving plugins share.
#pragma once

#include "kernels/plugin.h"

namespace aipu::kernels {

struct AxisView {
  graph::Dim outer = 1, extent = 1, inner = 1;
  NamedScalars scalars() const { return {{"outer", outer}, {"extent", extent}, {"inner", inner}}; }
};

// `axis` may be negative; rank 0 is seen as [1, 1, 1].
AxisView axis_view(const graph::Shape& shape, int64_t axis);

// The unsigned type of an element's size: how data moves that nobody computes with.
DType raw_dtype(DType dtype);
// What a kernel's pointer is declared as: bool tensors are bytes.
inline DType storage_dtype(DType dtype) { return dtype == DType::kBool ? DType::kU8 : dtype; }

// Parameter packs.
dsl::Captured scalar_types(size_t count, DType dtype = DType::kI32);
dsl::Captured pointer_types(size_t count, DType element);

}  // namespace aipu::kernels
