// Writes ONNX models: nodes, seeded weights, and helpers for the layers networks are made of. What the demo, the tests
// and the benchmarks build models with.
//
//   OnnxBuilder b("net", /*seed=*/1);
//   auto x = b.input("x", DType::kF32, {"N", 3, 32, 32});
//   x = b.relu(b.conv(x, 3, 16, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
//   b.output(x, "y", DType::kF32, {"N", 16, 32, 32});
//   b.save("net.onnx");
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace aipu::models {

// A fixed extent or a dim_param; "" is an extent without a name.
struct Extent {
  Extent(int64_t fixed) : value(fixed) {}                     // NOLINT: extents are written {"N", 3, 224, 224}
  Extent(int fixed) : value(int64_t{fixed}) {}                // NOLINT
  Extent(const char* symbol) : value(std::string(symbol)) {}  // NOLINT
  Extent(std::string symbol) : value(std::move(symbol)) {}    // NOLINT
  std::variant<int64_t, std::string> value;
};
using Extents = std::vector<Extent>;

struct TensorData {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;  // C order

  template <typename T>
  static TensorData of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& elements) {
    const auto bytes = std::as_bytes(std::span(elements));
    return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
  }
  static TensorData f32(std::vector<int64_t> shape, const std::vector<float>& elements) {
    return of(DType::kF32, std::move(shape), elements);
  }
  static TensorData i64(std::vector<int64_t> shape, const std::vector<int64_t>& elements) {
    return of(DType::kI64, std::move(shape), elements);
  }
};

class OnnxBuilder;
// A float attribute is a double or a float here; ints and floats are vectors.
using AttributeData = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                                   std::vector<std::string>, TensorData, const OnnxBuilder*>;
struct NamedAttribute {
  NamedAttribute(std::string name_, int value_) : name(std::move(name_)), value(int64_t{value_}) {}
  NamedAttribute(std::string name_, int64_t value_) : name(std::move(name_)), value(value_) {}
  NamedAttribute(std::string name_, double value_) : name(std::move(name_)), value(value_) {}
  NamedAttribute(std::string name_, const char* value_) : name(std::move(name_)), value(std::string(value_)) {}
  NamedAttribute(std::string name_, AttributeData value_) : name(std::move(name_)), value(std::move(value_)) {}
  std::string name;
  AttributeData value;
};
using NamedAttributes = std::vector<NamedAttribute>;

struct ConvOptions {
  std::vector<int64_t> kernel = {3, 3};
  std::vector<int64_t> strides = {};
  std::vector<int64_t> pads = {};  // begins, then ends
  std::vector<int64_t> dilations = {};
  int64_t groups = 1;
  bool bias = true;
  // output deviation over the input's root mean square; the default suits a ReLU behind it
  double gain = 1.4142135623730951;
};

class OnnxBuilder {
 public:
  explicit OnnxBuilder(std::string graph_name = "graph", uint64_t seed = 1);
  ~OnnxBuilder();
  OnnxBuilder(const OnnxBuilder&) = delete;
  OnnxBuilder& operator=(const OnnxBuilder&) = delete;

  // ---- the model
  void set_opset(int64_t version, const std::string& domain = "");  // default: 17 of the default domain
  void set_ir_version(int64_t version);                             // default: 8
  // Defines a model-local function from another builder's graph: its inputs and outputs are names, its nodes the body.
  // `defaults` are attributes of the function that a call may leave out.
  void add_function(const std::string& domain, const std::string& name, const OnnxBuilder& body,
                    const std::vector<std::string>& attributes = {}, const NamedAttributes& defaults = {});
  // In the bodies of functions: an attribute of the node with this output whose value is the function's attribute.
  void set_attribute_reference(const std::string& output, const std::string& attribute,
                               const std::string& function_attribute);

  // ---- the graph; values are their names
  std::string input(const std::string& name, DType dtype, const Extents& extents);
  std::string input_of_any_shape(const std::string& name, DType dtype);
  void output(const std::string& value, const std::string& name, DType dtype,
              const Extents& extents);   // through an Identity if the names differ
  void output(const std::string& name);  // without a type, of a value of that name
  std::string initializer(const TensorData& data, const std::string& name = "");
  // Elements in float_data, int32_data, ... instead of raw bytes, as some exporters write them.
  std::string typed_initializer(const TensorData& data, const std::string& name = "");
  // `indices` are [count] positions or [count, rank] coordinates of the values in a tensor of `shape`.
  std::string sparse_initializer(const TensorData& values, const TensorData& indices, const std::vector<int64_t>& shape,
                                 const std::string& name);
  std::string ints(const std::vector<int64_t>& elements);  // a 1-D int64 initializer
  std::string scalar(float value);
  std::vector<std::string> node(const std::string& op, const std::vector<std::string>& inputs,
                                const NamedAttributes& attributes, size_t outputs, const std::string& domain = "");
  std::string op(const std::string& op, const std::vector<std::string>& inputs, const NamedAttributes& attributes = {},
                 const std::string& domain = "");
  // The same with given output names ("" is absent).
  void node_to(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
               const NamedAttributes& attributes = {}, const std::string& domain = "");

  // ---- layers with seeded weights
  // normal, standard deviation `scale`
  std::string weight(std::vector<int64_t> shape, double scale, const std::string& hint = "w");
  std::string conv(const std::string& x, int64_t in_channels, int64_t out_channels, const ConvOptions& options);
  std::string batch_norm(const std::string& x, int64_t channels, double gain = 1.0);  // scales around `gain`
  std::string relu(const std::string& x) { return op("Relu", {x}); }
  std::string conv_bn(const std::string& x, int64_t in_channels, int64_t out_channels, ConvOptions options,
                      double bn_gain = 1.0);
  std::string max_pool(const std::string& x, int64_t kernel, int64_t stride, int64_t pad = 0);
  std::string gemm(const std::string& x, int64_t in_features, int64_t out_features, double gain = 1.0);  // x [N,in]
  // x [...,in]: MatMul + Add
  std::string linear(const std::string& x, int64_t in_features, int64_t out_features, double gain = 1.0);
  std::string layer_norm(const std::string& x, int64_t features);

  // ---- shapes as PyTorch exports them when an extent is symbolic
  std::string extent(const std::string& x, int64_t axis);  // Shape, Gather, Unsqueeze: int64 [1]
  // Reshape to a mix of extents of other values (as extent() gives them) and numbers, through Concat when any is
  // symbolic.
  std::string reshape(const std::string& x, const std::vector<std::variant<int64_t, std::string>>& extents);
  std::string transpose(const std::string& x, std::vector<int64_t> permutation) {
    return op("Transpose", {x}, {{"perm", std::move(permutation)}});
  }

  // ---- the file
  std::string serialize() const;
  Status save(const std::string& path) const;
  // Moves initializers of at least `min_bytes` to `file_name` beside the model.
  Status save_with_external_data(const std::string& path, const std::string& file_name, size_t min_bytes) const;

 private:
  friend struct BuilderAccess;
  std::string fresh(const std::string& hint);
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::mt19937_64 random_;
};

}  // namespace aipu::models
