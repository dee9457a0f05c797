#include "codegen/tir/text_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/text.h"

namespace aipu::tir {

void TextScanner::fail(std::string_view message) {
  if (!ok()) return;
  int line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < pos_ && i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  }
  // Names in quotes may hold anything.
  error_ = invalid_model(fmt::format("TIR text:{}:{}: {}", line, pos_ - line_start + 1, printable(message)));
  pos_ = text_.size();
}

void TextScanner::skip_space() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == '/' && text_.substr(pos_, 2) == "//") {
      while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++pos_;
    } else {
      return;
    }
  }
}

bool TextScanner::accept(std::string_view symbol) {
  if (text_.substr(pos_, symbol.size()) != symbol) return false;
  pos_ += symbol.size();
  skip_space();
  return true;
}

bool TextScanner::expect(std::string_view symbol) {
  if (accept(symbol)) return true;
  fail(fmt::format("expected '{}'", symbol));
  return false;
}

std::string_view TextScanner::peek_word() const {
  size_t end = pos_;
  while (end < text_.size() && is_word_char(text_[end])) ++end;
  return text_.substr(pos_, end - pos_);
}

bool TextScanner::accept_word(std::string_view word) {
  if (peek_word() != word) return false;
  pos_ += word.size();
  skip_space();
  return true;
}

std::string_view TextScanner::word() {
  const std::string_view result = peek_word();
  if (result.empty()) {
    fail("expected a name");
    return {};
  }
  pos_ += result.size();
  skip_space();
  return result;
}

std::string TextScanner::string() {
  std::string out;
  if (peek() != '"') {
    fail("expected a string");
    return out;
  }
  ++pos_;
  while (ok()) {
    if (pos_ >= text_.size()) {
      fail("unterminated string");
      break;
    }
    char c = text_[pos_++];
    if (c == '"') break;
    if (c == '\\') {
      if (pos_ >= text_.size()) {
        fail("unterminated string");
        break;
      }
      c = peek();
      ++pos_;
      if (c == 'n') {
        c = '\n';
      } else if (c == 'x') {
        unsigned value = 0;
        const std::string_view digits = text_.substr(std::min(pos_, text_.size()), 2);
        if (digits.size() != 2 ||
            std::from_chars(digits.data(), digits.data() + 2, value, 16).ptr != digits.data() + 2) {
          fail("bad \\x escape");
          break;
        }
        pos_ += 2;
        c = static_cast<char>(value);
      } else if (c != '"' && c != '\\') {
        fail("bad escape in a string");
        break;
      }
    }
    out += c;
  }
  skip_space();
  return out;
}

int64_t TextScanner::integer() {
  const int64_t value = digits();
  skip_space();
  return value;
}

int64_t TextScanner::digits() {
  size_t end = pos_;
  if (peek() == '-') ++end;
  while (end < text_.size() && is_digit(text_[end])) ++end;
  int64_t value = 0;
  const auto [stop, code] = std::from_chars(text_.data() + pos_, text_.data() + end, value);
  if (code != std::errc() || stop != text_.data() + end) {
    fail("expected an integer of 64 bits");
    return 0;
  }
  pos_ = end;
  return value;
}

}  // namespace aipu::tir
