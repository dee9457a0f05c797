// A minimum cut between two terminals: which of two choices each vertex takes so that the sum of the costs between
// different choices is least.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace aipu::graph {

class MinCut {
 public:
  static constexpr int kSource = 0;
  static constexpr int kSink = 1;
  static constexpr int64_t kInfinite = int64_t{1} << 60;

  int add_vertex();
  // Costs `capacity` if `from` is on the source's side and `to` on the sink's.
  void add_edge(int from, int to, int64_t capacity);
  // True per vertex on the source's side of the minimum cut with the most vertices there.
  std::vector<bool> solve();

 private:
  struct Edge {
    int to;
    int64_t capacity;
  };
  bool layer();
  int64_t push(int vertex, int64_t limit);

  std::vector<Edge> edges_;  // 2k and 2k+1 are each other's reverse
  std::vector<std::vector<int>> out_ = {{}, {}};
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace aipu::graph
