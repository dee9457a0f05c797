#include "kernels/dsl/lexer.h"

#include <fmt/format.h>

#include <charconv>

namespace aipu::dsl {
namespace {

constexpr int kTabWidth = 8;

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (static_cast<unsigned char>(c) & 0x80) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

void append_utf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xC0 | (code >> 6));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out += static_cast<char>(0xE0 | (code >> 12));
    *out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | (code >> 18));
    *out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    *out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

class Lexer {
 public:
  Lexer(const SourceFilePtr& file, std::string_view text, Position start, bool nested, Diagnostics& diagnostics)
      : file_(file),
        text_(text),
        nested_(nested),
        diagnostics_(diagnostics),
        line_(start.line),
        line_begin_(1 - start.column) {}

  std::vector<Token> run() {
    bool at_line_start = !nested_;
    while (true) {
      if (at_line_start) {
        at_line_start = false;
        if (!indentation()) {
          at_line_start = true;
          continue;
        }
      }
      skip_blanks();
      if (done()) break;
      const char c = peek();
      if (c == '#') {
        while (!done() && peek() != '\n') ++at_;
        continue;
      }
      if (c == '\n') {
        const Position here = position();
        newline();
        if (!nested_ && brackets_.empty()) {
          tokens_.push_back({TokenKind::kNewline, "", here});
          at_line_start = true;
        }
        continue;
      }
      if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        at_ += peek(1) == '\r' ? 2 : 1;
        newline();
        continue;
      }
      token();
    }
    if (!brackets_.empty()) fail(brackets_.back().second, fmt::format("'{}' was never closed", brackets_.back().first));
    if (!nested_) {
      if (!tokens_.empty() && tokens_.back().kind != TokenKind::kNewline && tokens_.back().kind != TokenKind::kDedent) {
        tokens_.push_back({TokenKind::kNewline, "", position()});
      }
      for (; indents_.size() > 1; indents_.pop_back()) tokens_.push_back({TokenKind::kDedent, "", position()});
    }
    tokens_.push_back({TokenKind::kEnd, "", position()});
    return std::move(tokens_);
  }

 private:
  bool done() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  Position position() const { return {line_, static_cast<int>(static_cast<ptrdiff_t>(at_) - line_begin_) + 1}; }
  [[noreturn]] void fail(Position where, const std::string& text) {
    diagnostics_.error(file_, where, text);
    throw Diagnosed{};
  }
  void newline() {
    ++at_;
    ++line_;
    line_begin_ = static_cast<ptrdiff_t>(at_);
  }
  void skip_blanks() {
    while (!done() && (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\f')) ++at_;
  }

  // Measures the indentation of a logical line and emits indents and dedents; false for a line without code, which has
  // been skipped.
  bool indentation() {
    int width = 0;
    for (; !done(); ++at_) {
      if (peek() == ' ') {
        ++width;
      } else if (peek() == '\t') {
        width = (width / kTabWidth + 1) * kTabWidth;
      } else if (peek() != '\r' && peek() != '\f') {
        break;
      }
    }
    if (done()) return true;
    if (peek() == '\n') {
      newline();
      return false;
    }
    if (peek() == '#') {
      while (!done() && peek() != '\n') ++at_;
      if (!done()) newline();
      return done();
    }
    if (!base_known_) {
      // A function cut out of a class or another function starts indented.
      base_known_ = true;
      indents_.front() = width;
    }
    if (width > indents_.back()) {
      if (indents_.size() > 100) fail(position(), "too many levels of indentation");
      indents_.push_back(width);
      tokens_.push_back({TokenKind::kIndent, "", position()});
    }
    while (width < indents_.back()) {
      if (indents_.size() == 1) fail(position(), "unindent does not match any outer indentation level");
      indents_.pop_back();
      tokens_.push_back({TokenKind::kDedent, "", position()});
      if (width > indents_.back()) fail(position(), "unindent does not match any outer indentation level");
    }
    return true;
  }

  void token() {
    const char c = peek();
    const Position where = position();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number(where);
    if (is_name_start(c)) {
      size_t end = at_;
      while (end < text_.size() && is_name_part(text_[end])) ++end;
      const std::string_view word = text_.substr(at_, end - at_);
      const char next = end < text_.size() ? text_[end] : '\0';
      if (word.size() <= 2 && (next == '"' || next == '\'')) {
        bool raw = false, formatted = false, known = true;
        for (const char p : word) {
          if (p == 'r' || p == 'R')
            raw = true;
          else if (p == 'f' || p == 'F')
            formatted = true;
          else if (p != 'u' && p != 'U')
            known = false;
        }
        if (!known) fail(where, fmt::format("string prefix '{}' is not supported", word));
        at_ = end;
        return string(where, raw, formatted);
      }
      tokens_.push_back({TokenKind::kName, std::string(word), where});
      at_ = end;
      return;
    }
    if (c == '"' || c == '\'') return string(where, false, false);
    static constexpr std::string_view kOperators[] = {
        "**=", "//=", "<<=", ">>=", "...", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "->", "+=", "-=",
        "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", ":=", "+",  "-",  "*",  "/",  "%",  "@",  "&",  "|",
        "^",   "~",   "<",   ">",   "(",   ")",  "[",  "]",  "{",  "}",  ",",  ":",  ".",  ";",  "="};
    for (const std::string_view op : kOperators) {
      if (text_.substr(at_, op.size()) != op) continue;
      brackets(op[0], where);
      tokens_.push_back({TokenKind::kOperator, std::string(op), where});
      at_ += op.size();
      return;
    }
    const auto byte = static_cast<unsigned char>(c);
    fail(where, byte >= 0x20 && byte < 0x7f ? fmt::format("invalid character '{}'", c)
                                            : fmt::format("invalid character (byte 0x{:02x})", byte));
  }

  void brackets(char c, Position where) {
    if (c == '(' || c == '[' || c == '{') {
      brackets_.emplace_back(c, where);
    } else if (c == ')' || c == ']' || c == '}') {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets_.empty()) fail(where, fmt::format("unmatched '{}'", c));
      if (brackets_.back().first != open)
        fail(where, fmt::format("closing '{}' does not match opening '{}'", c, brackets_.back().first));
      brackets_.pop_back();
    }
  }

  void number(Position where) {
    size_t end = at_;
    bool real = false;
    std::string digits;
    int base = 10;
    if (peek() == '0' &&
        (peek(1) == 'x' || peek(1) == 'X' || peek(1) == 'b' || peek(1) == 'B' || peek(1) == 'o' || peek(1) == 'O')) {
      const char kind = static_cast<char>(peek(1) | 0x20);
      base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
      end += 2;
      for (; end < text_.size() && (is_name_part(text_[end])); ++end) {
        if (text_[end] != '_') digits += text_[end];
      }
    } else {
      const auto take_digits = [&] {
        for (; end < text_.size() && (is_digit(text_[end]) || text_[end] == '_'); ++end) {
          if (text_[end] != '_') digits += text_[end];
        }
      };
      take_digits();
      if (end < text_.size() && text_[end] == '.') {
        real = true;
        digits += '.';
        ++end;
        take_digits();
      }
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
        if (exponent < text_.size() && is_digit(text_[exponent])) {
          real = true;
          digits.append(text_.substr(end, exponent - end));
          end = exponent;
          take_digits();
        }
      }
    }
    if (end < text_.size() && is_name_part(text_[end])) fail(where, "invalid number");
    Token token{real ? TokenKind::kFloat : TokenKind::kInt, std::string(text_.substr(at_, end - at_)), where};
    const char* first = digits.data();
    const char* last = first + digits.size();
    if (real) {
      const auto [stop, error] = std::from_chars(first, last, token.real);
      if (stop != last || error == std::errc::invalid_argument) fail(where, "invalid number");
      if (error == std::errc::result_out_of_range) fail(where, "floating literal out of range");
    } else {
      const auto [stop, error] = std::from_chars(first, last, token.integer, base);
      if (error == std::errc::result_out_of_range) fail(where, "integer literal does not fit 64 bits");
      if (error != std::errc() || stop != last) fail(where, "invalid number");
      if (base == 10 && digits.size() > 1 && digits[0] == '0' && token.integer != 0)
        fail(where, "leading zeros in decimal integer literals are not permitted");
    }
    at_ = end;
    tokens_.push_back(std::move(token));
  }

  void string(Position where, bool raw, bool formatted) {
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    std::string body;
    while (true) {
      if (done() || (!triple && peek() == '\n')) fail(where, "unterminated string literal");
      if (peek() == quote && (!triple || (peek(1) == quote && peek(2) == quote))) break;
      if (peek() == '\\') {
        body += peek();
        ++at_;
        if (done()) fail(where, "unterminated string literal");
      }
      body += peek();
      if (peek() == '\n')
        newline();
      else
        ++at_;
    }
    at_ += triple ? 3 : 1;
    Token token{formatted ? TokenKind::kFString : TokenKind::kString, "", where};
    // An f-string's escapes are decoded part by part by the parser; `integer` tells whether it is raw, `real` how far
    // its body is from its start.
    if (formatted) {
      token.text = std::move(body);
      token.integer = raw ? 1 : 0;
    } else if (raw) {
      token.text = std::move(body);
    } else if (!decode_escapes(body, &token.text)) {
      fail(where, "invalid escape in string literal");
    }
    tokens_.push_back(std::move(token));
  }

  const SourceFilePtr& file_;
  std::string_view text_;
  bool nested_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  int line_;
  ptrdiff_t line_begin_;  // offset of the current line's first column; negative when `text` starts inside a line
  bool base_known_ = false;
  std::vector<int> indents_ = {0};
  std::vector<std::pair<char, Position>> brackets_;
  std::vector<Token> tokens_;
};

}  // namespace

bool decode_escapes(std::string_view raw, std::string* out) {
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      *out += raw[i];
      continue;
    }
    if (++i == raw.size()) return false;
    const char c = raw[i];
    const auto hex = [&](size_t count) -> bool {
      if (i + count >= raw.size()) return false;
      uint32_t code = 0;
      const char* first = raw.data() + i + 1;
      const auto [stop, error] = std::from_chars(first, first + count, code, 16);
      if (error != std::errc() || stop != first + count || code > 0x10FFFF) return false;
      append_utf8(code, out);
      i += count;
      return true;
    };
    switch (c) {
      case '\n':
        break;
      case '\\':
      case '\'':
      case '"':
        *out += c;
        break;
      case 'n':
        *out += '\n';
        break;
      case 't':
        *out += '\t';
        break;
      case 'r':
        *out += '\r';
        break;
      case 'a':
        *out += '\a';
        break;
      case 'b':
        *out += '\b';
        break;
      case 'f':
        *out += '\f';
        break;
      case 'v':
        *out += '\v';
        break;
      case 'x':
        if (!hex(2)) return false;
        break;
      case 'u':
        if (!hex(4)) return false;
        break;
      case 'U':
        if (!hex(8)) return false;
        break;
      default:
        if (c >= '0' && c <= '7') {
          uint32_t code = 0;
          size_t digits = 0;
          for (; digits < 3 && i + digits < raw.size() && raw[i + digits] >= '0' && raw[i + digits] <= '7'; ++digits) {
            code = code * 8 + static_cast<uint32_t>(raw[i + digits] - '0');
          }
          append_utf8(code, out);
          i += digits - 1;
        } else {
          *out += '\\';
          *out += c;
        }
    }
  }
  return true;
}

std::vector<Token> tokenize(const SourceFilePtr& file, std::string_view text, Position start, bool nested,
                            Diagnostics& diagnostics) {
  return Lexer(file, text, start, nested, diagnostics).run();
}

}  // namespace aipu::dsl
