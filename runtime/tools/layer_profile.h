// A profile as text: one line per command of a model, with what the machine could have done.
#pragma once

#include <string>
#include <vector>

#include "runtime/session.h"
#include "runtime/tools/event_counters.h"
#include "runtime/tools/machine_peak.h"

namespace aipu::tools {

struct LayerProfile {
  std::string text;
  std::string json;  // objects with commas in between; all commands, in the same order
};

// `rows` are the profiles of several runs of the same commands; times are medians over the runs. In order of execution,
// or by time with `by_time`. Commands of less than 0.05 % of the time are summed up in the last line unless `all`.
// `events` are what the session has counted: a column each, medians too.
LayerProfile layer_profile(const std::vector<runtime::Session::ProfileRow>& rows, const MachinePeak& peak, bool by_time,
                           bool all, const std::vector<CountedEvent>& events = {});

// The same of one run in virtual time (SessionOptions::cycles): begin and end of each command in cycles, its share of
// the run, operations and bytes of its tensors per cycle, what its instructions and its DMA transfers would take alone,
// how much more than the larger of these it takes, and what bounds it: compute or dma, that larger one; where it takes
// more than 1.1 of that, what it waits for between them (waits). The engine where no more is known. `makespan`: of the
// whole run, in which engines overlap.
LayerProfile cycle_profile(const std::vector<runtime::Session::ProfileRow>& rows, int64_t makespan, bool by_cycles,
                           bool all);

}  // namespace aipu::tools
