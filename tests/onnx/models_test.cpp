// The trained models of ../shared/models: converted, run on the stored inputs, compared with the tolerances of their
// manifest.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "gbuilder/build.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "runtime/tools/compare.h"
#include "runtime/tools/onnx_test/test_data.h"
#include "tests/onnx/runner.h"

namespace aipu::onnx_tests {
namespace {

struct ModelCase {
  const char* name;
  const char* rtol;
  const char* atol;
  const char* extra = "";  // further arguments of the runner
  const char* label = "";  // keeps test names apart
};

std::ostream& operator<<(std::ostream& stream, const ModelCase& c) { return stream << c.name << " " << c.extra; }

class Models : public ::testing::TestWithParam<ModelCase> {};

TEST_P(Models, GiveTheStoredOutputs) {
  const ModelCase& c = GetParam();
  const std::string root = models_folder();
  if (root.empty()) GTEST_SKIP() << "no ../shared/models beside the checkout (AIPU_MODELS names another place)";
  std::string name = c.name, folder = root + "/" + name, only;
  if (name.rfind("light_", 0) == 0) {
    folder = root + "/light";
    only = " --only " + name;
  }
  const RunReport report = run_cases(std::string("--jobs 1 --timeout 600 --rtol ") + c.rtol + " --atol " + c.atol +
                                     " " + c.extra + only + " " + folder);
  ASSERT_EQ(report.cases.size(), 1u) << report.output;
  EXPECT_EQ(report.cases.begin()->second.outcome, "PASS") << report.output;
  EXPECT_EQ(report.exit_code, 0) << report.output;
}

std::string test_name(const ::testing::TestParamInfo<ModelCase>& info) {
  return std::string(info.param.name) + info.param.label;
}

constexpr ModelCase kTrained[] = {
    {"mnist_cntk", "1e-3", "1e-2"},
    {"super_resolution", "1e-3", "1e-5"},
    {"ultraface_rfb_320", "1e-3", "1e-4"},
    {"yolox_nano", "1e-3", "1e-3"},
    {"basic_pitch", "1e-3", "1e-3"},
    {"magika_v1", "1e-3", "1e-4"},
    {"speech_embedding", "1e-3", "1e-4"},
    {"lgbm_as_tensors", "1e-4", "1e-5"},
    {"dtln_stage1", "1e-3", "1e-4"},
    {"gtcrn_stream", "1e-3", "1e-4"},
    {"sbd_bidi_lstm", "1e-3", "1e-3"},
    {"shufflenet_v2_int8", "0", "0.87"},
    {"shufflenet_v2_int8", "0", "0.87", "--target host-baseline", "_baseline"},
    {"shufflenet_v2_int8", "0", "0.87", "--target X2_1204", "_x2"},
    {"mnist_cntk", "1e-3", "1e-2", "--target X2_1204", "_x2"},
    {"super_resolution", "1e-3", "1e-5", "--target X2_1204", "_x2"},
    {"lgbm_as_tensors", "1e-4", "1e-5", "--target X2_1204", "_x2"},
    {"mnist_cntk", "1e-3", "1e-2", "--backend interp", "_interp"},
    {"super_resolution", "1e-3", "1e-5", "--backend interp", "_interp"},
    {"lgbm_as_tensors", "1e-4", "1e-5", "--backend interp", "_interp"},
};
INSTANTIATE_TEST_SUITE_P(Trained, Models, ::testing::ValuesIn(kTrained), test_name);

// Structure only, constant weights (light/README.md).
constexpr ModelCase kLight[] = {
    {"light_bvlc_alexnet", "1e-3", "1e-7"}, {"light_densenet121", "2e-3", "1e-7"},
    {"light_inception_v1", "1e-3", "1e-7"}, {"light_inception_v2", "1e-3", "1e-7"},
    {"light_resnet50", "1e-3", "1e-7"},     {"light_shufflenet", "1e-3", "1e-7"},
    {"light_squeezenet", "1e-3", "1e-7"},   {"light_vgg19", "1e-3", "1e-7"},
    {"light_zfnet512", "1e-3", "1e-7"},
};
INSTANTIATE_TEST_SUITE_P(Light, Models, ::testing::ValuesIn(kLight), test_name);

// One conversion serves every batch size, and what is in one image does not depend on its neighbours.
TEST(DynamicBatch, SuperResolution) {
  const std::string root = models_folder();
  if (root.empty()) GTEST_SKIP() << "no ../shared/models beside the checkout (AIPU_MODELS names another place)";
  const std::string folder = root + "/super_resolution";
  std::string scratch = ::testing::TempDir() + "aipu_batch_XXXXXX";
  ASSERT_NE(::mkdtemp(scratch.data()), nullptr);
  gbuilder::BuildOptions build;
  build.model = folder + "/model.onnx";
  build.output = scratch + "/model.aipu.bin";
  const auto built = gbuilder::build_model(build);
  ASSERT_TRUE(built.ok()) << built.status().message();
  const auto model = runtime::Model::load(build.output, {});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto session = runtime::Session::create(*model, {});
  ASSERT_TRUE(session.ok()) << session.status().message();

  std::vector<tools::Array> inputs, references, singles;
  for (const char* set : {"0", "1"}) {
    auto input = tools::read_tensor_pb(folder + "/test_data_set_" + set + "/input_0.pb");
    auto output = tools::read_tensor_pb(folder + "/test_data_set_" + set + "/output_0.pb");
    ASSERT_TRUE(input.ok() && output.ok());
    inputs.push_back(std::move(*input));
    references.push_back(std::move(*output));
  }
  constexpr tools::Tolerance kTolerance{1e-3, 1e-5};
  for (const int64_t batch : {1, 3, 8, 1}) {
    SCOPED_TRACE(batch);
    // Images 0, 1, 0, 1, ...; alone each of them in turn.
    for (size_t first = 0; first < (batch == 1 ? 2u : 1u); ++first) {
      tools::Array all = inputs[0];
      all.shape[0] = batch;
      all.data.clear();
      for (int64_t i = 0; i < batch; ++i) {
        const auto& image = inputs[(first + static_cast<size_t>(i)) % 2].data;
        all.data.insert(all.data.end(), image.begin(), image.end());
      }
      const Status bound = (*session)->bind_input(0, {all.dtype, all.shape, all.data.data()});
      ASSERT_TRUE(bound.ok()) << bound.message();
      const Status ran = (*session)->run();
      ASSERT_TRUE(ran.ok()) << ran.message();
      const auto view = (*session)->output(0);
      ASSERT_TRUE(view.ok()) << view.status().message();
      ASSERT_EQ(std::vector<int64_t>(view->shape.begin(), view->shape.end()),
                (std::vector<int64_t>{batch, 1, 672, 672}));
      const size_t bytes = references[0].data.size();
      for (int64_t i = 0; i < batch; ++i) {
        SCOPED_TRACE(i);
        const size_t which = (first + static_cast<size_t>(i)) % 2;
        const auto* data = static_cast<const std::byte*>(view->data) + static_cast<size_t>(i) * bytes;
        const auto against_reference =
            tools::compare({view->dtype, references[which].shape, data}, tools::span_of(references[which]), kTolerance);
        EXPECT_TRUE(against_reference.equal) << against_reference.message;
        if (singles.size() < 2) {
          tools::Array single = references[which];
          std::memcpy(single.data.data(), data, bytes);
          singles.push_back(std::move(single));
        } else {
          const auto against_single =
              tools::compare({view->dtype, singles[which].shape, data}, tools::span_of(singles[which]), kTolerance);
          EXPECT_TRUE(against_single.equal) << against_single.message;
        }
      }
    }
  }
  ::unlink(build.output.c_str());
  ::rmdir(scratch.c_str());
}

// A model for two sampling rates, whose branches do not fit each other's signals: converted for one of them, any batch.
TEST(ConstantInput, SileroVad) {
  const std::string root = models_folder();
  if (root.empty()) GTEST_SKIP() << "no ../shared/models beside the checkout (AIPU_MODELS names another place)";
  const std::string folder = root + "/silero_vad_v5";
  std::string scratch = ::testing::TempDir() + "aipu_rate_XXXXXX";
  ASSERT_NE(::mkdtemp(scratch.data()), nullptr);
  size_t ran = 0;
  for (const int64_t rate : {16000, 8000}) {
    gbuilder::BuildOptions build;
    build.model = folder + "/model.onnx";
    build.output = scratch + "/model.aipu.bin";
    build.constant_inputs["sr"] = graph::Constant::of<int64_t>(DType::kI64, {}, {&rate, 1});
    const auto built = gbuilder::build_model(build);
    ASSERT_TRUE(built.ok()) << built.status().message();
    const auto model = runtime::Model::load(build.output, {});
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto session = runtime::Session::create(*model, {});
    ASSERT_TRUE(session.ok()) << session.status().message();
    for (const char* set : {"0", "1", "2"}) {
      SCOPED_TRACE(set);
      const auto file = [&](const char* name) {
        return tools::read_tensor_pb(folder + "/test_data_set_" + set + "/" + name + ".pb");
      };
      const auto sr = file("input_2"), input = file("input_0"), state = file("input_1");
      ASSERT_TRUE(sr.ok() && input.ok() && state.ok());
      int64_t of_set = 0;
      ASSERT_EQ(sr->data.size(), sizeof of_set);
      std::memcpy(&of_set, sr->data.data(), sizeof of_set);
      if (of_set != rate) continue;
      ASSERT_TRUE((*session)->bind_input(0, {input->dtype, input->shape, input->data.data()}).ok());
      ASSERT_TRUE((*session)->bind_input(1, {state->dtype, state->shape, state->data.data()}).ok());
      const Status status = (*session)->run();
      ASSERT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < 2; ++i) {
        const auto expected = file(i == 0 ? "output_0" : "output_1");
        const auto view = (*session)->output(i);
        ASSERT_TRUE(expected.ok() && view.ok());
        const auto equal = tools::compare({view->dtype, view->shape, view->data}, tools::span_of(*expected),
                                          tools::Tolerance{1e-3, 1e-4});
        EXPECT_TRUE(equal.equal) << equal.message;
      }
      ++ran;
    }
    ::unlink(build.output.c_str());
  }
  EXPECT_EQ(ran, 3u);
  ::rmdir(scratch.c_str());
}

}  // namespace
}  // namespace aipu::onnx_tests
