// What kernels are compiled for, as facts: rows of one table, to which libraries may add (target_library.h). Who needs
// a fact asks for it, never for the name of a target. README.md says how to add one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/targets/cost_figures.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// Who may address a memory, and thereby how many of it there are.
enum class Reach : uint8_t {
  kAll,   // everything: one, where tensors live (the language's global scopes)
  kCore,  // the TECs of a core: one per core (shared)
  kTec,   // one TEC: one per TEC (lsram)
};
std::string_view reach_name(Reach reach);  // "all", "core", "tec"

struct TargetMemory {
  std::string name;  // for people
  Reach reach = Reach::kAll;
  int64_t bytes = 0;           // of each; 0: what the machine has
  double bytes_per_cycle = 0;  // that all TECs together move to or from it; 0: not known
  // Of the last cache in front of it; 0: there is none, and what is written there comes back no faster.
  int64_t cache_bytes = 0;
};

enum class EngineKind : uint8_t { kTec, kDma };
std::string_view engine_kind_name(EngineKind kind);  // "tec", "dma"

struct TargetEngine {
  EngineKind kind = EngineKind::kTec;
  int count = 0;  // per core; of TECs 0: as many as the runtime has workers
  bool takes_launches = false;
  bool takes_copies = false;  // commands of the DMA buffer, and of kernels
};

// Products of bytes, summed in 32 bits by one instruction: of none, of unsigned by signed bytes, of bytes that are both
// signed or both unsigned, of any.
enum class DotProducts : uint8_t { kNone, kUnsignedBySigned, kSameSign, kAll };

// Of the CPU that this program is compiled for, as `uname -m` says it: "x86_64", "aarch64".
#if defined(__aarch64__)
inline constexpr std::string_view kThisMachine = "aarch64";
#else
inline constexpr std::string_view kThisMachine = "x86_64";
#endif

struct Target {
  std::string name;
  std::string description = {};      // a line for people
  std::string codegen = "native_c";  // who makes code of kernels: codegen/driver/code_generator.h
  std::string backend = "host";      // libaipu_backend_<name>.so, which runs that unless another one is asked for
  std::string machine = std::string(kThisMachine);  // the kind of CPU that runs the code, as `uname -m` says it
  std::vector<std::string> compiler_flags = {};     // of the C compiler: -march and the like

  int vector_bits = 256;          // width of a register; wider vectors of the language are split to it when lowered
  int vector_registers = 16;      // architectural vector registers, for register tiles
  std::vector<DType> types = {};  // of elements that kernels may compute with or move; empty: all of the language
  bool element_products = false;  // of a vector and one element of a register: in one instruction, with no broadcast
  bool native_fma = true;         // false: the lowering turns fma into multiply and add
  DotProducts dot_products = DotProducts::kNone;
  bool bf16_dot_products = false;  // S.vdpbf16 is one instruction; of aarch64 S.vbfdot, which rounds elsewhere
  bool f16_dot_products = false;   // of float16, summed in float32, in one instruction
  bool tile_products = false;      // of bytes, in blocks: S.tile_dot is a few instructions
  // How long tables may be of which S.vload_gather (entries=) takes a register of elements by one instruction, or by
  // few: of bytes, and of float32. 0: elements come from memory one by one.
  int byte_table = 0, float_table = 0;
  bool converts_halves = false;  // float16 to float32, by one instruction, or by few
  // Of positions in memory. 32: kernels index with int32, and the file says how far that reaches.
  int address_bits = 64;

  std::vector<TargetMemory> memories = {};  // at most one of each reach
  std::vector<TargetEngine> engines = {};   // at most one of each kind
  int core_count = 1;  // whose TECs share a launch, unless they meet at barriers or in memory of the core
  std::optional<CostFigures> costs = {};  // of the timing model; none: it is not of this target

  std::string version = {};  // of Compass NPUs: "X2", "X3P", ...; else empty
  int generation = 0;        // of Compass NPUs: 2 or 3, which differ in their instructions; else 0
  // What the compiled code needs of a CPU of that kind, spelled as in /proc/cpuinfo.
  std::vector<std::string> cpu_features = {};

  int lanes(int element_bits) const { return vector_bits / element_bits; }
  bool has(DType type) const;
  const TargetMemory* memory(Reach reach) const;  // null: it has none
  int64_t lsram_bytes() const { return bytes(Reach::kTec); }
  int64_t shared_bytes() const { return bytes(Reach::kCore); }
  // Of the cache in front of tensors; 0: none.
  int64_t cache_bytes() const;
  int tec_count() const;  // per core; 0: as many as the runtime has workers
  int all_tecs() const { return tec_count() * core_count; }

 private:
  int64_t bytes(Reach reach) const;
};

// Resolves a name: "host" is the widest row that the CPU at hand can run, under the name of that row ("host-avx2",
// "aarch64-dotprod", ...), "compass -mcpu=X2_1204" is "X2_1204". X1 and unknown names are errors that list what exists.
Result<Target> find_target(std::string_view name);
// Whether the CPU at hand has the tiles that "host-amx" needs, and the system lets this process use them.
bool this_machine_has_tiles();
// Ours, then those of libraries in the order in which they came.
std::vector<Target> all_targets();

// Adds rows, all of them or none. An error names the row and what is wrong with it: a name that is taken or is no name,
// facts that contradict each other. Any thread; rows stay until the process ends.
Status add_targets(std::vector<Target> targets);

// What exists, for `aipugb --targets`: a paragraph of facts for each.
std::string print_targets();

}  // namespace aipu::tir
