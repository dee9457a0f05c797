// ConvTranspose of stride 1 with constant weights is Conv with the kernel turned around, input and output channels
// swapped, and
//   pads = dilation * (kernel - 1) - pads (+ output_padding at the end),
// which the convolutions' kernels, Winograd's among them, then have.
//
// One of stride s in both axes that has few output channels is a Conv of stride 1 with those of all s * s phases, which
// fill the lanes of a vector, and DepthToSpace. Its kernel has the taps that meet the same s * s pixels of the full
// result: 1x1 where windows lie side by side (kernel = s), more where they overlap (a multiple of s). What pads cut off
// is sliced.
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

// [in, out, kh, kw] -> [s * s * out, in, kh / s, kw / s], the taps of a phase in reverse order
ConstantPtr all_phases(const Constant& weights, int64_t stride) {
  const size_t element = dtype_bytes(weights.dtype());
  const auto extent = [&](size_t axis) { return static_cast<size_t>(weights.shape()[axis]); };
  const auto s = static_cast<size_t>(stride);
  const size_t in = extent(0), out = extent(1), height = extent(2), width = extent(3);
  const size_t rows = height / s, columns = width / s;
  const std::span<const std::byte> source = weights.bytes();
  std::vector<std::byte> bytes(source.size());
  const std::byte* from = source.data();
  for (size_t i = 0; i < in; ++i) {
    for (size_t o = 0; o < out; ++o) {
      for (size_t h = 0; h < height; ++h) {
        for (size_t w = 0; w < width; ++w, from += element) {
          const size_t channel = (h % s * s + w % s) * out + o;
          const size_t row = rows - 1 - h / s, column = columns - 1 - w / s;
          std::memcpy(&bytes[(((channel * in + i) * rows + row) * columns + column) * element], from, element);
        }
      }
    }
  }
  const auto extents = std::vector<size_t>{s * s * out, in, rows, columns};
  return Constant::create(weights.dtype(), std::vector<int64_t>(extents.begin(), extents.end()), std::move(bytes));
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

// All phases of a few channels as one convolution; {} where that is no gain.
std::vector<ValueId> phases_together(DecomposeBuilder& b, const DecomposeSite& s, const Constant& weights) {
  constexpr int64_t kMostChannels = 32;  // of all phases together
  const auto& strides = s.attributes.ints("strides");
  const Constant* bias = s.has(2) ? b.graph().constant(s.inputs[2]) : nullptr;
  if (strides.size() != 2 || strides[0] != strides[1] || s.attributes.i("group") != 1 || (s.has(2) && bias == nullptr))
    return {};
  const int64_t stride = strides[0], phases = stride * stride, channels = weights.shape()[1];
  const int64_t height = weights.shape()[2], width = weights.shape()[3];
  // Taps that are not there would be zeros, which infinite numbers must not meet.
  if (height % stride != 0 || width % stride != 0 || phases * channels > kMostChannels) return {};
  if (!all_are(s.attributes, "dilations", 1)) return {};
  // What DepthToSpace copies.
  constexpr int64_t kShortRun = 8;
  if (stride * channels < kShortRun && !s.context.copies_short_runs) return {};
  const int64_t rows = height / stride, columns = width / stride;
  const auto& pads = s.attributes.ints("pads");
  Shape wanted = b.shape(s.inputs[0]);
  wanted[1] = Dim(channels);
  for (size_t k = 0; k < 2; ++k) {
    const int64_t kernel = k == 0 ? height : width, added = s.attributes.ints("output_padding")[k];
    // What is added to the full result is no part of any phase.
    if (pads[k] < 0 || pads[2 + k] < added) return {};
    wanted[2 + k] = (wanted[2 + k] - 1) * Dim(stride) + Dim(kernel - pads[k] - pads[2 + k] + added);
  }
  Attributes attributes;
  attributes.set("group", int64_t{1});
  attributes.set("kernel_shape", std::vector<int64_t>{rows, columns});
  attributes.set("strides", std::vector<int64_t>{1, 1});
  attributes.set("dilations", std::vector<int64_t>{1, 1});
  attributes.set("pads", std::vector<int64_t>{rows - 1, columns - 1, rows - 1, columns - 1});
  std::vector<ValueId> inputs = {s.inputs[0],
                                 b.constant(all_phases(weights, stride), b.graph().value(s.inputs[1]).name)};
  if (bias != nullptr) inputs.push_back(b.constant(repeated(*bias, phases), b.graph().value(s.inputs[2]).name));
  Attributes order;
  order.set("blocksize", stride);
  order.set("mode", std::string("DCR"));
  const ValueId full = b.op("DepthToSpace", {b.op("Conv", std::move(inputs), std::move(attributes))}, std::move(order));
  if (!b.ok()) return {};
  if (b.shape(full) == wanted) return {full};
  Attributes part;
  part.set("starts", Shape{Dim(0), Dim(0), Dim(pads[0]), Dim(pads[1])});
  part.set("steps", std::vector<int64_t>{1, 1, 1, 1});
  part.set("extents", wanted);
  return {b.op("Slice", {full}, std::move(part))};
}

}  // namespace

std::vector<ValueId> decompose_conv_transpose(DecomposeBuilder& b, const DecomposeSite& s) {
  const Constant* weights = b.graph().constant(s.inputs[1]);
  // Pads that depend on symbolic extents are not there yet.
  if (weights == nullptr || weights->byte_count() == 0 || !s.attributes.has("pads")) return {};
  const auto& strides = s.attributes.ints("strides");
  if (std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride != 1; }))
    return phases_together(b, s, *weights);
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
