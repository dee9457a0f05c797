// The text form of Dims and shapes.
#include <array>
#include <charconv>
#include <utility>

#include "graph/ir/dim.h"
#include "graph/ir/text.h"

namespace aipu::graph {
namespace {

constexpr std::array<std::pair<std::string_view, DimOp>, 8> kFunctions = {{{"floordiv", DimOp::kFloorDiv},
                                                                           {"ceildiv", DimOp::kCeilDiv},
                                                                           {"mod", DimOp::kMod},
                                                                           {"min", DimOp::kMin},
                                                                           {"max", DimOp::kMax},
                                                                           {"eq", DimOp::kEq},
                                                                           {"lt", DimOp::kLt},
                                                                           {"select", DimOp::kSelect}}};

std::optional<DimOp> function_of(std::string_view name) {
  for (const auto& [text, op] : kFunctions) {
    if (text == name) return op;
  }
  return std::nullopt;
}

void print(const Dim& dim, std::string* out);

void print_symbol(const std::string& name, std::string* out) {
  if (is_plain_word(name) && !function_of(name)) {
    *out += name;
  } else {
    *out += quoted(name);
  }
}

void print_factor(const Dim& dim, std::string* out) {
  if (dim.op() != DimOp::kAdd) return print(dim, out);
  *out += '(';
  print(dim, out);
  *out += ')';
}

void print(const Dim& dim, std::string* out) {
  switch (dim.op()) {
    case DimOp::kConstant:
      *out += std::to_string(*dim.constant());
      return;
    case DimOp::kSymbol:
      print_symbol(dim.symbol_name(), out);
      return;
    case DimOp::kMul: {
      bool first = true;
      for (const Dim& factor : dim.operands()) {
        if (first && factor == Dim(-1)) {
          *out += '-';
          continue;
        }
        if (!first) *out += '*';
        first = false;
        print_factor(factor, out);
      }
      return;
    }
    case DimOp::kAdd: {
      bool first = true;
      for (const Dim& term : dim.operands()) {
        std::string text;
        print(term, &text);
        if (first) {
          *out += text;
        } else if (text.starts_with('-') &&
                   !text.starts_with("-9223372036854775808")) {  // whose magnitude is not a number
          *out += " - ";
          out->append(text, 1);
        } else {
          *out += " + ";
          *out += text;
        }
        first = false;
      }
      return;
    }
    default:
      break;
  }
  for (const auto& [text, op] : kFunctions) {
    if (op == dim.op()) *out += text;
  }
  *out += '(';
  bool first = true;
  for (const Dim& operand : dim.operands()) {
    if (!first) *out += ", ";
    first = false;
    print(operand, out);
  }
  *out += ')';
}

// sum = product (("+" | "-") product)*, product = factor ("*" factor)*,
// factor = "-" factor | number | symbol | function "(" ... ")" | "(" sum ")"
class DimParser {
 public:
  explicit DimParser(TextReader& reader) : reader_(reader) {}

  Result<Dim> sum() {
    AIPU_ASSIGN_OR_RETURN(Dim result, product());
    while (true) {
      if (reader_.accept('+')) {
        AIPU_ASSIGN_OR_RETURN(const Dim more, product());
        result = result + more;
      } else if (reader_.accept('-')) {
        AIPU_ASSIGN_OR_RETURN(const Dim less, product());
        result = result - less;
      } else {
        return result;
      }
    }
  }

 private:
  Result<Dim> product() {
    AIPU_ASSIGN_OR_RETURN(Dim result, factor());
    while (reader_.accept('*')) {
      AIPU_ASSIGN_OR_RETURN(const Dim more, factor());
      result = result * more;
    }
    return result;
  }

  Result<Dim> factor() {
    if (depth_ >= 100) return reader_.error("the expression is nested too deeply");
    // Sums and products cost time in proportion to their length: a bound keeps hostile text from being quadratic.
    if (++factors_ > kMaxDimSize) return reader_.error("the expression is too long");
    ++depth_;
    auto result = factor_inside();
    --depth_;
    return result;
  }

  Result<Dim> factor_inside() {
    if (reader_.peek_number()) {
      AIPU_ASSIGN_OR_RETURN(const int64_t value, reader_.integer());
      return Dim(value);
    }
    if (reader_.accept('-')) {
      AIPU_ASSIGN_OR_RETURN(const Dim value, factor());
      return Dim(-1) * value;
    }
    if (reader_.accept('(')) {
      AIPU_ASSIGN_OR_RETURN(Dim result, sum());
      AIPU_RETURN_IF_ERROR(reader_.expect(')'));
      return result;
    }
    if (reader_.peek() == '"') {
      AIPU_ASSIGN_OR_RETURN(const std::string name, reader_.string());
      if (name.empty()) return reader_.error("a symbol's name may not be empty");
      return Dim::symbol(name);
    }
    AIPU_ASSIGN_OR_RETURN(const std::string name, reader_.word("a number, a symbol or a function"));
    const auto op = function_of(name);
    if (!op) return Dim::symbol(name);
    std::vector<Dim> arguments;
    AIPU_RETURN_IF_ERROR(reader_.expect('('));
    const size_t arity = *op == DimOp::kSelect ? 3 : 2;
    for (size_t k = 0; k < arity; ++k) {
      if (k > 0) AIPU_RETURN_IF_ERROR(reader_.expect(','));
      AIPU_ASSIGN_OR_RETURN(Dim argument, sum());
      arguments.push_back(std::move(argument));
    }
    AIPU_RETURN_IF_ERROR(reader_.expect(')'));
    switch (*op) {
      case DimOp::kFloorDiv:
        return floordiv(arguments[0], arguments[1]);
      case DimOp::kCeilDiv:
        return ceildiv(arguments[0], arguments[1]);
      case DimOp::kMod:
        return mod(arguments[0], arguments[1]);
      case DimOp::kMin:
        return min(arguments[0], arguments[1]);
      case DimOp::kMax:
        return max(arguments[0], arguments[1]);
      case DimOp::kEq:
        return eq(arguments[0], arguments[1]);
      case DimOp::kLt:
        return lt(arguments[0], arguments[1]);
      default:
        return select(arguments[0], arguments[1], arguments[2]);
    }
  }

  TextReader& reader_;
  int depth_ = 0;
  int factors_ = 0;
};

}  // namespace

Result<Dim> read_dim(TextReader& reader) { return DimParser(reader).sum(); }

Result<Shape> read_shape(TextReader& reader) {
  AIPU_RETURN_IF_ERROR(reader.expect('['));
  Shape shape;
  if (reader.accept(']')) return shape;
  do {
    AIPU_ASSIGN_OR_RETURN(Dim extent, read_dim(reader));
    shape.push_back(std::move(extent));
  } while (reader.accept(','));
  AIPU_RETURN_IF_ERROR(reader.expect(']'));
  return shape;
}

std::string Dim::text() const {
  std::string out;
  print(*this, &out);
  return out;
}

Result<Dim> Dim::parse(std::string_view text) {
  TextReader reader(text);
  AIPU_ASSIGN_OR_RETURN(Dim result, read_dim(reader));
  AIPU_RETURN_IF_ERROR(reader.expect_end());
  return result;
}

std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (size_t k = 0; k < shape.size(); ++k) {
    if (k > 0) out += ',';
    print(shape[k], &out);
  }
  return out + "]";
}

Result<Shape> parse_shape(std::string_view text) {
  TextReader reader(text);
  AIPU_ASSIGN_OR_RETURN(Shape result, read_shape(reader));
  AIPU_RETURN_IF_ERROR(reader.expect_end());
  return result;
}

}  // namespace aipu::graph
