// Imports models that are built by hand, and looks at the graphs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "graph/ir/graph.h"
#include "models/onnx_builder.h"

namespace aipu::frontend {

using graph::Graph;
using models::OnnxBuilder;
using models::TensorData;
using Imported = Result<std::unique_ptr<Graph>>;

inline Imported import(const OnnxBuilder& builder, const ImportOptions& options = {}) {
  const std::string bytes = builder.serialize();
  return import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx", options);
}

inline std::string error_of(const Imported& graph) { return graph.ok() ? "no error" : graph.status().message(); }

// "Flatten Softmax Reshape": the ops in execution order.
inline std::string ops_of(const Graph& graph) {
  std::string text;
  for (const auto id : graph.topological_order()) text += (text.empty() ? "" : " ") + graph.node(id).op;
  return text;
}

inline const graph::Node& only(const Graph& graph, const std::string& op) {
  for (const auto id : graph.topological_order()) {
    if (graph.node(id).op == op) return graph.node(id);
  }
  static const graph::Node kNone;
  ADD_FAILURE() << "no " << op << " in " << ops_of(graph);
  return kNone;
}

inline std::string output_type(const Graph& graph, size_t i = 0) {
  return graph.type(graph.outputs().at(i).value).text();
}

inline std::vector<int64_t> constant_input(const Graph& graph, const graph::Node& node, size_t i) {
  const auto* constant = i < node.inputs.size() ? graph.constant(node.inputs[i]) : nullptr;
  if (constant == nullptr) {
    ADD_FAILURE() << node.op << " has no constant input " << i;
    return {};
  }
  return constant->to_int64s();
}

// One node over float32 inputs "a", "b", ... of the given shapes.
struct OneNode {
  OneNode(int64_t opset, const std::string& op, const std::vector<models::Extents>& inputs,
          const models::NamedAttributes& attributes = {}, size_t outputs = 1) {
    builder.set_opset(opset);
    std::vector<std::string> names;
    for (const auto& extents : inputs)
      names.push_back(builder.input(std::string(1, static_cast<char>('a' + names.size())), DType::kF32, extents));
    for (const auto& name : builder.node(op, names, attributes, outputs)) builder.output(name);
  }
  OnnxBuilder builder;
};

inline Imported import_node(int64_t opset, const std::string& op, const std::vector<models::Extents>& inputs,
                            const models::NamedAttributes& attributes = {}, size_t outputs = 1) {
  return import(OneNode(opset, op, inputs, attributes, outputs).builder);
}

#define ASSERT_IMPORTED(graph) ASSERT_TRUE((graph).ok()) << (graph).status().message()

using Ints = std::vector<int64_t>;

}  // namespace aipu::frontend
