// A schedule to loop nests.
#pragma once

#include <functional>

#include "kernels/te/nest.h"
#include "kernels/te/stmt.h"

namespace aipu::te {

// What the iterations of a loop over threads are when regions are inferred.
enum class Threads : uint8_t {
  kLoops,    // each computes what it needs itself
  kBlocks,   // the threads of a block fill memory of scope "shared" together
  kDeclared  // who sees a stage's memory decides: what users are told, whose loops are no nests that run
};

// The region of each stage that its consumers need, and its loops; from consumers to producers. `whole`: operations
// that are computed whole, because the caller sees them. Errors name producer and consumer.
Result<std::map<const Stage*, Nest>> infer_bounds(const Schedule& schedule, const std::vector<OperationPtr>& whole,
                                                  Threads threads = Threads::kLoops);

// What a declared computation does in place of the loops of `nest` from loop `at` on.
struct Tensorized {
  Stmt body, init, update;  // the last two may be null
};
// Errors: the region or the body is not what is declared; guards or threads inside. `stride` is that of a dimension of
// a tensor's memory.
Result<Tensorized> tensorize(const Nest& nest, size_t at, const TensorIntrin& intrin, Analyzer* analyzer,
                             const std::function<Expr(const Tensor&, size_t dimension)>& stride);

// The same for a stage that calls an intrinsic.
Result<Tensorized> bind_call(const Nest& nest, const Schedule& schedule, Analyzer* analyzer,
                             const std::function<Expr(const Tensor&, size_t dimension)>& stride);

// What is lowered beside the loops. kRun: double buffers get their halves, but on a device, whose threads fill memory
// together; kShown: pragmas say where there are any.
enum class Purpose : uint8_t { kRun, kShown };

// `params` in the caller's order. What is neither a parameter nor inlined is computed into memory of its own.
Result<Function> lower_schedule(const Schedule& schedule, std::vector<Parameter> params, std::string name,
                                bool shared_by_threads = false, Purpose purpose = Purpose::kRun);

}  // namespace aipu::te
