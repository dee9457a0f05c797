#include "gbuilder/plan/batch_loops.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "gbuilder/plan/work.h"
#include "graph/ir/op_def.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

namespace {

// Below, a whole batch of usual size fits into the last cache anyway.
constexpr int64_t kLeastActivationBytes = int64_t{1} << 20;
// The same of the second-level cache: for stretches that lose nothing by reading their weights again.
constexpr int64_t kLeastHiddenBytes = int64_t{1} << 18;
// Rows of a sample from which on a product of 8 bits hides the reading of its weights: a core multiplies 128 rows by
// 3 GB of weights in a second. Products of float32 need as much, but gain no more than they lose (BERT, GPT-2, ViT and
// ResNet-50 at batch 8: 0.98 to 1.03).
constexpr int64_t kHidingRows = 96;
// What extents other than the batch are taken for.
constexpr int64_t kUsualExtent = 128;

// How the extents of a value depend on the symbol.
struct Batching {
  bool depends = false;
  bool regular = true;  // if it depends: one extent is a multiple of the symbol, the others do not depend on it
  size_t axis = 0;      // that one
};

// The symbol is 1.
Dim of_one_sample(const Dim& dim, const std::string& symbol) {
  return dim.substitute([&](const std::string& name) { return name == symbol ? std::optional<Dim>(1) : std::nullopt; });
}

Batching batching_of(const Shape& shape, const std::string& symbol) {
  Batching result;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<std::string> names;
    shape[axis].collect_symbols(&names);
    if (std::find(names.begin(), names.end(), symbol) == names.end()) continue;
    const Dim rows = of_one_sample(shape[axis], symbol);
    result.regular = !result.depends && !(rows == Dim(0)) && shape[axis] == rows * Dim::symbol(symbol);
    result.depends = true;
    result.axis = axis;
  }
  return result;
}

// Whether sample i of every output comes from sample i of those inputs that have samples, and from all of the others.
bool samples_face(const Graph& graph, const Node& node, const graph::AxisMap& map, const std::vector<Batching>& inputs,
                  const std::vector<size_t>& axes) {
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i].empty()) continue;  // absent: what depends on the symbol has axes
    const graph::OutputAxis& samples = map[i][axes[i]];
    if (!samples.apart) return false;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].depends && samples.from[k] != static_cast<int>(inputs[k].axis)) return false;
      const bool cut = !inputs[k].depends && samples.from[k] != graph::OutputAxis::kNone;
      if (cut && graph.type(node.inputs[k]).shape[static_cast<size_t>(samples.from[k])] != Dim(1)) return false;
    }
  }
  return true;
}

// keeps_samples_apart(), but for values that `may_turn`, whose samples may be along any axis.
template <typename MayTurn>
bool keeps_apart(const Graph& graph, const Node& node, const std::string& symbol, MayTurn may_turn) {
  std::vector<Batching> inputs;
  bool batched = false;
  const auto is_regular = [&](graph::ValueId value, const Batching& batching) {
    return batching.regular && (batching.axis == 0 || may_turn(value));
  };
  for (const graph::ValueId input : node.inputs) {
    inputs.push_back(input.valid() ? batching_of(graph.type(input).shape, symbol) : Batching());
    if (!is_regular(input, inputs.back())) return false;
    batched |= inputs.back().depends;
  }
  std::vector<size_t> axes;  // of the outputs
  for (const graph::ValueId output : node.outputs) {
    axes.push_back(0);
    if (!output.valid()) continue;
    const Batching result = batching_of(graph.type(output).shape, symbol);
    if (!is_regular(output, result) || result.depends != batched) return false;
    axes.back() = result.axis;
  }
  // Whether a command runs is decided for all samples together.
  if (!node.subgraphs.empty() || !(graph::needed(node) == Dim(1))) return false;
  // The same for every sample.
  if (!batched) return true;
  const graph::OpDef* def = graph.find_op(node.op);
  const auto map = def != nullptr ? graph::axis_map(*def, graph, node) : std::nullopt;
  return map && samples_face(graph, node, *map, inputs, axes);
}

// The loops over one symbol.
class Finder {
 public:
  Finder(const Plan& plan, const Graph& graph, std::span<const PlannedGroup> groups,
         std::span<const uint32_t> group_of_command, uint32_t symbol)
      : plan_(plan), graph_(graph), groups_(groups), group_of_command_(group_of_command), symbol_(symbol) {}

  std::vector<FoundBatchLoop> run() {
    // Without values for other extents, so that what depends on them is in no loop; and with two sets of values.
    const auto loops_of = [&](bool hides_weights) {
      costs_.clear();
      for (const Command& command : plan_.programs[0].commands) rate(command, hides_weights);
      for (const FoundBatchLoop& loop : loops_)
        std::fill(costs_.begin() + loop.first, costs_.begin() + loop.last + 1, Cost());
      const size_t count = costs_.size();
      for (size_t begin = 0; begin < count; ++begin) {
        size_t end = begin;
        while (end < count && costs_[end].possible) ++end;
        if (end > begin) search(begin, end, hides_weights);
        begin = end;
      }
    };
    apart_.assign(groups_.size(), -1);
    probe({std::nullopt});
    loops_of(false);
    probe({kUsualExtent, 3});
    loops_of(true);
    std::sort(loops_.begin(), loops_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return std::move(loops_);
  }

 private:
  struct Cost {
    bool possible = false;
    int64_t activations = 0, constants = 0;  // bytes, of one sample; constants: those whose reading takes time
    std::optional<Dim> rows = std::nullopt;  // of one sample, that hide the reading of other constants
  };

  // Evaluates all expressions for some numbers of samples, and other extents of inputs around each of `extents`.
  void probe(const std::vector<std::optional<int64_t>>& extents) {
    values_.clear();
    for (const auto& extent : extents) {
      std::vector<std::optional<int64_t>> symbols(plan_.symbols.size());
      for (size_t s = 0; s < symbols.size(); ++s) {
        if (plan_.symbols[s].kind == SymbolKind::kTecCount) symbols[s] = 1;
        // All different, but of the first set, which is for costs.
        if (plan_.symbols[s].kind == SymbolKind::kInputExtent && extent)
          symbols[s] = *extent + (values_.empty() ? 0 : static_cast<int64_t>(4 * s));
      }
      for (const int64_t samples : kSamples) {
        symbols[symbol_] = samples;
        values_.push_back(plan_.expressions.evaluate(symbols));
      }
    }
  }

  bool apart(uint32_t group) {
    if (apart_[group] < 0) {
      const graph::Group& all = groups_[group].group;
      const auto has = [](const std::vector<graph::ValueId>& values, graph::ValueId value) {
        return std::find(values.begin(), values.end(), value) != values.end();
      };
      // What lies between the nodes of a group is in nobody's memory.
      apart_[group] = std::all_of(all.nodes.begin(), all.nodes.end(), [&](graph::NodeId id) {
        return keeps_apart(graph_, graph_.node(id), plan_.symbols[symbol_].name,
                           [&](graph::ValueId value) { return !has(all.inputs, value) && !has(all.outputs, value); });
      });
    }
    return apart_[group] != 0;
  }

  // Whether the expression has the same value for all numbers of samples, or grows with them.
  bool is_fixed(ExpressionId id) const {
    return behaves(id, [](int64_t) { return int64_t{1}; });
  }
  bool is_proportional(ExpressionId id) const {
    return behaves(id, [](int64_t samples) { return samples; });
  }
  template <typename Growth>
  bool behaves(ExpressionId id, Growth growth) const {
    for (size_t i = 0; i < values_.size(); ++i) {
      const auto& value = values_[i][id];
      const auto& of_one = values_[i - i % kSamples.size()][id];
      if (!value || !of_one || *value != *of_one * growth(kSamples[i % kSamples.size()])) return false;
    }
    return true;
  }

  // Whether the samples lie in the tensor one after the other, or it does not depend on them.
  bool is_divisible(const PlanTensor& tensor) const {
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      if (!is_fixed(tensor.shape[axis]) && (axis > 0 || !is_proportional(tensor.shape[axis]))) return false;
    }
    return is_fixed(tensor.size_bytes) || is_proportional(tensor.size_bytes);
  }

  // A value may be made of samples and yet be a view into memory that is not: a part of a tensor that was transposed.
  bool memory_is_divisible(const Command& command) const {
    for (const Access& access : command_accesses(plan_, command)) {
      const PlanTensor& tensor = plan_.tensors[access.tensor];
      if (tensor.kind == TensorKind::kView && !is_fixed(tensor.view_offset)) return false;
      const PlanTensor& root = plan_.tensors[root_tensor(plan_, access.tensor)];
      // A loop has all commands of a group, so that memory of the group's own has the size for one sample there.
      const bool own = root.kind == TensorKind::kArena && (root.workspace || root.first_use == root.last_use);
      if (!own && !is_divisible(root)) return false;
    }
    if (const auto* tec = std::get_if<TecBody>(&command.body)) {
      return std::all_of(tec->arguments.begin(), tec->arguments.end(), [&](const PlanArgument& argument) {
        return argument.kind != PlanArgument::Kind::kTensor || is_fixed(argument.offset);
      });
    }
    const auto* dma = std::get_if<DmaBody>(&command.body);
    return dma != nullptr && is_fixed(dma->destination_offset) && is_fixed(dma->source_offset);
  }

  void rate(const Command& command, bool hides_weights) {
    Cost cost;
    const uint32_t group = group_of_command_[command.sequence];
    cost.possible = command.engine() != Engine::kHost && group != kNone && apart(group) && memory_is_divisible(command);
    std::set<uint32_t> seen;
    int64_t weights = 0;  // bytes of the largest constant
    DType weight_type = DType::kVoid;
    bool batched = false;  // otherwise a loop would compute it once for each sample
    for (const Access& access : command_accesses(plan_, command)) {
      if (!cost.possible || !seen.insert(access.tensor).second) continue;
      const PlanTensor& tensor = plan_.tensors[access.tensor];
      const auto& size = values_[0][tensor.size_bytes];
      cost.possible = size.has_value();
      const bool constant = plan_.tensors[root_tensor(plan_, access.tensor)].kind == TensorKind::kConstant;
      (constant ? cost.constants : cost.activations) += size.value_or(0);
      batched |= !is_fixed(tensor.size_bytes);
      if (constant && size.value_or(0) > weights) {
        weights = *size;
        weight_type = tensor.dtype;
      }
    }
    cost.possible = cost.possible && (batched || !hides_weights);
    if (cost.possible && hides_weights) hide_weights(groups_[group].group, weights, weight_type, &cost);
    costs_.push_back(cost);
  }

  void hide_weights(const graph::Group& group, int64_t weights, DType type, Cost* cost) const {
    const Dim products = floordiv(arithmetic_operations(graph_, group), 2);
    if (products == Dim(0) || weights == 0) return;
    cost->rows = floordiv(of_one_sample(products, plan_.symbols[symbol_].name), weights);
    cost->constants = 0;
    const Dim usual = cost->rows->substitute([](const std::string&) { return std::optional<Dim>(kUsualExtent); });
    cost->possible = (type == DType::kI8 || type == DType::kU8) && usual.constant_or(0) >= kHidingRows;
  }

  // The stretch within [begin, end) that gains most, then what is left of it on either side. A command gains by its
  // activations, which stay near, and loses by its weights, which are read once more for every further sample.
  void search(size_t begin, size_t end, bool hides_weights) {
    int64_t best = 0, sum = 0;
    size_t first = end, best_first = begin, best_last = begin;
    for (size_t i = begin; i < end; ++i) {
      if (!continues_group(i) && (first == end || sum <= 0)) {
        sum = 0;
        first = i;
      }
      if (first == end) continue;
      sum += costs_[i].activations - costs_[i].constants;
      if (sum > best && !continues_group(i + 1)) {
        best = sum;
        best_first = first;
        best_last = i;
      }
    }
    const int64_t least = hides_weights ? kLeastHiddenBytes : kLeastActivationBytes;
    const auto is_large = [&](const Cost& cost) { return cost.activations >= least; };
    if (best_last <= best_first || std::none_of(costs_.begin() + static_cast<ptrdiff_t>(best_first),
                                                costs_.begin() + static_cast<ptrdiff_t>(best_last) + 1, is_large)) {
      return;
    }
    search(begin, best_first, hides_weights);
    loops_.push_back({static_cast<uint32_t>(best_first), static_cast<uint32_t>(best_last), symbol_,
                      hides_weights ? std::optional(condition_of(best_first, best_last)) : std::nullopt});
    search(best_last + 1, end, hides_weights);
  }

  // Whether a command belongs to the group of the one before it.
  bool continues_group(size_t i) const {
    return i > 0 && i < group_of_command_.size() && group_of_command_[i] != kNone &&
           group_of_command_[i] == group_of_command_[i - 1];
  }

  // Whether samples have as many rows as hide the reading of weights.
  Dim condition_of(size_t first, size_t last) const {
    std::vector<Dim> different;
    for (size_t i = first; i <= last; ++i) {
      const auto& rows = costs_[i].rows;
      if (rows && !rows->constant() && std::find(different.begin(), different.end(), *rows) == different.end())
        different.push_back(*rows);
    }
    if (different.empty()) return 1;
    Dim least = different[0];
    for (const Dim& rows : different) least = min(least, rows);
    return lt(kHidingRows - 1, least);
  }

  const Plan& plan_;
  const Graph& graph_;
  std::span<const PlannedGroup> groups_;
  std::span<const uint32_t> group_of_command_;
  uint32_t symbol_;
  // Numbers of samples that expressions are evaluated for; the first is 1.
  static constexpr std::array<int64_t, 3> kSamples = {1, 2, 5};
  std::vector<std::vector<std::optional<int64_t>>> values_;  // per set of other extents, for each of kSamples
  std::vector<int> apart_;                                   // per group: -1 unknown
  std::vector<Cost> costs_;                                  // per command, by sequence
  std::vector<FoundBatchLoop> loops_;
};

}  // namespace

bool keeps_samples_apart(const Graph& graph, const Node& node, const std::string& symbol) {
  return keeps_apart(graph, node, symbol, [](graph::ValueId) { return false; });
}

std::vector<FoundBatchLoop> find_batch_loops(const Plan& plan, const Graph& graph, std::span<const PlannedGroup> groups,
                                             std::span<const uint32_t> group_of_command) {
  std::vector<FoundBatchLoop> loops;
  for (uint32_t s = 0; s < plan.symbols.size() && loops.empty(); ++s) {
    const PlanSymbol& symbol = plan.symbols[s];
    if (symbol.kind == SymbolKind::kInputExtent && symbol.index == 0)
      loops = Finder(plan, graph, groups, group_of_command, s).run();
  }
  return loops;
}

}  // namespace aipu::gbuilder
