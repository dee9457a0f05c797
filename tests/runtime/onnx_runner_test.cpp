// aipu-onnx-test itself: that a wrong result, a crash, a hang and a damaged model each fail one case, and that the rest
// go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu::tools {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNodeTests = "/usr/share/libonnx-testdata/data/node";

class OnnxRunner : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(kNodeTests, R_OK) != 0) GTEST_SKIP() << "libonnx-testdata is not installed";
    folder_ = ::testing::TempDir() + "aipu_onnx_runner_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    if (!folder_.empty()) shell("rm -r '" + folder_ + "'");
  }

  static void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }
  void copy_case(const std::string& from, const std::string& to) {
    shell("cp -r " + std::string(kNodeTests) + "/" + from + " " + folder_ + "/" + to);
  }

  int run(const std::string& arguments) {
    output_.clear();
    FILE* pipe = ::popen((std::string(AIPU_BUILD_DIR "/bin/aipu-onnx-test ") + arguments + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return -1;
    std::array<char, 512> buffer;
    while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) output_ += buffer.data();
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string folder_, output_;
};

TEST_F(OnnxRunner, WhatNoCaseCanBeRunWithIsSaidOnce) {
  copy_case("test_add", "a");
  copy_case("test_sub", "b");
  for (const char* wrong :
       {"--backend nonesuch", "--backend sim", "--target nonesuch", "--target X2_1204 --backend native"}) {
    EXPECT_EQ(run(std::string(wrong) + " " + folder_), 2) << output_;
    EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
  }
}

TEST_F(OnnxRunner, ReportsEachCaseAndGoesOn) {
  copy_case("test_add", "a_right");
  copy_case("test_add", "b_wrong_data");
  shell("cp " + folder_ + "/b_wrong_data/test_data_set_0/input_0.pb " + folder_ +
        "/b_wrong_data/test_data_set_0/output_0.pb");
  copy_case("test_add", "c_damaged_model");
  shell("head -c 60 " + folder_ + "/a_right/model.onnx > " + folder_ + "/c_damaged_model/model.onnx");
  copy_case("test_add", "d_damaged_data");
  shell("head -c 60 " + folder_ + "/a_right/test_data_set_0/input_0.pb > " + folder_ +
        "/d_damaged_data/test_data_set_0/input_0.pb");
  copy_case("test_add", "e_no_data");
  shell("rm -r " + folder_ + "/e_no_data/test_data_set_0");
  copy_case("test_sequence_insert_at_back", "f_sequence");
  EXPECT_EQ(run("--jobs 2 " + folder_), 1);
  EXPECT_THAT(output_, HasSubstr("PASS a_right: 1 data set\n"));
  EXPECT_THAT(output_, HasSubstr("FAIL b_wrong_data: test_data_set_0, output 0 'sum': 60 of 60 elements differ"));
  EXPECT_THAT(output_, HasSubstr("FAIL c_damaged_model: convert: "));
  EXPECT_THAT(output_, HasSubstr("FAIL d_damaged_data: test data: "));
  EXPECT_THAT(output_, HasSubstr("FAIL e_no_data: no test_data_set_* folder"));
  EXPECT_THAT(output_, HasSubstr("SKIP f_sequence: unsupported: "));
  EXPECT_THAT(output_, HasSubstr("1 passed, 4 failed, 1 skipped\n"));

  EXPECT_EQ(run("--only a_right " + folder_), 0);
  EXPECT_THAT(output_, HasSubstr("1 passed, 0 failed, 0 skipped\n"));
}

TEST_F(OnnxRunner, AnotherProgramRunsTheModels) {
  copy_case("test_add", "a_right");
  copy_case("test_add", "b_wrong_data");
  shell("cp " + folder_ + "/b_wrong_data/test_data_set_0/input_0.pb " + folder_ +
        "/b_wrong_data/test_data_set_0/output_0.pb");
  const std::string runner = "--runner '" AIPU_BUILD_DIR "/bin/aipurun --threads 1' ";
  EXPECT_EQ(run(runner + folder_), 1);
  EXPECT_THAT(output_, HasSubstr("PASS a_right: 1 data set\n"));
  EXPECT_THAT(output_, HasSubstr("FAIL b_wrong_data: test_data_set_0: aipurun: output 'sum' is not as expected"));

  EXPECT_EQ(run("--only a_right --runner nonesuch " + folder_), 1);
  EXPECT_THAT(output_, HasSubstr("nonesuch: not found"));
  EXPECT_EQ(run("--only a_right --runner false " + folder_), 1);
  EXPECT_THAT(output_, HasSubstr("FAIL a_right: test_data_set_0: 'false' failed: exit code 1\n"));
  EXPECT_EQ(run(runner + "--backend interp " + folder_), 2);
  EXPECT_THAT(output_, HasSubstr("--backend and --threads are for its command"));
}

TEST_F(OnnxRunner, ACrashIsTheFailureOfItsCase) {
  copy_case("test_add", "case");
  ASSERT_TRUE(
      write_file_atomically(folder_ + "/crash.c",
                            std::string_view("void abort(void); void aipu_register_plugin_v4(void) { abort(); }"))
          .ok());
  shell("cc -shared -fPIC -o " + folder_ + "/crash.so " + folder_ + "/crash.c");
  EXPECT_EQ(run("--plugin " + folder_ + "/crash.so " + folder_ + "/case"), 1);
  EXPECT_THAT(output_, HasSubstr("FAIL case: crash: signal 6"));
  EXPECT_THAT(output_, HasSubstr("0 passed, 1 failed, 0 skipped\n"));
}

TEST_F(OnnxRunner, AHangIsTheFailureOfItsCase) {
  copy_case("test_add", "case");
  ASSERT_TRUE(write_file_atomically(
                  folder_ + "/hang.c",
                  std::string_view("void aipu_register_plugin_v4(void) { for (volatile int i = 0;;) i = 1; }"))
                  .ok());
  shell("cc -shared -fPIC -o " + folder_ + "/hang.so " + folder_ + "/hang.c");
  EXPECT_EQ(run("--timeout 1 --plugin " + folder_ + "/hang.so " + folder_ + "/case"), 1);
  EXPECT_THAT(output_, HasSubstr("FAIL case: timeout after 1 s"));
}

TEST_F(OnnxRunner, UsageErrors) {
  EXPECT_EQ(run("/nonexistent"), 1);
  EXPECT_THAT(output_, HasSubstr("'/nonexistent' is not a folder"));
  EXPECT_EQ(run(folder_), 1);
  EXPECT_THAT(output_, HasSubstr("has no model.onnx"));
  EXPECT_EQ(run(""), 2);
  EXPECT_EQ(run("--backend nonesuch " + std::string(kNodeTests) + "/test_add"), 2);
  EXPECT_THAT(output_, HasSubstr("--backend nonesuch: no back end 'nonesuch'"));
}

}  // namespace
}  // namespace aipu::tools
