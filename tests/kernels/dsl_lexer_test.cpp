// Tokens, literals, syntax errors, mask strings and type rules: the pieces below the compiler.
#include <gtest/gtest.h>

#include "kernels/dsl/lexer.h"
#include "kernels/dsl/mask_text.h"
#include "kernels/dsl/parser.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

std::string tokens_of(const std::string& text) {
  Diagnostics diagnostics;
  const SourceFilePtr file = make_source_file("t.py", text, 1);
  std::string out;
  try {
    for (const Token& t : tokenize(file, file->text, {1, 1}, false, diagnostics)) {
      switch (t.kind) {
        case TokenKind::kNewline:
          out += "NL ";
          break;
        case TokenKind::kIndent:
          out += "IN ";
          break;
        case TokenKind::kDedent:
          out += "DE ";
          break;
        case TokenKind::kEnd:
          out += "END";
          break;
        case TokenKind::kString:
          out += "'" + t.text + "' ";
          break;
        default:
          out += t.text + " ";
      }
    }
  } catch (const Diagnosed&) {
    return diagnostics.status().message();
  }
  return out;
}

TEST(DslLexer, IndentationAndLineJoining) {
  EXPECT_EQ(tokens_of("if a:\n    b\n\n    # comment\n  # odd comment\n    c\nd"),
            "if a : NL IN b NL c NL DE d NL END");
  EXPECT_EQ(tokens_of("x = (1,\n   2)\ny = a \\\n  + b\n"), "x = ( 1 , 2 ) NL y = a + b NL END");
  EXPECT_EQ(tokens_of("if a:\n\tb\n        c\n"), "if a : NL IN b NL c NL DE END");
  // a function cut out of a class
  EXPECT_EQ(tokens_of("    def f():\n        pass\n"), "def f ( ) : NL IN pass NL DE END");
  EXPECT_NE(tokens_of("if a:\n    b\n  c\n").find("unindent does not match any outer indentation level"),
            std::string::npos);
}

TEST(DslLexer, Strings) {
  EXPECT_EQ(tokens_of(R"('a\n\x41\u00e9' "b\"" r'\d' """c
d""")"),
            "'a\nA\xC3\xA9' 'b\"' '\\d' 'c\nd' NL END");
  EXPECT_NE(tokens_of("'abc\n").find("unterminated string literal"), std::string::npos);
  EXPECT_NE(tokens_of("'\\xg0'").find("invalid escape"), std::string::npos);
}

TEST(DslLexer, Numbers) {
  Diagnostics diagnostics;
  const SourceFilePtr file = make_source_file("t.py", "0x1F 0b101 0o17 1_000 1.5 .5 1e-3 2. 9223372036854775807", 1);
  const auto tokens = tokenize(file, file->text, {1, 1}, false, diagnostics);
  EXPECT_EQ(tokens[0].integer, 31);
  EXPECT_EQ(tokens[1].integer, 5);
  EXPECT_EQ(tokens[2].integer, 15);
  EXPECT_EQ(tokens[3].integer, 1000);
  EXPECT_EQ(tokens[4].real, 1.5);
  EXPECT_EQ(tokens[5].real, 0.5);
  EXPECT_EQ(tokens[6].real, 1e-3);
  EXPECT_EQ(tokens[7].real, 2.0);
  EXPECT_EQ(tokens[8].integer, INT64_MAX);
  EXPECT_NE(tokens_of("9223372036854775808").find("does not fit 64 bits"), std::string::npos);
  EXPECT_NE(tokens_of("0x").find("invalid number"), std::string::npos);
  EXPECT_NE(tokens_of("12ab").find("invalid number"), std::string::npos);
  EXPECT_NE(tokens_of("012").find("leading zeros"), std::string::npos);
}

struct SyntaxCase {
  const char* source;
  const char* message;
  int line, column;
};

TEST(DslParser, SyntaxErrorsPointToTheirPlace) {
  const SyntaxCase cases[] = {
      {"x = = 3\n", "invalid syntax", 1, 5},
      {"def f(a, a):\n    pass\n", "duplicate argument 'a' in function definition", 1, 10},
      {"def f(a=1, b):\n    pass\n", "parameter without a default follows parameter with a default", 1, 12},
      {"def f():\npass\n", "expected an indented block", 2, 1},
      {"x = (1, 2\n", "'(' was never closed", 1, 5},
      {"x = 1)\n", "unmatched ')'", 1, 6},
      {"x = (1]\n", "closing ']' does not match opening '('", 1, 7},
      {"1 = x\n", "cannot assign to this expression", 1, 1},
      {"x = $\n", "invalid character '$'", 1, 5},
      {"    x = 1\n  y = 2\n", "unindent does not match any outer indentation level", 2, 3},
      {"x = 1\n    y = 2\n", "unexpected indent", 2, 5},
      {"x = f'{a'\n", "f-string: expecting '}'", 1, 5},
      {"x = f'{a:>{b'\n", "f-string: expecting '}'", 1, 5},
      {"x = {1, 2\n", "'{' was never closed", 1, 5},
      {"@dec\nx = 1\n", "invalid syntax: expected 'def'", 2, 1},
  };
  for (const SyntaxCase& c : cases) {
    Diagnostics diagnostics;
    EXPECT_THROW(parse_source(make_source_file("t.py", c.source, 1), diagnostics), Diagnosed) << c.source;
    const std::string message = diagnostics.status().message();
    EXPECT_EQ(message.substr(0, message.find('\n')), c.message) << c.source;
    EXPECT_NE(message.find(" --> t.py:" + std::to_string(c.line) + ":" + std::to_string(c.column) + "\n"),
              std::string::npos)
        << message;
  }
}

TEST(DslMasks, TextForms) {
  const auto lanes = [](std::string_view text) {
    const auto bits = parse_mask_text(text);
    if (!bits) return std::string("refused");
    std::string out;
    for (const bool b : *bits) out += b ? 'T' : 'F';
    return out;
  };
  EXPECT_EQ(lanes("TFFT"), "TFFT");
  EXPECT_EQ(lanes("3FT"), "FTFTFT");
  EXPECT_EQ(lanes("2TF4F"), "TFTFFFFF");
  EXPECT_EQ(lanes("F3T"), "FTTT");
  EXPECT_EQ(lanes("2T_FF"), "TTFF");
  EXPECT_EQ(lanes("8T"), "TTTTTTTT");
  EXPECT_EQ(lanes("8T_8F"), "TTTTTTTTFFFFFFFF");
  for (const char* bad :
       {"", "T", "_TT", "TT_", "T__F", "3", "3_T", "TX", "0T", "tt", "T3", "99999999999999999999T", "65535T65535F"})
    EXPECT_EQ(lanes(bad), "refused") << bad;
}

TEST(DslTypeRules, BinaryResults) {
  const auto result = [](const OperandType& l, const OperandType& r) {
    return std::string(dtype_name(binary_result_dtype(l, r)));
  };
  EXPECT_EQ(result(DType::kI8, int64_t{100}), "int8");
  EXPECT_EQ(result(DType::kI8, int64_t{200}), "int32");
  EXPECT_EQ(result(DType::kU8, int64_t{-1}), "int32");
  EXPECT_EQ(result(DType::kU32, int64_t{-1}), "uint32");
  EXPECT_EQ(result(DType::kI8, DType::kU8), "uint8");
  EXPECT_EQ(result(DType::kU8, DType::kI16), "int16");
  EXPECT_EQ(result(DType::kF16, int64_t{2}), "float16");
  EXPECT_EQ(result(DType::kF16, 2.0), "float32");
  EXPECT_EQ(result(2.0, DType::kBF16), "float32");
  EXPECT_EQ(result(DType::kI8, DType::kF16), "float16");
  EXPECT_EQ(result(DType::kI32, DType::kBF16), "bfloat16");
  EXPECT_EQ(result(DType::kF16, DType::kBF16), "float16");
  EXPECT_EQ(result(DType::kF32, DType::kBF16), "float32");
  EXPECT_EQ(result(int64_t{3}, int64_t{4}), "int32");
  EXPECT_EQ(result(int64_t{3}, 4.0), "float32");
  EXPECT_EQ(result(DType::kF64, 2.0), "float64");
  EXPECT_EQ(result(DType::kI64, int64_t{1} << 40), "int64");
  EXPECT_EQ(result(DType::kI32, int64_t{1} << 40), "int64");
}

TEST(DslTypeRules, UnsafeComparisons) {
  EXPECT_TRUE(unsafe_comparison(DType::kI32, DType::kU32));
  EXPECT_TRUE(unsafe_comparison(DType::kU16, DType::kI8));
  EXPECT_FALSE(unsafe_comparison(DType::kU8, DType::kI16));
  EXPECT_FALSE(unsafe_comparison(DType::kI32, DType::kI8));
  EXPECT_FALSE(unsafe_comparison(DType::kU32, DType::kF16));
}

TEST(DslTypeRules, TypeNames) {
  const auto name = [](std::string_view text) {
    const auto type = parse_type_text(text);
    return type ? type_text(*type) : std::string("refused");
  };
  EXPECT_EQ(name("fp16x64"), "float16x64");
  EXPECT_EQ(name("i32"), "int32");
  EXPECT_EQ(name("boolx8"), "boolx8");
  EXPECT_EQ(name("void"), "void");
  EXPECT_EQ(name("bfloat16x16"), "bfloat16x16");
  for (const char* bad :
       {"", "fp8x32", "int4", "i32x", "i32x0", "i32x08", "i32x-3", "voidx4", "string", "i32x99999999999", "x8"})
    EXPECT_EQ(name(bad), "refused") << bad;
}

}  // namespace
}  // namespace aipu::dsl
