// JPEG, by libjpeg-turbo: its accurate integer transform, chroma upsampled smoothly.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>

#include "runtime/image/format.h"

#ifdef AIPU_HAS_JPEG
#include <jerror.h>
#include <jpeglib.h>
#endif

namespace aipu::image {
namespace {

bool recognises(Bytes bytes) { return begins_with(bytes, "\xff\xd8\xff"); }

#ifdef AIPU_HAS_JPEG

// A small file may hold any number of scans of a large image; encoders write some ten.
constexpr int kMostScans = 500;

// libjpeg reports errors by a jump back to the functions of Decoder, which hold no objects with destructors.
struct Errors {
  jpeg_error_mgr manager;  // the first member: libjpeg knows it alone
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void fail(j_common_ptr info) {
  auto& errors = *reinterpret_cast<Errors*>(info->err);
  info->err->format_message(info, errors.message.data());
  std::longjmp(errors.back, 1);
}

// A warning is damage that libjpeg would fill with grey, but for oddities that lose nothing.
void warn(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  const bool is_harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
  if (level < 0 && !is_harmless) fail(info);
}

void watch(j_common_ptr info) {
  if (info->is_decompressor == FALSE) return;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto& errors = *reinterpret_cast<Errors*>(info->err);
  std::snprintf(errors.message.data(), errors.message.size(), "has more than %d scans", kMostScans);
  std::longjmp(errors.back, 1);
}

class Decoder {
 public:
  explicit Decoder(Bytes bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = fail;
    errors_.manager.emit_message = warn;
    progress_.progress_monitor = watch;
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info_); }

  // Each: false and a message.
  bool read_header() {
    if (setjmp(errors_.back) != 0) return false;  // NOLINT(cert-err52-cpp): libjpeg's way
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, bytes_.data(), bytes_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  bool begin() {
    if (setjmp(errors_.back) != 0) return false;  // NOLINT(cert-err52-cpp): libjpeg's way
    const bool has_black = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = info_.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : has_black ? JCS_CMYK : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&info_);
    return true;
  }
  // `row` has a row, which `take(y)` moves to where it belongs.
  template <typename Take>
  bool read_rows(uint8_t* row, Take take) {
    if (setjmp(errors_.back) != 0) return false;  // NOLINT(cert-err52-cpp): libjpeg's way
    while (info_.output_scanline < info_.output_height) {
      const size_t y = info_.output_scanline;
      jpeg_read_scanlines(&info_, &row, 1);
      take(y);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }
  Status error() const { return invalid_argument(str_cat("can't be read: ", errors_.message.data())); }
  const jpeg_decompress_struct& info() const { return info_; }

 private:
  Bytes bytes_;
  Errors errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct info_ = {};
};

Result<Size> size_of(Bytes bytes) {
  Decoder decoder(bytes);
  if (!decoder.read_header()) return decoder.error();
  return checked_size(decoder.info().image_height, decoder.info().image_width);
}

// Four inks, which files of Adobe's hold inverted.
void from_inks(const uint8_t* row, bool is_inverted, size_t width, uint8_t* to) {
  for (size_t x = 0; x < width; ++x)
    for (size_t c = 0; c < 3; ++c) {
      const unsigned ink = is_inverted ? row[4 * x + c] : 255u - row[4 * x + c];
      const unsigned black = is_inverted ? row[4 * x + 3] : 255u - row[4 * x + 3];
      to[3 * x + c] = static_cast<uint8_t>((ink * black + 127) / 255);
    }
}

Result<Pixels> decode(Bytes bytes) {
  Decoder decoder(bytes);
  if (!decoder.read_header()) return decoder.error();
  AIPU_ASSIGN_OR_RETURN(const Size size, checked_size(decoder.info().image_height, decoder.info().image_width));
  if (!decoder.begin()) return decoder.error();
  const auto samples = static_cast<size_t>(decoder.info().output_components);
  if (samples != 1 && samples != 3 && samples != 4) return unsupported(str_cat("has ", samples, " samples a pixel"));
  Pixels pixels = make_pixels(size, samples == 1 ? 1 : 3);
  const auto width = static_cast<size_t>(size.width);
  std::vector<uint8_t> row(width * samples);
  const bool is_inverted = decoder.info().saw_Adobe_marker != FALSE;
  const bool is_whole = decoder.read_rows(row.data(), [&](size_t y) {
    uint8_t* to = pixels.samples.data() + y * width * pixels.channels;
    if (samples == 4)
      from_inks(row.data(), is_inverted, width, to);
    else
      std::copy(row.begin(), row.end(), to);
  });
  if (!is_whole) return decoder.error();
  return pixels;
}

#else

Result<Size> size_of(Bytes) { return built_without("libjpeg-turbo", "libjpeg-dev"); }
Result<Pixels> decode(Bytes) { return built_without("libjpeg-turbo", "libjpeg-dev"); }

#endif

}  // namespace

const Format kJpeg = {"JPEG", recognises, size_of, decode};

}  // namespace aipu::image
