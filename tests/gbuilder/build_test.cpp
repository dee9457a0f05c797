// The whole compiler on small models: what it writes, that it writes the same twice, that caching works, and what it
// says when it cannot.
#include "gbuilder/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "gbuilder/file/encode.h"
#include "gbuilder/record/command_checker.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"

namespace aipu::gbuilder {
namespace {

using ::testing::HasSubstr;

class Build : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("aipu-build-test-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    // A cache of its own, so that "compiles nothing" says something about this test.
    ::setenv("AIPU_CACHE_DIR", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // conv + relu + max-pool + gemm over a symbolic batch.
  std::string write_model(const std::string& name = "small.onnx") const {
    models::OnnxBuilder b("small", 7);
    auto x = b.input("x", DType::kF32, {"N", 1, 8, 8});
    x = b.relu(b.conv(x, 1, 4, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
    x = b.max_pool(x, 2, 2);
    x = b.op("Flatten", {x});
    x = b.gemm(x, 64, 10);
    b.output(x, "y", DType::kF32, {"N", 10});
    EXPECT_TRUE(b.save(path(name)).ok());
    return path(name);
  }

  BuildOptions options(const std::string& model, const std::string& output) const {
    BuildOptions options;
    options.model = model;
    options.output = path(output);
    options.target = "host-baseline";
    return options;
  }

  static std::string bytes_of(const std::string& file) {
    auto text = read_text_file(file);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text.ok() ? *text : "";
  }

  std::filesystem::path folder_;
};

// Numbers and vectors are arguments: one kernel serves all nodes that differ in nothing else.
TEST_F(Build, ConstantsDoNotMultiplyKernels) {
  for (const bool vectors : {false, true}) {
    models::OnnxBuilder b("numbers", 7);
    std::string x = b.input("x", DType::kF32, {"N", 4});
    for (int k = 0; k < 240; ++k) {
      const float v = 1 + 0.25f * static_cast<float>(k);
      x = b.op("Add", {x, vectors ? b.initializer(models::TensorData::f32({4}, {v, 1, 2, 3})) : b.scalar(v)});
    }
    b.output(x, "y", DType::kF32, {"N", 4});
    ASSERT_TRUE(b.save(path("numbers.onnx")).ok());
    BuildOptions stop = options(path("numbers.onnx"), "numbers.bin");
    stop.stop_after = "lower";
    const auto report = build_model(stop);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_GE(report->launches, 10u);
    EXPECT_LE(report->kernels, 2u) << (vectors ? "vectors" : "numbers");
  }
}

// So are the numbers among a node's attributes.
TEST_F(Build, AttributesDoNotMultiplyKernels) {
  const std::pair<const char*, std::vector<const char*>> ops[] = {{"LeakyRelu", {"alpha"}},
                                                                  {"Elu", {"alpha"}},
                                                                  {"Celu", {"alpha"}},
                                                                  {"ThresholdedRelu", {"alpha"}},
                                                                  {"HardSigmoid", {"alpha", "beta"}},
                                                                  {"Selu", {"alpha", "gamma"}},
                                                                  {"Shrink", {"lambd", "bias"}}};
  for (const auto& [op, names] : ops) {
    models::OnnxBuilder b("attributes", 7);
    std::string x = b.input("x", DType::kF32, {"N", 4});
    float value = 0.125f;
    for (int k = 0; k < 240; ++k) {
      models::NamedAttributes attributes;
      for (const char* name : names) attributes.emplace_back(name, value += 0.25f);
      x = b.op(op, {x}, attributes);
    }
    b.output(x, "y", DType::kF32, {"N", 4});
    ASSERT_TRUE(b.save(path("attributes.onnx")).ok());
    BuildOptions stop = options(path("attributes.onnx"), "attributes.bin");
    stop.stop_after = "lower";
    const auto report = build_model(stop);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_GE(report->launches, 10u);
    EXPECT_LE(report->kernels, 2u) << op;
  }
}

// The factors of products, too, but for the first few.
TEST_F(Build, FactorsOfProductsAreAFewKernels) {
  models::OnnxBuilder b("factors", 7);
  std::string x = b.input("x", DType::kF32, {"N", 4});
  const std::string w = b.weight({4, 4}, 1), c = b.weight({4}, 2);
  for (int k = 0; k < 40; ++k) {
    const float factor = 1.5f + 0.25f * static_cast<float>(k);
    x = b.op("Gemm", {x, w, c}, {{"alpha", factor}, {"beta", factor}});
  }
  b.output(x, "y", DType::kF32, {"N", 4});
  ASSERT_TRUE(b.save(path("factors.onnx")).ok());
  BuildOptions stop = options(path("factors.onnx"), "factors.bin");
  stop.stop_after = "lower";
  const auto report = build_model(stop);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->launches, 40u);
  EXPECT_EQ(report->kernels, 9u);
}

// Behind a product numbers are worth a kernel of their own, but not hundreds of them.
TEST_F(Build, NumbersBehindProductsAreAFewKernels) {
  models::OnnxBuilder b("numbers", 7);
  std::string x = b.input("x", DType::kF32, {"N", 4});
  const std::string w = b.weight({4, 4}, 1);
  for (int k = 0; k < 40; ++k)
    x = b.op("Max", {b.op("MatMul", {x, w}), b.scalar(1 + 0.25f * static_cast<float>(k % 20))});
  b.output(x, "y", DType::kF32, {"N", 4});
  ASSERT_TRUE(b.save(path("numbers.onnx")).ok());
  BuildOptions stop = options(path("numbers.onnx"), "numbers.bin");
  stop.stop_after = "lower";
  const auto report = build_model(stop);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->launches, 40u);
  EXPECT_EQ(report->kernels, 9u);
}

TEST_F(Build, TwiceGivesTheSameBytesAndCompilesNothing) {
  const std::string model = write_model();
  const auto first = build_model(options(model, "first.aipu.bin"));
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_GT(first->kernels, 0u);
  EXPECT_GT(first->compiled_units, 0u);
  auto again = options(model, "second.aipu.bin");
  again.jobs = 1;
  const auto second = build_model(again);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(second->compiled_units, 0u);
  EXPECT_EQ(bytes_of(path("first.aipu.bin")), bytes_of(path("second.aipu.bin")));
  auto anew = options(model, "third.aipu.bin");
  anew.use_cache = false;
  const auto third = build_model(anew);
  ASSERT_TRUE(third.ok()) << third.status().message();
  EXPECT_EQ(third->compiled_units, third->translation_units);
  EXPECT_EQ(bytes_of(path("first.aipu.bin")), bytes_of(path("third.aipu.bin")));
}

TEST_F(Build, WhatIsWrittenIsOrderedAndComplete) {
  const auto report = build_model(options(write_model(), "m.aipu.bin"));
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto file = MappedFile::open(path("m.aipu.bin"));
  ASSERT_TRUE(file.ok());
  const auto decoded = decode(file->bytes());
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(check_program(decoded->plan, decoded->plan.programs.at(0)).message(), "");
  for (const SectionKind kind : {SectionKind::kConstants, SectionKind::kNativeModule, SectionKind::kTir,
                                 SectionKind::kC, SectionKind::kCompassIr}) {
    EXPECT_NE(decoded->section(kind), nullptr) << section_kind_name(kind);
  }
  EXPECT_EQ(decoded->plan.target, "host-baseline");
  EXPECT_EQ(decoded->plan.symbols.size(), 1u);
  EXPECT_EQ(report->file_bytes, file->bytes().size());
}

TEST_F(Build, StrippedFilesHaveWhatRunsAlone) {
  const std::string model = write_model();
  ASSERT_TRUE(build_model(options(model, "full.aipu.bin")).ok());
  auto stripped = options(model, "stripped.aipu.bin");
  stripped.strip = true;
  const auto report = build_model(stripped);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto full = MappedFile::open(path("full.aipu.bin")), file = MappedFile::open(path("stripped.aipu.bin"));
  ASSERT_TRUE(full.ok() && file.ok());
  EXPECT_EQ(report->file_bytes, file->bytes().size());
  const auto before = decode(full->bytes()), decoded = decode(file->bytes());
  ASSERT_TRUE(before.ok() && decoded.ok()) << decoded.status().message();
  ASSERT_EQ(decoded->sections.size(), 2u);
  for (const SectionKind kind : {SectionKind::kConstants, SectionKind::kNativeModule}) {
    ASSERT_NE(decoded->section(kind), nullptr) << section_kind_name(kind);
    EXPECT_EQ(decoded->section(kind)->hash, before->section(kind)->hash) << section_kind_name(kind);
  }
  EXPECT_EQ(print_plan(decoded->plan), print_plan(before->plan));
}

TEST_F(Build, CompassIrIsASecondEntrance) {
  auto from_onnx = options(write_model(), "onnx.aipu.bin");
  from_onnx.emit_ir = path("small_ir");
  ASSERT_TRUE(build_model(from_onnx).ok());
  const auto report = build_model(options(path("small_ir.txt"), "ir.aipu.bin"));
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(bytes_of(path("onnx.aipu.bin")), bytes_of(path("ir.aipu.bin")));
  // A fixed batch leaves no symbol.
  auto fixed = options(path("small_ir.txt"), "fixed.aipu.bin");
  fixed.shapes = {"x=2x1x8x8"};
  const auto fixed_report = build_model(fixed);
  ASSERT_TRUE(fixed_report.ok()) << fixed_report.status().message();
  EXPECT_TRUE(fixed_report->has_memory_plan);
  EXPECT_LE(fixed_report->arena_bytes, 2 * fixed_report->arena_lower_bound_bytes);
  fixed.shapes = {"x=2x1x9x8"};
  EXPECT_THAT(build_model(fixed).status().message(), HasSubstr("extent 2 cannot be 9"));
}

TEST_F(Build, DumpsEverythingOnTheWay) {
  auto dumped = options(write_model(), "d.aipu.bin");
  dumped.dump_ir = path("dump");
  dumped.emit_c = path("c");
  const auto report = build_model(dumped);
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const char* name : {"index.txt", "00.graph.imported.txt", "groups.txt", "plan.txt", "commands.tec.txt"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ / "dump" / name)) << name;
  }
  const std::string compiled = bytes_of(path("c/kernels.cpp"));
  size_t kernels = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "dump" / "kernels")) {
    ++kernels;
    for (const char* name : {"00.tir.txt", "tir.lowered.txt", "kernel.c"})
      EXPECT_TRUE(std::filesystem::exists(entry.path() / name)) << entry.path();
    EXPECT_THAT(compiled, HasSubstr(bytes_of(entry.path() / "kernel.c"))) << entry.path();
  }
  EXPECT_EQ(kernels, report->kernels);
}

TEST_F(Build, StopsAfterAStageOrPass) {
  auto stopped = options(write_model(), "s.aipu.bin");
  stopped.stop_after = "partition";
  const auto report = build_model(stopped);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->stopped_after, "partition");
  EXPECT_THAT(report->graph_text, HasSubstr("Conv"));
  EXPECT_FALSE(std::filesystem::exists(path("s.aipu.bin")));
  stopped.stop_after = "eliminate_dead_nodes";
  EXPECT_TRUE(build_model(stopped).ok());
  stopped.stop_after = "nonsense";
  EXPECT_THAT(build_model(stopped).status().message(), HasSubstr("there is no stage or graph pass 'nonsense'"));
}

TEST_F(Build, ErrorsAreOneLine) {
  const std::string model = write_model();
  const auto message = [&](auto change) {
    auto changed = options(model, "e.aipu.bin");
    change(changed);
    const auto report = build_model(changed);
    EXPECT_FALSE(report.ok());
    const std::string text = report.ok() ? "" : report.status().message();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  };
  EXPECT_THAT(message([&](BuildOptions& o) { o.model = path("none.onnx"); }), HasSubstr("none.onnx"));
  EXPECT_THAT(message([](BuildOptions& o) { o.target = "toaster"; }), HasSubstr("toaster"));
  EXPECT_THAT(message([](BuildOptions& o) { o.plugins = {"op.py"}; }), HasSubstr("plugin 'op.py': no such file"));
  EXPECT_THAT(message([](BuildOptions& o) { o.plugins = {"/nowhere/op.so"}; }), HasSubstr("no such file"));
  EXPECT_THAT(message([](BuildOptions& o) { o.shapes = {"x"}; }), HasSubstr("x"));
  EXPECT_THAT(message([](BuildOptions& o) { o.disabled_passes = {"nonsense"}; }), HasSubstr("nonsense"));
  EXPECT_FALSE(std::filesystem::exists(path("e.aipu.bin")));
}

// The most memory that converting the model takes, in bytes, in a process of its own.
size_t peak_of(const BuildOptions& options) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(build_model(options).ok() ? 0 : 1);
  int status = -1;
  struct rusage usage = {};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

// Weights are borrowed from the file and packed while they are written; those that are scaled exist twice. What a small
// model takes is not theirs.
TEST_F(Build, MemoryIsLittleMoreThanTheWeights) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have memory of their own";
#endif
  // In a function of its own, so that its memory is gone when the process is copied.
  const auto write_large = [&](bool scaled) {
    models::OnnxBuilder b("large", 7);
    const int64_t channels = scaled ? 1024 : 4096, taps = scaled ? 9 : 1;
    auto x = scaled ? b.input("x", DType::kF32, {"N", channels, 8, 8}) : b.input("x", DType::kF32, {"N", channels});
    size_t weights = 0;
    for (int layer = 0; layer < 2; ++layer) {
      std::vector<float> values(static_cast<size_t>(channels * channels * taps));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((i + static_cast<size_t>(layer)) % 1000);
      weights += values.size() * sizeof(float);
      if (scaled) {
        const auto w = b.initializer(models::TensorData::f32({channels, channels, 3, 3}, values));
        x = b.batch_norm(b.op("Conv", {x, w}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}), channels);
      } else {
        x = b.op("MatMul", {x, b.initializer(models::TensorData::f32({channels, channels}, values))});
      }
    }
    b.output(x);
    EXPECT_TRUE(b.save(path("large.onnx")).ok());
    return weights;
  };
  const size_t usual = peak_of(options(write_model(), "small.aipu.bin"));
  for (const bool scaled : {false, true}) {
    const size_t weights = write_large(scaled);
    const size_t peak = peak_of(options(path("large.onnx"), "large.aipu.bin"));
    EXPECT_LT(peak, usual + weights * (scaled ? 25 : 15) / 10) << weights;
  }
}

}  // namespace
}  // namespace aipu::gbuilder
