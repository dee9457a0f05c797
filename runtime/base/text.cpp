#include "runtime/base/text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace aipu {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

// The first character of a text that is not empty.
Character first_character(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (at(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

bool is_harmful(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
         (code >= 0xe0000 && code <= 0xe007f);
}

void append_hex(std::string& out, const char* format, uint32_t value) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, format, value);
  out += buffer;
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const bool stays = lines == Lines::kMany && (c.code == '\n' || c.code == '\t');
    if (c.bytes == 0) {
      append_hex(out, "\\x%02x", static_cast<uint8_t>(text[0]));
    } else if (!is_harmful(c.code) || stays) {
      out += text.substr(0, c.bytes);
    } else if (c.code == '\n' || c.code == '\t' || c.code == '\r') {
      out += c.code == '\n' ? "\\n" : c.code == '\t' ? "\\t" : "\\r";
    } else {
      append_hex(out, c.code < 0x80 ? "\\x%02x" : "\\u{%x}", c.code);
    }
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return out;
}

std::string printable_message(std::string_view message) {
  const bool shows_source = message.find("\n --> ") != std::string_view::npos;
  return printable(message, shows_source ? Lines::kMany : Lines::kOne);
}

std::string shortened(std::string_view text, size_t most) {
  constexpr std::string_view kEllipsis = "…";
  if (text.size() <= most) return std::string(text);
  size_t end = most > kEllipsis.size() ? most - kEllipsis.size() : 0;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;  // no half of a character
  return std::string(text.substr(0, end)) + std::string(kEllipsis);
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  const size_t most = std::min<size_t>(2, name.empty() ? 0 : (name.size() - 1) / 2);
  size_t best = most + 1;
  std::string_view result;
  std::vector<size_t> row, above, above_that;  // distances between beginnings: Damerau and Levenshtein's
  for (const std::string_view candidate : known) {
    if (candidate.size() > name.size() + most || name.size() > candidate.size() + most) continue;
    row.resize(candidate.size() + 1);
    for (size_t k = 0; k <= candidate.size(); ++k) row[k] = k;
    above = above_that = row;
    for (size_t i = 1; i <= name.size(); ++i) {
      above_that.swap(above);
      above.swap(row);
      row[0] = i;
      for (size_t k = 1; k <= candidate.size(); ++k) {
        const size_t change = name[i - 1] == candidate[k - 1] ? 0 : 1;
        row[k] = std::min({above[k] + 1, row[k - 1] + 1, above[k - 1] + change});
        if (i > 1 && k > 1 && name[i - 1] == candidate[k - 2] && name[i - 2] == candidate[k - 1])
          row[k] = std::min(row[k], above_that[k - 2] + 1);
      }
    }
    if (row.back() < best) {
      best = row.back();
      result = candidate;
    }
  }
  return result;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const Character c = first_character(text);
    if (c.bytes == 0) {
      out += "\\ufffd";
    } else if (c.code == '"' || c.code == '\\') {
      out += '\\';
      out += text[0];
    } else if (is_harmful(c.code) && c.code <= 0xffff) {
      append_hex(out, "\\u%04x", c.code);
    } else {
      out += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return out + "\"";
}

}  // namespace aipu
