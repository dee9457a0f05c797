// Formats of encoded images, a file each. Those that need a library are there without it too: they recognise their
// images, and say what is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace aipu::image {

using Bytes = std::span<const uint8_t>;

struct Size {
  int64_t height = 0, width = 0;
};

// Of 8 bits, rows from the top down without gaps: one channel of grey, or red, green and blue.
struct Pixels {
  Size size;
  size_t channels = 0;
  std::vector<uint8_t> samples;
};

// RGB of them takes 768 MiB; more is taken for a mistake or an attack.
constexpr int64_t kMostPixels = int64_t{1} << 28;

// What the header says, in bounds; nothing as large as the image is allocated before it has been called.
Result<Size> checked_size(uint64_t height, uint64_t width);
// Black ones of a checked size.
Pixels make_pixels(Size size, size_t channels);

struct Format {
  std::string_view name;
  bool (*recognises)(Bytes bytes);
  Result<Size> (*size)(Bytes bytes);
  Result<Pixels> (*decode)(Bytes bytes);
};

extern const Format kBmp, kJpeg, kJpeg2000, kPng, kPnm, kTiff, kWebp;

inline bool begins_with(Bytes bytes, std::string_view magic, size_t at = 0) {
  if (bytes.size() < at + magic.size()) return false;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()) + at, magic.size()) == magic;
}

// Of a format whose library was not there when this was built.
inline Status built_without(std::string_view library, std::string_view package) {
  return unsupported(str_cat("libaipu_image.so was built without ", library, " (", package, ")"));
}

}  // namespace aipu::image
