#include "runtime/tools/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/tools/compare.h"
#include "runtime/tools/inputs.h"

namespace aipu::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> file_with(const std::string& header, size_t data_bytes) {
  std::string text = std::string("\x93NUMPY\x01", 7) + '\0' + static_cast<char>(header.size() & 255) +
                     static_cast<char>(header.size() >> 8) + header;
  for (size_t i = 0; i < data_bytes; ++i) text += static_cast<char>(i);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string problem(const std::string& header, size_t data_bytes) {
  return parse_npy(file_with(header, data_bytes)).status().message();
}

TEST(Npy, RoundTripsEveryType) {
  for (int d = 1; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (dtype == DType::kString) continue;
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, std::vector<int64_t>{5},
                                              std::vector<int64_t>{2, 0, 3}, std::vector<int64_t>{2, 3, 4}}) {
      const auto array = random_array(dtype, shape, 11);
      ASSERT_TRUE(array.ok());
      const std::string path = ::testing::TempDir() + "aipu_round_trip.npy";
      ASSERT_TRUE(write_npy(path, dtype, shape, array->data.data()).ok());
      const auto read = read_npy(path);
      ASSERT_TRUE(read.ok()) << read.status().message();
      const Array again = with_type(*read, dtype);  // stored types are written as their codes
      EXPECT_EQ(again.dtype, dtype);
      EXPECT_EQ(again.shape, shape);
      EXPECT_EQ(again.data, array->data);
    }
  }
}

TEST(Npy, StringsAreFilledUpCodePoints) {
  const std::vector<std::string> texts = {"", "a", "\xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\x98\x80", "\xc3\xa9!"};
  std::vector<runtime::StringView> views;
  for (const std::string& text : texts) views.push_back({text.data(), text.size()});
  const std::vector<int64_t> shape = {5};
  const std::string path = ::testing::TempDir() + "aipu_strings.npy";
  ASSERT_TRUE(write_npy(path, DType::kString, shape, views.data()).ok());
  const auto read = read_npy(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const Array again = *read;  // copies show the same texts
  EXPECT_EQ(again.dtype, DType::kString);
  EXPECT_EQ(again.shape, shape);
  const auto* found = reinterpret_cast<const runtime::StringView*>(again.data.data());
  for (size_t k = 0; k < texts.size(); ++k) EXPECT_EQ(std::string(found[k].data, found[k].size), texts[k]);
  EXPECT_TRUE(compare(span_of(again), {DType::kString, shape, views.data()}, {}).equal);
  views[3] = views[1];
  const Comparison other = compare(span_of(again), {DType::kString, shape, views.data()}, {});
  EXPECT_EQ(other.message.substr(0, 38), "1 of 5 elements differ, first at [3]: ");
  const std::string broken = "\xff";
  const runtime::StringView bad[] = {{broken.data(), 1}};
  const int64_t one[] = {1};
  EXPECT_THAT(write_npy(path, DType::kString, one, bad).message(), HasSubstr("is no UTF-8"));
}

TEST(Npy, ReadsBytesAsStrings) {
  const auto array = parse_npy(file_with("{'descr': '|S2', 'fortran_order': True, 'shape': (1, 2), }\n", 4));
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_THAT(*array->texts, ::testing::ElementsAre(std::string("\0\1", 2), "\2\3"));
  EXPECT_THAT(problem("{'descr': '<U0', 'fortran_order': False, 'shape': (1,), }\n", 0), HasSubstr("of no length"));
  EXPECT_THAT(problem("{'descr': '<U9', 'fortran_order': False, 'shape': (1,), }\n", 4), HasSubstr("does not fit"));
}

TEST(Npy, HeaderIsAlignedAndWhatNumPyWrites) {
  const int64_t shape[] = {3};
  const auto header = npy_header(DType::kF32, shape);
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_THAT(std::string(reinterpret_cast<const char*>(header.data()) + 10, header.size() - 10),
              HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"));
}

TEST(Npy, ReadsFortranOrder) {
  const auto array = parse_npy(file_with("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", 6));
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_THAT(array->data,
              ElementsAre(std::byte{0}, std::byte{2}, std::byte{4}, std::byte{1}, std::byte{3}, std::byte{5}));
}

TEST(Npy, RefusesWhatItCannotRead) {
  EXPECT_THAT(problem("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4), HasSubstr("big-endian"));
  EXPECT_THAT(problem("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }", 16),
              HasSubstr("elements of type '<c16'"));
  EXPECT_THAT(problem("{'descr': '}\ni8', 'fortran_order': False, 'shape': (1,), }", 8),
              HasSubstr("elements of type '}\\ni8'"));
  EXPECT_THAT(problem("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4),
              HasSubstr("structured"));
  EXPECT_THAT(problem("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 4),
              HasSubstr("does not fit its 4 bytes"));
  EXPECT_THAT(problem("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 5),
              HasSubstr("does not fit its 5 bytes"));
  EXPECT_THAT(problem("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 0),
              HasSubstr("more elements than 64 bits"));
  EXPECT_THAT(problem("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", 0),
              HasSubstr("does not fit"));
  EXPECT_THAT(problem("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 0),
              HasSubstr("the shape is not a tuple"));
  EXPECT_THAT(problem("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", 4), HasSubstr("fortran_order"));
  EXPECT_THAT(problem("{'descr': '<f4', 'shape': (1,), }", 4), HasSubstr("a key is missing"));
  EXPECT_THAT(problem("{'descr': '<f4'", 4), HasSubstr("malformed"));
  EXPECT_THAT(problem("", 4), HasSubstr("malformed"));
  EXPECT_FALSE(parse_npy({}).ok());
  EXPECT_THAT(read_npy("/nonexistent.npy").status().message(), HasSubstr("/nonexistent.npy"));
}

Comparison compare_floats(std::vector<float> found, std::vector<float> expected, Tolerance tolerance = {}) {
  const int64_t shape[] = {static_cast<int64_t>(found.size())};
  const int64_t expected_shape[] = {static_cast<int64_t>(expected.size())};
  return compare({DType::kF32, shape, found.data()}, {DType::kF32, expected_shape, expected.data()}, tolerance);
}

TEST(Compare, FollowsTheOnnxRule) {
  EXPECT_TRUE(compare_floats({1, 2, NAN, INFINITY, -0.0f}, {1, 2, NAN, INFINITY, 0.0f}).equal);
  EXPECT_TRUE(compare_floats({1.0009f}, {1}).equal);
  EXPECT_FALSE(compare_floats({1.002f}, {1}).equal);
  EXPECT_TRUE(compare_floats({1.002f}, {1}, {0, 0.01}).equal);
  EXPECT_FALSE(compare_floats({NAN}, {1}).equal);
  EXPECT_FALSE(compare_floats({1}, {NAN}).equal);
  EXPECT_FALSE(compare_floats({INFINITY}, {-INFINITY}).equal);
  EXPECT_FALSE(compare_floats({3e38f}, {INFINITY}).equal);
  EXPECT_FALSE(compare_floats({1, 2}, {1, 2, 3}).equal);
  EXPECT_THAT(compare_floats({1, 5, 3}, {1, 2, 3}).message,
              HasSubstr("1 of 3 elements differ, first at [1], worst at [1]: expected 2, found 5; max abs error 3, max "
                        "rel error 1.5"));
  const int64_t one[] = {1};
  const int64_t big = 9007199254740993, near = 9007199254740992;  // equal as doubles
  EXPECT_FALSE(compare({DType::kI64, one, &big}, {DType::kI64, one, &near}, {1, 1}).equal);
  EXPECT_THAT(compare({DType::kI64, one, &big}, {DType::kF64, one, &near}, {1, 1}).message,
              HasSubstr("dtype: expected float64, found int64"));
}

TEST(Inputs, NamesMayHoldEqualSigns) {
  const std::vector<runtime::TensorSpec> specs = {{"a", DType::kF32, {}}, {"a=b", DType::kF32, {}}};
  EXPECT_EQ(split_named("a=x.npy", specs, "input")->first, 0u);
  EXPECT_EQ(split_named("a=x.npy", specs, "input")->second, "x.npy");
  EXPECT_THAT(split_named("q=x.npy", specs, "input").status().message(),
              HasSubstr("the model has no such input; it has: a, a=b"));
  EXPECT_THAT(split_named("q", specs, "input").status().message(), HasSubstr("not of the form NAME=VALUE"));
  EXPECT_THAT(*parse_shape("1x3x224"), ElementsAre(1, 3, 224));
  EXPECT_TRUE(parse_shape("")->empty());
  for (const char* text : {"1x", "x1", "1xx2", "-1", "1,2", "99999999999999999999"})
    EXPECT_FALSE(parse_shape(text).ok()) << text;
}

}  // namespace
}  // namespace aipu::tools
