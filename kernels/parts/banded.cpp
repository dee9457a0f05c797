#include "kernels/parts/banded.h"

#include <fmt/format.h>

namespace aipu::kernels {
namespace {

std::vector<std::string> like_result(const Epilogue& epilogue) {
  std::vector<std::string> names;
  for (size_t k = 0; k < epilogue.modes.size(); ++k) {
    if (epilogue.modes[k] == "full") names.push_back(fmt::format("extras[{}]", k));
  }
  return names;
}

}  // namespace

void declare_banded_pixels(SetupContext& context, std::string image, std::string pixels, const Epilogue& epilogue) {
  BandedLaunch launch{.image = std::move(image), .result = "out", .pixels = std::move(pixels)};
  launch.like_result = like_result(epilogue);
  context.declare_bands(std::move(launch));
}

void declare_banded_images(SetupContext& context, const Epilogue& epilogue) {
  BandedLaunch launch{.image = "x",
                      .result = "out",
                      .pixels = "",
                      .batch = "geometry.batch",
                      .image_lines = "geometry.height.image",
                      .result_lines = "geometry.height.result",
                      .pad = "geometry.height.pad"};
  launch.like_result = like_result(epilogue);
  context.declare_bands(std::move(launch));
}

}  // namespace aipu::kernels
