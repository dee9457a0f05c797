#include "runtime/executor/string_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace aipu::runtime {
namespace {

// A model of nothing but strings.
struct File {
  explicit File(const std::vector<std::string>& strings) {
    const auto pool = strings.empty()
                          ? flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>>()
                          : builder.CreateVectorOfStrings(strings);
    fb::ModelBuilder model(builder);
    if (!strings.empty()) model.add_string_pool(pool);
    builder.Finish(model.Finish());
  }
  const fb::Model& root() const { return *flatbuffers::GetRoot<fb::Model>(builder.GetBufferPointer()); }
  flatbuffers::FlatBufferBuilder builder;
};

int64_t number(StringPool& pool, std::string_view text) {
  const auto found = pool.intern(text);
  EXPECT_TRUE(found.ok());
  return found.ok() ? *found : -1;
}

TEST(StringPool, StringsOfTheFileComeFirst) {
  const File file({"", "b", std::string("a\0c", 3)});
  StringPool pool(file.root());
  EXPECT_EQ(number(pool, ""), 0);
  EXPECT_EQ(number(pool, "b"), 1);
  EXPECT_EQ(number(pool, std::string_view("a\0c", 3)), 2);
  EXPECT_EQ(number(pool, "a"), 3);
  EXPECT_EQ(number(pool, "a"), 3);
  EXPECT_EQ(pool.text(3), "a");
  EXPECT_EQ(pool.text(4), std::nullopt);
  EXPECT_EQ(pool.text(-1), std::nullopt);
  pool.reset();
  EXPECT_EQ(pool.text(3), std::nullopt);
  EXPECT_EQ(number(pool, "z"), 3);
  EXPECT_EQ(pool.text(1), "b");
}

TEST(StringPool, WithoutAFileThereIsTheEmptyOne) {
  const File file({});
  StringPool pool(file.root());
  EXPECT_EQ(number(pool, ""), 0);
  EXPECT_EQ(number(pool, "a"), 1);
}

// Thousands of strings, many of them again and again, over runs of different sizes.
TEST(StringPool, NumbersAreEqualWhereStringsAre) {
  const File file({"", "7", "99"});
  StringPool pool(file.root());
  std::mt19937 random(3);
  for (int run = 0; run < 30; ++run) {
    std::map<std::string, int64_t> known = {{"", 0}, {"7", 1}, {"99", 2}};
    const int count = 1 << random() % 13;
    for (int k = 0; k < count; ++k) {
      const std::string text =
          std::to_string(random() % 4000) + std::string(random() % 3 == 0 ? random() % 600 : 0, 'x');
      const int64_t before = pool.bytes(), most = pool.growth(text.size());
      const int64_t found = number(pool, text);
      ASSERT_LE(pool.bytes() - before, most);
      const auto [entry, is_new] = known.emplace(text, found);
      ASSERT_EQ(entry->second, found) << text;
      ASSERT_TRUE(!is_new || found + 1 == static_cast<int64_t>(known.size())) << text;
      ASSERT_EQ(pool.text(found), text);
    }
    pool.reset();
  }
}

TEST(StringPool, RunsThatAreAlikeTakeNoMoreMemory) {
  const File file({});
  StringPool pool(file.root());
  int64_t after_first = 0;
  for (int run = 0; run < 20; ++run) {
    pool.reset();
    for (int k = 0; k < 3000; ++k) number(pool, std::to_string(run) + " and " + std::to_string(k % 2500));
    if (run == 1) after_first = pool.bytes();
  }
  EXPECT_EQ(pool.bytes(), after_first);
}

}  // namespace
}  // namespace aipu::runtime
