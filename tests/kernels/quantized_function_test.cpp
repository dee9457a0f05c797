// Which functions of a product's sums become pieces of parabolas; tests/numerics/quantized_test.cpp computes with them.
#include "kernels/parts/quantized_function.h"

#include <gtest/gtest.h>

#include "graph/ir/op_def.h"

namespace aipu::kernels {
namespace {

using graph::Attributes;
using graph::Constant;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// sums ─ Add(a column) ─ op ─ QuantizeLinear(scale, zero), of uint8.
std::optional<QuantizedFunction> fit(const char* op, float scale, uint8_t zero, float column = 1,
                                     Attributes of_op = {}) {
  Graph graph;
  const ValueId seed = graph.add_input("sums", {DType::kF32, {8, 2}});
  const auto emitted = [&](const char* name, Attributes attributes, std::vector<ValueId> inputs) {
    auto value = graph.emit(name, std::move(attributes), std::move(inputs), {});
    EXPECT_TRUE(value.ok()) << value.status().message();
    return value.ok() ? *value : ValueId();
  };
  const float columns[] = {column, -column};
  const ValueId sum = emitted("Add", {}, {seed, graph.add_constant(Constant::of<float>(DType::kF32, {2}, columns))});
  const ValueId value = emitted(op, std::move(of_op), {sum});
  const ValueId quantised = emitted("QuantizeLinear", {},
                                    {value, graph.add_constant(Constant::of<float>(DType::kF32, {}, {&scale, 1})),
                                     graph.add_constant(Constant::of<uint8_t>(DType::kU8, {}, {&zero, 1}))});
  return fit_quantized_function(
      graph, {graph.value(sum).producer, graph.value(value).producer, graph.value(quantised).producer}, seed);
}

TEST(QuantizedFunction, Fits) {
  for (const char* op : {"Swish", "Gelu", "Mish", "Softplus"}) {
    for (const float most : {2.0f, 6.0f, 20.0f, 40.0f, 150.0f}) {
      const auto fitted = fit(op, most / 255, 5);
      ASSERT_TRUE(fitted) << op << " up to " << most;
      EXPECT_EQ(fitted->first, 1U);
    }
  }
  EXPECT_FALSE(fit("Swish", 6.0f / 255, 5)->has_straight_end);
  EXPECT_TRUE(fit("Swish", 150.0f / 255, 5)->has_straight_end);
  EXPECT_TRUE(fit("Swish", 0.7f / 255, 5));
  EXPECT_TRUE(fit("Sigmoid", 1.0f / 255, 0));
  EXPECT_TRUE(fit("Tanh", 2.0f / 255, 128));
  EXPECT_TRUE(fit("Erf", 2.0f / 255, 128));
}

TEST(QuantizedFunction, LimitsThatTheIntegersReach) {
  EXPECT_FALSE(fit("Swish", 0.03f, 10)->exceeds_limits);  // -0.278 is 0.7
  EXPECT_TRUE(fit("Swish", 0.02f, 4)->exceeds_limits);    // -10
}

TEST(QuantizedFunction, Refuses) {
  EXPECT_FALSE(fit("Relu", 0.02f, 0));             // costs less
  EXPECT_FALSE(fit("Swish", 1e-6f, 5));            // a step is too small
  EXPECT_FALSE(fit("Swish", 0.02f, 5, 0x1p100f));  // sums may be no numbers
}

}  // namespace
}  // namespace aipu::kernels
