// Shared by the storers of engines.
#pragma once

#include "gbuilder/record/recording.h"

namespace aipu::gbuilder {

struct WaitRange {
  uint32_t first, count;
};

inline WaitRange append_waits(Recording* recording, const Command& command) {
  const WaitRange range{static_cast<uint32_t>(recording->waits.size()), static_cast<uint32_t>(command.waits.size())};
  recording->waits.insert(recording->waits.end(), command.waits.begin(), command.waits.end());
  return range;
}

// Rows at the ends of `rows`, with the waits of the command.
void append_launch(Recording* recording, RecordedProgram* rows, const Command& command, const TecBody& body,
                   WaitRange waits);
void append_copy(RecordedProgram* rows, const Command& command, const DmaBody& body, WaitRange waits);

}  // namespace aipu::gbuilder
