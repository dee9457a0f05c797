// Numbers as text, and back, as ONNX's Cast has them.
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "runtime/base/half.h"
#include "runtime/base/text.h"
#include "runtime/text/operation.h"

namespace aipu::text {
namespace {

// ---- text of numbers

// With the fewest digits that are the same number again. Scientific where a number is too large or small for printf's
// %g of `precision` digits, which is how ONNX Runtime writes them.
template <typename T>
std::string_view real_text(T value, int precision, std::array<char, 64>* buffer) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  char* const begin = buffer->data();
  const char* const end = std::to_chars(begin, begin + buffer->size(), value, std::chars_format::scientific).ptr;
  const std::string_view text(begin, static_cast<size_t>(end - begin));
  const size_t mark = text.find('e');
  int exponent = 0;
  std::from_chars(begin + mark + (text[mark + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= precision) return text;
  const char* const fixed_end = std::to_chars(begin, begin + buffer->size(), value, std::chars_format::fixed).ptr;
  return {begin, static_cast<size_t>(fixed_end - begin)};
}

// Of 16-bit floats: the fewest digits that `narrow` makes the same number of.
template <typename Narrow>
std::string_view half_text(float value, const Narrow& narrow, std::array<char, 64>* buffer) {
  if (!std::isfinite(value)) return real_text(value, 8, buffer);
  char* const begin = buffer->data();
  for (int digits = 1; digits < 9; ++digits) {
    const char* const end = std::to_chars(begin, begin + buffer->size(), value, std::chars_format::general, digits).ptr;
    float again = 0;
    std::from_chars(begin, end, again);
    if (narrow(again) == narrow(value)) return real_text(again, 8, buffer);
  }
  return real_text(value, 8, buffer);
}

template <typename T>
T element(const aipu_text_tensor& tensor, size_t k) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(tensor.data) + k * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
std::string_view integer_text(T value, std::array<char, 64>* buffer) {
  const char* const end = std::to_chars(buffer->data(), buffer->data() + buffer->size(), value).ptr;
  return {buffer->data(), static_cast<size_t>(end - buffer->data())};
}

std::string_view number_text(const aipu_text_tensor& x, size_t k, std::array<char, 64>* buffer) {
  switch (static_cast<DType>(x.dtype)) {
    case DType::kBool:
      return element<uint8_t>(x, k) != 0 ? "1" : "0";
    case DType::kI8:
      return integer_text(element<int8_t>(x, k), buffer);
    case DType::kU8:
      return integer_text(element<uint8_t>(x, k), buffer);
    case DType::kI16:
      return integer_text(element<int16_t>(x, k), buffer);
    case DType::kU16:
      return integer_text(element<uint16_t>(x, k), buffer);
    case DType::kI32:
      return integer_text(element<int32_t>(x, k), buffer);
    case DType::kU32:
      return integer_text(element<uint32_t>(x, k), buffer);
    case DType::kI64:
      return integer_text(element<int64_t>(x, k), buffer);
    case DType::kU64:
      return integer_text(element<uint64_t>(x, k), buffer);
    case DType::kF16:
      return half_text(f32_from_f16(element<uint16_t>(x, k)), f16_from_f32, buffer);
    case DType::kBF16:
      return half_text(f32_from_bf16(element<uint16_t>(x, k)), bf16_from_f32, buffer);
    case DType::kF32:
      return real_text(element<float>(x, k), 8, buffer);
    case DType::kF64:
      return real_text(element<double>(x, k), 17, buffer);
    default:
      return {};
  }
}

class NumberToText final : public Operation {
 public:
  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 1, 0));
    const aipu_text_tensor& x = arguments.inputs[0];
    AIPU_RETURN_IF_ERROR(expect_output(arguments, DType::kI64, x.count));
    if (x.dtype >= kDTypeCount || !is_computed(static_cast<DType>(x.dtype)))
      return invalid_argument("is run on elements that are no numbers");
    std::array<char, 64> buffer;
    for (size_t k = 0; k < x.count; ++k)
      AIPU_RETURN_IF_ERROR(arguments.put(arguments.outputs[0], k, number_text(x, k, &buffer)));
    return {};
  }
};

// ---- numbers of text

// Without white space around it, and without a plus sign.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

Status no_number(std::string_view text, DType dtype) {
  constexpr size_t kShown = 100;
  return invalid_argument(str_cat("'", printable(text.substr(0, kShown)), "' is no ", dtype_name(dtype)));
}

// Beyond the range it is infinity or 0.
template <typename T>
bool read_real(std::string_view text, T* value) {
  const char* const end = text.data() + text.size();
  auto found = std::from_chars(text.data(), end, *value);
  if (found.ec == std::errc::result_out_of_range) {
    long double wide = 0;
    found = std::from_chars(text.data(), end, wide);
    *value = static_cast<T>(wide);
  }
  return found.ec == std::errc() && found.ptr == end && !text.empty();
}

template <typename T>
bool read_integer(std::string_view text, T* value) {
  const char* const end = text.data() + text.size();
  const auto found = std::from_chars(text.data(), end, *value);
  return found.ec == std::errc() && found.ptr == end && !text.empty();
}

bool read_bool(std::string_view text, uint8_t* value) {
  const bool is_true = text == "1" || text == "true" || text == "True" || text == "TRUE";
  *value = is_true ? 1 : 0;
  return is_true || text == "0" || text == "false" || text == "False" || text == "FALSE";
}

template <typename T, typename Read>
bool read_to(const aipu_text_tensor& to, size_t k, std::string_view text, const Read& read) {
  T value = {};
  if (!read(text, &value)) return false;
  store(to, k, value);
  return true;
}

bool read_number(const aipu_text_tensor& to, size_t k, std::string_view text) {
  const auto half = [](auto narrow) {
    return [narrow](std::string_view given, uint16_t* value) {
      float wide = 0;
      const bool good = read_real(given, &wide);
      *value = narrow(wide);
      return good;
    };
  };
  switch (static_cast<DType>(to.dtype)) {
    case DType::kBool:
      return read_to<uint8_t>(to, k, text, read_bool);
    case DType::kI8:
      return read_to<int8_t>(to, k, text, read_integer<int8_t>);
    case DType::kU8:
      return read_to<uint8_t>(to, k, text, read_integer<uint8_t>);
    case DType::kI16:
      return read_to<int16_t>(to, k, text, read_integer<int16_t>);
    case DType::kU16:
      return read_to<uint16_t>(to, k, text, read_integer<uint16_t>);
    case DType::kI32:
      return read_to<int32_t>(to, k, text, read_integer<int32_t>);
    case DType::kU32:
      return read_to<uint32_t>(to, k, text, read_integer<uint32_t>);
    case DType::kI64:
      return read_to<int64_t>(to, k, text, read_integer<int64_t>);
    case DType::kU64:
      return read_to<uint64_t>(to, k, text, read_integer<uint64_t>);
    case DType::kF16:
      return read_to<uint16_t>(to, k, text, half(f16_from_f32));
    case DType::kBF16:
      return read_to<uint16_t>(to, k, text, half(bf16_from_f32));
    case DType::kF32:
      return read_to<float>(to, k, text, read_real<float>);
    case DType::kF64:
      return read_to<double>(to, k, text, read_real<double>);
    default:
      return false;
  }
}

class TextToNumber final : public Operation {
 public:
  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 1, 1));
    const aipu_text_tensor& y = arguments.outputs[0];
    const DType dtype = y.dtype < kDTypeCount ? static_cast<DType>(y.dtype) : DType::kVoid;
    AIPU_RETURN_IF_ERROR(expect_output(arguments, dtype, arguments.inputs[0].count));
    for (size_t k = 0; k < y.count; ++k) {
      AIPU_ASSIGN_OR_RETURN(const std::string_view text, arguments.at(arguments.inputs[0], k));
      if (!read_number(y, k, trimmed(text))) return no_number(text, dtype);
    }
    return {};
  }
};

}  // namespace

MadeOperation make_number_to_text(const Given&) { return std::make_unique<NumberToText>(); }
MadeOperation make_text_to_number(const Given&) { return std::make_unique<TextToNumber>(); }

}  // namespace aipu::text
