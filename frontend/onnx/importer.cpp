#include "frontend/onnx/importer.h"

#include <algorithm>

#include "frontend/onnx/onnx_pb.h"
#include "frontend/onnx/unknown_fields.h"

namespace aipu::frontend {

namespace {

constexpr int kMaxDepth = 32;                  // of sub-graphs and function calls
constexpr int64_t kMaxImportedNodes = 300000;  // a few nested functions could otherwise stand for billions of nodes

// What a failed sub-graph hands to its owner when everything there is to say has been reported.
Status already_reported() { return unsupported(""); }

}  // namespace

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

std::string node_name(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const auto& output : node.output()) {
    if (!output.empty()) return output;
  }
  return "unnamed";
}

Importer::Importer(const ParsedModel& model, std::shared_ptr<const MappedFile> file, const ImportOptions& options,
                   const std::string& folder)
    : model_(model.proto), options_(options), reader_(model_, folder) {
  reader_.strings = options.strings != nullptr ? options.strings : std::make_shared<graph::StringTable>();
  reader_.take_initializers(model, std::move(file));
}

Result<std::unique_ptr<Graph>> Importer::run() {
  for (const auto& import : model_->opset_import()) opsets_[domain_of(import.domain())] = import.version();
  // Before IR version 3 there were no opset imports.
  if (opsets_.empty() && model_->ir_version() < 3) opsets_[""] = 1;
  AIPU_RETURN_IF_ERROR(check_unknown_fields(*model_, options_.warnings));
  AIPU_RETURN_IF_ERROR(check_opsets(opsets_));
  AIPU_RETURN_IF_ERROR(collect_functions());
  AIPU_RETURN_IF_ERROR(scan_nodes(model_->graph().node(), opsets_, 0));

  auto graph = std::make_unique<Graph>(options_.ops);
  graph->name = model_->graph().name();
  Scope scope;
  scope.graph = graph.get();
  scope.opsets = &opsets_;
  AIPU_RETURN_IF_ERROR(read_initializers(scope, model_->graph()));
  AIPU_RETURN_IF_ERROR(add_graph_inputs(scope));
  AIPU_RETURN_IF_ERROR(import_nodes(scope, model_->graph().node()));
  if (!unsupported_.empty()) return unsupported_error();
  AIPU_RETURN_IF_ERROR(add_graph_outputs(scope));
  AIPU_RETURN_IF_ERROR(add_exposed_outputs(scope));
  for (const Postprocess& postprocess : options_.postprocess)
    AIPU_RETURN_IF_ERROR(add_postprocessing(graph.get(), postprocess));
  if (options_.description != nullptr) {
    options_.description->text = model_->doc_string();
    for (const auto& entry : model_->metadata_props())
      options_.description->metadata.emplace_back(entry.key(), entry.value());
  }
  if (options_.strings == nullptr && reader_.strings->texts().size() > 1)
    return unsupported("the model has strings, for which there is no table (ImportOptions::strings)");
  return graph;
}

// ---- names

// What a value of the enclosing graph is in this one: a captured input, or the same constant.
ValueId Importer::capture(Scope& scope, ValueId outer, const std::string& name) {
  if (const auto it = scope.captured.find(outer.index); it != scope.captured.end()) return it->second;
  const graph::Value& source = scope.parent->graph->value(outer);
  ValueId value;
  if (source.constant != nullptr) {
    value = scope.graph->add_constant(source.constant, name);
  } else {
    value = scope.graph->add_input(name, source.type);
    scope.graph->value(value).data = source.data;
    scope.captures.push_back(outer);
  }
  scope.captured.emplace(outer.index, value);
  return value;
}

Result<Importer::Found> Importer::lookup(Scope& scope, const std::string& name) {
  if (const auto it = scope.values.find(name); it != scope.values.end()) return Found{true, false, it->second, {}};
  if (const auto it = scope.lists.find(name); it != scope.lists.end()) return Found{true, false, {}, it->second};
  if (scope.poisoned.contains(name)) return Found{true, true, {}, {}};
  // Initializers become constants when they are first used.
  ConstantPtr constant;
  if (const auto it = scope.initializers.find(name); it != scope.initializers.end()) {
    AIPU_ASSIGN_OR_RETURN(constant, reader_.read(*it->second));
  } else if (const auto sparse = scope.sparse_initializers.find(name); sparse != scope.sparse_initializers.end()) {
    AIPU_ASSIGN_OR_RETURN(constant, reader_.read(*sparse->second));
  }
  if (constant != nullptr) {
    const ValueId value = scope.graph->add_constant(std::move(constant), name);
    scope.values.emplace(name, value);
    return Found{true, false, value, {}};
  }
  if (scope.parent == nullptr) return Found{};
  AIPU_ASSIGN_OR_RETURN(Found outer, lookup(*scope.parent, name));
  if (!outer.exists || outer.poisoned || !outer.is_given() || scope.parent->graph == scope.graph) return outer;
  if (outer.list != nullptr) {
    std::vector<ValueId> parts = parts_of(*outer.list);
    for (size_t k = 0; k < parts.size(); ++k) parts[k] = capture(scope, parts[k], str_cat(name, "[", k, "]"));
    outer.list = with_parts(*outer.list, parts);
    scope.lists.emplace(name, outer.list);
    return outer;
  }
  outer.value = capture(scope, outer.value, name);
  scope.values.emplace(name, outer.value);
  return outer;
}

Status Importer::check_new(const Scope& scope, const std::string& name) const {
  if (scope.values.contains(name) || scope.lists.contains(name) || scope.poisoned.contains(name) ||
      scope.initializers.contains(name))
    return invalid_model(str_cat("value '", name, "' is defined twice"));
  return {};
}

Status Importer::define(Scope& scope, const std::string& name, const Item& item) {
  if (name.empty()) return {};
  AIPU_RETURN_IF_ERROR(check_new(scope, name));
  if (item.list != nullptr) {
    scope.lists.emplace(name, item.list);
  } else {
    scope.values.emplace(name, item.value);
  }
  return {};
}

void Importer::poison_outputs(Scope& scope, const onnx::NodeProto& node) {
  for (const auto& output : node.output()) {
    if (!output.empty() && !scope.values.contains(output) && !scope.lists.contains(output))
      scope.poisoned.insert(output);
  }
}

Status Importer::read_initializers(Scope& scope, const onnx::GraphProto& graph) {
  for (const auto& tensor : graph.initializer()) {
    if (!scope.initializers.emplace(tensor.name(), &tensor).second) {
      return invalid_model(str_cat("initializer '", tensor.name(), "' is there twice"));
    }
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    const std::string& name = tensor.values().name();
    if (scope.initializers.contains(name) || !scope.sparse_initializers.emplace(name, &tensor).second) {
      return invalid_model(str_cat("initializer '", name, "' is there twice"));
    }
  }
  return {};
}

// ---- attributes

Result<OnnxAttribute> Importer::read_attribute(const onnx::AttributeProto& attribute) {
  using Proto = onnx::AttributeProto;
  using Kind = OnnxAttribute::Kind;
  auto type = attribute.type();
  if (type == Proto::UNDEFINED) {
    // IR version 1 had no type field: the field that is there says it.
    type = attribute.has_f()              ? Proto::FLOAT
           : attribute.has_i()            ? Proto::INT
           : attribute.has_s()            ? Proto::STRING
           : attribute.has_t()            ? Proto::TENSOR
           : attribute.has_g()            ? Proto::GRAPH
           : attribute.floats_size() > 0  ? Proto::FLOATS
           : attribute.ints_size() > 0    ? Proto::INTS
           : attribute.strings_size() > 0 ? Proto::STRINGS
                                          : Proto::UNDEFINED;
  }
  OnnxAttribute out;
  switch (type) {
    case Proto::FLOAT:
      out.kind = Kind::kFloat, out.f = static_cast<double>(attribute.f());
      break;
    case Proto::INT:
      out.kind = Kind::kInt, out.i = attribute.i();
      break;
    case Proto::STRING:
      out.kind = Kind::kString, out.s = attribute.s();
      break;
    case Proto::FLOATS:
      out.kind = Kind::kFloats, out.floats.assign(attribute.floats().begin(), attribute.floats().end());
      break;
    case Proto::INTS:
      out.kind = Kind::kInts, out.ints.assign(attribute.ints().begin(), attribute.ints().end());
      break;
    case Proto::STRINGS:
      out.kind = Kind::kStrings, out.strings.assign(attribute.strings().begin(), attribute.strings().end());
      break;
    case Proto::GRAPH:
      out.kind = Kind::kGraph, out.graph = &attribute.g();
      break;
    case Proto::TENSOR: {
      out.kind = Kind::kTensor;
      AIPU_ASSIGN_OR_RETURN(out.tensor, reader_.read(attribute.t()));
      break;
    }
    case Proto::SPARSE_TENSOR: {
      out.kind = Kind::kTensor;
      AIPU_ASSIGN_OR_RETURN(out.tensor, reader_.read(attribute.sparse_tensor()));
      break;
    }
    case Proto::TYPE_PROTO: {
      out.kind = Kind::kType;
      out.is_sequence = attribute.tp().has_sequence_type();
      const auto& tensor = out.is_sequence ? attribute.tp().sequence_type().elem_type() : attribute.tp();
      out.dtype = dtype_from_onnx(tensor.tensor_type().elem_type()).value_or(DType::kVoid);
      break;
    }
    default:
      break;
  }
  return out;
}

// The attributes of a node by name, references to the enclosing function's attributes resolved (an unbound one is
// absent).
Status Importer::collect_attributes(Scope& scope, const onnx::NodeProto& node,
                                    std::map<std::string, const onnx::AttributeProto*>* out) {
  for (const auto& attribute : node.attribute()) {
    const onnx::AttributeProto* source = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      // A sub-graph inside a function body refers to the function's attributes too.
      Scope* owner = &scope;
      while (!owner->in_function && owner->parent != nullptr) owner = owner->parent;
      if (!owner->in_function)
        return invalid_model(
            str_cat("attribute '", attribute.name(), "' refers to a function's attribute outside of a function"));
      const auto it = owner->function_attributes.find(attribute.ref_attr_name());
      if (it == owner->function_attributes.end()) continue;
      source = it->second;
    }
    if (!out->emplace(attribute.name(), source).second)
      return invalid_model(str_cat("attribute '", attribute.name(), "' is there twice"));
  }
  return {};
}

// ---- nodes

Status Importer::import_nodes(Scope& scope, const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
  AIPU_ASSIGN_OR_RETURN(const auto order, execution_order(nodes));
  scope.nodes = &nodes;
  for (const int index : order) {
    const onnx::NodeProto& node = nodes[index];
    if (auto status = import_node(scope, node); !status.ok()) {
      return std::move(status).context(
          str_cat("node '", scope.name_prefix, node_name(node), "' (", node.op_type(), ")"));
    }
  }
  return {};
}

namespace {

bool joins_along(const onnx::NodeProto& node, int64_t axis) {
  int64_t own_axis = 0, new_axis = 0;
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == "axis") own_axis = attribute.i();
    if (attribute.name() == "new_axis") new_axis = attribute.i();
  }
  return node.op_type() == "ConcatFromSequence" && new_axis == 0 && own_axis == axis;
}

// The nodes that read a value, those of bodies too.
void add_readers(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const std::string& name,
                 std::vector<const onnx::NodeProto*>* readers) {
  for (const onnx::NodeProto& node : nodes) {
    if (std::ranges::find(node.input(), name) != node.input().end()) readers->push_back(&node);
    for (const auto& attribute : node.attribute()) add_readers(attribute.g().node(), name, readers);
  }
}

}  // namespace

bool Importer::is_only_joined(const std::string& name, int64_t axis) const {
  std::vector<const onnx::NodeProto*> readers;
  add_readers(*current_->nodes, name, &readers);
  return !readers.empty() && std::ranges::all_of(readers, [&](const auto* node) { return joins_along(*node, axis); });
}

Status Importer::import_node(Scope& scope, const onnx::NodeProto& node) {
  if (++imported_nodes_ > kMaxImportedNodes) {
    return out_of_range(
        str_cat("the model has more than ", kMaxImportedNodes, " nodes once its functions are expanded"));
  }
  const std::string domain = domain_of(node.domain());
  const auto version_it = scope.opsets->find(domain);
  const int64_t version = version_it != scope.opsets->end() ? version_it->second : 1;
  const ConverterRow* row = node.overload().empty() ? find_converter(domain, node.op_type(), version) : nullptr;
  const graph::OpDef* const custom = find_record(options_.ops.get(), domain, node.op_type(), row != nullptr);
  if (custom == nullptr && (row == nullptr || row->convert == nullptr)) {
    if (const auto* function = find_function(node)) return import_call(scope, node, *function);
    poison_outputs(scope, node);  // scan_nodes has reported it
    return {};
  }

  OpContext context(*scope.graph, *this, node.op_type(), version,
                    graph::Origin{scope.name_prefix + node_name(node), node.op_type()});
  bool poisoned = false;
  for (const auto& name : node.input()) {
    if (name.empty()) {
      context.inputs.push_back({});
      continue;
    }
    auto found = lookup(scope, name);
    if (!found.ok()) {
      if (found.status().code() != ErrorCode::kUnsupported) return std::move(found).status();
      report_unsupported(node, scope.name_prefix, version, found.status().message());
      poison_outputs(scope, node);
      return {};
    }
    if (!found->exists) return invalid_model(str_cat("input '", name, "' is not defined"));
    poisoned |= found->poisoned;
    context.inputs.push_back(found->value);
    if (found->list == nullptr) continue;
    context.input_lists.resize(context.inputs.size());
    context.input_lists.back() = found->list;
    if (custom != nullptr || !(found->list->has_maps() ? row->takes_maps : row->takes_lists))
      context.fail_unsupported(str_cat("input '", name, "' is ", list_text(*found->list), ", a tensor is needed"));
  }
  while (context.inputs.size() > context.input_lists.size() && !context.inputs.back().valid())
    context.inputs.pop_back();
  for (const auto& name : node.output()) context.output_names.push_back(name);
  while (!context.output_names.empty() && context.output_names.back().empty()) context.output_names.pop_back();
  if (poisoned) {
    poison_outputs(scope, node);
    return {};
  }
  if (context.output_names.empty()) return {};  // nothing can come of it

  std::map<std::string, const onnx::AttributeProto*> attributes;
  AIPU_RETURN_IF_ERROR(collect_attributes(scope, node, &attributes));
  for (const auto& [name, attribute] : attributes) {
    auto value = read_attribute(*attribute);
    if (!value.ok()) {
      context.fail(Status(value.status().code(), str_cat("attribute '", name, "': ", value.status().message())));
      break;
    }
    context.attributes.emplace(name, std::move(value).value());
  }

  Scope* const outer = std::exchange(current_, &scope);
  if (context.ok() && row != nullptr && custom == nullptr) row->convert(context);
  if (context.ok() && custom != nullptr)
    context.emit_outputs(custom->name, context.pass_attributes(custom->name), context.inputs);
  current_ = outer;
  if (context.ok()) {
    for (const auto& [name, attribute] : context.attributes) {
      if (!attribute.taken) context.fail_unsupported(str_cat("attribute '", name, "' is not known"));
    }
  }
  if (context.ok() && context.results.size() < context.output_names.size()) {
    context.fail_invalid(
        str_cat("has ", context.output_names.size(), " outputs, ", context.results.size(), " are defined"));
  }
  if (!context.ok()) {
    // Type rules put the op in front of their messages; here the node says it already.
    std::string_view message = context.status().message();
    if (const std::string prefix = node.op_type() + ": "; message.starts_with(prefix))
      message.remove_prefix(prefix.size());
    if (context.status().code() != ErrorCode::kUnsupported)
      return Status(context.status().code(), std::string(message));
    if (!message.empty()) report_unsupported(node, scope.name_prefix, version, std::string(message));
    poison_outputs(scope, node);
    return {};
  }
  for (size_t i = 0; i < context.output_names.size(); ++i) {
    if (context.output_names[i].empty()) continue;
    Item made{context.results[i], i < context.result_lists.size() ? context.result_lists[i] : nullptr};
    // Not in bodies: what those give has to have extents that the graph around them knows.
    if (scope.graph->symbol_scope.empty()) made.value = context.with_short_extents(made.value);
    AIPU_RETURN_IF_ERROR(context.status());
    if (!made.value.valid() && made.list == nullptr) return invalid_model(str_cat("has no output ", i));
    AIPU_RETURN_IF_ERROR(define(scope, node.output(static_cast<int>(i)), made));
  }
  return {};
}

Status Importer::import_call(Scope& scope, const onnx::NodeProto& node, const onnx::FunctionProto& function) {
  if (scope.depth >= kMaxDepth)
    return invalid_model(str_cat("functions call each other more than ", kMaxDepth, " deep"));
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
    return invalid_model(str_cat("is called with ", node.input_size(), " inputs and ", node.output_size(),
                                 " outputs, the function has ", function.input_size(), " and ",
                                 function.output_size()));
  }
  Scope inner;
  inner.graph = scope.graph;
  inner.opsets = &function_opsets_.at(&function);
  inner.name_prefix = scope.name_prefix + node_name(node) + "/";
  inner.in_function = true;
  inner.depth = scope.depth + 1;
  for (int i = 0; i < function.input_size(); ++i) {
    Found argument{true, false, {}, {}};
    if (i < node.input_size() && !node.input(i).empty()) {
      AIPU_ASSIGN_OR_RETURN(argument, lookup(scope, node.input(i)));
      if (!argument.exists) return invalid_model(str_cat("input '", node.input(i), "' is not defined"));
    }
    if (argument.poisoned) {
      inner.poisoned.insert(function.input(i));
    } else {
      AIPU_RETURN_IF_ERROR(define(inner, function.input(i), Item{argument.value, argument.list}));
    }
  }
  for (const auto& attribute : function.attribute_proto()) inner.function_attributes[attribute.name()] = &attribute;
  std::map<std::string, const onnx::AttributeProto*> given;
  AIPU_RETURN_IF_ERROR(collect_attributes(scope, node, &given));
  for (const auto& [name, attribute] : given) inner.function_attributes[name] = attribute;

  AIPU_RETURN_IF_ERROR(import_nodes(inner, function.node()));
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    AIPU_ASSIGN_OR_RETURN(const Found result, lookup(inner, function.output(i)));
    if (!result.exists)
      return invalid_model(str_cat("the function's output '", function.output(i), "' is not defined"));
    if (result.poisoned || !result.is_given()) {
      scope.poisoned.insert(node.output(i));
    } else {
      AIPU_RETURN_IF_ERROR(define(scope, node.output(i), Item{result.value, result.list}));
    }
  }
  return {};
}

std::unique_ptr<Graph> Importer::new_body(const std::string& name) {
  auto graph = std::make_unique<Graph>(options_.ops);
  graph->name = name;
  graph->symbol_scope = str_cat("g", ++subgraphs_, ".");
  return graph;
}

namespace {

// The names of a sub-graph's own inputs; old models list initializers as inputs.
Result<std::vector<std::string>> input_names(const onnx::GraphProto& proto, const Scope& scope, size_t given) {
  std::vector<std::string> names;
  for (const auto& input : proto.input()) {
    if (!scope.initializers.contains(input.name())) names.push_back(input.name());
  }
  if (names.size() == given) return names;
  return invalid_model(str_cat("sub-graph '", proto.name(), "' has ", names.size(), " inputs, ", given, " are given"));
}

Item add_formal(Graph& graph, const std::string& name, const Formal& formal) {
  if (formal.list == nullptr) return {graph.add_input(name, formal.type), {}};
  std::vector<ValueId> parts;
  for (const TensorType& type : formal.parts)
    parts.push_back(graph.add_input(str_cat(name, "[", parts.size(), "]"), type));
  return {{}, with_parts(*formal.list, parts)};
}

// Scope of a sub-graph of the node that is being imported in `owner`.
Scope scope_below(Scope& owner, Graph* graph) {
  Scope scope;
  scope.graph = graph;
  scope.parent = &owner;
  scope.opsets = owner.opsets;
  scope.name_prefix = owner.name_prefix;
  scope.depth = owner.depth + 1;
  return scope;
}

}  // namespace

Result<ImportedSubgraph> Importer::import_subgraph(const onnx::GraphProto& proto, const std::vector<Formal>& formals) {
  Scope& owner = *current_;
  if (owner.depth >= kMaxDepth) return invalid_model(str_cat("sub-graphs are nested more than ", kMaxDepth, " deep"));
  ImportedSubgraph imported{new_body(proto.name()), {}, {}};
  Scope scope = scope_below(owner, imported.graph.get());
  AIPU_RETURN_IF_ERROR(read_initializers(scope, proto));
  AIPU_ASSIGN_OR_RETURN(const auto names, input_names(proto, scope, formals.size()));
  for (size_t i = 0; i < names.size(); ++i)
    AIPU_RETURN_IF_ERROR(define(scope, names[i], add_formal(*imported.graph, names[i], formals[i])));
  AIPU_RETURN_IF_ERROR(import_nodes(scope, proto.node()));
  AIPU_RETURN_IF_ERROR(subgraph_outputs(scope, proto, &imported.results));
  for (size_t i = 0; i < imported.results.size(); ++i) {
    const Item& result = imported.results[i];
    const std::string& name = proto.output(static_cast<int>(i)).name();
    if (result.list == nullptr) {
      imported.graph->add_output(result.value, name);
      continue;
    }
    size_t k = 0;
    for (const ValueId part : parts_of(*result.list)) imported.graph->add_output(part, str_cat(name, "[", k++, "]"));
  }
  imported.captures = scope.captures;
  imported.graph->captured_count = static_cast<int>(scope.captures.size());
  return imported;
}

Result<std::vector<Item>> Importer::inline_subgraph(const onnx::GraphProto& proto, const std::vector<Item>& arguments) {
  Scope& owner = *current_;
  if (owner.depth >= kMaxDepth) return invalid_model(str_cat("sub-graphs are nested more than ", kMaxDepth, " deep"));
  Scope scope = scope_below(owner, owner.graph);
  AIPU_RETURN_IF_ERROR(read_initializers(scope, proto));
  AIPU_ASSIGN_OR_RETURN(const auto names, input_names(proto, scope, arguments.size()));
  for (size_t i = 0; i < names.size(); ++i) AIPU_RETURN_IF_ERROR(define(scope, names[i], arguments[i]));
  AIPU_RETURN_IF_ERROR(import_nodes(scope, proto.node()));
  std::vector<Item> outputs;
  AIPU_RETURN_IF_ERROR(subgraph_outputs(scope, proto, &outputs));
  return outputs;
}

Result<ImportedSubgraph> Importer::write_body(const std::string& name, const std::vector<TensorType>& formals,
                                              const BodyWriter& write) {
  Scope& owner = *current_;
  if (owner.depth >= kMaxDepth) return invalid_model(str_cat("sub-graphs are nested more than ", kMaxDepth, " deep"));
  ImportedSubgraph imported{new_body(name), {}, {}};
  Scope scope = scope_below(owner, imported.graph.get());
  std::vector<ValueId> inputs;
  for (const TensorType& type : formals)
    inputs.push_back(imported.graph->add_input(str_cat("in", inputs.size()), type));
  current_ = &scope;
  Result<std::vector<ValueId>> outputs = write(*imported.graph, inputs);
  current_ = &owner;
  if (!outputs.ok()) return std::move(outputs).status();
  for (const ValueId output : *outputs) {
    imported.graph->add_output(output, str_cat("out", imported.results.size()));
    imported.results.push_back({output, {}});
  }
  imported.captures = scope.captures;
  imported.graph->captured_count = static_cast<int>(scope.captures.size());
  return imported;
}

ValueId Importer::seen_within(ValueId outer) {
  return capture(*current_, outer, current_->parent->graph->value(outer).name);
}

Status Importer::subgraph_outputs(Scope& scope, const onnx::GraphProto& proto, std::vector<Item>* outputs) {
  for (const auto& output : proto.output()) {
    AIPU_ASSIGN_OR_RETURN(const Found found, lookup(scope, output.name()));
    if (!found.exists)
      return invalid_model(str_cat("output '", output.name(), "' of sub-graph '", proto.name(), "' is not defined"));
    if (found.poisoned) return already_reported();
    if (!found.is_given())
      return invalid_model(str_cat("output '", output.name(), "' of sub-graph '", proto.name(), "' is absent"));
    outputs->push_back({found.value, found.list});
  }
  return {};
}

// ---- what is not supported

void Importer::report_unsupported(const onnx::NodeProto& node, const std::string& prefix, int64_t version,
                                  std::string reason) {
  // A loop body may be imported several times, a function called from several places: each node counts once.
  if (!reported_.insert(&node).second) return;
  const std::string domain = domain_of(node.domain());
  const std::string op = domain.empty() ? str_cat(node.op_type(), "-", version) : domain + "::" + node.op_type();
  auto& entry = unsupported_[op + '\0' + reason];
  entry.nodes += 1;
  entry.reason = std::move(reason);
  if (entry.names.size() < 3) entry.names.push_back(prefix + node_name(node));
}

Status Importer::unsupported_error() const {
  int nodes = 0;
  std::string list;
  for (const auto& [key, entry] : unsupported_) {
    nodes += entry.nodes;
    list += str_cat(list.empty() ? "" : "; ", std::string_view(key).substr(0, key.find('\0')), " (", entry.nodes,
                    entry.nodes == 1 ? " node: " : " nodes: ");
    for (size_t i = 0; i < entry.names.size(); ++i) list += str_cat(i == 0 ? "'" : ", '", entry.names[i], "'");
    list += str_cat(entry.nodes > static_cast<int>(entry.names.size()) ? ", ..." : "", "): ", entry.reason);
  }
  return unsupported(str_cat(nodes, nodes == 1 ? " node is" : " nodes are", " not supported: ", list));
}

}  // namespace aipu::frontend
