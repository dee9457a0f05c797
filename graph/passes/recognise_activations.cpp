// The activations of recognise_operators. An activation written out is a function t of a polynomial in x, and then x
// times (factor * t + offset), with the factors and terms in any order: the polynomial is worked out behind t, the rest
// is followed from t on.
#include <array>
#include <cmath>
#include <limits>

#include "graph/passes/recognise_operators.h"

namespace aipu::graph {
namespace {

constexpr int kMaxDepth = 6;           // of the arithmetic in front of t
constexpr int kMaxSteps = 5;           // behind it
constexpr size_t kMaxCandidates = 16;  // values that could be x

// Coefficient k belongs to x^k.
using Polynomial = std::array<double, 4>;

bool is_number(const Polynomial& p) { return p[1] == 0 && p[2] == 0 && p[3] == 0; }
bool is_multiple_of_x(const Polynomial& p) { return p[0] == 0 && p[1] != 0 && p[2] == 0 && p[3] == 0; }

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial result{};
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      if (a[i] == 0 || b[k] == 0) continue;
      if (i + k >= result.size()) return std::nullopt;
      result[i + k] += a[i] * b[k];
    }
  }
  return result;
}

// What has become of t: factor * t + offset, times x or not.
struct Form {
  bool times_x = false;
  double factor = 1;
  double offset = 0;
};

class Activations {
 public:
  Activations(const Graph& graph, NodeId anchor) : graph_(graph), anchor_(anchor) {}

  std::optional<Recognised> find() {
    const std::string& op = node(anchor_).op;
    if (op == "Erf") return of_argument(&Activations::erf);
    if (op == "Tanh") {
      const NodeId softplus = producer_with_op(graph_, node(anchor_).inputs[0], "Softplus");
      return softplus.valid() ? mish(softplus) : of_argument(&Activations::tanh);
    }
    if (op == "Sigmoid") return of_argument(&Activations::sigmoid);
    if (op == "HardSigmoid") return hard_sigmoid();
    if (op == "Clip" || op == "Min" || op == "Max") return clip();
    return std::nullopt;
  }

 private:
  using Rule = std::optional<Recognised> (Activations::*)(ValueId x, const Polynomial& argument, const Match& match);

  const Node& node(NodeId id) const { return graph_.node(id); }
  const TensorType& type(ValueId id) const { return graph_.type(id); }
  ValueId output(NodeId id) const { return node(id).outputs[0]; }
  bool about(double value, double expected) const { return is_about(value, expected, type(output(anchor_)).dtype); }

  static bool is_arithmetic(const std::string& op) {
    return op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Pow" || op == "Neg";
  }

  // Everything that arithmetic in front of `value` starts from or passes, nearest first.
  std::vector<ValueId> candidates(ValueId value) const {
    std::vector<ValueId> found = {value};
    for (size_t k = 0; k < found.size() && found.size() < kMaxCandidates; ++k) {
      const NodeId producer = graph_.value(found[k]).producer;
      if (!producer.valid() || !is_arithmetic(node(producer).op)) continue;
      for (const ValueId input : node(producer).inputs) {
        if (graph_.constant(input) == nullptr && type(input) == type(value) && found.size() < kMaxCandidates)
          found.push_back(input);
      }
    }
    return found;
  }

  // `value` as a polynomial in x; the nodes on the way join the match.
  std::optional<Polynomial> polynomial(ValueId value, ValueId x, Match* match, int depth = kMaxDepth) const {
    if (value == x) return Polynomial{0, 1, 0, 0};
    if (const auto number = splat_of(graph_, value)) return Polynomial{*number, 0, 0, 0};
    const NodeId producer = graph_.value(value).producer;
    if (depth == 0 || !producer.valid() || !is_arithmetic(node(producer).op) || !(type(value) == type(x)))
      return std::nullopt;
    const Node& n = node(producer);
    auto left = polynomial(n.inputs[0], x, match, depth - 1);
    if (!left) return std::nullopt;
    match->add(producer);
    if (n.op == "Neg") return product(*left, {-1, 0, 0, 0});
    const auto right = polynomial(n.inputs[1], x, match, depth - 1);
    if (!right) return std::nullopt;
    if (n.op == "Mul") return product(*left, *right);
    if (n.op == "Add" || n.op == "Sub") {
      for (size_t k = 0; k < left->size(); ++k) (*left)[k] += n.op == "Add" ? (*right)[k] : -(*right)[k];
      return left;
    }
    if (!is_number(*right)) return std::nullopt;
    const double number = (*right)[0];
    if (n.op == "Div") return number != 0 ? product(*left, {1 / number, 0, 0, 0}) : std::nullopt;
    if (number != 2 && number != 3) return std::nullopt;
    const auto square = product(*left, *left);
    return number == 2 || !square ? square : product(*square, *left);
  }

  // Follows `value` from user to user, as long as it has one, until it has the form wanted; the node where it has.
  std::optional<NodeId> follow(ValueId value, ValueId x, const Form& wanted, Match* match) const {
    Form form;
    for (int step = 0; step < kMaxSteps && used_once(graph_, value); ++step) {
      const NodeId user = graph_.users(value)[0];
      const Node& n = node(user);
      if (!is_arithmetic(n.op) || n.inputs.size() != 2 || n.inputs[0] == n.inputs[1]) return std::nullopt;
      const bool is_left = n.inputs[0] == value;
      const auto other = polynomial(n.inputs[is_left ? 1 : 0], x, match);
      if (!other || !(type(output(user)) == type(x))) return std::nullopt;
      const bool number = is_number(*other);
      const double multiple = number ? (*other)[0] : (*other)[1];
      if (!number && !is_multiple_of_x(*other)) return std::nullopt;
      if (n.op == "Mul" && (number || !form.times_x)) {
        form = {form.times_x || !number, form.factor * multiple, form.offset * multiple};
      } else if (n.op == "Div" && is_left && number && multiple != 0) {
        form = {form.times_x, form.factor / multiple, form.offset / multiple};
      } else if (n.op == "Add" && number != form.times_x) {
        form.offset += multiple;
      } else if (n.op == "Sub" && number != form.times_x) {
        form = is_left ? Form{form.times_x, form.factor, form.offset - multiple}
                       : Form{form.times_x, -form.factor, multiple - form.offset};
      } else {
        return std::nullopt;
      }
      match->add(user);
      if (form.times_x == wanted.times_x && about(form.factor, wanted.factor) && about(form.offset, wanted.offset))
        return user;
      value = output(user);
    }
    return std::nullopt;
  }

  std::optional<Recognised> recognised(std::string op, Attributes attributes, ValueId x, const Match& match,
                                       NodeId last) const {
    if (!match.is_closed(graph_, last) || !(type(output(last)) == type(x))) return std::nullopt;
    return Recognised{std::move(op), std::move(attributes), {x}, match, last};
  }

  // x * (factor * t + offset) with t the anchor's result.
  std::optional<Recognised> gate(std::string op, Attributes attributes, ValueId x, Match match, double factor,
                                 double offset) const {
    const auto last = follow(output(anchor_), x, {true, factor, offset}, &match);
    return last ? recognised(std::move(op), std::move(attributes), x, match, *last) : std::nullopt;
  }

  // The rule, for the first x that it holds for.
  std::optional<Recognised> of_argument(Rule rule) {
    const ValueId argument = node(anchor_).inputs[0];
    for (const ValueId x : candidates(argument)) {
      Match match;
      match.add(anchor_);
      const auto p = polynomial(argument, x, &match);
      if (!p) continue;
      if (auto found = (this->*rule)(x, *p, match)) return found;
    }
    return std::nullopt;
  }

  std::optional<Recognised> erf(ValueId x, const Polynomial& p, const Match& match) {
    if (!is_multiple_of_x(p) || !about(p[1], M_SQRT1_2)) return std::nullopt;
    return gate("Gelu", {}, x, match, 0.5, 0.5);
  }

  // c * (x + 0.044715 * x^3)
  bool is_gelu_polynomial(const Polynomial& p, double c) const {
    return p[0] == 0 && p[2] == 0 && about(p[1], c) && about(p[3], c * 0.044715);
  }
  static Attributes tanh_approximation() {
    Attributes attributes;
    attributes.set("approximate", std::string("tanh"));
    return attributes;
  }

  std::optional<Recognised> tanh(ValueId x, const Polynomial& p, const Match& match) {
    if (!is_gelu_polynomial(p, std::sqrt(2 / M_PI))) return std::nullopt;
    return gate("Gelu", tanh_approximation(), x, match, 0.5, 0.5);
  }

  std::optional<Recognised> sigmoid(ValueId x, const Polynomial& p, const Match& match) {
    // (1 + tanh(u)) / 2 is the sigmoid of 2 * u.
    if (is_gelu_polynomial(p, 2 * std::sqrt(2 / M_PI))) return gate("Gelu", tanh_approximation(), x, match, 1, 0);
    if (!is_multiple_of_x(p)) return std::nullopt;
    Attributes attributes;
    attributes.set("alpha", p[1]);
    return gate("Swish", std::move(attributes), x, match, 1, 0);
  }

  std::optional<Recognised> mish(NodeId softplus) const {
    Match match;
    match.add(anchor_);
    match.add(softplus);
    return gate("Mish", {}, node(softplus).inputs[0], match, 1, 0);
  }

  bool is_hard_swish_slope(double alpha, double beta) const { return about(alpha, 1.0 / 6) && about(beta, 0.5); }

  std::optional<Recognised> hard_sigmoid() const {
    const Node& n = node(anchor_);
    if (!is_hard_swish_slope(n.attributes.f("alpha"), n.attributes.f("beta"))) return std::nullopt;
    Match match;
    match.add(anchor_);
    return gate("HardSwish", {}, n.inputs[0], match, 1, 0);
  }

  // One bound of Clip, Min, Max and Relu off `value`; false if it is none of them.
  struct Bounds {
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
  };
  bool take_bound(ValueId* value, Bounds* bounds, Match* match) const {
    const NodeId producer = graph_.value(*value).producer;
    if (!producer.valid()) return false;
    const Node& n = node(producer);
    ValueId inner = n.inputs.empty() ? ValueId() : n.inputs[0];
    std::optional<double> low, high;
    if (n.op == "Relu") {
      low = 0;
    } else if (n.op == "Clip") {
      const auto bound = [&](size_t k) {
        return k < n.inputs.size() && n.inputs[k].valid() ? splat_of(graph_, n.inputs[k]) : std::nullopt;
      };
      for (const size_t k : {size_t{1}, size_t{2}}) {
        if (k < n.inputs.size() && n.inputs[k].valid() && !bound(k)) return false;
      }
      low = bound(1);
      high = bound(2);
    } else if ((n.op == "Min" || n.op == "Max") && n.inputs.size() == 2) {
      if (graph_.constant(inner) != nullptr) inner = n.inputs[1];
      const auto bound = splat_of(graph_, inner == n.inputs[0] ? n.inputs[1] : n.inputs[0]);
      if (!bound) return false;
      (n.op == "Min" ? high : low) = bound;
    }
    if (!low && !high) return false;
    bounds->low = std::max(bounds->low, low.value_or(bounds->low));
    bounds->high = std::min(bounds->high, high.value_or(bounds->high));
    match->add(producer);
    *value = inner;
    return true;
  }

  // Clip(a * x + b, 0, h) / h is a HardSigmoid with slope a / h.
  std::optional<Recognised> clip() const {
    Match bounded;
    Bounds bounds;
    ValueId inner = output(anchor_);
    for (int k = 0; k < 2 && (bounds.low != 0 || std::isinf(bounds.high)); ++k) {
      if (!take_bound(&inner, &bounds, &bounded)) return std::nullopt;
    }
    if (bounds.low != 0 || std::isinf(bounds.high) || bounds.high <= 0) return std::nullopt;
    const double height = bounds.high;
    for (const ValueId x : candidates(inner)) {
      Match match = bounded;
      const auto p = polynomial(inner, x, &match);
      if (!p || (*p)[2] != 0 || (*p)[3] != 0 || !is_hard_swish_slope((*p)[1] / height, (*p)[0] / height)) continue;
      if (auto found = gate("HardSwish", {}, x, match, 1 / height, 0)) return found;
      const auto last =
          height == 1 ? std::optional(anchor_) : follow(output(anchor_), x, {false, 1 / height, 0}, &match);
      if (!last) continue;
      Attributes attributes;
      attributes.set("alpha", 1.0 / 6);
      attributes.set("beta", 0.5);
      if (auto found = recognised("HardSigmoid", std::move(attributes), x, match, *last)) return found;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const NodeId anchor_;
};

}  // namespace

std::optional<Recognised> recognise_activation(const Graph& graph, NodeId anchor) {
  return Activations(graph, anchor).find();
}

}  // namespace aipu::graph
