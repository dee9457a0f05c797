// The shared library of the runtime can be loaded by a program that has been running for long, several times over: its
// thread-local memory comes out of the little that the process keeps for such libraries.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "runtime/aipu.h"
#include "test_paths.h"

namespace aipu::runtime {
namespace {

TEST(LoadLate, SeveralCopies) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "aipu_load_late";
  std::filesystem::create_directories(folder);
  for (int copy = 0; copy < 8; ++copy) {
    const std::string path = folder / ("libaipu_runtime_" + std::to_string(copy) + ".so");
    std::filesystem::copy_file(AIPU_BUILD_DIR "/lib/libaipu_runtime.so", path,
                               std::filesystem::copy_options::overwrite_existing);
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    const auto load = reinterpret_cast<decltype(&aipu_model_load)>(::dlsym(library, "aipu_model_load"));
    const auto last_error = reinterpret_cast<decltype(&aipu_last_error)>(::dlsym(library, "aipu_last_error"));
    ASSERT_TRUE(load != nullptr && last_error != nullptr);
    aipu_model* model = nullptr;
    EXPECT_STREQ(last_error(), "");
    EXPECT_NE(load("/no/such/file", nullptr, &model), AIPU_OK);
    EXPECT_NE(std::string(last_error()).find("/no/such/file"), std::string::npos) << last_error();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace aipu::runtime
