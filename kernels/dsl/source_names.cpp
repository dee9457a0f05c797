#include "kernels/dsl/source_names.h"

#include <algorithm>
#include <cctype>

#include "kernels/dsl/lexer.h"

namespace aipu::dsl {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The inside of an f-string is not tokens yet; its literal parts do no harm.
void add_words(std::string_view text, std::set<std::string, std::less<>>* names) {
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if(at, text.end(), is_word);
    at = std::find_if_not(begin, text.end(), is_word);
    if (begin != at) names->emplace(begin, at);
  }
}

}  // namespace

Result<SourceNames> names_in_source(std::string file, std::string text) {
  Diagnostics diagnostics;
  SourceNames found;
  try {
    const SourceFilePtr source = make_source_file(std::move(file), std::move(text), 1);
    const std::vector<Token> tokens = tokenize(source, source->text, {1, 1}, false, diagnostics);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const Token& token = tokens[i];
      if (token.kind == TokenKind::kFString) add_words(token.text, &found.names);
      if (token.kind != TokenKind::kName && token.kind != TokenKind::kString) continue;
      found.names.insert(token.text);
      if (token.kind == TokenKind::kName && token.text == "from" && i + 1 < tokens.size())
        found.imported_modules.insert(tokens[i + 1].text);
    }
  } catch (const Diagnosed&) {
    return diagnostics.status();
  }
  return found;
}

}  // namespace aipu::dsl
