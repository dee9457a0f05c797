// Shared by the storers of all engines.
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

}  // namespace aipu::gbuilder
