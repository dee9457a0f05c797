#include "kernels/packing.h"

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

template <typename To>
void fill(const graph::Constant& source, std::byte* target, int64_t batches, int64_t depth, int64_t columns, int64_t panel_width, const PanelIndex& index,
          double scale) {
  const size_t element = dtype_bytes(source.dtype());
  const std::byte* bytes = source.bytes().data();
  const int64_t panels = (columns + panel_width - 1) / panel_width;
  auto* out = reinterpret_cast<To*>(target);
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t p = 0; p < panels; ++p) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t c = 0; c < panel_width; ++c, ++out) {
          const int64_t column = p * panel_width + c;
          if (column >= columns) {
            *out = To{0};
            continue;
          }
          const std::byte* at = bytes + static_cast<size_t>(index(b, k, column)) * element;
          if constexpr (std::is_same_v<To, float>) {
            if (source.dtype() == DType::kF32 && scale == 1) {
              std::memcpy(out, at, sizeof(float));
              continue;
            }
          }
          *out = static_cast<To>(read_double(source.dtype(), at) * scale);
        }
      }
    }
  }
}

}  // namespace

graph::ConstantPtr pack_panels(const graph::Constant& source, DType to, int64_t batches, int64_t depth, int64_t columns, int64_t panel_width,
                               const PanelIndex& index, double scale) {
  const int64_t panels = (columns + panel_width - 1) / panel_width;
  std::vector<std::byte> bytes(static_cast<size_t>(batches * panels * depth * panel_width) * dtype_bytes(to));
  switch (to) {
    case DType::kF32: fill<float>(source, bytes.data(), batches, depth, columns, panel_width, index, scale); break;
    case DType::kF64: fill<double>(source, bytes.data(), batches, depth, columns, panel_width, index, scale); break;
    case DType::kI32: fill<int32_t>(source, bytes.data(), batches, depth, columns, panel_width, index, scale); break;
    case DType::kU32: fill<uint32_t>(source, bytes.data(), batches, depth, columns, panel_width, index, scale); break;
    case DType::kI64: fill<int64_t>(source, bytes.data(), batches, depth, columns, panel_width, index, scale); break;
    default: fill<uint64_t>(source, bytes.data(), batches, depth, columns, panel_width, index, scale); break;
  }
  return graph::Constant::create(to, {batches, panels, depth, panel_width}, std::move(bytes));
}

Result<TensorRef> packed_operand(SetupContext& context, graph::ValueId value, DType to, const PanelLayout& l) {
  if (const graph::Constant* constant = context.graph().constant(value)) {
    return context.add_constant(pack_panels(*constant, to, l.batches, l.depth, l.columns, l.panel_width, [l](int64_t batch, int64_t depth, int64_t column) {
      return batch * l.batch_stride + column * l.column_stride + depth % l.inner * l.inner_stride + depth / l.inner * l.outer_stride;
    }));
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
