// Attention: MatMul, scale, mask, Softmax and MatMul as one kernel that keeps the scores in the cache, with the
// Transposes around them read and written as strides: templates/attention.py, or templates/attention_step.py where
// there are few queries.
#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "kernels/dsl/stage_parameters.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/register_tile.h"
#include "kernels/parts/strided_map.h"
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
};

struct Attention {
  std::vector<NodeId> nodes;
  Operand query, key, value, mask, out;  // key as [batch, head, channel, key]; mask.value may be invalid
  Dim batches = 1, heads = 1, queries, keys, depth, channels;
  double scale = 1, fill = 0;
  std::string mask_mode = "none";
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
    if (op(id) == "Slice") id = only_user(graph_, graph_.node(id).outputs[0]);
    if (op(id) == "Transpose") id = only_user(graph_, graph_.node(id).outputs[0]);
    if (op(id) != "MatMul") return {};
    if (const NodeId before = producer(graph_.node(id).inputs[0]); op(before) == "Softmax") return before;
    // The scores: at most a scale and a mask further on.
    for (int i = 0; i < 3 && id.valid(); ++i) {
      id = only_user(graph_, graph_.node(id).outputs[0]);
      if (op(id) == "Softmax") return id;
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
    found_.query = operand(q, {found_.queries, found_.depth}, false);
    found_.key = operand(k, {found_.depth, found_.keys}, true);
    found_.value = operand(v, {found_.keys, found_.channels}, false);
    found_.out = {product, last_four(contiguous_strides(results))};
    if (const NodeId id = only_user(graph_, product); op(id) == "Transpose") {
      const auto& perm = graph_.node(id).attributes.ints("perm");
      if (perm.back() == static_cast<int64_t>(rank) - 1) {
        const std::vector<Dim> strides = contiguous_strides(graph_.type(graph_.node(id).outputs[0]).shape);
        std::vector<Dim> own(rank);
        for (size_t i = 0; i < rank; ++i) own[static_cast<size_t>(perm[i])] = strides[i];
        found_.out = {graph_.node(id).outputs[0], last_four(own)};
        found_.nodes.push_back(id);
      }
    }
    return true;
  }

  // The value whose first rows a value is, and nobody else asks for as such, so that they are read where they are: of a
  // cache those that are filled.
  ValueId whole_of(ValueId value) {
    const NodeId id = producer(value);
    if (op(id) != "Slice" || !only_user(graph_, value).valid()) return value;
    const Node& node = graph_.node(id);
    const Shape& whole = graph_.type(node.inputs[0]).shape;
    const Shape& part = graph_.type(value).shape;
    for (size_t i = 0; i < whole.size(); ++i) {
      const bool is_row = i + 2 == whole.size();
      if (!(node.attributes.shape("starts")[i] == Dim(0)) || node.attributes.ints("steps")[i] != 1 ||
          (!is_row && whole[i] != part[i]))
        return value;
    }
    found_.nodes.push_back(id);
    return node.inputs[0];
  }

  // How a product's operand of [..., rows, columns] is read. A Transpose that feeds nothing else is read through if the
  // columns (or, where `rows_will_do`, the rows) are contiguous in front of it.
  Operand operand(ValueId value, const Shape& matrix, bool rows_will_do) {
    Shape to(space_.begin(), space_.end() - 2);
    to.insert(to.end(), matrix.begin(), matrix.end());
    const Shape& shape = graph_.type(value).shape;
    const NodeId id = producer(value);
    if (op(id) == "Transpose" && only_user(graph_, value).valid()) {
      const Node& node = graph_.node(id);
      const auto& perm = node.attributes.ints("perm");
      const size_t known = found_.nodes.size();
      const ValueId whole = whole_of(node.inputs[0]);
      const std::vector<Dim> own = contiguous_strides(graph_.type(whole).shape);
      std::vector<Dim> strides(to.size(), Dim(0));
      for (size_t i = 0; i < shape.size(); ++i) {
        const size_t target = to.size() - shape.size() + i;
        const Dim& stride = own[static_cast<size_t>(perm[i])];
        const bool in_matrix = i + 2 >= shape.size();
        strides[target] =
            in_matrix || shape[i] == to[target] ? stride : graph::select(graph::eq(shape[i], 1), 0, stride);
      }
      if (strides.back() == Dim(1) || (rows_will_do && strides[strides.size() - 2] == Dim(1))) {
        found_.nodes.push_back(id);
        return {whole, last_four(strides)};
      }
      found_.nodes.resize(known);
    }
    const ValueId whole = whole_of(value);
    const std::vector<Dim> own = contiguous_strides(graph_.type(whole).shape);
    Operand result{whole, last_four(broadcast_strides(shape, to))};
    for (size_t i = 0; i + 2 < shape.size(); ++i) {
      if (whole == value || shape[i] == Dim(1)) continue;
      const bool same = shape[i] == to[to.size() - shape.size() + i];
      result.strides[4 - shape.size() + i] = same ? own[i] : graph::select(graph::eq(shape[i], 1), 0, own[i]);
    }
    result.strides[2] = shape.back();
    result.strides[3] = 1;
    return result;
  }

  bool match_scale(NodeId id, ValueId* scores) {
    if (op(id) != "Mul" && op(id) != "Div") return false;
    const Node& node = graph_.node(id);
    const bool swapped = node.op == "Mul" && graph_.constant(node.inputs[0]) != nullptr;
    const graph::Constant* factor = graph_.constant(node.inputs[swapped ? 0 : 1]);
    if (factor == nullptr || factor->element_count() != 1 || factor->dtype() != DType::kF32) return false;
    if (graph_.type(node.outputs[0]).shape != space_) return false;
    const double number = factor->to_doubles()[0];
    found_.scale = node.op == "Mul" ? number : 1 / number;
    *scores = node.inputs[swapped ? 1 : 0];
    return true;
  }

  // Whether a value, a scale further back at most, is the result of a matrix product.
  bool is_product(ValueId value) const {
    NodeId id = producer(value);
    if (op(id) == "Mul" || op(id) == "Div") {
      const Node& node = graph_.node(id);
      const bool swapped = graph_.constant(node.inputs[0]) != nullptr;
      id = producer(node.inputs[swapped ? 1 : 0]);
    }
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
    if (node.op != "Transpose" && node.op != "MatMul" && node.op != "Slice") return std::nullopt;
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
      return context.anchor().op == "MatMul" ? make_matmul_plugin()->setup(context)
                                             : make_strided_copy_plugin()->setup(context);
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
  static dsl::TemplateParams common_params(const SetupContext& context, const Attention& a) {
    const int lanes = context.lanes(DType::kF32);
    dsl::TemplateParams params;
    params.set("VL", lanes).set("LANES", lanes).set("USE_FMA", true).set("ACC", DType::kF32);
    params.set("KEY_UNIT", a.key.strides[2] == Dim(1)).set("MASK", a.mask_mode).set("SCALE", a.scale);
    params.set("MASK_TYPE", a.mask_mode == "keep" || a.mask_mode == "drop" ? DType::kU8 : DType::kF32);
    return params;
  }

  // Of both kernels: operands, extents, strides.
  static KernelArguments common_arguments(const SetupContext& context, const Attention& a, const Dim& condition) {
    KernelArguments arguments;
    arguments.pointer("query", context.value(a.query.value))
        .pointer("key", context.value(a.key.value))
        .pointer("value", context.value(a.value.value))
        .pointer("mask", context.value(a.mask_mode == "none" ? a.query.value : a.mask.value))
        .real("fill", a.fill)
        .record("operands", {{"keys", a.keys}, {"depth", a.depth}});
    bind_output(context, a, condition, &arguments);
    const auto& [q, k, v, m] = std::tie(a.query.strides, a.key.strides, a.value.strides, a.mask.strides);
    arguments.record("operands.query", {{"batch", q[0]}, {"head", q[1]}, {"row", q[2]}});
    // A key is a column of the right operand.
    arguments.record("operands.key", {{"batch", k[0]}, {"head", k[1]}, {"row", k[3]}, {"step", k[2]}});
    arguments.record("operands.value", {{"batch", v[0]}, {"head", v[1]}, {"row", v[2]}});
    arguments.record("operands.mask", {{"batch", m[0]}, {"head", m[1]}, {"row", m[2]}, {"step", m[3]}});
    return arguments;
  }
  static void bind_output(const SetupContext& context, const Attention& a, const Dim& condition,
                          KernelArguments* arguments) {
    const auto& o = a.out.strides;
    arguments->pointer("out", context.value(a.out.value))
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
    dsl::TemplateParams params = common_params(context, a);
    params.set("NV", tile.vectors).set("MASK_BY_QUERY", by_query);
    params.set("KEY_HEIGHTS", tile_heights({1, false}, tile.rows))
        .set("CHANNEL_HEIGHTS", tile_heights(row_count({a.channels}), tile.rows));

    const Dim width = static_cast<int64_t>(tile.vectors) * lanes;
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
    params.set("POOL", is_staged ? room : 0);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("attention.py", "attention", params));

    const Dim block = graph::max(graph::min(a.keys, is_staged ? staged : kBlockKeys), 1);
    const Dim scratch = scratch_of(block);
    const Dim units = a.batches * a.heads * graph::ceildiv(a.queries, width) * condition;
    const Dim tecs = graph::max(graph::min(units, tec_count()), 1);
    KernelArguments arguments = common_arguments(context, a, condition);
    // Nothing is read there if local memory has it.
    const Dim bytes = is_staged ? Dim(static_cast<int64_t>(sizeof(float)))
                                : tecs * scratch * Dim(static_cast<int64_t>(sizeof(float)));
    arguments.pointer("scratch", context.add_workspace(bytes)).scalars({{"block", block}, {"scratch_size", scratch}});
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, tecs));
    if (is_staged) context.note(fmt::format("{} keys at a time in local memory, and their values", staged));
    return {};
  }

  static Status launch_few(SetupContext& context, const Attention& a, const Dim& condition) {
    const int lanes = context.lanes(DType::kF32);
    const auto may_end_within_a_vector = [&](const Dim& extent) { return extent.constant_or(1) % lanes != 0; };
    const bool many_registers = context.target().vector_registers >= 32;
    dsl::TemplateParams params = common_params(context, a);
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
    KernelArguments arguments = common_arguments(context, a, condition);
    arguments.pointer("scratch", workspace(tecs * scratch))
        .pointer("partial", partial)
        .scalars({{"block", block}, {"scratch_size", scratch}, {"ranges", ranges}});
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, tecs));
    if (ranges == Dim(1)) return {};
    AIPU_ASSIGN_OR_RETURN(auto combining, context.kernel("attention_step.py", "combine", params));
    KernelArguments combined;
    combined.pointer("partial", partial).scalar("ranges", ranges);
    bind_output(context, a, condition, &combined);
    return context.launch(std::move(combining), combined,
                          graph::select(graph::eq(ranges, 1), Dim(1), graph::max(pairs * a.queries, 1)));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_attention_plugin() { return std::make_unique<AttentionPlugin>(); }

}  // namespace aipu::kernels
