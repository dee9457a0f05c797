#include "runtime/executor/plan.h"

#include <algorithm>

#include "runtime/base/arena.h"
#include "runtime/base/checked_math.h"
#include "runtime/base/fault.h"
#include "runtime/base/text.h"

namespace aipu::runtime {
namespace {

// Batch loops over more than so many different symbols are run as they are: each needs all expressions for a sample of
// its own.
constexpr size_t kMaxSampleValues = 8;

class StagePlanner {
 public:
  StagePlanner(const detail::ModelState& model, uint32_t stage, std::span<StagePlan* const> earlier,
               int64_t memory_limit, uint32_t lanes, Meter& meter)
      : model_(model),
        root_(model.root()),
        tables_(model.tables),
        stage_(stage),
        earlier_(earlier),
        memory_limit_(memory_limit),
        lanes_(lanes),
        meter_(meter),
        plan_(std::make_unique<StagePlan>()) {
    roots_ = {items(root_.inputs()).size(), items(root_.outputs()).size()};
  }

  Result<std::unique_ptr<StagePlan>> run(std::span<const SymbolValue> symbols) {
    AIPU_RETURN_IF_ERROR(take_tables(symbols.size()));
    for (const uint32_t s : tables_.stage_symbols[stage_]) plan_->symbols.push_back(symbols[s]);
    values_.evaluate(root_, symbols);
    AIPU_RETURN_IF_ERROR(evaluate_checks());
    enter_loops(symbols);
    AIPU_RETURN_IF_ERROR(place_tensors());
    AIPU_RETURN_IF_ERROR(fill_commands());
    AIPU_RETURN_IF_ERROR(fill_loops());
    sort_patches();
    plan_->bytes = meter_.bytes_taken();
    return std::move(plan_);
  }

 private:
  Status take_tables(size_t symbols);
  Status take_words(uint64_t count);
  Status evaluate_checks() const;
  void enter_loops(std::span<const SymbolValue> symbols);
  const ExpressionValues* values_of_sample(std::span<const SymbolValue> symbols, uint32_t symbol, bool one_tec);
  uint32_t lane_count(int64_t samples) const;
  Status place_tensors();
  Status place_tensor(uint32_t tensor, Placement* placement) const;
  Status place_arena();
  Status fill_commands();
  Status fill_loops();
  Result<Placement> place_of_sample(uint32_t tensor) const;
  Status check_reach(const fb::Kernel& kernel, uint32_t argument, uint32_t tensor, int64_t bytes) const;
  Status fill_tec(const fb::Program& program, uint32_t index, Step* step);
  bool is_left_out(const fb::Program& program, uint32_t index) const;
  Status fill_left_out(const fb::TecCommand& command, Step* step);
  Status fill_dma(const fb::DmaCommand& command, Step* step);
  Status fill_host(const fb::HostCommand& command, Step* step);
  Status fill_call(const fb::Call& call);
  void sort_patches();

  static Result<int64_t> value_in(const ExpressionValues& values, uint32_t expression, std::string_view what) {
    if (values.has_value(expression)) return values.value_or_zero(expression);
    return values.error(expression).context(what);
  }
  // As the command that is being filled in sees it.
  Result<int64_t> value(uint32_t expression, std::string_view what) const {
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
  std::string tensor_name(uint32_t tensor) const {
    return str_cat("tensor '", text(items(root_.tensors())[tensor]->name()), "'");
  }
  // The place of a tensor that a command uses.
  Result<Placement> place_of(uint32_t tensor) const {
    if (loop_ != nullptr) return place_of_sample(tensor);
    const Placement& placement = placement_of(tensor);
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
    const bool is_memory_of_the_run = placement.root >= roots_.output(0) && placement.root != roots_.constants();
    plan_->writable.push_back(writes && is_memory_of_the_run ? 1 : 0);
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
  Roots roots_;
  std::unique_ptr<StagePlan> plan_;
  ExpressionValues values_;
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

// Memory for all but the words of commands, vectors that grow included.
Status StagePlanner::take_tables(size_t symbols) {
  constexpr int64_t kPerExpression = sizeof(int64_t) + sizeof(uint8_t) + sizeof(uint32_t);
  constexpr int64_t kPerTensor = sizeof(Placement) + 8 * sizeof(uint32_t) + 2 * sizeof(ArenaRequest) + 64;
  // For all samples, and for one of each kind of loop.
  const auto sets = static_cast<int64_t>(1 + std::min(tables_.batch_loops.size(), kMaxSampleValues));
  AIPU_RETURN_IF_ERROR(meter_.take(items(root_.expressions()).size() * kPerExpression * sets));
  AIPU_RETURN_IF_ERROR(meter_.take(static_cast<int64_t>(symbols * sizeof(SymbolValue))));
  AIPU_RETURN_IF_ERROR(meter_.take(static_cast<int64_t>(tables_.stage_tensors[stage_].size()) * kPerTensor));
  return meter_.take(static_cast<int64_t>(tables_.stages[stage_].size() * 2 * sizeof(Step)));
}

// Before the words of a command.
Status StagePlanner::take_words(uint64_t count) {
  constexpr uint64_t kPerWord = sizeof(unsigned long long) + sizeof(uint64_t) + 1 + sizeof(StagePlan::Patch);
  AIPU_RETURN_IF_ERROR(meter_.take(static_cast<int64_t>(2 * kPerWord * count)));
  return meter_.check_time_often();
}

// Only those of the main program: a check in a branch that is not taken says nothing. They come first, so that their
// messages win over those about sizes.
Status StagePlanner::evaluate_checks() const {
  for (const auto& [program, position] : tables_.stages[stage_]) {
    const auto& command = tables_.programs[program][position];
    if (program != 0 || command.engine != fb::Engine::kHost) continue;
    const fb::HostCommand& host = *items(items(root_.programs())[program]->host())[command.index];
    if (host.op() != fb::HostOp::kCheck) continue;
    AIPU_ASSIGN_OR_RETURN(const int64_t holds, value(host.a(), command_text(model_, program, command)));
    if (holds == 0) return check_status(model_, values_, program, command);
  }
  return {};
}

// Samples side by side share no memory but the weights, and need not wait for each other; but the last ones must not
// keep some lanes idle for long. Otherwise all TECs work on one sample.
uint32_t StagePlanner::lane_count(int64_t samples) const {
  const int64_t rounds = (samples + lanes_ - 1) / lanes_;
  return rounds * lanes_ * 7 <= samples * 8 ? lanes_ : 1;
}

// Null: too many already.
const ExpressionValues* StagePlanner::values_of_sample(std::span<const SymbolValue> symbols, uint32_t symbol,
                                                       bool one_tec) {
  for (const auto& known : sample_values_) {
    if (known->symbol == symbol && known->one_tec == one_tec) return &known->values;
  }
  if (sample_values_.size() >= kMaxSampleValues) return nullptr;
  std::vector<SymbolValue> one(symbols.begin(), symbols.end());
  one[symbol].value = 1;
  for (uint32_t s = 0; s < one.size() && one_tec; ++s) {
    if (items(root_.symbols())[s]->kind() == fb::SymbolKind::kTecCount) one[s].value = 1;
  }
  sample_values_.push_back(std::make_unique<SampleValues>(SampleValues{symbol, one_tec, {}}));
  sample_values_.back()->values.evaluate(root_, one);
  return &sample_values_.back()->values;
}

// With one sample a loop is what it is without; with none there is nothing to run.
void StagePlanner::enter_loops(std::span<const SymbolValue> symbols) {
  const auto& loops = tables_.batch_loops;
  const auto [begin, end] = std::equal_range(
      loops.begin(), loops.end(), ModelTables::BatchLoop{0, 0, 0, stage_},
      [](const ModelTables::BatchLoop& a, const ModelTables::BatchLoop& b) { return a.stage < b.stage; });
  first_loop_ = static_cast<uint32_t>(begin - loops.begin());
  plan_of_loop_.assign(static_cast<size_t>(end - begin), kNone);
  for (auto loop = begin; loop != end; ++loop) {
    if (!symbols[loop->symbol].bound || symbols[loop->symbol].value < 2) continue;
    const int64_t samples = symbols[loop->symbol].value;
    const uint32_t lanes = lane_count(samples);
    const ExpressionValues* values = values_of_sample(symbols, loop->symbol, lanes > 1);
    if (values == nullptr) continue;
    plan_of_loop_[static_cast<size_t>(loop - begin)] = static_cast<uint32_t>(plan_->loops.size());
    loop_values_.push_back(values);
    StagePlan::Loop& entered = plan_->loops.emplace_back();
    entered.first = loop->first;
    entered.last = loop->last;
    entered.samples = samples;
    entered.lanes = lanes;
  }
}

Status StagePlanner::place_tensor(uint32_t index, Placement* placement) const {
  const fb::Tensor& tensor = *items(root_.tensors())[index];
  const auto dtype = static_cast<DType>(tensor.dtype());
  const uint32_t loop = entered_loop_of(index);
  const auto value = [&](uint32_t expression, std::string_view what) {
    return value_in(loop != kNone ? *loop_values_[loop] : values_, expression, what);
  };
  AIPU_ASSIGN_OR_RETURN(const int64_t size, value(tensor.size_bytes(), tensor_name(index) + ", its size"));
  if (size < 0) return invalid_argument(str_cat(tensor_name(index), " has the negative size ", size));
  int64_t needed = static_cast<int64_t>(dtype_bytes(dtype));
  bool overflows = false;
  const auto shape = items(tensor.shape());
  for (uint32_t k = 0; k < shape.size(); ++k) {
    AIPU_ASSIGN_OR_RETURN(const int64_t extent, value(shape[k], str_cat(tensor_name(index), ", extent ", k)));
    if (extent < 0)
      return invalid_argument(str_cat(tensor_name(index), " has the negative extent ", extent, " at axis ", k));
    if (extent == 0) needed = 0;
    const auto product = checked_mul(needed, extent);
    overflows |= !product;
    needed = product.value_or(needed);
  }
  if (needed != 0 && overflows)
    return out_of_range(str_cat(tensor_name(index), " has more elements than 64 bits can count"));
  const bool is_interface = tensor.kind() == fb::TensorKind::kInput || tensor.kind() == fb::TensorKind::kOutput;
  if (size < needed || (is_interface && size != needed)) {
    return invalid_model(str_cat(tensor_name(index), " has ", size, " bytes, but its elements take ", needed));
  }
  if (size > memory_limit_)
    return out_of_range(str_cat(tensor_name(index), " takes ", size, " bytes; the limit is ", memory_limit_,
                                " (--run-memory-limit, SessionOptions::memory_limit_bytes)"));

  placement->size = size;
  placement->known = true;
  switch (tensor.kind()) {
    case fb::TensorKind::kInput:
      placement->root = roots_.input(tables_.input_of_tensor[index]);
      break;
    case fb::TensorKind::kOutput:
      placement->root = roots_.output(tables_.output_of_tensor[index]);
      break;
    case fb::TensorKind::kConstant:
      placement->root = roots_.constants();
      placement->offset = static_cast<int64_t>(tensor.offset_bytes());
      break;
    case fb::TensorKind::kArena:
      placement->root = roots_.arena(stage_);
      break;
    case fb::TensorKind::kView: {
      AIPU_ASSIGN_OR_RETURN(int64_t offset, value(tensor.view_offset(), tensor_name(index) + ", its offset"));
      const Placement& base = placement_of(tensor.base());
      if (base.known && base.size == 0) offset = 0;
      if (!base.known) {
        placement->known = false;
        if (tables_.tensor_stage[tensor.base()] == stage_) {
          Placement unused;
          AIPU_RETURN_IF_ERROR(place_tensor(tensor.base(), &unused));
        }
        return invalid_argument(
            str_cat(tensor_name(index), " is a view of ", tensor_name(tensor.base()), ", which has no place"));
      }
      if (offset < 0 || offset > base.size || size > base.size - offset) {
        return invalid_argument(str_cat(tensor_name(index), " (", size, " bytes at ", offset, ") is outside of ",
                                        tensor_name(tensor.base()), " (", base.size, " bytes)"));
      }
      placement->root = base.root;
      placement->offset = base.offset + offset;
      break;
    }
  }
  return {};
}

Status StagePlanner::place_arena() {
  const auto tensors = items(root_.tensors());
  const auto slot = [&](uint32_t tensor) { return tables_.tensor_slot[tensor]; };
  std::vector<uint32_t> order;
  for (const uint32_t i : tables_.stage_tensors[stage_]) {
    if (tensors[i]->kind() == fb::TensorKind::kArena && placement_of(i).known) order.push_back(i);
  }
  // What goes into or comes out of a loop lives as long as it: the last sample is read at the end, the first one
  // written at the beginning.
  struct Life {
    uint32_t first, last;
  };
  std::vector<Life> lives(plan_->placements.size());
  const auto& commands = tables_.programs[0];
  const auto loop_around = [&](uint32_t sequence) -> const StagePlan::Loop* {
    const auto loop = std::partition_point(
        plan_->loops.begin(), plan_->loops.end(),
        [&](const StagePlan::Loop& candidate) { return commands[candidate.last].sequence < sequence; });
    return loop != plan_->loops.end() && commands[loop->first].sequence <= sequence ? &*loop : nullptr;
  };
  for (const uint32_t index : order) {
    Life& life = lives[slot(index)];
    life = {tensors[index]->first_use(), tensors[index]->last_use()};
    if (loop_of(index) != nullptr) continue;
    if (const auto* loop = loop_around(life.first)) life.first = commands[loop->first].sequence;
    if (const auto* loop = loop_around(life.last)) life.last = commands[loop->last].sequence;
  }
  // The solver wants a tensor after the one whose memory it takes over.
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Life &x = lives[slot(a)], &y = lives[slot(b)];
    return x.first != y.first ? x.first < y.first : x.last < y.last;
  });
  // What no loop owns, and what each loop owns.
  std::vector<uint32_t> members;
  std::vector<std::vector<uint32_t>> loop_members(plan_->loops.size());
  for (const uint32_t index : order) {
    const uint32_t loop = entered_loop_of(index);
    (loop == kNone ? members : loop_members[loop]).push_back(index);
  }
  std::vector<uint32_t> request_of(plan_->placements.size(), ArenaRequest::kNone);
  const auto requests_of = [&](const std::vector<uint32_t>& group) {
    std::vector<ArenaRequest> requests;
    for (const uint32_t index : group) {
      const fb::Tensor& tensor = *tensors[index];
      const uint32_t base = tensor.in_place_of();
      const Life& life = lives[slot(index)];
      // One sample does not take over the memory of all, nor the other way round.
      const bool may_take_over = base != kNone && tables_.tensor_stage[base] == stage_ &&
                                 loop_of(base) == loop_of(index) && life.first == tensor.first_use() &&
                                 lives[slot(base)].last == tensors[base]->last_use();
      request_of[slot(index)] = static_cast<uint32_t>(requests.size());
      requests.push_back({placement_of(index).size, life.first, life.last,
                          may_take_over ? request_of[slot(base)] : ArenaRequest::kNone});
    }
    return requests;
  };
  std::vector<ArenaRequest> requests = requests_of(members);
  for (size_t i = 0; i < plan_->loops.size(); ++i) {
    StagePlan::Loop& loop = plan_->loops[i];
    AIPU_RETURN_IF_ERROR(meter_.check_time_often());
    AIPU_ASSIGN_OR_RETURN(const ArenaPlan lane, solve_arena(requests_of(loop_members[i])));
    for (size_t k = 0; k < loop_members[i].size(); ++k) own_placement(loop_members[i][k]).offset = lane.offsets[k];
    loop.lane_bytes = lane.size_bytes;
    const auto bytes = checked_mul(lane.size_bytes, static_cast<int64_t>(loop.lanes));
    if (!bytes) return out_of_range("the memory of a batch loop overflows 64 bits");
    requests.push_back({*bytes, commands[loop.first].sequence, commands[loop.last].sequence, ArenaRequest::kNone});
  }
  AIPU_ASSIGN_OR_RETURN(const ArenaPlan arena, solve_arena(requests));
  plan_->arena_bytes = arena.size_bytes;
  for (size_t i = 0; i < members.size(); ++i) own_placement(members[i]).offset = arena.offsets[i];
  for (size_t i = 0; i < plan_->loops.size(); ++i) {
    for (const uint32_t index : loop_members[i]) own_placement(index).offset += arena.offsets[members.size() + i];
  }
  return {};
}

Status StagePlanner::place_tensors() {
  const auto tensors = items(root_.tensors());
  const auto& here = tables_.stage_tensors[stage_];
  plan_->placements.resize(here.size());
  for (const uint32_t i : here) {
    if (tensors[i]->kind() == fb::TensorKind::kView) continue;
    AIPU_RETURN_IF_ERROR(meter_.check_time_often());
    Placement placement;
    // A tensor that cannot be placed is an error for the command that uses it, if it is ever reached; inputs are
    // always used.
    const Status status = place_tensor(i, &placement);
    if (status.ok()) own_placement(i) = placement;
    if (!status.ok() && tensors[i]->kind() == fb::TensorKind::kInput) return status;
  }
  AIPU_RETURN_IF_ERROR(place_arena());
  int64_t total = plan_->arena_bytes;
  for (const uint32_t i : here) {
    const Placement& placement = placement_of(i);
    if (tensors[i]->kind() != fb::TensorKind::kOutput || !placement.known) continue;
    StagePlan::KnownOutput output{tables_.output_of_tensor[i], placement.size, {}};
    const auto shape = items(tensors[i]->shape());
    for (uint32_t k = 0; k < shape.size(); ++k) output.shape.push_back(values_.value_or_zero(shape[k]));
    plan_->outputs.push_back(std::move(output));
    total = checked_add(total, placement.size).value_or(INT64_MAX);
  }
  if (total > memory_limit_)
    return out_of_range(str_cat("these shapes need ", total, " bytes of memory; the limit is ", memory_limit_,
                                " (--run-memory-limit, SessionOptions::memory_limit_bytes)"));

  // Views after what they look into: chains are short (check.cpp), so a few rounds settle all of them.
  std::vector<uint32_t> views;
  for (const uint32_t i : here) {
    if (tensors[i]->kind() == fb::TensorKind::kView) views.push_back(i);
  }
  bool progress = true;
  while (progress && !views.empty()) {
    progress = false;
    std::erase_if(views, [&](uint32_t i) {
      if (!placement_of(tensors[i]->base()).known) return false;
      Placement placement;
      if (place_tensor(i, &placement).ok()) own_placement(i) = placement;
      progress = true;
      return true;
    });
  }
  return {};
}

// The numbers of a kernel may have fewer bits than the positions in a tensor need.
Status StagePlanner::check_reach(const fb::Kernel& kernel, uint32_t argument, uint32_t tensor, int64_t bytes) const {
  const auto reaches = items(kernel.addressable_bytes());
  const fb::Tensor& row = *items(root_.tensors())[tensor];
  const uint64_t element = std::max<uint64_t>(dtype_bytes(static_cast<DType>(row.dtype())), 1);
  const bool known = kernel.addressable_bytes() != nullptr;
  const uint64_t reach = known ? reaches[argument] : element * kNarrowIndexElements;
  if (reach == 0 || static_cast<uint64_t>(bytes) <= reach) return {};
  return out_of_range(str_cat("argument ", argument, ": ", tensor_name(tensor), " has ", bytes,
                              " bytes; the kernel computes positions in 32 bits and reaches ", reach,
                              known ? "" : ": convert the model again"));
}

Status StagePlanner::fill_tec(const fb::Program& program, uint32_t index, Step* step) {
  const fb::TecCommand& command = *items(program.tec())[index];
  const auto operations = items(program.tec_operations());
  if (index < operations.size() && operations[index] != kNone && command_values_->has_value(operations[index]))
    step->operations = command_values_->value_or_zero(operations[index]);
  AIPU_RETURN_IF_ERROR(take_words(command.argument_count()));
  if (is_left_out(program, index)) return fill_left_out(command, step);
  const fb::Kernel& kernel = model_.kernel(command.kernel());
  const auto arguments = items(root_.arguments());
  const auto bits = items(kernel.argument_bits());
  const auto signs = items(kernel.signed_arguments());
  step->kernel = command.kernel();
  AIPU_ASSIGN_OR_RETURN(const int64_t max_tecs, value(command.max_tecs(), "the number of TECs"));
  step->max_tecs = static_cast<uint32_t>(std::clamp<int64_t>(max_tecs, 1, kMaxTecs));
  for (uint32_t i = 0; i < command.argument_count(); ++i) {
    const fb::Argument& argument = *arguments[command.first_argument() + i];
    switch (argument.kind()) {
      case fb::ArgumentKind::kTensor: {
        AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(argument.index()));
        AIPU_ASSIGN_OR_RETURN(int64_t offset, value(argument.offset(), str_cat("the offset of argument ", i)));
        if (placement.size == 0) offset = 0;  // a part of nothing, such as the second half of each of no rows
        if (offset < 0 || offset > placement.size) {
          return invalid_argument(str_cat("argument ", i, " points to byte ", offset, " of ",
                                          tensor_name(argument.index()), ", which has ", placement.size));
        }
        AIPU_RETURN_IF_ERROR(check_reach(kernel, i, argument.index(), placement.size - offset));
        add_address(placement, offset, argument.writes());
        break;
      }
      case fb::ArgumentKind::kExpression: {
        AIPU_ASSIGN_OR_RETURN(const int64_t number, value(argument.index(), str_cat("argument ", i)));
        const uint32_t width = i < bits.size() ? bits[i] : 0;
        const uint32_t digits = width - (i < signs.size() && signs[i] != 0 ? 1 : 0);
        if (width > 0 && width < 63 && (number < -(int64_t{1} << (width - 1)) || number >= (int64_t{1} << digits))) {
          return out_of_range(str_cat("argument ", i, " is ", number, ", which does not fit into ", width, " bits"));
        }
        add_number(number);
        break;
      }
      case fb::ArgumentKind::kImmediate:
        add_word(argument.word());
        break;
    }
  }
  return {};
}

bool StagePlanner::is_left_out(const fb::Program& program, uint32_t index) const {
  const auto needed = items(program.tec_needed());
  if (index >= needed.size() || needed[index] == kNone || loop_ != nullptr) return false;
  return command_values_->has_value(needed[index]) && command_values_->value_or_zero(needed[index]) == 0;
}

// Only the memory that the command writes. The shapes may make no sense, so what has no place is none.
Status StagePlanner::fill_left_out(const fb::TecCommand& command, Step* step) {
  step->left_out = true;
  const auto arguments = items(root_.arguments());
  for (uint32_t i = 0; i < command.argument_count(); ++i) {
    const fb::Argument& argument = *arguments[command.first_argument() + i];
    const bool written = argument.kind() == fb::ArgumentKind::kTensor && argument.writes();
    const auto placement = written ? place_of(argument.index()) : internal_error("not written");
    const auto offset = written ? value(argument.offset(), "the offset") : internal_error("not written");
    if (placement.ok() && offset.ok() && *offset >= 0 && *offset <= placement->size) {
      add_address(*placement, *offset, true);
    } else {
      add_number(0);
    }
  }
  return {};
}

Status StagePlanner::fill_dma(const fb::DmaCommand& command, Step* step) {
  AIPU_RETURN_IF_ERROR(take_words(6));
  AIPU_ASSIGN_OR_RETURN(const Placement destination, place_of(command.destination()));
  AIPU_ASSIGN_OR_RETURN(const Placement source, place_of(command.source()));
  AIPU_ASSIGN_OR_RETURN(const int64_t destination_offset,
                        value(command.destination_offset(), "the destination's offset"));
  AIPU_ASSIGN_OR_RETURN(const int64_t source_offset, value(command.source_offset(), "the source's offset"));
  AIPU_ASSIGN_OR_RETURN(const int64_t width, value(command.width(), "the width"));
  AIPU_ASSIGN_OR_RETURN(int64_t times, value(command.times(), "the number of rows"));
  AIPU_ASSIGN_OR_RETURN(const int64_t destination_stride,
                        value(command.destination_stride(), "the destination's stride"));
  AIPU_ASSIGN_OR_RETURN(const int64_t source_stride, value(command.source_stride(), "the source's stride"));
  if (width < 0 || times < 0) return invalid_argument(str_cat("copies ", times, " rows of ", width, " bytes"));
  if (width == 0) times = 0;
  if (times > 1 && destination_stride < width)
    return invalid_argument(str_cat("copies rows of ", width, " bytes to places ", destination_stride, " bytes apart"));

  // First byte and end of what is touched, within the tensor.
  const auto range = [&](std::string_view what, uint32_t tensor, const Placement& placement, int64_t offset,
                         int64_t stride, int64_t* low, int64_t* high) -> Status {
    const auto way = checked_mul(times - 1, stride);
    const auto last = way ? checked_add(offset, *way) : std::nullopt;
    const auto end = last ? checked_add(std::max(offset, *last), width) : std::nullopt;
    if (!end || std::min(offset, *last) < 0 || *end > placement.size) {
      return invalid_argument(str_cat("the ", what, " (", times, " rows of ", width, " bytes, ", stride,
                                      " apart, from ", offset, " on) is outside of ", tensor_name(tensor),
                                      ", which has ", placement.size, " bytes"));
    }
    *low = placement.offset + std::min(offset, *last);
    *high = placement.offset + *end;
    return {};
  };
  if (times == 0) {
    for (int i = 0; i < 6; ++i) add_word(0);
    return {};
  }
  int64_t destination_low = 0, destination_high = 0, source_low = 0, source_high = 0;
  AIPU_RETURN_IF_ERROR(range("destination", command.destination(), destination, destination_offset, destination_stride,
                             &destination_low, &destination_high));
  AIPU_RETURN_IF_ERROR(
      range("source", command.source(), source, source_offset, source_stride, &source_low, &source_high));
  step->overlaps = destination.root == source.root && destination_low < source_high && source_low < destination_high;
  add_address(destination, destination_offset, true);
  add_address(source, source_offset, false);
  for (const int64_t number : {width, times, destination_stride, source_stride}) add_number(number);
  return {};
}

Status StagePlanner::fill_host(const fb::HostCommand& command, Step*) {
  if (runs_bodies(command.op())) return fill_call(*items(root_.calls())[command.a()]);
  AIPU_RETURN_IF_ERROR(take_words(command.op() == fb::HostOp::kBindSymbols ? command.b() : 1));
  switch (command.op()) {
    case fb::HostOp::kBindSymbols:
      for (uint32_t s = command.a(); s < command.a() + command.b(); ++s) {
        const fb::Symbol& symbol = *items(root_.symbols())[s];
        AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(symbol.tensor()));
        const auto size =
            static_cast<int64_t>(dtype_bytes(static_cast<DType>(items(root_.tensors())[symbol.tensor()]->dtype())));
        if (placement.size / size <= symbol.index()) {
          return invalid_argument(str_cat("symbol '", text(symbol.name()), "' is element ", symbol.index(), " of ",
                                          tensor_name(symbol.tensor()), ", which has ", placement.size / size));
        }
        add_address(placement, symbol.index() * size, false);
      }
      break;
    case fb::HostOp::kCheck: {
      AIPU_ASSIGN_OR_RETURN(const int64_t holds, value(command.a(), "the condition"));
      add_number(holds);
      break;
    }
    case fb::HostOp::kIf: {
      AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(command.a()));
      if (placement.size < 1) return invalid_argument("the condition is an empty tensor");
      add_address(placement, 0, false);
      break;
    }
    case fb::HostOp::kFetch: {
      AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(command.c()));
      add_address(placement, 0, true);
      break;
    }
    case fb::HostOp::kLoop:
    case fb::HostOp::kScan:
    case fb::HostOp::kBranch:
      break;
  }
  return {};
}

// The words are those of CallWords: the session reads them in the same order.
Status StagePlanner::fill_call(const fb::Call& call) {
  const auto tensors = items(root_.tensors());
  const auto inputs = items(call.inputs());
  const auto given = items(call.given());
  uint64_t count = 3;
  for (uint32_t i = 0; i < inputs.size(); ++i) count += 1 + items(tensors[inputs[i]]->shape()).size();
  for (uint32_t b = 0; b < given.size(); ++b) count += items(given[b]->expressions()).size();
  AIPU_RETURN_IF_ERROR(take_words(count));
  const auto add_tensor = [&](uint32_t tensor, bool writes) -> Status {
    if (tensor == kNone) {
      add_word(0);
      return {};
    }
    AIPU_ASSIGN_OR_RETURN(const Placement placement, place_of(tensor));
    add_address(placement, 0, writes);
    return {};
  };
  AIPU_RETURN_IF_ERROR(add_tensor(call.condition(), false));
  AIPU_RETURN_IF_ERROR(add_tensor(call.trip_count(), false));
  AIPU_RETURN_IF_ERROR(add_tensor(call.extents(), true));
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    AIPU_RETURN_IF_ERROR(add_tensor(inputs[i], false));
    const auto shape = items(tensors[inputs[i]]->shape());
    for (uint32_t k = 0; k < shape.size(); ++k) {
      AIPU_ASSIGN_OR_RETURN(const int64_t extent, value(shape[k], tensor_name(inputs[i])));
      add_number(extent);
    }
  }
  for (uint32_t b = 0; b < given.size(); ++b) {
    const auto expressions = items(given[b]->expressions());
    for (uint32_t k = 0; k < expressions.size(); ++k) {
      AIPU_ASSIGN_OR_RETURN(const int64_t number, value(expressions[k], "a number for a body"));
      add_number(number);
    }
  }
  return {};
}

Status StagePlanner::fill_commands() {
  const auto programs = items(root_.programs());
  plan_->steps.reserve(tables_.stages[stage_].size());
  for (const auto& [program, position] : tables_.stages[stage_]) {
    const auto& command = tables_.programs[program][position];
    if (program == 0 && plan_->loop_with(position) != nullptr) {
      plan_->steps.push_back({});
      continue;
    }
    const size_t words = plan_->words.size();
    const size_t patches = plan_->patches.size();
    Step step;
    step.first_word = static_cast<uint32_t>(words);
    Status status;
    switch (command.engine) {
      case fb::Engine::kTec:
        status = fill_tec(*programs[program], command.index, &step);
        break;
      case fb::Engine::kDma:
        status = fill_dma(*items(programs[program]->dma())[command.index], &step);
        break;
      case fb::Engine::kHost:
        status = fill_host(*items(programs[program]->host())[command.index], &step);
        break;
    }
    if (!status.ok()) {
      AIPU_RETURN_IF_ERROR(meter_.check_time());
      if (program == 0) return std::move(status).context(command_text(model_, program, command));
      // In a branch that may not be taken. Messages have names of tensors in them, and many may have one long name.
      constexpr size_t kMostErrorBytes = 1 << 20;
      if (error_bytes_ > kMostErrorBytes) status = Status(status.code(), "it has no valid numbers for these shapes");
      error_bytes_ += status.message().size();
      plan_->words.resize(words);
      plan_->extents.resize(words);
      plan_->writable.resize(words);
      plan_->patches.resize(patches);
      step.error = static_cast<uint32_t>(plan_->errors.size());
      plan_->errors.push_back(std::move(status));
    }
    step.word_count = static_cast<uint32_t>(plan_->words.size() - words);
    plan_->steps.push_back(step);
  }
  return {};
}

// Where a tensor is for the first sample of the present loop: a tensor of the loop's own has memory for just one, of
// others it is a part.
Result<Placement> StagePlanner::place_of_sample(uint32_t tensor) const {
  const auto tensors = items(root_.tensors());
  const uint32_t root = tables_.tensor_root[tensor];
  const Placement& placement = placement_of(tensor);
  if (tensors[root]->kind() == fb::TensorKind::kConstant || loop_of(tensor) == loop_) {
    if (!placement.known)
      return invalid_argument(
          str_cat(tensor_name(tensor), ": its size depends on values that were not computed on the way here"));
    Placement own = placement;
    if (tensors[root]->kind() != fb::TensorKind::kConstant) own.lane_stride = loop_->lane_bytes;
    return own;
  }
  const Placement& whole = placement_of(root);
  if (!whole.known || loop_of(tensor) != nullptr)
    return invalid_model(str_cat(tensor_name(tensor), " has no place in a batch loop"));
  const auto one = [&](uint32_t expression) {
    return value_in(*command_values_, expression, tensor_name(tensor) + " for one sample");
  };
  AIPU_ASSIGN_OR_RETURN(const int64_t part, one(tensors[root]->size_bytes()));
  const auto all_parts = checked_mul(part, loop_->samples);
  if (part < 0 || (part != whole.size && all_parts != whole.size)) {
    return invalid_model(str_cat(tensor_name(root), " has ", whole.size, " bytes, but ", part, " for one of ",
                                 loop_->samples, " samples"));
  }
  AIPU_ASSIGN_OR_RETURN(const int64_t size, one(tensors[tensor]->size_bytes()));
  int64_t offset = 0;
  for (uint32_t at = tensor; at != root; at = tensors[at]->base()) {
    AIPU_ASSIGN_OR_RETURN(const int64_t step, one(tensors[at]->view_offset()));
    if (step < 0 || step > part - offset)
      return invalid_model(str_cat(tensor_name(at), " begins outside of a sample of its base"));
    offset += step;
  }
  if (size < 0 || size > part - offset)
    return invalid_model(str_cat(tensor_name(tensor), " ends outside of a sample of its base"));
  return Placement{whole.root, whole.offset + offset, size, true, part == whole.size ? 0 : part, 0};
}

Status StagePlanner::fill_loops() {
  const fb::Program& program = *items(root_.programs())[0];
  for (size_t i = 0; i < plan_->loops.size(); ++i) {
    StagePlan::Loop& loop = plan_->loops[i];
    loop_ = &loop;
    command_values_ = loop_values_[i];
    loop.first_word = static_cast<uint32_t>(plan_->words.size());
    for (uint32_t position = loop.first; position <= loop.last; ++position) {
      const auto& command = tables_.programs[0][position];
      Step step;
      step.first_word = static_cast<uint32_t>(plan_->words.size());
      Status status = command.engine == fb::Engine::kTec ? fill_tec(program, command.index, &step)
                                                         : fill_dma(*items(program.dma())[command.index], &step);
      if (!status.ok()) return std::move(status).context(command_text(model_, 0, command));
      step.word_count = static_cast<uint32_t>(plan_->words.size() - step.first_word);
      loop.steps.push_back(step);
    }
    loop.word_count = static_cast<uint32_t>(plan_->words.size()) - loop.first_word;
    AIPU_RETURN_IF_ERROR(meter_.take(int64_t{loop.word_count} * loop.lanes * int64_t{sizeof(unsigned long long)}));
    loop.lane_words.assign(loop.lanes, std::vector<unsigned long long>(loop.word_count));
  }
  loop_ = nullptr;
  command_values_ = &values_;
  return {};
}

void StagePlanner::sort_patches() {
  const auto& patches = plan_->patches;
  std::stable_sort(plan_->patches.begin(), plan_->patches.end(),
                   [](const auto& a, const auto& b) { return a.root < b.root; });
  for (uint32_t i = 0; i < patches.size(); ++i) {
    if (i == 0 || patches[i].root != patches[i - 1].root)
      plan_->patched_roots.push_back({patches[i].root, i, i, nullptr});
    plan_->patched_roots.back().end = i + 1;
  }
}

}  // namespace

void StagePlan::patch(std::span<std::byte* const> roots) {
  for (PatchedRoot& root : patched_roots) {
    if (roots[root.root] == root.patched_to) continue;
    const auto base = reinterpret_cast<uintptr_t>(roots[root.root]);
    for (uint32_t i = root.first; i < root.end; ++i)
      words[patches[i].word] = base + static_cast<uintptr_t>(patches[i].offset);
    root.patched_to = roots[root.root];
  }
}

Result<std::unique_ptr<StagePlan>> make_stage_plan(const detail::ModelState& model, uint32_t stage,
                                                   std::span<const SymbolValue> symbols,
                                                   std::span<StagePlan* const> earlier, int64_t memory_limit_bytes,
                                                   uint32_t lanes, Meter& meter) {
  return StagePlanner(model, stage, earlier, memory_limit_bytes, lanes, meter).run(symbols);
}

Status check_status(const detail::ModelState& model, const ExpressionValues& values, uint32_t program,
                    const ModelTables::ScheduledCommand& command) {
  const fb::Model& root = model.root();
  const fb::HostCommand& check = *items(items(root.programs())[program]->host())[command.index];
  std::string message(text(items(root.strings())[check.b()]));
  const auto number = [&](uint32_t operand) { return operand == 0 ? 0 : values.value_or_zero(operand - 1); };
  if (check.c() != 0 || check.d() != 0) message = fault_text(message, number(check.c()), number(check.d()));
  return invalid_argument(std::move(message)).context(command_text(model, program, command));
}

std::string command_text(const detail::ModelState& model, uint32_t program,
                         const ModelTables::ScheduledCommand& command) {
  const fb::Model& root = model.root();
  const fb::Program& body = *items(root.programs())[program];
  uint32_t origin = kNone;
  std::string name;
  switch (command.engine) {
    case fb::Engine::kTec: {
      const fb::TecCommand& tec = *items(body.tec())[command.index];
      origin = tec.origin();
      name =
          str_cat("tec command ", command.index, ", kernel '", shortened(text(model.kernel(tec.kernel()).name())), "'");
      break;
    }
    case fb::Engine::kDma:
      origin = items(body.dma())[command.index]->origin();
      name = str_cat("dma command ", command.index);
      break;
    case fb::Engine::kHost:
      origin = items(body.host())[command.index]->origin();
      name = str_cat("host command ", command.index);
      break;
  }
  if (program != 0) name = str_cat("program ", program, ", ", name);
  if (origin != kNone && !text(items(root.origins())[origin]).empty())
    name += str_cat(", from ", shortened(text(items(root.origins())[origin])));
  return name;
}

}  // namespace aipu::runtime
