#include "graph/ir/graph.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>

#include "graph/ir/attribute_error.h"
#include "graph/ir/op_def.h"

namespace aipu::graph {
namespace {

// Constants with more elements are not followed as Dims.
constexpr int64_t kKnownDataLimit = 256;

std::string node_text(const Node& node) {
  const std::string origins = origins_text(node.origins);
  return origins.empty() ? str_cat("node (", node.op, ")") : str_cat("node ", origins);
}

// Runs the type rule of a node that may or may not be in the graph yet.
struct Inferred {
  std::vector<TensorType> types;
  std::vector<std::optional<std::vector<Dim>>> data;
};
Result<Inferred> infer(Graph& graph, const OpDef& def, const Node& node) {
  InferContext context(graph, node);
  if (!def.infer) return internal_error(str_cat(def.name, ": the op record has no type rule"));
  Status status = catch_attribute_error([&] { return def.infer(context); });
  if (!status.ok()) return std::move(status).context(def.name);
  if (context.output_types.size() != node.outputs.size() || context.output_data.size() != node.outputs.size()) {
    return internal_error(str_cat(def.name, ": the type rule changed the number of outputs"));
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (context.output_types[k].dtype == DType::kVoid)
      return internal_error(str_cat(def.name, ": the type rule left output ", k, " without a type"));
    // Extents are sums and products of what a model says; here is the one place where all of them pass.
    for (const Dim& extent : context.output_types[k].shape) {
      if (const auto high = extent.upper_bound(); high && *high < 0) {
        return invalid_model(str_cat(def.name, ": output ", k, " would be ", context.output_types[k].text(),
                                     ", which has a negative extent"));
      }
    }
  }
  return Inferred{std::move(context.output_types), std::move(context.output_data)};
}

template <typename Visit>
void for_each_symbol(const Shape& shape, const Visit& visit) {
  std::vector<std::string> names;
  for (const Dim& dim : shape) dim.collect_symbols(&names);
  for (const std::string& symbol : names) visit(symbol);
}

}  // namespace

// ---- construction
// --------------------------------------------------------------------------------------------------

const OpDef* Graph::find_op(std::string_view op) const { return ops_ != nullptr ? ops_->find(op) : graph::find_op(op); }

std::string Graph::unique_name(std::string_view hint) {
  if (hint.empty()) hint = "v";
  const auto [it, fresh] = name_counts_.try_emplace(std::string(hint), 1);
  if (fresh) return std::string(hint);
  while (true) {
    std::string candidate = str_cat(hint, '_', it->second++);
    if (name_counts_.try_emplace(candidate, 1).second) return candidate;
  }
}

ValueId Graph::add_input(std::string_view value_name, TensorType type) {
  const ValueId id{static_cast<int32_t>(values_.size())};
  Value value;
  value.name = unique_name(value_name);
  value.type = std::move(type);
  for (size_t axis = 0; axis < value.type.shape.size(); ++axis) {
    const Dim& extent = value.type.shape[axis];
    if (extent.op() != DimOp::kSymbol || find_symbol(extent.symbol_name()) != nullptr) continue;
    add_symbol({extent.symbol_name(), Symbol::Kind::kInputExtent, id, static_cast<int64_t>(axis)});
  }
  values_.push_back(std::move(value));
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_constant(ConstantPtr constant, std::string_view name_hint) {
  if (const auto it = constants_by_hash_.find(constant->hash()); it != constants_by_hash_.end()) {
    // A pass may have given it another type since (lower_stored_types).
    const Value& same = value(it->second);
    if (!same.erased && same.constant != nullptr && same.type == constant->type()) return it->second;
  }
  const ValueId id{static_cast<int32_t>(values_.size())};
  Value value;
  value.name = unique_name(name_hint);
  value.type = constant->type();
  constants_by_hash_.insert_or_assign(constant->hash(), id);
  value.constant = std::move(constant);
  values_.push_back(std::move(value));
  return id;
}

Result<NodeId> Graph::add_node(std::string op, Attributes attributes, std::vector<ValueId> inputs,
                               std::vector<std::string> output_names, OriginSet origins,
                               std::vector<std::unique_ptr<Graph>> subgraphs) {
  const OpDef* def = find_op(op);
  if (def == nullptr) return unsupported(str_cat(op, ": no such op is known; a plugin may add it"));
  Node node{std::move(op), std::move(attributes), std::move(inputs), {}, std::move(subgraphs), std::move(origins),
            false};
  // The ids that the outputs will have: a type rule may make symbols of their elements.
  auto next = static_cast<int32_t>(values_.size());
  for (const std::string& output : output_names) node.outputs.push_back(output.empty() ? ValueId{} : ValueId{next++});
  AIPU_RETURN_IF_ERROR(check_node_schema(*def, *this, &node));
  AIPU_ASSIGN_OR_RETURN(Inferred inferred, infer(*this, *def, node));

  std::vector<std::pair<std::string, TensorType>> outputs;
  for (size_t k = 0; k < output_names.size(); ++k)
    outputs.emplace_back(std::move(output_names[k]), std::move(inferred.types[k]));
  const NodeId id = add_typed_node(std::move(node), std::move(outputs));
  const Node& added = nodes_[static_cast<size_t>(id.index)];
  for (size_t k = 0; k < added.outputs.size(); ++k) {
    if (added.outputs[k].valid()) value(added.outputs[k]).data = std::move(inferred.data[k]);
  }
  return id;
}

NodeId Graph::add_typed_node(Node node, std::vector<std::pair<std::string, TensorType>> outputs) {
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  node.outputs.assign(outputs.size(), ValueId{});
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].first.empty()) continue;
    node.outputs[k] = ValueId{static_cast<int32_t>(values_.size())};
    Value value;
    value.name = unique_name(outputs[k].first);
    value.type = std::move(outputs[k].second);
    value.producer = id;
    value.output_index = static_cast<int>(k);
    values_.push_back(std::move(value));
  }
  nodes_.push_back(std::move(node));
  touch(id);
  return id;
}

Result<ValueId> Graph::emit(std::string op, Attributes attributes, std::vector<ValueId> inputs, OriginSet origins,
                            std::string name_hint) {
  if (name_hint.empty()) {
    name_hint = op;
    std::transform(name_hint.begin(), name_hint.end(), name_hint.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  }
  AIPU_ASSIGN_OR_RETURN(const NodeId id, add_node(std::move(op), std::move(attributes), std::move(inputs),
                                                  {std::move(name_hint)}, std::move(origins)));
  return nodes_[static_cast<size_t>(id.index)].outputs[0];
}

void Graph::add_output(ValueId value, std::string output_name) {
  if (outputs_are_indexed_) output_positions_[value.index].push_back(outputs_.size());
  outputs_.push_back({value, std::move(output_name)});
}

const std::vector<size_t>* Graph::output_positions(ValueId id) const {
  if (!outputs_are_indexed_) {
    output_positions_.clear();
    for (size_t k = 0; k < outputs_.size(); ++k) output_positions_[outputs_[k].value.index].push_back(k);
    outputs_are_indexed_ = true;
  }
  const auto it = output_positions_.find(id.index);
  return it != output_positions_.end() ? &it->second : nullptr;
}

// ---- users
// --------------------------------------------------------------------------------------------------

void Graph::touch(NodeId id) {
  const auto index = static_cast<size_t>(id.index);
  if (is_touched_.size() < nodes_.size()) is_touched_.resize(nodes_.size(), 0);
  if (index >= is_touched_.size() || is_touched_[index] != 0) return;
  is_touched_[index] = 1;
  touched_.push_back(id.index);
}

void Graph::index_node(size_t index) const {
  const NodeId id{static_cast<int32_t>(index)};
  if (indexed_inputs_.size() < nodes_.size()) indexed_inputs_.resize(nodes_.size());
  if (users_by_value_.size() < values_.size()) users_by_value_.resize(values_.size());
  static const std::vector<ValueId> none;
  const std::vector<ValueId>& now = nodes_[index].erased ? none : nodes_[index].inputs;
  std::vector<ValueId>& before = indexed_inputs_[index];
  if (before == now) return;
  for (const ValueId input : before) {
    if (!input.valid()) continue;
    auto& list = users_by_value_[static_cast<size_t>(input.index)];
    if (const auto it = std::lower_bound(list.begin(), list.end(), id); it != list.end() && *it == id) list.erase(it);
  }
  for (const ValueId input : now) {
    if (!input.valid()) continue;
    auto& list = users_by_value_[static_cast<size_t>(input.index)];
    const auto it = std::lower_bound(list.begin(), list.end(), id);
    if (it == list.end() || *it != id) list.insert(it, id);
  }
  before = now;
}

void Graph::update_users() const {
  for (const int32_t index : touched_) {
    is_touched_[static_cast<size_t>(index)] = 0;
    index_node(static_cast<size_t>(index));
  }
  touched_.clear();
}

std::vector<NodeId> Graph::users(ValueId id) const {
  if (!touched_.empty()) update_users();
  const auto index = static_cast<size_t>(id.index);
  return index < users_by_value_.size() ? users_by_value_[index] : std::vector<NodeId>();
}

size_t Graph::user_count(ValueId id) const {
  if (!touched_.empty()) update_users();
  const auto index = static_cast<size_t>(id.index);
  const size_t nodes = index < users_by_value_.size() ? users_by_value_[index].size() : 0;
  const std::vector<size_t>* given_out = output_positions(id);
  return nodes + (given_out != nullptr ? given_out->size() : 0);
}

bool Graph::users_are_consistent() const {
  update_users();
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const std::vector<ValueId>* indexed = index < indexed_inputs_.size() ? &indexed_inputs_[index] : nullptr;
    if (nodes_[index].erased ? indexed != nullptr && !indexed->empty()
        : indexed == nullptr ? !nodes_[index].inputs.empty()
                             : *indexed != nodes_[index].inputs) {
      return false;
    }
  }
  return true;
}

bool Graph::is_graph_output(ValueId id) const { return output_positions(id) != nullptr; }

// ---- order
// --------------------------------------------------------------------------------------------------

const Symbol* Graph::symbol_entry(std::string_view symbol) const {
  const auto it = symbol_indices_.find(symbol);
  return it != symbol_indices_.end() ? &symbols_[it->second] : nullptr;
}

const Symbol* Graph::find_symbol(std::string_view symbol) const { return symbol_entry(symbol); }

// Visits the kTensorElement symbols in a node's output types and attributes, possibly several times each.
template <typename Visit>
void Graph::for_each_run_symbol(const Node& node, const Visit& visit) const {
  const auto visit_shape = [&](const Shape& shape) {
    if (is_static(shape)) return;
    for_each_symbol(shape, [&](const std::string& symbol) {
      const Symbol* entry = symbol_entry(symbol);
      if (entry != nullptr && entry->kind == Symbol::Kind::kTensorElement) visit(*entry);
    });
  };
  for (const ValueId output : node.outputs) {
    if (output.valid()) visit_shape(value(output).type.shape);
  }
  for (const auto& [key, attribute] : node.attributes.all()) {
    if (const auto* shape = std::get_if<Shape>(&attribute)) visit_shape(*shape);
  }
  for (const auto& subgraph : node.subgraphs) {
    for (const std::string& symbol : subgraph->free_symbols()) {
      const Symbol* entry = symbol_entry(symbol);
      if (entry != nullptr && entry->kind == Symbol::Kind::kTensorElement) visit(*entry);
    }
  }
}

std::vector<std::string> Graph::free_symbols() const {
  std::vector<std::string> names;
  const auto collect = [&](const Shape& shape) {
    for (const Dim& dim : shape) dim.collect_symbols(&names);
  };
  for (const Value& v : values_) {
    if (!v.erased) collect(v.type.shape);
  }
  for (const Node& node : nodes_) {
    if (node.erased) continue;
    for (const auto& [key, attribute] : node.attributes.all()) {
      if (const auto* shape = std::get_if<Shape>(&attribute)) collect(*shape);
    }
    for (const auto& subgraph : node.subgraphs) {
      for (std::string& name : subgraph->free_symbols()) names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::erase_if(names, [&](const std::string& name) { return symbol_entry(name) != nullptr; });
  return names;
}

std::vector<ValueId> Graph::symbol_tensors(NodeId id) const {
  std::vector<ValueId> result;
  for_each_run_symbol(node(id), [&](const Symbol& symbol) {
    // A node's own output may define the symbol: a counting op.
    if (value(symbol.value).producer == id) return;
    if (std::find(result.begin(), result.end(), symbol.value) == result.end()) result.push_back(symbol.value);
  });
  return result;
}

std::vector<NodeId> Graph::topological_order() const {
  const bool has_run_symbols = !element_symbols_.empty();
  // Who waits for whom, as pairs (producer, user), and then by producer: users_of[first[p] ... first[p + 1]).
  std::vector<std::pair<int32_t, int32_t>> waits;
  std::vector<int32_t> waiting(nodes_.size(), 0);
  std::vector<size_t> first(nodes_.size() + 1, 0);
  size_t live = 0;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    if (node.erased) continue;
    ++live;
    const auto wait_for = [&](ValueId id) {
      if (!id.valid()) return;
      const NodeId producer = value(id).producer;
      if (!producer.valid() || nodes_[static_cast<size_t>(producer.index)].erased) return;
      waits.emplace_back(producer.index, static_cast<int32_t>(index));
      ++first[static_cast<size_t>(producer.index) + 1];
      ++waiting[index];
    };
    for (const ValueId input : node.inputs) wait_for(input);
    if (!has_run_symbols) continue;
    for (const ValueId tensor : symbol_tensors(NodeId{static_cast<int32_t>(index)})) wait_for(tensor);
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<int32_t> users_of(waits.size());
  std::vector<size_t> filled(first.begin(), first.end() - 1);
  for (const auto& [producer, user] : waits) users_of[filled[static_cast<size_t>(producer)]++] = user;
  // Kahn's algorithm; the ready node with the smallest id goes first.
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    if (!nodes_[index].erased && waiting[index] == 0) ready.push(static_cast<int32_t>(index));
  }
  std::vector<NodeId> order;
  order.reserve(live);
  while (!ready.empty()) {
    const auto index = static_cast<size_t>(ready.top());
    ready.pop();
    order.push_back(NodeId{static_cast<int32_t>(index)});
    for (size_t k = first[index]; k < first[index + 1]; ++k) {
      if (--waiting[static_cast<size_t>(users_of[k])] == 0) ready.push(users_of[k]);
    }
  }
  return order;
}

// ---- symbols and data
// --------------------------------------------------------------------------------------------------

void Graph::add_symbol(Symbol symbol) {
  symbol_indices_[symbol.name] = symbols_.size();
  if (symbol.kind == Symbol::Kind::kTensorElement) element_symbols_[symbol.value.index].push_back(symbols_.size());
  symbols_.push_back(std::move(symbol));
}

void Graph::index_symbols() {
  symbol_indices_.clear();
  element_symbols_.clear();
  for (size_t k = 0; k < symbols_.size(); ++k) {
    symbol_indices_[symbols_[k].name] = k;
    if (symbols_[k].kind == Symbol::Kind::kTensorElement) element_symbols_[symbols_[k].value.index].push_back(k);
  }
}

Dim Graph::fresh_symbol(std::string_view name_hint, Symbol::Kind kind, ValueId value_id, int64_t index) {
  const bool run = kind == Symbol::Kind::kTensorElement;
  const std::string hint = str_cat(run ? "$" : "", symbol_scope, name_hint);
  std::string symbol = hint;
  for (int attempt = 1; symbol_entry(symbol) != nullptr; ++attempt) symbol = str_cat(hint, '_', attempt);
  add_symbol({symbol, kind, value_id, index});
  return Dim::symbol(symbol, run);
}

std::vector<Dim> InferContext::own_data(size_t i, const std::vector<std::optional<Dim>>& known) {
  const ValueId id = node_.outputs[i];
  const bool exists = static_cast<size_t>(id.index) < graph_.value_count();
  const auto made = exists ? graph_.value(id).data : std::nullopt;
  std::vector<Dim> data;
  for (size_t k = 0; k < known.size(); ++k) {
    const auto is_own = [&](const Dim& dim) {
      if (dim.op() != DimOp::kSymbol) return false;
      const Symbol* symbol = graph_.find_symbol(dim.symbol_name());
      return symbol != nullptr && symbol->kind == Symbol::Kind::kTensorElement && symbol->value == id;
    };
    if (known[k]) {
      data.push_back(*known[k]);
    } else if (made && made->size() == known.size() && is_own((*made)[k])) {
      data.push_back((*made)[k]);
    } else {
      data.push_back(graph_.fresh_symbol(str_cat("result_", id.index, '.', k), Symbol::Kind::kTensorElement, id,
                                         static_cast<int64_t>(k)));
    }
  }
  return data;
}

std::optional<std::vector<Dim>> Graph::known_data(ValueId id) const {
  if (!id.valid()) return std::nullopt;
  const Value& v = value(id);
  if (v.constant == nullptr || v.data) return v.data;
  if (!is_integer(v.type.dtype) && !is_bool(v.type.dtype)) return std::nullopt;
  if (v.constant->element_count() > kKnownDataLimit) return std::nullopt;
  const auto elements = v.constant->to_int64s();
  return std::vector<Dim>(elements.begin(), elements.end());
}

std::optional<std::vector<Dim>> Graph::require_data(ValueId id, int64_t limit) {
  if (auto known = known_data(id)) return known;
  if (!id.valid()) return std::nullopt;
  const DType dtype = value(id).type.dtype;
  if (value(id).constant != nullptr || (!is_integer(dtype) && !is_bool(dtype))) return std::nullopt;
  const auto count = element_count(value(id).type.shape).constant();
  if (!count || *count > limit || *count < 0) return std::nullopt;
  std::vector<Dim> data;
  for (int64_t k = 0; k < *count; ++k)
    data.push_back(fresh_symbol(str_cat(value(id).name, '.', k), Symbol::Kind::kTensorElement, id, k));
  value(id).data = data;
  return data;
}

void Graph::substitute_symbols(const std::function<std::optional<Dim>(const std::string&)>& lookup) {
  const auto apply = [&](std::vector<Dim>& dims) {
    for (Dim& dim : dims) {
      if (!dim.is_constant()) dim = dim.substitute(lookup);
    }
  };
  for (Value& v : values_) {
    if (v.erased) continue;
    apply(v.type.shape);
    if (v.data) apply(*v.data);
  }
  for (Node& node : nodes_) {
    if (node.erased) continue;
    std::vector<std::pair<std::string, Shape>> changed;
    for (const auto& [key, attribute] : node.attributes.all()) {
      if (const auto* shape = std::get_if<Shape>(&attribute); shape != nullptr && !is_static(*shape))
        changed.emplace_back(key, *shape);
    }
    for (auto& [key, shape] : changed) {
      apply(shape);
      node.attributes.set(key, std::move(shape));
    }
    for (const auto& subgraph : node.subgraphs) subgraph->substitute_symbols(lookup);
  }
  std::erase_if(symbols_, [&](const Symbol& symbol) {
    const auto replacement = lookup(symbol.name);
    return replacement && !(*replacement == Dim::symbol(symbol.name));
  });
  index_symbols();
}

// ---- rewriting
// --------------------------------------------------------------------------------------------------

void Graph::set_input(NodeId id, size_t index, ValueId value_id) {
  touch(id);
  nodes_[static_cast<size_t>(id.index)].inputs[index] = value_id;
}

Status Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return {};
  if (type(from).dtype != type(to).dtype || type(from).rank() != type(to).rank()) {
    return internal_error(str_cat("value %", value(from).name, ": ", type(from).text(), " cannot be replaced by %",
                                  value(to).name, ": ", type(to).text()));
  }
  for (const NodeId user : users(from)) {
    touch(user);
    for (ValueId& input : nodes_[static_cast<size_t>(user.index)].inputs) {
      if (input == from) input = to;
    }
  }
  if (output_positions(from) != nullptr) {
    std::vector<size_t>& positions = output_positions_[to.index];
    for (const size_t k : output_positions_[from.index]) {
      outputs_[k].value = to;
      positions.push_back(k);
    }
    output_positions_.erase(from.index);
  }
  const auto known = known_data(to);
  std::map<std::string, Dim> substitution;
  std::vector<size_t> elements;
  if (const auto it = element_symbols_.find(from.index); it != element_symbols_.end()) {
    elements = std::move(it->second);
    element_symbols_.erase(it);
  }
  for (const size_t k : elements) {
    Symbol& symbol = symbols_[k];
    symbol.value = to;
    element_symbols_[to.index].push_back(k);
    if (known && symbol.index < static_cast<int64_t>(known->size())) {
      const Dim& element = (*known)[static_cast<size_t>(symbol.index)];
      std::vector<std::string> names;
      element.collect_symbols(&names);
      if (std::find(names.begin(), names.end(), symbol.name) == names.end()) substitution.emplace(symbol.name, element);
    }
  }
  if (!known && value(from).data) value(to).data = value(from).data;
  if (!substitution.empty()) {
    substitute_symbols([&](const std::string& symbol) -> std::optional<Dim> {
      const auto it = substitution.find(symbol);
      return it != substitution.end() ? std::optional<Dim>(it->second) : std::nullopt;
    });
  }
  return {};
}

void Graph::erase_node(NodeId id) {
  touch(id);
  Node& node = nodes_[static_cast<size_t>(id.index)];
  node.erased = true;
  for (const ValueId output : node.outputs) {
    if (output.valid()) value(output).erased = true;
  }
  node.inputs.clear();
  node.subgraphs.clear();
}

Status Graph::infer_node(NodeId id) {
  const Node& node = nodes_[static_cast<size_t>(id.index)];
  const OpDef* def = find_op(node.op);
  if (def == nullptr) return unsupported(str_cat(node_text(node), ": no such op is known"));
  auto inferred = infer(*this, *def, node);
  if (!inferred.ok()) return std::move(inferred).status().context(node_text(node));
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (!node.outputs[k].valid()) continue;
    Value& output = value(node.outputs[k]);
    output.type = std::move(inferred->types[k]);
    // Elements that run symbols stand for stay known by them.
    if (inferred->data[k] ||
        (output.data && element_count(output.type.shape) != Dim(static_cast<int64_t>(output.data->size())))) {
      output.data = std::move(inferred->data[k]);
    }
  }
  return {};
}

bool Graph::erase_captured_input(ValueId id) {
  const auto formal = static_cast<std::ptrdiff_t>(inputs_.size()) - captured_count;
  const auto it = std::find(inputs_.begin() + formal, inputs_.end(), id);
  if (it == inputs_.end()) return false;
  // Extents of this input may be spelled by symbols that others use: those are the enclosing graph's to bind.
  std::erase_if(symbols_, [&](const Symbol& symbol) { return symbol.value == id; });
  index_symbols();
  value(id).erased = true;
  inputs_.erase(it);
  --captured_count;
  return true;
}

size_t Graph::erase_dead_nodes() {
  std::vector<char> live_value(values_.size(), 0);
  std::vector<char> live_node(nodes_.size(), 0);
  std::vector<ValueId> work;
  const auto need = [&](ValueId id) {
    if (!id.valid() || live_value[static_cast<size_t>(id.index)] != 0) return;
    live_value[static_cast<size_t>(id.index)] = 1;
    work.push_back(id);
  };
  std::vector<char> used_symbol(symbols_.size(), 0);
  const auto need_symbol = [&](const std::string& symbol) {
    const auto it = symbol_indices_.find(symbol);
    if (it == symbol_indices_.end()) return;
    used_symbol[it->second] = 1;
    need(symbols_[it->second].value);
  };
  const auto need_symbols_of = [&](const Shape& shape) {
    if (!is_static(shape)) for_each_symbol(shape, need_symbol);
  };
  for (const Output& output : outputs_) need(output.value);
  for (const ValueId input : inputs_) need(input);
  while (!work.empty()) {
    const ValueId id = work.back();
    work.pop_back();
    need_symbols_of(value(id).type.shape);
    const NodeId producer = value(id).producer;
    if (!producer.valid() || live_node[static_cast<size_t>(producer.index)] != 0) continue;
    live_node[static_cast<size_t>(producer.index)] = 1;
    const Node& node = nodes_[static_cast<size_t>(producer.index)];
    for (const ValueId input : node.inputs) need(input);
    for (const ValueId output : node.outputs) {
      if (output.valid()) need_symbols_of(value(output).type.shape);
    }
    for (const auto& [key, attribute] : node.attributes.all()) {
      if (const auto* shape = std::get_if<Shape>(&attribute)) need_symbols_of(*shape);
    }
    for (const auto& subgraph : node.subgraphs) {
      for (const std::string& symbol : subgraph->free_symbols()) need_symbol(symbol);
    }
  }
  size_t count = 0;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    if (nodes_[index].erased || live_node[index] != 0) continue;
    erase_node(NodeId{static_cast<int32_t>(index)});
    ++count;
  }
  for (size_t index = 0; index < values_.size(); ++index) {
    Value& v = values_[index];
    if (v.constant == nullptr || v.erased || live_value[index] != 0) continue;
    constants_by_hash_.erase(v.constant->hash());
    v.constant.reset();
    v.erased = true;
  }
  // Input extents stay: they are part of the model's interface.
  std::vector<Symbol> kept;
  std::set<std::string> gone;
  for (size_t k = 0; k < symbols_.size(); ++k) {
    const ValueId tensor = symbols_[k].value;
    if (used_symbol[k] != 0 || symbols_[k].kind == Symbol::Kind::kInputExtent ||
        (tensor.valid() && !value(tensor).erased)) {
      kept.push_back(std::move(symbols_[k]));
    } else {
      gone.insert(std::move(symbols_[k].name));
    }
  }
  symbols_ = std::move(kept);
  if (gone.empty()) return count;
  index_symbols();
  for (Value& v : values_) {
    if (v.erased || !v.data || is_static(*v.data)) continue;
    bool dangles = false;
    for_each_symbol(*v.data, [&](const std::string& symbol) { dangles = dangles || gone.contains(symbol); });
    if (dangles) v.data.reset();
  }
  return count;
}

}  // namespace aipu::graph
