// Known elements: shape arithmetic followed symbolically.
#include "graph/ops/infer.h"
#include "tests/graph/ops_kit.h"

namespace aipu::graph {
namespace {

class OpDataTest : public OpTest {
 protected:
  // The extents of one symbolic shape, as data.
  ValueId shape_of(std::string_view text) { return emit("Shape", {}, {input(text)}); }
  ValueId cast(ValueId x, DType to) { return emit("Cast", {{"to", to}}, {x}); }
};

TEST_F(OpDataTest, Arithmetic) {
  const ValueId s = shape_of("[N,H]");
  EXPECT_EQ(data(emit("Add", {}, {s, scalar(1)})), "[N + 1,H + 1]");
  EXPECT_EQ(data(emit("Mul", {}, {s, int64s({2, 3})})), "[2*N,3*H]");
  EXPECT_EQ(data(emit("Sub", {}, {s, s})), "[0,0]");
  EXPECT_EQ(data(emit("Div", {}, {s, scalar(2)})), "[floordiv(N, 2),floordiv(H, 2)]");
  EXPECT_EQ(data(emit("Mod", {}, {int64s({7, -7, 7, -7}), int64s({3, 3, -3, -3})})), "[1,2,-2,-1]");
  EXPECT_EQ(data(emit("Mod", {{"fmod", int64_t{1}}}, {int64s({-7}), int64s({3})})), "unknown");
  EXPECT_EQ(data(emit("Div", {}, {int64s({7, -7, 7, -7}), int64s({2, 2, -2, -2})})), "[3,-3,-3,3]");
  EXPECT_EQ(data(emit("Neg", {}, {int64s({3, -4})})), "[-3,4]");
  EXPECT_EQ(data(emit("Abs", {}, {int64s({3, -4})})), "[3,4]");
  EXPECT_EQ(data(emit("Min", {}, {s, int64s({1, 1}), int64s({0, 5})})), "[0,min(H, 1)]");
  EXPECT_EQ(data(emit("Max", {}, {int64s({2}), int64s({1, 5})})), "[2,5]");
}

TEST(ElementCount, Saturates) {
  EXPECT_EQ(count_of({2, 3, 4}), 24);
  EXPECT_EQ(count_of({}), 1);
  EXPECT_EQ(count_of({int64_t{1} << 62, 4}), INT64_MAX);
  EXPECT_EQ(count_of({INT64_MAX, 6}), INT64_MAX);
  EXPECT_EQ(count_of({INT64_MAX, 6, 0}), 0);
}

TEST_F(OpDataTest, LogicAndWhere) {
  const ValueId a = int64s({1, 2, 3});
  EXPECT_EQ(data(emit("Equal", {}, {a, scalar(2)})), "[0,1,0]");
  EXPECT_EQ(data(emit("Less", {}, {a, scalar(2)})), "[1,0,0]");
  EXPECT_EQ(data(emit("Greater", {}, {a, scalar(2)})), "[0,0,1]");
  EXPECT_EQ(data(emit("LessOrEqual", {}, {a, scalar(2)})), "[1,1,0]");
  EXPECT_EQ(data(emit("GreaterOrEqual", {}, {a, scalar(2)})), "[0,1,1]");
  const ValueId low = emit("Less", {}, {a, scalar(3)});
  const ValueId odd = emit("Not", {}, {emit("Equal", {}, {a, scalar(2)})});
  EXPECT_EQ(data(emit("And", {}, {low, odd})), "[1,0,0]");
  EXPECT_EQ(data(emit("Or", {}, {low, odd})), "[1,1,1]");
  EXPECT_EQ(data(emit("Xor", {}, {low, odd})), "[0,1,1]");
  EXPECT_EQ(data(emit("Where", {}, {low, int64s({9}), a})), "[9,9,3]");
  // The exporters' idiom for Expand: where shape == -1 take 1.
  const ValueId wanted = int64s({-1, 4});
  const ValueId ones = emit("ConstantOfShape", {{"value", Constant::int64s({1})}}, {int64s({2})});
  EXPECT_EQ(data(emit("Where", {}, {emit("Equal", {}, {wanted, int64s({-1})}), ones, wanted})), "[1,4]");
}

TEST_F(OpDataTest, Movement) {
  const ValueId s = shape_of("[N,3,H,W]");
  EXPECT_EQ(data(emit("Slice", {}, {s, int64s({2}), int64s({4})})), "[H,W]");
  EXPECT_EQ(data(emit("Slice", {}, {s, int64s({-1}), int64s({INT64_MIN}), int64s({0}), int64s({-1})})), "[W,H,3,N]");
  EXPECT_EQ(data(emit("Gather", {}, {s, int64s({-1, 0})})), "[W,N]");
  EXPECT_EQ(data(emit("Reshape", {}, {s, int64s({2, 2})})), "[N,3,H,W]");
  EXPECT_EQ(data(emit("Transpose", {}, {emit("Reshape", {}, {s, int64s({2, 2})})})), "[N,H,3,W]");
  EXPECT_EQ(data(emit("Squeeze", {}, {emit("Unsqueeze", {}, {s, int64s({0})}), int64s({0})})), "[N,3,H,W]");
  EXPECT_EQ(data(emit("Expand", {}, {int64s({7}), int64s({3})})), "[7,7,7]");
  EXPECT_EQ(data(emit("Identity", {}, {s})), "[N,3,H,W]");
  EXPECT_EQ(data(emit("Range", {}, {scalar(1), scalar(8), scalar(3)})), "[1,4,7]");
  EXPECT_EQ(data(emit("Clip", {}, {int64s({-5, 5, 50}), scalar(0), scalar(9)})), "[0,5,9]");
  auto split = node("Split", {}, {s, int64s({1, 3})}, 2);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(data(std::as_const(graph).node(*split).outputs[1]), "[3,H,W]");
}

TEST_F(OpDataTest, Reductions) {
  const ValueId s = shape_of("[N,3,H]");
  EXPECT_EQ(data(emit("ReduceProd", {{"keepdims", int64_t{0}}}, {s})), "[3*H*N]");
  EXPECT_EQ(data(emit("ReduceSum", {}, {s})), "[H + N + 3]");
  const ValueId m = emit("Reshape", {}, {int64s({1, 5, 3, 4, 2, 6}), int64s({2, 3})});
  EXPECT_EQ(data(emit("ReduceMax", {}, {m, int64s({0})})), "[4,5,6]");
  EXPECT_EQ(data(emit("ReduceMin", {}, {m, int64s({1})})), "[1,2]");
  EXPECT_EQ(data(emit("ReduceProd", {}, {int64s({})})), "[1]");
}

TEST_F(OpDataTest, FloatsThatHoldIntegers) {
  const ValueId s = shape_of("[N,H]");
  const ValueId f = cast(s, DType::kF32);
  EXPECT_EQ(data(cast(emit("Mul", {}, {f, floats({2})}), DType::kI64)), "[2*N,2*H]");
  EXPECT_EQ(data(cast(emit("Floor", {}, {emit("Mul", {}, {f, floats({0.5f})})}), DType::kI64)),
            "[floordiv(N, 2),floordiv(H, 2)]");
  EXPECT_EQ(data(cast(emit("Ceil", {}, {emit("Div", {}, {f, floats({4})})}), DType::kI64)),
            "[floordiv(N + 3, 4),floordiv(H + 3, 4)]");
  EXPECT_EQ(data(cast(emit("Mul", {}, {f, floats({1.5f})}), DType::kI64)), "[floordiv(3*N, 2),floordiv(3*H, 2)]");
  EXPECT_EQ(data(emit("Sqrt", {}, {f})), "unknown");
  EXPECT_EQ(data(cast(emit("Add", {}, {f, floats({0.5f})}), DType::kI64)), "unknown");
  // Roots that are whole.
  EXPECT_EQ(data(emit("Sqrt", {}, {floats({16})})), "[4]");
  EXPECT_EQ(data(emit("Pow", {}, {floats({9}), floats({0.5f})})), "[3]");
  EXPECT_EQ(data(emit("Pow", {}, {floats({8}), floats({0.5f})})), "unknown");
  EXPECT_EQ(data(emit("Sqrt", {}, {floats({-4})})), "unknown");
}

TEST_F(OpDataTest, ElementsThatDoNotFitAreNotFollowed) {
  EXPECT_EQ(data(cast(int64s({300}), DType::kU8)), "unknown");
  EXPECT_EQ(data(cast(int64s({200}), DType::kU8)), "[200]");
  EXPECT_EQ(data(cast(shape_of("[N]"), DType::kU8)), "unknown");
  EXPECT_EQ(data(cast(int64s({0, 7}), DType::kBool)), "[0,1]");
  EXPECT_EQ(data(emit("Add", {}, {cast(int64s({INT32_MAX}), DType::kI32), cast(int64s({1}), DType::kI32)})), "unknown");
}

}  // namespace
}  // namespace aipu::graph
