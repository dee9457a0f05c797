// What kernels report of data that they cannot compute with, in words.
#include <cstdint>

#include "runtime/base/fault.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

// The one way a run ends early for the sake of the data: says which node of the model cannot do what with which value.
Status Session::Impl::fault_status(uint32_t program, const ModelTables::ScheduledCommand& command,
                                   const aipu_fault_record& found) const {
  ExpressionValues values;
  values.evaluate(root, symbols);
  const LaunchRow launch = launch_row(root, program, command);
  const auto faults = items(launch.rows->faults());
  for (uint32_t i = 0; i < faults.size(); ++i) {
    const fb::Fault& row = *faults[i];
    if (row.command() != launch.index || 1 + int64_t{row.code()} != found.code) continue;
    if (row.needed() != kNone && values.has_value(row.needed()) && values.value_or_zero(row.needed()) == 0) return {};
    return invalid_argument(fault_text(text(items(root.strings())[row.message()]), found.value, found.limit))
        .context(text(items(root.origins())[row.origin()]));
  }
  if (found.code == 1 + int64_t{AIPU_FAULT_NEGATIVE_PARAMETER}) {
    return invalid_argument(str_cat("a parameter that the kernel divides by shifts is negative: ", found.value))
        .context(command_text(state, program, command));
  }
  return invalid_argument(str_cat("the kernel reports fault ", found.code - 1, " (value ", found.value, ", limit ",
                                  found.limit, "), for which the model has no words"))
      .context(command_text(state, program, command));
}

}  // namespace aipu::runtime
