// aipurun and aipubench as a script sees them: files in, files and exit codes out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/file.h"
#include "runtime/tools/npy.h"
#include "test_paths.h"
#include "tests/runtime/sample_models.h"

namespace aipu::tools {
namespace {

using ::testing::HasSubstr;

class Tools : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "aipu_tools_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    model_ = folder_ + "/chain.aipu.bin";
    ASSERT_TRUE(write_file_atomically(model_, test::chain_model().build()).ok());
    write("x", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    write("good", {2, 4}, {4, 8, 12, 16, 20, 24, 28, 32});
    write("bad", {2, 4}, {4, 8, 12, 17, 20, 24, 28, 32});
    write("wide", {2, 5}, std::vector<float>(10));
  }
  void TearDown() override { (void)std::system(("rm -r '" + folder_ + "'").c_str()); }

  std::string path(const std::string& name) const { return folder_ + "/" + name + ".npy"; }
  void write(const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
    ASSERT_TRUE(write_npy(path(name), DType::kF32, shape, values.data()).ok());
  }

  // Exit code and everything printed.
  int run(const std::string& command) {
    output_.clear();
    FILE* pipe = ::popen((std::string(AIPU_BUILD_DIR "/bin/") + command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return -1;
    std::array<char, 512> buffer;
    while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) output_ += buffer.data();
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string folder_, model_, output_;
};

TEST_F(Tools, RunsComparesAndWrites) {
  EXPECT_EQ(run("aipurun " + model_ + " --input x=" + path("x") + " --expect y=" + path("good") + " --output-dir " +
                folder_ + "/out --profile " + folder_ + "/trace.json --threads 1"),
            0)
      << output_;
  EXPECT_THAT(output_, HasSubstr("y float32[2,4] min 4 max 32"));
  const auto y = read_npy(folder_ + "/out/y.npy");
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(y->data, read_npy(path("good"))->data);
  EXPECT_THAT(*read_text_file(folder_ + "/trace.json"), HasSubstr("\"traceEvents\""));
}

TEST_F(Tools, ADifferenceIsExitCodeOneWithPositionAndErrors) {
  EXPECT_EQ(run("aipurun " + model_ + " --input x=" + path("x") + " --expect y=" + path("bad")), 1);
  EXPECT_THAT(output_, HasSubstr("output 'y' is not as expected: 1 of 8 elements differ, first at [0,3], worst at "
                                 "[0,3]: expected 17, found 16; max abs error 1"));
  EXPECT_EQ(run("aipurun " + model_ + " --input x=" + path("x") + " --expect y=" + path("bad") + " --atol 1.5"), 0);
  EXPECT_EQ(run("aipurun " + model_ + " --input x=" + path("x") + " --expect y=" + path("wide")), 1);
  EXPECT_THAT(output_, HasSubstr("shape: expected [2,5], found [2,4]"));
}

TEST_F(Tools, ErrorsAreOneLineAndExitCodeOne) {
  const std::string damaged = folder_ + "/damaged.aipu.bin";
  auto bytes = test::chain_model().build();
  bytes[100] ^= std::byte{1};
  ASSERT_TRUE(write_file_atomically(damaged, bytes).ok());
  const std::pair<std::string, const char*> cases[] = {
      {"aipurun " + model_, "no value for 'x' float32[N,4]; give --input NAME=FILE.npy, or --random"},
      {"aipurun " + model_ + " --input x=" + path("wide"), "input 'x' [2,5], axis 1: expected 4, found 5"},
      {"aipurun " + model_ + " --input q=" + path("x"), "the model has no such input; it has: x"},
      {"aipurun " + model_ + " --input x=" + path("none"), "cannot open"},
      {"aipurun " + model_ + " --input x=" + model_, "not a .npy file"},
      {"aipurun " + damaged + " --random", "the file is incomplete or damaged"},
      {"aipurun " + path("x") + " --random", "not an aipu.bin"},
      {"aipurun " + folder_ + "/none --random", "cannot open"},
      {"aipurun " + model_ + " --random --untrusted --backend native",
       "the back end 'host' does not contain what kernels do"},
      {"aipubench " + model_ + " --shape x=1x4 --untrusted --backend native",
       "the back end 'host' does not contain what kernels do"},
      {"aipurun " + model_ + " --random --backend sim", "convert it with --target X2_1204"},
      {"aipubench " + damaged, "the file is incomplete or damaged"},
      {"aipubench " + model_ + " --shape x=2xq", "is not a shape"},
  };
  for (const auto& [command, message] : cases) {
    EXPECT_EQ(run(command), 1) << command << "\n" << output_;
    EXPECT_THAT(output_, HasSubstr(message));
    EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
  }
  EXPECT_EQ(run("aipurun"), 2);
  EXPECT_EQ(run("aipurun --no-such-flag"), 2);
  EXPECT_EQ(run("aipurun --help"), 0);
}

TEST_F(Tools, RandomInputsAreReproducible) {
  const std::string flags = " --random --shape x=3x4 --output-dir ";
  ASSERT_EQ(run("aipurun " + model_ + flags + folder_ + "/a"), 0) << output_;
  ASSERT_EQ(run("aipurun " + model_ + flags + folder_ + "/b"), 0) << output_;
  ASSERT_EQ(run("aipurun " + model_ + " --seed 5" + flags + folder_ + "/c"), 0) << output_;
  const auto a = read_npy(folder_ + "/a/y.npy"), b = read_npy(folder_ + "/b/y.npy"), c = read_npy(folder_ + "/c/y.npy");
  EXPECT_EQ(a->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(a->data, b->data);
  EXPECT_NE(a->data, c->data);
}

TEST_F(Tools, BenchmarksInEveryScenario) {
  for (const std::string scenario : {"single-stream", "offline", "server"}) {
    ASSERT_EQ(
        run("aipubench " + model_ + " --duration 0.05 --shape x=3x4 --threads 1 --scenario " + scenario + " --json -"),
        0)
        << output_;
    EXPECT_THAT(output_, HasSubstr("\"scenario\": \"" + scenario + "\""));
    EXPECT_THAT(output_, HasSubstr("\"p99\":"));
  }
}

TEST_F(Tools, AnOverloadedServerStopsAtItsTimeAndSaysSo) {
  const std::string command = "aipubench " + model_ + " --shape x=3x4 --threads 1 --scenario server --duration 0.02";
  // A million arrivals in that time: no session begins them all.
  ASSERT_EQ(run(command + " --rate 5e7"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("OVERLOADED: "));
  EXPECT_THAT(output_, HasSubstr("p99 never"));
  ASSERT_EQ(run(command + " --rate 5e7 --json -"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("\"p99\": null"));
  ASSERT_EQ(run(command + " --rate 100 --json -"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("\"unfinished\": 0"));
}

TEST_F(Tools, CountsSamples) {
  ASSERT_EQ(run("aipubench " + model_ + " --duration 0.02 --shape x=3x4 --threads 1 --json -"), 0) << output_;
  const auto value = [&](const std::string& name) {
    return std::stod(output_.substr(output_.find("\"" + name + "\": ") + name.size() + 4));
  };
  EXPECT_NEAR(value("samples_per_second"), 3 * value("runs_per_second"), 1e-4 * value("samples_per_second"));
}

TEST_F(Tools, ListsLayers) {
  ASSERT_EQ(run("aipubench " + model_ + " --duration 0.02 --shape x=3x4 --threads 1 --layers"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("GFLOP/s"));
  EXPECT_THAT(output_, HasSubstr("scale"));
  EXPECT_THAT(output_, HasSubstr("all 3 commands"));
}

TEST_F(Tools, CountsEventsOfLayers) {
  const std::string layers = "aipubench " + model_ + " --duration 0.02 --shape x=3x4 --threads 1 --layers";
  const int code = run(layers + " --counters page-faults,task-clock --json -");
  if (output_.find("needs") != std::string::npos || output_.find("need ") != std::string::npos) GTEST_SKIP() << output_;
  if (output_.find("does not let") != std::string::npos) GTEST_SKIP() << output_;
  ASSERT_EQ(code, 0) << output_;
  const size_t counts = output_.find("\"counts\": {\"page-faults\": ");
  ASSERT_NE(counts, std::string::npos) << output_;
  const std::string clock = "\"task-clock\": ";
  EXPECT_GT(std::stoll(output_.substr(output_.find(clock, counts) + clock.size())), 0) << "nanoseconds of a thread";
  EXPECT_EQ(run(layers + " --counters no-such-event"), 1);
  EXPECT_THAT(output_, HasSubstr("event 'no-such-event': "));
  EXPECT_EQ(run(layers + " --counters task-clock*zero"), 1);
  EXPECT_THAT(output_, HasSubstr("as in cache-misses*64"));
}

}  // namespace
}  // namespace aipu::tools
