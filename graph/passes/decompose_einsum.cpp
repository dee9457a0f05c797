// Einsum as Transposes, Reshapes, ReduceSums, and one MatMul or Mul per pair of operands, from the left to the right.
//
//   "bij,bjk->bik"   MatMul
//   "ii->i"          Reshape to [n*n], n zeros behind, Reshape to [n,n+1], the first column
//   "ij,k->i"        ReduceSum over j, ReduceSum over k, Mul
//   "bhqd,kd->bqhk"  Reshape to [b*h*q.., d] and [d, k] where needed, MatMul, Transpose
//
// In each step the axes of a pair are of four kinds: in both and needed later (batch), in both and not needed any more
// (summed by MatMul), and those of one operand only. What only one operand has and nobody needs is summed first.
#include <algorithm>
#include <array>

#include "graph/ops/einsum.h"
#include "graph/passes/decompose_rules.h"

namespace aipu::graph {
namespace {

bool contains(const std::string& term, char letter) { return term.find(letter) != std::string::npos; }

struct Operand {
  ValueId value;
  std::string term;  // one letter per axis
};

class EinsumWriter {
 public:
  explicit EinsumWriter(DecomposeBuilder& b) : b_(b) {}

  std::vector<ValueId> write(const EinsumTerms& terms, const std::vector<ValueId>& inputs) {
    std::vector<Operand> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      operands.push_back({inputs[i], terms.inputs[i]});
      for (size_t k = 0; k < terms.inputs[i].size(); ++k) join(terms.inputs[i][k], b_.shape(inputs[i])[k]);
    }
    for (Operand& operand : operands) {
      drop_broadcast_axes(operand);
      take_diagonals(operand);
    }
    if (!b_.ok()) return {};
    Operand result = std::move(operands.front());
    for (size_t i = 1; i < operands.size() && b_.ok(); ++i) {
      std::string later = terms.output;
      for (size_t k = i + 1; k < operands.size(); ++k) later += operands[k].term;
      result = multiplied(std::move(result), std::move(operands[i]), later);
    }
    sum_axes_outside(result, terms.output);
    return {arranged(result, terms.output)};
  }

 private:
  Dim& extent(char letter) { return extents_[static_cast<size_t>(letter)].value; }

  // An axis of extent 1 broadcasts.
  void join(char letter, const Dim& found) {
    Extent& e = extents_[static_cast<size_t>(letter)];
    if (!e.known || e.value == Dim(1) || (found.is_constant() && found != Dim(1))) e.value = found;
    e.known = true;
  }

  void drop_broadcast_axes(Operand& operand) {
    Operand kept{operand.value, ""};
    Shape shape;
    for (size_t k = 0; k < operand.term.size(); ++k) {
      const Dim& found = b_.shape(operand.value)[k];
      if (found == Dim(1) && extent(operand.term[k]) != Dim(1)) continue;
      kept.term += operand.term[k];
      shape.push_back(found);
    }
    if (kept.term != operand.term) kept.value = b_.reshape(operand.value, shape);
    operand = std::move(kept);
  }

  void take_diagonals(Operand& operand) {
    while (b_.ok()) {
      size_t second = 0;
      size_t first = std::string::npos;
      for (; second < operand.term.size(); ++second) {
        first = operand.term.find(operand.term[second]);
        if (first != second) break;
      }
      if (second == operand.term.size()) return;
      const char letter = operand.term[second];
      std::string rest = operand.term;
      rest.erase(second, 1);
      rest.erase(first, 1);
      Permutation perm;
      for (size_t k = 0; k < operand.term.size(); ++k) {
        if (k != first && k != second) perm.push_back(static_cast<int64_t>(k));
      }
      perm.push_back(static_cast<int64_t>(first));
      perm.push_back(static_cast<int64_t>(second));
      ValueId value = b_.transpose(operand.value, perm);
      if (!b_.ok()) return;
      const Dim n = extent(letter);
      Shape shape(b_.shape(value).begin(), b_.shape(value).end() - 2);
      const size_t last = shape.size();
      shape.push_back(n * n);
      value = b_.pad_end(b_.reshape(value, shape), last, n);
      shape.back() = n;
      Shape slanted = shape;
      slanted.push_back(n + 1);
      value = b_.reshape(value, slanted);
      Attributes column;
      column.set("starts", Shape(slanted.size(), Dim(0)));
      column.set("steps", std::vector<int64_t>(slanted.size(), 1));
      slanted.back() = 1;
      column.set("extents", std::move(slanted));
      operand.value = b_.reshape(b_.op("Slice", {value}, std::move(column)), shape);
      operand.term = rest + letter;
    }
  }

  void sum_axes_outside(Operand& operand, const std::string& needed) {
    std::vector<int64_t> axes;
    std::string kept;
    for (size_t k = 0; k < operand.term.size(); ++k) {
      if (contains(needed, operand.term[k])) {
        kept += operand.term[k];
      } else {
        axes.push_back(static_cast<int64_t>(k));
      }
    }
    if (axes.empty()) return;
    operand.value = b_.reduce("ReduceSum", operand.value, std::move(axes), false);
    operand.term = std::move(kept);
  }

  // The operand with its axes in the order of `term`, which has the same letters.
  ValueId arranged(const Operand& operand, const std::string& term) {
    Permutation perm;
    for (const char letter : term) perm.push_back(static_cast<int64_t>(operand.term.find(letter)));
    return b_.transpose(operand.value, perm);
  }

  Shape extents_of(const std::string& term) {
    Shape shape;
    for (const char letter : term) shape.push_back(extent(letter));
    return shape;
  }

  Operand multiplied(Operand left, Operand right, const std::string& later) {
    sum_axes_outside(left, later + right.term);
    sum_axes_outside(right, later + left.term);
    std::string batch;
    std::string summed;
    std::string rows;
    std::string columns;
    for (const char letter : left.term) {
      const bool shared = contains(right.term, letter);
      (!shared ? rows : contains(later, letter) ? batch : summed) += letter;
    }
    for (const char letter : right.term) {
      if (!contains(left.term, letter)) columns += letter;
    }
    if (!b_.ok()) return {};
    if (summed.empty()) {
      Operand result{{}, left.term + columns};
      Shape left_shape = extents_of(left.term);
      left_shape.resize(result.term.size(), Dim(1));
      std::string order;
      Shape right_shape;
      for (const char letter : result.term) {
        const bool own = contains(right.term, letter);
        if (own) order += letter;
        right_shape.push_back(own ? extent(letter) : Dim(1));
      }
      result.value =
          b_.op("Mul", {b_.reshape(left.value, left_shape), b_.reshape(arranged(right, order), right_shape)});
      return result;
    }
    const Dim depth = element_count(extents_of(summed));
    Shape left_shape = extents_of(batch);
    Shape right_shape = left_shape;
    Shape row_shape = extents_of(rows);
    // Without a batch MatMul takes any number of axes of rows.
    if (!batch.empty() || rows.empty()) row_shape = {element_count(row_shape)};
    left_shape.insert(left_shape.end(), row_shape.begin(), row_shape.end());
    left_shape.push_back(depth);
    right_shape.push_back(depth);
    right_shape.push_back(element_count(extents_of(columns)));
    const ValueId a = b_.reshape(arranged(left, batch + rows + summed), left_shape);
    const ValueId w = b_.reshape(arranged(right, batch + summed + columns), right_shape);
    Operand result{{}, batch + rows + columns};
    result.value = b_.reshape(b_.op("MatMul", {a, w}), extents_of(result.term));
    return result;
  }

  struct Extent {
    Dim value = 1;
    bool known = false;
  };
  DecomposeBuilder& b_;
  std::array<Extent, 128> extents_;
};

}  // namespace

std::vector<ValueId> decompose_einsum(DecomposeBuilder& b, const DecomposeSite& s) {
  return EinsumWriter(b).write(parse_einsum(s.attributes.s("equation")), s.inputs);
}

}  // namespace aipu::graph
