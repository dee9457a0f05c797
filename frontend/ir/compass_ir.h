// Compass IR: the text form of a graph in Compass's `key=value` layers, and the weight file beside it (toolchain
// reference, section 8).
//
// A graph is written as Input layers, Constant layers, one layer per node in execution order, Symbol layers. Beyond the
// keys of the reference:
//
//   header     format=aipu-graph-1             this dialect; a text without it is in the reference's form (see DslCall)
//              output_names=[y]                names of the graph outputs, where output_tensors are the values
//   any layer  layer_graph=2                   the sub-graph the layer belongs to; absent in the main graph
//   node       layer_subgraphs=[1,2]           sub-graphs of If, Loop, Scan; their layers come first
//              layer_top_data=[[2,N],-]        known elements of the outputs, where any are
//              layer_origins="conv1" "Conv", "relu1" "Relu"       the ONNX nodes it came from, name and op
//              attr.NAME=int 1 | float 0.5 | string "x" | dtype float32 | ints [1,2] | floats [1.5] | strings ["x"]
//                        | dims [N,3]
//              attr.NAME=tensor float32 [2,2] at 0 size 16        in the weight file
//   Constant   weights_type, weights_shape, weights_offset, weights_size
//   Symbol     symbol_kind=extent|element, symbol_tensor, symbol_index: what binds the symbol layer_name
//   Subgraph   layer_top: its outputs, output_names, captured_count, symbol_scope, subgraph_name; its number is
//              layer_graph
//
// Extents are Dim expressions: [[N, 3, 2*H + 1]]. Names that are not plain words are quoted; an absent operand or
// output is `-`. Reading what was written gives a graph that prints the same (print_graph).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/base/status.h"

namespace aipu::frontend {

struct CompassIr {
  std::string text;
  std::vector<std::byte> weights;  // constants at multiples of 64 bytes for a graph, back to back for a DSL call
};

// Without weights, the text is the same and `weights` stays empty.
CompassIr write_compass_ir(const graph::Graph& graph, bool with_weights = true);
// `owner` keeps `weights` alive: constants borrow from it. `ops`: what layers may be; null: the built-in ones. A DSL
// text becomes a graph with one node, op "DSL_<entry>", whose operands are inputs, then constants.
Result<std::unique_ptr<graph::Graph>> read_compass_ir(std::string_view text, std::span<const std::byte> weights,
                                                      std::shared_ptr<const void> owner,
                                                      std::shared_ptr<const graph::OpSet> ops = nullptr);
// `weights_path` may be empty for a text without weights. Errors start with the path.
Result<std::unique_ptr<graph::Graph>> import_compass_ir(const std::string& text_path, const std::string& weights_path,
                                                        std::shared_ptr<const graph::OpSet> ops = nullptr);

// One call of a DSL kernel, in the reference's exact form: an Input layer per input and one DSL_<entry> layer.
struct DslCall {
  struct Tensor {
    DType dtype = DType::kVoid;
    std::vector<int64_t> shape;
  };
  std::string entry;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<std::pair<std::string, graph::ConstantPtr>> constants;  // in parameter order
  std::vector<std::pair<std::string, std::string>> attributes;        // in parameter order, as text
};
CompassIr write_dsl_ir(const DslCall& call);
Result<DslCall> read_dsl_ir(std::string_view text, std::span<const std::byte> weights,
                            std::shared_ptr<const void> owner);
// From files, as import_compass_ir() does it.
Result<DslCall> import_dsl_ir(const std::string& text_path, const std::string& weights_path);

}  // namespace aipu::frontend
