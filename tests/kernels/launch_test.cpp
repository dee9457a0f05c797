// Arguments by name: what is bound, and what is refused.
#include "kernels/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/plugin.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using testing::HasSubstr;

const char* const kScaled = R"(from aipu import script as S
@S.prim_func
def scaled(x: S.ptr("fp32", "global"), extras: extra_types, out: S.ptr("fp32", "global"), n: S.i64, factor: S.fp32):
    for i in range(n):
        out[i] = x[i] * factor
)";

class KernelArgumentsTest : public testing::Test {
 protected:
  void SetUp() override {
    library_.add_source("scaled.py", kScaled);
    dsl::CapturedList types = {{dsl::CapturedType{tir::Type::pointer_to(DType::kF32, 1, tir::Scope::kGlobal)}},
                               {dsl::CapturedType{tir::Type::scalar(DType::kI32)}}};
    dsl::TemplateParams params;
    params.set("extra_types", dsl::Captured{std::move(types)});
    auto module = library_.instantiate("scaled.py", "scaled", params, "scaled");
    ASSERT_TRUE(module.ok()) << module.status().message();
    module_ = *std::move(module);
  }

  static TensorRef tensor(int index) { return {TensorRef::Kind::kConstant, {}, index}; }
  // All but `missing`.
  static KernelArguments all_but(std::string_view missing = {}) {
    KernelArguments arguments;
    if (missing != "factor") arguments.real("factor", 2.5);
    if (missing != "n") arguments.scalar("n", Dim::symbol("N"));
    if (missing != "extras[1]") arguments.scalar("extras[1]", 7);
    if (missing != "out") arguments.pointer("out", tensor(2), 64);
    if (missing != "x") arguments.pointer("x", tensor(0));
    if (missing != "extras[0]") arguments.pointer("extras[0]", tensor(1));
    return arguments;
  }
  std::string error_of(const KernelArguments& arguments) const {
    const auto resolved = arguments.resolve(module_->entry());
    return resolved.ok() ? "" : resolved.status().message();
  }

  TemplateLibrary library_;
  std::shared_ptr<const tir::Module> module_;
};

TEST_F(KernelArgumentsTest, AreInTheOrderOfTheParameters) {
  const auto resolved = all_but().resolve(module_->entry());
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  ASSERT_EQ(resolved->size(), 6U);
  EXPECT_EQ(std::get<PointerArgument>((*resolved)[0]).tensor.index, 0);
  EXPECT_EQ(std::get<PointerArgument>((*resolved)[1]).tensor.index, 1);
  EXPECT_EQ(std::get<ScalarArgument>((*resolved)[2]).value, Dim(7));
  EXPECT_EQ(std::get<PointerArgument>((*resolved)[3]).tensor.index, 2);
  EXPECT_EQ(std::get<PointerArgument>((*resolved)[3]).byte_offset, Dim(64));
  EXPECT_EQ(std::get<ScalarArgument>((*resolved)[4]).value, Dim::symbol("N"));
  EXPECT_EQ(std::get<FloatArgument>((*resolved)[5]).value, 2.5);
}

TEST_F(KernelArgumentsTest, ListsAreTheirElements) {
  KernelArguments arguments;
  arguments.list("extras", {PointerArgument{tensor(1)}, ScalarArgument{7}});
  arguments.pointer("x", tensor(0)).pointer("out", tensor(2)).scalars({{"n", 3}}).real("factor", 1);
  EXPECT_EQ(error_of(arguments), "");
  KernelArguments longer = all_but("extras[1]");
  longer.scalars({{"extras[1]", 1}, {"extras[2]", 2}});
  EXPECT_EQ(error_of(longer), "kernel \"scaled\" (scaled.py:3): there is no parameter \"extras[2]\"");
}

TEST_F(KernelArgumentsTest, FieldsOfRecordsAreNamedWithADot) {
  auto field = std::make_shared<tir::Var>(tir::Var{"window_stride", tir::Type::scalar(DType::kI32)});
  field->path = "window.stride";
  tir::PrimFunc entry;
  entry.name = "strided";
  entry.params = {field};
  KernelArguments arguments;
  arguments.record("window", {{"stride", 2}});
  const auto resolved = arguments.resolve(entry);
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  EXPECT_EQ(std::get<ScalarArgument>(resolved->front()).value, Dim(2));
}

TEST_F(KernelArgumentsTest, EachParameterGetsOne) {
  for (const char* missing : {"x", "extras[0]", "extras[1]", "out", "n", "factor"}) {
    EXPECT_EQ(error_of(all_but(missing)),
              str_cat("kernel \"scaled\" (scaled.py:3): parameter \"", missing, "\" is given nothing"));
  }
  EXPECT_EQ(error_of(all_but().scalar("n", 4)), "kernel \"scaled\" (scaled.py:3): parameter \"n\" is given twice");
  EXPECT_EQ(error_of(all_but().scalar("m", 4)), "kernel \"scaled\" (scaled.py:3): there is no parameter \"m\"");
}

TEST_F(KernelArgumentsTest, OfItsKind) {
  EXPECT_THAT(error_of(all_but("x").scalar("x", 0)), HasSubstr("parameter \"x\" is "));
  EXPECT_THAT(error_of(all_but("x").scalar("x", 0)), HasSubstr("it is given an integer"));
  EXPECT_THAT(error_of(all_but("x").real("x", 0)), HasSubstr("it is given a floating-point number"));
  EXPECT_THAT(error_of(all_but("n").pointer("n", tensor(0))),
              HasSubstr("parameter \"n\" is int64, it is given a tensor"));
  EXPECT_THAT(error_of(all_but("n").real("n", 3)), HasSubstr("is int64, it is given a floating-point number"));
  EXPECT_THAT(error_of(all_but("factor").scalar("factor", 3)), HasSubstr("is float32, it is given an integer"));
}

}  // namespace
}  // namespace aipu::kernels
