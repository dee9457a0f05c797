// A kernel that leaves its arrays: one line names it, from whatever thread runs it, and the signal takes its course.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "runtime/executor/worker_pool.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;
using ::testing::Not;

// stray(y, tec): TEC `tec` reads what is not there.
const std::vector<std::byte>& stray_module() {
  return test::compile_module(R"(
#include "runtime/abi/kernel_abi.h"
static void stray(const aipu_tec_context* c, const unsigned long long* w) {
  if (c->tec_id == (int)w[1]) ((float*)w[0])[0] = *(volatile float*)(unsigned long long)(64 + c->tec_count);
}
static const aipu_kernel_info kKernels[] = {{"stray", stray, 2, 0, 0, 1}};
static const aipu_kernel_module kModule = {AIPU_KERNEL_ABI_VERSION, sizeof(aipu_kernel_info), 1, kKernels};
const aipu_kernel_module* aipu_kernel_module_v1(void) { return &kModule; }
)");
}

// x[N,1] -> y[N,1], by a kernel in which TEC `tec` goes astray.
std::unique_ptr<Session> stray_session(const char* target, uint64_t tec, bool in_loop = false) {
  test::ModelBuilder b;
  b.target = target;
  b.origins = {"'custom' (Stray)"};
  const uint32_t zero = b.constant(0), one = b.constant(1), many = b.constant(1 << 20);
  const uint32_t n = b.symbol("N", 0, 0);
  b.tensor("x", DType::kF32, {n, one}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {n, one}, fb::TensorKind::kOutput);
  b.launch(b.kernel({"stray", {true, false}, 0, 0, true, {}}), {b.pointer(y, true, zero), b.word(tec)}, many);
  auto& command = b.programs[0].tec[0];
  command = fb::TecCommand(command.sequence(), command.kernel(), command.first_argument(), command.argument_count(),
                           command.first_wait(), command.wait_count(), command.max_tecs(), 0);
  if (in_loop) b.batch_loops = {fb::BatchLoop(1, 1, 0)};
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, stray_module()});
  auto model = Model::from_bytes(b.build());
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? std::move(Session::create(*model)).value() : nullptr;
}

void run_with_reports(const char* target, uint64_t tec, bool in_loop = false) {
  enable_crash_reports();
  const auto session = stray_session(target, tec, in_loop);
  const std::vector<float> x(64);
  const int64_t shape[] = {64, 1};
  if (!session->bind_input(0, {DType::kF32, shape, x.data()}).ok()) std::_Exit(1);
  const Status status = session->run();
  std::fprintf(stderr, "%s\n", status.message().c_str());
}

const auto kTheLine = AllOf(HasSubstr("aipu: kernel 'stray', from 'custom' (Stray), ended in SIGSEGV"),
                            HasSubstr("(0x4"), HasSubstr("--backend interp"), HasSubstr("CPS_DSL=dbg"));

class CrashReport : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    stray_module();
  }
};

TEST_F(CrashReport, InTheThreadThatRuns) {
  EXPECT_EXIT(run_with_reports("host-baseline", 0), KilledBySignal(SIGSEGV), kTheLine);
}

TEST_F(CrashReport, InAWorker) {
  if (available_cpus() < 2) GTEST_SKIP() << "no workers on one CPU";
  EXPECT_EXIT(run_with_reports("host-baseline", 1), KilledBySignal(SIGSEGV), kTheLine);
}

TEST_F(CrashReport, InALaneOfABatchLoop) {
  EXPECT_EXIT(run_with_reports("host-baseline", 0, true), KilledBySignal(SIGSEGV), kTheLine);
}

TEST_F(CrashReport, InATecOfTheNpu) {
  for (const uint64_t tec : {0, 3})
    EXPECT_EXIT(run_with_reports("X2_1204", tec), KilledBySignal(SIGSEGV), kTheLine) << tec;
}

// Not a kernel's fault: before one ran, and after.
TEST_F(CrashReport, OfOtherFaultsSaysNothing) {
  const auto fault = [](bool after_a_run) {
    if (after_a_run) {
      run_with_reports("X2_1204", 77);  // no TEC of this number
      run_with_reports("host-baseline", 77);
    }
    enable_crash_reports();
    *reinterpret_cast<volatile int*>(uintptr_t{64}) = 1;
  };
  EXPECT_EXIT(fault(false), KilledBySignal(SIGSEGV), Not(HasSubstr("kernel")));
  EXPECT_EXIT(fault(true), KilledBySignal(SIGSEGV), Not(HasSubstr("kernel")));
}

// The handler of before, such as Python's faulthandler, gets the signal too.
TEST_F(CrashReport, IsFollowedByTheHandlerOfBefore) {
  const auto crash = [] {
    ::signal(SIGSEGV, [](int) { std::_Exit(42); });
    run_with_reports("host-baseline", 0);
  };
  EXPECT_EXIT(crash(), ::testing::ExitedWithCode(42), kTheLine);
}

TEST_F(CrashReport, ASignalThatSomebodySendsEndsTheProcess) {
  const auto send = [] {
    enable_crash_reports();
    ::raise(SIGSEGV);
  };
  EXPECT_EXIT(send(), KilledBySignal(SIGSEGV), Not(HasSubstr("kernel")));
}

}  // namespace
}  // namespace aipu::runtime
