// A batch gives what its samples give one by one, bit for bit: whether layers are run for the whole batch or, in batch
// loops, sample by sample.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "gbuilder/build.h"
#include "models/networks.h"
#include "runtime/model.h"
#include "runtime/session.h"

namespace aipu::models {
namespace {

struct Case {
  const char* network;
  bool has_batch_loops;
};

class Batch : public testing::TestWithParam<Case> {};

std::vector<float> run(runtime::Session& session, std::span<const float> x, const std::vector<int64_t>& shape) {
  Status status = session.bind_input(0, {DType::kF32, shape, x.data()});
  if (status.ok()) status = session.run();
  EXPECT_TRUE(status.ok()) << status.message();
  const auto y = session.output(0);
  EXPECT_TRUE(y.ok()) << y.status().message();
  if (!y.ok()) return {};
  size_t count = 1;
  for (const int64_t extent : y->shape) count *= static_cast<size_t>(extent);
  const auto* data = static_cast<const float*>(y->data);
  return {data, data + count};
}

TEST_P(Batch, IsItsSamples) {
  const auto folder = std::filesystem::temp_directory_path() / ("aipu-batch-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  gbuilder::BuildOptions options;
  options.model = folder / "model.onnx";
  options.output = folder / "model.aipu.bin";
  ASSERT_TRUE(find_network(GetParam().network)->build(1)->save(options.model).ok());
  const auto built = gbuilder::build_model(options);
  ASSERT_TRUE(built.ok()) << built.status().message();
  const auto model = runtime::Model::load(options.output);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::filesystem::remove_all(folder);

  std::vector<int64_t> shape;
  for (const auto& extent : (*model)->inputs()[0].shape) shape.push_back(extent.extent >= 0 ? extent.extent : 1);
  size_t size = 1;
  for (const int64_t extent : shape) size *= static_cast<size_t>(extent);
  constexpr int64_t kSamples = 3;
  std::vector<float> x(size * kSamples);
  std::mt19937 random(3);
  for (float& value : x) value = static_cast<float>(random()) * 0x1p-31f - 1.0f;

  for (const int threads : {1, 2}) {
    runtime::SessionOptions session_options;
    session_options.threads = threads;
    session_options.profile = true;
    auto session = runtime::Session::create(*model, session_options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    std::vector<float> one_by_one;
    for (int64_t sample = 0; sample < kSamples; ++sample) {
      const auto y = run(**session, std::span(x).subspan(static_cast<size_t>(sample) * size, size), shape);
      one_by_one.insert(one_by_one.end(), y.begin(), y.end());
    }
    (*session)->clear_profile();
    shape[0] = kSamples;
    const auto all = run(**session, x, shape);
    shape[0] = 1;
    EXPECT_EQ(all, one_by_one) << threads << " threads";
    bool looped = false;
    for (const auto& row : (*session)->profile()) looped |= row.sample == kSamples - 1;
    EXPECT_EQ(looped, GetParam().has_batch_loops);
  }
}

// ViT's queries, keys and values are views into a tensor whose first axis is not the batch.
INSTANTIATE_TEST_SUITE_P(Networks, Batch,
                         testing::Values(Case{"shufflenet", true}, Case{"mobilenet_v2", true}, Case{"vit_tiny16", true},
                                         Case{"mlp", false}),
                         [](const auto& batch) { return batch.param.network; });

}  // namespace
}  // namespace aipu::models
