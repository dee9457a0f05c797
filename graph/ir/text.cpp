#include "graph/ir/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace aipu::graph {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_character(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

}  // namespace

bool is_plain_word(std::string_view text) {
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), is_word_character);
}

std::string quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

void TextReader::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

char TextReader::peek() {
  skip();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextReader::accept(char c) {
  if (peek() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

std::string TextReader::peek_word() {
  if (!is_letter(peek())) return {};
  size_t end = at_;
  while (end < text_.size() && is_word_character(text_[end])) ++end;
  return std::string(text_.substr(at_, end - at_));
}

bool TextReader::accept_word(std::string_view word) {
  if (peek_word() != word || word.empty()) return false;
  at_ += word.size();
  return true;
}

Status TextReader::expect(char c) {
  if (accept(c)) return {};
  return error(str_cat("expected '", c, "'"));
}

Status TextReader::expect_word(std::string_view word) {
  if (accept_word(word)) return {};
  return error(str_cat("expected '", word, "'"));
}

Status TextReader::expect_end() {
  if (peek() == '\0' && at_ >= text_.size()) return {};
  return error("expected the end of the text");
}

bool TextReader::peek_number() {
  const char c = peek();
  return is_digit(c) || (c == '-' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]));
}

bool TextReader::number_is_real() {
  skip();
  size_t end = at_ + (at_ < text_.size() && text_[at_] == '-' ? 1 : 0);
  while (end < text_.size() && is_digit(text_[end])) ++end;
  return end < text_.size() && (text_[end] == '.' || text_[end] == 'e' || text_[end] == 'i' || text_[end] == 'n');
}

namespace {

template <typename T>
Result<T> read_number(std::string_view text, size_t* at, TextReader* reader) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data() + *at, text.data() + text.size(), value);
  if (failure == std::errc::result_out_of_range) return reader->error("the number is out of range");
  if (failure != std::errc()) return reader->error("expected a number");
  *at = static_cast<size_t>(end - text.data());
  return value;
}

}  // namespace

Result<int64_t> TextReader::integer() {
  skip();
  return read_number<int64_t>(text_, &at_, this);
}

Result<uint64_t> TextReader::unsigned_integer() {
  skip();
  return read_number<uint64_t>(text_, &at_, this);
}

Result<double> TextReader::number() {
  skip();
  return read_number<double>(text_, &at_, this);
}

Result<std::string> TextReader::string() {
  AIPU_RETURN_IF_ERROR(expect('"'));
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\\') {
      if (at_ >= text_.size()) break;
      c = text_[at_++];
      if (c == 'n') {
        c = '\n';
      } else if (c == 'x') {
        unsigned byte = 0;
        const size_t end = std::min(at_ + 2, text_.size());
        const auto [stop, failure] = std::from_chars(text_.data() + at_, text_.data() + end, byte, 16);
        if (failure != std::errc() || stop != text_.data() + at_ + 2)
          return error("expected two hexadecimal digits after \\x");
        at_ += 2;
        c = static_cast<char>(byte);
      } else if (c != '"' && c != '\\') {
        return error(str_cat("unknown escape \\", c));
      }
    }
    out += c;
  }
  if (at_ >= text_.size()) return error("the quoted text does not end");
  ++at_;
  return out;
}

Result<std::string> TextReader::word(std::string_view what) {
  std::string result = peek_word();
  if (result.empty()) return error(str_cat("expected ", what));
  at_ += result.size();
  return result;
}

std::string TextReader::run_of(std::string_view also) {
  size_t end = at_;
  while (end < text_.size() &&
         (is_digit(text_[end]) || is_letter(text_[end]) || also.find(text_[end]) != std::string_view::npos))
    ++end;
  std::string result(text_.substr(at_, end - at_));
  at_ = end;
  return result;
}

Status TextReader::error(std::string_view what) {
  skip();
  const std::string_view before = text_.substr(0, at_);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  std::string found = "the end";
  if (at_ < text_.size()) {
    std::string_view rest = text_.substr(at_, 24);
    if (const size_t end = rest.find('\n'); end != std::string_view::npos) rest = rest.substr(0, end);
    found = quoted(rest);
  }
  return invalid_argument(str_cat("line ", line, ": ", what, ", found ", found));
}

}  // namespace aipu::graph
