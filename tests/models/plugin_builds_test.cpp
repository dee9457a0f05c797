// Plugins belong to one conversion: several of them in one process, one after the other and side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "gbuilder/build.h"
#include "models/onnx_builder.h"
#include "test_paths.h"

namespace aipu::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PluginBuilds : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("aipu_builds_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static std::string sample_library() { return AIPU_BUILD_DIR "/lib/libaipu_sample_plugin.so"; }

  // y = x * factor, as an operator of that name with so many inputs.
  std::string write_operator(const std::string& name, const std::string& op, const std::string& expression) const {
    std::ofstream(file(name)) << R"(from aipu import op
from aipu import script as S


@op.register(")" << op << R"(", inputs={"x": op.tensor("float32", "...n")}, outputs={"y": op.tensor("float32", "...n")})
@S.prim_func
def kernel(x: S.ptr("float32", "global"), y: S.ptr("float32", "global"), n: S.i32):
    for i in range(S.get_local_id(), n, S.get_local_size()):
        y[i] = )" << expression
                              << "\n";
    return file(name);
  }
  // One node of the operator.
  std::string write_model(const std::string& name, const std::string& op, const std::string& domain) const {
    OnnxBuilder b("m", 1);
    if (!domain.empty()) b.set_opset(1, domain);
    b.output(b.op(op, {b.input("x", DType::kF32, {"N", 8})}, {}, domain), "y", DType::kF32, {"N", 8});
    EXPECT_EQ(b.save(file(name)).message(), "");
    return file(name);
  }
  // Up to where the C compiler would begin: the kernels are there then.
  static Result<gbuilder::BuildReport> build(const std::string& model, const std::vector<std::string>& plugins) {
    gbuilder::BuildOptions options;
    options.model = model;
    options.plugins = plugins;
    options.stop_after = "lower";
    options.jobs = 1;
    return gbuilder::build_model(options);
  }
  static std::string error(const std::string& model, const std::vector<std::string>& plugins) {
    const auto report = build(model, plugins);
    return report.ok() ? "" : report.status().message();
  }
  static std::vector<std::string> warnings(const std::string& model, const std::vector<std::string>& plugins) {
    const auto report = build(model, plugins);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? report->warnings : std::vector<std::string>();
  }

  std::filesystem::path folder_;
};

// Define, build, edit, build again, build without.
TEST_F(PluginBuilds, AnEditedFile) {
  const std::string model = write_model("m.onnx", "Scale", "test");
  const std::string plugin = write_operator("scale.py", "test::Scale", "x[i] * 2.0");
  EXPECT_EQ(error(model, {plugin}), "");
  write_operator("scale.py", "test::Scale", "x[i] * missing");
  EXPECT_THAT(error(model, {plugin}), HasSubstr("missing"));
  write_operator("scale.py", "test::Scale", "x[i] * 3.0");
  EXPECT_EQ(error(model, {plugin}), "");
  EXPECT_THAT(error(model, {}), HasSubstr("test::Scale"));
  EXPECT_THAT(error(model, {}), HasSubstr("unknown operator"));
  // The same operator from another file.
  EXPECT_EQ(error(model, {write_operator("other.py", "test::Scale", "x[i] * 4.0")}), "");
}

TEST_F(PluginBuilds, ASharedLibraryTwice) {
  const std::string model = write_model("m.onnx", "SoftCap", "example");
  EXPECT_EQ(error(model, {sample_library()}), "");
  EXPECT_EQ(error(model, {sample_library()}), "");
  EXPECT_THAT(error(model, {}), HasSubstr("unknown operator"));
  EXPECT_THAT(warnings(model, {sample_library(), sample_library()}),
              ElementsAre("plugin '" + sample_library() + "' is given twice"));
}

TEST_F(PluginBuilds, ASharedLibraryThatWasReplaced) {
  const std::string model = write_model("m.onnx", "SoftCap", "example");
  const std::string copy = file("libcopy.so");
  std::filesystem::copy_file(sample_library(), copy);
  EXPECT_EQ(error(model, {copy}), "");
  std::filesystem::copy_file(sample_library(), file("new.so"));
  std::filesystem::rename(file("new.so"), copy);
  EXPECT_THAT(error(model, {copy}), HasSubstr("has changed since this process loaded it"));
}

// One operator, two meanings, at the same time.
TEST_F(PluginBuilds, InTwoThreads) {
  const std::string good = write_operator("good.py", "test::Scale", "x[i] * 2.0");
  const std::string bad = write_operator("bad.py", "test::Scale", "x[i] * missing");
  const std::string model = write_model("m.onnx", "Scale", "test");
  std::vector<std::string> errors(40);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (size_t k = t; k < errors.size(); k += 2) errors[k] = error(model, {t == 0 ? good : bad});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < errors.size(); ++k) {
    if (k % 2 == 0) {
      EXPECT_EQ(errors[k], "");
    } else {
      EXPECT_THAT(errors[k], HasSubstr("missing"));
    }
  }
}

TEST_F(PluginBuilds, AFileThatIsNotUsedIsAWarning) {
  const std::string relu = write_model("relu.onnx", "Relu", "");
  const std::string scale = write_operator("scale.py", "test::Scale", "x[i] * 2.0");
  EXPECT_THAT(warnings(relu, {scale}),
              ElementsAre("plugin '" + scale + "' is not used: the model has no node that it claims"));
  EXPECT_THAT(warnings(relu, {sample_library()}),
              ElementsAre("plugin '" + sample_library() + "' is not used: the model has no node that it claims"));
  EXPECT_THAT(warnings(write_model("scale.onnx", "Scale", "test"), {scale}), IsEmpty());
  EXPECT_THAT(warnings(write_model("cap.onnx", "SoftCap", "example"), {sample_library()}), IsEmpty());
}

// Of an operator that we have too.
TEST_F(PluginBuilds, TheUsersOperatorWins) {
  const std::string relu = write_operator("relu.py", "ai.onnx::Relu", "x[i] * 2.0");
  const auto report = build(write_model("relu.onnx", "Relu", ""), {relu});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(report->warnings, IsEmpty());
  EXPECT_EQ(error(write_model("relu.onnx", "Relu", ""), {}), "");
  write_operator("relu.py", "ai.onnx::Relu", "x[i] * missing");
  EXPECT_THAT(error(write_model("relu.onnx", "Relu", ""), {relu}), HasSubstr("missing"));
}

}  // namespace
}  // namespace aipu::models
