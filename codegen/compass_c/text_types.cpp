#include <fmt/format.h>

#include <cmath>

#include "codegen/c_spelling/c_names.h"
#include "codegen/compass_c/text_printer.h"

namespace aipu::tir::c_text {
namespace {

const std::set<std::string, std::less<>>& keywords() {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> all = {
        "auto",   "break",      "case",       "char",      "const",    "continue", "default", "do",     "double",
        "else",   "enum",       "extern",     "float",     "for",      "goto",     "if",      "inline", "int",
        "long",   "register",   "restrict",   "return",    "short",    "signed",   "sizeof",  "static", "struct",
        "switch", "typedef",    "union",      "unsigned",  "void",     "volatile", "while",   "bool",   "half",
        "bf16",   "uchar",      "ushort",     "uint",      "ulong",    "true",     "false",   "kernel", "global",
        "local",  "constant",   "private",    "asm",       "INFINITY", "NAN",      "barrier", "printf", "min",
        "max",    "ALL_TRUE_w", "ALL_TRUE_h", "ALL_TRUE_b"};
    for (const char* base : {"char", "uchar", "short", "ushort", "int", "uint", "half", "bf16", "float", "bool"}) {
      for (const int lanes : {8, 16, 32}) all.insert(fmt::format("{}{}", base, lanes));
    }
    return all;
  }();
  return names;
}

}  // namespace

std::string type_name(const Type& type) {
  std::string text(type.pointer ? scope_qualifier(type.scope) : "");
  text += c_element(type.element);
  if (type.lanes > 1) text += std::to_string(type.lanes);
  if (type.pointer) text += "*";
  return text;
}

std::string number(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  if (dtype == DType::kI32) return value == INT32_MIN ? "(int)-2147483648" : std::to_string(value);
  if (dtype == DType::kU64) return fmt::format("(ulong){}", static_cast<uint64_t>(value));
  return fmt::format("({}){}", c_element(dtype), value);
}

std::string number(double value, DType dtype) {
  std::string text;
  if (std::isnan(value))
    text = "NAN";
  else if (std::isinf(value))
    text = value < 0 ? "-INFINITY" : "INFINITY";
  else
    text = fmt::format("{:a}{}/*{:e}*/", value, dtype == DType::kF64 ? "" : "f", value);
  return dtype == DType::kF32 || dtype == DType::kF64 ? text : fmt::format("({}){}", c_element(dtype), text);
}

std::string quoted(const std::string& value) {
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

std::string valid_identifier(std::string_view name) {
  std::string text;
  for (const char c : name)
    text += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ? c : '_';
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) text.insert(0, "v");
  if (keywords().contains(text)) text += "_";
  return text;
}

}  // namespace aipu::tir::c_text
