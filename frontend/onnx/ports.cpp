// Graph inputs with their symbols and --shape overrides; graph outputs with their declared types as checks.
#include <algorithm>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/onnx_pb.h"
#include "runtime/base/pattern.h"
#include "runtime/base/text.h"

namespace aipu::frontend {

namespace {

Result<DType> tensor_dtype(const onnx::ValueInfoProto& info, const char* role) {
  const auto& type = info.type();
  if (type.has_map_type() || type.has_sparse_tensor_type()) {
    return unsupported(str_cat(role, " '", info.name(), "' is ", type.has_map_type() ? "a map" : "a sparse tensor",
                               "; only tensors, sequences and optionals are supported"));
  }
  if (!type.has_tensor_type()) return invalid_model(str_cat(role, " '", info.name(), "' has no type"));
  const auto dtype = dtype_from_onnx(type.tensor_type().elem_type());
  if (!dtype || *dtype == DType::kVoid) {
    return unsupported(str_cat(role, " '", info.name(), "' has the element type number ",
                               type.tensor_type().elem_type(), ", which is not supported"));
  }
  return *dtype;
}

Status no_such_value(const std::string& pattern, std::span<const std::string_view> values) {
  std::string hint;
  if (const std::string_view nearest = nearest_name(pattern, values); !nearest.empty()) {
    hint = str_cat("; did you mean '", nearest, "'?");
  } else {
    // Names of exporters are paths: those with the same end, else the first ones.
    const std::string_view last = std::string_view(pattern).substr(pattern.rfind('/') + 1);
    std::string names;
    int shown = 0;
    for (const bool similar : {true, false}) {
      for (const std::string_view value : values) {
        if (shown == 3 || (similar && value.find(last) == std::string_view::npos)) continue;
        names += str_cat(shown++ == 0 ? "'" : ", '", value, "'");
      }
      if (shown != 0) break;
    }
    hint = str_cat(" (among its ", values.size(), " values: ", names, ")");
  }
  return invalid_argument(str_cat("--expose: no value of the outermost graph is called '", pattern, "'", hint));
}

bool is_list(const onnx::TypeProto& type) {
  return type.has_sequence_type() || type.has_optional_type() || type.has_map_type();
}

// The type of what a list is made of.
const onnx::TypeProto& element_type(const onnx::TypeProto& type) {
  if (type.has_optional_type()) return element_type(type.optional_type().elem_type());
  return type.has_sequence_type() ? type.sequence_type().elem_type() : type;
}

Result<PortList::Kind> list_kind(const onnx::ValueInfoProto& info, const char* role) {
  const auto& type = info.type();
  const auto& element = element_type(type);
  if (element.has_map_type() && element.map_type().value_type().has_tensor_type()) {
    if (type.has_map_type()) return PortList::Kind::kMap;
    if (type.sequence_type().has_elem_type() && type.sequence_type().elem_type().has_map_type())
      return PortList::Kind::kMaps;
  }
  if (!element.has_tensor_type())
    return unsupported(str_cat(role, " '", info.name(), "': only lists of tensors are supported"));
  if (type.has_sequence_type()) return PortList::Kind::kSequence;
  return type.optional_type().elem_type().has_sequence_type() ? PortList::Kind::kOptionalSequence
                                                              : PortList::Kind::kOptionalTensor;
}

}  // namespace

// Named after input and axis; never the symbol of a dim_param, whatever that is called.
std::string Importer::symbol_for_axis(const std::string& input, size_t axis) {
  const std::string name = str_cat(input, "_", axis);
  const std::string key = "\n" + name;
  if (!symbols_.contains(key)) {
    const auto named = symbols_.extract(name);
    const std::string symbol = symbol_for(name);
    symbols_.erase(name);
    symbols_.emplace(key, symbol);
    if (!named.empty()) symbols_.emplace(named.key(), named.mapped());
  }
  return symbols_.at(key);
}

std::string Importer::symbol_for(const std::string& text) {
  if (const auto it = symbols_.find(text); it != symbols_.end()) return it->second;
  static constexpr std::string_view kReserved[] = {"floordiv", "ceildiv", "mod", "min", "max", "eq", "lt", "select"};
  std::string name;
  for (const char c : text.substr(0, 100)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    name += plain ? c : '_';
  }
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name.insert(0, "d_");
  if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) name += "_";
  std::string unique = name;
  for (int i = 2; used_symbols_.contains(unique); ++i) unique = str_cat(name, "_", i);
  used_symbols_.insert(unique);
  symbols_.emplace(text, unique);
  return unique;
}

Dim Importer::fresh_symbol(const std::string& hint) {
  // The counter makes the text, and so the symbol, a new one.
  return Dim::symbol(symbol_for(str_cat(hint, "_", ++subgraphs_)));
}

Result<TensorType> Importer::input_type(const onnx::ValueInfoProto& info) {
  AIPU_ASSIGN_OR_RETURN(const DType dtype, tensor_dtype(info, "input"));
  const auto& declared = info.type().tensor_type();
  const auto given = options_.shapes.find(info.name());
  TensorType type{dtype, {}};
  if (!declared.has_shape()) {
    // No shape at all: only an option can say the rank.
    if (given == options_.shapes.end()) {
      return invalid_model(
          str_cat("input '", info.name(), "' has no shape; give one with --shape ", info.name(), "=..."));
    }
    for (size_t axis = 0; axis < given->second.size(); ++axis) {
      const int64_t extent = given->second[axis];
      type.shape.push_back(extent >= 0 ? Dim(extent) : Dim::symbol(symbol_for_axis(info.name(), axis)));
    }
    return type;
  }
  const int rank = declared.shape().dim_size();
  if (rank > kMaxRank)
    return out_of_range(str_cat("input '", info.name(), "' has rank ", rank, ", the limit is ", kMaxRank));
  for (int axis = 0; axis < rank; ++axis) {
    const auto& dim = declared.shape().dim(axis);
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      type.shape.push_back(dim.dim_value());
      continue;
    }
    // "?" and "" are how exporters spell a dimension without a name.
    const bool named = dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?";
    const std::string symbol =
        named ? symbol_for(dim.dim_param()) : symbol_for_axis(info.name(), static_cast<size_t>(axis));
    const auto fixed = fixed_symbols_.find(symbol);
    type.shape.push_back(fixed != fixed_symbols_.end() ? Dim(fixed->second) : Dim::symbol(symbol));
  }
  return type;
}

Result<DeclaredPorts> Importer::declared_ports(const onnx::GraphProto& proto) {
  DeclaredPorts ports;
  std::unordered_set<std::string> initializers;
  for (const auto& tensor : proto.initializer()) initializers.insert(tensor.name());
  const auto port_of = [](const onnx::ValueInfoProto& info) {
    const auto& declared = info.type().tensor_type();
    DeclaredPort port{info.name(), dtype_from_onnx(declared.elem_type()).value_or(DType::kVoid), {}};
    for (const auto& dim : declared.shape().dim()) port.extents.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    return port;
  };
  for (const auto& input : proto.input()) {
    if (!initializers.contains(input.name())) ports.inputs.push_back(port_of(input));
  }
  for (const auto& output : proto.output()) ports.outputs.push_back(port_of(output));
  return ports;
}

Status Importer::add_graph_inputs(Scope& scope) {
  Inputs given;
  for (const auto& input : model_->graph().input()) {
    if (scope.initializers.contains(input.name()) || scope.sparse_initializers.contains(input.name())) continue;
    if (input.name().empty()) return invalid_model("an input has no name");
    given.push_back(&input);
  }
  AIPU_RETURN_IF_ERROR(check_sequence_lengths(given));
  Inputs inputs;  // tensors, the elements of lists among them
  std::vector<ListInput> lists;
  for (const auto* input : given) {
    if (!is_list(input->type())) {
      inputs.push_back(input);
      continue;
    }
    AIPU_ASSIGN_OR_RETURN(ListInput list, list_input(*input, &inputs));
    lists.push_back(std::move(list));
  }
  // Named dims first, so that an unnamed one cannot take the name of one that follows.
  for (const auto* input : inputs) {
    for (const auto& dim : input->type().tensor_type().shape().dim()) {
      if (dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?") symbol_for(dim.dim_param());
    }
  }
  AIPU_RETURN_IF_ERROR(fix_symbols(inputs));
  for (const auto& [name, constant] : options_.constant_inputs) {
    const bool known = std::any_of(given.begin(), given.end(), [&, &name = name](const auto* input) {
      return input->name() == name && !is_list(input->type());
    });
    if (!known || constant == nullptr)
      return invalid_argument(str_cat("there is no input '", name, "' to make a constant of"));
  }
  AIPU_RETURN_IF_ERROR(check_preprocess(inputs));
  for (const auto* input : inputs) {
    if (const auto it = options_.constant_inputs.find(input->name()); it != options_.constant_inputs.end()) {
      AIPU_RETURN_IF_ERROR(add_constant_input(scope, *input, it->second));
      continue;
    }
    AIPU_ASSIGN_OR_RETURN(const ValueId value, add_tensor_input(scope, *input));
    AIPU_RETURN_IF_ERROR(define(scope, input->name(), value));
  }
  for (ListInput& list : lists) {
    for (const std::string& name : list.elements) list.value.elements.push_back(scope.values.at(name));
    PortList described{.name = list.info->name(), .is_input = true, .kind = list.value.kind};
    described.present = list.value.present;
    described.count = list.elements.size();
    if (described.count > 0) {
      const auto& all = scope.graph->inputs();
      described.first = static_cast<size_t>(std::find(all.begin(), all.end(), list.value.elements[0]) - all.begin());
    }
    describe(std::move(described));
    AIPU_RETURN_IF_ERROR(
        define(scope, list.info->name(), Item{{}, std::make_shared<const ListValue>(std::move(list.value))}));
  }
  return {};
}

void Importer::describe(PortList list) {
  if (options_.description != nullptr) options_.description->lists.push_back(std::move(list));
}

Status Importer::check_preprocess(const Inputs& inputs) const {
  const auto& all = options_.preprocess;
  for (auto it = all.begin(); it != all.end(); ++it) {
    const auto names_it = [&](const auto& other) { return other.input == it->input; };
    if (std::any_of(all.begin(), it, names_it))
      return invalid_argument(str_cat("--preprocess: input '", it->input, "' is given twice"));
    const bool known =
        options_.constant_inputs.count(it->input) == 0 &&
        std::any_of(inputs.begin(), inputs.end(), [&](const auto* input) { return input->name() == it->input; });
    if (!known) return invalid_argument(str_cat("--preprocess: there is no input '", it->input, "'"));
  }
  return {};
}

Result<ValueId> Importer::add_tensor_input(Scope& scope, const onnx::ValueInfoProto& info) {
  AIPU_ASSIGN_OR_RETURN(TensorType type, input_type(info));
  const auto& all = options_.preprocess;
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.input == info.name(); });
  if (it == all.end()) return scope.graph->add_input(info.name(), std::move(type));
  return add_preprocessed_input(scope.graph, *it, type, [&](size_t axis) {
    return Dim::symbol(symbol_for_axis(str_cat(info.name(), ".image"), axis));
  });
}

Status Importer::check_sequence_lengths(const Inputs& inputs) const {
  for (const auto& [name, length] : options_.sequence_lengths) {
    const bool known = std::any_of(inputs.begin(), inputs.end(), [&, &name = name](const auto* input) {
      return input->name() == name && is_list(input->type());
    });
    if (!known)
      return invalid_argument(
          str_cat("--sequence-length: there is no input '", name, "' that is a sequence or an optional"));
  }
  return {};
}

std::string Importer::add_element(const std::string& list, size_t k, const onnx::TypeProto& type, Inputs* elements) {
  auto port = std::make_shared<onnx::ValueInfoProto>();
  port->set_name(str_cat(list, "[", k, "]"));
  *port->mutable_type() = type;
  elements->push_back(port.get());
  element_infos_.push_back(std::move(port));
  return elements->back()->name();
}

// A map is two inputs of one extent, the keys and the values.
Result<Importer::ListInput> Importer::map_input(const onnx::ValueInfoProto& info, Inputs* elements) {
  if (options_.sequence_lengths.contains(info.name()))
    return invalid_argument(str_cat("--sequence-length: input '", info.name(), "' is a map, of any length"));
  ListInput map;
  map.info = &info;
  map.value.kind = PortList::Kind::kMap;
  onnx::TypeProto keys;
  keys.mutable_tensor_type()->set_elem_type(info.type().map_type().key_type());
  for (const onnx::TypeProto& part : {keys, info.type().map_type().value_type()}) {
    onnx::TypeProto type;
    type.mutable_tensor_type()->set_elem_type(part.tensor_type().elem_type());
    type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_param(info.name() + "_entries");
    map.elements.push_back(add_element(info.name(), map.elements.size(), type, elements));
  }
  return map;
}

// Its elements become inputs of their own, and are put to `elements`.
Result<Importer::ListInput> Importer::list_input(const onnx::ValueInfoProto& info, Inputs* elements) {
  constexpr int64_t kMost = 4096;
  ListInput list;
  list.info = &info;
  AIPU_ASSIGN_OR_RETURN(const auto kind, list_kind(info, "input"));
  if (kind == PortList::Kind::kMap) return map_input(info, elements);
  if (kind == PortList::Kind::kMaps)
    return unsupported(str_cat("input '", info.name(), "': sequences of maps are supported as outputs only"));
  list.value.kind = kind;
  const auto given = options_.sequence_lengths.find(info.name());
  if (given == options_.sequence_lengths.end() && kind != PortList::Kind::kOptionalTensor) {
    return unsupported(str_cat("input '", info.name(), "' is a sequence; say how many elements it has: ",
                               "--sequence-length ", info.name(), "=N"));
  }
  const int64_t length = given == options_.sequence_lengths.end() ? 1 : given->second;
  const bool fits = length == kAbsent ? kind != PortList::Kind::kSequence
                                      : length <= kMost && (kind != PortList::Kind::kOptionalTensor || length == 1);
  if (!fits) {
    return invalid_argument(
        str_cat("--sequence-length: input '", info.name(), "' cannot have ",
                length == kAbsent ? std::string("no value") : std::to_string(length) + " elements"));
  }
  list.value.present = length != kAbsent;
  const onnx::TypeProto& element = element_type(info.type());
  list.value.dtype = dtype_from_onnx(element.tensor_type().elem_type()).value_or(DType::kVoid);
  for (int64_t k = 0; k < length; ++k) {
    onnx::TypeProto type = element;
    // What a dim_param names differs from element to element.
    for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) dim.clear_dim_param();
    if (!element.tensor_type().has_shape()) type.mutable_tensor_type()->clear_shape();
    list.elements.push_back(add_element(info.name(), static_cast<size_t>(k), type, elements));
  }
  return list;
}

// --shape: what it says about symbols holds everywhere.
Status Importer::fix_symbols(const Inputs& inputs) {
  for (const auto& [name, extents] : options_.shapes) {
    const auto it = std::find_if(inputs.begin(), inputs.end(),
                                 [&, &name = name](const auto* input) { return input->name() == name; });
    if (it == inputs.end()) {
      std::string names;
      for (const auto* input : inputs) names += str_cat(names.empty() ? "'" : ", '", input->name(), "'");
      return invalid_argument(str_cat("--shape: there is no input '", name, "' (inputs: ", names, ")"));
    }
    if (!(*it)->type().tensor_type().has_shape()) continue;
    AIPU_ASSIGN_OR_RETURN(const TensorType declared, input_type(**it));
    const auto mismatch = [&, &name = name](const std::string& what) {
      return invalid_argument(str_cat("--shape: input '", name, "' is ", declared.text(), " in the model, ", what));
    };
    if (declared.shape.size() != extents.size())
      return mismatch(str_cat("the shape given has ", extents.size(), " extents"));
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      const Dim& dim = declared.shape[axis];
      if (extents[axis] < 0) continue;
      if (dim.is_constant()) {
        if (*dim.constant() != extents[axis]) return mismatch(str_cat("extent ", axis, " cannot be ", extents[axis]));
      } else {
        fixed_symbols_.emplace(dim.symbol_name(), extents[axis]);
        // The same symbol twice in one shape.
        if (fixed_symbols_.at(dim.symbol_name()) != extents[axis]) {
          return mismatch(str_cat("'", dim.symbol_name(), "' cannot be both ", fixed_symbols_.at(dim.symbol_name()),
                                  " and ", extents[axis]));
        }
      }
    }
  }
  return {};
}

Status Importer::add_constant_input(Scope& scope, const onnx::ValueInfoProto& info, const ConstantPtr& constant) {
  AIPU_ASSIGN_OR_RETURN(const DType dtype, tensor_dtype(info, "input"));
  bool fits = dtype == constant->dtype();
  if (const auto& declared = info.type().tensor_type(); declared.has_shape()) {
    fits &= declared.shape().dim_size() == static_cast<int>(constant->shape().size());
    for (int axis = 0; fits && axis < declared.shape().dim_size(); ++axis) {
      const auto& dim = declared.shape().dim(axis);
      const int64_t extent = constant->shape()[static_cast<size_t>(axis)];
      if (dim.has_dim_value() && dim.dim_value() >= 0) fits = dim.dim_value() == extent;
    }
  }
  if (!fits)
    return invalid_argument(str_cat("input '", info.name(), "' cannot be a constant ", constant->type().text(),
                                    ", the model declares another type"));
  return define(scope, info.name(), scope.graph->add_constant(constant, info.name()));
}

Status Importer::check_declared_output(const onnx::ValueInfoProto& info, const TensorType& inferred) {
  if (is_list(info.type()))
    return invalid_model(
        str_cat("output '", info.name(), "' is declared a sequence or an optional, the graph makes ", inferred.text()));
  if (!info.type().has_tensor_type()) {
    AIPU_RETURN_IF_ERROR(info.has_type() ? tensor_dtype(info, "output").status() : Status());
    return {};
  }
  const auto& declared = info.type().tensor_type();
  const auto dtype = dtype_from_onnx(declared.elem_type());
  if (declared.elem_type() != 0 && dtype != inferred.dtype) {
    return invalid_model(str_cat("output '", info.name(), "' is declared ",
                                 dtype ? dtype_name(*dtype) : "of an unknown element type", ", the graph makes ",
                                 dtype_name(inferred.dtype)));
  }
  // Declared shapes are often stale after edits and batch changes; what is inferred counts.
  if (!declared.has_shape() || options_.warnings == nullptr) return {};
  bool contradicts = declared.shape().dim_size() != inferred.rank();
  for (int axis = 0; !contradicts && axis < inferred.rank(); ++axis) {
    const auto& dim = declared.shape().dim(axis);
    const auto extent = inferred.shape[static_cast<size_t>(axis)].constant();
    contradicts = dim.has_dim_value() && dim.dim_value() > 0 && extent && *extent != dim.dim_value();
  }
  if (contradicts)
    options_.warnings->push_back(
        str_cat("output '", info.name(), "' has the shape ", inferred.text(), ", the model declares another"));
  return {};
}

Status Importer::add_list_output(Scope& scope, const onnx::ValueInfoProto& info, const ListValue& list,
                                 std::unordered_set<std::string>* names) {
  if (!is_list(info.type()) && info.has_type())
    return invalid_model(str_cat("output '", info.name(), "' is declared a tensor, the graph makes ", list_text(list)));
  PortList described{.name = info.name(), .is_input = false, .kind = list.kind};
  if (info.has_type()) {
    AIPU_ASSIGN_OR_RETURN(described.kind, list_kind(info, "output"));
    const bool has_maps = described.kind == PortList::Kind::kMaps || described.kind == PortList::Kind::kMap;
    if ((has_maps || list.has_maps()) && described.kind != list.kind)
      return invalid_model(
          str_cat("output '", info.name(), "' is declared of another type, the graph makes ", list_text(list)));
  }
  if (!list.has_known_length()) {
    const std::string why = list.decided_by.empty()
                                ? std::string("it comes out of a Loop")
                                : str_cat("operand '", list.decided_by, "' must be known when compiling (--constant)");
    return unsupported(str_cat("output '", info.name(), "' is ", list_text(list), ": ", why,
                               "; or let the model give what ConcatFromSequence makes of it"));
  }
  described.present = list.present;
  described.first = scope.graph->outputs().size();
  described.count = list.elements.size();
  for (size_t k = 0; k < list.elements.size(); ++k) {
    const std::string name = str_cat(info.name(), "[", k, "]");
    if (!names->insert(name).second) return invalid_model(str_cat("output '", name, "' is there twice"));
    scope.graph->add_output(list.elements[k], name);
  }
  describe(std::move(described));
  return {};
}

Status Importer::add_graph_outputs(Scope& scope) {
  std::unordered_set<std::string> names;
  for (const auto& output : model_->graph().output()) {
    AIPU_ASSIGN_OR_RETURN(const Found found, lookup(scope, output.name()));
    if (!found.exists || !found.is_given())
      return invalid_model(str_cat("output '", output.name(), "' is not defined"));
    if (!names.insert(output.name()).second)
      return invalid_model(str_cat("output '", output.name(), "' is there twice"));
    if (found.list != nullptr) {
      AIPU_RETURN_IF_ERROR(add_list_output(scope, output, *found.list, &names));
      continue;
    }
    AIPU_RETURN_IF_ERROR(check_declared_output(output, scope.graph->type(found.value)));
    scope.graph->add_output(found.value, output.name());
  }
  if (names.empty()) return invalid_model("the graph has no outputs");
  if (scope.graph->outputs().empty()) return unsupported("all outputs are empty lists: there is nothing to compute");
  return {};
}

Status Importer::add_exposed_outputs(Scope& scope) {
  if (options_.exposed.empty()) return {};
  std::vector<std::string_view> values;
  std::unordered_set<std::string_view> is_output;
  for (const auto& output : model_->graph().output()) is_output.insert(output.name());
  for (const auto& node : model_->graph().node()) {
    for (const auto& output : node.output()) {
      if (scope.values.contains(output)) values.push_back(output);
    }
  }
  std::vector<bool> wanted(values.size());
  for (const std::string& pattern : options_.exposed) {
    bool found = false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!fits_pattern(pattern, values[i])) continue;
      found = wanted[i] = true;
    }
    if (!found) return no_such_value(pattern, values);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!wanted[i] || is_output.contains(values[i])) continue;
    std::string name(values[i]);
    const ValueId value = scope.values.at(name);
    scope.graph->add_output(value, std::move(name));
  }
  return {};
}

}  // namespace aipu::frontend
