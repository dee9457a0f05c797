// The runtime as its users see it: the C API from C, and a warm run that neither allocates nor calls the system.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "test_paths.h"
#include "tests/runtime/counted_allocations.h"
#include "tests/runtime/sample_models.h"

extern "C" int use_c_api(const void* bytes, size_t size, const char* path);
extern "C" int use_faulty_model(const void* bytes, size_t size);
extern "C" int use_sandbox(const char* path);
int use_cxx_api(const void* bytes, size_t size, const char* path);

namespace aipu::runtime {
namespace {

TEST(CApi, FromC) {
  const auto bytes = test::chain_model().build();
  const std::string path = ::testing::TempDir() + "aipu_c_api." + std::to_string(::getpid()) + ".aipu.bin";
  ASSERT_TRUE(write_file_atomically(path, std::span<const std::byte>(bytes)).ok());
  EXPECT_EQ(use_c_api(bytes.data(), bytes.size(), path.c_str()), 0) << "line of c_api_test.c";
  ::unlink(path.c_str());
}

TEST(CxxApi, FromCxx17) {
  const auto bytes = test::chain_model().build();
  const std::string path = ::testing::TempDir() + "aipu_cxx_api." + std::to_string(::getpid()) + ".aipu.bin";
  ASSERT_TRUE(write_file_atomically(path, std::span<const std::byte>(bytes)).ok());
  EXPECT_EQ(use_cxx_api(bytes.data(), bytes.size(), path.c_str()), 0) << "line of cxx_api_use.cpp";
  EXPECT_THAT(*read_text_file(path + ".trace.json"), ::testing::HasSubstr("traceEvents"));
  ::unlink((path + ".trace.json").c_str());
  ::unlink(path.c_str());
}

TEST(CApi, Faults) {
  const auto bytes = test::faulty_model().build();
  EXPECT_EQ(use_faulty_model(bytes.data(), bytes.size()), 0) << "line of c_api_test.c";
}

TEST(CApi, Sandbox) {
  if (::access(AIPU_BUILD_DIR "/bin/aipu-sandbox", X_OK) != 0) GTEST_SKIP() << "built without an interpreter";
  const std::string path = ::testing::TempDir() + "aipu_c_sandbox." + std::to_string(::getpid()) + ".aipu.bin";
  ASSERT_TRUE(write_file_atomically(path, test::triple_model().build()).ok());
  EXPECT_EQ(use_sandbox(path.c_str()), 0) << "line of c_api_test.c";
  ::unlink(path.c_str());
}

TEST(WarmRun, AllocatesNothing) {
  for (const auto& builder : {test::chain_model(), test::positive_model()}) {
    const bool is_chain = builder.tensors[0].shape.size() == 2;
    const auto model = Model::from_bytes(builder.build());
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto session = Session::create(*model);
    const std::vector<float> x(400, 1.0f);
    const std::vector<int64_t> shapes[] = {is_chain ? std::vector<int64_t>{100, 4} : std::vector<int64_t>{100},
                                           is_chain ? std::vector<int64_t>{50, 4} : std::vector<int64_t>{50}};
    for (const auto& shape : shapes) {
      ASSERT_TRUE((*session)->bind_input(0, {DType::kF32, shape, x.data()}).ok());
      ASSERT_TRUE((*session)->run().ok());
    }
    const int64_t before = test::allocation_count();
    for (int i = 0; i < 10; ++i) {
      if (!(*session)->run().ok()) break;
    }
    EXPECT_EQ(test::allocation_count(), before);
  }
}

TEST(Model, DescribesItself) {
  const auto model = Model::from_bytes(test::chain_model().build());
  ASSERT_TRUE(model.ok());
  EXPECT_EQ((*model)->inputs()[0].text(), "x float32[N,4]");
  EXPECT_EQ((*model)->backend(), "host");
  EXPECT_EQ(*(*model)->output_index("y"), 0u);
  EXPECT_THAT((*model)->input_index("q").status().message(),
              ::testing::HasSubstr("the model has no input 'q'; it has: x"));
}

}  // namespace
}  // namespace aipu::runtime
