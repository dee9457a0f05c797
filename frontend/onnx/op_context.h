// What a converter sees of one ONNX node, and how it emits canonical ops. Private to frontend/onnx; free of protobuf.
//
// Errors are sticky: the first failure is kept, later calls return invalid values and do nothing, so that a converter
// reads as a straight list of emissions. The importer looks at status() afterwards, adds the node's name, and refuses
// attributes that no one took.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/onnx/list_value.h"
#include "graph/ir/graph.h"
#include "graph/ir/op_def.h"

namespace onnx {
class GraphProto;
}

namespace aipu::frontend {

using graph::Attributes;
using graph::AttributeValue;
using graph::ConstantPtr;
using graph::Dim;
using graph::Graph;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;

struct OnnxAttribute {
  enum class Kind { kFloat, kInt, kString, kTensor, kGraph, kFloats, kInts, kStrings, kType, kOther };
  Kind kind = Kind::kOther;
  double f = 0;
  int64_t i = 0;
  std::string s;
  ConstantPtr tensor;
  const onnx::GraphProto* graph = nullptr;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  DType dtype = DType::kVoid;  // kType: of the tensor, or of the sequence's elements
  bool is_sequence = false;    // kType
  bool taken = false;
};

// A sub-graph imported into a Graph of its own, and the values of the enclosing graph it uses, in the order of its last
// inputs.
struct ImportedSubgraph {
  std::unique_ptr<Graph> graph;
  std::vector<ValueId> captures;
  std::vector<Item> results;  // its outputs; those of the graph are the parts of these in a row
};

// What a sub-graph says about its inputs and outputs. Types are as declared, extents that are not given are -1.
struct DeclaredPort {
  std::string name;
  DType dtype = DType::kVoid;
  std::vector<int64_t> extents;
};
struct DeclaredPorts {
  std::vector<DeclaredPort> inputs, outputs;
};

// Emits a body into the graph, from its inputs; its outputs.
using BodyWriter = std::function<Result<std::vector<ValueId>>(Graph&, const std::vector<ValueId>&)>;

// The importer's side of sub-graphs.
class SubgraphImporter {
 public:
  virtual ~SubgraphImporter() = default;
  // `formals` are what the sub-graph's own inputs are.
  virtual Result<ImportedSubgraph> import_subgraph(const onnx::GraphProto& proto,
                                                   const std::vector<Formal>& formals) = 0;
  // Puts the nodes of a sub-graph into the current graph; its outputs.
  virtual Result<std::vector<Item>> inline_subgraph(const onnx::GraphProto& proto,
                                                    const std::vector<Item>& arguments) = 0;
  virtual Result<DeclaredPorts> declared_ports(const onnx::GraphProto& proto) = 0;
  // The body of a control flow node that a converter writes, with inputs of these types. While it is written,
  // inline_subgraph() puts nodes into it, and seen_within() tells what values of the graph around it are there.
  virtual Result<ImportedSubgraph> write_body(const std::string& name, const std::vector<TensorType>& formals,
                                              const BodyWriter& write) = 0;
  virtual ValueId seen_within(ValueId outer) = 0;
  // A symbol no one else in the model uses.
  virtual Dim fresh_symbol(const std::string& hint) = 0;
  // Whether a sequence of this name is read in the graph that is being imported, and only to join its tensors along an
  // axis that they have.
  virtual bool is_only_joined(const std::string& name, int64_t axis) const = 0;
  // The number of a string, as tensors of strings hold it.
  virtual int64_t number_of_string(const std::string& text) = 0;
};

using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;

class OpContext {
 public:
  OpContext(Graph& graph, SubgraphImporter& subgraphs, std::string op_type, int64_t version, graph::Origin origin)
      : graph_(graph),
        subgraphs_(subgraphs),
        op_type_(std::move(op_type)),
        version_(version),
        origin_(std::move(origin)) {}

  // ---- filled by the importer
  std::vector<ValueId> inputs;
  std::vector<std::string> output_names;  // "" where not asked for
  std::map<std::string, OnnxAttribute, std::less<>> attributes;
  std::vector<ValueId> results;  // what the outputs became; the converter's product
  // Where inputs and outputs are no tensors, beside inputs and results; null where they are. Only converters whose row
  // says so are called with such.
  std::vector<ListPtr> input_lists;
  std::vector<ListPtr> result_lists;

  // ---- the node
  const std::string& op_type() const { return op_type_; }
  int64_t version() const { return version_; }  // of the node's opset
  Graph& graph() { return graph_; }
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].valid(); }
  ValueId input(size_t i) const { return i < inputs.size() ? inputs[i] : ValueId{}; }
  ListPtr list(size_t i) const { return i < input_lists.size() ? input_lists[i] : nullptr; }
  Item item(size_t i) const { return {input(i), list(i)}; }
  const TensorType& type(ValueId value) const;  // an empty type for an invalid value
  int rank(ValueId value) const { return type(value).rank(); }
  DType dtype(ValueId value) const { return type(value).dtype; }
  bool wants_output(size_t i) const { return i < output_names.size() && !output_names[i].empty(); }
  // Fails unless the node has between `least` and `most` inputs, the first `least` of them present.
  void expect_inputs(size_t least, size_t most);

  // ---- errors
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  void fail(Status status);
  void fail_invalid(std::string message) { fail(invalid_model(std::move(message))); }
  void fail_unsupported(std::string message) { fail(unsupported(std::move(message))); }

  // ---- attributes; reading one of the wrong kind fails
  bool has_attribute(std::string_view name) const { return attributes.contains(name); }
  int64_t take_int(std::string_view name, int64_t otherwise);
  double take_float(std::string_view name, double otherwise);
  std::string take_string(std::string_view name, std::string_view otherwise);
  std::optional<std::vector<int64_t>> take_ints(std::string_view name);
  std::optional<std::vector<double>> take_floats(std::string_view name);
  std::optional<std::vector<std::string>> take_strings(std::string_view name);
  ConstantPtr take_tensor(std::string_view name);             // null when absent
  DType take_dtype(std::string_view name, DType otherwise);   // 0 is absent
  const onnx::GraphProto* take_graph(std::string_view name);  // fails when absent
  void ignore(std::string_view name);                         // an attribute without meaning for us
  void require_attribute(std::string_view name);
  // The remaining attributes that the canonical op's record knows, converted to the kinds the record says.
  Attributes pass_attributes(std::string_view canonical_op);
  // A negative axis counted from `rank`; out of range fails.
  int64_t take_axis(std::string_view name, int64_t otherwise, int rank);

  // ---- emission
  ValueId emit(std::string_view op, AttributeList attributes, std::vector<ValueId> inputs);
  // The node that makes outputs 0..n-1 of this ONNX node, under their names; outputs not asked for are absent where
  // `trailing_optional`.
  void emit_outputs(std::string_view op, Attributes attributes, std::vector<ValueId> inputs,
                    std::vector<std::unique_ptr<Graph>> subgraphs = {});
  // the one output of this ONNX node
  void emit_output(std::string_view op, AttributeList attributes, std::vector<ValueId> inputs);
  void set_output(size_t i, ValueId value);
  void set_output(size_t i, const Item& item);
  // The outputs `names` of one node that this ONNX node becomes a part of; empty after a failure.
  std::vector<ValueId> emit_named(std::string_view op, Attributes attributes, std::vector<ValueId> inputs,
                                  std::vector<std::string> names);

  ValueId constant(ConstantPtr constant);
  ValueId int64s(std::vector<int64_t> elements);  // 1-D
  ValueId int64_scalar(int64_t value);
  ValueId strings(const std::vector<std::string>& elements);  // 1-D
  int64_t number_of_string(const std::string& text) { return subgraphs_.number_of_string(text); }
  ValueId scalar(DType dtype, double value);  // rank 0 of any numeric dtype or bool
  ValueId shape_of(ValueId value) { return emit("Shape", {}, {value}); }
  // [1]
  ValueId size_of(ValueId value, int64_t axis) { return emit("Shape", {{"start", axis}, {"end", axis + 1}}, {value}); }
  ValueId cast(ValueId value, DType to);  // the value itself where the dtype fits
  ValueId unsqueeze(ValueId value, std::vector<int64_t> axes);
  ValueId squeeze(ValueId value, std::vector<int64_t> axes);
  ValueId transpose(ValueId value, std::vector<int64_t> permutation);
  // The elements of an integer operand that must be known while converting (an old attribute in newer clothes).
  std::optional<std::vector<int64_t>> constant_ints(ValueId value) const;

  // Imports the sub-graph; on failure an empty graph and a failed context.
  ImportedSubgraph import_subgraph(const onnx::GraphProto* proto, const std::vector<Formal>& formals);
  std::vector<Item> inline_subgraph(const onnx::GraphProto* proto, const std::vector<Item>& arguments);
  DeclaredPorts declared_ports(const onnx::GraphProto* proto);  // empty after a failure
  // A body that `write` emits into the context that it is given; see SubgraphImporter.
  ImportedSubgraph write_body(
      const std::vector<TensorType>& formals,
      const std::function<std::vector<ValueId>(OpContext&, const std::vector<ValueId>&)>& write);
  ValueId seen_within(ValueId outer) { return outer.valid() && ok() ? subgraphs_.seen_within(outer) : ValueId(); }
  Dim fresh_symbol(const std::string& hint) { return subgraphs_.fresh_symbol(hint); }
  bool is_only_joined(const std::string& name, int64_t axis) const { return subgraphs_.is_only_joined(name, axis); }
  // The value with a symbol of its own for each extent that is too long an expression to be repeated by what follows.
  ValueId with_short_extents(ValueId value);
  // An empty graph, and what emits nodes of this ONNX node into it.
  OpContext within(Graph& body) const { return OpContext(body, subgraphs_, op_type_, version_, origin_); }

 private:
  OnnxAttribute* find(std::string_view name, OnnxAttribute::Kind kind);

  Graph& graph_;
  SubgraphImporter& subgraphs_;
  std::string op_type_;
  int64_t version_ = 0;
  graph::Origin origin_;
  Status status_;
};

}  // namespace aipu::frontend
