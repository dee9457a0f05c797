// Copies of rows of a few elements: slices and joins of boxes, images whose channels come last.
#pragma once

#include "kernels/parts/strided_map.h"

namespace aipu::kernels {

// Launches templates/narrow_rows.py where the map is a copy of such rows and the target a CPU; false where it is not.
// `map` has no compute_source and its dimensions are merged.
Result<bool> launch_narrow_rows(SetupContext& context, const StridedMap& map);

}  // namespace aipu::kernels
