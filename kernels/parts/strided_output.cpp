#include "kernels/parts/strided_output.h"

namespace aipu::kernels {

Status declare_strided_output(SetupContext& context, const Epilogue& epilogue) {
  constexpr std::string_view kPointer = "out", kRowStride = "ldc";
  auto& launch = std::get<KernelLaunch>(context.implementation.launches.back());
  if (launch.find_argument(kPointer) == nullptr || launch.find_argument(kRowStride) == nullptr) {
    return internal_error(str_cat("kernel \"", launch.kernel->entry().name, "\" has no parameters \"", kPointer,
                                  "\" and \"", kRowStride, "\" for a strided output"));
  }
  const graph::Graph& graph = context.graph();
  const graph::Shape& space = graph.type(epilogue.result).shape;
  for (const graph::ValueId extra : epilogue.extras) {
    if (operand_mode(graph.type(extra).shape, space) == "full") return {};
  }
  context.implementation.strided_outputs.push_back(
      {epilogue.result, context.implementation.launches.size() - 1, std::string(kPointer), std::string(kRowStride)});
  return {};
}

}  // namespace aipu::kernels
