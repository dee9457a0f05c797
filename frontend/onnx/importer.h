// The walk over a model: scopes and names, functions, sub-graphs, the collection of what is not supported. Private to
// frontend/onnx.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/onnx/converter_table.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/model_reader.h"
#include "frontend/onnx/op_context.h"

namespace google::protobuf {
template <typename T>
class RepeatedPtrField;
}
namespace onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class ModelProto;
class NodeProto;
class TypeProto;
class ValueInfoProto;
}  // namespace onnx

namespace aipu::frontend {

using OpsetVersions = std::map<std::string, int64_t, std::less<>>;

// Names visible to the nodes of one graph or one inlined function.
struct Scope {
  Graph* graph = nullptr;
  Scope* parent = nullptr;  // the enclosing one, for sub-graphs; functions see only their arguments
  const OpsetVersions* opsets = nullptr;
  const google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes = nullptr;
  std::string name_prefix;                          // of origins, for inlined functions
  std::unordered_map<std::string, ValueId> values;  // invalid: an optional argument that was not given
  std::unordered_map<std::string, ListPtr> lists;   // sequences and optionals
  std::unordered_set<std::string> poisoned;         // outputs of nodes that could not be imported
  std::unordered_map<std::string, const onnx::TensorProto*> initializers;
  std::unordered_map<std::string, const onnx::SparseTensorProto*> sparse_initializers;
  std::map<std::string, const onnx::AttributeProto*> function_attributes;
  bool in_function = false;
  std::vector<ValueId> captures;  // values of the parent's graph, in the order of this graph's last inputs
  std::unordered_map<int32_t, ValueId> captured;  // the same by index, to what they are here
  int depth = 0;
};

class Importer : public SubgraphImporter {
 public:
  // `file`: what the model was parsed from, for Constants to borrow from; null where it does not outlive this object.
  Importer(const ParsedModel& model, std::shared_ptr<const MappedFile> file, const ImportOptions& options,
           const std::string& folder);
  Result<std::unique_ptr<Graph>> run();
  Result<ImportedSubgraph> import_subgraph(const onnx::GraphProto& proto, const std::vector<Formal>& formals) override;
  Result<std::vector<Item>> inline_subgraph(const onnx::GraphProto& proto, const std::vector<Item>& arguments) override;
  Dim fresh_symbol(const std::string& hint) override;
  bool is_only_joined(const std::string& name, int64_t axis) const override;
  int64_t number_of_string(const std::string& text) override { return reader_.strings->number_of(text); }
  Result<DeclaredPorts> declared_ports(const onnx::GraphProto& proto) override;
  Result<ImportedSubgraph> write_body(const std::string& name, const std::vector<TensorType>& formals,
                                      const BodyWriter& write) override;
  ValueId seen_within(ValueId outer) override;

 private:
  std::unique_ptr<Graph> new_body(const std::string& name);
  struct Found {
    bool exists = false;
    bool poisoned = false;
    ValueId value;
    ListPtr list;
    bool is_given() const { return value.valid() || list != nullptr; }
  };
  // An input of the model that is no tensor, and its elements as inputs of their own.
  struct ListInput {
    const onnx::ValueInfoProto* info = nullptr;
    ListValue value;
    std::vector<std::string> elements;
  };
  using Inputs = std::vector<const onnx::ValueInfoProto*>;
  struct Unsupported {
    int nodes = 0;
    std::vector<std::string> names;
    std::string reason;
  };

  // scan.cpp: before anything is imported
  Status check_opsets(const OpsetVersions& opsets) const;
  Status collect_functions();
  Status scan_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const OpsetVersions& opsets,
                    int depth);
  static Result<std::vector<int>> execution_order(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);

  // ports.cpp: graph inputs and outputs
  Status subgraph_outputs(Scope& scope, const onnx::GraphProto& proto, std::vector<Item>* outputs);
  Status add_graph_inputs(Scope& scope);
  Status check_preprocess(const Inputs& inputs) const;
  Result<ValueId> add_tensor_input(Scope& scope, const onnx::ValueInfoProto& info);
  Status check_sequence_lengths(const Inputs& inputs) const;
  Result<ListInput> list_input(const onnx::ValueInfoProto& info, Inputs* elements);
  Result<ListInput> map_input(const onnx::ValueInfoProto& info, Inputs* elements);
  // An input `list[k]` beside the model's own; its name.
  std::string add_element(const std::string& list, size_t k, const onnx::TypeProto& type, Inputs* elements);
  Status fix_symbols(const Inputs& inputs);
  Status add_list_output(Scope& scope, const onnx::ValueInfoProto& info, const ListValue& list,
                         std::unordered_set<std::string>* names);
  void describe(PortList list);
  Result<TensorType> input_type(const onnx::ValueInfoProto& info);
  Status add_constant_input(Scope& scope, const onnx::ValueInfoProto& info, const ConstantPtr& constant);
  Status add_graph_outputs(Scope& scope);
  Status add_exposed_outputs(Scope& scope);
  Status check_declared_output(const onnx::ValueInfoProto& info, const TensorType& inferred);
  std::string symbol_for(const std::string& dim_param);  // a name that Dim::parse accepts, unique per text
  std::string symbol_for_axis(const std::string& input, size_t axis);

  // importer.cpp
  Status import_nodes(Scope& scope, const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);
  Status import_node(Scope& scope, const onnx::NodeProto& node);
  Status import_call(Scope& scope, const onnx::NodeProto& node, const onnx::FunctionProto& function);
  Result<Found> lookup(Scope& scope, const std::string& name);
  static ValueId capture(Scope& scope, ValueId outer, const std::string& name);
  Status define(Scope& scope, const std::string& name, const Item& item);
  Status define(Scope& scope, const std::string& name, ValueId value) { return define(scope, name, Item{value, {}}); }
  Status check_new(const Scope& scope, const std::string& name) const;
  void poison_outputs(Scope& scope, const onnx::NodeProto& node);
  Status read_initializers(Scope& scope, const onnx::GraphProto& graph);
  Result<OnnxAttribute> read_attribute(const onnx::AttributeProto& attribute);
  Status collect_attributes(Scope& scope, const onnx::NodeProto& node,
                            std::map<std::string, const onnx::AttributeProto*>* out);
  void report_unsupported(const onnx::NodeProto& node, const std::string& prefix, int64_t version, std::string reason);
  Status unsupported_error() const;
  const onnx::FunctionProto* find_function(const onnx::NodeProto& node) const;

  std::shared_ptr<onnx::ModelProto> model_;
  const ImportOptions& options_;
  TensorReader reader_;
  OpsetVersions opsets_;
  // by domain, name and overload
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*> functions_;
  std::map<const onnx::FunctionProto*, OpsetVersions> function_opsets_;
  std::set<const onnx::FunctionProto*> scanned_;
  std::map<std::string, Unsupported> unsupported_;  // by "Op-version" text
  std::set<const onnx::NodeProto*> reported_;
  std::map<std::string, std::string> symbols_;  // dim_param -> symbol
  std::set<std::string> used_symbols_;
  std::map<std::string, int64_t> fixed_symbols_;                            // by --shape
  std::vector<std::shared_ptr<const onnx::ValueInfoProto>> element_infos_;  // of inputs that are lists
  Scope* current_ = nullptr;                                                // of the node being converted
  int64_t imported_nodes_ = 0;
  int64_t subgraphs_ = 0;
};

// A node's name for messages and origins: its own, or its first output's.
std::string node_name(const onnx::NodeProto& node);
// "" for the default domain under either of its names.
std::string domain_of(const std::string& domain);

}  // namespace aipu::frontend
