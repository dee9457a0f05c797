// What the rules of decompose are written with, and the rules that have a file of their own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {

// Emits nodes with one origin; remembers the first error so that expressions stay readable. After an error the values
// are invalid.
class DecomposeBuilder {
 public:
  DecomposeBuilder(Graph& graph, OriginSet origins, std::string hint)
      : graph_(graph), origins_(std::move(origins)), hint_(std::move(hint)) {}

  ValueId op(const std::string& name, std::vector<ValueId> inputs, Attributes attributes = {}) {
    if (!status_.ok()) return {};
    auto result = graph_.emit(name, std::move(attributes), std::move(inputs), origins_, str_cat(hint_, '.', name));
    return keep(std::move(result));
  }
  // These two give the value itself, or a constant, where no node is needed.
  ValueId reshape(ValueId value, const Shape& shape) {
    if (!status_.ok()) return {};
    return keep(reshaped(graph_, value, shape, origins_));
  }
  ValueId transpose(ValueId value, const Permutation& perm) {
    if (!status_.ok()) return {};
    return keep(transposed(graph_, value, perm, origins_));
  }
  ValueId reduce(const std::string& name, ValueId value, std::vector<int64_t> axes, bool keepdims = true) {
    Attributes attributes;
    attributes.set("axes", std::move(axes));
    attributes.set("keepdims", static_cast<int64_t>(keepdims));
    return op(name, {value}, std::move(attributes));
  }
  // Zeros behind (or elements cut off, where negative) along one axis.
  ValueId pad_end(ValueId value, size_t axis, const Dim& amount) {
    if (!status_.ok() || amount == Dim(0)) return value;
    Shape pads(2 * shape(value).size(), Dim(0));
    pads[shape(value).size() + axis] = amount;
    Attributes attributes;
    attributes.set("pads", std::move(pads));
    return op("Pad", {value}, std::move(attributes));
  }
  ValueId cast(ValueId value, DType to) {
    Attributes attributes;
    attributes.set("to", to);
    return op("Cast", {value}, std::move(attributes));
  }
  ValueId number(DType dtype, double value) { return constant(float_constant(dtype, {}, {value}), "number"); }
  ValueId constant(ConstantPtr value, const std::string& hint) {
    return status_.ok() ? graph_.add_constant(std::move(value), hint) : ValueId();
  }
  const TensorType& type(ValueId value) const { return graph_.type(value); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  Graph& graph() { return graph_; }

 private:
  ValueId keep(Result<ValueId> result) {
    if (result.ok()) return *result;
    status_ = std::move(result).status();
    return {};
  }
  Graph& graph_;
  OriginSet origins_;
  std::string hint_;
  Status status_;
};

// The node that a rule looks at; copies, as adding nodes moves them.
struct DecomposeSite {
  const Attributes& attributes;
  const std::vector<ValueId>& inputs;
  size_t output_count;
  const PassContext& context;
  bool has(size_t k) const { return k < inputs.size() && inputs[k].valid(); }
  ValueId input(size_t k) const { return has(k) ? inputs[k] : ValueId(); }
};

// The values that replace the node's outputs; empty: leave it.
using DecomposeRule = std::vector<ValueId> (*)(DecomposeBuilder& b, const DecomposeSite& site);

// decompose_einsum.cpp
std::vector<ValueId> decompose_einsum(DecomposeBuilder& b, const DecomposeSite& s);
// decompose_signal.cpp
std::vector<ValueId> decompose_dft(DecomposeBuilder& b, const DecomposeSite& s);
std::vector<ValueId> decompose_stft(DecomposeBuilder& b, const DecomposeSite& s);
// decompose_conv_transpose.cpp
std::vector<ValueId> decompose_conv_transpose(DecomposeBuilder& b, const DecomposeSite& s);
// decompose_image.cpp
std::vector<ValueId> decompose_max_unpool(DecomposeBuilder& b, const DecomposeSite& s);
std::vector<ValueId> decompose_deform_conv(DecomposeBuilder& b, const DecomposeSite& s);

}  // namespace aipu::graph
