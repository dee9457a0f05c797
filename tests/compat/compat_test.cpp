// Files that earlier versions wrote load and give the same bytes (README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "runtime/model.h"
#include "runtime/session.h"
#include "runtime/tools/npy.h"
#include "test_paths.h"

namespace aipu::runtime {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> old_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(AIPU_SOURCE_DIR) / "tests/compat")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Folder, back end ("" is what the file was made for).
class OldFile : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(OldFile, GivesTheSameBytes) {
  const fs::path folder = fs::path(AIPU_SOURCE_DIR) / "tests/compat" / std::get<0>(GetParam());
  LoadOptions options;
  options.backend = std::get<1>(GetParam());
  if (fs::exists(folder / "trusted_key.pem")) {
#ifndef AIPU_HAS_SIGNATURE
    GTEST_SKIP() << "built without libsodium";
#endif
    options.trusted_key = (folder / "trusted_key.pem").string();
  }
  const auto model = Model::load((folder / "model.aipu.bin").string(), options);
#if !defined(__x86_64__)
  if (!model.ok() && options.backend.empty()) GTEST_SKIP() << "native code for x86-64: " << model.status().message();
#endif
  // A stripped file has no kernels for the interpreter, and says so.
  if (!model.ok() && options.backend == "interp") {
    EXPECT_THAT(model.status().message(), testing::HasSubstr("(aipugb --strip leaves it out)"));
    return;
  }
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto session = Session::create(*model);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<tools::Array> inputs;
  inputs.reserve((*model)->inputs().size());
  for (size_t i = 0; i < (*model)->inputs().size(); ++i) {
    auto array = tools::read_npy((folder / ("input_" + (*model)->inputs()[i].name + ".npy")).string());
    ASSERT_TRUE(array.ok()) << array.status().message();
    inputs.push_back(std::move(*array));
    const Status bound = (*session)->bind_input(i, {inputs[i].dtype, inputs[i].shape, inputs[i].data.data()});
    ASSERT_TRUE(bound.ok()) << bound.message();
  }
  const Status run = (*session)->run();
  ASSERT_TRUE(run.ok()) << run.message();
  for (size_t i = 0; i < (*model)->outputs().size(); ++i) {
    const auto expected = tools::read_npy((folder / ("output_" + (*model)->outputs()[i].name + ".npy")).string());
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const auto found = (*session)->output(i);
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_EQ(std::vector<int64_t>(found->shape.begin(), found->shape.end()), expected->shape);
    EXPECT_EQ(std::memcmp(found->data, expected->data.data(), expected->data.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Compat, OldFile,
                         testing::Combine(testing::ValuesIn(old_files()), testing::Values("", "interp")),
                         [](const auto& old) {
                           const std::string backend = std::get<1>(old.param);
                           return std::get<0>(old.param) + (backend.empty() ? "" : "_" + backend);
                         });

}  // namespace
}  // namespace aipu::runtime
