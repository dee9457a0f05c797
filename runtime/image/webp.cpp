// WebP, by libwebp. Alpha is dropped; of an animation there is no image.
#include "runtime/image/format.h"

#ifdef AIPU_HAS_WEBP
#include <webp/decode.h>
#endif

namespace aipu::image {
namespace {

bool recognises(Bytes bytes) { return begins_with(bytes, "RIFF") && begins_with(bytes, "WEBP", 8); }

#ifdef AIPU_HAS_WEBP

Result<Size> size_of(Bytes bytes) {
  WebPBitstreamFeatures features = {};
  if (WebPGetFeatures(bytes.data(), bytes.size(), &features) != VP8_STATUS_OK)
    return invalid_argument("has no header that can be read");
  if (features.has_animation != 0) return unsupported("is an animation");
  return checked_size(static_cast<uint64_t>(features.height), static_cast<uint64_t>(features.width));
}

Result<Pixels> decode(Bytes bytes) {
  AIPU_ASSIGN_OR_RETURN(const Size size, size_of(bytes));
  Pixels pixels = make_pixels(size, 3);
  const int row_bytes = static_cast<int>(size.width * 3);  // libwebp's images have at most 16383 columns
  if (WebPDecodeRGBInto(bytes.data(), bytes.size(), pixels.samples.data(), pixels.samples.size(), row_bytes) == nullptr)
    return invalid_argument("is damaged or cut off");
  return pixels;
}

#else

Result<Size> size_of(Bytes) { return built_without("libwebp", "libwebp-dev"); }
Result<Pixels> decode(Bytes) { return built_without("libwebp", "libwebp-dev"); }

#endif

}  // namespace

const Format kWebp = {"WebP", recognises, size_of, decode};

}  // namespace aipu::image
