// What is checked before anything is imported: opset versions, functions, that every operator is known, an order of
// execution.
#include <algorithm>
#include <queue>
#include <set>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/onnx_pb.h"

namespace aipu::frontend {

namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

constexpr int kMaxScanDepth = 32;

void collect_uses(const Nodes& nodes, std::vector<const std::string*>* names);

void collect_node_uses(const onnx::NodeProto& node, std::vector<const std::string*>* names) {
  for (const auto& input : node.input()) names->push_back(&input);
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) {
      collect_uses(attribute.g().node(), names);
      for (const auto& output : attribute.g().output()) names->push_back(&output.name());
    }
  }
}

void collect_uses(const Nodes& nodes, std::vector<const std::string*>* names) {
  for (const auto& node : nodes) collect_node_uses(node, names);  // the depth is bounded by protobuf's
}

}  // namespace

// The order of the file where that is a valid one, the closest valid one otherwise.
Result<std::vector<int>> Importer::execution_order(const Nodes& nodes) {
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const auto& output : nodes[i].output()) {
      if (!output.empty()) producer.emplace(output, i);
    }
  }
  std::vector<std::vector<int>> users(static_cast<size_t>(nodes.size()));
  std::vector<int> waiting(static_cast<size_t>(nodes.size()), 0);
  for (int i = 0; i < nodes.size(); ++i) {
    std::vector<const std::string*> names;
    collect_node_uses(nodes[i], &names);
    std::set<int> needed;
    for (const auto* name : names) {
      const auto it = producer.find(*name);
      // A sub-graph may use a name of its own that the enclosing graph defines later: not a dependency on itself.
      if (it != producer.end() && it->second != i) needed.insert(it->second);
    }
    for (const int p : needed) users[static_cast<size_t>(p)].push_back(i);
    waiting[static_cast<size_t>(i)] = static_cast<int>(needed.size());
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (waiting[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const int user : users[static_cast<size_t>(i)]) {
      if (--waiting[static_cast<size_t>(user)] == 0) ready.push(user);
    }
  }
  if (order.size() != static_cast<size_t>(nodes.size())) {
    for (int i = 0; i < nodes.size(); ++i) {
      if (waiting[static_cast<size_t>(i)] > 0)
        return invalid_model(str_cat("node '", node_name(nodes[i]), "' (", nodes[i].op_type(), ") is part of a cycle"));
    }
  }
  return order;
}

Status Importer::check_opsets(const OpsetVersions& opsets) const {
  for (const auto& [domain, version] : opsets) {
    if (version < 1) return invalid_model(str_cat("opset version ", version, " of domain '", domain, "' is not valid"));
    // Operators change rarely: what a newer opset changed in one of them shows as an attribute or an operand too many.
    if (domain.empty() && version > kNewestOpset && options_.warnings != nullptr) {
      options_.warnings->push_back(str_cat("the model is of opset ", version, ", this build knows opsets up to ",
                                           kNewestOpset, "; its operators are taken as they were then"));
    }
  }
  return {};
}

Status Importer::collect_functions() {
  for (const auto& function : model_->functions()) {
    const auto where = [&] {
      return str_cat("function '", function.domain(), "::", function.name(), function.overload().empty() ? "" : ":",
                     function.overload(), "'");
    };
    if (!functions_.emplace(std::tuple(domain_of(function.domain()), function.name(), function.overload()), &function)
             .second) {
      return invalid_model(where() + " is there twice");
    }
    OpsetVersions& opsets = function_opsets_[&function];
    opsets = opsets_;
    for (const auto& import : function.opset_import()) opsets[domain_of(import.domain())] = import.version();
    if (auto status = check_opsets(opsets); !status.ok()) return std::move(status).context(where());
  }
  return {};
}

const onnx::FunctionProto* Importer::find_function(const onnx::NodeProto& node) const {
  const auto it = functions_.find({domain_of(node.domain()), node.op_type(), node.overload()});
  return it != functions_.end() ? it->second : nullptr;
}

// Reports every node that no converter, plugin or function covers, here and in the sub-graphs and functions below.
Status Importer::scan_nodes(const Nodes& nodes, const OpsetVersions& opsets, int depth) {
  if (depth > kMaxScanDepth)
    return invalid_model(str_cat("sub-graphs and functions are nested more than ", kMaxScanDepth, " deep"));
  for (const auto& node : nodes) {
    const std::string domain = domain_of(node.domain());
    const auto version = opsets.find(domain);
    const onnx::FunctionProto* function = find_function(node);
    if (version == opsets.end() && function == nullptr) {
      return invalid_model(str_cat("node '", node_name(node), "' (", node.op_type(), ") is of domain '",
                                   domain.empty() ? "ai.onnx" : domain,
                                   "', which the model's opset imports do not list"));
    }
    const int64_t opset = version != opsets.end() ? version->second : 1;
    if (!node.overload().empty() && function == nullptr) {
      return invalid_model(str_cat("node '", node_name(node), "' (", node.op_type(), ") calls the overload '",
                                   node.overload(), "' of a function, which the model does not have"));
    }
    const ConverterRow* row = node.overload().empty() ? find_converter(domain, node.op_type(), opset) : nullptr;
    if (find_record(options_.ops.get(), domain, node.op_type(), row != nullptr) != nullptr) {
      // a plugin's
    } else if (row != nullptr && row->convert != nullptr) {
      // a converter's
    } else if (function != nullptr) {
      if (scanned_.insert(function).second)
        AIPU_RETURN_IF_ERROR(scan_nodes(function->node(), function_opsets_.at(function), depth + 1));
    } else if (row != nullptr) {
      report_unsupported(node, "", opset, std::string(row->refusal));
    } else {
      const std::string_view hint =
          domain.empty() ? "in a domain of its own a plugin can define it (--plugin FILE; plugins=[FILE] in Python)"
                         : "a plugin can define it (--plugin FILE; plugins=[FILE] in Python)";
      report_unsupported(node, "", opset,
                         refusal_of_unknown(domain, node.op_type(), "the model's opset is too old for it", hint));
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) AIPU_RETURN_IF_ERROR(scan_nodes(attribute.g().node(), opsets, depth + 1));
      for (const auto& graph : attribute.graphs()) AIPU_RETURN_IF_ERROR(scan_nodes(graph.node(), opsets, depth + 1));
    }
  }
  return {};
}

}  // namespace aipu::frontend
