// Takes everything from this process that a computation does not need. For good.
#pragma once

#include "runtime/base/status.h"

namespace aipu::runtime::sandbox {

// From now on the process can use memory (none of it executable), threads, clocks, and the file descriptors that it
// has; what asks for files is refused, and everything else kills the process.
Status forbid_system_calls();

}  // namespace aipu::runtime::sandbox
