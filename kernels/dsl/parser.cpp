#include "kernels/dsl/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/dsl/lexer.h"

namespace aipu::dsl {
namespace {

using namespace ast;

constexpr int kMaxNesting = 100;   // of brackets, blocks and prefix operators: bounds the parser's own recursion
constexpr int kMaxDepth = 300;     // of an expression tree: bounds everybody else's
constexpr size_t kMaxFStringNesting = 3;

constexpr std::array<std::string_view, 33> kKeywords = {"False", "None",  "True",  "and",    "as",   "assert", "async", "await",    "break",  "class", "continue",
                                                        "def",   "del",   "elif",  "else",   "except", "finally", "for", "from",   "global", "if",    "import",
                                                        "in",    "is",    "lambda", "nonlocal", "not", "or",    "pass",  "raise",    "return", "try",   "while"};

bool is_keyword(std::string_view word) {
  return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end() || word == "with" || word == "yield";
}

struct BinaryLevel {
  std::string_view text;
  BinaryOp op;
  int level;
};
// Levels bind tighter as they grow; ** is apart (right associative, tighter than the unary operators on its left).
constexpr BinaryLevel kBinary[] = {{"|", BinaryOp::kBitOr, 0},  {"^", BinaryOp::kBitXor, 1},    {"&", BinaryOp::kBitAnd, 2}, {"<<", BinaryOp::kShl, 3},
                                   {">>", BinaryOp::kShr, 3},   {"+", BinaryOp::kAdd, 4},       {"-", BinaryOp::kSub, 4},    {"*", BinaryOp::kMul, 5},
                                   {"/", BinaryOp::kDiv, 5},    {"//", BinaryOp::kFloorDiv, 5}, {"%", BinaryOp::kMod, 5},    {"@", BinaryOp::kMatMul, 5}};
constexpr int kTightestLevel = 5;

int depth_of(const ExprPtr& e) { return e ? e->depth : 0; }

int node_depth(const auto& node) {
  using T = std::decay_t<decltype(node)>;
  int depth = 0;
  const auto see = [&](const ExprPtr& e) { depth = std::max(depth, depth_of(e)); };
  if constexpr (std::is_same_v<T, FString>) {
    for (const ExprPtr& e : node.parts) see(e);
  } else if constexpr (std::is_same_v<T, Attribute>) {
    see(node.object);
  } else if constexpr (std::is_same_v<T, Slice>) {
    see(node.lower), see(node.upper), see(node.step);
  } else if constexpr (std::is_same_v<T, Subscript>) {
    see(node.object);
    for (const ExprPtr& e : node.indices) see(e);
  } else if constexpr (std::is_same_v<T, Call>) {
    see(node.callee);
    for (const Argument& a : node.arguments) see(a.value);
  } else if constexpr (std::is_same_v<T, Unary>) {
    see(node.operand);
  } else if constexpr (std::is_same_v<T, Binary> || std::is_same_v<T, BoolOp>) {
    see(node.lhs), see(node.rhs);
  } else if constexpr (std::is_same_v<T, Compare>) {
    see(node.first);
    for (const auto& [op, e] : node.rest) see(e);
  } else if constexpr (std::is_same_v<T, Conditional>) {
    see(node.condition), see(node.if_true), see(node.if_false);
  } else if constexpr (std::is_same_v<T, ListDisplay> || std::is_same_v<T, TupleDisplay>) {
    for (const ExprPtr& e : node.elements) see(e);
  } else if constexpr (std::is_same_v<T, DictDisplay>) {
    for (const auto& [key, value] : node.items) see(key), see(value);
  } else if constexpr (std::is_same_v<T, Comprehension>) {
    see(node.element);
    for (const ComprehensionClause& c : node.clauses) {
      see(c.target), see(c.iterable);
      for (const ExprPtr& e : c.conditions) see(e);
    }
  } else if constexpr (std::is_same_v<T, Starred>) {
    see(node.value);
  }
  return depth + 1;
}

class Parser {
 public:
  Parser(const SourceFilePtr& file, std::vector<Token> tokens, Diagnostics& diagnostics, int nesting, size_t fstring_nesting)
      : file_(file), tokens_(std::move(tokens)), diagnostics_(diagnostics), nesting_(nesting), fstring_nesting_(fstring_nesting) {}

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

  ExprPtr lone_expression() {
    ExprPtr e = expression_list();
    if (!at(TokenKind::kEnd)) fail("invalid syntax in f-string expression");
    return e;
  }

 private:
  struct Nest {
    explicit Nest(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.fail("too deeply nested");
    }
    ~Nest() { --parser_.nesting_; }
    Parser& parser_;
  };

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool at(TokenKind kind) const { return peek().kind == kind; }
  bool at_op(std::string_view text, size_t ahead = 0) const { return peek(ahead).kind == TokenKind::kOperator && peek(ahead).text == text; }
  bool at_word(std::string_view text, size_t ahead = 0) const { return peek(ahead).kind == TokenKind::kName && peek(ahead).text == text; }
  bool accept_op(std::string_view text) {
    if (!at_op(text)) return false;
    ++at_;
    return true;
  }
  bool accept_word(std::string_view text) {
    if (!at_word(text)) return false;
    ++at_;
    return true;
  }
  void expect_op(std::string_view text) {
    if (!accept_op(text)) fail(fmt::format("invalid syntax: expected '{}'", text));
  }
  void expect_word(std::string_view text) {
    if (!accept_word(text)) fail(fmt::format("invalid syntax: expected '{}'", text));
  }
  std::string identifier() {
    if (!at(TokenKind::kName) || is_keyword(peek().text)) fail("invalid syntax: expected a name");
    return tokens_[at_++].text;
  }
  [[noreturn]] void fail(std::string_view text) { fail(peek().position, text); }
  [[noreturn]] void fail(Position position, std::string_view text) {
    diagnostics_.error(file_, position, text);
    throw Diagnosed{};
  }
  template <typename T>
  ExprPtr make(Position position, T node) {
    auto result = std::make_shared<Expr>();
    result->position = position;
    result->depth = node_depth(node);
    if (result->depth > kMaxDepth) fail(position, "expression too deep");
    result->node = std::move(node);
    return result;
  }
  template <typename T>
  void add(Body* body, Position position, T node) {
    body->push_back(std::make_shared<const Stmt>(Stmt{position, std::move(node)}));
  }

  // --- statements ---

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
      if (word == "async") return unsupported_compound(body, at_word("for", 1) ? "AsyncFor" : at_word("with", 1) ? "AsyncWith" : "AsyncFunctionDef", {"else"});
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
    if (next.kind == TokenKind::kOperator && next.text != "(" && next.text != "[" && next.text != "-" && next.text != "{") return false;
    if (next.kind == TokenKind::kNewline || next.kind == TokenKind::kEnd) return false;
    size_t i = at_;
    while (i < tokens_.size() && tokens_[i].kind != TokenKind::kNewline && tokens_[i].kind != TokenKind::kEnd) ++i;
    return i + 1 < tokens_.size() && tokens_[i - 1].kind == TokenKind::kOperator && tokens_[i - 1].text == ":" && tokens_[i + 1].kind == TokenKind::kIndent;
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
          {"assert", "Assert"}, {"raise", "Raise"}, {"del", "Delete"}, {"global", "Global"}, {"nonlocal", "Nonlocal"}, {"yield", "Yield"}, {"await", "Await"}};
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
    if (at(TokenKind::kOperator) && peek().text.size() >= 2 && peek().text.back() == '=' && peek().text != "==" && peek().text != "!=" &&
        peek().text != "<=" && peek().text != ">=" && peek().text != ":=") {
      const std::string text = peek().text.substr(0, peek().text.size() - 1);
      const Position op_position = peek().position;
      ++at_;
      BinaryOp op = BinaryOp::kPow;
      if (text != "**") {
        const auto* row = std::find_if(std::begin(kBinary), std::end(kBinary), [&](const BinaryLevel& b) { return b.text == text; });
        if (row == std::end(kBinary)) fail(op_position, "invalid syntax");
        op = row->op;
      }
      check_target(first);
      return add(body, here, AugAssign{std::move(first), op, expression_list()});
    }
    add(body, here, ExpressionStmt{std::move(first)});
  }

  bool ends_statement() const { return at(TokenKind::kNewline) || at(TokenKind::kEnd) || at_op(";"); }

  void check_target(const ExprPtr& target) {
    if (target->as<Name>() != nullptr || target->as<Subscript>() != nullptr || target->as<Attribute>() != nullptr) return;
    const std::vector<ExprPtr>* elements = nullptr;
    if (const auto* tuple = target->as<TupleDisplay>()) elements = &tuple->elements;
    if (const auto* list = target->as<ListDisplay>()) elements = &list->elements;
    if (elements == nullptr) fail(target->position, "cannot assign to this expression");
    for (const ExprPtr& e : *elements) check_target(e->as<Starred>() != nullptr ? e->as<Starred>()->value : e);
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
    if (at_word("class") || at_word("async")) return unsupported_compound(body, at_word("class") ? "ClassDef" : "AsyncFunctionDef", {});
    if (!at_word("def")) fail("invalid syntax: expected 'def'");
    function(body, std::move(decorators));
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
          if (other.name == p.name) fail(p.position, fmt::format("duplicate argument '{}' in function definition", p.name));
        }
        if (p.default_value == nullptr && p.stars == 0 && !star_seen && !def->parameters.empty() && def->parameters.back().default_value != nullptr) {
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

  // --- expressions ---

  ExprPtr target_list() {
    const Position here = peek().position;
    ExprPtr first = bitwise(0);
    check_target(first);
    if (!at_op(",")) return first;
    TupleDisplay tuple{{std::move(first)}};
    while (accept_op(",")) {
      if (at_word("in")) break;
      tuple.elements.push_back(bitwise(0));
      check_target(tuple.elements.back());
    }
    return make(here, std::move(tuple));
  }

  bool starts_expression() const {
    if (at(TokenKind::kOperator)) {
      const std::string& t = peek().text;
      return t == "(" || t == "[" || t == "{" || t == "-" || t == "+" || t == "~" || t == "*" || t == "...";
    }
    if (at(TokenKind::kName)) {
      const std::string& t = peek().text;
      return !is_keyword(t) || t == "True" || t == "False" || t == "None" || t == "not" || t == "lambda" || t == "await" || t == "yield";
    }
    return at(TokenKind::kInt) || at(TokenKind::kFloat) || at(TokenKind::kString) || at(TokenKind::kFString);
  }

  ExprPtr starred_or_expression() {
    const Position here = peek().position;
    if (accept_op("*")) return make(here, Starred{bitwise(0)});
    return named_expression();
  }

  // One expression, or a tuple without parentheses.
  ExprPtr expression_list() {
    const Position here = peek().position;
    ExprPtr first = starred_or_expression();
    if (!at_op(",")) return first;
    TupleDisplay tuple{{std::move(first)}};
    while (accept_op(",")) {
      if (!starts_expression()) break;
      tuple.elements.push_back(starred_or_expression());
    }
    return make(here, std::move(tuple));
  }

  ExprPtr named_expression() {
    const Position here = peek().position;
    ExprPtr e = expression();
    if (!accept_op(":=")) return e;
    expression();
    return make(here, UnsupportedExpr{"NamedExpr"});
  }

  ExprPtr expression() {
    const Nest nest(*this);
    const Position here = peek().position;
    if (at_word("lambda")) return lambda(here);
    ExprPtr e = or_test();
    if (!at_word("if")) return e;
    ++at_;
    Conditional node;
    node.if_true = std::move(e);
    node.condition = or_test();
    expect_word("else");
    node.if_false = expression();
    return make(here, std::move(node));
  }

  ExprPtr lambda(Position here) {
    ++at_;
    while (!at_op(":") && !ends_statement()) {
      if (at_op("=")) {
        ++at_;
        expression();
      } else {
        ++at_;
      }
    }
    expect_op(":");
    expression();
    return make(here, UnsupportedExpr{"Lambda"});
  }

  ExprPtr or_test() {
    const Position here = peek().position;
    ExprPtr e = and_test();
    while (accept_word("or")) e = make(here, BoolOp{false, e, and_test()});
    return e;
  }
  ExprPtr and_test() {
    const Position here = peek().position;
    ExprPtr e = not_test();
    while (accept_word("and")) e = make(here, BoolOp{true, e, not_test()});
    return e;
  }
  ExprPtr not_test() {
    const Position here = peek().position;
    if (!at_word("not")) return comparison();
    const Nest nest(*this);
    ++at_;
    return make(here, Unary{UnaryOp::kNot, not_test()});
  }

  ExprPtr comparison() {
    const Position here = peek().position;
    ExprPtr first = bitwise(0);
    Compare node;
    while (true) {
      static constexpr std::pair<std::string_view, CompareOp> kCompare[] = {{"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
                                                                            {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
      std::optional<CompareOp> op;
      if (at(TokenKind::kOperator)) {
        for (const auto& [text, candidate] : kCompare) {
          if (peek().text == text) op = candidate;
        }
        if (op) ++at_;
      } else if (accept_word("in")) {
        op = CompareOp::kIn;
      } else if (at_word("not") && at_word("in", 1)) {
        at_ += 2;
        op = CompareOp::kNotIn;
      } else if (accept_word("is")) {
        op = accept_word("not") ? CompareOp::kIsNot : CompareOp::kIs;
      }
      if (!op) break;
      node.rest.emplace_back(*op, bitwise(0));
    }
    if (node.rest.empty()) return first;
    node.first = std::move(first);
    return make(here, std::move(node));
  }

  ExprPtr bitwise(int level) {
    if (level > kTightestLevel) return unary();
    const Position here = peek().position;
    ExprPtr e = bitwise(level + 1);
    while (at(TokenKind::kOperator)) {
      const auto* row = std::find_if(std::begin(kBinary), std::end(kBinary), [&](const BinaryLevel& b) { return b.level == level && b.text == peek().text; });
      if (row == std::end(kBinary)) break;
      ++at_;
      e = make(here, Binary{row->op, e, bitwise(level + 1)});
    }
    return e;
  }

  ExprPtr unary() {
    const Position here = peek().position;
    if (at_op("-") || at_op("+") || at_op("~")) {
      const Nest nest(*this);
      const UnaryOp op = at_op("-") ? UnaryOp::kNegate : at_op("+") ? UnaryOp::kPlus : UnaryOp::kInvert;
      ++at_;
      return make(here, Unary{op, unary()});
    }
    ExprPtr e = postfix();
    if (!at_op("**")) return e;
    const Nest nest(*this);
    ++at_;
    return make(here, Binary{BinaryOp::kPow, std::move(e), unary()});
  }

  ExprPtr postfix() {
    const Position here = peek().position;
    ExprPtr e = atom();
    while (at(TokenKind::kOperator)) {
      if (accept_op(".")) {
        e = make(here, Attribute{e, identifier()});
      } else if (at_op("(")) {
        e = call(std::move(e), here);
      } else if (accept_op("[")) {
        Subscript node{e, {}, false};
        node.indices.push_back(subscript());
        while (accept_op(",")) {
          node.tuple_index = true;
          if (at_op("]")) break;
          node.indices.push_back(subscript());
        }
        expect_op("]");
        e = make(here, std::move(node));
      } else {
        break;
      }
    }
    return e;
  }

  ExprPtr subscript() {
    const Nest nest(*this);
    const Position here = peek().position;
    ExprPtr lower, upper, step;
    if (!at_op(":")) {
      lower = starred_or_expression();
      if (!at_op(":")) return lower;
    }
    expect_op(":");
    if (!at_op(":") && !at_op("]") && !at_op(",")) upper = expression();
    if (accept_op(":") && !at_op("]") && !at_op(",")) step = expression();
    return make(here, Slice{std::move(lower), std::move(upper), std::move(step)});
  }

  ExprPtr call(ExprPtr callee, Position here) {
    const Nest nest(*this);
    expect_op("(");
    Call node{std::move(callee), {}};
    while (!at_op(")")) {
      Argument argument;
      if (accept_op("**")) {
        argument.stars = 2;
        argument.value = expression();
      } else if (accept_op("*")) {
        argument.stars = 1;
        argument.value = expression();
      } else if (at(TokenKind::kName) && at_op("=", 1)) {
        argument.name = identifier();
        ++at_;
        argument.value = expression();
      } else {
        argument.value = named_expression();
        if (at_word("for")) argument.value = comprehension(std::move(argument.value));
      }
      node.arguments.push_back(std::move(argument));
      if (!accept_op(",")) break;
    }
    expect_op(")");
    return make(here, std::move(node));
  }

  ExprPtr comprehension(ExprPtr element) {
    const Position here = element->position;
    Comprehension node{std::move(element), {}};
    while (accept_word("for")) {
      ComprehensionClause clause;
      clause.target = target_list();
      expect_word("in");
      clause.iterable = or_test();
      while (accept_word("if")) clause.conditions.push_back(or_test());
      node.clauses.push_back(std::move(clause));
    }
    return make(here, std::move(node));
  }

  ExprPtr atom() {
    const Token& token = peek();
    const Position here = token.position;
    switch (token.kind) {
      case TokenKind::kInt:
        ++at_;
        return make(here, IntLiteral{token.integer});
      case TokenKind::kFloat:
        ++at_;
        return make(here, FloatLiteral{token.real});
      case TokenKind::kString:
      case TokenKind::kFString:
        return strings(here);
      case TokenKind::kName: {
        if (token.text == "True" || token.text == "False") return ++at_, make(here, BoolLiteral{token.text == "True"});
        if (token.text == "None") return ++at_, make(here, NoneLiteral{});
        if (token.text == "await" || token.text == "yield") fail(fmt::format("Visitor of AST node is not implemented: {}", token.text == "await" ? "Await" : "Yield"));
        return make(here, Name{identifier()});
      }
      case TokenKind::kOperator:
        if (token.text == "(") return parenthesised(here);
        if (token.text == "[") return list(here);
        if (token.text == "{") return dict(here);
        [[fallthrough]];
      default: fail("invalid syntax");
    }
  }

  ExprPtr parenthesised(Position here) {
    const Nest nest(*this);
    expect_op("(");
    TupleDisplay tuple;
    if (accept_op(")")) return make(here, std::move(tuple));
    ExprPtr first = starred_or_expression();
    if (at_word("for")) {
      ExprPtr e = comprehension(std::move(first));
      expect_op(")");
      return e;
    }
    if (!at_op(",")) {
      expect_op(")");
      return first;
    }
    tuple.elements.push_back(std::move(first));
    while (accept_op(",")) {
      if (at_op(")")) break;
      tuple.elements.push_back(starred_or_expression());
    }
    expect_op(")");
    return make(here, std::move(tuple));
  }

  ExprPtr list(Position here) {
    const Nest nest(*this);
    expect_op("[");
    ListDisplay node;
    while (!at_op("]")) {
      node.elements.push_back(starred_or_expression());
      if (node.elements.size() == 1 && at_word("for")) {
        ExprPtr e = comprehension(std::move(node.elements[0]));
        expect_op("]");
        return e;
      }
      if (!accept_op(",")) break;
    }
    expect_op("]");
    return make(here, std::move(node));
  }

  ExprPtr dict(Position here) {
    const Nest nest(*this);
    expect_op("{");
    DictDisplay node;
    while (!at_op("}")) {
      ExprPtr key = expression();
      if (!at_op(":")) fail("sets are not supported");
      ++at_;
      node.items.emplace_back(std::move(key), expression());
      if (at_word("for")) fail("dict comprehensions are not supported");
      if (!accept_op(",")) break;
    }
    expect_op("}");
    return make(here, std::move(node));
  }

  // Adjacent literals are one string.
  ExprPtr strings(Position here) {
    std::string plain;
    FString node;
    bool formatted = false;
    const auto flush = [&](Position position) {
      if (!plain.empty()) node.parts.push_back(make(position, StringLiteral{std::move(plain)}));
      plain.clear();
    };
    while (at(TokenKind::kString) || at(TokenKind::kFString)) {
      const Token& token = tokens_[at_++];
      if (token.kind == TokenKind::kString) {
        plain += token.text;
        continue;
      }
      formatted = true;
      fstring(token, &plain, &node, flush);
    }
    if (!formatted) return make(here, StringLiteral{std::move(plain)});
    flush(here);
    return make(here, std::move(node));
  }

  void fstring(const Token& token, std::string* plain, FString* node, const auto& flush) {
    const std::string& raw = token.text;
    std::string literal;
    const auto decode = [&] {
      if (token.integer != 0) {
        *plain += literal;
      } else if (!decode_escapes(literal, plain)) {
        fail(token.position, "invalid escape in string literal");
      }
      literal.clear();
    };
    for (size_t i = 0; i < raw.size(); ++i) {
      const char c = raw[i];
      if ((c == '{' || c == '}') && i + 1 < raw.size() && raw[i + 1] == c) {
        literal += c;
        ++i;
      } else if (c == '}') {
        fail(token.position, "f-string: single '}' is not allowed");
      } else if (c == '{') {
        decode();
        flush(token.position);
        int depth = 0;
        size_t end = i + 1;
        char quote = '\0';
        for (; end < raw.size(); ++end) {
          const char e = raw[end];
          if (quote != '\0') {
            if (e == quote) quote = '\0';
          } else if (e == '\'' || e == '"') {
            quote = e;
          } else if (e == '(' || e == '[' || e == '{') {
            ++depth;
          } else if ((e == ')' || e == ']') && depth > 0) {
            --depth;
          } else if (e == '}' && depth > 0) {
            --depth;
          } else if (depth == 0 && (e == '}' || e == ':' || (e == '!' && (end + 1 >= raw.size() || raw[end + 1] != '=')))) {
            break;
          }
        }
        if (end >= raw.size()) fail(token.position, "f-string: expecting '}'");
        if (raw[end] != '}') fail(token.position, "f-string: format specifications and conversions are not supported");
        if (fstring_nesting_ >= kMaxFStringNesting) fail(token.position, "f-string: nested too deeply");
        const std::string text = raw.substr(i + 1, end - i - 1);
        Parser nested(file_, tokenize(file_, text, token.position, true, diagnostics_), diagnostics_, nesting_, fstring_nesting_ + 1);
        node->parts.push_back(nested.lone_expression());
        i = end;
      } else {
        literal += c;
      }
    }
    decode();
  }

  const SourceFilePtr& file_;
  std::vector<Token> tokens_;
  Diagnostics& diagnostics_;
  int nesting_;
  size_t fstring_nesting_;
  size_t at_ = 0;
};

}  // namespace

ast::Module parse_source(const SourceFilePtr& file, Diagnostics& diagnostics) {
  return Parser(file, tokenize(file, file->text, {file->first_line, 1}, false, diagnostics), diagnostics, 0, 0).module();
}

}  // namespace aipu::dsl
