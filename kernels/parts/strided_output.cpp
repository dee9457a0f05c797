#include "kernels/parts/strided_output.h"

namespace aipu::kernels {

void declare_strided_output(SetupContext& context, const Epilogue& epilogue, size_t pointer, size_t row_stride) {
  const graph::Graph& graph = context.graph();
  const graph::Shape& space = graph.type(epilogue.result).shape;
  for (const graph::ValueId extra : epilogue.extras) {
    if (operand_mode(graph.type(extra).shape, space) == "full") return;
  }
  const size_t launch = context.implementation.launches.size() - 1;
  context.implementation.strided_outputs.push_back({epilogue.result, launch, pointer, row_stride});
}

}  // namespace aipu::kernels
