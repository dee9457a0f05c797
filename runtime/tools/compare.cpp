#include "runtime/tools/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "runtime/base/half.h"
#include "runtime/base/stored_type.h"
#include "runtime/base/text.h"
#include "runtime/session.h"

namespace aipu::tools {
namespace {

template <typename T>
T load(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + static_cast<size_t>(i) * sizeof(T), sizeof value);
  return value;
}

template <typename T>
void store(std::vector<std::byte>& data, int64_t i, T value) {
  std::memcpy(data.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof value);
}

std::string number(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

std::string position(int64_t flat, std::span<const int64_t> shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t k = shape.size(); k-- > 0;) {
    index[k] = flat % shape[k];
    flat /= shape[k];
  }
  return shape_text(index);
}

// xorshift64*
struct Random {
  uint64_t state;
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dULL;
  }
  double symmetric() { return static_cast<double>(next() >> 11) * 0x1p-52 - 1.0; }
};

// Of a number in [-1, 1), but 0.
uint8_t random_code(const SmallFloat& type, uint64_t bits) {
  const auto one = static_cast<uint64_t>(type.bias) << type.mantissa_bits;
  return static_cast<uint8_t>((1 + bits % (one - 1)) | (bits >> 32 & static_cast<uint64_t>(type.sign_bit())));
}

}  // namespace

double element_as_double(DType dtype, const void* data, int64_t i) {
  if (const SmallFloat* type = small_float(dtype)) return value_of_code(*type, load<uint8_t>(data, i));
  switch (held_as(dtype)) {
    case DType::kBool:
    case DType::kU8:
      return load<uint8_t>(data, i);
    case DType::kI8:
      return load<int8_t>(data, i);
    case DType::kI16:
      return load<int16_t>(data, i);
    case DType::kU16:
      return load<uint16_t>(data, i);
    case DType::kI32:
      return load<int32_t>(data, i);
    case DType::kU32:
      return load<uint32_t>(data, i);
    case DType::kI64:
      return static_cast<double>(load<int64_t>(data, i));
    case DType::kU64:
      return static_cast<double>(load<uint64_t>(data, i));
    case DType::kF16:
      return f32_from_f16(load<uint16_t>(data, i));
    case DType::kBF16:
      return f32_from_bf16(load<uint16_t>(data, i));
    case DType::kF32:
      return load<float>(data, i);
    case DType::kF64:
      return load<double>(data, i);
    default:
      break;
  }
  return 0;
}

namespace {

// A tensor with a byte for each element where they are packed.
struct Elements {
  explicit Elements(const TensorSpan& tensor, int64_t count) : data(static_cast<const std::byte*>(tensor.data)) {
    const auto size = static_cast<size_t>(packed_bytes(tensor.dtype, count).value_or(0));
    if (!is_packed(tensor.dtype)) return;
    own = unpack(tensor.dtype, {data, size}, count);
    data = own.data();
  }
  std::vector<std::byte> own;
  const std::byte* data;
};

std::span<const runtime::StringView> texts_of(const TensorSpan& tensor, int64_t count) {
  return {static_cast<const runtime::StringView*>(tensor.data), static_cast<size_t>(count)};
}

std::string shown(const runtime::StringView& text) {
  constexpr size_t kMost = 40;
  const std::string_view all(text.data, text.size);
  return str_cat("'", printable(all.substr(0, kMost)), all.size() > kMost ? "...'" : "'");
}

void compare_texts(const TensorSpan& found, const TensorSpan& expected, int64_t count, Comparison* result) {
  const auto f = texts_of(found, count), e = texts_of(expected, count);
  int64_t wrong = 0, first = 0;
  for (int64_t i = count; i-- > 0;) {
    const auto k = static_cast<size_t>(i);
    if (std::string_view(f[k].data, f[k].size) == std::string_view(e[k].data, e[k].size)) continue;
    ++wrong;
    first = i;
  }
  result->equal = wrong == 0;
  if (wrong == 0) return;
  result->message =
      str_cat(wrong, " of ", count, " elements differ, first at ", position(first, found.shape), ": expected ",
              shown(e[static_cast<size_t>(first)]), ", found ", shown(f[static_cast<size_t>(first)]));
}

struct Range {
  double low = HUGE_VAL, high = -HUGE_VAL, mean = 0;
  std::string text() const { return str_cat("min ", number(low), " max ", number(high), " mean ", number(mean)); }
};

Range range_of(const TensorSpan& tensor, int64_t count) {
  const Elements elements(tensor, count);
  Range range;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = element_as_double(tensor.dtype, elements.data, i);
    range.low = std::fmin(range.low, value);
    range.high = std::fmax(range.high, value);
    sum += value;
  }
  range.mean = sum / static_cast<double>(count);
  return range;
}

}  // namespace

Comparison compare(const TensorSpan& found, const TensorSpan& expected, const Tolerance& tolerance) {
  Comparison result;
  if (found.dtype != expected.dtype) {
    result.message = str_cat("dtype: expected ", dtype_name(expected.dtype), ", found ", dtype_name(found.dtype));
    return result;
  }
  if (!std::equal(found.shape.begin(), found.shape.end(), expected.shape.begin(), expected.shape.end())) {
    result.message = str_cat("shape: expected ", shape_text(expected.shape), ", found ", shape_text(found.shape));
    return result;
  }
  const auto count = element_count(found.shape);
  if (!count.ok()) {
    result.message = count.status().message();
    return result;
  }
  if (found.dtype == DType::kString) {
    compare_texts(found, expected, *count, &result);
    return result;
  }
  const bool floating = is_floating(found.dtype) || small_float(found.dtype) != nullptr;
  const Elements found_elements(found, *count), expected_elements(expected, *count);
  const size_t bytes = dtype_bytes(found.dtype);
  int64_t wrong = 0, first_wrong = 0, worst = 0;
  double worst_excess = -1;
  double sum = 0;
  for (int64_t i = 0; i < *count; ++i) {
    const auto* found_element = found_elements.data + static_cast<size_t>(i) * bytes;
    const auto* expected_element = expected_elements.data + static_cast<size_t>(i) * bytes;
    if (std::memcmp(found_element, expected_element, bytes) == 0) continue;
    const double f = element_as_double(found.dtype, found_elements.data, i);
    const double e = element_as_double(expected.dtype, expected_elements.data, i);
    bool fine = false;
    double excess = 0;
    if (floating) {
      if (f == e || (std::isnan(f) && std::isnan(e))) continue;
      const double difference = std::fabs(f - e);
      const double allowed = tolerance.absolute + tolerance.relative * std::fabs(e);
      const bool comparable = std::isfinite(f) && std::isfinite(e);
      fine = comparable && difference <= allowed;
      excess = comparable ? difference - allowed : INFINITY;
      if (comparable) {
        sum += difference;
        result.max_absolute = std::max(result.max_absolute, difference);
        if (e != 0) result.max_relative = std::max(result.max_relative, difference / std::fabs(e));
      } else {
        result.max_absolute = INFINITY;
      }
    } else {
      excess = std::fabs(f - e);
      sum += excess;
      result.max_absolute = std::max(result.max_absolute, excess);
      if (e != 0) result.max_relative = std::max(result.max_relative, excess / std::fabs(e));
    }
    if (fine) continue;
    if (wrong++ == 0) first_wrong = i;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  result.mean_absolute = *count > 0 ? sum / static_cast<double>(*count) : 0;
  result.equal = wrong == 0;
  if (wrong > 0) {
    result.message = str_cat(wrong, " of ", *count, " elements differ, first at ", position(first_wrong, found.shape),
                             ", worst at ", position(worst, found.shape), ": expected ",
                             number(element_as_double(expected.dtype, expected_elements.data, worst)), ", found ",
                             number(element_as_double(found.dtype, found_elements.data, worst)), "; max abs error ",
                             number(result.max_absolute), ", max rel error ", number(result.max_relative));
  }
  return result;
}

Result<Array> random_array(DType dtype, std::span<const int64_t> shape, uint64_t seed) {
  constexpr int64_t kMaxBytes = int64_t{1} << 34;
  if (dtype == DType::kString) return unsupported("there are no random strings; give a file (--input NAME=FILE.npy)");
  Array array;
  array.dtype = dtype;
  array.shape.assign(shape.begin(), shape.end());
  AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count(shape));
  if (count > kMaxBytes / std::max<int64_t>(1, static_cast<int64_t>(dtype_bytes(dtype)))) {
    return out_of_range(str_cat("a random tensor of shape ", shape_text(shape), " is too large"));
  }
  array.data.resize(static_cast<size_t>(packed_bytes(dtype, count).value_or(0)));
  Random random{seed * 0x9e3779b97f4a7c15ULL + 0x1234567ULL};
  // All codes of fewer than 8 bits are numbers.
  if (is_packed(dtype)) {
    for (std::byte& byte : array.data) byte = static_cast<std::byte>(random.next() >> 56);
    array.data = pack(dtype, unpack(dtype, array.data, count));  // zeros behind the last one
    return array;
  }
  for (int64_t i = 0; i < count; ++i) {
    switch (dtype) {
      case DType::kF32:
        store(array.data, i, static_cast<float>(random.symmetric()));
        break;
      case DType::kF64:
        store(array.data, i, random.symmetric());
        break;
      case DType::kF16:
        store(array.data, i, f16_from_f32(static_cast<float>(random.symmetric())));
        break;
      case DType::kBF16:
        store(array.data, i, bf16_from_f32(static_cast<float>(random.symmetric())));
        break;
      case DType::kF8E4M3FN:
      case DType::kF8E4M3FNUZ:
      case DType::kF8E5M2:
      case DType::kF8E5M2FNUZ:
      case DType::kF8E8M0:
        store(array.data, i, random_code(*small_float(dtype), random.next()));
        break;
      default: {
        const auto bit = static_cast<uint8_t>(random.next() >> 63);
        std::memset(array.data.data() + static_cast<size_t>(i) * dtype_bytes(dtype), 0, dtype_bytes(dtype));
        std::memset(array.data.data() + static_cast<size_t>(i) * dtype_bytes(dtype), bit, 1);  // little endian
      }
    }
  }
  return array;
}

std::string summary(const TensorSpan& tensor) {
  const auto count = element_count(tensor.shape);
  if (!count.ok() || *count == 0) return "empty";
  if (tensor.dtype == DType::kString) {
    constexpr int64_t kShown = 4;
    std::string text;
    for (const auto& element : texts_of(tensor, std::min(*count, kShown)))
      text += (text.empty() ? "" : ", ") + shown(element);
    return text + (*count > kShown ? ", ..." : "");
  }
  return range_of(tensor, *count).text();
}

std::string statistics(const TensorSpan& tensor) {
  const auto count = element_count(tensor.shape);
  if (!count.ok() || *count == 0 || tensor.dtype == DType::kString) return summary(tensor);
  const Elements elements(tensor, *count);
  const Range range = range_of(tensor, *count);
  double squares = 0;
  int64_t zeros = 0, no_numbers = 0;
  for (int64_t i = 0; i < *count; ++i) {
    const double value = element_as_double(tensor.dtype, elements.data, i);
    squares += (value - range.mean) * (value - range.mean);
    zeros += value == 0;
    no_numbers += std::isnan(value);
  }
  const auto total = static_cast<double>(*count);
  return str_cat(range.text(), " std ", number(std::sqrt(squares / total)), " zero ",
                 number(100 * static_cast<double>(zeros) / total), " %",
                 no_numbers > 0 ? str_cat(" NaN ", no_numbers) : "");
}

}  // namespace aipu::tools
