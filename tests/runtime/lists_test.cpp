// What a file says beside its tensors: lists of them, maps, a description. From C and C++, and in files that lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/aipu.hpp"
#include "runtime/model.h"
#include "tests/runtime/model_builder.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// (m[0] K, m[1] float32[N,2]) -> the same as y[0], y[1], as ZipMap gives them.
ModelBuilder zipping_model(DType key) {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), two = b.constant(2), eight = b.constant(8);
  const uint32_t n = b.symbol("N", 1, 0);
  const uint32_t keys = b.tensor("m[0]", key, {two}, fb::TensorKind::kInput);
  const uint32_t values = b.tensor("m[1]", DType::kF32, {n, two}, fb::TensorKind::kInput);
  const uint32_t out_keys = b.tensor("y[0]", key, {two}, fb::TensorKind::kOutput);
  const uint32_t out_values = b.tensor("y[1]", DType::kF32, {n, two}, fb::TensorKind::kOutput);
  const uint32_t key_bytes = b.mul(two, eight), value_bytes = b.mul(n, eight);
  b.copy(out_keys, zero, keys, zero, key_bytes, one, key_bytes, key_bytes);
  b.copy(out_values, zero, values, zero, value_bytes, one, value_bytes, value_bytes);
  b.lists = {{"m", true, fb::TensorListKind::kMaps, false, 0, 2}, {"y", false, fb::TensorListKind::kMaps, false, 0, 2}};
  b.description = "about it";
  b.properties = {{"author", "somebody"}, {"classes", "a,b"}};
  return b;
}

aipu::Model loaded(const ModelBuilder& builder) {
  const auto file = builder.build();
  return aipu::Model::from_bytes(file.data(), file.size());
}

TEST(Lists, FromC) {
  const aipu::Model model = loaded(zipping_model(DType::kI64));
  ASSERT_EQ(aipu_model_list_count(model.get()), 2u);
  aipu_list_info list = {};
  ASSERT_EQ(aipu_model_list(model.get(), 1, &list), AIPU_OK);
  EXPECT_STREQ(list.name, "y");
  EXPECT_EQ(list.is_input, 0);
  EXPECT_EQ(list.kind, AIPU_MAPS);
  EXPECT_EQ(list.is_absent, 0);
  EXPECT_EQ(list.first, 0u);
  EXPECT_EQ(list.count, 2u);
  EXPECT_EQ(aipu_model_list(model.get(), 2, &list), AIPU_NOT_FOUND);
  EXPECT_EQ(aipu_model_list(model.get(), 0, nullptr), AIPU_INVALID_ARGUMENT);
  EXPECT_EQ(aipu_model_list_count(nullptr), 0u);
  EXPECT_STREQ(aipu_model_description(model.get()), "about it");
  ASSERT_EQ(aipu_model_metadata_count(model.get()), 2u);
  const char *key = nullptr, *value = nullptr;
  ASSERT_EQ(aipu_model_metadata(model.get(), 0, &key, &value), AIPU_OK);
  EXPECT_STREQ(key, "author");
  EXPECT_STREQ(value, "somebody");
  EXPECT_EQ(aipu_model_metadata(model.get(), 2, &key, &value), AIPU_NOT_FOUND);
}

TEST(Lists, FromCxx) {
  const aipu::Model model = loaded(zipping_model(DType::kI64));
  EXPECT_EQ(model.lists().size(), 2u);
  EXPECT_EQ(model.description(), "about it");
  EXPECT_THAT(model.metadata(), ElementsAre(Pair("author", "somebody"), Pair("classes", "a,b")));
}

TEST(Maps, OfNumbersFromCxx) {
  aipu::Session session(loaded(zipping_model(DType::kI64)));
  const int64_t keys[] = {7, -2};
  const float values[] = {1, 2, 3, 4};
  session.bind_input("m[0]", keys, {2});
  session.bind_input("m[1]", values, {2, 2});
  session.run();
  EXPECT_THAT(session.maps<int64_t>("y"),
              ElementsAre(ElementsAre(Pair(-2, 2.0F), Pair(7, 1.0F)), ElementsAre(Pair(-2, 4.0F), Pair(7, 3.0F))));
  EXPECT_THROW(session.maps<std::string>("y"), aipu::Error);
  EXPECT_THROW(session.maps<int64_t>("m"), aipu::Error);
}

TEST(Maps, OfStringsFromCxx) {
  aipu::Session session(loaded(zipping_model(DType::kString)));
  const std::string names[] = {"yes", "no"};
  const aipu_string keys[] = {aipu::element_of(names[0]), aipu::element_of(names[1])};
  const float values[] = {0.25F, 0.75F};
  session.bind_input("m[0]", keys, {2});
  session.bind_input("m[1]", values, {1, 2});
  session.run();
  EXPECT_THAT(session.maps<std::string>("y"), ElementsAre(ElementsAre(Pair("no", 0.75F), Pair("yes", 0.25F))));
}

TEST(Lists, FilesThatLieAreRefused) {
  for (const auto edit : {+[](test::ListRow& row) { row.count = 3; }, +[](test::ListRow& row) { row.first = 1; },
                          +[](test::ListRow& row) { row.first = 0xffffffff; },
                          +[](test::ListRow& row) { row.count = 1; }, +[](test::ListRow& row) { row.absent = true; },
                          +[](test::ListRow& row) { row.kind = static_cast<fb::TensorListKind>(5); }}) {
    ModelBuilder b = zipping_model(DType::kI64);
    edit(b.lists[1]);
    EXPECT_THAT(Model::from_bytes(b.build(), {}).status().message(),
                HasSubstr("the list 'y' has elements that are not there"));
  }
}

}  // namespace
}  // namespace aipu::runtime
