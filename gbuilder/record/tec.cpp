#include "gbuilder/record/command_storer.h"
#include "gbuilder/record/wait_table.h"

namespace aipu::gbuilder {

void append_launch(Recording* recording, RecordedProgram* rows, const Command& command, const TecBody& body,
                   WaitRange waits) {
  TecRecord record{};
  record.sequence = command.sequence;
  record.kernel = body.kernel;
  record.first_argument = static_cast<uint32_t>(recording->arguments.size());
  record.argument_count = static_cast<uint32_t>(body.arguments.size());
  record.first_wait = waits.first;
  record.wait_count = waits.count;
  record.max_tecs = body.max_tecs;
  record.origin = command.origin;
  record.operations = body.operations;
  record.needed = body.needed;
  recording->arguments.insert(recording->arguments.end(), body.arguments.begin(), body.arguments.end());
  const auto index = static_cast<uint32_t>(rows->tec.size());
  for (const PlanFault& fault : body.faults)
    rows->faults.push_back({index, fault.code, fault.message, fault.origin, fault.needed});
  rows->tec.push_back(record);
}

namespace {

class TecStorer : public EngineStorer {
 public:
  TecStorer(Recording* recording, size_t program) : recording_(recording), program_(program) {}
  Status store(const Command& command) override {
    append_launch(recording_, &recording_->programs[program_], command, std::get<TecBody>(command.body),
                  append_waits(recording_, command));
    return {};
  }

 private:
  Recording* recording_;
  size_t program_;
};

}  // namespace

std::unique_ptr<EngineStorer> make_tec_storer(Recording* recording, size_t program) {
  return std::make_unique<TecStorer>(recording, program);
}

}  // namespace aipu::gbuilder
