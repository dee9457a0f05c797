#include "gbuilder/record/command_storer.h"
#include "gbuilder/record/wait_table.h"

namespace aipu::gbuilder {

namespace {

class HostStorer : public EngineStorer {
 public:
  HostStorer(const Plan* plan, Recording* recording, size_t program)
      : plan_(plan), recording_(recording), program_(program) {}
  Status store(const Command& command) override {
    const auto& body = std::get<HostBody>(command.body);
    const WaitRange waits = append_waits(recording_, command);
    HostRecord record{};
    record.sequence = command.sequence;
    record.op = body.op;
    record.a = is_host_work(command) ? append_work(command) : body.a;
    record.b = body.b;
    record.c = body.c;
    record.d = body.d;
    record.first_wait = waits.first;
    record.wait_count = waits.count;
    record.origin = command.origin;
    recording_->programs[program_].host.push_back(record);
    return {};
  }

 private:
  // The row that it gets there. Those of a file come in the order of their commands.
  uint32_t append_work(const Command& command) {
    RecordedProgram& work = recording_->host_work;
    if (const TecBody* launch = launch_of(*plan_, command)) {
      append_launch(recording_, &work, command, *launch, {0, 0});
      return static_cast<uint32_t>(work.tec.size() - 1);
    }
    append_copy(&work, command, *copy_of(*plan_, command), {0, 0});
    return static_cast<uint32_t>(work.dma.size() - 1);
  }

  const Plan* plan_;
  Recording* recording_;
  size_t program_;
};

}  // namespace

std::unique_ptr<EngineStorer> make_host_storer(const Plan* plan, Recording* recording, size_t program) {
  return std::make_unique<HostStorer>(plan, recording, program);
}

}  // namespace aipu::gbuilder
