// Text on its way out. Names in models and paths may hold anything, a terminal obeys some of it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace aipu {

enum class Lines : bool { kOne, kMany };

// The text with what a terminal would act on, or what would show something else than what is there, written as \xNN or
// \u{NNNN}: control characters (C0, DEL, C1), marks that change the direction of writing, line and paragraph
// separators, bytes that are not UTF-8. With kMany, line feeds and tabs stay: for texts of several lines.
std::string printable(std::string_view text, Lines lines = Lines::kOne);

// printable() for an error or warning: mistakes in a kernel's source are shown with place, line and caret
// (kernels/dsl/diagnostics.h), all else is one line.
std::string printable_message(std::string_view message);

// Names of models may be megabytes, and stand in every line: at most so many bytes of the text, of a longer one its
// beginning and "…".
constexpr size_t kMostNameBytes = 400;
std::string shortened(std::string_view text, size_t most = kMostNameBytes);

// Of the names that are known the one that was probably meant: at most two letters are different, missing or too many,
// and less than half of them. "" if there is none; the first of several.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

// As a JSON string, in its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace aipu
