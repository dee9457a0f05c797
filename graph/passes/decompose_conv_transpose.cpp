// ConvTranspose of stride 1 with constant weights is Conv with the kernel turned around, input and output channels
// swapped, and
//   pads = dilation * (kernel - 1) - pads (+ output_padding at the end),
// which the convolutions' kernels, Winograd's among them, then have.
#include <algorithm>
#include <cstring>

#include "graph/passes/decompose_rules.h"

namespace aipu::graph {
namespace {

// [group * in, out, taps...] -> [group * out, in, taps... in reverse order]
ConstantPtr turned_around(const Constant& weights, int64_t group) {
  const size_t element = dtype_bytes(weights.dtype());
  std::vector<int64_t> shape = weights.shape();
  const auto groups = static_cast<size_t>(group), in = static_cast<size_t>(shape[0] / group),
             out = static_cast<size_t>(shape[1]);
  shape[0] = shape[1] * group;
  shape[1] = static_cast<int64_t>(in);
  const std::span<const std::byte> source = weights.bytes();
  std::vector<std::byte> bytes(source.size());
  const size_t taps = bytes.size() / std::max<size_t>(groups * in * out * element, 1);
  for (size_t g = 0; g < groups; ++g) {
    for (size_t i = 0; i < in; ++i) {
      for (size_t o = 0; o < out; ++o) {
        const std::byte* from = &source[((g * in + i) * out + o) * taps * element];
        std::byte* to = &bytes[((g * out + o) * in + i) * taps * element];
        for (size_t tap = 0; tap < taps; ++tap)
          std::memcpy(to + tap * element, from + (taps - 1 - tap) * element, element);
      }
    }
  }
  return Constant::create(weights.dtype(), std::move(shape), std::move(bytes));
}

}  // namespace

std::vector<ValueId> decompose_conv_transpose(DecomposeBuilder& b, const DecomposeSite& s) {
  const Constant* weights = b.graph().constant(s.inputs[1]);
  // Pads that depend on symbolic extents are not there yet.
  if (weights == nullptr || weights->byte_count() == 0 || !s.attributes.has("pads")) return {};
  const auto& strides = s.attributes.ints("strides");
  if (std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride != 1; })) return {};
  const size_t count = strides.size();
  std::vector<int64_t> pads = s.attributes.ints("pads");
  for (size_t k = 0; k < count; ++k) {
    const int64_t reach = (weights->shape()[2 + k] - 1) * s.attributes.ints("dilations")[k];
    pads[k] = reach - pads[k];
    pads[count + k] = reach - pads[count + k] + s.attributes.ints("output_padding")[k];
  }
  // More is cut off than a kernel reaches: not a convolution's padding.
  if (std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; })) return {};
  const int64_t group = s.attributes.i("group");
  Attributes attributes;
  for (const char* name : {"group", "kernel_shape", "strides", "dilations"})
    attributes.set(name, *s.attributes.find(name));
  attributes.set("pads", std::move(pads));
  std::vector<ValueId> inputs = {s.inputs[0],
                                 b.constant(turned_around(*weights, group), b.graph().value(s.inputs[1]).name)};
  if (s.has(2)) inputs.push_back(s.inputs[2]);
  return {b.op("Conv", std::move(inputs), std::move(attributes))};
}

}  // namespace aipu::graph
