#include "frontend/onnx/survey.h"

#include <algorithm>
#include <map>
#include <set>

#include "frontend/one_line.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/onnx_pb.h"

namespace aipu::frontend {

namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kExamples = 3;

std::string tensor_text(const onnx::TypeProto& type) {
  const auto& tensor = type.tensor_type();
  const auto dtype = dtype_from_onnx(tensor.elem_type());
  std::string text(dtype ? dtype_name(*dtype) : "?");
  if (!tensor.has_shape()) return text + " of any shape";
  text += "[";
  for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
    const auto& dim = tensor.shape().dim(axis);
    text += str_cat(axis > 0 ? "," : "", dim.has_dim_value()       ? std::to_string(dim.dim_value())
                                         : dim.dim_param().empty() ? std::string("?")
                                                                   : dim.dim_param());
  }
  return text + "]";
}

std::string type_text(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return "sequence of " + type_text(type.sequence_type().elem_type());
  if (type.has_optional_type()) return "optional " + type_text(type.optional_type().elem_type());
  if (type.has_map_type()) return "map to " + type_text(type.map_type().value_type());
  if (type.has_sparse_tensor_type()) return "sparse tensor";
  return type.has_tensor_type() ? tensor_text(type) : "of no type";
}

int64_t elements_of(const onnx::TensorProto& tensor) {
  int64_t count = 1;
  for (const int64_t extent : tensor.dims()) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return 0;
  }
  return count;
}

// Walks over the nodes of a model and what they contain and call.
class Surveyor {
 public:
  Surveyor(const onnx::ModelProto& model, const ImportOptions& options) : model_(model), options_(options) {
    for (const auto& import : model.opset_import()) opsets_[domain_of(import.domain())] = import.version();
    if (opsets_.empty()) opsets_[""] = 1;  // before IR version 3
    for (const auto& function : model.functions())
      functions_.emplace(std::tuple(domain_of(function.domain()), function.name(), function.overload()), &function);
  }

  ModelSurvey run() {
    ModelSurvey survey;
    survey.producer = model_.producer_name();
    if (!model_.producer_version().empty()) survey.producer += " " + model_.producer_version();
    survey.ir_version = model_.ir_version();
    for (const auto& [domain, version] : opsets_) survey.opsets.emplace_back(shown(domain), version);
    survey.description = model_.doc_string();
    for (const auto& entry : model_.metadata_props()) survey.metadata.emplace_back(entry.key(), entry.value());
    const auto& graph = model_.graph();
    std::set<std::string> initializers;
    for (const auto& tensor : graph.initializer()) {
      survey.parameters += elements_of(tensor);
      initializers.insert(tensor.name());
    }
    for (const auto& input : graph.input()) {
      if (!initializers.contains(input.name())) survey.inputs.push_back(input.name() + " " + type_text(input.type()));
    }
    for (const auto& output : graph.output()) survey.outputs.push_back(output.name() + " " + type_text(output.type()));
    walk(graph, opsets_, 0);
    for (auto& [key, row] : rows_) survey.ops.push_back(std::move(row));
    return survey;
  }

 private:
  using Names = std::map<std::string, int64_t>;  // initializers that no node has had yet, with their elements

  static std::string shown(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

  void walk(const onnx::GraphProto& graph, const OpsetVersions& opsets, int depth) {
    Names initializers;
    for (const auto& tensor : graph.initializer()) initializers.emplace(tensor.name(), elements_of(tensor));
    std::swap(initializers, initializers_);
    for (const auto& [name, count] : initializers) initializers_.emplace(name, count);  // those of the graph around
    walk_nodes(graph.node(), opsets, depth);
    std::swap(initializers, initializers_);
  }

  void walk_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const OpsetVersions& opsets,
                  int depth) {
    if (depth > kMaxDepth) return;  // the importer says so
    for (const auto& node : nodes) {
      add(node, opsets, depth);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) walk(attribute.g(), opsets, depth + 1);
      }
    }
  }

  void add(const onnx::NodeProto& node, const OpsetVersions& opsets, int depth) {
    const std::string domain = domain_of(node.domain());
    const auto version = opsets.find(domain);
    const int64_t opset = version != opsets.end() ? version->second : 0;
    OpSurvey& row = rows_[{domain, node.op_type(), opset}];
    if (row.nodes++ == 0) {
      row.domain = shown(domain);
      row.op = node.op_type();
      row.opset = opset;
    }
    if (row.examples.size() < kExamples) row.examples.push_back(node_name(node));
    for (const auto& input : node.input()) {
      if (const auto it = initializers_.find(input); it != initializers_.end())
        row.parameters += std::exchange(it->second, 0);
    }
    const auto function = functions_.find({domain, node.op_type(), node.overload()});
    find_importer(node, domain, opset, function != functions_.end(), &row);
    if (row.importer == "function" && called_.insert(function->second).second) {
      OpsetVersions inner = opsets_;
      for (const auto& import : function->second->opset_import()) inner[domain_of(import.domain())] = import.version();
      walk_nodes(function->second->node(), inner, depth + 1);
    }
  }

  void find_importer(const onnx::NodeProto& node, const std::string& domain, int64_t opset, bool has_function,
                     OpSurvey* row) const {
    const ConverterRow* converter = node.overload().empty() ? find_converter(domain, node.op_type(), opset) : nullptr;
    if (find_record(options_.ops.get(), domain, node.op_type(), converter != nullptr) != nullptr) {
      row->importer = "plugin";
    } else if (converter != nullptr && converter->convert != nullptr) {
      row->importer = "importer";
    } else if (has_function) {
      row->importer = "function";
    } else if (converter != nullptr) {
      row->refusal = converter->refusal;
    } else {
      row->refusal = refusal_of_unknown(domain, node.op_type(),
                                        "the model's opset is too old for it; convert the model to a newer one",
                                        "a plugin can define it (kernels/ADDING_AN_OP.md)");
    }
  }

  const onnx::ModelProto& model_;
  const ImportOptions& options_;
  OpsetVersions opsets_;
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*> functions_;
  std::set<const onnx::FunctionProto*> called_;
  Names initializers_;
  std::map<std::tuple<std::string, std::string, int64_t>, OpSurvey> rows_;
};

}  // namespace

Result<ModelSurvey> survey_onnx(const std::string& path, const ImportOptions& options) {
  AIPU_ASSIGN_OR_RETURN(const auto file, MappedFile::read(path));
  const auto model = parse_model(file.bytes());
  if (!model.ok()) return Status(model.status().code(), str_cat(path, ": ", one_line(model.status().message())));
  return Surveyor(*model->proto, options).run();
}

}  // namespace aipu::frontend
