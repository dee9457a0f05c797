// TIFF, by libtiff: the first image of a file, whatever its colours are, as libtiff's reader of RGBA gives it (what has
// an alpha channel is multiplied by it). An orientation that turns the image is refused.
#include <algorithm>
#include <cstring>

#include "runtime/image/format.h"

#ifdef AIPU_HAS_TIFF
#include <tiffio.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <memory>
#endif

namespace aipu::image {
namespace {

bool recognises(Bytes bytes) {
  for (const std::string_view magic : {std::string_view("II*\0", 4), std::string_view("MM\0*", 4),
                                       std::string_view("II+\0", 4), std::string_view("MM\0+", 4)})
    if (begins_with(bytes, magic)) return true;
  return false;
}

#ifdef AIPU_HAS_TIFF

// The bytes as libtiff's file, and what it has to say.
struct Stream {
  Bytes bytes;
  toff_t at = 0;
  std::array<char, 160> message = {};

  static tmsize_t read(thandle_t self, void* to, tmsize_t count) {
    auto& stream = *static_cast<Stream*>(self);
    const toff_t left = stream.at < stream.bytes.size() ? stream.bytes.size() - stream.at : 0;
    const auto taken = std::min(static_cast<toff_t>(std::max<tmsize_t>(count, 0)), left);
    if (taken > 0) std::memcpy(to, stream.bytes.data() + stream.at, taken);
    stream.at += taken;
    return static_cast<tmsize_t>(taken);
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return -1; }
  static toff_t seek(thandle_t self, toff_t offset, int from) {
    auto& stream = *static_cast<Stream*>(self);
    const toff_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? stream.at : stream.bytes.size();
    return stream.at = base + offset;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t self) { return static_cast<Stream*>(self)->bytes.size(); }
  static int error(TIFF*, void* self, const char*, const char* format, va_list arguments) {
    auto& message = static_cast<Stream*>(self)->message;
    std::vsnprintf(message.data(), message.size(), format, arguments);
    return 1;
  }
  static int warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }
};

struct Close {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};
using Tiff = std::unique_ptr<TIFF, Close>;

Status damaged(const Stream& stream) { return invalid_argument(str_cat("can't be read: ", stream.message.data())); }

Result<Tiff> open(Stream& stream) {
  const std::unique_ptr<TIFFOpenOptions, Close> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) return out_of_range("no memory for a decoder");
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), 4 * kMostPixels);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), Stream::error, &stream);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), Stream::warning, nullptr);
  Tiff tiff(TIFFClientOpenExt("image", "rm", &stream, Stream::read, Stream::write, Stream::seek, Stream::close,
                              Stream::size, nullptr, nullptr, options.get()));
  if (tiff == nullptr) return damaged(stream);
  return tiff;
}

Result<Size> size_of(TIFF* tiff) {
  uint32_t height = 0, width = 0;
  uint16_t orientation = ORIENTATION_TOPLEFT;
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &orientation);
  if (orientation > ORIENTATION_BOTLEFT) return unsupported("is turned by its orientation");
  return checked_size(height, width);
}

Result<Size> size_of(Bytes bytes) {
  Stream stream{bytes};
  AIPU_ASSIGN_OR_RETURN(const Tiff tiff, open(stream));
  return size_of(tiff.get());
}

Result<Pixels> decode(Bytes bytes) {
  Stream stream{bytes};
  AIPU_ASSIGN_OR_RETURN(const Tiff tiff, open(stream));
  AIPU_ASSIGN_OR_RETURN(const Size size, size_of(tiff.get()));
  std::vector<uint32_t> raster(static_cast<size_t>(size.height * size.width));
  const auto height = static_cast<uint32_t>(size.height), width = static_cast<uint32_t>(size.width);
  constexpr int kStopAtErrors = 1;
  if (TIFFReadRGBAImageOriented(tiff.get(), width, height, raster.data(), ORIENTATION_TOPLEFT, kStopAtErrors) == 0)
    return damaged(stream);
  Pixels pixels = make_pixels(size, 3);
  for (size_t k = 0; k < raster.size(); ++k) {
    pixels.samples[3 * k] = static_cast<uint8_t>(TIFFGetR(raster[k]));
    pixels.samples[3 * k + 1] = static_cast<uint8_t>(TIFFGetG(raster[k]));
    pixels.samples[3 * k + 2] = static_cast<uint8_t>(TIFFGetB(raster[k]));
  }
  return pixels;
}

#else

Result<Size> size_of(Bytes) { return built_without("libtiff 4.5 or newer", "libtiff-dev"); }
Result<Pixels> decode(Bytes) { return built_without("libtiff 4.5 or newer", "libtiff-dev"); }

#endif

}  // namespace

const Format kTiff = {"TIFF", recognises, size_of, decode};

}  // namespace aipu::image
