// The pieces that type rules of intrinsics are made of (language.md 7.2 - 7.4). Private to codegen/intrinsics.
#pragma once

#include <initializer_list>

#include "codegen/intrinsics/intrinsic_table.h"

namespace aipu::tir::rules {

enum class Sign : uint8_t { kMustAgree, kMayDiffer };
enum class Widths : uint8_t { kAny, kNativeOrMultiple, kNative };

// An error with the wording of an assertion of the language.
Status refused(std::string message);
std::string_view ordinal(size_t index);  // "1st", "2nd", ...
std::string type_text(Type type);        // as messages print it: "int8x32", "int32x8*"

// The operand at `index`; an error if it is absent.
Result<Expr> operand(const InferInput& in, size_t index);

// Broadcasts scalars next to vectors, checks that the operands named agree in width, kind and lanes. `scalars`:
// all-scalar operands are matched like those of a binary operator; otherwise they are an error. Returns the common type
// (of the first vector operand).
Result<Type> match_operands(InferInput& in, std::initializer_list<size_t> indices, bool scalars,
                            Sign sign = Sign::kMustAgree);

// Converts an operand to `type` (scalar of the element or the vector), if every possible value fits.
Status convert_operand(InferInput& in, size_t index, Type type);

// Whether the operand at `index` was a bare number in the source.
bool is_literal(const InferInput& in, size_t index);

// A scalar operand as an expression of integer type `dtype`.
Status to_integer(InferInput& in, size_t index, DType dtype, std::string_view message);

// The mask becomes one of `lanes` lanes, or null. Scalars have none.
Status finish_mask(InferInput& in, Type operand_type);
// The same for intrinsics with `r`: without r the mask is dropped; r is converted to `result`.
Status finish_pass_through(InferInput& in, Type result);

Status require_vector(const InferInput& in, size_t index);
Status require_width(Type type, Widths widths);
bool is_native(Type type);
// The same of a call's first operand, for strict programs alone (Intrinsic::strict).
template <Widths kWidths>
Status strict_width(const IntrinsicCall& call) {
  return require_width(call.args[0]->type, kWidths);
}
bool is_multiple_width(Type type);

// The type of a binary operator over scalars (language.md 6.2, rules 2 - 7).
DType common_element(const Expr& a, bool a_literal, const Expr& b, bool b_literal);

// The sign asked for by `out_sign` ("", "u", "s" as 0, 1, 2); none given: that of `type`.
Type with_out_sign(Type type, const InferInput& in);
DType with_sign(DType dtype, bool is_signed);
DType widened(DType dtype);   // twice the bits; kVoid if there is none
DType narrowed(DType dtype);  // half the bits; kVoid if there is none

int64_t attribute(const InferInput& in, std::string_view name, int64_t default_value = 0);

// Rows of `params`.
IntrinsicParam value(std::string_view name);
IntrinsicParam optional_value(std::string_view name);
IntrinsicParam pointer(std::string_view name, Access access);
IntrinsicParam extent(IntrinsicParam param, TransferExtent extent);
IntrinsicParam repeated(IntrinsicParam param);
IntrinsicParam mask();
IntrinsicParam pass_through();
IntrinsicParam flag(std::string_view name);
IntrinsicParam out_sign();
IntrinsicParam choice(std::string_view name, std::vector<std::string_view> choices);
IntrinsicParam number(std::string_view name, int64_t default_value);
IntrinsicParam required_number(std::string_view name);
IntrinsicParam type_param(std::string_view name);

}  // namespace aipu::tir::rules
