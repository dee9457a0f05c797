// Op plugins: the only way an op gets an implementation, for built-in and user ops alike.
//
// A plugin says which nodes it claims (graph::Claimer), and sets up the implementation: kernels instantiated from DSL
// templates with their launch arguments, packed constants, workspace, copies, views. What it builds is target-neutral
// in form; the target's row only picks lane counts and tiles.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"
#include "graph/ir/op_def.h"
#include "graph/partition/claim.h"
#include "kernels/dsl/environment.h"
#include "kernels/launch.h"

namespace aipu::kernels {

// How many TECs the session has, known once a model is bound: for memory that each TEC has for itself. Constants are
// folded with one.
constexpr std::string_view kTecCountSymbol = "(TECs)";
inline graph::Dim tec_count() { return graph::max(graph::Dim::symbol(kTecCountSymbol), 1); }

// The output is the input's memory (a view), optionally from a byte offset.
struct View {
  graph::ValueId output, input;
  graph::Dim byte_offset = 0;
};

// What the runtime checks once the shapes are bound; violation is the error `message`.
struct ShapeCheck {
  graph::Dim must_be_nonzero;
  std::string message;
};

// The same with numbers in the message, where {value} and {limit} stand for them.
struct ValueCheck {
  ShapeCheck check;
  graph::Dim value, limit;
};

// What a kernel may meet in its data that is an error of the model's user (an index outside of an axis): the message,
// in which {value} and {limit} stand for what the kernel gives to S.report_fault, and the node that it is about.
struct Fault {
  std::string message;
  graph::NodeId node;
};

// A launch that writes or reads a value in rows (of its last axis) which need not follow each other: its pointer may be
// sent elsewhere and its row stride made larger, so that the value becomes a part of a wider one.
struct StridedRows {
  graph::ValueId value;
  size_t launch = 0;
  std::string pointer, row_stride;  // parameters of the kernel; the stride in elements
};

// A launch that computes some lines (of the spatial axis before the last one) of one result of a batch as well as all
// of them: the kernel's parameters that say which. The first is the line that `image` and `result` point to.
struct BandedLaunch {
  std::string image, result;  // pointers: what it reads, in such lines, and what it writes
  std::string pixels;         // of the result in all, which are independent of each other; or, where that is empty:
  std::string batch, image_lines, result_lines, pad;
  std::vector<std::string> like_result = {};  // pointers to operands with the extents of the result
};

struct Implementation {
  std::vector<Launch> launches;  // in order
  std::vector<View> views;
  // (output, input): the output may take over the input's memory if it dies here
  std::vector<std::pair<graph::ValueId, graph::ValueId>> in_place;
  std::vector<graph::ConstantPtr> constants;
  std::vector<graph::Dim> workspace_bytes;
  std::vector<ShapeCheck> checks;
  std::vector<StridedRows> strided_outputs, strided_inputs;
  // The same of samples (the first axis): `row_stride` is what these are apart.
  std::vector<StridedRows> strided_samples;
  // outputs that launches of other groups write, see gbuilder/plan/place_concats.h
  std::vector<graph::ValueId> written_elsewhere;
  std::vector<std::string> notes;  // lines for the dump: how kernels were tiled
};

// Instantiates templates, once per distinct (file, entry, parameters). Owned by gbuilder, shared by all plugins.
class TemplateLibrary {
 public:
  TemplateLibrary();
  ~TemplateLibrary();
  // `file`: a built-in template's name ("elementwise.py") or a path registered by a user's plugin.
  // `wide_indices`: index arithmetic that a built-in template writes with int32 takes 64 bits.
  Result<std::shared_ptr<const tir::Module>> instantiate(std::string_view file, std::string_view entry,
                                                         const dsl::TemplateParams& params,
                                                         std::string_view kernel_name, bool wide_indices = false);
  void add_source(std::string name, std::string text);
  // Whether `variant` is one of the first `limit` that were asked about for `kind`.
  bool is_among_first(const std::string& kind, const std::string& variant, size_t limit);
  // Per argument of the entry: whether the kernel may write through it. Known of a module since it was first asked for.
  std::vector<bool> writes(const std::shared_ptr<const tir::Module>& module, size_t argument_count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class SetupContext {
 public:
  SetupContext(const graph::Graph& graph, const graph::Group& group, const tir::Target& target,
               TemplateLibrary& templates)
      : graph_(graph), group_(group), target_(target), templates_(templates) {}

  const graph::Graph& graph() const { return graph_; }
  const graph::Group& group() const { return group_; }
  const graph::Node& anchor() const { return graph_.node(group_.anchor); }
  const tir::Target& target() const { return target_; }

  // Vector lanes of the target's registers for an element type (16 for fp32 with 512 bits).
  int lanes(DType dtype) const { return target_.lanes(dtype_bits(dtype)); }

  TensorRef value(graph::ValueId id) const { return {TensorRef::Kind::kValue, id, 0}; }
  TensorRef add_constant(graph::ConstantPtr constant);
  // Memory for the launches of the group. What each TEC needs for itself takes tec_count() times as much.
  TensorRef add_workspace(graph::Dim bytes);
  // A kernel from a template. The kernel's name becomes "<template>__<origin>", made unique by gbuilder.
  Result<std::shared_ptr<const tir::Module>> kernel(std::string_view file, std::string_view entry,
                                                    const dsl::TemplateParams& params);
  // The same with index arithmetic as the template writes it, in 32 bits: for inner loops that have no register to
  // spare for wider counters. Tensors beyond that are refused (codegen/tir/index_width.h).
  Result<std::shared_ptr<const tir::Module>> narrow_kernel(std::string_view file, std::string_view entry,
                                                           const dsl::TemplateParams& params);
  // Of this compilation: TemplateLibrary::is_among_first().
  bool is_among_first(const std::string& kind, const std::string& variant, size_t limit) {
    return templates_.is_among_first(kind, variant, limit);
  }
  Status launch(std::shared_ptr<const tir::Module> kernel, const KernelArguments& arguments,
                graph::Dim max_tecs = int64_t{1} << 20);
  void copy(CopyLaunch copy) { implementation.launches.push_back(std::move(copy)); }
  void view(graph::ValueId output, graph::ValueId input, graph::Dim byte_offset = 0) {
    implementation.views.push_back({output, input, std::move(byte_offset)});
  }

  // A line for `aipugb --dump-ir`; "" is none.
  void note(std::string text) {
    if (!text.empty()) implementation.notes.push_back(std::move(text));
  }
  // The code by which the kernels of this group report a fault of `node` (default: the anchor).
  int64_t fault(std::string message, graph::NodeId node = {});
  // The run ends with the error `message` unless `must_be_nonzero`.
  void check(graph::Dim must_be_nonzero, std::string message, graph::Dim value, graph::Dim limit);
  const std::vector<Fault>& faults() const { return faults_; }
  const std::vector<ValueCheck>& value_checks() const { return value_checks_; }

  // Of some of the group's nodes, as a group whose launch is to compute any number of lines by itself.
  SetupContext in_bands(const graph::Group& part) const {
    SetupContext context(graph_, part, target_, templates_);
    context.in_bands_ = true;
    return context;
  }
  bool is_in_bands() const { return in_bands_; }
  // Of the launch made last.
  void declare_bands(BandedLaunch launch) { banded_ = std::move(launch); }
  const BandedLaunch& banded() const { return banded_; }

  Implementation implementation;

 private:
  const graph::Graph& graph_;
  const graph::Group& group_;
  const tir::Target& target_;
  TemplateLibrary& templates_;
  std::vector<Fault> faults_;
  std::vector<ValueCheck> value_checks_;
  bool in_bands_ = false;
  BandedLaunch banded_;
};

class OpPlugin : public graph::Claimer {
 public:
  virtual Status setup(SetupContext& context) const = 0;
};

// The usual plugin: one op type, one node per group (fusion of neighbours is offered through `epilogue`, see
// kernels/parts/fusion.h). Subclasses give `ops`, optionally `check`, and `setup`.
class SingleOpPlugin : public OpPlugin {
 public:
  virtual std::span<const std::string_view> ops() const = 0;
  virtual int score() const { return 10; }
  // Whether the node, whose op is one of `ops`, is for this plugin; unsupported() says why not.
  virtual Status check(const graph::Graph&, const graph::Node&) const { return {}; }
  graph::ClaimResult claim(const graph::Graph& graph, graph::NodeId anchor,
                           const graph::ClaimTarget& target) const override;
};

// All plugins and op records of one compilation: built-ins (kernels/plugins/plugin_list.h) first, then the user's,
// which get what they claim whatever the scores.
class PluginRegistry {
 public:
  static PluginRegistry with_builtins();
  void add(std::unique_ptr<OpPlugin> plugin) { plugins_.push_back(std::move(plugin)); }
  std::vector<const graph::Claimer*> claimers() const;  // the built-in ones
  std::vector<const graph::Claimer*> user_claimers() const;
  // Groups for all live nodes of a graph, as graph::partition(); remembers whose plugins got some.
  Result<std::vector<graph::Group>> partition(const graph::Graph& graph, const graph::ClaimTarget& target);
  Result<std::vector<graph::Group>> partition(const graph::Graph& graph,
                                              std::span<const graph::PartitionTarget> targets);
  bool was_used(const graph::Claimer* plugin) const { return used_.contains(plugin); }
  Status add_op(graph::OpDef def) {
    if (def.value) value_ops_.push_back(def.name);
    return ops_->add(std::move(def));
  }
  // The operators of users that need no plugin (graph::OpDef::value), in the order in which they were added.
  const std::vector<std::string>& value_ops() const { return value_ops_; }
  const std::shared_ptr<graph::OpSet>& ops() const { return ops_; }
  // Leaves out the plugins of that name; false if there are none.
  bool remove(std::string_view name);
  static const OpPlugin& plugin_of(const graph::Group& group) { return static_cast<const OpPlugin&>(*group.owner); }
  TemplateLibrary& templates() { return *templates_; }

 private:
  std::vector<std::unique_ptr<OpPlugin>> plugins_;
  std::unique_ptr<TemplateLibrary> templates_ = std::make_unique<TemplateLibrary>();
  std::shared_ptr<graph::OpSet> ops_ = std::make_shared<graph::OpSet>();
  size_t builtin_count_ = 0;
  std::set<const graph::Claimer*> used_;
  std::vector<std::string> value_ops_;
};

// Of what these headers declare to plugins in shared libraries.
constexpr int kPluginInterfaceVersion = 4;

// A user's shared library exports, with C linkage, a function whose name ends in that version; libraries of another one
// are refused:
//   extern "C" aipu::Status aipu_register_plugin_v4(aipu::kernels::PluginLibrary& library);
// and in it registers op records, importers of custom-domain ops (by passing them through under "domain::Name"),
// templates and plugins, all of them for the one compilation that the registry belongs to. It is called once for each.
class PluginLibrary {
 public:
  explicit PluginLibrary(PluginRegistry& registry) : registry_(registry) {}
  Status add_op(graph::OpDef def) { return registry_.add_op(std::move(def)); }
  void add_plugin(std::unique_ptr<OpPlugin> plugin) { registry_.add(std::move(plugin)); }
  void add_template(std::string name, std::string text) {
    registry_.templates().add_source(std::move(name), std::move(text));
  }
  const graph::OpSet& ops() const { return *registry_.ops(); }

 private:
  PluginRegistry& registry_;
};

}  // namespace aipu::kernels
