// QuantizeLinear by a known scale multiplies by the reciprocal and corrects the product: it has to give the integer
// that the division of ONNX's definition rounds to, for every float32. All mantissas of scales with all ties of 8 bits
// and their neighbours were compared once (1.7e10 quotients); this is a sample.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;
using models::TensorData;

// Ties of the integers and what lies next to them; what has no integer.
std::vector<float> numbers_around(std::mt19937& random, float scale, bool is_wide) {
  std::vector<float> numbers = {0.0f, -0.0f, 1e-45f, -1e-39f};
  for (const float limit : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()}) {
    numbers.push_back(limit);
    numbers.push_back(-limit);
  }
  numbers.push_back(std::numeric_limits<float>::quiet_NaN());
  const auto add_tie = [&](int k) {
    auto number = static_cast<float>((k + 0.5) * static_cast<double>(scale));
    for (int step = 0; step < 3; ++step) number = std::nextafter(number, -std::numeric_limits<float>::infinity());
    for (int step = 0; step < 7; ++step) {
      numbers.push_back(number);
      number = std::nextafter(number, std::numeric_limits<float>::infinity());
    }
  };
  for (int k = -258; k < 258; ++k) add_tie(k);
  for (int n = 0; is_wide && n < 500; ++n) add_tie(std::uniform_int_distribution<int>(-65540, 65540)(random));
  return numbers;
}

TEST(QuantizeLinear, GivesWhatADivisionRoundsTo) {
  struct Case {
    DType dtype;
    int64_t zero;
  };
  const Case cases[] = {{DType::kU8, 0}, {DType::kU8, 113}, {DType::kI8, -3}, {DType::kU16, 32768}, {DType::kI16, 5}};
  std::mt19937 random(21);
  // The last ones have no reciprocal, or no multiple, that is a normal number.
  std::vector<float> scales = {0.007838081f,   1.0f / 255, 0.25f,    3.0f, 0x1.fffffep-4f,
                               0x1.000002p+3f, 1e-40f,     1.2e-38f, 3e38f};
  for (int n = 0; n < 4; ++n)
    scales.push_back(
        std::ldexp(std::uniform_real_distribution<float>(1, 2)(random), static_cast<int>(random() % 40) - 30));
  for (const Case& tested : cases) {
    const bool is_wide = dtype_bits(tested.dtype) == 16;
    const bool is_signed = is_signed_int(tested.dtype);
    const double low = is_signed ? -std::ldexp(1.0, dtype_bits(tested.dtype) - 1) : 0;
    const double high = low + std::ldexp(1.0, dtype_bits(tested.dtype)) - 1;
    OnnxBuilder b("quotients", 1);
    b.set_opset(21);
    std::map<std::string, Tensor> inputs, expected;
    for (size_t k = 0; k < scales.size(); ++k) {
      const std::vector<float> x = numbers_around(random, scales[k], is_wide);
      const auto count = static_cast<int64_t>(x.size());
      const std::string name = "x" + std::to_string(k), result = "y" + std::to_string(k);
      TensorData zero{tested.dtype, {}, {}};
      for (size_t byte = 0; byte < dtype_bytes(tested.dtype); ++byte)
        zero.bytes.push_back(static_cast<std::byte>(static_cast<uint64_t>(tested.zero) >> (8 * byte)));
      const std::string integers =
          b.op("QuantizeLinear", {b.input(name, DType::kF32, {count}), b.scalar(scales[k]), b.initializer(zero)});
      b.output(b.op("Cast", {integers}, {{"to", 1}}), result, DType::kF32, {count});
      inputs[name] = {{count}, x};
      Tensor& y = expected[result];
      y.shape = {count};
      for (const float number : x) {
        const double integer =
            std::nearbyint(static_cast<double>(number / scales[k])) + static_cast<double>(tested.zero);
        y.data.push_back(static_cast<float>(std::isnan(number) ? low : std::min(std::max(integer, low), high)));
      }
    }
    const std::string path = temporary_path("quotients.onnx");
    ASSERT_TRUE(b.save(path).ok());
    SCOPED_TRACE("zero point " + std::to_string(tested.zero) + " of " + std::string(dtype_name(tested.dtype)));
    expect_on_targets(path, inputs, expected, 0, 0);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace aipu::test
