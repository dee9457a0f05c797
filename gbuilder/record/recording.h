// Command buffers in the form of the file: fixed-size records per engine, with arguments and waits in tables beside
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

struct TecRecord {
  uint32_t sequence, kernel, first_argument, argument_count, first_wait, wait_count, max_tecs, origin, operations,
      needed;
};
struct FaultRecord {
  uint32_t command, code, message, origin, needed;
};
struct DmaRecord {
  uint32_t sequence, destination, source, destination_offset, source_offset, width, times, destination_stride,
      source_stride, first_wait, wait_count, origin;
};
struct HostRecord {
  uint32_t sequence;
  HostOp op;
  uint32_t a, b, c, d, first_wait, wait_count, origin;
};

struct RecordedProgram {
  std::vector<TecRecord> tec;
  std::vector<DmaRecord> dma;
  std::vector<HostRecord> host;
  std::vector<FaultRecord> faults;
};

struct Recording {
  std::vector<PlanArgument> arguments;
  std::vector<CommandId> waits;
  std::vector<RecordedProgram> programs;
  RecordedProgram host_work;      // launches and copies
  std::vector<Recording> bodies;  // as the plan's
};

}  // namespace aipu::gbuilder
