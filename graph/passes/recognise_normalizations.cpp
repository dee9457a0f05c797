// The normalisations of recognise_operators, looked at from the division (or the multiplication by a reciprocal)
// backwards to x and then forwards to scale and bias. Exporters differ in what they square with, in who computes the
// centred value a second time, and in the Casts with which half precision is widened for the statistics; the new node
// computes its statistics in float32 anyway.
#include <algorithm>

#include "graph/passes/recognise_operators.h"

namespace aipu::graph {
namespace {

// mean(operand^2) + epsilon over the axes from `axis` on; `operand` is what is squared.
struct Square {
  ValueId operand;
  size_t axis = 0;
  double epsilon = 0;
};

class Normalizations {
 public:
  Normalizations(Graph& graph, NodeId root) : graph_(graph), root_(root) {}

  Result<std::optional<Recognised>> find() {
    const std::string& op = node(root_).op;
    const std::vector<ValueId> inputs = node(root_).inputs;
    if (op == "Div") {
      if (divided(inputs[0], inputs[1], false)) return finish();
    } else if (op == "Mul") {
      for (const size_t k : {size_t{0}, size_t{1}}) {
        if (divided(inputs[k], inputs[1 - k], true)) return finish();
      }
    } else if (op == "InstanceNormalization") {
      return grouped();
    } else if (op == "BatchNormalization") {
      if (trained()) return finish();
    } else if (op == "Add") {
      for (const size_t k : {size_t{0}, size_t{1}}) {
        if (shifted(inputs[k], inputs[1 - k])) return finish();
      }
    }
    return std::optional<Recognised>();
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  const TensorType& type(ValueId id) const { return graph_.type(id); }
  ValueId output(NodeId id) const { return node(id).outputs[0]; }

  // The producer of the value, if it is that op; it joins the match.
  NodeId take(ValueId value, std::string_view op) {
    const NodeId producer = producer_with_op(graph_, value, op);
    if (producer.valid()) match_.add(producer);
    return producer;
  }

  // What a Cast between floating types converts.
  ValueId before_cast(ValueId value) const {
    const NodeId cast = producer_with_op(graph_, value, "Cast");
    return cast.valid() && is_floating(type(value).dtype) && is_floating(type(node(cast).inputs[0]).dtype)
               ? node(cast).inputs[0]
               : ValueId();
  }
  ValueId without_cast(ValueId value) {
    const ValueId before = before_cast(value);
    if (!before.valid()) return value;
    match_.add(graph_.value(value).producer);
    return before;
  }
  // The same number, perhaps in another precision.
  bool same(ValueId a, ValueId b) {
    if (a == b) return true;
    const ValueId narrow_a = before_cast(a), narrow_b = before_cast(b);
    if (narrow_a == b || (narrow_a.valid() && narrow_a == narrow_b)) match_.add(graph_.value(a).producer);
    if (narrow_b == a || (narrow_b.valid() && narrow_b == narrow_a)) match_.add(graph_.value(b).producer);
    return narrow_a == b || narrow_b == a || (narrow_a.valid() && narrow_a == narrow_b);
  }

  // The other operand of a node of two, if one of them is that number everywhere.
  std::optional<ValueId> beside_number(NodeId id, double number) const {
    const Node& n = node(id);
    for (const size_t k : {size_t{0}, size_t{1}}) {
      if (splat_of(graph_, n.inputs[k]) == number) return n.inputs[1 - k];
    }
    return std::nullopt;
  }

  // ReduceMean over the last axes, which stay as extents of 1: the first of them.
  std::optional<size_t> mean_axis(NodeId mean) const {
    const Node& n = node(mean);
    if (n.attributes.i("keepdims") == 0 || !n.attributes.has("axes") || (n.inputs.size() > 1 && n.inputs[1].valid()))
      return std::nullopt;
    std::vector<int64_t> axes = n.attributes.ints("axes");
    std::sort(axes.begin(), axes.end());
    const int rank = type(n.inputs[0]).rank();
    if (axes.empty() || axes.back() != rank - 1 || axes.front() != rank - static_cast<int64_t>(axes.size()))
      return std::nullopt;
    return static_cast<size_t>(axes.front());
  }

  bool is_mean_of(ValueId value, ValueId x, size_t axis) {
    if (!producer_with_op(graph_, value, "ReduceMean").valid()) value = without_cast(value);
    const NodeId mean = take(value, "ReduceMean");
    return mean.valid() && mean_axis(mean) == axis && same(node(mean).inputs[0], x);
  }

  // The value under the root of sqrt(v), or of 1 / sqrt(v).
  std::optional<ValueId> under_root(ValueId value, bool inverse) {
    value = without_cast(value);
    if (const NodeId power = take(value, "Pow"); power.valid()) {
      if (splat_of(graph_, node(power).inputs[1]) != (inverse ? -0.5 : 0.5)) return std::nullopt;
      return node(power).inputs[0];
    }
    if (inverse) {
      NodeId reciprocal = take(value, "Reciprocal");
      if (reciprocal.valid()) {
        value = node(reciprocal).inputs[0];
      } else {
        reciprocal = take(value, "Div");
        if (!reciprocal.valid() || splat_of(graph_, node(reciprocal).inputs[0]) != 1.0) return std::nullopt;
        value = node(reciprocal).inputs[1];
      }
      value = without_cast(value);
    }
    const NodeId root = take(value, "Sqrt");
    return root.valid() ? std::optional(node(root).inputs[0]) : std::nullopt;
  }

  std::optional<Square> mean_square(ValueId deviation, bool inverse) {
    const auto variance = under_root(deviation, inverse);
    if (!variance) return std::nullopt;
    const NodeId sum = take(without_cast(*variance), "Add");
    if (!sum.valid()) return std::nullopt;
    const Node& n = node(sum);
    const size_t at = graph_.constant(n.inputs[1]) != nullptr ? 1 : 0;
    const auto epsilon = splat_of(graph_, n.inputs[at]);
    if (!epsilon || !(*epsilon > 0) || !(type(output(sum)) == type(n.inputs[1 - at]))) return std::nullopt;
    const NodeId mean = take(without_cast(n.inputs[1 - at]), "ReduceMean");
    const auto axis = mean.valid() ? mean_axis(mean) : std::nullopt;
    if (!axis) return std::nullopt;
    const ValueId square = without_cast(node(mean).inputs[0]);
    if (const NodeId power = take(square, "Pow"); power.valid()) {
      if (splat_of(graph_, node(power).inputs[1]) != 2.0) return std::nullopt;
      return Square{node(power).inputs[0], *axis, *epsilon};
    }
    const NodeId product = take(square, "Mul");
    if (!product.valid() || node(product).inputs[0] != node(product).inputs[1]) return std::nullopt;
    return Square{node(product).inputs[0], *axis, *epsilon};
  }

  // Whether the value is x - mean(x), or the reverse of it where only its square matters.
  bool is_centred(ValueId value, ValueId x, size_t axis, bool either_sign) {
    if (!producer_with_op(graph_, value, "Sub").valid()) value = without_cast(value);
    const NodeId difference = take(value, "Sub");
    if (!difference.valid()) return false;
    const ValueId left = node(difference).inputs[0], right = node(difference).inputs[1];
    if (same(left, x) && is_mean_of(right, x, axis)) return true;
    return either_sign && same(right, x) && is_mean_of(left, x, axis);
  }

  // numerator / sqrt(mean(square) + epsilon), or times the reciprocal of that.
  bool divided(ValueId numerator, ValueId deviation, bool inverse) {
    for (const bool centre : {true, false}) {
      match_ = {};
      match_.add(root_);
      const auto square = mean_square(deviation, inverse);
      if (!square) return false;
      found_ = {};
      found_.axis = square->axis;
      found_.epsilon = square->epsilon;
      found_.centre = centre;
      if (centre) {
        const ValueId centred = without_cast(numerator);
        const NodeId difference = producer_with_op(graph_, centred, "Sub");
        if (!difference.valid()) continue;
        found_.x = node(difference).inputs[0];
        if (is_centred(centred, found_.x, square->axis, false) &&
            (same(square->operand, centred) || is_centred(square->operand, found_.x, square->axis, true)) &&
            is_whole()) {
          return true;
        }
      } else {
        found_.x = numerator;
        if (same(square->operand, numerator) && is_whole()) return true;
      }
    }
    return false;
  }

  // x * m + (bias - mean(x) * m), where m is scale / sqrt(variance + epsilon); TensorFlow's way of writing it.
  bool shifted(ValueId product, ValueId rest) {
    const NodeId scaling = producer_with_op(graph_, product, "Mul"), difference = producer_with_op(graph_, rest, "Sub");
    if (!scaling.valid() || !difference.valid()) return false;
    const NodeId offset = producer_with_op(graph_, node(difference).inputs[1], "Mul");
    if (!offset.valid()) return false;
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const ValueId x = node(scaling).inputs[k], factor = node(scaling).inputs[1 - k];
      const std::vector<ValueId>& parts = node(offset).inputs;
      if (parts[0] != factor && parts[1] != factor) continue;
      const ValueId mean = parts[0] == factor ? parts[1] : parts[0];
      // The factor is 1 / deviation, perhaps times the scale.
      std::vector<std::pair<ValueId, ValueId>> choices = {{factor, ValueId()}};
      const NodeId scaled = producer_with_op(graph_, factor, "Mul");
      if (scaled.valid()) {
        const std::vector<ValueId>& operands = node(scaled).inputs;
        choices = {{operands[0], operands[1]}, {operands[1], operands[0]}};
      }
      for (const auto& [inverse, scale] : choices) {
        match_ = {};
        for (const NodeId id : {root_, scaling, difference, offset}) match_.add(id);
        if (scaled.valid()) match_.add(scaled);
        const auto square = mean_square(inverse, true);
        if (!square || !is_mean_of(mean, x, square->axis) || !is_centred(square->operand, x, square->axis, true))
          continue;
        found_ = {x, square->axis, square->epsilon, true, scale, node(difference).inputs[0]};
        if ((!scale.valid() || fits(scale)) && fits(found_.bias) && is_whole()) return true;
      }
    }
    return false;
  }

  // The result is x's shape and the pattern nobody else's business.
  bool is_whole() const { return type(output(root_)).shape == type(found_.x).shape && match_.is_closed(graph_, root_); }

  // Whether a scale or bias has the shape of what is normalised, but for extents of 1 in front.
  bool fits(ValueId parameter) const {
    const Shape& shape = type(parameter).shape;
    const Shape& x = type(found_.x).shape;
    const size_t count = x.size() - found_.axis;
    if (shape.size() < count) return false;
    const size_t lead = shape.size() - count;
    return std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(lead),
                       [](const Dim& d) { return d == Dim(1); }) &&
           std::equal(shape.begin() + static_cast<std::ptrdiff_t>(lead), shape.end(),
                      x.begin() + static_cast<std::ptrdiff_t>(found_.axis));
  }

  // The only user of the last node's result, if it is that op.
  NodeId next(std::string_view op) const {
    const ValueId result = output(last_);
    if (!used_once(graph_, result)) return {};
    const NodeId user = graph_.users(result)[0];
    return node(user).op == op ? user : NodeId();
  }
  // The other operand of the only user, if that is the op, and fits.
  ValueId next_parameter(std::string_view op) {
    const NodeId user = next(op);
    if (!user.valid() || !(type(output(user)).shape == type(found_.x).shape)) return {};
    const std::vector<ValueId>& inputs = node(user).inputs;
    const ValueId other = inputs[0] == output(last_) ? inputs[1] : inputs[0];
    if (other == output(last_) || !fits(other)) return {};
    match_.add(user);
    last_ = user;
    return other;
  }

  // Statistics in float32 of a narrower x, and the result narrow again: one node does that itself.
  void narrow() {
    const NodeId cast = next("Cast");
    if (!cast.valid()) return;
    const DType dtype = type(output(cast)).dtype;
    const ValueId before = before_cast(found_.x);
    const ValueId x = before.valid() && type(before).dtype == dtype ? before : found_.x;
    if (type(x).dtype != dtype) return;
    found_.x = x;
    match_.add(cast);
    last_ = cast;
  }

  Result<std::optional<Recognised>> finish() {
    last_ = root_;
    if (!found_.bias.valid()) {
      narrow();
      if (type(output(last_)).dtype != type(found_.x).dtype) return std::optional<Recognised>();
      if (!found_.scale.valid()) found_.scale = next_parameter("Mul");
      if (found_.centre) found_.bias = next_parameter("Add");
    }
    const TensorType x = type(found_.x);
    if (type(output(last_)).dtype != x.dtype) return std::optional<Recognised>();
    const Shape normalized(x.shape.begin() + static_cast<std::ptrdiff_t>(found_.axis), x.shape.end());
    Recognised result;
    result.op = found_.centre ? "LayerNormalization" : "RMSNormalization";
    result.last = last_;
    result.match = match_;
    result.inputs = {found_.x};
    const OriginSet origins = node(last_).origins;
    if (found_.scale.valid()) {
      AIPU_ASSIGN_OR_RETURN(const ValueId scale, reshaped(graph_, found_.scale, normalized, origins));
      result.inputs.push_back(scale);
    } else {
      result.inputs.push_back(one(x.dtype));
    }
    if (found_.bias.valid()) {
      AIPU_ASSIGN_OR_RETURN(const ValueId bias, reshaped(graph_, found_.bias, normalized, origins));
      result.inputs.push_back(bias);
    }
    result.attributes.set("axis", static_cast<int64_t>(found_.axis));
    result.attributes.set("epsilon", found_.epsilon);
    result.attributes.set("stash_type", x.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
    return std::optional<Recognised>(std::move(result));
  }

  bool is_everywhere(ValueId value, double number) const {
    const NodeId expand = producer_with_op(graph_, value, "Expand");
    return splat_of(graph_, expand.valid() ? node(expand).inputs[0] : value) == number;
  }

  // A reduction of all but axis 1 of four, through the Reshapes behind it; its operand.
  std::optional<ValueId> reduced_per_channel(ValueId value, std::string_view op) {
    for (const char* view : {"Reshape", "Squeeze"}) {
      if (const NodeId reshape = take(value, view); reshape.valid()) value = node(reshape).inputs[0];
    }
    const NodeId reduce = take(value, op);
    if (!reduce.valid() || !node(reduce).attributes.has("axes")) return std::nullopt;
    return node(reduce).attributes.ints("axes") == std::vector<int64_t>{0, 2, 3} ? std::optional(node(reduce).inputs[0])
                                                                                 : std::nullopt;
  }

  // Keras normalises the last axes by a BatchNormalization in training mode of x as [1, rows, extent, 1], which tf2onnx
  // spells with the statistics computed in front:
  //   Reshape ─ BatchNormalization(x, 1, 0, ReduceMean(x), ReduceSumSquare(x - ReduceMean(x)) / extent) ─ Reshape
  bool trained() {
    const Node& n = node(root_);
    const ValueId rows = n.inputs[0];
    const NodeId reshape = producer_with_op(graph_, rows, "Reshape");
    if (n.attributes.s("layout") != "NCHW" || !reshape.valid() || type(rows).rank() != 4) return false;
    const Shape& shape = type(rows).shape;
    const auto extent = shape[2].constant();
    if (shape[0] != Dim(1) || shape[3] != Dim(1) || !extent || !is_everywhere(n.inputs[1], 1) ||
        !is_everywhere(n.inputs[2], 0))
      return false;
    match_ = {};
    match_.add(root_);
    const NodeId quotient = take(n.inputs[4], "Div");
    if (!quotient.valid() || splat_of(graph_, node(quotient).inputs[1]) != static_cast<double>(*extent)) return false;
    const auto distance = reduced_per_channel(node(quotient).inputs[0], "ReduceSumSquare");
    const NodeId difference = distance ? take(*distance, "Sub") : NodeId();
    if (!difference.valid() || node(difference).inputs[0] != rows) return false;
    if (reduced_per_channel(node(difference).inputs[1], "ReduceMean") != rows) return false;
    if (reduced_per_channel(n.inputs[3], "ReduceMean") != rows) return false;
    // Back to where the rows came from.
    last_ = root_;
    const NodeId back = next("Reshape");
    const ValueId x = node(reshape).inputs[0];
    if (!back.valid() || !(type(output(back)) == type(x))) return false;
    match_.add(reshape);
    match_.add(back);
    Dim product = 1;
    size_t axis = type(x).shape.size();
    while (axis > 0 && product != shape[2]) product *= type(x).shape[--axis];
    if (product != shape[2] || axis == type(x).shape.size() || !match_.is_closed(graph_, back)) return false;
    root_ = back;
    found_ = {x, axis, n.attributes.f("epsilon"), true, ValueId(), ValueId()};
    return true;
  }

  // A scale that broadcasts, for what has none.
  ValueId one(DType dtype) { return graph_.add_constant(float_constant(dtype, {1}, {1.0}), "one"); }

  // Reshape ─ InstanceNormalization with scales of 1 and biases of 0 is how PyTorch writes the statistics of GroupNorm.
  // Its rows are contiguous, so there is no reason to bring the channels to the end. (In front of everything else there
  // is one: the convolutions.)
  std::optional<Recognised> grouped() {
    const Node& n = node(root_);
    const ValueId x = n.inputs[0];
    if (n.attributes.s("layout") != "NCHW" || !producer_with_op(graph_, x, "Reshape").valid()) return std::nullopt;
    if (splat_of(graph_, n.inputs[1]) != 1.0 || splat_of(graph_, n.inputs[2]) != 0.0) return std::nullopt;
    Recognised result;
    result.op = "LayerNormalization";
    result.attributes.set("axis", int64_t{2});
    result.attributes.set("epsilon", n.attributes.f("epsilon"));
    result.attributes.set("stash_type", type(x).dtype == DType::kF64 ? DType::kF64 : DType::kF32);
    result.inputs = {x, one(type(x).dtype)};
    result.match.add(root_);
    result.last = root_;
    return result;
  }

  struct Found {
    ValueId x;
    size_t axis = 0;
    double epsilon = 0;
    bool centre = false;
    ValueId scale, bias;
  };

  Graph& graph_;
  NodeId root_;
  NodeId last_;
  Match match_;
  Found found_;
};

}  // namespace

Result<std::optional<Recognised>> recognise_normalization(Graph& graph, NodeId root) {
  return Normalizations(graph, root).find();
}

}  // namespace aipu::graph
