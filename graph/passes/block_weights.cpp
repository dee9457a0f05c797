#include "graph/passes/block_weights.h"

#include <array>
#include <cmath>
#include <map>

#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

bool is_signed(const Constant& codes) { return codes.dtype() == DType::kI8; }
int64_t element(const Constant& bytes, size_t at) {
  const auto byte = bytes.bytes()[at];
  return is_signed(bytes) ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
}
int64_t zero(const BlockWeights& w, int64_t block_index, int64_t across) {
  return w.zeros == nullptr ? 0 : element(*w.zeros, w.place(*w.zeros, block_index, across));
}

int bits_of_integers(const BlockWeights& w) {
  const int64_t least = is_signed(*w.codes) ? -8 : 0;
  const auto fit = [&](const Constant& bytes) {
    for (size_t k = 0; k < bytes.bytes().size(); ++k) {
      const int64_t value = element(bytes, k);
      if (value < least || value > least + 15) return false;
    }
    return true;
  };
  return fit(*w.codes) && (w.zeros == nullptr || fit(*w.zeros)) ? 4 : 8;
}

// [N, blocks, bytes of a block], of elements plus an offset.
ConstantPtr packed(const BlockWeights& w, int64_t bits, int64_t offset) {
  const int64_t columns = w.extent(1 - w.axis), depth = w.extent(w.axis), blocks = w.blocks(), in_byte = 8 / bits;
  const int64_t row_bytes = blocks * w.block / in_byte;
  std::vector<uint8_t> codes(static_cast<size_t>(columns * row_bytes));
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t code = element(*w.codes, w.place(*w.codes, k, n)) + offset;
      codes[static_cast<size_t>(n * row_bytes + k / in_byte)] |= static_cast<uint8_t>(code << (k % in_byte * bits));
    }
  }
  return Constant::of<uint8_t>(DType::kU8, {columns, blocks, w.block / in_byte}, std::span<const uint8_t>(codes));
}

ConstantPtr by_columns(const BlockWeights& w, const Constant& per_block) {
  return transpose_constant(per_block, w.axis == 0 ? Permutation{1, 0} : Permutation{0, 1});
}

BlockOperands of_integers(const BlockWeights& w) {
  BlockOperands result;
  result.bits = bits_of_integers(w);
  const int64_t offset = is_signed(*w.codes) ? int64_t{1} << (result.bits - 1) : 0;
  result.codes = packed(w, result.bits, offset);
  result.scales = by_columns(w, *w.scales);
  // Without zero points the operator takes the middle of the codes.
  if (w.zeros == nullptr && is_signed(*w.codes)) return result;
  const int64_t columns = w.extent(1 - w.axis), blocks = w.blocks();
  std::vector<uint8_t> zeros;
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t b = 0; b < blocks; ++b) zeros.push_back(static_cast<uint8_t>(zero(w, b, n) + offset));
  }
  result.zeros = Constant::of<uint8_t>(DType::kU8, {columns, blocks}, std::span<const uint8_t>(zeros));
  return result;
}

// What a float type's codes stand for.
std::array<float, 256> numbers_of(const SmallFloat& format) {
  std::array<float, 256> numbers{};
  for (size_t code = 0; code < numbers.size(); ++code)
    numbers[code] = value_of_code(format, static_cast<uint8_t>(code));
  return numbers;
}

BlockWeights recoded(const BlockWeights& w, DType dtype, const std::array<uint8_t, 256>& codes, ConstantPtr* keep) {
  std::vector<std::byte> bytes;
  bytes.reserve(w.codes->bytes().size());
  for (const std::byte byte : w.codes->bytes()) bytes.push_back(std::byte{codes[std::to_integer<size_t>(byte)]});
  *keep = Constant::create(dtype, w.codes->shape(), std::move(bytes));
  BlockWeights result = w;
  result.codes = keep->get();
  return result;
}

std::array<bool, 256> used_codes(const BlockWeights& w) {
  std::array<bool, 256> used{};
  for (const std::byte byte : w.codes->bytes()) used[std::to_integer<size_t>(byte)] = true;
  return used;
}

// Integers of 8 bits times one power of two (float4e2m1: halves up to 6): these integers, and scales that have the
// power, where that rounds none of them.
std::optional<BlockOperands> as_integers(const BlockWeights& w) {
  const SmallFloat& format = *small_float(w.format);
  if (format.special != SmallFloat::Special::kNone || !format.is_signed) return std::nullopt;
  // Of the least number that is not 0.
  const int power = 1 - format.bias - format.mantissa_bits;
  if (std::ldexp(value_of_code(format, static_cast<uint8_t>(format.greatest())), -power) > 127) return std::nullopt;
  std::array<uint8_t, 256> integers{};
  const std::array<float, 256> numbers = numbers_of(format);
  for (size_t code = 0; code < integers.size(); ++code)
    integers[code] = static_cast<uint8_t>(static_cast<int8_t>(std::ldexp(numbers[code], -power)));
  std::vector<float> factors;
  for (const double scale : w.scales->to_doubles()) {
    factors.push_back(static_cast<float>(std::ldexp(scale, power)));
    if (static_cast<double>(factors.back()) != std::ldexp(scale, power)) return std::nullopt;
  }
  const ConstantPtr scales = Constant::of<float>(DType::kF32, w.scales->shape(), std::span<const float>(factors));
  ConstantPtr keep;
  BlockWeights whole = recoded(w, DType::kI8, integers, &keep);
  whole.scales = scales.get();
  return of_integers(whole);
}

// Types whose codes are upper halves of float16 numbers, shifted by a bit or not, times a power of two.
bool is_half(DType format) {
  return format == DType::kF8E5M2 || format == DType::kF8E4M3FN || format == DType::kF8E4M3FNUZ;
}

// Codes of `format` as those of float8e5m2, where the numbers that are used are there.
std::optional<std::array<uint8_t, 256>> as_e5m2(DType format, const std::array<bool, 256>& used) {
  std::map<float, uint8_t> code_of;
  const std::array<float, 256> wanted = numbers_of(*small_float(format)),
                               numbers = numbers_of(*small_float(DType::kF8E5M2));
  for (int code = 255; code >= 0; --code) {  // 0 before -0
    if (std::isfinite(numbers[static_cast<size_t>(code)]))
      code_of[numbers[static_cast<size_t>(code)]] = static_cast<uint8_t>(code);
  }
  std::array<uint8_t, 256> codes{};
  for (size_t code = 0; code < used.size(); ++code) {
    const auto found = std::isnan(wanted[code]) ? code_of.end() : code_of.find(wanted[code]);
    if (used[code] && found == code_of.end()) return std::nullopt;
    if (found != code_of.end()) codes[code] = found->second;
  }
  return codes;
}

std::optional<BlockOperands> as_halves(const BlockWeights& w) {
  const std::array<bool, 256> used = used_codes(w);
  const std::array<float, 256> numbers = numbers_of(*small_float(w.format));
  for (size_t code = 0; code < used.size(); ++code)
    if (used[code] && !std::isfinite(numbers[code])) return std::nullopt;
  BlockOperands result;
  result.bits = 8;
  result.scales = by_columns(w, *w.scales);
  result.format = w.format;
  if (is_half(w.format)) {
    result.codes = packed(w, 8, 0);
    return result;
  }
  const auto codes = as_e5m2(w.format, used);
  if (!codes) return std::nullopt;
  ConstantPtr keep;
  result.codes = packed(recoded(w, DType::kU8, *codes, &keep), 8, 0);
  result.format = DType::kF8E5M2;
  return result;
}

}  // namespace

std::optional<BlockOperands> block_operands(const BlockWeights& w, const PassContext& target) {
  if (w.format == DType::kVoid) return of_integers(w);
  if (w.format == DType::kF4E2M1 && target.has_byte_tables) {
    BlockOperands result;
    result.bits = 4;
    result.codes = packed(w, 4, 0);
    result.scales = by_columns(w, *w.scales);
    result.format = w.format;
    return result;
  }
  if (auto integers = as_integers(w)) return integers;
  return target.converts_halves ? as_halves(w) : std::nullopt;
}

bool reads_weights(const BlockOperands& w, const PassContext& target) {
  if (!target.reads_codes) return false;
  if (w.table != nullptr) return target.has_float_tables;
  if (w.format == DType::kF4E2M1) return target.has_byte_tables;
  return w.format == DType::kVoid || target.converts_halves;
}

ConstantPtr dense(const BlockWeights& w) {
  const std::vector<double> scales = w.scales->to_doubles();
  std::vector<float> elements(static_cast<size_t>(w.codes->element_count()));
  const SmallFloat* format = small_float(w.format);
  const std::array<float, 256> numbers = format != nullptr ? numbers_of(*format) : std::array<float, 256>();
  for (int64_t along = 0; along < w.extent(w.axis); ++along) {
    for (int64_t across = 0; across < w.extent(1 - w.axis); ++across) {
      const int64_t block = along / w.block;
      const auto scale = static_cast<float>(scales[w.place(*w.scales, block, across)]);
      const size_t at = w.place(*w.codes, along, across);
      const float number = format != nullptr ? numbers[static_cast<uint8_t>(element(*w.codes, at))]
                                             : static_cast<float>(element(*w.codes, at) - zero(w, block, across));
      elements[at] = number * scale;
    }
  }
  return Constant::of<float>(DType::kF32, w.codes->shape(), std::span<const float>(elements));
}

ConstantPtr dense(const BlockOperands& w, int64_t block, int64_t depth) {
  const int64_t columns = w.codes->shape()[0], blocks = w.codes->shape()[1], in_byte = 8 / w.bits;
  const std::vector<double> scales = w.scales->to_doubles();
  const std::vector<double> zeros = w.zeros != nullptr ? w.zeros->to_doubles() : std::vector<double>();
  const std::vector<double> table = w.table != nullptr ? w.table->to_doubles() : std::vector<double>();
  const SmallFloat* format = small_float(w.format);
  std::vector<float> elements;
  elements.reserve(static_cast<size_t>(columns * depth));
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < depth; ++k) {
      const auto byte = static_cast<int>(w.codes->bytes()[static_cast<size_t>((n * blocks * block + k) / in_byte)]);
      const int code = (byte >> (k % in_byte * w.bits)) & ((1 << w.bits) - 1);
      const auto at = static_cast<size_t>(n * blocks + k / block);
      const double middle = zeros.empty() ? 1 << (w.bits - 1) : zeros[at];
      const float number = !table.empty()      ? static_cast<float>(table[static_cast<size_t>(code)])
                           : format != nullptr ? value_of_code(*format, static_cast<uint8_t>(code))
                                               : static_cast<float>(code) - static_cast<float>(middle);
      elements.push_back(number * static_cast<float>(scales[at]));
    }
  }
  return Constant::of<float>(DType::kF32, {columns, depth}, std::span<const float>(elements));
}

}  // namespace aipu::graph
