// Portable bit, grey and pix maps (PBM, PGM, PPM; netpbm's formats P1 to P6), of which there is no library worth its
// weight. https://netpbm.sourceforge.net/doc/
#include <algorithm>
#include <optional>

#include "runtime/image/format.h"

namespace aipu::image {
namespace {

struct Header {
  Size size;
  size_t channels = 1;
  uint32_t greatest = 1;  // sample, which is white
  bool is_plain = false, is_bitmap = false;
};

bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Decimal numbers between white space and comments.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  void skip_space() {
    while (at_ < bytes_.size() && (is_space(bytes_[at_]) || bytes_[at_] == '#')) {
      if (bytes_[at_] == '#')
        while (at_ < bytes_.size() && bytes_[at_] != '\n' && bytes_[at_] != '\r') ++at_;
      else
        ++at_;
    }
  }
  std::optional<uint32_t> number() {
    skip_space();
    if (at_ == bytes_.size() || !is_digit()) return std::nullopt;
    uint64_t value = 0;
    for (; at_ < bytes_.size() && is_digit(); ++at_) {
      value = value * 10 + (bytes_[at_] - uint8_t{'0'});
      if (value > UINT32_MAX) return std::nullopt;
    }
    return static_cast<uint32_t>(value);
  }
  // Of a plain bitmap, whose digits need no space between them.
  std::optional<uint32_t> digit() {
    skip_space();
    if (at_ == bytes_.size() || !is_digit()) return std::nullopt;
    return bytes_[at_++] - uint8_t{'0'};
  }
  // The white space that ends the header of a raw map, and what is behind it.
  Bytes raster() const { return bytes_.subspan(std::min(at_ + 1, bytes_.size())); }

 private:
  bool is_digit() const { return bytes_[at_] >= '0' && bytes_[at_] <= '9'; }

  Bytes bytes_;
  size_t at_ = 2;  // behind the magic
};

bool recognises(Bytes bytes) {
  return bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
         (is_space(bytes[2]) || bytes[2] == '#');
}

Result<Header> read_header(Bytes bytes, Reader& reader) {
  const int kind = bytes[1] - '0';
  Header header;
  header.is_plain = kind <= 3;
  header.is_bitmap = kind % 3 == 1;
  header.channels = kind % 3 == 0 ? 3 : 1;
  const auto width = reader.number(), height = reader.number();
  const auto greatest = header.is_bitmap ? std::optional<uint32_t>(1) : reader.number();
  if (!width || !height || !greatest || *greatest == 0 || *greatest > 65535)
    return invalid_argument("has no header that can be read");
  header.greatest = *greatest;
  AIPU_ASSIGN_OR_RETURN(header.size, checked_size(*height, *width));
  return header;
}

Result<Size> size_of(Bytes bytes) {
  Reader reader(bytes);
  AIPU_ASSIGN_OR_RETURN(const Header header, read_header(bytes, reader));
  return header.size;
}

Status is_cut_off() { return invalid_argument("is cut off, or has a sample that can't be read"); }

uint8_t in_8_bits(uint32_t sample, const Header& header) {
  return static_cast<uint8_t>((sample * 255 + header.greatest / 2) / header.greatest);
}

Status read_plain(Reader& reader, const Header& header, Pixels& pixels) {
  for (uint8_t& to : pixels.samples) {
    const auto sample = header.is_bitmap ? reader.digit() : reader.number();
    if (!sample || *sample > header.greatest) return is_cut_off();
    to = header.is_bitmap ? (*sample == 0 ? 255 : 0) : in_8_bits(*sample, header);
  }
  return {};
}

Status read_bits(Bytes raster, Pixels& pixels) {
  const auto width = static_cast<size_t>(pixels.size.width), row_bytes = (width + 7) / 8;
  const auto height = static_cast<size_t>(pixels.size.height);
  if (raster.size() < row_bytes * height) return is_cut_off();
  for (size_t y = 0; y < height; ++y)
    for (size_t x = 0; x < width; ++x) {
      const bool is_black = (raster[y * row_bytes + x / 8] >> (7 - x % 8) & 1) != 0;
      pixels.samples[y * width + x] = is_black ? 0 : 255;
    }
  return {};
}

Status read_samples(Bytes raster, const Header& header, Pixels& pixels) {
  const size_t bytes_each = header.greatest > 255 ? 2 : 1;
  if (raster.size() / bytes_each < pixels.samples.size()) return is_cut_off();
  for (size_t k = 0; k < pixels.samples.size(); ++k) {
    const uint32_t sample = bytes_each == 1 ? raster[k] : raster[2 * k] * 256u + raster[2 * k + 1];
    if (sample > header.greatest) return is_cut_off();
    pixels.samples[k] = in_8_bits(sample, header);
  }
  return {};
}

Result<Pixels> decode(Bytes bytes) {
  Reader reader(bytes);
  AIPU_ASSIGN_OR_RETURN(const Header header, read_header(bytes, reader));
  // A sample takes a bit of the file at least: nothing is allocated that the file does not pay for.
  if (reader.raster().size() < static_cast<size_t>(header.size.height * header.size.width) / 8) return is_cut_off();
  Pixels pixels = make_pixels(header.size, header.channels);
  AIPU_RETURN_IF_ERROR(header.is_plain    ? read_plain(reader, header, pixels)
                       : header.is_bitmap ? read_bits(reader.raster(), pixels)
                                          : read_samples(reader.raster(), header, pixels));
  return pixels;
}

}  // namespace

const Format kPnm = {"PNM", recognises, size_of, decode};

}  // namespace aipu::image
