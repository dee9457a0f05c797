#include "kernels/dsl/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/expression_parser.h"

namespace aipu::dsl {
namespace {

using namespace ast;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Module module() {
    Module result{file_, {}};
    while (!at(TokenKind::kEnd)) {
      if (at(TokenKind::kNewline)) {
        ++at_;
        continue;
      }
      if (at(TokenKind::kIndent)) fail("unexpected indent");
      statement(&result.body);
    }
    return result;
  }

 private:
  template <typename T>
  void add(Body* body, Position position, T node) {
    body->push_back(std::make_shared<const Stmt>(Stmt{position, std::move(node)}));
  }

  void statement(Body* body) {
    const Nest nest(*this);
    const Position here = peek().position;
    if (at_op("@")) return decorated(body);
    if (at(TokenKind::kName)) {
      const std::string& word = peek().text;
      if (word == "def") return function(body, {});
      if (word == "if") return if_statement(body);
      if (word == "for") return for_statement(body);
      if (word == "while") return while_statement(body);
      if (word == "with") return with_statement(body);
      if (word == "try") return unsupported_compound(body, "Try", {"except", "else", "finally"});
      if (word == "class") return unsupported_compound(body, "ClassDef", {});
      if (word == "async")
        return unsupported_compound(body,
                                    at_word("for", 1)    ? "AsyncFor"
                                    : at_word("with", 1) ? "AsyncWith"
                                                         : "AsyncFunctionDef",
                                    {"else"});
      if (word == "match" && starts_match()) return unsupported_compound(body, "Match", {});
    }
    simple_statement(body, here);
    while (accept_op(";")) {
      if (at(TokenKind::kNewline) || at(TokenKind::kEnd)) break;
      simple_statement(body, peek().position);
    }
    if (!at(TokenKind::kEnd)) {
      if (!at(TokenKind::kNewline)) fail("invalid syntax");
      ++at_;
    }
  }

  // `match x:` is a statement only when its line ends in a colon and an indented block follows.
  bool starts_match() const {
    const Token& next = peek(1);
    if (next.kind == TokenKind::kOperator && next.text != "(" && next.text != "[" && next.text != "-" &&
        next.text != "{")
      return false;
    if (next.kind == TokenKind::kNewline || next.kind == TokenKind::kEnd) return false;
    size_t i = at_;
    while (i < tokens_.size() && tokens_[i].kind != TokenKind::kNewline && tokens_[i].kind != TokenKind::kEnd) ++i;
    return i + 1 < tokens_.size() && tokens_[i - 1].kind == TokenKind::kOperator && tokens_[i - 1].text == ":" &&
           tokens_[i + 1].kind == TokenKind::kIndent;
  }

  // A statement that kernels cannot use is skipped whole; whoever visits it reports it by name.
  void unsupported_compound(Body* body, std::string node, std::vector<std::string_view> followers) {
    const Position here = peek().position;
    do {
      while (!at(TokenKind::kNewline) && !at(TokenKind::kEnd)) ++at_;
      if (at(TokenKind::kNewline)) ++at_;
      if (at(TokenKind::kIndent)) {
        int depth = 0;
        do {
          depth += at(TokenKind::kIndent) ? 1 : at(TokenKind::kDedent) ? -1 : 0;
          ++at_;
        } while (depth > 0 && !at(TokenKind::kEnd));
      }
    } while (at(TokenKind::kName) && std::find(followers.begin(), followers.end(), peek().text) != followers.end());
    add(body, here, UnsupportedStmt{std::move(node)});
  }

  void simple_statement(Body* body, Position here) {
    if (at(TokenKind::kName)) {
      const std::string word = peek().text;
      if (word == "pass") return ++at_, add(body, here, Pass{});
      if (word == "break") return ++at_, add(body, here, Break{});
      if (word == "continue") return ++at_, add(body, here, UnsupportedStmt{"Continue"});
      if (word == "return") {
        ++at_;
        return add(body, here, Return{ends_statement() ? nullptr : expression_list()});
      }
      if (word == "import" || word == "from") return import_statement(body, here);
      static constexpr std::pair<std::string_view, std::string_view> kUnsupported[] = {
          {"assert", "Assert"}, {"raise", "Raise"}, {"del", "Delete"}, {"global", "Global"}, {"nonlocal", "Nonlocal"}};
      for (const auto& [keyword, node] : kUnsupported) {
        if (word != keyword) continue;
        while (!ends_statement()) ++at_;
        return add(body, here, UnsupportedStmt{std::string(node)});
      }
    }
    ExprPtr first = expression_list();
    if (accept_op(":")) {
      ExprPtr annotation = expression();
      ExprPtr value = accept_op("=") ? expression_list() : nullptr;
      return add(body, here, AnnAssign{std::move(first), std::move(annotation), std::move(value)});
    }
    if (at_op("=")) {
      std::vector<ExprPtr> chain = {std::move(first)};
      while (accept_op("=")) chain.push_back(expression_list());
      ExprPtr value = std::move(chain.back());
      chain.pop_back();
      for (const ExprPtr& target : chain) check_target(target);
      return add(body, here, Assign{std::move(chain), std::move(value)});
    }
    if (at(TokenKind::kOperator) && peek().text.size() >= 2 && peek().text.back() == '=' && peek().text != "==" &&
        peek().text != "!=" && peek().text != "<=" && peek().text != ">=" && peek().text != ":=") {
      const std::string text = peek().text.substr(0, peek().text.size() - 1);
      const Position op_position = peek().position;
      ++at_;
      const std::optional<BinaryOp> op = binary_operator(text);
      if (!op) fail(op_position, "invalid syntax");
      check_target(first);
      return add(body, here, AugAssign{std::move(first), *op, expression_list()});
    }
    add(body, here, ExpressionStmt{std::move(first)});
  }

  std::string dotted_name() {
    std::string name = identifier();
    while (accept_op(".")) name += "." + identifier();
    return name;
  }

  void import_statement(Body* body, Position here) {
    Import node;
    const auto alias = [&](std::string name, const std::string& fallback) {
      std::string as = accept_word("as") ? identifier() : fallback;
      node.names.emplace_back(std::move(name), std::move(as));
    };
    if (accept_word("import")) {
      do {
        const std::string name = dotted_name();
        alias(name, name.substr(0, name.find('.')));
      } while (accept_op(","));
    } else {
      expect_word("from");
      std::string module;
      while (at_op(".") || at_op("...")) ++at_;
      if (!at_word("import")) module = dotted_name();
      expect_word("import");
      if (!accept_op("*")) {
        const bool parenthesised = accept_op("(");
        do {
          if (parenthesised && at_op(")")) break;
          const std::string name = identifier();
          alias(module + "." + name, name);
        } while (accept_op(","));
        if (parenthesised) expect_op(")");
      }
    }
    add(body, here, std::move(node));
  }

  Body block() {
    expect_op(":");
    Body body;
    if (!at(TokenKind::kNewline)) {
      statement(&body);
      return body;
    }
    ++at_;
    if (!at(TokenKind::kIndent)) fail("expected an indented block");
    ++at_;
    while (!at(TokenKind::kDedent) && !at(TokenKind::kEnd)) {
      if (at(TokenKind::kIndent)) fail("unexpected indent");
      statement(&body);
    }
    if (at(TokenKind::kDedent)) ++at_;
    return body;
  }

  void decorated(Body* body) {
    std::vector<ExprPtr> decorators;
    while (accept_op("@")) {
      decorators.push_back(expression());
      if (!at(TokenKind::kNewline)) fail("invalid syntax");
      ++at_;
    }
    if (at_word("class") && (is_decorated(decorators, "record") || is_decorated(decorators, "register_plugin")))
      return class_definition(body, is_decorated(decorators, "record"));
    if (at_word("class") || at_word("async"))
      return unsupported_compound(body, at_word("class") ? "ClassDef" : "AsyncFunctionDef", {});
    if (!at_word("def")) fail("invalid syntax: expected 'def'");
    function(body, std::move(decorators));
  }

  // By `name`, `module.name` or a call of one.
  static bool is_decorated(const std::vector<ExprPtr>& decorators, std::string_view name) {
    return std::any_of(decorators.begin(), decorators.end(), [&](const ExprPtr& decorator) {
      const auto* call = decorator->as<Call>();
      const Expr& called = call != nullptr ? *call->callee : *decorator;
      const auto* attribute = called.as<Attribute>();
      const auto* plain = called.as<Name>();
      return attribute != nullptr ? attribute->name == name : plain != nullptr && plain->id == name;
    });
  }

  void class_definition(Body* body, bool is_record) {
    const Position here = peek().position;
    expect_word("class");
    auto definition = std::make_shared<ClassDef>();
    definition->is_record = is_record;
    definition->position = peek().position;
    definition->name = identifier();
    definition->file = file_;
    if (accept_op("(")) {
      while (!at_op(")")) {
        definition->has_bases = true;
        expression();
        if (!accept_op(",")) break;
      }
      expect_op(")");
    }
    definition->body = block();
    add(body, here, Class{std::move(definition)});
  }

  void function(Body* body, std::vector<ExprPtr> decorators) {
    const Position here = peek().position;
    expect_word("def");
    auto def = std::make_shared<FunctionDef>();
    def->position = peek().position;
    def->name = identifier();
    def->file = file_;
    def->decorators = std::move(decorators);
    expect_op("(");
    bool star_seen = false;
    while (!at_op(")")) {
      if (accept_op("/")) {
        // Positional-only parameters: all calls in kernels resolve by name anyway.
      } else if (at_op("*") && at_op(",", 1)) {
        ++at_;
        star_seen = true;
      } else {
        Parameter p;
        p.stars = accept_op("**") ? 2 : accept_op("*") ? 1 : 0;
        p.position = peek().position;
        p.name = identifier();
        if (accept_op(":")) p.annotation = expression();
        if (accept_op("=")) p.default_value = expression();
        for (const Parameter& other : def->parameters) {
          if (other.name == p.name)
            fail(p.position, fmt::format("duplicate argument '{}' in function definition", p.name));
        }
        if (p.default_value == nullptr && p.stars == 0 && !star_seen && !def->parameters.empty() &&
            def->parameters.back().default_value != nullptr) {
          fail(p.position, "parameter without a default follows parameter with a default");
        }
        star_seen = star_seen || p.stars != 0;
        def->parameters.push_back(std::move(p));
      }
      if (!accept_op(",")) break;
    }
    expect_op(")");
    if (accept_op("->")) def->returns = expression();
    def->body = block();
    add(body, here, Function{std::move(def)});
  }

  void if_statement(Body* body) {
    const Nest nest(*this);
    const Position here = peek().position;
    ++at_;
    If node;
    node.condition = named_expression();
    node.then_body = block();
    if (at_word("elif")) {
      if_statement(&node.else_body);
    } else if (accept_word("else")) {
      node.else_body = block();
    }
    add(body, here, std::move(node));
  }

  void for_statement(Body* body) {
    const Position here = peek().position;
    ++at_;
    For node;
    node.target = target_list();
    expect_word("in");
    node.iterable = expression_list();
    node.body = block();
    if (accept_word("else")) node.else_body = block();
    add(body, here, std::move(node));
  }

  void while_statement(Body* body) {
    const Position here = peek().position;
    ++at_;
    While node;
    node.condition = named_expression();
    node.body = block();
    if (accept_word("else")) node.else_body = block();
    add(body, here, std::move(node));
  }

  void with_statement(Body* body) {
    const Position here = peek().position;
    ++at_;
    With node;
    do {
      ExprPtr context = expression();
      node.items.emplace_back(std::move(context), accept_word("as") ? bitwise(0) : nullptr);
    } while (accept_op(","));
    node.body = block();
    add(body, here, std::move(node));
  }
};

}  // namespace

ast::ExprPtr parse_expression(const SourceFilePtr& file, std::string_view text, Position start,
                              Diagnostics& diagnostics) {
  return ExpressionParser(file, tokenize(file, text, start, true, diagnostics), diagnostics).lone_expression();
}

ast::Module parse_source(const SourceFilePtr& file, Diagnostics& diagnostics) {
  return Parser(file, tokenize(file, file->text, {file->first_line, 1}, false, diagnostics), diagnostics).module();
}

}  // namespace aipu::dsl
