#include "gbuilder/plan/place_concats.h"

#include <algorithm>
#include <map>

#include "graph/partition/needed.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::Graph;
using graph::ValueId;

namespace {

class Placer {
 public:
  Placer(const Graph& graph, std::vector<PlannedGroup>* groups) : graph_(graph), groups_(*groups) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const ValueId input : groups_[g].group.inputs) ++users_[input];
      if (!always_computed(groups_[g])) continue;
      const auto& outputs = groups_[g].implementation.strided_outputs;
      for (size_t i = 0; i < outputs.size(); ++i) writers_[outputs[i].value] = {g, i};
      const std::string& op = graph_.node(groups_[g].group.anchor).op;
      if (groups_[g].group.nodes.size() != 1 || (op != "Split" && op != "Slice")) continue;
      for (const ValueId output : groups_[g].group.outputs) producers_[output] = g;
    }
  }

  int run() {
    int dropped = 0;
    for (PlannedGroup& planned : groups_) {
      if (planned.group.nodes.size() != 1 || graph_.node(planned.group.anchor).op != "Concat") continue;
      if (!always_computed(planned)) continue;
      auto& launches = planned.implementation.launches;
      std::vector<kernels::Launch> kept;
      for (kernels::Launch& launch : launches) {
        auto* copy = std::get_if<kernels::CopyLaunch>(&launch);
        if (copy != nullptr && forward(planned, copy)) ++dropped;
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

  // What a run leaves out neither writes for another group nor has another one write for it.
  bool always_computed(const PlannedGroup& planned) const {
    return graph::needed_together(graph_, planned.group.nodes) == Dim(1);
  }

  bool place(const PlannedGroup& concat, const kernels::CopyLaunch& copy) {
    const kernels::PointerArgument& to = copy.destination;
    const kernels::PointerArgument& from = copy.source;
    if (to.tensor.kind != Kind::kValue || from.tensor.kind != Kind::kValue || from.byte_offset != Dim(0)) return false;
    const ValueId source = from.tensor.value;
    const ValueId result = to.tensor.value;
    const auto writer = writers_.find(source);
    if (writer == writers_.end() || !read_once_by(concat, source)) return false;
    if (groups_[writer->second.first].group.target != concat.group.target) return false;
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
    *launch.find_argument(output.pointer) = kernels::PointerArgument{to.tensor, to.byte_offset};
    *launch.find_argument(output.row_stride) = kernels::ScalarArgument{stride};
    producer.views.push_back({source, result, to.byte_offset});
    return true;
  }

  // Whether nothing but this Concat reads the value, once.
  bool read_once_by(const PlannedGroup& concat, ValueId value) {
    const auto& operands = graph_.node(concat.group.anchor).inputs;
    return users_[value] == 1 && !graph_.is_graph_output(value) &&
           std::count(operands.begin(), operands.end(), value) == 1;
  }

  // Makes the copy read what its source is a copy of.
  bool forward(const PlannedGroup& concat, kernels::CopyLaunch* copy) {
    if (copy->source.tensor.kind != Kind::kValue || copy->source.byte_offset != Dim(0)) return false;
    const ValueId source = copy->source.tensor.value;
    const auto producer = producers_.find(source);
    if (producer == producers_.end() || !read_once_by(concat, source) ||
        groups_[producer->second].group.target != concat.group.target ||
        !(copy->source_stride_bytes == copy->width_bytes))
      return false;
    kernels::Implementation& before = groups_[producer->second].implementation;
    for (auto launch = before.launches.begin(); launch != before.launches.end(); ++launch) {
      const auto* first = std::get_if<kernels::CopyLaunch>(&*launch);
      if (first == nullptr || first->destination.tensor.kind != Kind::kValue ||
          first->destination.tensor.value != source)
        continue;
      const bool same_rows = first->width_bytes == copy->width_bytes && first->times == copy->times &&
                             first->destination_stride_bytes == first->width_bytes &&
                             copy->width_bytes * copy->times == bytes_of(source);
      if (!same_rows || first->source.tensor.kind != Kind::kValue || first->destination.byte_offset != Dim(0))
        return false;
      const kernels::CopyLaunch skipped = *first;
      copy->source = skipped.source;
      copy->source_stride_bytes = skipped.source_stride_bytes;
      before.views.push_back({source, skipped.source.tensor.value, skipped.source.byte_offset});
      before.launches.erase(launch);
      return true;
    }
    return false;
  }

  Dim bytes_of(ValueId value) const {
    const graph::TensorType& type = graph_.type(value);
    return graph::element_count(type.shape) * Dim(static_cast<int64_t>(dtype_bytes(type.dtype)));
  }

  const Graph& graph_;
  std::vector<PlannedGroup>& groups_;
  std::map<ValueId, size_t> producers_;                   // of values that a Split or Slice copies
  std::map<ValueId, std::pair<size_t, size_t>> writers_;  // value -> group, index into its strided outputs
  std::map<ValueId, int> users_;                          // groups that read the value
};

}  // namespace

int place_concats(const Graph& graph, std::vector<PlannedGroup>* groups) { return Placer(graph, groups).run(); }

}  // namespace aipu::gbuilder
