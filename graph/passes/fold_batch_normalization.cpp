// fold_batch_normalization: scales and shifts per channel go into the constants of the op before them.
//
//   x ─ Conv(w, b) ─ BatchNormalization ─ y  =>  x ─ Conv(w', b') ─ y     w' = w * a per output channel, b' = b * a + c
//   x ─ Conv(w, b) ─ Mul(s) ─ Add(t) ─ y     =>  the same, for constants of one number per channel or one for all
//   x ─ BatchNormalization ─ y               =>  x ─ Mul(a) ─ Add(c) ─ y  a = scale / sqrt(var + eps), c = B - mean * a
//   x ─ Mul(s) ─ Conv(w, b) ─ y              =>  x ─ Conv(w', b) ─ y      w' = w * s per input channel; the Mul is of
//                                                                         an input of the graph, which has no op before
//
// The op before is Conv, ConvTranspose, Gemm, MatMul or BatchNormalization with constant weights (and bias), its result
// used by nothing else.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

// y = scale * x + shift, per channel.
struct Affine {
  std::vector<double> scale;
  std::vector<double> shift;
  bool scales = false;
  bool shifts = false;
};

// No layer has more; any extent can be the channels of a Mul or Add, and what is computed here is a few doubles per
// channel.
constexpr int64_t kMaxChannels = int64_t{1} << 24;

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph) {}

  Result<bool> visit(NodeId id) {
    const std::string op = node(id).op;
    if (op != "BatchNormalization" && op != "Mul" && op != "Add" && op != "Sub" && op != "Div") return false;
    if (!is_floating(graph_.type(node(id).outputs[0]).dtype)) return false;
    ValueId input = node(id).inputs[0];
    if ((op == "Mul" || op == "Add") && graph_.constant(input) != nullptr) input = node(id).inputs[1];
    if (graph_.constant(input) != nullptr || graph_.type(input).rank() < 2) return false;
    const auto channels = channel_count(input, id);
    if (!channels) return false;
    const auto affine = affine_of(id, input, *channels);
    if (!affine) return false;
    return fold_into_producer(id, input, *affine);
  }

  // A scale of an image that is given to the graph goes into the weights of the Conv behind it: zeros that are padded
  // stay zeros. Elsewhere the op before takes it, as above or as its epilogue.
  Result<bool> fold_into_conv(NodeId id) {
    if (node(id).op != "Mul") return false;
    const bool first = graph_.constant(node(id).inputs[0]) != nullptr;
    const ValueId input = node(id).inputs[first ? 1 : 0], factors = node(id).inputs[first ? 0 : 1];
    const ValueId product = node(id).outputs[0];
    if (graph_.constant(input) != nullptr || !comes_from_input(input) || !used_once(graph_, product)) return false;
    const NodeId conv = graph_.users(product)[0];
    if (node(conv).op != "Conv" || node(conv).inputs[0] != product) return false;
    const size_t axis =
        node(conv).attributes.s_or("layout", "NCHW") == "NHWC" ? graph_.type(input).shape.size() - 1 : 1;
    const auto channels = graph_.type(input).shape[axis].constant();
    const Constant* weight = graph_.constant(node(conv).inputs[1]);
    if (!channels || *channels < 1 || *channels > kMaxChannels || weight == nullptr || !is_floating(weight->dtype()) ||
        !(graph_.type(product).shape == graph_.type(input).shape))
      return false;
    const auto scale = per_channel(graph_, factors, static_cast<size_t>(graph_.type(input).rank()), axis,
                                   static_cast<size_t>(*channels));
    if (!scale) return false;
    const int64_t groups = node(conv).attributes.i("group");
    const ValueId scaled = graph_.add_constant(scaled_by_input(*weight, *scale, groups),
                                               graph_.value(node(conv).inputs[1]).name + ".scaled");
    const OriginSet origins = node(id).origins;
    graph_.set_input(conv, 1, scaled);
    merge_origins(&graph_.node(conv).origins, origins);
    AIPU_RETURN_IF_ERROR(replace_node(graph_, id, input));
    return true;
  }

  // A BatchNormalization with nothing before it to fold into; run when what is after it has been folded into it.
  Result<bool> split(NodeId id) {
    if (node(id).op != "BatchNormalization") return false;
    const ValueId input = node(id).inputs[0];
    if (graph_.constant(input) != nullptr || graph_.type(input).rank() < 2) return false;
    const auto channels = channel_count(input, id);
    const auto affine = channels ? affine_of(id, input, *channels) : std::nullopt;
    if (!affine) return false;
    AIPU_RETURN_IF_ERROR(split(id, input, *affine));
    return true;
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }

  bool last_axis(ValueId input) const {
    const NodeId producer = graph_.value(input).producer;
    if (!producer.valid()) return false;
    const std::string& op = node(producer).op;
    return op == "Gemm" || op == "MatMul";
  }

  // The layout of recurrent nodes is another thing.
  bool is_channels_last(const Node& n) const {
    const OpDef* def = graph_.find_op(n.op);
    return def != nullptr && (def->traits & kSpatial) != 0 && n.attributes.s_or("layout", "NCHW") == "NHWC";
  }

  size_t channel_axis(ValueId input, NodeId id) const {
    const auto rank = static_cast<size_t>(graph_.type(input).rank());
    const NodeId producer = graph_.value(input).producer;
    for (const NodeId which : {id, producer}) {
      if (which.valid() && is_channels_last(node(which))) return rank - 1;
    }
    if (node(id).op != "BatchNormalization" && last_axis(input)) return rank - 1;
    return 1;
  }

  std::optional<size_t> channel_count(ValueId input, NodeId id) const {
    const auto count = graph_.type(input).shape[channel_axis(input, id)].constant();
    return count && *count > 0 && *count <= kMaxChannels ? std::optional<size_t>(static_cast<size_t>(*count))
                                                         : std::nullopt;
  }

  std::optional<std::vector<double>> vector(ValueId value, size_t channels) const {
    const Constant* constant = graph_.constant(value);
    if (constant == nullptr || static_cast<size_t>(constant->element_count()) != channels) return std::nullopt;
    return constant->to_doubles();
  }

  std::optional<Affine> affine_of(NodeId id, ValueId input, size_t channels) const {
    const Node& n = node(id);
    Affine result{std::vector<double>(channels, 1.0), std::vector<double>(channels, 0.0), false, false};
    if (n.op == "BatchNormalization") {
      const auto scale = vector(n.inputs[1], channels);
      const auto bias = vector(n.inputs[2], channels);
      const auto mean = vector(n.inputs[3], channels);
      const auto variance = vector(n.inputs[4], channels);
      if (!scale || !bias || !mean || !variance) return std::nullopt;
      const double epsilon = n.attributes.f("epsilon");
      for (size_t c = 0; c < channels; ++c) {
        result.scale[c] = (*scale)[c] / std::sqrt((*variance)[c] + epsilon);
        result.shift[c] = (*bias)[c] - (*mean)[c] * result.scale[c];
      }
      result.scales = result.shifts = true;
      return result;
    }
    // The other operand must not widen the result.
    if (!(graph_.type(n.outputs[0]).shape == graph_.type(input).shape)) return std::nullopt;
    const ValueId other = n.inputs[0] == input ? n.inputs[1] : n.inputs[0];
    const auto elements =
        per_channel(graph_, other, static_cast<size_t>(graph_.type(input).rank()), channel_axis(input, id), channels);
    if (!elements) return std::nullopt;
    if (n.op == "Mul" || n.op == "Div") {
      result.scales = true;
      for (size_t c = 0; c < channels; ++c) result.scale[c] = n.op == "Mul" ? (*elements)[c] : 1.0 / (*elements)[c];
    } else {
      result.shifts = true;
      for (size_t c = 0; c < channels; ++c) result.shift[c] = n.op == "Add" ? (*elements)[c] : -(*elements)[c];
    }
    return result;
  }

  // Which element of the weight belongs to which output channel.
  struct Target {
    size_t bias_index = 2;
    size_t channel_axis = 0;  // of the weight
    int64_t groups = 1;       // ConvTranspose: channel = group * extent + index
    bool can_shift = true;
  };
  std::optional<Target> target_of(const Node& producer, ValueId input, NodeId id) const {
    if (producer.op == "Conv") return Target{2, 0, 1, true};
    // Scale and B stand for weight and bias; the statistics are not touched.
    if (producer.op == "BatchNormalization") return Target{2, 0, 1, true};
    if (producer.op == "ConvTranspose") return Target{2, 1, producer.attributes.i("group"), true};
    const auto rank = static_cast<size_t>(graph_.type(input).rank());
    if (channel_axis(input, id) != rank - 1) return std::nullopt;
    if (producer.op == "Gemm") {
      // alpha scales the product only, so it stays as it is; beta multiplies the bias that is folded.
      if (producer.attributes.f("beta") != 1.0) return std::nullopt;
      return Target{2, producer.attributes.i("transB") != 0 ? size_t{0} : size_t{1}, 1, true};
    }
    if (producer.op == "MatMul") {
      const int weight_rank = graph_.type(producer.inputs[1]).rank();
      if (weight_rank != 2) return std::nullopt;
      return Target{SIZE_MAX, 1, 1, false};
    }
    return std::nullopt;
  }

  Result<bool> fold_into_producer(NodeId id, ValueId input, const Affine& affine) {
    const NodeId producer = graph_.value(input).producer;
    if (!producer.valid() || !used_once(graph_, input)) return false;
    const Node& p = node(producer);
    const auto target = target_of(p, input, id);
    if (!target || (affine.shifts && !target->can_shift)) return false;
    const Constant* weight = graph_.constant(p.inputs[1]);
    const bool has_bias = target->bias_index < p.inputs.size() && p.inputs[target->bias_index].valid();
    const size_t channels = affine.scale.size();
    if (weight == nullptr || !is_floating(weight->dtype())) return false;
    std::vector<double> bias(channels, 0.0);
    if (has_bias) {
      const Constant* constant = graph_.constant(p.inputs[target->bias_index]);
      if (constant == nullptr) return false;
      bias = constant->to_doubles();
      if (bias.size() == 1) bias.assign(channels, bias[0]);
      // A bias of Gemm may also be a matrix.
      if (bias.size() != channels || (constant->shape().size() > 1 &&
                                      constant->shape().back() != static_cast<int64_t>(channels) && channels != 1)) {
        return false;
      }
    }
    const DType dtype = weight->dtype();
    ValueId new_weight = p.inputs[1];
    if (affine.scales) {
      const auto scaled = scaled_weight(*weight, affine, *target);
      if (scaled == nullptr) return false;
      new_weight = graph_.add_constant(scaled, graph_.value(p.inputs[1]).name + ".scaled");
    }
    ValueId new_bias;
    if (target->bias_index != SIZE_MAX && (has_bias || affine.shifts)) {
      for (size_t c = 0; c < channels; ++c) bias[c] = bias[c] * affine.scale[c] + affine.shift[c];
      // A bias of zeros costs as much as any other.
      if (has_bias || std::any_of(bias.begin(), bias.end(), [](double element) { return element != 0; })) {
        new_bias = graph_.add_constant(float_constant(dtype, {static_cast<int64_t>(channels)}, bias),
                                       graph_.value(input).name + ".bias");
      }
    }
    const OriginSet origins = node(id).origins;
    Node& changed = graph_.node(producer);
    changed.inputs[1] = new_weight;
    if (new_bias.valid()) {
      changed.inputs.resize(std::max(changed.inputs.size(), target->bias_index + 1));
      changed.inputs[target->bias_index] = new_bias;
    }
    merge_origins(&changed.origins, origins);
    AIPU_RETURN_IF_ERROR(replace_node(graph_, id, input));
    return true;
  }

  static ConstantPtr scaled_weight(const Constant& weight, const Affine& affine, const Target& target) {
    const auto& shape = weight.shape();
    int64_t inner = 1;
    for (size_t k = target.channel_axis + 1; k < shape.size(); ++k) inner *= shape[k];
    const int64_t extent = shape[target.channel_axis];
    const int64_t channels = static_cast<int64_t>(affine.scale.size());
    if (extent * target.groups != channels) return nullptr;
    const int64_t outer = weight.element_count() / std::max<int64_t>(1, extent * inner);
    const int64_t per_group = target.groups > 1 ? shape[0] / target.groups : outer;
    // Calls scale(first element of a run, its factor) for all runs of `inner` elements that belong to one channel.
    const auto for_each_run = [&](const auto& scale) {
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t c = 0; c < extent; ++c) {
          scale(static_cast<size_t>((o * extent + c) * inner),
                affine.scale[static_cast<size_t>(c + o / per_group * extent)]);
        }
      }
    };
    if (weight.dtype() != DType::kF32) {
      std::vector<double> elements = weight.to_doubles();
      for_each_run([&](size_t first, double factor) {
        for (size_t k = first; k < first + static_cast<size_t>(inner); ++k) elements[k] *= factor;
      });
      return float_constant(weight.dtype(), shape, elements);
    }
    // The bulk of many models' weights goes this way: no memory but the result's, and that not cleared.
    const std::byte* from = weight.bytes().data();
    const auto to = std::make_shared_for_overwrite<std::byte[]>(weight.byte_count());
    for_each_run([&](size_t first, double factor) {
      for (size_t at = first * sizeof(float); at < (first + static_cast<size_t>(inner)) * sizeof(float);
           at += sizeof(float)) {
        float element;
        std::memcpy(&element, from + at, sizeof(float));
        element = static_cast<float>(element * factor);
        std::memcpy(to.get() + at, &element, sizeof(float));
      }
    });
    return Constant::borrow(DType::kF32, shape, {to.get(), weight.byte_count()}, to);
  }

  // Through ops of one operand and shifts by a constant.
  bool comes_from_input(ValueId value) const {
    for (;;) {
      const NodeId producer = graph_.value(value).producer;
      if (!producer.valid()) return graph_.constant(value) == nullptr;
      const std::string& op = node(producer).op;
      const bool shifts = (op == "Sub" || op == "Add") && graph_.constant(node(producer).inputs[1]) != nullptr;
      if (!shifts && op != "Cast" && op != "Transpose" && op != "Resize") return false;
      value = node(producer).inputs[0];
    }
  }

  // Weights [M, C / groups, ...] with a factor for each of the C channels that they are multiplied with.
  static ConstantPtr scaled_by_input(const Constant& weight, const std::vector<double>& scale, int64_t groups) {
    std::vector<double> elements = weight.to_doubles();
    const int64_t outputs = weight.shape()[0], inputs = weight.shape()[1];
    const int64_t taps = weight.element_count() / std::max<int64_t>(1, outputs * inputs);
    const int64_t per_group = std::max<int64_t>(1, outputs / groups);
    for (int64_t k = 0; k < outputs * inputs; ++k) {
      const auto channel = static_cast<size_t>(k / inputs / per_group * inputs + k % inputs);
      for (int64_t tap = 0; tap < taps; ++tap) elements[static_cast<size_t>(k * taps + tap)] *= scale[channel];
    }
    return float_constant(weight.dtype(), weight.shape(), elements);
  }

  Status split(NodeId id, ValueId input, const Affine& affine) {
    const TensorType type = graph_.type(input);
    const size_t axis = channel_axis(input, id);
    std::vector<int64_t> shape(static_cast<size_t>(type.rank()) - axis, 1);
    shape[0] = static_cast<int64_t>(affine.scale.size());
    const OriginSet origins = node(id).origins;
    const std::string name = graph_.value(node(id).outputs[0]).name;
    const ValueId scale = graph_.add_constant(float_constant(type.dtype, shape, affine.scale), name + ".scale");
    const ValueId shift = graph_.add_constant(float_constant(type.dtype, shape, affine.shift), name + ".shift");
    AIPU_ASSIGN_OR_RETURN(const ValueId scaled, graph_.emit("Mul", {}, {input, scale}, origins, name + ".scaled"));
    AIPU_ASSIGN_OR_RETURN(const ValueId shifted, graph_.emit("Add", {}, {scaled, shift}, origins, name + ".shifted"));
    return replace_node(graph_, id, shifted);
  }

  Graph& graph_;
};

}  // namespace

Result<int> fold_batch_normalization(Graph& graph, PassContext&) {
  int count = 0;
  Folder folder(graph);
  for (const bool splitting : {false, true}) {
    for (const NodeId id : graph.topological_order()) {
      if (std::as_const(graph).node(id).erased) continue;
      const OriginSet origins = std::as_const(graph).node(id).origins;
      auto changed = splitting ? folder.split(id) : folder.visit(id);
      if (!splitting && changed.ok() && !*changed) changed = folder.fold_into_conv(id);
      if (!changed.ok()) return std::move(changed).status().context(str_cat("node ", origins_text(origins)));
      count += *changed ? 1 : 0;
    }
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
