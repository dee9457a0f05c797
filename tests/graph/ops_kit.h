// Builds one-op graphs by hand and reads the inferred types as text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/op_def.h"
#include "graph/ops/shape_operands.h"

namespace aipu::graph {

using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;

class OpTest : public testing::Test {
 protected:
  ValueId input(std::string_view shape, DType dtype = DType::kF32) {
    auto parsed = parse_shape(shape);
    EXPECT_TRUE(parsed.ok()) << shape;
    return graph.add_input("x", {dtype, std::move(*parsed)});
  }
  ValueId int64s(std::vector<int64_t> elements) { return graph.add_constant(Constant::int64s(std::move(elements))); }
  ValueId scalar(int64_t value) {
    return graph.add_constant(Constant::of<int64_t>(DType::kI64, {}, std::span(&value, 1)));
  }
  ValueId floats(std::vector<float> elements) {
    return graph.add_constant(
        Constant::of<float>(DType::kF32, {static_cast<int64_t>(elements.size())}, std::span<const float>(elements)));
  }

  Result<NodeId> node(std::string op, AttributeList attributes, std::vector<ValueId> inputs, size_t outputs = 1) {
    Attributes map;
    for (auto& [name, value] : attributes) map.set(name, std::move(value));
    std::vector<std::string> names;
    for (size_t k = 0; k < outputs; ++k) names.push_back("y");
    return graph.add_node(op, std::move(map), std::move(inputs), std::move(names), {});
  }

  // "float32[N,3] int64[3]", or "error: ..."; checks that resolving the shape operands changes no type and that the
  // whole graph verifies.
  std::string types(std::string op, AttributeList attributes, std::vector<ValueId> inputs, size_t outputs = 1) {
    auto id = node(std::move(op), std::move(attributes), std::move(inputs), outputs);
    if (!id.ok()) return "error: " + id.status().message();
    last = *id;
    const std::string before = output_types(last);
    EXPECT_TRUE(verify_graph(graph).ok()) << verify_graph(graph).message();
    const Status resolved = resolve_operands(graph, last);
    EXPECT_TRUE(resolved.ok()) << resolved.message();
    const Status inferred = graph.infer_node(last);
    EXPECT_TRUE(inferred.ok()) << inferred.message();
    EXPECT_EQ(output_types(last), before) << "after resolving";
    EXPECT_TRUE(verify_graph(graph).ok()) << verify_graph(graph).message();
    return before;
  }

  std::string output_types(NodeId id) {
    std::string text;
    for (const ValueId output : std::as_const(graph).node(id).outputs)
      text += (text.empty() ? "" : " ") + graph.type(output).text();
    return text;
  }

  // One node more; its output.
  ValueId emit(std::string op, AttributeList attributes, std::vector<ValueId> inputs) {
    auto id = node(std::move(op), std::move(attributes), std::move(inputs));
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? std::as_const(graph).node(*id).outputs[0] : ValueId();
  }

  // "[N,3]" or "unknown".
  std::string data(ValueId id) {
    const auto known = graph.known_data(id);
    return known ? shape_text(*known) : "unknown";
  }

  const Attributes& attributes() { return std::as_const(graph).node(last).attributes; }

  Graph graph;
  NodeId last;
};

using Ints = std::vector<int64_t>;

}  // namespace aipu::graph
