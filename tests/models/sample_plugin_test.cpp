// The sample user plugin on the whole road: a model with example::SoftCap, converted with --plugin, computes what the
// same model does with the op written out.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu::models {
namespace {

namespace fs = std::filesystem;

class SamplePlugin : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("aipu_plugin_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!HasFailure()) fs::remove_all(folder_);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static std::string tool(const std::string& name) { return std::string(AIPU_BUILD_DIR) + "/bin/" + name; }
  static std::string plugin() { return std::string(AIPU_BUILD_DIR) + "/lib/libaipu_sample_plugin.so"; }

  // The exit code; what it printed is in log().
  int run(const std::string& command) {
    const int status = std::system((command + " > " + file("log.txt") + " 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string log() const {
    const auto text = read_text_file(file("log.txt"));
    return text.ok() ? *text : text.status().message();
  }

  // [N,64] -> gemm -> soft cap -> relu -> [N,40], with the op or as tanh.
  void make_model(const std::string& path, bool custom, double cap) {
    OnnxBuilder b("soft_cap", 3);
    b.set_opset(1, "example");
    auto x = b.input("input", DType::kF32, {"N", 64});
    x = b.gemm(x, 64, 37);
    if (custom) {
      x = b.op("SoftCap", {x}, {{"cap", cap}}, "example");
    } else {
      const auto factor = b.scalar(static_cast<float>(cap));
      x = b.op("Mul", {b.op("Tanh", {b.op("Div", {x, factor})}), factor});
    }
    b.output(b.relu(x), "output", DType::kF32, {"N", 37});
    ASSERT_EQ(b.save(path).message(), "");
  }

  void write_npy(const std::string& path, int64_t rows, int64_t columns) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                         std::to_string(columns) + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    std::ofstream out(path, std::ios::binary);
    const uint16_t length = static_cast<uint16_t>(header.size());
    out << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(length & 255) << static_cast<char>(length >> 8) << header;
    for (int64_t i = 0; i < rows * columns; ++i) {
      const float value = std::sin(static_cast<float>(i) * 0.37f) * 2.0f;
      out.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }

  void expect_same_as_written_out(const std::string& target) {
    make_model(file("custom.onnx"), true, 1.5);
    make_model(file("plain.onnx"), false, 1.5);
    write_npy(file("input.npy"), 5, 64);
    ASSERT_EQ(
        run(tool("aipugb") + " " + file("plain.onnx") + " -o " + file("plain.aipu.bin") + " -q --target " + target), 0)
        << log();
    ASSERT_EQ(run(tool("aipurun") + " " + file("plain.aipu.bin") + " --input input=" + file("input.npy") +
                  " --output-dir " + file("plain")),
              0)
        << log();
    ASSERT_EQ(run(tool("aipugb") + " " + file("custom.onnx") + " -o " + file("custom.aipu.bin") + " -q --target " +
                  target + " --plugin " + plugin()),
              0)
        << log();
    EXPECT_EQ(run(tool("aipurun") + " " + file("custom.aipu.bin") + " --input input=" + file("input.npy") +
                  " --expect output=" + file("plain/output.npy") + " --rtol 1e-5 --atol 1e-6"),
              0)
        << log();
    // The comparison can fail: another cap gives other numbers.
    make_model(file("other.onnx"), true, 0.5);
    ASSERT_EQ(run(tool("aipugb") + " " + file("other.onnx") + " -o " + file("other.aipu.bin") + " -q --target " +
                  target + " --plugin " + plugin()),
              0)
        << log();
    EXPECT_EQ(run(tool("aipurun") + " " + file("other.aipu.bin") + " --input input=" + file("input.npy") +
                  " --expect output=" + file("plain/output.npy") + " --rtol 1e-5 --atol 1e-6"),
              1)
        << log();
  }

  fs::path folder_;
};

TEST_F(SamplePlugin, ComputesOnTheHost) { expect_same_as_written_out("host"); }

TEST_F(SamplePlugin, ComputesOnX2) { expect_same_as_written_out("X2_1204"); }

TEST_F(SamplePlugin, WithoutItTheOperatorIsUnknown) {
  make_model(file("custom.onnx"), true, 1.5);
  EXPECT_EQ(run(tool("aipugb") + " " + file("custom.onnx") + " -o " + file("custom.aipu.bin")), 1);
  EXPECT_NE(log().find("1 node is not supported: example::SoftCap (1 node: '/SoftCap'): unknown operator; a plugin can "
                       "define it (--plugin FILE; plugins=[FILE] in Python)"),
            std::string::npos)
      << log();
  EXPECT_FALSE(fs::exists(file("custom.aipu.bin")));
}

TEST_F(SamplePlugin, ItsOwnChecksAreReported) {
  make_model(file("bad.onnx"), true, -1.0);
  EXPECT_EQ(run(tool("aipugb") + " " + file("bad.onnx") + " -o " + file("bad.aipu.bin") + " --plugin " + plugin()), 1);
  EXPECT_NE(log().find("it must be positive"), std::string::npos) << log();
}

}  // namespace
}  // namespace aipu::models
