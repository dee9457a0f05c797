// The exact words of aipugb and aipurun when something is wrong: one line, exit code 1, and the target file as it was.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "models/networks.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "runtime/tools/npy.h"
#include "test_paths.h"
#include "tests/runtime/sample_models.h"

namespace aipu {
namespace {

using models::OnnxBuilder;

// The commands run in a folder of their own, so that the paths in messages are the same everywhere.
class ToolErrors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = ::testing::TempDir() + "aipu_errors_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    const std::string sample = models::find_network("sample_cnn")->build(1)->serialize();
    write("s.onnx", sample);
    write("cut.onnx", sample.substr(0, 3000));
    write("text.onnx", "hello\n");
    write("empty.onnx", "");
    write("op.cpp", "int main() {}\n");
    ASSERT_TRUE(models::find_network("soft_cap")->build(1)->save(folder_ + "/custom.onnx").ok());
    write_unknown_ops();
    write_string_input();

    auto bytes = test::chain_model().build();
    ASSERT_TRUE(write_file_atomically(folder_ + "/chain.bin", bytes).ok());
    bytes.resize(bytes.size() / 2);
    ASSERT_TRUE(write_file_atomically(folder_ + "/cut.bin", bytes).ok());
    const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8}, good = {4, 8, 12, 16, 20, 24, 28, 32},
                             bad = {4, 8, 12, 17, 20, 24, 28, 32};
    const std::vector<int64_t> integers(8), shape = {2, 4}, wide = {2, 5};
    const std::vector<float> zeros(10);
    const auto npy = [&](const char* name, DType dtype, const std::vector<int64_t>& extents, const void* data) {
      EXPECT_TRUE(tools::write_npy(folder_ + "/" + name, dtype, extents, data).ok());
    };
    npy("x.npy", DType::kF32, shape, x.data());
    npy("good.npy", DType::kF32, shape, good.data());
    npy("bad.npy", DType::kF32, shape, bad.data());
    npy("ints.npy", DType::kI64, shape, integers.data());
    npy("wide.npy", DType::kF32, wide, zeros.data());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_file_atomically(folder_ + "/" + name, std::as_bytes(std::span(text))).ok());
  }

  // A model whose weights are to be read from the FIFO `weights`.
  static void write_external(const std::string& name) {
    OnnxBuilder b("external");
    const auto x = b.input("x", DType::kF32, {4});
    b.output(b.op("Add", {x, b.initializer(models::TensorData::f32({4}, {1, 2, 3, 4}), "w")}));
    ASSERT_TRUE(b.save_with_external_data(folder_ + "/" + name, "weights", 1).ok());
    std::filesystem::remove(folder_ + "/weights");
    ASSERT_EQ(::mkfifo((folder_ + "/weights").c_str(), 0600), 0);
  }

  static void write_unknown_ops() {
    OnnxBuilder b("unknown");
    b.input("x", DType::kF32, {2});
    b.node_to("Frobnicate", {"x"}, {"a"});
    b.node_to("Relu", {"a"}, {"b"});
    b.node_to("Frobnicate", {"b"}, {"c"});
    b.output("c");
    ASSERT_TRUE(b.save(folder_ + "/unknown.onnx").ok());
  }

  static void write_string_input() {
    OnnxBuilder b("strings");
    b.output(b.op("Neg", {b.input("words", DType::kString, {2})}));
    ASSERT_TRUE(b.save(folder_ + "/strings.onnx").ok());
  }

  // Exit code; output_ is everything printed.
  int run(const std::string& command) {
    output_.clear();
    FILE* pipe = ::popen(("cd '" + folder_ + "' && " AIPU_BUILD_DIR "/bin/" + command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return -1;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) output_ += static_cast<char>(c);
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static std::set<std::string> files() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }

  struct Case {
    const char* arguments;
    const char* message;
  };
  // The command line is at fault (2) or what it names (1).
  void check_usage(const std::string& tool, std::initializer_list<Case> cases) { check(tool, cases, 2); }
  void check(const std::string& tool, std::initializer_list<Case> cases, int code = 1) {
    for (const Case& c : cases) {
      EXPECT_EQ(run(tool + " " + c.arguments), code) << c.arguments;
      EXPECT_EQ(output_, tool + ": " + c.message + "\n") << c.arguments;
    }
  }

  static inline std::string folder_;
  std::string output_;
};

TEST_F(ToolErrors, OfModelFiles) {
  check("aipugb", {{"none.onnx -o o.bin", "cannot open 'none.onnx': No such file or directory"},
                   {". -o o.bin", "cannot read '.': not a regular file, but a folder"},
                   {"cut.onnx -o o.bin", "cut.onnx: not an ONNX model: the protobuf is damaged or truncated"},
                   {"text.onnx -o o.bin", "text.onnx: not an ONNX model: the protobuf is damaged or truncated"},
                   {"chain.bin -o o.bin", "chain.bin: is an aipu.bin already; run it with aipurun"},
                   {"empty.onnx -o o.bin", "empty.onnx: not an ONNX model: there is no graph in it"},
                   {"none.txt -o o.bin", "cannot open 'none.txt': No such file or directory"}});
}

TEST_F(ToolErrors, OfUnsupportedModels) {
  check("aipugb",
        {{"custom.onnx -o o.bin",
          "custom.onnx: 1 node is not supported: example::SoftCap (1 node: '/SoftCap'): unknown operator; a plugin can "
          "define it "
          "(--plugin FILE; plugins=[FILE] in Python)"},
         {"unknown.onnx -o o.bin",
          "unknown.onnx: 2 nodes are not supported: Frobnicate-17 (2 nodes: '/a', '/c'): unknown operator; in a "
          "domain of its own a plugin can define it (--plugin FILE; plugins=[FILE] in Python)"},
         {"strings.onnx -o o.bin",
          "strings.onnx: 1 node is not supported: Neg-17 (1 node: '/Neg'): input 0 'X' may not be string"}});
}

TEST_F(ToolErrors, OfShapes) {
  check_usage("aipugb", {{"s.onnx -o o.bin --shape image", "--shape image: expected NAME=1x3x224x224"},
                         {"s.onnx -o o.bin --shape image=1x3xa", "--shape image=1x3xa: expected NAME=1x3x224x224"},
                         {"s.onnx -o o.bin --shape image=1x3x32x32 --shape image=2x3x32x32",
                          "--shape image=2x3x32x32: the shape of 'image' is given twice"}});
  check("aipugb",
        {{"s.onnx -o o.bin --shape other=1x3x32x32", "s.onnx: --shape: there is no input 'other' (inputs: 'image')"},
         {"s.onnx -o o.bin --shape image=1x3x32",
          "s.onnx: --shape: input 'image' is float32[N,3,32,32] in the model, the shape given has 3 extents"},
         {"s.onnx -o o.bin --shape image=1x4x32x32",
          "s.onnx: --shape: input 'image' is float32[N,3,32,32] in the model, extent 1 cannot be 4"}});
}

TEST_F(ToolErrors, OfConstants) {
  check_usage("aipugb",
              {{"s.onnx -o o.bin --constant image",
                "--constant image: expected NAME=VALUE or NAME=[VALUE,...], of integers, of numbers with a point, "
                "or of true and false"},
               {"s.onnx -o o.bin --constant image=",
                "--constant image=: expected NAME=VALUE or NAME=[VALUE,...], of integers, of numbers with a point, "
                "or of true and false"},
               {"s.onnx -o o.bin --constant image=1,2",
                "--constant image=1,2: expected NAME=VALUE or NAME=[VALUE,...], of integers, of numbers with a "
                "point, or of true and false"},
               {"s.onnx -o o.bin --constant image=[1,true]",
                "--constant image=[1,true]: expected NAME=VALUE or NAME=[VALUE,...], of integers, of numbers with "
                "a point, or of true and false"},
               {"s.onnx -o o.bin --constant image=1 --constant image=2",
                "--constant image=2: the input 'image' is given twice"}});
  check("aipugb", {{"s.onnx -o o.bin --constant other=1", "s.onnx: there is no input 'other' to make a constant of"},
                   {"s.onnx -o o.bin --constant image=1.5",
                    "s.onnx: input 'image' cannot be a constant float32[], the model declares another type"}});
}

TEST_F(ToolErrors, OfTheCommandLine) {
  check_usage(
      "aipugb",
      {{"", "which model? Give MODEL.onnx (see --help)"},
       {"s.onnx", "nothing to do: give -o OUT.aipu.bin (see --help)"},
       {"s.onnx -o o.bin --bogus", "The following argument was not expected: --bogus"},
       {"s.onnx -o o.bin --jobs 0", "--jobs: expected a whole number from 1 to 1024, found '0'"},
       {"s.onnx -o o.bin --target Z9",
        "unknown target \"Z9\" (there are: host, host-avx512, host-avx512-vnni, host-avx512-bf16, host-amx, host-avx2, "
        "host-baseline, aarch64-neon, aarch64-dotprod, aarch64-bf16, X2_1204, X2_1204MP3, X3P_1304, "
        "X3P_1304MP2, X3P_1304MP4, X3S_1304, X3S_1304MP2, X3S_1304MP4, cuda)"},
       {"s.onnx -o o.bin --stop-after nopass",
        "--stop-after: there is no stage or graph pass 'nopass' (see --print-pipeline)"}});
  check_usage("aipugb", {{"s.onnx -o o.bin --disable-pass nopass",
                          "--disable-pass: there is no graph or lowering pass 'nopass' (see --print-pipeline)"}});
}

TEST_F(ToolErrors, OfPlugins) {
  for (const std::string version : {"1", "3"}) {
    const std::string name = folder_ + "/old" + version, text = "void aipu_register_plugin_v" + version + "(void) {}";
    ASSERT_TRUE(write_file_atomically(name + ".c", text).ok());
    ASSERT_EQ(std::system(("cc -shared -fPIC -o " + name + ".so " + name + ".c").c_str()), 0);
  }
  check("aipugb",
        {{"s.onnx -o o.bin --plugin none.so", "plugin 'none.so': no such file"},
         {"s.onnx -o o.bin --plugin op.cpp",
          "plugin 'op.cpp': this is source; build a shared library of it and name that"},
         {"s.onnx -o o.bin --plugin old1.so",
          "plugin 'old1.so': it was built for version 1 of the plugin interface, this is version 4: build it again as "
          "kernels/ADDING_AN_OP.md says"},
         {"s.onnx -o o.bin --plugin old3.so",
          "plugin 'old3.so': it was built for version 3 of the plugin interface, this is version 4: build it again as "
          "kernels/ADDING_AN_OP.md says"},
         {"s.onnx -o o.bin --disable-plugin nothing",
          "--disable-plugin: there is no operator plugin 'nothing' (see --print-pipeline)"},
         {"s.onnx -o o.bin --plugin s.onnx", "plugin 's.onnx': ./s.onnx: invalid ELF header"},
         {"s.onnx -o o.bin --plugin " AIPU_BUILD_DIR "/lib/libaipu_backend_host.so",
          "plugin '" AIPU_BUILD_DIR "/lib/libaipu_backend_host.so': it does not export aipu_register_plugin_v4"}});
}

TEST_F(ToolErrors, OfPrecision) {
  ASSERT_TRUE(write_file_atomically(folder_ + "/fp8.txt", "# by name\n\nConv_* fp8\n").ok());
  ASSERT_TRUE(write_file_atomically(folder_ + "/one.txt", "bf16\n").ok());
  ASSERT_TRUE(write_file_atomically(folder_ + "/unknown.txt", "no_such_node* bf16\n").ok());
  check_usage(
      "aipugb",
      {{"s.onnx -o o.bin --precision int4", "--precision: expected fp32, bf16, fp16, int8 or mixed, found 'int4'"},
       {"s.onnx -o o.bin --precision mixed",
        "--precision mixed chooses by data: give --quantize DATA and --max-error METRIC=BOUND"},
       {"s.onnx -o o.bin --quantize d.npz --precision bf16", "--quantize makes int8 or mixed, --precision is 'bf16'"},
       {"s.onnx -o o.bin --quantize-option limit=1", "--quantize-option is of --quantize, which is not given"}});
  check("aipugb",
        {{"s.onnx -o o.bin --precision int8",
          "s.onnx: --precision int8: no product of this model multiplies 8-bit integers; quantising it takes typical "
          "inputs: aipugb --quantize DATA, quantize= of aipu.build"},
         {"s.onnx -o o.bin --precision-file none.txt", "s.onnx: cannot open 'none.txt': No such file or directory"},
         {"s.onnx -o o.bin --precision-file fp8.txt",
          "s.onnx: fp8.txt:3: there is no precision 'fp8'; expected fp32, bf16 or fp16"},
         {"s.onnx -o o.bin --precision-file one.txt", "s.onnx: one.txt:1: expected PATTERN PRECISION, found 'bf16'"},
         {"s.onnx -o o.bin --precision-file unknown.txt",
          "s.onnx: unknown.txt: the pattern 'no_such_node*' fits no name of a node"}});
}

TEST_F(ToolErrors, OfTargetPlugins) {
  const auto library = [&](const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_file_atomically(folder_ + "/" + name + ".c", text).ok());
    const std::string path = folder_ + "/" + name;
    ASSERT_EQ(std::system(("cc -shared -fPIC -o " + path + ".so " + path + ".c").c_str()), 0);
  };
  library("older", "void aipu_register_target_v1(void) {}");
  library("other", "void aipu_register_plugin_v4(void) {}");
  check("aipugb",
        {{"--targets --target-plugin none.so", "target plugin 'none.so': no such file"},
         {"s.onnx -o o.bin --target-plugin op.cpp",
          "target plugin 'op.cpp': this is source; build a shared library of it and name that"},
         {"s.onnx -o o.bin --target-plugin older.so",
          "target plugin 'older.so': it was built for version 1 of the target plugin interface, this is version 2: "
          "build it again as codegen/targets/README.md says"},
         {"s.onnx -o o.bin --target-plugin other.so",
          "target plugin 'other.so': it does not export aipu_register_target_v2"},
         {"s.onnx -o o.bin --target-plugin s.onnx", "target plugin 's.onnx': ./s.onnx: invalid ELF header"}});
}

// None of them waits for somebody who writes into the FIFO.
TEST_F(ToolErrors, OfWhatIsNoRegularFile) {
  for (const char* name : {"/fifo", "/fifo.py", "/fifo.so"}) ASSERT_EQ(::mkfifo((folder_ + name).c_str(), 0600), 0);
  write_external("external.onnx");
  check("aipugb",
        {{"fifo -o o.bin", "cannot read 'fifo': not a regular file, but a FIFO"},
         {"/dev/zero -o o.bin", "cannot read '/dev/zero': not a regular file, but a character device"},
         {"s.onnx -o o.bin --plugin fifo.so",
          "plugin 'fifo.so': cannot read './fifo.so': not a regular file, but a FIFO"},
         {"s.onnx -o o.bin --plugin fifo.py", "cannot read './fifo.py': not a regular file, but a FIFO"},
         {"external.onnx -o o.bin",
          "external.onnx: node '/Add' (Add): tensor 'w' needs the external data file 'weights', which is not a "
          "regular file"}});
  check("aipurun",
        {{"fifo --random", "cannot read 'fifo': not a regular file, but a FIFO"},
         {"chain.bin --input x=fifo", "cannot read 'fifo': not a regular file, but a FIFO"},
         {"chain.bin --input x=/dev/null", "cannot read '/dev/null': not a regular file, but a character device"}});
  check("aipubench", {{"fifo", "cannot read 'fifo': not a regular file, but a FIFO"}});
  check("aipudump", {{"fifo", "cannot read 'fifo': not a regular file, but a FIFO"}});
}

// What aipugb --strip leaves out.
TEST_F(ToolErrors, OfMissingSections) {
  EXPECT_EQ(run("aipugb s.onnx -o stripped.bin --strip"), 0) << output_;
  check("aipudump",
        {{"stripped.bin --c", "stripped.bin: has no section 'c', which aipugb --strip leaves out"},
         {"stripped.bin --tir", "stripped.bin: has no section 'tir', which aipugb --strip leaves out"},
         {"stripped.bin --ir", "stripped.bin: has no section 'compass_ir', which aipugb --strip leaves out"},
         {"stripped.bin --graph", "stripped.bin: has no section 'debug', which aipugb --strip leaves out"}});
  EXPECT_EQ(run("aipudump stripped.bin --commands --kernels --verify"), 0) << output_;
  EXPECT_EQ(run("aipurun stripped.bin --random"), 0) << output_;
  EXPECT_EQ(run("aipurun stripped.bin --random --backend interp"), 1);
  EXPECT_NE(output_.find("(aipugb --strip leaves it out), so the back end 'interp' cannot run it\n"), std::string::npos)
      << output_;
  EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
}

TEST_F(ToolErrors, LeaveTheTargetFileAsItWas) {
  for (const char* arguments : {"cut.onnx", "unknown.onnx", "s.onnx --target Z9", "s.onnx --shape image=1x4x32x32",
                                "s.onnx --disable-pass nopass"}) {
    write("kept.bin", "before");
    EXPECT_NE(run(std::string("aipugb ") + arguments + " -o kept.bin"), 0) << arguments;
    EXPECT_EQ(*read_text_file(folder_ + "/kept.bin"), "before") << arguments;
    const auto before = files();
    EXPECT_NE(run(std::string("aipugb ") + arguments + " -o new.bin"), 0) << arguments;
    EXPECT_EQ(files(), before) << arguments;
  }
}

TEST_F(ToolErrors, OfRunning) {
  check("aipurun",
        {{"none.bin --random", "cannot open 'none.bin': No such file or directory"},
         {"cut.bin --random",
          "cut.bin: the file is incomplete or damaged: the seal at its end does not fit; convert the model again"},
         {"x.npy --random",
          "x.npy: not an aipu.bin: the identifier 'AIPU' is missing; convert the model with aipugb first"},
         {"chain.bin", "no value for 'x' float32[N,4]; give --input NAME=FILE.npy, or --random"},
         {"chain.bin --input q=x.npy", "'q=x.npy': the model has no such input; it has: x"},
         {"chain.bin --input x", "'x' is not of the form NAME=VALUE"},
         {"chain.bin --input x=none.npy", "cannot open 'none.npy': No such file or directory"},
         {"chain.bin --input x=ints.npy", "input 'x': expected float32, found int64"},
         {"chain.bin --input x=wide.npy", "input 'x' [2,5], axis 1: expected 4, found 5"},
         {"chain.bin --random --backend nothing",
          "chain.bin: no back end 'nothing': libaipu_backend_nothing.so is in none of: " AIPU_BUILD_DIR
          "/bin, " AIPU_BUILD_DIR "/bin/../lib; set AIPU_BACKEND_PATH"}});
}

TEST_F(ToolErrors, OfExpectations) {
  EXPECT_EQ(run("aipurun chain.bin -q --input x=x.npy --expect y=good.npy"), 0) << output_;
  EXPECT_EQ(output_, "");
  check("aipurun", {{"chain.bin -q --input x=x.npy --expect y=bad.npy",
                     "output 'y' is not as expected: 1 of 8 elements differ, first at [0,3], worst at [0,3]: expected "
                     "17, found 16; max abs error 1, "
                     "max rel error 0.0588235294"},
                    {"chain.bin -q --input x=x.npy --expect y=wide.npy",
                     "output 'y' is not as expected: shape: expected [2,5], found [2,4]"},
                    {"chain.bin -q --input x=x.npy --expect y=ints.npy",
                     "output 'y' is not as expected: dtype: expected int64, found float32"}});
}

}  // namespace
}  // namespace aipu
