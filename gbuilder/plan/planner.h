// The decisions of make_plan(), step by step; internal to gbuilder.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

// What kernels::kTecCountSymbol becomes for kernels of the host beside a device.
constexpr std::string_view kHostTecCountSymbol = "(host TECs)";

// Where a value's bytes are: `root` is a value that is no view, `offset` bytes into it.
struct ValueMemory {
  graph::ValueId root;
  graph::Dim offset = 0;
};

// Turns groups into an ordered list of commands over tensors: schedule, tensors, views, outputs, symbols, checks. What
// remains to be done on the finished order (lifetimes, in-place merging, waits) is plan_lifetimes() and plan_waits().
class Planner {
 public:
  explicit Planner(PlanInput input) : input_(std::move(input)), graph_(*input_.graph) {}
  Result<Plan> run();

 private:
  // The commands around one group, in order.
  struct Slot {
    std::vector<Command> checks, commands, binds, fetches, copies;
  };
  struct InPlaceHint {
    uint32_t output = 0, input = 0;  // tensors
    graph::ValueId input_value;
  };
  using ValueMap = std::map<graph::ValueId, size_t>;

  Status schedule();
  Status collect_views();
  void add_inputs();
  Status assign_outputs();
  Status record_group(size_t group);
  Status check_reach(size_t group, const PlanKernel& kernel, size_t i, const PlanArgument& argument) const;
  // host_work.cpp
  bool is_on_host(graph::ValueId root) const;
  Result<uint32_t> tensor_for(graph::ValueId value, Memory memory);
  void do_on_host(Command* command);
  TecBody* launch_in(Command* command);
  void keep_inputs_on_host();
  Status record_launch(size_t group, const kernels::KernelLaunch& launch, uint32_t kernel,
                       std::vector<uint32_t>* workspaces, Command* command);
  Status record_copy(size_t group, const kernels::CopyLaunch& copy, std::vector<uint32_t>* workspaces,
                     Command* command);
  // control_flow.cpp
  Status record_call(size_t group, Slot* slot);
  // text_calls.cpp
  Status record_text_call(size_t group, Slot* slot);
  Status record_checks(size_t group);
  Status record_check(size_t group, const kernels::ShapeCheck& check, const graph::Dim* value, const graph::Dim* limit);
  void record_output_copies();
  Status record_binds();
  void flatten();
  void apply_in_place();

  ValueMemory resolve(graph::ValueId value) const;
  bool is_materialised(graph::ValueId value) const;
  Result<uint32_t> tensor_of(graph::ValueId value);
  uint32_t constant_tensor(const graph::ConstantPtr& constant, const std::string& name);
  Result<uint32_t> tensor_of(size_t group, const kernels::TensorRef& ref, std::vector<uint32_t>* workspaces);
  uint32_t add_tensor(std::string name, const graph::TensorType& type, TensorKind kind);
  uint32_t origin_of(const PlannedGroup& group);
  uint32_t origin_id(const graph::OriginSet& origins);
  // Where a group reads an operand: at its beginning if there is nothing to compute, since a part of no elements may
  // begin anywhere.
  graph::Dim read_offset(size_t group, const graph::Dim& offset) const;
  graph::Dim needed_by(size_t group) const;
  std::vector<PlanFault> faults_of(size_t group);
  uint32_t string_id(const std::string& text);
  // As the group sees it that is being recorded.
  ExpressionId expr(const graph::Dim& dim);
  graph::Dim bytes_of(graph::ValueId value) const;
  std::string describe(size_t group) const;
  std::vector<std::string> symbols_needed(const PlannedGroup& group) const;
  // The slot after which the value's bytes are complete: 0 is the start.
  size_t slot_of(graph::ValueId value) const;

  PlanInput input_;
  const graph::Graph& graph_;
  Plan plan_;
  std::vector<size_t> order_;                    // schedule position -> group
  std::vector<size_t> position_;                 // group -> schedule position
  ValueMap producer_;                            // value -> group
  std::map<graph::ValueId, ValueMemory> views_;  // as given by the plugins
  std::map<graph::ValueId, uint32_t> tensor_of_value_;
  // The other memory's copy of a part of a value that is no view.
  struct Twin {
    graph::Dim offset, bytes;
    uint32_t tensor;
  };
  std::map<graph::ValueId, std::vector<Twin>> twins_;
  Memory memory_ = Memory::kDevice;              // of the group that is being recorded
  std::map<graph::ValueId, uint32_t> promoted_;  // root value -> the output tensor that is its memory
  std::map<Hash128, uint32_t> constants_;
  std::map<std::string, uint32_t> strings_, origins_;
  std::set<std::tuple<size_t, uint32_t, uint32_t, uint32_t, uint32_t>> known_checks_;  // slot, and what is checked
  std::vector<size_t> copied_outputs_;                                                 // indices into graph outputs
  std::vector<InPlaceHint> hints_;
  std::vector<uint32_t> group_of_command_;  // by sequence; kNone: of no group
  std::vector<Slot> slots_;                 // [0] the start, [1 + position] a group
};

// First and last use of the arena tensors of programs[0] by sequence.
void plan_lifetimes(Plan* plan);
// The waits of programs[0]: see plan.h for the execution model they make safe. Needs lifetimes and in-place decisions.
void plan_waits(Plan* plan);

}  // namespace aipu::gbuilder
