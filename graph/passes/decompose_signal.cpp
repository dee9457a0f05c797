// DFT and STFT as products with matrices of cosines and sines, which are constants: the lengths have to be known when
// the model is converted, how long the signal is need not.
//
//   DFT    =>  the axis to the end, cut or filled up with zeros to dft_length; [..., length * (1 or 2)] x matrix; the
//              axis back
//   STFT   =>  frames gathered [batch, frames, length]; x matrix, which has a constant window in it
//
// Real and imaginary parts alternate in rows and columns of the matrices, so that no result has to be interleaved.
#include <cmath>

#include "graph/passes/decompose_rules.h"

namespace aipu::graph {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kMatrixLimit = int64_t{1} << 25;  // elements

struct Turn {
  double cosine;
  double sine;
};

// part / length of a turn, reduced to one turn as integers: exact for every length. Quarters are exactly 0, 1 and -1.
Turn turn(int64_t part, int64_t length) {
  part %= length;
  if (4 * part % length == 0) {
    constexpr Turn kQuarters[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    return kQuarters[4 * part / length];
  }
  const double angle = 2 * kPi * static_cast<double>(part) / static_cast<double>(length);
  return {std::cos(angle), std::sin(angle)};
}

// [length * in_parts, bins * 2]: element j of the signal and frequency k; `sign` -1 forward, 1 inverse.
std::vector<double> fourier_matrix(int64_t length, int64_t in_parts, int64_t bins, double sign, double factor,
                                   const std::vector<double>& window) {
  std::vector<double> matrix(static_cast<size_t>(length * in_parts * bins * 2));
  auto at = matrix.begin();
  for (int64_t j = 0; j < length; ++j) {
    const double scale = window.empty() ? factor : factor * window[static_cast<size_t>(j)];
    for (int64_t part = 0; part < in_parts; ++part) {
      for (int64_t k = 0; k < bins; ++k) {
        const Turn t = turn(j * k, length);
        const double cosine = scale * t.cosine;
        const double sine = scale * sign * t.sine;
        *at++ = part == 0 ? cosine : -sine;
        *at++ = part == 0 ? sine : cosine;
      }
    }
  }
  return matrix;
}

// [bins * 2, length]: from the bins of a one-sided transform back to real numbers.
std::vector<double> one_sided_inverse(int64_t length, int64_t bins) {
  std::vector<double> matrix;
  matrix.reserve(static_cast<size_t>(bins * 2 * length));
  for (int64_t k = 0; k < bins; ++k) {
    // A bin stands for its mirror image as well, except those that are their own.
    const double factor = (k == 0 || 2 * k == length ? 1.0 : 2.0) / static_cast<double>(length);
    for (int part = 0; part < 2; ++part) {
      for (int64_t j = 0; j < length; ++j) {
        const Turn t = turn(j * k, length);
        matrix.push_back(part == 0 ? factor * t.cosine : -factor * t.sine);
      }
    }
  }
  return matrix;
}

// A length that the matrices can be made for; 0 and a failed builder if there is none.
int64_t known_length(DecomposeBuilder& b, const DecomposeSite& s, const char* attribute) {
  if (!s.attributes.has(attribute)) {
    b.fail(unsupported(str_cat(attribute, " is known only at run time")));
    return 0;
  }
  const Dim& length = s.attributes.shape(attribute).front();
  if (!length.is_constant()) {
    const Symbol* symbol = length.op() == DimOp::kSymbol ? b.graph().find_symbol(length.symbol_name()) : nullptr;
    if (symbol != nullptr && symbol->kind == Symbol::Kind::kTensorElement) {
      const std::string& name = b.graph().value(symbol->value).name;
      b.fail(unsupported(str_cat("operand '", name, "' must be known when compiling, it is the ", attribute)));
    } else {
      b.fail(unsupported(str_cat(attribute, " depends on symbols, ", length.text(), "; fix the extents with --shape")));
    }
  }
  if (b.ok() && *length.constant() < 1) b.fail(invalid_model(str_cat(attribute, " is ", length.text())));
  return b.ok() ? *length.constant() : 0;
}

bool fits(DecomposeBuilder& b, int64_t length, int64_t in_parts, int64_t bins) {
  const int64_t limit = kMatrixLimit / (in_parts * 2);
  if (bins != 0 && length > limit / bins)
    b.fail(unsupported(str_cat("a transform of length ", length, " is too long")));
  return b.ok();
}

}  // namespace

std::vector<ValueId> decompose_dft(DecomposeBuilder& b, const DecomposeSite& s) {
  const ValueId x = s.inputs[0];
  const TensorType type = b.type(x);
  const size_t rank = type.shape.size();
  const int64_t length = s.attributes.has("dft_length") || s.has(1) ? known_length(b, s, "dft_length") : 0;
  if (!b.ok()) return {};
  const auto axis =
      static_cast<size_t>(s.attributes.has("axis") ? s.attributes.i("axis") : static_cast<int64_t>(rank) - 2);
  const bool inverse = s.attributes.i("inverse") != 0;
  const bool onesided = s.attributes.i("onesided") != 0;
  const Dim own = onesided && inverse ? (type.shape[axis] - 1) * Dim(2) : type.shape[axis];
  if (length == 0 && !own.is_constant()) {
    b.fail(unsupported(
        str_cat("the length of the transform depends on symbols, ", own.text(), "; fix the extents with --shape")));
    return {};
  }
  const int64_t n = length != 0 ? length : *own.constant();
  if (n < 1) return {};
  const int64_t bins = onesided ? n / 2 + 1 : n;
  const int64_t in_parts = *type.shape.back().constant();
  if (!fits(b, n, in_parts, bins)) return {};

  Permutation perm;
  for (size_t k = 0; k + 1 < rank; ++k) {
    if (k != axis) perm.push_back(static_cast<int64_t>(k));
  }
  perm.push_back(static_cast<int64_t>(axis));
  perm.push_back(static_cast<int64_t>(rank - 1));
  const bool to_real = inverse && onesided;
  const int64_t taken = to_real ? bins : n;
  ValueId value = b.transpose(x, perm);
  value = b.pad_end(value, rank - 2, Dim(taken) - type.shape[axis]);
  if (!b.ok()) return {};
  Shape rows(b.shape(value).begin(), b.shape(value).end() - 2);
  Shape out = rows;
  rows.push_back(taken * in_parts);
  value = b.reshape(value, rows);
  const int64_t out_parts = to_real ? 1 : 2;
  const int64_t produced = to_real ? n : bins;
  ConstantPtr matrix;
  if (to_real) {
    if (in_parts != 2) b.fail(invalid_model("the inverse of a one-sided transform takes complex numbers"));
    if (!b.ok()) return {};
    matrix = float_constant(type.dtype, {bins * 2, n}, one_sided_inverse(n, bins));
  } else {
    const double factor = inverse ? 1.0 / static_cast<double>(n) : 1.0;
    matrix = float_constant(type.dtype, {n * in_parts, bins * 2},
                            fourier_matrix(n, in_parts, bins, inverse ? 1 : -1, factor, {}));
  }
  value = b.op("MatMul", {value, b.constant(std::move(matrix), "fourier")});
  out.push_back(produced);
  out.push_back(out_parts);
  return {b.transpose(b.reshape(value, out), aipu::graph::inverse(perm))};
}

std::vector<ValueId> decompose_stft(DecomposeBuilder& b, const DecomposeSite& s) {
  const ValueId signal = s.inputs[0];
  const TensorType type = b.type(signal);
  const int64_t length = known_length(b, s, "frame_length");
  if (!b.ok()) return {};
  const Dim step = s.attributes.shape("frame_step").front();
  const int64_t bins = s.attributes.i("onesided") != 0 ? length / 2 + 1 : length;
  const int64_t in_parts = type.shape.size() > 2 ? type.shape.back().constant_or(1) : 1;
  if (!fits(b, length, in_parts, bins)) return {};

  std::vector<double> window;
  if (s.has(2)) {
    if (const Constant* constant = b.graph().constant(s.inputs[2])) {
      window = constant->to_doubles();
      if (static_cast<int64_t>(window.size()) != length) {
        b.fail(invalid_model(str_cat("the window has ", window.size(), " elements, the frames ", length)));
        return {};
      }
    }
  }
  // Positions [frames, length] = frame * step + offset.
  const Dim frames = floordiv(type.shape[1] - Dim(length), step) + 1;
  Attributes range;
  range.set("dtype", DType::kI64);
  range.set("start", Shape{Dim(0)});
  range.set("delta", Shape{step});
  range.set("extent", Shape{frames});
  std::vector<int64_t> offsets;
  for (int64_t k = 0; k < length; ++k) offsets.push_back(k);
  const ValueId starts = b.reshape(b.op("Range", {}, std::move(range)), {frames, Dim(1)});
  const ValueId positions = b.op("Add", {starts, b.constant(Constant::int64s(std::move(offsets)), "offsets")});
  Attributes along;
  along.set("axis", int64_t{1});
  ValueId value = b.op("Gather", {signal, positions}, std::move(along));
  if (s.has(2) && window.empty()) {
    const ValueId factors =
        in_parts == 1 && type.shape.size() == 2 ? s.inputs[2] : b.reshape(s.inputs[2], {Dim(length), Dim(1)});
    value = b.op("Mul", {value, factors});
  }
  value = b.reshape(value, {type.shape[0], frames, Dim(length * in_parts)});
  auto matrix =
      float_constant(type.dtype, {length * in_parts, bins * 2}, fourier_matrix(length, in_parts, bins, -1, 1, window));
  value = b.op("MatMul", {value, b.constant(std::move(matrix), "fourier")});
  return {b.reshape(value, {type.shape[0], frames, Dim(bins), Dim(2)})};
}

}  // namespace aipu::graph
