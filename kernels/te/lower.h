// A schedule to loop nests.
#pragma once

#include "kernels/te/nest.h"
#include "kernels/te/stmt.h"

namespace aipu::te {

// The region of each stage that its consumers need, and its loops; from consumers to producers. `whole`: operations
// that are computed whole, because the caller sees them. Errors name producer and consumer.
Result<std::map<const Stage*, Nest>> infer_bounds(const Schedule& schedule, const std::vector<OperationPtr>& whole);

// `params` in the caller's order. What is neither a parameter nor inlined is computed into memory of its own.
Result<Function> lower_schedule(const Schedule& schedule, std::vector<Parameter> params, std::string name);

}  // namespace aipu::te
