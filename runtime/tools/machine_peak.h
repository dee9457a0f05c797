// What the machine can do, measured now: the yardstick of a profile.
#pragma once

namespace aipu::tools {

struct MachinePeak {
  double float_operations = 0;  // fp32 per second, fused multiply-adds with the widest vectors, all threads together
  double memory_bytes = 0;      // per second, reads of more memory than the caches hold, all threads together
};

// Takes about a tenth of a second. `threads` >= 1.
MachinePeak measure_machine_peak(int threads);

}  // namespace aipu::tools
