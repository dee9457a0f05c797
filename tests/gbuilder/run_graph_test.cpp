// run_graph(): small graphs as text, after all passes, with inputs of every element the same: extents of 0, extents
// that only the inputs tell.
#include "gbuilder/evaluator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "gbuilder/native_module.h"

namespace aipu::gbuilder {
namespace {

using graph::Constant;
using graph::ConstantPtr;

// Too few file descriptors, a full disk, no executable memory: the dynamic linker says which.
TEST(NativeModule, WhatTheSystemRefusesIsNoBugOfOurs) {
  const std::string_view nonsense = "this is no shared object";
  const auto bytes = std::as_bytes(std::span(nonsense));
  const Status broken = NativeModule::load(bytes).status();
  EXPECT_EQ(broken.code(), ErrorCode::kIo) << broken.message();
  const int next = ::dup(0);
  ::close(next);
  rlimit usual = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit one_more = {static_cast<rlim_t>(next) + 1, usual.rlim_max};  // the file in memory, not the linker's
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  const Status few = NativeModule::load(bytes).status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(few.code(), ErrorCode::kIo);
  EXPECT_NE(few.message().find("Too many open files"), std::string::npos) << few.message();
}

class RunGraph : public testing::Test {
 protected:
  Result<std::vector<ConstantPtr>> run(const std::string& text, const std::vector<std::vector<int64_t>>& shapes) {
    AIPU_ASSIGN_OR_RETURN(const auto graph, graph::parse_graph(text, {}));
    kernels::PluginRegistry registry = kernels::PluginRegistry::with_builtins();
    AIPU_ASSIGN_OR_RETURN(const tir::Target target, tir::find_target("host-baseline"));
    graph::PassContext context;
    AIPU_RETURN_IF_ERROR(graph::run_passes(*graph, graph::graph_pipeline(), context, {}));
    std::vector<ConstantPtr> inputs;
    for (const auto& shape : shapes) {
      int64_t count = 1;
      for (const int64_t extent : shape) count *= extent;
      inputs.push_back(Constant::of<float>(DType::kF32, shape, std::vector<float>(static_cast<size_t>(count), 1)));
    }
    return run_graph(*graph, inputs, registry.claimers(), registry.templates(), target);
  }
  std::string error(const std::string& text, const std::vector<std::vector<int64_t>>& shapes) {
    const auto outputs = run(text, shapes);
    return outputs.ok() ? "" : outputs.status().message();
  }
};

TEST_F(RunGraph, ComputesWhatTheGraphSays) {
  const auto outputs = run(R"(graph "g" {
  input %x: float32[N,2]
  const %w = float32[2,3] {1, 2, 3, 4, 5, 6}
  %y = MatMul(%x, %w)
  output "y" = %y
  output "x" = %x
})",
                           {{2, 2}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ((*outputs)[0]->shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*outputs)[0]->to_doubles(), (std::vector<double>{5, 7, 9, 5, 7, 9}));
  EXPECT_EQ((*outputs)[1]->to_doubles(), (std::vector<double>{1, 1, 1, 1}));
}

TEST_F(RunGraph, ExtentsThatDataDecide) {
  const auto outputs = run(R"(graph "g" {
  input %x: float32[N]
  %count = "aipu::CountNonZero"(%x)
  %y = NonZero(%x, %count)
  output "y" = %y
})",
                           {{3}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ((*outputs)[0]->to_int64s(), (std::vector<int64_t>{0, 1, 2}));
}

// No images: kernels with loops over blocks of rows, and parts of rows, of which there are none.
TEST_F(RunGraph, AnEmptyBatch) {
  const std::string text = R"(graph "g" {
  input %x: float32[N,4,5,5]
  const %w = float32[3,4,3,3] splat 1
  const %d = float32[4,1,3,3] splat 1
  const %s = float32[2,4,5,4] splat 1
  const %k = int64[2] {1, 3}
  const %one = int64[1] {1}
  const %two = int64[1] {2}
  %c = Conv(%x, %w)
  %e = Conv(%x, %d) {group=4}
  %f = Conv(%x, %s)
  %a, %b = Split(%x, %k) {axis=1}
  %g = Concat(%b, %a) {axis=1}
  %h = Slice(%a, %one, %two, %one, %one)
  %i = Slice(%x, %one, %two, %two, %one)
  output "c" = %c
  output "e" = %e
  output "f" = %f
  output "g" = %g
  output "h" = %h
  output "i" = %i
  output "b" = %b
})";
  for (const int64_t batch : {0, 1}) {
    const auto outputs = run(text, {{batch, 4, 5, 5}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    EXPECT_EQ((*outputs)[0]->element_count(), batch * 27);
    EXPECT_EQ((*outputs)[3]->element_count(), batch * 100);
  }
}

// A symbol that faces a number, or another symbol, has to agree with it.
TEST_F(RunGraph, OperandsThatDoNotBroadcast) {
  const std::string text = R"(graph "g" {
  input %x: float32[N,2]
  const %c = float32[3,2] splat 1
  %y = Add(%x, %c) from "sum" ("Add")
  output "y" = %y
})";
  EXPECT_EQ(error(text, {{3, 2}}), "");
  EXPECT_EQ(error(text, {{1, 2}}), "");
  EXPECT_EQ(error(text, {{2, 2}}), "'sum' (Add): an axis of 2 elements cannot be broadcast to 3");
  const std::string two = R"(graph "g" {
  input %x: float32[N,4]
  input %y: float32[M,4]
  %z = Mul(%x, %y) from "product" ("Mul")
  output "z" = %z
})";
  EXPECT_EQ(error(two, {{2, 4}, {2, 4}}), "");
  EXPECT_EQ(error(two, {{2, 4}, {1, 4}}), "");
  EXPECT_EQ(error(two, {{2, 4}, {3, 4}}), "'product' (Mul): an axis of 2 elements cannot be broadcast to 3");
}

// Nothing to repeat at the edge of.
TEST_F(RunGraph, PadsOfAnEmptyAxis) {
  for (const std::string mode : {"edge", "reflect", "wrap"}) {
    const std::string text = R"(graph "g" {
  input %x: float32[N,2]
  const %p = int64[4] {1, 0, 0, 0}
  %y = Pad(%x, %p) {mode=")" +
                             mode + R"("} from "pad" ("Pad")
  output "y" = %y
})";
    EXPECT_EQ(error(text, {{2, 2}}), "");
    EXPECT_EQ(error(text, {{0, 2}}), "'pad' (Pad): mode '" + mode + "' has nothing to repeat where an axis is empty");
  }
}

// Numbers are arguments of kernels: -0 is not 0, equal ones are one, integers stay exact, a power stays a product.
TEST_F(RunGraph, NumbersInExpressions) {
  const auto outputs = run(R"(graph "g" {
  input %x: float32[2]
  const %minus_zero = float32[] {-0.0}
  const %zero = float32[] {0.0}
  const %third = float32[] {0.25}
  const %two = float32[] {2}
  const %three = float32[1] {3}
  const %big = int64[] {9007199254740993}
  %a = Mul(%x, %minus_zero)
  %b = Reciprocal(%a)
  %c = Max(%x, %zero)
  %d = Add(%c, %third)
  %e = Mul(%d, %third)
  %f = Pow(%e, %two)
  %g = Div(%f, %three)
  %h = Div(%g, %two)
  %i = Cast(%x) {to=int64}
  %j = Add(%i, %big)
  output "b" = %b
  output "h" = %h
  output "j" = %j
})",
                           {{2}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ((*outputs)[0]->to_doubles()[0], -INFINITY);
  EXPECT_FLOAT_EQ(static_cast<float>((*outputs)[1]->to_doubles()[0]), 0.3125f * 0.3125f / 3 / 2);
  EXPECT_EQ((*outputs)[2]->to_int64s()[0], 9007199254740994);
}

// A NaN passes bounds that are arguments, on either side; a bound that is NaN wins.
TEST_F(RunGraph, NumbersAsBounds) {
  const auto outputs = run(R"(graph "g" {
  input %x: float32[2]
  const %low = float32[] {1.5}
  const %high = float32[] {0.25}
  const %nan = float32[] {nan}
  const %five = int64[] {5}
  %zero = Sub(%x, %x)
  %none = Div(%zero, %zero)
  %a = Clip(%x, %low)
  %b = Clip(%x, _, %high)
  %c = Clip(%x, %low, %high)
  %d = Max(%low, %x)
  %e = Min(%x, %high, %low)
  %f = Clip(%none, %low, %high)
  %g = Max(%none, %low)
  %h = Min(%high, %none)
  %i = Max(%x, %nan)
  %j = Clip(%x, %nan, %high)
  %k = Cast(%x) {to=int64}
  %l = Clip(%k, %five)
  output "a" = %a
  output "b" = %b
  output "c" = %c
  output "d" = %d
  output "e" = %e
  output "f" = %f
  output "g" = %g
  output "h" = %h
  output "i" = %i
  output "j" = %j
  output "l" = %l
})",
                           {{2}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  std::vector<double> first;
  for (const ConstantPtr& output : *outputs) first.push_back(output->to_doubles()[0]);
  EXPECT_THAT(first, testing::Pointwise(testing::NanSensitiveDoubleEq(),
                                        std::vector<double>{1.5, 0.25, 0.25, 1.5, 0.25, NAN, NAN, NAN, NAN, NAN, 5}));
}

// What follows a product has a few numbers in its source, and takes more of them as arguments.
TEST_F(RunGraph, NumbersBehindProducts) {
  constexpr int kProducts = 12;
  std::string text = R"(graph "g" {
  input %x: float32[1,2]
  const %v = float32[3] {10, 20, 30}
  const %high = float32[] {37.5}
)";
  for (int k = 0; k < kProducts; ++k) {
    text += fmt::format(R"(  const %w{0} = float32[2,3] {{{0}, 2, 3, 4, 5, 6}}
  const %low{0} = float32[] {{{1}}}
  %m{0} = MatMul(%x, %w{0})
  %a{0} = Add(%m{0}, %v)
  %c{0} = Clip(%a{0}, %low{0}, %high)
  output "c{0}" = %c{0}
)",
                        k, 20 + k);
  }
  const auto outputs = run(text + "}", {{1, 2}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  for (int k = 0; k < kProducts; ++k) {
    EXPECT_EQ((*outputs)[static_cast<size_t>(k)]->to_doubles(),
              (std::vector<double>{20.0 + k, std::max(27, 20 + k) + 0.0, 37.5}));
  }
}

// The last axis of such a product is no column of the matrix: what follows must not read a vector along it by columns.
TEST_F(RunGraph, AProductWithAVectorAndWhatFollows) {
  const auto outputs = run(R"(graph "g" {
  input %x: float32[2,3,2]
  const %v = float32[2] {1, 2}
  const %scale = float32[3] {1, 10, 100}
  %m = MatMul(%x, %v)
  %y = Mul(%m, %scale)
  output "y" = %y
})",
                           {{2, 3, 2}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ((*outputs)[0]->to_doubles(), (std::vector<double>{3, 30, 300, 3, 30, 300}));
}

TEST_F(RunGraph, MatricesWithoutAProduct) {
  const std::string text = R"(graph "g" {
  input %x: float32[2,N]
  input %y: float32[M,4]
  %z = MatMul(%x, %y) from "product" ("MatMul")
  output "z" = %z
})";
  EXPECT_EQ(error(text, {{2, 3}, {3, 4}}), "");
  EXPECT_EQ(error(text, {{2, 3}, {2, 4}}), "'product' (MatMul): operands of shapes [2,N] and [M,4] have no product");
  const std::string batches = R"(graph "g" {
  input %x: float32[N,2,3]
  input %y: float32[M,3,4]
  %z = MatMul(%x, %y) from "product" ("MatMul")
  output "z" = %z
})";
  EXPECT_EQ(error(batches, {{2, 2, 3}, {1, 3, 4}}), "");
  EXPECT_EQ(error(batches, {{2, 2, 3}, {3, 3, 4}}),
            "'product' (MatMul): an axis of 2 elements cannot be broadcast to 3");
}

}  // namespace
}  // namespace aipu::gbuilder
