// Layers of which each is the only one to read what the one before it computes, by bands of lines: what lies between
// them is then in the second-level cache, where whole images would go to memory and back. A pointwise or strided
// convolution, a depthwise one, a pointwise one, with their epilogues, or two neighbours of these; or what follows a
// strided one.
#include <algorithm>
#include <array>

#include "codegen/tir/link.h"
#include "kernels/parts/convolution.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/rounding.h"
#include "kernels/parts/spatial.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// What lies between has to be at least so large: smaller images stay in the second-level cache by themselves.
constexpr int64_t kLeastBytes = int64_t{1} << 20;
// Of a band, what lies between; with the weights and the lines in front and behind less than a second-level cache.
constexpr int64_t kBandBytes = int64_t{512} << 10;
constexpr size_t kMostStages = 3;

enum class Kind : uint8_t { kPointwise, kDepthwise, kStrided };

// A convolution of images of known extents.
struct Stage {
  NodeId anchor;
  std::vector<NodeId> nodes;  // the anchor and its epilogue
  Kind kind = Kind::kPointwise;
  SpatialGeometry geometry;
  int64_t weight_size = 0;  // bytes of one
  int64_t result_size = 0;  // bytes of an element that the nodes give

  const SpatialAxis& height() const { return geometry.axes[1]; }
  const SpatialAxis& width() const { return geometry.axes[2]; }
  int64_t reach() const { return (height().kernel - 1) * height().dilation + 1; }
  int64_t image_line() const { return *width().in.constant() * *geometry.channels.constant(); }
  int64_t weight_bytes() const {
    const int64_t per_channel = kind == Kind::kDepthwise ? 1 : *geometry.channels.constant();
    return height().kernel * width().kernel * per_channel * *geometry.out_channels.constant() * weight_size;
  }
  int64_t result_line() const { return *width().out.constant() * *geometry.out_channels.constant(); }
};

std::optional<Stage> stage_at(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != "Conv") return std::nullopt;
  const DType type = graph.type(node.inputs[0]).dtype;
  if (type != DType::kF32 && type != DType::kBF16) return std::nullopt;
  const auto weights = read_weights(graph, node);
  if (!weights.ok()) return std::nullopt;
  const auto geometry = read_geometry(graph, node, weights->kernel);
  if (!geometry.ok() || graph.type(node.inputs[0]).rank() != 4) return std::nullopt;
  Stage stage{
      .anchor = id, .nodes = {id}, .geometry = *geometry, .weight_size = static_cast<int64_t>(dtype_bytes(type))};
  const auto known = [](const Dim& extent) { return extent.constant_or(0) > 0; };
  for (const SpatialAxis* axis : {&stage.height(), &stage.width()}) {
    if (!known(axis->in) || !known(axis->out) || !axis->pad_begin.is_constant()) return std::nullopt;
  }
  if (!known(geometry->channels) || !known(geometry->out_channels)) return std::nullopt;
  // Each line of the result has a line of the image under its window.
  if (*stage.height().pad_begin.constant() >= stage.reach()) return std::nullopt;
  const bool pointwise = std::all_of(geometry->axes.begin(), geometry->axes.end(), [](const SpatialAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == Dim(0) && axis.pad_end == Dim(0);
  });
  if (weights->group == 1) {
    if (!pointwise && stage.height().stride == 1) return std::nullopt;
    stage.kind = pointwise ? Kind::kPointwise : Kind::kStrided;
  } else if (weights->group_in == 1 && weights->group_out == 1) {
    stage.kind = Kind::kDepthwise;
  } else {
    return std::nullopt;
  }
  return stage;
}

// Whether a stage may follow those. The third one reads no lines but those that the second one has just made.
bool follows(Kind kind, const std::vector<Stage>& stages) {
  if (stages.empty()) return true;
  const Kind before = stages.back().kind;
  if (stages.size() > 1) return kind == Kind::kPointwise && before != Kind::kPointwise;
  return before == Kind::kDepthwise   ? kind == Kind::kPointwise
         : before == Kind::kPointwise ? kind == Kind::kDepthwise
                                      : true;
}

ValueId result_of(const Graph& graph, const Stage& stage) { return graph.node(stage.nodes.back()).outputs[0]; }

// Once all of its nodes are known.
void complete(const Graph& graph, Stage* stage) {
  stage->result_size = static_cast<int64_t>(dtype_bytes(graph.type(result_of(graph, *stage)).dtype));
}

int64_t image_bytes(const Stage& stage) {
  return *stage.height().out.constant() * stage.result_line() * stage.result_size;
}

// Lines of the second stage's result at a time.
int64_t band_lines(const std::vector<Stage>& stages) {
  const Stage& second = stages[1];
  const int64_t height = *second.height().out.constant();
  const auto bytes = [&](int64_t lines) {
    const int64_t between = ((lines - 1) * second.height().stride + second.reach()) * stages[0].result_line();
    return between * stages[0].result_size +
           (stages.size() > 2 ? lines * second.result_line() * second.result_size : 0);
  };
  int64_t lines = 1;
  while (lines < height && bytes(lines + 1) <= kBandBytes) ++lines;
  return ceil_of(height, ceil_of(height, lines));
}

// Weights that do not stay in the second-level cache beside a band pass by for each band, which must be less than what
// lies between, written and read again.
bool is_worth_bands(const std::vector<Stage>& stages) {
  constexpr int64_t kKeptBytes = int64_t{1} << 20;
  int64_t weights = 0, between = 0;
  for (size_t k = 0; k < stages.size(); ++k) {
    weights += stages[k].weight_bytes();
    if (k + 1 < stages.size()) between += image_bytes(stages[k]);
  }
  const int64_t bands = ceil_of(*stages[1].height().out.constant(), band_lines(stages));
  return weights <= kKeptBytes || weights * (bands - 1) <= 2 * between;
}

// The stages from a node on.
std::vector<Stage> stages_from(const Graph& graph, NodeId anchor) {
  std::vector<Stage> stages;
  for (NodeId next = anchor; next.valid() && stages.size() < kMostStages;) {
    auto stage = stage_at(graph, next);
    if (!stage || !follows(stage->kind, stages)) break;
    for (const NodeId id : epilogue_nodes(graph, next)) stage->nodes.push_back(id);
    complete(graph, &*stage);
    stages.push_back(std::move(*stage));
    const ValueId result = result_of(graph, stages.back());
    const auto users = graph.users(result);
    next = users.size() == 1 && !graph.is_graph_output(result) && graph.node(users[0]).inputs[0] == result ? users[0]
                                                                                                           : NodeId();
  }
  while (stages.size() > 1 && !is_worth_bands(stages)) stages.pop_back();
  return stages;
}

// The place of a parameter of a kernel; -1: "".
Result<int64_t> place_of(const tir::PrimFunc& entry, std::string_view parameter) {
  if (parameter.empty()) return -1;
  for (size_t i = 0; i < entry.params.size(); ++i) {
    if (entry.params[i]->source_name() == parameter) return static_cast<int64_t>(i);
  }
  return internal_error(str_cat("kernel \"", entry.name, "\" has no parameter \"", parameter, "\""));
}

// A stage's kernel by itself, as the template wants to know it.
struct Part {
  std::shared_ptr<const tir::Module> kernel;
  std::vector<KernelArgument> arguments;
  std::vector<int64_t> places, like_result;
};

class BandsPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "bands"; }

  graph::ClaimResult claim(const Graph& graph, NodeId anchor, const graph::ClaimTarget& target) const override {
    if (graph.node(anchor).op != "Conv") return std::nullopt;
    const auto found = tir::find_target(target.name);
    if (!found.ok() || found->cache_bytes() == 0) return std::nullopt;
    const std::vector<Stage> stages = stages_from(graph, anchor);
    if (stages.size() < 2 || image_bytes(stages[0]) < kLeastBytes) return std::nullopt;
    graph::Claim claim{anchor, {}, 30};
    for (const Stage& stage : stages) claim.nodes.insert(claim.nodes.end(), stage.nodes.begin(), stage.nodes.end());
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    std::vector<Stage> stages;
    for (const NodeId id : context.group().nodes) {
      if (graph.node(id).op != "Conv") {
        stages.back().nodes.push_back(id);
        continue;
      }
      auto stage = stage_at(graph, id);
      if (!stage) return internal_error("not a convolution to compute by bands");
      stages.push_back(std::move(*stage));
    }
    for (Stage& stage : stages) complete(graph, &stage);
    // Somebody else had the rest before.
    if (stages.size() == 1) return conv_->setup(context);
    std::vector<Part> parts;
    for (const Stage& stage : stages) {
      AIPU_ASSIGN_OR_RETURN(Part part, set_up(context, stage));
      parts.push_back(std::move(part));
    }
    return launch(context, stages, std::move(parts));
  }

 private:
  Result<Part> set_up(SetupContext& context, const Stage& stage) const {
    graph::Group group = context.group();
    group.anchor = stage.anchor;
    group.nodes = stage.nodes;
    SetupContext own = context.in_bands(group);
    AIPU_RETURN_IF_ERROR(conv_->setup(own));
    const Implementation& made = own.implementation;
    if (made.launches.size() != 1 || !made.workspace_bytes.empty() || own.banded().image.empty())
      return internal_error("a convolution that is more than a launch of lines");
    const auto& launch = std::get<KernelLaunch>(made.launches[0]);
    Part part{.kernel = launch.kernel, .arguments = launch.arguments};
    for (KernelArgument& argument : part.arguments) {
      auto* pointer = std::get_if<PointerArgument>(&argument);
      if (pointer != nullptr && pointer->tensor.kind == TensorRef::Kind::kConstant)
        pointer->tensor = context.add_constant(made.constants[static_cast<size_t>(pointer->tensor.index)]);
    }
    const BandedLaunch& banded = own.banded();
    for (const std::string* name : {&banded.image, &banded.result, &banded.pixels, &banded.batch, &banded.image_lines,
                                    &banded.result_lines, &banded.pad}) {
      AIPU_ASSIGN_OR_RETURN(const int64_t place, place_of(part.kernel->entry(), *name));
      part.places.push_back(place);
    }
    for (const std::string& name : banded.like_result) {
      AIPU_ASSIGN_OR_RETURN(const int64_t place, place_of(part.kernel->entry(), name));
      part.like_result.push_back(place);
    }
    return part;
  }

  static dsl::Captured numbers(const std::vector<int64_t>& values) {
    dsl::CapturedList list;
    for (const int64_t value : values) list.push_back({value});
    return {std::move(list)};
  }

  static Status launch(SetupContext& context, const std::vector<Stage>& stages, std::vector<Part> parts) {
    constexpr std::array<std::string_view, kMostStages> kNames = {"a", "b", "c"},
                                                        kStands = {"first", "second", "third"};
    const int64_t band = band_lines(stages);
    const int lanes = context.lanes(DType::kF32);
    // What lies between, for each TEC.
    std::array<int64_t, 2> elements = {
        rounded_up(((band - 1) * stages[1].height().stride + stages[1].reach()) * stages[0].result_line(), lanes), 0};
    if (stages.size() > 2) elements[1] = rounded_up(band * stages[1].result_line(), lanes);
    for (size_t k = 0; k + 1 < parts.size(); ++k) {
      const TensorRef memory = context.add_workspace(tec_count() * Dim(elements[k] * stages[k].result_size));
      std::get<PointerArgument>(parts[k].arguments[static_cast<size_t>(parts[k].places[1])]).tensor = memory;
      std::get<PointerArgument>(parts[k + 1].arguments[static_cast<size_t>(parts[k + 1].places[0])]).tensor = memory;
    }
    dsl::TemplateParams params;
    KernelArguments arguments;
    std::vector<std::pair<std::string, const tir::Module*>> kernels;
    dsl::CapturedList places, like_result;
    for (size_t k = 0; k < kMostStages; ++k) {
      dsl::CapturedList types;
      NamedScalars lines;
      if (k < parts.size()) {
        for (const tir::VarPtr& parameter : parts[k].kernel->entry().params)
          types.push_back({dsl::CapturedType{parameter->type}});
        kernels.emplace_back(kStands[k], parts[k].kernel.get());
        places.push_back(numbers(parts[k].places));
        like_result.push_back(numbers(parts[k].like_result));
        arguments.list(kNames[k], parts[k].arguments);
      }
      params.set(str_cat(kNames[k], "_types"), dsl::Captured{std::move(types)});
      const Stage stage = k < stages.size() ? stages[k] : Stage();
      const bool there = k < stages.size();
      lines = {{"image", stage.height().in},
               {"result", stage.height().out},
               {"image_line", there ? stage.image_line() : 0},
               {"result_line", there ? stage.result_line() : 0},
               {"pixels", stage.width().out},
               {"stride", stage.height().stride},
               {"pad", stage.height().pad_begin},
               {"reach", stage.reach()}};
      arguments.record(str_cat("of_", kNames[k]), lines);
    }
    params.set("PLACES", dsl::Captured{std::move(places)})
        .set("LIKE_RESULT", dsl::Captured{std::move(like_result)})
        .set("VL", lanes)
        .set("__no_restrict__", true);
    AIPU_ASSIGN_OR_RETURN(const auto driver, context.narrow_kernel("bands.py", "bands", params));
    AIPU_ASSIGN_OR_RETURN(tir::Module linked, tir::link_modules(*driver, kernels));
    const Dim images = stages[0].geometry.batch, height = stages[1].height().out;
    arguments.scalars({{"images", images}, {"band", band}, {"a_elements", elements[0]}, {"b_elements", elements[1]}});
    return context.launch(std::make_shared<const tir::Module>(std::move(linked)), arguments,
                          graph::max(images * graph::ceildiv(height, band), 1));
  }

  std::unique_ptr<OpPlugin> conv_ = make_conv_plugin();
};

}  // namespace

std::unique_ptr<OpPlugin> make_bands_plugin() { return std::make_unique<BandsPlugin>(); }

}  // namespace aipu::kernels
