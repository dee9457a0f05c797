#include "kernels/packing.h"

#include <algorithm>
#include <cstring>

#include "kernels/axis_view.h"
#include "runtime/base/half.h"

namespace aipu::kernels {
namespace {

template <typename From>
double read_as(const std::byte* at) {
  From value;
  std::memcpy(&value, at, sizeof(From));
  return static_cast<double>(value);
}

// One element of any numeric dtype; 64-bit integers beyond 2^53 do not occur in packed operands of floating kernels, and integer ones go through int64.
double read_double(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32: return read_as<float>(at);
    case DType::kF64: return read_as<double>(at);
    case DType::kF16: { uint16_t bits; std::memcpy(&bits, at, 2); return f32_from_f16(bits); }
    case DType::kBF16: { uint16_t bits; std::memcpy(&bits, at, 2); return f32_from_bf16(bits); }
    case DType::kI8: return read_as<int8_t>(at);
    case DType::kU8: case DType::kBool: return read_as<uint8_t>(at);
    case DType::kI16: return read_as<int16_t>(at);
    case DType::kU16: return read_as<uint16_t>(at);
    case DType::kI32: return read_as<int32_t>(at);
    case DType::kU32: return read_as<uint32_t>(at);
    case DType::kI64: return read_as<int64_t>(at);
    case DType::kU64: return read_as<uint64_t>(at);
    default: return 0;
  }
}

// Calls visit(first element of the row, columns that exist) for every row of every panel, in the order of the packed operand.
template <typename Visit>
void visit_rows(const PanelLayout& l, const Visit& visit) {
  for (int64_t b = 0; b < l.batches; ++b) {
    for (int64_t first = 0; first < l.columns; first += l.panel_width) {
      const int64_t width = std::min(l.panel_width, l.columns - first);
      for (int64_t k = 0; k < l.depth; ++k) {
        visit(b * l.batch_stride + first * l.column_stride + k % l.inner * l.inner_stride + k / l.inner * l.outer_stride, width);
      }
    }
  }
}

template <typename To>
void convert_panels(const graph::Constant& source, std::byte* target, const PanelLayout& l) {
  const size_t element = dtype_bytes(source.dtype());
  visit_rows(l, [&](int64_t row, int64_t width) {
    for (int64_t c = 0; c < width; ++c) {
      const std::byte* at = source.bytes().data() + static_cast<size_t>(row + c * l.column_stride) * element;
      const To value = static_cast<To>(read_double(source.dtype(), at));
      std::memcpy(target + static_cast<size_t>(c) * sizeof(To), &value, sizeof(To));
    }
    target += static_cast<size_t>(l.panel_width) * sizeof(To);
  });
}

// Elements that keep their dtype, of a size known to the compiler.
template <size_t kBytes>
void move_panels(const graph::Constant& source, std::byte* target, const PanelLayout& l) {
  visit_rows(l, [&](int64_t row, int64_t width) {
    const std::byte* at = source.bytes().data() + static_cast<size_t>(row) * kBytes;
    if (l.column_stride == 1) {
      std::memcpy(target, at, static_cast<size_t>(width) * kBytes);
    } else {
      for (int64_t c = 0; c < width; ++c) std::memcpy(target + static_cast<size_t>(c) * kBytes, at + c * l.column_stride * static_cast<int64_t>(kBytes), kBytes);
    }
    target += static_cast<size_t>(l.panel_width) * kBytes;
  });
}

}  // namespace

graph::ConstantPtr pack_panels(const graph::Constant& source, DType to, const PanelLayout& l) {
  const int64_t panels = (l.columns + l.panel_width - 1) / l.panel_width;
  std::vector<std::byte> bytes(static_cast<size_t>(l.batches * panels * l.depth * l.panel_width) * dtype_bytes(to));  // zero: the padding
  if (source.dtype() == to) {
    dtype_bytes(to) == 4 ? move_panels<4>(source, bytes.data(), l) : move_panels<8>(source, bytes.data(), l);
  } else {
    switch (to) {
      case DType::kF32: convert_panels<float>(source, bytes.data(), l); break;
      case DType::kF64: convert_panels<double>(source, bytes.data(), l); break;
      case DType::kI32: convert_panels<int32_t>(source, bytes.data(), l); break;
      case DType::kU32: convert_panels<uint32_t>(source, bytes.data(), l); break;
      case DType::kI64: convert_panels<int64_t>(source, bytes.data(), l); break;
      default: convert_panels<uint64_t>(source, bytes.data(), l); break;
    }
  }
  return graph::Constant::create(to, {l.batches, panels, l.depth, l.panel_width}, std::move(bytes));
}

Result<TensorRef> packed_operand(SetupContext& context, graph::ValueId value, DType to, const PanelLayout& l) {
  if (const graph::Constant* constant = context.graph().constant(value)) {
    return context.add_constant(pack_panels(*constant, to, l));
  }
  const int64_t panels = (l.columns + l.panel_width - 1) / l.panel_width;
  const TensorRef packed = context.add_workspace(l.batches * panels * l.depth * l.panel_width * static_cast<int64_t>(dtype_bytes(to)));
  dsl::TemplateParams params;
  params.set("X", storage_dtype(context.graph().type(value).dtype)).set("ACC", to).set("WIDTH", l.panel_width);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("pack.py", "pack", params));
  std::vector<KernelArgument> arguments = {PointerArgument{context.value(value)}, PointerArgument{packed}};
  append_scalars({l.batches, l.depth, l.columns, l.inner, l.batch_stride, l.column_stride, l.inner_stride, l.outer_stride}, &arguments);
  context.launch(std::move(kernel), std::move(arguments), l.batches * panels);
  return packed;
}

}  // namespace aipu::kernels
