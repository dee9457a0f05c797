// Runs an imported graph with oneDNN, op by op in ONNX's own NCHW layout: the independent reference of the demo and of
// the numerics tests. It shares nothing with the compiler but the importer; float32 only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace aipu::reference {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> data;
};

// All shapes must be static. An op that is not covered (Conv, ConvTranspose, BatchNormalization, pools, Gemm, MatMul,
// Softmax, the common elementwise ops, Concat, Reshape, Flatten, Transpose, LRN, Dropout, Identity) is an error that
// names it.
Result<std::map<std::string, Tensor>> run_with_dnnl(const graph::Graph& graph,
                                                    const std::map<std::string, Tensor>& inputs);

}  // namespace aipu::reference
