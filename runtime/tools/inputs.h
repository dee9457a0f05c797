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

// Values by input or output of what was given as NAME=VALUE with `option`; a name given twice is an error.
Result<std::map<size_t, std::string>> named_values(const std::vector<std::string>& texts,
                                                   std::span<const runtime::TensorSpec> specs, std::string_view what,
                                                   std::string_view option);

// The shapes given with --shape.
Result<std::map<size_t, std::vector<int64_t>>> named_shapes(const std::vector<std::string>& texts,
                                                            const runtime::Model& model);

// What is done about extents that nothing is said about.
enum class OpenExtents : bool { kRefuse, kOne };

// Concrete shapes for all inputs: `given` (by input) wins; symbols take the value they get there, others 1 with kOne.
// What is open then (with kOne, extents that are no plain symbols) is an error with the --shape options to type.
Result<std::vector<std::vector<int64_t>>> complete_shapes(const runtime::Model& model,
                                                          const std::map<size_t, std::vector<int64_t>>& given,
                                                          OpenExtents open);

// As one word of a command for the shell, as it is where nothing in it means something there.
std::string quoted_for_shell(const std::string& text);

Status bind_all(runtime::Session& session, const std::vector<Array>& inputs);

}  // namespace aipu::tools
