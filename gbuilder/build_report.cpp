// BuildReport as text.
#include <fmt/format.h>

#include <string>

#include "gbuilder/build.h"

namespace aipu::gbuilder {

std::string stage_times(const BuildReport& report) {
  std::string text;
  for (const auto& [stage, seconds] : report.stage_seconds)
    text += fmt::format("{:10} {:8.1f} ms\n", stage, seconds * 1e3);
  return text;
}

std::string plan_sizes(const BuildReport& report) {
  const std::string text =
      fmt::format("{} nodes, {} groups, {} kernel launches, {} commands, constants {} bytes\n", report.nodes,
                  report.groups, report.launches, report.commands, report.constant_bytes);
  if (!report.has_memory_plan) return text + "arena: its size depends on the inputs\n";
  const auto alive = static_cast<double>(report.arena_lower_bound_bytes);
  return text + fmt::format("arena {} bytes, {:.3f} times what is alive at once\n", report.arena_bytes,
                            alive == 0 ? 1.0 : static_cast<double>(report.arena_bytes) / alive);
}

std::string result_line(const BuildReport& report, const std::string& output) {
  double seconds = 0;
  for (const auto& stage : report.stage_seconds) seconds += stage.second;
  return fmt::format("{}: {} bytes for {}, {} kernels ({} of {} C files compiled, the rest from the cache), {:.2f} s\n",
                     output, report.file_bytes, report.target, report.kernels, report.compiled_units,
                     report.translation_units, seconds);
}

}  // namespace aipu::gbuilder
