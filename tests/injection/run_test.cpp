// Loading and running a model while memory, threads and files fail: every call in turn, once and from there on. Each
// time the result is right or an error in one line, nothing leaks, and the process lives on.
//
// Where there are too many allocations, 500 that a seed spreads fail; AIPU_INJECT_ALLOCATIONS is how many instead (0:
// every single one), AIPU_INJECT_SEED the seed.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "gbuilder/build.h"
#include "models/onnx_builder.h"
#include "runtime/aipu.h"
#include "runtime/base/file.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/injection/support.h"
#include "tests/runtime/model_builder.h"

namespace aipu::inject {
namespace {

constexpr int64_t kBatch = 3, kIn = 8, kOut = 4;

// A layer, and an output whose extent depends on data: two stages, kernels, copies, constants.
std::string make_model(const std::string& folder, const std::string& target) {
  models::OnnxBuilder b("small", 7);
  const auto x = b.input("x", DType::kF32, {"N", kIn});
  const auto y = b.relu(b.gemm(x, kIn, kOut));
  b.output(y, "y", DType::kF32, {"N", kOut});
  b.output(b.op("NonZero", {y}), "where", DType::kI64, {2, "K"});
  EXPECT_TRUE(b.save(folder + "/small.onnx").ok());
  gbuilder::BuildOptions options;
  options.model = folder + "/small.onnx";
  options.output = str_cat(folder, "/", target, ".aipu.bin");
  options.target = target;
  const auto report = gbuilder::build_model(options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return options.output;
}

// The same input, and a kernel whose TECs meet. By hand: what the compiler writes takes the interpreter 50 times as many
// allocations, which would all have to fail in turn.
std::string make_interpreted_model(const std::string& folder) {
  test::ModelBuilder b;
  b.tec_count = 2;
  const uint32_t zero = b.constant(0), two = b.constant(2), n = b.symbol("N", 0, 0), extent = b.constant(kIn);
  const uint32_t x = b.tensor("x", DType::kF32, {n, extent}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kI32, {two}, fb::TensorKind::kOutput);
  test::KernelRow row{"meet", {true, true}};
  row.uses_barrier = true;
  row.tir = R"(func meet(x#0: global float32*, y#1: global int32*) -> void {
    let id#2: int32 = S.get_local_id<int32>()
    eval S.barrier<void>()
    store y#1[id#2] = (id#2 + 5)
  })";
  b.launch(b.kernel(row), {b.pointer(x, false, zero), b.pointer(y, true, zero)}, two);
  const std::string path = folder + "/by_hand.aipu.bin";
  EXPECT_TRUE(write_file_atomically(path, b.build()).ok());
  return path;
}

const std::vector<float>& input_data() {
  static const std::vector<float> data = [] {
    std::vector<float> values(kBatch * kIn);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
    return values;
  }();
  return data;
}

// Both outputs, as bytes.
using Outputs = std::vector<std::string>;

Status run_by_cpp(const std::string& file, const std::string& backend, Outputs* outputs) {
  runtime::LoadOptions load_options;
  load_options.backend = backend;
  AIPU_ASSIGN_OR_RETURN(const auto model, runtime::Model::load(file, load_options));
  runtime::SessionOptions session_options;
  session_options.threads = 2;
  AIPU_ASSIGN_OR_RETURN(const auto session, runtime::Session::create(model, session_options));
  static constexpr int64_t kShape[] = {kBatch, kIn};
  AIPU_RETURN_IF_ERROR(session->bind_input(0, {DType::kF32, kShape, input_data().data()}));
  // A session must be of use after an error as well.
  Status status = session->run();
  if (!status.ok()) {
    aipu_inject_arm(-1, 0, 0);
    Status again = session->run();
    EXPECT_TRUE(again.ok()) << "a run after one that failed (" << status.message() << "): " << again.message();
  }
  for (size_t i = 0; i < model->outputs().size() && status.ok(); ++i) {
    AIPU_ASSIGN_OR_RETURN(const auto view, session->output(i));
    size_t bytes = dtype_bytes(view.dtype);
    for (const int64_t extent : view.shape) bytes *= static_cast<size_t>(extent);
    (*outputs)[i].assign(static_cast<const char*>(view.data), bytes);
  }
  return status;
}

Status run_by_c(const std::string& file, const std::string& backend, Outputs* outputs) {
  aipu_model* model = nullptr;
  aipu_session* session = nullptr;
  const int64_t shape[] = {kBatch, kIn};
  aipu_status code = aipu_model_load(file.c_str(), backend.c_str(), &model);
  if (code == AIPU_OK) code = aipu_session_create(model, 2, &session);
  if (code == AIPU_OK) code = aipu_session_bind_input(session, 0, AIPU_FLOAT32, shape, 2, input_data().data());
  if (code == AIPU_OK) code = aipu_session_run(session);
  for (uint32_t i = 0; code == AIPU_OK && i < aipu_model_output_count(model); ++i) {
    aipu_tensor tensor;
    code = aipu_session_output(session, i, &tensor);
    if (code == AIPU_OK) (*outputs)[i].assign(static_cast<const char*>(tensor.data), tensor.size_bytes);
  }
  aipu_session_release(session);
  aipu_model_release(model);
  if (code != AIPU_OK) aipu_inject_arm(-1, 0, 0);  // the rest is the test's own
  return code == AIPU_OK ? Status() : Status(static_cast<ErrorCode>(code), aipu_last_error());
}

using Road = Status (*)(const std::string&, const std::string&, Outputs*);

struct Case {
  const char* name;
  const char* file;
  const char* backend;
  Road road;
  uint64_t allocations = 0;  // so many of them fail, spread by a seed; 0: every one
};
constexpr Case kCases[] = {{"NativeCpp", "host-baseline", "native", &run_by_cpp},
                           {"NativeC", "host-baseline", "native", &run_by_c},
                           {"Simulated", "X2_1204", "sim", &run_by_cpp},
                           {"Interpreted", "by_hand", "interp", &run_by_cpp},
                           {"InterpretedConverted", "host-baseline", "interp", &run_by_cpp, 500}};

class Run : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    folder_ = (std::filesystem::temp_directory_path() / str_cat("aipu-injection-run-", ::getpid())).string();
    std::filesystem::create_directories(folder_);
    for (const char* target : {"host-baseline", "X2_1204"}) make_model(folder_, target);
    make_interpreted_model(folder_);
    input_data();  // the test's own memory, too
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  std::string file() const { return str_cat(folder_, "/", GetParam().file, ".aipu.bin"); }

  // Under one fault; returns whether it happened.
  bool try_once(const Fault& fault, const Outputs* expected, uint64_t* count = nullptr) const {
    // Room for the outputs, so that the test's own copies do not fail.
    Outputs outputs(2);
    for (std::string& output : outputs) output.reserve(4096);
    const std::string path = file(), backend = GetParam().backend;
    Status status;
    const uint64_t calls = run_with(
        fault, [&] { return GetParam().road(path, backend, &outputs); }, &status);
    expect_clean(fault, status);
    if (status.ok() && expected != nullptr) {
      EXPECT_EQ(outputs, *expected) << fault.text();
    }
    if (count != nullptr) *count = calls;
    return calls >= fault.n || !status.ok();
  }

  // One from each of `count` equal parts, so that no stage is left out.
  void some_allocations_fail(uint64_t count, bool onwards, const Outputs& expected) const {
    uint64_t total = 0;
    EXPECT_TRUE(try_once({AIPU_INJECT_ALLOCATION, 0, false}, &expected, &total));
    for (const uint64_t n : spread(total, count)) {
      EXPECT_TRUE(try_once({AIPU_INJECT_ALLOCATION, n, onwards}, &expected));
      if (HasFailure()) return;
    }
  }

  Outputs good_outputs() const {
    Outputs outputs(2);
    const Status status = GetParam().road(file(), GetParam().backend, &outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    return outputs;
  }

  static std::string folder_;
};
std::string Run::folder_;

constexpr int kKinds[] = {AIPU_INJECT_THREAD, AIPU_INJECT_MMAP,  AIPU_INJECT_OPEN,  AIPU_INJECT_READ,
                          AIPU_INJECT_WRITE,  AIPU_INJECT_FSYNC, AIPU_INJECT_RENAME};

// In a fresh process each: nothing has been loaded or looked up yet. First in this file, while that is so of this one.
TEST_P(Run, Cold) {
  if (__lsan_do_recoverable_leak_check != nullptr) GTEST_SKIP() << "Warm covers the same without a process each";
  const auto in_child = [&](const Fault& fault) {
    if (HasFailure()) return false;  // one is enough, and the child would take it for its own
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      const bool happened = try_once(fault, nullptr);
      ::_exit(HasFailure() ? 1 : happened ? 0 : 2);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << fault.text() << ": signal " << WTERMSIG(status);
    EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2) << fault.text() << ": " << WEXITSTATUS(status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  for (const bool onwards : {false, true}) {
    uint64_t n = 1;
    // The back ends are loaded early: later calls are those of Warm.
    while (n < 1500 && in_child({AIPU_INJECT_ALLOCATION, n, onwards})) n += 1 + n / 200;
    EXPECT_GT(n, 30u);
    for (const int kind : kKinds) {
      for (n = 1; in_child({kind, n, onwards}); ++n) {
      }
    }
  }
}

TEST_P(Run, Warm) {
  const Outputs expected = good_outputs();
  ASSERT_FALSE(HasFailure());
  for (const bool onwards : {false, true}) {
    uint64_t n = 1;
    if (const uint64_t count = number_from_environment("AIPU_INJECT_ALLOCATIONS", GetParam().allocations); count > 0) {
      some_allocations_fail(count, onwards, expected);
    } else {
      while (try_once({AIPU_INJECT_ALLOCATION, n, onwards}, &expected) && !HasFailure()) ++n;
      EXPECT_GT(n, 30u);
    }
    for (const int kind : kKinds) {
      for (n = 1; try_once({kind, n, onwards}, &expected) && !HasFailure(); ++n) {
      }
    }
  }
  EXPECT_EQ(good_outputs(), expected);
  expect_no_leaks();
}

INSTANTIATE_TEST_SUITE_P(Backends, Run, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace aipu::inject
