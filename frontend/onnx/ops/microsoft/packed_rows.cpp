// GatherPacked: rows of a table whose elements are packed in blocks, in the forms and by the numbers of GGUF.
#include <array>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/quantized.h"

namespace aipu::frontend::microsoft {

namespace {

// All take blocks uint8 [blocks, bytes] and give float32 [blocks, elements].
using Unpack = ValueId (*)(OpContext& c, ValueId x);

ValueId bytes_of(OpContext& c, ValueId x, int64_t begin, int64_t end) { return slice(c, x, 1, begin, end); }
ValueId real(OpContext& c, ValueId x) { return c.cast(x, DType::kF32); }

// Bytes in a row as elements of the type, the lowest byte first: [n, bytes of the type] as [n, 1].
ValueId as_numbers(OpContext& c, ValueId x, DType dtype) {
  const int64_t size = dtype_bits(dtype) / 8;
  const DType bits = size == 2 ? DType::kU16 : DType::kU32;
  ValueId sum;
  for (int64_t i = 0; i < size; ++i) {
    const ValueId byte = c.cast(bytes_of(c, x, i, i + 1), bits);
    const ValueId part = i == 0 ? byte : multiply(c, byte, c.scalar(bits, static_cast<double>(int64_t{1} << (8 * i))));
    sum = sum.valid() ? add(c, sum, part) : part;
  }
  return real(c, c.emit("BitCast", {{"to", dtype}}, {sum}));
}
ValueId half_at(OpContext& c, ValueId x, int64_t at) { return as_numbers(c, bytes_of(c, x, at, at + 2), DType::kF16); }

template <DType kType>
ValueId plain(OpContext& c, ValueId x) {
  return as_numbers(c, x, kType);
}

// [blocks, n] bytes as [blocks, n / size, 2 * size]: of `size` bytes at a time the lower halves, then the higher ones.
ValueId halves(OpContext& c, ValueId x, int64_t n, int64_t size) {
  const ValueId pairs = reshape(c, unpacked_bits(c, x, 4), {-1, n / size, size, 2});
  return reshape(c, c.transpose(pairs, {0, 1, 3, 2}), {-1, n / size, 2 * size});
}
// The same as [blocks, 2 * n].
ValueId flat_halves(OpContext& c, ValueId x, int64_t n, int64_t size) {
  return reshape(c, halves(c, x, n, size), {-1, 2 * n});
}

ValueId moved(OpContext& c, ValueId x, double by) { return add(c, real(c, x), c.scalar(DType::kF32, by)); }

ValueId q4_0(OpContext& c, ValueId x) {
  return multiply(c, half_at(c, x, 0), moved(c, flat_halves(c, bytes_of(c, x, 2, 18), 16, 16), -8));
}

ValueId q5_0(OpContext& c, ValueId x) {
  const ValueId fifth = real(c, unpacked_bits(c, bytes_of(c, x, 2, 6), 1));
  const ValueId low = moved(c, flat_halves(c, bytes_of(c, x, 6, 22), 16, 16), -16);
  return multiply(c, half_at(c, x, 0), add(c, low, scaled(c, fifth, 16)));
}

ValueId q8_0(OpContext& c, ValueId x) {
  return multiply(c, half_at(c, x, 0), real(c, c.emit("BitCast", {{"to", DType::kI8}}, {bytes_of(c, x, 2, 34)})));
}

// Of 256 elements from here on: 8 or 16 groups, each with a scale of its own.
ValueId in_groups(OpContext& c, ValueId scales, ValueId elements, int64_t groups) {
  return multiply(c, reshape(c, scales, {-1, groups, 1}), reshape(c, elements, {-1, groups, 256 / groups}));
}

// d, least, 12 bytes of scales, 32 of fifth bits, 128 of lower ones
ValueId q5_k(OpContext& c, ValueId x) {
  // 8 scales and 8 offsets of 6 bits: the first four of each are bytes, the others halves and the bytes' ends.
  const ValueId bytes = bytes_of(c, x, 4, 16);
  const ValueId pairs = reshape(c, unpacked_bits(c, bytes, 2), {-1, 12, 4});
  const auto ends = [&](int64_t begin) { return real(c, slice(c, slice(c, pairs, 1, begin, begin + 4), 2, 3, 4)); };
  const auto front = [&](int64_t begin) {
    ValueId sum;
    for (int64_t i = 0; i < 3; ++i) {
      const ValueId part = scaled(c, real(c, slice(c, slice(c, pairs, 1, begin, begin + 4), 2, i, i + 1)),
                                  static_cast<double>(1 << (2 * i)));
      sum = add_if(c, part, sum);
    }
    return sum;
  };
  const ValueId low = reshape(c, unpacked_bits(c, bytes_of(c, bytes, 8, 12), 4), {-1, 4, 2});
  const auto back = [&](int64_t half, int64_t begin) {
    return add(c, real(c, slice(c, low, 2, half, half + 1)), scaled(c, ends(begin), 16));
  };
  const ValueId scales = concat(c, 1, {front(0), back(0, 0)});
  const ValueId least = concat(c, 1, {front(4), back(1, 4)});
  const ValueId fifth = c.transpose(reshape(c, unpacked_bits(c, bytes_of(c, x, 16, 48), 1), {-1, 32, 8}), {0, 2, 1});
  const ValueId low_bits = reshape(c, halves(c, bytes_of(c, x, 48, 176), 128, 32), {-1, 8, 32});
  const ValueId elements = add(c, real(c, low_bits), scaled(c, real(c, fifth), 16));
  const auto times = [&](ValueId factor, ValueId six_bits) {
    return multiply(c, factor, reshape(c, six_bits, {-1, 8}));
  };
  const ValueId grown = in_groups(c, times(half_at(c, x, 0), scales), elements, 8);
  const ValueId offset = reshape(c, times(half_at(c, x, 2), least), {-1, 8, 1});
  return reshape(c, subtract(c, grown, offset), {-1, 256});
}

// 128 bytes of lower bits, 64 of upper ones, 16 scales, d
ValueId q6_k(OpContext& c, ValueId x) {
  const ValueId low = reshape(c, halves(c, bytes_of(c, x, 0, 128), 128, 64), {-1, 256});
  // Of 32 bytes: the lowest two bits of all, the next ones, ...
  const ValueId pairs = reshape(c, unpacked_bits(c, bytes_of(c, x, 128, 192), 2), {-1, 2, 32, 4});
  const ValueId high = reshape(c, c.transpose(pairs, {0, 1, 3, 2}), {-1, 256});
  const ValueId elements = moved(c, add(c, real(c, low), scaled(c, real(c, high), 16)), -32);
  const ValueId scales = real(c, c.emit("BitCast", {{"to", DType::kI8}}, {bytes_of(c, x, 192, 208)}));
  return reshape(c, in_groups(c, multiply(c, half_at(c, x, 208), scales), elements, 16), {-1, 256});
}

ValueId looked_up(OpContext& c, ValueId codes) {
  static constexpr std::array<float, 16> kNumbers{-127, -104, -83, -65, -49, -35, -22, -10,
                                                  1,    13,   25,  38,  53,  69,  89,  113};
  const ValueId table = c.constant(graph::Constant::of<float>(DType::kF32, {16}, kNumbers));
  return gather(c, table, c.cast(codes, DType::kI64));
}

ValueId iq4_nl(OpContext& c, ValueId x) {
  return multiply(c, half_at(c, x, 0), looked_up(c, flat_halves(c, bytes_of(c, x, 2, 18), 16, 16)));
}

// d, 8 scales' higher two bits, 4 bytes of their lower ones, 128 bytes of codes
ValueId iq4_xs(OpContext& c, ValueId x) {
  const ValueId high = real(c, unpacked_bits(c, bytes_of(c, x, 2, 4), 2));
  const ValueId low = real(c, unpacked_bits(c, bytes_of(c, x, 4, 8), 4));
  const ValueId scales = moved(c, add(c, low, scaled(c, high, 16)), -32);
  const ValueId elements = looked_up(c, flat_halves(c, bytes_of(c, x, 8, 136), 128, 16));
  return reshape(c, in_groups(c, multiply(c, half_at(c, x, 0), scales), elements, 8), {-1, 256});
}

struct Packing {
  int64_t type = 0, elements = 0, bytes = 0;
  Unpack unpack = nullptr;
};
constexpr Packing kPackings[] = {
    {0, 1, 4, plain<DType::kF32>},
    {1, 1, 2, plain<DType::kF16>},
    {2, 32, 18, q4_0},
    {6, 32, 22, q5_0},
    {8, 32, 34, q8_0},
    {13, 256, 176, q5_k},
    {14, 256, 210, q6_k},
    {20, 32, 18, iq4_nl},
    {23, 256, 136, iq4_xs},
    {30, 1, 2, plain<DType::kBF16>},
};

}  // namespace

void gather_packed(OpContext& c) {
  c.expect_inputs(2, 2);
  c.require_attribute("packed_type");
  c.require_attribute("K");
  const int64_t type = c.take_int("packed_type", 0), width = c.take_int("K", 0);
  const DType dtype = c.take_dtype("output_dtype", DType::kBF16);
  if (!c.ok()) return;
  const Packing* packing = nullptr;
  for (const Packing& one : kPackings) {
    if (one.type == type) packing = &one;
  }
  if (packing == nullptr) return c.fail_unsupported(str_cat("packed_type ", type, " is not supported"));
  if (!is_floating(dtype)) return c.fail_invalid(str_cat("output_dtype is ", dtype_name(dtype)));
  const ValueId data = c.input(0), indices = c.input(1);
  const int64_t blocks = width / packing->elements;
  if (width < 1 || width % packing->elements != 0)
    return c.fail_invalid(str_cat("K is ", width, ", of blocks of ", packing->elements));
  if (c.dtype(data) != DType::kU8 || c.rank(data) != 2 || c.type(data).shape[1] != Dim(blocks * packing->bytes)) {
    return c.fail_invalid(
        str_cat("the table must be uint8 [rows, ", blocks * packing->bytes, "], found ", c.type(data).text()));
  }
  // Places outside of the table are its first row.
  const DType places = c.dtype(indices);
  const ValueId none = c.scalar(places, 0);
  const ValueId count = c.cast(c.size_of(data, 0), places);
  const ValueId is_there =
      c.emit("And", {}, {c.emit("GreaterOrEqual", {}, {indices, none}), c.emit("Less", {}, {indices, count})});
  const ValueId rows = gather(c, data, where(c, is_there, indices, none));
  if (!c.ok()) return;
  Shape shape = c.type(rows).shape;
  shape.back() = Dim(width);
  const ValueId elements = packing->unpack(c, reshape(c, rows, {-1, packing->bytes}));
  c.set_output(0, c.cast(c.emit("Reshape", {{"shape", shape}}, {elements}), dtype));
}

}  // namespace aipu::frontend::microsoft
