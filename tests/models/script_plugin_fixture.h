// Operators of `.py` files on the whole road, for tests: writes plugins, models and arrays, converts and runs with the
// programs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu::models {

inline constexpr const char* kPluginTargets[] = {"host", "X2_1204"};

class ScriptPlugin : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("aipu_script_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(folder_);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static std::string tool(const std::string& name) { return AIPU_BUILD_DIR "/bin/" + name; }
  static std::string example(const std::string& name) { return AIPU_SOURCE_DIR "/models/custom_op/" + name; }

  // The exit code; what it printed is in log().
  int run(const std::string& command) {
    const int status = std::system((command + " > " + file("log.txt") + " 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string log() const {
    const auto text = read_text_file(file("log.txt"));
    return text.ok() ? *text : text.status().message();
  }
  int64_t lines() const {
    const std::string text = log();
    return std::count(text.begin(), text.end(), '\n');
  }
  int convert(const std::string& model, const std::string& output, const std::string& options) {
    return run(tool("aipugb") + " " + file(model) + " -o " + file(output) + " -q " + options);
  }

  template <typename T>
  void write_npy(const std::string& name, const std::string& descr, const std::vector<int64_t>& shape,
                 const std::vector<T>& values) {
    std::string dims;
    for (const int64_t d : shape) dims += std::to_string(d) + ",";
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + dims + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    std::ofstream out(file(name), std::ios::binary);
    const auto length = static_cast<uint16_t>(header.size());
    out << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(length & 255) << static_cast<char>(length >> 8) << header;
    out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  void write_f32(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    write_npy(name, "<f4", shape, values);
  }
  void write_i32(const std::string& name, const std::vector<int64_t>& shape, const std::vector<int32_t>& values) {
    write_npy(name, "<i4", shape, values);
  }
  static std::vector<float> waves(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.37f) * 2.0f;
    return values;
  }

  // The custom model computes what the plain one does, on each target and back end, and differs from it with other
  // attributes.
  void expect_same(const std::string& plugin, const std::vector<std::string>& outputs, const std::string& tolerance) {
    ASSERT_EQ(convert("plain.onnx", "plain.aipu.bin", ""), 0) << log();
    ASSERT_EQ(run(tool("aipurun") + " " + file("plain.aipu.bin") + " --input input=" + file("input.npy") +
                  " --output-dir " + file("plain")),
              0)
        << log();
    std::string expected;
    for (const std::string& name : outputs) expected += " --expect " + name + "=" + file("plain/" + name + ".npy");
    for (const std::string target : kPluginTargets) {
      ASSERT_EQ(convert("custom.onnx", "custom.aipu.bin", "--target " + target + " --plugin " + plugin), 0) << log();
      for (const std::string backend : {"", " --backend interp"}) {
        EXPECT_EQ(run(tool("aipurun") + " " + file("custom.aipu.bin") + " --input input=" + file("input.npy") +
                      expected + tolerance + backend),
                  0)
            << target << backend << "\n"
            << log();
      }
      ASSERT_EQ(convert("other.onnx", "other.aipu.bin", "--target " + target + " --plugin " + plugin), 0) << log();
      EXPECT_EQ(run(tool("aipurun") + " " + file("other.aipu.bin") + " --input input=" + file("input.npy") + expected +
                    tolerance),
                1)
          << log();
    }
  }

  // A model that is one node of the operator, between inputs and outputs of the given types.
  struct Operand {
    std::string name;
    DType dtype;
    Extents extents;
  };
  void one_node(const std::string& op, const std::vector<Operand>& inputs, const std::vector<Operand>& outputs,
                const NamedAttributes& attributes = {}) {
    OnnxBuilder b("one", 1);
    b.set_opset(1, "test");
    std::vector<std::string> names;
    for (const Operand& o : inputs) names.push_back(b.input(o.name, o.dtype, o.extents));
    const auto results = b.node(op, names, attributes, outputs.size(), "test");
    for (size_t i = 0; i < outputs.size(); ++i)
      b.output(results[i], outputs[i].name, outputs[i].dtype, outputs[i].extents);
    ASSERT_EQ(b.save(file("one.onnx")).message(), "");
  }
  void write_plugin(const std::string& text, const std::string& name = "plugin.py") {
    std::ofstream(file(name)) << "from aipu import op\nfrom aipu import script as S\n" << text;
  }

  std::filesystem::path folder_;
};

}  // namespace aipu::models
