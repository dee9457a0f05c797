// What the tools have in common: finding inputs on the command line, making them up, running.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/model.h"
#include "runtime/session.h"
#include "runtime/tools/npy.h"

namespace aipu::tools {

// Splits NAME=VALUE at the '=' in front of which a known name stands, as names may contain '=' themselves.
Result<std::pair<size_t, std::string>> split_named(std::string_view text, std::span<const runtime::TensorSpec> specs,
                                                   std::string_view what);
// "1x3x224x224"; "" and "scalar" are rank 0.
Result<std::vector<int64_t>> parse_shape(std::string_view text);

// Concrete shapes for all inputs: `given` (by input) wins; symbols take the value they get there; the rest is 1. Inputs
// with extents that are neither numbers nor plain symbols must be given.
Result<std::vector<std::vector<int64_t>>> complete_shapes(const runtime::Model& model,
                                                          const std::map<size_t, std::vector<int64_t>>& given);

Status bind_all(runtime::Session& session, const std::vector<Array>& inputs);

}  // namespace aipu::tools
