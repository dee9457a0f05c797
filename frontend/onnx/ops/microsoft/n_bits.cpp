// Products with weights of a few bits in blocks: MatMulNBits, and those of a language model's layer in one operator.
#include <cstring>
#include <utility>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/quantized.h"

namespace aipu::frontend::microsoft {

namespace {

// The transposed weights [rows, blocks, bytes]: a scale, and perhaps a zero point, for each block of `depth`.
struct BlockWeights {
  int64_t bits = 4, block = 0, depth = 0, accuracy_level = 0;
  int64_t rows = 0;
  ValueId codes, scales, zeros;
  ValueId order;  // which block an element belongs to; absent: as they lie
  ValueId bias;

  int64_t blocks() const { return (depth + block - 1) / block; }
};

void take_block_attributes(OpContext& c, BlockWeights* w) {
  for (const char* name : {"K", "block_size"}) c.require_attribute(name);
  w->bits = c.take_int("bits", 4);
  w->block = c.take_int("block_size", 0);
  w->depth = c.take_int("K", 0);
  w->accuracy_level = c.take_int("accuracy_level", 0);
  if (!c.ok()) return;
  if (w->bits != 2 && w->bits != 4 && w->bits != 8)
    return c.fail_unsupported(str_cat(w->bits, " bits are not supported"));
  if (w->block < 1 || w->depth < 1) return c.fail_invalid("needs positive K and block_size");
  if (w->accuracy_level < 0 || w->accuracy_level > 4)
    c.fail_invalid(str_cat("accuracy_level is ", w->accuracy_level, ", expected 0 to 4"));
}

// The number of rows as the attribute says it.
int64_t take_rows(OpContext& c, const char* name) {
  c.require_attribute(name);
  const int64_t rows = c.take_int(name, 0);
  if (c.ok() && rows < 1) c.fail_invalid(str_cat(name, " is ", rows));
  return rows;
}

// One code or number for each row and block. The packed ones of a row begin with a byte.
ValueId per_block(OpContext& c, ValueId x, const BlockWeights& w) {
  if (c.dtype(x) != DType::kU8) return reshape(c, x, {w.rows, w.blocks()});
  const int64_t bytes = (w.blocks() * w.bits + 7) / 8;
  return slice(c, unpacked_bits(c, reshape(c, x, {w.rows, bytes}), w.bits), 1, 0, w.blocks());
}

// What per_block() gives of constant zero points, as a constant.
ConstantPtr constant_zeros(OpContext& c, const BlockWeights& w) {
  if (c.dtype(w.zeros) != DType::kU8) return shaped(c, w.zeros, {w.rows, w.blocks()});
  const int64_t in_byte = 8 / w.bits;
  const ConstantPtr packed = shaped(c, w.zeros, {w.rows, (w.blocks() + in_byte - 1) / in_byte});
  return c.ok() ? unpacked_constant(packed->bytes(), w.bits, w.rows, w.blocks()) : nullptr;
}

// Weights that the product reads as they are: constant ones, in order, of bytes and halves of bytes.
bool stay_quantized(OpContext& c, ValueId a, const BlockWeights& w) {
  const auto is_constant = [&](ValueId x) { return !x.valid() || c.graph().constant(x) != nullptr; };
  return (w.bits == 4 || w.bits == 8) && w.block % 16 == 0 && !w.order.valid() && is_constant(w.codes) &&
         is_constant(w.scales) && is_constant(w.zeros) && dtype_bits(c.dtype(a)) <= 32 &&
         is_floating(c.dtype(w.scales));
}

ValueId block_product(OpContext& c, ValueId a, const BlockWeights& w) {
  if (!c.ok()) return {};
  const DType dtype = c.dtype(a);
  const int64_t blocks = w.blocks();
  if (stay_quantized(c, a, w)) {
    const ConstantPtr codes = shaped(c, w.codes, {w.rows, blocks, w.block * w.bits / 8});
    const ConstantPtr scales = shaped(c, w.scales, {w.rows, blocks});
    const ConstantPtr zeros = w.zeros.valid() && c.ok() ? constant_zeros(c, w) : nullptr;
    if (!c.ok()) return {};
    std::vector<ValueId> operands{a, c.constant(codes), c.constant(scales),
                                  zeros != nullptr ? c.constant(zeros) : ValueId(), w.bias};
    while (!operands.back().valid()) operands.pop_back();
    return c.emit("aipu::BlockQuantizedMatMul",
                  {{"bits", w.bits}, {"block_size", w.block}, {"K", w.depth}, {"accuracy_level", w.accuracy_level}},
                  std::move(operands));
  }
  const ValueId codes = unpacked_bits(c, reshape(c, w.codes, {w.rows, blocks, w.block * w.bits / 8}), w.bits);
  // Numbers [rows, blocks] for the elements: of blocks side by side, or of those that the order names.
  const bool in_order = !w.order.valid();
  const auto spread = [&](ValueId numbers) {
    if (in_order) return reshape(c, numbers, {w.rows, blocks, 1});
    return gather(c, reshape(c, numbers, {w.rows, blocks}), slice(c, w.order, 0, 0, w.depth), 1);
  };
  ValueId centred = c.cast(codes, dtype);
  if (!in_order) centred = slice(c, reshape(c, centred, {w.rows, blocks * w.block}), 1, 0, w.depth);
  if (!w.zeros.valid()) {
    centred = subtract(c, centred, c.scalar(dtype, static_cast<double>(1 << (w.bits - 1))));
  } else {
    centred = subtract(c, centred, c.cast(spread(per_block(c, w.zeros, w)), dtype));
  }
  ValueId weights = multiply(c, centred, c.cast(spread(w.scales), dtype));
  if (in_order) weights = reshape(c, weights, {w.rows, blocks * w.block});
  if (in_order && blocks * w.block != w.depth) weights = slice(c, weights, 1, 0, w.depth);
  return add_if(c, matmul(c, a, c.transpose(weights, {1, 0})), w.bias);
}

// The operands first, first + 1 and first + 2: codes, scales, and a bias that may be absent.
BlockWeights projection(OpContext& c, BlockWeights like, int64_t rows, size_t first) {
  like.rows = rows;
  like.codes = c.input(first);
  like.scales = c.input(first + 1);
  like.bias = c.input(first + 2);
  if (c.ok() && (!like.codes.valid() || !like.scales.valid()))
    c.fail_invalid(str_cat("needs inputs ", first, " and ", first + 1));
  return like;
}

// Operand 0 plus operand 1, a skip connection, normalised with the scales of operand 2; the sum is output `sum`.
ValueId normalized_input(OpContext& c, double epsilon, size_t sum) {
  ValueId x = c.input(0);
  if (c.has_input(1)) x = add(c, x, c.input(1));
  if (c.wants_output(sum)) {
    if (!c.has_input(1)) c.fail_invalid("the output input_skip_bias_sum needs the operand skip");
    c.set_output(sum, x);
  }
  if (!c.has_input(2)) {
    if (c.has_input(1)) c.fail_invalid("a skip connection needs norm_scale");
    return x;
  }
  return c.emit("RMSNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, {x, c.input(2)});
}

}  // namespace

void matmul_n_bits(OpContext& c) {
  c.expect_inputs(3, 6);
  BlockWeights w;
  take_block_attributes(c, &w);
  w.rows = take_rows(c, "N");
  if (c.take_int("weight_prepacked", 0) != 0)
    return c.fail_unsupported("weights that are packed for another runtime are not supported");
  w.codes = c.input(1), w.scales = c.input(2), w.zeros = c.input(3), w.order = c.input(4), w.bias = c.input(5);
  c.set_output(0, block_product(c, c.input(0), w));
}

// activation(A gate + its bias) * (A up + its bias)
void matmul_n_bits_mlp(OpContext& c) {
  c.expect_inputs(1, 9);
  BlockWeights w;
  take_block_attributes(c, &w);
  const int64_t rows = take_rows(c, "N");
  c.require_attribute("activation");
  const std::string activation = c.take_string("activation", "");
  const double epsilon = c.take_float("epsilon", 1e-5);
  if (c.ok() && activation != "silu" && activation != "swish")
    return c.fail_unsupported(str_cat("activation '", activation, "' is not supported"));
  const BlockWeights gate = projection(c, w, rows, 3), up = projection(c, w, rows, 6);
  const ValueId a = normalized_input(c, epsilon, 1);
  c.set_output(0, multiply(c, c.emit("Swish", {}, {block_product(c, a, gate)}), block_product(c, a, up)));
}

void matmul_n_bits_qkv(OpContext& c) {
  c.expect_inputs(1, 12);
  BlockWeights w;
  take_block_attributes(c, &w);
  const int64_t queries = take_rows(c, "Nq"), keys = take_rows(c, "Nkv");
  const double epsilon = c.take_float("epsilon", 1e-6);
  if (c.ok() && !c.has_input(2)) return c.fail_invalid("needs norm_scale");
  const ValueId a = normalized_input(c, epsilon, 3);
  for (size_t i = 0; i < 3; ++i) {
    const ValueId y = block_product(c, a, projection(c, w, i == 0 ? queries : keys, 3 + 3 * i));
    if (c.wants_output(i)) c.set_output(i, y);
  }
}

namespace {

// Blocks of 32 elements, column after column of B: a scale of float32, with `zeros` a byte that is the zero point, and
// 16 bytes, each of which has an element of the first half in its lower bits and one of the second in the others.
BlockWeights unpacked_blob(OpContext& c, const graph::Constant& blob, int64_t depth, int64_t columns, bool zeros) {
  BlockWeights w;
  w.block = 32, w.depth = depth, w.rows = columns;
  const int64_t head = zeros ? 5 : 4, blocks = columns * w.blocks();
  if (static_cast<int64_t>(blob.bytes().size()) != blocks * (head + 16)) {
    c.fail_invalid(str_cat("B of the type ", blob.type().text(), " does not fit B_shape"));
    return w;
  }
  std::vector<uint8_t> codes, points;
  std::vector<float> scales;
  const auto* at = reinterpret_cast<const uint8_t*>(blob.bytes().data());
  for (int64_t i = 0; i < blocks; ++i, at += head + 16) {
    std::memcpy(&scales.emplace_back(), at, sizeof(float));
    points.push_back(zeros ? at[4] : 8);
    for (int64_t k = 0; k < 32; k += 2) {
      const auto code = [&](int64_t element) {
        const uint8_t byte = at[head + element % 16];
        return static_cast<uint8_t>(element < 16 ? byte & 15 : byte >> 4);
      };
      codes.push_back(static_cast<uint8_t>(code(k) | code(k + 1) << 4));
    }
  }
  // Two zero points to a byte, those of a column from a byte on.
  std::vector<uint8_t> pairs;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t k = 0; k < w.blocks(); k += 2) {
      const uint8_t* pair = points.data() + column * w.blocks() + k;
      if (pair[0] > 15 || (k + 1 < w.blocks() && pair[1] > 15)) {
        c.fail_unsupported("zero points above 15 are not supported");
        return w;
      }
      pairs.push_back(static_cast<uint8_t>(pair[0] | (k + 1 < w.blocks() ? pair[1] << 4 : 0)));
    }
  }
  const auto bytes = [&](std::vector<int64_t> shape, const std::vector<uint8_t>& elements) {
    return c.constant(graph::Constant::of<uint8_t>(DType::kU8, std::move(shape), std::span<const uint8_t>(elements)));
  };
  w.codes = bytes({columns, w.blocks(), 16}, codes);
  w.scales = c.constant(graph::Constant::of<float>(DType::kF32, {columns, w.blocks()}, std::span<const float>(scales)));
  if (zeros) w.zeros = bytes({columns, (w.blocks() + 1) / 2}, pairs);
  return w;
}

}  // namespace

// B is one blob for all of its blocks.
void matmul_fp_q4(OpContext& c) {
  c.expect_inputs(3, 3);
  const int64_t type = c.take_int("blk_quant_type", 1);
  if (!c.ok()) return;
  // ONNX Runtime takes all others for 1, whatever the schema says.
  if (type != 0 && type != 1) return c.fail_unsupported(str_cat("blk_quant_type ", type, " is not supported"));
  const auto shape = c.constant_ints(c.input(2));
  const graph::Constant* blob = c.graph().constant(c.input(1));
  if (!shape || blob == nullptr)
    return c.fail_unsupported(
        str_cat("operand '", c.graph().value(c.input(blob == nullptr ? 1 : 2)).name, "' must be known when compiling"));
  constexpr int64_t kMostExtent = int64_t{1} << 40;
  const auto fits = [](int64_t extent) { return extent >= 1 && extent <= kMostExtent; };
  if (shape->size() != 2 || !fits((*shape)[0]) || !fits((*shape)[1]))
    return c.fail_invalid("B_shape must be two positive numbers");
  c.set_output(0, block_product(c, c.input(0), unpacked_blob(c, *blob, (*shape)[0], (*shape)[1], type == 1)));
}

}  // namespace aipu::frontend::microsoft
