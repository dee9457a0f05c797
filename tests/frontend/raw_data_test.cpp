// Large initializers are found in the bytes of the file, and anything odd is left to protobuf.
#include "frontend/onnx/raw_data.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "frontend/onnx/import.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"

namespace aipu::frontend {
namespace {

using models::OnnxBuilder;
using models::TensorData;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<float> ramp(size_t count, float first) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

// Sums x and initializers of these sizes.
std::string model_of(const std::vector<size_t>& sizes, const std::string& prefix = "w") {
  OnnxBuilder b;
  auto sum = b.input("x", DType::kF32, {1});
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto values = ramp(sizes[i], static_cast<float>(i));
    sum = b.op("Add", {sum, b.initializer(TensorData::f32({static_cast<int64_t>(sizes[i])}, values),
                                          prefix + std::to_string(i))});
  }
  b.output(sum);
  return b.serialize();
}

std::string length_delimited(uint32_t number, const std::string& value) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  size_t size = value.size();
  for (; size >= 0x80; size >>= 7) out.push_back(static_cast<char>((size & 0x7f) | 0x80));
  return out + static_cast<char>(size) + value;
}

std::string tensor(size_t raw_bytes) {
  return length_delimited(8, "w") + std::string("\x10\x01", 2) + length_delimited(9, std::string(raw_bytes, 'r'));
}

TEST(RawData, LargeInitializersAreTakenOut) {
  const std::string model = model_of({2048, 1, 4096});
  const SplitModel split = split_raw_data(bytes_of(model));
  ASSERT_EQ(split.raw_data.size(), 2u);
  for (const auto& [index, count] : {std::pair<int, size_t>{0, 2048}, {2, 4096}}) {
    const auto values = ramp(count, static_cast<float>(index));
    ASSERT_EQ(split.raw_data.at(index).size(), count * sizeof(float));
    EXPECT_EQ(std::memcmp(split.raw_data.at(index).data(), values.data(), count * sizeof(float)), 0);
    EXPECT_GE(split.raw_data.at(index).data(), bytes_of(model).data());
  }
  EXPECT_LT(split.rest.size(), 2000u);
  // What is left is a model of the same form: it has nothing to take out any more.
  EXPECT_TRUE(split_raw_data(bytes_of(split.rest)).raw_data.empty());
}

TEST(RawData, NothingLargeNothingSplit) {
  EXPECT_TRUE(split_raw_data(bytes_of(model_of({1, 2}))).rest.empty());
  EXPECT_TRUE(split_raw_data({}).rest.empty());
}

TEST(RawData, WhatIsThereTwiceIsLeftToProtobuf) {
  const std::string twice = tensor(5000) + length_delimited(9, std::string(5000, 's'));
  EXPECT_EQ(split_raw_data(bytes_of(length_delimited(7, length_delimited(5, tensor(5000))))).raw_data.size(), 1u);
  EXPECT_TRUE(split_raw_data(bytes_of(length_delimited(7, length_delimited(5, twice)))).rest.empty());
  const std::string graph = length_delimited(7, length_delimited(5, tensor(5000)));
  EXPECT_TRUE(split_raw_data(bytes_of(graph + graph)).rest.empty());
}

TEST(RawData, DamagedBytesAreLeftToProtobuf) {
  const std::string model = model_of({2048, 2048});
  for (size_t size = 0; size < model.size(); size += size < 200 || size + 200 > model.size() ? 1 : 97) {
    const std::string part = model.substr(0, size);
    // Up to the end of the graph nothing can be split; behind it, other fields may be missing, and are missed.
    EXPECT_TRUE(size + 100 > model.size() || split_raw_data(bytes_of(part)).rest.empty()) << size;
    EXPECT_FALSE(import_onnx_from_memory(bytes_of(part), "m.onnx").ok()) << size;
  }
  for (const char* text :
       {"\x0b", "\x3f", "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x3a\x05\x2a", "\x01\x01"}) {
    EXPECT_TRUE(split_raw_data(bytes_of(std::string(text))).rest.empty());
  }
}

// Whatever the bytes say, what is taken out lies within them, and an import ends in a graph or an error.
TEST(RawData, RandomDamage) {
  const std::string model = model_of({2048, 2048, 1});
  uint64_t state = 1;
  const auto random = [&](size_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % limit;
  };
  // Where tags and lengths are: around the raw data, which is most of the model.
  std::vector<size_t> places;
  const SplitModel whole = split_raw_data(bytes_of(model));
  for (size_t i = 0; i < model.size(); ++i) {
    bool inside = false;
    for (const auto& [index, raw] : whole.raw_data) {
      const auto first = static_cast<size_t>(raw.data() - bytes_of(model).data());
      inside |= i >= first + 2 && i + 2 < first + raw.size();
    }
    if (!inside) places.push_back(i);
  }
  size_t split = 0, imported = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = model;
    for (size_t k = 0; k <= random(2); ++k) damaged[places[random(places.size())]] = static_cast<char>(random(256));
    const SplitModel result = split_raw_data(bytes_of(damaged));
    for (const auto& [index, raw] : result.raw_data) {
      ASSERT_GE(raw.data(), bytes_of(damaged).data());
      ASSERT_LE(raw.data() + raw.size(), bytes_of(damaged).data() + damaged.size());
      ASSERT_GE(index, 0);
    }
    split += result.raw_data.empty() ? 0 : 1;
    imported += import_onnx_from_memory(bytes_of(damaged), "m.onnx").ok() ? 1 : 0;
  }
  EXPECT_GT(split, 500u);
  EXPECT_GT(imported, 100u);
  EXPECT_LT(imported, 3000u);
}

// The bytes of a file are used where they are, whatever their address.
TEST(RawData, WeightsOfAFileAtAnyAddress) {
  for (size_t length = 1; length <= 8; ++length) {
    const std::string prefix(length, 'w');
    const std::string path = ::testing::TempDir() + "/aipu_raw_data_" + std::to_string(length) + ".onnx";
    ASSERT_TRUE(write_file_atomically(path, model_of({2048, 2048}, prefix)).ok());
    const auto graph = import_onnx(path);
    std::filesystem::remove(path);  // the mapping stays
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    size_t found = 0;
    for (const auto id : (*graph)->topological_order()) {
      const graph::Constant* weights = (*graph)->constant((*graph)->node(id).inputs[1]);
      ASSERT_NE(weights, nullptr);
      const auto values = ramp(static_cast<size_t>(weights->element_count()), found == 0 ? 0.0f : 1.0f);
      EXPECT_EQ(std::memcmp(weights->bytes().data(), values.data(), weights->byte_count()), 0) << length;
      EXPECT_EQ(weights->hash(), graph::Constant::of<float>(DType::kF32, weights->shape(), values)->hash()) << length;
      ++found;
    }
    EXPECT_EQ(found, 2u);
  }
}

// 5000 bytes are no multiple of the element's size.
TEST(RawData, WrongSizeIsTheSameErrorAsEver) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {1});
  b.output(b.op("Add", {x, b.initializer(TensorData::f32({2000}, ramp(2000, 0)), "w")}));
  std::string model = b.serialize();
  const size_t dims = model.find("\xd0\x0f");  // the varint of 2000
  ASSERT_NE(dims, std::string::npos);
  model[dims] = '\xd1';
  const auto graph = import_onnx_from_memory(bytes_of(model), "m.onnx");
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.status().message(),
            "m.onnx: node '/Add' (Add): tensor 'w' has 8000 bytes of data, its shape and type need 8004");
}

}  // namespace
}  // namespace aipu::frontend
