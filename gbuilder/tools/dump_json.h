// aipudump --json.
#pragma once

#include <map>
#include <string>

#include "gbuilder/file/encode.h"

namespace aipu::gbuilder {

// All that is in the file but the contents of its sections, as one JSON object. Tensors, kernels and symbols are
// referred to by their index in their list. Extents, offsets and sizes are numbers, or texts where they depend on
// symbols. `arena_bytes` is for the given values of symbols, null where they are not enough. `entry`: the model of the
// file that is shown.
std::string dump_json(const std::string& path, size_t file_bytes, const DecodedModel& file, const DecodedModel& entry,
                      const std::map<std::string, int64_t>& symbols);

}  // namespace aipu::gbuilder
