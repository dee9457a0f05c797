#include "codegen/targets/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <utility>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#else
#include <cpuid.h>

#include "runtime/base/tile_permission.h"
#endif

namespace aipu::tir {
namespace {

std::vector<std::string> avx2Features() { return {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}; }
std::vector<std::string> avx512Features() {
  return {"avx",   "avx2",    "bmi1",     "bmi2",     "f16c",     "fma",     "abm",
          "movbe", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
}

// What is known of the CPU at hand, of features that rows ask for.
#if defined(__x86_64__)
// F16C is not asked for: clang 14 cannot, and every CPU with AVX2 has it.
bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool cpu_has_vnni() { return cpu_has_avx512() && __builtin_cpu_supports("avx512vnni"); }
// Worth it: on Intel's CPUs (Sapphire and Emerald Rapids were measured) vdpbf16ps takes four times as long as a float32
// fma of half as many products.
bool multiplies_bf16_fast() { return __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel"); }
std::string_view widest_host() {
  if (cpu_has_vnni()) return multiplies_bf16_fast() ? "host-avx512-bf16" : "host-avx512-vnni";
  if (cpu_has_avx512()) return "host-avx512";
  return cpu_has_avx2() ? "host-avx2" : "host-baseline";
}
#elif defined(__aarch64__)
bool cpu_has_avx2() { return false; }
std::string_view widest_host() {
  if ((::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0) return "aarch64-neon";
  return (::getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? "aarch64-bf16" : "aarch64-dotprod";
}
#else
#error "no row of targets is for this kind of CPU: codegen/targets/README.md"
#endif

// -mprefer-vector-width: without it clang splits 512-bit vectors into halves and spills them.
std::vector<std::string> avx512Flags() { return {"-march=x86-64-v4", "-mprefer-vector-width=512"}; }
std::vector<std::string> avx2Flags() { return {"-march=x86-64-v3"}; }
std::vector<std::string> baselineFlags() { return {"-march=x86-64"}; }

// TECs are the CPU's worker threads, which also copy.
Target cpu(std::string name, std::string machine) {
  Target target;
  target.name = std::move(name);
  target.description = fmt::format("CPUs of the kind {}", machine);
  target.machine = std::move(machine);
  target.memories = {
      {.name = "memory", .reach = Reach::kAll, .cache_bytes = 8 << 20},
      {.name = "shared", .reach = Reach::kCore, .bytes = 256 << 10},
      {.name = "lsram", .reach = Reach::kTec, .bytes = 32 << 10},
  };
  target.engines = {{.kind = EngineKind::kTec, .takes_launches = true, .takes_copies = true}};
  return target;
}

std::vector<Target> x86_targets() {
  Target avx512 = cpu("host-avx512", "x86_64");
  avx512.vector_bits = 512;
  avx512.vector_registers = 32;
  avx512.byte_table = 16;   // vpshufb
  avx512.float_table = 32;  // vpermi2ps
  avx512.converts_halves = true;
  avx512.compiler_flags = avx512Flags();
  avx512.cpu_features = avx512Features();

  // The same vectors; a row of its own because a model converted for it does not run on a CPU without VNNI.
  Target vnni = avx512;
  vnni.name = "host-avx512-vnni";
  vnni.dot_products = DotProducts::kUnsignedBySigned;
  vnni.compiler_flags.push_back("-mavx512vnni");
  vnni.cpu_features.push_back("avx512_vnni");

  Target bf16 = vnni;
  bf16.name = "host-avx512-bf16";
  bf16.bf16_dot_products = true;
  bf16.compiler_flags.push_back("-mavx512bf16");
  bf16.cpu_features.push_back("avx512_bf16");

  // Of VNNI's row: where there are tiles, vdpbf16ps is slow.
  Target amx = vnni;
  amx.name = "host-amx";
  amx.tile_products = true;
  amx.compiler_flags.insert(amx.compiler_flags.end(), {"-mamx-tile", "-mamx-int8"});
  amx.cpu_features.insert(amx.cpu_features.end(), {"amx_tile", "amx_int8"});

  Target avx2 = cpu("host-avx2", "x86_64");
  avx2.byte_table = 16;
  avx2.float_table = 16;  // twice vpermps, and a blend
  avx2.converts_halves = true;
  avx2.compiler_flags = avx2Flags();
  avx2.cpu_features = avx2Features();

  Target baseline = cpu("host-baseline", "x86_64");
  baseline.vector_bits = 128;
  baseline.native_fma = false;
  baseline.compiler_flags = baselineFlags();
  return {avx512, vnni, bf16, amx, avx2, baseline};
}

// Without the first scheduling: gcc moves products apart there, and copies the sums that it then holds twice. With
// renaming, which takes back copies that its allocation of registers leaves where nearly all are in use. Kernels stay
// functions of their own: in what unpacks their arguments the addresses of loops no longer fit the registers. Blocks
// stay in their order: gcc puts those that it takes for rare behind the return, and they jump back across a tile.
std::vector<std::string> aarch64Flags(const char* architecture) {
  return {std::string("-march=") + architecture, "-fno-schedule-insns", "-frename-registers", "-fno-reorder-blocks",
          "-fno-inline-functions-called-once"};
}

std::vector<Target> aarch64_targets() {
  Target neon = cpu("aarch64-neon", "aarch64");
  neon.vector_bits = 128;
  neon.vector_registers = 32;
  neon.element_products = true;
  neon.byte_table = 16;  // tbl
  neon.converts_halves = true;
  neon.compiler_flags = aarch64Flags("armv8-a");
  neon.cpu_features = {"asimd"};

  Target dotprod = neon;
  dotprod.name = "aarch64-dotprod";
  dotprod.dot_products = DotProducts::kSameSign;
  dotprod.compiler_flags = aarch64Flags("armv8.2-a+dotprod");
  dotprod.cpu_features.push_back("asimddp");

  Target bf16 = dotprod;
  bf16.name = "aarch64-bf16";
  bf16.bf16_dot_products = true;
  bf16.compiler_flags = aarch64Flags("armv8.2-a+dotprod+bf16");
  bf16.cpu_features.push_back("bf16");
  return {neon, dotprod, bf16};
}

// The functional model of a Compass NPU. Its fma is always the fused one: where this CPU has none, the prelude computes
// it in software, so that the results do not depend on the machine that converts.
Target compass(std::string name, int generation, std::string version, int cores, int shared_kib) {
  Target target;
  target.name = std::move(name);
  target.description = fmt::format("Compass {}, as a functional model", version);
  target.codegen = "compass_c";
  target.backend = "x2";
  if (cpu_has_avx2()) {
    target.compiler_flags = avx2Flags();
    target.cpu_features = avx2Features();
  } else if (kThisMachine == "x86_64") {
    target.compiler_flags = baselineFlags();
  }
  target.dot_products = DotProducts::kAll;
  target.address_bits = 32;
  // Each core has a port of its own to the memory that all of them see.
  target.costs = CostFigures{.commands = npu_timing::kX2};
  target.costs->commands.global_bytes_per_cycle *= cores;
  target.memories = {
      {.name = "ddr", .reach = Reach::kAll, .bytes_per_cycle = target.costs->commands.global_bytes_per_cycle},
      {.name = "gsram", .reach = Reach::kCore, .bytes = int64_t{shared_kib} << 10},
      {.name = "lsram", .reach = Reach::kTec, .bytes = npu_timing::kX2Machine.lsram_bytes},
  };
  target.engines = {{.kind = EngineKind::kTec, .count = npu_timing::kX2Machine.tecs, .takes_launches = true},
                    {.kind = EngineKind::kDma, .count = 1, .takes_copies = true}};
  target.version = std::move(version);
  target.generation = generation;
  // The third generation has no dot products of floats.
  target.f16_dot_products = generation == 2;
  target.core_count = cores;
  return target;
}

// A GPU of NVIDIA's. What its code generator makes for this machine (AIPU_CUDA=emulate) the back end of hosts runs.
Target cuda() {
  Target target = cpu("cuda", std::string(kThisMachine));
  target.description = "NVIDIA GPUs, for schedules of aipu.te; AIPU_CUDA=emulate runs them here";
  target.codegen = "cuda_c";
  target.types = {DType::kI8,  DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
                  DType::kU32, DType::kU64, DType::kF16, DType::kF32, DType::kF64};
  // What a block has without asking for more.
  target.memories = {{.name = "global", .reach = Reach::kAll},
                     {.name = "shared", .reach = Reach::kCore, .bytes = int64_t{48} << 10}};
  target.native_fma = false;
  return target;
}

std::vector<Target> own_targets() {
  std::vector<Target> targets = x86_targets();
  for (Target& target : aarch64_targets()) targets.push_back(std::move(target));
  constexpr int kSharedKib = npu_timing::kX2Machine.shared_bytes >> 10;
  targets.push_back(compass("X2_1204", 2, "X2", 1, kSharedKib));
  targets.push_back(compass("X2_1204MP3", 2, "X2", 3, kSharedKib));
  for (const char* version : {"X3P", "X3S"}) {
    targets.push_back(compass(fmt::format("{}_1304", version), 3, version, 1, 128));
    targets.push_back(compass(fmt::format("{}_1304MP2", version), 3, version, 2, 128));
    targets.push_back(compass(fmt::format("{}_1304MP4", version), 3, version, 4, 128));
  }
  targets.push_back(cuda());
  return targets;
}

struct Rows {
  std::mutex mutex;
  std::vector<Target> targets = own_targets();
};
Rows& rows() {
  static Rows* const rows = new Rows;  // libraries of targets are never unloaded
  return *rows;
}

bool is_word(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || others.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// What is wrong with a row by itself; empty: nothing.
std::string contradiction(const Target& target) {
  if (!is_word(target.name, "_-") || target.name == "host" || target.name.starts_with("compass"))
    return "that is not a name for a target: letters, digits, '_' and '-', neither \"host\" nor \"compass...\"";
  if (!is_word(target.backend, "_-")) return fmt::format("'{}' is not a name of a back end", target.backend);
  const int bits = target.vector_bits;
  if (bits < 128 || bits > 512 || (bits & (bits - 1)) != 0)
    return fmt::format("registers of {} bits; there can be 128, 256 and 512", bits);
  if (target.vector_registers < 8) return fmt::format("{} vector registers are too few", target.vector_registers);
  if (target.byte_table < 0 || target.float_table < 0) return "tables in registers of less than nothing";
  if (target.address_bits != 32 && target.address_bits != 64)
    return fmt::format("addresses of {} bits; there can be 32 and 64", target.address_bits);
  if (target.memory(Reach::kAll) == nullptr) return "it has no memory that everything may address";
  for (const TargetMemory& memory : target.memories) {
    if (target.memory(memory.reach) != &memory)
      return fmt::format("two memories that '{}' may address", reach_name(memory.reach));
    if (memory.bytes < 0 || memory.cache_bytes < 0) return fmt::format("memory '{}' is smaller than 0", memory.name);
  }
  for (const TargetEngine& engine : target.engines) {
    const auto is_same = [&](const TargetEngine& other) { return other.kind == engine.kind; };
    if (std::count_if(target.engines.begin(), target.engines.end(), is_same) > 1)
      return fmt::format("two rows of engines '{}'", engine_kind_name(engine.kind));
  }
  const bool launches = std::any_of(target.engines.begin(), target.engines.end(), [](const TargetEngine& engine) {
    return engine.kind == EngineKind::kTec && engine.takes_launches && engine.count >= 0;
  });
  if (!launches) return "it has no TECs that take launches";
  if (target.costs) {
    const CostFigures& costs = *target.costs;
    for (const double figure : costs.numbers()) {
      const bool is_free_host = figure == 0 && costs.commands.host == 0;
      if (!is_free_host && !(figure >= npu_timing::kLeastFigure && figure <= npu_timing::kMostFigure))
        return fmt::format("a cost of {}; there can be {} to {}", figure, npu_timing::kLeastFigure,
                           npu_timing::kMostFigure);
    }
  }
  return target.core_count < 1 ? "it has no cores" : "";
}

std::string bytes_text(int64_t bytes) {
  if (bytes == 0) return "as much as there is";
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  return bytes % 1024 == 0 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} bytes", bytes);
}

std::string tables_text(const Target& target) {
  if (target.byte_table == 0 && target.float_table == 0) return "";
  return fmt::format("  tables    in registers, of {} bytes and {} float32\n", target.byte_table, target.float_table);
}

std::string memory_text(const TargetMemory& memory) {
  static constexpr std::string_view kWho[] = {"", " per core", " per TEC"};
  std::string text =
      fmt::format("{} {}{}", memory.name, bytes_text(memory.bytes), kWho[static_cast<size_t>(memory.reach)]);
  if (memory.bytes_per_cycle > 0) text += fmt::format(" at {} bytes per cycle", memory.bytes_per_cycle);
  if (memory.cache_bytes > 0) text += fmt::format(" behind {} of cache", bytes_text(memory.cache_bytes));
  return text;
}

std::string engine_text(const TargetEngine& engine) {
  const std::string count = engine.count > 0 ? std::to_string(engine.count) : std::string("a thread per");
  return fmt::format("{} {} for {}{}{}", count, engine_kind_name(engine.kind), engine.takes_launches ? "launches" : "",
                     engine.takes_launches && engine.takes_copies ? " and " : "", engine.takes_copies ? "copies" : "");
}

template <typename List, typename Text>
std::string joined(const List& list, Text text) {
  std::string result;
  for (const auto& item : list) result += (result.empty() ? "" : ", ") + std::string(text(item));
  return result;
}

std::string facts(const Target& target) {
  static constexpr std::string_view kDots[] = {"", ", dot products of unsigned by signed bytes",
                                               ", dot products of bytes of one sign", ", dot products of bytes"};
  std::string text = fmt::format("{}: {}\n", target.name, target.description);
  text += fmt::format("  code      {} for {}, run by {}\n", target.codegen, target.machine, target.backend);
  text +=
      fmt::format("  vectors   {} registers of {} bits{}{}{}{}{}\n", target.vector_registers, target.vector_bits,
                  target.native_fma ? ", fma" : "", kDots[static_cast<size_t>(target.dot_products)],
                  target.bf16_dot_products ? " and of bfloat16" : "", target.f16_dot_products ? " and of float16" : "",
                  target.tile_products ? ", products of tiles of bytes" : "");
  text += tables_text(target);
  if (!target.types.empty()) text += fmt::format("  types     {}\n", joined(target.types, dtype_name));
  text += fmt::format("  memories  {}\n", joined(target.memories, memory_text));
  text += fmt::format("  engines   {}{}\n", joined(target.engines, engine_text),
                      target.core_count > 1 ? fmt::format(", in each of {} cores", target.core_count) : "");
  if (!target.cpu_features.empty())
    text += fmt::format("  CPU with  {}\n", joined(target.cpu_features, [](const std::string& name) { return name; }));
  return text;
}

}  // namespace

std::string_view reach_name(Reach reach) {
  static constexpr std::string_view kNames[] = {"all", "core", "tec"};
  return kNames[static_cast<size_t>(reach)];
}

std::string_view engine_kind_name(EngineKind kind) { return kind == EngineKind::kTec ? "tec" : "dma"; }

bool Target::has(DType type) const {
  return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
}

const TargetMemory* Target::memory(Reach reach) const {
  const auto found =
      std::find_if(memories.begin(), memories.end(), [&](const TargetMemory& memory) { return memory.reach == reach; });
  return found == memories.end() ? nullptr : &*found;
}

int64_t Target::bytes(Reach reach) const {
  const TargetMemory* found = memory(reach);
  return found == nullptr ? 0 : found->bytes;
}

int64_t Target::cache_bytes() const {
  const TargetMemory* found = memory(Reach::kAll);
  return found == nullptr ? 0 : found->cache_bytes;
}

int Target::tec_count() const {
  for (const TargetEngine& engine : engines)
    if (engine.kind == EngineKind::kTec) return engine.count;
  return 0;
}

std::vector<Target> all_targets() {
  const std::lock_guard lock(rows().mutex);
  return rows().targets;
}

Status add_targets(std::vector<Target> targets) {
  const std::lock_guard lock(rows().mutex);
  std::vector<Target> all = rows().targets;
  for (Target& target : targets) {
    if (const std::string problem = contradiction(target); !problem.empty())
      return invalid_argument(fmt::format("target '{}': {}", target.name, problem));
    if (std::any_of(all.begin(), all.end(), [&](const Target& other) { return other.name == target.name; }))
      return invalid_argument(fmt::format("target '{}': there is one of that name already", target.name));
    all.push_back(std::move(target));
  }
  rows().targets = std::move(all);
  return {};
}

std::string print_targets() {
  std::string text;
  for (const Target& target : all_targets()) text += (text.empty() ? "" : "\n") + facts(target);
  return text;
}

#if defined(__x86_64__)
bool this_machine_has_tiles() {
  constexpr unsigned kTiles = 1U << 24, kBytes = 1U << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return cpu_has_vnni() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTiles) != 0 && (d & kBytes) != 0 &&
         may_use_tiles();
}
#else
bool this_machine_has_tiles() { return false; }
#endif

Result<Target> find_target(std::string_view name) {
  std::string_view wanted = name;
  constexpr std::string_view kCompassPrefix = "compass";
  if (wanted.starts_with(kCompassPrefix)) {
    const size_t mcpu = wanted.find("-mcpu=");
    if (mcpu != std::string_view::npos) {
      wanted.remove_prefix(mcpu + 6);
      wanted = wanted.substr(0, wanted.find(' '));
    }
  }
  if (wanted == "host") wanted = widest_host();
  const std::lock_guard lock(rows().mutex);
  for (const Target& target : rows().targets) {
    if (target.name == wanted) return target;
  }
  if (wanted.starts_with("X1"))
    return unsupported(fmt::format("The Compass DSL does not support the target \"{}\".", wanted));
  std::string known = "host";
  for (const Target& target : rows().targets) known += fmt::format(", {}", target.name);
  return invalid_argument(fmt::format("unknown target \"{}\" (there are: {})", name, known));
}

}  // namespace aipu::tir
