// Attributes that only our records have (AttributeDef::own): a file's of the same name has no meaning in ONNX, and must
// not become ours.
#include <gtest/gtest.h>

#include <functional>

#include "frontend/onnx/import.h"
#include "graph/ir/graph.h"
#include "models/onnx_builder.h"

namespace aipu::frontend {
namespace {

using models::OnnxBuilder;
using Ints = std::vector<int64_t>;

std::string error_of(const OnnxBuilder& builder) {
  const std::string bytes = builder.serialize();
  const auto graph = import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx", {});
  return graph.ok() ? "" : graph.status().message();
}

TEST(OnnxOwnAttributes, AreNotTakenFromAFile) {
  struct Case {
    std::string op;
    std::function<std::vector<std::string>(OnnxBuilder&)> inputs;
    models::NamedAttributes legal;
    std::string name;
    models::AttributeData value;
  };
  const auto x = [](OnnxBuilder& b, const models::Extents& shape) { return b.input("x", DType::kF32, shape); };
  const auto ints = [](OnnxBuilder& b, const Ints& shape, const Ints& values) {
    return b.initializer(models::TensorData::i64(shape, values));
  };
  const auto image = [&](OnnxBuilder& b) { return std::vector<std::string>{x(b, {1, 2, 6, 6})}; };
  const auto with_list = [&](OnnxBuilder& b) { return std::vector{x(b, {2, 6}), ints(b, {2}, {1, 3})}; };
  const auto with_scalar = [&](OnnxBuilder& b) { return std::vector{x(b, {2, 6}), ints(b, {}, {1})}; };
  const auto slice = [&](OnnxBuilder& b) {
    return std::vector{x(b, {2, 6}), ints(b, {2}, {0, 1}), ints(b, {2}, {2, 5})};
  };
  const auto range = [&](OnnxBuilder& b) {
    b.output(b.op("Neg", {x(b, {2})}));
    return std::vector{ints(b, {}, {0}), ints(b, {}, {3}), ints(b, {}, {1})};
  };
  const auto one_hot = [&](OnnxBuilder& b) { return std::vector{x(b, {2}), ints(b, {}, {3}), ints(b, {2}, {0, 1})}; };
  const auto resize = [&](OnnxBuilder& b) {
    return std::vector<std::string>{x(b, {1, 2, 6, 6}), "", "", ints(b, {4}, {1, 2, 3, 3})};
  };
  const auto columns = [&](OnnxBuilder& b) {
    return std::vector{x(b, {1, 4, 9}), ints(b, {2}, {4, 4}), ints(b, {2}, {2, 2})};
  };
  const std::vector<Case> cases{
      {"Gather", with_scalar, {}, "from_start", int64_t{1}},
      {"Range", range, {}, "extent", Ints{7}},
      {"Range", range, {}, "dtype", int64_t{1}},
      {"OneHot", one_hot, {}, "depth", Ints{7}},
      {"Slice", slice, {}, "extents", Ints{1, 1}},
      {"Slice", slice, {}, "steps", Ints{2, 2}},
      {"Tile", with_list, {}, "repeats", Ints{3, 3}},
      {"Pad",
       [&](OnnxBuilder& b) {
         return std::vector{x(b, {6}), ints(b, {2}, {1, 3})};
       },
       {},
       "pads",
       Ints{9, 9}},
      {"Reshape",
       [&](OnnxBuilder& b) {
         return std::vector{x(b, {3}), ints(b, {2}, {1, 3})};
       },
       {},
       "shape",
       Ints{3}},
      {"Squeeze",
       [&](OnnxBuilder& b) {
         return std::vector{x(b, {1, 1, 2})};
       },
       {},
       "axes",
       Ints{0}},
      {"CumSum", with_scalar, {}, "axis", int64_t{0}},
      {"ReduceSum",
       [&](OnnxBuilder& b) {
         return std::vector{x(b, {1, 1, 2})};
       },
       {},
       "axes",
       Ints{0}},
      {"NonZero", image, {}, "extent", Ints{1}},
      {"Resize", resize, {}, "sizes", Ints{1, 2, 9, 9}},
      {"Resize", resize, {}, "scales", std::vector<double>{1, 1, 2, 2}},
      {"Col2Im", columns, {}, "image_shape", Ints{5, 5}},
      {"Col2Im", columns, {}, "block_shape", Ints{5, 5}},
      {"MaxPool", image, {{"kernel_shape", Ints{2, 2}}}, "layout", std::string("NHWC")},
      {"MatMul",
       [&](OnnxBuilder& b) {
         return std::vector{x(b, {2, 6}), b.weight({6, 2}, 0.1)};
       },
       {},
       "multiplies",
       int64_t{16}},
      {"Conv",
       [&](OnnxBuilder& b) {
         return std::vector{x(b, {1, 2, 6, 6}), b.weight({2, 2, 3, 3}, 0.1)};
       },
       {},
       "multiplies",
       int64_t{16}},
      {"SpaceToDepth", image, {{"blocksize", 2}}, "layout", std::string("NHWC")},
  };
  for (const Case& c : cases) {
    for (const bool crafted : {false, true}) {
      OnnxBuilder b;
      b.set_opset(18);
      models::NamedAttributes attributes = c.legal;
      if (crafted) attributes.emplace_back(c.name, c.value);
      const auto inputs = c.inputs(b);
      b.output(b.op(c.op, inputs, attributes));
      const std::string error = error_of(b);
      const std::string expected = str_cat("m.onnx: 1 node is not supported: ", c.op, "-18 (1 node: '/", c.op,
                                           "'): attribute '", c.name, "' is not known");
      EXPECT_EQ(error, crafted ? expected : "") << c.op << ", " << c.name;
    }
  }
}

// Nor operands.
TEST(OnnxOwnOperands, AreNotTakenFromAFile) {
  for (const bool crafted : {false, true}) {
    OnnxBuilder b;
    b.set_opset(18);
    std::vector<std::string> inputs{b.input("x", DType::kF32, {3, 1, 2}), b.weight({1, 8, 2}, 0.1),
                                    b.weight({1, 8, 2}, 0.1)};
    if (crafted) {
      inputs.insert(inputs.end(), 5, "");
      inputs.insert(inputs.end(), {b.weight({}, 0.1), b.weight({1, 8}, 0.1), b.weight({1, 8}, 0.1)});
    }
    b.output(b.op("LSTM", inputs, {{"hidden_size", 2}}));
    EXPECT_EQ(error_of(b), crafted ? "m.onnx: node '/LSTM' (LSTM): has 11 inputs, at most 8 are allowed" : "");
  }
}

// Nor operators of ours.
TEST(OnnxOwnOperators, AreNotTakenFromAFile) {
  OnnxBuilder b;
  b.set_opset(1, "aipu");
  b.output(b.op("CountNonZero", {b.input("x", DType::kF32, {2})}, {}, "aipu"));
  EXPECT_EQ(error_of(b),
            "m.onnx: 1 node is not supported: aipu::CountNonZero (1 node: '/CountNonZero'): unknown operator; a plugin "
            "can define it (--plugin FILE; plugins=[FILE] in Python)");
}

}  // namespace
}  // namespace aipu::frontend
