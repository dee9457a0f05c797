#include "codegen/c_spelling/c_names.h"

#include <fmt/format.h>

#include <cmath>

#include "codegen/c_spelling/call_spellings.h"

namespace aipu::tir {

std::string_view c_element(DType element) {
  switch (element) {
    case DType::kVoid:
      return "void";
    case DType::kBool:
      return "bool";
    case DType::kI8:
      return "char";
    case DType::kU8:
      return "uchar";
    case DType::kI16:
      return "short";
    case DType::kU16:
      return "ushort";
    case DType::kI32:
      return "int";
    case DType::kU32:
      return "uint";
    case DType::kI64:
      return "long";
    case DType::kU64:
      return "ulong";
    case DType::kF16:
      return "half";
    case DType::kBF16:
      return "bf16";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kString:
      return "char";
    default:
      break;
  }
  return "void";
}

std::string_view scope_qualifier(Scope scope) {
  switch (scope) {
    case Scope::kGlobal:
    case Scope::kGlobal1:
    case Scope::kGlobal2:
    case Scope::kGlobal3:
      return "__global ";
    case Scope::kLsram:
      return "__lsram ";
    case Scope::kShared:
      return "__local ";
    case Scope::kPrivate:
      return "";
    case Scope::kConstant:
      return "__constant ";
  }
  return "";
}

std::string c_type(const Type& type) {
  std::string text(type.pointer ? scope_qualifier(type.scope) : "");
  text += c_element(type.element);
  if (type.lanes > 1) text += std::to_string(type.lanes);
  if (type.pointer) text += "*";
  return text;
}

std::string c_number(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  if (dtype == DType::kI32) return value == INT32_MIN ? "(int)-2147483648" : std::to_string(value);
  // Beyond long a number needs to be told that it is unsigned.
  if (dtype == DType::kU64) return fmt::format("(ulong){}{}", static_cast<uint64_t>(value), value < 0 ? "u" : "");
  if (value == INT64_MIN) return "(long)(-9223372036854775807 - 1)";
  return fmt::format("({}){}", c_element(dtype), value);
}

std::string c_number(double value, DType dtype) {
  std::string text;
  if (std::isnan(value))
    text = "NAN";
  else if (std::isinf(value))
    text = value < 0 ? "-INFINITY" : "INFINITY";
  else
    text = fmt::format("{:a}{}/*{:e}*/", value, dtype == DType::kF64 ? "" : "f", value);
  const bool typed = dtype == DType::kF32 || (dtype == DType::kF64 && std::isfinite(value));
  return typed ? text : fmt::format("({}){}", c_element(dtype), text);
}

std::string c_string(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\')
      text += fmt::format("\\{}", c);
    else if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (c < ' ' || c > '~')
      text += fmt::format("\\{:03o}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      text += c;
  }
  return text + "\"";
}

std::string all_true(int lanes) {
  return lanes == 8 ? "ALL_TRUE_w" : lanes == 16 ? "ALL_TRUE_h" : lanes == 32 ? "ALL_TRUE_b" : "ALL_TRUE";
}

namespace {

// Keywords of C, types of vectors, constants. What calls are spelled with is added by their rows.
const std::set<std::string, std::less<>>& words_of_c() {
  static const std::set<std::string, std::less<>> words = [] {
    std::set<std::string, std::less<>> all = {
        "auto",    "break",    "case",    "char",     "const",      "continue",   "default",   "do",
        "double",  "else",     "enum",    "extern",   "float",      "for",        "goto",      "if",
        "inline",  "int",      "long",    "register", "restrict",   "return",     "short",     "signed",
        "sizeof",  "static",   "struct",  "switch",   "typedef",    "union",      "unsigned",  "void",
        "while",   "volatile", "bool",    "half",     "bf16",       "uchar",      "ushort",    "uint",
        "ulong",   "true",     "false",   "asm",      "private",    "INFINITY",   "NAN",       "CLK_LOCAL_MEM_FENCE",
        "kGlobal", "kLsram",   "kShared", "ALL_TRUE", "ALL_TRUE_w", "ALL_TRUE_h", "ALL_TRUE_b"};
    for (const char* base : {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bf16",
                             "float", "double", "bool"}) {
      for (const int lanes : {2, 4, 8, 16, 32, 64}) all.insert(fmt::format("{}{}", base, lanes));
    }
    all.merge(spelling_words());
    return all;
  }();
  return words;
}

}  // namespace

std::set<std::string, std::less<>> with_cxx_words(std::set<std::string, std::less<>> words) {
  for (const char* word : {"alignas",
                           "alignof",
                           "and",
                           "and_eq",
                           "bitand",
                           "bitor",
                           "case",
                           "catch",
                           "char16_t",
                           "char32_t",
                           "char8_t",
                           "class",
                           "co_await",
                           "co_return",
                           "co_yield",
                           "compl",
                           "concept",
                           "const",
                           "const_cast",
                           "consteval",
                           "constexpr",
                           "constinit",
                           "continue",
                           "decltype",
                           "default",
                           "delete",
                           "dynamic_cast",
                           "explicit",
                           "export",
                           "friend",
                           "mutable",
                           "namespace",
                           "new",
                           "noexcept",
                           "not",
                           "not_eq",
                           "nullptr",
                           "operator",
                           "or",
                           "or_eq",
                           "protected",
                           "public",
                           "requires",
                           "static_assert",
                           "static_cast",
                           "template",
                           "this",
                           "thread_local",
                           "throw",
                           "try",
                           "typeid",
                           "typename",
                           "typeof",
                           "using",
                           "virtual",
                           "wchar_t",
                           "xor",
                           "xor_eq",
                           "linux",
                           "unix",
                           "reinterpret_cast"})
    words.insert(word);
  return words;
}

std::string c_identifier(std::string_view name, const std::set<std::string, std::less<>>& reserved) {
  std::string text;
  for (const char c : name)
    text += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ? c : '_';
  // Two underscores in front are the prelude's.
  if (text.empty() || (text[0] >= '0' && text[0] <= '9') || text.starts_with("__")) text.insert(0, "v");
  if (words_of_c().contains(text) || reserved.contains(text)) text += "_";
  return text;
}

}  // namespace aipu::tir
