// What op records are written with: short constructors for schema rows, and the pieces of type inference that many ops
// share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op_def.h"

namespace aipu::graph {

// ---- schema rows

namespace attr {
AttributeDef i(std::string name, int64_t value);
AttributeDef f(std::string name, double value);
AttributeDef s(std::string name, std::string value);
AttributeDef ints(std::string name, std::vector<int64_t> value);
AttributeDef dtype(std::string name, DType value);
AttributeDef optional(std::string name, AttributeKind kind);
AttributeDef required(std::string name, AttributeKind kind);
AttributeDef layout();  // "NCHW" or "NHWC", of kSpatial ops
AttributeDef about(AttributeAxes axes, AttributeDef attribute);
AttributeDef own(AttributeDef attribute);                         // AttributeDef::own
AttributeDef own_optional(std::string name, AttributeKind kind);  // such as what resolve_operands sets
}  // namespace attr

OperandDef operand(std::string name, std::string types);
OperandDef optional_operand(std::string name, std::string types);
OperandDef variadic_operand(std::string name, std::string types);

inline constexpr const char* kNumeric = "iuf";
inline constexpr const char* kIndex = "i";

// ---- types

// nothing when output i does not exist
void set_output(InferContext& ctx, size_t i, DType dtype, Shape shape);
Status same_dtype(const InferContext& ctx, std::initializer_list<size_t> inputs);  // absent ones are skipped
Status expect_rank(const InferContext& ctx, size_t i, int rank);
Status expect_rank_at_least(const InferContext& ctx, size_t i, int rank);
// Refuses extents that are provably different; what symbols leave open is an assumption (assumptions.h).
Status expect_equal(const Dim& found, const Dim& expected, std::string_view what);
// That a run's extents are equal; `message` as in Assumption.
void assume_equal(const Dim& found, const Dim& expected, std::string message);
// That a run's extent is another one; `message` as in Assumption.
void assume_different(const Dim& found, const Dim& unwanted, std::string message);
bool provably_different(const Dim& a, const Dim& b);

// The shape that operands of these shapes are broadcast to; what symbols leave open is an assumption.
Result<Shape> broadcast_operands(std::span<const Shape> shapes);
// That a run's extents of `shape` are 1 or those of `to`, into which broadcasting is legal as far as is known.
void assume_broadcast(const Shape& shape, const Shape& to);
Result<Shape> broadcast_inputs(InferContext& ctx, std::initializer_list<size_t> inputs);

// ---- choices

// For OpDef::verify: a string attribute is one of the choices.
Status expect_choice(const Node& node, std::string_view attribute, std::initializer_list<std::string_view> choices);

// ---- axes

// Into [0, rank) (`inclusive`: [0, rank]).
Result<int64_t> normal_axis(int64_t axis, int rank, bool inclusive = false);
Result<std::vector<int64_t>> normal_axes(const std::vector<int64_t>& axes, int rank);  // sorted; refuses repetitions
// For OpDef::complete: normalises an int attribute against the rank of input `input`.
std::function<Status(const Graph&, Node*)> complete_axis(std::string attribute, size_t input = 0,
                                                         bool inclusive = false);
Status complete_axis_attribute(Node* node, std::string_view attribute, int rank, bool inclusive = false);

// ---- shape-like operands

// Elements of operand `input`: from attribute `attribute` when present, else known or run-symbol data of the operand.
Result<Shape> shape_operand(InferContext& ctx, size_t input, std::string_view attribute);
// The same for operands that must be compile-time constants (axes). nullopt when neither attribute nor operand is
// there.
Result<std::optional<std::vector<int64_t>>> constant_ints(InferContext& ctx, size_t input, std::string_view attribute);
Result<std::vector<int64_t>> to_int64s(const Shape& elements, std::string_view what);

// ---- known elements

using Data = std::vector<Dim>;
// Tensors with more elements are not tracked.
inline constexpr int64_t kDataLimit = 256;
// The elements of a value where known as integers; floats count when they are integral and exactly representable.
std::optional<Data> data_of(const Graph& graph, ValueId value);
std::optional<Data> data_of(const InferContext& ctx, size_t input);
// dropped unless it has the output's static element count
void set_data(InferContext& ctx, size_t i, std::optional<Data> data);
// The elements of a `from`-shaped tensor seen as a `to`-shaped one.
Data broadcast_data(const Data& data, const std::vector<int64_t>& from, const std::vector<int64_t>& to);

// The number of elements; INT64_MAX where that is more.
int64_t count_of(const std::vector<int64_t>& shape);
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);  // of a C-order tensor, in elements
// Calls visit(flat index in C order, coordinates) for every coordinate.
void for_each_index(const std::vector<int64_t>& shape,
                    const std::function<void(int64_t, const std::vector<int64_t>&)>& visit);

Status infer_same_as_input(InferContext& ctx);  // output 0 has the type of input 0

}  // namespace aipu::graph
