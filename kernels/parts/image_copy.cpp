#include "kernels/parts/image_copy.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace aipu::kernels {

using graph::Dim;

int dot_lanes(const tir::Target& target) { return std::max(target.lanes(32), 8); }

Status copy_image(SetupContext& context, DType from, DType to, int64_t zero, bool with_padding,
                  SpatialGeometry* geometry, PointerArgument* x) {
  constexpr int64_t kSlack = 64;
  const bool flip = from != to && dtype_bits(from) == dtype_bits(to);
  if (flip) zero += from == DType::kI8 ? 128 : -128;
  dsl::TemplateParams params;
  // The entry of the file that does not multiply; what the other one needs is bound all the same.
  params.set("X", from)
      .set("Y", to)
      .set("FLIP", flip)
      .set("VL", dot_lanes(context.target()))
      .set("NV", 1)
      .set("W", DType::kI8)
      .set("ACC", DType::kI32)
      .set("OUT", DType::kI32);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("quantized_conv.py", "surround", params));
  Dim bytes = geometry->batch * geometry->channels * Dim(static_cast<int64_t>(dtype_bytes(to)));
  std::vector<Dim> extents, pads, copied;
  for (SpatialAxis& axis : geometry->axes) {
    extents.push_back(axis.in);
    pads.push_back(with_padding ? axis.pad_begin : Dim(0));
    if (with_padding) {
      axis.in = axis.in + axis.pad_begin + axis.pad_end;
      axis.pad_begin = axis.pad_end = 0;
    }
    copied.push_back(axis.in);
    bytes *= axis.in;
  }
  // A long row is cut: without padding in between it does not matter where.
  const bool one_row = copied[0] == Dim(1) && copied[1] == Dim(1) && !with_padding;
  const TensorRef copy = context.add_workspace(bytes + Dim(kSlack));
  Dim images = geometry->batch;
  if (one_row) {
    images = 1;
    extents = copied = {1, geometry->batch * extents[2], 1};
    pads = {0, 0, 0};
  }
  KernelArguments arguments;
  arguments.pointer("x", *x).pointer("out", copy).scalar("zero", zero);
  arguments.scalars({{"batch", images}, {"channels", geometry->channels}});
  arguments.scalars({{"in_d", extents[0]}, {"in_h", extents[1]}, {"in_w", extents[2]}});
  arguments.scalars({{"pad_d", pads[0]}, {"pad_h", pads[1]}, {"pad_w", pads[2]}});
  arguments.scalars({{"out_d", copied[0]}, {"out_h", copied[1]}, {"out_w", copied[2]}});
  AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, graph::max(images * copied[0] * copied[1], 1)));
  *x = PointerArgument{copy};
  return {};
}

}  // namespace aipu::kernels
