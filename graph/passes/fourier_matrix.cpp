#include "graph/passes/fourier_matrix.h"

#include <cmath>

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

std::vector<double> known_matrix(int64_t length, int64_t in_parts, int64_t bins, bool is_inverse,
                                 const std::vector<double>& window) {
  std::vector<double> matrix(static_cast<size_t>(length * in_parts * bins * 2));
  const double sign = is_inverse ? 1 : -1;
  const double factor = is_inverse ? 1.0 / static_cast<double>(length) : 1.0;
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

std::vector<double> known_one_sided_inverse(int64_t length, int64_t bins) {
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

// Whether there is a constant: an empty one is not.
bool is_known(const Transform& t) { return t.length.constant_or(0) > 0 && t.bins.is_constant(); }

bool fits(DecomposeBuilder& b, const Transform& t) {
  const int64_t limit = kMatrixLimit / (t.in_parts * 2);
  if (*t.length.constant() > limit / *t.bins.constant())
    b.fail(unsupported(str_cat("a transform of length ", t.length.text(), " is too long")));
  return b.ok();
}

// Short names for what a run computes.
class RunTimeMatrix {
 public:
  RunTimeMatrix(DecomposeBuilder& b, DType dtype, const Transform& transform)
      : b_(b), dtype_(dtype), real_(dtype == DType::kF64 ? DType::kF64 : DType::kF32) {
    Attributes range;
    range.set("dtype", DType::kI64);
    range.set("start", Shape{max(transform.length, 1)});  // of an empty matrix nothing is divided
    range.set("delta", Shape{Dim(1)});
    range.set("extent", Shape{transform.is_stated ? min(max(transform.length, 0), 1) : Dim(1)});
    count_ = b_.reshape(b_.op("Range", {}, std::move(range)), {Dim(1)});
  }

  // Cosines and sines of rows * columns / length turns. Integers reduce the angle to an eighth of a turn on either side
  // of a quarter, so that it is exact for every length, and quarters are 0, 1 and -1.
  void turns(const Dim& rows, const Dim& columns) {
    const ValueId product = op("Mul", b_.reshape(positions_along(b_, rows), {rows, Dim(1)}),
                               b_.reshape(positions_along(b_, columns), {Dim(1), columns}));
    const ValueId part = op("Mod", product, count_);
    const ValueId eighths = op("Mul", part, integer(8));
    const ValueId quarter = op("Div", op("Add", eighths, count_), op("Mul", count_, integer(2)));  // 0 to 4
    const ValueId rest = op("Sub", op("Mul", part, integer(4)), op("Mul", quarter, count_));
    const ValueId angle = op("Mul", op("Div", b_.cast(rest, real_), length()), b_.number(real_, kPi / 2));
    const ValueId cosine = b_.op("Cos", {angle}), sine = b_.op("Sin", {angle});
    const auto is_odd = [&](ValueId x) { return op("Equal", op("Mod", x, integer(2)), integer(1)); };
    const auto negated_where = [&](ValueId condition, ValueId x) {
      return b_.op("Where", {condition, b_.op("Neg", {x}), x});
    };
    const ValueId is_swapped = is_odd(quarter);
    const ValueId below = is_odd(op("Div", op("Add", quarter, integer(1)), integer(2)));
    const ValueId behind = is_odd(op("Div", quarter, integer(2)));
    cosine_ = negated_where(below, b_.op("Where", {is_swapped, sine, cosine}));
    sine_ = negated_where(behind, b_.op("Where", {is_swapped, cosine, sine}));
  }

  ValueId cosine() const { return cosine_; }
  ValueId sine() const { return sine_; }
  ValueId count() const { return count_; }
  ValueId length() { return b_.cast(count_, real_); }
  ValueId real(double value) { return b_.number(real_, value); }
  ValueId negative(ValueId x) { return b_.op("Neg", {x}); }
  ValueId op(const char* name, ValueId x, ValueId y) { return b_.op(name, {x, y}); }
  ValueId integer(int64_t value) { return b_.constant(Constant::int64s({value}), "number"); }
  // Matrices of the turns' shape beside each other, one of each in turn along a new axis.
  ValueId alternating(const std::vector<ValueId>& matrices, const Shape& one, int64_t axis) {
    std::vector<ValueId> parts;
    for (const ValueId matrix : matrices) parts.push_back(b_.reshape(matrix, one));
    Attributes along;
    along.set("axis", axis);
    return b_.op("Concat", std::move(parts), std::move(along));
  }
  ValueId finished(ValueId matrix, const Shape& shape) {
    const ValueId rows = b_.reshape(matrix, shape);
    return dtype_ == real_ ? rows : b_.cast(rows, dtype_);
  }

 private:
  DecomposeBuilder& b_;
  DType dtype_, real_;
  ValueId count_, cosine_, sine_;
};

ValueId run_time_matrix(DecomposeBuilder& b, DType dtype, const Transform& t) {
  RunTimeMatrix m(b, dtype, t);
  m.turns(t.length, t.bins);
  ValueId cosine = m.cosine(), sine = m.sine();
  if (t.is_inverse) {
    cosine = m.op("Div", cosine, m.length());
    sine = m.op("Div", sine, m.length());
  } else {
    sine = m.negative(sine);
  }
  const Shape one{t.length, t.bins, Dim(1)};
  ValueId rows = m.alternating({cosine, sine}, one, 2);
  if (t.in_parts == 2) {
    const Shape row{t.length, Dim(1), t.bins * Dim(2)};
    rows = m.alternating({rows, m.alternating({m.negative(sine), cosine}, one, 2)}, row, 1);
  }
  return m.finished(rows, {t.length * Dim(t.in_parts), t.bins * Dim(2)});
}

ValueId run_time_one_sided_inverse(DecomposeBuilder& b, DType dtype, const Transform& t) {
  RunTimeMatrix m(b, dtype, t);
  m.turns(t.bins, t.length);
  const ValueId bin = b.reshape(positions_along(b, t.bins), {t.bins, Dim(1)});
  const ValueId mirror = m.op("Mod", m.op("Mul", bin, m.integer(2)), m.count());
  const ValueId is_its_own = m.op("Equal", mirror, m.integer(0));
  const ValueId factor = m.op("Div", b.op("Where", {is_its_own, m.real(1), m.real(2)}), m.length());
  const ValueId cosine = m.op("Mul", m.cosine(), factor);
  const ValueId sine = m.negative(m.op("Mul", m.sine(), factor));
  return m.finished(m.alternating({cosine, sine}, {t.bins, Dim(1), t.length}, 1), {t.bins * Dim(2), t.length});
}

}  // namespace

ValueId fourier_matrix(DecomposeBuilder& b, DType dtype, const Transform& t, const std::vector<double>& window) {
  if (!is_known(t)) return run_time_matrix(b, dtype, t);
  if (!fits(b, t)) return {};
  const int64_t length = *t.length.constant(), bins = *t.bins.constant();
  auto elements = known_matrix(length, t.in_parts, bins, t.is_inverse, window);
  return b.constant(float_constant(dtype, {length * t.in_parts, bins * 2}, elements), "fourier");
}

ValueId one_sided_inverse_matrix(DecomposeBuilder& b, DType dtype, const Transform& t) {
  if (!is_known(t)) return run_time_one_sided_inverse(b, dtype, t);
  if (!fits(b, t)) return {};
  const int64_t length = *t.length.constant(), bins = *t.bins.constant();
  return b.constant(float_constant(dtype, {bins * 2, length}, known_one_sided_inverse(length, bins)), "fourier");
}

ValueId positions_along(DecomposeBuilder& b, const Dim& extent, const Dim& step) {
  if (extent.is_constant() && step == Dim(1)) {
    std::vector<int64_t> positions;
    for (int64_t k = 0; k < *extent.constant(); ++k) positions.push_back(k);
    return b.constant(Constant::int64s(std::move(positions)), "offsets");
  }
  Attributes range;
  range.set("dtype", DType::kI64);
  range.set("start", Shape{Dim(0)});
  range.set("delta", Shape{step});
  range.set("extent", Shape{extent});
  return b.op("Range", {}, std::move(range));
}

}  // namespace aipu::graph
