#include "tests/graph/random_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>

#include "graph/ir/op_def.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMaxElements = 600;  // of a value, with the symbols' largest extents
constexpr int64_t kMaxExtent = 3;      // of a symbol

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  RandomGraph make() {
    result_.graph = std::make_unique<Graph>();
    graph_ = result_.graph.get();
    graph_->name = "random";
    result_.is_dyadic = chance(50);
    mixes_extents_ = chance(50);
    for (int k = 1 + below(3); k > 0; --k) add_input();
    const int steps = 2 + below(chance(15) ? 24 : 9);
    for (int k = 0; k < steps; ++k) step();
    add_outputs();
    return std::move(result_);
  }

 private:
  // ---- chance

  int below(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  bool chance(int percent) { return below(100) < percent; }
  int64_t between(int64_t low, int64_t high) { return low + below(static_cast<int>(high - low + 1)); }
  template <typename T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
  }
  std::string name_of(std::initializer_list<const char*> names) {
    return *(names.begin() + below(static_cast<int>(names.size())));
  }
  bool dyadic() const { return result_.is_dyadic; }

  // ---- numbers

  double number() {
    static const std::vector<double> exact = {-2, -1, -0.5, 0, 0.5, 1, 1, 2};
    return dyadic() ? one_of(exact) : static_cast<double>(between(-2000, 2000)) / 1000;
  }
  ConstantPtr numbers(DType dtype, const Ints& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    const bool same = chance(10);
    if (is_floating(dtype)) {
      std::vector<double> elements;
      for (int64_t k = 0; k < count; ++k) elements.push_back(same && k > 0 ? elements[0] : number());
      return float_constant(dtype, shape, elements);
    }
    const int64_t low = is_bool(dtype) || is_unsigned_int(dtype) ? 0 : -3;
    const size_t size = dtype_bytes(dtype);
    std::vector<std::byte> bytes;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t element = is_bool(dtype) ? below(2) : between(low, low + 6);
      const auto* raw = reinterpret_cast<const std::byte*>(&element);
      bytes.insert(bytes.end(), raw, raw + size);
    }
    return Constant::create(dtype, shape, std::move(bytes));
  }
  ValueId constant(DType dtype, const Ints& shape) { return graph_->add_constant(numbers(dtype, shape)); }
  ValueId floats(const Ints& shape, const std::vector<double>& elements) {
    return graph_->add_constant(float_constant(DType::kF32, shape, elements));
  }
  ValueId scalar(double value) { return floats(chance(70) ? Ints{} : Ints(1 + below(2), 1), {value}); }
  ValueId ints(Ints elements) { return graph_->add_constant(Constant::int64s(std::move(elements))); }

  // ---- values

  const TensorType& type(ValueId id) const { return graph_->type(id); }
  const Shape& shape(ValueId id) const { return graph_->type(id).shape; }
  int rank(ValueId id) const { return graph_->type(id).rank(); }
  int64_t extent(ValueId id, size_t axis) const { return largest(shape(id)[axis]); }
  static int64_t largest(const Dim& dim) {
    return dim.substitute([](const std::string&) { return std::optional<Dim>(kMaxExtent); }).constant_or(kMaxElements);
  }
  template <typename Fits>
  ValueId pick(const Fits& fits) {
    // The newest are taken more often: graphs become deep.
    for (int attempt = 0; attempt < 12; ++attempt) {
      const int count = static_cast<int>(pool_.size());
      const ValueId id = pool_[static_cast<size_t>(chance(60) ? std::max(0, count - 1 - below(4)) : below(count))];
      if (fits(id)) return id;
    }
    return {};
  }
  ValueId pick_float(int least_rank = 0) {
    return pick([&](ValueId id) { return type(id).dtype == DType::kF32 && rank(id) >= least_rank; });
  }
  ValueId pick_of(DType dtype) {
    return pick([&](ValueId id) { return type(id).dtype == dtype; });
  }
  ValueId pick_any(int least_rank = 0) {
    return pick([&](ValueId id) { return rank(id) >= least_rank; });
  }

  void add_input() {
    static const std::vector<DType> dtypes = {DType::kF32, DType::kF32, DType::kF32,  DType::kF32, DType::kF32,
                                              DType::kI64, DType::kI32, DType::kBool, DType::kF16};
    const DType dtype = pool_.empty() ? DType::kF32 : one_of(dtypes);
    Shape shape;
    Ints bound;
    if (!pool_.empty() && chance(40)) {
      shape = this->shape(pool_[0]);  // so that binary ops find partners
      bound = result_.inputs[0]->shape();
    } else {
      const Ints ranks = {0, 1, 2, 2, 3, 3, 4, 4, 4, 5};
      for (int64_t axis = one_of(ranks); axis > 0; --axis) {
        const int64_t value = chance(4) ? 0 : between(1, kMaxExtent);
        const char* symbol = shape.empty() ? "N" : "M";
        if (chance(shape.empty() ? 35 : 6) && (shape.empty() || pool_.empty())) {
          auto [known, fresh] = symbols_.emplace(symbol, mixes_extents_ ? between(2, kMaxExtent) : value);
          shape.push_back(Dim::symbol(symbol));
          bound.push_back(known->second);
        } else {
          shape.emplace_back(value);
          bound.push_back(value);
        }
      }
    }
    pool_.push_back(graph_->add_input(str_cat("x", pool_.size()), {dtype, shape}));
    result_.inputs.push_back(numbers(dtype, bound));
  }

  // ---- nodes

  using Set = std::vector<std::pair<std::string_view, AttributeValue>>;
  static Attributes attributes(const Set& set) {
    Attributes all;
    for (const auto& [name, value] : set) all.set(name, value);
    return all;
  }

  // The outputs; empty if the op refuses its operands, or makes too much of them.
  std::vector<ValueId> node(const std::string& op, std::vector<ValueId> inputs, const Set& set = {}, int outputs = 1,
                            std::vector<std::unique_ptr<Graph>> subgraphs = {}) {
    std::vector<std::string> names(static_cast<size_t>(outputs), "v");
    const Origin origin{str_cat("n", graph_->node_count()), op};
    auto added = graph_->add_node(op, attributes(set), std::move(inputs), names, {origin}, std::move(subgraphs));
    if (!added.ok()) return {};
    const std::vector<ValueId> made = std::as_const(*graph_).node(*added).outputs;
    for (const ValueId value : made) {
      if (rank(value) <= 6 && largest(element_count(shape(value))) <= kMaxElements) continue;
      graph_->erase_node(*added);
      return {};
    }
    nodes_.push_back(*added);
    return made;
  }
  // For patterns: one output that need not be seen from outside.
  ValueId op(const std::string& name, std::vector<ValueId> inputs, const Set& set = {}) {
    if (failed_) return {};
    const auto made = node(name, std::move(inputs), set);
    failed_ = made.empty();
    return failed_ ? ValueId() : made[0];
  }
  void keep(ValueId value) {
    if (!failed_ && value.valid()) pool_.push_back(value);
  }

  void step() {
    using Maker = void (Generator::*)();
    static const std::vector<std::pair<int, Maker>> makers = {{14, &Generator::unary},
                                                              {16, &Generator::binary},
                                                              {4, &Generator::variadic},
                                                              {6, &Generator::neutral},
                                                              {5, &Generator::comparison},
                                                              {4, &Generator::cast},
                                                              {16, &Generator::view},
                                                              {9, &Generator::transpose},
                                                              {5, &Generator::slice},
                                                              {6, &Generator::concat},
                                                              {5, &Generator::split},
                                                              {5, &Generator::pad_or_tile},
                                                              {5, &Generator::gather},
                                                              {12, &Generator::convolution},
                                                              {6, &Generator::pool},
                                                              {5, &Generator::per_channel},
                                                              {3, &Generator::resize},
                                                              {12, &Generator::product},
                                                              {8, &Generator::reduction},
                                                              {4, &Generator::along_axis},
                                                              {6, &Generator::normalization_written_out},
                                                              {5, &Generator::activation_written_out},
                                                              {4, &Generator::pixel_shuffle},
                                                              {4, &Generator::shape_arithmetic},
                                                              {6, &Generator::quantized},
                                                              {3, &Generator::attention},
                                                              {3, &Generator::condition},
                                                              {3, &Generator::loop},
                                                              {2, &Generator::scan},
                                                              {6, &Generator::repeated},
                                                              {2, &Generator::data_dependent},
                                                              {8, &Generator::one_logit}};
    static const int total = [] {
      int sum = 0;
      for (const auto& [weight, maker] : makers) sum += weight;
      return sum;
    }();
    int at = below(total);
    for (const auto& [weight, maker] : makers) {
      at -= weight;
      if (at >= 0) continue;
      failed_ = false;
      (this->*maker)();
      return;
    }
  }

  // ---- elementwise

  // Positive and away from 0, where what follows is steep.
  ValueId positive(ValueId x) { return op("Add", {op("Abs", {x}), scalar(0.5)}); }

  void unary() {
    if (chance(20)) return integer_unary();
    const ValueId x = pick_float();
    if (!x.valid()) return;
    if (dyadic()) {
      switch (below(4)) {
        case 0:
          return keep(op("Clip", {x, scalar(-1), scalar(1)}));
        case 1:
          return keep(op("LeakyRelu", {x}, {{"alpha", 0.5}}));
        default:
          return keep(
              op(name_of({"Abs", "Neg", "Relu", "Sign", "Floor", "Ceil", "Round", "Identity", "Dropout"}), {x}));
      }
    }
    if (chance(25)) return keep(op(name_of({"Sqrt", "Log", "Reciprocal"}), {positive(x)}));
    keep(op(name_of({"Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Softplus", "Erf", "Gelu", "HardSwish", "Swish", "Elu",
                     "Selu", "Mish", "Softsign", "HardSigmoid", "Identity", "Sin", "Exp"}),
            {op("Clip", {x, scalar(-4), scalar(4)})}));
  }
  void integer_unary() {
    const ValueId x = pick_any();
    if (!x.valid()) return;
    keep(op(is_bool(type(x).dtype) ? "Not" : name_of({"Abs", "Identity", "Neg", "Sign"}), {x}));
  }

  // Something that broadcasts against x.
  ValueId partner(ValueId x) {
    if (chance(45)) {
      const ValueId other = pick([&](ValueId id) { return type(id) == type(x); });
      if (other.valid()) return other;
    }
    if (mixes_extents_ && chance(40)) {
      const ValueId other = pick_of(type(x).dtype);
      if (other.valid()) return other;
    }
    Ints small;
    const int count = below(rank(x) + 1);
    for (int axis = rank(x) - count; axis < rank(x); ++axis) {
      const Dim& dim = shape(x)[static_cast<size_t>(axis)];
      small.push_back(dim.is_constant() && chance(70) ? *dim.constant() : 1);
    }
    if (chance(10)) small.insert(small.begin(), 1);
    return constant(type(x).dtype, small);
  }
  void binary() {
    const ValueId x = chance(80) ? pick_float() : pick_any();
    if (!x.valid()) return;
    ValueId y = partner(x);
    if (is_bool(type(x).dtype)) return keep(op(name_of({"And", "Or", "Xor"}), {x, y}));
    std::string name = name_of({"Add", "Sub", "Mul", "Max", "Min", "Add", "Mul"});
    if (name == "Mul" && dyadic() && is_floating(type(x).dtype) && ++products_ > 3) name = "Add";
    if (!dyadic() && is_floating(type(x).dtype) && chance(15)) {
      name = "Div";
      y = positive(y);
    }
    if (name == "Div") return keep(op(name, {x, y}));
    keep(chance(50) ? op(name, {x, y}) : op(name, {y, x}));
  }
  void variadic() {
    const ValueId x = pick_float();
    if (!x.valid()) return;
    std::vector<ValueId> inputs = {x};
    for (int k = below(3); k > 0; --k) inputs.push_back(partner(x));
    keep(op(dyadic() ? name_of({"Max", "Min", "Sum"}) : name_of({"Max", "Min", "Sum", "Mean"}), inputs));
  }
  // Numbers that change nothing, or nearly.
  void neutral() {
    const ValueId x = pick_float();
    if (!x.valid()) return;
    const double value = chance(80) ? 0 : 1;
    switch (below(5)) {
      case 0:
        return keep(op("Add", {x, scalar(value)}));
      case 1:
        return keep(op("Mul", {scalar(1 - value), x}));
      case 2:
        return keep(op("Sub", {x, scalar(value)}));
      case 3:
        return keep(op("Div", {x, scalar(1)}));
      default:
        return keep(op("Pow", {x, scalar(1)}));
    }
  }
  void comparison() {
    const ValueId a = pick_float();
    if (!a.valid()) return;
    // Where results may differ by roundings, only what has been given is compared.
    const ValueId left = dyadic() ? a : pick([&](ValueId id) {
      return type(id).dtype == DType::kF32 && !graph_->value(id).producer.valid();
    });
    if (!left.valid()) return;
    const ValueId right = dyadic() ? partner(left) : scalar(0.25);
    const ValueId mask = op(name_of({"Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"}), {left, right});
    if (chance(30)) return keep(mask);
    const ValueId b = partner(a);
    keep(chance(50) ? op("Where", {mask, a, b}) : op("Where", {op("Not", {mask}), b, a}));
  }
  void cast() {
    const ValueId x = pick_any();
    if (!x.valid()) return;
    static const std::vector<DType> dtypes = {DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kBool};
    const DType to = !is_floating(type(x).dtype) || dyadic() ? one_of(dtypes) : DType::kF32;
    const ValueId there = op("Cast", {x}, {{"to", to}});
    keep(chance(50) ? there : op("Cast", {there}, {{"to", type(x).dtype}}));
  }

  // ---- moves

  void view() {
    const ValueId x = pick_any();
    if (!x.valid()) return;
    keep(view_of(x));
  }
  ValueId view_of(ValueId x) {
    switch (below(6)) {
      case 0:
        return op("Flatten", {x}, {{"axis", between(-rank(x), rank(x))}});
      case 1: {
        Ints axes;
        for (int axis = 0; axis < rank(x); ++axis) {
          if (shape(x)[static_cast<size_t>(axis)] == Dim(1) && chance(70)) axes.push_back(axis);
        }
        return chance(50) ? op("Squeeze", {x}, {{"axes", axes}}) : op("Squeeze", {x, ints(axes)});
      }
      case 2: {
        const Ints axes = {between(0, rank(x))};
        return chance(50) ? op("Unsqueeze", {x}, {{"axes", axes}}) : op("Unsqueeze", {x, ints(axes)});
      }
      default:
        return op("Reshape", {x}, {{"shape", another_shape(shape(x))}});
    }
  }
  // Of as many elements: neighbours merged, extents split, ones put in and taken out.
  Shape another_shape(Shape shape) {
    for (int k = 1 + below(4); k > 0; --k) {
      const int axis = shape.empty() ? -1 : below(static_cast<int>(shape.size()));
      const auto at = shape.begin() + std::max(axis, 0);
      const int what = below(4);
      if (what == 0 || axis < 0) {
        shape.insert(shape.begin() + below(static_cast<int>(shape.size()) + 1), Dim(1));
      } else if (what == 1 && axis > 0) {
        *(at - 1) = *(at - 1) * *at;
        shape.erase(at);
      } else if (what == 2) {
        for (const int64_t factor : {2, 3}) {
          const auto extent = at->constant();
          if (!extent || *extent % factor != 0 || *extent == 0) continue;
          *at = Dim(*extent / factor);
          shape.insert(at, Dim(factor));
          break;
        }
      } else if (*at == Dim(1)) {
        shape.erase(at);
      }
    }
    return shape;
  }
  Ints permutation(int rank) {
    Ints perm;
    for (int axis = 0; axis < rank; ++axis) perm.push_back(axis);
    if (rank >= 3 && chance(50)) {  // to channels last, or back
      if (chance(50)) {
        std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
      } else {
        std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
      }
      return perm;
    }
    for (size_t k = perm.size(); k > 1; --k)
      std::swap(perm[k - 1], perm[static_cast<size_t>(below(static_cast<int>(k)))]);
    return perm;
  }
  void transpose() {
    const ValueId x = pick_any(2);
    if (x.valid()) keep(op("Transpose", {x}, {{"perm", permutation(rank(x))}}));
  }
  void slice() {
    const ValueId x = pick_any(1);
    if (!x.valid()) return;
    const int64_t axis = between(-rank(x), rank(x) - 1);
    const int64_t step = one_of(Ints{1, 1, 1, 2});
    const int64_t end = chance(50) ? 100 : between(-3, 3);
    keep(op("Slice", {x, ints({between(-2, 2)}), ints({end}), ints({axis}), ints({step})}));
  }
  void concat() {
    const ValueId x = pick_any(1);
    if (!x.valid()) return;
    const int64_t axis = below(rank(x));
    std::vector<ValueId> inputs = {x};
    for (int k = below(3); k > 0; --k) {
      const ValueId other = pick([&](ValueId id) { return type(id) == type(x); });
      inputs.push_back(other.valid() && chance(70) ? other : x);
    }
    if (const auto fixed = static_shape(shape(x)); fixed && chance(30)) {
      Ints more = *fixed;
      more[static_cast<size_t>(axis)] = between(0, 2);
      inputs.insert(inputs.begin() + below(static_cast<int>(inputs.size())), constant(type(x).dtype, more));
    }
    keep(op("Concat", inputs, {{"axis", axis}}));
  }
  void split() {
    const ValueId x = pick_any(1);
    if (!x.valid()) return;
    const int64_t axis = below(rank(x));
    const auto whole = shape(x)[static_cast<size_t>(axis)].constant();
    if (!whole || *whole < 1) return;
    const int64_t first = between(0, *whole);
    const auto parts = chance(60) ? node("Split", {x, ints({first, *whole - first})}, {{"axis", axis}}, 2)
                                  : node("Split", {x}, {{"axis", axis}, {"num_outputs", int64_t{2}}}, 2);
    if (parts.empty()) return;
    keep(parts[0]);
    keep(parts[1]);
    if (chance(30)) keep(op("Concat", {parts[0], parts[1]}, {{"axis", axis}}));
  }
  void pad_or_tile() {
    const ValueId x = pick_any(1);
    if (!x.valid()) return;
    Ints list;
    if (chance(30)) {
      for (int k = 0; k < rank(x); ++k) list.push_back(chance(70) ? 1 : between(0, 2));
      return keep(op("Tile", {x, ints(list)}));
    }
    if (chance(30)) {
      Shape to = shape(x);
      for (Dim& dim : to) {
        if (dim == Dim(1) && chance(70)) dim = Dim(between(1, 3));
      }
      if (chance(30)) to.insert(to.begin(), Dim(2));
      return keep(op("Expand", {x}, {{"shape", to}}));
    }
    for (int k = 0; k < 2 * rank(x); ++k) list.push_back(k % rank(x) < 2 ? (chance(90) ? 0 : 1) : between(0, 1));
    const std::string mode = chance(75) ? "constant" : name_of({"edge", "reflect", "wrap"});
    if (mode == "constant" && chance(30))
      return keep(op("Pad", {x, ints(list), constant(type(x).dtype, {})}, {{"mode", mode}}));
    keep(op("Pad", {x, ints(list)}, {{"mode", mode}}));
  }
  void gather() {
    const ValueId x = pick_any(1);
    if (!x.valid()) return;
    const int64_t axis = below(rank(x));
    const auto whole = shape(x)[static_cast<size_t>(axis)].constant();
    if (!whole || *whole == 0) return;
    Ints shape;
    for (int k = below(3); k > 0; --k) shape.push_back(between(1, 2));
    int64_t count = 1;
    for (const int64_t e : shape) count *= e;
    Ints indices;
    for (int64_t k = 0; k < count; ++k) indices.push_back(between(-*whole, *whole - 1));
    const ValueId list = graph_->add_constant(Constant::of<int64_t>(DType::kI64, shape, indices));
    keep(op("Gather", {x, list}, {{"axis", axis}}));
  }

  // ---- channels and windows

  // Of rank 3 to 5 with at least one channel and one pixel.
  ValueId pick_image() {
    const ValueId x = pick([&](ValueId id) {
      if (type(id).dtype != DType::kF32 || rank(id) < 3 || rank(id) > 5) return false;
      for (int axis = 1; axis < rank(id); ++axis) {
        const Dim& dim = shape(id)[static_cast<size_t>(axis)];
        if (largest(dim) < 1 || (axis == 1 && !dim.is_constant())) return false;
      }
      return true;
    });
    if (x.valid() || chance(50)) return x;
    const ValueId any = pick_float(1);
    if (!any.valid() || !is_static(shape(any))) return {};
    const int64_t count = element_count(shape(any)).constant_or(0);
    if (count == 0 || count > 120) return {};
    const int64_t channels = count % 2 == 0 ? 2 : 1;
    return op("Reshape", {any}, {{"shape", Shape{1, channels, count / channels, 1}}});
  }
  struct Window {
    Ints kernel;
    Set set;
  };
  Window window(ValueId x, bool pads = true) {
    Window w;
    Ints strides, dilations, begin, end;
    for (int axis = 2; axis < rank(x); ++axis) {
      const int64_t kernel = between(1, std::min<int64_t>(3, extent(x, static_cast<size_t>(axis))));
      w.kernel.push_back(kernel);
      strides.push_back(chance(75) ? 1 : 2);
      dilations.push_back(chance(85) ? 1 : 2);
      begin.push_back(pads && kernel > 1 && chance(50) ? 1 : 0);
      end.push_back(pads && kernel > 1 && chance(50) ? 1 : 0);
    }
    begin.insert(begin.end(), end.begin(), end.end());
    w.set = {{"kernel_shape", w.kernel}, {"strides", strides}, {"dilations", dilations}};
    if (pads && chance(15)) {
      w.set.emplace_back("auto_pad", std::string(name_of({"SAME_UPPER", "SAME_LOWER", "VALID"})));
    } else {
      w.set.emplace_back("pads", begin);
    }
    return w;
  }
  void convolution() { keep(after(convolved(pick_image()))); }
  ValueId convolved(ValueId x) {
    if (!x.valid() || (dyadic() && ++products_ > 3)) return {};
    const int64_t channels = extent(x, 1);
    const bool transposed = chance(20);
    int64_t group = chance(25) ? channels : 1;
    const int64_t out = group * between(1, 2);
    Window w = window(x);
    Ints shape = transposed ? Ints{channels, out / group} : Ints{out, channels / group};
    shape.insert(shape.end(), w.kernel.begin(), w.kernel.end());
    w.set.emplace_back("group", group);
    std::vector<ValueId> inputs = {x, constant(DType::kF32, shape)};
    if (chance(50)) inputs.push_back(constant(DType::kF32, {out}));
    return op(transposed ? "ConvTranspose" : "Conv", inputs, w.set);
  }
  // What often stands behind a product: a scale per channel, a view, an activation.
  ValueId after(ValueId x) {
    if (!x.valid() || failed_) return x;
    if (chance(30) && rank(x) >= 2) {
      Ints per_channel(static_cast<size_t>(rank(x) - 1), 1);
      if (shape(x)[1].is_constant()) per_channel[0] = *shape(x)[1].constant();
      if (!dyadic() || ++products_ <= 3) x = op("Mul", {x, constant(DType::kF32, per_channel)});
      if (!failed_) x = op("Add", {x, constant(DType::kF32, per_channel)});
    }
    if (!failed_ && chance(35)) x = view_of(x);
    if (!failed_ && chance(60)) {
      x = dyadic() ? op(name_of({"Relu", "Neg", "Abs"}), {x}) : op(name_of({"Relu", "Sigmoid", "Tanh", "Neg"}), {x});
    }
    if (!failed_ && chance(30)) x = op("Add", {x, partner(x)});
    return x;
  }
  void pool() {
    const ValueId x = pick_image();
    if (!x.valid()) return;
    if (chance(25)) return keep(op(dyadic() ? "GlobalMaxPool" : name_of({"GlobalMaxPool", "GlobalAveragePool"}), {x}));
    Window w = window(x);
    const bool maximum = dyadic() || chance(50);
    if (chance(20)) w.set.emplace_back("ceil_mode", int64_t{1});
    if (!maximum) w.set.emplace_back("count_include_pad", between(0, 1));
    keep(op(maximum ? "MaxPool" : "AveragePool", {x}, w.set));
  }
  void per_channel() {
    if (dyadic()) return;
    const ValueId x = pick_image();
    if (!x.valid()) return;
    const int64_t channels = extent(x, 1);
    const auto vector = [&] { return constant(DType::kF32, {channels}); };
    const auto around_one = [&] {
      std::vector<double> values;
      for (int64_t c = 0; c < channels; ++c) values.push_back(0.5 + static_cast<double>(below(1000)) / 1000);
      return floats({channels}, values);
    };
    switch (below(4)) {
      case 0:
        return keep(op("InstanceNormalization", {x, vector(), vector()}, {{"epsilon", 0.1}}));
      case 1:
        return keep(op("LRN", {x}, {{"size", int64_t{3}}}));
      case 2:
        return keep(op("GroupNormalization", {x, vector(), vector()}, {{"epsilon", 0.1}, {"num_groups", int64_t{1}}}));
      default: {
        const ValueId source = chance(70) ? convolved(x) : x;
        if (!source.valid() || extent(source, 1) != channels) return;
        return keep(after(op("BatchNormalization", {source, vector(), vector(), vector(), around_one()})));
      }
    }
  }
  void resize() {
    const ValueId x = pick_image();
    if (!x.valid() || !is_static(shape(x))) return;
    std::vector<double> scales(static_cast<size_t>(rank(x)), 1.0);
    for (size_t axis = 2; axis < scales.size(); ++axis) scales[axis] = chance(50) ? 2 : 1;
    keep(op("Resize", {x, {}, floats({rank(x)}, scales)},
            {{"mode", std::string(dyadic() ? "nearest" : name_of({"nearest", "linear"}))},
             {"coordinate_transformation_mode", std::string(name_of({"asymmetric", "half_pixel"}))}}));
  }
  void product() {
    const ValueId x = pick_float(1);
    if (!x.valid() || (dyadic() && ++products_ > 3)) return;
    const int64_t inner = extent(x, static_cast<size_t>(rank(x) - 1));
    if (!shape(x).back().is_constant() || inner < 1) return;
    const int64_t columns = between(1, 4);
    ValueId y;
    if (rank(x) == 2 && chance(50)) {
      const bool transposed = chance(30);
      std::vector<ValueId> inputs = {x,
                                     constant(DType::kF32, transposed ? Ints{columns, inner} : Ints{inner, columns})};
      if (chance(60)) inputs.push_back(constant(DType::kF32, chance(70) ? Ints{columns} : Ints{}));
      y = op("Gemm", inputs, {{"transB", int64_t{transposed}}, {"alpha", chance(80) ? 1.0 : 0.5}});
    } else if (chance(25) && rank(x) >= 2) {
      Ints perm = permutation(rank(x));
      for (size_t k = 0; k < perm.size(); ++k) perm[k] = static_cast<int64_t>(k);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      y = op("MatMul", {x, op("Transpose", {x}, {{"perm", perm}})});
    } else {
      y = op("MatMul", {x, constant(DType::kF32, chance(90) ? Ints{inner, columns} : Ints{inner})});
    }
    keep(after(y));
  }
  // One number from a product, and what classifiers do with it.
  void one_logit() {
    const ValueId x = pick_float(1);
    if (!x.valid() || !is_static(shape(x)) || (dyadic() && ++products_ > 3)) return;
    const int64_t count = element_count(shape(x)).constant_or(0);
    if (count < 1 || count > 60) return;
    ValueId y;
    switch (below(3)) {
      case 0:
        y = op("Gemm", {op("Reshape", {x}, {{"shape", Shape{1, count}}}), constant(DType::kF32, {count, 1})});
        break;
      case 1:
        y = op("MatMul", {op("Reshape", {x}, {{"shape", Shape{1, 1, count}}}), constant(DType::kF32, {count, 1})});
        break;
      default:
        y = op("Conv",
               {op("Reshape", {x}, {{"shape", Shape{1, count, 1, 1}}}), constant(DType::kF32, {1, count, 1, 1})});
    }
    Shape ones;
    for (int k = below(5); k > 0; --k) ones.emplace_back(1);
    y = op("Reshape", {y}, {{"shape", ones}});
    if (chance(50)) y = op("Add", {y, constant(DType::kF32, Ints(static_cast<size_t>(below(3)), 1))});
    keep(op(dyadic() ? "Relu" : "Sigmoid", {y}));
  }

  // ---- along axes

  void reduction() {
    const ValueId x = chance(85) ? pick_float() : pick_any();
    if (!x.valid() || is_bool(type(x).dtype)) return;
    if (dyadic() && rank(x) > 0 && chance(25)) {
      // The greatest of no elements is an error when the model runs.
      if (largest(element_count(shape(x))) == 0) return;
      return keep(
          op(name_of({"ArgMax", "ArgMin"}), {x},
             {{"axis", int64_t{below(rank(x))}}, {"keepdims", between(0, 1)}, {"select_last_index", between(0, 1)}}));
    }
    Ints axes;
    for (int axis = 0; axis < rank(x); ++axis) {
      if (chance(40)) axes.push_back(axis);
    }
    if (!is_floating(type(x).dtype) && chance(50)) return;
    const std::string name = dyadic() || !is_floating(type(x).dtype)
                                 ? name_of({"ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1"})
                                 : name_of({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1",
                                            "ReduceSumSquare", "ReduceLogSumExp"});
    const int64_t keepdims = between(0, 1);
    keep(chance(50) ? op(name, {x}, {{"axes", axes}, {"keepdims", keepdims}})
                    : op(name, {x, ints(axes)}, {{"keepdims", keepdims}}));
  }
  void along_axis() {
    const ValueId x = pick_float(1);
    if (!x.valid()) return;
    const int64_t axis = below(rank(x));
    if (dyadic() && chance(50)) {
      const auto made = node("TopK", {x, ints({1})}, {{"axis", axis}, {"largest", between(0, 1)}}, 2);
      if (made.empty()) return;
      keep(made[0]);
      return keep(made[1]);
    }
    if (dyadic()) return keep(op("CumSum", {x, ints({axis})}, {{"reverse", between(0, 1)}}));
    keep(op(name_of({"Softmax", "LogSoftmax"}), {x}, {{"axis", axis}}));
  }
  void normalization_written_out() {
    if (dyadic()) return;
    const ValueId x = pick_float(2);
    if (!x.valid() || !shape(x).back().is_constant() || extent(x, static_cast<size_t>(rank(x) - 1)) < 1) return;
    const Ints last = {rank(x) - 1};
    const Ints features = {*shape(x).back().constant()};
    const auto mean = [&](ValueId v) { return op("ReduceMean", {v}, {{"axes", last}}); };
    const bool rms = chance(35);
    const ValueId centred = rms ? x : op("Sub", {x, mean(x)});
    const ValueId square = chance(50) ? op("Mul", {centred, centred}) : op("Pow", {centred, scalar(2)});
    const ValueId deviation = op("Sqrt", {op("Add", {mean(square), scalar(0.01)})});
    ValueId y = chance(50) ? op("Div", {centred, deviation}) : op("Mul", {centred, op("Reciprocal", {deviation})});
    if (chance(80)) y = op("Mul", {y, constant(DType::kF32, features)});
    if (chance(60)) y = op("Add", {y, constant(DType::kF32, features)});
    keep(y);
    if (chance(15)) keep(deviation);
  }
  void activation_written_out() {
    const ValueId x = pick_float();
    if (!x.valid()) return;
    if (dyadic()) return keep(op("Clip", {op("Relu", {x}), {}, scalar(2)}));
    switch (below(4)) {
      case 0: {
        const ValueId e = op("Add", {op("Erf", {op("Div", {x, scalar(std::sqrt(2.0))})}), scalar(1)});
        return keep(chance(50) ? op("Mul", {op("Mul", {x, e}), scalar(0.5)})
                               : op("Mul", {op("Mul", {x, scalar(0.5)}), e}));
      }
      case 1: {
        const ValueId cube = op("Mul", {scalar(0.044715), op("Pow", {x, scalar(3)})});
        const ValueId t = op("Tanh", {op("Mul", {op("Add", {x, cube}), scalar(0.7978845608)})});
        return keep(op("Mul", {op("Mul", {x, scalar(0.5)}), op("Add", {t, scalar(1)})}));
      }
      case 2:
        return keep(op("Mul", {x, op("Sigmoid", {x})}));
      default: {
        const ValueId gate = op("Clip", {op("Add", {x, scalar(3)}), scalar(0), scalar(6)});
        return keep(op("Div", {op("Mul", {x, gate}), scalar(6)}));
      }
    }
  }
  void pixel_shuffle() {
    const ValueId x = pick_image();
    if (!x.valid() || rank(x) != 4) return;
    const Shape s = shape(x);
    if (chance(50) && *s[1].constant() % 4 == 0) {
      const Dim c = floordiv(s[1], 4);
      const bool crd = chance(50);
      const ValueId r =
          op("Reshape", {x}, {{"shape", crd ? Shape{s[0], c, 2, 2, s[2], s[3]} : Shape{s[0], 2, 2, c, s[2], s[3]}}});
      const ValueId t = op("Transpose", {r}, {{"perm", crd ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 3, 4, 1, 5, 2}}});
      return keep(op("Reshape", {t}, {{"shape", Shape{s[0], c, 2 * s[2], 2 * s[3]}}}));
    }
    if (chance(30)) return keep(op("SpaceToDepth", {x}, {{"blocksize", int64_t{1 + below(2)}}}));
    // A shuffle of channels.
    const int64_t channels = *s[1].constant();
    if (channels % 2 != 0) return;
    const ValueId r = op("Reshape", {x}, {{"shape", Shape{s[0], 2, channels / 2, s[2], s[3]}}});
    keep(op("Reshape", {op("Transpose", {r}, {{"perm", Ints{0, 2, 1, 3, 4}}})}, {{"shape", s}}));
  }
  void shape_arithmetic() {
    const ValueId x = pick_any(1);
    if (!x.valid()) return;
    const ValueId all = op("Shape", {x});
    if (chance(20)) return keep(all);
    const ValueId first = op("Gather", {all, graph_->add_constant(Constant::of<int64_t>(DType::kI64, {1}, Ints{0}))});
    const ValueId rest = chance(50) ? ints({-1}) : op("Slice", {all, ints({1}), ints({100})});
    keep(op("Reshape", {x, op("Concat", {first, rest}, {{"axis", int64_t{0}}})}));
  }

  // ---- 8-bit integers; scales are powers of two, so that nothing is rounded but what QuantizeLinear rounds

  ValueId eight_bits(DType dtype, int64_t value) {
    const auto byte = static_cast<int8_t>(value);
    return graph_->add_constant(Constant::create(dtype, {}, {std::bit_cast<std::byte>(byte)}));
  }
  ValueId fake_quantized(ValueId x) {
    const DType dtype = chance(50) ? DType::kI8 : DType::kU8;
    const ValueId scale = floats({}, {one_of(std::vector<double>{0.25, 0.5, 1})});
    const ValueId zero = eight_bits(dtype, dtype == DType::kU8 ? one_of(Ints{0, 8, 32}) : one_of(Ints{0, 0, -4}));
    return op("DequantizeLinear", {op("QuantizeLinear", {x, scale, zero}), scale, zero});
  }
  ValueId quantized_weights(const Ints& shape) {
    int64_t count = 1;
    for (const int64_t e : shape) count *= e;
    std::vector<std::byte> bytes;
    for (int64_t k = 0; k < count; ++k) bytes.push_back(std::bit_cast<std::byte>(static_cast<int8_t>(between(-4, 4))));
    const ValueId w = graph_->add_constant(Constant::create(DType::kI8, shape, std::move(bytes)));
    return op("DequantizeLinear", {w, floats({}, {0.25}), eight_bits(DType::kI8, 0)});
  }
  void quantized() {
    if (!dyadic()) return;
    if (chance(30)) {
      const ValueId x = pick_float();
      return x.valid() ? keep(fake_quantized(x)) : void();
    }
    if (chance(50)) {
      const ValueId x = pick_image();
      if (!x.valid() || ++products_ > 3) return;
      Window w = window(x);
      Ints shape = {between(1, 3), extent(x, 1)};
      shape.insert(shape.end(), w.kernel.begin(), w.kernel.end());
      ValueId y = op("Conv", {fake_quantized(x), quantized_weights(shape)}, w.set);
      if (chance(40)) y = op("Relu", {y});
      return keep(fake_quantized(y));
    }
    const ValueId x = pick_float(2);
    if (!x.valid() || !shape(x).back().is_constant() || ++products_ > 3) return;
    const int64_t inner = *shape(x).back().constant();
    if (inner < 1) return;
    ValueId y = op("MatMul", {fake_quantized(x), quantized_weights({inner, between(1, 4)})});
    if (chance(40)) y = op("Add", {fake_quantized(y), fake_quantized(y)});
    keep(fake_quantized(y));
  }
  void attention() {
    if (dyadic()) return;
    const ValueId q = pick_float(3);
    if (!q.valid() || !shape(q).back().is_constant()) return;
    Ints perm;
    for (int k = 0; k < rank(q); ++k) perm.push_back(k);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    const ValueId k = partner(q);
    if (!(type(k) == type(q))) return;
    const ValueId scores = op("Mul", {op("MatMul", {q, op("Transpose", {k}, {{"perm", perm}})}), scalar(0.5)});
    keep(op("MatMul", {op("Softmax", {scores}, {{"axis", int64_t{-1}}}), q}));
  }

  // ---- control flow

  ValueId flag() {
    switch (below(3)) {
      case 0: {
        const uint8_t value = static_cast<uint8_t>(below(2));
        return graph_->add_constant(Constant::of<uint8_t>(DType::kBool, {}, {&value, 1}));
      }
      default: {
        const ValueId x = pick([&](ValueId id) {
          return !graph_->value(id).producer.valid() && type(id).dtype == DType::kF32 && is_static(shape(id)) &&
                 element_count(shape(id)) != Dim(0);
        });
        if (!x.valid()) return {};
        Ints axes;
        for (int axis = 0; axis < rank(x); ++axis) axes.push_back(axis);
        return op("Greater", {op("ReduceMax", {x}, {{"axes", axes}, {"keepdims", int64_t{0}}}), scalar0(0.25)});
      }
    }
  }
  ValueId scalar0(double value) { return floats({}, {value}); }
  std::unique_ptr<Graph> subgraph(const std::string& name, int captured) {
    auto graph = std::make_unique<Graph>();
    graph->name = name;
    graph->symbol_scope = str_cat(name, scopes_++, ".");
    graph->captured_count = captured;
    return graph;
  }
  ValueId small_body(Graph& g, ValueId x) {
    ValueId y = x;
    for (int k = below(3); k > 0 && y.valid(); --k) {
      auto made = chance(50) ? g.emit(name_of({"Neg", "Abs", "Relu"}), {}, {y}, {})
                             : g.emit("Add", {},
                                      {y, chance(50) ? x : g.add_constant(float_constant(DType::kF32, {}, {0.5}))}, {});
      if (made.ok()) y = *made;
    }
    return y;
  }
  void condition() {
    const ValueId x = pick_float();
    const ValueId c = flag();
    if (!x.valid() || !c.valid() || failed_) return;
    std::vector<std::unique_ptr<Graph>> branches;
    for (const char* name : {"then", "else"}) {
      auto g = subgraph(name, 1);
      const ValueId inner = g->add_input("captured", type(x));
      g->add_output(small_body(*g, inner), "result");
      branches.push_back(std::move(g));
    }
    const auto made = node("If", {c, x, x}, {}, 1, std::move(branches));
    if (!made.empty()) keep(made[0]);
  }
  void loop() {
    const ValueId x = pick_float();
    if (!x.valid()) return;
    auto g = subgraph("body", 0);
    g->add_input("i", {DType::kI64, {}});
    const ValueId more = g->add_input("more", {DType::kBool, {}});
    const ValueId state = g->add_input("state", type(x));
    auto same = g->emit("Identity", {}, {more}, {});
    if (!same.ok()) return;
    const ValueId next = small_body(*g, state);
    g->add_output(*same, "again");
    g->add_output(next, "next");
    const bool scanned = chance(40);
    if (scanned) g->add_output(next, "row");
    std::vector<std::unique_ptr<Graph>> bodies;
    bodies.push_back(std::move(g));
    const ValueId trips = graph_->add_constant(Constant::of<int64_t>(DType::kI64, {}, Ints{between(0, 3)}));
    const uint8_t yes = 1;
    const ValueId start =
        chance(50) ? graph_->add_constant(Constant::of<uint8_t>(DType::kBool, {}, {&yes, 1})) : ValueId();
    for (const ValueId value : node("Loop", {trips, start, x}, {}, scanned ? 2 : 1, std::move(bodies))) keep(value);
  }
  void scan() {
    const ValueId x = pick_float(1);
    if (!x.valid() || !is_static(shape(x)) || extent(x, 0) == 0) return;
    Shape row(shape(x).begin() + 1, shape(x).end());
    auto g = subgraph("scan", 0);
    const ValueId sum = g->add_input("sum", {DType::kF32, row});
    const ValueId element = g->add_input("element", {DType::kF32, row});
    auto next = g->emit("Add", {}, {sum, element}, {});
    if (!next.ok()) return;
    g->add_output(*next, "next");
    g->add_output(*next, "sums");
    std::vector<std::unique_ptr<Graph>> bodies;
    bodies.push_back(std::move(g));
    const ValueId zero = constant(DType::kF32, *static_shape(row));
    for (const ValueId value : node("Scan", {zero, x}, {{"num_scan_inputs", int64_t{1}}}, 2, std::move(bodies)))
      keep(value);
  }

  // ---- what is there again

  void repeated() {
    if (nodes_.empty()) return;
    const NodeId id = one_of(nodes_);
    const Node& old = std::as_const(*graph_).node(id);
    if (old.erased || !old.subgraphs.empty()) return;
    const Attributes all = old.attributes;
    const std::vector<ValueId> inputs = old.inputs;
    const std::string name = old.op;
    const std::vector<std::string> names(old.outputs.size(), "again");
    auto added = graph_->add_node(name, all, inputs, names, {Origin{str_cat("n", graph_->node_count()), name}});
    if (!added.ok()) return;
    for (const ValueId value : std::as_const(*graph_).node(*added).outputs) keep(value);
  }
  void data_dependent() {
    const ValueId x = pick([&](ValueId id) { return !graph_->value(id).producer.valid() && rank(id) > 0; });
    if (!x.valid() || type(x).dtype == DType::kF16) return;
    const ValueId count = op("aipu::CountNonZero", {x});
    keep(op("NonZero", {x, count}));
  }

  void add_outputs() {
    std::vector<ValueId> outputs;
    for (const ValueId value : pool_) {
      if (graph_->user_count(value) == 0 && graph_->value(value).producer.valid()) outputs.push_back(value);
    }
    if (outputs.empty() || chance(25)) outputs.push_back(one_of(pool_));  // inner, an input, or the same again
    if (chance(5)) outputs.push_back(constant(DType::kF32, {2}));
    for (size_t k = 0; k < outputs.size(); ++k) graph_->add_output(outputs[k], str_cat("y", k));
  }

  std::mt19937_64 random_;
  RandomGraph result_;
  Graph* graph_ = nullptr;
  std::vector<ValueId> pool_;
  std::vector<NodeId> nodes_;
  std::map<std::string, int64_t> symbols_;
  int products_ = 0;  // in a dyadic graph few, so that sums stay short numbers
  int scopes_ = 0;
  bool mixes_extents_ = false;  // a symbol may face a number, which it has to agree with

  bool failed_ = false;
};

}  // namespace

RandomGraph random_graph(uint64_t seed) { return Generator(seed).make(); }

}  // namespace aipu::graph
