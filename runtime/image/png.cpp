// PNG, by libpng. Alpha is dropped, 16 bits are cut to 8.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>

#include "runtime/image/format.h"

#ifdef AIPU_HAS_PNG
#include <png.h>
#endif

namespace aipu::image {
namespace {

bool recognises(Bytes bytes) { return begins_with(bytes, "\x89PNG\r\n\x1a\n"); }

#ifdef AIPU_HAS_PNG

// libpng reports errors by jumping back to decode(), across frames of C and of the functions below: none of them has
// objects with destructors.
struct Reading {
  Bytes left;
  std::array<char, 128> message = {};
};

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto& reading = *static_cast<Reading*>(png_get_error_ptr(png));
  std::snprintf(reading.message.data(), reading.message.size(), "%s", message);
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

void read(png_structp png, png_bytep to, size_t count) {
  auto& reading = *static_cast<Reading*>(png_get_io_ptr(png));
  if (count > reading.left.size()) png_error(png, "is cut off");
  std::copy_n(reading.left.data(), count, to);
  reading.left = reading.left.subspan(count);
}

struct Decoder {
  explicit Decoder(Bytes bytes) : reading{bytes} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, fail, ignore);
    if (png != nullptr) info = png_create_info_struct(png);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

  // Both: false and a message. No objects of C++ live in between.
  bool read_header() {
    if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's way
    png_set_read_fn(png, &reading, read);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // checked_size() bounds the product
    png_set_chunk_malloc_max(png, 8'000'000);
    png_read_info(png, info);
    return true;
  }
  bool prepare_rows() {
    if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's way
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return true;
  }
  bool read_rows(uint8_t* samples, size_t row_bytes, size_t height) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's way
    for (int pass = 0; pass < passes; ++pass)
      for (size_t y = 0; y < height; ++y) png_read_row(png, samples + y * row_bytes, nullptr);
    png_read_end(png, nullptr);
    return true;
  }
  Status error() const { return invalid_argument(str_cat("can't be read: ", reading.message.data())); }

  Reading reading;
  png_structp png = nullptr;
  png_infop info = nullptr;
  int passes = 1;
};

Result<Size> begin(Decoder& decoder) {
  if (decoder.info == nullptr) return out_of_range("no memory for a decoder");
  if (!decoder.read_header()) return decoder.error();
  return checked_size(png_get_image_height(decoder.png, decoder.info), png_get_image_width(decoder.png, decoder.info));
}

Result<Size> size_of(Bytes bytes) {
  Decoder decoder(bytes);
  return begin(decoder);
}

Result<Pixels> decode(Bytes bytes) {
  Decoder decoder(bytes);
  AIPU_ASSIGN_OR_RETURN(const Size size, begin(decoder));
  if (!decoder.prepare_rows()) return decoder.error();
  const size_t channels = png_get_channels(decoder.png, decoder.info);
  Pixels pixels = make_pixels(size, channels);
  const size_t row_bytes = static_cast<size_t>(size.width) * channels;
  if ((channels != 1 && channels != 3) || png_get_rowbytes(decoder.png, decoder.info) != row_bytes)
    return internal_error("is not made to 8 bits by libpng");
  if (!decoder.read_rows(pixels.samples.data(), row_bytes, static_cast<size_t>(size.height))) return decoder.error();
  return pixels;
}

#else

Result<Size> size_of(Bytes) { return built_without("libpng", "libpng-dev"); }
Result<Pixels> decode(Bytes) { return built_without("libpng", "libpng-dev"); }

#endif

}  // namespace

const Format kPng = {"PNG", recognises, size_of, decode};

}  // namespace aipu::image
