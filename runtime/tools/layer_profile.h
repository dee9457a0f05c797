// A profile as text: one line per command of a model, with what the machine could have done.
#pragma once

#include <string>
#include <vector>

#include "runtime/session.h"
#include "runtime/tools/machine_peak.h"

namespace aipu::tools {

struct LayerProfile {
  std::string text;
  std::string json;  // objects with commas in between; all commands, in the same order
};

// `rows` are the profiles of several runs of the same commands; times are medians over the runs. In order of execution,
// or by time with `by_time`. Commands of less than 0.05 % of the time are summed up in the last line unless `all`.
LayerProfile layer_profile(const std::vector<runtime::Session::ProfileRow>& rows, const MachinePeak& peak, bool by_time,
                           bool all);

}  // namespace aipu::tools
