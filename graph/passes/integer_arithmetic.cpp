// integer_arithmetic: quantised graphs compute with the integers they store.
//
//   x ─ DequantizeLinear(s,z) ─ Conv ─ Relu ─ QuantizeLinear(t,u) ─ y
//   w ─ DequantizeLinear(r) ────┘
//                        =>   x ─ aipu::QuantizedConv(w, z, scale = s*r/t) ─ Relu ─ QuantizeLinear(1,u) ─ y
//
//   QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger  =>  aipu::Quantized(Conv|MatMul), QuantizeLinear
//   ConvInteger, MatMulInteger, x_zero computed             =>  aipu::Quantized(Conv|MatMul), + x_zero * -sums(w)
//   the same, w - w_zero in nine bits                       =>  aipu::Quantized(Conv|MatMul), + sums of x * rest
//   ConvTranspose, kernel = stride                          =>  Conv of all phases ─ DepthToSpace
//   com.microsoft::QLinearMul, QLinearSigmoid, QGemm, ...   =>  DequantizeLinear, Mul | Sigmoid | ..., QuantizeLinear
//   com.microsoft::QLinearAdd                               =>  DequantizeLinear, DequantizeLinear, Add, QuantizeLinear
//   x ─ DequantizeLinear ─ MaxPool | Reshape | ... ─ y      =>  x ─ MaxPool | Reshape | ... ─ DequantizeLinear ─ y
//   x ─ DequantizeLinear(s,z) ─ QuantizeLinear(s,z) ─ y     =>  x
//   x ─ Concat | MaxPool | ... ─ QuantizeLinear             =>  x ─ QuantizeLinear ─ Concat | MaxPool | ...
//   x ─ Resize(nearest) ─ QuantizeLinear                    =>  x ─ QuantizeLinear ─ Resize(nearest)
//   ... ─ QuantizeLinear(t,u)  =>  factors 1/t before it ─ QuantizeLinear(1,u), where constants can take them
//
// What is left, elementwise all of it, is fused into the stores of the integer kernels. Sums are exact; the scale of
// the accumulators is one float32 number where ONNX's text has a product and a quotient, so a result next to a rounding
// tie may be the other neighbour, as in every other engine.
//
// Runs before constants are folded: DequantizeLinear of weights is what it looks for. Weights, scales and other zero
// points have to be constant; what is not is left to decompose.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "graph/passes/passes.h"
#include "graph/passes/quantized_operators.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

ConstantPtr floats(std::vector<int64_t> shape, const std::vector<float>& elements) {
  return Constant::of<float>(DType::kF32, std::move(shape), elements);
}

bool is_8bit(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// DequantizeLinear of an 8-bit value by constants.
struct Dequantized {
  ValueId x;
  std::vector<float> scales;
  int64_t axis = 0;
  ValueId zero;  // may be absent
  bool per_tensor() const { return scales.size() == 1; }
};

class IntegerArithmetic {
 public:
  IntegerArithmetic(Graph& graph, bool has_byte_products) : graph_(graph), has_byte_products_(has_byte_products) {}

  Result<int> run() {
    for (const NodeId id : graph_.topological_order()) {
      if (node(id).erased) continue;
      const std::string op = node(id).op;
      Result<bool> changed = rewrite(op, id);
      if (!changed.ok()) return std::move(changed).status().context(str_cat("node ", origins_text(node(id).origins)));
      count_ += *changed ? 1 : 0;
    }
    if (count_ != 0) graph_.erase_dead_nodes();
    return count_;
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  ValueId input(NodeId id, size_t k) const { return k < node(id).inputs.size() ? node(id).inputs[k] : ValueId(); }

  Result<bool> rewrite(const std::string& op, NodeId id) {
    if (op == "QLinearConv" || op == "QLinearMatMul") return qlinear_product(id);
    if (op == "ConvInteger" || op == "MatMulInteger") return integer_product(id);
    if (op == "com.microsoft::QLinearAdd") return qlinear_add(id);
    if (op == "Conv") return product_of_dequantized(id, "aipu::QuantizedConv");
    if (op == "MatMul" || op == "Gemm") return product_of_dequantized(id, "aipu::QuantizedMatMul");
    if (op == "QuantizeLinear") return quantize(id);
    return sink_dequantize(id);
  }

  // ---- looking

  // The elements of a float32 constant; empty if it is none.
  std::vector<float> scale_elements(ValueId value) const {
    const Constant* constant = graph_.constant(value);
    if (constant == nullptr || constant->dtype() != DType::kF32) return {};
    const std::vector<double> elements = constant->to_doubles();
    return {elements.begin(), elements.end()};
  }
  bool constant_or_absent(ValueId value) const { return !value.valid() || graph_.constant(value) != nullptr; }
  bool has_one_element(ValueId value) const {
    return !value.valid() || element_count(graph_.type(value).shape).constant() == 1;
  }
  bool all_zero(ValueId value) const {
    if (!value.valid()) return true;
    const auto elements = graph_.constant(value)->to_int64s();
    return std::all_of(elements.begin(), elements.end(), [](int64_t e) { return e == 0; });
  }
  bool same_constant(ValueId a, ValueId b) const {
    if (!a.valid() || !b.valid()) return all_zero(a) && all_zero(b);
    return graph_.constant(a)->to_int64s() == graph_.constant(b)->to_int64s();
  }

  std::optional<Dequantized> dequantized(ValueId value) const {
    const NodeId id = producer_with_op(graph_, value, "DequantizeLinear");
    if (!id.valid() || node(id).attributes.i_or("block_size", 0) != 0) return std::nullopt;
    Dequantized result{input(id, 0), scale_elements(input(id, 1)), node(id).attributes.i_or("axis", 0), input(id, 2)};
    if (result.scales.empty() || !constant_or_absent(result.zero)) return std::nullopt;
    return result;
  }
  std::optional<Dequantized> dequantized_8bit(ValueId value) const {
    auto result = dequantized(value);
    if (!result || !is_8bit(graph_.type(result->x).dtype)) return std::nullopt;
    return result;
  }

  // ---- building

  ValueId constant(ConstantPtr value, std::string_view hint) {
    return graph_.add_constant(std::move(value), std::string(hint));
  }
  std::string hint(NodeId id) const { return graph_.value(node(id).outputs[0]).name; }

  Result<ValueId> emit(std::string op, Attributes attributes, std::vector<ValueId> inputs, NodeId from) {
    while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
    const OriginSet origins = node(from).origins;
    const std::string ending = str_cat('.', op.substr(op.rfind(':') + 1));
    std::string name = hint(from);
    if (!name.ends_with(ending)) name += ending;
    return graph_.emit(std::move(op), std::move(attributes), std::move(inputs), origins, name);
  }
  // QuantizeLinear to the dtype of `like` by scale 1.
  Result<ValueId> round_to(ValueId value, ValueId zero, DType dtype, NodeId from) {
    Attributes attributes;
    if (!zero.valid()) attributes.set("output_dtype", dtype);
    return emit("QuantizeLinear", std::move(attributes), {value, constant(Constant::scalar_f32(1), "one"), zero}, from);
  }
  Result<ValueId> dequantize(const Dequantized& d, float scale, NodeId from) {
    return emit("DequantizeLinear", {}, {d.x, constant(Constant::scalar_f32(scale), "scale"), scalar(d.zero)}, from);
  }
  // A zero point or scale of one element as a scalar.
  ValueId scalar(ValueId value) {
    const ConstantPtr constant_value = value.valid() ? graph_.value(value).constant : nullptr;
    if (constant_value == nullptr || constant_value->shape().empty()) return value;
    return constant(reshape_constant(constant_value, {}), "zero_point");
  }
  Result<bool> replace(NodeId id, ValueId by) {
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(node(id).outputs[0], by));
    graph_.erase_node(id);
    return true;
  }

  // ---- rules

  // ONNX's own order of operations in float32: (x_scale * w_scale) / y_scale.
  static std::vector<float> product_scales(float x, const std::vector<float>& w, float y) {
    std::vector<float> scales;
    for (const float scale : w) scales.push_back(x * scale / y);
    return scales;
  }
  ValueId scale_constant(const std::vector<float>& scales) {
    return constant(
        scales.size() == 1 ? Constant::scalar_f32(scales[0]) : floats({static_cast<int64_t>(scales.size())}, scales),
        "scale");
  }

  Result<bool> qlinear_product(NodeId id) {
    const bool conv = node(id).op == "QLinearConv";
    const std::vector<ValueId> in = node(id).inputs;
    const Attributes attributes = conv ? node(id).attributes : Attributes();
    for (size_t k = 1; k < in.size(); ++k) {
      if (!constant_or_absent(in[k])) return false;
    }
    const std::vector<float> x = scale_elements(in[1]), w = scale_elements(in[4]), y = scale_elements(in[6]);
    if (x.size() != 1 || y.size() != 1 || w.empty() || !has_one_element(in[2]) || !has_one_element(in[7])) return false;
    if (!is_8bit(graph_.type(in[0]).dtype) || !is_8bit(graph_.type(in[3]).dtype)) return false;
    if (!conv && !is_matrix(in[3])) return false;
    const ValueId bias = in.size() > 8 ? in[8] : ValueId();
    const std::string op = conv ? "aipu::QuantizedConv" : "aipu::QuantizedMatMul";
    AIPU_ASSIGN_OR_RETURN(
        const ValueId product,
        emit(op, attributes, {in[0], in[3], in[2], in[5], scale_constant(product_scales(x[0], w, y[0])), bias}, id));
    AIPU_ASSIGN_OR_RETURN(const ValueId rounded, round_to(product, scalar(in[7]), graph_.type(in[7]).dtype, id));
    return replace(id, rounded);
  }

  bool is_matrix(ValueId value) const { return graph_.type(value).rank() == 2; }

  Result<bool> integer_product(NodeId id) {
    const bool conv = node(id).op == "ConvInteger";
    const ValueId x = input(id, 0), w = input(id, 1), x_zero = input(id, 2), w_zero = input(id, 3);
    if (!is_8bit(graph_.type(x).dtype) || !is_8bit(graph_.type(w).dtype)) return false;
    if (conv && !has_one_element(x_zero)) return false;
    if (graph_.constant(w) != nullptr && constant_or_absent(w_zero) && has_one_element(x_zero) &&
        (conv || is_matrix(w))) {
      const ByteWeights weights = byte_weights(id, w, w_zero, conv ? 0 : 1);
      // auto_pad of symbolic extents leaves pads open.
      const bool is_open = conv && !node(id).attributes.has("pads");
      if (constant_or_absent(x_zero) && (!weights.rest.valid() || is_open)) {
        const Attributes attributes = conv ? node(id).attributes : Attributes();
        const char* op = conv ? "aipu::QuantizedConv" : "aipu::QuantizedMatMul";
        AIPU_ASSIGN_OR_RETURN(const ValueId product, emit(op, attributes, {x, w, x_zero, w_zero}, id));
        return replace(id, product);
      }
      if (!is_open) return conv ? conv_of_bytes(id, weights) : matmul_of_bytes(id, weights);
    }
    if (conv) return conv_in_doubles(id, x, w, x_zero, w_zero);
    // Both operands are computed: in int32, exactly.
    AIPU_ASSIGN_OR_RETURN(const ValueId left, centred(x, x_zero, true, id));
    AIPU_ASSIGN_OR_RETURN(const ValueId right, centred(w, w_zero, false, id));
    AIPU_ASSIGN_OR_RETURN(const ValueId product, emit("MatMul", {}, {left, right}, id));
    return replace(id, product);
  }

  // Weights less their zero points as products of bytes can have them: w - zero + rest, the rest per output channel.
  // It is there where a difference from the zero point has nine bits, as of unsigned weights it mostly has.
  struct ByteWeights {
    ValueId zero, rest;
  };
  ByteWeights byte_weights(NodeId id, ValueId w, ValueId w_zero, size_t axis) {
    const Constant& weights = *graph_.constant(w);
    const std::vector<int64_t> elements = weights.to_int64s(), zeros = zero_points(w_zero);
    const OutputChannel channel(weights.shape(), axis);
    bool fit = true;
    for (size_t k = 0; k < elements.size() && fit; ++k) {
      const int64_t difference = elements[k] - zeros[zeros.size() == 1 ? 0 : channel.of(k)];
      fit = difference >= -128 && difference <= 127;
    }
    const int64_t products = elements.empty() ? 0 : static_cast<int64_t>(elements.size()) / channel.count;
    const bool is_exact = products * 255 < int64_t{1} << 24;  // sums_of_windows() adds in float32
    if (fit || !has_byte_products_ || node(id).attributes.i_or("group", 1) != 1 || !is_exact) return {w_zero, {}};
    const bool is_signed = weights.dtype() == DType::kI8;
    std::vector<int32_t> rest;
    for (const int64_t zero : zeros) rest.push_back(static_cast<int32_t>((is_signed ? 0 : 128) - zero));
    const uint8_t half[] = {128};
    return {is_signed ? ValueId() : constant(Constant::of<uint8_t>(DType::kU8, {}, half), "zero_point"),
            constant(Constant::of<int32_t>(DType::kI32, channel.aligned(zeros.size()), rest), "rest")};
  }

  // ConvInteger where the zero point of x, which only a run may know, or a rest of the weights is added behind the
  // product. The zero point is what stands beyond the border of x, so that each window has it as often as all others.
  Result<bool> conv_of_bytes(NodeId id, const ByteWeights& weights) {
    ValueId x = input(id, 0);
    const ValueId w = input(id, 1), x_zero = input(id, 2), w_zero = input(id, 3);
    Attributes attributes = node(id).attributes;
    const std::vector<int64_t> pads = attributes.ints("pads");
    const bool has_zero = x_zero.valid() && !(constant_or_absent(x_zero) && all_zero(x_zero));
    if (has_zero && std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; })) {
      Shape all(2 * graph_.type(x).shape.size(), Dim(0));
      for (size_t k = 0; k < pads.size(); ++k) all[k + (k < pads.size() / 2 ? 2 : 4)] = Dim(pads[k]);
      Attributes border;
      border.set("pads", std::move(all));
      AIPU_ASSIGN_OR_RETURN(const ValueId zero, scalar_view(x_zero, id));
      AIPU_ASSIGN_OR_RETURN(x, emit("Pad", std::move(border), {x, {}, zero}, id));
      attributes.set("pads", std::vector<int64_t>(pads.size(), 0));
    }
    AIPU_ASSIGN_OR_RETURN(ValueId sum, emit("aipu::QuantizedConv", attributes, {x, w, {}, weights.zero}, id));
    if (weights.rest.valid()) {
      AIPU_ASSIGN_OR_RETURN(const ValueId sums, sums_of_windows(id, x, w, attributes));
      AIPU_ASSIGN_OR_RETURN(sum, add_product(id, sum, sums, weights.rest));
    }
    if (has_zero) {
      AIPU_ASSIGN_OR_RETURN(const ValueId zero, cast(scalar_view(x_zero, id), id));
      AIPU_ASSIGN_OR_RETURN(sum, add_product(id, sum, zero, negative_sums(w, w_zero, 0)));
    }
    return replace(id, sum);
  }

  // The same for MatMulInteger.
  Result<bool> matmul_of_bytes(NodeId id, const ByteWeights& weights) {
    const ValueId x = input(id, 0), w = input(id, 1), x_zero = input(id, 2), w_zero = input(id, 3);
    AIPU_ASSIGN_OR_RETURN(ValueId sum, emit("aipu::QuantizedMatMul", {}, {x, w, {}, weights.zero}, id));
    if (weights.rest.valid()) {
      const ValueId column = ones(DType::kI8, {graph_.constant(w)->shape()[0], 1});
      AIPU_ASSIGN_OR_RETURN(const ValueId sums, emit("aipu::QuantizedMatMul", {}, {x, column}, id));
      AIPU_ASSIGN_OR_RETURN(sum, add_product(id, sum, sums, weights.rest));
    }
    if (x_zero.valid()) {
      AIPU_ASSIGN_OR_RETURN(const ValueId zero, cast(scalar_view(x_zero, id), id));
      AIPU_ASSIGN_OR_RETURN(sum, add_product(id, sum, zero, negative_sums(w, w_zero, 1)));
    }
    return replace(id, sum);
  }

  Result<ValueId> add_product(NodeId id, ValueId sum, ValueId left, ValueId right) {
    AIPU_ASSIGN_OR_RETURN(const ValueId product, emit("Mul", {}, {left, right}, id));
    return emit("Add", {}, {sum, product}, id);
  }

  // The sum of x in each window of a convolution, as int32: over the channels first, then over the positions.
  Result<ValueId> sums_of_windows(NodeId id, ValueId x, ValueId w, const Attributes& attributes) {
    std::vector<int64_t> kernel = graph_.constant(w)->shape(), point(kernel.size(), 1);
    point[1] = kernel[1];
    kernel[0] = kernel[1] = 1;
    const bool is_point = std::all_of(kernel.begin(), kernel.end(), [](int64_t extent) { return extent == 1; });
    AIPU_ASSIGN_OR_RETURN(const ValueId sums, emit("aipu::QuantizedConv", is_point ? attributes : Attributes(),
                                                   {x, ones(DType::kI8, point)}, id));
    if (is_point) return sums;
    AIPU_ASSIGN_OR_RETURN(const ValueId wide, cast(sums, id, DType::kF32));
    return cast(emit("Conv", attributes, {wide, ones(DType::kF32, kernel)}, id), id);
  }

  // ConvInteger of computed weights: float64 holds every sum exactly.
  Result<bool> conv_in_doubles(NodeId id, ValueId x, ValueId w, ValueId x_zero, ValueId w_zero) {
    Shape column(graph_.type(w).shape.size(), Dim(1));
    if (w_zero.valid()) column[0] = element_count(graph_.type(w_zero).shape);
    const Attributes attributes = node(id).attributes;
    AIPU_ASSIGN_OR_RETURN(ValueId left, cast(x, id));
    AIPU_ASSIGN_OR_RETURN(ValueId right, cast(w, id));
    if (x_zero.valid()) {
      AIPU_ASSIGN_OR_RETURN(const ValueId zero, cast(scalar_view(x_zero, id), id));
      AIPU_ASSIGN_OR_RETURN(left, emit("Sub", {}, {left, zero}, id));
    }
    if (w_zero.valid()) {
      AIPU_ASSIGN_OR_RETURN(const ValueId zero, cast(reshaped(graph_, w_zero, column, node(id).origins), id));
      AIPU_ASSIGN_OR_RETURN(right, emit("Sub", {}, {right, zero}, id));
    }
    AIPU_ASSIGN_OR_RETURN(left, cast(left, id, DType::kF64));
    AIPU_ASSIGN_OR_RETURN(right, cast(right, id, DType::kF64));
    AIPU_ASSIGN_OR_RETURN(const ValueId product, emit("Conv", attributes, {left, right}, id));
    AIPU_ASSIGN_OR_RETURN(const ValueId sums, cast(product, id));
    return replace(id, sums);
  }

  Result<ValueId> cast(Result<ValueId> value, NodeId from, DType to = DType::kI32) {
    if (!value.ok()) return value;
    Attributes attributes;
    attributes.set("to", to);
    return emit("Cast", std::move(attributes), {*value}, from);
  }
  Result<ValueId> scalar_view(ValueId value, NodeId from) { return reshaped(graph_, value, {}, node(from).origins); }

  // An operand of MatMulInteger as int32 without its zero point, which has one element, or one per row (of the left) or
  // column (of the right operand).
  Result<ValueId> centred(ValueId value, ValueId zero, bool left, NodeId from) {
    AIPU_ASSIGN_OR_RETURN(const ValueId wide, cast(value, from));
    if (!zero.valid()) return wide;
    Shape shape = graph_.type(zero).shape;
    if (element_count(shape).constant() == 1) shape.clear();
    if (left && shape.size() == 1) shape.push_back(Dim(1));
    AIPU_ASSIGN_OR_RETURN(const ValueId aligned, cast(reshaped(graph_, zero, shape, node(from).origins), from));
    return emit("Sub", {}, {wide, aligned}, from);
  }

  // Output channels of weights along axis 0, or 1 of a matrix.
  struct OutputChannel {
    OutputChannel(const std::vector<int64_t>& shape, size_t axis) : count(shape[axis]), rank(shape.size()) {
      for (size_t k = axis + 1; k < shape.size(); ++k) inner *= static_cast<size_t>(shape[k]);
    }
    size_t of(size_t element) const { return element / inner % static_cast<size_t>(count); }
    // Of values per channel that broadcast to the product; of a single one.
    std::vector<int64_t> aligned(size_t values) const {
      std::vector<int64_t> shape(rank - 1, 1);
      shape[0] = static_cast<int64_t>(values);
      return shape;
    }

    int64_t count;
    size_t rank, inner = 1;
  };

  std::vector<int64_t> zero_points(ValueId zero) const {
    return zero.valid() ? graph_.constant(zero)->to_int64s() : std::vector<int64_t>{0};
  }

  // What a zero point of 1 of x adds to each output channel, taken off: the sums of w without its zero points.
  ValueId negative_sums(ValueId w, ValueId w_zero, size_t axis) {
    const std::vector<int64_t> elements = graph_.constant(w)->to_int64s(), zeros = zero_points(w_zero);
    const OutputChannel channel(graph_.constant(w)->shape(), axis);
    std::vector<int32_t> sums(static_cast<size_t>(channel.count));
    for (size_t k = 0; k < elements.size(); ++k) {
      const size_t c = channel.of(k);
      sums[c] -= static_cast<int32_t>(elements[k] - zeros[zeros.size() == 1 ? 0 : c]);
    }
    return constant(Constant::of<int32_t>(DType::kI32, channel.aligned(sums.size()), sums), "weight_sums");
  }

  ValueId ones(DType dtype, const std::vector<int64_t>& shape) {
    const auto count = static_cast<size_t>(
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, [](int64_t a, int64_t b) { return a * b; }));
    return constant(dtype == DType::kI8 ? Constant::of<int8_t>(dtype, shape, std::vector<int8_t>(count, 1))
                                        : floats(shape, std::vector<float>(count, 1)),
                    "ones");
  }

  Result<bool> qlinear_add(NodeId id) {
    const std::vector<float> a = scale_elements(input(id, 1)), b = scale_elements(input(id, 4)),
                             c = scale_elements(input(id, 6));
    const ValueId zeros[] = {input(id, 2), input(id, 5), input(id, 7)};
    if (a.size() != 1 || b.size() != 1 || c.size() != 1) return false;
    for (const ValueId zero : zeros) {
      if (!constant_or_absent(zero) || !has_one_element(zero)) return false;
    }
    const DType dtype = graph_.type(input(id, 0)).dtype;
    AIPU_ASSIGN_OR_RETURN(const ValueId left, dequantize({input(id, 0), {}, 0, zeros[0]}, a[0] / c[0], id));
    AIPU_ASSIGN_OR_RETURN(const ValueId right, dequantize({input(id, 3), {}, 0, zeros[1]}, b[0] / c[0], id));
    AIPU_ASSIGN_OR_RETURN(const ValueId sum, emit("Add", {}, {left, right}, id));
    AIPU_ASSIGN_OR_RETURN(const ValueId rounded, round_to(sum, scalar(zeros[2]), dtype, id));
    return replace(id, rounded);
  }

  // Conv, MatMul or Gemm of a dequantised tensor by dequantised constant weights.
  Result<bool> product_of_dequantized(NodeId id, const std::string& op) {
    const bool conv = node(id).op == "Conv", gemm = node(id).op == "Gemm";
    const auto x = dequantized_8bit(input(id, 0)), w = dequantized_8bit(input(id, 1));
    if (!x || !w || !x->per_tensor() || graph_.constant(w->x) == nullptr) return false;
    const Attributes attributes = conv ? node(id).attributes : Attributes();
    bool transposed_weights = false;
    float factor = 1;
    if (gemm) {
      if (node(id).attributes.i("transA") != 0) return false;
      transposed_weights = node(id).attributes.i("transB") != 0;
      factor = static_cast<float>(node(id).attributes.f("alpha"));
    }
    if (!conv && !is_matrix(w->x)) return false;
    if (!w->per_tensor() && w->axis != (conv || transposed_weights ? 0 : 1)) return false;
    const ValueId addend = input(id, 2);
    const float beta = gemm ? static_cast<float>(node(id).attributes.f("beta")) : 1.0f;
    std::vector<float> scales = product_scales(x->scales[0], w->scales, 1);
    for (float& scale : scales) scale *= factor;

    ValueId weights = w->x;
    if (transposed_weights) weights = constant(transpose_constant(*graph_.constant(w->x), {1, 0}), "weights");
    const ValueId bias =
        beta == 1 ? integer_bias(addend, scales, conv ? graph_.type(w->x).shape[0] : graph_.type(weights).shape[1])
                  : ValueId();
    AIPU_ASSIGN_OR_RETURN(
        ValueId product,
        emit(op, attributes, {x->x, weights, scalar(x->zero), w->zero, scale_constant(scales), bias}, id));
    if (addend.valid() && !bias.valid() && beta != 0) {
      ValueId term = addend;
      if (conv) {
        Shape column(graph_.type(node(id).outputs[0]).shape.size() - 1, Dim(1));
        column[0] = graph_.type(addend).shape[0];
        AIPU_ASSIGN_OR_RETURN(term, reshaped(graph_, addend, column, node(id).origins));
      }
      if (beta != 1) {
        AIPU_ASSIGN_OR_RETURN(term, emit("Mul", {}, {term, constant(Constant::scalar_f32(beta), "beta")}, id));
      }
      AIPU_ASSIGN_OR_RETURN(product, emit("Add", {}, {product, term}, id));
    }
    return replace(id, product);
  }

  // The int32 constant behind a bias that is quantised in units of the product; absent if it is something else.
  ValueId integer_bias(ValueId addend, const std::vector<float>& scales, const Dim& channels) const {
    if (!addend.valid()) return {};
    const auto bias = dequantized(addend);
    if (!bias || graph_.constant(bias->x) == nullptr || graph_.type(bias->x).dtype != DType::kI32 ||
        !all_zero(bias->zero))
      return {};
    const Shape& shape = graph_.type(bias->x).shape;
    if (shape.size() != 1 || !(shape[0] == channels)) return {};
    for (size_t k = 0; k < std::max(scales.size(), bias->scales.size()); ++k) {
      const float expected = scales[scales.size() == 1 ? 0 : k], found = bias->scales[bias->scales.size() == 1 ? 0 : k];
      if (!(std::abs(expected - found) <= 1e-5f * std::abs(expected))) return {};
    }
    return bias->x;
  }

  // ---- DequantizeLinear moves down, until it meets a QuantizeLinear

  Result<bool> sink_dequantize(NodeId id) {
    const size_t count = moved_operands(node(id));
    if (count == 0) return false;
    const auto first = dequantized_8bit(input(id, 0));
    if (!first || !first->per_tensor() || graph_.constant(first->x) != nullptr) return false;
    std::vector<ValueId> inputs = node(id).inputs;
    for (size_t k = 0; k < count; ++k) {
      const auto other = dequantized_8bit(inputs[k]);
      if (!other || other->scales != first->scales || !same_constant(other->zero, first->zero)) return false;
      if (graph_.type(other->x).dtype != graph_.type(first->x).dtype) return false;
      inputs[k] = other->x;
    }
    const std::vector<ValueId> outputs = node(id).outputs;
    const Attributes attributes = node(id).attributes;
    const std::string op = node(id).op;
    std::vector<std::string> names;
    for (const ValueId output : outputs)
      names.push_back(output.valid() ? str_cat(graph_.value(output).name, ".integers") : "");
    AIPU_ASSIGN_OR_RETURN(const NodeId moved, graph_.add_node(op, attributes, inputs, names, node(id).origins));
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k].valid()) continue;
      AIPU_ASSIGN_OR_RETURN(const ValueId value,
                            dequantize({node(moved).outputs[k], {}, 0, first->zero}, first->scales[0], id));
      AIPU_RETURN_IF_ERROR(graph_.replace_uses(outputs[k], value));
    }
    graph_.erase_node(id);
    return true;
  }

  // Weights that the model keeps in float32 and quantises (training aware of quantisation): ONNX's definition, an
  // integer of the float32 quotient.
  Result<bool> quantize_constant(NodeId id) {
    const Constant& x = *graph_.constant(input(id, 0));
    const std::vector<float> scales = scale_elements(input(id, 1));
    const ValueId zero = input(id, 2);
    const DType dtype = graph_.type(node(id).outputs[0]).dtype;
    if (x.dtype() != DType::kF32 || !is_8bit(dtype) || scales.empty() || !constant_or_absent(zero) ||
        node(id).attributes.i_or("block_size", 0) != 0)
      return false;
    const std::vector<int64_t> zeros = zero.valid() ? graph_.constant(zero)->to_int64s() : std::vector<int64_t>{0};
    // Elements that share a scale: everything behind the axis.
    const auto axis = static_cast<size_t>(node(id).attributes.i_or("axis", 0));
    int64_t inner = 1;
    for (size_t k = axis + 1; k < x.shape().size(); ++k) inner *= x.shape()[k];
    const double low = dtype == DType::kI8 ? -128 : 0;
    std::vector<std::byte> bytes;
    for (size_t k = 0; k < static_cast<size_t>(x.element_count()); ++k) {
      const size_t channel = scales.size() == 1 ? 0 : k / static_cast<size_t>(inner) % scales.size();
      float quotient;
      std::memcpy(&quotient, x.bytes().data() + k * sizeof(float), sizeof(float));
      quotient /= scales[channel];
      const double rounded =
          std::isnan(quotient) ? 0
                               : std::nearbyint(quotient) + static_cast<double>(zeros[zeros.size() == 1 ? 0 : channel]);
      bytes.push_back(static_cast<std::byte>(static_cast<int64_t>(std::clamp(rounded, low, low + 255))));
    }
    return replace(id, constant(Constant::create(dtype, x.shape(), std::move(bytes)), "quantized"));
  }

  Result<bool> quantize(NodeId id) {
    if (graph_.constant(input(id, 0)) != nullptr) return quantize_constant(id);
    const std::vector<float> scale = scale_elements(input(id, 1));
    const ValueId zero = input(id, 2);
    if (scale.size() != 1 || !constant_or_absent(zero) || !has_one_element(zero) ||
        node(id).attributes.i_or("block_size", 0) != 0)
      return false;
    const DType dtype = graph_.type(node(id).outputs[0]).dtype;
    const auto x = dequantized_8bit(input(id, 0));
    if (x && x->per_tensor() && x->scales == scale && same_constant(x->zero, zero) && graph_.type(x->x).dtype == dtype)
      return replace(id, x->x);
    if (!(scale[0] > 0) || !is_8bit(dtype)) return false;
    AIPU_ASSIGN_OR_RETURN(const bool raised, raise_quantize(id));
    if (raised) return true;
    // What saturates anyway needs no limits in front of it.
    ValueId value = input(id, 0);
    const NodeId limiter = graph_.value(value).producer;
    const bool clamps = limiter.valid() && limits_what_saturates(limiter, scale[0], zero, dtype);
    if (clamps) {
      value = input(limiter, 0);
      if (used_once(graph_, input(id, 0))) {
        AIPU_RETURN_IF_ERROR(replace_node(graph_, limiter, value));
      } else {
        graph_.set_input(id, 0, value);
      }
    }
    if (scale[0] == 1 || !scalable(value)) return clamps;
    AIPU_ASSIGN_OR_RETURN(value, scaled(value, scale[0]));
    AIPU_ASSIGN_OR_RETURN(const ValueId rounded, round_to(value, scalar(zero), dtype, id));
    return replace(id, rounded);
  }

  // Whether a Relu or a Clip only changes numbers that the integers can't tell from its limits: these become the
  // lowest and the highest integer themselves.
  bool limits_what_saturates(NodeId id, float scale, ValueId zero, DType dtype) const {
    const double point = zero.valid() ? static_cast<double>(graph_.constant(zero)->to_int64s()[0]) : 0;
    const double lowest = dtype == DType::kI8 ? -128 : 0;
    if (node(id).op == "Relu") return point <= lowest;
    if (node(id).op != "Clip") return false;
    for (const size_t limit : {1, 2}) {
      if (!input(id, limit).valid()) continue;
      const std::vector<float> number = scale_elements(input(id, limit));
      if (number.size() != 1) return false;
      const double integer = std::nearbyint(number[0] / scale) + point;
      if (!(limit == 1 ? integer <= lowest : integer >= lowest + 255)) return false;
    }
    return true;
  }

  // QuantizeLinear goes in front of what only moves elements or takes their maximum, into the stores of whatever
  // computes them.
  Result<bool> raise_quantize(NodeId id) {
    const ValueId x = input(id, 0);
    if (const auto rounded = dequantized_8bit(x)) return raise_second_rounding(id, *rounded);
    const NodeId mover = graph_.value(x).producer;
    if (!mover.valid() || !only_quantized_as_by(id, x)) return false;
    static const std::set<std::string, std::less<>> movers = {"Concat",    "Reshape",   "Flatten", "Squeeze",
                                                              "Unsqueeze", "Transpose", "MaxPool", "DepthToSpace"};
    const bool is_mover = movers.contains(node(mover).op) && moved_operands(node(mover)) > 0;
    if (!is_mover && !repeats_elements(node(mover))) return false;
    const size_t count = is_mover ? moved_operands(node(mover)) : 1;
    const std::vector<NodeId> users = graph_.users(x);
    const std::string op = node(mover).op;
    const Attributes attributes = node(mover).attributes;
    std::vector<ValueId> inputs = node(mover).inputs;
    std::vector<NodeId> raised;
    for (size_t k = 0; k < count; ++k) {
      AIPU_ASSIGN_OR_RETURN(inputs[k],
                            emit("QuantizeLinear", node(id).attributes, {inputs[k], input(id, 1), input(id, 2)}, id));
      raised.push_back(graph_.value(inputs[k]).producer);
    }
    AIPU_ASSIGN_OR_RETURN(const ValueId moved, emit(op, attributes, std::move(inputs), mover));
    for (const NodeId user : users) {
      AIPU_RETURN_IF_ERROR(replace(user, moved).status());
    }
    graph_.erase_node(mover);
    // The last one first: of pools behind each other, each is read by the next and quantised itself.
    std::reverse(raised.begin(), raised.end());
    for (const NodeId next : raised) {
      if (!node(next).erased) AIPU_RETURN_IF_ERROR(quantize(next).status());
    }
    return true;
  }

  // Whether all that becomes of the value is what the QuantizeLinear makes of it.
  bool only_quantized_as_by(NodeId id, ValueId x) const {
    const std::vector<NodeId> users = graph_.users(x);
    return !graph_.is_graph_output(x) && std::all_of(users.begin(), users.end(), [&](NodeId user) {
      return user == id || (node(user).op == "QuantizeLinear" && node(user).inputs == node(id).inputs &&
                            node(user).attributes == node(id).attributes);
    });
  }

  // Images enlarged by repeating pixels.
  bool repeats_elements(const Node& n) const {
    if (n.op != "Resize" || n.attributes.s_or("mode", "nearest") != "nearest" ||
        n.attributes.s_or("coordinate_transformation_mode", "") == "tf_crop_and_resize")
      return false;
    const Shape &from = graph_.type(n.inputs[0]).shape, &to = graph_.type(n.outputs[0]).shape;
    for (size_t i = 0; i < from.size(); ++i) {
      if (to[i].constant_or(0) < from[i].constant_or(0)) return false;
    }
    return true;
  }

  // One that rounds again what has been rounded, in front of DepthToSpace, where the first rounding is.
  Result<bool> raise_second_rounding(NodeId id, const Dequantized& rounded) {
    const NodeId mover = producer_with_op(graph_, rounded.x, "DepthToSpace");
    if (!mover.valid() || !rounded.per_tensor() || !used_once(graph_, rounded.x) || !used_once(graph_, input(id, 0)))
      return false;
    const NodeId between = graph_.value(input(id, 0)).producer;
    const Attributes attributes = node(mover).attributes;
    AIPU_ASSIGN_OR_RETURN(const ValueId number,
                          dequantize({input(mover, 0), {}, 0, rounded.zero}, rounded.scales[0], between));
    AIPU_ASSIGN_OR_RETURN(const ValueId integer,
                          emit("QuantizeLinear", node(id).attributes, {number, input(id, 1), input(id, 2)}, id));
    AIPU_ASSIGN_OR_RETURN(const ValueId moved, emit("DepthToSpace", attributes, {integer}, mover));
    AIPU_RETURN_IF_ERROR(replace(id, moved).status());
    graph_.erase_node(between);
    graph_.erase_node(mover);
    AIPU_RETURN_IF_ERROR(quantize(graph_.value(integer).producer).status());
    return true;
  }

  // Whether value / divisor can be had by dividing constants only.
  bool scalable(ValueId value) const {
    if (const auto x = dequantized(value)) return x->per_tensor();
    if (graph_.constant(value) != nullptr) return !scale_elements(value).empty();
    const NodeId id = graph_.value(value).producer;
    if (!id.valid() || !used_once(graph_, value)) return false;
    const Node& n = node(id);
    if (n.op == "aipu::QuantizedConv" || n.op == "aipu::QuantizedMatMul") return input(id, 4).valid();
    if (n.op == "Relu" || is_pure_move(n)) return scalable(n.inputs[0]);
    if (n.op == "Add") return scalable(n.inputs[0]) && scalable(n.inputs[1]);
    if (is_affine(n))
      return is_scalable_constant(input(id, 1)) && (!input(id, 2).valid() || is_scalable_constant(input(id, 2)));
    if (n.op == "Clip") {
      for (const size_t limit : {1, 2}) {
        if (input(id, limit).valid() && scale_elements(input(id, limit)).empty()) return false;
      }
      return scalable(n.inputs[0]);
    }
    return false;
  }
  // Ops whose second and third operands are a factor and an addend of what they give.
  static bool is_affine(const Node& n) {
    return (n.op == "BatchNormalization" || n.op == "LayerNormalization" || n.op == "RMSNormalization") &&
           std::all_of(n.outputs.begin() + 1, n.outputs.end(), [](ValueId output) { return !output.valid(); });
  }
  bool is_scalable_constant(ValueId value) const { return !scale_elements(value).empty(); }
  static bool is_pure_move(const Node& n) { return n.op == "Reshape" || n.op == "Transpose" || n.op == "Flatten"; }

  Result<ValueId> scaled(ValueId value, float divisor) {
    const NodeId id = graph_.value(value).producer;
    if (const auto x = dequantized(value)) return dequantize(*x, x->scales[0] / divisor, id);
    if (const Constant* numbers = graph_.constant(value)) {
      std::vector<float> elements = scale_elements(value);
      for (float& element : elements) element /= divisor;
      return constant(floats(numbers->shape(), elements), "scaled");
    }
    const std::string op = node(id).op;
    std::vector<ValueId> inputs = node(id).inputs;
    if (op == "aipu::QuantizedConv" || op == "aipu::QuantizedMatMul") {
      std::vector<float> scales = scale_elements(inputs[4]);
      for (float& scale : scales) scale /= divisor;
      inputs[4] = scale_constant(scales);
    } else {
      const bool affine = is_affine(node(id));
      const size_t first = affine ? 1 : 0;
      const size_t count = op == "Clip"  ? inputs.size()
                           : affine      ? std::min<size_t>(inputs.size(), 3)
                           : op == "Add" ? 2
                                         : 1;
      for (size_t k = first; k < count; ++k) {
        if (!inputs[k].valid()) continue;
        AIPU_ASSIGN_OR_RETURN(inputs[k], scaled(inputs[k], divisor));
      }
    }
    const Attributes attributes = node(id).attributes;
    return emit(op, attributes, std::move(inputs), id);
  }

  Graph& graph_;
  const bool has_byte_products_;
  int count_ = 0;
};

}  // namespace

Result<int> integer_arithmetic(Graph& graph, PassContext& context) {
  AIPU_ASSIGN_OR_RETURN(const int expanded, expand_quantized_operators(graph));
  int together = 0;
  if (context.has_byte_products) {
    AIPU_ASSIGN_OR_RETURN(together, transposed_convolutions_as_products(graph));
  }
  AIPU_ASSIGN_OR_RETURN(const int rewritten, IntegerArithmetic(graph, context.has_byte_products).run());
  return expanded + together + rewritten;
}

}  // namespace aipu::graph
