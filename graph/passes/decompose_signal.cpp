// DFT and STFT as products with matrices of cosines and sines, which are constants where the lengths are known when the
// model is converted, and computed by each run otherwise.
//
//   DFT    =>  the axis to the end, cut or filled up with zeros to dft_length; [..., length * (1 or 2)] x matrix; the
//              axis back
//   STFT   =>  frames gathered [batch, frames, length]; x matrix, which has a constant window in it
#include "graph/passes/fourier_matrix.h"

namespace aipu::graph {
namespace {

// The length that a model states.
Dim stated_length(DecomposeBuilder& b, const DecomposeSite& s, const char* attribute) {
  const Dim& length = s.attributes.shape(attribute).front();
  if (length.constant_or(1) < 1) b.fail(invalid_model(str_cat(attribute, " is ", length.text())));
  return length;
}

// A constant window of frames whose length is known, which their matrix takes in; empty if it is none.
std::vector<double> known_window(DecomposeBuilder& b, ValueId operand, const Dim& length) {
  const Constant* constant = operand.valid() ? b.graph().constant(operand) : nullptr;
  if (constant == nullptr || !length.is_constant()) return {};
  std::vector<double> window = constant->to_doubles();
  if (static_cast<int64_t>(window.size()) != *length.constant()) {
    b.fail(invalid_model(str_cat("the window has ", window.size(), " elements, the frames ", length.text())));
  }
  return window;
}

}  // namespace

std::vector<ValueId> decompose_dft(DecomposeBuilder& b, const DecomposeSite& s) {
  if (s.has(1)) return {};  // it is not resolved
  const ValueId x = s.inputs[0];
  const TensorType type = b.type(x);
  const size_t rank = type.shape.size();
  const auto axis =
      static_cast<size_t>(s.attributes.has("axis") ? s.attributes.i("axis") : static_cast<int64_t>(rank) - 2);
  const bool inverse = s.attributes.i("inverse") != 0;
  const bool onesided = s.attributes.i("onesided") != 0;
  const bool to_real = inverse && onesided;
  const Dim own = to_real ? (type.shape[axis] - 1) * Dim(2) : type.shape[axis];
  const Dim length = s.attributes.has("dft_length") ? stated_length(b, s, "dft_length") : own;
  const Dim bins = onesided ? floordiv(length, 2) + 1 : length;
  const int64_t in_parts = *type.shape.back().constant();
  if (to_real && in_parts != 2) b.fail(invalid_model("the inverse of a one-sided transform takes complex numbers"));

  Permutation perm;
  for (size_t k = 0; k + 1 < rank; ++k) {
    if (k != axis) perm.push_back(static_cast<int64_t>(k));
  }
  perm.push_back(static_cast<int64_t>(axis));
  perm.push_back(static_cast<int64_t>(rank - 1));
  const Dim taken = to_real ? bins : length;
  ValueId value = b.transpose(x, perm);
  value = b.pad_end(value, rank - 2, taken - type.shape[axis]);
  if (!b.ok()) return {};
  Shape rows(b.shape(value).begin(), b.shape(value).end() - 2);
  Shape out = rows;
  rows.push_back(taken * Dim(in_parts));
  value = b.reshape(value, rows);
  const Transform transform{length, in_parts, bins, inverse, s.attributes.has("dft_length")};
  const ValueId matrix =
      to_real ? one_sided_inverse_matrix(b, type.dtype, transform) : fourier_matrix(b, type.dtype, transform);
  value = b.op("MatMul", {value, matrix});
  out.push_back(to_real ? length : bins);
  out.push_back(to_real ? 1 : 2);
  return {b.transpose(b.reshape(value, out), aipu::graph::inverse(perm))};
}

std::vector<ValueId> decompose_stft(DecomposeBuilder& b, const DecomposeSite& s) {
  if (!s.attributes.has("frame_length")) return {};  // it is not resolved
  const ValueId signal = s.inputs[0];
  const TensorType type = b.type(signal);
  const Dim length = stated_length(b, s, "frame_length");
  const Dim step = s.attributes.shape("frame_step").front();
  const Dim bins = s.attributes.i("onesided") != 0 ? floordiv(length, 2) + 1 : length;
  const int64_t in_parts = type.shape.size() > 2 ? type.shape.back().constant_or(1) : 1;
  const std::vector<double> window = known_window(b, s.input(2), length);

  // Positions [frames, length] = frame * step + offset.
  const Dim frames = floordiv(type.shape[1] - length, step) + 1;
  const ValueId starts = b.reshape(positions_along(b, frames, step), {frames, Dim(1)});
  const ValueId positions = b.op("Add", {starts, positions_along(b, length)});
  Attributes along;
  along.set("axis", int64_t{1});
  ValueId value = b.op("Gather", {signal, positions}, std::move(along));
  if (s.has(2) && window.empty()) {
    const bool has_parts = type.shape.size() > 2;
    value = b.op("Mul", {value, b.reshape(s.inputs[2], has_parts ? Shape{length, Dim(1)} : Shape{length})});
  }
  value = b.reshape(value, {type.shape[0], frames, length * Dim(in_parts)});
  value = b.op("MatMul", {value, fourier_matrix(b, type.dtype, {length, in_parts, bins, false, true}, window)});
  return {b.reshape(value, {type.shape[0], frames, bins, Dim(2)})};
}

}  // namespace aipu::graph
