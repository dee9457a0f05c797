// Type rules of ops that change shapes and move elements.
#include "tests/graph/ops_kit.h"

namespace aipu::graph {
namespace {

using testing::HasSubstr;

TEST_F(OpTest, ReshapeCopiesAndInfers) {
  const ValueId x = input("[2,3,4]");
  EXPECT_EQ(types("Reshape", {}, {x, int64s({0, -1})}), "float32[2,12]");
  EXPECT_EQ(types("Reshape", {}, {x, int64s({4, 0, 2})}), "float32[4,3,2]");
  EXPECT_THAT(types("Reshape", {}, {x, int64s({5, -1})}), HasSubstr("cannot reshape float32[2,3,4] to"));
  EXPECT_THAT(types("Reshape", {}, {x, int64s({2, 3, 5})}), HasSubstr("element counts differ"));
  EXPECT_THAT(types("Reshape", {}, {x, int64s({-1, -1})}), HasSubstr("more than one -1"));
  EXPECT_THAT(types("Reshape", {}, {x, int64s({2, 3, 4, 0})}), HasSubstr("has a 0 at position 3"));
  EXPECT_EQ(types("Reshape", {{"allowzero", int64_t{1}}}, {input("[0,3]"), int64s({3, 0})}), "float32[3,0]");
}

TEST_F(OpTest, ReshapeSymbolic) {
  const ValueId x = input("[N,12,H,W]");
  EXPECT_EQ(types("Reshape", {}, {x, int64s({0, 3, -1, 0})}), "float32[N,3,4*H,W]");
  EXPECT_EQ(types("Reshape", {}, {x, int64s({-1, 6})}), "float32[2*H*N*W,6]");
  // The super resolution chain.
  EXPECT_EQ(types("Reshape", {}, {input("[N,9,224,224]"), int64s({-1, 1, 3, 3, 224, 224})}),
            "float32[N,1,3,3,224,224]");
  // Shape -> Gather -> Unsqueeze -> Concat -> Reshape folds.
  const ValueId batch = emit("Gather", {}, {emit("Shape", {}, {x}), scalar(0)});
  const ValueId wanted =
      emit("Concat", {{"axis", int64_t{0}}}, {emit("Unsqueeze", {}, {batch, int64s({0})}), int64s({-1})});
  EXPECT_EQ(data(wanted), "[N,-1]");
  EXPECT_EQ(types("Reshape", {}, {x, wanted}), "float32[N,12*H*W]");
}

TEST_F(OpTest, ReshapeToAShapeReadAtRunTime) {
  const ValueId x = input("[N,4]");
  const ValueId wanted = graph.add_input("s", {DType::kI64, {2}});
  const std::string text = types("Reshape", {}, {x, wanted});
  ASSERT_EQ(graph.symbols().size(), 3u);
  const auto value = [&](int64_t n, int64_t s0, int64_t s1) {
    const ValueId y = std::as_const(graph).node(last).outputs[0];
    std::vector<int64_t> result;
    for (const Dim& extent : graph.type(y).shape) {
      const Dim number = extent.substitute([&](const std::string& name) -> std::optional<Dim> {
        if (name == "N") return n;
        return graph.find_symbol(name)->index == 0 ? s0 : s1;
      });
      result.push_back(number.constant_or(-99));
    }
    return result;
  };
  EXPECT_EQ(value(6, 3, 8), Ints({3, 8}));
  EXPECT_EQ(value(6, 0, 4), Ints({6, 4}));
  EXPECT_EQ(value(6, -1, 3), Ints({8, 3}));
  EXPECT_EQ(value(6, 2, -1), Ints({2, 12}));
  EXPECT_EQ(value(6, 0, -1), Ints({6, 4}));
}

TEST_F(OpTest, ShapeOperandOfUnknownLengthIsRefused) {
  EXPECT_THAT(types("Reshape", {}, {input("[6]"), graph.add_input("s", {DType::kI64, {Dim::symbol("R")}})}),
              HasSubstr("must have a small, static number of integer elements"));
}

TEST_F(OpTest, SqueezeUnsqueezeFlatten) {
  EXPECT_EQ(types("Squeeze", {}, {input("[1,N,1,3]"), int64s({-2, 0})}), "float32[N,3]");
  EXPECT_EQ(attributes().ints("axes"), Ints({0, 2}));
  EXPECT_EQ(types("Squeeze", {}, {input("[1,3,1]")}), "float32[3]");
  EXPECT_EQ(types("Squeeze", {}, {input("[1,N]")}), "float32[N]");  // that N is not 1 is checked when it runs
  EXPECT_THAT(types("Squeeze", {}, {input("[2,3]"), int64s({0})}), HasSubstr("must be 1, found 2"));
  EXPECT_EQ(types("Unsqueeze", {}, {input("[N,3]"), int64s({-1, 0})}), "float32[1,N,3,1]");
  EXPECT_THAT(types("Unsqueeze", {}, {input("[N,3]"), int64s({0, 0})}), HasSubstr("listed twice"));
  EXPECT_THAT(types("Unsqueeze", {}, {input("[3]"), graph.add_input("a", {DType::kI64, {1}})}),
              HasSubstr("must be known when compiling"));
  EXPECT_EQ(types("Flatten", {{"axis", int64_t{2}}}, {input("[N,2,H,5]")}), "float32[2*N,5*H]");
  EXPECT_EQ(types("Flatten", {{"axis", int64_t{-1}}}, {input("[2,3,5]")}), "float32[6,5]");
  EXPECT_EQ(types("Flatten", {{"axis", int64_t{0}}}, {input("[2,3]")}), "float32[1,6]");
}

TEST_F(OpTest, ShapeAndSize) {
  const ValueId x = input("[N,3,H]");
  EXPECT_EQ(data(emit("Shape", {}, {x})), "[N,3,H]");
  EXPECT_EQ(data(emit("Shape", {{"start", int64_t{-2}}, {"end", int64_t{-1}}}, {x})), "[3]");
  EXPECT_EQ(data(emit("Shape", {{"start", int64_t{-9}}, {"end", int64_t{9}}}, {x})), "[N,3,H]");
  EXPECT_EQ(types("Shape", {{"start", int64_t{2}}, {"end", int64_t{1}}}, {x}), "int64[0]");
  EXPECT_EQ(data(emit("Size", {}, {x})), "[3*H*N]");
}

TEST_F(OpTest, ExpandAndTile) {
  EXPECT_EQ(types("Expand", {}, {input("[3,1]"), int64s({2, 1, 6})}), "float32[2,3,6]");
  EXPECT_EQ(types("Expand", {}, {input("[1,1,4]"), emit("Shape", {}, {input("[N,T,4]")})}), "float32[N,T,4]");
  EXPECT_THAT(types("Expand", {}, {input("[3]"), int64s({2})}), HasSubstr("do not broadcast"));
  EXPECT_EQ(types("Tile", {}, {input("[N,3]"), int64s({2, 4})}), "float32[2*N,12]");
  EXPECT_THAT(types("Tile", {}, {input("[N,3]"), int64s({2})}), HasSubstr("repeats has 1 elements"));
  EXPECT_EQ(data(emit("Tile", {}, {int64s({1, 2}), int64s({2})})), "[1,2,1,2]");
}

TEST_F(OpTest, Transpose) {
  EXPECT_EQ(types("Transpose", {}, {input("[N,C,H]")}), "float32[H,C,N]");
  EXPECT_EQ(attributes().ints("perm"), Ints({2, 1, 0}));
  EXPECT_EQ(types("Transpose", {{"perm", Ints{0, 2, 1}}}, {input("[N,C,H]")}), "float32[N,H,C]");
  EXPECT_THAT(types("Transpose", {{"perm", Ints{0, 1}}}, {input("[N,C,H]")}), HasSubstr("perm has 2 elements"));
  EXPECT_THAT(types("Transpose", {{"perm", Ints{0, 1, 1}}}, {input("[N,C,H]")}), HasSubstr("listed twice"));
}

TEST_F(OpTest, Concat) {
  EXPECT_EQ(types("Concat", {{"axis", int64_t{-1}}}, {input("[N,3]"), input("[N,T]")}), "float32[N,T + 3]");
  EXPECT_EQ(attributes().i("axis"), 1);
  EXPECT_EQ(types("Concat", {{"axis", int64_t{0}}}, {input("[N,3]"), input("[2,M]")}), "float32[N + 2,3]");
  EXPECT_THAT(types("Concat", {{"axis", int64_t{0}}}, {input("[2,3]"), input("[2,4]")}),
              HasSubstr("extent 1 of operand 1 must be 3"));
  EXPECT_THAT(types("Concat", {{"axis", int64_t{2}}}, {input("[2,3]")}), HasSubstr("axis 2 is out of range"));
  EXPECT_THAT(types("Concat", {{"axis", int64_t{0}}}, {input("[2]"), input("[2]", DType::kI32)}),
              HasSubstr("one element type"));
}

TEST_F(OpTest, Split) {
  EXPECT_EQ(types("Split", {{"axis", int64_t{1}}}, {input("[N,6]")}, 3), "float32[N,2] float32[N,2] float32[N,2]");
  EXPECT_EQ(types("Split", {{"num_outputs", int64_t{3}}}, {input("[7]")}, 3), "float32[3] float32[3] float32[1]");
  EXPECT_EQ(types("Split", {{"num_outputs", int64_t{4}}}, {input("[5]")}, 4),
            "float32[2] float32[2] float32[1] float32[0]");
  EXPECT_EQ(types("Split", {}, {input("[7]"), int64s({5, 2})}, 2), "float32[5] float32[2]");
  EXPECT_EQ(types("Split", {}, {input("[4*N]")}, 2), "float32[2*N] float32[2*N]");
  EXPECT_THAT(types("Split", {}, {input("[7]"), int64s({5, 1})}, 2), HasSubstr("the sum of split must be 7, found 6"));
  EXPECT_THAT(types("Split", {{"num_outputs", int64_t{3}}}, {input("[7]")}, 2), HasSubstr("num_outputs is 3"));
}

TEST_F(OpTest, SliceStatic) {
  const ValueId x = input("[20,10,5]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({0, 0}), int64s({3, 10}), int64s({0, 1}), int64s({1, 1})}),
            "float32[3,10,5]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({1}), int64s({1000}), int64s({1})}), "float32[20,9,5]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({1000}), int64s({1000}), int64s({1})}), "float32[20,0,5]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({0}), int64s({-1}), int64s({-2})}), "float32[20,9,5]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({20, 10, 4}), int64s({0, 0, 1}), int64s({0, 1, 2}), int64s({-1, -3, -2})}),
            "float32[19,3,2]");
  EXPECT_EQ(attributes().shape("starts"), Shape({19, 9, 4}));
  EXPECT_EQ(types("Slice", {}, {x, int64s({-1}), int64s({INT64_MIN}), int64s({2}), int64s({-1})}), "float32[20,10,5]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({0}), int64s({INT64_MAX}), int64s({1}), int64s({3})}), "float32[20,4,5]");
  EXPECT_THAT(types("Slice", {}, {x, int64s({0}), int64s({1}), int64s({0}), int64s({0})}), HasSubstr("step 0"));
  EXPECT_THAT(types("Slice", {}, {x, int64s({0}), int64s({1, 2})}), HasSubstr("equally many elements"));
}

TEST_F(OpTest, SliceSymbolic) {
  const ValueId x = input("[N,T]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({0}), int64s({INT64_MAX}), int64s({1})}), "float32[N,T]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({1}), int64s({INT32_MAX}), int64s({1})}), "float32[N,max(T - 1, 0)]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({0}), int64s({-1}), int64s({1})}), "float32[N,max(T - 1, 0)]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({-1}), int64s({INT64_MAX}), int64s({1})}), "float32[N,min(T, 1)]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({0}), int64s({5}), int64s({1})}), "float32[N,min(T, 5)]");
  EXPECT_EQ(types("Slice", {}, {x, int64s({-1}), int64s({INT64_MIN}), int64s({1}), int64s({-1})}), "float32[N,T]");
  EXPECT_EQ(types("Slice", {}, {input("[2*T]"), int64s({1}), int64s({INT64_MAX}), int64s({0}), int64s({2})}),
            "float32[T]");
}

// Against a loop, for all small starts, ends and steps.
TEST_F(OpTest, SliceMatchesCounting) {
  for (int64_t extent : {0, 1, 2, 5}) {
    for (int64_t step : {-3, -2, -1, 1, 2, 3}) {
      for (int64_t start = -7; start <= 7; ++start) {
        for (int64_t end = -7; end <= 7; ++end) {
          const auto clamp = [](int64_t v, int64_t low, int64_t high) { return std::min(std::max(v, low), high); };
          const int64_t from = clamp(start < 0 ? start + extent : start, 0, step > 0 ? extent : extent - 1);
          const int64_t to = clamp(end < 0 ? end + extent : end, step > 0 ? 0 : -1, step > 0 ? extent : extent - 1);
          int64_t count = 0;
          for (int64_t k = extent == 0 ? to : from; step > 0 ? k < to : k > to; k += step) ++count;
          // The symbolic rule must agree with the static one for the same extent.
          for (const bool symbolic : {false, true}) {
            Graph g;
            const ValueId x = g.add_input("x", {DType::kF32, {symbolic ? Dim::symbol("N") : Dim(extent)}});
            const auto constant = [&](int64_t v) { return g.add_constant(Constant::int64s({v})); };
            auto y = g.emit("Slice", {}, {x, constant(start), constant(end), constant(0), constant(step)}, {});
            ASSERT_TRUE(y.ok()) << y.status().message();
            const Dim found =
                g.type(*y).shape[0].substitute([&](const std::string&) { return std::optional<Dim>(extent); });
            ASSERT_EQ(found.constant_or(-1), count)
                << extent << " " << start << ":" << end << ":" << step << (symbolic ? " symbolic" : "");
          }
        }
      }
    }
  }
}

TEST_F(OpTest, Pad) {
  EXPECT_EQ(types("Pad", {}, {input("[N,3]"), int64s({0, 1, 2, 3})}), "float32[N + 2,7]");
  EXPECT_EQ(types("Pad", {{"mode", std::string("reflect")}}, {input("[N,3]"), int64s({1, 2}), ValueId(), int64s({-1})}),
            "float32[N,6]");
  EXPECT_EQ(attributes().shape("pads"), Shape({0, 1, 0, 2}));
  EXPECT_EQ(types("Pad", {}, {input("[5]"), int64s({-1, -2})}), "float32[2]");
  EXPECT_THAT(types("Pad", {}, {input("[5]"), int64s({-4, -2})}), HasSubstr("remove more than axis 0"));
  EXPECT_THAT(types("Pad", {}, {input("[5]"), int64s({1})}), HasSubstr("pads has 1 elements, expected 2"));
  EXPECT_THAT(types("Pad", {{"mode", std::string("mirror")}}, {input("[5]"), int64s({1, 1})}),
              HasSubstr("mode is 'mirror'"));
}

TEST_F(OpTest, DepthAndSpace) {
  EXPECT_EQ(types("DepthToSpace", {{"blocksize", int64_t{2}}}, {input("[N,8,H,3]")}), "float32[N,2,2*H,6]");
  EXPECT_EQ(types("SpaceToDepth", {{"blocksize", int64_t{2}}}, {input("[N,2,4,2*W]")}), "float32[N,8,2,W]");
  EXPECT_EQ(types("DepthToSpace", {{"blocksize", int64_t{2}}, {"layout", std::string("NHWC")}}, {input("[N,H,3,8]")}),
            "float32[N,2*H,6,2]");
  EXPECT_THAT(types("DepthToSpace", {{"blocksize", int64_t{2}}}, {input("[1,6,1,1]")}),
              HasSubstr("do not divide by blocksize squared"));
}

TEST_F(OpTest, GatherFamily) {
  EXPECT_EQ(types("Gather", {{"axis", int64_t{1}}}, {input("[N,9,4]"), input("[2,K]", DType::kI64)}),
            "float32[N,2,K,4]");
  EXPECT_EQ(types("Gather", {}, {input("[9,4]"), scalar(-1)}), "float32[4]");
  EXPECT_EQ(types("GatherElements", {}, {input("[9,4]"), input("[2,4]", DType::kI32)}), "float32[2,4]");
  EXPECT_EQ(types("GatherND", {}, {input("[2,3,4]"), input("[N,2]", DType::kI64)}), "float32[N,4]");
  EXPECT_EQ(types("GatherND", {{"batch_dims", int64_t{1}}}, {input("[2,3,4]"), input("[2,1]", DType::kI64)}),
            "float32[2,4]");
  EXPECT_THAT(types("GatherND", {}, {input("[2,3]"), input("[N,K]", DType::kI64)}), HasSubstr("must be static"));
  EXPECT_EQ(types("ScatterND", {}, {input("[N,4]"), input("[3,1]", DType::kI64), input("[3,4]")}), "float32[N,4]");
  EXPECT_THAT(types("ScatterND", {}, {input("[8,4]"), input("[3,1]", DType::kI64), input("[3,5]")}),
              HasSubstr("extent 1 of updates must be 4"));
  EXPECT_THAT(types("ScatterElements", {{"reduction", std::string("xor")}},
                    {input("[8]"), input("[3]", DType::kI64), input("[3]")}),
              HasSubstr("reduction is 'xor'"));
}

TEST_F(OpTest, Generators) {
  EXPECT_EQ(types("ConstantOfShape", {}, {int64s({2, 3})}), "float32[2,3]");
  EXPECT_EQ(types("ConstantOfShape", {{"value", Constant::int64s({7})}}, {emit("Shape", {}, {input("[N,2]")})}),
            "int64[N,2]");
  EXPECT_EQ(types("ConstantOfShape", {}, {int64s({})}), "float32[]");
  EXPECT_THAT(types("ConstantOfShape", {}, {int64s({-1})}), HasSubstr("element -1"));
  EXPECT_EQ(types("Range", {}, {scalar(0), scalar(10), scalar(3)}), "int64[4]");
  EXPECT_EQ(types("Range", {}, {scalar(10), scalar(6), scalar(-3)}), "int64[2]");
  EXPECT_EQ(types("Range", {}, {scalar(10), scalar(6), scalar(1)}), "int64[0]");
  const ValueId length = emit("Gather", {}, {emit("Shape", {}, {input("[T,2]")}), scalar(0)});
  EXPECT_EQ(types("Range", {}, {scalar(0), length, scalar(1)}), "int64[T]");
  const auto constant = [&](float value) { return graph.add_constant(Constant::scalar_f32(value)); };
  EXPECT_EQ(types("Range", {}, {constant(1), constant(5), constant(1.5f)}), "float32[3]");
  EXPECT_EQ(std::as_const(graph).node(last).inputs.size(), 3u);  // start and delta stay, the limit is gone
  EXPECT_FALSE(std::as_const(graph).node(last).inputs[1].valid());
  const ValueId limit = input("[]");
  EXPECT_THAT(types("Range", {}, {constant(0), limit, constant(1)}),
              HasSubstr("must be known when compiling, or counted"));
  const ValueId count = graph.add_input("n", {DType::kI64, {1}});
  EXPECT_EQ(types("Range", {}, {constant(0), limit, constant(1), count}),
            "float32[max(" + graph.require_data(count)->front().text() + ", 0)]");
  EXPECT_EQ(types("OneHot", {}, {input("[N,4]", DType::kI64), scalar(12), floats({0, 1})}), "float32[N,4,12]");
  EXPECT_EQ(types("OneHot", {{"axis", int64_t{0}}}, {input("[N]", DType::kI32), floats({5}), int64s({0, 1})}),
            "int64[5,N]");
  EXPECT_EQ(types("EyeLike", {{"dtype", DType::kF64}}, {input("[3,N]")}), "float64[3,N]");
}

TEST_F(OpTest, DataDecidedExtents) {
  const ValueId x = input("[2,N]");
  const ValueId count = emit("aipu::CountNonZero", {}, {x});
  EXPECT_EQ(types("NonZero", {}, {x, count}), "int64[2," + graph.require_data(count)->front().text() + "]");
  EXPECT_THAT(types("NonZero", {}, {x}), HasSubstr("counting operand"));
  const ValueId condition = input("[3]", DType::kBool);
  const ValueId trues = emit("aipu::CountNonZero", {}, {condition});
  EXPECT_EQ(types("Compress", {{"axis", int64_t{-1}}}, {x, condition, trues}),
            "float32[2," + graph.require_data(trues)->front().text() + "]");
  EXPECT_EQ(types("Unique", {}, {x, count}, 4).substr(0, 8), "float32[");
}

}  // namespace
}  // namespace aipu::graph
