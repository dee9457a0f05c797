#include "codegen/targets/target.h"

#include <fmt/format.h>

namespace aipu::tir {
namespace {

std::vector<std::string> avx2Features() { return {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}; }
std::vector<std::string> avx512Features() {
  return {"avx",   "avx2",    "bmi1",     "bmi2",     "f16c",     "fma",     "abm",
          "movbe", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
}

// F16C is not asked for: clang 14 cannot, and every CPU with AVX2 has it.
bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool cpu_has_vnni() { return cpu_has_avx512() && __builtin_cpu_supports("avx512vnni"); }

// -mprefer-vector-width: without it clang splits 512-bit vectors into halves and spills them.
std::vector<std::string> avx512Flags() { return {"-march=x86-64-v4", "-mprefer-vector-width=512"}; }
std::vector<std::string> avx2Flags() { return {"-march=x86-64-v3"}; }
std::vector<std::string> baselineFlags() { return {"-march=x86-64"}; }

std::vector<Target> host_targets() {
  Target avx512;
  avx512.name = "host-avx512";
  avx512.vector_bits = 512;
  avx512.vector_registers = 32;
  avx512.compiler_flags = avx512Flags();
  avx512.cpu_features = avx512Features();

  // The same vectors; a row of its own because a model converted for it does not run on a CPU without VNNI.
  Target vnni = avx512;
  vnni.name = "host-avx512-vnni";
  vnni.dot_product = true;
  vnni.compiler_flags.push_back("-mavx512vnni");
  vnni.cpu_features.push_back("avx512_vnni");

  Target avx2;
  avx2.name = "host-avx2";
  avx2.compiler_flags = avx2Flags();
  avx2.cpu_features = avx2Features();

  Target baseline;
  baseline.name = "host-baseline";
  baseline.vector_bits = 128;
  baseline.native_fma = false;
  baseline.compiler_flags = baselineFlags();
  return {avx512, vnni, avx2, baseline};
}

// The functional model of a Compass NPU. Its fma is always the fused one: where this CPU has none, the prelude computes
// it in software, so that the results do not depend on the machine that converts.
Target compass(std::string name, int generation, std::string version, int cores, int shared_kib) {
  Target target;
  target.name = std::move(name);
  target.family = TargetFamily::kCompass;
  target.tec_count = 4;
  target.core_count = cores;
  target.lsram_bytes = 32 * 1024;
  target.shared_bytes = shared_kib * 1024;
  target.compiler_flags = cpu_has_avx2() ? avx2Flags() : baselineFlags();
  if (cpu_has_avx2()) target.cpu_features = avx2Features();
  target.version = std::move(version);
  target.generation = generation;
  return target;
}

std::vector<Target> make_targets() {
  std::vector<Target> targets = host_targets();
  targets.push_back(compass("X2_1204", 2, "X2", 1, 256));
  targets.push_back(compass("X2_1204MP3", 2, "X2", 3, 256));
  for (const char* version : {"X3P", "X3S"}) {
    targets.push_back(compass(fmt::format("{}_1304", version), 3, version, 1, 128));
    targets.push_back(compass(fmt::format("{}_1304MP2", version), 3, version, 2, 128));
    targets.push_back(compass(fmt::format("{}_1304MP4", version), 3, version, 4, 128));
  }
  return targets;
}

}  // namespace

std::span<const Target> all_targets() {
  static const std::vector<Target> targets = make_targets();
  return targets;
}

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
  if (wanted == "host")
    wanted = cpu_has_vnni()     ? "host-avx512-vnni"
             : cpu_has_avx512() ? "host-avx512"
             : cpu_has_avx2()   ? "host-avx2"
                                : "host-baseline";
  for (const Target& target : all_targets()) {
    if (target.name == wanted) return target;
  }
  if (wanted.starts_with("X1"))
    return unsupported(fmt::format("The Compass DSL does not support the target \"{}\".", wanted));
  std::string known = "host";
  for (const Target& target : all_targets()) known += fmt::format(", {}", target.name);
  return invalid_argument(fmt::format("unknown target \"{}\" (there are: {})", name, known));
}

}  // namespace aipu::tir
