// Targets are rows of one table. X2_1204 and host differ in their row, not in the road.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace aipu::tir {

enum class TargetFamily : uint8_t {
  kHost,     // TECs are the CPU's worker threads, DMA is a copy; vectors are the CPU's registers
  kCompass,  // Compass NPU model: 256-bit native vectors, Compass C spelling, run by the functional simulator back end
};

struct Target {
  std::string name;
  TargetFamily family = TargetFamily::kHost;
  int vector_bits = 256;        // width of a register; wider DSL vectors are split to it when lowered
  int vector_registers = 16;    // architectural vector registers, for register tiles
  bool native_fma = true;       // false: the lowering turns fma into multiply and add
  bool dot_product = false;     // u8 x s8 dot products in hardware (VNNI)
  int tec_count = 0;            // 0: as many as the runtime has workers
  int lsram_bytes = 32 * 1024;  // per TEC
  int shared_bytes = 256 * 1024;
  std::vector<std::string> compiler_flags;  // -march and the like
  std::string version = "";                 // "X2", "X3P", ...; empty for host
  int generation = 0;                       // of Compass NPUs: 2 or 3, which differ in their instructions; 0 for host
  int core_count = 1;                       // Compass only; the TECs of one core run a kernel
  // what the compiled code needs of an x86-64 CPU, spelled as in /proc/cpuinfo
  std::vector<std::string> cpu_features = {};

  int lanes(int element_bits) const { return vector_bits / element_bits; }
};

// Resolves a name: "host" is the widest row that the CPU at hand can run, under the name of that row
// ("host-avx512-vnni", "host-avx512", "host-avx2", "host-baseline"), "compass -mcpu=X2_1204" is "X2_1204". X1 and
// unknown names are errors that list what exists.
Result<Target> find_target(std::string_view name);
std::span<const Target> all_targets();

}  // namespace aipu::tir
