// Converting a model while memory, threads and files fail. Each time the output is whole or not there at all, nothing
// else is left behind, the error is one line, and the process lives on.
//
// Every thread, mmap, open, read, write, fsync and rename fails in turn, and allocations that a seed spreads:
// AIPU_INJECT_ALLOCATIONS of them (500; 0: every single one), AIPU_INJECT_SEED the seed.
#include <unistd.h>

#include <filesystem>
#include <set>

#include "gbuilder/build.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "tests/injection/support.h"

namespace aipu::inject {
namespace {

namespace fs = std::filesystem;

class Convert : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / str_cat("aipu-injection-convert-", ::getpid());
    fs::remove_all(folder_);
    for (const char* name : {"", "in", "out", "tmp", "cache"}) fs::create_directories(folder_ / name);
    fs::permissions(folder_ / "cache", fs::perms::owner_all);
    ::setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
    ::setenv("AIPU_CACHE_DIR", (folder_ / "cache").c_str(), 1);
    models::OnnxBuilder b("small", 7);
    const auto x = b.input("x", DType::kF32, {"N", 8});
    b.output(b.relu(b.gemm(x, 8, 4)), "y", DType::kF32, {"N", 4});
    EXPECT_TRUE(b.save((folder_ / "in/small.onnx").string()).ok());
    options_.model = (folder_ / "in/small.onnx").string();
    options_.output = (folder_ / "out/small.aipu.bin").string();
    options_.target = "host-baseline";
    options_.jobs = 2;
    const Status status = convert();
    ASSERT_TRUE(status.ok()) << status.message();
    good_ = bytes_of(options_.output);
  }
  void TearDown() override {
    ::unsetenv("TMPDIR");
    ::unsetenv("AIPU_CACHE_DIR");
    fs::remove_all(folder_);
  }

  Status convert() const { return gbuilder::build_model(options_).status(); }

  static std::string bytes_of(const std::string& path) {
    auto text = read_text_file(path);
    return text.ok() ? *text : "";
  }

  static std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
    return names;
  }

  // Under one fault; returns the number of calls.
  uint64_t try_once(const Fault& fault) {
    fs::remove(options_.output);
    Status status;
    const uint64_t calls = run_with(
        fault, [&] { return convert(); }, &status);
    expect_clean(fault, status);
    const auto left = names_in(folder_ / "out");
    if (status.ok()) {
      EXPECT_EQ(left, std::set<std::string>{"small.aipu.bin"}) << fault.text();
      EXPECT_EQ(bytes_of(options_.output) == good_, true) << "another file " << fault.text();
    } else {
      EXPECT_EQ(left, std::set<std::string>{}) << fault.text() << ": " << status.message();
    }
    // Without any memory from some point on, folders cannot be listed and so not be removed either.
    const bool can_clean_up = fault.kind != AIPU_INJECT_ALLOCATION || !fault.onwards;
    if (can_clean_up) {
      EXPECT_EQ(names_in(folder_ / "tmp"), std::set<std::string>{}) << fault.text();
    }
    return calls;
  }

  void every_call_fails() {
    for (const bool onwards : {false, true}) {
      for (const int kind : {AIPU_INJECT_THREAD, AIPU_INJECT_MMAP, AIPU_INJECT_OPEN, AIPU_INJECT_READ,
                             AIPU_INJECT_WRITE, AIPU_INJECT_FSYNC, AIPU_INJECT_RENAME}) {
        for (uint64_t n = 1; try_once({kind, n, onwards}) >= n && !HasFailure(); ++n) {
        }
      }
    }
  }

  fs::path folder_;
  gbuilder::BuildOptions options_;
  std::string good_;
};

TEST_F(Convert, FilesAndThreadsWithKernelsFromTheCache) {
  every_call_fails();
  expect_no_leaks();
}

TEST_F(Convert, FilesAndThreadsWithTheCompiler) {
  options_.use_cache = false;
  every_call_fails();
  expect_no_leaks();
}

TEST_F(Convert, Allocations) {
  Status status;
  const uint64_t total = run_with(
      {AIPU_INJECT_ALLOCATION, 0, false}, [&] { return convert(); }, &status);
  ASSERT_TRUE(status.ok()) << status.message();
  bool onwards = false;
  for (const uint64_t n : spread(total, number_from_environment("AIPU_INJECT_ALLOCATIONS", 500))) {
    for (int i = 0; i < 2 && !HasFailure(); ++i, onwards = !onwards) try_once({AIPU_INJECT_ALLOCATION, n, onwards});
  }
  status = convert();
  EXPECT_TRUE(status.ok()) << status.message();
  expect_no_leaks();
}

}  // namespace
}  // namespace aipu::inject
