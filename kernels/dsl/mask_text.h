// The string form of masks, language.md 7.3: "3FT", "2T_FF", "8T".
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace aipu::dsl {

// The lanes, first character first; nullopt for a string that is no mask or has more than kMaxMaskLanes lanes.
std::optional<std::vector<bool>> parse_mask_text(std::string_view text);

constexpr size_t kMaxMaskLanes = 1 << 16;

}  // namespace aipu::dsl
