// Loads a model file with the interpreting back end and runs it, within small limits.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/status.h"

namespace aipu::fuzz {

struct FileOutcome {
  Status load, run;  // `run` is fine where there was nothing to run
};
FileOutcome run_file(std::span<const std::byte> file);

}  // namespace aipu::fuzz
