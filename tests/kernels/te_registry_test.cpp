// Functions by name: what C++ registers, finds and calls.
#include <gtest/gtest.h>

#include "kernels/te/registry.h"

namespace aipu::te {
namespace {

PackedFunctionPtr sum() {
  return std::make_shared<const PackedFunction>(
      PackedFunction{[](const std::vector<PackedValue>& args) -> Result<PackedValue> {
        int64_t total = 0;
        for (const PackedValue& arg : args) {
          const auto* number = std::get_if<int64_t>(&arg);
          if (number == nullptr) return invalid_argument("sum: integers only");
          total += *number;
        }
        return PackedValue(total);
      }});
}

TEST(TeRegistry, FunctionsHaveOneName) {
  FunctionRegistry registry;
  ASSERT_TRUE(registry.add("sum", sum()).ok());
  const Status again = registry.add("sum", sum());
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.message().find("'sum' is registered already"), std::string::npos) << again.message();
  EXPECT_TRUE(registry.add("sum", sum(), true).ok());
  EXPECT_TRUE(registry.add("other", sum()).ok());
  EXPECT_EQ(registry.names(), (std::vector<std::string>{"other", "sum"}));
  EXPECT_TRUE(registry.remove("other"));
  EXPECT_FALSE(registry.remove("other"));
  EXPECT_EQ(registry.find("other"), nullptr);
}

TEST(TeRegistry, CallsHandOnValuesAndErrors) {
  FunctionRegistry registry;
  ASSERT_TRUE(registry.add("sum", sum()).ok());
  const auto total = registry.call("sum", {int64_t{2}, int64_t{40}});
  ASSERT_TRUE(total.ok()) << total.status().message();
  EXPECT_EQ(std::get<int64_t>(*total), 42);
  EXPECT_EQ(registry.call("sum", {2.5}).status().message(), "sum: integers only");
  EXPECT_NE(registry.call("none", {}).status().message().find("no registered function 'none'"), std::string::npos);
}

}  // namespace
}  // namespace aipu::te
