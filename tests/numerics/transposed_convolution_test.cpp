// Transposed convolutions against a reference in double precision and oneDNN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/numerics/random_models.h"

namespace aipu::test {
namespace {

// What a transposed convolution is made of, at random; outputs are not empty.
struct TransposedCase {
  int64_t groups, in, out;  // channels of a group
  std::vector<int64_t> extents, kernel, strides, dilations, pads, output_padding;
};

TransposedCase pick_transposed(std::mt19937& random, int64_t most_spatial, int64_t most_out) {
  const int64_t spatial = pick(random, 1, most_spatial);
  TransposedCase c{pick(random, 0, 2) == 0 ? pick(random, 2, 3) : 1,
                   pick(random, 1, 7),
                   pick(random, 1, most_out),
                   {},
                   {},
                   {},
                   {},
                   {},
                   {}};
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < spatial; ++i) {
    c.extents.push_back(pick(random, 1, spatial == 1 ? 40 : spatial == 2 ? 11 : 5));
    c.kernel.push_back(pick(random, 1, 5));
    c.strides.push_back(pick(random, 1, 4));
    c.dilations.push_back(pick(random, 0, 1) == 0 ? 1 : pick(random, 1, 4));
    c.output_padding.push_back(pick(random, 0, std::max(c.strides.back(), c.dilations.back()) - 1));
    const int64_t full = (c.extents.back() - 1) * c.strides.back() + (c.kernel.back() - 1) * c.dilations.back() + 1;
    c.pads.push_back(pick(random, 0, std::min<int64_t>(full - 1, 3)));
    ends.push_back(pick(random, 0, std::min<int64_t>(full - 1 - c.pads.back(), 3)));
  }
  c.pads.insert(c.pads.end(), ends.begin(), ends.end());
  return c;
}

// By its definition: every input pixel is added, times the kernel, to the outputs that it reaches.
Tensor transposed_reference(const TransposedCase& c, const Tensor& x, const Tensor& w, const Tensor& bias) {
  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  };
  std::array<Axis, 3> axes;
  const size_t spatial = c.extents.size();
  std::vector<int64_t> shape = {x.shape[0], c.groups * c.out};
  for (size_t i = 0; i < spatial; ++i) {
    Axis& axis = axes[3 - spatial + i];
    axis = {c.extents[i], 0, c.kernel[i], c.strides[i], c.dilations[i], c.pads[i]};
    axis.out = (axis.in - 1) * axis.stride + c.output_padding[i] + (axis.kernel - 1) * axis.dilation + 1 - axis.pad -
               c.pads[spatial + i];
    shape.push_back(axis.out);
  }
  const auto size = [&](int64_t Axis::*extent) { return axes[0].*extent * (axes[1].*extent) * (axes[2].*extent); };
  // Calls visit(input pixel, tap, output pixel) for all that meet.
  const auto visit_axis = [&](size_t i, const auto& visit) {
    for (int64_t at = 0; at < axes[i].in; ++at) {
      for (int64_t k = 0; k < axes[i].kernel; ++k) {
        const int64_t o = at * axes[i].stride + k * axes[i].dilation - axes[i].pad;
        if (o >= 0 && o < axes[i].out) visit(at, k, o);
      }
    }
  };
  std::vector<double> sums(static_cast<size_t>(x.shape[0] * c.groups * c.out * size(&Axis::out)));
  const auto add = [&](int64_t from, int64_t tap, int64_t to) {
    for (int64_t n = 0; n < x.shape[0]; ++n) {
      for (int64_t ic = 0; ic < c.groups * c.in; ++ic) {
        const double value = x.data[static_cast<size_t>((n * c.groups * c.in + ic) * size(&Axis::in) + from)];
        for (int64_t oc = 0; oc < c.out; ++oc) {
          sums[static_cast<size_t>((n * c.groups * c.out + ic / c.in * c.out + oc) * size(&Axis::out) + to)] +=
              value * w.data[static_cast<size_t>((ic * c.out + oc) * size(&Axis::kernel) + tap)];
        }
      }
    }
  };
  visit_axis(0, [&](int64_t d, int64_t kd, int64_t od) {
    visit_axis(1, [&](int64_t h, int64_t kh, int64_t oh) {
      visit_axis(2, [&](int64_t i, int64_t kw, int64_t ow) {
        add((d * axes[1].in + h) * axes[2].in + i, (kd * axes[1].kernel + kh) * axes[2].kernel + kw,
            (od * axes[1].out + oh) * axes[2].out + ow);
      });
    });
  });
  Tensor y{shape, {}};
  for (size_t i = 0; i < sums.size(); ++i) {
    const double sum = sums[i] + bias.data[i / static_cast<size_t>(size(&Axis::out)) % bias.data.size()];
    y.data.push_back(static_cast<float>(std::max(sum, 0.0)));
  }
  return y;
}

// With `symbolic` extents of x, and weights that are constant or an input; bias and Relu in the epilogue.
void check_transposed(const TransposedCase& c, bool symbolic, bool constant, unsigned seed) {
  std::ostringstream text;
  const auto print = [&](const char* name, const std::vector<int64_t>& values) {
    text << " " << name;
    for (const int64_t value : values) text << " " << value;
  };
  text << "seed " << seed << " groups " << c.groups << " in " << c.in << " out " << c.out;
  print("extents", c.extents);
  print("kernel", c.kernel);
  print("strides", c.strides);
  print("dilations", c.dilations);
  print("pads", c.pads);
  print("output_padding", c.output_padding);
  SCOPED_TRACE(text.str());
  std::mt19937 random(seed);
  std::vector<int64_t> x_shape = {2, c.groups * c.in}, w_shape = {c.groups * c.in, c.out};
  x_shape.insert(x_shape.end(), c.extents.begin(), c.extents.end());
  w_shape.insert(w_shape.end(), c.kernel.begin(), c.kernel.end());
  const Tensor w = random_tensor(random, w_shape), bias = random_tensor(random, {c.groups * c.out});
  std::map<std::string, Tensor> inputs{{"x", random_tensor(random, x_shape)}};
  OnnxBuilder b("conv_transpose", 1);
  Extents extents = extents_of(x_shape);
  if (symbolic) {
    extents[0] = "N";
    for (size_t i = 0; i < c.extents.size(); ++i) extents[2 + i] = "E" + std::to_string(i);
  }
  b.input("x", DType::kF32, extents);
  std::string weights = "w";
  if (constant) {
    weights = b.initializer(models::TensorData::of<float>(DType::kF32, w.shape, w.data));
  } else {
    inputs["w"] = w;
    b.input("w", DType::kF32, extents_of(w_shape));
  }
  const std::string y = b.op(
      "ConvTranspose", {"x", weights, b.initializer(models::TensorData::of<float>(DType::kF32, bias.shape, bias.data))},
      {{"group", c.groups},
       {"strides", c.strides},
       {"dilations", c.dilations},
       {"pads", c.pads},
       {"output_padding", c.output_padding}});
  b.output(b.relu(y), "y", DType::kF32, Extents(x_shape.size(), Extents::value_type("")));
  const std::string path = temporary_path("conv_transpose" + std::to_string(seed) + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  expect_on_targets(path, inputs, {{"y", transposed_reference(c, inputs["x"], w, bias)}}, 1e-5, 1e-5, seed % 4 == 0);
}

TEST(Kernels, TransposedConvolution) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    check_transposed(pick_transposed(random, 3, 37), false, true, seed);
  }
}

TEST(Kernels, TransposedConvolutionOfSymbolicExtents) {
  for (unsigned seed = 100; seed < 106; ++seed) {
    std::mt19937 random(seed);
    check_transposed(pick_transposed(random, 3, 20), true, true, seed);
  }
}

TEST(Kernels, TransposedConvolutionWithWeightsKnownAtRunTime) {
  for (unsigned seed = 200; seed < 204; ++seed) {
    std::mt19937 random(seed);
    check_transposed(pick_transposed(random, 2, 37), seed % 2 == 0, false, seed);
  }
}

// The forms that upsamplers have, with rows of more than one tile.
TEST(Kernels, TransposedConvolutionOfUpsamplers) {
  for (unsigned seed = 300; seed < 304; ++seed) {
    std::mt19937 random(seed);
    const int64_t kernel = 2 + seed % 3, stride = kernel == 3 ? 1 : 2, pad = kernel == 2 ? 0 : 1;
    const int64_t out = pick(random, 1, 4) * 16, width = pick(random, 14, 33);
    check_transposed({1, 24, out, {3, width}, {kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad, pad, pad}, {0, 0}},
                     seed % 2 == 1, true, seed);
  }
}

// Half floats are summed up in float32, doubles in doubles; x and weights are such that no product is rounded.
TEST(Kernels, TransposedConvolutionOfOtherTypes) {
  const TransposedCase c{1, 3, 21, {4, 9}, {4, 3}, {2, 3}, {1, 1}, {1, 0, 1, 1}, {0, 0}};
  std::mt19937 random(5);
  const auto eighths = [&](std::vector<int64_t> shape) {
    Tensor tensor = random_tensor(random, std::move(shape), -1, 1);
    for (float& element : tensor.data) element = std::round(element * 8) / 8;
    return tensor;
  };
  const Tensor w = eighths({c.in, c.out, 4, 3}), bias = eighths({c.out});
  const std::map<std::string, Tensor> inputs{{"x", eighths({2, c.in, 4, 9})}};
  for (const int64_t type : {10, 16, 11}) {
    SCOPED_TRACE("TensorProto.DataType " + std::to_string(type));
    OnnxBuilder b("conv_transpose_types", 1);
    const auto cast = [&](const std::string& value) { return b.op("Cast", {value}, {{"to", type}}); };
    const auto constant = [&](const Tensor& tensor) {
      return cast(b.initializer(models::TensorData::of<float>(DType::kF32, tensor.shape, tensor.data)));
    };
    b.input("x", DType::kF32, extents_of(inputs.at("x").shape));
    const std::string y =
        b.op("ConvTranspose", {cast("x"), constant(w), constant(bias)}, {{"strides", c.strides}, {"pads", c.pads}});
    b.output(b.op("Cast", {b.relu(y)}, {{"to", int64_t{1}}}), "y", DType::kF32, {"", "", "", ""});
    const std::string path = temporary_path("conv_transpose_types" + std::to_string(type) + ".onnx");
    ASSERT_TRUE(b.save(path).ok());
    // What is left is the rounding of the result.
    expect_on_targets(path, inputs, {{"y", transposed_reference(c, inputs.at("x"), w, bias)}},
                      type == 16 ? 1.0 / 256 : 1.0 / 2048, 1e-6, false);
  }
}

// A decoder of a U-Net: upsampled channels and those of the shortcut side by side, and a sum with what the output takes
// the place of.
TEST(Kernels, TransposedConvolutionInFrontOfConcatAndAdd) {
  check_against_dnnl("conv_transpose_concat", 3, 1e-4, 1e-4, [](OnnxBuilder& b, std::mt19937& random) {
    const int64_t channels = pick(random, 3, 40), other = pick(random, 3, 40);
    const std::vector<int64_t> shape = {2, channels, pick(random, 3, 17), pick(random, 3, 17)};
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    const auto upsample = [&](int64_t out) {
      return b.op("ConvTranspose", {x, b.weight({channels, out, 2, 2}, 0.3)},
                  {{"strides", std::vector<int64_t>{2, 2}}});
    };
    const std::string shortcut = b.relu(upsample(other));
    const std::string both = b.op("Concat", {b.relu(upsample(channels)), shortcut}, {{"axis", int64_t{1}}});
    const std::string y = b.conv(both, channels + other, other, {.kernel = {1, 1}});
    b.output(b.op("Add", {y, b.op("Add", {upsample(other), shortcut})}), "y", DType::kF32, {"", "", "", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

}  // namespace
}  // namespace aipu::test
