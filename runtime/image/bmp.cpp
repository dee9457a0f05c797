// BMP of Windows and OS/2: palettes of 1, 4 and 8 bits (also in runs), 16, 24 and 32 bits, rows from the bottom up or
// the top down. A format of so few rules that it needs no library; the layout of the headers is Microsoft's BITMAPINFO.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "runtime/image/format.h"

namespace aipu::image {
namespace {

enum Compression : uint32_t { kRgb = 0, kRuns8 = 1, kRuns4 = 2, kBitFields = 3, kAlphaBitFields = 6 };

struct Header {
  Size size;
  bool is_top_down = false;
  uint32_t bits = 0, compression = kRgb;
  std::array<uint32_t, 3> masks = {};  // of 16 and 32 bits
  std::vector<std::array<uint8_t, 3>> palette;
  Bytes raster;
};

uint32_t little(Bytes bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t k = 0; k < count; ++k) value |= uint32_t{bytes[at + k]} << (8 * k);
  return value;
}

bool recognises(Bytes bytes) { return begins_with(bytes, "BM"); }

Status is_cut_off() { return invalid_argument("is cut off"); }

Status read_palette(Bytes bytes, size_t at, size_t entry_bytes, uint32_t colours, Header& header) {
  const uint32_t most = 1u << header.bits;
  const uint32_t count = colours == 0 ? most : colours;
  if (count > most) return invalid_argument("has a palette that is too large");
  if (at + count * entry_bytes > bytes.size()) return is_cut_off();
  for (size_t k = 0; k < count; ++k, at += entry_bytes)
    header.palette.push_back({bytes[at + 2], bytes[at + 1], bytes[at]});
  return {};
}

Status read_masks(Bytes bytes, uint32_t header_bytes, Header& header) {
  if (header.compression == kRgb) {
    header.masks = header.bits == 16 ? std::array<uint32_t, 3>{0x7c00, 0x3e0, 0x1f}
                                     : std::array<uint32_t, 3>{0xff0000, 0xff00, 0xff};
    return {};
  }
  constexpr size_t kAt = 14 + 40;  // within a longer header, or behind one of 40 bytes
  if (header_bytes < 40 || bytes.size() < kAt + 12) return is_cut_off();
  for (size_t c = 0; c < 3; ++c) {
    header.masks[c] = little(bytes, kAt + 4 * c, 4);
    const uint32_t low = header.masks[c] >> std::countr_zero(header.masks[c] | 0x80000000u);
    if (header.masks[c] == 0 || (low & (low + 1)) != 0 || (header.bits == 16 && header.masks[c] > 0xffff))
      return invalid_argument("has masks of colours that make no sense");
  }
  return {};
}

Status check_layout(const Header& header) {
  const bool has_runs = header.compression == kRuns8 || header.compression == kRuns4;
  const bool has_fields = header.compression == kBitFields || header.compression == kAlphaBitFields;
  const uint32_t bits = header.bits;
  const bool is_known = has_runs     ? bits == (header.compression == kRuns8 ? 8u : 4u) && !header.is_top_down
                        : has_fields ? bits == 16 || bits == 32
                                     : header.compression == kRgb && (bits == 1 || bits == 4 || bits == 8 ||
                                                                      bits == 16 || bits == 24 || bits == 32);
  if (is_known) return {};
  return unsupported(str_cat("has ", bits, " bits a pixel with compression ", header.compression));
}

Result<Header> read_header(Bytes bytes) {
  constexpr size_t kFileHeader = 14;
  if (bytes.size() < kFileHeader + 12) return is_cut_off();
  const uint32_t header_bytes = little(bytes, kFileHeader, 4);
  const bool is_core = header_bytes == 12;  // OS/2's first
  if (!is_core && header_bytes < 40) return unsupported(str_cat("has a header of ", header_bytes, " bytes"));
  if (bytes.size() < kFileHeader + uint64_t{header_bytes}) return is_cut_off();
  Header header;
  const auto width = is_core ? int64_t{little(bytes, 18, 2)} : int64_t{static_cast<int32_t>(little(bytes, 18, 4))};
  const auto height = is_core ? int64_t{little(bytes, 20, 2)} : int64_t{static_cast<int32_t>(little(bytes, 22, 4))};
  header.is_top_down = height < 0;
  if (width < 0) return invalid_argument("has no header that can be read");
  AIPU_ASSIGN_OR_RETURN(header.size,
                        checked_size(static_cast<uint64_t>(std::abs(height)), static_cast<uint64_t>(width)));
  header.bits = little(bytes, is_core ? 24 : 28, 2);
  if (!is_core) header.compression = little(bytes, 30, 4);
  AIPU_RETURN_IF_ERROR(check_layout(header));
  if (header.bits == 16 || header.bits == 32) AIPU_RETURN_IF_ERROR(read_masks(bytes, header_bytes, header));
  if (header.bits <= 8) {
    const uint32_t colours = is_core ? 0 : little(bytes, 46, 4);
    AIPU_RETURN_IF_ERROR(read_palette(bytes, kFileHeader + header_bytes, is_core ? 3 : 4, colours, header));
  }
  const uint32_t offset = little(bytes, 10, 4);
  if (offset > bytes.size()) return is_cut_off();
  header.raster = bytes.subspan(offset);
  return header;
}

Result<Size> size_of(Bytes bytes) {
  AIPU_ASSIGN_OR_RETURN(const Header header, read_header(bytes));
  return header.size;
}

// Where pixels go, by their place in the file.
class Canvas {
 public:
  explicit Canvas(const Header& header) : header_(header), pixels_(make_pixels(header.size, 3)) {}

  bool put(size_t x, size_t y, uint32_t index) {
    if (index >= header_.palette.size()) return false;
    put(x, y, header_.palette[index]);
    return true;
  }
  void put(size_t x, size_t y, const std::array<uint8_t, 3>& rgb) {
    const auto height = static_cast<size_t>(header_.size.height), width = static_cast<size_t>(header_.size.width);
    const size_t row = header_.is_top_down ? y : height - 1 - y;
    std::copy(rgb.begin(), rgb.end(), pixels_.samples.begin() + static_cast<ptrdiff_t>((row * width + x) * 3));
  }
  Pixels take() { return std::move(pixels_); }

 private:
  const Header& header_;
  Pixels pixels_;
};

Status bad_index() { return invalid_argument("has a pixel whose colour the palette does not have"); }

uint8_t field(uint32_t pixel, uint32_t mask) {
  const auto shift = std::countr_zero(mask);
  const uint64_t greatest = mask >> shift;
  return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / greatest);
}

Status read_rows(const Header& header, Canvas& canvas) {
  const auto height = static_cast<size_t>(header.size.height), width = static_cast<size_t>(header.size.width);
  const size_t row_bytes = (width * header.bits + 31) / 32 * 4, pixel_bytes = header.bits / 8;
  if (header.raster.size() < row_bytes * height) return is_cut_off();
  for (size_t y = 0; y < height; ++y) {
    const Bytes row = header.raster.subspan(y * row_bytes, row_bytes);
    for (size_t x = 0; x < width; ++x) {
      if (header.bits <= 8) {
        const size_t bit = x * header.bits;
        const uint32_t index = row[bit / 8] >> (8 - header.bits - bit % 8) & ((1u << header.bits) - 1);
        if (!canvas.put(x, y, index)) return bad_index();
      } else if (header.bits == 24) {
        canvas.put(x, y, {row[3 * x + 2], row[3 * x + 1], row[3 * x]});
      } else {
        const uint32_t pixel = little(row, x * pixel_bytes, pixel_bytes);
        const auto& [red, green, blue] = header.masks;
        canvas.put(x, y, {field(pixel, red), field(pixel, green), field(pixel, blue)});
      }
    }
  }
  return {};
}

// Runs of 4 or 8 bits. A pair of bytes is a run; one that begins with 0 is a command: 0 ends the row, 1 the image, 2
// moves on, and other numbers are so many pixels as they are. What no run reaches is colour 0.
class RunReader {
 public:
  RunReader(const Header& header, Canvas& canvas)
      : header_(header),
        canvas_(canvas),
        height_(static_cast<size_t>(header.size.height)),
        width_(static_cast<size_t>(header.size.width)) {}

  Status read() {
    for (size_t y = 0; y < height_; ++y)
      for (size_t x = 0; x < width_; ++x)
        if (!canvas_.put(x, y, 0u)) return bad_index();
    while (at_ + 2 <= header_.raster.size()) {
      const uint8_t count = header_.raster[at_], value = header_.raster[at_ + 1];
      at_ += 2;
      if (count == 0 && value == 1) return {};
      AIPU_RETURN_IF_ERROR(count > 0 ? read_run(count, value) : value > 2 ? read_literal(value) : move(value));
    }
    return is_cut_off();
  }

 private:
  // Pixel k of a stretch of indices that begins with the byte `first`.
  uint32_t index(size_t k, Bytes bytes) const {
    if (header_.bits == 8) return bytes[k % bytes.size()];
    const uint8_t two = bytes[k / 2 % bytes.size()];
    return k % 2 == 0 ? two >> 4 : two & 15;
  }
  Status put(size_t count, Bytes bytes) {
    for (size_t k = 0; k < count; ++k, ++x_) {
      if (x_ >= width_ || y_ >= height_) return invalid_argument("has a run beyond its edge");
      if (!canvas_.put(x_, y_, index(k, bytes))) return bad_index();
    }
    return {};
  }
  Status read_run(size_t count, uint8_t value) { return put(count, Bytes(&value, 1)); }
  Status read_literal(size_t count) {
    const size_t bytes = header_.bits == 8 ? count : (count + 1) / 2, padded = (bytes + 1) / 2 * 2;
    if (at_ + bytes > header_.raster.size()) return is_cut_off();
    AIPU_RETURN_IF_ERROR(put(count, header_.raster.subspan(at_, bytes)));
    at_ += padded;
    return {};
  }
  Status move(uint8_t command) {
    if (command == 0) {
      x_ = 0;
      ++y_;
      return {};
    }
    if (at_ + 2 > header_.raster.size()) return is_cut_off();
    x_ += header_.raster[at_];
    y_ += header_.raster[at_ + 1];
    at_ += 2;
    return {};
  }

  const Header& header_;
  Canvas& canvas_;
  size_t height_, width_, at_ = 0, x_ = 0, y_ = 0;
};

Result<Pixels> decode(Bytes bytes) {
  AIPU_ASSIGN_OR_RETURN(const Header header, read_header(bytes));
  const bool has_runs = header.compression == kRuns8 || header.compression == kRuns4;
  const auto row_bytes = static_cast<size_t>(header.size.width) * header.bits / 8;
  if (!has_runs && header.raster.size() / static_cast<size_t>(header.size.height) < row_bytes) return is_cut_off();
  Canvas canvas(header);
  AIPU_RETURN_IF_ERROR(has_runs ? RunReader(header, canvas).read() : read_rows(header, canvas));
  return canvas.take();
}

}  // namespace

const Format kBmp = {"BMP", recognises, size_of, decode};

}  // namespace aipu::image
