// Patterns of names on command lines and in files: '*' stands for any text, everything else for itself.
#pragma once

#include <string_view>

namespace aipu {

inline bool fits_pattern(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  if (rest.empty()) return true;
  for (size_t at = star; at <= text.size(); ++at) {
    if (fits_pattern(rest, text.substr(at))) return true;
  }
  return false;
}

}  // namespace aipu
