// 3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3) (templates/winograd.py), where that is faster than the direct kernel.
#pragma once

#include "kernels/fusion.h"
#include "kernels/plugin.h"
#include "kernels/spatial.h"

namespace aipu::kernels {

// A dense convolution as the plugin has read it.
struct DenseConvolution {
  const graph::Constant* weights = nullptr;  // [OC, IC, 3, 3] if they are constant
  int64_t in_channels = 0, out_channels = 0, group = 1;
  SpatialGeometry geometry;
  DType stored = DType::kF32;
  AnchorArithmetic arithmetic;
};

// Whether the kernel can compute it and is expected to be faster: two-dimensional 3x3, stride and dilation 1, float32 with constant
// weights, enough channels to outweigh the transforms, on a target with a CPU's caches.
bool winograd_pays(const tir::Target& target, const DenseConvolution& convolution);

Status launch_winograd(SetupContext& context, const DenseConvolution& convolution);

// The weights as the kernel reads them: [panel][16][ic][panel_width], zero padded. `weights` is [OC, IC, 3, 3].
graph::ConstantPtr pack_winograd(const graph::Constant& weights, int64_t panel_width);

}  // namespace aipu::kernels
