// How the operands of a kernel go through the local memory of a TEC: tile sizes for templates/staging.py, chosen from
// what the target declares (memories, engines, figures of its timing model) by what a tile costs to move and compute.
#pragma once

#include <span>
#include <string>

#include "kernels/dsl/stage_parameters.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

using dsl::has_staging;

struct StagedOperand {
  int element_bytes = 0;
  bool is_result = false;
};

struct MapStaging {
  int buffers = 0;       // per operand, STAGING of the template; 0: operands are used where they are
  int64_t capacity = 0;  // of a buffer, in elements
  graph::Dim tile;       // elements of a tile, at most `capacity`
  graph::Dim max_tecs;   // that get a tile
  std::string text;      // a line for people: what was chosen and why
};

// For a kernel that reads and writes `elements` elements of each operand once, with vectors of `lanes`. The model of a
// tile: what it computes takes a few cycles per vector and operand, its transfers their latency and the bandwidth that
// a TEC has while all are busy; the larger of both per tile, with the first tile's way in and the last one's way out.
MapStaging plan_map_staging(const tir::Target& target, const graph::Dim& elements,
                            std::span<const StagedOperand> operands, int lanes);

}  // namespace aipu::kernels
