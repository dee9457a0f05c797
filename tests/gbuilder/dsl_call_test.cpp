// A DSL kernel from source to a running aipu.bin, and the timing model on the way.
#include "gbuilder/dsl_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "codegen/lower/lower.h"
#include "codegen/timing/timing_model.h"
#include "kernels/dsl/parse.h"
#include "runtime/session.h"

namespace aipu::gbuilder {
namespace {

using ::testing::HasSubstr;
using tir::ParamCategory;

constexpr const char* kScale = R"(
from aipu import script as S

@S.prim_func
def store(p: S.ptr("fp32", "global"), i: S.i32, v: S.fp32):
    p[i] = v

@S.prim_func
def scale(x: S.ptr("fp32", "global"), w: S.ptr("fp32", "global.1"), y: S.ptr("fp32", "global"), n: S.i32, k: S.fp32,
          bias: S.ptr("fp32", "global")):
    for i in range(n):
        if bias.is_nullptr:
            store(y, i, x[i] * w[0] * k)
        else:
            store(y, i, x[i] * w[0] * k + bias[0])
)";

tir::Module parse(const std::string& source, std::string_view entry) {
  auto module = dsl::parse_kernel({.file = "test.py", .text = source}, entry, dsl::TemplateParams());
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module.ok() ? *module : tir::Module{};
}

DslKernel compile(const std::string& source, std::string_view entry, const char* target = "X2_1204") {
  auto kernel = compile_dsl_kernel(parse(source, entry), *tir::find_target(target));
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  return std::move(*kernel);
}

DslArgument tensor(int64_t extent) {
  DslArgument argument;
  argument.dtype = DType::kF32;
  argument.shape = {extent};
  return argument;
}
DslArgument number(std::variant<int64_t, double> value) {
  DslArgument argument;
  argument.number = value;
  return argument;
}
DslArgument constant(std::vector<float> values) {
  DslArgument argument = tensor(static_cast<int64_t>(values.size()));
  argument.constant = graph::Constant::of<float>(DType::kF32, argument.shape, values);
  return argument;
}

std::string file_name(const char* name) { return (std::filesystem::temp_directory_path() / name).string(); }

TEST(DslCall, ParametersAreInputsConstantsOutputsAndAttributes) {
  const DslKernel kernel = compile(kScale, "scale");
  std::vector<std::pair<ParamCategory, int>> found;
  for (const auto& param : kernel.info.params) found.emplace_back(param.category, param.tensor_index);
  const std::vector<std::pair<ParamCategory, int>> expected = {
      {ParamCategory::kInputTensor, 0}, {ParamCategory::kConstTensor, 0}, {ParamCategory::kOutputTensor, 0},
      {ParamCategory::kAttr, -1},       {ParamCategory::kAttr, -1},       {ParamCategory::kInputTensor, 1}};
  EXPECT_EQ(found, expected);
}

class DslCallRun : public ::testing::TestWithParam<const char*> {};

TEST_P(DslCallRun, AFileOfOneCallRuns) {
  const DslKernel kernel = compile(kScale, "scale", GetParam());
  DslArgument null;
  null.is_null = true;
  const std::string path = file_name("aipu_dsl_call_test.aipu.bin");
  for (const bool with_bias : {true, false}) {
    const auto file = build_dsl_call(
        kernel, {tensor(5), constant({2}), tensor(5), number(int64_t{5}), number(0.5), with_bias ? tensor(1) : null},
        path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->inputs, with_bias ? (std::vector<size_t>{0, 5}) : (std::vector<size_t>{0}));
    EXPECT_EQ(file->outputs, std::vector<size_t>{2});
    EXPECT_THAT(file->ir.text, HasSubstr("layer_type=DSL_scale"));
    EXPECT_THAT(file->ir.text, HasSubstr("w_type=float32\nw_shape=[1]\nw_offset=0\nw_size=4\n"));
    EXPECT_EQ(file->ir.text.find("bias=0") == std::string::npos, with_bias);
    auto model = runtime::Model::load(path);
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto session = runtime::Session::create(*model);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const std::vector<float> x = {1, 2, 3, 4, 5}, bias = {100};
    std::vector<float> y(5, -1);
    const std::vector<int64_t> shape = {5}, one = {1};
    ASSERT_TRUE((*session)->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    if (with_bias) {
      ASSERT_TRUE((*session)->bind_input(1, {DType::kF32, one, bias.data()}).ok());
    }
    ASSERT_TRUE((*session)->bind_output(0, y.data(), y.size() * sizeof(float)).ok());
    const Status status = (*session)->run();
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], x[i] + (with_bias ? 100.0f : 0.0f)) << i;
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Targets, DslCallRun, ::testing::Values("X2_1204", "host"),
                         [](const auto& target) { return std::string(target.param); });

TEST(DslCall, OneOutputThereMustBe) {
  const DslKernel kernel = compile(
      "from aipu import script as S\n@S.prim_func\ndef f(x: S.ptr('i32', 'global')):\n    S.printf('%d', x[0])\n", "f");
  const auto file = build_dsl_call(kernel, {tensor(1)}, file_name("aipu_dsl_call_none.aipu.bin"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().message(), "Function must has at least one output.");
}

TEST(DslCall, LocalMemoryIsThatOfTheTarget) {
  const std::string source =
      "from aipu import script as S\n@S.prim_func\ndef f(x: S.ptr('i8', 'global')):\n    b = S.alloc((40000,), 'i8', "
      "scope='lsram')\n"
      "    S.dma_copy(x, b, 8)\n";
  const auto kernel = compile_dsl_kernel(parse(source, "f"), *tir::find_target("X2_1204"));
  ASSERT_FALSE(kernel.ok());
  EXPECT_THAT(kernel.status().message(), ::testing::AllOf(HasSubstr("40000 bytes of lsram"), HasSubstr("32768")));
}

// The counters are right when they say how often each loop ran; estimate() turns them into cycles.
TEST(TimingModel, CountsRunsAndTransfers) {
  const std::string source =
      "from aipu import script as S\n@S.prim_func\ndef f(x: S.ptr('i32', 'global'), n: S.i32):\n"
      "    b = S.alloc((256,), 'i32', scope='lsram')\n"
      "    S.dma_copy(b, x, 64, 64, 2, 64)\n"
      "    for i in range(n):\n        x[i] = b[i] + 1\n";
  const tir::Target target = *tir::find_target("X2_1204");
  auto lowered = tir::lower(parse(source, "f"), target);
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  auto instrumented = tir::instrument(*lowered);
  ASSERT_TRUE(instrumented.ok()) << instrumented.status().message();
  ASSERT_EQ(instrumented->transfers.size(), 1u);
  EXPECT_EQ(instrumented->module.entry().params.size(), 3u);

  // What two TECs would have counted: the body 10 and 20 times, a copy each.
  const size_t count = static_cast<size_t>(instrumented->counter_count);
  std::vector<int64_t> counters(2 * count, 0);
  for (size_t tec = 0; tec < 2; ++tec) {
    int64_t* own = counters.data() + tec * count;
    for (const auto& block : instrumented->blocks) own[block.counter] = 1;
    own[instrumented->blocks.back().counter] = tec == 0 ? 10 : 20;
    own[instrumented->transfers[0].first_counter] = 1;
    own[instrumented->transfers[0].first_counter + 1] = 512;
    own[instrumented->transfers[0].first_counter + 2] = 2;
  }
  const tir::CycleEstimate estimate = tir::estimate(*instrumented, counters);
  ASSERT_EQ(estimate.tecs.size(), 2u);
  EXPECT_LT(estimate.tecs[0].cycles, estimate.tecs[1].cycles);
  EXPECT_EQ(estimate.cycles, estimate.tecs[1].cycles);
  EXPECT_EQ(estimate.tecs[0].dma_cycles, 100 + 2 * 4 + 512 / 16);
  ASSERT_EQ(estimate.transfers.size(), 1u);
  EXPECT_EQ(estimate.transfers[0].bytes, 1024);
  const auto loop =
      std::find_if(estimate.lines.begin(), estimate.lines.end(), [](const auto& line) { return line.line == 7; });
  ASSERT_NE(loop, estimate.lines.end());
  EXPECT_GT(loop->total(), 30 * 4);  // at least the store to global memory of each iteration
}

}  // namespace
}  // namespace aipu::gbuilder
