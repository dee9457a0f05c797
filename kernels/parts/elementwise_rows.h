// The rows of the elementwise ops: each writes its op as an expression of its operands. Private to kernels/parts.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/parts/elementwise_expression.h"
#include "kernels/parts/strided_map.h"

namespace aipu::kernels::elementwise {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// What the row of an op says about constant operands of one element.
struct Numbers {
  // Whether such a number goes into the expression; otherwise it is an operand. Null: every one does.
  bool (*is_literal)(size_t input, double value) = nullptr;
  // Whether one that does may be an argument of the launch, so that a kernel serves all of its values. Null: every one.
  bool (*is_argument)(const Graph& graph, const Node& node, size_t input, const graph::Constant& constant) = nullptr;
};
// Whether operand `input`, which is `constant` (or null), goes into the expression as a number.
bool is_literal(const Node& node, size_t input, const graph::Constant* constant);

// Whether such a number is an argument of the launch. What remains in the source: numbers of types that few models
// compute with, and those that make the operation a cheaper one.
bool is_argument(const Graph& graph, const Node& node, size_t input, const graph::Constant& constant);

// The variable that a number becomes in the source; equal ones are one.
std::string number_name(FusedExpression* fused, const FusedExpression::Number& number);
FusedExpression::Number number_of(const graph::Constant& constant);

// Float32 numbers below it are rounded to integers by adding 1.5 * 2^23, with room to spare.
constexpr double kMostPacked = 1 << 21;

// What a row sees while it writes one node.
class Writer {
 public:
  // `fused` gets the numbers that are arguments; null: all of them are in the source.
  Writer(const Graph& graph, const Node& node, std::vector<Expression> operands, FusedExpression* fused)
      : graph_(graph), node_(node), operands_(std::move(operands)), fused_(fused) {}

  const Node& node() const { return node_; }
  const Expression& in(size_t i) const { return operands_[i]; }
  size_t count() const { return operands_.size(); }
  bool has(size_t i) const { return i < node_.inputs.size() && node_.inputs[i].valid(); }
  DType stored_in(size_t i) const { return graph_.type(node_.inputs[i]).dtype; }
  DType stored_out() const { return graph_.type(node_.outputs[0]).dtype; }
  DType type_in(size_t i = 0) const { return compute_dtype(stored_in(i)); }
  DType type_out() const { return compute_dtype(stored_out()); }
  double f(std::string_view name) const { return node_.attributes.f(name); }
  int64_t i(std::string_view name) const { return node_.attributes.i(name); }
  // A constant vector of a compute dtype.
  static Expression constant(double value, DType dtype) {
    if (dtype == DType::kBool) {
      return Expression::call("const_mask", {Expression::atom(value != 0 ? "[True] * VL" : "[False] * VL")});
    }
    std::string text;
    if (std::isinf(value)) {
      text = value > 0 ? "\"inf\"" : "\"-inf\"";
    } else if (std::isnan(value)) {
      text = "\"nan\"";
    } else if (is_floating(dtype)) {
      text = fmt::format("{:.17g}", value);
      if (text.find_first_of(".en") == std::string::npos) text += ".0";
    } else {
      text = fmt::format("{}", static_cast<int64_t>(value));
    }
    return vector_of(std::move(text), dtype);
  }
  // A literal in all lanes.
  static Expression vector_of(std::string literal, DType dtype) {
    return Expression::call("cast", {Expression::atom(std::move(literal)),
                                     Expression::atom(fmt::format("f\"{}x{{VL}}\"", dtype_name(dtype)))});
  }
  Expression k(double value) const { return constant(value, type_in()); }
  // A number that comes from an attribute, or was made of one. Those that leave no operation are in the source.
  Expression attribute(double value) const { return number(value, type_in()); }
  Expression number(double value, DType dtype) const {
    const bool is_argument = (dtype == DType::kF32 || dtype == DType::kF64) && !std::isnan(value);
    if (fused_ == nullptr || !is_argument || value == 0 || std::abs(value) == 1) return constant(value, dtype);
    return Expression::atom(number_name(fused_, {value, dtype}));
  }
  Expression attribute(std::string_view name) const { return attribute(f(name)); }
  // The constant value of scalar operand i, if it is one.
  std::optional<double> scalar(size_t i) const {
    if (!has(i)) return std::nullopt;
    const graph::Constant* c = graph_.constant(node_.inputs[i]);
    if (!is_literal(node_, i, c)) return std::nullopt;
    return c->to_doubles()[0];
  }
  // Whether operand i is an argument of the launch by itself, and hence not NaN.
  bool is_number(size_t i) const {
    if (!has(i) || fused_ == nullptr) return false;
    const graph::Constant* c = graph_.constant(node_.inputs[i]);
    return is_literal(node_, i, c) && is_argument(graph_, node_, i, *c);
  }
  // A statement before the expression; returns the new variable.
  Expression let(Expression value) {
    std::string name = fmt::format("{}_{}", prefix, serial_++);
    statements.push_back({name, std::move(value)});
    return Expression::atom(std::move(name));
  }

  // Of QuantizeLinear: the variable that holds the rounded value plus rounding_shift() of the zero point.
  struct Rounded {
    Expression shifted;
    std::string zero;        // text of the zero point
    Expression low_byte;     // an int32 whose low bits are the integer; may be none
    bool is_number = false;  // without that sum: the integer less the zero point, as a float32
  };
  std::string zero_text() const { return has(2) ? operands_[2].text() : std::string(); }
  Expression shifted_of(ValueId value) const {
    if (rounded == nullptr) return {};
    const auto found = rounded->find(value);
    return found != rounded->end() && zero_text() == found->second.zero ? found->second.shifted : Expression();
  }

  // Of a tensor of 8-bit integers: an int32 whose low 8 bits are the integer.
  Expression low_byte_of(size_t i) const {
    if (rounded != nullptr) {
      const auto found = rounded->find(node_.inputs[i]);
      if (found != rounded->end() && found->second.low_byte) return found->second.low_byte;
    }
    return Expression::call("cast", {operands_[i], Expression::atom("\"int32\"")});
  }
  // The variable that points to a table.
  std::string table(const graph::ConstantPtr& constant) {
    tables->push_back(constant);
    return fmt::format("table{}", tables->size() - 1);
  }

  bool has_number_of(ValueId value) const {
    if (rounded == nullptr) return false;
    const auto found = rounded->find(value);
    return found != rounded->end() && found->second.is_number;
  }

  // The value of input i if it is a constant of any shape.
  const graph::Constant* constant_in(size_t i) const { return has(i) ? graph_.constant(node_.inputs[i]) : nullptr; }
  bool always_needed() const { return graph::needed(node_) == graph::Dim(1); }
  // What stands in the expression for the code of a fault of this node.
  Expression fault(std::string message) {
    faults.push_back(std::move(message));
    return Expression::atom(fmt::format("FAULTS[{}]", first_fault + faults.size() - 1));
  }

  std::vector<ExpressionFunction::Statement> statements;
  std::string prefix;
  std::vector<std::string> faults;  // messages
  size_t first_fault = 0;           // faults of the nodes before, in the same expression
  std::string error;                // what is wrong with the node, if anything
  Expression shifted;               // left by QuantizeLinear
  bool shifted_is_number = false;   // Rounded::is_number of that
  Expression low_byte;              // Rounded::low_byte of that
  // Of QuantizeLinear: its input is no NaN, the sum of a seed that converts (fuse_bounded_expression()), and who reads
  // the result wants the integer alone.
  bool converts = false;
  // Of QuantizeLinear: its input is no NaN, and nobody asks for the sign of a zero that DequantizeLinear makes of it.
  bool rounds = false;
  // Whether S.fma rounds once: elsewhere it is a product and a sum.
  bool has_fma = true;
  // Of QuantizeLinear: its quotient is a number of less than kMostPacked, and who stores the result saturates it. What
  // it writes is an int32 then, the zero point added. Of ByteFunction: an int32 likewise, which needs no saturation.
  bool packs = false;
  // Whether it is the last one, so that its result is rounded to the stored type by whoever stores it.
  bool is_stored = false;
  std::vector<graph::ConstantPtr>* tables = nullptr;    // of the expression
  const std::map<ValueId, Rounded>* rounded = nullptr;  // of the nodes before, in the same expression

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<Expression> operands_;
  FusedExpression* fused_;
  int serial_ = 0;
};

struct Row {
  template <typename Write>
  Row(Write given, Numbers of_numbers = {})
      : write(std::move(given)), numbers(of_numbers) {}  // a function alone is one

  std::function<Expression(Writer&)> write;
  Numbers numbers;
  // What it gives is a sum of its operands or 0: of numbers that are far from the limits of their type such a number.
  bool is_sum = false;
  // What it gives of numbers, for those who fit a function (quantized_function.h); empty: nobody does.
  std::function<double(const Node&, const std::vector<double>&)> value;
  bool is_transcendental = false;  // takes long by itself
  // The function of templates/pieces.py that gives the same of float32; empty, or giving "": there is none.
  std::function<std::string_view(const Node&)> in_pieces;
};

// Null for ops that have none.
const Row* row_of(const Node& node);

// CastLike reads only the type of its second operand.
inline size_t operand_count(const Node& node) { return node.op == "CastLike" ? 1 : node.inputs.size(); }

}  // namespace aipu::kernels::elementwise
