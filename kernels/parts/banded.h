// Which parameters of a launch say what lines it computes (BandedLaunch), for kernels of the usual form.
#pragma once

#include "kernels/parts/fusion.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// Of the launch made last, which has the parameters "out", "extras", and for its image and its pixels those given.
void declare_banded_pixels(SetupContext& context, std::string image, std::string pixels, const Epilogue& epilogue);
// Of one with "x", "out", "extras" and a record "geometry" (bind_geometry()).
void declare_banded_images(SetupContext& context, const Epilogue& epilogue);

}  // namespace aipu::kernels
