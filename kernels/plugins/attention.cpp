// Attention: MatMul, scale, mask, Softmax and MatMul as one kernel that keeps the scores in the cache, with what moves
// elements around them (Transpose, Split, Reshape, ...) read and written as strides, and a QuantizeLinear behind them:
// templates/attention.py, or templates/attention_step.py where there are few queries.
#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "graph/ops/multiplies.h"
#include "kernels/dsl/stage_parameters.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/gemm.h"
#include "kernels/parts/register_tile.h"
#include "kernels/parts/strided_map.h"
#include "kernels/parts/strided_view.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Shape;
using graph::ValueId;

// Keys at a time: their scores, for two vectors of queries, are a third of a first-level cache.
constexpr int64_t kBlockKeys = 128;
// Elements of a head's values that are copied to be near each other: a quarter of a second-level cache.
constexpr int64_t kMostPacked = int64_t{1} << 17;
// The fewest keys at a time that local memory is used for.
constexpr int64_t kLeastStagedKeys = 8;
// The fewest queries that attention.py is faster with, the rest of its lanes being empty (measured with 8 and 16
// lanes).
int64_t least_queries(int lanes) { return lanes * 2 / 3 + 1; }
// Fewer than that: keys at a time, and what it takes to split them up (they are split if heads alone are fewer than the
// units wanted).
constexpr int64_t kStepBlockKeys = 256;
constexpr int64_t kEnoughHeads = 8;
constexpr int64_t kWantedUnits = 16;

// A tensor of [batch, head, row, column]: where the elements are, in elements.
struct Operand {
  ValueId value;
  std::array<Dim, 4> strides = {0, 0, 0, 0};
  Dim offset = 0;  // of the first one
};

struct Attention {
  std::vector<NodeId> nodes;
  Operand query, key, value, mask, out;  // key as [batch, head, channel, key]; mask.value may be invalid
  ValueId product;                       // the result as float32, moved or not, as the epilogue reads it
  std::vector<NodeId> epilogue;
  Dim batches = 1, heads = 1, queries, keys, depth, channels;
  double scale = 1, fill = 0;
  std::string mask_mode = "none";
  bool rounds = false;  // both products may multiply bfloat16 numbers
  std::vector<ShapeCheck> checks;
};

// The strides of the last four dimensions, 0 for those that are not there.
std::array<Dim, 4> last_four(const std::vector<Dim>& strides) {
  std::array<Dim, 4> result = {0, 0, 0, 0};
  for (size_t i = 0; i < strides.size(); ++i) result[4 - strides.size() + i] = strides[i];
  return result;
}

bool is_float(const Graph& graph, ValueId value) { return value.valid() && graph.type(value).dtype == DType::kF32; }

// The only user of a value that nobody else sees.
NodeId only_user(const Graph& graph, ValueId value) {
  const auto users = graph.users(value);
  return users.size() == 1 && !graph.is_graph_output(value) ? users[0] : NodeId();
}

// Whether `node` reads `value` exactly once.
bool reads_once(const Node& node, ValueId value) {
  return std::count(node.inputs.begin(), node.inputs.end(), value) == 1;
}

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  // The attention that a node belongs to.
  std::optional<Attention> match(NodeId id) {
    const NodeId softmax = softmax_of(id);
    if (!softmax.valid() || !match_softmax(softmax)) return std::nullopt;
    if (std::find(found_.nodes.begin(), found_.nodes.end(), id) == found_.nodes.end()) return std::nullopt;
    return std::move(found_);
  }

 private:
  NodeId producer(ValueId value) const { return value.valid() ? graph_.value(value).producer : NodeId(); }
  const std::string& op(NodeId id) const {
    static const std::string kNone;
    return id.valid() ? graph_.node(id).op : kNone;
  }

  NodeId softmax_of(NodeId id) const {
    // At most what moves and scales an operand, a product, a scale and a mask further on.
    for (int i = 0; i < 12 && id.valid(); ++i) {
      if (op(id) == "Softmax") return id;
      if (op(id) == "MatMul") {
        if (const NodeId before = producer(graph_.node(id).inputs[0]); op(before) == "Softmax") return before;
      }
      const auto& outputs = graph_.node(id).outputs;
      if (outputs.empty() || !outputs[0].valid()) return {};
      // Of a tensor that has all three the first part is as good as the others.
      const auto users = graph_.users(outputs[0]);
      if (users.empty() || graph_.is_graph_output(outputs[0])) return {};
      id = users[0];
    }
    return {};
  }

  bool match_softmax(NodeId softmax) {
    const Node& node = graph_.node(softmax);
    const ValueId weights = node.outputs[0];
    if (!is_float(graph_, weights)) return false;
    space_ = graph_.type(weights).shape;
    const auto rank = static_cast<int64_t>(space_.size());
    const int64_t axis = node.attributes.i_or("axis", -1);
    if (rank < 2 || rank > 4 || (axis != -1 && axis != rank - 1)) return false;
    const NodeId second = only_user(graph_, weights);
    if (op(second) != "MatMul" || graph_.node(second).inputs[0] != weights || !reads_once(graph_.node(second), weights))
      return false;

    // Backwards from the softmax: mask, scale, scores.
    ValueId scores = node.inputs[0];
    std::vector<NodeId> between;
    if (const NodeId id = producer(scores); match_mask(id, &scores)) between.push_back(id);
    if (const NodeId id = producer(scores); match_scale(id, &scores)) between.push_back(id);
    const NodeId first = producer(scores);
    if (op(first) != "MatMul" || graph_.type(scores).shape != space_) return false;
    // What is computed on the way belongs to nobody else.
    if (only_user(graph_, scores) != (between.empty() ? softmax : between.back())) return false;
    for (const NodeId id : between) {
      const NodeId user = only_user(graph_, graph_.node(id).outputs[0]);
      if (user != softmax && std::find(between.begin(), between.end(), user) == between.end()) return false;
    }
    return match_products(first, second, softmax, between);
  }

  bool match_products(NodeId first, NodeId second, NodeId softmax, const std::vector<NodeId>& between) {
    const ValueId q = graph_.node(first).inputs[0], k = graph_.node(first).inputs[1], v = graph_.node(second).inputs[1];
    const ValueId product = graph_.node(second).outputs[0];
    const size_t rank = space_.size();
    for (const ValueId operand : {q, k, v, product}) {
      if (!is_float(graph_, operand) || graph_.type(operand).shape.size() < 2 ||
          graph_.type(operand).shape.size() > rank)
        return false;
    }
    if (q == k || v == k || v == q || graph_.type(product).shape.size() != rank) return false;
    if (rank > 2) found_.heads = space_[rank - 3];
    if (rank > 3) found_.batches = space_[rank - 4];
    found_.queries = space_[rank - 2];
    found_.keys = space_[rank - 1];
    found_.depth = graph_.type(q).shape.back();
    found_.channels = graph_.type(v).shape.back();
    // Results of [batch, head, queries, channels]: a `value` with more batches would be another computation.
    Shape results = space_;
    results.back() = found_.channels;
    if (graph_.type(product).shape != results) return false;
    found_.nodes.push_back(first);
    for (auto it = between.rbegin(); it != between.rend(); ++it) found_.nodes.push_back(*it);
    found_.nodes.push_back(softmax);
    found_.nodes.push_back(second);
    read_operands(q, k, v);
    found_.rounds =
        graph::may_multiply(graph_.node(first), DType::kBF16) && graph::may_multiply(graph_.node(second), DType::kBF16);
    found_.product = product;
    store_result(product, results);
    return true;
  }

  // The result is stored where a Transpose wants it, and as the 8-bit integers that a QuantizeLinear or the bfloat16
  // numbers that a Cast makes of it, in whichever order they come.
  void store_result(ValueId product, const Shape& results) {
    found_.out = {product, last_four(contiguous_strides(results))};
    bool may_transpose = true;
    for (NodeId id = only_user(graph_, product); id.valid(); id = only_user(graph_, graph_.node(id).outputs[0])) {
      const Node& node = graph_.node(id);
      const auto rank = static_cast<int64_t>(space_.size());
      if (node.op == "Transpose" && may_transpose && node.attributes.ints("perm").back() == rank - 1) {
        const auto& perm = node.attributes.ints("perm");
        const std::vector<Dim> strides = contiguous_strides(graph_.type(node.outputs[0]).shape);
        std::vector<Dim> own(static_cast<size_t>(rank));
        for (size_t i = 0; i < own.size(); ++i) own[static_cast<size_t>(perm[i])] = strides[i];
        found_.out.strides = last_four(own);
        may_transpose = false;
      } else if (found_.epilogue.empty() && (is_quantisation(node) || is_cast(node, DType::kF32, DType::kBF16))) {
        found_.epilogue.push_back(id);
        found_.product = node.inputs[0];
      } else if (is_rounding(found_.epilogue) && is_cast(node, DType::kBF16, DType::kF32)) {
        found_.epilogue.push_back(id);
      } else if (found_.epilogue.empty() && is_reshape_before_cast(node)) {
        // The same elements in the same order; of their new shape no Transpose is taken.
        may_transpose = false;
      } else {
        return;
      }
      found_.out.value = node.outputs[0];
      found_.nodes.push_back(id);
    }
  }

  bool is_cast(const Node& node, DType from, DType to) const {
    return node.op == "Cast" && graph_.type(node.inputs[0]).dtype == from && graph_.type(node.outputs[0]).dtype == to;
  }
  bool is_reshape_before_cast(const Node& node) const {
    const NodeId user = node.op == "Reshape" ? only_user(graph_, node.outputs[0]) : NodeId();
    return user.valid() && is_cast(graph_.node(user), DType::kF32, DType::kBF16);
  }
  bool is_rounding(const std::vector<NodeId>& nodes) const {
    return nodes.size() == 1 && is_cast(graph_.node(nodes[0]), DType::kF32, DType::kBF16);
  }

  // Of the whole tensor by one scale.
  bool is_quantisation(const Node& node) const {
    if (node.op != "QuantizeLinear") return false;
    const DType result = graph_.type(node.outputs[0]).dtype;
    if (result != DType::kU8 && result != DType::kI8) return false;
    return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId input) {
      return !input.valid() || graph::element_count(graph_.type(input).shape) == Dim(1);
    });
  }

  // How an operand of [..., rows, columns] comes about: nodes that only move elements, or multiply all of them by a
  // number, the last one first.
  struct Path {
    ValueId value;
    Shape matrix;
    bool rows_will_do = false;
    std::vector<NodeId> nodes;
    std::optional<Operand> operand;
  };

  // Products read their operands as they are before such nodes, where these feed nothing else and leave the columns
  // (or, where `rows_will_do`, the rows) contiguous.
  void read_operands(ValueId q, ValueId k, ValueId v) {
    std::array<Path, 3> paths = {Path{q, {found_.queries, found_.depth}}, Path{k, {found_.depth, found_.keys}, true},
                                 Path{v, {found_.keys, found_.channels}}};
    for (Path& path : paths) {
      const bool scaled = &path != &paths[2];
      for (NodeId id = producer(path.value); is_on_the_way(id, scaled); id = producer(moved_by(graph_.node(id))))
        path.nodes.push_back(id);
    }
    // One node less as long as one of them feeds others, or what is then read is not strides away.
    for (bool changed = true; changed;) {
      changed = false;
      for (Path& path : paths) {
        // A Reshape at the end is a view anyway.
        while (!path.nodes.empty() && op(path.nodes.back()) == "Reshape") path.nodes.pop_back();
        path.operand = read_along(path);
        const bool is_closed =
            std::all_of(path.nodes.begin(), path.nodes.end(), [&](NodeId id) { return feeds_paths_only(paths, id); });
        if (path.nodes.empty() || (path.operand && is_closed)) continue;
        path.nodes.pop_back();
        changed = true;
      }
    }
    for (const Path& path : paths) {
      for (const NodeId id : path.nodes) {
        if (std::find(found_.nodes.begin(), found_.nodes.end(), id) != found_.nodes.end()) continue;
        found_.nodes.push_back(id);
      }
    }
    for (const Path* path : {&paths[0], &paths[1]}) {
      for (const NodeId id : path->nodes) found_.scale *= factor_of(graph_.node(id)).value_or(1);
    }
    found_.query = *paths[0].operand;
    found_.key = *paths[1].operand;
    found_.value = *paths[2].operand;
  }

  bool is_on_the_way(NodeId id, bool scaled) const {
    if (!id.valid()) return false;
    static constexpr std::string_view kMoving[] = {"Transpose", "Reshape", "Split", "Slice", "Gather"};
    const Node& node = graph_.node(id);
    return std::find(std::begin(kMoving), std::end(kMoving), node.op) != std::end(kMoving) ||
           (scaled && factor_of(node));
  }

  // The operand whose elements a node on the way moves or multiplies.
  ValueId moved_by(const Node& node) const {
    return node.inputs[node.op == "Mul" && graph_.constant(node.inputs[0]) != nullptr ? 1 : 0];
  }
  ValueId root_of(const Path& path) const {
    return path.nodes.empty() ? path.value : moved_by(graph_.node(path.nodes.back()));
  }

  // Whether what a node gives is for nodes of the paths and the products only, and nothing that a path begins with.
  bool feeds_paths_only(const std::array<Path, 3>& paths, NodeId id) const {
    const auto& outputs = graph_.node(id).outputs;
    return std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
      if (!output.valid()) return true;
      if (graph_.is_graph_output(output) ||
          std::any_of(paths.begin(), paths.end(), [&](const Path& path) { return root_of(path) == output; }))
        return false;
      const auto users = graph_.users(output);
      return std::all_of(users.begin(), users.end(), [&](NodeId user) {
        const auto has = [&](const std::vector<NodeId>& nodes) {
          return std::find(nodes.begin(), nodes.end(), user) != nodes.end();
        };
        return has(found_.nodes) ||
               std::any_of(paths.begin(), paths.end(), [&](const Path& path) { return has(path.nodes); });
      });
    });
  }

  std::optional<Operand> read_along(const Path& path) const {
    Shape to(space_.begin(), space_.end() - 2);
    to.insert(to.end(), path.matrix.begin(), path.matrix.end());
    const ValueId root = root_of(path);
    StridedView view = whole_view(graph_.type(root).shape);
    for (size_t i = path.nodes.size(); i-- > 0;) {
      const Node& node = graph_.node(path.nodes[i]);
      if (factor_of(node)) continue;
      const ValueId output = i == 0 ? path.value : moved_by(graph_.node(path.nodes[i - 1]));
      auto behind = view_behind(graph_, node, output, view);
      if (!behind) return std::nullopt;
      view = std::move(*behind);
    }
    std::vector<Dim> strides(to.size(), Dim(0));
    const size_t rank = view.shape.size();
    for (size_t i = 0; i < rank; ++i) {
      const size_t target = to.size() - rank + i;
      const Dim& stride = view.strides[i];
      const bool in_matrix = i + 2 >= rank;
      strides[target] =
          in_matrix || view.shape[i] == to[target] ? stride : graph::select(graph::eq(view.shape[i], 1), 0, stride);
    }
    const size_t last = strides.size() - 1;
    if (!(strides[last] == Dim(1)) && !(path.rows_will_do && strides[last - 1] == Dim(1)) && !path.nodes.empty())
      return std::nullopt;
    return Operand{root, last_four(strides), view.offset};
  }

  // What a Mul or Div multiplies all elements of its other operand by.
  std::optional<double> factor_of(const Node& node) const {
    if (node.op != "Mul" && node.op != "Div") return std::nullopt;
    const ValueId moved = moved_by(node);
    const graph::Constant* factor = graph_.constant(node.inputs[moved == node.inputs[0] ? 1 : 0]);
    if (factor == nullptr || factor->element_count() != 1 || factor->dtype() != DType::kF32) return std::nullopt;
    if (graph_.type(node.outputs[0]).shape != graph_.type(moved).shape) return std::nullopt;
    const double number = factor->to_doubles()[0];
    return node.op == "Mul" ? number : 1 / number;
  }

  bool match_scale(NodeId id, ValueId* scores) {
    if (!id.valid()) return false;
    const Node& node = graph_.node(id);
    const auto factor = factor_of(node);
    if (!factor || graph_.type(node.outputs[0]).shape != space_) return false;
    found_.scale = *factor;
    *scores = moved_by(node);
    return true;
  }

  // Whether a value, a scale further back at most, is the result of a matrix product.
  bool is_product(ValueId value) const {
    NodeId id = producer(value);
    if (op(id) == "Mul" || op(id) == "Div") id = producer(moved_by(graph_.node(id)));
    return op(id) == "MatMul";
  }

  bool match_mask(NodeId id, ValueId* scores) {
    if (op(id) != "Add" && op(id) != "Where") return false;
    const Node& node = graph_.node(id);
    if (graph_.type(node.outputs[0]).shape != space_) return false;
    ValueId x, mask;
    std::string mode = "add";
    if (node.op == "Add") {
      const auto is_scores = [&](size_t i) {
        return graph_.type(node.inputs[i]).shape == space_ && is_product(node.inputs[i]);
      };
      const size_t place = is_scores(0) ? 0 : 1;
      x = node.inputs[place];
      mask = node.inputs[1 - place];
      if (!is_scores(place) || !is_float(graph_, mask)) return false;
    } else {
      const bool keep = graph_.constant(node.inputs[2]) != nullptr;
      const graph::Constant* fill = graph_.constant(node.inputs[keep ? 2 : 1]);
      if (fill == nullptr || fill->element_count() != 1 || fill->dtype() != DType::kF32) return false;
      x = node.inputs[keep ? 1 : 2];
      mask = node.inputs[0];
      found_.fill = fill->to_doubles()[0];
      mode = keep ? "keep" : "drop";
    }
    const Shape& shape = graph_.type(mask).shape;
    if (x == mask || shape.size() > space_.size()) return false;
    for (size_t i = 0; i < shape.size(); ++i) {
      const Dim& target = space_[space_.size() - shape.size() + i];
      if (shape[i] == Dim(1) || shape[i] == target) continue;
      found_.checks.push_back(
          {graph::max(graph::eq(shape[i], 1), graph::eq(shape[i], target)),
           fmt::format("{}: the mask of shape {} cannot be broadcast to {}", graph::origins_text(node.origins),
                       graph::shape_text(shape), graph::shape_text(space_))});
    }
    found_.mask = {mask, last_four(broadcast_strides(shape, space_))};
    found_.mask_mode = std::move(mode);
    *scores = x;
    return true;
  }

  const Graph& graph_;
  Shape space_;  // of the scores
  Attention found_;
};

class AttentionPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "attention"; }

  // Anchored at whichever node of the pattern comes first, so that the Transposes in front can be taken along.
  graph::ClaimResult claim(const Graph& graph, NodeId anchor, const graph::ClaimTarget&) const override {
    const Node& node = graph.node(anchor);
    static constexpr std::string_view kFirst[] = {"MatMul", "Transpose", "Split", "Slice", "Gather", "Mul", "Div"};
    if (std::find(std::begin(kFirst), std::end(kFirst), node.op) == std::end(kFirst)) return std::nullopt;
    const auto found = Matcher(graph).match(anchor);
    if (!found) return std::nullopt;
    // All or nothing: a claim loses nodes from its end, down to the anchor.
    graph::Claim claim{anchor, {}, 40};
    for (const NodeId id : found->nodes) {
      if (id != anchor) claim.nodes.push_back(id);
    }
    claim.nodes.push_back(anchor);
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    if (context.group().nodes.size() == 1) {
      // Somebody else had a part of the pattern before.
      const std::string& op = context.anchor().op;
      if (op == "MatMul") return make_matmul_plugin()->setup(context);
      if (op == "Split") return make_split_plugin()->setup(context);
      if (op == "Gather") return make_gather_plugin()->setup(context);
      if (op == "Mul" || op == "Div") return make_elementwise_plugin()->setup(context);
      return make_strided_copy_plugin()->setup(context);
    }
    auto found = Matcher(graph).match(context.group().anchor);
    if (!found) return internal_error("not an attention");
    for (const ShapeCheck& check : found->checks) context.implementation.checks.push_back(check);
    // As many queries as keys are taken for many.
    const Attention& a = *found;
    const Dim least = least_queries(context.lanes(DType::kF32));
    const Dim few = a.queries.is_constant() || !(a.queries == a.keys) ? graph::lt(a.queries, least) : Dim(0);
    if (!(few == Dim(0))) AIPU_RETURN_IF_ERROR(launch_few(context, a, few));
    return few == Dim(1) ? Status() : launch_many(context, a, Dim(1) - few);
  }

 private:
  // Both with the epilogue's operands.
  struct Kernel {
    dsl::TemplateParams params;
    std::vector<KernelArgument> extras;
  };
  static Result<Kernel> common_kernel(SetupContext& context, const Attention& a) {
    const int lanes = context.lanes(DType::kF32);
    Kernel kernel;
    dsl::TemplateParams& params = kernel.params;
    params.set("VL", lanes).set("LANES", lanes).set("USE_FMA", true).set("ACC", DType::kF32);
    params.set("KEY_UNIT", a.key.strides[2] == Dim(1)).set("MASK", a.mask_mode).set("SCALE", a.scale);
    params.set("MASK_TYPE", a.mask_mode == "keep" || a.mask_mode == "drop" ? DType::kU8 : DType::kF32);
    AnchorArithmetic arithmetic;
    arithmetic.shares_kernels = true;
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue,
                          bind_epilogue(context, a.epilogue, a.product, DType::kF32, arithmetic, &params));
    kernel.extras = std::move(epilogue.extra_arguments);
    return kernel;
  }

  // Of both kernels: operands, extents, strides.
  static KernelArguments common_arguments(const SetupContext& context, const Attention& a, const Dim& condition,
                                          const std::vector<KernelArgument>& extras) {
    KernelArguments arguments;
    const auto place = [&](const Operand& operand) {
      return PointerArgument{context.value(operand.value), operand.offset * Dim(static_cast<int64_t>(sizeof(float)))};
    };
    arguments.pointer("query", place(a.query))
        .pointer("key", place(a.key))
        .pointer("value", place(a.value))
        .pointer("mask", context.value(a.mask_mode == "none" ? a.query.value : a.mask.value))
        .real("fill", a.fill)
        .record("operands", {{"keys", a.keys}, {"depth", a.depth}});
    bind_output(context, a, condition, extras, &arguments);
    const auto& [q, k, v, m] = std::tie(a.query.strides, a.key.strides, a.value.strides, a.mask.strides);
    arguments.record("operands.query", {{"batch", q[0]}, {"head", q[1]}, {"row", q[2]}});
    // A key is a column of the right operand.
    arguments.record("operands.key", {{"batch", k[0]}, {"head", k[1]}, {"row", k[3]}, {"step", k[2]}});
    arguments.record("operands.value", {{"batch", v[0]}, {"head", v[1]}, {"row", v[2]}});
    arguments.record("operands.mask", {{"batch", m[0]}, {"head", m[1]}, {"row", m[2]}, {"step", m[3]}});
    return arguments;
  }
  static void bind_output(const SetupContext& context, const Attention& a, const Dim& condition,
                          const std::vector<KernelArgument>& extras, KernelArguments* arguments) {
    const auto& o = a.out.strides;
    arguments->pointer("out", context.value(a.out.value))
        .list("extras", extras)
        .record(
            "results",
            {{"batches", a.batches * condition}, {"heads", a.heads}, {"queries", a.queries}, {"channels", a.channels}})
        .record("results.strides", {{"batch", o[0]}, {"head", o[1]}, {"row", o[2]}});
  }

  // `condition` is 1 where the kernel is to do its work, else 0.
  static Status launch_many(SetupContext& context, const Attention& a, const Dim& condition) {
    const int lanes = context.lanes(DType::kF32);
    const RegisterTile tile = register_tile(context.target(), a.queries, lanes);
    const bool by_query = a.mask_mode != "none" && !(a.mask.strides[2] == Dim(0));
    AIPU_ASSIGN_OR_RETURN(auto common, common_kernel(context, a));
    auto& [params, extras] = common;
    params.set("NV", tile.vectors).set("MASK_BY_QUERY", by_query);
    const Dim width = static_cast<int64_t>(tile.vectors) * lanes;
    const Dim last = graph::ceildiv(graph::mod(a.queries, width), lanes);
    params.set("LAST", last.constant_or(0) > 0 ? *last.constant() : static_cast<int64_t>(tile.vectors));
    params.set("KEY_HEIGHTS", tile_heights({1, false}, tile.rows))
        .set("CHANNEL_HEIGHTS", tile_heights(row_count({a.channels}), tile.rows));

    const auto padded = [&](const Dim& extent) { return graph::ceildiv(extent, lanes) * Dim(lanes); };
    // State, queries, results, scores, mask; see the template.
    const auto scratch_of = [&](const Dim& block) {
      return width * (Dim(3) + padded(a.depth) + padded(a.channels) + block + (by_query ? padded(block) : Dim(0)));
    };
    // In local memory the keys and values of a block are beside it.
    const int64_t room = context.target().lsram_bytes() / static_cast<int64_t>(sizeof(float));
    const auto fits = [&](int64_t block) {
      const auto elements = (scratch_of(block) + Dim(block) * (a.depth + a.channels)).constant();
      return elements && *elements <= room && a.depth.constant_or(0) > 0 && a.channels.constant_or(0) > 0;
    };
    int64_t staged = dsl::has_staging(context.target()) ? kBlockKeys : 0;
    while (staged > 0 && !fits(staged)) --staged;
    const bool is_staged = staged >= std::min(kLeastStagedKeys, a.keys.constant_or(kLeastStagedKeys));
    // AArch64's instruction, which rounds otherwise, is not what the template multiplies with.
    const bool pairs =
        a.rounds && context.target().bf16_dot_products && context.target().machine != "aarch64" && !is_staged;
    params.set("POOL", is_staged ? room : 0);
    params.set("PAIRS", pairs).set("PAIRS_TO_ODD", false).set("PANEL", panel_dtype(DType::kF32, pairs));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("attention.py", "attention", params));

    const Dim block = graph::max(graph::min(a.keys, is_staged ? staged : kBlockKeys), 1);
    const auto rows_of = [&](const Dim& count, const Dim& extent) {
      return graph::max(count, 1) * (padded(extent) + Dim(lanes));
    };
    const Dim rows = rows_of(a.keys, a.channels);
    const Dim packed = is_staged || pairs ? Dim(0) : packs(a, width) * graph::lt(rows, kMostPacked + 1);
    Dim copies = packed * rows;
    if (pairs) {
      const Dim depth_words = graph::ceildiv(a.depth, 2);
      copies = rows_of(graph::ceildiv(a.keys, 2), a.channels) +
               (a.key.strides[2] == Dim(1) ? rows_of(a.keys, depth_words) : rows_of(depth_words, a.keys));
    }
    const Dim scratch = scratch_of(block) + copies;
    const Dim units = a.batches * a.heads * graph::ceildiv(a.queries, width) * condition;
    const Dim tecs = graph::max(graph::min(units, tec_count()), 1);
    KernelArguments arguments = common_arguments(context, a, condition, extras);
    // Nothing is read there if local memory has it.
    const Dim bytes = is_staged ? Dim(static_cast<int64_t>(sizeof(float)))
                                : tecs * scratch * Dim(static_cast<int64_t>(sizeof(float)));
    arguments.pointer("scratch", context.add_workspace(bytes))
        .scalars({{"block", block}, {"packed", packed}, {"scratch_size", scratch}});
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, tecs));
    if (is_staged) context.note(fmt::format("{} keys at a time in local memory, and their values", staged));
    return {};
  }

  // 1 where it pays that a TEC copies a head's values: they lie apart, and more than one unit reads them.
  static Dim packs(const Attention& a, const Dim& width) {
    return a.value.strides[2] == a.channels ? Dim(0) : graph::lt(width, a.queries);
  }

  static Status launch_few(SetupContext& context, const Attention& a, const Dim& condition) {
    const int lanes = context.lanes(DType::kF32);
    const auto may_end_within_a_vector = [&](const Dim& extent) { return extent.constant_or(1) % lanes != 0; };
    const bool many_registers = context.target().vector_registers >= 32;
    AIPU_ASSIGN_OR_RETURN(auto common, common_kernel(context, a));
    auto& [params, extras] = common;
    // Keys ahead.
    params.set("PREFETCH", static_cast<int64_t>(context.target().vector_bits >= 512 ? 96 : 0));
    params.set("NV", 1)
        .set("QUERY_HEIGHTS", tile_heights(row_count({a.queries}), many_registers ? 4 : 2))
        .set("WIDTHS", std::vector<int64_t>{4, 1});
    params.set("DEPTH_TAIL", may_end_within_a_vector(a.depth)).set("CHANNEL_TAIL", may_end_within_a_vector(a.channels));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("attention_step.py", "attention_step", params));

    const auto padded = [&](const Dim& extent) { return graph::ceildiv(extent, lanes) * Dim(lanes); };
    const Dim pairs = a.batches * a.heads;
    const Dim queries = graph::min(a.queries, least_queries(lanes));
    const Dim wanted =
        graph::select(graph::lt(pairs, kEnoughHeads), graph::ceildiv(kWantedUnits, graph::max(pairs, 1)), Dim(1));
    const Dim ranges = graph::max(graph::min(wanted, graph::floordiv(a.keys, kStepBlockKeys)), 1);
    const Dim block = padded(graph::max(graph::min(a.keys, kStepBlockKeys), 1));
    constexpr int64_t kState = 4;
    const Dim results = queries * (padded(a.channels) + Dim(kState)),
              scratch = queries * (padded(a.depth) + block) + results;
    const Dim units = pairs * ranges * condition;
    const Dim tecs = graph::max(graph::min(units, tec_count()), 1);
    const auto workspace = [&](const Dim& elements) {
      return context.add_workspace(elements * Dim(static_cast<int64_t>(sizeof(float))));
    };
    const TensorRef partial = workspace(graph::select(graph::eq(ranges, 1), Dim(1), units * results));
    KernelArguments arguments = common_arguments(context, a, condition, extras);
    arguments.pointer("scratch", workspace(tecs * scratch))
        .pointer("partial", partial)
        .scalars({{"block", block}, {"scratch_size", scratch}, {"ranges", ranges}});
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, tecs));
    if (ranges == Dim(1)) return {};
    AIPU_ASSIGN_OR_RETURN(auto combining, context.kernel("attention_step.py", "combine", params));
    KernelArguments combined;
    combined.pointer("partial", partial).scalar("ranges", ranges);
    bind_output(context, a, condition, extras, &combined);
    return context.launch(std::move(combining), combined,
                          graph::select(graph::eq(ranges, 1), Dim(1), graph::max(pairs * a.queries, 1)));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_attention_plugin() { return std::make_unique<AttentionPlugin>(); }

}  // namespace aipu::kernels
