// Reading and writing the words that the text forms of graph IR and Dims are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/ir/dim.h"
#include "runtime/base/status.h"

namespace aipu::graph {

// A letter, '_' or '$', then letters, digits, '_' and '.'.
bool is_plain_word(std::string_view text);
// In double quotes, with \" \\ \n and \xHH for what is not printable.
std::string quoted(std::string_view text);

// Walks over a text; spaces, line ends and '#' comments separate and are skipped. Errors say the line. Never reads
// beyond the text.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  char peek();  // next character, '\0' at the end
  bool accept(char c);
  bool accept_word(std::string_view word);
  Status expect(char c);
  Status expect_word(std::string_view word);
  Status expect_end();

  bool peek_number();     // a digit, or '-' and a digit
  bool number_is_real();  // the number that comes next has a '.', an exponent, or is no finite number
  Result<int64_t> integer();
  Result<uint64_t> unsigned_integer();
  Result<double> number();                          // also inf, -inf, nan
  Result<std::string> string();                     // quoted
  Result<std::string> word(std::string_view what);  // plain word; `what` names what was expected
  std::string peek_word();                          // the plain word that comes next, or ""
  // Characters up to the next that is not a letter, digit or one of `also`.
  std::string run_of(std::string_view also);
  bool at_quote() const { return at_ < text_.size() && text_[at_] == '"'; }  // right here, without skipping
  void step_back() { --at_; }                                                // undoes one character of run_of()

  Status error(std::string_view what);

 private:
  void skip();
  std::string_view text_;
  size_t at_ = 0;
};

Result<Dim> read_dim(TextReader& reader);
Result<Shape> read_shape(TextReader& reader);

}  // namespace aipu::graph
