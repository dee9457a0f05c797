// The words of TIR text, for its parser. The first error is kept and stops everything: after it, peek() only sees the
// end of the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace aipu::tir {

class TextScanner {
 protected:
  explicit TextScanner(std::string_view text) : text_(text) {}

  bool ok() const { return error_.ok(); }
  void fail(std::string_view message);  // at the present place

  char peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }
  void skip_space();  // and comments
  // Accepting takes the space behind a token too.
  bool accept(std::string_view symbol);
  bool expect(std::string_view symbol);
  std::string_view peek_word() const;
  bool accept_word(std::string_view word);
  std::string_view word();
  std::string string();  // in quotes
  std::string name() { return peek() == '"' ? string() : std::string(word()); }
  int64_t integer();
  int64_t digits();  // an integer without the space after it

  static bool is_word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  std::string_view text_;
  size_t pos_ = 0;
  Status error_;
};

}  // namespace aipu::tir
