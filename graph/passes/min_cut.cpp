#include "graph/passes/min_cut.h"

#include <algorithm>

namespace aipu::graph {

int MinCut::add_vertex() {
  out_.emplace_back();
  return static_cast<int>(out_.size()) - 1;
}

void MinCut::add_edge(int from, int to, int64_t capacity) {
  if (from == to || capacity <= 0) return;
  out_[static_cast<size_t>(from)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  out_[static_cast<size_t>(to)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

// Dinic's algorithm; the depth-first search keeps its own stack, as paths may be as long as the model is deep.
bool MinCut::layer() {
  level_.assign(out_.size(), -1);
  level_[kSource] = 0;
  std::vector<int> queue = {kSource};
  for (size_t head = 0; head < queue.size(); ++head) {
    for (const int index : out_[static_cast<size_t>(queue[head])]) {
      const Edge& edge = edges_[static_cast<size_t>(index)];
      if (edge.capacity <= 0 || level_[static_cast<size_t>(edge.to)] >= 0) continue;
      level_[static_cast<size_t>(edge.to)] = level_[static_cast<size_t>(queue[head])] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[kSink] >= 0;
}

// Sends flow along one path of the layered graph; 0 if there is none left.
int64_t MinCut::push(int source, int64_t limit) {
  std::vector<int> path;  // edges
  int at = source;
  while (at != kSink) {
    size_t& next = next_[static_cast<size_t>(at)];
    const auto& out = out_[static_cast<size_t>(at)];
    while (next < out.size()) {
      const Edge& edge = edges_[static_cast<size_t>(out[next])];
      if (edge.capacity > 0 && level_[static_cast<size_t>(edge.to)] == level_[static_cast<size_t>(at)] + 1) break;
      ++next;
    }
    if (next < out.size()) {
      path.push_back(out[next]);
      at = edges_[static_cast<size_t>(out[next])].to;
      continue;
    }
    if (path.empty()) return 0;
    at = edges_[static_cast<size_t>(path.back() ^ 1)].to;
    path.pop_back();
    ++next_[static_cast<size_t>(at)];
  }
  int64_t flow = limit;
  for (const int index : path) flow = std::min(flow, edges_[static_cast<size_t>(index)].capacity);
  for (const int index : path) {
    edges_[static_cast<size_t>(index)].capacity -= flow;
    edges_[static_cast<size_t>(index ^ 1)].capacity += flow;
  }
  return flow;
}

std::vector<bool> MinCut::solve() {
  while (layer()) {
    next_.assign(out_.size(), 0);
    while (push(kSource, kInfinite) > 0) {
    }
  }
  // What cannot reach the sink any more may be the source's.
  std::vector<bool> source_side(out_.size(), true);
  source_side[kSink] = false;
  std::vector<int> queue = {kSink};
  for (size_t head = 0; head < queue.size(); ++head) {
    for (const int index : out_[static_cast<size_t>(queue[head])]) {
      const int from = edges_[static_cast<size_t>(index)].to;
      if (edges_[static_cast<size_t>(index ^ 1)].capacity <= 0 || !source_side[static_cast<size_t>(from)]) continue;
      source_side[static_cast<size_t>(from)] = false;
      queue.push_back(from);
    }
  }
  return source_side;
}

}  // namespace aipu::graph
