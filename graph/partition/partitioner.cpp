// Hands every live node to a claimer.
//
// Nodes are visited in execution order; the best claim of a node that nobody has yet becomes a group. So an elementwise
// node behind a convolution is offered to the convolution (its epilogue) before it is asked for itself. A claim that
// takes nodes of other groups, lets an inner value escape from somewhere else than its end, or would make the groups
// depend on each other in a circle, loses nodes from its end until it does not.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "graph/ir/attribute_error.h"
#include "graph/ir/op_def.h"
#include "graph/partition/claim.h"

namespace aipu::graph {
namespace {

constexpr size_t kMaxWalk = 2000;  // nodes, of feeds_itself()

class Partitioner {
 public:
  Partitioner(const Graph& graph, std::span<const Claimer* const> claimers, std::span<const PartitionTarget> targets,
              std::span<const Claimer* const> preferred)
      : graph_(graph),
        claimers_(claimers),
        preferred_(preferred),
        targets_(targets),
        order_(order_of_visits(graph)),
        position_(graph.node_count(), 0),
        group_of_(graph.node_count(), -1) {
    for (size_t k = 0; k < order_.size(); ++k) position_[index(order_[k])] = k;
    index_symbols();
  }

  Result<std::vector<Group>> run() {
    for (current_ = 0; current_ < targets_.size(); ++current_) {
      for (const auto claimers : {preferred_, claimers_}) {
        for (const NodeId id : order_) {
          if (is_free(id)) AIPU_RETURN_IF_ERROR(place(id, claimers));
        }
      }
    }
    find_unclaimed();
    if (!unclaimed_.empty()) return unclaimed_error();
    for (Group& group : groups_) find_boundary(&group);
    return in_execution_order();
  }

 private:
  // Execution order, but a DequantizeLinear comes right before the only node that reads it: what is added to a product
  // is then still free when the product is offered its epilogue, whichever operand of the sum it is.
  static std::vector<NodeId> order_of_visits(const Graph& graph) {
    std::vector<NodeId> order;
    std::map<NodeId, std::vector<NodeId>> before;
    const std::function<void(NodeId)> visit = [&](NodeId id) {
      if (const auto held = before.find(id); held != before.end()) {
        for (const NodeId waiting : held->second) visit(waiting);
      }
      order.push_back(id);
    };
    for (const NodeId id : graph.topological_order()) {
      const Node& node = graph.node(id);
      if (node.op == "DequantizeLinear" && !graph.is_graph_output(node.outputs[0])) {
        if (const auto users = graph.users(node.outputs[0]); users.size() == 1) {
          before[users[0]].push_back(id);
          continue;
        }
      }
      visit(id);
    }
    return order;
  }
  static size_t index(NodeId id) { return static_cast<size_t>(id.index); }
  static size_t index(ValueId id) { return static_cast<size_t>(id.index); }
  const Node& node(NodeId id) const { return graph_.node(id); }

  // For the target whose turn it is.
  bool is_free(NodeId id) const { return group_of_[index(id)] < 0 && !targets_[current_].left_to_others.contains(id); }

  std::string where(NodeId id) const {
    const std::string origins = origins_text(node(id).origins);
    return origins.empty() ? str_cat("node ", id.index, " (", node(id).op, ')') : str_cat("node ", origins);
  }

  // Producers whose outputs a node reads, by operand or as the value of a run symbol.
  template <typename Visit>
  void for_each_producer(NodeId id, const Visit& visit) const {
    const auto visit_value = [&](ValueId value) {
      if (!value.valid()) return;
      if (const NodeId producer = graph_.value(value).producer; producer.valid()) visit(producer);
    };
    for (const ValueId input : node(id).inputs) visit_value(input);
    if (const auto it = symbol_tensors_.find(id); it != symbol_tensors_.end()) {
      for (const ValueId tensor : it->second) visit_value(tensor);
    }
  }

  void index_symbols() {
    bool any = false;
    for (const Symbol& symbol : graph_.symbols()) {
      any = any || symbol.kind == Symbol::Kind::kTensorElement;
      if (symbol.kind == Symbol::Kind::kTensorElement) bound_tensors_.insert(symbol.value);
    }
    if (!any) return;
    for (const NodeId id : order_) {
      auto tensors = graph_.symbol_tensors(id);
      if (!tensors.empty()) symbol_tensors_.emplace(id, std::move(tensors));
    }
  }

  Status place(NodeId anchor, std::span<const Claimer* const> claimers) {
    struct Offer {
      Claim claim;
      const Claimer* owner;
    };
    std::vector<Offer> offers;
    for (const Claimer* claimer : claimers) {
      ClaimResult claim =
          catch_attribute_error([&] { return claimer->claim(graph_, anchor, targets_[current_].target); });
      if (!claim.ok() && claim.status().code() != ErrorCode::kUnsupported)
        return std::move(claim).status().context(str_cat(where(anchor), ": plugin ", claimer->name()));
      if (claim.ok() && *claim) offers.push_back({**std::move(claim), claimer});
    }
    std::stable_sort(offers.begin(), offers.end(),
                     [](const Offer& a, const Offer& b) { return a.claim.score > b.claim.score; });
    for (const Offer& offer : offers) {
      AIPU_ASSIGN_OR_RETURN(const bool is_placed, place(*offer.owner, anchor, offer.claim));
      if (is_placed) return {};
    }
    return {};
  }

  // False if the target cannot compute even the anchor in that way.
  Result<bool> place(const Claimer& owner, NodeId anchor, const Claim& claim) {
    std::vector<NodeId> nodes = claim.nodes;
    if (claim.anchor != anchor || std::find(nodes.begin(), nodes.end(), anchor) == nodes.end()) {
      return internal_error(
          str_cat(where(anchor), ": plugin ", owner.name(), " claimed nodes without the anchor it was asked about"));
    }
    for (;;) {
      if (!is_valid(nodes)) {
        if (nodes.size() == 1)
          return internal_error(str_cat(where(anchor), ": plugin ", owner.name(), " claimed a node that is not free"));
      } else if (const Status status = add_group(owner, anchor, nodes); status.ok()) {
        return true;
      } else if (status.code() != ErrorCode::kUnsupported) {
        return Status(status).context(str_cat(where(anchor), ": plugin ", owner.name()));
      } else if (nodes.size() == 1) {
        refusals_[anchor].push_back(str_cat(owner.name(), ": ", status.message()));
        return false;
      }
      // The end goes first: what is left of a fused chain is a fused chain.
      if (nodes.back() == anchor) {
        nodes = {anchor};
      } else {
        nodes.pop_back();
      }
    }
  }

  // Unless the target does not accept it.
  Status add_group(const Claimer& owner, NodeId anchor, std::vector<NodeId> nodes) {
    std::sort(nodes.begin(), nodes.end(),
              [&](NodeId a, NodeId b) { return position_[index(a)] < position_[index(b)]; });
    const auto number = static_cast<int>(groups_.size());
    for (const NodeId id : nodes) group_of_[index(id)] = number;
    Group group{&owner, anchor, std::move(nodes), {}, {}, static_cast<uint32_t>(current_)};
    Status status;
    if (const auto& accepts = targets_[current_].accepts) {
      Group whole = group;
      find_boundary(&whole);
      status = accepts(whole);
    }
    if (status.ok()) {
      groups_.push_back(std::move(group));
    } else {
      for (const NodeId id : group.nodes) group_of_[index(id)] = -1;
    }
    return status;
  }

  void find_unclaimed() {
    for (const NodeId id : order_) {
      if (group_of_[index(id)] >= 0) continue;
      Unclaimed& unclaimed = unclaimed_.emplace_back(Unclaimed{id, refusals_[id]});
      for (const auto claimers : {preferred_, claimers_}) {
        for (const Claimer* claimer : claimers) {
          const Status status = claimer->claim(graph_, id, targets_.back().target).status();
          if (!status.ok()) unclaimed.reasons.push_back(str_cat(claimer->name(), ": ", status.message()));
        }
      }
    }
  }

  bool is_valid(const std::vector<NodeId>& nodes) const {
    std::set<NodeId> inside;
    size_t last = 0;
    for (const NodeId id : nodes) {
      if (!id.valid() || index(id) >= graph_.node_count() || node(id).erased || !is_free(id)) return false;
      if (!inside.insert(id).second) return false;
      last = std::max(last, position_[index(id)]);
    }
    if (nodes.size() == 1) return true;
    const Dim needed_first = needed(node(nodes.front()));
    if (std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return !(needed(node(id)) == needed_first); }))
      return false;  // a run leaves a group out as a whole
    // One value leaves, from the last node; everything else stays inside. (A chain that hands out an inner value would
    // have to store it in the middle of a fused loop.)
    for (const NodeId id : nodes) {
      const bool is_last = position_[index(id)] == last;
      for (const ValueId output : node(id).outputs) {
        if (!output.valid() || is_last) continue;
        if (graph_.is_graph_output(output) || bound_tensors_.contains(output)) return false;
        for (const NodeId user : graph_.users(output)) {
          if (!inside.contains(user)) return false;
        }
      }
    }
    return !feeds_itself(inside);
  }

  // Whether a path leaves the nodes and comes back. With claims of earlier groups in between the path may run through
  // other nodes of those groups, so whole groups are walked. The walk goes backwards from the operands of the claim and
  // stops before its first node. What takes too long to tell counts as yes: the claim loses its far end.
  bool feeds_itself(const std::set<NodeId>& inside) const {
    size_t first = order_.size();
    for (const NodeId id : inside) first = std::min(first, position_[index(id)]);
    std::vector<NodeId> work;
    std::set<NodeId> seen;
    const auto enter = [&](NodeId producer) {
      if (!inside.contains(producer) && seen.insert(producer).second) work.push_back(producer);
    };
    for (const NodeId id : inside) for_each_producer(id, enter);
    while (!work.empty()) {
      if (seen.size() > kMaxWalk) return true;
      const NodeId id = work.back();
      work.pop_back();
      const auto step = [&](NodeId member) {
        bool returns = false;
        for_each_producer(member, [&](NodeId producer) {
          if (inside.contains(producer)) returns = true;
          // A group's last node may come after `first` though this one does not.
          enter(producer);
        });
        return returns;
      };
      const int group = group_of_[index(id)];
      if (group < 0) {
        if (position_[index(id)] > first && step(id)) return true;
        continue;
      }
      const Group& whole = groups_[static_cast<size_t>(group)];
      if (position_[index(whole.nodes.back())] < first) continue;
      for (const NodeId member : whole.nodes) {
        if (step(member)) return true;
      }
    }
    return false;
  }

  void find_boundary(Group* group) const {
    const int number = group_of_[index(group->anchor)];
    std::set<ValueId> seen;
    for (const NodeId id : group->nodes) {
      for (const ValueId input : node(id).inputs) {
        if (!input.valid() || !seen.insert(input).second) continue;
        const NodeId producer = graph_.value(input).producer;
        if (!producer.valid() || group_of_[index(producer)] != number) group->inputs.push_back(input);
      }
    }
    for (const NodeId id : group->nodes) {
      for (const ValueId output : node(id).outputs) {
        if (!output.valid()) continue;
        const auto users = graph_.users(output);
        const bool leaves =
            graph_.is_graph_output(output) || bound_tensors_.contains(output) ||
            std::any_of(users.begin(), users.end(), [&](NodeId user) { return group_of_[index(user)] != number; });
        // A result that nobody asked for is still written by its kernel.
        if (leaves || users.empty()) group->outputs.push_back(output);
      }
    }
  }

  // Groups by Kahn's algorithm, the one whose anchor comes first goes first.
  Result<std::vector<Group>> in_execution_order() {
    std::vector<std::vector<int>> next(groups_.size());
    std::vector<int> waiting(groups_.size(), 0);
    for (size_t g = 0; g < groups_.size(); ++g) {
      std::set<int> before;
      for (const NodeId id : groups_[g].nodes) {
        for_each_producer(id, [&](NodeId producer) {
          const int other = group_of_[index(producer)];
          if (other != static_cast<int>(g)) before.insert(other);
        });
      }
      for (const int other : before) next[static_cast<size_t>(other)].push_back(static_cast<int>(g));
      waiting[g] = static_cast<int>(before.size());
    }
    using Entry = std::pair<size_t, int>;  // position of the anchor, group
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto make_ready = [&](int g) { ready.emplace(position_[index(groups_[static_cast<size_t>(g)].anchor)], g); };
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (waiting[g] == 0) make_ready(static_cast<int>(g));
    }
    std::vector<Group> result;
    while (!ready.empty()) {
      const int g = ready.top().second;
      ready.pop();
      for (const int user : next[static_cast<size_t>(g)]) {
        if (--waiting[static_cast<size_t>(user)] == 0) make_ready(user);
      }
      result.push_back(std::move(groups_[static_cast<size_t>(g)]));
    }
    if (result.size() != groups_.size()) return internal_error("the groups of nodes depend on each other in a circle");
    return result;
  }

  Status unclaimed_error() const {
    // By op: how many nodes, the first one's name, and the reasons, each once.
    struct Row {
      int count = 0;
      NodeId first;
      std::vector<std::string> reasons;
    };
    std::map<std::string, Row> rows;
    for (const Unclaimed& unclaimed : unclaimed_) {
      Row& row = rows[node(unclaimed.node).op];
      if (row.count++ == 0) row.first = unclaimed.node;
      for (const std::string& reason : unclaimed.reasons) {
        if (std::find(row.reasons.begin(), row.reasons.end(), reason) == row.reasons.end())
          row.reasons.push_back(reason);
      }
    }
    std::string text = str_cat("no kernel for ", unclaimed_.size(), unclaimed_.size() == 1 ? " node: " : " nodes: ");
    bool first = true;
    for (const auto& [op, row] : rows) {
      if (!first) text += "; ";
      first = false;
      text += str_cat(op, " (", row.count, row.count == 1 ? " node, " : " nodes, first ", where(row.first));
      for (const std::string& reason : row.reasons) text += str_cat("; ", reason);
      text += ')';
    }
    return unsupported(text + "; a plugin may claim what is missing (--plugin FILE; plugins=[FILE] in Python)");
  }

  const Graph& graph_;
  std::span<const Claimer* const> claimers_;
  std::span<const Claimer* const> preferred_;
  std::span<const PartitionTarget> targets_;
  size_t current_ = 0;  // target
  std::vector<NodeId> order_;
  std::vector<size_t> position_;  // in order_, by node
  std::vector<int> group_of_;     // by node, -1: none yet
  std::map<NodeId, std::vector<ValueId>> symbol_tensors_;
  std::set<ValueId> bound_tensors_;  // tensors whose elements are run symbols
  std::vector<Group> groups_;
  std::vector<Unclaimed> unclaimed_;
  std::map<NodeId, std::vector<std::string>> refusals_;  // of targets, by anchor
};

}  // namespace

Result<std::vector<Group>> partition(const Graph& graph, std::span<const Claimer* const> claimers,
                                     const ClaimTarget& target, std::span<const Claimer* const> preferred) {
  const PartitionTarget only{target};
  return partition_for_targets(graph, claimers, std::span(&only, 1), preferred);
}

Result<std::vector<Group>> partition_for_targets(const Graph& graph, std::span<const Claimer* const> claimers,
                                                 std::span<const PartitionTarget> targets,
                                                 std::span<const Claimer* const> preferred) {
  return Partitioner(graph, claimers, targets, preferred).run();
}

}  // namespace aipu::graph
