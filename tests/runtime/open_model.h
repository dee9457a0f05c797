// Opens models that are built by hand and runs them, for the tests of the executor.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {

using test::ModelBuilder;

inline std::shared_ptr<const Model> load(const ModelBuilder& builder, const LoadOptions& options = {}) {
  auto model = Model::from_bytes(builder.build(), options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : nullptr;
}

inline std::unique_ptr<Session> open(const ModelBuilder& builder, const SessionOptions& options = {}) {
  auto model = load(builder);
  if (model == nullptr) return nullptr;
  auto session = Session::create(model, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(session).value() : nullptr;
}

inline std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

inline std::vector<float> floats(const TensorView& view) {
  const auto* data = static_cast<const float*>(view.data);
  size_t n = 1;
  for (const int64_t extent : view.shape) n *= static_cast<size_t>(extent);
  return {data, data + n};
}

inline std::vector<float> run(Session& session, const std::vector<float>& x, std::vector<int64_t> shape) {
  Status status = session.bind_input(0, {DType::kF32, shape, x.data()});
  EXPECT_TRUE(status.ok()) << status.message();
  status = session.run();
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return {};
  auto y = session.output(0);
  EXPECT_TRUE(y.ok()) << y.status().message();
  return y.ok() ? floats(*y) : std::vector<float>();
}

inline std::vector<float> times(const std::vector<float>& x, float factor) {
  std::vector<float> result;
  for (const float value : x) result.push_back(factor * value);
  return result;
}

}  // namespace aipu::runtime
