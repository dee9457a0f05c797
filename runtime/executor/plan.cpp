#include "runtime/executor/plan.h"

#include <algorithm>

#include "runtime/base/arena.h"
#include "runtime/base/fault.h"
#include "runtime/executor/stage_planner.h"

namespace aipu::runtime {

Result<std::unique_ptr<StagePlan>> StagePlanner::run(std::span<const SymbolValue> symbols) {
  AIPU_RETURN_IF_ERROR(take_tables(symbols.size()));
  for (const uint32_t s : tables_.stage_symbols[stage_]) plan_->symbols.push_back(symbols[s]);
  AIPU_RETURN_IF_ERROR(evaluate_checks());
  enter_loops(symbols);
  AIPU_RETURN_IF_ERROR(place_tensors());
  AIPU_RETURN_IF_ERROR(fill_commands());
  AIPU_RETURN_IF_ERROR(fill_loops());
  sort_patches();
  plan_->bytes = meter_.bytes_taken();
  return std::move(plan_);
}

std::string StagePlanner::tensor_name(uint32_t tensor) const {
  return str_cat("tensor '", text(items(root_.tensors())[tensor]->name()), "'");
}

// Memory for all but the words of commands, vectors that grow included.
Status StagePlanner::take_tables(size_t symbols) {
  constexpr int64_t kPerExpression = sizeof(int64_t) + sizeof(uint8_t) + sizeof(uint32_t);
  constexpr int64_t kPerTensor = sizeof(Placement) + 8 * sizeof(uint32_t) + 2 * sizeof(ArenaRequest) + 64;
  // For all samples, once for all stages; and for one of each kind of loop.
  const auto loops = static_cast<int64_t>(std::min(loops_of_stage().size(), kMaxSampleValues));
  const auto values = static_cast<int64_t>(items(root_.expressions()).size()) * kPerExpression;
  AIPU_RETURN_IF_ERROR(meter_.take(values * ((stage_ == 0 ? 1 : 0) + loops)));
  AIPU_RETURN_IF_ERROR(meter_.take(static_cast<int64_t>(symbols * sizeof(SymbolValue)) * loops));
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
    AIPU_ASSIGN_OR_RETURN(const int64_t holds,
                          value(host.a(), [&, p = program] { return command_text(model_, p, command); }));
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

std::span<const ModelTables::BatchLoop> StagePlanner::loops_of_stage() const {
  const auto& loops = tables_.batch_loops;
  const auto [begin, end] = std::equal_range(
      loops.begin(), loops.end(), ModelTables::BatchLoop{0, 0, 0, stage_, kNone},
      [](const ModelTables::BatchLoop& a, const ModelTables::BatchLoop& b) { return a.stage < b.stage; });
  return {begin, end};
}

// With one sample a loop is what it is without; with none there is nothing to run.
void StagePlanner::enter_loops(std::span<const SymbolValue> symbols) {
  const auto loops = loops_of_stage();
  first_loop_ = static_cast<uint32_t>(loops.data() - tables_.batch_loops.data());
  plan_of_loop_.assign(loops.size(), kNone);
  if (lanes_ == 0) return;
  for (size_t i = 0; i < loops.size(); ++i) {
    const ModelTables::BatchLoop* loop = &loops[i];
    if (!symbols[loop->symbol].bound || symbols[loop->symbol].value < 2) continue;
    const int64_t samples = symbols[loop->symbol].value;
    const uint32_t lanes = lane_count(samples);
    if (loop->condition != kNone && (lanes < lanes_ || values_.value_or_zero(loop->condition) == 0)) continue;
    const ExpressionValues* values = values_of_sample(symbols, loop->symbol, lanes > 1);
    if (values == nullptr) continue;
    plan_of_loop_[i] = static_cast<uint32_t>(plan_->loops.size());
    loop_values_.push_back(values);
    StagePlan::Loop& entered = plan_->loops.emplace_back();
    entered.first = loop->first;
    entered.last = loop->last;
    entered.samples = samples;
    entered.lanes = lanes;
  }
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
                                                   std::span<const SymbolValue> symbols, const ExpressionValues& values,
                                                   std::span<StagePlan* const> earlier, int64_t memory_limit_bytes,
                                                   uint32_t lanes, Meter& meter) {
  return StagePlanner(model, stage, values, earlier, memory_limit_bytes, lanes, meter).run(symbols);
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

LaunchRow launch_row(const fb::Model& root, uint32_t program, const ModelTables::ScheduledCommand& command) {
  const fb::Program* const rows = items(root.programs())[program];
  if (command.engine == fb::Engine::kTec) return {rows, command.index};
  if (command.engine == fb::Engine::kDma) return {};
  const fb::HostCommand& host = *items(rows->host())[command.index];
  return host.op() == fb::HostOp::kLaunch ? LaunchRow{root.host_work(), host.a()} : LaunchRow{};
}

std::string command_text(const detail::ModelState& model, uint32_t program,
                         const ModelTables::ScheduledCommand& command) {
  const fb::Model& root = model.root();
  const fb::Program& body = *items(root.programs())[program];
  uint32_t origin = kNone;
  std::string name;
  switch (command.engine) {
    case fb::Engine::kTec:
      origin = items(body.tec())[command.index]->origin();
      name = str_cat("tec command ", command.index);
      break;
    case fb::Engine::kDma:
      origin = items(body.dma())[command.index]->origin();
      name = str_cat("dma command ", command.index);
      break;
    case fb::Engine::kHost:
      origin = items(body.host())[command.index]->origin();
      name = str_cat("host command ", command.index);
      break;
  }
  if (const LaunchRow launch = launch_row(root, program, command))
    name += str_cat(", kernel '", shortened(text(model.kernel((*launch).kernel()).name())), "'");
  if (program != 0) name = str_cat("program ", program, ", ", name);
  if (origin != kNone && !text(items(root.origins())[origin]).empty())
    name += str_cat(", from ", shortened(text(items(root.origins())[origin])));
  return name;
}

}  // namespace aipu::runtime
