// The expression half of the parser: a cursor over tokens and the grammar of expressions. parser.cpp builds statements
// on it.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dsl/ast.h"
#include "kernels/dsl/diagnostics.h"
#include "kernels/dsl/lexer.h"

namespace aipu::dsl {

class ExpressionParser {
 public:
  // `nesting` and `fstring_nesting` are where the enclosing parser is, for an expression inside an f-string.
  ExpressionParser(const SourceFilePtr& file, std::vector<Token> tokens, Diagnostics& diagnostics, int nesting = 0,
                   size_t fstring_nesting = 0)
      : file_(file),
        tokens_(std::move(tokens)),
        diagnostics_(diagnostics),
        nesting_(nesting),
        fstring_nesting_(fstring_nesting) {}

  // All the tokens are one expression.
  ast::ExprPtr lone_expression();

 protected:
  // Counts the recursion of the parser itself.
  struct Nest {
    explicit Nest(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.fail("too deeply nested");
    }
    ~Nest() { --parser_.nesting_; }
    ExpressionParser& parser_;
  };
  static constexpr int kMaxNesting = 100;  // of brackets, blocks and prefix operators

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool at(TokenKind kind) const { return peek().kind == kind; }
  bool at_op(std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::kOperator && peek(ahead).text == text;
  }
  bool at_word(std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::kName && peek(ahead).text == text;
  }
  bool accept_op(std::string_view text);
  bool accept_word(std::string_view text);
  void expect_op(std::string_view text);
  void expect_word(std::string_view text);
  std::string identifier();
  bool ends_statement() const { return at(TokenKind::kNewline) || at(TokenKind::kEnd) || at_op(";"); }
  [[noreturn]] void fail(std::string_view text) { fail(peek().position, text); }
  [[noreturn]] void fail(Position position, std::string_view text);

  // "+" of "+=" or of a + b.
  static std::optional<ast::BinaryOp> binary_operator(std::string_view text);
  ast::ExprPtr expression();
  ast::ExprPtr expression_list();
  ast::ExprPtr named_expression();
  ast::ExprPtr target_list();
  void check_target(const ast::ExprPtr& target);
  ast::ExprPtr bitwise(int level);

  const SourceFilePtr& file_;
  std::vector<Token> tokens_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;

 private:
  template <typename T>
  ast::ExprPtr make(Position position, T node);
  bool starts_expression() const;
  ast::ExprPtr starred_or_expression();
  ast::ExprPtr lambda(Position here);
  ast::ExprPtr or_test();
  ast::ExprPtr and_test();
  ast::ExprPtr not_test();
  ast::ExprPtr comparison();
  ast::ExprPtr unary();
  ast::ExprPtr postfix();
  ast::ExprPtr subscript();
  ast::ExprPtr call(ast::ExprPtr callee, Position here);
  ast::ExprPtr comprehension(ast::ExprPtr element);
  ast::ExprPtr atom();
  ast::ExprPtr parenthesised(Position here);
  ast::ExprPtr list(Position here);
  ast::ExprPtr dict(Position here);
  ast::ExprPtr skip_braces(Position here, std::string node);
  ast::ExprPtr strings(Position here);
  void fstring(const Token& token, std::string* plain, ast::FString* node, const std::function<void(Position)>& flush);

  int nesting_;
  size_t fstring_nesting_;
};

}  // namespace aipu::dsl
