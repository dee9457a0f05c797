// aipurun and aipugb while memory, threads and files fail: the functions in front of the C library's are preloaded. Each
// time the tool does what it should or says in one line what is short, ends with the exit code for that, and leaves
// nothing half-written.
//
// Every thread, mmap, open, read, write, fsync and rename fails in turn, and AIPU_INJECT_TOOL_ALLOCATIONS allocations
// that a seed spreads (60; 0 for every single one).
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "test_paths.h"
#include "tests/injection/support.h"

namespace aipu::inject {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = 0;
  std::string text;
  uint64_t calls = 0;
};

class Tools : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / str_cat("aipu-injection-tools-", ::getpid());
    fs::remove_all(folder_);
    for (const char* name : {"", "in", "out", "tmp", "cache"}) fs::create_directories(folder_ / name);
    fs::permissions(folder_ / "cache", fs::perms::owner_all);
    models::OnnxBuilder b("small", 7);
    const auto x = b.input("x", DType::kF32, {3, 8});
    b.output(b.relu(b.gemm(x, 8, 4)), "y", DType::kF32, {3, 4});
    ASSERT_TRUE(b.save(in("in/small.onnx")).ok());
    const Outcome outcome = run("aipugb", converting() + in("in/good.bin"), {-1, 0, false});
    ASSERT_EQ(outcome.code, 0) << outcome.text;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  std::string converting() const { return in("in/small.onnx") + " --target host-baseline --jobs 2 -q -o "; }

  Outcome run(const std::string& tool, const std::string& arguments, const Fault& fault) const {
    std::string command =
        str_cat("TMPDIR='", in("tmp"), "' AIPU_CACHE_DIR='", in("cache"), "' AIPU_INJECT_LOG='", in("calls"), "' ");
    if (fault.kind >= 0) {
      command += str_cat("AIPU_INJECT=", aipu_inject_name(fault.kind), ":", fault.n, fault.onwards ? "+" : "",
                         " LD_PRELOAD='" AIPU_BUILD_DIR "/lib/libaipu_fault_injector.so' ");
    }
    command += str_cat("exec '" AIPU_BUILD_DIR "/bin/", tool, "' ", arguments, " 2>&1");
    fs::remove(in("calls"));
    Outcome outcome;
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return {-1, "popen", 0};
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) outcome.text += static_cast<char>(c);
    const int status = ::pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (const auto calls = read_text_file(in("calls")); calls.ok())
      outcome.calls = std::strtoull(calls->c_str(), nullptr, 10);
    return outcome;
  }

  static std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
    return names;
  }

  // Under one fault; whether it happened.
  bool try_once(const std::string& tool, const std::string& arguments, const std::set<std::string>& outputs,
                const Fault& fault) {
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) fs::remove_all(entry.path());
    const Outcome outcome = run(tool, arguments, fault);
    const std::string where = str_cat(tool, " ", fault.text(), ": ", outcome.text);
    const auto left = names_in(folder_ / "out");
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 1) << outcome.code << ", " << where;
    if (outcome.code == 0) {
      EXPECT_EQ(left, outputs) << where;
    } else {
      ++refused_;
      EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << where;
      EXPECT_TRUE(outcome.text.starts_with(tool + ": ")) << where;
      EXPECT_EQ(outcome.text.find("bug in aipu"), std::string::npos) << where;
      EXPECT_EQ(left, std::set<std::string>{}) << where;
    }
    return outcome.calls >= fault.n || outcome.code != 0;
  }

  void every_call_fails(const std::string& tool, const std::string& arguments, const std::set<std::string>& outputs) {
    for (const bool onwards : {false, true}) {
      for (const int kind : {AIPU_INJECT_THREAD, AIPU_INJECT_MMAP, AIPU_INJECT_OPEN, AIPU_INJECT_READ,
                             AIPU_INJECT_WRITE, AIPU_INJECT_FSYNC, AIPU_INJECT_RENAME}) {
        for (uint64_t n = 1; try_once(tool, arguments, outputs, {kind, n, onwards}) && !HasFailure(); ++n) {
        }
      }
    }
    const uint64_t total = run(tool, arguments, {AIPU_INJECT_ALLOCATION, 0, false}).calls;
    EXPECT_GT(total, 100u);
    EXPECT_GT(refused_, 5);
    refused_ = 0;
    const auto chosen = spread(total, number_from_environment("AIPU_INJECT_TOOL_ALLOCATIONS", 60));
    bool onwards = false;
    for (const uint64_t n : chosen) {
      if (HasFailure()) return;
      try_once(tool, arguments, outputs, {AIPU_INJECT_ALLOCATION, n, onwards});
      onwards = !onwards;
    }
    EXPECT_GT(refused_, static_cast<int>(chosen.size() / 2));
  }

  fs::path folder_;
  int refused_ = 0;
};

TEST_F(Tools, AipurunOnNativeCode) {
  every_call_fails("aipurun", in("in/good.bin") + " --random --threads 2 -q --output-dir " + in("out"), {"y.npy"});
}

TEST_F(Tools, AipurunInterpreting) {
  every_call_fails("aipurun", in("in/good.bin") + " --random --threads 2 --backend interp -q --output-dir " + in("out"),
                   {"y.npy"});
}

TEST_F(Tools, Aipugb) { every_call_fails("aipugb", converting() + in("out/small.aipu.bin"), {"small.aipu.bin"}); }

}  // namespace
}  // namespace aipu::inject
