// How a stage is bound to the values of its symbols, for the files that it is spread over: plan.cpp has the order of
// the steps, place_tensors.cpp sizes and places, fill_commands.cpp the numbers of commands.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/executor/plan.h"

namespace aipu::runtime {

// Batch loops over more than so many different symbols are run as they are: each needs all expressions for a sample of
// its own.
constexpr size_t kMaxSampleValues = 8;

class StagePlanner {
 public:
  StagePlanner(const detail::ModelState& model, uint32_t stage, const ExpressionValues& values,
               std::span<StagePlan* const> earlier, int64_t memory_limit, uint32_t lanes, Meter& meter)
      : model_(model),
        root_(model.root()),
        tables_(model.tables),
        stage_(stage),
        earlier_(earlier),
        memory_limit_(memory_limit),
        lanes_(lanes),
        meter_(meter),
        plan_(std::make_unique<StagePlan>()),
        values_(values) {
    roots_ = {items(root_.inputs()).size(), items(root_.outputs()).size(), tables_.stage_count};
  }

  Result<std::unique_ptr<StagePlan>> run(std::span<const SymbolValue> symbols);

 private:
  Status take_tables(size_t symbols);
  Status take_words(uint64_t count);
  Status evaluate_checks() const;
  std::span<const ModelTables::BatchLoop> loops_of_stage() const;
  void enter_loops(std::span<const SymbolValue> symbols);
  const ExpressionValues* values_of_sample(std::span<const SymbolValue> symbols, uint32_t symbol, bool one_tec);
  uint32_t lane_count(int64_t samples) const;
  Status place_tensors();
  Status place_tensor(uint32_t tensor, Placement* placement) const;
  Status place_arena(fb::Memory memory, int64_t* bytes);
  Status fill_commands();
  Status fill_loops();
  Result<Placement> place_of_sample(uint32_t tensor) const;
  Status check_reach(const fb::Kernel& kernel, uint32_t argument, uint32_t tensor, int64_t bytes) const;
  Status fill_tec(const fb::Program& program, uint32_t index, Step* step);
  bool is_left_out(const fb::Program& program, uint32_t index) const;
  Status fill_left_out(const fb::TecCommand& command, Step* step);
  Status fill_dma(const fb::DmaCommand& command, Step* step);
  Status fill_host(const fb::HostCommand& command, Step* step);
  Status fill_host_work(const fb::HostCommand& command, Step* step);
  Status fill_call(const fb::Call& call);
  Status fill_text(const fb::TextCall& call);
  void sort_patches();

  // `what`, for the error: a text, or what makes one. Plans are made for each new shape, in loops that grow a sequence
  // in each iteration, and would spend half of their time on texts that nobody reads.
  template <class What>
  static Result<int64_t> value_in(const ExpressionValues& values, uint32_t expression, const What& what) {
    if (values.has_value(expression)) return values.value_or_zero(expression);
    if constexpr (std::is_invocable_v<What>) {
      return values.error(expression).context(what());
    } else {
      return values.error(expression).context(what);
    }
  }
  // As the command that is being filled in sees it.
  template <class What>
  Result<int64_t> value(uint32_t expression, const What& what) const {
    return value_in(*command_values_, expression, what);
  }
  // A tensor of this stage or an earlier one; one of a stage that was skipped is not known.
  const Placement& placement_of(uint32_t tensor) const {
    static const Placement kUnknown;
    const uint32_t home = tables_.tensor_stage[tensor];
    if (home > stage_ || (home < stage_ && earlier_[home] == nullptr)) return kUnknown;
    const StagePlan& plan = home == stage_ ? *plan_ : *earlier_[home];
    return plan.placements[tables_.tensor_slot[tensor]];
  }
  Placement& own_placement(uint32_t tensor) { return plan_->placements[tables_.tensor_slot[tensor]]; }
  // The loop that all uses of the tensor are in, if that one is run sample by sample: there is memory for one sample
  // then.
  const StagePlan::Loop* loop_of(uint32_t tensor) const {
    const uint32_t loop = entered_loop_of(tensor);
    return loop == kNone ? nullptr : &plan_->loops[loop];
  }
  // Its index in the plan.
  uint32_t entered_loop_of(uint32_t tensor) const {
    const uint32_t loop = tables_.loop_of_tensor[tensor];
    const bool is_here = loop != kNone && loop >= first_loop_ && loop - first_loop_ < plan_of_loop_.size();
    return is_here ? plan_of_loop_[loop - first_loop_] : kNone;
  }
  // For messages. Cold, and so are the ways to it: they are kept small, out of the way of what each plan runs through.
  [[gnu::cold]] std::string tensor_name(uint32_t tensor) const;
  bool is_on_host(uint32_t tensor) const {
    return items(root_.tensors())[tables_.tensor_root[tensor]]->memory() == fb::Memory::kHost;
  }
  // The place of a tensor that a command uses.
  Result<Placement> place_of(uint32_t tensor) const {
    if (loop_ != nullptr) return place_of_sample(tensor);
    Placement placement = placement_of(tensor);
    if (for_host_) placement.root = roots_.host_side(placement.root);
    if (placement.known) return placement;
    Placement unused;
    if (tables_.tensor_stage[tensor] == stage_) {
      if (Status status = place_tensor(tensor, &unused); !status.ok()) return status;
    }
    return invalid_argument(
        str_cat(tensor_name(tensor), ": its size depends on values that were not computed on the way here"));
  }
  void add_number(int64_t number) { add_word(static_cast<uint64_t>(number)); }
  void add_word(uint64_t word) {
    plan_->words.push_back(word);
    plan_->extents.push_back(0);
    plan_->writable.push_back(0);
  }
  // `writes`: what the command says. It is not believed of memory that nothing writes to.
  void add_address(const Placement& placement, int64_t offset, bool writes) {
    if (loop_ != nullptr) {
      const uint32_t word = static_cast<uint32_t>(plan_->words.size()) - loop_->first_word;
      if (placement.sample_stride != 0) loop_->sample_strides.push_back({word, placement.sample_stride});
      if (placement.lane_stride != 0) loop_->lane_strides.push_back({word, placement.lane_stride});
    }
    plan_->patches.push_back({placement.root, static_cast<uint32_t>(plan_->words.size()), placement.offset + offset});
    plan_->words.push_back(0);
    plan_->extents.push_back(static_cast<uint64_t>(placement.size - offset));
    plan_->writable.push_back(writes && roots_.is_written(placement.root) ? 1 : 0);
  }

  const detail::ModelState& model_;
  const fb::Model& root_;
  const ModelTables& tables_;
  const uint32_t stage_;
  std::span<StagePlan* const> earlier_;
  const int64_t memory_limit_;
  const uint32_t lanes_;
  Meter& meter_;
  size_t error_bytes_ = 0;
  bool for_host_ = false;  // the command that is being filled in is work of the host's
  Roots roots_;
  std::unique_ptr<StagePlan> plan_;
  const ExpressionValues& values_;
  // For one sample of a batch loop over a symbol, and one TEC if there are several lanes.
  struct SampleValues {
    uint32_t symbol;
    bool one_tec;
    ExpressionValues values;
  };
  std::vector<std::unique_ptr<SampleValues>> sample_values_;
  uint32_t first_loop_ = 0;                           // batch loop of the model, the first one of this stage
  std::vector<uint32_t> plan_of_loop_;                // per batch loop of this stage: index into plan_->loops
  std::vector<const ExpressionValues*> loop_values_;  // per loop of the plan
  StagePlan::Loop* loop_ = nullptr;                   // that is being filled in
  const ExpressionValues* command_values_ = &values_;
};

}  // namespace aipu::runtime
