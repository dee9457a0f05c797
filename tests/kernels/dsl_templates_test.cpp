// The template cache, the built-in templates' syntax, and the README's example.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "kernels/dsl/parser.h"
#include "kernels/plugin.h"
#include "runtime/base/embedded_file.h"
#include "runtime/base/file.h"
#include "test_paths.h"
#include "tests/kernels/dsl_support.h"

namespace aipu::kernels {
std::span<const EmbeddedFile> embedded_templates();

namespace {

const char* const kUser = R"(from aipu import script as S
from shared_parts import twice
@S.prim_func
def doubled(x: S.ptr(T, "global"), y: S.ptr(T, "global"), n: S.i32):
    for i in range(n):
        y[i] = twice(x[i])
)";

class TemplateLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    library_.add_source("user.py", kUser);
    library_.add_source("shared_parts.py", "def twice(v):\n    return v * FACTOR\n");
  }
  static dsl::TemplateParams params(int64_t factor) {
    dsl::TemplateParams p;
    p.set("T", DType::kF32).set("FACTOR", factor);
    return p;
  }
  TemplateLibrary library_;
};

TEST_F(TemplateLibraryTest, OneInstancePerParameters) {
  const auto a = library_.instantiate("user.py", "doubled", params(2), "k");
  ASSERT_TRUE(a.ok()) << a.status().message();
  const auto b = library_.instantiate("user.py", "doubled", params(2), "k");
  const auto c = library_.instantiate("user.py", "doubled", params(3), "k");
  const auto d = library_.instantiate("user.py", "doubled", params(2), "other");
  EXPECT_EQ(*a, *b);
  EXPECT_NE(*a, *c);
  EXPECT_NE(*a, *d);
  EXPECT_EQ((*d)->entry().name, "other");
  EXPECT_THAT(tir::print_module(**c), testing::HasSubstr("(v#4 * 3.0)"));
  EXPECT_FALSE((*a)->entry().params[0]->restrict_);  // only built-in templates promise that
}

TEST_F(TemplateLibraryTest, PartsOfAParameterKnowHowTheSourceWritesThem) {
  library_.add_source("pack.py", R"(from aipu import script as S
@S.prim_func
def sum_of(y: S.ptr(S.fp32, "global"), extras: types, n: S.i32):
    y[0] = S.fp32(len(extras) + n)
)");
  dsl::CapturedList types = {{dsl::CapturedType{tir::Type::scalar(DType::kF32)}},
                             {dsl::CapturedType{tir::Type::scalar(DType::kI32)}}};
  dsl::TemplateParams pack;
  pack.set("types", dsl::Captured{std::move(types)});
  for (const bool wide : {false, true}) {
    const auto module = library_.instantiate("pack.py", "sum_of", pack, "k", wide);
    ASSERT_TRUE(module.ok()) << module.status().message();
    std::vector<std::string> names, sources;
    for (const tir::VarPtr& parameter : (*module)->entry().params) {
      names.push_back(parameter->name);
      sources.push_back(parameter->source_name());
    }
    EXPECT_THAT(names, testing::ElementsAre("y", "extras_0", "extras_1", "n"));
    EXPECT_THAT(sources, testing::ElementsAre("y", "extras[0]", "extras[1]", "n"));
  }
}

TEST_F(TemplateLibraryTest, ThreadsGetTheSameInstance) {
  std::set<const tir::Module*> seen;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t round = 0; round < 40; ++round) {
        const auto module = library_.instantiate("user.py", "doubled", params(round % 5), "k");
        const std::lock_guard lock(mutex);
        seen.insert(module.ok() ? module->get() : nullptr);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_FALSE(seen.contains(nullptr));
}

TEST_F(TemplateLibraryTest, ErrorsNameWhatIsMissing) {
  EXPECT_THAT(library_.instantiate("nowhere.py", "f", {}, "k").status().message(), testing::HasSubstr("nowhere.py"));
  EXPECT_THAT(library_.instantiate("user.py", "tripled", params(2), "k").status().message(),
              testing::HasSubstr("user.py defines no function \"tripled\""));
  EXPECT_THAT(library_.instantiate("user.py", "doubled", {}, "k").status().message(),
              testing::StartsWith("Undefined variable: T"));
}

TEST_F(TemplateLibraryTest, ParametersThatNobodyReadAreErrors) {
  dsl::TemplateParams typo = params(2);
  typo.set("FACTRO", 3);
  EXPECT_EQ(library_.instantiate("user.py", "doubled", typo, "k").status().message(),
            "user.py has no template parameter \"FACTRO\": neither it nor what it imports mentions the name");
  dsl::TemplateParams source = params(2);
  source.set_source("epilogue", "def epilogue(v):\n    return v\n");
  EXPECT_THAT(library_.instantiate("user.py", "doubled", source, "k").status().message(),
              testing::StartsWith("user.py has no template parameter \"epilogue\""));
  // A comment is no reading, a branch that is not taken is.
  library_.add_source("branch.py", R"(from aipu import script as S
@S.prim_func
def branch(y: S.ptr(S.fp32, "global")):  # ONLY_HERE
    if KIND == 1:
        y[0] = S.cast(VALUE, f"{ELEMENT}")
    else:
        y[0] = 0
)");
  dsl::TemplateParams branch;
  branch.set("KIND", 2).set("VALUE", 3).set("ELEMENT", DType::kF32).set("__no_restrict__", true);
  EXPECT_TRUE(library_.instantiate("branch.py", "branch", branch, "k").ok());
  branch.set("ONLY_HERE", 1);
  EXPECT_FALSE(library_.instantiate("branch.py", "branch", branch, "k").ok());
}

TEST(BuiltinTemplates, ParseAndAreRestrict) {
  for (const EmbeddedFile& file : embedded_templates()) {
    dsl::Diagnostics diagnostics;
    try {
      dsl::parse_source(dsl::make_source_file(std::string(file.name), std::string(file.text), 1), diagnostics);
    } catch (const dsl::Diagnosed&) {
      ADD_FAILURE() << diagnostics.status().message();
    }
  }
  dsl::TemplateParams params;
  params.set("X", "float32").set("ACC", "float32").set("FLOATING", true);
  params.set("LARGEST", true).set("LAST", false).set("LABELED", false).set("LANES", 0);
  TemplateLibrary library;
  const auto module = library.instantiate("select.py", "arg_extremum", params, "k");
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_TRUE((*module)->entry().params[0]->restrict_);
  EXPECT_TRUE(tir::verify(**module).ok());
  params.set("__no_restrict__", true);
  const auto in_place = library.instantiate("select.py", "arg_extremum", params, "k");
  ASSERT_TRUE(in_place.ok());
  EXPECT_FALSE((*in_place)->entry().params[0]->restrict_);
}

TEST(KernelsReadme, ExampleCompiles) {
  const auto text = read_text_file(std::string(AIPU_SOURCE_DIR) + "/kernels/README.md");
  ASSERT_TRUE(text.ok());
  const size_t begin = text->find("```python\n") + 10;
  const auto module = dsl::parse_kernel({"README.md", text->substr(begin, text->find("```", begin) - begin)}, "scale",
                                        dsl::TemplateParams().set("VL", int64_t{16}));
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_TRUE(tir::verify(*module).ok());
  EXPECT_THAT(tir::print_module(*module), testing::HasSubstr("float32x16"));
}

}  // namespace
}  // namespace aipu::kernels
