// Text on its way out. Names in models and paths may hold anything, a terminal obeys some of it.
#pragma once

#include <string>
#include <string_view>

namespace aipu {

enum class Lines : bool { kOne, kMany };

// The text with what a terminal would act on, or what would show something else than what is there, written as \xNN or
// \u{NNNN}: control characters (C0, DEL, C1), marks that change the direction of writing, line and paragraph
// separators, bytes that are not UTF-8. With kMany, line feeds and tabs stay: for texts of several lines.
std::string printable(std::string_view text, Lines lines = Lines::kOne);

// As a JSON string, in its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace aipu
