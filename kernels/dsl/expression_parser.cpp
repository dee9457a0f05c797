#include "kernels/dsl/expression_parser.h"

#include <fmt/format.h>

#include <array>

namespace aipu::dsl {

using namespace ast;

namespace {

constexpr int kMaxDepth = 300;  // of an expression tree: bounds the recursion of everybody behind the parser
constexpr size_t kMaxFStringNesting = 3;

constexpr std::array<std::string_view, 33> kKeywords = {
    "False", "None", "True",   "and",      "as",     "assert",  "async", "await", "break",  "class", "continue",
    "def",   "del",  "elif",   "else",     "except", "finally", "for",   "from",  "global", "if",    "import",
    "in",    "is",   "lambda", "nonlocal", "not",    "or",      "pass",  "raise", "return", "try",   "while"};

bool is_keyword(std::string_view word) {
  return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end() || word == "with" || word == "yield";
}

struct BinaryLevel {
  std::string_view text;
  BinaryOp op;
  int level;
};
// Levels bind tighter as they grow; ** is apart (right associative, tighter than the unary operators on its left).
constexpr BinaryLevel kBinary[] = {
    {"|", BinaryOp::kBitOr, 0},     {"^", BinaryOp::kBitXor, 1}, {"&", BinaryOp::kBitAnd, 2},
    {"<<", BinaryOp::kShl, 3},      {">>", BinaryOp::kShr, 3},   {"+", BinaryOp::kAdd, 4},
    {"-", BinaryOp::kSub, 4},       {"*", BinaryOp::kMul, 5},    {"/", BinaryOp::kDiv, 5},
    {"//", BinaryOp::kFloorDiv, 5}, {"%", BinaryOp::kMod, 5},    {"@", BinaryOp::kMatMul, 5}};
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
  } else if constexpr (std::is_same_v<T, Lambda>) {
    see(node.function->body[0]->template as<Return>()->value);
    for (const Parameter& p : node.function->parameters) see(p.default_value);
  }
  return depth + 1;
}

}  // namespace

bool ExpressionParser::accept_op(std::string_view text) {
  if (!at_op(text)) return false;
  ++at_;
  return true;
}

bool ExpressionParser::accept_word(std::string_view text) {
  if (!at_word(text)) return false;
  ++at_;
  return true;
}

void ExpressionParser::expect_op(std::string_view text) {
  if (!accept_op(text)) fail(fmt::format("invalid syntax: expected '{}'", text));
}

void ExpressionParser::expect_word(std::string_view text) {
  if (!accept_word(text)) fail(fmt::format("invalid syntax: expected '{}'", text));
}

std::string ExpressionParser::identifier() {
  if (!at(TokenKind::kName) || is_keyword(peek().text)) fail("invalid syntax: expected a name");
  return tokens_[at_++].text;
}

void ExpressionParser::fail(Position position, std::string_view text) {
  diagnostics_.error(file_, position, text);
  throw Diagnosed{};
}

std::optional<BinaryOp> ExpressionParser::binary_operator(std::string_view text) {
  if (text == "**") return BinaryOp::kPow;
  for (const BinaryLevel& row : kBinary) {
    if (row.text == text) return row.op;
  }
  return std::nullopt;
}

template <typename T>
ExprPtr ExpressionParser::make(Position position, T node) {
  auto result = std::make_shared<Expr>();
  result->position = position;
  result->depth = node_depth(node);
  if (result->depth > kMaxDepth) fail(position, "expression too deep");
  result->node = std::move(node);
  return result;
}

ExprPtr ExpressionParser::lone_expression() {
  ExprPtr e = expression_list();
  if (!at(TokenKind::kEnd)) fail("invalid syntax in f-string expression");
  return e;
}

void ExpressionParser::check_target(const ExprPtr& target) {
  if (target->as<Name>() != nullptr || target->as<Subscript>() != nullptr || target->as<Attribute>() != nullptr) return;
  const std::vector<ExprPtr>* elements = nullptr;
  if (const auto* tuple = target->as<TupleDisplay>()) elements = &tuple->elements;
  if (const auto* list = target->as<ListDisplay>()) elements = &list->elements;
  if (elements == nullptr) fail(target->position, "cannot assign to this expression");
  for (const ExprPtr& e : *elements) check_target(e->as<Starred>() != nullptr ? e->as<Starred>()->value : e);
}

ExprPtr ExpressionParser::target_list() {
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

bool ExpressionParser::starts_expression() const {
  if (at(TokenKind::kOperator)) {
    const std::string& t = peek().text;
    return t == "(" || t == "[" || t == "{" || t == "-" || t == "+" || t == "~" || t == "*" || t == "...";
  }
  if (at(TokenKind::kName)) {
    const std::string& t = peek().text;
    return !is_keyword(t) || t == "True" || t == "False" || t == "None" || t == "not" || t == "lambda" ||
           t == "await" || t == "yield";
  }
  return at(TokenKind::kInt) || at(TokenKind::kFloat) || at(TokenKind::kString) || at(TokenKind::kFString);
}

ExprPtr ExpressionParser::starred_or_expression() {
  const Position here = peek().position;
  if (accept_op("*")) return make(here, Starred{bitwise(0)});
  return named_expression();
}

// One expression, or a tuple without parentheses.
ExprPtr ExpressionParser::expression_list() {
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

ExprPtr ExpressionParser::named_expression() {
  const Position here = peek().position;
  ExprPtr e = expression();
  if (!accept_op(":=")) return e;
  expression();
  return make(here, UnsupportedExpr{"NamedExpr"});
}

ExprPtr ExpressionParser::expression() {
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

ExprPtr ExpressionParser::lambda(Position here) {
  ++at_;
  auto def = std::make_shared<FunctionDef>();
  def->name = "<lambda>";
  def->position = here;
  def->file = file_;
  while (!at_op(":")) {
    Parameter p;
    p.stars = accept_op("**") ? 2 : accept_op("*") ? 1 : 0;
    p.position = peek().position;
    p.name = identifier();
    if (accept_op("=")) p.default_value = expression();
    for (const Parameter& other : def->parameters) {
      if (other.name == p.name) fail(p.position, fmt::format("duplicate argument '{}' in function definition", p.name));
    }
    def->parameters.push_back(std::move(p));
    if (!accept_op(",")) break;
  }
  expect_op(":");
  const Position body = peek().position;
  def->body.push_back(std::make_shared<const Stmt>(Stmt{body, Return{expression()}}));
  return make(here, Lambda{std::move(def)});
}

ExprPtr ExpressionParser::or_test() {
  const Position here = peek().position;
  ExprPtr e = and_test();
  while (accept_word("or")) e = make(here, BoolOp{false, e, and_test()});
  return e;
}
ExprPtr ExpressionParser::and_test() {
  const Position here = peek().position;
  ExprPtr e = not_test();
  while (accept_word("and")) e = make(here, BoolOp{true, e, not_test()});
  return e;
}
ExprPtr ExpressionParser::not_test() {
  const Position here = peek().position;
  if (!at_word("not")) return comparison();
  const Nest nest(*this);
  ++at_;
  return make(here, Unary{UnaryOp::kNot, not_test()});
}

ExprPtr ExpressionParser::comparison() {
  const Position here = peek().position;
  ExprPtr first = bitwise(0);
  Compare node;
  while (true) {
    static constexpr std::pair<std::string_view, CompareOp> kCompare[] = {
        {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
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

ExprPtr ExpressionParser::bitwise(int level) {
  if (level > kTightestLevel) return unary();
  const Position here = peek().position;
  ExprPtr e = bitwise(level + 1);
  while (at(TokenKind::kOperator)) {
    const auto* row = std::find_if(std::begin(kBinary), std::end(kBinary),
                                   [&](const BinaryLevel& b) { return b.level == level && b.text == peek().text; });
    if (row == std::end(kBinary)) break;
    ++at_;
    e = make(here, Binary{row->op, e, bitwise(level + 1)});
  }
  return e;
}

ExprPtr ExpressionParser::unary() {
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

ExprPtr ExpressionParser::postfix() {
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

ExprPtr ExpressionParser::subscript() {
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

ExprPtr ExpressionParser::call(ExprPtr callee, Position here) {
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

ExprPtr ExpressionParser::comprehension(ExprPtr element) {
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

ExprPtr ExpressionParser::atom() {
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
      if (token.text == "await" || token.text == "yield") {
        const bool is_await = token.text == "await";
        ++at_;
        const bool from = !is_await && accept_word("from");
        if (starts_expression()) expression();
        return make(here, UnsupportedExpr{is_await ? "Await" : from ? "YieldFrom" : "Yield"});
      }
      return make(here, Name{identifier()});
    }
    case TokenKind::kOperator:
      if (token.text == "(") return parenthesised(here);
      if (token.text == "[") return list(here);
      if (token.text == "{") return dict(here);
      [[fallthrough]];
    default:
      fail("invalid syntax");
  }
}

ExprPtr ExpressionParser::parenthesised(Position here) {
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

ExprPtr ExpressionParser::list(Position here) {
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

ExprPtr ExpressionParser::dict(Position here) {
  const Nest nest(*this);
  expect_op("{");
  DictDisplay node;
  while (!at_op("}")) {
    ExprPtr key = expression();
    if (!at_op(":")) return skip_braces(here, at_word("for") ? "SetComp" : "Set");
    ++at_;
    node.items.emplace_back(std::move(key), expression());
    if (at_word("for")) return skip_braces(here, "DictComp");
    if (!accept_op(",")) break;
  }
  expect_op("}");
  return make(here, std::move(node));
}

// The rest of a display that nobody supports, up to its brace; whoever evaluates it reports it by name.
ExprPtr ExpressionParser::skip_braces(Position here, std::string node) {
  for (int depth = 1; depth > 0; ++at_) {
    if (at(TokenKind::kEnd)) fail("invalid syntax: expected '}'");
    if (at_op("{")) ++depth;
    if (at_op("}")) --depth;
  }
  return make(here, UnsupportedExpr{std::move(node)});
}

// Adjacent literals are one string.
ExprPtr ExpressionParser::strings(Position here) {
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

void ExpressionParser::fstring(const Token& token, std::string* plain, FString* node,
                               const std::function<void(Position)>& flush) {
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
        } else if (depth == 0 &&
                   (e == '}' || e == ':' || (e == '!' && (end + 1 >= raw.size() || raw[end + 1] != '=')))) {
          break;
        }
      }
      if (end >= raw.size()) fail(token.position, "f-string: expecting '}'");
      if (raw[end] != '}') {
        // Reported by whoever evaluates it: a file may hold functions that no kernel calls.
        for (int open = 0; end < raw.size() && (open > 0 || raw[end] != '}'); ++end)
          open += raw[end] == '{' ? 1 : raw[end] == '}' ? -1 : 0;
        if (end >= raw.size()) fail(token.position, "f-string: expecting '}'");
        node->parts.push_back(make(token.position, UnsupportedExpr{"FormattedValue"}));
        i = end;
        continue;
      }
      if (fstring_nesting_ >= kMaxFStringNesting) fail(token.position, "f-string: nested too deeply");
      const std::string text = raw.substr(i + 1, end - i - 1);
      ExpressionParser nested(file_, tokenize(file_, text, token.position, true, diagnostics_), diagnostics_, nesting_,
                              fstring_nesting_ + 1);
      node->parts.push_back(nested.lone_expression());
      i = end;
    } else {
      literal += c;
    }
  }
  decode();
}

}  // namespace aipu::dsl
