#include "kernels/parts/narrow_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace aipu::kernels {
namespace {

using graph::Dim;

// A longer row is worth a loop of whole vectors.
constexpr int64_t kMostBits = 1024;
// Vectors have no fewer: a row that is shorter goes element by element.
constexpr int64_t kNarrowestBits = 128;
// Elements in a unit of work.
constexpr int64_t kUnit = 4096;

bool is_one(const Dim& d) { return d.constant() == 1; }

// Whether what a pointer to the first element points to is the tensor's first element that is read.
bool is_forward(const MapOperand& operand) {
  return std::all_of(operand.strides.begin(), operand.strides.end(),
                     [](const Dim& stride) { return stride.lower_bound().value_or(-1) >= 0; });
}

int64_t lanes_of_row(const tir::Target& target, int bits, int64_t width) {
  int64_t lanes = target.lanes(bits);
  while (lanes > width) lanes /= 2;
  return lanes * bits >= kNarrowestBits ? lanes : 0;
}

}  // namespace

Result<bool> launch_narrow_rows(SetupContext& context, const StridedMap& map) {
  const size_t rank = map.dims.size();
  const MapOperand& source = map.inputs[0];
  const int bits = dtype_bits(source.dtype);
  if (context.target().codegen != "native_c" || rank < 2 || !is_one(source.strides.back()) ||
      !is_one(map.output.strides.back()))
    return false;
  const int64_t width = map.dims.back().constant_or(0);
  if (width < 1 || width * bits > kMostBits || !is_forward(source) || !is_forward(map.output)) return false;

  // The longest dimension is the one that is walked; of samples there may be a single one.
  std::vector<size_t> order(rank - 1);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto longest = order.begin();
  const auto length = [&](size_t i) { return i == 0 && map.keeps_samples ? 1 : map.dims[i].constant_or(kUnit); };
  for (auto it = order.begin(); it != order.end(); ++it) {
    if (length(*it) >= length(*longest)) longest = it;
  }
  std::rotate(longest, longest + 1, order.end());

  dsl::TemplateParams params;
  KernelArguments arguments;
  bind_copy(map, order, &params, &arguments);
  params.set("X", source.dtype)
      .set("WIDTH", width)
      .set("VL", lanes_of_row(context.target(), bits, width))
      .set("BLOCK", std::max<int64_t>(kUnit / width, 1));
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("narrow_rows.py", "narrow_rows", params));

  // A unit below about 2 us of work is not worth a second TEC.
  AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments,
                                      graph::max(graph::ceildiv(graph::element_count(map.dims), kUnit * 2), 1)));
  const auto samples = std::find(order.begin(), order.end(), size_t{0}) - order.begin();
  declare_strided_samples(context, map, {"source", "target"},
                          {fmt::format("strides[{}]", samples),
                           fmt::format("strides[{}]", samples + static_cast<ptrdiff_t>(order.size()))});
  return true;
}

}  // namespace aipu::kernels
