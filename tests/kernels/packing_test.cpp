// Packed weights against their definition, element by element, and piece by piece.
#include "kernels/parts/packing.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/base/half.h"

namespace aipu::kernels {
namespace {

graph::ConstantPtr ramp(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return graph::Constant::of<float>(DType::kF32, {count}, values);
}

template <typename T>
std::vector<T> elements_of(const graph::Constant& constant) {
  std::vector<T> values(static_cast<size_t>(constant.element_count()));
  std::memcpy(values.data(), constant.bytes().data(), constant.byte_count());
  return values;
}

// By the definition in packing.h. The source counts from 1.
std::vector<float> expected(const PanelLayout& l) {
  std::vector<float> result;
  for (int64_t b = 0; b < l.batches; ++b) {
    for (int64_t first = 0; first < l.columns; first += l.panel_width) {
      for (int64_t k = 0; k < l.depth; ++k) {
        for (int64_t c = first; c < first + l.panel_width; ++c) {
          const int64_t at =
              b * l.batch_stride + c * l.column_stride + k % l.inner * l.inner_stride + k / l.inner * l.outer_stride;
          result.push_back(c < l.columns ? static_cast<float>(at + 1) : 0.0f);
        }
      }
    }
  }
  return result;
}

struct Case {
  const char* name;
  int64_t source;
  PanelLayout layout;
};

// What matrices, transposed ones, and convolutions of several taps ask for, with and without tails.
const Case kCases[] = {
    {"rows", 2 * 37 * 70, {2, 37, 70, 32, 37, 37 * 70, 1, 70, 0}},
    {"rows_exact", 16 * 64, {1, 16, 64, 32, 16, 0, 1, 64, 0}},
    {"columns", 3 * 45 * 53, {3, 53, 45, 16, 53, 45 * 53, 53, 1, 0}},
    {"columns_exact", 64 * 32, {1, 64, 32, 16, 64, 0, 64, 1, 0}},
    {"one_by_one", 21 * 19, {1, 19, 21, 8, 19, 0, 19, 1, 1}},
    {"taps", 2 * 11 * 20 * 9, {2, 20 * 9, 11, 8, 20, 11 * 20 * 9, 20 * 9, 9, 1}},
    {"taps_of_few", 35 * 3 * 49, {1, 3 * 49, 35, 32, 3, 0, 3 * 49, 49, 1}},
    {"contiguous_taps", 13 * 4 * 18, {1, 4 * 18, 13, 4, 18, 0, 4 * 18, 1, 18}},
    {"depth_of_one", 6 * 50, {6, 1, 50, 16, 1, 50, 1, 0, 0}},
};

class Packing : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, Packing, ::testing::ValuesIn(kCases), [](const auto& tested) { return tested.param.name; });

TEST_P(Packing, IsAsDefined) {
  const auto packed = pack_panels(ramp(GetParam().source), DType::kF32, GetParam().layout);
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(elements_of<float>(*packed), expected(GetParam().layout));
}

TEST_P(Packing, ConvertsElements) {
  const auto packed = pack_panels(ramp(GetParam().source), DType::kF64, GetParam().layout);
  const auto floats = expected(GetParam().layout);
  EXPECT_EQ(elements_of<double>(*packed), std::vector<double>(floats.begin(), floats.end()));
}

TEST_P(Packing, MovesElementsOfEightBytes) {
  std::vector<double> values(static_cast<size_t>(GetParam().source));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i + 1);
  const auto source = graph::Constant::of<double>(DType::kF64, {GetParam().source}, values);
  const auto floats = expected(GetParam().layout);
  EXPECT_EQ(elements_of<double>(*pack_panels(source, DType::kF64, GetParam().layout)),
            std::vector<double>(floats.begin(), floats.end()));
}

// From every piece on, in portions of every number of pieces, into memory that is not zero; also across batches.
TEST_P(Packing, IsMadeInPieces) {
  const auto packed = pack_panels(ramp(GetParam().source), DType::kF32, GetParam().layout);
  ASSERT_TRUE(packed->is_deferred());
  const auto floats = expected(GetParam().layout);
  const size_t piece = packed->piece_bytes(), pieces = packed->byte_count() / piece;
  for (size_t count = 1; count <= pieces; ++count) {
    std::vector<std::byte> bytes(packed->byte_count(), std::byte{0xaa});
    for (size_t first = 0; first < pieces; first += count) {
      const size_t size = std::min(count, pieces - first) * piece;
      packed->copy_bytes(first * piece, std::span(bytes).subspan(first * piece, size));
    }
    EXPECT_EQ(std::memcmp(bytes.data(), floats.data(), bytes.size()), 0) << count;
  }
}

TEST(PackingRecipe, SaysWhatTheBytesAre) {
  const Case& c = kCases[0];
  const auto packed = pack_panels(ramp(c.source), DType::kF32, c.layout);
  EXPECT_EQ(packed->hash(), pack_panels(ramp(c.source), DType::kF32, c.layout)->hash());
  PanelLayout other = c.layout;
  std::swap(other.inner_stride, other.column_stride);
  EXPECT_NE(packed->hash(), pack_panels(ramp(c.source), DType::kF32, other)->hash());
  EXPECT_NE(packed->hash(), pack_panels(ramp(c.source + 1), DType::kF32, c.layout)->hash());
}

TEST(PackingDepth, OfNothing) {
  const auto packed = pack_panels(ramp(4), DType::kF32, {1, 0, 4, 4, 1, 0, 1, 4, 0});
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(packed->byte_count(), 0u);
}

}  // namespace
}  // namespace aipu::kernels
