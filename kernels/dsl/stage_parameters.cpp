#include "kernels/dsl/stage_parameters.h"

#include <algorithm>
#include <cmath>

namespace aipu::dsl {
namespace {

constexpr int kBuffers = 2;

// A tile's way in and out takes its latency and two instructions more than reading in place; what is gained is the
// difference of the memories for each vector. Twice of that, as the vectors beside the code are not all that there is.
int64_t worth_bytes(const tir::Target& target, const tir::CostFigures& costs) {
  const npu_timing::Figures& figures = costs.commands;
  const double way = figures.dma_setup + figures.dma_latency + figures.dma_row;
  const double gain = std::max(costs.global_access - costs.local_access, 0.1);
  return std::llround(2 * way / gain * target.vector_bits / 8);
}

}  // namespace

bool has_staging(const tir::Target& target) {
  const bool has_engine = std::any_of(target.engines.begin(), target.engines.end(), [](const tir::TargetEngine& e) {
    return e.kind == tir::EngineKind::kDma && e.takes_copies;
  });
  return has_engine && target.lsram_bytes() > 0 && target.tec_count() > 0 && target.costs.has_value();
}

void set_stage_parameters(const tir::Target& target, int64_t local_bytes, TemplateParams* params) {
  const bool stages = has_staging(target);
  params->set("STAGING", stages ? kBuffers : 0);
  params->set("LOCAL_BYTES", local_bytes > 0 ? local_bytes : target.lsram_bytes());
  params->set("WORTH", stages ? worth_bytes(target, *target.costs) : int64_t{0});
}

}  // namespace aipu::dsl
