// Models of 8-bit integers in tests, and integer arithmetic written out for what they must give.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tests/numerics/road.h"

namespace aipu::test {

int64_t pick(std::mt19937& random, int64_t low, int64_t high);
bool flip(std::mt19937& random);

// runnable_targets(), and those with products of bytes and of tiles that the CPU has.
std::vector<std::string> targets_with_dot_products();

// 8-bit integers with how they stand for real numbers.
struct Integers {
  std::vector<int64_t> shape;
  std::vector<int64_t> elements;
  DType dtype = DType::kU8;
  std::vector<int64_t> zeros = {0};  // one, or one per output channel
  std::vector<float> scales = {1};
};

int64_t count_of(const std::vector<int64_t>& shape);
int64_t lowest(DType dtype);

// Of the whole range; mostly ends of the range when `extreme`, where 16-bit intermediate sums would saturate.
Integers random_integers(std::mt19937& random, std::vector<int64_t> shape, DType dtype, bool extreme);
int64_t random_zero(std::mt19937& random, DType dtype);
float random_scale(std::mt19937& random);

models::TensorData data_of(const std::vector<int64_t>& elements, DType dtype, std::vector<int64_t> shape);
// Initializers of the zero points, the scales, the elements.
std::string zeros_of(models::OnnxBuilder& b, const Integers& x);
std::string scales_of(models::OnnxBuilder& b, const Integers& x);
std::string constant_of(models::OnnxBuilder& b, const Integers& x);

// The road of the tests carries float32: integers pass as numbers and are cast inside the model.
std::string integer_input(models::OnnxBuilder& b, const std::string& name, const Integers& x,
                          models::Extents extents = {});
void integer_output(models::OnnxBuilder& b, const std::string& value, const std::string& name, size_t rank);
Tensor as_tensor(const Integers& x);

// Saves the model and runs it on targets_with_dot_products(), and in the interpreter if asked to: "y" must be equal.
void check_road(models::OnnxBuilder& b, const std::string& name, const std::map<std::string, Tensor>& inputs,
                const Tensor& expected, bool interpret);

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
  int64_t group = 1;
  models::NamedAttributes attributes() const {
    return {{"kernel_shape", kernel}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}};
  }
};

// Exact sums of (x - zero) * (w - zero), [N, OC, spatial...].
Integers convolve(const Integers& x, const Integers& w, const Window& window);

// float32 as the kernels compute: one factor per channel, one multiplication, ties to even. Also held against the real
// number.
int64_t requantised(int64_t sum, float factor, double exact, const Integers& y);

// Of [N, C, ...] by channel.
Tensor requantised(const Integers& sums, const std::vector<int64_t>& bias, const Integers& x, const Integers& w,
                   const Integers& y);

struct ConvCase {
  Integers x, w, y;
  Window window;
  std::vector<int64_t> bias;
};

// y = QLinearConv of the case's operands, as the output "y"; the extents of the input "x" are those of c.x unless told.
void add_qlinear_conv(models::OnnxBuilder& b, const ConvCase& c, models::Extents extents = {});
// What it must give.
Tensor expected_of(const ConvCase& c);

}  // namespace aipu::test
