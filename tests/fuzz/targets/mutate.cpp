#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {

void check(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

void check_diagnostics(const Status& status) {
  check(!status.message().empty(), "an error without a message");
  check(status.code() != ErrorCode::kInternal, status.message());
}

void check_error(const Status& status) {
  check_diagnostics(status);
  check(status.message().find('\n') == std::string::npos, "an error of several lines: " + status.message());
}

std::vector<std::string> tokens_of(const std::string& text) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; };
  std::vector<std::string> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (in_word(text[at])) {
      while (end < text.size() && in_word(text[end])) ++end;
    }
    while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])) != 0) ++end;
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

std::string mutate_tokens(const std::string& text, const std::string& other, Random& random) {
  static constexpr std::array<const char*, 18> kNumbers = {"0",
                                                           "1",
                                                           "-1",
                                                           "2",
                                                           "7",
                                                           "8",
                                                           "255",
                                                           "256",
                                                           "65536",
                                                           "2147483647",
                                                           "-2147483648",
                                                           "4294967295",
                                                           "4294967296",
                                                           "9223372036854775807",
                                                           "-9223372036854775808",
                                                           "99999999999999999999",
                                                           "1e400",
                                                           "nan"};
  std::vector<std::string> tokens = tokens_of(text);
  const std::vector<std::string> donors = tokens_of(other);
  const size_t edits = 1 + below(random, 4);
  for (size_t i = 0; i < edits && !tokens.empty(); ++i) {
    const size_t at = below(random, tokens.size());
    const auto place = tokens.begin() + static_cast<ptrdiff_t>(at);
    switch (below(random, 7)) {
      case 0:
        tokens.erase(place);
        break;
      case 1:
        tokens.insert(place, tokens[at]);
        break;
      case 2:
        std::swap(tokens[at], tokens[below(random, tokens.size())]);
        break;
      case 3: {  // a stretch once more: nesting, repetition
        const size_t size = std::min(1 + below(random, 20), tokens.size() - at);
        const std::vector<std::string> piece(place, place + static_cast<ptrdiff_t>(size));
        tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(below(random, tokens.size())), piece.begin(),
                      piece.end());
        break;
      }
      case 4:
        if (!donors.empty()) tokens[at] = donors[below(random, donors.size())];
        break;
      default: {  // the next number, so that most edits parse
        const auto number = std::find_if(place, tokens.end(), [](const std::string& token) {
          return std::isdigit(static_cast<unsigned char>(token[0])) != 0;
        });
        if (number != tokens.end()) *number = std::string(kNumbers[below(random, kNumbers.size())]) + " ";
      }
    }
  }
  std::string result;
  for (const std::string& token : tokens) result += token;
  return result;
}

std::string mutate_bytes(const std::string& original, const std::string& other, Random& random) {
  std::string bytes = original;
  const size_t edits = 1 + below(random, 4);
  for (size_t i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = below(random, bytes.size()), size = std::min(1 + below(random, 16), bytes.size() - at);
    switch (below(random, 5)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.erase(at, size);
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(random, bytes.size()), size));
        break;
      default:
        if (!other.empty()) bytes.replace(at, size, other, below(random, other.size()), size);
    }
  }
  return bytes;
}

}  // namespace aipu::fuzz
