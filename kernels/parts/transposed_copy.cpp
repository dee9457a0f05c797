#include "kernels/parts/transposed_copy.h"

#include <algorithm>

namespace aipu::kernels {
namespace {

using graph::Dim;

// Elements of the target's contiguous dimension that one unit of work covers: enough to amortize finding the place, few
// enough to share.
constexpr int64_t kStrip = 256;

bool is_one(const Dim& d) { return d.constant() == 1; }

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
  dsl::TemplateParams params;
  params.set("X", source.dtype)
      .set("dim_types", dsl::Captured{dsl::CapturedList(rank, {dsl::CapturedType{tir::Type::scalar(DType::kI32)}})})
      .set("stride_types",
           dsl::Captured{dsl::CapturedList(2 * rank, {dsl::CapturedType{tir::Type::scalar(DType::kI32)}})})
      .set("RANK", static_cast<int64_t>(rank))
      .set("LANES", lanes)
      .set("ROWS", rows)
      .set("WIDTH", rows > 0 ? kStrip : lanes)
      .set("STRIP", kStrip);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("transpose.py", "transpose", params));

  std::vector<Dim> dims, strides;
  for (const size_t i : order) dims.push_back(map.dims[i]);
  for (const size_t i : order) strides.push_back(source.strides[i]);
  for (const size_t i : order) strides.push_back(map.output.strides[i]);
  KernelArguments arguments;
  arguments.pointer("source", source.pointer())
      .pointer("target", map.output.pointer())
      .scalar_list("dims", dims)
      .scalar_list("strides", strides);
  // A unit below about 2 us of work is not worth a second TEC.
  AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments,
                                      graph::max(graph::ceildiv(graph::element_count(map.dims), 8192), 1)));
  return true;
}

}  // namespace aipu::kernels
