#include "kernels/dsl/mask_text.h"

namespace aipu::dsl {

std::optional<std::vector<bool>> parse_mask_text(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return c == 'T' || c == 'F'; };
  if (text.size() < 2 || !is_letter(text.back())) return std::nullopt;
  std::vector<bool> lanes;
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '_') {
      // Between letters, or (our extension) before a number.
      if (i == 0 || !is_letter(text[i - 1]) || i + 1 == text.size() || text[i + 1] == '_') return std::nullopt;
      ++i;
    }
    size_t count = 1;
    if (is_digit(text[i])) {
      count = 0;
      for (; i < text.size() && is_digit(text[i]); ++i) {
        count = count * 10 + static_cast<size_t>(text[i] - '0');
        if (count > kMaxMaskLanes) return std::nullopt;
      }
      if (count == 0) return std::nullopt;
    }
    const size_t first = i;
    while (i < text.size() && is_letter(text[i])) ++i;
    if (i == first || (i - first) * count > kMaxMaskLanes - lanes.size()) return std::nullopt;
    for (size_t k = 0; k < count; ++k) {
      for (size_t j = first; j < i; ++j) lanes.push_back(text[j] == 'T');
    }
  }
  return lanes;
}

}  // namespace aipu::dsl
