#include "gbuilder/record/command_storer.h"

#include "gbuilder/record/command_checker.h"

namespace aipu::gbuilder {

Status CommandStorer::finish() {
  for (auto& engine : engines_) AIPU_RETURN_IF_ERROR(engine->finish());
  return {};
}

namespace {

class DumpStorer : public EngineStorer {
 public:
  DumpStorer(const Plan* plan, std::string* text, std::unique_ptr<EngineStorer> next)
      : plan_(plan), text_(text), next_(std::move(next)) {}
  Status store(const Command& command) override {
    *text_ += print_command(*plan_, command);
    *text_ += '\n';
    return next_->store(command);
  }
  Status finish() override { return next_->finish(); }

 private:
  const Plan* plan_;
  std::string* text_;
  std::unique_ptr<EngineStorer> next_;
};

class CheckStorer : public EngineStorer {
 public:
  CheckStorer(CommandChecker* checker, std::unique_ptr<EngineStorer> next)
      : checker_(checker), next_(std::move(next)) {}
  Status store(const Command& command) override {
    AIPU_RETURN_IF_ERROR(checker_->check(command));
    return next_->store(command);
  }
  Status finish() override {
    AIPU_RETURN_IF_ERROR(checker_->prove());
    return next_->finish();
  }

 private:
  CommandChecker* checker_;
  std::unique_ptr<EngineStorer> next_;
};

}  // namespace

std::unique_ptr<EngineStorer> make_dump_storer(const Plan* plan, std::string* text,
                                               std::unique_ptr<EngineStorer> next) {
  return std::make_unique<DumpStorer>(plan, text, std::move(next));
}

std::unique_ptr<EngineStorer> make_check_storer(CommandChecker* checker, std::unique_ptr<EngineStorer> next) {
  return std::make_unique<CheckStorer>(checker, std::move(next));
}

Result<Recording> record_plan(const Plan& plan, const RecordOptions& options) {
  Recording recording;
  recording.programs.resize(plan.programs.size());
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    CommandChecker checker(plan);
    std::array<std::unique_ptr<EngineStorer>, kEngineCount> engines = {
        make_tec_storer(&recording, p), make_dma_storer(&recording, p), make_host_storer(&plan, &recording, p)};
    for (size_t e = 0; e < engines.size(); ++e) {
      if (options.check) engines[e] = make_check_storer(&checker, std::move(engines[e]));
      if (options.dump != nullptr) engines[e] = make_dump_storer(&plan, &(*options.dump)[e], std::move(engines[e]));
    }
    CommandStorer storer(std::move(engines));
    for (const Command& command : plan.programs[p].commands) AIPU_RETURN_IF_ERROR(storer.store(command));
    AIPU_RETURN_IF_ERROR(storer.finish());
  }
  for (const Plan& body : plan.bodies) {
    AIPU_ASSIGN_OR_RETURN(Recording recorded, record_plan(body, options));
    recording.bodies.push_back(std::move(recorded));
  }
  return recording;
}

}  // namespace aipu::gbuilder
