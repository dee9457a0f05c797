// The lowering passes that lower.cpp lists, one function each. A pass keeps the meaning of what it takes, and returns
// the very same body when it changes nothing.
#pragma once

#include "codegen/lower/simplify.h"
#include "codegen/lower/split_vectors.h"
#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// kTec loops become `if (start <= tid && tid < stop) { var = tid; body }`, kUnrolled loops copies of their body,
// kVectorized loops serial ones (the C compiler vectorises them again). Fails where an unrolled loop's bounds are not
// constant.
Result<PrimFunc> resolve_loops(const PrimFunc& function, const Target& target);

// Private arrays that are only ever indexed by constants, at most 256 elements of them, become named variables:
// register tiles written as small loop nests print in the form that our measurements had as fastest. So do the vectors
// of those that are only ever loaded and stored by vectors of one type, at constant places and without masks.
Result<PrimFunc> promote_private_arrays(const PrimFunc& function, const Target& target);

// On targets without native fused multiply-add, fma(acc, x, y) becomes acc + x * y, so that the interpreter and
// compiled code agree.
Result<PrimFunc> lower_fma(const PrimFunc& function, const Target& target);

// The id of the TEC and their number are asked for once, at the start.
Result<PrimFunc> hoist_tec_id(const PrimFunc& function, const Target& target);

// Vectors of one number are made once for a straight piece of code, and before a loop that has no other loops in it,
// where the timing model counts them; hosts' compilers do it themselves.
Result<PrimFunc> share_constants(const PrimFunc& function, const Target& target);

}  // namespace aipu::tir
