// What is compiled for a Compass NPU is the text that users read.
#include "codegen/compass_c/cxx_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/lower/lower.h"
#include "tests/codegen/c_text_support.h"

namespace aipu::tir::testing {
namespace {

using ::testing::HasSubstr;

// Lists in casts of vectors, and nothing else.
TEST(CxxText, ChangesVectorLiterals) {
  EXPECT_EQ(cxx_of_compass_c("int8 x = (int8)(1,2,(int)(a + b),max(c, d),5,6,7,8);\n"),
            "int8 x = int8(1,2,(int)(a + b),max(c, d),5,6,7,8);\n");
  EXPECT_EQ(cxx_of_compass_c("m = (bool16)((bool8)(true,false),t);"), "m = bool16(bool8(true,false),t);");
  for (const char* same : {"x = (float8)(a * max(b, c));", "y = (float8)((__global float*)p)[i];", "f(a)(b, c);",
                           "printf(\"(int8)(1,2) \\\" (int8)(1,2)\");", "z = (int)(a, b);", "(int8)(1"})
    EXPECT_EQ(cxx_of_compass_c(same), same);
}

TEST(CxxText, GivesArraysOnTheChipTheirPlaces) {
  EXPECT_EQ(cxx_of_compass_c("  __lsram half16 t[1024];\n  __lsram half16* p = t;\n  __local char q[7];\n  int r[6];\n",
                             {64, 0}),
            "  __lsram half16* t = __lsram_array<half16>(64);\n  __lsram half16* p = t;\n"
            "  __local char* q = __shared_array<char>(0);\n  int r[6];\n");
}

// All but those two forms is compiled as it is shown.
TEST(CompassKernel, IsTheTextThatIsShown) {
  const Target target = *find_target("X2_1204");
  for (const char* statements :
       {"a[n // 4] = n % m\nx[0] = k / 3.0\nb[0] = S.i32(k) << n", "v = va[0] + va[1]\nva[n] = S.clip(v, 0, 9)",
        "for i in range(n):\n    a[i] = b[i] if i < m else 0", "v = a[0:20]\nb[0:20] = v * 3",
        "if n > 3:\n    return\nS.barrier()\nS.printf('%d', n)"}) {
    const auto parsed = dsl::parse_kernel({"kernel.py", "from aipu import script as S\n" + kernel(statements), 0}, "f",
                                          dsl::TemplateParams());
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    const auto lowered = lower(*parsed, target);
    ASSERT_TRUE(lowered.ok()) << lowered.status().message();
    const auto source = kernel_source("f", *parsed, *lowered, target);
    ASSERT_TRUE(source.ok()) << source.status().message();
    const auto compiled = print_kernel(*source, target);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_THAT(compiled->c, HasSubstr(cxx_of_compass_c(*compass_c_text(*parsed, target))));
  }
}

// Vectors that are no registers stay as they are where their aligning is switched off; such a kernel is compiled from
// its lowered form. Where the aligning finds no form, that is what is shown, too.
TEST(CompassKernel, HasATypeForEveryVector) {
  const Target target = *find_target("X2_1204");
  const auto parsed =
      dsl::parse_kernel({"kernel.py", "from aipu import script as S\n" + kernel("v = a[0:20]\nb[0:20] = v"), 0}, "f",
                        dsl::TemplateParams());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const std::vector<std::string> disabled = {"AlignVectorWidthBySplit", "AlignVectorWidthByPad"};
  const auto source = kernel_source("f", *parsed, *lower(*parsed, target), target, disabled);
  ASSERT_TRUE(source.ok() && has_vector_without_type(*source->shown));
  const auto compiled = print_kernel(*source, target);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_THAT(compiled->c, ::testing::Not(HasSubstr("int20")));
  EXPECT_FALSE(has_vector_without_type(*compass_c_module(*parsed, target)));
}

}  // namespace
}  // namespace aipu::tir::testing
