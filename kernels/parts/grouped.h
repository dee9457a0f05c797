// templates/conv_grouped.py: convolutions in groups of few channels.
#pragma once

#include "kernels/parts/convolution.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// Whether it is one that the template computes better than templates/conv.py does; if so, it is launched.
Result<bool> launch_grouped_convolution(SetupContext& context, const ConvWeights& weights,
                                        const SpatialGeometry& geometry, DType stored,
                                        const AnchorArithmetic& arithmetic);

}  // namespace aipu::kernels
