// The order of the graph passes. A pass may be listed more than once; --disable-pass disables all its places.
#include "graph/passes/passes.h"

namespace aipu::graph {

std::span<const Pass> graph_pipeline() {
  static const Pass passes[] = {
      // Before anything computes: nobody behind it knows of types that are stored only.
      {"lower_stored_types", "hold elements of types that nobody computes with as others, convert where they matter",
       lower_stored_types},
      {"eliminate_dead_nodes", "drop what no output needs, and captured values that sub-graphs do not use",
       eliminate_dead_nodes},
      // Before sub-graphs are rewritten on their own: everything behind sees one graph.
      {"inline_control_flow", "make branches and the bodies of short loops part of the graph around them",
       inline_control_flow},
      // First of all: shape arithmetic is most of many exported graphs, and once it is gone the rest is visible to the
      // patterns.
      {"resolve_shape_operands", "turn shape-like operands with known elements into attributes",
       resolve_shape_operands},
      {"fold_data", "turn integer tensors with known elements into constants", fold_data},
      // Before constants are folded: DequantizeLinear of weights is part of the patterns of these two.
      {"block_quantized_products", "multiply by weights of few bits as they are, where these have scales for blocks",
       block_quantized_products, Exactness::kRounds},
      {"integer_arithmetic", "let quantised graphs compute with integers", integer_arithmetic, Exactness::kRounds},
      {"fold_constants", "compute nodes whose inputs are all constant", fold_constants},
      {"simplify_algebra", "remove ops that do nothing, merge views and transposes", simplify_algebra},
      // Wants no Identity, Cast or constant arithmetic between the parts; before anything moves a factor of a pattern
      // into the op in front.
      {"recognise_operators", "make one node of LayerNormalization, Gelu, Swish and the like written out",
       recognise_operators, Exactness::kRounds},
      // Wants Identity, Cast and Pad between Conv and BatchNormalization gone, and weights behind DequantizeLinear or
      // Transpose folded.
      {"fold_batch_normalization", "fold scales and shifts per channel into weights and bias", fold_batch_normalization,
       Exactness::kRounds},
      // Branches have no BatchNormalization any more; one behind their sum can be folded once that is a Conv.
      {"merge_branches", "make one of convolutions of the same tensor whose results are added", merge_branches,
       Exactness::kRounds},
      {"fold_batch_normalization", "fold scales and shifts per channel into weights and bias", fold_batch_normalization,
       Exactness::kRounds},
      // After folding: a BatchNormalization that could be folded never becomes arithmetic. Before layouts: what comes
      // out may be laid out too.
      {"decompose", "express ops without a kernel by others", decompose, Exactness::kRounds},
      {"fold_constants", "compute nodes whose inputs are all constant", fold_constants},
      {"common_subexpressions", "compute equal nodes once", common_subexpressions},
      {"simplify_algebra", "remove ops that do nothing, merge views and transposes", simplify_algebra},
      // Wants every product of integers, before tables hold their bits.
      {"unsigned_bytes", "let products of bytes read uint8 where these are multiplied by signed ones", unsigned_bytes},
      // Wants scales where they stay, and activations written out as one node: fewer to evaluate.
      {"tabulate_bytes", "look up what several ops make of an 8-bit integer, where they round it to one again",
       tabulate_bytes},
      // The last to change shapes: what follows only tidies its Transposes.
      {"assign_layout", "choose NCHW or NHWC for every op so that the fewest bytes are transposed", assign_layout,
       Exactness::kRounds},
      {"sink_reshapes", "move Reshapes out from between Transposes, and behind what epilogues can take", sink_reshapes},
      {"sink_transposes", "move the remaining Transposes down until they cancel", sink_transposes, Exactness::kRounds},
      {"sink_reshapes", "move Reshapes out from between Transposes, and behind what epilogues can take", sink_reshapes},
      {"simplify_algebra", "remove ops that do nothing, merge views and transposes", simplify_algebra},
      {"common_subexpressions", "compute equal nodes once", common_subexpressions},
      // These two want every op where it will be computed; only Casts and rounded constants come behind.
      {"widen_halves", "multiply and keep float32 between products of float16, where the target has none of these",
       widen_halves, Exactness::kRounds},
      {"lower_precision", "multiply 16-bit floats and store what lies between as such, where that was asked for",
       lower_precision, Exactness::kRounds},
      // Behind it, and of models whose type is bfloat16 alike.
      {"hold_bfloats", "hold float32 numbers between products of bfloat16, where the target has none of these",
       hold_bfloats, Exactness::kRounds},
      {"eliminate_dead_nodes", "drop what no output needs, and captured values that sub-graphs do not use",
       eliminate_dead_nodes},
  };
  return passes;
}

}  // namespace aipu::graph
