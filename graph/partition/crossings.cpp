#include "graph/partition/crossings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "graph/ir/op_def.h"
#include "graph/ops/text.h"

namespace aipu::graph {
namespace {

constexpr size_t kOutside = std::numeric_limits<size_t>::max();

// A value of some group's, who computes it and who reads it: groups, or kOutside.
struct Handover {
  ValueId value;
  size_t producer = kOutside;
  std::set<size_t> readers = {};
};

std::vector<Handover> find_handovers(const Graph& graph, std::span<const Group> groups, bool is_body) {
  std::vector<Handover> handovers;
  std::map<ValueId, size_t> places;
  const auto add = [&](ValueId value, size_t producer) {
    if (places.emplace(value, handovers.size()).second) handovers.push_back({value, producer});
  };
  if (is_body) {
    for (const ValueId input : graph.inputs()) add(input, kOutside);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const ValueId output : groups[g].outputs) add(output, g);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const ValueId input : groups[g].inputs) {
      if (const auto place = places.find(input); place != places.end()) handovers[place->second].readers.insert(g);
    }
  }
  for (Handover& handover : handovers) {
    if (is_body && graph.is_graph_output(handover.value)) handover.readers.insert(kOutside);
  }
  return handovers;
}

// Whether a target that computes well is of no use for the group.
bool is_cheap(const Graph& graph, const Group& group) {
  return std::all_of(group.nodes.begin(), group.nodes.end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    const OpDef* const def = graph.find_op(node.op);
    return def != nullptr && node.subgraphs.empty() && !is_of_library(graph, node) && !def->multiply_adds &&
           (def->traits & (kElementwise | kView | kAnyAxisOrder)) != 0;
  });
}

// The minimum cut of a network by Dinic's algorithm.
class Network {
 public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;
  static constexpr size_t kSource = 0, kSink = 1;

  explicit Network(size_t nodes) : arcs_of_(nodes) {}
  size_t add_node() {
    arcs_of_.emplace_back();
    return arcs_of_.size() - 1;
  }
  void add_arc(size_t from, size_t to, int64_t capacity) {
    arcs_of_[from].push_back(arcs_.size());
    arcs_.push_back({to, capacity});
    arcs_of_[to].push_back(arcs_.size());
    arcs_.push_back({from, 0});
  }
  // Per node: whether it is on the sink's side, which is the smallest there is.
  std::vector<bool> sink_side() {
    while (find_levels()) {
      next_.assign(arcs_of_.size(), 0);
      while (push(kSource, kInfinite) > 0) {
      }
    }
    std::vector<bool> reaches(arcs_of_.size(), false);
    std::queue<size_t> work;
    reaches[kSink] = true;
    for (work.push(kSink); !work.empty(); work.pop()) {
      for (const size_t arc : arcs_of_[work.front()]) {
        const size_t before = arcs_[arc].to;
        if (reaches[before] || arcs_[arc ^ 1].capacity == 0) continue;
        reaches[before] = true;
        work.push(before);
      }
    }
    return reaches;
  }

 private:
  struct Arc {
    size_t to;
    int64_t capacity;  // that is left; the arc back is the one beside it
  };

  bool find_levels() {
    level_.assign(arcs_of_.size(), -1);
    std::queue<size_t> work;
    level_[kSource] = 0;
    for (work.push(kSource); !work.empty(); work.pop()) {
      for (const size_t arc : arcs_of_[work.front()]) {
        if (arcs_[arc].capacity == 0 || level_[arcs_[arc].to] >= 0) continue;
        level_[arcs_[arc].to] = level_[work.front()] + 1;
        work.push(arcs_[arc].to);
      }
    }
    return level_[kSink] >= 0;
  }

  // One path, without recursion: chains of nodes are as long as models are deep.
  int64_t push(size_t from, int64_t most) {
    std::vector<size_t> path;
    for (size_t at = from; at != kSink;) {
      auto& next = next_[at];
      while (next < arcs_of_[at].size()) {
        const Arc& arc = arcs_[arcs_of_[at][next]];
        if (arc.capacity > 0 && level_[arc.to] == level_[at] + 1) break;
        ++next;
      }
      if (next < arcs_of_[at].size()) {
        path.push_back(arcs_of_[at][next]);
        at = arcs_[path.back()].to;
        continue;
      }
      if (path.empty()) return 0;
      at = arcs_[path.back() ^ 1].to;
      path.pop_back();
      ++next_[at];
    }
    for (const size_t arc : path) most = std::min(most, arcs_[arc].capacity);
    for (const size_t arc : path) {
      arcs_[arc].capacity -= most;
      arcs_[arc ^ 1].capacity += most;
    }
    return most;
  }

  std::vector<Arc> arcs_;
  std::vector<std::vector<size_t>> arcs_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace

std::vector<Crossing> find_crossings(const Graph& graph, std::span<const Group> groups, bool is_body) {
  const auto target_of = [&](size_t group) { return group == kOutside ? 0 : groups[group].target; };
  std::vector<Crossing> crossings;
  for (const Handover& handover : find_handovers(graph, groups, is_body)) {
    std::set<uint32_t> readers;
    for (const size_t reader : handover.readers) readers.insert(target_of(reader));
    readers.erase(target_of(handover.producer));
    for (const uint32_t to : readers) crossings.push_back({handover.value, target_of(handover.producer), to});
  }
  return crossings;
}

int64_t crossing_cost(const Graph& graph, ValueId value) {
  const TensorType& type = graph.type(value);
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t bytes = std::max<int64_t>(1, static_cast<int64_t>(dtype_bytes(type.dtype)));
  for (const Dim& extent : type.shape) {
    const Dim guessed = extent.substitute([](const std::string&) { return std::optional<Dim>(kUnknownExtent); });
    bytes = std::min(kMost, bytes * std::clamp<int64_t>(guessed.constant_or(kUnknownExtent), 0, kMost / bytes + 1));
    if (bytes == 0) break;
  }
  return kCrossingStartBytes + bytes;
}

// The source's side is target 0, the sink's target 1. A value costs what it does once its producer and any of its
// readers are on different sides: a node between them stands for all readers of one side.
std::vector<NodeId> nodes_to_move(const Graph& graph, std::span<const Group> groups, bool is_body) {
  constexpr size_t kFirst = 2;
  Network network(kFirst + groups.size());
  const auto node_of = [&](size_t group) { return group == kOutside ? Network::kSource : kFirst + group; };
  bool any = false;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].target != 0) {
      any = true;
      network.add_arc(node_of(g), Network::kSink, Network::kInfinite);
    } else if (!is_cheap(graph, groups[g])) {
      network.add_arc(Network::kSource, node_of(g), Network::kInfinite);
    }
  }
  if (!any) return {};
  for (const Handover& handover : find_handovers(graph, groups, is_body)) {
    if (handover.readers.empty()) continue;
    const int64_t cost = crossing_cost(graph, handover.value);
    const size_t producer = node_of(handover.producer);
    const size_t on_sink_side = network.add_node(), on_source_side = network.add_node();
    network.add_arc(producer, on_sink_side, cost);
    network.add_arc(on_source_side, producer, cost);
    for (const size_t reader : handover.readers) {
      network.add_arc(on_sink_side, node_of(reader), Network::kInfinite);
      network.add_arc(node_of(reader), on_source_side, Network::kInfinite);
    }
  }
  const std::vector<bool> moves = network.sink_side();
  std::vector<NodeId> nodes;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].target == 0 && moves[node_of(g)])
      nodes.insert(nodes.end(), groups[g].nodes.begin(), groups[g].nodes.end());
  }
  return nodes;
}

}  // namespace aipu::graph
