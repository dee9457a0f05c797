#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/text.h"
#include "codegen/tir/text_names.h"
#include "codegen/tir/text_scanner.h"

namespace aipu::tir {
namespace {

// A recursive-descent parser.
class Parser : private TextScanner {
 public:
  Parser(std::string_view text, Meter* meter) : TextScanner(text), meter_(meter) {}

  Result<Module> module() {
    Module result;
    skip_space();
    while (ok() && pos_ < text_.size()) {
      PrimFuncPtr function = prim_func();
      if (!ok()) break;
      if (!functions_.insert(function->name).second) {
        fail(fmt::format("function '{}' is defined twice", function->name));
        break;
      }
      result.functions.push_back(std::move(function));
    }
    if (ok() && result.functions.empty()) fail("expected 'func'");
    if (!ok()) return error_;
    return result;
  }

 private:
  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxTextDepth) parser.fail(fmt::format("nested deeper than {} levels", kMaxTextDepth));
      // There is a node for each level that is entered, here with what points to it.
      parser.take(std::max(sizeof(ExprNode), sizeof(StmtNode)) + 4 * sizeof(Expr));
    }
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  void take(size_t bytes) {
    if (meter_ == nullptr || !ok()) return;
    error_ = meter_->take(static_cast<int64_t>(bytes));
    if (ok()) error_ = meter_->check_time_often();
    if (!ok()) pos_ = text_.size();
  }

  // ---- types and variables ----

  Type type() {
    static constexpr std::pair<std::string_view, Scope> kScopes[] = {
        {"global.1", Scope::kGlobal1}, {"global.2", Scope::kGlobal2}, {"global.3", Scope::kGlobal3},
        {"global", Scope::kGlobal},    {"lsram", Scope::kLsram},      {"shared", Scope::kShared},
        {"private", Scope::kPrivate},  {"constant", Scope::kConstant}};
    Type result;
    bool scoped = false;
    for (const auto& [scope_text, scope] : kScopes) {
      if (text_.substr(pos_, scope_text.size()) != scope_text) continue;
      pos_ += scope_text.size();
      skip_space();
      result.scope = scope;
      scoped = true;
      break;
    }
    const std::string_view text = word();
    if (!ok()) return result;
    std::string_view element = text;
    size_t digits = text.size();
    while (digits > 0 && is_digit(text[digits - 1])) --digits;
    if (digits > 1 && digits < text.size() && text[digits - 1] == 'x') {
      element = text.substr(0, digits - 1);
      const auto [stop, code] = std::from_chars(text.data() + digits, text.data() + text.size(), result.lanes);
      if (code != std::errc() || result.lanes < 0) fail("bad number of lanes");
    }
    const std::optional<DType> dtype = parse_dtype(element);
    if (!dtype || dtype_info(*dtype).kind == 'q') {
      fail(fmt::format("unknown type '{}'", text));
      return result;
    }
    result.element = *dtype;
    if (scoped) {
      result.pointer = true;
      expect("*");
    }
    return result;
  }

  int variable_id() {
    std::string ignored = name();
    if (peek() != '#') {
      fail("expected a variable, name#number");
      return 0;
    }
    ++pos_;
    last_name_ = std::move(ignored);
    const int64_t id = integer();
    if (id < 0 || id > std::numeric_limits<int>::max()) fail("bad variable number");
    return static_cast<int>(id);
  }

  VarPtr declaration() {
    const int id = variable_id();
    if (!ok()) return nullptr;
    take(4 * sizeof(Var));  // and the entries of the tables that it is in
    if (!ok()) return nullptr;
    auto var = std::make_shared<Var>();
    var->name = last_name_;
    expect(":");
    var->type = type();
    var->restrict_ = accept_word("restrict");
    var->non_negative = accept_word("nonneg");
    if (ok() && !variables_.emplace(id, var).second) fail(fmt::format("variable #{} is declared twice", id));
    return var;
  }

  VarPtr reference() {
    const int id = variable_id();
    if (!ok()) return nullptr;
    const auto found = variables_.find(id);
    if (found == variables_.end()) {
      fail(fmt::format("variable {}#{} is used before its declaration", last_name_, id));
      return nullptr;
    }
    if (found->second->name != last_name_)
      fail(fmt::format("variable #{} is called '{}', not '{}'", id, found->second->name, last_name_));
    return found->second;
  }

  // ---- expressions ----

  std::vector<Expr> list(char close) {
    std::vector<Expr> result;
    while (ok() && peek() != close) {
      if (!result.empty() && !expect(",")) break;
      result.push_back(expr());
    }
    return result;
  }

  static Expr typed(decltype(ExprNode::node) node, Type type = {}) {
    ExprNode untyped{type, {}, std::move(node)};
    untyped.type = implied_type(untyped);
    return make_expr(untyped.type, std::move(untyped.node));
  }

  // The ":type" of a number follows it directly; the ':' of a select comes after a space.
  DType literal_type(DType usual) {
    if (peek() == ':') {
      ++pos_;
      return type().element;
    }
    skip_space();
    return usual;
  }

  // A number with its optional ":type".
  // "4T4F":boolx8
  Expr mask(const std::string& runs) {
    constexpr size_t kMaxLanes = 1 << 16;
    VectorLiteral literal;
    for (size_t i = 0; i < runs.size();) {
      size_t count = 0;
      const auto [stop, code] = std::from_chars(runs.data() + i, runs.data() + runs.size(), count);
      i = static_cast<size_t>(stop - runs.data());
      const char letter = i < runs.size() ? runs[i++] : '\0';
      if (code != std::errc() || (letter != 'T' && letter != 'F') || count > kMaxLanes - literal.lanes.size()) {
        fail("bad mask");
        return nullptr;
      }
      literal.lanes.insert(literal.lanes.end(), count, bool_imm(letter == 'T'));
    }
    expect(":");
    const std::string_view name = word();
    if (literal.lanes.empty() || name != Type::vector(DType::kBool, static_cast<int>(literal.lanes.size())).text())
      fail(fmt::format("the mask \"{}\" is no {}", runs, name));
    return ok() ? typed(std::move(literal)) : nullptr;
  }

  Expr number() {
    size_t end = pos_;
    bool floating = false;
    double value = 0;
    if (peek() == '-') ++end;
    const std::string_view rest = text_.substr(end);
    if (rest.starts_with("inf")) {
      floating = true;
      value = peek() == '-' ? -HUGE_VAL : HUGE_VAL;
      end += 3;
    } else if (rest.starts_with("nan(0x")) {
      floating = true;
      end += 6;
      uint64_t bits = 0;
      const auto [stop, code] = std::from_chars(text_.data() + end, text_.data() + text_.size(), bits, 16);
      end = static_cast<size_t>(stop - text_.data());
      value = std::bit_cast<double>(bits);
      if (code != std::errc() || !std::isnan(value) || end >= text_.size() || text_[end] != ')') {
        fail("bad nan");
        return nullptr;
      }
      ++end;
    } else if (rest.starts_with("nan")) {
      floating = true;
      value = std::bit_cast<double>(uint64_t{0x7ff8000000000000u});
      end += 3;
    } else {
      const size_t first = end;
      while (end < text_.size()) {
        const char c = text_[end];
        const bool sign = (c == '+' || c == '-') && end > first && text_[end - 1] == 'e';
        if (c == '.' || c == 'e') floating = true;
        if (!is_digit(c) && c != '.' && c != 'e' && !sign) break;
        ++end;
      }
      if (floating) {
        const auto [stop, code] = std::from_chars(text_.data() + pos_, text_.data() + end, value);
        if (code != std::errc() || stop != text_.data() + end) {
          fail("bad number");
          return nullptr;
        }
      } else {
        const int64_t integer_value = digits();
        const DType dtype = literal_type(DType::kI32);
        if (!ok()) return nullptr;
        if (!is_integer(dtype) && !is_bool(dtype)) {
          fail("an integer literal needs an integer type");
          return nullptr;
        }
        if (wrap_int(integer_value, dtype) != integer_value)
          fail(fmt::format("{} does not fit {}", integer_value, dtype_name(dtype)));
        return make_expr(Type::scalar(dtype), IntImm{integer_value});
      }
    }
    pos_ = end;
    const DType dtype = literal_type(DType::kF32);
    if (ok() && !is_floating(dtype)) fail("a floating literal needs a floating type");
    // NaNs keep their bits.
    return make_expr(Type::scalar(dtype), FloatImm{value == value ? round_float(value, dtype) : value});
  }

  std::optional<BinaryOp> binary_op() {
    // Longer symbols first.
    static constexpr BinaryOp kOps[] = {BinaryOp::kShl,   BinaryOp::kShr,    BinaryOp::kAnd, BinaryOp::kOr,
                                        BinaryOp::kEq,    BinaryOp::kNe,     BinaryOp::kLe,  BinaryOp::kGe,
                                        BinaryOp::kMin,   BinaryOp::kMax,    BinaryOp::kAdd, BinaryOp::kSub,
                                        BinaryOp::kMul,   BinaryOp::kDiv,    BinaryOp::kMod, BinaryOp::kBitAnd,
                                        BinaryOp::kBitOr, BinaryOp::kBitXor, BinaryOp::kLt,  BinaryOp::kGt};
    for (const BinaryOp op : kOps) {
      if (accept(binary_op_symbol(op))) return op;
    }
    return std::nullopt;
  }

  Expr parenthesized() {
    if (accept_word("type")) {
      const Type wanted = type();
      expect(":");
      const Expr inner = expr();
      expect(")");
      return ok() && inner ? make_expr(wanted, inner->node) : nullptr;
    }
    Expr lhs = expr();
    if (accept("?")) {
      Expr if_true = expr();
      expect(":");
      Expr if_false = expr();
      expect(")");
      return ok() ? typed(Select{std::move(lhs), std::move(if_true), std::move(if_false)}) : nullptr;
    }
    const std::optional<BinaryOp> op = binary_op();
    if (!op) {
      fail("expected an operator");
      return nullptr;
    }
    Expr rhs = expr();
    expect(")");
    return ok() ? typed(Binary{*op, std::move(lhs), std::move(rhs)}) : nullptr;
  }

  Type type_argument() {
    expect("<");
    const Type result = type();
    expect(">");
    return result;
  }

  Expr intrinsic() {
    const std::string_view intrinsic_name = word();
    const Intrinsic* intrinsic = ok() ? find_intrinsic(intrinsic_name) : nullptr;
    if (ok() && intrinsic == nullptr) fail(fmt::format("there is no intrinsic '{}'", intrinsic_name));
    const Type result = type_argument();
    IntrinsicCall call{intrinsic, {}, nullptr, nullptr, {}};
    expect("(");
    bool first = true;
    while (ok() && peek() != ')') {
      if (!first && !expect(",")) break;
      first = false;
      if (peek() == '.') {
        ++pos_;
        std::string key = name();
        expect("=");
        const int64_t value = integer();
        if (!call.attributes.empty() && call.attributes.back().first >= key) fail("attributes must be sorted by name");
        call.attributes.emplace_back(std::move(key), value);
      } else if (accept("mask=")) {
        call.mask = expr();
      } else if (accept("r=")) {
        call.pass_through = expr();
      } else {
        call.args.push_back(expr());
      }
    }
    expect(")");
    return ok() ? make_expr(result, std::move(call)) : nullptr;
  }

  Expr expr() {
    const Depth depth(*this);
    if (!ok()) return nullptr;
    const char c = peek();
    if (c == '(') {
      ++pos_;
      skip_space();
      return parenthesized();
    }
    if (c == '!' || c == '~') {
      ++pos_;
      skip_space();
      Expr operand = expr();
      return ok() ? typed(Unary{c == '!' ? UnaryOp::kNot : UnaryOp::kBitNot, std::move(operand)}) : nullptr;
    }
    if (c == '[') {
      ++pos_;
      skip_space();
      VectorLiteral literal{list(']')};
      expect("]");
      return ok() ? typed(std::move(literal)) : nullptr;
    }
    if (is_digit(c) || c == '-') return number();
    if (c == '"') {
      const size_t start = pos_;
      std::string value = string();
      if (peek() == ':') return mask(value);
      if (peek() != '#') return typed(StringImm{std::move(value)});
      pos_ = start;
      return variable();
    }
    const std::string_view head = peek_word();
    const char after = pos_ + head.size() < text_.size() ? text_[pos_ + head.size()] : '\0';
    if (after == '#') return variable();
    if (head == "true" || head == "false") {
      word();
      return bool_imm(head == "true");
    }
    if (head == "none") {
      word();
      return nullptr;
    }
    if (head == "inf" || head == "nan") return number();
    if (head == "S" && after == '.') {
      pos_ += 2;
      return intrinsic();
    }
    if (head == "cast") {
      word();
      const Type target = type_argument();
      expect("(");
      Expr operand = expr();
      expect(")");
      return ok() ? make_expr(target, Cast{std::move(operand)}) : nullptr;
    }
    if (head == "broadcast") {
      word();
      expect("<");
      const int64_t lanes = integer();
      if (lanes < 1 || lanes > std::numeric_limits<int32_t>::max()) fail("bad number of lanes");
      expect(">");
      expect("(");
      Expr scalar = expr();
      expect(")");
      return ok() ? typed(Broadcast{std::move(scalar)}, Type::vector(DType::kVoid, static_cast<int>(lanes))) : nullptr;
    }
    if (head == "load" || head == "lane") {
      word();
      expect("(");
      Expr base = expr();
      expect(",");
      Expr index = expr();
      expect(")");
      if (!ok()) return nullptr;
      return head == "load" ? typed(Load{std::move(base), std::move(index)})
                            : typed(LaneRead{std::move(base), std::move(index)});
    }
    if (head == "addr") {
      word();
      expect("(");
      VarPtr var = reference();
      expect(")");
      return ok() ? typed(AddressOf{std::move(var)}) : nullptr;
    }
    if (head == "call") {
      word();
      const Type result = type_argument();
      std::string callee = name();
      expect("(");
      std::vector<Expr> args = list(')');
      expect(")");
      return ok() ? make_expr(result, FunctionCall{std::move(callee), std::move(args)}) : nullptr;
    }
    fail("expected an expression");
    return nullptr;
  }

  Expr variable() {
    VarPtr var = reference();
    return ok() ? typed(VarRef{std::move(var)}) : nullptr;
  }

  // ---- statements ----

  SourceSpan span() {
    SourceSpan result;
    if (!accept("@")) return result;
    std::string file = string();
    if (!file_ || *file_ != file) file_ = std::make_shared<const std::string>(std::move(file));
    result.file = file_;
    expect(":");
    result.line = static_cast<int>(integer());
    expect(":");
    result.column = static_cast<int>(integer());
    return result;
  }

  Stmt braces(SourceSpan& at) {
    expect("{");
    at = span();
    std::vector<Stmt> statements;
    while (ok() && peek() != '}') {
      Stmt statement = stmt();
      if (ok()) statements.push_back(std::move(statement));
    }
    expect("}");
    return block(std::move(statements));
  }

  Stmt finish(decltype(StmtNode::node) node) {
    SourceSpan at = span();
    return make_stmt(std::move(node), std::move(at));
  }

  std::vector<std::byte> hex_data() {
    std::vector<std::byte> data;
    if (!expect("x\"")) return data;
    while (ok() && peek() != '"') {
      unsigned value = 0;
      const std::string_view digits = text_.substr(pos_, 2);
      if (digits.size() != 2 || std::from_chars(digits.data(), digits.data() + 2, value, 16).ptr != digits.data() + 2) {
        fail("bad hexadecimal data");
        break;
      }
      data.push_back(static_cast<std::byte>(value));
      pos_ += 2;
    }
    expect("\"");
    return data;
  }

  Stmt stmt() {
    const Depth depth(*this);
    if (!ok()) return nullptr;
    if (accept_word("let")) {
      // The value may not mention the variable, so it is declared after it has been parsed.
      const size_t start = pos_;
      VarPtr var = declaration();
      const auto declared = ok() ? last_declared(start) : 0;
      auto node = variables_.extract(declared);
      expect("=");
      Expr value = expr();
      if (node) variables_.insert(std::move(node));
      return finish(Define{std::move(var), std::move(value)});
    }
    if (accept_word("set")) {
      VarPtr var = reference();
      expect("=");
      Expr value = expr();
      return finish(Assign{std::move(var), std::move(value)});
    }
    if (accept_word("setlane")) {
      VarPtr var = reference();
      expect("[");
      Expr index = expr();
      expect("]");
      expect("=");
      Expr value = expr();
      return finish(LaneWrite{std::move(var), std::move(index), std::move(value)});
    }
    if (accept_word("store")) {
      Expr pointer = expr();
      expect("[");
      Expr index = expr();
      expect("]");
      expect("=");
      Expr value = expr();
      return finish(Store{std::move(pointer), std::move(index), std::move(value)});
    }
    if (accept_word("alloc")) {
      VarPtr buffer = declaration();
      expect("[");
      const int64_t count = integer();
      expect("]");
      std::vector<std::byte> data;
      if (accept("=")) data = hex_data();
      return finish(Alloc{std::move(buffer), count, std::move(data)});
    }
    if (accept_word("for")) {
      const std::string_view kind_name = word();
      size_t kind = 0;
      while (kind < std::size(kForKindNames) && kForKindNames[kind] != kind_name) ++kind;
      if (ok() && kind == std::size(kForKindNames)) fail(fmt::format("unknown kind of loop '{}'", kind_name));
      const size_t start_of_var = pos_;
      VarPtr var = declaration();
      auto node = variables_.extract(ok() ? last_declared(start_of_var) : 0);
      expect("=");
      Expr start = expr();
      if (ok() && !accept_word("to")) fail("expected 'to'");
      Expr stop = expr();
      if (ok() && !accept_word("step")) fail("expected 'step'");
      Expr step = expr();
      if (node) variables_.insert(std::move(node));
      SourceSpan at;
      Stmt body = braces(at);
      return make_stmt(For{std::move(var), std::move(start), std::move(stop), std::move(step),
                           static_cast<ForKind>(kind), std::move(body)},
                       std::move(at));
    }
    if (accept_word("while")) {
      Expr condition = expr();
      SourceSpan at;
      Stmt body = braces(at);
      return make_stmt(While{std::move(condition), std::move(body)}, std::move(at));
    }
    if (accept_word("if")) {
      Expr condition = expr();
      SourceSpan at, ignored;
      Stmt then_body = braces(at);
      Stmt else_body = accept_word("else") ? braces(ignored) : nullptr;
      return make_stmt(If{std::move(condition), std::move(then_body), std::move(else_body)}, std::move(at));
    }
    if (accept_word("eval")) return finish(Evaluate{expr()});
    if (accept_word("return")) {
      Expr value;
      // Nothing that follows a statement starts an expression, except a variable that a keyword of a statement can't
      // be.
      if (peek() != '}' && peek() != '@' && !at_statement()) value = expr();
      return finish(Return{std::move(value)});
    }
    if (accept_word("break")) return finish(Break{});
    if (accept_word("block")) {
      SourceSpan at;
      Stmt body = braces(at);
      return make_stmt(Block{body->as<Block>()->body}, std::move(at));
    }
    if (accept_word("comment")) return finish(Comment{string()});
    fail("expected a statement");
    return nullptr;
  }

  bool at_statement() const {
    static constexpr std::string_view kStatements[] = {"let", "set",  "setlane", "store", "alloc", "for",    "while",
                                                       "if",  "eval", "return",  "break", "block", "comment"};
    const std::string_view head = peek_word();
    const size_t end = pos_ + head.size();
    if (end < text_.size() && text_[end] == '#') return false;
    for (const std::string_view statement : kStatements) {
      if (head == statement) return true;
    }
    return false;
  }

  // The number of the variable whose declaration starts at `start`.
  int last_declared(size_t start) {
    const size_t resume = pos_;
    pos_ = start;
    const int id = variable_id();
    pos_ = resume;
    return id;
  }

  PrimFuncPtr prim_func() {
    variables_.clear();
    auto function = std::make_shared<PrimFunc>();
    if (!accept_word("func")) {
      fail("expected 'func'");
      return nullptr;
    }
    function->name = name();
    expect("(");
    while (ok() && peek() != ')') {
      if (!function->params.empty() && !expect(",")) break;
      function->params.push_back(declaration());
    }
    expect(")");
    expect("->");
    function->return_type = type();
    if (accept_word("inline")) function->inline_hint = InlineHint::kInline;
    if (accept_word("noinline")) function->inline_hint = InlineHint::kNoInline;
    SourceSpan ignored;
    function->body = braces(ignored);
    return function;
  }

  Meter* meter_;
  int depth_ = 0;
  std::unordered_set<std::string> functions_;
  std::string last_name_;
  std::unordered_map<int, VarPtr> variables_;
  std::shared_ptr<const std::string> file_;
};

}  // namespace

Result<Module> parse_module(std::string_view text, Meter* meter) { return Parser(text, meter).module(); }

}  // namespace aipu::tir
