#include "models/onnx_builder.h"

#include <aipu_onnx/onnx.pb.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "runtime/base/file.h"

namespace aipu::models {

struct OnnxBuilder::Impl {
  onnx::ModelProto model;
  std::map<std::string, int> names;
  onnx::GraphProto& graph() { return *model.mutable_graph(); }
};

struct BuilderAccess {
  static const onnx::ModelProto& model(const OnnxBuilder& builder) { return builder.impl_->model; }
};

namespace {

using Attribute = onnx::AttributeProto;

void fill(onnx::TensorProto* proto, const TensorData& data) {
  proto->set_data_type(dtype_info(data.dtype).onnx);
  for (const int64_t extent : data.shape) proto->add_dims(extent);
  proto->set_raw_data(data.bytes.data(), data.bytes.size());
}

void fill(onnx::ValueInfoProto* info, const std::string& name, DType dtype, const Extents* extents) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(dtype_info(dtype).onnx);
  if (extents == nullptr) return;
  auto* shape = tensor->mutable_shape();
  for (const Extent& extent : *extents) {
    auto* dim = shape->add_dim();
    if (const auto* fixed = std::get_if<int64_t>(&extent.value)) {
      dim->set_dim_value(*fixed);
    } else if (const auto& symbol = std::get<std::string>(extent.value); !symbol.empty()) {
      dim->set_dim_param(symbol);
    }
  }
}

void fill(Attribute* proto, const NamedAttribute& attribute) {
  struct Visitor {
    Attribute* p;
    void operator()(int64_t v) const { p->set_type(Attribute::INT), p->set_i(v); }
    void operator()(double v) const { p->set_type(Attribute::FLOAT), p->set_f(static_cast<float>(v)); }
    void operator()(const std::string& v) const { p->set_type(Attribute::STRING), p->set_s(v); }
    void operator()(const std::vector<int64_t>& v) const {
      p->set_type(Attribute::INTS);
      for (const int64_t x : v) p->add_ints(x);
    }
    void operator()(const std::vector<double>& v) const {
      p->set_type(Attribute::FLOATS);
      for (const double x : v) p->add_floats(static_cast<float>(x));
    }
    void operator()(const std::vector<std::string>& v) const {
      p->set_type(Attribute::STRINGS);
      for (const auto& x : v) p->add_strings(x);
    }
    void operator()(const TensorData& v) const { p->set_type(Attribute::TENSOR), fill(p->mutable_t(), v); }
    void operator()(const OnnxBuilder* v) const {
      p->set_type(Attribute::GRAPH), *p->mutable_g() = BuilderAccess::model(*v).graph();
    }
  };
  proto->set_name(attribute.name);
  std::visit(Visitor{proto}, attribute.value);
}

}  // namespace

OnnxBuilder::OnnxBuilder(std::string graph_name, uint64_t seed) : impl_(std::make_unique<Impl>()), random_(seed) {
  impl_->graph().set_name(std::move(graph_name));
  impl_->model.set_producer_name("aipu");
  set_ir_version(8);
  set_opset(17);
}

OnnxBuilder::~OnnxBuilder() = default;

std::string OnnxBuilder::fresh(const std::string& hint) {
  const int count = impl_->names[hint]++;
  return count == 0 ? hint : str_cat(hint, "_", count);
}

void OnnxBuilder::set_opset(int64_t version, const std::string& domain) {
  for (auto& import : *impl_->model.mutable_opset_import()) {
    if (import.domain() == domain) return import.set_version(version);
  }
  auto* import = impl_->model.add_opset_import();
  import->set_domain(domain);
  import->set_version(version);
}

void OnnxBuilder::set_ir_version(int64_t version) { impl_->model.set_ir_version(version); }

void OnnxBuilder::add_function(const std::string& domain, const std::string& name, const OnnxBuilder& body,
                               const std::vector<std::string>& attributes, const NamedAttributes& defaults) {
  auto* function = impl_->model.add_functions();
  function->set_domain(domain);
  function->set_name(name);
  const auto& graph = body.impl_->model.graph();
  for (const auto& in : graph.input()) function->add_input(in.name());
  for (const auto& out : graph.output()) function->add_output(out.name());
  *function->mutable_node() = graph.node();
  *function->mutable_opset_import() = body.impl_->model.opset_import();
  for (const auto& attribute : attributes) function->add_attribute(attribute);
  for (const auto& attribute : defaults) fill(function->add_attribute_proto(), attribute);
  set_opset(1, domain);
}

void OnnxBuilder::set_attribute_reference(const std::string& output, const std::string& attribute,
                                          const std::string& function_attribute) {
  for (auto& node : *impl_->graph().mutable_node()) {
    for (const auto& name : node.output()) {
      if (name != output) continue;
      for (auto& proto : *node.mutable_attribute()) {
        if (proto.name() != attribute) continue;
        const auto type = proto.type();
        proto.Clear();
        proto.set_name(attribute);
        proto.set_type(type);
        proto.set_ref_attr_name(function_attribute);
      }
    }
  }
}

std::string OnnxBuilder::input(const std::string& name, DType dtype, const Extents& extents) {
  impl_->names[name] = 1;
  fill(impl_->graph().add_input(), name, dtype, &extents);
  return name;
}

std::string OnnxBuilder::input_of_any_shape(const std::string& name, DType dtype) {
  impl_->names[name] = 1;
  fill(impl_->graph().add_input(), name, dtype, nullptr);
  return name;
}

void OnnxBuilder::output(const std::string& value, const std::string& name, DType dtype, const Extents& extents) {
  if (value != name) node_to("Identity", {value}, {name});
  fill(impl_->graph().add_output(), name, dtype, &extents);
}

void OnnxBuilder::output(const std::string& name) { impl_->graph().add_output()->set_name(name); }

std::string OnnxBuilder::initializer(const TensorData& data, const std::string& name) {
  std::string chosen = name.empty() ? fresh("const") : name;
  auto* proto = impl_->graph().add_initializer();
  fill(proto, data);
  proto->set_name(chosen);
  return chosen;
}

std::string OnnxBuilder::typed_initializer(const TensorData& data, const std::string& name) {
  std::string chosen = initializer(data, name);
  auto& proto = *impl_->graph().mutable_initializer(impl_->graph().initializer_size() - 1);
  const size_t size = dtype_bytes(data.dtype);
  for (size_t at = 0; at + size <= data.bytes.size(); at += size) {
    const std::byte* element = data.bytes.data() + at;
    const auto as = [element]<typename T>(T value) {
      std::memcpy(&value, element, sizeof(T));
      return value;
    };
    switch (data.dtype) {
      case DType::kF32:
        proto.add_float_data(as(float{}));
        break;
      case DType::kF64:
        proto.add_double_data(as(double{}));
        break;
      case DType::kI64:
        proto.add_int64_data(as(int64_t{}));
        break;
      case DType::kU64:
        proto.add_uint64_data(as(uint64_t{}));
        break;
      case DType::kU32:
        proto.add_uint64_data(as(uint32_t{}));
        break;
      case DType::kI32:
        proto.add_int32_data(as(int32_t{}));
        break;
      case DType::kI16:
        proto.add_int32_data(as(int16_t{}));
        break;
      case DType::kI8:
        proto.add_int32_data(as(int8_t{}));
        break;
      case DType::kU8:
      case DType::kBool:
        proto.add_int32_data(as(uint8_t{}));
        break;
      default:
        proto.add_int32_data(as(uint16_t{}));
        break;  // uint16 and the 16-bit floats by their bits
    }
  }
  proto.clear_raw_data();
  return chosen;
}

std::string OnnxBuilder::sparse_initializer(const TensorData& values, const TensorData& indices,
                                            const std::vector<int64_t>& shape, const std::string& name) {
  auto* proto = impl_->graph().add_sparse_initializer();
  fill(proto->mutable_values(), values);
  proto->mutable_values()->set_name(name);
  fill(proto->mutable_indices(), indices);
  for (const int64_t extent : shape) proto->add_dims(extent);
  return name;
}

std::string OnnxBuilder::ints(const std::vector<int64_t>& elements) {
  const auto count = static_cast<int64_t>(elements.size());
  return initializer(TensorData::i64({count}, elements));
}

std::string OnnxBuilder::scalar(float value) { return initializer(TensorData::f32({}, {value})); }

std::vector<std::string> OnnxBuilder::node(const std::string& op, const std::vector<std::string>& inputs,
                                           const NamedAttributes& attributes, size_t outputs,
                                           const std::string& domain) {
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) names.push_back(fresh(op));
  node_to(op, inputs, names, attributes, domain);
  return names;
}

std::string OnnxBuilder::op(const std::string& op, const std::vector<std::string>& inputs,
                            const NamedAttributes& attributes, const std::string& domain) {
  return node(op, inputs, attributes, 1, domain)[0];
}

void OnnxBuilder::node_to(const std::string& op, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs, const NamedAttributes& attributes,
                          const std::string& domain) {
  auto* node = impl_->graph().add_node();
  node->set_op_type(op);
  node->set_domain(domain);
  std::string name = op;
  for (const auto& output : outputs) {
    if (!output.empty()) {
      name = "/" + output;
      break;
    }
  }
  node->set_name(name);
  for (const auto& in : inputs) node->add_input(in);
  for (const auto& out : outputs) node->add_output(out);
  for (const auto& attribute : attributes) fill(node->add_attribute(), attribute);
}

// ---- layers

std::string OnnxBuilder::weight(std::vector<int64_t> shape, double scale, const std::string& hint) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  // The sum of twelve uniform numbers is close to normal and, unlike std::normal_distribution, the same with every
  // standard library.
  std::vector<float> elements(static_cast<size_t>(count));
  for (float& element : elements) {
    double sum = -6.0;
    for (int i = 0; i < 4; ++i) {
      const uint64_t bits = random_();
      for (int part = 0; part < 3; ++part) sum += static_cast<double>((bits >> (21 * part)) & 0x1fffff) / 2097152.0;
    }
    element = static_cast<float>(sum * scale);
  }
  return initializer(TensorData::f32(std::move(shape), elements), fresh(hint));
}

std::string OnnxBuilder::conv(const std::string& x, int64_t in_channels, int64_t out_channels,
                              const ConvOptions& options) {
  std::vector<int64_t> shape{out_channels, in_channels / options.groups};
  int64_t fan_in = in_channels / options.groups;
  for (const int64_t extent : options.kernel) {
    shape.push_back(extent);
    fan_in *= extent;
  }
  std::vector<std::string> inputs{x, weight(shape, options.gain / std::sqrt(static_cast<double>(fan_in)))};
  if (options.bias) inputs.push_back(weight({out_channels}, 0.05, "b"));
  const size_t rank = options.kernel.size();
  const auto or_ones = [&](const std::vector<int64_t>& v) { return v.empty() ? std::vector<int64_t>(rank, 1) : v; };
  const auto pads = options.pads.empty() ? std::vector<int64_t>(2 * rank, 0) : options.pads;
  return op("Conv", inputs,
            {{"kernel_shape", options.kernel},
             {"strides", or_ones(options.strides)},
             {"pads", pads},
             {"dilations", or_ones(options.dilations)},
             {"group", options.groups}});
}

std::string OnnxBuilder::batch_norm(const std::string& x, int64_t channels, double gain) {
  const auto near = [&](const std::string& hint, float centre) {
    std::vector<float> elements(static_cast<size_t>(channels));
    // [0.75, 1.25) of it
    for (float& element : elements) element = centre * (0.75f + static_cast<float>(random_() >> 40) / 33554432.0f);
    return initializer(TensorData::f32({channels}, elements), fresh(hint));
  };
  const std::string scale = near("bn_scale", static_cast<float>(gain));
  const std::string bias = weight({channels}, 0.1, "bn_bias");
  const std::string mean = weight({channels}, 0.1, "bn_mean");
  const std::string variance = near("bn_var", 1.0f);
  return op("BatchNormalization", {x, scale, bias, mean, variance}, {{"epsilon", 1e-5}});
}

std::string OnnxBuilder::conv_bn(const std::string& x, int64_t in_channels, int64_t out_channels, ConvOptions options,
                                 double bn_gain) {
  options.bias = false;
  return batch_norm(conv(x, in_channels, out_channels, options), out_channels, bn_gain);
}

std::string OnnxBuilder::max_pool(const std::string& x, int64_t kernel, int64_t stride, int64_t pad) {
  return op("MaxPool", {x},
            {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
             {"strides", std::vector<int64_t>{stride, stride}},
             {"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
}

std::string OnnxBuilder::gemm(const std::string& x, int64_t in_features, int64_t out_features, double gain) {
  const std::string w = weight({out_features, in_features}, gain / std::sqrt(static_cast<double>(in_features)));
  return op("Gemm", {x, w, weight({out_features}, 0.05, "b")}, {{"transB", 1}});
}

std::string OnnxBuilder::linear(const std::string& x, int64_t in_features, int64_t out_features, double gain) {
  const std::string w = weight({in_features, out_features}, gain / std::sqrt(static_cast<double>(in_features)));
  return op("Add", {op("MatMul", {x, w}), weight({out_features}, 0.02, "b")});
}

std::string OnnxBuilder::layer_norm(const std::string& x, int64_t features) {
  const std::string scale = initializer(
      TensorData::f32({features}, std::vector<float>(static_cast<size_t>(features), 1.0f)), fresh("ln_scale"));
  return op("LayerNormalization", {x, scale, weight({features}, 0.02, "ln_bias")}, {{"axis", -1}, {"epsilon", 1e-5}});
}

// ---- shapes

std::string OnnxBuilder::extent(const std::string& x, int64_t axis) {
  const auto index = initializer(TensorData::i64({}, {axis}));
  return op("Unsqueeze", {op("Gather", {op("Shape", {x}), index}, {{"axis", 0}}), ints({0})});
}

std::string OnnxBuilder::reshape(const std::string& x, const std::vector<std::variant<int64_t, std::string>>& extents) {
  std::vector<int64_t> numbers;
  std::vector<std::string> parts;
  for (const auto& extent : extents) {
    if (const auto* number = std::get_if<int64_t>(&extent)) {
      numbers.push_back(*number);
      parts.push_back(ints({*number}));
    } else {
      parts.push_back(std::get<std::string>(extent));
    }
  }
  if (numbers.size() == extents.size()) return op("Reshape", {x, ints(numbers)});
  return op("Reshape", {x, op("Concat", parts, {{"axis", 0}})});
}

// ---- the file

std::string OnnxBuilder::serialize() const {
  std::string bytes;
  impl_->model.SerializeToString(&bytes);
  return bytes;
}

Status OnnxBuilder::save(const std::string& path) const { return write_file_atomically(path, serialize()); }

Status OnnxBuilder::save_with_external_data(const std::string& path, const std::string& file_name,
                                            size_t min_bytes) const {
  onnx::ModelProto model = impl_->model;
  std::string data;
  for (auto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.raw_data().size() < min_bytes) continue;
    data.resize((data.size() + 63) / 64 * 64);
    const auto entry = [&](const char* key, const std::string& value) {
      auto* pair = tensor.add_external_data();
      pair->set_key(key);
      pair->set_value(value);
    };
    entry("location", file_name);
    entry("offset", std::to_string(data.size()));
    entry("length", std::to_string(tensor.raw_data().size()));
    data += tensor.raw_data();
    tensor.clear_raw_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  }
  AIPU_RETURN_IF_ERROR(write_file_atomically((std::filesystem::path(path).parent_path() / file_name).string(), data));
  std::string bytes;
  model.SerializeToString(&bytes);
  return write_file_atomically(path, bytes);
}

}  // namespace aipu::models
