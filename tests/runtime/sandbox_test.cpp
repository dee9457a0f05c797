// LoadOptions::sandbox: what is computed there is what the interpreter computes outside, and whoever breaks the
// interpreter has gained nothing.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "runtime/base/file.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "test_paths.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::interpreted_model;
using test::ModelBuilder;
using test::tir_of;
using test::triple_model;

LoadOptions in_sandbox() {
  LoadOptions options;
  options.sandbox = true;
  return options;
}

std::shared_ptr<const Model> load(const ModelBuilder& builder, const LoadOptions& options) {
  auto model = Model::from_bytes(builder.build(), options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : nullptr;
}

std::vector<int32_t> numbers(int32_t first, size_t count) {
  std::vector<int32_t> x(count);
  std::iota(x.begin(), x.end(), first);
  return x;
}

Status bind(Session& session, const std::vector<int32_t>& x) {
  const int64_t shape[] = {static_cast<int64_t>(x.size())};
  return session.bind_input(0, {DType::kI32, shape, x.data()});
}

Result<std::vector<int32_t>> run(Session& session, const std::vector<int32_t>& x) {
  AIPU_RETURN_IF_ERROR(bind(session, x));
  AIPU_RETURN_IF_ERROR(session.run());
  AIPU_ASSIGN_OR_RETURN(const TensorView y, session.output(0));
  const auto* values = static_cast<const int32_t*>(y.data);
  return std::vector<int32_t>(values, values + y.shape[0]);
}

std::string error_of(const Status& status) { return status.message(); }
template <typename T>
std::string error_of(const Result<T>& result) {
  return result.status().message();
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no\n" << part;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

// ---- what works ----

TEST(Sandbox, ComputesWhatTheInterpreterComputes) {
  LoadOptions outside;
  outside.backend = "interp";
  const auto bare = load(triple_model(), outside), contained = load(triple_model(), in_sandbox());
  ASSERT_TRUE(bare && contained);
  EXPECT_EQ(contained->warning(), "");
  EXPECT_EQ(contained->name(), bare->name());
  EXPECT_EQ(contained->target(), bare->target());
  EXPECT_EQ(contained->backend(), "interp");
  EXPECT_EQ(contained->inputs()[0].text(), bare->inputs()[0].text());
  EXPECT_EQ(contained->outputs()[0].text(), bare->outputs()[0].text());
  auto expected = std::move(Session::create(bare)).value();
  auto session = Session::create(contained);
  ASSERT_TRUE(session.ok()) << error_of(session);
  for (const size_t count : {5u, 1u, 0u, 300000u, 7u}) {
    const auto x = numbers(-3, count);
    const auto y = run(**session, x);
    ASSERT_TRUE(y.ok()) << error_of(y);
    EXPECT_EQ(*y, run(*expected, x).value());
  }
}

TEST(Sandbox, FilesAreLoadedByName) {
  const std::string path = ::testing::TempDir() + "aipu_sandbox." + std::to_string(::getpid()) + ".aipu.bin";
  ASSERT_TRUE(write_file_atomically(path, triple_model().build()).ok());
  const auto model = Model::load(path, in_sandbox());
  ::unlink(path.c_str());
  ASSERT_TRUE(model.ok()) << error_of(model);
  auto first = std::move(Session::create(*model)).value();
  // A second process, of a file that has no name any more.
  auto second = Session::create(*model);
  ASSERT_TRUE(second.ok()) << error_of(second);
  EXPECT_EQ(run(*first, {1, 2}).value(), (std::vector<int32_t>{3, 6}));
  EXPECT_EQ(run(**second, {5}).value(), (std::vector<int32_t>{15}));
  expect_part(error_of(Model::load(path, in_sandbox())), "cannot open");
  expect_part(error_of(Model::load("/dev/zero", in_sandbox())), "not a regular file, but a character device");
}

TEST(Sandbox, ShapesAreKnownBeforeARunAndOutputsGoWhereTheyAreWanted) {
  const auto model = load(triple_model(), in_sandbox());
  auto session = std::move(Session::create(model)).value();
  expect_part(error_of(session->run()), "input 'x' has no value");
  const auto x = numbers(1, 6);
  ASSERT_TRUE(bind(*session, x).ok());
  ASSERT_TRUE(session->prepare().ok());
  EXPECT_EQ(session->output_shape(0).value()[0], 6);
  std::vector<int32_t> y(7, -1);
  ASSERT_TRUE(session->bind_output(0, y.data(), 7 * 4).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(y, (std::vector<int32_t>{3, 6, 9, 12, 15, 18, -1}));
  EXPECT_EQ(session->output(0).value().data, y.data());
  ASSERT_TRUE(session->bind_output(0, y.data(), 5 * 4).ok());
  expect_part(error_of(session->run()), "output 'y' [6] takes 24 bytes, but the memory given for it has 20");
  ASSERT_TRUE(session->bind_output(0, const_cast<int32_t*>(x.data()), 6 * 4).ok());
  expect_part(error_of(session->run()), "the memory given for output 'y' overlaps that of input 'x'");
  ASSERT_TRUE(session->bind_output(0, nullptr, 0).ok());
  EXPECT_EQ(run(*session, x).value()[5], 18);
  expect_part(error_of(session->bind_input(1, {})), "input 1 of 1");
  expect_part(error_of(session->bind_output(1, nullptr, 0)), "output 1 of 1");
  const int64_t shape[] = {2, 2};
  expect_part(error_of(session->bind_input(0, {DType::kF32, shape, x.data()})), "expected int32, found float32");
}

TEST(Sandbox, ErrorsOfTheModelAreTheSame) {
  auto damaged = triple_model().build();
  damaged[damaged.size() / 2] ^= std::byte{1};
  const Status outside = Model::from_bytes(damaged).status();
  ASSERT_FALSE(outside.ok());
  EXPECT_EQ(error_of(Model::from_bytes(damaged, in_sandbox())), outside.message());
  EXPECT_EQ(Model::from_bytes(damaged, in_sandbox()).status().code(), outside.code());
  LoadOptions native = in_sandbox();
  native.backend = "native";
  expect_part(error_of(Model::from_bytes(triple_model().build(), native)), "not for the back end 'native'");
  SessionOptions profile;
  profile.profile = true;
  expect_part(error_of(Session::create(load(triple_model(), in_sandbox()), profile)), "no profiles");
}

TEST(Sandbox, ThreadsHaveSessionsOfTheirOwn) {
  const auto model = load(triple_model(), in_sandbox());
  ASSERT_NE(model, nullptr);
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto session = Session::create(model);
      for (int i = 0; session.ok() && i < 20; ++i) {
        const auto x = numbers(t * 1000 + i, static_cast<size_t>(1 + t + i));
        const auto y = run(**session, x);
        if (!y.ok()) errors[static_cast<size_t>(t)] = error_of(y);
        for (size_t k = 0; y.ok() && k < x.size(); ++k) {
          if ((*y)[k] != 3 * x[k]) errors[static_cast<size_t>(t)] = "a wrong value";
        }
      }
      if (!session.ok()) errors[static_cast<size_t>(t)] = error_of(session);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

int in_a_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(100);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Sandbox, AChildMadeByForkHasProcessesOfItsOwn) {
  const auto model = load(triple_model(), in_sandbox());
  auto session = std::move(Session::create(model)).value();
  ASSERT_TRUE(run(*session, {1}).ok());
  EXPECT_EQ(in_a_child([&] {
              const auto y = run(*session, {4});
              session.reset();
              return y.ok() && (*y)[0] == 12;
            }),
            0);
  EXPECT_EQ(run(*session, {5}).value()[0], 15);
}

// ---- limits ----

TEST(Sandbox, RunawayKernelsEndWhenTheirTimeIsOver) {
  const auto model =
      load(interpreted_model("f", tir_of("f", "while (load(x#0, 0) != 0) { store y#1[0] = 1 }")), in_sandbox());
  SessionOptions options;
  options.run_seconds = 0.2;
  auto session = std::move(Session::create(model, options)).value();
  expect_part(error_of(run(*session, {1})), "the run takes longer than 0.2 s; raise the limit (--run-time-limit");
  EXPECT_TRUE(run(*session, {0}).ok());
}

TEST(Sandbox, MemoryIsLimited) {
  ModelBuilder b = triple_model();
  const uint32_t zero = b.constant(0), big = b.constant(600 << 20);
  for (int i = 0; i < 2; ++i) {
    const uint32_t t = b.tensor("t", DType::kI8, {big}, fb::TensorKind::kArena);
    b.copy(t, zero, t, zero, big, zero, zero, zero);
    b.tensors[t].first_use = 1;
  }
  auto session = std::move(Session::create(load(b, in_sandbox()))).value();
  expect_part(error_of(run(*session, {1})), "--run-memory-limit");
  LoadOptions little = in_sandbox();
  little.budget.bytes = 1000;
  expect_part(error_of(Model::from_bytes(triple_model().build(), little)), "--load-memory-limit");
  little.budget = {0, 1e-9};
  expect_part(error_of(Model::from_bytes(triple_model().build(), little)), "--load-time-limit");
}

// ---- an interpreter that is in the attacker's hands ----

class BrokenSandbox : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("AIPU_BACKEND_PATH", AIPU_BUILD_DIR "/hostile_backend", 1); }
  void TearDown() override { ::unsetenv("AIPU_BACKEND_PATH"); }

  // What comes of an attempt, and a run that tries nothing after it.
  static std::string attempt(const std::string& what, const SessionOptions& options = {},
                             const LoadOptions& load_options = in_sandbox()) {
    const auto model = load(interpreted_model(what, ""), load_options);
    if (model == nullptr) return "";
    auto session = std::move(Session::create(model, options)).value();
    EXPECT_TRUE(run(*session, {0, 7}).ok());
    const std::string error = error_of(run(*session, {1, 7}));
    const auto after = run(*session, {0, 8});
    EXPECT_TRUE(after.ok()) << what << ": " << error_of(after);
    return error;
  }
};

TEST_F(BrokenSandbox, HasNoFiles) {
  expect_part(attempt("open_file"), "open: Permission denied");
  expect_part(attempt("make_file"), "open: Permission denied");
}

TEST_F(BrokenSandbox, DiesOfForbiddenSystemCalls) {
  for (const char* what : {"open_socket", "start_process", "start_program", "make_code", "kill_parent"}) {
    SCOPED_TRACE(what);
    expect_part(attempt(what),
                "the process in the sandbox died (the run): signal 31, Bad system call: it tried a system call that a "
                "sandbox forbids");
  }
}

TEST_F(BrokenSandbox, CrashesAlone) {
  expect_part(attempt("crash"), "the process in the sandbox died (the run): signal 11, Segmentation fault");
  expect_part(attempt("abort"), "the process in the sandbox died (the run): signal 6, Aborted");
  expect_part(error_of(Model::from_bytes(interpreted_model("crash_in_load", "").build(), in_sandbox())),
              "the process in the sandbox died (loading): signal 11");
}

// A service may have its children waited for by somebody else.
TEST_F(BrokenSandbox, CrashesWhereNobodyWaitsForChildren) {
  const auto usual = ::signal(SIGCHLD, SIG_IGN);
  expect_part(attempt("crash"), "the process in the sandbox died (the run)");
  ::signal(SIGCHLD, usual);
}

TEST_F(BrokenSandbox, IsNotBelieved) {
  expect_part(attempt("speak_to_terminal"), "\\x1b[2Jtwo\\nlines");
  expect_part(attempt("talk_nonsense"), "the process in the sandbox gave no sensible answer");
}

TEST_F(BrokenSandbox, IsKilledWhenItsTimeIsOver) {
  SessionOptions options;
  options.run_seconds = 0.2;
  expect_part(attempt("run", options),
              "the process in the sandbox was killed: the run takes longer than 0.2 s; raise the limit "
              "(--run-time-limit, SessionOptions::run_seconds)");
  LoadOptions load = in_sandbox();
  load.budget.seconds = 0.2;
  expect_part(error_of(Model::from_bytes(interpreted_model("run_in_load", "").build(), load)),
              "the process in the sandbox was killed: loading takes longer than 0.2 s; raise the limit "
              "(--load-time-limit, LoadOptions::budget)");
}

TEST_F(BrokenSandbox, HasTheMemoryThatItWasGiven) {
  SessionOptions options;
  LoadOptions load = in_sandbox();
  options.memory_limit_bytes = options.plan_budget.bytes = load.budget.bytes = 64 << 20;
  // What is not used of the other limits is there too, and some for stacks.
  const std::string taken = attempt("take_memory", options, load);
  const size_t number = taken.find("took ");
  ASSERT_NE(number, std::string::npos) << taken;
  EXPECT_GE(std::atoi(taken.c_str() + number + 5), 64);
  EXPECT_LT(std::atoi(taken.c_str() + number + 5), 600);
}

TEST_F(BrokenSandbox, KilledByTheSystemSaysWhatBoundsMemory) {
  expect_part(attempt("be_killed"),
              "signal 9, Killed; the system is out of memory, or somebody killed it (--run-memory-limit, "
              "SessionOptions::memory_limit_bytes says how much it may take)");
}

// In the calling process, for good: there are no filters of system calls from now on.
bool refuse_seccomp() {
  sock_filter rows[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {static_cast<unsigned short>(std::size(rows)), rows};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(BrokenSandbox, WithoutSeccompThereAreLimitsAndAWarning) {
  EXPECT_EQ(in_a_child([] {
              if (!refuse_seccomp()) return false;
              const auto model = load(interpreted_model("open_file", ""), in_sandbox());
              expect_part(model->warning(), "limits of memory and of open files only: this system refuses filters");
              auto session = std::move(Session::create(model)).value();
              expect_part(error_of(run(*session, {1})), "open: Too many open files");
              EXPECT_TRUE(run(*session, {0}).ok());
              return !::testing::Test::HasFailure();
            }),
            0);
}

TEST(Sandbox, FromTheCommandLine) {
  const std::string path = ::testing::TempDir() + "aipu_sandbox_cli." + std::to_string(::getpid()) + ".aipu.bin";
  ASSERT_TRUE(
      write_file_atomically(path, interpreted_model("f", tir_of("f", "while true { store y#1[0] = 1 }")).build()).ok());
  const auto aipurun = [&](const std::string& options, int* code) {
    FILE* pipe = ::popen((AIPU_BUILD_DIR "/bin/aipurun " + path + " --random " + options + " 2>&1").c_str(), "r");
    std::string output;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
    const int status = ::pclose(pipe);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return output;
  };
  int code = 0;
  EXPECT_NE(aipurun("--sandbox --run-time-limit 0.2", &code).find("(--run-time-limit"), std::string::npos);
  EXPECT_EQ(code, 1);
  for (const char* useless : {"--threads 1", "--profile x.json", "--backend native"}) {
    EXPECT_NE(aipurun(std::string("--sandbox ") + useless, &code).find("--sandbox"), std::string::npos);
    EXPECT_EQ(code, 2) << useless;
  }
  ASSERT_TRUE(write_file_atomically(path, triple_model().build()).ok());
  const std::string outside = aipurun("--backend interp --shape x=9", &code);
  EXPECT_EQ(code, 0) << outside;
  EXPECT_EQ(aipurun("--sandbox --shape x=9", &code), outside);
  ::unlink(path.c_str());
}

TEST(Sandbox, IsNotThereWithoutItsProgram) {
  ::setenv("AIPU_SANDBOX", "/nowhere/aipu-sandbox", 1);
  expect_part(error_of(Model::from_bytes(triple_model().build(), in_sandbox())),
              "cannot start '/nowhere/aipu-sandbox': No such file or directory");
  ::unsetenv("AIPU_SANDBOX");
}

}  // namespace
}  // namespace aipu::runtime
