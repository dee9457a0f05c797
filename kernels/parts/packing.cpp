#include "kernels/parts/packing.h"

#include <algorithm>
#include <cstring>

#include "kernels/parts/axis_view.h"
#include "runtime/base/half.h"

namespace aipu::kernels {
namespace {

template <typename From>
double read_as(const std::byte* at) {
  From value;
  std::memcpy(&value, at, sizeof(From));
  return static_cast<double>(value);
}

// One element of any numeric dtype; 64-bit integers beyond 2^53 do not occur in packed operands of floating kernels,
// and integer ones go through int64.
double read_double(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return read_as<float>(at);
    case DType::kF64:
      return read_as<double>(at);
    case DType::kF16: {
      uint16_t bits;
      std::memcpy(&bits, at, 2);
      return f32_from_f16(bits);
    }
    case DType::kBF16: {
      uint16_t bits;
      std::memcpy(&bits, at, 2);
      return f32_from_bf16(bits);
    }
    case DType::kI8:
      return read_as<int8_t>(at);
    case DType::kU8:
    case DType::kBool:
      return read_as<uint8_t>(at);
    case DType::kI16:
      return read_as<int16_t>(at);
    case DType::kU16:
      return read_as<uint16_t>(at);
    case DType::kI32:
      return read_as<int32_t>(at);
    case DType::kU32:
      return read_as<uint32_t>(at);
    case DType::kI64:
      return read_as<int64_t>(at);
    case DType::kU64:
      return read_as<uint64_t>(at);
    default:
      return 0;
  }
}

// Which part of the packed operand is to be made: panels [first, last) of one batch.
struct Part {
  int64_t batch, first, last;
};

// The element (row k, column c) of the source, in elements from its beginning.
int64_t source_index(const PanelLayout& l, int64_t batch, int64_t k, int64_t column) {
  return batch * l.batch_stride + column * l.column_stride + k % l.inner * l.inner_stride +
         k / l.inner * l.outer_stride;
}

struct Bfloat {
  Bfloat() = default;
  explicit Bfloat(double number) : bits(bf16_from_f32(static_cast<float>(number))) {}
  uint16_t bits = 0;
};

template <typename To>
void convert_panels(const graph::Constant& source, const PanelLayout& l, const Part& part, std::byte* out) {
  const std::byte* from = source.bytes().data();
  const size_t element = dtype_bytes(source.dtype());
  for (int64_t panel = part.first; panel < part.last; ++panel) {
    const int64_t column = panel * l.panel_width, width = std::min(l.panel_width, l.columns - column);
    for (int64_t k = 0; k < l.depth; ++k) {
      for (int64_t c = 0; c < l.panel_width; ++c, out += sizeof(To)) {
        To value{};
        if (c < width)
          value = static_cast<To>(read_double(
              source.dtype(), from + static_cast<size_t>(source_index(l, part.batch, k, column + c)) * element));
        std::memcpy(out, &value, sizeof(To));
      }
    }
  }
}

// The source's rows are rows of the panels: read from left to right, all panels of the part at a time.
template <typename T>
void copy_rows(const std::byte* source, const PanelLayout& l, const Part& part, std::byte* out) {
  const size_t row_bytes = static_cast<size_t>(l.panel_width) * sizeof(T),
               panel_bytes = row_bytes * static_cast<size_t>(l.depth);
  for (int64_t k = 0; k < l.depth; ++k) {
    const std::byte* from =
        source + static_cast<size_t>(source_index(l, part.batch, k, part.first * l.panel_width)) * sizeof(T);
    std::byte* to = out + static_cast<size_t>(k) * row_bytes;
    for (int64_t panel = part.first; panel < part.last; ++panel, from += row_bytes, to += panel_bytes) {
      const auto width = static_cast<size_t>(std::min(l.panel_width, l.columns - panel * l.panel_width)) * sizeof(T);
      std::memcpy(to, from, width);
      std::memset(to + width, 0, row_bytes - width);
    }
  }
}

// Four columns of four elements each, as rows.
void transpose_4x4(const std::byte* from, size_t column_bytes, std::byte* to, size_t row_bytes) {
  using Four = uint32_t __attribute__((vector_size(16)));
  Four c0, c1, c2, c3;
  std::memcpy(&c0, from, 16);
  std::memcpy(&c1, from + column_bytes, 16);
  std::memcpy(&c2, from + 2 * column_bytes, 16);
  std::memcpy(&c3, from + 3 * column_bytes, 16);
  const Four low01 = __builtin_shufflevector(c0, c1, 0, 4, 1, 5), high01 = __builtin_shufflevector(c0, c1, 2, 6, 3, 7);
  const Four low23 = __builtin_shufflevector(c2, c3, 0, 4, 1, 5), high23 = __builtin_shufflevector(c2, c3, 2, 6, 3, 7);
  const Four rows[] = {
      __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
      __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (const Four& row : rows) {
    std::memcpy(to, &row, 16);
    to += row_bytes;
  }
}

// Any strides: by blocks of 16 rows, whose lines of the source and of the panel stay in the nearest cache.
template <typename T>
void gather_rows(const std::byte* source, const PanelLayout& l, const Part& part, std::byte* out) {
  constexpr int64_t kBlock = 16;
  const size_t row_bytes = static_cast<size_t>(l.panel_width) * sizeof(T);
  const size_t column_bytes = static_cast<size_t>(l.column_stride) * sizeof(T),
               step_bytes = static_cast<size_t>(l.inner_stride) * sizeof(T);
  const int64_t outer = l.inner > 0 ? (l.depth + l.inner - 1) / l.inner : 0;
  for (int64_t panel = part.first; panel < part.last; ++panel, out += row_bytes * static_cast<size_t>(l.depth)) {
    const int64_t column = panel * l.panel_width, width = std::min(l.panel_width, l.columns - column);
    if (width < l.panel_width) std::memset(out, 0, row_bytes * static_cast<size_t>(l.depth));
    for (int64_t inner = 0; inner < l.inner; inner += kBlock) {
      int64_t c = 0;
      if (sizeof(T) == 4 && l.inner_stride == 1) {
        for (; c + 4 <= width; c += 4) {
          for (int64_t o = 0; o < outer; ++o) {
            const int64_t row = o * l.inner + inner, count = std::min({kBlock, l.inner - inner, l.depth - row});
            const std::byte* from =
                source + static_cast<size_t>(source_index(l, part.batch, row, column + c)) * sizeof(T);
            std::byte* to = out + static_cast<size_t>(row) * row_bytes + static_cast<size_t>(c) * sizeof(T);
            int64_t i = 0;
            for (; i + 4 <= count; i += 4)
              transpose_4x4(from + i * 4, column_bytes, to + static_cast<size_t>(i) * row_bytes, row_bytes);
            for (; i < count; ++i) {
              for (size_t k = 0; k < 4; ++k)
                std::memcpy(to + static_cast<size_t>(i) * row_bytes + k * 4, from + i * 4 + k * column_bytes, 4);
            }
          }
        }
      }
      for (; c < width; ++c) {
        for (int64_t o = 0; o < outer; ++o) {
          const int64_t row = o * l.inner + inner, count = std::min({kBlock, l.inner - inner, l.depth - row});
          const std::byte* from =
              source + static_cast<size_t>(source_index(l, part.batch, row, column + c)) * sizeof(T);
          std::byte* to = out + static_cast<size_t>(row) * row_bytes + static_cast<size_t>(c) * sizeof(T);
          for (int64_t i = 0; i < count; ++i, from += step_bytes, to += row_bytes) std::memcpy(to, from, sizeof(T));
        }
      }
    }
  }
}

template <typename T>
void move_panels(const graph::Constant& source, const PanelLayout& l, const Part& part, std::byte* out) {
  l.column_stride == 1 ? copy_rows<T>(source.bytes().data(), l, part, out)
                       : gather_rows<T>(source.bytes().data(), l, part, out);
}

void convert_pairs(const graph::Constant& source, const PanelLayout& l, const Part& part, std::byte* out) {
  const std::byte* from = source.bytes().data();
  const size_t element = dtype_bytes(source.dtype());
  for (int64_t panel = part.first; panel < part.last; ++panel) {
    const int64_t column = panel * l.panel_width, width = std::min(l.panel_width, l.columns - column);
    for (int64_t k = 0; k < l.depth; k += 2) {
      for (int64_t c = 0; c < l.panel_width; ++c) {
        for (const int64_t row : {k, k + 1}) {
          uint16_t bits = 0;
          if (c < width) {
            const auto index = static_cast<size_t>(source_index(l, part.batch, row, column + c));
            bits = bf16_from_f32(static_cast<float>(read_double(source.dtype(), from + index * element)));
          }
          std::memcpy(out, &bits, sizeof(bits));
          out += sizeof(bits);
        }
      }
    }
  }
}

void make_part(const graph::Constant& source, DType to, const PanelLayout& l, const Part& part, std::byte* out) {
  if (l.pairs) return convert_pairs(source, l, part, out);
  if (source.dtype() == to) {
    switch (dtype_bytes(to)) {
      case 1:
        return move_panels<uint8_t>(source, l, part, out);
      case 2:
        return move_panels<uint16_t>(source, l, part, out);
      case 4:
        return move_panels<uint32_t>(source, l, part, out);
      default:
        return move_panels<uint64_t>(source, l, part, out);
    }
  }
  switch (to) {
    case DType::kF32:
      return convert_panels<float>(source, l, part, out);
    case DType::kBF16:
      return convert_panels<Bfloat>(source, l, part, out);
    case DType::kF64:
      return convert_panels<double>(source, l, part, out);
    case DType::kI32:
      return convert_panels<int32_t>(source, l, part, out);
    case DType::kU32:
      return convert_panels<uint32_t>(source, l, part, out);
    case DType::kI64:
      return convert_panels<int64_t>(source, l, part, out);
    default:
      return convert_panels<uint64_t>(source, l, part, out);
  }
}

}  // namespace

graph::ConstantPtr pack_panels(graph::ConstantPtr source, DType to, const PanelLayout& l) {
  const int64_t panels = (l.columns + l.panel_width - 1) / l.panel_width;
  std::vector<int64_t> shape = {l.batches, panels, l.depth, l.panel_width};
  if (l.batches * panels * l.depth == 0) return graph::Constant::create(to, std::move(shape), {});
  const Hash128& content = source->hash();
  const int64_t recipe[] = {static_cast<int64_t>(content.high),
                            static_cast<int64_t>(content.low),
                            l.batches,
                            l.depth,
                            l.columns,
                            l.panel_width,
                            l.inner,
                            l.batch_stride,
                            l.column_stride,
                            l.inner_stride,
                            l.outer_stride,
                            l.pairs ? 1 : 0};
  const auto panel_bytes = static_cast<size_t>(l.depth * l.panel_width) * dtype_bytes(to);
  auto fill = [source = std::move(source), to, l, panels, panel_bytes](int64_t first, std::span<std::byte> out) {
    for (const int64_t last = first + static_cast<int64_t>(out.size() / panel_bytes); first < last;) {
      const int64_t batch = first / panels, in_batch = first % panels,
                    count = std::min(panels - in_batch, last - first);
      make_part(*source, to, l, {batch, in_batch, in_batch + count}, out.data());
      out = out.subspan(static_cast<size_t>(count) * panel_bytes);
      first += count;
    }
  };
  return graph::Constant::deferred(to, std::move(shape), hash_bytes(std::as_bytes(std::span(recipe))),
                                   l.batches * panels, std::move(fill));
}

Result<TensorRef> packed_operand(SetupContext& context, graph::ValueId value, DType to, const PanelLayout& l) {
  if (const graph::ConstantPtr& constant = context.graph().value(value).constant)
    return context.add_constant(pack_panels(constant, to, l));
  const int64_t panels = (l.columns + l.panel_width - 1) / l.panel_width;
  const TensorRef packed =
      context.add_workspace(l.batches * panels * l.depth * l.panel_width * static_cast<int64_t>(dtype_bytes(to)));
  dsl::TemplateParams params;
  params.set("X", storage_dtype(context.graph().type(value).dtype)).set("ACC", to).set("WIDTH", l.panel_width);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("pack.py", "pack", params));
  KernelArguments arguments;
  arguments.pointer("source", context.value(value)).pointer("out", packed);
  arguments.scalars({{"batches", l.batches}, {"depth", l.depth}, {"columns", l.columns}, {"inner", l.inner}});
  arguments.scalars({{"batch_stride", l.batch_stride},
                     {"column_stride", l.column_stride},
                     {"inner_stride", l.inner_stride},
                     {"outer_stride", l.outer_stride}});
  AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, l.batches * panels));
  return packed;
}

}  // namespace aipu::kernels
