#include "gbuilder/record/command_storer.h"
#include "gbuilder/record/wait_table.h"

namespace aipu::gbuilder {

void append_copy(RecordedProgram* rows, const Command& command, const DmaBody& body, WaitRange waits) {
  DmaRecord record{};
  record.sequence = command.sequence;
  record.destination = body.destination;
  record.source = body.source;
  record.destination_offset = body.destination_offset;
  record.source_offset = body.source_offset;
  record.width = body.width;
  record.times = body.times;
  record.destination_stride = body.destination_stride;
  record.source_stride = body.source_stride;
  record.first_wait = waits.first;
  record.wait_count = waits.count;
  record.origin = command.origin;
  rows->dma.push_back(record);
}

namespace {

class DmaStorer : public EngineStorer {
 public:
  DmaStorer(Recording* recording, size_t program) : recording_(recording), program_(program) {}
  Status store(const Command& command) override {
    append_copy(&recording_->programs[program_], command, std::get<DmaBody>(command.body),
                append_waits(recording_, command));
    return {};
  }

 private:
  Recording* recording_;
  size_t program_;
};

}  // namespace

std::unique_ptr<EngineStorer> make_dma_storer(Recording* recording, size_t program) {
  return std::make_unique<DmaStorer>(recording, program);
}

}  // namespace aipu::gbuilder
