// Notices fork(): a child has none of its parent's threads but the one that called it.
#pragma once

#include <cstdint>

namespace aipu {

// Another number in a child than in its parent. Costs a load.
uint32_t fork_generation();

}  // namespace aipu
