#include "codegen/targets/target_library.h"

#include <fmt/format.h>

#include <algorithm>

namespace aipu::tir {

Status TargetLibrary::install() && {
  AIPU_RETURN_IF_ERROR(check_code_generators(generators_));
  for (const Target& target : targets_) {
    const bool brought = std::any_of(generators_.begin(), generators_.end(),
                                     [&](const auto& generator) { return generator->name() == target.codegen; });
    if (brought) continue;
    if (auto known = find_code_generator(target.codegen); !known.ok())
      return std::move(known).status().context(fmt::format("target '{}'", target.name));
  }
  if (targets_.empty()) return invalid_argument("it registers no target");
  AIPU_RETURN_IF_ERROR(add_targets(std::move(targets_)));
  return add_code_generators(std::move(generators_));
}

}  // namespace aipu::tir
