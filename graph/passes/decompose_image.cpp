// MaxUnpool and DeformConv.
//
//   MaxUnpool(x, i)             =>  zeros of the pooled tensor's size, ScatterElements(zeros, i, x), zeros behind where
//                                   output_shape is larger
//   DeformConv(x, w, offset..)  =>  Conv{1x1}(aipu::DeformColumns(x, offset, mask), w), whose input has a channel for
//                                   each tap of each channel
#include "graph/passes/decompose_rules.h"

namespace aipu::graph {

std::vector<ValueId> decompose_max_unpool(DecomposeBuilder& b, const DecomposeSite& s) {
  const TensorType type = b.type(s.inputs[0]);
  const size_t count = type.shape.size() - 2;
  Shape pooled = type.shape;
  for (size_t k = 0; k < count; ++k) {
    const Dim pads(s.attributes.ints("pads")[k] + s.attributes.ints("pads")[k + count]);
    pooled[k + 2] = (type.shape[k + 2] - 1) * Dim(s.attributes.ints("strides")[k]) +
                    Dim(s.attributes.ints("kernel_shape")[k]) - pads;
  }
  if (s.has(2)) {
    b.fail(unsupported("output_shape is known only at run time"));
    return {};
  }
  const Shape wanted = s.attributes.has("output_shape") ? s.attributes.shape("output_shape") : pooled;
  Attributes zeros;
  zeros.set("shape", Shape{element_count(pooled)});
  zeros.set("value", float_constant(type.dtype, {1}, {0.0}));
  const Shape flat = {element_count(type.shape)};
  Attributes along;
  along.set("axis", int64_t{0});
  along.set("from_start", int64_t{1});
  ValueId value =
      b.op("ScatterElements",
           {b.op("ConstantOfShape", {}, std::move(zeros)), b.reshape(s.inputs[1], flat), b.reshape(s.inputs[0], flat)},
           std::move(along));
  value = b.reshape(value, pooled);
  for (size_t k = 0; k < wanted.size() && b.ok(); ++k) value = b.pad_end(value, k, wanted[k] - pooled[k]);
  return {value};
}

std::vector<ValueId> decompose_deform_conv(DecomposeBuilder& b, const DecomposeSite& s) {
  Attributes geometry;
  for (const char* name : {"kernel_shape", "strides", "pads", "dilations", "offset_group"})
    geometry.set(name, *s.attributes.find(name));
  std::vector<ValueId> operands = {s.inputs[0], s.inputs[2]};
  if (s.has(4)) operands.push_back(s.inputs[4]);
  const ValueId columns = b.op("aipu::DeformColumns", std::move(operands), std::move(geometry));
  const Shape weight = b.shape(s.inputs[1]);
  std::vector<ValueId> factors = {
      columns, b.reshape(s.inputs[1], {weight[0], weight[1] * weight[2] * weight[3], Dim(1), Dim(1)})};
  if (s.has(3)) factors.push_back(s.inputs[3]);
  Attributes product;
  product.set("group", s.attributes.i("group"));
  return {b.op("Conv", std::move(factors), std::move(product))};
}

}  // namespace aipu::graph
