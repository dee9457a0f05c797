// Where the elements of a value lie that others only move, and when that is no offset and strides.
#include "kernels/parts/strided_view.h"

#include <gtest/gtest.h>

#include <string>

namespace aipu::kernels {
namespace {

using graph::Attributes;
using graph::Dim;
using graph::Graph;
using graph::Shape;

const Dim kN = Dim::symbol("N");

std::string text(const std::optional<StridedView>& view) {
  if (!view) return "none";
  std::string result = graph::shape_text(view->shape) + " strides " + graph::shape_text(view->strides);
  return view->offset == Dim(0) ? result : result + " at " + view->offset.text();
}

template <typename T>
Attributes with(const char* name, T value) {
  Attributes attributes;
  attributes.set(name, std::move(value));
  return attributes;
}

// A graph of one chain, and how its end is seen in its beginning.
class Chain {
 public:
  explicit Chain(const Shape& shape) : end_(graph_.add_input("x", {DType::kF32, shape})), view_(whole_view(shape)) {}

  Chain& then(const std::string& op, Attributes attributes, size_t output = 0, size_t outputs = 1) {
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs; ++i) names.push_back(std::to_string(count_++));
    std::vector<graph::ValueId> inputs = {end_};
    if (op == "Gather") {
      const std::vector<int64_t> index = {attributes.i("index")};
      attributes = with("axis", attributes.i("axis"));
      inputs.push_back(graph_.add_constant(graph::Constant::of<int64_t>(DType::kI64, {}, index), "index"));
    }
    const auto id = graph_.add_node(op, std::move(attributes), inputs, names, {{names[0], op}});
    EXPECT_TRUE(id.ok()) << id.status().message();
    if (!id.ok()) return *this;
    end_ = graph_.node(*id).outputs[output];
    if (view_) view_ = view_behind(graph_, graph_.node(*id), end_, *view_);
    return *this;
  }
  Chain& reshape(Shape shape) { return then("Reshape", with("shape", std::move(shape))); }
  Chain& transpose(std::vector<int64_t> perm) { return then("Transpose", with("perm", std::move(perm))); }
  Chain& split(int64_t axis, const Shape& parts, size_t output) {
    Attributes attributes = with("axis", axis);
    attributes.set("split", parts);
    return then("Split", std::move(attributes), output, parts.size());
  }
  Chain& gather(int64_t axis, int64_t index) {
    Attributes attributes = with("axis", axis);
    attributes.set("index", index);
    return then("Gather", std::move(attributes));
  }
  Chain& slice(const Shape& starts, std::vector<int64_t> steps, const Shape& extents) {
    Attributes attributes = with("starts", starts);
    attributes.set("steps", std::move(steps));
    attributes.set("extents", extents);
    return then("Slice", std::move(attributes));
  }

  std::string seen() const { return text(view_); }

 private:
  Graph graph_;
  graph::ValueId end_;
  std::optional<StridedView> view_;
  int count_ = 0;
};

TEST(StridedView, PartsOfOneTensor) {
  EXPECT_EQ(Chain({kN, 5, 24}).split(2, {8, 8, 8}, 1).reshape({kN, 5, 2, 4}).transpose({0, 2, 1, 3}).seen(),
            "[N,2,5,4] strides [120,4,24,1] at 8");
  EXPECT_EQ(Chain({kN, 5, 3, 2, 4}).transpose({2, 0, 3, 1, 4}).split(0, {1, 1, 1}, 2).reshape({kN, 2, 5, 4}).seen(),
            "[N,2,5,4] strides [120,4,24,1] at 16");
  EXPECT_EQ(Chain({kN, 5, 3, 2, 4}).transpose({2, 0, 3, 1, 4}).gather(0, -2).seen(),
            "[N,2,5,4] strides [120,4,24,1] at 8");
  EXPECT_EQ(Chain({kN, 5, 24}).slice({0, 1, 8}, {1, 1, 1}, {kN, 3, 8}).seen(), "[N,3,8] strides [120,24,1] at 32");
}

TEST(StridedView, AxesBecomeOneWhereTheyAreOneInMemory) {
  EXPECT_EQ(Chain({kN, 4, 6}).transpose({1, 0, 2}).reshape({2, 2, kN, 6}).seen(), "[2,2,N,6] strides [12,6,24,1]");
  EXPECT_EQ(Chain({kN, 2, 3, 4}).transpose({3, 0, 1, 2}).reshape({4, kN, 6}).seen(), "[4,N,6] strides [1,24,4]");
  EXPECT_EQ(Chain({kN, 4, 6}).transpose({1, 0, 2}).reshape({4, kN * Dim(6)}).seen(), "none");
  EXPECT_EQ(Chain({kN, 4, 6}).transpose({0, 2, 1}).reshape({kN, 24}).seen(), "none");
  EXPECT_EQ(Chain({kN, 4, 6}).reshape({kN, 8, 3}).seen(), "none") << "axes that are cut anew";
}

TEST(StridedView, WhatIsNotStridesAway) {
  EXPECT_EQ(Chain({kN, 6}).slice({0, 5}, {1, -1}, {kN, 6}).seen(), "none") << "steps";
  EXPECT_EQ(Chain({kN, 6}).then("Relu", {}).seen(), "none");
}

}  // namespace
}  // namespace aipu::kernels
