#include "kernels/parts/staged_product.h"

#include <cstring>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/rounding.h"

namespace aipu::kernels {
namespace {

using graph::Dim;

// What is packed, as numbers that a deferred constant keeps.
struct Packing {
  StagedProduct plan;
  ProductShape shape;
  WeightStrides strides;
  int64_t kernel_w = 1;

  int64_t tiles() const { return plan.lanes / plan.columns; }
  int64_t channels_of(int64_t block) const { return std::min(plan.block, shape.group_in - block * plan.block); }
  int64_t steps_of(int64_t block) const { return ceil_of(channels_of(block) * plan.run, plan.depth); }
  int64_t panels() const { return ceil_of(shape.group_out, plan.panel()); }
  int64_t panel_elements() const {
    int64_t steps = 0;
    for (int64_t block = 0; block < plan.blocks; ++block) steps += steps_of(block);
    return steps * plan.vectors * tiles() * plan.taps * plan.columns * plan.depth;
  }
  // Pairs of vectors are added until one is left: of integers neighbours, of floats those half of the list apart.
  int64_t column_of(int64_t tile, int64_t c) const {
    return is_floating(shape.element) ? tile + c * tiles() : tile * plan.columns + c;
  }
};

// The steps of one column and one tap of a block.
template <typename T>
void pack_column(const Packing& p, const std::byte* source, int64_t block, int64_t tap, int64_t first, std::byte* out) {
  const int64_t channels = p.channels_of(block), of_column = p.plan.lines * channels;
  const int64_t step_bytes = p.plan.taps * p.plan.columns * p.plan.depth * static_cast<int64_t>(sizeof(T));
  for (int64_t at = 0; at < channels * p.plan.run; ++at) {
    const int64_t kw = p.plan.taps == 1 ? at / of_column : tap;
    const int64_t line = at % of_column / channels, channel = block * p.plan.block + at % channels;
    const int64_t from = first + channel * p.strides.channel + (line * p.kernel_w + kw) * p.strides.tap;
    std::memcpy(out + at / p.plan.depth * step_bytes + at % p.plan.depth * static_cast<int64_t>(sizeof(T)),
                source + from * static_cast<int64_t>(sizeof(T)), sizeof(T));
  }
}

template <typename T>
void pack_panel(const Packing& p, const std::byte* source, int64_t number, std::byte* out) {
  const int64_t group = number / p.panels(), panel = number % p.panels();
  for (int64_t block = 0; block < p.plan.blocks; ++block) {
    for (int64_t vector = 0; vector < p.plan.vectors; ++vector) {
      for (int64_t tile = 0; tile < p.tiles(); ++tile) {
        for (int64_t tap = 0; tap < p.plan.taps; ++tap) {
          for (int64_t c = 0; c < p.plan.columns; ++c) {
            const int64_t column = (panel * p.plan.vectors + vector) * p.plan.lanes + p.column_of(tile, c);
            if (column >= p.shape.group_out) continue;
            const int64_t first = group * p.strides.group + column * p.strides.column;
            pack_column<T>(p, source, block, tap, first,
                           out + (tap * p.plan.columns + c) * p.plan.depth * static_cast<int64_t>(sizeof(T)));
          }
        }
        out += p.steps_of(block) * p.plan.taps * p.plan.columns * p.plan.depth * static_cast<int64_t>(sizeof(T));
      }
    }
  }
}

}  // namespace

graph::ConstantPtr pack_staged(const StagedProduct& plan, const ProductShape& shape, graph::ConstantPtr source,
                               const WeightStrides& strides) {
  Packing packing{plan, shape, strides, plan.taps == 1 ? plan.run / plan.lines : plan.taps};
  const int64_t panels = shape.groups * packing.panels(), elements = packing.panel_elements();
  const Hash128& content = source->hash();
  const int64_t recipe[] = {static_cast<int64_t>(content.high),
                            static_cast<int64_t>(content.low),
                            plan.columns,
                            plan.taps,
                            plan.vectors,
                            plan.blocks,
                            plan.block,
                            plan.lines,
                            plan.run,
                            shape.groups,
                            shape.group_in,
                            shape.group_out,
                            strides.group,
                            strides.column,
                            strides.channel,
                            strides.tap};
  const DType type = source->dtype();
  const auto panel_bytes = static_cast<size_t>(elements) * dtype_bytes(type);
  auto fill = [source = std::move(source), packing = std::move(packing), panel_bytes](int64_t first,
                                                                                      std::span<std::byte> out) {
    std::fill(out.begin(), out.end(), std::byte{0});
    const std::byte* from = source->bytes().data();
    for (size_t at = 0; at < out.size(); at += panel_bytes, ++first) {
      switch (dtype_bytes(source->dtype())) {
        case 1:
          pack_panel<uint8_t>(packing, from, first, out.data() + at);
          break;
        case 2:
          pack_panel<uint16_t>(packing, from, first, out.data() + at);
          break;
        default:
          pack_panel<uint32_t>(packing, from, first, out.data() + at);
      }
    }
  };
  return graph::Constant::deferred(type, {panels, elements}, hash_bytes(std::as_bytes(std::span(recipe))), panels,
                                   std::move(fill));
}

namespace {

void bind_runs(const StagedProduct& plan, dsl::TemplateParams* params) {
  dsl::CapturedList runs;
  for (const PixelRun& run : plan.runs) {
    dsl::CapturedList numbers;
    for (const int64_t n : {run.height, run.split, run.count, run.first, run.inner.left, run.inner.end,
                            int64_t{run.top}, int64_t{run.bottom}})
      numbers.push_back(dsl::Captured{n});
    runs.push_back(dsl::Captured{std::move(numbers)});
  }
  params->set("RUNS", dsl::Captured{std::move(runs)})
      .set("IS_ROW", plan.is_row)
      .set("LEFT", plan.inner.left)
      .set("END", plan.inner.end)
      .set("LINES_APART", plan.lines_apart)
      .set("SKIPS", plan.skips_lines);
}

// The epilogue's operands in local memory.
void bind_own_extras(const Epilogue& epilogue, dsl::TemplateParams* params) {
  dsl::CapturedList types;
  std::vector<std::string> names;
  std::vector<int64_t> bytes;
  for (size_t e = 0; e < epilogue.modes.size(); ++e) {
    const DType type = epilogue.types[e];
    types.push_back({dsl::CapturedType{
        epilogue.modes[e] == "number" ? tir::Type::scalar(type) : tir::Type::pointer_to(type, 1, tir::Scope::kLsram)}});
    names.emplace_back(dtype_name(type));
    bytes.push_back(static_cast<int64_t>(dtype_bytes(type)));
  }
  params->set("own_extra_types", dsl::Captured{std::move(types)})
      .set("EXTRA_TYPES", std::move(names))
      .set("EXTRA_BYTES", bytes);
}

}  // namespace

Status launch_staged_product(SetupContext& context, const StagedProduct& plan, const SpatialGeometry& geometry,
                             const ProductShape& shape, const StagedOperands& operands,
                             const AnchorArithmetic& arithmetic) {
  const bool is_float = is_floating(shape.element);
  const DType sum = is_float ? DType::kF32 : DType::kI32, accumulator = operands.scale ? DType::kF32 : sum;
  dsl::TemplateParams params;
  params.set("X", shape.element)
      .set("W", is_float ? shape.element : DType::kI8)
      .set("SUM", sum)
      .set("ACC", accumulator)
      .set("VL", static_cast<int64_t>(plan.lanes))
      .set("NV", 1)
      .set("COLUMNS", plan.columns)
      .set("HEIGHTS", plan.heights)
      .set("TAPS", plan.taps)
      .set("REGISTERS", int64_t{context.target().vector_registers})
      .set("STRIDE", plan.stride)
      .set("DILATION", plan.dilation)
      .set("MASKED", plan.masked)
      .set("WHOLE", plan.blocks == 1)
      .set("EVEN", plan.block * plan.blocks == shape.group_in)
      .set("W_BUFFERS", plan.w_buffers)
      .set("OUT_BUFFERS", plan.out_buffers)
      .set("ROWS", plan.rows)
      .set("RUN_PIXELS", plan.pixels)
      .set("POOL", plan.pool_bytes)
      .set("STAGING", static_cast<int64_t>(kStagedProductBuffers))
      .set("start_types", pointer_types(operands.start ? 1 : 0, sum))
      .set("scale_types", pointer_types(operands.scale ? 1 : 0, DType::kF32))
      .set("PREFETCH", 0);
  AIPU_ASSIGN_OR_RETURN(Epilogue epilogue,
                        bind_epilogue(context, context.anchor().outputs[0], accumulator, arithmetic, &params));
  bind_runs(plan, &params);
  params.set("TOP", shape.top).set("BOTTOM", shape.bottom);
  bind_own_extras(epilogue, &params);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("staged_product.py", "staged_product", params));
  KernelArguments arguments;
  arguments.pointer("x", operands.x).pointer("weights", operands.weights);
  if (operands.start) arguments.pointer("start[0]", *operands.start);
  if (operands.scale) arguments.pointer("scale[0]", *operands.scale);
  arguments.pointer("out", context.value(epilogue.result)).list("extras", epilogue.extra_arguments);
  bind_geometry(geometry, &arguments);
  bind_groups(shape.groups, shape.group_in, shape.group_out, &arguments);
  arguments.record("blocks", {{"count", plan.blocks},
                              {"channels", plan.block},
                              {"lines", plan.lines},
                              {"unit_lines", plan.unit_lines},
                              {"run", plan.run},
                              {"vectors", plan.vectors},
                              {"parts", plan.parts},
                              {"x_capacity", plan.x_capacity},
                              {"w_capacity", plan.w_capacity},
                              {"sum_capacity", plan.sum_capacity},
                              {"out_capacity", plan.out_capacity}});
  arguments.scalar("segment", plan.pixels);
  const Dim rows = geometry.batch * geometry.axes[0].out * geometry.axes[1].out;
  const int64_t panels = shape.groups * ceil_of(shape.group_out, plan.panel());
  AIPU_RETURN_IF_ERROR(context.launch(
      std::move(kernel), arguments,
      graph::max(graph::ceildiv(rows, plan.rows) * graph::ceildiv(geometry.axes[2].out, plan.pixels) * Dim(panels),
                 1)));
  context.note(plan.text);
  return {};
}

}  // namespace aipu::kernels
