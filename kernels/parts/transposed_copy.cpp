#include "kernels/parts/transposed_copy.h"

#include <algorithm>

#include "kernels/dsl/stage_parameters.h"

namespace aipu::kernels {
namespace {

using graph::Dim;

// Elements of the target's contiguous dimension that one unit of work covers: enough to amortize finding the place, few
// enough to share.
constexpr int64_t kStrip = 256;

// Rows in memory that asynchronous DMA can step over, in elements of up to 8 bytes.
constexpr int64_t kMostStride = 0xFFFFFF / 8;
// Elements of a row of a tile in local memory, where there are that many.
constexpr int64_t kStagedRow = 64;

bool is_one(const Dim& d) { return d.constant() == 1; }

bool can_step(const Dim& stride) { return stride.constant_or(kMostStride + 1) <= kMostStride; }

struct TileSize {
  int64_t width = 0, strip = 0;
};

// Of the tile that both tensors have two buffers for: as long as memory allows along the target's rows and the
// source's.
TileSize staged_tile(const tir::Target& target, int64_t element_bytes, const Dim& a, const Dim& b) {
  const int64_t capacity = target.lsram_bytes() / (4 * element_bytes);
  // At least 1 of extents of 0, which the kernel divides by.
  const int64_t strip = std::clamp<int64_t>(b.constant_or(kStagedRow), 1, kStagedRow);
  const int64_t width = std::clamp<int64_t>(a.constant_or(capacity), 1, capacity / strip);
  return {width, std::clamp<int64_t>(b.constant_or(capacity), 1, capacity / width)};
}

}  // namespace

Result<bool> launch_transposed_copy(SetupContext& context, const StridedMap& map) {
  const size_t rank = map.dims.size();
  const MapOperand& source = map.inputs[0];
  if (rank < 2 || !is_one(map.output.strides.back()) || source.strides.back().constant() == 0 ||
      is_one(source.strides.back()))
    return false;
  const auto contiguous = std::find_if(source.strides.begin(), source.strides.end(), is_one);
  if (contiguous == source.strides.end()) return false;

  // The source's contiguous dimension goes next to the last one.
  std::vector<size_t> order;
  const auto a = static_cast<size_t>(contiguous - source.strides.begin());
  for (size_t i = 0; i + 1 < rank; ++i) {
    if (i != a) order.push_back(i);
  }
  order.push_back(a);
  order.push_back(rank - 1);

  // Eight lanes of 64 bits, sixteen of anything else: that many vectors fit the registers or nearly so.
  const int bits = dtype_bits(source.dtype);
  const int64_t lanes = bits == 64 ? 8 : context.target().vector_registers >= 32 || bits < 32 ? 16 : 8;
  const Dim& b = map.dims.back();
  const int64_t rows = b.constant() && *b.constant() <= lanes / 2 && map.output.strides[a] == b ? *b.constant() : 0;
  TileSize tile{rows > 0 ? kStrip : lanes, kStrip};
  const bool stages = dsl::has_staging(context.target()) && can_step(source.strides.back()) &&
                      can_step(map.output.strides[a]) && !is_one(map.dims[a]);
  if (stages) tile = staged_tile(context.target(), static_cast<int64_t>(dtype_bytes(source.dtype)), map.dims[a], b);
  dsl::TemplateParams params;
  KernelArguments arguments;
  bind_copy(map, order, &params, &arguments);
  params.set("X", source.dtype)
      .set("LANES", lanes)
      .set("ROWS", rows)
      .set("WIDTH", tile.width)
      .set("STRIP", tile.strip)
      .set("STAGING", stages ? 2 : 0);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("transpose.py", "transpose", params));

  // A unit below about 2 us of work is not worth a second TEC.
  const int64_t share = stages ? tile.width * tile.strip : 8192;
  AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments,
                                      graph::max(graph::ceildiv(graph::element_count(map.dims), share), 1)));
  return true;
}

}  // namespace aipu::kernels
