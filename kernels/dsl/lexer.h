// Python tokens: indentation, line joining, numbers, strings, operators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/dsl/diagnostics.h"

namespace aipu::dsl {

enum class TokenKind : uint8_t { kName, kInt, kFloat, kString, kFString, kOperator, kNewline, kIndent, kDedent, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // a name, an operator, the decoded value of a string, the raw inside of an f-string
  Position position;
  int64_t integer = 0;
  double real = 0;
};

// The tokens of `text`, which starts at `start` in `file`. Reports the first error and throws Diagnosed. `nested`: an
// expression inside an f-string: no indentation, newlines are white space.
std::vector<Token> tokenize(const SourceFilePtr& file, std::string_view text, Position start, bool nested,
                            Diagnostics& diagnostics);

// Decodes backslash escapes; false on a malformed one.
bool decode_escapes(std::string_view raw, std::string* out);

}  // namespace aipu::dsl
