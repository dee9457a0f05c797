// Operand type matching, language.md 6.2: pure functions over element types.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "codegen/tir/type.h"
#include "runtime/base/status.h"

namespace aipu::dsl {

// An operand as the rules see it: the element type of an expression, or a Python number.
using OperandType = std::variant<DType, int64_t, double>;

bool fits(int64_t value, DType dtype);  // integer and bool types; a uint64 holds any non-negative int64

// The type of an integer literal with nothing next to it: int32, or int64 where it does not fit.
DType literal_dtype(int64_t value);

// Rules 2 to 7: the element type of `lhs op rhs` for every binary operator but the shifts.
DType binary_result_dtype(const OperandType& lhs, const OperandType& rhs);

// Whether comparing the two would turn a signed value into an unsigned one.
bool unsafe_comparison(DType lhs, DType rhs);

// Messages spell a pointer type without its scope: "int8*", "float32x8".
std::string type_text(const tir::Type& type);

// A dtype string with aliases: "fp16x64", "int32", "boolx8".
std::optional<tir::Type> parse_type_text(std::string_view text);

constexpr int kNativeVectorBits = 256;
inline int native_lanes(DType dtype) { return kNativeVectorBits / (dtype_bits(dtype) == 0 ? 8 : dtype_bits(dtype)); }
// Exactly one 256-bit vector; of masks those with 8, 16 or 32 lanes.
bool is_native_vector(const tir::Type& type);

}  // namespace aipu::dsl
