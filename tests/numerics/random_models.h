// Random models of a kernel, on every target this machine can run, beside oneDNN or a reference in double precision.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/numerics/road.h"

namespace aipu::test {

using models::Extents;
using models::OnnxBuilder;

inline int64_t pick(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

inline Extents extents_of(const std::vector<int64_t>& shape) { return {shape.begin(), shape.end()}; }

// One random model per seed; the builder callback returns its inputs' shapes by name.
using Maker = std::function<std::map<std::string, std::vector<int64_t>>(OnnxBuilder&, std::mt19937&)>;

inline void check_against_dnnl(const std::string& name, int seeds, double rtol, double atol, const Maker& make) {
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(name + " seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed) * 7919u + 17u);
    OnnxBuilder builder(name, static_cast<uint64_t>(seed) + 1);
    const auto shapes = make(builder, random);
    const std::string path = temporary_path(name + std::to_string(seed) + ".onnx");
    ASSERT_TRUE(builder.save(path).ok());
    std::map<std::string, Tensor> inputs;
    for (const auto& [input, shape] : shapes) inputs[input] = random_tensor(random, shape);
    const auto expected = run_reference(path, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    expect_on_targets(path, inputs, *expected, rtol, atol, seed < 2);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace aipu::test
