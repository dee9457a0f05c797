#include "kernels/dsl/lambda_source.h"

#include <string>

namespace aipu::dsl {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80) != 0;
}

// Past the string or comment at `at`; `at` itself when there is neither.
size_t skip_text(std::string_view text, size_t at) {
  if (text[at] == '#') {
    const size_t end = text.find('\n', at);
    return end == std::string_view::npos ? text.size() : end;
  }
  if (text[at] != '"' && text[at] != '\'') return at;
  const std::string_view one = text.substr(at, 1);
  const bool triple = text.substr(at, 3) == std::string(3, one[0]);
  const std::string quote(triple ? 3 : 1, one[0]);
  for (size_t i = at + quote.size(); i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text.substr(i, quote.size()) == quote) {
      return i + quote.size();
    } else if (text[i] == '\n' && !triple) {
      return i;
    }
  }
  return text.size();
}

// Where the lambda that begins at `begin` ends: at a comma, closing bracket or line end that does not belong to it.
size_t lambda_end(std::string_view text, size_t begin) {
  int depth = 0, before_colon = 0;  // lambdas whose parameters are being listed
  for (size_t i = begin; i < text.size();) {
    if (const size_t next = skip_text(text, i); next != i) {
      i = next;
      continue;
    }
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (--depth < 0) return i;
    } else if (depth == 0) {
      if (c == '\n' || (c == ',' && before_colon == 0)) return i;
      if (c == ':' && before_colon-- == 0) return i;
      if (text.substr(i, 6) == "lambda" && (i == 0 || !is_word(text[i - 1])) &&
          (i + 6 >= text.size() || !is_word(text[i + 6]))) {
        ++before_colon;
        i += 6;
        continue;
      }
      if (text.substr(i, 4) == " for" && before_colon == 0 && i + 4 < text.size() && !is_word(text[i + 4])) return i;
      if (c == '\\' && text.substr(i + 1, 1) == "\n") ++i;
    }
    ++i;
  }
  return text.size();
}

}  // namespace

std::vector<LambdaText> find_lambdas(std::string_view text) {
  std::vector<LambdaText> found;
  int line = 0;
  size_t line_begin = 0;
  const auto advance = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      if (text[i] != '\n') continue;
      ++line;
      line_begin = i + 1;
    }
  };
  for (size_t i = 0; i < text.size();) {
    if (const size_t next = skip_text(text, i); next != i) {
      advance(i, next);
      i = next;
      continue;
    }
    if (is_word(text[i]) && (i == 0 || !is_word(text[i - 1]))) {
      size_t end = i;
      while (end < text.size() && is_word(text[end])) ++end;
      if (text.substr(i, end - i) == "lambda")
        found.push_back({i, lambda_end(text, i), line, static_cast<int>(i - line_begin) + 1});
      i = end;
      continue;
    }
    advance(i, i + 1);
    ++i;
  }
  return found;
}

}  // namespace aipu::dsl
