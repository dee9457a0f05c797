// Element types that tensors are stored in and nobody computes with: floats of 8 bits and less, integers of less,
// complex numbers. Graphs and kernels hold such an element as one of another type (`held_as`), in a byte of its own
// where it has 8 bits or fewer; where models meet the world (ONNX files, inputs and outputs of aipu.bin) elements of
// fewer than 8 bits are packed as ONNX packs them: a stream of bits, the first element in the lowest ones, filled with
// zeros to whole bytes.
//
// A string is held as its number in the pool of strings that a session has (executor/string_pool.h): equal strings have
// equal numbers, "" is 0, the strings of a file come first. Inputs and outputs are texts at the border.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/dtype.h"

namespace aipu {

// A float of at most 8 bits: sign (if any), exponent, mantissa, from the top down.
struct SmallFloat {
  // What is no number. kAllOnes: the greatest magnitude is NaN. kIeee: the greatest exponent is infinity and NaN.
  // kNegativeZero: -0 is NaN. kNone: all are numbers.
  enum class Special : uint8_t { kNone, kAllOnes, kIeee, kNegativeZero };

  int exponent_bits, mantissa_bits, bias;
  Special special;
  bool is_signed = true;  // an unsigned one is a power of two, and has neither 0 nor subnormals

  constexpr int magnitude_bits() const { return exponent_bits + mantissa_bits; }
  constexpr int sign_bit() const { return is_signed ? 1 << magnitude_bits() : 0; }
  constexpr int infinity() const { return ((1 << exponent_bits) - 1) << mantissa_bits; }  // of kIeee
  // The greatest magnitude that is a number, as a code.
  constexpr int greatest() const {
    const int all_ones = (1 << magnitude_bits()) - 1;
    return special == Special::kIeee ? infinity() - 1 : special == Special::kAllOnes ? all_ones - 1 : all_ones;
  }
  // A NaN; -0 where there is none.
  constexpr int nan() const {
    const int all_ones = (1 << magnitude_bits()) - 1;
    return special == Special::kIeee      ? infinity() | 1 << (mantissa_bits - 1)
           : special == Special::kAllOnes ? all_ones
                                          : sign_bit();
  }
};

struct StoredType {
  DType dtype;
  DType held_as;
  std::optional<SmallFloat> small_float;
};

// Null for types that kernels compute with.
const StoredType* stored_type(DType dtype);
std::span<const StoredType> stored_types();
// What a graph holds an element as: the type itself unless it is a stored one.
DType held_as(DType dtype);
inline const SmallFloat* small_float(DType dtype) {
  const StoredType* stored = stored_type(dtype);
  return stored != nullptr && stored->small_float ? &*stored->small_float : nullptr;
}

// The value of a code; exact. Bits beyond the type's do not count.
float value_of_code(const SmallFloat& type, uint8_t code);

// ---- packed elements

inline bool is_packed(DType dtype) { return dtype_bits(dtype) > 0 && dtype_bits(dtype) < 8; }
// What `count` elements take as the bytes of an input or output.
std::optional<int64_t> packed_bytes(DType dtype, int64_t count);
// The same for extents; nothing where one is negative or the product is beyond 64 bits.
std::optional<int64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape);
// Between packed bytes and a byte for each element, as a graph holds it: signed integers with their sign. What is given
// must have the size of so many elements.
std::vector<std::byte> unpack(DType dtype, std::span<const std::byte> packed, int64_t count);
std::vector<std::byte> pack(DType dtype, std::span<const std::byte> elements);

}  // namespace aipu
