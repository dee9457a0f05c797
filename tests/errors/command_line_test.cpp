// What all tools have in common: nothing that is said is ignored, numbers are checked where they are read, usage errors
// are one line and exit code 2, --version and --help, names that hold what a terminal would obey.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "models/networks.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/tools/npy.h"
#include "test_paths.h"
#include "tests/runtime/sample_models.h"

namespace aipu {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Printable, LeavesTextAndEscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("plain text, größer, 漢字, 😀"), "plain text, größer, 漢字, 😀");
  EXPECT_EQ(printable("\x1b[2Ja\x07\x7f"), "\\x1b[2Ja\\x07\\x7f");
  EXPECT_EQ(printable("a\nb\tc\r"), "a\\nb\\tc\\r");
  EXPECT_EQ(printable("a\nb\tc\r", Lines::kMany), "a\nb\tc\\r");
  EXPECT_EQ(printable("\xc2\x9b"), "\\u{9b}");                             // CSI of one character
  EXPECT_EQ(printable("\xe2\x80\xae\xe2\x81\xa6"), "\\u{202e}\\u{2066}");  // bidirectional overrides
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xe0\x9b\x9b"), "\\xe0\\x9b\\x9b");  // longer than it has to be
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(json_string("\"\\\n\x1b\xc2\x9b\xff"), R"("\"\\\u000a\u001b\u009b\ufffd")");
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("short"), "short");
  EXPECT_EQ(shortened(std::string(400, 'x')), std::string(400, 'x'));
  EXPECT_EQ(shortened(std::string(1 << 20, 'x')), std::string(397, 'x') + "…");
  EXPECT_EQ(shortened("größer", 6), "gr…");  // 'ö' would end in the middle of the dots
  EXPECT_EQ(shortened("ööö", 5), "ö…");
}

TEST(NearestName, IsTheOneThatWasMeant) {
  const std::string_view known[] = {"vadd", "vsub", "vload", "vstore", "vmul", "get_local_id"};
  EXPECT_EQ(nearest_name("vad", known), "vadd");
  EXPECT_EQ(nearest_name("vlaod", known), "vload");
  EXPECT_EQ(nearest_name("vstores", known), "vstore");
  EXPECT_EQ(nearest_name("get_locla_ids", known), "get_local_id");
  EXPECT_EQ(nearest_name("vxyz", known), "");
  EXPECT_EQ(nearest_name("v", known), "");
  EXPECT_EQ(nearest_name("", known), "");
  EXPECT_EQ(nearest_name("vadd", {}), "");
}

class CommandLine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = ::testing::TempDir() + "aipu_command_line_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_TRUE(models::find_network("sample_cnn")->build(1)->save(folder_ + "/s.onnx").ok());
    ASSERT_TRUE(write_file_atomically(folder_ + "/chain.bin", test::chain_model().build()).ok());
    const std::vector<float> x(8, 1);
    ASSERT_TRUE(tools::write_npy(folder_ + "/x.npy", DType::kF32, std::vector<int64_t>{2, 4}, x.data()).ok());
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  int run(const std::string& command) {
    output_.clear();
    FILE* pipe =
        ::popen(("cd '" + folder_ + "' && PATH=" AIPU_BUILD_DIR "/bin:$PATH && (" + command + ") 2>&1").c_str(), "r");
    if (pipe == nullptr) return -1;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) output_ += static_cast<char>(c);
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  struct Case {
    const char* command;
    const char* message;  // a part of the one line
    int code = 2;
  };
  void check(std::initializer_list<Case> cases) {
    for (const Case& c : cases) {
      EXPECT_EQ(run(c.command), c.code) << c.command << "\n" << output_;
      EXPECT_THAT(output_, HasSubstr(c.message)) << c.command;
      EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
      EXPECT_THAT(output_, StartsWith(std::string(c.command).substr(0, std::string(c.command).find(' ')) + ": "));
    }
  }

  static inline std::string folder_;
  std::string output_;
};

constexpr const char* kTools[] = {
    "aipugb", "aipudump", "aipurun", "aipubench", "aipu-make-model", "aipu-onnx-test", "aipu-onednn-reference"};

TEST_F(CommandLine, HelpAndVersionOfEveryTool) {
  for (const std::string tool : kTools) {
    EXPECT_EQ(run(tool + " --version"), 0);
    EXPECT_THAT(output_, StartsWith(tool + " 0.1.0"));
    EXPECT_EQ(run(tool + " --help"), 0);
    EXPECT_THAT(output_, HasSubstr("Example: " + tool + " "));
    EXPECT_THAT(output_, HasSubstr("Exit codes: 0 "));
    EXPECT_THAT(output_, Not(HasSubstr("TEXT\n")));
    EXPECT_EQ(run(tool), 2);
    EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
    EXPECT_EQ(run(tool + " --bogus"), 2);
    EXPECT_THAT(output_, StartsWith(tool + ": "));
    EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
    EXPECT_EQ(run(tool + " --help > /dev/full"), 1);
    EXPECT_EQ(output_, tool + ": cannot write the standard output: No space left on device\n");
  }
}

TEST_F(CommandLine, NumbersAreChecked) {
  check(
      {{"aipugb s.onnx -o o --jobs -1", "--jobs: expected a whole number from 1 to 1024, found '-1'"},
       {"aipugb s.onnx -o o --jobs 2.5", "found '2.5'"},
       {"aipugb s.onnx -o o --jobs 99999999999999999999", "expected a whole number"},
       {"aipurun chain.bin --random --threads -1", "--threads: expected a whole number from 0 to 1024, found '-1'"},
       {"aipurun chain.bin --random --threads 1x", "found '1x'"},
       {"aipurun chain.bin --random --seed -1", "--seed: expected a whole number from 0 to 2^64-1, found '-1'"},
       {"aipurun chain.bin --expect y=x.npy --rtol nan", "--rtol: expected a number from 0 on, found 'nan'"},
       {"aipurun chain.bin --expect y=x.npy --atol -1", "--atol: expected a number from 0 on"},
       {"aipubench chain.bin --duration 0", "--duration: expected a number above 0, up to 1e+06, found '0'"},
       {"aipubench chain.bin --duration inf", "found 'inf'"},
       {"aipubench chain.bin --duration nan", "found 'nan'"},
       {"aipubench chain.bin --scenario server --rate -5", "--rate: expected a number above 0"},
       {"aipubench chain.bin --threads -2", "--threads: expected a whole number from 0 to 1024"},
       {"aipu-make-model sample_cnn -o m.onnx --seed -1", "--seed: expected a whole number"},
       {"aipu-onnx-test . --jobs -1", "--jobs: expected a whole number from 0 to 1024"},
       {"aipu-onnx-test . --timeout 0", "--timeout: expected a number above 0"},
       {"aipu-onednn-reference s.onnx -o y --seed 4294967296", "--seed: expected a whole number from 0 to 4294967295"},
       {"aipudump chain.bin --symbol N=-3", "--symbol N=-3: expected NAME=NUMBER, from 0 on", 1},
       {"aipudump chain.bin --symbol N=99999999999999999999", "expected NAME=NUMBER", 1},
       {"aipudump chain.bin --symbol N", "expected NAME=NUMBER", 1}});
}

TEST_F(CommandLine, ModelsOfOneFileHaveNames) {
  check({{"aipugb s.onnx s.onnx -o o", "two models are called 's', s.onnx and s.onnx"},
         {"aipugb --entry s.onnx -o o", "--entry s.onnx: expected NAME=MODEL"},
         {"aipugb s.onnx --entry a:b=s.onnx -o o", "'a:b' is no name of an entry"},
         {"aipugb s.onnx --entry t=s.onnx --explain", "--explain is about one model at a time"},
         {"aipugb s.onnx --entry t=s.onnx -o o --emit-ir x", "--emit-ir is for one model at a time"},
         {"aipugb s.onnx --entry t=s.onnx -o o --quantize x.npy", "--quantize is for one model at a time"},
         {"aipugb s.onnx --entry t=s.onnx -o o --shape u:x=1x2", "s.onnx: --shape", 1},
         {"aipurun chain.bin --random --entry t", "chain.bin: the file has no entry 't'; it has: model", 1},
         {"aipubench chain.bin --shape x=1x4 --entry t", "chain.bin: the file has no entry 't'; it has: model", 1},
         {"aipudump chain.bin --entry t", "chain.bin: there is no entry 't'; there are: 'model'", 1}});
}

TEST_F(CommandLine, NothingThatIsSaidIsIgnored) {
  check({{"aipugb s.onnx x.bin -o o", "weights 'x.bin' beside an ONNX model, which has its own"},
         {"aipugb s.txt -o o --constant x=1", "--constant is for ONNX models"},
         {"aipugb s.onnx -q -v -o o", "--quiet excludes --verbose"},
         {"aipubench chain.bin --overlap --cycles", "--cycles excludes --overlap"},
         {"aipugb s.onnx -o o --json s.onnx/x", "cannot make the folder 's.onnx': Not a directory", 1},
         {"aipudump chain.bin --symbol Q=1", "--symbol Q=1: the model has no symbol 'Q' (there are: N)", 1},
         {"aipudump chain.bin --symbol N=1 --symbol N=2", "'N' is given twice", 1},
         {"aipudump chain.bin --tensors --symbol N=1", "--symbol is for --memory, --json and the summary"},
         {"aipudump chain.bin --commands --json x.json", "--json has all that it can show"},
         {"aipudump chain.bin --json s.onnx/x", "cannot make the folder 's.onnx': Not a directory", 1},
         {"aipurun chain.bin --input x=x.npy --input x=x.npy", "--input x=x.npy: 'x' is given twice", 1},
         {"aipurun chain.bin --random --shape x=1x4 --shape x=2x4", "--shape x=2x4: 'x' is given twice", 1},
         {"aipurun chain.bin --random --input x=x.npy --shape x=2x4", "--shape beside --input 'x'", 1},
         {"aipurun chain.bin --input x=x.npy --expect y=x.npy --expect y=x.npy", "'y' is given twice", 1},
         {"aipurun chain.bin --input x=x.npy --shape x=2x4", "--shape is of inputs made up by --random"},
         {"aipurun chain.bin --input x=x.npy --seed 2", "--seed is of --random, which is not given"},
         {"aipurun chain.bin --input x=x.npy --rtol 1", "--rtol and --atol are of --expect, which is not given"},
         {"aipubench chain.bin --shape x=1x4 --rate 5", "--rate is of --scenario server"},
         {"aipubench chain.bin --shape x=1x4 --layers --scenario offline", "--scenario does not fit"},
         {"aipubench chain.bin --shape x=1x4 --counters cycles", "--counters go with --layers"},
         {"aipubench chain.bin --shape x=1x4 --layers --overlap --counters cycles", "--overlap does not fit"},
         {"aipubench chain.bin --shape x=1x4 --shape x=2x4", "'x' is given twice", 1},
         {"aipubench chain.bin --shape x=1x4 --json s.onnx/x", "cannot make the folder 's.onnx'", 1},
         {"aipu-make-model resnet18", "--output is required"},
         {"aipu-make-model nothing -o m.onnx", "there is no model 'nothing'; --help lists them"},
         {"aipu-onnx-test . --target Z9", "unknown target \"Z9\""},
         {"aipu-onnx-test . --plugin none.so", "--plugin none.so: no such file"},
         {"aipu-onednn-reference s.onnx -o y --shape image=1x3x32x32 --input q=x.npy",
          "--input: there is no input 'q' (inputs: 'image')", 1},
         {"aipu-onednn-reference s.onnx -o y --shape image=1x3x32x32 --input image=x.npy",
          "input 'image': expected the shape [1,3,32,32], found [2,4]", 1}});
}

TEST_F(CommandLine, WhatChangesNothingIsWarnedOf) {
  EXPECT_EQ(run("aipugb s.onnx -o never.bin -q --stop-after import"), 0);
  EXPECT_EQ(output_, "aipugb: warning: -o: 'never.bin' is not written, --stop-after import ends before it\n");
  EXPECT_EQ(run("aipurun chain.bin -q --random --input x=x.npy"), 0);
  EXPECT_EQ(output_, "aipurun: warning: --random: every input is given, nothing is made up\n");
  EXPECT_EQ(run("aipurun chain.bin -q --random --threads 1024"), 0);
  EXPECT_THAT(output_, HasSubstr("aipurun: warning: --threads 1024: this machine has "));
  EXPECT_EQ(run("aipurun chain.bin -q --random --backend null"), 0);
  EXPECT_EQ(output_, "aipurun: warning: --backend null computes nothing: the outputs mean nothing\n");
}

TEST_F(CommandLine, ListsEndWhereTheyShould) {
  EXPECT_EQ(run("aipurun -q --input x=x.npy chain.bin"), 0) << output_;
  EXPECT_EQ(run("aipubench --shape x=1x4 chain.bin --duration 0.01"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("inputs x float32[1,4]\n"));
}

TEST_F(CommandLine, OpenShapesAreAskedFor) {
  check({{"aipubench chain.bin",
          "aipubench: the shape of x float32[N,4] is open; say which one is meant, such as --shape x=1x4\n", 1}});
}

TEST_F(CommandLine, TablesAreJsonToo) {
  EXPECT_EQ(run("aipubench chain.bin --shape x=3x4 --duration 0.01 --layers --json -"), 0);
  EXPECT_THAT(output_, HasSubstr("\"inputs\": {\"x\": [3,4]}"));
  EXPECT_THAT(output_, HasSubstr("\"layers\": [\n    {\"engine\": \"tec\", \"kernel\": "));
  EXPECT_THAT(output_, Not(HasSubstr("GFLOP/s")));
  EXPECT_EQ(run("aipugb s.onnx -o o.bin --json -"), 0);
  EXPECT_THAT(output_, HasSubstr("\"stage_seconds\": {\"import\": "));
  for (const char* command :
       {"aipubench chain.bin --shape x=3x4 --duration 0.01 --layers --json - | python3 -m json.tool",
        "aipugb s.onnx -o o.bin --json - | python3 -m json.tool"})
    EXPECT_EQ(run(command), 0) << output_;
}

TEST_F(CommandLine, PluginsThatCanBeDisabledAreListed) {
  EXPECT_EQ(run("aipugb --print-pipeline"), 0);
  EXPECT_THAT(output_, HasSubstr("operator plugins\n"));
  EXPECT_THAT(output_, HasSubstr(" winograd"));
}

TEST_F(CommandLine, NamesCannotSpeakToTheTerminal) {
  models::OnnxBuilder b("evil\x1b[31mmodel");
  b.input("in\x1b]0;title\x07put", DType::kF32, {2});
  b.node_to("Relu", {"in\x1b]0;title\x07put"}, {"out\xc2\x9b\xe2\x80\xaeput\n"});
  b.output("out\xc2\x9b\xe2\x80\xaeput\n");
  ASSERT_TRUE(b.save(folder_ + "/evil.onnx").ok());
  models::OnnxBuilder bad("bad");
  bad.input("x", DType::kF32, {2});
  bad.node_to("Nope\x1b[2J", {"x"}, {"y\x1b[2J"});
  bad.output("y\x1b[2J");
  ASSERT_TRUE(bad.save(folder_ + "/bad.onnx").ok());
  const auto is_clean = [&] {
    for (const char* evil : {"\x1b", "\x07", "\xc2\x9b", "\xe2\x80\xae"})
      if (output_.find(evil) != std::string::npos) return false;
    return true;
  };
  EXPECT_EQ(run("aipugb evil.onnx -v -o evil.bin"), 0) << printable(output_);
  EXPECT_TRUE(is_clean());
  for (const char* command :
       {"aipugb evil.onnx --stop-after passes", "aipudump evil.bin", "aipudump evil.bin --tensors --kernels --commands",
        "aipudump evil.bin --graph --ir --tir --c --memory", "aipudump evil.bin --json -", "aipurun evil.bin --random",
        "aipubench evil.bin --duration 0.01", "aipubench evil.bin --duration 0.01 --layers",
        "aipubench evil.bin --duration 0.01 --layers --json -"}) {
    EXPECT_EQ(run(command), 0) << command << printable(output_);
    EXPECT_TRUE(is_clean()) << command << "\n" << printable(output_, Lines::kMany);
  }
  for (const char* command : {"aipugb bad.onnx -o o", "aipurun evil.bin", "aipurun evil.bin --input x=1",
                              "aipugb \"$(printf 'no\\033[2Jfile')\" -o o", "aipugb \"--\\$(printf 'no\\033[2J')\"",
                              "aipudump evil.bin --symbol \"$(printf '\\033=1')\""}) {
    EXPECT_NE(run(command), 0) << command;
    EXPECT_TRUE(is_clean()) << command << "\n" << printable(output_, Lines::kMany);
    EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
  }
}

// One name may stand in every line.
TEST_F(CommandLine, LongNamesAreShortened) {
  constexpr int kNodes = 10;
  const std::string name(100000, 'n');
  models::OnnxBuilder b("long");
  b.input(name + "0", DType::kF32, {"N", 4});
  for (int i = 0; i < kNodes; ++i) b.node_to("Softmax", {name + std::to_string(i)}, {name + std::to_string(i + 1)});
  b.output(name + std::to_string(kNodes));
  ASSERT_TRUE(b.save(folder_ + "/long.onnx").ok());
  ASSERT_EQ(run("aipugb long.onnx -o long.bin"), 0) << output_.substr(0, 2000);
  for (const std::string& command :
       {std::string("aipudump long.bin"), std::string("aipudump long.bin --tensors --kernels --commands"),
        std::string("aipudump long.bin --json -"), std::string("aipudump long.bin --memory --symbol N=1"),
        "aipubench long.bin --duration 0.01 --layers --json - --shape " + name + "0=1x4"}) {
    EXPECT_EQ(run(command), 0) << command.substr(0, 100) << output_.substr(0, 2000);
    EXPECT_LT(output_.size(), 300000u) << command.substr(0, 100);
    EXPECT_THAT(output_, HasSubstr("nnn…")) << command.substr(0, 100);
  }
}

}  // namespace
}  // namespace aipu
