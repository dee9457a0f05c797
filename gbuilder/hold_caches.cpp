#include "gbuilder/hold_caches.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/passes/pass.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Shape;
using graph::ValueId;

namespace {

struct Cache {
  ValueId past;
  size_t axis = 0;
  NodeId concat;
  std::vector<NodeId> shapes;  // nodes that ask for its shape
};

class CacheHolder {
 public:
  CacheHolder(int64_t length, Graph* graph) : length_(length), graph_(*graph) {}

  Status run() {
    std::vector<Cache> caches;
    for (const ValueId input : graph_.inputs()) {
      if (auto cache = cache_of(input)) caches.push_back(std::move(*cache));
    }
    if (caches.empty())
      return invalid_argument(
          "--cache-length: the model has no input of an open extent that only a Concat extends, whose result is an "
          "output");
    std::set<std::string> symbols;
    for (const Cache& cache : caches) symbols.insert(symbol_of(cache));
    // Sentences of several lengths would need an input for each.
    if (symbols.size() > 1)
      return unsupported(fmt::format("--cache-length: caches have lengths of their own, '{}' and '{}'",
                                     *symbols.begin(), *std::next(symbols.begin())));
    AIPU_RETURN_IF_ERROR(check_others(caches, *symbols.begin()));
    past_length_ = graph_.add_input(kPastLength, {DType::kI64, {}});
    at_ = graph_.fresh_symbol(kPastLength, graph::Symbol::Kind::kTensorElement, past_length_, 0);
    bind(*symbols.begin());
    for (const Cache& cache : caches) {
      if (Status status = hold(cache); !status.ok())
        return std::move(status).context(fmt::format("--cache-length: '{}'", graph_.value(cache.past).name));
    }
    graph_.erase_dead_nodes();
    return graph::verify_graph(graph_);
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }

  std::string symbol_of(const Cache& cache) const { return graph_.type(cache.past).shape[cache.axis].symbol_name(); }

  std::optional<Cache> cache_of(ValueId input) {
    Cache cache{.past = input, .axis = 0, .concat = {}, .shapes = {}};
    if (std::as_const(graph_).is_graph_output(input)) return std::nullopt;
    for (const NodeId user : graph_.users(input)) {
      if (node(user).op == "Shape") {
        cache.shapes.push_back(user);
        continue;
      }
      const bool grows = node(user).op == "Concat" && !cache.concat.valid() && node(user).inputs.size() == 2 &&
                         node(user).inputs[0] == input && node(user).inputs[1] != input;
      if (!grows) return std::nullopt;
      cache.concat = user;
    }
    if (!cache.concat.valid() || !std::as_const(graph_).is_graph_output(node(cache.concat).outputs[0]))
      return std::nullopt;
    cache.axis = static_cast<size_t>(node(cache.concat).attributes.i("axis"));
    const Dim& extent = graph_.type(input).shape[cache.axis];
    return extent.op() == graph::DimOp::kSymbol ? std::optional<Cache>(std::move(cache)) : std::nullopt;
  }

  // Extents of other inputs are known before elements of inputs are.
  Status check_others(const std::vector<Cache>& caches, const std::string& symbol) const {
    for (const ValueId input : graph_.inputs()) {
      const auto own =
          std::find_if(caches.begin(), caches.end(), [&](const Cache& cache) { return cache.past == input; });
      const Shape& shape = graph_.type(input).shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (own != caches.end() && own->axis == axis) continue;
        std::vector<std::string> names;
        shape[axis].collect_symbols(&names);
        if (std::find(names.begin(), names.end(), symbol) != names.end())
          return unsupported(fmt::format("--cache-length: extent {} of input '{}' is the length '{}' of the caches",
                                         axis, graph_.value(input).name, symbol));
      }
    }
    return {};
  }

  // What was the extent of inputs is the element of past_length from now on.
  void bind(const std::string& symbol) {
    std::string name = str_cat(symbol, ".given");
    while (graph_.find_symbol(name) != nullptr) name += "_";
    graph_.add_symbol({name, graph::Symbol::Kind::kTensorElement, past_length_, 0});
    const Dim element = Dim::symbol(name);
    graph_.value(past_length_).data = {element};
    graph_.substitute_symbols(
        [&](const std::string& other) { return other == symbol ? std::optional<Dim>(element) : std::nullopt; });
  }

  Status hold(const Cache& cache) {
    const Node& concat = node(cache.concat);
    const ValueId grown = concat.outputs[0], added = concat.inputs[1];
    const graph::OriginSet origins = concat.origins;
    const Shape rows = graph_.type(grown).shape;
    for (const NodeId shape : cache.shapes) AIPU_RETURN_IF_ERROR(keep_shape(shape, cache));
    graph_.value(cache.past).type.shape[cache.axis] = Dim(length_);

    graph::Attributes place;
    place.set("axis", static_cast<int64_t>(cache.axis));
    place.set("at", Shape{at_});
    AIPU_ASSIGN_OR_RETURN(const ValueId present, graph_.emit("aipu::CacheUpdate", std::move(place), {cache.past, added},
                                                             origins, graph_.value(grown).name));
    graph::Attributes filled;
    filled.set("starts", Shape(rows.size(), Dim(0)));
    filled.set("steps", std::vector<int64_t>(rows.size(), 1));
    filled.set("extents", rows);
    AIPU_ASSIGN_OR_RETURN(const ValueId slice, graph_.emit("Slice", std::move(filled), {present}, origins,
                                                           graph_.value(grown).name + ".filled"));
    for (const NodeId user : graph_.users(grown)) {
      for (size_t k = 0; k < node(user).inputs.size(); ++k) {
        if (node(user).inputs[k] == grown) graph_.set_input(user, k, slice);
      }
    }
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(grown, present));
    graph_.erase_node(cache.concat);
    return {};
  }

  // The shape that the past would have.
  Status keep_shape(NodeId id, const Cache& cache) {
    const Node& shape = node(id);
    const ValueId found = shape.outputs[0];
    const auto known = graph_.known_data(found);
    const int rank = graph_.type(cache.past).rank();
    const graph::OriginSet origins = shape.origins;
    if (!known) return internal_error("a shape is not known");
    // Its part in front of the length, the length, what is behind.
    const int64_t first = shape.attributes.i_or("start", 0);
    const int64_t begin = first < 0 ? std::max<int64_t>(first + rank, 0) : first;
    const auto end = begin + static_cast<int64_t>(known->size());
    const auto axis = static_cast<int64_t>(cache.axis);
    if (axis < begin || axis >= end) return {};
    const auto part = [&](int64_t from, int64_t to) {
      graph::Attributes attributes;
      attributes.set("start", from);
      attributes.set("end", to);
      return graph_.emit("Shape", std::move(attributes), {cache.past}, origins);
    };
    std::vector<ValueId> parts;
    if (begin < axis) {
      AIPU_ASSIGN_OR_RETURN(const ValueId before, part(begin, axis));
      parts.push_back(before);
    }
    graph::Attributes one;
    one.set("shape", Shape{Dim(1)});
    AIPU_ASSIGN_OR_RETURN(const ValueId length, graph_.emit("Reshape", std::move(one), {past_length_}, origins));
    parts.push_back(length);
    if (axis + 1 < end) {
      AIPU_ASSIGN_OR_RETURN(const ValueId behind, part(axis + 1, end));
      parts.push_back(behind);
    }
    graph::Attributes along;
    along.set("axis", int64_t{0});
    AIPU_ASSIGN_OR_RETURN(const ValueId whole, graph_.emit("Concat", std::move(along), parts, origins));
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(found, whole));
    graph_.erase_node(id);
    return {};
  }

  const int64_t length_;
  Graph& graph_;
  ValueId past_length_;
  Dim at_;  // the element of past_length, which may be negative
};

}  // namespace

Status hold_caches(int64_t length, Graph* graph) { return CacheHolder(length, graph).run(); }

}  // namespace aipu::gbuilder
