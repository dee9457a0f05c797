// Several models in one file: they share weights, kernels and memory, and compute what each computes alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "gbuilder/build.h"
#include "gbuilder/file/encode.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "runtime/model.h"
#include "runtime/session.h"

namespace aipu::models {
namespace {

using gbuilder::BuildOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Entries : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("aipu-entries-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // A residual network over images of any size: 3x3 and 1x1 convolutions, a shortcut, a mean, a product. A megabyte of
  // weights. `layers`: more of them behind the same first ones.
  std::string write_network(const std::string& name, int layers = 3) const {
    OnnxBuilder b("net", 7);
    std::string x = b.input("x", DType::kF32, {"N", 16, "H", "W"});
    int64_t channels = 16;
    for (int layer = 0; layer < layers; ++layer) {
      const int64_t wide = channels * 2;
      const std::string y =
          b.conv(b.relu(b.conv(x, channels, wide, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}})), wide,
                 wide, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}});
      x = b.relu(b.op("Add", {y, b.conv(x, channels, wide, {.kernel = {1, 1}, .strides = {2, 2}})}));
      channels = wide;
    }
    x = b.gemm(b.op("Flatten", {b.op("GlobalAveragePool", {x})}), channels, 100);
    b.output(x, "y", DType::kF32, {"N", 100});
    EXPECT_TRUE(b.save(path(name)).ok());
    return path(name);
  }

  BuildOptions options(const std::string& model, const std::string& shape, const std::string& output) const {
    BuildOptions options;
    options.model = model;
    options.output = path(output);
    options.target = "host-baseline";
    if (!shape.empty()) options.shapes = {shape};
    return options;
  }
  static gbuilder::BuildReport built(const BuildOptions& options) {
    const auto report = gbuilder::build_model(options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : gbuilder::BuildReport();
  }
  static std::string bytes_of(const std::string& file) {
    const auto text = read_text_file(file);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text.ok() ? *text : "";
  }

  static std::vector<float> run(const std::shared_ptr<const runtime::Model>& model, int64_t size) {
    std::vector<float> x(static_cast<size_t>(16 * size * size));
    std::mt19937 random(3);
    for (float& value : x) value = static_cast<float>(random()) * 0x1p-31f - 1.0f;
    const auto session = runtime::Session::create(model);
    EXPECT_TRUE(session.ok()) << session.status().message();
    const int64_t shape[] = {1, 16, size, size};
    Status status = (*session)->bind_input(0, {DType::kF32, shape, x.data()});
    if (status.ok()) status = (*session)->run();
    EXPECT_TRUE(status.ok()) << status.message();
    const auto y = (*session)->output(0);
    if (!y.ok()) return {};
    const auto* data = static_cast<const float*>(y->data);
    return {data, data + y->shape[1]};
  }

  std::filesystem::path folder_;
};

TEST_F(Entries, ShapeVariantsShareNearlyAllBytes) {
  const std::string model = write_network("net.onnx");
  const auto large_alone = built(options(model, "x=1x16x64x64", "large.aipu.bin"));
  const auto small_alone = built(options(model, "x=1x16x48x48", "small.aipu.bin"));
  BuildOptions both = options(model, "x=1x16x64x64", "both.aipu.bin");
  both.entry = "large";
  gbuilder::EntryOptions small;
  small.entry = "small";
  small.model = model;
  small.shapes = {"x=1x16x48x48"};
  both.more_entries = {small};
  const auto report = built(both);
  EXPECT_THAT(report.entry_names, ElementsAre("large", "small"));
  ASSERT_GT(large_alone.constant_bytes, 1'000'000u);
  // At 48 x 48 a layer is too small for Winograd's larger tiles, and its weights are others.
  EXPECT_LE(report.constant_bytes, large_alone.constant_bytes + large_alone.constant_bytes / 20);
  both.strip = true;
  BuildOptions one = options(model, "x=1x16x64x64", "large.aipu.bin");
  one.strip = true;
  EXPECT_LE(static_cast<double>(built(both).file_bytes), 1.1 * static_cast<double>(built(one).file_bytes));

  const auto first = runtime::Model::load(both.output);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_THAT((*first)->entries(), ElementsAre("large", "small"));
  const auto second = (*first)->open("small");
  ASSERT_TRUE(second.ok()) << second.status().message();
  const auto alone = runtime::Model::load(path("small.aipu.bin"));
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_EQ(run(*second, 48), run(*alone, 48));
  EXPECT_EQ(run(*first, 64), run(*runtime::Model::load(one.output), 64));
}

TEST_F(Entries, OfDifferentModelsShareWhatIsEqual) {
  const std::string a = write_network("a.onnx", 2), b = write_network("b.onnx", 3);
  const auto of_a = built(options(a, "", "a.aipu.bin")), of_b = built(options(b, "", "b.aipu.bin"));
  BuildOptions both = options(a, "", "both.aipu.bin");
  both.more_entries.emplace_back().model = b;
  const auto report = built(both);
  EXPECT_THAT(report.entry_names, ElementsAre("a", "b"));
  EXPECT_LT(report.kernels, of_a.kernels + of_b.kernels);
  const auto first = runtime::Model::load(both.output);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(run(*first, 32), run(*runtime::Model::load(path("a.aipu.bin")), 32));
  const auto second = (*first)->open("b");
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(run(*second, 32), run(*runtime::Model::load(path("b.aipu.bin")), 32));
  // The same bytes again, and all of it can be read back.
  const std::string bytes = bytes_of(both.output);
  built(both);
  EXPECT_EQ(bytes_of(both.output), bytes);
  const auto decoded = gbuilder::decode(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  ASSERT_EQ(decoded->entries().size(), 2u);
  EXPECT_EQ(decoded->entries()[1]->entry_name, "b");
  EXPECT_EQ(decoded->entries()[1]->plan.kernels.size(), report.kernels);
}

TEST_F(Entries, OneThatCannotBeConvertedIsAnErrorThatNamesItsFile) {
  OnnxBuilder b("odd", 7);
  b.output(b.op("NoSuchOperator", {b.input("x", DType::kF32, {4})}), "y", DType::kF32, {4});
  ASSERT_TRUE(b.save(path("odd.onnx")).ok());
  BuildOptions both = options(write_network("net.onnx"), "", "both.aipu.bin");
  both.more_entries.emplace_back().model = path("odd.onnx");
  const auto report = gbuilder::build_model(both);
  EXPECT_THAT(report.status().message(), ::testing::StartsWith(path("odd.onnx") + ": "));
  EXPECT_THAT(report.status().message(), HasSubstr("NoSuchOperator"));
  EXPECT_FALSE(std::filesystem::exists(both.output));
}

TEST_F(Entries, NeedNamesOfTheirOwn) {
  const std::string model = write_network("net.onnx");
  BuildOptions both = options(model, "", "both.aipu.bin");
  both.more_entries.emplace_back().model = model;
  const auto message = [&] { return gbuilder::build_model(both).status().message(); };
  EXPECT_THAT(message(), HasSubstr("two models are called 'net'"));
  both.entry = "a:b";
  EXPECT_THAT(message(), HasSubstr("'a:b' is no name of an entry"));
  EXPECT_FALSE(std::filesystem::exists(both.output));
}

}  // namespace
}  // namespace aipu::models
