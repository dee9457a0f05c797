#include "tests/reference/dnnl_executor.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace aipu::reference {
namespace {

using dnnl::memory;
using graph::Graph;
using graph::Node;
using graph::ValueId;

int64_t count(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

memory::format_tag plain(size_t rank) {
  static constexpr memory::format_tag kTags[] = {
      memory::format_tag::a,    memory::format_tag::a,     memory::format_tag::ab,    memory::format_tag::abc,
      memory::format_tag::abcd, memory::format_tag::abcde, memory::format_tag::abcdef};
  return kTags[rank];
}

class Executor {
 public:
  explicit Executor(const Graph& graph) : graph_(graph), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  Result<std::map<std::string, Tensor>> run(const std::map<std::string, Tensor>& inputs) {
    for (const ValueId input : graph_.inputs()) {
      const auto given = inputs.find(graph_.value(input).name);
      if (given == inputs.end())
        return invalid_argument(fmt::format("input '{}' is missing", graph_.value(input).name));
      values_[input.index] = given->second;
    }
    for (const graph::NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      try {
        Status status = execute(node);
        if (!status.ok()) return std::move(status).context(graph::origins_text(node.origins));
      } catch (const dnnl::error& error) {
        return internal_error(fmt::format("{}: oneDNN: {}", graph::origins_text(node.origins), error.what()));
      }
    }
    std::map<std::string, Tensor> outputs;
    for (const auto& output : graph_.outputs()) outputs[output.name] = value(output.value);
    return outputs;
  }

 private:
  const Tensor& value(ValueId id) {
    const auto known = values_.find(id.index);
    if (known != values_.end()) return known->second;
    const graph::Constant* constant = graph_.constant(id);
    Tensor tensor{constant->shape(), {}};
    for (const double element : constant->to_doubles()) tensor.data.push_back(static_cast<float>(element));
    return values_[id.index] = std::move(tensor);
  }
  const Tensor& in(const Node& node, size_t i) { return value(node.inputs[i]); }
  bool has(const Node& node, size_t i) const { return i < node.inputs.size() && node.inputs[i].valid(); }

  Tensor& out(const Node& node) {
    const auto shape = graph::static_shape(graph_.type(node.outputs[0]).shape);
    Tensor& tensor = values_[node.outputs[0].index];
    tensor.shape = *shape;
    tensor.data.assign(static_cast<size_t>(count(*shape)), 0.0f);
    return tensor;
  }

  memory::desc desc(const std::vector<int64_t>& shape) const {
    const std::vector<int64_t> dims = shape.empty() ? std::vector<int64_t>{1} : shape;
    return memory::desc(dims, memory::data_type::f32, plain(dims.size()));
  }
  memory wrap(const Tensor& tensor, const std::vector<int64_t>& shape) {
    return memory(desc(shape), engine_, const_cast<float*>(tensor.data.data()));
  }
  memory wrap(const Tensor& tensor) { return wrap(tensor, tensor.shape); }

  Status execute(const Node& node) {
    if (!graph::static_shape(graph_.type(node.outputs[0]).shape))
      return unsupported("the reference needs static shapes; give --shape");
    const std::string& op = node.op;
    if (op == "Conv" || op == "ConvTranspose") return convolution(node);
    if (op == "MaxPool" || op == "AveragePool") return pooling(node);
    if (op == "GlobalAveragePool" || op == "GlobalMaxPool") return global_pooling(node);
    if (op == "BatchNormalization") return batch_normalization(node);
    if (op == "Gemm" || op == "MatMul") return matrix(node);
    if (op == "Softmax" || op == "LogSoftmax") return softmax(node);
    if (op == "LRN") return lrn(node);
    if (op == "Concat") return concat(node);
    if (op == "Transpose") return transpose(node);
    if (op == "Reshape" || op == "Flatten" || op == "Identity" || op == "Dropout" || op == "Squeeze" ||
        op == "Unsqueeze") {
      const std::vector<float> data = in(node, 0).data;
      out(node).data = data;
      return {};
    }
    return elementwise(node);
  }

  Status convolution(const Node& node) {
    const Tensor x = in(node, 0), w = in(node, 1);
    const int64_t group = node.attributes.i("group");
    const bool transposed = node.op == "ConvTranspose";
    std::vector<int64_t> w_shape = w.shape;
    Tensor weights = w;
    if (transposed) {  // [IC, OC/g, ...] -> [g, OC/g, IC/g, ...]
      const int64_t ic = w.shape[0] / group, oc = w.shape[1], taps = count(w.shape) / (w.shape[0] * oc);
      for (int64_t g = 0; g < group; ++g)
        for (int64_t o = 0; o < oc; ++o)
          for (int64_t i = 0; i < ic; ++i)
            std::memcpy(&weights.data[static_cast<size_t>(((g * oc + o) * ic + i) * taps)],
                        &w.data[static_cast<size_t>(((g * ic + i) * oc + o) * taps)],
                        sizeof(float) * static_cast<size_t>(taps));
      w_shape = {group, oc, ic};
      w_shape.insert(w_shape.end(), w.shape.begin() + 2, w.shape.end());
    } else {
      w_shape = {group, w.shape[0] / group, w.shape[1]};
      w_shape.insert(w_shape.end(), w.shape.begin() + 2, w.shape.end());
    }
    if (group == 1) w_shape.erase(w_shape.begin());
    Tensor& y = out(node);
    const size_t spatial = x.shape.size() - 2;
    const auto& strides = node.attributes.ints("strides");
    std::vector<int64_t> dilations = node.attributes.ints("dilations");
    for (int64_t& d : dilations) --d;
    const auto& kernel = std::vector<int64_t>(w.shape.begin() + 2, w.shape.end());
    std::vector<int64_t> begin(spatial), end(spatial);
    for (size_t i = 0; i < spatial; ++i) {
      begin[i] = node.attributes.ints("pads")[i];
      const int64_t reach = (kernel[i] - 1) * (dilations[i] + 1) + 1;
      end[i] = transposed ? (x.shape[i + 2] - 1) * strides[i] + reach - begin[i] - y.shape[i + 2]
                          : (y.shape[i + 2] - 1) * strides[i] + reach - x.shape[i + 2] - begin[i];
    }
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, wrap(x)}, {DNNL_ARG_WEIGHTS, wrap(weights, w_shape)}, {DNNL_ARG_DST, wrap(y)}};
    Tensor bias;
    bias.data.assign(static_cast<size_t>(y.shape[1]), 0.0f);
    if (has(node, 2)) bias.data = in(node, 2).data;
    arguments.emplace(DNNL_ARG_BIAS, wrap(bias, {y.shape[1]}));
    if (transposed) {
      const dnnl::deconvolution_forward::desc d(dnnl::prop_kind::forward_inference,
                                                dnnl::algorithm::deconvolution_direct, desc(x.shape), desc(w_shape),
                                                desc({y.shape[1]}), desc(y.shape), strides, dilations, begin, end);
      dnnl::deconvolution_forward(dnnl::deconvolution_forward::primitive_desc(d, engine_)).execute(stream_, arguments);
    } else {
      const dnnl::convolution_forward::desc d(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                              desc(x.shape), desc(w_shape), desc({y.shape[1]}), desc(y.shape), strides,
                                              dilations, begin, end);
      dnnl::convolution_forward(dnnl::convolution_forward::primitive_desc(d, engine_)).execute(stream_, arguments);
    }
    stream_.wait();
    return {};
  }

  Status run_pooling(dnnl::algorithm algorithm, const Tensor& x, Tensor& y, const std::vector<int64_t>& kernel,
                     const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations,
                     const std::vector<int64_t>& begin) {
    std::vector<int64_t> zero_based = dilations, end(kernel.size());
    for (size_t i = 0; i < kernel.size(); ++i) {
      end[i] = (y.shape[i + 2] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - x.shape[i + 2] - begin[i];
      --zero_based[i];
    }
    const dnnl::pooling_v2_forward::desc d(dnnl::prop_kind::forward_inference, algorithm, desc(x.shape), desc(y.shape),
                                           strides, kernel, zero_based, begin, end);
    dnnl::pooling_v2_forward(dnnl::pooling_v2_forward::primitive_desc(d, engine_))
        .execute(stream_, {{DNNL_ARG_SRC, wrap(x)}, {DNNL_ARG_DST, wrap(y)}});
    stream_.wait();
    return {};
  }

  Status pooling(const Node& node) {
    const Tensor x = in(node, 0);
    const size_t spatial = x.shape.size() - 2;
    const std::vector<int64_t> begin(node.attributes.ints("pads").begin(),
                                     node.attributes.ints("pads").begin() + static_cast<ptrdiff_t>(spatial));
    const bool include = node.op == "AveragePool" && node.attributes.i("count_include_pad") != 0;
    const auto algorithm = node.op == "MaxPool" ? dnnl::algorithm::pooling_max
                           : include            ? dnnl::algorithm::pooling_avg_include_padding
                                                : dnnl::algorithm::pooling_avg_exclude_padding;
    return run_pooling(algorithm, x, out(node), node.attributes.ints("kernel_shape"), node.attributes.ints("strides"),
                       node.attributes.ints("dilations"), begin);
  }

  Status global_pooling(const Node& node) {
    const Tensor x = in(node, 0);
    const std::vector<int64_t> kernel(x.shape.begin() + 2, x.shape.end());
    const std::vector<int64_t> ones(kernel.size(), 1), zeros(kernel.size(), 0);
    return run_pooling(
        node.op == "GlobalMaxPool" ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_exclude_padding, x,
        out(node), kernel, ones, ones, zeros);
  }

  Status batch_normalization(const Node& node) {
    const Tensor x = in(node, 0), scale = in(node, 1), shift = in(node, 2), mean = in(node, 3), variance = in(node, 4);
    Tensor& y = out(node);
    Tensor scale_shift;
    scale_shift.shape = {2, x.shape[1]};
    scale_shift.data = scale.data;
    scale_shift.data.insert(scale_shift.data.end(), shift.data.begin(), shift.data.end());
    const dnnl::batch_normalization_forward::desc d(
        dnnl::prop_kind::forward_inference, desc(x.shape), static_cast<float>(node.attributes.f("epsilon")),
        dnnl::normalization_flags::use_global_stats | dnnl::normalization_flags::use_scale_shift);
    dnnl::batch_normalization_forward(dnnl::batch_normalization_forward::primitive_desc(d, engine_))
        .execute(stream_, {{DNNL_ARG_SRC, wrap(x)},
                           {DNNL_ARG_MEAN, wrap(mean)},
                           {DNNL_ARG_VARIANCE, wrap(variance)},
                           {DNNL_ARG_SCALE_SHIFT, wrap(scale_shift)},
                           {DNNL_ARG_DST, wrap(y)}});
    stream_.wait();
    return {};
  }

  Status matrix(const Node& node) {
    const Tensor a = in(node, 0), b = in(node, 1);
    Tensor& y = out(node);
    const bool gemm = node.op == "Gemm";
    const bool trans_a = gemm && node.attributes.i("transA") != 0, trans_b = gemm && node.attributes.i("transB") != 0;
    if (a.shape.size() < 2 || b.shape.size() < 2) return unsupported("vector operands");
    std::vector<int64_t> a_shape = a.shape, b_shape = b.shape;
    const size_t rank = y.shape.size();
    while (a_shape.size() < rank) a_shape.insert(a_shape.begin(), 1);
    while (b_shape.size() < rank) b_shape.insert(b_shape.begin(), 1);
    auto strided = [&](std::vector<int64_t> shape, bool transpose) {
      std::vector<int64_t> strides(shape.size(), 1);
      for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
      if (transpose) {
        std::swap(shape[rank - 1], shape[rank - 2]);
        std::swap(strides[rank - 1], strides[rank - 2]);
      }
      return memory::desc(shape, memory::data_type::f32, strides);
    };
    const memory::desc a_desc = strided(a_shape, trans_a), b_desc = strided(b_shape, trans_b);
    const dnnl::matmul::desc d(a_desc, b_desc, desc(y.shape));
    dnnl::primitive_attr attributes;
    if (gemm) attributes.set_output_scales(0, {static_cast<float>(node.attributes.f("alpha"))});
    dnnl::matmul(dnnl::matmul::primitive_desc(d, attributes, engine_))
        .execute(stream_, {{DNNL_ARG_SRC, memory(a_desc, engine_, const_cast<float*>(a.data.data()))},
                           {DNNL_ARG_WEIGHTS, memory(b_desc, engine_, const_cast<float*>(b.data.data()))},
                           {DNNL_ARG_DST, wrap(y)}});
    stream_.wait();
    if (gemm && has(node, 2)) {
      const Tensor c = in(node, 2);
      const auto beta = static_cast<float>(node.attributes.f("beta"));
      for (size_t i = 0; i < y.data.size(); ++i) y.data[i] += beta * c.data[broadcast_index(i, y.shape, c.shape)];
    }
    return {};
  }

  Status softmax(const Node& node) {
    const Tensor x = in(node, 0);
    Tensor& y = out(node);
    int64_t axis = node.attributes.i("axis");
    if (axis < 0) axis += static_cast<int64_t>(x.shape.size());
    const auto algorithm = node.op == "Softmax" ? dnnl::algorithm::softmax_accurate : dnnl::algorithm::softmax_log;
    const dnnl::softmax_v2_forward::desc d(dnnl::prop_kind::forward_inference, algorithm, desc(x.shape), desc(y.shape),
                                           static_cast<int>(axis));
    dnnl::softmax_v2_forward(dnnl::softmax_v2_forward::primitive_desc(d, engine_))
        .execute(stream_, {{DNNL_ARG_SRC, wrap(x)}, {DNNL_ARG_DST, wrap(y)}});
    stream_.wait();
    return {};
  }

  Status lrn(const Node& node) {
    const Tensor x = in(node, 0);
    Tensor& y = out(node);
    const dnnl::lrn_forward::desc d(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, desc(x.shape),
        node.attributes.i("size"), static_cast<float>(node.attributes.f("alpha")),
        static_cast<float>(node.attributes.f("beta")), static_cast<float>(node.attributes.f("bias")));
    dnnl::lrn_forward(dnnl::lrn_forward::primitive_desc(d, engine_))
        .execute(stream_, {{DNNL_ARG_SRC, wrap(x)}, {DNNL_ARG_DST, wrap(y)}});
    stream_.wait();
    return {};
  }

  Status concat(const Node& node) {
    Tensor& y = out(node);
    int64_t axis = node.attributes.i("axis");
    if (axis < 0) axis += static_cast<int64_t>(y.shape.size());
    const auto at = static_cast<size_t>(axis);
    const int64_t outer = count({y.shape.begin(), y.shape.begin() + axis}),
                  inner = count({y.shape.begin() + axis + 1, y.shape.end()});
    int64_t start = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor x = in(node, i);
      const int64_t block = x.shape[at] * inner;
      for (int64_t o = 0; o < outer; ++o) {
        std::memcpy(&y.data[static_cast<size_t>((o * y.shape[at] + start) * inner)],
                    &x.data[static_cast<size_t>(o * block)], sizeof(float) * static_cast<size_t>(block));
      }
      start += x.shape[at];
    }
    return {};
  }

  Status transpose(const Node& node) {
    const Tensor x = in(node, 0);
    Tensor& y = out(node);
    const auto& perm = node.attributes.ints("perm");
    std::vector<int64_t> strides(x.shape.size(), 1);
    for (size_t i = x.shape.size(); i-- > 1;) strides[i - 1] = strides[i] * x.shape[i];
    for (size_t n = 0; n < y.data.size(); ++n) {
      int64_t rest = static_cast<int64_t>(n), offset = 0;
      for (size_t i = y.shape.size(); i-- > 0;) {
        offset += rest % y.shape[i] * strides[static_cast<size_t>(perm[i])];
        rest /= y.shape[i];
      }
      y.data[n] = x.data[static_cast<size_t>(offset)];
    }
    return {};
  }

  static size_t broadcast_index(size_t n, const std::vector<int64_t>& space, const std::vector<int64_t>& shape) {
    int64_t rest = static_cast<int64_t>(n), offset = 0, stride = 1;
    for (size_t i = space.size(); i-- > 0;) {
      const int64_t position = rest % space[i];
      rest /= space[i];
      const auto own = static_cast<ptrdiff_t>(i) - static_cast<ptrdiff_t>(space.size() - shape.size());
      if (own < 0) continue;
      if (shape[static_cast<size_t>(own)] != 1) offset += position * stride;
      stride *= shape[static_cast<size_t>(own)];
    }
    return static_cast<size_t>(offset);
  }

  Status elementwise(const Node& node) {
    using Operation = double (*)(double, double);
    static const std::map<std::string, Operation> kOperations = {
        {"Relu", [](double a, double) { return a > 0 ? a : 0.0; }},
        {"Sigmoid", [](double a, double) { return 1 / (1 + std::exp(-a)); }},
        {"Tanh", [](double a, double) { return std::tanh(a); }},
        {"Erf", [](double a, double) { return std::erf(a); }},
        {"Sqrt", [](double a, double) { return std::sqrt(a); }},
        {"Exp", [](double a, double) { return std::exp(a); }},
        {"Neg", [](double a, double) { return -a; }},
        {"HardSwish", [](double a, double) { return a * std::min(std::max(a / 6 + 0.5, 0.0), 1.0); }},
        {"Add", [](double a, double b) { return a + b; }},
        {"Sum", [](double a, double b) { return a + b; }},
        {"Sub", [](double a, double b) { return a - b; }},
        {"Mul", [](double a, double b) { return a * b; }},
        {"Div", [](double a, double b) { return a / b; }},
        {"Pow", [](double a, double b) { return std::pow(a, b); }},
    };
    const auto operation = kOperations.find(node.op);
    const bool clip = node.op == "Clip";
    const bool hard_sigmoid = node.op == "HardSigmoid";
    if (!clip && !hard_sigmoid && operation == kOperations.end())
      return unsupported(fmt::format("op {} is not covered by the oneDNN reference", node.op));
    Tensor result = in(node, 0);
    const auto shape = *graph::static_shape(graph_.type(node.outputs[0]).shape);
    Tensor y{shape, std::vector<float>(static_cast<size_t>(count(shape)))};
    for (size_t n = 0; n < y.data.size(); ++n) {
      double v = result.data[broadcast_index(n, shape, result.shape)];
      if (clip) {
        if (has(node, 1)) v = std::max(v, static_cast<double>(in(node, 1).data[0]));
        if (has(node, 2)) v = std::min(v, static_cast<double>(in(node, 2).data[0]));
      } else if (hard_sigmoid) {
        v = std::clamp(v * node.attributes.f_or("alpha", 0.2) + node.attributes.f_or("beta", 0.5), 0.0, 1.0);
      } else if (node.inputs.size() == 1) {
        v = operation->second(v, 0);
      } else {
        for (size_t i = 1; i < node.inputs.size(); ++i) {
          const Tensor& other = in(node, i);
          v = operation->second(v, other.data[broadcast_index(n, shape, other.shape)]);
        }
      }
      y.data[n] = static_cast<float>(v);
    }
    values_[node.outputs[0].index] = std::move(y);
    return {};
  }

  const Graph& graph_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unordered_map<int, Tensor> values_;
};

}  // namespace

Result<std::map<std::string, Tensor>> run_with_dnnl(const Graph& graph, const std::map<std::string, Tensor>& inputs) {
  return Executor(graph).run(inputs);
}

}  // namespace aipu::reference
