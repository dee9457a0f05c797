// What every back end has to do, run over all of them. Those that need what a case lacks skip it, by what they declare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <thread>

#include "runtime/backends/backend_library.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "test_paths.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using ::testing::HasSubstr;

struct Row {
  const char* name;
  const char* target;
};

class Conformance : public ::testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    ::setenv("AIPU_BACKEND_PATH", AIPU_BUILD_DIR "/test_backends", 1);
    auto library = find_library(GetParam().name);
    // What reads TIR is part of the compiler's build only.
    const std::string_view name = GetParam().name;
    if (!library.ok() && (name == "interp" || name == "estimate")) GTEST_SKIP() << library.status().message();
    ASSERT_TRUE(library.ok()) << library.status().message();
    library_ = *library;
  }
  void TearDown() override { ::unsetenv("AIPU_BACKEND_PATH"); }
  bool has(uint64_t capability) const {
    const uint64_t capabilities =
        library_.driver != nullptr ? library_.driver->capabilities : library_.backend->capabilities;
    return (capabilities & capability) != 0;
  }

  std::unique_ptr<Session> open(ModelBuilder b, int threads = 0) {
    b.target = GetParam().target;
    LoadOptions options;
    options.backend = GetParam().name;
    auto model = Model::from_bytes(b.build(), options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return nullptr;
    SessionOptions session_options;
    session_options.threads = threads;
    auto session = Session::create(*model, session_options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? std::move(session).value() : nullptr;
  }

  // y for x; checks that everything succeeds.
  std::vector<float> run(Session& session, const std::vector<float>& x, std::vector<int64_t> shape) {
    Status status = session.bind_input(0, {DType::kF32, shape, x.data()});
    EXPECT_TRUE(status.ok()) << status.message();
    status = session.run();
    EXPECT_TRUE(status.ok()) << status.message();
    const auto y = session.output(0);
    if (!status.ok() || !y.ok()) return {};
    const auto* data = static_cast<const float*>(y->data);
    return {data, data + std::accumulate(y->shape.begin(), y->shape.end(), int64_t{1}, std::multiplies<>())};
  }

  BackendLibrary library_;
};

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST_P(Conformance, DeclaresItself) {
  EXPECT_TRUE((library_.driver == nullptr) != (library_.backend == nullptr));
  const bool is_device = library_.driver != nullptr;
  EXPECT_EQ(is_device ? library_.driver->api_version : library_.backend->api_version,
            is_device ? AIPU_DEVICE_API_VERSION : AIPU_BACKEND_API_VERSION);
  EXPECT_STREQ(is_device ? library_.driver->name : library_.backend->name, GetParam().name);
  EXPECT_NE(std::string_view(is_device ? library_.driver->description : library_.backend->description), "");
  // What computes needs something to compute from.
  if (has(AIPU_BACKEND_COMPUTES)) {
    EXPECT_TRUE(has(AIPU_BACKEND_NATIVE) || has(AIPU_BACKEND_TIR));
  }
}

TEST_P(Conformance, RefusesAModelWithoutWhatItNeeds) {
  ModelBuilder b = test::chain_model();
  b.sections.clear();
  b.target = GetParam().target;
  LoadOptions options;
  options.backend = GetParam().name;
  const auto model = Model::from_bytes(b.build(), options);
  if (has(AIPU_BACKEND_NATIVE)) {
    EXPECT_EQ(model.status().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(model.status().message(), HasSubstr("has no compiled kernels"));
  } else if (has(AIPU_BACKEND_TIR)) {
    EXPECT_EQ(model.status().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(model.status().message(), HasSubstr("has no TIR of kernel 'scale'"));
  } else {
    EXPECT_TRUE(model.ok());
  }
}

TEST_P(Conformance, RefusesAModuleThatIsNotTheOneDescribed) {
  if (!has(AIPU_BACKEND_NATIVE)) GTEST_SKIP() << "not native";
  LoadOptions options;
  options.backend = GetParam().name;
  ModelBuilder b = test::chain_model();
  b.target = GetParam().target;
  b.kernels[0].name = "scales";
  EXPECT_THAT(Model::from_bytes(b.build(), options).status().message(), HasSubstr("has no kernel 'scales'"));
  b.kernels[0].name = "crash";
  EXPECT_THAT(Model::from_bytes(b.build(), options).status().message(),
              HasSubstr("is not the one that the tables describe"));
  b = test::chain_model();
  b.target = GetParam().target;
  b.sections[0].bytes.assign(5000, std::byte{7});
  EXPECT_THAT(Model::from_bytes(b.build(), options).status().message(), HasSubstr("not an ELF file"));
  b.sections[0].bytes = test::test_kernels();
  b.sections[0].bytes.resize(b.sections[0].bytes.size() / 2);
  EXPECT_THAT(Model::from_bytes(b.build(), options).status().message(), HasSubstr("the native module is cut off"));
}

TEST_P(Conformance, RunsKernelsOfAnyShape) {
  if (has(AIPU_BACKEND_TIR)) GTEST_SKIP() << "the models here have no TIR; tests/gbuilder runs whole models on it";
  auto session = open(test::chain_model());
  ASSERT_NE(session, nullptr);
  for (const int64_t n : {1, 7, 100, 0}) {
    const auto x = counting(static_cast<size_t>(n) * 4);
    const auto y = run(*session, x, {n, 4});
    ASSERT_EQ(y.size(), x.size());
    if (!has(AIPU_BACKEND_COMPUTES)) continue;
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 4 * x[i]);
  }
}

TEST_P(Conformance, BarriersMeetAllTecsAndMemoriesAreSeparate) {
  if (!has(AIPU_BACKEND_BARRIERS) || has(AIPU_BACKEND_TIR)) GTEST_SKIP();
  auto session = open(test::barrier_model());
  ASSERT_NE(session, nullptr);
  for (const int64_t n : {1, 3, 1000}) {
    const auto x = counting(static_cast<size_t>(n));
    const auto y = run(*session, x, {n});
    ASSERT_EQ(y.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[x.size() - 1 - i]);
  }
}

TEST_P(Conformance, FaultsReachTheSession) {
  EXPECT_TRUE(has(AIPU_BACKEND_FAULTS));
  if (!has(AIPU_BACKEND_COMPUTES) || has(AIPU_BACKEND_TIR)) GTEST_SKIP();
  auto session = open(test::faulty_model());
  const std::vector<float> bad = {1, 2, 3, -4};
  ASSERT_TRUE(session->bind_input(0, {DType::kF32, std::vector<int64_t>{1, 4}, bad.data()}).ok());
  EXPECT_EQ(session->run().message(), "'root {value}' (Sqrt): a root of -4 at 3, -4");
  EXPECT_EQ(run(*session, counting(4), {1, 4}), counting(4));
}

TEST_P(Conformance, NoMoreTecsThanAskedFor) {
  if (!has(AIPU_BACKEND_COMPUTES) || has(AIPU_BACKEND_TIR)) GTEST_SKIP();
  for (const int64_t max_tecs : {1, 2, 3, 64}) {
    ModelBuilder b;
    const uint32_t zero = b.constant(0), n = b.constant(64);
    const uint32_t y = b.tensor("y", DType::kI32, {n}, fb::TensorKind::kOutput);
    b.launch(b.kernel(test::tecs_kernel()), {b.pointer(y, true, zero), b.number(n)}, b.constant(max_tecs));
    b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::test_kernels()});
    auto session = open(b);
    ASSERT_NE(session, nullptr);
    std::vector<int32_t> seen(64, 0);
    ASSERT_TRUE(session->bind_output(0, seen.data(), 256).ok());
    ASSERT_TRUE(session->run().ok());
    EXPECT_GE(seen[0], 1);
    EXPECT_LE(seen[0], max_tecs);
    // Each of them ran, and saw the same count.
    // What no kernel writes is the caller's still, where kernels work on its memory.
    const int known = library_.driver != nullptr ? seen[0] : 64;
    for (int t = 0; t < known; ++t) EXPECT_EQ(seen[static_cast<size_t>(t)], t < seen[0] ? seen[0] : 0);
  }
}

TEST_P(Conformance, SessionsOfOneModelAreIndependent) {
  if (has(AIPU_BACKEND_TIR)) GTEST_SKIP();
  ModelBuilder b = test::barrier_model();
  b.target = GetParam().target;
  LoadOptions options;
  options.backend = GetParam().name;
  const auto model = Model::from_bytes(b.build(), options);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::vector<std::thread> threads;
  std::vector<int> wrong(3, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      auto session = Session::create(*model);
      for (int i = 0; i < 10; ++i) {
        const int64_t shape[] = {static_cast<int64_t>(5 + t)};
        const auto x = counting(5 + t);
        if (!session.ok() || !(*session)->bind_input(0, {DType::kF32, shape, x.data()}).ok() ||
            !(*session)->run().ok()) {
          ++wrong[t];
        } else if (has(AIPU_BACKEND_COMPUTES) &&
                   static_cast<const float*>((*session)->output(0)->data)[0] != x.back()) {
          ++wrong[t];
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         ::testing::Values(Row{"host", "host-baseline"}, Row{"x2", "X2_1204"},
                                           Row{"null", "host-baseline"}, Row{"interp", "host-baseline"},
                                           Row{"estimate", "X2_1204"}, Row{"remote", "host-baseline"},
                                           Row{"delay", "host-baseline"}),
                         [](const auto& row) { return std::string(row.param.name); });

// Needs no launch(): models with kernels that report are refused before.
TEST(Backends, WithoutFaultsAreRefusedForModelsThatHaveThem) {
  const std::string folder = ::testing::TempDir() + "aipu_old_backend_" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  const auto& library = test::compile_module(R"(
#include "runtime/backends/backend_api.h"
static const aipu_backend kBackend = {AIPU_BACKEND_API_VERSION, sizeof(aipu_backend), "old", "an old one"};
const aipu_backend* aipu_backend_v1(void) { return &kBackend; }
)");
  const std::string path = folder + "/libaipu_backend_old.so";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(library.data()), static_cast<std::streamsize>(library.size()));
  ASSERT_EQ(::setenv("AIPU_BACKEND_PATH", folder.c_str(), 1), 0);
  const auto model = Model::from_bytes(test::faulty_model().build(), {.backend = "old"});
  ::unsetenv("AIPU_BACKEND_PATH");
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(),
              HasSubstr("kernel 'root' reports what it cannot compute with, which the back end "
                        "'old' does not pass on"));
}

TEST(Backends, AreFoundByName) {
  EXPECT_THAT(find_backend("nonesuch").status().message(), HasSubstr("libaipu_backend_nonesuch.so is in none of"));
  EXPECT_THAT(find_backend("../evil").status().message(), HasSubstr("is not a name of a back end"));
  EXPECT_EQ(*backend_for_target("", "host-avx2"), "host");
  EXPECT_EQ(*backend_for_target("native", "host-avx512"), "host");
  EXPECT_EQ(*backend_for_target("", "X2_1204"), "x2");
  EXPECT_EQ(*backend_for_target("sim", "X2_1204"), "x2");
  EXPECT_EQ(*backend_for_target("interp", "X2_1204"), "interp");
  EXPECT_THAT(backend_for_target("native", "X2_1204").status().message(),
              HasSubstr("cannot run natively; use --backend sim"));
  EXPECT_THAT(backend_for_target("sim", "host-avx2").status().message(), HasSubstr("not for the simulated X2_1204"));
  EXPECT_FALSE(backend_for_target("", "tpu").ok());
}

TEST(Backends, AFileSaysItsOwn) {
  EXPECT_EQ(*backend_for_target("", "tpu", "null"), "null");
  EXPECT_EQ(*backend_for_target("native", "tpu", "host"), "host");
  EXPECT_EQ(*backend_for_target("interp", "tpu", "null"), "interp");
  EXPECT_THAT(backend_for_target("native", "hosted", "npu").status().message(), HasSubstr("use --backend npu"));
  EXPECT_THAT(backend_for_target("sim", "X9", "npu").status().message(), HasSubstr("not for the simulated"));
  ModelBuilder b = test::barrier_model();
  b.target = "tpu";
  EXPECT_THAT(Model::from_bytes(b.build()).status().message(),
              HasSubstr("compiled for 'tpu', which no back end here can run"));
  b.backend = "null";
  const auto model = Model::from_bytes(b.build());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->backend(), "null");
  b.backend = "../evil";
  EXPECT_THAT(Model::from_bytes(b.build()).status().message(), HasSubstr("is not a name of a back end"));
}

TEST(X2, ExceedingLocalMemoryIsALoadErrorWithTheNumbers) {
  ModelBuilder b = test::barrier_model();
  b.target = "X2_1204";
  b.kernels[0].lsram_bytes = 40000;
  EXPECT_THAT(
      Model::from_bytes(b.build()).status().message(),
      HasSubstr("kernel 'reverse' needs 40000 bytes of local and 4096 bytes of shared memory; an X2_1204 has 32768"));
}

TEST(X2, HasFourTecsWhateverTheThreads) {
  ModelBuilder b;
  b.target = "X2_1204";
  const uint32_t zero = b.constant(0), n = b.constant(8);
  const uint32_t y = b.tensor("y", DType::kI32, {n}, fb::TensorKind::kOutput);
  b.launch(b.kernel(test::tecs_kernel()), {b.pointer(y, true, zero), b.number(n)}, b.constant(100));
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test::test_kernels()});
  auto model = Model::from_bytes(b.build());
  ASSERT_TRUE(model.ok()) << model.status().message();
  SessionOptions options;
  options.threads = 1;
  auto session = Session::create(*model, options);
  ASSERT_TRUE((*session)->run().ok());
  EXPECT_EQ(static_cast<const int32_t*>((*session)->output(0)->data)[3], 4);
}

}  // namespace
}  // namespace aipu::runtime
