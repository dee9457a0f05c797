#include "gbuilder/plan/place_concats.h"

#include <algorithm>
#include <map>
#include <optional>

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
      for (const ValueId input : groups_[g].group.inputs) readers_[input].push_back(g);
      for (const ValueId output : groups_[g].group.outputs) makers_[output] = g;
      if (!always_computed(groups_[g])) continue;
      if (is_concat(groups_[g])) concats_[graph_.node(groups_[g].group.anchor).outputs[0]] = g;
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
      if (!is_concat(planned)) continue;
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
      const size_t moved = kept.size();
      write_over(planned, &kept);
      dropped += static_cast<int>(moved - kept.size());
      if (kept.size() == launches.size()) continue;
      launches = std::move(kept);
      planned.implementation.written_elsewhere.push_back(graph_.node(planned.group.anchor).outputs[0]);
    }
    // The last one first: what it holds is there for good.
    for (auto planned = groups_.rbegin(); planned != groups_.rend(); ++planned) {
      if (!is_concat(*planned)) continue;
      auto& launches = planned->implementation.launches;
      std::vector<kernels::Launch> copied;
      for (const kernels::Launch& launch : launches) {
        const auto* copy = std::get_if<kernels::CopyLaunch>(&launch);
        if (copy == nullptr || !(put_inside(*planned, *copy) || put_samples_inside(*planned, *copy)))
          copied.push_back(launch);
      }
      if (copied.size() < launches.size()) {
        dropped += static_cast<int>(launches.size() - copied.size());
        launches = std::move(copied);
        planned->implementation.written_elsewhere.push_back(graph_.node(planned->group.anchor).outputs[0]);
      }
      const auto grown = std::find_if(launches.begin(), launches.end(), [&](const kernels::Launch& launch) {
        const auto* copy = std::get_if<kernels::CopyLaunch>(&launch);
        return copy != nullptr && grow(*planned, *copy);
      });
      if (grown == launches.end()) continue;
      ++dropped;
      launches.erase(grown);
      planned->implementation.written_elsewhere.push_back(graph_.node(planned->group.anchor).outputs[0]);
    }
    return dropped;
  }

 private:
  using Kind = kernels::TensorRef::Kind;

  // What a run leaves out neither writes for another group nor has another one write for it.
  bool always_computed(const PlannedGroup& planned) const {
    return graph::needed_together(graph_, planned.group.nodes) == Dim(1);
  }

  bool is_concat(const PlannedGroup& planned) const {
    return planned.group.nodes.size() == 1 && graph_.node(planned.group.anchor).op == "Concat" &&
           always_computed(planned);
  }

  // A launch that walks rows, by the names of its parameters.
  struct Place {
    size_t group;
    kernels::StridedRows rows;
  };
  void send(const Place& place, const kernels::PointerArgument& to, const Dim& stride) {
    auto& launch = std::get<kernels::KernelLaunch>(groups_[place.group].implementation.launches[place.rows.launch]);
    *launch.find_argument(place.rows.pointer) = to;
    *launch.find_argument(place.rows.row_stride) = kernels::ScalarArgument{stride};
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
    const std::optional<Dim> stride = stride_of_rows(copy);
    if (!stride) return false;
    const Place place{writer->second.first,
                      groups_[writer->second.first].implementation.strided_outputs[writer->second.second]};
    send(place, {to.tensor, to.byte_offset}, *stride);
    placed_[result].push_back(place);
    groups_[place.group].implementation.views.push_back({source, result, to.byte_offset});
    return true;
  }

  // Of a Concat that puts parts of a Split back where they were, among others that were computed (the boxes of a
  // detector): what was split is made in the result's memory, and those parts need not be copied.
  void write_over(const PlannedGroup& concat, std::vector<kernels::Launch>* launches) {
    const ValueId result = graph_.node(concat.group.anchor).outputs[0];
    // Launches sent here may run before what is split is there.
    if (placed_.contains(result)) return;
    const auto split_in = [](const kernels::Launch& launch) {
      const auto* copy = std::get_if<kernels::CopyLaunch>(&launch);
      return copy != nullptr && copy->source.tensor.kind == Kind::kValue ? copy->source.tensor.value : ValueId();
    };
    for (const kernels::Launch& launch : *launches) {
      const ValueId whole = split_in(launch);
      if (!may_be_written_over(concat, whole)) continue;
      const PlannedGroup& split = groups_[readers_[whole][0]];
      size_t parts = 0, stay = 0;
      for (const kernels::View& view : split.implementation.views) parts += view.input == whole ? 1 : 0;
      for (const kernels::Launch& other : *launches) stay += split_in(other) == whole && stays(other) ? 1 : 0;
      if (stay == 0 || stay != parts) continue;
      launches->erase(
          std::remove_if(launches->begin(), launches->end(),
                         [&](const kernels::Launch& other) { return split_in(other) == whole && stays(other); }),
          launches->end());
      PlannedGroup& maker = groups_[makers_.at(whole)];
      take_no_memory(&maker.implementation, whole);
      maker.implementation.views.push_back({whole, result, 0});
      written_over_.insert({whole, result});
      return;
    }
  }

  // Whether the value is a tensor as large as the result that only a Split reads, all of it before the Concat runs.
  bool may_be_written_over(const PlannedGroup& concat, ValueId whole) {
    const ValueId result = graph_.node(concat.group.anchor).outputs[0];
    if (!whole.valid() || graph_.is_graph_output(whole) || !(bytes_of(whole) == bytes_of(result)) ||
        readers_[whole].size() != 1 || concats_.contains(whole))
      return false;
    // What a run's symbols are read from has to stay as it is.
    const auto& symbols = graph_.symbols();
    if (std::any_of(symbols.begin(), symbols.end(), [&](const auto& symbol) { return symbol.value == whole; }))
      return false;
    const PlannedGroup& split = groups_[readers_[whole][0]];
    const auto maker = makers_.find(whole);
    if (maker == makers_.end() || graph_.node(split.group.anchor).op != "Split" || split.group.nodes.size() != 1 ||
        split.group.target != concat.group.target)
      return false;
    const PlannedGroup& own = groups_[maker->second];
    const auto& views = own.implementation.views;
    const bool is_view =
        std::any_of(views.begin(), views.end(), [&](const auto& view) { return view.output == whole; });
    // One that bodies write is named by no launch.
    return !is_view && references(own, whole) > 0 && own.group.target == concat.group.target && always_computed(own) &&
           always_computed(split);
  }

  bool is_written_over(ValueId result) const {
    return std::any_of(written_over_.begin(), written_over_.end(),
                       [&](const auto& pair) { return pair.second == result; });
  }

  // Whether something that was split lies in the memory of this Concat's result, wherever that is by now, until its
  // other parts are copied there: what is made there before would be lost.
  bool lies_over(const PlannedGroup& concat) const {
    return is_written_over(graph_.node(concat.group.anchor).outputs[0]);
  }

  // Whether the copy moves bytes to where they are in a tensor of the same size.
  static bool stays(const kernels::Launch& launch) {
    const auto& copy = std::get<kernels::CopyLaunch>(launch);
    return copy.source.byte_offset == copy.destination.byte_offset &&
           copy.source_stride_bytes == copy.destination_stride_bytes;
  }

  // How many elements the rows of the copy's source are apart in the result; nullopt: it does not move rows.
  std::optional<Dim> stride_of_rows(const kernels::CopyLaunch& copy) const {
    const graph::TensorType& type = graph_.type(copy.source.tensor.value);
    const auto element = static_cast<int64_t>(dtype_bytes(type.dtype));
    if (type.shape.empty()) return std::nullopt;
    const Dim row = type.shape.back() * Dim(element);
    const Dim rows = graph::element_count(graph::Shape(type.shape.begin(), type.shape.end() - 1));
    if (!(copy.width_bytes == row) || !(copy.times == rows) || !(copy.source_stride_bytes == row)) return std::nullopt;
    const Dim stride = graph::floordiv(copy.destination_stride_bytes, element);
    if (!(stride * Dim(element) == copy.destination_stride_bytes)) return std::nullopt;
    return stride;
  }

  // Puts the result of a Concat where this other one copies it to: its writers and readers take rows there.
  bool grow(const PlannedGroup& concat, const kernels::CopyLaunch& copy) {
    if (copy.destination.tensor.kind != Kind::kValue || copy.source.tensor.kind != Kind::kValue ||
        copy.source.byte_offset != Dim(0))
      return false;
    const ValueId source = copy.source.tensor.value;
    const std::optional<Dim> stride = stride_of_rows(copy);
    if (!stride || graph_.is_graph_output(source)) return false;
    // Nobody tells the launches that make what it is written over that rows are further apart.
    if (is_written_over(source) || lies_over(concat)) return false;
    const auto found = concats_.find(source);
    if (found == concats_.end()) return false;
    PlannedGroup& own = groups_[found->second];
    const graph::Node& node = graph_.node(own.group.anchor);
    if (own.group.target != concat.group.target ||
        node.attributes.i("axis") + 1 != static_cast<int64_t>(graph_.type(source).rank()))
      return false;
    // Who reads it: this Concat once, others by launches that say how.
    std::vector<Place> readers;
    for (const size_t g : readers_[source]) {
      const PlannedGroup& reader = groups_[g];
      size_t known = 1;
      if (&reader != &concat) {
        known = 0;
        for (const kernels::StridedRows& rows : reader.implementation.strided_inputs) {
          if (rows.value != source) continue;
          readers.push_back({g, rows});
          ++known;
        }
      }
      if (known == 0 || known != references(reader, source) || reader.group.target != concat.group.target) return false;
    }
    // Who writes it: copies of its own, and launches that were sent there.
    const Dim row = copy.width_bytes;
    for (const kernels::Launch& launch : own.implementation.launches) {
      const auto* part = std::get_if<kernels::CopyLaunch>(&launch);
      const bool is_rows = part != nullptr && part->destination.tensor.kind == Kind::kValue &&
                           part->destination.tensor.value == source && part->destination_stride_bytes == row &&
                           part->times == copy.times;
      if (!is_rows) return false;
    }
    const kernels::PointerArgument& to = copy.destination;
    for (kernels::Launch& launch : own.implementation.launches) {
      auto& part = std::get<kernels::CopyLaunch>(launch);
      part.destination = {to.tensor, to.byte_offset + part.destination.byte_offset};
      part.destination_stride_bytes = copy.destination_stride_bytes;
    }
    for (const Place& writer : placed_[source]) {
      auto& launch = std::get<kernels::KernelLaunch>(groups_[writer.group].implementation.launches[writer.rows.launch]);
      const auto& before = std::get<kernels::PointerArgument>(*launch.find_argument(writer.rows.pointer));
      send(writer, {to.tensor, to.byte_offset + before.byte_offset}, *stride);
    }
    for (const Place& reader : readers) {
      send(reader, to, *stride);
      // Nobody takes over memory that others hold more in.
      auto& in_place = groups_[reader.group].implementation.in_place;
      in_place.erase(
          std::remove_if(in_place.begin(), in_place.end(), [&](const auto& pair) { return pair.second == source; }),
          in_place.end());
    }
    own.implementation.views.push_back({source, to.tensor.value, to.byte_offset});
    return true;
  }

  // Has the operand of a Concat that is one run of its result made there, whoever makes it. Only of one sample: batch
  // loops know what memory is made of samples.
  bool put_inside(const PlannedGroup& concat, const kernels::CopyLaunch& copy) {
    const kernels::PointerArgument& to = copy.destination;
    if (to.tensor.kind != Kind::kValue || copy.source.tensor.kind != Kind::kValue ||
        copy.source.byte_offset != Dim(0) || !(copy.times == Dim(1)) || !to.byte_offset.is_constant() ||
        lies_over(concat))
      return false;
    // The result has to have its memory when the operand is made: not only once a run says how long it is.
    if (!bytes_of(to.tensor.value).is_constant()) return false;
    if (!(copy.width_bytes == bytes_of(copy.source.tensor.value))) return false;
    if (!bytes_of(copy.source.tensor.value).is_constant()) return false;
    const auto [own, value] = maker_behind_views(concat, copy.source.tensor.value, 1);
    if (own == nullptr) return false;
    const std::vector<Place>& writers = placed_[value];
    if (references(*own, value) == 0 && writers.empty()) return false;  // bodies write it
    for (kernels::Launch& launch : own->implementation.launches) {
      for_each_pointer(launch, [&, value = value](kernels::PointerArgument& pointer) {
        if (pointer.tensor.kind == Kind::kValue && pointer.tensor.value == value)
          pointer = {to.tensor, to.byte_offset + pointer.byte_offset};
      });
    }
    for (const Place& writer : writers) {
      auto& launch = std::get<kernels::KernelLaunch>(groups_[writer.group].implementation.launches[writer.rows.launch]);
      auto& pointer = std::get<kernels::PointerArgument>(*launch.find_argument(writer.rows.pointer));
      pointer = {to.tensor, to.byte_offset + pointer.byte_offset};
    }
    take_no_memory(&own->implementation, value);
    own->implementation.views.push_back({value, to.tensor.value, to.byte_offset});
    return true;
  }

  // The same of any number of samples, if all launches that make or read the operand can walk samples that are further
  // apart.
  bool put_samples_inside(const PlannedGroup& concat, const kernels::CopyLaunch& copy) {
    const kernels::PointerArgument& to = copy.destination;
    const Dim samples = copy.times;
    if (to.tensor.kind != Kind::kValue || copy.source.tensor.kind != Kind::kValue ||
        copy.source.byte_offset != Dim(0) || samples.is_constant() || !to.byte_offset.is_constant() ||
        !(copy.source_stride_bytes == copy.width_bytes) || !is_known_from_inputs(bytes_of(to.tensor.value)) ||
        !(copy.destination_stride_bytes * samples == bytes_of(to.tensor.value)) || lies_over(concat))
      return false;
    const auto [own, value] = maker_behind_views(concat, copy.source.tensor.value, samples);
    const auto element = static_cast<int64_t>(dtype_bytes(graph_.type(to.tensor.value).dtype));
    const Dim stride = graph::floordiv(copy.destination_stride_bytes, element);
    if (own == nullptr || !placed_[value].empty() || !(stride * Dim(element) == copy.destination_stride_bytes))
      return false;
    std::vector<Place> places;
    bool all = add_sample_places(makers_.at(value), value, &places) && !places.empty();
    for (const auto& [whole, result] : written_over_) {
      if (result != value) continue;
      all = all && add_sample_places(makers_.at(whole), whole, &places) &&
            add_sample_places(readers_[whole][0], whole, &places);
    }
    if (!all) return false;
    for (const Place& place : places) {
      auto& launch = std::get<kernels::KernelLaunch>(groups_[place.group].implementation.launches[place.rows.launch]);
      const auto& before = std::get<kernels::PointerArgument>(*launch.find_argument(place.rows.pointer));
      send(place, {to.tensor, to.byte_offset + before.byte_offset}, stride);
      take_no_memory(&groups_[place.group].implementation, place.rows.value);
    }
    own->implementation.views.push_back({value, to.tensor.value, to.byte_offset});
    return true;
  }

  // The launches of a group that touch the value, if all of them say how to walk its samples.
  bool add_sample_places(size_t group, ValueId value, std::vector<Place>* places) const {
    const kernels::Implementation& implementation = groups_[group].implementation;
    size_t known = 0;
    for (const kernels::StridedRows& rows : implementation.strided_samples) {
      if (rows.value != value) continue;
      places->push_back({group, rows});
      ++known;
    }
    return known == launch_references(groups_[group], value);
  }

  // The group that makes the value which this one is a view of, all of it, and that value; null: others read it, or it
  // is none of tensors of so many samples.
  std::pair<PlannedGroup*, ValueId> maker_behind_views(const PlannedGroup& concat, ValueId value, const Dim& samples) {
    const PlannedGroup* reader = &concat;
    for (;;) {
      const graph::Shape& shape = graph_.type(value).shape;
      if (graph_.is_graph_output(value) || readers_[value].size() != 1 || references(*reader, value) != 1 ||
          shape.size() < 2 || !(shape[0] == samples))
        return {};
      const auto maker = makers_.find(value);
      if (maker == makers_.end()) return {};
      PlannedGroup* const own = &groups_[maker->second];
      if (own->group.target != concat.group.target || !always_computed(*own)) return {};
      const auto& views = own->implementation.views;
      const auto view =
          std::find_if(views.begin(), views.end(), [&](const kernels::View& v) { return v.output == value; });
      if (view == views.end()) return {own, value};
      if (!own->implementation.launches.empty() || view->byte_offset != Dim(0) ||
          !(bytes_of(view->input) == bytes_of(value)))
        return {};
      reader = own;
      value = view->input;
    }
  }

  // Whether it is known before anything runs.
  bool is_known_from_inputs(const Dim& dim) const {
    std::vector<std::string> names;
    dim.collect_symbols(&names);
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      const graph::Symbol* symbol = graph_.find_symbol(name);
      return symbol != nullptr && symbol->kind == graph::Symbol::Kind::kInputExtent;
    });
  }

  // The value lies in memory of another one.
  static void take_no_memory(kernels::Implementation* implementation, ValueId value) {
    auto& in_place = implementation->in_place;
    in_place.erase(std::remove_if(in_place.begin(), in_place.end(),
                                  [&](const auto& pair) { return pair.first == value || pair.second == value; }),
                   in_place.end());
  }

  template <class Function>
  static void for_each_pointer(kernels::Launch& launch, const Function& function) {
    if (auto* copy = std::get_if<kernels::CopyLaunch>(&launch)) {
      function(copy->source);
      function(copy->destination);
      return;
    }
    for (kernels::KernelArgument& argument : std::get<kernels::KernelLaunch>(launch).arguments) {
      if (auto* pointer = std::get_if<kernels::PointerArgument>(&argument)) function(*pointer);
    }
  }

  // How often launches of the group name the value; with views that see it.
  static size_t references(const PlannedGroup& planned, ValueId value) {
    size_t count = launch_references(planned, value);
    for (const kernels::View& view : planned.implementation.views) count += view.input == value ? 1 : 0;
    return count;
  }
  static size_t launch_references(const PlannedGroup& planned, ValueId value) {
    const auto is_value = [&](const kernels::TensorRef& tensor) {
      return tensor.kind == Kind::kValue && tensor.value == value;
    };
    size_t count = 0;
    for (const kernels::Launch& launch : planned.implementation.launches) {
      if (const auto* copy = std::get_if<kernels::CopyLaunch>(&launch)) {
        count += (is_value(copy->source.tensor) ? 1 : 0) + (is_value(copy->destination.tensor) ? 1 : 0);
        continue;
      }
      for (const kernels::KernelArgument& argument : std::get<kernels::KernelLaunch>(launch).arguments) {
        const auto* pointer = std::get_if<kernels::PointerArgument>(&argument);
        count += pointer != nullptr && is_value(pointer->tensor) ? 1 : 0;
      }
    }
    return count;
  }

  // Whether nothing but this Concat reads the value, once.
  bool read_once_by(const PlannedGroup& concat, ValueId value) {
    const auto& operands = graph_.node(concat.group.anchor).inputs;
    return readers_[value].size() == 1 && !graph_.is_graph_output(value) &&
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
      if (written_over_.contains(skipped.source.tensor.value)) return false;
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
  std::map<ValueId, std::vector<size_t>> readers_;        // groups that read the value
  std::map<ValueId, size_t> makers_;                      // the group that the value is an output of
  std::map<ValueId, size_t> concats_;                     // of results, those that are always computed
  std::map<ValueId, std::vector<Place>> placed_;          // launches of other groups that write a Concat's result
  std::map<ValueId, ValueId> written_over_;  // what a Split takes apart -> the Concat's result that takes its place
};

}  // namespace

int place_concats(const Graph& graph, std::vector<PlannedGroup>* groups) { return Placer(graph, groups).run(); }

}  // namespace aipu::gbuilder
