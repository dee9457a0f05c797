// Hostile .npy files: whatever the bytes, the result is an array that fits its data, or a one-line error. No crash, no
// hang, no huge allocation.
#include <gtest/gtest.h>

#include <random>

#include "runtime/tools/npy.h"

namespace aipu::tools {
namespace {

void try_file(std::span<const std::byte> bytes) {
  const auto array = parse_npy(bytes);
  if (array.ok()) {
    EXPECT_LE(array->data.size(), bytes.size());
    EXPECT_EQ(static_cast<size_t>(*element_count(array->shape)) * dtype_bytes(array->dtype), array->data.size());
  } else {
    EXPECT_FALSE(array.status().message().empty());
    EXPECT_EQ(array.status().message().find('\n'), std::string::npos);
  }
}

std::vector<std::byte> file_of(DType dtype, std::vector<int64_t> shape) {
  auto bytes = npy_header(dtype, shape);
  bytes.resize(bytes.size() + static_cast<size_t>(*element_count(shape)) * dtype_bytes(dtype));
  return bytes;
}

const std::vector<std::vector<std::byte>>& samples() {
  static const std::vector<std::vector<std::byte>> files = {file_of(DType::kF32, {2, 3, 4}), file_of(DType::kBool, {7}),
                                                            file_of(DType::kI64, {}), file_of(DType::kF16, {0, 5})};
  return files;
}

TEST(NpyFuzz, Truncations) {
  for (const auto& file : samples()) {
    for (size_t size = 0; size <= file.size(); ++size) try_file(std::span(file).first(size));
  }
}

TEST(NpyFuzz, RandomEdits) {
  std::mt19937 random(5);
  static constexpr char kPieces[][24] = {"(",          ")",
                                         "{",          "}",
                                         "'",          "\"",
                                         ",",          ":",
                                         "9",          "99999999999999999999",
                                         "True",       "-1",
                                         "'shape': (", "'descr': '<f8'",
                                         "0, ",        "\n",
                                         "\x00"};
  for (const auto& original : samples()) {
    for (int i = 0; i < 1000; ++i) {
      auto file = original;
      const int edits = 1 + static_cast<int>(random() % 4);
      for (int k = 0; k < edits; ++k) {
        const size_t position = random() % std::min<size_t>(file.size(), 140);
        switch (random() % 4) {
          case 0:
            file[position] ^= std::byte{1} << (random() % 8);
            break;
          case 1:
            file[position] = static_cast<std::byte>(random());
            break;
          case 2:
            file.erase(file.begin() + static_cast<std::ptrdiff_t>(position));
            break;
          default: {
            const std::string_view piece = kPieces[random() % std::size(kPieces)];
            for (size_t c = 0; c < piece.size() && position + c < file.size(); ++c)
              file[position + c] = static_cast<std::byte>(piece[c]);
          }
        }
        if (file.empty()) break;
      }
      try_file(file);
    }
  }
}

TEST(NpyFuzz, RandomBytes) {
  std::mt19937 random(6);
  for (int i = 0; i < 500; ++i) {
    std::vector<std::byte> file(random() % 300);
    for (auto& byte : file) byte = static_cast<std::byte>(random());
    // Half of them get past the magic.
    if (i % 2 == 0) {
      const auto header = npy_header(DType::kF32, {});
      std::copy_n(header.begin(), std::min<size_t>(10, file.size()), file.begin());
    }
    try_file(file);
  }
}

}  // namespace
}  // namespace aipu::tools
