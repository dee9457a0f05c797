#include <fmt/format.h>

#include <cmath>

#include "codegen/compass_c/text/text_printer.h"

namespace aipu::tir::c_text {
namespace {

std::string_view element_name(DType element) {
  switch (element) {
    case DType::kVoid:
      return "void";
    case DType::kBool:
      return "bool";
    case DType::kI8:
    case DType::kString:
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
  }
  return "void";
}

const std::set<std::string, std::less<>>& keywords() {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> all = {
        "auto",     "break",   "case",     "char",   "const",  "continue",   "default",    "do",        "double",  "else",
        "enum",     "extern",  "float",    "for",    "goto",   "if",         "inline",     "int",       "long",    "register",
        "restrict", "return",  "short",    "signed", "sizeof", "static",     "struct",     "switch",    "typedef", "union",
        "unsigned", "void",    "volatile", "while",  "bool",   "half",       "bf16",       "uchar",     "ushort",  "uint",
        "ulong",    "true",    "false",    "kernel", "global", "local",      "constant",   "private",   "asm",     "INFINITY",
        "NAN",      "barrier", "printf",   "min",    "max",    "ALL_TRUE_w", "ALL_TRUE_h", "ALL_TRUE_b"};
    for (const char* base : {"char", "uchar", "short", "ushort", "int", "uint", "half", "bf16", "float", "bool"}) {
      for (const int lanes : {8, 16, 32}) all.insert(fmt::format("{}{}", base, lanes));
    }
    return all;
  }();
  return names;
}

}  // namespace

std::string scope_qualifier(Scope scope) {
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

std::string type_name(const Type& type) {
  std::string text = type.pointer ? scope_qualifier(type.scope) : "";
  text += element_name(type.element);
  if (type.lanes > 1) text += std::to_string(type.lanes);
  if (type.pointer) text += "*";
  return text;
}

std::string number(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  if (dtype == DType::kI32) return value == INT32_MIN ? "(int)-2147483648" : std::to_string(value);
  if (dtype == DType::kU64) return fmt::format("(ulong){}", static_cast<uint64_t>(value));
  return fmt::format("({}){}", element_name(dtype), value);
}

std::string number(double value, DType dtype) {
  std::string text;
  if (std::isnan(value))
    text = "NAN";
  else if (std::isinf(value))
    text = value < 0 ? "-INFINITY" : "INFINITY";
  else
    text = fmt::format("{:a}{}/*{:e}*/", value, dtype == DType::kF64 ? "" : "f", value);
  return dtype == DType::kF32 || dtype == DType::kF64 ? text : fmt::format("({}){}", element_name(dtype), text);
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
  for (const char c : name) text += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ? c : '_';
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) text.insert(0, "v");
  if (keywords().contains(text)) text += "_";
  return text;
}

}  // namespace aipu::tir::c_text
