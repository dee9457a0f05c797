// JPEG 2000, by OpenJPEG: files (JP2) and bare code streams of one component (grey), or of three or more, the first of
// which are red, green and blue. Samples of other widths are scaled to 8 bits.
#include "runtime/image/format.h"

#ifdef AIPU_HAS_OPENJPEG
#include <openjpeg.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#endif

namespace aipu::image {
namespace {

constexpr std::string_view kCodeStream = "\xff\x4f\xff\x51";
constexpr std::string_view kFile = std::string_view("\0\0\0\x0cjP  \r\n\x87\n", 12);

bool recognises(Bytes bytes) { return begins_with(bytes, kFile) || begins_with(bytes, kCodeStream); }

#ifdef AIPU_HAS_OPENJPEG

// Codecs and streams are of one type, a pointer to void*.
template <auto kFunction>
struct Call {
  template <typename T>
  void operator()(T* object) const {
    kFunction(object);
  }
};

// The bytes as OpenJPEG's stream.
struct Source {
  Bytes bytes;
  size_t at = 0;

  size_t left() const { return bytes.size() - at; }
  static OPJ_SIZE_T read(void* to, OPJ_SIZE_T count, void* self) {
    auto& source = *static_cast<Source*>(self);
    const size_t taken = std::min<size_t>(count, source.left());
    if (taken == 0) return static_cast<OPJ_SIZE_T>(-1);  // the end
    std::memcpy(to, source.bytes.data() + source.at, taken);
    source.at += taken;
    return taken;
  }
  static OPJ_OFF_T skip(OPJ_OFF_T count, void* self) {
    auto& source = *static_cast<Source*>(self);
    if (count < 0 || static_cast<uint64_t>(count) > source.left()) return -1;
    source.at += static_cast<size_t>(count);
    return count;
  }
  static OPJ_BOOL seek(OPJ_OFF_T to, void* self) {
    auto& source = *static_cast<Source*>(self);
    if (to < 0 || static_cast<uint64_t>(to) > source.bytes.size()) return OPJ_FALSE;
    source.at = static_cast<size_t>(to);
    return OPJ_TRUE;
  }
};

// One that has read the header, and not yet the samples.
class Decoder {
 public:
  explicit Decoder(Bytes bytes) : source_{bytes} {}

  Result<Size> read_header() {
    codec_.reset(opj_create_decompress(begins_with(source_.bytes, kFile) ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K));
    stream_.reset(opj_stream_create(1 << 16, OPJ_TRUE));
    if (codec_ == nullptr || stream_ == nullptr) return out_of_range("no memory for a decoder");
    opj_set_error_handler(codec_.get(), hear, &message_);
    opj_stream_set_user_data(stream_.get(), &source_, nullptr);
    opj_stream_set_user_data_length(stream_.get(), source_.bytes.size());
    opj_stream_set_read_function(stream_.get(), Source::read);
    opj_stream_set_skip_function(stream_.get(), Source::skip);
    opj_stream_set_seek_function(stream_.get(), Source::seek);
    opj_dparameters_t parameters = {};
    opj_set_default_decoder_parameters(&parameters);
    opj_image_t* image = nullptr;
    const bool is_good = opj_setup_decoder(codec_.get(), &parameters) != OPJ_FALSE &&
                         opj_decoder_set_strict_mode(codec_.get(), OPJ_TRUE) != OPJ_FALSE &&
                         opj_read_header(stream_.get(), codec_.get(), &image) != OPJ_FALSE;
    image_.reset(image);
    if (!is_good || image == nullptr) return error();
    return checked_size(image->y1 - image->y0, image->x1 - image->x0);
  }
  Status read_samples() {
    if (opj_decode(codec_.get(), stream_.get(), image_.get()) == OPJ_FALSE ||
        opj_end_decompress(codec_.get(), stream_.get()) == OPJ_FALSE)
      return error();
    return {};
  }
  const opj_image_t& image() const { return *image_; }

 private:
  using Message = std::array<char, 160>;
  static void hear(const char* message, void* self) {
    auto& first = *static_cast<Message*>(self);
    if (first[0] == '\0') std::snprintf(first.data(), first.size(), "%.*s", int(std::strcspn(message, "\n")), message);
  }
  Status error() const { return invalid_argument(str_cat("can't be read: ", message_.data())); }

  Source source_;
  Message message_ = {};
  std::unique_ptr<opj_codec_t, Call<opj_destroy_codec>> codec_;
  std::unique_ptr<opj_stream_t, Call<opj_stream_destroy>> stream_;
  std::unique_ptr<opj_image_t, Call<opj_image_destroy>> image_;
};

Result<Size> size_of(Bytes bytes) { return Decoder(bytes).read_header(); }

// That the first components have a sample of at most 16 bits for each pixel, and are what they are taken for.
Status check_components(const opj_image_t& image, Size size, size_t channels) {
  if (image.color_space == OPJ_CLRSPC_SYCC || image.color_space == OPJ_CLRSPC_EYCC ||
      image.color_space == OPJ_CLRSPC_CMYK)
    return unsupported("has other colours than grey or RGB");
  for (size_t c = 0; c < channels; ++c) {
    const opj_image_comp_t& component = image.comps[c];
    if (component.w != static_cast<uint64_t>(size.width) || component.h != static_cast<uint64_t>(size.height))
      return unsupported("has components of fewer samples than pixels");
    if (component.prec == 0 || component.prec > 16)
      return unsupported(str_cat("has samples of ", component.prec, " bits"));
  }
  return {};
}

uint8_t in_8_bits(int64_t sample, const opj_image_comp_t& component) {
  const int64_t greatest = (int64_t{1} << component.prec) - 1;
  const int64_t value = sample + (component.sgnd != 0 ? int64_t{1} << (component.prec - 1) : 0);
  const int64_t bounded = std::clamp<int64_t>(value, 0, greatest);
  return static_cast<uint8_t>(component.prec >= 8 ? bounded >> (component.prec - 8) : bounded * 255 / greatest);
}

Result<Pixels> decode(Bytes bytes) {
  Decoder decoder(bytes);
  AIPU_ASSIGN_OR_RETURN(const Size size, decoder.read_header());
  const opj_image_t& image = decoder.image();
  const size_t channels = image.numcomps >= 3 ? 3 : 1;
  AIPU_RETURN_IF_ERROR(check_components(image, size, channels));
  AIPU_RETURN_IF_ERROR(decoder.read_samples());
  AIPU_RETURN_IF_ERROR(check_components(image, size, channels));  // what a palette makes of them
  Pixels pixels = make_pixels(size, channels);
  const auto count = static_cast<size_t>(size.height * size.width);
  for (size_t c = 0; c < channels; ++c) {
    const opj_image_comp_t& component = image.comps[c];
    if (component.data == nullptr) return invalid_argument("has a component without samples");
    for (size_t k = 0; k < count; ++k) pixels.samples[k * channels + c] = in_8_bits(component.data[k], component);
  }
  return pixels;
}

#else

Result<Size> size_of(Bytes) { return built_without("OpenJPEG 2.5 or newer", "libopenjp2-7-dev"); }
Result<Pixels> decode(Bytes) { return built_without("OpenJPEG 2.5 or newer", "libopenjp2-7-dev"); }

#endif

}  // namespace

const Format kJpeg2000 = {"JPEG 2000", recognises, size_of, decode};

}  // namespace aipu::image
