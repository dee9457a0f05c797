// Every option of every tool that names a file to write: a device stays a device, a link stays a link, a folder is
// refused, a full disk is named; the folder of an output is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Writer {
  const char* name;
  const char* command;  // FILE: what is written
};

constexpr Writer kWriters[] = {
    {"aipugb_o", "aipugb s.onnx -q -o FILE"},
    {"aipurun_profile", "aipurun s.bin -q --random --shape image=1x3x32x32 --profile FILE"},
    {"aipubench_json", "aipubench s.bin --shape image=1x3x32x32 --duration 0.01 --json FILE"},
    {"make_model_o", "aipu-make-model sample_cnn -o FILE"},
    {"onednn_output", "aipu-onednn-reference s.onnx --shape image=1x3x32x32 --output FILE"},
    {"onednn_save_input", "aipu-onednn-reference s.onnx --shape image=1x3x32x32 --output y.npy --save-input FILE"},
};

class Outputs : public ::testing::TestWithParam<Writer> {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "aipu_outputs_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_EQ(run("aipu-make-model sample_cnn -o s.onnx"), 0) << output_;
    ASSERT_EQ(run("aipugb s.onnx -q -o s.bin"), 0) << output_;
  }
  void TearDown() override { fs::remove_all(folder_); }

  int run(const std::string& command) {
    output_.clear();
    FILE* pipe =
        ::popen(("cd '" + folder_ + "' && PATH=" AIPU_BUILD_DIR "/bin:$PATH && (" + command + ") 2>&1").c_str(), "r");
    if (pipe == nullptr) return -1;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) output_ += static_cast<char>(c);
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int run_writing(const std::string& file) {
    std::string command = GetParam().command;
    return run(command.replace(command.find("FILE"), 4, file));
  }
  std::string in(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_, output_;
};

TEST_P(Outputs, DevicesAreWritten) {
  EXPECT_EQ(run_writing("/dev/null"), 0) << output_;
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(run_writing("/dev/full"), 1);
  EXPECT_THAT(output_, HasSubstr(": cannot write '/dev/full': No space left on device\n"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_P(Outputs, LinksStay) {
  fs::create_symlink("real", in("link"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_writing("link"), 0) << output_;
    EXPECT_TRUE(fs::is_symlink(in("link")));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(in("real"))));
    EXPECT_GT(fs::file_size(in("real")), 0u);
  }
}

TEST_P(Outputs, FifosAreWritten) {
  ASSERT_EQ(run("mkfifo fifo"), 0);
  std::string command = GetParam().command;
  EXPECT_EQ(
      run("(cat fifo > got) & " + command.replace(command.find("FILE"), 4, "fifo") + "; code=$?; wait; exit $code"), 0)
      << output_;
  EXPECT_TRUE(fs::is_fifo(in("fifo")));
  EXPECT_GT(fs::file_size(in("got")), 0u);
}

TEST_P(Outputs, FoldersAreRefused) {
  fs::create_directory(in("sub"));
  EXPECT_EQ(run_writing("sub"), 1);
  EXPECT_THAT(output_, HasSubstr(": cannot write 'sub': it is a folder; name a file in it\n"));
  EXPECT_TRUE(fs::is_empty(in("sub")));
}

TEST_P(Outputs, FoldersAreMade) {
  EXPECT_EQ(run_writing("a/b/file"), 0) << output_;
  EXPECT_TRUE(fs::is_regular_file(in("a/b/file")));
  EXPECT_EQ(std::distance(fs::directory_iterator(in("a/b")), {}), 1);
  EXPECT_EQ(run_writing("s.onnx/file"), 1);
  EXPECT_THAT(output_, HasSubstr(": cannot make the folder 's.onnx': Not a directory\n"));
}

INSTANTIATE_TEST_SUITE_P(OfAllTools, Outputs, ::testing::ValuesIn(kWriters),
                         [](const auto& writer) { return writer.param.name; });

// Options that name a folder, and the pair of --emit-ir.
TEST_F(Outputs, FoldersOfOptionsAreMadeOrRefused) {
  EXPECT_EQ(run("aipugb s.onnx -q --emit-c a/c --dump-ir a/dump --emit-ir a/ir/m -o a/m.bin"), 0) << output_;
  for (const char* file : {"a/c/kernels.cpp", "a/dump/index.txt", "a/ir/m.txt", "a/ir/m.bin", "a/m.bin"})
    EXPECT_TRUE(fs::is_regular_file(in(file))) << file;
  EXPECT_EQ(run("aipurun a/m.bin -q --random --shape image=1x3x32x32 --output-dir a/out/deep"), 0) << output_;
  EXPECT_FALSE(fs::is_empty(in("a/out/deep")));
  for (const char* option : {"--emit-c", "--dump-ir"}) {
    EXPECT_EQ(run(std::string("aipugb s.onnx -q ") + option + " s.onnx"), 1);
    EXPECT_EQ(output_, "aipugb: cannot make the folder 's.onnx': Not a directory\n");
  }
  EXPECT_EQ(run("aipurun s.bin -q --random --shape image=1x3x32x32 --output-dir s.onnx"), 1);
  EXPECT_EQ(output_, "aipurun: cannot make the folder 's.onnx': Not a directory\n");
}

}  // namespace
}  // namespace aipu
