// ConvTranspose of stride 1 with constant weights is Conv with the kernel turned around, input and output channels
// swapped, and
//   pads = dilation * (kernel - 1) - pads (+ output_padding at the end),
// which the convolutions' kernels, Winograd's among them, then have.
//
// One whose windows lie side by side (kernel = stride, no pads) and that has few output channels is a 1x1 Conv with
// those of all phases, which fill the lanes of a vector, and DepthToSpace.
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

// [in, out, s, s] -> [s * s * out, in, 1, 1]
ConstantPtr all_phases(const Constant& weights) {
  const size_t element = dtype_bytes(weights.dtype());
  const auto in = static_cast<size_t>(weights.shape()[0]), out = static_cast<size_t>(weights.shape()[1]);
  const std::span<const std::byte> source = weights.bytes();
  std::vector<std::byte> bytes(source.size());
  const size_t taps = bytes.size() / (in * out * element);
  for (size_t i = 0; i < in; ++i) {
    for (size_t o = 0; o < out; ++o) {
      for (size_t tap = 0; tap < taps; ++tap)
        std::memcpy(&bytes[((tap * out + o) * in + i) * element], &source[((i * out + o) * taps + tap) * element],
                    element);
    }
  }
  const auto rows = static_cast<int64_t>(taps * out);
  return Constant::create(weights.dtype(), {rows, weights.shape()[0], 1, 1}, std::move(bytes));
}

ConstantPtr repeated(const Constant& bias, int64_t times) {
  std::vector<std::byte> bytes;
  for (int64_t k = 0; k < times; ++k) bytes.insert(bytes.end(), bias.bytes().begin(), bias.bytes().end());
  return Constant::create(bias.dtype(), {bias.shape()[0] * times}, std::move(bytes));
}

bool all_are(const Attributes& attributes, const char* name, int64_t value) {
  const auto& values = attributes.ints(name);
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

// The windows of a few channels side by side; {} if they are not.
std::vector<ValueId> side_by_side(DecomposeBuilder& b, const DecomposeSite& s, const Constant& weights) {
  constexpr int64_t kMostChannels = 32;  // of all phases together
  const auto& strides = s.attributes.ints("strides");
  const Constant* bias = s.has(2) ? b.graph().constant(s.inputs[2]) : nullptr;
  if (strides.size() != 2 || strides[0] != strides[1] || s.attributes.i("group") != 1 || (s.has(2) && bias == nullptr))
    return {};
  const int64_t stride = strides[0], phases = stride * stride, channels = weights.shape()[1];
  if (weights.shape()[2] != stride || weights.shape()[3] != stride || phases * channels > kMostChannels) return {};
  // What DepthToSpace copies.
  constexpr int64_t kShortRun = 8;
  if (stride * channels < kShortRun && !s.context.copies_short_runs) return {};
  if (!all_are(s.attributes, "pads", 0) || !all_are(s.attributes, "output_padding", 0) ||
      !all_are(s.attributes, "dilations", 1))
    return {};
  Attributes attributes;
  attributes.set("group", int64_t{1});
  attributes.set("kernel_shape", std::vector<int64_t>{1, 1});
  attributes.set("strides", std::vector<int64_t>{1, 1});
  attributes.set("dilations", std::vector<int64_t>{1, 1});
  attributes.set("pads", std::vector<int64_t>{0, 0, 0, 0});
  std::vector<ValueId> inputs = {s.inputs[0], b.constant(all_phases(weights), b.graph().value(s.inputs[1]).name)};
  if (bias != nullptr) inputs.push_back(b.constant(repeated(*bias, phases), b.graph().value(s.inputs[2]).name));
  Attributes order;
  order.set("blocksize", stride);
  order.set("mode", std::string("DCR"));
  return {b.op("DepthToSpace", {b.op("Conv", std::move(inputs), std::move(attributes))}, std::move(order))};
}

}  // namespace

std::vector<ValueId> decompose_conv_transpose(DecomposeBuilder& b, const DecomposeSite& s) {
  const Constant* weights = b.graph().constant(s.inputs[1]);
  // Pads that depend on symbolic extents are not there yet.
  if (weights == nullptr || weights->byte_count() == 0 || !s.attributes.has("pads")) return {};
  const auto& strides = s.attributes.ints("strides");
  if (std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride != 1; }))
    return side_by_side(b, s, *weights);
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
