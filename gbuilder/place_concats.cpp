#include "gbuilder/place_concats.h"

#include <algorithm>
#include <map>

namespace aipu::gbuilder {

using graph::Dim;
using graph::Graph;
using graph::ValueId;

namespace {

class Placer {
 public:
  Placer(const Graph& graph, std::vector<PlannedGroup>* groups) : graph_(graph), groups_(*groups) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto& outputs = groups_[g].implementation.strided_outputs;
      for (size_t i = 0; i < outputs.size(); ++i) writers_[outputs[i].value] = {g, i};
      for (const ValueId input : groups_[g].group.inputs) ++users_[input];
    }
  }

  int run() {
    int dropped = 0;
    for (PlannedGroup& planned : groups_) {
      if (planned.group.nodes.size() != 1 || graph_.node(planned.group.anchor).op != "Concat") continue;
      auto& launches = planned.implementation.launches;
      std::vector<kernels::Launch> kept;
      for (const kernels::Launch& launch : launches) {
        const auto* copy = std::get_if<kernels::CopyLaunch>(&launch);
        if (copy != nullptr && place(planned, *copy)) {
          ++dropped;
        } else {
          kept.push_back(launch);
        }
      }
      if (kept.size() == launches.size()) continue;
      launches = std::move(kept);
      planned.implementation.written_elsewhere.push_back(graph_.node(planned.group.anchor).outputs[0]);
    }
    return dropped;
  }

 private:
  using Kind = kernels::TensorRef::Kind;

  bool place(const PlannedGroup& concat, const kernels::CopyLaunch& copy) {
    const kernels::PointerArgument& to = copy.destination;
    const kernels::PointerArgument& from = copy.source;
    if (to.tensor.kind != Kind::kValue || from.tensor.kind != Kind::kValue || from.byte_offset != Dim(0)) return false;
    const ValueId source = from.tensor.value;
    const ValueId result = to.tensor.value;
    const auto writer = writers_.find(source);
    const auto& operands = graph_.node(concat.group.anchor).inputs;
    if (writer == writers_.end() || users_[source] != 1 || graph_.is_graph_output(source) ||
        std::count(operands.begin(), operands.end(), source) != 1)
      return false;
    // The copy moves the source row by row.
    const graph::TensorType& type = graph_.type(source);
    const auto element = static_cast<int64_t>(dtype_bytes(type.dtype));
    if (type.shape.empty()) return false;
    const Dim row = type.shape.back() * Dim(element);
    const Dim rows = graph::element_count(graph::Shape(type.shape.begin(), type.shape.end() - 1));
    if (!(copy.width_bytes == row) || !(copy.times == rows) || !(copy.source_stride_bytes == row)) return false;
    const Dim stride = graph::floordiv(copy.destination_stride_bytes, element);
    if (!(stride * Dim(element) == copy.destination_stride_bytes)) return false;

    kernels::Implementation& producer = groups_[writer->second.first].implementation;
    const kernels::StridedOutput output = producer.strided_outputs[writer->second.second];
    auto& launch = std::get<kernels::KernelLaunch>(producer.launches[output.launch]);
    launch.arguments[output.pointer] = kernels::PointerArgument{to.tensor, to.byte_offset};
    launch.arguments[output.row_stride] = kernels::ScalarArgument{stride};
    producer.views.push_back({source, result, to.byte_offset});
    const Dim elements = graph::element_count(graph_.type(result).shape);
    if (!elements.is_constant()) {
      producer.checks.push_back({graph::lt(elements, int64_t{1} << 31), "a tensor has 2^31 elements or more; kernels index with 32 bits"});
    }
    return true;
  }

  const Graph& graph_;
  std::vector<PlannedGroup>& groups_;
  std::map<ValueId, std::pair<size_t, size_t>> writers_;  // value -> group, index into its strided outputs
  std::map<ValueId, int> users_;                          // groups that read the value
};

}  // namespace

int place_concats(const Graph& graph, std::vector<PlannedGroup>* groups) { return Placer(graph, groups).run(); }

}  // namespace aipu::gbuilder
