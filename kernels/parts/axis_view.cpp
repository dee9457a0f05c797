#include "kernels/parts/axis_view.h"

namespace aipu::kernels {

AxisView axis_view(const graph::Shape& shape, int64_t axis) {
  AxisView view;
  if (shape.empty()) return view;
  const auto at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
  for (size_t i = 0; i < at; ++i) view.outer *= shape[i];
  view.extent = shape[at];
  for (size_t i = at + 1; i < shape.size(); ++i) view.inner *= shape[i];
  return view;
}

DType raw_dtype(DType dtype) {
  switch (dtype_bytes(dtype)) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kU16;
    case 4:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

dsl::Captured scalar_types(size_t count, DType dtype) {
  return {dsl::CapturedList(count, {dsl::CapturedType{tir::Type::scalar(dtype)}})};
}

dsl::Captured pointer_types(size_t count, DType element) {
  return {dsl::CapturedList(count, {dsl::CapturedType{tir::Type::pointer_to(element, 1, tir::Scope::kGlobal)}})};
}

}  // namespace aipu::kernels
