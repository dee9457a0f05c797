// The passes between a parsed kernel and its c_code, named as in toolchain.md 3 and 4. Private to codegen/compass_c.
//
// Each takes a verified function and returns one that verify() accepts and that computes the same (where it says
// otherwise, that is the text's meaning of the language, toolchain.md 3: index arithmetic does not overflow, dividends
// are not negative).
#pragma once

#include <string>
#include <vector>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"

namespace aipu::tir::c_text {

// FoldConstant, Simplify, ExchangeConstantToRight: constants are evaluated, integer sums and comparisons are put in
// canonical order (positive terms, constant, negative terms; `<` and `<=` only), constants stand on the right, tests
// that are decided disappear. Variables are never inlined, and floats are never reassociated. Comparisons and quotients
// assume that 32-bit arithmetic on parameters and counters does not overflow; what was read from memory may.
PrimFunc simplify(const PrimFunc& function);
Expr simplify(const Expr& expr);

// The part of Simplify that looks through names: a variable that is given a number once, and never another value, is
// that number where it is used. Its declaration stays.
PrimFunc propagate_constants(const PrimFunc& function);

// CanonicalizeDivMod: quotients and remainders of scalars by constant powers of two become shifts and masks, where the
// dividend cannot be negative: the language truncates, a shift does not. Parameters of the entry that are divided are
// taken not to be: they become its non_negative_params.
Module canonicalize_div_mod(const Module& module);

// EvaluateBoundsOnce: what a loop's bound, step and start are when it starts. Where the body changes what they are made
// of, C would see that in every round, so they become variables in front of it.
PrimFunc evaluate_bounds_once(const PrimFunc& function);

// UnrollLoop: loops that run once become their body, S.unroll loops copies of it.
PrimFunc unroll_loops(const PrimFunc& function);

// HoistIfThenElse: a test that does not depend on the loop around it, and is all that the loop does, leaves it.
PrimFunc hoist_if_then_else(const PrimFunc& function);

// VectorizeLoop: S.vectorized loops over stores become vector statements; loops with anything else in them become
// serial.
PrimFunc vectorize_loops(const PrimFunc& function);

// RenameForLoopVar: names of loop variables longer than 20 characters become i, j, k, ...
PrimFunc rename_loop_variables(const PrimFunc& function);

// InjectDma: counts of DMA calls in bytes, pointers to bytes.
PrimFunc inject_dma(const PrimFunc& function);

// InitializeEventState: events bear the names that the source gives them. The printer adds the statement that resets
// them.
PrimFunc name_events(const PrimFunc& function);

// UnifyThreadBinding: S.tec_range loops become a test of the TEC's id.
PrimFunc bind_threads(const PrimFunc& function, const Target& target);

// EliminateGetLocalID: one `tid = get_local_id(0)` at the start, then tid.
PrimFunc eliminate_get_local_id(const PrimFunc& function);

// CommonSubexprElimTIR: scalar expressions that occur more than once become variables cse_var_<n>.
PrimFunc eliminate_common_subexpressions(const PrimFunc& function);

// LowerStandard: operators over vectors and masks become intrinsics, but for + - * of numbers, which C has.
PrimFunc lower_standard(const PrimFunc& function);

// The vector part of ExchangeConstantToRight: comparisons with constants have them on the right; multiplying by a power
// of two is shifting left.
PrimFunc strength_reduce(const PrimFunc& function);

// AlignVectorWidthBySplit, AlignVectorWidthByPad, HandleSubFuncReturnFWV: values of any number of lanes become arrays
// of native vectors, the last one padded. What has no form on parts stays as it is, between S.vconcat and S.vpart.
Module align_vector_width(const Module& module);

// The vector of which `half` ("vxtl", "vxth") is extended to the lanes of `e`, whatever sign they are read with then;
// null: it is none.
Expr extended_half(const Expr& e, std::string_view half);

// CombineInstructions, as far as intrinsics say it: a shift before vnsr goes into it, the product of two widened halves
// is vmull or vmulh.
PrimFunc combine_instructions(const PrimFunc& function);

}  // namespace aipu::tir::c_text
