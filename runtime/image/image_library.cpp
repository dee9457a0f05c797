// libaipu_image.so (runtime/text/text_api.h): what is in an encoded image.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/dtype.h"
#include "runtime/image/format.h"
#include "runtime/text/library.h"

namespace aipu::image {
namespace {

using text::Arguments;
using text::Given;
using text::MadeOperation;

constexpr std::array kFormats = {&kPng, &kJpeg, &kWebp, &kTiff, &kJpeg2000, &kBmp, &kPnm};

Result<const Format*> format_of(Bytes bytes) {
  const auto found = std::find_if(kFormats.begin(), kFormats.end(), [&](auto* f) { return f->recognises(bytes); });
  if (found != kFormats.end()) return *found;
  std::string names;
  for (const Format* format : kFormats) names += str_cat(names.empty() ? "" : ", ", format->name);
  return invalid_argument(str_cat("the ", bytes.size(), " bytes are no image of a known format (", names, ")"));
}

// A result of `step`; an error names the format.
template <typename Step>
auto with(Bytes bytes, Step step) -> decltype(step(kBmp)) {
  AIPU_ASSIGN_OR_RETURN(const Format* format, format_of(bytes));
  auto result = step(*format);
  if (!result.ok()) return Status(result.status()).context(str_cat("the ", format->name, " image"));
  return result;
}

Status expect(const Arguments& arguments, DType output) {
  const auto has = [](std::span<const aipu_text_tensor> tensors, DType dtype) {
    return tensors.size() == 1 && tensors[0].dtype == static_cast<uint32_t>(dtype);
  };
  if (has(arguments.inputs, DType::kU8) && has(arguments.outputs, output)) return {};
  return invalid_argument("is run on tensors that do not fit it");
}

Bytes encoded(const Arguments& arguments) {
  return {static_cast<const uint8_t*>(arguments.inputs[0].data), arguments.inputs[0].count};
}

class ImageSize final : public text::Operation {
 public:
  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, DType::kI64));
    const Bytes bytes = encoded(arguments);
    AIPU_ASSIGN_OR_RETURN(const Size size, with(bytes, [&](const Format& format) { return format.size(bytes); }));
    const std::array extents = {size.height, size.width};
    if (arguments.outputs[0].count != extents.size()) return invalid_argument("has two extents to tell");
    std::memcpy(arguments.outputs[0].data, extents.data(), sizeof extents);
    return {};
  }
};

enum class PixelFormat : uint8_t { kRgb, kBgr, kGrayscale };

// ITU-R 601-2 luma in 16 bits of fraction, rounded.
uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

void store_pixel(const uint8_t* from, size_t channels, PixelFormat format, uint8_t* to) {
  const std::array<uint8_t, 3> rgb = {from[0], from[channels == 3 ? 1 : 0], from[channels == 3 ? 2 : 0]};
  if (format == PixelFormat::kGrayscale)
    *to = channels == 1 ? from[0] : luma(rgb.data());
  else if (format == PixelFormat::kRgb)
    std::copy(rgb.begin(), rgb.end(), to);
  else
    std::copy(rgb.rbegin(), rgb.rend(), to);
}

class DecodeImage final : public text::Operation {
 public:
  explicit DecodeImage(PixelFormat format) : format_(format) {}

  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, DType::kU8));
    const Bytes bytes = encoded(arguments);
    AIPU_ASSIGN_OR_RETURN(const Pixels pixels, with(bytes, [&](const Format& format) { return format.decode(bytes); }));
    const size_t count = pixels.samples.size() / pixels.channels, channels = format_ == PixelFormat::kGrayscale ? 1 : 3;
    if (arguments.outputs[0].count != count * channels)
      return invalid_argument(str_cat("the image has ", pixels.size.height, "x", pixels.size.width, " pixels, for ",
                                      arguments.outputs[0].count, " bytes of a result"));
    auto* to = static_cast<uint8_t*>(arguments.outputs[0].data);
    for (size_t k = 0; k < count; ++k)
      store_pixel(pixels.samples.data() + k * pixels.channels, pixels.channels, format_, to + k * channels);
    return {};
  }

 private:
  PixelFormat format_;
};

MadeOperation make_image_size(const Given&) { return std::make_unique<ImageSize>(); }

MadeOperation make_decode_image(const Given& given) {
  constexpr std::array<std::string_view, 3> kNames = {"RGB", "BGR", "Grayscale"};
  const auto name = std::find(kNames.begin(), kNames.end(), given.text(0));
  if (name == kNames.end()) return unsupported(str_cat("pixel format '", given.text(0), "' is not known"));
  return std::make_unique<DecodeImage>(static_cast<PixelFormat>(name - kNames.begin()));
}

constexpr text::Row kRows[] = {
    {"DecodeImage", 1, 0, make_decode_image},
    {"ImageSize", 0, 0, make_image_size},
};

}  // namespace

Result<Size> checked_size(uint64_t height, uint64_t width) {
  if (height == 0 || width == 0) return invalid_argument("has no pixels");
  if (height > kMostPixels || width > kMostPixels / height)
    return out_of_range(
        str_cat("has ", height, "x", width, " pixels, more than the ", kMostPixels, " that are decoded"));
  return Size{static_cast<int64_t>(height), static_cast<int64_t>(width)};
}

Pixels make_pixels(Size size, size_t channels) {
  Pixels pixels = {size, channels, {}};
  pixels.samples.resize(static_cast<size_t>(size.height * size.width) * channels);
  return pixels;
}

}  // namespace aipu::image

namespace aipu::text {
Contents contents() { return {"libaipu_image.so", image::kRows}; }
}  // namespace aipu::text

extern "C" __attribute__((visibility("default"))) const aipu_text_library* aipu_image_v1() {
  return aipu::text::library();
}
