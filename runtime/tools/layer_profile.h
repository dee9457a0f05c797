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
// the run, operations per cycle, bytes of its tensors per cycle beside what the NPU's memory moves, and what bounds it:
// the memory where moving each byte once takes at least nine tenths of its cycles, else its engine. `makespan`: of the
// whole run, in which engines overlap.
LayerProfile cycle_profile(const std::vector<runtime::Session::ProfileRow>& rows, int64_t makespan, bool by_cycles,
                           bool all);

}  // namespace aipu::tools
