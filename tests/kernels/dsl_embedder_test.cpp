// What embedders of the front end (the Python package) build on: functions of source texts, and the rules of targets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Answers with what it was given.
class MapEnvironment : public dsl::Environment {
 public:
  std::optional<dsl::Captured> lookup(std::string_view name) override {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  }
  std::map<std::string, dsl::Captured, std::less<>> values;
};

class DslEmbedder : public testing::Test {
 protected:
  // Makes a function of `text` known to the kernels under `as`.
  Status add(std::string_view as, const std::string& text, std::string_view name, int line = 0) {
    auto function = dsl::parse_function({"user.py", text, 10}, name, environment_, line);
    if (!function.ok()) return std::move(function).status();
    environment_->values[std::string(as)] = std::move(function).value();
    return {};
  }
  std::string kernel(const std::string& body) {
    const auto module = dsl::parse_kernel(
        {"kernel.py", "@S.prim_func\ndef f(o: S.ptr(\"i32\", \"global\"), n: S.i32):\n    " + body + "\n", 1}, "f",
        environment_);
    return module.ok() ? tir::print_module(*module) : module.status().message();
  }
  std::shared_ptr<MapEnvironment> environment_ = std::make_shared<MapEnvironment>();
};

TEST_F(DslEmbedder, FunctionsOfOtherTextsAreInlined) {
  environment_->values["offset"] = dsl::Captured{int64_t{4}};
  ASSERT_TRUE(add("shift", "def shift(v):\n    return v + offset\n", "shift").ok());
  EXPECT_THAT(kernel("o[0] = shift(n)"), HasSubstr("[0] = (n#1 + 4)"));
}

TEST_F(DslEmbedder, LambdasAreFoundInWhateverIsAroundThem) {
  // As inspect.getsource() hands them out: an assignment, an entry of a dictionary, an argument of an unfinished call.
  ASSERT_TRUE(add("f1", "f1 = lambda v: v + 1\n", "<lambda>").ok());
  ASSERT_TRUE(add("f2", "    \"two\": lambda v, k=2: (v +\n      k),  # lambda\n", "<lambda>").ok());
  ASSERT_TRUE(add("f3", "build(name=\"lambda x: x\", call=lambda v: [v, 3][1] + v, other=(1,\n", "<lambda>").ok());
  ASSERT_TRUE(add("f4", "a = lambda v: v\nb = lambda v: v * 4\n", "<lambda>", 11).ok());
  EXPECT_THAT(kernel("o[0] = f1(n)"), HasSubstr("[0] = (n#1 + 1)"));
  EXPECT_THAT(kernel("o[0] = f2(n)"), HasSubstr("[0] = (n#1 + 2)"));
  EXPECT_THAT(kernel("o[0] = f3(n)"), HasSubstr("[0] = (3 + n#1)"));
  EXPECT_THAT(kernel("o[0] = f4(n)"), HasSubstr("[0] = (n#1 * 4)"));
}

TEST_F(DslEmbedder, ErrorsInThemPointIntoTheirFile) {
  ASSERT_TRUE(add("f1", "x = 1\nf1 = lambda v: v + missing\n", "<lambda>").ok());
  EXPECT_THAT(kernel("o[0] = f1(n)"), HasSubstr("error: Undefined variable: missing\n --> user.py:11:20\n"));
  EXPECT_THAT(add("f2", "a, b = lambda v: v, lambda v: v\n", "<lambda>").message(),
              StartsWith("user.py:10: several lambdas"));
  EXPECT_THAT(add("f2", "def g(v):\n    return v\n", "h").message(), StartsWith("user.py defines no function \"h\""));
  EXPECT_THAT(add("f2", "def g(v:\n    return v\n", "g").message(), HasSubstr("user.py:10:6"));
  EXPECT_THAT(add("f2", "a = 1\n", "<lambda>").message(), StartsWith("user.py has no lambda"));
}

TEST_F(DslEmbedder, RefusesWhatTheTargetLacks) {
  const std::string preparation = "h = S.alloc_buffer((16,), \"fp32\")\n    ";
  const struct {
    std::string target, call, phrase;
  } rows[] = {
      {"X3P_1304", "S.vmma(h, S.fp16x16(1), S.fp16x16(1))", "The \"vmma\" does not support the target \"X3P_1304\"."},
      {"X3S_1304", "S.vmml(h, S.bf16x16(1), S.bf16x16(1))", "The \"vmml\" does not support the target \"X3S_1304\"."},
      {"X3P_1304", "c = S.vqdpa(S.fp32x8(0), S.fp16x16(1), S.fp16x16(1))",
       "The \"vqdpa\" does not support the target \"X3P_1304\"."},
      {"X2_1204", "c = S.vrpmax(S.i32x8(n), return_idx=True)",
       "The arg \"return_idx\" does not support the target \"X2_1204\"."},
      {"X2_1204", "c = S.vrpmin(S.i32x8(n), return_idx=True)",
       "The arg \"return_idx\" does not support the target \"X2_1204\"."},
  };
  for (const auto& row : rows) {
    environment_->values["__compass_target__"] = dsl::Captured{row.target};
    EXPECT_THAT(kernel(preparation + row.call),
                StartsWith(row.phrase + "\nerror: " + row.phrase + "\n --> kernel.py:4:"))
        << row.call;
    environment_->values["__compass_target__"] =
        dsl::Captured{std::string(row.target[1] == '2' ? "X3P_1304" : "X2_1204")};
    EXPECT_THAT(kernel(preparation + row.call), StartsWith("func f")) << row.call;
    environment_->values.clear();
    EXPECT_THAT(kernel(preparation + row.call), StartsWith("func f")) << row.call;
  }
  environment_->values["__compass_target__"] = dsl::Captured{std::string("X3P_1304")};
  EXPECT_THAT(kernel("c = S.vqdpa(S.i32x8(0), S.i8x32(1), S.i8x32(1))"), StartsWith("func f"));
}

}  // namespace
}  // namespace aipu
