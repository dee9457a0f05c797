// Places tensors with known sizes and lifetimes in one block of memory, such that tensors that live at the same time do
// not overlap.
//
// Used by the runtime once the shapes are bound, and by gbuilder to report the plan of a model whose shapes are known.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace aipu {

constexpr int64_t kArenaAlignment = 64;

struct ArenaRequest {
  static constexpr uint32_t kNone = 0xffffffffu;

  int64_t size_bytes = 0;  // >= 0
  uint32_t first_use = 0;  // inclusive; first_use <= last_use
  uint32_t last_use = 0;
  // request whose memory this one may take over: granted when the sizes are equal, the other's last use is this one's
  // first (and not the other's own first), and no earlier request was granted the same memory
  uint32_t in_place_of = kNone;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;   // per request, multiples of kArenaAlignment; requests of size 0 are at 0
  int64_t size_bytes = 0;         // multiple of kArenaAlignment
  int64_t lower_bound_bytes = 0;  // the most that is alive at once: no plan can be smaller
};

// Deterministic. n log n for the usual pass; a second, quadratic one with a better packing is tried for up to 4096
// requests when the first one leaves holes, and the smaller plan wins. Errors: negative sizes, reversed lifetimes, an
// in_place_of that is not an earlier request, sums that overflow.
Result<ArenaPlan> solve_arena(std::span<const ArenaRequest> requests);

}  // namespace aipu
