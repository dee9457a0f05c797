#include "gbuilder/record/command_storer.h"
#include "gbuilder/record/wait_table.h"

namespace aipu::gbuilder {

namespace {

class HostStorer : public EngineStorer {
 public:
  HostStorer(Recording* recording, size_t program) : recording_(recording), program_(program) {}
  Status store(const Command& command) override {
    const auto& body = std::get<HostBody>(command.body);
    const WaitRange waits = append_waits(recording_, command);
    HostRecord record{};
    record.sequence = command.sequence;
    record.op = body.op;
    record.a = body.a;
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
  Recording* recording_;
  size_t program_;
};

}  // namespace

std::unique_ptr<EngineStorer> make_host_storer(Recording* recording, size_t program) {
  return std::make_unique<HostStorer>(recording, program);
}

}  // namespace aipu::gbuilder
