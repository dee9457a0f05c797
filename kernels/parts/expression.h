// Expressions of the kernel language as trees: built by operators and calls, printed as source for templates
// (dsl::TemplateParams::set_source).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace aipu::kernels {

class Expression {
 public:
  // No expression: an operand that is left out.
  Expression() = default;
  // A name, a literal: what stands as it is.
  static Expression atom(std::string text);
  // S.<function>(arguments). The function is a row of codegen/intrinsics, or S.cast.
  static Expression call(std::string_view function, std::vector<Expression> arguments);
  // A function of the template.
  static Expression call_own(std::string_view function, std::vector<Expression> arguments);
  static Expression binary(std::string_view symbol, Expression lhs, Expression rhs);

  explicit operator bool() const { return node_ != nullptr; }
  std::string text() const;
  // Whether something in it has the cost class of transcendental functions: many instructions.
  bool is_long() const;

 private:
  enum class Kind : uint8_t { kAtom, kIntrinsic, kCall, kBinary, kNot };
  struct Node {
    Kind kind;
    std::string symbol;
    std::vector<Expression> operands;
  };
  explicit Expression(Node node) : node_(std::make_shared<const Node>(std::move(node))) {}
  friend Expression operator~(Expression operand);

  std::shared_ptr<const Node> node_;
};

inline Expression operator+(Expression a, Expression b) { return Expression::binary("+", std::move(a), std::move(b)); }
inline Expression operator-(Expression a, Expression b) { return Expression::binary("-", std::move(a), std::move(b)); }
inline Expression operator*(Expression a, Expression b) { return Expression::binary("*", std::move(a), std::move(b)); }
inline Expression operator/(Expression a, Expression b) { return Expression::binary("/", std::move(a), std::move(b)); }
inline Expression operator&(Expression a, Expression b) { return Expression::binary("&", std::move(a), std::move(b)); }
inline Expression operator^(Expression a, Expression b) { return Expression::binary("^", std::move(a), std::move(b)); }
Expression operator~(Expression operand);

// A function of a template's parameter: statements, and what it returns.
struct ExpressionFunction {
  struct Statement {
    std::string variable;  // empty: a call for its effect
    Expression value;
  };
  std::vector<std::string> parameters;
  std::vector<Statement> statements;
  Expression result;

  // "def <name>(...): ..."
  std::string source(std::string_view name) const;
  bool is_long() const;
};

// The same of functions that are there as source.
bool is_long_source(std::string_view source);

}  // namespace aipu::kernels
