// aipu::BlockQuantizedMatMul: products with constant weights of 4 or 8 bits that have scales for blocks of the depth.
// The weights stay as they are, in the file and in memory (templates/block_quantized_matmul.py).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/gemm.h"
#include "kernels/parts/packing.h"
#include "kernels/plugins/plugin_list.h"
#include "runtime/base/stored_type.h"

namespace aipu::kernels {
namespace {

using graph::ConstantPtr;
using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::ValueId;

enum Operand : size_t { kA, kB, kScales, kZeros, kBias, kTable };

ValueId operand(const Node& node, size_t k) { return k < node.inputs.size() ? node.inputs[k] : ValueId(); }

// Up to here the codes are multiplied as they are. From there on the product is no longer a matter of reading them, and
// weights that are made once are multiplied by twice as many rows at a time.
constexpr int64_t kFewRows = 8;

// How numbers are made of codes: the template's parameters of these names.
struct Form {
  std::string name = "integers";
  int64_t centre = 0, power = 0, number_bits = 0, half_shift = 0, word_bits = 32;
  // Of digits of bytes, which are multiplied by unsigned numbers of so many bits; 0: they are no bytes.
  int64_t byte_bits = 0;
  std::vector<std::byte> table = {};  // of 16 bytes, or float32
};

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(T));
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

Form form_of(const Graph& graph, const Node& node) {
  const int64_t bits = node.attributes.i("bits");
  Form form{.centre = int64_t{1} << (bits - 1), .number_bits = bits, .byte_bits = bits};
  if (const ValueId given = operand(node, kTable); given.valid()) {
    std::vector<float> table;
    for (const double number : graph.constant(given)->to_doubles()) table.push_back(static_cast<float>(number));
    int exponent = 0;
    for (const float number : table) exponent = std::max(exponent, std::ilogb(std::abs(number) + 1) + 1);
    return {.name = "floats", .number_bits = exponent, .table = bytes_of(table)};
  }
  if (!node.attributes.has("format")) return form;
  const SmallFloat& format = *small_float(node.attributes.dtype("format"));
  if (bits == 4) {
    // Integers times the least number that is not 0, and a sum that makes them positive.
    const int power = 1 - format.bias - format.mantissa_bits;
    const auto integer = [&](int code) {
      return static_cast<int>(std::ldexp(value_of_code(format, static_cast<uint8_t>(code)), -power));
    };
    form = {.name = "bytes", .centre = 1, .power = power, .number_bits = 8};
    while (form.centre <= integer(format.greatest())) form.centre *= 2;
    form.byte_bits = std::ilogb(static_cast<double>(form.centre)) + 1;
    std::vector<uint8_t> table;
    for (int code = 0; code < 16; ++code) table.push_back(static_cast<uint8_t>(integer(code) + form.centre));
    form.table = bytes_of(table);
    return form;
  }
  // float16 has a bias of 15 and 5 bits of an exponent, which end with the upper byte's bit 2.
  constexpr int kBias = 15, kExponentBits = 5;
  return {.name = "halves",
          .power = kBias - format.bias,
          .number_bits = 16,
          .half_shift = kExponentBits - format.exponent_bits,
          .word_bits = 16};
}

struct Problem {
  int64_t bits, block, depth, columns, blocks;
  Dim rows;
  RowCount row_count;
  int64_t words(int64_t word_bits) const { return blocks * block * bits / word_bits; }  // of a column
};

Problem problem_of(const Graph& graph, const Node& node) {
  const graph::Shape& a = graph.type(node.inputs[kA]).shape;
  const std::vector<int64_t>& b = graph.constant(node.inputs[kB])->shape();
  Problem p{.bits = node.attributes.i("bits"),
            .block = node.attributes.i("block_size"),
            .depth = node.attributes.i("K"),
            .columns = b[0],
            .blocks = b[1],
            .rows = 1,
            .row_count = row_count(graph::Shape(a.begin(), a.end() - 1))};
  for (size_t i = 0; i + 1 < a.size(); ++i) p.rows *= a[i];
  return p;
}

// Columns of [columns][steps] side by side in panels, each element as often as is said.
ConstantPtr panels_of(const ConstantPtr& source, int64_t columns, int64_t steps, int64_t width, int64_t times = 1) {
  return pack_panels(source, source->dtype(),
                     {.batches = 1,
                      .depth = steps * times,
                      .columns = columns,
                      .panel_width = width,
                      .inner = times,
                      .batch_stride = 0,
                      .column_stride = steps,
                      .inner_stride = 0,
                      .outer_stride = 1});
}

// Of how many bytes a number of few rows is made that are multiplied by dot products of bytes; 0: they are multiplied
// as floats. `accuracy_level` is MatMulNBits': 4 asks for 8 bits, 3 and 2 for the 8 and 11 of 16-bit floats.
int64_t digits_of(const tir::Target& target, int64_t accuracy_level) {
  const bool has_products =
      target.dot_products == tir::DotProducts::kUnsignedBySigned || target.dot_products == tir::DotProducts::kAll;
  if (!has_products || target.vector_bits < 256) return 0;
  if (accuracy_level == 4) return 1;
  return accuracy_level == 2 || accuracy_level == 3 ? 2 : 3;
}

// Into how many parts a block is cut that are multiplied by dot products of bytes, whose sums of a part stay within 23
// bits; 0: there are none of multiples of 16.
int64_t parts_of_block(const Problem& p, int64_t bits) {
  for (int64_t parts = 1; p.block % (parts * 16) == 0; parts *= 2) {
    if (p.block / parts << bits <= int64_t{1} << 15) return parts;
  }
  return 0;
}

// The tiles of few rows: two accumulators (of digits one more than these) for each row and vector, a vector of codes, a
// broadcast value.
struct FewTiles {
  std::vector<int64_t> heights, vectors;
};

FewTiles few_tiles(const tir::Target& target, int64_t digits, int64_t most_rows) {
  FewTiles tiles{{2, 1}, {2, 4}};
  if (digits > 1) tiles = {{2, 1}, {2, 2}};
  if (target.vector_registers >= 32) {
    tiles = {{4, 2, 1}, {2, 4, 4}};
    if (digits == 3) tiles = {{4, 3, 2, 1}, {2, 2, 4, 4}};
    if (digits == 1) tiles = {{8, 4, 2, 1}, {2, 2, 4, 4}};
  }
  while (!tiles.heights.empty() && tiles.heights.front() > most_rows) {
    tiles.heights.erase(tiles.heights.begin());
    tiles.vectors.erase(tiles.vectors.begin());
  }
  return tiles;
}

class BlockQuantizedPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "block_quantized"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "aipu::BlockQuantizedMatMul") return std::nullopt;
    for (const size_t k : {kB, kScales, kZeros, kTable}) {
      if (operand(node, k).valid() && graph.constant(operand(node, k)) == nullptr)
        return unsupported("weights that are not constant");
    }
    return claim_with_epilogue(graph, anchor);
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    Problem p = problem_of(graph, node);
    constexpr int64_t kVectors = 2, kPanelVectors = 4;
    const int lanes = context.lanes(DType::kF32);
    const int64_t width = kPanelVectors * lanes;
    const RegisterTile tile = register_tile(context.target(), Dim(kVectors * lanes), lanes);

    const int64_t scales_of_column = p.blocks;
    const Form form = form_of(graph, node);
    int64_t parts = form.byte_bits == 0 ? 0 : parts_of_block(p, form.byte_bits);
    const int64_t digits = parts == 0 ? 0 : digits_of(context.target(), node.attributes.i("accuracy_level"));
    if (digits == 0) parts = 1;
    p.block /= parts;
    p.blocks *= parts;
    dsl::TemplateParams params;
    set_tile_params(context.target(), tile, lanes, DType::kF32, &params);
    // Few rows by digits are bound by memory: half as far ahead as a product that works on its weights for longer.
    if (digits > 0 && context.target().vector_bits >= 512) params.set("PREFETCH", 32);
    const int64_t most_few = p.row_count.exact ? p.row_count.multiple : kFewRows;
    const bool has_few = p.row_count.multiple <= kFewRows, has_many = !p.row_count.exact || most_few > kFewRows;
    const FewTiles few = few_tiles(context.target(), digits, most_few);
    const ConstantPtr& scales = graph.value(node.inputs[kScales]).constant;
    const ValueId zeros = operand(node, kZeros);
    params.set("A", graph.type(node.inputs[kA]).dtype)
        .set("BITS", p.bits)
        .set("BLOCK", p.block)
        .set("FORM", form.name)
        .set("CENTRE", form.centre)
        .set("POWER", form.power)
        .set("NUMBER_BITS", form.number_bits)
        .set("HALF_SHIFT", form.half_shift)
        .set("WORD", form.word_bits == 16 ? DType::kI16 : DType::kI32)
        .set("SCALE", scales->dtype())
        .set("zero_types", zeros.valid() ? pointer_types(1, graph.type(zeros).dtype) : pointer_types(0, DType::kU8))
        .set("PANEL_VECTORS", kPanelVectors)
        .set("FEW_ROWS", has_few ? kFewRows : int64_t{0})
        .set("DIGITS", digits)
        .set("FEW_HEIGHTS", few.heights)
        .set("FEW_VECTORS", few.vectors)
        .set("MANY_ROWS", has_many)
        .set("HEIGHTS", tile_heights(p.row_count, tile.rows))
        .set("A_ZERO", false)
        .set("UNIT_DEPTH", true);
    AnchorArithmetic arithmetic;
    arithmetic.addend = operand(node, kBias);
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], DType::kF32, arithmetic, &params));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("block_quantized_matmul.py", "block_quantized_matmul", params));

    const ConstantPtr& codes = graph.value(node.inputs[kB]).constant;
    const int64_t word_count = p.words(form.word_bits);
    const ConstantPtr words = graph::Constant::borrow(form.word_bits == 16 ? DType::kI16 : DType::kI32,
                                                      {p.columns, word_count}, codes->bytes(), codes);
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[kA]))
        .pointer("codes", context.add_constant(panels_of(words, p.columns, word_count, width)))
        .pointer("scale", context.add_constant(panels_of(scales, p.columns, scales_of_column, width, parts)));
    if (zeros.valid()) {
      const ConstantPtr& constant = graph.value(zeros).constant;
      arguments.pointer("zeros[0]",
                        context.add_constant(panels_of(constant, p.columns, scales_of_column, width, parts)));
    }
    // See few_rows(): of a row what x becomes, numbers of its blocks, its magnitude; once the integers of a row.
    const int64_t padded = p.blocks * p.block;
    const int64_t of_a_row = digits > 0 ? padded / 4 * digits + p.blocks * (2 + digits) + 1 : padded + p.blocks + 1;
    const int64_t copies = has_few ? kFewRows * (of_a_row + width) + padded * digits / 2 : 0;
    const int64_t weights = has_many ? padded * kVectors * lanes : 0;
    const int64_t scratch = std::max(copies, weights);
    // Making weights costs as much as some rows; a TEC makes them for as many as there are unless others were idle.
    constexpr int64_t kRowsOfBlock = 64;
    const Dim panels = graph::ceildiv(Dim(p.columns), Dim(kVectors * lanes));
    const Dim row_blocks = graph::max(
        graph::min(graph::ceildiv(tec_count() * Dim(4), panels), graph::ceildiv(p.rows, Dim(kRowsOfBlock))), 1);
    const Dim tecs = graph::max(graph::min(panels * row_blocks, tec_count()), 1);
    arguments.pointer("factors", context.add_constant(factors(form, p.bits, lanes)))
        .pointer("out", context.value(epilogue.result))
        .list("extras", epilogue.extra_arguments)
        .pointer("scratch", context.add_workspace(tecs * Dim(scratch * static_cast<int64_t>(sizeof(float)))))
        .scalars({{"rows", p.rows}, {"columns", p.columns}, {"depth", p.depth}, {"blocks", p.blocks}})
        .scalars({{"row_blocks", row_blocks}, {"scratch_size", scratch}});
    return context.launch(std::move(kernel), arguments, tecs);
  }

 private:
  // What x is multiplied by, for codes that are multiplied where they stand in half a word, and the table.
  static ConstantPtr factors(const Form& form, int64_t bits, int64_t lanes) {
    std::vector<float> elements;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      int64_t place = lane % (16 / bits) * bits;
      if (form.name == "bytes") place = lane / 2 % 2 * 8;
      if (form.name == "floats" || form.name == "halves") place = 0;
      elements.push_back(std::ldexp(1.0F, static_cast<int>(form.power - place)));
    }
    std::vector<std::byte> all = bytes_of(elements);
    all.insert(all.end(), form.table.begin(), form.table.end());
    const auto count = static_cast<int64_t>(all.size() / sizeof(float));
    return graph::Constant::create(DType::kF32, {count}, std::move(all));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_block_quantized_plugin() { return std::make_unique<BlockQuantizedPlugin>(); }

}  // namespace aipu::kernels
